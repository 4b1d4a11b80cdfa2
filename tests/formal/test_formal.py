"""The formal checker against the product, ball arithmetic and the independent example.

Tests that run the checker need `make formal` (or DARRM_FORMAL_CHECKER) and are skipped if it is not built; `.ci/run`
builds it.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cases import for_each
from support.darrm_runner import run
from support.exact import Voters
from support.golden import GOLDEN, Row, problem_of
from support.paths import ROOT
from support.strategies import random_case, random_noise

from darrm.cli.formal import VARIABLE, checker_input, formally_private
from darrm.cli.output import ExitCode
from darrm_opt import BackendUnavailable, NoiseFunction, NotPrivate, Privacy, Problem, solve, verify
from darrm_opt.design.constraint import PrivacyConstraint
from darrm_opt.design.separation.oracle import worst_case
from darrm_opt.record import problem_from_record, solution_record
from examples.check_gamma import is_private

CHECKER = Path(os.environ.get(VARIABLE) or ROOT / "build" / "formal" / "darrm-formal")

built = pytest.mark.skipif(
    not CHECKER.exists() and VARIABLE not in os.environ, reason="the formal checker is not built: make formal"
)

SMALL = [row for row in GOLDEN if int(row["K"]) <= 15 or (float(row["Delta"]) == 0 and int(row["K"]) <= 35)]

PROBLEM = Problem(7, Privacy(0.3, 1e-3), Privacy(0.6, 2e-3), affected=5)
"""A problem in which every number matters: some voters are not affected, and Δ binds."""


@pytest.fixture(autouse=True)
def checker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(CHECKER))


def answers(questions: Iterable[str]) -> list[str]:
    """Return the answer of the checker to each of many questions, in one run."""
    text = "\n".join(questions) + "\n"
    done = subprocess.run([CHECKER], input=text, capture_output=True, text=True, timeout=600, check=False)
    assert done.stderr == ""
    said = done.stdout.splitlines()
    assert set(said) <= {"private", "not proved"}
    assert done.returncode == ("not proved" in said)
    return said


def refused(question: str) -> str:
    done = subprocess.run([CHECKER], input=question, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr


def verdict(problem: Problem, noise: NoiseFunction, arithmetic: Any = "float") -> str:
    """Return the verdict of the product on the strictest numbers, "" if it is undecided."""
    try:
        verify(problem, noise, arithmetic=arithmetic)
    except NotPrivate as err:
        return "not proved" if err.excess > 1e-14 else ""
    return "private"


def excess(problem: Problem, noise: NoiseFunction) -> float:
    """Return the violation by γ at the worst multiset of the product (70 digits); -1 if the product proves γ.

    γ = 1 may meet its limit with equality, up to the doubles that ε and mε are: that is 0 here, and undecided.
    """
    try:
        verify(problem, noise)
    except NotPrivate as err:
        value = Voters.of(problem).excess(noise.values, err.worst)
        return float(value) if abs(value) > Decimal("1e-15") else 0.0
    return -1.0


def read_exactly(problem: Problem, noise: NoiseFunction) -> bool:
    """Return the verdict of the example on the numbers as written."""
    voter, target = problem.voter, problem.target
    return is_private(
        problem.K,
        problem.affected,
        None if voter.epsilon == math.inf else Fraction(repr(voter.epsilon)),
        Fraction(repr(voter.delta)),
        Fraction(repr(target.epsilon)),
        Fraction(repr(target.delta)),
        [Fraction(value) for value in noise.values.tolist()],
    )


# ---------------------------------------------------------------------------------------------- the golden set


@built
@for_each("row", SMALL)
def test_the_golden_set_is_accepted_and_refused_when_scaled_up(row: Row) -> None:
    problem = problem_of(row)
    noise = solve(problem, row["objective"]).noise
    scaled = NoiseFunction(np.minimum(noise.values * (1 + 1e-9), 1.0))
    accepted, also = answers([checker_input(problem, noise), checker_input(problem, scaled)])
    assert accepted == "private"
    if broken := excess(problem, scaled):
        assert also == ("not proved" if broken > 0 else "private")


def test_the_golden_set_has_gammas_that_bind() -> None:
    binding = [row for row in SMALL if float(row["utility"]) < 1 - 1e-6]
    assert len(SMALL) == 49
    assert len(binding) >= 30
    for row in binding[::6]:
        problem = problem_of(row)
        noise = solve(problem, row["objective"]).noise
        assert excess(problem, NoiseFunction(np.minimum(noise.values * (1 + 1e-9), 1.0))) > 0


@built
def test_the_settings_of_the_paper_are_those_checked_in_the_proof_assistant() -> None:
    text = (ROOT / "formal" / "Settings.v").read_text(encoding="utf-8")
    for epsilon, dataset in ((0.0892, "mnist_gamma"), (0.0852, "fashion_mnist_gamma")):
        (listed,) = re.findall(rf"Definition {dataset} .*?\[(.*?)\]\.", text, re.DOTALL)
        half = [Fraction(each.replace(" # ", "/")) for each in listed.replace("\n", " ").split(";")]
        gamma = NoiseFunction([float(each) for each in half + half[::-1]])
        assert [Fraction(each) for each in gamma.values[:6].tolist()] == half  # exactly, without rounding
        problem = Problem.from_allowance(K=11, m=3, epsilon=epsilon, Delta=1e-4)
        assert Fraction(repr(problem.target.delta)) == 1 - (1 - Fraction(1, 10**4)) ** 3
        assert verify(problem, gamma).margin >= 0
        assert formally_private(problem, gamma)
        assert solve(problem).gamma == pytest.approx(gamma.values, abs=1e-6)


# ---------------------------------------------------------------------------------------------- other verdicts


def near_the_limit(seed: int, sizes: tuple[int, ...]) -> tuple[Problem, NoiseFunction]:
    """Return a random problem, in its strictest numbers, and a random γ, often scaled so that it nearly binds."""
    rng = np.random.default_rng((seed, 18))
    problem = random_case(rng, sizes).problem
    noise = random_noise(rng, problem.K)
    constraint = PrivacyConstraint.of(problem)
    largest = worst_case(noise, constraint).value
    if largest > 0 and rng.random() < 0.8:
        near = 1 + float(rng.choice([-1, 1])) * 10 ** float(rng.uniform(-9, -0.5))
        noise = NoiseFunction(np.minimum(noise.values * min(constraint.limit / largest * near, 1e300), 1.0))
    return problem, noise


def agree(cases: list[tuple[Problem, NoiseFunction]], arithmetic: str) -> int:
    """Compare the checker with the product; return how often the product decides. Only the checker proves equality."""
    formal = answers(checker_input(problem.strictest, noise) for problem, noise in cases)
    others = [verdict(problem, noise, arithmetic) for problem, noise in cases]
    decided = [pair for pair in zip(formal, others, strict=True) if pair[1]]
    assert all(one == other for one, other in decided)
    assert min(others.count("private"), others.count("not proved")) > len(cases) / 4
    return len(decided)


@built
@pytest.mark.slow
def test_the_verdict_on_a_thousand_random_gammas_is_that_of_ball_arithmetic() -> None:
    assert agree([near_the_limit(seed, (1, 2, 3, 4, 5, 6)) for seed in range(1150)], "ball") >= 1000


@built
def test_the_verdict_on_larger_gammas_is_that_of_the_product() -> None:
    assert agree([near_the_limit(seed, (9, 10, 13, 16)) for seed in range(100)], "float") >= 80


@built
def test_the_verdict_of_the_example_is_that_of_the_checker_and_the_product() -> None:
    cases = [near_the_limit(seed, (1, 2, 3, 4, 5, 6, 7)) for seed in range(100)]
    formal = [said == "private" for said in answers(checker_input(*case) for case in cases)]
    example = [read_exactly(*case) for case in cases]
    others = [verdict(*case) for case in cases]
    assert all(
        one == two == (three == "private") for one, two, three in zip(formal, example, others, strict=True) if three
    )
    assert not [one for one, two in zip(formal, example, strict=True) if two and not one]
    assert 20 < sum(formal) < 80


@for_each("row", [row for row in SMALL if int(row["K"]) <= 11][::4])
def test_the_example_accepts_the_golden_set_and_refuses_gammas_that_are_not_private(row: Row) -> None:
    problem = problem_of(row)
    noise = solve(problem, row["objective"]).noise
    scaled = NoiseFunction(np.minimum(noise.values * (1 + 1e-9), 1.0))
    assert read_exactly(problem, noise)
    if broken := excess(problem, scaled):
        assert read_exactly(problem, scaled) == (broken < 0)


def test_the_example_reads_an_answer_and_imports_nothing_of_the_product(tmp_path: Path) -> None:
    path = ROOT / "examples" / "check_gamma.py"
    assert {*re.findall(r"^(?:import|from) (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)} <= {
        *sys.stdlib_module_names
    }
    record = solution_record(solve(PROBLEM))
    for gamma, said in ((record["gamma"], (0, "private\n")), ([1.0] * 8, (1, "not proved\n"))):
        answer = tmp_path / "answer.json"
        answer.write_text(json.dumps(record | {"gamma": gamma}), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-I", path, answer], capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stdout) == said, done.stderr


# ---------------------------------------------------------------------------------------------- changed files


def changed(record: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return record | {"problem": record["problem"] | fields}


def with_gamma(record: dict[str, Any], entries: dict[int, float]) -> dict[str, Any]:
    gamma = [*record["gamma"]]
    for place, value in entries.items():
        gamma[place] = value
    return record | {"gamma": gamma}


def tampered() -> list[dict[str, Any]]:
    """Return an answer changed in twenty-four ways, each of which makes it wrong."""
    record = solution_record(solve(PROBLEM))
    gamma = record["gamma"]
    up = [math.nextafter(value * (1 + 1e-12), 2) for value in gamma]
    return [
        record | {"gamma": [min(1.0, value * (1 + 1e-9)) for value in gamma]},
        record | {"gamma": [min(1.0, value + 1e-10) for value in up]},
        record | {"gamma": [1.0] * 8},
        record | {"gamma": gamma[:-1]},
        record | {"gamma": [*gamma, 0.0]},
        record | {"gamma": gamma[1:-1]},
        record | {"gamma": [gamma[0], *gamma[::-1][1:-1], 0.0]},
        record | {"gamma": []},
        with_gamma(record, {0: 0.5}),
        with_gamma(record, {1: gamma[1] + 1e-9}),
        with_gamma(record, {0: -1e-300, 7: -1e-300}),
        with_gamma(record, {0: math.nextafter(1.0, 2), 7: math.nextafter(1.0, 2)}),
        with_gamma(record, {3: 1.0, 4: 1.0}),
        changed(record, target_epsilon=0.599999),
        changed(record, target_epsilon=0.0),
        changed(record, target_epsilon=-0.6),
        changed(record, epsilon=0.300001),
        changed(record, epsilon="inf", Delta=0.0),
        changed(record, Delta=1.001e-3),
        changed(record, delta=1.999e-3),
        changed(record, delta=0.0),
        changed(record, affected=6),
        changed(record, affected=7),
        changed(record, K=8),
    ]


@built
def test_a_changed_answer_is_refused() -> None:
    whole = solution_record(solve(PROBLEM))
    assert run("verify", "-", "--checker", "formal", given=json.dumps(whole)).exit_code == 0
    for record in tampered():
        result = run("verify", "-", "--checker", "formal", given=json.dumps(record))
        assert result.exit_code in (ExitCode.NOT_PRIVATE, ExitCode.BAD_INPUT), record
        assert result.stdout == ""


@built
def test_the_checker_itself_refuses_changed_answers() -> None:
    """Without the parser of the product in front of it."""
    for record in tampered():
        problem, gamma = record["problem"], [Fraction(value) for value in record["gamma"]]
        lines = [f"K {problem['K']}", f"affected {problem['affected']}", f"epsilon {problem['epsilon']}"]
        lines += [f"Delta {problem['Delta']}", f"target {problem['target_epsilon']}", f"delta {problem['delta']}"]
        lines += ["gamma " + " ".join(f"{value.numerator}/{value.denominator}" for value in gamma), "check"]
        assert answers(["\n".join(lines)]) == ["not proved"], lines
    assert answers([checker_input(PROBLEM, solve(PROBLEM).noise)]) == ["private"]


# ---------------------------------------------------------------------------------------------- the build


def test_the_error_of_the_build_names_missing_packages(tmp_path: Path) -> None:
    make = shutil.which("make")
    assert make is not None
    folder = str(ROOT / "formal")
    done = subprocess.run(
        [make, "-C", folder, "packages"], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert (
        "make formal needs Coq and OCaml. Debian: apt-get install --no-install-recommends "
        "coq ocaml-findlib ocaml-nox libzarith-ocaml-dev\n"
    ) in done.stderr


def test_no_proof_is_admitted() -> None:
    for path in (ROOT / "formal").glob("*.v"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"\b(Admitted|admit|Axiom|Parameter|Conjecture|Abort)\b", text), path.name
        assert len(re.findall(r"\bProof\b", text)) == len(re.findall(r"\bQed\.", text)), path.name


@built
def test_the_theorems_depend_only_on_the_axioms_of_the_reals() -> None:
    """If the checker was built here, the output of Coq about its theorems is next to it."""
    if not (CHECKER.parent / "Checker.log").exists():
        pytest.skip("the checker was built elsewhere")
    printed = (CHECKER.parent / "Checker.log").read_text(encoding="utf-8")
    assert "check_sound\n     : forall (bits : Z) (i : input), check bits i = true -> claim i\n" in printed
    axioms = {*re.findall(r"^([A-Z]\w*\.\w+)", printed, re.MULTILINE)}
    assert axioms == {
        "ClassicalDedekindReals.sig_not_dec",
        "ClassicalDedekindReals.sig_forall_dec",
        "FunctionalExtensionality.functional_extensionality_dep",
    }


# ---------------------------------------------------------------------------------------------- questions

QUESTION = "K 3\naffected 3\nepsilon 0.1\nDelta 0\nm 2\ndelta 0\ngamma 1/2 0.25 2.5e-1 .5\ncheck\n"


@built
@for_each(
    ("old", "new", "message"),
    [
        ("K 3", "K three", "not a number: three"),
        ("K 3", "K 3\nK 4", "given twice: K"),
        ("K 3", "voters 3", "unknown name: voters"),
        ("K 3", "K 2000", "at most 1000 voters: 2000"),
        ("m 2", "m 2\ntarget 0.2", "exactly one of m and target is needed, with one value"),
        ("m 2", "", "exactly one of m and target is needed, with one value"),
        ("delta 0", "delta 1/0", "not a fraction of whole numbers: 1/0"),
        ("delta 0", "delta 1.5/2", "not a fraction of whole numbers: 1.5/2"),
        ("delta 0", "delta 1e999999", "exponent out of range: 1e999999"),
        ("delta 0", "delta 1e", "not a number: "),
        ("delta 0", "delta", "delta needs one value"),
        ("gamma 1/2", "noise 1/2", "unknown name: noise"),
        ("check", "", "the input ends before check"),
    ],
)
def test_a_malformed_question_is_refused(old: str, new: str, message: str) -> None:
    assert refused(QUESTION.replace(old, new)) == f"darrm-formal: {message}\n"


@built
@pytest.mark.parametrize("nothing", ["", " ", "\n\n"])
def test_an_empty_input_is_refused(nothing: str) -> None:
    assert refused(nothing) == "darrm-formal: there is nothing to check\n"


@built
def test_numbers_are_read_exactly() -> None:
    third = "K 1\naffected 1\nepsilon {}\nDelta 0\ntarget {}\ndelta 0\ngamma {} {}\ncheck"
    # One voter: H = γ(2p − 1), so γ = 1 is private at the ε of the voter, to the last digit.
    assert answers(
        [
            QUESTION.replace(" .5", " 0.5").strip(),
            third.format("0.1", "1/10", 1, "1.0"),
            third.format("0.1", "0.0999999999999999999999", 1, 1),
            third.format("0.1", "1e-1", "1.00000000000000000000001", "1.00000000000000000000001"),
            third.format("0.1", "1E-1", "0.99999999999999999999", "99999999999999999999e-20"),
            third.format("inf", "0", "0e5000", "0/7"),
        ]
    ) == ["private", "not proved", "not proved", "not proved", "private", "private"]


def program(folder: Path, script: str) -> str:
    path = folder / "checker"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


SMALL_PROBLEM = ("--m", "2", "--epsilon", "0.5")


def test_a_proof_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, program(tmp_path, "cat > question; echo private"))
    monkeypatch.chdir(tmp_path)
    result = run("verify", "-", *SMALL_PROBLEM, "--checker", "formal", given="[0, 0.5, 0.5, 0]")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.endswith(
        "\n\nprivate    proved by the formal checker (a program extracted from a Coq proof), for these exact numbers\n"
    )
    assert Path("question").read_text(encoding="utf-8") == (
        "K 3\naffected 3\nepsilon 0.5\nDelta 0.0\ntarget 1.0\ndelta 0.0\ngamma 0/1 1/2 1/2 0/1\ncheck\n"
    )
    answer = json.loads(run("verify", "-", *SMALL_PROBLEM, "--checker", "formal", "--json", given="[0, 0, 0]").stdout)
    assert (answer["private"], answer["checker"]) == (True, "formal")
    assert problem_from_record(answer["problem"]) == Problem.from_allowance(K=2, m=2, epsilon=0.5)
    warned = run("verify", "-", *SMALL_PROBLEM, "--Delta", "0.1", "--delta", "0", "--checker", "formal", given="[0, 0]")
    assert warned.stderr.startswith("Warning: delta = 0 is below Delta = 0.1")


def test_a_missing_proof_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, program(tmp_path, "echo not proved; exit 1"))
    result = run("verify", "-", *SMALL_PROBLEM, "--checker", "formal", "--json", given="[1, 1, 1, 1]")
    assert result.exit_code == ExitCode.NOT_PRIVATE
    assert json.loads(result.stdout)["private"] is None
    assert result.stderr == (
        "Error: The formal checker does not prove gamma private for these exact numbers. Without --checker formal, "
        "`darrm verify` says where it fails.\n"
    )


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo private; exit 1", "The formal checker ended with status 1 and said: private"),
        ("echo 'darrm-formal: no' >&2; exit 2", "The formal checker ended with status 2 and said: darrm-formal: no"),
        ("cat > /dev/null", "The formal checker ended with status 0 and said: nothing"),
        ("echo private; echo private", "The formal checker ended with status 0 and said: private\nprivate"),
    ],
)
def test_other_outputs_are_not_proofs(
    script: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, program(tmp_path, script))
    result = run("verify", "-", *SMALL_PROBLEM, "--checker", "formal", given="[0, 0]")
    assert (result.exit_code, result.stdout, result.stderr) == (ExitCode.UNAVAILABLE, "", f"Error: {message}\n")


def test_an_unresponsive_checker_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, program(tmp_path, "exec sleep 60"))
    with pytest.raises(BackendUnavailable, match=r"did not answer within 0.2 s"):
        formally_private(PROBLEM, NoiseFunction(np.zeros(8)), time_limit=0.2)


def test_the_error_of_a_missing_checker_tells_how_to_build_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "absent"))
    result = run("verify", "-", *SMALL_PROBLEM, "--checker", "formal", given="[0, 0]")
    assert (result.exit_code, result.stdout) == (ExitCode.UNAVAILABLE, "")
    assert result.stderr.startswith(
        f"Error: The formal checker was not found: {VARIABLE} = {tmp_path / 'absent'} is no pro"
    )
    assert "`make formal`" in result.stderr
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = run("verify", "-", *SMALL_PROBLEM, "--checker", "formal", given="[0, 0]")
    assert missing.stderr.startswith(
        "Error: The formal checker was not found: there is no darrm-formal on the PATH. Build"
    )
    Path(program(tmp_path, "echo private")).rename(tmp_path / "darrm-formal")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin{os.pathsep}/usr/bin")
    assert run("verify", "-", *SMALL_PROBLEM, "--checker", "formal", given="[0, 0]").exit_code == 0


def test_invalid_options_are_refused() -> None:
    for options, message in (
        (("--checker", "coq"), "--checker: 'coq' is not valid: expected 'own' or 'formal'."),
        (("--checker", "formal", "--arithmetic", "ball"), "--arithmetic cannot be combined with --checker formal"),
    ):
        result = run("verify", "-", *SMALL_PROBLEM, *options, given="[0, 0]")
        assert result.exit_code == ExitCode.BAD_INPUT
        assert result.stderr.startswith(f"Error: {message}")
