"""How each noise function looks and is called in every figure, and what the errors are called."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

Measure = Literal["tv_error", "disagreement"]

MEASURES: tuple[Measure, ...] = ("tv_error", "disagreement")

_NEUTRAL = ("tab:gray", "x", ":")
_STYLE = {
    # Colours of Okabe and Ito (and a brown), told apart by colour-blind readers; marker and line say the same in black and white.
    "optimal": ("#D55E00", "o", "-"),
    "optimal_sequence": ("#D55E00", "o", "-"),
    "double_subsampling": ("#009E73", "D", "-."),
    "subsampling": ("#0072B2", "s", "--"),
    "randomized_response": ("#E69F00", "^", ":"),
    "gnmax": ("#56B4E9", "v", "--"),
    "permute_and_flip": ("#332288", "<", "-"),
    "exponential_mechanism": ("#999933", ">", "-."),
    "saa": ("#CC79A7", "P", "-."),
    "dpbag": ("#8C564B", "X", ":"),
    "majority": ("#000000", "*", ":"),
}
_NAME = {
    "optimal": r"$\gamma_{\mathrm{opt}}$ (this design)",
    "optimal_sequence": r"$\gamma_{\mathrm{opt}}$ (of all releases at once)",
    "double_subsampling": r"$\gamma_{\mathrm{DSub}}$ (double subsampling)",
    "subsampling": r"$\gamma_{\mathrm{Sub}}$ (subsampling)",
    "randomized_response": r"$\gamma_{\mathrm{const}}$ (randomised response)",
    "gnmax": "GNMax (Gaussian noise)",
    "permute_and_flip": "permute-and-flip (Laplace noise on the difference)",
    "exponential_mechanism": "exponential mechanism",
    "saa": "SAA (Laplace noise)",
    "dpbag": "DPBag (Laplace noise)",
    "majority": "plain majority",
}
ERROR = {
    "tv_error": r"tv error: $|\Pr[\mathrm{release}\ 1]-\Pr[\mathrm{majority}\ 1]|$",
    "disagreement": r"disagreement: $\Pr[\mathrm{release\ is\ not\ the\ majority\ voted}]$",
}


def look(name: str) -> tuple[str, str, str]:
    """Return colour, marker and line of a noise function, the same ones for all that have no look of their own."""
    return _STYLE.get(name, _NEUTRAL)


def called(name: str) -> str:
    """Return what a legend calls a noise function."""
    return _NAME.get(name, name)


def ordered(names: Iterable[str]) -> list[str]:
    """Return the names in drawing order: the optimum last, on top of what it is compared with.

    >>> ordered(["optimal", "another", "subsampling", "gnmax"])
    ['gnmax', 'subsampling', 'another', 'optimal']
    """
    given = list(names)
    known = [name for name in _STYLE if name in given]
    return [*reversed(known[1:]), *(name for name in given if name not in _STYLE), *known[:1]]
