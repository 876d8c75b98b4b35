// What differs between two texts, line by line, with a little of what is around.

import { element } from "./dom.js";

const AROUND = 2;
// Beyond that, comparing takes too long.
const MOST = 2000;

// Pairs of a sign (`+`, `-` or a space) and a line.
export function changes(before, after) {
  const most = Math.min(before.length, after.length);
  let [head, tail] = [0, 0];
  while (head < most && before[head] === after[head]) head += 1;
  while (tail < most - head && before.at(-1 - tail) === after.at(-1 - tail)) tail += 1;
  const all = (sign, lines) => lines.map((line) => [sign, line]);
  const [one, other] = [before, after].map((lines) => lines.slice(head, lines.length - tail));
  const isLong = one.length > MOST || other.length > MOST;
  const between = isLong ? [...all("-", one), ...all("+", other)] : walk(one, other, longest(one, other));
  return near([...all(" ", before.slice(0, head)), ...between, ...all(" ", before.slice(before.length - tail))]);
}

// Added lines are insertions, removed ones deletions, for those who see no colours or no signs.
export function shownChanges(lines) {
  const made = ([sign, line]) => element(NAMES[sign], { class: KINDS[sign] }, `${sign} ${line}\n`);
  return element("pre", { class: "diff", tabindex: "0" }, ...lines.map(made));
}

const NAMES = { "+": "ins", "-": "del", " ": "span" };
const KINDS = { "+": "well", "-": "bad", " ": "faint" };

// For each pair of rests, how many lines they have in common, in order.
function longest(before, after) {
  const common = Array.from({ length: before.length + 1 }, () => new Uint16Array(after.length + 1));
  for (let i = before.length - 1; i >= 0; i -= 1) {
    for (let j = after.length - 1; j >= 0; j -= 1) {
      common[i][j] = before[i] === after[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  }
  return common;
}

function walk(before, after, common) {
  const lines = [];
  let [i, j] = [0, 0];
  while (i < before.length || j < after.length) {
    if (i < before.length && j < after.length && before[i] === after[j]) {
      lines.push([" ", before[i]]);
      i += 1;
      j += 1;
    } else if (j === after.length || (i < before.length && common[i + 1][j] >= common[i][j + 1])) {
      lines.push(["-", before[i]]);
      i += 1;
    } else {
      lines.push(["+", after[j]]);
      j += 1;
    }
  }
  return lines;
}

function near(lines) {
  const differs = lines.map(([sign]) => sign !== " ");
  return lines.filter((_, index) => differs.slice(Math.max(0, index - AROUND), index + AROUND + 1).some(Boolean));
}
