"""The table of guarantees: it has every public function with a guarantee, and all its names exist."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import docstrings
from support.paths import ROOT

from darrm_opt.bagging import Guarantee
from darrm_opt.mechanisms.base import BUILT_IN, mechanism_class
from darrm_opt.noise import NoiseFunction
from darrm_papers.dpbag import LeakingStop, UnsoundClaim
from darrm_papers.he_wang_tao.printed import PrintedTheorem
from darrm_papers.moments_accountant import PerInstanceLoss
from darrm_papers.pate import DataDependentMoment, GnmaxNoise, SensitiveEpsilon, SensitiveRdp

PAGE = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
REFERENCE = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")

PUBLIC = (
    "darrm_opt",
    "darrm_opt.accounting",
    "darrm_opt.learning",
    "darrm_opt.release",
    "darrm_opt.planning",
    "darrm_opt.plurality",
)
"""Packages whose ``__all__`` is public."""

PROMISES = (
    *(DataDependentMoment, GnmaxNoise, Guarantee, LeakingStop, NoiseFunction),
    *(PerInstanceLoss, PrintedTheorem, SensitiveEpsilon, SensitiveRdp, UnsoundClaim),
)
"""Types returned only by functions with a privacy claim, anywhere in the package."""

NAMED = re.compile(r"epsilon|delta|guarantee|moment|failure|_kl$|budget|_lam_|_sigma$")
"""Names of functions in modules without ``__all__`` that return a claim as plain numbers."""

NUMBERS = (
    *("darrm_papers.moments_accountant", "darrm_papers.pate", "darrm_opt.bagging"),
    "darrm_papers.he_wang_tao.generalisation",
)
"""Modules whose functions are also searched by name."""


@dataclass(frozen=True)
class Entry:
    """One row of the table."""

    name: str
    proof: str
    test: str
    status: str


def entries() -> list[Entry]:
    rows = re.findall(r"^\| `([\w.]+)` \| [^|]+ \| ([^|]+) \| `([^|`]+)` \| ([^|]+) \|$", PAGE, re.MULTILINE)
    return [Entry(*row) for row in rows]


def listed() -> list[str]:
    """Return the names without a guarantee, of the last section."""
    return re.findall(r"`([\w.]+)`", PAGE.partition("\n## Names that promise no privacy\n")[2])


@cache
def named(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def public_names() -> Iterator[str]:
    """Yield the names of the reference and the exports of packages, of the core and of the cache."""
    for path in re.findall(r"^::: (\S+)$", REFERENCE, re.MULTILINE):
        if path.startswith(("darrm_opt.", "solver_cache.")):
            yield path
    for package in PUBLIC:
        for name in importlib.import_module(package).__all__:
            if not name.startswith("__"):
                yield f"{package}.{name}"


def claiming() -> Iterator[str]:
    """Yield the functions of the core that return a type of claim, or have the name of one."""
    types = {kind.__name__ for kind in PROMISES}
    for module in docstrings.modules("darrm_opt"):
        for name, thing in vars(module).items():
            if name.startswith("_") or not inspect.isfunction(thing) or thing.__module__ != module.__name__:
                continue
            returned = set(re.findall(r"\w+", str(thing.__annotations__.get("return", ""))))
            by_name = module.__name__.startswith(NUMBERS) and NAMED.search(name) and returned & {"float", "int"}
            if returned & types or by_name:
                yield f"{module.__name__}.{name}"


def test_every_built_in_mechanism_has_a_row() -> None:
    rows = {named(e.name) for e in entries() if inspect.isclass(named(e.name))}
    missing = {name: mechanism_class(name) for name in BUILT_IN if mechanism_class(name) not in rows}
    assert missing == {}, "add a row to docs/guarantees.md: proof, oracle test, status"


def test_every_public_name_has_a_row_or_is_listed_without_a_guarantee() -> None:
    rows, nothing = {id(named(e.name)) for e in entries()}, {id(named(name)) for name in listed()}
    wanted = {*public_names(), *claiming()}
    assert len(wanted) > 150
    missing = sorted(path for path in wanted if id(named(path)) not in rows | nothing)
    assert missing == [], "add a row to docs/guarantees.md: proof, oracle test, status"


def test_a_name_is_once_in_the_table_or_in_the_list() -> None:
    names = [e.name for e in entries()] + listed()
    assert len(names) > 150
    assert sorted(names) == sorted(set(names))
    assert len({id(named(name)) for name in names}) == len(names)
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    assert len(rows) == len(entries()), "a row that cannot be read"


@cache
def functions_of(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_a_row_leads_to_a_proof_and_a_test() -> None:
    for entry in entries():
        if entry.status != "proved":
            assert entry.status.startswith("not a guarantee: "), entry
        else:
            assert entry.proof != "–", entry
        if entry.proof == "docstring":
            told = (inspect.getdoc(named(entry.name)) or "") + (inspect.getmodule(named(entry.name)).__doc__ or "")
            assert re.search(r"Source:|Guarantees:|Theorem|proof", told), f"a docstring that names no proof: {entry}"
        else:
            assert entry.proof == "–" or "](" in entry.proof, (
                f"a proof that is no link: {entry}"
            )  # test_docs.py follows it
        path, _, name = entry.test.partition("::")
        assert name.startswith("test_"), entry
        assert name in functions_of(path), entry


def test_code_that_reproduces_errors_is_not_a_guarantee() -> None:
    status = {id(named(e.name)): e.status for e in entries()}
    module = importlib.import_module("darrm_papers.he_wang_tao.printed")
    functions = [function for name, function in vars(module).items() if name.endswith("_printed")]
    assert len(functions) >= 10
    for function in functions:
        assert status[id(function)].startswith("not a guarantee: "), function
