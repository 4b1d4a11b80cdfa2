"""Parts of the accounts of samples: each by its formula in forty digits, with the charge for rounding."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.cases import for_each

from darrm_opt.accounting import allocation, sampled
from darrm_opt.accounting.guarantee import LawTriples, ReleaseGuarantee
from darrm_opt.accounting.law_pairs import LawPairs
from darrm_opt.accounting.sampling import Sampling, amplify_by_subsampling
from darrm_opt.errors import DeltaTooSmall
from darrm_opt.noise import Array
from darrm_opt.problem import Privacy
from darrm_opt.rounding import ULP, up


@pytest.fixture(autouse=True)
def forty_digits() -> Iterator[None]:
    with localcontext(prec=40):
        yield


def decimals(values: Any) -> list[Decimal]:
    return [Decimal(float(each)) for each in np.ravel(values)]


def charged(found: float, exact: Decimal, charge: float, room: float = 0.05) -> None:
    """Check that a number exceeds the exact one by about the charge."""
    assert abs(Decimal(found) - exact - Decimal(charge)) <= Decimal(room * charge), (found, exact, charge)


# ------------------------------------------------------------------------------------------- one sampled release


@for_each("replace", [True, False])
@for_each("rate", [0.02, 0.9])
@for_each("step", [1e-3, 0.5])
def test_divergences_of_a_sample_are_the_sums_of_the_paper(replace: bool, rate: float, step: float) -> None:
    known = step * sampled.WHOLE_ORDERS
    orders, found = sampled.sampled_divergences(known, rate, replace=replace)
    q, growth = Decimal(rate), [Decimal(0)] * 2 + [((k - 1) * Decimal(step) * k).exp() for k in range(2, 41)]
    for place, order in enumerate(orders[orders <= 40]):
        a = int(order)
        if replace:
            terms = [Decimal(2) * math.comb(a, k) * q**k * growth[k] for k in range(2, a + 1)]
            terms[0] = min(terms[0], 4 * math.comb(a, 2) * q**2 * (growth[2] - 1))
            total = sum(terms, Decimal(0))
        else:
            removed = sum(
                (math.comb(a, k) * q**k * (1 - q) ** (a - k) * (growth[k] - 1) for k in range(2, a + 1)), Decimal(0)
            )
            total = max(removed, a * (a - 1) / Decimal(2) * q**2 * (1 - q) ** -(a + 1) * (growth[2] - 1))
        exact = (1 + total).ln() / (a - 1)
        charged(found[place], exact, float(exact) * sampled.WHOLE_ERROR)
    known[3:] = np.inf  # at orders 5 and more
    found = sampled.sampled_divergences(known, rate, replace=replace)[1]
    assert np.isfinite(found).tolist() == (orders < 5).tolist()


def test_moments_are_the_largest_of_the_pairs_plus_their_charge() -> None:
    p, q = np.array([[0.5, 0.25, 0.25], [0.125, 0.875, 0.0]]), np.array([[0.25, 0.25, 0.5], [0.5, 0.25, 0.25]])
    logs = [np.log(np.maximum(each, 1e-300)) for each in (p, q)]
    logs[0][p == 0] = -np.inf
    orders = np.array([1.5, 2.0, 7.0])
    size = 1 + float(np.max(np.abs(np.log(p[p > 0]))))
    for order, found in zip(orders.tolist(), sampled.log_moments(logs[0], logs[1], orders), strict=True):
        a = Decimal(order)
        rows = [
            sum((x**a * y ** (1 - a) for x, y in zip(decimals(on_data), decimals(other), strict=True) if x), Decimal(0))
            for on_data, other in zip(p, q, strict=True)
        ]
        charged(found, max(rows).ln(), 16 * ULP * (order * size + 3))
    assert sampled.log_moments(logs[0], np.where(p > 0.2, -np.inf, logs[1]), orders).tolist() == [math.inf] * 3
    assert np.all(sampled.log_moments(np.full((2, 2), -np.inf), np.zeros((2, 2)), orders) < -1e300)


def stub(p: Any, q: Any) -> Any:
    """Return pairs of laws that have only the given bounds."""
    return SimpleNamespace(bounds=(np.array(p), np.array(q)), on_data=np.array(p))


def test_answers_up_to_a_probability_are_omitted() -> None:
    log_p, log_q = sampled.logarithms(stub([[0.5, 0.25, 0.25]], [[0.25, 0.0, 0.75]]), 0.25)
    assert log_p.tolist() == [[math.log(0.5), -math.inf, -math.inf]]
    assert log_q.tolist() == [[math.log(0.25), 0.0, 0.0]]
    two, three = stub([[0.5, 0.5]], [[0.5, 0.5]]), stub([[0.5, 0.25, 0.25]], [[0.5, 0.25, 0.25]])
    for order in ([two, three], [three, two]):
        assert sampled._rare(order, 7, 1e-5) == sampled.SLACK_SHARE * 1e-5 / 21


def test_knots_reach_from_the_least_loss_to_the_largest() -> None:
    one = stub([[0.5, 0.25, 0.2, 0.05]], [[0.2, 0.25, 0.5, 0.0]])
    for rare, least in ((0.0, math.log(0.4)), (0.2, -2 * sampled.MIN_LOSS)):
        knots = sampled._knots([one, stub([[1.0]], [[1.0]])], rare)
        assert np.all(np.diff(knots) > 0)
        assert knots.size == 2 * sampled.KNOTS + 1
        assert knots[sampled.KNOTS - 1 : sampled.KNOTS + 2].tolist() == [-sampled.MIN_LOSS, 0.0, sampled.MIN_LOSS]
        assert knots[[0, -1]].tolist() == pytest.approx([least, math.log(2.5) + 1e-9], rel=1e-13)
    far = [stub([[0.5, 1e-40]], [[1e-40, 0.5]]), one]
    for order in (far, far[::-1]):
        assert sampled._knots(order, 0.0)[[0, -1]].tolist() == pytest.approx([-60.0, 60.0], rel=1e-14)


def test_the_largest_loss_leaves_little_mass_on_either_side(monkeypatch: pytest.MonkeyPatch) -> None:
    knots, none_below = np.array([-2.0, -1.0, 0.0, 1.0, 2.0]), -np.expm1(np.array([-2.0, -1.0]))
    deltas = np.array([*none_below, 0.5, 0.25, 0.125])
    largest = sampled._largest_loss
    assert largest(knots, deltas, 2, 0.25) == 1.0  # 2·(0.25 − 0.125) is within it
    assert largest(knots, deltas, 2, 0.249) == 2.0
    assert largest(knots, deltas, 2, 9.0) == 1.0  # all losses are at least −1
    assert largest(knots, deltas + np.array([0.0, 0.1, 0, 0, 0]), 2, 0.25) == 2.0
    assert largest(knots, deltas + np.array([0.1, 0.1, 0, 0, 0]), 2, 0.25) == 2.0  # up to the end
    below = np.array([0.0, 0.25 * sampled.RARE_BELOW, 0, 0, 0])
    assert [largest(knots, deltas + below, queries, 9.0) for queries in (3, 5)] == [1.0, 2.0]
    assert largest(knots * 1e-7, np.zeros(5), 2, 0.25) == 1e-6
    assert (
        largest(knots, np.array([*none_below, 0.0, 0.0, 0.0]), 2, 9.0) == 1.0
    )  # of losses on either side, excluding 0
    monkeypatch.setattr(sampled, "RARE_BELOW", 0.25)
    assert largest(np.log([0.25, 0.5, 1, 2, 4]), np.array([0.75, 0.625, 0.5, 0.25, 0.125]), 2, 9.0) == math.log(2)


def test_truncated_and_omitted_masses_are_subtracted_from_delta(monkeypatch: pytest.MonkeyPatch) -> None:
    delta = 1e-5
    most = sampled.SLACK_SHARE * delta
    assert sampled.charged_noise(1.5, 0.0, delta) == Privacy(1.5, delta)
    assert (
        Fraction(1.5) + 2 * Fraction(most / 2) <= Fraction(sampled.charged_noise(1.5, most / 2, delta).epsilon) < 1.51
    )
    with pytest.raises(DeltaTooSmall):
        sampled.charged_noise(1.5, most, delta)
    assert sampled.cut_of(delta, 4) == most / 8
    asked = list[float]()

    def account(direction: Any, queries: int, left: float) -> float:
        asked.append(left)
        return float(direction[0]) * queries

    directions: Any = [[2.0], [3.0], [1.0]]
    assert sampled._worst(account, directions, 0.0, 4, delta) == Privacy(12.0, delta)
    assert sampled._worst(account, directions, most / 40, 4, delta).epsilon > 12.0
    assert {*asked} == {delta * (1 - sampled.SLACK_SHARE)}

    def best(_: Array, left: float, orders: Array) -> tuple[float, float]:
        asked.append(left)
        return 1.0, float(orders[0])

    def composed(*of: Any) -> float:
        asked.append(of[-1])
        return 1.0

    monkeypatch.setattr(sampled, "composed_epsilon", composed)
    monkeypatch.setattr(sampled, "largest_deltas", lambda _, knots, __: np.linspace(1, 0, knots.size))
    monkeypatch.setattr(sampled, "rdp_epsilon", best)
    one = stub([[0.5, 0.5]], [[0.25, 0.75]])
    for each in (sampled.convolved_epsilon, sampled.renyi_sums):
        asked.clear()
        each([one], 3, delta)
        rare = 3 * 2 * Fraction(sampled._rare([one], 3, delta))
        assert asked
        assert all(Fraction(0.99 * delta) < Fraction(left) <= Fraction(delta) - rare for left in asked)


def test_divergences_are_sums_of_the_largest_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    """In two rounds: at the first orders, then between the neighbours of the best one."""
    given = list[tuple[list[float], Array]]()

    def best(divergences: Array, _: float, orders: Array) -> tuple[float, float]:
        given.append((divergences.tolist(), orders))
        return 2.0 - len(given) / 4, float(orders[5])

    monkeypatch.setattr(sampled, "rdp_epsilon", best)
    monkeypatch.setattr(sampled, "log_moments", lambda log_p, _, orders: log_p[0, 0] * (orders - 1.5))
    laws = [stub([[p, 1 - p]], [[0.5, 0.5]]) for p in (math.exp(-1), math.exp(-2), math.exp(-3))]
    assert sampled.renyi_sums(laws, 7, 1e-5) == 1.5
    first, second = (orders for _, orders in given)
    assert first is sampled.FIRST_ORDERS or first.tolist() == sampled.FIRST_ORDERS.tolist()
    assert second.size == sampled.NEXT_ORDERS
    assert first[4] < second[0] < second[-1] < first[6]
    assert second[0] - 1 == pytest.approx((first[4] - 1) * ((first[6] - 1) / (first[4] - 1)) ** 0.1, rel=1e-12)
    for divergences, orders in given:
        for order, found in zip(orders.tolist(), divergences, strict=True):
            exact = 7 * 3 * max(Decimal(0), Decimal("1.5") - Decimal(order)) / (Decimal(order) - 1)
            if exact:
                charged(found, exact, float(exact) * 16 * ULP * (1 + order / (order - 1)), room=0.3)
            else:
                assert found == 0
    monkeypatch.setattr(sampled, "log_moments", lambda _, __, orders: np.where(orders < 9, orders, np.inf))
    given.clear()
    sampled.renyi_sums(laws, 7, 1e-5)
    assert np.all(given[0][1] < 9)
    monkeypatch.setattr(sampled, "log_moments", lambda _, __, orders: np.full(orders.size, np.inf))
    with pytest.raises(DeltaTooSmall):
        sampled.renyi_sums(laws, 7, 1e-5)


UNIT = 2.0**-20


def seen(monkeypatch: pytest.MonkeyPatch, **found: Any) -> dict[str, tuple[Any, ...]]:
    """Replace functions of the module by constants; keep the arguments of their last call."""
    asked: dict[str, tuple[Any, ...]] = {}

    def stand_in(name: str) -> Any:
        def function(*of: Any, **options: Any) -> Any:
            asked[name] = (*of, *options.values())
            return found[name]

        return function

    for name in found:
        monkeypatch.setattr(sampled, name, stand_in(name))
    monkeypatch.setattr(sampled, "ULP", UNIT)
    return asked


def accounts_of(queries: int, delta: float, **known: Any) -> tuple[list[Privacy | None], dict[str, Any]]:
    """Return the events and accounts of a record that is in half of all samples."""
    event: Privacy | None = known.get("event")
    release = None if event is None else ReleaseGuarantee(event)
    events, accounts = sampled.sampled_accounts(
        lambda _: release,
        lambda _: known.get("families"),
        lambda _: float(known.get("pure", math.inf)),
        lambda _: None,
        Sampling(10, 5, labels=known.get("labels", 1)),
        *(3, 1, queries, delta),
    )
    return [guarantee.event() for guarantee, _ in events], accounts


def test_the_accounts_are_those_of_the_known_guarantees(monkeypatch: pytest.MonkeyPatch) -> None:
    def triples(missing: float = 0.0, *, tight: bool = True) -> LawTriples:
        return LawTriples(np.array([[0.5, 0.5]]), np.array([[0.25, 0.75]]), missing=missing, is_tight=tight)

    largest = max(laws.max_loss for laws in triples().pairs(0.5))
    assert accounts_of(1, 0.0) == ([], {})  # not even by an infinite loss
    assert accounts_of(1, 0.0, pure=1.0)[0] == [amplify_by_subsampling(Privacy(1.0), 0.5)]
    for event in (Privacy(3.0), Privacy(0.01, 1e-3)):  # a pure loss is better
        assert accounts_of(1, 0.1, event=event, families=[triples()])[0] == [Privacy(largest)]
    assert accounts_of(1, 0.1, event=Privacy(0.01), families=[triples()])[0][0] != Privacy(largest)
    for queries, names in ((1, {"laws"}), (2, {"laws", "renyi", "pld"})):
        _, accounts = accounts_of(queries, 0.1, families=[triples(0.25), triples(0.5), triples(0.125)])
        assert accounts.keys() == names
        assert accounts["laws"].args[2:] == (0.5, queries, 0.1)
        _, accounts = accounts_of(queries, 0.1, families=[triples(), triples(tight=False)])
        assert accounts.keys() == names | {"renyi"}
        assert len(accounts["renyi"].args[0]) == queries
    certain = LawTriples(np.array([[1.0, 0.0]]), np.array([[0.5, 0.5]]))
    assert accounts_of(1, 0.1, families=[triples(), certain])[0] == []  # it also has an infinite loss
    assert accounts_of(2, 0.1)[1].keys() == {"renyi", "pld"}
    assert accounts_of(9, 0.1, labels=4)[1]["pld"].args[3:] == (3, 0.1)
    smaller, larger = Privacy(1.0, 0.1), Privacy(2.0, 0.1)
    assert sampled._least([lambda: larger, lambda: smaller]) == smaller
    for neighbours in ("replace-one", "add-remove"):
        sums = np.array([2.0, 3.0, 4.0]), np.array([0.5, 0.25, math.inf])
        asked = seen(monkeypatch, sampled_divergences=sums, rdp_epsilon=(1.0, 2))
        scheme: Any = "without-replacement" if neighbours == "replace-one" else "poisson"
        sampling = Sampling(10, 5, scheme=scheme)
        assert sampled._renyi_of_divergences(np.ones_like, sampling, 4, 0.1) == Privacy(1.0, 0.1)
        assert asked["sampled_divergences"][1:] == (0.5, neighbours == "replace-one")
        assert asked["rdp_epsilon"][0].tolist() == [4 * 0.5 * (1 + 4 * UNIT), 4 * 0.25 * (1 + 4 * UNIT)]
        sums[1][:] = math.inf
        with pytest.raises(DeltaTooSmall, match="overflow"):
            sampled._renyi_of_divergences(np.ones_like, sampling, 4, 0.1)


def test_divergences_and_distributions_of_pairs_are_charged_for_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    laws = [stub([[p]], [[1.0]]) for p in (0.5, 0.25, 0.125)]
    assert (
        sampled.renyi_of_pairs([*laws, stub([[0.5, 0.5]], [[1.0, 0.0]])], np.array([1.5, 3.0])).tolist()
        == [math.inf] * 2
    )
    moments = {math.log(p): value for p, value in ((0.5, [1.0, -3]), (0.25, [4.0, -2]), (0.125, [2.0, -9]))}
    monkeypatch.setattr(sampled, "log_moments", lambda log_p, *_: np.array(moments[float(log_p[0, 0])]))
    monkeypatch.setattr(sampled, "ULP", UNIT)
    found = sampled.renyi_of_pairs(laws, np.array([1.5, 3.0]))
    assert found.tolist() == pytest.approx([4 / 0.5 * (1 + 16 * UNIT * 3), 0.0], rel=1e-14)
    knots, deltas = np.array([-1.0, 0.0, 1.0]), np.array([0.75, 0.5, 0.25])
    profile = sampled._chords(knots, deltas)
    assert profile(np.array([0.0, 1.0])).tolist() == pytest.approx([0.5 * (1 + 16 * UNIT), 0.25 * (1 + 16 * UNIT)])
    assert profile(np.array([math.log((1 + math.e) / 2)]))[0] == pytest.approx(0.375 * (1 + 16 * UNIT), rel=1e-14)
    before = (1 - 0.25 * math.exp(-1)) * (1 + 16 * UNIT)  # between δ = 1 at slope 0 and the first point
    assert profile(np.array([-2.0]))[0] == pytest.approx(before, rel=1e-14)
    composed: Any = SimpleNamespace(repeated=lambda queries: ("composed", queries))
    for missing in (0.0, 0.125):
        asked = seen(
            monkeypatch,
            _knots=knots,
            largest_deltas=deltas,
            _largest_loss=7.0,
            pld_from_profile=composed,
            _chords="chords",
        )
        pld: Any = sampled.direction_pld(laws, missing, 5, 0.5)
        assert pld == ("composed", 5)
        asked_at = asked["largest_deltas"][1].tolist()
        assert asked_at == [
            math.nextafter(knot - 2 * missing, -math.inf) if missing else knot for knot in knots.tolist()
        ]
        assert asked["pld_from_profile"] == ("chords", 0.5, 7.0)
        assert asked["_chords"][1].tolist() == [min(1.0, (each + missing) * (1 + 4 * UNIT)) for each in deltas.tolist()]


@for_each(
    ("queries", "largest", "steps", "share", "step"),
    [
        (4, 2.0, 999, (), 0.3 * 0.2 / 2),
        (400, 2.0, 999, (), 0.3 / 2),
        (400, 2.0, 999, (0.1,), 0.1 / 2),
        (400, 0.55, 999, (), 0.55 / 4),
        (4, 2.0, 20, (), 0.1),
    ],
)
def test_the_spacing_of_a_grid_follows_the_spread_of_losses(
    queries: int, largest: float, steps: int, share: tuple[float, ...], step: float
) -> None:
    """Two losses of ±½, Pr[½] = 1/(1 + e^−½), whose spread is ½."""
    composed: Any = SimpleNamespace(repeated=lambda _: SimpleNamespace(epsilon=lambda delta: delta))
    truth = 1 / (1 + math.exp(-0.5))

    def profile(epsilons: Array) -> Array:
        grown = np.exp(epsilons)
        return np.asarray(np.maximum(truth - grown * (1 - truth), 0) + np.maximum(1 - truth - grown * truth, 0))

    with pytest.MonkeyPatch.context() as patch:
        asked = seen(patch, _largest_loss=largest, pld_from_profile=composed)
        patch.setattr(sampled, "MAX_STEPS", steps)
        assert sampled.composed_epsilon(profile, np.zeros(1), np.zeros(1), queries, 1e-5, *share) == 1e-5
    assert asked["pld_from_profile"][1] == pytest.approx(step, rel=5e-3)


def test_points_of_a_sample_are_those_of_their_hull(monkeypatch: pytest.MonkeyPatch, move: Callable[..., None]) -> None:
    asked = seen(monkeypatch, _of_both_directions=Privacy(9.0, 0.1))
    move(sampled, RARE_SHARE=1 / 16, POINTS=2)
    deltas: list[float] = []

    def together(delta: float) -> float:
        deltas.append(delta)
        return {0: math.inf, 1: 1.0}[len(deltas) - 1]

    found = sampled._convolution_of_points(together, Privacy(0.0, 0.25), 0.5, 4, 0.25)
    assert found == Privacy(9.0, 0.1)
    assert deltas == pytest.approx([0.25 / 16 / 4 / 0.5 * (1 - 64 * UNIT), 0.5], rel=1e-14)
    knots, values, *others = asked["_of_both_directions"]
    assert others == [4, 0.25, (0.3, 0.15)]
    whole, known = (amplify_by_subsampling(Privacy(*each), 0.5) for each in ((0.0, 0.25), (1.0, 0.5)))
    assert knots.tolist() == [0.0, known.epsilon]
    assert whole.delta < values[0] == values[1] < whole.delta * (1 + 1e-14)
    deltas.clear()
    monkeypatch.setattr(sampled, "MAX_EXPONENT", 1.0)
    sampled._convolution_of_points(together, None, 0.5, 4, 0.25)  # the largest one used
    assert asked["_of_both_directions"][0].tolist() == [0.0, amplify_by_subsampling(Privacy(1.0), 0.5).epsilon]


def test_both_directions_are_mirror_images(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = seen(monkeypatch, composed_epsilon=1.5)
    knots, deltas = np.array([0.0, 0.5, 2.0]), np.array([0.5, 0.25, 0.125])
    assert sampled._of_both_directions(knots, deltas, 7, 0.25) == Privacy(1.5, 0.25)
    profile, all_knots, values, *others = asked["composed_epsilon"]
    assert others == [7, 0.25, 0.3]
    assert all_knots.tolist() == [-2.0, -0.5, 0.0, 0.5, 2.0]
    assert values.tolist() == profile(all_knots).tolist()
    mirrored = [1 - math.exp(-x) + math.exp(-x) * delta for x, delta in zip((2.0, 0.5), (0.125, 0.25), strict=True)]
    assert values.tolist() == pytest.approx([*mirrored, 0.5, 0.25, 0.125], rel=1e-4)
    monkeypatch.setattr(sampled, "composed_epsilon", lambda *given: {2.0: 3.0, 1.0: 1.25, 0.5: math.nan}[given[-1]])
    assert sampled._of_both_directions(knots, deltas, 7, 0.25, (2.0, 1.0, 0.5)) == Privacy(1.25, 0.25)


def test_if_each_voter_draws_the_number_with_the_record_is_a_mixture(monkeypatch: pytest.MonkeyPatch) -> None:
    """0 to 3 voters, each moving one vote: by laws, by (ε, δ), and as certain disclosure for the rarest."""
    chances, releases, delta = (0.5, 0.25, 0.1875, 0.0625), 2, 0.25
    asked = seen(monkeypatch, _of_both_directions=Privacy(9.0, 0.1))
    binomial: Any = SimpleNamespace(binomial=lambda *_: SimpleNamespace(chances=chances))
    monkeypatch.setattr(sampled, "AffectedDistribution", binomial)
    monkeypatch.setattr(sampled, "KNOTS", 4)
    laws = LawPairs(np.array([[0.5, 0.5]]), np.array([[0.25, 0.75]]))

    def bounds(moved: int) -> ReleaseGuarantee | None:
        return [None, ReleaseGuarantee(laws=lambda: laws), ReleaseGuarantee(Privacy(1.0)), None][moved]

    each = Sampling(10, 5, scheme="each-voter")
    events, accounts = sampled._each_voter(bounds, each, 3, 1, releases, delta)
    assert not events
    assert accounts.keys() == {"pld"}
    assert sampled._each_voter(bounds, each, 3, 1, releases, 0.0)[1] == {}
    monkeypatch.setattr(sampled, "RARE_SHARE", 0.5)  # of δ, for three voters in two releases
    assert accounts["pld"]() == Privacy(9.0, 0.1)
    knots, values, *others = asked["_of_both_directions"]
    losses = np.concatenate([[0.0], np.geomspace(sampled.MIN_LOSS, sampled.MAX_LOSS, 4)])
    assert others == [releases, delta]
    assert knots.tolist() == [amplify_by_subsampling(Privacy(loss), up(0.875, 8)).epsilon for loss in losses]
    one, two = laws(losses), np.maximum(0, (math.e - np.exp(losses)) / (math.e + 1))
    exact = (0.25 * one + 0.1875 * two + 0.0625) * (1 + 8 * UNIT * 3)
    np.testing.assert_allclose(values, exact, rtol=1e-6)
    monkeypatch.setattr(sampled, "RARE_SHARE", 0.49)
    with pytest.raises(DeltaTooSmall):
        accounts["pld"]()


# ------------------------------------------------------------------------------------------- random allocation


def test_the_largest_number_of_releases_with_a_record() -> None:
    among_5 = Sampling(9, scheme="random-allocation", among=5, times=2)
    assert [allocation.in_most(among_5, releases) for releases in range(12)] == [0, 1, 2, 2, 2, 2, 3, 4, 4, 4, 4, 5]


def test_products_of_series_of_logarithms_are_convolutions() -> None:
    first, second = ([1.0, 0.5, 0.0, 2.0], [3.0, 0.25, 4.0, 0.0])
    with np.errstate(divide="ignore"):
        found = np.exp(allocation._product(np.log(first), np.log(second)))
    np.testing.assert_allclose(found, np.convolve(first, second)[:4], rtol=1e-14)


@for_each("among", [1, 2, 5])
def test_moments_of_a_record_removed_are_those_of_the_mean(among: int) -> None:
    """With R = 0 or 2, its mean over a round is 2/t times a binomial number."""
    orders = allocation.ORDERS[:9]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(allocation, "log_moments", lambda log_p, _, orders: (orders - 1) * math.log(2) - log_p[0, 0] - 2)
        pairs: Any = [stub([[math.exp(-2.0)]], [[1.0]]), stub([[math.exp(-1.0)]], [[1.0]])]  # the second is smaller
        patch.setattr(allocation, "ULP", UNIT)
        found = allocation.removed_moments(pairs, among, 0.0, orders)
    size = float(sampled.LOG_FACTORIALS[10])
    for order, each in zip(range(2, 11), found.tolist(), strict=True):
        exact = sum(Fraction(math.comb(among, k), 2**among) * Fraction(2 * k, among) ** order for k in range(among + 1))
        exact_log = (Decimal(exact.numerator) / exact.denominator).ln()
        error = 2 * among * UNIT * (8 * size + 11 + 16) + order * math.log(among) * 4 * UNIT
        charged(each, exact_log, error, room=1e-9)


def test_a_moment_requires_all_lower_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocation, "log_moments", lambda _, __, orders: np.where(orders == 5, np.inf, orders))
    found = allocation.removed_moments([stub([[1.0]], [[1.0]])], 2, 0.0, allocation.ORDERS[:9])
    assert np.isfinite(found).tolist() == [True] * 3 + [False] * 6


@for_each("among", [1, 3])
def test_moments_of_a_record_added_are_integrals_from_above(among: int) -> None:
    p, q = np.array([[0.25, 0.25, 0.5], [0.5, 0.25, 0.25]]), np.array([[0.5, 0.25, 0.25], [0.375, 0.375, 0.25]])
    orders = np.array([2.0, 3.0, 12.0])
    apart, joined = (
        allocation.added_moments(pairs, among, 0.0, orders).tolist()
        for pairs in ([stub(p[1:], q[1:]), stub(p[:1], q[:1])], [stub(p, q)])
    )
    for order, *found in zip(orders.tolist(), apart, joined, strict=True):
        exact = Decimal(0)
        for place in np.ndindex(*[3] * among):
            mean = sum(Decimal(q[0, k]) / Decimal(p[0, k]) for k in place) / among
            exact += math.prod(Decimal(p[0, k]) for k in place) * Decimal(mean) ** (1 - Decimal(order))
        for each in found:
            assert 0 < Decimal(each) - exact.ln() < Decimal("1e-3")
    rare = allocation.added_moments([stub(p[:1], q[:1])], 1, 0.25, np.array([2.0]))  # omits the first two
    assert 0 < rare[0] - math.log(0.5 * 2) < 1e-3
    assert np.all(allocation.added_moments([stub([[0.5, 0.5]], [[1.0, 0.0]])], 2, 0.0, orders) == np.inf)


def known_profile(p: Array, q: Array) -> allocation.Profile:
    return lambda losses: np.maximum(q - np.exp(losses)[:, np.newaxis] * p, 0.0).sum(axis=1)


P, Q = np.array([0.25, 0.25, 0.375, 0.125]), np.array([0.5, 0.25, 0.1875, 0.0625])


def test_atoms_form_a_law_whose_delta_is_never_below_the_profile() -> None:
    known = known_profile(P, Q)
    ratios, chances = allocation._atoms(known, 1e-9)
    assert ratios[0] == 0.0
    assert np.all(np.diff(ratios) > 0)
    assert chances.sum() == pytest.approx(1, abs=1e-14)
    assert 1 - 1e-9 - 1e-12 <= chances @ ratios <= 1 + 1e-12
    at = np.concatenate([[-12.0, -9.0], np.linspace(-1.5, 1.5, 61)])
    delta = 1 - np.exp(at) + np.maximum(np.exp(at)[:, np.newaxis] - ratios, 0) @ chances
    assert np.all(delta >= known(at) - 1e-15)
    assert np.all(delta <= known(at) + 2e-3)
    assert ratios[-1] == pytest.approx(2.0, rel=0.05)
    assert 0.4 < ratios[1] <= 0.5


@for_each("among", [1, 2, 7])
def test_a_round_is_just_above_its_law(among: int) -> None:
    profile = allocation.RoundProfile.of(known_profile(P, Q), among, 1e-12)
    ratio, counts = Q / P, np.array([1.0])  # of 0.5 and more: in halves
    for _ in range(among):
        counts = np.convolve(counts, [0, 0.5, 0.25, 0, 0.25])
    assert ratio.tolist() == [2.0, 1.0, 0.5, 0.5]
    means = np.arange(counts.size) / 2 / among
    losses = np.array([-2.0, -0.4, 0.0, 0.2, 0.5])
    x = np.exp(losses)[:, np.newaxis]
    for found, exact in (
        (profile.removed(losses), np.maximum(means - x, 0) @ counts),
        (profile.added(losses), np.maximum(1 - x * means, 0) @ counts),
    ):
        assert np.all(exact <= found)
        assert np.all(found <= exact + 5e-3)
    assert profile.error < 1e-8
    assert profile.step * (profile.masses.size - 1) >= 2.0  # the largest mean is on the grid


def test_integrals_are_those_of_chords_and_of_the_tail(move: Callable[..., None]) -> None:
    """Few points and a small range, so that each piece counts; between two points the function is below its chord."""
    step, parts, end_exponent = 0.75, 4, 1.0
    move(allocation, ULP=UNIT, PLACE_STEP=step, PARTS=parts, END_EXPONENT=end_exponent)
    p = np.array([[0.25, 0.75, 0.0], [0.5, 0.25, 0.25]])
    q = np.array([[0.5, 0.375, 0.125], [0.375, 0.25, 0.375]])
    orders, among = np.array([2.0, 3.0, 5.0]), 2
    pairs = [stub(p[:1, :2], q[:1, :2]), stub(p, q)]
    found = allocation.added_moments(pairs, among, 0.0, orders)
    unit = Decimal(UNIT)
    laws = [
        [(Decimal(a), Decimal(b) / Decimal(a) * (1 - 2 * unit)) for a, b in zip(*row, strict=True) if a]
        for row in zip(p.tolist(), q.tolist(), strict=True)
    ]
    least = min(ratio for law in laws for _, ratio in law)
    end = ((Decimal(end_exponent) + 8) / least).ln()
    count = math.ceil((end + 4) / Decimal(step)) + 1
    places = [Decimal(-18), *(-4 + (end + 4) * n / (count - 1) for n in range(count))]
    logs = []
    for place in places:
        v = place.exp() / among
        mean = max(sum((a * (-v * ratio).exp() for a, ratio in law), Decimal(0)) for law in laws)
        logs.append(min(among * (mean.ln() + 16 * unit * 103), Decimal(0)))
    fine: list[tuple[Decimal, Decimal]] = []  # v, and the function there by chords of its logarithm
    for n in range(len(places) - 1):
        left, right = places[n].exp(), places[n + 1].exp()
        for part in range(parts + (n == len(places) - 2)):
            v = (places[n] + (places[n + 1] - places[n]) * part / parts).exp()
            fine.append((v, (logs[n] + (logs[n + 1] - logs[n]) * (v - left) / (right - left)).exp()))
    for order, value in zip(orders.tolist(), found.tolist(), strict=True):
        s = int(order) - 1
        total = fine[0][0] ** s / s + 2 / least * ((s - 1) * end).exp() * logs[-1].exp()
        for (low, before), (high, after) in pairwise(fine):
            power, next_power = (Decimal(high**n - low**n) / n for n in (s, s + 1))
            total += before * power + (after - before) * (next_power - low * power) / (high - low)
        exact = (total / math.factorial(s - 1)).ln() + Decimal(allocation.INTEGRAL_ERROR)
        assert abs(Decimal(value) - exact) < Decimal("1e-11")


def test_a_round_is_summed_on_a_grid_and_charged_for_its_errors(
    monkeypatch: pytest.MonkeyPatch, move: Callable[..., None]
) -> None:
    ratios, chances, among, unit = np.array([0.0, 0.5, 2.5]), np.array([0.125, 0.5, 0.375]), 3, 2.0**-12
    move(allocation, ULP=unit, FFT_ERROR=2.0**-9, POWER_ERROR=2.0**-8, ATOM_ERROR=2.0**-7, MIN_CELLS=8)
    monkeypatch.setattr(allocation, "_atoms", lambda *_: (ratios, chances))
    monkeypatch.setattr(allocation, "fast_length", lambda size: size)
    variance = float(chances @ (ratios - 1) ** 2)
    end = among + 12 * math.sqrt(among * variance) + 1.5 * 2.5
    for share, most, wanted in (
        (0.02, 999, math.ceil(end / math.sqrt(0.12 * variance))),
        (0.02, 41, 41),
        (9.0, 999, 8),
    ):
        monkeypatch.setattr(allocation, "SPREAD_SHARE", share)
        monkeypatch.setattr(allocation, "MAX_CELLS", most)
        found = allocation.RoundProfile.of(lambda losses: 0.25 * np.exp(-losses), among, 0.0)
        cells = found.masses.size - 1
        assert cells == wanted
        step = end / cells
        assert found.step == pytest.approx(step / among, rel=1e-14)
        grid, sums = np.zeros(cells), np.zeros(cells)
        for ratio, chance in zip(ratios / step, chances, strict=True):
            low = math.floor(ratio)
            grid[low] += chance * (low + 1 - ratio)
            grid[low + 1] += chance * (ratio - low)
        for place in np.ndindex(cells, cells, cells) if cells < 9 else []:
            sums[sum(place) % cells] += math.prod(grid[n] for n in place)
        if cells < 9:
            np.testing.assert_allclose(np.diff(found.masses), sums, atol=1e-14)
            np.testing.assert_allclose(np.diff(found.means), sums * np.arange(cells), atol=1e-13)
        error = math.expm1(3 * 4 * 3 * unit) + 2 * cells * unit
        error += math.sqrt(cells) * (4 * math.log2(cells) * 2.0**-9 + 3 * 2.0**-8)
        assert found.error == pytest.approx(error, rel=1e-13)
        assert found.atom_error == pytest.approx(3 * (2.0**-7 + 8 * unit) / 0.75, rel=1e-14)
    assert allocation.FIRST_ORDERS[-1] == allocation.ORDERS[-1]


def test_both_directions_of_a_round_are_charged_for_its_errors() -> None:
    """U is 0 or 2 with probability ½ each, on a grid with spacing 1."""
    masses, means = np.array([0.0, 0.5, 0.5, 1.0]), np.array([0.0, 0.0, 0.0, 1.0])
    profile = allocation.RoundProfile(1.0, masses, means, 0.015625, 0.0078125)
    for x in (0.25, 0.5, 1.5):
        error = 0.0078125 * (1 + x)
        found = [float(each(np.array([math.log(x)]))[0]) for each in (profile.removed, profile.added)]
        assert found[0] == pytest.approx(1 - x + x / 2 + error + x * 0.015625, rel=1e-14)
        put = 1 / x - 1 if 1 / x > 2 else 1 / x / 2
        assert found[1] == pytest.approx(x * put + error + 0.015625, rel=1e-14)


def two_ratios(losses: Array) -> Array:
    """Return δ for R = ½ or 2, equal to that of any R of at least ½."""
    x = np.exp(losses)
    return np.asarray(np.where(x < 0.5, -np.expm1(losses), np.maximum(2 - x, 0.0) / 3))


def test_atoms_end_with_the_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocation, "ATOM_ERROR", 0.0)
    ratios, _ = allocation._atoms(two_ratios, 0.0)
    assert 0.4 < ratios[1] <= 0.5
    assert 2.0 <= ratios[-1] < 2.4
    assert allocation._atoms(lambda losses: np.maximum(-np.expm1(losses), 0.0), 0.0)[0][1] >= 0.9
    one_side = known_profile(np.array([0.5, 0.5]), np.array([1.0, 0.0]))
    ratios, chances = allocation._atoms(one_side, 1e-9)
    assert (ratios[0], chances[0]) == (0.0, pytest.approx(0.5, abs=1e-3))


def test_atoms_of_a_profile_rounded_below_1_minus_x_form_a_law() -> None:
    _, chances = allocation._atoms(lambda losses: known_profile(P, Q)(losses) * (1 - 1e-6), 1e-9)
    assert chances.sum() == pytest.approx(1, abs=1e-14)


def test_the_accounts_of_rounds_are_those_of_the_known_guarantees(monkeypatch: pytest.MonkeyPatch) -> None:
    laws = LawPairs(np.array([[0.5, 0.5]]), np.array([[0.25, 0.75]]))
    spread = Sampling(9, scheme="random-allocation", among=6, times=2)

    def accounts(release: ReleaseGuarantee | None, families: Any = None) -> dict[str, Any]:
        return allocation.allocated_accounts(lambda _: release, lambda _: families, spread, 1, 7, 0.1)

    assert accounts(None) == {}
    assert accounts(ReleaseGuarantee(Privacy(1.0))).keys() == {"pld"}
    found = accounts(ReleaseGuarantee(laws=lambda: laws))
    assert found.keys() == {"pld", "renyi"}
    assert found["renyi"].args == ([laws], [laws], 3, 4, 0.0, 0.1)
    families = [LawTriples(laws.on_data, laws.on_neighbour, missing=missing) for missing in (0.125, 0.25, 0.0625)]
    assert accounts(None, families)["pld"].args[1:] == (3, 4, 7 * 0.25, 0.1)
    monkeypatch.setattr(allocation, "composed_epsilon", lambda *_: 1.0)
    monkeypatch.setattr(allocation, "epsilon_at_delta", lambda *_: 2.0)
    assert [allocation._direction(lambda losses: 0.5 + 0 * losses, rounds, 0.1) for rounds in (1, 2)] == [2.0, 1.0]


@for_each(
    ("answers", "many", "expected", "orders"),
    [
        ([(2.0, 3.0), (1.0, 4.0)], [1], 2.0, None),  # the other direction is smaller
        ([(2.0, 3.0), (2.0, 4.0)], [1], 2.0, None),
        ([(9.0, 5.0), (1.5, 6.0), (3.0, 4.0), (2.5, 3.0)], [1, 2], 2.5, [2, 3, 4, 5, 6, 7, 8]),  # all high orders
        ([(2.0, 3.0), (3.0, 2.0), (1.0, 2.0)], [1], 2.0, [2, 3, 4]),
        ([(2.0, 3.0), (3.0, 8.0), (2.5, 8.0)], [1], 2.5, [4, 5, 6, 7, 8]),
    ],
)
def test_the_orders_of_a_round_are_searched_in_the_larger_direction(
    answers: list[tuple[float, float]], many: list[int], expected: float, orders: list[int] | None
) -> None:
    asked, removed, added, left = list[Any](), list[Any](), list[Any](), iter(answers)
    laws = LawPairs(np.array([[0.5, 0.5]]), np.array([[0.25, 0.75]]))

    def best(*of: Any) -> tuple[float, float]:
        asked.append(of)
        return next(left)

    def moments_of(calls: list[Any]) -> Any:
        def function(*of: Any) -> Any:
            calls.append((of[2], of[3].tolist()))
            return of[3]

        return function

    changes = {"ULP": UNIT, "SLACK_SHARE": 0.125, "MANY_ORDERS": 5, "FIRST_ORDERS": np.array([2.0, 4.0, 8.0])}
    changes |= {"ORDERS": np.array([2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]), "rdp_epsilon": best}
    changes |= {"removed_moments": moments_of(removed), "added_moments": moments_of(added)}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in changes.items():
            patch.setattr(allocation, name, value)
        assert allocation._renyi([laws], [laws], 3, 4, 0.0, 0.5) == Privacy(expected, 0.5)
    rare = 0.125 * 0.5 * 0.875 / (4 * 2)
    assert [of[0] for of in removed] == [rare] * len(many)
    assert [of[0] for of in added] == [rare / 3] * (1 if orders is None else 2)
    assert {of[1] for of in asked} == {0.5 * 0.875 * 0.875 * (1 - 8 * UNIT)}
    if orders is not None:
        assert added[1][1] == orders
    for divergences, _, at in asked:
        np.testing.assert_allclose(divergences, 4 * at / (at - 1) * (1 + 4 * UNIT), rtol=1e-14)
    assert next(left, None) is None
