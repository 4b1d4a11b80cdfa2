"""Wanted against measured: one `Check` for each thing that is asked of a case."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from benchmarks.cases import Case, Solve
from benchmarks.measure import Failure, Measurement, Outcome
from benchmarks.run import Result

COMPLETE = ("complete", "monotone", "ball")
"""Certificates with nothing but rounding between bound and value ("monotone" is one where γ is)."""


@dataclass(frozen=True)
class Check:
    """One thing asked.

    Attributes:
        wanted: in words.
        met: whether it is; None if that was not measured.
        measured: the value measured, in words.
    """

    wanted: str
    met: bool | None
    measured: str


def checks(result: Result) -> list[Check]:
    """Return what was asked of a case and whether it is met: times by their median, all else by the worst run."""
    wanted, runs = result.case.wanted, measurements(result.job)
    results: list[Check] = []

    def ask(words: str, value: float | None, limit: float, *, at_least: bool = False, unit: str = "") -> None:
        met = None if value is None else (value >= limit if at_least else value <= limit)
        results.append(Check(words, met, "not measured" if value is None else f"{value:.3g}{unit}"))

    if wanted.seconds is not None:
        words, slow = f"≤ {wanted.seconds:g} s", _known_slow(result.job)
        if not runs and slow > wanted.seconds:
            results.append(Check(words, met=False, measured=f"more than {slow:.3g} s"))
        else:
            ask(words, median(run.seconds for run in runs) if runs else None, wanted.seconds, unit=" s")
    if wanted.memory is not None:
        peaks = [run.peak / 1e9 for run in runs if run.peak is not None]
        ask(f"≤ {wanted.memory:g} GB", max(peaks, default=None), wanted.memory, unit=" GB")
    if wanted.gap is not None:
        gaps = [run.gap for run in runs if run.gap is not None]
        ask(f"gap ≤ {wanted.gap:g}", max(gaps, default=None), wanted.gap)
    if wanted.complete:
        kinds = {run.certificate for run in runs}
        met = all(kind in COMPLETE for kind in kinds) if kinds else None
        results.append(Check("complete certificate", met, ", ".join(sorted(map(str, kinds))) or "not measured"))
    case_ratios = ratios(result)
    ratio = median(case_ratios) if case_ratios else None
    if wanted.faster is not None:
        ask(f"≥ {wanted.faster:g}× faster", ratio, wanted.faster, at_least=True, unit="×")
    if wanted.within is not None:
        ask(f"≤ {wanted.within:g}× the time", ratio, wanted.within, unit="×")
    if wanted.exponent is not None:
        ask(f"exponent ≤ {wanted.exponent:g}", ratio, wanted.exponent)
    return results + [Check("optimal", met=False, measured=f"status {word}") for word in _other_statuses(runs)]


def ratios(result: Result) -> list[float]:
    """Return job against peer, turn by turn, in the sense that the case asks for.

    Where the peer ran once, every turn is compared with that run. A peer that was stopped counts as long as it ran
    where that is already enough to show what is wanted, and not at all elsewhere.
    """
    if not result.peer:
        return []
    pairs = ((job, result.peer[min(turn, len(result.peer) - 1)]) for turn, job in enumerate(result.job))
    ratios_or_none = (_ratio(result.case, job, peer) for job, peer in pairs if isinstance(job, Measurement))
    return [ratio for ratio in ratios_or_none if ratio is not None]


def _ratio(case: Case, job: Measurement, peer: Outcome) -> float | None:
    if case.wanted.faster is not None:
        if isinstance(peer, Measurement):
            return peer.seconds / job.seconds
        ratio = (peer.at_least or 0.0) / job.seconds
        return ratio if ratio >= case.wanted.faster else None
    if isinstance(peer, Failure):
        return None
    if case.wanted.exponent is not None and isinstance(case.job, Solve) and isinstance(case.peer, Solve):
        return math.log(job.seconds / peer.seconds) / math.log(case.job.K / case.peer.K)
    return job.seconds / peer.seconds


def measurements(outcomes: list[Outcome]) -> list[Measurement]:
    """Return the runs that came to their end."""
    return [outcome for outcome in outcomes if isinstance(outcome, Measurement)]


def failures(result: Result) -> Iterator[str]:
    """Yield what went wrong, in words."""
    for whose, outcomes in (("", result.job), ("peer ", result.peer)):
        yield from (whose + outcome.reason for outcome in outcomes if isinstance(outcome, Failure))
    if not result.job:
        yield "not measured: the run ended before its turn"
    elif result.case.peer is not None and not result.peer:
        yield "the run ended before the peer's turn"


def _known_slow(outcomes: list[Outcome]) -> float:
    """Return the longest time after which a run had to be stopped [s]; 0 if there is none."""
    return max((o.at_least for o in outcomes if isinstance(o, Failure) and o.at_least is not None), default=0.0)


def _other_statuses(runs: list[Measurement]) -> list[str]:
    return sorted({run.status for run in runs if run.status is not None} - {"optimal"})
