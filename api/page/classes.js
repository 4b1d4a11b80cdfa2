// Votes among any number of classes: every mechanism for the queries within one total, the answer of /v1/plurality/options.

import { label } from "./curves.js";
import { make, scrolling, table, tilesOf } from "./elements.js";
import { count, guarantee, percent, plain, roundedUp } from "./numbers.js";
import { advised } from "./plan.js";
import * as statement from "./statement.js";

const SYMBOLS = { sigma: "σ", check_sigma: "σ₁", threshold: "T", cap: "labels ≤", epsilon: "ε each", delta: "δ each", rate: "rate" };

/** How the answer is shown. */
export const OPTIONS = { present: (answer) => ranking({ ...answer, voters: { epsilon: "inf" } }), rows: planRows };

function mechanismName(mechanism) {
  return mechanism === "optimal" ? "optimal table" : label(mechanism);
}

/** Returns the rows of a statement of the best option of a plan. */
export function planRows(answer, body) {
  const { K, affected, classes, queries, total, options: [best], groups } = answer;
  const voters = groups ? groups.map(({ K, epsilon, Delta }) => `${K} ${epsilon === "inf" ? "that are not private" : `that are ${guarantee(epsilon, Delta ?? 0)}`}`).join(", ") : "";
  return [
    ["Guarantee", statement.total(total, queries, best.epsilon)],
    ["Mechanism", `${mechanismName(best.name)} among ${classes} classes, ${sortedParameters(best.parameters).join(", ")}`],
    ["Unit of privacy", `one record, which reaches at most ${affected} of ${K} voters${voters && `: ${voters}`}`],
    ["Neighbouring data sets", `those that differ in one record, so that at most ${count(affected, "voter")} may change`],
    ["What is published", "one class a release, or none; no counts and no margins"],
    ["Assumed", body.groups ? statement.voters({ fresh: body.fresh, queries }) : statement.LAYOUT],
    ...statement.rowsOfDesign(answer),
    ["Question", JSON.stringify(body)],
  ];
}

/** Returns a plan among classes: what to do, figures of the best option, and a table of all. */
export function ranking(answer) {
  const { K, classes, queries, total, price, samples, options, verdict } = answer;
  const [best] = options;
  const optimum = options.find(({ name }) => name === "optimal");
  const gap = optimum?.gap != null
    ? [plain(optimum.gap, 2), "no table of the same ε and δ each has a utility more than this above the optimal one"]
    : ["–", optimum ? "the table is made for the cost of all queries together" : "too many vote counts for a table"];
  const tiles = [
    ["Best option", mechanismName(best.name), `of ${count(options.length, "option")} that spend ${guarantee(total.epsilon, total.delta)}`],
    ["Right", percent(best.right, 1), `wrong ${percent(best.wrong, 1)}, no class ${percent(best.abstained, 1)}`],
    ["Utility", plain(best.utility), price ? `right − ${plain(price)} · wrong, a query` : "share of right answers"],
    ...(verdict === "plain majority" ? [] : [["Proven gap", ...gap]]),
  ];
  const caption = `${count(K, "voter")}, ${classes} classes, ${queries === 1 ? "1 query" : `${queries.toLocaleString("en")} queries`}; the best option first`;
  const law = samples === null ? "" : ` Shares are estimated from ${samples.toLocaleString("en")} queries simulated from the prior.`;
  const rows = options.map((option) => [
    mechanismName(option.name), shares(option), percent(option.right, 1), percent(option.wrong, 1), percent(option.abstained, 1), plain(option.utility),
    roundedUp(option.epsilon), chosen(option.parameters),
  ]);
  const heads = ["Mechanism", "Shares", "Right", "Wrong", "⊥", "Utility", "Spends ε", "Parameters"];
  return [
    ...advised(answer),
    make("dl", { class: "tiles" }, ...tilesOf(tiles)),
    make("p", { class: "about" }, `${caption}.${law}`),
    scrolling(caption, table(caption, heads, rows)),
  ];
}

/** Returns the three shares as one bar; the numbers stand beside it. */
function shares({ right, wrong, abstained }) {
  const parts = Object.entries({ right, wrong, abstained }).map(([name, share]) => {
    const part = make("span", { class: `part ${name}` });
    part.style.width = `${100 * share}%`;
    return part;
  });
  return make("span", { class: "shares", "aria-hidden": "true" }, ...parts);
}

function sortedParameters(parameters) {
  const order = Object.keys(SYMBOLS); // the API's objects come in any order
  const sorted = Object.entries(parameters).sort(([one], [other]) => order.indexOf(one) - order.indexOf(other));
  return sorted.map(([name, value]) => `${SYMBOLS[name] ?? name} ${name === "cap" ? "" : "= "}${plain(value)}`);
}

/** Returns a mechanism's own parameters; the ε and δ of each release only of a table, which has no other. */
function chosen({ epsilon, delta, ...own }) {
  const texts = sortedParameters(Object.keys(own).length ? own : { epsilon, delta });
  const parts = texts.map((text, index) => make("span", { class: "one" }, text + (index < texts.length - 1 ? ", " : "")));
  return make("span", { class: "chosen" }, ...parts.flatMap((part) => [part, make("wbr")]));
}
