"""Errors that a caller can act on.

Invalid input raises one of these before any work is done. A numerical outcome (infeasible, time limit) is a value,
`darrm_opt.design.solution.Status`, and becomes `SolveFailed` in one place.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class DarrmError(Exception):
    """Base class of the errors that darrm-opt raises on purpose; all of them can be pickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Exception.__reduce__ would call the constructor with the text alone.
        return _restore_error, (type(self), self.args, self.__dict__)


def _restore_error(kind: type[DarrmError], args: tuple[Any, ...], attributes: dict[str, Any]) -> DarrmError:
    """Return an unpickled error: its text and attributes, without its constructor."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


class Rule(str):
    """Requirement for an argument that accepts no value here, phrased as its predicate: "needs --records"."""

    __slots__ = ()


class InvalidInput(DarrmError, ValueError):
    """An argument is outside what is accepted.

    Attributes:
        argument: the argument's name, as in Python, JSON and the command line.
        value: the value received.
        accepted: what would have been accepted, in words.
        accepted: the accepted values, in words.
    """

    def __init__(self, argument: str, value: Any, accepted: str, advice: str = "") -> None:
        self.argument = argument
        self.value = value
        self.accepted = accepted
        self.advice = advice
        try:
            value_text = repr(
                value.item() if getattr(value, "shape", None) == () else value
            )  # 0.5, not np.float64(0.5)
        except RecursionError:  # deeply nested lists from a file
            value_text = type(value).__name__
        if len(value_text) > _MAX_VALUE_CHARACTERS:
            value_text = value_text[:_MAX_VALUE_CHARACTERS] + "…"
        complaint = "is missing" if value is None else f"= {value_text} is not valid"  # None: a field left empty
        text = f"{argument} {complaint}: expected {accepted}."
        if isinstance(accepted, Rule):
            text = f"{argument} {accepted}."
        super().__init__(f"{text} {advice}" if advice else text)


_MAX_VALUE_CHARACTERS = 80


class NotPrivate(DarrmError):
    """A noise function breaks the privacy constraint of its problem.

    Attributes:
        worst: the violating multiset of corners, as ``{corner: count}``.
        excess: how far the constraint is broken [probability]: extra δ at the target ε, of a γ times e^(−target ε).
    """

    def __init__(self, message: str, worst: dict[str, int], excess: float) -> None:
        self.worst = worst
        self.excess = excess
        super().__init__(message)


class NotProven(NotPrivate):
    """Privacy can be neither proved nor refuted, as the slack is below the rounding error: the γ is rejected."""


class BackendUnavailable(DarrmError):
    """A solver cannot be used here: not installed, or its licence does not cover the problem."""


class UnsafeArithmetic(DarrmError):
    """This thread's floating-point mode is not IEEE 754's default: no rounding bound holds and nothing is proved."""


class SolveFailed(DarrmError):
    """No certified noise function could be found; the message says why and what to try."""


class VerificationFailed(DarrmError):
    """An answer fails verification or answers another question; it was not used."""


# ------------------------------------------------------------------- accounts and budgets


class DeltaTooSmall(DarrmError):
    """No ε, however large, gives a total δ this small: raise the total δ, or ask fewer queries.

    Attributes:
        delta: the requested total δ [probability].
        floor: the smallest total δ that has a finite ε, rounded up [probability].
    """

    def __init__(self, delta: float, floor: float, reason: str) -> None:
        self.delta = delta
        self.floor = floor
        super().__init__(
            f"no finite epsilon exists at delta = {delta!r}: {reason}, so the total delta is at least {floor!r}. "
            "Raise the total delta, or ask fewer queries."
        )


class TooMuchWork(DarrmError):
    """The exact computation would take too long; the message names a cheaper sound account."""


class BudgetExceeded(DarrmError):
    """A charge was refused because the budget would be overspent; nothing was charged."""


class BudgetUnreadable(DarrmError):
    """A saved budget is missing, damaged or in another format; nothing was loaded."""


# ------------------------------------------------------------------- releases


class BudgetSpent(BudgetExceeded):
    """More releases were requested than the budget has left; nothing was charged and nothing released.

    Attributes:
        budget: the budget, in words.
        limit: releases that it allows in total.
        spent: releases charged so far.
        asked: releases requested now.
    """

    def __init__(self, budget: str, limit: int, spent: int, asked: int, reason: str = "") -> None:
        self.budget = budget
        self.limit = limit
        self.spent = spent
        self.asked = asked

        def be(number: int) -> str:
            return f"{number or 'none':{',' if number else ''}} {'is' if number == 1 else 'are'}"

        why = reason or f"the budget, {budget}, allows {limit:,} in all and {be(spent)} spent"
        super().__init__(
            f"{asked:,} {'release was' if asked == 1 else 'releases were'} requested and {be(limit - spent)} left: "
            f"{why}. Nothing was charged and nothing was released."
        )


class ReleaseLogDamaged(BudgetUnreadable):
    """The file of a release log was altered or damaged; continuing could overspend, so it is rejected.

    Attributes:
        fault: what is wrong, in words.
        advice: what to do, also if the original file is lost.
    """

    def __init__(self, fault: str) -> None:
        self.fault = fault
        self.advice = (
            "Restore the original file with all its lines. If it is lost, treat its whole budget as spent, because "
            "the spent part is unknown: a new release log has its own budget, and the two add up."
        )
        super().__init__(f"{fault}. Nothing is released. {self.advice}")


class ReleaseIdTaken(DarrmError):
    """A release id was used before for another number of releases: an id names one release and resumes only that."""


class SampleUsed(DarrmError):
    """A sample was reused: it serves one query, or one text of T labels; nothing was released."""

    def __init__(self, fault: str) -> None:
        self.fault = fault
        super().__init__(
            f"The sample cannot be used: {fault}. Draw a new sample. Nothing was charged and nothing was released."
        )


def similar_names(word: str, names: Iterable[str]) -> list[str]:
    """Return up to `MAX_SIMILAR` names that a mistyped word may stand for, likeliest first.

    >>> similar_names("eps", ["utility", "total_epsilon", "epsilon"]), similar_names("k", ["m", "K"])
    (['epsilon'], ['K'])
    """
    from difflib import get_close_matches

    known = sorted(set(names), key=lambda name: (len(name), name))
    word, bare = word.lower(), word.lower().lstrip("-")
    begun = [name for name in known if len(bare) > 1 and name.lower().startswith(word)]
    ended = [name for name in known if len(bare) > 1 and name.lower().endswith((f"-{bare}", f"_{bare}"))]
    matches = get_close_matches(bare, {name.lower().lstrip("-") for name in known})
    alike = [name for match in matches for name in known if name.lower().lstrip("-") == match]
    return list(dict.fromkeys([*begun, *ended, *alike]))[:MAX_SIMILAR]


MAX_SIMILAR = 3
