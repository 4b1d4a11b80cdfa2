"""``darrm serve``."""

from __future__ import annotations

from typing import Annotated

import typer

from api.cli.options import AsJson
from api.cli.outcome import say
from api.cli.text import number

HOST = "127.0.0.1"
"""Where the API is served unless told otherwise: this machine alone."""

PORT = "8000"
"""The port unless told otherwise."""


def serve(
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Address to listen at.")] = HOST,
    port: Annotated[str, typer.Option("--port", metavar="PORT", help="Port; 0 takes any free one.")] = PORT,
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

            typer.echo(dumps({"url": url}))
        else:
            say(f"Serving at {url} (its routes: {url}/openapi.json); ctrl-C stops it.")
        serve_at(app, listening)
