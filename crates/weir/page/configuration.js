// The configuration in use, what became of earlier ones, and what differs between two of them.

import { ask, askIfThere } from "./ask.js";
import { $, amount, button, counted, day, element, facts, listed, settle } from "./dom.js";
import { changes, shownChanges } from "./diff.js";
import { state } from "./state.js";
import { Table } from "./table.js";

// `null` on a port that has no such path.
let configured;
let inUse;
let past;
// The keys of the two that the reader has chosen to compare; until then, they are the newest two.
let chosen = null;
// What was compared last.
let compared = "";
// The lines of those that were asked for, by their keys.
const known = new Map();

export const configuration = {
  name: "configuration",
  title: "Configuration",
  every: 5000,
  async look() {
    configured = await askIfThere("api/configuration");
  },
  begin() {
    inUse = new Table({
      isBeside: true,
      caption: "The configuration in use",
      columns: IN_USE,
      key: (row) => row.pipeline,
      none: "There are no pipelines.",
    });
    past = new Table({
      isBeside: true,
      caption: "Earlier configurations, the newest first",
      columns: PAST,
      key: keyOf,
      act: compareWithOlder,
      none: "It is the first one.",
    });
    const select = (id, words) => element("label", {}, `${words} `, element("select", { id }));
    const pair = element(
      "div",
      { class: "bar" },
      select("configuration-before", "From"),
      select("configuration-after", "to"),
    );
    pair.addEventListener("change", () => {
      chosen = [$("configuration-before").value, $("configuration-after").value];
      compare();
    });
    $("configuration").append(
      element("div"),
      element("h2", {}, "In use"),
      inUse.root,
      element("h2", {}, "History"),
      past.root,
      element("h2", { id: "configuration-compared", tabindex: "-1" }, "What differs between two of them"),
      pair,
      element("div", { id: "configuration-changes" }),
    );
  },
  show() {
    const { configuration: of, connections, health } = state.now;
    settle($("configuration").firstChild, facts(
      ["in use since", of.taken_up_at ? day(of.taken_up_at) : ""],
      ["a newer one is wrong", of.error ? element("span", { class: "bad" }, of.error) : ""],
      ["the process", health], ["connections of clients", amount(connections)],
      ["for all pipelines", configured ? list(configured.process) : ""]));
    for (const part of [...$("configuration").children].slice(1)) part.hidden = !configured;
    $("elsewhere").hidden = configured !== null;
    if (!configured) return;
    inUse.set(configured.pipelines);
    past.set(configured.history);
    compare();
  },
};

const keyOf = (row) => `${row.number} ${row.at}`;
const kept = () => configured.history.filter((row) => row.is_kept);
// The one that ran before.
const older = (key) => kept()[kept().findIndex((row) => keyOf(row) === key) + 1];

function compareWithOlder(key, what) {
  const before = older(key);
  if (what !== "compare" || !before) return;
  chosen = [keyOf(before), key];
  compare();
  $("configuration-compared").focus();
}

async function compare() {
  const keys = kept().map(keyOf);
  for (const key of known.keys()) if (!keys.includes(key)) known.delete(key);
  if (!chosen?.every((key) => keys.includes(key))) chosen = null;
  const wanted = chosen || [keys[1], keys[0]];
  fill("configuration-before", wanted[0]);
  fill("configuration-after", wanted[1]);
  $("configuration-before").closest(".bar").hidden = keys.length < 2;
  if (compared === wanted.join()) return;
  compared = wanted.join();
  const shown =
    keys.length < 2
      ? [element("p", { class: "faint" }, "There is only one: the next one is compared with it here.")]
      : await Promise.all(wanted.map(linesOf)).then(([before, after]) => difference(before, after), failed);
  // Others may have been chosen meanwhile.
  if (shown && compared === wanted.join()) settle($("configuration-changes"), ...shown);
}

// It is tried again when the view is shown again.
function failed(error) {
  compared = "";
  settle($("configuration-changes"), element("p", { class: "bad", role: "alert" }, error.message));
}

function fill(id, key) {
  settle($(id), ...kept().map((row) => element("option", { value: keyOf(row) }, `${day(row.at)} ${row.what}`)));
  $(id).value = key ?? "";
}

async function linesOf(key) {
  if (!known.has(key)) known.set(key, asLines(await ask(`api/configuration/${key.split(" ")[0]}`)));
  return known.get(key);
}

// Each line says whose it is: where pipelines stand in a file makes no difference.
function asLines({ process, pipelines }) {
  const byName = [...pipelines].sort((one, other) => one.pipeline.localeCompare(other.pipeline));
  const ofPipelines = byName.flatMap(({ pipeline, inputs, rules, backend, settings }) => [
    ...inputs.map((input) => `takes ${input}`),
    ...rules.flatMap(({ field, text: rule }) => `${field}: ${rule}`.split("\n")),
    `sends to ${backend}`, ...settings,
  ].map((line) => `${pipeline}  ${line}`));
  return [...process.map((line) => `process  ${line}`), ...ofPipelines];
}

