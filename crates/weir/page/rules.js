// Tries rules on recent items of a pipeline, or on those that a tap collects. Nothing is deployed: the outcome is shown, and
// YAML for Git.

import { ask } from "./ask.js";
import { $, amount, button, bytes, copy, element, rate, settle } from "./dom.js";
import { fillPipelines } from "./tap.js";
import { changes, shownChanges } from "./diff.js";
import { lines, summary, tree } from "./items.js";
import { byteRates, rates, state } from "./state.js";
import { Tap } from "./taps.js";

const MOST = 1000;
const PER_SECOND = 200;
const SECONDS = 900;

const HINTS = {
  conditions: "one OTTL condition a line; a line that begins with a space goes on with the one before",
  statements: "one OTTL statement a line",
  text: "as it is configured: that is not shown here, as it may be secret. What you write is tried instead: a key " +
    "and a value in each line, such as Name grep",
};
const KINDS = ["transform", "filter", "filters"];

let collected = null;
let configured = null;
let edited = null;
let yaml = "";
// What the rules that were tried last would save, and of which pipeline.
let saved = null;

export const rules = {
  name: "rules",
  title: "Rules",
  isAdmin: true,
  begin() {
    $("rules-form").addEventListener("submit", (event) => { event.preventDefault(); collect(); });
    $("rules-pipeline").addEventListener("change", choose);
    $("rules-transform").addEventListener("click", () => add("transform"));
    $("rules-filter").addEventListener("click", () => add("filter"));
    $("rules-undo").addEventListener("click", load);
    $("rules-preview").addEventListener("click", preview);
    $("rules-editor").addEventListener("click", remove);
    $("rules").addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); preview(); }
    });
    $("rules-result").addEventListener(
      "click",
      (event) => event.target.dataset.act === "copy" && copy(yaml, event.target),
    );
  },
  openFor(pipeline) {
    fillPipelines();
    $("rules-pipeline").value = pipeline;
    choose();
  },
  show() {
    fillPipelines();
    if (edited !== $("rules-pipeline").value) load();
    showSaved();
  },
};

function choose() {
  collected?.stop();
  collected = null;
  showCollected();
  saved = null;
  $("rules-result").replaceChildren();
  load();
}

function trouble(words) {
  $("rules-trouble").textContent = words;
}

// The rules as they are configured.
async function load() {
  const pipeline = $("rules-pipeline").value;
  if (!pipeline) return;
  edited = pipeline;
  trouble("");
  showCollected();
  try {
    const { pipelines } = await ask("api/configuration");
    if (edited !== pipeline) return;
    configured = listsOf(pipelines.find((of) => of.pipeline === pipeline)?.rules || []);
    showEditor();
  } catch (error) {
    trouble(error.message);
  }
}

// `transform[0].statements[1]` and the like, as lists. A filter of Fluent Bit has no text here.
function listsOf(all) {
  const lists = { transform: [], filter: [], filters: [] };
  for (const { field, text } of all) {
    if (field.startsWith("filters[")) { lists.filters.push({ text: [], number: lists.filters.length }); continue; }
    const [, kind, index, part] = /(transform|filter)\[(\d+)\]\.(conditions|statements)\[\d+\]$/.exec(field) || [];
    if (!kind) continue;
    const rule = (lists[kind][index] ||= { conditions: [], statements: [] });
    rule[part].push(text);
  }
  for (const kind of ["transform", "filter"])
    lists[kind] = Array.from(lists[kind], (rule) => rule || { conditions: [], statements: [] });
  return lists;
}

function showEditor() {
  $("rules-editor").replaceChildren(...KINDS.flatMap((kind) => configured[kind].map((rule) => editor(kind, rule))));
  name();
}

function editor(kind, rule) {
  const fields = { transform: ["conditions", "statements"], filter: ["conditions"], filters: ["text"] }[kind];
  return element(
    "fieldset",
    { class: "card", "data-kind": kind, "data-number": rule.number ?? null },
    element("legend", {}),
    ...fields.map((field) => area(field, rule[field])),
    button("Remove", "remove"),
  );
}

function area(field, all) {
  const made = element("textarea", {
    "data-field": field,
    rows: Math.max(2, Math.min(8, all.length + 1)),
    spellcheck: "false",
    placeholder: HINTS[field],
  });
  made.value = all.map((line) => line.trim().replace(/\n\s*/g, "\n  ")).join("\n");
  return element("label", {}, field, made);
}

// Transforms come before filters, and each is called as in the object.
function name() {
  for (const kind of KINDS) {
    editors(kind).forEach((fieldset, index) => {
      fieldset.firstChild.textContent = `${kind}[${index}]`;
      fieldset.lastChild.setAttribute("aria-label", `Remove ${fieldset.firstChild.textContent}`);
    });
  }
}

const editors = (kind) => [...$("rules-editor").querySelectorAll(`[data-kind=${kind}]`)];

function add(of) {
  const kind = of === "filter" && configured?.filters.length ? "filters" : of;
  const made = editor(kind, { conditions: [], statements: [], text: [] });
  const before = kind === "transform" ? editors("filter")[0] : null;
  $("rules-editor").insertBefore(made, before || null);
  name();
  made.querySelector("textarea").focus();
}

function remove(event) {
  if (event.target.dataset.act !== "remove") return;
  event.target.closest("fieldset").remove();
  name();
}

function written(kind) {
  const rulesIn = (area) =>
    area.value
      .split(/\n(?!\s)/)
      .map((line) => line.trim())
      .filter(Boolean);
  return editors(kind).map((fieldset) =>
    Object.fromEntries([...fieldset.querySelectorAll("textarea")].map((of) => [of.dataset.field, rulesIn(of)])),
  );
}

