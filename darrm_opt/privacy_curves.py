"""Privacy curves of known mechanisms, and the points of a voter's profile that are chosen from them.

A curve gives δ(ε) at every ε; a profile (`darrm_opt.voters`) lists a few points. Every δ here is rounded up, so the
mechanism has the resulting profile, in both directions of neighbours.

    gaussian(μ)       δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ)                                 (Balle, Wang 2018)
    laplace(b)        δ(ε) = 1 − e^((ε − 1/b)/2) for ε ≤ 1/b, else 0           (noise of scale b, sensitivity 1)
    zcdp(ρ)           δ(ε) = min over α > 1 of e^((α−1)(αρ−ε)) (1 − 1/α)^α / (α − 1)  (Canonne, Kamath, Steinke 2020)
    rdp(α:ε_α, …)     the same over the given orders, with ε_α in place of αρ
    dp_sgd(σ, q, T)   T Gaussian steps on Poisson samples, records added or removed: the smaller one of the PLD by
                      dp_accounting and of rdp over whole orders

zCDP and RDP also bound δ(0) by Pinsker's inequality.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from decimal import Context, Decimal, getcontext, localcontext
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from darrm_opt.arguments import real_number, whole_number
from darrm_opt.decimals import number_in
from darrm_opt.errors import InvalidInput, Rule
from darrm_opt.optional_packages import needed_by
from darrm_opt.problem import Privacy, Problem, TargetProfile, canonical_target
from darrm_opt.rounding import ULP, up
from darrm_opt.search import least_fitting
from darrm_opt.voters import MAX_POINTS, PrivacyProfile, parse_points

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

DEFAULT_POINTS = 5
MIN_DELTA = 1e-12

GROUP_POINTS = 3  # points of a curve for a group of voters: the number of a table's corners grows fast with them

MODEL_POINTS = 9
"""Points of a curve for models that were trained once: their total composes them all, and no search uses them."""

SHARE_PARTS, MODEL_PARTS = 10.0, 30.0
"""A share of the total δ over this is the δ of a curve's last point: for a query of fresh voters, for a model."""

UNSTATED_DELTA = 1e-6  # δ of the last point if there is no target
MAX_EPSILON = 700.0  # largest ε at which a curve is evaluated [nats]

MAX_SHIFT, MIN_SCALE, MAX_ORDER, MAX_STEPS = 30.0, 1e-2, 1e6, 10**7
"""Largest μ of Gaussian noise, smallest scale of Laplace noise, largest order of RDP, most steps of DP-SGD."""

MIN_NOISE = 0.2  # smallest noise multiplier of DP-SGD: its accountant has ∝ 1/σ² cells, which take about 5 s here
MAX_Z = 50.0  # largest argument at which Φ is computed; beyond it e^(−z²/2)/2 bounds the tail

INSET = 1e-9
"""Distance of an inner region's vertices below the curve's boundary: more than the error of its computation."""

MAX_REMOTE_STEPS, MIN_REMOTE_NOISE = 10**6, 0.5
"""Most steps and smallest noise multiplier of DP-SGD that a service accepts: a few seconds."""

SGD_ORDER = "The numbers of dp_sgd are σ, q and T, in this order."

FORMS = 'points "0:0.013,0.1:1e-5", a curve "gaussian(0.0325)", or a file of lines "epsilon,delta"'


