"""`darrm reproduce`: each figure and table in its quick form, ours against closed values, the same again by the same seed."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cases import for_each
from support.darrm_runner import refused, run
from support.paths import DATA

import darrm_papers.darrm
from darrm_opt import InvalidInput, Privacy, Problem
from darrm_opt.accounting.composition.closed_forms import kov_composition
from darrm_opt.accounting.total import exact_epsilon, total_delta_of
from darrm_opt.accuracy import disagreement, tv_error
from darrm_opt.baselines import subsampling
from darrm_opt.noise import NoiseFunction
from darrm_opt.priors import IndependentVoters
from darrm_papers.darrm import REPRODUCTIONS, canonical, reproduce
from darrm_papers.darrm.cost_tables import fixed_votes, gnmax
from darrm_papers.darrm.knowledge_transfer import NEW, STAND_IN, accuracy, labelling_methods
from darrm_papers.darrm.printed import (
    ACCURACY_TABLES,
    COST_TABLES,
    GNMAX_ORDERS,
    NOT_HERE,
    K,
    Reproduction,
    accounts,
    accuracies,
    printed_value,
    problem,
)
from darrm_papers.darrm.teachers import load_teacher_votes

pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")
pytest.importorskip("dp_accounting")

PICTURES = {name for name in REPRODUCTIONS if name.startswith("figure")}
SLOW = {"table-6", "table-8", "table-10"}  # seconds each: γ are designed for budgets; table-1 is of their kind


Rows = list[dict[str, Any]]


def rows_of(made: Reproduction, place: int = 0) -> Rows:
    rows: Rows = made.content()["tables"][place]["rows"]
    return rows


# ---------------------------------------------------------------------------------------------- the command


def test_there_are_the_figures_and_tables_of_the_paper() -> None:
    listed = run("reproduce", "--list")
    assert listed.exit_code == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()] == list(REPRODUCTIONS)
    assert json.loads(run("reproduce", "--list", "--json").stdout) == REPRODUCTIONS
    assert {f"table-{number}" for number in range(1, 11)} <= set(REPRODUCTIONS)
    assert {f"figure-{number}" for number in (2, 6, 7, 8, 9)} <= set(REPRODUCTIONS)
    assert all(text.rpartition(": ")[2] for text in REPRODUCTIONS.values())


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in REPRODUCTIONS]
)
def test_each_runs_in_its_quick_form(name: str, tmp_path: Path) -> None:
    result = run("reproduce", name, "--quick", "--output", str(tmp_path))
    assert (result.exit_code, result.stderr) == (0, "")
    kept = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
    assert kept["name"] == name
    assert kept["title"] in result.stdout
    assert all(table["rows"] for table in kept["tables"])
    assert all(note in result.stdout for note in kept["notes"])
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"{name}.json",
        *([f"{name}.png"] if name in PICTURES else []),
    ]
    if name in PICTURES:
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_json_is_what_is_kept(tmp_path: Path) -> None:
    told = json.loads(run("reproduce", "Table 3", "--json", "--output", str(tmp_path / "new" / "folder")).stdout)
    files = told.pop("files")
    assert files == [str(tmp_path / "new" / "folder" / "table-3.json")]
    assert told == json.loads(Path(files[0]).read_text(encoding="utf-8"))


def test_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    few = {name: REPRODUCTIONS[name] for name in ("table-4", "table-3", "figure-10")}  # each runs above
    monkeypatch.setattr(darrm_papers.darrm, "REPRODUCTIONS", few)
    result = run("reproduce", "--all", "--quick", "--json")
    assert result.exit_code == 0
    assert [each["name"] for each in json.loads(result.stdout)] == [*few]
    assert result.stderr.splitlines()[-1] == "figure-10 (3 of 3)"


def test_refusals(tmp_path: Path) -> None:
    assert refused("reproduce", "figure-3").startswith(
        "Error: NAME: 'figure-3' is not valid: expected one of figure-2,"
    )
    assert refused("reproduce").startswith("Error: NAME is missing: expected a figure or a table, or --all, or --list")
    assert "or --all" in refused("reproduce", "table-3", "--all")
    assert "--seed" in refused("reproduce", "figure-9", "--quick", "--seed", "-1")
    assert "--data" in refused("reproduce", "table-1", "--quick", "--data", str(tmp_path / "nowhere"))
    (tmp_path / "file").write_text("")
    assert "--output" in refused("reproduce", "table-3", "--output", str(tmp_path / "file"))
    with pytest.raises(InvalidInput, match="expected one of figure-2"):
        reproduce("figure 1")


@for_each("name", ["Table 10", "table10", "TAB. 10", "table-010"])
def test_names_as_people_write_them(name: str) -> None:
    assert canonical(name) == "table-10"


# ------------------------------------------------------------------------------------------ simulations, exactly


def test_figure_2_is_exact() -> None:
    made = reproduce("figure-2", quick=True)
    rows = {(row["panel"], row["γ"]): row for row in rows_of(made)}
    prior = IndependentVoters(0.5, 50)
    for m in (1, 3):
        row, noise = rows[f"m = {m}", "subsampling"], subsampling(11, m)
        assert row["mean tv error"] == tv_error(noise, prior)
        assert row["mean disagreement"] == disagreement(noise, prior)
        assert row["worst tv error"] >= max(tv_error(noise, p) for p in (0.55, 0.65, 0.75, 0.9)) - 1e-3
        values = [
            each["value"] for each in rows_of(made, 1) if each["panel"] == f"m = {m}" and each["γ"] == "subsampling"
        ]
        assert values == noise.values.tolist()
    kept = rows["m = 3", "randomized_response"]["mean tv error"] / tv_error(np.zeros(12), prior)
    total, voter = math.exp(1.1), 11e-5  # Lemma A.1 with (11·0.1, 11·1e-5)
    c, delta = math.exp(0.3), 1 - (1 - 1e-5) ** 3
    gamma = (c - 1 + 2 * delta) / (2 * (total - c + (1 + c) * voter) / (total + 1) + c - 1)
    assert kept == pytest.approx(1 - gamma, rel=1e-9)
    assert all(row["proved private"] == "yes" for row in rows.values())
    # The same voters, by Gaussian noise whose curve they state: more is kept, and never more than all points allow.
    for m, row in zip((1, 3), rows_of(made, 2), strict=True):
        assert row["utility, one point"] == pytest.approx(rows[f"m = {m}", "optimal"]["utility"], abs=1e-9)
        assert row["utility, one point"] < row["with its profile"] <= row["at most, with more points"] + 1e-9
    assert rows_of(made, 2)[0]["with its profile"] == pytest.approx(0.8907, abs=1e-3)


@pytest.mark.parametrize(("name", "K"), [("figure-7", 11), ("figure-8", 101)])
def test_known_answers_without_delta(name: str, K: int) -> None:
    made = reproduce(name)
    values: dict[tuple[int, str], list[float]] = {}
    for row in rows_of(made, 1):
        values.setdefault((int(row["panel"][4:]), row["γ"]), []).append(row["value"])
    for (m, curve), gamma in values.items():
        if curve == "optimal" and m == 1:
            np.testing.assert_allclose(gamma, [abs(2 * l / K - 1) for l in range(K + 1)], atol=1e-6)
        if curve in {"optimal", "double_subsampling"} and m >= (K + 1) / 2:
            np.testing.assert_allclose(gamma, 1.0, atol=1e-9)
    useful = {(row["panel"], row["γ"]): row["utility"] for row in rows_of(made)}
    for panel in {panel for panel, _ in useful}:
        order = [useful[panel, curve] for curve in ("subsampling", "double_subsampling", "optimal")]
        assert order[0] <= order[1] + 1e-12 <= order[2] + 2e-9
        assert useful[panel, "randomized_response"] <= useful[panel, "optimal"] + 1e-9
    assert all(row["proved private"] == "yes" for row in rows_of(made))


def test_figure_6_has_the_plain_majority_everywhere() -> None:
    made = reproduce("figure-6")
    optimal = [row for row in rows_of(made) if row["γ"] == "optimal"]
    assert [row["panel"] for row in optimal] == [f"M = {M}" for M in (10, 13, 15, 20)]
    assert all((row["utility"], row["worst tv error"]) == (pytest.approx(1.0), 0.0) for row in optimal)
    assert {row["value"] for row in rows_of(made, 1) if row["γ"] == "optimal"} == {1.0}
    assert "private in 4 of these 4 settings" in " ".join(made.notes)
    # The tables' parameters are the figure's.
    for panel, M in zip(made.settings["panels"], (10, 13, 15, 20), strict=True):
        assert round(panel["target_epsilon"], 4) == printed_value("Table 3", "m * epsilon", M=M)
        assert round(panel["delta"], 4) == printed_value("Table 3", "delta = 1-", M=M)


def test_figure_9_is_zero_at_one_half_by_the_papers_own_measure() -> None:
    rows = rows_of(reproduce("figure-9"))
    at_half = [row for row in rows if row["p_i"] == "0.5"]
    assert len(at_half) == 6
    assert all(row["tv error"] == 0.0 and row["disagreement"] > 0 for row in at_half)
    found = {(row["panel"], row["p_i"], row["γ made for"]): row for row in rows}
    # Known: under U[0, 1] the surrogate errs by 0.038, γ made for the true error by 0.0155 (m = 3).
    assert found["m = 3", "U[0, 1]", "U[0, 1]"]["tv error"] == pytest.approx(0.038, abs=1e-3)
    assert found["m = 3", "U[0, 1]", "U[0, 1], true tv error (ours)"]["tv error"] == pytest.approx(0.0155, abs=1e-3)
    # Disagreement knows the mean of p_i alone.
    for panel in ("m = 3", "m = 5"):
        for belief in {row["γ made for"] for row in rows}:
            same = {found[panel, world, belief]["disagreement"] for world in ("U[0, 1]", "two-sided")}
            assert found[panel, "0.5", belief]["disagreement"] == pytest.approx(same.pop(), rel=1e-12)
            assert not same
    assert rows == rows_of(reproduce("figure-9"))
    assert rows != rows_of(reproduce("figure-9", seed=1))


# ---------------------------------------------------------------------------------------------------- accounting


def test_every_number_that_the_paper_prints_is_met() -> None:
    assert all(row["agree"] == "yes" for row in rows_of(reproduce("table-3")))
    assert len(rows_of(reproduce("table-3"))) == len(accounts("Table 3"))
    for row in rows_of(reproduce("table-4")):
        assert round(row["ours"], 2) == row["paper σ"]
        assert row["paper λ"] == GNMAX_ORDERS[row["paper σ"]]
        assert row["σ at the paper's λ"] > 1.5 * row["paper σ"]
        assert abs(row["λ on the paper's grid"] - row["λ at the minimum"]) <= 0.5
        assert row["σ that one bit needs"] < row["paper σ"]
    assert rows_of(reproduce("table-4"))[0]["σ at the paper's λ"] == pytest.approx(37.7, abs=0.06)


@for_each("number", COST_TABLES)
def test_every_total_that_the_paper_prints_is_met(number: int) -> None:
    """24 ε and 24 δ: (mε, mΔ) by general composition, with its slack."""
    m, rows = COST_TABLES[number], accounts(f"Table {number}")
    totals = [(row.inputs["epsilon"], row.inputs["Q"]) for row in rows if "epsilon" in row.inputs]
    assert totals == [(round(m * each, 4), queries) for each in (0.0892, 0.0852) for queries in (20, 50, 100)]
    for row in rows:
        epsilon = row.inputs.get("epsilon", round(m * 0.0892, 4))
        found = kov_composition(epsilon, round(m * 1e-4, 4), row.inputs["Q"], 1e-4)
        ours = found.epsilon if "epsilon" in row.inputs else found.delta
        assert round(ours, row.decimals) == row.value
    assert printed_value(f"Table {number}", "_total_delta", Q=50) == {2: 0.015, 5: 0.005, 7: 0.025, 9: 0.035}[number]


def test_accounts_are_ordered_and_the_unsound_one_is_not_the_last_word() -> None:
    for number, m in COST_TABLES.items():
        made = reproduce(f"table-{number}", quick=True)
        (row,) = rows_of(made)
        assert made.settings["m"] == m
        assert row["exact, fresh γ_opt"] <= row["optimal"] <= row["paper's account"]
        assert row["models"] == 0.0892
        assert row["votes, GNMax"] < row["votes, γ_opt affected = 1"] < row["paper's account"]
        # A γ for private voters says too much of votes that are given: a total without meaning, or none.
        assert float(row["votes, γ_opt"]) > 10 * row["paper's account"]
        assert row["paper ε"] == pytest.approx(row["paper's account"], abs=0.0006)
        text = "\n".join(" ".join(cells) for table in made.tables for cells in table.written())
        assert NOT_HERE not in text
        assert any("fresh" in note for note in made.notes)


def test_the_copied_numbers_are_those_of_the_tests() -> None:
    package = Path(darrm_papers.darrm.__file__).parent / "printed"
    assert (package / "accounts.csv").read_bytes() == (DATA / "paper_tables.csv").read_bytes()
    assert len(accuracies()) == 4 * 2 * 3 * 3
    assert str(accuracies()[7, "fashion-mnist", 100, "gnmax"]) == "0.79 (0.03)"


# ----------------------------------------------------------------------------------------------------- experiment


def test_accuracy_in_closed_form() -> None:
    unanimous = np.ones((3, 40, K), dtype=np.uint8)
    truth = np.ones((3, 40), dtype=np.uint8)
    plain, coin = NoiseFunction(np.ones(K + 1), K), NoiseFunction(np.zeros(K + 1), K)
    assert accuracy(plain, unanimous, truth, 0) == (1.0, 0.0, 1.0)
    assert accuracy(plain, unanimous, 1 - truth, 0) == (0.0, 0.0, 0.0)
    mean, std, expected = accuracy(coin, unanimous, truth, 0)
    assert expected == 0.5
    assert (abs(mean - 0.5) < 0.2, std > 0) == (True, True)
    assert accuracy(coin, unanimous, truth, 0) == (mean, std, expected)
    # Known: a unanimous vote, (0.2676, 0.0003), one voter affected: 0.887 by γ_opt, 0.641 by GNMax.
    task = Problem(K, Privacy(0.0892, 1e-4), Privacy(0.2676, 0.0003))
    teacher_votes = load_teacher_votes(None, 2, 20, 0)[0]
    optimal = next(
        method.noise for method in labelling_methods(teacher_votes, 3) if method.name == "γ_opt, affected = 1"
    )
    assert round(accuracy(gnmax(task), unanimous, truth, 0)[2], 3) == 0.641
    assert round(accuracy(optimal, unanimous, truth, 0)[2], 3) == 0.887


@pytest.mark.parametrize("number", [1, *(pytest.param(each, marks=pytest.mark.slow) for each in (6, 8, 10))])
def test_the_tables_columns_and_accounts(number: int) -> None:
    m = ACCURACY_TABLES[number]
    made = reproduce(f"table-{number}", quick=True)
    rows = rows_of(made)
    assert len(rows) == 9
    found = {(row["noise"], row["teachers"]): row for row in rows}
    stand_in = f"private, ε = {STAND_IN.epsilon:g}"
    for noise, column in (("GNMax", "gnmax"), ("γ_Sub", "subsampling"), ("γ_opt", "optimal")):
        teachers = "not private" if noise == "GNMax" else "private"
        assert found[noise, teachers]["paper"] == str(accuracies()[m, "mnist", 20, column])
    assert found["γ_opt, affected = 1", "not private"]["paper"] == NEW
    # The stand-in's releases are not (mε, δ)-DP: no number of the paper's account beside them.
    assert {row["paper's total ε"] for row in rows if row["teachers"] == stand_in} == {"-"}
    assert {row["sound total ε"] for row in rows if row["teachers"] == stand_in} == {STAND_IN.epsilon}
    assert {(row["sound total ε"], row["by"]) for row in rows if row["teachers"] == "private"} == {(0.0892, "models")}
    assert found["none", "not private"]["sound total ε"] == "inf"
    task = problem(m, "digits")
    sound = exact_epsilon(
        gnmax(task), fixed_votes(task), 20, total_delta_of(task.target, 20, 1e-4), points=8001, fresh=True
    )
    assert found["GNMax", "not private"]["sound total ε"] == sound
    equal = {(row["noise"], row["teachers"]): row for row in rows_of(made, 1)}
    assert {row["total ε"] for row in equal.values()} == {found["GNMax", "not private"]["paper's total ε"]}
    assert "does not fit" in equal["γ_Sub", "not private"]["setting"]
    for row in rows:
        assert 0 <= row["mean"] <= 1
        assert 0 <= row["expected"] <= 1


def test_the_same_seed_gives_the_same_numbers() -> None:
    first, again, other = (
        [load_teacher_votes(None, 2, 20, seed)[0].votes(voter) for voter in (None, STAND_IN)] for seed in (0, 0, 1)
    )
    fresh = load_teacher_votes.__wrapped__(None, 2, 20, 0)[0]  # not from the cache
    for voter, one, same, different in zip((None, STAND_IN), first, again, other, strict=True):
        assert (one == same).all()
        assert (one == fresh.votes(voter)).all()
        assert (one != different).any()


def test_digits_are_shared_out_without_overlap() -> None:
    teacher_votes = load_teacher_votes(None, 3, 100, 0)[0]
    assert teacher_votes.part == (356 - 100) // K
    for draw in teacher_votes.draws:
        assert len(draw.y) == 256
        both = np.vstack([draw.X, draw.queries])
        assert len(np.unique(both, axis=0)) > 350  # hardly a picture is there twice
        assert np.linalg.norm(draw.X, axis=1) == pytest.approx(1.0)
