"""Privacy budget in memory: charges events against a total (ε, δ) and rejects a charge that would exceed it.

An event is accepted if one of the accountants proves that all events together, this one included, are within the
budget:

* ``best`` (the default): the least of basic composition and the exact optimal composition, for events of one kind.
Their
  number, and each query, may depend on all earlier answers; an event of another kind is rejected, since with these
  accounts a kind that is chosen after the answers can overspend.
* ``simple``: basic composition only, Σε ≤ ε and Σδ ≤ δ. It holds for events of any kinds, however they are chosen (it
is a
  privacy filter).

Releases of several kinds that are fixed beforehand may cost less than their sums: see `total_privacy_of_sequence`.
Source: `docs/proofs.md`, "A budget that is charged in view of the answers".

An event is the cost of one release *given the earlier ones*: releases of voters trained once have no such (mε, δ)
(`freshness`). This class cannot check that; `darrm_opt.release.PrivateVote` does.

Sums are of the numbers as written: three events of 0.1 fit in 0.3, though as doubles they are 2e-17 above. The error is
at most half a unit in the last place of each number; a release designed by this package is proved with a larger margin.
"""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from pathlib import Path
from typing import Any, Literal, NoReturn, SupportsIndex

from darrm_opt.accounting.accounts import DECIDED, NAMES
from darrm_opt.accounting.bounds import is_within
from darrm_opt.accounting.composition import sums_as_written
from darrm_opt.accounting.composition.optimal import checked_mechanisms
from darrm_opt.accounting.guarantee import ReleaseGuarantee
from darrm_opt.accounting.total import checked_budget, total_of
from darrm_opt.arguments import whole_number
from darrm_opt.durable_file import replacing
from darrm_opt.errors import BudgetExceeded, BudgetUnreadable, InvalidInput
from darrm_opt.problem import Privacy
from darrm_opt.process import process_identity
from darrm_opt.rounding import decimal_above
from darrm_opt.search import largest_count
from darrm_opt.untrusted import UNREADABLE, check_written, json_value

Accounting = Literal["best", "simple"]

FORMAT = 1  # version of the saved form
MAX_EVENTS = 10**9  # largest result of `PrivacyBudget.affordable`

_COUNT = "a whole number of events, at least 0"


