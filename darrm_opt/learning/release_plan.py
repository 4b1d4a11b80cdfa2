"""Release plan: how K trained voters release their vote within a total (ε, δ), decided before the data are seen.

Voters are trained once and asked many times. One answer reveals something about all later answers, so the releases of
*trained* private voters do not compose as if each voter were drawn afresh. Two accounts still hold, and the better is
used:

* **post-processing**: a record reaches r voters, each (ε, Δ)-DP, so all models together are as private as r of them
  composed, and so is everything computed from them: the plain vote, for any number of queries;
* **fixed models**: for any models, given the randomness of their training, a record changes at most r of them. The
  coins and the noise of a release are fresh for each query, so releases compose.

If every query has a fresh sample of the records, a record is in few of them, and all cost less: the mechanism is the
best of the ranking for that sampling.

A single query is a release of fresh voters: the γ for private voters, or the table for more classes or for groups of
voters with their own (ε, Δ), applies and is the best. Otherwise the mechanism is the best of the ranking within the
total: votes are fixed, and a table for private voters, at a stricter target, has more noise.

*Sampled voters*: for every query K voters of secretly sampled records, and no others.

Without an estimator they are the K nearest neighbours among all drawn records, as in private kNN: adding, removing or
replacing a record changes one vote, since at least K − 1 of the K nearest stay, and ties are broken by the order of the
records, which no other record changes. With an estimator each voter is a copy of it, trained on its own share. A voter
without a record, or a share, votes for the first class, independently of the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from darrm_opt.accounting.calibrate import epsilon_each
from darrm_opt.accounting.propose_test_release import LEADER_SHARE, Proposal, Reference, check_that_it_pays, propose
from darrm_opt.accounting.release_profile import Release
from darrm_opt.accounting.sampling import EACH_VOTER, Sampling
from darrm_opt.arguments import real_number, whole_number
from darrm_opt.design.solution import Solution, Status
from darrm_opt.design.solver import solve
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms import VoteMechanism, mechanism_class
from darrm_opt.mechanisms.base import TESTED
from darrm_opt.mechanisms.noise_function import CertifiedNoiseFunction
from darrm_opt.mechanisms.plain_vote import PlainVote
from darrm_opt.mechanisms.table import GroupTableMechanism
from darrm_opt.noise import check_unmasked
from darrm_opt.planning import design_within_total
from darrm_opt.problem import MAX_GROUP_CLASSES, Privacy, Problem, VoterGroup
from darrm_opt.release import EnsembleSampler, PrivateVote, ReleaseCounter, ReleaseLog, Sample
from darrm_opt.tables.corners import count_bound
from darrm_opt.tables.groups import MAX_CELLS, MAX_COUNTS, group_cells
from darrm_opt.tables.objective import as_table_objective
from darrm_opt.tables.solver import solve_table
from darrm_opt.tables.votes import Labels
from darrm_opt.teachers import trained

PRIOR, DEFAULT_PRIOR = "rectangular agreement", "dirichlet(0.2)"
"""Default priors: between two classes, and for more classes or with a price."""

MAX_CORNERS, MAX_SECONDS = 10**7, 60.0
"""Maximum number of corners of a table of groups, and its time limit [s]; beyond, voters count as not private."""

Design = Callable[[Problem], Solution]  # source of γ: `solve`, or the method ``gamma`` of a client of the service


@dataclass(frozen=True)
class VotingPlan:
    """Planned release and its price.

    Attributes:
        mechanism: the mechanism that releases; a `PlainVote` needs no noise.
        queries: number of releases allowed; None: no limit.
        total: upper bound on the (ε, δ) of all releases together.
        why: reason, in words.
        proposal: test that the votes of all queries together must pass; None: no test.
    """

    mechanism: VoteMechanism
    queries: int | None
    total: Privacy
    why: str
    proposal: Proposal | None = None


def voting_plan(
    K: int,
    classes: int = 2,
    *,
    queries: int,
    total: Privacy,
    affected: int = 1,
    voter: Privacy | None = None,
    groups: Sequence[VoterGroup] | None = None,
    sampling: Sampling | None = None,
    prior: str | None = None,
    price: float = 0.0,
    design: Design | None = None,
    ptr: Privacy | None = None,
    leader_share: float = LEADER_SHARE,
    progress: Callable[[str], None] | None = None,
) -> VotingPlan:
    """Return how K trained voters should release their vote.

    Args:
        K: number of voters.
        classes: C ≥ 2.
        queries: number of predictions, ≥ 1.
        total: (ε, δ) for all of them.
        affected: voters that one record reaches, 1..K.
        voter: (ε, Δ) of one voter's training, or a `PrivacyProfile`, all of whose points count; None: not private.
        groups: the K voters by privacy, instead of ``voter``, in the order of the columns of votes.
        sampling: how records are sampled for every query, for voters that are not private; None: voters are trained
            once.
        prior: expected distribution of votes, for accuracy only: for two classes as in `darrm_opt.planning.plan`, for
            more, or with a price, as in `darrm_opt.plurality.parse_prior`; for one query of private voters, as in
            `darrm_opt.tables.objective.as_table_objective`; None: a usual one.
        price: cost of a wrong class, when a right one is worth 1; above 0, an answer may be ⊥.
        design: makes or fetches γ of two classes; the target of one query is then that of optimal composition. None:
            the best mechanism is searched, and γ made, here.
        ptr: the total of propose-test-release, below ``total``: ``total`` is then that of any votes, which fixes the
            noise, and all queries are one batch, released only if a noisy test passes
            (`accounting.propose_test_release`). None: no test.
        leader_share: with ``ptr``: expected mean share of agreeing voters.
        progress: called with the name of each mechanism that a search has compared.

    Guarantees:
        All releases of the plan together are ``total``-DP, the queries being chosen freely in view of the answers; a
        tested batch is ``ptr``-DP.

    Raises:
        InvalidInput: a number is outside its range, a ``design`` with more classes, a price or groups, ``groups`` of
            other than K voters or with ``voter``, ``ptr`` with a design or a price, or if it does not pay, or a
            ``sampling`` with private voters, groups, a design or ``ptr``.

    >>> voting_plan(11, queries=100, total=Privacy(1.0), voter=Privacy(0.5)).mechanism.name
    'plain_vote'
    >>> voting_plan(11, 3, queries=2, total=Privacy(2.0)).mechanism.epsilon(2, 0.0) <= 2.0
    True
    """
    queries = whole_number(queries, "queries", "a whole number of predictions, at least 1")
    price = real_number(price, "price", "a finite number, at least 0")
    if design is not None and (classes > 2 or price):
        raise InvalidInput("design", design, "None with three or more classes or a price", "It makes γ of two classes.")
    if ptr is not None and (design is not None or price):
        raise InvalidInput("ptr", ptr, "None with a design or a price", "Propose-test-release needs a noisy maximum.")
    voters = _checked_voters(K, voter, groups, design, ptr, sampling)
    # Any r models are at least as private as r of the worst.
    worst = Privacy(max(one.voter.epsilon for one in voters), max(one.voter.delta for one in voters))
    if len({one.voter for one in voters}) == 1:
        worst = voters[0].voter  # with its whole profile
    if worst.epsilon < math.inf:
        plain = PlainVote(K, classes, worst, affected=affected)
        models = Privacy(plain.epsilon(1, total.delta), total.delta)
        if models.epsilon <= total.epsilon:
            return VotingPlan(
                plain,
                None,
                # One model is as private as its own (ε, Δ), or less at the total's δ.
                worst if affected == 1 and len(worst.points) == 1 and worst.delta <= total.delta else models,
                f"A record reaches {affected} of the {K} voters, and {affected} of them together are within the total: "
                "so is everything computed from their models. The plain vote needs no noise and no limit.",
            )
    # One release has no earlier one, so the voters' own privacy counts even if they were trained once.
    if queries == 1 and ptr is None:
        single = _single_release(voters, classes, total, affected, prior, price, design or solve)
        if single is not None:
            return VotingPlan(
                single, 1, total, f"One query, the best for voters of that privacy: {single.description}."
            )
    if ptr is not None:
        return _ptr_plan(K, classes, queries, total, affected, ptr, leader_share)
    # Several queries: votes are fixed given the models, whose own privacy must not be used again (docs/proofs.md).
    mechanism = (
        _best_mechanism(K, classes, affected, queries, total, prior, price, sampling, progress)
        if design is None
        else _best_split(K, affected, queries, total, design)
    )
    reach = f"A record changes at most {affected} of the {K} models."
    if sampling is not None:
        reach = f"A record is in few answers: {sampling.words}."
    why = f"The best mechanism for which {queries} answers fit in the total: {mechanism.description}."
    return VotingPlan(mechanism, queries, total, f"{reach} {why}")


def _ptr_plan(
    K: int, classes: int, queries: int, total: Privacy, affected: int, ptr: Privacy, leader_share: float
) -> VotingPlan:
    """Return a batch within ``total`` for any votes, which leaves only if its votes pass a test within ``ptr``."""
    # The noise is calibrated last, as that takes longest: targets that no noise allows are rejected before.
    tested = mechanism_class(TESTED)
    Reference(tested.of(K, classes, tested.range_for(K, classes)[1], affected).batch(queries), leader_share)
    if ptr.epsilon >= total.epsilon and ptr.delta >= total.delta:
        raise InvalidInput(
            "ptr", ptr, f"ε below {total.epsilon:g} or δ below {total.delta:g}", "Any votes have that total."
        )
    mechanism = tested.calibrated(K, classes, total, queries, affected=affected)
    try:
        # From public numbers only: a test chosen in view of the votes proves nothing.
        proposal = propose(mechanism.batch(queries), ptr, leader_share=leader_share)
        chance = check_that_it_pays(proposal, leader_share)
    except InvalidInput as err:
        if err.argument not in ("epsilon", "delta"):
            raise
        raise InvalidInput("ptr", ptr, err.accepted, err.advice) from err
    why = (
        f"{mechanism.description}: for any votes {queries} answers fit in ({total.epsilon:g}, {total.delta:g}). They "
        f"leave only if a noisy test passes, within ({ptr.epsilon:g}, {ptr.delta:g}): with chance {chance:.3g} "
        f"where {leader_share:.0%} of the voters agree on average."
    )
    return VotingPlan(mechanism, queries, ptr, why, proposal)


def _checked_voters(
    K: int,
    voter: Privacy | None,
    groups: Sequence[VoterGroup] | None,
    design: Design | None,
    ptr: Privacy | None,
    sampling: Sampling | None,
) -> list[VoterGroup]:
    alone = {"voter": voter, "groups": groups, "design": design, "ptr": ptr}
    for name, value in alone.items() if sampling is not None else ():
        if value is not None:
            raise InvalidInput(name, value, "None with a sampling", "Its voters are made anew for every query.")
    if groups is None:
        return [VoterGroup(K, voter or Privacy(math.inf))]
    if voter is not None or sum(group.K for group in groups) != K:
        raise InvalidInput("groups", groups, f"{K} voters in all, and no voter")
    if design is not None:
        raise InvalidInput("design", design, "None with groups", "It makes γ of voters that are alike.")
    return list(groups)


def _single_release(
    voters: list[VoterGroup],
    classes: int,
    total: Privacy,
    affected: int,
    prior: str | None,
    price: float,
    design: Design,
) -> VoteMechanism | None:
    """Return the γ or table for one query; None if no voter is private, or a table is out of reach."""
    sizes = [math.comb(group.K + classes - 1, classes - 1) for group in voters]
    is_table = classes > 2 or price > 0 or len(voters) > 1
    # From the counts only, before building a problem whose cells would fill the memory.
    if is_table and (classes > MAX_GROUP_CLASSES or math.prod(sizes) > MAX_COUNTS):
        return None
    # With public voters the search for any number of queries has this table among its candidates.
    if all(group.voter.epsilon == math.inf for group in voters):
        return None
    problem = Problem(groups=voters, target=total, affected=affected, classes=classes, abstention=price > 0).merged
    if problem.is_binary:
        return _certified_noise(_checked_solution(design, problem))
    if problem.is_public or len(group_cells(problem).owners) > MAX_CELLS:
        return None
    # a bound on the corners: counting them exactly may take longer than the solve.
    if count_bound(problem, problem.strictest.voters, range(len(problem.groups))) > MAX_CORNERS:
        return None
    solution = solve_table(problem, as_table_objective(prior or DEFAULT_PRIOR, price), time_limit=MAX_SECONDS)
    table = GroupTableMechanism(problem, solution.table)
    # a table cut short by the time limit may be worse than the result of the search.
    return table if solution.status is Status.OPTIMAL and table.fits(total, 1) else None


def _best_mechanism(
    K: int,
    classes: int,
    affected: int,
    queries: int,
    total: Privacy,
    prior: str | None,
    price: float,
    sampling: Sampling | None,
    progress: Callable[[str], None] | None,
) -> VoteMechanism:
    """Return the best mechanism of which ``queries`` releases fit in the total."""
    usual = PRIOR if classes == 2 and not price else DEFAULT_PRIOR
    best = design_within_total(
        K,
        classes,
        total,
        queries,
        affected=affected,
        prior=prior or usual,
        price=price,
        sampling=sampling,
        progress=None if progress is None else lambda option: progress(option.name),
    )
    if best.mechanism is not None:
        return best.mechanism
    if best.release is not None:
        return CertifiedNoiseFunction(best.release)
    # Nothing in the ranking fits, but γ_opt of a split of the total always does.
    return _best_split(K, affected, queries, total, solve)


def _best_split(K: int, affected: int, queries: int, total: Privacy, design: Design) -> VoteMechanism:
    """Return the better γ of two splits of δ between the queries and their composition."""
    shares = sorted({total.delta} if queries == 1 else {0.0, total.delta / (2 * queries)})
    targets = [total if queries == 1 else Privacy(epsilon_each(total, delta, queries), delta) for delta in shares]
    problems = [Problem(K, Privacy(math.inf), target, affected) for target in targets]
    return _certified_noise(max((_checked_solution(design, one) for one in problems), key=lambda made: made.utility))


def _checked_solution(design: Design, problem: Problem) -> Solution:
    """Return the γ of exactly that problem; its privacy is proved again on release."""
    solution = design(problem)
    if solution.problem != problem:
        raise InvalidInput("design", solution.problem, f"the γ of {problem}", "It answered another question.")
    return solution


def _certified_noise(solution: Solution) -> CertifiedNoiseFunction:
    return CertifiedNoiseFunction(Release.of(solution))


def check_sampling(sampling: Any, estimator: Any, alone: dict[str, tuple[Any, Any]]) -> None:
    """Reject arguments that no account of sampled voters covers; ``alone``: arguments and the only value of each."""
    if not isinstance(sampling, Sampling):
        raise InvalidInput("sampling", sampling, "a Sampling or None")
    for name, (value, only) in alone.items():
        if value != only:
            raise InvalidInput(name, value, f"{only!r} with sampling", "Its voters are made anew for every query.")
    if sampling.labels > 1:
        raise InvalidInput("sampling", sampling, "a sample for each prediction: labels = 1")
    if estimator is None and sampling.scheme in EACH_VOTER:
        advice = "The nearest neighbours share one sample; give an estimator, which each voter trains on its own."
        raise InvalidInput("sampling", sampling.scheme, "poisson or without-replacement without an estimator", advice)


def check_classifier(estimator: Any) -> None:
    """Reject an estimator that is not a classifier; None is the default classifier."""
    accepted = "a scikit-learn classifier, not its class, or None"
    names = ("fit", "predict", "get_params", "set_params")
    if estimator is None:
        return
    if isinstance(estimator, type) or not all(callable(getattr(estimator, name, None)) for name in names):
        raise InvalidInput("estimator", estimator, accepted, f"It needs {', '.join(names)}.")
    kind = getattr(estimator, "_estimator_type", None)
    if hasattr(estimator, "__sklearn_tags__"):  # since scikit-learn 1.6, which alone has get_tags
        from sklearn.utils import get_tags

        kind = get_tags(estimator).estimator_type
    if kind not in (None, "classifier"):
        raise InvalidInput("estimator", estimator, accepted, f"It is a {kind}, which does not predict classes.")


def class_votes(predictions: Any, rows: int, classes: int) -> NDArray[np.int64]:
    """Return a voter's predictions as class numbers, shape (rows,), or reject them without showing them."""
    check_unmasked(predictions, "estimator")
    found = np.asarray(predictions)
    if found.shape == (rows, 1):
        found = found[:, 0]
    accepted = f"a classifier that predicts one of the classes 0 to {classes - 1} for each row, as it was trained on"
    is_number = found.dtype.kind in "biuf"
    if found.shape != (rows,) or not is_number or not np.isin(found, np.arange(classes)).all():
        advice = "For probabilities, let predict return argmax(axis=1)."
        raise InvalidInput("estimator", f"predictions of shape {found.shape}, {found.dtype}", accepted, advice)
    return found.astype(np.int64)


