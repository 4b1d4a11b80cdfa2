"""The mutation campaign: the mutants, their effect on imported code, and the lists of equivalent ones."""

from __future__ import annotations

import sys
from functools import cache
from types import ModuleType

import pytest
from campaigns.mutants import Mutant, mutants, mutated
from campaigns.mutation import TARGETS, equivalents, file_of, replace
from support.paths import ROOT

SOURCE = '''"""A module."""
LEVEL = 3

def bounded(value: int = 1, *, top: float = 2.0) -> float:
    """Return a bound."""
    if not value:
        raise ValueError("nothing")
    value = value - 1
    return min(value, top) if 0 < value <= LEVEL else -top


class Box:
    @property
    def size(self) -> int:
        return 7

    @classmethod
    def made(cls) -> str:
        return f"{cls.__name__} made"

    @staticmethod
    def twice(value: int) -> int:
        return 2 * value
'''

CHANGES = {
    ("m.module", "3 → 4"),
    ("m.bounded", "1 → 2"),
    ("m.bounded", "2.0 → 4.0"),
    ("m.bounded", "not value → value"),
    ("m.bounded", "if not value → if not not value"),
    ("m.bounded", "raise ValueError('nothing') → pass"),
    ("m.bounded", "'nothing' → 'another text'"),
    ("m.bounded", "value = value - 1 → pass"),
    ("m.bounded", "value - 1 → value + 1"),
    ("m.bounded", "1 → 2 (2)"),
    ("m.bounded", "return min(value, top) if 0 < value <= LEVEL else -top → pass"),
    ("m.bounded", "min(value, top) if 0 < value <= LEVEL else -top → -top if 0 < value <= LEVEL else min(value, top)"),
    ("m.bounded", "0 < value <= LEVEL → 0 <= value <= LEVEL"),
    ("m.bounded", "0 < value <= LEVEL → 0 > value <= LEVEL"),
    ("m.bounded", "0 < value <= LEVEL → 0 < value < LEVEL"),
    ("m.bounded", "0 < value <= LEVEL → 0 < value >= LEVEL"),
    ("m.bounded", "0 → 1"),
    ("m.bounded", "min → max"),
    ("m.bounded", "-top → top"),
    ("m.Box.size", "return 7 → pass"),
    ("m.Box.size", "7 → 8"),
    ("m.Box.made", "return f'{cls.__name__} made' → pass"),
    ("m.Box.made", "f'{cls.__name__} made' → 'another text'"),
    ("m.Box.twice", "return 2 * value → pass"),
    ("m.Box.twice", "2 * value → 2 / value"),
    ("m.Box.twice", "2 → 3"),
}


def test_every_mutant_is_listed_once_and_none_is_in_a_docstring_or_an_annotation() -> None:
    listed = [mutant.key for mutant in mutants("m", SOURCE)]
    assert len(listed) == len(set(listed))
    assert set(listed) == CHANGES


def test_a_mutant_changes_code_imported_before(monkeypatch: pytest.MonkeyPatch) -> None:
    live, other = ModuleType("toy"), ModuleType("importer")
    live.__file__ = "toy.py"
    exec(compile(SOURCE, "toy.py", "exec"), vars(live))  # noqa: S102
    for name in ("bounded", "Box"):
        vars(live)[name].__module__ = "toy"
    monkeypatch.setitem(sys.modules, "toy", live)
    monkeypatch.setitem(sys.modules, "importer", other)
    bounded, box = vars(live)["bounded"], vars(live)["Box"]
    vars(live)["LEVEL"] = vars(other)["LEVEL"] = 1000  # a number that Python caches

    def change(text: str) -> None:
        number = [mutant.change for mutant in mutants("toy", SOURCE)].index(text)
        replace(live, mutated("toy", SOURCE, number, "toy.py"))

    assert (bounded(3), box().size, box.made(), box.twice(4)) == (2, 7, "Box made", 8)
    change("7 → 8")
    assert box().size == 8
    change("f'{cls.__name__} made' → 'another text'")
    assert box.made() == "another text"
    change("2 * value → 2 / value")
    assert box.twice(4) == 0.5
    change("2.0 → 4.0")
    assert bounded(0x100) == -4.0
    change("3 → 4")
    assert (vars(live)["LEVEL"], vars(other)["LEVEL"]) == (4, 4)


CACHED = """from functools import cache, cached_property
FACTOR = 2

@cache
def product(
    value,
    other=5,
):
    if value > 10 and (
        other
    ):
        return 0
    return FACTOR * value * other


class Box:
    @cached_property
    def size(self):
        return 7
"""


def test_a_mutant_is_not_hidden_by_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    live = ModuleType("test_toy")
    live.__file__ = "test_toy.py"
    monkeypatch.setitem(sys.modules, "test_toy", live)
    exec(CACHED, vars(live))  # noqa: S102
    product, box = vars(live)["product"], vars(live)["Box"]
    assert (product(3), box().size) == (30, 7)
    listed = mutants("test_toy", CACHED)
    for text, expected in (
        ("FACTOR * value * other → FACTOR * value / other", (1.2, 7)),
        ("7 → 8", (30, 8)),
        ("2 → 3", (45, 7)),
        ("5 → 6", (36, 7)),
    ):
        replace(live, mutated("test_toy", CACHED, [mutant.change for mutant in listed].index(text), "test_toy.py"))
        assert (product(3), box().size) == expected


def test_a_mutant_has_the_lines_that_a_test_must_execute() -> None:
    spans = {mutant.change: mutant.span for mutant in mutants("m", CACHED)}
    assert spans["2 → 3"] == range(0)  # executed on import, so any test may depend on it
    assert spans["5 → 6"] == range(4, 9)  # the signature
    assert spans["value > 10 → value >= 10"] == spans["10 → 11"] == range(9, 12)  # the head of the statement
    assert spans["0 → 1"] == range(12, 13)
    assert spans["7 → 8"] == range(19, 20)


def test_texts_and_roundings_have_their_own_mutations() -> None:
    listed = mutants(
        "m", "__all__ = ['one two']\ndef f(x):\n    return up(x + 1, 4) if x else error('two words', 'one')"
    )
    assert not any("4 →" in mutant.change or "one two" in mutant.change for mutant in listed)
    assert [mutant.change for mutant in listed if mutant.prose] == ["'two words' → 'another text'"]
    assert {"x + 1 → x - 1", "1 → 2", "'one' → 'another text'"} <= {mutant.change for mutant in listed}


@cache
def changes_of(module: str) -> tuple[str, list[Mutant]]:
    """Return the source of a module of the core or of a package, and its mutants."""
    place = ROOT / "darrm_opt" / module.replace(".", "/")
    source = (place / "__init__.py" if place.is_dir() else place.with_suffix(".py")).read_text(encoding="utf-8")
    return source, mutants(module, source)


def test_every_target_has_mutants_and_tests() -> None:
    for module, tests in TARGETS.items():
        source, changes = changes_of(module)
        assert len(changes) > 5
        assert mutated(module, source, len(changes) - 1, "a.py") != compile(source, "a.py", "exec", dont_inherit=True)
        assert all(file_of(name).exists() for name in tests)


def test_every_mutant_listed_as_equivalent_still_exists() -> None:
    known, existing = equivalents(), set()
    for module in TARGETS:
        existing |= {mutant.key for mutant in changes_of(module)[1]}
    assert sorted(set(known) - existing) == []
    assert all(len(why) > 10 for why in known.values())
