"""The registry of mechanisms: built-in ones, those of packages, and refusals."""

from __future__ import annotations

import inspect
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.cases import for_each
from support.paths import ROOT
from support.refusals import refused

from darrm_opt import Privacy
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms import calibrated_names, mechanism_class, mechanism_from_record, mechanism_names
from darrm_opt.mechanisms.noisy_maximum import LaplaceMaximum
from darrm_opt.mechanisms.plain_vote import PlainVote
from darrm_opt.randomness import SeededRandomnessForTestsOnly

CALIBRATED = {"permute_and_flip", "exponential", "laplace", "gnmax", "randomized_response", "subsampling"}

STATED = {"plain_vote", "gamma", "table", "group_table"}  # mechanisms without a calibrated parameter


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


def test_a_package_adds_a_mechanism_by_an_entry_point(tmp_path: Path) -> None:
    example = (ROOT / "examples" / "own_mechanism.py").read_text(encoding="utf-8").partition("\ndef main(")[0] + TWINS
    (tmp_path / "their_package.py").write_text(example, encoding="utf-8")
    information = tmp_path / "their_package-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1\n")
    (information / "entry_points.txt").write_text(
        "[darrm_opt.mechanisms]\n" + "".join(f"{name} = their_package:{place}\n" for name, place in BROUGHT.items())
    )
    run = subprocess.run(
        [sys.executable, "-c", EXAMPLE],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{tmp_path}:{ROOT}", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == [
        "a_no_kind|kind|None|the kind in the records of a_no_kind",
        "taken|kind|'darrm selection mechanism'|a kind other than that of permute_and_flip",
        "twice|kind|'random voter'|a kind other than that of random_voter",
        "unlike|name|'random_voter'|'unlike', as in its entry point",
        "wrong|mechanism|'wrong'|a subclass of darrm_opt.mechanisms.VoteMechanism",
    ]


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
@for_each("counts", [(-1, 4), (3,), (1.5, 1.5), (30, 0), (1, 1, 1)])
def test_counts_of_another_vote_are_refused(name: str, counts: Any) -> None:
    with refused("counts"):
        mechanism_class(name).of(3, 2, 0.5).draw(counts, SeededRandomnessForTestsOnly(1))
