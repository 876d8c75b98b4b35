// One item of telemetry as OTLP/JSON: its line, its tree, and what tells it apart.

import { button, duration, element, moment } from "./dom.js";

const SIGNALS = [
  ["traces", "resourceSpans", "scopeSpans", "spans"],
  ["metrics", "resourceMetrics", "scopeMetrics", "metrics"],
  ["logs", "resourceLogs", "scopeLogs", "logRecords"],
];
const POINTS = ["gauge", "sum", "histogram", "exponentialHistogram", "summary"];

// The parts of a request with a single item.
export function parts(item) {
  for (const [signal, resources, scopes, things] of SIGNALS) {
    const of = item?.[resources]?.[0];
    if (!of) continue;
    const scope = of[scopes]?.[0] || {};
    return { signal, resource: of.resource || {}, scope: scope.scope || {}, thing: scope[things]?.[0] || {} };
  }
  return { signal: "unknown", resource: {}, scope: {}, thing: {} };
}

// A value of OTLP as one of JavaScript.
export function plain(value) {
  if (value == null || typeof value !== "object") return value;
  if (value.arrayValue) return (value.arrayValue.values || []).map(plain);
  if (value.kvlistValue)
    return Object.fromEntries((value.kvlistValue.values || []).map(({ key, value: of }) => [key, plain(of)]));
  const [first] = Object.values(value);
  return first === undefined ? null : first;
}

const attribute = (of, key) => plain((of.attributes || []).find((one) => one.key === key)?.value);
const told = (value) => (typeof value === "string" ? value : JSON.stringify(value));
const nanos = (text) => BigInt(text || 0);

// The line of an item, as elements.
export function summary(item) {
  const { signal, resource, thing } = parts(item);
  const line = { traces: spanLine, metrics: metricLine, logs: logLine }[signal];
  const where = [
    attribute(resource, "k8s.namespace.name"),
    attribute(resource, "k8s.pod.name") || attribute(resource, "service.name"),
  ]
    .filter(Boolean)
    .map(told)
    .join("/");
  const words = line ? line(thing) : [JSON.stringify(item)];
  return [...words, where ? element("span", { class: "faint" }, where) : null].filter(Boolean);
}

const CODES = { 1: "ok", 2: "error", STATUS_CODE_OK: "ok", STATUS_CODE_ERROR: "error" };

function spanLine(span) {
  const status = CODES[span.status?.code];
  const took = Number(nanos(span.endTimeUnixNano) - nanos(span.startTimeUnixNano)) / 1e9;
  return [
    element("b", {}, span.name || "a span without a name"),
    element("span", {}, duration(Math.max(0, took))),
    status
      ? element(
          "span",
          { class: status === "error" ? "bad" : "well" },
          [status, span.status.message].filter(Boolean).join(": "),
        )
      : null,
    span.traceId ? element("code", { class: "faint" }, span.traceId) : null,
  ];
}

const severe = (n) => (n >= 17 ? "bad" : n >= 13 ? "warn" : null);

function logLine(record) {
  const severity = record.severityText || (record.severityNumber ? `severity ${record.severityNumber}` : "");
  return [
    severity ? element("span", { class: severe(record.severityNumber) }, severity) : null,
    element("b", {}, told(plain(record.body)) ?? "a record without a body"),
    record.traceId ? element("code", { class: "faint" }, record.traceId) : null,
  ];
}

function metricLine(metric) {
  const kind = POINTS.find((one) => metric[one]);
  const values = (metric[kind]?.dataPoints || []).map(pointValue);
  return [
    element("b", {}, metric.name || "a metric without a name"),
    element("span", {}, [values.join(", "), metric.unit].filter(Boolean).join(" ")),
    element("span", { class: "faint" }, kind || ""),
  ];
}

function pointValue(point) {
  const single = point.asDouble ?? point.asInt;
  if (single !== undefined) return String(single);
  return `count ${point.count ?? 0}, sum ${point.sum ?? "?"}`;
}

