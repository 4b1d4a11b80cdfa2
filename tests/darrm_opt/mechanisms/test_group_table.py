"""Releases by a table of groups: exact draws, and totals, joint and per group, against all corners."""

from __future__ import annotations

import math
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cases import for_each
from support.group_exact import Enumeration, Group, votes_of
from support.refusals import refused

from darrm_opt import Privacy
from darrm_opt.accounting import PrivacyBudget
from darrm_opt.accounting.accounts import compose_models
from darrm_opt.accounting.interop import as_pld, renyi_divergences
from darrm_opt.accounting.sampling import Sampling
from darrm_opt.mechanisms.table import GroupTableMechanism, TableMechanism, least_private
from darrm_opt.noise import Array
from darrm_opt.problem import NOT_PRIVATE, Problem
from darrm_opt.randomness import RandomSource
from darrm_opt.release import BudgetSpent, PrivateVote, ReleaseLog
from darrm_opt.tables.problem import partition_cells
from darrm_opt.tables.solver import solve_table
from darrm_opt.tables.table import Table

CASES: list[tuple[int, list[Group], float, float, int]] = [
    (2, [(2, 0.1, 0.0), (2, 0.5, 0.0)], 0.6, 0.0, 4),
    (3, [(2, 0.1, 0.0), (1, 0.7, 0.0)], 0.6, 0.0, 2),
    (2, [(2, 0.2, 1e-2), (1, 0.5, 0.0)], 0.5, 2e-2, 2),
    (2, [(1, 0.3, 0.0), (2, math.inf, 0.0)], 0.8, 0.1, 1),
]


def mechanism_of(case: tuple[int, list[Group], float, float, int], *, fresh: bool) -> GroupTableMechanism:
    classes, groups, epsilon, delta, affected = case
    problem = Problem(groups=groups, target=Privacy(epsilon, delta), affected=affected, classes=classes)
    return GroupTableMechanism(problem, solve_table(problem).table, fresh=fresh)


def one_group_moves(every: Enumeration, number: int) -> list[int]:
    """Return the corners at which only voters of one group move."""

    def moves(g: int, chosen: tuple[int, ...]) -> bool:
        return any(every.pairs[g][i][0] != every.pairs[g][i][1] for i in chosen)

    return [
        place
        for place, corner in enumerate(every.corners)
        if not any(moves(g, chosen) for g, chosen in enumerate(corner) if g != number)
    ]


def outputs(mechanism: GroupTableMechanism, every: Enumeration) -> Array:
    """Return the probabilities of the outputs at each count."""
    return np.array([[float(x) for x in mechanism.table.probabilities(counts)] for counts in every.counts])


def transcripts(every: Enumeration, corner: int, table: Array, *, fresh: bool) -> list[list[float]]:
    """Return the laws of two releases on both sides of a corner; if trained once, both have the same votes."""
    laws = []
    for side in (every.before[corner], every.after[corner]):
        if fresh:
            one = side @ table
            laws.append([float(a * b) for a, b in product(one, one)])
        else:
            laws.append(np.einsum("n,no,nq->oq", side, table, table).ravel().tolist())
    return laws


@for_each("case", CASES)
def test_the_total_of_a_group_covers_its_corners(case: tuple[int, list[Group], float, float, int]) -> None:
    classes, groups, _, delta, affected = case
    mechanism, every = mechanism_of(case, fresh=True), Enumeration.of(groups, classes, affected)
    for number in range(len(groups)):
        told = mechanism.group(number).event
        table = outputs(mechanism, every)
        places = one_group_moves(every, number)
        p, q = every.before[places] @ table, every.after[places] @ table
        worst = float(np.maximum(p - math.exp(told.epsilon) * q, 0).sum(axis=1).max())
        assert told.delta == delta
        assert worst <= delta + 1e-12
        if told.epsilon > 1e-6:  # and is tight unless the models bound it
            less = float(np.maximum(p - math.exp(told.epsilon - 1e-6) * q, 0).sum(axis=1).max())
            own = groups[number][1] * min(groups[number][0], affected)
            assert less > delta or told.epsilon == pytest.approx(own)


