"""Cost of releases of one mechanism, and calibration of its parameter to a total, as plain data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from darrm_opt.accounting.sampling import Sampling
from darrm_opt.answers import Report, sampling_of, sampling_record
from darrm_opt.errors import InvalidInput, VerificationFailed
from darrm_opt.mechanisms import VoteMechanism, mechanism_class
from darrm_opt.mechanisms.base import CHECKS
from darrm_opt.problem import Privacy

COST_SECONDS = 0.5
"""About how long the cost of a mechanism takes [s]: up to a second and a half for 1000 releases."""

CALIBRATION_SECONDS = 5.0
"""About how long a calibration takes [s]: 1 to 13, most where bits are accounted for."""

CURVE_DELTAS = tuple(float(f"1e-{power}") for power in range(12, 1, -1))
"""δ of the points of a curve."""

CURVE_SHARES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
"""Numbers of releases of the points of a curve, in multiples of the number that is asked."""

CURVE_POINTS = len(CURVE_DELTAS) + len(CURVE_SHARES)

SAMPLED_SHARE = 4.0
"""The same where records are sampled, in multiples: most of them take less, and labels with four cells up to this."""


@dataclass(frozen=True)
class MechanismCost:
    """A mechanism, and what its releases cost together."""

    mechanism: VoteMechanism  # at its parameter
    epsilon: float
    delta: float
    account: str  # the account that proves it; "none" where none does
    sampling: Sampling | None = None  # how records are drawn anew for every query; None: every record is in every query

    def as_dict(self) -> dict[str, Any]:
        """Return the cost as plain data; ε is None where nothing is proved."""
        return {
            "mechanism": self.mechanism.name,
            "parameter": self.mechanism.value,
            "epsilon": self.epsilon if self.epsilon < math.inf else None,
            "delta": self.delta,
            "account": self.account,
        } | sampling_record(self.sampling)


def find_cost(argument: dict[str, Any], sampling: Sampling | None = None) -> MechanismCost:
    """Return what releases of a mechanism cost together: of the one that is given, or of the best within a total.

    ``argument``: ``mechanism``, its name; ``K``, ``classes``, ``affected``; ``queries``; and ``parameter`` with
    ``delta`` and, with a check, ``threshold``, ``check_sigma`` and ``cap``, or ``total_epsilon`` with ``total_delta``;
    and, where records are drawn anew for every query, the fields of `SAMPLING`, or ``sampling``. What is None is not
    given.
    """
    found = mechanism_class(argument["mechanism"])
    shape = argument["K"], argument["classes"]
    affected, queries = argument["affected"], argument["queries"]
    parameter, total_epsilon = argument["parameter"], argument["total_epsilon"]
    sampling = sampling or sampling_of(argument)
    if (parameter is None) == (total_epsilon is None):
        raise InvalidInput("parameter", parameter, "exactly one of parameter and total_epsilon")
    # What would be ignored is refused: a δ of one release and a total δ are different claims.
    excluded = ("total_delta",) if parameter is not None else ("delta", *CHECKS)
    for name in (*excluded, *(() if found.has_check else CHECKS)):
        if argument[name] is not None:
            beside = "parameter" if name == "total_delta" else "total_epsilon" if name in excluded else found.name
            raise InvalidInput(name, argument[name], f"nothing beside {beside}")
    if parameter is None:
        delta = argument["total_delta"] or 0.0
        # Without a total δ the total is pure.
        mechanism: VoteMechanism = found.calibrated(
            *shape, Privacy(total_epsilon, delta), queries, affected=affected, sampling=sampling
        )
    else:
        if argument["delta"] is None:
            raise InvalidInput("delta", None, "the probability δ of all releases together, in [0, 1)")
        delta = argument["delta"]
        mechanism = found.of(*shape, parameter, affected, **{name: argument[name] for name in CHECKS})
    # After a calibration too: its answer states the account of the parameter that was found, not of the search.
    cost = mechanism.cost(queries, delta, sampling)
    return MechanismCost(mechanism, cost.epsilon, cost.delta, cost.account, sampling)


def cost_curve(found: MechanismCost, queries: int) -> list[dict[str, Any]]:
    """Return ε over δ for so many releases, and over the number of releases at the δ of a cost.

    A point has ``queries``, ``delta``, ``epsilon`` (None where nothing is proved) and ``account``. The curve over δ is
    a profile of the same releases: all of its points hold at once.
    """
    counts = sorted({max(1, round(queries * share)) for share in CURVE_SHARES})
    places = [(queries, delta) for delta in CURVE_DELTAS] + [(count, found.delta) for count in counts]
    points = []
    for count, delta in sorted({*places}):
        cost = found.mechanism.cost(count, delta, found.sampling)
        epsilon = cost.epsilon if cost.epsilon < math.inf else None
        points.append({"queries": count, "delta": delta, "epsilon": epsilon, "account": cost.account})
    return points


def compute_cost(argument: dict[str, Any], report: Report) -> dict[str, Any]:
    """Return the cost of a mechanism as plain data; the argument is that of `find_cost`, with ``curve``."""
    report(None)
    found = find_cost(argument)
    curve = {"curve": cost_curve(found, argument["queries"])} if argument.get("curve") else {}
    return found.as_dict() | curve


def verify_cost(answer: Any, argument: dict[str, Any]) -> MechanismCost:
    """Return a cost that another process found, accounted for again at its own parameter.

    Guarantees: The ε is what the accounts of this process prove, and no more than the answer says.
    """
    given = argument["parameter"] is not None
    delta = argument["delta"] if given else argument["total_delta"] or 0.0
    try:
        value, epsilon = answer["parameter"], answer["epsilon"]
        if (answer["mechanism"], answer["delta"]) != (argument["mechanism"], delta):
            raise VerificationFailed("The answer is for another mechanism, or another δ, than was asked.")
        asked = sampling_of(argument)
        if answer.get("sampling") != (None if asked is None else asked.record()):
            raise VerificationFailed("The answer is for another sampling than was asked.")
        if given and value != argument["parameter"]:
            raise VerificationFailed("The answer is for another parameter than was asked.")
        # The parameter is the other side's; what it costs is computed here, so the search need not be repeated.
        fixed = {"parameter": value, "delta": delta, "total_epsilon": None, "total_delta": None}
        proved = find_cost({**argument, **fixed})
        # None claims nothing, and nothing proved refutes it.
        claim = math.inf if epsilon is None else epsilon
        if proved.epsilon > claim:
            raise VerificationFailed(f"The answer says ε = {claim!r}, and {proved.epsilon!r} is proved.")
    except (InvalidInput, LookupError, TypeError, AttributeError) as err:
        raise VerificationFailed(f"The answer has something else where a cost should be: {err}") from err
    # A parameter is a calibration only if it is within the total; that it is the best one is not proved.
    if not given and proved.epsilon > argument["total_epsilon"]:
        raise VerificationFailed(f"The answer's parameter costs ε = {proved.epsilon!r}, which is beyond the total.")
    return proved


def recheck_cost(argument: dict[str, Any], result: dict[str, Any]) -> None:
    """Account for a stored result again; raises as `verify_cost`."""
    verify_cost(result, argument)
