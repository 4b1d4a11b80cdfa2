// The γ table to take away: to look at, as CSV and JSON as the API sends them, as Python, and as a curl command.

import { ask } from "./ask.js";
import { byId, make, table } from "./elements.js";
import { saveFile } from "./picture.js";
import { problemQuery } from "./state.js";
import { problemName } from "./words.js";

const FORMS = {
  table: { label: "Table", file: null },
  csv: { label: "CSV", file: "csv", accept: "text/csv" },
  json: { label: "JSON", file: "json", accept: "application/json" },
  python: { label: "Python", file: "py" },
  curl: { label: "curl", file: "sh" },
};

let current = null; // {answer, text, state}

/** Prepares the controls; to be called once. */
export function prepare() {
  byId("forms").append(
    ...Object.entries(FORMS).map(([name, { label }], place) =>
      make("label", {}, make("input", { type: "radio", name: "form", value: name, checked: place === 0 }), " ", make("span", {}, label)),
    ),
  );
  byId("forms").addEventListener("change", show);
  byId("copy").addEventListener("click", () => copy(plainText(form())));
  byId("link").addEventListener("click", () => copy(Promise.resolve(location.href)));
  byId("download").addEventListener("click", download);
}

/** Offers an answer: what it says, the text it came in, and the state that asked for it. */
export function offer(answer, text, state) {
  current = { answer, text, state };
  show();
}

function form() {
  return document.querySelector("input[name=form]:checked").value;
}

async function show() {
  const name = form();
  byId("table").hidden = name !== "table";
  byId("text").hidden = name === "table";
  byId("copied").textContent = "";
  if (name === "table") {
    byId("table").replaceChildren(gammaTable(current.answer));
    return;
  }
  byId("text").setAttribute("aria-label", `The table as ${FORMS[name].label}`);
  byId("text").textContent = await plainText(name).catch((error) => error.message);
}

function gammaTable({ problem: { K }, gamma }) {
  const rows = gamma.map((chance, ones) => {
    const majority = Math.sign(2 * ones - K);
    return [String(ones), String(chance), majority === 0 ? "a tie" : majority > 0 ? "1" : "0", String(0.5 + (majority * chance) / 2)];
  });
  return table("γ by the number of ones", ["Ones l", "γ(l)", "Majority", "Pr[release = 1]"], rows);
}

async function plainText(name) {
  const { answer, text, state } = current;
  if (name === "csv") return csv(state);
  if (name === "json") return text;
  if (name === "python") return python(answer);
  if (name === "curl") return `curl --silent '${new URL(`v1/gamma${problemQuery(state)}`, document.baseURI)}'\n`;
  return answer.gamma.map((chance, ones) => `${ones}\t${chance}`).join("\n"); // pastes into a spreadsheet
}

async function csv(state) {
  const answer = await ask(`v1/gamma${problemQuery(state)}`, { accept: FORMS.csv.accept });
  return answer.text();
}

function python({ problem, objective, shape }) {
  const { K, m, epsilon, Delta, profile, target_epsilon: target, delta, targets, affected } = problem;
  const epsilonText = epsilon === "inf" ? 'float("inf")' : epsilon;
  const parameters = [`K=${K}`, `m=${m ?? "None"}`, `epsilon=${epsilonText}`, `Delta=${Delta}`, `delta=${delta}`];
  if (affected !== K) parameters.push(`affected=${affected}`);
  if (m === null) parameters.push(`target_epsilon=${target}`);
  const listed = (pairs) => pairs.map((pair) => `(${pair.join(", ")})`).join(", ");
  const direct = profile || targets; // from_allowance has one target and no profile
  const voter = profile ? `PrivacyProfile([${listed(profile)}])` : `Privacy(${epsilonText}, ${Delta})`;
  const asked = targets ? `TargetProfile([${listed(targets)}])` : `Privacy(${target}, ${delta})`;
  return [
    `from darrm_opt import ${direct ? "Privacy, " : ""}Problem, solve`,
    ...(targets ? ["from darrm_opt.problem import TargetProfile"] : []),
    "from darrm_opt.release import PrivateVote",
    ...(profile ? ["from darrm_opt.voters import PrivacyProfile"] : []),
    "",
    direct
      ? `problem = Problem(${K}, ${voter}, ${asked}, affected=${affected})`
      : `problem = Problem.from_allowance(${parameters.join(", ")})`,
    `solution = solve(problem, objective=${JSON.stringify(objective)}, shape="${shape}")`,
    "print(solution.gamma)",
    "",
    "release = PrivateVote(solution)",
    `votes = [1] * ${Math.floor(K / 2) + 1} + [0] * ${K - Math.floor(K / 2) - 1}  # yours: ${K} of them, each 0 or 1`,
    "print(release.release(votes))",
    "",
  ].join("\n");
}

async function copy(content) {
  try {
    await navigator.clipboard.writeText(await content);
    byId("copied").textContent = "Copied.";
  } catch {
    const text = byId("text");
    getSelection().selectAllChildren(text.hidden ? byId("table") : text);
    byId("copied").textContent = "The browser does not let this page copy; it is selected, so press Ctrl+C.";
  }
}

async function download() {
  const name = form() === "table" ? "csv" : form();
  const problem = current.answer.problem;
  try {
    const file = `darrm-gamma-${problemName(problem)}.${FORMS[name].file}`;
    saveFile(file, await plainText(name));
    byId("copied").textContent = `Downloaded as ${file}.`;
  } catch (error) {
    byId("copied").textContent = error.message;
  }
}
