"""``make audit``: known vulnerabilities of the pinned packages.

Uses pip-audit, which is not a dependency. Without it, or if its list is unreachable, the exit status is 77
("skipped"), which the caller may accept.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import Any

from tools.locked import ROOT, RUNTIME

SKIPPED = 77  # exit status for "skipped" in test harnesses

MINUTES = 5


def main() -> int:
    """Return 0 without known vulnerabilities, 1 with some, `SKIPPED` if the list is unavailable."""
    lock = str(ROOT / RUNTIME)
    program = shutil.which("pip-audit")
    if program is None:
        return _skip("pip-audit is not installed (pip install pip-audit)")
    command = [program, "--require-hashes", "--disable-pip", "--progress-spinner", "off", "-f", "json", "-r", lock]
    try:
        process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60 * MINUTES)  # noqa: S603 - a fixed command
    except subprocess.TimeoutExpired:
        return _skip(f"no response within {MINUTES} minutes")
    try:
        report: dict[str, Any] = json.loads(process.stdout)
    except ValueError:
        return _skip(f"pip-audit failed: {(process.stderr.strip().splitlines() or ['no reason given'])[-1]}")
    vulnerabilities = [
        (package["name"], package["version"], vulnerability)
        for package in report["dependencies"]
        for vulnerability in package.get("vulns", ())
    ]
    for name, version, vulnerability in vulnerabilities:
        fixes = ", ".join(vulnerability["fix_versions"]) or "no version yet"
        _say(f"{name} {version}: {vulnerability['id']}, fixed in {fixes}")
    _say(f"{len(report['dependencies'])} packages checked, {len(vulnerabilities)} known vulnerabilities")
    return 1 if vulnerabilities else 0


def _skip(reason: str) -> int:
    _say(f"SKIPPED, vulnerabilities were not checked: {reason}")
    return SKIPPED


def _say(text: str) -> None:
    sys.stderr.write(f"audit: {text}\n")


if __name__ == "__main__":
    sys.exit(main())
