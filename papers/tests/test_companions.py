"""Reproductions of the companion papers: every printed number that is at hand, and data from files."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import idx_files
from support.paths import DATA
from support.refusals import refused

from darrm_papers.companions import BAGGING, binary_data, reproduce_companion
from darrm_papers.darrm import reproduce

pytest.importorskip("sklearn")


def rows_of(name: str, **options: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = reproduce(name, **options).content()["tables"][0]["rows"]
    return rows


def test_every_budget_of_bagging_agrees_with_its_print() -> None:
    assert {row["agree"] for row in rows_of("bagging-tables")} == {"yes"}
    with (DATA / "bagging_dpbag_expected.csv").open(encoding="utf-8") as file:
        printed = [row for row in csv.DictReader(file) if "published" in row["quantity"]]
    ours = {(f"Bagging Table {table}", n, k): {"epsilon": e, "delta": d} for table, n, k, e, d in BAGGING}
    assert len(printed) > 20
    for row in printed:
        inputs = json.loads(row["inputs"])
        told = ours[row["source"], inputs["n"], inputs["subsample_size"]]
        assert float(told["delta" if row["quantity"].startswith("delta") else "epsilon"]) == float(row["expected"])


def test_the_label_counts_of_dpbag_are_those_of_another_delta_than_is_printed() -> None:
    rows = rows_of("dpbag-labels")
    assert [row["ours"] for row in rows] == [row["paper"] for row in rows]
    assert len(rows) == 12
    for row in rows:
        assert row["ε"] < row["ε spent, δ = 1e-3"] < row["ε spent, δ = 1e-5"]
        assert row["within ε, 1e-3"] == row["paper"] - 1
        assert row["within ε, 1e-5"] < 0.67 * row["paper"]


def test_the_theorems_are_refuted_or_beaten_where_they_are_defined() -> None:
    rows = rows_of("hwt-composition")
    assert {row["theorem"] for row in rows} == {"I", "II", "III", "V"}
    for row in rows:
        is_refuted = row["printed δ"] < row["exact δ at that ε"]
        assert (row["verdict"] == "refuted here") == is_refuted
        if not is_refuted:
            assert row["least ε at the printed δ"] < row["printed ε"]
    assert len(rows_of("hwt-training")) == 5


def test_what_pate_costs_grows_with_its_queries() -> None:
    epsilons = [row["ours"] for row in rows_of("pate-column")]
    assert epsilons == sorted(epsilons)


def test_experiments_of_digits_size_learn() -> None:
    assert min(row["accuracy"] for row in rows_of("bagging-figures", quick=True)) > 0.9
    accuracy = {row["noise"]: row["accuracy"] for row in rows_of("sign-sgd", quick=True)}
    assert accuracy["γ_opt"] > 0.9 > accuracy["a fair coin"]


def test_data_from_files(tmp_path: Path) -> None:
    images = binary_data(str(idx_files.dataset(tmp_path / "mnist")), 20, seed=1)
    assert (images.name, images.X.shape, len(images.truth)) == ("mnist", (220, idx_files.SIDE**2), 20)
    folder = tmp_path / "adult"
    folder.mkdir()
    line = "{}, Private, {}, HS-grad, 9, Never-married, Sales, Own-child, {}, Male, 0, 0, 40, United-States, {}"
    people = [line.format(20 + i, 1000 + i, ("White", "?")[i % 2], (">50K", "<=50K")[i % 3 > 0]) for i in range(60)]
    (folder / "adult.data").write_text("\n".join([*people, ""]), encoding="utf-8")
    adult = binary_data(str(folder), 10, seed=1)
    assert (adult.name, adult.X.shape) == ("adult", (50, 6 + 9))
    assert int(adult.y.sum() + adult.truth.sum()) == 20
    assert np.all(np.isfinite(adult.X))
    made = reproduce("sign-sgd", data=str(folder.parent / "mnist"), quick=True)
    assert made.settings["data"] == "mnist"
    for text in ("1,2\n", people[0].replace("20", "old", 1)):
        (folder / "adult.data").write_text(text, encoding="utf-8")
        with refused("data"):
            binary_data(str(folder), 10, seed=1)
    with refused("data"):
        binary_data(str(tmp_path / "mnist"), 1000, seed=1)
    with refused("NAME"):
        reproduce_companion("table-1")
