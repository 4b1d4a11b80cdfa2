"""Vote mechanisms, one file each, and the registry of their names (`base`)."""

from darrm_opt.mechanisms.base import (
    ENTRY_POINTS,
    VoteMechanism,
    calibrated_names,
    mechanism_class,
    mechanism_from_record,
    mechanism_names,
)

__all__ = [
    "ENTRY_POINTS",
    "VoteMechanism",
    "calibrated_names",
    "mechanism_class",
    "mechanism_from_record",
    "mechanism_names",
]
