"""Walk of a request: the files of the product that it passes through, and the number of moves between them.

    python -m tools.walk                                                  POST /v1/gamma, nothing stored
    python -m tools.walk solve --K 11 --m 3 --epsilon 0.1 --no-cache      a verb of `darrm`

Imports do not count, nor do other processes: the solve of a request runs in one, and is the walk of `darrm solve`
from the solver on.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parent.parent

PACKAGES = tuple(f"{ROOT / name}/" for name in ("darrm", "darrm_opt", "api", "darrm_client", "solver_cache"))


GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
"""Flags of code that can be resumed."""

FIRST_INSTRUCTIONS = 6
"""Largest offset of the last instruction of such code when it is called rather than resumed [bytes]."""


class Walk:
    """Files in order of entry, and calls from one file of the product into another.

    Resuming a generator or coroutine is not a call.
    """

    def __init__(self) -> None:
        self.files: dict[str, None] = {}
        self.moves = 0
        self._importing: Counter[int] = Counter()  # modules being imported, by thread

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Handle an event of `sys.setprofile`."""
        thread = threading.get_ident()
        if frame.f_code.co_name == "<module>":
            self._importing[thread] += {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not self._importing[thread] and _is_ours(frame):
            self.files[frame.f_code.co_filename] = None
            caller = frame.f_back
            while caller is not None and not _is_ours(caller):
                caller = caller.f_back
            if caller is not None and caller.f_code.co_filename != frame.f_code.co_filename:
                self.moves += not _goes_on(frame)


def _is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(PACKAGES)


def _goes_on(frame: FrameType) -> bool:
    return bool(frame.f_code.co_flags & GENERATORS) and frame.f_lasti > FIRST_INSTRUCTIONS


@contextlib.contextmanager
def walking() -> Iterator[Walk]:
    """Record in this thread, and in threads started in the block."""
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
    """Return the walk of a verb of `darrm`, run in this process without output."""
    from darrm.cli import _run

    with walking() as walk, contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        _run(words)
    return walk


def walk_of_gamma(requests: int = 8) -> Walk:
    """Return the shortest walk of a new γ by REST, from the application on.

    Background work of the service adds to a walk, hence the shortest of several.
    """
    from fastapi.testclient import TestClient

    from api.app import create_app
    from api.settings import Settings

    settings = Settings(cache_url="memory", wait_seconds=60, solvers=1, rate=0, prestart=True)
    walks = []
    with walking() as going, TestClient(create_app(settings)) as service:
        for K in range(7, 2 * requests + 8, 2):
            going.files, going.moves = {}, 0
            answer = service.post("/v1/gamma", json={"K": K, "m": 3, "epsilon": 0.1, "Delta": 0, "delta": 1e-5})
            answer.raise_for_status()
            found = Walk()
            found.files, found.moves = going.files, going.moves
            walks.append(found)
    walks = walks[1:]  # the first one imports, and starts the process
    shortest = min(walks, key=lambda walk: len(walk.files))
    shortest.moves = min(walk.moves for walk in walks)
    return shortest


if __name__ == "__main__":
    found = walk_of_verb(sys.argv[1:]) if sys.argv[1:] else walk_of_gamma()
    lines = [f"{len(found.files)} files, {found.moves} moves", *(name.removeprefix(f"{ROOT}/") for name in found.files)]
    sys.stdout.write("\n".join(lines) + "\n")
