"""Hash of a design, and its ρ of concentrated differential privacy, for statements and answers."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from fractions import Fraction
from hashlib import sha256
from typing import Any

from darrm_opt.accounting.sampling import Sampling
from darrm_opt.errors import DeltaTooSmall
from darrm_opt.mechanisms import VoteMechanism
from darrm_opt.mechanisms.base import mechanism_from_record
from darrm_opt.problem import Privacy
from darrm_opt.record import planned_total
from darrm_opt.rounding import float_above


def filed_mechanism(record: Any) -> tuple[VoteMechanism, tuple[int, Privacy] | None, Sampling | None]:
    """Return the mechanism of a record, proved, the queries and total that it names, and how records are drawn."""
    mechanism, planned = mechanism_from_record(record), planned_total(record)
    return mechanism, planned, Sampling.from_record(record["sampling"]) if "sampling" in record else None


def design_record(
    mechanism: VoteMechanism, total: Privacy, releases: int, sampling: Sampling | None = None
) -> dict[str, Any]:
    """Return everything that the guarantee depends on; no date, no version."""
    return {
        "mechanism": mechanism.record(),
        "sampling": None if sampling is None else sampling.record(),
        # JSON has no infinity; null is a missing proof.
        "budget": [total.epsilon if total.epsilon < math.inf else None, total.delta],
        "releases": releases,
    }


def design_hash(design: dict[str, Any]) -> str:
    """Return the SHA-256 of a statement's ``design`` with its mechanism's record: JSON with sorted keys, no spaces."""
    text = json.dumps(design, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{sha256(text.encode()).hexdigest()}"


def filed(
    mechanism: VoteMechanism | None, total: Privacy, releases: int, sampling: Sampling | None = None
) -> dict[str, Any]:
    """Return the hash and the ρ of a design in the form of an answer; each None without a mechanism or an ε."""
    if mechanism is None or total.epsilon == math.inf:
        return {"design_hash": None, "zcdp": None}
    design = design_record(mechanism, total, releases, sampling)
    return {"design_hash": design_hash(design), "zcdp": concentrated(mechanism, releases, sampling)}


def concentrated(mechanism: VoteMechanism, releases: int, sampling: Sampling | None = None) -> float | None:
    """Return a ρ such that this many releases together are ρ-zCDP, rounded up; None if none is proved.

    Source: Bun, Steinke 2016: an ε-DP mechanism is (ε²/2)-zCDP, and ρ adds up; Canonne, Kamath, Steinke 2020: discrete
    Gaussian noise on counts that differ by ‖Δ‖₂ is (‖Δ‖₂²/(2σ²))-zCDP, like Gaussian noise.
    """
    if sampling is not None:  # sampling amplifies (ε, δ); no ρ of sampled releases is proved here
        return None

    def pure(number: int) -> Fraction | None:
        with suppress(DeltaTooSmall):
            if (epsilon := mechanism.cost(number, 0.0).epsilon) < math.inf:
                return Fraction(epsilon) ** 2 / 2
        return None

    found = [pure(releases)]
    # Answers of voters trained once are not independent given the data, so ρ does not add up.
    if mechanism.fresh or not mechanism.private_voters:
        each = pure(1) if releases > 1 else None
        found += [None if each is None else releases * each]
        found += [None if mechanism.concentration is None else releases * mechanism.concentration]
    return float_above(min(rho for rho in found if rho is not None)) if any(rho is not None for rho in found) else None
