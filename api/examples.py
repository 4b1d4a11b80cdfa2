"""What requests and answers look like, for the description of the API. A test asks the app for these very answers."""

from __future__ import annotations

from typing import Any

REQUEST_EXAMPLES: list[Any] = [
    {"K": 11, "m": 3, "epsilon": 0.0892, "Delta": 1e-4},
    {"K": 11, "epsilon": "inf", "target_epsilon": 0.2676, "delta": 3e-4, "affected": 1},
]

GAMMA_EXAMPLE: dict[str, Any] = {
    "id": "ae0ad682719904223ce23be20939a04d9a9897c70e1da8058188e2076c20593b",
    "cached": False,
    "format": 1,
    "problem": {
        "K": 5,
        "m": 2.0,
        "epsilon": 0.1,
        "Delta": 1e-05,
        "target_epsilon": 0.2,
        "delta": 1.99999e-05,
        "affected": 5,
    },
    "objective": "rectangular",
    "shape": "free",
    "gamma": [
        0.9999999999995781,
        0.7786623625841401,
        0.9998897209429427,
        0.9998897209429427,
        0.7786623625841401,
        0.9999999999995781,
    ],
    "utility": 0.8933024087817601,
    "upper_bound": 0.893302408782386,
    "gap": 6.258327189812007e-13,
    "status": "optimal",
    "advice": "The answer is optimal up to its gap.",
    "certificate": {
        "method": "complete",
        "bound": 0.18130199598833588,
        "limit": 0.18130199598837476,
        "margin": 1.9442780718748054e-14,
        "error_bound": 3.755329380794592e-14,
        "worst_value": 0.18130199598829833,
        "worst_corners": {"down": 3, "up_to_one": 2},
        "version": "0.1.0",
    },
    "method": "cuts",
    "backend": "highs",
    "statistics": {
        "rows": 7,
        "rounds": 2,
        "iterations": 4,
        "seconds": {
            "program": 0.0007516360010413337,
            "search": 0.007071469000038633,
            "certify": 0.0015829200001462596,
            "total": 0.027389274000597652,
        },
    },
    "nearest": None,
    "warnings": [],
}

CURVE_EXAMPLE: dict[str, Any] = {
    "id": "ae0ad682719904223ce23be20939a04d9a9897c70e1da8058188e2076c20593b",
    "cached": True,
    "over": "p",
    "problem": {
        "K": 5,
        "m": 2.0,
        "epsilon": 0.1,
        "Delta": 1e-05,
        "target_epsilon": 0.2,
        "delta": 1.99999e-05,
        "affected": 5,
    },
    "objective": "rectangular",
    "shape": "free",
    "status": "optimal",
    "p": [0.5, 1.0],
    "curves": {
        "optimal": {
            "gamma": [
                0.9999999999995781,
                0.7786623625841401,
                0.9998897209429427,
                0.9998897209429427,
                0.7786623625841401,
                0.9999999999995781,
            ],
            "tv_error": [0.0, 2.1094237467877974e-13],
            "disagreement": [0.03461846805157169, 2.1094237467877974e-13],
        },
        "double_subsampling": {
            "gamma": [1.0, 1.0, 0.39999999999999997, 0.39999999999999997, 1.0, 1.0],
            "tv_error": [0.0, 0.0],
            "disagreement": [0.18750000000000003, 0.0],
        },
        "subsampling": {
            "gamma": [1.0, 0.6, 0.19999999999999998, 0.19999999999999998, 0.6, 1.0],
            "tv_error": [0.0, 0.0],
            "disagreement": [0.3125, 0.0],
        },
        "randomized_response": {
            "gamma": [
                0.406954031298048,
                0.406954031298048,
                0.406954031298048,
                0.406954031298048,
                0.406954031298048,
                0.406954031298048,
            ],
            "tv_error": [0.0, 0.296522984350976],
            "disagreement": [0.296522984350976, 0.296522984350976],
        },
    },
    "left_out": {},
    "nearest": None,
    "warnings": [],
}

TRADEOFF_EXAMPLE: dict[str, Any] = {}

PROFILE_EXAMPLE: dict[str, Any] = {}

VERIFY_EXAMPLE: dict[str, Any] = {}

VERIFY_REQUEST_EXAMPLE: dict[str, Any] = {}

COMPOSE_EXAMPLE: dict[str, Any] = {}

COMPARE_EXAMPLE: dict[str, Any] = {}

ESTIMATE_EXAMPLE: dict[str, Any] = {}

PENDING_EXAMPLE: dict[str, Any] = {}

JOB_EXAMPLE: dict[str, Any] = {
    "id": GAMMA_EXAMPLE["id"],
    "kind": "gamma",
    "state": "running",
    "problem": GAMMA_EXAMPLE["problem"],
    "objective": "rectangular(lower=0.5, tau=50)",
    "shape": "free",
    "attempts": 1,
    "progress": {
        "round": 3,
        "rows": 214,
        "utility": 0.4021,
        "upper_bound": 0.4135,
        "gap": 0.0114,
        "violation": 0.0023,
        "seconds": 0.31,
    },
    "reason": "",
    "created": "2025-01-31T12:00:00.000+00:00",
    "updated": "2025-01-31T12:00:00.500+00:00",
    "location": f"/v1/jobs/{GAMMA_EXAMPLE['id']}",
    "result": f"/v1/jobs/{GAMMA_EXAMPLE['id']}/result",
    "events": f"/v1/jobs/{GAMMA_EXAMPLE['id']}/events",
}
