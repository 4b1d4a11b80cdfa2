"""Notebooks run cell by cell: journeys print their stored outputs, the others show displayable objects."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tools.notebooks import FOLDER, JOURNEYS, code_cells, read, run_cell, store_outputs

WITHOUT_OUTPUTS = ("first_steps", "plan_and_label")


def notebook(name: str) -> dict[str, Any]:
    content = read(FOLDER / f"{name}.ipynb")
    assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
    assert code_cells(content)
    return content


def test_every_notebook_is_tested() -> None:
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == {*JOURNEYS, *WITHOUT_OUTPUTS}


@pytest.mark.parametrize("name", WITHOUT_OUTPUTS)
def test_a_notebook_runs_and_is_committed_without_outputs(name: str) -> None:
    pytest.importorskip("matplotlib")
    names: dict[str, Any] = {}
    shown = []
    for cell in code_cells(notebook(name)):
        assert (cell["outputs"], cell["execution_count"]) == ([], None)
        value = run_cell("".join(cell["source"]), names)
        for form, start in (("_repr_html_", "<div>"), ("_repr_svg_", "<?xml")):
            if text := getattr(value, form, str)():  # a figure has no HTML form
                assert text.startswith(start)
                shown.append(form)
        assert value is None or repr(value)
    assert "_repr_html_" in shown  # a solution has one


@pytest.mark.parametrize("name", JOURNEYS)
def test_a_journey_prints_its_stored_outputs(name: str) -> None:
    stored, now = notebook(name), notebook(name)
    store_outputs(now)
    assert now == stored, "run python -m tools.notebooks"
    shown = str([cell["outputs"] for cell in code_cells(stored)])
    assert not re.search(r"0x[0-9a-f]{6,}|/tmp|/home", shown)
