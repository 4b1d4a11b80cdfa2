"""Would the tests notice? Small faults are put into the core one at a time, and the core's tests are run on each.

A mutant is the module with one thing changed (`mutants`). It lives in memory only: a process forked for it puts the
changed functions in the place of the module's and runs the module's own fast tests until one fails, those that killed
before, and quick ones, first. What outlives them is a survivor: either it says the same as the original
(`tests/data/equivalent_mutants.toml` keeps those, each with its reason) or a test is missing. Hypothesis tries 30
examples for each property here, and does not shrink.

    make mutation MODULE=corners                           # one module; without MODULE, all: hours
    make mutation MODULE=corners ARGS="--line 120-140"     # some lines of it
    make mutation MODULE=pruned ARGS="--sample 100"        # some of its mutants, the same ones for the same --seed

`--seconds 5` gives each mutant the quickest tests only, about that long: a score from below. What is listed as
equivalent is not tried, unless `--listed` asks for it: then what a test kills is said to be listed wrongly.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import multiprocessing
import os
import random
import resource
import sys
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest
from support.paths import DATA, TESTS

from campaigns.mutants import Mutant, mutants, mutated

EQUIVALENT = DATA / "equivalent_mutants.toml"


def _tests(file: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{file}::test_{name}" for name in names)


def _searches(*names: str) -> tuple[str, ...]:
    return _tests("test_oracle.py", *names)


TARGETS: dict[str, tuple[str, ...]] = {
    "design.certificate": ("test_certificate.py",),
    "design.polytope.corners": ("test_corners.py", "test_constraint.py"),
    "design.polytope.polar_form": ("test_polar_form.py", "test_constraint.py"),
    "design.separation.oracle": _searches(
        "without_Delta_the_worst_of_every_layer_row_is_found",
        "what_a_search_charges_for_rounding",
        "what_is_private_by_more_than_rounding_is_proved_so",
        "a_search_settles_what_is_open_unless_told_not_to",
        "a_monotone_noise_function_needs_a_small_set_only",
        "cuts_near_faces_are_cuts",
        "layers_at_hand_change_nothing",
        "a_search_gives_up_at_its_deadline",
        "the_separable_search_sees_both_sides_of_the_mirror",
        "separable_is_the_enumeration",
    ),
    "design.separation.pruned": (
        "test_pruned.py",
        *_searches(
            "what_a_search_charges_for_rounding",
            "what_is_private_by_more_than_rounding_is_proved_so",
            "a_search_for_cuts_may_leave_bounds_and_says_so",
            "cuts_near_faces_are_cuts",
            "layers_at_hand_change_nothing",
            "a_search_gives_up_at_its_deadline",
            "pruned_is_the_separable_search",
            "every_number_of_affected_voters",
        ),
    ),
    "design.separation.separable": (
        "test_pruned.py::test_complete_search_of_rows_of_any_numbers",
        *_searches(
            "the_worst_of_every_skeleton_is_found",
            "rows_in_parts_are_searched_alike",
            "no_rows_no_search_and_no_time_no_answer",
            "separable_is_the_enumeration",
        ),
    ),
    "design.separation.monotone": _searches(
        "a_monotone_noise_function_needs_a_small_set_only",
        "what_a_monotone_search_charges_for_rounding",
        "a_search_gives_up_at_its_deadline",
    ),
    "design.separation.first_order": ("test_first_order.py",),
    "accounting.composition.closed_forms": ("test_closed_forms.py", "test_composition.py"),
    "accounting.composition.optimal": ("test_optimal.py", "test_closed_forms.py"),
    "accounting.bits.recursion": (
        "test_account_parts.py",
        *_tests(
            "test_bits.py",
            "grid_is_the_exact_recursion_from_above",
            "order_matters_to_the_adversary_and_any_order_covers_both",
            "errors",
        ),
    ),
    "accounting.release_profile": (
        "test_account_parts.py",
        *_tests("test_total.py", "the_profile_is_one_function", "a_bare_gamma_is_verified_first"),
    ),
    "accounting.pld.composition": (
        "test_account_parts.py",
        *_tests(
            "test_pld.py",
            "different_events",
            "extremes",
            "bad_discretisations_are_named",
            "invalid_profiles_are_rejected",
        ),
    ),
    "accounting.pld.distribution": ("test_account_parts.py", *_tests("test_pld.py", "different_events", "extremes")),
    "accounting.mixture": (
        "test_account_parts.py",
        *_tests(
            "test_mixture.py",
            "a_certain_count_is_the_account_with_that_many_affected",
            "a_record_that_affects_no_voter_loses_nothing",
            "the_estimate_of_extremes",
            "groups_cover_all_counts",
            "invalid_distributions_are_rejected",
            "private_voters_trained_once_are_taken_as_not_private",
        ),
    ),
    "accounting.privacy_budget": ("test_privacy_budget.py",),
    "accounting.freshness": _tests(
        "test_freshness.py",
        "freshness_changes_nothing_for_one_release_or_non_private_voters",
        "composed_models_account_for_any_number_of_releases",
        "compose_models_with_a_Delta",
        "releases_for_different_voters_compose_different_models",
        "fresh_must_be_a_bool",
        "the_description_of_fresh_names_the_default",
    ),
    "accounting.total": (
        "test_account_parts.py",
        *_tests(
            "test_total.py",
            "equal_parts_are_one_and_order_does_not_matter",
            "pure_privacy_at_delta_zero",
            "totals_below_every_floor_are_rejected",
            "the_slack_sets_the_total_delta",
        ),
    ),
    "randomness.coins": ("test_coins.py",),
    "mechanism.majority": ("test_majority.py", "test_release_log.py"),
}
"""Modules of `darrm_opt`, and the tests that are theirs: the few that say most about each, so that a trial is short."""

LIMIT = 4.0
"""A mutant that takes so many times the processor seconds of the unchanged module, and ten more, does not end: killed."""

PRELOADED = ("dp_accounting.pld.privacy_loss_distribution", "scipy.special")
"""Imported once, before any process is forked for a mutant."""

MEMORY = 8 << 30
"""Bytes that a mutant may take: a size that grew wrong is a death like any other, not the machine's."""


