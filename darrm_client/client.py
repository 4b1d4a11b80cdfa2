"""Client: designs, curves and jobs from a service or a table file, each γ proved again before it is returned."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from darrm_client.connect import connect
from darrm_client.errors import Deadline, error_of
from darrm_client.jobs import DesignsClient, JobsClient
from darrm_opt.answers import design, numbers
from darrm_opt.answers.verification import (
    VerifiedAnswer,
    member,
    verify_answer,
)
from darrm_opt.arguments import real_number, whole_number
from darrm_opt.design.certificate import Arithmetic, Certificate
from darrm_opt.design.objective import AnyObjective
from darrm_opt.design.solver import Method, Shape
from darrm_opt.errors import DarrmError, VerificationFailed
from darrm_opt.noise import ArrayLike, NoiseFunction
from darrm_opt.problem import Problem
from darrm_opt.record import DesignSpec

if TYPE_CHECKING:
    import ssl

    from darrm_opt.answers.decode import DesignEstimate
    from darrm_opt.questions.question import Question

URL_VARIABLE = "DARRM_URL"
KEY_VARIABLE = "DARRM_KEY"
SECONDS = "seconds above 0"

TIMEOUT = 120.0  # default time limit of a call [s]
RETRIES = 6  # default number of retries: enough for the ten seconds in which a service restarts


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

    def ask(self, question: Question, *, timeout: float | None = None) -> Any:
        """Return the answer to a question of `darrm_opt.questions`, an object that this process proved.

        A question has the fields of its route: ``Cost(mechanism="laplace", K=100, queries=20, total_epsilon=1.0)``
        of `darrm_opt.questions.cost` is what ``POST /v1/cost`` takes. Its ``verify`` says what is proved.

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
