"""Behaviours of a worker, each a function for a process."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import sys
import time

from uvicorn.config import STARTUP_FAILURE

from api.settings import Settings


def born(settings: Settings) -> int:
    """Record a start; return the number of starts."""
    assert settings.run_folder is not None
    (settings.run_folder / f"{os.getpid()}").touch()
    return len(list(settings.run_folder.iterdir()))


def signal_supervisor(number: signal.Signals) -> None:
    """Send a signal to the supervisor, which is not the fork server."""
    supervisor = multiprocessing.parent_process()
    assert supervisor is not None
    assert supervisor.pid is not None
    os.kill(supervisor.pid, number)


def cannot_start(settings: Settings, _: socket.socket) -> None:
    """End like uvicorn if the application does not start."""
    born(settings)
    sys.exit(STARTUP_FAILURE)


def dies_once(settings: Settings, _: socket.socket) -> None:
    """Die the first time; the second time stop the supervisor."""
    if born(settings) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    signal_supervisor(signal.SIGTERM)
    time.sleep(60)


def stops_the_supervisor(settings: Settings, _: socket.socket) -> None:
    """Stop the supervisor at once."""
    born(settings)
    signal_supervisor(signal.SIGTERM)
    time.sleep(60)


def hangs(settings: Settings, _: socket.socket) -> None:
    """Ignore SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    born(settings)
    signal_supervisor(signal.SIGINT)
    time.sleep(60)
