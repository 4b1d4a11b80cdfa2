// Every mechanism for releasing a majority within one budget: the same voters, the same total privacy, the same number of releases.

import { label, swatch } from "./curves.js";
import { byId, make, scrolling, table } from "./elements.js";
import * as fields from "./fields.js";
import { assumed, guarantee, percent, plain, roundedUp } from "./numbers.js";
import { questionOf } from "./question.js";
import { statedIn, votersOf } from "./state.js";

/** Some ways, and all accounts that count in floating point, have no finite ε at δ = 0. */
const MIN_DELTA = 1e-9;

const PARAMETERS = { epsilon_each: "ε each", sigma: "σ", share: "γ", gamma: "γ" };

const form = byId("budget-form");
const question = questionOf(form, { request, present });

let current = null; // {answer, state}

/** Prepares the form; `state` gives the page's, `change` alters it. To be called once. */
export function prepare(state, change) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    change({ ...state(), ...statedIn(form) });
    if (!question.isAsked()) question.ask();
  });
}

/** Offers the comparison around an answer; a link that asks for one gets it at once. */
export function offer(answer, state) {
  current = { answer, state };
  const { target_epsilon: target, delta } = answer.problem;
  byId("budget_total_epsilon").placeholder = plain(target);
  byId("budget_total_delta").placeholder = plain(delta || MIN_DELTA, 3);
  if (question.isAsked()) return;
  question.forget();
  if (fields.controls(form).some(({ id }) => state[id])) question.ask();
}

/** Returns the voters and the budget that are on the page, as the API has them. */
export function request() {
  const { target_epsilon: target, delta } = current.answer.problem;
  return {
    ...votersOf(current.answer.problem, current.state), objective: current.state.objective || undefined,
    queries: 1, total_epsilon: target, total_delta: delta || MIN_DELTA, ...fields.bodyOf(form),
  };
}

function present({ rows, total, queries, fresh, voters, draw, not_compared: omitted, without_noise: note }) {
  const caption = `Each spends at most ${guarantee(total.epsilon, total.delta)} on ${queries} release${queries === 1 ? "" : "s"}, the most useful first`;
  const draws = draw ? ` One record reaches ${plain(draw.reached, 3)} voters on average.` : "";
  const cells = rows.map((row) => [
    make("span", { class: "named" }, swatch(row.name), " ", label(row.name)),
    row.value === null ? "nothing fits" : `${PARAMETERS[row.parameter] ?? row.parameter} = ${plain(row.value)}`,
    roundedUp(row.epsilon),
    bar(row.utility),
    plain(row.disagreement, 3),
    plain(row.tv_error, 3),
  ]);
  const omissions = Object.entries(omitted).map(([name, reason]) => make("li", {}, `${label(name)}: ${reason}`));
  return [
    make("p", { class: "about" }, `${caption}.${draws}${assumed({ fresh, queries, voters })}`),
    scrolling(caption, table(caption, ["Mechanism", "Parameter", "Spends ε", "Utility kept", "Disagreement", "tv error"], cells)),
    ...(note ? [make("p", { class: "about" }, note)] : []),
    ...(omissions.length ? [make("p", { class: "about" }, "Not compared:"), make("ul", { class: "hint" }, ...omissions)] : []),
  ];
}

function bar(share) {
  if (share === null) return "–";
  const fill = make("span", { class: "bar", "aria-hidden": "true" });
  fill.style.width = `${3 * Math.max(0, share)}rem`;
  return make("span", { class: "barred" }, make("span", {}, percent(share, 1)), fill);
}
