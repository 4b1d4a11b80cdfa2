"""Trade-off: utility over the privacy allowance, γ_opt for many m of the same voters."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from darrm_opt.accuracy import disagreement, tv_error
from darrm_opt.answers import Report
from darrm_opt.answers.running_time import estimate_running_time, verification_seconds
from darrm_opt.answers.verification import member, members, reads
from darrm_opt.design.objective import Objective
from darrm_opt.design.report import voters_text
from darrm_opt.design.solution import Solution
from darrm_opt.design.sweep import solve_sweep
from darrm_opt.errors import InvalidInput, Rule, VerificationFailed
from darrm_opt.fields import FIELDS
from darrm_opt.noise import NoiseFunction
from darrm_opt.planning.baselines import BASELINES, OTHER_BASELINES, private_baselines
from darrm_opt.problem import Problem, number_of_voters
from darrm_opt.questions.curve import BASELINE_WORDS, MEASURES, errors_text
from darrm_opt.questions.design import (
    SolvedQuestion,
    TradeoffPoint,
    VotersQuestion,
    point_record,
    stated_problem,
    verified_point,
)
from darrm_opt.questions.question import Answer, answer_field, question_field
from darrm_opt.record import DesignSpec, solution_from_record

DEFAULT_ALLOWANCES = 25  # number of allowances, by default


def allowance_grid(K: int, most: int) -> list[float]:
    """Return whole allowances from 1 to ⌈(K+1)/2⌉, where pure-DP voters need no noise, at most ``most`` of them.

    >>> allowance_grid(11, 25), allowance_grid(101, 4)
    ([1, 2, 3, 4, 5, 6], [1, 18, 34, 51])
    """
    last = (number_of_voters(K) + 2) // 2
    return sorted({round(float(m)) for m in np.linspace(1, last, min(most, last))})


@dataclass(frozen=True)
class AverageErrors:
    """Errors of one way of releasing, averaged over the objective's prior, one for each point of a trade-off."""

    tv_error: tuple[float | None, ...]  # [probability]; None where it has no closed form, or the way has no meaning
    disagreement: tuple[float | None, ...]  # [probability]; None where the way has no meaning


@dataclass(frozen=True)
class Tradeoff:
    """γ_opt at many allowances."""

    points: tuple[Solution, ...]  # the certified γ of each, in the order asked
    # average errors by name: "optimal" and the baselines; None for an objective without a prior
    errors: dict[str, AverageErrors] | None


def average_errors(
    solutions: Sequence[Solution], baselines: Sequence[str] | None = None
) -> dict[str, AverageErrors] | None:
    """Return both errors of each γ and of the baselines (None: the usual), averaged over the objective's prior.

    None for an objective that has no prior.
    """
    tables = []
    for solution in solutions:
        if not isinstance(solution.objective, Objective):
            return None
        compared = {"optimal": solution.noise, **private_baselines(solution.problem, baselines)}
        tables.append({name: _errors(noise, solution.objective.prior) for name, noise in compared.items()})
    # In the order of the registries: a baseline that has no meaning at one m must not move the others.
    names = [name for name in ("optimal", *BASELINES, *OTHER_BASELINES) if any(name in table for table in tables)]
    columns = {name: zip(*(table.get(name, (None, None)) for table in tables), strict=True) for name in names}
    return {name: AverageErrors(*map(tuple, column)) for name, column in columns.items()}


def errors_record(errors: dict[str, AverageErrors] | None) -> dict[str, Any] | None:
    """Return average errors as plain data."""
    return errors and {name: {each: [*getattr(errors[name], each)] for each in MEASURES} for name in errors}


def _errors(noise: NoiseFunction, prior: Any) -> tuple[float | None, float]:
    try:
        tv: float | None = tv_error(noise, prior)
    except InvalidInput:  # no closed form
        tv = None
    return tv, disagreement(noise, prior)


class AverageAnswer(Answer):
    """Errors of one way of releasing, averaged over the objective's prior, at each allowance."""

    tv_error: list[float | None] = answer_field(
        "|Pr[release = 1] − Pr[majority = 1]| [probability]; null where it has no closed form or the way "
        "has no meaning."
    )
    disagreement: list[float | None] = answer_field(
        "Pr[release ≠ majority that was voted] [probability]; null where the way has no meaning."
    )


