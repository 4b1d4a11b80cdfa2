"""The options that verbs share: a problem, how it is designed, and what to do with the cache.

A verb asks for a group by the type of one parameter, ``asked: ProblemOptions``; `with_groups` gives its command the
group's options and hands the verb the filled group. All are text until the core reads them (`api.cli.text`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from api.cli.text import number

if TYPE_CHECKING:
    from darrm_opt.problem import Problem

_PROBLEM = "The problem"
_DESIGN = "The design"

AsJson = Annotated[bool, Option("--json", help="Print the answer as JSON on stdout; everything else goes to stderr.")]


@dataclass(frozen=True)
class ProblemOptions:
    """What is asked, as typed."""

    K: Annotated[str | None, Option("--K", metavar="COUNT", help="Number of voters.", rich_help_panel=_PROBLEM)] = None
    m: Annotated[
        str | None,
        Option(
            "--m",
            metavar="NUMBER",
            help="Privacy allowance: the release may cost m times one voter's ε. A real number above 0.",
            rich_help_panel=_PROBLEM,
        ),
    ] = None
    epsilon: Annotated[
        str | None,
        Option(
            "--epsilon",
            metavar="NATS",
            help="ε of one voter; inf: the voter is not private (give --target-epsilon instead of --m).",
            rich_help_panel=_PROBLEM,
        ),
    ] = None
    Delta: Annotated[
        str,
        Option("--Delta", metavar="PROBABILITY", help="Δ of one voter, in [0, 1).", rich_help_panel=_PROBLEM),
    ] = "0"
    delta: Annotated[
        str | None,
        Option(
            "--delta",
            metavar="PROBABILITY",
            help="δ of the release, in [0, 1).",
            show_default="1 − (1−Δ)^m",
            rich_help_panel=_PROBLEM,
        ),
    ] = None
    affected: Annotated[
        str | None,
        Option(
            "--affected",
            metavar="COUNT",
            help="How many voters one record can influence.",
            show_default="all K",
            rich_help_panel=_PROBLEM,
        ),
    ] = None
    target_epsilon: Annotated[
        str | None,
        Option("--target-epsilon", metavar="NATS", help="ε of the release, instead of --m.", rich_help_panel=_PROBLEM),
    ] = None

    @property
    def given(self) -> tuple[str, ...]:
        """Names of the options that were typed."""
        return tuple(field.name for field in fields(self) if getattr(self, field.name) != field.default)

    def problem(self, **instead: Any) -> Problem:
        """Return the problem that the options name, with ``instead`` in place of some.

        Raises:
            InvalidInput: naming the argument, its value and what is accepted.
        """
        from darrm_opt.problem import Problem

        return Problem.from_allowance(
            **{field.name: number(getattr(self, field.name)) for field in fields(self)} | instead
        )


@dataclass(frozen=True)
class DesignOptions:
    """How γ is designed, as typed, and whether the cache is asked."""

    objective: Annotated[
        str,
        Option(
            "--objective",
            metavar="TEXT",
            help="What is maximised: rectangular(lower, tau), uniform(lower), shared(a,b) or histogram(n_0,…,n_K), "
            "followed by tv or agreement if not its usual measure.",
            rich_help_panel=_DESIGN,
        ),
    ] = "rectangular"
    shape: Annotated[
        str,
        Option("--shape", metavar="free|monotone", help="Whether γ may have dents.", rich_help_panel=_DESIGN),
    ] = "free"
    method: Annotated[
        str,
        Option(
            "--method",
            metavar="auto|cuts|enumerate",
            help="Add constraints as they are violated, or all at once.",
            rich_help_panel=_DESIGN,
        ),
    ] = "auto"
    backend: Annotated[
        str,
        Option("--backend", metavar="highs|gurobi|cvxpy", help="The LP solver.", rich_help_panel=_DESIGN),
    ] = "highs"
    time_limit: Annotated[
        str | None,
        Option(
            "--time-limit",
            metavar="SECONDS",
            help="Stop then, with the best private γ so far and its gap.",
            rich_help_panel=_DESIGN,
        ),
    ] = None
    cache: Annotated[
        bool | None,
        Option(
            "--cache/--no-cache",
            help="Keep answers, and look them up.",
            show_default="where DARRM_CACHE_URL is set, and for what takes longer to solve than to look up",
            rich_help_panel=_DESIGN,
        ),
    ] = None


def with_groups(verb: Callable[..., None]) -> Callable[..., None]:
    """Return a command that takes the options of the verb's groups one by one, and hands it the groups."""
    own = inspect.signature(verb, eval_str=True).parameters
    groups: dict[str, Any] = {
        name: parameter.annotation for name, parameter in own.items() if is_dataclass(parameter.annotation)
    }

    def command(**given: Any) -> None:
        built = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        verb(**built, **given)

    parameters: list[inspect.Parameter] = []
    for name, parameter in own.items():
        shown = inspect.signature(groups[name], eval_str=True).parameters.values() if name in groups else [parameter]
        parameters += [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in shown]
    command.__name__, command.__doc__ = verb.__name__, unwrapped(verb.__doc__ or "")
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what Typer reads
    return command


def unwrapped(text: str) -> str:
    r"""Return each paragraph on one line: the terminal, not the source, decides where lines break.

    >>> unwrapped("One sentence\n    here.\n\n    Another.")
    'One sentence here.\n\nAnother.'
    """
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in inspect.cleandoc(text).split("\n\n"))
