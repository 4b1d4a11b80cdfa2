"""Composition: what many releases of a γ, or of one that is known by its (ε, δ), cost together by every account."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any, ClassVar

from darrm_opt.accounting.accounts import MAX_RELEASES
from darrm_opt.accounting.composition.closed_forms import basic_composition, kov_composition
from darrm_opt.accounting.composition.optimal import optimal_composition
from darrm_opt.accounting.pld import pld_composition
from darrm_opt.accounting.release_profile import Release
from darrm_opt.accounting.total import probability, total_delta_of, total_privacy
from darrm_opt.answers import Report
from darrm_opt.answers.running_time import composition_seconds
from darrm_opt.answers.verification import member, parse_gamma, parse_problem, reads
from darrm_opt.arguments import whole_number
from darrm_opt.design.report import assumed_text, columns, count_text, guarantee, text_above, trained_text
from darrm_opt.errors import BackendUnavailable, DeltaTooSmall, InvalidInput, TooMuchWork, VerificationFailed
from darrm_opt.fields import FIELDS
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import FRESH, MAX_TARGET_EPSILON, Privacy, Problem
from darrm_opt.questions.design import (
    Design,
    PrivateVotersQuestion,
    ProblemAnswer,
    SolvedQuestion,
    nats,
    stated_problem,
)
from darrm_opt.questions.question import Answer, answer_field, question_field
from darrm_opt.questions.voters import EachAnswer, QueriesQuestion
from darrm_opt.record import canonical_json, problem_from_record, problem_record
from darrm_opt.untrusted import TOLERANCE


class AccountAnswer(Answer):
    """The total by one account, or why there is none."""

    epsilon: float | None = answer_field("Total ε [nats]; null where the account refuses.")
    delta: float | None = answer_field("At this total δ [probability]; null where the account refuses.")
    epsilon_at_least: float | None = answer_field(
        "With bits: an ε that some adversary attains at the total δ [nats]; no account can be below it.", None
    )
    refused: str | None = answer_field("Why the account gives no number.", None)
    method: str | None = answer_field("Which account is the best.", None)


class ComposeAnswer(Answer):
    """The total by every sound account."""

    each: Any = answer_field("Privacy of one release.", json=EachAnswer)
    queries: int = answer_field("Number of releases [releases].")
    fresh: bool = answer_field(f"Whether the voters were taken to be fresh; false where there are none. {FRESH}")
    problem: Any = answer_field(
        "The problem; null where only (ε, δ) of one release was given.", json=ProblemAnswer | None
    )
    gamma: list[float] | None = answer_field("The γ that is released [probability]; null likewise.")
    accounts: dict[str, Any] = answer_field(
        "By name: simple, general, optimal and pld; with a γ also profile, bits (or, for more releases, renyi and "
        "gaussian) and best, the least of all; for voters that were trained once also models.",
        json=dict[str, AccountAnswer],
    )

    def record(self) -> dict[str, Any]:
        """Return it as plain data."""
        return dict(vars(self))


def totals_by_account(
    privacy: Privacy,
    queries: int,
    slack: float,
    total_delta: float | None = None,
    release: Release | None = None,
    *,
    fresh: bool = False,
) -> dict[str, dict[str, Any]]:
    """Return the total privacy of ``queries`` releases by each account.

    ``slack``: δ′ of the closed form; ``total_delta``: that of the other accounts, by default that of the closed form. A
    ``release`` adds ``profile``, ``bits`` and ``total_privacy``, and ``models`` for voters that were trained once,
    which the other accounts then take as not private.
    """
    queries = whole_number(queries, "queries", "a whole number of releases, at least 1")
    if queries > MAX_RELEASES:
        raise InvalidInput("queries", queries, f"at most {MAX_RELEASES} releases")
    if release is None and fresh:
        raise InvalidInput("fresh", fresh, "no fresh without voters", "Only (epsilon, delta) of a release counts.")
    delta = total_delta_of(privacy, queries, slack) if total_delta is None else probability(total_delta, "total_delta")
    # Of a release that is known by its (ε, δ) alone these are all; laws, below, allow more accounts.
    answer = {
        "simple": _account_to_dict(lambda: basic_composition(privacy.epsilon, privacy.delta, queries)),
        "general": _account_to_dict(lambda: kov_composition(privacy.epsilon, privacy.delta, queries, slack)),
    }
    if release is None:
        answer["optimal"] = _account_to_dict(
            lambda: optimal_composition(privacy.epsilon, privacy.delta, queries, delta)
        )
        answer["pld"] = _account_to_dict(
            lambda: pld_composition(privacy.epsilon, privacy.delta, queries, delta).privacy
        )
        return answer
    total = total_privacy(release, queries, delta, fresh=fresh)
    names = ["optimal", "pld", "profile", "bits"]
    if release.effective(queries, fresh=fresh) is not release:  # (mε, δ) is no longer what one release costs
        names = ["simple", "general", *names, "models"]
    for name in names:
        refusal = total.refused.get(name)
        answer[name] = _refusal_to_dict(refusal) if refusal is not None else asdict(total.totals[name])
    if total.epsilon_at_least not in (None, math.inf):
        answer["bits"]["epsilon_at_least"] = total.epsilon_at_least
    # The least of those above, named: a reader need not know which of them hold.
    answer["best"] = _account_to_dict(lambda: total.best)
    if answer["best"]["epsilon"] is not None:
        answer["best"]["method"] = total.method
    return answer


def _account_to_dict(account: Callable[[], Privacy]) -> dict[str, Any]:
    try:
        total = account()
    except (DeltaTooSmall, TooMuchWork, BackendUnavailable) as err:
        return _refusal_to_dict(err)
    if total.epsilon == math.inf:
        return {"epsilon": None, "delta": None, "refused": "nothing is promised: the total delta reaches 1"}
    return asdict(total)


def _refusal_to_dict(err: Exception) -> dict[str, Any]:
    return {"epsilon": None, "delta": None, "refused": str(err)}


class Compose(PrivateVotersQuestion, SolvedQuestion, QueriesQuestion):
    """Bound the total privacy of Q releases by every sound account; the least bound is the best.

    Without `K`, `epsilon` and `delta` are those of one release. With `K` (and `m` or `target_epsilon`) they state a
    problem, `epsilon` that of one voter; γ_opt is then designed, or `gamma` given, and the accounts of that γ are
    included.
    """

    path: ClassVar[str] = "compose"
    tag: ClassVar[str] = "accounting"
    summary: ClassVar[str] = "Total privacy of many releases"
    answers: ClassVar[Any] = ComposeAnswer
    takes_more_voters: ClassVar[bool] = False

    m: float | None = question_field(None)
    delta: float | None = question_field(None)
    target_epsilon: float | None = question_field(None)
    gamma: list[float] | None = question_field(None)
    fresh: bool = question_field(default=False)
    slack: float = question_field(1e-4)
    total_delta: float | None = question_field(None, otherwise="by default 1 − (1−δ)^Q (1−slack)")

    @property
    def voters(self) -> int:
        """Number of voters; 0 where only (ε, δ) of a release is given."""
        return self.K or 0

    @property
    def seconds(self) -> float:
        return composition_seconds(self.queries, designed=self.K is not None, fresh=self.fresh)

    def needs(self) -> Design | None:
        """Return the design whose γ is composed, unless that is given, or (ε, δ) of a release is all."""
        return None if self.K is None or self.gamma is not None else Design.of(vars(self))

    def check(self) -> None:
        """Refuse fields of a problem without one, and an invalid γ; the answer proves that it is private."""
        if self.K is None:
            self._each()
        elif self.gamma is not None:
            self._given()
        elif self.found is None:
            self._problem(self.K)

    def _each(self) -> Privacy:
        """Return the privacy of one release, where no problem is given."""
        names = ("m", "affected", "target_epsilon", "gamma", "fresh", "Delta", "profile")
        self.refuse(names, "needs K", "Without it, epsilon and delta are those of one release.")
        if not nats(self.epsilon) <= MAX_TARGET_EPSILON:
            raise InvalidInput("epsilon", self.epsilon, FIELDS["epsilon"].of(most=MAX_TARGET_EPSILON, says="").accepted)
        return Privacy(nats(self.epsilon), self.delta or 0.0)

    def _given(self) -> tuple[Problem, NoiseFunction] | None:
        """Return the problem and the γ that was given, or found; None where there is none."""
        if self.K is None:
            return None
        if self.gamma is None:
            problem, gamma = problem_from_record(self.found["problem"]), self.found["gamma"]
        else:
            problem, gamma = self._problem(self.K), self.gamma
        return problem, NoiseFunction(gamma, problem.K)

    def _problem(self, K: int) -> Problem:
        numbers = self.m, self.epsilon, self.Delta, self.delta, self.affected
        return stated_problem(K, *numbers, profile=self.profile, target_epsilon=self.target_epsilon)

    def answer(self, report: Report = lambda _: None) -> ComposeAnswer:
        """Return the totals; a γ is proved private before anything is composed."""
        report(None)
        given = self._given()
        release = None if given is None else Release.of((given[1], given[0]))
        each = self._each() if given is None else Privacy(given[0].target.epsilon, given[0].target.delta)
        return ComposeAnswer(
            each=asdict(each),
            queries=self.queries,
            fresh=self.fresh,
            problem=None if given is None else problem_record(given[0]),
            gamma=None if given is None else given[1].values.tolist(),
            accounts=totals_by_account(each, self.queries, self.slack, self.total_delta, release, fresh=self.fresh),
        )

    def text_of(self, answer: ComposeAnswer) -> str:
        rows = [
            [
                f"{name}: {total['method']}" if total.get("method") else name,
                "-" if total["epsilon"] is None else text_above(total["epsilon"], ".6f"),
                "-" if total["delta"] is None else text_above(total["delta"]),
            ]
            for name, total in answer.accounts.items()
        ]
        head = f"{count_text(self.queries, 'release')}, each {guarantee(Privacy(**answer.each))}"
        # An account that refuses is a row with its reason: that it is missing says something about the question.
        notes = [f"{name}: {total['refused']}" for name, total in answer.accounts.items() if "refused" in total]
        # A lower bound tells whether to look for a better account.
        if (least := answer.accounts.get("bits", {}).get("epsilon_at_least")) is not None:
            notes.append(f"No account can be below {least:.6f}: some adversary attains that.")
        if answer.problem is not None:
            problem = problem_from_record(answer.problem)
            notes += filter(None, [assumed_text([problem.voter], self.queries, fresh=self.fresh)])
            reached = count_text(problem.affected, "voter")
            head += f"{trained_text(problem, fresh=self.fresh)}; one record reaches at most {reached}"
        return "\n".join([f"{head}:", "", columns(["account", "ε", "δ"], rows), *([""] if notes else []), *notes])

    def verify_stored(self, given: Any) -> None:
        """Refuse a number that is infinite: to prove totals is to compute them."""
        canonical_json(given)

    @reads
    def verify(self, given: Any) -> ComposeAnswer:
        """Return the totals of the γ of an answer, or of the (ε, δ) that was asked, computed here.

        Guarantees: No total of the answer is below that which this process proves.
        """
        asked = self
        if self.K is not None and self.gamma is None:
            if parse_problem(member(given, "problem")) != self._problem(self.K):
                raise VerificationFailed("The answer is for another problem than the one that was asked.")
            gamma = parse_gamma(member(given, "gamma"), self.K).values.tolist()
            asked = replace(self, found={"problem": given["problem"], "gamma": gamma})
        own = asked.answer()
        for name, account in own.accounts.items():
            claim, proved = member(member(given, "accounts"), name)["epsilon"], account["epsilon"]
            if claim is not None and (proved is None or claim < proved * (1 - TOLERANCE)):
                raise VerificationFailed(f"The answer says ε = {claim!r} by {name}, and {proved!r} is proved.")
        return own
