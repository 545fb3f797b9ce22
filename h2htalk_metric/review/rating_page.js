// Gradio runs this once the page is there: `element` is the component, `server` calls the functions of rating_page.py.
// Everything is built from text nodes; nothing that comes from outside is parsed as HTML.
const root = element.querySelector(".review");
const storage = window.sessionStorage; // of this tab, so that two raters can work in two tabs
const state = { rater: null, items: [], item: null, marks: {}, comment: "", current: 0, open: new Set(), met: new Set() };
let lastCall = Promise.resolve(); // calls run one after the other, so a draft never overtakes a save
let commentTimer = null;
let leaving = 0; // above 0 while an item is saved or the next one is loaded: keys pressed then are ignored

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value !== null) node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

function call(name, request) {
  lastCall = lastCall.catch(() => {}).then(async () => {
    const reply = await server[name](request).catch(() => null);
    // If the program has ended, Gradio returns nothing and throws nothing.
    if (!reply) throw new Error("The page can't reach its program: your last step is not saved, all before it is. "
      + "Start the same command again, then reload.");
    if (reply.error) throw new Error(reply.error);
    return reply;
  });
  return lastCall;
}

function showMessage(text, kind = "fault") {
  const line = root.querySelector(".message");
  line.textContent = text;
  line.className = `message ${text ? kind : ""}`;
}

const guarded = (action) => (...args) => Promise.resolve(action(...args)).catch((error) => showMessage(error.message));

// Entering -----------------------------------------------------------------------------------------------------------

function askName() {
  const name = make("input", { type: "text", maxlength: 40, "aria-label": "Your name", autocomplete: "off" });
  const start = guarded(async (event) => {
    event.preventDefault();
    if (name.value.trim()) await enter(name.value);
  });
  root.replaceChildren(
    make("form", { class: "entry", onsubmit: start },
      make("h1", {}, "Review"),
      make("p", {}, "You will read answers of a companion next to a reference, and mark each answer by a rubric. "
        + "Mark the answer itself: the reference is one good answer, not the only one."),
      make("p", {}, "Every mark is stored at once and counts when you save the item. Come back under the same name to "
        + "continue where you stopped."),
      make("label", {}, "Your name", name),
      make("button", { class: "primary", type: "submit" }, "Start"),
      make("p", { class: "message", role: "status" })));
  name.focus();
}

async function enter(name) {
  const reply = await call("enter", { rater: name });
  Object.assign(state, reply);
  storage.setItem("rater", state.rater);
  const last = state.items.find((item) => item.id === storage.getItem("item"));
  await go((last || nextOpen() || state.items[0] || {}).id);
}

// Moving -------------------------------------------------------------------------------------------------------------

const place = () => state.items.findIndex((item) => item.id === state.item?.id);

function nextOpen() {
  const from = place() + 1;
  return [...state.items.slice(from), ...state.items.slice(0, from)].find((item) => !item.done);
}

async function whileLeaving(action) {
  leaving += 1;
  try {
    return await action();
  } finally {
    leaving -= 1;
  }
}

async function go(id) {
  keepComment();
  if (state.item) state.met.add(state.item.task);
  if (!id) return finish();
  const shown = await whileLeaving(() => call("show", { rater: state.rater, item: id }));
  Object.assign(state, { item: shown, marks: shown.marks, comment: shown.comment });
  state.current = Math.max(0, shown.criteria.findIndex((criterion) => !(criterion.name in shown.marks)));
  storage.setItem("item", id);
  draw();
  window.scrollTo(0, 0);
}

const step = guarded(async (by) => {
  const target = state.items[place() + by];
  if (target) await go(target.id);
});

function finish() {
  state.item = null;
  storage.removeItem("item");
  const done = state.items.length > 0;
  root.replaceChildren(header(),
    make("div", { class: "finished" },
      make("h2", {}, done ? "All marked. Thank you." : "Nothing to mark."),
      state.items.some((item) => item.changed)
        ? make("p", { class: "unsaved" }, "An item was changed and not saved, dashed above: choose it and save.")
        : null,
      make("p", {}, done
        ? "To correct an item, choose its number above. More may come later if two others disagree."
        : "Every item has the marks it needs.")));
}

// Marking ------------------------------------------------------------------------------------------------------------

