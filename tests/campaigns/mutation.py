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
import functools
import gc
import importlib
import itertools
import math
import multiprocessing
import os
import pickle
import random
import resource
import signal
import sys
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import pytest
from support.paths import DATA, TESTS

from campaigns.mutants import KINDS, Mutant, mutants, mutated

EQUIVALENT = DATA / "equivalent_mutants.toml"


ACCOUNTS = (
    *("accounting.bounds", "accounting.guarantee", "accounting.adaptive"),
    *("accounting.composition.closed_forms", "accounting.composition.optimal", "accounting.bits.recursion"),
    *("accounting.release_profile", "accounting.mixture", "accounting.accounts", "accounting.total"),
    *("accounting.pld", "accounting.privacy_budget", "accounting.freshness", "accounting.model_profiles"),
    *("accounting.calibrate", "accounting.composition"),
    *("accounting.bits.region", "accounting.bits.backward_step"),
    *("accounting.bits.adversary", "accounting.law_pairs", "accounting.sampling"),
    *("accounting.gaussian", "accounting.rdp", "accounting.interop"),
    *("accounting.sampled", "accounting.allocation", "accounting.published_loss", "accounting.propose_test_release"),
    *("accounting.labels.composition", "accounting.labels.power_divergence", "accounting.labels.gaussian_comparison"),
    *(
        "accounting.labels.vote_release",
        "accounting.labels.pure_loss",
        "accounting.labels.noisy_bit",
        "accounting.labels.data_dependent",
    ),
    *(
        "accounting.labels.discrete_gaussian_argmax",
        "accounting.labels.gaussian_argmax",
        "accounting.labels.sampled_argmax",
    ),
)
"""All that accounts. Their tests are one folder: which of them execute a mutant's statement is measured."""

TARGETS: dict[str, tuple[str, ...]] = {
    "design.certificate": ("test_certificate.py",),
    "design.constraint": (
        *("test_corners.py", "test_constraint.py", "test_polar_form.py"),
        *("test_row_cache.py", "test_privacy_profile.py", "test_dual_bound.py"),
    ),
    "design.polar_form": ("test_polar_form.py", "test_constraint.py"),
    **dict.fromkeys(
        (f"design.separation.{name}" for name in ("oracle", "pruned", "separable", "monotone")),
        ("test_oracle.py", "test_pruned.py"),
    ),
    "design.separation.first_order": ("test_first_order.py",),
    **dict.fromkeys(ACCOUNTS, ("accounting",)),
    "randomness": ("test_coins.py", "test_samplers.py", "test_source.py", "test_inversion.py"),
    "inversion": ("test_inversion.py",),
    "mechanisms.vote_noise": ("mechanisms", "test_inversion.py"),
    "mechanisms.selection": ("mechanisms", "test_inversion.py"),
    **dict.fromkeys(("release.vote", "release.log", "release.sampler"), ("release", "learning")),
    **dict.fromkeys(("learning.classifier", "learning.logistic_regression", "learning.release_plan"), ("learning",)),
    "planning.plain_majority": ("test_plain_majority.py",),
    "planning.ranking": ("planning",),
    **dict.fromkeys(("tables.edge_program", "tables.corner_program", "tables.objective"), ("tables",)),
    **dict.fromkeys(("tables.certificate", "tables.corners", "tables.group_laws"), ("tables", "mechanisms")),
}
"""Modules of `darrm_opt`, and the tests that are theirs: the few that say most about each, so that a trial is short."""

LIMIT = 4.0
"""A test is killed after so many times its processor seconds on the unchanged module, and three seconds more."""

MAX_SECONDS = 900  # of the clock, for all tests of one mutant, should it sleep

NO_END = "(no end)"

ANY_LINE = 0  # stands for every line of a file

PRELOADED = ("dp_accounting.pld.privacy_loss_distribution", "scipy.special")
"""Imported once, before any process is forked for a mutant."""

MEMORY = 8 << 30  # bytes that a mutant may take: a size that grew wrong is a death like any other, not the machine's


def replace(module: ModuleType, code: CodeType) -> None:
    """Make a live module's functions and constants those of other code, wherever they were imported to."""
    namespace: dict[str, Any] = {"__name__": module.__name__, "__file__": module.__file__}
    sys.modules[module.__name__], original = (
        ModuleType(module.__name__),
        module,
    )  # so that dataclasses find their module
    exec(code, namespace)  # noqa: S102  # the module's own code, but for one change
    sys.modules[module.__name__] = original
    for name, new in namespace.items():
        old = vars(module).get(name)
        if isinstance(new, type) or callable(new):
            if getattr(new, "__module__", None) == module.__name__:
                _transplant(old, new)
        elif type(new) is type(old) and _constant_text(new) != _constant_text(old) and not name.startswith("__"):
            for other in [*sys.modules.values()]:
                if vars(other).get(name) is old:
                    setattr(other, name, new)
    forget()


