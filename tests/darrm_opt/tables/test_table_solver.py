"""The optimal table against enumeration, published values, relations and extremes."""

from __future__ import annotations

import math
import re
from itertools import pairwise

import numpy as np
import pytest
from support.cases import for_each
from support.paths import ROOT
from support.plurality_exact import alike, favoured_law, neighbours, optimum, vote_counts, worst_excess
from support.refusals import refused, refuses

from darrm_opt import Privacy, Problem, solve
from darrm_opt.design.objective import histogram
from darrm_opt.design.solution import Status
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms import mechanism_class
from darrm_opt.planning.table_baselines import table_baselines, tables
from darrm_opt.plurality import (
    Dirichlet,
    Favoured,
    PastVotes,
    PluralityObjective,
    TableSolution,
    calibrate_mechanism,
    parse_prior,
    partition_count,
    solve_table,
    verify_table,
)
from darrm_opt.problem import NOT_PRIVATE
from darrm_opt.tables import edge_program
from darrm_opt.tables.edge_program import EdgeProgram
from darrm_opt.tables.objective import utility
from darrm_opt.tables.problem import Histograms, changes, histograms, partition_cells, partitions

ISSUE = Favoured((0.4, 0.5, 0.6, 0.7, 0.8, 0.9))


# ------------------------------------------------------------------------------ published and known values


@pytest.mark.parametrize(
    ("epsilon", "delta", "expected"),
    [
        (0.2676, 3e-4, {"lp": 0.640, "permute_and_flip": 0.616, "exponential": 0.573, "gnmax": 0.561}),
        (1.0, 1e-5, {"lp": 0.901, "permute_and_flip": 0.887, "exponential": 0.838, "gnmax": 0.770}),
    ],
)
def test_values_of_one_release_are_the_published_ones(epsilon: float, delta: float, expected: dict[str, float]) -> None:
    problem = Problem(11, NOT_PRIVATE, Privacy(epsilon, delta), 1, classes=3)
    solution = solve_table(problem, ISSUE)
    measured = {"lp": solution.utility, **{one.name: one.utility for one in table_baselines(problem, ISSUE)}}
    for name, value in expected.items():
        assert measured[name] == pytest.approx(value, abs=6e-4), name
    assert solution.status is Status.OPTIMAL
    assert solution.gap <= 2e-8
    names = ("lp", "permute_and_flip", "laplace", "exponential", "gnmax")
    cells = " | ".join(f"{measured[name]:.3f}" for name in names)
    page = (ROOT / "docs" / "classes.md").read_text(encoding="utf-8")
    assert re.search(rf"^\| \({epsilon:g}, .*\) \| {re.escape(cells)} \|$", page, re.MULTILINE)


@for_each(
    ("K", "classes", "affected", "epsilon", "delta"),
    [
        (1, 2, 1, 0.5, 0.0),
        (3, 3, 1, 1.0, 1e-3),
        (5, 3, 2, 0.7, 0.01),
        (8, 3, 1, 0.2676, 3e-4),
        (6, 4, 1, 1.0, 1e-5),
        (4, 4, 2, 0.3, 0.05),
        (7, 2, 2, 2.0, 0.0),
        (2, 4, 2, 0.0, 0.1),
        (5, 4, 2, 1.0, 1e-4),
    ],
)
def test_the_optimum_is_that_of_the_full_program(
    K: int, classes: int, affected: int, epsilon: float, delta: float
) -> None:
    problem = Problem(K, NOT_PRIVATE, Privacy(epsilon, delta), affected, classes=classes)
    prior = ISSUE if classes > 2 else Favoured((0.6, 0.9))
    solution = solve_table(problem, prior)
    law = alike(favoured_law(K, classes, prior.chances))
    assert solution.utility == pytest.approx(optimum(law, affected, epsilon, delta), abs=1e-7)
    assert solution.utility <= solution.upper_bound <= solution.utility + 1e-7
    assert worst_excess(solution.table.probabilities, K, classes, affected, epsilon, delta) <= 0


