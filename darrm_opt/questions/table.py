"""Tables: the best release of votes among classes, of voters that are not private, or of groups of voters."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import fields
from functools import cached_property, lru_cache
from typing import Any, ClassVar

from darrm_opt.accounting.calibrate import release_target
from darrm_opt.answers import Report
from darrm_opt.answers.tables import (
    VerifiedTable,
    group_answer_seconds,
    plurality_seconds,
    shown_baselines,
    table_record,
    verified_table,
    verify_table_answer,
)
from darrm_opt.errors import InvalidInput
from darrm_opt.fields import FIELDS
from darrm_opt.privacy_curves import remote_targets
from darrm_opt.problem import MAX_GROUP_CLASSES, NOT_PRIVATE, Privacy, Problem
from darrm_opt.questions.design import TARGETS_WORDS
from darrm_opt.questions.question import Answer, Question, answer_field, question_field
from darrm_opt.questions.voters import (
    GroupAnswer,
    GroupFields,
    PluralityQuestion,
    PublicVotersQuestion,
    QueriesQuestion,
    class_prior,
    prior_refused,
    voter_groups,
)
from darrm_opt.tables.objective import PluralityObjective, as_table_objective, check_objective, question_cells
from darrm_opt.tables.priors import Ties
from darrm_opt.tables.record import KIND, TableSpec, read_table
from darrm_opt.tables.solver import TableSolution, solve_table

MAX_RULE_QUERIES = 10**6
"""Most releases that share the target of one table: the privacy of each is then found in half a second."""

_target_of_each = lru_cache(maxsize=64)(release_target)
"""The same, of many releases: it is asked in the process that answers requests, too."""

STORED_SECONDS = 0.1  # about how long the mechanisms take that are compared with a stored table [s]


class PluralityProblemAnswer(Answer):
    """A problem of one release, in canonical numbers."""

    K: int = answer_field("Number of voters [voters].")
    classes: int = answer_field("Number of classes [classes].")
    target_epsilon: float = answer_field("ε of one release [nats].")
    delta: float = answer_field("δ of one release [probability].")
    affected: int = answer_field("Number of votes that one record can influence [votes].")
    abstention: bool = answer_field("Whether the release may withhold the class.")


class CertifiedAnswer(Answer):
    """What every table is certified to be."""

    id: str = answer_field("Content key: the same problem and objective have the same id.")
    cached: bool = answer_field("Whether the table was stored before.")
    price: float = answer_field("Cost of a wrong label [labels].")
    utility: float = answer_field("Pr[right] − price·Pr[wrong] of the table.")
    upper_bound: float = answer_field("No private table has a larger utility; proved.")
    gap: float = answer_field("upper_bound − utility.")
    status: str = answer_field("How the solve ended.")
    design_hash: str = answer_field("Hash of the design, as `darrm statement` has it for the file.")
    zcdp: float | None = answer_field("A ρ for which the release is ρ-zCDP; null where none is proved.")
    record: dict[str, Any] = answer_field("The record of the table, as `darrm solve` writes it for `darrm label`.")


class TableAnswer(CertifiedAnswer):
    """A certified table: the optimal release of the plurality."""

    problem: PluralityProblemAnswer = answer_field("What was asked of one release.")
    prior: str = answer_field("Prior, the assumed distribution of the votes.")
    ties: Ties = answer_field("What a vote without a single leader counts as.")
    margin: float = answer_field("δ that is left at the worst pair of vote counts [probability].")


class PluralityAnswer(TableAnswer):
    """The optimal table with its certificate, and the mechanisms at the same privacy."""

    utilities: dict[str, float] = answer_field("Utility of each mechanism at the same privacy of its label.")
    rates: dict[str, float] = answer_field("Its rate [nats per vote]; of Gaussian noise 1/σ [1/votes].")


class CountsAnswer(Answer):
    """Votes, and the chance of each output."""

    counts: list[list[int]] = answer_field("Votes of each class, group by group [votes].")
    probabilities: list[float] = answer_field("Chance of each class, then of ⊥ if it may be released.")


class TableDesignAnswer(CertifiedAnswer):
    """The best table with its certificate."""

    classes: int = answer_field("Number of classes [classes].")
    groups: list[GroupAnswer] = answer_field("The voters.")
    target_epsilon: float = answer_field("ε of the release [nats].")
    delta: float = answer_field("δ of the release [probability].")
    targets: list[list[float]] | None = answer_field(TARGETS_WORDS, None, omitted=True)
    affected: int = answer_field("Number of votes that one record can influence [votes].")
    abstention: bool = answer_field("Whether the release may withhold the class.")
    objective: str = answer_field("What was maximised.")
    ties: Ties = answer_field("What a vote without a single leader counts as.", "excluded")
    weights: list[float] | None = answer_field("Worth of one vote of each group; null: all alike.", None)
    utilities: dict[str, float] = answer_field(
        "Utility of each mechanism at the same privacy, the most useful first; empty where a comparison takes long, "
        "and in the answer to an id."
    )
    table: list[CountsAnswer] = answer_field("One of each orbit under renaming the classes.")
    certificate: dict[str, Any] = answer_field("The margin, the error that it covers, and the worst corner.")
    corners: int = answer_field("Corners of the voters that a sweep looks at.")
    seconds: float = answer_field("Time that the design took [s].")


class AnyTable(Question):
    """Question whose answer is a table."""

    tag: ClassVar[str] = "design"
    limited_by: ClassVar[str] = "max_work_seconds"

    @cached_property
    def spec(self) -> TableSpec:
        """What the table depends on; its content key is the id."""
        return self._spec()

    @abstractmethod
    def _spec(self) -> TableSpec: ...

    def check(self) -> None:
        _ = self.spec

    def designs(self) -> Sequence[TableSpec]:
        return [self.spec]

    def answer(self, report: Report = lambda _: None) -> VerifiedTable:
        report(None)
        spec = self.spec
        _ = question_cells(spec.problem, spec.objective)  # what is wrong with the voters is no fault of the prior
        try:
            check_objective(spec.problem, spec.objective)
        except InvalidInput as err:  # a prior of other voters or classes
            name = err.argument if err.argument == "weights" else "prior" if spec.kind == KIND else "objective"
            raise InvalidInput(name, getattr(self, name, None), err.accepted, err.advice) from err
        (known,) = self.found or [None]
        asked = spec.problem, spec.objective
        solution = solve_table(*asked, time_limit=self.limit) if known is None else read_table(known)
        # Offline, where no operator said how long that may take, nothing is solved beside a table that is there.
        is_searched = known is None or self.limit is not None or spec.kind == KIND
        others = shown_baselines(*asked) if is_searched else ()
        utilities, rates = ({one.name: getattr(one, name) for one in others} for name in ("utility", "rate"))
        beside: dict[str, Any] = {"id": spec.key, "cached": known is not None, "utilities": utilities, "rates": rates}
        return VerifiedTable(**vars(solution), **beside)

    def record_of(self, answer: VerifiedTable) -> dict[str, Any]:
        rates = {"rates": answer.rates} if self.spec.kind == KIND else {}
        return {**table_record(answer, answer.id, cached=answer.cached), "utilities": answer.utilities, **rates}

    def parts(self, record: dict[str, Any]) -> list[tuple[Any, dict[str, Any]]]:
        return [(self.spec, record)]

    def solutions(self, answer: VerifiedTable) -> list[Any]:
        return [TableSolution(**{each.name: getattr(answer, each.name) for each in fields(TableSolution)})]

    def verify(self, given: Any) -> VerifiedTable:
        """Return the table of an answer under a certificate of this process."""
        return verified_table(given, self.spec)

    def verify_stored(self, given: Any) -> None:
        """Prove a stored table again; raises as `verify`."""
        verify_table_answer(given, self.spec.problem)


class Plurality(AnyTable, PublicVotersQuestion, QueriesQuestion):
    """Design the best private release of one of C classes, and compare it with the usual mechanisms.

    Voters are not private.
    """

    path: ClassVar[str] = "plurality"
    summary: ClassVar[str] = "Optimal release of the plurality among any number of classes"
    answers: ClassVar[Any] = PluralityAnswer

    target_epsilon: float = question_field(words="ε of the release [nats]")
    delta: float = question_field(0.0)
    queries: int = question_field(
        1, words="Number of releases Q that share the target [releases]", most=MAX_RULE_QUERIES
    )
    abstention: bool = question_field(default=False)

    @property
    def voters(self) -> int:
        return self.K

    @property
    def seconds(self) -> float:
        return plurality_seconds(self.spec.problem)

    def seconds_beside(self, stored: Collection[str]) -> float:
        return STORED_SECONDS if self.spec.key in stored else self.seconds

    def _spec(self) -> TableSpec:
        target = _target_of_each(Privacy(self.target_epsilon, self.delta), self.queries)
        shape: dict[str, Any] = {"classes": self.classes, "abstention": self.abstention}
        problem = Problem(self.K, NOT_PRIVATE, target, self.affected, **shape)
        return TableSpec(problem, PluralityObjective(class_prior(self.prior), self.ties, self.price))


class TableQuestion(AnyTable, PluralityQuestion):
    """Design the best private release of the votes of groups; each voter has the privacy of its group."""

    path: ClassVar[str] = "table"
    summary: ClassVar[str] = "Optimal table for groups of voters and any number of classes"
    answers: ClassVar[Any] = TableDesignAnswer
    by_query: ClassVar[bool] = False
    takes_more_voters: ClassVar[bool] = False

    classes: int = question_field(2, most=MAX_GROUP_CLASSES)
    groups: list[GroupFields] = question_field(each=GroupFields)
    target_epsilon: float | None = question_field(None, words="ε of the release [nats]")
    delta: float = question_field(0.0)
    targets: Any = question_field(None)
    objective: str = question_field(
        "dirichlet(1)",
        read=as_table_objective,
        words="Objective: a prior of the votes, as dirichlet(a), shared(a,b) or favoured(a,…), or "
        "truth(a_1,…,a_G), the chance of each group that a vote is right",
        example="truth(0.6,0.9)",
    )
    abstention: bool = question_field(default=False)

    @property
    def voters(self) -> int:
        return sum(group.K for group in self.groups)

    @property
    def seconds(self) -> float:
        """Expected time of the answer [s]; refuses what is out of reach."""
        return self.seconds_beside(())

    def seconds_beside(self, stored: Collection[str]) -> float:
        spec = self.spec
        is_stored = spec.key in stored
        # a table that somebody made on purpose is an answer like others.
        if not is_stored or spec.kind == KIND:
            self._refuse_what_has_another_answer(spec)
        return max(group_answer_seconds(spec.problem, stored=is_stored), STORED_SECONDS)

    def _spec(self) -> TableSpec:
        weights = [group.weight for group in self.groups]
        try:
            goal = as_table_objective(self.objective, self.price, self.ties, weights)
        except InvalidInput as err:
            names = {"price": "price", "ties": "ties", "weights": "groups"}
            raise prior_refused(self.objective, err, names.get(err.argument, "objective")) from err
        if self.targets is not None:
            self.refuse(("target_epsilon", "delta"), "cannot be combined with targets")
            target: Privacy = remote_targets(self.targets)
        elif self.target_epsilon is None:
            raise InvalidInput("target_epsilon", None, FIELDS["target_epsilon"].accepted)
        else:
            target = Privacy(self.target_epsilon, self.delta)
        shape: dict[str, Any] = {"classes": self.classes, "abstention": self.abstention, "affected": self.affected}
        return TableSpec(Problem(groups=voter_groups(self.groups), target=target, **shape), goal)

    def _refuse_what_has_another_answer(self, spec: TableSpec) -> None:
        """Refuse voters that are all alike, and count alike, where their answer is a γ or a table."""
        goal, alike = spec.objective, spec.problem.merged
        if not isinstance(goal, PluralityObjective) or goal.weights is not None:
            return
        if alike.is_binary or alike.is_public:
            path, answer = ("gamma", "a γ") if alike.is_binary else ("plurality", "a table")
            accepted = "voters that are not alike, or private ones among more than two classes"
            advice = f"The answer for {alike.K} voters that are alike is {answer}: ask POST /v1/{path}."
            raise InvalidInput("groups", "; ".join(map(str, spec.problem.groups)), accepted, advice)
