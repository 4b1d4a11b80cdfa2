// The fields of forms, which the server makes of their declarations: what they state, and what is wrong with them.

import { byId, make } from "./elements.js";

/** Returns the fields of a form, in order. */
export function controls(form) {
  return [...form.querySelectorAll("[id][data-kind]")];
}

/** Returns the element of a field: its label, its inputs, and what is wrong with it. */
export function fieldOf(control) {
  return control.closest(".field");
}

/** Returns what a field states, as a link has it; "" is what holds where nothing is stated. */
export function textOf(control) {
  if (control.dataset.kind === "flag") return control.checked === control.defaultChecked ? "" : String(control.checked);
  if (control.dataset.kind !== "rows") return control.value.trim();
  return entries(control).map((inputs) => inputs.map((input) => `${input.name}=${input.value.trim()}`).join(",")).join(";");
}

/** Has a field state what a text of a link says. */
export function fill(control, text) {
  if (control.dataset.kind === "flag") control.checked = text ? text === "true" : control.defaultChecked;
  else if (control.dataset.kind !== "rows") control.value = text;
  else {
    rowsOf(control).replaceChildren();
    for (const entry of text.split(";").filter(Boolean)) add(control, entry);
    while (rowsOf(control).childElementCount < Number(control.dataset.least)) add(control, "");
  }
}

/** Returns what the fields of a form state, as the API has it; empty and hidden ones are left out. */
export function bodyOf(form) {
  const stated = controls(form).filter((control) => textOf(control) && !fieldOf(control).hidden);
  return Object.fromEntries(stated.map((control) => [control.name, valueOf(control)]));
}

function valueOf(control) {
  const { kind } = control.dataset;
  if (kind === "flag") return control.checked;
  if (kind === "rows") return entries(control).map((inputs) => Object.fromEntries(inputs.map((input) => [input.name, valueOf(input)])));
  const text = control.value.trim();
  if (kind === "list") return text.split(/[\s,;]+/).filter(Boolean).map(number);
  return kind === "number" ? number(text) : text;
}

/** Returns the number that a text is; what is none goes to the server as it is, which says what is wrong with it. */
function number(text) {
  return text && Number.isFinite(Number(text)) ? Number(text) : text;
}

// ---- rows: a list of objects

for (const control of document.querySelectorAll("[data-kind=rows]")) {
  control.querySelector(".add").addEventListener("click", () => add(control, "").querySelector("input").focus());
  fill(control, "");
}

function rowsOf(control) {
  return control.querySelector("template").nextElementSibling;
}

/** Returns the inputs of each entry that are filled in. */
function entries(control) {
  return [...rowsOf(control).children].map((row) => [...row.querySelectorAll("input")].filter((input) => input.value.trim()));
}

function add(control, text) {
  const row = control.querySelector("template").content.firstElementChild.cloneNode(true);
  for (const part of text.split(/,(?=\s*\w+=)/).filter(Boolean)) { // points of a profile have commas of their own
    const [name, ...value] = part.trim().split("=");
    const input = row.querySelector(`[name="${CSS.escape(name)}"]`);
    if (input) input.value = value.join("=");
  }
  row.querySelector("button").addEventListener("click", () => {
    row.remove();
    arrange(control);
  });
  rowsOf(control).append(row);
  arrange(control);
  return row;
}

/** Numbers the entries, and offers one more or less as long as the list may have so many. */
function arrange(control) {
  const rows = [...rowsOf(control).children];
  const { least, most } = control.dataset;
  control.querySelector(".add").disabled = most !== "" && rows.length >= Number(most);
  for (const [place, row] of rows.entries()) {
    row.setAttribute("aria-label", `${control.querySelector("legend").textContent} ${place + 1}`);
    row.querySelector("button").disabled = rows.length <= Number(least);
  }
}

// ---- what is wrong with an input is said at the input: in words, in colour, and to a screen reader

/** Forgets all complaints within a form. */
export function clear(form) {
  for (const { id } of controls(form)) complain(form, id, "");
}

/**
 * Says what is wrong with fields of a form.
 *
 * @param {HTMLElement} form
 * @param {Object<string, string>} complaints by the name of the API's field
 * @param {string} [prefix] of the form's ids
 * @returns {{first: HTMLElement | null, rest: string[]}} the first control at fault, and what has no field in the form
 */
export function show(form, complaints, prefix = "") {
  const rest = Object.entries(complaints).filter(([name, text]) => !complain(form, prefix ? `${prefix}_${name}` : name, text));
  const first = form.querySelector("[aria-invalid=true]");
  for (const invalid of form.querySelectorAll("[aria-invalid=true]")) unfold(invalid);
  return { first, rest: rest.map(([, text]) => text) };
}

/** Opens the fold that a field is in. */
export function unfold(control) {
  const fold = control.closest("details");
  if (fold) fold.open = true;
}

function complain(form, id, text) {
  const control = byId(id);
  const field = form.contains(control) && fieldOf(control);
  if (!field || field.hidden) return false;
  byId(`${id}-error`)?.remove();
  if (text) field.append(make("p", { class: "error", id: `${id}-error` }, text));
  const [, row, name] = /^\w+\[(\d+)\]\.(\w+)/.exec(text) ?? []; // of a list of objects
  const entry = field.querySelectorAll(".entry")[row];
  for (const input of field.querySelectorAll("input, select")) {
    const words = (input.getAttribute("aria-describedby") ?? "").split(" ").filter((one) => one && !one.endsWith("-error"));
    const isWrong = text && (!entry || (entry.contains(input) && input.name === name));
    if (isWrong) input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
    input.setAttribute("aria-describedby", [...(isWrong ? [`${id}-error`] : []), ...words].join(" "));
  }
  return true;
}
