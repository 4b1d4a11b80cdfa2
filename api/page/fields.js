// What is wrong with an input is said at the input: in words, in colour, and to a screen reader.

import { byId, make } from "./elements.js";

for (const field of document.querySelectorAll("[data-field]")) {
  const name = field.dataset.field;
  const control = byId(name) ?? field.querySelector("[role=radiogroup]");
  const hint = control.getAttribute("aria-describedby");
  control.setAttribute("aria-describedby", hint ? `${name}-error ${hint}` : `${name}-error`);
  field.append(make("p", { class: "error", id: `${name}-error`, hidden: true }));
}

/** Forgets all complaints within a form. */
export function clear(form) {
  for (const field of form.querySelectorAll("[data-field]")) complain(form, field.dataset.field, "");
}

/**
 * Says what is wrong with fields of a form.
 *
 * @param {HTMLFormElement} form
 * @param {Object<string, string>} complaints by the field's name
 * @returns {{first: HTMLElement | null, rest: string[]}} the first control at fault, and what has no field in the form
 */
export function show(form, complaints) {
  const rest = Object.entries(complaints).filter(([name, text]) => !complain(form, name, text));
  const first = form.querySelector("[aria-invalid=true]");
  return { first, rest: rest.map(([, text]) => text) };
}

function complain(form, name, text) {
  const field = form.querySelector(`[data-field="${CSS.escape(name)}"]`);
  if (!field || field.hidden) return false;
  const error = byId(`${name}-error`);
  error.textContent = text;
  error.hidden = !text;
  for (const control of field.querySelectorAll("input:not([type=radio])")) {
    if (text) control.setAttribute("aria-invalid", "true");
    else control.removeAttribute("aria-invalid");
  }
  return true;
}
