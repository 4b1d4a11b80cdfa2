"""Ask the service in the container for a γ, as a training job would: `ask.py solved` or `ask.py kept`."""

from __future__ import annotations

import ssl
import sys

from darrm_client import AccessDenied, DarrmClient
from darrm_opt import Problem, solve

PROBLEM = Problem.from_allowance(K=11, m=3, epsilon=0.0892, Delta=1e-4)


def main() -> int:
    """Ask, compare with a local solve, and check whether the answer was stored, as expected."""
    tls = ssl.create_default_context()  # with the certificate of the proxy if SSL_CERT_FILE names one
    with DarrmClient(timeout=60, tls=tls) as client:
        found = client.gamma(PROBLEM)  # verified by the client
    with DarrmClient(key="darrm_00000000_" + 43 * "A", timeout=60, retries=0, tls=tls) as stranger:
        try:
            stranger.gamma(PROBLEM)
        except AccessDenied:
            pass
        else:
            return _wrong("a key that was never made opens the service")
    if abs(found.utility - solve(PROBLEM).utility) > 1e-9:
        return _wrong(f"its utility is {found.utility!r}")
    if found.cached is not (sys.argv[1] == "kept"):
        return _wrong(f"cached is {found.cached}")
    return 0


def _wrong(text: str) -> int:
    sys.stderr.write(f"ask: {text}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
