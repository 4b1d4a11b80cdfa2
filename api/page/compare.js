// Every mechanism for releasing a majority within one budget: the same voters, the same total privacy, the same number of releases.

import { label, swatch } from "./curves.js";
import { byId, make, scrolling, table } from "./elements.js";
import * as fields from "./fields.js";
import { answered } from "./follow.js";
import { assumed, guarantee, percent, plain, roundedUp } from "./numbers.js";
import { votersOf } from "./state.js";

/** Some ways, and all accounts that count in floating point, have no finite ε at δ = 0. */
const MIN_DELTA = 1e-9;

const PARAMETERS = { epsilon_each: "ε each", sigma: "σ", share: "γ", gamma: "γ" };

const NAMES = ["queries", "total_epsilon", "total_delta", "n", "subsample_size"];

/** How the voters' subsamples are drawn, where they are. */
const DRAW = ["n", "subsample_size"];

let current = null; // {answer, state}
let shown = ""; // the request whose answer is on the page
let controller = null; // of the request under way
let requestText = ""; // the text of its request

/** Prepares the controls; `state` gives the page's, `change` alters it. To be called once. */
export function prepare(state, change) {
  byId("compare").addEventListener("submit", (event) => {
    event.preventDefault();
    change({ ...state(), ...Object.fromEntries(NAMES.map((name) => [name, byId(name).value.trim()])) });
    workOut();
  });
  byId("fresh").addEventListener("change", () => {
    forget();
    if (NAMES.some((name) => state()[name])) workOut();
  });
}

/** Offers the comparison around an answer; a link that asks for one gets it at once. */
export function offer(answer, state) {
  current = { answer, state };
  const { target_epsilon: target, delta } = answer.problem;
  byId("total_epsilon").placeholder = plain(target);
  byId("total_delta").placeholder = plain(delta || MIN_DELTA, 3);
  const now = JSON.stringify(request());
  if (now === shown || (controller && now === requestText)) return;
  forget();
  if (NAMES.some((name) => state[name])) workOut();
}

function forget() {
  controller?.abort(new DOMException("Asked for something else.", "AbortError"));
  controller = null;
  shown = "";
  byId("compared").replaceChildren();
  byId("compare-status").textContent = "";
}

/** Returns the voters and the budget that are on the page, as the API has them. */
export function request() {
  const { target_epsilon: target, delta } = current.answer.problem;
  const value = (name, fallback) => (byId(name).value.trim() === "" ? fallback : number(byId(name).value.trim()));
  const draw = Object.fromEntries(DRAW.filter((name) => value(name, "") !== "").map((name) => [name, value(name, "")]));
  return {
    ...votersOf(current.answer.problem, current.state), objective: current.state.objective,
    queries: value("queries", 1), total_epsilon: value("total_epsilon", target), total_delta: value("total_delta", delta || MIN_DELTA),
    fresh: byId("fresh").checked, ...draw,
  };
}

/** Returns the number that a text is; what is none goes to the server as it is, which says what is wrong with it. */
function number(text) {
  return Number.isFinite(Number(text)) ? Number(text) : text;
}

async function workOut() {
  const body = request();
  if (controller && requestText === JSON.stringify(body)) return;
  controller?.abort(new DOMException("Asked for something else.", "AbortError"));
  controller = new AbortController();
  requestText = JSON.stringify(body);
  const { signal } = controller;
  const form = byId("compare");
  fields.clear(form);
  try {
    const say = (text) => (byId("compare-status").textContent = text);
    say("Working …");
    const answer = await (await answered("v1/compare", { body, signal, onProgress: say, onWait: (_, reason) => say(reason) })).json();
    shown = JSON.stringify(body);
    say("");
    present(answer);
  } catch (error) {
    if (signal === controller?.signal) refuse(form, error);
  } finally {
    if (signal === controller?.signal) controller = null;
  }
}

function refuse(form, error) {
  const { first, rest } = fields.show(form, error.fields ?? {});
  shown = "";
  byId("compared").replaceChildren(); // it answered something else
  byId("compare-status").textContent = first ? rest.join(" ") : error.message;
  first?.focus();
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
  byId("compared").replaceChildren(
    make("p", { class: "about" }, `${caption}.${draws}${assumed({ fresh, queries, voters })}`),
    scrolling(caption, table(caption, ["Mechanism", "Parameter", "Spends ε", "Utility kept", "Disagreement", "tv error"], cells)),
    ...(note ? [make("p", { class: "about" }, note)] : []),
    ...(omissions.length ? [make("p", { class: "about" }, "Not compared:"), make("ul", { class: "hint" }, ...omissions)] : []),
  );
}

function bar(share) {
  if (share === null) return "–";
  const fill = make("span", { class: "bar", "aria-hidden": "true" });
  fill.style.width = `${3 * Math.max(0, share)}rem`;
  return make("span", { class: "barred" }, make("span", {}, percent(share, 1)), fill);
}
