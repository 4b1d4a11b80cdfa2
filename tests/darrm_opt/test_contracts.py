"""Contracts across versions: recorded files are read with the same meaning, and no answer is worse than recorded.

The files are in ``data/contracts``; ``meaning.json`` and ``recorded.json`` are the recorded values.
"""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cases import for_each
from support.paths import DATA

from darrm_opt import Privacy, verify
from darrm_opt.accounting import PrivacyBudget
from darrm_opt.mechanisms import VoteMechanism, mechanism_class, mechanism_from_record
from darrm_opt.planning import plan
from darrm_opt.plurality import count_votes
from darrm_opt.randomness import SeededRandomnessForTestsOnly as Seeded
from darrm_opt.record import problem_from_record, solution_from_record
from darrm_opt.release import PrivateVote, ReleaseLog
from solver_cache import DesignSpec, cached_solve, check, open_store

FOLDER = DATA / "contracts"
SELECTIONS = ("permute_and_flip", "exponential")
MECHANISMS = (
    "table",
    "table_abstention",
    "table_laplace",
    "gnmax",
    "gnmax_two_classes",
    "confident_gnmax",
    *SELECTIONS,
)
GAMMAS = ("gamma_private_voters", "gamma_non_private_voters", "gamma_of_plan")
VOTES = {3: [[0, 2, 2, 1, 2, 2, 0]] * 6 + [[1] * 7] * 6, 2: [[0, 1, 1, 1, 1, 0, 1]] * 6 + [[1] * 7] * 6}


@cache
def stored(name: str) -> Any:
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def meaning(name: str) -> dict[str, Any]:
    """Return the recorded meaning of a file."""
    return dict(stored("meaning.json")[name])


def mechanism_of(name: str) -> VoteMechanism:
    return mechanism_from_record(stored(f"{name}.json"))


def copied(name: str, folder: Path) -> Path:
    return Path(shutil.copy(FOLDER / name, folder / name))


@for_each("name", MECHANISMS)
def test_a_recorded_mechanism_is_read_and_draws_the_same(name: str) -> None:
    mechanism, source = mechanism_of(name), Seeded(3)
    counts = count_votes(VOTES[mechanism.classes], mechanism.K, mechanism.classes)
    assert mechanism.draw_many(counts, source).tolist() == meaning(name)["drawn"]
    record, fields = stored(f"{name}.json"), mechanism.record()
    assert {field: record[field] for field in fields if field != "version"} == {
        field: value for field, value in fields.items() if field != "version"
    }


@for_each("name", MECHANISMS)
def test_no_total_of_a_mechanism_has_risen(name: str) -> None:
    mechanism, before = mechanism_of(name), meaning(name)
    for queries, epsilon in before["epsilon"].items():
        assert mechanism.epsilon(int(queries), 1e-3) <= epsilon * (1 + 1e-12)
    assert mechanism.most_releases(Privacy(3.0, 1e-3)).queries >= before["most"][0]


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_log_of_a_mechanism_is_resumed(name: str, tmp_path: Path) -> None:
    before = meaning(name)
    log = ReleaseLog(copied(f"{name}.log", tmp_path))
    assert (log.limit, log.account, log.spent, log.labels) == tuple(
        before[field] for field in ("limit", "account", "spent", "labels")
    )
    assert log.budget == (None if before["budget"] is None else Privacy(*before["budget"]))
    first = log.stored("first")
    assert first is not None
    assert first.tolist() == before["first"]
    log.check_is_for(mechanism_of(name))
    log.charge_and_release(2, lambda _: np.array([1, 1], dtype=np.int16), "second")
    assert ReleaseLog(log.path).spent == before["spent"] + 2


@pytest.mark.parametrize("name", GAMMAS)
def test_a_gamma_is_read_bit_for_bit_and_verified(name: str) -> None:
    record = stored(f"{name}.json")
    solution = solution_from_record(record)
    assert solution.gamma.tolist() == record["gamma"]
    assert solution.certificate.bound == record["certificate"]["bound"]
    assert verify(problem_from_record(record["problem"]), record["gamma"]).bound <= record["certificate"]["bound"]


