"""Cost and calibration: what releases of a mechanism cost together, and which parameter fits in a total."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, ClassVar

from darrm_opt.accounting.sampling import Sampling
from darrm_opt.answers import Report, sampling_record
from darrm_opt.answers.filed import filed
from darrm_opt.arguments import field_number
from darrm_opt.design.report import count_text, guarantee
from darrm_opt.errors import InvalidInput, Rule, VerificationFailed
from darrm_opt.mechanisms import VoteMechanism, calibrated_names, mechanism_class
from darrm_opt.mechanisms.base import CHECKS, MAX_CLASSES
from darrm_opt.problem import Privacy
from darrm_opt.questions.question import Answer, answer_field, question_field
from darrm_opt.questions.sampled import AllocationAnswer, SampledQuestion, SamplingAnswer
from darrm_opt.questions.voters import PublicQuestion, WithinTotalQuestion
from darrm_opt.record import planned_fields

COST_SECONDS = 0.5  # about how long the cost of a mechanism takes [s]: up to a second and a half for 1000 releases
CALIBRATION_SECONDS = 5.0  # about how long a calibration takes [s]: 1 to 13, most where bits are accounted for
CURVE_DELTAS = tuple(float(f"1e-{power}") for power in range(12, 1, -1))  # δ of the points of a curve

CURVE_SHARES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
"""Numbers of releases of the points of a curve, in multiples of the number that is asked."""

MEANINGLESS_EPSILON = 20.0  # total ε above which an answer says that it gives no meaningful privacy [nats]

SAMPLED_SHARE = 4.0
"""Time where records are sampled, in multiples: most of them take less, and labels with four cells up to this."""


class CostPoint(Answer):
    """Point of a curve."""

    queries: int = answer_field("Releases.")
    delta: float = answer_field("δ of all of them together [probability].")
    epsilon: float | None = answer_field("Their least ε that is proved [nats]; null where none is.")
    account: str = answer_field("The account that proves it.")


class CostAnswer(Answer):
    """What releases of a mechanism cost together, as `darrm cost --json` says it."""

    mechanism: VoteMechanism = answer_field("Its name.", json=str)
    parameter: float = answer_field("Its parameter, as given or as found.")
    epsilon: float = answer_field(
        "The least ε of all releases together that an account proves [nats]; null where none does.", json=float | None
    )
    delta: float = answer_field("δ at which it is proved [probability].")
    affected: int = answer_field("Number of votes that one record can influence.")
    account: str = answer_field("The account that proves it; none where none does.")
    sampling: Sampling | None = answer_field(
        "How records are drawn anew for every query; null where all are in every query.",
        None,
        json=SamplingAnswer | AllocationAnswer | None,
    )
    design_hash: str | None = answer_field(
        "Hash of the design, as `darrm statement` has it for the file that `darrm cost --output` writes; null where "
        "no ε is proved.",
        None,
    )
    zcdp: float | None = answer_field("A ρ for which the releases are ρ-zCDP; null where none is proved.", None)
    curve: list[CostPoint] | None = answer_field(
        "ε over δ, and over the number of releases; null where it was not asked.", None
    )

    def record(self) -> dict[str, Any]:
        """Return the cost as plain data; ε is None where nothing is proved."""
        return {
            "mechanism": self.mechanism.name,
            "parameter": self.parameter,
            "epsilon": _finite(self.epsilon),
            "delta": self.delta,
            "affected": self.affected,
            "account": self.account,
            **({} if self.sampling is None else {"sampling": self.sampling.record()}),
            "design_hash": self.design_hash,
            "zcdp": self.zcdp,
            **({} if self.curve is None else {"curve": [asdict(point) for point in self.curve]}),
        }


class MechanismQuestion(SampledQuestion, PublicQuestion, WithinTotalQuestion):
    """Releases of a mechanism among voters that are not private, and whether their curve is wanted."""

    tag: ClassVar[str] = "accounting"
    answers: ClassVar[Any] = CostAnswer

    mechanism: str = question_field(
        words=f"Its name: {', '.join(calibrated_names())}, or that of a package on the server"
    )
    classes: int = question_field(2, most=MAX_CLASSES)
    total_delta: float | None = question_field(  # type: ignore[assignment]  # a cost may have no total
        None, words="Total δ to meet, with total_epsilon [probability]", otherwise="by default 0"
    )
    curve: bool = question_field(default=False)

    @property
    def voters(self) -> int:
        return self.K

    @property
    def seconds(self) -> float:
        points = (len(CURVE_DELTAS) + len(CURVE_SHARES)) * COST_SECONDS if self.curve else 0.0
        return (self._seconds + points) * (1.0 if self.records is None else SAMPLED_SHARE)

    _seconds: ClassVar[float] = CALIBRATION_SECONDS


class Cost(MechanismQuestion):
    """Compute the total privacy of a mechanism's releases, or the parameter that fits a total.

    Give `parameter` and `delta`, or `total_epsilon` and `total_delta`. Voters are not private.
    """

    path: ClassVar[str] = "cost"
    summary: ClassVar[str] = "Total privacy of a mechanism's releases, or the parameter that fits a total"

    total_epsilon: float | None = question_field(  # type: ignore[assignment]  # a cost may have no total
        None, words="Total ε to meet, for which the parameter is found [nats]"
    )
    parameter: float | None = question_field(None)
    delta: float | None = question_field(
        None, words="Total δ at which a given parameter is priced [probability]", short="δ with a parameter"
    )
    threshold: float | None = question_field(None)
    check_sigma: float | None = question_field(None)
    cap: int | None = question_field(None)

    @property
    def _seconds(self) -> float:  # type: ignore[override]
        return CALIBRATION_SECONDS if self.parameter is None else COST_SECONDS

    @property
    def _delta(self) -> float:
        return (self.delta if self.total_epsilon is None else self.total_delta) or 0.0

    def check(self) -> None:
        found = mechanism_class(self.mechanism)
        self.as_sampling()
        field_number(self.queries, "queries")
        if (self.parameter is None) == (self.total_epsilon is None):
            raise InvalidInput("parameter", self.parameter, "exactly one of parameter and total_epsilon")
        # What would be ignored is refused: a δ of one release and a total δ are different claims.
        excluded = ("total_delta",) if self.parameter is not None else ("delta", *CHECKS)
        for name in (*excluded, *(() if found.has_check else CHECKS)):
            if (value := getattr(self, name)) is not None:
                beside = "parameter" if name == "total_delta" else "total_epsilon" if name in excluded else found.name
                raise InvalidInput(name, value, Rule(f"cannot be combined with {beside}"))
        if self.total_epsilon is None and self.delta is None:
            raise InvalidInput("delta", None, "the probability δ of all releases together, in [0, 1)")

    def answer(self, report: Report = lambda _: None) -> CostAnswer:
        """Return the cost of the mechanism at its parameter, which is found first where a total is given."""
        report(None)
        self.check()
        found, shape = mechanism_class(self.mechanism), (self.K, self.classes)
        if self.total_epsilon is not None:
            total, drawn = Privacy(self.total_epsilon, self._delta), self.as_sampling()
            return self._cost_of(found.calibrated(*shape, total, self.queries, affected=self.affected, sampling=drawn))
        given: Any = {"value": self.parameter} | {name: getattr(self, name) for name in CHECKS}
        return self._cost_of(found.of(*shape, affected=self.affected, **given))

    def _cost_of(self, mechanism: VoteMechanism) -> CostAnswer:
        # After a calibration too: its answer states the account of the parameter that was found, not of the search.
        sampling = self.as_sampling()
        cost = mechanism.cost(self.queries, self._delta, sampling)
        # Its file names the total that was asked, if one was.
        total = Privacy(cost.epsilon if self.total_epsilon is None else self.total_epsilon, self._delta)
        return CostAnswer(
            mechanism=mechanism,
            parameter=mechanism.value,
            epsilon=cost.epsilon,
            delta=self._delta,
            affected=mechanism.affected,
            account=cost.account,
            sampling=sampling,
            **filed(mechanism, total, self.queries, sampling),
            curve=self.points(mechanism) if self.curve else None,
        )

    def text_of(self, answer: CostAnswer) -> str:
        delta = answer.delta
        words = f"{answer.mechanism.words} One record moves at most {count_text(answer.affected, 'vote')}."
        # Said in words: an ε of infinity looks like a number.
        if answer.account == "none":
            return f"{words} No account proves a finite ε at δ = {delta:g}."
        sampled = "" if answer.sampling is None else f" With {answer.sampling.words} ({answer.sampling.neighbours}),"
        releases = "1 release is" if self.queries == 1 else f"{self.queries:,} releases are together"
        if getattr(answer.mechanism, "threshold", None) is not None:
            labels = self.queries if answer.mechanism.cap is None else min(answer.mechanism.cap, self.queries)
            parts = f"{count_text(self.queries, 'check')}, at most {count_text(labels, 'label')}"
            releases = f"{parts}: together they are"
        proved = guarantee(Privacy(answer.epsilon, delta))
        large = " Such an ε gives no meaningful privacy." if answer.epsilon > MEANINGLESS_EPSILON else ""
        return f"{words}{sampled} {releases} {proved}, by the account {answer.account}.{large}"

    def file_of(self, answer: CostAnswer) -> dict[str, Any]:
        total = Privacy(answer.epsilon if self.total_epsilon is None else self.total_epsilon, answer.delta)
        planned = planned_fields(self.queries, total) if total.epsilon < math.inf else {}
        return answer.mechanism.record() | planned | sampling_record(answer.sampling)

    def figure_of(self, answer: CostAnswer) -> Any:
        from darrm_opt.figures import cost_figure

        points = [asdict(point) for point in answer.curve or ()]
        return cost_figure(answer.mechanism, points, self.queries, answer.delta)

    def columns(self, record: dict[str, Any]) -> dict[str, Sequence[Any]]:
        return {name: [point[name] for point in record["curve"]] for name in CostPoint.json_types()}

    def points(self, mechanism: VoteMechanism) -> list[CostPoint]:
        """Return ε over δ for this many releases, and over the number of releases at the δ of the cost.

        The curve over δ is a profile of the same releases: all of its points hold at once.
        """
        counts = {max(1, round(self.queries * share)) for share in CURVE_SHARES}
        places = {(self.queries, each) for each in CURVE_DELTAS} | {(count, self._delta) for count in counts}
        points = []
        for count, each in sorted(places):
            cost = mechanism.cost(count, each, self.as_sampling())
            points.append(CostPoint(queries=count, delta=each, epsilon=_finite(cost.epsilon), account=cost.account))
        return points

    def verify(self, given: Any) -> CostAnswer:
        """Return a cost that another process found, accounted for again at its own parameter.

        Guarantees: The ε is what the accounts of this process prove, and no more than the answer says. A parameter that
        was found is within the total; that it is the best one is not proved.
        """
        total, delta = self.total_epsilon, self._delta
        try:
            value, epsilon = given["parameter"], given["epsilon"]
            if (given["mechanism"], given["delta"]) != (self.mechanism, delta):
                raise VerificationFailed("The answer is for another mechanism, or another δ, than was asked.")
            sampling = self.as_sampling()
            if given.get("sampling") != (None if sampling is None else sampling.record()):
                raise VerificationFailed("The answer is for another sampling than was asked.")
            if given.get("affected") != self.affected:
                raise VerificationFailed("The answer is for another number of affected votes than was asked.")
            if total is None and value != self.parameter:
                raise VerificationFailed("The answer is for another parameter than was asked.")
            # The parameter is the other side's; what it costs is computed here, so the search need not be repeated.
            fixed = {"parameter": value, "delta": delta, "total_epsilon": None, "total_delta": None, "curve": False}
            proof = Cost(**self.record() | fixed).answer()
            # None claims nothing, and nothing proved refutes it.
            claim = math.inf if epsilon is None else epsilon
            if not proof.epsilon <= claim:
                raise VerificationFailed(f"The answer says ε = {claim!r}, and {proof.epsilon!r} is proved.")
        except (InvalidInput, LookupError, TypeError, AttributeError) as err:
            raise VerificationFailed(f"The answer's cost is invalid: {err}") from err
        if total is None:
            return proof
        if proof.epsilon > total:
            raise VerificationFailed(f"The answer's parameter costs ε = {proof.epsilon!r}, which is beyond the total.")
        design = filed(proof.mechanism, Privacy(total, delta), self.queries, sampling)  # of the total that was asked
        return replace(proof, **design)


class Calibrate(MechanismQuestion):
    """Find the most useful parameter of a mechanism whose releases fit a total; voters are not private."""

    path: ClassVar[str] = "calibrate"
    summary: ClassVar[str] = "Parameter of a mechanism that fits a total"

    def canonical(self) -> Cost:
        """Return the same question as a cost."""
        return Cost(**self.record())


def _finite(epsilon: float) -> float | None:
    return epsilon if epsilon < math.inf else None
