"""Evaluate the paper's Figure 6 setting at every one of its 26,978,328 corner vectors; takes some minutes.

    PYTHONPATH=tests python -m campaigns.figure_6

The short form, the vectors among which the worst is, is in papers/tests/darrm/test_figure_6.py.
"""

from __future__ import annotations

import sys

import numpy as np

from darrm_opt import Problem
from darrm_opt.design.constraint import ConstraintGenerator, PrivacyConstraint
from darrm_opt.noise import NoiseFunction

PROBLEM = Problem.from_allowance(K=35, m=6.4521, epsilon=0.1, Delta=1e-5, delta=0.1001)
BLOCK = 20_000


def main() -> int:
    """Print the worst value beside the limit; 1 if γ = 1 is not private."""
    constraint, majority = PrivacyConstraint.of(PROBLEM), NoiseFunction(np.ones(PROBLEM.K + 1))
    vectors, worst = 0, -np.inf
    for block in ConstraintGenerator(PROBLEM).blocks(BLOCK):
        vectors += len(block)
        worst = max(worst, float(constraint.values(majority.signed, block).max()))
    sys.stdout.write(f"{vectors:,} vectors: worst {worst:.12f}, limit {constraint.limit:.12f}\n")
    return int(not worst + constraint.error(1.0) < constraint.limit)


if __name__ == "__main__":
    sys.exit(main())
