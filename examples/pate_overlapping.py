"""PATE with overlapping parts: 51 teachers on three partitions of the digits, so that a record influences 3 of them.

The teachers are not private (ε = inf). A record is in one part of each of three partitions, hence affected = 3,
whatever the teachers do with it. The planner finds a γ with which all labels fit the total, and compares GNMax; then
the labels are released, and charged to a release log that survives a crash.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from darrm_opt import Privacy, PrivateVote, plan
from darrm_opt.release import BudgetSpent, ReleaseLog
from darrm_opt.teachers import collect_votes, slot_partition, train_teachers
from darrm_papers.dpbag import load_dataset, teacher

PARTS, PARTITIONS, LABELS = 17, 3, 20
TOTAL = Privacy(10.0, 1e-4)


def main() -> None:
    """Plan, train, release."""
    K = PARTS * PARTITIONS
    # Planned on public numbers, before a record is looked at. That teachers of digits mostly agree is public knowledge.
    answer = plan(
        K,
        None,
        LABELS,
        TOTAL,
        affected=PARTITIONS,
        prior="shared(0.3,0.3)",
        mechanisms=("majority", "optimal", "gnmax", "optimal_sequence"),
    )
    print(f"{K} teachers that are not private, a record reaches {PARTITIONS}; {LABELS} labels within {TOTAL}")
    for option in answer.options:
        accuracy = option.outcome if option.accuracy is None else f"{option.accuracy:.3f}"
        print(f"  {option.name:<16} {accuracy}")
    print(answer.advice)
    best = answer.best
    if best is None or best.release is None:
        raise SystemExit("nothing to release")

    data = load_dataset("digits", LABELS)  # fives against eights; the held-out points are the public pool
    partition = slot_partition(len(data.y), PARTS, PARTITIONS)
    teachers = train_teachers(teacher("naive-bayes"), data.X, data.y, partition)
    votes = collect_votes(teachers, data.pool).reshape(K, LABELS).T  # a row for each label; private, never shown
    plain = 2 * votes.sum(axis=1) > K

    with tempfile.TemporaryDirectory() as folder:
        log = ReleaseLog.create(Path(folder, "releases.log"), best.release, queries=LABELS)
        release = PrivateVote(best.release, log)
        labels = release.release_many(votes, "the pool")
        print(f"right: {np.mean(labels == data.truth):.2f} of the private labels")
        print(f"right: {np.mean(plain == data.truth):.2f} of the teachers' plain majority, which must not be released")
        repeated = release.release_many(votes, "the pool")
        print(f"asked again under the same name, the same labels, for nothing: {bool((repeated == labels).all())}")
        try:
            release.release_many(votes[:1])
        except BudgetSpent as refusal:
            print(f"one label more is refused: {refusal}")


if __name__ == "__main__":
    main()
