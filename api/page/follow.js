// Answers that take their time: the server names a job (202), which is followed until it is over, or cancelled.

import { Refused, ask, pause } from "./ask.js";
import { count, percent, plain } from "./numbers.js";

/** The reason with which whoever waits calls it off; then the job is cancelled too. */
export class Cancelled extends Error {}

const POLL = 1; // seconds, where the server's events do not come through
const OVER = new Set(["done", "failed", "cancelled"]);

/**
 * Asks as `ask` does, and waits for the job if there is one.
 *
 * `options.onJob(pending)` hears that there is one, and `options.onProgress(text, job)` how far it is. For a job that `stop` ended,
 * returns {stopped: its id}: to ask again would be to solve on.
 */
export async function answered(path, options = {}) {
  for (;;) {
    const answer = await ask(path, options);
    if (answer.status !== 202) return answer;
    const pending = await answer.json();
    const { id } = pending;
    options.onJob?.(pending)?.catch(() => {}); // what is told beside the waiting may fail
    try {
      await finished(id, options);
      if (stopping.delete(id)) return { stopped: id };
    } catch (error) {
      if (error instanceof Cancelled) await ask(`v1/jobs/${id}`, { method: "DELETE" }).catch(() => {});
      throw error;
    }
  }
}

const stopping = new Set(); // jobs that were stopped here, with what they had

/** Stops a job with the best certified γ so far as its result; whoever waits for it hears of it as of any other end. */
export async function stop(id) {
  while ((await ask(`v1/jobs/${id}/stop`, { method: "POST" })).status === 202) await pause(POLL);
  stopping.add(id);
}

async function finished(id, options) {
  let job = null;
  try {
    for await (const update of events(`v1/jobs/${id}/events`, options)) {
      job = update;
      tell(job, options);
    }
  } catch {
    options.signal?.throwIfAborted(); // else the stream was lost, as behind some proxies; the job was not
  }
  while (!OVER.has(job?.state)) {
    await pause(POLL, options.signal);
    job = await (await ask(`v1/jobs/${id}`, { signal: options.signal, onWait: options.onWait })).json();
    tell(job, options);
  }
  if (job.state === "failed") throw new Refused(500, { detail: `The solve failed. ${job.reason}` });
  if (job.state === "cancelled") throw new Refused(409, { detail: "The solve was cancelled by someone else who waited for it." });
}

/** Yields the data of server-sent events. Not an EventSource, which could send no API key. */
async function* events(path, { signal }) {
  const stream = (await ask(path, { accept: "text/event-stream", signal })).body.pipeThrough(new TextDecoderStream());
  let rest = "";
  for await (const chunk of chunks(stream)) {
    const blocks = (rest + chunk).split("\n\n");
    rest = blocks.pop();
    for (const event of blocks) {
      const data = event.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6));
      if (data.length) yield JSON.parse(data.join("\n"));
    }
  }
}

async function* chunks(stream) {
  const reader = stream.getReader(); // a stream is no async iterator in every browser yet
  for (let read = await reader.read(); !read.done; read = await reader.read()) yield read.value;
}

function tell(job, { onProgress }) {
  const { state, progress } = job;
  if (state === "queued") onProgress?.("Waiting for a free solver …", job);
  else if (!progress) onProgress?.("Solving …", job);
  else if ("done" in progress) onProgress?.(`Working: ${progress.done} of ${count(progress.of, "step")} done.`, job);
  else {
    const { round, rows, utility, upper_bound: bound, seconds } = progress;
    onProgress?.(
      `Solving for ${plain(seconds, 2)} s: ${count(round, "round")}, ${count(rows, "row")}. The best γ keeps between ` +
        `${percent(utility, 3)} and ${percent(bound, 3)}.`,
      job,
    );
  }
}
