"""Listen, then serve: a port that cannot be had is found out before anything else, and said plainly."""

from __future__ import annotations

import copy
import errno
import socket
from typing import TYPE_CHECKING, Any

from darrm_opt.errors import DarrmError, InvalidInput

if TYPE_CHECKING:
    from fastapi import FastAPI


class CannotListen(DarrmError):
    """The address cannot be listened on; the message says what to choose instead."""


def listen(host: str, port: Any) -> socket.socket:
    """Return a socket that listens at the address.

    Args:
        host: name or address, IPv4 or IPv6.
        port: 0 (any free one) to 65535.

    Raises:
        InvalidInput: not a port.
        CannotListen: the port is taken, or the address cannot be had.
    """
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= 65535:
        raise InvalidInput("port", port, "a port from 0 (any free one) to 65535")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as err:
        raise CannotListen(_advice(err, host, port)) from err


def address(listening: socket.socket) -> str:
    """Return the URL of a socket from `listen`."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def prepared() -> FastAPI:
    """Return the app with the environment's settings, having seen that its cache can be opened.

    Raises:
        InvalidInput: a setting is not valid.
        CacheError: the cache cannot be used.
    """
    from api.app import create_app
    from api.settings import read_settings
    from solver_cache import open_store

    settings = read_settings()
    open_store(settings.cache_url).close()
    return create_app(settings)


def serve(app: FastAPI, listening: socket.socket) -> None:
    """Serve until SIGINT (ctrl-C) or SIGTERM. The log goes to stderr, requests too.

    Raises:
        CannotListen: the app did not start; the log says why.
    """
    import uvicorn
    from uvicorn.config import LOGGING_CONFIG

    log: dict[str, Any] = copy.deepcopy(LOGGING_CONFIG)
    log["handlers"]["access"]["stream"] = "ext://sys.stderr"
    server = uvicorn.Server(uvicorn.Config(app, log_config=log))
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:  # uvicorn has shut down in order, and then passes the signal on
        pass
    finally:
        listening.close()
    if not server.started:
        raise CannotListen("The server did not start; its log says why.")


def _advice(err: OSError, host: str, port: int) -> str:
    where = f"{host}:{port}"
    if err.errno == errno.EADDRINUSE:
        return f"Something is listening at {where} already: choose another port with --port, such as --port {port + 1}."
    if err.errno == errno.EACCES:
        return f"Listening at {where} is not permitted: choose a port above 1023 with --port."
    return f"Cannot listen at {where} ({err.strerror or err}): choose another address with --host and --port."
