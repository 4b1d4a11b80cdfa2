"""Extreme inputs: every account, bound and calibration ends in a number or ∞, and is monotone in what it must be.

Orders up to 1e300, σ from 1e-3 to 1e6 votes, ε from 1e-12 to 500, δ from 5e-324 to 0.999, records up to 10^12 and
rates from 1e-12: each random question ends in a bound that is a number or ∞, or in an error of ours with its reason;
never in NaN, a negative bound, or another error. A question that must cost no less (more releases, less noise, a
smaller δ, a larger rate) costs no less, up to the precision of searches.

The numbers are extreme; sizes are mostly small, since what many voters, classes and releases cost is time. All kinds
are asked about one situation after another, so that they share its laws.

    PYTHONPATH=tests python -m campaigns.extremes --questions 50000
"""

from __future__ import annotations

import itertools
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random
from typing import Any, get_args

import numpy as np

from campaigns.driver import Campaign, Row, Tally, listed
from darrm_opt import NoiseFunction, Privacy, Problem
from darrm_opt.accounting import PrivacyBudget, Sampling
from darrm_opt.accounting.calibrate import epsilon_each
from darrm_opt.accounting.composition import closed_forms, optimal
from darrm_opt.accounting.gaussian import gaussian_delta, gaussian_epsilon
from darrm_opt.accounting.labels.composition import bounded_range_divergence
from darrm_opt.accounting.labels.vote_release import VoteRelease
from darrm_opt.accounting.pld import pld_composition
from darrm_opt.accounting.propose_test_release import VoteBatch, propose
from darrm_opt.accounting.published_loss import publish_loss, unpublished_epsilon
from darrm_opt.accounting.rdp import gaussian_rdp, gaussian_rdp_epsilon, rdp_delta, rdp_epsilon
from darrm_opt.accounting.sampling import Scheme, amplify_by_subsampling
from darrm_opt.accounting.total import cost, exact_epsilon, total_of
from darrm_opt.errors import DarrmError
from darrm_opt.mechanisms import mechanism_class
from darrm_opt.mechanisms.noisy_maximum import NoisyMaximum

PRECISION = 2e-2  # share of a bound by which searches and grids may break monotony
LARGE = 0.02  # share of the situations with many voters, classes and releases
RARE = 10  # slow kinds are asked about one of so many situations


