"""What many releases cost, as plain data: {method: {"epsilon", "delta"}}, a refusal where there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from darrm_opt.accounting.composition.closed_forms import basic_composition, kov_composition
from darrm_opt.accounting.composition.optimal import optimal_composition
from darrm_opt.accounting.errors import DeltaTooSmall, TooMuchWork
from darrm_opt.accounting.pld.composition import pld_composition
from darrm_opt.accounting.release import Release
from darrm_opt.accounting.total import MAX_RELEASES, probability, total_delta_of, total_privacy
from darrm_opt.errors import BackendUnavailable, InvalidInput
from darrm_opt.problem import Privacy, whole_number


def composed(
    each: Privacy,
    queries: int,
    slack: float,
    total_delta: float | None = None,
    release: Release | None = None,
    *,
    fresh: bool = False,
) -> dict[str, dict[str, Any]]:
    """Return the total privacy of ``queries`` releases by each account.

    Args:
        each: (ε, δ) of one release, ε finite.
        queries: Q, 1..`MAX_RELEASES`.
        slack: δ′ of the closed form ``kov_composition`` [probability], in [0, 1).
        total_delta: δ at which every account but ``basic_composition`` and ``kov_composition`` is asked [probability]; None for that of
            ``kov_composition``.
        release: the γ that is released; with it also ``profile``, ``bits`` and ``total_privacy``, and ``models`` for voters that were
            trained once, which the other accounts then take as not private.
        fresh: whether the voters of the release are (`darrm_opt.accounting.FRESH`).

    Raises:
        InvalidInput: a number is outside its range.
    """
    queries = whole_number(queries, "queries", "a whole number of releases, at least 1")
    if queries > MAX_RELEASES:
        raise InvalidInput("queries", queries, f"at most {MAX_RELEASES} releases")
    if release is None and fresh:
        raise InvalidInput(
            "fresh", fresh, "no fresh without voters", "(epsilon, delta) of a release is all that counts here."
        )
    wanted = total_delta_of(each, queries, slack) if total_delta is None else probability(total_delta, "total_delta")
    answer = {
        "simple": _told(lambda: basic_composition(each.epsilon, each.delta, queries)),
        "general": _told(lambda: kov_composition(each.epsilon, each.delta, queries, slack)),
    }
    if release is None:
        answer["optimal"] = _told(lambda: optimal_composition(each.epsilon, each.delta, queries, wanted))
        answer["pld"] = _told(lambda: pld_composition(each.epsilon, each.delta, queries, wanted).privacy)
        return answer
    total = total_privacy(release, queries, wanted, fresh=fresh)
    names = ["optimal", "pld", "profile", "bits"]
    if release.effective(queries, fresh=fresh) is not release:  # (mε, δ) is no longer what one release costs
        names = ["simple", "general", *names, "models"]
    for name in names:
        refusal = total.refused.get(name)
        answer[name] = _refused(refusal) if refusal is not None else _plain(total.totals[name])
    if total.epsilon_at_least not in (None, float("inf")):
        answer["bits"]["epsilon_at_least"] = total.epsilon_at_least
    answer["best"] = _told(lambda: total.best)
    if answer["best"]["epsilon"] is not None:
        answer["best"]["method"] = total.method
    return answer


def _told(account: Callable[[], Privacy]) -> dict[str, Any]:
    try:
        total = account()
    except (DeltaTooSmall, TooMuchWork, BackendUnavailable) as err:
        return _refused(err)
    if total.epsilon == float("inf"):
        return {"epsilon": None, "delta": None, "refused": "nothing is promised: the total delta reaches 1"}
    return _plain(total)


def _plain(total: Privacy) -> dict[str, Any]:
    return {"epsilon": total.epsilon, "delta": total.delta}


def _refused(err: Exception) -> dict[str, Any]:
    return {"epsilon": None, "delta": None, "refused": str(err)}
