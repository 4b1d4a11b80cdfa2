"""Vote mechanisms: from vote counts to a class or ⊥, sampled exactly in whole numbers.

- `RuleMechanism`: a certified table; each output has exactly the probability that `PluralityRule` states;
- `NoisyMaximum`: GNMax with the discrete Gaussian on every count (for any number of classes, with no table), or
  Confident-GNMax, which first checks whether the largest count plus noise reaches a threshold. Its account is that of
  the discrete noise itself (`darrm_opt.accounting.labels`);
- `SelectionMechanism`: permute-and-flip and the exponential mechanism, with no table either. Their coins have chances
  e^−x for rational x, and are tossed without computing them.

Source of the discrete Gaussian: Canonne, Kamath, Steinke 2020 (`discrete_gaussian`), and of the coin
(`exponential_chance`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from darrm_opt.accounting import PrivacyBudget
from darrm_opt.design.report import guarantee
from darrm_opt.errors import InvalidInput
from darrm_opt.plurality.record import KIND as RULE_KIND
from darrm_opt.plurality.record import rule_from_record, rule_record
from darrm_opt.problem import Privacy, real_number, whole_number
from darrm_opt.randomness.samplers import discrete_gaussian, exponential_chance, shuffled
from darrm_opt.randomness.source import RandomSource
from darrm_opt.rounding import float_above
from darrm_opt.tables.certificate import PluralityCertificate, verify_rule
from darrm_opt.tables.problem import ABSTENTION, PluralityProblem
from darrm_opt.tables.rule import PluralityRule, rule_laws

if TYPE_CHECKING:
    from darrm_opt.accounting.labels.power_divergence import PowerDivergence

MAX_RELEASES = 10**7
"""Most releases that a budget is found to allow."""

MAX_NOISY_CLASSES = 2**15
"""Most classes of a noisy maximum: a released class is stored in 16 bits."""

PRECISION = 0.01
"""The number of noisy maxima that fit is found to this share of itself, from below."""

MAX_SELECTION_RATE = 1000.0
"""Largest rate of a selection mechanism: a class that is one vote behind never comes out there."""

SELECTIONS = ("permute_and_flip", "exponential")
"""Names of selection mechanisms."""

NOISE_KIND, SELECTION_KIND = "darrm noisy maximum", "darrm selection mechanism"
"""What their records say they are."""

MECHANISM_KINDS = (RULE_KIND, NOISE_KIND, SELECTION_KIND)
"""What the record of any mechanism says it is."""

NOISE_FORMAT = 2
"""Version of the record of a noisy maximum; 1 had no cap."""

NOISE_FIELDS = ("K", "classes", "sigma", "threshold", "check_sigma", "affected", "cap")
SELECTION_FIELDS = ("name", "K", "classes", "rate", "affected")
"""Fields of the records, which are the arguments of the mechanisms."""

_SIGMA = "a standard deviation, a finite number of votes, at least 1"


class VoteMechanism(ABC):
    """What turns vote counts into a class or ⊥.

    Attributes:
        K: voters.
        classes: C.
        affected: votes that one record can move.
        cap: most classes that leave over all releases; after them every answer is ⊥, whatever the votes. None: no cap.
    """

    K: int
    classes: int
    affected: int
    cap: int | None = None

    @abstractmethod
    def draw(self, counts: tuple[int, ...], source: RandomSource) -> int:
        """Return a class 0..C−1, or `ABSTENTION`, for vote counts.

        Args:
            counts: votes for each class.
            source: random bits.
        """

    @abstractmethod
    def epsilon(self, releases: int, delta: float) -> float:
        """Return ε of so many releases together at δ, proved, rounded up [nats].

        Args:
            releases: how many.
            delta: δ of all together [probability].
        """

    def fits(self, budget: Privacy, releases: int) -> bool:
        """Return whether so many releases are proved to fit in a total (ε, δ).

        Args:
            budget: the total.
            releases: how many.
        """
        return self.epsilon(releases, budget.delta) <= budget.epsilon

    @abstractmethod
    def most_releases(self, budget: Privacy) -> tuple[int, str]:
        """Return how many releases are proved to fit in a total (ε, δ), and by which account."""

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """Return the mechanism as plain data, for a log."""

    @property
    @abstractmethod
    def description(self) -> str:
        """What it does, in a few words."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoteMechanism) and self.record() == other.record()

    def __hash__(self) -> int:
        return hash((type(self), self.K, self.classes))


