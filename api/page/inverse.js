// The inverse question: which m, or which ε, keeps so much? The answer is put into the form and designed like any other.

import { byId } from "./elements.js";
import * as fields from "./fields.js";
import { Cancelled, answered } from "./follow.js";
import { percent, plain } from "./numbers.js";
import { chosen } from "./state.js";

const NAMES = { m: "m", target_epsilon: "a target ε of", epsilon: "ε" };

let controller = null; // of the request under way

/** Prepares the field; `read` gives the state of the form, and `use` takes the one that was found. To be called once. */
export function prepare(read, use) {
  const find = () => search(read(), use);
  byId("least-ask").addEventListener("click", () => {
    if (controller) controller.abort(new Cancelled());
    else find();
  });
  byId("wanted").addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault(); // which would design what the form says now
    if (!controller) find();
  });
}

/** Offers what has a meaning with the voters and the target that the form states. */
export function arrange() {
  const select = byId("unknown");
  const wanted = chosen("target") === "m" ? "m" : "target_epsilon";
  for (const option of select.options) option.hidden = option.disabled = option.value !== wanted && !(option.value === "epsilon" && wanted === "m");
  if (select.selectedOptions[0]?.disabled ?? true) select.value = wanted;
}

async function search(state, use) {
  const own = (controller = new AbortController());
  const say = (text) => (byId("least-status").textContent = text);
  const form = byId("problem");
  fields.clear(form);
  byId("least-ask").textContent = "Cancel";
  say("Searching …");
  try {
    const options = { body: question(state), signal: own.signal, onProgress: say, onWait: (_, reason) => say(reason) };
    const answer = await (await answered("v1/least", options)).json();
    use({ ...answerOf(state, answer), objective: answer.objective });
    say(summary(answer));
  } catch (error) {
    const cancelled = own.signal.aborted && own.signal.reason instanceof Cancelled;
    const complaints = formErrors(error.fields ?? {});
    const { first, rest } = fields.show(form, complaints);
    say(cancelled ? "Cancelled." : first ? rest.join(" ") : error.message);
    first?.focus();
  } finally {
    controller = null;
    byId("least-ask").textContent = "Find";
    byId("least-status").scrollIntoView({ block: "nearest" });
  }
}

function question({ K, m, epsilon, Delta, delta, affected, objective, shape }) {
  const parameter = byId("unknown").value;
  const share = Number(byId("wanted").value.trim().replace("%", "").replace(",", ".") || NaN) / 100;
  const body = { K: number(K), parameter, Delta: number(Delta), objective, shape };
  body[byId("utility").value] = Number.isFinite(share) ? Number(share.toPrecision(12)) : byId("wanted").value;
  if (parameter === "epsilon") body.m = number(m);
  else body.epsilon = epsilon === "inf" ? "inf" : number(epsilon);
  if (delta !== "") body.delta = number(delta);
  if (affected !== "") body.affected = number(affected);
  return body;
}

/** Returns the number that a field says, else its text, which the server will refuse by the field's name. */
function number(text) {
  return text === "" || Number.isNaN(Number(text)) ? text : Number(text);
}

function formErrors({ utility, agreement, parameter, digits: _, ...rest }) {
  const message = utility ?? agreement ?? parameter;
  return message === undefined ? rest : { ...rest, wanted: message };
}

function answerOf(state, { parameter, value }) {
  const cleared = parameter === "target_epsilon" ? { m: "" } : { target_epsilon: "" };
  return { ...state, ...cleared, [parameter]: String(value) };
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