@dataclass(frozen=True)
class PrivacyCurve:
    """δ(ε) of a voter at every ε.

    Attributes:
        text: its text form, such as ``"gaussian(0.0325)"``.
        delta: δ at an ε ≥ 0 [nats], rounded up.
        pure: the smallest ε with δ = 0 [nats]; ``inf`` if there is none.
        points: number of points of a profile, in place of the requested number; None: as requested.
    """

    text: str
    delta: Callable[[float], float] = field(compare=False, repr=False)
    pure: float = math.inf
    points: int | None = None

    def profile(self, target: Privacy | None = None, points: int = DEFAULT_POINTS) -> PrivacyProfile:
        """Return a profile of ``points`` points of the curve (at most), down to the δ of ``target``.

        They are δ(0), the point at the target's δ, and points evenly between them in ε. Without a target the last point
        is at `UNSTATED_DELTA`, or at δ = 0 if the curve reaches it.
        """
        points = points if self.points is None else self.points
        points = whole_number(points, "points", f"a number of points, 1 to {MAX_POINTS}", most=MAX_POINTS)
        unstated = UNSTATED_DELTA if self.pure == math.inf else 0.0
        last = self._last_epsilon(unstated if target is None else target.delta)
        epsilons = [last * i / (points - 1) for i in range(points)] if points > 1 else [last]
        return PrivacyProfile([(epsilon, self.delta(epsilon)) for epsilon in epsilons])

    def inner_profile(self, profile: PrivacyProfile) -> PrivacyProfile:
        """Return a profile whose region lies inside the curve's, with about as many vertices as ``profile``.

        Any points of the curve give a region that contains the curve's own, so the optimum for this profile bounds
        what more points could give.
        """
        # Vertices on the boundary p = T(p′) = min over ε of e^ε·p′ + δ(ε), below those of the outer region. The line
        # through two of them is that of a point (ε, δ). T is symmetric about p + p′ = 1.
        half = [(float(p_prime), self._boundary(float(p_prime)) - INSET) for p_prime, _ in profile.half_chain()]
        half = [(0.0, 0.0), *((p_prime, p) for p_prime, p in half if p > p_prime and p + p_prime <= 1)]
        last_p_prime, last_p = half[-1]
        chain = [*half, (1 - last_p, 1 - last_p_prime)]
        lines = []
        for (p_prime, p), (next_p_prime, next_p) in pairwise(chain):
            if next_p_prime > p_prime:
                slope = (next_p - p) / (next_p_prime - p_prime)
                lines.append((math.log(slope) if slope > 1 + INSET else 0.0, max(p - max(slope, 1.0) * p_prime, 0.0)))
        return PrivacyProfile([line for line in lines if line != (0.0, 0.0)])

    def _boundary(self, p_prime: float) -> float:
        """Return T(p′) by golden section: e^ε·p′ + δ(ε) has one minimum, as δ is convex in e^ε."""
        # an accountant's curve has a floor: the rounding error of its transforms.
        least = max(MIN_DELTA, 2 * self.delta(MAX_EPSILON)) if self.pure == math.inf else MIN_DELTA
        low, high, ratio = 0.0, min(self.pure, self._last_epsilon(least)), (math.sqrt(5) - 1) / 2

        def height(epsilon: float) -> float:
            return math.exp(epsilon) * p_prime + self.delta(epsilon)

        one, other = high - ratio * (high - low), low + ratio * (high - low)
        at_one, at_other = height(one), height(other)
        for _ in range(36):
            if at_one < at_other:
                high, other, at_other = other, one, at_one
                one = high - ratio * (high - low)
                at_one = height(one)
            else:
                low, one, at_one = one, other, at_other
                other = low + ratio * (high - low)
                at_other = height(other)
        return min(at_one, at_other, height(0.0))

    def _last_epsilon(self, delta: float) -> float:
        """Return approximately the smallest ε with δ(ε) ≤ ``delta`` [nats]."""
        least = max(delta, MIN_DELTA) if self.pure == math.inf else delta
        low, high = 0.0, min(self.pure, 1.0)
        while high < self.pure and self.delta(high) > least:
            low, high = high, min(2 * high, self.pure)
            if high > MAX_EPSILON:
                raise InvalidInput(
                    "profile",
                    self.text,
                    f"a curve that falls to δ = {least:.3g} at an ε below {MAX_EPSILON:g}",
                    "Use more noise, allow a larger δ, or state points, such as 0:0.2,2.2:1e-5.",
                )
        return least_fitting(lambda epsilon: self.delta(epsilon) <= least, low, high, 2.0**-50)


