"""Tables 1, 6, 8 and 10: teachers label queries, and only noisy majorities are seen. How often are these right?

Two tables come of it. In the first every method costs (mε, δ) a release, as in the paper, by whichever account the
paper uses; beside it stands what all releases cost together by an account that is sound for teachers trained once. In
the second all methods cost the same *in total*, by a sound and tight account, which is the comparison that a user
needs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from darrm_opt.accounting.composition.closed_forms import kov_composition
from darrm_opt.accounting.total import total_delta_of
from darrm_opt.baselines import subsampling
from darrm_opt.design.solver import solve
from darrm_opt.errors import BackendUnavailable
from darrm_opt.mechanisms import VoteMechanism, mechanism_class
from darrm_opt.noise import NoiseFunction
from darrm_opt.planning import BestTarget, best_target, design_sequence
from darrm_opt.privacy_curves import dp_sgd
from darrm_opt.problem import Privacy, Problem
from darrm_opt.randomness import ExactCoins, SeededRandomnessForTestsOnly
from darrm_opt.tables.votes import count_ones
from darrm_papers.darrm import printed as paper
from darrm_papers.darrm.cost_tables import exact, fixed_votes, gnmax
from darrm_papers.darrm.printed import Cell, Reproduction, Table, accuracies
from darrm_papers.darrm.stated_profiles import profile_table
from darrm_papers.darrm.teachers import TeacherVotes, Votes, load_teacher_votes

STAND_IN = Privacy(8.0, 1e-4)
"""Privacy of teachers that learn something from 23 digits each, as the paper's do from a thousand pictures."""

K = paper.K

NEW = "not in the paper"  # what stands for the paper's number in a row that the paper does not have


@dataclass(frozen=True)
class LabellingMethod:
    """A method of labelling: the noise, and who votes."""

    name: str
    teachers: str  # who votes
    voter: Privacy | None  # privacy of their training
    noise: NoiseFunction
    column: str = ""  # the paper's column; "" where it has none
    noise_target: Privacy | None = None  # (mε, δ) that the noise is made for; None for the plain majority
    proved: bool = True  # whether that (mε, δ) holds of one release, the voters being fresh (or fixed, if not private)


def transfer(number: int, *, data: str | None = None, quick: bool = False, seed: int = 0) -> Reproduction:
    """Return Table 1, 6, 8 or 10.

    Args:
        data: a folder with the IDX files of MNIST or Fashion-MNIST; None: digits alone.
        quick: two draws of 20 queries.
        seed: of the draws, the training and the coins: a test on public data, not a release.
    """
    m = paper.ACCURACY_TABLES[number]
    draws, queries = (2, paper.QUERIES[:1]) if quick else (paper.DRAWS, paper.QUERIES)
    rows, equal_rows = list[tuple[Cell, ...]](), list[tuple[Cell, ...]]()
    # Trained once, for the most queries: fewer are the first of them.
    of_datasets = load_teacher_votes(data, draws, queries[-1], seed)
    for teacher_votes in of_datasets:
        for Q in queries:
            rows += [_row(teacher_votes, m, Q, method) for method in labelling_methods(teacher_votes, m)]
            # At (mε, δ) a release the methods' totals differ: only at equal totals is accuracy comparable.
            equal_rows += _equal_total_rows(teacher_votes, m, Q)
    accuracy_heads = (("mean", ".3f"), ("std", ".3f"), ("expected", ".3f"))
    heads = (("data", ""), ("Q", "d"), ("noise", ""), ("teachers", ""))
    tables = (
        Table(
            f"Accuracy where each release is made for (mε, δ), m = {m}",
            (*heads, ("paper", ""), *accuracy_heads, ("paper's total ε", ".3f"), ("sound total ε", ".3f"), ("by", "")),
            tuple(rows),
        ),
        Table(
            "Accuracy at equal total privacy: the paper's total for Q releases, by the tight accounts",
            (*heads, *accuracy_heads, ("total ε", ".3f"), ("total δ", ".5f"), ("setting", "")),
            tuple(equal_rows),
        ),
    )
    return Reproduction(
        f"table-{number}",
        f"Table {number}: knowledge transfer, m = {m}, K = {K} teachers on disjoint parts, classes 5 and 8",
        "experiment",
        (*tables, *_profiles(m)),
        NOTES,
        {
            "m": m,
            "K": K,
            "seed": seed,
            "draws": draws,
            "slack": paper.SLACK,
            "records_of_a_teacher": {teacher_votes.dataset: teacher_votes.part for teacher_votes in of_datasets},
        },
    )