def _constant_text(value: Any) -> str:
    """Return a constant as it prints, and whether it may be written to."""
    return repr(value) + str(getattr(value, "flags", ""))


def _transplant(old: Any, new: Any) -> None:
    if isinstance(new, type):
        for name, member in vars(new).items():
            _transplant(vars(old).get(name), member)
    elif isinstance(new, property):
        _transplant(old.fget, new.fget)
    elif isinstance(new, functools.cached_property):
        _transplant(old.func, new.func)
    elif isinstance(new, classmethod | staticmethod):
        _transplant(old.__func__, new.__func__)
    elif isinstance(new, FunctionType) and isinstance(old, FunctionType):
        old.__code__, old.__defaults__, old.__kwdefaults__ = new.__code__, new.__defaults__, new.__kwdefaults__
        if hasattr(new, "__wrapped__"):  # a decorator's function keeps the one it wraps in a cell
            _transplant(old.__wrapped__, new.__wrapped__)  # type: ignore[attr-defined]
    elif hasattr(new, "cache_clear"):
        _transplant(old.__wrapped__, new.__wrapped__)


def forget() -> None:
    """Clear every cache of results, of the product and of its tests."""
    for name, module in [*sys.modules.items()]:
        if name.startswith(("darrm_opt", "support", "test_")):
            for value in [*vars(module).values()]:
                if hasattr(value, "cache_clear") and hasattr(value, "__wrapped__"):
                    value.cache_clear()


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant: the test that failed (None: it survives), or why it ended otherwise."""

    mutant: Mutant
    killer: str | None


@dataclass
class Answer:
    """Report of a process on its tests: the first that failed, the seconds of each, the lines it executed."""

    failed: str | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[str, set[tuple[str, int]]] = field(default_factory=dict)


@dataclass
class Trials:
    """A pytest plugin that runs the tests of some modules again and again, a process and a mutant each time."""

    modules: Sequence[str]
    chosen: Callable[[str, list[tuple[int, Mutant]]], list[tuple[int, Mutant]]]
    seconds: float
    baseline: Path | None = None
    verdicts: list[Verdict] = field(default_factory=list)
    _answer: Answer = field(default_factory=Answer)
    _limits: dict[str, float] = field(default_factory=dict)
    _traced: frozenset[str] = frozenset()
    _send: Connection | None = None
    _running: str = ""

    def pytest_configure(self) -> None:
        os.register_at_fork(after_in_parent=self._trace_lost)
        from hypothesis import Phase, settings

        settings.register_profile("unshrunk", settings(), phases=[Phase.explicit, Phase.generate], max_examples=30)
        settings.load_profile("unshrunk")  # the first that fails will do

    def _trace_lost(self) -> None:
        """Take a test that forks as one that executes everything: its child's lines are not seen."""
        for path in self._traced:
            self._answer.lines.setdefault(self._running, set()).add((path, ANY_LINE))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        if self._limits:
            signal.setitimer(signal.ITIMER_PROF, LIMIT * self._limits[item.nodeid] + 3)  # SIGPROF ends the process
        self._running = item.nodeid
        executed = self._answer.lines.setdefault(item.nodeid, set())
        if self._traced:
            forget()
            sys.settrace(_tracer(self._traced, executed))
        start = time.process_time()
        result = yield
        sys.settrace(None)
        self._answer.seconds[item.nodeid] = time.process_time() - start
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        """Answer at the first failure: nobody reads its report, which takes longer than most tests."""
        if call.excinfo is not None and not call.excinfo.errisinstance((pytest.skip.Exception, pytest.xfail.Exception)):
            self._answer.failed = item.nodeid
            if self._send is not None:
                self._send.send(self._answer)
                os._exit(0)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for name in PRELOADED:
            importlib.import_module(name)
        live = {module: importlib.import_module(f"darrm_opt.{module}") for module in self.modules}
        paths = {module: str(each.__file__) for module, each in live.items()}
        self._traced = frozenset(paths.values())
        unchanged = Answer()
        if self.baseline is not None and self.baseline.exists():
            traced, kept = pickle.loads(self.baseline.read_bytes())  # noqa: S301  # written below
            if traced != self._traced:
                raise pytest.UsageError(f"{self.baseline} is of other modules: {', '.join(sorted(traced))}")
            unchanged = Answer(**kept)
        unmeasured = [item for item in session.items if item.nodeid not in unchanged.seconds]
        new = self._trial(unmeasured) if unmeasured else Answer()
        traced, self._traced = self._traced, frozenset()
        if new.failed is not None:
            raise pytest.UsageError(f"the tests fail without any change: {new.failed}")
        unchanged = Answer(None, unchanged.seconds | new.seconds, unchanged.lines | new.lines)
        if self.baseline is not None:
            self.baseline.write_bytes(pickle.dumps((traced, vars(unchanged))))
        self._limits = unchanged.seconds
        gc.collect()
        gc.freeze()  # pages that no child's collector touches stay shared
        for module in self.modules:
            executed = {
                item: {line for path, line in unchanged.lines[item.nodeid] if path == paths[module]}
                for item in sorted(session.items, key=lambda item: unchanged.seconds[item.nodeid])
            }
            self._try_module(live[module], module, {item: lines for item, lines in executed.items() if lines})
        return True

    def _try_module(self, live: ModuleType, module: str, executed: dict[pytest.Item, set[int]]) -> None:
        path = str(live.__file__)
        source = Path(path).read_text(encoding="utf-8")
        kills: dict[str, Counter[str]] = defaultdict(Counter)
        for number, mutant in self.chosen(module, [*enumerate(mutants(module, source))]):
            start, function_kills, all_kills = time.perf_counter(), kills[mutant.function], kills[""]
            telling = {ANY_LINE, *mutant.span}
            able = [item for item, lines in executed.items() if not mutant.span or not lines.isdisjoint(telling)]
            able.sort(
                key=lambda item: (
                    -(10 * function_kills[item.nodeid] + all_kills[item.nodeid]) / (self._limits[item.nodeid] + 0.05)
                )
            )
            seconds_so_far = itertools.accumulate(self._limits[item.nodeid] for item in able)
            quick = [item for item, so_far in zip(able, seconds_so_far, strict=True) if so_far <= self.seconds]
            items = quick or able[:1]
            killer = self._trial(items, live, mutated(module, source, number, path)).failed if items else None
            self.verdicts.append(Verdict(mutant, killer))
            if killer is not None:
                function_kills[killer] += 1
                all_kills[killer] += 1
            verdict = "SURVIVES" if killer is None else killer.rpartition("/")[2][:100].replace("|", "/")
            took = time.perf_counter() - start
            tests = f"{len(items)} of {len(able)} tests, {took:.1f} s"
            sys.stdout.write(f"{module}:{mutant.function}:{mutant.line} {mutant.change} | {verdict} | {tests}\n")
            sys.stdout.flush()

    def _trial(
        self, items: Sequence[pytest.Item], live: ModuleType | None = None, code: CodeType | None = None
    ) -> Answer:
        """Run tests in a process of their own."""
        fork = multiprocessing.get_context("fork")
        receive, send = fork.Pipe(duplex=False)
        process = fork.Process(target=self._child, args=(items, live, code, send))
        process.start()
        send.close()
        try:
            if not receive.poll(MAX_SECONDS):  # asleep: its processor seconds are limited
                return Answer(NO_END)
            answer: Answer = receive.recv()
        except EOFError:
            process.join()
            return Answer(NO_END if process.exitcode == -signal.SIGPROF else "(the process died)")
        else:
            return answer
        finally:
            process.kill()
            process.join()

    def _child(
        self, items: Sequence[pytest.Item], live: ModuleType | None, code: CodeType | None, answer: Connection
    ) -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        self._answer, self._send = Answer(), answer
        if live is not None and code is not None:
            try:
                replace(live, code)
            except Exception as error:  # noqa: BLE001  # whatever it is, nobody could import this
                answer.send(Answer(f"(import: {error!r})"))
                return
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        signal.setitimer(signal.ITIMER_PROF, 0)
        answer.send(self._answer)


