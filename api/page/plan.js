// What to release within a budget, in words: the answer of /v1/plan for the voters and the budget that are on the page.

import { label } from "./curves.js";
import { byId, make, scrolling, table } from "./elements.js";
import * as fields from "./fields.js";
import { answered } from "./follow.js";
import { assumed, count, percent, roundedUp } from "./numbers.js";
import * as statement from "./statement.js";
import { voterGuarantee } from "./words.js";

let votersText = ""; // the voters on the page, as text
let controller = null; // of the request under way

/** Prepares the button; `budgeted` gives the voters and the budget. To be called once. */
export function prepare(readBudget) {
  byId("plan-ask").addEventListener("click", () => workOut(readBudget()));
  byId("fresh").addEventListener("change", forget);
  byId("compare").addEventListener("input", forget);
}

/** Forgets the advice for other voters than those of an answer. */
export function offer({ problem: { K, epsilon, Delta, profile, affected } }) {
  const now = JSON.stringify([K, epsilon, Delta, profile, affected]);
  if (now !== votersText) forget();
  votersText = now;
}

function forget() {
  controller?.abort(new DOMException("Asked for something else.", "AbortError"));
  controller = null;
  byId("planned").replaceChildren();
  byId("plan-status").textContent = "";
}

async function workOut({ objective, n: _records, subsample_size: _drawn, ...voters }) {
  forget();
  const own = (controller = new AbortController());
  const say = (text) => (byId("plan-status").textContent = text);
  fields.clear(byId("compare"));
  const body = { ...voters, prior: objective || "rectangular" };
  try {
    say("Working …");
    const options = { body, signal: own.signal, onProgress: say, onWait: (_, reason) => say(reason) };
    const answer = await (await answered("v1/plan", options)).json();
    say("");
    byId("planned").replaceChildren(...ofVoters(answer));
  } catch (error) {
    if (own !== controller) return;
    const { first, rest } = fields.show(byId("compare"), error.fields ?? {});
    say(first ? rest.join(" ") : error.message);
    first?.focus();
  } finally {
    if (own === controller) controller = null;
  }
}

/** The optimum of a plan has a target of its own: it is not the design on the page. */
function mechanismName(mechanism) {
  return mechanism === "optimal" ? "optimal γ of one target" : label(mechanism);
}

/** Returns what a plan says to do, and what to reconsider. */
export function advised({ advice, warnings, queries, fresh, voters }) {
  return [
    make("p", { class: "headline" }, advice + assumed({ fresh, queries, voters })),
    ...(warnings.length ? [make("ul", { class: "warnings" }, ...warnings.map((text) => make("li", {}, text)))] : []),
  ];
}

/** Returns the rows of a statement of the best option of a plan for voters that are alike. */
export function rowsOfVoters({ voters, fresh, queries, total, options: [best], ...answer }, body) {
  const { K, affected, epsilon } = voters;
  const isPublic = epsilon === "inf";
  const each = isPublic ? "not private" : voterGuarantee(voters);
  return [
    ["Guarantee", statement.total(total, queries, best.spent.epsilon)],
    ["Mechanism", `${mechanismName(best.mechanism)}: ${best.why}`],
    ["Unit of privacy", `one record, which reaches at most ${affected} of ${K} voters, each ${each}`],
    ["Neighbouring data sets", `those that differ in one record, so that at most ${count(affected, "voter")} may change`],
    ["What leaves", "one bit a release; no counts and no margins"],
    ["Account", best.account],
    ["Assumed", isPublic ? statement.LAYOUT : statement.voters({ fresh, queries })],
    ...statement.rowsOfDesign(answer),
    ["Question", JSON.stringify(body)],
  ];
}

/** Returns a plan for voters that are alike. */
export function ofVoters(answer) {
  const { options, queries } = answer;
  const caption = `Each mechanism for ${queries} answer${queries === 1 ? "" : "s"}, the most accurate first`;
  const cells = options.map((option) => [
    mechanismName(option.mechanism),
    option.fits ? percent(option.accuracy, 1) : option.outcome,
    option.fits ? (option.queries === null ? "no limit" : String(option.queries)) : "–",
    roundedUp(option.spent?.epsilon),
  ]);
  const reasons = options.flatMap((option) => [make("dt", {}, mechanismName(option.mechanism)), make("dd", {}, option.why)]);
  return [
    ...advised(answer),
    scrolling(caption, table(caption, ["Mechanism", "Right", "Answers", "Spends ε"], cells)),
    make("details", {}, make("summary", {}, "Reasons, by mechanism"), make("dl", { class: "words" }, ...reasons)),
  ];
}