@for_each("fresh", [True, False])
@for_each("case", CASES)
def test_totals_of_two_releases_cover_every_corner(
    case: tuple[int, list[Group], float, float, int], fresh: bool
) -> None:
    classes, groups, _, delta, affected = case
    mechanism, every = mechanism_of(case, fresh=fresh), Enumeration.of(groups, classes, affected)
    at, table = max(3 * delta, 0.03 if delta else 0.0), outputs(mechanism, every)
    whole = list(range(len(every.corners)))
    asked = [(mechanism.cost(2, at), whole)]
    asked += [(mechanism.group_cost(g, 2, at), one_group_moves(every, g)) for g in range(len(groups))]
    for cost, corners in asked:
        for corner in corners:
            p, q = transcripts(every, corner, table, fresh=fresh)
            spent = sum(max(a - math.exp(min(cost.epsilon, 500)) * b, 0.0) for a, b in zip(p, q, strict=True))
            assert spent <= at + 1e-12
        assert cost.epsilon <= asked[0][0].epsilon + 1e-9


def most_adaptive(pairs: np.ndarray, epsilon: float) -> float:
    """Return the largest δ of two releases, the second pair of laws chosen after the first answer."""
    p, q = pairs[:, 0], pairs[:, 1]
    scale = math.exp(epsilon)

    def second(a: float, b: float) -> float:
        return float(np.maximum(a * p - scale * b * q, 0).sum(axis=1).max())

    return max(sum(second(a, b) for a, b in zip(*pair, strict=True)) for pair in pairs.tolist())


def shown_pairs(every: Enumeration, mechanism: GroupTableMechanism, affected: int, *, fresh: bool) -> np.ndarray:
    """Return pairs of laws of one release: at all corners, or at all fixed votes and their neighbours."""
    table = outputs(mechanism, every)
    if fresh:
        pairs = np.stack([every.before @ table, every.after @ table], axis=1)
    else:
        votes = np.array(every.counts)
        moved = np.maximum(votes[:, None] - votes, 0).sum(axis=(2, 3))
        left, right = np.nonzero(moved <= affected)
        pairs = np.stack([table[left], table[right]], axis=1)
    return pairs


@for_each("fresh", [True, False])
@for_each("case", [case for case in CASES if case[0] == 2])
def test_two_bits_cost_the_loss_of_an_adaptive_adversary(
    case: tuple[int, list[Group], float, float, int], fresh: bool
) -> None:
    classes, groups, _, delta, affected = case
    mechanism, every = mechanism_of(case, fresh=fresh), Enumeration.of(groups, classes, affected)
    pairs = shown_pairs(every, mechanism, affected, fresh=fresh)
    at = max(3 * delta, 0.03)
    found = mechanism.cost(2, at).epsilons["bits"]
    assert most_adaptive(pairs, found) <= at + 1e-12
    assert found < 1e-6 or most_adaptive(pairs, found * 0.99) > at


class _Places(RandomSource):
    """A source that returns given places, those at which the output changes."""

    def __init__(self, places: list[int]) -> None:
        self.places = places

    def octets(self, count: int) -> bytes:
        raise NotImplementedError

    def below(self, n: int) -> int:
        place = self.places.pop(0)
        assert 0 <= place < n
        return place


def test_draws_have_exactly_the_probabilities_of_the_table() -> None:
    mechanism = mechanism_of(CASES[1], fresh=False)
    for first, second in product(votes_of(2, 3), votes_of(1, 3)):
        chances = mechanism.table.probabilities([first, second])
        denominator = mechanism.table.denominator
        ends = np.cumsum([0, *(int(chance * denominator) for chance in chances)], dtype=object).tolist()
        assert ends[-1] == denominator
        for output, (start, end) in enumerate(pairwise(ends)):
            if end > start:
                source = _Places([start, end - 1])
                assert [mechanism.draw((*first, *second), source) for _ in range(2)] == [output, output]


def test_a_table_of_groups_is_refused_for_equal_voters_and_conversely() -> None:
    mechanism = mechanism_of(CASES[0], fresh=False)
    with refused("table"):
        TableMechanism(mechanism.problem, mechanism.table)
    alike = Problem(4, NOT_PRIVATE, mechanism.problem.target, 1, classes=2)
    with refused("table"):
        GroupTableMechanism(alike, Table(partition_cells(alike), [0.0] * len(partition_cells(alike).owners)))


def test_columns_are_in_the_order_of_the_groups() -> None:
    mechanism = mechanism_of(CASES[1], fresh=False)
    assert mechanism.count(np.array([[2, 0, 1]])).tolist() == [[1, 0, 1, 0, 1, 0]]
    with refused("counts"):
        mechanism.table.cells.find([[[1, 0, 0], [1, 0, 0]]])


