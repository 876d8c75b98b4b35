// What the process said last, and what follows from it.

import { amount, bytes, counted, rate } from "./dom.js";

const RATE_S = 5;
export const HOUR_S = 3600;
// As long as the small picture in the row of a pipeline.
export const LATELY_S = 300;
// What has waited so long for a backend that takes nothing has come to a stop.
const LONG_S = 60;

// `past` has for each pipeline points of accepted, delivered, lost and pending items, the oldest first, of `step`
// seconds; the newest ended at `ends`. Points after `since` are asked for next; all, if that is empty. `losses` has when
// each began, when it last grew and how fast it grows now, `lossesBefore` how fast that grows which is in no books.
export const state = {
  now: null,
  health: new Map(),
  past: new Map(),
  losses: [],
  lossesBefore: [],
  step: 1,
  ends: "",
  since: "",
  isAnotherProcess: false,
};

export const sum = (by) => Object.values(by).reduce((all, n) => all + n, 0);
export const lost = (books) => sum(books.dropped) + sum(books.rejected);
export const reasons = (by, nowOf = () => "") =>
  Object.entries(by)
    .filter(([, n]) => n > 0)
    .map(([why, n]) => `${why} ${amount(n)}${nowOf(why)}`)
    .join(", ");
// When a pipeline began to lose items so, and how fast it does; nothing if that is not known.
export const lossOf = (pipeline, way, reason) =>
  state.losses.find((of) => of.pipeline === pipeline && of.way === way && of.reason === reason);
// Each reason with its items, and how many a second these are now, if any: "dropped" or "rejected".
export function lostReasons({ pipeline, books }, way) {
  const perSecond = (reason) => lossOf(pipeline, way, reason)?.items_per_second;
  return reasons(books[way], (reason) => (perSecond(reason) ? ` (${rate(perSecond(reason))}/s now)` : ""));
}
// Seconds from the last answer to a time of another one, and those that have passed since then: by the clock of the
// process.
export const secondsUntil = (at) => (Date.parse(at) - Date.parse(state.now.at)) / 1000;
export const secondsSince = (at) => Math.max(0, -secondsUntil(at));
export const pastOf = (pipeline) => state.past.get(pipeline) || [];

export function remember({ step_seconds: step, ends_at: ends, pipelines, losses, before_books: before }) {
  [state.losses, state.lossesBefore] = [losses, before];
  // These points do not go on from those that are known, and some before them may not have been asked for.
  const isOther = state.isAnotherProcess || step !== state.step || ends < state.ends;
  if (isOther || !state.since) state.past = new Map();
  const most = Math.floor(HOUR_S / step);
  const known = ({ pipeline, points }) => [pipeline, pastOf(pipeline).concat(points).slice(-most)];
  state.past = new Map(pipelines.map(known));
  [state.step, state.ends, state.since] = [step, ends, isOther && state.since ? "" : ends];
}

// The bytes of each pipeline that came and went, as of the last few answers, the oldest first.
let passed = [];

// When a process began by its own answer, in seconds. A clock that is set makes it another one, too.
const beganAt = (now) => Date.parse(now.at) / 1000 - now.uptime_seconds;
const CLOCK_S = 2;

export function see(now) {
  const of = new Map(now.pipelines.map((line) => [line.pipeline, [line.accepted_bytes, line.delivered_bytes]]));
  // It counts anew, and has an hour of its own.
  state.isAnotherProcess = !!state.now && Math.abs(beganAt(now) - beganAt(state.now)) > CLOCK_S;
  if (state.isAnotherProcess) passed = [];
  // A page that was hidden has not asked meanwhile.
  const seconds = Date.parse(now.at) / 1000;
  passed = [...passed.filter(({ at }) => at > seconds - 2 * RATE_S), { at: seconds, of }].slice(-RATE_S - 1);
  state.now = now;
}

// Bytes a second in the last few seconds, before compression.
export function byteRates(line) {
  const [first, last] = [passed[0], passed.at(-1)];
  const [then, now] = [first?.of.get(line.pipeline), last?.of.get(line.pipeline)];
  if (!then || !now || last.at <= first.at) return { in: null, out: null };
  const per = (column) => Math.max(0, now[column] - then[column]) / (last.at - first.at);
  return { in: per(0), out: per(1) };
}

// Items a second in the last few seconds.
export function rates(line) {
  const last = pastOf(line.pipeline).slice(-Math.max(1, Math.floor(RATE_S / state.step)));
  if (!last.length) return { in: null, out: null, lost: null };
  const per = (column) => last.reduce((all, point) => all + point[column], 0) / (last.length * state.step);
  return { in: per(0), out: per(1), lost: per(2) };
}

