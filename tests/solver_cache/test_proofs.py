"""Cached proofs: one for each text and question, none for a changed text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from darrm_opt import Problem, Solution, solve
from darrm_opt.record import DesignSpec, digest
from darrm_opt.verification import verify_solution
from solver_cache import keep, model, open_store, validate, validate_row
from solver_cache.model import Row
from solver_cache.validate import Proofs

PROBLEM = Problem.from_allowance(K=7, m=2, epsilon=0.123, Delta=1e-4)
SPEC = DesignSpec(PROBLEM)
SOLUTION: Solution = solve(PROBLEM)


def stored() -> Row:
    store = open_store("memory")
    keep(SOLUTION, store)
    row = store.get(SPEC.key)
    assert row is not None
    return row


@pytest.fixture
def proofs(monkeypatch: pytest.MonkeyPatch) -> list[DesignSpec]:
    """Return the list of proofs computed from now on, with an empty cache."""
    made: list[DesignSpec] = []
    monkeypatch.setattr(validate, "PROOFS", Proofs())

    def counted(solution: Any, spec: DesignSpec) -> Any:
        made.append(spec)
        return verify_solution(solution, spec)

    monkeypatch.setattr(model, "GAMMA", replace(model.GAMMA, verify=counted))
    return made


def test_a_text_is_verified_once_for_a_question(proofs: list[DesignSpec]) -> None:
    row = stored()
    del proofs[:]
    vars(validate)["PROOFS"] = Proofs()  # clear the proof made when storing
    first = validate_row(row)
    for question in (None, SPEC, DesignSpec(PROBLEM, "rectangular")):
        again = validate_row(replace(row), question)
        assert again == first
        assert isinstance(again.solution, Solution)
        assert again.solution.gamma.tolist() == SOLUTION.gamma.tolist()
    assert proofs == [SPEC]


def test_a_changed_text_is_verified_again(proofs: list[DesignSpec]) -> None:
    row = stored()
    assert validate_row(row, SPEC).decision == "hit"
    forged = row.record.replace('"K":7', '"K":7 ', 1)
    assert forged != row.record
    assert (
        validate_row(replace(row, record=forged), SPEC).decision == "damaged"
    )  # the hash of the verified text with another text
    value = repr(SOLUTION.gamma[1].item())
    stronger = row.record.replace(value, "1.0")
    assert stronger != row.record
    before = len(proofs)
    assert validate_row(replace(row, record=stronger, digest=digest(stronger)), SPEC).decision == "damaged"
    assert len(proofs) == before + 1


def test_a_proof_is_for_one_question(proofs: list[DesignSpec]) -> None:
    row = stored()
    assert validate_row(row, SPEC).decision == "hit"
    other = DesignSpec(Problem.from_allowance(K=7, m=2, epsilon=0.1, Delta=1e-4))
    assert validate_row(row, other).decision == "damaged"
    assert validate_row(replace(row, key=other.key)).decision == "damaged"  # the same text in another row
    assert validate_row(replace(row, core=row.core - 1), SPEC).decision == "stale"
    assert proofs.count(SPEC) == 1


def test_the_cache_of_proofs_is_limited() -> None:
    proofs = Proofs(max_bytes=100)
    for number in range(10):
        proofs.add(f"text {number}", SPEC.key, SOLUTION, 30)
    assert len(proofs) == 3
    assert proofs.get("text 9", SPEC.key) is SOLUTION
    assert proofs.get("text 6", SPEC.key) is None
    proofs.add("large", SPEC.key, SOLUTION, 101)
    assert len(proofs) == 0