def _tracer(paths: frozenset[str], executed: set[tuple[str, int]]) -> Callable[..., Any]:
    def local(frame: FrameType, _event: str, _argument: object) -> Any:
        executed.add((frame.f_code.co_filename, frame.f_lineno))
        return local

    def calls(frame: FrameType, event: str, argument: object) -> Any:
        return local(frame, event, argument) if frame.f_code.co_filename in paths else None

    return calls


def run(
    modules: Sequence[str],
    chosen: Callable[[str, list[tuple[int, Mutant]]], list[tuple[int, Mutant]]],
    seconds: float,
    tests: Sequence[str],
    baseline: Path | None = None,
) -> Trials:
    """Try the chosen ones of the modules' numbered mutants, each by tests that take about so long."""
    trials = Trials(modules, chosen, seconds, baseline)
    paths = [str(file_of(name)) for name in tests]
    quiet = ["-qs", "--no-header", "--no-summary", "--assert=plain", "-Wignore::pytest.PytestAssertRewriteWarning"]
    status = pytest.main([*quiet, "-m", "not slow", "-p", "no:cacheprovider", *paths], plugins=[trials])
    if status != pytest.ExitCode.OK:
        sys.exit(f"{', '.join(modules)}: pytest ended with {status!r}")
    return trials


