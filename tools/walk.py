"""Walk of a request: the files of the product that it goes through, and how often it moves from one to another.

    python -m tools.walk                                                  POST /v1/gamma, nothing stored
    python -m tools.walk solve --K 11 --m 3 --epsilon 0.1 --no-cache      a verb of `darrm`

What happens while modules are imported does not count, nor does what another process does: the solve of a request is
done by one, and is the walk of `darrm solve` from the solver on.
"""

from __future__ import annotations

import contextlib
import io
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parent.parent

PACKAGES = tuple(f"{ROOT / name}/" for name in ("darrm", "darrm_opt", "api", "darrm_client", "solver_cache"))


class Walk:
    """Files in the order in which they were first entered, and the moves between them, thread by thread."""

    def __init__(self) -> None:
        self.files: dict[str, None] = {}
        self.moves = 0
        self._last: dict[int, str] = {}
        self._importing: Counter[int] = Counter()  # modules that are being imported, by thread

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Count what `sys.setprofile` reports."""
        code, thread = frame.f_code, threading.get_ident()
        if code.co_name == "<module>":
            self._importing[thread] += {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not self._importing[thread] and code.co_filename.startswith(PACKAGES):
            self.moves += self._last.get(thread, code.co_filename) != code.co_filename
            self._last[thread] = code.co_filename
            self.files[code.co_filename] = None


@contextlib.contextmanager
def walking() -> Iterator[Walk]:
    """Count in this thread, and in those that begin within the block."""
    walk = Walk()
    set_profile: Callable[..., None] = getattr(threading, "setprofile_all_threads", threading.setprofile)  # from 3.12
    set_profile(walk)
    sys.setprofile(walk)
    try:
        yield walk
    finally:
        sys.setprofile(None)
        set_profile(None)


def walk_of_verb(words: list[str]) -> Walk:
    """Return the walk of a verb of `darrm`, run in this process; what it prints is dropped."""
    from darrm.cli import _run

    with walking() as walk, contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        _run(words)
    return walk


def walk_of_gamma() -> Walk:
    """Return the walk of a γ by REST that nobody stored, from the application on: its server is another process."""
    from fastapi.testclient import TestClient

    from api.app import create_app
    from api.settings import Settings

    settings = Settings(cache_url="memory", wait_seconds=60, solvers=1, rate=0, prestart=True)
    with walking() as started, TestClient(create_app(settings)) as service:
        service.post("/v1/gamma", json={"K": 5, "m": 2, "epsilon": 0.1})  # imports, and the pool's first process
        started.files.clear()
        started.moves = 0
        service.post("/v1/gamma", json={"K": 11, "m": 3, "epsilon": 0.1}).raise_for_status()
        files, moves = dict(started.files), started.moves
    walk = Walk()
    walk.files, walk.moves = files, moves
    return walk


if __name__ == "__main__":
    found = walk_of_verb(sys.argv[1:]) if sys.argv[1:] else walk_of_gamma()
    lines = [f"{len(found.files)} files, {found.moves} moves", *(name.removeprefix(f"{ROOT}/") for name in found.files)]
    sys.stdout.write("\n".join(lines) + "\n")