class SampledVoters:
    """K voters made anew for each row from a sample of the records, which are kept and must never be published."""

    def __init__(
        self,
        X: NDArray[Any],
        y: NDArray[np.int64],
        K: int,
        sampling: Sampling,
        estimator: Any,
        seed: int,
        classes: int | None = None,
    ) -> None:
        self._made_of = X, y, K, sampling, estimator, seed, classes
        self._classes = int(y.max()) + 1 if classes is None else classes
        self._sampler = EnsembleSampler(sampling, K, records=len(X))

    def __reduce__(self) -> Any:
        return SampledVoters, self._made_of  # a copy has its own randomness

    def release(self, mechanism: VoteMechanism, budget: ReleaseLog | ReleaseCounter, rows: NDArray[Any]) -> Labels:
        """Return a private class number for each row, each from its own sample, which is charged before use."""
        if isinstance(budget, ReleaseLog):
            samples = self.samples(len(rows))
            budget.charge_samples(samples)
            return PrivateVote(mechanism, budget).release_many(self._all_votes(samples, rows), samples=samples)
        # a counter knows no rounds: every draw is charged, in as few rounds as the total is for.
        return budget.charge_and_release(
            len(rows), lambda _: PrivateVote(mechanism).release_many(self._all_votes(self.samples(len(rows)), rows))
        )

    def _all_votes(self, samples: Sequence[Sample], rows: NDArray[Any]) -> NDArray[np.int64]:
        return np.array([self.votes(sample, row) for sample, row in zip(samples, rows, strict=True)])

    def samples(self, count: int) -> list[Sample]:
        """Return ``count`` fresh samples."""
        return [self._sampler.draw() for _ in range(count)]

    def votes(self, sample: Sample, row: NDArray[Any]) -> NDArray[np.int64]:
        """Return the K votes on a row as class numbers."""
        X, y, K, _, estimator, seed, _ = self._made_of
        votes = np.zeros(K, dtype=np.int64)
        if estimator is None:
            drawn = sample.records
            nearest = drawn[np.argsort(np.linalg.norm(X[drawn] - row, axis=1), kind="stable")[:K]]
            votes[: nearest.size] = y[nearest]
            return votes
        for number, share in enumerate(sample.shares):
            if share.size:
                voter = trained(partial(clone, estimator), X[share], y[share], (seed, number, 0))
                votes[number] = class_votes(voter.predict(row[None, :]), 1, self._classes)[0]
        return votes

    def try_voter(self) -> None:
        """Train and query a voter on synthetic records, before anything is charged; InvalidInput if it fails."""
        X, _, _, _, estimator, seed, _ = self._made_of
        if estimator is None:
            return
        # In [0, 1), which all kinds of classifiers accept; an error there says nothing about its answers.
        made_up = np.random.default_rng(0).random((8 * self._classes, X.shape[1]))
        voter, labels = clone(estimator), np.arange(len(made_up)) % self._classes
        try:
            predicted = trained(lambda: voter, made_up, labels, (seed, 0, 0)).predict(made_up[:1])
        except Exception:  # noqa: BLE001 - any error of the user's own code
            return
        class_votes(predicted, 1, self._classes)
