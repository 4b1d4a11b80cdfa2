// A plot to take away: as SVG that stands alone, in the colours of the light scheme, and as CSV with all digits.

import { dash, kin, label, mark } from "./curves.js";
import { make, svg } from "./elements.js";

const LINE = 18; // height of a line of the legend
const LETTER = 7; // about the width of a letter
const PAINT = [
  [".grid", "stroke", "--line"],
  ["text", "fill", "--muted"],
  [".target", "stroke", "--muted"],
  [".region", "fill", "--curve-p_most"],
];

/** Returns the buttons that save a figure; `shown` says what is drawn there at that time. */
export function buttons(figure, getPlot) {
  const save = (name, text) => {
    const button = make("button", { type: "button", class: "quiet", title: `Save this plot as ${name}` }, name);
    button.addEventListener("click", () => saveFile(`darrm-${figure.id}-${getPlot().of}.${name.toLowerCase()}`, text(getPlot())));
    return button;
  };
  return make(
    "div",
    { class: "save", role: "group", "aria-label": "Save this plot" },
    save("SVG", (plot) => picture(figure.querySelector("svg.chart"), plot)),
    save("CSV", csv),
  );
}

/** Gives a text to the browser to be saved as a file. */
export function saveFile(name, text) {
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type: "text/plain" })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function picture(original, { title, lines, hidden }) {
  const chart = original.cloneNode(true);
  const [, , width, height] = chart.getAttribute("viewBox").split(" ").map(Number);
  chart.querySelector(".pointed")?.remove();
  for (const [selector, attribute, variable] of PAINT) {
    for (const element of chart.querySelectorAll(selector)) element.setAttribute(attribute, light(variable));
  }
  for (const element of chart.querySelectorAll(".target")) element.setAttribute("stroke-dasharray", "2 3");
  for (const group of chart.querySelectorAll(".series")) {
    const colour = light(`--curve-${kin(group.dataset.name)}`);
    group.removeAttribute("style");
    for (const element of group.querySelectorAll(".line")) strokeWith(element, colour);
    for (const element of group.querySelectorAll(".mark")) element.setAttribute("fill", colour);
  }
  const [legend, below] = keys(lines.filter(({ name }) => !hidden.has(name)), width);
  const body = svg("g", { transform: `translate(0 ${below})` }, ...chart.childNodes);
  const image = svg(
    "svg",
    { viewBox: `0 0 ${width} ${height + below}`, width, height: height + below, "font-family": "sans-serif", "font-size": 13 },
    svg("title", {}, title),
    svg("rect", { width, height: height + below, fill: light("--paper") }),
    svg("text", { x: 10, y: 18, "font-weight": 600, fill: light("--ink") }, title),
    ...legend,
    body,
  );
  return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(image)}\n`;
}

/** Returns the legend, from the second line down, and where it ends. */
function keys(lines, width) {
  let [x, y] = [10, 34];
  const elements = [];
  for (const { name } of lines.toReversed()) {
    const room = 36 + LETTER * label(name).length + 16;
    if (x > 10 && x + room > width) [x, y] = [10, y + LINE];
    const colour = light(`--curve-${kin(name)}`);
    const stroke = svg("path", { d: "M1 6H27", "stroke-dasharray": dash(name) });
    strokeWith(stroke, colour);
    elements.push(
      svg("g", { transform: `translate(${x} ${y - 10})` }, stroke, svg("path", { d: mark(name), fill: colour })),
      svg("text", { x: x + 34, y, fill: light("--ink") }, label(name)),
    );
    x += room;
  }
  return [elements, y + LINE / 2];
}

function strokeWith(path, colour) {
  for (const [name, value] of [["stroke", colour], ["fill", "none"], ["stroke-width", 1.8]]) path.setAttribute(name, value);
}

/** Returns a colour of the light scheme, which the first rule of the sheet has. */
function light(variable) {
  return document.styleSheets[0].cssRules[0].style.getPropertyValue(variable).trim();
}

function csv({ x, lines }) {
  const topFirst = lines.toReversed();
  const rows = places(lines).map((value) => [value, ...topFirst.map((line) => line.y[line.x.indexOf(value)] ?? "")]);
  return [[x, ...topFirst.map(({ name }) => label(name))], ...rows].map((cells) => `${cells.map(cell).join(",")}\r\n`).join("");
}

/** Returns every x at which a line has a value, in order. */
export function places(lines) {
  return [...new Set(lines.flatMap(({ x }) => x))].sort((one, other) => one - other);
}

function cell(value) {
  const text = String(value);
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
