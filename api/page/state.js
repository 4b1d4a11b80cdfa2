// What is asked and how it is shown: one object of texts, which stands in the URL and in the form.
//
// The names are those of the API, so that the part of the URL behind "?" is a query of it.

/** Fields of the problem, in the order of the URL, with what the API takes for one that is left out. */
const PROBLEM = {
  K: "", m: "", target_epsilon: "", targets: "", epsilon: "", Delta: "0", profile: "", delta: "", affected: "", objective: "rectangular", shape: "free",
};

/** How it is shown: which error, which curves are hidden, the budget of the comparison, and the votes among classes. */
const VIEW = {
  measure: "tv_error", hide: "", queries: "", total_epsilon: "", total_delta: "", n: "", subsample_size: "",
  class_K: "", classes: "", class_affected: "", class_queries: "", class_epsilon: "", class_delta: "", class_prior: "", class_price: "",
  class_records: "", class_sample: "", class_sampling: "",
  groups: "", group_classes: "", group_epsilon: "", group_delta: "", group_affected: "", group_objective: "", group_queries: "", group_fresh: "",
  tab: "", cost_mechanism: "", cost_K: "", cost_classes: "", cost_affected: "", cost_queries: "", cost_parameter: "", cost_epsilon: "", cost_delta: "",
  cost_threshold: "", cost_check_sigma: "", cost_records: "", cost_sample: "", cost_sampling: "",
};

const CLASS_FIELDS = Object.keys(VIEW).filter((name) => name.startsWith("class"));
const DESIGN = "design"; // the tab as a URL names it where other fields would have another one shown

const USUAL = { ...PROBLEM, ...VIEW };

/** What the page shows when nothing is asked: the setting of the paper. */
const FIRST = { ...USUAL, K: "11", m: "3", epsilon: "0.1" };

/** Returns the state in the part of a URL from "?" on. */
export function fromQuery(query) {
  const parameters = new URLSearchParams(query);
  if (!Object.keys(PROBLEM).some((name) => parameters.has(name))) {
    return withTab({ ...FIRST, ...view(parameters) });
  }
  const state = { ...USUAL };
  for (const name of Object.keys(USUAL)) {
    if (parameters.has(name)) state[name] = parameters.get(name).trim();
  }
  if (state.target_epsilon || state.targets) state.m = ""; // one target; where a link gives two, the one that needs no voter's ε
  return withTab(state);
}

/** Returns the state with the tab of what it asks, where a link has none: links were made before there were tabs. */
function withTab(state) {
  return { ...state, tab: state.tab === DESIGN ? "" : state.tab || asked(state) };
}

/** Returns the tab of the question that fields of a state ask beside the design. */
function asked(state) {
  return state.groups ? "groups" : CLASS_FIELDS.some((name) => state[name]) ? "classes" : "";
}

function view(parameters) {
  return Object.fromEntries(Object.keys(VIEW).filter((name) => parameters.has(name)).map((name) => [name, parameters.get(name)]));
}

/** Returns the part of the page's URL from "?" on. */
export function toQuery(state) {
  return queryText({ ...state, tab: state.tab || (asked(state) && DESIGN) }, USUAL);
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

/** Puts the state into the page's controls. */
export function fill(state) {
  for (const name of Object.keys(USUAL)) {
    const field = document.getElementById(name);
    if (field) field.value = inputText(name, state[name]);
  }
  check("target", state.targets ? "targets" : state.target_epsilon || state.profile || isNotPrivate(state.epsilon) ? "target_epsilon" : "m");
  check("shape", state.shape);
  check("measure", state.measure);
}

function inputText(name, value) {
  return name === "Delta" && value === "0" ? "" : value;
}

function check(name, value) {
  for (const radio of document.querySelectorAll(`input[type=radio][name="${name}"]`)) radio.checked = radio.value === value;
}

/** Returns the state that the page's controls ask for; which curves are hidden stays as it was. */
export function read(previous) {
  const state = { ...previous };
  for (const name of Object.keys(USUAL)) {
    const field = document.getElementById(name);
    if (field) state[name] = field.value.trim() || USUAL[name];
  }
  if (state.profile) [state.epsilon, state.Delta] = ["", USUAL.Delta]; // which are its last point
  for (const name of ["m", "target_epsilon", "targets"]) if (chosen("target") !== name) state[name] = "";
  if (chosen("target") === "targets") state.delta = ""; // each target has its own
  state.shape = chosen("shape") ?? "free";
  state.measure = chosen("measure") ?? "tv_error";
  return state;
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
