"""Every row of tests/data/bagging_dpbag_expected.csv.

The rows were computed by independent scripts when the specification of these systems was written (columns:
system, quantity, inputs, expected, tolerance, source); rows with a table in ``source`` are printed numbers of Liu,
Jia, Gong "On the intrinsic differential privacy of bagging" and Jordon, Yoon, van der Schaar
"Differentially private bagging".
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import pytest
from support.cases import for_each
from support.paths import DATA
from support.two_class_moments import epsilon_from_moments, law_moments, noisy_vote_laws

from darrm_opt.bagging import Form, Guarantee, bagging_guarantee, bagging_majority_delta, bagging_max_draws
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms.vote_noise import LaplaceNoise
from darrm_opt.teachers import Partition
from darrm_papers import moments_accountant as accountant
from darrm_papers.dpbag import leaking_stop, overspending_label_count
from darrm_papers.pate import conjectured_moment, data_dependent_moment, wrong_winner_bound

ROWS = list(csv.DictReader((DATA / "bagging_dpbag_expected.csv").read_text().splitlines()))
Compute = Callable[[dict[str, Any]], Any]


def bagging(i: dict[str, Any], form: Form) -> Guarantee:
    sampling = i.get("sampling", "independent")
    return bagging_guarantee(
        i["n"], i["subsample_size"], i["n_models"], replacement=i["replacement"], sampling=sampling, form=form
    )


def orders(i: dict[str, Any]) -> range:
    first, last = i["orders"].split("..")
    return range(int(first), int(last) + 1)


def loose_delta(i: dict[str, Any]) -> float:
    return float(i["n_models"]) * bagging_guarantee(i["n"], i["subsample_size"]).delta


def meets_claim(i: dict[str, Any]) -> str:
    got = bagging(i, "paper")
    verdict = "true" if got.epsilon <= 0.2 and got.delta <= 0.18 else "false"
    return f"{verdict} (eps {got.epsilon:.6f}<=0.2 yes, delta {got.delta:.6f}>0.18)"


def smallest_order(i: dict[str, Any]) -> int:
    published = {50: (11, 85, 211), 100: (43, 338, 843), 150: (95, 759, 1897), 250: (264, 2108, 5269)}

    def reproduced(largest: int) -> bool:
        return all(
            overspending_label_count(epsilon, i["delta"], 2 / n, orders=range(1, largest + 1)) == count
            for n, counts in published.items()
            for epsilon, count in zip((1, 3, 5), counts, strict=True)
        )

    return next(largest for largest in range(1, 81) if reproduced(largest))


def exact_two_class_budget(i: dict[str, Any]) -> int:
    moments = law_moments(noisy_vote_laws(i["n"], LaplaceNoise(1 / i["lam"]), kind="continuous"), orders(i))
    low, high = 0, 10**6
    while high - low > 1:
        middle = (low + high) // 2
        fits = epsilon_from_moments(moments, middle, i["delta"], orders(i)) <= i["epsilon"]
        low, high = (middle, high) if fits else (low, middle)
    return low


def _hash(x: int) -> int:
    return ((1103515245 * x + 12345) % 2**31) >> 16


@lru_cache
def synthetic(generator: str, R: int, k: int, n: int, Q: int, C: int) -> tuple[Any, Any]:
    """The acceptance vectors' integer-only chunks (R, k) and votes (k, n, Q)."""
    if generator == "A":
        chunk = [[(u * (j + 1) + u // n + j) % n for j in range(k)] for u in range(R)]
        votes = [
            [[(5 * q + 3 * i + 7 * j + i * j * q + q // 3) % C for q in range(Q)] for i in range(n)] for j in range(k)
        ]
    else:
        chunk = [[_hash(u * k + j + 1000003) % n for j in range(k)] for u in range(R)]
        votes = [[[_hash((j * n + i) * Q + q) % C for q in range(Q)] for i in range(n)] for j in range(k)]
    return np.array(chunk), np.array(votes)


def case(i: dict[str, Any]) -> tuple[Any, Any, int]:
    sizes = (i["records"], i["partitions"], i["chunks"], i["queries"], i["n_classes"])
    return *synthetic(i["generator"], *sizes), i["n_classes"]


def weights(i: dict[str, Any]) -> list[float]:
    chunk, votes, C = case(i)
    return [float(S) for S in accountant.record_weights(votes, chunk, C)]


def star_weight(rule: accountant.StarRule) -> Compute:
    def compute(i: dict[str, Any]) -> float:
        _, votes, C = case(i)
        return float((accountant.star_spread(votes, C, rule) ** 2).sum())

    return compute


STARS: dict[str, Any] = {
    "none": "none",
    "None": "none",
    "last": "last_chunk",
    "adv": "adversarial",
    "adversarial": "adversarial",
}


def dpbag_epsilon(i: dict[str, Any]) -> float:
    worst = max(weights(i))
    if i["star"] != "none":
        worst = max(worst, star_weight(STARS[i["star"]])(i))
    return accountant.moments_epsilon(worst, i["lam"], i["delta"], orders(i))


def dpbag_labels(rule: Literal["paper", "strict"]) -> Compute:
    def compute(i: dict[str, Any]) -> int:
        chunk, votes, C = case(i)
        partition = Partition(chunk, i["chunks"], "replace")
        star = STARS[i["star"]]
        stop = leaking_stop(
            votes, partition, C, i["lam"], i["epsilon"], i["delta"], star=star, rule=rule, orders=orders(i)
        )
        return stop.n_labels

    return compute


def strict(i: dict[str, Any]) -> int:
    return accountant.saa_label_budget(i["epsilon"], i["delta"], i["lam"], orders=orders(i))


def overspending(i: dict[str, Any]) -> int:
    return overspending_label_count(i["epsilon"], i["delta"], i["lam"], orders=orders(i))


def spread(i: dict[str, Any]) -> float:
    """m of one record whose teachers' votes have the given shares."""
    k = 20
    own = np.repeat(range(len(i["vote_fractions"])), [round(share * k) for share in i["vote_fractions"]])
    return float(
        accountant.vote_spread(own[:, None, None], np.zeros((1, k), dtype=int), len(i["vote_fractions"]))[0, 0]
    )


COMPUTE: dict[tuple[str, str], Compute] = {
    ("bagging", "epsilon_paper"): lambda i: bagging(i, "paper").epsilon,
    ("bagging", "epsilon_paper(published, rounded)"): lambda i: bagging(i, "paper").epsilon,
    ("bagging", "epsilon_independent"): lambda i: bagging(i, "paper").epsilon,
    ("bagging", "epsilon(form=zero_epsilon)"): lambda i: bagging(i, "zero").epsilon,
    ("bagging", "delta"): lambda i: bagging(i, "paper").delta,
    ("bagging", "delta(published, rounded)"): lambda i: bagging(i, "paper").delta,
    ("bagging", "delta_minimum(Nk=1)"): lambda i: bagging(i, "zero").delta,
    ("bagging", "delta_basic_composition(loose)"): loose_delta,
    ("bagging", "privacy_profile_delta(eps)"): lambda i: bagging(i, "zero").delta,  # flat in eps
    ("bagging", "claim_check: k=10000 meets (0.2,0.18) exactly?"): meets_claim,
    ("bagging", "majority_only_delta(K odd, index-aware learners)"): lambda i: bagging_majority_delta(
        i["K"], i["member_delta"]
    ),
    ("bagging", "max_total_draws"): lambda i: bagging_max_draws(
        i["n"], delta=i["delta"], epsilon=i["epsilon"], replacement=i["replacement"]
    ),
    ("bagging", "raises"): lambda i: bagging(i, "paper"),
    ("saa", "eps_hat"): lambda i: accountant.moments_epsilon(i["n_labels"], i["lam"], i["delta"], orders(i)),
    ("saa", "lambda_for"): lambda i: accountant.saa_lam_for(i["n_labels"], i["epsilon"], i["delta"], orders=orders(i)),
    ("saa", "moment_bound"): lambda i: accountant.moment_increment(i["lam"], i["l"], i["m"]),
    ("saa", "n_labels(rule=paper)"): overspending,
    ("saa", "n_labels(rule=strict)"): strict,
    ("saa", "pure_epsilon_per_query"): lambda i: accountant.pure_epsilon(i["lam"]),
    ("saa", "smallest_max_order_reproducing_tables"): smallest_order,
    ("saa_exact_binary(extension)", "alpha_exact"): lambda i: law_moments(
        noisy_vote_laws(i["n"], LaplaceNoise(1 / i["lam"]), kind="continuous"), [i["l"]]
    )[0],
    ("saa_exact_binary(extension)", "n_labels(rule=strict)"): exact_two_class_budget,
    ("vote", "prob_class1_wins (2 classes)"): lambda i: LaplaceNoise(i["scale"]).wins(i["count_diff"], "continuous"),
    ("vote", "prob_correct when unanimous, lam=2/n (any n,k)"): lambda _: LaplaceNoise(7 * 30 / 2).wins(
        7 * 30, "continuous"
    ),
    ("pate", "q"): lambda i: wrong_winner_bound(i["margins"], i["lam"]),
    ("pate", "moment_bound_data_dependent"): lambda i: data_dependent_moment(i["margins"], i["lam"], i["l"]).formula,
    ("pate", "moment_bound_conjecture"): lambda i: conjectured_moment(i["margins"], i["lam"], i["l"], i["m"]).formula,
    ("dpbag", "m_lower_bound"): lambda i: accountant.spread_floor(i["n_partitions"], i["n_classes"]),
    ("dpbag", "m"): spread,
    ("dpbag", "m[:4,0]"): lambda i: accountant.vote_spread(case(i)[1], case(i)[0], i["n_classes"])[:4, 0].tolist(),
    ("dpbag", "moment_increment"): lambda i: accountant.moment_increment(i["lam"], i["l"], i["m"]),
    ("dpbag", "checksum chunk.sum()"): lambda i: int(case(i)[0].sum()),
    ("dpbag", "checksum votes.sum()"): lambda i: int(case(i)[1].sum()),
    ("dpbag", "S.max()"): lambda i: max(weights(i)),
    ("dpbag", "S.min()"): lambda i: min(weights(i)),
    ("dpbag", "S.argmax() (first)"): lambda i: int(np.argmax(weights(i))),
    ("dpbag", "S_star (rule=adversarial)"): star_weight("adversarial"),
    ("dpbag", "S_star (rule=last chunk)"): star_weight("last_chunk"),
    ("dpbag", "eps_hat after all queries"): dpbag_epsilon,
    ("dpbag", "n_labels(rule=paper)"): dpbag_labels("paper"),
    ("dpbag", "n_labels(rule=strict)"): dpbag_labels("strict"),
    ("dpbag_naive", "eps_hat after all queries"): lambda i: accountant.moments_epsilon(
        i["queries"], i["lam"], i["delta"], orders(i)
    ),
    ("dpbag_naive", "n_labels(rule=paper)"): overspending,
}


def agrees(got: Any, expected: str, tolerance: str) -> None:
    if tolerance == "exact":
        wanted = json.loads(expected) if re.fullmatch(r"-?[\d.]+", expected) else expected
        assert got == wanted
    elif places := re.fullmatch(r"round to (\d+) decimals", tolerance):
        assert abs(got - float(expected)) <= 0.5 * 10.0 ** -int(places[1])
    else:
        kind, size = tolerance.split("=")
        near = {"rel": 0.0, "abs": 0.0, kind: float(size)}
        assert got == pytest.approx(json.loads(expected), rel=near["rel"], abs=near["abs"])


@for_each(("system", "quantity"), COMPUTE)
def test_every_row_of_a_quantity(system: str, quantity: str) -> None:
    for row in ROWS:
        if (row["system"], row["quantity"]) != (system, quantity):
            continue
        inputs = json.loads(row["inputs"])
        if row["tolerance"] == "exception":
            with pytest.raises(InvalidInput):
                COMPUTE[system, quantity](inputs)
        else:
            agrees(COMPUTE[system, quantity](inputs), row["expected"], row["tolerance"])


def test_the_table_is_complete() -> None:
    assert len(ROWS) == 336
    assert {(row["system"], row["quantity"]) for row in ROWS} == set(COMPUTE)
