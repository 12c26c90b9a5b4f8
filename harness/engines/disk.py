"""What an engine's files take on disk."""

from __future__ import annotations

from pathlib import Path

from harness.engines.manifest import MANIFEST
from harness.store import disk

__all__ = ["allocated_bytes"]


def allocated_bytes(folder: Path) -> int:
    """Bytes of the blocks that the files in ``folder`` take, as :func:`harness.store.disk.allocated_bytes`.

    The harness's manifest is left out.
    """
    return disk.allocated_bytes(folder, leave_out=MANIFEST)
