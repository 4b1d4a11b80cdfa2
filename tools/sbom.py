"""The bill of materials, as CycloneDX 1.6 in JSON: packages that a user installs, with versions, hashes and licences.

``python -m tools.sbom FILE`` writes it from the lock file and the metadata of installed packages, without time or
serial number, so that the same lock gives the same file.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tools.locked import RUNTIME, Pinned, licence, pinned

EXPRESSION = {"AND", "OR", "WITH"}  # operators of a licence expression


def bill(version: str) -> dict[str, Any]:
    """Return the bill of materials for a version of darrm-opt."""
    packages = pinned(RUNTIME)
    ours = f"pkg:pypi/darrm-opt@{version}"
    urls = {package.name: f"pkg:pypi/{package.name}@{package.version}" for package in packages}
    needs: dict[str, set[str]] = {ours: set(), **{url: set() for url in urls.values()}}
    for package in packages:
        for requester in package.wanted_by:
            needs[ours if requester == "darrm-opt" else urls.get(requester, ours)].add(urls[package.name])
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": ours,
                "name": "darrm-opt",
                "version": version,
                "purl": ours,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": [_component(package, urls[package.name]) for package in packages],
        "dependencies": [{"ref": url, "dependsOn": sorted(on)} for url, on in sorted(needs.items())],
    }


def _component(package: Pinned, url: str) -> dict[str, Any]:
    licence_name = licence(package.name)
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": url,
        "name": package.name,
        "version": package.version,
        "purl": url,
        # one hash per permitted file; CycloneDX's "hashes" are of a single file
        "properties": [{"name": "darrm-opt:sha256", "value": digest} for digest in package.hashes],
    }
    if package.marker:
        component["properties"].append({"name": "darrm-opt:marker", "value": package.marker})
    if licence_name is not None:
        several = EXPRESSION & set(licence_name.split())
        component["licenses"] = [{"expression": licence_name} if several else {"license": {"name": licence_name}}]
    return component


def text(version: str) -> str:
    """Return the bill of materials as JSON text."""
    return json.dumps(bill(version), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    from darrm_opt._version import __version__

    Path(sys.argv[1]).write_text(text(__version__), encoding="utf-8")
