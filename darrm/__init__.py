"""The program: ``darrm VERB …``, ``python -m darrm VERB …``, and the service as an ASGI application.

The command line is `darrm.cli`. The service is the package `api`, a name that many projects give to a folder of their
own. An installed darrm-opt therefore keeps `api` out of site-packages, in ``darrm/_service/``, and this package, which
imports nothing itself, leads to it: its parent folder becomes the first entry of ``sys.path``, before the present
folder and before ``PYTHONPATH``. Processes that the program starts take over ``sys.path`` and so find the same `api`.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import FastAPI

    from api.settings import Settings

_HERE = os.path.dirname(os.path.realpath(__file__))  # noqa: PTH120 - pathlib takes as long to load as a small design


def service_folder() -> str:
    """Return the folder that holds this distribution's package `api`: installed from a wheel, or in a checkout."""
    installed = os.path.join(_HERE, "_service")  # noqa: PTH118
    return installed if os.path.isdir(installed) else os.path.dirname(_HERE)  # noqa: PTH112, PTH120


def main() -> None:
    """Run ``darrm``: the console script."""
    _lead_to_service()
    from darrm.cli import main as run

    run()


def create_app(settings: Settings | None = None) -> FastAPI:
    """Return the service as an ASGI application, for a server of one's own: ``uvicorn --factory darrm:create_app``.

    Args:
        settings: None reads them from the environment, once.

    Raises:
        BackendUnavailable: the extra ``serve`` is not installed.
        ImportError: another package called ``api`` was imported in this process.
        InvalidInput: a setting in the environment is not valid.
    """
    _lead_to_service()
    from darrm_opt.optional_packages import needed_by

    with needed_by("The service"):
        from api.app import create_app as create

    return create(settings)


def _lead_to_service() -> None:
    folder = service_folder()
    if sys.path[:1] != [folder]:
        sys.path.insert(0, folder)
    loaded = getattr(sys.modules.get("api"), "__file__", None)
    here = os.path.join(folder, "api")  # noqa: PTH118
    if "api" in sys.modules and (loaded is None or os.path.dirname(os.path.realpath(loaded)) != here):  # noqa: PTH120
        raise ImportError(
            f"another package named api is already imported, from {loaded}: run darrm in a separate process"
        )
