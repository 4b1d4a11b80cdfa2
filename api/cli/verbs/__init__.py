"""Verbs, by topic; the function has the verb's name, with an underscore for a hyphen."""

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
    "plurality",
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


_MODULES = {
    "verify": "solve",
    "profile": "curve",
    "gnmax": "bagging",
    "keys": "serve",
    "export": "cache",
    "import": "cache",
}
"""Modules of the verbs that share one with another."""


def load(name: str) -> Callable[..., None]:
    """Return a verb, importing what it declares; what it uses it imports itself, when it runs."""
    word = f"{name}_" if keyword.iskeyword(name) else name.replace("-", "_")
    verb: Callable[..., None] = getattr(importlib.import_module(f"{__name__}.{_MODULES.get(name, word)}"), word)
    return verb