class RuleMechanism(VoteMechanism):
    """A certified rule, sampled exactly.

    Args:
        problem: what must hold of one release.
        rule: proved private here, again, from its doubles.

    Raises:
        NotPrivate: the rule is not private for the problem.
        InvalidInput: the rule is for other voters, classes or outputs.
    """

    def __init__(self, problem: PluralityProblem, rule: PluralityRule) -> None:
        self.certificate: PluralityCertificate = verify_rule(problem, rule)
        self.problem, self.rule = problem, rule
        self._divergence: PowerDivergence | None = None
        self.K, self.classes, self.affected = problem.K, problem.classes, problem.affected

    def draw(self, counts: tuple[int, ...], source: RandomSource) -> int:
        """Return a class 0..C−1, or `ABSTENTION`, each with exactly its probability.

        Args:
            counts: votes for each class.
            source: random bits.
        """
        cells = self.rule.cell_of(counts)
        position = source.below(self.rule.denominator)  # uniform; the output is where it falls among the numerators
        output = 0
        for cell in cells[:-1]:  # all of them, whichever it is
            position -= self.rule.numerators[cell]
            output += position >= 0
        return ABSTENTION if output == self.classes else int(output)

    def epsilon(self, releases: int, delta: float) -> float:
        """Return ε of so many releases together at δ, by optimal composition of (ε, δ)-DP, or of all neighbours' laws.

        The second account is for tables with δ = 0 and a total with δ > 0.

        Args:
            releases: how many.
            delta: δ of all together [probability].
        """
        from darrm_opt.accounting.composition.optimal import optimal_composition
        from darrm_opt.accounting.errors import DeltaTooSmall
        from darrm_opt.accounting.labels.composition import composed_epsilon

        target = self.problem.target
        try:
            by_composition = optimal_composition(target.epsilon, target.delta, releases, delta).epsilon
        except DeltaTooSmall:
            return math.inf
        if target.delta or not delta:
            return by_composition
        self._divergence = self._divergence or rule_laws(self.rule, self.affected).divergence
        if self._divergence is None:
            return by_composition
        return min(by_composition, composed_epsilon([(self._divergence, releases)], delta).epsilon)

    def fits(self, budget: Privacy, releases: int) -> bool:
        """Return whether so many releases are proved to fit in a total (ε, δ).

        Args:
            budget: the total.
            releases: how many.
        """
        return PrivacyBudget(budget).fits(self.problem.target, releases) or super().fits(budget, releases)

    def most_releases(self, budget: Privacy) -> tuple[int, str]:
        """Return how many releases fit, by optimal composition of (ε, δ)-DP, or by all neighbours' laws."""
        by_composition = min(PrivacyBudget(budget).affordable(self.problem.target), MAX_RELEASES)
        if self.problem.target.delta or not budget.delta or by_composition <= 1:
            return by_composition, "optimal"
        by_laws = _most_fitting(lambda releases: self.epsilon(releases, budget.delta), budget.epsilon)
        return (by_composition, "optimal") if by_composition >= by_laws else (by_laws, "laws")

    def record(self) -> dict[str, Any]:
        """Return the mechanism as plain data."""
        return rule_record(self.problem, self.rule)

    @property
    def description(self) -> str:
        """What it does, in a few words."""
        return f"a table, each released class {guarantee(self.problem.target)}"


