"""Schemathesis against a running service, with all of its checks on.

    PYTHONPATH=tests python -m campaigns.schema_fuzz --examples 60 --seed 1 2 3 --write docs/fuzzing.md

Starts `darrm serve` with small bounds, so that no case takes long, and has Schemathesis read its /openapi.json and send
what fits that description, what lies on its edges, and what breaks it: wrong types, missing and unknown fields,
malformed bodies, undescribed methods. A 5xx, an undescribed status, header or media type, an answer that does not fit
its schema, or an invalid request that is accepted is a failure. The only configuration is `schemathesis.toml` beside
this file.
"""

from __future__ import annotations

import argparse
import datetime as dt
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from support.served import serving

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

WIDTH = 400
"""Longest line of what Schemathesis says that is repeated [characters]; some requests are very long."""

PATIENCE = 60
"""Longest time of an answer [s]; a solver process that is begun anew on a busy machine takes ten."""

PHASES = ("examples", "coverage", "fuzzing")


@dataclass(frozen=True)
class Report:
    """What a run came to."""

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


_ROW = re.compile(r"^(\| [0-9-]{10} \| `[^`]*` \|).*$", re.MULTILINE)
"""Row of the table; its beginning, date and command, tells it from others."""


def page(reports: Sequence[Report], options: str, old_page: str = "", day: str = "") -> str:
    """Return the reports as a page of the documentation: a row each, behind those of the page as it was.

    Args:
        reports: of runs with the same options.
        options: of the command, but for the seed.
        before: the page as it was; a row of the same day and command is replaced.
        day: of the runs; today's, unless given.
    """
    day = day or dt.datetime.now(tz=dt.UTC).date().isoformat()
    command = f"PYTHONPATH=tests python -m campaigns.schema_fuzz {options} --seed"
    rows_by_start = {match[1]: match[0] for match in _ROW.finditer(old_page)}
    for report in reports:
        row = f"| {day} | `{command} {report.seed}` |"
        rows_by_start[row] = (
            f"{row} {report.operations} | {report.cases:,} | {'none' if report.passed else 'failures'} |"
        )
    rows = "\n".join(rows_by_start.values())
    return f"""# The API under fuzzing

Schemathesis reads the service's OpenAPI description and sends valid, boundary and invalid requests, with
all checks enabled: no 5xx; no undocumented status, header or media type; every response matches its schema;
every invalid request is rejected. `tests/campaigns/schema_fuzz.py` runs it against `darrm serve` with small
limits; the test suite contains a short run (`tests/api/routes/test_schema_fuzz.py`). The configuration
(`tests/campaigns/schemathesis.toml`) allows two exceptions. The service may reject a request that matches
the schema with 422, because a schema cannot express relations between fields (`affected` at most `K`, `m`
or `target_epsilon`, a `gamma` of K + 1 entries) or the server's own limits. It may reject a request that is
too long with 413 or 431.

| date | command | operations | cases | faults |
|---|---|---|---|---|
{rows}

Python {platform.python_version()}, Schemathesis {version("schemathesis")}, FastAPI {version("fastapi")}.

Faults found during development, all fixed: an `Allow` header that listed the methods of one route only; a
500 for a query value whose error message lacked the accepted values; errors that took seconds to log; the
result of a job of several plurality rules that was not described (seeds 103 to 105).
"""


def main() -> None:
    """Run the campaign from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=60, help="generated requests for each operation and kind")
    parser.add_argument("--seed", type=int, nargs="+", default=[1], help="a run for each")
    parser.add_argument("--only", default="", help="regular expression for paths")
    parser.add_argument("--phases", default=",".join(PHASES))
    parser.add_argument("--write", type=Path, help="page of the documentation to add the runs to")
    options_ = parser.parse_args()
    reports = list[Report]()
    for seed in options_.seed:
        reports.append(run(options_.examples, options_.phases.split(","), seed, options_.only))
        sys.stdout.write(f"seed {seed}\n{reports[-1].text}{reports[-1].log[-5000:]}")
        sys.stdout.flush()
    if options_.write is not None:
        options = f"--examples {options_.examples}"
        options += f" --phases {options_.phases}" if options_.phases != parser.get_default("phases") else ""
        options += f" --only '{options_.only}'" if options_.only else ""
        old_page = options_.write.read_text(encoding="utf-8") if options_.write.exists() else ""
        options_.write.write_text(page(reports, options, old_page), encoding="utf-8")
    sys.exit(0 if all(report.passed for report in reports) else 1)


if __name__ == "__main__":
    main()
