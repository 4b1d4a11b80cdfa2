// The statement: what is claimed of the answer on a tab, on one sheet of paper, with the date, the version and a link.

import { ask } from "./ask.js";
import { byId, make } from "./elements.js";
import { count, guarantee, plain, roundedUp } from "./numbers.js";
import { releaseGuarantee, voterGuarantee } from "./words.js";

const rowsOf = {}; // by tab: what makes the rows of its statement

/** Prepares the buttons, one of each tab; to be called once. */
export function prepare() {
  for (const button of document.querySelectorAll(".print-statement")) {
    button.addEventListener("click", async () => {
      await fill(await rowsOf[button.dataset.of]());
      document.body.classList.add("statement");
      print();
    });
  }
  addEventListener("afterprint", () => document.body.classList.remove("statement"));
}

/** Offers a statement on a tab; `rows` returns its own rows, a name and a text each. */
export function offer(tab, rows) {
  rowsOf[tab] = rows;
  byId(`${tab}-statement`).hidden = false;
}

/** Takes the statement of a tab back: its answer is gone. */
export function withdraw(tab) {
  byId(`${tab}-statement`).hidden = true;
}

async function fill(own) {
  const rows = [
    ...own,
    ["Not covered", "what else is computed from the same records; time and memory of the machine that holds the votes"],
    ["Trust model", "central: the operator of the mechanism sees the votes; recipients of answers are not trusted"],
    ["Software", `darrm-opt ${(await (await ask("healthz")).json()).version}`],
    ["Link", location.href],
    ["Date", new Date().toISOString()],
  ];
  byId("statement-rows").replaceChildren(...rows.map(([name, value]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, value))));
}

/** Returns the rows of the γ of an answer. */
export async function rowsOfGamma({ gamma, problem, certificate }) {
  const { K, epsilon, target_epsilon: target, delta, affected } = problem; // the target is the first of several
  const voter = epsilon === "inf" ? "not private" : voterGuarantee(problem);
  return [
    ["Guarantee", `${releaseGuarantee(problem)} of one released bit`],
    // ε-DP is (ε²/2)-zCDP (Bun, Steinke 2016); the factor covers the rounding of the product.
    ...concentrated(delta === 0 ? ((target * target) / 2) * (1 + 2 * Number.EPSILON) : null),
    ["Mechanism", "with l ones among the votes, the majority is released with weight γ(l) against a fair coin; the hash below is of γ and its problem"],
    ["Unit of privacy", `one record, which reaches at most ${affected} of ${K} voters, each ${voter}`],
    ["Neighbouring data sets", `those that differ in one record, so that at most ${affected} voters change`],
    ["What is published", "one bit; no counts and no margins. Many releases are accounted for together (darrm cost)"],
    ["Account", `certificate of γ, ${certificate.method}: worst-case slack: ${plain(certificate.margin, 2)} of probability, after rounding`],
    ["Assumed", epsilon === "inf" ? LAYOUT : PRIVATE_VOTERS],
    ["Hash of the design", await digest(design({ gamma, problem }))],
  ];
}

/** Returns the guarantee of several releases together, and the ε that is proved of them where it is a smaller number. */
export function total({ epsilon, delta }, queries, proved) {
  const more = roundedUp(proved) === roundedUp(epsilon) ? "" : `; ε = ${roundedUp(proved)} is proved`;
  return `${guarantee(epsilon, delta)} of ${count(queries, "release")} together, each chosen freely in view of earlier answers${more}`;
}

/** Returns the rows of what the service states of a design, as `darrm statement` has it for the same one. */
export function rowsOfDesign({ zcdp, design_hash: hash }) {
  return [...concentrated(zcdp), ...(hash ? [["Hash of the design", hash]] : [])];
}

function concentrated(rho) {
  return typeof rho !== "number" ? [] : [["zCDP", `ρ-zCDP with ρ = ${roundedUp(rho)}`]];
}

export const LAYOUT = "the layout of the data gives the reach that is said";

export const PRIVATE_VOTERS = "each voter has its stated privacy, and voters answer independently of each other, given the data";

/** Returns what a total of private voters assumes. */
export function voters({ fresh, queries }) {
  const randomness = fresh ? "are fresh: they draw new randomness for each answer" : "were trained once";
  return queries > 1 ? `${PRIVATE_VOTERS}; they ${randomness}` : PRIVATE_VOTERS;
}

/** Returns the text whose hash names a design, as `darrm statement` has it: keys in order, no spaces, numbers as Python writes them. */
function design({ gamma, problem: { K, affected, ...reals } }) {
  const { Delta, delta, epsilon, m, profile, target_epsilon: target, targets } = Object.fromEntries(Object.entries(reals).map(([name, value]) => [name, real(value)]));
  const problem = `{"Delta":${Delta},"K":${K},"affected":${affected},"delta":${delta},"epsilon":${epsilon},"m":${m},${profile ? `"profile":${profile},` : ""}"target_epsilon":${target}${targets ? `,"targets":${targets}` : ""}}`;
  const mechanism = `{"format":1,"fresh":false,"gamma":[${gamma.map(real)}],"kind":"darrm noise function","problem":${problem}}`;
  return `{"budget":[${target},${delta}],"mechanism":${mechanism},"releases":1,"sampling":null}`;
}

/** Returns a real number as Python writes it in JSON; what is none stays as it is. */
function real(value) {
  if (Array.isArray(value)) return `[${value.map(real)}]`;
  if (typeof value !== "number") return JSON.stringify(value);
  const [digits, power] = value.toExponential().split("e");
  if (value !== 0 && (power < -4 || power >= 16)) return `${digits}e${power[0]}${power.slice(1).padStart(2, "0")}`;
  return Number.isInteger(value) ? `${value}.0` : String(value);
}

/** Returns the SHA-256 of a text; browsers compute it on secure pages only. */
async function digest(text) {
  if (!crypto.subtle) return "none: this page came without encryption; use darrm statement";
  const bytes = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return `sha256:${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
