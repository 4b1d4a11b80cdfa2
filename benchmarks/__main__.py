"""``python -m benchmarks [SUITE …]``: measure, print progress, write the table.

``precompute``, ``kernel``, ``limits`` and ``--scan`` have tables of their own.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import tempfile
from pathlib import Path

from benchmarks.cases import SUITES, Case, all_cases
from benchmarks.judge import checks, failures, measurements
from benchmarks.report import command_of, section, write
from benchmarks.run import Budget, Result, run

OWN_TABLES = {"precompute": "precompute", "kernel": "kernel", "limits": "limits", "--scan": "scan"}
"""First words with a module of their own."""


def main(arguments: list[str] | None = None, cases: tuple[Case, ...] | None = None) -> None:
    """Run the suites that the command line names.

    Args:
        arguments: the command line; None: that of this process.
        cases: what there is to measure; None: `all_cases`.
    """
    words = sys.argv[1:] if arguments is None else arguments
    if words and words[0] in OWN_TABLES:
        importlib.import_module(f"benchmarks.{OWN_TABLES[words[0]]}").main(words[1:])
        return
    options = _parser().parse_args(words)
    unknown = [suite for suite in options.suites if suite not in SUITES]
    if unknown:
        _parser().error(f"no suite {unknown[0]!r}: choose from {', '.join(SUITES)}")
    suites = [suite for suite in SUITES if suite in options.suites or not options.suites]
    selected_cases = [case for case in cases or all_cases() if case.suite in suites and options.only in case.name]
    command, load = command_of(words), os.getloadavg()[0]
    budget = Budget(60 * options.minutes)
    with tempfile.TemporaryDirectory() as scratch:
        for suite in suites:
            results = [Result(case) for case in selected_cases if case.suite == suite]
            try:
                run(results, budget, Path(scratch), watcher=_show)
            except KeyboardInterrupt:  # a part of a suite must not replace the whole
                print(section(suite, results, command, load))
                sys.exit(130)
            _publish(options, suite, section(suite, results, command, load))


def _publish(options: argparse.Namespace, suite: str, text: str) -> None:
    if options.only and options.output is None:
        print(text)  # part of a suite must not replace the whole
        return
    write(suite, text, options.output)


def _show(result: Result) -> None:
    runs = measurements(result.job)
    seconds = f"{runs[-1].seconds:9.3f} s" if runs else "          –"
    unmet = [f"{check.measured}, wanted {check.wanted}" for check in checks(result) if check.met is False]
    notes = "; ".join(dict.fromkeys([*unmet, *failures(result)]))
    print(f"{seconds}  {result.case.name}{f'  [{notes}]' if notes else ''}", flush=True)


def _parser() -> argparse.ArgumentParser:
    suites = " ".join(f"{name}: {description}" for name, description in SUITES.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=f"Measure and write benchmarks/results.md. Suites: {suites}"
    )
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"{', '.join(SUITES)}; none means all")
    parser.add_argument(
        "--minutes", type=float, default=11.5, help="stop after this long, whatever is left (default: 11.5)"
    )
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="only cases whose name contains this; prints the table alone"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="write there instead")
    return parser


if __name__ == "__main__":
    main()
