// Where data goes: how each backend answers, how soon, and what waits for it.

import { $, amount, bytes, day, drawn, duration, element, faint, short } from "./dom.js";
import { probing, retriesLeft, within } from "./pipelines.js";
import {
  backendKind,
  lastWords,
  lossKind,
  quantile,
  reasons,
  secondsSince,
  secondsUntil,
  sickFirst,
  state,
  sum,
} from "./state.js";
import { Table } from "./table.js";

// As early as a status of a pipeline warns of a client's certificate.
const SOON_S = 14 * 86400;

let table;

export const destinations = {
  name: "destinations",
  title: "Destinations",
  begin() {
    table = new Table({
      caption: "Backends of the pipelines",
      columns: COLUMNS,
      key: (line) => line.pipeline,
      below: said,
      none: "There are no pipelines.",
    });
    $("destinations").append(table.root);
  },
  show() {
    table.set(sickFirst(state.now.pipelines));
  },
};

// The backend's words have a line of their own: they may be long.
function said(line) {
  const words = lastWords(line);
  return words
    ? element(
        "div",
        {},
        element("span", { class: "hidden" }, `${line.pipeline}: `),
        faint("The backend: "),
        short(words, 600),
      )
    : null;
}

const under = (words, more = "") => element("div", { class: `faint ${more}` }, words);
const refused = (line) => sum(line.books.rejected);

// When what a connection relies on ends: the backend's certificate, and the token for it.
const ends = ({ certificate_ends_at: end, token_lasts_seconds: token }) => [
  ...(end == null ? [] : [endOf("certificate", end)]),
  ...(token == null ? [] : [under(token > 0 ? `token for ${duration(token)}` : "token has ended")]),
];

function endOf(what, end) {
  const left = secondsUntil(end);
  return left > 0
    ? under(`${what} ends in ${duration(left)}`, left < SOON_S ? "warn" : "")
    : under(`${what} has ended`, "warn");
}

// Since when the present credentials are used, and what tells the client's certificate from others. Which version of a
// Secret they are of is in the view Configuration, as far as it is known.
function credentials({ credentials: of }) {
  if (!of) return [];
  const own = of.client_certificate;
  const since = under(`credentials in use since ${day(of.taken_up_at)}`, "narrow");
  if (!own) return [since];
  if (own.serial == null) return [since, under("client certificate cannot be read", "narrow warn")];
  return [
    since,
    under(`client certificate, serial ${own.serial}`, "narrow"),
    endOf("client certificate", own.ends_at),
  ];
}

const COLUMNS = [
  { head: "Pipeline", of: (line) => line.pipeline, cell: (line) => [line.pipeline, under(line.exporter)] },
  {
    head: "Backend", of: (line) => `${line.backend.state} ${lastWords(line)}`,
    cell: (line) => [
      element("span", { class: `dot ${backendKind(line)}` }, line.backend.state),
      under(`for ${duration(line.backend.lasts_seconds)}`),
      under(probing(line), "narrow"),
      ...ends(line.backend),
      ...credentials(line),
    ],
  },
  {
    head: "Waiting",
    number: true,
    of: (line) => line.books.pending,
    cell: (line) => [
      amount(line.books.pending),
      under(`${bytes(line.pending_bytes)}${line.books.pending ? `, ${duration(line.oldest_seconds)}` : ""}`),
    ],
  },
  {
    head: "On disk",
    number: true,
    of: ({ backlog }) => backlog?.bytes,
    cell: ({ backlog }) =>
      backlog ? [bytes(backlog.bytes), under(`of ${bytes(backlog.limit_bytes)}`)] : "memory only",
  },
  {
    head: "Delivered",
    number: true,
    of: (line) => line.books.delivered,
    cell: (line) => [
      amount(line.books.delivered),
      under(line.last_taken_at ? `${duration(secondsSince(line.last_taken_at))} ago` : ""),
    ],
  },
  {
    head: "Refused",
    number: true,
    of: refused,
    kind: (line) => lossKind(line.pipeline, (loss) => loss.way === "rejected"),
    cell: (line) => [amount(refused(line)), under(reasons(line.books.rejected), "narrow")],
  },
  {
    head: "Requests",
    number: true,
    of: (line) => line.latency.requests,
    cell: (line) => [
      amount(line.latency.requests),
      under(reasons(line.answers).replaceAll("_", " "), "narrow"),
      codes(line),
    ],
  },
  {
    head: "At once",
    number: true,
    of: (line) => line.in_flight,
    cell: (line) => [
      `${line.in_flight} of ${line.concurrency_limit}`,
      under(line.parked ? `${line.parked} parked` : ""),
      under(`${retriesLeft(line)} retries left`, "narrow"),
    ],
  },
  {
    head: "Answers take",
    of: ({ latency_lately: lately }) => (lately.requests ? quantile(lately, 0.99) : -1),
    cell: ({ latency, latency_lately: lately }) => [
      histogram({ latency }),
      ...(latency.requests
        ? [quantiles("lately", lately, [0.5, 0.99]), quantiles("since the start", latency, [0.5, 0.9, 0.99])]
        : []),
    ],
  },
];

const quantiles = (when, latency, parts) =>
  under(
    `${when}: ` +
      (latency.requests
        ? parts.map((part) => `${part * 100} % in ${within(quantile(latency, part))}`).join(", ")
        : "none"),
    "narrow",
  );

// Requests by the code of their answer. Long names of codes may be broken where their words end.
function codes(line) {
  const name = (code) =>
    code === "none"
      ? ["no answer"]
      : code.split("_").flatMap((word, at) => (at ? ["_", element("wbr"), word] : [word]));
  const all = Object.entries(line.codes).flatMap(([code, requests], at) => [
    at ? " · " : "",
    ...name(code),
    `: ${amount(requests)}`,
  ]);
  return element("div", { class: "faint narrow" }, ...all);
}

// A bar for each bucket of the times that answers took.
function histogram({ latency }) {
  const [width, height] = [8, 24];
  const peak = Math.max(1, ...latency.buckets.map(([, count]) => count));
  const words = latency.buckets
    .filter(([, count]) => count)
    .map(([bound, count]) => `${amount(count)} within ${within(bound == null ? Infinity : bound)}`)
    .join(", ");
  const bars = latency.buckets.map(([, count], index) => {
    const tall = count ? Math.max(1, (height - 1) * (count / peak)) : 0;
    return drawn("rect", { x: index * width, y: height - tall, width: width - 1, height: tall, class: "time" });
  });
  const name = words || "no answers yet";
  return drawn(
    "svg",
    { width: width * latency.buckets.length, height, role: "img", "aria-label": name },
    drawn("title", {}, name),
    ...bars,
  );
}
