// Pieces of the page that are made from data. Text is always set as text, never as HTML.

/** Returns an element with these attributes and children; a child is an element or a text. */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(attribute, "");
    else if (value !== false && value !== undefined && value !== null) element.setAttribute(attribute, value);
  }
  element.append(...children);
  return element;
}

/** Returns an SVG element with these attributes and children. */
export function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [attribute, value] of Object.entries(attributes)) if (value !== undefined) element.setAttribute(attribute, value);
  element.append(...children);
  return element;
}

/** Returns the pieces of a text whose commands and fields stand in backticks. */
export function prose(text) {
  return text.split("`").map((part, number) => (number % 2 ? make("code", {}, part) : part));
}

export function byId(id) {
  return document.getElementById(id);
}

/**
 * Returns a table.
 *
 * @param {string} caption what a screen reader says first
 * @param {string[]} heads of the columns
 * @param {(string|Node)[][]} rows the first cell of each is its head
 */
export function table(caption, heads, rows) {
  const head = make("tr", {}, ...heads.map((text) => make("th", { scope: "col" }, text)));
  const body = rows.map(([first, ...cells]) =>
    make("tr", {}, make("th", { scope: "row" }, first), ...cells.map((cell) => make("td", {}, cell))),
  );
  return make("table", {}, make("caption", { class: "unseen" }, caption), make("thead", {}, head), make("tbody", {}, ...body));
}

/** Returns a few numbers with what they mean: [name, value, meaning] of each. */
export function tilesOf(tiles) {
  return tiles.map(([name, value, meaning]) => make("div", {}, make("dt", {}, name), make("dd", { class: "value" }, value), make("dd", { class: "hint" }, meaning)));
}

/** Returns a table that scrolls in its own box, which the keyboard can reach. */
export function scrolling(caption, content) {
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, content);
}
