// The page: what the form asks is put into the URL, asked of the API, and shown. Everything else is in the files below.

import { ask, forgetKey, hasKey, useKey } from "./ask.js";
import { OPTIONS } from "./classes.js";
import * as compare from "./compare.js";
import { COST } from "./cost.js";
import { label, swatch } from "./curves.js";
import * as designs from "./designs.js";
import { draw } from "./draw.js";
import { byId, make, prose, tilesOf } from "./elements.js";
import * as fields from "./fields.js";
import { Cancelled, answered, stop } from "./follow.js";
import { TABLE } from "./groups.js";
import * as inverse from "./inverse.js";
import { count, percent, plain } from "./numbers.js";
import * as objective from "./objective.js";
import * as plan from "./plan.js";
import { questionOf } from "./question.js";
import * as region from "./region.js";
import { chosen, fill, fromQuery, isNotPrivate, problemQuery, read, statedIn, toQuery } from "./state.js";
import * as statement from "./statement.js";
import * as take from "./take.js";
import * as tradeoff from "./tradeoff.js";
import { VERIFY, prepare as prepareFiles } from "./verify.js";
import { MEASURE_NAMES, aboutErrors, aboutGamma, headline, problemName, proof, tiles } from "./words.js";

const MAX_VISITED = 50;

/** What questions ask and show in a way of their own, by their paths. */
const OWN = { "v1/cost": COST, "v1/plan": plan.PLAN, "v1/plurality/options": OPTIONS, "v1/table": TABLE, "v1/verify": VERIFY };

const form = byId("problem");
const questions = Object.fromEntries([...document.querySelectorAll("form[data-path]:not(#budget-form)")].map((one) => [one.dataset.prefix, questionOf(one, OWN[one.dataset.path])]));
const visited = new Map(); // answers of this visit by their query, so that going back is immediate
let state = fromQuery(location.search);
let current = null; // what is on the page: {answer, text, curves}
let controller = null; // of the request under way
let incumbent = null; // the job that has a certified γ already: {id}

function start() {
  take.prepare();
  objective.prepare();
  compare.prepare(() => state, change);
  plan.prepare(compare.request);
  statement.prepare();
  prepareFiles(questions.verify);
  for (const [prefix, question] of Object.entries(questions)) {
    byId(`${prefix}-form`).addEventListener("submit", (event) => {
      event.preventDefault();
      change({ ...state, ...statedIn(byId(`${prefix}-form`)) });
      if (!question.isAsked()) question.ask();
    });
  }
  byId("question").addEventListener("change", ({ target }) => {
    change({ ...state, question: target.value });
    arrive(state);
  });
  tradeoff.prepare();
  designs.prepare();
  inverse.prepare(() => read(state), (next) => {
    fill(next);
    arrange();
    change(next, { focus: true });
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    change(read(state), { focus: true });
  });
  form.addEventListener("change", whenReleased(() => {
    arrange();
    translate();
    change(read(state));
  }));
  form.addEventListener("input", arrange);
  document.addEventListener("change", ({ target }) => {
    if (target.name === "measure") look({ ...state, measure: chosen("measure") });
  });
  document.addEventListener("click", follow);
  addEventListener("popstate", () => arrive(fromQuery(location.search)));
  byId("cancel").addEventListener("click", () => (incumbent ? stop(incumbent.id) : controller?.abort(new Cancelled())));
  byId("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    if (!useKey(byId("key").value)) {
      refuseKey("This is no key: a key is one word of letters, digits and signs.");
      return;
    }
    byId("key").value = "";
    design();
  });
  for (const name of ["scroll", "resize"]) addEventListener(name, fit, { passive: true });
  addEventListener("beforeprint", () => (byId("proof").open = true));
  byId("print").addEventListener("click", () => print());
  fit();
  arrive(state);
}

/**
 * Returns a handler that waits until no button of the pointer is down: leaving a field is a change, and what moves the
 * page between press and release makes the browser forget the click.
 */
