"use strict";
// The page of a process. It asks once a second, only while somebody looks, and builds everything from text: nothing that a
// backend or a client said becomes markup.

const VIEWS = [["pipelines", "Pipelines"], ["books", "Books"], ["losses", "Losses"], ["memory", "Memory"], ["sources", "Sources"]];
const EVERY_MS = 1000;
const SPARK_S = 300;
const RATE_S = 5;
// Rows that are made at once; the rest comes while one scrolls.
const ROWS = 100;

const state = { now: null, health: new Map(), past: new Map(), step: 1, ends: 0, chosen: null, rows: ROWS, rejected: null };
const $ = (id) => document.getElementById(id);

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(key, "");
    else if (value !== false && value != null) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

// Numbers as people read them.
const amount = (n) => Math.round(n).toLocaleString("en-US");
function rate(n) {
  if (n >= 10) return amount(n);
  return n === 0 ? "0" : n.toFixed(1);
}
function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (n >= 1024 && unit < units.length - 1) { n /= 1024; unit += 1; }
  return `${unit && n < 10 ? n.toFixed(1) : Math.round(n)} ${units[unit]}`;
}
function duration(s) {
  if (s < 1) return s < 0.0005 ? "0 s" : `${Math.round(s * 1000)} ms`;
  if (s < 120) return `${Math.round(s)} s`;
  if (s < 7200) return `${Math.round(s / 60)} min`;
  return s < 172800 ? `${Math.round(s / 3600)} h` : `${Math.round(s / 86400)} d`;
}
const sum = (by) => Object.values(by).reduce((all, n) => all + n, 0);
const lost = (books) => sum(books.dropped) + sum(books.rejected);
const reasons = (by) => Object.entries(by).filter(([, n]) => n > 0).map(([why, n]) => `${why} ${amount(n)}`).join(", ");

// Items a second in the last few seconds.
function rates(line) {
  const last = (state.past.get(line.pipeline) || []).slice(-Math.max(1, Math.floor(RATE_S / state.step)));
  if (!last.length) return { in: null, out: null };
  const per = (column) => last.reduce((all, point) => all + point[column], 0) / (last.length * state.step);
  return { in: per(0), out: per(1) };
}

function standing(line) {
  const told = state.health.get(line.pipeline);
  if (line.setup_failed) return { word: "cannot be set up", kind: "bad", message: "" };
  if (!told || told.state === "healthy") return { word: "healthy", kind: "well", message: "" };
  const kind = ["all_dropped", "nothing_delivered"].includes(told.state) ? "bad" : "warn";
  return { word: told.state.replaceAll("_", " "), kind, message: told.message || "" };
}

function spark(points, width = 160, height = 28, seconds = SPARK_S) {
  const ns = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(ns, "svg");
  const most = Math.max(1, Math.floor(seconds / state.step));
  const last = points.slice(-most);
  const peak = Math.max(1, ...last.map(([accepted, delivered, gone]) => Math.max(accepted, delivered, gone)));
  const full = Math.max(1, ...last.map((point) => point[3]));
  for (const [key, value] of Object.entries({ width, height, viewBox: `0 0 ${most} ${height}`, preserveAspectRatio: "none", role: "img" })) {
    svg.setAttribute(key, value);
  }
  const at = (index) => most - last.length + index;
  const y = (value, of) => (height - 1 - (value / of) * (height - 2)).toFixed(1);
  const shape = (name, kind, text) => {
    const made = document.createElementNS(ns, name);
    made.setAttribute("class", kind);
    made.setAttribute("points", text);
    svg.append(made);
  };
  if (last.length > 1) {
    const pending = last.map((point, index) => `${at(index)},${y(point[3], full)}`).join(" ");
    if (last.some((point) => point[3] > 0)) shape("polygon", "pending", `${at(0)},${height} ${pending} ${at(last.length - 1)},${height}`);
    [["in", 0], ["out", 1], ["lost", 2]].forEach(([kind, column]) => {
      if (column === 2 && !last.some((point) => point[2] > 0)) return;
      shape("polyline", kind, last.map((point, index) => `${at(index)},${y(point[column], peak)}`).join(" "));
    });
  }
  const of = (column) => last.reduce((all, point) => all + point[column], 0);
  svg.setAttribute("aria-label", `${duration(last.length * state.step)}: ${amount(of(0))} came, ${amount(of(1))} went, ${amount(of(2))} were lost`);
  return svg;
}