class NoisyMaximum(VoteMechanism):
    """GNMax with discrete Gaussian noise, and Confident-GNMax where there is a threshold.

    Args:
        K: voters, ≥ 1.
        classes: C, 2 to `MAX_NOISY_CLASSES`.
        sigma: σ ≥ 1 of the noise on each count [votes]; taken at its exact value.
        threshold: ⊥ is released unless the largest count + N(0, check_sigma²) is at least this [votes]; None: no check.
        check_sigma: σ₁ ≥ 1 of the check's noise [votes]; needed with a threshold, and only then.
        affected: votes that one record can move, 1..K.
        cap: most labels over all releases, ≥ 1, with a threshold only; None: as many as there are releases.
            `PluralityLog` counts them.

    Raises:
        InvalidInput: a number is outside its range.
    """

    def __init__(
        self,
        K: int,
        classes: int,
        sigma: float,
        *,
        threshold: float | None = None,
        check_sigma: float | None = None,
        affected: int = 1,
        cap: int | None = None,
    ) -> None:
        self.K, self.classes, self.affected = _shape(K, classes, affected)
        self.sigma = _sigma(sigma, "sigma")
        if (threshold is None) != (check_sigma is None):
            raise InvalidInput("check_sigma", check_sigma, "a number with a threshold, and none without")
        self.threshold = self.check_sigma = None
        if threshold is not None and check_sigma is not None:
            accepted = "a finite number of votes"
            self.threshold = real_number(threshold, "threshold", accepted)
            if not math.isfinite(self.threshold):
                raise InvalidInput("threshold", threshold, accepted)
            self.check_sigma = _sigma(check_sigma, "check_sigma")
        if cap is not None:
            self.cap = whole_number(cap, "cap", "a whole number of labels, at least 1")
            if threshold is None:
                raise InvalidInput("cap", cap, "None without a threshold", "The number of releases is the cap there.")

    def draw(self, counts: tuple[int, ...], source: RandomSource) -> int:
        """Return a class 0..C−1, or `ABSTENTION` where a check fails; ties are broken at random.

        Args:
            counts: votes for each class.
            source: random bits.
        """
        if self.threshold is not None and self.check_sigma is not None:
            noisy = max(counts) + discrete_gaussian(Fraction(self.check_sigma) ** 2, source)
            if noisy < self.threshold:
                return ABSTENTION
        variance = Fraction(self.sigma) ** 2
        noisy_counts = [count + discrete_gaussian(variance, source) for count in counts]
        leaders = [place for place, count in enumerate(noisy_counts) if count == max(noisy_counts)]
        return leaders[source.below(len(leaders))]

    def epsilon(self, releases: int, delta: float) -> float:
        """Return ε of so many releases together at δ, rounded up [nats].

        Each is charged its check, if there is one, and up to the cap its label.

        Args:
            releases: how many.
            delta: δ of all together [probability].
        """
        from darrm_opt.accounting.labels.vote_cost import VoteReleases, vote_cost

        labels = releases if self.cap is None else min(releases, self.cap)
        transcript = [VoteReleases("label", self.sigma, labels, "discrete")]
        if self.check_sigma is not None:
            transcript.append(VoteReleases("check", self.check_sigma, releases, "discrete"))
        return vote_cost(transcript, delta, classes=self.classes, affected=self.affected).epsilon

    def most_releases(self, budget: Privacy) -> tuple[int, str]:
        """Return how many releases fit, up to `PRECISION`, at the cost of `epsilon`."""
        if budget.delta == 0:
            return 0, "vote-cost"
        return _most_fitting(lambda releases: self.epsilon(releases, budget.delta), budget.epsilon), "vote-cost"

    def record(self) -> dict[str, Any]:
        """Return the mechanism as plain data."""
        return {"kind": NOISE_KIND, "format": NOISE_FORMAT, **{name: getattr(self, name) for name in NOISE_FIELDS}}

    @property
    def description(self) -> str:
        """What it does, in a few words."""
        noise = f"the largest count after discrete Gaussian noise of σ = {self.sigma:.6g} votes on each"
        if self.threshold is None:
            return noise
        check = f"if the largest count passes {self.threshold:g} votes after noise of σ = {self.check_sigma:.6g}"
        cap = "" if self.cap is None else f"; at most {self.cap:,} classes"
        return f"{noise}, {check}{cap}"


