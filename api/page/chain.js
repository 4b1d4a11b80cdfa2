// The boundary of what a voter that states a privacy profile can do, as `darrm_opt.voters` has it.

/** Returns the largest p at each p′ as corners [p′, p] from (0, 0) to (1, 1), which lines join. */
export function chain(points) {
  const lines = [...points.toReversed().map(([epsilon, delta]) => [Math.exp(epsilon), delta]), [-1, 1]];
  const half = [[0, lines[0][1]]];
  for (let i = 1; i < lines.length; i += 1) {
    const [[slope, height], [next, nextHeight]] = [lines[i - 1], lines[i]];
    const p = (nextHeight - height) / (slope - next);
    half.push([p, height + slope * p]);
  }
  const onLine = half.pop(); // where p + p′ = 1: a corner, unless the line there is its own mirror image
  const middle = lines.at(-2)[0] === 1 ? [] : [onLine];
  const mirrored = half.toReversed().map(([other, p]) => [1 - p, 1 - other]);
  const [first] = half;
  return [...(first[1] > 0 ? [[0, 0]] : []), ...half, ...middle, ...mirrored, ...(first[1] > 0 ? [[1, 1]] : [])];
}
