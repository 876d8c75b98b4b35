// What differs between two texts, line by line, with a little of what is around.

const AROUND = 2;
// Beyond that, comparing takes too long.
const MOST = 2000;

// Pairs of a sign (`+`, `-` or a space) and a line.
export function changes(before, after) {
  if (before.length > MOST || after.length > MOST) return [...before.map((line) => ["-", line]), ...after.map((line) => ["+", line])];
  return near(walk(before, after, longest(before, after)));
}

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
    if (i < before.length && j < after.length && before[i] === after[j]) { lines.push([" ", before[i]]); i += 1; j += 1; }
    else if (j === after.length || (i < before.length && common[i + 1][j] >= common[i][j + 1])) { lines.push(["-", before[i]]); i += 1; }
    else { lines.push(["+", after[j]]); j += 1; }
  }
  return lines;
}

function near(lines) {
  const differs = lines.map(([sign]) => sign !== " ");
  return lines.filter((_, index) => differs.slice(Math.max(0, index - AROUND), index + AROUND + 1).some(Boolean));
}
