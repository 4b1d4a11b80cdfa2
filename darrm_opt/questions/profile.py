"""Privacy profile of one release: the least δ at each ε′, of γ_opt or of a γ that is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from darrm_opt.answers import Report
from darrm_opt.answers.running_time import profile_seconds
from darrm_opt.answers.verification import member, parse_gamma
from darrm_opt.design.certificate import verify
from darrm_opt.design.privacy_profile import PrivacyProfile, privacy_profile
from darrm_opt.design.report import columns, problem_text, text_above
from darrm_opt.errors import VerificationFailed
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import MAX_TARGET_EPSILON, Problem
from darrm_opt.questions.curve import NeedsGamma, number_of_points
from darrm_opt.questions.design import Design, NearestAnswer, ProblemAnswer
from darrm_opt.questions.question import Answer, answer_field, question_field
from darrm_opt.record import canonical_json, problem_record

PROFILE_WIDTH = 1.5  # largest ε of a profile as a multiple of the target ε, by default
MIN_PROFILE_EPSILON = 1e-3  # least target ε that this multiple is taken of [nats], where the target is (nearly) 0


def epsilon_grid(target_epsilon: float, points: Any) -> list[float]:
    """Return ``points`` values of ε from 0 to beyond the target, evenly spaced [nats]."""
    furthest = PROFILE_WIDTH * max(target_epsilon, MIN_PROFILE_EPSILON)
    grid: list[float] = np.linspace(0.0, min(furthest, MAX_TARGET_EPSILON), number_of_points(points)).tolist()
    return grid


@dataclass(frozen=True)
class VerifiedProfile(PrivacyProfile):
    """Privacy profile that this process computed, with its γ."""

    noise: NoiseFunction


class ProfileAnswer(Answer):
    """The exact privacy profile of one release."""

    id: str | None = answer_field("Content key of the γ; null for one that was given.")
    problem: ProblemAnswer = answer_field("The problem as it was understood.")
    gamma: list[float] = answer_field("γ(0..K) [probability].")
    epsilon: list[float] = answer_field("ε′ [nats].")
    delta: list[float] = answer_field("Proven upper bound on the least δ at ε′ [probability].")
    attained: list[float] = answer_field(
        "δ that some pair of neighbouring datasets attains, as computed: no proof [probability]."
    )
    nearest: NearestAnswer | None = answer_field("Where γ_opt was designed for another, stronger problem; else null.")
    warnings: list[str] = answer_field("What the person who asked should reconsider; usually empty.")


class Profile(NeedsGamma):
    """Find the least δ at each ε′, for γ_opt or for a given γ, private or not."""

    path: ClassVar[str] = "profile"
    tag: ClassVar[str] = "curves"
    summary: ClassVar[str] = "Privacy profile of one release"
    answers: ClassVar[Any] = ProfileAnswer
    table: ClassVar[str] = "The profile; as CSV or npz, the columns epsilon, delta, attained."

    gamma: list[float] | None = question_field(None)
    epsilons: list[float] | None = question_field(None)
    points: int = question_field(
        16, words="Number of ε′, evenly spaced from 0 to one and a half times the target ε [points]"
    )

    @property
    def seconds(self) -> float:
        return profile_seconds(self.given()[0], self.points if self.epsilons is None else len(self.epsilons))

    def check(self) -> None:
        if self.gamma is None:
            super().check()
        else:
            self.given()

    def needs(self) -> Design | None:
        """Return the design, unless a γ is given."""
        return super().needs() if self.gamma is None else None

    def given(self) -> tuple[Problem, NoiseFunction]:
        """Return the problem and the γ that was given, or found."""
        if self.gamma is None:
            return super().given()
        problem = self.problem()
        return problem, NoiseFunction(self.gamma, problem.K)

    def answer(self, report: Report = lambda _: None) -> VerifiedProfile:
        report(None)
        problem, noise = self.given()
        grid = epsilon_grid(problem.target.epsilon, self.points) if self.epsilons is None else self.epsilons
        return VerifiedProfile(**privacy_profile(noise, problem, grid).__dict__, noise=noise)

    def record_of(self, answer: VerifiedProfile) -> dict[str, Any]:
        if self.found is not None:
            said = {name: self.found[name] for name in ("id", "problem", "nearest", "warnings")}
        else:
            problem = self.problem()
            warnings = list(problem.warnings(answer.noise.values.tolist()))
            said = {"id": None, "problem": problem_record(problem), "nearest": None, "warnings": warnings}
        arrays = {"gamma": answer.noise.values, "epsilon": answer.epsilons}
        arrays |= {"delta": answer.deltas, "attained": answer.attained}
        return said | {name: array.tolist() for name, array in arrays.items()}

    def text_of(self, answer: VerifiedProfile) -> str:
        points = zip(answer.epsilons.tolist(), answer.deltas.tolist(), strict=True)
        rows = [[f"{epsilon:.6g}", text_above(delta, ".6e")] for epsilon, delta in points]
        return "\n".join([problem_text(self.given()[0]), "", columns(["ε", "δ"], rows)])

    def columns(self, record: dict[str, Any]) -> dict[str, Sequence[Any]]:
        return {name: record[name] for name in ("epsilon", "delta", "attained")}

    def verify_stored(self, given: Any) -> None:
        """Refuse a number that is infinite: to prove a profile is to compute it."""
        canonical_json(given)

    def verify(self, given: Any) -> VerifiedProfile:
        """Return the profile of the γ of an answer, computed here; γ_opt is proved private."""
        problem = self.problem()
        noise = parse_gamma(member(given, "gamma"), problem.K)
        if self.gamma is None:
            verify(problem, noise)
        elif noise != NoiseFunction(self.gamma, problem.K):
            raise VerificationFailed("The profile is that of another γ than the one that was sent.")
        grid = member(given, "epsilon")
        if not isinstance(grid, list) or (self.epsilons is not None and grid != self.epsilons):
            raise VerificationFailed("The profile is at other ε than those that were asked.")
        return VerifiedProfile(**privacy_profile(noise, problem, grid).__dict__, noise=noise)
