"""Blossom: H on whole families of multisets at once.

H(p) = E[g(L)], L ~ PoissonBinomial(p), is the *blossom* (polar form) of the Bernstein polynomial with coefficients
g(0..K): symmetric, and affine in each p_i. Fixing one voter at probability t maps the coefficients a₀..a_n to
(1−t)a_j + t·a_{j+1}, one de Casteljau step. After i steps with x and s−i with y, entry j of the result is H at
{x^i, y^(s−i), 1^j, 0^(K−s−j)}: every multiset of one layer s in one array.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from darrm_opt.noise import Array, Integers


def step(coefficients: Array, t: float, complement: float) -> Array:
    """Fix one voter at probability ``t`` (``complement`` = 1 − t): the last axis loses one entry."""
    return complement * coefficients[..., :-1] + t * coefficients[..., 1:]


def layers(signed: Array, x: float, y: float, most: int, width: int | None = None) -> Iterator[tuple[int, int, Array]]:
    """Yield (s, first, A) for s = 0..most: A[i, j] = H at {x^nx, y^(s−nx), 1^j, 0^(K−s−j)} with nx = first + i.

    ``width`` keeps only the rows with s − nx ≤ width: those near a face, in O(K²·width).
    """
    # Only nx ≥ s − nx is computed: as x + y = 1, H at the mirrored multiset (nx and ny, ones and zeros exchanged) is
    # −H. All multisets of {0, 1, x, y} take O(K³) time and O(K²) memory, each layer from the one before. The arrays are
    # reused: each is valid until the next is requested (fresh memory for every layer takes four times as long).
    K = signed.size - 1
    width = most if width is None else width
    size = max((min(s // 2, width) + 1) * (K - s + 1) for s in range(most + 1))
    buffers, product = (np.empty(size), np.empty(size)), np.empty(CACHE_ENTRIES + K + 1)
    layer, first = signed[np.newaxis, :], 0
    yield 0, 0, layer
    for s in range(1, most + 1):
        start = max((s + 1) // 2, s - width)
        rows, entries = s - start + 1, K - s + 1
        following = buffers[s % 2][: rows * entries].reshape(rows, entries)
        previous = layer[start - first :]  # nx = start..s−1 take one more y
        batch = max(1, CACHE_ENTRIES // entries)
        for row in range(0, rows - 1, batch):
            _step_into(following[row : min(row + batch, rows - 1)], previous[row : row + batch], y, x, product)
        _step_into(following[-1:], layer[-1:], x, y, product)  # nx = s takes one more x
        layer, first = following, start
        yield s, start, layer


CACHE_ENTRIES = 32_768  # doubles processed at a time, so that they stay in a core's own cache between operations


def _step_into(out: Array, coefficients: Array, t: float, complement: float, product: Array) -> None:
    """Write `step` of ``coefficients`` to ``out``, in place."""
    part = product[: out.size].reshape(out.shape)
    np.multiply(coefficients[:, :-1], complement, out=out)
    np.multiply(coefficients[:, 1:], t, out=part)
    out += part


def at_ends(rows: Array, q: float) -> Array:
    """Return φ = q·A[n₁] + A[n − n₁] of rows A of a layer, by n₁, without voters off 0 or 1 by Δ."""
    values = q * rows
    values += rows[:, ::-1]
    return values


def extremes(layer: Array, q: float) -> tuple[Array, Array]:
    """Return the largest and the smallest φ of each row (`at_ends`), shape (rows,), without storing the others."""
    rows, batch = layer.shape[0], max(1, CACHE_ENTRIES // layer.shape[1])
    most, least = np.empty(rows), np.empty(rows)
    for row in range(0, rows, batch):
        part = slice(row, row + batch)
        values = at_ends(layer[part], q)
        values.max(axis=1, out=most[part])
        values.min(axis=1, out=least[part])
    return most, least


MAX_STORED_ENTRIES = 16_000_000
"""Maximum number of doubles in `stored_layers` (128 MB): all layers up to K of about 570."""


def stored_layers(signed: Array, x: float, y: float, most: int) -> list[tuple[int, int, Array]] | None:
    """Return all `layers` at once, for many searches of one γ; None if they would take too much memory."""
    K = signed.size - 1
    if sum((s // 2 + 1) * (K - s + 1) for s in range(most + 1)) > MAX_STORED_ENTRIES:
        return None
    return [(s, first, layer.copy()) for s, first, layer in layers(signed, x, y, most)]


def mass(probabilities: Array, counts: Integers, ones: Integers, K: int) -> Array:
    """Return the probability mass functions of L for many multisets: shape (vectors, K+1).

    ``counts`` voters, shape (vectors, kinds), have each of the distinct probabilities; ``ones`` always answer 1, the
    rest 0.

    Guarantees: Each row within K·`STEP_ERROR` of exact, in the sum over its entries (a convolution step is a de
    Casteljau step's transpose: the same convex weights, so the same bound; for `_mass_by_convolution` see there).
    """
    if K > MAX_STEPWISE_K:
        rows = [
            _mass_by_convolution(probabilities, row, int(certain), K) for row, certain in zip(counts, ones, strict=True)
        ]
        return np.array(rows).reshape(-1, K + 1)
    masses = np.zeros((counts.shape[0], K + 1))
    masses[np.arange(counts.shape[0]), ones] = 1.0
    for t, trials in zip(probabilities, counts.T, strict=True):
        for trial in range(int(trials.max(initial=0))):
            unfinished = np.flatnonzero(trials > trial)
            part = masses[unfinished]
            next_masses = (1.0 - t) * part
            next_masses[:, 1:] += t * part[:, :-1]
            masses[unfinished] = next_masses
    return masses


MAX_STEPWISE_K = 200  # beyond this K a row is a convolution of binomial masses instead of voter-by-voter steps


def _mass_by_convolution(probabilities: Array, counts: Integers, ones: int, K: int) -> Array:
    """Return one row of `mass`. Ratios from the mode outward err by 4u a step and matter over fewer than K/2 steps."""
    mass = np.ones(1)
    for t, count in sorted(zip(probabilities, counts, strict=True), key=lambda kind: kind[1]):
        mass = np.convolve(mass, _binomial(float(t), int(count)))
    row = np.zeros(K + 1)
    row[ones : ones + mass.size] = mass
    return row


def _binomial(t: float, trials: int) -> Array:
    """Return Pr[Bin(trials, t) = k], shape (trials+1,), with underflow to zero."""
    mode = min(int((trials + 1) * t), trials)
    k = np.arange(trials)
    ratio = (trials - k) / (k + 1) * (t / (1.0 - t))
    mass = np.concatenate([np.cumprod(1.0 / ratio[:mode][::-1])[::-1], [1.0], np.cumprod(ratio[mode:])])
    return np.asarray(mass / mass.sum())
