"""Privacy budget: never overspent, charged atomically and saved atomically."""

from __future__ import annotations

import copy
import json
import math
import os
import pickle
import stat
import threading
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each
from support.forks import forked
from support.refusals import refused

from darrm_opt.accounting.composition.optimal import optimal_composition, optimal_delta, optimal_delta_of_sequence
from darrm_opt.accounting.privacy_budget import PrivacyBudget
from darrm_opt.errors import BudgetExceeded, BudgetUnreadable
from darrm_opt.problem import Privacy
from darrm_opt.rounding import as_written, decimal_above

EVENT = Privacy(0.1, 1e-8)


def test_charges_stop_at_the_optimal_composition() -> None:
    accountant = PrivacyBudget(Privacy(2.0, 1e-5))
    many = accountant.affordable(EVENT)
    assert (
        optimal_composition(0.1, 1e-8, many, 1e-5).epsilon
        <= 2.0
        < optimal_composition(0.1, 1e-8, many + 1, 1e-5).epsilon
    )
    accountant.charge(EVENT, many)
    assert accountant.affordable(EVENT) == 0
    before = (accountant.events, accountant.spent)
    with pytest.raises(
        BudgetExceeded, match=r"charging 1 × Privacy\(epsilon=0\.1.*0 of them still fit\. Nothing was charged"
    ):
        accountant.charge(EVENT)
    assert (accountant.events, accountant.spent) == before
    assert many > PrivacyBudget(Privacy(2.0, 1e-5), accounting="simple").affordable(EVENT) == 20


def test_simple_accounting_sums_the_decimals_as_written() -> None:
    accountant = PrivacyBudget(Privacy(0.3, 3e-6), accounting="simple")
    accountant.charge(Privacy(0.1, 1e-6), 3)
    assert accountant.spent.epsilon == 0.3
    assert accountant.affordable(Privacy(1e-300)) == 0
    with pytest.raises(BudgetExceeded, match="accounting: simple"):
        accountant.charge(Privacy(1e-300))


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0.0, 0.01, 0.1, 0.5, 1.7]), st.sampled_from([0.0, 1e-9, 1e-6, 1e-3]), st.integers(0, 40)
        ),
        max_size=8,
    ),
    st.sampled_from(["best", "simple"]),
)
def test_accepted_charges_are_within_the_budget(charges: list[tuple[float, float, int]], accounting: Any) -> None:
    budget = Privacy(3.0, 1e-5)
    accountant = PrivacyBudget(budget, accounting)
    for epsilon, delta, count in charges:
        before = accountant.events
        try:
            accountant.charge(Privacy(epsilon, delta), count)
        except BudgetExceeded:
            assert accountant.events == before
    assert optimal_delta_of_sequence(accountant.events, budget.epsilon * (1 + 1e-12)) <= budget.delta * (1 + 1e-9)
    assert 0 <= accountant.spent.epsilon <= budget.epsilon
    assert accountant.spent.delta <= budget.delta
    assert accounting == "simple" or len(accountant.events) <= 1


def test_spent_is_rounded_up_to_the_next_decimal() -> None:
    """For sums of decimals that no double represents."""
    for whole in (0.3, 1.0, 5.0, 1e-6, 0.7):
        for part in (Fraction(1, 3), Fraction(1, 7) / 10**6, Fraction(1, 10), Fraction(as_written(whole)), Fraction(0)):
            spent = decimal_above(part)
            assert as_written(math.nextafter(spent, -1.0)) < part <= as_written(spent)


