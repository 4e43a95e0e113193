// Elements. All values become text or attributes of known names, never markup.

const inSVG = new Set(["svg", "rect", "line", "title"]);

// el returns an element with attributes, properties that begin with "on" as listeners, and children, whose strings
// are text; null, undefined, false and "" are none.
export function el(name, attributes = {}, ...children) {
  const node = inSVG.has(name) ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false && child !== ""));
  return node;
}

// table returns a table with a caption. columns have a label, a cell function, and number where they are numbers; the
// first cell of a row is its heading.
export function table(caption, columns, rows) {
  return el("table", { role: "table" },
    el("caption", {}, caption),
    el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, columns.map((c) => el("th", { scope: "col", role: "columnheader", class: c.number && "number" }, c.label)))),
    el("tbody", { role: "rowgroup" }, rows.map((row) => el("tr", { role: "row" }, columns.map((c, i) => i === 0
      ? el("th", { scope: "row", role: "rowheader" }, c.cell(row))
      : el("td", { role: "cell", class: c.number && "number", "data-label": c.label }, c.cell(row)))))));
}

let fields = 0;

// field returns a labelled input or select.
export function field(label, input) {
  input.id ||= `field-${++fields}`;
  return el("div", {}, el("label", { for: input.id }, label), input);
}

// safeLink returns a URL if it is one of the web, and otherwise null.
export function safeLink(text) {
  try {
    const url = new URL(text);
    return url.protocol === "https:" || url.protocol === "http:" ? url.href : null;
  } catch {
    return null;
  }
}
