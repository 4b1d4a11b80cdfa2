"""Cuts from a coarse lattice: a cheap search that proves nothing.

φ varies slowly with nx and ny (over about √K voters), so the worst multisets with nx and ny on a lattice of a few
voters are nearly the worst of all, at a hundredth of the work. For large K this finds almost every cut; the searches
that prove then find what is left. For Δ > 0 each end's voters are put on their best kind to first order (`kinds`).
"""

from __future__ import annotations

import numpy as np

from darrm_opt.design.blossom import lattice
from darrm_opt.design.constraint import PrivacyConstraint
from darrm_opt.design.corners import ONE, XY, YX, ZERO
from darrm_opt.design.found import Collector, WorstCase
from darrm_opt.design.kinds import Rows, Slopes, choose
from darrm_opt.noise import NoiseFunction


def coarse_search(
    noise: NoiseFunction, constraint: PrivacyConstraint, *, stride: int, above: float, most: int
) -> WorstCase:
    """Return cuts from the lattice of ``stride``; its ``bound`` is an estimate over the lattice, not a proof.

    Args:
        noise: γ.
        constraint: the privacy constraint.
        stride: distance of the lattice's points [voters], at least 2.
        above: multisets with φ above this (to first order in Δ) are reported, the worst of each (nx, ny).
        most: how many at most.
    """
    corners, collector = constraint.corners, Collector(above, most)
    for s, first, layer in lattice(noise.signed, corners.x, corners.y, constraint.affected, stride):
        nx = first + stride * np.arange(layer.shape[0])
        for rows in (Rows(layer, nx, s - nx), Rows(-layer[:, ::-1], s - nx, nx)):
            _offer_rows(rows, constraint, collector)
    return collector.result(0.0, "estimate")


def _offer_rows(rows: Rows, constraint: PrivacyConstraint, collector: Collector) -> None:
    """Offer the worst multiset of every row, to first order."""
    A, q, Delta = rows.values, constraint.q, constraint.corners.Delta
    moving = min(rows.n, constraint.affected - int(rows.nx[0] + rows.ny[0]))
    values = q * A + A[:, ::-1]
    if Delta > 0:
        slopes = Slopes.of(rows, q)
        values += Delta * slopes.gain(rows.n, moving)
    n1 = values.argmax(axis=1)
    best = values[np.arange(n1.size), n1]
    i = np.flatnonzero(best > collector.floor)
    nx, ny, n1, n0 = rows.nx[i], rows.ny[i], n1[i], rows.n - n1[i]
    if Delta > 0:
        counts = choose(slopes, i, n1, rows.n, moving, q, 0.0).counts(nx, ny, n0, n1)
    else:
        counts = np.zeros((i.size, 4), dtype=np.int64)
        for corner, many in ((XY, nx), (YX, ny), (ONE, n1), (ZERO, n0)):
            counts[:, corner] = many
    collector.offer(best[i], counts)
