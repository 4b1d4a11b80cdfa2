// A form that asks the API one thing: one request at a time, and what is refused is said beside its fields.

import { byId } from "./elements.js";
import * as fields from "./fields.js";
import { answered } from "./follow.js";

/**
 * Returns `ask`, `forget` and `isAsked` of a form.
 *
 * @param {object} parts
 * @param {string} parts.form its id
 * @param {string} parts.status the id of what says how far it is
 * @param {string} parts.path of the API
 * @param {Object<string, string>} parts.names the API's name of each field
 * @param {Object<string, string>} [parts.further] fields at which other names of the API are complained of
 * @param {() => object} parts.request what the form asks, as the API has it
 * @param {(answer: object, body: object) => void} parts.present shows an answer
 * @param {() => void} parts.empty removes what is shown
 * @param {(error: Error, body: object) => boolean} [parts.refused] shows a refusal that is an answer, and returns whether it was one
 */
export function questionOf({ form, status, path, names, further = {}, request, present, empty, refused }) {
  let controller = null; // of the request under way
  let requestText = ""; // the request whose answer is on the page, or on its way
  const say = (text) => (byId(status).textContent = text);

  function forget() {
    controller?.abort(new DOMException("Asked for something else.", "AbortError"));
    controller = null;
    requestText = "";
    fields.clear(byId(form));
    empty();
    say("");
  }

  async function ask() {
    forget();
    const body = request();
    const own = (controller = new AbortController());
    requestText = JSON.stringify(body);
    say("Working …");
    try {
      const options = { body, signal: own.signal, onProgress: say, onWait: (_, reason) => say(reason) };
      const answer = await (await answered(path, options)).json();
      say("");
      present(answer, body);
    } catch (error) {
      if (own !== controller) return;
      if (refused?.(error, body)) say("");
      else refuse(error);
    } finally {
      if (own === controller) controller = null;
    }
  }

  function refuse(error) {
    requestText = "";
    const fieldOf = { ...Object.fromEntries(Object.entries(names).map(([field, name]) => [name, field])), ...further };
    const complaints = Object.entries(error.fields ?? {}).map(([name, text]) => [fieldOf[name] ?? name, text]);
    const { first, rest } = fields.show(byId(form), Object.fromEntries(complaints));
    say([...rest, ...(first || rest.length ? [] : [error.message])].join(" "));
    first?.focus();
  }

  return { ask, forget, isAsked: () => JSON.stringify(request()) === requestText };
}

/** Returns what fields say, by the API's names: empty ones are left out, and what is a number is one, but for `texts`. */
export function bodyOf(names, texts = []) {
  const entries = Object.entries(names).map(([field, name]) => [name, byId(field).value.trim()]).filter(([, text]) => text);
  return Object.fromEntries(entries.map(([name, text]) => [name, texts.includes(name) ? text : number(text)]));
}

/** Returns the number that a text is; what is none goes to the server as it is, which says what is wrong with it. */
export function number(text) {
  return Number.isFinite(Number(text)) ? Number(text) : text;
}
