"""The registry of mechanisms: built-in ones, those of packages, and refusals."""

from __future__ import annotations

import inspect
import math
import subprocess
import sys
from abc import ABCMeta
from inspect import getattr_static
from pathlib import Path
from typing import Any

import pytest
from support.cases import for_each
from support.packages import installed
from support.paths import ROOT
from support.refusals import refused

from darrm.cli import load
from darrm.cli.parser import Command
from darrm_opt import Privacy
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms import (
    VoteMechanism,
    calibrated_names,
    mechanism_class,
    mechanism_from_record,
    mechanism_names,
)
from darrm_opt.mechanisms.base import mechanism_classes
from darrm_opt.mechanisms.noisy_maximum import LaplaceMaximum
from darrm_opt.mechanisms.plain_vote import PlainVote
from darrm_opt.randomness import SeededRandomnessForTestsOnly
from examples.own_mechanism import RandomVoter

CALIBRATED = {"permute_and_flip", "exponential", "laplace", "gnmax", "randomized_response", "subsampling"}

STATED = {"plain_vote", "gamma", "table", "group_table"}  # mechanisms without a calibrated parameter


def options_of(verb: str) -> set[str]:
    """Return the names of the options of a verb that are not parameters of mechanisms."""
    own = {mechanism_class(name).parameter for name in CALIBRATED}
    flags = (flag for each in Command.of(load(verb)).parameters for flag in each.flags)
    return ({flag.lstrip("-").replace("-", "_") for flag in flags} | {"help", "h"}) - own


def test_every_name_has_its_mechanism() -> None:
    assert set(mechanism_names()) == CALIBRATED | STATED, "add it to CALIBRATED or STATED"
    assert set(calibrated_names()) == CALIBRATED
    for name in mechanism_names():
        assert mechanism_class(name).name == name
        assert bool(mechanism_class(name).advice) == (name in CALIBRATED)
    with pytest.raises(InvalidInput) as caught:
        mechanism_class("median")
    assert (caught.value.argument, caught.value.value) == ("mechanism", "median")


@for_each("name", sorted(CALIBRATED))
def test_a_record_round_trips(name: str) -> None:
    mechanism = mechanism_class(name).of(5, 2, 0.5 if name != "gnmax" else 2.0, 2)
    again = mechanism_from_record(mechanism.record())
    assert again == mechanism
    assert again.epsilon(7, 1e-3) == mechanism.epsilon(7, 1e-3)
    assert mechanism.description
    assert mechanism.words
    for broken in ({**mechanism.record(), "format": 99}, {"kind": mechanism.kind, "format": 1}, {"kind": "?"}, None):
        with pytest.raises(InvalidInput):
            mechanism_from_record(broken)


EXAMPLE = """
from darrm.cli import load
from darrm.cli.parser import Command
from darrm_opt import Privacy
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms import mechanism_class, mechanism_from_record, mechanism_names
from darrm_opt.mechanisms.selection import PermuteAndFlip
from darrm_opt.planning import plan
from darrm_opt.release import PrivateVote, ReleaseLog
assert mechanism_names()[-6:] == ("a_no_kind", "random_voter", "taken", "twice", "unlike", "wrong")
mechanism = mechanism_class("random_voter").calibrated(25, 3, Privacy(2.0, 1e-5), 20)
log = ReleaseLog.create("releases.log", mechanism, budget=Privacy(2.0, 1e-5))
assert log.limit == 20
PrivateVote(mechanism, log).release([0] * 25)
assert ReleaseLog("releases.log").mechanism == mechanism
assert plan(9, None, 1, Privacy(2.0), 1, classes=3, mechanisms="random_voter").options[0].fits
assert mechanism_from_record(PermuteAndFlip(5, 3, 0.5).record()) == PermuteAndFlip(5, 3, 0.5)
assert mechanism_from_record(mechanism.record()) == mechanism
for name in ("a_no_kind", "taken", "twice", "unlike", "wrong"):
    try:
        mechanism_class(name)
    except InvalidInput as err:
        print(name, err.argument, repr(err.value), err.accepted, sep="|")
"""

TWINS = """
from darrm_opt.mechanisms.selection import PermuteAndFlip

class Taken(RandomVoter):
    name, kind = "taken", PermuteAndFlip.kind

class Twice(RandomVoter):
    name = "twice"

class NoKind(VoteMechanism):
    name = "a_no_kind"
"""

