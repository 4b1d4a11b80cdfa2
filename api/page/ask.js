// Asking the server: problem details become errors that say what to do; a busy server is asked again.

/** The server said no; `problem` holds its problem details (RFC 9457). */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `The server answered with status ${status}.`);
    this.status = status;
    this.problem = problem;
  }

  /** What is wrong, by field; empty where no field is at fault. */
  get fields() {
    const errors = this.problem.errors ?? (this.problem.field ? [{ field: this.problem.field, detail: this.message }] : []);
    return Object.fromEntries(errors.map(({ field, detail }) => [field, detail]));
  }
}

/** There was no answer at all. */
export class Unreachable extends Error {
  constructor() {
    super("The server cannot be reached. It may be down, or the connection to it.");
  }
}

const BUSY = new Set([429, 503]);
const MAX_TRIES = 5;
const MAX_WAIT = 30; // seconds
const KEY = "darrm-key";

/**
 * Asks once, or several times while the server is busy or cannot be reached.
 *
 * @param {string} path relative to the page, so that the page may stand behind a prefix
 * @param {{body?: object, accept?: string, method?: string, signal?: AbortSignal, onWait?: (seconds: number, reason: string) => void}} options
 * @returns {Promise<Response>} an answer whose status is below 400
 */
export async function ask(path, options = {}) {
  for (let attempt = 1; ; attempt += 1) {
    const last = attempt === MAX_TRIES;
    try {
      const answer = await fetch(path, request(options));
      if (answer.ok) return answer;
      const delay = Number(answer.headers.get("retry-after"));
      if (last || !BUSY.has(answer.status) || !(delay > 0 && delay <= MAX_WAIT)) throw await refusal(answer);
      options.onWait?.(delay, "The server is busy");
      await pause(delay, options.signal);
    } catch (error) {
      if (!(error instanceof TypeError)) throw error; // fetch throws a TypeError when there is no answer
      if (last) throw new Unreachable();
      const delay = 2 ** (attempt - 1) / 2;
      options.onWait?.(delay, "The server cannot be reached");
      await pause(delay, options.signal);
    }
  }
}

function request({ body, accept = "application/json", method, signal }) {
  const headers = { Accept: accept };
  const key = sessionStorage.getItem(KEY);
  if (key) headers.Authorization = `Bearer ${key}`;
  if (body === undefined) return { method: method ?? "GET", headers, signal };
  return { method: method ?? "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(body), signal };
}

async function refusal(answer) {
  let problem = {};
  if ((answer.headers.get("content-type") ?? "").includes("json")) problem = await answer.json().catch(() => ({}));
  return new Refused(answer.status, problem);
}

/** Waits some seconds; throws an AbortError if the signal comes first. */
export function pause(seconds, signal) {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    if (signal?.aborted) return reject(signal.reason);
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, seconds * 1000);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** Keeps an API key for this tab, without blanks around it; returns whether it can be a key at all. */
export function useKey(text) {
  const key = text.trim();
  const possible = /^[\x21-\x7e]+$/.test(key); // what a header can carry
  if (possible) sessionStorage.setItem(KEY, key);
  return possible;
}

/** Tells whether this tab has an API key. */
export function hasKey() {
  return sessionStorage.getItem(KEY) !== null;
}

/** Forgets the API key; returns whether there was one. */
export function forgetKey() {
  const present = hasKey();
  sessionStorage.removeItem(KEY);
  return present;
}
