"""Tools of the repository: the bill of materials, the audit, links of the site, a release."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from support.paths import ROOT

import darrm_opt
from tools import release, sbom
from tools.locked import RUNTIME, direct, pinned
from tools.site import LINK, relinked

IN_A_CHECKOUT = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="a release is made from a git checkout")


# ------------------------------------------------------------------------------------------------ lock and bill


def test_a_lock_is_read_completely() -> None:
    text = (ROOT / RUNTIME).read_text(encoding="utf-8")
    packages = pinned(RUNTIME)
    assert len(packages) == len(re.findall(r"^[a-z0-9.-]+==", text, re.MULTILINE))
    assert sum(len(package.hashes) for package in packages) == text.count("--hash=sha256:")
    assert {"numpy", "highspy", "fastapi"} <= direct(RUNTIME)
    assert "pycparser" not in direct(RUNTIME)
    names = {package.name for package in packages} | {"darrm-opt"}
    assert {asking for package in packages for asking in package.wanted_by} <= names


def test_the_bill_of_materials_has_every_package_and_its_dependents() -> None:
    bill = sbom.bill("1.2.3")
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert {each["name"]: each["version"] for each in bill["components"]} == {
        package.name: package.version for package in pinned(RUNTIME)
    }
    needs = {each["ref"]: each["dependsOn"] for each in bill["dependencies"]}
    reached, left = set(), ["pkg:pypi/darrm-opt@1.2.3"]
    while left:
        ref = left.pop()
        if ref not in reached:
            reached.add(ref)
            left += needs[ref]
    assert reached == set(needs)
    assert sbom.text("1.2.3") == sbom.text("1.2.3")


# ------------------------------------------------------------------------------------------------ audit


def audited(tmp_path: Path, program: str | None) -> subprocess.CompletedProcess[str]:
    if program is not None:
        fake = tmp_path / "pip-audit"
        fake.write_text(f"#!/bin/sh\n{program}\n")
        fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    environment = {**os.environ, "PATH": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tools.audit"]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("program", "status", "said"),
    [
        (None, 77, "SKIPPED, vulnerabilities were not checked: pip-audit is not installed"),
        ("echo 'no route to host' >&2; exit 1", 77, "SKIPPED, .* pip-audit failed: no route to host"),
        ("""echo '{"dependencies": [{"name": "a", "version": "1", "vulns": []}]}'""", 0, "1 packages .* 0 known"),
        (
            (
                """echo '{"dependencies": [{"name": "a", "version": "1", """
                """"vulns": [{"id": "X-1", "fix_versions": ["2"]}]}]}'"""
            ),
            1,
            "a 1: X-1, fixed in 2",
        ),
    ],
)
def test_an_audit_reports_known_vulnerabilities_or_none(
    program: str | None, status: int, said: str, tmp_path: Path
) -> None:
    done = audited(tmp_path, program)
    assert done.returncode == status, done.stderr
    assert re.search(said, done.stderr)


# ------------------------------------------------------------------------------------------------ site


@pytest.mark.parametrize(
    ("link", "here", "there"),
    [
        ("[a](b.md#c)", "docs/index.md", "[a](b.md#c)"),
        ("[a](../CHANGELOG.md)", "docs/index.md", "[a](changelog.md)"),
        ("[a](docs/planning.md)", "CHANGELOG.md", "[a](planning.md)"),
        ("[a](../README.md#names)", "docs/glossary.md", "[a](index.md#names)"),
        ("![a](docs/images/page.png)", "README.md", "![a](images/page.png)"),
        ("![a](images/page.png)", "docs/planning.md", "![a](images/page.png)"),
        ("[a](../openapi.json)", "docs/reference/rest.md", "[a](../openapi.json)"),
        ("[the file](../Dockerfile)", "docs/deploy.md", "the file (`Dockerfile` in the repository)"),
        ("[`Dockerfile`](../Dockerfile)", "docs/deploy.md", "`Dockerfile`"),
        ("[a](https://example.org/b)", "docs/index.md", "[a](https://example.org/b)"),
    ],
)
def test_links_are_rewritten_for_the_site(link: str, here: str, there: str) -> None:
    assert LINK.sub(lambda found: relinked(found, here), link) == there


# ------------------------------------------------------------------------------------------------ release

GOOD = "# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - 2026-12-01\n\n### Added\n\n- It.\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GOOD.replace("1.2.3", "1.2.2"), r"is '\[1\.2\.2\].*'; it should be '## \[1\.2\.3\] - YYYY-MM-DD'"),
        (GOOD.replace(" - 2026-12-01", ""), "YYYY-MM-DD"),
        (GOOD.replace("[Unreleased]\n", "[Unreleased]\n\n- That.\n"), "still has lines under Unreleased"),
        ("# Changelog\n", "is None; it should be"),
    ],
)
def test_a_changelog_of_another_version_is_refused(text: str, said: str) -> None:
    with pytest.raises(release.Refused, match=said):
        release.check_changelog(text, "1.2.3")