def gaussian(mu: float | None = None, *, noise_multiplier: float | None = None) -> PrivacyCurve:
    """Return the curve of a Gaussian mechanism.

    ``mu``: largest shift of the mean over neighbours, in standard deviations, > 0 and at most `MAX_SHIFT`; or give its
    inverse ``noise_multiplier``, the standard deviation over the sensitivity.
    """
    if (mu is None) == (noise_multiplier is None):
        raise InvalidInput("mu", mu, "exactly one of mu and noise_multiplier")
    if mu is None:
        accepted = f"a number of at least 1/{MAX_SHIFT:g}"
        sigma = real_number(noise_multiplier, "noise_multiplier", accepted, least=1 / MAX_SHIFT, below=math.inf)
        shift = up(1.0 / sigma, 1)
    else:
        accepted = f"a shift in standard deviations, above 0 and at most {MAX_SHIFT:g}"
        shift = real_number(mu, "mu", accepted, above=0, most=MAX_SHIFT)
    return PrivacyCurve(f"gaussian({shift!r})", lambda epsilon: _gaussian_delta(shift, epsilon))


def laplace(scale: float) -> PrivacyCurve:
    """Return the curve of Laplace noise at sensitivity 1, which is 1/scale-DP; scale > `MIN_SCALE`."""
    scale = real_number(scale, "scale", f"a scale above {MIN_SCALE:g}", above=MIN_SCALE, below=math.inf)
    pure = up(1.0 / scale, 1)

    def delta(epsilon: float) -> float:
        return 0.0 if epsilon >= pure else min(1.0, up(-math.expm1((epsilon - pure) / 2), 8))

    return PrivacyCurve(f"laplace({scale!r})", delta, pure)


def zcdp(rho: float) -> PrivacyCurve:
    """Return a curve that every ρ-zCDP voter satisfies, 0 < ρ ≤ 100 [nats]."""
    rho = real_number(rho, "rho", "a number of nats above 0, at most 100", above=0, most=100)

    def delta(epsilon: float) -> float:
        # every order gives a bound; these are near the best one
        guess = 1.0 + max(epsilon - rho, 0.0) / (2 * rho)
        orders = [1.0 + (guess - 1.0 + 0.5 / math.sqrt(rho)) * factor for factor in _FACTORS]
        return min(_pinsker(rho), *(_converted(order, up(order * rho, 2), epsilon) for order in orders))

    return PrivacyCurve(f"zcdp({rho!r})", delta)


_FACTORS = [2.0 ** (k / 8) for k in range(-40, 17)]


def rdp(points: Iterable[tuple[float, float]]) -> PrivacyCurve:
    """Return a curve of every voter that is (α, ε_α)-RDP in both directions at each given order.

    ``points``: pairs (α > 1 and below `MAX_ORDER`, ε_α ≥ 0 [nats]).
    """
    orders, order = [], f"an order above 1 and below {MAX_ORDER:,.0f}"
    for alpha, value in points:
        alpha = real_number(alpha, "alpha", order, above=1, below=MAX_ORDER)  # noqa: PLW2901 - checked
        orders.append((alpha, real_number(value, "rdp", "a divergence of nats, at least 0", least=0, below=math.inf)))
    if not orders:
        raise InvalidInput("rdp", (), "at least one pair (alpha, epsilon)")
    least = min(value for _, value in orders)  # the divergence at order 1 is no larger

    def delta(epsilon: float) -> float:
        return min(_pinsker(least), *(_converted(alpha, value, epsilon) for alpha, value in orders))

    return PrivacyCurve(f"rdp({','.join(f'{alpha!r}:{value!r}' for alpha, value in orders)})", delta)


