"""Verification: the certificate of a γ that is given."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any, ClassVar, Literal

from darrm_opt.answers import Report
from darrm_opt.answers.running_time import verification_seconds
from darrm_opt.answers.verification import member, parse_problem
from darrm_opt.design.certificate import Arithmetic, Certificate, verify
from darrm_opt.errors import VerificationFailed
from darrm_opt.noise import NoiseFunction
from darrm_opt.questions.design import CertificateAnswer, ProblemAnswer, ProblemQuestion
from darrm_opt.questions.question import Answer, answer_field, question_field
from darrm_opt.record import problem_record


class VerifyAnswer(Answer):
    """The γ is private for the problem, exactly as posted."""

    private: Literal[True] = answer_field("Whether it is private: any other γ is refused.")
    problem: ProblemAnswer = answer_field("The problem as it was understood.")
    certificate: CertificateAnswer = answer_field("Its certificate.")
    warnings: list[str] = answer_field("What the person who asked should reconsider; usually empty.")


class Verify(ProblemQuestion):
    """Prove from γ alone that a release is private, or return a counterexample.

    A γ that is not private is a problem of the type `not-private`, which carries `worst_corners` and `excess`; one that
    can be neither proved nor refuted, within rounding, is `not-proven`.
    """

    path: ClassVar[str] = "verify"
    tag: ClassVar[str] = "design"
    summary: ClassVar[str] = "Certificate of a given γ"
    answers: ClassVar[Any] = VerifyAnswer
    by_query: ClassVar[bool] = False

    gamma: list[float] = question_field()
    arithmetic: Arithmetic = question_field("float")

    @property
    def seconds(self) -> float:
        return verification_seconds(self.problem(), self.arithmetic)

    def check(self) -> None:
        NoiseFunction(self.gamma, self.problem().K)

    def answer(self, report: Report = lambda _: None) -> Certificate:
        """Return the certificate; raises NotPrivate with the counterexample."""
        report(None)
        return verify(self.problem(), self.gamma, arithmetic=self.arithmetic)

    def record_of(self, answer: Certificate) -> dict[str, Any]:
        problem = self.problem()
        record = {"private": True, "problem": problem_record(problem), "certificate": asdict(answer)}
        return record | {"warnings": list(problem.warnings(self.gamma))}

    def verify_stored(self, given: Any) -> None:
        """Refuse a certificate that is no proof, or a γ that is not private."""
        certificate = given["certificate"]
        if certificate["bound"] > certificate["limit"]:
            raise VerificationFailed("The certificate does not prove the claim.")
        replace(self, arithmetic="float").verify(given)

    def verify(self, given: Any) -> Certificate:
        """Return a certificate that this process proved, where the answer is one for the same problem."""
        self.confirm(given)
        return self.answer()

    def confirm(self, given: Any) -> None:
        """Refuse an answer that is no certificate for the problem."""
        if member(given, "private") is not True or parse_problem(member(given, "problem")) != self.problem():
            raise VerificationFailed("The answer does not prove the claim.")
