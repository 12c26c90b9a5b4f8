"""Whether datasets may be downloaded."""

from __future__ import annotations

import os

__all__ = ["OFFLINE", "is_offline"]

OFFLINE = "HARNESS_OFFLINE"
"""The variable of the environment that forbids downloads of datasets."""


def is_offline() -> bool:
    """Return whether ``HARNESS_OFFLINE`` forbids downloads: set to anything but nothing, ``0`` or ``false``."""
    return os.environ.get(OFFLINE, "").lower() not in ("", "0", "false")
