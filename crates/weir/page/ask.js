// Questions to the process. If it wants a token, the reader is asked for it; it is kept for this tab and never in an
// address.

import { $ } from "./dom.js";

const KEPT = "weir-token";
// What takes longer has failed: it is asked again.
const PATIENCE_MS = 10000;

// An answer that is none. Its message is the process's own.
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export async function ask(path, { method = "GET", body, keepalive } = {}) {
  for (;;) {
    const used = sessionStorage.getItem(KEPT);
    const signal = AbortSignal.timeout(PATIENCE_MS);
    const answer = await fetch(path, {
      method,
      keepalive,
      signal,
      cache: "no-store",
      headers: headers(used, body),
      body: body && JSON.stringify(body),
    });
    if (answer.status === 401) await another(used);
    else if (answer.ok) return answer.status === 204 ? null : answer.json();
    else throw new Refused(answer.status, await words(path, answer));
  }
}

// The same, but `null` where this port has nothing of the kind.
export async function askIfThere(path) {
  try {
    return await ask(path);
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

function headers(token, body) {
  const made = {};
  if (token) made.Authorization = `Bearer ${token}`;
  if (body) made["Content-Type"] = "application/json";
  return made;
}

async function words(path, answer) {
  try {
    return (await answer.json()).error || `${path}: ${answer.status}`;
  } catch {
    return `${path}: ${answer.status} ${answer.statusText}`;
  }
}

let asked = null;

// Many questions may wait for the one token; one that was asked with an older token is asked again.
function another(used) {
  if (!asked && sessionStorage.getItem(KEPT) !== used) return null;
  $("token-wrong").hidden = !used;
  asked ||= new Promise((done) => {
    $("token-form").addEventListener("submit", (event) => {
      event.preventDefault();
      sessionStorage.setItem(KEPT, $("token-text").value.trim());
      $("token-text").value = "";
      $("token").close();
      asked = null;
      done();
    }, { once: true });
    $("token").showModal();
  });
  return asked;
}

// There is nothing to see without it.
$("token").addEventListener("cancel", (event) => event.preventDefault());

// Samples of what was lost, by the way of each; `null` on a port that has none.
export async function lostSamples() {
  const [rejected, dropped] = await Promise.all([askIfThere("rejected"), askIfThere("dropped")]);
  const of = (way) => (sample) => ({ ...sample, way });
  return rejected && dropped && [...rejected.map(of("rejected")), ...dropped.map(of("dropped"))];
}
