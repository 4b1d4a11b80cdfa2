"""The results as Markdown: one section a suite, so that running one suite keeps what the other showed."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shlex
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median

from benchmarks.cases import SUITES
from benchmarks.judge import checks, failures, measurements, ratios
from benchmarks.limits import limit_of
from benchmarks.measure import ROOT, Failure, Outcome
from benchmarks.run import Result

RESULTS = ROOT / "benchmarks" / "results.md"

LIBRARIES = ("numpy", "scipy", "highspy")

INTRODUCTION = """\
# Benchmarks

Written by `make bench` (`python -m benchmarks`); what is measured stands in `benchmarks/cases.py`. ε = 0.1 for one
voter and δ = 1 − (1−Δ)^m throughout. Each run has a process of its own, which first solves a problem of 7 voters, not
timed, so that imports are done; "first solve of a process" counts them. Times are wall-clock: median (least–most)
×runs. A peer runs in turn with what it is compared with, on the same machine: *ratio* is the peer's time over the
case's where "faster" is wanted, the case's over the peer's where "the time" is, and ln(ratio of times)/ln(ratio of K)
where an exponent is. Limit is what a design's arithmetic and its rows take at least on one core
(`benchmarks/limits.py`, at rates measured when the table was written), and how many times as long the median is. Peak
is the largest resident memory of the process; gap and certificate are those of the answer (`complete` and `monotone`
leave nothing but rounding open, `first-order` a proven remainder). Times are judged by their median, all else by the
worst run; a stopped or failed run is a "no" or "not measured", with the reason.
"""

HEADINGS = (
    "case",
    "wanted",
    "time [s]",
    "limit [s], times as long",
    "peer [s]",
    "ratio",
    "peak [MB]",
    "gap",
    "certificate",
    "rows, rounds",
    "met",
)


def command_of(words: list[str]) -> str:
    """Return the command that measures the same again: without ``--output``, which changes nothing of it."""
    kept = [
        word
        for before, word in zip(["", *words], words, strict=False)
        if before != "--output" and word.partition("=")[0] != "--output"
    ]
    return shlex.join(["python", "-m", "benchmarks", *kept])


def section(suite: str, results: list[Result], command: str, load: float) -> str:
    """Return one suite's section.

    Args:
        suite: its name.
        results: what was measured, one a case.
        command: how it was run.
        load: average number of running processes in the minute before, from which a busy machine shows.
    """
    verdicts = [_verdict(result) for result in results]
    met = sum(verdict.startswith("yes") for verdict in verdicts)
    lines = [
        f"## {suite}",
        "",
        f"{SUITES[suite]} Met: **{met} of {len(results)}**.",
        "",
        origin(command, load),
        "",
        _row(HEADINGS),
        _row(["---"] * len(HEADINGS)),
        *(_row([*_cells(result), verdict]) for result, verdict in zip(results, verdicts, strict=True)),
    ]
    return "\n".join(lines) + "\n"


def origin(command: str, load: float) -> str:
    """Return what made a section: its command, when, and on which machine, with its load before."""
    return f"`{command}`, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, load {load:.1f} before; {machine()}"


def write_own(words: list[str], load: float, about: list[str], lines: list[str], output: Path | None) -> None:
    """Write the section of a table with columns of its own: what it is, how it was made, and its lines."""
    name = words[0].lstrip("-")
    text = "\n".join([f"## {name}", "", *about, "", origin(command_of(words), load), "", *lines, ""])
    write(name, text, output)


def merged(old_text: str, sections: dict[str, str]) -> str:
    """Return the whole document: the new sections, and from ``before`` every one that is not new, whoever wrote it."""
    parts = re.split(r"^(?=## )", old_text, flags=re.MULTILINE)[1:]
    old_sections = {part.splitlines()[0].removeprefix("## ").strip(): part.rstrip() + "\n" for part in parts}
    default_sections = {suite: f"## {suite}\n\nNot run yet.\n" for suite in SUITES}
    all_sections = {**default_sections, **old_sections, **sections}
    return "\n".join([INTRODUCTION, *all_sections.values()])


def write(name: str, text: str, output: Path | None) -> None:
    """Replace one section of a file, `RESULTS` where none is named, in one step: an interruption leaves the old one."""
    path = output or RESULTS
    old_text = path.read_text(encoding="utf-8") if path.exists() else ""
    draft = path.with_name(path.name + ".part")
    draft.write_text(merged(old_text, {name: text}), encoding="utf-8")
    draft.replace(path)
    print(f"written: {path}")


def machine() -> str:
    """Return what ran: cores, processor, Python, libraries, revision."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    libraries = ", ".join(f"{name} {_version(name)}" for name in LIBRARIES)
    return f"{cores} cores, {_processor()}; Python {platform.python_version()}, {libraries}; revision {_revision()}."


def _cells(result: Result) -> list[str]:
    runs = measurements(result.job)
    gaps = [run.gap for run in runs if run.gap is not None]
    peaks = [run.peak for run in runs if run.peak is not None]
    last_run = runs[-1] if runs else None
    return [
        result.case.name,
        ", ".join(check.wanted for check in checks(result) if check.wanted != "optimal"),
        _times(result.job),
        _limit(result),
        _times(result.peer),
        _ratio(result),
        f"{max(peaks) / 1e6:.0f}" if peaks else "",
        f"{max(gaps):.1e}" if gaps else "",
        ", ".join(sorted({run.certificate for run in runs if run.certificate is not None})),
        f"{last_run.rows}, {last_run.rounds}" if last_run is not None and last_run.rows is not None else "",
    ]


def _verdict(result: Result) -> str:
    results, trouble = checks(result), "; ".join(dict.fromkeys(failures(result)))
    unmet = [f"{check.measured}, wanted {check.wanted}" for check in results if check.met is False]
    if unmet:
        return "**no**: " + "; ".join([*unmet, trouble] if trouble else unmet)
    if any(check.met is None for check in results):
        return trouble if trouble.startswith("not measured") else f"not measured: {trouble}"
    return f"yes, but: {trouble}" if trouble else "yes"


def _ratio(result: Result) -> str:
    case_ratios, is_bound = ratios(result), any(isinstance(outcome, Failure) for outcome in result.peer)
    return (("at least " if is_bound else "") + _spread(case_ratios)) if case_ratios else ""


def _limit(result: Result) -> str:
    runs = measurements(result.job)
    limit = limit_of(result.case.job, runs[-1]) if runs else None
    return "" if limit is None else f"{limit:.2g}, {median(run.seconds for run in runs) / limit:.3g}×"


def _times(outcomes: list[Outcome]) -> str:
    runs = [run.seconds for run in measurements(outcomes)]
    return f"{_spread(runs)} ×{len(runs)}" if runs else ""


def _spread(values: list[float]) -> str:
    middle = f"{median(values):.3g}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.3g}–{max(values):.3g})"


def _row(cells: list[str] | tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _revision() -> str:
    try:
        process = subprocess.run(
            ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return process.stdout.strip()