def file_of(name: str) -> Path:
    """Return the test file of that name, whatever folder of the tests it is in; or a folder of `tests/darrm_opt`."""
    if not name.endswith(".py"):
        return TESTS / "darrm_opt" / name
    (path,) = TESTS.rglob(name)
    return path


def lines_of(text: str) -> range:
    """Return the lines that "120" or "120-140" names."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def equivalents() -> dict[tuple[str, str], str]:
    """Return why each known survivor says the same as the original."""
    table = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))
    return {(function, change): why for function, changes in table.items() for change, why in changes.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign; return 1 if anything survived that is not known to be equivalent."""
    parser = argparse.ArgumentParser(prog="campaigns.mutation", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("modules", nargs="*", help=f"of {', '.join(TARGETS)}; default: all")
    parser.add_argument("--line", type=lines_of, action="append", default=[], help="only changes of lines such as 7-9")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, help="only changes of these kinds")
    parser.add_argument("--sample", type=int, help="at most so many mutants of each module, drawn by --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="of processor time for the tests of each mutant; default: all"
    )
    parser.add_argument("--listed", action="store_true", help="try what is listed as equivalent, too")
    parser.add_argument("--tests", nargs="*", help="test files instead of the module's own")
    parser.add_argument(
        "--baseline",
        type=Path,
        help="a file that keeps which test executes which lines, for the next run; delete it when code or tests change",
    )
    parser.add_argument("--words", action="store_true", help="change sentences, too, which only a person reads")
    options = parser.parse_args(arguments)
    names = options.modules
    modules = [m for m in TARGETS if not names or m in names or m.rpartition(".")[2] in names]
    modules += [m for m in TARGETS if m not in modules and any(m.startswith(f"{name}.") for name in names)]
    if not modules:
        parser.error(f"no such module: {', '.join(names)}")
    known, equivalent_counts = equivalents(), Counter[str]()

    def chosen(module: str, numbered: list[tuple[int, Mutant]]) -> list[tuple[int, Mutant]]:
        candidates = [
            (number, mutant)
            for number, mutant in numbered
            if not options.line or any(mutant.line in lines for lines in options.line)
            if options.kinds is None or mutant.kind in options.kinds
            if options.words or not mutant.prose
        ]
        if options.sample is not None and options.sample < len(candidates):
            candidates = sorted(random.Random(options.seed).sample(candidates, options.sample))  # the same each time
        equivalent_counts[module] = sum(mutant.key in known for _, mutant in candidates)
        return [(number, mutant) for number, mutant in candidates if options.listed or mutant.key not in known]

    verdicts: list[Verdict] = []
    for tests, group in itertools.groupby(modules, lambda module: TARGETS[module]):
        verdicts += run([*group], chosen, options.seconds, options.tests or tests, options.baseline).verdicts
    table, alive, wrong = [], [], []
    for module in modules:
        own = [verdict for verdict in verdicts if verdict.mutant.module == module]
        new = [verdict.mutant for verdict in own if verdict.killer is None and verdict.mutant.key not in known]
        killed = [verdict for verdict in own if verdict.killer is not None and verdict.mutant.key not in known]
        endless = sum(verdict.killer == NO_END for verdict in killed)
        unread = sum(mutant.prose for mutant in new)
        alive += [mutant for mutant in new if not mutant.prose]
        wrong += [verdict.mutant for verdict in own if verdict.killer is not None and verdict.mutant.key in known]
        same = equivalent_counts[module]
        numbers = (len(killed) + len(new) + same, len(killed), endless, same, unread, len(new) - unread)
        table.append(f"| `{module}` | {' | '.join(map(str, numbers))} |")
    lines = ["", "| module | mutants | killed | of them without end | equivalent | words nobody asserts | alive |"]
    lines += ["|---|--:|--:|--:|--:|--:|--:|", *table]
    lines += [f"ALIVE {_mutant_name(mutant)}" for mutant in alive]
    lines += [f"LISTED BUT KILLED {_mutant_name(mutant)}" for mutant in wrong]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if alive or wrong else 0


def _mutant_name(mutant: Mutant) -> str:
    return f"{mutant.module}:{mutant.function}: {mutant.change}"


if __name__ == "__main__":
    sys.exit(main())
