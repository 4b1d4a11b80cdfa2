"""`darrm statement`: the verified claims of every file that darrm writes, as text and as JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from support.darrm_runner import refused, run, run_json

from api.app import create_app
from api.settings import Settings
from darrm.cli.output import ExitCode
from darrm_opt import Privacy, Problem, __version__, solve
from darrm_opt.accounting import Release
from darrm_opt.accounting.accounts import NAMES
from darrm_opt.accounting.propose_test_release import propose
from darrm_opt.answers.filed import concentrated
from darrm_opt.answers.statement import ACCOUNTS, statement_of_record
from darrm_opt.mechanisms import VoteMechanism, mechanism_class
from darrm_opt.mechanisms.noise_function import CertifiedNoiseFunction
from darrm_opt.mechanisms.noisy_maximum import NoisyMaximum
from darrm_opt.mechanisms.plain_vote import PlainVote
from darrm_opt.record import solution_record
from darrm_opt.release import BatchWithheld, PrivateVote, ReleaseLog

SOLUTION = solve(Problem.from_allowance(K=5, m=2, epsilon=0.5))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def stated(path: str) -> dict[str, Any]:
    """Return the statement of a file as plain data, after checking the common fields."""
    found: dict[str, Any] = run_json("statement", path)
    page = run("statement", path).stdout
    assert found["software"] == {"name": "darrm-opt", "version": __version__}
    assert abs(datetime.fromisoformat(found["date"]) - datetime.now(UTC)) < timedelta(minutes=5)
    assert found["account"] in ACCOUNTS
    design = {**found["design"], "mechanism": found["mechanism"]["record"]}
    canonical = json.dumps(design, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert found["design_hash"] == f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"
    for field in ("privacy_unit", "neighbours", "transcript", "design_hash", "trust"):
        assert found[field] in page
    for text in (*found["assumptions"], *found["not_covered"]):
        assert f"- {text}" in page
    return found


def test_every_account_has_words() -> None:
    assert NAMES - ACCOUNTS.keys() == set(), "add its words to ACCOUNTS of darrm_opt/answers/statement.py"


def test_the_statement_of_a_log_covers_all_its_releases() -> None:
    log = ReleaseLog.create("log", NoisyMaximum(50, 3, 20.0), budget=Privacy(1.0, 1e-5))
    PrivateVote(log.mechanism, log).release_many(np.zeros((2, 50), dtype=int))
    found = stated("log")
    assert (found["subject"], found["epsilon"], found["delta"]) == ("release log", 1.0, 1e-5)
    assert found["releases"] == {"allowed": log.limit, "spent": 2}
    assert found["account"] == log.account
    assert found["privacy_unit"] == "one record, which moves at most 1 vote of 50 in a query"
    assert "test" not in found


def test_a_log_without_a_total_has_a_stated_total() -> None:
    log = ReleaseLog.create("log", NoisyMaximum(50, 3, 20.0), queries=7)
    found = stated("log")
    assert (found["epsilon"], found["delta"]) == (log.cost(7, 1e-6).epsilon, 1e-6)
    assert found["account"] == log.cost(7, 1e-6).account


@pytest.mark.parametrize("agreeing", [60, 30])
def test_a_total_by_propose_test_release_is_stated_with_that_of_any_votes(agreeing: int) -> None:
    mechanism = NoisyMaximum(60, 3, 5.0)
    proposal = propose(mechanism.batch(30), Privacy(4.5, 1e-4))
    log = ReleaseLog.create("log", mechanism, proposal=proposal)
    assert stated("log")["test"]["passed"] is None
    votes = np.tile((np.arange(60) >= agreeing).astype(int), (30, 1))
    try:
        PrivateVote(mechanism, log).release_many(votes)
    except BatchWithheld:
        assert agreeing == 30
    found = stated("log")
    assert (found["epsilon"], found["delta"], found["account"]) == (4.5, 1e-4, "propose-test-release")
    assert found["data_independent"] == {"epsilon": mechanism.epsilon(30, 1e-4), "delta": 1e-4}
    assert found["test"] == proposal.record() | {"passed": agreeing == 60}
    assert found["transcript"].startswith("whether the test passed")
    assert run_json("verify", "log")["private"] is True


def written(record: Any) -> str:
    Path("file.json").write_text(json.dumps(record), encoding="utf-8")
    return "file.json"


def test_a_gamma_is_one_release() -> None:
    found = stated(written(solution_record(SOLUTION)))
    assert (found["epsilon"], found["delta"], found["releases"]) == (1.0, 0.0, {"allowed": 1})
    assert found["account"] == "certificate"
    assert "5 voters, each 0.5-DP" in found["privacy_unit"]
    assert any("answer independently" in text for text in found["assumptions"])


def test_voters_trained_once_and_fresh_ones_are_distinguished() -> None:
    texts = []
    for fresh in (False, True):
        ReleaseLog.create(f"log {fresh}", SOLUTION, queries=3, fresh=fresh)
        texts.append(" ".join(stated(f"log {fresh}")["assumptions"]))
    assert "were trained once" in texts[0]
    assert "Voters are fresh: each draws new independent randomness for every query." in texts[1]


def test_a_plan_is_stated_with_its_queries() -> None:
    plan = run(
        *("plan", "--K", "5", "--epsilon", "0.5", "--fresh", "--queries", "5"),
        *("--total-epsilon", "3", "--total-delta", "1e-3", "--json"),
    )
    told = json.loads(plan.stdout)
    found = stated(written(told))
    assert [told[name] for name in ("design_hash", "zcdp")] == [found[name] for name in ("design_hash", "zcdp")]
    assert (found["subject"], found["epsilon"], found["delta"]) == ("plan", 3.0, 1e-3)
    assert found["releases"] == {"allowed": 5}


def test_the_file_of_a_plan_contains_its_queries_and_total() -> None:
    run(
        *("plan", "--K", "5", "--epsilon", "0.5", "--fresh", "--queries", "5"),
        *("--total-epsilon", "3", "--total-delta", "1e-3", "--output", "plan.json"),
    )
    found = stated("plan.json")
    assert (found["subject"], found["epsilon"], found["delta"]) == ("gamma", 3.0, 1e-3)
    assert found["releases"] == {"allowed": 5}
    total = run_json("verify", "plan.json")["total"]
    assert (total["queries"], total["delta"]) == (5, 1e-3)
    assert 2.9 < total["epsilon"] <= 3.0
    record = json.loads(Path("plan.json").read_text(encoding="utf-8"))
    for change in ({"queries": 6}, {"total_epsilon": 2.9}):
        for refused_by in ("verify", "statement"):
            assert run(refused_by, written(record | change)).exit_code == ExitCode.NOT_PRIVATE, (change, refused_by)
    for broken in ({"queries": 0}, {"total_delta": "0"}, {"fresh": 1}):
        assert run("verify", written(record | broken)).exit_code == ExitCode.BAD_INPUT, broken


def test_labels_are_limited_by_the_plan_of_their_file() -> None:
    run(
        *("plan", "--K", "5", "--epsilon", "0.5", "--fresh", "--queries", "5"),
        *("--total-epsilon", "3", "--total-delta", "1e-3", "--output", "plan.json"),
    )
    Path("votes.csv").write_text("1,1,1,1,0\n", encoding="utf-8")
    label = ("label", "votes.csv", "--solution", "plan.json")
    planned = run_json(*label, "--release-log", "planned", "--output", "labels.csv")
    assert (planned["limit"], planned["spent"], planned["fresh"]) == (5, 1, True)
    wide = run(
        *label, "--release-log", "wide", "--total-epsilon", "30", "--total-delta", "0.01", "--output", "more.csv"
    )
    assert "the plan in the file is for 5 releases within (3, 0.001)-DP" in wide.stderr


def test_a_plan_with_a_sampling_states_it() -> None:
    told = run_json(
        *("cost", "gnmax", "--K", "10", "--classes", "4", "--queries", "20", "--sigma", "2", "--delta", "1e-5"),
        *("--records", "5452", "--sample", "40", "--output", "file.json"),
    )
    found = stated("file.json")
    assert (told["design_hash"], told["zcdp"]) == (found["design_hash"], None)
    assert "one record more" in found["neighbours"]
    assert any("in secret" in text for text in found["assumptions"])
    assert found["design"]["sampling"]["records"] == 5452


@pytest.mark.parametrize("name", ["gnmax", "laplace", "permute_and_flip", "exponential"])
def test_a_mechanism_without_a_total_is_one_release(name: str) -> None:
    mechanism = mechanism_class(name).of(11, 3, 2.0)
    found = stated(written(mechanism.record()))
    assert (found["epsilon"], found["delta"]) == (mechanism.epsilon(1, 1e-6), 1e-6)


def test_a_table_and_a_plain_vote_are_stated() -> None:
    run(*("solve", "--K", "5", "--classes", "3", "--affected", "1", "--target-epsilon", "1", "--output", "file.json"))
    assert stated("file.json")["epsilon"] == 1.0
    found = stated(written(PlainVote(5, 3, Privacy(0.5)).record()))
    assert "models of 1 training" in found["transcript"]


GROUPS: dict[str, Any] = {
    "classes": 3,
    "groups": [{"K": 2, "epsilon": 0.1}, {"K": 2, "epsilon": 0.5}],
    "target_epsilon": 0.6,
}
SAMPLED = {"queries": 5, "total_epsilon": 3.0, "total_delta": 1e-5, "records": 5452, "sample": 40}


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with TestClient(
        create_app(Settings(cache_url="memory", solvers=1, rate=0, short_seconds=60, wait_seconds=60))
    ) as opened:
        yield opened


@pytest.mark.parametrize(
    ("path", "asked", "total", "releases"),
    [
        ("table", GROUPS, (0.6, 0.0), 1),
        ("plurality", {"K": 5, "classes": 3, "affected": 1, "target_epsilon": 1.0}, (1.0, 0.0), 1),
        ("plurality/options", {"K": 5, "classes": 3, **SAMPLED}, (3.0, 1e-5), 5),
        ("plan", {"K": 5, "epsilon": "inf", **SAMPLED}, (3.0, 1e-5), 5),
    ],
)
def test_saved_answers_of_a_service_are_verified_and_stated(
    client: TestClient, path: str, asked: dict[str, Any], total: tuple[float, float], releases: int
) -> None:
    while (response := client.post(f"/v1/{path}", json=asked).raise_for_status()).status_code == 202:
        pass  # on a busy machine its job may not be done: the next request waits again
    answer = response.json()
    answers = [answer]
    if "id" in answer:
        answers += [client.get(f"/v1/{at}/{answer['id']}").raise_for_status().json() for at in (path, "designs")]
    for each in answers:
        proof, found = run_json("verify", written(each)), stated("file.json")
        assert proof["private"] is True
        assert (found["epsilon"], found["delta"], found["releases"]["allowed"]) == (*total, releases)
        shown = each.get("design", each)
        assert (shown["design_hash"], shown["zcdp"]) == (found["design_hash"], found["zcdp"])
        assert proof.get("total", {"queries": 1})["queries"] == releases
    for change in ({"utility": 0.999}, {"total": {"epsilon": 0.1, "delta": 0.0}}, {"sampling": {"records": 9}}):
        (name,) = change
        if name in answer and (name, answer[name]) != ("sampling", None):
            for verb in ("verify", "statement"):
                assert run(verb, written(answer | change)).exit_code != 0
    rule = answer.get("record", answer.get("mechanism"))
    if "problem" in rule:
        rule["problem"]["target_epsilon"] = 0.01
        for verb in ("verify", "statement"):
            assert run(verb, written(answer)).exit_code != 0


def test_another_design_has_another_hash() -> None:
    def hashed(mechanism: NoisyMaximum) -> str:
        return str(statement_of_record(mechanism.record()).fields["design_hash"])

    one = NoisyMaximum(50, 3, 20.0)
    assert hashed(one) == hashed(NoisyMaximum(50, 3, 20.0)) != hashed(NoisyMaximum(50, 3, 20.5))


def test_unverified_claims_are_not_stated() -> None:
    record = NoisyMaximum(50, 3, 20.0).record() | {"queries": 100, "total_epsilon": 0.5, "total_delta": 1e-5}
    result = run("statement", written(record))
    assert (result.exit_code, result.stdout) == (1, "")
    gamma = CertifiedNoiseFunction(Release.of(SOLUTION)).record()
    gamma["gamma"] = [1.0] * 6
    assert run("statement", written(gamma)).exit_code == 1


@pytest.mark.parametrize("content", ["no JSON", "[1, 2]", '{"a": 1}', '{"options": []}'])
def test_another_file_is_refused(content: str) -> None:
    Path("file.json").write_text(content, encoding="utf-8")
    assert "FILE" in refused("statement", "file.json")


@pytest.mark.parametrize("name", ["exponential", "permute_and_flip"])
def test_rho_bounds_every_renyi_divergence_of_a_release(name: str) -> None:
    """D_α ≤ ρ·α at every order, for all neighbouring counts, from the probabilities of the classes."""
    mechanism = mechanism_class(name).of(6, 3, 0.7)
    rho = concentrated(mechanism, 1)
    assert rho is not None
    counts = [np.array(votes) for votes in product(range(7), repeat=3) if sum(votes) == 6]
    for one in counts:
        for other in counts:
            if np.maximum(one - other, 0).sum() == 1:
                p, q = (_chances(mechanism, votes) for votes in (one, other))
                for order in (1.1, 2.0, 8.0, 64.0):
                    assert np.log(p**order @ q ** (1 - order)) / (order - 1) <= rho * order + 1e-12
    assert concentrated(mechanism, 10) == pytest.approx(10 * rho, rel=1e-15)


def _chances(mechanism: VoteMechanism, votes: Any) -> Any:
    """Return the probabilities of the classes for counts in any order."""
    order = np.argsort(-votes, kind="stable")
    chances = np.empty(3)
    chances[order] = mechanism.class_chances(votes[order][None, :])[0]  # type: ignore[index]  # these have them
    return chances


def test_rho_of_noisy_counts_adds_up_and_is_not_claimed_for_dependent_answers() -> None:
    noise = NoisyMaximum(500, 3, 20.0, affected=2)
    assert concentrated(noise, 100) == pytest.approx(100 * 2**2 / 20**2, rel=1e-15)
    checked = NoisyMaximum(500, 3, 20.0, threshold=300.0, check_sigma=40.0)
    assert concentrated(checked, 10) == pytest.approx(10 * (1 / 400 + 1 / 3200), rel=1e-15)
    solution = solve(Problem(5, Privacy(0.5), Privacy(1.0)))
    trained = CertifiedNoiseFunction(Release.of(solution))
    # It does not add up, but both answers together are as private as all models: 5 times 0.5-DP.
    assert concentrated(trained, 2) == pytest.approx(2.5**2 / 2, rel=1e-9)
    assert concentrated(CertifiedNoiseFunction(Release.of(solution), fresh=True), 2) == pytest.approx(1.0, rel=1e-9)
    Path("mechanism.json").write_text(json.dumps(noise.record()))
    assert stated("mechanism.json")["zcdp"] == pytest.approx(0.01, rel=1e-15)
    assert "ρ-zCDP with ρ = 0.01" in run("statement", "mechanism.json").stdout


def test_a_delta_chosen_by_the_statement_is_marked() -> None:
    mechanism = NoisyMaximum(50, 3, 20.0)
    ReleaseLog.create("counted", mechanism, queries=5)
    ReleaseLog.create("budgeted", mechanism, budget=Privacy(1.0, 1e-5))
    for path, chosen in (("counted", True), ("budgeted", False), (written(mechanism.record()), True)):
        assert stated(path)["delta_is_chosen"] is chosen
        page = run("statement", path).stdout
        assert ("names no δ, so this statement chose δ = 1e-06" in page) is chosen


def test_a_rho_weaker_than_the_guarantee_is_omitted_from_the_page() -> None:
    """Five 0.5-DP models, and a γ of models that are together 2.5-DP: ρ implies ε above 10."""
    for mechanism, queries in ((PlainVote(11, 2, Privacy(0.5)), 5), (NoisyMaximum(50, 3, 20.0), 5)):
        record = mechanism.record() | {"queries": queries, "total_epsilon": 3.0, "total_delta": 1e-6}
        path = written(record)
        is_shown = mechanism.name == "gnmax"
        rho = stated(path)["zcdp"]
        assert rho is not None
        assert ("ρ-zCDP" in run("statement", path).stdout) is is_shown
        if is_shown:
            assert rho + 2 * (rho * np.log(1e6)) ** 0.5 <= 6.0


def test_a_binary_answer_is_0_or_1_and_one_release_is_singular() -> None:
    page = run("statement", written(NoisyMaximum(50, 2, 20.0).record())).stdout
    assert "at most 1 answer, each 0 or 1; no counts" in page
