"""The site, built by MkDocs with this file as a hook.

Pages link to each other and to files of the repository as on disk. Some of those files become pages; a link to any
other is replaced by the file's name.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

from tools.pages import PAGES

ROOT = Path(__file__).resolve().parent.parent

CARRIED = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/results.md": "benchmarks.md",
    "papers/README.md": "papers.md",
    "papers/results.md": "results.md",
    "api/page/llms.txt": "llms.txt",
}
"""Files outside docs/ that become pages, by their path in the repository."""

LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]\n]+(?:\n[^\]\n]+)?)\]\((?P<target>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the carried and the generated files."""
    for path, page in CARRIED.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / path)))
    for page, make in PAGES.items():
        files.append(File.generated(config, page, content=make()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return a page with links adapted to the site."""
    page_path = {page: path for path, page in CARRIED.items()}.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    return LINK.sub(lambda link: relinked(link, page_path), markdown)


def relinked(link: re.Match[str], page_path: str) -> str:
    """Return a link adapted to the site.

    Args:
        link: match of `LINK`.
        page_path: path of the page in the repository.
    """
    target, anchor = link["target"], link["anchor"] or ""
    if ":" in target:
        return link[0]
    target_path = posixpath.normpath(posixpath.join(posixpath.dirname(page_path), target))
    if target_path.startswith("docs/"):
        target_page = target_path.removeprefix("docs/")
    elif target_path in CARRIED:
        target_page = CARRIED[target_path]
    else:
        return link["text"] if target_path in link["text"] else f"{link['text']} (`{target_path}` in the repository)"
    page = CARRIED.get(page_path, page_path.removeprefix("docs/"))
    return f"{link['image']}[{link['text']}]({posixpath.relpath(target_page, posixpath.dirname(page) or '.')}{anchor})"
