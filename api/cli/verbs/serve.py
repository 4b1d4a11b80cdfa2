"""``darrm serve``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from api.cli.declared import Option
from api.cli.options import AsJson, number
from api.cli.outcome import answer, say

if TYPE_CHECKING:
    from api.settings import Settings

HOST = "127.0.0.1"
"""Where the API is served unless told otherwise: this machine alone."""

PORT = "8000"
"""The port unless told otherwise."""


def serve(
    host: Annotated[str, Option("--host", "Address to listen at.", "ADDRESS")] = HOST,
    port: Annotated[str, Option("--port", "Port; 0 takes any free one.", "PORT")] = PORT,
    workers: Annotated[
        str | None,
        Option("--workers", "Processes that answer requests.", "COUNT", otherwise="DARRM_WORKERS, else 1"),
    ] = None,
    *,
    no_keys: Annotated[bool, Option("--no-keys", "Let whoever reaches the address use it, without a key.")] = False,
    show_settings: Annotated[
        bool, Option("--show-settings", "Print every setting, its value and what it is, and stop.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Serve γ tables over HTTP.

    Settings are environment variables, DARRM_…; --show-settings lists them. At an address that other machines can reach
    it starts only with API keys (`darrm keys`) or with --no-keys. /openapi.json describes the routes. With --json, one
    line on stdout says where it listens.
    """
    given: dict[str, Any] = {"workers": workers} if workers is not None else {}
    if no_keys:
        given |= {"public": True, "keys": None}
    if show_settings:
        from api.settings import read_settings

        answer(_shown(read_settings(**given), as_json=json))
        return
    from api.server.run import listen, prepare, url_of
    from api.server.run import serve as serve_at

    with listen(host, number(port)) as listening:
        settings, url = prepare(listening, **given), url_of(listening)
        if json:
            from json import dumps

            answer(dumps({"url": url}))
        else:
            say(f"Serving at {url} (its routes: {url}/openapi.json); ctrl-C stops it.")
        serve_at(settings, listening)


def _shown(settings: Settings, *, as_json: bool) -> str:
    from api.settings import list_settings

    if as_json:
        from json import dumps

        return dumps(
            {setting.variable: setting._asdict() for setting in list_settings(settings)}, indent=2, ensure_ascii=False
        )
    lines = []
    for setting in list_settings(settings):
        value = ",".join(setting.value) if isinstance(setting.value, list) else setting.value
        told = "(not set)" if value in {None, ""} else str(value)
        lines.append(f"{setting.variable}={told}  [{setting.origin}]\n    {setting.description}")
    return "\n".join(lines)
