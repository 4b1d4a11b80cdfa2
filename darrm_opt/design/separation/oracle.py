"""Separation oracle: the worst corner multiset for a given γ, with a proven bound on φ.

Δ = 0. One layer of the blossom holds H for all multisets with nx + ny = s, so φ over the whole layer is
q·A[nx, n₁] + A[nx, n − n₁], n = K − s: complete in O(K³) time and O(K²) memory, for any ``affected``.

Mirror. Exchanging the two answers (p → 1 − p, p′ → 1 − p′) turns φ into −φ, since H(1−p) = −H(p). So a layer is
computed for nx ≥ ny only, and the worst case among the mirrored multisets is minus the smallest φ among those.

Δ > 0. See `separable` (complete, O(K⁵)) and `pruned` (about O(K³)); for γ that never decreases away from K/2 see
`monotone` (O(K²)).
"""

from __future__ import annotations

import numpy as np

from darrm_opt.design.constraint import DOWN_FROM_ONE, ONE, XY, YX, ZERO, Counts, PrivacyConstraint
from darrm_opt.design.kernel.library import kernel
from darrm_opt.design.polar_form import at_ends, extremes, layers
from darrm_opt.design.profile_vertices import ProfileVertices
from darrm_opt.design.separation.arcs import search_profile
from darrm_opt.design.separation.compiled import search_columns
from darrm_opt.design.separation.monotone import search_monotone
from darrm_opt.design.separation.result import Collector, Indices, Settle, WorstCase, search_error
from darrm_opt.noise import Array, NoiseFunction
from darrm_opt.rounding import check_arithmetic

ERRORS_BELOW_LIMIT = 100
"""Number of rounding errors below the limit at which a proof stops searching: a solver's answer leaves some 20."""


def worst_case(
    noise: NoiseFunction,
    constraint: PrivacyConstraint,
    *,
    above: float | None = None,
    most: int = 0,
    settle: Settle = "always",
    stored: list[tuple[int, int, Array]] | None = None,
    known: Counts | None = None,
    deadline: float = np.inf,
) -> WorstCase:
    """Return the worst of all multisets, by the fastest method that proves its bound.

    Args:
        noise: γ, for the constraint's K.
        constraint: the privacy constraint.
        above: multisets with φ above this are reported as cuts; others may be left out once that is proved, so this is
            also the least bound returned. Default: the limit minus `ERRORS_BELOW_LIMIT` rounding errors, so that
            multisets that a solver and `repair` leave near the limit are examined and named.
        most: maximum number of cuts.
        settle: when the multisets that `pruned` leaves open are searched completely, if affordable.
        stored: the layers of ``noise``, if the caller searches it more than once.
        known: bad multisets of a similar γ: for voters with a profile, a search for cuts starts there too.
        deadline: when to stop [s], by `time.perf_counter`.

    Guarantees:
        ``bound`` ≥ φ at every admissible (p, p′), for γ exactly as stored.

    Raises:
        TimeLimitReached: the deadline has passed.
        UnsafeArithmetic: the bounds on rounding do not hold in this thread.

    Source: Lemma 3.4 of the paper; the searches are ours.
    """
    check_arithmetic()
    # γ = 0 has φ = 0 everywhere; a solve begins with it.
    if not most and not noise.values.any():
        return worst_case_of_no_release(constraint)
    error = (search_error if constraint.corners.Delta > 0 else PrivacyConstraint.error)(
        constraint, float(noise.values.max())
    )
    collector = Collector(constraint.limit - ERRORS_BELOW_LIMIT * error if above is None else above, most, deadline)
    if isinstance(constraint.corners, ProfileVertices):
        return search_profile(noise, constraint, collector, settle=settle, known=known)
    # First, as it is O(K²) for any Δ (docs/proofs.md, "Monotone γ"): no other search is faster.
    if noise.is_monotone:
        return search_monotone(noise.signed, constraint, collector)
    library = kernel()
    if library is not None:
        search_columns(library, noise.signed, constraint, collector, settle=settle)
        return collector.result(error, "complete" if collector.is_complete else "first-order")
    if constraint.corners.Delta == 0:
        search_layers(noise, constraint, collector, stored=stored)
        return collector.result(error, "complete")
    # Δ > 0 without the compiled kernel: the reference that the kernel is tested against.
    from darrm_opt.design.separation.pruned import search_pruned

    return search_pruned(noise.signed, constraint, collector, settle=settle, stored=stored)