// Those that nobody has written anew are used as they are.
function writtenFilters() {
  if (!configured?.filters.length) return undefined;
  const one = (fieldset) =>
    fieldset.querySelector("textarea").value.trim() ||
    (fieldset.dataset.number ? Number(fieldset.dataset.number) : null);
  return editors("filters")
    .map(one)
    .filter((filter) => filter !== null);
}

async function collect() {
  await collected?.stop();
  trouble("");
  collected = new Tap(showCollected);
  try {
    await collected.open({
      pipeline: $("rules-pipeline").value,
      edge: "in",
      items_per_second: PER_SECOND,
      seconds: SECONDS,
    });
  } catch (error) {
    collected = null;
    trouble(error.message);
  }
  showCollected();
}

function showCollected() {
  const has = collected ? collected.items.size : 0;
  $("rules-progress").value = has;
  const words = !collected
    ? "Rules are tried on recent items, unless you collect others. Nothing here changes the pipeline."
    : collected.state === "open"
      ? `${amount(has)} of at most ${amount(MOST)}; preview whenever you like`
      : `${amount(has)}; the tap has ended: rules are tried on recent items, or collect again`;
  if ($("rules-state").textContent !== words) $("rules-state").textContent = words;
}

async function preview() {
  trouble("");
  $("rules-preview").disabled = true;
  try {
    // Without a tap they are tried on recent items.
    const tap = collected?.state === "open" ? collected.id : undefined;
    const pipeline = $("rules-pipeline").value;
    const result = await ask("api/preview", {
      method: "POST",
      body: { pipeline, tap, transform: written("transform"), filter: written("filter"), filters: writtenFilters() },
    });
    if (pipeline === $("rules-pipeline").value) showResult(pipeline, result);
  } catch (error) {
    trouble(error.message);
  }
  $("rules-preview").disabled = false;
}

function showResult(pipeline, result) {
  ({ yaml } = result);
  saved = { pipeline, items: result.removed_ratio, bytes: result.removed_bytes_ratio };
  if (!result.samples) trouble("Nothing has passed since the rules changed: there is nothing to try these on.");
  const counts = `${amount(result.samples)} items: ${amount(result.kept)} are kept, of which ` +
    `${amount(result.kept_changed)} are changed, and ${amount(result.removed)} removed` +
    `${result.failed ? `, ${amount(result.failed)} failed` : ""}${deltaWords(result.delta)}.`;
  settle(
    $("rules-result"),
    element("h2", {}, "Outcome"),
    element("p", { role: "status" }, counts),
    element("p", { id: "rules-saved" }, savedWords()),
    ruleTable(result.rules),
    element(
      "h2",
      {},
      result.changed.length
        ? `The first ${result.changed.length} items that are not the same afterwards`
        : "No item is changed",
    ),
    element("ol", { class: "items" }, ...result.changed.map(changed)),
    element("h2", {}, "For Git"),
    element("div", { class: "bar" }, button("Copy as YAML", "copy")),
    element("pre", { tabindex: "0" }, yaml),
  );
  $("rules-result").querySelector("h2").scrollIntoView({ block: "nearest" });
}

// Of a pipeline that converts to delta.
function deltaWords(delta) {
  if (!delta) return "";
  const first = delta.first ? `; ${amount(delta.first)} left out: ${delta.explanation}` : "";
  return `; ${amount(delta.converted)} points become deltas${first}`;
}

// The rates are those of now, also while nobody asks anew.
function showSaved() {
  if (saved) settle($("rules-saved"), savedWords());
}

const percent = (ratio) => `${(100 * ratio).toFixed(ratio > 0 && ratio < 0.1 ? 1 : 0)} %`;

// Rules that set something may make items larger.
function savedWords() {
  if (saved.items == null) return "";
  const size = Math.abs(saved.bytes);
  const ofBytes = saved.bytes < 0 ? `add about ${percent(size)} to the bytes` : `${percent(size)} of the bytes`;
  const words = `Against no rules at all, these save about ${percent(saved.items)} of the items and ${ofBytes}`;
  const line = state.now.pipelines.find((of) => of.pipeline === saved.pipeline);
  const [items, all] = line ? [rates(line).in, byteRates(line).in] : [null, null];
  if (items == null || all == null) return `${words}.`;
  return `${words}, now ${rate(items * saved.items)} of ${rate(items)} items and ${bytes(all * size)} of ` +
    `${bytes(all)} a second.`;
}

function ruleTable(all) {
  const head = ["Rule", "Text", "Matched", "Removed", "Failed"].map((words, index) =>
    element("th", { scope: "col", class: index > 1 ? "n" : null }, words),
  );
  const rows = all.map((rule) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, rule.field),
      element(
        "td",
        { class: "words" },
        element("code", {}, rule.text),
        rule.cause ? element("div", { class: "bad" }, rule.cause) : null,
      ),
      ...[rule.matched, rule.removed, rule.errors].map((n, index) =>
        element("td", { class: index === 2 && n ? "n bad" : "n" }, amount(n)),
      ),
    ),
  );
  return element(
    "div",
    { class: "scroll" },
    element(
      "table",
      {},
      element("caption", { class: "hidden" }, "What each rule did"),
      element("thead", {}, element("tr", {}, ...head)),
      element("tbody", {}, ...rows),
    ),
  );
}

function changed({ before, after }) {
  const isGone = after === null;
  const badge = element("span", { class: isGone ? "badge bad" : "badge" }, isGone ? "removed" : "changed");
  return element(
    "li",
    {},
    element(
      "details",
      { open: !isGone },
      element("summary", {}, ...summary(before), badge),
      isGone ? tree(before) : shownChanges(changes(lines(before), lines(after))),
    ),
  );
}
