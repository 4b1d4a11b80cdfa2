"""A fork server: `darrm`, its workers and the processes of its pools begin as copies of a process that imported them.

Python's start and its imports are most of what they cost a test: 1.3 s of a processor for a server with one process of
a pool, 0.3 s as copies. A copy is a child of whoever asks (``CLONE_PARENT``), with standard streams, environment, folder
and arguments of its own, so `Popen` treats it as any other process. In a shell, `darrm` is a stand-in: a small program
that hands its streams over, passes signals on, and ends as its copy does. Everything starts as it does in production in
tests that take the fixture `real_starts`, and in those that start it by `subprocess` themselves.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import ctypes
import fcntl
import gc
import importlib
import marshal
import multiprocessing.util
import os
import pickle
import platform
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from solver_cache import process_pool
from solver_cache.process_pool import _BOOTSTRAP
from support.darrm_runner import PROGRAM
from support.paths import ROOT, TESTS

POOL_PROCESS, WORKER = "pool process", "worker"
"""Names of a pool's process and of a server's worker that are copies."""

CLONE_PARENT = 0x8000
CLONE_NUMBERS = {"x86_64": 56, "aarch64": 220}
"""Number of the system call by machine."""

IS_SUPPORTED = sys.platform == "linux" and platform.machine() in CLONE_NUMBERS

MAX_MESSAGE = 1 << 20
"""Largest request [bytes]: arguments and environment."""

LOADED = (
    *("api.app", "api.server.run", "api.tasks.answers", "api.tasks.design", "darrm.cli.verbs.serve", "highspy"),
    *("api.server.worker", "darrm_opt.design.backends.highs", "darrm_opt.design.solver", "httptools", "logging.config"),
    *("scipy.special", "solver_cache.database.store", "solver_cache.task_loop", "uvicorn.main", "uvloop"),
    *("uvicorn.lifespan.on", "uvicorn.loops.uvloop", "uvicorn.protocols.http.httptools_impl"),
)
"""Modules that the programs use."""

_SERVER = """\
from support.forkserver import ending, wait_for_request
with ending():
    exec(compile(wait_for_request(), '<string>', 'exec'))
"""

_STAND_IN = """\
#!{python} -SIE
import _socket, marshal, os, signal, sys
channel = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
channel.connect({path!r})
streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
message = marshal.dumps(([], {program!r}, sys.argv[1:], os.getcwd(), dict(os.environ), []))
channel.sendmsg([message], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: channel.send(bytes([number])))
status = channel.recv(4)
if not status:
    sys.exit("the fork server has ended")
code = os.waitstatus_to_exitcode(int.from_bytes(status, sys.byteorder))
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""


def load() -> None:
    """Import what the programs use, and build the routes; no thread is left, such as HiGHS has: a copy would miss it."""
    for name in LOADED:
        importlib.import_module(name)
    app = importlib.import_module("api.app")
    app._build(app.create_app(app.Settings(cache_url="memory")))
    gc.freeze()
    assert threading.active_count() == len([*Path("/proc/self/task").iterdir()]) == 1


def wait_for_request() -> str:
    """Serve requests until the end of standard input; return a program in each copy, which has become its process."""
    load()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that speak with stand-ins
    return _serve(socket.socket(fileno=0), socket.socket(fileno=int(sys.argv[1])))