function from(line) {
  const all = [line.pushed && "clients (OTLP)", line.collected && "agents on this machine"].filter(Boolean);
  return all.join(", ") || "nothing";
}

function ruled(line) {
  if (!line.rules.length) return element("span", { class: "faint" }, "none");
  const [errors, filtered] = ["errors", "filtered"].map((key) => line.rules.reduce((all, rule) => all + rule[key], 0));
  const parts = [`${line.rules.length}`];
  if (filtered) parts.push(`${amount(filtered)} filtered`);
  const text = element("span", {}, parts.join(", "));
  if (errors) text.append(element("span", { class: "warn" }, `, ${amount(errors)} failed`));
  return text;
}

function row(line) {
  const { word, kind } = standing(line);
  const per = rates(line);
  const gone = lost(line.books);
  const chosen = state.chosen === line.pipeline;
  const backend = element("span", { class: line.backend.state === "ok" ? null : "bad" }, line.backend.state);
  const made = element("tr", { tabindex: "0", "aria-selected": String(chosen), "data-pipeline": line.pipeline },
    element("th", { scope: "row" }, element("span", { class: `dot ${kind}` }, line.pipeline), element("div", { class: "faint" }, word)),
    element("td", {}, from(line)),
    element("td", {}, ruled(line)),
    element("td", {}, element("div", {}, line.exporter), backend),
    element("td", { class: "n" }, per.in == null ? "…" : rate(per.in)),
    element("td", { class: "n" }, per.out == null ? "…" : rate(per.out)),
    element("td", { class: "n" }, amount(line.books.pending), element("div", { class: "faint" }, bytes(line.pending_bytes))),
    element("td", { class: "n" }, line.books.pending ? duration(line.oldest_seconds) : ""),
    element("td", { class: `n ${gone ? "bad" : ""}`, title: reasons({ ...line.books.dropped, ...line.books.rejected }) }, amount(gone)),
    element("td", {}, spark(state.past.get(line.pipeline) || [])));
  return made;
}

function found() {
  const words = $("find").value.toLowerCase().split(/\s+/).filter(Boolean);
  const troubled = $("troubled").checked;
  return state.now.pipelines.filter((line) => {
    const { word, kind } = standing(line);
    const text = `${line.pipeline} ${line.exporter} ${line.backend.state} ${word}`.toLowerCase();
    return words.every((part) => text.includes(part)) && (!troubled || kind !== "well" || lost(line.books) > 0);
  });
}

