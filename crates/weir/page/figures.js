// Views that are figures only: the books, and the budget of memory with the disk.

import { $, amount, bytes, duration, element, facts, faint, settle } from "./dom.js";
import { lossKind, reasons, state, sum, unclaimedWords } from "./state.js";
import { Table } from "./table.js";

let booksTable;
let partsTable;
let holdersTable;
let pipelinesTable;

// What each part of the budget is for.
const PARTS = {
  payloads: "telemetry, from its arrival until the last pipeline that takes it is done with it",
  read_back: "telemetry that is read from the disk again, to be sent",
  requests: "copies and compressed bodies of requests on their way to backends",
  compressors: "what compressors need for themselves while they work",
  client_connections: "set aside for connections of clients, whether they are there or not",
  streams: "answers to requests that come while all else is taken: their clients are told to come again",
  pages: "answers to whoever asks for metrics, for this page, or for what it shows",
  backend_connections: "set aside for connections to backends",
  pieces: "notes on telemetry that is on the disk: where it is, and when it is tried again",
  samples: "samples of what backends refused, and of what was given up",
  recent: "recent items of pipelines",
  series: "what the conversion of metrics to delta remembers of each series",
};

// Who has some of the payloads.
const HOLDERS = {
  clients: "what clients have pushed, until the last pipeline that takes it is done with it, and their connections",
  sources: "container logs, scrapes and runtime metrics of this process, likewise, and what it remembers of them",
  delivery: "what pipelines take beside that, to read back large entries, and to take apart what a backend refuses",
  onlookers: "taps, talkers and samples, and answers that the part for pages has no room for",
  waiting: "nobody has it yet: it is gathered for those who wait for more",
};

const items = (head, of, kind) => ({ head, number: true, of, cell: (row) => amount(of(row)), kind });
const kindOf = (way) => (row) => lossKind(row.pipeline, (loss) => loss.way === way);
const isOff = ({ books }) => books.difference !== 0 || books.mismatches !== 0;

export const books = {
  name: "books",
  title: "Books",
  begin() {
    const columns = [
      {
        head: "Pipeline",
        of: (row) => row.pipeline,
        cell: (row) => [
          row.pipeline,
          row.orphan ? element("div", { class: "faint" }, "not configured any more") : null,
        ],
      },
      items("Accepted", (row) => row.books.accepted),
      items("Recovered", (row) => row.books.recovered),
      items("Delivered", (row) => row.books.delivered),
      items("Filtered", (row) => sum(row.books.filtered)),
      items("Dropped", (row) => sum(row.books.dropped), kindOf("dropped")),
      items("Rejected", (row) => sum(row.books.rejected), kindOf("rejected")),
      items("Pending", (row) => row.books.pending),
      items("Difference", (row) => row.books.difference, (row) => (isOff(row) ? "bad" : "well")),
    ];
    booksTable = new Table({
      caption: "Items of each pipeline since the start of the process",
      columns,
      key: (row) => row.pipeline,
      total: processOf,
    });
    $("books").append(element("p"), booksTable.root, element("p", { class: "faint" }));
  },
  show() {
    const all = [...state.now.pipelines, ...state.now.orphans.map((of) => ({ ...of, orphan: true }))];
    const off = all.filter(isOff).length;
    const [verdict, , unclaimed] = $("books").children;
    verdict.className = off ? "bad" : "well";
    verdict.textContent = off
      ? `The books of ${off} pipelines do not add up: this is a bug in Weir, please report it.`
      : "Every item is accounted for: accepted + recovered = delivered + filtered + dropped + rejected + pending.";
    unclaimed.textContent = unclaimedWords();
    unclaimed.hidden = !unclaimed.textContent;
    booksTable.set(all);
  },
};

// The books of all pipelines together. Differences may cancel each other: so the total is right only if all are.
function processOf(rows) {
  const all = (of) => rows.reduce((total, row) => total + of(row.books), 0);
  const each = Object.fromEntries(
    ["accepted", "recovered", "delivered", "pending", "difference"].map((name) => [name, all((of) => of[name])]),
  );
  const byReason = Object.fromEntries(
    ["filtered", "dropped", "rejected"].map((way) => [way, { all: all((of) => sum(of[way])) }]),
  );
  return { pipeline: "This process", books: { ...each, ...byReason, mismatches: rows.filter(isOff).length } };
}

const nameOf = (part) => part.holder.replaceAll("_", " ");

