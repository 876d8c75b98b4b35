// The page of a process: its views, and one question a second while somebody looks.

import { ask, askIfThere } from "./ask.js";
import { $, amount, counted, duration, element, painted } from "./dom.js";
import { attributes } from "./attributes.js";
import { configuration } from "./configuration.js";
import { destinations } from "./destinations.js";
import { books, memory } from "./figures.js";
import { find } from "./find.js";
import { logs, talkers, targets } from "./lists.js";
import { losses } from "./losses.js";
import { pipelines } from "./pipelines.js";
import { rules } from "./rules.js";
import { lostBefore, remember, see, standing, state } from "./state.js";
import { tap } from "./tap.js";

const EVERY_MS = 1000;
const VIEWS = [
  pipelines,
  destinations,
  books,
  losses,
  tap,
  find,
  rules,
  talkers,
  attributes,
  targets,
  logs,
  memory,
  configuration,
];

// Whether this port has samples; unknown until it was asked.
let isAdmin = null;

function view() {
  const name = location.hash.slice(1);
  return VIEWS.find((one) => one.name === name) || pipelines;
}

function show() {
  const chosen = view();
  const isElsewhere = !!chosen.isAdmin && isAdmin === false;
  for (const { name } of VIEWS) {
    $(name).hidden = name !== chosen.name || isElsewhere;
    const tab = $(`tab-${name}`);
    tab.setAttribute("aria-selected", String(name === chosen.name));
    tab.tabIndex = name === chosen.name ? 0 : -1;
  }
  $("elsewhere").hidden = !isElsewhere;
  if (!state.now) return;
  showSummary();
  if (isElsewhere) return;
  chosen.show();
  if (chosen.isPart) askForAll(chosen);
}

// The first rows of a long list are on the screen before the others are asked for.
async function askForAll(chosen) {
  chosen.isPart = false;
  await painted();
  await lookOf(chosen);
  show();
}

function showSummary() {
  const kinds = state.now.pipelines.map((line) => standing(line).kind);
  const troubled = kinds.filter((kind) => kind !== "well").length;
  const all = state.now.pipelines.length;
  // When that was is not known: it is no alarm, but not all is well.
  const before = lostBefore();
  $("summary").className = ["bad", "warn"].find((kind) => kinds.includes(kind)) || (before ? "" : "well");
  const healthy = before ? "all healthy by their books" : "all healthy";
  const words = `${counted(all, "pipeline")}, ${troubled ? `${amount(troubled)} with a trouble` : healthy}; ` +
    `${before ? `lost before it came into any books: ${before}; ` : ""}` +
    `version ${state.now.version}, up for ${duration(Math.floor(state.now.uptime_seconds))}`;
  if ($("summary").textContent !== words) $("summary").textContent = words;
}

async function look() {
  const chosen = view();
  const own = Promise.all([wants(chosen) ? lookOf(chosen) : null, isAdmin === null ? findOut() : null]);
  const [now, health, past] = await Promise.all([
    ask("api/now"),
    ask("health/pipelines"),
    ask(`api/history${state.since ? `?since=${state.since}` : ""}`),
  ]);
  see(now);
  state.health = new Map(health.map((of) => [of.pipeline, of]));
  remember(past);
  await own;
}

function wants(chosen) {
  const is =
    chosen.look &&
    !(chosen.isAdmin && isAdmin === false) &&
    Date.now() - (chosen.looked || 0) >= (chosen.every || EVERY_MS);
  if (is) chosen.looked = Date.now();
  return is;
}

// A question of one view keeps no other from being shown: its trouble is told at the foot.
async function lookOf(chosen) {
  chosen.trouble = "";
  await chosen.look().catch((error) => { chosen.trouble = `${chosen.title}: ${error.message}`; });
}

// The metrics' port answers that there is nothing.
async function findOut() {
  isAdmin = (await askIfThere("api/taps")) !== null;
}

let failures = 0;

async function again() {
  if (!document.hidden) {
    try {
      await look();
      failures = 0;
      age(view().trouble || "");
      show();
    } catch (error) {
      failures += 1;
      age(`The process does not answer (${error.message}); what is shown is old.`);
    }
  }
  setTimeout(again, EVERY_MS * Math.min(10, 1 + failures));
}

function age(words) {
  $("age").className = words ? "bad" : "";
  if ($("age").textContent !== words) $("age").textContent = words;
}

// One view leads to another, with what it was about.
function go(name, ...what) {
  location.hash = name;
  show();
  if (isAdmin !== false) VIEWS.find((one) => one.name === name).openFor(...what);
}

function beginTabs() {
  for (const { name, title } of VIEWS) {
    $("tabs").append(
      element("button", { role: "tab", id: `tab-${name}`, "aria-controls": name, type: "button" }, title),
    );
    $(name).setAttribute("role", "tabpanel");
    $(name).setAttribute("aria-labelledby", `tab-${name}`);
  }
  $("tabs").addEventListener("click", (event) => {
    const at = event.target.closest("[role=tab]");
    if (at) location.hash = at.id.slice("tab-".length);
  });
  $("tabs").addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = VIEWS[(VIEWS.indexOf(view()) + step + VIEWS.length) % VIEWS.length];
    location.hash = next.name;
    $(`tab-${next.name}`).focus();
  });
}

function pressed(event) {
  const isWriting = event.target.matches("input, textarea, select");
  if (event.key === "Escape") {
    if (isWriting) event.target.blur();
    else view().escape?.();
  }
  if (isWriting || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") {
    const filter = $(view().name).querySelector("input[type=search]");
    if (!filter) return;
    event.preventDefault();
    filter.focus();
    filter.select();
  }
  view().key?.(event.key);
}

function begin() {
  beginTabs();
  for (const one of VIEWS) one.begin(go);
  document.addEventListener("keydown", pressed);
  addEventListener("hashchange", () => {
    show();
    const chosen = view();
    if (wants(chosen)) lookOf(chosen).then(show);
  });
  show();
  again();
}

begin();
