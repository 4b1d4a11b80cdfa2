"""Verb ``darrm curve``: errors of a release, and its privacy profile."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, cast

from darrm.cli.output import ExitCode, end, exit_code_of
from darrm.cli.parameters import AsJson, DesignOptions, ProblemOptions, number, options_named
from darrm.cli.parser import CommandOption

if TYPE_CHECKING:
    from darrm_opt import Solution
    from darrm_opt.design.solver import Shape
    from darrm_opt.questions.question import Question


def curve(
    options: ProblemOptions,
    design: DesignOptions,
    over: Annotated[
        str,
        CommandOption(
            "--over",
            "p: the chance of 1 that all voters share. m: the allowance; errors are averages over the objective's "
            "prior. epsilon: the privacy of one release.",
            "p|m|epsilon",
        ),
    ] = "p",
    points: Annotated[
        str | None,
        CommandOption(
            "--points",
            "Values of p from 0.5 to 1 (the same below 0.5), or of ε from 0 to beyond the target.",
            "COUNT",
            otherwise="21 of p, 16 of ε",
        ),
    ] = None,
    at: Annotated[
        str | None,
        CommandOption(
            "--at", "Values of p, m or ε, as in 1,3,5.", "NUMBERS", otherwise="--points; m: 1, 2, … up to (K+1)/2"
        ),
    ] = None,
    solution: Annotated[
        str | None,
        CommandOption("--solution", "With --over epsilon, an answer of `darrm solve`, or - for stdin.", "FILE"),
    ] = None,
    plot: Annotated[str | None, CommandOption("--plot", "Plot the curves: .png, .svg or .pdf.", "FILE")] = None,
    *,
    json: AsJson = False,
) -> None:
    """Tabulate γ_opt: its error and the baselines' over p or m, or its privacy profile over ε.

    tv error: how far the released bit's distribution is from the majority's. Disagreement: how often the bit is not
    the majority that was voted. Every curve has the same privacy.

    The profile is the least δ that is proved, at each ε; the problem's target is one point of it. Many releases are
    accounted for by all of it: see `darrm cost`.
    """
    from darrm.cli.files import check_plot
    from darrm.cli.verbs.question import ask, show
    from darrm_opt.errors import InvalidInput, Rule
    from darrm_opt.record import problem_record

    # Before the solves: a missing library or folder should not cost their time.
    check_plot(plot)
    if over not in {"p", "m", "epsilon"}:
        raise InvalidInput("over", over, "p, m or epsilon")
    if points is not None and (at is not None or over == "m"):
        raise InvalidInput("points", points, Rule("cannot be combined with --at or --over m"))
    if over == "epsilon" and plot is not None:
        raise InvalidInput("plot", plot, Rule("cannot be combined with --over epsilon"))
    if over != "epsilon" and solution is not None:
        raise InvalidInput("solution", solution, Rule("needs --over epsilon"))
    values = None if at is None else _values(at)
    beside: dict[str, Any] = {}
    solutions: list[Solution] = []
    if over == "epsilon":
        asked = _over_epsilon(options, design, solution, points or "16", values)
    elif over == "p":
        asked = _over_p(options, design, points or "21", values, solutions)
    else:
        asked = _over_m(options, design, values, solutions)
        beside["problems"] = [problem_record(each.problem) for each in solutions]
    found = ask(asked, "computing the profile" if over == "epsilon" else "computing curves")
    show(asked, found, json=json, plot=plot, beside=beside)
    # The worst of them: a program must not take a curve with one bad point for a good one.
    end(max((exit_code_of(each.status) for each in solutions), default=ExitCode.DONE))


def _values(text: str) -> list[float]:
    from darrm_opt.arguments import real_number

    values = [number(word) for word in text.split(",")]
    for value in values:
        real_number(value, "at", "numbers, as in 1,3,5")
    return values


def _over_p(
    options: ProblemOptions, design: DesignOptions, points: str, at: list[float] | None, solutions: list[Solution]
) -> Question:
    from darrm.cli.cached_solve import cached_solution
    from darrm_opt.errors import InvalidInput
    from darrm_opt.questions.curve import Curve, p_grid
    from darrm_opt.record import DesignSpec, solution_record

    p = p_grid(number(points)) if at is None else at
    if not all(0 <= each <= 1 for each in p):
        raise InvalidInput("at", max(p, key=abs), "probabilities in [0, 1]")
    solutions.append(cached_solution(options.problem(), design))
    spec = DesignSpec.of(solutions[0])
    return Curve(
        K=solutions[0].problem.K, found={"id": spec.key, "nearest": None, **solution_record(solutions[0])}, at=p
    )


def _over_m(
    options: ProblemOptions, design: DesignOptions, at: list[float] | None, solutions: list[Solution]
) -> Question:
    from darrm.cli.cached_solve import cached_solution
    from darrm_opt.design.objective import Objective, as_objective
    from darrm_opt.errors import InvalidInput
    from darrm_opt.questions.tradeoff import TradeoffQuestion
    from darrm_opt.record import solution_record

    for name in ("m", "target_epsilon"):
        if (value := getattr(options, name)) is not None:
            raise InvalidInput(name, value, "no single target with --over m", "Give the allowances with --at.")
    options.problem(m=1)  # says what is wrong with the other options
    names = ("K", "epsilon", "Delta", "delta", "affected")
    asked = TradeoffQuestion(
        **{name: number(getattr(options, name)) for name in names},
        ms=at,
        objective=design.prior,
        shape=cast("Shape", design.shape),  # checked there
        backend=design.backend,
    )
    if not isinstance(goal := as_objective(design.prior), Objective):
        accepted = "an objective with a prior, such as rectangular or shared(2,5)"
        advice = "Only under a prior is there one error for each m."
        raise InvalidInput("objective", str(goal), accepted, advice)
    with options_named(m="at"):
        specs = asked.designs()
    solutions += [cached_solution(spec.problem, design) for spec in specs]
    return replace(asked, found=[solution_record(each) for each in solutions])


def _over_epsilon(
    options: ProblemOptions, design: DesignOptions, solution: str | None, points: str, at: list[float] | None
) -> Question:
    from darrm.cli.cached_solve import release_of
    from darrm_opt.questions.profile import Profile, epsilon_grid
    from darrm_opt.record import problem_record

    epsilon_grid(0.0, number(points))  # refuses an invalid number of points before any work
    release = release_of(options, design, solution)
    gamma = release.noise.values.tolist()
    found = {"id": None, "nearest": None, "problem": problem_record(release.problem), "gamma": gamma}
    found["warnings"] = list(release.problem.warnings(gamma))
    return Profile(K=release.problem.K, found=found, epsilons=at, points=number(points))