def test_a_changelog_of_the_version_is_accepted() -> None:
    release.check_changelog(GOOD, "1.2.3")


@pytest.mark.parametrize("stated", ["1.2", "", "1.2.3-beta", "v1.2.3"])
def test_invalid_versions_are_refused(stated: str, tmp_path: Path) -> None:
    (tmp_path / "darrm_opt").mkdir()
    (tmp_path / "darrm_opt" / "_version.py").write_text(f'__version__ = "{stated}"\n')
    with pytest.raises(release.Refused, match="no version like"):
        release.version_of(tmp_path)


def test_archives_with_other_contents_are_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "darrm_opt-1.2.3-py3-none-any.whl"
    papers = tmp_path / "darrm_papers-1.2.3-py3-none-any.whl"

    def written(version: str, *names: str, wheel: Path = wheel) -> None:
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("darrm_opt-1.2.3.dist-info/METADATA", f"Name: darrm-opt\nVersion: {version}\n")
            for name in names:
                archive.writestr(name, "")

    written("1.2.3", "darrm/a.py", "darrm_opt/b.py")
    release.check_archive(wheel, "1.2.3")
    written("1.2.4")
    with pytest.raises(release.Refused, match=r"has version 1\.2\.4, not 1\.2\.3"):
        release.check_archive(wheel, "1.2.3")
    written("1.2.3", "tests/a.py")
    with pytest.raises(release.Refused, match="holds tests, which do not belong to it"):
        release.check_archive(wheel, "1.2.3")
    written("1.2.3", "darrm_papers/a.py", wheel=papers)
    release.check_archive(papers, "1.2.3")
    written("1.2.3", "darrm_papers/a.py", "darrm_opt/a.py", wheel=papers)
    with pytest.raises(release.Refused, match="holds darrm_opt, which"):
        release.check_archive(papers, "1.2.3")


@IN_A_CHECKOUT
def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "old.whl").touch()
    with pytest.raises(release.Refused, match="is not empty"):
        release.make(tmp_path, rehearsal=True)


@IN_A_CHECKOUT
@pytest.mark.slow
def test_a_release_is_rehearsed(tmp_path: Path) -> None:
    files = release.make(tmp_path / "made", rehearsal=True)
    version = darrm_opt.__version__
    wheel, *others = [path.name for path in files]
    # for all platforms if there is no compiler, else for this one
    assert re.fullmatch(rf"darrm_opt-{re.escape(version)}-py3-none-(any|manylinux_2_\d+_\w+)\.whl", wheel)
    assert others == [
        f"darrm_opt-{version}.tar.gz",
        f"darrm_papers-{version}-py3-none-any.whl",
        "sbom.cdx.json",
        "SHA256SUMS",
    ]
    for line in files[-1].read_text(encoding="utf-8").splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((tmp_path / "made" / name).read_bytes()).hexdigest() == digest


def addressed(folder: Path) -> Path:
    for name in release.ADDRESSED:
        (folder / name).write_text((ROOT / name).read_text(encoding="utf-8"), encoding="utf-8")
    return folder


@pytest.mark.skipif(release.PLACEHOLDER not in (ROOT / "CITATION.cff").read_text(encoding="utf-8"), reason="released")
def test_placeholders_become_the_address_of_the_repository(tmp_path: Path) -> None:
    release.fill_addresses(addressed(tmp_path), "https://forge.example/people/darrm-opt/")
    for name in release.ADDRESSED:
        before, after = ((folder / name).read_text(encoding="utf-8") for folder in (ROOT, tmp_path))
        assert after == before.replace(release.PLACEHOLDER, "https://forge.example/people/darrm-opt") != before


def test_without_an_address_no_placeholder_is_published(tmp_path: Path) -> None:
    release.fill_addresses(addressed(tmp_path), None)
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project.get("urls", {}) == {}
    assert all(release.PLACEHOLDER not in (tmp_path / name).read_text(encoding="utf-8") for name in release.ADDRESSED)


@pytest.mark.parametrize("repository", ["", "forge.example/a", "http://forge.example/a", "https://forge.example/a b"])
def test_invalid_addresses_are_refused(repository: str, tmp_path: Path) -> None:
    with pytest.raises(release.Refused, match="should be a URL like https://host/owner/name"):
        release.fill_addresses(addressed(tmp_path), repository)


def test_a_citation_of_another_version_is_refused() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    release.check_citation(text, darrm_opt.__version__)
    with pytest.raises(release.Refused, match=r"should say 'version: 9\.9\.9'"):
        release.check_citation(text, "9.9.9")
