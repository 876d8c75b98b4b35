// A live tap of an edge of a pipeline.

import { $, amount, copy, duration } from "./dom.js";
import { entry, removedBy, way } from "./items.js";
import { state } from "./state.js";
import { Tap } from "./taps.js";

const MOST = 1000;
// Edges of no pipeline.
const OUTSIDE = new Set(["received", "unclaimed"]);

let current = null;
let everywhere = false;
let paused = false;
// What came while it was paused.
let kept = [];
// By number; those in the list.
const shownItems = new Map();

export const tap = {
  name: "tap",
  title: "Tap",
  isAdmin: true,
  begin(go) {
    $("tap-edge").addEventListener("change", fitEdge);
    $("tap-form").addEventListener("submit", (event) => { event.preventDefault(); open(); });
    $("tap-pause").addEventListener("click", () => pause(!paused));
    $("tap-clear").addEventListener("click", () => {
      $("tap-items").replaceChildren();
      shownItems.clear();
      kept = [];
      tap.show();
    });
    $("tap-stop").addEventListener("click", () => current?.stop());
    $("tap-items").addEventListener("click", ({ target }) => {
      if (target.dataset.act === "copy")
        copy(JSON.stringify(shownItems.get(Number(target.closest("li").dataset.seq)), null, 2), target);
      if (target.dataset.act === "find") go("find", target.dataset.trace);
    });
    $("tap-items").addEventListener("keydown", walk);
    $("tap-only").addEventListener("change", () => { if (current) { showWays(); showState(); } });
  },
  // Another view leads here.
  openFor(pipeline, edge = "in", only = "") {
    fillPipelines();
    $("tap-pipeline").value = pipeline;
    $("tap-edge").value = edge;
    $("tap-only").value = only;
    $("tap-text").value = $("tap-where").value = "";
    fitEdge();
    open();
  },
  show() {
    fillPipelines();
    if (current) showState();
  },
  key(key) {
    if (key === "p" && current?.state === "open") pause(!paused);
  },
};

// Options of every list of pipelines; what is chosen stays.
export function fillPipelines() {
  if (!state.now) return;
  const names = state.now.pipelines.map((line) => line.pipeline);
  for (const select of document.querySelectorAll(".of-pipelines")) {
    const all = select.dataset.all ? [["*", select.dataset.all]] : [];
    const signals = "signals" in select.dataset ? new Set(names.map((name) => name.split("/")[0])) : [];
    const ofSignals = [...signals].map((signal) => [`${signal}/*`, `all of ${signal}`]);
    const wanted = [...all, ...ofSignals, ...names.map((name) => [name, name])];
    if ([...select.options].map((one) => one.value).join("\n") === wanted.map(([value]) => value).join("\n")) continue;
    const { value } = select;
    select.replaceChildren(...wanted.map(([of, text]) => new Option(text, of)));
    if (wanted.some(([of]) => of === value)) select.value = value;
    else if (names.length) [select.value] = names;
  }
}

// One edge has a rule; and beside all pipelines there is none to name.
function fitEdge() {
  $("tap-rule").parentNode.hidden = $("tap-edge").value !== "after";
  const named = $("tap-pipeline").value;
  if (OUTSIDE.has($("tap-edge").value) && !named.endsWith("*")) $("tap-pipeline").value = `${named.split("/")[0]}/*`;
}

async function open() {
  await current?.stop();
  $("tap-trouble").textContent = "";
  $("tap-items").replaceChildren();
  shownItems.clear();
  kept = [];
  pause(false);
  const wish = {
    pipeline: $("tap-pipeline").value,
    edge: $("tap-edge").value,
    items_per_second: Number($("tap-rate").value),
    seconds: Number($("tap-seconds").value),
    redact: $("tap-redact").checked,
  };
  if (wish.edge === "after") wish.rule = $("tap-rule").value.trim();
  if ($("tap-text").value.trim()) wish.text = $("tap-text").value.trim();
  if ($("tap-where").value.trim()) wish.where = $("tap-where").value.trim();
  everywhere = wish.pipeline.endsWith("*");
  current = new Tap(heard);
  try {
    await current.open(wish);
    showState();
  } catch (error) {
    current = null;
    $("tap-bar").hidden = true;
    $("tap-trouble").textContent = error.message;
  }
}

function heard(of, items) {
  if (of !== current) return;
  kept.push(...items);
  kept = kept.slice(-MOST);
  if (!paused) showKept();
  showWays();
  showState();
}

function showKept() {
  for (const seen of kept) {
    shownItems.set(seen.seq, seen.item);
    $("tap-items").prepend(entry(seen, everywhere));
    $("tap-items").firstChild.hidden = !isWanted(seen);
  }
  kept = [];
  while ($("tap-items").children.length > MOST) {
    shownItems.delete(Number($("tap-items").lastChild.dataset.seq));
    $("tap-items").lastChild.remove();
  }
}

// The tap has all of them: what becomes of an item is known later.
function isWanted(seen) {
  return !$("tap-only").value || seen.way === $("tap-only").value;
}

// Items that were shown as pending are delivered meanwhile.
function showWays() {
  for (const line of $("tap-items").children) {
    const seen = current.items.get(Number(line.dataset.seq));
    if (seen) line.hidden = !isWanted(seen);
    const badge = line.querySelector(".badge");
    const made = seen && way(seen.way);
    if (made && !badge.isEqualNode(made)) badge.replaceWith(made);
    if (seen?.removed_by && !line.querySelector(".rule"))
      line.querySelector("summary").append(removedBy(seen.removed_by));
  }
}

function showState() {
  const { state: of, ends, seen, matched, leftOut, error } = current;
  const left = Math.max(0, ends / 1000 - Date.now() / 1000);
  const isOpen = of === "open";
  $("tap-bar").hidden = false;
  $("tap-pause").disabled = $("tap-stop").disabled = !isOpen;
  say("tap-state", isOpen ? (paused ? "paused" : error ? `no answer: ${error}` : "open") : "ended");
  $("tap-state").className = isOpen && !error ? "well" : "warn";
  const waits = paused && kept.length ? `; ${amount(kept.length)} came since the pause` : "";
  const over = leftOut ? `, ${amount(leftOut)} left out, over the limit` : "";
  const fit = $("tap-only").value
    ? `, ${amount($("tap-items").querySelectorAll("li:not([hidden])").length)} of these are shown`
    : "";
  $("tap-counts").textContent =
    `${isOpen ? `ends in ${duration(Math.round(left))}; ` : ""}${amount(seen)} passed, ${amount(matched)} matched` +
      `${over}${fit}${waits}`;
}

function say(id, words) {
  if ($(id).textContent !== words) $(id).textContent = words;
}

function pause(is) {
  paused = is;
  $("tap-pause").setAttribute("aria-pressed", String(is));
  $("tap-pause").textContent = is ? "Go on" : "Pause";
  if (!is && current) { showKept(); showWays(); }
  if (current) showState();
}

// Arrows go from line to line.
export function walk(event) {
  const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
  let next = step && event.target.closest("summary")?.parentNode.closest("li")?.[step];
  while (next?.hidden) next = next[step];
  if (next) { event.preventDefault(); next.querySelector("summary").focus(); }
}
