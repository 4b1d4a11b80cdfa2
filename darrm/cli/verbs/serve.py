"""Verbs about the service: ``darrm serve`` and ``darrm keys``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from darrm.cli.output import answer, as_json, say
from darrm.cli.parameters import AsJson, number, options_named
from darrm.cli.parser import Argument, CommandOption

if TYPE_CHECKING:
    from api.access.keys import Key
    from api.settings import Settings


HOST = "127.0.0.1"  # default address: this machine alone
PORT = "8000"  # default port


def serve(
    host: Annotated[str, CommandOption("--host", "Address to listen on.", "ADDRESS")] = HOST,
    port: Annotated[str, CommandOption("--port", "Port; 0 takes any free one.", "PORT")] = PORT,
    workers: Annotated[
        str | None,
        CommandOption("--workers", "Number of worker processes.", "COUNT", otherwise="DARRM_WORKERS, else 1"),
    ] = None,
    *,
    no_keys: Annotated[bool, CommandOption("--no-keys", "Accept requests without an API key.")] = False,
    show_settings: Annotated[
        bool, CommandOption("--show-settings", "Print every setting with its value and meaning, and exit.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Serve designs and accounts over HTTP.

    Settings are environment variables, DARRM_…; --show-settings lists them. At an address that other machines can reach
    it starts only with API keys (`darrm keys`) or with --no-keys. /openapi.json describes the routes. With --json, one
    line on stdout says where it listens.
    """
    from darrm_opt.optional_packages import posix_only

    if not show_settings:
        posix_only("The service")
    overrides: dict[str, Any] = {"workers": workers} if workers is not None else {}
    if no_keys:
        overrides |= {"public": True, "keys": None}
    option_names = {"DARRM_WORKERS": "workers"} if workers is not None else {}
    from api.settings import read_settings

    with options_named(**option_names):
        settings = read_settings(**overrides)  # refused before anything listens
    if show_settings:
        answer(_settings_text(settings, json=json))
        return
    from api.server.run import listen, prepare, url_of
    from api.server.run import serve as serve_at

    with listen(host, number(port)) as listening:
        with options_named(**option_names):
            settings, url = prepare(listening, **overrides), url_of(listening)

        def announce() -> None:
            if json:
                answer(as_json({"url": url}))
            else:
                say(f"Serving at {url} (its routes: {url}/openapi.json); ctrl-C stops it.")

        serve_at(settings, listening, announce)


def _settings_text(settings: Settings, *, json: bool) -> str:
    from api.settings import list_settings

    if json:
        return as_json({setting.variable: setting._asdict() for setting in list_settings(settings)})
    lines = []
    for setting in list_settings(settings):
        value = ",".join(setting.value) if isinstance(setting.value, list) else setting.value
        text = "(not set)" if value in {None, ""} else str(value)
        lines.append(f"{setting.variable}={text}  [{setting.origin}]\n    {setting.description}")
    return "\n".join(lines)


KEYS_VARIABLE = "DARRM_KEYS"  # the setting that names the file


KeysFile = Annotated[str | None, CommandOption("--file", "The keys file.", "FILE", otherwise=KEYS_VARIABLE)]


def keys_add(
    name: Annotated[str, Argument("NAME", "Name of the client.")],
    file: KeysFile = None,
    role: Annotated[
        str,
        CommandOption(
            "--role", "reader (stored answers only), user, or admin (everyone's jobs, metrics, the access log).", "ROLE"
        ),
    ] = "user",
    expires: Annotated[
        str | None,
        CommandOption(
            "--expires", "Lifetime, such as 12h, 90d or 26w, or a time (UTC, ISO 8601).", "WHEN", otherwise="never"
        ),
    ] = None,
    *,
    json: AsJson = False,
) -> None:
    """Create an API key for a client of `darrm serve`, and the keys file if it does not exist.

    All keys of one NAME are one client, with the same jobs, webhooks, limits and private designs. To replace a key,
    add another of its client, pass it on, and revoke the old one. A key is shown once, on stdout, when it is made; the
    file has hashes only. A running server follows changes of the file within a second.
    """
    from api.access.keys import create_key, list_keys

    path = _keys_file(file)
    key, text = create_key(path, name, role, expires or "")
    count = sum(entry.name == key.name and not entry.has_expired() for entry in list_keys(path))
    answer(as_json({**_key_record(key), "key": text}) if json else text)
    validity = f", until {key.expires}" if key.expires else ""
    say(f"Key {key.id} of {key.name!r} ({key.role}{validity}): keep it now, it cannot be shown again.")
    if count > 1:
        say(f"The client {key.name!r} has {count} keys now.")


def keys_ls(file: KeysFile = None, *, json: AsJson = False) -> None:
    """List API keys: their ids, dates, roles, expiry and clients."""
    from api.access.keys import list_keys

    keys = list_keys(_keys_file(file))
    lines = "\n".join(f"{key.id}  {key.created}  {key.role:6}  {_expiry(key):33}  {key.name}" for key in keys)
    answer(as_json([_key_record(key) for key in keys]) if json else lines or "No keys: nobody is let in.")


def keys_revoke(
    key: Annotated[str, Argument("ID", "Id of the key, as listed by `darrm keys ls`.")],
    file: KeysFile = None,
    *,
    json: AsJson = False,
) -> None:
    """Revoke an API key; a running server follows within a second.

    Other keys of its client stay valid. Webhooks of a client without a valid key are no longer sent.
    """
    from api.access.keys import revoke_key

    entry = revoke_key(_keys_file(file), key)
    answer(as_json(_key_record(entry)) if json else f"Revoked {entry.id} of {entry.name!r}.")


def _key_record(key: Key) -> dict[str, Any]:
    """Return what is shown of a key: everything but the digest of its secret."""
    return {name: value for name, value in asdict(key).items() if name != "digest"}


def _expiry(key: Key) -> str:
    if not key.expires:
        return "never expires"
    return f"{'expired' if key.has_expired() else 'expires'} {key.expires}"


def _keys_file(file: str | None) -> Path:
    import os

    from darrm_opt.errors import InvalidInput

    path = (file or os.environ.get(KEYS_VARIABLE, "")).strip()
    if not path:
        raise InvalidInput("file", None, "the file that the keys are stored in", f"Give it, or set {KEYS_VARIABLE}.")
    return Path(path)
