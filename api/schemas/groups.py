"""Tables for groups of voters among any number of classes, as a request and an answer."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, FiniteFloat

from api.errors.exceptions import FieldError
from api.schemas.fields import AnswerModel, RequestModel, Voters, described
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import Privacy
from darrm_opt.tables.group_solver import as_group_objective
from darrm_opt.tables.groups import MAX_GROUP_CLASSES, GroupProblem, VoterGroup

MAX_GROUPS = 8
"""Most groups of a request."""


class GroupFields(RequestModel):
    """Voters that are alike."""

    K: Voters
    epsilon: Annotated[
        FiniteFloat | Literal["inf"], Field(description='ε of one voter\'s answer [nats]; "inf": it is not private.')
    ]
    Delta: Annotated[
        FiniteFloat, described("Δ of one voter's answer [probability].", minimum=0, exclusiveMaximum=1)
    ] = 0.0


class TableRequest(RequestModel):
    """Groups of voters, classes and a target: which release of their votes is the best?"""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "classes": 3,
                    "groups": [{"K": 2, "epsilon": 0.1}, {"K": 2, "epsilon": 0.5}],
                    "target_epsilon": 0.6,
                }
            ]
        }
    )

    classes: Annotated[int, described("Number of classes [classes].", minimum=2, maximum=MAX_GROUP_CLASSES)] = 2
    groups: Annotated[
        list[GroupFields],
        Field(min_length=1, max_length=MAX_GROUPS, description="The voters, those of equal privacy together."),
    ]
    target_epsilon: Annotated[FiniteFloat, described("ε of the release [nats].", minimum=0, maximum=500)]
    delta: Annotated[FiniteFloat, described("δ of the release [probability].", minimum=0, exclusiveMaximum=1)] = 0.0
    affected: Annotated[int | None, described("How many votes one record can move [votes]; null: all.", minimum=1)] = (
        None
    )
    objective: Annotated[
        str,
        Field(
            max_length=20_000,
            description="What is maximised: a prior of the votes, as dirichlet(a), shared(a,b) or favoured(a,…), or "
            "truth(a_1,…,a_G), the chance of each group that a vote is right.",
            examples=["dirichlet(1)", "truth(0.6,0.9)"],
        ),
    ] = "dirichlet(1)"
    price: Annotated[FiniteFloat, described("Cost of a wrong label, in right ones [labels].", minimum=0)] = 0.0
    abstention: Annotated[bool, Field(description="Whether no class may be released.")] = False

    def problem(self) -> GroupProblem:
        """Return the problem.

        Raises:
            InvalidInput: a number is out of its range.
            FieldError: the same, naming the field.
        """
        try:
            as_group_objective(self.objective, self.price)
        except InvalidInput as err:
            raise FieldError("price" if err.argument == "price" else "objective", err) from err
        try:
            target = Privacy(self.target_epsilon, self.delta)
        except InvalidInput as err:
            raise FieldError("target_epsilon" if err.argument == "epsilon" else "delta", err) from err
        groups = []
        for place, group in enumerate(self.groups):
            epsilon = math.inf if group.epsilon == "inf" else group.epsilon
            try:
                groups.append(VoterGroup(group.K, Privacy(epsilon, group.Delta)))
            except InvalidInput as err:
                raise FieldError(f"groups.{place}", err) from err
        return GroupProblem(self.classes, groups, target, self.affected, abstention=self.abstention)


class GroupAnswer(AnswerModel):
    """A group, in canonical numbers."""

    K: int = Field(description="Number of voters [voters].")
    epsilon: FiniteFloat | Literal["inf"] = Field(description="ε of one voter's answer [nats].")
    Delta: FiniteFloat = Field(description="Δ of one voter's answer [probability].")


class CountsAnswer(AnswerModel):
    """Votes, and the chance of each output."""

    counts: list[list[int]] = Field(description="Votes of each class, group by group [votes].")
    probabilities: list[FiniteFloat] = Field(description="Chance of each class, then of ⊥ if it may be released.")


class TableDesignAnswer(AnswerModel):
    """The best table with its certificate."""

    classes: int = Field(description="Number of classes [classes].")
    groups: list[GroupAnswer] = Field(description="The voters.")
    target_epsilon: FiniteFloat = Field(description="ε of the release [nats].")
    delta: FiniteFloat = Field(description="δ of the release [probability].")
    affected: int = Field(description="How many votes one record can move [votes].")
    abstention: bool = Field(description="Whether no class may be released.")
    objective: str = Field(description="What was maximised.")
    price: FiniteFloat = Field(description="Cost of a wrong label [labels].")
    utility: FiniteFloat = Field(description="Pr[right] − price·Pr[wrong] of the table.")
    upper_bound: FiniteFloat = Field(description="No private table has a larger utility; proved.")
    gap: FiniteFloat = Field(description="upper_bound − utility.")
    status: str = Field(description="How the solve ended.")
    table: list[CountsAnswer] = Field(description="One of each orbit under renaming the classes.")
    certificate: dict[str, Any] = Field(description="The margin, the error that it covers, and the worst corner.")
    corners: int = Field(description="Corners of the voters that a sweep looks at.")
    seconds: FiniteFloat = Field(description="Time that the design took [s].")
    rule: dict[str, Any] = Field(description="The table as `darrm solve --group … --output` writes it.")
