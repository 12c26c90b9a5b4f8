"""How the segments of a Qdrant keep their vectors, and which parameters therefore change nothing.

Segments describe themselves in the same words in the files of a shard and in the telemetry of a server.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from harness.engines.interface import Caveats
from harness.engines.qdrant.points import DENSE, TERMS
from harness.engines.qdrant.settings import QdrantSettings
from harness.engines.qdrant.vector_settings import STORED, DenseSettings
from harness.registry.parameters import ParameterValue

__all__ = ["IndexState", "Segments", "caveats_of"]

_MUTABLE = "MutableRam"
_OF_GRAPHS = ("m", "ef_construct", "graph_on_disk", "indexing_threads", "hnsw_ef")
_OF_QUANTISATION = (
    *("quantization", "quantile", "compression", "binary_encoding", "binary_query_encoding", "turbo_bits"),
    *("quantized_always_ram", "rescore", "oversampling", "ignore_quantization"),
)


class Segments(NamedTuple):
    """Segments that hold points: the configuration of the sparse and of the dense vector in each."""

    sparse: tuple[Mapping[str, Any], ...]
    dense: tuple[Mapping[str, Any], ...]

    @classmethod
    def of(
        cls, configurations: Iterable[Mapping[str, Any]], names: Mapping[str, str], settings: QdrantSettings
    ) -> Self:
        """Read what Qdrant says of each segment; ``names`` are what the vectors are called there.

        Raises KeyError and TypeError for configurations of another form.
        """
        held = list(configurations)
        sparse = [one["sparse_vector_data"][names[TERMS]]["index"] for one in held] if settings.sparse else []
        dense = [one["vector_data"][names[DENSE]] for one in held] if settings.dense else []
        return cls(tuple(sparse), tuple(dense))

    @property
    def quantised(self) -> int:
        """How many compress their dense vectors."""
        return sum(one.get("quantization_config") is not None for one in self.dense)

    @property
    def optimised(self) -> int:
        """How many have the sparse index that the optimiser makes, which alone heeds a datatype."""
        return sum(one["index_type"] != _MUTABLE for one in self.sparse)

    def state(self) -> Mapping[str, ParameterValue]:
        """Entries for the state of an index."""
        kinds = Counter(
            [str(one["index_type"]) for one in self.sparse] + [str(one["index"]["type"]) for one in self.dense]
        )
        datatypes = {_stored_datatype(one) for one in self.sparse}
        datatypes |= {str(one.get("datatype") or "float32") for one in self.dense}
        return {
            "filled_segments": max(len(self.sparse), len(self.dense)),
            "index_types": ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items())),
            "datatype_in_effect": ", ".join(sorted(datatypes)),
            **({"quantised_segments": self.quantised} if self.dense else {}),
        }


def _stored_datatype(index: Mapping[str, Any]) -> str:
    """A mutable index keeps float32 whatever the datatype asked for; only an optimised segment stores it."""
    return "float32" if index["index_type"] == _MUTABLE else str(index.get("datatype") or "float32")


@dataclass(frozen=True, slots=True)
class IndexState:
    """An index as far as its Qdrant tells: None for what it does not.

    ``indexing_threshold_kb`` is the size from which a segment is optimised; ``in_graphs`` counts the vectors in graphs
    that searches use.
    """

    points: int
    segments: Segments | None
    in_graphs: int | None
    indexing_threshold_kb: int | None


def caveats_of(settings: QdrantSettings, state: IndexState) -> Caveats:
    """Return the parameters that changed nothing about searches, with why, and what Qdrant does not tell of that."""
    size = f"{state.points:,} vector{'' if state.points == 1 else 's'}{_threshold(state.indexing_threshold_kb)}"
    notes: list[str] = []
    without: dict[str, str] = {}
    if settings.sparse is not None:
        prefix = "sparse_" if settings.dense is not None else ""
        datatype = f"{prefix}datatype"
        if state.segments is None:
            notes += _unknown([(datatype, settings.sparse.datatype, "float32")], "how its segments keep weights")
        elif not state.segments.optimised:
            reason = f"no segment of the inverted index is optimised ({size})"
            without |= dict.fromkeys((datatype, f"{prefix}on_disk"), reason)
    if settings.dense is not None and settings.dense.exact:
        without |= dict.fromkeys((*_OF_GRAPHS, *_OF_QUANTISATION), "exact=true scans the original vectors")
    elif settings.dense is not None:
        for found in (_of_graphs(settings.dense, state, size), _of_quantisation(settings.dense, state, size)):
            notes += found.notes
            without |= found.without_effect
    return Caveats(tuple(notes), without)


def _of_graphs(dense: DenseSettings, state: IndexState, size: str) -> Caveats:
    if state.in_graphs is None:
        return Caveats(_unknown([("hnsw_ef", dense.hnsw_ef, None)], "which of its segments are searched by a graph"))
    if state.in_graphs:
        return Caveats()
    reason = (
        f"every search scans all vectors, none is found by a graph (0 of {size}, full scan threshold "
        f"{dense.full_scan_threshold_kb:,} kB)"
    )
    return Caveats(without_effect=dict.fromkeys(_OF_GRAPHS, reason))


def _of_quantisation(dense: DenseSettings, state: IndexState, size: str) -> Caveats:
    if state.segments is None:
        wanted = dense.quantisation
        if wanted is None:
            return Caveats()
        asked = [
            ("quantization", wanted.kind, STORED),
            ("rescore", wanted.rescore, None),
            ("oversampling", wanted.oversampling, 1.0),
            ("ignore_quantization", wanted.ignore, False),
        ]
        return Caveats(_unknown(asked, "which of its segments are compressed"))
    if state.segments.quantised:
        return Caveats()
    reason = f"no segment is compressed (0 of {size})"
    return Caveats(without_effect=dict.fromkeys(_OF_QUANTISATION, reason))


def _threshold(kilobytes: int | None) -> str:
    if kilobytes is None:
        return ""
    return f"; indexing threshold {kilobytes:,} kB" if kilobytes else "; indexing threshold 0, which is never"


def _unknown(asked: Sequence[tuple[str, object, object]], what: str) -> tuple[str, ...]:
    """Say of the parameters whose value is not the neutral one that the server does not tell their effect."""
    given = [f"{name}={str(value).lower()}" for name, value, neutral in asked if value != neutral]
    if not given:
        return ()
    return (f"whether {', '.join(given)} had an effect cannot be known: the server does not tell {what}",)
