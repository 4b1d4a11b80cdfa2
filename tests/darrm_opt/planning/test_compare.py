"""Comparison of mechanisms: all within the budget, the optimum first, from Python and the command line."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cases import for_each
from support.darrm_runner import run
from support.refusals import refused as refused_input
from support.two_class_moments import noisy_vote_laws

from darrm_opt import Privacy, Problem
from darrm_opt.accounting.bits.recursion import compose_bits
from darrm_opt.accounting.mixture import AffectedDistribution, mixture_total
from darrm_opt.accounting.total import exact_epsilon
from darrm_opt.bagging import Bags, bags_of
from darrm_opt.design.report import FRESH_MEANING
from darrm_opt.errors import InvalidInput, TooMuchWork
from darrm_opt.mechanisms.vote_noise import GaussianNoise
from darrm_opt.noise import Array
from darrm_opt.planning import MECHANISMS, plan
from darrm_opt.planning.candidates import check_draw
from darrm_opt.planning.compare import Comparison, ComparisonRow, compare
from darrm_opt.planning.ranking import ranked_options
from darrm_opt.priors import Histogram, SharedBeta, poisson_binomial, vote_histogram

PRIVATE = Problem.from_allowance(K=11, m=1, epsilon=0.0892, Delta=1e-4)
OPEN = Problem.from_allowance(K=11, m=None, epsilon=math.inf, target_epsilon=1.0, delta=1e-4, affected=1)
SMALL = Problem(5, Privacy(math.inf), Privacy(1.0), affected=1)
BUDGET = Privacy(2.0, 0.01)
WAYS = set(MECHANISMS) - {"confident_gnmax"}


@pytest.fixture(scope="module")
def private() -> Comparison:
    return compare(PRIVATE, 20, BUDGET, fresh=True)


@pytest.fixture(scope="module")
def bare() -> Comparison:
    return compare(OPEN, 100, Privacy(2.0, 1e-3), fresh=True)


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Restrict `compare` to some mechanisms: all of them take a second."""
    return lambda *names: monkeypatch.setattr(
        "darrm_opt.planning.compare.ranked_options", partial(ranked_options, mechanisms=names)
    )


def of(found: Comparison, name: str) -> ComparisonRow:
    return next(row for row in found.rows if row.name == name)


def test_every_mechanism_is_compared_and_within_the_budget(private: Comparison) -> None:
    assert {row.name for row in private.rows} == WAYS
    assert set(private.not_compared) == {"dpbag_data_dependent"}
    for row in private.rows:
        if row.noise is not None:
            assert row.epsilon is not None
            assert row.epsilon <= BUDGET.epsilon
            finer = exact_epsilon(row.noise, PRIVATE, 20, BUDGET.delta, fresh=True)
            assert finer <= BUDGET.epsilon
            assert finer == pytest.approx(row.epsilon, rel=1e-3)


def test_a_continuous_parameter_uses_the_whole_budget(private: Comparison) -> None:
    for name in ("optimal_sequence", "randomized_response", "gnmax", "laplace"):
        assert (of(private, name).epsilon or 0) >= 0.99 * BUDGET.epsilon


def test_the_optimum_comes_first_and_the_plain_majority_does_not_fit(private: Comparison) -> None:
    assert private.rows[0].name in {"optimal", "optimal_sequence"}
    utilities = [row.utility for row in private.rows if row.utility is not None]
    assert [round(utility, 5) for utility in utilities] == sorted(
        (round(utility, 5) for utility in utilities), reverse=True
    )
    assert private.measure == "tv_error"
    errors = [row.tv_error for row in private.rows if row.tv_error is not None]
    assert [round(error, 5) for error in errors] == sorted(
        round(error, 5) for error in errors
    )  # the error under the prior of the objective orders like utility
    assert of(private, "majority").noise is None


def test_voters_that_are_not_private(bare: Comparison) -> None:
    best, row = of(bare, "optimal_sequence"), of(bare, "gnmax")
    assert bare.rows[0].utility == pytest.approx(best.utility, abs=1e-6)
    assert row.value is not None
    region = noisy_vote_laws(11, GaussianNoise.of_sigma(row.value)).region
    own = compose_bits([(region, 100)]).epsilon(1e-3)
    assert own == pytest.approx(row.epsilon, rel=2e-3)  # the same release, by its region


