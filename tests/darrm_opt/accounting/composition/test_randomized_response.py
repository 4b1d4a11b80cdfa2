"""Losses of randomised response: what each step charges for rounding, against sixty digits."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from darrm_opt.accounting.composition.optimal import NEGLIGIBLE, Losses, response_losses
from darrm_opt.rounding import ULP


def one_loss(loss: float, mass: float, missing: float = 0.0, error: float = 0.0) -> Losses:
    return Losses(np.array([loss]), np.array([mass]), missing, error)


def test_a_loss_counts_with_its_error() -> None:
    found = one_loss(1.0, 0.5, 0.01, 0.1).delta(0.95)
    assert found == pytest.approx(0.5 * -math.expm1(-0.15) + 0.01, rel=1e-12)
    assert one_loss(1e8, 1.0).delta(1e8) == pytest.approx(2 * ULP * 2e8, rel=1e-6)  # rounding of so large a difference
    assert one_loss(-1.0, 1.0, 0.01).delta(0.5) == 0.01
    assert one_loss(50.0, 1.0, 0.5).delta(0.0) == 1.0


@pytest.mark.parametrize(("epsilon", "k"), [(0.2676, 100), (0.05, 2000)])
def test_masses_are_above_the_binomial_ones_by_what_is_charged(epsilon: float, k: int) -> None:
    """4 ulps for each step from the mode, in the mass and in the sum that it is divided by; 64 for the sum, 8 for the rest."""
    losses = response_losses(epsilon, k)
    lies = np.rint((k - losses.losses / epsilon) / 2)
    mode = int(lies[np.argmax(losses.masses)])
    far = float(losses.masses @ np.abs(lies - mode))
    above = sum(map(Fraction, losses.masses.tolist())) - 1
    assert float(above) == pytest.approx((64 + 8 + 2 * 4 * far) * ULP, rel=0.05, abs=0)
    with localcontext() as context:
        context.prec = 60
        p = Decimal(epsilon).exp() / (1 + Decimal(epsilon).exp())
        for place in (0, losses.masses.size // 3, int(np.argmax(losses.masses)), losses.masses.size - 1):
            l = int(lies[place])  # as in the paper
            exact = math.comb(k, l) * p ** (k - l) * (1 - p) ** l
            charged = (64 + 8 + 4 * far + 4 * abs(l - mode)) * ULP
            assert float(Decimal(float(losses.masses[place])) / exact - 1) == pytest.approx(charged, rel=0.25, abs=0)


def test_what_is_dropped_is_charged_and_nothing_else() -> None:
    assert response_losses(0.3, 5).missing == 0.0
    assert response_losses(0.3, 5).masses.size == 6
    assert response_losses(400.0, 2).masses.size == 2  # the third is below e^−800
    assert response_losses(400.0, 2).missing == 4 * NEGLIGIBLE


def test_losses_that_are_remembered_cannot_be_changed() -> None:
    for array in (response_losses(0.3, 5).losses, response_losses(0.3, 5).masses):
        assert not array.flags.writeable


def test_masses_fall_from_the_mode_on_through_every_block() -> None:
    losses = response_losses(0.05, 200_000)
    assert losses.masses.size > 2 * 4096
    mode = int(np.argmax(losses.masses))
    assert np.all(np.diff(losses.masses[mode:]) <= 0)
    assert np.all(np.diff(losses.masses[: mode + 1]) >= 0)
    assert 1 <= sum(map(Fraction, losses.masses.tolist())) <= 1 + Fraction(1, 10**9)
