// The past of a pipeline: the last minutes, small, in its row; and the last hour with axes, and the values under the
// pointer.

import { amount, clock, drawn, duration, element, rate, settle } from "./dom.js";
import { eventsOf } from "./events.js";
import { HOUR_S, LATELY_S, pastOf, state } from "./state.js";

// Columns of a point.
const [CAME, WENT, LOST, WAITED] = [0, 1, 2, 3];
const KINDS = ["in", "out", "lost"];

// Items that came, went and were lost as lines, what waited as an area.
export function spark(points, width = 160, height = 28) {
  const most = Math.max(1, Math.floor(LATELY_S / state.step));
  const last = points.slice(-most);
  const label = `${duration(last.length * state.step)}: ${totals(last)}`;
  const svg = drawn("svg", {
    width,
    height,
    viewBox: `0 0 ${most} ${height}`,
    preserveAspectRatio: "none",
    role: "img",
    "aria-label": label,
  });
  const heights = (column, top) => (value) => height - 1 - (value / top) * (height - 2);
  const begins = most - last.length;
  svg.append(
    ...lines(last, (index) => begins + index, heights(CAME, peakOf(last)), heights(WAITED, waitedMost(last)), height),
  );
  return svg;
}

const peakOf = (points) => points.reduce((peak, point) => Math.max(peak, point[CAME], point[WENT], point[LOST]), 1);
const waitedMost = (points) => points.reduce((peak, point) => Math.max(peak, point[WAITED]), 1);

function totals(points) {
  const total = (column) => amount(points.reduce((all, point) => all + point[column], 0));
  return `${total(CAME)} came, ${total(WENT)} went, ${total(LOST)} were lost`;
}

// `x` of a point's place, `y` of a number of items, `area` of a number of waiting items; `floor` is where 0 is.
function lines(points, x, y, area, floor) {
  if (points.length < 2) return [];
  const has = (column) => points.some((point) => point[column] > 0);
  const path = (column, of) =>
    points.map((point, index) => `${x(index).toFixed(1)},${of(point[column]).toFixed(1)}`).join(" ");
  const waited = () => `${x(0).toFixed(1)},${floor} ${path(WAITED, area)} ${x(points.length - 1).toFixed(1)},${floor}`;
  return [
    has(WAITED) ? drawn("polygon", { class: "pending", points: waited() }) : null,
    ...KINDS.map((kind, column) =>
      column < LOST || has(LOST) ? drawn("polyline", { class: kind, points: path(column, y) }) : null,
    ),
  ].filter(Boolean);
}

// The newest second that is known.
const ends = () => Date.parse(state.ends) / 1000;

// The plot in its own units, and where what is drawn begins and ends.
const [WIDTH, HEIGHT] = [760, 200];
const [LEFT, RIGHT, TOP, FLOOR] = [60, 700, 24, 176];
// So close to a mark of what happened, in the same units, its words are read.
const NEAR = 6;
// As much is shown as there is, up to an hour: seconds, and seconds from one tick to the next.
const SPANS = [[300, 60], [900, 300], [1800, 300], [HOUR_S, 600]];

// What is shown now, for whoever points at it.
let shown = null;
// The time that keys have chosen, in Unix seconds; where the pointer is, in units of the plot.
let chosen = null;
let pointed = null;

// What the plot of a pipeline consists of. Keys and the pointer belong to `follow`.
export function hour(pipeline) {
  if (shown?.pipeline !== pipeline) chosen = null;
  shown = frame(pipeline, pastOf(pipeline));
  const { points, happened, span, every, begins, left, right, x, y, area } = shown;
  const name = span === HOUR_S ? "hour" : duration(span);
  const svg = drawn(
    "svg",
    {
      class: "hour",
      width: WIDTH,
      height: HEIGHT,
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      tabindex: 0,
      role: "slider",
      "aria-label": `The last ${name} of ${pipeline}`,
      "aria-describedby": "hour-words",
    },
    ...timeTicks(begins, span, every),
    ...scale(left, y, LEFT - 6, "end", "items/s"),
    ...scale(right, area, RIGHT + 6, "start", "waiting"),
    ...lines(
      points,
      (index) => x(timeOf(index)),
      (items) => y(items / state.step),
      area,
      FLOOR,
    ),
    ...happened.map(eventMark),
    drawn("g", { class: "mark" }, ...mark()),
  );
  for (const [key, value] of Object.entries(spoken())) svg.setAttribute(key, value);
  return [
    svg,
    element("p", { id: "hour-value" }, reading()),
    element(
      "p",
      { id: "hour-words", class: "faint" },
      `The last ${name} up to now, ${totals(points)}: items a second that came (blue), went (green), were lost ` +
        "(red); and items that waited (area, with its numbers at the right). Marks at the top are what happened to " +
        "it. The pointer or ← → shows the values.",
    ),
  ];
}

