"""``python -m darrm_opt VERB …``: the installed command ``darrm VERB …``.

The command depends on this package, so it is not imported here but looked up in the installation.
"""

from __future__ import annotations

import sys
from importlib import metadata


def main() -> None:
    """Run the command."""
    try:
        (script,) = metadata.distribution("darrm-opt").entry_points.select(group="console_scripts", name="darrm")
    except metadata.PackageNotFoundError:
        sys.exit("Error: darrm-opt is not installed in this Python: pip install . first, or run python -m darrm.")
    script.load()()


if __name__ == "__main__":
    main()