def replace(module: ModuleType, code: CodeType) -> None:
    """Make a live module's functions and constants those of other code, wherever they were imported to."""
    changed: dict[str, Any] = {"__name__": module.__name__, "__file__": module.__file__}
    sys.modules[module.__name__], kept = ModuleType(module.__name__), module  # so that dataclasses find their module
    exec(code, changed)  # noqa: S102  # the module's own code, but for one change
    sys.modules[module.__name__] = kept
    for name, new in changed.items():
        old = vars(module).get(name)
        if getattr(new, "__module__", module.__name__) == module.__name__ and isinstance(new, type | FunctionType):
            _transplant(old, new)
        elif isinstance(new, int | float | str | tuple) and new != old and not name.startswith("__"):
            for other in [*sys.modules.values()]:
                if vars(other).get(name) is old:
                    setattr(other, name, new)


def _transplant(old: Any, new: Any) -> None:
    if isinstance(new, type):
        for name, member in vars(new).items():
            _transplant(vars(old).get(name), member)
    elif isinstance(new, property):
        _transplant(old.fget, new.fget)
    elif isinstance(new, classmethod | staticmethod):
        _transplant(old.__func__, new.__func__)
    elif isinstance(new, FunctionType) and isinstance(old, FunctionType):
        old.__code__, old.__defaults__, old.__kwdefaults__ = new.__code__, new.__defaults__, new.__kwdefaults__


@dataclass
class Trials:
    """A pytest plugin that runs the tests of one module again and again, a process and a mutant each time."""

    module: str
    chosen: Callable[[list[tuple[int, Mutant]]], list[tuple[int, Mutant]]]
    seconds: float
    tried: list[Mutant] = field(default_factory=list)
    survivors: list[Mutant] = field(default_factory=list)
    _seconds: dict[str, float] = field(default_factory=dict)
    _failed: str | None = None

    def pytest_configure(self) -> None:
        from hypothesis import Phase, settings

        settings.register_profile("unshrunk", settings(), phases=[Phase.explicit, Phase.generate], max_examples=30)
        settings.load_profile("unshrunk")  # the first that fails will do

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        start = time.process_time()
        answer = yield
        self._seconds[item.nodeid] = time.process_time() - start
        return answer

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self._failed is None:
            self._failed = report.nodeid

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for name in PRELOADED:
            importlib.import_module(name)
        live = importlib.import_module(f"darrm_opt.{self.module}")
        path = str(live.__file__)
        source = Path(path).read_text(encoding="utf-8")
        failed, seconds = self._trial(session.items)
        if failed is not None:
            raise pytest.UsageError(f"{self.module}: the tests fail without any change: {failed}")
        quickest = sorted(session.items, key=lambda item: seconds[item.nodeid])
        spent = itertools.accumulate(seconds[item.nodeid] for item in quickest)
        quick = [item for item, so_far in zip(quickest, spent, strict=True) if so_far <= self.seconds]
        limit = LIMIT * sum(seconds[item.nodeid] for item in quick) + 10
        kills: dict[str, Counter[str]] = defaultdict(Counter)
        for number, mutant in self.chosen([*enumerate(mutants(self.module, source))]):
            start, here = time.perf_counter(), kills[mutant.function]
            items = sorted(quick, key=lambda item: -here[item.nodeid])
            killer, _ = self._trial(items, live, mutated(self.module, source, number, path), limit)
            self.tried.append(mutant)
            if killer is None:
                self.survivors.append(mutant)
            else:
                here[killer] += 1
            verdict = "SURVIVES" if killer is None else killer.rpartition("/")[2][:100]
            took = time.perf_counter() - start
            sys.stdout.write(f"{self.module}:{mutant.line} {mutant.change} | {verdict} | {took:.1f} s\n")
            sys.stdout.flush()
        return True

    def _trial(
        self,
        items: Sequence[pytest.Item],
        live: ModuleType | None = None,
        code: CodeType | None = None,
        limit: float | None = None,
    ) -> tuple[str | None, dict[str, float]]:
        """Run tests in a process of their own; return the test that failed, or None, and the seconds of each."""
        fork = multiprocessing.get_context("fork")
        receive, send = fork.Pipe(duplex=False)
        process = fork.Process(target=self._child, args=(items, live, code, limit, send))
        process.start()
        send.close()
        try:
            if not receive.poll(None if limit is None else 30 * limit):  # asleep: its processor seconds are limited
                return "(no end)", {}
            failed, seconds = receive.recv()
        except EOFError:
            return "(the process died)", {}
        else:
            return failed, seconds
        finally:
            process.kill()
            process.join()

    def _child(
        self,
        items: Sequence[pytest.Item],
        live: ModuleType | None,
        code: CodeType | None,
        limit: float | None,
        answer: Connection,
    ) -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (int(limit) + 1, int(limit) + 1))
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        if live is not None and code is not None:
            try:
                replace(live, code)
            except Exception as error:  # noqa: BLE001  # whatever it is, nobody could import this
                answer.send((f"(import: {error!r})", {}))
                return
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failed:
                break
        answer.send((self._failed, self._seconds))