function difference(before, after) {
  const lines = changes(before, after);
  const of = (sign) => counted(lines.filter(([one]) => one === sign).length, "line");
  return [
    element(
      "p",
      { role: "status" },
      lines.length
        ? `${of("+")} added, ${of("-")} removed.`
        : "Nothing that is shown of them differs. Credentials, certificates, paths and filters of Fluent Bit are not.",
    ),
    lines.length ? shownChanges(lines) : null,
  ];
}

const text = (head, of, more = {}) => ({ head, of: (row) => of(row) || "", ...more });
const list = (all, kind) =>
  element("ul", { class: `plain ${kind || ""}` }, ...all.map((line) => element("li", {}, line)));

// Who changed a pipeline last: a manager of the fields of its object, or the file that it is in. Nothing if that is not
// known.
function changer(by) {
  if (!by) return "";
  const who = by.manager ? `${by.manager} (${by.operation})` : by.file;
  return [who, by.at ? day(by.at) : ""].filter(Boolean).join(" ");
}

// Pipelines that could not be set up as they are configured, and why. One that is new was nothing before.
export const faulty = ({ faults, changed }) =>
  (faults || []).map(({ pipeline, cause }) => {
    const stays = changed.includes(pipeline) ? ", and the rest stays as it was" : "";
    return `cannot set up all of ${pipeline}${stays}: ${cause}`;
  });
export const partly = ({ faults }) => (faults?.length ? ", but not all of it" : "");

// Those who changed pipelines, each with the names of these.
export function changers(changedBy) {
  const all = new Map();
  for (const [pipeline, by] of Object.entries(changedBy)) {
    const who = changer(by);
    all.set(who, [...(all.get(who) || []), pipeline]);
  }
  return [...all].map(([who, pipelines]) => `${who}: ${pipelines.join(", ")}`);
}

const certificate = ({ certificate_ends_at: ends }) => (ends ? [`client certificate ends ${day(ends)}`] : []);

// Of which version of a Secret the values are, where the operator says so.
const secrets = ({ secrets: of }) =>
  Object.entries(of || {}).map(([name, version]) => `Secret ${name} in resourceVersion ${version}`);

const IN_USE = [
  text("Pipeline", (row) => row.pipeline),
  text("Inputs", (row) => row.inputs.join(", "), { words: true, cell: (row) => list(row.inputs) }),
  text("Rules, effective order", (row) => row.rules.map((rule) => rule.text).join(" "), {
    words: true,
    cell: (row) =>
      list(
        row.rules.map((rule) =>
          element("span", {}, element("span", { class: "faint" }, `${rule.field} `), element("code", {}, rule.text)),
        ),
      ),
  }),
  text("Backend", (row) => [row.backend, ...row.settings].join(" "), {
    words: true,
    cell: (row) => [row.backend, list([...row.settings, ...certificate(row), ...secrets(row)], "faint")],
  }),
  text("Last changed by", (row) => changer(row.changed_by), { words: true }),
];

const names = (head, way) => text(head, (row) => listed(row[way], row.left_out[way]), { words: true });

// What brings a configuration, as the process calls it.
export const BROUGHT = {
  start: "the start of the process",
  sighup: "SIGHUP",
  files_changed: "a change of its files",
  daily: "a look once a day",
  secret: "the operator's Secret",
  saved: "the last good one on the disk",
};

// Which state of the Secret it was, as far as that is known.
const versions = (row) =>
  [
    ["revision", row.revision],
    ["resourceVersion", row.resource_version],
  ]
    .filter(([, name]) => name)
    .map((pair) => pair.join(" "));

const PAST = [
  { head: "Time", of: (row) => row.at, cell: (row) => day(row.at) },
  text("What", (row) => row.what + partly(row), {
    kind: (row) => (row.what === "refused" || partly(row) ? "warn" : null),
  }),
  text("Brought by", (row) => [BROUGHT[row.by] || row.by, ...versions(row)].join(" "), {
    cell: (row) => [BROUGHT[row.by] || row.by, list(versions(row), "faint")],
  }),
  names("Added", "added"),
  names("Changed", "changed"),
  names("Removed", "removed"),
  text("Objects last changed by", (row) => changers(row.changed_by).join(" "), {
    words: true,
    cell: (row) => list(changers(row.changed_by)),
  }),
  text("Error", (row) => row.error || faulty(row).join("; "), { words: true, kind: () => "bad" }),
  {
    head: "Compare",
    of: () => "",
    cell: (row) =>
      row.is_kept && older(keyOf(row)) ? button("With the one before", "compare", {}, `that of ${day(row.at)}`) : "",
  },
];
