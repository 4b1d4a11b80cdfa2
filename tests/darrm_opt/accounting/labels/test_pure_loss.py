"""Pure loss of labels with Gaussian noise: against all vote counts, neighbours and answers."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from decimal import Decimal, localcontext
from functools import cache
from itertools import combinations, pairwise, product
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from support.cases import for_each

from darrm_opt import Privacy
from darrm_opt.accounting.labels.pure_loss import check_loss, label_loss
from darrm_opt.accounting.total import cost
from darrm_opt.mechanisms.noisy_maximum import NoisyMaximum


def largest_loss(sigma: float, K: int, classes: int, affected: int) -> float:
    """Return the largest loss, by sums over all noisy counts of a class and all sets of classes tied with it."""
    end = math.ceil(11 * sigma)
    masses = [math.exp(-k * k / (2 * sigma * sigma)) for k in range(-end - K, end + K + 1)]
    below = [math.fsum(masses[:k]) for k in range(len(masses))]

    @cache
    def chance(own: int, others: tuple[int, ...]) -> float:
        total = []
        for y in range(own - end - K, own + end + K + 1):
            at = [masses[y - n + end + K] if abs(y - n) <= end + K else 0.0 for n in others]
            less = [below[min(max(y - n + end + K, 0), len(below) - 1)] for n in others]
            for tied in range(len(others) + 1):
                for those in combinations(range(len(others)), tied):
                    wins = math.prod(at[i] if i in those else less[i] for i in range(len(others)))
                    total.append(masses[y - own + end + K] * wins / (1 + tied))
        return math.fsum(total)

    def loss(counts: tuple[int, ...], neighbour: tuple[int, ...], answer: int) -> float:
        one, other = (
            chance(each[answer], tuple(sorted(each[:answer] + each[answer + 1 :]))) for each in (counts, neighbour)
        )
        return math.log(one / other)

    votes = [counts for counts in product(range(K + 1), repeat=classes) if sum(counts) == K]
    return max(
        loss(counts, neighbour, answer)
        for counts in votes
        for neighbour in votes
        if sum(abs(n - m) for n, m in zip(counts, neighbour, strict=True)) <= 2 * affected
        for answer in range(classes)
    )


@for_each(
    ("sigma", "K", "classes", "affected", "share"),
    [
        (1.0, 4, 3, 1, 0.04),
        (2.0, 6, 2, 1, 0.02),
        (8.0, 6, 3, 1, 0.01),
        (0.6, 6, 3, 1, 0.01),
        (3.0, 3, 4, 1, 0.03),
        (1.5, 5, 3, 2, 0.06),
        (2.0, 4, 3, 4, 0.25),
        (2.0, 1, 3, 1, 0.1),
        (0.6, 14, 2, 1, 0.01),
    ],
)
def test_the_loss_is_just_above_that_of_all_vote_counts(
    sigma: float, K: int, classes: int, affected: int, share: float
) -> None:
    found, exact = label_loss(sigma, K, classes, affected), largest_loss(sigma, K, classes, affected)
    assert found is not None
    assert exact * (1 - 1e-12) <= found <= exact * (1 + share)


@for_each(
    ("sigma", "K", "classes", "affected", "share"),
    [(8.0, 6, 3, 1, 0.8), (20.0, 4, 3, 2, 0.3), (30.0, 3, 4, 1, 0.2), (60.0, 2, 2, 1, 0.07), (60.0, 1, 3, 1, 0.06)],
)
def test_the_loss_of_wide_noise_is_never_below_that_of_a_vote_count(
    sigma: float, K: int, classes: int, affected: int, share: float
) -> None:
    module = sys.modules[label_loss.__module__]
    exact = largest_loss(sigma, K, classes, affected)
    with patch.object(module, "MIN_WIDE_SIGMA", 1.0):
        assert exact < module._wide_loss(sigma, K, classes, affected) < exact * (1 + share)


@for_each(("K", "classes"), [(1, 2), (5, 3), (250, 10), (3, 2**20)])
def test_the_loss_decreases_with_the_width_of_the_noise(K: int, classes: int) -> None:
    """Also above σ = 20,000, where once there was no loss."""
    widths = [1e3, 1.9e4, 2.1e4, 1e5, 1e7, 1e10, 1e12]
    losses = [label_loss(sigma, K, classes, 1) or 0.0 for sigma in widths]
    assert all(more > less > 0 for more, less in pairwise(losses))
    # The mean of x + φ(x)/Φ(x) under the density of the largest of C, for infinitesimal votes.
    x = np.linspace(-9, 9, 40_001)
    below = np.cumsum(np.exp(-x * x / 2))
    weights = np.exp(-x * x / 2 + (classes - 1) * np.log(below / below[-1]))
    limit = np.average(x + np.exp(-x * x / 2) / below / (x[1] - x[0]), weights=weights)
    assert limit < losses[-1] * widths[-1] < limit * 1.01


def test_very_small_noise_has_no_finite_loss() -> None:
    assert label_loss(0.3, 250, 3, 1) is None
    assert label_loss(1e9, 10**12, 3, 1) is None
    wide = label_loss(1e4, 5, 3, 1)
    assert wide is not None
    assert wide < 3 / 1e4


def largest_check_loss(sigma: float, threshold: float, K: int, classes: int, affected: int) -> float:
    """Return the largest loss of a check, by sums over all noise for every largest count."""
    end = math.ceil(40 * sigma) + K + abs(math.ceil(threshold))
    masses = {x: math.exp(-x * x / (2 * sigma * sigma)) for x in range(-end, end + 1)}
    counts = range(-(-K // classes), K + 1)
    passes, fails = (
        {m: math.fsum(mass for x, mass in masses.items() if (m + x >= threshold) == passed) for m in counts}
        for passed in (True, False)
    )
    return max(
        abs(math.log(chance[m] / chance[near]))
        for chance in (passes, fails)
        for m in counts
        for near in counts
        if abs(m - near) <= affected
    )


def test_the_loss_of_a_check_is_that_of_its_rarest_answer() -> None:
    for sigma, threshold, K, classes in product((0.3, 0.85, 3.3), (-2.0, 1.5, 3.0, 7.2), (2, 3, 5), (2, 3)):
        for affected in {1, 2, K}:
            found = check_loss(sigma, threshold, K, classes, affected)
            exact = largest_check_loss(sigma, threshold, K, classes, affected)
            assert found is not None
            assert exact * (1 - 1e-12) <= found <= exact * (1 + 1e-9) + 1e-300
    assert check_loss(2.0, 1.0, 1, 3, 1) == 0  # the largest count is always 1
    summed, wide = (check_loss(sigma, 3.0, 9, 3, 2) or 0.0 for sigma in (49_999.0, 50_001.0))
    assert summed * 0.9999 < wide < summed * 1.0001
    assert check_loss(0.3, 100.0, 5, 3, 1) is None
    assert check_loss(1e6, 1e9, 5, 3, 1) is None


def test_if_less_noise_has_a_finite_total_more_noise_has_one() -> None:
    """A label with wider noise than that of listed laws, and a check with little noise."""
    less, more = (NoisyMaximum(3, 3, sigma, threshold=2.5, check_sigma=0.85) for sigma in (27.0, 35.0))
    assert cost(more, 1, 7e-209).epsilon < cost(less, 1, 7e-209).epsilon < 3
    for check_sigma in (0.3, 0.85):  # among many voters: at any threshold
        many = NoisyMaximum(250, 10, 35.0, threshold=200.0, check_sigma=check_sigma)
        assert cost(many, 3, 1e-6).epsilon < math.inf


def test_a_total_at_delta_0_exists_and_increases_with_the_releases() -> None:
    mechanism = NoisyMaximum(11, 5, 4.0)
    one, ten = (cost(mechanism, releases, 0.0) for releases in (1, 10))
    assert ten.epsilon == pytest.approx(10 * one.epsilon)
    assert cost(mechanism, 1, 1e-5).epsilon <= one.epsilon
    few, many = (NoisyMaximum(K, 5, 4.0, threshold=3.0, check_sigma=4.0) for K in (11, 250))
    assert 0 < cost(few, 1, 0.0).epsilon < cost(many, 1, 0.0).epsilon < math.inf


def test_noise_is_calibrated_at_delta_0() -> None:
    found = NoisyMaximum.calibrated(11, 5, Privacy(1.0, 0.0), 2)
    assert 0.999 < cost(found, 2, 0.0).epsilon <= 1.0


@pytest.mark.parametrize("sigma", [300.0, 411.5])
def test_vectorised_sums_are_those_of_the_recursion(sigma: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """They differ by far less than the error charged."""
    end = math.ceil(12 * sigma) + 2
    module = sys.modules[label_loss.__module__]
    at_once = module._growths(sigma, -5 - 2 * end, 7 + end)
    monkeypatch.setattr(module, "MANY_STEPS", 10**9)
    steps = module._growths(sigma, -5 - 2 * end, 7 + end)
    assert at_once.size > 10_000
    assert np.abs(at_once / steps - 1).max() < at_once.size * 2.0**-53


def test_sums_are_vectorised_if_many_are_normal_doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    module, at_once = sys.modules[label_loss.__module__], list[int]()
    assert module.MIN_EXPONENT == -700

    def cumsum(values: Any) -> Any:
        at_once.append(values.size)
        return np.add.accumulate(values)

    monkeypatch.setattr(module.np, "cumsum", cumsum)
    size, exponent = 12 * 2 + 4, -(24**2) / (2 * 2.0**2)  # of −24..3, at σ = 2
    for steps, least, expected in (
        (size - 1, exponent - 1, [size]),
        (size, exponent - 1, []),
        (size - 1, exponent, []),
    ):
        monkeypatch.setattr(module, "MANY_STEPS", steps)
        monkeypatch.setattr(module, "MIN_EXPONENT", least)
        at_once.clear()
        module._growths(2.0, 0, 3)
        assert at_once == expected


def test_a_check_is_summed_within_limits_and_else_bounded_by_its_first_step() -> None:
    """Three steps from 7 below 0, of the class with 3 of 9 votes that needs 10."""
    module, asked, sigma, limits = sys.modules[label_loss.__module__], list[Any](), 2.0, (24 + 7) / 4
    of = (sigma, 9.5, 9, 3, 3)

    def growths(*of: Any) -> Any:
        asked.append(of)
        return np.array([0.5, 0.25])

    changes: dict[str, Any] = {
        "_growths": growths,
        "up": lambda *of: of,
        "MAX_EXPONENT": limits,
        "MAX_SUMMED_SIGMA": 2.0,
        "MAX_STEPS": 3,
    }
    with patch.multiple(module, **changes):
        assert module.check_loss.__wrapped__(*of) == (0.75, math.ceil(27 * (8 + 4 * (27 + 7) / 4)))
        assert asked == [(2.0, -6, -4)]
        with patch.object(module, "MAX_EXPONENT", limits - 0.01):
            assert module.check_loss.__wrapped__(*of) is None
        for changes in ({"MAX_SUMMED_SIGMA": 1.9}, {"MAX_STEPS": 2}):
            changes |= {"WIDE_ERROR": 0.25, "END": 3}
            with patch.multiple(module, **changes):  # −6 is 3 deviations below 0
                below = sigma * math.sqrt(2 * math.pi) * math.erfc(7 / sigma / math.sqrt(2)) / 2
                exact = 3 * math.log1p(math.exp(-36 / 8) / below) * 1.25
                assert module.check_loss.__wrapped__(*of) == pytest.approx(exact, rel=1e-12)
                with patch.object(module, "END", 2):
                    assert module.check_loss.__wrapped__(*of) is None


def logsumexp(logs: Sequence[Decimal]) -> Decimal:
    return sum((each.exp() for each in logs), Decimal(0)).ln()


@for_each(("left", "own"), [(4, 0), (3, 1), (1, 6)])
def test_a_step_is_its_formula_in_forty_digits(left: int, own: int) -> None:
    """With an ulp of 1e-6, so that the charge is visible."""
    module, sigma, classes, end = sys.modules[label_loss.__module__], 1.5, 3, 6
    origin = left + own + 2 * end
    growths = module._growths(sigma, -origin, left + own + end + 2)
    ulp = Decimal("1e-6")
    with patch.object(module, "ULP", float(ulp)):
        found = module._step(sigma, left, classes, own, growths, end)
    with localcontext(prec=40):
        variance, growth = Decimal(sigma) ** 2, dict(enumerate(map(Decimal, growths.tolist()), -origin))
        error = growths.size * (8 + 4 * origin / variance) * ulp
        logs, losses, pulls, slopes = [Decimal(0)], [], [], []
        for y in range(own - end, max(left, own) + end):
            here = growth[y - 1]
            chord = max(
                (growth[y - 1 - votes] * (1 + error) - here * (1 - error)) / votes for votes in range(1, left + 1)
            )
            pulls.append(((classes - 1) * here + left * max(chord, Decimal(0))) * (1 + error))
            slopes.append((2 * (y - own) - 1) / (2 * variance))
            logs.append(logs[-1] + pulls[-1] - slopes[-1])
            z = y - left
            loss = slopes[-1] + ((1 + growth[z + 1].exp()) / (1 + (-growth[z]).exp())).ln()
            losses.append(loss + error * (growth[z + 1] + growth[z]) + 8 * ulp * (1 + abs(slopes[-1])))
        above = [log + loss for log, loss in zip(logs[1:], losses, strict=True)]
        beyond = min(Decimal(0), above[-1] + Decimal(2 + sigma).ln() - logsumexp(above)).exp()
        size = sum(map(abs, pulls), Decimal(0)) + max(map(abs, slopes)) * len(pulls) + 1
        exact = logsumexp(above) - logsumexp(logs[1:]) + beyond + 2 * (len(pulls) + 8) * ulp * size
        assert abs(Decimal(found) / exact - 1) < Decimal("1e-12")


@for_each(("sigma", "K"), [(3.0, 1), (700.0, 100)])
def test_blocks_are_their_formula_in_forty_digits(sigma: float, K: int) -> None:
    """With a relative error of 1e-4 and an ulp of 1e-9, so that the charges are visible."""
    module, classes, end, start = sys.modules[label_loss.__module__], 3, 3, 2
    error, ulp = Decimal("1e-4"), Decimal("1e-9")
    changes: dict[str, Any] = {
        "MIN_WIDE_SIGMA": 1.0,
        "WIDE_ERROR": float(error),
        "ULP": float(ulp),
        "END": end,
        "WIDE_START": start,
    }
    with patch.multiple(module, **changes):
        found = module._wide_loss(sigma, K, classes, 2)
    with localcontext(prec=40):
        many, deviation = math.ceil(sigma / 512), Decimal(sigma)
        places = range(-math.ceil(start * sigma / many), math.ceil((K + end * sigma) / many) + 2)
        x = [many * Decimal(place) for place in places]
        p = [(-((each / deviation) ** 2) / 2).exp() for each in x]
        cdf = [Decimal(math.erfc(-float(each) / sigma / math.sqrt(2)) / 2) for each in x]
        root = Decimal("2.506628274631000502415765284811045253007") * deviation
        below = [(root * c - (1 if each > 0 else 0)) * (1 - error) for c, each in zip(cdf, x, strict=True)]
        growths, falls, logs, losses = [], [], [Decimal(0)], []
        for n in range(len(x) - 1):
            growths.append((classes - 1) * (1 + many * max(p[n], p[n + 1]) / below[n] * (1 + error)).ln())
            falls.append(many * (2 * x[n] + (many + 2 - 2 * K)) / (2 * deviation**2))
            logs.append(logs[-1] + growths[-1] - falls[-1])
            losses.append((x[n + 1] + K) / deviation**2 - (1 - p[n + 1] / below[n + 1] * (1 + error)).ln())
        terms = [log + (loss.exp() - 1).ln() for log, loss in zip(logs[1:-1], losses[1:], strict=True)]
        beyond = terms[-1] - (1 - (-(end - 1) * many / deviation).exp()).ln()
        rounding = error + 4 * len(x) * ulp * (sum(map(abs, growths), Decimal(0)) + sum(map(abs, falls), Decimal(0)))
        exact = 2 * (logsumexp([*terms, beyond]) - logsumexp(logs[1:-1]) + 2 * rounding).exp()
        assert abs(Decimal(found) / exact - 1) < Decimal("1e-8")


def test_ranges_include_their_ends_and_growths_stay_normal_doubles() -> None:
    module = sys.modules[label_loss.__module__]
    with patch.multiple(module, MIN_WIDE_SIGMA=20.0, MAX_WIDE_SIGMA=20.0, MAX_WIDE_VOTERS=3):
        assert module._wide_loss(20.0, 60, 3, 1) is not None
        assert all(module._wide_loss(*other, 3, 1) is None for other in ((20.0, 61), (19.9, 6), (20.1, 6)))
    sigma, K = 3.0, 5
    end = 38
    limits: dict[str, Any] = {
        "MAX_STEPS": K + 4 * end,
        "MAX_WORK": 2 * K * (K + 2 * end),
        "MAX_EXPONENT": (K + 4 * end) / 9,
    }
    with patch.multiple(module, **limits):
        assert module.label_loss.__wrapped__(sigma, K, 3, 2) is not None
    for name, limit in limits.items():
        with patch.object(module, name, limit * (1 - 1e-9)):
            assert module.label_loss.__wrapped__(sigma, K, 3, 2) is None
    wide = 1000.0
    with patch.object(module, "_wide_loss", lambda *_: wide):
        assert module.label_loss.__wrapped__(sigma, K, 3, 2) < wide
    with patch.object(module, "_wide_loss", lambda *_: 1e-9):
        assert module.label_loss.__wrapped__(sigma, K, 3, 2) == 1e-9
    far = module._growths(200.0, -400 - 4804, 2804)  # probabilities down to e^(−1,000)
    assert far.size == 400 + 4804 + 2804 + 1
    assert np.all(np.isfinite(far) & (far > 0))