@for_each(
    ("problem", "queries", "total", "objective"),
    [
        (Problem(6, Privacy(0.5), Privacy(1.0)), 8, Privacy(2.0, 1e-4), "shared(2,5)"),
        (Problem(5, Privacy(0.2, 1e-3), Privacy(1.0), affected=3), 10, Privacy(1.0, 0.02), "uniform(0.6) agreement"),
        (Problem(4, Privacy(math.inf), Privacy(1.0), affected=2), 1, Privacy(0.7, 0.01), "rectangular"),
        (Problem(4, Privacy(math.inf), Privacy(1.0), affected=1), 30, Privacy(1.5, 1e-3), "uniform(0.6) agreement"),
    ],
)
def test_no_mechanism_is_more_useful_than_the_optimum(
    problem: Problem, queries: int, total: Privacy, objective: str
) -> None:
    found = compare(problem, queries, total, objective=objective, fresh=True)
    best = of(found, "optimal_sequence").utility
    assert best is not None
    for row in found.rows:
        assert row.utility is None or row.utility <= best + 1e-6
        assert row.epsilon is None or row.epsilon <= total.epsilon
    assert found.rows[0].utility == pytest.approx(best, abs=1e-6)


DRAW: dict[str, Any] = {"bags": Bags(200, 10)}


@pytest.fixture(scope="module")
def bagged() -> Comparison:
    return compare(Problem(5, Privacy(math.inf), Privacy(1.0)), 4, Privacy(2.0, 0.01), **DRAW, fresh=True)


def test_all_mechanisms_are_accounted_with_the_draw(bagged: Comparison) -> None:
    assert {row.name for row in bagged.rows} == WAYS
    assert bagged.bags == Bags(200, 10)
    law, budget = bagged.bags.affected_distribution(5), bagged.total
    for row in bagged.rows:
        if row.noise is not None:
            finer = mixture_total(
                row.noise, bagged.problem, 4, law, fresh=True, total_delta=budget.delta, points=8001
            ).epsilon(budget.delta)
            assert finer <= budget.epsilon
            assert finer == pytest.approx(row.epsilon, rel=3e-3)
            assert finer <= exact_epsilon(row.noise, bagged.problem, 4, budget.delta, fresh=True)


def test_the_distribution_of_affected_voters_improves_utility_and_the_optimum_stays_first(bagged: Comparison) -> None:
    assert bagged.rows[0].name in {"optimal", "optimal_sequence"}
    certain = compare(bagged.problem, 4, bagged.total, fresh=True)
    assert (of(bagged, "laplace").utility or 0) > 2 * (of(certain, "laplace").utility or 1)
    assert (of(bagged, "laplace").epsilon or 0) >= 0.98 * bagged.total.epsilon


@for_each(
    ("bags", "affected"),
    [
        (Bags(50, 50, replacement=False), 3),  # every record in every subsample
        (Bags(60, 20, replacement=False, sampling="disjoint"), 1),  # a partition
    ],
)
def test_a_certain_draw_is_a_number_of_affected_voters(bags: Bags, affected: int) -> None:
    names, budget = ("randomized_response", "gnmax", "laplace"), Privacy(2.0, 0.01)
    drawn = plan(3, None, 3, budget, bags=bags, mechanisms=names)
    certain = plan(3, None, 3, budget, affected, mechanisms=names)
    utilities = [{option.name: option.utility for option in found.options} for found in (drawn, certain)]
    assert utilities[0] == pytest.approx(utilities[1], rel=5e-3)


def test_smaller_draws_and_fewer_queries_are_never_worse(bagged: Comparison, only: Callable[..., None]) -> None:
    only("optimal_sequence", "laplace", "gnmax")
    more = compare(bagged.problem, 12, bagged.total, **DRAW, fresh=True)
    larger = compare(bagged.problem, 4, bagged.total, bags=Bags(200, 40), fresh=True)
    for name in ("optimal_sequence", "laplace", "gnmax"):
        here = of(bagged, name).utility or 0
        assert (of(more, name).utility or 0) < here
        assert (of(larger, name).utility or 0) < here


