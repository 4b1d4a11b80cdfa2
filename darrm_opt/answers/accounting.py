"""Composition of releases: its task, and its result as plain data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from darrm_opt.accounting.accounts import MAX_RELEASES
from darrm_opt.accounting.composition.closed_forms import basic_composition, kov_composition
from darrm_opt.accounting.composition.optimal import optimal_composition
from darrm_opt.accounting.pld import pld_composition
from darrm_opt.accounting.release_profile import Release
from darrm_opt.accounting.total import probability, total_delta_of, total_privacy
from darrm_opt.answers import (
    Report,
)
from darrm_opt.arguments import whole_number
from darrm_opt.errors import BackendUnavailable, DeltaTooSmall, InvalidInput, TooMuchWork
from darrm_opt.problem import Privacy
from darrm_opt.record import problem_from_record


def composition_to_dict(
    privacy: Privacy,
    queries: int,
    slack: float,
    total_delta: float | None = None,
    release: Release | None = None,
    *,
    fresh: bool = False,
) -> dict[str, dict[str, Any]]:
    """Return the total privacy of ``queries`` releases by each account.

    ``slack``: δ′ of the closed form; ``total_delta``: that of the other accounts, by default that of the closed form. A
    ``release`` adds ``profile``, ``bits`` and ``total_privacy``, and ``models`` for voters that were trained once,
    which the other accounts then take as not private.
    """
    queries = whole_number(queries, "queries", "a whole number of releases, at least 1")
    if queries > MAX_RELEASES:
        raise InvalidInput("queries", queries, f"at most {MAX_RELEASES} releases")
    if release is None and fresh:
        raise InvalidInput(
            "fresh", fresh, "no fresh without voters", "(epsilon, delta) of a release is all that counts here."
        )
    delta = total_delta_of(privacy, queries, slack) if total_delta is None else probability(total_delta, "total_delta")
    # Of a release that is known by its (ε, δ) alone these are all; laws, below, allow more accounts.
    answer = {
        "simple": _account_to_dict(lambda: basic_composition(privacy.epsilon, privacy.delta, queries)),
        "general": _account_to_dict(lambda: kov_composition(privacy.epsilon, privacy.delta, queries, slack)),
    }
    if release is None:
        answer["optimal"] = _account_to_dict(
            lambda: optimal_composition(privacy.epsilon, privacy.delta, queries, delta)
        )
        answer["pld"] = _account_to_dict(
            lambda: pld_composition(privacy.epsilon, privacy.delta, queries, delta).privacy
        )
        return answer
    total = total_privacy(release, queries, delta, fresh=fresh)
    names = ["optimal", "pld", "profile", "bits"]
    if release.effective(queries, fresh=fresh) is not release:  # (mε, δ) is no longer what one release costs
        names = ["simple", "general", *names, "models"]
    for name in names:
        refusal = total.refused.get(name)
        answer[name] = _refusal_to_dict(refusal) if refusal is not None else asdict(total.totals[name])
    if total.epsilon_at_least not in (None, math.inf):
        answer["bits"]["epsilon_at_least"] = total.epsilon_at_least
    # The least of those above, named: a reader need not know which of them hold.
    answer["best"] = _account_to_dict(lambda: total.best)
    if answer["best"]["epsilon"] is not None:
        answer["best"]["method"] = total.method
    return answer


def _account_to_dict(account: Callable[[], Privacy]) -> dict[str, Any]:
    try:
        total = account()
    except (DeltaTooSmall, TooMuchWork, BackendUnavailable) as err:
        return _refusal_to_dict(err)
    if total.epsilon == math.inf:
        return {"epsilon": None, "delta": None, "refused": "nothing is promised: the total delta reaches 1"}
    return asdict(total)


def _refusal_to_dict(err: Exception) -> dict[str, Any]:
    return {"epsilon": None, "delta": None, "refused": str(err)}


def compose_releases(argument: dict[str, Any], report: Report) -> dict[str, Any]:
    """Return the total privacy of ``queries`` releases of (``epsilon``, ``delta``), or of ``gamma`` for ``problem``."""
    report(None)
    problem, release = argument["problem"], None
    if problem is not None:
        release = Release.of((argument["gamma"], problem_from_record(problem)))
    privacy = Privacy(argument["epsilon"], argument["delta"])
    return composition_to_dict(
        privacy, argument["queries"], argument["slack"], argument["total_delta"], release, fresh=argument["fresh"]
    )


def composition_answer(argument: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """Return the totals with what they are totals of."""
    return {
        "each": {"epsilon": argument["epsilon"], "delta": argument["delta"]},
        **{name: argument[name] for name in ("queries", "fresh", "problem", "gamma")},
        "accounts": result,
    }
