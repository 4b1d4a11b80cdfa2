// The ways of releasing: what they are called, and how their curves look. Colours are in page.css, under the same names.

const CURVES = {
  optimal: { label: "optimal γ (this design)", symbol: "circle", dash: "solid" },
  optimal_sequence: { label: "optimal γ of all releases at once", symbol: "circle", dash: "solid" },
  double_subsampling: { label: "double subsampling", symbol: "diamond", dash: "dashdot" },
  subsampling: { label: "subsampling", symbol: "square", dash: "dash" },
  randomized_response: { label: "randomised response", symbol: "triangle-up", dash: "dot" },
  gnmax: { label: "GNMax", symbol: "x", dash: "longdash" },
  majority: { label: "plain majority", symbol: "cross", dash: "longdashdot" },
};

const OTHER = { symbol: "star", dash: "dot" };

/** Ways that are never drawn. */
const ALSO = { fewer_voters: "fewer voters", saa: "subsample and aggregate", dpbag: "DPBag", dpbag_data_dependent: "DPBag, by its own account" };

/** Returns the name under which a way has its look. */
function kin(name) {
  return name in CURVES ? name : "other";
}

const DASHES = { solid: "", dashdot: "6 2 2 2", dash: "5 3", dot: "2 2", longdash: "8 3", longdashdot: "8 2 2 2" };

/** Returns the name of a way of releasing, for people. */
export function label(name) {
  return CURVES[name]?.label ?? ALSO[name] ?? name.replaceAll("_", " ");
}

/** Returns how a curve is drawn: {symbol, dash, colour}. */
export function look(name) {
  const { symbol, dash } = CURVES[kin(name)] ?? OTHER;
  return { symbol, dash, colour: colour(`--curve-${kin(name)}`) };
}

/** Returns a colour of page.css, as it is in the present scheme. */
export function colour(variable) {
  return getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
}

/** Returns the names in drawing order, this design last and on top. */
export function ordered(names) {
  return [...names].sort((one, other) => rank(other) - rank(one));
}

function rank(name) {
  const place = Object.keys(CURVES).indexOf(name);
  return place < 0 ? Object.keys(CURVES).length : place;
}

const SHAPES = {
  circle: "M14 2.5a3.5 3.5 0 1 0 .01 0z",
  diamond: "M14 1.5 18.5 6 14 10.5 9.5 6z",
  square: "M11 3h6v6h-6z",
  "triangle-up": "M14 2 18.2 9.4H9.8z",
};

/** Returns a small drawing of a curve's line and marker. */
export function swatch(name) {
  const { symbol, dash } = CURVES[kin(name)] ?? OTHER;
  const svg = element("svg", { viewBox: "0 0 28 12", "aria-hidden": "true", class: "swatch" });
  svg.style.color = `var(--curve-${kin(name)})`;
  svg.append(element("path", { d: "M1 6H27", "stroke-dasharray": DASHES[dash], class: "line" }));
  if (symbol in SHAPES) svg.append(element("path", { d: SHAPES[symbol] }));
  return svg;
}

function element(name, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
  return made;
}
