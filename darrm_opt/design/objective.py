"""Objectives: the value of each margin of the vote, and the linear goal that a program maximises for it.

The design maximises Σ_{l>K/2} w_l·γ(l). The weights sum to 1, so the value is the share of the noiseless utility kept.
They come from a prior over the voters' answers and one of two measures of error (masses as in `darrm_opt.priors`):

    tv         the paper's: E|Pr[release = 1] − Pr[majority = 1]|    w_l ∝ gap(l) = E|α_l − α_{K−l}|
    agreement  Pr[release ≠ majority that was voted]                 w_l ∝ folded(l) = E(α_l + α_{K−l})

    rectangular(lower=0.5, tau=50)   p_i independent, on the paper's grid of [lower, 1)     tv
    uniform(lower=0.5)               p_i independent, uniform on [lower, 1)                 tv
    shared(a,b)                      all voters share p ~ Beta(a, b)                        agreement
    histogram(n_0,…,n_K)             n_l votes had l ones                                   agreement

The last column is the default measure. All pairs are defined, with these limits:

- `rectangular` and `uniform` under tv need lower ≥ 1/2. There 1 leads at each l and for each p, so the absolute value
  can be dropped. Below 1/2 it cannot: E(α_l − α_{K−l}), which is 0 at lower = 0, is not the error.
- `histogram` under tv is about the released bit over *all* the counted votes together: ½Σ gap(l)(1−γ(l)) bounds
  |Pr[release = 1] − Pr[majority = 1]|, with equality if the same answer leads at every margin. The counts must
  therefore be those of one fixed answer. Counts that treat both answers alike have no gap and are rejected; agreement
  has no such limit (it folds the counts: l and K−l weigh the same).

A solver takes an objective as a linear goal (`darrm_opt.design.goal`).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast

import numpy as np

from darrm_opt.arguments import real_number, whole_number
from darrm_opt.design.goal import LinearGoal
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array, ArrayLike
from darrm_opt.priors import Histogram, IndependentVoters, Prior, SharedBeta

if TYPE_CHECKING:
    from darrm_opt.design.scenarios import ScenarioObjective

Measure = Literal["tv", "agreement"]

MEASURES: tuple[Measure, ...] = ("tv", "agreement")

_VOTERS = "a whole number of voters, at least 1"


class ObjectiveFamily(NamedTuple):
    """A family of objectives: prior, parameters with any defaults, default measure, and a description."""

    prior: Callable[..., Prior]
    parameters: tuple[str, ...]
    defaults: tuple[float, ...]
    measure: Measure
    description: str


FAMILIES: dict[str, ObjectiveFamily] = {
    "rectangular": ObjectiveFamily(
        IndependentVoters, ("lower", "tau"), (0.5, 50), "tv", "Independent voters, on the paper's grid of [lower, 1)."
    ),
    "uniform": ObjectiveFamily(
        IndependentVoters, ("lower",), (0.5,), "tv", "Independent voters, uniform on [lower, 1)."
    ),
    "shared": ObjectiveFamily(SharedBeta, ("a", "b"), (), "agreement", "All voters share one p ~ Beta(a, b)."),
    "histogram": ObjectiveFamily(
        lambda *counts: Histogram(counts), (), (), "agreement", "Counts of past or public votes."
    ),
}


def _form(name: str, kind: ObjectiveFamily) -> str:
    if kind.defaults:
        inside = ", ".join(f"{key}={value:g}" for key, value in zip(kind.parameters, kind.defaults, strict=True))
    else:
        inside = ",".join(kind.parameters) or "n_0,…,n_K"
    return f"{name}({inside})"


def forms() -> str:
    """Return the text forms of objectives with weights, for messages."""
    *others, last = (_form(name, kind) for name, kind in FAMILIES.items())
    return f"{', '.join(others)} or {last}"


def accepted_objectives() -> str:
    """Return the text forms of all objectives, for messages."""
    return f"{forms()}, followed by tv or agreement if not the default measure; expected_error or minimax"


@dataclass(frozen=True)
class Objective:
    """The maximised quantity, independent of K.

    Guarantees: Frozen and hashable; ``parse_objective(str(objective)) == objective``.
    """

    name: str  # one of `FAMILIES`
    parameters: tuple[float, ...]  # as in the text form: (lower, tau), (lower,), (a, b) or the counts
    measure: Measure  # ``tv`` or ``agreement``

    def __post_init__(self) -> None:
        kind = _family_of(self.name)
        if self.measure not in MEASURES:
            raise InvalidInput("measure", self.measure, "tv or agreement")
        if kind.parameters and len(self.parameters) != len(kind.parameters):
            accepted = f"the numbers {', '.join(kind.parameters)} of {self.name}"
            raise InvalidInput("parameters", self.parameters, accepted)
        for name, value in zip(kind.parameters, self.parameters, strict=False):
            real_number(value, name, "a number")
        # As canonicalised by the prior: equal objectives must have one text, which is part of the content key.
        prior = kind.prior(*self.parameters)
        parameters = (
            prior.counts if isinstance(prior, Histogram) else tuple(getattr(prior, name) for name in kind.parameters)
        )
        object.__setattr__(self, "parameters", parameters)
        # Otherwise every γ would have the same utility.
        if self.measure == "tv" and not prior.gap(len(parameters) - 1 if isinstance(prior, Histogram) else 1).any():
            advice = "No answer leads at any margin there, so every tv weight would be 0."
            raise InvalidInput("measure", self.measure, f"agreement for {self}", advice)

    @property
    def prior(self) -> Prior:
        """Prior of the voters' answers."""
        return _family_of(self.name).prior(*self.parameters)

    def weights(self, K: int) -> Array:
        """Return w_l for l = ⌊K/2⌋+1..K, read-only, shape (⌈K/2⌉,).

        Guarantees: Non-negative, sums to 1 up to rounding; relative error of an entry below 1e-12 for K ≤ 5001 down to
        1e-290 (smaller ones may be stored as 0).
        Source: Algorithm 5 of the paper for `rectangular`, in closed form.
        """
        return _weights(self, whole_number(K, "K", _VOTERS))

    def check_voters(self, K: int) -> None:
        """Reject a K that is not the number of voters of a histogram."""
        if self.name == "histogram":
            self.weights(K)

    def linear_goal(self, K: int) -> LinearGoal:
        """Return the goal Σ w_l·γ(l) for K voters."""
        weights = self.weights(K)
        return LinearGoal(weights, lambda upper: float(weights @ upper), 0.0, np.empty((0, weights.size)), np.empty(0))

    def __str__(self) -> str:
        return self._text_form

    @functools.cached_property
    def _text_form(self) -> str:
        kind = _family_of(self.name)
        if kind.defaults:
            settings = zip(kind.parameters, self.parameters, kind.defaults, strict=True)
            inside = ", ".join(f"{name}={_text(value)}" for name, value, default in settings if value != default)
        else:
            inside = ",".join(map(_text, self.parameters))
        text = f"{self.name}({inside})" if inside else self.name
        return text if self.measure == kind.measure == "tv" else f"{text} {self.measure}"


