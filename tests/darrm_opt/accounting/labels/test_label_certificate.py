"""The certificate of the one-step inequality at σ = 40, checked in part by independent ball arithmetic."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from support.cases import for_each
from support.paths import DATA

from darrm_opt.accounting.labels.gaussian_argmax import label_divergence

flint = pytest.importorskip("flint")
arb, acb = flint.arb, flint.acb

CERTIFICATE = json.loads((DATA / "label_certificate.json").read_text(encoding="utf-8"))
SIGMA, LEAST, MAX_SUM = (CERTIFICATE[name] for name in ("sigma", "least_mean", "max_sum"))
ORDERS, BOUNDS = CERTIFICATE["orders"], CERTIFICATE["bounds"]
RNG = np.random.default_rng(40)


@pytest.fixture(autouse=True)
def precision() -> None:
    flint.ctx.prec = 128


@pytest.fixture(autouse=True)
def own_draws() -> None:
    RNG.bit_generator.state = np.random.default_rng(40).bit_generator.state  # whichever tests ran before


def normal(t: Any) -> Any:
    return (-t / acb(2).sqrt()).erfc().real / 2 if isinstance(t, acb) else (-t / arb(2).sqrt()).erfc() / 2


def cells(alpha: Any, beta: Any) -> list[Any]:
    """Return the probabilities of a, b and another class, by integration."""

    def wins(mine: Any, other: Any) -> Any:
        def density(t: Any, _: Any) -> Any:
            return (-((t - mine) ** 2) / 2).exp() / (2 * acb.pi()).sqrt() * (-(t - other) / acb(2).sqrt()).erfc() / 2

        return acb.integral(density, 0, 40).real

    return [wins(alpha, beta), wins(beta, alpha), normal(-alpha) * normal(-beta)]


def chi(loss: Any, a: Any) -> Any:
    return ((-(a - 1) * loss).exp() - a + (a - 1) * loss.exp()) / (a * (a - 1))


def largest(values: Any) -> Any:
    return max(values, key=lambda ball: float(ball.upper()))


def test_the_boxes_cover_the_triangle() -> None:
    finest = min(map(float, CERTIFICATE["boxes"]))
    size = math.ceil((MAX_SUM - 2 * LEAST) / finest)
    covered = np.zeros((size + 32, size + 32), dtype=bool)
    for side, boxes in CERTIFICATE["boxes"].items():
        scale = round(float(side) / finest)
        assert scale * finest == float(side)
        for i, j in boxes:
            covered[i * scale : (i + 1) * scale, j * scale : (j + 1) * scale] = True
    i, j = np.indices((size, size))
    assert np.all(covered[:size, :size][2 * LEAST + (i + j) * finest <= MAX_SUM])


@for_each("side", sorted(CERTIFICATE["boxes"]))
def test_bounds_hold_on_boxes(side: str) -> None:
    """The corners and Lemma 2 of the proof, for some boxes of each size and some orders."""
    h, d = 1 / arb(SIGMA), arb(float(side))
    boxes = CERTIFICATE["boxes"][side]
    for n in RNG.integers(0, len(boxes), 4):
        alpha, beta = (arb(LEAST) + d * index for index in boxes[n])
        p = {(x, y): cells(alpha + x * d, beta + y * d) for x in (0, 1) for y in (0, 1)}
        q = {(x, y): cells(alpha + x * d - h, beta + y * d + h) for x in (0, 1) for y in (0, 1)}
        low = [(there / here).log() for here, there in zip(p[0, 1], q[0, 1], strict=True)]
        high = [(there / here).log() for here, there in zip(p[1, 0], q[1, 0], strict=True)]
        likeliest = [p[1, 0][0], q[0, 1][1], normal(-alpha + h) * normal(-beta)]
        for place in RNG.integers(0, len(ORDERS), 3):
            a = arb(ORDERS[place])
            at_corners = [
                sum(here * chi((there / here).log(), a) for here, there in zip(p[at], q[at], strict=True)) for at in p
            ]
            first, both = [], []
            for ends in zip(low, high, strict=True):
                A = [((-(a - 1) * loss).exp() - 1) / (a - 1) for loss in ends]
                B = [(1 - (-a * loss).exp()) / a for loss in ends]
                first.append(largest([abs(x) for x in A]))
                both.append(largest([abs(x + y) for x, y in zip(A, B, strict=True)]))
            second = sum(x * x * w for x, w in zip(both, likeliest, strict=True)).sqrt()
            second = min(second, largest(both) / 2, key=lambda ball: float(ball.upper()))
            bend = h * arb(8).sqrt() * sum(x * x * w for x, w in zip(first, likeliest, strict=True)).sqrt()
            bend += arb(2).sqrt() * second
            assert largest(at_corners) + d * d / 4 * bend <= arb(BOUNDS[place]) * (1 + arb("1e-9"))


def test_bounds_hold_outside_the_triangle() -> None:
    h = 1 / arb(SIGMA)
    mu, mean = arb(2).sqrt() * h, arb(LEAST)
    for place, order in enumerate(ORDERS):
        a, bound = arb(order), arb(BOUNDS[place])
        label, single = (arb(CERTIFICATE["bit_bounds"][name][place]) for name in ("label", "single"))
        gaussian = ((a * (a - 1) * mu**2 / 2).exp() - 1) / (a * (a - 1))
        assert label + normal(-arb(MAX_SUM) / arb(2).sqrt()) * gaussian <= bound * (1 + arb("1e-9"))
        hidden = []
        for shift in (h, -h):
            power = normal(-mean) ** a * normal(-mean - shift) ** (1 - a)
            power += (a * (a - 1) * h**2 / 2).exp() * normal(mean + (1 - a) * shift)
            hidden.append((power - 1) / (a * (a - 1)))
        growth = largest([1 + a * (a - 1) * each for each in hidden]) if order > 1 else arb(1)
        assert growth * single + largest(hidden) <= bound * (1 + arb("1e-9"))
        for u in RNG.normal(0, 2, 20).tolist():
            for shift, most in ((mu, label), (h, single)):
                p, q = [normal(arb(u)), normal(-arb(u))], [normal(arb(u) - shift), normal(shift - arb(u))]
                assert sum(x * chi((y / x).log(), a) for x, y in zip(p, q, strict=True)) <= most


def test_increments_satisfy_the_condition() -> None:
    """U(x; s + t) − U(x; s) ≥ n_s(y)·H(a) up to a*, and n_s·H of the counts is within the slack beyond."""

    def U(y: Any, s: Any) -> Any:
        root = s.sqrt()
        return normal(root / 2 - y / root) - y.exp() * normal(-root / 2 - y / root)

    increments = CERTIFICATE["increments"]
    assert all(later[1] <= earlier[1] * 1.001 for earlier, later in pairwise(increments))
    mu = math.sqrt(2) / SIGMA
    assert increments[-1][1] < 0.65 * mu**2
    for n in RNG.integers(0, len(increments), 12):
        s, t = (arb(value) for value in increments[n])

        def density(a: Any, s: Any = s) -> Any:
            return (-s * (a - 1) ** 2 / 2).exp() / (2 * arb.pi() * s).sqrt()

        last = 1.0
        while (
            float(
                (
                    density(arb(last))
                    * ((arb(last) * (last - 1) * mu**2 / 2).exp() - 1)
                    / (arb(last) * (last - 1 + 1e-9))
                ).upper()
            )
            > CERTIFICATE["slack"]
        ):
            last += 0.25
        assert last <= ORDERS[-1] + 0.25
        for a in [0.5, *RNG.uniform(0.5, min(last, ORDERS[-1]), 25).tolist()]:
            chord = arb(float(np.interp(a, ORDERS, np.log(BOUNDS)))).exp() * (1 - arb("1e-12"))
            y = s * (arb(a) - arb("0.5"))
            assert U(y, s + t) - U(y, s) >= density(arb(a)) * chord


def test_the_product_is_at_least_as_tight() -> None:
    release = label_divergence(SIGMA)
    np.testing.assert_allclose(release.orders[: len(ORDERS)], ORDERS, rtol=1e-12)
    assert np.all(release.values[: len(ORDERS)] <= np.array(BOUNDS) * (1 + 1e-9))
    assert np.all(release.values[: len(ORDERS)] >= 0.93 * np.array(BOUNDS))
