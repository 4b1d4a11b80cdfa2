"""Optional packages: imported on use, with an error that names the extra to install if one is missing."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from darrm_opt.errors import BackendUnavailable

EXTRAS = {
    "attrs": ("attrs", "accounting"),
    "cvxpy": ("cvxpy", "cvxpy"),
    "distributed": ("distributed", "dask"),
    "dp_accounting": ("dp-accounting", "accounting"),
    "fastapi": ("fastapi", "serve"),
    "filelock": ("filelock", "store"),
    "flint": ("python-flint", "exact"),
    "flwr": ("flwr", "flower"),
    "gurobipy": ("gurobipy", "gurobi"),
    "httpcore": ("httpcore", "serve"),
    "httptools": ("httptools", "serve"),
    "httpx": ("httpx", "client"),
    "matplotlib": ("matplotlib", "plot"),
    "mcp": ("mcp", "mcp"),
    "opentelemetry": ("opentelemetry-sdk", "otel"),
    "platformdirs": ("platformdirs", "store"),
    "prometheus_client": ("prometheus-client", "serve"),
    "psycopg": ("psycopg", "postgres"),
    "pyarrow": ("pyarrow", "parquet"),
    "pydantic": ("pydantic", "serve"),
    "pydantic_settings": ("pydantic-settings", "serve"),
    "rich": ("rich", "cli"),
    "shtab": ("shtab", "cli"),
    "scipy": ("scipy", "plurality"),
    "sklearn": ("scikit-learn", "sklearn"),
    "sqlalchemy": ("SQLAlchemy", "store"),
    "uvicorn": ("uvicorn", "serve"),
}
"""By import name: the package, and the extra of darrm-opt that installs it."""


def require(module: str, feature: str) -> Any:
    """Return a module of an optional package.

    >>> require("sklearn.base", "an example").__name__
    'sklearn.base'
    """
    with needed_by(feature):
        return importlib.import_module(module)


@contextmanager
def needed_by(feature: str) -> Iterator[None]:
    """Turn the failed import of an optional package into an error with the command that installs it."""
    try:
        yield
    except ImportError as err:
        missing = missing_package(err, feature)
        if missing is None:
            raise
        raise missing from err


def posix_only(feature: str) -> None:
    """Raise an error on systems without file locks and inherited descriptors."""
    try:
        import fcntl  # noqa: F401
    except ImportError as err:
        raise BackendUnavailable(f"{feature} needs a POSIX system, such as Linux or macOS.") from err


def missing_package(err: ImportError, feature: str) -> BackendUnavailable | None:
    """Return the error with the command that installs an optional package; None for any other package."""
    entry = EXTRAS.get((err.name or "").partition(".")[0])
    if entry is None:
        return None
    package, extra = entry
    return BackendUnavailable(
        f"{feature} needs the package {package}, which is not installed: pip install 'darrm-opt[{extra}]'."
    )
