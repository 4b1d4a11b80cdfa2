"""Sampled releases: cost of answers whose records are drawn anew for every query (`sampling`).

With A the law of the answer if the record is not in the sample, and B, B′ if it is, in each of two values, neighbours
show the pairs

    add-remove     (A, (1−q)A + qB) throughout a transcript, or its reverse throughout: each is composed, the larger
                   taken
    replace-one    ((1−q)A + qB, (1−q)A + qB′)

after any history, since the sample is fresh. `LawTriples` lists all (A, B, B′) if they are known; otherwise the generic
bound of Balle, Barthe and Gaboardi 2018 holds for any mechanism. The accounts:

    simple, optimal  a pure ε becomes ln(1 + q(e^ε − 1)), or the largest loss of the sampled pairs
    laws             one release, or few: the exact δ of the sampled pairs
    renyi            sums of Rényi divergences of the sampled pairs
    pld              convolution of the distribution defined by the largest δ of the sampled pairs; without them, by
                     (ε, δ) of the labels of one sample at several ε

Proofs: docs/proofs.md, "Ensembles that are drawn anew for every query".
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from darrm_opt.accounting.adaptive import adaptive_epsilon
from darrm_opt.accounting.bits.region import upper_chain
from darrm_opt.accounting.bounds import is_within, upper_bound
from darrm_opt.accounting.composition import evaluate
from darrm_opt.accounting.composition.optimal import epsilon_at_delta
from darrm_opt.accounting.guarantee import LawTriples, ReleaseGuarantee, Releases
from darrm_opt.accounting.law_pairs import LEAK, LawPairs, largest_deltas
from darrm_opt.accounting.mixture import AffectedDistribution
from darrm_opt.accounting.pld import Pld, pld_from_profile, profile_of_event, symmetric_profile
from darrm_opt.accounting.rdp import rdp_epsilon
from darrm_opt.accounting.sampling import EACH_VOTER, Sampling, amplify_by_subsampling
from darrm_opt.errors import DeltaTooSmall
from darrm_opt.noise import Array
from darrm_opt.problem import Privacy
from darrm_opt.rounding import ULP, up

SLACK_SHARE = 1e-3  # share of δ reserved for omitted rare answers and for noise that is cut off

FIRST_ORDERS: Array = 1 + np.geomspace(0.05, 1000, 40)
"""Orders at which Rényi divergences are computed first; `NEXT_ORDERS` more lie around the best of them."""
FIRST_ORDERS.setflags(write=False)

NEXT_ORDERS = 9

MAX_WHOLE_ORDER = 2048
WHOLE_ORDERS: Array = np.arange(2.0, MAX_WHOLE_ORDER + 1)
"""Orders of the divergences of an unsampled release, from which those of a sampled one follow."""
WHOLE_ORDERS.setflags(write=False)

SOME_ORDERS = np.array(sorted({round(order) for order in np.geomspace(2, MAX_WHOLE_ORDER, 80)}))
"""Orders at which the divergences of a sampled release are computed."""
SOME_ORDERS.setflags(write=False)

LOG_FACTORIALS: Array = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1.0, MAX_WHOLE_ORDER + 1)))])
LOG_FACTORIALS.setflags(write=False)

WHOLE_ERROR = 1e-8  # relative error of a sum of powers: exponents of at most some 10⁶ err by 10⁻⁹ in all

MIN_LOSS, KNOTS = 1e-7, 160
"""Smallest ε > 0 at which a profile is computed, and number of points on each side; chords in between."""

MAX_LOSS = 60.0  # largest ε at which a profile is computed

STEP_SHARE, MAX_STEPS = 0.3, 50_000
"""Discretisation of a PLD in standard deviations of one release's loss, and maximum steps to its largest loss."""

FEW = 100  # number of releases below which the discretisation is finer
MAX_EXPONENT = 700.0  # largest ε of a label that is used: e^ε is a double
POINTS = 24  # number of δ at which the labels of one sample are evaluated if their laws are unknown

RARE_SHARE, RARE_BELOW = 1e-4, 1e-4
"""Share of δ that truncation at a largest loss may cost in all, and probability of losses below its negative."""