class SelectionMechanism(VoteMechanism):
    """Permute-and-flip or the exponential mechanism at a rate, for any number of voters and classes, sampled exactly.

    With d_c the votes by which class c is behind the leader, both toss coins that succeed with probability
    e^(−rate·d_c): permute-and-flip for one class after the other in a random order, the exponential mechanism for a
    class drawn anew each time; the first success is released.

    Args:
        name: one of `SELECTIONS`.
        K: voters, ≥ 1.
        classes: C, 2 to `MAX_NOISY_CLASSES`.
        rate: t > 0 [nats a vote], up to `MAX_SELECTION_RATE`; taken at its exact value.
        affected: votes that one record can move, 1..K.

    Guarantees:
        One release is 2·rate·affected-DP; `epsilon` proves totals of many.

    Raises:
        InvalidInput: a number is outside its range.

    Source: McKenna, Sheldon 2020; McSherry, Talwar 2007. Both are private without δ whatever the counts.
    """

    def __init__(self, name: str, K: int, classes: int, rate: float, *, affected: int = 1) -> None:
        if name not in SELECTIONS:
            raise InvalidInput("name", name, "one of " + ", ".join(SELECTIONS))
        self.name = name
        self.K, self.classes, self.affected = _shape(K, classes, affected)
        accepted = f"a number of nats a vote above 0, at most {MAX_SELECTION_RATE:g}"
        self.rate = real_number(rate, "rate", accepted)
        if not 0 < self.rate <= MAX_SELECTION_RATE:
            raise InvalidInput("rate", rate, accepted)

    @property
    def each(self) -> Privacy:
        """(ε, 0) of one release: 2·rate·affected, rounded up [nats]."""
        return Privacy(float_above(2 * self.affected * Fraction(self.rate)))

    def draw(self, counts: tuple[int, ...], source: RandomSource) -> int:
        """Return a class 0..C−1, each with exactly its probability.

        Args:
            counts: votes for each class.
            source: random bits.
        """
        rate, largest = Fraction(self.rate), max(counts)

        def succeeds(place: int) -> bool:
            return exponential_chance(rate * (largest - counts[place]), source)

        if self.name == "permute_and_flip":
            return next(filter(succeeds, shuffled(range(self.classes), source)))  # the leader's coin always succeeds
        while not succeeds(place := source.below(self.classes)):
            pass
        return place

    def epsilon(self, releases: int, delta: float) -> float:
        """Return ε of so many releases together at δ, rounded up [nats].

        Args:
            releases: how many.
            delta: δ of all together [probability].
        """
        from darrm_opt.accounting.composition.optimal import optimal_composition
        from darrm_opt.accounting.labels.composition import bounded_range_divergence, composed_epsilon

        by_composition = optimal_composition(self.each.epsilon, 0.0, releases, delta).epsilon
        if self.name == "permute_and_flip" or delta == 0:
            return by_composition
        return min(
            by_composition, composed_epsilon([(bounded_range_divergence(self.each.epsilon), releases)], delta).epsilon
        )

    def most_releases(self, budget: Privacy) -> tuple[int, str]:
        """Return how many releases fit, by optimal composition, or as losses of a bounded range."""
        by_composition = min(PrivacyBudget(budget).affordable(self.each), MAX_RELEASES)
        if self.name == "permute_and_flip" or budget.delta == 0:
            return by_composition, "optimal"
        by_range = _most_fitting(lambda releases: self.epsilon(releases, budget.delta), budget.epsilon)
        return (by_composition, "optimal") if by_composition >= by_range else (by_range, "bounded range")

    def record(self) -> dict[str, Any]:
        """Return the mechanism as plain data."""
        return {"kind": SELECTION_KIND, "format": 1, **{name: getattr(self, name) for name in SELECTION_FIELDS}}

    @property
    def description(self) -> str:
        """What it does, in a few words."""
        return (
            f"{self.name.replace('_', ' ')} at {self.rate:.6g} nats a vote, each released class {guarantee(self.each)}"
        )


