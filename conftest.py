"""What every test, and every example in a docstring, runs under.

The same generated inputs each time, an empty cache, and no colour or settings from outside.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from decimal import localcontext
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings

# Set before NumPy is loaded, and inherited by what tests start: threads of BLAS that wait for each other in several
# processes on few processors take three times the processor time.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Where bytecode is not kept, each of the hundreds of processes that tests start compiles the program anew: half of its
# start. Inherited as well.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Derandomised, so that a red build is red again; no deadline, because a busy machine is not a failure;
# no example database, because a run must not depend on the runs before it.
settings.register_profile("reproducible", derandomize=True, deadline=None, database=None, print_blob=True)
settings.load_profile("reproducible")

# A shell without job control starts what it runs in the background with ctrl-C ignored, and that is inherited; tests
# send it to what they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest.register_assert_rewrite("support")  # so that what fails in a helper shows its values
pytest_plugins = ["support.stores"]

ANY_PYTHON = (
    "tests/project/",  # the documentation, the build, the tools
    "tests/formal/",  # Coq's checker
    "tests/api/page/",  # a browser
    "tests/api/server/test_proxy.py",  # nginx
    "tests/api/routes/test_generated_client.py",  # generators and compilers
)
"""Files that show nothing that depends on the version of Python: other programs, texts, and the code of other tests."""

NUMBERS = itertools.count()
"""Of the caches."""

# What processes of their own start with would add its names to this one.
collect_ignore = ["tests/support/additions"]


OWN = ("darrm-opt", "darrm-papers")  # distributions of this repository


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to run where another package brings a mechanism or a verb: many tests list them all."""
    if hasattr(config, "workerinput"):
        return
    points = [*entry_points(group="darrm_opt.mechanisms"), *entry_points(group="darrm.verbs")]
    names = {point.dist.name for point in points if point.dist is not None} - {*OWN}
    if names:
        raise pytest.UsageError(f"uninstall {' and '.join(sorted(names))} to run the tests: its entry points add names")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for examples where there are some: to look, a module is imported, in every process."""
    collectors = yield
    if ">>>" in file_path.read_text(encoding="utf-8", errors="ignore"):
        return collectors
    return [collector for collector in collectors if not isinstance(collector, DoctestModule)]


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what CI leaves out on all Pythons but one."""
    if item.nodeid.startswith(ANY_PYTHON):
        item.add_marker("any_python")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Run two processes more than there are processors: tests of servers wait more than they compute."""
    return (os.cpu_count() or 1) + 2


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spread the files of the service, whose tests wait, among the others, whose tests compute.

    Of both those with the most slow tests come first: what is left at the end is short, and no process works alone.
    """
    slow = Counter({item.nodeid.partition("::")[0]: 0 for item in items})
    slow.update(item.nodeid.partition("::")[0] for item in items if item.get_closest_marker("slow"))
    files = sorted(slow, key=lambda file: (-slow[file], file.rpartition("/")[2], file))
    places: dict[str, float] = {}
    for waits in (True, False):
        group = [file for file in files if file.startswith("tests/api/") == waits]
        places |= {file: number / len(group) for number, file in enumerate(group)}
    items.sort(key=lambda item: places[item.nodeid.partition("::")[0]])


@pytest.fixture(autouse=True)
def own_surroundings(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test an empty cache and plain output, whatever the machine's settings are."""
    for name in [*os.environ]:
        if name.startswith("DARRM_") or name in {"FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS"}:
            monkeypatch.delenv(name)
    # No folder of the test's own: making one for each takes longer than many a test.
    monkeypatch.setenv("DARRM_CACHE_URL", f"sqlite:///{tmp_path_factory.getbasetemp() / f'{next(NUMBERS)}.sqlite3'}")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("MPLBACKEND", "Agg")


@pytest.fixture
def move(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return what sets names of a module, such as CHUNK=3, for the rest of a test."""

    def set_all(module: ModuleType, **values: Any) -> None:
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)

    return set_all


@pytest.fixture
def sixty_digits() -> Iterator[None]:
    """Compute with decimals in 60 digits."""
    with localcontext() as context:
        context.prec = 60
        yield
