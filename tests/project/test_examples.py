"""The examples run and print the stated results."""

from __future__ import annotations

import io
import json
import re
import runpy
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from support.paths import ROOT
from support.served import serving

from darrm_opt import Problem, solve
from darrm_opt.record import solution_record

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

LONGEST = 110  # maximum lines of an example: one page


def printed(name: str, *words: str, code: int = 0, **settings: str) -> str:
    """Return the output of an example, run in this process to save the imports."""
    path, ended = ROOT / "examples" / name, None
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", [str(path), *words])
        for variable, value in {"DARRM_URL": "", **settings}.items():
            patch.setenv(variable, value)
        try:
            runpy.run_path(str(path), run_name="__main__")
        except SystemExit as end:
            ended = end.code
    assert (0 if ended is None else ended if isinstance(ended, int) else 1) == code, (ended, err.getvalue())
    return out.getvalue() + ("" if code == 0 else f"{err.getvalue()}{ended}")


def test_each_example_is_one_page_and_is_run_by_a_test() -> None:
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert len(EXAMPLES) >= 4
    for example in EXAMPLES:
        assert example.read_text(encoding="utf-8").count("\n") < LONGEST, example.name
        assert example.stem in tests, f"{example.name} is run by no test"


def compared(out: str) -> dict[str, str]:
    """Return the table of mechanisms printed by an example."""
    return dict(re.findall(r"^  (\w+) +([\d.]+|does not fit)$", out, re.MULTILINE))


def numbers(pattern: str, out: str) -> list[float]:
    return [float(found) for found in re.findall(pattern, out)]


@pytest.mark.slow
def test_federated_signs() -> None:
    out = printed("federated_signs.py")
    shown = compared(out)
    assert shown["majority"] == "does not fit"
    assert float(shown["optimal_sequence"]) > float(shown["subsampling"]) > 0.5
    assert float(shown["optimal_sequence"]) > float(shown["randomized_response"]) > 0.5
    assert "Release the γ made for all queries together" in out
    before, after = numbers(r"distance to the truth \w+ +([\d.]+)", out)
    assert before == 2.5
    assert 0 < after < 5.5  # its accuracy is random, but its distance is limited by the sum of all steps


@pytest.mark.slow
def test_pate_with_overlapping_parts() -> None:
    out = printed("pate_overlapping.py")
    shown = compared(out)
    assert shown["majority"] == "does not fit"
    assert float(shown["optimal_sequence"]) >= max(float(shown["optimal"]), float(shown["gnmax"])) > 0.9
    private, plain = numbers(r"right: ([\d.]+)", out)
    assert plain > 0.8
    assert private >= 0.3  # 20 labels, each more often right than wrong
    assert "for nothing: True" in out
    assert "one label more is refused" in out


@pytest.mark.slow
def test_stronger_than_a_voter() -> None:
    out = printed("stronger_than_a_voter.py")
    rows = [
        [float(cell) for cell in row]
        for row in re.findall(r"^ +(0\.\d) +([\d.]+) +([\d.]+) +([\d.]+)$", out, re.MULTILINE)
    ]
    assert [row[0] for row in rows] == [0.2, 0.5, 0.8]
    for _, everywhere, disjoint, alone in rows:
        assert disjoint > everywhere >= alone - 1e-9
    assert "Every answer has fresh randomness" in out


def test_federated_groups() -> None:
    out = printed("federated_groups.py")
    assert out.startswith("23 tables, one for each attendance.")
    chances = [float(found) for found in re.findall(r"class [012], right with chance (0\.\d+)$", out, re.MULTILINE)]
    assert len(chances) == 6
    assert min(chances) > 0.85  # the accuracy of a single hospital
    assert re.search(r"epsilon = 2\.40 for everybody;\n  records of phones: 2\.40;   records of hospitals: 1\.20", out)


