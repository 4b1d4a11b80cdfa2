"""Federated clients with different privacy vote among three classes, and do not all attend every time.

Phones answer with ε = 0.8, hospitals with ε = 0.2: the privacy of one answer for one of the client's records, with
new randomness for each answer. A record is at one client. Each released class is 0.4-DP for everybody, and the
release weighs what each group knows. Attendance must not depend on the data, as no table covers clients that stay
away when they are unsure; here coins decide it. A table for every attendance is made in advance, as by

    darrm precompute attendance.toml --url sqlite:///tables.sqlite

    python examples/federated_groups.py
"""

from __future__ import annotations

import numpy as np

from darrm_opt import Privacy
from darrm_opt.accounting import PrivacyBudget
from darrm_opt.mechanisms.table import GroupTableMechanism
from darrm_opt.problem import Problem, VoterGroup
from darrm_opt.release import PrivateVote
from darrm_opt.tables.objective import Truth
from solver_cache import open_store
from solver_cache.precompute.grid import grid_of
from solver_cache.solve import cached_table

CLASSES, ROUNDS, ATTENDS = 3, 6, 0.8
CLIENTS = {"phones": (5, Privacy(0.8), 0.7), "hospitals": (3, Privacy(0.2), 0.85)}
"""How many there are, the privacy of an answer, and the chance that it is right."""

GRID = {
    "classes": CLASSES,
    "target_epsilon": 0.4,
    "affected": 1,
    "groups": [{"K": list(range(K + 1)), "epsilon": voter.epsilon} for K, voter, _ in CLIENTS.values()],
    "objective": f"truth({','.join(str(right) for _, _, right in CLIENTS.values())})",
    "where": "K1 + K2 >= 1",
}


def main() -> None:
    """Make the tables, then release a class in every round."""
    rng, store, budget = np.random.default_rng(1), open_store("memory"), PrivacyBudget(Privacy(2.4))
    specs = list(grid_of(GRID).specs())
    for spec in specs:
        cached_table(spec.problem, spec.objective, store=store)
    print(f"{len(specs)} tables, one for each attendance.")

    spent, right = dict.fromkeys(CLIENTS, 0.0), 0
    for _ in range(ROUNDS):
        truth = rng.integers(CLASSES)
        present = {name: rng.binomial(K, ATTENDS) for name, (K, _, _) in CLIENTS.items()}  # whatever the data are
        present = {name: int(K) for name, K in present.items() if K}
        groups = [VoterGroup(K, CLIENTS[name][1]) for name, K in present.items()]
        problem = Problem(groups=groups, target=Privacy(0.4), affected=1, classes=CLASSES)
        found = cached_table(problem, Truth(tuple(CLIENTS[name][2] for name in present)), store=store)
        if not found.hit:
            raise RuntimeError("no table for this attendance: clients would wait for a solve")
        mechanism = GroupTableMechanism(problem, found.solution.table, fresh=True)
        chances = np.concatenate([np.full(K, CLIENTS[name][2]) for name, K in present.items()])
        wrong = (truth + rng.integers(1, CLASSES, len(chances))) % CLASSES
        votes = np.where(rng.random(len(chances)) < chances, truth, wrong)  # those of the first group first
        label = PrivateVote(mechanism, budget, fresh=True).release(votes)
        right += label == truth
        for number, name in enumerate(present):
            spent[name] += mechanism.group_cost(number, 1, 0.0).epsilon
        attendance = ", ".join(f"{K} {name}" for name, K in present.items())
        print(f"  {attendance}: class {label}, right with chance {found.solution.utility:.3f}")
    print(f"{right} of {ROUNDS} are right. Spent: epsilon = {budget.spent.epsilon:.2f} for everybody;")
    print("; ".join(f"  records of {name}: {epsilon:.2f}" for name, epsilon in spent.items()))


if __name__ == "__main__":
    main()
