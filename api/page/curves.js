// The ways of releasing: what they are called, and how their curves look. Colours are in page.css, under the same names.

import { svg } from "./elements.js";

const CURVES = {
  optimal: { label: "optimal γ (this design)", symbol: "circle", dash: "solid" },
  optimal_sequence: { label: "optimal γ of all releases at once", symbol: "circle", dash: "solid" },
  double_subsampling: { label: "double subsampling", symbol: "diamond", dash: "dashdot" },
  subsampling: { label: "subsampling", symbol: "square", dash: "dash" },
  randomized_response: { label: "randomised response", symbol: "triangle-up", dash: "dot" },
  cost: { label: "total ε", symbol: "circle", dash: "solid" },
  first: { label: "first design", symbol: "circle", dash: "solid" },
  second: { label: "second design", symbol: "square", dash: "dash" },
  p_most: { label: "largest p", symbol: "circle", dash: "solid" },
  p_least: { label: "least p", symbol: "circle", dash: "solid" },
  p_alone: { label: "largest p by the last point alone", symbol: "square", dash: "dash" },
  majority: { label: "plain majority", symbol: "cross", dash: "longdashdot" },
};

const OTHER = { symbol: "star", dash: "dot" };

/** Returns the name under which a way has its look. */
export function kin(name) {
  return name in CURVES ? name : "other";
}

const DASHES = { solid: "", dashdot: "6 2 2 2", dash: "5 3", dot: "2 2", longdash: "8 3", longdashdot: "8 2 2 2" };

/** Returns the name of a way of releasing, for people: of a mechanism the one by which it is asked for. */
export function label(name) {
  return CURVES[name]?.label ?? name.replaceAll("_", " ");
}

/** Returns the dashes of a curve's line, as SVG has them; undefined where it is solid. */
export function dash(name) {
  return DASHES[(CURVES[kin(name)] ?? OTHER).dash] || undefined;
}

/** Returns the outline of a curve's marker, whose middle is at (14, 6). */
export function mark(name) {
  return SHAPES[(CURVES[kin(name)] ?? OTHER).symbol];
}

/** Returns the names in drawing order, this design last and on top. */
export function ordered(names) {
  return [...names].sort((one, other) => rank(other) - rank(one));
}

function rank(name) {
  const index = Object.keys(CURVES).indexOf(name);
  return index < 0 ? Object.keys(CURVES).length : index;
}

const SHAPES = {
  circle: "M14 2.5a3.5 3.5 0 1 0 .01 0z",
  diamond: "M14 1.5 18.5 6 14 10.5 9.5 6z",
  square: "M11 3h6v6h-6z",
  "triangle-up": "M14 2 18.2 9.4H9.8z",
  cross: "M13 2h2v3h3v2h-3v3h-2V7h-3V5h3z",
  star: "M14 1.5l1.2 3.2h3.3l-2.6 2 1 3.3-2.9-2-2.9 2 1-3.3-2.6-2h3.3z",
};

/** Returns a small drawing of a curve's line and marker. */
export function swatch(name) {
  const drawing = svg("svg", { viewBox: "0 0 28 12", "aria-hidden": "true", class: "swatch" });
  drawing.style.color = `var(--curve-${kin(name)})`;
  drawing.append(svg("path", { d: "M1 6H27", "stroke-dasharray": dash(name), class: "line" }), svg("path", { d: mark(name) }));
  return drawing;
}
