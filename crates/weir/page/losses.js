// What was lost, with samples; and what rules remove, which is no loss.

import { askIfThere } from "./ask.js";
import { $, amount, button, bytes, clock, copy, element } from "./dom.js";
import { reasons, state, sum } from "./state.js";
import { Table } from "./table.js";

let lossesTable;
let samplesTable;
let removedTable;
// What /rejected has; `null` on a port that has no such path.
let samples = [];

export const losses = {
  name: "losses",
  title: "Losses",
  every: 5000,
  async look() {
    samples = await askIfThere("rejected");
  },
  begin(go) {
    lossesTable = new Table({ isBeside: true, caption: "Items that were lost, by pipeline and reason", columns: LOSSES, key: (row) => row.key, sort: 3, act: (key, what) => go(what, key.split(" ")[0], "removed"), none: "Nothing was lost since the start of the process." });
    samplesTable = new Table({ isBeside: true, caption: "Samples of what backends refused", columns: SAMPLES, key: keyOf, act: copySample, none: "Backends have refused nothing." });
    removedTable = new Table({ isBeside: true, caption: "Items that rules removed, as configured", columns: REMOVED, key: (line) => line.pipeline, sort: 1, act: (key, what) => go(what, key, "removed"), none: "No pipeline has rules." });
    $("losses").append(
      element("h2", {}, "Lost"), lossesTable.root,
      element("h2", {}, "Samples of what backends refused"),
      element("p", { class: "faint words", id: "losses-elsewhere" }, "Samples are telemetry: they are on the admin port only, which the same page has, too (127.0.0.1:55679 unless told otherwise)."),
      samplesTable.root,
      element("h2", {}, "Removed by rules, as configured"), removedTable.root);
  },
  show() {
    const rows = state.now.pipelines.flatMap(lossesOf);
    lossesTable.set(rows);
    removedTable.set(state.now.pipelines.filter((line) => line.rules.length || sum(line.books.filtered)));
    $("losses-elsewhere").hidden = samples !== null;
    samplesTable.root.hidden = samples === null;
    if (samples) samplesTable.set(samples);
  },
  samples: () => samples || [],
};

function lossesOf({ pipeline, books }) {
  const ways = [["dropped here", books.dropped], ["refused by the backend", books.rejected]];
  return ways.flatMap(([where, by]) => Object.entries(by).filter(([, items]) => items > 0)
    .map(([reason, items]) => ({ key: `${pipeline} ${where} ${reason}`, pipeline, where, reason, items })));
}

const keyOf = (sample) => `${sample.pipeline} ${sample.unix_ms} ${sample.otlp.length} ${sample.otlp.slice(0, 60)}`;
const sizeOf = (sample) => Math.floor((sample.otlp.length * 3) / 4);

function copySample(key, what, event) {
  const sample = (samples || []).find((one) => keyOf(one) === key);
  if (what === "copy" && sample) copy(sample.otlp, event.target);
}

const LOSSES = [
  { head: "Pipeline", of: (row) => row.pipeline },
  { head: "Where", of: (row) => row.where },
  { head: "Reason", of: (row) => row.reason },
  { head: "Items", number: true, of: (row) => row.items, cell: (row) => amount(row.items), kind: () => "bad" },
];

const SAMPLES = [
  { head: "Pipeline", of: (sample) => sample.pipeline },
  { head: "Time", of: (sample) => sample.unix_ms, cell: (sample) => clock(sample.unix_ms) },
  { head: "Answer", words: true, of: (sample) => `${sample.code} ${sample.message}`, cell: (sample) => [element("b", {}, sample.code), ` ${sample.message}`] },
  { head: "Items", number: true, of: (sample) => sample.items, cell: (sample) => amount(sample.items) },
  { head: "Size", number: true, of: sizeOf, cell: (sample) => `${sample.truncated ? "more than " : ""}${bytes(sizeOf(sample))}` },
  { head: "The request", of: () => "", cell: () => button("Copy as base64", "copy") },
];

const REMOVED = [
  { head: "Pipeline", of: (line) => line.pipeline },
  { head: "Items", number: true, of: (line) => sum(line.books.filtered), cell: (line) => amount(sum(line.books.filtered)) },
  { head: "By", of: (line) => reasons(line.books.filtered) },
  { head: "", of: () => "", cell: () => button("Tap what rules remove", "tap") },
];
