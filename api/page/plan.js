// What to release within a budget, in words: the answer of /v1/plan, for the voters and the budget of the design, or of its own form.

import { planRows, ranking } from "./classes.js";
import { label } from "./curves.js";
import { byId, make, prose, scrolling, table } from "./elements.js";
import { command } from "./groups.js";
import { assumed, count, percent, roundedUp } from "./numbers.js";
import { questionOf } from "./question.js";
import * as statement from "./statement.js";
import { voterGuarantee } from "./words.js";

/** How the answer to its own form is shown: voters that are alike, or groups. */
export const PLAN = {
  present: (answer, body) => [
    ...(answer.voters ? ofVoters(answer) : ranking({ ...answer, fresh: body.fresh, voters: {} })),
    ...(body.groups && answer.verdict === "noisy majority" ? command("plan", body, "plan.json") : []),
  ],
  rows: (answer, body) => (!answer.voters ? planRows(answer, body) : answer.verdict === "none" ? null : rowsOfVoters(answer, body)),
};

let votersText = ""; // the voters on the page, as text
let advice = null; // the question about them

/** Prepares the button; `readBudget` gives the voters and the budget. To be called once. */
export function prepare(readBudget) {
  const request = () => {
    const { objective, n: _records, subsample_size: _drawn, ...asked } = readBudget();
    return { ...asked, prior: objective ?? "rectangular" };
  };
  advice = questionOf(byId("budget-form"), { path: "v1/plan", of: "advice", request, present: ofVoters });
  byId("advice-ask").addEventListener("click", advice.ask);
  byId("budget-form").addEventListener("input", advice.forget);
}

/** Forgets the advice for other voters than those of an answer. */
export function offer({ problem: { K, epsilon, Delta, profile, affected } }) {
  const now = JSON.stringify([K, epsilon, Delta, profile, affected]);
  if (now !== votersText) advice.forget();
  votersText = now;
}

/** The optimum of a plan has a target of its own: it is not the design on the page. */
function mechanismName(mechanism) {
  return mechanism === "optimal" ? "optimal γ of one target" : label(mechanism);
}

/** Returns what a plan says to do, and what to reconsider. */
export function advised({ advice, warnings, queries, fresh, voters }) {
  return [
    make("p", { class: "headline" }, ...prose(advice + assumed({ fresh, queries, voters }))),
    ...(warnings.length ? [make("ul", { class: "warnings" }, ...warnings.map((text) => make("li", {}, ...prose(text))))] : []),
  ];
}

/** Returns the rows of a statement of the best option of a plan for voters that are alike. */
function rowsOfVoters({ voters, fresh, queries, total, options: [best], ...answer }, body) {
  const { K, affected, epsilon } = voters;
  const isPublic = epsilon === "inf";
  const each = isPublic ? "not private" : voterGuarantee(voters);
  return [
    ["Guarantee", statement.total(total, queries, best.spent.epsilon)],
    ["Mechanism", `${mechanismName(best.mechanism)}: ${best.why}`],
    ["Unit of privacy", `one record, which reaches at most ${affected} of ${K} voters, each ${each}`],
    ["Neighbouring data sets", `those that differ in one record, so that at most ${count(affected, "voter")} may change`],
    ["What is published", "one bit a release; no counts and no margins"],
    ["Account", best.account],
    ["Assumed", isPublic ? statement.LAYOUT : statement.voters({ fresh, queries })],
    ...statement.rowsOfDesign(answer),
    ["Question", JSON.stringify(body)],
  ];
}

/** Returns a plan for voters that are alike. */
function ofVoters(answer) {
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
