"""Start of the server: listen, check the settings, then serve; configuration errors are reported before serving."""

from __future__ import annotations

import errno
import ipaddress
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from darrm_opt.errors import DarrmError, InvalidInput

if TYPE_CHECKING:
    from api.settings import Settings


BACKLOG = 2048  # pending connections; beyond them the kernel drops a client's first packet, and seconds pass


class ListenError(DarrmError):
    """The server cannot listen at the address; the message gives advice."""


def listen(host: str, port: Any) -> socket.socket:
    """Return a socket that listens at the address; port 0 is any free one."""
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= 65535:
        raise InvalidInput("port", port, "a port from 0 (any free one) to 65535")
    if not host:
        raise InvalidInput("host", host, "a name or an address, such as 127.0.0.1", "0.0.0.0 listens at every address.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as err:
        raise ListenError(_listen_advice(err, host, port)) from err


def url_of(listening: socket.socket) -> str:
    """Return the URL of a socket from `listen`."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def prepare(listening: socket.socket, **overrides: Any) -> Settings:
    """Return the environment's settings and ``overrides``, checked for serving at that socket."""
    from api.access.keys import list_keys
    from api.observability.access_log import check_access_log
    from api.settings import misspelt_settings, read_settings
    from solver_cache import open_store

    settings = read_settings(**overrides)
    for warning in misspelt_settings(os.environ):
        print(warning, file=sys.stderr)  # noqa: T201 — before the log is configured
    _ = settings.solver_memory  # raises if there is not enough
    host = listening.getsockname()[0]
    is_local = ipaddress.ip_address(host.partition("%")[0]).is_loopback
    if settings.keys is not None:
        list_keys(settings.keys)
    # Without keys everyone who reaches the server can use it.
    elif not (settings.public or is_local):
        raise InvalidInput(
            "host",
            host,
            "a loopback address such as 127.0.0.1, because no API keys are set",
            "Create one with `darrm keys add NAME --file FILE` and set DARRM_KEYS to that file; "
            "or use --no-keys (DARRM_PUBLIC=true) to accept requests from anyone.",
        )
    if settings.workers > 1 and settings.cache_url in {"memory", "off"}:
        raise InvalidInput(
            "DARRM_WORKERS",
            settings.workers,
            f"1 with DARRM_CACHE_URL={settings.cache_url}",
            "Workers share answers and jobs through a database.",
        )
    if not (is_local or settings.trusted_proxies):
        print(_NO_PROXY.format(host), file=sys.stderr)  # noqa: T201 — as above
    check_access_log(settings.access_log)
    # Opened once, so that errors of URL or schema are reported here, not by each worker.
    store = open_store(settings.cache_url)
    try:
        if settings.webhook_secret is not None:
            from api.service.webhooks import stored_webhooks

            stored_webhooks(store.jobs, settings)
    finally:
        store.close()
    return settings


def serve(settings: Settings, listening: socket.socket, announce: Callable[[], None]) -> None:
    """Serve until SIGINT (ctrl-C) or SIGTERM; log to stderr.

    Open requests then have `Settings.stop_seconds` to end. ``announce`` reports the URL; it is called once signals
    are handled.
    """
    from api.observability import logs

    with _signals(), _shared_folder(settings) as config, listening:
        logs.configure(config)
        announce()
        from api.server.worker import run_worker, supervise

        try:
            if settings.workers == 1:
                run_worker(config, listening)
            elif not supervise(config, listening):
                raise ListenError(_NOT_STARTED)
        except SystemExit as end:  # uvicorn's report that the application did not start
            raise ListenError(_NOT_STARTED) from end
        finally:
            logs.drain()


_NO_PROXY = (
    "Other machines can connect to {} without a reverse proxy: unencrypted, and with only the limits of this process. "
    "See deploy/nginx.conf, and list the proxy's address in DARRM_TRUSTED_PROXIES."
)

_NOT_STARTED = "The server did not start; see its log."


@contextmanager
def _signals() -> Iterator[None]:
    """Make SIGTERM end the program like ctrl-C: gracefully, at any time, with success."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    except KeyboardInterrupt:  # raised by uvicorn after a graceful shutdown
        pass
    finally:
        signal.signal(signal.SIGTERM, previous)


def _interrupt(_: int, __: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


@contextmanager
def _shared_folder(settings: Settings) -> Iterator[Settings]:
    """Create the folder that several workers share, and set it in the environment."""
    if settings.workers == 1:
        yield settings
        return
    from api.access.client_shares import create_shared_table
    from api.observability.metrics import MULTIPROCESS_DIR

    if settings.run_folder is not None:
        settings.run_folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="darrm-", dir=settings.run_folder) as name:
        folder = Path(name)
        create_shared_table(folder)
        os.environ[MULTIPROCESS_DIR] = name  # read by prometheus_client when workers import it
        yield settings.model_copy(update={"run_folder": folder})


def _listen_advice(err: OSError, host: str, port: int) -> str:
    address = f"{host}:{port}"
    if err.errno == errno.EADDRINUSE:
        return f"{address} is already in use: choose another port with --port, such as --port {port + 1}."
    if err.errno == errno.EACCES:
        return f"Listening at {address} is not permitted: choose a port above 1023 with --port."
    return f"Cannot listen at {address} ({err.strerror or err}): choose another address with --host and --port."
