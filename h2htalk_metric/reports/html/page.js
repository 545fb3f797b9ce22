// The filter over all answers. Texts come from models: they are only ever set as textContent.
"use strict";
const STEP = 25;
const found = document.getElementById("found");
const more = document.getElementById("more");
const form = document.getElementById("filter");

async function unpack() {
  const packed = atob(document.getElementById("data").textContent);
  const bytes = Uint8Array.from(packed, (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

function cardOf(item) {
  const card = document.getElementById("card").content.firstElementChild.cloneNode(true);
  card.dataset.id = item.id;
  for (const slot of card.querySelectorAll("[data-slot]")) {
    if (slot.dataset.slot !== "system") slot.textContent = item[slot.dataset.slot];
  }
  for (const part of card.querySelectorAll(".judged")) part.hidden = !item.marks;
  for (const flag of item.flags) {
    card.querySelector(".flags").append(Object.assign(document.createElement("i"), { textContent: flag }));
  }
  return card;
}

unpack().then(({ columns, rows, paragraphs }) => {
  const items = rows.map((row) => Object.fromEntries(columns.map((column, place) => [column, row[place]])));
  const byId = new Map(items.map((item) => [item.id, item]));
  for (const item of items) {
    item.searched = [item.id, item.prompt, item.answer, item.reference].join("\n").toLowerCase();
  }
  let hits = [];

  function showMore() {
    const next = hits.slice(found.children.length, found.children.length + STEP);
    found.append(...next.map(cardOf));
    more.hidden = found.children.length >= hits.length;
  }

  function filter() {
    const { task, flag, order, text } = Object.fromEntries(new FormData(form));
    const wanted = text.trim().toLowerCase();
    const asked = Boolean(task || flag || wanted || order);
    hits = asked
      ? items.filter(
          (item) =>
            (!task || item.task === task) && (!flag || item.flags.includes(flag)) && item.searched.includes(wanted),
        )
      : [];
    hits.sort((one, other) => (order || 1) * (one.S - other.S));
    found.replaceChildren();
    showMore();
    document.getElementById("extremes").hidden = asked;
    form.querySelector("output").textContent = asked ? `${hits.length.toLocaleString("en")} found` : "";
  }

  form.hidden = false;
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  more.addEventListener("click", showMore);
  filter(); // a browser may have kept what was typed before a reload
  // The long system text is put in when it is asked for.
  document.addEventListener(
    "toggle",
    ({ target }) => {
      const item = target.matches(".system") && byId.get(target.closest(".card").dataset.id);
      if (item) {
        target.querySelector("p").textContent = item.system.map((number) => paragraphs[number]).join("\n\n");
      }
    },
    true,
  );
});