export const memory = {
  name: "memory",
  title: "Memory",
  begin() {
    const columns = [
      { head: "Part", of: nameOf },
      {
        head: "In use",
        number: true,
        of: (part) => part.used_bytes,
        cell: (part) => (part.used_bytes == null ? "limited by number" : bytes(part.used_bytes)),
      },
      { head: "Size", number: true, of: (part) => part.bytes, cell: (part) => bytes(part.bytes) },
      { head: "What it is for", words: true, of: (part) => PARTS[part.holder] || "" },
    ];
    holdersTable = new Table({
      caption: "Who has the payloads",
      columns: [
        { head: "Who", of: nameOf },
        { head: "In use", number: true, of: (who) => who.used_bytes, cell: (who) => bytes(who.used_bytes) },
        { head: "What it is", words: true, of: (who) => HOLDERS[who.holder] || "" },
      ],
      key: (who) => who.holder,
      isBeside: true,
    });
    partsTable = new Table({
      caption: "Parts of the memory budget",
      columns,
      key: (part) => part.holder,
      isBeside: true,
    });
    pipelinesTable = new Table({
      caption: "What each pipeline holds",
      columns: HOLDS,
      key: (line) => line.pipeline,
      isBeside: true,
      none: "There are no pipelines.",
    });
    $("memory").append(
      element("p"),
      element("div", { class: "held", role: "img", "aria-label": "Parts of the memory budget" }),
      element(
        "p",
        { class: "faint words" },
        "Each part of the bar is a row below, in the same order. The stronger colour is in use, the rest is free; " +
          "lines in it divide payloads among those who have them. " +
          "“Limited by number” is set aside in full: there can be no more of these than have room, so their bytes " +
          "are not counted.",
      ),
      element("h2", {}, "Would a request be taken now?"),
      element("div", { id: "admission" }),
      element("h2", {}, "Who holds what"),
      partsTable.root,
      element("h2", {}, "Who has the payloads"),
      holdersTable.root,
      element("h2", {}, "What each pipeline holds"),
      element(
        "p",
        { class: "faint words" },
        "Of the payloads and of the disk. What several pipelines wait with is there once, and counted for each of " +
          "them.",
      ),
      pipelinesTable.root,
      element("h2", {}, "Disk"),
      element("div"),
    );
  },
  show() {
    const { memory: budget, journal, rss_bytes } = state.now;
    const parts = budget.parts.filter((part) => part.bytes > 0);
    const [words, bar, disk] = [$("memory").firstChild, $("memory").querySelector(".held"), $("memory").lastChild];
    words.textContent = `The budget is ${bytes(budget.total_bytes)}; the process has ${bytes(rss_bytes)} of the ` +
      "machine's memory.";
    const holders = budget.payload_holders.filter((who) => who.used_bytes > 0);
    const held = parts.map((part) => ({ ...part, holders: part.holder === "payloads" ? holders : [] }));
    bar.replaceChildren(...held.map((part) => barOf(part, budget.total_bytes)));
    bar.setAttribute("aria-label", `Parts of the memory budget, and what is in use. ${held.map(inUse).join("; ")}`);
    settle($("admission"), ...admission(state.now));
    partsTable.set(parts);
    holdersTable.set(budget.payload_holders);
    pipelinesTable.set(state.now.pipelines);
    settle(
      disk,
      ...(journal
        ? diskOf(state.now)
        : [
            element(
              "p",
              { class: "warn" },
              "There is no data directory: what no backend has taken is lost when this process ends.",
            ),
          ]),
    );
  },
};

// What the journal takes of its disk, and what there is room for. It does not matter that a disk is nearly full which
// has room for all that pipelines may still keep.
function diskOf({ journal, pipelines }) {
  const { disk_bytes: used, disk_free_bytes: free } = journal;
  const left = pipelines.reduce((all, { backlog: of }) => all + (of ? Math.max(0, of.limit_bytes - of.bytes) : 0), 0);
  const isScarce = free != null && free < left;
  const isNearlyFull = isScarce && 4 * free <= used;
  const more = isScarce
    ? `less than the ${bytes(left)} that pipelines may still keep: when it is full, the oldest data makes room, or ` +
      "clients are asked to come again"
    : `enough for the ${bytes(left)} that pipelines may still keep`;
  return [
    facts(
      ["journal", `${bytes(used)} in ${journal.segments} files`],
      [
        "room left",
        free == null
          ? "not known: the disk does not say"
          : element("span", { class: isNearlyFull && (free ? "warn" : "bad") }, `${bytes(free)}, ${more}`),
      ],
      ["damaged items", journal.damaged_items ? amount(journal.damaged_items) : ""],
      ["state", journal.failed ? "the disk takes nothing: clients are asked to come again" : "well"],
    ),
    free != null && free + used > 0
      ? element(
          "div",
          {
            class: "held",
            role: "img",
            "aria-label": `Room on the disk: the journal takes ${bytes(used)}, ${bytes(free)} are left`,
          },
          barOf({ holder: "journal", used_bytes: used, bytes: used + free, holders: [] }, used + free),
        )
      : null,
  ];
}

