"""Options, suggestions and plans: the answers of the planner, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from darrm_opt.accounting.release_profile import Release
from darrm_opt.accounting.total import ReleaseTotal
from darrm_opt.design.certificate import verify
from darrm_opt.design.objective import AnyObjective
from darrm_opt.design.solution import Solution, Statistics, Status
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms import VoteMechanism, calibrated_names
from darrm_opt.mechanisms.base import CONFIDENT
from darrm_opt.noise import NoiseFunction
from darrm_opt.planning.question import Question
from darrm_opt.problem import Privacy, Problem

MECHANISMS = ("majority", "fewer_voters", "optimal", "optimal_sequence", *calibrated_names(), CONFIDENT)
"""Names of the compared mechanisms, simpler ones first."""

NOTHING_FITS = "Not even its noisiest setting is proved to fit the total."

TIME_IS_UP = "Not computed: the time limit was reached first."

TOO_MANY_COUNTS = "There are too many vote counts for a table."

Outcome = Literal["fits", "does not fit", "not computed", "does not apply"]
"""What is known: a setting fits; none does; it was not computed; or the mechanism does not apply to the question."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """One mechanism, calibrated to the total.

    Attributes:
        name: one of `MECHANISMS`.
        voters: number of voters whose vote is released; less than K only for "fewer_voters".
        why: the reason, as text.
        right: expected share of queries answered by the majority of the votes, under the prior [probability]; None if
            the option does not fit, as are the next three.
        wrong: share answered by another class.
        abstained: share without a class.
        utility: the value by which options are ranked (`Question.utility`).
        queries: answers allowed; None: unlimited.
        spent: (ε, δ) of all of them together, proved; None if it does not fit.
        account: the account that proves ``spent``: "post-processing" of the models, "votes" (composition of all votes),
            or an account of `darrm_opt.accounting.accounts`; "none" if it does not fit.
        parameters: chosen values by name: the mechanism's parameter; the (ε, δ) of each release of a table; for checked
            noise sigma, check_sigma, threshold [votes] and cap.
        mechanism: the mechanism, with its cap; None for a plain majority, and if the voters' own privacy or a draw of
            subsamples is accounted for: then ``release``.
        noise: γ of one release between two classes; None for a plain majority (of some voters).
        problem: voters and (ε, δ) for which `verify` proves γ; None likewise.
        solution: γ with its certificate, if it is the γ_opt of one target.
        gap: for the best table, an upper bound on the utility that another one of the same (ε, δ) could add.
        outcome: whether it fits; if not, whether that is certain.
    """

    name: str
    voters: int
    why: str
    right: float | None = None
    wrong: float | None = None
    abstained: float | None = None
    utility: float | None = None
    queries: int | None = None
    spent: Privacy | None = None
    account: str = "none"
    parameters: dict[str, float] = field(default_factory=dict)
    mechanism: VoteMechanism | None = None
    noise: NoiseFunction | None = None
    problem: Problem | None = None
    solution: Solution | None = None
    gap: float | None = None
    outcome: Outcome = "fits"

    @classmethod
    def unfit(cls, name: str, question: Question, why: str, outcome: Outcome = "does not fit") -> Option:
        """Return an option without a setting proved to be within the total.

        Args:
            name: of the mechanism.
            question: the question.
            why: the reason, as text.
            outcome: whether no setting is within the total, or another reason.
        """
        return cls(name=name, voters=question.K, why=why, outcome=outcome)

    @classmethod
    def nothing_fits(cls, name: str, question: Question) -> Option:
        """Return an option without a setting that fits, or with none found in time.

        Args:
            name: as for `unfit`, like `question`.
        """
        if question.stop():
            return cls.unfit(name, question, TIME_IS_UP, "not computed")
        return cls.unfit(name, question, NOTHING_FITS)

    @classmethod
    def fitting(
        cls,
        name: str,
        question: Question,
        why: str,
        shares: tuple[float, float],
        spent: Privacy,
        account: str,
        *,
        noise: NoiseFunction | None = None,
        **fields: Any,
    ) -> Option:
        """Return an option that is within the total.

        Args:
            name: as for `unfit`, like `question` and `why`.
            shares: of right answers, and of answers.
            spent: (ε, δ) of all answers.
            account: the account that proves it.
            noise: γ between two classes; for a plain majority, the equivalent γ.
            fields: other attributes.
        """
        right, answered = shares
        wrong = max(answered - right, 0.0)
        judged = {"right": right, "wrong": wrong, "abstained": max(1.0 - right - wrong, 0.0)}
        known = {"voters": question.K, "utility": question.utility(right, wrong, noise), **judged, **fields}
        return cls(name=name, why=why, spent=spent, account=account, noise=noise, **known)

    @classmethod
    def of_mechanism(
        cls,
        name: str,
        question: Question,
        mechanism: VoteMechanism,
        shares: tuple[float, float],
        spent: ReleaseTotal,
        parameters: dict[str, float],
        *,
        why: str | None = None,
        **fields: Any,
    ) -> Option:
        """Return the option of a mechanism whose own account gives the total; unfit if that exceeds the question's.

        Args:
            name: as for `fitting`, like `question`, `shares` and `fields`.
            mechanism: the mechanism.
            spent: cost of all answers together.
            parameters: of the mechanism, by name.
            why: the reason, as text; None: the mechanism's description, and why releases compose.
        """
        if spent.epsilon > question.total.epsilon:
            return cls.unfit(name, question, NOTHING_FITS if why is None else why)
        if why is None:
            why = f"{mechanism.description[0].upper()}{mechanism.description[1:]}. {question.composing()}"
        total = Privacy(spent.epsilon, question.total.delta)
        given = {"queries": question.queries, "parameters": parameters, "mechanism": mechanism, **fields}
        return cls.fitting(name, question, why, shares, total, spent.account, **given)

    @property
    def accuracy(self) -> float | None:
        """Pr[an answer is the majority of the votes] under the prior; None if the option does not fit."""
        if self.right is None or self.wrong is None:
            return None
        return self.right / (self.right + self.wrong) if self.wrong > 0 else 1.0

    @property
    def fits(self) -> bool:
        """Whether a setting of it is within the total."""
        return self.spent is not None

    @property
    def release(self) -> Release | None:
        """The argument of `PrivateVote`: γ and the problem for which it is private; None for a plain majority."""
        return None if self.noise is None or self.problem is None else Release(self.noise, self.problem)

    def to_solution(self, objective: AnyObjective) -> Solution:
        """Return γ as a solution, which can be saved, verified and released like that of `solve`.

        Args:
            objective: of the plan's accuracy (`Question.objective`).

        Guarantees:
            γ is bitwise that of the option, with a certificate for ``problem``. A γ_opt of one target is the solution
            itself; for any other γ optimality is not claimed: the upper bound is 1 and the status `Status.PLANNED`.

        Raises:
            InvalidInput: the option is a plain majority, or does not fit: it has no γ.
        """
        if self.noise is None or self.problem is None:
            raise InvalidInput("name", self.name, "an option with a γ")
        # γ_opt has its own bound; for any other γ only 1 is known.
        if self.solution is not None:
            return self.solution
        utility = objective.linear_goal(self.problem.K).utility(self.noise.upper_half)
        # As stored: whoever reads the solution must be able to prove its claims.
        certificate = verify(self.problem, self.noise)
        return Solution(
            problem=self.problem,
            objective=objective,
            shape="free",
            noise=self.noise,
            utility=utility,
            upper_bound=1.0,
            status=Status.PLANNED,
            certificate=certificate,
            method="plan",
            backend=self.name,
            statistics=Statistics(0, 0, 0),
        )

    @property
    def plain(self) -> bool:
        """Whether it is the plain majority of all voters, without noise."""
        return self.name == "majority"


@dataclass(frozen=True)
class Suggestion:
    """A change of the request that makes an option useful, proved.

    Attributes:
        change: "queries" or "total".
        queries: number of queries that fit.
        total: the total within which they fit.
        accuracy: a lower bound.
        words: the change as text.
    """

    change: Literal["queries", "total"]
    queries: int | None
    total: Privacy
    accuracy: float
    words: str


@dataclass(frozen=True)
class Plan:
    """All options compared.

    Attributes:
        question: the question, with defaults filled in.
        options: the most useful first; those that do not fit last.
        verdict: "plain majority" (no mechanism is needed), "noisy majority", or "none" (no option is useful).
        advice: recommendation and reason, as text.
        suggestions: if no option is useful, changes of the request that make one useful.
        warnings: doubtful points of the request; usually empty.
    """

    question: Question
    options: tuple[Option, ...]
    verdict: Literal["plain majority", "noisy majority", "none"]
    advice: str
    suggestions: tuple[Suggestion, ...]
    warnings: tuple[str, ...]

    @property
    def best(self) -> Option | None:
        """The option to take; None if none is useful."""
        return None if self.verdict == "none" else self.options[0]