DP_SGD = (13.7, 0.05, 100)
"""Noise multiplier, sampling rate and steps of DP-SGD by which a teacher has the paper's (0.0892, 1e-4)."""


def _profiles(m: int) -> tuple[Table, ...]:
    """Return what teachers that were trained by DP-SGD, and state it, keep in the paper's setting on MNIST."""
    try:
        curve = dp_sgd(*DP_SGD)
    except BackendUnavailable:  # dp_accounting is an extra
        return ()
    return (profile_table([(f"m = {m}", paper.problem(m, "mnist"))], curve),)


NOTES = (
    (
        "mean and std: over the draws, as in the paper; expected: the mean without the luck of the coins. Each draw "
        "has its own teachers here; on digits it holds 100 pictures out. Beside digits stand the paper's numbers for "
        "MNIST."
    ),
    (
        "paper's total ε: general composition of Q times (mε, δ), δ′ = 1e-4. It is not sound for private teachers that "
        "are trained once (their answers share randomness). by models: all models together are (ε, Δ)-DP, whatever is "
        "asked, and so is every label, at δ = Δ. by votes: the votes being given, a record changes one of them; exact "
        "recursion at the total δ."
    ),
    (
        "Teachers 'private' are trained at the paper's ε of one voter, and 'private, ε = 8' are the stand-in for the "
        "paper's: a part of the digits has 23 records where MNIST has a thousand, and at the paper's ε nothing can be "
        "learnt from 23. On those the paper's noise is applied as it is, to compare accuracies; it does not make a "
        "release (mε, δ)-DP, since the voters are not (ε, Δ)-DP at the paper's ε. What holds for them is by models."
    ),
)