class TradeoffAnswer(Answer):
    """Utility over the allowance, each point certified."""

    over: Literal["m", "target_epsilon"] = answer_field("What the utility is over.")
    objective: str = answer_field("What was maximised.")
    shape: str = answer_field("free or monotone.")
    m: list[float | None] = answer_field("Privacy allowances, in the order asked; null where m has none.")
    target_epsilon: list[float] = answer_field("ε of the release [nats].")
    delta: list[float] = answer_field("δ of the release [probability].")
    utility: list[float] = answer_field("Share of the noiseless utility kept.")
    points: list[TradeoffPoint] = answer_field("The certified γ of each.")
    curves: dict[str, AverageAnswer] | None = answer_field(
        "Average errors by name: optimal and the baselines; null for an objective without a prior."
    )


class TradeoffQuestion(VotersQuestion, SolvedQuestion):
    """Utility against the privacy allowance: γ_opt for many m of the same voters.

    The allowances are `ms`, or `m_points` of them from `m_from` to `m_to`; by default, whole numbers up to (K+1)/2.
    For epsilon = 0 and epsilon = 'inf', where m has no meaning, give `target_epsilons`.
    """

    path: ClassVar[str] = "tradeoff"
    tag: ClassVar[str] = "curves"
    summary: ClassVar[str] = "Utility over the privacy allowance"
    answers: ClassVar[Any] = TradeoffAnswer
    table: ClassVar[str] = (
        "The points in the order asked; as CSV or npz, the columns m, target_epsilon, delta, utility, upper_bound, "
        "gap, status, id, and those of the average errors, such as optimal_tv_error."
    )
    solves: ClassVar[bool] = True
    limited_by: ClassVar[str] = "time_limit"

    ms: list[float] | None = question_field(None)
    m_from: float | None = question_field(None)
    m_to: float | None = question_field(None)
    m_points: int = question_field(DEFAULT_ALLOWANCES)
    target_epsilons: list[float] | None = question_field(None)
    baselines: list[str] | None = question_field(None, **BASELINE_WORDS)

    @property
    def seconds(self) -> float:
        return self.seconds_beside(())

    def seconds_beside(self, stored: Collection[str]) -> float:
        baselines = len(BASELINES if self.baselines is None else self.baselines)
        # What is compared is proved, and so is each design once more before it is stored.
        proofs = [baselines + (spec.key not in stored) for spec in self._specs]
        solving = sum(estimate_running_time(spec).seconds for spec in self._specs if spec.key not in stored)
        return solving + sum(
            count * verification_seconds(spec.problem) for count, spec in zip(proofs, self._specs, strict=True)
        )

    def check(self) -> None:
        _ = self._specs

    def designs(self) -> Sequence[DesignSpec]:
        return self._specs

    @cached_property
    def _specs(self) -> list[DesignSpec]:
        return [DesignSpec(problem, self.objective, self.shape) for problem in self._problems()]

    def _problems(self) -> Iterator[Problem]:
        voters = self.epsilon, self.Delta, self.delta, self.affected
        if self.target_epsilons is not None:
            self._excludes("target_epsilons", "ms", "m_from", "m_to")
            for target in self.target_epsilons:
                yield stated_problem(self.K, None, *voters, profile=self.profile, target_epsilon=target)
            return
        if self.profile is not None:
            raise InvalidInput("profile", self.profile, Rule("needs target_epsilons, as m has no meaning with it"))
        for m in self._allowances():
            yield stated_problem(self.K, m, *voters)

    def _allowances(self) -> list[float]:
        if self.ms is None and self.m_from is None and self.m_to is None:
            return [float(m) for m in allowance_grid(self.K, DEFAULT_ALLOWANCES)]
        if self.ms is not None:
            self._excludes("ms", "m_from", "m_to")
            return self.ms
        for name in ("m_from", "m_to"):
            if getattr(self, name) is None:
                raise InvalidInput(name, None, FIELDS[name].accepted)
        start, end, count = float(self.m_from or 0), float(self.m_to or 0), self.m_points
        if end < start:
            raise InvalidInput("m_to", end, FIELDS["m_to"].accepted)
        return [start + (end - start) * i / max(count - 1, 1) for i in range(count)]

    def _excludes(self, given: str, *names: str) -> None:
        for name in names:
            if (value := getattr(self, name)) is not None:
                raise InvalidInput(name, value, Rule(f"cannot be combined with {given}"))

    def answer(self, report: Report = lambda _: None) -> Tradeoff:
        """Return γ_opt for each allowance, one sweep of those that were not found; `limit` is that of all together."""
        specs = self._specs
        solutions = [record and solution_from_record(record) for record in self.found or [None] * len(specs)]
        missing = [place for place, solution in enumerate(solutions) if solution is None]
        report({"done": len(specs) - len(missing), "of": len(specs)})
        problems, goal = [specs[place].problem for place in missing], specs[0].objective
        sweep = solve_sweep(problems, goal, self.shape, backend=self.backend, total_time_limit=self.limit)
        for done, (index, solution) in enumerate(sweep, len(specs) - len(missing) + 1):
            solutions[missing[index]] = solution
            report({"done": done, "of": len(specs)})
        return Tradeoff(tuple(solutions), average_errors(solutions, self.baselines))

    def record_of(self, answer: Tradeoff) -> dict[str, Any]:
        points = [point_record(*each) for each in zip(self._specs, answer.points, strict=True)]
        return {**self._shown(points), "points": points, "curves": errors_record(answer.errors)}

    def text_of(self, answer: Tradeoff) -> str:
        """Return both errors at each allowance; empty for an objective without a prior."""
        errors, problems = errors_record(answer.errors), [spec.problem for spec in self._specs]
        if errors is None:
            return ""
        average = f", averaged over the prior {self._specs[0].objective}"
        over, at = "m", [problem.m or 0.0 for problem in problems]
        if self.target_epsilons is not None:
            over, at = "target ε", [problem.target.epsilon for problem in problems]
        return errors_text(voters_text(problems[0]), over, at, errors, average)

    def figure_of(self, answer: Tradeoff) -> Any:
        from darrm_opt.figures import allowance_figure

        problems = [spec.problem for spec in self._specs]
        return allowance_figure(
            problems[0], [problem.m or 0.0 for problem in problems], errors_record(answer.errors) or {}
        )

    def _shown(self, points: list[dict[str, Any]]) -> dict[str, Any]:
        """Return what follows from the points."""
        problems = [point["problem"] for point in points]
        return {
            "over": "m" if self.target_epsilons is None else "target_epsilon",
            "objective": str(self._specs[0].objective),
            "shape": self.shape,
            **{name: [problem[name] for problem in problems] for name in ("m", "target_epsilon", "delta")},
            "utility": [point["utility"] for point in points],
        }

    def parts(self, record: dict[str, Any]) -> list[tuple[DesignSpec, dict[str, Any]]]:
        return [*zip(self._specs, record["points"], strict=True)]

    def solutions(self, answer: Tradeoff) -> list[Solution]:
        return [*answer.points]

    def columns(self, record: dict[str, Any]) -> dict[str, Sequence[Any]]:
        columns = {name: record[name] for name in ("m", "target_epsilon", "delta", "utility")}
        columns |= {name: [each[name] for each in record["points"]] for name in ("upper_bound", "gap", "status", "id")}
        for name, curve in (record["curves"] or {}).items():
            columns |= {f"{name}_{measure}": curve[measure] for measure in MEASURES}
        return columns

    @reads
    def verify(self, given: Any) -> Tradeoff:
        """Return a trade-off, one point for each allowance, in order, with a γ that is private for it."""
        points, specs = members(member(given, "points"), list), self._specs
        if len(points) != len(specs):
            raise VerificationFailed("The answer does not have one point for each allowance.")
        found = tuple(verified_point(*each) for each in zip(points, specs, strict=True))
        for name, shown in self._shown([*points]).items():
            if given.get(name, shown) != shown:
                raise VerificationFailed(f"The answer has another {name} than its points have.")
        curves = given.get("curves")
        errors = curves and {name: self._averages(curve) for name, curve in curves.items()}
        return Tradeoff(found, errors)

    def _averages(self, curve: Any) -> AverageErrors:
        measures = [tuple(members(member(curve, name), list)) for name in MEASURES]
        if any(len(values) != len(self._specs) for values in measures):
            raise VerificationFailed("The answer does not have one average error for each allowance.")
        return AverageErrors(*measures)