function whenReleased(handle) {
  let pressed = false;
  let pending = false;
  const release = () => {
    pressed = false;
    setTimeout(() => pending && !pressed && run()); // after the click
  };
  const run = () => {
    pending = false;
    handle();
  };
  addEventListener("pointerdown", () => (pressed = true), true);
  for (const name of ["pointerup", "pointercancel"]) addEventListener(name, release, true);
  return () => {
    if (pressed) pending = true;
    else run();
  };
}

/** Gives the form the height that is left below it, so that its button is always in view. */
function fit() {
  const room = innerHeight - Math.max(16, form.parentElement.getBoundingClientRect().top) - 16;
  form.style.setProperty("--room", `${Math.max(room, 320)}px`);
}

/** Shows another state, from the URL or a link. */
function arrive(next) {
  state = next;
  fill(state);
  arrange();
  tabs();
  if (!state.tab) design();
  else if (state.tab !== "verify") questions[state.tab === "questions" ? choose() : state.tab]?.arrive(state);
}

/** Shows the form of the question that the state names, the first if it names none; returns the prefix of its ids. */
function choose() {
  const select = byId("question");
  select.value = state.question;
  if (select.selectedIndex < 0) select.selectedIndex = 0;
  for (const panel of document.querySelectorAll("[data-question]")) panel.hidden = panel.dataset.question !== select.value;
  return document.querySelector(`[data-question="${CSS.escape(select.value)}"] form`).dataset.prefix;
}

