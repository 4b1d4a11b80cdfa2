"""Reproduction of the figures and tables of the four papers: `reproduce` computes one, `REPRODUCTIONS` lists them.

    printed              the setting of the paper's experiments, its own numbers as far as they are available, and the
                         tables in which ours stand beside them
    gamma_figures        Figures 2, 6, 7, 8: γ and its error; Figure 9: voters that differ from the design's prior
    cost_tables          Tables 2, 3, 5, 7, 9: the total privacy of the releases; Table 4, Figure 10: GNMax
    teachers             the teachers and their votes, on MNIST and Fashion-MNIST from files
    knowledge_transfer   Tables 1, 6, 8, 10: the accuracy of the released labels

Those of the companion papers are in `darrm_papers.companions`.
Printed theorems of other papers that are false are in `darrm_papers.he_wang_tao.printed`.

Source: S. Jiang, Q. Zhang, G. Joshi,
"Optimized Tradeoffs for Private Prediction with Majority Ensembling", TMLR 11/2024.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from darrm_opt.arguments import whole_number
from darrm_opt.errors import InvalidInput

if TYPE_CHECKING:
    from pathlib import Path

    from darrm_papers.darrm.printed import Reproduction

COMPANIONS = {
    "bagging-tables": "Bagging, Tables 2 to 5, budget columns: accounting",
    "bagging-figures": "Bagging, Figures 1 and 2, at digits size: experiment",
    "pate-column": "Bagging, Tables 4 and 5, what PATE costs: accounting",
    "dpbag-labels": "DPBag, labels of SAA in Table 2 and the supplement: accounting",
    "dpbag-teachers": "DPBag's comparison (SAA, DPBag, GNMax, and γ_opt) on data of scikit-learn: experiment",
    "hwt-composition": "He, Wang, Tao, composition theorems: accounting",
    "hwt-training": "He, Wang, Tao, Theorems 7 (SGLD) and 8 (federated): accounting",
    "sign-sgd": "DaRRM's earlier version, sign-SGD at digits size: experiment",
}
"""Reproductions of the companion papers: name → what it is, and in what sense it is reproduced."""

REPRODUCTIONS = {
    "figure-2": "γ and its error, K = 11, Δ > 0: exact",
    "figure-6": "γ and its error, K = 35, Δ > 0: exact",
    "figure-7": "γ and its error, K = 11, Δ = 0: exact",
    "figure-8": "γ and its error, K = 101, Δ = 0: exact",
    "figure-9": "voters that are not as the design believed: exact, or a mean over drawn p",
    "figure-10": "σ² of GNMax over λ: accounting",
    "table-1": "accuracy of released labels, m = 3: experiment",
    "table-2": "total privacy, m = 3: accounting",
    "table-3": "parameters of Figure 6: accounting",
    "table-4": "noise of GNMax, m = 3: accounting",
    "table-5": "total privacy, m = 1: accounting",
    "table-6": "accuracy of released labels, m = 1: experiment",
    "table-7": "total privacy, m = 5: accounting",
    "table-8": "accuracy of released labels, m = 5: experiment",
    "table-9": "total privacy, m = 7: accounting",
    "table-10": "accuracy of released labels, m = 7: experiment",
    **COMPANIONS,
}
"""Name → what it is, and in what sense it is reproduced."""


def canonical(name: str) -> str:
    """Return the name as in `REPRODUCTIONS`: "Figure 2" and "table2" are names too.

    >>> canonical("Table 10")
    'table-10'
    """
    if name in COMPANIONS:
        return str(name)
    match = re.fullmatch(r"(figure|fig\.?|table|tab\.?)[\s_-]*0*(\d+)", str(name).strip().lower())
    if match is not None:
        label = f"{'figure' if match[1].startswith('f') else 'table'}-{match[2]}"
        if label in REPRODUCTIONS:
            return label
    raise InvalidInput("NAME", name, "one of " + ", ".join(REPRODUCTIONS))


def reproduce(name: str, *, data: str | Path | None = None, quick: bool = False, seed: int = 0) -> Reproduction:
    """Return one figure or table, computed again, beside the paper's numbers.

    >>> reproduce("table-3").tables[0].rows[0][2:]
    (6.4521, 6.452..., 'yes')
    """
    seed = whole_number(seed, "seed", "a whole number, at least 0", least=0)
    name, folder = canonical(name), None if data is None else str(data)
    if name in COMPANIONS:
        from darrm_papers.companions import reproduce_companion

        return reproduce_companion(name, data=folder, quick=quick, seed=seed)
    from darrm_papers.darrm.printed import ACCURACY_TABLES, COST_TABLES

    kind, _, digits = name.partition("-")
    number = int(digits)
    if kind == "table" and number in ACCURACY_TABLES:
        from darrm_papers.darrm.knowledge_transfer import transfer

        return transfer(number, data=folder, quick=quick, seed=seed)
    if kind == "table" or number == 10:
        from darrm_papers.darrm.cost_tables import cost_table, figure_10, table_3, table_4

        if kind == "table" and number in COST_TABLES:
            return cost_table(number, quick=quick)
        return {"table-3": table_3, "table-4": table_4, "figure-10": figure_10}[name](quick=quick)
    from darrm_papers.darrm.gamma_figures import figure_2, figure_6, figure_7, figure_8, figure_9

    if number == 9:
        return figure_9(quick=quick, seed=seed)
    return {2: figure_2, 6: figure_6, 7: figure_7, 8: figure_8}[number](quick=quick)