function showPipelines() {
  const all = found();
  const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.pipeline : null;
  $("lines").replaceChildren(...all.slice(0, state.rows).map(row));
  if (focused) $("lines").querySelector(`tr[data-pipeline="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  const more = all.length > state.rows ? `, the first ${state.rows} of them; scroll for more` : "";
  $("shown").textContent = `${all.length} of ${state.now.pipelines.length} pipelines${more}`;
  showDetail();
}

function facts(...pairs) {
  const list = element("dl");
  for (const [name, value] of pairs) if (value !== "" && value != null) list.append(element("dt", {}, name), element("dd", {}, value));
  return list;
}

function showDetail() {
  const line = state.now.pipelines.find((of) => of.pipeline === state.chosen);
  $("detail").hidden = !line;
  if (!line) return;
  const { word, kind, message } = standing(line);
  const { books, backend, latency, backlog } = line;
  const words = [backend.code, backend.message].filter(Boolean).join(": ");
  const rules = line.rules.map((of) => {
    const cause = of.cause ? ` (first: ${of.cause})` : "";
    const errors = of.errors ? `, ${amount(of.errors)} failed${cause}` : "";
    return element("li", {}, `${of.kind.replaceAll("_", " ")} ${of.rule + 1}.${of.line + 1}: ${amount(of.matches)} matched, ${amount(of.filtered)} filtered${errors}`);
  });
  $("detail").replaceChildren(
    element("h2", {}, element("span", { class: `dot ${kind}` }, `${line.pipeline}: ${word}`)),
    message ? element("p", { class: "words" }, message) : null,
    spark(state.past.get(line.pipeline) || [], 720, 90, 3600),
    element("p", { class: "faint" }, "The last hour: items that came (blue), went (green), were lost (red), and waited (area)."),
    facts(
      ["from", from(line)],
      ["backend", `${line.exporter}: ${backend.state} for ${duration(backend.lasts_seconds)}${words ? `; ${words}` : ""}`],
      ["requests", `${amount(latency.requests)}, ${line.retries ? `${amount(line.retries)} tried again, ` : ""}${line.in_flight} of ${line.concurrency_limit} at once are unanswered${line.parked ? `, ${line.parked} wait for their next attempt` : ""}`],
      ["answers", latency.requests ? `after ${duration(latency.sum_seconds / latency.requests)} on average, 99 of 100 within ${quantile(latency, 0.99)}` : ""],
      ["waiting", `${amount(books.pending)} items, ${bytes(line.pending_bytes)}${books.pending ? `, the oldest for ${duration(line.oldest_seconds)}` : ""}`],
      ["backlog", backlog ? `${bytes(backlog.bytes)} of ${bytes(backlog.limit_bytes)} on the disk; items are kept for ${duration(backlog.limit_seconds)}` : "in memory only"],
      ["dropped", reasons(books.dropped)],
      ["rejected by the backend", reasons(books.rejected)],
      ["filtered", reasons(books.filtered)],
    ),
    rules.length ? element("h2", {}, "Rules") : null,
    rules.length ? element("ul", {}, ...rules) : null,
  );
}

function quantile(latency, part) {
  let left = latency.requests * part;
  for (const [bound, count] of latency.buckets) {
    left -= count;
    if (left <= 0) return bound == null ? "more than 30 s" : duration(bound);
  }
  return "?";
}

function table(caption, heads, rows) {
  const head = element("tr", {}, ...heads.map(([text, isNumber]) => element("th", { scope: "col", class: isNumber ? "n" : null }, text)));
  return element("div", { class: "scroll" }, element("table", {}, element("caption", { class: "hidden" }, caption),
    element("thead", {}, head), element("tbody", {}, ...rows)));
}

const number = (n, kind) => element("td", { class: `n ${kind || ""}` }, amount(n));

function showBooks() {
  const all = [...state.now.pipelines, ...state.now.orphans.map((of) => ({ ...of, orphan: true }))];
  const rows = all.map(({ pipeline, books, orphan }) => element("tr", {},
    element("th", { scope: "row" }, pipeline, orphan ? element("div", { class: "faint" }, "not configured any more") : null),
    number(books.accepted), number(books.recovered), number(books.delivered), number(sum(books.filtered)),
    number(sum(books.dropped), sum(books.dropped) ? "bad" : ""), number(sum(books.rejected), sum(books.rejected) ? "bad" : ""),
    number(books.pending), number(books.difference, books.difference || books.mismatches ? "bad" : "well")));
  const off = all.filter(({ books }) => books.difference || books.mismatches).length;
  $("books").replaceChildren(
    element("p", { class: off ? "bad" : "well" }, off
      ? `The books of ${off} pipelines do not add up: this is a bug in Weir, please report it.`
      : "Every item is accounted for: accepted + recovered = delivered + filtered + dropped + rejected + pending."),
    table("Items of each pipeline since the start of the process",
      [["Pipeline"], ["Accepted", 1], ["Recovered", 1], ["Delivered", 1], ["Filtered", 1], ["Dropped", 1], ["Rejected", 1], ["Pending", 1], ["Difference", 1]], rows),
    element("p", { class: "faint" }, `No pipeline takes ${["spans", "data points", "log records"].map((what, index) => `${amount(state.now.unclaimed[index])} ${what}`).join(", ")} that were pushed: they are not in the books.`));
}

function showLosses() {
  const rows = [];
  for (const { pipeline, books } of state.now.pipelines) {
    for (const [where, by] of [["dropped here", books.dropped], ["refused by the backend", books.rejected]]) {
      for (const [why, n] of Object.entries(by)) {
        if (n) rows.push([n, element("tr", {}, element("th", { scope: "row" }, pipeline), element("td", {}, where), element("td", {}, why), number(n, "bad"))]);
      }
    }
  }
  rows.sort((one, other) => other[0] - one[0]);
  const samples = state.rejected == null
    ? element("p", { class: "faint words" }, "Samples of what backends refused are telemetry: they are shown on the admin port only (127.0.0.1:55679 unless told otherwise), by the same page.")
    : element("pre", { tabindex: "0" }, state.rejected || "none");
  $("losses").replaceChildren(
    rows.length ? table("Items that were lost, by pipeline and reason", [["Pipeline"], ["Where"], ["Reason"], ["Items", 1]], rows.map(([, made]) => made))
      : element("p", { class: "well" }, "Nothing was lost since the start of the process."),
    element("h2", {}, "Samples"), samples);
}

function showMemory() {
  const { memory, journal, rss_bytes } = state.now;
  const parts = memory.parts.filter((part) => part.bytes > 0);
  const bar = element("div", { class: "held", role: "img", "aria-label": "Parts of the memory budget; the dark part of each is in use" },
    ...parts.map((part) => {
      const made = element("i", { title: `${part.holder}: ${part.used_bytes == null ? "" : `${bytes(part.used_bytes)} of `}${bytes(part.bytes)}` });
      made.style.width = `${(100 * part.bytes) / memory.total_bytes}%`;
      const used = element("b");
      used.style.width = `${part.used_bytes == null ? 0 : (100 * part.used_bytes) / part.bytes}%`;
      made.append(used);
      return made;
    }));
  const rows = parts.map((part) => element("tr", {}, element("th", { scope: "row" }, part.holder.replaceAll("_", " ")),
    element("td", { class: "n" }, part.used_bytes == null ? "limited by number" : bytes(part.used_bytes)),
    element("td", { class: "n" }, bytes(part.bytes))));
  $("memory").replaceChildren(
    element("p", {}, `The budget is ${bytes(memory.total_bytes)}; the process has ${bytes(rss_bytes)} of the machine's memory.`), bar,
    element("h2", {}, "Who holds what"), table("Parts of the memory budget", [["Part"], ["In use", 1], ["Size", 1]], rows),
    element("h2", {}, "Disk"),
    journal ? facts(["journal", `${bytes(journal.disk_bytes)} in ${journal.segments} files`],
      ["damaged items", journal.damaged_items ? amount(journal.damaged_items) : ""],
      ["state", journal.failed ? "the disk takes nothing: clients are asked to come again" : "well"])
      : element("p", { class: "warn" }, "There is no data directory: what no backend has taken is lost when this process ends."));
}

