// Where data goes: how each backend answers, how soon, and what waits for it.

import { $, amount, bytes, duration, element } from "./dom.js";
import { within } from "./pipelines.js";
import { quantile, reasons, state, sum } from "./state.js";
import { Table } from "./table.js";

let table;

export const destinations = {
  name: "destinations",
  title: "Destinations",
  begin() {
    table = new Table({ caption: "Backends of the pipelines", columns: COLUMNS, key: (line) => line.pipeline, none: "There are no pipelines." });
    $("destinations").append(table.root);
  },
  show() {
    table.set(state.now.pipelines);
  },
};

const answered = (part) => ({
  number: true,
  of: ({ latency }) => (latency.requests ? quantile(latency, part) : -1),
  cell: ({ latency }) => (latency.requests ? within(quantile(latency, part)) : ""),
});

const COLUMNS = [
  { head: "Pipeline", of: (line) => line.pipeline, cell: (line) => [line.pipeline, element("div", { class: "faint" }, line.exporter)] },
  {
    head: "Backend", words: true, of: ({ backend }) => `${backend.state} ${backend.code} ${backend.message}`,
    cell: ({ backend }) => [
      element("span", { class: `dot ${backend.state === "ok" ? "well" : "bad"}` }, `${backend.state.replaceAll("_", " ")} for ${duration(backend.lasts_seconds)}`),
      element("div", { class: "faint" }, [backend.code, backend.message].filter(Boolean).join(": ")),
    ],
  },
  { head: "Requests", number: true, of: (line) => line.latency.requests, cell: (line) => [amount(line.latency.requests), element("div", { class: "faint" }, reasons(line.answers).replaceAll("_", " "))] },
  { head: "Half within", ...answered(0.5) },
  { head: "90 % within", ...answered(0.9) },
  { head: "99 % within", ...answered(0.99) },
  { head: "Answers by time", of: () => "", cell: histogram },
  {
    head: "At once", number: true, of: (line) => line.in_flight,
    cell: (line) => [`${line.in_flight} of ${line.concurrency_limit}`, element("div", { class: "faint" }, line.parked ? `${line.parked} parked` : "")],
  },
  {
    head: "Waiting", number: true, of: (line) => line.books.pending,
    cell: (line) => [amount(line.books.pending), element("div", { class: "faint" }, `${bytes(line.pending_bytes)}${line.books.pending ? `, ${duration(line.oldest_seconds)}` : ""}`)],
  },
  {
    head: "On disk", number: true, of: ({ backlog }) => backlog?.bytes,
    cell: ({ backlog }) => (backlog ? [bytes(backlog.bytes), element("div", { class: "faint" }, `of ${bytes(backlog.limit_bytes)}`)] : "memory only"),
  },
  { head: "Delivered", number: true, of: (line) => line.books.delivered, cell: (line) => [amount(line.books.delivered), element("div", { class: "faint" }, line.last_taken_unix_ms ? `${duration(Math.max(0, state.now.unix_seconds - line.last_taken_unix_ms / 1000))} ago` : "")] },
  {
    head: "Refused", number: true, of: (line) => sum(line.books.rejected), kind: (line) => sum(line.books.rejected) && "bad",
    cell: (line) => [amount(sum(line.books.rejected)), element("div", { class: "words" }, reasons(line.books.rejected))],
  },
];

// A bar for each bucket of the times that answers took.
function histogram({ latency }) {
  const [width, height] = [8, 24];
  const peak = Math.max(1, ...latency.buckets.map(([, count]) => count));
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const words = latency.buckets.filter(([, count]) => count).map(([bound, count]) => `${amount(count)} within ${within(bound == null ? Infinity : bound)}`).join(", ");
  for (const [key, value] of Object.entries({ width: width * latency.buckets.length, height, role: "img", "aria-label": words || "no answers yet" })) svg.setAttribute(key, value);
  const title = document.createElementNS(svg.namespaceURI, "title");
  title.append(words || "no answers yet");
  svg.append(title);
  latency.buckets.forEach(([, count], index) => {
    const bar = document.createElementNS(svg.namespaceURI, "rect");
    const tall = count ? Math.max(1, (height - 1) * (count / peak)) : 0;
    for (const [key, value] of Object.entries({ x: index * width, y: height - tall, width: width - 1, height: tall, class: "time" })) bar.setAttribute(key, value);
    svg.append(bar);
  });
  return svg;
}
