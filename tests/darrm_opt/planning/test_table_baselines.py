"""Baselines for tables: private by enumeration, below the upper bound, and with known answers."""

from __future__ import annotations

import math
import time
from fractions import Fraction
from functools import partial
from itertools import combinations

import numpy as np
import pytest
from campaigns.groups import problem_of
from support.cases import for_each
from support.group_exact import Enumeration, random_problem
from support.noisy_votes import vote_total

from darrm_opt import Privacy
from darrm_opt.mechanisms.vote_noise import GaussianNoise, LaplaceNoise, checked_table, gaussian_table, laplace_table
from darrm_opt.noise import Array
from darrm_opt.planning import table_baselines as module
from darrm_opt.planning.group_plan import plan_groups
from darrm_opt.planning.table_baselines import subsampled, table_baselines
from darrm_opt.problem import Problem
from darrm_opt.search import largest_fitting_from
from darrm_opt.tables.certificate import verify_table
from darrm_opt.tables.corners import Corners, corners_of, likely_corners
from darrm_opt.tables.objective import PluralityObjective
from darrm_opt.tables.priors import Dirichlet
from darrm_opt.tables.problem import Histograms, histograms, partition_cells
from darrm_opt.tables.solver import solve_table


@for_each("seed", range(200, 208))
def test_baselines_are_private_and_below_the_upper_bound(seed: int) -> None:
    case = random_problem(np.random.default_rng(seed))
    problem = problem_of(case)
    bound = solve_table(problem).upper_bound
    every = Enumeration.of(case["groups"], case["classes"], case["affected"], abstention=case["abstention"])
    for baseline in table_baselines(problem):
        assert baseline.utility <= bound
        assert every.worst_excess(baseline.table.probabilities, case["epsilon"], case["delta"], 1) <= 0


def test_known_answers() -> None:
    alike = {
        one.name: one.utility for one in table_baselines(Problem(groups=[(5, 0.5)], target=Privacy(1.0), classes=3))
    }
    assert alike["one_voter"] == pytest.approx(0.7333, abs=5e-5)
    assert "worst_group" not in alike
    two = Problem(groups=[(6, 0.1), (5, 0.5)], target=Privacy(0.6))
    utilities = {one.name: one.utility for one in table_baselines(two)}
    assert 2 * utilities["worst_group"] - 1 == pytest.approx(0.677, abs=1e-3)
    assert utilities["best_subset"] > utilities["worst_group"]
    weighted = table_baselines(two, PluralityObjective(Dirichlet(1.0), weights=(1.0, 2.0)))
    assert "worst_group" not in {one.name for one in weighted}


