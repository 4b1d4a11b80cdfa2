"""Separable search: complete worst-case search for Δ > 0 in O(K⁵), where enumeration is O(K⁷).

Of the K voters nx sit at (x,y), ny at (y,x) and n = K − nx − ny elsewhere: n₁ *near 1* — (1,1), (1−Δ,1), (1,1−Δ) —
and n₀ *near 0* — (0,0), (0,Δ), (Δ,0). For a fixed *skeleton* (nx, ny, n₁), p depends on a = #(Δ,0) and a′ = #(1−Δ,1)
only, 1 − p′ on b = #(0,Δ) and b′ = #(1,1−Δ) only, and the one coupling is a + b ≤ n₀, a′ + b′ ≤ n₁. With

    U_N(a, a′) = H at {x^nx, y^ny, Δ^a, (1−Δ)^a′, 1^(N−a′), 0^rest}
    M_N(A, A′) = max of U_N over a ≤ A, a′ ≤ A′                             (a running maximum)

the exact worst case is the maximum over A ≤ n₀, A′ ≤ n₁ of q·M_{n₁}(A, A′) + M_{n₀}(n₁ − A′, n₀ − A): for the best
multiset, A = a and A′ = a′ attain it; and the maximisers of both terms always form a multiset. If a record affects
r < K voters, a + a′ + b + b′ ≤ r − nx − ny couples the two sides as well: the budget is split in every way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from darrm_opt.design.constraint import DOWN, DOWN_FROM_ONE, ONE, UP, UP_TO_ONE, XY, YX, ZERO, PrivacyConstraint
from darrm_opt.design.polar_form import step
from darrm_opt.design.separation.first_order import Rows
from darrm_opt.design.separation.result import MAX_TABLE_ENTRIES, Collector
from darrm_opt.noise import Array, Integers


def search_separable(rows: Rows, constraint: PrivacyConstraint, collector: Collector) -> None:
    """Offer the worst multiset of every skeleton of the given rows (Δ > 0)."""
    if rows.nx.size == 0:
        return
    n = rows.n
    moving = constraint.affected - int(rows.nx[0] + rows.ny[0])
    # Tables grow with moving², so rows are processed in parts that fit into memory.
    part = max(1, MAX_TABLE_ENTRIES // ((n + 1) * (moving + 1) ** 2))
    for start in range(0, rows.nx.size, part):
        block = slice(start, start + part)
        table = _near_end_table(rows.values[block], constraint.corners.Delta, moving)
        for n1 in range(n + 1):
            # Between skeletons: each is quick, but all of them may take minutes.
            collector.tick()
            m0, m1 = min(n - n1, moving), min(n1, moving)
            offer_worst_of_skeleton(
                table[:, n1, : m0 + 1, : m1 + 1],
                table[:, n - n1, : m1 + 1, : m0 + 1],
                Rows(rows.values[block], rows.nx[block], rows.ny[block]),
                (n - n1, n1, moving),
                constraint.q,
                collector,
            )


def search_by_reach(
    rows: Rows, constraint: PrivacyConstraint, collector: Collector, *, settle: Callable[[], bool] = lambda: True
) -> None:
    """Offer the worst multiset of every skeleton of the given rows if all voters may move, in O(n) memory per row.

    Open skeletons are joined if ``settle()`` says so, and otherwise left out at their bounds.

    Source: ours; "Reach" of the documentation's proofs.
    """
    # With h_N the largest U_N(a, a′), φ ≤ q·h_{n₁} + h_{n₀}; if the places at which both are attained obey the
    # coupling, that is the worst of the skeleton. Only otherwise are the two sides joined.
    n, q, Delta = rows.n, constraint.q, constraint.corners.Delta
    # h bounds the blossom of one side over all voters near an end; its mirror image bounds that of the other side. The
    # sum of both bounds every multiset of a skeleton.
    best, place = _reach(rows.values, Delta, collector)
    n1 = np.arange(n + 1)
    a, a1 = np.divmod(place, n + 1)
    b1, b = np.divmod(place[:, ::-1], n + 1)
    values = q * best + best[:, ::-1]
    # If the voters that attain both maxima fit together, they are a multiset, and the bound is its value.
    is_multiset = (a + b <= n - n1) & (a1 + b1 <= n1)
    i, k = np.nonzero(is_multiset & (values > collector.floor))
    counts = np.zeros((i.size, 8), dtype=np.int64)
    counts[:, XY], counts[:, YX], counts[:, UP], counts[:, DOWN] = rows.nx[i], rows.ny[i], b[i, k], a[i, k]
    counts[:, UP_TO_ONE], counts[:, DOWN_FROM_ONE] = a1[i, k], b1[i, k]
    counts[:, ZERO], counts[:, ONE] = n - k - a[i, k] - b[i, k], k - a1[i, k] - b1[i, k]
    collector.offer(values[i, k], counts)
    for row, ones in zip(*np.nonzero(~is_multiset), strict=True):
        if values[row, ones] <= collector.level or not settle():
            collector.leave_out(float(values[row, ones]))
            continue
        collector.tick()
        mine, theirs = _skeleton_tables(rows.values[row], Delta, int(ones))
        part = slice(row, row + 1)
        one_row = Rows(rows.values[part], rows.nx[part], rows.ny[part])
        ends = (n - int(ones), int(ones), n)
        offer_worst_of_skeleton(mine[np.newaxis], theirs[np.newaxis], one_row, ends, q, collector)


def _blossoms(rows: Array, Delta: float, moving: int) -> Iterator[tuple[int, int, Array]]:
    """Yield (a, a′, the entries U_N(a, a′) of N = a′, …, n − a) of rows for a + a′ ≤ moving."""
    coefficients_a = rows
    for a in range(moving + 1):
        coefficients = coefficients_a
        for a1 in range(moving - a + 1):
            yield a, a1, coefficients
            coefficients = step(coefficients, 1.0 - Delta, Delta)
        coefficients_a = step(coefficients_a, Delta, 1.0 - Delta)


def _reach(rows: Array, Delta: float, collector: Collector) -> tuple[Array, Integers]:
    """Return h_N of each row, and the first (a, a′) that attains it as a·(n+1) + a′, both of shape (rows, n+1)."""
    best, place = rows.copy(), np.zeros(rows.shape, dtype=np.int64)
    for a, a1, coefficients in _blossoms(rows, Delta, rows.shape[-1] - 1):
        if a1 == 0:
            collector.tick()
        part = np.s_[..., a1 : a1 + coefficients.shape[-1]]
        place[part] = np.where(coefficients > best[part], a * rows.shape[-1] + a1, place[part])
        best[part] = np.maximum(best[part], coefficients)
    return best, place


def _skeleton_tables(row: Array, Delta: float, n1: int) -> tuple[Array, Array]:
    """Return U_{n₁}(a, a′) and U_{n₀}(b′, b) of one row."""
    n0 = row.size - 1 - n1
    mine, theirs = np.empty((n0 + 1, n1 + 1)), np.empty((n1 + 1, n0 + 1))
    for a, a1, coefficients in _blossoms(row, Delta, row.size - 1):
        for table, N in ((mine, n1), (theirs, n0)):
            if a < table.shape[0] and a1 < table.shape[1]:
                table[a, a1] = coefficients[N - a1]
    return mine, theirs


def _near_end_table(rows: Array, Delta: float, moving: int) -> Array:
    """Return U[i, N, a, a′] for every row i; −inf if a > n − N, a′ > N or a + a′ > moving."""
    n = rows.shape[1] - 1
    table = np.full((rows.shape[0], n + 1, moving + 1, moving + 1), -np.inf)
    for a, a1, coefficients in _blossoms(rows, Delta, moving):
        table[:, a1 : n - a + 1, a, a1] = coefficients
    return table


def offer_worst_of_skeleton(
    on_data: Array, on_neighbour: Array, rows: Rows, ends: tuple[int, int, int], q: float, collector: Collector
) -> None:
    """Offer the worst multiset of one skeleton of each row, from its two blossoms.

    ``on_data``: U_{n₁}(a, a′), ``on_neighbour``: U_{n₀}(b′, b), per row; ``ends``: n₀, n₁ and how many voters may move.
    """
    count = on_data.shape[0]
    n0, n1, _ = ends
    # the best value of each row over all splits of the budget, and its place: (A, A′, σ, σ′)
    best = np.full(count, -np.inf)
    split = np.zeros((count, 4), dtype=np.int64)
    for budget, budget_prime, p_part, p_prime_part in _splits(on_data, on_neighbour, *ends):
        # The two blossoms share only the numbers of voters that each may take at either end.
        joint = (q * p_part + p_prime_part).reshape(count, -1)
        indices = joint.argmax(axis=1)
        values = joint[np.arange(count), indices]
        is_better = values > best
        best[is_better] = values[is_better]
        A, A1 = np.divmod(indices, on_data.shape[2])
        split[is_better] = np.stack(np.broadcast_arrays(A, A1, budget, budget_prime), axis=1)[is_better]
    # a maximum over a ≤ A, a′ ≤ A′ does not give its place: look it up for the few rows that matter
    open_rows = np.flatnonzero(best > collector.floor)
    counts = np.zeros((open_rows.size, 8), dtype=np.int64)
    for row, i in zip(counts, open_rows, strict=True):
        A, A1, budget, budget_prime = split[i]
        a, a1 = _argmax_within(on_data[i], A, A1, budget)
        b1, b = _argmax_within(on_neighbour[i], n1 - A1, n0 - A, budget_prime)
        row[[XY, YX, UP, DOWN, UP_TO_ONE, DOWN_FROM_ONE]] = rows.nx[i], rows.ny[i], b, a, a1, b1
        row[ZERO], row[ONE] = n0 - a - b, n1 - a1 - b1
    collector.offer(best[open_rows], counts)


def _splits(
    on_data: Array, on_neighbour: Array, n0: int, n1: int, moving: int
) -> Iterator[tuple[int, int, Array, Array]]:
    """Yield (σ, σ′, M_{n₁}(A, A′), M_{n₀}(n₁ − A′, n₀ − A)), the first with a + a′ ≤ σ, the second with b + b′ ≤ σ′."""
    # With everyone affected (moving = n₀ + n₁) the sums never bind, and one split suffices.
    most0, most1 = on_data.shape[1] - 1, on_data.shape[2] - 1
    room1 = np.minimum(n1 - np.arange(most1 + 1), most1)
    room0 = np.minimum(n0 - np.arange(most0 + 1), most0)
    grid_index = np.ix_(np.arange(on_data.shape[0]), room1, room0)
    if moving >= n0 + n1:
        yield moving, moving, _running_maximum(on_data), _running_maximum(on_neighbour)[grid_index].swapaxes(1, 2)
        return
    total = np.add.outer(np.arange(most0 + 1), np.arange(most1 + 1))
    for budget in range(moving + 1):
        p_part = _running_maximum(np.where(total <= budget, on_data, -np.inf))
        p_prime_part = _running_maximum(np.where(moving - budget >= total.T, on_neighbour, -np.inf))
        yield budget, moving - budget, p_part, p_prime_part[grid_index].swapaxes(1, 2)


def _running_maximum(table: Array) -> Array:
    return np.maximum.accumulate(np.maximum.accumulate(table, axis=1), axis=2)


def _argmax_within(table: Array, A: int, A1: int, total: int) -> tuple[int, int]:
    """Return the (a, a′) that attains M(A, A′) with a + a′ ≤ total."""
    box = table[: A + 1, : A1 + 1]
    is_allowed = np.add.outer(np.arange(box.shape[0]), np.arange(box.shape[1])) <= total
    a, a1 = np.unravel_index(int(np.where(is_allowed, box, -np.inf).argmax()), box.shape)
    return int(a), int(a1)
