"""One file a verb; the function has the verb's name."""

from __future__ import annotations

import importlib
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
    "teach",
    "label",
    "serve",
    "keys",
    "cache",
)
"""Names of the verbs, in the order of the help."""


def load(name: str) -> Callable[..., None]:
    """Return a verb, importing what it declares; what it uses it imports itself, when it runs."""
    verb: Callable[..., None] = getattr(importlib.import_module(f"{__name__}.{name}"), name)
    return verb