@for_each("groups", [[(5, 0.1), (4, 0.5)], [(3, 0.2), (2, 0.5, 1e-3)], [(2, 0.1), (2, 0.3), (2, 0.5)]])
def test_starting_with_likely_corners_finds_the_rate_of_all_corners(groups: list[tuple[float, ...]]) -> None:
    problem = Problem(groups=groups, target=Privacy(0.6, 1e-3))
    solution, known = solve_table(problem), {one.name: one for one in table_baselines(problem)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("darrm_opt.tables.corners.MIN_LIKELY_STEPS", 0)
        patch.setattr("darrm_opt.tables.corners.LIKELY_SHARE", 1e-6)
        likely_corners.cache_clear()
        (few,) = likely_corners(problem)
        assert len(few) < len(corners_of(problem)[0])
        again, found = solve_table(problem), {one.name: one for one in table_baselines(problem)}
    likely_corners.cache_clear()
    assert again.utility == pytest.approx(solution.utility, abs=1e-8)
    assert again.utility <= again.upper_bound <= again.utility + 1e-8
    assert found.keys() == known.keys()
    for name, one in found.items():
        assert one.utility == pytest.approx(known[name].utility, abs=1e-8)
        assert one.parameter == known[name].parameter
        assert verify_table(problem, one.table).margin >= 0


def test_likely_corners_are_those_with_equal_moves() -> None:
    problem = Problem(groups=[(3, 0.3), (2, 0.5, 1e-2)], target=Privacy(0.6))
    (every,) = corners_of(problem)
    few = Corners(problem, problem.strictest.voters, problem.target, alike=True)
    for all_laws, laws, side in zip(every.laws, few.laws, every.maps, strict=True):
        towards = [{side.maps[place][0] for place in row if side.moves[place]} for row in all_laws.multisets.tolist()]
        alike = [len(classes) <= 1 for classes in towards]
        assert laws.multisets.tolist() == all_laws.multisets[alike].tolist()
        assert np.array_equal(laws.before, all_laws.before[alike])
        assert np.array_equal(laws.after, all_laws.after[alike])


def test_rates_are_the_largest_that_are_private(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem(groups=[(3, 0.1), (2, 0.5)], target=Privacy(0.6), classes=3)
    found = {one.name: one.utility for one in table_baselines(problem) if one.parameter.startswith("rate ")}
    monkeypatch.setattr(module, "PRECISION", 1e-7)
    finer = {one.name: one.utility for one in table_baselines(problem) if one.name in found}
    assert found == pytest.approx(finer, abs=5e-5)
    assert len(found) >= 3


@pytest.mark.parametrize(
    ("groups", "epsilon", "right"), [([(5, 0.5, 0.0)], 1.0, 0.90525), ([(3, 0.1, 0.0), (2, 0.5, 0.0)], 0.6, None)]
)
def test_randomised_response_uses_the_privacy_of_the_voters(
    groups: list[tuple[int, float, float]], epsilon: float, right: float | None
) -> None:
    """Its rate exceeds e^ε/(e^ε + 2), that for voters that are not private."""
    every = Enumeration.of(groups, 3, 5)
    totals = np.array([np.sum(votes, axis=0) for votes in every.counts])
    leads = totals == totals.max(axis=1, keepdims=True)
    plurality = leads / leads.sum(axis=1, keepdims=True)
    lost, low, high = every.before - math.exp(epsilon) * every.after, 0.0, 1.0
    for _ in range(40):
        kept = (low + high) / 2
        fits = np.maximum(lost @ (kept * plurality + (1 - kept) / 3), 0).sum(axis=1).max() <= 1e-15
        low, high = (kept, high) if fits else (low, kept)
    problem = Problem(groups=groups, target=Privacy(epsilon), classes=3)
    found = {one.name: one.utility for one in table_baselines(problem)}["randomized_response"]
    assert found == pytest.approx(low + (1 - low) / 3, abs=1e-6)
    assert found > math.exp(epsilon) / (math.exp(epsilon) + 2)
    if right is not None:
        assert found == pytest.approx(right, abs=5e-6)


@pytest.mark.parametrize(("K", "classes", "m"), [(4, 3, 2), (5, 2, 3), (4, 4, 3)])
def test_a_subsample_is_the_average_plurality_of_all_draws(K: int, classes: int, m: int) -> None:
    cells = histograms(K, classes, 1, abstention=False)
    chances = subsampled(cells, m)
    for number, partition in enumerate(cells.partitions):
        voters = [c for c, votes in enumerate(partition) for _ in range(votes)]
        exact = [Fraction(0)] * classes
        for drawn in combinations(voters, m):
            counts = [drawn.count(c) for c in range(classes)]
            leaders = [c for c in range(classes) if counts[c] == max(counts)]
            for c in leaders:
                exact[c] += Fraction(1, math.comb(K, m) * len(leaders))
        for cell in np.flatnonzero(cells.owners == number).tolist():
            assert chances[cell] == pytest.approx(float(exact[partition.index(int(cells.values[cell]))]), abs=1e-12)


def test_subsamples_of_many_voters_do_not_overflow() -> None:
    K = 1040
    cells = histograms(K, 2, 1, abstention=False)
    for m in (1, 2, 521, K - 1, K):
        chances = subsampled(cells, m)
        for votes in (0, 1, 400, 519, 521, 600, 1039, 1040):
            (cell,) = np.flatnonzero(
                (cells.values == votes) & (cells.owners == max(votes, K - votes) - K // 2)
            ).tolist()
            won = sum(
                math.comb(votes, k) * math.comb(K - votes, m - k) * (2 if 2 * k > m else 1)
                for k in range(-(-m // 2), m + 1)
            )
            assert chances[cell] == pytest.approx(float(Fraction(won, 2 * math.comb(K, m))), rel=1e-11, abs=1e-300)


def test_the_search_finds_the_best_subsample(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem(groups=[(28, math.inf), (3, 0.5)], target=Privacy(0.6, 1e-6), affected=1)
    every = table_baselines(problem)
    tried: list[int] = []

    def counted(cells: Histograms, m: int) -> Array:
        tried.append(m)
        return subsampled(cells, m)

    monkeypatch.setattr(module, "subsampled", counted)
    monkeypatch.setattr(module, "MAX_SUBSAMPLES", 6)
    few = table_baselines(problem)
    assert len(set(tried)) < 20
    assert {one.name: one.utility for one in few} == pytest.approx({one.name: one.utility for one in every}, abs=1e-12)


def test_the_time_limit_ends_the_search_for_a_subsample(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, tried = [0.0], []

    def slow(cells: Histograms, m: int) -> Array:
        tried.append(m)
        clock[0] += 10.0
        return subsampled(cells, m)

    monkeypatch.setattr(module, "subsampled", slow)
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    found = plan_groups([(28, math.inf), (3, 0.5)], 1, Privacy(0.6, 1e-6), 1, time_limit=35.0)
    assert len(tried) <= 5
    assert {option.name for option in found.options} == {"optimal", "one_voter", "subsampling"}
    assert any("time limit" in warning for warning in found.warnings)


ALIKE = [
    Problem(5, Privacy(math.inf), Privacy(1.0, 1e-5), 1, classes=3),
    Problem(12, Privacy(math.inf), Privacy(0.3), 1, classes=3),
    Problem(20, Privacy(math.inf), Privacy(2.0, 1e-3), 2, classes=3),
    Problem(9, Privacy(math.inf), Privacy(5.0, 1e-9), 1, classes=4),
    Problem(10, Privacy(math.inf), Privacy(1.0, 1e-6), 1, classes=3, abstention=True),
]


def laws(problem: Problem) -> dict[str, module.TableLaw]:
    checked = partial(checked_table, threshold=problem.K / 2, check_share=0.5)
    return {"checked": checked} if problem.abstention else module.tables()


@for_each("problem", ALIKE)
def test_a_few_edges_find_the_rate_of_all_edges(problem: Problem) -> None:
    cells, target = partition_cells(problem), problem.strictest.target
    looked_at: list[int] = []
    for law in laws(problem).values():

        def counted(some: Histograms, rate: float, law: module.TableLaw = law) -> Array:
            looked_at.append(len(some.partitions))
            return law(some, rate)

        def fits(rate: float, law: module.TableLaw = law) -> bool:
            x = law(cells, rate)
            beyond = cells.edges.sizes * np.maximum(
                x[cells.edges.left] - math.exp(target.epsilon) * x[cells.edges.right], 0.0
            )
            return float(beyond.sum(axis=1).max()) <= target.delta + module.ROUNDING

        first = max(target.epsilon / (2 * problem.affected), 1e-3)
        expected = largest_fitting_from(fits, first, module.MAX_EDGE_RATE, module.EDGE_PRECISION)
        assert module._largest_edge_rate(problem, counted, module.EDGE_PRECISION) == expected
    if problem.K == 20:  # few voters have little more partitions than evaluated edges
        assert looked_at.count(len(cells.partitions)) < len(looked_at) / 2


@for_each("problem", ALIKE)
def test_some_partitions_have_the_law_of_all(problem: Problem) -> None:
    cells = partition_cells(problem)
    part, places = cells.part(np.array([len(cells.partitions) - 1, 0, 2, 2]))
    assert part.partitions == (cells.partitions[0], cells.partitions[2], cells.partitions[-1])
    assert part.starts.tolist() == [0, *(np.flatnonzero(np.diff(part.owners)) + 1).tolist()]
    for law in laws(problem).values():
        for rate in (0.0, 0.05, 0.7):
            assert law(part, rate) == pytest.approx(law(cells, rate)[places], abs=1e-15)


@for_each(("weight", "epsilon"), [(0.5, 0.935), (1.0, 2.013), (1.5, 3.179), (2.0, 4.424)])
def test_weights_give_each_group_its_epsilon(weight: float, epsilon: float) -> None:
    # Individualised PATE: 286 labels at 40 votes, 640 checks at 150.
    releases = [("check", 150, 640), ("label", 40, 286)]
    assert vote_total(releases, 1e-5, weight=weight).epsilon == pytest.approx(epsilon, abs=1e-3)
    assert vote_total(releases, 1e-5, weight=weight).epsilon >= vote_total(releases, 1e-5, weight=weight / 2).epsilon


@for_each("rate", [0.05, 0.7, 3.0])
def test_tables_of_noisy_counts_of_two_classes_are_those_of_their_noise(rate: float) -> None:
    cells = histograms(7, 2, 1, abstention=False)
    margins = 2 * cells.values - 7
    laplace = [LaplaceNoise(1 / rate).wins(int(margin), "continuous") for margin in margins]
    gaussian = [GaussianNoise.of_sigma(1 / rate).wins(int(margin), "continuous") for margin in margins]
    assert laplace_table(cells, rate) == pytest.approx(laplace, abs=1e-9)
    assert gaussian_table(cells, rate) == pytest.approx(gaussian, abs=1e-9)
    assert laplace_table(cells, 0.0).tolist() == gaussian_table(cells, 0.0).tolist() == [0.5] * len(margins)
