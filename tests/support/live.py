"""Servers on loopback for the tests of the client: uvicorn with any ASGI app, one that fails, and raw sockets."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import uvicorn

Answer = tuple[int, Any] | tuple[int, Any, dict[str, str]]
Rule = Callable[[str, str, Any], Answer]
"""A function of method, path and JSON body that returns status, content (plain data or bytes) and headers."""


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """Serve an ASGI app with uvicorn in a thread; yield its URL."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(60)
    assert not thread.is_alive()


class Ruled:
    """An ASGI app that answers by a rule and records the requests."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.requests: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        self.requests.append((scope["method"], scope["path"]))
        self.headers.append({name.decode(): value.decode() for name, value in scope["headers"]})
        status, content, *headers = self.rule(scope["method"], scope["path"], json.loads(body) if body else None)
        await _reply(send, status, content, headers[0] if headers else {})


class Switch:
    """An ASGI app that delegates to another, set by a test: starting a server takes longer than most tests."""

    def __init__(self) -> None:
        self.app: Any = None
        self.url = ""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        else:
            await self.app(scope, receive, send)


class Flaky:
    """An ASGI app that fails according to a script, one entry per request, and then delegates to ``app``.

    "503", "429", "502", "504": that status, with Retry-After: 0; "page": a proxy's page with 502; "break": an answer
    that ends before its length; "late": half a second of delay; "silent": no answer while the client waits.
    """

    def __init__(self, app: Any, script: list[str]) -> None:
        self.app = app
        self.script = script
        self.requests = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        self.requests += 1
        fault = self.script.pop(0) if self.script else "well"
        if fault.isdigit():
            problem = {"type": "about:blank", "title": "Busy", "status": int(fault), "detail": "Come back later."}
            await _reply(send, int(fault), problem, {"retry-after": "0"})
        elif fault == "page":
            await _reply(send, 502, b"<html>Bad Gateway</html>", {"content-type": "text/html"})
        elif fault == "break":
            head = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1000")]}
            await send(head)
            await send({"type": "http.response.body", "body": b'{"gamma": [', "more_body": False})
        elif fault == "silent":
            while (await receive())["type"] != "http.disconnect":
                pass
        else:
            if fault == "late":
                await asyncio.sleep(0.5)
            await self.app(scope, receive, send)


@contextmanager
def raw(answer: Callable[[socket.socket, int], None]) -> Iterator[str]:
    """Serve bytes: ``answer`` gets each connection and its number from 0, once the request starts to arrive."""
    stop = threading.Event()

    def accept(listener: socket.socket) -> None:
        number = 0
        while not stop.is_set():
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            with closing(connection):
                connection.settimeout(60)
                try:
                    connection.recv(65536)
                    answer(connection, number)
                except OSError:
                    pass  # the client disconnected, as in some tests
            number += 1

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.1)
        thread = threading.Thread(target=accept, args=(listener,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            stop.set()
            thread.join(60)


async def _reply(send: Any, status: int, content: Any, headers: dict[str, str]) -> None:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    header_list = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": header_list})
    await send({"type": "http.response.body", "body": body})


async def _lifespan(receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await send({"type": "lifespan.shutdown.complete"})
