"""Composition of models that state a privacy profile, by their pairs of laws.

A model with a profile has one pair of laws with finitely many outcomes, of which every pair of the model is a
post-processing (`darrm_opt.voters`). Models that are independent given the data are together dominated by the product
of these pairs, and so is everything computed from them, for any number of answers. The product is composed as privacy
loss distributions (`pld`), which connect the dots of each profile from above and charge all rounding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from darrm_opt.accounting.composition.optimal import epsilon_at_delta
from darrm_opt.accounting.law_pairs import LawPairs
from darrm_opt.accounting.pld import Pld, pld_from_profile
from darrm_opt.problem import Privacy
from darrm_opt.voters import profile_of

CELLS = 500  # cells up to the largest loss of a model: with 35 DP-SGD models, doubling them lowers ε by less than 0.1 %


def composed_profiles(models: Mapping[Privacy, int], total_delta: float) -> Privacy:
    """Return the least ε at a δ proved by the pairs of all models, of finite ε, together."""
    if sum(models.values()) == 1:
        return Privacy(_laws(next(iter(models))).epsilon(total_delta), total_delta)
    # Every finite loss of a model is at most its largest ε.
    step = max(model.epsilon for model in models) / CELLS or 1.0 / CELLS
    total = Pld.of_all([(_pld(model, step), count) for model, count in models.items()])
    reason = "a model may leak with that probability, or rounding is charged"
    return Privacy(epsilon_at_delta(total.delta, total_delta, total.max_loss, reason), total_delta)


@lru_cache(maxsize=64)
def _laws(model: Privacy) -> LawPairs:
    """Return a model's pair of laws, which is its own mirror image: one order is enough."""
    pairs = np.array([[float(p), float(q)] for p, q in profile_of(model).outcomes()])
    return LawPairs(pairs[None, :, 0], pairs[None, :, 1])


@lru_cache(maxsize=64)
def _pld(model: Privacy, step: float) -> Pld:
    return pld_from_profile(_laws(model).deltas, discretisation=step, max_loss=math.ceil(model.epsilon / step) * step)
