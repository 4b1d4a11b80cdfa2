"""``make run``: the paper's two real settings, solved, proved, drawn and served.

MNIST and Fashion-MNIST: K = 11 teachers, m = 3, Δ = 1e-4, δ = 1 − (1−Δ)^m; ε = 0.0892 and 0.0852 (Section 5 of the
paper). The answers are stored in the cache, so the API responds at once.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from api.server.run import listen, prepare, serve, url_of
from darrm.cli.output import ExitCode, answer, fail, prepare_streams, report_errors, say
from darrm.cli.parameters import number
from darrm.cli.parser import HELP, Command, CommandOption, UsageError, parse, verb_help
from darrm.cli.verbs.serve import HOST, PORT

if TYPE_CHECKING:
    from darrm_opt import Solution


SETTINGS = {"MNIST": 0.0892, "Fashion-MNIST": 0.0852}  # ε of one teacher; the other numbers are the same for both


def solve_settings() -> dict[str, Solution]:
    """Solve the two settings, or read them from the cache."""
    from darrm_opt import Problem
    from solver_cache import cache_url, cached_solve, open_store

    store = open_store(cache_url(os.environ))
    try:
        return {
            name: cached_solve(Problem.from_allowance(K=11, m=3, epsilon=epsilon, Delta=1e-4), store=store).solution
            for name, epsilon in SETTINGS.items()
        }
    finally:
        store.close()


def draw(solution: Solution, path: Path) -> None:
    """Draw γ and its error beside the baselines."""
    from darrm.cli.files import write_whole
    from darrm_opt.figures import comparison_figure, render
    from darrm_opt.planning.baselines import private_baselines

    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, render(comparison_figure(solution, private_baselines(solution.problem)), path.suffix[1:]))


def first_run(
    host: Annotated[str, CommandOption("--host", "Address to serve at.", "ADDRESS")] = HOST,
    port: Annotated[str, CommandOption("--port", "Port to serve at; 0 takes any free one.", "PORT")] = PORT,
    output: Annotated[str, CommandOption("--output", "Folder for the figures.", "FOLDER")] = "output",
    *,
    serving: Annotated[bool, CommandOption("--serve/--no-serve", "Serve the API afterwards, or stop.")] = True,
) -> None:
    """Solve the paper's two real settings, draw them, and serve them."""
    with report_errors():
        listening = listen(host, number(port)) if serving else None  # fail before the work, not after
        settings = None if listening is None else prepare(listening)
        for name, solution in solve_settings().items():
            answer(f"{name}: {solution}")
            path = Path(output) / f"{name.lower()}.png"
            draw(solution, path)
            answer(f"figure       {path}\n")
        if listening is None or settings is None:
            return
        url = url_of(listening)
        text = (
            f"Serving these answers at {url}, for example\n"
            f"  curl '{url}/v1/gamma?K=11&m=3&epsilon=0.0892&Delta=1e-4'\nctrl-C stops it."
        )
        serve(settings, listening, lambda: say(text))


if __name__ == "__main__":
    prepare_streams()
    _command = Command.of(first_run)
    if any(word in HELP for word in sys.argv[1:]):
        answer(verb_help("tools.first_run", _command, full=True, program="python -m"))
        sys.exit(ExitCode.DONE)
    try:
        _values = parse(sys.argv[1:], _command.parameters)
    except UsageError as err:
        fail(str(err), ExitCode.BAD_INPUT)
    _command.call(_values)
