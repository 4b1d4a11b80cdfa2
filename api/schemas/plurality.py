"""Tables for votes among any number of classes, of one or of several groups of voters, as requests and answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, FiniteFloat

from api.errors.problem_details import FieldError
from api.schemas.fields import (
    Affected,
    AnswerModel,
    LabelPrice,
    MovedVotes,
    RequestModel,
    StatedTargets,
    TargetsAnswer,
    Ties,
    Voters,
    about,
    read_by,
)
from api.schemas.questions import model_of_answer, model_of_question
from darrm_opt.accounting.calibrate import release_target
from darrm_opt.errors import InvalidInput, Rule
from darrm_opt.fields import FIELDS
from darrm_opt.privacy_curves import remote_targets
from darrm_opt.problem import MAX_CLASSES, MAX_GROUP_CLASSES, NOT_PRIVATE, Privacy, Problem
from darrm_opt.questions.voters import GroupAnswer, GroupFields, voter_groups
from darrm_opt.tables.objective import PluralityObjective, TableObjective, as_table_objective
from darrm_opt.tables.priors import parse_prior

MAX_RULE_QUERIES = 10**6
"""Most releases that share the target of one rule: the privacy of each is then found in half a second."""


TableEpsilon = Annotated[FiniteFloat, about("target_epsilon", words="ε of the release [nats]")]

TableDelta = Annotated[FiniteFloat, about("delta", otherwise="")]


def target_of(epsilon: float, delta: float) -> Privacy:
    """Return the target of a request."""
    try:
        return Privacy(epsilon, delta)
    except InvalidInput as err:
        raise FieldError("target_epsilon" if err.argument == "epsilon" else "delta", err) from err


class PluralityFields(RequestModel):
    """Voters that are not private, classes, how votes fall, and the price of a wrong answer."""

    K: Voters
    classes: Annotated[int, about("classes", most=MAX_CLASSES)]
    affected: MovedVotes = 1
    prior: Annotated[
        str,
        about(
            "prior",
            words="How votes fall: favoured(a,…), beta(a,b), dirichlet(a), or histogram(…) of counts that were seen",
            example="favoured(0.4,0.6,0.8)",
        ),
    ] = "dirichlet(1)"
    ties: Ties = "excluded"
    price: LabelPrice = 0.0

    def within(self, target: Privacy, *, abstention: bool = False) -> Problem:
        """Return the problem of these voters with a target."""
        try:
            prior = parse_prior(self.prior)
        except InvalidInput as err:
            raise FieldError("prior", err) from err
        PluralityObjective(prior, self.ties, self.price)
        return Problem(self.K, NOT_PRIVATE, target, self.affected, classes=self.classes, abstention=abstention)


class PluralityRequest(PluralityFields):
    """Voters that are not private, classes and a target: which release of the plurality is the best?"""

    target_epsilon: TableEpsilon
    delta: TableDelta = 0.0
    queries: Annotated[
        int, about("queries", words="Number of releases Q that share the target [releases]", most=MAX_RULE_QUERIES)
    ] = 1
    abstention: Annotated[bool, about("abstention")] = False

    def problem(self) -> Problem:
        """Return the problem of one release."""
        target = release_target(target_of(self.target_epsilon, self.delta), self.queries)
        return self.within(target, abstention=self.abstention)


class PluralityProblemAnswer(AnswerModel):
    """A problem of one release, in canonical numbers."""

    K: int = Field(description="Number of voters [voters].")
    classes: int = Field(description="Number of classes [classes].")
    target_epsilon: FiniteFloat = Field(description="ε of one release [nats].")
    delta: FiniteFloat = Field(description="δ of one release [probability].")
    affected: int = Field(description="How many votes one record can move [votes].")
    abstention: bool = Field(description="Whether no class may be released.")


class TableAnswer(AnswerModel):
    """A certified rule: the optimal release of the plurality."""

    id: str = Field(description="Content key: the same problem, prior, ties and price have the same id.")
    cached: bool = Field(description="Whether the rule was stored before.")
    problem: PluralityProblemAnswer
    prior: str = Field(description="How votes fall.")
    ties: Literal["excluded", "any"] = Field(description="What a vote without a single leader counts as.")
    price: FiniteFloat = Field(description="Cost of a wrong label [labels].")
    utility: FiniteFloat = Field(description="Pr[right] − price·Pr[wrong] of the rule.")
    upper_bound: FiniteFloat = Field(description="No private rule has a larger utility; proved.")
    gap: FiniteFloat = Field(description="upper_bound − utility.")
    status: str = Field(description="How the solve ended.")
    margin: FiniteFloat = Field(description="δ that is left at the worst pair of vote counts [probability].")
    design_hash: str = Field(description="Hash of the design, as `darrm statement` has it for the file.")
    zcdp: FiniteFloat | None = Field(description="A ρ for which the release is ρ-zCDP; null where none is proved.")
    rule: dict[str, Any] = Field(description="The rule, as `darrm solve --classes` writes it for `darrm label`.")


class PluralityAnswer(TableAnswer):
    """The optimal rule with its certificate, and the mechanisms at the same privacy."""

    utilities: dict[str, FiniteFloat] = Field(description="Utility of each mechanism at the same privacy of its label.")
    rates: dict[str, FiniteFloat] = Field(description="Its rate [nats a vote]; of Gaussian noise 1/σ [1/votes].")


class TableRequest(RequestModel):
    """Groups of voters, classes and a target: which release of their votes is the best?"""

    classes: Annotated[int, about("classes", most=MAX_GROUP_CLASSES)] = 2
    groups: Annotated[list[model_of_question(GroupFields)], about("groups")]  # type: ignore[valid-type]  # a model that is made
    target_epsilon: Annotated[FiniteFloat | None, about("target_epsilon", words="ε of the release [nats]")] = None
    delta: TableDelta = 0.0
    targets: StatedTargets = None
    affected: Affected = None
    objective: Annotated[
        str,
        read_by(as_table_objective),
        about(
            "objective",
            words="What is maximised: a prior of the votes, as dirichlet(a), shared(a,b) or favoured(a,…), or "
            "truth(a_1,…,a_G), the chance of each group that a vote is right",
            example="truth(0.6,0.9)",
        ),
    ] = "dirichlet(1)"
    ties: Ties = "excluded"
    price: LabelPrice = 0.0
    abstention: Annotated[bool, about("abstention")] = False

    def goal(self) -> TableObjective:
        """Return the objective."""
        weights = [group.weight for group in self.groups]
        try:
            return as_table_objective(self.objective, self.price, self.ties, weights)
        except InvalidInput as err:
            names = {"price": "price", "ties": "ties", "weights": "groups"}
            raise FieldError(names.get(err.argument, "objective"), err) from err

    def problem(self) -> Problem:
        """Return the problem."""
        if self.targets is not None:
            for name in ("target_epsilon", "delta"):
                if (value := getattr(self, name)) != type(self).model_fields[name].default:
                    raise InvalidInput(name, value, Rule("cannot be combined with targets"))
            target = remote_targets(self.targets)
        elif self.target_epsilon is None:
            raise InvalidInput("target_epsilon", None, FIELDS["target_epsilon"].accepted)
        else:
            target = target_of(self.target_epsilon, self.delta)
        return Problem(
            groups=voter_groups([GroupFields.of(vars(group)) for group in self.groups]),
            target=target,
            affected=self.affected,
            classes=self.classes,
            abstention=self.abstention,
        )

    def refuse_what_has_another_answer(self, problem: Problem, goal: TableObjective) -> None:
        """Refuse voters that are all alike, and count alike, where their answer is a γ or a rule."""
        if not isinstance(goal, PluralityObjective) or goal.weights is not None:
            return
        alike = problem.merged
        if alike.is_binary or alike.is_public:
            path, answer = ("gamma", "a γ") if alike.is_binary else ("plurality", "a rule")
            accepted = "voters that are not alike, or private ones among more than two classes"
            advice = f"The answer for {alike.K} voters that are alike is {answer}: ask POST /v1/{path}."
            raise FieldError("groups", InvalidInput("groups", "; ".join(map(str, problem.groups)), accepted, advice))


class CountsAnswer(AnswerModel):
    """Votes, and the chance of each output."""

    counts: list[list[int]] = Field(description="Votes of each class, group by group [votes].")
    probabilities: list[FiniteFloat] = Field(description="Chance of each class, then of ⊥ if it may be released.")


class TableDesignAnswer(AnswerModel):
    """The best table with its certificate."""

    id: str = Field(description="Content key of the problem and the objective.")
    cached: bool = Field(description="Whether the table was stored before.")
    classes: int = Field(description="Number of classes [classes].")
    groups: list[model_of_answer(GroupAnswer)] = Field(  # type: ignore[valid-type]  # a model that is made
        description="The voters."
    )
    target_epsilon: FiniteFloat = Field(description="ε of the release [nats].")
    delta: FiniteFloat = Field(description="δ of the release [probability].")
    targets: TargetsAnswer = None
    affected: int = Field(description="How many votes one record can move [votes].")
    abstention: bool = Field(description="Whether no class may be released.")
    objective: str = Field(description="What was maximised.")
    price: FiniteFloat = Field(description="Cost of a wrong label [labels].")
    ties: Literal["excluded", "any"] = Field(
        default="excluded", description="What a vote without a single leader counts as."
    )
    weights: list[FiniteFloat] | None = Field(
        default=None, description="Worth of one vote of each group; null: all alike."
    )
    utility: FiniteFloat = Field(description="Pr[right] − price·Pr[wrong] of the table.")
    upper_bound: FiniteFloat = Field(description="No private table has a larger utility; proved.")
    gap: FiniteFloat = Field(description="upper_bound − utility.")
    utilities: dict[str, FiniteFloat] = Field(
        default={},
        description="Utility of each mechanism at the same privacy, the most useful first; empty where a comparison "
        "takes long, and in the answer to an id.",
    )
    status: str = Field(description="How the solve ended.")
    table: list[CountsAnswer] = Field(description="One of each orbit under renaming the classes.")
    certificate: dict[str, Any] = Field(description="The margin, the error that it covers, and the worst corner.")
    corners: int = Field(description="Corners of the voters that a sweep looks at.")
    seconds: FiniteFloat = Field(description="Time that the design took [s].")
    design_hash: str = Field(description="Hash of the design, as `darrm statement` has it for the file.")
    zcdp: FiniteFloat | None = Field(description="A ρ for which the release is ρ-zCDP; null where none is proved.")
    rule: dict[str, Any] = Field(description="The table as `darrm solve --group … --output` writes it.")