def _serve(channel: socket.socket, listener: socket.socket | None = None) -> str:
    while True:
        if listener is not None and not _has_come(channel, listener):
            connection, _ = listener.accept()
            if os.fork() == 0:
                _let_go(channel, listener)
                return _copy_for(connection)
            connection.close()
            continue
        message, numbers, _, _ = socket.recv_fds(channel, MAX_MESSAGE, 64)
        if not message:
            return ""
        # Keeps the interpreter's lock: there is no other thread. The copy is a child of this process's parent.
        pid = ctypes.PyDLL(None).syscall(CLONE_NUMBERS[platform.machine()], CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
        assert pid >= 0
        if pid == 0:
            _let_go(channel, listener)
            return _become(numbers, *pickle.loads(message))  # noqa: S301 — of the test that started this process
        for number in numbers:
            os.close(number)
        channel.sendall(array.array("i", [pid]).tobytes())


def _has_come(one: socket.socket | int, other: socket.socket) -> bool:
    """Wait for either; tell whether it is the one."""
    waiting: list[Any] = [one, other]
    return one in select.select(waiting, [], [])[0]


def _let_go(*channels: socket.socket | None) -> None:
    """Forget channels in a copy, or their numbers, which are other files' from now on, would be closed with them."""
    for channel in channels:
        if channel is not None:
            channel.detach()


def _copy_for(connection: socket.socket) -> str:
    """Start the copy that a stand-in asks for, pass signals on, say how it ended; return its program in the copy."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    message, numbers, _, _ = socket.recv_fds(connection, MAX_MESSAGE, 3)
    pid = os.fork()
    if pid == 0:
        _let_go(connection)
        return _become(numbers, *marshal.loads(message))  # noqa: S302 — of a test
    for number in numbers:
        os.close(number)
    end = os.pidfd_open(pid)
    while not _has_come(end, connection):
        number = int.from_bytes(connection.recv(1), sys.byteorder)
        os.kill(pid, number or signal.SIGKILL)  # nothing comes from one that was killed
        if not number:
            break
    with contextlib.suppress(BrokenPipeError):
        connection.send(os.waitpid(pid, 0)[1].to_bytes(4, sys.byteorder))
    os._exit(0)


def _become(
    numbers: list[int],
    options: list[str],
    program: str,
    arguments: list[str],
    folder: str,
    environment: dict[str, str],
    kept: list[int],
) -> str:
    """Take over the streams, folder, environment and arguments of a request; return its program."""
    places = [0, 1, 2, *kept]
    above = max(places) + 64  # out of the way of every place
    held = [fcntl.fcntl(number, fcntl.F_DUPFD, above) for number in numbers]
    os.closerange(3, above)
    for number, place in zip(held, places, strict=True):
        os.dup2(number, place)
        os.close(number)
    encoding = environment.get("PYTHONIOENCODING") or "utf-8"
    sys.stdin = open(0, encoding=encoding, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding=encoding, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding, "backslashreplace", closefd=False)  # noqa: SIM115
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["-c", *arguments]
    ours = [entry for entry in environment.get("PYTHONPATH", "").split(os.pathsep) if entry]
    sys.path[:] = [*([] if "-P" in options else [""]), *ours, *sys.path]
    random.seed()
    if _WORKERS in program:
        _count_in_files()
    name = POOL_PROCESS if program == _BOOTSTRAP else WORKER if _WORKERS in program else "darrm"
    Path("/proc/self/comm").write_text(name, encoding="ascii")
    return _with_fork_server(program) if {"serve", "precompute"} & {*arguments} else program


@contextlib.contextmanager
def ending() -> Iterator[None]:
    """End the process after a program, as Python does, but leave to the system what it would take apart piece by piece.

    That takes longer than most of the programs: there is all that the fork server has imported.
    """
    code: object = None
    try:
        yield
    except SystemExit as end:
        code = end.code
    if code is None or isinstance(code, int):  # and no other exception: those end as ever
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit((code or 0) & 0xFF)
    raise SystemExit(code)


def _count_in_files() -> None:
    """Let the metrics count in the files that workers share, as where they are imported by a worker."""
    from prometheus_client import values

    from api.observability.metrics import REGISTRY

    values.ValueClass = values.get_value_class()  # type: ignore[no-untyped-call]
    metrics: list[Any] = [*REGISTRY._collector_to_names]
    for metric in metrics:
        if not metric._is_parent():
            metric._metric_init()
        assert not getattr(metric, "_metrics", {})


def _with_fork_server(program: str) -> str:
    """Leave a copy of this process, while it has one thread, to be copied for the pools of a server."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with Path(os.devnull).open("r+b", 0) as nothing:  # its server's streams end with its server
            os.dup2(nothing.fileno(), 0)
            os.dup2(nothing.fileno(), 1)
        return _serve(theirs)
    theirs.close()
    _SERVERS.append(ForkServer(ours))
    vars(process_pool)["subprocess"] = NAMESPACE
    vars(multiprocessing.util)["spawnv_passfds"] = _spawned
    return program


def _spawned(path: bytes, words: list[str], numbers: list[int]) -> int:
    """Start a process of `multiprocessing`; the one that workers are forked from begins as a copy."""
    if _WORKERS not in words[-1]:
        return _SPAWN(path, words, numbers)
    at = words.index("-c")
    request = (words[1:at], words[at + 1], words[at + 2 :], str(Path.cwd()), dict(os.environ), sorted(numbers))
    return _SERVERS[0].copy([0, 1, 2, *sorted(numbers)], request)


class ForkServer:
    """One process to copy, which ends with this one: that at the other end of a channel. For use from any thread."""

    def __init__(self, channel: socket.socket, folder: tempfile.TemporaryDirectory[str] | None = None) -> None:
        self._lock, self._channel, self._folder = threading.Lock(), channel, folder

    @classmethod
    def start(cls) -> ForkServer:
        """Start one."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        surroundings = {"PYTHONPATH": os.pathsep.join([str(TESTS), str(ROOT)]), "OPENBLAS_NUM_THREADS": "1"}
        folder = tempfile.TemporaryDirectory(prefix="darrm-")  # its owner's alone
        with theirs, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(f"{folder.name}/socket")
            listener.listen()
            command = [sys.executable, "-P", "-c", _SERVER, str(listener.fileno())]
            environment = {**os.environ, **surroundings}
            kept = (listener.fileno(),)
            started = subprocess.Popen(command, stdin=theirs.fileno(), env=environment, pass_fds=kept)
        started.returncode = 0  # nobody waits for it
        return cls(ours, folder)

    def close(self) -> None:
        """End it."""
        self._channel.close()
        if self._folder is not None:
            self._folder.cleanup()

    @property
    def stand_in(self) -> str:
        """A program that stands in for `darrm` where a shell starts it."""
        assert self._folder is not None
        return _STAND_IN.format(python=sys.executable, path=f"{self._folder.name}/socket", program=PROGRAM[-1])

    def copy(self, numbers: list[int], request: tuple[Any, ...]) -> int:
        """Start a copy with these files as its streams; return its id."""
        with self._lock:
            socket.send_fds(self._channel, [pickle.dumps(request)], numbers)
            if not (reply := self._channel.recv(4)):
                raise BrokenPipeError
            return int(array.array("i", reply)[0])


def _is_customized(environment: dict[str, str]) -> bool:
    """Tell whether Python would do something at its start that a copy does not: import a module, drop its buffers."""
    entries = environment.get("PYTHONPATH", "").split(os.pathsep)
    return bool(environment.get("PYTHONUNBUFFERED")) or any(
        Path(entry, "sitecustomize.py").exists() for entry in entries if entry
    )


_SERVERS: list[ForkServer] = []

_WORKERS = "multiprocessing.forkserver"
"""Module that stands in the program of the process that workers are forked from."""

_SPAWN = multiprocessing.util.spawnv_passfds


def server() -> ForkServer:
    """Return the one of this process."""
    if not _SERVERS:
        _SERVERS.append(ForkServer.start())
    return _SERVERS[0]


class Popen(subprocess.Popen[Any]):
    """``subprocess.Popen``, but for `darrm` and for a pool's process, which begin as copies; or for every program."""

    copies_all = False

    def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, *rest: Any) -> None:
        pass_fds, cwd, env, _, _, _, *pipes = rest[:12]
        words, surroundings = [*args], dict(os.environ if env is None else env)
        at = words.index("-c") if "-c" in words else 0
        is_ours = self.copies_all or "serve" in words or not {_BOOTSTRAP, PROGRAM[-1]}.isdisjoint(words)
        with contextlib.suppress(OSError):  # of a fork server that a test has killed with its server's other children
            if IS_SUPPORTED and at and is_ours and not _is_customized(surroundings):
                streams = [own if given == -1 else given for own, given in enumerate((pipes[0], pipes[3], pipes[5]))]
                request = (words[1:at], words[at + 1], words[at + 2 :], os.fspath(cwd or Path.cwd()), surroundings)
                self.pid = server().copy([*streams, *pass_fds], (*request, list(pass_fds)))
                self._child_created = True
                self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]
                return
        super()._execute_child(args, executable, preexec_fn, close_fds, *rest)  # type: ignore[misc]


