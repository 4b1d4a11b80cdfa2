"""``darrm keys``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from api.cli.declared import Argument, Option
from api.cli.options import AsJson
from api.cli.outcome import answer, say

VARIABLE = "DARRM_KEYS"
"""The setting that names the file."""


def keys(
    action: Annotated[str, Argument("new|ls|revoke", "What to do.")],
    key: Annotated[str, Argument("NAME|ID", "new: whose key it is; revoke: its id, as ls shows it.")] = "",
    file: Annotated[str | None, Option("--file", "The keys file.", "FILE", otherwise=VARIABLE)] = None,
    *,
    json: AsJson = False,
) -> None:
    """Make, list and revoke the API keys that `darrm serve` asks for.

    A key is shown once, on stdout, when it is made; the file has hashes only. A running server follows changes of the
    file within a second.
    """
    import os

    from api.access.keys import create_key, list_keys, revoke_key
    from darrm_opt.errors import InvalidInput

    place = (file or os.environ.get(VARIABLE, "")).strip()
    if not place:
        raise InvalidInput("file", None, "the file that the keys are kept in", f"Give it, or set {VARIABLE}.")
    path = Path(place)
    if action == "ls" and key:
        raise InvalidInput("KEY", key, "nothing after ls")
    if action == "new":
        made, text = create_key(path, key)
        _print({"id": made.id, "name": made.name, "created": made.created, "key": text}, text, as_json=json)
        say(f"Key {made.id} of {made.name!r}: keep it now, it cannot be shown again.")
    elif action == "ls":
        found = list_keys(path)
        lines = "\n".join(f"{each.id}  {each.created}  {each.name}" for each in found)
        told = [{name: value for name, value in asdict(each).items() if name != "digest"} for each in found]
        _print(told, lines or "No keys: nobody is let in.", as_json=json)
    elif action == "revoke":
        gone = revoke_key(path, key)
        told_one = {"id": gone.id, "name": gone.name, "created": gone.created}
        _print(told_one, f"Revoked {gone.id} of {gone.name!r}.", as_json=json)
    else:
        raise InvalidInput("ACTION", action, "one of new, ls and revoke")


def _print(told: object, text: str, *, as_json: bool) -> None:
    if as_json:
        from json import dumps

        text = dumps(told, ensure_ascii=False)
    answer(text)