/** Shows the tab of the state, and has each tab lead to its question, with the other fields as they are. */
function tabs() {
  const shown = byId(`${state.tab}-panel`) ? state.tab : "design";
  document.body.dataset.tab = shown;
  for (const panel of document.querySelectorAll("[data-panel]")) panel.hidden = panel.dataset.panel !== shown;
  for (const link of document.querySelectorAll(".tabs a")) {
    const tab = link.id.replace("-tab", "");
    link.href = toQuery({ ...state, tab: tab === "design" ? "" : tab });
    if (tab === document.body.dataset.tab) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

/** Asks for another problem, and makes the URL say so. */
function change(next, { focus = false } = {}) {
  const isNew = toQuery(next) !== toQuery(state);
  state = next;
  if (isNew) history.pushState(null, "", toQuery(state));
  tabs();
  if ((isNew || focus) && !state.tab) design(focus);
}

/** Shows the same answer in another way. */
function look(next) {
  state = next;
  history.replaceState(null, "", toQuery(state));
  if (current) plots();
}

/** Follows a link to another state without loading the page again. */
function follow(event) {
  const link = event.target.closest("a[href^='?']");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  history.pushState(null, "", link.getAttribute("href"));
  arrive(fromQuery(location.search));
}

/** Shows the fields that have a meaning with what the others say. */
function arrange() {
  const stated = byId("profile").value.trim() !== "";
  const direct = stated || isNotPrivate(byId("epsilon").value.trim());
  const [byM, byEpsilon] = form.querySelectorAll("input[name=target]");
  byM.disabled = direct;
  if (direct && chosen("target") === "m") byEpsilon.checked = true;
  for (const name of ["m", "target_epsilon", "targets"]) fields.fieldOf(byId(name)).hidden = chosen("target") !== name;
  fields.fieldOf(byId("delta")).hidden = byId("delta-hint").hidden = chosen("target") === "targets";
  for (const name of ["epsilon", "Delta"]) fields.fieldOf(byId(name)).hidden = stated;
  byId("epsilon-hint").hidden = byId("inverse").hidden = stated;
  objective.arrange();
  inverse.arrange();
}

/** Says the target that was shown in the other way, where nothing is said in that way yet. */
function translate() {
  const target = chosen("target");
  const field = byId(target);
  const value = target === "targets" ? null : current?.answer.problem[target];
  if (field.value.trim() === "" && state[target] === "" && value) field.value = String(value);
}

async function design(focus = false) {
  controller?.abort(new DOMException("Asked for something else.", "AbortError"));
  controller = new AbortController();
  const { signal } = controller;
  const query = problemQuery(state);
  fields.clear(form);
  byId("trouble").hidden = byId("key-form").hidden = true;
  byId("answer").setAttribute("aria-busy", "true");
  const timer = setTimeout(() => say("Working …"), 300);
  try {
    const result = visited.get(query) ?? (await obtain(query, signal));
    remember(query, result);
    current = result;
    present();
    const name = result.answer.status === "optimal" ? "the best γ" : "the best γ so far";
    say(`Done: ${name} keeps ${tiles(result.answer)[0][1]} of the utility.`);
    if (focus) reveal();
  } catch (error) {
    if (signal === controller.signal) refuse(signal.aborted ? signal.reason : error, focus); // else something newer was asked
  } finally {
    clearTimeout(timer);
    if (signal === controller.signal) settle();
  }
}

async function obtain(query, signal) {
  let expected, stored = "";
  const begun = performance.now();
  const estimate = () => {
    if (expected === undefined) return stored;
    const late = performance.now() - begun > 2000 * expected;
    return late ? ` About ${plain(expected, 1)} s were expected: this one takes longer.${stored}` : ` About ${plain(expected, 1)} s are expected.${stored}`;
  };
  const options = {
    signal,
    onWait: (seconds, reason) => wait(`${reason}; trying again in ${seconds} s.`),
    onJob: async ({ nearest }) => {
      if (nearest) stored = ` Meanwhile, ${count(nearest.problem.K, "voter")} may use a stored γ that keeps ${percent(nearest.utility)}.`;
      expected = (await (await ask(`v1/estimate${query}`, { signal })).json()).seconds;
    },
    onProgress: (text, job) => {
      wait(text + estimate());
      offerIncumbent(job);
    },
  };
  const answer = await answered(`v1/gamma${query}`, options);
  if (answer.stopped) return stopped(answer.stopped, query, options);
  const text = await answer.text();
  const curves = await (await answered(`v1/error-curve${query}`, options)).json();
  return { answer: JSON.parse(text), text, curves };
}

function remember(query, result) {
  visited.set(query, result);
  if (visited.size > MAX_VISITED) visited.delete(visited.keys().next().value);
}

/** Returns the γ that a stopped job came to, and its curves: they are asked with its gap, which is enough for it. */
async function stopped(id, query, options) {
  const text = await (await ask(`v1/jobs/${id}/result`, options)).text();
  const answer = JSON.parse(text);
  const curves = await (await answered(`v1/error-curve${query}&gap=${answer.gap}`, options)).json();
  return { answer, text, curves };
}

function say(text) {
  byId("status").textContent = text;
}

function wait(text) {
  byId("waiting").hidden = false;
  byId("waiting-text").textContent = text;
}

/** Lets the button keep the best γ so far, once there is one. */
function offerIncumbent(job) {
  const solution = job?.progress?.incumbent;
  incumbent = solution ? { id: job.id } : null;
  byId("cancel").textContent = solution ? `Stop, and keep the γ that keeps ${percent(solution.utility)}` : "Cancel";
}

function settle() {
  byId("waiting").hidden = true;
  offerIncumbent(null);
  byId("answer").removeAttribute("aria-busy");
}

/** Brings the answer into view where it stands below the form. */
function reveal() {
  const { top } = byId("status").getBoundingClientRect();
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  if (top > innerHeight * 0.7) byId("answer").scrollIntoView({ behavior: calm ? "instant" : "smooth" });
}

function refuse(error, focus) {
  say("");
  if (error instanceof Cancelled) {
    say(current ? "Cancelled; what is shown is the answer before." : "Cancelled.");
    return;
  }
  if (error.status === 401) {
    refuseKey(forgetKey() ? `The server does not accept this key. ${error.message}` : "");
    return;
  }
  byId("result").classList.add("stale"); // what stands there answers something else
  const { first, rest } = fields.show(form, complaints(error));
  const denied = [403, 404].includes(error.status) && hasKey(); // a reader's key: what is not stored is 404
  const retry = make("button", { type: "button" }, denied ? "Use another key" : "Try again");
  retry.addEventListener("click", () => {
    if (denied) forgetKey();
    design();
  });
  const content = first ? [`Something in the form is not valid: the field says what. ${rest.join(" ")}`] : [error.message, " ", retry];
  byId("trouble").replaceChildren(make("p", {}, ...content));
  byId("trouble").hidden = false;
  if (focus) first?.focus();
}

/** Asks for a key, and says what was wrong with the one that was given. */
function refuseKey(text) {
  byId("key-form").hidden = false;
  byId("key-error").textContent = text;
  byId("key-error").hidden = !text;
  if (text) byId("key").setAttribute("aria-invalid", "true");
  else byId("key").removeAttribute("aria-invalid");
  byId("key").focus();
}

function complaints({ fields: errors = {} }) {
  const { m, ...rest } = errors; // the API speaks of m where neither way of giving the target was used
  return m && chosen("target") !== "m" ? { ...rest, [chosen("target")]: m } : errors;
}

function present() {
  const { answer, text } = current;
  byId("result").hidden = false;
  byId("result").classList.remove("stale");
  byId("headline").textContent = headline(answer);
  const warnings = answer.nearest ? [answer.nearest.label, ...answer.warnings] : answer.warnings;
  byId("warnings").replaceChildren(...warnings.map((warning) => make("li", {}, ...prose(warning))));
  byId("warnings").hidden = warnings.length === 0;
  byId("figures").replaceChildren(...tilesOf(tiles(answer)));
  byId("certificate").replaceChildren(...proof(answer).flatMap(([title, sentence]) => [make("dt", {}, title), make("dd", {}, sentence)]));
  legend(Object.keys(current.curves.curves));
  take.offer(answer, text, state);
  statement.offer("design", () => statement.rowsOfGamma(answer));
  designs.list();
  tradeoff.offer(answer, state, hidden());
  region.offer(answer);
  compare.offer(answer, state);
  plan.offer(answer);
  plots();
  document.title = `K = ${answer.problem.K}, ε = ${answer.problem.target_epsilon}: darrm-opt`;
}

function hidden() {
  return new Set(state.hide.split(",").filter(Boolean));
}

function legend(names) {
  const title = byId("legend").querySelector("legend");
  const boxes = names.map((name) => {
    const box = make("input", { type: "checkbox", value: name, checked: !hidden().has(name) });
    box.addEventListener("change", () => {
      const hiddenNames = hidden();
      if (box.checked) hiddenNames.delete(name);
      else hiddenNames.add(name);
      look({ ...state, hide: [...hiddenNames].join(",") });
    });
    return make("label", {}, box, " ", swatch(name), " ", make("span", {}, label(name)));
  });
  byId("legend").replaceChildren(title, ...boxes);
}

function plots() {
  const { answer, curves } = current;
  const ones = answer.gamma.map((_, l) => l);
  const lines = (x, values) => Object.entries(curves.curves).map(([name, curve]) => ({ name, x, y: values(curve) }));
  const measure = state.measure === "disagreement" ? "disagreement" : "tv_error";
  const of = problemName(answer.problem);
  tradeoff.show(hidden(), measure);
  draw(byId("gamma-figure"), {
    title: "Weight of the majority: γ", of, x: "votes for 1", y: "γ (right with (1 + γ)/2)",
    about: aboutGamma(answer, curves.curves, label), lines: lines(ones, (curve) => curve.gamma),
    hidden: hidden(), ceiling: 1.04, markers: true, whole: true,
  });
  draw(byId("error-figure"), {
    title: `What it costs: ${MEASURE_NAMES[measure]}`, of,
    x: "p, each voter’s probability of answering 1", y: "probability",
    about: aboutErrors(curves.p, curves.curves, measure, label), lines: lines(curves.p, (curve) => curve[measure]),
    hidden: hidden(), range: [0.5, 1],
  });
}

start();
