// The plots. Each is a figure with a title, the drawing, a sentence that says the same, and its numbers as a table.

import { chart } from "./chart.js";
import { label, ordered } from "./curves.js";
import { make, scrolling, table } from "./elements.js";
import { plain } from "./numbers.js";
import { buttons, places } from "./picture.js";

const drawn = new WeakMap(); // what each figure shows

/**
 * Draws one figure, or draws it anew.
 *
 * @param {HTMLElement} figure
 * @param {{title: string, x: string, y: string, about: string, lines: {name: string, x: number[], y: (number|null)[]}[],
 *   hidden: Set<string>, range?: number[], ceiling?: number, markers?: boolean, whole?: boolean, at?: number, heads?: Function}} what
 */
export function draw(figure, what) {
  const lines = ordered(what.lines.map(({ name }) => name)).map((name) => what.lines.find((line) => line.name === name));
  drawn.set(figure, { ...what, lines });
  chart(frame(figure, { ...what, lines }), { ...what, lines });
}

function frame(figure, { title, about, x, lines, heads }) {
  if (!figure.querySelector(".plot")) {
    const described = `${figure.id}-about`;
    figure.replaceChildren(
      make("div", { class: "caption" }, make("figcaption", { id: `${figure.id}-title` }), buttons(figure, () => drawn.get(figure))),
      make("div", { class: "plot", role: "img", "aria-labelledby": `${figure.id}-title`, "aria-describedby": described }),
      make("p", { class: "about", id: described }),
      make("details", {}, make("summary", {}, "Numbers of this plot"), make("div")),
    );
  }
  figure.querySelector("figcaption").textContent = title;
  figure.querySelector(".about").textContent = about;
  const shown = lines.toReversed(); // this design first
  const numbers = table(
    `${title}: numbers`,
    [x, ...shown.map(({ name }) => label(name))],
    places(lines).map((value, place) => [heads ? heads(place) : plain(value), ...shown.map((line) => plain(line.y[line.x.indexOf(value)], 6))]),
  );
  figure.querySelector("details > div").replaceChildren(scrolling(`${title}: numbers`, numbers));
  return figure.querySelector(".plot");
}
