"""Records: a question and its answer as plain data, and the content key under which the answer is stored.

Files, the cache, REST and the command line share this form. Floats survive exactly (JSON keeps 17 digits); infinity is
the text "inf", as JSON has none. Reading checks the shape of the data and rebuilds each value through its own
validation; it does not prove privacy again: call `verify`.

    key = SHA-256 of the canonical JSON of {problem's numbers, objective, shape, record format, core}

A `Problem` is canonical, so 3·0.1 and 0.3 have one key, and an objective has one text. The key leaves out `m`, which is
the quotient of two numbers in it; method and backend, as the stored answer is optimal and canonical (design, "one
canonical answer"), the same for every solver; and the package's version, so that an upgrade that changes no answer
keeps the cache.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from darrm_opt._version import __version__
from darrm_opt.arguments import field_number, real_number
from darrm_opt.design.certificate import Certificate
from darrm_opt.design.objective import AnyObjective, as_objective
from darrm_opt.design.solution import Solution, Statistics, Status
from darrm_opt.design.solver import SHAPES, Shape, check_choice
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Privacy, Problem, TargetProfile, check_binary
from darrm_opt.untrusted import check_written, field, typed
from darrm_opt.voters import PrivacyProfile

FORMAT = 1  # version of the record's layout; part of every cache key

CORE = 1
"""Version of the answers. Raise it with any change that gives the same question another γ or another promise: to the
canonical objective, an objective's weights, the rounding of a problem's numbers, or the search behind a certificate. A
test compares three answers with this number."""


def problem_record(problem: Problem) -> dict[str, Any]:
    """Return a problem as plain data: K, m, epsilon, Delta, target_epsilon, delta, affected, and a profile if any."""
    return {"K": problem.K, "m": problem.m, **_numbers(problem)}


def _numbers(problem: Problem) -> dict[str, Any]:
    """Return the numbers that determine a problem's key: `problem_record` without m, which follows from them."""
    epsilon, points = problem.voter.epsilon, problem.voter.points
    return {
        "K": problem.K,
        "epsilon": "inf" if epsilon == math.inf else epsilon,
        "Delta": problem.voter.delta,
        **({"profile": [list(point) for point in points]} if len(points) > 1 else {}),
        "target_epsilon": problem.target.epsilon,
        "delta": problem.target.delta,
        **({"targets": [list(point) for point in problem.target.points]} if len(problem.target.points) > 1 else {}),
        "affected": problem.affected,
    }


def problem_from_record(record: dict[str, Any]) -> Problem:
    """Return the problem that `problem_record` wrote."""
    problem = Problem(
        field(record, "K"),
        _guarantee(record, "epsilon", "Delta", PrivacyProfile, "profile", "last"),
        _guarantee(record, "target_epsilon", "delta", TargetProfile, "targets", "first"),
        field(record, "affected"),
    )
    check_allowance(record.get("m"), problem)
    return problem


def _guarantee(
    record: dict[str, Any], epsilon: str, delta: str, several: Callable[[Any], Privacy], name: str, place: str
) -> Privacy:
    """Return the (ε, δ) of two fields, or of the points in field ``name``, of which it is the first or last."""
    one = Privacy(_number(record, epsilon), _number(record, delta))
    if record.get(name) is None:
        return one
    stated = several(typed(list[list[float]], record[name], name))
    if (stated.epsilon, stated.delta) != (one.epsilon, one.delta):
        accepted = f"points of which the {place} is {epsilon} and {delta}"
        raise InvalidInput(name, record[name], accepted, "They contradict each other.")
    return stated


def check_allowance(m: Any, problem: Problem) -> None:
    """Reject an ``m`` that contradicts the rest of its problem; None is always accepted."""
    if m is None or m == problem.m:
        return
    if problem.m is None:
        raise InvalidInput("m", m, f"no m with epsilon = {problem.voter.epsilon:g}", "It is undefined there.")
    accepted = f"target_epsilon / epsilon = {problem.m!r}"
    if not math.isclose(real_number(m, "m", accepted), problem.m, rel_tol=1e-9):
        raise InvalidInput("m", m, accepted, "They contradict each other: remove one.")


def solution_record(solution: Solution) -> dict[str, Any]:
    """Return a solution as plain data, ready for JSON."""
    return {
        "format": FORMAT,
        "problem": problem_record(solution.problem),
        "objective": str(solution.objective),
        "shape": solution.shape,
        # Every double as it is: the certificate was proved for these.
        "gamma": solution.gamma.tolist(),
        "utility": solution.utility,
        "upper_bound": solution.upper_bound,
        # For readers without this package: the gap follows from the two before it, the advice from the status.
        "gap": solution.gap,
        "status": solution.status.value,
        "advice": solution.status.advice,
        "certificate": asdict(solution.certificate),
        "method": solution.method,
        "backend": solution.backend,
        "statistics": asdict(solution.statistics),
        "warnings": list(solution.warnings),
    }


