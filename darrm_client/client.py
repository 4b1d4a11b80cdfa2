"""Client: designs, curves and jobs from a service or a table file, each γ re-proved before it is returned."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from darrm_client.connect import connect
from darrm_client.errors import Deadline, error_of
from darrm_client.jobs import DesignsClient, JobsClient
from darrm_opt.answers import as_list, budget_body, design, draw_body, numbers, sampling_body
from darrm_opt.answers.verification import (
    VerifiedAnswer,
    member,
    verify_answer,
)
from darrm_opt.arguments import real_number, whole_number
from darrm_opt.design.certificate import Arithmetic, Certificate
from darrm_opt.design.objective import AnyObjective
from darrm_opt.design.solver import Method, Shape
from darrm_opt.design.sweep import DIGITS, Parameter
from darrm_opt.errors import DarrmError, InvalidInput, VerificationFailed
from darrm_opt.noise import ArrayLike, NoiseFunction
from darrm_opt.problem import Privacy, Problem
from darrm_opt.record import DesignSpec

if TYPE_CHECKING:
    import ssl

    from darrm_opt.accounting.sampling import Sampling
    from darrm_opt.answers.decode import DesignEstimate
    from darrm_opt.answers.tables import VerifiedTable
    from darrm_opt.bagging import Bags
    from darrm_opt.design.sweep import LeastParameter
    from darrm_opt.planning.compare import Comparison
    from darrm_opt.planning.option import Plan
    from darrm_opt.problem import Problem
    from darrm_opt.questions.cost import CostAnswer
    from darrm_opt.questions.curve import ErrorCurves
    from darrm_opt.questions.profile import VerifiedProfile
    from darrm_opt.questions.question import Question
    from darrm_opt.questions.tradeoff import Tradeoff
    from darrm_opt.tables.objective import PluralityObjective, TableObjective
    from darrm_opt.tables.priors import Ties

URL_VARIABLE = "DARRM_URL"
"""Environment variable of the place that is asked where no URL is given."""

KEY_VARIABLE = "DARRM_KEY"
"""Environment variable of the API key that is sent where none is given."""

SECONDS = "seconds above 0"

TIMEOUT = 120.0
"""Default time limit of a call [s]."""

RETRIES = 6
"""Default number of retries: enough for the ten seconds or so in which a service restarts."""


class DarrmClient:
    """Client of a service or a table file, for certified noise functions. Safe to use from several threads.

    Args:
        url: ``http://…`` or ``https://…`` of a service, or ``file:///…`` of a table: what ``darrm export`` writes
            (Parquet, CSV, JSON Lines, SQLite), a cache's file, or solutions as ``darrm solve --json`` prints. None
            reads ``DARRM_URL``, so that a job switches between the two without a change of its code.
        key: API key of the service, without the spaces and line ends around it; None reads ``DARRM_KEY``; neither sends
            none.
        timeout: for one call, with all its retries and waiting [s]; None for no bound. A method's own ``timeout`` takes
            its place for that call.
        retries: how often a request is sent again after a failure that may pass.
        tls: what is trusted for ``https``; None for the system's certificates.
        proxy: URL of an HTTP proxy; None for none. Proxies and passwords in the environment are not used.
        fallback: ``file:///…`` of a table that is asked where a service cannot be reached, is busy, late or at fault,
            after its ``retries``; None for none. What neither has raises the service's error. Jobs and stored designs
            are the service's alone.

    Guarantees:
        Every γ that it returns was proved private by this process, for the problem that was asked, from its bits.
        A service that lies can make an answer less useful, never less private. Every method raises `ClientError` where
        the other side refuses or does not answer, and `VerificationFailed` where its answer does not hold.

    Raises:
        InvalidInput: an argument is outside what is accepted, or no URL is given.
        BackendUnavailable: httpx is not installed (the extra ``client``), and the URL is a service's.

    >>> import tempfile, pathlib, json
    >>> from darrm_opt import Problem, solve
    >>> from darrm_opt.record import solution_record
    >>> problem = Problem.from_allowance(K=11, m=3, epsilon=0.1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = pathlib.Path(folder, "table.jsonl")
    ...     _ = table.write_text(json.dumps(solution_record(solve(problem))))
    ...     with DarrmClient(table.as_uri()) as client:
    ...         answer = client.gamma(problem)
    >>> answer.exact, round(answer.utility, 6), answer.certificate.margin >= 0
    (True, 0.908242, True)
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        key: str | None = None,
        timeout: float | None = TIMEOUT,
        retries: int = RETRIES,
        tls: ssl.SSLContext | None = None,
        proxy: str | None = None,
        fallback: str | None = None,
    ) -> None:
        address = os.environ.get(URL_VARIABLE, "") if url is None else url
        if timeout is not None:
            real_number(timeout, "timeout", SECONDS, above=0)
        retries = whole_number(retries, "retries", "a whole number of tries after the first, at least 0", least=0)
        key = os.environ.get(KEY_VARIABLE) or None if key is None else key
        self._backend, self._timeout = connect(address, key, retries, tls, proxy, fallback), timeout
        self.jobs = JobsClient(self._backend, timeout)
        self.designs = DesignsClient(self._backend, timeout)

    def gamma(
        self,
        problem: Problem,
        objective: AnyObjective | str = "rectangular",
        shape: Shape = "free",
        *,
        method: Method = "auto",
        backend: str = "highs",
        timeout: float | None = None,
    ) -> VerifiedAnswer:
        """Return the certified γ_opt of a problem.

        Args:
            problem: as in `darrm_opt.solve`, like the next four.
            objective: what is maximised.
            shape: "free" or "monotone".
            method: how to solve it, if it is not solved already.
            backend: as ``method``.

        Returns:
            The solution; `VerifiedAnswer.exact` and `VerifiedAnswer.designed_for` say whether it is the answer to this
            very problem, or the nearest one that is stored (where the service does not solve, or the table lacks it).

        Raises:
            InvalidInput: a field is outside what is accepted.
            NotPrivate: what came back is not private for this problem.
            ClientError: no answer that can be used came back; its children say why.
        """
        from darrm_opt.questions.design import Design

        stated = design(DesignSpec(problem, objective, shape))
        found: VerifiedAnswer = self.ask(Design(**stated, method=method, backend=backend), timeout=timeout)
        return found

    def batch(
        self, requests: Sequence[Problem | DesignSpec], *, timeout: float | None = None
    ) -> list[VerifiedAnswer | DarrmError]:
        """Return the certified γ_opt of many problems, in order, or in its place the error that `gamma` would raise.

        Args:
            requests: problems, or requests with their objective and shape.
            timeout: for all of them [s]; None for the client's.

        Raises:
            ClientError: the service refused the batch as a whole.
            VerificationFailed: it does not have one result for each problem.
        """
        specs = [problem if isinstance(problem, DesignSpec) else DesignSpec(problem) for problem in requests]
        if not specs:
            return []
        deadline = self._deadline(timeout)
        answer = self._backend.ask("gamma/batch", {"problems": [design(spec) for spec in specs]}, deadline)
        results = member(answer, "results")
        if not isinstance(results, list) or len(results) != len(specs):
            raise VerificationFailed("The answer does not have one result for each problem.")
        return [self._result_of_item(item, spec, deadline) for item, spec in zip(results, specs, strict=True)]

    def error_curve(
        self,
        problem: Problem,
        objective: AnyObjective | str = "rectangular",
        shape: Shape = "free",
        *,
        points: int = 101,
        baselines: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> ErrorCurves:
        """Return the errors of γ_opt and of the baselines over p, of γ that this process proved.

        Args:
            problem: what is asked, with `objective` and `shape` as in `gamma`.
            points: values of p, evenly from 0.5 to 1.
            baselines: names of those to compare with; None for the usual ones.
        """
        from darrm_opt.questions.curve import Curve

        stated = design(DesignSpec(problem, objective, shape))
        question = Curve(**stated, points=points, baselines=as_list(baselines))
        found: ErrorCurves = self.ask(question, timeout=timeout)
        return found

    def tradeoff(
        self,
        problem: Problem,
        ms: Sequence[float],
        objective: AnyObjective | str = "rectangular",
        shape: Shape = "free",
        *,
        delta: float | None = None,
        baselines: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> Tradeoff:
        """Return γ_opt for many allowances, each proved for its own target.

        Args:
            problem: gives K, the voters and how many are affected; its target does not count.
            ms: allowances m > 0; target ε [nats] where the voters' ε is 0 or inf and m has no meaning. `objective` and
                `shape` are as in `gamma`.
            delta: δ of every release [probability]; None for 1 − (1−Δ)^m.
            baselines: whose average errors are told beside.
        """
        from darrm_opt.questions.tradeoff import TradeoffQuestion

        stated = design(DesignSpec(problem, objective, shape))
        over = "ms" if problem.m is not None else "target_epsilons"
        stated |= {over: [float(m) for m in ms], "delta": delta, "baselines": as_list(baselines)}
        found: Tradeoff = self.ask(TradeoffQuestion.of(stated), timeout=timeout)
        return found

    def least(
        self,
        K: int,
        *,
        parameter: Parameter = "m",
        utility: float | None = None,
        agreement: float | None = None,
        m: float | None = None,
        epsilon: float | None = None,
        Delta: float = 0.0,
        delta: float | None = None,
        affected: int | None = None,
        profile: Privacy | None = None,
        objective: AnyObjective | str = "rectangular",
        shape: Shape = "free",
        digits: int = DIGITS,
        timeout: float | None = None,
    ) -> LeastParameter:
        """Return the least m, target ε or voter's ε for a wanted utility or agreement.

        Both γ in it, at that number and at the one next below, were proved private by this process, and what they reach
        is its own. That nothing at the number below reaches more rests on the bound, which is the other side's.

        As for `darrm_opt.least_parameter` are `K`, the `parameter` that is searched for, the wanted `utility` or
        `agreement`, `m`, `epsilon` [nats], `Delta` and `delta` [probability], `affected`, `profile`, `objective`,
        `shape` and `digits`.

        Raises:
            AnswerNotFound: the client reads a table file, which solves nothing.
        """
        from darrm_opt.questions.least import Least

        question = Least(
            K=K,
            parameter=parameter,
            utility=utility,
            agreement=agreement,
            m=m,
            epsilon="inf" if epsilon == math.inf else epsilon,
            Delta=Delta,
            delta=delta,
            affected=affected,
            profile=None if profile is None else [list(point) for point in profile.points],
            objective=str(objective),
            shape=shape,
            digits=digits,
        )
        found: LeastParameter = self.ask(question, timeout=timeout)
        return found

    def profile(
        self,
        problem: Problem,
        objective: AnyObjective | str = "rectangular",
        shape: Shape = "free",
        *,
        gamma: ArrayLike | NoiseFunction | None = None,
        epsilons: Sequence[float] | None = None,
        points: int = 16,
        timeout: float | None = None,
    ) -> VerifiedProfile:
        """Return the least δ of one release at each ε′, of γ_opt or of ``gamma``.

        γ_opt was proved private, and its δ computed again: they are this process's own.

        Args:
            problem: what is asked, with `objective` and `shape` as in `gamma`.
            gamma: γ(0..K) of yours, private or not; None for γ_opt.
            epsilons: where the profile is wanted [nats]; None for ``points`` of them, evenly from 0 on.
            points: how many, where ``epsilons`` is None.
        """
        from darrm_opt.questions.profile import Profile

        stated = design(DesignSpec(problem, objective, shape))
        sent = None if gamma is None else NoiseFunction(gamma, problem.K).values.tolist()
        question = Profile(**stated, gamma=sent, epsilons=as_list(epsilons), points=points)
        found: VerifiedProfile = self.ask(question, timeout=timeout)
        return found

    def verify(
        self, problem: Problem, gamma: ArrayLike | NoiseFunction, *, arithmetic: Arithmetic = "float"
    ) -> Certificate:
        """Return the certificate of any γ, proved by this process as well as by the other side.

        Args:
            problem: what must hold.
            gamma: γ(0..K), shape (K+1,), symmetric, in [0, 1].
            arithmetic: of both proofs, "float" or "ball", as in `darrm_opt.verify`; "ball" needs python-flint here.

        Raises:
            BackendUnavailable: python-flint is not installed.
            NotPrivate: γ is not private for the problem.
            VerificationFailed: the other side says that it is not, and this process can prove that it is.
        """
        from darrm_opt.questions.verify import Verify

        sent = NoiseFunction(gamma, problem.K).values.tolist()
        question = Verify(**numbers(problem), gamma=sent, arithmetic=arithmetic)
        proof = question.answer()
        question.confirm(self._ask(question.path, question.record(), None))
        return proof

    def compare(
        self,
        problem: Problem,
        queries: int,
        total: Privacy,
        *,
        objective: AnyObjective | str = "rectangular",
        prior: str | None = None,
        bags: Bags | None = None,
        fresh: bool = False,
        sampling: Sampling | None = None,
        timeout: float | None = None,
    ) -> Comparison:
        """Return every mechanism within one budget, as `darrm_opt.planning.compare` does.

        It informs a choice: the totals in it are the other side's. Before using a γ from it, have `gamma` design one
        for what a single release may cost, or account for it (`darrm_opt.accounting`).

        Args:
            problem: gives K, the voters and how many are affected; its target does not count.
            queries: as for `darrm_opt.planning.compare.compare`, like all that follow.
            total: (ε, δ) of all releases together.
            objective: what γ_opt maximises.
            prior: how votes fall, for the accuracy; None for the objective's own.
            fresh: whether every voter draws new randomness for every query (`darrm_opt.problem.FRESH`).
            bags: how subsamples are drawn, where each voter is trained on one of its own; None where none are.
            sampling: how each voter, private itself and fresh, draws its own records for every query.
        """
        from darrm_opt.planning.compare import amplified
        from darrm_opt.questions.compare import Compare

        problem = amplified(problem, sampling, fresh=fresh)
        stated = budget_body(problem, queries, total) | draw_body(bags)
        question = Compare(**stated, objective=str(objective), prior=prior, fresh=fresh)
        found: Comparison = self.ask(question, timeout=timeout)
        return replace(found, problem=problem)

    def plan(
        self,
        problem: Problem,
        queries: int,
        total: Privacy,
        *,
        prior: str | PluralityObjective | None = None,
        fresh: bool = False,
        least_accuracy: float | None = None,
        bags: Bags | None = None,
        sampling: Sampling | None = None,
        time_limit: float | None = None,
        timeout: float | None = None,
    ) -> Plan:
        """Return what to release within a budget, as `darrm_opt.plan` does: advice, options, suggestions.

        Every γ in it was proved private, by this process, for the target that its option names; the totals over all
        queries are the other side's (`darrm_opt.planning.plan` is the same, here). With a ``sampling`` of voters that
        are not private, among more classes and for groups of voters, it is the best option's mechanism of which this
        process proved that all queries fit; shares, and the ε of other options, are the other side's word.

        Args:
            problem: gives K, the voters, the classes and how many are affected; its target does not count. Votes among
                more classes take no draw; groups of voters, which take no ``sampling`` either, have the ranking of
                `darrm_opt.planning.group_plan.plan_groups`.
            queries: as for `darrm_opt.plan`, like all that follow.
            total: (ε, δ) of all answers together.
            prior: how votes fall, as text; of classes and groups also with ties, price and weights of votes. None:
                rectangular, of classes and groups dirichlet(1).
            fresh: whether every voter draws new randomness for every query (`darrm_opt.problem.FRESH`).
            least_accuracy: below this an answer is of no use; None: a fifth of the way from a guess to certainty.
            bags: as for `compare`.
            sampling: how records are drawn anew for every query, by a number of them; say ``affected=1`` in the problem
                where a record reaches one voter. None: every record is in every query.
            time_limit: about how long the other side searches [s]: then the plan is what was found; None for no limit
                of its own.

        Raises:
            InvalidInput: groups of voters with a draw; or numbers out of range.
        """
        from darrm_opt.questions.plan import ReleasePlan
        from darrm_opt.tables.objective import PluralityObjective, objective_for
        from darrm_opt.tables.record import group_records

        asked: dict[str, Any] = {"fresh": fresh, "least_accuracy": least_accuracy, "time_limit": time_limit}
        asked |= draw_body(bags) | sampling_body(sampling)
        if problem.is_binary and getattr(prior, "weights", None) is None:
            if not isinstance(prior, str | None):
                raise InvalidInput("prior", prior, "a text, for voters that are alike")
            asked |= budget_body(problem, queries, total) | {"prior": prior}
        else:
            goal = objective_for(problem, prior or "dirichlet(1)")
            if not isinstance(goal, PluralityObjective):
                raise InvalidInput("prior", str(prior), "a prior of the votes")
            voters: dict[str, Any] = {"K": problem.K, "epsilon": "inf"}
            # A plan is for a total: it stands where the target of one answer was.
            if not replace(problem, target=total).is_public:
                weights = goal.weights or [1.0] * len(problem.groups)
                groups = zip(group_records(problem.groups), weights, strict=True)
                voters = {"groups": [group | {"weight": weight} for group, weight in groups]}
            asked |= voters | {name: getattr(problem, name) for name in ("classes", "affected")}
            asked |= {"prior": str(goal), "ties": goal.ties, "price": goal.price, "queries": queries}
            asked |= {"total_epsilon": total.epsilon, "total_delta": total.delta}
        found: Plan = self.ask(ReleasePlan.of(asked), timeout=timeout)
        return found

    def table(
        self,
        problem: Problem,
        objective: str | TableObjective = "dirichlet(1)",
        *,
        ties: Ties = "excluded",
        price: float = 0.0,
        timeout: float | None = None,
    ) -> VerifiedTable:
        """Return the optimal table of votes among classes, or of groups of voters, proved by this process.

        Args:
            problem: voters, classes and the target of one release.
            objective: what is maximised, as text (`darrm_opt.tables.objective.as_table_objective`), or with ties, price
                and weights of votes.
            ties: "excluded" or "any", where the objective is a text.
            price: cost of a wrong label, where the objective is a text.

        Returns:
            The solution, as of `darrm_opt.tables.solver.solve_table`; `darrm_opt.release.PrivateVote` releases by it.

        Raises:
            AnswerNotFound: the client reads a table file, which has no table for these voters.
        """
        from darrm_opt.questions.table import Plurality, TableQuestion
        from darrm_opt.tables.objective import as_table_objective
        from darrm_opt.tables.record import KIND, TableSpec

        spec = TableSpec(problem, as_table_objective(objective, price, ties))
        asked = spec.record
        body = asked.pop("problem")
        for group, weight in zip(body.get("groups", ()), asked.pop("weights", ()), strict=False):
            group["weight"] = weight
        question = (Plurality if spec.kind == KIND else TableQuestion).of(body | asked)
        found: VerifiedTable = self.ask(question, timeout=timeout)
        return found

    def cost(
        self,
        mechanism: str,
        K: int,
        queries: int = 1,
        *,
        classes: int = 2,
        affected: int = 1,
        parameter: float | None = None,
        delta: float | None = None,
        total: Privacy | None = None,
        sampling: Sampling | None = None,
        timeout: float | None = None,
    ) -> CostAnswer:
        """Return what releases of a mechanism cost together, or which parameter fits in a total; proved here again.

        Args:
            mechanism: its name, such as "laplace".
            K: voters, which are not private.
            queries: releases, ≥ 1.
            classes: C ≥ 2.
            affected: votes that one record can move.
            parameter: of the mechanism; with ``delta``.
            delta: of all releases together, with ``parameter`` [probability].
            total: (ε, δ) of all releases together, in the place of a parameter.
            sampling: how records are drawn anew for every query, by a number of them; None: every record is in every
                query.

        Raises:
            InvalidInput: a number is out of its range, or neither a parameter nor a total is given.
            ClientError: the service refused or did not answer.
            VerificationFailed: its answer does not hold.
        """
        from darrm_opt.questions.cost import Cost

        question = Cost(
            mechanism=mechanism,
            K=K,
            classes=classes,
            affected=affected,
            queries=queries,
            parameter=parameter,
            delta=delta,
            total_epsilon=None if total is None else total.epsilon,
            total_delta=None if total is None else total.delta,
            **sampling_body(sampling),
        )
        found: CostAnswer = self.ask(question, timeout=timeout)
        return found

    def ask(self, question: Question, *, timeout: float | None = None) -> Any:
        """Return the answer to a question of `darrm_opt.questions`, proved by this process.

        Args:
            question: what is asked.

        Returns:
            An object of the question's `answers`.

        Raises:
            InvalidInput: fields contradict each other.
            ClientError: the service refused or did not answer.
            VerificationFailed: its answer does not hold.
        """
        question.check()
        answered = question.canonical()
        return answered.verify(self._ask(answered.path, answered.record(), timeout))

    def estimate(
        self,
        problem: Problem,
        objective: AnyObjective | str = "rectangular",
        shape: Shape = "free",
        *,
        method: Method = "auto",
    ) -> DesignEstimate:
        """Return what a design would cost; nothing is solved.

        Args:
            problem: what is asked, with `objective`, `shape` and `method` as in `gamma`.
        """
        from darrm_opt.answers.decode import estimate_of

        spec = DesignSpec(problem, objective, shape)
        return estimate_of(self._ask("estimate", {**design(spec), "method": method}, None), spec)

    def close(self) -> None:
        """Let go of connections and files."""
        self._backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _result_of_item(self, item: Any, spec: DesignSpec, deadline: Deadline) -> VerifiedAnswer | DarrmError:
        """Return one result of a batch, having waited for it if need be."""
        try:
            status, details = member(item, "status"), item.get("problem")
            if details is not None:
                return error_of(int(status), details if isinstance(details, dict) else {})
            answer = item.get("answer")
            return verify_answer(self._backend.ask("gamma", design(spec), deadline) if answer is None else answer, spec)
        except DarrmError as err:
            return err

    def _deadline(self, timeout: float | None) -> Deadline:
        return Deadline.after(self._timeout if timeout is None else timeout)

    def _ask(self, verb: str, body: dict[str, Any], timeout: float | None) -> Any:
        return self._backend.ask(verb, body, self._deadline(timeout))