function frame(pipeline, past) {
  const [span, every] = SPANS.find(([seconds]) => past.length * state.step <= seconds) || SPANS.at(-1);
  const points = past.slice(-Math.floor(span / state.step));
  const begins = ends() - span;
  const left = ticks(peakOf(points) / state.step, 0);
  const right = ticks(waitedMost(points), 1);
  const height = (top) => (value) => FLOOR - (value / top) * (FLOOR - TOP);
  const happened = eventsOf(pipeline)
    .map((event) => ({ ...event, seconds: Date.parse(event.at) / 1000 }))
    .filter(({ seconds }) => seconds >= begins && seconds <= begins + span);
  return {
    pipeline,
    points,
    happened,
    span,
    every,
    begins,
    left,
    right,
    y: height(left.at(-1)),
    area: height(right.at(-1)),
    x: (at) => LEFT + ((at - begins) / span) * (RIGHT - LEFT),
  };
}

// When a point ended, in Unix seconds.
const timeOf = (index) => ends() - (shown.points.length - 1 - index) * state.step;

// Round numbers from 0 until the peak is reached.
function ticks(peak, least) {
  const part = peak / 3;
  const power = 10 ** Math.floor(Math.log10(part));
  const step = Math.max(least, [1, 2, 5, 10].map((times) => times * power).find((size) => size >= part * 0.999));
  const count = Math.max(1, Math.ceil(peak / step - 1e-9));
  return Array.from({ length: count + 1 }, (_, index) => Number((index * step).toPrecision(6)));
}

// It takes long to be made: no view waits for it that has no plot.
let compact = null;

function scale(values, y, x, anchor, unit) {
  compact ||= new Intl.NumberFormat("en-US", { notation: "compact", maximumSignificantDigits: 4 });
  const text = (at, words) => drawn("text", { x, y: at, "text-anchor": anchor }, words);
  const grid = (value) =>
    anchor === "end"
      ? [drawn("line", { class: "grid", x1: LEFT, x2: RIGHT, y1: y(value).toFixed(1), y2: y(value).toFixed(1) })]
      : [];
  return [
    text(TOP - 12, unit),
    ...values.flatMap((value) => [...grid(value), text((y(value) + 4).toFixed(1), compact.format(value))]),
  ];
}

const told = ({ at, what }) => `${clock(at).slice(0, 8)} ${what}`;

function eventMark(event) {
  const x = shown.x(event.seconds).toFixed(1);
  return drawn(
    "line",
    { class: `event ${event.kind || ""}`, x1: x, x2: x, y1: TOP - 8, y2: TOP + 6 },
    drawn("title", {}, told(event)),
  );
}

// At whole minutes of the reader's clock.
function timeTicks(begins, span, every) {
  const first = new Date(begins * 1000);
  first.setMinutes(Math.ceil(first.getMinutes() / (every / 60)) * (every / 60), 0, 0);
  const made = [];
  for (let at = first.getTime() / 1000; at <= begins + span; at += every) {
    if (at < begins) continue;
    const x = shown.x(at).toFixed(1);
    made.push(
      drawn("line", { class: "grid", x1: x, x2: x, y1: FLOOR, y2: FLOOR + 5 }),
      drawn("text", { x, y: FLOOR + 18, "text-anchor": "middle" }, clock(at * 1000).slice(0, 5)),
    );
  }
  return made;
}

// The point that is looked at: under the pointer, or where keys have gone; -1 if none is.
function looked() {
  const { points, begins, span } = shown;
  const at = pointed == null ? chosen : begins + ((pointed - LEFT) / (RIGHT - LEFT)) * span;
  if (at == null || !points.length) return -1;
  const back = Math.round((ends() - at) / state.step);
  return Math.min(points.length - 1, Math.max(0, points.length - 1 - back));
}

