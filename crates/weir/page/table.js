// A table that is sorted by a click on a head, filtered by words, and makes rows only as far as one has scrolled.

import { amount, counted, element, settle } from "./dom.js";

const ROWS = 100;
// Fewer need no filter, where other tables are beside them.
const FEW = 6;
const NEAR_THE_END_PX = 400;

// `columns`: `head`, `of(row)` for sorting and finding, `cell(row)` for showing if it is not the same, `number`,
// `kind(row)`. `key(row)` tells rows apart; `act(key, what, event)` is called for a click or Enter on a row (`what` is
// "open"), or on a button in it (its `data-act`); `isBeside`: there are other tables in the view. `below(row)` is what
// stands in a line of its own under a row, if anything does; `total(rows)` is a row of all of them, which stays last
// however they are sorted and filtered.
export class Table {
  constructor({
    caption,
    columns,
    key,
    act,
    below,
    total,
    isBeside = false,
    sort = null,
    opens = false,
    none = "Nothing is here.",
  }) {
    Object.assign(this, {
      columns,
      key,
      act,
      below,
      total,
      isBeside,
      opens,
      none,
      rows: [],
      most: 0,
      shown: ROWS,
      sort,
      down: true,
      chosen: null,
    });
    this.find = element("input", {
      type: "search",
      autocomplete: "off",
      spellcheck: "false",
      "aria-label": `Filter: ${caption}`,
      placeholder: "words to filter by   (press /)",
    });
    this.count = element("span", { class: "faint", role: "status" });
    this.head = element("tr");
    this.body = element("tbody");
    this.foot = element("tfoot");
    const more = `Show ${ROWS} more`;
    this.more = element("button", { type: "button", "aria-label": `${more}: ${caption}` }, more);
    this.scroll = element(
      "div",
      { class: "scroll", tabindex: "-1" },
      element(
        "table",
        {},
        element("caption", { class: "hidden" }, caption),
        element("thead", {}, this.head),
        this.body,
        this.foot,
      ),
    );
    this.root = element(
      "div",
      { class: "list" },
      element("div", { class: "bar" }, this.find, this.count),
      this.scroll,
      element("p", { hidden: true }, this.more),
    );
    this.listen();
  }

  listen() {
    this.find.addEventListener("input", () => { this.shown = ROWS; this.show(); });
    this.find.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown") { event.preventDefault(); this.body.querySelector("tr[tabindex]")?.focus(); }
    });
    this.more.addEventListener("click", () => { this.shown += ROWS; this.show(); });
    this.scroll.addEventListener("scroll", () => {
      const { scrollTop, clientHeight, scrollHeight } = this.scroll;
      if (!this.more.parentNode.hidden && scrollTop + clientHeight > scrollHeight - NEAR_THE_END_PX) this.more.click();
    });
    this.head.addEventListener("click", (event) => {
      const at = event.target.closest("button")?.dataset.column;
      if (at === undefined) return;
      [this.down, this.sort] = [this.sort === Number(at) ? !this.down : !!this.columns[at].number, Number(at)];
      this.show();
    });
    this.body.addEventListener("click", (event) =>
      this.asked(event, event.target.closest("button")?.dataset.act || "open"),
    );
    this.body.addEventListener("keydown", (event) => this.pressed(event));
  }

  asked(event, what) {
    const row = event.target.closest("tr");
    const key = row?.dataset.key ?? row?.dataset.under;
    if (key !== undefined && this.act && (this.opens || what !== "open")) this.act(key, what, event);
  }

  pressed(event) {
    const row = event.target.closest("tr[data-key]");
    const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    let next = step && row?.[step];
    while (next && !next.dataset.key) next = next[step];
    if (next) {
      event.preventDefault();
      next.focus();
    }
    if (event.target === row && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault();
      this.asked(event, "open");
    }
  }

  // `most`: how many rows there are, of which the others come later.
  set(rows, most = rows.length) {
    [this.rows, this.most] = [rows, most];
    this.show();
  }

  found() {
    const words = this.find.value.toLowerCase().split(/\s+/).filter(Boolean);
    const text = (row) =>
      this.columns
        .map((column) => column.of(row))
        .join(" ")
        .toLowerCase();
    const found = words.length
      ? this.rows.filter((row) => {
          const all = text(row);
          return words.every((word) => all.includes(word));
        })
      : [...this.rows];
    if (this.sort == null) return found;
    const { of } = this.columns[this.sort];
    const sign = this.down ? -1 : 1;
    const order = (one, other) => (typeof one === "string" ? one.localeCompare(other) : (one ?? -1) - (other ?? -1));
    return found.sort((one, other) => sign * order(of(one), of(other)));
  }

  show() {
    const all = this.found();
    const focused = this.body.contains(document.activeElement)
      ? document.activeElement.closest("tr").dataset.key
      : null;
    settle(this.head, ...this.columns.map((column, index) => this.title(column, index)));
    settle(this.body, ...all.slice(0, this.shown).flatMap((row, index) => [this.row(row, index), ...this.under(row)]));
    if (!all.length)
      settle(
        this.body,
        element(
          "tr",
          {},
          element(
            "td",
            { colspan: this.columns.length, class: "faint" },
            this.rows.length ? "Nothing fits the filter." : this.none,
          ),
        ),
      );
    settle(this.foot, this.total && this.rows.length ? element("tr", {}, ...this.cells(this.total(this.rows))) : null);
    if (focused != null && document.activeElement.closest?.("tr")?.dataset.key !== focused)
      this.body.querySelector(`tr[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    this.more.parentNode.hidden = all.length <= this.shown;
    const shown = Math.min(this.shown, all.length);
    this.find.parentNode.hidden = this.isBeside && this.rows.length <= FEW && !this.find.value;
    const isPart = this.rows.length < this.most;
    const words = `${all.length === this.rows.length ? "" : `${amount(all.length)} of `}` +
      `${isPart ? `the first ${amount(this.rows.length)} of ` : ""}${counted(this.most, "row")}` +
      `${shown < all.length ? `, ${amount(shown)} shown` : ""}`;
    if (this.count.textContent !== words) this.count.textContent = words;
  }

  title(column, index) {
    const sorted = this.sort === index ? (this.down ? "descending" : "ascending") : null;
    return element("th", { scope: "col", class: column.number ? "n" : null, "aria-sort": sorted },
      element("button", { type: "button", "data-column": index }, column.head));
  }

  under(row) {
    const content = this.below?.(row);
    return content
      ? [
          element(
            "tr",
            { class: "below", "data-under": this.key(row) },
            element("td", { colspan: this.columns.length }, content),
          ),
        ]
      : [];
  }

  // One row is reached by Tab, the others from there by arrows.
  row(row, at) {
    const key = this.key(row);
    return element(
      "tr",
      { tabindex: at ? "-1" : "0", "data-key": key, "aria-selected": this.opens ? String(this.chosen === key) : null },
      ...this.cells(row),
    );
  }

  cells(row) {
    return this.columns.map((column, index) => {
      const kind =
        [column.number && "n", column.words && "words", column.kind?.(row)].filter(Boolean).join(" ") || null;
      const content = column.cell ? column.cell(row) : String(column.of(row) ?? "");
      return element(index ? "td" : "th", { scope: index ? null : "row", class: kind }, ...[content].flat());
    });
  }
}
