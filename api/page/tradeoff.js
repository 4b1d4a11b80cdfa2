// Utility and error over the privacy of the release: the same voters, other targets.

import { draw } from "./draw.js";
import { byId, make } from "./elements.js";
import { Cancelled, answered } from "./follow.js";
import { percent, plain } from "./numbers.js";
import { toQuery } from "./state.js";
import { MEASURE_NAMES } from "./words.js";

const AT_ONCE = 5; // seconds: what costs less is worked out without being asked for
const STEPS = 8; // targets where m has no meaning

let offered = null; // {answer, state}
let found = null; // {of: the text of the request, answer}
let way = { hidden: new Set(), measure: "tv_error" };
let running = null; // controls the asking that is under way
let asking = ""; // the text of its request

/** Prepares the controls; to be called once. */
export function prepare() {
  byId("tradeoff-ask").addEventListener("click", () => {
    if (running) running.abort(new Cancelled());
    else workOut();
  });
}

/** Offers the trade-off around an answer, and works it out at once if that costs little. */
export function offer(answer, state) {
  offered = { answer, state };
  const of = JSON.stringify(request());
  if (running && asking === of) return;
  running?.abort(new DOMException("Asked for something else.", "AbortError"));
  running = null;
  if (found && found.of === of) {
    present();
    return;
  }
  found = null;
  byId("tradeoff-plots").hidden = true;
  byId("tradeoff-status").textContent = "";
  byId("tradeoff-ask").hidden = false;
  byId("tradeoff-hint").textContent =
    "The best γ at other targets, for the same voters: how much utility each step of privacy costs.";
  if (costsLittle()) workOut();
}

/** Shows what was found in another way. */
export function show(hidden, measure) {
  way = { hidden, measure };
  if (found) present();
}

/** Judges by what the answer above took, which is what each of the others will take. */
function costsLittle() {
  const seconds = offered.answer.statistics.seconds.total;
  return seconds !== undefined && seconds * request().steps < AT_ONCE;
}

function request() {
  const { K, epsilon, Delta, affected, target_epsilon: target } = offered.answer.problem;
  const { delta, objective, shape } = offered.state;
  const asked = { K, epsilon, Delta, affected, objective, shape };
  if (delta !== "") asked.delta = Number(delta);
  if (offered.answer.problem.m !== null) return { asked, steps: Math.ceil((K + 1) / 2) };
  const targets = Array.from({ length: STEPS }, (_, step) => (target * (step + 1)) / (STEPS / 2));
  return { asked: { ...asked, target_epsilons: target > 0 ? targets : [0.25, 0.5, 1, 2] }, steps: STEPS };
}

async function workOut() {
  running = new AbortController();
  const { signal } = running;
  const button = byId("tradeoff-ask");
  button.textContent = "Cancel";
  try {
    const onProgress = (text) => (byId("tradeoff-status").textContent = text);
    onProgress("Working …");
    const of = (asking = JSON.stringify(request()));
    const answer = await (await answered("v1/tradeoff", { body: request().asked, signal, onProgress })).json();
    found = { of, answer };
    present();
  } catch (error) {
    if (signal === running?.signal) refuse(signal.aborted ? signal.reason : error);
  } finally {
    if (signal === running?.signal) running = null;
    if (!running) button.textContent = "Compute";
  }
}

function refuse(error) {
  byId("tradeoff-status").textContent = error instanceof Cancelled ? "Cancelled." : error.message;
}

function present() {
  const { answer } = found;
  const byM = answer.over === "m";
  const x = byM ? answer.m : answer.target_epsilon;
  const at = byM ? offered.answer.problem.m : offered.answer.problem.target_epsilon;
  const name = byM ? "privacy allowance m" : "ε of the release";
  const common = { x: name, markers: true, at: x.length > 1 && at >= Math.min(...x) && at <= Math.max(...x) ? at : undefined, heads: (place) => there(answer, place, x) };
  byId("tradeoff-ask").hidden = true;
  byId("tradeoff-status").textContent = "";
  byId("tradeoff-plots").hidden = false;
  draw(byId("utility-figure"), {
    ...common, title: "Utility kept", y: "share of the noiseless utility", hidden: new Set(), ceiling: 1.04,
    about: about(answer, x, name), lines: [{ name: "optimal", x, y: answer.utility }],
  });
  byId("average-figure").hidden = !answer.curves;
  if (!answer.curves) return;
  const lines = Object.entries(answer.curves).map(([curve, errors]) => ({ name: curve, x, y: errors[way.measure] }));
  const measured = lines.filter(({ y }) => y.some((value) => value !== null));
  byId("average-figure").hidden = measured.length === 0;
  draw(byId("average-figure"), {
    ...common, title: `Average ${MEASURE_NAMES[way.measure]}`, y: "probability", hidden: way.hidden,
    about: "Averaged over the votes that the objective expects.", lines: measured,
  });
}

function about(answer, x, name) {
  const worth = x.map((value, place) => `${plain(value)}: ${percent(answer.utility[place], 1)}`);
  const some = worth.length <= 6 ? worth : [worth[0], worth[Math.floor(worth.length / 2)], worth[worth.length - 1]];
  return `Utility kept by ${name}: ${some.join("; ")}. The dotted line is the target above.`;
}

function there(answer, place, x) {
  const { state } = offered;
  const other = answer.over === "m" ? { m: String(x[place]), target_epsilon: "" } : { m: "", target_epsilon: String(x[place]) };
  return make("a", { href: toQuery({ ...state, ...other }) }, plain(x[place]));
}
