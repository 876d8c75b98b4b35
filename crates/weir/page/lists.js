// Lists that are on the admin port: who sends most, targets, log files.

import { ask } from "./ask.js";
import { $, amount, button, bytes, counted, duration, element, settle } from "./dom.js";
import { secondsSince, sum } from "./state.js";
import { Table } from "./table.js";
import { targetPage } from "./target.js";

// More rows than a screen has.
const FIRST = 40;
const ALL = Number.MAX_SAFE_INTEGER;

// A view of one table. `rows(answer)` are its rows, `words(answer, rows)` what stands above them. `most(answer)`, of a
// list that may be long, is how many rows there are: it asks for the first of them, in the order in which the table is
// sorted at first, and for all when these are painted. `below` is another table beneath, with the same and a head;
// `card` makes what is opened from a row, and closes it.
function list({ name, title, path, every, rows, words, most, table: options, below, card }) {
  let answer = null;
  let table;
  let other;
  return {
    name,
    title,
    every,
    isAdmin: true,
    begin() {
      table = new Table(options);
      $(name).append(element("p", { class: "words" }), table.root);
      if (card) $(name).append(card.make());
      if (!below) return;
      other = new Table({ isBeside: true, ...below.table });
      $(name).append(element("h2", {}, below.head), other.root);
    },
    escape: card?.close,
    async look() {
      answer = await ask(most ? `${path}?first=${answer ? ALL : FIRST}` : path);
      this.isPart = !!most && rows(answer).length < most(answer);
    },
    show() {
      if (!answer) return;
      const all = rows(answer);
      settle($(name).firstChild, words(answer, all));
      table.set(all, most?.(answer));
      other?.set(below.rows(answer));
    },
  };
}

const count = (head, of) => ({ head, number: true, of, cell: (row) => amount(of(row) || 0) });
const size = (head, of, kind) => ({
  head,
  number: true,
  of,
  cell: (row) => (of(row) == null ? "" : bytes(of(row))),
  kind,
});
const seconds = (head, of, kind) => ({
  head,
  number: true,
  of,
  cell: (row) => (of(row) == null ? "" : duration(of(row))),
  kind,
});
const text = (head, of, more = {}) => ({ head, of: (row) => of(row) || "", ...more });

export const talkers = list({
  name: "talkers",
  title: "Talkers",
  path: "api/talkers",
  every: 2000,
  rows: (answer) => answer.talkers,
  words: (answer) => {
    const more = answer.left_out ? `; ${counted(answer.left_out, "item")} more are of pods that are not listed` : "";
    return `Who has sent most in the last ${duration(secondsSince(answer.since))}: it is counted while this view is ` +
      `open${more}.`;
  },
  table: {
    caption: "Items and bytes by namespace and pod",
    key: (row) => `${row.signal} ${row.namespace} ${row.pod} ${row.service}`,
    sort: 5,
    none: "Nothing has come yet.",
    columns: [
      text("Namespace", (row) => row.namespace),
      text("Pod", (row) => row.pod),
      text("Service", (row) => row.service),
      text("Signal", (row) => row.signal),
      count("Items", (row) => row.items),
      size("Bytes", (row) => row.bytes),
      size("Bytes an item", (row) => row.bytes / Math.max(1, row.items)),
    ],
  },
});

export const targets = list({
  name: "targets",
  title: "Targets",
  path: "targets",
  every: 3000,
  rows: (answer) => answer.targets,
  words: (answer, rows) => {
    const down = rows.filter((row) => row.state === "down").length;
    const dropped = answer.dropped.length + (answer.dropped_not_shown || 0);
    return `${counted(rows.length, "target is", "targets are")} scraped, ` +
      `${down ? `${amount(down)} of them down` : "none is down"}${dropped ? `; ${amount(dropped)} more are not` : ""}` +
      ".";
  },
  table: {
    caption: "Targets that are scraped",
    key: (row) => `${row.job} ${row.url}`,
    act: (_, what, event) => { if (what === "page") targetPage.read(Number(event.target.dataset.id), event.target); },
    none: "Nothing is scraped.",
    columns: [
      text("Target", (row) => row.url, { cell: (row) => [row.url, element("div", { class: "faint" }, row.job)] }),
      text("State", (row) => `${row.state} ${row.error || ""}`, {
        words: true,
        cell: (row) => [
          element("span", { class: `dot ${{ up: "well", down: "bad" }[row.state] || "faint"}` }, row.state),
          element("div", { class: "words" }, row.error || ""),
        ],
      }),
      text("Pipelines", (row) => (row.pipelines || []).join(", ")),
      seconds("Ago", (row) => row.seconds_ago),
      seconds("Took", (row) => row.took_seconds),
      size("Page", (row) => row.bytes),
      count("Samples", (row) => row.samples),
      count("Series added", (row) => row.series_added),
      count("Lost", (row) => row.lost_data_points),
      {
        head: "Look",
        of: () => "",
        cell: (row) => button("Read its page", "page", { "data-id": row.id }, `of ${row.url}, ${row.job}`),
      },
    ],
  },
  card: targetPage,
  below: {
    head: "Not scraped, and why",
    rows: (answer) => answer.dropped,
    table: {
      caption: "What was found, and is not scraped",
      key: (row) => `${row.job} ${row.target}`,
      none: "All that was found is scraped.",
      columns: [
        text("Target", (row) => row.target),
        text("Job", (row) => row.job),
        text("Why", (row) => row.reason, { words: true }),
      ],
    },
  },
});

const lossOf = (row) => sum(row.lost_bytes || {});
const late = (row) => (row.stuck ? "bad" : row.seconds_behind > 60 ? "warn" : null);

export const logs = list({
  name: "logs",
  title: "Log files",
  path: "logs",
  every: 3000,
  rows: (answer) => answer.containers,
  most: (answer) => answer.total.containers,
  words: ({ total: { containers, files, bytes_behind: behind, stuck } }) =>
    `${counted(containers, "container")} with ${counted(files, "file")}; ${bytes(behind)} are not safe yet` +
    `${stuck ? `; ${counted(stuck, "container is", "containers are")} stuck` : ""}.`,
  table: {
    caption: "Containers whose logs are read",
    key: (row) => `${row.namespace}/${row.pod}/${row.uid}/${row.container}`,
    sort: 3,
    none: "No logs are read.",
    columns: [
      text("Pod", (row) => row.pod),
      text("Namespace", (row) => row.namespace),
      text("Container", (row) => row.container),
      size("Behind", (row) => row.bytes_behind, late),
      seconds("Behind for", (row) => row.seconds_behind, late),
      text("Reads", (row) => row.current_file?.name, {
        cell: (row) =>
          row.current_file
            ? [row.current_file.name, element("div", { class: "faint" }, `inode ${row.current_file.inode}`)]
            : "",
      }),
      count("Files", (row) => row.files),
      size("Removed, held", (row) => row.removed_open_bytes || null),
      count("Rotated", (row) => row.rotations),
      count("Records read", (row) => row.read?.records),
      size("Lost", (row) => lossOf(row) || null, (row) => lossOf(row) && "bad"),
      text("Waits for", (row) => stuckWords(row.stuck), { words: true, kind: () => "warn" }),
    ],
  },
});

function stuckWords(stuck) {
  if (!stuck) return "";
  if (typeof stuck !== "object") return String(stuck);
  return Object.entries(stuck)
    .map(([name, value]) => (name === "seconds" ? `for ${duration(value)}` : String(value)))
    .join(", ");
}