// What tells items apart, on all edges of a pipeline, unless a rule changes just that.
export function identity(item) {
  const { signal, resource, thing } = parts(item);
  if (signal === "traces") return `${thing.traceId} ${thing.spanId}`;
  if (signal === "logs") return `${thing.timeUnixNano || thing.observedTimeUnixNano} ${told(plain(thing.body))}`;
  const point = POINTS.map((kind) => thing[kind]?.dataPoints?.[0]).find(Boolean) || {};
  return `${thing.name} ${point.timeUnixNano} ${JSON.stringify(point.attributes || [])} ` +
    `${attribute(resource, "service.name")}`;
}

const isAttributes = (value) =>
  Array.isArray(value) &&
  value.length > 0 &&
  value.every((one) => one && typeof one.key === "string" && "value" in one);

// An item as lines of `path: value`, for comparing. Lists of one are left out of paths, attributes are called by their
// keys.
export function lines(value, path = "") {
  if (value === null || typeof value !== "object") return [`${path}: ${JSON.stringify(value)}`];
  if (isAttributes(value)) return value.flatMap(({ key, value: of }) => lines(plain(of), `${path}["${key}"]`));
  if (Array.isArray(value))
    return value.flatMap((of, index) => lines(of, value.length === 1 ? path : `${path}[${index}]`));
  return Object.entries(value).flatMap(([key, of]) => lines(of, path ? `${path}.${key}` : key));
}

// JSON that folds. Attributes are lines of `key: value`.
export function tree(value, name = null) {
  const label = name == null ? null : element("span", { class: "key" }, `${name}: `);
  if (value === null || typeof value !== "object")
    return element("div", { class: "leaf" }, label, JSON.stringify(value));
  const entries = isAttributes(value) ? value.map((one) => [one.key, plain(one.value)]) : Object.entries(value);
  if (!entries.length) return element("div", { class: "leaf" }, label, Array.isArray(value) ? "[]" : "{}");
  const one = Array.isArray(value) && !isAttributes(value) && value.length === 1;
  if (one) return tree(value[0], name);
  return element(
    "details",
    { open: true, class: "tree" },
    element("summary", {}, label, element("span", { class: "faint" }, `${entries.length}`)),
    ...entries.map(([key, of]) => tree(of, key)),
  );
}

// What became of an item: a kind, and words if they are others.
const WAYS = {
  delivered: ["well"],
  stored: ["warn", "on disk"],
  pending: ["faint"],
  removed: ["faint"],
  rejected: ["bad", "refused by the backend"],
  refused: ["bad", "not taken: the client is to send it again"],
  dropped: ["bad"],
  withdrawn: ["warn", "the client is to send it again"],
  split: ["faint", "sent in several requests"],
  received: ["faint"],
  unclaimed: ["warn", "no pipeline takes it"],
};

export function way(of) {
  const [kind, words] = WAYS[of] || ["faint"];
  return of ? element("span", { class: `badge ${kind}` }, words || of) : null;
}

export function removedBy(rule) {
  return rule ? element("span", { class: "rule" }, `removed by ${rule.field}: `, element("code", {}, rule.text)) : null;
}

// A line that unfolds to the item. The tree is made when somebody looks.
export function entry(seen, withPipeline) {
  const made = element(
    "li",
    { "data-seq": seen.seq },
    element(
      "details",
      {},
      element(
        "summary",
        {},
        element("time", { class: "faint" }, moment(seen.at)),
        withPipeline ? element("span", {}, seen.pipeline) : null,
        ...summary(seen.item),
        way(seen.way) || element("span", { class: "badge", hidden: true }),
        removedBy(seen.removed_by),
      ),
    ),
  );
  made.firstChild.addEventListener("toggle", () => unfold(made.firstChild, seen), { once: true });
  return made;
}

function unfold(details, { item, at }) {
  const { traceId } = parts(item).thing;
  const follow = traceId ? button("Follow this trace", "find", { "data-trace": traceId }, traceId) : null;
  details.append(
    element("div", { class: "bar" }, button("Copy as a sample for weir try", "copy", {}, `of ${moment(at)}`), follow),
    ...Object.entries(item).map(([key, of]) => tree(of, key)),
  );
}
