// Views that are figures only: the books, and the budget of memory with the disk.

import { $, amount, bytes, element, facts, settle } from "./dom.js";
import { state, sum } from "./state.js";
import { Table } from "./table.js";

let booksTable;
let partsTable;

const items = (head, of, kind) => ({ head, number: true, of, cell: (row) => amount(of(row)), kind });
const isOff = ({ books }) => books.difference !== 0 || books.mismatches !== 0;

export const books = {
  name: "books",
  title: "Books",
  begin() {
    const columns = [
      { head: "Pipeline", of: (row) => row.pipeline, cell: (row) => [row.pipeline, row.orphan ? element("div", { class: "faint" }, "not configured any more") : null] },
      items("Accepted", (row) => row.books.accepted),
      items("Recovered", (row) => row.books.recovered),
      items("Delivered", (row) => row.books.delivered),
      items("Filtered", (row) => sum(row.books.filtered)),
      items("Dropped", (row) => sum(row.books.dropped), (row) => sum(row.books.dropped) && "bad"),
      items("Rejected", (row) => sum(row.books.rejected), (row) => sum(row.books.rejected) && "bad"),
      items("Pending", (row) => row.books.pending),
      items("Difference", (row) => row.books.difference, (row) => (isOff(row) ? "bad" : "well")),
    ];
    booksTable = new Table({ caption: "Items of each pipeline since the start of the process", columns, key: (row) => row.pipeline });
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
    const kinds = ["spans", "data points", "log records"].map((what, index) => `${amount(state.now.unclaimed[index])} ${what}`);
    unclaimed.textContent = `No pipeline takes ${kinds.join(", ")} that were pushed: they are not in the books.`;
    booksTable.set(all);
  },
};

export const memory = {
  name: "memory",
  title: "Memory",
  begin() {
    const columns = [
      { head: "Part", of: (part) => part.holder.replaceAll("_", " ") },
      { head: "In use", number: true, of: (part) => part.used_bytes, cell: (part) => (part.used_bytes == null ? "limited by number" : bytes(part.used_bytes)) },
      { head: "Size", number: true, of: (part) => part.bytes, cell: (part) => bytes(part.bytes) },
    ];
    partsTable = new Table({ caption: "Parts of the memory budget", columns, key: (part) => part.holder, isBeside: true });
    $("memory").append(element("p"), element("div", { class: "held", role: "img", "aria-label": "Parts of the memory budget; the dark part of each is in use" }),
      element("h2", {}, "Who holds what"), partsTable.root, element("h2", {}, "Disk"), element("div"));
  },
  show() {
    const { memory: budget, journal, rss_bytes } = state.now;
    const parts = budget.parts.filter((part) => part.bytes > 0);
    const [words, bar, , , , disk] = $("memory").children;
    words.textContent = `The budget is ${bytes(budget.total_bytes)}; the process has ${bytes(rss_bytes)} of the machine's memory.`;
    bar.replaceChildren(...parts.map((part) => held(part, budget.total_bytes)));
    partsTable.set(parts);
    settle(disk, journal
      ? facts(["journal", `${bytes(journal.disk_bytes)} in ${journal.segments} files`],
        ["damaged items", journal.damaged_items ? amount(journal.damaged_items) : ""],
        ["state", journal.failed ? "the disk takes nothing: clients are asked to come again" : "well"])
      : element("p", { class: "warn" }, "There is no data directory: what no backend has taken is lost when this process ends."));
  },
};

function held(part, total) {
  const used = element("b");
  used.style.width = `${part.used_bytes == null ? 0 : (100 * part.used_bytes) / part.bytes}%`;
  const made = element("i", { title: `${part.holder.replaceAll("_", " ")}: ${part.used_bytes == null ? "" : `${bytes(part.used_bytes)} of `}${bytes(part.bytes)}` }, used);
  made.style.width = `${(100 * part.bytes) / total}%`;
  return made;
}