function mark(name, level) {
  if (leaving) return;
  state.marks[name] = level;
  state.current = Math.min(state.item.criteria.findIndex((one) => one.name === name) + 1, state.item.criteria.length - 1);
  keep();
  drawRubric();
}

const keep = guarded(async () => {
  const entry = state.items[place()];
  const reply = await call("keep",
    { rater: state.rater, item: state.item.id, marks: { ...state.marks }, comment: state.comment });
  if (entry.changed === reply.changed) return;
  entry.changed = reply.changed;
  drawState();
});

function keepComment() {
  if (commentTimer === null) return;
  clearTimeout(commentTimer);
  commentTimer = null;
  keep();
}

const save = guarded(async () => {
  if (leaving) return;
  const missing = state.item.criteria.findIndex((criterion) => !(criterion.name in state.marks));
  if (missing >= 0) {
    state.current = missing;
    drawRubric();
    showMessage(`Still without a mark: ${words(state.item.criteria[missing].name)}`);
    return;
  }
  clearTimeout(commentTimer);
  commentTimer = null;
  const request = { rater: state.rater, item: state.item.id, marks: { ...state.marks }, comment: state.comment };
  await whileLeaving(async () => {
    state.items = (await call("save", request)).items;
    await go(nextOpen()?.id);
  });
});

