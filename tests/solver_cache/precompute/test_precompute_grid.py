"""Grid files: valid entries, and refusals that name the place in the file."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest
from support.paths import ROOT
from support.refusals import refused as refused_input

from darrm_opt import InvalidInput, Privacy
from darrm_opt.privacy_curves import gaussian, laplace
from darrm_opt.voters import PrivacyProfile
from solver_cache import CORE, DesignSpec, Row, open_store
from solver_cache.precompute.axes import parse
from solver_cache.precompute.grid import grid_of, read_grid
from solver_cache.precompute.plan import GROUP_SIZE, MAX_BATCH, make_plan, warm_start_pays

SMALL: dict[str, Any] = {"K": 5, "epsilon": 0.1, "m": 2}


def values(axis: Any, name: str = "m") -> list[float]:
    problems = [spec.problem for spec in grid_of({**SMALL, "K": 101, name: axis}).specs()]
    return [problem.m or 0.0 if name == "m" else float(getattr(problem, name)) for problem in problems]


@pytest.mark.parametrize(
    ("axis", "expected"),
    [
        (3, [3]),
        ([1, 2.5], [1, 2.5]),
        ({"from": 1, "to": 3, "step": 0.5}, [1, 1.5, 2, 2.5, 3]),
        ({"from": 0.1, "to": 0.3, "step": 0.1}, [0.1, 0.2, 0.3]),  # though 0.1 + 2·0.1 > 0.3
        ({"from": 1, "to": 2.9, "step": 1}, [1, 2]),
        ({"from": 1, "to": 10, "factor": 3}, [1, 3, 9]),
        ({"from": 1, "to": 1000, "factor": 10}, [1, 10, 100, 1000]),
        ({"from": 1, "to": 5, "points": 3}, [1, 3, 5]),
        ({"from": 1, "to": 16, "points": 5, "spacing": "geometric"}, [1, 2, 4, 8, 16]),
        ({"from": 2, "to": 2, "step": 1}, [2]),
        ("(K-1)/50", [2]),
        (["K/101", "min(K, 7)"], [1, 7]),
    ],
)
def test_values_lists_and_ranges(axis: Any, expected: list[float]) -> None:
    assert values(axis) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1-(1-Delta)^m", 1 - 0.5**3),
        ("2^3^2", 512),
        ("-2^2", -4),
        ("2*-3", -6),
        ("1 - 2 - 3", -4),
        ("8/4/2", 1),
        ("2**0.5", math.sqrt(2)),
        ("max(1, m, 2)", 3),
        ("floor(2.5)+ceil(2.5)", 5),
        ("log(exp(2))+sqrt(4)", 4),
        ("1e-3*1E3", 1),
        ("m < 4 and Delta == 0.5", True),
        ("m >= 4", False),
        ("inf", math.inf),
    ],
)
def test_formulas(text: str, expected: float) -> None:
    assert parse(text, {"m", "Delta"})({"m": 3, "Delta": 0.5}) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1+", r"It cannot be read: invalid syntax\."),
        ("(1", "was never closed"),
        ("1 2", "It cannot be read: invalid syntax"),
        ("__import__('os')", "cannot be read"),
        ("m.real", "'m.real' is not allowed in a formula"),
        ("1_000", "'1_000' cannot be read"),
        ("0x10", "'0x10' cannot be read"),
        ("1 # 2", "'# 2' cannot be read"),
        ("min(*m)", r"'min\(\*m\)' is not allowed|'\*m' is not allowed"),
        ("1 if m else 2", "is not allowed in a formula"),
        ("1 < m < 3", "'1 < m < 3' is not allowed in a formula"),
        ("True", "'True' is not allowed in a formula"),
        ("min()", "is not allowed in a formula"),
        ("open", "'open' is not known; known are ceil, exp, floor"),
        ("1" * 300, "at most 200 characters"),
        ("(" * 199, "more than 40 brackets"),
        ("-" * 199, "invalid syntax"),
        ("__import__", "'__import__' is not known"),
    ],
)
def test_invalid_formulas_are_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        parse(text, {"m"})


@pytest.mark.parametrize("text", ["1/0", "log(0)", "(0-1)^0.5", "10^400", "inf-inf", "K^1e9"])
def test_a_formula_without_a_value_names_its_place(text: str) -> None:
    grid = grid_of({"grid": [{"K": [5], "epsilon": 0.1, "target_epsilon": text}]})
    with pytest.raises(InvalidInput, match=r"^grid\[0\]\.target_epsilon = .* expected a formula with a value"):
        list(grid.specs())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"k": 3}, r"^k is not a parameter of a grid\. Did you mean K\?$"),
        ({"eps": 0.5}, r"^eps is not a parameter of a grid\. Did you mean epsilon\?$"),
        ({"zzz": 3}, r"^zzz is not a parameter of a grid\. There are K, classes, epsilon, "),
        ({"K": "eleven"}, r"^K = 'eleven' .*'eleven' is not known"),
        ({"K": []}, r"^K = \[\] .*at least one value"),
        ({"K": True}, r"^K = True"),
        ({"K": 5.5}, r"^K = 5.5 .*whole number.*At K = 5.5"),
        ({"K": [5, {"from": 1}]}, r"^K\[1\] = "),
        ({"m": {"from": 1, "to": 5}}, r"^m = .*exactly one of step, factor and points"),
        ({"m": {"from": 1, "to": 5, "step": 0}}, r"^m\.step = 0 .*above 0"),
        ({"m": {"from": 1, "to": 5, "step": 1e-9}}, r"^m\.step = 1e-09 .*at most 1000000 values"),
        ({"m": {"from": 5, "to": 1, "step": 1}}, r"^m\.to = 1 .*at least 5"),
        ({"m": {"from": 0, "to": 1, "factor": 2}}, r"^m\.from = 0 .*above 0"),
        ({"m": {"from": 1, "to": 5, "factor": 1}}, r"^m\.factor = 1 .*above 1"),
        ({"m": {"from": 1, "to": 5, "points": 1}}, r"^m\.points = 1 .*2 to"),
        ({"m": {"from": 1, "to": 5, "stop": 1}}, r"^m\.stop = 1 .*one of from, to"),
        ({"m": {"to": 5, "step": 1}}, r"^m\.from is missing"),
        ({"m": {"from": 1, "to": math.inf, "step": 1}}, r"^m\.to = inf .*finite"),
        ({"m": {"from": 1, "to": 5, "step": 1, "spacing": "geometric"}}, r"^m\.spacing = 'geometric'"),
        ({"m": "delta", "delta": "m/100"}, r"^GRID = .* circular"),
        ({"m": [1, 0]}, r"^m = 0 .*At K = 5, epsilon = 0.1, m = 0"),
        ({"target_epsilon": 1}, r"^m = 2 .*exactly one of m and target_epsilon"),
        ({"affected": [1, 9]}, r"^affected = 9 .*at most K = 5"),
        ({"objective": ["rectangular", "quadratic"]}, r"^objective = 'quadratic'"),
        ({"objective": "histogram(1,2,3)"}, r"histogram"),
        ({"shape": "convex"}, r"^shape = 'convex'"),
        ({"where": "m <"}, r"^where = 'm <' .*invalid syntax"),
        ({"where": 3}, r"^where = 3 .*a condition"),
        ({"grid": 3}, r"^grid = 3"),
        ({"grid": [{"Kay": 3}]}, r"^grid\[0\]\.Kay is not a parameter"),
        ({"grid": [{}, {"m": [1, {}]}]}, r"^grid\[1\]\.m\[1\] = \{\}"),
    ],
)
def test_invalid_entries_are_refused_with_their_place(change: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        list(grid_of({**SMALL, **change}).specs())


@pytest.mark.parametrize("name", ["K", "epsilon", "m"])
def test_missing_entries_are_reported(name: str) -> None:
    with pytest.raises(InvalidInput, match=rf"^{name} is missing"):
        grid_of({key: value for key, value in SMALL.items() if key != name})


def test_a_link_to_a_field_is_a_formula() -> None:
    grid = grid_of({**SMALL, "Delta": [1e-3, 1e-2], "m": [1, 2], "delta": "1-(1-Delta)^m"})
    default = grid_of({**SMALL, "Delta": [1e-3, 1e-2], "m": [1, 2]})
    assert [r.key for r in grid.specs()] == [r.key for r in default.specs()]
    linked = grid_of({"K": "2*affected+1", "affected": [1, 2], "epsilon": math.inf, "target_epsilon": 0.3, "delta": 0})
    assert [(r.problem.K, r.problem.affected) for r in linked.specs()] == [(3, 1), (5, 2)]


def test_where_filters_combinations() -> None:
    grid = grid_of({"K": [3, 5, 7], "epsilon": [0.1, 0.2], "m": [1, 2, 3], "where": "m < (K+1)/2"})
    expected = [(K, e, m) for K in (3, 5, 7) for e in (0.1, 0.2) for m in (1, 2, 3) if m < (K + 1) / 2]
    assert [(r.problem.K, r.problem.voter.epsilon, r.problem.m) for r in grid.specs()] == expected


def test_neighbours_differ_in_their_target_only() -> None:
    grid = grid_of({"delta": [0, 1e-3], "m": [1, 2], "K": [3, 5], "epsilon": [0.1], "Delta": [0, 1e-5]})
    kin = [(r.problem.K, r.problem.voter) for r in grid.specs()]
    assert len(kin) == 16
    assert len({*kin}) == 1 + sum(a != b for a, b in itertools.pairwise(kin)) == 4


def test_toml_and_json_are_equivalent(tmp_path: Path) -> None:
    toml, plain = tmp_path / "grid.toml", tmp_path / "grid.json"
    toml.write_text("K = [3, 5]\nepsilon = inf\naffected = 1\ntarget_epsilon = { from = 0.1, to = 0.3, step = 0.1 }\n")
    plain.write_text(
        json.dumps(
            {"K": [3, 5], "epsilon": "inf", "affected": 1, "target_epsilon": {"from": 0.1, "to": 0.3, "step": 0.1}}
        )
    )
    keys = [[r.key for r in read_grid(path).specs()] for path in (toml, plain)]
    assert keys[0] == keys[1]
    assert len({*keys[0]}) == 6


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("grid.toml", "K = ["),
        ("grid.json", "{"),
        ("grid.json", "[1]"),
        ("grid.toml", "K = \xff"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode("latin-1"))
    with refused_input("GRID"):
        read_grid(path)
    with refused_input("GRID"):
        read_grid(tmp_path / "none.toml")


@pytest.mark.parametrize(("name", "problems"), [("paper", 116), ("pate", 960)])
def test_the_example_grids(name: str, problems: int) -> None:
    specs = [*read_grid(ROOT / "examples" / "grids" / f"{name}.toml").specs()]
    assert len({spec.key for spec in specs}) == problems


# ------------------------------------------------------------------------------------------------ plans


def cost(spec: DesignSpec) -> float:
    return spec.problem.K / 100


def row(key: str, core: int = CORE) -> Row:
    return Row(key, core, "{}", "")


def test_a_plan_counts_stored_answers_and_changes_nothing() -> None:
    grid, store = grid_of({**SMALL, "m": [1, 1.5, 2]}), open_store("memory")
    keys = [r.key for r in grid.specs()]
    store.put(row(keys[0]))
    store.put(row(keys[1], core=99))  # of another version, so it is solved again
    plan = make_plan(grid.specs(), store, cost)
    assert (plan.problems, plan.stored, plan.missing, plan.repeated) == (3, 1, 2, 0)
    assert plan.seconds == pytest.approx(0.1)
    assert len([*store.rows()]) == 2
    assert sum(store.jobs.counts().values()) == 0
    twice = make_plan([*grid.specs(), *grid.specs()], store, cost)
    assert (twice.missing, twice.repeated) == (2, 2)


def test_expensive_problems_are_first_and_cheap_ones_are_grouped() -> None:
    grid = grid_of({**SMALL, "K": [3, 5, 201, 51], "m": {"from": 1, "to": 1.9, "step": 0.1}})
    plan = make_plan(grid.specs(), open_store("memory"), cost)
    seconds = [batch.seconds for batch in plan.batches]
    assert seconds == sorted(seconds, reverse=True)
    assert len(plan.batches[0].specs) == 1
    assert all(len(batch.specs) <= MAX_BATCH for batch in plan.batches)
    assert max(len(batch.specs) for batch in plan.batches) > 5


def test_a_lead_depends_only_on_the_grid() -> None:
    grid = grid_of({"K": 101, "epsilon": 0.1, "Delta": 1e-5, "m": {"from": 1, "to": 20, "points": 30}})
    specs = [*grid.specs()]
    assert warm_start_pays(tuple(specs[:GROUP_SIZE]))
    whole = make_plan(specs, open_store("memory"), cost)
    leads = {r: batch.lead for batch in whole.batches for r in batch.specs}
    assert {len(batch.specs) for batch in whole.batches} == {12, 6}
    assert all(batch.specs[0] == batch.lead for batch in whole.batches)
    store = open_store("memory")
    for i in (1, 6, 7, 20):
        store.put(row(specs[i].key))
    for batch in make_plan(specs, store, cost).batches:
        assert {leads[r] for r in batch.specs} == {batch.lead}


def test_cheap_searches_have_no_lead() -> None:
    for problem in ({"K": 51, "Delta": 0}, {"K": 11, "Delta": 1e-5}, {"K": 401, "Delta": 1e-5}):
        grid = grid_of({"epsilon": 0.1, "m": [1, 2, 3, 4], **problem})
        assert {batch.lead for batch in make_plan(grid.specs(), open_store("memory"), cost).batches} == {None}


def test_voters_of_a_grid_may_have_profiles() -> None:
    points = [[0, 0.013], [0.1, 1e-5]]
    content = {"K": [5, 7], "profile": ["gaussian(0.0325)", "0:0.013,0.1:1e-5"], "target_epsilon": 0.1, "delta": 1e-5}
    grid = grid_of(content)
    specs = list(grid.specs())
    assert [spec.problem.K for spec in specs] == [5, 7, 5, 7]
    assert specs[0].problem.voter == gaussian(0.0325).profile(Privacy(0.0, 1e-5))
    assert specs[2].problem.voter == PrivacyProfile(points)
    assert sorted(map(repr, grid.parts[0].sample(grid.size))) == sorted(map(repr, specs))
    # a profile as points or as a curve; the default δ of the release is then the least of its points
    for stated in (points, {"gaussian": {"mu": 0.0325}}):
        (alone,) = grid_of({"K": 5, "profile": stated, "target_epsilon": 0.1}).specs()
        assert alone.problem.target.delta == alone.problem.voter.delta
    groups = [{"K": 3, "profile": "laplace(2)"}, {"K": 2, "epsilon": 0.5}]
    (table,) = grid_of({"groups": groups, "target_epsilon": 1}).specs()
    assert table.problem.groups[0].voter == laplace(2).profile(points=3)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"K": 5, "profile": "0:0.1", "epsilon": 0.1, "target_epsilon": 1}, "no epsilon with a profile"),
        ({"K": 5, "profile": "0:0.1", "m": 1}, "target_epsilon"),
        ({"K": 5, "profile": "0:0.1", "m": 1, "target_epsilon": 1}, "no m with a profile"),
        ({"K": 5, "profile": "gaussian(-1)", "target_epsilon": 1}, "profile"),
        ({"K": 5, "profile": [], "target_epsilon": 1}, "profile"),
        ({"K": 5, "classes": 3, "profile": "0:0.1", "target_epsilon": 1}, "no profile with classes"),
        ({"groups": [{"K": 5, "profile": "0:0.1", "Delta": 0.1}], "target_epsilon": 1}, "groups"),
    ],
)
def test_invalid_profiles_are_refused(content: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        list(grid_of(content).specs())
