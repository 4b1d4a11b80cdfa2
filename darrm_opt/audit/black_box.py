"""Audit of a black box: a lower bound on ε from samples, at a pair of neighbours and an event chosen by other samples.

Half of the samples explore: every pair of neighbours gets a few, the better half of the pairs twice as many, and so on
(successive halving); a pair is judged by what these samples alone would show. The other half is drawn afresh at the
remaining pair. Clopper–Pearson bounds of the probabilities of one event on both sides, each wrong with half of the
allowed probability, bound ε from below. The exploration has no part in the bound, so the choice does not bias it.

The idea is from the literature (Ding and others 2018, StatDP; Bichsel and others 2021, DP-Sniper); the code is our own.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import subprocess
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from tempfile import TemporaryFile
from typing import Any

import numpy as np

from darrm_opt.audit.claim import Claim, Counterexample, Counts, SampledBound
from darrm_opt.audit.exact import compositions
from darrm_opt.errors import DarrmError, InvalidInput
from darrm_opt.noise import Array
from darrm_opt.optional_packages import require
from darrm_opt.search import least_fitting

Draws = Callable[[Sequence[Any], int], Sequence[Sequence[Hashable]]]
"""Inputs and a count → that many answers to each input, each with fresh randomness."""

POWER = 0.9  # probability with which a black box with the `SampledBound.detectable` ε would have been refuted

MAX_EXPLORED, MAX_EVENTS, FEWEST = 400, 64, 50
"""Most explored pairs of neighbours, most answers of an event, and fewest samples of an input at a time."""

OUTWARD = 1e-9
"""Relative distance by which bounds of probabilities move outwards, to cover the arithmetic of their quantiles."""

MAX_ANSWER = 200  # mean length of an answer of a command beyond which no more is read [bytes]
GIVEN_UP = 0.1  # error probability of a bound that only explores


@dataclass(frozen=True)
class ChosenEvent:
    """An event at a pair of inputs, chosen by samples."""

    before: Any
    after: Any
    answers: tuple[Hashable, ...]
    hits: int  # on the second input
    trials: int
    drawn: int = 0  # answers drawn to choose it


def command_draws(command: str) -> Draws:
    """Return the draws of a command that reads one input per line and writes one answer per line.

    Vote counts are separated by commas. The command is started several times and must not repeat its random numbers.
    """
    words = shlex.split(command)

    def draw(inputs: Sequence[Any], count: int) -> list[list[str]]:
        lines = "".join(f"{_line(given)}\n" * count for given in inputs)
        most = MAX_ANSWER * count * len(inputs)
        with TemporaryFile() as given, TemporaryFile() as complaints:
            given.write(lines.encode())
            given.seek(0)
            with subprocess.Popen(words, stdin=given, stdout=subprocess.PIPE, stderr=complaints) as process:  # noqa: S603 — the user's command
                assert process.stdout is not None  # noqa: S101 - for the type checker: a pipe was asked for
                output = process.stdout.read(most + 1)
                if len(output) > most:  # it may never end
                    process.kill()
            complaints.seek(max(0, complaints.seek(0, os.SEEK_END) - 200))
            complaint = complaints.read().decode(errors="replace")
        answers = [answer.strip() for answer in output.decode(errors="replace").splitlines()]
        if process.returncode or len(answers) != count * len(inputs):
            raise DarrmError(
                f"{command}: {len(answers)} answers to {count * len(inputs)} inputs, exit code {process.returncode}. "
                f"It must write one line for each input line. {complaint}"
            )
        return [answers[start : start + count] for start in range(0, len(answers), count)]

    return draw


def _line(given: Any) -> str:
    plain = isinstance(given, tuple) and all(type(each) is int for each in given)
    return ",".join(map(str, given)) if plain else json.dumps(given)


def explored_pairs(claim: Claim) -> list[tuple[Counts, Counts]]:
    """Return neighbouring vote counts to explore: all, or those near ties and unanimity and a random part."""
    if math.comb(claim.K + claim.classes - 1, claim.classes - 1) <= MAX_EXPLORED:
        starts = compositions(claim.K, claim.classes)
    else:
        rng = np.random.default_rng(0)
        starts = [_near(claim, leaders, lead) for leaders in range(1, claim.classes + 1) for lead in range(4)]
        shares = rng.dirichlet(np.full(claim.classes, 0.5), MAX_EXPLORED)
        starts += [tuple(rng.multinomial(claim.K, each).tolist()) for each in shares]
    pairs: dict[tuple[Counts, Counts], None] = {}
    for counts in starts:
        for other in claim.neighbours_of(counts):
            pairs[counts, other] = None
            pairs[other, counts] = None
    found = list(pairs)
    if len(found) <= 2 * MAX_EXPLORED:
        return found
    step = np.random.default_rng(0).permutation(len(found))[: 2 * MAX_EXPLORED]
    return [found[place] for place in sorted(step.tolist())]


def _near(claim: Claim, leaders: int, lead: int) -> Counts:
    """Return counts where ``leaders`` classes share the votes nearly equally, the first with a few more."""
    share, rest = divmod(claim.K, leaders)
    counts = [share] * leaders + [0] * (claim.classes - leaders)
    counts[0] += rest
    moved = min(lead, counts[leaders - 1]) if leaders > 1 else 0
    counts[0] += moved
    counts[leaders - 1] -= moved
    return tuple(counts)


def sampled_bound(
    draws: Draws, claim: Claim, pairs: Sequence[tuple[Any, Any]], samples: int, confidence: float
) -> tuple[SampledBound, Counterexample]:
    """Return a lower bound on ε of all releases at the claimed δ, and the event that shows it.

    ``pairs``: neighbouring inputs, (before, after). ``samples``: total number of answers.

    Guarantees: True with probability ≥ ``confidence`` if draws are independent and identically distributed per input.
    """
    # Half of the answers choose the event: a bound from the same answers would not hold for it.
    chosen = _explore(draws, claim, pairs, samples // 2)
    trials = max(FEWEST, (samples - samples // 2) // 2)
    event = set(chosen.answers)
    drawn = draws([chosen.before, chosen.after], trials)
    hits = [sum(answer in event for answer in answers) for answers in drawn]
    # Two bounds, one per side: both hold with the confidence.
    wrong = (1 - confidence) / 2
    low = float(_at_least(np.array(hits[0]), trials, wrong))
    high = float(_at_most(np.array(hits[1]), trials, wrong))
    epsilon, least, on_data, on_neighbour = shown_epsilon(low, high, claim)
    # The detectable ε tells how much an audit that finds nothing means.
    detectable = _detectable(float(_at_most(np.array(chosen.hits), chosen.trials, 0.5)), trials, wrong, claim)
    bound = SampledBound(epsilon, confidence, detectable, POWER, chosen.drawn + 2 * trials)
    names = tuple(sorted(chosen.answers, key=str))
    return bound, Counterexample(chosen.before, chosen.after, names, least, on_data, on_neighbour)


def shown_epsilon(low: float, high: float, claim: Claim) -> tuple[float, int, float, float]:
    """Return the ε shown by an event of probability ≥ low, and ≤ high on the neighbour; at k hits; both probabilities.

    The probabilities of k hits or more grow with that of one hit, so bounds of the one bound the other.
    """
    ks = np.arange(1, claim.releases + 1)
    if claim.releases == 1:
        on_data, on_neighbour = np.array([low]), np.array([high])
    else:
        stats: Any = require("scipy.stats", "an audit of several releases")
        on_data = stats.binom.sf(ks - 1, claim.releases, low) * (1 - OUTWARD)
        on_neighbour = stats.binom.sf(ks - 1, claim.releases, high) * (1 + OUTWARD)
    with np.errstate(divide="ignore", invalid="ignore"):
        epsilons = np.log((on_data - claim.privacy.delta) / on_neighbour)
    epsilons = np.nan_to_num(epsilons, nan=-1.0, neginf=-1.0)
    best = int(np.argmax(epsilons))
    return max(0.0, float(epsilons[best])), int(ks[best]), float(on_data[best]), float(on_neighbour[best])


def _explore(draws: Draws, claim: Claim, pairs: Sequence[tuple[Any, Any]], samples: int) -> ChosenEvent:
    """Return the pair and the event that look worst, by successive halving."""
    if not pairs:
        raise InvalidInput("pairs", [], "at least one pair of neighbouring inputs")
    left = list(pairs)
    rounds = max(1, math.ceil(math.log2(len(left))))
    seen: dict[str, Counter[Hashable]] = {}
    scored: list[tuple[float, ChosenEvent]] = []
    for _ in range(rounds):
        inputs = {repr(side): side for pair in left for side in pair}
        each = max(FEWEST, samples // rounds // len(inputs))
        for name, answers in zip(inputs, draws(list(inputs.values()), each), strict=True):
            seen.setdefault(name, Counter()).update(answers)
        scored = sorted(_scored(left, seen, claim), key=lambda one: -one[0])
        left = [(chosen.before, chosen.after) for _, chosen in scored[: max(1, len(left) // 2)]]
    return replace(scored[0][1], drawn=sum(each.total() for each in seen.values()))


def _scored(
    pairs: Sequence[tuple[Any, Any]], seen: dict[str, Counter[Hashable]], claim: Claim
) -> list[tuple[float, ChosenEvent]]:
    """Return the score of each pair from the samples so far, and its event."""
    orders = [_falling_answers(seen[repr(before)], seen[repr(after)]) for before, after in pairs]
    columns = []
    for side in (0, 1):
        of_pairs = [(seen[repr(pair[side])], answers) for pair, answers in zip(pairs, orders, strict=True)]
        hits = np.concatenate([np.cumsum([counts[answer] for answer in answers]) for counts, answers in of_pairs])
        columns.append((hits, np.concatenate([np.full(len(answers), counts.total()) for counts, answers in of_pairs])))
    # The quantiles of all pairs in one call: a thousand numbers take about as long as one.
    low, high = _at_least(*columns[0], GIVEN_UP), _at_most(*columns[1], GIVEN_UP)
    with np.errstate(divide="ignore", invalid="ignore"):
        if claim.releases == 1:
            scores = np.log((low - claim.privacy.delta) / high)
        else:  # several releases: how many standard deviations apart the numbers of hits are
            scores = (low - high) / np.sqrt(high * (1 - high) / claim.releases)
    scores, found, start = np.nan_to_num(scores, nan=-math.inf), [], 0
    for pair, answers in zip(pairs, orders, strict=True):
        # The event of all answers is trivial.
        best = start + int(np.argmax(scores[start : start + max(1, len(answers) - 1)]))
        event = ChosenEvent(*pair, answers[: best - start + 1], *(int(column[best]) for column in columns[1]))
        found.append((float(scores[best]), event))
        start += len(answers)
    return found


def _falling_answers(first: Counter[Hashable], second: Counter[Hashable]) -> tuple[Hashable, ...]:
    """Return the answers by decreasing ratio of their probabilities on the two sides."""
    trials = first.total(), second.total()
    answers = (answer for answer, _ in (first + second).most_common(MAX_EVENTS))
    return tuple(
        sorted(answers, key=lambda answer: -(first[answer] + 0.5) / trials[0] / ((second[answer] + 0.5) / trials[1]))
    )


def _at_least(hits: Any, trials: Any, wrong: float) -> Array:
    """Return lower bounds of probabilities, each wrong with probability ≤ ``wrong`` (Clopper, Pearson 1934)."""
    beta: Any = require("scipy.stats", "an audit by samples").beta
    bound = beta.ppf(wrong, hits, trials - hits + 1)
    return np.asarray(np.where(hits > 0, bound, 0.0) * (1 - OUTWARD))


def _at_most(hits: Any, trials: Any, wrong: float) -> Array:
    """Return upper bounds of probabilities, each wrong with probability ≤ ``wrong``."""
    beta: Any = require("scipy.stats", "an audit by samples").beta
    bound = beta.isf(wrong, hits + 1, trials - hits)
    return np.minimum(1.0, np.where(hits < trials, bound, 1.0) * (1 + OUTWARD))


def _detectable(chance: float, trials: int, wrong: float, claim: Claim) -> float | None:
    """Return the least ε of all releases refuted with probability `POWER` at this probability on the neighbour."""
    binom: Any = require("scipy.stats", "an audit by samples").binom
    high = float(_at_most(binom.ppf((1 + POWER) / 2, trials, chance), trials, wrong))

    def refutes(likely: float) -> bool:
        low = float(_at_least(binom.ppf((1 - POWER) / 2, trials, likely), trials, wrong))
        return shown_epsilon(low, high, claim)[0] > claim.privacy.epsilon

    if not refutes(1.0):
        return None
    return shown_epsilon(least_fitting(refutes, chance, 1.0, 1e-6), chance, claim)[0]