def solution_from_record(record: dict[str, Any]) -> Solution:
    """Return the solution that `solution_record` wrote, without proving its certificate again.

    `ANSWER_FIELDS` of a service's answer and `PLANNED_FIELDS` of a plan's file are accepted but not read.
    """
    if not isinstance(record, dict):
        raise InvalidInput("record", record, "a JSON object as written by darrm-opt")
    # First: in another format a field may have another meaning.
    if field(record, "format") != FORMAT:
        raise InvalidInput(
            "format", record["format"], f"{FORMAT}", "Written by another version of darrm-opt; solve again."
        )
    problem = problem_from_record(field(record, "problem"))
    solution = Solution(
        problem=problem,
        objective=as_objective(_typed(record, "objective", str)),
        shape=_typed(record, "shape", Shape),
        noise=NoiseFunction(_typed(record, "gamma", list[float]), problem.K),
        utility=_typed(record, "utility", float),
        upper_bound=_typed(record, "upper_bound", float),
        status=_typed(record, "status", Status),
        certificate=_typed(record, "certificate", Certificate),
        method=_typed(record, "method", str),
        backend=_typed(record, "backend", str),
        statistics=_typed(record, "statistics", Statistics),
    )
    written = solution_record(solution)
    if solution.certificate.version != __version__:  # its wording may differ
        written |= {"advice": field(record, "advice"), "warnings": field(record, "warnings")}
    check_written(record, written, (*ANSWER_FIELDS, *PLANNED_FIELDS))
    return solution


ANSWER_FIELDS = ("id", "cached", "nearest")

PLANNED_FIELDS = ("fresh", "queries", "total_epsilon", "total_delta")
"""Fields of a plan's file on its releases: whether voters are fresh, their number, and their total, which readers
prove."""


def _typed(record: dict[str, Any], name: str, kind: Any) -> Any:
    return typed(kind, field(record, name), name)


def _number(record: dict[str, Any], name: str) -> Any:
    value = field(record, name)
    return math.inf if value == "inf" else value


@dataclass(frozen=True)
class DesignSpec:
    """Design specification: everything that an optimal answer depends on.

    Args:
        problem: privacy to satisfy.
        objective: what is maximised; an `Objective` or its text.
        shape: "free" or "monotone".

    Guarantees:
        Equal specifications have equal keys and, by definition, equal answers.

    Raises:
        InvalidInput: not a problem, not an objective for its K, or not a shape.
    """

    problem: Problem
    objective: AnyObjective
    shape: Shape

    def __init__(self, problem: Problem, objective: AnyObjective | str = "rectangular", shape: Shape = "free") -> None:
        problem = check_binary(problem)
        goal = as_objective(objective)
        check_choice("shape", shape, SHAPES)
        goal.check_voters(problem.K)
        object.__setattr__(self, "problem", problem)
        object.__setattr__(self, "objective", goal)
        object.__setattr__(self, "shape", shape)

    @classmethod
    def of(cls, solution: Solution) -> DesignSpec:
        """Return the specification of a solution; `InvalidInput` if its objective is for another K."""
        return cls(solution.problem, solution.objective, "monotone" if solution.shape == "monotone" else "free")

    @cached_property
    def key(self) -> str:
        """The content key: 64 hexadecimal digits."""
        return content_key(
            problem=_numbers(self.problem), objective=str(self.objective), shape=self.shape, format=FORMAT
        )


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical_json(content: Any) -> str:
    """Return ``content`` as canonical JSON: sorted names, no spaces, plain ASCII; floats survive exactly."""
    return _CANONICAL.encode(content)


def content_key(**content: Any) -> str:
    """Return the key of a question from everything that its answer depends on: 64 hexadecimal digits."""
    return digest(canonical_json({**content, "core": CORE}))


def digest(text: str) -> str:
    """Return the SHA-256 of ``text``, 64 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def planned_fields(queries: int, total: Privacy) -> dict[str, Any]:
    """Return the fields that record the queries and the total of a design."""
    return {"queries": queries, "total_epsilon": total.epsilon, "total_delta": total.delta}


def planned_total(record: dict[str, Any]) -> tuple[int, Privacy] | None:
    """Return the queries and the total that `planned_fields` wrote, untrusted (see `VoteMechanism.fits`)."""
    names = ("queries", "total_epsilon", "total_delta")
    if not any(name in record for name in names):
        return None
    queries = field_number(record.get("queries"), "queries")
    accepted = "a finite number of nats, at least 0"
    epsilon = real_number(record.get("total_epsilon"), "total_epsilon", accepted, least=0, below=math.inf)
    delta = field_number(record.get("total_delta"), "total_delta")
    return queries, Privacy(epsilon, delta)
