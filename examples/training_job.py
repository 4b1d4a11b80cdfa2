"""A training job that fetches its γ at startup: from the service, or from a table file if the service is unreachable.

    DARRM_URL=http://darrm:8000 python training_job.py --table gammas.jsonl

``DARRM_URL`` is the service (``DARRM_KEY`` its API key, if required). The table, shipped with the job, is a file of
records printed by ``darrm solve --json``, or a SQLite file of the cache. Every γ is proved private here before use,
so neither the service nor the file is trusted. A job without a γ stops; it never continues without noise.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np

from darrm_client import AccessDenied, ClientError, DarrmClient, VerifiedAnswer
from darrm_opt import PrivateVote, Problem

PROBLEM = Problem.from_allowance(K=11, m=3, epsilon=0.1, Delta=1e-5)
STEPS = 5


def fetch_gamma(problem: Problem, table: Path | None) -> tuple[VerifiedAnswer, str]:
    """Return γ and where it is from.

    Raises:
        SystemExit: neither the service nor the table has one.
    """
    places = [os.environ.get("DARRM_URL", ""), "" if table is None else table.resolve().as_uri()]
    refusals = []
    for url in filter(None, places):
        try:
            with DarrmClient(url, timeout=20, retries=2) as client:
                return client.gamma(problem), url.partition(":")[0]
        except AccessDenied:
            raise  # a wrong key is for people to mend, not for a fallback to hide
        except ClientError as err:
            refusals.append(str(err))
            print(f"no γ from {url.partition(':')[0]}: {type(err).__name__}")
    raise SystemExit("no γ, so nothing is released. " + " ".join(refusals))


def main() -> None:
    """Fetch γ, then train."""
    options = argparse.ArgumentParser(description="Train with private majorities.")
    options.add_argument("--table", type=Path, help="where to look if the service is not there")
    solution, source = fetch_gamma(PROBLEM, options.parse_args().table)
    exact = "for this very problem" if solution.exact else "for a problem that implies it"
    print(
        f"γ from {source}, designed {exact}; utility {solution.utility:.4f}, margin {solution.certificate.margin:.1e}"
    )

    release = PrivateVote(solution)
    rng = np.random.default_rng(5)
    weight = 0.0
    for step in range(STEPS):  # each worker's private answer: should the weight go up?
        votes = (rng.random(PROBLEM.K) < 0.5 + 0.45 * np.sign(1.0 - weight)).astype(np.uint8)
        weight += 0.5 * (2 * release.release(votes) - 1)
        print(f"  step {step + 1}: weight {weight:+.1f}")
    print("done")


if __name__ == "__main__":
    main()
