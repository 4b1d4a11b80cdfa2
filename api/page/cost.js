// What does it cost?: ε of many releases of a mechanism, or the parameter that fits in a total, and its curves.

import { label } from "./curves.js";
import { draw } from "./draw.js";
import { byId, make, tilesOf } from "./elements.js";
import * as fields from "./fields.js";
import { MECHANISMS } from "./mechanisms.js";
import { count, guarantee, plain, roundedUp } from "./numbers.js";
import * as statement from "./statement.js";

const SYMBOLS = { sigma: "σ" };

/** What the form asks, and how the answer is shown. */
export const COST = { request: () => ({ ...fields.bodyOf(byId("cost-form")), curve: true }), present, attached, rows };

function present({ mechanism, parameter, epsilon, delta, account }, { queries = 1 }) {
  const tiles = [
    ["They cost", epsilon === null ? "no finite ε" : guarantee(epsilon, delta), `${count(queries, "release")} together, each chosen freely in view of earlier answers`],
    ["Account", account, "the one that proves the least ε; all of them hold"],
    [`Parameter ${SYMBOLS[MECHANISMS[mechanism]] ?? MECHANISMS[mechanism] ?? ""}`, plain(parameter, 6), `of ${label(mechanism)}`],
  ];
  return [
    make("dl", { id: "cost-figures", class: "tiles" }, ...tilesOf(tiles)),
    make("div", { class: "plots" }, make("figure", { id: "cost-delta-figure" }), make("figure", { id: "cost-queries-figure" })),
  ];
}

function attached({ delta, curve }, body) {
  const { queries = 1 } = body;
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
  if (epsilon === null) return null;
  const { K, classes = 2, affected = 1, queries = 1, records, sample, sampling = "poisson" } = body;
  const drawn = records === undefined ? "" : `; each release uses a fresh and secret sample of ${sample} of ${records} records (${sampling})`;
  return [
    ["Guarantee", statement.total({ epsilon: body.total_epsilon ?? epsilon, delta }, queries, epsilon)],
    ["Mechanism", `${label(mechanism)}, ${SYMBOLS[MECHANISMS[mechanism]] ?? MECHANISMS[mechanism]} = ${parameter}, among ${classes} classes${drawn}`],
    ["Unit of privacy", `one record, which reaches at most ${affected} of ${K} voters, which are not private`],
    ["Neighbouring data sets", `those that differ in one record, so that at most ${count(affected, "voter")} may change`],
    ["What is published", "one class a release, or none; no counts and no margins"],
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
  return `${some.map((point) => `${name(point)}: ε = ${point.epsilon === null ? "none" : roundedUp(point.epsilon)}`).join("; ")}. The dotted line marks the request.`;
}
