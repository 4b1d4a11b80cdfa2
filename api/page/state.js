// What is asked and how it is shown: one object of texts, which stands in the URL and in the forms.
//
// Its names are the ids of the forms' fields; those of the design are the API's, so that this part of the URL is a query of it.

import { byId } from "./elements.js";
import * as fields from "./fields.js";

const idsOf = (forms) => [...document.querySelectorAll(forms)].flatMap((form) => fields.controls(form).map(({ id }) => id));

const own = idsOf("#problem").filter((id) => !id.startsWith("wanted_"));

/** Fields of the problem, in the order of the URL. */
const PROBLEM = Object.fromEntries(own.map((name) => [name, ""]));

/** How it is shown, what is asked on the other tabs, and what is taken for what is left out; a γ to verify is too long for a link. */
const VIEW = { measure: "tv_error", hide: "", tab: "", question: "", ...Object.fromEntries(idsOf("form[data-path]:not(#verify-form)").map((id) => [id, ""])) };

const USUAL = { ...PROBLEM, ...VIEW };

/** What the page shows when nothing is asked: the first example. */
const FIRST = Object.fromEntries(new URLSearchParams(document.querySelector(".examples a").search));

/** Returns the state in the part of a URL from "?" on. */
export function fromQuery(query) {
  const parameters = new URLSearchParams(query);
  const given = Object.fromEntries(Object.keys(USUAL).filter((name) => parameters.has(name)).map((name) => [name, parameters.get(name).trim()]));
  if (!own.some((name) => name in given)) return { ...USUAL, ...FIRST, ...given };
  if (given.target_epsilon || given.targets) delete given.m; // one target; where a link gives two, the one that needs no voter's ε
  return { ...USUAL, ...given };
}

/** Returns the part of the page's URL from "?" on. */
export function toQuery(state) {
  return queryText(state, USUAL);
}

/** Returns the query that asks the API for the problem. */
export function problemQuery(state) {
  return queryText(state, PROBLEM);
}

function queryText(state, defaults) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(defaults)) {
    if (state[name] && state[name] !== value) query.set(name, state[name]);
  }
  return `?${query}`;
}

/** Puts the state into the page's fields. */
export function fill(state) {
  for (const name of Object.keys(USUAL)) if (byId(name)?.dataset.kind) fields.fill(byId(name), state[name]);
  check("target", state.targets ? "targets" : state.target_epsilon || state.profile || isNotPrivate(state.epsilon) ? "target_epsilon" : "m");
  check("measure", state.measure);
}

function check(name, value) {
  for (const radio of document.querySelectorAll(`input[type=radio][name="${name}"]`)) radio.checked = radio.value === value;
}

/** Returns the state with what the form of the design states. */
export function read(previous) {
  const state = { ...previous, ...statedIn(byId("problem"), own) };
  if (state.profile) state.epsilon = state.Delta = ""; // which are its last point
  for (const name of ["m", "target_epsilon", "targets"]) if (chosen("target") !== name) state[name] = "";
  if (chosen("target") === "targets") state.delta = ""; // each target has its own
  return state;
}

/** Returns the texts of a form's fields by their ids. */
export function statedIn(form, ids = null) {
  return Object.fromEntries(fields.controls(form).filter(({ id }) => !ids || ids.includes(id)).map((control) => [control.id, fields.textOf(control)]));
}

/** Returns the voters of an answer as the API has them: by what they state, where that is a profile. */
export function votersOf({ K, epsilon, Delta, affected }, { profile }) {
  return profile ? { K, profile, affected } : { K, epsilon, Delta, affected };
}

/** Returns the value of the radio button that is chosen, or undefined. */
export function chosen(name) {
  return document.querySelector(`input[type=radio][name="${name}"]:checked`)?.value;
}

/** Tells whether m has no meaning for voters with this ε. */
export function isNotPrivate(epsilon) {
  return epsilon === "inf" || Number(epsilon || NaN) === 0;
}