@for_each(
    ("draw", "argument"),
    [
        ({"n": 100}, "subsample_size"),
        ({"subsample_size": 5}, "n"),
        ({"replacement": False}, "replacement"),
        ({"sampling": "disjoint"}, "sampling"),
        ({"n": 1, "subsample_size": 1}, "n"),
        ({"n": 10, "subsample_size": 11, "replacement": False}, "subsample_size"),
        ({"n": 10, "subsample_size": 3, "sampling": "disjoint"}, "sampling"),
        ({"n": 10, "subsample_size": 4, "sampling": "disjoint", "replacement": False}, "subsample_size"),
    ],
)
def test_invalid_draws_are_refused(draw: dict[str, Any], argument: str) -> None:
    with refused_input(argument):
        compare(
            Problem(5, Privacy(math.inf), Privacy(1.0)),
            4,
            BUDGET,
            bags=bags_of(**{"n": None, "subsample_size": None} | draw),
            fresh=True,
        )


def test_a_draw_decides_how_many_are_affected() -> None:
    with refused_input("affected", "1"):
        compare(SMALL, 4, BUDGET, **DRAW, fresh=True)


def test_errors_are_averaged_over_the_requested_prior(only: Callable[..., None]) -> None:
    only("gnmax", "laplace", "subsampling")
    unanimous = compare(SMALL, 5, BUDGET, prior=Histogram((1, *[0] * 4, 1)), fresh=True)
    assert unanimous.measure == "disagreement"
    for row in unanimous.rows:
        if row.noise is not None:
            assert row.disagreement == pytest.approx((1 - row.noise.values[5]) / 2)
    other = compare(SMALL, 5, BUDGET, prior=SharedBeta(2.0, 5.0), fresh=True)
    assert of(other, "gnmax").disagreement != of(unanimous, "gnmax").disagreement


def test_rows_of_votes_are_counted_by_their_ones() -> None:
    votes = np.random.default_rng(1).integers(0, 2, (50, 5))
    counted = vote_histogram([votes[:20], votes[20:].astype(bool)])
    assert sum(counted.counts) == 50
    assert counted.counts == vote_histogram([votes.astype(float)]).counts
    assert counted.counts[2] == np.sum(votes.sum(axis=1) == 2)
    with refused_input("votes", "2.0"):
        vote_histogram([[[2, 0, 1]]])
    with pytest.raises(InvalidInput, match="Another has 5 columns"):
        vote_histogram([votes, votes[:, :3]])
    with refused_input("votes", "(5,)"):
        vote_histogram([votes[0]])
    with refused_input("votes"):
        vote_histogram([])


