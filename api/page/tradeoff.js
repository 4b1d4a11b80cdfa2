// Utility and error over the privacy of the release: the same voters, other targets.

import { draw } from "./draw.js";
import { byId, make } from "./elements.js";
import { Cancelled, answered } from "./follow.js";
import { percent, plain } from "./numbers.js";
import { toQuery, votersOf } from "./state.js";
import { MEASURE_NAMES, problemName } from "./words.js";

const AT_ONCE = 5; // seconds: what costs less is worked out without being asked for
const STEPS = 8; // targets where m has no meaning

let current = null; // {answer, state}
let result = null; // {of: the text of the request, answer}
let view = { hidden: new Set(), measure: "tv_error" };
let controller = null; // of the request under way
let requestText = ""; // the text of its request

/** Prepares the controls; to be called once. */
export function prepare() {
  byId("tradeoff-ask").addEventListener("click", () => {
    if (controller) controller.abort(new Cancelled());
    else workOut();
  });
}

/** Offers the trade-off around an answer, and works it out at once if that costs little. */
export function offer(answer, state) {
  current = { answer, state };
  const key = JSON.stringify(request());
  if (controller && requestText === key) return;
  controller?.abort(new DOMException("Asked for something else.", "AbortError"));
  controller = null;
  if (result && result.of === key) {
    present();
    return;
  }
  result = null;
  byId("tradeoff-plots").hidden = true;
  byId("tradeoff-status").textContent = "";
  byId("tradeoff-ask").hidden = false;
  byId("tradeoff-hint").textContent =
    "The best γ at other targets, for the same voters: how much utility each step of privacy costs.";
  if (costsLittle()) workOut();
}

/** Shows what was found in another way. */
export function show(hidden, measure) {
  view = { hidden, measure };
  if (result) present();
}

/** Judges by what the answer above took, which is what each of the others will take. */
function costsLittle() {
  const seconds = current.answer.statistics.seconds.total;
  return seconds !== undefined && seconds * request().steps < AT_ONCE;
}

function request() {
  const { K, target_epsilon: target } = current.answer.problem;
  const { delta, objective, shape, profile } = current.state;
  const body = { ...votersOf(current.answer.problem, current.state), objective: objective || undefined, shape: shape || undefined };
  if (delta !== "") body.delta = Number(delta);
  if (current.answer.problem.m !== null && !profile) return { asked: body, steps: Math.ceil((K + 1) / 2) };
  const targets = Array.from({ length: STEPS }, (_, step) => (target * (step + 1)) / (STEPS / 2));
  return { asked: { ...body, target_epsilons: target > 0 ? targets : [0.25, 0.5, 1, 2] }, steps: STEPS };
}

async function workOut() {
  controller = new AbortController();
  const { signal } = controller;
  const button = byId("tradeoff-ask");
  button.textContent = "Cancel";
  try {
    const onProgress = (text) => (byId("tradeoff-status").textContent = text);
    onProgress("Working …");
    const key = (requestText = JSON.stringify(request()));
    const answer = await (await answered("v1/tradeoff", { body: request().asked, signal, onProgress })).json();
    result = { of: key, answer };
    present();
  } catch (error) {
    if (signal === controller?.signal) refuse(signal.aborted ? signal.reason : error);
  } finally {
    if (signal === controller?.signal) controller = null;
    if (!controller) button.textContent = "Compute";
  }
}

function refuse(error) {
  byId("tradeoff-status").textContent = error instanceof Cancelled ? "Cancelled." : error.message;
}

function present() {
  const { answer } = result;
  const byM = answer.over === "m";
  const x = byM ? answer.m : answer.target_epsilon;
  const at = byM ? current.answer.problem.m : current.answer.problem.target_epsilon;
  const name = byM ? "privacy allowance m" : "ε of the release";
  const common = { of: problemName(current.answer.problem), x: name, markers: true, at: x.length > 1 && at >= Math.min(...x) && at <= Math.max(...x) ? at : undefined, heads: (place) => targetLink(answer, place, x) };
  byId("tradeoff-ask").hidden = true;
  byId("tradeoff-status").textContent = "";
  byId("tradeoff-plots").hidden = false;
  draw(byId("utility-figure"), {
    ...common, title: "Utility kept", y: "share of the noiseless utility", hidden: new Set(), ceiling: 1.04,
    about: about(answer, x, name), lines: [{ name: "optimal", x, y: answer.utility }],
  });
  byId("average-figure").hidden = !answer.curves;
  if (!answer.curves) return;
  const lines = Object.entries(answer.curves).map(([curve, errors]) => ({ name: curve, x, y: errors[view.measure] }));
  const measured = lines.filter(({ y }) => y.some((value) => value !== null));
  byId("average-figure").hidden = measured.length === 0;
  draw(byId("average-figure"), {
    ...common, title: `Average ${MEASURE_NAMES[view.measure]}`, y: "probability", hidden: view.hidden,
    about: "Averaged over the votes that the objective expects.", lines: measured,
  });
}

function about(answer, x, name) {
  const shares = x.map((value, index) => `${plain(value)}: ${percent(answer.utility[index], 1)}`);
  const sample = shares.length <= 6 ? shares : [shares[0], shares[Math.floor(shares.length / 2)], shares[shares.length - 1]];
  return `Utility kept by ${name}: ${sample.join("; ")}. The dotted line is the target above.`;
}

function targetLink(answer, index, x) {
  const { state } = current;
  const other = answer.over === "m" ? { m: String(x[index]), target_epsilon: "" } : { m: "", target_epsilon: String(x[index]) };
  return make("a", { href: toQuery({ ...state, ...other }) }, plain(x[index]));
}
