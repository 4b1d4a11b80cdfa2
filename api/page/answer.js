// An answer that has no form of its own: plots of its curves, tables of its other numbers, its words, and all of it as JSON.

import { label, ordered, swatch } from "./curves.js";
import { draw } from "./draw.js";
import { make, scrolling, table } from "./elements.js";
import { plain } from "./numbers.js";

const MAX_ROWS = 200; // of a table; the JSON has all
const NAMES = { m: "m", p: "p", target_epsilon: "target ε", epsilon: "ε", delta: "δ", gamma: "γ", tv_error: "error in probability" };
const ASKED = new Set(["problem", "record", "voters"]); // the question as it was understood
const UNREAD = new Set(["id", "cached"]); // of each row: names that only programs read

/** How the answer is shown. */
export const ANSWER = { present, attached };

let figures = []; // of the answer that is about to be put on the page, each with its plot
let made = 0; // figures until now, which number their ids

function present(answer) {
  const plots = plotsOf(answer);
  figures = plots.map((plot) => [make("figure", { id: `plain-figure-${(made += 1)}` }), plot]);
  const plotted = new Set(plots.flatMap(({ lines }) => lines.flatMap(({ x, y }) => [x, y])));
  const simple = Object.entries(answer).flatMap(([name, value]) => (isSimple(value) ? [[name, value]] : isProse(value) ? Object.entries(value) : []));
  const words = simple.flatMap(([name, value]) => [make("dt", {}, named(name)), make("dd", {}, cell(value))]);
  return [
    ...(figures.length ? [legend(plots), make("div", { class: "plots" }, ...figures.map(([figure]) => figure))] : []),
    ...tablesOf(answer, plotted).map(([caption, heads, rows]) => make("div", {}, make("p", { class: "about" }, capital(caption)), scrolling(caption, table(caption, heads, rows.slice(0, MAX_ROWS))))),
    make("dl", { class: "words" }, ...words),
    make("details", {}, make("summary", {}, "The whole answer"), make("pre", { tabindex: "0", role: "region", "aria-label": "The answer as JSON" }, JSON.stringify(answer, null, 1))),
  ];
}

/** Returns the names of the curves, each with its line. */
function legend(plots) {
  const names = ordered(new Set(plots.flatMap(({ lines }) => lines.map(({ name }) => name)))).toReversed();
  return make("p", { class: "about" }, ...names.flatMap((name) => [make("span", { class: "named" }, swatch(name), " ", label(name)), " "]));
}

function attached() {
  for (const [figure, plot] of figures) draw(figure, { hidden: new Set(), markers: plot.lines[0].x.length <= 40, ...plot });
  figures = [];
}

/** Returns a plot for each measure of its curves, and of the lists that have a value for each point of them. */
function plotsOf({ over, curves, epsilon, delta, utility, ...answer }) {
  if (isNumbers(epsilon) && isNumbers(delta) && epsilon.length === delta.length) return [plotOf("epsilon", "delta", [{ name: "optimal", x: epsilon, y: delta }])];
  const x = answer[over];
  if (!isNumbers(x)) return [];
  const fits = (values) => isNumbers(values) && values.length === x.length;
  const all = Object.entries(isObject(curves) ? curves : {});
  const measures = Object.keys(all[0]?.[1] ?? {}).filter((measure) => all.every(([, curve]) => fits(curve[measure])));
  return [
    ...(fits(utility) ? [plotOf(over, "utility", [{ name: "optimal", x, y: utility }])] : []),
    ...measures.map((measure) => plotOf(over, measure, all.map(([name, curve]) => ({ name, x, y: curve[measure] })))),
  ];
}

function plotOf(x, y, lines) {
  const title = capital(`${named(y)} over ${named(x)}`);
  return { title, of: `${y}-over-${x}`, x: named(x), y: named(y), lines, about: `From ${plain(Math.min(...lines[0].x))} to ${plain(Math.max(...lines[0].x))}; the numbers are below.` };
}

/** Returns [caption, heads, rows] of the lists that no plot shows, of lists of objects, and of objects by their names. */
function tablesOf(answer, plotted) {
  const parts = Object.entries(answer).filter(([name, value]) => !ASKED.has(name) && !isSimple(value));
  const ofCurves = Object.entries(isObject(answer.curves) ? answer.curves : {}).flatMap(([name, curve]) => Object.entries(curve ?? {}).map(([of, values]) => [of, label(name), values]));
  const lists = [...parts.map(([name, values]) => [name, named(name), values]), ...ofCurves].filter(([, , values]) => isNumbers(values) && !plotted.has(values));
  const found = [];
  for (const of of new Set(lists.map(([name, , values]) => `${name === "gamma" ? name : ""} ${values.length}`))) {
    const columns = lists.filter(([name, , values]) => `${name === "gamma" ? name : ""} ${values.length}` === of);
    const isGamma = of.startsWith("gamma");
    const heads = columns.map(([name, head]) => (isGamma && head !== "γ" ? `γ, ${head}` : head === named(name) ? head : `${named(name)}, ${head}`));
    found.push([isGamma ? "γ(l) by the number l of ones" : heads.join(", "), [isGamma ? "l" : "Number", ...heads], columns[0][2].map((_, index) => [String(isGamma ? index : index + 1), ...columns.map(([, , values]) => cell(values[index]))])]);
  }
  for (const [name, value] of parts) {
    const rows = Array.isArray(value) ? value.map((row, index) => [String(index + 1), row]) : name === "curves" ? [] : Object.entries(value);
    if (!rows.length || !rows.every(([, row]) => isObject(row))) continue;
    const heads = [...new Set(rows.flatMap(([, row]) => Object.keys(row).filter((head) => !UNREAD.has(head) && rows.every(([, each]) => isSimple(each[head] ?? null)) && rows.some(([, each]) => (each[head] ?? null) !== null))))];
    if (heads.length) found.push([named(name), [Array.isArray(value) ? "Number" : "Name", ...heads.map(named)], rows.map(([row, each]) => [row.replaceAll("_", " "), ...heads.map((head) => cell(each[head]))])]);
  }
  const flat = parts.filter(([, value]) => isObject(value) && !isProse(value) && Object.keys(value).length && Object.values(value).every(isSimple));
  for (const keys of new Set(flat.map(([, value]) => Object.keys(value).join()))) {
    const columns = flat.filter(([, value]) => Object.keys(value).join() === keys);
    const heads = columns.map(([name]) => named(name));
    found.push([heads.join(", "), ["Name", ...heads], keys.split(",").map((key) => [named(key), ...columns.map(([, value]) => cell(value[key]))])]);
  }
  return found;
}

function capital(text) {
  return text[0] >= "a" && text[1] >= "a" ? text[0].toUpperCase() + text.slice(1) : text;
}

function named(name) {
  return NAMES[name] ?? name.replaceAll("_", " ");
}

function cell(value) {
  return typeof value === "number" ? plain(value, 6) : String(value ?? "–");
}

function isSimple(value) {
  return value === null || typeof value !== "object";
}

function isObject(value) {
  return !isSimple(value) && !Array.isArray(value);
}

/** Returns whether an object has sentences by their names. */
function isProse(value) {
  return isObject(value) && Object.values(value).some((each) => typeof each === "string" && each.length > 60) && Object.values(value).every(isSimple);
}

function isNumbers(value) {
  return Array.isArray(value) && value.length > 1 && value.every((each) => each === null || typeof each === "number");
}
