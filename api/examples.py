"""What requests and answers look like, for the description of the API. A test asks the app for these very answers."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

_ALL: dict[str, Any] = json.loads(files("api").joinpath("examples.json").read_text(encoding="utf-8"))

COMPARE_EXAMPLE: dict[str, Any] = _ALL["COMPARE_EXAMPLE"]
COMPOSE_EXAMPLE: dict[str, Any] = _ALL["COMPOSE_EXAMPLE"]
CURVE_EXAMPLE: dict[str, Any] = _ALL["CURVE_EXAMPLE"]
ESTIMATE_EXAMPLE: dict[str, Any] = _ALL["ESTIMATE_EXAMPLE"]
GAMMA_EXAMPLE: dict[str, Any] = _ALL["GAMMA_EXAMPLE"]
JOB_EXAMPLE: dict[str, Any] = _ALL["JOB_EXAMPLE"]
PENDING_EXAMPLE: dict[str, Any] = _ALL["PENDING_EXAMPLE"]
PLAN_EXAMPLE: dict[str, Any] = _ALL["PLAN_EXAMPLE"]
PROFILE_EXAMPLE: dict[str, Any] = _ALL["PROFILE_EXAMPLE"]
REQUEST_EXAMPLES: list[Any] = _ALL["REQUEST_EXAMPLES"]
TRADEOFF_EXAMPLE: dict[str, Any] = _ALL["TRADEOFF_EXAMPLE"]
VERIFY_EXAMPLE: dict[str, Any] = _ALL["VERIFY_EXAMPLE"]
VERIFY_REQUEST_EXAMPLE: dict[str, Any] = _ALL["VERIFY_REQUEST_EXAMPLE"]
