"""Is any total of several releases below what an adversary really attains?

Random sequences of up to six releases (`campaigns.transcripts` is the oracle); for each

- every account of `total_privacy_of_sequence` is held against the exact δ at its ε, and so are `exact_epsilon` and a
  budget that was charged with the releases (`PrivacyBudget`);
- one in `EVERY` is also given to `most_releases`, `best_target` and `compare`: what they return, released as often as
  they say, has to be within the total that they were asked for.

    PYTHONPATH=tests python -m campaigns.totals --sequences 10000 --record totals.jsonl --write docs/soundness.md
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from campaigns.driver import Campaign, Row, Tally, listed, table
from campaigns.transcripts import Fresh, Once, least_epsilon
from darrm_opt import InvalidInput, NoiseFunction, NotPrivate, Privacy, Problem, solve
from darrm_opt.accounting import (
    BudgetExceeded,
    DeltaTooSmall,
    PrivacyBudget,
    Release,
    TooMuchWork,
    total_privacy_of_sequence,
)
from darrm_opt.accounting.total import exact_epsilon
from darrm_opt.baselines import double_subsampling, subsampling, subsampling_mixture
from darrm_opt.design.privacy_profile import privacy_profile
from darrm_opt.mechanisms import mechanism_class
from darrm_opt.mechanisms.vote_noise import GaussianNoise, LaplaceNoise, noise_function
from darrm_opt.planning import best_target
from darrm_opt.planning.compare import compare
from darrm_opt.release import most_releases

MAX_RELEASES = 6
MAX_K = 7

EVERY = 25  # one sequence in this many is also put to the designs

Oracle = Fresh | Once


def optimal(rng: np.random.Generator, voters: Problem) -> NoiseFunction:
    """Return γ_opt of a random target."""
    epsilon = float(rng.choice([0.1, 0.3, 0.7, 1.5])) * (
        1 if math.isinf(voters.voter.epsilon) else voters.voter.epsilon
    )
    target = Privacy(epsilon * float(rng.choice([1.0, 2.0])), float(rng.choice([0.0, 1e-6, 1e-3, 0.03])))
    noise: NoiseFunction = solve(Problem(voters.K, voters.voter, target, voters.affected)).noise
    return noise


def _rate(rng: np.random.Generator) -> float:
    return float(np.exp(rng.uniform(math.log(0.05), math.log(2.0))))


MECHANISMS: dict[str, Callable[[np.random.Generator, Problem], NoiseFunction]] = {
    "gamma_opt": optimal,
    "subsampling": lambda rng, voters: subsampling(voters.K, int(rng.integers(1, voters.K + 1))),
    "subsampling_mixture": lambda rng, voters: subsampling_mixture(voters.K, float(rng.uniform(0.1, 1.0))),
    "double_subsampling": lambda rng, voters: double_subsampling(
        voters.K, int(rng.integers(1, (voters.K + 1) // 2 + 1))
    ),
    "randomized_response": lambda rng, voters: NoiseFunction(np.full(voters.K + 1, rng.uniform(0.01, 0.9)), voters.K),
    "gnmax": lambda rng, voters: noise_function(voters.K, GaussianNoise.of_sigma(1 / _rate(rng))),
    "laplace": lambda rng, voters: noise_function(voters.K, LaplaceNoise(1 / _rate(rng))),
    "permute_and_flip": lambda rng, voters: mechanism_class("permute_and_flip").of(voters.K, 2, _rate(rng)).gamma,
    "exponential": lambda rng, voters: mechanism_class("exponential").of(voters.K, 2, _rate(rng)).gamma,
}
"""Every way of releasing a majority, with a parameter at random."""


@dataclass(frozen=True)
class ReleaseCase:
    """Releases one after the other, and the δ of their total."""

    releases: tuple[Release, ...]  # in their order, each with its proof
    ways: tuple[str, ...]  # by name, likewise
    fresh: bool  # whether the voters are
    total_delta: float  # at which the total is asked [probability]

    @property
    def voters(self) -> Problem:
        """K, the voters' privacy, and how many a record reaches."""
        return self.releases[0].problem

    @property
    def parts(self) -> list[tuple[Release, int]]:
        """The releases, counted."""
        return [*Counter(self.releases).items()]

    def __str__(self) -> str:
        voters = self.voters
        return (
            f"K={voters.K} {voters.voter} affected={voters.affected} fresh={self.fresh} "
            f"total delta={self.total_delta:g}: {', '.join(self.ways)}"
        )


