"""The errors a caller can act on, and nothing else.

A caller's mistake raises one of these before any work is done. A numerical outcome (infeasible,
time limit) is a value, `darrm_opt.design.solution.Status`, and becomes `SolveFailed` in one place.
"""

from __future__ import annotations

from typing import Any


class DarrmError(Exception):
    """Base of every error raised on purpose by darrm-opt. Each can be pickled, whatever its constructor takes."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_error, (
            type(self),
            self.args,
            self.__dict__,
        )  # Exception would call the class with the text alone


def _restore_error(kind: type[DarrmError], args: tuple[Any, ...], attributes: dict[str, Any]) -> DarrmError:
    """Return an unpickled error: its text and attributes, without its constructor."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


class InvalidInput(DarrmError, ValueError):
    """An argument is outside what is accepted.

    Attributes:
        argument: the argument's name, as in Python, JSON and the command line.
        value: the value received.
        accepted: what would have been accepted, in words.
        advice: what to do next; may be empty.
    """

    def __init__(self, argument: str, value: Any, accepted: str, advice: str = "") -> None:
        self.argument = argument
        self.value = value
        self.accepted = accepted
        self.advice = advice
        value_text = repr(value.item() if getattr(value, "shape", None) == () else value)  # 0.5, not np.float64(0.5)
        if len(value_text) > _MAX_VALUE_CHARACTERS:
            value_text = value_text[:_MAX_VALUE_CHARACTERS] + "…"
        complaint = (
            "is missing" if value is None else f"= {value_text} is not valid"
        )  # None is Python's word for an empty field
        text = f"{argument} {complaint}: expected {accepted}."
        super().__init__(f"{text} {advice}" if advice else text)


_MAX_VALUE_CHARACTERS = 80
"""Longest piece of a rejected value that an error message repeats."""


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
    """Privacy could be neither proved nor refuted: the slack is below the rounding error; refused all the same."""


class BackendUnavailable(DarrmError):
    """A solver cannot be used here: not installed, or its licence does not cover the problem."""


class UnsafeArithmetic(DarrmError):
    """This thread's floating-point arithmetic is not IEEE 754's default: no rounding bound holds, nothing is proved."""


class SolveFailed(DarrmError):
    """No certified noise function could be found; the message says why and what to try."""


class VerificationFailed(DarrmError):
    """An answer fails verification, or answers another question; nothing of it was used."""
