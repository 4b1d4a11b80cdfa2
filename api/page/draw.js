// The plots. Each is a figure with a title, the drawing, a sentence that says the same, and its numbers as a table.

import { chart } from "./chart.js";
import { label, ordered } from "./curves.js";
import { make, scrolling, table } from "./elements.js";
import { plain } from "./numbers.js";
import { buttons, places } from "./picture.js";

const plots = new WeakMap(); // what each figure shows

/**
 * Draws one figure, or draws it anew.
 *
 * @param {HTMLElement} figure
 * @param {{title: string, of: string, x: string, y: string, about: string, lines: {name: string, x: number[], y: (number|null)[]}[],
 *   hidden: Set<string>, range?: number[], ceiling?: number, markers?: boolean, whole?: boolean, at?: number, region?: number[][], heads?: Function}} plot
 */
export function draw(figure, plot) {
  const lines = ordered(plot.lines.map(({ name }) => name)).map((name) => plot.lines.find((line) => line.name === name));
  plots.set(figure, { ...plot, lines });
  chart(frame(figure, { ...plot, lines }), { ...plot, lines });
}

function frame(figure, { title, about, x, lines, heads }) {
  if (!figure.querySelector(".plot")) {
    const aboutId = `${figure.id}-about`;
    figure.replaceChildren(
      make("div", { class: "caption" }, make("figcaption", { id: `${figure.id}-title` }), buttons(figure, () => plots.get(figure))),
      make("div", { class: "plot", role: "img", "aria-labelledby": `${figure.id}-title`, "aria-describedby": aboutId }),
      make("p", { class: "about", id: aboutId }),
      make("details", {}, make("summary", {}, "Numbers of this plot"), make("div")),
    );
  }
  figure.querySelector("figcaption").textContent = title;
  figure.querySelector(".about").textContent = about;
  const topFirst = lines.toReversed(); // this design first
  const numbers = table(
    `${title}: numbers`,
    [x, ...topFirst.map(({ name }) => label(name))],
    places(lines).map((value, index) => [heads ? heads(index) : plain(value), ...topFirst.map((line) => plain(line.y[line.x.indexOf(value)], 6))]),
  );
  figure.querySelector("details > div").replaceChildren(scrolling(`${title}: numbers`, numbers));
  return figure.querySelector(".plot");
}
