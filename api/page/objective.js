// The objective is a text of the API; the menu writes the usual ones, and says what each stands for.

import { byId, make } from "./elements.js";

const KINDS = [
  ["rectangular", "each voter beats a coin (paper)", "Each voter’s probability of a 1 on its own, uniform from 1/2 to 1."],
  ["uniform(lower=0.5)", "the same, without a grid", "Each voter’s probability of a 1 on its own, uniform from lower to 1."],
  ["shared(2,5)", "voters agree on easy inputs", "All voters share one probability from Beta(a, b), as models trained for one task do."],
  ["histogram(…)", "counts of past votes", "How often 0, 1, … K ones were seen on public or past data, as histogram(9,1,0,2,7) for K = 4."],
];

const OTHER = ["", "another prior", "Any prior that the command line accepts, such as uniform(lower=0.7) agreement."];

/** Fills the menu; to be called once. */
export function prepare() {
  const kind = byId("kind");
  kind.append(...[...KINDS, OTHER].map(([text, description]) => make("option", { value: text }, description)));
  kind.addEventListener("change", (event) => {
    const text = byId("objective");
    if (kind.value) text.value = kind.value;
    if (!kind.value || kind.value.includes("…")) {
      event.stopPropagation(); // the text is incomplete
      explain();
      text.focus();
      text.setSelectionRange(text.value.indexOf("(") + 1 || 0, text.value.length - 1);
    }
  });
}

/** Lets the menu say what the text says. */
export function arrange() {
  const name = byId("objective").value.trim().split("(")[0] || "rectangular";
  const [text] = KINDS.find(([usual]) => usual.split("(")[0] === name) ?? OTHER;
  byId("kind").value = text;
  explain();
}

function explain() {
  const [, , description] = KINDS.find(([text]) => text === byId("kind").value) ?? OTHER;
  byId("kind-hint").textContent = description;
}
