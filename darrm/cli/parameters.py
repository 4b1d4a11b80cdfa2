"""Shared parameters of the verbs: a problem, how it is designed, and the use of the cache.

A verb asks for a group by the type of one parameter, ``asked: ProblemOptions``. All are text until the core reads them:
so the core says what is wrong with a number, in the same words as everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

from darrm.cli.parser import CommandOption

if TYPE_CHECKING:
    from darrm_opt.problem import Privacy, Problem

PROBLEM = "The problem"
_DESIGN = "The design"

AsJson = Annotated[bool, CommandOption("--json", "Print the answer as JSON on stdout; everything else goes to stderr.")]

FRESH = (
    "Voters are fresh if, given the data, each draws new independent randomness for every query, so that (ε, Δ) is the "
    "privacy of one answer; otherwise they were trained once, and (ε, Δ) is the privacy of the whole voter."
)
"""What --fresh means: `darrm_opt.problem.FRESH`, which would take long to import."""

Fresh = Annotated[bool, CommandOption("--fresh", FRESH)]

StoreUrl = Annotated[
    str | None,
    CommandOption(
        "--url", "The store, as for DARRM_CACHE_URL.", "URL", otherwise="DARRM_CACHE_URL, or the user's cache"
    ),
]

TableFormat = Annotated[
    str | None,
    CommandOption("--format", "Its format.", "csv|parquet|jsonl|sqlite", otherwise="as the file's name ends"),
]


def objectives() -> str:
    """Return the forms of an objective."""
    from darrm_opt.design.objective import accepted_objectives

    return accepted_objectives()


def priors() -> str:
    """Return the forms of a prior."""
    from darrm_opt.design.objective import forms

    return forms()


def shapes() -> str:
    """Return the names of the shapes of γ."""
    from darrm_opt.design.solver import SHAPES

    return "|".join(SHAPES)


def methods() -> str:
    """Return the names of the methods."""
    from darrm_opt.design.solver import METHODS

    return "|".join(METHODS)


def backends() -> str:
    """Return the names of the LP solvers."""
    from darrm_opt.design.backends import BACKENDS

    return "|".join(BACKENDS)


@dataclass(frozen=True)
class VoterOptions:
    """Options about the voters, as typed."""

    K: Annotated[str | None, CommandOption("--K", "Number of voters.", "COUNT", PROBLEM)] = None
    epsilon: Annotated[
        str | None, CommandOption("--epsilon", "ε of one voter; inf: the voter is not private.", "NATS", PROBLEM)
    ] = None
    Delta: Annotated[str, CommandOption("--Delta", "Δ of one voter, in [0, 1).", "PROBABILITY", PROBLEM)] = "0"
    affected: Annotated[
        str | None, CommandOption("--affected", "How many voters one record can influence.", "COUNT", PROBLEM, "all K")
    ] = None

    @property
    def given(self) -> tuple[str, ...]:
        """Names of the options that were typed."""
        return tuple(field.name for field in fields(self) if getattr(self, field.name) != field.default)

    def problem(self, **instead: Any) -> Problem:
        """Return the problem that the options name, with ``instead`` in place of some."""
        from darrm_opt.problem import Problem

        return Problem.from_allowance(
            **{field.name: number(getattr(self, field.name)) for field in fields(self)} | instead
        )


@dataclass(frozen=True)
class ProblemOptions(VoterOptions):
    """Problem options, as typed: the voters, and what the release may cost."""

    m: Annotated[
        str | None,
        CommandOption(
            "--m",
            "Privacy allowance: the release may cost m times one voter's ε. A real number above 0.",
            "NUMBER",
            PROBLEM,
        ),
    ] = None
    target_epsilon: Annotated[
        str | None,
        CommandOption(
            "--target-epsilon", "ε of the release, instead of --m; needed where --epsilon is inf.", "NATS", PROBLEM
        ),
    ] = None
    delta: Annotated[
        str | None, CommandOption("--delta", "δ of the release, in [0, 1).", "PROBABILITY", PROBLEM, "1 − (1−Δ)^m")
    ] = None


@dataclass(frozen=True)
class DesignOptions:
    """Design options, as typed, and whether the cache is used."""

    objective: Annotated[
        str,
        CommandOption(
            "--objective",
            lambda: f"What is maximised: {objectives()}.",
            "TEXT",
            _DESIGN,
        ),
    ] = "rectangular"
    shape: Annotated[
        str,
        CommandOption("--shape", "free: any γ; monotone: one that never falls as the majority grows.", shapes, _DESIGN),
    ] = "free"
    method: Annotated[
        str,
        CommandOption("--method", "Add constraints as they are violated, or all at once.", methods, _DESIGN),
    ] = "auto"
    backend: Annotated[str, CommandOption("--backend", "The LP solver.", backends, _DESIGN)] = "highs"
    time_limit: Annotated[
        str | None,
        CommandOption("--time-limit", "Stop then, with the best private γ so far and its gap.", "SECONDS", _DESIGN),
    ] = None
    cache: Annotated[
        bool | None,
        CommandOption(
            "--cache/--no-cache",
            "Store answers, and look them up.",
            panel=_DESIGN,
            otherwise="where DARRM_CACHE_URL is set, and for what takes longer to solve than to look up",
        ),
    ] = None


TOTAL = {"epsilon": "total_epsilon", "delta": "total_delta"}
"""Names for `options_named` where a verb's ε and δ are those of all releases together."""


@contextmanager
def options_named(**options: str) -> Iterator[None]:
    """Report an argument that the core refuses under the name of the option that gave it."""
    from darrm_opt.errors import InvalidInput

    try:
        yield
    except InvalidInput as err:
        if err.argument not in options:
            raise
        raise InvalidInput(options[err.argument], err.value, err.accepted, err.advice) from err


def total_privacy(epsilon: str | None, delta: str | None, *, allow_zero_delta: bool = True) -> Privacy:
    """Return the (ε, δ) of all releases together, as typed.

    Raises:
        InvalidInput: naming ``total_epsilon`` or ``total_delta``, its value and what is accepted.
    """
    from math import inf

    from darrm_opt.errors import InvalidInput
    from darrm_opt.problem import Privacy, real_number

    nats = "a finite number of nats, at least 0"
    chance = "a probability in [0, 1)" if allow_zero_delta else "a probability in (0, 1)"
    total_epsilon = real_number(number(epsilon), "total_epsilon", nats)
    total_delta = real_number(number(delta), "total_delta", chance)
    if not 0 <= total_epsilon < inf:
        raise InvalidInput("total_epsilon", total_epsilon, nats)
    if not 0 <= total_delta < 1 or (total_delta == 0 and not allow_zero_delta):
        raise InvalidInput("total_delta", total_delta, chance)
    return Privacy(total_epsilon, total_delta)


def number(text: str | None) -> Any:
    """Return the int or float that ``text`` spells, else the text itself, which the core will refuse by name.

    >>> number("11"), number("1e-4"), number("inf"), number("a"), number(None)
    (11, 0.0001, inf, 'a', None)
    """
    from darrm_opt.number_text import number_in

    value = None if text is None else number_in(text)
    return text if value is None else value
