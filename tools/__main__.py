"""``python -m tools``: write every page that is made from something else."""

from __future__ import annotations

from pathlib import Path

from tools import licences, reference

DOCS = Path(__file__).resolve().parent.parent / "docs"

PAGES = {
    "reference/cli.md": reference.commands,
    "reference/rest.md": reference.routes,
    "licences.md": licences.page,
}
"""What is made, and from what; nobody edits these."""


def main() -> None:
    """Write the pages."""
    for name, make_page in PAGES.items():
        path = DOCS / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(make_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
