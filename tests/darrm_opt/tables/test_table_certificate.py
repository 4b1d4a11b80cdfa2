"""Certificates of tables against fractions, over all vote counts and sets of outputs."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from support.cases import for_each
from support.group_exact import Enumeration
from support.plurality_exact import exp_above, neighbours, vote_counts, worst_excess
from support.refusals import refused

from darrm_opt import NotPrivate, Privacy
from darrm_opt.answers.tables import table_to_dict
from darrm_opt.errors import InvalidInput, NotProven
from darrm_opt.planning.table_baselines import table_baselines
from darrm_opt.plurality import ABSTENTION, Table, certify_table, solve_table, verify_table
from darrm_opt.problem import NOT_PRIVATE, Problem
from darrm_opt.rounding import EXPONENT_BITS, exp_bounds
from darrm_opt.tables.certificate import CornerProof, Edge, EdgeProof
from darrm_opt.tables.problem import histograms, partition_cells
from darrm_opt.tables.record import TableSpec, table_from_record, table_record, table_solution_record
from darrm_opt.tables.solver import TableSolution
from darrm_opt.voters import PrivacyProfile


def random_rule(rng: np.random.Generator, problem: Problem) -> Table:
    cells = partition_cells(problem)
    weights = rng.dirichlet([1.0] * 3, size=cells.values.size)[:, 0] ** rng.integers(1, 4)
    sums = np.add.reduceat(weights * cells.multiplicities, cells.starts)
    return Table.normalised(partition_cells(problem), weights / sums[cells.owners])


@for_each("epsilon", [0.0, 5e-324, 1e-9, 0.2676, 1.0, 20.0, 500.0])
def test_the_bounds_of_the_exponential_enclose_it_tightly(epsilon: float) -> None:
    low, high = exp_bounds(epsilon)
    assert low >= 1 << EXPONENT_BITS
    above = exp_above(epsilon)  # by less than 2e-45 of it
    assert Fraction(low, 2**EXPONENT_BITS) <= above
    assert above / (1 + Fraction(2, 10**45)) <= Fraction(high, 2**EXPONENT_BITS)
    assert high - low <= max(2, low >> 100)


@for_each("abstention", [False, True])
@for_each(("K", "classes", "affected"), [(4, 3, 1), (5, 2, 2), (3, 4, 1), (4, 3, 3)])
def test_the_excess_is_that_of_every_edge_and_set(K: int, classes: int, affected: int, abstention: bool) -> None:
    rng = np.random.default_rng((K, classes, affected))
    for _ in range(4):
        problem = Problem(K, NOT_PRIVATE, Privacy(0.5, 0.01), affected, classes=classes, abstention=abstention)
        rule = random_rule(rng, problem)
        target = problem.strictest.target
        exact = worst_excess(rule.probabilities, K, classes, affected, target.epsilon, target.delta)
        found, _ = EdgeProof(problem).largest(rule)
        assert 0 <= found - exact <= Fraction(1, 2**70)  # e^ε is rounded down by 2^−80


def test_repair_proves_the_doubles_that_it_returns() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        problem = Problem(
            int(rng.integers(1, 6)),
            NOT_PRIVATE,
            Privacy(float(rng.choice([0, 1e-6, 0.3, 2.0])), float(rng.choice([0, 1e-12, 0.05]))),
            1,
            classes=int(rng.integers(2, 5)),
            abstention=bool(rng.integers(2)),
        )
        rule, certificate = certify_table(problem, random_rule(rng, problem))
        assert certificate == verify_table(problem, rule)
        assert certificate.margin >= 0
        exact = worst_excess(
            rule.probabilities, problem.K, problem.classes, 1, problem.target.epsilon, problem.target.delta
        )
        assert exact <= Fraction(1, 10**40)  # e^ε of the oracle is slightly larger


@for_each("proof_of", [EdgeProof, CornerProof])
@for_each("bound", [1e-9, 0.01, 0.9])
def test_scaling_reduces_an_excess_to_just_below_0(proof_of: Any, bound: float) -> None:
    """The excess is convex in x: at a share s it is at most s times the excess plus (1 − s) times that at x = 0."""
    target = Privacy(0.5, 0.01)
    if proof_of is EdgeProof:
        proof = proof_of(Problem(5, NOT_PRIVATE, target, 1, classes=3))
        slack = math.expm1(0.5) / 3 + 0.01
    else:
        proof = proof_of(Problem(groups=[(3, 0.2)], target=target, classes=3))
        slack = (1 - math.exp(-0.5)) / 3 + math.exp(-0.5) * 0.01
    share = proof.private_share(bound)
    assert -1e-5 * slack <= share * bound - (1 - share) * slack <= 0


def test_a_certificate_states_its_rounding_error() -> None:
    problem = Problem(groups=[(3, 0.2)], target=Privacy(1.0), classes=3)
    certificate = solve_table(problem).certificate
    assert 0 < certificate.error == CornerProof(problem).error < 1e-9
    assert certificate.as_dict()["error"] == certificate.error
    edges = solve_table(Problem(3, NOT_PRIVATE, Privacy(1.0), 1, classes=3)).certificate
    assert (edges.error, "error" in edges.as_dict()) == (0.0, False)


def test_a_private_table_is_not_changed() -> None:
    problem = Problem(7, NOT_PRIVATE, Privacy(1.0, 1e-4), 1, classes=3)
    rule = solve_table(problem).table
    assert certify_table(problem, rule)[0] is rule


def test_a_certificate_has_the_tightest_edge() -> None:
    problem = Problem(6, NOT_PRIVATE, Privacy(1.0, 1e-3), 1, classes=3)
    solution = solve_table(problem)
    certificate, rule = solution.certificate, solution.table
    worst = certificate.worst
    assert isinstance(worst, Edge)
    before, after = (rule.probabilities(counts) for counts in (worst.before, worst.after))
    assert worst.after in set(neighbours(worst.before, 1))
    c = exp_above(problem.target.epsilon)
    left = sum(before[each] - c * after[each] for each in worst.released) - Fraction(problem.target.delta)
    assert -1e-9 < left <= 1e-12
    assert certificate.checked == sum(
        len({tuple(sorted(zip(counts, other, strict=True))) for other in neighbours(counts, 1)})
        for counts in {tuple(sorted(each, reverse=True)) for each in vote_counts(6, 3)}
    )


@pytest.mark.parametrize("abstention", [False, True])
def test_a_table_that_is_not_private_is_refuted(abstention: bool) -> None:
    problem = Problem(5, NOT_PRIVATE, Privacy(0.1, 1e-6), 1, classes=3, abstention=abstention)
    cells = partition_cells(problem)
    values = np.zeros(cells.values.size)
    values[cells.starts[cells.strict]] = 1.0
    rule = Table(partition_cells(problem), values)
    with pytest.raises(NotPrivate, match=r"from the counts \(.*class \d.*certify_table") as caught:
        verify_table(problem, rule)
    assert 0.2 < caught.value.excess < 1
    if abstention:  # only ⊥ depends on the data
        values = np.zeros(cells.values.size)
        values[cells.values == ABSTENTION] = [float(owner % 2) for owner in range(len(cells.partitions))]
        with pytest.raises(NotPrivate, match=r"\{no class\}|class"):
            verify_table(problem, Table(partition_cells(problem), values))


def test_an_excess_of_one_unit_in_the_last_place_is_detected() -> None:
    problem = Problem(3, NOT_PRIVATE, Privacy(0.0, 0.25), 1, classes=2)
    private = Table(partition_cells(problem), [0.0, 0.0, 0.0, 0.0])
    assert verify_table(problem, private).margin == pytest.approx(0.25, abs=1e-12)
    # p(3) − p(2) = 1/4 exactly is private at δ = 1/4, but the strictest reading leaves a little less.
    near = 0.25 - 2.0**-40
    values = [0.5, 0.5, 0.5 + near, 0.5 - near]
    assert verify_table(problem, Table(partition_cells(problem), values)).margin > 0
    over = math.nextafter(0.75, 1)
    with pytest.raises(NotPrivate):
        verify_table(problem, Table(partition_cells(problem), [0.5, 0.5, over, 1 - over]))


def test_the_rest_is_divided_equally_and_sums_are_exact() -> None:
    rule = Table(histograms(3, 3, 1, abstention=False), [0.25, 0.5, 0.125, 0.125, 1.0, 0.0])
    assert rule.probabilities((1, 1, 1)) == [Fraction(1, 3)] * 3
    assert rule.probabilities((0, 2, 1)) == [Fraction(5, 24), Fraction(14, 24), Fraction(5, 24)]
    assert rule.probabilities((0, 0, 3)) == [0, 0, 1]
    silent = Table(histograms(1, 2, 1, abstention=True), [0.5, 0.0, 0.25])
    assert silent.probabilities((0, 1)) == [Fraction(1, 12), Fraction(7, 12), Fraction(1, 3)]


@for_each(
    ("values", "message"),
    [
        ([0.1] * 5, r"shape \(5,\)"),
        ([0.1] * 5 + [math.nan], "outside"),
        ([0.1] * 5 + [-0.1], "outside"),
        ([0.1] * 4 + [1.0, math.nextafter(0.0, 1)], "sum above 1"),
        ("text", "values"),
    ],
)
def test_invalid_tables_are_refused(values: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Table(histograms(3, 3, 1, abstention=False), values)


def test_a_table_for_other_voters_is_refused() -> None:
    with refused("table"):
        verify_table(
            Problem(4, NOT_PRIVATE, Privacy(1.0), 1, classes=2), Table(histograms(3, 2, 1, abstention=False), [0.0] * 4)
        )
    with pytest.raises(InvalidInput, match="counts that sum to K = 3"):
        Table(histograms(3, 2, 1, abstention=False), [0.0] * 4).probabilities((1, 1))


RECORDED: list[tuple[Any, Any, dict[str, Any]]] = [  # a problem, the stricter one, and a part of its record
    (
        Problem(5, NOT_PRIVATE, Privacy(1.0, 1e-3), 1, classes=3, abstention=True),
        Problem(5, NOT_PRIVATE, Privacy(0.1, 1e-3), 1, classes=3, abstention=True),
        {"K": 5, "target_epsilon": 1.0, "abstention": True},
    ),
    (
        Problem(groups=[(3, 0.5, 1e-3), (1, math.inf)], target=Privacy(1.0, 1e-3), affected=2, classes=3),
        Problem(groups=[(3, 0.9, 1e-3), (1, math.inf)], target=Privacy(1.0, 1e-3), affected=2, classes=3),
        {"groups": [{"K": 3, "epsilon": 0.5, "Delta": 1e-3}, {"K": 1, "epsilon": "inf", "Delta": 0.0}]},
    ),
    (  # the table is not private for voters with only one of the points
        Problem(groups=[(3, PrivacyProfile([(0.0, 0.15), (0.6, 0.0)]))], target=Privacy(0.7), classes=3),
        Problem(groups=[(3, 0.6)], target=Privacy(0.7), classes=3),
        {"groups": [{"K": 3, "profile": [[0.0, 0.15], [0.6, 0.0]]}]},
    ),
]


@for_each(("problem", "stricter", "part"), RECORDED)
def test_records_round_trip_bit_for_bit_and_are_verified(
    problem: Problem, stricter: Problem, part: dict[str, Any]
) -> None:
    solution = solve_table(problem)
    record = json.loads(json.dumps(table_solution_record(solution)))
    assert record["problem"] | part == record["problem"]
    read, table, certificate = table_from_record(record)
    assert (read, table, certificate) == (problem, solution.table, solution.certificate)
    assert TableSpec(problem).key == TableSpec(read).key != TableSpec(stricter).key
    with pytest.raises(NotPrivate):
        table_from_record(table_record(stricter, table))
    larger = [min(1.0, value * 1.2) for value in record["values"]]
    for wrong in ({"values": larger}, {"kind": "x"}, {"problem": {"K": 5}}, {"utility": 0.1}):
        with pytest.raises((NotPrivate, InvalidInput)):
            table_from_record(record | wrong)
    if "groups" in part:
        both = [group | {"profile": [[0.0, 0.15]], "epsilon": 0.6} for group in record["problem"]["groups"]]
        with refused("profile"):
            table_from_record(record | {"problem": record["problem"] | {"groups": both}})
    assert table_to_dict(solution)["utility"] == solution.utility
    nothing: object
    for nothing in ({}, []):
        with refused("table"):
            table_from_record(nothing)


SLIGHT = (0.0, 2.0**-53, 1e-15, 1e-14, 6e-14, 2e-13, 1e-12, 1e-9, 1e-3)
"""Changes of a value of a table, of the size of rounding errors and of the grid of the problem's numbers."""


