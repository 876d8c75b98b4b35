// Which attributes the items of a pipeline have, how many values each has, and what it takes: of recent items.

import { ask } from "./ask.js";
import { $, amount, bytes, counted, duration, element } from "./dom.js";
import { secondsSince } from "./state.js";
import { Table } from "./table.js";
import { fillPipelines } from "./tap.js";

let answer = null;
let table;

export const attributes = {
  name: "attributes",
  title: "Attributes",
  every: 5000,
  isAdmin: true,
  begin() {
    table = new Table({
      caption: "Attributes of recent items",
      columns: COLUMNS,
      key: (row) => `${row.of} ${row.key}`,
      sort: 3,
      none: "No item that is kept has an attribute.",
    });
    $("attributes").append(table.root);
    $("attributes-pipeline").addEventListener("change", () => {
      answer = null;
      $("attributes-words").textContent = "";
      table.set([]);
      this.look().then(() => this.show()).catch((error) => { $("attributes-words").textContent = error.message; });
    });
  },
  async look() {
    fillPipelines();
    const pipeline = $("attributes-pipeline").value;
    if (!pipeline) return;
    const found = await ask(`api/attributes?pipeline=${pipeline}`);
    if (pipeline === $("attributes-pipeline").value) answer = found;
  },
  show() {
    fillPipelines();
    if (!answer) return;
    const words = answer.items
      ? `Of ${counted(answer.items, "recent item")} in the last ${duration(Math.round(secondsSince(answer.since)))}, ` +
          `${bytes(answer.bytes / answer.items)} each with all that is around it` +
          `${answer.left_out ? `; ${counted(answer.left_out, "attribute")} had no room here` : ""}.`
      : "Nothing has passed since the rules of this pipeline changed.";
    if ($("attributes-words").textContent !== words) $("attributes-words").textContent = words;
    table.set(answer.attributes);
  },
};

const share = (row) => row.bytes / Math.max(1, answer?.bytes || 0);

const COLUMNS = [
  { head: "Attribute", of: (row) => row.key },
  { head: "Of", of: (row) => row.of },
  { head: "Items", number: true, of: (row) => row.items, cell: (row) => amount(row.items) },
  { head: "Values", number: true, of: (row) => row.values, cell: (row) => amount(row.values) },
  {
    head: "Bytes an item",
    number: true,
    of: (row) => row.bytes / row.items,
    cell: (row) => bytes(row.bytes / row.items),
  },
  {
    head: "Of all bytes",
    number: true,
    of: share,
    cell: (row) => element("span", {}, `${(share(row) * 100).toFixed(1)} %`),
  },
];
