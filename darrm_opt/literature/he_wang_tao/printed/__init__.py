"""Theorems of the reviewed source that are false as printed, to reproduce its numbers and nothing else.

Every function here raises `UnsoundBound`, with a counterexample, unless ``acknowledge_unsound=True``; no accountant,
budget or service calls any of them. What to use instead: `optimal`, `kov_composition_of_sequence`, `tail_composition`,
`sgld`, `federated`, `high_probability`.

Source: F. He, B. Wang, D. Tao,
"Tighter Generalization Bounds for Iterative Differentially Private Learning Algorithms".
"""

from darrm_opt.accounting.errors import Counterexample
from darrm_opt.literature.he_wang_tao.printed.composition import (
    PrintedTheorem,
    composition_i_printed,
    composition_ii_printed,
    composition_iii_printed,
    composition_v_printed,
    loss_tail_printed,
)
from darrm_opt.literature.he_wang_tao.printed.learning import (
    federated_printed,
    federated_step_printed,
    high_probability_printed,
    sgld_last_term_printed,
    sgld_printed,
    sgld_step_printed,
)

__all__ = [
    "Counterexample",
    "PrintedTheorem",
    "composition_i_printed",
    "composition_ii_printed",
    "composition_iii_printed",
    "composition_v_printed",
    "federated_printed",
    "federated_step_printed",
    "high_probability_printed",
    "loss_tail_printed",
    "sgld_last_term_printed",
    "sgld_printed",
    "sgld_step_printed",
]
