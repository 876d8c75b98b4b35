// What was lost, with samples; and what rules remove, which is no loss.

import { ask, lostSamples } from "./ask.js";
import { $, amount, button, bytes, copy, day, duration, element, faint, moment, rate, short } from "./dom.js";
import { entry } from "./items.js";
import { lossKind, lossOf, quantity, reasons, secondsSince, state, sum, unclaimedWords } from "./state.js";
import { Table } from "./table.js";

let lossesTable;
let beforeTable;
let samplesTable;
let removedTable;
// What /rejected and /dropped have; `null` on a port that has no such paths.
let samples = [];
// Items that are shown of what passed before anybody looked.
let recent = [];

// Why Weir gives items up.
const DROPPED = {
  memory_full: "its share of the memory was full: newer data took the place of its oldest",
  shutdown: "it was in memory when its pipeline or the process ended",
  backlog_full: "its backlog was as large as it may be: newer data took the place of its oldest",
  backlog_age: "it had waited on the disk for as long as it may",
  disk_full: "the disk was full",
  journal_damaged: "the disk did not give back what was written",
};
const REFUSED = {
  partial_success: "the backend took the requests, but not all that was in them, and does not say what",
};
// Why it came into no books.
const WHY_BEFORE = {
  removed: "files were deleted before they were read",
  overwritten: "files were overwritten in place",
  unreadable: "files could not be read",
  over_limit: "removed files took more of the disk than --max-removed-logs lets them",
  no_room: "pipelines were full, or the disk failed, until the next ones came",
  no_memory: "there was no memory for them until the next ones came",
  too_large: "they were larger than --max-request-size",
  bug: "they could not be encoded: this is a bug in Weir, please report it",
};
// Of these no item is known to be lost.
const UNKNOWN = ["journal_damaged", "partial_success"];
const NOTHING = "Nothing was lost since the start of the process.";
const NOTHING_IN_BOOKS = "Nothing that came into the books was lost since the start of the process.";
const TAPS = { dropped: "Tap what is dropped", rejected: "Tap what is refused" };

export const losses = {
  name: "losses",
  title: "Losses",
  every: 5000,
  async look() {
    samples = await lostSamples();
  },
  begin(go) {
    lossesTable = new Table({
      isBeside: true,
      caption: "Items that were lost, by pipeline and reason",
      columns: LOSSES,
      key: (row) => row.key,
      sort: 3,
      act: (key, what, event) =>
        what === "recent"
          ? showRecent(key.split(" ")[0], "lost", event.target, event.target.dataset.only)
          : go(what, key.split(" ")[0], "out", event.target.dataset.only),
      none: NOTHING,
    });
    beforeTable = new Table({
      isBeside: true,
      caption: "What was lost before it came into any books, by reason",
      columns: BEFORE,
      key: (row) => [row.what, row.job, row.reason].join(" "),
    });
    samplesTable = new Table({
      isBeside: true,
      caption: "Samples of what was lost",
      columns: SAMPLES,
      key: keyOf,
      sort: 1,
      act: copySample,
      none: "There are none.",
    });
    removedTable = new Table({
      isBeside: true,
      caption: "Items that rules removed, as configured",
      columns: REMOVED,
      key: (line) => line.pipeline,
      sort: 1,
      act: (key, what, event) =>
        what === "recent" ? showRecent(key, "removed", event.target) : go(what, key, "removed"),
      none: "No pipeline has rules.",
    });
    $("losses").append(
      element("h2", {}, "Lost"),
      lossesTable.root,
      element(
        "p",
        { class: "faint words" },
        "Recent items are a few of all that passed: a small loss may have none among them. A tap shows what happens " +
          "from now on. With a data directory, what a backend refuses waits on the disk until that is for good. What " +
          "is sent in parts until the bad items are found is shown as that: the samples below are those items. Of " +
          "what waits, the oldest is given up first; once a second the first item of it is kept.",
      ),
      element(
        "div",
        { id: "losses-before" },
        element("h2", {}, "Lost before it came into any books"),
        element(
          "p",
          { class: "words" },
          "No books have it. The state of each pipeline that would have got it tells of it, if it is enough to be a " +
            "trouble. Log files and Targets say of which containers and targets it was; so does the log, with the " +
            "pipelines.",
        ),
        beforeTable.root,
      ),
      element("p", { class: "words", id: "losses-unclaimed" }),
      element("p", { class: "words", id: "losses-refused" }),
      element("h2", {}, "Samples of what was lost"),
      element(
        "p",
        { class: "faint words", id: "losses-elsewhere" },
        "Samples are telemetry: they are on the admin port only, which the same page has, too (127.0.0.1:55679 " +
          "unless told otherwise).",
      ),
      element("p", { id: "losses-trouble", class: "bad words", role: "alert" }),
      samplesTable.root,
      element("h2", {}, "Removed by rules, as configured"),
      removedTable.root,
      element("div", { id: "losses-recent", role: "status" }),
    );
    $("losses-recent").addEventListener("click", ({ target }) => {
      if (target.dataset.act === "copy") copyRecent(target);
      if (target.dataset.act === "find") go("find", target.dataset.trace);
    });
  },
  show() {
    const orphans = state.now.orphans.map((of) => ({ ...of, orphan: true }));
    const rows = [...state.now.pipelines, ...orphans].flatMap(lossesOf);
    const before = state.now.before_books;
    lossesTable.none = before.length ? NOTHING_IN_BOOKS : NOTHING;
    lossesTable.set(rows);
    beforeTable.set(before);
    $("losses-before").hidden = !before.length;
    $("losses-unclaimed").textContent = unclaimedWords();
    $("losses-unclaimed").hidden = !$("losses-unclaimed").textContent;
    const refused = reasons(state.now.refused_requests).replaceAll("_", " ");
    $("losses-refused").textContent = `Requests of clients that were refused: ${refused}. They were told why; what they ` +
      "gave up then, only they know.";
    $("losses-refused").hidden = !refused;
    removedTable.set(state.now.pipelines.filter((line) => line.rules.length || sum(line.books.filtered)));
    $("losses-elsewhere").hidden = samples !== null;
    samplesTable.root.hidden = samples === null;
    if (samples) samplesTable.set(samples);
  },
  samples: () => samples || [],
};

