"""The notebooks run, cell by cell, and what a cell shows can be shown; they are committed without outputs."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest
from support.paths import ROOT

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


def cells(path: Any) -> list[dict[str, Any]]:
    content = json.loads(path.read_text(encoding="utf-8"))
    assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
    found: list[dict[str, Any]] = content["cells"]
    return found


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """Run a cell as a notebook does: its statements, then its last expression, which is its value."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)  # noqa: S102 — the notebooks are ours
    if last is None:
        return None
    assert isinstance(last, ast.Expr)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307 — likewise


def test_there_are_two() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["first_steps", "plan_and_label"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Any) -> None:
    pytest.importorskip("matplotlib")
    names: dict[str, Any] = {}
    shown = []
    for cell in cells(path):
        if cell["cell_type"] == "code":
            value = run_cell("".join(cell["source"]), names)
            for form, start in (("_repr_html_", "<div>"), ("_repr_svg_", "<?xml")):
                if text := getattr(value, form, str)():  # a figure has no HTML of its own
                    assert text.startswith(start)
                    shown.append(form)
            assert value is None or repr(value)
    assert "_repr_html_" in shown  # a solution shows itself


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_committed_without_outputs(path: Any) -> None:
    code = [cell for cell in cells(path) if cell["cell_type"] == "code"]
    assert code
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