// What the largest request is the least of.
const LIMITS = {
  configured_bytes: "--max-request-size", memory_bytes: "what all pipelines together have memory for",
  share_bytes: "what one pipeline may hold", read_back_bytes: "what one pipeline reads back from the disk",
};

// What is in use and what is free, in numbers that add up, and what that means for a request. All of them are the
// process's own.
function admission({ memory: { total_bytes: total, admission: of }, refused_requests: refusals }) {
  const exact = (n, words) => element("span", {}, `${amount(n)} bytes, ${bytes(n)}`, faint(`: ${words}`));
  const limit = Object.keys(LIMITS).find((name) => of.limits[name] === of.largest_bytes);
  return [
    element(
      "p",
      { class: of.refused ? "bad" : "well" },
      of.refused
        ? `Even a small one would be refused: ${of.refused_because}.`
        : `Yes: there is room for one of up to ${bytes(of.fits_bytes)}, if nobody else takes it.`,
    ),
    facts(
      ["the budget", exact(total, "--memory")],
      ["− set aside", exact(of.set_aside_bytes, "the parts below but for payloads, used or not")],
      [
        "− taken",
        exact(
          of.used_bytes,
          "telemetry that is here, and work on it" +
            `${of.is_scarce ? "; that is more than half, so bodies that come slowly are refused" : ""}`,
        ),
      ],
      ["= free", exact(of.free_bytes, "for requests that come")],
      [
        "a request costs",
        `${bytes(of.request_bytes)} from its head to its answer; up to ${of.copies} times its size, decompressed, ` +
          `while all pipelines take their part of it; and ${bytes(of.enrichment_bytes)} more while facts about its ` +
          "sender are added",
      ],
      [
        "the largest",
        `${bytes(of.largest_bytes)}, because of ${LIMITS[limit] || "what there is"}; a larger one is refused for good`,
      ],
      [
        "refused when",
        `what it needs is not free within ${duration(of.patience_seconds)}, or ${of.most_waiting} others wait for ` +
          `that: ${of.waiting} wait now`,
      ],
      ["refused so far", reasons(refusals).replaceAll("_", " ") || "none"],
    ),
  ];
}

// What is in memory and waits for the backend. With a data directory that is what has not had its turn yet.
const inMemory = (line) => (line.backlog ? Math.max(0, line.pending_bytes - line.backlog.bytes) : line.held_bytes);

const HOLDS = [
  { head: "Pipeline", of: (line) => line.pipeline },
  {
    head: "In memory",
    number: true,
    of: inMemory,
    cell: (line) => [
      bytes(inMemory(line)),
      element("div", { class: "faint" }, line.backlog ? "" : `of ${bytes(line.share_bytes)}, its share`),
    ],
  },
  {
    head: "On disk",
    number: true,
    of: ({ backlog }) => backlog?.bytes,
    cell: ({ backlog }) =>
      backlog ? [bytes(backlog.bytes), element("div", { class: "faint" }, `of ${bytes(backlog.limit_bytes)}`)] : "",
  },
  {
    head: "Items that wait",
    number: true,
    of: (line) => line.books.pending,
    cell: (line) => amount(line.books.pending),
  },
];

// In one line: how much of a part is in use, and who has it.
function inUse(part) {
  const used = part.used_bytes == null ? "" : `${bytes(part.used_bytes)} of `;
  const holders = part.holders.map((who) => `${nameOf(who)} ${bytes(who.used_bytes)}`).join(", ");
  return `${nameOf(part)}: ${used}${bytes(part.bytes)}${holders && ` (${holders})`}`;
}

function barOf(part, total) {
  const all = part.holders.reduce((sum, who) => sum + who.used_bytes, 0);
  const holders = part.holders.map((who) => {
    const one = element("s");
    one.style.width = `${(100 * who.used_bytes) / all}%`;
    return one;
  });
  const used = element("b", {}, ...holders);
  used.style.width = `${part.used_bytes == null ? 0 : (100 * part.used_bytes) / part.bytes}%`;
  const made = element("i", { title: inUse(part) }, used, element("span", {}, nameOf(part)));
  made.style.width = `${(100 * part.bytes) / total}%`;
  return made;
}