function mark() {
  const index = looked();
  if (index < 0) return [];
  const [point, x] = [shown.points[index], shown.x(timeOf(index)).toFixed(1)];
  const dot = (kind, y) => drawn("circle", { class: kind, cx: x, cy: y.toFixed(1), r: 3 });
  const kinds = point[LOST] ? KINDS : KINDS.slice(0, LOST);
  return [
    drawn("line", { x1: x, x2: x, y1: TOP, y2: FLOOR }),
    dot("waits", shown.area(point[WAITED])),
    ...kinds.map((kind, column) => dot(kind, shown.y(point[column] / state.step))),
  ];
}

function values(index) {
  const point = shown.points[index];
  const time = (at) => clock(at * 1000).slice(0, 8);
  const until = timeOf(index);
  const when = state.step > 1 ? `${time(until - state.step)} to ${time(until)}` : time(until);
  return `${when}: ${rate(point[CAME] / state.step)} items/s came, ${rate(point[WENT] / state.step)} items/s went, ` +
    `${amount(point[LOST])} items were lost, ${amount(point[WAITED])} items waited${near(until)}`;
}

// What happened at about that time, the oldest first.
function near(at) {
  const found = shown.happened.filter(({ seconds }) => Math.abs(shown.x(seconds) - shown.x(at)) <= NEAR);
  return found.reverse().map((event) => `; ${told(event)}`).join("");
}

function reading() {
  const index = looked();
  return index < 0 ? "\u00a0" : values(index);
}

// The plot is a slider through time: what a screen reader says of it. Without a choice, that is the newest point.
function spoken() {
  const last = shown.points.length - 1;
  if (last < 0)
    return { "aria-valuemin": 0, "aria-valuemax": 0, "aria-valuenow": 0, "aria-valuetext": "nothing is known yet" };
  const index = looked() < 0 ? last : looked();
  return {
    "aria-valuemin": timeOf(0),
    "aria-valuemax": timeOf(last),
    "aria-valuenow": timeOf(index),
    "aria-valuetext": values(index),
  };
}

// Follows the pointer and keys in `root`, which stays while the plot in it is made anew.
export function follow(root) {
  const plot = () => root.querySelector("svg.hour");
  const show = () => {
    if (!plot()) return;
    settle(plot().querySelector(".mark"), ...mark());
    settle(root.querySelector("#hour-value"), reading());
    for (const [key, value] of Object.entries(spoken())) plot().setAttribute(key, value);
  };
  const point = (event) => {
    const before = pointed;
    const box = plot()?.contains(event.target) ? plot().getBoundingClientRect() : null;
    pointed = box ? ((event.clientX - box.left) / box.width) * WIDTH : null;
    if (pointed !== before) show();
  };
  root.addEventListener("pointermove", point);
  root.addEventListener("pointerleave", () => { pointed = null; show(); });
  root.addEventListener("focusin", (event) => {
    if (event.target !== plot() || !shown.points.length) return;
    chosen ??= timeOf(looked() < 0 ? shown.points.length - 1 : looked());
    show();
  });
  root.addEventListener("focusout", (event) => {
    if (event.target === plot()) { chosen = null; show(); }
  });
  root.addEventListener("keydown", (event) => {
    const to = event.target === plot() && shown.points.length ? next(event.key) : null;
    if (to == null) return;
    event.preventDefault();
    [chosen, pointed] = [to, null];
    show();
  });
}

const MINUTE_S = 60;

// The time that a key leads to; none for other keys.
function next(key) {
  const [first, last] = [timeOf(0), timeOf(shown.points.length - 1)];
  const step = {
    ArrowLeft: -state.step,
    ArrowDown: -state.step,
    ArrowRight: state.step,
    ArrowUp: state.step,
    PageDown: -MINUTE_S,
    PageUp: MINUTE_S,
    Home: first - last,
    End: last - first,
  }[key];
  return step === undefined
    ? null
    : Math.min(last, Math.max(first, timeOf(looked() < 0 ? shown.points.length - 1 : looked()) + step));
}
