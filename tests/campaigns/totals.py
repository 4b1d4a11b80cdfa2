"""Is any total of several releases below what an adversary really attains?

Random sequences of up to six releases (`support.transcripts` is the oracle); for each

- every account of `total_privacy_of_sequence` is held against the exact δ at its ε, and so are `exact_epsilon` and a
  budget that was charged with the releases (`PrivacyBudget`);
- one in `--every` is also given to `most_releases`, `best_target` and `compare`: what they return, released as often as
  they say, has to be within the total that they were asked for.

    PYTHONPATH=tests python -m campaigns.totals --sequences 10000 --record totals.jsonl --write docs/soundness.md

With ``--record`` every finding is appended to a file, a line of JSON each, and what it has of this seed is not examined
again: a run that was interrupted goes on where it stopped, and the lines of several runs can be put into one file.
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np
from support.transcripts import Fresh, Once, least_epsilon

from campaigns.pages import listed, origin, publish, read_options
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

PART = "## Totals of several releases"
"""Heading of this campaign's part of the page."""

MAX_RELEASES = 6
MAX_K = 7

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


@dataclass(frozen=True)
class Record:
    """What is counted of one finding: plain values, a line of JSON."""

    seed: int  # of the campaign
    every: int  # one sequence in so many was put to the designs
    number: int  # of the sequence
    ways: list[str]  # of releasing, one for each release
    voters: str  # "one release", "fresh", "not private" or "trained once"
    complete: bool  # whether the oracle went through all pairs
    truth: float  # the ε that is attained [nats]
    claimed: float | None  # the least total ε [nats]; None where none is proved
    method: str  # the account that proves it
    claims: list[str]  # who claimed a total
    broken: list[str]  # who claimed one below the truth

    @classmethod
    def of(cls, finding: Finding, seed: int, every: int, number: int) -> Record:
        """Return what is counted of a finding."""
        voters = finding.case.voters.voter.epsilon
        kind = "not private" if math.isinf(voters) else "fresh" if finding.case.fresh else "trained once"
        if len(finding.case.releases) == 1:
            kind = "one release"
        return cls(
            seed,
            every,
            number,
            [*finding.case.ways],
            kind,
            finding.complete,
            finding.truth,
            None if math.isinf(finding.claimed) else finding.claimed,
            finding.method,
            [*finding.totals],
            [*finding.broken],
        )


def campaign(sequences: int, seed: int = 0, *, every: int = 25, first: int = 0) -> Iterator[Finding]:
    """Yield the findings of that many sequences; each has its own generator, so that one can be looked at alone."""
    for number in range(first, first + sequences):
        yield finding_of(seed, every, number)


def finding_of(seed: int, every: int, number: int) -> Finding:
    """Examine the sequence of that number."""
    return examine(draw_case(np.random.default_rng((seed, number))), designs=number % every == 0)


