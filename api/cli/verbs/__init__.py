"""One file a verb; the function has the verb's name, with an underscore for a hyphen."""

from __future__ import annotations

import importlib
import keyword
from collections.abc import Callable

VERBS = (
    "solve",
    "verify",
    "curve",
    "compose",
    "compare",
    "plan",
    "profile",
    "bagging",
    "gnmax",
    "vote-cost",
    "teach",
    "reproduce",
    "label",
    "serve",
    "keys",
    "cache",
    "precompute",
    "export",
    "import",
)
"""Names of the verbs, in the order of the help."""


def load(name: str) -> Callable[..., None]:
    """Return a verb, importing what it declares; what it uses it imports itself, when it runs."""
    word = f"{name}_" if keyword.iskeyword(name) else name.replace("-", "_")
    verb: Callable[..., None] = getattr(importlib.import_module(f"{__name__}.{word}"), word)
    return verb
