"""The options that verbs share: a problem, how it is designed, and what to do with the cache.

A verb asks for a group by the type of one parameter, ``asked: ProblemOptions``. All are text until the core reads them:
so the core says what is wrong with a number, in the same words as everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

from api.cli.declared import Option

if TYPE_CHECKING:
    from darrm_opt.problem import Problem

PROBLEM = "The problem"
_DESIGN = "The design"

AsJson = Annotated[bool, Option("--json", "Print the answer as JSON on stdout; everything else goes to stderr.")]

FRESH = (
    "Voters are fresh if, given the data, each draws new independent randomness for every query, so that (ε, Δ) is the "
    "privacy of one answer; otherwise they were trained once, and (ε, Δ) is the privacy of the whole voter."
)
"""What --fresh means: `darrm_opt.problem.FRESH`, which would take long to import."""

Fresh = Annotated[bool, Option("--fresh", FRESH)]

StoreUrl = Annotated[
    str | None,
    Option("--url", "The store, as for DARRM_CACHE_URL.", "URL", otherwise="DARRM_CACHE_URL, or the user's cache"),
]

TableFormat = Annotated[
    str | None, Option("--format", "Its format.", "csv|parquet|jsonl|sqlite", otherwise="as the file's name ends")
]


@dataclass(frozen=True)
class ProblemOptions:
    """What is asked, as typed."""

    K: Annotated[str | None, Option("--K", "Number of voters.", "COUNT", PROBLEM)] = None
    m: Annotated[
        str | None,
        Option(
            "--m",
            "Privacy allowance: the release may cost m times one voter's ε. A real number above 0.",
            "NUMBER",
            PROBLEM,
        ),
    ] = None
    epsilon: Annotated[
        str | None,
        Option(
            "--epsilon",
            "ε of one voter; inf: the voter is not private (give --target-epsilon instead of --m).",
            "NATS",
            PROBLEM,
        ),
    ] = None
    Delta: Annotated[str, Option("--Delta", "Δ of one voter, in [0, 1).", "PROBABILITY", PROBLEM)] = "0"
    delta: Annotated[
        str | None, Option("--delta", "δ of the release, in [0, 1).", "PROBABILITY", PROBLEM, "1 − (1−Δ)^m")
    ] = None
    affected: Annotated[
        str | None, Option("--affected", "How many voters one record can influence.", "COUNT", PROBLEM, "all K")
    ] = None
    target_epsilon: Annotated[
        str | None, Option("--target-epsilon", "ε of the release, instead of --m.", "NATS", PROBLEM)
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
            "What is maximised: rectangular(lower, tau), uniform(lower), shared(a,b) or histogram(n_0,…,n_K), "
            "followed by tv or agreement if not its usual measure; expected_error or minimax.",
            "TEXT",
            _DESIGN,
        ),
    ] = "rectangular"
    shape: Annotated[str, Option("--shape", "Whether γ may have dents.", "free|monotone", _DESIGN)] = "free"
    method: Annotated[
        str,
        Option("--method", "Add constraints as they are violated, or all at once.", "auto|cuts|enumerate", _DESIGN),
    ] = "auto"
    backend: Annotated[str, Option("--backend", "The LP solver.", "highs|gurobi|cvxpy", _DESIGN)] = "highs"
    time_limit: Annotated[
        str | None,
        Option("--time-limit", "Stop then, with the best private γ so far and its gap.", "SECONDS", _DESIGN),
    ] = None
    cache: Annotated[
        bool | None,
        Option(
            "--cache/--no-cache",
            "Keep answers, and look them up.",
            panel=_DESIGN,
            otherwise="where DARRM_CACHE_URL is set, and for what takes longer to solve than to look up",
        ),
    ] = None


def number(text: str | None) -> Any:
    """Return the int or float that ``text`` spells, else the text itself, which the core will refuse by name.

    >>> number("11"), number("1e-4"), number("inf"), number("a"), number(None)
    (11, 0.0001, inf, 'a', None)
    """
    for read in (int, float):
        try:
            return read(text)  # type: ignore[arg-type]  # None is refused like any other text
        except (TypeError, ValueError):
            continue
    return text
