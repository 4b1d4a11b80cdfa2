"""Client: designs, curves and jobs from a service or a table file, each γ proved again before it is returned."""

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
KEY_VARIABLE = "DARRM_KEY"
SECONDS = "seconds above 0"

TIMEOUT = 120.0
"""Default time limit of a call [s]."""

RETRIES = 6
"""Default number of retries: enough for the ten seconds in which a service restarts."""


class DarrmClient:
    """Client of a service or a table file, for certified noise functions. Safe to use from several threads.

    Args:
        url: ``http://…`` or ``https://…`` of a service, or ``file:///…`` of a table: a file written by ``darrm
            export`` (Parquet, CSV, JSON Lines, SQLite), a cache's file, or solutions printed by ``darrm solve
            --json``. None reads ``DARRM_URL``, so that a job can switch between them without a change of code.
        key: API key of the service; surrounding white space is ignored. None reads ``DARRM_KEY``; without either, no
            key is sent.
        timeout: limit for one call, with all its retries and waiting [s]; None: no limit. A method's own ``timeout``
            takes precedence.
        retries: retries of a request after a transient failure.
        tls: trusted certificates for ``https``; None: the system's.
        proxy: URL of an HTTP proxy. Proxies and passwords in the environment are ignored.
        fallback: ``file:///…`` of a table to use when the service is unreachable, busy, late or failing after its
            ``retries``; if neither has the answer, the service's error is raised. Jobs and stored designs come from
            the service only.

    Guarantees:
        Every γ that it returns was proved private by this process, for the problem asked, from its bits. A dishonest
        service can make an answer less useful, never less private. Every method raises `ClientError` if the other
        side rejects the request or does not respond, and `VerificationFailed` if its answer does not hold.

    Raises:
        InvalidInput: an argument is invalid, or no URL is given.
        BackendUnavailable: httpx (the extra ``client``) is not installed, and the URL is a service's.

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
        retries = whole_number(retries, "retries", "a whole number, at least 0", least=0)
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

        As in `darrm_opt.solve` are `problem`, `objective`, `shape`, `method` and `backend`.

        Returns:
            The solution; `VerifiedAnswer.exact` and `VerifiedAnswer.designed_for` say whether it answers exactly this
            problem, or is the nearest stored one (if the service does not solve, or the table lacks the answer).

        Raises:
            InvalidInput: a field is out of range.
            NotPrivate: the answer is not private for this problem.
            ClientError: there is no usable answer; its subclasses say why.
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
            requests: problems, or requests with objective and shape.
            timeout: limit for all of them [s]; None: the client's.

        Raises:
            ClientError: the service rejected the whole batch.
            VerificationFailed: the number of results is wrong.
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
        """Return the errors of γ_opt and of baselines over p, for γ proved by this process.

        Args:
            problem: with `objective` and `shape` as in `gamma`.
            points: values of p, evenly spaced from 0.5 to 1.
            baselines: names of baselines; None: the usual ones.
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
            problem: K, the voters and the number affected; its target is ignored.
            ms: allowances m > 0; target ε [nats] if the voters' ε is 0 or inf. `objective` and `shape` are as in
                `gamma`.
            delta: δ of every release [probability]; None: 1 − (1−Δ)^m.
            baselines: names of baselines whose average errors are added.
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

        Both γ in it, at that value and at the next smaller one, were proved private by this process, which also
        computed their utilities. That no γ at the smaller value does better rests on the other side's bound.

        As for `darrm_opt.least_parameter` are `K`, the `parameter` to search for, the wanted `utility` or
        `agreement`, `m`, `epsilon` [nats], `Delta` and `delta` [probability], `affected`, `profile`, `objective`,
        `shape` and `digits`.

        Raises:
            AnswerNotFound: the client reads a table file, which cannot solve.
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

        This process proves γ_opt private, and computes its δ again.

        Args:
            problem: with `objective` and `shape` as in `gamma`.
            gamma: γ(0..K), private or not; None: γ_opt.
            epsilons: values of ε′ [nats]; None: ``points`` values, evenly spaced from 0.
            points: number of values if ``epsilons`` is None.
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
            problem: the guarantee to prove.
            gamma: γ(0..K), shape (K+1,), symmetric, in [0, 1].
            arithmetic: of both proofs, "float" or "ball", as in `darrm_opt.verify`; "ball" needs python-flint.

        Raises:
            BackendUnavailable: python-flint is not installed.
            NotPrivate: γ is not private for the problem.
            VerificationFailed: the other side denies what this process can prove.
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
        """Return every mechanism within one budget, as `darrm_opt.planning.compare`.

        It informs a choice: its totals are the other side's. Before using a γ from it, design one with `gamma` for
        the budget of a single release, or account for it (`darrm_opt.accounting`).

        Args:
            problem: K, the voters and the number affected; its target is ignored.
            queries: as in `darrm_opt.planning.compare.compare`, like all that follow.
            total: (ε, δ) of all releases.
            objective: objective of γ_opt.
            prior: distribution of votes, for the accuracy; None: the objective's.
            fresh: whether every voter draws new randomness for every query (`darrm_opt.problem.FRESH`).
            bags: random subsamples on which voters are trained; None: no subsampling.
            sampling: records drawn anew by each private, fresh voter for every query.
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
        """Return what to release within a budget, as `darrm_opt.plan`: advice, options, suggestions.

        This process proved every γ in it private for the target that its option states; the totals over all queries
        are the other side's (`darrm_opt.planning.plan` computes them locally). With a ``sampling`` of voters that are
        not private, among more classes and for groups of voters, this process proved that all queries of the best
        option's mechanism fit; shares, and the ε of other options, are unverified.

        Args:
            problem: K, the voters, the classes and the number affected; its target is ignored. Votes among more
                classes do not support ``bags``; groups of voters, which also do not support ``sampling``, use the
                ranking of `darrm_opt.planning.group_plan.plan_groups`.
            queries: as in `darrm_opt.plan`, like all that follow.
            total: (ε, δ) of all answers.
            prior: distribution of votes, as text; for classes and groups also with ties, price and weights. None:
                rectangular; for classes and groups dirichlet(1).
            fresh: whether every voter draws new randomness for every query (`darrm_opt.problem.FRESH`).
            least_accuracy: lowest useful accuracy; None: a fifth of the way from a guess to certainty.
            bags: as in `compare`.
            sampling: records drawn anew for every query, a fixed number of them; use ``affected=1`` if a record
                reaches one voter. None: every record is in every query.
            time_limit: approximate search time of the other side [s], after which the best plan so far is returned.

        Raises:
            InvalidInput: a draw for groups of voters, or numbers out of range.
        """
        from darrm_opt.questions.plan import ReleasePlan
        from darrm_opt.tables.objective import PluralityObjective, objective_for
        from darrm_opt.tables.record import group_records

        asked: dict[str, Any] = {"fresh": fresh, "least_accuracy": least_accuracy, "time_limit": time_limit}
        asked |= draw_body(bags) | sampling_body(sampling)
        if problem.is_binary and getattr(prior, "weights", None) is None:
            if not isinstance(prior, str | None):
                raise InvalidInput("prior", prior, "text, for voters that are alike")
            asked |= budget_body(problem, queries, total) | {"prior": prior}
        else:
            goal = objective_for(problem, prior or "dirichlet(1)")
            if not isinstance(goal, PluralityObjective):
                raise InvalidInput("prior", str(prior), "a prior of the votes")
            voters: dict[str, Any] = {"K": problem.K, "epsilon": "inf"}
            # a plan's target is its total
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
            objective: as text (`darrm_opt.tables.objective.as_table_objective`), or with ties, price and weights.
            ties: "excluded" or "any", for an objective as text.
            price: cost of a wrong label, for an objective as text.

        Returns:
            The solution, as from `darrm_opt.tables.solver.solve_table`, for use with `darrm_opt.release.PrivateVote`.

        Raises:
            AnswerNotFound: the client reads a table file without a table for these voters.
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
        """Return the total privacy of releases of a mechanism, or the parameter that fits a total; proved again here.

        Args:
            mechanism: name, such as "laplace".
            K: voters, which are not private.
            queries: releases, ≥ 1.
            classes: C ≥ 2.
            affected: votes that one record can change.
            parameter: parameter of the mechanism; with ``delta``.
            delta: δ of all releases, with ``parameter`` [probability].
            total: (ε, δ) of all releases, instead of a parameter.
            sampling: records drawn anew for every query, a fixed number of them; None: every record is in every
                query.

        Raises:
            InvalidInput: a number is out of range, or neither a parameter nor a total is given.
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
        """Return the answer to a question of `darrm_opt.questions`, an object of its `answers`, proved by this process.

        Raises:
            InvalidInput: the fields of ``question`` contradict each other.
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
        """Return the expected cost of a design; nothing is solved.

        Args:
            problem: with `objective`, `shape` and `method` as in `gamma`.
        """
        from darrm_opt.answers.decode import estimate_of

        spec = DesignSpec(problem, objective, shape)
        return estimate_of(self._ask("estimate", {**design(spec), "method": method}, None), spec)

    def close(self) -> None:
        """Close connections and files."""
        self._backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _result_of_item(self, item: Any, spec: DesignSpec, deadline: Deadline) -> VerifiedAnswer | DarrmError:
        """Return one result of a batch, waiting for it if necessary."""
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
