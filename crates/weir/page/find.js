// The way of one item through all pipelines, from now on; what is kept of it from before; and where it waits on the
// disk.

import { ask, lostSamples } from "./ask.js";
import { $, amount, button, bytes, counted, duration, element, moment, settle } from "./dom.js";
import { identity, removedBy, summary, way } from "./items.js";
import { state } from "./state.js";
import { Tap } from "./taps.js";

const EDGES = ["in", "out", "unclaimed"];
const NOBODY = "no pipeline";
const SECONDS = 900;
const PER_SECOND = 100;
const MOST_SHOWN = 200;
const MOST_FOUND = 5000;
// How often it is asked whether the disk is searched.
const EVERY_MS = 200;
// Why a search of the disk ended before everything was looked at.
const STOPPED = {
  bytes: "it has read as much as one search may",
  time: "its time was over",
  found: "no more items are shown",
  memory: "there is no memory for more now",
  disk: "the disk does not answer",
  closed: "the process ends",
};

let taps = [];
// By pipeline and identity: what was seen of an item, and when.
let found = new Map();
let lostBefore = [];
let words = "";

export const find = {
  name: "find",
  title: "Find",
  isAdmin: true,
  begin() {
    $("find-form").addEventListener("submit", (event) => { event.preventDefault(); follow(); });
    $("find-stop").addEventListener("click", stop);
    $("find-disk").addEventListener("click", ({ target }) => {
      if (target.dataset.act === "further") searchDisk(words, target.dataset.from);
    });
  },
  // Another view leads here.
  openFor(text) {
    $("find-text").value = text;
    follow();
  },
  show() {},
};

async function openAt(edge, wish) {
  const of = Object.assign(new Tap(heard), { edge });
  try {
    await of.open({ ...wish, edge });
    taps.push(of);
  } catch (error) {
    // Where others look, too, there may be no place for all three.
    if (edge !== "unclaimed") throw error;
  }
}

async function stop() {
  await Promise.all(taps.map((of) => of.stop()));
  showState();
}

async function follow() {
  await stop();
  [found, lostBefore, words] = [new Map(), [], $("find-text").value.trim()];
  $("find-trouble").textContent = "";
  $("find-ways").replaceChildren();
  $("find-disk").replaceChildren();
  taps = [];
  try {
    const wish = { pipeline: "*", text: words, items_per_second: PER_SECOND, seconds: SECONDS, redact: true };
    for (const edge of EDGES) await openAt(edge, wish);
    await findKept(words);
    lostBefore = ((await lostSamples()) || []).filter((sample) => hasText(sample, words));
    // That may take some seconds.
    searchDisk(wish.text, null);
  } catch (error) {
    $("find-trouble").textContent = error.message;
    await stop();
  }
  showState();
  showWays();
}

const isId = (text) => /^([0-9a-f]{16}|[0-9a-f]{32})$/i.test(text);

// The request is OTLP in protobuf: an id is in it as bytes, a text as UTF-8.
function hasText({ otlp }, text) {
  const request = atob(otlp);
  const has = (bytes) => request.includes(String.fromCharCode(...bytes));
  return (
    has(new TextEncoder().encode(text)) || (isId(text) && has(text.match(/../g).map((pair) => parseInt(pair, 16))))
  );
}

// Among the few items that are kept of each pipeline. Some may have gone meanwhile, and another search may have begun.
async function findKept(text) {
  for (const { pipeline } of state.now.pipelines) {
    const kept = await ask(`api/recent?pipeline=${pipeline}&text=${encodeURIComponent(text)}`).catch(() => ({
      items: [],
      removed: [],
      recovered: [],
    }));
    if (text !== words) return;
    for (const item of kept.recovered) note("recovered", item);
    for (const item of [...kept.items, ...kept.removed]) note("in", item);
  }
}

// Among all that waits on the disk, as much of it as one search reads, from some place on.
async function searchDisk(text, from) {
  if (!state.now.journal || text !== words) return;
  const say = (...what) => { if (text === words) $("find-disk").replaceChildren(...what); };
  try {
    say("Searching the disk …");
    const { search } = await ask("api/searches", { method: "POST", body: { pipeline: "*", text, from } });
    let onDisk = await ask(`api/searches/${search}`);
    while (onDisk.state === "searching" && text === words) {
      await new Promise((done) => { setTimeout(done, EVERY_MS); });
      onDisk = await ask(`api/searches/${search}`);
    }
    if (text !== words) return;
    for (const item of onDisk.items) note("stored", item);
    say(...lookedThrough(onDisk));
    showState();
    showWays();
  } catch (error) {
    const again = button("Search it again", "further", { "data-from": from });
    say(`The disk is not searched: ${error.message} `, again);
  }
}