function showSources() {
  const { container_logs: logs, configuration } = state.now;
  const since = configuration.taken_up_at ? new Date(configuration.taken_up_at * 1000).toISOString() : "";
  $("sources").replaceChildren(
    element("h2", {}, "Clients"), facts(["connections", amount(state.now.connections)], ["state", state.now.health]),
    element("h2", {}, "Container logs"),
    logs ? facts(["containers", `${amount(logs.containers)}${logs.stuck ? `, ${amount(logs.stuck)} stuck` : ""}`],
      ["behind", `${bytes(logs.behind_bytes)}, at most ${duration(logs.behind_seconds)}`],
      ["lost", logs.lost_bytes ? bytes(logs.lost_bytes) : ""]) : element("p", { class: "faint" }, "Nothing is read."),
    element("h2", {}, "Configuration"),
    facts(["in use since", since], ["pipelines", amount(state.now.pipelines.length)],
      ["a newer one is wrong", configuration.error ? element("span", { class: "bad" }, configuration.error) : ""]));
}

const SHOW = { pipelines: showPipelines, books: showBooks, losses: showLosses, memory: showMemory, sources: showSources };

function view() {
  const name = location.hash.slice(1);
  return VIEWS.some(([known]) => known === name) ? name : "pipelines";
}

function show() {
  const chosen = view();
  for (const [name] of VIEWS) {
    $(name).hidden = name !== chosen;
    const tab = $(`tab-${name}`);
    tab.setAttribute("aria-selected", String(name === chosen));
    tab.tabIndex = name === chosen ? 0 : -1;
  }
  if (!state.now) return;
  const troubled = state.now.pipelines.filter((line) => standing(line).kind !== "well").length;
  const all = state.now.pipelines.length;
  const kind = troubled ? "bad" : "well";
  $("summary").className = kind;
  const text = `${all} ${all === 1 ? "pipeline" : "pipelines"}, ${troubled ? `${troubled} with a trouble` : "all healthy"}; version ${state.now.version}, up for ${duration(state.now.uptime_seconds)}`;
  if ($("summary").textContent !== text) $("summary").textContent = text;
  SHOW[chosen]();
}

