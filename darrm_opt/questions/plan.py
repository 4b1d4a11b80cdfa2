"""Plan: what to release within a total, and every mechanism compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, ClassVar, Literal

from darrm_opt.accounting.release_profile import Release
from darrm_opt.answers import SAMPLING, Report, sampling_record, voters_body
from darrm_opt.answers.class_plans import group_plan_seconds, options_seconds, verify_group_plan
from darrm_opt.answers.decode import plan_of, table_plan_of
from darrm_opt.answers.filed import filed
from darrm_opt.answers.running_time import estimate_running_time, plan_account_seconds, plan_seconds
from darrm_opt.answers.verification import member, verify_options
from darrm_opt.design.report import (
    assumed_text,
    columns,
    count_text,
    guarantee,
    text_above,
    trained_text,
    voters_text,
)
from darrm_opt.errors import InvalidInput
from darrm_opt.fields import FIELDS
from darrm_opt.mechanisms import calibrated_names
from darrm_opt.mechanisms.base import CONFIDENT
from darrm_opt.mechanisms.noise_function import CertifiedNoiseFunction
from darrm_opt.planning import Option, Plan, plan
from darrm_opt.planning.group_plan import group_question, plan_groups
from darrm_opt.planning.option import MECHANISMS, Outcome
from darrm_opt.planning.plain_majority import majority_solution
from darrm_opt.planning.question import DEFAULT_PRIORS
from darrm_opt.planning.question import Question as PlannedQuestion
from darrm_opt.problem import FRESH, NOT_PRIVATE, Problem, VoterGroup
from darrm_opt.questions.design import ProblemAnswer
from darrm_opt.questions.question import Answer, answer_field, answer_json, question_field
from darrm_opt.questions.sampled import (
    OF_DRAW,
    AllocationAnswer,
    SampledQuestion,
    SampledTotalQuestion,
    SamplingAnswer,
    options_report,
)
from darrm_opt.questions.voters import (
    DrawAnswer,
    EachAnswer,
    GroupAnswer,
    GroupFields,
    PluralityQuestion,
    PublicVotersQuestion,
    VotersAnswer,
    WithinTotalQuestion,
    class_prior,
    draw_record,
    prior_of,
    prior_refused,
    voter_groups,
)
from darrm_opt.record import DesignSpec, planned_fields, problem_record, solution_record
from darrm_opt.tables.objective import PluralityObjective, as_table_objective
from darrm_opt.tables.priors import PastVotes, Ties, is_class_prior, parse_prior
from darrm_opt.tables.record import group_records

Verdict = Literal["plain majority", "noisy majority", "none"]


class SuggestionAnswer(Answer):
    """A change of the request that makes an option useful; proved."""

    change: Literal["queries", "total"] = answer_field("What to change.")
    queries: int | None = answer_field("How many would fit [releases]; null: without limit.")
    total: EachAnswer = answer_field("Within which total.")
    accuracy: float = answer_field("At least this [probability].")
    words: str = answer_field("The same in words.")


class OptionAnswer(Answer):
    """One mechanism, calibrated to the total."""

    mechanism: str = answer_field(
        f"The mechanism, one of {', '.join(MECHANISMS)}; optimal: γ_opt of one target; "
        "optimal_sequence: one γ for all queries at once."
    )
    fits: bool = answer_field("Whether any amount of it is within the total.")
    outcome: Outcome = answer_field("The same, and where it does not fit, whether that is known.")
    accuracy: float | None = answer_field(
        "Pr[release = majority that was voted] over the prior [probability]; null where it does not fit."
    )
    queries: int | None = answer_field("Answers allowed [releases]; null: without limit, or it does not fit.")
    spent: EachAnswer | None = answer_field("(ε, δ) of all of them together, proved; null where it does not fit.")
    account: str = answer_field(
        "What proves that: post-processing, votes, bits, profile, optimal or simple; none where it does not fit."
    )
    voters: int = answer_field("Whose majority is released [voters].")
    problem: Any = answer_field(
        "The voters and the target of one release for which γ is proved; null where no γ is needed.",
        json=ProblemAnswer | None,
    )
    gamma: list[float] | None = answer_field("γ(0..K) [probability]; null likewise.")
    why: str = answer_field("In words.")


class PlanAnswer(Answer):
    """Plan: what to do, and every mechanism compared."""

    voters: VotersAnswer = answer_field("The voters, as they were understood.")
    fresh: bool = answer_field(f"Whether the voters were taken to be fresh. {FRESH}")
    draw: DrawAnswer | None = answer_field(
        "How the voters' subsamples are drawn; null where nothing was said of it.", None
    )
    queries: int = answer_field("Answers wanted [releases].")
    total: EachAnswer = answer_field("(ε, δ) of all answers together.")
    prior: str = answer_field("Prior, the assumed distribution of the votes.")
    least_accuracy: float = answer_field("Minimum useful accuracy [probability].")
    verdict: Verdict = answer_field("plain majority: this mechanism is not needed; none: no option is of use.")
    advice: str = answer_field("What to do and why, in words.")
    options: list[OptionAnswer] = answer_field(
        "One for each mechanism, the most accurate first; those that do not fit last."
    )
    design_hash: str | None = answer_field(
        "Hash of the design, as `darrm statement` has it for this plan; null where no γ is recommended, and where "
        "records are sampled.",
        None,
    )
    zcdp: float | None = answer_field("A ρ for which its answers together are ρ-zCDP; null where none is proved.", None)
    suggestions: list[SuggestionAnswer] = answer_field("If no option is useful: changes that make one useful.")
    warnings: list[str] = answer_field("What the person who asked should reconsider; usually empty.")


class PluralityOption(Answer):
    """A mechanism for all queries within the total: what it achieves and what it costs."""

    name: str = answer_field(f"optimal, optimal_sequence, {CONFIDENT}, or one of {', '.join(calibrated_names())}.")
    right: float = answer_field("Share of the queries answered by the plurality, in expectation.")
    wrong: float = answer_field("Share answered by another class.")
    abstained: float = answer_field("Share answered by ⊥, no class.")
    utility: float = answer_field("right − price·wrong, a query.")
    epsilon: float = answer_field("ε of all answers together at the total's δ, proved [nats].")
    account: str = answer_field("How it was proved.")
    parameters: dict[str, float] = answer_field(
        "What was chosen: sigma, check_sigma, threshold [votes] and cap [labels]; or the epsilon and delta of each "
        "release, and its rate [nats per vote] where there is no table."
    )
    gap: float | None = answer_field(
        "Of the optimum: no table of the same (ε, δ) each has a utility more than this above it; null of other options."
    )


class PluralityOptionsAnswer(Answer):
    """Every mechanism for all queries within a total, the best first."""

    K: int = answer_field("Number of voters [voters].")
    classes: int = answer_field("Number of classes [classes].")
    queries: int = answer_field("Answers wanted [releases].")
    total: EachAnswer = answer_field("(ε, δ) of all answers together.")
    affected: int = answer_field("Number of votes that one record can influence [votes].")
    prior: str = answer_field("Prior, the assumed distribution of the votes.")
    ties: Ties = answer_field("What a vote without a single leader counts as.")
    price: float = answer_field("Cost of a wrong label [labels].")
    samples: int | None = answer_field(
        "How many vote counts were drawn from the prior where there are too many to list: then shares are estimates."
    )
    options: list[PluralityOption] = answer_field("In order of decreasing utility.")
    sampling: SamplingAnswer | AllocationAnswer | None = answer_field(
        "How records are drawn anew for every query; null where all are in every query.", None
    )
    verdict: Verdict = answer_field("none: no option is of use; plain majority: no noise is needed.")
    advice: str = answer_field("What to do and why, in words.")
    suggestions: list[SuggestionAnswer] = answer_field("If no option is useful: changes that make one useful.")
    warnings: list[str] = answer_field("What the person who asked should reconsider.")
    groups: list[GroupAnswer] | None = answer_field("The voters of a plan for groups; null where they are alike.", None)
    mechanism: dict[str, Any] | None = answer_field(
        "The mechanism of the best option, as `darrm plan --output` writes it: for `darrm label`; null for groups "
        "whose plurality needs no noise, or where nothing fits."
    )
    design_hash: str | None = answer_field(
        "Hash of its design, as `darrm statement` has it for this answer; null where there is none.", None
    )
    zcdp: float | None = answer_field("A ρ for which its answers together are ρ-zCDP; null where none is proved.", None)


def plan_record(found: Plan, groups: Sequence[VoterGroup] = ()) -> dict[str, Any]:
    """Return a plan as plain data: the question as it was understood, a row for each option, and what follows.

    Under a law of votes, shares and utility of what fits; what does not has no numbers by which it could be ranked.
    """
    question, law = found.question, found.question.law
    concluded: dict[str, Any] = {
        "verdict": found.verdict,
        "advice": found.advice,
        "suggestions": [asdict(suggestion) for suggestion in found.suggestions],
        "warnings": list(found.warnings),
    }
    wanted = {"queries": question.queries, "total": asdict(question.total)}
    if law is None:
        return {
            "voters": voters_body(question.voters),
            "fresh": question.fresh,
            "draw": draw_record(question.bags, question.K),
            **wanted,
            "prior": str(question.objective),
            "least_accuracy": question.least_accuracy,
            "options": [_option_record(option) for option in found.options],
            **_filed(found),
            **concluded,
        }
    return {
        **{name: getattr(question, name) for name in ("K", "classes", "affected", "price")},
        **wanted,
        "prior": question.prior_text,
        "ties": law.objective.ties,
        "samples": law.samples,
        "options": [
            answer_json(PluralityOption, option, epsilon=option.spent.epsilon)
            for option in found.options
            if option.spent is not None
        ],
        **concluded,
        **({"groups": group_records(groups)} if groups else {}),
        **sampling_record(question.sampling),
    }


def _filed(found: Plan) -> dict[str, Any]:
    """Return what a statement says of the γ that is recommended; None where another thing is, or with samples."""
    question, best, mechanism = found.question, found.best, None
    if best is not None and best.release is not None and question.sampling is None:
        mechanism = CertifiedNoiseFunction(best.release, fresh=question.fresh)
    return filed(mechanism, question.total, question.queries)


def _option_record(option: Option) -> dict[str, Any]:
    stated = {
        "mechanism": option.name,
        "spent": None if option.spent is None else asdict(option.spent),
        "problem": None if option.problem is None else problem_record(option.problem),
        "gamma": None if option.noise is None else option.noise.values.tolist(),
    }
    return answer_json(OptionAnswer, option, **stated)


class ReleasePlan(SampledTotalQuestion, PluralityQuestion):
    """Find the best release for given voters, queries and a total budget.

    State voters that differ as `groups`, in a request's body. With more than two classes, a prior of classes or a
    price, the answer is that of `/v1/plurality/options`. With `records`, every query has a fresh and secret sample of
    the records: voters that are not private share it, and their answer is of that form too; fresh private voters each
    draw their own.
    """

    path: ClassVar[str] = "plan"
    summary: ClassVar[str] = "Best release within a total budget, with the reasons"
    answers: ClassVar[Any] = PlanAnswer | PluralityOptionsAnswer

    K: int | None = question_field(None, otherwise="or groups")
    groups: list[GroupFields] | None = question_field(None, each=GroupFields)
    prior: str | None = question_field(
        None,
        words="Prior, the assumed distribution of the votes: the text of an objective with a prior, such as "
        "shared(2,5), or histogram(9,1,0,2) for votes that were counted; or a prior of classes, such as dirichlet(2)",
        otherwise="by default rectangular between two classes, dirichlet(1) among more and for groups",
    )
    least_accuracy: float | None = question_field(
        None, otherwise="at least 1/classes; by default a fifth of the way from 1/classes to 1"
    )
    time_limit: float | None = question_field(None)

    @property
    def voters(self) -> int:
        return super().voters if self.groups is None else sum(group.K for group in self.groups)

    @property
    def seconds(self) -> float:
        """Expected time [s]; refuses what is out of reach."""
        if self.groups is not None:
            return group_plan_seconds(self.group_problem(self.groups), self.queries, fresh=self.fresh)
        if self.by_law:
            return options_seconds(self._public(), self.queries)
        problem = self.problem()
        accounts = plan_account_seconds(problem, self.queries, self.total, self.bags(), fresh=self.fresh)
        return plan_seconds(estimate_running_time(DesignSpec(problem)).seconds, self.queries, self.time_limit, accounts)

    @property
    def by_law(self) -> bool:
        """Whether a law of votes judges voters that are alike, and no objective of γ."""
        by_votes = self.classes > 2 or self.price > 0 or is_class_prior(self.prior)
        return by_votes or (self.records is not None and self.epsilon == "inf")

    def group_problem(self, groups: Sequence[GroupFields]) -> Problem:
        """Return the problem of groups, the total its target."""
        given: dict[str, Any] = {"affected": self.affected, "classes": self.classes, "abstention": self.price > 0}
        return Problem(groups=voter_groups(groups), target=self.total, **given)

    def goal(self, groups: Sequence[GroupFields]) -> PluralityObjective:
        """Return what a table of groups maximises."""
        weights = [group.weight for group in groups]
        try:
            goal = as_table_objective(self.prior or "dirichlet(1)", self.price, self.ties, weights)
        except InvalidInput as err:
            raise prior_refused(self.prior, err) from err
        if not isinstance(goal, PluralityObjective):
            raise InvalidInput("prior", self.prior, "a prior of the votes", "A truth is an objective of a table.")
        return goal

    def _public(self) -> Problem:
        """Return the problem of voters that are not private, the total its target."""
        affected = 1 if self.affected is None and self.records is not None else self.affected
        return Problem(self.voters, NOT_PRIVATE, self.total, affected, classes=self.classes)

    def canonical(self) -> ReleasePlan:
        """Return the question by K where groups are all alike, and count alike: one question has one answer."""
        if self.groups is None or len({group.weight for group in self.groups}) > 1:
            return self
        found = self.group_problem(self.groups).merged
        if not (found.is_binary or found.is_public):
            return self
        return replace(self, groups=None, **voters_body(found))

    def check(self) -> None:
        """Refuse fields that contradict each other, and voters that no account of their samples or draw covers."""
        if self.least_accuracy is not None and self.least_accuracy < 1 / self.classes:
            raise InvalidInput("least_accuracy", self.least_accuracy, FIELDS["least_accuracy"].accepted)
        if self.groups is not None:
            self.refuse(_OF_VOTERS, "cannot be combined with groups")
            alike = self.canonical()
            if alike is self:
                self.goal(self.groups)
            else:
                alike.check()
            return
        if self.K is None:
            raise InvalidInput("K", None, FIELDS["K"].accepted, "Or give groups.")
        self.refuse_two_draws()
        if not self.by_law:
            prior_of(self.prior or "rectangular", self.K)
            self._planned()
            return
        if self.epsilon != "inf":
            advice = "Name private voters by groups."
            self.refuse(("classes", "price", "prior"), "is for voters that are not private", advice)
        self.refuse(OF_DRAW, "cannot be combined with a prior of classes, a price or more than two classes")
        self.bags()
        self.as_sampling()
        self._public()
        if self.classes == 2 and not is_class_prior(self.prior):
            prior_of(self.prior or "rectangular", self.voters)
        elif self.prior is not None:
            class_prior(self.prior)

    def _alike(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of the planner for voters that are alike."""
        voter = NOT_PRIVATE if self.epsilon == "inf" else self.problem().voter
        drawn: dict[str, Any] = {"bags": self.bags(), "sampling": self.as_sampling()}
        return (self.voters, voter, *self._wanted), drawn | {name: getattr(self, name) for name in _JUDGED}

    @property
    def _wanted(self) -> tuple[Any, ...]:
        return self.queries, self.total, self.affected, self.prior

    def _planned(self) -> PlannedQuestion:
        """Return the question to the planner, of voters that are alike."""
        arguments, given = self._alike()
        return PlannedQuestion.of(*arguments, **given)

    def answer(self, report: Report = lambda _: None) -> Plan:
        report(None)
        given: dict[str, Any] = {"time_limit": self.time_limit, "progress": options_report(report)}
        if self.groups is not None:
            given |= {name: getattr(self, name) for name in _JUDGED}
            weights = [group.weight for group in self.groups]
            return plan_groups(voter_groups(self.groups), *self._wanted, weights=weights, **given)
        arguments, asked = self._alike()
        given |= asked
        try:
            return plan(*arguments, **given)
        except InvalidInput as err:  # a prior of other voters or classes
            if err.argument not in ("counts", "chances"):
                raise
            raise InvalidInput("prior", self.prior, err.accepted, err.advice) from err

    def record_of(self, answer: Plan) -> dict[str, Any]:
        record = plan_record(answer, () if self.groups is None else voter_groups(self.groups))
        if answer.question.law is None:
            return record
        mechanism, question = answer.options[0].mechanism, answer.question
        named = {"prior": self.prior} if isinstance(self.prior, str) and self.groups is None else {}
        written = None if mechanism is None else mechanism.record() | sampling_record(question.sampling)
        stated = filed(mechanism, question.total, question.queries, question.sampling)
        return record | named | {"mechanism": written} | stated

    def text_of(self, answer: Plan) -> str:
        if answer.question.law is not None:
            return _shares_text(answer, () if self.groups is None else voter_groups(self.groups))
        question, stated = answer.question, self.profile if self.records is None else None
        # what all of them share is said once: by the advice, or below
        composing = question.composing()
        reasons = [
            f"{option.name:<19} {option.why.removesuffix(composing).rstrip()}"
            for option in answer.options
            if option is not answer.best
        ]
        if composing not in answer.advice and any(option.why.endswith(composing) for option in answer.options):
            reasons += ["", composing]
        if assumption := assumed_text([question.voters.voter], question.queries, fresh=question.fresh):
            reasons += ["", assumption]
        heads = ["mechanism", "accuracy", "queries", "ε spent", "proved by"]
        lines = [
            (
                f"{voters_text(question.voters, stated)}{trained_text(question.voters, fresh=question.fresh)}; "
                f"{count_text(question.queries, 'query', 'queries')}, {guarantee(question.total)} in all."
            ),
            "",
            answer.advice,
            "",
            (
                "Accuracy: how often the answer is the majority, expected under the prior "
                f"{question.prior_text}{_default_prior_text(question)}."
            ),
            columns(heads, map(_row, answer.options)),
            "",
        ]
        return "\n".join([*lines, *reasons])

    def file_of(self, answer: Plan) -> dict[str, Any] | None:
        """Return the recommended γ, or the mechanism of the best option under a law of votes; None without either."""
        question, best = answer.question, answer.best
        total = planned_fields(question.queries, question.total)
        if question.law is not None and (mechanism := answer.options[0].mechanism) is not None:
            return mechanism.record() | total | sampling_record(question.sampling)
        if best is not None and best.plain:
            return self._majority_file(answer)
        if best is None or best.noise is None:
            return None
        # a release log's own account knows no draw, so that the total of one is nothing that it could be held to.
        use = {"fresh": question.fresh} | (total if question.bags is None else {})
        return solution_record(best.to_solution(question.gamma_objective)) | use

    def _majority_file(self, answer: Plan) -> dict[str, Any] | None:
        """Return γ = 1 with the least total that its releases are proved to fit; None without a proof."""
        question, spent = answer.question, answer.options[0].spent
        solution = majority_solution(question)
        if solution is None:
            return None
        mechanism = CertifiedNoiseFunction(Release.of(solution), fresh=question.fresh)
        for total in filter(None, (spent, question.total)):
            if mechanism.fits(total, question.queries):
                return solution_record(solution) | {"fresh": question.fresh} | planned_fields(question.queries, total)
        return None

    def figure_of(self, answer: Plan) -> Any:
        from darrm_opt.figures import plan_figure

        return plan_figure(answer)

    def verify(self, given: Any) -> Plan:
        """Return a plan for this question.

        Guarantees: Each γ in it is private for the target that its option names; of the best option under a law of
        votes all queries fit in the total. Totals of other options, and shares, are the other side's.
        """
        if self.groups is not None:
            problem, goal = self.group_problem(self.groups), self.goal(self.groups)
            least = self.least_accuracy
            question = group_question(problem, goal, self.queries, fresh=self.fresh, least_accuracy=least)
            return table_plan_of(verify_group_plan(given, problem, goal, self.queries, fresh=self.fresh), question)
        question = self._planned()
        if question.law is None:
            return plan_of(given, question)
        if member(given, "verdict") == "none" and given.get("mechanism") is None:  # nothing fits, which claims nothing
            return table_plan_of(given, question)
        return table_plan_of(verify_options(given, question.problem, self.queries, question.sampling), question)


