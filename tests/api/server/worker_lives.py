"""Fates of a worker, each as a function that a process can run. The socket is theirs, the folder ours."""

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
    """Note a birth; return how many there have been."""
    assert settings.run_folder is not None
    (settings.run_folder / f"{os.getpid()}").touch()
    return len(list(settings.run_folder.iterdir()))


def signal_supervisor(number: signal.Signals) -> None:
    """Send a signal to the supervisor, which is not the process that this one was forked from."""
    supervisor = multiprocessing.parent_process()
    assert supervisor is not None
    assert supervisor.pid is not None
    os.kill(supervisor.pid, number)


def cannot_start(settings: Settings, _: socket.socket) -> None:
    """End as uvicorn does where the application does not start."""
    born(settings)
    sys.exit(STARTUP_FAILURE)


def dies_once(settings: Settings, _: socket.socket) -> None:
    """Die the first time; the second time ask for the end of all."""
    if born(settings) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    signal_supervisor(signal.SIGTERM)
    time.sleep(60)


def asks_for_the_end(settings: Settings, _: socket.socket) -> None:
    """Ask for the end of all at once."""
    born(settings)
    signal_supervisor(signal.SIGTERM)
    time.sleep(60)


def hangs(settings: Settings, _: socket.socket) -> None:
    """Hear no signal."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    born(settings)
    signal_supervisor(signal.SIGINT)
    time.sleep(60)
