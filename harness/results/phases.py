"""How long each phase of a backend took, as the report tells it."""

from __future__ import annotations

from typing import Literal

from harness.results import schema
from harness.worker.jobs import TrialRecord
from harness.worker.vectors import Vectors

__all__ = ["phase_times"]

_NS_PER_S = 1e9


def phase_times(record: TrialRecord, vectors: Vectors | None) -> schema.PhaseTimes:
    """The phases of one trial; ``vectors`` is what was encoded for it, None when nothing was."""
    source = _source(record, vectors)
    return schema.PhaseTimes(
        encode_seconds=_encode_seconds(vectors) if source in ("computed", "partly cached") else None,
        encode_source=source,
        open_seconds=record.open_ns / _NS_PER_S,
        index_seconds=record.index.index_ns / _NS_PER_S if record.external is None else None,
        ready_seconds=record.index.ready_ns / _NS_PER_S if record.external is None else None,
        first_query_seconds=record.first_query_ns / _NS_PER_S,
        warm_up_seconds=record.warm_up_ns / _NS_PER_S,
        search_seconds=int(record.search_ns.sum()) / _NS_PER_S,
        transfer_seconds=int(record.transfer_ns.sum()) / _NS_PER_S,
    )


def _source(record: TrialRecord, vectors: Vectors | None) -> Literal["computed", "partly cached", "cached", "engine"]:
    # an engine that reads texts has vectors too, but they are its reference's
    if record.input == "text" or vectors is None:
        return "engine"
    computed = [part is not None for part in vectors.steps_ns]
    if all(computed):
        return "computed"
    return "partly cached" if any(computed) else "cached"


def _encode_seconds(vectors: Vectors | None) -> float | None:
    if vectors is None:
        return None
    return sum(part for part in vectors.steps_ns if part is not None) / _NS_PER_S
