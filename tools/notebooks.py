"""``python -m tools.notebooks``: run the notebooks of the journeys, and store their outputs.

Outputs are text: standard output, and the repr of a cell's last expression. No kernel or package is needed.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "examples" / "notebooks"

JOURNEYS = (
    "pate_engineer",
    "federated_engineer",
    "language_model_engineer",
    "researcher",
    "auditor",
    "platform_engineer",
)
"""Notebooks with stored outputs; the others show pictures and times."""

Notebook = dict[str, Any]


def read(path: Path) -> Notebook:
    """Return a notebook as plain data."""
    content: Notebook = json.loads(path.read_text(encoding="utf-8"))
    return content


def code_cells(notebook: Notebook) -> list[dict[str, Any]]:
    """Return the code cells, in order."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """Run the statements of a cell; return the value of its last expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)  # noqa: S102 - the notebooks are ours
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307 - likewise


def store_outputs(notebook: Notebook) -> None:
    """Run the cells in order, and replace their outputs."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(code_cells(notebook), 1):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            value = run_cell("".join(cell["source"]), names)
        outputs: list[dict[str, Any]] = []
        if text := printed.getvalue():
            outputs.append({"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)})
        if value is not None:
            data = {"text/plain": repr(value).splitlines(keepends=True)}
            outputs.append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
        cell |= {"execution_count": number, "outputs": outputs}


def main() -> None:
    """Store the outputs of every journey."""
    for name in JOURNEYS:
        path = FOLDER / f"{name}.ipynb"
        notebook = read(path)
        store_outputs(notebook)
        path.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
