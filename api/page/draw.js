// The plots. Each is a figure with a title, the drawing, a sentence that says the same, and its numbers as a table.
//
// Plotly's script is the installed package's own, served beside this page; without it the tables are opened instead.

import { colour, label, look, ordered } from "./curves.js";
import { make, scrolling, table } from "./elements.js";
import { plain } from "./numbers.js";

const MAX_MARKERS = 150; // beyond so many points a line reads better

let loading;

/** Returns Plotly, fetched when it is first needed, or null where the server has none. */
export function plotly() {
  loading ??= fetchPlotly();
  return loading;
}

async function fetchPlotly() {
  const source = document.querySelector("meta[name=darrm-plotly]").content;
  if (!source) return null;
  // Map traces add a <style> as soon as the script starts, which the page's policy rightly refuses; there are no maps
  // here. Until the script has run, what would be a <style> is a <template>: it holds the text and does nothing.
  const { createElement } = Document.prototype;
  Document.prototype.createElement = function inert(name, options) {
    return createElement.call(this, name === "style" ? "template" : name, options);
  };
  try {
    await new Promise((resolve, reject) => {
      document.head.append(Object.assign(make("script"), { src: source, onload: resolve, onerror: reject }));
    });
    return globalThis.Plotly ?? null;
  } catch {
    return null;
  } finally {
    Document.prototype.createElement = createElement;
  }
}

/**
 * Draws one figure, or draws it anew.
 *
 * @param {HTMLElement} figure
 * @param {{title: string, x: string, y: string, about: string, lines: {name: string, x: number[], y: (number|null)[]}[],
 *   hidden: Set<string>, range?: number[], ceiling?: number, markers?: boolean, whole?: boolean, at?: number, heads?: Function}} what
 */
export async function draw(figure, what) {
  const canvas = frame(figure, what);
  const library = await plotly();
  const numbers = figure.querySelector("details");
  if (!library) {
    canvas.hidden = true;
    numbers.open = true;
    return;
  }
  await library.react(canvas, inOrder(what.lines).map((line) => trace(line, what)), layout(what), CONFIG);
}

function inOrder(lines) {
  return ordered(lines.map(({ name }) => name)).map((name) => lines.find((line) => line.name === name));
}

function frame(figure, { title, about, x, lines, heads }) {
  if (!figure.querySelector(".plot")) {
    const described = `${figure.id}-about`;
    figure.replaceChildren(
      make("figcaption", { id: `${figure.id}-title` }),
      make("div", { class: "plot", role: "img", "aria-labelledby": `${figure.id}-title`, "aria-describedby": described }),
      make("p", { class: "about", id: described }),
      make("details", {}, make("summary", {}, "Numbers of this plot"), make("div")),
    );
  }
  figure.querySelector("figcaption").textContent = title;
  figure.querySelector(".about").textContent = about;
  const shown = inOrder(lines).reverse(); // this design first
  const numbers = table(
    `${title}: numbers`,
    [x, ...shown.map(({ name }) => label(name))],
    shown[0].x.map((value, place) => [heads ? heads(place) : plain(value), ...shown.map(({ y }) => plain(y[place], 6))]),
  );
  figure.querySelector("details > div").replaceChildren(scrolling(`${title}: numbers`, numbers));
  return figure.querySelector(".plot");
}

function trace({ name, x, y }, { hidden, markers }) {
  const { colour: stroke, dash, symbol } = look(name);
  return {
    type: "scatter",
    mode: markers && x.length <= MAX_MARKERS ? "lines+markers" : "lines",
    name: label(name),
    x,
    y,
    visible: !hidden.has(name),
    line: { color: stroke, dash, width: name === "optimal" ? 2.6 : 1.8 },
    marker: { color: stroke, symbol, size: x.length <= 40 ? (name === "optimal" ? 9 : 7) : 4 },
    hovertemplate: "%{y:.5g}",
    connectgaps: false,
  };
}

const CONFIG = { displayModeBar: false, responsive: true, scrollZoom: false, showTips: false, doubleClick: "reset" };

function layout({ x, y, range, ceiling, whole, at }) {
  const [ink, faint, ground] = [colour("--muted"), colour("--line"), colour("--paper")];
  const axis = { gridcolor: faint, linecolor: faint, zeroline: false, automargin: true, ticks: "outside", tickcolor: faint };
  const touch = matchMedia("(pointer: coarse)").matches; // there a finger on the plot must scroll the page
  return {
    autosize: true,
    margin: { l: 12, r: 12, t: 8, b: 12 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 13, color: ink },
    showlegend: false,
    hovermode: "x unified",
    hoverlabel: { bgcolor: ground, bordercolor: faint, font: { color: colour("--ink") } },
    dragmode: touch ? false : "zoom",
    xaxis: { ...axis, title: { text: x, standoff: 8, font: { size: 13 } }, range, ...(whole ? { tickformat: "d", nticks: 12 } : {}) },
    yaxis: { ...axis, title: { text: y, standoff: 8, font: { size: 13 } }, ...(ceiling ? { range: [-0.03, ceiling] } : { rangemode: "tozero" }) },
    shapes: at === undefined ? [] : [{ type: "line", x0: at, x1: at, y0: 0, y1: 1, yref: "paper", line: { color: ink, width: 1, dash: "dot" } }],
  };
}