def dp_sgd(noise_multiplier: float, sampling_probability: float, steps: int) -> PrivacyCurve:
    """Return the curve of DP-SGD: Gaussian steps on Poisson samples, with dp_accounting (the extra ``accounting``).

    Args:
        noise_multiplier: σ, at least `MIN_NOISE`: the standard deviation over the clipping norm.
        sampling_probability: q in (0, 1], the probability that a record is in a batch.
        steps: T, 1 to `MAX_STEPS`.

    Raises:
        InvalidInput: a number outside its range, or so little noise over all steps that no ε below `MAX_EPSILON` is
            useful: at q = 1, √T/σ above `MAX_SHIFT`.
        BackendUnavailable: dp_accounting is not installed.
    """
    sigma = real_number(noise_multiplier, "noise_multiplier", "a finite number", below=math.inf)
    if sigma < MIN_NOISE:
        raise InvalidInput("noise_multiplier", sigma, f"at least {MIN_NOISE:g}", SGD_ORDER)
    q = real_number(sampling_probability, "sampling_probability", "a probability in (0, 1]", above=0, most=1)
    steps = whole_number(steps, "steps", f"a number of steps, 1 to {MAX_STEPS:,}", most=MAX_STEPS)
    # a lower bound on the mean privacy loss: a step's mixture is at least each of its two parts.
    rest = (1 - q) * math.log1p(-q) if q < 1 else 0.0
    loss = steps * (q * (1 / (2 * sigma**2) + math.log(q)) + rest)
    if loss > MAX_SHIFT**2 / 2:
        raise InvalidInput(
            "profile",
            f"dp_sgd({sigma:g},{q:g},{steps})",
            f"DP-SGD with a mean privacy loss of at most {MAX_SHIFT**2 / 2:g} nats; it is at least {loss:.4g}",
            f"Use more noise (σ), a smaller share of a batch (q) or fewer steps (T). {SGD_ORDER}",
        )
    with needed_by("The curve of DP-SGD"):
        from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    from darrm_opt.accounting.rdp import gaussian_rdp
    from darrm_opt.accounting.sampled import WHOLE_ORDERS, sampled_divergences

    one = from_gaussian_mechanism(sigma, sampling_prob=q, value_discretization_interval=1e-4)
    by_pld = of_pld(one.self_compose(steps), steps)
    # Rényi divergences have no rounding error of transforms, which is the least δ of the PLD.
    orders, divergences = WHOLE_ORDERS, gaussian_rdp(sigma, WHOLE_ORDERS)
    if q < 1:
        orders, divergences = sampled_divergences(divergences, q, replace=False)
    sums = steps * divergences * (1 + 4 * ULP)
    known = sums < math.inf
    by_rdp = rdp(zip(orders[known].tolist(), sums[known].tolist(), strict=True)) if known.any() else by_pld
    text = f"dp_sgd({sigma!r},{q!r},{steps})"
    return PrivacyCurve(text, lambda epsilon: min(by_pld.delta(epsilon), by_rdp.delta(epsilon)))


def of_pld(distribution: PrivacyLossDistribution, compositions: int = 1, *, text: str = "pld") -> PrivacyCurve:
    """Return the curve of a ``dp_accounting`` PrivacyLossDistribution, which must be a pessimistic estimate.

    ``compositions``: how many distributions were composed into it. Each adds to the possible rounding error of its
    Fourier transforms, which is charged to δ.
    """
    parts = (getattr(distribution, f"_pmf_{side}", None) for side in ("remove", "add"))
    cells = 4 * max([1 << 14, *(int(part.size) for part in parts if part is not None)])
    return _charged(distribution.get_delta_for_epsilon, cells, compositions, text)


def of_event(event: Any, compositions: int = 1) -> PrivacyCurve:
    """Return the curve of a ``dp_accounting`` DpEvent by its PLD accountant; ``compositions`` as for `of_pld`."""
    with needed_by("The curve of an event"):
        from dp_accounting.pld.pld_privacy_accountant import PLDAccountant

    accountant = PLDAccountant()
    accountant.compose(event)
    return _charged(accountant.get_delta, 1 << 20, compositions, str(event)[:200])


