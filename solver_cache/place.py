"""Where solutions are kept, as a database URL."""

from __future__ import annotations

from collections.abc import Mapping

VARIABLE = "DARRM_CACHE_URL"
"""The setting that names the place."""


def cache_url(environment: Mapping[str, str]) -> str:
    """Return the place that ``environment`` asks for, else a SQLite file under the user's cache directory.

    Args:
        environment: such as ``os.environ``; passed in, so that it is read once, at the edge.

    >>> cache_url({"DARRM_CACHE_URL": "off"})
    'off'
    """
    chosen = environment.get(VARIABLE, "").strip()
    if chosen:
        return chosen
    from platformdirs import user_cache_path

    return f"sqlite:///{user_cache_path('darrm-opt', appauthor=False) / 'cache.sqlite'}"
