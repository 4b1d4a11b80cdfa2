"""What a client asks about curves: errors over p, utility over the allowance, δ over ε."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from api.client.asking import design, listed, with_allowance
from api.client.checks import curves_checked, profile_checked, tradeoff_checked
from api.client.source import Source
from api.client.transport import Deadline
from darrm_opt.design.objective import AnyObjective
from darrm_opt.design.solver import Shape
from darrm_opt.design_spec import DesignSpec
from darrm_opt.noise import ArrayLike, NoiseFunction
from darrm_opt.problem import Problem


class CurvesClient:
    """Asks for curves, each γ in them proved again.

    Args:
        source: where answers come from.
        timeout: for one call [s]; None for no bound.
    """

    def __init__(self, source: Source, timeout: float | None) -> None:
        self._source, self._timeout = source, timeout

    def error_curve(
        self,
        problem: Problem,
        objective: AnyObjective | str = "rectangular",
        shape: Shape = "free",
        *,
        points: int = 101,
        baselines: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Return the errors of γ_opt and of the baselines over p, as the REST interface has them; every γ was proved.

        Args:
            problem: what is asked.
            objective: as in `gamma`.
            shape: as in `gamma`.
            points: values of p, evenly from 0.5 to 1.
            baselines: names of those to compare with; None for the usual ones.
            timeout: for this call [s]; None for the client's.

        Raises:
            ClientError: the service refused, did not answer, or what it said does not hold (`Distrusted`).
        """
        request = DesignSpec(problem, objective, shape)
        body = {**design(request), "points": points, "baselines": listed(baselines)}
        return curves_checked(self._ask("error-curve", body, timeout), problem)

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
    ) -> dict[str, Any]:
        """Return γ_opt for many allowances, as the REST interface has it; every γ was proved for its own target.

        Args:
            problem: gives K, the voters and how many are affected; its target does not count.
            ms: allowances m > 0; target ε [nats] where the voters' ε is 0 or inf and m has no meaning.
            objective: as in `gamma`.
            shape: as in `gamma`.
            delta: δ of every release [probability]; None for 1 − (1−Δ)^m.
            baselines: whose average errors are told beside.
            timeout: for this call [s]; None for the client's.

        Raises:
            ClientError: the service refused, did not answer, or what it said does not hold (`Distrusted`).
        """
        request = DesignSpec(problem, objective, shape)
        body = {name: value for name, value in design(request).items() if name not in {"target_epsilon", "delta"}}
        body["ms" if problem.m is not None else "target_epsilons"] = [float(m) for m in ms]
        body |= {"delta": delta, "baselines": listed(baselines)}
        wanted = [with_allowance(problem, m, delta) for m in ms]
        return tradeoff_checked(self._ask("tradeoff", body, timeout), wanted)

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
    ) -> dict[str, Any]:
        """Return the least δ of one release at each ε′, of γ_opt or of ``gamma``, as the REST interface has it.

        Its γ was proved private, and its δ computed again: they are this process's own.

        Args:
            problem: what is asked.
            objective: as in `gamma`.
            shape: as in `gamma`.
            gamma: γ(0..K) of yours, private or not; None for γ_opt.
            epsilons: where the profile is wanted [nats]; None for ``points`` of them, evenly from 0 on.
            points: how many, where ``epsilons`` is None.
            timeout: for this call [s]; None for the client's.

        Raises:
            ClientError: the service refused, did not answer, or what it said does not hold (`Distrusted`).
        """
        request = DesignSpec(problem, objective, shape)
        given = None if gamma is None else NoiseFunction(gamma, problem.K)
        at = None if epsilons is None else [float(epsilon) for epsilon in epsilons]
        body = {**design(request), "points": points, "epsilons": at}
        body["gamma"] = None if given is None else given.values.tolist()
        return profile_checked(self._ask("profile", body, timeout), problem, given, at)

    def _deadline(self, timeout: float | None) -> Deadline:
        return Deadline.after(self._timeout if timeout is None else timeout)

    def _ask(self, verb: str, body: dict[str, Any], timeout: float | None) -> Any:
        return self._source.ask(verb, body, self._deadline(timeout))