def changed_slightly(solution: TableSolution, rng: np.random.Generator) -> Iterator[Table]:
    """Yield tables that differ slightly from a solution, in one value or in all."""
    values, cells = solution.table.values, solution.table.cells
    inner = np.flatnonzero((values > 0.01) & (values < 0.99))
    for step in SLIGHT:
        place = int(rng.choice(inner if inner.size else np.arange(len(values))))
        for sign in (-1, 1):
            one = values.copy()
            one[place] = min(1.0, max(0.0, one[place] + sign * step))
            with suppress(InvalidInput):  # a sum above 1
                yield Table(cells, one)


def verdict(problem: Problem, table: Table) -> str:
    try:
        verify_table(problem, table)
    except NotPrivate as err:
        words = "within the noise of the stated numbers" if isinstance(err, NotProven) else "the table is not private"
        return ("not proved" if isinstance(err, NotProven) else "refuted") if words in str(err) else str(err)
    return "private"


@pytest.mark.parametrize("groups", [False, True])
def test_a_table_is_refuted_only_if_it_violates_the_numbers_as_given(groups: bool) -> None:
    """By exact fractions, for the given ε and δ and not for those of the strictest reading."""
    rng, verdicts = np.random.default_rng(5), Counter[str]()
    for number in range(4 if groups else 10):
        classes, epsilon = 2 + number % 2, float(rng.choice([0.3, rng.uniform(0.1, 0.5 if groups else 2.0)]))
        delta = float(rng.choice([0.0, 0.01, rng.uniform(0, 0.02 if groups else 0.3)]))
        problem: Problem = Problem(
            2 + number % 3, NOT_PRIVATE, Privacy(epsilon, delta), 1 + number % 2, classes=classes
        )
        if groups:
            problem = Problem(groups=[(2, 0.3), (1, 0.5, 0.01)], target=Privacy(epsilon, delta), classes=classes)
            every = Enumeration.of([(2, 0.3, 0.0), (1, 0.5, 0.01)], classes, 3, abstention=False)
        for table in changed_slightly(solve_table(problem), rng):
            if groups:
                excess = every.worst_excess(table.probabilities, epsilon, delta)
            else:
                shape = (problem.K, classes, int(problem.affected))
                excess = worst_excess(table.probabilities, *shape, epsilon, delta)
            found = verdict(problem, table)
            verdicts[found] += 1
            assert found != "refuted" or excess > 0
            assert found != "private" or excess <= 0
            assert found == "refuted" or excess < 1e-11
    assert set(verdicts) == {"private", "not proved", "refuted"}


@pytest.mark.parametrize("epsilon", [0.0, 1e-12, 1e-9])
def test_an_answer_is_at_least_as_useful_as_a_release_that_ignores_the_votes(epsilon: float) -> None:
    """With ⊥ the uniform release abstains, and the repair for a strict target mixes with it."""
    for problem in (
        Problem(groups=[(3, 0.3), (2, 0.5)], target=Privacy(epsilon), abstention=True),
        Problem(4, NOT_PRIVATE, Privacy(epsilon), 1, classes=3, abstention=True),
    ):
        solution = solve_table(problem)
        assert solution.utility >= (1 - 1e-15) / problem.classes
        assert solution.gap < 1e-7
    dear = solve_table(Problem(groups=[(3, 0.3), (2, 0.5)], target=Privacy(epsilon), abstention=True), "dirichlet(1)")
    assert dear.utility >= max(one.utility for one in table_baselines(dear.problem, dear.objective)) - 1e-12
