"""Schemathesis against a running service, with all of its checks on.

    PYTHONPATH=tests python -m campaigns.schema_fuzz --examples 60 --seed 1 2 3 --write docs/fuzzing.md

Starts `darrm serve` with small bounds, so that no case takes long, and has Schemathesis read its /openapi.json and send
what fits that description, what lies on its edges, and what breaks it: wrong types, missing and unknown fields,
malformed bodies, undescribed methods. A 5xx, an undescribed status, header or media type, an answer that does not fit
its schema, or an invalid request that is accepted is a failure. The only configuration is `schemathesis.toml` beside
this file.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from support.served import serving

from campaigns.driver import origin, publish, read_options, say, table

HERE = Path(__file__).resolve().parent

BOUNDS = {
    "DARRM_CACHE_URL": "memory",
    "DARRM_MAX_VOTERS": "9",
    "DARRM_MAX_BATCH": "5",
    "DARRM_TIME_LIMIT": "5",
    "DARRM_WAIT_SECONDS": "5",
    "DARRM_SOLVERS": "1",
    "DARRM_RATE": "0",
    "DARRM_BURST": "1000000",
    "DARRM_LOG_LEVEL": "error",
}
"""Settings of the service under test: small problems, and no limit on how often it is asked."""

WIDTH = 400  # longest line of what Schemathesis says that is repeated [characters]; some requests are very long
PATIENCE = 60  # longest time of an answer [s]; a solver process that is begun anew on a busy machine takes ten

PHASES = ("examples", "coverage", "fuzzing")


@dataclass(frozen=True)
class Report:
    seed: int  # of all that was generated
    cases: int  # requests that were generated
    operations: int  # of the API, tested
    passed: bool  # whether nothing was found
    text: str  # what Schemathesis said
    log: str  # what the service logged: nothing, unless it made a mistake


def run(examples: int, phases: Sequence[str] = PHASES, seed: int = 1, only: str = "") -> Report:
    """Run Schemathesis against a service of its own.

    Args:
        examples: generated requests for each operation in the fuzzing phase, of each kind.
        phases: which of Schemathesis's phases.
        seed: of all that is generated.
        only: a regular expression for the paths; "" for all of them.
    """
    script = Path(sys.executable).with_name("schemathesis")
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder), **BOUNDS) as server:
        command = [str(script), "--config-file", str(HERE / "schemathesis.toml"), "run", f"{server.url}/openapi.json"]
        options = ["--checks", "all", "--phases", ",".join(phases), "--max-examples", str(examples), "--workers", "1"]
        patient = ["--max-response-time", str(PATIENCE), "--request-timeout", str(2 * PATIENCE)]
        steady = ["--seed", str(seed), "--generation-database", "none", "--continue-on-failure", "--no-color"]
        path_options = ["--include-path-regex", only] if only else []
        command += options + patient + steady + path_options
        process = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    generated = re.search(r"([\d,]+) generated", process.stdout)
    tested = re.search(r"Tested: (\d+)", process.stdout)
    cases = int(generated[1].replace(",", "")) if generated else 0
    text = "\n".join(line[:WIDTH] for line in (process.stdout + process.stderr).splitlines()) + "\n"
    return Report(seed, cases, int(tested[1]) if tested else 0, process.returncode == 0, text, "".join(server.log))


def main() -> int:
    options = read_options(
        __doc__,
        None,
        examples=(60, "generated requests for each operation and kind"),
        seed=([1], "a run for each"),
        only=("", "regular expression for paths"),
        phases=",".join(PHASES),
        write=Path,
    )
    reports = list[Report]()
    for seed in options.seed:
        reports.append(run(options.examples, options.phases.split(","), seed, options.only))
        say(f"seed {seed}", reports[-1].text, reports[-1].log[-5000:])
    rows = [(r.seed, r.operations, f"{r.cases:,}", "none" if r.passed else "failures") for r in reports]
    command = f"make fuzz ARGS='--examples {options.examples} --phases {options.phases}"
    command += f" --only {options.only}'" if options.only else "'"
    lines = [*table(("seed", "operations", "cases", "faults"), rows), "", origin(command, "schemathesis", "fastapi")]
    publish("schema_fuzz", lines, options.write)
    return int(not all(report.passed for report in reports))


if __name__ == "__main__":
    sys.exit(main())
