"""Profiles of voters and several targets: asked, refused, verified, stored and exported by all interfaces."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.darrm_runner import run, run_json
from support.live import serving
from support.patient import client_fixture, patient

from api.app import create_app
from darrm_client import DarrmClient
from darrm_opt import Privacy, Problem, solve, verify
from darrm_opt.accounting.sampling import Sampling, amplify_by_subsampling
from darrm_opt.privacy_curves import profile_in_total
from darrm_opt.problem import TargetProfile
from darrm_opt.questions.table import TableQuestion
from darrm_opt.record import DesignSpec
from darrm_opt.tables.record import TableSpec
from darrm_opt.voters import PrivacyProfile

POINTS = ((0.0, 0.02), (0.1, 0.004), (0.3, 0.0))
TEXT = "0:0.02,0.1:0.004,0.3:0"
PAIRS = [list(point) for point in POINTS]
TARGETS = ((0.1, 0.01), (0.25, 1e-4))
TARGETS_TEXT = "0.1:0.01,0.25:1e-4"
VOTER = PrivacyProfile(POINTS)
SHARED = "shared(1,1)"

QUESTIONS: dict[str, tuple[Problem, tuple[str, ...], dict[str, Any]]] = {
    "one target": (
        Problem(5, VOTER, Privacy(0.25)),
        ("--target-epsilon", "0.25", "--delta", "0"),
        {"target_epsilon": 0.25, "delta": 0},
    ),
    "several targets": (
        Problem(5, VOTER, TargetProfile(TARGETS)),
        ("--targets", TARGETS_TEXT),
        {"targets": [list(point) for point in TARGETS]},
    ),
}


service = client_fixture(patient())


@pytest.fixture(scope="module")
def client() -> Iterator[DarrmClient]:
    with serving(create_app(patient())) as url, DarrmClient(url) as opened:
        yield opened


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_gamma_is_the_same_by_all_interfaces(
    question: str, service: TestClient, client: DarrmClient, tmp_path: Path
) -> None:
    problem, words, body = QUESTIONS[question]
    own = solve(problem, SHARED)
    key = DesignSpec(problem, SHARED).key
    if question == "one target":
        assert own.utility == pytest.approx(0.97524, abs=5e-6)  # by enumeration
    typed = ("--K", "5", "--profile", TEXT, *words)
    told = run_json("solve", *typed, "--prior", SHARED, "--output", str(tmp_path / "gamma.json"))
    rest = service.post("/v1/gamma", json={"K": 5, "profile": PAIRS, "objective": SHARED, **body}).json()
    from_client = client.gamma(problem, SHARED)
    for gamma in (told["gamma"], rest["gamma"], from_client.gamma.tolist()):  # from separate solves
        assert gamma == pytest.approx(own.gamma.tolist(), abs=1e-9)
    assert told["problem"] == rest["problem"]
    assert rest["id"] == key
    # verified, from files and other interfaces
    assert run("verify", str(tmp_path / "gamma.json")).exit_code == 0
    stated = {"K": 5, "profile": PAIRS, **body, "gamma": told["gamma"]}
    assert service.post("/v1/verify", json=stated).json()["private"] is True
    assert client.verify(problem, own.gamma) == verify(problem, own.gamma)
    bare = tmp_path / "bare.json"
    bare.write_text(json.dumps(stated), encoding="utf-8")
    assert run("verify", str(bare)).exit_code == 0
    bare.write_text(json.dumps({**stated, "gamma": [1.0] * 6}), encoding="utf-8")
    assert run("verify", str(bare)).exit_code == 1
    # stored and listed unchanged
    row = next(each for each in service.get("/v1/designs").json()["designs"] if each["id"] == key)
    assert (row["profile"], row["m"]) == (PAIRS, None)
    assert row.get("targets") == body.get("targets")
    assert service.get(f"/v1/gamma/{key}").json()["gamma"] == rest["gamma"]


def test_stored_answers_are_listed_and_exported_with_their_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    monkeypatch.setenv("DARRM_CACHE_URL", url)
    for _, words, _ in QUESTIONS.values():
        run("solve", "--K", "5", "--profile", TEXT, *words, "--cache")
    run("solve", "--K", "5", "--epsilon", "0.3", "--m", "1", "--cache")
    listed = run_json("cache", "ls", "--url", url)
    assert sorted(each.get("profile", []) for each in listed) == [[], PAIRS, PAIRS]
    assert [each["targets"] for each in listed if "targets" in each] == [[list(point) for point in TARGETS]]
    assert TEXT in run("cache", "ls", "--url", url).stdout
    exported = tmp_path / "table.jsonl"
    assert run_json("export", "--output", str(exported), "--url", url)["rows"] == 3
    with DarrmClient(exported.as_uri()) as offline:
        for problem, _, _ in QUESTIONS.values():
            assert offline.gamma(problem).gamma.tolist() == pytest.approx(solve(problem).gamma.tolist(), abs=1e-9)


def test_tables_accept_profiles_and_several_targets_in_all_interfaces(service: TestClient, client: DarrmClient) -> None:
    groups = [(2, VOTER), (1, Privacy(0.5))]
    problem = Problem(groups=groups, target=TargetProfile(TARGETS))
    words = ("--group", "K=1,epsilon=0.5", "--targets", TARGETS_TEXT)
    told = run_json("solve", "--group", f"K=2,profile={TEXT}", *words)
    body: dict[str, Any] = {"groups": [{"K": 2, "profile": PAIRS}, {"K": 1, "epsilon": 0.5}]}
    body["targets"] = [list(point) for point in TARGETS]
    rest = service.post("/v1/table", json=body).json()
    own = client.ask(TableQuestion.of(body))
    assert rest["id"] == own.id == TableSpec(problem).key
    assert told["table"] == rest["table"]
    assert rest["groups"] == [{"K": 2, "profile": PAIRS}, {"K": 1, "epsilon": 0.5, "Delta": 0.0}]
    assert rest["targets"] == body["targets"]


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/gamma", {"target_epsilon": 0.2, "epsilon": 0.1}, "epsilon"),
        ("/v1/gamma", {"target_epsilon": 0.2, "targets": [[0.1, 0.01], [0.2, 1e-3]]}, "target_epsilon"),
        ("/v1/gamma", {"targets": [[0.1]]}, "targets"),
        ("/v1/gamma", {"targets": [[0.1, 2.0]]}, "targets"),
        ("/v1/least", {"utility": 0.9, "parameter": "m"}, "parameter"),
        ("/v1/plan", {"total_epsilon": 1.0, "total_delta": 1e-3, "epsilon": 0.1}, "epsilon"),
    ],
)
def test_a_contradicting_field_is_named(path: str, body: dict[str, Any], field: str, service: TestClient) -> None:
    told = service.post(path, json={"K": 5, "profile": PAIRS, **body})
    assert told.status_code == 422, told.text
    assert any(error["field"].startswith(field) for error in told.json()["errors"]), told.text


def test_a_curve_has_one_choice_of_points_within_a_total(service: TestClient) -> None:
    curve, total = "gaussian(0.1)", Privacy(2.0, 1e-3)
    for fresh in (False, True):
        profile = profile_in_total(curve, 5, 3, total.delta, fresh=fresh)
        words = ("--K", "5", "--profile", curve, "--queries", "3", "--total-epsilon", "2", "--total-delta", "1e-3")
        told = run_json("plan", *words, *(("--fresh",) if fresh else ()))
        asked = {"K": 5, "queries": 3, "total_epsilon": 2.0, "total_delta": 1e-3, "fresh": fresh, "profile": curve}
        rest = service.post("/v1/plan", json=asked).json()
        assert told["voters"]["profile"] == rest["voters"]["profile"] == [list(point) for point in profile.points]
        assert told["options"][0] == rest["options"][0]


def test_each_point_of_a_voter_with_its_own_sample_is_amplified() -> None:
    sampling = Sampling(records=1000, sample=100, scheme="each-voter")
    drawn = sampling.voter(PrivacyProfile([(0.0, 0.02), (0.3, 1e-4)]))
    each = [amplify_by_subsampling(Privacy(*point), sampling.chance) for point in ((0.0, 0.02), (0.3, 1e-4))]
    assert isinstance(drawn, PrivacyProfile)
    for (epsilon, delta), one in zip(drawn.points, each, strict=True):
        # like all numbers of a problem, up to the noise covered by its strictest reading
        assert one.epsilon * (1 - 1e-12) <= epsilon == pytest.approx(one.epsilon, rel=1e-9, abs=1e-15)
        assert one.delta * (1 - 1e-12) <= delta == pytest.approx(one.delta, rel=1e-9)
    # The record is sampled with probability q: neighbours have the laws (1−q)·r + q·a and (1−q)·r + q·b, where
    # any two of the three laws satisfy the profile; here r = a and r = b.
    q = sampling.chance
    for b, a in PrivacyProfile([(0.0, 0.02), (0.3, 1e-4)]).chain():
        for r in (a, b):
            p, p_prime = (float((1 - q) * float(r) + q * float(side)) for side in (a, b))
            assert all(p <= math.exp(epsilon) * p_prime + delta + 1e-12 for epsilon, delta in drawn.points)
