"""``darrm serve``."""

from __future__ import annotations

from typing import Annotated

from api.cli.declared import Option
from api.cli.options import AsJson, number
from api.cli.outcome import answer, say

HOST = "127.0.0.1"
"""Where the API is served unless told otherwise: this machine alone."""

PORT = "8000"
"""The port unless told otherwise."""


def serve(
    host: Annotated[str, Option("--host", "Address to listen at.", "ADDRESS")] = HOST,
    port: Annotated[str, Option("--port", "Port; 0 takes any free one.", "PORT")] = PORT,
    *,
    json: AsJson = False,
) -> None:
    """Serve γ tables over HTTP.

    /openapi.json describes the routes. With --json, one line on stdout says where it listens.
    """
    from api.serving import address, listen, prepared
    from api.serving import serve as serve_at

    with listen(host, number(port)) as listening:
        app, url = prepared(), address(listening)
        if json:
            from json import dumps

            answer(dumps({"url": url}))
        else:
            say(f"Serving at {url} (its routes: {url}/openapi.json); ctrl-C stops it.")
        serve_at(app, listening)