BROUGHT = {
    "random_voter": "RandomVoter",
    "taken": "Taken",
    "twice": "Twice",
    "a_no_kind": "NoKind",
    "unlike": "RandomVoter",
    "wrong": "Fraction",
}


def run_with_package(folder: Path, more: str, brought: dict[str, str], script: str) -> list[str]:
    """Return the lines that a script prints in a process in which a package brings classes by entry points.

    The package has the mechanism of the example, and ``more`` code.
    """
    example = (ROOT / "examples" / "own_mechanism.py").read_text(encoding="utf-8").partition("\ndef main(")[0] + more
    (folder / "their_package.py").write_text(example, encoding="utf-8")
    information = folder / "their_package-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1\n")
    (information / "entry_points.txt").write_text(
        "[darrm_opt.mechanisms]\n" + "".join(f"{name} = their_package:{place}\n" for name, place in brought.items())
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env={"PYTHONPATH": f"{folder}:{ROOT}", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def test_a_package_adds_a_mechanism_by_an_entry_point(tmp_path: Path) -> None:
    assert run_with_package(tmp_path, TWINS, BROUGHT, EXAMPLE) == [
        "a_no_kind|kind|None|the kind in the records of a_no_kind",
        "taken|kind|'darrm selection mechanism'|a kind other than that of permute_and_flip",
        "twice|kind|'random voter'|a kind other than that of random_voter",
        "unlike|name|'random_voter'|'unlike', as in its entry point",
        "wrong|mechanism|'wrong'|a subclass of darrm_opt.mechanisms.VoteMechanism",
    ]


FAULTY = """
class Lawless(RandomVoter):
    name, kind = "lawless", "lawless"
    leader_chances = VoteMechanism.leader_chances

    def class_chances(self, counts):
        return super().class_chances(counts) if self.K <= 12 else None

class Unbounded(RandomVoter):
    name, kind = "unbounded", "unbounded"

    def bounds(self, releases):
        raise ValueError("no bounds")

class Narrow(RandomVoter):
    name, kind = "narrow", "narrow"

    def __init__(self, K, classes, share):
        super().__init__(K, classes, share)

class Forgetful(RandomVoter):
    name, kind, parameter = "forgetful", "forgetful", "weight_of_one"

class Brittle(RandomVoter):
    name, kind = "brittle", "brittle"

    def leader_chances(self, counts):
        if self.share > 0.05:
            raise ValueError("a large share")
        return super().leader_chances(counts)

class Binary(RandomVoter):
    name, kind = "binary", "binary"

    def __init__(self, K, classes, share, *, affected=1):
        if classes != 2:
            raise InvalidInput("classes", classes, "2")
        super().__init__(K, classes, share, affected=affected)
"""

PLANNED = """
from darrm_opt import Privacy, Problem
from darrm_opt.planning import plan
from darrm_opt.planning.compare import compare
for K, classes in ((12, 2), (13, 2), (13, 3)):
    found = plan(K, None, 3, Privacy(2.0, 1e-5), 1, classes=classes)
    for option in sorted(found.options, key=lambda option: option.name):
        if option.name in ("lawless", "unbounded", "narrow", "forgetful", "binary", "brittle"):
            print(K, classes, option.name, option.outcome, "" if option.fits else option.why, sep="|")
    assert {option.name for option in found.options if option.fits} >= {"optimal", "gnmax", "laplace"}
searched = plan(9, None, 50, Privacy(0.1), 1, mechanisms="brittle")  # whose suggestions need larger shares
print(searched.verdict, searched.options[0].fits, searched.suggestions)
rows = compare(Problem(13, Privacy(float("inf")), Privacy(1.0), 1), 3, Privacy(2.0, 1e-5)).rows
print(*sorted(row.name for row in rows if row.noise is None))
"""


def test_a_mechanism_of_a_package_that_fails_leaves_the_other_options_of_a_plan(tmp_path: Path) -> None:
    names = ("binary", "brittle", "forgetful", "lawless", "narrow", "unbounded")
    lines = run_with_package(
        tmp_path,
        "from darrm_opt.errors import InvalidInput\n" + FAULTY,
        {name: name.capitalize() for name in names},
        PLANNED,
    )
    failed = {
        "brittle": "ValueError: a large share",
        "forgetful": "AttributeError: 'Forgetful' object has no attribute 'weight_of_one'",
        "narrow": "TypeError: Narrow.__init__() got an unexpected keyword argument 'affected'",
        "unbounded": "ValueError: no bounds",
    }
    same = {
        name: f"not computed|Not computed: {name} of an installed package failed: {err}" for name, err in failed.items()
    }
    lawless = "not computed|Not computed: lawless computes no chances of these counts."
    found = {
        (12, 2): {"binary": "fits|", "lawless": "fits|"},
        (13, 2): {"binary": "fits|", "lawless": lawless},
        (13, 3): {"binary": "does not apply|It is for 2 classes.", "lawless": lawless},
    }
    assert lines[-2] == "none True ()"
    assert lines[:-2] == [
        f"{K}|{classes}|{name}|{({**same, **outcomes})[name]}"
        for (K, classes), outcomes in found.items()
        for name in names
    ]
    assert set(lines[-1].split()) - {"majority", "fewer_voters"} == {*failed, "lawless"}


def bring(name: str, mechanism: type | str) -> InvalidInput:
    """Return why a mechanism of a package is refused; all others can be used nevertheless."""
    with installed(**{name: mechanism}):
        with pytest.raises(InvalidInput) as caught:
            mechanism_class(name)
        assert set(mechanism_classes()) == CALIBRATED | STATED
    return caught.value


@for_each("parameter", sorted({*options_of("cost"), *options_of("audit"), "K", "classes", "affected", "words", "cost"}))
def test_a_parameter_that_is_named_as_an_option_is_refused(parameter: str) -> None:
    found = bring("own", type("Own", (RandomVoter,), {"name": "own", "kind": "own", "parameter": parameter}))
    assert (found.argument, found.value) == ("parameter", parameter)
    assert found.accepted == "a name that no option of a command and no attribute of VoteMechanism has"
    assert "Rename the parameter of own." in found.advice


@for_each(
    ("removed", "missing"),
    [
        (("description",), "description"),
        (("bounds",), "bounds"),
        (("draw",), "draw or draw_many"),
        (("bounds", "description", "draw"), "bounds, description, draw or draw_many"),
    ],
)
def test_a_class_that_lacks_a_part_is_refused(removed: tuple[str, ...], missing: str) -> None:
    parts = {part: getattr_static(VoteMechanism, part) for part in removed}
    found = bring("own", ABCMeta("Own", (RandomVoter,), {"name": "own", "kind": "own", **parts}))
    assert (found.argument, found.value, found.accepted) == ("mechanism", "own", f"a class that defines {missing}")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("", "AttributeError: module 'their_module' has no attribute 'Own'"),
        ("class Own(", "SyntaxError: "),
        ("Own = undefined", "NameError: name 'undefined' is not defined"),
    ],
)
def test_a_module_that_cannot_be_imported_is_named(
    code: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "their_module.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "their_module", raising=False)
    found = bring("own", "their_module:Own")
    assert (found.argument, found.value) == ("mechanism", "own")
    assert found.accepted == "a mechanism that can be imported: an installed package names their_module:Own"
    assert found.advice.startswith(said)


def test_each_kind_has_one_reader() -> None:
    readers: dict[str, set[object]] = {}
    for name in mechanism_names():
        found = mechanism_class(name)
        readers.setdefault(found.kind, set()).add(inspect.getattr_static(found, "from_record"))
    assert {kind: len(each) for kind, each in readers.items()} == dict.fromkeys(readers, 1)


def test_an_inverted_parameter_must_be_above_0() -> None:
    with refused("limits", "(0.0, 1.0)"):
        type("Noisier", (LaplaceMaximum,), {"limits": (0.0, 1.0)})


def test_models_that_are_not_private_are_not_private_voters() -> None:
    assert PlainVote(3, 2, Privacy(0.5)).private_voters == (Privacy(0.5),)
    assert PlainVote(3, 2, Privacy(math.inf)).private_voters == ()
    for delta in (0.0, 1e-5):
        assert PlainVote(3, 2, Privacy(math.inf)).epsilon(2, delta) == math.inf


@for_each("name", ["gnmax", "laplace", "permute_and_flip", "exponential"])
@for_each("counts", [(-1, 4), (3,), (1.5, 1.5), (30, 0), (1, 1, 1), (1, 1), (0, 0), (2, 2)])
def test_counts_of_another_vote_are_refused(name: str, counts: Any) -> None:
    for mechanism in (mechanism_class(name).of(3, 2, 0.5), RandomVoter(3, 2, 0.5)):
        with refused("counts") as caught:
            mechanism.draw(counts, SeededRandomnessForTestsOnly(1))
        assert caught.value.accepted == "2 whole numbers of votes, 3 in all"
