// Every pipeline as a line, from where its data comes to where it goes, and the last hour of the one that is chosen.

import { $, amount, button, bytes, duration, element, facts, faint, rate, settle, short } from "./dom.js";
import { EVENTS, events, lookForEvents, ruleText } from "./events.js";
import { follow, hour, spark } from "./hour.js";
import {
  backendKind,
  byteRates,
  from,
  lastWords,
  lossKind,
  lost,
  lostReasons,
  pastOf,
  quantile,
  rates,
  reasons,
  sickFirst,
  standing,
  state,
} from "./state.js";
import { Table } from "./table.js";

let table;
let eventsTable;
let goTo;

export const pipelines = {
  name: "pipelines",
  title: "Pipelines",
  every: 5000,
  look: lookForEvents,
  begin(go) {
    goTo = go;
    table = new Table({
      caption: "Pipelines, from where their data comes to where it goes",
      columns: COLUMNS,
      key: (line) => line.pipeline,
      act: (key) => choose(key),
      below: trouble,
      opens: true,
      none: "There are no pipelines.",
    });
    $("pipelines").querySelector(".list").replaceWith(table.root);
    table.root.querySelector(".bar").append($("troubled").closest("label"));
    $("pipelines").querySelector(":scope > .bar").remove();
    eventsTable = new Table({
      isBeside: true,
      caption: "What happened, the newest first",
      columns: EVENTS,
      key: (event) => event.key,
      none: "The self monitor has told of nothing since the start of the process.",
    });
    eventsTable.root.id = "events";
    $("pipelines").append(element("h2", {}, "What happened"), eventsTable.root);
    follow($("detail"));
    $("troubled").addEventListener("input", () => this.show());
    $("detail").addEventListener("click", (event) => {
      const { act } = event.target.dataset;
      if (act) goTo(act, table.chosen, event.target.dataset.edge);
    });
  },
  escape() {
    if (!table.chosen) return;
    const row = table.body.querySelector("[aria-selected=true]");
    choose(table.chosen);
    row?.focus();
  },
  show() {
    const only = $("troubled").checked;
    table.set(
      sickFirst(state.now.pipelines).filter((line) => !only || standing(line).kind !== "well" || lost(line.books) > 0),
    );
    eventsTable.set(events());
    showDetail();
  },
};

const gone = (line) => lost(line.books);

const COLUMNS = [
  {
    head: "Pipeline",
    of: (line) => `${line.pipeline} ${standing(line).word}`,
    cell: (line) => [
      element("span", { class: `dot ${standing(line).kind}` }, line.pipeline),
      element("div", { class: "faint" }, standing(line).word),
    ],
  },
  { head: "From", of: from, cell: (line) => from(line).split(", ").map((source) => element("div", {}, source)) },
  { head: "Rules", of: (line) => line.rules.length, cell: ruled },
  {
    head: "Backend",
    of: (line) => `${line.exporter} ${line.backend.state} ${lastWords(line)}`,
    cell: (line) => [
      element("div", { class: "narrow" }, line.exporter),
      element("span", { class: line.backend.state === "ok" ? null : backendKind(line) }, line.backend.state),
    ],
  },
  {
    head: "In /s",
    number: true,
    of: (line) => rates(line).in,
    cell: (line) => withBytes(rates(line).in, byteRates(line).in),
  },
  {
    head: "Out /s",
    number: true,
    of: (line) => rates(line).out,
    cell: (line) => withBytes(rates(line).out, byteRates(line).out),
  },
  {
    head: "Pending", number: true, of: (line) => line.books.pending,
    cell: (line) => [amount(line.books.pending), element("div", { class: "faint" }, bytes(line.pending_bytes))],
  },
  {
    head: "Oldest",
    number: true,
    of: (line) => line.oldest_seconds,
    cell: (line) => (line.books.pending ? duration(line.oldest_seconds) : ""),
  },
  {
    head: "Lost",
    number: true,
    of: gone,
    kind: (line) => lossKind(line.pipeline),
    cell: (line) => [
      amount(gone(line)),
      element("div", { class: "faint" }, gone(line) ? `${perSecond(rates(line).lost)} /s now` : ""),
    ],
  },
  { head: "Last 5 minutes", of: () => "", cell: (line) => spark(pastOf(line.pipeline)) },
];

const perSecond = (n) => (n == null ? "…" : rate(n));
const withBytes = (items, size) => [
  perSecond(items),
  element("div", { class: "faint" }, size == null ? "" : bytes(size)),
];