class PrivacyBudget:
    """A privacy budget and the events charged to it; the only mutable object of the accounting.

    Args:
        budget: total (ε, δ) that all events together may cost; ε finite.
        accounting: "best" or "simple", see the module.

    Guarantees:
        All accepted events together cost at most the budget, even if charges depend on the answers. A rejected charge
        changes nothing. Charges from several threads are serialised. A forked copy has an empty budget: only the
        process that made or loaded a budget can charge it. `copy` and `pickle` raise TypeError.

    Raises:
        InvalidInput: the budget or the accounting is invalid.

    >>> account = PrivacyBudget(Privacy(1.0, 1e-6))
    >>> account.charge(Privacy(0.3), 3)
    >>> round(account.spent.epsilon, 3), account.affordable(Privacy(0.3))
    (0.9, 0)
    """

    def __init__(self, budget: Privacy, accounting: Accounting = "best") -> None:
        if accounting not in ("best", "simple"):
            raise InvalidInput("accounting", accounting, "'best' or 'simple'")
        self._budget = checked_budget(budget)
        self._accounting: Accounting = accounting
        self._events: Counter[Privacy] = Counter()
        self._lock = threading.Lock()
        self._process = process_identity()

    @property
    def budget(self) -> Privacy:
        """Limit of the cost of all events together."""
        return self._budget

    @property
    def accounting(self) -> Accounting:
        """The accountants that prove the total."""
        return self._accounting

    @property
    def events(self) -> dict[Privacy, int]:
        """The number of charges of each event; a copy."""
        return dict(self._events)

    @property
    def spent(self) -> Privacy:
        """Cost of the events so far: Σε, or the budget's ε if that is less, at the budget's δ; (0, 0) before the first.

        It holds whenever it is read, even if the answers decide when. For a number of events fixed beforehand,
        `optimal_composition` may prove less.
        """
        if not self._events:
            return Privacy(0.0)
        return Privacy(min(decimal_above(sums_as_written(self._events)[0]), self._budget.epsilon), self._budget.delta)

    def fits(self, event: Privacy, count: int = 1) -> bool:
        """Return whether ``count`` releases like ``event`` could be charged now.

        Raises:
            InvalidInput: the event or the count is invalid.
        """
        return not self._is_forked and _fits_budget(self._events_with(event, count), self._budget, self._accounting)

    def charge(self, event: Privacy, count: int = 1) -> None:
        """Charge ``count`` events, or raise an error and change nothing; always before the answer is released.

        Args:
            event: (ε, δ) of one release.
            count: number of such releases, ≥ 0.

        Raises:
            BudgetExceeded: they would overspend the budget (the message states how many would fit), or this is a forked
                copy.
            InvalidInput: the event or the count is invalid.
        """
        self._refuse_fork("Nothing was charged.")
        # Check and charge under one lock: two threads that fit separately may not fit together.
        with self._lock:
            events = self._events_with(event, count)
            if not _fits_budget(events, self._budget, self._accounting):
                if self._accounting == "best" and len(events) > 1:
                    raise BudgetExceeded(
                        f"charging {event} is rejected: this budget has events of {next(iter(self._events))}, and "
                        "proves totals of one kind of event only, as another kind may have been chosen after the "
                        "answers. Nothing was charged. Make the budget with accounting = 'simple', which adds up "
                        "events of any kinds."
                    )
                raise BudgetExceeded(
                    f"charging {count} × {event} would overspend the budget {self._budget} (accounting: "
                    f"{self._accounting}); {self.affordable(event)} of them still fit. Nothing was charged."
                )
            self._events = events

    def affordable(self, event: Privacy) -> int:
        """Return the number of such events that can still be charged, at most `MAX_EVENTS`.

        Raises:
            InvalidInput: the event is invalid.
        """
        return largest_count(lambda count: self.fits(event, count), MAX_EVENTS)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the budget as JSON, atomically: to a temporary file, flushed to disk, then renamed.

        Args:
            path: file to write; a reader sees the old budget or the new one, never a part.

        Raises:
            BudgetExceeded: this is a forked copy, which does not know the charges to its original.
        """
        self._refuse_fork("Nothing was saved.")
        target = Path(path)
        record = {
            "format": FORMAT,
            "accounting": self._accounting,
            "budget": _to_record(self._budget),
            "events": [{**_to_record(event), "count": count} for event, count in self._events.items()],
        }
        with replacing(target, 0o600) as draft, draft.open("w", encoding="utf-8") as file:
            json.dump(record, file, indent=1, allow_nan=False)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PrivacyBudget:
        """Return the budget that `save` wrote.

        Raises:
            BudgetUnreadable: no such file, damaged, another format, or events that overspend its own budget.
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as err:
            raise BudgetUnreadable(f"the budget {path} cannot be read: {err}") from err
        try:
            record = json_value(text)
            check_written({"format": record["format"]}, {"format": FORMAT})
            # Charged again one by one: a file that overspends its own budget is rejected.
            account = cls(_from_record(record["budget"]), record["accounting"])
            for event in record["events"]:
                account._events = account._events_with(
                    _from_record(event), whole_number(event["count"], "count", _COUNT)
                )
        except UNREADABLE as err:
            raise BudgetUnreadable(f"the budget {path} is damaged: {err!r}") from err
        if not account.fits(Privacy(0.0), 0):
            raise BudgetUnreadable(f"the events of the budget {path} exceed {account.budget}; nothing was loaded.")
        return account

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(
            "a PrivacyBudget cannot be copied or pickled: the copy could spend the same budget again. "
            "Use one object everywhere, or a budget on a file: ReleaseLog."
        )

    @property
    def _is_forked(self) -> bool:
        return self._process != process_identity()

    def _refuse_fork(self, outcome: str) -> None:
        if self._is_forked:
            raise BudgetExceeded(
                f"this budget was made in process {self._process[0]}; a forked copy has no budget. {outcome} "
                "Charge in one process, or use a budget on a file: ReleaseLog."
            )

    def _events_with(self, event: Privacy, count: int) -> Counter[Privacy]:
        if not isinstance(event, Privacy):
            raise InvalidInput("event", event, "a Privacy(epsilon, delta)")
        checked_mechanisms(event.epsilon, event.delta, 1)
        events = self._events.copy()
        if whole_number(count, "count", _COUNT, least=0) and event != Privacy(0.0):  # a free event has no kind
            events[event] += count
        return events


def _fits_budget(events: Counter[Privacy], budget: Privacy, accounting: Accounting) -> bool:
    if accounting == "best" and len(events) > 1:
        return False
    parts = [(ReleaseGuarantee(privacy=event), count) for event, count in events.items()]
    effort = DECIDED._replace(only_within=budget.epsilon)
    proofs = {"simple"} if accounting == "simple" else {"simple", "optimal"}
    total = total_of(parts, budget.delta, effort=effort, skip=NAMES - proofs, enough=budget.epsilon)
    return is_within(total.epsilon, budget.epsilon)


def _to_record(privacy: Privacy) -> dict[str, Any]:
    return {"epsilon": privacy.epsilon, "delta": privacy.delta}


def _from_record(record: dict[str, Any]) -> Privacy:
    return Privacy(record["epsilon"], record["delta"])
