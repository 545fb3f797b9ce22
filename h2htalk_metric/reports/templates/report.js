// The filter over all answers. Texts come from models, so they are set as textContent only.
"use strict";
const STEP = 25;
const results = document.getElementById("results");
const more = document.getElementById("more");
const form = document.getElementById("filter");

async function unpack() {
  const packed = atob(document.getElementById("data").textContent);
  const bytes = Uint8Array.from(packed, (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

function cardOf(answer) {
  const card = document.getElementById("card").content.firstElementChild.cloneNode(true);
  card.dataset.id = answer.id;
  card.lang = answer.language;
  for (const slot of card.querySelectorAll("[data-slot]")) slot.textContent = answer[slot.dataset.slot];
  for (const list of card.querySelectorAll("[data-list]")) {
    const numbers = answer[list.dataset.list];
    list.querySelectorAll("dd").forEach((slot, place) => { slot.textContent = numbers[place] ?? ""; });
  }
  for (const part of card.querySelectorAll(".judgement")) part.hidden = answer.judged.length === 0;
  for (const flag of answer.flags) {
    card.querySelector(".flags").append(Object.assign(document.createElement("i"), { textContent: flag }));
  }
  return card;
}

unpack().then(({ columns, rows, paragraphs }) => {
  const answers = rows.map((row) => Object.fromEntries(columns.map((column, place) => [column, row[place]])));
  const byId = new Map(answers.map((answer) => [answer.id, answer]));
  for (const answer of answers) {
    answer.searched = [answer.id, answer.prompt, answer.answer, answer.reference].join("\n").toLowerCase();
  }
  let hits = [];

  function showMore() {
    const next = hits.slice(results.children.length, results.children.length + STEP);
    results.append(...next.map(cardOf));
    more.hidden = results.children.length >= hits.length;
  }

  function filter() {
    const { task, flag, order, text } = Object.fromEntries(new FormData(form));
    const wanted = text.trim().toLowerCase();
    const active = Boolean(task || flag || wanted || order);
    hits = active
      ? answers.filter(
          (answer) =>
            (!task || answer.task === task) && (!flag || answer.flags.includes(flag)) && answer.searched.includes(wanted),
        )
      : [];
    hits.sort((one, other) => (order || 1) * (one.s - other.s));
    results.replaceChildren();
    showMore();
    document.getElementById("extremes").hidden = active;
    form.querySelector("output").textContent = active ? `${hits.length.toLocaleString("en")} found` : "";
  }

  form.hidden = false;
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  more.addEventListener("click", showMore);
  filter(); // a browser may restore what was typed before a reload
  // The long system text is filled in when it is opened.
  document.addEventListener(
    "toggle",
    ({ target }) => {
      const answer = target.matches(".system") && byId.get(target.closest(".card").dataset.id);
      if (answer) {
        target.querySelector("p").textContent = answer.system.map((number) => paragraphs[number]).join("\n\n");
      }
    },
    true,
  );
});