@functools.lru_cache(maxsize=64)
def _weights(objective: Objective, K: int) -> Array:
    """Return `Objective.weights`, cached."""
    mass = objective.prior.gap(K) if objective.measure == "tv" else objective.prior.folded(K)
    weights: Array = mass / mass.sum()
    weights.setflags(write=False)
    return weights


AnyObjective: TypeAlias = "Objective | ScenarioObjective"


def rectangular(lower: float = 0.5, tau: int = 50, measure: Measure = "tv") -> Objective:
    """Return the paper's surrogate, the default objective: each p_i on a grid of ``tau`` points of [lower, 1).

    Args:
        lower: a [probability], in [0, 1); for tv in [0.5, 1).
        tau: number of grid points a + (1−a)·i/τ, ≥ 1.
        measure: ``tv`` or ``agreement``.

    Source: Algorithm 5 of the paper; Binomial(K, a + (1−a)(τ−1)/(2τ)) replaces its sampling.
    """
    return Objective("rectangular", (lower, tau), measure)


def uniform(lower: float = 0.5, measure: Measure = "tv") -> Objective:
    """Return the objective for p_i independent and uniform on [lower, 1): Binomial(K, (1+a)/2).

    Args:
        lower: a [probability], in [0, 1); for tv in [0.5, 1).
        measure: ``tv`` or ``agreement``.
    """
    return Objective("uniform", (lower,), measure)