class ProgramPopen(Popen):
    """``subprocess.Popen`` of ``[sys.executable, "-c", program, …]``, which begins as a copy."""

    copies_all = True


def run(program: str, *words: str, timeout: float = 600, **how: Any) -> subprocess.CompletedProcess[str]:
    """Run a program in Python, which begins as a copy, to its end."""
    how |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "encoding": "utf-8"}
    with ProgramPopen([sys.executable, "-c", program, *words], **how) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        finally:
            process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


RUN_FILE = "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"
"""A program that runs the one in a file, which its first argument names."""


NAMESPACE = SimpleNamespace(**{**vars(subprocess), "Popen": Popen})
"""The module `subprocess` with that class."""

STARTERS = ("solver_cache.process_pool", "support.darrm_runner", "support.service")
"""Modules that start servers and processes of pools."""


@pytest.fixture
def real_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start everything as it is started in production."""
    for name in STARTERS:
        monkeypatch.setattr(f"{name}.subprocess", subprocess)


@pytest.fixture(autouse=True, scope="session")
def copied_starts() -> Iterator[None]:
    """Begin servers and processes of pools as copies."""
    with pytest.MonkeyPatch.context() as patch:
        for name in STARTERS:
            patch.setattr(f"{name}.subprocess", NAMESPACE)
        yield
    for server in _SERVERS:
        server.close()
