"""Optional packages: imported on use, with a helpful error if missing."""

from __future__ import annotations

import importlib
from typing import Any

from darrm_opt.errors import BackendUnavailable

EXTRAS = {
    "dp_accounting": ("dp-accounting", "accounting"),
    "flint": ("python-flint", "exact"),
    "matplotlib": ("matplotlib", "plot"),
    "sklearn": ("scikit-learn", "sklearn"),
}
"""By the name that is imported: the package, and the extra of darrm-opt that brings it."""


def require(module: str, wanted: str) -> Any:
    """Return a module of an optional package.

    Args:
        module: its full name, such as ``sklearn.datasets``.
        wanted: the feature that needs it; the message begins with it.

    Raises:
        BackendUnavailable: it is not installed; the message says what to install.

    >>> require("sklearn.base", "an example").__name__
    'sklearn.base'
    """
    try:
        return importlib.import_module(module)
    except ImportError as err:
        package, extra = EXTRAS[module.partition(".")[0]]
        raise BackendUnavailable(
            f"{wanted} needs the package {package}, which is not installed: pip install 'darrm-opt[{extra}]'."
        ) from err
