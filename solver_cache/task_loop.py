"""Task loop of a pool process: runs one task after another, received through a pipe.

A task is a module-level function ``task(argument, report)``: plain data in, plain data out, and ``report(plain
data)`` for progress. `report` is also where a task is cancelled: it raises `TaskCancelled` once the parent has asked
for it. A second thread listens to the pipe, so that the process ends at once with its parent.

Messages to the process are (number, task, argument), or (number,) to cancel that task; messages from it are (number,
kind, content) with kind = "progress", "done", "failed" or "stopped".
"""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

Report = Callable[[Any], None]

PoolFunction = Callable[[Any, Report], Any]

NICENESS = 5  # default niceness of pool processes: the process that serves requests or stores answers has priority

REPORT_SECONDS = 0.05
"""Default shortest time between two progress messages; small problems have hundreds of rounds a second."""


class TaskCancelled(BaseException):
    """Cancellation of a task, raised by `report`. Not an `Exception`, so that no task catches it by accident."""


class _Cancellation:
    """Number of the cancelled task; written by the listening thread."""

    unwanted = 0


def run_tasks(connection: Connection, report_seconds: float, niceness: int) -> None:
    """Run the tasks that arrive through the pipe until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C reaches the whole process group; the parent decides
    with contextlib.suppress(OSError):
        os.nice(niceness)
    inbox: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
    cancellation = _Cancellation()
    # Imported before the other thread starts: two threads that import one module may deadlock.
    import darrm_opt.design.solver
    import darrm_opt.record  # noqa: F401

    threading.Thread(target=_listen, args=(connection, inbox, cancellation), daemon=True).start()
    while True:
        number, task, argument = inbox.get()
        kind, content = _run(connection, cancellation, report_seconds, number, task, argument)
        try:
            connection.send((number, kind, content))
        except BrokenPipeError:
            return
        except Exception as err:  # noqa: BLE001 — it cannot be pickled; nothing was sent
            connection.send((number, "failed", (None, f"its answer cannot be sent: {err!r}")))
        del argument, content


def no_op(_argument: Any, _report: Report) -> None:
    """Do nothing; proves that a process works."""


def _listen(connection: Connection, inbox: SimpleQueue[tuple[Any, ...]], cancellation: _Cancellation) -> None:
    try:
        while True:
            message = connection.recv()
            if len(message) == 1:
                [cancellation.unwanted] = message
            else:
                inbox.put(message)
    except (EOFError, OSError):
        os._exit(0)  # the parent is gone
    except BaseException:  # noqa: BLE001 — a task that cannot be imported: the parent sees the exit code
        traceback.print_exc(file=sys.stderr)
        os._exit(1)


def _run(
    connection: Connection,
    cancellation: _Cancellation,
    report_seconds: float,
    number: int,
    task: PoolFunction,
    argument: Any,
) -> tuple[str, Any]:
    last_report = -math.inf

    def report(content: Any) -> None:
        nonlocal last_report
        if cancellation.unwanted == number:
            raise TaskCancelled
        # Every report checks for cancellation; few are sent, because a full pipe would block the solve.
        if time.monotonic() - last_report >= report_seconds:
            last_report = time.monotonic()
            connection.send((number, "progress", content))

    try:
        return "done", task(argument, report)
    except TaskCancelled:
        return "stopped", None
    except Exception as err:  # noqa: BLE001 — the parent raises it again
        return "failed", pack_error(err)


def pack_error(err: Exception) -> tuple[bytes | None, str]:
    """Return an exception as parts that can be sent, and its traceback.

    Errors whose constructor takes more than a text do not survive `pickle`; their parts do. None if they cannot be
    rebuilt.
    """
    trace = "".join(traceback.format_exception(err))
    try:
        parts = pickle.dumps((type(err), err.args, err.__dict__))
        _rebuild_error(parts)
    except Exception:  # noqa: BLE001 — only the text is sent
        return None, trace
    return parts, trace


def unpack_error(packed: tuple[bytes | None, str]) -> Exception | None:
    """Return the exception packed by `pack_error`; None if it cannot be rebuilt.

    Its class may be missing here, such as when the program was upgraded under a running server.

    >>> from darrm_opt.errors import InvalidInput
    >>> unpack_error(pack_error(InvalidInput("K", 0, "at least 1"))).argument
    'K'
    """
    if packed[0] is None:
        return None
    try:
        return _rebuild_error(packed[0])
    except Exception:  # noqa: BLE001 — the caller falls back to the text
        return None


def _rebuild_error(parts: bytes) -> Exception:
    error_type, args, attributes = pickle.loads(parts)  # noqa: S301 — from our own process, through our own pipe
    err: Exception = error_type.__new__(error_type, *args)
    err.args = args
    err.__dict__.update(attributes)
    return err
