// The tab that verifies: a γ from a file or from the fields, and the claim of privacy that is to be proved or refuted.

import { byId, make } from "./elements.js";
import * as fields from "./fields.js";
import { guarantee, plain } from "./numbers.js";
import * as statement from "./statement.js";
import { proved, votersAt } from "./words.js";

const MAX_BYTES = 2 ** 20; // of a file; the server takes no more

const REFUTED = "urn:darrm-opt:problem:not-private";

let source = ""; // the file whose γ is in the form
let question = null;

/** What the form asks, and how the answer is shown. */
export const VERIFY = { request, present, refused, rows: ({ problem, certificate }, { gamma }) => statement.rowsOfGamma({ gamma, problem, certificate }) };

/** Prepares what takes a file, for the question of the form; to be called once. */
export function prepare(own) {
  question = own;
  const drop = byId("verify-drop");
  byId("verify_gamma").addEventListener("input", () => (source = ""));
  byId("verify-file").addEventListener("change", ({ target }) => read(target.files[0]));
  for (const name of ["dragover", "dragleave", "drop"]) {
    drop.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", name === "dragover");
      if (name === "drop") read(event.dataTransfer.files[0]);
    });
  }
}

/** Fills the form from a file, and verifies what it claims. */
async function read(file) {
  if (!file) return;
  question.forget();
  try {
    if (file.size > MAX_BYTES) throw new Error(`${file.name} has ${file.size.toLocaleString("en")} bytes; at most ${MAX_BYTES.toLocaleString("en")} are read.`);
    const { gamma, problem } = contentOf(await file.text());
    byId("verify_gamma").value = gamma.join(", ");
    source = file.name;
    if (problem) fill(problem, gamma.length - 1);
  } catch (error) {
    byId("verify-status").textContent = error.message;
    return;
  }
  if (byId("verify_target_epsilon").value) question.ask();
  else byId("verify-status").textContent = `${file.name} says nothing of privacy: fill in what is claimed.`;
}

function fill({ epsilon, Delta, profile, affected, target_epsilon: target, delta }, K) {
  const points = profile?.map((point) => point.join(":")).join(",") ?? "";
  const values = { epsilon: points ? "" : epsilon, Delta: points ? "" : Delta || "", profile: points, affected: affected === K ? "" : affected, target_epsilon: target, m: "", delta: delta || "" };
  for (const [name, value] of Object.entries(values)) byId(`verify_${name}`).value = String(value ?? "");
}

/** Returns γ, and its problem where the file has one; the JSON of a solution, an answer or a record, or numbers in lines. */
function contentOf(text) {
  if (!text.trim().startsWith("{")) {
    const lines = text.split(/\r?\n/).filter((line) => /^[^#\p{L}]*\d/u.test(line));
    const gamma = lines.map((line) => Number(line.split(/[,;\t ]+/).filter(Boolean).at(-1)));
    if (gamma.length > 1 && gamma.every(Number.isFinite)) return { gamma };
    throw new Error("The file contains no γ: one number γ(l) in each line is expected, or JSON.");
  }
  const content = parsed(text);
  const found = [content, content.mechanism, content.design].find((part) => Array.isArray(part?.gamma));
  if (!found || !found.gamma.every(Number.isFinite)) throw new Error("The file contains no γ. darrm verify FILE proves tables, plans, statements and logs.");
  if (found.problem?.targets) throw new Error("The file claims several (ε, δ) at once: darrm verify FILE proves them all.");
  return { gamma: found.gamma, problem: found.problem };
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error("The file is not JSON that can be read; it may be cut off.");
  }
}

/** Returns what the form asks, as the API has it; γ says how many voters there are. */
function request() {
  const { gamma = [], ...claim } = fields.bodyOf(byId("verify-form"));
  return { ...claim, gamma, K: Math.max(1, gamma.length - 1) };
}

function present(answer) {
  const { problem, certificate } = answer;
  const words = `The release is ${guarantee(problem.target_epsilon, problem.delta)}, proved for these exact numbers; worst-case slack: ${plain(certificate.margin, 2)} of probability, after rounding.`;
  return verdict("Proved", words, proved(answer));
}

/** Shows a counterexample, or that rounding decides; another refusal is about the fields. */
function refused(error, { target_epsilon: epsilon, delta = 0, ...voter }) {
  const { type, worst_corners: corners } = error.problem ?? {};
  if (!corners) return null;
  const isRefuted = type === REFUTED;
  return verdict(isRefuted ? "Refuted" : "Neither proved nor refuted", error.message, [
    ["Claim", Number.isFinite(epsilon) ? guarantee(epsilon, delta) : "the allowance that is given"],
    [isRefuted ? "Counterexample" : "Closest voters", `${votersAt(corners, { Delta: 0, ...voter, profile: undefined })}. That is as private as each of them promises.`],
  ]);
}

function verdict(name, words, rows) {
  return [
    make("p", { class: "headline", id: "verify-verdict" }, `${name}.`),
    make("p", {}, source ? `${source}: ${words}` : words),
    make("dl", { class: "words" }, ...rows.flatMap(([title, value]) => [make("dt", {}, title), make("dd", {}, value)])),
  ];
}
