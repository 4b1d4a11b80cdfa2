"""Totals of labels and checks of a noisy vote."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from darrm_opt.accounting.labels.vote_release import VoteRelease
from darrm_opt.accounting.total import ReleaseTotal, total_of


def vote_total(
    releases: Iterable[tuple[Any, ...]],
    delta: float,
    *,
    classes: int | None = None,
    affected: int = 1,
    weight: float = 1.0,
) -> ReleaseTotal:
    """Return the total of releases (kind, σ, count) or (kind, σ, count, noise)."""
    parts = [(VoteRelease(kind, sigma, *noise), count) for kind, sigma, count, *noise in releases]
    return total_of([(release.guarantee(classes, affected, weight), count) for release, count in parts], delta)
