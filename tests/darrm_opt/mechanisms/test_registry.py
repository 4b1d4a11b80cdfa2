"""The registry of mechanisms: ours, what a package brings, and what is refused."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest
from support.cases import for_each
from support.paths import ROOT

from darrm_opt import Privacy
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms import calibrated_names, mechanism_class, mechanism_from_record, mechanism_names
from darrm_opt.mechanisms.plain_vote import PlainVote

OURS = (
    "permute_and_flip",
    "exponential",
    "laplace",
    "gnmax",
    "randomized_response",
    "subsampling",
    "plain_vote",
    "gamma",
    "table",
    "group_table",
)


def test_names_and_what_they_stand_for() -> None:
    assert mechanism_names() == OURS
    assert calibrated_names() == OURS[:6]
    for name in OURS:
        assert mechanism_class(name).name == name
        assert mechanism_class(name).advice or name in ("plain_vote", "gamma", "table", "group_table")
    with pytest.raises(InvalidInput) as caught:
        mechanism_class("median")
    assert (caught.value.argument, caught.value.value) == ("mechanism", "median")


@for_each("name", OURS[:6])
def test_a_record_is_read_back_whole(name: str) -> None:
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
from darrm_opt.mechanisms import mechanism_class, mechanism_names
from darrm_opt.planning import plan
from darrm_opt.release import PrivateVote, ReleaseLog
assert mechanism_names()[-2:] == ("random_voter", "wrong")
mechanism = mechanism_class("random_voter").calibrated(25, 3, Privacy(2.0, 1e-5), 20)
log = ReleaseLog.create("releases.log", mechanism, budget=Privacy(2.0, 1e-5))
assert log.limit == 20
PrivateVote(mechanism, log).release([0] * 25)
assert ReleaseLog("releases.log").mechanism == mechanism
assert "random_voter" in {option.name for option in plan(9, None, 1, Privacy(2.0), 1, classes=3).options if option.fits}
try:
    mechanism_class("wrong")
except ValueError as err:
    print(err)
"""


def test_a_package_brings_a_mechanism_by_an_entry_point(tmp_path: Path) -> None:
    example = (ROOT / "examples" / "own_mechanism.py").read_text(encoding="utf-8")
    (tmp_path / "their_package.py").write_text(example, encoding="utf-8")
    information = tmp_path / "their_package-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1\n")
    (information / "entry_points.txt").write_text(
        "[darrm_opt.mechanisms]\nrandom_voter = their_package:RandomVoter\nwrong = their_package:Fraction\n"
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
    assert "a subclass of darrm_opt.mechanisms.VoteMechanism" in run.stdout


def test_models_that_are_not_private_are_supposed_to_be_nothing() -> None:
    assert PlainVote(3, 2, Privacy(0.5)).private_voters == (Privacy(0.5),)
    assert PlainVote(3, 2, Privacy(math.inf)).private_voters == ()