function lookedThrough(onDisk) {
  const {
    records,
    items,
    damaged_records: damaged,
    left_out_records: leftOut,
    left_out_items: leftOutItems,
    stopped_by: stopped,
    goes_on_at: place,
  } = onDisk;
  const looked = `${counted(records, "record")} (${bytes(onDisk.bytes)}) looked through`;
  const said = [
    `On the disk, ${looked}: ${counted(items.length, "item")} with it`,
    damaged ? `; ${counted(damaged, "record")} damaged` : "",
    leftOut ? `; ${counted(leftOut, "record")} left out, without memory or time` : "",
    leftOutItems ? `; ${counted(leftOutItems, "item")} left out, too large or too many` : "",
    stopped ? `. That is not all: ${STOPPED[stopped] || stopped}. ` : ".",
  ];
  return [said.join(""), stopped && place ? button("Search on", "further", { "data-from": place }) : ""];
}

function heard(tap) {
  for (const seen of tap.items.values()) note(tap.edge, seen);
  showState();
  showWays();
}

function note(edge, seen) {
  const pipeline = seen.pipeline || NOBODY;
  const key = `${pipeline} ${identity(seen.item)}`;
  if (!found.has(key) && found.size >= MOST_FOUND) return;
  const of = found.get(key) || { pipeline, item: seen.item, steps: new Map() };
  found.set(key, of);
  of.steps.set(edge, { at: seen.at });
  if (seen.removed_by) of.steps.set("removed", { at: seen.at, removedBy: seen.removed_by });
  // Seen at `in` and at `out`, its way is that of `out`. A search of the disk tells what was some time ago.
  const isOlder = (edge === "in" && of.steps.has("out")) || (edge === "stored" && of.way);
  if (seen.way && seen.way !== of.way && !isOlder)
    Object.assign(of, { way: seen.way, wayAt: seen.way_at });
}

function showState() {
  const isOpen = taps.some((of) => of.state === "open");
  $("find-stop").hidden = !isOpen;
  if (!taps.length) return;
  const seen = Math.max(0, ...taps.filter((of) => of.edge === "in").map((of) => of.seen));
  const ends = Math.max(...taps.map((of) => of.ends)) / 1000 - Date.now() / 1000;
  const pipelines = new Set([...found.values()].map((of) => of.pipeline));
  const unclaimed = pipelines.delete(NOBODY);
  const inSome = ` in ${counted(pipelines.size, "pipeline")}`;
  const outside = pipelines.size ? `${inSome} and outside of all` : ", and no pipeline takes it";
  const hits =
    found.size >= MOST_FOUND
      ? `${amount(MOST_FOUND)} items found, which is as many as are kept`
      : found.size
        ? `${counted(found.size, "item")} found${unclaimed ? outside : inSome}`
        : "nothing with it has passed yet";
  const leftOut = Math.max(...taps.map((of) => of.leftOut));
  const state = isOpen
    ? `Following “${words}” for ${duration(Math.max(0, Math.round(ends)))} more`
    : `Ended: “${words}”`;
  $("find-state").textContent =
    `${state}; ${amount(seen)} items have passed; ${hits}` +
      `${leftOut ? `; ${amount(leftOut)} were left out, over the limit` : ""}.`;
}

function showWays() {
  const parts = [...grouped()].map(([pipeline, items]) =>
    element(
      "div",
      { class: "card" },
      element("h2", {}, pipeline),
      ...items.slice(0, MOST_SHOWN).map(itemWay),
      items.length > MOST_SHOWN
        ? element("p", { class: "faint" }, `and ${amount(items.length - MOST_SHOWN)} more`)
        : null,
    ),
  );
  settle($("find-ways"), ...lostBefore.map(loss), ...parts);
}

function grouped() {
  const by = new Map();
  for (const of of found.values()) {
    if (!by.has(of.pipeline)) by.set(of.pipeline, []);
    by.get(of.pipeline).push(of);
  }
  return by;
}

const loss = (sample) =>
  element(
    "div",
    { class: "card" },
    element(
      "h2",
      { class: "bad" },
      `${sample.pipeline}: ${sample.way === "rejected" ? "refused by the backend" : "given up"} before`,
    ),
    element(
      "p",
      { class: "words" },
      `At ${moment(sample.at)}, in a request with ${counted(sample.items, "item")}, with ${sample.code}: ` +
        `${sample.message}`,
    ),
  );

// How the backend of a pipeline stands, unless all is well.
function standing(pipeline) {
  const of = state.now.pipelines.find((one) => one.pipeline === pipeline)?.backend?.state;
  if (of === "unsent") return ", to which requests fail here";
  return of && of !== "ok" ? `, which is ${of}` : "";
}

function itemWay({ pipeline, item, steps, way: last, wayAt }) {
  const step = (name, words) =>
    steps.has(name) ? element("li", {}, element("time", {}, moment(steps.get(name).at)), " ", words) : null;
  const rule = steps.get("removed")?.removedBy;
  return element("div", { class: "way" },
    element("p", { class: "line" }, ...summary(item)),
    element("ol", {},
      step("recovered", "was written to the disk, before this process started"),
      step("in", "arrived"),
      step("removed", rule ? removedBy(rule) : "removed by a rule"),
      step("out", "passed the rules"),
      step("stored", `was written to the disk, and waits there for its backend${standing(pipeline)}`),
      step("unclaimed", "arrived, and no pipeline takes it"),
      last && last !== "removed" && last !== "unclaimed"
        ? element("li", {}, wayAt ? element("time", {}, moment(wayAt)) : null, " ", way(last))
        : null,
    ),
  );
}