def test_sums_are_charged_up_to_exactly_the_budget() -> None:
    """Not one part in 10⁸ more, in ε or δ, by either accounting; the best accounting never exceeds the sums."""
    for accounting in ("simple", "best"):
        for budget, event in ((Privacy(0.6, 0.0), Privacy(0.2)), (Privacy(0.2, 3e-7), Privacy(0.0, 1e-7))):
            accountant = PrivacyBudget(budget, accounting)
            assert accountant.fits(event, 3)
            assert accountant.affordable(event) == 3
            more = Privacy(event.epsilon * (1 + 1e-8), event.delta * (1 + 1e-8))
            assert accountant.fits(more, 3) is (accounting == "best" and event.epsilon == 0)  # 1 − (1−δ)³ is below 3δ
            accountant.charge(event, 3)
            assert accountant.spent.epsilon == as_float(3 * as_written(event.epsilon))
            assert accountant.spent.delta == budget.delta
            assert accountant.accounting == accounting
    least = PrivacyBudget(Privacy(1.0, 1e-6))
    least.charge(Privacy(0.3, 1e-6))
    assert least.spent == Privacy(0.3, 1e-6)  # it takes all of δ: the sums prove it


def as_float(value: Fraction) -> float:
    return value.numerator / value.denominator


def randomised_responses(epsilon: float, count: int) -> dict[float, float]:
    """Return the law of the privacy loss of this many randomised responses [loss: probability]."""
    keep = 1 / (1 + math.exp(-epsilon))
    return {
        (count - 2 * lies) * epsilon: math.comb(count, lies) * keep ** (count - lies) * (1 - keep) ** lies
        for lies in range(count + 1)
    }


def test_charges_may_depend_on_earlier_answers() -> None:
    budget, first, kinds = Privacy(1.89, 0.00421), Privacy(0.1), {Privacy(1.5): 1, Privacy(0.2): 14}

    def accepted(accounting: Any) -> dict[Privacy, int]:
        """Return the two sets of charges that fit after six answers, of which the adversary chooses one."""
        accountant = PrivacyBudget(budget, accounting)
        accountant.charge(first, 6)
        return {kind: min(accountant.affordable(kind), most) for kind, most in kinds.items()}

    def delta_of(continuations: dict[Privacy, int]) -> float:
        """Return δ at the ε of the budget if the adversary chooses the worse one after each of the first six answers."""
        total = 0.0
        for loss, chance in randomised_responses(first.epsilon, 6).items():
            total += chance * max(
                sum(
                    mass * max(0.0, -math.expm1(budget.epsilon - loss - more))
                    for more, mass in randomised_responses(kind.epsilon, count).items()
                )
                for kind, count in continuations.items()
            )
        return total

    assert delta_of(kinds) > 1.6 * budget.delta  # though each of the two alone composes to less
    for kind, count in kinds.items():
        assert optimal_delta_of_sequence({first: 6, kind: count}, budget.epsilon) <= budget.delta
    for accounting in ("best", "simple"):
        assert delta_of(accepted(accounting)) <= budget.delta
    assert accepted("best") == dict.fromkeys(kinds, 0)
    accountant = PrivacyBudget(budget)
    accountant.charge(first, 6)
    refused = r"charging Privacy\(epsilon=0\.2.*is rejected: .* events of Privacy\(epsilon=0\.1.*accounting = 'simple'"
    with pytest.raises(BudgetExceeded, match=refused):
        accountant.charge(Privacy(0.2))
    assert accountant.events == {first: 6}


@pytest.mark.parametrize("event", [Privacy(0.4), Privacy(0.3, 2e-3)])
def test_spent_holds_at_adaptive_stopping_times(event: Privacy) -> None:
    """The adversary stops at the first leak, or when the loss exceeds the spent ε."""
    budget = Privacy(1.5, 0.02)
    accountant = PrivacyBudget(budget)
    most = accountant.affordable(event)
    spent = []
    for _ in range(most):
        accountant.charge(event)
        spent.append(accountant.spent.epsilon)
    keep = 1 / (1 + math.exp(-event.epsilon))
    excess, going = 0.0, {0.0: 1.0}  # probability of a loss, among those that continue
    for claimed in spent:
        after = dict[float, float]()
        for loss, chance in going.items():
            excess += chance * event.delta
            for step, share in ((event.epsilon, keep), (-event.epsilon, 1 - keep)):
                reached, mass = round(loss + step, 9), chance * (1 - event.delta) * share
                if reached > claimed + 1e-9:
                    excess += mass * -math.expm1(claimed - reached)
                else:
                    after[reached] = after.get(reached, 0.0) + mass
        going = after
    assert 0 < excess <= budget.delta