async function ask(path) {
  const answer = await fetch(path, { cache: "no-store" });
  if (answer.status === 404) return null;
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer;
}

async function look() {
  const [now, health, past] = await Promise.all([
    ask("api/now"), ask("health/pipelines"), ask(`api/history${state.ends ? `?since=${state.ends}` : ""}`),
  ]);
  state.now = await now.json();
  state.health = new Map((await health.json()).map((of) => [of.pipeline, of]));
  remember(await past.json());
  if (view() === "losses") {
    const rejected = await ask("rejected");
    state.rejected = rejected && (await rejected.text());
  }
}

function remember({ step_seconds: step, ends_unix_seconds: ends, pipelines }) {
  if (step !== state.step || ends < state.ends) state.past = new Map();
  const most = Math.floor(3600 / step);
  for (const { pipeline, points } of pipelines) {
    const known = state.past.get(pipeline) || [];
    state.past.set(pipeline, known.concat(points).slice(-most));
  }
  [state.step, state.ends] = [step, ends];
}

let failures = 0;
async function again() {
  if (!document.hidden) {
    try {
      await look();
      failures = 0;
      $("age").textContent = "";
      show();
    } catch (error) {
      failures += 1;
      $("age").textContent = `The process does not answer (${error.message}); what is shown is old.`;
      $("age").className = "bad";
    }
  }
  setTimeout(again, EVERY_MS * Math.min(10, 1 + failures));
}

function choose(pipeline) {
  state.chosen = state.chosen === pipeline ? null : pipeline;
  show();
}

function begin() {
  $("tabs").append(...VIEWS.map(([name, text]) =>
    element("button", { role: "tab", id: `tab-${name}`, "aria-controls": name, type: "button" }, text)));
  $("tabs").addEventListener("click", (event) => {
    const tab = event.target.closest("[role=tab]");
    if (tab) location.hash = tab.id.slice(4);
  });
  $("tabs").addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const at = VIEWS.findIndex(([name]) => name === view());
    const [next] = VIEWS[(at + step + VIEWS.length) % VIEWS.length];
    location.hash = next;
    $(`tab-${next}`).focus();
  });
  const rowOf = (event) => event.target.closest("tr[data-pipeline]");
  $("lines").addEventListener("click", (event) => rowOf(event) && choose(rowOf(event).dataset.pipeline));
  $("lines").addEventListener("keydown", (event) => {
    const at = rowOf(event);
    if (!at) return;
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(at.dataset.pipeline); }
    const next = { ArrowDown: at.nextElementSibling, ArrowUp: at.previousElementSibling }[event.key];
    if (next) { event.preventDefault(); next.focus(); }
  });
  $("pipelines").querySelector(".scroll").addEventListener("scroll", (event) => {
    const { scrollTop, clientHeight, scrollHeight } = event.target;
    if (state.now && scrollTop + clientHeight > scrollHeight - 400 && state.rows < found().length) { state.rows += ROWS; show(); }
  });
  for (const id of ["find", "troubled"]) $(id).addEventListener("input", () => { state.rows = ROWS; if (state.now) show(); });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== $("find")) { event.preventDefault(); location.hash = "pipelines"; $("find").focus(); }
    if (event.key === "Escape" && state.chosen) choose(state.chosen);
  });
  addEventListener("hashchange", show);
  document.addEventListener("visibilitychange", () => { if (!document.hidden && state.now) show(); });
  show();
  again();
}

begin();