def _row(option: Option) -> list[str]:
    if not option.fits or option.spent is None:
        return [option.name, "-", "-", option.outcome, "-"]
    return [
        option.name,
        f"{option.accuracy:.4f}",
        "no limit" if option.queries is None else f"{option.queries:,}",
        text_above(option.spent.epsilon, ".4f"),
        option.account,
    ]


def _default_prior_text(question: PlannedQuestion) -> str:
    """Return how to judge by votes of one's own, where the prior is the default."""
    # As it is printed: "dirichlet(1)" is dirichlet(1.0).
    defaults = {text if text == "rectangular" else str(parse_prior(text)) for text in DEFAULT_PRIORS}
    if question.prior_text not in defaults:
        return ""
    return " (the default; --votes FILE judges by past votes of your own, which often agree more)"


def _parameters_text(parameters: dict[str, float]) -> str:
    """Return what a mechanism was calibrated to: its own parameters, or else the (ε, δ) of each release of a table."""
    own = {name: value for name, value in parameters.items() if name not in ("epsilon", "delta")}
    return ", ".join(f"{name.replace('_', ' ')} {value:.6g}" for name, value in (own or parameters).items())


def _shares_text(found: Plan, groups: Sequence[VoterGroup]) -> str:
    """Return every option under a law of votes that fits, and what follows."""
    question, law, best = found.question, found.question.vote_law, found.options[0]
    options = [option for option in found.options if option.fits]
    # Shares are rounded to nearest, being expectations; ε, which is proved, is rounded up.
    rows = [
        [
            option.name,
            *(f"{share:.4f}" for share in (option.right, option.wrong, option.abstained, option.utility)),
            "" if option.spent is None else text_above(option.spent.epsilon, ".4f"),
            _parameters_text(option.parameters),
        ]
        for option in options
    ]
    heads = ["mechanism", "right", "wrong", "abstained", "utility", "ε", "parameters"]
    is_past = isinstance(law.objective.prior, PastVotes)
    prior = "the distribution of the past votes" if is_past else f"the prior {question.prior_text}"
    votes = prior if law.samples is None else f"{law.samples:,} queries simulated from {prior}"
    votes += _default_prior_text(question)
    voters = f"Voters {'; '.join(map(str, groups))}" if groups else f"{question.K} voters"
    lines = [
        (
            f"{voters}, {question.classes} classes, {count_text(question.queries, 'query', 'queries')}, "
            f"{guarantee(question.total)} in all. Shares are expectations under {votes}; ε is proved."
        ),
        columns(heads, rows),
        f"utility    per query: right{f' − {question.price:g} × wrong' if question.price else ''}",
        *([f"advice     {found.advice}"] if groups or not options else []),
    ]
    lines += [
        "gap        no table of the same (ε, δ) each has a utility above "
        f"{option.utility + option.gap:.9f} (gap {option.gap:.1e})"
        for option in options
        if option.gap is not None and option.utility is not None
    ]
    # a table of options looks like an answer even where none of them says anything.
    if best.accuracy is not None and best.accuracy < question.least_accuracy:
        lines.append(
            f"useless    the best has accuracy {best.accuracy:.4f}, below --least-accuracy {question.least_accuracy:g} "
            f"(a class at random: {1 / question.classes:.4g}): ask fewer queries, allow a larger total, or give the "
            "--prior of your votes"
        )
    if question.sampling is not None:
        lines.append(f"sampled    {question.sampling.words} ({question.sampling.neighbours})")
    return "\n".join(lines)


_JUDGED = ("classes", "ties", "price", "fresh", "least_accuracy")  # fields by which the planner judges
_OF_VOTERS = ("K", "epsilon", "Delta", "profile", *OF_DRAW, *SAMPLING)  # fields of voters that are alike


class PluralityOptions(PublicVotersQuestion, SampledQuestion, WithinTotalQuestion):
    """Queries and a total: which mechanism for all of them is the best, among any number of classes?

    Voters are not private.
    """

    path: ClassVar[str] = "plurality/options"
    tag: ClassVar[str] = "design"
    summary: ClassVar[str] = "Mechanisms for queries among any number of classes within a total"
    answers: ClassVar[Any] = PluralityOptionsAnswer

    least_accuracy: float | None = question_field(None, otherwise="at least 1/classes")
    time_limit: float | None = question_field(None)

    def canonical(self) -> ReleasePlan:
        """Return the same question as a plan."""
        return ReleasePlan(epsilon="inf", **self.record())

    def check(self) -> None:
        """Refuse a prior of two classes that are not told apart, where a γ is the answer, and what a plan refuses."""
        asked = self.canonical()
        if not asked.by_law:
            class_prior(self.prior)
        asked.check()
