/**
 * Makes the table of rebalances, which stands in the page without any script, sort, filter and choose.
 */

const inOrder = new Intl.Collator("en", { numeric: true });

/**
 * A long table shows its first rows; the others stand in a `noscript` element behind it, where a browser with script does not lay them out:
 * a thousand rows take longer than the picture. This offers them.
 */
export function offerRest(table) {
  const rest = restOf(table);
  if (!rest) return;
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = `Show all ${rest.dataset.count} rebalances`;
  button.addEventListener("click", () => addRest(table));
  rest.after(button);
}

function restOf(table) {
  const next = table.nextElementSibling;
  return next?.tagName === "NOSCRIPT" ? next : null;
}

/** Add the rest of the rows, as the page was written with them: every text in them is escaped. */
export function addRest(table) {
  const rest = restOf(table);
  if (!rest) return;
  const rows = new DOMParser().parseFromString(rest.textContent, "text/html").querySelectorAll("tr");
  table.tBodies[0].append(...rows);
  rest.nextElementSibling.remove();
  rest.remove();
}

/**
 * @param {HTMLTableElement} table  its body's rows have `data-index`, its cells may have `data-value` to sort by
 * @param {(index: number) => void} choose
 */
export function enliven(table, choose) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => sortBy(body, heads, column));
  });
  body.addEventListener("click", (event) => {
    const row = event.target.closest("tr[data-index]");
    if (row) choose(Number(row.dataset.index));
  });
}

function sortBy(body, heads, column) {
  addRest(body.parentElement);
  const isUp = heads[column].getAttribute("aria-sort") !== "ascending";
  heads.forEach((head, at) => {
    if (at === column) head.setAttribute("aria-sort", isUp ? "ascending" : "descending");
    else head.removeAttribute("aria-sort");
  });
  const rows = [...body.rows].map((row) => ({ row, value: valueOf(row.cells[column]) }));
  rows.sort((a, b) => compare(a.value, b.value) * (isUp ? 1 : -1));
  body.append(...rows.map((each) => each.row));
}

function valueOf(cell) {
  const given = cell.dataset.value;
  return given !== undefined ? (given === "" ? -Infinity : Number(given)) : cell.textContent;
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return inOrder.compare(String(a), String(b));
}

/** Show only rows that contain a text; returns the indexes of those that are shown. */
export function filter(table, text) {
  addRest(table);
  const wanted = text.trim().toLowerCase();
  const shown = [];
  for (const row of table.tBodies[0].rows) {
    const isShown = !wanted || row.textContent.toLowerCase().includes(wanted);
    row.hidden = !isShown;
    if (isShown) shown.push(Number(row.dataset.index));
  }
  return shown;
}

/** Mark the row of the chosen rebalance; null: none. */
export function mark(table, index) {
  table.querySelector("tr.chosen")?.classList.remove("chosen");
  if (index === null) return;
  const row = () => table.querySelector(`tr[data-index="${index}"]`);
  if (!row()) addRest(table);
  row()?.classList.add("chosen");
}