def run(module: str, chosen: Callable[[list[tuple[int, Mutant]]], list[tuple[int, Mutant]]], seconds: float) -> Trials:
    """Try the chosen ones of a module's numbered mutants, each by tests that take about so long."""
    trials = Trials(module, chosen, seconds)
    tests = [
        f"{file_of(file)}{separator}{test}"
        for file, separator, test in (name.partition("::") for name in TARGETS[module])
    ]
    quiet = ["-q", "-s", "--no-header", "--no-summary", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    status = pytest.main([*quiet, "-m", "not slow", "-p", "no:cacheprovider", *tests], plugins=[trials])
    if status != pytest.ExitCode.OK:
        sys.exit(f"{module}: pytest ended with {status!r}")
    return trials


def file_of(name: str) -> Path:
    """Return the test file of that name, whatever folder of the tests it is in."""
    (path,) = TESTS.rglob(name)
    return path


def lines_of(text: str) -> range:
    """Return the lines that "120" or "120-140" names."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def equivalents() -> dict[tuple[str, str], str]:
    """Return why each known survivor says the same as the original."""
    listed = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))
    return {(where, change): why for where, changes in listed.items() for change, why in changes.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign; return 1 if anything survived that is not known to be equivalent."""
    parser = argparse.ArgumentParser(prog="campaigns.mutation", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("modules", nargs="*", help=f"of {', '.join(TARGETS)}; default: all")
    parser.add_argument("--line", type=lines_of, action="append", default=[], help="only changes of lines such as 7-9")
    parser.add_argument("--sample", type=int, help="at most so many mutants of each module, drawn by --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--seconds",
        type=float,
        default=float("inf"),
        help="of processor time for the tests of each mutant; default: all",
    )
    parser.add_argument("--listed", action="store_true", help="try what is listed as equivalent, too")
    asked = parser.parse_args(arguments)
    wanted = [m for m in TARGETS if not asked.modules or m in asked.modules or m.rpartition(".")[2] in asked.modules]
    known, table, alive, wrong = equivalents(), [], [], []
    if not wanted:
        parser.error(f"no such module: {', '.join(asked.modules)}")
    for module in wanted:
        same: list[Mutant] = []

        def chosen(numbered: list[tuple[int, Mutant]], same: list[Mutant] = same) -> list[tuple[int, Mutant]]:
            here = [one for one in numbered if not asked.line or any(one[1].line in lines for lines in asked.line)]
            if asked.sample is not None and asked.sample < len(here):
                here = sorted(random.Random(asked.seed).sample(here, asked.sample))  # the same each time
            same += [mutant for _, mutant in here if mutant.key in known]
            return [one for one in here if asked.listed or one[1].key not in known]

        trials = run(module, chosen, asked.seconds)
        new = [mutant for mutant in trials.survivors if mutant.key not in known]
        dead = [mutant for mutant in trials.tried if mutant not in trials.survivors]
        wrong += [mutant for mutant in dead if mutant.key in known]
        killed = len(dead) - sum(mutant.key in known for mutant in dead)
        score = f"{killed / max(1, killed + len(new)):.1%}"
        table.append(
            f"| `{module}` | {killed + len(new) + len(same)} | {killed} | {len(same)} | {len(new)} | {score} |"
        )
        alive += new
    lines = ["", "| module | mutants | killed | equivalent | alive | score |", "|---|--:|--:|--:|--:|--:|", *table]
    lines += [f"ALIVE {mutant.module}:{mutant.line} in {mutant.function}: {mutant.change}" for mutant in alive]
    lines += [
        f"LISTED BUT KILLED {mutant.module}:{mutant.line} in {mutant.function}: {mutant.change}" for mutant in wrong
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if alive or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