def _charged(delta: Callable[[float], Any], cells: int, compositions: int, text: str) -> PrivacyCurve:
    """Return an accountant's curve, with the rounding error of transforms of this many cells charged to δ."""
    from darrm_opt.accounting.pld import FFT_ERROR

    compositions = whole_number(compositions, "compositions", "a number of compositions, at least 1")
    guard = math.sqrt(cells) * (compositions + 1) * (FFT_ERROR * math.log2(cells) + 8 * ULP)
    return PrivacyCurve(text, lambda epsilon: min(1.0, up(float(delta(epsilon)) + guard, 4)))


CURVES: dict[str, tuple[Callable[..., PrivacyCurve], tuple[str, ...]]] = {
    "gaussian": (gaussian, ("mu", "noise_multiplier")),
    "laplace": (laplace, ("scale",)),
    "zcdp": (zcdp, ("rho",)),
    "dp_sgd": (dp_sgd, ("noise_multiplier", "sampling_probability", "steps")),
}
"""Curves by name in text and JSON, with their parameter names; `rdp` takes points."""


_MEANINGS = {"steps": "number of steps"}

SYMBOLS = {"noise_multiplier": "σ", "sampling_probability": "q", "steps": "T", "scale": "b", "rho": "ρ", "mu": "μ"}


def stated_curve(statement: Any) -> PrivacyCurve | PrivacyProfile:
    """Return the curve, or the profile of points, that a text or JSON states.

    Args:
        statement: text in one of the `FORMS`, a list of pairs [ε, δ], or an object such as
            ``{"gaussian": {"mu": 0.0325}}``; a curve or a privacy is accepted as it is.

    Raises:
        InvalidInput: any other statement.

    >>> stated_curve("0:0.013, 0.1:1e-5").points
    ((0.0, 0.013), (0.1, 1e-05))
    >>> stated_curve({"laplace": {"scale": 10}}).profile(points=2).points
    ((0.0, 0.0487705754993), (0.1, 0.0))
    """
    if isinstance(statement, PrivacyCurve):
        return statement
    try:
        if isinstance(statement, str):
            return _from_text(statement.strip())
        if isinstance(statement, dict):
            return _from_object(statement)
        return PrivacyProfile(statement)
    except InvalidInput as err:  # its epsilon and delta are not the release's
        if err.argument.partition(".")[0] == "profile":
            raise
        raise InvalidInput("profile", err.value, f"{err.accepted} for {err.argument}", err.advice) from err


def stated_profile(statement: Any, target: Privacy | None = None, points: int = DEFAULT_POINTS) -> PrivacyProfile:
    """Return the profile of a statement (`stated_curve`); a curve's points are those for the target."""
    stated = stated_curve(statement)
    return stated.profile(target, points) if isinstance(stated, PrivacyCurve) else stated


def profile_in_total(
    statement: Any,
    K: int,
    queries: int,
    total_delta: float,
    affected: int | None = None,
    *,
    fresh: bool,
    points: int | None = None,
) -> PrivacyProfile:
    """Return the profile that one of K voters states (`stated_curve`), for ``queries`` releases within a total δ.

    A curve's points go down to a part of the share of δ that each query has, or, for voters that were trained once (not
    ``fresh``), each affected model. ``points``: by default `DEFAULT_POINTS`, and `MODEL_POINTS` if models trained once
    answer several queries.
    """
    composed = not fresh and queries != 1
    parts: Any = queries if fresh else (affected or K)
    # The core refuses an invalid number of queries or voters.
    share = total_delta / parts if isinstance(parts, int) and parts > 0 else total_delta
    target = Privacy(0.0, share / (MODEL_PARTS if composed else SHARE_PARTS))
    if points is None:
        points = MODEL_POINTS if composed else DEFAULT_POINTS
    return stated_profile(statement, target, points)


