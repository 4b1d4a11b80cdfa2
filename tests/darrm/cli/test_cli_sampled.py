"""`--records`, `--sample`, `--sampling`: totals and plans with a fresh sample of the records for each query."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
from support.darrm_runner import refused, run, run_json

from darrm_opt import Privacy
from darrm_opt.accounting import Sampling
from darrm_opt.mechanisms import mechanism_from_record
from darrm_opt.planning import plan
from darrm_opt.release import ReleaseLog

SHAPE = ("--K", "10", "--classes", "4", "--queries", "500")
TOTAL = ("--total-epsilon", "3", "--total-delta", "1e-5")
DRAWN = ("--records", "5452", "--sample", "40")


def test_the_noise_for_a_sampled_total_has_that_total() -> None:
    found = run_json("cost", "gnmax", *SHAPE, *TOTAL, *DRAWN, "--sampling", "poisson")
    sampling = Sampling(5452, 40)
    assert found["sampling"] == sampling.record()
    assert found["parameter"] <= 0.940  # by two cells of counts, and continuous Gaussian noise
    sigma = ("--sigma", repr(found["parameter"]), "--delta", "1e-5")
    assert run_json("cost", "gnmax", *SHAPE, *sigma, *DRAWN)["epsilon"] == found["epsilon"] <= 3.0
    assert run_json("cost", "gnmax", *SHAPE, *sigma)["epsilon"] > 400  # with all records in every query
    assert "5,452 records drawn anew" in run("cost", "gnmax", *SHAPE, *sigma, *DRAWN).stdout


def test_a_plan_is_that_of_the_core_and_states_the_sampling(tmp_path: Path) -> None:
    written, votes = tmp_path / "best.json", tmp_path / "votes.npy"
    drawn = (*DRAWN, "--sampling", "without-replacement")
    found = run_json("plan", *SHAPE, *TOTAL, *drawn, "--prior", "beta(8,2)", "--output", str(written))
    sampling = Sampling(5452, 40, scheme="without-replacement")
    expected = plan(10, None, 500, Privacy(3.0, 1e-5), 1, "beta(8,2)", classes=4, sampling=sampling)
    assert found["sampling"] == sampling.record()
    assert [row["name"] for row in found["options"]] == [option.name for option in expected.options if option.fits]
    right = expected.options[0].right
    assert right is not None
    assert found["options"][0]["right"] == right >= 0.984
    record = json.loads(written.read_text(encoding="utf-8"))
    assert mechanism_from_record(record) == expected.options[0].mechanism
    assert record["sampling"] == sampling.record()
    other = tmp_path / "other.json"
    said = run("plan", *SHAPE, *TOTAL, *drawn, "--prior", "beta(8,2)", "--output", str(other)).stdout
    assert "without replacement" in said
    assert f"darrm label --solution {other} --release-log releases.log --output labels.csv --ask" in said
    # A file of votes has no sample, so there is no amplification.
    np.save(votes, np.zeros((3, 10), dtype=np.int64))
    log = tmp_path / "log"
    said = refused("label", str(votes), "--solution", str(written), "--release-log", str(log), "--output", "labels.csv")
    assert "EnsembleSampler" in said
    assert not log.exists()


def test_a_comparison_is_that_of_the_plan() -> None:
    for shape in (SHAPE, ("--K", "10", "--affected", "1", "--queries", "500")):
        compared = run_json("plan", "--compare", *shape, *TOTAL, *DRAWN, "--prior", "beta(8,2)")
        assert compared == run_json("plan", *shape, *TOTAL, *DRAWN, "--prior", "beta(8,2)")


def test_a_design_names_the_command_that_plans_for_samples(tmp_path: Path) -> None:
    asked = ("solve", "--K", "4", "--classes", "3", "--target-epsilon", "2", "--delta", "1e-5", *DRAWN)
    told = refused(*asked, "--prior", "beta(8,2)", "--output", str(tmp_path / "table.json"))
    assert "--records" in told
    assert run(*_command_in(told)).exit_code == 0
    record = json.loads((tmp_path / "table.json").read_text(encoding="utf-8"))
    assert record["sampling"] == Sampling(5452, 40).record()


def test_a_design_of_private_voters_names_the_command_for_their_samples(tmp_path: Path) -> None:
    asked = ("solve", "--K", "3", "--m", "2", "--epsilon", "0.5", "--output", str(tmp_path / "gamma.json"), *DRAWN)
    command = _command_in(refused(*asked))
    assert command[command.index("--total-epsilon") + 1] == "1.0"
    assert "The plain majority, as γ = 1, is in " in run(*command).stdout  # which is best for one query
    assert "--records" in refused("solve", "--group", "K=3,epsilon=0.5", "--target-epsilon", "1", *DRAWN)
    total = ("--total-epsilon", "1", "--total-delta", "1e-5")
    told = refused("plan", "--K", "3", "--epsilon", "0.5", *total, "--fresh", *DRAWN, "--sampling", "poisson")
    assert "--sampling" in told
    assert "--bags" not in told


def _command_in(told: str) -> list[str]:
    return shlex.split(" ".join(told.split()).split("total: darrm ")[1].split(" (with")[0])


TOKENS = """
import json, os, signal, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked["query"] == 1 and len(asked["labels"]) == 1 and "--kill" in sys.argv:
        os.kill(os.getppid(), signal.SIGKILL)
    print(json.dumps([len(asked["labels"]) for share in asked["shares"]]), flush=True)
