"""Golden totals: what every account states today, on a grid of mechanisms, schemes, classes and numbers of releases.

Totals may fall, held against the truth by other tests; none may rise. The suite recomputes those that take little
time (`tests/darrm_opt/accounting/test_totals.py`), this recomputes all:

    PYTHONPATH=tests python -m campaigns.golden_totals             compare
    PYTHONPATH=tests python -m campaigns.golden_totals --write 1   and freeze what is stated now
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, product
from typing import Any

import numpy as np
from support.paths import DATA

from campaigns.driver import origin, read_options, say
from campaigns.sampled import table
from darrm_opt import NoiseFunction, Privacy, Problem
from darrm_opt.accounting import PrivacyBudget, Sampling, total_privacy_of_sequence
from darrm_opt.accounting.mixture import AffectedDistribution, BaggedMajority
from darrm_opt.accounting.propose_test_release import VoteBatch, ptr_epsilon
from darrm_opt.accounting.published_loss import unpublished_epsilon
from darrm_opt.accounting.total import cost, exact_epsilon, most_releases
from darrm_opt.errors import DarrmError
from darrm_opt.mechanisms import VoteMechanism, mechanism_class
from darrm_opt.mechanisms.noise_function import NoiseFunctionMechanism
from darrm_opt.mechanisms.noisy_maximum import NoisyMaximum

FILE = DATA / "golden_totals.json"

ROUNDING = 1e-9  # share of a total by which it may differ: other compilers and libraries round differently
GRID_ROUNDING = 1e-6  # the same of an account with a grid or a search

QUICK_SECONDS, SLOW_SECONDS = 0.004, 2.0
"""Processor time up to which a total is recomputed in the suite; beyond the second, it is not frozen at all."""

STRIDE = 7  # one case of this many is frozen; it divides no axis of the grid with another
LARGER_IS_BETTER = ("most_releases",)  # kinds whose value must not fall

Case = dict[str, Any]

PARAMETERS = {
    "permute_and_flip": [0.3],
    "exponential": [0.05, 0.4],
    "laplace": [4.0, 40.0],
    "gnmax": [2.0, 6.0, 40.0],
    "subsampling": [0.8, 3.0],
    "randomized_response": [0.4],
}

TWO_CLASSES = ("subsampling", "randomized_response", "gamma")  # mechanisms for two classes only

CHECKS: list[Case] = [
    {},
    {"threshold": 5.0, "check_sigma": 4.0},
    {"threshold": 5.0, "check_sigma": 9.0, "cap": 3},
]

FEW, FEW_VOTERS = 40, 5  # most releases of two kinds, and most voters of a table

SAMPLINGS: list[dict[str, Any]] = [
    {"records": 10_000, "rate": 0.01},
    {"records": 10_000, "rate": 0.01, "neighbours": "replace-one"},
    {"records": 100, "sample": 1, "scheme": "without-replacement"},
    {"records": 100, "sample": 10, "scheme": "each-voter"},
    {"records": 100, "sample": 10, "scheme": "each-voter-with-replacement"},
    {"records": 100, "scheme": "random-allocation", "among": 10, "times": 2},
    {"records": 10_000, "rate": 0.05, "labels": 3},
    {"records": 10, "rate": 1.0},
]


def mechanism_of(case: Case) -> VoteMechanism:
    """Return the mechanism that a case names."""
    name, K, classes, affected = case["mechanism"], case["K"], case["classes"], case.get("affected", 1)
    if name == "gnmax":
        check = {key: case[key] for key in ("threshold", "check_sigma", "cap") if key in case}
        return NoisyMaximum(K, classes, case["value"], affected=affected, **check)
    if name == "table":
        return table(K, classes, case["value"])
    if name == "gamma":
        return NoiseFunctionMechanism(noise_of(K), affected=affected)
    return mechanism_class(name).of(K, classes, case["value"], affected)


def noise_of(K: int) -> NoiseFunction:
    """Return a γ that grows with the margin."""
    return NoiseFunction(np.round(0.05 + 0.4 * np.abs(2 * np.arange(K + 1) / K - 1) ** 2, 6))


def released(case: Case) -> tuple[NoiseFunction, Problem]:
    """Return the γ and the problem that a case names."""
    voter = Privacy(float(case["voter"][0]), case["voter"][1])
    K, affected = case["K"], case.get("affected", 1)
    target = exact_epsilon(noise_of(K), Problem(K, voter, Privacy(1.0, 1e-6), affected), 1, 1e-6, fresh=True)
    return noise_of(K), Problem(K, voter, Privacy(target * (1 + 1e-9), 1e-6), affected)


def cases() -> Iterator[Case]:
    """Yield all cases, each as plain data."""
    for base in _mechanisms():
        for queries, delta in product((1, 2, 30, 3000), (0.0, 1e-9, 1e-5, 1e-2, 0.3)):
            yield {"kind": "cost", **base, "queries": queries, "delta": delta}
        yield {"kind": "most_releases", **base, "total": [2.0, 1e-5]}
        if base["affected"] == 1:
            for sampling, (queries, delta) in product(SAMPLINGS, ((1, 1e-5), (50, 0.0), (1000, 1e-6))):
                yield {"kind": "cost", **base, "sampling": sampling, "queries": queries, "delta": delta}
    for K, voter, affected in product((5, 11), ([0.3, 0.0], [0.5, 1e-6], ["inf", 0.0]), (1, 2)):
        base = {"K": K, "voter": voter, "affected": affected}
        for queries, delta, fresh in product((1, 2, 40, 1000), (0.0, 1e-5, 1e-2), (True, False)):
            yield {"kind": "total", **base, "queries": queries, "delta": delta, "fresh": fresh}
            if queries <= FEW:
                yield {"kind": "two kinds", **base, "queries": queries, "delta": delta, "fresh": fresh}
        yield {"kind": "most_releases", **base, "total": [3.0, 1e-2], "fresh": True}
        yield {"kind": "budget", **base, "total": [3.0, 1e-2]}
    for K, p in product((11, 31), (0.05, 0.3)):
        yield {"kind": "mixture", "K": K, "voter": ["inf", 0.0], "chance": p, "queries": 20, "delta": 1e-3}
    yield from _batches()


def _batches() -> Iterator[Case]:
    for K, classes, sigma, check in product((20, 250), (2, 4), (2.0, 6.0), CHECKS[:2]):
        scale = K / 10
        at = {name: value * scale for name, value in check.items()}
        base = {"K": K, "classes": classes, "sigma": sigma * max(1, scale / 4), "queries": 300, **at}
        for kind in ("propose", "cost_of_votes", "by_votes"):
            yield {"kind": kind, **base, "delta": 1e-5}


def _mechanisms() -> Iterator[Case]:
    named = [*((name, value) for name, values in PARAMETERS.items() for value in values), ("table", 1), ("gamma", 0)]
    for (name, value), (K, classes), affected in product(named, [(5, 2), (5, 3), (40, 2), (40, 10)], (1, 2)):
        if (name in TWO_CLASSES and classes > 2) or (name == "table" and K > FEW_VOTERS):
            continue
        for check in CHECKS if name == "gnmax" else ({},):
            yield {"mechanism": name, "K": K, "classes": classes, "value": value, "affected": affected, **check}


def leading_counts(batch: VoteBatch) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return votes of which the leader has from nine tenths to all."""
    leader = batch.K - np.arange(batch.queries) % (1 + batch.K // 10)
    rest = batch.K - leader
    counts = np.zeros((batch.queries, batch.mechanism.classes), dtype=np.int64)
    counts[:, 0], counts[:, 1] = leader, rest
    return counts


def batch_of(case: Case) -> VoteBatch:
    mechanism = NoisyMaximum(
        case["K"], case["classes"], case["sigma"],
        threshold=case.get("threshold"), check_sigma=case.get("check_sigma"),
    )  # fmt: skip
    return mechanism.batch(case["queries"])


def _of_cost(case: Case) -> dict[str, float]:
    sampling = Sampling(**case["sampling"]) if "sampling" in case else None
    found = cost(mechanism_of(case), case["queries"], case["delta"], sampling)
    return {"least": found.epsilon, **found.epsilons}


def _of_most_releases(case: Case) -> dict[str, float]:
    if "mechanism" in case:
        return {"least": most_releases(mechanism_of(case), Privacy(*case["total"])).queries}
    return {"least": most_releases(released(case), Privacy(*case["total"]), fresh=case["fresh"]).queries}


def _of_gamma(case: Case) -> dict[str, float]:
    parts = [(released(case), case["queries"])]
    if case["kind"] == "two kinds":
        parts.append((released({**case, "voter": ["inf", 0.0]}), 3))
    found = total_privacy_of_sequence(parts, case["delta"], fresh=case["fresh"])
    totals = {name: one.epsilon for name, one in found.totals.items() if one.delta <= case["delta"]}
    return {"least": min(totals.values(), default=math.inf), **totals}


def _of_mixture(case: Case) -> dict[str, float]:
    affected = AffectedDistribution.binomial(case["K"], case["chance"])
    return {"least": BaggedMajority(*released(case), affected).epsilon(case["queries"], case["delta"])}


def _by_votes(case: Case) -> dict[str, float]:
    batch = batch_of(case)
    return {"least": unpublished_epsilon(batch, leading_counts(batch), case["delta"]).epsilon}


KINDS: dict[str, Callable[[Case], dict[str, float]]] = {
    "cost": _of_cost,
    "most_releases": _of_most_releases,
    "total": _of_gamma,
    "two kinds": _of_gamma,
    "budget": lambda case: {"least": -PrivacyBudget(Privacy(*case["total"])).affordable(released(case)[1].target)},
    "mixture": _of_mixture,
    "propose": lambda case: {"least": ptr_epsilon(batch_of(case), case["delta"]).total.epsilon},
    "cost_of_votes": lambda case: {"least": batch_of(case).epsilon(case["delta"])},
    "by_votes": _by_votes,
}
"""What the accounts state of a case of each kind: by the name of the account, and "least"."""


def stated(case: Case) -> dict[str, float]:
    """Return the same, and a refusal as a value of inf."""
    try:
        return KINDS[case["kind"]](case)
    except DarrmError as err:
        return {"least": -math.inf if case["kind"] in LARGER_IS_BETTER else math.inf, type(err).__name__: math.inf}


def risen(case: Case, before: float, now: float) -> bool:
    """Return whether a total is worse than before, beyond rounding."""
    if case["kind"] in LARGER_IS_BETTER:
        before, now = -before, -now
    share = GRID_ROUNDING if case.get("kind") in ("mixture", "total", "two kinds", "cost") else ROUNDING
    return not now <= before + share * abs(before)


def read() -> list[Case]:
    """Return the frozen cases: case, least total, account, whether it is quick."""
    frozen: list[Case] = json.loads(FILE.read_text(encoding="utf-8"))["totals"]
    return [{**each, "least": float(each["least"])} for each in frozen]


def compare(frozen: Sequence[Case], say: Callable[[str], None]) -> int:
    """Return how many totals have risen, saying each, and each that has fallen."""
    count = 0
    for each in frozen:
        now = stated(each["case"])["least"]
        if risen(each["case"], each["least"], now):
            count += 1
            say(f"risen: {each['least']!r} → {now!r}: {json.dumps(each['case'])}")
        elif risen(each["case"], now, each["least"]):
            say(f"fallen: {each['least']!r} → {now!r}: {json.dumps(each['case'])}")
    return count


def freeze() -> list[Case]:
    totals = []
    for case in islice(cases(), 0, None, STRIDE):
        start = time.process_time()
        values = stated(case)
        seconds = time.process_time() - start
        if seconds > SLOW_SECONDS:
            continue
        least = values.pop("least")
        account = min(values, key=lambda name: values[name], default="")
        totals.append({"case": case, "least": str(least), "account": account, "quick": seconds <= QUICK_SECONDS})
    return totals


def main(arguments: Sequence[str] | None = None) -> int:
    options = read_options(__doc__, arguments, write=0)
    if options.write:
        made = origin("PYTHONPATH=tests python -m campaigns.golden_totals --write 1", "numpy", "scipy")
        lines = ",\n".join(json.dumps(each, ensure_ascii=False, separators=(",", ":")) for each in freeze())
        FILE.write_text(f'{{"origin": {json.dumps(made)}, "totals": [\n{lines}\n]}}\n', encoding="utf-8")
        return 0
    return int(compare(read(), say) > 0)


if __name__ == "__main__":
    sys.exit(main())
