"""Write the certificate of the one-step inequality for labels at one noise level: tests/data/label_certificate.json.

    PYTHONPATH=tests python -m campaigns.label_certificate

It holds what docs/proofs.md, "What labels cost", needs: orders, a bound on the power divergence at each, the boxes on
which the bound was proved, and increments t(s). tests/darrm_opt/accounting/labels/test_label_certificate.py checks it with arithmetic of its own.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

from darrm_opt._version import __version__
from darrm_opt.accounting.labels import gaussian_argmax
from darrm_opt.accounting.labels.gaussian_comparison import GRID_RATIO, _increment, last_order
from darrm_opt.accounting.labels.noisy_bit import bit_values, scaled_orders
from darrm_opt.accounting.labels.power_divergence import PowerDivergence

FILE = Path(__file__).parent.parent / "data" / "label_certificate.json"
SIGMA, TOLERANCE, ORDERS, SLACK = 40.0, 0.01, 21, 1e-11


def certificate() -> dict[str, Any]:
    """Return the certificate as JSON content."""
    mu = math.sqrt(2) / SIGMA
    orders = scaled_orders(mu)[:ORDERS]
    covering = gaussian_argmax.covering_boxes(SIGMA, orders, TOLERANCE)
    inside = np.max([boxes.bounds.max(axis=0, initial=0.0) for boxes in covering], axis=0)
    bounds = np.maximum(inside, gaussian_argmax._outside(SIGMA, orders))
    release = PowerDivergence(orders, bounds.copy(), mu * (1 + 1e-15), "certificate")
    unit = release.shift**2
    ratios = [ratio for k in range(140) if last_order(unit, (ratio := 12 * GRID_RATIO**k) * unit, SLACK) <= orders[-1]]
    return {
        "made_by": "python -m campaigns.label_certificate",
        "version": __version__,
        "sigma": SIGMA,
        "least_mean": gaussian_argmax.least_mean(SIGMA),
        "max_sum": gaussian_argmax.MAX_SUM,
        "orders": orders.tolist(),
        "bounds": bounds.tolist(),
        "bit_bounds": {"label": bit_values(mu, orders).tolist(), "single": bit_values(1 / SIGMA, orders).tolist()},
        "boxes": {str(boxes.side): np.stack([boxes.i, boxes.j], axis=1).tolist() for boxes in covering if boxes.i.size},
        "slack": SLACK,
        "increments": [[ratio * unit, _increment(release, ratio * unit, SLACK)] for ratio in ratios],
    }


def main() -> int:
    FILE.write_text(json.dumps(certificate(), separators=(",", ":")) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