def test_extremes() -> None:
    accountant = PrivacyBudget(Privacy(1.0, 1e-6))
    assert accountant.spent == Privacy(0.0)
    with pytest.raises(BudgetExceeded, match="0 of them still fit"):
        accountant.charge(Privacy(50.0))
    accountant.charge(Privacy(0.0), 10**6)  # costs nothing and is not recorded
    accountant.charge(Privacy(1e-9), 10**6)
    accountant.charge(Privacy(50.0), 0)
    accountant.charge(Privacy(0.0))
    assert accountant.events == {Privacy(1e-9): 10**6}
    assert optimal_delta(1e-9, 0.0, 10**6, accountant.spent.epsilon) <= 1e-6
    nothing = PrivacyBudget(Privacy(0.0))
    assert nothing.affordable(Privacy(1e-9)) == 0
    assert nothing.affordable(Privacy(0.0)) == 10**9


def test_saving_a_budget_flushes_the_file_and_then_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed, flush = list[bool](), os.fsync

    def recorded(descriptor: int) -> None:
        flushed.append(stat.S_ISDIR(os.fstat(descriptor).st_mode))
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", recorded)
    PrivacyBudget(Privacy(1.0)).save(tmp_path / "accountant.json")
    assert flushed == [False, True]  # the contents, then the directory entry
    assert stat.S_IMODE((tmp_path / "accountant.json").stat().st_mode) == 0o600  # and only its owner may read it


@for_each(
    ("event", "count", "argument"),
    [
        (Privacy(math.inf), 1, "epsilon"),
        (EVENT, -1, "count"),
        (EVENT, 1.0, "count"),
        (EVENT, True, "count"),
        ((0.1, 0.0), 1, "event"),
    ],
)
def test_invalid_charges_are_refused_and_change_nothing(event: Any, count: Any, argument: str) -> None:
    accountant = PrivacyBudget(Privacy(1.0, 1e-6))
    with refused(argument):
        accountant.charge(event, count)
    assert accountant.events == {}


def test_invalid_budgets_are_refused() -> None:
    with refused("budget"):
        PrivacyBudget(Privacy(math.inf))
    with refused("budget", "1.0"):
        PrivacyBudget(1.0)  # type: ignore[arg-type]
    with refused("accounting", "'pld'"):
        PrivacyBudget(Privacy(1.0), "pld")  # type: ignore[arg-type]


def test_threads_cannot_overspend_together() -> None:
    accountant = PrivacyBudget(Privacy(1.0), accounting="simple")
    accepted = []

    def spend() -> None:
        for _ in range(40):
            try:
                accountant.charge(Privacy(0.0625))
            except BudgetExceeded:
                continue
            accepted.append(1)

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(accepted) == 16
    assert accountant.events == {Privacy(0.0625): 16}


def full(tmp_path: Path) -> tuple[PrivacyBudget, Path]:
    accountant = PrivacyBudget(Privacy(2.0, 1e-5), "simple")
    accountant.charge(Privacy(0.1, 1 / 3 * 1e-6), 7)
    accountant.charge(Privacy(0.3))
    path = tmp_path / "accountant.json"
    accountant.save(path)
    return accountant, path


