"""``make release``: build and check a release of the commit in a local folder. Nothing is uploaded.

    wheels, source archive    built twice and compared; the second wheel is that of papers
    sbom.cdx.json             packages that a user installs (`tools.sbom`)
    SHA256SUMS                of all of these

The addresses in pyproject.toml and CITATION.cff are placeholders: ``--repository`` gives the real one, without which
the archives name none.

``--rehearsal`` accepts a version without a heading in the changelog, and a tree with changes, which it ignores.
"""

from __future__ import annotations

import argparse
import email
import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from tools import sbom
from tools.locked import ROOT

PACKAGES = {
    "darrm_opt": {"darrm", "darrm_client", "darrm_opt", "solver_cache"},
    "darrm_papers": {"darrm_papers"},
}
"""Packages in the wheel of each distribution; `api` is inside `darrm`."""

PLACEHOLDER = "https://repository.invalid"  # placeholder for the repository's address; `.invalid` is a reserved domain
ADDRESSED = ("pyproject.toml", "CITATION.cff")  # files with the placeholder
NUMBER = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")  # format of a version


class Refused(Exception):
    """The release was refused, with the reason."""


def version_of(source: Path) -> str:
    """Return the version that the source states; raises Refused if it is invalid."""
    text = (source / "darrm_opt" / "_version.py").read_text(encoding="utf-8")
    match = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    if match is None or not NUMBER.fullmatch(match[1]):
        raise Refused("darrm_opt/_version.py has no version like 1.2.3 or 1.2.3rc1")
    return match[1]


def check_changelog(text: str, version: str) -> None:
    """Raise Refused unless the newest heading of CHANGELOG.md is this version, dated, with nothing unreleased."""
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    heading_pattern = rf"\[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d"
    newest = next((heading for heading in headings if heading != "[Unreleased]"), None)
    if newest is None or not re.fullmatch(heading_pattern, newest):
        raise Refused(f"the newest heading of CHANGELOG.md is {newest!r}; it should be '## [{version}] - YYYY-MM-DD'")
    unreleased = re.search(r"^## \[Unreleased\]\n(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL)
    if unreleased and unreleased[1].strip():
        raise Refused(f"CHANGELOG.md still has lines under Unreleased: put them under [{version}]")


def check_citation(text: str, version: str) -> None:
    """Raise Refused unless CITATION.cff states this version."""
    version_line = re.search(r"^version: (.+)$", text, re.MULTILINE)
    if version_line is None or version_line[1] != version:
        raise Refused(f"CITATION.cff should say 'version: {version}'")


def fill_addresses(source: Path, repository: str | None) -> None:
    """Replace the placeholder by the repository's address, or without one remove the lines that contain it."""
    if repository is not None and not re.fullmatch(r"https://[a-z0-9.-]+\.[a-z]+(/[\w.~-]+)*/?", repository):
        raise Refused(f"--repository is {repository!r}; it should be a URL like https://host/owner/name")
    for name in ADDRESSED:
        path = source / name
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        if repository is None:
            lines = [line for line in lines if PLACEHOLDER not in line]
        else:
            lines = [line.replace(PLACEHOLDER, repository.rstrip("/")) for line in lines]
        path.write_text("".join(lines), encoding="utf-8")


def make(output: Path, *, rehearsal: bool, repository: str | None = None) -> list[Path]:
    """Build a release of the current commit in an empty folder; return its files.

    Raises Refused if something is wrong; then ``output`` stays empty.
    """
    if output.exists() and any(output.iterdir()):
        raise Refused(f"{output} is not empty")
    changes = _git("status", "--porcelain", "--untracked-files=no").strip()
    if changes and not rehearsal:
        raise Refused(f"there are uncommitted changes:\n{changes}")
    commit = _git("rev-parse", "HEAD").strip()  # read once: it may change
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "source"
        _unpack(commit, source)
        version = version_of(source)
        check_citation((source / "CITATION.cff").read_text(encoding="utf-8"), version)
        fill_addresses(source, repository)
        if not rehearsal:
            check_changelog((source / "CHANGELOG.md").read_text(encoding="utf-8"), version)
            if _git("tag", "--list", f"v{version}").strip():
                raise Refused(f"v{version} is tagged already")
        archives, second_build = (_build(commit, source, Path(scratch) / name) for name in ("first", "second"))
        if [path.read_bytes() for path in archives] != [path.read_bytes() for path in second_build]:
            raise Refused("two builds of the same commit differ")
        for path in archives:
            check_archive(path, version)
        output.mkdir(parents=True, exist_ok=True)
        files = [_write(output / path.name, path.read_bytes()) for path in archives]
    files.append(_write(output / "sbom.cdx.json", sbom.text(version).encode()))
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    return [*files, _write(output / "SHA256SUMS", sums.encode())]


def check_archive(path: Path, version: str) -> None:
    """Raise Refused for a wheel or source archive of another version, or with foreign packages."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            metadata = archive.read(next(name for name in names if name.endswith(".dist-info/METADATA"))).decode()
        ours = PACKAGES[path.name.partition("-")[0]]
        foreign = {name.split("/")[0] for name in names if ".dist-info/" not in name} - ours
        if foreign:
            raise Refused(f"{path.name} holds {', '.join(sorted(foreign))}, which do not belong to it")
    else:
        with tarfile.open(path) as archive:
            (inner,) = [name for name in archive.getnames() if re.fullmatch(r"[^/]+/PKG-INFO", name)]
            member = archive.extractfile(inner)
            metadata = member.read().decode() if member else ""
    stated_version = email.message_from_string(metadata)["Version"]
    if stated_version != version:
        raise Refused(f"{path.name} has version {stated_version}, not {version}")


def _unpack(commit: str, source: Path) -> None:
    """Unpack a commit."""
    with tempfile.TemporaryFile() as archive:
        subprocess.run(["git", "archive", "--format=tar", commit], cwd=ROOT, stdout=archive, check=True)  # noqa: S603, S607 - the user's git
        archive.seek(0)
        with tarfile.open(fileobj=archive) as tree:
            tree.extractall(source, filter="data")


def _build(commit: str, source: Path, folder: Path) -> list[Path]:
    epoch = _git("log", "-1", "--format=%ct", commit).strip()  # the archives' only time
    for project, targets in ((source, []), (source / "papers", ["-t", "wheel"])):  # the archive has both sources
        subprocess.run(  # noqa: S603 - a fixed command
            [sys.executable, "-m", "hatchling", "build", "-d", str(folder), *targets],
            cwd=project,
            env={**os.environ, "SOURCE_DATE_EPOCH": epoch},
            check=True,
            capture_output=True,
        )
    return sorted(folder.iterdir())


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, text=True, capture_output=True, check=True).stdout  # noqa: S603, S607 - the user's git


def _write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def main() -> int:
    """Parse the command line, build the release, and list its files."""
    parser = argparse.ArgumentParser(prog="make release", description="Make a release in a local folder.")
    parser.add_argument("--output", type=Path, default=ROOT / "dist" / "release", help="an empty folder")
    parser.add_argument("--repository", help="address of the repository, for the metadata: https://host/owner/name")
    parser.add_argument("--rehearsal", action="store_true", help="without the changelog's heading, and with changes")
    options = parser.parse_args()
    try:
        files = make(options.output, rehearsal=options.rehearsal, repository=options.repository)
    except Refused as err:
        sys.stderr.write(f"release: refused: {err}\n")
        return 1
    if options.repository is None:
        sys.stderr.write("release: without --repository the metadata has no address\n")
    for path in files:
        sys.stdout.write(f"{path}  {path.stat().st_size:,} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
