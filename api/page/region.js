// The region of a voter that states a privacy profile: its probability p of answering 1 on a dataset, and p′ on a neighbouring one.

import { chain } from "./chain.js";
import { draw } from "./draw.js";
import { byId } from "./elements.js";
import { count, guarantee, percent } from "./numbers.js";
import { problemName } from "./words.js";

/** Draws the region of an answer's voters; hides the figure where (ε, Δ) is all that they state. */
export function offer({ problem }) {
  const figure = byId("region-figure");
  figure.hidden = !problem.profile;
  if (!problem.profile) return;
  const upper = chain(problem.profile);
  const alone = chain([problem.profile.at(-1)]);
  const lower = upper.map(([other, p]) => [1 - other, 1 - p]).toReversed();
  const corners = 2 * (upper.length - 2) + 2;
  draw(figure, {
    title: "What a voter can do: p against p′", of: problemName(problem), x: "p′, its probability of answering 1 on a neighbouring dataset", y: "p, on a dataset",
    about: `By its ${count(problem.profile.length, "point")}, ${problem.profile.map((point) => guarantee(...point)).join(", ")}, the two probabilities are a pair in the region between the lines, ` +
      `${percent(area(upper), 2)} of the square; by the last point alone they would be in ${percent(area(alone), 2)} of it. The proof covers its ${count(corners, "corner")}.`,
    lines: [line("p_most", upper.slice(upper[1][0] === 0 ? 1 : 0)), line("p_least", lower.slice(0, lower.at(-2)[0] === 1 ? -1 : undefined)), line("p_alone", alone.slice(alone[1][0] === 0 ? 1 : 0))],
    region: [...upper, ...lower.toReversed()], hidden: new Set(), range: [0, 1], ceiling: 1, markers: true,
  });
}

function line(name, corners) {
  return { name, x: corners.map(([other]) => other), y: corners.map(([, p]) => p) };
}

/** Returns the area between the boundary and its mirror image below the diagonal. */
function area(boundary) {
  const above = boundary.slice(1).reduce((sum, [other, p], i) => sum + ((other - boundary[i][0]) * (p - other + boundary[i][1] - boundary[i][0])) / 2, 0);
  return 2 * above;
}
