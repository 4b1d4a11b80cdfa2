"""Design: the γ of one problem, and the fields that other questions about one γ share with it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from darrm_opt.answers import Report
from darrm_opt.arguments import real_number
from darrm_opt.design.certificate import verify
from darrm_opt.design.solution import Solution, Statistics, Status
from darrm_opt.design.solver import Method, Shape, solve
from darrm_opt.errors import InvalidInput, Rule, VerificationFailed
from darrm_opt.fields import FIELDS
from darrm_opt.problem import Privacy, Problem
from darrm_opt.questions.question import Answer, Question, answer_field, question_field
from darrm_opt.record import DesignSpec, solution_record

if TYPE_CHECKING:
    from darrm_opt.answers.verification import VerifiedAnswer

# What only some questions need is imported by them: `darrm solve` asks the simplest, and starts with this module.

PROFILE_WORDS = (
    "Points (ε, δ) of one voter's privacy profile, the last of which is epsilon and Delta; left out where that is all."
)

TARGETS_WORDS = (
    "The (ε, δ) that the release satisfies at once, the first of which is target_epsilon and delta; left out where "
    "that is all."
)

Epsilon = float | Literal["inf"] | None  # ε of one voter in JSON [nats]


def nats(epsilon: Epsilon) -> float:
    """Return the ε of a voter as a number [nats]."""
    if epsilon is None:
        raise InvalidInput("epsilon", None, FIELDS["epsilon"].accepted)
    return real_number(math.inf if epsilon == "inf" else epsilon, "epsilon", FIELDS["epsilon"].accepted)


def stated_problem(
    K: int,
    m: float | None,
    epsilon: Epsilon,
    Delta: float,
    delta: float | None,
    affected: int | None,
    *,
    profile: Any = None,
    target_epsilon: float | None = None,
    targets: Any = None,
) -> Problem:
    """Return the problem of fields as requests state them; arguments as of `Problem.from_allowance`, and a profile.

    ``targets`` stand in place of m, target_epsilon and delta; as in an answer, the first may be stated as these too.
    """
    if profile is None and targets is None:
        return Problem.from_allowance(K, m, nats(epsilon), Delta, delta, affected, target_epsilon=target_epsilon)
    from darrm_opt.privacy_curves import profile_problem, remote_curve, remote_targets

    several = None if targets is None else remote_targets(targets)
    if several is not None:
        allowed = {"m": (m, None), "target_epsilon": (target_epsilon, several.epsilon), "delta": (delta, several.delta)}
        for name, (value, first) in allowed.items():
            if value not in (None, first):
                raise InvalidInput(name, value, Rule("cannot be combined with targets"))
        if profile is None:
            return Problem(K, Privacy(nats(epsilon), Delta), several, affected)
    if m is not None:
        raise InvalidInput("m", m, Rule("cannot be combined with profile; give target_epsilon"))
    problem = profile_problem(K, remote_curve(profile), target_epsilon, delta, affected, targets=several)
    last = problem.voter.epsilon, problem.voter.delta
    if epsilon is None and Delta not in (0.0, last[1]):
        raise InvalidInput("Delta", Delta, Rule("cannot be combined with profile"), "Its points are ε and δ.")
    if epsilon is not None and (nats(epsilon), Delta) != last:
        accepted = f"the last point of profile, {last}, or nothing"
        raise InvalidInput("epsilon", (epsilon, Delta), accepted, "The two contradict each other.")
    return problem


class ProblemAnswer(Answer):
    """The problem as it was understood: every number canonical."""

    K: int = answer_field("Number of voters [voters].")
    m: float | None = answer_field("Privacy allowance; null where it is not finite, and for epsilon = 'inf'.")
    epsilon: float | Literal["inf"] = answer_field("ε of one voter [nats].")
    Delta: float = answer_field("Δ of one voter [probability].")
    profile: list[list[float]] | None = answer_field(PROFILE_WORDS, None, omitted=True)
    target_epsilon: float = answer_field("ε of the release [nats].")
    delta: float = answer_field("δ of the release [probability].")
    targets: list[list[float]] | None = answer_field(TARGETS_WORDS, None, omitted=True)
    affected: int = answer_field("Number of voters that one record can influence [voters].")


class DesignSummary(ProblemAnswer):
    """A stored design in a list: what its record says, unproved. Read it by its id, and its γ is proved again."""

    id: str = answer_field("Content key.")
    created: str = answer_field("When it was stored (UTC, ISO 8601).")
    tags: list[str] = answer_field(
        "Its tags, in order; the same for all who use this server, unless its designs are private."
    )
    objective: str = answer_field("What was maximised.")
    shape: str = answer_field("free or monotone.")
    utility: float = answer_field("Share of the noiseless utility kept, as recorded.")


class PairAnswer(Answer):
    """One number of two designs."""

    first: float | Literal["inf"] | None = answer_field("Of the first; null where it has none.")
    second: float | Literal["inf"] | None = answer_field("Of the second.")
    difference: float | None = answer_field("second − first; null where one is null or infinite.")


FOUND = ("id", "nearest", "problem", "objective", "shape", "gamma", "status", "warnings")
"""What other questions take of the record of a γ that they need."""


class AffectedQuestion(Question):
    """Question about voters of whom one record can influence several."""

    affected: int | None = question_field(None)

    @property
    def _reaches_all(self) -> bool:
        """Whether a record that is said to reach this many voters reaches all, which is what None says."""
        return self.affected == self.voters

    def argument(self) -> dict[str, Any]:
        """Return the same for all voters, said or left out: one question has one job."""
        return super().argument() | ({"affected": None} if self._reaches_all else {})


class PrivateVotersQuestion(AffectedQuestion):
    """Voters of one kind, and how private each is."""

    K: int | None = question_field(None)
    epsilon: Epsilon = question_field(None)
    Delta: float = question_field(0.0)
    profile: Any = question_field(None)


class SolvedQuestion(Question):
    """The objective, and the solver."""

    objective: str = question_field("rectangular")
    shape: Shape = question_field("free")
    backend: str = question_field("highs")


class VotersQuestion(PrivateVotersQuestion):
    """The voters of one release, and how often it may fail."""

    takes_more_voters: ClassVar[bool] = False

    K: int = question_field()
    delta: float | None = question_field(None)

    @property
    def voters(self) -> int:
        return self.K


class ProblemQuestion(VotersQuestion):
    """A problem: K voters, how private each is, and how private their majority must be."""

    m: float | None = question_field(None)
    target_epsilon: float | None = question_field(None)
    targets: Any = question_field(None)

    def problem(self) -> Problem:
        """Return the problem that is asked."""
        numbers = self.K, self.m, self.epsilon, self.Delta, self.delta, self.affected
        target: dict[str, Any] = {"target_epsilon": self.target_epsilon, "targets": self.targets}
        return stated_problem(*numbers, profile=self.profile, **target)


class CertificateAnswer(Answer):
    """Why γ is private: a bound on the privacy constraint, divided by e^(mε), over every admissible case."""

    method: str = answer_field("How the cases were covered: complete, first-order, monotone or ball.")
    bound: float = answer_field("Proven upper bound on the constraint's left-hand side.")
    limit: float = answer_field("Its right-hand side.")
    margin: float = answer_field("(limit − bound)/2, the proven slack [probability].", least=0)
    error_bound: float = answer_field("The part of the bound that is charged for rounding.")
    worst_value: float = answer_field("Largest left-hand side found.")
    worst_corners: dict[str, int] = answer_field("Where it was found: voters at each corner [voters].")
    version: str = answer_field("Version of darrm-opt that proved it.")


class StatisticsAnswer(Answer):
    """Statistics of the solve."""

    rows: int = answer_field("Rows of the final program.")
    rounds: int = answer_field("Programs solved with rows still missing.")
    iterations: int = answer_field("Simplex iterations in all.")
    seconds: dict[str, float] = answer_field("Time by phase [s].")


class NearestAnswer(Answer):
    """This γ was designed for another problem, whose guarantee implies the one that was asked."""

    exact: bool = answer_field("Whether it is the very answer that was asked for after all.")
    designed_for: ProblemAnswer = answer_field("The problem for which it is optimal.")
    designed_shape: str = answer_field("The shape for which it is optimal.")
    id: str = answer_field("Content key of the answer to that problem.")
    label: str = answer_field("What that means, in a sentence.")


class GammaAnswer(Answer):
    """A certified noise function: the record of the files and the command line, with its id."""

    id: str = answer_field("Content key: the same problem, objective and shape have the same id.")
    cached: bool = answer_field("Whether the answer was stored before.")
    format: int = answer_field("Version of this record's layout.")
    problem: ProblemAnswer = answer_field("The problem as it was understood.")
    objective: str = answer_field("What was maximised.")
    shape: str = answer_field("free or monotone.")
    gamma: list[float] = answer_field(
        "γ(0..K) [probability]: with l ones, keep the majority with probability γ(l), else toss a fair "
        "coin; the released bit is the majority with probability (1 + γ(l))/2."
    )
    utility: float = answer_field("Share of the noiseless utility kept.")
    upper_bound: float = answer_field("Proven bound on the utility of any private γ of that shape.")
    gap: float = answer_field("upper_bound − utility, at least 0.", least=0)
    status: str = answer_field("How the solve ended; 'optimal' unless something came in between.")
    advice: str = answer_field("What the status means for the reader.")
    certificate: CertificateAnswer = answer_field("Why it is private.")
    method: str = answer_field("How it was solved.")
    backend: str = answer_field("The solver.")
    statistics: StatisticsAnswer = answer_field("Of the solve.")
    nearest: NearestAnswer | None = answer_field(
        "Where γ was designed for another, stronger problem, that it was; else null."
    )
    warnings: list[str] = answer_field("What the person who asked should reconsider; usually empty.")


class IncumbentAnswer(Answer):
    """The best certified γ of a solve that goes on: private exactly as it is, whatever comes after."""

    gamma: list[float] = answer_field("γ(0..K) [probability].")
    utility: float = answer_field("Share of the noiseless utility kept.")
    upper_bound: float = answer_field("Proven bound on the utility of any private γ of that shape, so far.")
    gap: float = answer_field("upper_bound − utility, at least 0.", least=0)
    margin: float = answer_field("Proven slack of its privacy [probability].", least=0)


class ProgressAnswer(Answer):
    """Progress of a solve."""

    round: int = answer_field("Rounds done.")
    rows: int = answer_field("Rows in the program.")
    utility: float = answer_field("Best utility whose privacy can be proved so far.")
    upper_bound: float = answer_field("Proven bound on the best possible utility.")
    gap: float = answer_field("upper_bound − utility, at least 0.", least=0)
    violation: float = answer_field("How far the program's present answer breaks the constraint.")
    seconds: float = answer_field("Time since the start [s].", least=0)
    incumbent: IncumbentAnswer | None = answer_field(
        "The best γ whose privacy is proved so far, after half a second; POST …/stop makes it the result.", None
    )


class StepsAnswer(Answer):
    """Progress of work in steps."""

    done: int = answer_field("Steps done.", least=0)
    of: int = answer_field("Steps in all, at most.", least=0)
    step: str | None = answer_field("The step that was done last, such as the name of an option of a plan.", None)


class EstimateAnswer(Answer):
    """Expected cost of a request; nothing was solved."""

    id: str = answer_field("Content key that the γ has or would have.")
    problem: ProblemAnswer = answer_field("The problem as it was understood.")
    objective: str = answer_field("What would be maximised.")
    shape: str = answer_field("free or monotone.")
    constraints: int = answer_field("Size of the permutation-reduced constraint set [rows].")
    method: Literal["cuts", "enumerate"] = answer_field("How it would be solved.")
    seconds: float = answer_field(
        "Expected time of the solve on one processor [s]; 0 if the answer is stored.", least=0
    )
    stored: bool = answer_field("Whether the answer is stored already.")
    allowed: bool = answer_field("Whether this server would solve it, within its limits.")
    basis: str = answer_field("Basis of the estimate.")


class Design(ProblemQuestion, SolvedQuestion):
    """A noise function to design: K voters, how private each is, and how private their majority must be."""

    path: ClassVar[str] = "gamma"
    tag: ClassVar[str] = "design"
    summary: ClassVar[str] = "The certified γ_opt of one problem"
    answers: ClassVar[Any] = GammaAnswer

    method: Method = question_field("auto")
    time_limit: float | None = question_field(None)
    gap: float | None = question_field(None)

    def spec(self) -> DesignSpec:
        """Return what the γ depends on; its content key is the id."""
        return DesignSpec(self.problem(), self.objective, self.shape)

    @property
    def seconds(self) -> float:
        from darrm_opt.answers.running_time import estimate_running_time

        return estimate_running_time(self.spec(), self.method).seconds

    def check(self) -> None:
        self.spec()

    def answer(self, report: Report = lambda _: None) -> Any:
        report(None)
        spec = self.spec()
        limit = self.time_limit
        return solve(spec.problem, spec.objective, spec.shape, self.method, self.backend, time_limit=limit)

    def record_of(self, answer: Any) -> dict[str, Any]:
        return {"id": self.spec().key, "cached": False, "nearest": None, **solution_record(answer)}

    def verify(self, given: Any) -> Any:
        """Return an answer under a certificate of this process."""
        from darrm_opt.answers.verification import verify_answer

        return verify_answer(given, self.spec())


class TradeoffPoint(Answer):
    """A certified γ among several."""

    id: str = answer_field("Content key of the γ.")
    cached: bool = answer_field("Whether it was stored before.")
    problem: ProblemAnswer = answer_field("The problem as it was understood.")
    gamma: list[float] = answer_field("γ(0..K) [probability], proved private for the problem.")
    utility: float = answer_field("Share of the noiseless utility kept.")
    upper_bound: float = answer_field("Proven bound on the utility of any private γ of that shape.")
    gap: float = answer_field("upper_bound − utility, at least 0.", least=0)
    status: str = answer_field("How its solve ended.")
    warnings: list[str] = answer_field("What the person who asked should reconsider; usually empty.")


def point_record(spec: DesignSpec, solution: Solution) -> dict[str, Any]:
    """Return a γ among several as plain data; whether it was stored before is the store's to say."""
    record, names = solution_record(solution), TradeoffPoint.json_types()
    return {"id": spec.key, "cached": False} | {name: record[name] for name in names if name in record}


def verified_point(given: Any, spec: DesignSpec) -> VerifiedAnswer:
    """Return a γ among several in an answer, under a certificate of this process; its utility is its own."""
    from darrm_opt.answers.verification import VerifiedAnswer, member, parse_gamma, parse_problem
    from darrm_opt.verification import InvalidSolution, check_utility

    if parse_problem(member(given, "problem")) != spec.problem:
        raise VerificationFailed(f"The γ for target_epsilon = {spec.problem.target.epsilon:g} is for another problem.")
    noise = parse_gamma(member(given, "gamma"), spec.problem.K)
    certificate = verify(spec.problem, noise)
    try:
        utility = check_utility(member(given, "utility"), noise, spec)
    except InvalidSolution as err:
        raise VerificationFailed(f"The answer does not hold: {err}.") from err
    return VerifiedAnswer(
        problem=spec.problem,
        objective=spec.objective,
        shape=spec.shape,
        noise=noise,
        utility=utility,
        upper_bound=max(utility, float(member(given, "upper_bound"))),
        status=Status(member(given, "status")),
        certificate=certificate,
        method="elsewhere",
        backend="elsewhere",
        statistics=Statistics(0, 0, 0),
        id=spec.key,
        cached=given.get("cached") is True,
    )
