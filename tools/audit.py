"""``make audit``: are there known vulnerabilities in what the lock files pin?

pip-audit knows where to ask. It is no dependency of this project: where it is not installed, or the list cannot be
reached, this says so and is no success: exit status 77, "skipped", which the caller may accept.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import Any

from tools.locked import ROOT, RUNTIME

SKIPPED = 77
"""What test harnesses take for "could not be done here"."""

MINUTES = 5
"""Longest wait for an answer."""


def main() -> int:
    """Return 0 if nothing is known against what is pinned, 1 if something is, `SKIPPED` if nobody could be asked."""
    lock = str(ROOT / RUNTIME)
    program = shutil.which("pip-audit")
    if program is None:
        return _skip("pip-audit is not installed (pip install pip-audit)")
    command = [program, "--require-hashes", "--disable-pip", "--progress-spinner", "off", "-f", "json", "-r", lock]
    try:
        process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60 * MINUTES)  # noqa: S603 - a fixed command
    except subprocess.TimeoutExpired:
        return _skip(f"no answer within {MINUTES} minutes")
    try:
        report: dict[str, Any] = json.loads(process.stdout)
    except ValueError:
        return _skip(f"pip-audit could not ask: {(process.stderr.strip().splitlines() or ['no reason given'])[-1]}")
    vulnerabilities = [
        (package["name"], package["version"], vulnerability)
        for package in report["dependencies"]
        for vulnerability in package.get("vulns", ())
    ]
    for name, version, vulnerability in vulnerabilities:
        fixes = ", ".join(vulnerability["fix_versions"]) or "no version yet"
        _say(f"{name} {version}: {vulnerability['id']}, mended in {fixes}")
    _say(f"{len(report['dependencies'])} packages asked for, {len(vulnerabilities)} known vulnerabilities")
    return 1 if vulnerabilities else 0


def _skip(reason: str) -> int:
    _say(f"SKIPPED, so nothing is known about vulnerabilities: {reason}")
    return SKIPPED


def _say(text: str) -> None:
    sys.stderr.write(f"audit: {text}\n")


if __name__ == "__main__":
    sys.exit(main())
