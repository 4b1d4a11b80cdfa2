"""The soundness campaign in short: certified answers are private in exact arithmetic, and the judge detects others.

The long form and its results: docs/soundness.md.
"""

from __future__ import annotations

import numpy as np
import pytest
from campaigns import soundness
from campaigns.driver import Tally
from campaigns.soundness import Finding, breaches, finding, row, worst_multisets
from support.exact import random_multiset
from support.strategies import ProblemCase, random_case

from darrm_opt import NoiseFunction, certify
from darrm_opt.design.solution import Status


@pytest.fixture(scope="module")
def findings() -> list[Finding]:
    small = [finding(1, number, (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15)) for number in range(90)]
    return small + [finding(2, number, (20, 21, 25, 31), largest_Delta=1e-3) for number in range(10)]


def test_a_hundred_certified_answers_are_private(findings: list[Finding]) -> None:
    assert len(findings) == 100
    assert [fault for finding in findings for fault in row(finding).faults] == []
    assert all(finding.solution.certificate.margin >= 0 for finding in findings)
    assert {finding.solution.status for finding in findings} <= {Status.OPTIMAL, Status.ROUNDING_LIMIT}


def test_the_cases_cover_all_kinds_of_problems(findings: list[Finding]) -> None:
    kinds = Tally([row(finding) for finding in findings]).kinds("problem")
    assert len(kinds) == 10
    assert min(kinds.values()) >= 3


def test_raw_solver_answers_are_often_not_private(findings: list[Finding]) -> None:
    for name in soundness.TOLERANCES:
        needed = [finding.plain[name] for finding in findings if finding.plain]
        assert len(needed) >= 50
        assert sum(value > 0 for value in needed) >= 5


def test_the_judge_detects_a_violation() -> None:
    seen = 0
    for seed in range(20):
        rng = np.random.default_rng((seed, 61))
        case = random_case(rng, (3, 5, 6, 9))
        problem = case.problem
        private, _ = certify(problem, NoiseFunction(np.ones(problem.K + 1)))
        if private.values.max() in (0.0, 1.0):
            continue
        more = NoiseFunction(np.minimum(private.values * (1 + 1e-9), 1.0))
        assert breaches(case, private, worst_multisets(problem, private)) == ()
        seen += bool(breaches(case, more, worst_multisets(problem, more)))
    assert seen >= 5


def test_a_multiset_within_the_limit_is_not_a_violation() -> None:
    case = ProblemCase(5, 0.1, 0.01, 0.1, 0.01, 5)
    rng = np.random.default_rng(62)
    nothing = NoiseFunction(np.zeros(6))
    assert breaches(case, nothing, [random_multiset(rng, case.problem) for _ in range(20)]) == ()
