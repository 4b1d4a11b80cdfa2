"""Missing, masked and invalid votes: completion, by enumeration, and refusals."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from support.refusals import refused

from darrm_opt.mechanisms import mechanism_class
from darrm_opt.priors import vote_histogram
from darrm_opt.release import PrivateVote, fill_missing, randomised_signs, release_signs
from darrm_opt.tables.votes import checked_for, count_votes
from darrm_opt.teachers import Partition, collect_votes
from darrm_papers.moments_accountant import checked_votes

NAN = math.nan
SURE = PrivateVote(mechanism_class("permute_and_flip").of(5, 3, 300.0))


@pytest.mark.parametrize("how", ["evenly", "class"])
@pytest.mark.parametrize("groups", [None, (1, 3)])
def test_a_voter_moves_one_vote_of_its_group_whether_it_votes_or_not(how: str, groups: tuple[int, ...] | None) -> None:
    K, classes, value = 4, 3, -1
    rows = list(itertools.product((value, 0, 1, 2), repeat=K))
    for row in (0, 1, 2):
        filled = {
            votes: fill_missing([votes], classes, how, value=value, groups=groups, first_row=row)[0] for votes in rows
        }
        for votes, voter in itertools.product(rows, range(K)):
            members = range(K) if groups is None else (range(1) if voter < 1 else range(1, K))
            for other in (value, 0, 1, 2):
                neighbour = (*votes[:voter], other, *votes[voter + 1 :])
                counts = [np.bincount(filled[each][list(members)], minlength=classes) for each in (votes, neighbour)]
                assert np.abs(counts[0] - counts[1]).sum() <= 2
                outside = [place for place in range(K) if place not in members]
                assert (filled[votes][outside] == filled[neighbour][outside]).all()


def test_missing_votes_are_assigned_in_turn_and_others_are_unchanged() -> None:
    row = [2, NAN, NAN, 2, NAN, NAN]
    assert fill_missing([row, row], 3, "evenly").tolist() == [[2, 0, 1, 2, 2, 0], [2, 1, 2, 2, 0, 1]]
    assert fill_missing([row], 4, "class").tolist() == [[2, 3, 3, 2, 3, 3]]
    assert fill_missing([row], 3, "evenly", groups=(3, 3)).tolist() == [[2, 0, 1, 2, 0, 1]]
    masked = np.ma.array([[0, 0, 2, 2, 2]], mask=[[False, False, True, True, True]])
    for table in (masked, [masked[0]], [[0, 0, None, None, None]], [[0, 0, NAN, NAN, NAN]]):
        assert fill_missing(table, 3, "evenly").tolist() == [[0, 0, 0, 1, 2]]
    gone = type("NAType", (), {})()  # as pandas represents a missing integer
    assert fill_missing(np.array([[0, 1], [gone, 1]]), 2, "evenly").tolist() == [[0, 1], [1, 1]]


def test_invalid_missing_votes_are_refused() -> None:
    with refused("how", "'random'"):
        fill_missing([[0, 1]], 2, "random")
    with refused("how", "'class'"):  # one of two classes would remain
        fill_missing([[0, 1]], 2, "class")
    with refused("value", "1"):
        fill_missing([[0, 1]], 2, "evenly", value=1)
    for table in ([[0, -1]], [[0, 0.5]], [["a", None]], [[0, 2]], np.array([["0", "1"]])):
        with refused("votes"):
            fill_missing(table, 2, "evenly")


def test_masked_votes_are_refused_everywhere() -> None:
    # numpy.asarray drops a mask: masked entries would vote.
    masked = np.ma.array([[0, 0, 2, 2, 2]], mask=[[False, False, True, True, True]])
    for votes in (masked, [masked[0]]):
        with refused("votes") as error:
            SURE.release_many(votes)
        assert "fill_missing" in error.value.advice
        for taken in (lambda each: checked_for(each, 5, 3), lambda each: count_votes(each, None, 3)):
            with refused("votes"):
                taken(votes)
    with refused("votes"):
        SURE.release(masked[0])
    with refused("votes"):
        vote_histogram([np.ma.array([[0, 1, 1]], mask=[[False, True, True]])])
    signs = np.ma.array([[1, -1]], mask=[[False, True]])
    with refused("signs"):
        randomised_signs(signs, 1.0)
    with refused("signs"):
        release_signs(PrivateVote(mechanism_class("permute_and_flip").of(1, 2, 1.0)), signs)
    assert SURE.release_many(np.ma.array([[0, 0, 2, 2, 2]])).tolist() == [2]  # without masked entries


@pytest.mark.parametrize(
    ("votes", "advice"),
    [
        (np.array([["a", "b"]]), "Number the classes"),
        (np.array([["2020-01-01", "2020-01-02"]], dtype="M8[D]"), "leave their columns out"),
        (np.array([[0, None]]), "fill_missing"),
        (np.array([[0.0, NAN]]), "fill_missing"),
    ],
)
@pytest.mark.parametrize("classes", [2, 3])
def test_the_advice_depends_on_the_type_of_the_votes(votes: np.ndarray, advice: str, classes: int) -> None:
    with refused("votes") as error:
        checked_for(votes, 2, classes)
    assert advice in error.value.advice
    assert ("(votes + 1) // 2" in error.value.advice) == (votes.dtype.kind == "f" and classes == 2)


class Predicts:
    """A teacher with given predictions."""

    def __init__(self, predicted: Any) -> None:
        self.predicted = predicted

    def predict(self, pool: Any) -> Any:
        assert len(pool) == 2
        return self.predicted


def test_predictions_other_than_classes_are_refused() -> None:
    for predicted in (np.eye(2), np.array([0.3, 0.7]), np.ma.array([0, 1], mask=[False, True])):
        with refused("prediction"):
            collect_votes([[Predicts(predicted)]], np.zeros((2, 1)))
    assert collect_votes([[Predicts([1.0, 0.0])]], np.zeros((2, 1))).tolist() == [[[1, 0]]]


def test_votes_of_partitions_may_not_be_masked() -> None:
    with refused("votes"):
        checked_votes(np.ma.array([[[0, 1]]], mask=[[[False, True]]]), Partition([[0]], 1, "replace"), 2)
