"""Sampled totals: random ones against every sample, assignment and transcript, and what plans make of usual settings.

A total is one of a random mechanism, scheme, data set, question and δ, of one or two adaptive queries. Each account's ε
is held against the exact hockey-stick of the best adaptive questions, in fractions (`campaigns.sampled_ensembles`), which
knows nothing of q: it must not be below. The settings are those of prompts, retrieval and private kNN: ten voters, forty
records a query.

    PYTHONPATH=tests python -m campaigns.sampled --write docs/soundness.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from random import Random
from typing import Any

import numpy as np
from support.enumeration import exp_fraction

from campaigns.driver import Campaign, Row, Tally, origin, publish
from campaigns.sampled_ensembles import Law, question_pairs, random_vote, shown, worst_allocated_delta, worst_delta
from darrm_opt import NoiseFunction, Privacy
from darrm_opt.accounting import Sampling
from darrm_opt.accounting.total import cost
from darrm_opt.mechanisms import VoteMechanism, mechanism_class
from darrm_opt.mechanisms.noise_function import NoiseFunctionMechanism
from darrm_opt.mechanisms.noisy_maximum import NoisyMaximum
from darrm_opt.mechanisms.table import TableMechanism
from darrm_opt.planning import plan
from darrm_opt.problem import NOT_PRIVATE, Problem
from darrm_opt.tables.problem import partition_cells
from darrm_opt.tables.table import Table

LAW_ERROR = 1e-12  # error of a loss [nats] by laws in doubles, where nothing is drawn that could hide it

K, SAMPLE, DELTA, PRIOR = 10, 40, 1e-5, "beta(8,2)"

SETTINGS = [  # records, queries, total ε
    (67_349, 10_000, 3.0),
    (120_000, 10_000, 1.0),
    (5_452, 500, 3.0),
    (5_452, 10_000, 3.0),
    (1_561, 1_000, 4.0),
]

CASES: list[tuple[Any, Any, Sequence[int | None], Sequence[int | None], dict[str, Any]]] = [
    ("poisson", "add-remove", [0, 1, 9], [0, 1, None], {"rate": 0.4}),
    ("poisson", "add-remove", [0, 1, None], [0, 1, 9], {"rate": 0.4}),
    ("poisson", "replace-one", [0, 1, 8], [0, 1, 9], {"rate": 0.4}),
    ("without-replacement", "replace-one", [0, 1, 1, 8], [0, 1, 1, 9], {"sample": 3}),
    ("each-voter", "replace-one", [0, 1, 8], [0, 1, 9], {"sample": 1}),
    ("each-voter-with-replacement", "replace-one", [0, 1, 8], [0, 1, 9], {"sample": 1}),
    ("random-allocation", "add-remove", [9], [None], {"among": 2}),
    ("random-allocation", "add-remove", [None], [9], {"among": 2}),
]


def drawn_law(mechanism: VoteMechanism) -> Law:
    """The law of a mechanism, as fractions of the doubles that it states."""

    @cache
    def law(counts: tuple[int, ...]) -> list[Fraction]:
        order = sorted(range(len(counts)), key=lambda c: -counts[c])
        found = mechanism.class_chances(np.array([[counts[c] for c in order]]))
        assert found is not None
        exact = [Fraction(float(chance)) for chance in found[0]]
        classes = {c: exact[place] for place, c in enumerate(order)}
        laws = [classes[c] for c in range(len(counts))] + exact[len(counts) :]
        return [chance / sum(laws) for chance in laws]

    return law


def table(K: int, classes: int, seed: int) -> TableMechanism:
    """A table that favours the leader, and nothing else."""
    rng = np.random.default_rng(seed)
    problem = Problem(K, NOT_PRIVATE, Privacy(8.0, 0.5), 1, classes=classes)
    cells = partition_cells(problem)
    weights = rng.uniform(0.02, 1, cells.values.size) * np.exp(cells.values / 2)
    sums = np.add.reduceat(weights * cells.multiplicities, cells.starts)
    return TableMechanism(problem, Table.normalised(partition_cells(problem), weights / sums[cells.owners]))


def small_mechanisms(K: int, classes: int, check: float, **values: float) -> dict[str, VoteMechanism]:
    """Return mechanisms that can be enumerated, by name: a table, those with these parameters, and a noisy check."""
    named = {name: mechanism_class(name).of(K, classes, value) for name, value in values.items()}
    checked = NoisyMaximum(K, classes, 1.5, threshold=check, check_sigma=1.5)
    return {"table": table(K, classes, 1), **named, "confident": checked}


def random_mechanism(rng: Random) -> VoteMechanism:
    """Return a mechanism of three voters at a random parameter."""
    classes = rng.choice([2, 3])
    name = rng.choice(["table", "permute_and_flip", "exponential", "laplace", "gnmax", "confident", "gamma"])
    if name == "table":
        return table(3, classes, rng.randrange(10**6))
    if name == "gamma":
        first, second = rng.random(), rng.random()
        return NoiseFunctionMechanism(NoiseFunction([first, second, second, first]))
    if name == "confident":
        return NoisyMaximum(
            3, classes, rng.uniform(0.8, 3), threshold=rng.uniform(1, 3), check_sigma=rng.uniform(0.8, 3)
        )
    least = {"laplace": 0.5, "gnmax": 0.8}.get(name, 0.2)
    return mechanism_class(name).of(3, classes, rng.uniform(least, least + 2))


def examine(seed: int, number: int) -> Row:
    """Hold each account of a random total against enumeration."""
    rng = Random(f"{seed} {number}")
    scheme, neighbours, data, neighbour, drawn = rng.choice(CASES)
    mechanism, drawn = random_mechanism(rng), dict(drawn)
    if "rate" in drawn:
        drawn["rate"] = rng.choice([0.05, 0.2, 0.5, 0.9])
    if "among" in drawn:
        delta, truths = random_allocation(rng, mechanism, data, neighbour)
    else:
        questions = [[random_vote(rng, mechanism.classes)] for _ in range(2)] + [[shown(9, 1)]]
        pairs = question_pairs(
            scheme, data, neighbour, questions, mechanism.K, mechanism.classes, drawn_law(mechanism),
            sample=drawn.get("sample", 1), rate=Fraction(drawn.get("rate", 0.5)),
        )  # fmt: skip
        queries, delta = rng.choice([1, 2]), rng.choice([0.0, 10 ** rng.uniform(-5, -1)])
        found = cost(mechanism, queries, delta, Sampling(len(data), scheme=scheme, neighbours=neighbours, **drawn))
        slopes = [exp_fraction(min(epsilon, 50.0)) for epsilon in found.epsilons.values()]
        truths = [worst_delta(pairs, queries, slope) for slope in slopes]
    case = f"{mechanism.record()}, {scheme}, {neighbours}, {drawn}"
    below = [f"below the truth: {delta}, {float(truth)}: {case}" for truth in truths if truth > Fraction(delta)]
    return Row(below, [], {"accounts": len(truths)})


def random_allocation(
    rng: Random, mechanism: VoteMechanism, data: Sequence[int | None], neighbour: Sequence[int | None]
) -> tuple[float, list[Fraction]]:
    """Return a δ of one round of random allocation, and the exact one at the ε of each account."""
    among, delta = rng.choice([2, 3, 4]), rng.choice([0.0, 10 ** rng.uniform(-5, -1)])
    times = rng.randint(1, among - 1)
    found = cost(mechanism, among, delta, Sampling(1, scheme="random-allocation", among=among, times=times))
    questions, law = [random_vote(rng, mechanism.classes), shown(9, 1)][among // 4 :], drawn_law(mechanism)
    shape = (mechanism.K, mechanism.classes)
    # At δ = 0 an ε is that of the theorem, which is attained, and laws here are of doubles.
    slopes = [exp_fraction(min(epsilon, 50.0) + LAW_ERROR) for epsilon in found.epsilons.values()]
    true = worst_allocated_delta(data, neighbour, questions, shape, law, among=among, times=times)
    return delta, [true(slope) for slope in slopes]


def settings_table() -> list[str]:
    """Return a row for each setting and number of classes: σ of labels, and right answers of each mechanism."""
    names = ["optimal", "permute_and_flip", "exponential", "laplace", "gnmax"]
    rows = [
        (
            "| records n | queries Q | total ε | classes | σ | table | permute-and-flip | exponential | Laplace | GNMax "
            "| best without samples |"
        ),
        "|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for records, queries, epsilon in SETTINGS:
        total, sampling = Privacy(epsilon, DELTA), Sampling(records, SAMPLE)
        for classes in (2, 4, 6):
            sigma = mechanism_class("gnmax").calibrated(K, classes, total, queries, sampling=sampling).value
            found = plan(K, None, queries, total, 1, PRIOR, classes=classes, sampling=sampling)
            right = {option.name: option.right for option in found.options}
            shares = " | ".join(f"{right[name]:.4f}" for name in names)
            without = plan(K, None, queries, total, 1, PRIOR, classes=classes, mechanisms=names[1:])
            rows.append(
                f"| {records:,} | {queries:,} | {epsilon:g} | {classes} | {sigma:.3f} | {shares} "
                f"| {_right(without.options):.4f} |"
            )
    return rows


def rotated_table() -> list[str]:
    """Return a row for each setting: σ of labels where each record is in one of every n/s queries, and by its rate."""
    rows = [
        "| records n | queries Q | total ε | classes | t | σ, random allocation | σ, Poisson |",
        "|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for records, queries, epsilon in SETTINGS:
        among = round(records / SAMPLE)
        samplings = [Sampling(records, scheme="random-allocation", among=among), Sampling(records, SAMPLE)]
        values = [
            mechanism_class("gnmax").calibrated(K, 4, Privacy(epsilon, DELTA), queries, sampling=each).value
            for each in samplings
        ]
        sigmas = " | ".join(f"{value:.3f}" for value in values)
        rows.append(f"| {records:,} | {queries:,} | {epsilon:g} | 4 | {among:,} | {sigmas} |")
    return rows


def _right(options: Any) -> float:
    best = options[0]
    return float(best.accuracy if best.right is None else best.right)


def lines(tally: Tally) -> Iterator[str]:
    yield (
        f"{len(tally.rows):,} random totals: {int(sum(tally.values('accounts'))):,} ε of single accounts were held against "
        f"every sample, every assignment and every transcript, in fractions: {len(tally.faults)} were below the truth."
    )


CAMPAIGN = Campaign("sampled", __doc__, "totals", 2000, examine, lines, verb="sampled")


def main(arguments: Sequence[str] | None = None) -> int:
    options = CAMPAIGN.options(arguments)
    for name, rows in (("settings", settings_table()), ("rotated", rotated_table())):
        publish(f"sampled, {name}", [*rows, "", origin("make sampled")], options.write)
    return CAMPAIGN.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
