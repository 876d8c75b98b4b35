// Where data goes: how each backend answers, how soon, and what waits for it.

import { $, amount, bytes, drawn, duration, element, faint, short } from "./dom.js";
import { within } from "./pipelines.js";
import { lastWords, quantile, reasons, sickFirst, state, sum } from "./state.js";
import { Table } from "./table.js";

// As early as a status of a pipeline warns of a client's certificate.
const SOON_S = 14 * 86400;

let table;

export const destinations = {
  name: "destinations",
  title: "Destinations",
  begin() {
    table = new Table({ caption: "Backends of the pipelines", columns: COLUMNS, key: (line) => line.pipeline, below: said, none: "There are no pipelines." });
    $("destinations").append(table.root);
  },
  show() {
    table.set(sickFirst(state.now.pipelines));
  },
};

// The backend's words have a line of their own: they may be long.
function said(line) {
  const words = lastWords(line);
  return words ? element("div", {}, element("span", { class: "hidden" }, `${line.pipeline}: `), faint("The backend: "), short(words, 600)) : null;
}

const under = (words, more = "") => element("div", { class: `faint ${more}` }, words);
const refused = (line) => sum(line.books.rejected);

// When what a connection relies on ends: the backend's certificate, and the token for it.
function ends({ certificate_ends_unix_seconds: end, token_lasts_seconds: token }) {
  const left = end == null ? null : end - state.now.unix_seconds;
  const certificate = left == null ? [] : left > 0 ? [under(`certificate ends in ${duration(left)}`, left < SOON_S ? "warn" : "")] : [under("certificate has ended", "warn")];
  return [...certificate, ...(token == null ? [] : [under(token > 0 ? `token for ${duration(token)}` : "token has ended")])];
}

const COLUMNS = [
  { head: "Pipeline", of: (line) => line.pipeline, cell: (line) => [line.pipeline, under(line.exporter)] },
  {
    head: "Backend", of: (line) => `${line.backend.state} ${lastWords(line)}`,
    cell: ({ backend }) => [
      element("span", { class: `dot ${backend.state === "ok" ? "well" : "bad"}` }, backend.state.replaceAll("_", " ")),
      under(`for ${duration(backend.lasts_seconds)}`),
      ...ends(backend),
    ],
  },
  {
    head: "Waiting", number: true, of: (line) => line.books.pending,
    cell: (line) => [amount(line.books.pending), under(`${bytes(line.pending_bytes)}${line.books.pending ? `, ${duration(line.oldest_seconds)}` : ""}`)],
  },
  {
    head: "On disk", number: true, of: ({ backlog }) => backlog?.bytes,
    cell: ({ backlog }) => (backlog ? [bytes(backlog.bytes), under(`of ${bytes(backlog.limit_bytes)}`)] : "memory only"),
  },
  {
    head: "Delivered", number: true, of: (line) => line.books.delivered,
    cell: (line) => [amount(line.books.delivered), under(line.last_taken_unix_ms ? `${duration(Math.max(0, state.now.unix_seconds - line.last_taken_unix_ms / 1000))} ago` : "")],
  },
  {
    head: "Refused", number: true, of: refused, kind: (line) => refused(line) && "bad",
    cell: (line) => [amount(refused(line)), under(reasons(line.books.rejected), "narrow")],
  },
  {
    head: "Requests", number: true, of: (line) => line.latency.requests,
    cell: (line) => [amount(line.latency.requests), under(reasons(line.answers).replaceAll("_", " "), "narrow")],
  },
  {
    head: "At once", number: true, of: (line) => line.in_flight,
    cell: (line) => [`${line.in_flight} of ${line.concurrency_limit}`, under(line.parked ? `${line.parked} parked` : "")],
  },
  {
    head: "Answers take", of: ({ latency }) => (latency.requests ? quantile(latency, 0.99) : -1),
    cell: ({ latency }) => [histogram({ latency }), ...(latency.requests ? quantiles(latency) : [])],
  },
];

const quantiles = (latency) => [0.5, 0.9, 0.99].map((part) => under(`${part * 100} % in ${within(quantile(latency, part))}`));

// A bar for each bucket of the times that answers took.
function histogram({ latency }) {
  const [width, height] = [8, 24];
  const peak = Math.max(1, ...latency.buckets.map(([, count]) => count));
  const words = latency.buckets.filter(([, count]) => count).map(([bound, count]) => `${amount(count)} within ${within(bound == null ? Infinity : bound)}`).join(", ");
  const bars = latency.buckets.map(([, count], index) => {
    const tall = count ? Math.max(1, (height - 1) * (count / peak)) : 0;
    return drawn("rect", { x: index * width, y: height - tall, width: width - 1, height: tall, class: "time" });
  });
  const name = words || "no answers yet";
  return drawn("svg", { width: width * latency.buckets.length, height, role: "img", "aria-label": name }, drawn("title", {}, name), ...bars);
}
