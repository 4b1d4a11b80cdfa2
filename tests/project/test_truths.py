"""Sentences that were once wrong in the texts: no text says them again."""

from __future__ import annotations

import re

import pytest
from support.paths import ROOT

TEXTS = [
    path
    for folder in ("api", "darrm_opt", "darrm_client", "solver_cache", "docs", "examples")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in {".py", ".md", ".js", ".html", ".ipynb"}
] + [ROOT / "README.md"]

NEVER = {
    "γ is the weight of the majority against a fair coin; the bit is the majority with (1 + γ)/2": (
        r"γ(\(l\))?,? (is )?(the )?probability of (releasing )?the (true )?majority|"
        r"is released with probability γ|release[sd]? the (true )?majority with probability γ"
    ),
    "δ below Δ alone does not make the answer noisy: (1e-6, 1e-4) keeps 0.9075": "so the answer is almost all noise",
}


@pytest.mark.parametrize("reason", NEVER)
def test_no_text_says_what_was_wrong(reason: str) -> None:
    assert len(TEXTS) > 200
    pattern = re.compile(NEVER[reason])
    wrong = [str(path.relative_to(ROOT)) for path in TEXTS if pattern.search(" ".join(path.read_text("utf-8").split()))]
    assert wrong == []