// Red is what has come to a stop: nothing is delivered, or all is lost. What goes on, if not as it should, is yellow.
const STOPPED = ["all_dropped", "nothing_delivered"];
export const troubleKind = (told) => (told === "healthy" ? "well" : STOPPED.includes(told) ? "bad" : "warn");
const toldOf = (pipeline) => state.health.get(pipeline)?.state || "healthy";

// What is wrong as long as no trouble is told.
const waitsFor = ({ backend }) => (backend.state === "unsent" ? "requests fail here" : `backend ${backend.state}`);

export function standing(line) {
  const told = toldOf(line.pipeline);
  if (line.setup_failed)
    return {
      word: "cannot be set up",
      kind: "bad",
      message:
        state.health.get(line.pipeline)?.message || `It cannot be set up as it is configured: ${line.setup_error}`,
    };
  if (told !== "healthy")
    return {
      word: told.replaceAll("_", " "),
      kind: isStuck(line) ? "bad" : troubleKind(told),
      message: state.health.get(line.pipeline).message || "",
    };
  return waits(line)
    ? { word: waitsFor(line), kind: backendKind(line), message: "" }
    : { word: "healthy", kind: "well", message: "" };
}

// A trouble is told when it has lasted for some seconds. Until then the backend's last answer says that something
// waits.
const waits = (line) => line.backend.state !== "ok" && line.books.pending > 0;

const isStuck = (line) =>
  waits(line) &&
  line.oldest_seconds > LONG_S &&
  (line.last_taken_at == null || secondsSince(line.last_taken_at) > LONG_S);

export function backendKind(line) {
  if (line.backend.state === "ok") return "well";
  return STOPPED.includes(toldOf(line.pipeline)) || isStuck(line) ? "bad" : "warn";
}

// The colour of what a pipeline lost, or of some of that. Losses that are over have none.
export function lossKind(pipeline, isIt = () => true) {
  const goesOn = state.losses.some(
    (loss) => loss.pipeline === pipeline && isIt(loss) && secondsSince(loss.last_at) <= LATELY_S,
  );
  if (!goesOn) return null;
  return toldOf(pipeline) === "all_dropped" ? "bad" : "warn";
}

// What was lost before it came into any books has an amount of bytes or of data points.
export const quantity = ({ amount: n, unit }) => (unit === "bytes" ? bytes(n) : counted(n, "data point"));

// How much of what, for all reasons together; nothing if nothing was lost so.
export function lostBefore() {
  const all = new Map();
  for (const { what, amount: n, unit } of state.now.before_books)
    all.set(what, { amount: (all.get(what)?.amount || 0) + n, unit });
  return [...all].map(([what, of]) => `${quantity(of)} of ${what.replaceAll("_", " ")}`).join(", ");
}

// What clients pushed and no pipeline takes; nothing if there was none.
export function unclaimedWords() {
  if (!state.now.unclaimed.some(Boolean)) return "";
  const kinds = ["spans", "data points", "log records"].map(
    (what, index) => `${amount(state.now.unclaimed[index])} ${what}`,
  );
  return `No pipeline takes ${kinds.join(", ")} that were pushed: they are not in the books. ` +
    "A tap of what no pipeline takes shows them.";
}

// What has come to a stop stands first, then what else is not well.
const RANKS = ["bad", "warn", "well"];
const rank = (line) => RANKS.indexOf(standing(line).kind);
export const sickFirst = (lines) => [...lines].sort((one, other) => rank(one) - rank(other));

// The backend's words while it takes nothing, those of a trouble that is not over, or those with which it refused what
// is lost.
export function lastWords(line) {
  const { code, message } = line.backend;
  const said = message.startsWith(code) ? message : [code, message].filter(Boolean).join(": ");
  return (
    said || state.health.get(line.pipeline)?.backend || (sum(line.books.rejected) ? line.backend.last_refusal : "")
  );
}

export function from(line) {
  return (
    [line.pushed && "clients (OTLP)", line.collected && "agents on this machine"].filter(Boolean).join(", ") ||
    "nothing"
  );
}

// The time within which a part of all answers came: the upper bound of its bucket, `Infinity` above the last, in
// seconds.
export function quantile(latency, part) {
  let left = latency.requests * part;
  for (const [bound, count] of latency.buckets) {
    left -= count;
    if (left <= 0) return bound == null ? Infinity : bound;
  }
  return Infinity;
}
