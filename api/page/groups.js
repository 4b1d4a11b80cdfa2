// Groups of private voters among classes: the best table, the answer of /v1/table, and what it does as a picture.

import { make, scrolling, svg, table, tilesOf } from "./elements.js";
import { count, guarantee, percent, plain } from "./numbers.js";
import * as statement from "./statement.js";

const MAX_ROWS = 200; // of the table; the API has all
const COLOURS = ["--curve-first", "--curve-second", "--curve-double_subsampling"];

/** How the answer is shown. */
export const TABLE = { present, rows };

/** Returns the command line that does the same and writes a file. */
export function command(verb, { groups, ...rest }, file) {
  const of = groups.map((group) => Object.entries(group).map((part) => part.join("=")).join(",")).map((text) => (/[^\w=.,:-]/.test(text) ? `'${text}'` : text));
  const words = (value) => (value === true ? "" : ` ${typeof value === "number" ? value : `'${value}'`}`);
  const options = Object.entries(rest).map(([name, value]) => `--${name.replaceAll("_", "-")}${words(value)}`);
  const line = [`darrm ${verb}`, ...of.map((group) => `--group ${group}`), ...options, `--output ${file}`];
  return [
    make("p", { class: "about" }, "As a file, which ", make("code", {}, "darrm label"), ", ", make("code", {}, "verify"), " and ", make("code", {}, "statement"), " read:"),
    make("pre", { tabindex: "0", role: "region", "aria-label": "The command" }, line.join(" ")),
  ];
}

function rows({ classes, groups, target_epsilon: epsilon, delta, affected, corners, ...answer }, body) {
  return [
    ["Guarantee", `${guarantee(epsilon, delta)} of one released class`],
    ["Mechanism", `a table: the probability of each of ${classes} classes${answer.abstention ? " and of none" : ""}, by the votes of each group`],
    ["Unit of privacy", `one record, which reaches at most ${count(affected, "voter")}: ${votersOf(groups)}`],
    ["Neighbouring data sets", `those that differ in one record, so that at most ${affected} voters change`],
    ["What is published", "one class; no counts and no margins. Many releases are accounted for together (darrm cost)"],
    ["Account", `every corner of the voters’ privacy is checked for these exact numbers, ${corners.toLocaleString("en")} of them`],
    ["Assumed", statement.PRIVATE_VOTERS],
    ...statement.rowsOfDesign(answer),
    ["Id of the design", answer.id],
    ["Question", JSON.stringify(body)],
  ];
}

function present(answer, body) {
  const { classes, groups, target_epsilon: epsilon, delta, affected, utility, upper_bound: bound, gap, corners } = answer;
  const tiles = [
    ["Release", guarantee(epsilon, delta), `${classes} classes; a record reaches ${count(affected, "voter")}`],
    ["Right", percent(utility, 2), `the objective: ${answer.objective}`],
    ["Proven gap", plain(gap, 2), `no private table of these votes comes to more than ${percent(bound, 2)}`],
    ["Proof", corners.toLocaleString("en"), "corners of the voters’ privacy, each checked for these exact numbers"],
  ];
  const caption = `Chance of each class by the votes of ${votersOf(groups)}`;
  const heads = ["Votes of each class, group by group", ...Array.from({ length: classes }, (_, c) => `Class ${c}`), ...(answer.abstention ? ["⊥"] : [])];
  const cells = answer.table.slice(0, MAX_ROWS).map(({ counts, probabilities }) => [counts.map((row) => row.join(" ")).join(" | "), ...probabilities.map((p) => plain(p))]);
  const more = answer.table.length - cells.length;
  const picture = drawing(answer);
  const others = Object.entries(answer.utilities ?? {}).map(([name, value]) => [name.replaceAll("_", " "), percent(value, 2)]);
  const compared = "What else is released at the same privacy";
  return [
    make("dl", { class: "tiles" }, ...tilesOf(tiles)),
    ...(picture ? [make("div", { id: "group-figure" }, picture)] : []),
    make("p", { class: "about" }, `${caption}; other orders of the classes follow by symmetry.${more > 0 ? ` ${count(more, "row")} more are in the API’s answer.` : ""}`),
    ...(others.length ? [scrolling(compared, table(compared, ["Mechanism", "Right"], [["the table", percent(utility, 2)], ...others]))] : []),
    make("details", {}, make("summary", {}, "The table"), scrolling(caption, table(caption, heads, cells))),
    ...command("solve", body, "table.json"),
  ];
}

/** Returns the voters of a table in words. */
export function votersOf(groups) {
  return groups.map(({ K, ...group }) => `${K} with ${voterOf(group)}`).join("; ");
}