def sampled_accounts(
    bounds: Callable[[int], ReleaseGuarantee | None],
    sampled_laws: Callable[[float], Sequence[LawTriples] | None],
    together: Callable[[float], float],
    divergences: Callable[[Array], Array | None],
    sampling: Sampling,
    K: int,
    affected: int,
    releases: int,
    delta: float,
) -> tuple[Releases, dict[str, Callable[[], Privacy]]]:
    """Return the known (ε, δ) of sampled releases, and their other accounts by name.

    ``bounds``: the guarantee of one release if a record moves a number of votes. ``sampled_laws``: the laws of one
    answer whose noise is cut off with at most a given probability. ``together``: ε at a δ of the labels of one sample,
    as if every record were in it; ``divergences``: their Rényi divergences at any orders.
    """
    if sampling.scheme in EACH_VOTER:
        return _each_voter(bounds, sampling, K, affected, releases, delta)
    queries = -(-releases // sampling.labels)
    release = bounds(affected) if sampling.labels == 1 else None
    families = sampled_laws(cut_of(delta, queries)) if sampling.labels == 1 else None
    pairs = [] if families is None else [family.pairs(sampling.chance) for family in families]
    missing = max((family.missing for family in families or ()), default=0.0)
    whole = None if release is None else release.event()  # as if every record were in the sample
    if whole is None and not (pairs and delta) and (pure := together(0.0)) < math.inf:
        whole = Privacy(pure)
    event = None if whole is None else amplify_by_subsampling(whole, sampling.chance)
    if pairs and not missing and all(laws.finite for family in pairs for laws in family):
        largest = max(laws.max_loss for family in pairs for laws in family)
        event = min(event or Privacy(largest), Privacy(largest), key=lambda each: (each.delta > 0, each.epsilon))
    events: Releases = [] if event is None else [(ReleaseGuarantee(event), queries)]
    if not delta:
        return events, {}
    sums: list[Callable[[], Privacy]] = []
    if not all(family.is_tight for family in families or ()) or not pairs:
        sums.append(partial(_renyi_of_divergences, divergences, sampling, queries, delta))
    if not pairs:
        points = partial(_convolution_of_points, together, whole, sampling.chance, queries, delta)
        return events, {"renyi": partial(_least, sums), "pld": points}
    # Each direction is composed separately: a record that one side has, it has in every query.
    directions = [list(laws) for laws in zip(*pairs, strict=True)]
    of_pairs: dict[str, Account] = {"laws": adaptive_epsilon}
    if queries > 1:
        of_pairs |= {"renyi": renyi_sums, "pld": convolved_epsilon}
    accounts: dict[str, Callable[[], Privacy]] = {
        name: partial(_worst, account, directions, missing, queries, delta) for name, account in of_pairs.items()
    }
    if sums:
        accounts["renyi"] = partial(_least, [*sums, *([accounts["renyi"]] if "renyi" in accounts else [])])
    return events, accounts


def cut_of(delta: float, releases: int) -> float:
    """Return the probability of noise that may be cut off from one release: half of δ's share for it."""
    return SLACK_SHARE * delta / (2 * releases)


def _least(accounts: Sequence[Callable[[], Privacy]]) -> Privacy:
    """Return the smallest total of the applicable accounts of the same releases at the same δ."""
    totals, errors = evaluate({str(number): account for number, account in enumerate(accounts)})
    if not totals:
        raise next(iter(errors.values()))
    return min(totals.values(), key=lambda total: total.epsilon)


def _renyi_of_divergences(
    divergences: Callable[[Array], Array | None], sampling: Sampling, queries: int, delta: float
) -> Privacy:
    """Return ε by Rényi sums of sampled releases, given only the divergences of unsampled ones."""
    known = divergences(WHOLE_ORDERS)
    if known is None or sampling.chance == 1:
        raise DeltaTooSmall(delta, 1.0, "the divergences of one sample are unknown")
    orders, sums = sampled_divergences(known, sampling.chance, replace=sampling.neighbours == "replace-one")
    sums = queries * sums * (1 + 4 * ULP)
    finite = np.isfinite(sums)
    if not finite.any():
        raise DeltaTooSmall(delta, 1.0, "the divergences of one sample overflow")
    return Privacy(rdp_epsilon(sums[finite], delta, orders[finite])[0], delta)


def sampled_divergences(known: Array, rate: float, *, replace: bool) -> tuple[Array, Array]:
    """Return integer orders and bounds on the Rényi divergences of a sampled release at each of them [nats].

    ``known``: bounds D_k on those of the pairs (A, B) of one release at `WHOLE_ORDERS`, neighbours in both orders.
    ``rate``: q in (0, 1).

    Source: with R = B/A and E over A, E R^k ≤ e^((k−1)D_k). A record removed: E(1 − q + qR)^a, a sum of these. One
    added: (1 + u)^−s ≤ 1 − su + ½s(s+1)(1 − q)^(−s−2)u² for u = q(R − 1) ≥ −q, and E u = 0. One replaced: Wang, Balle,
    Kasiviswanathan 2019, Theorem 9.
    """
    k, log_rate, log_rest = WHOLE_ORDERS, math.log(rate), math.log1p(-rate)
    moments = (k - 1) * known
    above_one = moments + np.log(-np.expm1(-np.maximum(moments, math.ulp(0.0))))  # ln(e^m − 1)
    found = []
    for a in SOME_ORDERS.tolist():
        upto = k <= a
        choices = LOG_FACTORIALS[a] - LOG_FACTORIALS[2 : a + 1] - LOG_FACTORIALS[a - 2 :: -1]
        exponents = choices + k[upto] * log_rate
        if replace:
            terms = exponents + moments[upto] + math.log(2)
            terms[0] = min(terms[0], exponents[0] + above_one[0] + math.log(4))
            logs = [float(np.logaddexp.reduce(terms))]
        else:
            removed = np.logaddexp.reduce(exponents + (a - k[upto]) * log_rest + above_one[upto])
            logs = [float(removed), math.log(a * (a - 1) / 2) + 2 * log_rate - (a + 1) * log_rest + above_one[0]]
        found.append(
            float(np.logaddexp(0.0, max(logs)) if max(logs) > 0 else math.log1p(math.exp(max(logs)))) / (a - 1)
        )
    divergences = np.array(found) * (1 + WHOLE_ERROR)
    return SOME_ORDERS.astype(np.float64), np.where(np.isnan(divergences), np.inf, divergences)


Account = Callable[[Sequence[LawPairs], int, float], float]


def _worst(
    account: Account, directions: Sequence[Sequence[LawPairs]], missing: float, queries: int, delta: float
) -> Privacy:
    """Return the larger ε of the directions, at the δ that remains after noise that is cut off."""
    epsilon = max(account(direction, queries, delta * (1 - SLACK_SHARE)) for direction in directions)
    return charged_noise(epsilon, queries * missing, delta)


def charged_noise(epsilon: float, missing: float, delta: float) -> Privacy:
    """Return (ε, δ) if all but `SLACK_SHARE` of δ is used, and noise is cut off with probability ``missing``."""
    if not is_within(missing, SLACK_SHARE * delta * (1 - 8 * ULP)):
        raise DeltaTooSmall(delta, missing, "noise that is cut off")
    # With Q′ the law given that none is, Q ≥ (1 − missing)·Q′: so e^ε grows by a factor, and δ by ``missing``.
    return Privacy(up(epsilon + 2 * missing, 1) if missing else epsilon, delta)


def renyi_sums(direction: Sequence[LawPairs], queries: int, delta: float) -> float:
    """Return ε by Rényi sums of the pairs."""
    # Answers with P at most some η are omitted: if their pair is revealed, a transcript has one of them with
    # probability at most queries·answers·η, which is charged to δ. The rest is a measure below P, whose sums multiply
    # as those of P do.
    rare = _rare(direction, queries, delta)
    left = delta * (1 - SLACK_SHARE) * (1 - 8 * ULP)
    logs = [logarithms(laws, rare) for laws in direction]

    def epsilon(orders: Array) -> tuple[float, float]:
        largest = np.max([log_moments(*each, orders) for each in logs], axis=0)
        divergences = queries * np.maximum(largest, 0.0) / (orders - 1) * (1 + 16 * ULP * orders / (orders - 1))
        known = np.isfinite(divergences)
        if not known.any():
            return math.inf, float(orders[0])
        return rdp_epsilon(divergences[known], left, orders[known])

    first, best = epsilon(FIRST_ORDERS)
    if first == math.inf:
        raise DeltaTooSmall(delta, delta, "an answer that is possible on only one of two neighbours")
    place = int(np.searchsorted(FIRST_ORDERS, best))
    ends = FIRST_ORDERS[[max(0, place - 1), min(place + 1, FIRST_ORDERS.size - 1)]] - 1
    second, _ = epsilon(1 + np.geomspace(ends[0], ends[1], NEXT_ORDERS + 2)[1:-1])
    return min(first, second)


def renyi_of_pairs(pairs: Sequence[LawPairs], orders: Array) -> Array:
    """Return bounds on the largest Rényi divergence of the pairs at each order above 1; inf if a loss is infinite."""
    logs = [logarithms(laws, 0.0) for laws in pairs]
    largest = np.maximum(np.max([log_moments(*each, orders) for each in logs], axis=0), 0.0)
    return np.asarray(largest / (orders - 1) * (1 + 16 * ULP * orders / (orders - 1)))


def _rare(direction: Sequence[LawPairs], queries: int, delta: float) -> float:
    """Return the probability up to which answers are omitted, so that all together are `SLACK_SHARE` of δ."""
    answers = int(max(laws.on_data.shape[1] for laws in direction))
    return SLACK_SHARE * delta / (queries * answers)


def logarithms(laws: LawPairs, rare: float) -> tuple[Array, Array]:
    """Return ln P and ln Q of the answers, −∞ and 0 for rare ones; P rounded up and Q down."""
    p, q = laws.bounds
    kept = p > rare
    with np.errstate(divide="ignore"):
        return np.where(kept, np.log(np.where(kept, p, 1.0)), -np.inf), np.where(kept, np.log(q), 0.0)


def log_moments(log_p: Array, log_q: Array, orders: Array) -> Array:
    """Return the largest ln Σ P^a·Q^(1−a) of the pairs at each order, rounded up, shape (orders,)."""
    finite = np.concatenate([log_p[np.isfinite(log_p)], log_q[np.isfinite(log_q)]])
    size = 1 + float(np.max(np.abs(finite), initial=0.0))
    answers, sums = log_p.shape[1], np.empty(orders.size)
    log_p, log_q = np.ascontiguousarray(log_p.T), np.ascontiguousarray(log_q.T)  # sums are fast along columns
    for place, order in enumerate(orders.tolist()):
        exponents = order * log_p - (order - 1) * log_q
        sums[place] = peak = float(exponents.max())
        if abs(peak) < math.inf:  # relative to the largest, no power overflows
            sums[place] += math.log(np.exp(exponents - peak).sum(axis=0).max())
    # an exponent errs by its terms in ulps, and the sum by the same.
    return np.asarray(sums + 16 * ULP * (orders * size + answers))


def convolved_epsilon(direction: Sequence[LawPairs], queries: int, delta: float) -> float:
    """Return ε by the PLD of the pair defined by the largest δ of the pairs."""
    # Rare answers are omitted as in `renyi_sums`: with r of P omitted, P̃ + rQ is a law that differs from P by r.
    rare = _rare(direction, queries, delta)
    knots = _knots(direction, rare)
    deltas = largest_deltas(direction, knots, rare)
    return composed_epsilon(_chords(knots, deltas), knots, deltas, queries, delta * (1 - SLACK_SHARE) * (1 - 8 * ULP))


TAIL = 1e-14  # total probability of larger losses that a distribution for other libraries counts as infinite


def direction_pld(direction: Sequence[LawPairs], missing: float, queries: int, step: float) -> Pld:
    """Return the PLD of ``queries`` releases whose pairs are in one direction, on multiples of ``step``.

    ``missing``: as in `charged_noise`, for one release.
    """
    knots = _knots(direction, 0.0)
    deltas = largest_deltas(direction, np.nextafter(knots - 2 * missing, -np.inf) if missing else knots)
    largest = _largest_loss(knots, deltas, queries, TAIL)
    deltas = np.minimum(1.0, (deltas + missing) * (1 + 4 * ULP))
    return pld_from_profile(_chords(knots, deltas), discretisation=step, max_loss=largest).repeated(queries)


def _knots(direction: Sequence[LawPairs], rare: float) -> Array:
    """Return values of ε, dense around 0, from the smallest to the largest loss of an answer that is not rare."""
    ends = [2 * MIN_LOSS, 2 * MIN_LOSS]
    for laws in direction:
        p, q = laws.bounds
        seen = (p > rare) & (q > 0)
        losses = np.log(p[seen] / q[seen])
        ends = [max(ends[0], -losses.min(initial=0.0)), max(ends[1], losses.max(initial=0.0) + 1e-9)]
    negative, positive = (np.geomspace(MIN_LOSS, min(end, MAX_LOSS), KNOTS) for end in ends)
    return np.concatenate([-negative[::-1], [0.0], positive])


def _chords(knots: Array, deltas: Array) -> Callable[[Array], Array]:
    """Return a profile by the chords between known values: δ is convex in e^ε and decreases with ε."""
    slopes, values = np.concatenate([[0.0], np.exp(knots)]), np.concatenate([[1.0], deltas])

    def profile(epsilons: Array) -> Array:
        return np.asarray(np.minimum(1.0, np.interp(np.exp(epsilons), slopes, values) * (1 + 16 * ULP)))

    return profile


def composed_epsilon(
    profile: Callable[[Array], Array],
    knots: Array,
    deltas: Array,
    queries: int,
    delta: float,
    step_share: float = STEP_SHARE,
) -> float:
    """Return ε of ``queries`` releases with a profile, by its PLD, on a grid that is fine for their spread."""
    if queries == 1:  # no grid: the profile itself, which is flat from its last knot
        return epsilon_at_delta(lambda epsilon: float(profile(np.array([epsilon]))[0]), delta, float(knots[-1]), LEAK)
    largest = _largest_loss(knots, deltas, queries, RARE_SHARE * delta)
    # The distribution function of the loss is a second difference of the profile; only its spread is needed.
    grid = np.linspace(-largest, largest, 2001)
    tail = -np.diff(profile(grid)) / np.diff(np.exp(grid))
    masses = np.clip(-np.diff(tail), 0.0, None) * np.exp(grid[1:-1])
    spread = math.sqrt(float(masses @ grid[1:-1] ** 2))
    share = step_share * min(1.0, math.sqrt(queries / FEW))  # for few releases a coarse grid would be noticeable
    step = max(min(share * spread, largest / 4), largest / MAX_STEPS)
    return pld_from_profile(profile, discretisation=step, max_loss=largest).repeated(queries).epsilon(delta)


def _largest_loss(knots: Array, deltas: Array, queries: int, rare: float) -> float:
    """Return a loss that ``queries`` releases together exceed with probability at most ``rare``."""
    # Losses above the largest count as infinite, and those below its negative as that: both must be rare.
    above = knots[(deltas - deltas[-1]) * queries <= rare]
    below = -knots[(deltas + np.expm1(knots)) * queries <= RARE_BELOW]
    return max(float(above.min(initial=knots[-1])), float(below[below > 0].min(initial=-knots[0])), 1e-6)


def _of_both_directions(
    knots: Array, deltas: Array, queries: int, delta: float, step_shares: Sequence[float] = (STEP_SHARE,)
) -> Privacy:
    """Return ε of ``queries`` releases whose δ is known at losses from 0 on, for both orders of the neighbours."""
    both, all_knots = symmetric_profile(_chords(knots, deltas)), np.concatenate([-knots[:0:-1], knots])
    found = [composed_epsilon(both, all_knots, both(all_knots), queries, delta, share) for share in step_shares]
    return Privacy(float(upper_bound(found).min()), delta)


def _convolution_of_points(
    together: Callable[[float], float], whole: Privacy | None, rate: float, queries: int, delta: float
) -> Privacy:
    """Return ε of sampled releases by what all labels of a sample are together: (ε, δ)-DP at several ε, and sampled."""
    # ``whole``: one such (ε, δ), where it is known.
    least = RARE_SHARE * delta / queries / rate * (1 - 64 * ULP)  # still rare after its rounding
    least = min(max(least, sys.float_info.min), 0.1)
    inside = [(together(each), each) for each in np.geomspace(least, 0.5, POINTS).tolist()]
    known = [*([] if whole is None else [whole]), *(Privacy(*each) for each in inside)]
    sampled = [amplify_by_subsampling(event, rate) for event in known if event.epsilon <= MAX_EXPONENT]
    if not sampled:
        raise DeltaTooSmall(delta, min(1.0, queries * rate), "nothing is proved of one sample")
    # The largest δ of all pairs, in both orders, is convex in e^ε, so the lower hull of the known values is used; at 0,
    # where its two sides meet, δ(0) ≤ (δ(ε) + t)/(1 + t) with t = (e^ε − 1)/2.
    halves = [(rate, 0.0), *((event.delta, math.expm1(event.epsilon) / 2) for event in sampled)]
    at_zero = min(1.0, *(up((delta + half) / (1 + half), 8) for delta, half in halves))
    points = [(0.0, -at_zero), *((event.epsilon, -event.delta) for event in sampled if event.epsilon > 0)]
    hull = {x: -y for x, y in upper_chain((math.expm1(epsilon), y) for epsilon, y in points)}
    knots = np.array(sorted(epsilon for epsilon, y in points if hull.get(math.expm1(epsilon)) == -y))
    deltas = np.minimum.accumulate([hull[math.expm1(epsilon)] for epsilon in knots])
    # A finer grid loses less to chords and more to rounding: neither is the better one everywhere.
    return _of_both_directions(knots, deltas, queries, delta, (STEP_SHARE, STEP_SHARE / 2))


def _each_voter(
    bounds: Callable[[int], ReleaseGuarantee | None],
    sampling: Sampling,
    K: int,
    affected: int,
    releases: int,
    delta: float,
) -> tuple[Releases, dict[str, Callable[[], Privacy]]]:
    """Return the accounts of voters that draw their own samples: a record reaches Binomial(K, q_v) of them."""
    # δ(ε′) ≤ Σ_k Pr[k]·δ_k(ε), e^ε′ = 1 + q(e^ε − 1), q = 1 − (1 − q_v)^K, δ_k for min(K, k·r) moved votes.
    voter = sampling.chance
    any_voter = min(1.0, up(-math.expm1(K * math.log1p(-voter)) if voter < 1 else 1.0, 8))
    events: Releases = []
    all_voters = bounds(K)
    pure = None if all_voters is None else all_voters.event()
    if pure is not None and pure.delta == 0:
        events = [(ReleaseGuarantee(amplify_by_subsampling(pure, any_voter)), releases)]
    reached = partial(_reached, bounds, voter, any_voter, K, affected, releases, delta)
    return events, {"pld": reached} if delta > 0 else {}


def _reached(
    bounds: Callable[[int], ReleaseGuarantee | None],
    voter: float,
    any_voter: float,
    K: int,
    affected: int,
    releases: int,
    delta: float,
) -> Privacy:
    knots = np.concatenate([[0.0], np.geomspace(MIN_LOSS, MAX_LOSS, KNOTS)])
    # Rounded up term by term: binomial coefficients of more than 1029 voters overflow.
    chances = AffectedDistribution.binomial(K, voter).chances
    deltas = np.zeros(knots.size)
    for k in range(1, K + 1):
        if sum(chances[k:]) * releases <= RARE_SHARE * delta:
            deltas += sum(chances[k:])  # as if these revealed everything
            break
        moved = min(K, k * affected)
        release = bounds(moved)
        if release is not None and release.laws is not None:
            deltas += chances[k] * release.laws()(knots)
        elif release is not None and (event := release.event()) is not None:
            deltas += chances[k] * profile_of_event(event)(knots)
        else:
            raise DeltaTooSmall(delta, 1.0, f"nothing is proved if a record moves {moved} votes")
    # Amplified by the probability that any voter has the record; the number that have it is in the mixture above.
    sampled = np.array([amplify_by_subsampling(Privacy(epsilon), any_voter).epsilon for epsilon in knots.tolist()])
    # Rounding of sums of up to K terms; and a profile only decreases.
    deltas = np.minimum.accumulate(np.minimum(deltas * (1 + 8 * ULP * K), 1.0))
    return _of_both_directions(sampled, deltas, releases, delta)
