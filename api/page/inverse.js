// The inverse question: which m, or which ε, keeps so much? The answer is put into the form and designed like any other.

import { byId } from "./elements.js";
import * as fields from "./fields.js";
import { Cancelled, answered } from "./follow.js";
import { percent, plain } from "./numbers.js";
import { chosen } from "./state.js";

const NAMES = { m: "m", target_epsilon: "a target ε of", epsilon: "ε" };
const WANTED = ["parameter", "utility", "agreement"];

let controller = null; // of the request under way

/** Prepares the fields; `read` gives the state of the form, and `use` takes the one that was found. To be called once. */
export function prepare(read, use) {
  const find = () => search(read(), use);
  byId("wanted_utility").value = byId("wanted_utility").dataset.example;
  byId("least-ask").addEventListener("click", () => {
    if (controller) controller.abort(new Cancelled());
    else find();
  });
  byId("inverse").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.target.tagName !== "INPUT") return;
    event.preventDefault(); // which would design what the form says now
    if (!controller) find();
  });
}

/** Offers what has a meaning with the voters and the target that the form states. */
export function arrange() {
  const select = byId("wanted_parameter");
  const wanted = chosen("target") === "m" ? "m" : "target_epsilon";
  for (const option of select.options) option.hidden = option.disabled = nameOf(option) !== wanted && !(nameOf(option) === "epsilon" && wanted === "m");
  if (select.selectedOptions[0]?.disabled ?? true) [...select.options].find((option) => nameOf(option) === wanted).selected = true;
}

function nameOf(option) {
  return option.value || option.textContent; // the usual one has no value
}

async function search(state, use) {
  const own = (controller = new AbortController());
  const say = (text) => (byId("least-status").textContent = text);
  const form = byId("problem");
  fields.clear(form);
  byId("least-ask").textContent = "Cancel";
  say("Searching …");
  try {
    const options = { body: question(form), signal: own.signal, onProgress: say, onWait: (_, reason) => say(reason) };
    const answer = await (await answered("v1/least", options)).json();
    use(answerOf(state, answer));
    say(summary(answer));
  } catch (error) {
    const errors = Object.entries(error.fields ?? {}).map(([name, text]) => [WANTED.includes(name) ? `wanted_${name}` : name, text]);
    const { first, rest } = fields.show(form, Object.fromEntries(errors));
    say(own.signal.reason instanceof Cancelled ? "Cancelled." : first ? rest.join(" ") : error.message);
    first?.focus();
  } finally {
    controller = null;
    byId("least-ask").textContent = "Find";
    byId("least-status").scrollIntoView({ block: "nearest" });
  }
}

/** Returns what is asked: what the form states, without what is searched for. */
function question(form) {
  const parameter = nameOf(byId("wanted_parameter").selectedOptions[0]);
  const { target_epsilon: _, m, epsilon, ...body } = fields.bodyOf(form);
  return { ...body, parameter, ...(parameter === "epsilon" ? { m } : { epsilon }) };
}

function answerOf(state, { parameter, value, objective }) {
  const cleared = parameter === "target_epsilon" ? { m: "" } : { target_epsilon: "" };
  return { ...state, ...cleared, [parameter]: String(value), objective: objective === byId("objective").placeholder ? "" : objective };
}

function summary({ parameter, value, measure, wanted, reached, below, is_least: least }) {
  const name = NAMES[parameter];
  const keeps = measure === "utility" ? "keeps" : "is right in";
  const sentence = `${name}${parameter === "target_epsilon" ? "" : " ="} ${plain(value)} ${keeps} ${percent(reached, 2)}.`;
  const opening = sentence[0] === "a" ? `A${sentence.slice(1)}` : sentence;
  if (!below) return `${opening} It is the smallest that is tried.`;
  const neighbour = `At ${plain(below.value)} the best γ ${keeps} ${percent(below.reached, 2)}`;
  const proof = least ? `; it is proved that nothing there or below reaches ${plain(wanted * 100, 6)} %.` : "; smaller values are not ruled out.";
  return `${opening} ${neighbour}${proof}`;
}

