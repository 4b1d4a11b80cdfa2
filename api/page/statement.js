// The statement: what is claimed of the γ on the page, on one sheet of paper, with the date, the version, a link and a hash.

import { byId, make } from "./elements.js";
import { guarantee, plain } from "./numbers.js";

let current = null; // {answer, text}

/** Prepares the button; to be called once. */
export function prepare() {
  byId("print-statement").addEventListener("click", async () => {
    await fill();
    document.body.classList.add("statement");
    print();
  });
  addEventListener("afterprint", () => document.body.classList.remove("statement"));
}

/** Offers an answer, with the text that it came in. */
export function offer(answer, text) {
  current = { answer, text };
}

async function fill() {
  const { answer, text } = current;
  const { K, epsilon, Delta, target_epsilon: target, delta, affected } = answer.problem;
  const voter = epsilon === "inf" ? "not private" : guarantee(epsilon, Delta);
  const rows = [
    ["Guarantee", `${guarantee(target, delta)} of one released bit`],
    ["Mechanism", "with l ones among the votes, the majority is released with weight γ(l) against a fair coin; γ is in the file of the hash below"],
    ["Unit of privacy", `one record, which reaches at most ${affected} of ${K} voters, each ${voter}`],
    ["Neighbouring data sets", `those that differ in one record, so that at most ${affected} voters change`],
    ["What leaves", "one bit; no counts and no margins. Many releases are accounted for together (darrm cost)"],
    ["Account", `certificate of γ, ${answer.certificate.method}: at most ${plain(answer.certificate.bound, 7)} where ${plain(answer.certificate.limit, 7)} is permitted, rounding included`],
    ["Assumed", epsilon === "inf" ? "the layout of the data gives the reach that is said" : "voters are as private as is said, and answer independently of each other, given the data; their randomness is fresh, where they answer more than once"],
    ["Not covered", "what else is computed from the same records; time and memory of the machine that holds the votes"],
    ["Trust model", "central: whoever runs the mechanism sees the votes; whoever receives the bit is not trusted"],
    ["Software", `darrm-opt ${answer.certificate.version}`],
    ["Hash of the design", await digest(text)],
    ["Link", location.href],
    ["Date", new Date().toISOString()],
  ];
  byId("statement-rows").replaceChildren(...rows.map(([name, value]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, value))));
}

/** Returns the SHA-256 of the JSON that this page downloads; browsers compute it on secure pages only. */
async function digest(text) {
  if (!crypto.subtle) return "none: this page came without encryption; use darrm statement";
  const bytes = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return `sha256:${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")} (of the JSON that this page downloads)`;
}
