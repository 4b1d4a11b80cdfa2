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
"""Names of what the planner compares; the simpler first."""

NOTHING_FITS = "Not even its noisiest setting is proved to fit the total."

Outcome = Literal["fits", "does not fit", "not computed", "does not apply"]
"""What is known of a mechanism: a setting that fits, that none does, nothing, or that it is no release of its own."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """One mechanism, calibrated to the total.

    Attributes:
        name: which, one of `MECHANISMS`.
        voters: number of voters whose vote is released; less than K only for "fewer_voters".
        why: the reason, as text.
        right: share of the queries answered by the majority that was voted, expected under the prior [probability];
            None if the option does not fit, like the three that follow.
        wrong: share answered by another class.
        abstained: share answered by no class.
        utility: what options are ranked by (`Question.utility`).
        queries: answers allowed; None: without limit.
        spent: (ε, δ) of all of them together, proved; None if it does not fit.
        account: the account that proves ``spent``: "post-processing" of the models, "votes" (the composition of all
            votes), or an account of `darrm_opt.accounting.accounts`. "none" if it does not fit.
        parameters: what was chosen, by name: the mechanism's parameter; the (ε, δ) of each release of a table; of
            checked noise sigma, check_sigma, threshold [votes] and cap.
        mechanism: what releases, its cap included; None for a plain majority, and where the voters' own privacy or a
            draw of subsamples is counted: then ``release``.
        noise: γ of one release between two classes; None if the plain majority (of some voters) is released.
        problem: voters and (ε, δ) for which `verify` proves γ; None likewise.
        solution: γ with its certificate, if it is the γ_opt of one target.
        gap: of the best table, by how much another of the same (ε, δ) each could raise the utility, at most.
        outcome: whether it fits, and where it does not, whether that is known.
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
        """Return an option without a setting that is proved to be within the total.

        Args:
            name: which one.
            question: what was asked.
            why: the reason, as text.
            outcome: whether no setting is within the total, or what else is the matter.
        """
        return cls(name=name, voters=question.K, why=why, outcome=outcome)

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
        queries: int | None = None,
        voters: int | None = None,
        **fields: Any,
    ) -> Option:
        """Return an option that is within the total.

        Args:
            name: which one.
            question: what was asked.
            why: the reason, as text.
            shares: of right answers, and of answers.
            spent: (ε, δ) of all answers.
            account: what proves it.
            noise: γ between two classes; of a plain majority, the one that it amounts to.
            queries: answers allowed; None: without limit.
            voters: whose vote is released; None: all.
            fields: others.
        """
        right, answered = shares
        wrong = max(answered - right, 0.0)
        return cls(
            name=name,
            voters=question.K if voters is None else voters,
            why=why,
            right=right,
            wrong=wrong,
            abstained=max(1.0 - right - wrong, 0.0),
            utility=question.utility(right, wrong, noise),
            queries=queries,
            spent=spent,
            account=account,
            noise=noise,
            **fields,
        )

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
            name: which one.
            question: what was asked.
            mechanism: what releases.
            shares: of right answers, and of answers.
            spent: what all answers cost together.
            parameters: of the mechanism, by name.
            why: the reason, as text; None: what the mechanism does, and why releases compose.
            fields: others.
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
        """Pr[an answer is the majority that was voted] under the prior; None if the option does not fit."""
        if self.right is None or self.wrong is None:
            return None
        return self.right / (self.right + self.wrong) if self.wrong > 0 else 1.0

    @property
    def fits(self) -> bool:
        """Whether any setting of it is within the total."""
        return self.spent is not None

    @property
    def release(self) -> Release | None:
        """The argument of `PrivateVote`: γ and the problem for which it is private; None for a plain majority."""
        return None if self.noise is None or self.problem is None else Release(self.noise, self.problem)

    def to_solution(self, objective: AnyObjective) -> Solution:
        """Return γ as a solution, to be saved, verified and released as that of `solve`.

        Args:
            objective: what the plan's accuracy weighs (`Question.objective`).

        Guarantees:
            γ is that of the option, bit for bit, under a certificate for ``problem``. Of γ_opt of one target it is the
            solution itself; of any other γ nothing is claimed of the optimum: the upper bound is 1 and the status
            `Status.PLANNED`.

        Raises:
            InvalidInput: the option is a plain majority, or does not fit: it has no γ.
        """
        if self.noise is None or self.problem is None:
            raise InvalidInput("name", self.name, "an option with a γ")
        # It has a bound of its own; of another γ nothing but 1 is known to be one.
        if self.solution is not None:
            return self.solution
        utility = objective.linear_goal(self.problem.K).utility(self.noise.upper_half)
        # As stored: a solution is read elsewhere, and must prove what it says.
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
        queries: how many fit.
        total: the total within which they fit.
        accuracy: at least this.
        words: the same as text.
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
        question: what was asked, with defaults filled in.
        options: the most useful first; those that do not fit last.
        verdict: "plain majority" (this mechanism is not needed), "noisy majority", or "none" (no option is useful).
        advice: what to do and why, as text.
        suggestions: if no option is useful, changes that make one useful.
        warnings: points of the request to reconsider; usually empty.
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
