"""Candidates among any number of classes: shares by enumeration, totals by the accountant, metamorphic relations."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from support.cases import for_each
from support.noisy_votes import vote_total
from support.plurality_exact import favoured_law, neighbours, vote_counts

from darrm_opt import Privacy
from darrm_opt.accounting import Sampling
from darrm_opt.accounting.composition.optimal import optimal_delta
from darrm_opt.accounting.labels.composition import composed_epsilon, table_divergence
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms import calibrated_names, mechanism_class, noisy_maximum
from darrm_opt.mechanisms.base import CountTable
from darrm_opt.mechanisms.noisy_maximum import NoisyMaximum, pass_chances
from darrm_opt.noise import Array
from darrm_opt.planning import Plan, plan
from darrm_opt.planning.question import VoteLaw
from darrm_opt.planning.table_baselines import tables
from darrm_opt.plurality import PastVotes, PluralityObjective, TableMechanism, parse_prior
from darrm_opt.problem import NOT_PRIVATE, Problem
from darrm_opt.tables.priors import PluralityPrior, sample_counts
from darrm_opt.tables.problem import partition_cells

CHANCES = (0.5, 0.9)
K, CLASSES, QUERIES, DELTA = 4, 3, 3, 1e-3
PAST = PastVotes((((55, 3, 1, 1), 50), ((40, 12, 6, 2), 30), ((22, 20, 9, 9), 15), ((16, 15, 15, 14), 5)))
TABLES = {"optimal", "permute_and_flip", "exponential", "laplace"}


def takes(name: str, classes: int) -> bool:
    """Return whether a mechanism with a parameter is for a number of classes."""
    mechanism = mechanism_class(name)
    try:
        mechanism.of_information(K, classes, min(0.5, mechanism.most_information(K, classes)))
    except InvalidInput as err:
        if err.argument != "classes":
            raise
        return False
    return True


OF_CLASSES = {name for name in calibrated_names() if takes(name, CLASSES)}


def designed(
    K: int,
    classes: int,
    total: Privacy,
    queries: int,
    *,
    affected: int = 1,
    objective: PluralityObjective | PluralityPrior | str = "dirichlet(1)",
) -> Plan:
    """Return the plan for voters that are not private."""
    return plan(K, None, queries, total, affected, objective, classes=classes)


def fitting(found: Plan) -> dict[str, Any]:
    """Return the options that fit by name, in order."""
    return {option.name: option for option in found.options if option.fits}


def best(found: Plan) -> Any:
    return found.options[0]


@lru_cache(maxsize=16)
def small(epsilon: float, price: float) -> Plan:
    objective = PluralityObjective(parse_prior("favoured(0.5,0.9)"), price=price)
    return designed(K, CLASSES, Privacy(epsilon, DELTA), QUERIES, objective=objective)


@lru_cache(maxsize=16)
def large(epsilon: float, price: float) -> Plan:
    return designed(60, 4, Privacy(epsilon, 1e-5), 40, objective=PluralityObjective(PAST, price=price))


def masses(sigma: float) -> dict[int, float]:
    end = math.ceil(10 * sigma)
    raw = {x: math.exp(-x * x / (2 * sigma * sigma)) for x in range(-end, end + 1)}
    total = math.fsum(raw.values())
    return {x: each / total for x, each in raw.items()}


def labels(counts: tuple[int, ...], sigma: float) -> float:
    """Return Pr[a leader is released], by enumeration of the noise; ties are split equally."""
    noise, right = masses(sigma), 0.0
    for drawn in product(noise, repeat=len(counts)):
        noisy = [count + x for count, x in zip(counts, drawn, strict=True)]
        won = [count for count, each in zip(counts, noisy, strict=True) if each == max(noisy)]
        right += math.prod(noise[x] for x in drawn) * won.count(max(counts)) / len(won)
    return right


def shares(design: Plan, name: str) -> tuple[float, float, float, float]:
    option = fitting(design)[name]
    return option.right, option.wrong, option.abstained, option.utility


def leads_at(counts: CountTable, sigma: float) -> Array:
    """Return Pr[a leader has the largest noisy count] under the drawn noise."""
    return NoisyMaximum(int(counts[0].sum()), counts.shape[1], sigma).leader_chances(counts)


# ------------------------------------------------------------------------------------------ shares


@for_each(
    ("counts", "sigma"),
    [
        ((3, 1, 0), 1.0),
        ((2, 1, 1), 1.25),
        ((2, 2, 0), 1.0),
        ((1, 1, 1), 1.1),
        ((9, 2), 9.0),
        ((8, 8), 13.0),
        ((30, 1), 17.3),
    ],
)
def test_shares_of_noise_are_those_of_enumeration(counts: tuple[int, ...], sigma: float) -> None:
    assert leads_at(np.array([counts]), sigma)[0] == pytest.approx(labels(counts, sigma), abs=1e-11)


def test_shares_of_checks_are_those_of_enumeration() -> None:
    for largest, threshold, sigma in [(5, 4.0, 1.0), (5, 7.5, 2.5), (0, 9.0, 3.0)]:
        expected = math.fsum(p for x, p in masses(sigma).items() if largest + x >= threshold)
        assert pass_chances(np.array([largest]), threshold, sigma)[0] == pytest.approx(expected, abs=1e-11)


def test_shares_of_a_table_are_those_of_enumeration() -> None:
    law = favoured_law(K, CLASSES, CHANCES)
    strict = {counts: mass for counts, mass in law.items() if counts.count(max(counts)) == 1}
    for option in fitting(small(2.0, 2.0)).values():
        if not isinstance(option.mechanism, TableMechanism):
            continue
        rule, right, silent = option.mechanism.table, 0.0, 0.0
        for counts, mass in strict.items():
            chances = rule.probabilities(counts)
            right += mass * float(chances[counts.index(max(counts))])
            silent += mass * float(chances[CLASSES]) if rule.cells.abstention else 0.0
        whole = math.fsum(strict.values())
        expected = (right / whole, 1 - (right + silent) / whole, silent / whole)
        assert shares(small(2.0, 2.0), option.name)[:3] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("cap", [1, 2, 3])
def test_shares_with_a_cap_are_those_of_all_sequences_of_queries(cap: int) -> None:
    prior = parse_prior("favoured(0.5,0.9)")
    law = VoteLaw(PluralityObjective(prior), Problem(K, NOT_PRIVATE, Privacy(1.0), 1, classes=CLASSES))
    leads = leads_at(law.counts, 1.2)
    passes = pass_chances(law.counts[:, 0], 3.0, 1.5)
    # Outcomes of a query: strict votes or not (not judged), checked or not, right or not.
    strict = law.counts[:, 0] > law.counts[:, 1]
    outcomes = {
        "right": float(law.masses @ (strict * passes * leads)),
        "wrong": float(law.masses @ (strict * passes * (1 - leads))),
        "tied": float(law.masses @ (~strict * passes)),
        "silent": float(law.masses @ (1 - passes)),
    }
    right = answered = 0.0
    for sequence in product(outcomes, repeat=QUERIES):
        chance, released = math.prod(outcomes[each] for each in sequence), 0
        for each in sequence:
            if each == "silent" or released == cap:
                continue
            released += 1
            right += chance * (each == "right")
            answered += chance * (each in ("right", "wrong"))
    judged = QUERIES * float(law.masses @ strict)
    assert law.checked_shares(leads, passes, QUERIES, cap) == pytest.approx(
        (right / judged, answered / judged), abs=1e-12
    )


# ------------------------------------------------------------------------------------------ totals


def test_totals_of_options_without_a_table_are_those_of_the_account() -> None:
    for option in fitting(large(2.0, 4.0)).values():
        chosen = option.parameters
        assert option.spent.epsilon == option.mechanism.epsilon(40, 1e-5) <= 2.0
        assert option.spent.epsilon > 0.98 * 2.0
        if option.mechanism.parameter != "sigma":
            assert {option.mechanism.parameter: option.mechanism.value} == chosen
            continue
        made = [("label", chosen["sigma"], int(chosen.get("cap", 40)), "discrete")]
        if option.name == "confident_gnmax":
            made.append(("check", chosen["check_sigma"], 40, "discrete"))
        assert vote_total(made, 1e-5, classes=4).epsilon == option.spent.epsilon
        assert option.mechanism.cap == (None if chosen.get("cap", 40) == 40 else chosen["cap"])


def test_the_total_of_a_table_covers_all_neighbours() -> None:
    composed = 0
    for option in fitting(small(2.0, 2.0)).values():
        if not isinstance(option.mechanism, TableMechanism):
            continue
        target = option.mechanism.problem.target
        each = (option.parameters["epsilon"], option.parameters["delta"])
        strictest = option.mechanism.problem.strictest.target  # proved by the certificate
        assert (target.epsilon, target.delta) == pytest.approx(each, rel=1e-9)
        assert strictest.epsilon <= each[0]
        assert strictest.delta <= each[1]
        if option.account == "optimal":
            assert optimal_delta(*each, QUERIES, 2.0) <= DELTA
            continue
        composed += 1
        rule = option.mechanism.table
        pairs = [(n, other) for n in vote_counts(K, CLASSES) for other in neighbours(n, 1)]
        p, q = ([[float(x) for x in rule.probabilities(pair[side])] for pair in pairs] for side in (0, 1))
        again = composed_epsilon([(table_divergence(p, q), QUERIES)], DELTA)
        assert option.spent.epsilon <= min(2.0, again * (1 + 1e-6))  # its sums and convolution may be smaller
    assert composed


# ------------------------------------------------------------------------------------------ relations


@pytest.mark.parametrize("design", [small, large])
def test_more_budget_is_never_worse(design: object) -> None:
    price = 4.0 if design is large else 2.0  # another test caches the plan for 2.0
    found = [design(epsilon, price) for epsilon in (2.0, 4.0)]  # type: ignore[operator]
    assert all(best(a).utility <= best(b).utility for a, b in pairwise(found))
    for name in set(fitting(found[0])):
        utilities = [shares(each, name)[3] for each in found]
        assert utilities == sorted(utilities), name


@pytest.mark.parametrize("design", [small, large])
def test_at_a_higher_price_fewer_labels_are_wrong(design: object) -> None:
    prices = (0.0, 2.0) if design is small else (0.0, 4.0)
    found = [design(2.0, price) for price in prices]  # type: ignore[operator]
    wrong = [best(each).wrong for each in found]
    assert all(a >= b - 1e-9 for a, b in pairwise(wrong))
    assert wrong[-1] < 0.5 * wrong[0]
    utilities = [best(each).utility for each in found]
    assert utilities == sorted(utilities, reverse=True)


def test_options_are_in_order_of_usefulness() -> None:
    assert set(fitting(small(2.0, 0.0))) == {"optimal"} | OF_CLASSES
    assert set(fitting(small(2.0, 2.0))) == {"optimal", "confident_gnmax"} | OF_CLASSES
    assert fitting(small(2.0, 2.0))["confident_gnmax"].parameters["sigma"] > 0
    assert set(fitting(large(2.0, 4.0))) == {"confident_gnmax"} | OF_CLASSES
    for design in (small(2.0, 0.0), small(2.0, 2.0), large(2.0, 4.0)):
        assert [option.utility for option in fitting(design).values()] == sorted(
            (option.utility for option in fitting(design).values()), reverse=True
        )
        for option in fitting(design).values():
            assert Fraction(option.right) + Fraction(option.wrong) + Fraction(option.abstained) == pytest.approx(
                1, abs=1e-12
            )
            assert option.spent.epsilon <= design.question.total.epsilon
    assert best(small(2.0, 2.0)).name == "optimal"
    confident = best(large(2.0, 4.0))
    assert (confident.name, confident.abstained > 0) == ("confident_gnmax", True)


def test_past_votes_of_another_number_of_voters_are_refused() -> None:
    with pytest.raises(InvalidInput, match="60 votes among 4 classes"):
        designed(61, 4, Privacy(1.0, 1e-5), 2, objective=PAST)


def test_all_options_have_a_total_at_delta_0() -> None:
    design = designed(60, 4, Privacy(1.0, 0.0), 2, objective=PAST)
    assert set(fitting(design)) == OF_CLASSES
    for option in fitting(design).values():
        if option.name == "gnmax":
            continue
        rate = option.mechanism.value if option.name != "laplace" else 1 / option.mechanism.value
        assert 2 * 2 * rate <= option.spent.epsilon * (1 + 1e-15) <= 1 + 1e-15
    assert best(design).name == "permute_and_flip"  # at equal rates it is never worse


# ------------------------------------------------------------------------------------------ without tables


@for_each("rate", [0.01, 0.5, 4.0])
@for_each("counts", [(4, 0, 0), (2, 1, 1), (2, 2, 0), (3, 3, 3), (40, 38, 7)])
def test_shares_of_selection_mechanisms_are_those_of_their_tables(counts: tuple[int, ...], rate: float) -> None:
    cells = partition_cells(Problem(sum(counts), NOT_PRIVATE, Privacy(1.0), 1, classes=3))
    for name in ("permute_and_flip", "exponential"):
        start = cells.starts[cells.numbers[counts]]
        expected = tables()[name](cells, rate)[start] * cells.multiplicities[start]
        assert mechanism_class(name).of(sum(counts), len(counts), rate).leader_chances(np.array([counts]))[
            0
        ] == pytest.approx(expected, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("prior", ["favoured(0.4,0.8)", "beta(8,2)", "dirichlet(0.2)"])
def test_sampled_vote_counts_agree_with_the_full_law(prior: str) -> None:
    goal = PluralityObjective(parse_prior(prior), price=2.0)
    problem = Problem(60, NOT_PRIVATE, Privacy(1.0, 1e-5), 1, classes=4)
    whole = VoteLaw(goal, problem)
    assert whole.samples is None
    counts = sample_counts(goal.prior, 60, 4, 2000)
    assert (counts.sum(axis=1) == 60).all()
    assert (np.diff(counts, axis=1) <= 0).all()
    strict = counts[:, 0] > counts[:, 1]
    for sigma in (5.0, 30.0):
        drawn = float(leads_at(counts[strict], sigma).mean())
        assert drawn == pytest.approx(float(whole.judged @ leads_at(whole.counts, sigma)), abs=4 / math.sqrt(2000))


def test_more_voters_and_classes_than_can_be_listed_have_a_plan() -> None:
    design = designed(300, 12, Privacy(2.0, 1e-5), 1, objective="favoured(0.2,0.5)")
    assert design.question.vote_law.samples == 2000
    assert set(fitting(design)) == OF_CLASSES
    assert best(design).name == "permute_and_flip"  # for a single release
    many = designed(10**6, 1000, Privacy(1.0, 0.0), 5, objective="beta(2,2)")
    assert many.question.vote_law.samples == 100
    assert best(many).right > 0.99
    with pytest.raises(InvalidInput, match="at least 1/12"):
        designed(300, 12, Privacy(2.0, 1e-5), 1, objective="favoured(0.05)")


def test_only_the_optimum_has_a_gap() -> None:
    for option in fitting(small(2.0, 2.0)).values():
        assert (option.gap is not None and 0 <= option.gap < 1e-6) if option.name == "optimal" else option.gap is None


def test_one_query_of_two_classes_with_two_votes_per_record_and_delta_0() -> None:
    objective = PluralityObjective(parse_prior("beta(4,2)"), ties="any", price=1.0)
    two = designed(6, 2, Privacy(1.5, 1e-3), 1, affected=2, objective=objective)
    assert best(two).name == "optimal"
    one = designed(6, 2, Privacy(1.5, 1e-3), 1, affected=1, objective=objective)
    assert best(one).utility > best(two).utility
    assert set(fitting(one)) == set(fitting(two))
    pure = designed(6, 2, Privacy(1.5, 0.0), 3, objective=objective)
    assert set(fitting(pure)) >= TABLES
    for option in fitting(pure).values():
        assert option.mechanism.epsilon(3, 0.0) == pytest.approx(option.spent.epsilon, rel=1e-10)
        assert option.spent.epsilon <= 1.5
        if isinstance(option.mechanism, TableMechanism):
            assert 3 * option.parameters["epsilon"] <= 1.5
            assert option.parameters["delta"] == 0


def test_the_shares_of_wide_noise_are_those_of_its_density(monkeypatch: pytest.MonkeyPatch) -> None:
    sigma, counts = 2.0**14, np.array([[40, 0, 0], [15, 15, 10], [14, 13, 13]])
    exact = leads_at(counts, sigma), pass_chances(counts[:, 0], sigma, sigma)
    monkeypatch.setattr(noisy_maximum, "WIDE_SIGMA", 1.0)
    for each, found in zip(exact, (leads_at(counts, sigma), pass_chances(counts[:, 0], sigma, sigma)), strict=True):
        assert found == pytest.approx(each, rel=0, abs=0.05 / sigma**2)
        assert (found != each).any()


@for_each("total", [Privacy(5e-324), Privacy(1e-310), Privacy(1e-9, 1e-12)])
@for_each(("classes", "ensemble"), [(2, None), (5, None), (5, Sampling(100, 10))])
def test_the_smallest_totals_have_a_plan(total: Privacy, classes: int, ensemble: Sampling | None) -> None:
    found = plan(3, None, 1, total, 1, classes=classes, sampling=ensemble)
    assert found.verdict == "none"
    for option in fitting(found).values():
        assert option.spent.epsilon <= total.epsilon
