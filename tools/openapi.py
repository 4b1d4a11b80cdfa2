"""The description of the API as a file: ``python -m tools.openapi > openapi.json``."""

from __future__ import annotations

import json
import sys

from api.app import create_app
from api.settings import Settings


def openapi_text() -> str:
    """Return the description as JSON text, independent of settings and stored answers."""
    document = create_app(Settings(cache_url="memory")).openapi()
    return json.dumps(document, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


if __name__ == "__main__":
    sys.stdout.write(openapi_text())
