"""The formal checker: a program extracted from a Coq proof (`formal/`), which says "private" only where that is proved.

It is not part of the wheel: `make formal` builds it. Nothing is rounded on the way: γ goes as the fractions that its
doubles are, the problem's numbers as the decimals that they are written as.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
from pathlib import Path

from darrm_opt.errors import BackendUnavailable
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Problem

PROGRAM = "darrm-formal"  # name of the checker on the PATH
VARIABLE = "DARRM_FORMAL_CHECKER"  # environment variable with its path, where it is not on the PATH

TIME_LIMIT = 600.0
"""Time after which the checker is stopped [s].

K = 35 with Δ > 0 takes one second, K = 51 some ten, K = 101 with Δ = 0 a tenth.
"""

_GET_IT = (
    f"Build it with `make formal` in the source tree (Coq and OCaml needed; docs/formal.md), then put "
    f"build/formal/{PROGRAM} on the PATH or its path into {VARIABLE}."
)


PROVED_TEXT = "private    proved by the formal checker (a program extracted from a Coq proof), for these exact numbers"

UNPROVED_TEXT = (
    "The formal checker does not prove gamma private for these exact numbers. "
    "Without --checker formal, `darrm verify` says where it fails."
)


def formal_checker() -> Path:
    """Return the path of the checker."""
    setting = os.environ.get(VARIABLE)
    path = shutil.which(setting or PROGRAM)
    if path is None:
        reason = f"{VARIABLE} = {setting} is no program" if setting else f"there is no {PROGRAM} on the PATH"
        raise BackendUnavailable(f"The formal checker was not found: {reason}. {_GET_IT}")
    return Path(path)


def checker_input(problem: Problem, noise: NoiseFunction) -> str:
    """Return the question in the checker's own form (`formal/main.ml`).

    >>> from darrm_opt import Privacy
    >>> print(checker_input(Problem(2, Privacy(0.1, 1e-05), Privacy(0.2)), NoiseFunction([0.5, 0, 0.5], 2)))
    K 2
    affected 2
    epsilon 0.1
    Delta 1e-05
    target 0.2
    delta 0.0
    gamma 1/2 0/1 1/2
    check
    """
    voter, target = problem.voter, problem.target
    gamma = (float(value).as_integer_ratio() for value in noise.values)
    return "\n".join(
        [
            f"K {problem.K}",
            f"affected {problem.affected}",
            f"epsilon {'inf' if voter.epsilon == math.inf else repr(voter.epsilon)}",
            f"Delta {voter.delta!r}",
            f"target {target.epsilon!r}",
            f"delta {target.delta!r}",
            "gamma " + " ".join(f"{numerator}/{denominator}" for numerator, denominator in gamma),
            "check",
        ]
    )


def formally_private(problem: Problem, noise: NoiseFunction, time_limit: float = TIME_LIMIT) -> bool:
    """Ask the formal checker whether γ is private."""
    program = formal_checker()
    question = checker_input(problem, noise) + "\n"
    try:
        run = subprocess.run(  # noqa: S603 — a program that the user names
            [program], input=question, capture_output=True, text=True, encoding="utf-8", timeout=time_limit, check=False
        )
    except subprocess.TimeoutExpired as err:
        raise BackendUnavailable(f"The formal checker did not answer within {time_limit:g} s.") from err
    except OSError as err:
        raise BackendUnavailable(f"The formal checker cannot be run: {program}: {err.strerror}.") from err
    if (run.returncode, run.stdout) not in {(0, "private\n"), (1, "not proved\n")}:
        output = run.stderr.strip() or run.stdout.strip() or "nothing"
        raise BackendUnavailable(f"The formal checker ended with status {run.returncode} and said: {output[:500]}")
    return run.returncode == 0