@pytest.mark.parametrize(
    ("problem", "queries", "draw", "said"),
    [
        (
            Problem(101, Privacy(math.inf), Privacy(1.0)),
            4000,
            Bags(1000, 50),
            "leave out n and subs",
        ),
        (
            Problem(101, Privacy(0.1), Privacy(1.0)),
            1000,
            Bags(1000, 50),
            r"at most about \d{3} queries",
        ),
    ],
    ids=["draw", "private voters"],
)
def test_long_comparisons_are_refused_before_any_work(
    problem: Problem, queries: int, draw: Bags, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("darrm_opt.planning.compare.ranked_options", lambda *_: pytest.fail("it began"))
    with pytest.raises(TooMuchWork, match=said):
        compare(problem, queries, BUDGET, bags=draw, fresh=True)


def test_the_number_of_queries_in_a_refusal_is_accepted() -> None:
    problem, reach = Problem(101, Privacy(0.1), Privacy(1.0)), AffectedDistribution.binomial(101, 0.05)
    with pytest.raises(TooMuchWork) as caught:
        check_draw(problem, 3000, BUDGET, reach)
    fewer = re.search(r"about (\d+) queries", str(caught.value))
    assert fewer is not None
    check_draw(problem, int(fewer[1]), BUDGET, reach)
    check_draw(problem, 5000, BUDGET, None)


VOTERS = ("--K", "5", "--epsilon", "0.3", "--Delta", "1e-4")


def test_a_comparison_is_printed_with_its_draw_and_assumptions(only: Callable[..., None]) -> None:
    only("gnmax", "laplace")
    budget = ("--queries", "5", "--total-epsilon", "1", "--total-delta", "0.01", "--fresh")
    text = run("plan", "--compare", *VOTERS, *budget, "--prior", "histogram(3,1,1,0,2,9)").stdout
    assert text.startswith("5 voters, each (0.3, 0.0001)-DP (fresh in every answer); 5 releases, (1, 0.01)-DP in all.")
    assert "dpbag_data_dependent is left out" in text
    assert text.endswith(f"The voters were taken to be fresh: {FRESH_MEANING}.\n")
    asked = ("plan", "--compare", "--K", "3", "--epsilon", "inf", *budget[:-1], "--bags")
    drawn = {"n": 60, "subsample_size": 6, "replacement": False, "sampling": "independent"}
    draw = json.loads(run(*asked, "n=60,size=6,draw=without-replacement", "--json").stdout)["draw"]
    assert draw == {**drawn, "chance": pytest.approx(0.1), "reached": pytest.approx(0.3)}
    text = run(*asked, "n=60,size=6,draw=without-replacement").stdout
    assert "Each voter is trained on 6 of 60 records, without replacement: one record reaches 0.3 voters" in text


def test_votes_and_a_plot_from_the_command_line(tmp_path: Path, only: Callable[..., None]) -> None:
    only("optimal", "gnmax", "laplace")
    votes = np.random.default_rng(2).integers(0, 2, (40, 5))
    (tmp_path / "votes.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in votes.tolist()))
    np.save(tmp_path / "votes.npy", votes)
    budget = ("--queries", "5", "--total-epsilon", "1", "--total-delta", "0.01")
    picture = tmp_path / "ways.svg"
    answers = [
        json.loads(run("plan", "--compare", *VOTERS, *budget, "--json", *more).stdout)
        for more in (
            ("--votes", str(tmp_path / "votes.csv"), "--plot", str(picture)),
            ("--votes", str(tmp_path / "votes.npy")),
            ("--prior", f"histogram({','.join(str(int(count)) for count in vote_histogram([votes]).counts)})"),
        )
    ]
    assert answers[0] == answers[1] == answers[2]
    assert picture.read_text().startswith("<?xml")


@pytest.mark.parametrize("fresh", [True, False])
def test_a_draw_does_not_make_models_trained_once_fresh(only: Callable[..., None], *, fresh: bool) -> None:
    """Five 0.3-DP models on 900 of 1000 records and twelve queries violate the total of fresh voters."""
    only("optimal_sequence")
    K, queries, total, chance = 5, 12, Privacy(0.72, 1e-5), 0.9
    voters = Problem(K, Privacy(0.3), Privacy(1.0))
    table = compare(voters, queries, total, bags=Bags(1000, 900, replacement=False), fresh=fresh)
    gamma = of(table, "optimal_sequence").noise
    assert gamma is not None
    x = math.exp(0.3) / (1 + math.exp(0.3))
    ways = np.array([math.comb(queries, ones) for ones in range(queries + 1)])
    ones = np.arange(queries + 1)
    transcripts = np.array([ways * p**ones * (1 - p) ** (queries - ones) for p in (1 + gamma.signed) / 2])

    def law(r: int, p: float) -> Array:
        """Return the law of the number of released ones if r models vote 1 with probability p, once, and the others 1."""
        return np.asarray(poisson_binomial(np.array([[p] * r + [1.0] * (K - r)]))[0] @ transcripts)

    chances = [math.comb(K, r) * chance**r * (1 - chance) ** (K - r) for r in range(K + 1)]
    here, there = (sum(c * law(r, p) for r, c in enumerate(chances)) for p in (x, 1 - x))
    delta = float(np.maximum(here - math.exp(total.epsilon) * there, 0).sum())  # the draw is secret
    if fresh:  # the total of fresh voters, which these violate
        assert delta >= 6.7e-4
    else:
        assert delta <= total.delta


def test_the_sequence_design_is_at_least_as_useful_as_the_best_target() -> None:
    """K = 5, ε = 0.5, five releases within (1, 1e-3): the region alone leaves 0.2699 where one target has 0.2892."""
    table = compare(Problem(5, Privacy(0.5), Privacy(1.0)), 5, Privacy(1.0, 1e-3), fresh=True)
    assert table.rows[0].name in {"optimal", "optimal_sequence"}
    assert (table.rows[0].utility or 0) >= 0.289
    assert (of(table, "subsampling").epsilon or 0) >= 0.99  # its parameter is continuous: it uses the whole budget
