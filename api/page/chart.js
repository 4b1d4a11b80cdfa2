// Line charts as SVG. Lines, axes and grid take their colours from page.css, so a change of scheme draws nothing anew.
//
// Own code on purpose: a few series on two linear axes are what this page draws, and the script of a general library is
// a thousand times as long; on a slow line it left the frames empty for a minute.

import { dash, kin, label, mark } from "./curves.js";
import { make, svg } from "./elements.js";
import { plain } from "./numbers.js";

const MAX_MARKERS = 150; // beyond so many points a line reads better without
const MARGIN = { left: 58, right: 14, top: 10, bottom: 46 };
const STEPS = [1, 2, 5, 10];

/**
 * Draws lines into a box, and again whenever its width changes.
 *
 * @param {HTMLElement} box whose size the chart takes
 * @param {{x: string, y: string, lines: {name: string, x: number[], y: (number|null)[]}[], hidden: Set<string>,
 *   range?: number[], ceiling?: number, markers?: boolean, whole?: boolean, at?: number, region?: number[][]}} plot lines in
 *   drawing order, on a region with these corners
 */
export function chart(box, plot) {
  box.plot = plot;
  if (!box.observer) {
    box.observer = new ResizeObserver(() => paint(box));
    box.observer.observe(box);
    box.addEventListener("pointermove", (event) => point(box, event));
    box.addEventListener("pointerleave", () => unpoint(box));
  }
  paint(box);
}

function paint(box) {
  const [width, height] = [box.clientWidth, box.clientHeight];
  if (width < 120 || height < 120) return; // hidden: the observer calls again
  const { plot } = box;
  const lines = plot.lines.filter(({ name }) => !plot.hidden.has(name));
  const frame = { left: MARGIN.left, right: width - MARGIN.right, top: MARGIN.top, bottom: height - MARGIN.bottom };
  const across = scale(plot.range ?? extent(lines.flatMap(({ x }) => x)), [frame.left + 8, frame.right - 8]);
  const up = scale(heights(lines, plot.ceiling), [frame.bottom, frame.top]);
  box.scales = { across, up, frame, lines };
  box.replaceChildren(
    svg(
      "svg",
      { class: "chart", viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
      ...axes(plot, across, up, frame),
      ...(plot.at === undefined ? [] : [svg("line", { class: "target", x1: across(plot.at), x2: across(plot.at), y1: frame.top, y2: frame.bottom })]),
      ...(plot.region ? [svg("polygon", { class: "region", "fill-opacity": 0.15, points: plot.region.map(([x, y]) => `${across(x).toFixed(2)},${up(y).toFixed(2)}`).join(" ") })] : []),
      ...lines.map((line) => series(line, plot, across, up)),
      svg("g", { class: "pointed" }),
    ),
    make("div", { class: "reading", hidden: true }),
  );
}

/** Returns a linear map, which knows the domain it has. */
function scale([from, to], [first, last]) {
  const span = to - from || 1;
  return Object.assign((value) => first + ((value - from) / span) * (last - first), { from, to });
}

function extent(values) {
  return values.length ? [Math.min(...values), Math.max(...values)] : [0, 1];
}

function heights(lines, ceiling) {
  if (ceiling) return [0, ceiling];
  const [, most] = extent(lines.flatMap(({ y }) => y.filter((value) => value !== null)));
  return [0, most > 0 ? most * 1.05 : 1];
}

/** Returns round numbers within a domain, some `count` of them. */
export function ticks({ from, to }, count, whole = false) {
  const rough = (to - from) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const nice = power * STEPS.find((step) => step * power >= rough * (1 - 1e-9));
  const step = whole ? Math.max(1, Math.ceil(nice)) : nice;
  const first = Math.ceil(from / step - 1e-9);
  const last = Math.floor(to / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, index) => Number(((first + index) * step).toPrecision(12)));
}

function axes({ x, y, whole }, across, up, { left, right, top, bottom }) {
  const text = (attributes, content) => svg("text", attributes, content);
  return [
    ...ticks(up, 5).flatMap((value) => [
      svg("line", { class: "grid", x1: left, x2: right, y1: up(value), y2: up(value) }),
      text({ class: "tick", x: left - 7, y: up(value), dy: "0.32em", "text-anchor": "end" }, plain(value)),
    ]),
    ...ticks(across, Math.max(3, Math.floor((right - left) / 60)), whole).flatMap((value) => [
      svg("line", { class: "grid", x1: across(value), x2: across(value), y1: top, y2: bottom }),
      text({ class: "tick", x: across(value), y: bottom + 16, "text-anchor": "middle" }, plain(value)),
    ]),
    text({ class: "axis", x: (left + right) / 2, y: bottom + 38, "text-anchor": "middle" }, x),
    text({ class: "axis", transform: `translate(13 ${(top + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, y),
  ];
}

function series({ name, x, y }, { markers }, across, up) {
  const points = x.map((value, index) => [value, y[index], index]).filter(([, value]) => value !== null);
  const path = points.map(([value, height, index], order) => {
    const joined = order > 0 && points[order - 1][2] === index - 1;
    return `${joined ? "L" : "M"}${across(value).toFixed(2)} ${up(height).toFixed(2)}`;
  });
  const group = svg("g", { class: "series", "data-name": name }, svg("path", { class: "line", d: path.join(""), "stroke-dasharray": dash(name) }));
  group.style.color = `var(--curve-${kin(name)})`;
  if (name === "optimal") group.classList.add("own");
  if (markers && x.length <= MAX_MARKERS) {
    for (const [value, height] of points) {
      const transform = `translate(${across(value).toFixed(2)} ${up(height).toFixed(2)}) scale(${x.length <= 40 ? 1 : 0.6}) translate(-14 -6)`;
      group.append(svg("path", { class: "mark", d: mark(name), transform }));
    }
  }
  return group;
}

/** Shows the values at the point that is nearest to the pointer. */
function point(box, event) {
  const { across, frame, lines } = box.scales ?? {};
  if (!lines?.length) return;
  const { left } = box.getBoundingClientRect();
  const there = event.clientX - left;
  const { x } = lines.at(-1);
  const at = x.reduce((best, value, place) => (Math.abs(across(value) - there) < Math.abs(across(x[best]) - there) ? place : best), 0);
  const place = across(x[at]);
  box.querySelector(".pointed").replaceChildren(svg("line", { x1: place, x2: place, y1: frame.top, y2: frame.bottom }));
  const reading = box.querySelector(".reading");
  const said = lines.toReversed().map((line) => make("div", {}, `${label(line.name)}: ${plain(line.y[line.x.indexOf(x[at])], 5)}`));
  reading.replaceChildren(make("b", {}, plain(x[at])), ...said);
  reading.hidden = false;
  const aside = place > box.clientWidth / 2 ? place - reading.offsetWidth - 12 : place + 12;
  reading.style.left = `${Math.max(0, aside)}px`;
}

function unpoint(box) {
  box.querySelector(".pointed")?.replaceChildren();
  const reading = box.querySelector(".reading");
  if (reading) reading.hidden = true;
}
