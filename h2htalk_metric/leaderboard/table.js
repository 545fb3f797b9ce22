// The board's table. Runs when the component loads; `element`, `props` and `watch` are Gradio's.
// Every text from outside is set as textContent, never as HTML.
const PAGE = 100;
const SIGNS = ["", "¹", "²", "³"];

let board = { columns: [], brackets: [], rows: [] };
let sort = { key: null, up: false };
let shown = PAGE;
const hidden = new Set();

const find = (name) => element.querySelector(`[data-part="${name}"]`);

function make(tag, text, name) {
  const node = document.createElement(tag);
  if (text !== undefined && text !== null) node.textContent = text;
  if (name) node.className = name;
  return node;
}

function valueOf(row, key) {
  if (key === "model") return row.model.toLowerCase();
  return row.cells[key];
}

function compare(one, other) {
  const a = valueOf(one, sort.key), b = valueOf(other, sort.key);
  if (a === null || b === null) return (a === null) - (b === null); // missing figures last, in both directions
  const order = a < b ? -1 : a > b ? 1 : 0;
  return sort.up ? order : -order;
}

function chosenRows() {
  const words = find("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const bracket = find("bracket").value;
  const rows = board.rows.filter((row) =>
    (!bracket || row.bracket === bracket) && words.every((word) => row.model.toLowerCase().includes(word)));
  rows.sort(compare);
  if (find("grouped").checked) {
    const place = (row) => board.brackets.indexOf(row.bracket);
    rows.sort((one, other) => place(one) - place(other)); // stable: keeps the order within a bracket
  }
  return rows;
}

function headButton(th, key, text) {
  const button = make("button", text);
  button.dataset.key = key;
  const active = sort.key === key;
  th.setAttribute("aria-sort", active ? (sort.up ? "ascending" : "descending") : "none");
  button.append(make("span", active ? (sort.up ? "▲" : "▼") : "", "arrow"));
  button.addEventListener("click", () => {
    sort = { key, up: active ? !sort.up : key === "model" };
    draw();
    find("head").querySelector(`[data-key="${key}"]`).focus({ preventScroll: true }); // the head was replaced
  });
  th.append(button);
  return th;
}

function drawHead(columns) {
  const groups = make("tr", null, "dimensions"), heads = make("tr");
  groups.append(make("th", "", "model"));
  for (let start = 0; start < columns.length;) {
    let stop = start;
    while (stop < columns.length && columns[stop].dimension === columns[start].dimension) stop++;
    const th = make("th", columns[start].dimension, columns[start].dimension ? "dimension" : kind(columns[start]));
    th.colSpan = stop - start;
    groups.append(th);
    start = stop;
  }
  heads.append(headButton(make("th", null, "model"), "model", "Model"));
  for (const column of columns) {
    const th = headButton(make("th", null, kind(column)), column.place, column.short);
    th.title = column.n ? `${column.name}, ${column.n} records` : column.name;
    heads.append(th);
  }
  find("head").replaceChildren(groups, heads);
}

const kind = (column) => column.name === "Overall" ? "overall" : column.short === "Avg" ? "average" : "";

function drawRow(row, columns, intervals) {
  const tr = make("tr"), model = make("th", null, "model");
  model.scope = "row";
  const name = row.link ? make("a", row.model) : make("span", row.model);
  if (row.link) name.href = row.link;
  model.append(name);
  if (row.claimed) model.append(make("span", "°", "claimed"));
  model.title = row.model;
  if (row.notes.length) model.append(make("small", row.notes.join(" · ")));
  tr.append(model);
  for (const column of columns) {
    const value = row.cells[column.place], place = row.places[column.place];
    const td = make("td", null, `${kind(column)} ${place ? `best-${place}` : ""}`);
    if (column.name === "Overall" && row.tied) td.append(make("b", "≈", "tied"));
    if (value !== null) td.append(make("span", value.toFixed(2)), make("sup", SIGNS[place]));
    if (intervals && row.low[column.place] !== null) {
      td.append(make("small", `${row.low[column.place].toFixed(1)}–${row.high[column.place].toFixed(1)}`));
    }
    tr.append(td);
  }
  return tr;
}

function draw() {
  const columns = board.columns.map((column, place) => ({ ...column, place })).filter((c) => !hidden.has(c.name));
  const rows = chosenRows(), grouped = find("grouped").checked;
  const intervals = find("intervals").checked, lines = [];
  let bracket = null;
  drawHead(columns);
  for (const row of rows.slice(0, shown)) {
    if (grouped && row.bracket !== bracket) {
      bracket = row.bracket;
      const line = make("tr", null, "bracket"), th = make("th", bracket, "model");
      const rest = make("td");
      rest.colSpan = columns.length;
      line.append(th, rest);
      lines.push(line);
    }
    lines.push(drawRow(row, columns, intervals));
  }
  find("body").replaceChildren(...lines);
  const count = rows.length === 1 ? "1 model" : `${rows.length} models`;
  find("count").textContent = !props.value ? "Reading the board" : board.rows.length ? count : "No runs yet.";
  find("more").hidden = rows.length <= shown;
  find("more").textContent = `Show ${Math.min(PAGE, rows.length - shown)} more of ${rows.length - shown}`;
}

function drawChoices() {
  const select = find("bracket"), previous = select.value;
  select.replaceChildren(...["", ...board.brackets].map((name) => {
    const option = make("option", name || "all sizes");
    option.value = name;
    return option;
  }));
  select.value = board.brackets.includes(previous) ? previous : "";
  find("columns").replaceChildren(...board.columns.map((column) => {
    const label = make("label"), box = make("input");
    box.type = "checkbox";
    box.checked = !hidden.has(column.name);
    box.addEventListener("change", () => {
      if (box.checked) hidden.delete(column.name); else hidden.add(column.name);
      draw();
    });
    label.append(box, make("span", column.name));
    return label;
  }));
  find("intervals").closest("label").hidden = !board.rows.some((row) => row.low.some((low) => low !== null));
  find("ties").hidden = !board.rows.some((row) => row.tied);
  find("claimed").hidden = !board.rows.some((row) => row.claimed);
}

function start() {
  if (props.value) board = JSON.parse(props.value);
  if (sort.key === null && board.columns.length) sort.key = board.columns.length - 1; // Overall
  for (const part of ["search", "bracket", "grouped", "intervals"]) {
    find(part).oninput = () => { shown = PAGE; draw(); };
  }
  find("more").onclick = () => { shown += PAGE; draw(); };
  drawChoices();
  draw();
}

watch("value", start);
start();
