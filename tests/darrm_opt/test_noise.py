"""The noise function γ: accepted values, equality and immutability."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each
from support.refusals import refused
from support.strategies import noises

from darrm_opt import NoiseFunction

SIZES = st.integers(1, 24)


@given(SIZES.flatmap(noises))
def test_signed_is_antisymmetric_and_a_tie_is_a_coin(noise: NoiseFunction) -> None:
    K, signed = noise.K, noise.signed
    assert np.array_equal(signed, -signed[::-1])
    for l in range(K + 1):
        sign = (2 * l > K) - (2 * l < K)
        assert signed[l] == sign * noise.values[l]


@given(SIZES.flatmap(noises))
def test_it_is_rebuilt_from_its_upper_half_or_its_values(noise: NoiseFunction) -> None:
    K = noise.K
    again = NoiseFunction.from_upper_half(noise.values[K // 2 + 1 :], K)
    assert again == noise == NoiseFunction(noise) == NoiseFunction(noise.values.tolist(), K)
    assert hash(again) == hash(noise)
    assert np.array_equal(np.asarray(noise), noise.values)


def test_a_tie_keeps_its_given_value() -> None:
    assert NoiseFunction([1.0, 0.25, 1.0]).values[1] == 0.25
    assert NoiseFunction([1.0, 0.25, 1.0]).signed[1] == 0.0


def test_equal_means_every_bit() -> None:
    one = NoiseFunction([0.3, 0.3])
    assert one != NoiseFunction([math.nextafter(0.3, 1)] * 2)
    assert one != NoiseFunction([0.3, 0.3, 0.3])
    assert one != [0.3, 0.3]


def test_equal_noise_functions_have_equal_hashes() -> None:
    negative, positive = NoiseFunction([-0.0, -0.0]), NoiseFunction([0.0, 0.0])
    assert negative != positive or hash(negative) == hash(positive)


def pickled(noise: NoiseFunction) -> NoiseFunction:
    """Return a noise function after pickling."""
    return cast("NoiseFunction", pickle.loads(pickle.dumps(noise)))  # noqa: S301 - pickled here


@pytest.mark.parametrize("again", [pickled, copy.deepcopy])
def test_a_copy_is_read_only(again: Callable[[NoiseFunction], NoiseFunction]) -> None:
    noise = NoiseFunction([1.0, 0.5, 0.5, 1.0])
    assert again(noise) == noise
    with pytest.raises(ValueError, match="read-only"):
        again(noise).values[0] = 0.0


def test_frozen_and_read_only() -> None:
    source = np.array([1.0, 0.5, 0.5, 1.0])
    noise = NoiseFunction(source)
    source[0] = 0.0
    assert noise.values[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        noise.values[0] = 0.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        noise.values = source  # type: ignore[misc]  # that it cannot be set is the point
    copied = np.array(noise)
    copied[0] = 0.0
    assert noise.values[0] == 1.0


WRONG: list[tuple[Any, str]] = [
    *((values, "gamma") for values in (["a", "a"], [[1.0], [1.0, 2.0]], None, [], [1.0], [[1.0, 1.0]])),
    ([1.0, 1.5, 1.5, 1.0], "gamma[1]"),
    ([-1e-300, -1e-300], "gamma[0]"),
    ([1.0, math.nan, 1.0], "gamma[1]"),
    ([math.inf, math.inf], "gamma[0]"),
    ([1.0, 0.5, 0.25, 1.0], "gamma[1]"),
]


@for_each(("values", "argument"), WRONG)
def test_invalid_noise_function_is_refused(values: Any, argument: str) -> None:
    with refused(argument):
        NoiseFunction(values)


def test_an_asymmetry_of_any_size_is_refused() -> None:
    with refused("gamma[0]", "0.3"):
        NoiseFunction([0.3, math.nextafter(0.3, 1)])


def test_a_wrong_length_is_refused() -> None:
    with refused("gamma"):
        NoiseFunction([1.0, 0.5, 1.0], 3)