def stated_targets(statement: Any) -> Privacy:
    """Return the target of a statement (`stated_curve`): several (ε, δ) at once, or `DEFAULT_POINTS` points of a curve.

    Each number moves to the side of the stronger guarantee.

    >>> stated_targets([[0.5, 1e-5], [0.1, 0.05]]).points
    ((0.1, 0.05), (0.5, 1e-05))
    """
    points: Any = statement
    try:
        if isinstance(statement, str):
            text = statement.strip()
            points = parse_points(text) if _POINTS.fullmatch(text) else text
            if isinstance(points, str) and _CALL.fullmatch(text) is None:
                points = _points_of_file(text)
        if isinstance(points, str | dict | PrivacyCurve):
            curve = stated_curve(points)
            points = (curve.profile() if isinstance(curve, PrivacyCurve) else curve).points
        return canonical_target(TargetProfile(points))
    except InvalidInput as err:
        raise InvalidInput("targets", err.value, err.accepted, err.advice) from err


def profile_problem(
    K: int,
    statement: Any,
    target_epsilon: float | None,
    delta: float | None = None,
    affected: int | None = None,
    points: int = DEFAULT_POINTS,
    targets: Privacy | None = None,
) -> Problem:
    """Return the problem of voters whose profile is stated as in `stated_curve`.

    The default of ``delta`` is the last δ of a profile; for a curve `UNSTATED_DELTA`, or 0 if it is pure. ``targets``,
    several (ε, δ) at once, replace target_epsilon and delta. m has no meaning for a profile.
    """
    if targets is not None:
        least = min(point[1] for point in targets.points)
        return Problem(K, stated_profile(statement, Privacy(0.0, least), points), targets, affected)
    if target_epsilon is None:
        raise InvalidInput("target_epsilon", None, "a number of nats, at least 0", "With a profile, m has no meaning.")
    target_epsilon = real_number(target_epsilon, "target_epsilon", "a number of nats, at least 0", least=0)
    stated = stated_curve(statement)
    if isinstance(stated, PrivacyCurve):
        delta = (UNSTATED_DELTA if stated.pure == math.inf else 0.0) if delta is None else delta
        stated = stated.profile(Privacy(0.0, delta), points)
    return Problem(K, stated, Privacy(target_epsilon, stated.delta if delta is None else delta), affected)


def remote_curve(statement: Any) -> PrivacyCurve | PrivacyProfile:
    """Return the curve or profile of an untrusted statement: as `stated_curve`, without files and long computations."""
    if isinstance(statement, str):
        call = _CALL.fullmatch(statement)
        if call is None and not _POINTS.fullmatch(statement.strip()):
            raise InvalidInput("profile", statement, FORMS.partition(", or a file")[0])
        statement = statement if call is None else _object_of(*call.groups(), text=statement)
    advice = "Compute its points and state those."
    numbers = statement.get("dp_sgd") if isinstance(statement, dict) else None
    if isinstance(numbers, dict):
        if not numbers.get("steps", 0) <= MAX_REMOTE_STEPS:
            raise InvalidInput("profile.dp_sgd.steps", numbers["steps"], f"at most {MAX_REMOTE_STEPS:,}", advice)
        if not numbers.get("noise_multiplier", 1.0) >= MIN_REMOTE_NOISE:
            accepted = f"at least {MIN_REMOTE_NOISE:g}"
            raise InvalidInput("profile.dp_sgd.noise_multiplier", numbers["noise_multiplier"], accepted, advice)
    return stated_curve(statement)


def remote_targets(statement: Any) -> Privacy:
    """Return the targets of an untrusted statement: as `stated_targets`, without files and long computations."""
    if isinstance(statement, str | dict):
        try:
            remote_curve(statement)
        except InvalidInput as err:
            raise InvalidInput("targets", err.value, err.accepted, err.advice) from err
    return stated_targets(statement)


