"""Verbs, by topic; the function has the verb's name, with an underscore for a hyphen or a space."""

from __future__ import annotations

import importlib
import keyword
from collections.abc import Callable

GROUPS = {
    "Decide": ("plan", "compare"),
    "Design and verify": ("solve", "least", "verify", "curve"),
    "Release": ("label",),
    "Account": ("cost", "audit", "statement"),
    "Serve": ("serve", "mcp", "keys add", "keys ls", "keys revoke"),
    "Store": (
        "precompute",
        "cache ls",
        "cache tag",
        "cache stats",
        "cache check",
        "cache prune",
        "cache migrate",
        "export",
        "import",
    ),
    "Reproduce the papers": ("reproduce", "teach"),
    "This command": ("completion",),
}
"""Names of the verbs by topic, in the order of the help. A name of two words is a subcommand."""

VERBS = tuple(name for names in GROUPS.values() for name in names)
"""Names of all verbs."""

EXAMPLES = {
    "plan": (
        "darrm plan --K 5 --epsilon 0.5 --fresh --queries 5 --total-epsilon 3 --total-delta 1e-3 --output plan.json",
        "darrm plan --K 11 --epsilon inf --affected 1 --queries 5 --total-epsilon 4 --total-delta 1e-5",
    ),
    "compare": (
        (
            "darrm compare --K 11 --epsilon 0.1 --queries 20 --total-epsilon 2 "
            "--total-delta 0.01 --fresh --plot mechanisms.svg"
        ),
    ),
    "solve": (
        "darrm solve --K 11 --m 3 --epsilon 0.1",
        "darrm solve --K 11 --classes 3 --affected 1 --target-epsilon 1 --delta 1e-5 --output rule.json",
        "darrm solve --K 11 --epsilon inf --affected 1 --target-epsilon 1 --output gamma.json --plot gamma.svg",
    ),
    "least": (
        "darrm least --K 11 --epsilon 0.1 --utility 0.95 --output gamma.json",
        "darrm least --K 11 --m 3 --parameter epsilon --agreement 0.97",
    ),
    "verify": ("darrm verify gamma.json", "darrm verify gamma.json --arithmetic ball"),
    "curve": (
        "darrm curve --K 11 --m 3 --epsilon 0.1 --points 6",
        "darrm curve --K 11 --epsilon 0.1 --over m --at 1,3,5 --plot errors.svg",
        "darrm curve --over epsilon --solution gamma.json --at 0,0.1,0.3",
    ),
    "label": (
        (
            "darrm label votes.csv --solution plan.json --release-log releases.log --total-epsilon "
            "3 --total-delta 1e-3 --fresh --output labels.csv"
        ),
    ),
    "cost": (
        "darrm cost laplace --K 250 --classes 10 --scale 40 --queries 286 --delta 1e-5",
        "darrm cost --solution gamma.json --queries 100 --total-delta 1e-5 --fresh",
        "darrm cost --epsilon 0.1 --delta 1e-6 --queries 100 --total-delta 1e-5",
        "darrm cost bagging --K 5 --bags n=10000,size=20",
        "darrm cost laplace --K 11 --queries 20 --total-epsilon 1 --total-delta 1e-5 --output mechanism.json",
    ),
    "audit": (
        "darrm audit exponential --K 11 --classes 3 --rate 0.5 --total-epsilon 1",
        "darrm audit table.csv --total-epsilon 1.2 --queries 2",
    ),
    "statement": ("darrm statement releases.log", "darrm statement mechanism.json --json"),
    "serve": ("darrm serve --port 9000", "DARRM_KEYS=keys.json darrm serve --host 0.0.0.0"),
    "mcp": ("darrm mcp",),
    "keys add": (
        "darrm keys add 'training cluster' --file keys.json",
        "darrm keys add dashboard --file keys.json --role reader --expires 90d",
    ),
    "keys ls": ("darrm keys ls --file keys.json",),
    "keys revoke": ("darrm keys revoke 1a2b3c4d --file keys.json",),
    "precompute": ("darrm precompute grid.toml --dry-run", "darrm precompute grid.toml --workers 8"),
    "cache ls": ("darrm cache ls --limit 10", "darrm cache ls --K 11 --tag round-2"),
    "cache tag": ("darrm cache tag ID round-2", "darrm cache tag ID round-2 --remove"),
    "cache stats": ("darrm cache stats --json",),
    "cache check": ("darrm cache check --url sqlite:///answers.sqlite",),
    "cache prune": ("darrm cache prune --days 7 --prove",),
    "cache migrate": ("darrm cache migrate --url sqlite:///answers.sqlite",),
    "export": ("darrm export --output answers.parquet",),
    "import": ("darrm import answers.parquet",),
    "reproduce": ("darrm reproduce --list", "darrm reproduce table-1 --quick --output figures"),
    "teach": ("darrm teach --data digits --labels 50",),
    "completion": ('eval "$(darrm completion bash)"', "darrm completion fish > ~/.config/fish/completions/darrm.fish"),
}
"""Commands that a verb's help shows."""

_MODULES = {
    "compare": "plan",
    "keys add": "serve",
    "keys ls": "serve",
    "keys revoke": "serve",
    "export": "cache",
    "import": "cache",
    **{name: "cache" for name in VERBS if name.startswith("cache ")},
}
"""Modules of the verbs that share one with another."""

RENAMED = {
    "plurality": "solve --classes",
    "compose": "cost",
    "bagging": "cost bagging",
    "profile": "curve --over epsilon",
}
"""What to type in place of the verbs of 0.1."""


def load(name: str) -> Callable[..., None]:
    """Return a verb, importing what it declares; what it uses it imports itself, when it runs."""
    word = f"{name}_" if keyword.iskeyword(name) else name.replace("-", "_").replace(" ", "_")
    verb: Callable[..., None] = getattr(importlib.import_module(f"{__name__}.{_MODULES.get(name, word)}"), word)
    return verb
