"""Verification of an answer that was read: a cache row, a table, a service's reply, a saved file.

Nothing in it is trusted. This process proves again that γ is private, and compares the answer's other claims with γ.
One claim does not follow from γ and rests on the solver: that no private γ is better than `Solution.upper_bound`.

The same rules hold for every reader:

    claim          must be
    utility        that of γ, recomputed, within `TOLERANCE` (relative or absolute)
    upper bound    in [utility − TOLERANCE, 1 + TOLERANCE]
    certificate    that of the new proof: its limit within `TOLERANCE`; if this version of darrm-opt wrote it, its
                   method too, and its other numbers within `TOLERANCE` (another version may bound less tightly);
                   its worst value is φ at its worst corners, within `TOLERANCE`
    shape          monotone exactly, if it says so

A privacy failure is `NotPrivate` with the counterexample; any other failure is `InvalidSolution` with a reason, which
each caller turns into its own error.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np

from darrm_opt._version import __version__
from darrm_opt.design.certificate import Certificate, certify, verify
from darrm_opt.design.constraint import PrivacyConstraint
from darrm_opt.design.solution import Solution, Status
from darrm_opt.durable_file import replacing
from darrm_opt.errors import DarrmError
from darrm_opt.noise import NoiseFunction
from darrm_opt.record import DesignSpec, solution_from_record, solution_record
from darrm_opt.untrusted import TOLERANCE, UNREADABLE, json_value

Reason = Literal["record", "question", "certificate", "utility", "bound", "shape"]


class InvalidSolution(DarrmError):
    """An answer is invalid: it cannot be read, answers another question, or contradicts its γ."""

    def __init__(self, reason: Reason, message: str) -> None:
        self.reason: Reason = reason  # the rule it breaks
        super().__init__(message)


def save_solution(solution: Solution, path: str | PathLike[str]) -> None:
    """Write a solution to a file, atomically, as the JSON that `load_solution` and ``darrm verify`` read."""
    text = json.dumps(solution_record(solution), indent=2, ensure_ascii=False, allow_nan=False)
    with replacing(path) as draft:
        draft.write_text(f"{text}\n", encoding="utf-8")


def load_solution(path: str | PathLike[str]) -> Solution:
    """Return the solution in a file, with its privacy proved again (`Solution.load`)."""
    try:
        content = json_value(Path(path).read_bytes())
    except ValueError as err:
        raise InvalidSolution("record", f"{path} is not JSON: {err}") from err
    claim = read_solution(content)
    return verify_solution(claim, DesignSpec.of(claim))


def read_solution(record: Any) -> Solution:
    """Return the solution in a record of arbitrary data, without a proof."""
    try:
        return solution_from_record(record)
    except UNREADABLE as err:  # any step may fail on such data
        raise InvalidSolution("record", f"its record cannot be read: {err}") from err


def verify_solution(solution: Solution, spec: DesignSpec) -> Solution:
    """Return ``solution`` with a certificate proved by this process and its utility recomputed.

    Guarantees: The γ returned is that of ``solution``, bit for bit, and private for ``spec.problem``.
    """
    if (solution.problem, solution.objective, solution.shape) != (spec.problem, spec.objective, spec.shape):
        raise InvalidSolution("question", "it answers another question")
    proof = verify(spec.problem, solution.noise)
    _check_certificate(solution, proof)
    certificate = solution.certificate if _implies(proof, solution.certificate) else proof
    utility = check_utility(solution.utility, solution.noise, spec)
    check_upper_bound(solution.upper_bound, utility)
    _check_shape(solution.noise, spec)
    return replace(solution, certificate=certificate, utility=utility)


def _implies(proof: Certificate, claim: Certificate) -> bool:
    """Whether the proof implies every number of the stated certificate; keeping it makes answers reproducible."""
    return (
        claim.version == proof.version
        and claim.limit == proof.limit
        and proof.bound <= claim.bound <= claim.limit
        and claim.margin == (claim.limit - claim.bound) / 2
        and claim.error_bound >= proof.error_bound
    )


def verify_implied(solution: Solution, spec: DesignSpec) -> Solution:
    """Return ``solution``, the answer to a stricter question, as an answer to ``spec``, perhaps not the best.

    Its guarantee implies the requested one, but a bound computed for another problem may exceed the limit by a rounding
    error: `certify` then scales γ down by that little.

    Guarantees: The γ returned is private for ``spec.problem``. The optimum is unknown: the upper bound is 1 and the
    status `Status.NEAREST`.
    """
    if (solution.problem.K, solution.objective) != (spec.problem.K, spec.objective):
        raise InvalidSolution("question", "it answers another question")
    # Proved for this problem, not inferred from the stricter one: inference ignores rounding.
    noise, certificate = certify(spec.problem, solution.noise)
    utility = check_utility(solution.utility, noise, spec)
    _check_shape(noise, spec)
    return replace(
        solution,
        problem=spec.problem,
        shape=spec.shape,
        noise=noise,
        certificate=certificate,
        utility=utility,
        upper_bound=1.0,
        status=Status.NEAREST,
    )


def check_utility(claim: float, noise: NoiseFunction, spec: DesignSpec) -> float:
    """Return the utility of γ under the objective of ``spec``; it must equal the claim within `TOLERANCE`."""
    utility = spec.objective.linear_goal(spec.problem.K).utility(noise.upper_half)
    check_claim("utility", "its utility", claim, utility)
    return utility


def _check_shape(noise: NoiseFunction, spec: DesignSpec) -> None:
    if spec.shape == "monotone" and not noise.is_monotone:
        raise InvalidSolution("shape", "its gamma is not monotone")


_MISFIT = "its certificate does not fit its gamma"


def _check_certificate(solution: Solution, proof: Certificate) -> None:
    claim = solution.certificate
    same_version = claim.version == __version__
    for name in ("limit", "bound", "margin", "error_bound") if same_version else ("limit",):
        check_claim("certificate", f"{_MISFIT}: {name}", getattr(claim, name), getattr(proof, name))
    if not same_version:
        return
    if claim.method != proof.method:
        raise InvalidSolution("certificate", f"{_MISFIT}: method is {proof.method!r}, not {claim.method!r:.80}")
    # Two searches with one bound may end at different multisets, so each value is compared with its own.
    value = _value_at(claim.worst_corners, solution)
    check_claim("certificate", f"{_MISFIT}: worst_value", claim.worst_value, value)


def check_upper_bound(upper_bound: float, utility: float) -> None:
    """Reject an upper bound that is not between the utility and 1, within `TOLERANCE`."""
    if not utility - TOLERANCE <= upper_bound <= 1 + TOLERANCE:
        text = f"its upper bound {upper_bound!r} is not between its utility {utility!r} and 1"
        raise InvalidSolution("bound", text)


def check_claim(reason: Reason, name: str, claim: float, value: float) -> None:
    """Reject a claimed number that differs from its recomputed value by more than `TOLERANCE`."""
    if not math.isclose(claim, value, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
        raise InvalidSolution(reason, f"{name} is {value!r}, not {claim!r}")


def _value_at(voters: dict[str, int], solution: Solution) -> float:
    """Return φ at a multiset of corners; NaN if the problem has no such multiset."""
    constraints = [PrivacyConstraint.of(one) for one in solution.problem.each_target]
    limit = solution.certificate.limit
    constraint = min(constraints, key=lambda one: abs(one.limit - limit))  # of several targets, the certificate's
    labels = constraint.corners.labels
    if sum(voters.values()) != solution.problem.K or not voters.keys() <= set(labels):
        return math.nan
    counts = np.array([[voters.get(label, 0) for label in labels]], dtype=np.int64)
    return float(constraint.values(solution.noise.signed, counts)[0])
