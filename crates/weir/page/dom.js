// Elements and numbers. Everything is built from text: nothing that a backend or a client said becomes markup.

export const $ = (id) => document.getElementById(id);

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(key, "");
    else if (value !== false && value != null) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child != null && child !== ""));
  return made;
}

// The same of a drawing.
export function drawn(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Makes what is shown equal to the children given, and touches only what differs: the focus, a selection and a click
// under way stay where they are. So listeners belong to what stays, never to the children.
export function settle(shown, ...children) {
  const wanted = children
    .filter((child) => child != null)
    .map((child) => (typeof child === "string" ? document.createTextNode(child) : child));
  wanted.forEach((child, index) => {
    const there = shown.childNodes[index];
    if (!there) shown.append(child);
    else if (there.nodeName !== child.nodeName) there.replaceWith(child);
    else if (!there.isEqualNode(child)) adopt(there, child);
  });
  while (shown.childNodes.length > wanted.length) shown.lastChild.remove();
}

// What a reader has unfolded, and how wide things are, is of what is shown.
const OF_THE_READER = new Set(["open"]);

function adopt(there, child) {
  if (there.nodeType !== Node.ELEMENT_NODE) { there.replaceWith(child); return; }
  const kept = ({ name }) => OF_THE_READER.has(name) || child.hasAttribute(name);
  for (const attribute of [...there.attributes].filter((one) => !kept(one))) there.removeAttribute(attribute.name);
  for (const { name, value } of child.attributes) {
    if (there.getAttribute(name) === value || OF_THE_READER.has(name)) continue;
    // As an attribute, the policy of the page refuses a style.
    if (name === "style") there.style.cssText = child.style.cssText;
    else there.setAttribute(name, value);
  }
  settle(there, ...child.childNodes);
}

// Settles when what is there now has been painted.
export const painted = () => new Promise((done) => { requestAnimationFrame(() => setTimeout(done)); });

// Without what the browser has for it, which takes longer when it is first used than a table does to be made.
export const amount = (n) => String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, ",");

export const counted = (n, one, many = `${one}s`) => `${amount(n)} ${n === 1 ? one : many}`;

// Names, and how many more there are.
export const listed = (names, more) => names.join(", ") + (more ? ` and ${amount(more)} more` : "");

// Few a second are no zero.
export function rate(n) {
  if (n >= 10) return amount(n);
  return n === 0 ? "0" : n.toFixed(n < 0.1 ? 3 : 1);
}

export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (n >= 1024 && unit < units.length - 1) { n /= 1024; unit += 1; }
  return `${unit && n < 10 ? n.toFixed(1) : Math.round(n)} ${units[unit]}`;
}

export function duration(s) {
  if (s < 0.001) return s < 0.0000005 ? "0 s" : `${Math.round(s * 1e6)} µs`;
  if (s < 1) return `${s < 0.01 ? (s * 1000).toFixed(1) : Math.round(s * 1000)} ms`;
  if (s < 120) return `${s < 10 ? Number(s.toFixed(1)) : Math.round(s)} s`;
  if (s < 7200) return `${Math.round(s / 60)} min`;
  return s < 172800 ? `${Math.round(s / 3600)} h` : `${Math.round(s / 86400)} d`;
}

const two = (n) => String(n).padStart(2, "0");

// A time of an answer, or milliseconds since the Unix epoch, by the reader's clock.
export function clock(time) {
  const at = new Date(time);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.` +
    `${String(at.getMilliseconds()).padStart(3, "0")}`;
}

export function day(time) {
  const at = new Date(time);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:` +
    `${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

// The time alone, if it is of today. What is kept may be of another day.
export function moment(time) {
  const [date, today] = [time, Date.now()].map((at) => day(at).slice(0, 10));
  return date === today ? clock(time) : `${date} ${clock(time)}`;
}

export function facts(...pairs) {
  const list = element("dl");
  for (const [name, value] of pairs)
    if (value !== "" && value != null) list.append(element("dt", {}, name), element("dd", {}, value));
  return list;
}

// As much of a text as fits a line or two; the rest is where it is told in full.
export const short = (text, most = 200) => (text.length > most ? `${text.slice(0, most)} …` : text);

export const faint = (text) => element("span", { class: "faint" }, text);

// `which`: what a screen reader says after the text, where other rows have a button with the same one.
export function button(text, act, more = {}, which = null) {
  const name = which && `${text} ${which}`;
  return element("button", { type: "button", "data-act": act, "aria-label": name, ...more }, text);
}

// Copies, and says so on the button. Without a clipboard, as on a host that is not this one and has no TLS, the old
// way.
export async function copy(text, from) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = element("textarea", { "aria-hidden": "true", class: "hidden" });
    area.value = text;
    from.after(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    from.focus();
  }
  const { words = from.textContent, name = from.getAttribute("aria-label") } = from.dataset;
  Object.assign(from.dataset, name ? { words, name } : { words });
  from.textContent = "Copied";
  from.removeAttribute("aria-label");
  setTimeout(() => {
    from.textContent = words;
    if (name) from.setAttribute("aria-label", name);
  }, 1500);
}
