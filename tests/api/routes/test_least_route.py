"""POST /v1/least: the inverse question, answered at once or as a job, stored and proved again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.patient import client_fixture, patient

from api.app import create_app
from api.tasks.answers import AnswerTask
from darrm_opt import NotPrivate, least_parameter, verify
from darrm_opt.errors import VerificationFailed
from darrm_opt.questions.least import Least
from darrm_opt.questions.registry import QUESTIONS
from darrm_opt.record import problem_from_record

SETTINGS = patient(max_voters=15)
ASKED = {"K": 7, "epsilon": 0.2, "Delta": 1e-4, "utility": 0.9}


client = client_fixture(SETTINGS)


def test_the_answer_is_that_of_the_core_and_its_designs_are_stored(client: TestClient) -> None:
    told = client.post("/v1/least", json=ASKED).json()
    own = least_parameter(**ASKED)  # type: ignore[arg-type]  # numbers
    assert own.below is not None
    for said, value, solution in (
        (told, own.value, own.solution),
        (told["below"], own.below.value, own.below.solution),
    ):
        assert said["value"] == value
        assert said["design"]["gamma"] == solution.gamma.tolist()
        assert verify(problem_from_record(said["design"]["problem"]), said["design"]["gamma"]).margin >= 0
        stored = client.get(f"/v1/gamma/{said['design']['id']}").json()
        assert (stored["gamma"], stored["cached"]) == (said["design"]["gamma"], True)
    assert (told["reached"], told["is_least"], told["measure"], told["wanted"]) == (own.reached, True, "utility", 0.9)
    assert told["below"]["bound"] < 0.9 <= told["reached"]


def test_long_work_is_a_job_with_progress_in_steps() -> None:
    with TestClient(create_app(SETTINGS.model_copy(update={"short_seconds": 0.0, "wait_seconds": 0.0}))) as client:
        pending = client.post("/v1/least", json=ASKED)
        assert pending.status_code == 202
        assert pending.json()["kind"] == "least"
        with client.stream("GET", f"{pending.json()['location']}/events") as events:
            lines = [
                json.loads(line.removeprefix("data: ")) for line in events.iter_lines() if line.startswith("data: {")
            ]
        assert lines[-1]["state"] == "done"
        assert all(set(line["progress"]) == {"done", "of", "step"} for line in lines if line["progress"])
        job = client.get(pending.json()["location"]).json()
        assert job["question"] == ASKED
        assert client.get(job["result"]).json()["value"] == client.post("/v1/least", json=ASKED).json()["value"]


# ----------------------------------------------------------------------------------------- an answer from elsewhere


QUESTION = Least(**ASKED)  # type: ignore[arg-type]  # numbers


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return QUESTION.record_of(QUESTION.answer())


def test_a_stored_result_is_proved_again(found: dict[str, Any]) -> None:
    task = AnswerTask.from_json(AnswerTask("least", QUESTION.argument(), 1.0, ASKED).text)
    verify_stored = QUESTIONS["least"].of(task.argument).verify_stored
    verify_stored(found)
    worse = json.loads(json.dumps(found))
    worse["design"]["gamma"] = [1.0] * 8
    with pytest.raises(NotPrivate):
        verify_stored(worse)


LIES: dict[str, tuple[Any, type[Exception], str]] = {
    "a γ that is not private": (lambda told: told["design"].update(gamma=[1.0] * 8), NotPrivate, "not private"),
    "another number": (lambda told: told.update(value=1.0), VerificationFailed, "another problem"),
    "no number": (lambda told: told.update(value="2"), VerificationFailed, "number is invalid"),
    "more than it reaches": (lambda told: told.update(reached=0.99), VerificationFailed, "reaches 0.9"),
    "a γ that falls short": (
        lambda told: told.update({**told["below"], "below": None}),
        VerificationFailed,
        "not the end of a search",
    ),
    "a neighbour that reaches it": (
        lambda told: told.update(below={**told["below"], **{k: told[k] for k in ("value", "reached", "design")}}),
        VerificationFailed,
        "not the end of a search",
    ),
    "another question": (lambda told: told.update(parameter="epsilon"), VerificationFailed, "another question"),
    "nothing of the neighbour": (lambda told: told.pop("below"), VerificationFailed, "lacks below"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_client_believes_no_lie(found: dict[str, Any], lie: str) -> None:
    told = json.loads(json.dumps(found))
    assert QUESTION.verify(told).value == told["value"]
    change, error, text = LIES[lie]
    change(told)
    with pytest.raises(error, match=text):
        QUESTION.verify(told)
