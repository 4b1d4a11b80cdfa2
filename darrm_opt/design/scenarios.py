"""Objectives from the true tv error over scenarios of voter probabilities: its mean or its worst value.

    expected_error(lower=0, upper=1, scenarios=200, seed=0)   p_i independent, uniform on [lower, upper]: mean error
    minimax(lower=0.5, upper=1, points=101)                   all voters share p on a grid: worst error

Like all objectives they have a text that reads back, and so a key and a record. `over_scenarios` takes given scenarios;
its text names them by their digest and does not read back.

The true error (Definition 2.4 of the paper) is a mean of absolute values, one per scenario: with a_s = ½(α_l − α_{K−l})
at scenario s,

    error_s(γ) = |a_s · (1 − γ)| ≤ 1 − u_s   ⇔   u_s − a_s·γ ≤ 1 − Σa_s   and   u_s + a_s·γ ≤ 1 + Σa_s,

so the smallest mean error is the largest mean of u_s, and the smallest worst error the largest common u. Utility is the
share of the error of γ = 0 that is saved, 1 − error(γ)/error(0), as w·γ is for an objective with weights.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from darrm_opt.arguments import real_number, whole_number
from darrm_opt.design.goal import LinearGoal
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array, ArrayLike
from darrm_opt.priors import poisson_binomial

MAX_SCENARIOS = 10_000  # maximum number of scenarios: each is a variable and two rows of the program

_DEFAULTS: dict[str, dict[str, float]] = {
    "expected_error": {"lower": 0.0, "upper": 1.0, "scenarios": 200, "seed": 0},
    "minimax": {"lower": 0.5, "upper": 1.0, "points": 101},
}


@dataclass(frozen=True)
class ScenarioObjective:
    """The true tv error (Definition 2.4 of the paper), exact over scenarios."""

    name: str  # "expected_error" (mean) or "minimax" (worst)
    parameters: tuple[tuple[str, float], ...]  # as in the text form, defaults filled in; empty for given scenarios
    digest: str = ""  # of given scenarios
    _scenarios: tuple[Array, Array | None] | None = field(default=None, compare=False, repr=False)

    @property
    def measure(self) -> str:
        """Always the tv error."""
        return "tv"

    def check_voters(self, K: int) -> None:
        """Reject given scenarios that are not for K voters; others are drawn for any K."""
        if self.digest:
            self.linear_goal(K)

    def linear_goal(self, K: int) -> LinearGoal:
        """Return the goal for K voters."""
        p, masses = self._scenarios or self._draw(K)
        if p.ndim == 2 and p.shape[1] != K:
            raise InvalidInput("scenarios", f"{p.shape[1]} voters", f"K = {K} probabilities in each scenario")
        alpha = poisson_binomial(np.repeat(p[:, np.newaxis], K, axis=1) if p.ndim == 1 else p)
        gaps = 0.5 * (alpha[:, K // 2 + 1 :] - alpha[:, : (K + 1) // 2][:, ::-1])
        if not np.abs(gaps.sum(axis=1)).max() > 0:
            raise InvalidInput("scenarios", str(self), "at least one scenario in which an answer leads")
        return _least_error(gaps, masses)

    def _draw(self, K: int) -> tuple[Array, Array | None]:
        settings = dict(self.parameters)
        low, high = settings["lower"], settings["upper"]
        if self.name == "minimax":
            return np.linspace(low, high, int(settings["points"])), None
        count = int(settings["scenarios"])
        draws = np.random.default_rng(int(settings["seed"])).random((count, K))
        return low + (high - low) * draws, np.full(count, 1.0 / count)

    def __str__(self) -> str:
        if self.digest:
            return f"{self.name} over scenarios {self.digest}"
        defaults = _DEFAULTS[self.name]
        inside = ", ".join(f"{name}={value:.17g}" for name, value in self.parameters if value != defaults[name])
        return f"{self.name}({inside})" if inside else self.name


def _least_error(gaps: Array, masses: Array | None) -> LinearGoal:
    """Return the goal of the smallest tv error over scenarios.

    ``gaps``: a_s = ½(α_l − α_{K−l}), shape (scenarios, entries). ``masses``: their weights; None: the worst scenario.
    """
    scenarios, entries = gaps.shape
    zero_errors = np.abs(gaps.sum(axis=1))
    columns = np.eye(scenarios) if masses is not None else np.ones((scenarios, 1))
    share = masses if masses is not None else np.ones(1)
    scale = float(masses @ zero_errors) if masses is not None else float(zero_errors.max())
    rows = np.block([[-gaps, columns], [gaps, columns]])
    limits = np.concatenate([1.0 - gaps.sum(axis=1), 1.0 + gaps.sum(axis=1)])

    def utility(upper: Array) -> float:
        errors = np.abs(gaps @ (1.0 - upper))
        return 1.0 - float(masses @ errors if masses is not None else errors.max()) / scale

    return LinearGoal(np.concatenate([np.zeros(entries), share / scale]), utility, 1.0 - 1.0 / scale, rows, limits)


def expected_error(lower: float = 0.0, upper: float = 1.0, scenarios: int = 200, seed: int = 0) -> ScenarioObjective:
    """Return the objective of the smallest mean tv error for p_i independent and uniform on [lower, upper].

    Args:
        lower: smallest p_i [probability].
        upper: largest p_i [probability], above ``lower``.
        scenarios: number of draws of (p_1, …, p_K), 1..10,000.
        seed: of the draws, ≥ 0: equal seeds give equal objectives.

    Source: Definition 2.4 of the paper, exact on the drawn scenarios.

    >>> str(expected_error(scenarios=50))
    'expected_error(scenarios=50)'
    """
    return _build("expected_error", {"lower": lower, "upper": upper, "scenarios": scenarios, "seed": seed})


def minimax(lower: float = 0.5, upper: float = 1.0, points: int = 101) -> ScenarioObjective:
    """Return the objective of the smallest worst tv error if all voters share p, over a grid of p.

    Args:
        lower: smallest p [probability]; p and 1−p have the same error, so half of [0, 1] suffices.
        upper: largest p [probability], above ``lower``.
        points: of the grid, 2..10,000.
    """
    return _build("minimax", {"lower": lower, "upper": upper, "points": points})


def over_scenarios(scenarios: ArrayLike, masses: ArrayLike | None = None, *, worst: bool = False) -> ScenarioObjective:
    """Return the objective of the smallest tv error over given scenarios.

    Args:
        scenarios: probabilities of a 1 [probability], shape (S,) (all voters share p) or (S, K).
        masses: weights of the scenarios, ≥ 0, not all 0, shape (S,); default equal. Not with ``worst``.
        worst: whether only the worst scenario counts.

    Raises:
        InvalidInput: shapes that disagree or numbers out of range.

    Source: Definition 2.4 of the paper.
    """
    p = np.asarray(scenarios, dtype=np.float64)
    if p.ndim not in (1, 2) or not 0 < p.shape[0] <= MAX_SCENARIOS or not ((p >= 0) & (p <= 1)).all():
        raise InvalidInput("scenarios", p.tolist(), f"1..{MAX_SCENARIOS} scenarios of probabilities in [0, 1]")
    shares: Array | None = None
    if worst and masses is not None:
        raise InvalidInput("masses", masses, "None with worst=True", "The worst scenario counts whatever its mass.")
    if not worst:
        shares = np.ones(p.shape[0]) if masses is None else np.asarray(masses, dtype=np.float64)
        if shares.shape != p.shape[:1] or not (shares >= 0).all() or not 0 < shares.sum() < np.inf:
            raise InvalidInput("masses", shares.tolist(), f"{p.shape[0]} numbers ≥ 0, not all 0")
        shares = shares / shares.sum()
    import hashlib  # takes 4 ms

    digest = hashlib.sha256(p.tobytes() + (b"" if shares is None else shares.tobytes())).hexdigest()[:16]
    return ScenarioObjective("minimax" if worst else "expected_error", (), digest, (p, shares))


def parse_scenarios(text: str) -> ScenarioObjective | None:
    """Return the scenario objective that ``text`` names; None for another kind of objective."""
    if not text.strip().startswith(tuple(_DEFAULTS)):
        return None
    match = re.fullmatch(r"\s*(expected_error|minimax)\s*(?:\(([^()]*)\))?\s*", text)
    if match is None:
        return None
    name, inside = match.groups()
    accepted = f"{name}({', '.join(f'{key}={value:g}' for key, value in _DEFAULTS[name].items())})"
    parameters = dict(_DEFAULTS[name])
    for part in inside.split(",") if inside and not inside.isspace() else ():
        key, _, number = (piece.strip() for piece in part.partition("="))
        try:
            value = float(number)
        except ValueError as err:
            raise InvalidInput("objective", text, accepted, f"'{part.strip()}' is not name=number.") from err
        if key not in parameters:
            raise InvalidInput("objective", text, accepted, f"'{key}' is not a parameter of {name}.")
        parameters[key] = value
    return _build(name, parameters)


def _build(name: str, parameters: Mapping[str, Any]) -> ScenarioObjective:
    values: dict[str, float] = {}
    for key, value in parameters.items():
        if key in ("lower", "upper"):
            values[key] = real_number(value, key, "a probability in [0, 1]", least=0, most=1)
        else:
            least = {"seed": 0, "points": 2}.get(key, 1)
            most = 2**53 if key == "seed" else MAX_SCENARIOS
            whole = int(value) if isinstance(value, float) and value.is_integer() else value
            values[key] = whole_number(whole, key, f"a whole number in {least}..{most}", least=least, most=most)
    if not values["lower"] < values["upper"]:
        raise InvalidInput("upper", values["upper"], f"a probability above lower = {values['lower']:g}")
    return ScenarioObjective(name, tuple(values.items()))
