"""The code of the benchmarks on tiny cases (without assertions on time), and the stored table."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import limits
from benchmarks.__main__ import main
from benchmarks.cases import SUITES, Case, Command, Job, Profile, Solve, Total, Wanted, all_cases
from benchmarks.judge import checks
from benchmarks.limits import published_method, sweep_operations
from benchmarks.measure import Failure, Measurement, Outcome, measure
from benchmarks.report import RESULTS, section
from benchmarks.run import Result
from darrm_opt import Problem, solve

TINY = Solve(5, 2, 1e-5)
LONG = 3600.0


@pytest.fixture(autouse=True)
def _rates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the rates of this machine, which take a second to measure."""
    monkeypatch.setattr(limits, "operation_rate", lambda: 1e10)
    monkeypatch.setattr(limits, "byte_rate", lambda: 1e9)


def row(case: Case, job: list[Outcome], peer: list[Outcome] | None = None) -> str:
    """Return the line of the table for a case with these outcomes."""
    return section(case.suite, [Result(case, job, peer or [])], "python -m benchmarks", 0.0).splitlines()[-1]


def verdict(case: Case, job: list[Outcome], peer: list[Outcome] | None = None) -> str:
    return row(case, job, peer).split(" | ")[-1].removesuffix(" |")


# ------------------------------------------------------------------------------------------- the stored table


def test_the_stored_table_has_every_case() -> None:
    kept = RESULTS.read_text(encoding="utf-8")
    names = [case.name for case in all_cases()]
    assert [name for name in names if f"| {name} |" not in kept] == []
    assert len({*names}) == len(names)
    assert {case.suite for case in all_cases()} == {*SUITES}


def test_every_case_has_a_target_that_it_measures() -> None:
    for case in all_cases():
        asked = checks(Result(case))
        assert asked, case.name
        assert all(check.met is None for check in asked), case.name
        compared = {case.wanted.faster, case.wanted.within, case.wanted.exponent} != {None}
        assert compared == (case.peer is not None), case.name


# ------------------------------------------------------------------------------------------- measurements


@pytest.mark.parametrize("method", ["cuts", "enumerate"])
def test_a_solve_is_measured_in_a_separate_process(tmp_path: Path, method: str) -> None:
    outcome = measure(Solve(5, 2, 1e-5, "shared(1,1) agreement", method=method), LONG, tmp_path)
    assert isinstance(outcome, Measurement)
    assert outcome.seconds > 0
    assert outcome.peak is not None
    assert 10e6 < outcome.peak < 1e9
    assert outcome.gap is not None
    assert 0 <= outcome.gap < 1e-9
    assert (outcome.status, outcome.certificate in {"complete", "monotone"}) == ("optimal", True)


@pytest.mark.parametrize(
    "job",
    [Profile(5, 2, 1e-5, values=5), Total(5, 2, 1e-5, queries=3), Command(("darrm", "--version"))],
    ids=lambda job: type(job).__name__,
)
def test_other_jobs_are_measured(tmp_path: Path, job: Job) -> None:
    outcome = measure(job, LONG, tmp_path)
    assert isinstance(outcome, Measurement)
    assert outcome.seconds > 0


@pytest.mark.parametrize(
    ("job", "limit", "reason", "is_timed"),
    [
        (Solve(5, 2, 1e-5, "nonsense"), LONG, "InvalidInput: objective = 'nonsense' is not valid", False),
        (Command(("python", "-c", "import time; time.sleep(60)")), 0.2, "stopped after 0 s", True),
        (TINY, 0.001, "stopped after 0 s", False),  # before the start, which does not count as slow
        (Command(("no-such-program",)), LONG, "could not be started: ", False),
    ],
    ids=["error", "limit", "start", "absent"],
)
def test_a_failed_job_has_a_reason(tmp_path: Path, job: Job, limit: float, reason: str, is_timed: bool) -> None:
    outcome = measure(job, limit, tmp_path)
    assert isinstance(outcome, Failure)
    assert reason in outcome.reason
    assert outcome.at_least is not None if is_timed else outcome.at_least is None


# ------------------------------------------------------------------------------------------- turns and budget


# ------------------------------------------------------------------------------------------- the verdict


def test_times_are_compared_by_median_and_other_values_by_the_worst_run() -> None:
    case = Case("judged", "quick", TINY, Wanted(seconds=1, memory=1, gap=1e-9, complete=True))
    good = Measurement(0.5, 10**8, 1e-12, "complete", "optimal", 12, 3)
    slow = Measurement(9.0, 2 * 10**8, 2e-12, "monotone", "optimal", 12, 3)
    line = row(case, [good, slow, good])
    limit = (sweep_operations(5) / 1e10, 12 * 3 * 8 / 1e9)  # 12 rows of 3 doubles
    assert (
        f"0.5 (0.5–9) ×3 | {sum(limit):.2g}, {0.5 / sum(limit):.3g}× |  |  | 200 | 2.0e-12 | complete, monotone | 12, 3 | yes |"
        in line
    )
    assert verdict(case, [slow, slow, good]) == "**no**: 9 s, wanted ≤ 1 s"
    worse = Measurement(0.5, 2 * 10**9, 1e-8, "first-order", "time limit", 12, 3)
    assert verdict(case, [good, good, worse]) == (
        "**no**: 2 GB, wanted ≤ 1 GB; 1e-08, wanted gap ≤ 1e-09; complete, first-order, wanted complete certificate; "
        "status time limit, wanted optimal"
    )


# ------------------------------------------------------------------------------------------- a run


def test_a_run_writes_the_table_and_keeps_the_other_suite(tmp_path: Path) -> None:
    output = tmp_path / "results.md"
    tiny = (
        Case("tiny cuts", "quick", TINY, Wanted(faster=1e-9), peer=Solve(5, 2, 1e-5, method="enumerate"), repeats=2),
        Case("tiny and broken", "quick", Solve(0, 2, 1e-5), Wanted(seconds=1)),
        Case("large", "scale", Solve(7, 2, 0.0), Wanted(gap=1e-6), repeats=1),
    )
    main(["quick", "--output", str(output)], tiny)
    quick = output.read_text(encoding="utf-8")
    assert "Met: **1 of 2**" in quick
    assert "InvalidInput: K = 0 is not valid" in quick
    assert "Not run yet." in quick
    main(["scale", "--output", str(output)], tiny)
    both = output.read_text(encoding="utf-8")
    assert quick.partition("## scale")[0] == both.partition("## scale")[0]
    assert "| large | gap ≤ 1e-06 |" in both
    assert "Not run yet." not in both.partition("## scale")[2].partition("\n## ")[0]


# ------------------------------------------------------------------------------------------------- the kernel


def test_a_sweep_is_counted_entry_by_entry() -> None:
    for K in (5, 8):
        rows = [(nx, ny) for nx in range(K + 1) for ny in range(nx + 1) if nx + ny <= K]
        assert sweep_operations(K) == 5 * sum(K - nx - ny + 1 for nx, ny in rows)
        assert sweep_operations(K, width=0) == 5 * sum(K - nx + 1 for nx, ny in rows if ny == 0)


def test_the_published_method_finds_the_same_gamma() -> None:
    problem = Problem.from_allowance(5, 2, 0.1, 1e-3)
    assert published_method(problem) == pytest.approx(solve(problem).gamma[3:], abs=1e-6)
