// A form that asks the API one thing: one request at a time, and what is refused is said beside its fields.

import { ANSWER } from "./answer.js";
import { byId } from "./elements.js";
import * as fields from "./fields.js";
import { answered } from "./follow.js";
import * as statement from "./statement.js";

/**
 * Returns `ask`, `forget`, `isAsked` and `arrive` of a form.
 *
 * @param {HTMLFormElement} form with the path and the prefix of its ids
 * @param {object} [parts]
 * @param {string} [parts.path] of the API, if another
 * @param {string} [parts.of] prefix of the ids of status, answer and statement, if another
 * @param {() => object} [parts.request] what is asked, as the API has it, if not what the fields state
 * @param {(answer: object, body: object) => Node[]} [parts.present] shows an answer
 * @param {(answer: object, body: object) => string[][] | null} [parts.rows] of the statement of an answer
 * @param {(answer: object, body: object) => void} [parts.attached] draws what needs its place on the page
 * @param {(error: Error, body: object) => Node[] | null} [parts.refused] shows a refusal that is an answer
 */
export function questionOf(form, parts = {}) {
  const { path, prefix } = form.dataset;
  const { of = prefix, request = () => fields.bodyOf(form), present, attached, rows, refused } = parts.present ? parts : { ...parts, ...ANSWER };
  let controller = null; // of the request under way
  let requestText = ""; // the request whose answer is on the page, or on its way
  const say = (text) => (byId(`${of}-status`).textContent = text);

  function forget() {
    controller?.abort(new DOMException("Asked for something else.", "AbortError"));
    controller = null;
    requestText = "";
    fields.clear(form);
    byId(`${of}-answer`).replaceChildren();
    if (byId(`${of}-statement`)) statement.withdraw(of);
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
      const answer = await (await answered(parts.path ?? path, options)).json();
      say("");
      byId(`${of}-answer`).replaceChildren(...present(answer, body));
      attached?.(answer, body);
      const claims = rows?.(answer, body);
      if (claims) statement.offer(of, () => claims);
    } catch (error) {
      if (own === controller) refuse(error, body);
    } finally {
      if (own === controller) controller = null;
    }
  }

  function refuse(error, body) {
    const shown = refused?.(error, body);
    say("");
    if (shown) {
      byId(`${of}-answer`).replaceChildren(...shown);
      return;
    }
    requestText = "";
    const { first, rest } = fields.show(form, error.fields ?? {}, prefix);
    say([...rest, ...(first || rest.length ? [] : [error.message])].join(" "));
    first?.focus();
  }

  /** Asks what a link states, and where it states nothing an example. */
  function arrive(state) {
    const all = fields.controls(form);
    if (!all.some(({ id }) => state[id])) for (const control of all) fields.fill(control, control.dataset.example ?? "");
    for (const control of all) if (fields.textOf(control)) fields.unfold(control);
    if (requestText !== JSON.stringify(request())) ask();
  }

  return { ask, forget, arrive, isAsked: () => requestText === JSON.stringify(request()) };
}