def labelling_methods(teacher_votes: TeacherVotes, m: int) -> list[LabellingMethod]:
    """Return what is compared: the paper's three columns, and what it lacks."""
    problem, voter = paper.problem(m, teacher_votes.dataset), paper.voter(teacher_votes.dataset)
    target, plain = problem.target, NoiseFunction.from_upper_half(np.ones((K + 1) // 2), K)
    private = {"subsampling": subsampling(K, m), "optimal": solve(problem).noise}
    methods = [
        LabellingMethod("GNMax", "not private", None, gnmax(problem), "gnmax", target),
        LabellingMethod("γ_opt, affected = 1", "not private", None, solve(fixed_votes(problem)).noise, "", target),
        LabellingMethod("γ_Sub", "private", voter, private["subsampling"], "subsampling", target),
        LabellingMethod("γ_opt", "private", voter, private["optimal"], "optimal", target),
        LabellingMethod("none", "private", voter, plain),
    ]
    if teacher_votes.dataset == "digits":
        stand_in = f"private, ε = {STAND_IN.epsilon:g}"
        methods += [
            LabellingMethod("γ_Sub", stand_in, STAND_IN, private["subsampling"], "subsampling", target, proved=False),
            LabellingMethod("γ_opt", stand_in, STAND_IN, private["optimal"], "optimal", target, proved=False),
            LabellingMethod("none", stand_in, STAND_IN, plain),
        ]
    return [*methods, LabellingMethod("none", "not private", None, plain)]


def accuracy(noise: NoiseFunction, votes: Votes, truth: Votes, seed: int) -> tuple[float, float, float]:
    """Return mean and standard deviation over the draws of how often a released bit is right, and the expected mean."""
    ones = count_ones(votes.reshape(-1, K))
    chance = (1.0 + noise.signed) / 2  # of releasing 1, by the number of ones
    bits, _ = ExactCoins(chance).toss(ones, SeededRandomnessForTestsOnly(seed))
    means = (bits.reshape(truth.shape) == truth).mean(axis=1)
    chances_right = np.where(truth.ravel() == 1, chance[ones], 1.0 - chance[ones])
    deviation = float(means.std(ddof=1)) if means.size > 1 else 0.0
    return float(means.mean()), deviation, float(chances_right.mean())


def _row(teacher_votes: TeacherVotes, m: int, Q: int, method: LabellingMethod) -> tuple[Cell, ...]:
    problem = paper.problem(m, teacher_votes.dataset)
    measures = _accuracy(teacher_votes, Q, method.voter, method.noise)
    # The paper has no digits: beside them stand its numbers for MNIST.
    dataset = "mnist" if teacher_votes.dataset == "digits" else teacher_votes.dataset
    papers = str(accuracies()[m, dataset, Q, method.column]) if method.column else NEW
    target = method.noise_target
    # Only where a release is (mε, δ)-DP does the paper's composition say anything.
    if target is None or not method.proved:
        paper_total: Cell = "-"
    else:
        paper_total = kov_composition(target.epsilon, target.delta, Q, paper.SLACK).epsilon
    sound_total, account = _sound_total(method, problem, Q)
    row = (teacher_votes.dataset, Q, method.name, method.teachers, papers)
    return (*row, *measures, paper_total, sound_total, account)


def _sound_total(method: LabellingMethod, problem: Problem, Q: int) -> tuple[float, str]:
    """Return the total ε that holds of teachers trained once, and why."""
    if method.voter is not None:
        return method.voter.epsilon, "models"
    if method.noise_target is None:
        return math.inf, "votes"
    return exact(method.noise, fixed_votes(problem), Q, total_delta_of(problem.target, Q, paper.SLACK)), "votes"


@lru_cache(maxsize=32)
def _designs(target: Privacy, Q: int) -> tuple[Privacy, BestTarget, VoteMechanism, NoiseFunction]:
    """Return the paper's total for Q releases, and what is best within it: a target, GNMax, a γ for all releases."""
    spent = kov_composition(target.epsilon, target.delta, Q, paper.SLACK)
    total = Privacy(spent.epsilon, total_delta_of(target, Q, paper.SLACK))
    voters = Problem(K, Privacy(math.inf), target, 1)
    best = best_target(K, voters.voter, Q, total, 1)
    noisy = mechanism_class("gnmax").calibrated(K, 2, total, Q)
    sequence = design_sequence(voters, Q, total, seeds=[best.solution.noise, noisy.gamma])
    return total, best, noisy, sequence.noise


def _equal_total_rows(teacher_votes: TeacherVotes, m: int, Q: int) -> list[tuple[Cell, ...]]:
    """Return each method at its best within the total that the paper's account gives for Q releases."""
    target = paper.problem(m, teacher_votes.dataset).target
    total, best, noisy, sequence_noise = _designs(target, Q)
    # Models trained at the whole total: all that is computed from them is post-processing.
    plain = NoiseFunction.from_upper_half(np.ones((K + 1) // 2), K)
    release_text = f"({best.target.epsilon:.3g}, {best.target.delta:.2g}) a release"
    rows: list[tuple[str, str, Privacy | None, NoiseFunction, str]] = [
        ("GNMax", "not private", None, noisy.gamma, f"σ = {noisy.value:.3g}"),
        ("γ_opt, affected = 1", "not private", None, best.solution.noise, release_text),
        ("γ_opt, all releases", "not private", None, sequence_noise, "one γ made for all Q of them"),
        ("none", "trained at the total", total, plain, "any number of queries"),
    ]
    spent = (total.epsilon, total.delta)
    cells: list[tuple[Cell, ...]] = [
        (teacher_votes.dataset, Q, name, teachers, *_accuracy(teacher_votes, Q, voter, noise), *spent, remark)
        for name, teachers, voter, noise, remark in rows
    ]
    # One voter drawn is the noisiest γ_Sub: if that does not fit, none does.
    least = exact(subsampling(K, 1), fixed_votes(paper.problem(m, teacher_votes.dataset)), Q, total.delta)
    remark = "does not fit, not even with one voter drawn" if least > total.epsilon else "fits with one voter drawn"
    cells.insert(3, (teacher_votes.dataset, Q, "γ_Sub", "not private", "-", "-", "-", *spent, remark))
    return cells


def _accuracy(
    teacher_votes: TeacherVotes, Q: int, voter: Privacy | None, noise: NoiseFunction
) -> tuple[float, float, float]:
    return accuracy(noise, teacher_votes.votes(voter)[:, :Q], teacher_votes.truth[:, :Q], teacher_votes.seed)
