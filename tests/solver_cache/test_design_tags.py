"""Stored designs and their tags: the same in memory, SQLite and PostgreSQL, and separate from the verified rows."""

from __future__ import annotations

import json
import math
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from support.refusals import refused
from support.waiting import together

from darrm_opt import InvalidInput, Privacy, Problem, solve
from darrm_opt.record import digest
from solver_cache import (
    CORE,
    DesignSpec,
    ReadOnlyCache,
    Row,
    Store,
    cached_solve,
    check,
    open_store,
    recall,
)
from solver_cache.database.designs import MAX_TAGS, DesignFilter, StoredDesign
from solver_cache.model import row_of

PROBLEMS = [
    Problem.from_allowance(K=3, m=1, epsilon=0.1),
    Problem.from_allowance(K=5, m=3, epsilon=0.1),
    Problem.from_allowance(K=5, m=2, epsilon=0.1, Delta=1e-5),
    Problem(5, Privacy(math.inf), Privacy(1.0, 1e-5), 1),
    Problem.from_allowance(K=5, m=3, epsilon=0.7),
]
ROWS = [row_of(solve(problem)) for problem in PROBLEMS]


@pytest.fixture
def filled(store: Store) -> Store:
    for row in ROWS:
        store.put(row)
    return store


def keys(store: Store, **which: float | str) -> set[str]:
    return {design.key for design in store.designs.list(DesignFilter(**which))}  # type: ignore[arg-type]  # by name


def test_a_list_matches_its_records(filled: Store) -> None:
    found = {design.key: design for design in filled.designs.list()}
    assert set(found) == {row.key for row in ROWS}
    for problem, row in zip(PROBLEMS, ROWS, strict=True):
        design = found[row.key]
        assert design == filled.designs.get(row.key)
        assert design.about is not None
        assert (design.about.voters, design.about.voter_epsilon) == (problem.K, problem.voter.epsilon)
        assert (design.about.target_epsilon, design.about.target_delta) == (
            problem.target.epsilon,
            problem.target.delta,
        )
        assert design.about.utility == json.loads(row.record)["utility"]
        assert design.created.endswith("+00:00")
        assert design.tags == ()


def test_pages_are_consecutive_and_complete(filled: Store) -> None:
    whole = filled.designs.list()
    assert [(design.created, design.key) for design in whole] == sorted(
        ((design.created, design.key) for design in whole), reverse=True
    )
    paged: list[StoredDesign] = []
    after: str | None = None
    while page := filled.designs.list(limit=2, after=after):
        paged += page
        after = page[-1].key
    assert paged == list(whole)


def test_filters_select_by_fields_of_the_question(filled: Store) -> None:
    names = [row.key for row in ROWS]
    assert keys(filled, K=5) == set(names[1:])
    assert keys(filled, epsilon=0.1) == set(names[:3])
    assert keys(filled, epsilon=math.inf) == {names[3]}
    assert keys(filled, m=3) == {names[1], names[4]}  # 0.7 · 3 is 2.0999999999999996
    assert keys(filled, m=3, epsilon=0.1) == {names[1]}
    assert keys(filled, K=4) == set()


def test_tags_of_other_versions_are_not_found(filled: Store) -> None:
    filled.put(Row("old", CORE - 1, "{}", digest("{}")))
    filled.put(Row("odd", CORE, "{}", digest("{}")))
    assert filled.designs.get("old") is None
    assert filled.designs.tag("old", "a") is None
    odd = filled.designs.get("odd")
    assert odd is not None
    assert odd.about is None
    assert keys(filled) == {row.key for row in ROWS} | {"odd"}
    assert "odd" not in keys(filled, K=5)


def test_tags_are_added_removed_and_filtered(filled: Store) -> None:
    first, second = ROWS[0].key, ROWS[1].key
    for tag in ("b", "a", "a"):
        filled.designs.tag(first, tag)
    filled.designs.tag(second, "b")
    design = filled.designs.get(first)
    assert design is not None
    assert design.tags == ("a", "b")
    assert (keys(filled, tag="a"), keys(filled, tag="b")) == ({first}, {first, second})
    assert keys(filled, tag="b", K=5) == {second}
    without = filled.designs.untag(first, "a")
    assert without is not None
    assert without.tags == ("b",)
    assert filled.designs.untag(first, "a") == without
    assert filled.designs.untag("nothing", "a") is None
    assert filled.designs.tag("nothing", "a") is None


