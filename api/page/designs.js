// Stored designs: what this server has stored, newest first, with tags; and two of them side by side.

import { ask } from "./ask.js";
import { swatch } from "./curves.js";
import { draw } from "./draw.js";
import { byId, make, scrolling, table } from "./elements.js";
import * as fields from "./fields.js";
import { drawing, votersOf } from "./groups.js";
import { guarantee, percent, plain } from "./numbers.js";
import { toQuery } from "./state.js";
import { problemName } from "./words.js";

const PAGE = 10; // designs that are shown at a time
const NUMBERS = {
  K: "voters K", m: "allowance m", epsilon: "ε of a voter", Delta: "Δ of a voter", affected: "a record reaches",
  target_epsilon: "ε of the release", delta: "δ of the release", utility: "utility kept",
  narrowest: "narrowest majority, kept with probability", unanimous: "unanimous vote, kept with probability", gap: "proven gap", margin: "privacy margin",
};
const OF_TABLES = {
  voters: "voters", classes: "classes", affected: NUMBERS.affected, target_epsilon: NUMBERS.target_epsilon, delta: NUMBERS.delta,
  objective: "objective", price: "price of a wrong label", utility: "utility", gap: NUMBERS.gap, margin: NUMBERS.margin, size: "numbers in the table",
};
const PROOF = new Set(["gap", "margin"]); // which are tiny in any design: their difference says nothing
const NOISE = 1e-9; // what two utilities differ by from rounding

let designs = []; // the designs on the page, and
let next = null; // where the following ones begin
const tables = new Set(); // ids of those that are no γ
let selection = []; // ids of those to compare, the one that was picked last at the end

/** Prepares the panel; to be called once. */
export function prepare() {
  byId("designs-form").addEventListener("submit", (event) => {
    event.preventDefault();
    list();
  });
  byId("designs-more").addEventListener("click", () => list(next));
}

/** Shows what is stored now; also whenever something new was designed. */
export async function list(after = null) {
  const form = byId("designs-form");
  fields.clear(form);
  const query = new URLSearchParams({ limit: PAGE, ...(after && { after }), ...fields.bodyOf(form) });
  try {
    const page = await (await ask(`v1/designs?${query}`)).json();
    designs = after ? [...designs, ...page.designs] : page.designs;
    next = page.next;
    say("");
    present();
  } catch (error) {
    const { first, rest } = fields.show(form, error.fields ?? {}, "designs");
    say(first ? rest.join(" ") : error.message);
  }
}

function say(text) {
  byId("designs-status").textContent = text;
}

function present() {
  byId("designs-more").hidden = next === null;
  if (!designs.length) {
    byId("designs").replaceChildren();
    say("Nothing is stored that fits.");
    return;
  }
  const caption = "Stored designs, the newest first";
  byId("designs").replaceChildren(scrolling(caption, table(caption, [make("span", { class: "unseen" }, "Compare"), "Design, its tags, and when it was stored", "Utility"], designs.map(cells))));
}

function cells(design) {
  const { id, K, m, epsilon, Delta, profile, targets, affected, target_epsilon: target, delta, objective, shape, utility, created } = design;
  const classes = parseInt(shape, 10); // of a table; a γ has a shape that is no number
  if (classes) tables.add(id);
  const name = classes ? `K = ${K}, ${shape}` : description(design);
  const box = make("input", { type: "checkbox", checked: selection.includes(id), "aria-label": `Compare ${name}, utility ${percent(utility)}` });
  box.addEventListener("change", () => pick(id, box.checked));
  const at = targets ? { targets: pointsText(targets), m: "", delta: "" } : m === null ? { target_epsilon: String(target), m: "" } : { m: String(m), target_epsilon: "" };
  const stated = profile ? { profile: pointsText(profile), epsilon: "", Delta: "" } : { epsilon: String(epsilon), Delta: String(Delta || "") };
  const all = { K: String(K), ...stated, delta: String(delta), affected: affected === K ? "" : String(affected) };
  const voters = profile ? `voters of the profile ${pointsText(profile)}` : epsilon === "inf" ? "voters not private" : `voters ${guarantee(epsilon, Delta)}`;
  const release = targets ? targets.map((pair) => guarantee(...pair)).join(" and ") : guarantee(target, delta);
  const reach = affected === K ? "" : `, a record reaches ${affected}`;
  const asked = targets ? null : groupsAsked(design);
  const kind = asked ? `groups ${asked.groups_groups.replaceAll(";", "; ")}; ${asked.groups_objective}` : shape === "monotone" ? `${objective}, never falling` : objective;
  const query = classes ? asked : { ...all, ...at, objective, shape };
  return [
    box,
    make(
      "span",
      { class: "design" },
      query ? make("a", { href: toQuery(query) }, name) : make("span", {}, name),
      tags(design),
      make("span", { class: "hint" }, `Release ${release}, ${voters}${reach}; ${kind}; stored `, make("time", { datetime: created }, when(created))),
    ),
    percent(utility),
  ];
}

function pointsText(points) {
  return points.map((pair) => pair.join(":")).join(",");
}

/** Returns what the form of groups is filled in with for a stored table of theirs; nothing for others. */
function groupsAsked({ objective, shape, target_epsilon: target, delta, affected, K }) {
  const [, goal, groups] = /^(\{.*\}) groups (.*)$/.exec(objective) ?? [];
  const { objective: prior, price, ...more } = goal ? JSON.parse(goal) : {};
  if (!prior || price || Object.keys(more).length || shape.includes("none")) return null;
  const reach = affected === K ? "" : String(affected);
  return {
    tab: "groups", groups_groups: groups.replaceAll(" ", ";"), groups_classes: shape.split(" ")[0], groups_target_epsilon: String(target),
    groups_delta: String(delta || ""), groups_affected: reach, groups_objective: prior,
  };
}

