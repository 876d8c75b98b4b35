// What happened: what the self monitor said of pipelines, and what became of configurations.

import { ask, askIfThere } from "./ask.js";
import { BROUGHT, changers, faulty, partly } from "./configuration.js";
import { day, listed } from "./dom.js";
import { troubleKind } from "./state.js";

// What the process remembers, the oldest changes and the newest configurations first; and pipelines as they are
// configured. `null` on a port that has no configurations.
let changes = [];
let configuration = { history: [], pipelines: [] };

export async function lookForEvents() {
  const configured = configuration && askIfThere("api/configuration");
  [changes, configuration] = await Promise.all([ask("health/changes"), configured]);
}

// What a rule says; nothing where that is not known.
export const ruleText = (pipeline, field) =>
  configuration?.pipelines
    .find((of) => of.pipeline === pipeline)
    ?.rules.find((rule) => rule.field === field)?.text;

// All of them, the newest first.
export const events = () =>
  [...changes.map(ofFlow), ...(configuration?.history || []).map(ofConfiguration)].sort(
    (one, other) => Date.parse(other.at) - Date.parse(one.at),
  );

// Those that a pipeline has a part in.
export const eventsOf = (pipeline) => events().filter((event) => event.concerns(pipeline));

const words = (of) => of.replaceAll("_", " ");

function ofFlow({ at, pipeline, before, state, message }) {
  return {
    key: `${at} ${pipeline}`,
    at,
    about: pipeline,
    what: `${words(before)} → ${words(state)}`,
    said: message || "",
    kind: troubleKind(state),
    concerns: (name) => name === pipeline,
  };
}

const WHAT = {
  started: "started with a configuration",
  changed: "took up another configuration",
  refused: "refused a configuration",
};

function ofConfiguration(row) {
  const { number, at, what, by, error, changed_by: changedBy, left_out: leftOut, ...lists } = row;
  const ways = ["added", "changed", "removed"].filter((way) => lists[way].length);
  const names = ways.flatMap((way) => lists[way]);
  // Of a long list the end is not known. One that was refused would have been for any of them.
  const isOpen = what === "refused" || ways.some((way) => leftOut[way]);
  const listedWays = ways.map((way) => `${way} ${listed(lists[way], leftOut[way])}`);
  return {
    key: `${number} ${at}`,
    at,
    about: "this process",
    what: `${WHAT[what] || what}${partly(row)} (${BROUGHT[by] || by})`,
    kind: what === "refused" || partly(row) ? "warn" : null,
    said: error || [...faulty(row), ...listedWays, ...changers(changedBy)].join("; ") || "nothing is different",
    concerns: (name) => isOpen || names.includes(name),
  };
}

export const EVENTS = [
  { head: "When", of: (event) => day(event.at) },
  { head: "Of", of: (event) => event.about },
  { head: "What happened", of: (event) => event.what, kind: (event) => event.kind },
  { head: "What was said", of: (event) => event.said, words: true },
];
