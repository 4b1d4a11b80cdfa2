"""Totals that were frozen do not rise; `campaigns.golden_totals` compares all of them."""

from __future__ import annotations

import math

from campaigns import golden_totals
from support.cases import for_each


@for_each("kind", ["cost", "most_releases"])
def test_no_quick_total_has_risen(kind: str) -> None:
    frozen = [each for each in golden_totals.read() if each["quick"] and each["case"]["kind"] == kind]
    said: list[str] = []
    assert golden_totals.compare(frozen, said.append) == 0, said
    assert len(frozen) > (200 if kind == "cost" else 0)


def test_the_file_covers_every_kind_of_account() -> None:
    frozen = golden_totals.read()
    accounts = {each["account"] for each in frozen}
    assert {"simple", "optimal", "laws", "bits", "renyi", "gaussian", "pld", "models", "renyi, unsampled"} <= accounts
    kinds = {each["case"]["kind"] for each in frozen}
    assert kinds == {each["kind"] for each in golden_totals.cases()}
    assert {each["case"].get("mechanism") for each in frozen} >= {*golden_totals.PARAMETERS, "table", "gamma"}


def test_a_total_that_is_worse_is_seen() -> None:
    (one, *_) = (each for each in golden_totals.read() if each["case"]["kind"] == "cost" and each["least"] < math.inf)
    said: list[str] = []
    assert golden_totals.compare([{**one, "least": one["least"] * 0.999}], said.append) == 1
    assert golden_totals.compare([{**one, "least": one["least"] * 1.001}], said.append) == 0
    assert [line.partition(":")[0] for line in said] == ["risen", "fallen"]
    assert golden_totals.risen({"kind": "cost"}, 1.0, math.nan)
    assert golden_totals.risen({"kind": "most_releases"}, 5, 4)
    assert not golden_totals.risen({"kind": "most_releases"}, 5, 6)