function lossesOf({ pipeline, books, orphan }) {
  return ["dropped", "rejected"].flatMap((way) =>
    Object.entries(books[way])
      .filter(([, items]) => items > 0)
      .map(([reason, items]) => {
        const why = way === "dropped" ? DROPPED[reason] : REFUSED[reason] || wordsOf(pipeline, reason);
        return {
          ...lossOf(pipeline, way, reason),
          key: `${pipeline} ${way} ${reason}`,
          pipeline,
          way,
          reason,
          items,
          why,
          orphan,
          isKnown: !orphan && !UNKNOWN.includes(reason),
        };
      }),
  );
}

// What a backend said with this code last.
const wordsOf = (pipeline, code) =>
  short((samples || []).find((of) => of.pipeline === pipeline && of.code === code)?.message || "");

const keyOf = (sample) =>
  `${sample.pipeline} ${sample.way} ${sample.at} ${sample.otlp.length} ${sample.otlp.slice(0, 60)}`;
const sizeOf = (sample) => Math.floor((sample.otlp.length * 3) / 4);

async function copySample(key, what, event) {
  const sample = (samples || []).find((one) => keyOf(one) === key);
  $("losses-trouble").textContent = "";
  if (what === "base64" && sample) copy(sample.otlp, event.target);
  if (what !== "copy" || !sample) return;
  try {
    const { sample: made } = await ask("api/sample", {
      method: "POST",
      body: { signal: sample.signal, otlp: sample.otlp },
    });
    copy(JSON.stringify(made, null, 2), event.target);
  } catch (error) {
    $("losses-trouble").textContent = error.message;
  }
}

// `only`: the way that such items have gone.
async function showRecent(pipeline, list, from, only) {
  const shown = $("losses-recent");
  try {
    const kept = await ask(`api/recent?pipeline=${pipeline}`);
    // What was on the disk when the process started has a list of its own, whatever has become of it.
    const items = list === "lost" ? [...kept.lost, ...kept.recovered] : kept[list];
    recent = items.filter((item) => !only || item.way === only);
    const what =
      list === "removed"
        ? "the last that each condition removed"
        : only === "rejected"
          ? "those that the backend refused"
          : "those that were dropped here";
    const lines = recent.map((item, index) => entry({ ...item, seq: index }, false));
    shown.replaceChildren(
      element("h2", { tabindex: "-1" }, `Recent items of ${pipeline}: ${what}`),
      lines.length
        ? element("ol", { class: "items" }, ...lines)
        : element("p", {}, "There are none. Only a few items a second are kept, and none of before the rules changed."),
    );
    shown.querySelector("h2").focus();
  } catch (error) {
    const isElsewhere = error.status === 404;
    shown.replaceChildren(
      element(
        "p",
        { class: "bad words" },
        isElsewhere ? "Items are telemetry: they are on the admin port only." : error.message,
      ),
    );
    from.focus();
  }
}

function copyRecent(target) {
  const at = target.closest("li")?.dataset.seq;
  if (recent[at]) copy(JSON.stringify(recent[at].item, null, 2), target);
}