def test_a_budget_round_trips_through_its_file(tmp_path: Path) -> None:
    accountant, path = full(tmp_path)
    again = PrivacyBudget.load(path)
    assert (again.budget, again.accounting, again.events) == (
        accountant.budget,
        accountant.accounting,
        accountant.events,
    )
    assert again.spent == accountant.spent
    again.charge(EVENT)
    again.save(path)
    assert PrivacyBudget.load(path).events[EVENT] == 1
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_save_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    accountant, path = full(tmp_path)
    before = path.read_bytes()

    def no_space(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    accountant.charge(EVENT)
    with pytest.raises(OSError, match="No space left"):
        accountant.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    _, path = full(tmp_path)
    text = path.read_text()
    for length in range(len(text) - 1):
        path.write_text(text[:length])
        with pytest.raises(BudgetUnreadable, match="is damaged"):
            PrivacyBudget.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "format = 2 is not valid"),
        ({"accounting": "best"}, "the events of the budget .* exceed"),
        ({"accounting": "none"}, "is damaged: .*accounting = 'none'"),
        ({"budget": {"epsilon": -1, "delta": 0}}, "is damaged: .*epsilon = -1"),
        ({"budget": {"epsilon": 0.5, "delta": 0}}, "the events of the budget"),
        ({"events": [{"epsilon": 0.1, "delta": 0, "count": -3}]}, "is damaged: .*count = -3"),
        ({"events": [{"epsilon": "0.1", "delta": 0, "count": 3}]}, "is damaged: .*epsilon = '0.1'"),
        ({"events": [{"epsilon": 0.1}]}, "is damaged: KeyError"),
        ({"events": 3}, "is damaged: TypeError"),
    ],
)
def test_altered_files_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    _, path = full(tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(BudgetUnreadable, match=message):
        PrivacyBudget.load(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BudgetUnreadable, match="cannot be read"):
        PrivacyBudget.load(tmp_path / "none.json")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(BudgetUnreadable, match="nested too deeply"):
        PrivacyBudget.load(tmp_path / "deep.json")
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(BudgetUnreadable, match="is damaged: TypeError"):
        PrivacyBudget.load(tmp_path / "list.json")


# ------------------------------------------------------------------------------------------ copies


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_copy_cannot_spend_the_rest_twice(copied: Callable[[PrivacyBudget], Any]) -> None:
    account = PrivacyBudget(Privacy(3.0))
    account.charge(Privacy(1.0))
    with pytest.raises(TypeError, match="a PrivacyBudget cannot be copied or pickled"):
        copied(account)
    assert account.affordable(Privacy(1.0)) == 2


# ------------------------------------------------------------------------------------------ fork


@pytest.mark.parametrize("depth", [1, 2])
def test_a_forked_copy_has_nothing_left(tmp_path: Path, depth: int) -> None:
    accountant = PrivacyBudget(Privacy(1.0, 1e-6))
    accountant.charge(Privacy(0.25), 2)
    maker = os.getpid()

    def refused() -> str:
        assert not accountant.fits(Privacy(0.0), 0)
        assert accountant.affordable(Privacy(0.1)) == 0
        with pytest.raises(BudgetExceeded, match=rf"made in process {maker}; a forked copy has no budget\. Nothing"):
            accountant.charge(Privacy(0.0))
        with pytest.raises(BudgetExceeded, match="Nothing was saved"):
            accountant.save(tmp_path / "copy")
        return repr(accountant.events)

    assert forked(refused, depth) == repr({Privacy(0.25): 2})
    assert not (tmp_path / "copy").exists()
    accountant.charge(Privacy(0.25), 2)  # the original still works
    assert accountant.affordable(Privacy(0.25)) == 0


def test_a_fork_while_another_thread_charges_is_refused_at_once() -> None:
    accountant = PrivacyBudget(Privacy(1.0))
    with accountant._lock:

        def refused() -> str:
            with pytest.raises(BudgetExceeded):
                accountant.charge(Privacy(0.1))  # would wait forever for a lock that no thread of the child holds
            return "refused"

        assert forked(refused) == "refused"


def test_a_child_may_load_and_spend_a_budget(tmp_path: Path) -> None:
    PrivacyBudget(Privacy(1.0)).save(tmp_path / "accountant")

    def charged() -> str:
        accountant = PrivacyBudget.load(tmp_path / "accountant")
        accountant.charge(Privacy(1.0))
        return str(accountant.affordable(Privacy(0.5)))

    assert forked(charged) == "0"