def test_a_tag_changes_no_row_and_no_proof(filled: Store) -> None:
    before, spec = list(filled.rows()), DesignSpec(PROBLEMS[1])
    proved = recall(spec, filled)
    filled.designs.tag(ROWS[1].key, "good")
    assert list(filled.rows()) == before
    assert list(check(filled)) == []
    assert recall(spec, filled) is proved  # the proof cached in this process


def test_tags_live_as_long_as_the_row(store: Store) -> None:
    spec = DesignSpec(PROBLEMS[0])
    bad = store.put(Row(spec.key, CORE, "[]", digest("[]")))
    store.designs.tag(spec.key, "mine")
    assert cached_solve(PROBLEMS[0], store=store).decision == "damaged"
    mended = store.get(spec.key)
    design = store.designs.get(spec.key)
    assert mended is not None
    assert mended != bad
    assert design is not None
    assert (design.tags, design.about is not None) == (("mine",), True)
    assert store.remove(mended)
    assert store.designs.get(spec.key) is None
    store.put(mended)
    assert keys(store, tag="mine") == set()


def test_tags_of_a_design_are_limited(filled: Store) -> None:
    key = ROWS[0].key
    for number in range(MAX_TAGS):
        filled.designs.tag(key, f"t{number}")
    assert filled.designs.tag(key, "t0") == filled.designs.get(key)  # an existing tag
    with refused("tag", "'more'"):
        filled.designs.tag(key, "more")


def test_concurrent_tagging_succeeds(filled: Store) -> None:
    together(*(lambda n=n: filled.designs.tag(ROWS[0].key, f"t{n % 4}") for n in range(8)))
    design = filled.designs.get(ROWS[0].key)
    assert design is not None
    assert design.tags == ("t0", "t1", "t2", "t3")


def test_invalid_tags_are_refused(filled: Store) -> None:
    for tag in ("", "a b", "-a", "ä", "a" * 65, "a/b", "a\n", "'; --"):
        for use in (filled.designs.tag, filled.designs.untag):
            with refused("tag"):
                use(ROWS[0].key, tag)
        with refused("tag"):
            DesignFilter(tag=tag)


@pytest.mark.parametrize(
    ("limit", "after", "name"), [(0, None, "limit"), (1001, None, "limit"), (5, "nothing", "after")]
)
def test_invalid_pages_are_refused(filled: Store, limit: int, after: str | None, name: str) -> None:
    with pytest.raises(InvalidInput, match=f"{name} = "):
        filled.designs.list(limit=limit, after=after)


def test_a_read_only_store_lists_but_does_not_tag(lasting_url: str) -> None:
    with closing(open_store(lasting_url)) as store:
        store.put(ROWS[0])
        store.designs.tag(ROWS[0].key, "kept")
    with closing(open_store(f"{lasting_url}{'&' if '?' in lasting_url else '?'}mode=ro")) as store:
        [design] = store.designs.list()
        assert design.tags == ("kept",)
        with pytest.raises(ReadOnlyCache):
            store.designs.tag(ROWS[0].key, "more")


def test_a_damaged_row_of_sqlite_is_listed_without_its_question(tmp_path: Path) -> None:
    with closing(open_store(f"sqlite:///{tmp_path / 'cache.sqlite'}")) as store:
        store.put(ROWS[0])
        with closing(sqlite3.connect(tmp_path / "cache.sqlite")) as plain, plain:
            plain.execute("UPDATE darrm_solutions SET utility = 'much', created = 7")
        [design] = store.designs.list()
        assert (design.about, design.created) == (None, "7")


def test_off_has_no_designs() -> None:
    store = open_store("off")
    store.put(ROWS[0])
    assert store.designs.list() == []
    assert store.designs.tag(ROWS[0].key, "a") is None
