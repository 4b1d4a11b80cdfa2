"""Tasks for solver processes with behaviour that no solve has on demand."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn
from unittest import mock

from api.tasks.design import DesignTask, design_gamma
from darrm_opt.design.backends import open_backend
from darrm_opt.errors import InvalidInput
from darrm_opt.questions.compare import Compare
from darrm_opt.questions.tradeoff import TradeoffQuestion

Report = Callable[[Any], None]


def double(argument: int, _report: Report) -> int:
    return 2 * argument


def who(_argument: Any, _report: Report) -> int:
    return os.getpid()


def tell(argument: int, report: Report) -> None:
    for number in range(argument):
        report(number)
        time.sleep(0.06)


def count_up(argument: int, report: Report) -> None:
    for number in range(argument):
        report(number)


_WARM: list[bool] = []


def warm_up(_argument: Any, _report: Report) -> None:
    _WARM.append(True)


def is_warm(_argument: Any, _report: Report) -> bool:
    return bool(_WARM)


def has_module(argument: str, _report: Report) -> bool:
    return argument in sys.modules


def niceness(_argument: Any, _report: Report) -> int:
    return os.nice(0)


def refuse(argument: Any, _report: Report) -> None:
    raise InvalidInput("K", argument, "at least 1", "Ask for more.")


def break_down(_argument: Any, _report: Report) -> None:
    raise ZeroDivisionError("a bug")


def break_down_in_own_words(_argument: Any, _report: Report) -> None:
    """Raise an error of a class that only this process has, as with another version of the program."""
    module = ModuleType("known_only_here")
    module.Odd = type("Odd", (Exception,), {"__module__": module.__name__})  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    raise module.Odd("an odd end")


def not_to_be_sent(_argument: Any, _report: Report) -> Any:
    return lambda: None


def willing(argument: str, report: Report) -> None:
    """Run forever, but check for cancellation in each round, like a solve."""
    Path(argument).write_text(str(os.getpid()), encoding="ascii")
    while True:
        report("still here")
        time.sleep(0.01)


def deaf(argument: str, _report: Report) -> None:
    """Run forever without checks, like an endless linear program."""
    Path(argument).write_text(str(os.getpid()), encoding="ascii")
    while True:
        time.sleep(60)


def kill_itself(argument: tuple[str, int], _report: Report) -> str:
    """Die the first few times, counted in a file."""
    path, deaths = Path(argument[0]), argument[1]
    earlier_deaths = path.stat().st_size if path.exists() else 0
    with path.open("a", encoding="ascii") as file:
        file.write("x")
    if earlier_deaths < deaths:
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


def grow(argument: int, report: Report) -> int:
    """Allocate this many MiB and keep them for a while."""
    memory = bytearray(argument * 2**20)
    memory[::4096] = b"x" * len(range(0, len(memory), 4096))
    for _ in range(200):
        report(len(memory))
        time.sleep(0.05)
    return len(memory)


_HOARD: list[bytes] = []


def hoard(argument: int, _report: Report) -> int:
    """Keep this many MiB until the process ends, like a leak."""
    _HOARD.append(os.urandom(2**20) * argument)
    return os.getpid()


def _progress(**changes: Any) -> dict[str, Any]:
    """Return the report of a round of a solve."""
    usual = {"round": 1, "rows": 2, "violation": 0.0, "seconds": 1.0, "utility": 0.0, "upper_bound": 1.0, "gap": 1.0}
    return usual | changes


def endless_gamma(argument: tuple[DesignTask, float], report: Report) -> dict[str, Any]:
    """Solve forever, round after round; replaces `api.tasks.design.design_gamma`."""
    figures = {"utility": 0.25, "upper_bound": 0.5, "gap": 0.25, "violation": 0.125}
    for number in itertools.count(1):
        report(_progress(round=number, rows=argument[0].spec.problem.K, seconds=float(number), **figures))
        time.sleep(0.02)
    raise AssertionError("not reached")


def deadly_gamma(_argument: tuple[DesignTask, float], _report: Report) -> dict[str, Any]:
    """Die at once, each time; replaces `api.tasks.design.design_gamma`."""
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def slow_gamma(argument: tuple[DesignTask, float], report: Report) -> dict[str, Any]:
    """Solve slightly later than `api.tasks.design.design_gamma`."""
    for _ in range(20):
        report(None)
        time.sleep(0.05)
    return design_gamma(argument, report)


def without_solver(argument: tuple[DesignTask, float], _report: Report) -> dict[str, Any]:
    """Solve with a solver that is not installed; replaces `api.tasks.design.design_gamma`."""
    package = {"gurobi": "gurobipy", "cvxpy": "cvxpy", "highs": "highspy"}[argument[0].backend]
    with mock.patch.dict(sys.modules, {package: None}):  # how Python marks a missing module
        open_backend(argument[0].backend, 1)
    return {}


def highs_alone(argument: tuple[DesignTask, float], report: Report) -> dict[str, Any]:
    """Solve with only HiGHS installed; replaces `api.tasks.design.design_gamma`."""
    if argument[0].backend == "highs":
        return design_gamma(argument, report)
    time.sleep(1.0)
    return without_solver(argument, report)


class _Endless:
    """Question whose answer never ends and reports progress."""

    def answer(self, report: Report = lambda _: None) -> NoReturn:
        """Compute forever."""
        while True:
            report(None)
            sum(range(200_000))


class EndlessCompare(_Endless, Compare):
    """Comparison that never ends."""


class EndlessTradeoff(_Endless, TradeoffQuestion):
    """Trade-off that never ends."""


GATE = "TASKS_GATE"  # environment variable with the path of the file that `BlockedTradeoff` waits for


class BlockedTradeoff(TradeoffQuestion):
    """Trade-off that starts once a file exists."""

    def answer(self, report: Report = lambda _: None) -> Any:
        """Wait, then answer."""
        while not Path(os.environ[GATE]).exists():
            time.sleep(0.01)
        return super().answer(report)


def gamma_of_few_voters(argument: tuple[DesignTask, float], report: Report) -> dict[str, Any]:
    """Solve for up to 100 voters; with more, start but find nothing; replaces `design_gamma`."""
    while argument[0].spec.problem.K > 100:
        report(_progress())
        time.sleep(0.02)
    return design_gamma(argument, report)


def gamma_with_incumbent(argument: tuple[DesignTask, float], report: Report) -> dict[str, Any]:
    """Solve until the gap is small, then run forever with that γ; replaces `design_gamma`."""
    record = design_gamma((replace(argument[0], gap=0.2), argument[1]), report)["record"]
    incumbent = {**record, "status": "interrupted"}
    while True:
        report(_progress(**{name: record[name] for name in ("utility", "upper_bound", "gap")}, incumbent=incumbent))
        time.sleep(0.02)
