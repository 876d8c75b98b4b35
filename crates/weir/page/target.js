// The page of a target as the target sends it now. It is read when somebody clicks, and shown as text.

import { ask } from "./ask.js";
import { $, amount, button, bytes, copy, duration, element, facts } from "./dom.js";

const EVERY_MS = 200;

// Clicks so far: what comes of an earlier one is not shown any more.
let clicks = 0;
// What the card is about, and the button that opened it.
let id;
let opener;

export const targetPage = {
  make() {
    const card = element("div", { id: "target-page", class: "card", hidden: true });
    card.addEventListener("click", ({ target }) => act(target));
    return card;
  },
  close() {
    if ($("target-page").hidden) return;
    clicks += 1;
    $("target-page").hidden = true;
    opener?.focus();
  },
  read(target, from) {
    [id, opener] = [target, from];
    read(true);
  },
};

function act(clicked) {
  const what = clicked.dataset.act;
  if (what === "again") read(true);
  if (what === "secrets") read(false);
  if (what === "copy") copy($("target-page").querySelector("pre").textContent, clicked);
  if (what === "close") targetPage.close();
}

async function read(redact) {
  clicks += 1;
  const mine = clicks;
  const show = (...what) => { if (mine === clicks) open(what); };
  show(element("h2", { tabindex: "-1" }, "Reading the page of the target …"));
  try {
    const { page: number } = await ask("api/pages", { method: "POST", body: { target: id, redact } });
    let page = await ask(`api/pages/${number}`);
    while (page.state === "reading" && mine === clicks) {
      await new Promise((done) => { setTimeout(done, EVERY_MS); });
      page = await ask(`api/pages/${number}`);
    }
    show(...shown(page));
  } catch (error) {
    show(
      element("h2", { tabindex: "-1" }, "The page of the target"),
      element("p", { class: "bad words", role: "alert" }, error.message),
      element("div", { class: "bar" }, button("Read it again", "again"), button("Close", "close")),
    );
  }
}

function open(what) {
  $("target-page").replaceChildren(...what);
  $("target-page").hidden = false;
  $("target-page").querySelector("h2").focus();
}

function shown(page) {
  const {
    url,
    status,
    content_type: kind,
    took_seconds: took,
    bytes: size,
    left_out_bytes: leftOut,
    redact,
    error,
    text,
  } = page;
  const head = facts(
    ["answered", status ?? "nothing"],
    ["content type", kind],
    ["took", duration(took)],
    ["size", `${bytes(size)} (${amount(size)} bytes)`],
    ["left out", leftOut ? `the last ${amount(leftOut)} bytes` : ""],
    ["what is wrong", error ? element("span", { class: "bad" }, error) : ""]);
  return [
    element("h2", { tabindex: "-1" }, `The page of ${url}`), head,
    element("div", { class: "bar" }, button("Read it again", "again"), text ? button("Copy", "copy") : null,
      redact ? button("Read it with what looks like a secret", "secrets") : null, button("Close", "close")),
    element("pre", { tabindex: "0", "aria-label": `The page of ${url}`, hidden: !text }, text),
  ];
}