@dataclass(frozen=True)
class Situation:
    """The numbers that questions are about; each kind takes those that it has."""

    sigma: float
    check_sigma: float
    epsilon: float
    delta: float
    each_delta: float  # below delta, of one of several releases
    order: float
    count: int  # of releases, for closed forms
    queries: int  # the same, for what takes longer with them
    K: int
    classes: int
    affected: int
    leader: float  # share of the votes, or any other share
    cap: int | None
    rate: float
    records: int
    among: int
    times: int
    labels: int

    def dearer(self, argument: str) -> Situation:
        """Return the situation whose cost must not be less."""
        if argument == "queries":
            return replace(self, queries=self.queries + 1, count=self.count + 1)
        if argument in ("order", "epsilon"):
            return replace(self, **{argument: getattr(self, argument) * 1.2})
        if argument == "rate":
            return replace(self, rate=min(1.0, self.rate * 1.4))
        name = "epsilon" if argument == "total" else argument
        return replace(self, **{name: getattr(self, name) / 1.3})

    @property
    def counts(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        leader = max(math.ceil(self.K / 2), round(self.leader * self.K))
        counts = np.zeros((min(self.queries, 100), self.classes), dtype=np.int64)
        counts[:, 0], counts[:, 1] = leader, self.K - leader
        return counts

    def batch(self, checked: bool) -> VoteBatch:
        check: dict[str, Any] = (
            {"threshold": self.leader * self.K, "check_sigma": max(1.0, self.check_sigma)} if checked else {}
        )
        mechanism = NoisyMaximum(self.K, self.classes, max(1.0, self.sigma), **check)
        return mechanism.batch(min(self.queries, 100))

    def sampling(self, scheme: Any) -> Sampling | None:
        """Return how records are drawn; "replace-one" stands for such neighbours of the scheme "poisson"."""
        if scheme is None:
            return None
        if scheme in ("poisson", "replace-one"):
            neighbours: Any = "replace-one" if scheme == "replace-one" else None
            return Sampling(self.records, rate=self.rate, neighbours=neighbours, labels=self.labels)
        if scheme == "random-allocation":
            return Sampling(self.records, scheme=scheme, among=self.among, times=min(self.times, self.among))
        labels = self.labels if scheme == "without-replacement" else 1
        return Sampling(self.records, max(1, round(self.rate * self.records)), scheme=scheme, labels=labels)

    def mechanism(self, name: str) -> Any:
        if name == "a check":
            check: Any = {"threshold": self.leader * self.K, "check_sigma": self.check_sigma, "cap": self.cap}
            return NoisyMaximum(self.K, self.classes, self.sigma, affected=self.affected, **check)
        value = {"gnmax": self.sigma, "laplace": self.sigma, "randomized_response": min(1.0, self.epsilon)}
        value["subsampling"] = min(self.K, 1 + self.epsilon)
        return mechanism_class(name).of(
            self.K, _classes(name, self.classes), value.get(name, self.epsilon), self.affected
        )


def draw(rng: Random) -> Situation:
    large, K = rng.random() < LARGE, rng.choice([1, 2, 3, 5])
    delta = rng.choice([10 ** rng.uniform(-323.3, -3), 10 ** rng.uniform(-15, -2), rng.uniform(0.001, 0.999)])
    among = rng.choice([1, 2, 5, 1000]) if large else rng.choice([1, 2, 3])
    return Situation(
        sigma=10 ** rng.uniform(-3, 6),
        check_sigma=10 ** rng.uniform(-3, 6),
        epsilon=10 ** rng.uniform(-12, math.log10(500)),
        delta=delta,
        each_delta=rng.choice([0.0, delta * 10 ** rng.uniform(-8, -0.5)]),
        order=1 + 10 ** rng.choice([rng.uniform(-3, 2), rng.uniform(2, 300)]),
        count=round(10 ** rng.uniform(0, 5)),
        queries=rng.choice([100, 5000]) if large else rng.choice([1, 1, 2, 3, 7]),
        K=rng.choice([10, 250]) if large else K,
        classes=rng.choice([3, 10]) if large else rng.choice([2, 2, 3]),
        affected=rng.choice([1, 1, 1, min(2, K), K]),
        leader=rng.choice([0.0, 1.0, *(rng.random() for _ in range(8))]),
        cap=rng.choice([None, None, 1, 2]),
        rate=rng.choice([10 ** rng.uniform(-12, 0), rng.random(), 1.0]),
        records=round(10 ** rng.uniform(0, 11.9)),
        among=among,
        times=rng.choice([1, 1, among]),
        labels=rng.choice([1, 1, 1, 2, 3]),
    )


Question = Callable[[Situation], Sequence[float]]


def _classes(name: str, classes: int) -> int:
    return 2 if name in ("subsampling", "randomized_response") else classes


def _batch_renyi(at: Situation, *, checked: bool) -> list[float]:
    batch, order = at.batch(checked), min(at.order, 1e9)
    loss = batch.loss(at.counts, order)
    values = [loss.renyi(moved) for moved in (0, 1, at.K)]
    # Each is rounded up by itself.
    assert all(nearer <= further * (1 + 1e-12) for nearer, further in itertools.pairwise(values)), values
    assert values[-1] <= batch.renyi(order) * (1 + 1e-9) + 1e-300, values
    return values


def _proposal(at: Situation, *, checked: bool) -> list[float]:
    batch = at.batch(checked)
    proposal = propose(batch, Privacy(at.epsilon, at.delta))
    distance = proposal.unpublished_distance(at.counts)
    if distance:
        assert batch.loss(at.counts, proposal.order).renyi() <= proposal.target
    return [proposal.target, float(distance)]


def _divergence(at: Situation) -> list[float]:
    kind, noise = ("label", "check")[at.queries % 2], ("gaussian", "discrete")[at.sigma >= 1]
    return _at_orders(VoteRelease(kind, at.sigma, noise).divergence(at.classes), at)  # type: ignore[arg-type]


def _at_orders(bound: Any, at: Situation) -> list[float]:
    orders = np.array([0.5, 0.999, 1.001, at.order, 1e300])
    return [*bound.at(orders).tolist(), *bound.renyi(orders[2:]).tolist()]


def _gamma(at: Situation, *, fresh: bool) -> list[float]:
    noise = NoiseFunction(np.full(min(at.K, 10) + 1, at.leader))
    problem = Problem(min(at.K, 10), Privacy(at.epsilon, at.each_delta), Privacy(1.0), 1)
    return [exact_epsilon(noise, problem, min(at.queries, 7), at.delta, fresh=fresh)]


def _cost(name: str, scheme: Any = None) -> Question:
    return lambda at: [cost(at.mechanism(name), at.queries, at.delta, at.sampling(scheme)).epsilon]


def _calibrated(name: str, scheme: Any = None) -> Question:
    def ask(at: Situation) -> list[float]:
        made, drawn, total = mechanism_class(name), at.sampling(scheme), Privacy(at.epsilon, at.delta)
        queries, classes = min(at.queries, 100), _classes(name, at.classes)
        mechanism = made.calibrated(at.K, classes, total, queries, affected=at.affected, sampling=drawn)
        assert mechanism.epsilon(queries, total.delta, drawn) <= total.epsilon
        return [1 / mechanism.value if made.increases else mechanism.value]

    return ask


def _each(at: Situation) -> Privacy:
    return Privacy(at.epsilon, at.each_delta)


SCHEMES = (*get_args(Scheme), "replace-one")

SAMPLED = {"gnmax": "sigma", "exponential": "epsilon", "laplace": "sigma", "a check": "sigma check_sigma"}
"""Mechanisms whose sampled releases are asked about, and in which arguments they cost more."""

QUESTIONS: dict[str, tuple[Question, str]] = {
    "gaussian_delta": (lambda at: [gaussian_delta(1 / at.sigma, at.epsilon)], "sigma total"),
    "gaussian_epsilon": (lambda at: [gaussian_epsilon(1 / at.sigma, at.delta)], "sigma delta"),
    "gaussian_rdp": (lambda at: gaussian_rdp(at.sigma, [at.order]).tolist(), "sigma order"),
    "rdp_epsilon": (lambda at: [rdp_epsilon(gaussian_rdp(at.sigma), at.delta)[0]], "sigma delta"),
    "rdp_delta": (lambda at: [rdp_delta(gaussian_rdp(at.sigma), at.epsilon)[0]], "sigma total"),
    "one order": (
        lambda at: [rdp_epsilon(gaussian_rdp(at.sigma, [at.order]), at.delta, [at.order])[0]],
        "sigma delta",
    ),
    "one order, δ": (
        lambda at: [rdp_delta(gaussian_rdp(at.sigma, [at.order]), at.epsilon, [at.order])[0]],
        "sigma total",
    ),
    "gaussian_rdp_epsilon": (lambda at: [gaussian_rdp_epsilon(at.sigma, at.count, at.delta)], "sigma delta queries"),
    "divergence": (_divergence, ""),
    "bounded range": (lambda at: _at_orders(bounded_range_divergence(at.epsilon), at), "epsilon"),
    "continuous noise": (
        lambda at: [
            total_of(
                [
                    (VoteRelease("label", at.sigma).guarantee(at.classes), at.queries),
                    (VoteRelease("check", at.check_sigma).guarantee(at.classes), 3),
                ],
                at.delta,
            ).epsilon
        ],
        "sigma check_sigma delta queries",
    ),
    "optimal": (
        lambda at: [optimal.optimal_composition(at.epsilon, at.each_delta, at.count, at.delta).epsilon],
        "queries epsilon delta",
    ),
    "optimal δ": (
        lambda at: [optimal.optimal_delta(at.epsilon, at.each_delta, at.count, at.leader * at.epsilon)],
        "queries",
    ),
    "pld": (
        lambda at: [pld_composition(at.epsilon, at.each_delta, at.queries, at.delta).privacy.epsilon],
        "epsilon delta",
    ),
    "kov": (
        lambda at: [
            closed_forms.kov_composition(at.epsilon, at.each_delta, at.count, at.delta).epsilon,
            closed_forms.kov_composition_at_delta({_each(at): at.count}, at.delta).epsilon,
        ],
        "queries epsilon delta",
    ),
    "amplified": (
        lambda at: [amplify_by_subsampling(Privacy(at.epsilon, at.delta), at.rate).epsilon],
        "epsilon rate",
    ),
    "epsilon_each": (
        lambda at: [1 / epsilon_each(Privacy(at.epsilon, at.delta), at.each_delta, at.count)],
        "queries total delta",
    ),
    "budget": (
        lambda at: [1 / (1 + PrivacyBudget(Privacy(at.sigma, at.delta)).affordable(_each(at)))],
        "epsilon delta",
    ),
    "gamma": (lambda at: _gamma(at, fresh=False), "delta queries epsilon"),
    "gamma, fresh": (lambda at: _gamma(at, fresh=True), "delta queries epsilon"),
    "batch": (lambda at: _batch_renyi(at, checked=False), "queries"),
    "checked batch": (lambda at: _batch_renyi(at, checked=True), "queries"),
    "proposal": (lambda at: _proposal(at, checked=False), ""),
    "checked proposal": (lambda at: _proposal(at, checked=True), ""),
    "by votes": (
        lambda at: [unpublished_epsilon(at.batch(at.leader < 0.5), at.counts, at.delta).epsilon],
        "delta queries",
    ),
    "published": (lambda at: [publish_loss(at.batch(at.leader < 0.5), at.counts, at.delta).epsilon], ""),
    **{f"cost of {name}": (_cost(name), "delta queries sigma") for name in ("gnmax", "laplace")},
    "cost of a check": (_cost("a check"), "delta queries sigma check_sigma"),
    **{
        f"cost of {name}": (_cost(name), "delta queries epsilon")
        for name in ("exponential", "permute_and_flip", "randomized_response", "subsampling")
    },
    **{
        f"cost of {name}, {scheme}": (_cost(name, scheme), f"delta queries {noise} {rate}")
        for name, noise in SAMPLED.items()
        for scheme in SCHEMES
        for rate in ("" if scheme == "random-allocation" else "rate",)
    },
    **{
        f"calibrated {name}": (_calibrated(name), "queries delta total")
        for name in ("gnmax", "laplace", "exponential", "permute_and_flip", "randomized_response", "subsampling")
    },
    "calibrated gnmax, poisson": (_calibrated("gnmax", "poisson"), "queries delta total rate"),
}
"""What is asked, and in which arguments what it costs grows, each in the direction of `Situation.dearer`."""

SLOW = (
    "calibrated",
    "published",
    "proposal",
    "checked proposal",
    "by votes",
    *(f"cost of {name}," for name in SAMPLED),
)
"""Beginnings of the names of those kinds that search, or whose laws are sampled ones."""


def cycle(names: Sequence[str]) -> list[tuple[int, str, str]]:
    """Return what is asked of `RARE` situations: which, the kind, and the argument in which it is dearer, if any."""
    slow = [name for name in names if name.startswith(SLOW)]
    groups = [*dict.fromkeys(name.partition(",")[0] for name in slow)]  # each has its laws in common
    return [
        (situation, name, argument)
        for situation in range(RARE)
        for name in names
        if name not in slow or groups.index(name.partition(",")[0]) % RARE == situation
        for argument in ("", *QUESTIONS[name][1].split())
    ]


@lru_cache(maxsize=4)
def ask(question: Question, at: Situation) -> list[float] | None:
    """Return the bounds, or None for an error with its reason."""
    try:
        return [float(value) for value in question(at)]
    except DarrmError:
        return None


def examine(name: str, at: Situation, argument: str = "") -> str:
    """Return what is wrong with the answer to a question, or beside one that is dearer, or nothing."""
    question, _ = QUESTIONS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            values = ask(question, at)
            others = ask(question, at.dearer(argument)) if argument else values
        except Exception as err:  # noqa: BLE001 - that is what is looked for
            return f"{name}: {type(err).__name__}: {err} of {at}"
    if any(math.isnan(value) or value < 0 for value in [*(values or []), *(others or [])]):
        return f"{name}: {values}, {others} of {at}"
    pairs = zip(values, others, strict=True) if values and others else []
    is_check = name.startswith("cost of a check") and "sigma" in argument
    if is_check or (name.startswith("cost of exponential") and argument == "epsilon" and at.delta > 0):
        # a label, or a check at a fixed threshold, is as good as certain at little noise, and what is rarer than δ is
        # not charged: more noise may cost more, but never everything.
        pairs = [(value, other) for value, other in pairs if value == math.inf]
    if any(other < value * (1 - PRECISION) - 1e-12 for value, other in pairs):
        return f"{name}, {argument}: {values}, then {others} of {at}"
    return ""


def row(seed: int, number: int, names: Sequence[str] | None = None) -> Row:
    asked = cycle([*QUESTIONS] if names is None else names)
    turn, place = divmod(number, len(asked))
    situation, name, argument = asked[place]
    wrong = examine(name, draw(Random(f"{seed} {turn} {situation}")), argument)
    return Row([wrong], [f"wrong: {wrong.partition(':')[0]}"]) if wrong else Row()


def lines(tally: Tally) -> Iterator[str]:
    kinds = tally.kinds("wrong")
    told = f"{len(QUESTIONS)} kinds of questions: {len(tally.rows)} questions, {kinds.total()} wrong"
    yield f"{told}: {listed(kinds)}" if kinds else f"{told}."


CAMPAIGN = Campaign("extremes", __doc__, "questions", 50_000, row, lines, verb="extremes")

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main())