def test_class_votes() -> None:
    out = printed("class_votes.py")
    shown = {name.strip(): float(value) for name, value in re.findall(r"^  ([a-z_ ]+?) +(0\.\d+)$", out, re.MULTILINE)}
    assert shown["optimal table"] >= max(shown.values()) > 0.95
    assert shown["gnmax"] < shown["permute_and_flip"]
    assert re.search(r"^6 labels released, \d+% of them right; 0 releases are left\.$", out, re.MULTILINE)


@pytest.mark.slow
def test_private_knn() -> None:
    out = printed("private_knn.py")
    plain, sampled, every = numbers(r"right ([\d.]+)", out)
    assert plain > 0.9
    assert sampled > every + 0.3  # random, about 0.86 and 0.26
    assert out.count("(3.00, 1e-05)-DP") == 2


def test_an_ensemble_of_prompts() -> None:
    out = printed("prompt_ensemble.py")
    assert float(out.split("right ")[1]) > 0.75  # 0.84; a random class has 0.25
    assert "optimal: 200 labels are (2.9" in out


def test_a_text_of_voters_that_share_randomness() -> None:
    apart, shared = (float(found) for found in re.findall(r"plausible, .* ([\d.]+)", printed("coordinated_text.py")))
    assert shared > 0.8 > 2 * apart  # about 0.97 and 0.07


@pytest.mark.slow
def test_pate_with_ten_classes() -> None:
    pytest.importorskip("sklearn")
    out = printed("pate_digits.py")
    sigma = float(re.search(r"σ = ([\d.]+) votes", out)[1])  # type: ignore[index]
    published = float(re.search(r"would have to be ([\d.]+)\.", out)[1])  # type: ignore[index]
    assert sigma < 0.75 * published
    right, student = (int(share) for share in re.findall(r"(\d+)%", out))
    assert right >= 70
    assert student >= 60


@pytest.mark.slow
def test_a_training_job_gets_its_gamma_from_the_service_or_a_table(tmp_path: Path) -> None:
    problem = Problem.from_allowance(K=11, m=3, epsilon=0.1, Delta=1e-5)
    solution = solve(problem)
    table = tmp_path / "gammas.jsonl"
    table.write_text(json.dumps(solution_record(solution)) + "\n")
    with serving(tmp_path, DARRM_CACHE_URL="memory") as service:
        served = printed("training_job.py", DARRM_URL=service.url)
    assert served.startswith(f"γ from http, designed for this very problem; utility {solution.utility:.4f}")
    assert served.endswith("done\n")
    fallen = printed("training_job.py", "--table", str(table), DARRM_URL=service.url)  # the port is closed
    assert fallen.startswith("no γ from http: ServiceUnreachable")
    assert f"γ from file, designed for this very problem; utility {solution.utility:.4f}" in fallen
    failed = printed("training_job.py", code=1, DARRM_URL=service.url)
    assert "no γ, so nothing is released" in failed
    assert "weight" not in failed


def test_a_custom_mechanism() -> None:
    # in a separate process, since its class remains registered
    program = [sys.executable, str(ROOT / "examples" / "own_mechanism.py")]
    out = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=True).stdout
    epsilon = float(re.search(r"20 releases: epsilon = ([\d.]+)", out)[1])  # type: ignore[index]
    assert 1.99 < epsilon <= 2.0
    assert "at most 20 releases fit" in out
    chances = numbers(r"right with probability ([\d.]+)", out)
    assert 1 / 3 < chances[0] < chances[1]  # permute-and-flip is better
    assert re.search(r"^released: class [012]$", out, re.MULTILINE)
    assert re.findall(r"the claim [\d.]+-DP: (.*)", out) == ["not refuted", "refuted"]


def test_signs_within_a_budget() -> None:
    out = printed("flower_signs.py")
    assert re.search(r"each of 12 bits is the majority with probability 0\.\d{3}", out)
    assert "12 of 12 releases are spent, within (8, 0.001)" in out