/** Returns what a voter of a group states. */
function voterOf({ epsilon, Delta, profile }) {
  return profile ? `the profile ${profile.map((pair) => pair.join(":")).join(",")}` : `ε = ${plain(epsilon)}${Delta ? `, Δ = ${plain(Delta)}` : ""}`;
}

/** Returns a heat map for two groups and two classes, a triangle for one group and three classes, and nothing else. */
export function drawing({ classes, groups, table: rows }) {
  if (classes === 2 && groups.length === 2) return heatMap(groups, rows);
  if (classes === 3 && groups.length === 1) return triangle(groups[0].K, rows);
  return null;
}

function heatMap([one, other], rows) {
  const size = Math.max(10, Math.min(40, 480 / (Math.max(one.K, other.K) + 1)));
  const [left, top] = [70, 16];
  const cells = new Map();
  for (const { counts, probabilities } of rows) {
    cells.set(`${counts[0][1]} ${counts[1][1]}`, probabilities[1]);
    cells.set(`${counts[0][0]} ${counts[1][0]}`, probabilities[0]); // the classes exchanged
  }
  const [width, height] = [(one.K + 1) * size, (other.K + 1) * size];
  const squares = [...cells].map(([place, chance]) => {
    const [x, y] = place.split(" ").map(Number);
    const square = svg("rect", { x: left + x * size, y: top + height - (y + 1) * size, width: size - 1, height: size - 1 });
    square.append(svg("title", {}, `${x} of ${one.K} and ${y} of ${other.K} votes for class 1: released with probability ${plain(chance)}`));
    square.style.fill = "var(--curve-second)";
    square.style.fillOpacity = String(chance);
    return square;
  });
  const text = (x, y, words, anchor = "middle") => svg("text", { x, y, "text-anchor": anchor }, words);
  const about = "Chance that class 1 is released: 0 where a square is empty, 1 where it is full.";
  return figure(about, left + width + 16, top + height + 56, [
    ...squares,
    svg("rect", { class: "frame", x: left - 1, y: top - 1, width: width + 1, height: height + 1 }),
    ...[0, one.K].map((x) => text(left + (x + 0.5) * size, top + height + 18, x)),
    ...[0, other.K].map((y) => text(left - 8, top + height - (y + 0.5) * size + 5, y, "end")),
    text(left + width / 2, top + height + 42, `votes for class 1, ${voterOf(one)}`),
    svg("g", { transform: `translate(16 ${top + height / 2}) rotate(-90)` }, text(0, 0, voterOf(other))),
  ]);
}

function triangle(K, rows) {
  const [side, left, top] = [440, 50, 40];
  const height = (side * Math.sqrt(3)) / 2;
  const radius = Math.min(24, side / (2.4 * (K + 1)));
  const found = new Map();
  for (const { counts: [votes], probabilities } of rows) {
    for (const order of [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]) {
      found.set(order.map((c) => votes[c]).join(" "), order.map((c) => probabilities[c]));
    }
  }
  const dots = [...found].flatMap(([place, chances]) => {
    const [, b, c] = place.split(" ").map(Number);
    const [x, y] = [left + ((b + c / 2) / K) * side, top + (1 - c / K) * height];
    // Shares of the three classes as the sectors of a disc.
    let angle = -Math.PI / 2;
    const sectors = chances.map((chance, index) => {
      const sector = slice(x, y, radius, angle, chance);
      angle += 2 * Math.PI * chance;
      sector.style.fill = `var(${COLOURS[index]})`;
      return sector;
    });
    const words = `votes ${place}: classes 0, 1 and 2 with probabilities ${chances.map((chance) => plain(chance, 3)).join(", ")}`;
    return [svg("g", {}, svg("title", {}, words), ...sectors)];
  });
  const text = (x, y, words) => svg("text", { x, y, "text-anchor": "middle" }, words);
  return figure("Votes at their place in the triangle, each a disc of the probabilities of the three classes.", side + 2 * left, height + top + 50, [
    ...dots,
    text(left, top + height + radius + 20, "all for class 0"),
    text(left + side - 10, top + height + radius + 20, "all for class 1"),
    text(left + side / 2, 14, "all for class 2"),
  ]);
}

function slice(x, y, radius, angle, chance) {
  if (chance > 1 - 1e-9) return svg("circle", { cx: x, cy: y, r: radius });
  const at = (turn) => `${x + radius * Math.cos(turn)} ${y + radius * Math.sin(turn)}`;
  const end = angle + 2 * Math.PI * chance;
  return svg("path", { d: `M${x} ${y}L${at(angle)}A${radius} ${radius} 0 ${chance > 0.5 ? 1 : 0} 1 ${at(end)}Z` });
}

function figure(about, width, height, content) {
  const chart = svg("svg", { class: "groups", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": about }, ...content);
  chart.style.maxWidth = `${width}px`;
  return make("figure", {}, chart, make("figcaption", { class: "about" }, about));
}
