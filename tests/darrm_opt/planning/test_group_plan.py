"""Plans for groups of voters: all options are within the total by enumeration, and none beats the best table."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from support.group_exact import Enumeration
from support.refusals import refused

from darrm_opt import Privacy
from darrm_opt.mechanisms.table import GroupTableMechanism
from darrm_opt.planning import group_plan, plan
from darrm_opt.planning.group_plan import plan_groups
from darrm_opt.planning.ranking import FRESH
from darrm_opt.questions.plan import ReleasePlan
from darrm_opt.tables.solver import TableSolution, solve_table

GROUPS = [(2, 0.1, 0.0), (2, 0.5, 0.0)]


@pytest.mark.parametrize(("fresh", "queries"), [(True, 3), (False, None)])
def test_the_plurality_of_fresh_votes_is_limited_to_the_requested_answers(*, fresh: bool, queries: int | None) -> None:
    best = plan_groups([(2, 0.1), (2, 0.2)], 3, Privacy(3.0), fresh=fresh).options[0]
    assert (best.name, best.queries) == ("majority", queries)


@pytest.mark.parametrize("queries", [1, 2])
def test_options_are_within_the_total_and_the_best_table_is_first(queries: int) -> None:
    total = Privacy(0.7, 1e-3)
    found = plan_groups(GROUPS, queries, total, fresh=True)
    assert found.best is found.options[0]
    assert (found.best.name, found.verdict) == ("optimal", "noisy majority")
    assert {"one_voter", "worst_group", "best_subset", "randomized_response"} <= {one.name for one in found.options}
    every = Enumeration.of(GROUPS, 2, 4)
    worth = every.plurality_worth()
    for option in found.options:
        assert isinstance(option.mechanism, GroupTableMechanism)
        assert option.spent is not None
        assert option.right is not None
        assert option.spent.epsilon <= total.epsilon
        table = np.array([[float(x) for x in option.mechanism.table.probabilities(n)] for n in every.counts])
        assert option.right == pytest.approx(float((worth * table).sum()), abs=1e-9)
        p, q = every.before @ table, every.after @ table
        for _ in range(queries - 1):
            p, q = (np.einsum("no,nr->nor", side, one).reshape(len(p), -1) for side, one in ((p, p), (q, q)))
        lost = np.maximum(p - math.exp(total.epsilon) * q, 0).sum(axis=1).max()
        assert lost <= total.delta + 1e-12


def test_each_mechanism_names_its_own_parameter() -> None:
    options = {option.name: option.parameters for option in plan_groups(GROUPS, 1, Privacy(0.6), fresh=True).options}
    assert options["optimal"].keys() == {"epsilon", "delta"}
    assert {options[name].keys() - {"epsilon", "delta"} == {own} for name, own in OWN_PARAMETERS.items()} == {True}
    asked = ReleasePlan.of({"groups": [{"K": 3, "epsilon": 0.1}, {"K": 2, "epsilon": 0.5}], "total_epsilon": 0.6})
    text = asked.text_of(asked.answer())
    rows = {line.split()[0]: line for line in text.splitlines() if line.startswith("  ")}
    assert re.search(r" scale \d\S*$", rows["laplace"])
    assert re.search(r" epsilon 0\.6, delta 0$", rows["optimal"])


OWN_PARAMETERS = {"laplace": "scale", "gnmax": "sigma", "exponential": "rate", "subsampling": "voters"}


def test_answers_within_the_privacy_of_the_voters_need_no_noise() -> None:
    trained = plan_groups(GROUPS, 1000, Privacy(1.2))
    assert (trained.verdict, trained.options[0].account) == ("plain majority", "post-processing")
    fresh = plan_groups(GROUPS, 2, Privacy(2.4), fresh=True)
    assert (fresh.verdict, fresh.options[0].account) == ("plain majority", "votes")
    assert plan_groups(GROUPS, 2, Privacy(1.1), fresh=True).verdict != "plain majority"


def test_several_answers_of_voters_trained_once_have_fixed_votes() -> None:
    total = Privacy(0.4)
    found = plan_groups([(4, 0.5), (3, 1.0)], 3, total, 1)
    fixed = plan(7, None, 3, total, 1, "dirichlet(1)")
    assert [(one.name, one.utility) for one in found.options] == [(one.name, one.utility) for one in fixed.options]


def test_groups_of_equal_voters_have_the_plan_of_equal_voters() -> None:
    found = plan_groups([(3, 0.5), (4, 0.5)], 1, Privacy(0.8))
    known = plan(7, Privacy(0.5), 1, Privacy(0.8))
    assert [(one.name, one.utility) for one in found.options] == [(one.name, one.utility) for one in known.options]
    weighted = plan_groups([(2, 0.5), (1, 0.5)], 1, Privacy(0.8), weights=[1.0, 3.0])
    assert isinstance(weighted.options[0].mechanism, GroupTableMechanism)
    with refused("prior"):
        plan_groups(GROUPS, 1, Privacy(0.6), prior="truth(0.6,0.9)")


def test_groups_of_fresh_voters_cause_a_warning_for_several_queries() -> None:
    total = Privacy(0.7, 1e-3)
    assert plan_groups(GROUPS, 2, total, fresh=True).warnings == (FRESH,)
    assert plan_groups(GROUPS, 1, total, fresh=True).warnings == ()


def test_a_time_limit_is_that_of_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []

    def solve(*args: Any, time_limit: float | None = None, **options: Any) -> TableSolution:
        if time_limit is not None:  # else for a baseline
            given.append(time_limit)
        return solve_table(*args, time_limit=time_limit, **options)

    monkeypatch.setattr(group_plan, "solve_table", solve)
    whole = plan_groups(GROUPS, 2, Privacy(0.7, 1e-3), fresh=True, time_limit=600.0)
    assert len(given) > 2
    assert given == sorted(given, reverse=True)
    assert given[-1] < given[0] < 600.0
    hurried = plan_groups(GROUPS, 2, Privacy(0.7, 1e-3), fresh=True, time_limit=1e-9)
    assert [one.name for one in hurried.options] == ["optimal"]
    assert hurried.warnings[:-1] == whole.warnings
    assert (hurried.options[0].spent or Privacy(math.inf)).epsilon <= 0.7
    with refused("time_limit"):
        plan_groups(GROUPS, 2, Privacy(0.7, 1e-3), fresh=True, time_limit=0.0)