def draw_case(rng: np.random.Generator) -> ReleaseCase:
    """Return a random sequence."""
    K = int(rng.integers(1, MAX_K + 1))
    epsilon = math.inf if rng.random() < 0.2 else float(np.exp(rng.uniform(math.log(0.02), math.log(2.0))))
    Delta = 0.0 if math.isinf(epsilon) or rng.random() < 0.6 else float(10 ** rng.uniform(-6, -1.5))
    affected = int(rng.integers(1, K + 1)) if rng.random() < 0.5 else K
    voters = Problem(K, Privacy(epsilon, Delta), Privacy(1.0, 0.5), affected)
    names = [str(name) for name in rng.choice([*MECHANISMS], size=int(rng.choice([1, 1, 2, 2, 3])))]
    kinds = [
        (name, prove_release(MECHANISMS[name](rng, voters), voters, float(rng.choice([0.05, 0.3, 1.0, 3.0]))))
        for name in names
    ]
    order = [kinds[int(place)] for place in rng.integers(0, len(kinds), size=int(rng.integers(1, MAX_RELEASES + 1)))]
    total_delta = float(rng.choice([1e-9, 1e-6, 1e-4, 1e-2, 0.1]))
    return ReleaseCase(
        tuple(release for _, release in order), tuple(name for name, _ in order), bool(rng.random() < 0.5), total_delta
    )


def prove_release(noise: NoiseFunction, voters: Problem, epsilon: float) -> Release:
    """Return a γ as a release of (ε, its own δ at ε), proved like any other."""
    delta = float(privacy_profile(noise, voters, [epsilon]).deltas[0])
    if delta > 0.999:  # the plain majority of voters that are not private shows all, and is no release
        noise = NoiseFunction(0.9 * noise.values, voters.K)
        delta = float(privacy_profile(noise, voters, [epsilon]).deltas[0])
    for slack in (1e-9, 1e-6, 1e-3):
        target = Privacy(epsilon, min(delta * (1 + slack) + slack * 1e-3, 1 - 1e-9))
        try:
            return Release(noise, Problem(voters.K, voters.voter, target, voters.affected))
        except NotPrivate:
            continue
    raise AssertionError(f"not private by its own profile: {noise}, {voters}, {epsilon}")


def oracle_of(noises: Sequence[NoiseFunction], voters: Problem, *, fresh: bool) -> Oracle:
    """Return what an adversary attains with these releases in this order."""
    pairs = [(noise, voters) for noise in noises]
    if fresh or math.isinf(voters.voter.epsilon) or len(pairs) == 1:
        return Fresh.of(pairs)
    return Once.of(pairs)


@dataclass(frozen=True)
class Finding:
    """What came of one sequence."""

    case: ReleaseCase  # the sequence
    # (claimed ε, claimed δ, exact δ at that ε) by the name of what claimed it
    totals: dict[str, tuple[float, float, Fraction]]
    truth: float  # the ε that is attained at the total δ [nats]
    claimed: float  # the least total ε [nats]; inf where none is proved
    method: str  # the account that proves it
    complete: bool  # whether the oracle went through all pairs

    @property
    def broken(self) -> dict[str, tuple[float, float, Fraction]]:
        """The claims that are below the truth."""
        return {name: claim for name, claim in self.totals.items() if claim[2] > Fraction(claim[1])}


def examine(case: ReleaseCase, *, designs: bool = False) -> Finding:
    """Compare every claim about a sequence with the oracle; ``designs``: and what is designed within a total."""
    voters, n = case.voters, len(case.releases)
    oracle = oracle_of([release.noise for release in case.releases], voters, fresh=case.fresh)
    claims: dict[str, Privacy] = {}
    against: dict[str, Oracle] = {}
    account = total_privacy_of_sequence(case.parts, case.total_delta, fresh=case.fresh)
    claims |= {f"best: {name}": total for name, total in account.totals.items()}
    try:
        claimed, method = account.best.epsilon, account.method
    except (DeltaTooSmall, TooMuchWork):
        claimed, method = math.inf, "none"
    if len(set(case.releases)) == 1:
        noise, budget = case.releases[0].noise, Privacy(2.0, case.total_delta)
        try:
            exact = exact_epsilon(noise, voters, n, case.total_delta, fresh=case.fresh, points=4001)
            claims["exact_epsilon"] = Privacy(exact, case.total_delta)
        except (DeltaTooSmall, TooMuchWork):
            pass
        queries = min(n, most_releases(case.releases[0], budget, fresh=case.fresh).queries) if designs else 0
        if queries:
            claims["most_releases"] = budget
            against["most_releases"] = oracle_of([noise] * queries, voters, fresh=case.fresh)
    claims |= _budget_claims(case)
    if designs:
        budget = Privacy(float(min(2.0, 0.2 * n)), 1e-3)
        for name, noise in _design_claims(voters, n, budget, fresh=case.fresh):
            claims[name], against[name] = budget, oracle_of([noise] * n, voters, fresh=case.fresh)
    totals = {}
    for name, claim in claims.items():
        if claim.epsilon < math.inf:
            totals[name] = (claim.epsilon, claim.delta, against.get(name, oracle).delta(claim.epsilon))
    return Finding(case, totals, least_epsilon(oracle, case.total_delta), claimed, method, oracle.complete)