def mechanism_from_record(record: Any) -> VoteMechanism:
    """Return the mechanism of a record, proved here.

    Raises:
        InvalidInput: not such a record.
        NotPrivate: its rule is not private for its problem.
    """
    kind = (record.get("kind"), record.get("format")) if isinstance(record, dict) else None
    try:
        if kind == (SELECTION_KIND, 1):
            return SelectionMechanism(**{name: record[name] for name in SELECTION_FIELDS})
        if kind == (NOISE_KIND, NOISE_FORMAT):
            return NoisyMaximum(**{name: record[name] for name in NOISE_FIELDS})
    except KeyError as err:
        raise InvalidInput("mechanism", str(err), f"every field of a {record['kind']}") from err
    problem, rule, _ = rule_from_record(record)
    return RuleMechanism(problem, rule)


def planned_fields(queries: int, total: Privacy) -> dict[str, Any]:
    """Return what the record of a mechanism says of the queries that it was designed for.

    Args:
        queries: Q ≥ 1.
        total: (ε, δ) of all Q answers together.
    """
    return {"queries": queries, "total_epsilon": total.epsilon, "total_delta": total.delta}


def planned_total(record: dict[str, Any]) -> tuple[int, Privacy] | None:
    """Return the queries that a mechanism was designed for and their total, as `planned_fields` wrote them.

    Nothing is believed of them: `VoteMechanism.fits` proves the total.

    Returns:
        None where the record names none.

    Raises:
        InvalidInput: a field is missing or out of range.
    """
    names = ("queries", "total_epsilon", "total_delta")
    if not any(name in record for name in names):
        return None
    queries = whole_number(record.get("queries"), "queries", "a whole number of releases, at least 1")
    accepted = "a finite number of nats, at least 0"
    epsilon = real_number(record.get("total_epsilon"), "total_epsilon", accepted)
    delta = real_number(record.get("total_delta"), "total_delta", "a probability in [0, 1)")
    if not 0 <= epsilon < math.inf:
        raise InvalidInput("total_epsilon", epsilon, accepted)
    if not 0 <= delta < 1:
        raise InvalidInput("total_delta", delta, "a probability in [0, 1)")
    return queries, Privacy(epsilon, delta)


def _shape(K: int, classes: int, affected: int) -> tuple[int, int, int]:
    """Return voters, classes and votes that a record can move, checked."""
    K = whole_number(K, "K", "a whole number of voters, at least 1")
    accepted = f"a whole number of classes, 2 to {MAX_NOISY_CLASSES:,}"
    classes = whole_number(classes, "classes", accepted, least=2)
    if classes > MAX_NOISY_CLASSES:
        raise InvalidInput("classes", classes, accepted)
    affected = whole_number(affected, "affected", f"a whole number of votes in 1..{K}")
    if affected > K:
        raise InvalidInput("affected", affected, f"a whole number of votes in 1..{K}")
    return K, classes, affected


def _most_fitting(epsilon: Callable[[int], float], total: float) -> int:
    """Return about the most releases whose ε fits, up to `PRECISION`, from below; 0 if not even one does."""
    lower, upper, guess = 0, MAX_RELEASES + 1, 1
    while upper - lower > max(1.0, PRECISION * lower):
        spent = epsilon(guess)
        fits = spent <= total
        lower, upper = (guess, upper) if fits else (lower, guess)
        # ε grows about with the square root; aim a little beyond, so that the next one closes in from the other side.
        aim = guess * min(total / spent, 1e4) ** 2 * (1 + PRECISION / 2 if fits else 1 - PRECISION / 2)
        guess = min(max(math.floor(aim), lower + 1), upper - 1)
    return lower


def _sigma(value: float, argument: str) -> float:
    sigma = real_number(value, argument, _SIGMA)
    if not 1 <= sigma < math.inf:
        raise InvalidInput(argument, value, _SIGMA)
    return sigma