function when(created) {
  const time = new Date(created);
  return Number.isNaN(time.getTime()) ? created : time.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
}

// ---- tags

function tags({ id, tags: names, K }) {
  const labels = names.map((tag) => {
    const button = make("button", { type: "button", class: "away", "aria-label": `Take the tag ${tag} away` }, "×");
    button.addEventListener("click", () => change(id, tag, "DELETE"));
    return make("span", { class: "tag" }, tag, button);
  });
  const field = make("input", { "aria-label": `New tag for the design for ${K} voters`, placeholder: "add a tag", autocomplete: "off", spellcheck: "false", maxlength: 64 });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && field.value.trim()) change(id, field.value.trim(), "PUT");
  });
  return make("span", { class: "tags" }, ...labels, field);
}

async function change(id, tag, method) {
  try {
    const design = await (await ask(`v1/designs/${id}/tags/${encodeURIComponent(tag)}`, { method })).json();
    designs = designs.map((entry) => (entry.id === id ? design : entry));
    present();
    say(method === "PUT" ? `Tagged ${tag}.` : `The tag ${tag} is taken away.`);
  } catch (error) {
    say(error.message);
  }
}

// ---- two side by side

async function pick(id, chosen) {
  selection = chosen ? [...selection, id].slice(-2) : selection.filter((other) => other !== id);
  present();
  byId("designs-compared").hidden = selection.length < 2;
  if (selection.length < 2) {
    say(selection.length ? "Pick another one to compare it with." : "");
    return;
  }
  const pair = [...selection];
  const read = async (path) => (await ask(`v1/designs/${path}`)).json();
  try {
    if (tables.has(pair[0]) !== tables.has(pair[1])) throw new Error("A γ and a table are not compared: pick two γ or two tables.");
    const isTables = tables.has(pair[0]);
    const answer = await (isTables ? Promise.all(pair.map(read)) : read(pair.join("/compare/")));
    if (String(pair) === String(selection)) (isTables ? compareTables : compare)(answer);
  } catch (error) {
    byId("designs-compared").hidden = true;
    say(error.message);
  }
}

function compare({ first, second, numbers, same_objective: same }) {
  say("");
  const pair = [["first", first.design], ["second", second.design]];
  const sameK = first.design.problem.K === second.design.problem.K;
  const lines = pair.map(([name, { gamma, problem }]) => ({ name, x: gamma.map((_, l) => (sameK ? l : l / problem.K)), y: gamma }));
  const about = pair.map(([name, { problem, utility }]) => `${name === "first" ? "The first" : "the second"} (${description(problem)}) keeps ${percent(utility)}`);
  draw(byId("pair-figure"), {
    title: "γ of both", of: pair.map(([, { problem }]) => problemName(problem)).join("-and-"), x: sameK ? "votes for 1" : "share of votes for 1", y: "γ", lines, hidden: new Set(),
    about: `${about.join(", ")}.${same ? "" : " They maximise different objectives, so these shares are not of the same whole."}`,
    ceiling: 1.04, markers: true, whole: sameK,
  });
  const rows = Object.entries(NUMBERS).map(([name, words]) => {
    const { first: one, second: other, difference } = numbers[name];
    return [words, short(one), short(other), PROOF.has(name) || (name === "utility" && !same) ? "–" : signed(difference, name.endsWith("elta") ? 0 : NOISE)];
  });
  showNumbers(rows);
}

/** Shows two tables: their numbers, and a picture of each that has one. */
function compareTables(pair) {
  say("");
  const pictures = pair.map(({ design }) => design.groups && drawing(design)).filter(Boolean);
  byId("pair-figure").replaceChildren(make("div", { class: "plots" }, ...pictures));
  const [one, other] = pair.map(({ design: { problem, groups, certificate, prior, ...rest } }) => ({
    objective: prior, margin: certificate?.margin, ...problem, ...rest, voters: groups ? votersOf(groups) : problem.K, size: rest.record.values.length,
  }));
  const same = ["objective", "price", "ties"].every((name) => one[name] === other[name]) && String(one.weights) === String(other.weights);
  const shown = (value) => (typeof value === "number" ? short(value) : value);
  const rows = Object.entries(OF_TABLES).map(([name, words]) => {
    const isNumber = [one, other].every((table) => typeof table[name] === "number");
    const difference = !isNumber || PROOF.has(name) || (name === "utility" && !same) ? null : other[name] - one[name];
    return [words, shown(one[name]), shown(other[name]), signed(difference, name === "delta" ? 0 : NOISE)];
  });
  showNumbers(rows);
}

function showNumbers(rows) {
  const caption = "Both designs, and the second minus the first";
  const heads = ["first", "second"].map((name) => make("span", { class: "named" }, swatch(name), ` ${name}`));
  byId("pair-numbers").replaceChildren(scrolling(caption, table(caption, ["quantity", ...heads, "difference"], rows)));
}

function description({ K, m, target_epsilon: target }) {
  return m === null ? `K = ${K}, target ε = ${plain(target)}` : `K = ${K}, m = ${plain(m)}`;
}

function short(value) {
  return plain(value, Math.abs(value) < 1e-3 ? 2 : 5);
}

function signed(difference, noise) {
  if (difference === null) return "–";
  if (Math.abs(difference) <= noise) return "0";
  return difference > 0 ? `+${short(difference)}` : short(difference).replace(/^-/, "−");
}