def _budget_claims(case: ReleaseCase) -> dict[str, Privacy]:
    """Return what budgets say was spent: the releases one by one, or the models if they were trained once."""
    voters, spent = case.voters, dict[str, Privacy]()
    once = not (case.fresh or math.isinf(voters.voter.epsilon) or len(case.releases) == 1)
    events = [voters.voter] * voters.affected if once else [release.privacy for release in case.releases]
    for accounting in ("best", "simple"):
        accountant = PrivacyBudget(Privacy(60.0, 0.9), accounting)
        try:
            for event in events:
                accountant.charge(event)
        except BudgetExceeded:
            continue
        spent[f"budget, {accounting}"] = accountant.spent
    return spent


def _design_claims(
    voters: Problem, queries: int, budget: Privacy, *, fresh: bool
) -> Iterator[tuple[str, NoiseFunction]]:
    """Yield γ that are claimed to fit a budget when they are released that often, by who claims it."""
    try:
        allowance = best_target(voters.K, voters.voter, queries, budget, voters.affected, fresh=fresh)
        if allowance.account != "models":  # else any γ of these very models is post-processing
            yield "best_target", allowance.solution.noise
        table = compare(voters, queries, budget, fresh=fresh)
    except (DeltaTooSmall, TooMuchWork, InvalidInput):
        return
    for row in table.rows:
        if row.noise is not None:
            yield f"compare: {row.name}", row.noise


def finding_of(seed: int, number: int) -> Finding:
    """Examine the sequence of that number."""
    return examine(draw_case(np.random.default_rng((seed, number))), designs=number % EVERY == 0)


def row(found: Finding) -> Row:
    """Return what is kept of a finding."""
    case, kinds = found.case, [f"account: {found.method}", *(f"way: {way}" for way in found.case.ways)]
    voters = "not private" if math.isinf(case.voters.voter.epsilon) else "fresh" if case.fresh else "trained once"
    voters = "one release" if len(case.releases) == 1 else voters
    kinds += [f"claim: {_claimant(name)}" for name in found.totals]
    kinds += [f"below: {_claimant(name)}" for name in found.broken]
    faults = [
        f"below the truth, {name}: ({epsilon!r}, {delta!r}), attained {float(exact)!r}: {case}"
        for name, (epsilon, delta, exact) in found.broken.items()
    ]
    oracle = f"{voters} | {'all pairs' if found.complete else 'a lower end'}"
    return Row(faults, kinds, {f"truth | {oracle}": found.truth, f"claimed | {oracle}": found.claimed})


def _claimant(name: str) -> str:
    """Return who claims it, all rows of a comparison being one."""
    return name.partition(":")[0] if name.startswith("compare") else name


def lines(tally: Tally) -> Iterator[str]:
    """Yield the tables."""
    claims, below = tally.kinds("claim"), tally.kinds("below")
    yield from table(
        ("what claims it", "claims", "below the truth"), [(n, claims[n], below[n]) for n in sorted(claims)]
    )
    yield ""
    unproved, rows = 0, []
    for oracle in sorted({name.partition(" | ")[2] for row in tally.rows for name in row.values}):
        values = zip(tally.values(f"truth | {oracle}"), tally.values(f"claimed | {oracle}"), strict=True)
        pairs = [(truth, claimed) for truth, claimed in values if claimed < math.inf]
        unproved += len(tally.values(f"truth | {oracle}")) - len(pairs)
        excess = np.array([claimed - truth for truth, claimed in pairs] or [math.nan])
        ratios = [claimed / truth for truth, claimed in pairs if truth > 1e-3]
        spread = [f"{value:.2g}" for value in (*np.quantile(excess, [0.5, 0.9, 0.99]), excess.max())]
        rows.append((oracle, len(pairs), *spread, f"{np.median(ratios):.4f}" if ratios else "–"))
    head = (
        "voters",
        "oracle",
        "sequences",
        "ε claimed − ε attained: median",
        "90 %",
        "99 %",
        "largest",
        "median ratio",
    )
    yield from table(head, rows)
    yield ""
    yield f"Nothing finite is proved, nor claimed, for {unproved} sequences. Releases by way: {listed(tally.kinds('way'))}"
    yield f"Sequences by the account that is least: {listed(tally.kinds('account'))}"


CAMPAIGN = Campaign(
    "totals", __doc__, "sequences", 10_000, lambda seed, number: row(finding_of(seed, number)), lines, verb="totals"
)

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main())