def worst_case_of_no_release(constraint: PrivacyConstraint) -> WorstCase:
    """Return the worst case of γ = 0, a fair coin for any votes: φ = 0 exactly at every multiset."""
    counts = np.zeros(len(constraint.corners.labels), dtype=np.int64)
    counts[DOWN_FROM_ONE if constraint.corners.Delta > 0 else ONE] = constraint.affected  # with a profile, φ = 0 too
    counts[ZERO] = constraint.K - constraint.affected
    return WorstCase(0.0, 0.0, counts, np.empty((0, counts.size), dtype=np.int64), "monotone")


def worst_case_near_faces(
    noise: NoiseFunction,
    constraint: PrivacyConstraint,
    *,
    above: float,
    most: int,
    spacing: int = 1,
    known: Counts | None = None,
    deadline: float = np.inf,
) -> WorstCase:
    """Search only multisets with nx = 0 or ny = 0, in O(K²): cheap cuts, nothing proved (method "estimate").

    If many voters are off their ends, so that a whole search of the faces takes O(K⁴), the kernel searches in O(K³)
    only multisets in which one kind of such voters affects p and one kind p′. With ``spacing`` it searches only every
    spacing-th column. NumPy searches all.
    """
    # Almost every binding multiset has its undecided voters all at (x, y) or all at (y, x), and those off their ends on
    # one or two kinds.
    collector, library = Collector(above, most, deadline), kernel()
    if isinstance(constraint.corners, ProfileVertices):
        return search_profile(noise, constraint, collector, settle="never", known=known)
    if library is not None:
        search_columns(library, noise.signed, constraint, collector, settle="one kind", spacing=spacing)
    elif constraint.corners.Delta == 0:
        search_layers(noise, constraint, collector, 0)
    else:
        from darrm_opt.design.separation.pruned import search_pruned

        search_pruned(noise.signed, constraint, collector, settle="never", width=0)
    return collector.result(0.0, "estimate")


def search_layers(
    noise: NoiseFunction,
    constraint: PrivacyConstraint,
    collector: Collector,
    width: int | None = None,
    stored: list[tuple[int, int, Array]] | None = None,
) -> None:
    """Offer the worst multiset for every (nx, ny), or for those with min(nx, ny) ≤ width; Δ = 0."""
    corners = constraint.corners
    for s, first, layer in stored or layers(noise.signed, corners.x, corners.y, constraint.affected, width):
        collector.tick()
        largest, least = extremes(layer, constraint.q)
        for values, mirrored in ((largest, False), (-least, True)):
            rows = np.flatnonzero(values > collector.floor)
            if rows.size:
                row_values = at_ends(layer[rows], constraint.q)
                n1 = row_values.argmin(axis=1) if mirrored else row_values.argmax(axis=1)
                collector.offer(values[rows], _stationary(first + rows, s, n1, constraint.K, mirrored=mirrored))


def _stationary(nx: Indices, s: int, n1: Indices, K: int, *, mirrored: bool) -> Counts:
    counts = np.zeros((nx.size, 4), dtype=np.int64)
    order = [YX, XY, ZERO, ONE] if mirrored else [XY, YX, ONE, ZERO]
    for column, voters in zip(order, (nx, s - nx, n1, K - s - n1), strict=True):
        counts[:, column] = voters
    return counts