def read_records(path: Path, seed: int, every: int) -> dict[int, Record]:
    """Return a file's records of one seed, by number; a last line that was cut off is removed."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    complete_text = text[: text.rfind("\n") + 1]
    if complete_text != text:
        path.write_text(complete_text, encoding="utf-8")
    records = (Record(**json.loads(line)) for line in complete_text.splitlines())
    return {record.number: record for record in records if (record.seed, record.every) == (seed, every)}


@dataclass
class Tally:
    """Findings, counted."""

    sequences: int = 0
    claims: Counter[str] = field(default_factory=Counter)
    below: Counter[str] = field(default_factory=Counter)
    ways: Counter[str] = field(default_factory=Counter)
    methods: Counter[str] = field(default_factory=Counter)
    none: int = 0
    excess: dict[tuple[str, bool], list[tuple[float, float]]] = field(default_factory=dict)

    def add(self, record: Record) -> None:
        """Count one finding."""
        self.sequences += 1
        self.claims.update(map(_claimant, record.claims))
        self.below.update(map(_claimant, record.broken))
        self.ways.update(record.ways)
        self.methods[record.method] += 1
        if record.claimed is None:
            self.none += 1
        else:
            self.excess.setdefault((record.voters, record.complete), []).append((record.truth, record.claimed))

    def lines(self) -> Iterator[str]:
        """Yield the tables, as Markdown."""
        yield "| what claims it | claims | below the truth |"
        yield "|---|--:|--:|"
        for name, count in sorted(self.claims.items()):
            yield f"| {name} | {count} | {self.below[name]} |"
        yield ""
        yield "| voters | oracle | sequences | ε claimed − ε attained: median | 90 % | 99 % | largest | median ratio |"
        yield "|---|---|--:|--:|--:|--:|--:|--:|"
        for (kind, complete), pairs in sorted(self.excess.items()):
            excess = np.array([claimed - truth for truth, claimed in pairs])
            ratios = [claimed / truth for truth, claimed in pairs if truth > 1e-3]
            ratio = f"{np.median(ratios):.4f}" if ratios else "–"
            spread = " | ".join(f"{value:.2g}" for value in (*np.quantile(excess, [0.5, 0.9, 0.99]), excess.max()))
            yield f"| {kind} | {'all pairs' if complete else 'a lower end'} | {len(pairs)} | {spread} | {ratio} |"
        yield ""
        yield f"Nothing finite is proved, nor claimed, for {self.none} sequences. Releases by way: {listed(self.ways)}"
        yield f"Sequences by the account that is least: {listed(self.methods)}"


def _claimant(name: str) -> str:
    """Return who claims it, all rows of a comparison being one."""
    return name.partition(":")[0] if name.startswith("compare") else name


def report(tally: Tally, command: str) -> str:
    """Return the part of the page that says what was run and what came of it."""
    return "\n".join([PART, "", *_HEAD, *tally.lines(), "", origin(command), ""])


_HEAD = (
    (
        f"Random sequences of 1 to {MAX_RELEASES} releases of majorities of K ≤ {MAX_K} voters: γ_opt, subsampling, "
        "its mixtures,"
    ),
    "double subsampling, randomised response, GNMax, SAA, permute-and-flip and the exponential mechanism with",
    "parameters at random, up to three different γ mixed; ε from 0.02 to 2 and inf, Δ = 0 and 1e-6 to 0.03,",
    "records that reach 1 to K voters, voters fresh or trained once, total δ from 1e-9 to 0.1. Every total",
    "that any account gives is held against what an adversary attains, computed in fractions:",
    "",
    "- voters that are fresh, or not private: the best of all adaptive strategies that place every voter at any",
    "  corner of F before each bit. Where there are too many (*a lower end*) some pairs are left out;",
    "- voters that were trained once: models with one secret bit each, asked in view of the bits before. Real",
    "  models may hold more, so this is a lower end.",
    "",
    "One sequence in `--every` is also put to `most_releases`, `best_target` and every row of `compare`, whose γ",
    "have to fit the total when released.",
    "",
)


def main(arguments: Sequence[str]) -> int:
    """Run the campaign; 1 if any total is below the truth."""
    options = read_options(
        __doc__,
        arguments,
        sequences=10_000,
        seed=0,
        first=(0, "number of the first sequence"),
        every=(25, "one sequence in so many is put to the designs as well"),
        seconds=(math.inf, "stop after so many [s]; the page says the true number"),
        record=(Path, "file of findings to go on with, a line of JSON each"),
        write=Path,
    )
    tally, start = Tally(), time.monotonic()
    records = read_records(options.record, options.seed, options.every) if options.record else {}
    for number in range(options.first, options.first + options.sequences):
        if number in records:
            tally.add(records[number])
            continue
        if time.monotonic() - start > options.seconds:
            break
        finding = finding_of(options.seed, options.every, number)
        for name, (epsilon, delta, exact) in finding.broken.items():
            sys.stdout.write(
                f"BELOW THE TRUTH {name}: ({epsilon!r}, {delta!r}), attained {float(exact)!r}: "
                f"{number}: {finding.case}\n"
            )
        record = Record.of(finding, options.seed, options.every, number)
        tally.add(record)
        if options.record:
            with options.record.open("a", encoding="utf-8") as file:
                file.write(json.dumps(dataclasses.asdict(record)) + "\n")
        if tally.sequences % 100 == 0:
            sys.stderr.write(f"{tally.sequences} of {options.sequences}\n")
    arguments_ = f"--sequences {tally.sequences} --seed {options.seed} --every {options.every}"
    arguments_ += f" --first {options.first}" if options.first else ""
    page = report(tally, f"make totals ARGS='{arguments_}'")
    if tally.sequences < options.sequences:
        page += f"\nThis run was stopped by the clock: {options.sequences:,} sequences were asked for.\n"
    publish(page, options.write, PART)
    return 1 if tally.below else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
