// An answer of /v1/gamma in plain words. Only texts come from here; where they stand is decided elsewhere.

import { chain } from "./chain.js";
import { count, guarantee, percent, plain, roundedUp } from "./numbers.js";

/** Names a problem within a file name: what tells it from others of as many voters. */
export function problemName({ K, m, epsilon, Delta, profile, target_epsilon: target, delta, targets, affected }) {
  const reach = affected === K ? "" : `-affected${affected}`;
  return `K${K}-${m === null ? `target${target}` : `m${m}`}-epsilon${epsilon}-Delta${Delta}-delta${delta}${reach}${profile ? `-points${profile.length}` : ""}${targets ? `-targets${targets.length}` : ""}`;
}

/** Returns the one sentence that says what was designed. */
export function headline({ problem, utility, shape }) {
  const reach = problem.affected === problem.K ? "" : `, as long as one record reaches at most ${count(problem.affected, "voter")}`;
  const kind = shape === "monotone" ? " that never falls as the majority grows" : "";
  return (
    `The released bit is ${releaseGuarantee(problem)}${reach}. With the best γ${kind} it keeps ` +
    `${percent(utility)} of the utility of the plain majority of ${count(problem.K, "voter")}.`
  );
}

/** Returns the few numbers that matter most, as [name, value, what it means]. */
export function tiles({ problem, gamma, utility, gap, certificate }) {
  return [
    ["Utility kept", percent(utility), "of the noiseless majority’s, under the objective"],
    ["Unanimous vote", percent((1 + gamma[problem.K]) / 2), "probability that it is released unchanged"],
    ["Proven gap", plain(gap, 2), "no private γ keeps more than this above it"],
    ["Privacy margin", plain(certificate.margin, 2), "slack left by the proof [probability]"],
  ];
}

/** Returns what a certificate proves as [title, sentences]. */
export function proved({ problem, certificate }) {
  return [
    ["What is proved", claim(problem)],
    ["How", (METHODS[certificate.method] ?? `The method is called ${certificate.method}.`) + EXACT],
    ["Worst case found", worst(problem, certificate)],
    ["What is left", margin(certificate)],
  ];
}

/** Returns the certificate of a design, how good it is and how it was found, as [title, sentences]. */
export function proof(answer) {
  return [
    ...proved(answer),
    ["How good", optimality(answer)],
    ["How it was found", origin(answer)],
  ];
}

/** Returns what is asked of the release: each of several targets holds. */
export function releaseGuarantee({ target_epsilon: target, delta, targets = [[target, delta]] }) {
  return targets.map((pair) => guarantee(...pair)).join(" and ");
}

/** Returns what a voter states: each of its points holds. */
export function voterGuarantee({ epsilon, Delta, profile = [[epsilon, Delta]] }) {
  return profile.map((point) => guarantee(...point)).join(", ") + (profile.length > 1 ? " at once" : "");
}

function claim({ K, epsilon, Delta, profile, target_epsilon: target, delta, targets = [[target, delta]], affected }) {
  const voters = epsilon === "inf" ? "need not be private at all" : `are each ${voterGuarantee({ epsilon, Delta, profile })}`;
  const reach = affected === K ? "may change the answers of all of them" : `changes the answers of at most ${affected} of them`;
  const times = ([E]) => `at most e^${roundedUp(E)} = ${roundedUp(Math.exp(E))} times as likely as on the other`;
  const plus = ([, d]) => (d === 0 ? "" : `, plus ${roundedUp(d, 3)}`);
  return (
    `Take any two datasets that differ in one record. The ${count(K, "voter")} ${voters}, and the record ${reach}. ` +
    `Each value of the released bit is, on the one dataset, ${targets.map((pair) => times(pair) + plus(pair)).join("; and ")}.`
  );
}

const METHODS = {
  complete:
    "Every combination of voters’ probabilities was covered. Privacy is tightest at the extreme ones, where only the number of " +
    "voters at each matters; all of these were searched.",
  "first-order":
    "Every combination of voters’ probabilities was covered: most by a proven bound, and those that the bound could not settle " +
    "one by one.",
  monotone:
    "Since this γ never falls as the majority grows, a record does the most harm when it moves all voters one way. All of these " +
    "combinations were searched, and for such γ they cover every other.",
  ball: "Every combination of voters’ probabilities was covered, in arithmetic that carries its own error bounds.",
};

const EXACT = " The proof is of the exact numbers in the table, rounding included.";

const MOVES = {
  zero: () => "surely answer 0 on both datasets",
  one: () => "surely answer 1 on both",
  xy: (x, y) => `answer 1 with probability ${x} on the one and ${y} on the other`,
  yx: (x, y) => `answer 1 with probability ${y} on the one and ${x} on the other`,
  up: (x, y, Delta) => `never answer 1 on the one, and with probability ${Delta} on the other`,
  down: (x, y, Delta) => `answer 1 with probability ${Delta} on the one, and never on the other`,
  up_to_one: (x, y, Delta) => `answer 0 with probability ${Delta} on the one, and never on the other`,
  down_from_one: (x, y, Delta) => `never answer 0 on the one, and with probability ${Delta} on the other`,
};