def test_a_log_reports_the_spent_privacy_of_each_group(tmp_path: Path) -> None:
    solution = solve_table(Problem(groups=[(2, 0.1), (1, 0.7)], target=Privacy(0.6), classes=3))
    path = tmp_path / "releases.log"
    log = ReleaseLog.create(path, solution, budget=Privacy(1.2), fresh=True)
    vote = PrivateVote(solution, log, fresh=True)
    vote.release_many([[0, 1, 2], [2, 2, 2]])
    with pytest.raises(BudgetSpent):
        vote.release([0, 0, 0])
    again = ReleaseLog(path)
    spent = [cost.epsilon for cost in again.group_costs(again.spent, 0.0)]
    assert again.cost(2, 0.0).epsilon == pytest.approx(1.2)
    assert spent[0] < spent[1] <= 1.2 + 1e-12
    assert again.mechanism == log.mechanism
    with refused("fresh"):
        ReleaseLog.create(tmp_path / "other.log", solution, queries=3).check_is_for(vote.mechanism)


def test_models_trained_once_are_charged_once() -> None:
    mechanism = mechanism_of((2, [(2, 0.1, 0.0), (2, 0.5, 0.0)], 0.6, 0.0, 3), fresh=False)
    assert mechanism.cost(1000, 0.0).epsilon == pytest.approx(0.5 + 0.5 + 0.1)
    assert mechanism.group_cost(0, 1000, 0.0).epsilon == pytest.approx(0.2)
    budget = PrivacyBudget(Privacy(1.5))
    PrivateVote(mechanism, budget).release_many([[0, 1, 0, 1]] * 3)
    assert budget.spent.epsilon == pytest.approx(1.5)  # three models, as private as the least private one
    with refused("sampling"):
        mechanism.cost(1, 0.0, Sampling(1000, 10))


def test_a_budget_is_charged_the_loss_of_one_of_several_releases() -> None:
    """Voters trained once count as not private from the second release on; here some always do."""
    problem = Problem(groups=[(3, 0.5), (2, math.inf)], target=Privacy(0.8, 1e-4), affected=1)
    mechanism = GroupTableMechanism(problem, solve_table(problem).table)
    assert mechanism.models is None
    budget = PrivacyBudget(Privacy(100.0, 1e-2))
    PrivateVote(mechanism, budget).release_many([[0] * 5] * 2)
    assert budget.spent.epsilon >= mechanism.cost(2, 0.0).epsilon > 2 * 0.8
    many, orders = mechanism.bounds(2)[0][0].bound(), np.array([2.0, 6.0])
    assert many is not None
    loss = mechanism.cost(2, 0.0).epsilon / 2  # no divergence is above the largest loss
    assert np.all(renyi_divergences(mechanism, None, orders) >= np.minimum(many.renyi(orders), loss * (1 - 1e-9)))
    with refused("sampling"):
        as_pld(mechanism, sampling=Sampling(1000, 10))
    fresh = PrivacyBudget(Privacy(100.0, 1e-2))
    PrivateVote(solve_table(problem), fresh, fresh=True).release_many([[0] * 5] * 2)
    assert fresh.events == {Privacy(0.8, 1e-4): 2}


def test_a_log_with_samples_is_refused_for_a_table_of_groups(tmp_path: Path) -> None:
    solution = solve_table(Problem(groups=[(3, 0.5), (2, 0.1)], target=Privacy(0.8, 1e-4), affected=1))
    limits: list[dict[str, Any]] = [{"budget": Privacy(2.0, 1e-3)}, {"queries": 3}]
    for limit in limits:
        with refused("sampling"):
            ReleaseLog.create(tmp_path / "log", solution, fresh=True, sampling=Sampling(1000, 10), **limit)


def test_votes_with_tiny_probabilities_have_no_laws() -> None:
    problem = Problem(groups=[(30, 20.0), (2, 1.0)], target=Privacy(2.0), affected=1)
    mechanism = GroupTableMechanism(problem, solve_table(problem).table)
    assert mechanism.everyone.laws is None  # probabilities that underflow have no relative precision
    assert mechanism.cost(5, 0.0).epsilon > 2.0


def test_the_least_private_voters_cost_at_least_as_much_as_any_choice() -> None:
    voters: list[tuple[Privacy, int]] = [(Privacy(0.5, 0.0), 2), (Privacy(0.2, 0.01), 2), (Privacy(0.1, 0.0), 1)]
    chosen = least_private(voters, 2)
    worst = compose_models(chosen, 0.05).epsilon
    options: list[dict[Privacy, int]] = [{voters[0][0]: 2}, {voters[0][0]: 1, voters[1][0]: 1}, {voters[1][0]: 2}]
    assert all(compose_models(option, 0.05).epsilon <= worst for option in options)