const WHERE = { dropped: "dropped here", rejected: "refused by the backend" };

const ofLoss = (row) => `of ${row.pipeline}, ${WHERE[row.way]}: ${row.reason}`;
const ofSample = (sample) => `of ${sample.pipeline}, ${WHERE[sample.way]} at ${moment(sample.at)}`;
const ofPipeline = (line) => `of ${line.pipeline}`;

const LOSSES = [
  {
    head: "Pipeline",
    of: (row) => row.pipeline,
    cell: (row) => [
      row.pipeline,
      row.orphan ? element("div", { class: "faint" }, "not configured any more") : null,
    ],
  },
  { head: "Where", of: (row) => WHERE[row.way] },
  {
    head: "Reason",
    words: true,
    of: (row) => `${row.reason} ${row.why || ""}`,
    cell: (row) => [row.reason, element("div", { class: "faint" }, row.why || "")],
  },
  {
    head: "Items",
    number: true,
    of: (row) => row.items,
    cell: (row) => amount(row.items),
    kind: (row) => lossKind(row.pipeline, (loss) => loss.way === row.way && loss.reason === row.reason),
  },
  {
    head: "Now, a second",
    number: true,
    of: (row) => row.items_per_second ?? -1,
    cell: (row) => (row.items_per_second == null ? "" : rate(row.items_per_second)),
  },
  {
    head: "Since",
    number: true,
    of: (row) => row.first_at || "",
    cell: (row) =>
      row.first_at
        ? [day(row.first_at), element("div", { class: "faint" }, `last ${duration(secondsSince(row.last_at))} ago`)]
        : "",
  },
  {
    head: "Look",
    of: () => "",
    cell: (row) =>
      row.isKnown
        ? [
            button("Recent items", "recent", { "data-only": row.way }, ofLoss(row)),
            " ",
            button(TAPS[row.way], "tap", { "data-only": row.way }, ofLoss(row)),
          ]
        : faint("there are none"),
  },
];

// How fast it grows; `undefined` or `null` as long as nothing is known.
function nowOf({ what, job, reason }) {
  const isIt = (of) => of.what === what && of.job === job && of.reason === reason;
  return state.lossesBefore.find(isIt)?.amount_per_second;
}

const BEFORE = [
  {
    head: "Of",
    of: (row) => [row.what.replaceAll("_", " "), row.job].filter(Boolean).join(" "),
    cell: (row) => [row.what.replaceAll("_", " "), row.job ? element("div", { class: "faint" }, row.job) : null],
  },
  {
    head: "Reason",
    words: true,
    of: (row) => `${row.reason} ${WHY_BEFORE[row.reason] || ""}`,
    cell: (row) => [row.reason, element("div", { class: "faint" }, WHY_BEFORE[row.reason] || "")],
  },
  { head: "Amount", number: true, of: (row) => row.amount, cell: quantity },
  {
    head: "Now, a second",
    number: true,
    of: (row) => nowOf(row) ?? -1,
    cell: (row) => {
      const now = nowOf(row);
      if (now == null) return "";
      return row.unit === "bytes" ? bytes(now) : rate(now);
    },
  },
];

const SAMPLES = [
  { head: "Pipeline", of: (sample) => sample.pipeline },
  { head: "Time", of: (sample) => sample.at, cell: (sample) => moment(sample.at) },
  { head: "Where", of: (sample) => WHERE[sample.way] },
  {
    head: "Why",
    words: true,
    of: (sample) => `${sample.code} ${sample.message}`,
    cell: (sample) => [element("b", {}, sample.code), ` ${sample.message}`],
  },
  { head: "Items", number: true, of: (sample) => sample.items, cell: (sample) => amount(sample.items) },
  {
    head: "Size",
    number: true,
    of: sizeOf,
    cell: (sample) => `${sample.truncated ? "more than " : ""}${bytes(sizeOf(sample))}`,
  },
  {
    head: "The request",
    of: () => "",
    cell: (sample) =>
      sample.truncated
        ? button("Copy its beginning as base64", "base64", {}, ofSample(sample))
        : button("Copy as a sample for weir try", "copy", {}, ofSample(sample)),
  },
];

const REMOVED = [
  { head: "Pipeline", of: (line) => line.pipeline },
  {
    head: "Items",
    number: true,
    of: (line) => sum(line.books.filtered),
    cell: (line) => amount(sum(line.books.filtered)),
  },
  { head: "By", of: (line) => reasons(line.books.filtered) },
  {
    head: "Look",
    of: () => "",
    cell: (line) => [
      button("Recent items", "recent", {}, ofPipeline(line)),
      " ",
      button("Tap what rules remove", "tap", {}, ofPipeline(line)),
    ],
  },
];
