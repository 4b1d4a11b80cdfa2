"""Error curve: γ_opt beside the baselines, where all voters share one chance p of a one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from darrm_opt.accuracy import ErrorCurve, error_curve
from darrm_opt.answers import Report
from darrm_opt.answers.verification import member, members, reads, verify_gamma
from darrm_opt.arguments import whole_number
from darrm_opt.design.report import columns, problem_text
from darrm_opt.noise import NoiseFunction
from darrm_opt.planning.baselines import BASELINES, private_baselines, reasons_left_out
from darrm_opt.problem import Problem
from darrm_opt.questions.design import Design, NearestAnswer, ProblemAnswer
from darrm_opt.questions.question import Answer, answer_field, question_field
from darrm_opt.record import problem_from_record, problem_record

MEASURES = ("tv_error", "disagreement")

MAX_GRID_POINTS = 100_001  # most points of a curve that is computed here

BASELINE_WORDS = {
    "words": "Baselines to compare γ_opt with, each in the form that is proved private for the problem",
    "otherwise": f"by default {', '.join(BASELINES)}",
}


def number_of_points(points: Any) -> int:
    """Return a number of points of a curve."""
    accepted = f"a whole number of points, from 2 to {MAX_GRID_POINTS}"
    return whole_number(points, "points", accepted, least=2, most=MAX_GRID_POINTS)


def p_grid(points: Any) -> list[float]:
    """Return ``points`` probabilities from 0.5 to 1, evenly spaced; below 0.5 the errors are the same.

    >>> p_grid(3)
    [0.5, 0.75, 1.0]
    """
    return [float(p) for p in np.linspace(0.5, 1.0, number_of_points(points))]


def errors_text(head: str, over: str, at: Sequence[float], errors: Mapping[str, Any], average: str = "") -> str:
    """Return errors as a table for each measure; ``errors``: by name and measure, one for each place, or None."""
    lines = [head]
    for measure in MEASURES:
        values = [errors[name][measure] for name in errors]
        rows = [
            [f"{place:g}", *("-" if column[i] is None else f"{column[i]:.6f}" for column in values)]
            for i, place in enumerate(at)
        ]
        lines += ["", f"{measure.replace('_', ' ')}{average}", columns([over, *errors], rows)]
    return "\n".join(lines)


@dataclass(frozen=True)
class ErrorCurves:
    """Error of γ_opt and of the baselines over p."""

    problem: Problem  # for which every γ was proved private
    noise: dict[str, NoiseFunction]  # each γ by its name: "optimal", and the baselines
    curves: dict[str, ErrorCurve]  # the errors of each, by the same names, computed by this process
    left_out: dict[str, str]  # baselines that have no curve, and why

    @classmethod
    def of(
        cls, problem: Problem, noise: NoiseFunction, p: Sequence[float], baselines: Sequence[str] | None = None
    ) -> ErrorCurves:
        """Return the errors of γ and of the baselines (None: the usual) that are private, at each p."""
        compared = {"optimal": noise, **private_baselines(problem, baselines)}
        curves = {name: error_curve(each, p) for name, each in compared.items()}
        return cls(problem, compared, curves, reasons_left_out(problem, baselines or (), curves))

    def record(self) -> dict[str, Any]:
        """Return the curves as plain data."""
        curves = {
            name: {"gamma": self.noise[name].values.tolist()}
            | {measure: getattr(errors, measure).tolist() for measure in MEASURES}
            for name, errors in self.curves.items()
        }
        p = [] if not curves else self.curves["optimal"].p.tolist()
        return {"over": "p", "problem": problem_record(self.problem), "p": p, "curves": curves}


class CurveAnswer(Answer):
    """One noise function and its errors."""

    gamma: list[float] = answer_field("γ(0..K) [probability], proved private for the problem.")
    tv_error: list[float] = answer_field("|Pr[release = 1] − Pr[majority = 1]| at each p [probability].")
    disagreement: list[float] = answer_field("Pr[release ≠ majority that was voted] at each p [probability].")


class ErrorCurveAnswer(Answer):
    """Errors over the probability p of a one, shared by all voters: γ_opt beside the baselines."""

    id: str = answer_field("Content key of the γ called optimal.")
    cached: bool = answer_field("Whether that γ was stored before.")
    over: Literal["p"] = answer_field("What the errors are over.")
    problem: ProblemAnswer = answer_field("The problem as it was understood.")
    objective: str = answer_field("What the γ called optimal maximises.")
    shape: str = answer_field("free or monotone.")
    status: str = answer_field("How its solve ended.")
    p: list[float] = answer_field("Probability of a one [probability]; below 0.5 the errors are the same.")
    curves: dict[str, CurveAnswer] = answer_field(
        "By name: optimal, and those of the baselines that have a meaning for the problem and are private for it."
    )
    left_out: dict[str, str] = answer_field("Baselines that were asked for and are not shown, and why.")
    nearest: NearestAnswer | None = answer_field(
        "Where the γ called optimal was designed for another, stronger problem; else null."
    )
    warnings: list[str] = answer_field("What the person who asked should reconsider; usually empty.")


class NeedsGamma(Design):
    """Question about the γ of a design, which is found first."""

    def check(self) -> None:
        """Refuse an invalid problem or objective, unless its γ was found, which has both."""
        if self.found is None:
            self.spec()

    def needs(self) -> Design | None:
        return Design(**{each.name: getattr(self, each.name) for each in Design.stated()})

    def given(self) -> tuple[Problem, NoiseFunction]:
        """Return the problem and the γ that was found."""
        problem = problem_from_record(self.found["problem"])
        return problem, NoiseFunction(self.found["gamma"], problem.K)


class Curve(NeedsGamma):
    """Compare γ_opt with every baseline of the same privacy, where all voters share one p."""

    path: ClassVar[str] = "error-curve"
    tag: ClassVar[str] = "curves"
    summary: ClassVar[str] = "Error of γ_opt and of the baselines over p"
    answers: ClassVar[Any] = ErrorCurveAnswer
    table: ClassVar[str] = "The curves; as CSV or npz, the columns curve, p, tv_error, disagreement."

    points: int = question_field(101, words="Number of p from 0.5 to 1, evenly spaced [points]")
    baselines: list[str] | None = question_field(None, **BASELINE_WORDS)

    @property
    def seconds(self) -> float:
        return 0.005 + 4e-6 * self.K * self.points

    def answer(self, report: Report = lambda _: None) -> ErrorCurves:
        report(None)
        return ErrorCurves.of(*self.given(), p_grid(self.points), self.baselines)

    def record_of(self, answer: ErrorCurves) -> dict[str, Any]:
        names = ("id", "objective", "shape", "status", "nearest", "warnings")
        said = {} if self.found is None else {name: self.found[name] for name in names}
        return {**said, "cached": True, **answer.record(), "left_out": answer.left_out}

    def text_of(self, answer: ErrorCurves) -> str:
        record = answer.record()
        return errors_text(problem_text(answer.problem), "p", record["p"], record["curves"])

    def figure_of(self, answer: ErrorCurves) -> Any:
        from darrm_opt.figures import errors_figure

        return errors_figure(answer.problem, answer.noise)

    def columns(self, record: dict[str, Any]) -> dict[str, Sequence[Any]]:
        curves, p = record["curves"], record["p"]
        columns: dict[str, Sequence[Any]] = {"curve": [name for name in curves for _ in p], "p": [*p] * len(curves)}
        return columns | {
            measure: [value for curve in curves.values() for value in curve[measure]] for measure in MEASURES
        }

    @reads
    def verify(self, given: Any) -> ErrorCurves:
        """Return the error curves, each of a γ that is private for the problem, computed by this process."""
        problem, curves = self.problem(), member(given, "curves")
        members(curves, dict)
        noise = {name: verify_gamma(member(curve, "gamma"), problem) for name, curve in curves.items()}
        p = [float(value) for value in member(given, "p")]
        errors = {name: error_curve(gamma, p) for name, gamma in noise.items()}
        return ErrorCurves(problem, noise, errors, dict(given.get("left_out") or {}))
