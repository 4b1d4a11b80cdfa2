// The second tab, what does it cost?: ε of many releases of a mechanism, or the parameter that fits in a total, and its curves.

import { label } from "./curves.js";
import { draw } from "./draw.js";
import { byId, make } from "./elements.js";
import { MECHANISMS } from "./mechanisms.js";
import { count, guarantee, plain, roundedUp } from "./numbers.js";
import { bodyOf, questionOf } from "./question.js";
import * as statement from "./statement.js";

/** Fields of the form (and of the URL) with the API's names. */
const FIELDS = {
  cost_mechanism: "mechanism", cost_K: "K", cost_classes: "classes", cost_affected: "affected", cost_queries: "queries", cost_parameter: "parameter",
  cost_epsilon: "total_epsilon", cost_delta: "delta", cost_threshold: "threshold", cost_check_sigma: "check_sigma", cost_records: "records",
  cost_sample: "sample", cost_sampling: "sampling",
};

const SYMBOLS = { sigma: "σ" };

/** What is asked where nothing is filled in: a published setting of PATE. */
const FIRST = { cost_mechanism: Object.keys(MECHANISMS).find((name) => MECHANISMS[name] === "sigma"), cost_K: "250", cost_classes: "10", cost_queries: "286", cost_parameter: "40", cost_delta: "1e-5" };

const question = questionOf({
  form: "cost-form", status: "cost-status", path: "v1/cost", names: FIELDS, further: { total_delta: "cost_delta" }, request, present,
  empty: () => {
    byId("cost-result").hidden = true;
    statement.withdraw("cost");
  },
});

/** Prepares the form; `state` gives the page's, `change` alters it. To be called once. */
export function prepare(state, change) {
  byId("cost_mechanism").append(...Object.keys(MECHANISMS).map((name) => make("option", { value: name }, label(name))));
  byId("cost-form").addEventListener("submit", (event) => {
    event.preventDefault();
    change({ ...state(), ...Object.fromEntries(Object.keys(FIELDS).map((name) => [name, byId(name).value.trim()])) });
    if (!question.isAsked()) question.ask();
  });
}

/** Shows what a link asks for, and where it asks for nothing a published setting. */
export function arrive(state) {
  if (!Object.keys(FIELDS).some((name) => state[name])) for (const [name, text] of Object.entries(FIRST)) byId(name).value = text;
  byId("cost_mechanism").value ||= FIRST.cost_mechanism;
  if (!question.isAsked()) question.ask();
}

/** Returns what the form asks, as the API has it; an empty field is left out. */
function request() {
  const body = bodyOf(FIELDS);
  if (body.total_epsilon !== undefined && body.parameter === undefined) {
    body.total_delta = body.delta;
    delete body.delta;
  }
  return { ...body, curve: true };
}

function present(answer, body) {
  const { mechanism, parameter, epsilon, delta, account, curve } = answer;
  if (epsilon !== null) statement.offer("cost", () => rows(answer, body));
  const { queries = 1 } = body;
  byId("cost-result").hidden = false;
  const tiles = [
    ["They cost", epsilon === null ? "no finite ε" : guarantee(epsilon, delta), `${count(queries, "release")} together, each chosen freely in view of earlier answers`],
    ["Account", account, "the one that proves the least ε; all of them hold"],
    [`Parameter ${SYMBOLS[MECHANISMS[mechanism]] ?? MECHANISMS[mechanism] ?? ""}`, plain(parameter, 6), `of ${label(mechanism)}`],
  ];
  byId("cost-figures").replaceChildren(
    ...tiles.map(([name, value, meaning]) => make("div", {}, make("dt", {}, name), make("dd", { class: "value" }, value), make("dd", { class: "hint" }, meaning))),
  );
  const of = Object.entries(body).filter(([name]) => name !== "curve").map(([name, value]) => (name === "mechanism" ? value : `${name}${value}`)).join("-");
  const overDelta = curve.filter((point) => point.queries === queries);
  const overQueries = curve.filter((point) => point.delta === delta);
  plot("cost-delta-figure", overDelta, (point) => Math.log10(point.delta), Math.log10(delta), {
    of, title: `ε over δ, of ${count(queries, "release")}`, x: "δ, as a power of ten", heads: (place) => plain(overDelta[place].delta),
    about: sample(overDelta, (point) => `δ = ${plain(point.delta)}`),
  });
  plot("cost-queries-figure", overQueries, (point) => point.queries, queries, {
    of, title: `ε over the number of releases, at δ = ${plain(delta)}`, x: "releases Q", whole: true,
    about: sample(overQueries, (point) => count(point.queries, "release")),
  });
}

/** Returns the rows of a statement. */
function rows(answer, { curve, ...body }) {
  const { mechanism, parameter, epsilon, delta, account } = answer;
  const { K, classes = 2, affected = 1, queries = 1, records, sample, sampling = "poisson" } = body;
  const drawn = records === undefined ? "" : `; each release uses a fresh and secret sample of ${sample} of ${records} records (${sampling})`;
  return [
    ["Guarantee", statement.total({ epsilon: body.total_epsilon ?? epsilon, delta }, queries, epsilon)],
    ["Mechanism", `${label(mechanism)}, ${SYMBOLS[MECHANISMS[mechanism]] ?? MECHANISMS[mechanism]} = ${parameter}, among ${classes} classes${drawn}`],
    ["Unit of privacy", `one record, which reaches at most ${affected} of ${K} voters, which are not private`],
    ["Neighbouring data sets", `those that differ in one record, so that at most ${count(affected, "voter")} may change`],
    ["What leaves", "one class a release, or none; no counts and no margins"],
    ["Account", `${account}, the one that proves the least ε of all that hold`],
    ["Assumed", statement.LAYOUT],
    ...statement.rowsOfDesign(answer),
    ["Question", JSON.stringify(body)],
  ];
}

function plot(id, points, place, at, rest) {
  byId(id).hidden = points.length < 2;
  if (points.length < 2) return;
  const x = points.map(place);
  const inside = at >= Math.min(...x) && at <= Math.max(...x);
  draw(byId(id), { y: "total ε", lines: [{ name: "cost", x, y: points.map(({ epsilon }) => epsilon) }], hidden: new Set(), markers: true, at: inside ? at : undefined, ...rest });
}

function sample(points, name) {
  const some = [points[0], points[Math.floor(points.length / 2)], points[points.length - 1]];
  return `${some.map((point) => `${name(point)}: ε = ${point.epsilon === null ? "none" : roundedUp(point.epsilon)}`).join("; ")}. The dotted line is what was asked.`;
}
