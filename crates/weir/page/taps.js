// Taps: a copy of what passes an edge, for as long as somebody asks for it.

import { ask } from "./ask.js";

const EVERY_MS = 1000;
// An answer has a part of what is there.
const SOON_MS = 100;
const MOST = 1000;

const open = new Set();

export class Tap {
  // `heard(tap, items)` gets new items in order, and after each answer how the tap stands.
  constructor(heard) {
    Object.assign(this, {
      heard,
      id: null,
      state: "new",
      ends: 0,
      seen: 0,
      matched: 0,
      leftOut: 0,
      last: 0,
      items: new Map(),
      error: null,
    });
  }

  async open(wish) {
    const { tap, ends_at: ends } = await ask("api/taps", { method: "POST", body: wish });
    Object.assign(this, { id: tap, ends: Date.parse(ends), state: "open" });
    open.add(this);
    this.listen();
  }

  // It asks while the page is in the background, too: people look away to make what they wait for.
  async listen() {
    if (this.state !== "open") return;
    let isBehind = false;
    try {
      const answer = await ask(`api/taps/${this.id}?after=${this.last}`);
      isBehind = answer.last < answer.matched && answer.items.length > 0;
      this.take(answer);
    } catch (error) {
      const isGone = error.status === 404 || error.status === 410;
      if (isGone) this.end();
      else this.error = error.message;
      this.heard(this, []);
    }
    setTimeout(() => this.listen(), isBehind ? SOON_MS : EVERY_MS);
  }

  take(answer) {
    const items = answer.items.filter((item) => item.seq > this.last);
    for (const item of answer.items) this.items.set(item.seq, item);
    for (const [seq, way, at] of answer.ways) {
      const item = this.items.get(seq);
      if (item) Object.assign(item, { way, way_at: at });
    }
    for (const seq of this.items.keys()) {
      if (this.items.size <= MOST) break;
      this.items.delete(seq);
    }
    Object.assign(this, {
      seen: answer.seen,
      matched: answer.matched,
      leftOut: answer.left_out,
      ends: Date.parse(answer.ends_at),
      error: null,
    });
    this.last = Math.max(this.last, answer.last);
    if (answer.state === "ended") this.end();
    this.heard(this, items);
  }

  end() {
    this.state = "ended";
    open.delete(this);
  }

  async stop(keepalive = false) {
    if (this.state !== "open") return;
    this.end();
    this.heard(this, []);
    // Nobody asks any more: it ends in any case.
    await ask(`api/taps/${this.id}`, { method: "DELETE", keepalive }).catch(() => {});
  }
}

addEventListener("pagehide", () => { for (const tap of [...open]) tap.stop(true); });
