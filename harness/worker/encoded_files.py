"""What an encoding did, as a file in its job folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import orjson

__all__ = ["Encoded", "read_encoded", "write_encoded"]

_FILE = "encoded.json"


class Encoded(NamedTuple):
    """What an encoding did now: ``rows`` of each role, in so many ``chunks``.

    Of a model behind an endpoint every chunk is an answer, ``calls`` are all that were made, ``repeated_calls`` those
    among them that repeat another, and ``tokens`` what it counted; of any other model they are 0.
    """

    rows: Mapping[str, int]
    chunks: int = 0
    calls: int = 0
    repeated_calls: int = 0
    tokens: int = 0


def write_encoded(folder: Path, encoded: Encoded) -> None:
    """Write what an encoding did; its vectors are in the job's targets."""
    (folder / _FILE).write_bytes(orjson.dumps(encoded._asdict()))


def read_encoded(folder: Path) -> Encoded:
    """Read what :func:`write_encoded` wrote."""
    return Encoded(**orjson.loads((folder / _FILE).read_bytes()))