@pytest.mark.parametrize("price", [0.0, 0.5, 3.0])
def test_the_optimum_with_abstention_is_that_of_the_full_program(price: float) -> None:
    problem = Problem(5, NOT_PRIVATE, Privacy(1.0, 1e-3), 1, classes=3, abstention=True)
    solution = solve_table(problem, PluralityObjective(ISSUE, price=price))
    law = alike(favoured_law(5, 3, ISSUE.chances))
    expected = optimum(law, 1, 1.0, 1e-3, abstention=True, price=price)
    assert solution.utility == pytest.approx(expected, abs=1e-7)
    assert solution.gap <= 1e-7
    assert worst_excess(solution.table.probabilities, 5, 3, 1, 1.0, 1e-3) <= 0


def test_two_classes_are_the_majority_of_voters_that_are_not_private() -> None:
    for K, affected in [(11, 1), (9, 2)]:
        target, counts = Privacy(0.4, 1e-3), np.array([math.comb(K, l) for l in range(K + 1)])
        majority = solve(Problem(K, Privacy(math.inf), target, affected), histogram(counts.tolist()))
        prior = PastVotes(tuple(((l, K - l), int(counts[l])) for l in range(K + 1)))
        plurality = solve_table(Problem(K, NOT_PRIVATE, target, affected, classes=2), prior)
        # γ releases the majority, else a fair coin: right with probability (1 + γ)/2.
        assert plurality.utility == pytest.approx((1 + majority.utility) / 2, abs=1e-7)
        for l in range(K // 2 + 1, K + 1):
            first = plurality.table.probabilities((l, K - l))[0]
            assert float(first) == pytest.approx((1 + majority.gamma[l]) / 2, abs=1e-5)


def test_two_classes_and_one_vote_have_a_closed_optimum() -> None:
    K, epsilon, delta = 7, 0.6, 0.01
    rule = solve_table(Problem(K, NOT_PRIVATE, Privacy(epsilon, delta), 1, classes=2), Dirichlet(1.0)).table
    p = (1 - delta) / (math.exp(epsilon) + 1)  # canonical noise: p(3) = 1 − p(4), p(4) = e^ε·p(3) + δ
    for ones in range(3, K):
        assert float(rule.probabilities((ones, K - ones))[0]) == pytest.approx(p, abs=1e-7)
        p = min(math.exp(epsilon) * p + delta, 1 - math.exp(-epsilon) * (1 - p - delta), 1.0)


# ----------------------------------------------------------------------------------------- relatives


def test_never_below_any_mechanism() -> None:
    rng = np.random.default_rng(17)
    for _ in range(40):
        K, classes = int(rng.integers(1, 9)), int(rng.integers(2, 5))
        target = Privacy(float(np.round(10 ** rng.uniform(-2, 0.5), 4)), float(rng.choice([0, 1e-6, 1e-3, 0.05])))
        problem = Problem(K, NOT_PRIVATE, target, int(rng.integers(1, min(K, 2) + 1)), classes=classes)
        prior = Dirichlet(float(np.round(rng.uniform(0.2, 2), 2)))
        best = solve_table(problem, prior)
        assert best.gap <= 1e-6
        for name in tables():
            _, table = calibrate_mechanism(problem, name)
            assert verify_table(problem, table).margin >= 0
            assert utility(table, best.objective) <= best.utility + 1e-8, (problem, name)


def test_utility_increases_with_the_target_and_decreases_with_affected() -> None:
    worth = [
        solve_table(Problem(9, NOT_PRIVATE, Privacy(e, 1e-4), 1, classes=3), ISSUE).utility
        for e in (0.0, 0.1, 0.5, 1, 3)
    ]
    assert all(a <= b + 1e-8 for a, b in pairwise(worth))
    assert worth[0] == pytest.approx(1 / 3, abs=2e-3)
    reach = [solve_table(Problem(9, NOT_PRIVATE, Privacy(1.0, 1e-4), r, classes=3), ISSUE).utility for r in (1, 2, 4)]
    assert reach[0] > reach[1] > reach[2]


def test_abstention_is_never_worse_and_a_higher_price_gives_fewer_errors() -> None:
    silent = []
    for price in (0.0, 1.0, 5.0):
        objective = PluralityObjective(ISSUE, price=price)
        problem = Problem(7, NOT_PRIVATE, Privacy(1.0, 1e-4), 1, classes=3, abstention=True)
        free = solve_table(problem, objective)
        bound = solve_table(Problem(7, NOT_PRIVATE, Privacy(1.0, 1e-4), 1, classes=3), objective)
        assert free.utility >= bound.utility - 1e-8
        silent.append(float(free.table.probabilities((4, 2, 1))[3]))
    assert silent[0] < silent[-1]


def test_a_time_limit_leaves_a_private_table_and_a_valid_gap() -> None:
    problem = Problem(30, NOT_PRIVATE, Privacy(0.1, 1e-5), 1, classes=4)
    solution = solve_table(problem, ISSUE, time_limit=1e-3)
    assert solution.status is Status.TIME_LIMIT
    assert verify_table(problem, solution.table).margin >= 0
    full = solve_table(problem, ISSUE)
    assert full.status is Status.OPTIMAL
    assert solution.utility <= full.utility + 1e-8 <= solution.upper_bound + 1e-7


# ---------------------------------------------------------------------------------------- structure


@for_each(("K", "classes"), [(5, 3), (8, 4), (3, 5), (1, 2)])
def test_partitions_and_edges_are_complete(K: int, classes: int) -> None:
    assert len(list(partitions(K, classes))) == partition_count(K, classes)
    expected = {tuple(sorted(each, reverse=True)) for each in vote_counts(K, classes)}
    assert set(partitions(K, classes)) == expected
    for affected in (1, 2):
        for partition in expected:
            found = {
                tuple(sorted(zip(partition, (n + d for n, d in zip(partition, change, strict=True)), strict=True)))
                for change in changes(partition, affected)
            }
            assert found == {
                tuple(sorted(zip(partition, other, strict=True))) for other in neighbours(partition, affected)
            }


def test_documented_sizes() -> None:
    quoted = {(30, 3): 91, (50, 3): 234, (100, 3): 884, (30, 4): 297, (50, 4): 1154, (100, 4): 8037, (30, 5): 674,
              (50, 5): 3765, (100, 5): 46262, (30, 6): 1206, (20, 10): 530}  # fmt: skip
    assert {each: partition_count(*each) for each in quoted} == quoted


def test_many_classes_and_few_voters_are_solved() -> None:
    problem = Problem(3, NOT_PRIVATE, Privacy(6.0, 1e-3), 1, classes=1000)
    solution = solve_table(problem, Dirichlet(0.01))
    assert solution.gap <= 1e-6
    assert all(one.utility <= solution.utility + 1e-8 for one in table_baselines(problem, Dirichlet(0.01)))
    # At least 997 classes have no votes: equal to a few distinguishable ones and a rest.
    assert solution.utility > 0.5


@for_each(
    "problem",
    [
        Problem(1, NOT_PRIVATE, Privacy(0.0, 0.0), 1, classes=2),
        Problem(4, NOT_PRIVATE, Privacy(0.0, 0.0), 1, classes=3, abstention=True),
        Problem(4, NOT_PRIVATE, Privacy(500.0, 0.0), 4, classes=3),
        Problem(5, NOT_PRIVATE, Privacy(1e-9, 1e-13), 5, classes=3, abstention=True),
        Problem(5, NOT_PRIVATE, Privacy(40.0, 0.999), 2, classes=4),
    ],
)
def test_extreme_problems_have_a_proof(problem: Problem) -> None:
    objective = PluralityObjective(Dirichlet(1.0), "any", 1.0)
    solution = solve_table(problem, objective)
    assert solution.certificate.margin >= 0
    assert solution.gap <= 1e-6
    assert all(one.utility <= solution.utility + 1e-7 for one in table_baselines(problem, objective))


def test_problems_that_are_too_large_are_refused_with_advice() -> None:
    with pytest.raises(InvalidInput, match=r"46,262.*needs no table"):
        solve_table(Problem(100, NOT_PRIVATE, Privacy(1.0), 1, classes=5), "dirichlet(1)")
    with pytest.raises(InvalidInput, match="among 1000 classes have more"):
        solve_table(Problem(10**6, NOT_PRIVATE, Privacy(1.0), 1, classes=1000), "dirichlet(1)")


@for_each("delta", [0.0, 2.4e-12])
@for_each("price", [0.0, 4.0])
def test_at_target_0_the_best_constant_table_is_found(delta: float, price: float) -> None:
    # The repair would mix mostly with the uniform table, which abstains with probability 1/4.
    problem = Problem(6, NOT_PRIVATE, Privacy(0.0, delta), 3, classes=3, abstention=True)
    solution = solve_table(problem, PluralityObjective(Dirichlet(0.9), price=price))
    assert solution.utility == pytest.approx(max(0.0, 1 / 3 - price * 2 / 3), abs=1e-9)
    assert solution.gap <= 1e-7


@pytest.mark.slow
def test_a_vocabulary_is_refused_with_the_mechanisms_that_accept_it() -> None:
    with refused("classes", "50257") as error:
        Problem(5, NOT_PRIVATE, Privacy(1.0), 1, classes=50_257)
    assert "take up to 1,048,576 classes" in error.value.advice
    assert mechanism_class("gnmax").of(5, 2**20, 10.0).classes == 1_048_576
    with refused("classes", "1") as error:
        Problem(5, NOT_PRIVATE, Privacy(1.0), 1, classes=1)
    assert error.value.advice == ""


def test_too_many_neighbours_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("darrm_opt.tables.problem.MAX_EDGES", 500)
    assert solve_table(Problem(9, NOT_PRIVATE, Privacy(1.0), 1, classes=4), "dirichlet(1)").gap <= 1e-6
    with refused("affected", "9"):
        solve_table(Problem(9, NOT_PRIVATE, Privacy(1.0), 9, classes=4), "dirichlet(1)")


def test_invalid_problems_are_refused() -> None:
    valid = {"K": 5, "voter": NOT_PRIVATE, "classes": 3, "target": Privacy(1.0)}
    refuses(Problem, valid, K=[0], classes=[1, 1001, 2.5], affected=[6], target=[1.0], abstention=["no"])
    refuses(Problem, valid | {"voter": Privacy(0.5)}, classes=[7])


# ------------------------------------------------------------------------------------------- priors


@for_each("text", ["favoured(0.4,0.9)", "beta(3.0,2.0)", "dirichlet(0.5)", "histogram(3,1,0:5; 2,2,0:1)"])
def test_priors_round_trip(text: str) -> None:
    assert str(parse_prior(text)) == text
    K = 4
    assert math.fsum(parse_prior(text).masses(histograms(K, 3, 1, False))) == pytest.approx(1, abs=1e-12)


def test_masses_are_those_of_enumerated_votes() -> None:
    cells = histograms(6, 3, 1, False)
    direct = dict.fromkeys(cells.partitions, 0.0)
    for counts, mass in favoured_law(6, 3, (0.4, 0.7)).items():
        direct[tuple(sorted(counts, reverse=True))] += mass
    assert Favoured((0.4, 0.7)).masses(cells) == pytest.approx([direct[each] for each in cells.partitions], rel=1e-12)
    # Beta(1, C − 1) of one favoured class is not Dirichlet(1), but for two classes it is.
    two = histograms(6, 2, 1, False)
    assert parse_prior("beta(1,1)").masses(two) == pytest.approx(Dirichlet(1.0).masses(two), rel=1e-12)
    assert Dirichlet(1.0).masses(two) == pytest.approx([1 / 7, *[2 / 7] * 3], rel=1e-12)


@for_each(
    "text", ["", "favoured", "favoured()", "favoured(1.5)", "beta(1)", "dirichlet(0)", "histogram(1:x)", "other(1)"]
)
def test_invalid_priors_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_prior(text)


def test_a_prior_for_other_voters_is_refused() -> None:
    problem = Problem(5, NOT_PRIVATE, Privacy(1.0), 1, classes=3)
    with pytest.raises(InvalidInput, match="at least 1/3"):
        solve_table(problem, Favoured((0.2,)))
    with refused("counts"):
        solve_table(problem, PastVotes((((2, 2), 1),)))
    with refused("prior", "'histogram(2,2:1)'"):
        solve_table(Problem(4, NOT_PRIVATE, Privacy(1.0), 1, classes=2), PastVotes((((2, 2), 1),)))


# ------------------------------------------------------------------------------------------ one answer


def another_way(monkeypatch: pytest.MonkeyPatch, problem: Problem, goal: PluralityObjective, way: int) -> TableSolution:
    """Solve from another private table, with another seed and another pivot rule."""
    start = edge_program._private_start

    made = EdgeProgram.__init__

    def seeded(self: EdgeProgram, cells: Histograms, weights: np.ndarray) -> None:
        made(self, cells, weights)
        self._highs.setOptionValue("random_seed", 7 * way)
        self._highs.setOptionValue("simplex_dual_edge_weight_strategy", way % 3)

    with monkeypatch.context() as patch:
        patch.setattr(edge_program, "_private_start", lambda cells, rate: start(cells, rate * (way - 1) / 3))
        patch.setattr(EdgeProgram, "__init__", seeded)
        return solve_table(problem, goal)


@pytest.mark.parametrize(
    ("problem", "prior", "price"),
    [
        (Problem(11, NOT_PRIVATE, Privacy(0.2676, 3e-4), 1, classes=3), "favoured(0.4,0.5,0.6,0.7,0.8,0.9)", 0.0),
        (Problem(8, NOT_PRIVATE, Privacy(1.0), 1, classes=4), "beta(8,2)", 0.0),
        (Problem(7, NOT_PRIVATE, Privacy(0.5, 1e-3), 2, classes=3, abstention=True), "favoured(0.9)", 2.0),
        (Problem(9, NOT_PRIVATE, Privacy(1.0, 1e-5), 1, classes=3, abstention=True), "dirichlet(0.2)", 1.0),
    ],
)
def test_the_table_does_not_depend_on_the_start(
    monkeypatch: pytest.MonkeyPatch, problem: Problem, prior: str, price: float
) -> None:
    goal = PluralityObjective(parse_prior(prior), price=price)
    expected = solve_table(problem, goal)
    for way in (1, 2, 3):
        found = another_way(monkeypatch, problem, goal, way)
        assert np.abs(found.table.nearest - expected.table.nearest).max() < 1e-12


@pytest.mark.parametrize("prior", ["histogram(12,0,0,0:5;6,4,1,1:3)", "favoured(1.0)"])
def test_if_votes_have_weight_0_only_the_utility_and_the_other_votes_are_determined(
    monkeypatch: pytest.MonkeyPatch, prior: str
) -> None:
    problem, goal = Problem(12, NOT_PRIVATE, Privacy(2.0, 1e-6), 1, classes=4), PluralityObjective(parse_prior(prior))
    expected = solve_table(problem, goal)
    weights, _ = goal.cell_weights(partition_cells(problem))
    for way in (1, 2, 3):
        found = another_way(monkeypatch, problem, goal, way)
        assert found.utility == pytest.approx(expected.utility, abs=1e-7)
        assert (weights * np.abs(found.table.nearest - expected.table.nearest)).max() < 1e-7
        assert verify_table(problem, found.table).margin >= 0


def test_changes_of_many_votes_are_listed_directly() -> None:
    # One vote for each class: l classes lose theirs, and the others get l votes.
    expected = sum(partition_count(moved, 24 - moved) for moved in range(1, 24))
    assert sum(1 for _ in changes((1,) * 24, 24)) == expected