def _from_object(statement: dict[Any, Any]) -> PrivacyCurve | PrivacyProfile:
    if len(statement) != 1:
        raise InvalidInput("profile", statement, f"an object with one of {', '.join([*CURVES, 'rdp'])}")
    ((name, numbers),) = statement.items()
    if name == "rdp":
        return rdp(_pairs(numbers))
    if name not in CURVES or not isinstance(numbers, dict):
        raise InvalidInput("profile", statement, f"an object with one of {', '.join([*CURVES, 'rdp'])}")
    curve, names = CURVES[name]
    for key in numbers:
        if key not in names:
            raise InvalidInput(f"profile.{name}.{key}", numbers[key], f"one of {', '.join(names)}")
    if name != "gaussian" and (missing := [each for each in names if each not in numbers]):
        form = f"{name}({', '.join(SYMBOLS.get(each, each) for each in names)})"
        meanings = ", ".join(
            f"{SYMBOLS.get(each, each)} is the {_MEANINGS.get(each, each).replace('_', ' ')}" for each in missing
        )
        rule = Rule(f"is missing: {form} needs {len(names)} {'number' if len(names) == 1 else 'numbers'}; {meanings}")
        raise InvalidInput(f"profile.{name}.{missing[0]}", None, rule)
    return curve(**numbers)


def _pairs(value: Any) -> list[tuple[float, float]]:
    if not isinstance(value, list | tuple) or not all(
        isinstance(pair, list | tuple) and len(pair) == 2 for pair in value
    ):
        raise InvalidInput("profile", value, "a list of pairs")
    return [(first, second) for first, second in value]


_POINTS = re.compile(r"[^/\\]*\d\s*:[^/\\]*")
_CALL = re.compile(r"\s*([a-z_]+)\s*\((.*)\)\s*", re.DOTALL)


def _from_text(text: str) -> PrivacyCurve | PrivacyProfile:
    call = _CALL.fullmatch(text)
    if call is not None:
        return _from_object(_object_of(*call.groups(), text=text))
    return PrivacyProfile(parse_points(text) if _POINTS.fullmatch(text) else _points_of_file(text))


def _object_of(name: str, inside: str, *, text: str) -> dict[str, Any]:
    """Return the object form of the text ``name(inside)``."""
    if name == "rdp":
        return {name: _points_in(inside)}
    if name not in CURVES:
        raise InvalidInput("profile", text, FORMS, f"Curves are {', '.join([*CURVES, 'rdp'])}.")
    names = CURVES[name][1]
    numbers: dict[str, Any] = {}
    for place, part in enumerate(inside.split(",")):
        key, equals, value = part.rpartition("=")
        key = key.strip() if equals else names[min(place, len(names) - 1)]
        if key not in names or key in numbers:
            raise InvalidInput("profile", text, f"{name}({', '.join(names)})")
        numbers[key] = _number(value, text)
    return {name: numbers}


def _number(text: str, statement: str) -> float:
    number = number_in(text.strip())
    if number is None:
        share = number_in(text.strip().removesuffix("%")) if text.strip().endswith("%") else None
        advice = f"{text.strip()[:40]!r} is not a number."
        raise InvalidInput("profile", statement, FORMS, advice if share is None else f"{advice} Write {share / 100:g}.")
    return number


def _points_in(text: str) -> list[tuple[float, float]]:
    pairs = [part.split(":") for part in text.split(",") if part.strip()]
    if not pairs or any(len(pair) != 2 for pair in pairs):
        raise InvalidInput("profile", text, FORMS)
    return [(_number(epsilon, text), _number(delta, text)) for epsilon, delta in pairs]


