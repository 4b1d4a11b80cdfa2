"""Is this γ private? The certificate of `darrm solve`, verified in exact fractions.

    python check_gamma.py answer.json

One file to read, or to copy beside a paper: no code of darrm-opt, and no search but trying every multiset of corners
(two seconds for K = 15 with Delta > 0, one for K = 35 with Delta = 0). Exit status: 0 private, 1 not proved.

K voters answer 0 or 1 independently; voter i says 1 with probability p_i on a dataset and p'_i on its neighbour, and
each pair lies in F = {p <= e^epsilon p' + Delta, p' <= e^epsilon p + Delta, the same for 1-p, 1-p'}. With l ones the
release is their majority with probability gamma(l), else a fair coin. With g(l) = sign(l - K/2) gamma(l), H(p) = E
g(L) and c = e^target it is (target, delta)-DP if f = H(p) + c H(1 - p') <= c - 1 + 2 delta for all pairs. f is affine
in each pair, so it is largest where every voter is at a corner of F: (0,0), (1,1), (x,y), (y,x), (0,Delta),
(Delta,0), (1-Delta,1), (1,1-Delta), with x = (e^epsilon + Delta)/(e^epsilon + 1), y = 1 - x; voters that the record
does not influence are at (0,0) or (1,1).
"""

import json
import sys
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from math import ceil
from pathlib import Path

Row = list[Fraction]

GRID = 2**80  # e^target is rounded down to a multiple of 1/GRID, x up: the private side


def exp_bounds(t: Fraction) -> tuple[Fraction, Fraction]:
    """Return fractions on both sides of e^t, t >= 0: a Taylor sum, and the same with a bound on its tail."""
    halvings, n, low, term = ceil(t).bit_length(), 0, Fraction(1), Fraction(1)
    t /= 2**halvings  # below 1
    while term * GRID**2 > 1:
        n += 1
        term *= t / n
        low += term
    high = low + term * t / (n + 1 - t)
    for _ in range(halvings):
        low, high = Fraction(int(low**2 * GRID**2), GRID**2), Fraction(ceil(high**2 * GRID**2), GRID**2)
    return low, high


def step(t: Fraction, a: Row) -> Row:
    """Fix one voter at probability t."""
    return [(1 - t) * low + t * high for low, high in pairwise(a)]


def powers(t: Fraction, a: Row, count: int) -> list[Row]:
    """Return a after 0, 1, ..., count voters were fixed at t, as far as there are voters."""
    out = [a]
    while len(out) <= count and len(out[-1]) > 1:
        out.append(step(t, out[-1]))
    return out


def is_private(
    K: int, r: int, epsilon: Fraction | None, Delta: Fraction, target: Fraction, delta: Fraction, gamma: Row
) -> bool:
    """Return whether gamma(0..K) is proved private; epsilon = None: the voters are not private."""
    if len(gamma) != K + 1 or gamma != gamma[::-1] or not all(0 <= value <= 1 for value in gamma):
        return False
    if not (K >= 1 and 0 <= r <= K and target >= 0 and 0 <= delta <= 1 and 0 <= Delta <= 1):
        return False
    c = Fraction(int(exp_bounds(target)[0] * GRID), GRID)
    if epsilon is None:
        x, Delta = Fraction(1), Fraction(0)
    else:
        E = exp_bounds(epsilon)[1]
        x = Fraction(ceil((E + Delta) / (E + 1) * GRID), GRID)
    limit = c - 1 + 2 * delta
    g = [((2 * l > K) - (2 * l < K)) * gamma[l] for l in range(K + 1)]
    for nx, at_x in enumerate(powers(x, g, r)):  # nx voters at (x,y), ny at (y,x), n elsewhere, w of which may move
        for ny, at_y in enumerate(powers(1 - x, at_x, r - nx)):
            n, w = K - nx - ny, r - nx - ny if Delta else 0
            table = [powers(1 - Delta, row, w - i) for i, row in enumerate(powers(Delta, at_y, w))]
            scaled = [[[c * value for value in row] for row in rows] for rows in table]
            if any(value > limit for value in values(table, scaled, n, w)):
                return False
    return True


def values(table: list[list[Row]], scaled: list[list[Row]], n: int, w: int) -> Iterator[Fraction]:
    """Yield f for each way to place n voters near 0 and near 1, of which w may move off (0,0) and (1,1)."""
    for n1 in range(n + 1):
        n0 = n - n1
        for down in range(min(n0, w) + 1):  # (Delta, 0)
            for up_to_one in range(min(n1, w - down) + 1):  # (1 - Delta, 1)
                on_data = table[down][up_to_one][n1 - up_to_one]
                remaining = w - down - up_to_one
                for from_one in range(min(n1 - up_to_one, remaining) + 1):  # (1, 1 - Delta)
                    for up in range(min(n0 - down, remaining - from_one) + 1):  # (0, Delta)
                        yield on_data + scaled[from_one][up][n0 - up]


def main() -> int:
    """Check the answer that is named on the command line."""
    answer = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"), parse_float=str)  # decimals as they are written
    problem = answer["problem"]
    Delta, target, delta = (Fraction(problem[name]) for name in ("Delta", "target_epsilon", "delta"))
    epsilon = None if problem["epsilon"] == "inf" else Fraction(problem["epsilon"])
    gamma = [Fraction(float(value)) for value in answer["gamma"]]  # the doubles that are stored
    private = is_private(problem["K"], problem["affected"], epsilon, Delta, target, delta, gamma)
    print("private" if private else "not proved")
    return 0 if private else 1


if __name__ == "__main__":
    sys.exit(main())