@pytest.mark.parametrize("name", [*GAMMAS, "gamma_private_voters_once"])
def test_the_log_of_a_gamma_is_resumed(name: str, tmp_path: Path) -> None:
    before = meaning(f"{name}.log")
    log = ReleaseLog(copied(f"{name}.log", tmp_path))
    assert (log.limit, log.account, log.spent, log.fresh) == tuple(
        before[field] for field in ("limit", "account", "spent", "fresh")
    )
    assert log.budget == (None if before["budget"] is None else Privacy(*before["budget"]))
    first = log.stored("first")
    assert first is not None
    assert first.tolist() == before["first"]
    release = PrivateVote(log.mechanism, log, source=Seeded(3), fresh=log.fresh)
    count = min(12, log.left)
    bits = release.release_many([[1] * 8 + [0] * 3] * count, "second")
    assert bits.tolist() == before["drawn"][:count]
    assert ReleaseLog(log.path).spent == before["spent"] + count


def test_a_saved_budget_is_loaded() -> None:
    budget, before = PrivacyBudget.load(FOLDER / "budget.json"), meaning("budget.json")
    assert budget.events == {Privacy(0.01): before["events"]}
    assert budget.affordable(Privacy(0.01)) >= before["affordable"]


def test_a_recorded_store_answers_from_its_rows(tmp_path: Path) -> None:
    with closing(open_store(f"sqlite:///{copied('store.sqlite', tmp_path)}")) as store:
        assert list(check(store)) == []
        for name in GAMMAS[:2]:
            record = stored(f"{name}.json")
            spec = DesignSpec(problem_from_record(record["problem"]))
            answer = cached_solve(spec.problem, store=store)
            assert answer.decision == "hit"
            assert answer.solution.gamma.tolist() == record["gamma"]
        assert [job.id for job in store.jobs.list()] == ["a-job"]


RECORDED = stored("recorded.json")


def question(row: dict[str, Any]) -> str:
    return f"K={row['K']}, C={row['classes']}, Q={row['queries']}, r={row['affected']}, {tuple(row['total'])}"


@pytest.mark.parametrize("row", RECORDED, ids=question)
def test_no_calibrated_parameter_and_no_utility_is_worse(row: dict[str, Any]) -> None:
    K, classes, queries, affected = (row[field] for field in ("K", "classes", "queries", "affected"))
    total = Privacy(*row["total"])
    if row["sigma"]:
        sigma = mechanism_class("gnmax").calibrated(K, classes, total, queries, affected=affected).value
        assert sigma <= min(row["sigma"].values()) * (1 + 1e-4)
    for name, rate in row["rate"].items():
        new_rate = mechanism_class(name).calibrated(K, classes, total, queries, affected=affected).value
        assert new_rate >= rate * (1 - 1e-3)
    before = row["utility"]["design"]
    found = plan(
        K, None, queries, total, affected, "dirichlet(1)", classes=classes, mechanisms=tuple(before), least_accuracy=0.5
    )
    utilities = {option.name: option.utility or 0.0 for option in found.options}
    for name, utility in before.items():
        assert utilities[name] >= utility - 1e-5, name


PARAMETERS = {"gnmax": 5.0, "laplace": 4.0, "permute_and_flip": 0.2, "exponential": 0.2}


@for_each("name", PARAMETERS)
@for_each("K", [6, 11])
def test_among_two_classes_a_mechanism_has_one_law_however_it_is_computed(K: int, name: str) -> None:
    """The recorded probabilities of its γ equal those of its vote counts."""
    mechanism = mechanism_class(name).of(K, 2, PARAMETERS[name])
    law = np.array(meaning("laws")[str(K)][name])
    ones = np.arange(K // 2 + 1, K + 1)
    chances = mechanism.leader_chances(np.stack([ones, K - ones], axis=1))
    assert 2 * chances - 1 == pytest.approx(law[ones], abs=1e-12)
    assert mechanism.gamma.values[ones] == pytest.approx(law[ones], abs=1e-15)