def _points_of_file(name: str) -> list[tuple[float, float]]:
    """Return the points of a CSV file with lines "epsilon,delta"; a heading is skipped."""
    try:
        content = Path(name).read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as err:
        raise InvalidInput("profile", name, FORMS, f"The file cannot be read: {err}.") from err
    rows = [row for row in csv.reader(io.StringIO(content)) if row and any(map(str.strip, row))]
    if rows and all(number_in(cell.strip()) is None for cell in rows[0]):
        rows = rows[1:]
    if not rows or any(len(row) != 2 for row in rows):
        raise InvalidInput("profile", name, 'a file of lines "epsilon,delta"')
    return [(_number(epsilon, name), _number(delta, name)) for epsilon, delta in rows]


# ---------------------------------------------------------------------------------------------- proven values


def _gaussian_delta(mu: float, epsilon: float) -> float:
    """Return δ of the Gaussian mechanism, rounded up: computed in decimals, with every remainder bounded."""
    epsilon = real_number(epsilon, "epsilon", "a number of nats, at least 0", least=0)
    near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    if near > MAX_Z or far > MAX_Z + 40:  # Φ(−z) ≤ e^(−z²/2)/2 for z ≥ 0
        z = max(near * (1 - 8 * ULP) - 8 * ULP, 0.0)
        return up(0.5 * math.exp(-z * z / 2), 64)
    # e^ε·Φ(−far) is subtracted from Φ(−near): digits beyond both tails, and 40 more
    digits = 60 + math.ceil((far * far / 2 + epsilon) / math.log(10))
    with localcontext(Context(prec=digits)):
        shift, loss = Decimal(mu), Decimal(epsilon)
        first = _upper_tail(loss / shift - shift / 2)
        second = _upper_tail(loss / shift + shift / 2)
        margin = Decimal(10) ** (30 - digits) * (1 + loss.exp())
        value = first - loss.exp() * second + margin
        nearest = float(value)
        above = nearest if Decimal(nearest) >= value else math.nextafter(nearest, math.inf)
    return min(1.0, max(above, 0.0))


def _upper_tail(z: Decimal) -> Decimal:
    """Return Φ(−z) to within 10^(25 − digits) of the context."""
    # Φ(z) − ½ = φ(z)·Σ z^(2n+1)/(2n+1)!!; for |z| ≤ 90 the terms, all of one sign, fall by half from n = z² on
    term, total, n, least = z, z, 0, Decimal(10) ** (-getcontext().prec)
    while abs(term) > least * abs(total) or n < z * z:
        n += 1
        term = term * z * z / (2 * n + 1)
        total += term
        if not term:
            break
    density = (-z * z / 2).exp() / (2 * _pi(getcontext().prec)).sqrt()
    return Decimal("0.5") - density * total


@lru_cache(maxsize=64)
def _pi(digits: int) -> Decimal:
    """Return π, by Machin's formula."""
    with localcontext(Context(prec=digits + 10)):

        def arctan_of_inverse(x: int) -> Decimal:
            power, total, n, sign = Decimal(1) / x, Decimal(1) / x, 1, -1
            while power > Decimal(10) ** (-digits - 8):
                power /= x * x
                n += 2
                total += sign * power / n
                sign = -sign
            return total

        return 4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239))


def _pinsker(divergence: float) -> float:
    """Return √(D/2), an upper bound on the total variation distance at Kullback–Leibler divergence D."""
    return min(1.0, up(math.sqrt(divergence / 2), 4))


def _converted(alpha: float, divergence: float, epsilon: float) -> float:
    """Return the δ of (α, divergence)-RDP at ε, rounded up."""
    if alpha <= 1.0 + 1e-12:
        return 1.0
    # ln δ = (α−1)(D − ε) + α·ln(1 − 1/α) − ln(α − 1): absolute errors of a few ulps of its largest term
    parts = ((alpha - 1) * divergence, -(alpha - 1) * epsilon, alpha * math.log1p(-1 / alpha), -math.log(alpha - 1))
    exponent = math.fsum(parts) + 8 * ULP * (1.0 + sum(map(abs, parts)) + alpha)
    return min(1.0, up(math.exp(min(exponent, 0.0)), 8))