/** Returns the two probabilities of a corner of a profile, as `upper_3` names it; undefined for other corners. */
function chancesAt(corner, profile) {
  const [, side, place] = /^(upper|lower)_(\d+)$/.exec(corner) ?? [];
  if (!side || !profile) return undefined;
  const pair = chain(profile).filter(([other, p]) => other !== p)[place - 1];
  return (side === "upper" ? pair.toReversed() : pair).map((chance) => plain(chance));
}

/** Returns what voters do at corners of the region that their privacy allows. */
export function votersAt(corners, { epsilon, Delta, profile }) {
  const shrink = epsilon === "inf" ? 0 : Math.exp(-epsilon);
  const [x, y] = [(1 + Delta * shrink) / (1 + shrink), ((1 - Delta) * shrink) / (1 + shrink)].map((chance) => plain(chance));
  const groups = Object.entries(corners).filter(([, voters]) => voters > 0);
  const texts = groups.map(([corner, voters]) => {
    const chances = chancesAt(corner, profile);
    return `${voters} ${chances ? MOVES.xy(...chances) : (MOVES[corner]?.(x, y, plain(Delta, 3)) ?? `are at “${corner}”`)}`;
  });
  return texts.join("; ");
}

function worst(problem, { worst_corners: corners, worst_value: value, limit }) {
  return `Of the voters, ${votersAt(corners, problem)}. There the privacy constraint is ${plain(Math.max(0, limit - value), 2)} below its limit, ${plain(limit, 7)}.`;
}

function margin({ margin: slack, error_bound: error }) {
  return (
    `After a charge for all rounding (${plain(error, 2)}), a margin of ${plain(slack, 2)} of probability is left. ` +
    "A small margin is good: no accuracy was given away. A γ with a margin below zero is never shown."
  );
}

const NO_GAP = 1e-9;

function optimality({ gap, upper_bound: bound, advice, status }) {
  const sentence =
    gap <= NO_GAP
      ? `No private γ of this shape is better by more than ${plain(gap, 2)}: this one is optimal.`
      : `No private γ of this shape can keep more than ${percent(bound, 4)}; this one may be ${plain(gap, 2)} short of it.`;
  return status === "optimal" ? sentence : `${sentence} ${advice}`;
}

function origin({ cached, method, backend, statistics }) {
  const seconds = statistics.seconds.total;
  const duration = seconds === undefined ? "" : `, in ${plain(seconds, 2)} s`;
  const way = `${method} with ${backend}, ${count(statistics.rows, "row")} in ${count(statistics.rounds, "round")}${duration}`;
  return cached ? `Read from the store and checked again (solved by ${way}).` : `Solved just now: ${way}.`;
}

/** Returns what a listener should know of the γ plot. */
export function aboutGamma({ problem, gamma }, curves, names) {
  const K = problem.K;
  const least = Math.floor(K / 2) + 1;
  const at = (values, l) => percent((1 + values[l]) / 2, 1);
  const baselines = Object.entries(curves).filter(([name]) => name !== "optimal");
  const texts = baselines.map(([name, curve]) => `${names(name)} ${at(curve.gamma, least)} and ${at(curve.gamma, K)}`);
  const comparison = texts.length ? ` For comparison: ${texts.join("; ")}.` : "";
  return (
    `With probability γ the majority is kept, otherwise a fair coin is tossed, so the released bit is the majority with probability (1 + γ)/2: ` +
    `${at(gamma, least)} for the narrowest majority, ${least} of ${K}, and ${at(gamma, K)} for a unanimous one.${comparison}`
  );
}

/** Returns what a listener should know of an error plot. */
export function aboutErrors(p, curves, measure, names) {
  const worsts = Object.entries(curves).map(([name, curve]) => {
    const most = Math.max(...curve[measure]);
    return `${names(name)} ${plain(most, 3)} (at p = ${plain(p[curve[measure].indexOf(most)], 3)})`;
  });
  return `${MEASURES[measure]} Largest error: ${worsts.join("; ")}.`;
}

/** What the errors are called. */
export const MEASURE_NAMES = { tv_error: "error in probability", disagreement: "disagreement" };

export const MEASURES = {
  tv_error: "Error in probability (total variation, “tv_error” in the API): how far the probability of releasing a 1 is from that of the majority, when every voter answers 1 with probability p (the same at 1 − p).",
  disagreement: "Disagreement: how often the released bit is not the voted majority, when every voter answers 1 with probability p (the same at 1 − p).",
};
