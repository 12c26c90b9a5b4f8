"""The parameters of the qdrant backend, typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.errors import UnknownNameError
from harness.protocols import ParameterValue

__all__ = ["DATATYPES", "FREE_ON_REOPENING", "QdrantSettings"]

DATATYPES = ("float32", "float16", "uint8")
FREE_ON_REOPENING = ("threads", "optimize_timeout_s")
"""Parameters that do not change what an index holds."""


@dataclass(frozen=True, slots=True)
class QdrantSettings:
    """What ``backends/qdrant.toml`` declares for the engine; None leaves a setting to the engine."""

    idf: bool
    batch_size: int
    datatype: str
    on_disk: bool
    full_scan_threshold: int | None
    default_segment_number: int | None
    max_segment_size_kb: int | None
    indexing_threshold_kb: int | None
    optimize_every: int
    optimize_timeout_s: float
    wal: bool
    threads: int

    @classmethod
    def of(cls, parameters: Mapping[str, ParameterValue]) -> QdrantSettings:
        """From the card's complete parameters, -1 meaning "left to the engine"; raises UnknownNameError."""
        datatype = str(parameters["datatype"])
        if datatype not in DATATYPES:
            raise UnknownNameError("datatype", datatype, DATATYPES)
        return cls(
            idf=bool(parameters["idf"]),
            batch_size=int(parameters["batch_size"]),
            datatype=datatype,
            on_disk=bool(parameters["on_disk"]),
            full_scan_threshold=_unless_negative(parameters["full_scan_threshold"]),
            default_segment_number=_unless_negative(parameters["default_segment_number"]),
            max_segment_size_kb=_unless_negative(parameters["max_segment_size_kb"]),
            indexing_threshold_kb=_unless_negative(parameters["indexing_threshold_kb"]),
            optimize_every=int(parameters["optimize_every"]),
            optimize_timeout_s=float(parameters["optimize_timeout_s"]),
            wal=bool(parameters["wal"]),
            threads=int(parameters["threads"]),
        )


def _unless_negative(value: ParameterValue) -> int | None:
    number = int(value)
    return None if number < 0 else number