"""


def test_texts_of_labels_are_released_and_a_killed_job_spends_its_sample(tmp_path: Path) -> None:
    (tmp_path / "tokens.py").write_text(TOKENS, encoding="utf-8")
    command = f"{sys.executable} {tmp_path / 'tokens.py'}"
    mechanism, log, labels = (tmp_path / name for name in ("mechanism.json", "log", "labels.csv"))
    shape = ("--K", "10", "--classes", "4", "--queries", "12", "--rate", "3", "--delta", "1e-5")
    drawn = (*DRAWN, "--sampling", "poisson,labels=3")
    assert run("cost", "permute_and_flip", *shape, *drawn, "--output", str(mechanism)).exit_code == 0
    words = ("label", "--solution", str(mechanism), "--release-log", str(log), "--output", str(labels))
    assert "--queries" in refused(*words, "--queries", "4", "--ask", command)
    assert not log.exists()
    killed = [sys.executable, "-m", "darrm", *words, "--ask", f"{command} --kill"]
    assert subprocess.run(killed, check=False, capture_output=True).returncode == -signal.SIGKILL
    opened = ReleaseLog(log)
    assert (opened.spent, opened.labels, len(opened.ids)) == (6, 3, 1)  # the drawn sample is spent
    assert "not released" in run("label", "--status", str(log)).stdout
    later = run(*words, "--ask", command, "--json")
    found = json.loads(later.stdout)
    assert (found["spent"], found["labels"], found["limit"]) == (12, 9, 12)
    assert "drawn when a process ended" in later.stderr
    assert labels.read_text(encoding="utf-8").split()[1:] == ["0", "1", "2"] * 3


ANSWERS = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked["query"] == 3 and "--fail" in sys.argv:
        break
    votes = [asked["query"] % 4 for share in asked["shares"]]
    if "--silence" in sys.argv:
        break
    for flag, wrong in (("--probabilities", [[0.5, 0.5] for _ in votes]), ("--text", "0"), ("--short", votes[1:]),
                        ("--null", [None] * 9 + [0])):
        votes = wrong if flag in sys.argv else votes
    print(json.dumps(votes), flush=True)
"""


def test_labels_of_samples_answered_by_a_command_are_released(tmp_path: Path) -> None:
    (tmp_path / "answers.py").write_text(ANSWERS, encoding="utf-8")
    command = f"{sys.executable} {tmp_path / 'answers.py'}"
    mechanism, log, labels = (tmp_path / name for name in ("mechanism.json", "log", "labels.csv"))
    shape, total = ("--K", "10", "--classes", "4", "--queries", "8"), ("--total-epsilon", "8", "--total-delta", "1e-5")
    assert run("cost", "permute_and_flip", *shape, *total, *DRAWN, "--output", str(mechanism)).exit_code == 0
    words = ("label", "--solution", str(mechanism), "--release-log", str(log), "--output", str(labels))
    assert "--ask" in refused(*words, *DRAWN)
    assert "--votes" in refused(*words, "--votes", str(mechanism), "--ask", command)
    assert "--records" in refused(*words, "--records", "10", "--sample", "5", "--ask", command)
    assert not log.exists()
    # An invalid answer is detected before a log is created.
    for wrong in ("probabilities", "text", "short", "null", "silence"):
        refusal = refused(*words, "--ask", f"{command} --{wrong}")
        assert "a JSON list of 10 classes 0 to 3, such as [0, 1, 2, 3, …]" in refusal
        assert "nothing was charged" in refusal
    dry = ("label", "--solution", str(mechanism), "--dry-run", "--json", "--ask")
    found = run_json(*dry, command)
    assert (found["answered"], found["voters"], found["classes"]) == (3, 10, 4)
    assert "other than a list" in refused(*dry, f"{command} --text")
    assert "--ask" in refused("label", "votes.csv", "--dry-run")
    assert not log.exists()
    # If the command fails later nothing is released: the query is spent, and the file states that.
    told = refused(*words, "--ask", f"{command} --fail")
    assert "Query 3 is spent without a label" in told
    opened = ReleaseLog(log)
    assert (opened.spent, opened.labels) == (4, 3)
    assert not labels.exists()
    assert "3 of them labels" in run("label", "--status", str(log)).stdout
    assert "drawn anew" in run("statement", str(log)).stdout
    later = run(*words, "--ask", command, "--json")
    found = json.loads(later.stdout)
    assert (found["spent"], found["labels"], found["limit"], found["unanswered"]) == (8, 8, 8, [3])
    assert "1 query, spent and -2" in later.stderr
    assert found["sampling"] == Sampling(5452, 40).record()
    assert labels.read_text(encoding="utf-8").split()[1:] == ["0", "1", "2", "-2", "0", "1", "2", "3"]
    assert "does not exist" in refused(*words, "--ask", command)


def test_missing_answers_of_a_command_become_the_given_class(tmp_path: Path) -> None:
    (tmp_path / "answers.py").write_text(ANSWERS, encoding="utf-8")
    command = f"{sys.executable} {tmp_path / 'answers.py'} --null"
    mechanism, log, labels = (tmp_path / name for name in ("mechanism.json", "log", "labels.npy"))
    shape = ("--K", "10", "--classes", "4", "--queries", "4", "--total-epsilon", "8", "--total-delta", "1e-5")
    assert run("cost", "permute_and_flip", *shape, *DRAWN, "--output", str(mechanism)).exit_code == 0
    words = ("label", "--solution", str(mechanism), "--release-log", str(log), "--output", str(labels))
    assert "null, a missing vote" in refused(*words, "--ask", command)
    assert run(*words, "--missing", "class", "--ask", command).exit_code == 0
    assert np.load(labels).tolist() == [3] * 4  # the last class, since nine of ten gave no answer