// Why a line is not well: the backend's words, and what was lost for which reason, in all and now. All of it is in the
// detail.
function trouble(line) {
  const told = [
    ["The backend", lastWords(line)],
    ["Dropped", lostReasons(line, "dropped")],
    ["Rejected", lostReasons(line, "rejected")],
  ]
    .filter(([, words]) => words)
    .map(([who, words]) => element("span", {}, faint(`${who}: `), short(words)));
  return told.length
    ? element("div", { class: "line" }, element("span", { class: "hidden" }, `${line.pipeline}: `), ...told)
    : null;
}

function ruled(line) {
  if (!line.rules.length) return faint("none");
  const [errors, filtered] = ["errors", "filtered"].map((key) => line.rules.reduce((all, rule) => all + rule[key], 0));
  const text = element("span", {}, `${line.rules.length}${filtered ? `, ${amount(filtered)} removed` : ""}`);
  if (errors) text.append(element("span", { class: "warn" }, `, ${amount(errors)} failed`));
  return text;
}

function choose(pipeline) {
  table.chosen = table.chosen === pipeline ? null : pipeline;
  pipelines.show();
}

function showDetail() {
  const line = state.now.pipelines.find((of) => of.pipeline === table.chosen);
  $("detail").hidden = !line;
  if (!line) return;
  const { word, kind, message } = standing(line);
  settle($("detail"),
    element("h2", {}, element("span", { class: `dot ${kind}` }, `${line.pipeline}: ${word}`)),
    element(
      "div",
      { class: "bar" },
      button("Tap it", "tap"),
      button("Tap what rules remove", "tap", { "data-edge": "removed" }),
      button("Try other rules", "rules"),
    ),
    message ? element("p", { class: "words" }, message) : element("p", { hidden: true }),
    ...hour(line.pipeline),
    detailFacts(line),
    ...(line.rules.length ? [element("h2", {}, "Rules"), element("ul", {}, ...line.rules.map((rule) => ruleLine(line, rule)))] : []));
}

function detailFacts(line) {
  const { books, backend, latency, backlog } = line;
  const words = lastWords(line);
  return facts(
    ["from", from(line)],
    [
      "backend",
      `${line.exporter}: ${backend.state} for ${duration(backend.lasts_seconds)}${words ? `; ${words}` : ""}`,
    ],
    ["requests", requests(line)],
    [
      "retries",
      [`${retriesLeft(line)} of ${line.retry_budget.most} may be made at once`, probing(line)]
        .filter(Boolean)
        .join("; "),
    ],
    [
      "answers",
      latency.requests
        ? `after ${duration(latency.sum_seconds / latency.requests)} on average, 99 of 100 within ` +
            `${within(quantile(latency, 0.99))}`
        : "",
    ],
    [
      "waiting",
      `${amount(books.pending)} items, ${bytes(line.pending_bytes)}` +
        `${books.pending ? `, the oldest for ${duration(line.oldest_seconds)}` : ""}`,
    ],
    [
      "backlog",
      backlog
        ? `${bytes(backlog.bytes)} of ${bytes(backlog.limit_bytes)} on the disk; items are kept for ` +
            `${duration(backlog.limit_seconds)}`
        : "in memory only",
    ],
    ["dropped", lostReasons(line, "dropped")],
    ["rejected by the backend", lostReasons(line, "rejected")],
    ["removed by rules", reasons(books.filtered)],
  );
}

function requests(line) {
  const again = line.retries ? `, ${amount(line.retries)} tried again` : "";
  const parked = line.parked ? `, ${line.parked} wait for their next attempt` : "";
  return `${amount(line.latency.requests)}${again}, ${line.in_flight} of ${line.concurrency_limit} at once are ` +
    `unanswered${parked}`;
}

export const retriesLeft = (line) => amount(Math.floor(line.retry_budget.left));

// What is sent to a backend that takes nothing.
export function probing({ is_probing: is, next_probe_seconds: next }) {
  return is
    ? `probed with one small request at a time, ${next > 0 ? `the next in ${duration(Math.ceil(next))}` : "now"}`
    : "";
}

export const within = (bound) => (bound === Infinity ? "more than 30 s" : duration(bound));

function ruleLine({ pipeline }, of) {
  const text = ruleText(pipeline, of.field);
  const cause = of.cause ? ` (first: ${of.cause})` : "";
  const errors = of.errors ? `, ${amount(of.errors)} failed${cause}` : "";
  return element(
    "li",
    {},
    `${of.field}: ${amount(of.matches)} matched, ${amount(of.filtered)} removed${errors}${text ? ": " : ""}`,
    text ? element("code", {}, text) : null,
  );
}