def shared(a: float, b: float, measure: Measure = "agreement") -> Objective:
    """Return the objective for voters that share one p ~ Beta(a, b), as on inputs that are easy for all.

    Args:
        a: first parameter of the Beta distribution, in [1e-3, 1e4].
        b: second parameter, in [1e-3, 1e4].
        measure: ``tv`` or ``agreement``.
    """
    return Objective("shared", (a, b), measure)


def histogram(counts: ArrayLike, measure: Measure = "agreement") -> Objective:
    """Return the objective for counts of past or public votes, independent of the protected data.

    Args:
        counts: number of votes with l ones, l = 0..K, shape (K+1,), each ≥ 0, not all 0.
        measure: ``tv`` or ``agreement``.

    Raises:
        InvalidInput: other counts.
    """
    try:
        values = tuple(counts)
    except TypeError as err:
        raise InvalidInput("counts", counts, "a list of K+1 counts") from err
    return Objective("histogram", values, measure)


def as_objective(objective: AnyObjective | str) -> AnyObjective:
    """Return an objective from itself or from its text (`parse_objective`, `parse_scenarios`)."""
    if isinstance(objective, Objective):
        return objective
    value: Any = objective  # callers without a type checker may pass anything
    if isinstance(value, str) and value in FAMILIES:
        return parse_objective(value)
    from darrm_opt.design.scenarios import ScenarioObjective, parse_scenarios  # the usual objectives do not need it

    if isinstance(value, ScenarioObjective):
        return value
    return (parse_scenarios(value) if isinstance(value, str) else None) or parse_objective(value)


def parse_objective(text: str) -> Objective:
    """Return the objective that ``text`` names.

    >>> parse_objective("shared(2, 5)") == shared(2, 5, measure="agreement")
    True
    """
    value: Any = text
    if not isinstance(value, str):
        raise InvalidInput("objective", text, accepted_objectives())
    return _parse(value)


@functools.lru_cache(maxsize=64)
def _parse(text: str) -> Objective:
    """Return `parse_objective`, cached."""
    name, inside, measure = text, None, ""
    # a bare name needs no regular expression, which takes some milliseconds to compile
    if text not in FAMILIES:
        if not (match := re.fullmatch(_FORM, text)):
            raise InvalidInput("objective", text, accepted_objectives())
        name, inside, measure = match["name"], match["inside"], match["measure"]
    kind = _family_of(name)
    values: list[float] = []
    values_by_name: dict[str, float] = {}
    for part in inside.split(",") if inside and inside.strip() else ():
        key, equals, number = part.rpartition("=")
        # By place first, then by name, as in a Python call.
        if not equals and not values_by_name:
            values.append(_number(number, text))
        elif (key := key.strip()) in kind.parameters[len(values) :] and key not in values_by_name:
            values_by_name[key] = _number(number, text)
        else:
            advice = f"'{part.strip()}' is not a parameter of {name} there."
            raise InvalidInput("objective", text, accepted_objectives(), advice)
    for position in range(len(values), len(kind.parameters)):
        parameter = kind.parameters[position]
        if parameter not in values_by_name and not kind.defaults:
            advice = f"The parameter {parameter} of {name} is missing."
            raise InvalidInput("objective", text, accepted_objectives(), advice)
        values.append(values_by_name[parameter] if parameter in values_by_name else kind.defaults[position])
    return Objective(name, tuple(values), cast("Measure", measure or kind.measure))


def _family_of(name: Any) -> ObjectiveFamily:
    if name not in FAMILIES:
        raise InvalidInput("objective", name, accepted_objectives())
    return FAMILIES[name]


def _number(text: str, whole: str) -> float:
    try:
        return int(text) if re.fullmatch(_DIGITS, text) else float(text)
    except ValueError as err:
        raise InvalidInput("objective", whole, accepted_objectives(), f"'{text.strip()}' is not a number.") from err


def _text(value: float) -> str:
    """Return the shortest text that reads back as the same number; integers without a point."""
    return repr(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))


_FORM = r"\s*(?P<name>[a-z]+)\s*(?:\((?P<inside>[^()]*)\))?\s*(?P<measure>[a-z]*)\s*"
_DIGITS = r"\s*\d+\s*"
