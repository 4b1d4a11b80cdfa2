"""Ten language-model prompts vote among six classes; their plurality is released privately, from a file of votes.

Each voter is the same model prompted with other private examples, so one record changes one vote of ten. Votes on
some public questions estimate the distribution of votes, for which the optimal table is designed; `ReleaseLog` keeps
the budget in a file. The same on the command line:

    darrm plan --K 10 --classes 6 --affected 1 --total-epsilon 8 --total-delta 1e-6 --queries 6 --output rule.json
    darrm label votes.csv --solution rule.json --release-log releases.log --queries 6 --output labels.csv

    python examples/class_votes.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from darrm_opt import Privacy
from darrm_opt.accounting.calibrate import release_target
from darrm_opt.planning.table_baselines import table_baselines
from darrm_opt.plurality import PastVotes, TableMechanism, solve_table
from darrm_opt.problem import NOT_PRIVATE, Problem
from darrm_opt.release import PrivateVote, ReleaseLog

K, CLASSES, QUESTIONS = 10, 6, 6
TOTAL = Privacy(8.0, 1e-6)


def votes_of(truth: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return votes of K prompts: each is right with a chance that depends on the question, else any class."""
    is_right = rng.random((len(truth), K)) < rng.beta(8, 1.5, (len(truth), 1))
    return np.where(is_right, truth[:, None], rng.integers(0, CLASSES, (len(truth), K)))


def main(folder: Path) -> None:
    """Write a file of votes, design the rule, label the file within the budget."""
    rng = np.random.default_rng(0)
    public = votes_of(rng.integers(0, CLASSES, 2000), rng)
    truth = rng.integers(0, CLASSES, QUESTIONS)
    np.savetxt(folder / "votes.csv", votes_of(truth, rng), fmt="%d", delimiter=",")

    target = release_target(TOTAL, QUESTIONS)
    problem = Problem(K, NOT_PRIVATE, target, 1, classes=CLASSES)
    prior = PastVotes.of_votes(public, CLASSES)
    solution = solve_table(problem, prior)
    each = f"({target.epsilon:.3f}, {target.delta:.1g})-DP"
    print(f"{QUESTIONS} labels within ({TOTAL.epsilon:g}, {TOTAL.delta:g}): each {each}.")
    print("Chance that the plurality is released, given past votes:")
    print(f"  {'optimal table':18s}{solution.utility:.3f}")
    for mechanism in table_baselines(problem, prior):
        print(f"  {mechanism.name:18s}{mechanism.utility:.3f}")

    release = TableMechanism(problem, solution.table)
    log = ReleaseLog.create(folder / "releases.log", release, budget=TOTAL)
    votes = np.loadtxt(folder / "votes.csv", delimiter=",")
    labels = PrivateVote(release, log).release_many(votes, "first job")
    print(f"{len(labels)} labels released, {np.mean(labels == truth):.0%} of them right; {log.left} releases are left.")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