function onKey(event) {
  if (!root.isConnected) return document.removeEventListener("keydown", onKey);
  if (!state.item || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  const focus = document.activeElement;
  const writing = focus?.tagName === "TEXTAREA";
  const key = event.key;
  if (writing && key === "Escape") return focus.blur();
  if (writing && (key !== "Enter" || event.shiftKey)) return;
  // Enter on a focused button or fold activates it.
  if (key === "Enter" && focus?.matches("summary, .strip button, .criteria button, .plain, .primary")) return;
  const criterion = state.item.criteria[state.current];
  const level = /^[0-9]$/.test(key) ? Number(key) : null;
  const actions = {
    Enter: save,
    ArrowDown: () => choose(state.current + 1),
    ArrowUp: () => choose(state.current - 1),
    ArrowLeft: () => step(-1),
    ArrowRight: () => step(1),
    c: () => root.querySelector("textarea").focus(),
    p: () => fold("Profile"),
    t: () => fold("Task"),
  };
  if (level !== null && criterion.levels.some(([value]) => value === level)) mark(criterion.name, level);
  else if (actions[key]) actions[key]();
  else return;
  event.preventDefault();
}

function choose(index) {
  state.current = Math.max(0, Math.min(index, state.item.criteria.length - 1));
  drawRubric();
}

function fold(title) {
  const part = [...root.querySelectorAll("details")].find((one) => one.dataset.title === title);
  if (part) part.open = !part.open;
}

// Drawing ------------------------------------------------------------------------------------------------------------

const words = (name) => (name.charAt(0).toUpperCase() + name.slice(1)).replaceAll("_", " ");

// Changed marks of a saved item are stored but do not count until they are saved; the rater must see that.
const stateOf = (item) => (item.changed ? "changed, not saved" : item.done ? "marked" : "");

function drawState() {
  const strip = root.querySelector(".strip");
  if (!strip) return; // the rater has left
  const scrolled = strip.scrollLeft;
  root.querySelector("header").replaceWith(header());
  root.querySelector(".strip").scrollLeft = scrolled;
  const line = root.querySelector(".unsaved");
  if (line) line.hidden = !state.items[place()]?.changed;
}

function header() {
  const done = state.items.filter((item) => item.done).length;
  const changed = state.items.filter((item) => item.changed).length;
  const strip = state.items.map((item, index) =>
    make("button", {
      type: "button",
      class: `${item.done ? "done" : ""} ${item.changed ? "changed" : ""} ${item.id === state.item?.id ? "here" : ""}`,
      "aria-label": [`Item ${index + 1}`, stateOf(item)].filter(Boolean).join(", "),
      title: stateOf(item) || null,
      "aria-current": item.id === state.item?.id ? "true" : null,
      onclick: guarded(() => go(item.id)),
    }, String(index + 1)));
  const leave = () => {
    if (leaving) return;
    keepComment();
    storage.clear();
    Object.assign(state, { rater: null, item: null });
    askName();
  };
  return make("header", {},
    make("div", { class: "line" },
      make("strong", {}, "Review"),
      make("span", { class: "keys" }, "number: mark · up, down: criterion · left, right: item"),
      make("progress", { max: state.items.length || 1, value: done, "aria-label": "Progress" }),
      make("span", { class: "count" }, `${done} of ${state.items.length} marked`
        + (changed ? `, ${changed} changed, not saved` : "")),
      make("span", { class: "rater" }, state.rater),
      make("button", { type: "button", class: "plain", onclick: leave }, "Leave")),
    make("nav", { class: "strip", "aria-label": "Items" }, ...strip));
}

// Long parts are folded: the profile stays as the rater left it, a task opens the first time.
function drawFold(part) {
  const open = part.title === "Task" ? !state.met.has(state.item.task) : state.open.has(part.title);
  const key = { Profile: "p", Task: "t" }[part.title];
  return make("details", {
    "data-title": part.title,
    open,
    ontoggle: (event) => state.open[event.target.open ? "add" : "delete"](part.title),
  },
  make("summary", {}, part.title, key ? make("kbd", {}, key) : null),
  make("div", { class: "text" }, part.text));
}

const drawText = (title, text, kind = "") =>
  make("section", { class: kind }, make("h2", {}, title), make("div", { class: "text" }, text));

function draw() {
  const { item } = state;
  root.replaceChildren(header(),
    make("div", { class: "desk" },
      make("div", { class: "reading" },
        make("p", { class: "task" }, item.task),
        make("div", { class: "folds" }, ...item.parts.filter((part) => part.folded).map(drawFold)),
        ...item.parts.filter((part) => !part.folded).map((part) => drawText(part.title, part.text)),
        make("div", { class: "pair" },
          drawText("Reference", item.reference),
          drawText("Answer to mark", item.answer.trim() ? item.answer : "(an empty answer)", "answer"))),
      make("aside", {},
        make("div", { class: "criteria", role: "tablist", "aria-label": "Criteria" }),
        make("div", { class: "rubric" }),
        make("label", { class: "comment" },
          make("span", {}, "Comment ", make("kbd", {}, "c")),
          make("textarea", { rows: 1, maxlength: 4000, oninput: onComment })),
        make("p", { class: "unsaved", role: "status", hidden: !state.items[place()]?.changed },
          "Changed, not saved: what you saved before counts until you save again."),
        make("p", { class: "message", role: "status" }),
        make("div", { class: "buttons" },
          make("button", { type: "button", class: "plain", onclick: () => step(-1) }, "Back"),
          make("button", { type: "button", class: "plain", onclick: () => step(1) }, "Forward"),
          make("button", { type: "button", class: "primary", onclick: save }, "Save and go on ", make("kbd", {}, "Enter"))))));
  root.querySelector("textarea").value = state.comment;
  root.querySelector(".strip .here")?.scrollIntoView({ block: "nearest", inline: "center" });
  drawRubric();
}

function onComment(event) {
  if (leaving) {
    event.target.value = state.comment;
    return;
  }
  state.comment = event.target.value;
  clearTimeout(commentTimer);
  commentTimer = setTimeout(keepComment, 400);
}

function drawRubric() {
  showMessage("");
  const { criteria } = state.item;
  root.querySelector(".criteria").replaceChildren(...criteria.map(({ name }, index) =>
    make("button", {
      type: "button", role: "tab", class: name in state.marks ? "marked" : null,
      "aria-selected": String(index === state.current), onclick: () => choose(index),
    }, words(name), make("b", {}, String(state.marks[name] ?? "\u2013")))));
  const { name, question, levels } = criteria[state.current];
  const level = ([value, meaning]) =>
    make("button", {
      type: "button", role: "radio", "aria-checked": String(state.marks[name] === value),
      onclick: () => mark(name, value),
    }, make("b", {}, String(value)), make("span", {}, meaning));
  root.querySelector(".rubric").replaceChildren(
    make("p", { class: "question" }, question),
    make("div", { class: "levels", role: "radiogroup", "aria-label": words(name) }, ...levels.map(level)));
}

document.addEventListener("keydown", onKey);
if (storage.getItem("rater")) enter(storage.getItem("rater")).catch(askName);
else askName();
