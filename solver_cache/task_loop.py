"""Task loop of a process of the pool: one task after another, received through a pipe.

A task is a function at the top of a module, ``task(argument, report)``: plain data in, plain data out, and
``report(plain data)`` whenever there is progress to report. `report` is also where a task is stopped: it raises
`TaskCancelled` once the parent has asked for it. A second thread listens to the pipe all the while, so that the process
ends at once when its parent is gone, whatever it is doing.

Messages to the process are (number, task, argument), or (number,) to stop that task; from it (number, kind, content)
with kind = "progress", "done", "failed" or "stopped".
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

NICENESS = 5
"""Default niceness of the pool's processes: the process that answers requests, or stores answers, goes first."""

REPORT_SECONDS = 0.05
"""Default shortest time between two reports that are sent [s]; small problems have hundreds of rounds a second."""


class TaskCancelled(BaseException):
    """Cancellation of a task, raised by `report`. Not an `Exception`: a task must not catch it by accident."""


class _Cancellation:
    """Number of the task that the parent has cancelled; written by the listening thread."""

    unwanted = 0


def run_tasks(connection: Connection, report_seconds: float, niceness: int) -> None:
    """Run the tasks that come through the pipe, until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C goes to the whole group; the parent decides
    with contextlib.suppress(OSError):
        os.nice(niceness)
    inbox: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
    cancellation = _Cancellation()
    # Once, and before the other thread reads the first task: two threads that import one module may wait for each
    # other.
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
        except Exception as err:  # noqa: BLE001 — whatever could not be pickled; nothing was sent
            connection.send((number, "failed", (None, f"its answer cannot be sent: {err!r}")))
        del argument, content


def no_op(_argument: Any, _report: Report) -> None:
    """Do nothing: the task that shows that a process works."""


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
    except BaseException:  # noqa: BLE001 — a task that cannot even be imported: the parent is told by our death
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
        # Every report looks whether the task is cancelled, and few are sent: a full pipe would hold up the solve.
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
    """Return an exception in a form that can be sent: its parts and its traceback as text.

    Errors whose constructor takes more than their text do not survive `pickle`; their parts do. None in their place if
    it cannot be rebuilt from them.
    """
    trace = "".join(traceback.format_exception(err))
    try:
        parts = pickle.dumps((type(err), err.args, err.__dict__))
        _rebuild_error(parts)
    except Exception:  # noqa: BLE001 — then the text must do
        return None, trace
    return parts, trace


def unpack_error(packed: tuple[bytes | None, str]) -> Exception | None:
    """Return the exception that `pack_error` took apart; None if only its text was sent or can be read.

    A class of the process may not exist here: where the program was replaced under a server that goes on, for instance.

    >>> from darrm_opt.errors import InvalidInput
    >>> unpack_error(pack_error(InvalidInput("K", 0, "at least 1"))).argument
    'K'
    """
    if packed[0] is None:
        return None
    try:
        return _rebuild_error(packed[0])
    except Exception:  # noqa: BLE001 — whoever waits must be told something, whatever the reason
        return None


def _rebuild_error(parts: bytes) -> Exception:
    error_type, args, attributes = pickle.loads(parts)  # noqa: S301 — from our own process, through our own pipe
    err: Exception = error_type.__new__(error_type, *args)
    err.args = args
    err.__dict__.update(attributes)
    return err
