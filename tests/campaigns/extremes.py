"""Extreme inputs: every account, bound and calibration ends in a number or ∞, and is monotone in what it must be.

Orders up to 1e300, σ from 1e-3 to 1e6 votes, ε from 1e-12 to 500, δ from 1e-300 to 0.999: each random question ends in
a bound that is a number or ∞, or in an error of ours with its reason; never in NaN, a negative bound, or another error.
A question that must cost no less (more releases, less noise, a smaller δ) costs no less, up to the precision of
searches.

    PYTHONPATH=tests python -m campaigns.extremes --questions 50000
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import numpy as np

from campaigns.driver import Campaign, Row, Tally, listed
from darrm_opt import NoiseFunction, Privacy, Problem
from darrm_opt.accounting import PrivacyBudget, Sampling
from darrm_opt.accounting.calibrate import epsilon_each
from darrm_opt.accounting.composition import closed_forms, optimal
from darrm_opt.accounting.gaussian import gaussian_delta, gaussian_epsilon
from darrm_opt.accounting.labels import bounded_range_divergence
from darrm_opt.accounting.labels.vote_cost import VoteReleases, vote_cost
from darrm_opt.accounting.pld import pld_composition
from darrm_opt.accounting.propose_test_release import VoteBatch, propose
from darrm_opt.accounting.published_loss import publish_loss, unpublished_epsilon
from darrm_opt.accounting.rdp import gaussian_rdp, gaussian_rdp_epsilon, rdp_delta, rdp_epsilon
from darrm_opt.accounting.sampling import amplify_by_subsampling
from darrm_opt.accounting.total import cost, exact_epsilon
from darrm_opt.errors import DarrmError
from darrm_opt.mechanisms import mechanism_class
from darrm_opt.mechanisms.noisy_maximum import NoisyMaximum

Draw = dict[str, Any]

PRECISION = 2e-2
"""Share of a bound by which searches and grids may break monotony."""

COUNTS = (1, 2, 7, 100, 5000)
"""Numbers of releases."""

SAMPLINGS: list[dict[str, Any]] = [
    {"records": 10**6, "rate": 1e-5},
    {"records": 1000, "rate": 0.3, "neighbours": "replace-one"},
    {"records": 100, "sample": 3, "scheme": "without-replacement"},
    {"records": 100, "sample": 1, "scheme": "each-voter"},
    {"records": 10, "scheme": "random-allocation", "among": 5},
]


def draw(rng: Random) -> Draw:
    """Return a random question."""
    return {
        "sigma": 10 ** rng.uniform(-3, 6),
        "epsilon": 10 ** rng.uniform(-12, math.log10(500)),
        "delta": rng.choice([10 ** rng.uniform(-300, -3), 10 ** rng.uniform(-15, -2), rng.uniform(0.001, 0.999)]),
        "order": 1 + 10 ** rng.choice([rng.uniform(-3, 2), rng.uniform(2, 300)]),
        "queries": rng.choice(COUNTS),
        "K": rng.choice([1, 2, 3, 10, 250]),
        "classes": rng.choice([2, 3, 10]),
        "affected": 1,
        "leader": rng.random(),
    }


def _mechanism(name: str, at: Draw) -> Any:
    if name in ("laplace", "gnmax"):
        return mechanism_class(name).of(at["K"], at["classes"], at["sigma"], at["affected"])
    classes = 2 if name in ("subsampling", "randomized_response") else at["classes"]
    value: dict[str, float] = {"randomized_response": min(1.0, at["epsilon"])}
    value["subsampling"] = min(at["K"], 1 + at["epsilon"])
    return mechanism_class(name).of(at["K"], classes, value.get(name, float(at["epsilon"])), at["affected"])


def _counts(at: Draw, queries: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    leader = max(math.ceil(at["K"] / 2), round(at["leader"] * at["K"]))
    counts = np.zeros((queries, at["classes"]), dtype=np.int64)
    counts[:, 0], counts[:, 1] = leader, at["K"] - leader
    return counts


def _batch(at: Draw, *, checked: bool) -> VoteBatch:
    check: tuple[Any, ...] = (at["leader"] * at["K"], max(1.0, at["sigma"] ** 0.5)) if checked else ()
    return VoteBatch(at["K"], at["classes"], min(at["queries"], 100), max(1.0, at["sigma"]), *check)


def _batch_renyi(at: Draw, *, checked: bool) -> list[float]:
    batch = _batch(at, checked=checked)
    loss = batch.loss(_counts(at, batch.queries), min(at["order"], 1e9))
    values = [loss.renyi(moved) for moved in (0, 1, at["K"])]
    assert values == sorted(values), values
    assert values[-1] <= batch.renyi(min(at["order"], 1e9)) * (1 + 1e-9) + 1e-300, values
    return values


def _proposal(at: Draw, *, checked: bool) -> list[float]:
    batch = _batch(at, checked=checked)
    proposal = propose(batch, Privacy(at["epsilon"], at["delta"]))
    counts = _counts(at, batch.queries)
    distance = proposal.unpublished_distance(counts)
    if distance:
        assert batch.loss(counts, proposal.order).renyi() <= proposal.target
    return [proposal.target, float(distance)]


def _divergence(at: Draw) -> list[float]:
    kind, noise = ("label", "check")[at["queries"] % 2], ("gaussian", "discrete")[at["sigma"] >= 1]
    bound = VoteReleases(kind, at["sigma"], 1, noise).divergence(at["classes"])  # type: ignore[arg-type]
    orders = np.array([0.5, 0.999, 1.001, at["order"], 1e300])
    return [*bound.at(orders).tolist(), *bound.renyi(orders[2:]).tolist()]


def _ranged(at: Draw) -> list[float]:
    bound = bounded_range_divergence(at["epsilon"])
    orders = np.array([0.5, 0.999, 1.001, at["order"], 1e300])
    return [*bound.at(orders).tolist(), *bound.renyi(orders[2:]).tolist()]


def _gamma(at: Draw) -> list[float]:
    K = min(at["K"], 10)
    noise = NoiseFunction(np.full(K + 1, min(1.0, at["leader"])))
    voter = Privacy(at["epsilon"], min(at["delta"] / 2, 0.4))  # below δ also where a problem rounds it
    problem = Problem(K, voter, Privacy(1.0), 1)
    return [exact_epsilon(noise, problem, min(at["queries"], 7), at["delta"], fresh=at["leader"] < 0.5)]


def _cost(name: str, sampling: dict[str, Any] | None = None) -> Callable[[Draw], list[float]]:
    def ask(at: Draw) -> list[float]:
        drawn = None if sampling is None else Sampling(**sampling)
        return [cost(_mechanism(name, at), at["queries"], at["delta"], drawn).epsilon]

    return ask


def _checked_cost(at: Draw) -> list[float]:
    sigmas = max(1.0, at["sigma"]), max(1.0, at["sigma"] ** 0.5)
    mechanism = NoisyMaximum(at["K"], at["classes"], sigmas[0], threshold=at["leader"] * at["K"], check_sigma=sigmas[1])
    return [cost(mechanism, at["queries"], at["delta"]).epsilon]


def _calibrated(name: str) -> Callable[[Draw], list[float]]:
    def ask(at: Draw) -> list[float]:
        classes = 2 if name in ("subsampling", "randomized_response") else at["classes"]
        total, queries = Privacy(at["epsilon"], at["delta"]), min(at["queries"], 100)
        mechanism = mechanism_class(name).calibrated(at["K"], classes, total, queries)
        assert mechanism.epsilon(queries, total.delta) <= total.epsilon
        return [mechanism.value]

    return ask


QUESTIONS: dict[str, tuple[Callable[[Draw], Sequence[float]], str]] = {
    "gaussian_delta": (lambda at: [gaussian_delta(1 / at["sigma"], at["epsilon"])], "sigma"),
    "gaussian_epsilon": (lambda at: [gaussian_epsilon(1 / at["sigma"], at["delta"])], "sigma delta"),
    "gaussian_rdp": (lambda at: gaussian_rdp(at["sigma"], [at["order"]]).tolist(), "sigma"),
    "rdp_epsilon": (lambda at: [rdp_epsilon(gaussian_rdp(at["sigma"]), at["delta"])[0]], "sigma delta"),
    "rdp_delta": (lambda at: [rdp_delta(gaussian_rdp(at["sigma"]), at["epsilon"])[0]], "sigma"),
    "one order": (
        lambda at: [rdp_epsilon(gaussian_rdp(at["sigma"], [at["order"]]), at["delta"], [at["order"]])[0]],
        "sigma delta",
    ),
    "one order, δ": (
        lambda at: [rdp_delta(gaussian_rdp(at["sigma"], [at["order"]]), at["epsilon"], [at["order"]])[0]],
        "sigma",
    ),
    "gaussian_rdp_epsilon": (
        lambda at: [gaussian_rdp_epsilon(at["sigma"], at["queries"], at["delta"])],
        "sigma delta queries",
    ),
    "divergence": (_divergence, ""),
    "bounded range": (_ranged, ""),
    "vote_cost": (
        lambda at: [
            vote_cost(
                [VoteReleases("label", at["sigma"], at["queries"]), VoteReleases("check", at["sigma"], 3)],
                at["delta"],
                classes=at["classes"],
            ).epsilon
        ],
        "sigma delta queries",
    ),
    "optimal": (
        lambda at: [optimal.optimal_composition(at["epsilon"], at["delta"] / 1e4, at["queries"], at["delta"]).epsilon],
        "queries",
    ),
    "optimal δ": (
        lambda at: [optimal.optimal_delta(at["epsilon"], at["delta"], at["queries"], at["leader"] * at["epsilon"])],
        "queries",
    ),
    "pld": (
        lambda at: [
            pld_composition(at["epsilon"], at["delta"] / 1e4, min(at["queries"], 100), at["delta"]).privacy.epsilon
        ],
        "",
    ),
    "kov": (
        lambda at: [
            closed_forms.kov_composition(at["epsilon"], at["delta"] / 1e4, at["queries"], at["leader"]).epsilon,
            closed_forms.kov_composition_at_delta({Privacy(at["epsilon"]): at["queries"]}, at["delta"]).epsilon,
        ],
        "queries",
    ),
    "tail": (
        lambda at: [
            closed_forms.tail_composition(at["epsilon"], at["delta"] / 1e4, at["queries"], at["leader"] + 1e-9).epsilon
        ],
        "",
    ),
    "subsampling": (
        lambda at: [amplify_by_subsampling(Privacy(at["epsilon"], at["delta"]), at["leader"]).epsilon],
        "",
    ),
    "epsilon_each": (
        lambda at: [epsilon_each(Privacy(at["epsilon"], at["delta"]), at["delta"] / 1e5, at["queries"])],
        "",
    ),
    "budget": (
        lambda at: [PrivacyBudget(Privacy(at["sigma"], at["delta"])).affordable(Privacy(at["epsilon"]))],
        "",
    ),
    "gamma": (_gamma, "delta"),
    "batch": (lambda at: _batch_renyi(at, checked=False), ""),
    "checked batch": (lambda at: _batch_renyi(at, checked=True), ""),
    "proposal": (lambda at: _proposal(at, checked=False), ""),
    "checked proposal": (lambda at: _proposal(at, checked=True), ""),
    "by votes": (
        lambda at: [
            unpublished_epsilon(
                _batch(at, checked=at["leader"] < 0.5),
                _counts(at, _batch(at, checked=at["leader"] < 0.5).queries),
                at["delta"],
            ).epsilon
        ],
        "",
    ),
    "published": (
        lambda at: [
            publish_loss(
                _batch(at, checked=at["leader"] < 0.5),
                _counts(at, _batch(at, checked=at["leader"] < 0.5).queries),
                at["delta"],
            ).epsilon
        ],
        "",
    ),
    **{f"cost of {name}": (_cost(name), "delta queries sigma") for name in ("gnmax", "laplace")},
    **{
        f"cost of {name}": (_cost(name), "delta queries")
        for name in ("exponential", "permute_and_flip", "randomized_response", "subsampling")
    },
    "cost with a check": (_checked_cost, "delta queries sigma"),
    **{
        f"cost of {name}, {drawn.get('scheme', 'poisson')}": (_cost(name, drawn), "delta queries")
        for name in ("gnmax", "exponential", "laplace")
        for drawn in SAMPLINGS
    },
    **{
        f"calibrated {name}": (_calibrated(name), "")
        for name in ("gnmax", "laplace", "exponential", "permute_and_flip", "randomized_response")
    },
}
"""What is asked, and in which arguments it is monotone: it falls with σ and δ, and grows with the queries."""


def worse(at: Draw, argument: str) -> Draw:
    """Return the question that must cost no less."""
    if argument == "queries":
        return {**at, "queries": at["queries"] + 1}
    if argument == "delta":
        return {**at, "delta": at["delta"] / 1.5}
    return {**at, "sigma": at["sigma"] / 1.3}


def ask(question: Callable[[Draw], Sequence[float]], at: Draw) -> list[float] | None:
    """Return the bounds, or None for an error with its reason."""
    try:
        return [float(value) for value in question(at)]
    except DarrmError:
        return None


def examine(name: str, at: Draw) -> str:
    """Return what is wrong with the answer to a question, or nothing."""
    question, monotone = QUESTIONS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            values = ask(question, at)
            if values is None:
                return ""
            if any(math.isnan(value) or value < 0 for value in values):
                return f"{name}: {values} of {at}"
            for argument in monotone.split():
                others = ask(question, worse(at, argument))
                if others is not None and any(
                    other < value * (1 - PRECISION) - 1e-12 for value, other in zip(values, others, strict=True)
                ):
                    return f"{name}, {argument}: {values}, then {others} of {at}"
        except Exception as err:  # noqa: BLE001 - that is what is looked for
            return f"{name}: {type(err).__name__}: {err} of {at}"
    return ""


def row(seed: int, number: int, names: Sequence[str] | None = None) -> Row:
    """Return what is wrong with the answer to a random question, one of these by name."""
    asked = [*(QUESTIONS if names is None else names)]
    wrong = examine(asked[number % len(asked)], draw(Random(f"{seed} {number}")))
    return Row([wrong], [f"wrong: {wrong.partition(':')[0]}"]) if wrong else Row()


def lines(tally: Tally) -> Iterator[str]:
    """Yield the result."""
    kinds = tally.kinds("wrong")
    told = f"{len(QUESTIONS)} kinds of questions: {len(tally.rows)} questions, {kinds.total()} wrong"
    yield f"{told}: {listed(kinds)}" if kinds else f"{told}."


CAMPAIGN = Campaign("extremes", __doc__, "questions", 50_000, row, lines, verb="extremes")

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main())
