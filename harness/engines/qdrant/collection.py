"""A collection of Qdrant, in the process or on a server: its points, queries and segments, and their caveats.

The differences are in :mod:`harness.engines.qdrant.edge` and :mod:`harness.engines.qdrant.server`. Both client
libraries use the same words for most requests, and segments are described in the same words in the files of a shard and
in the telemetry of a server.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, TypeAlias

from harness.data.filtering import values_of_text
from harness.engines.interface import Caveats, EngineInfo, Storage
from harness.engines.qdrant.parameters import DENSE, OF_QUANTISATION, TERMS, FusionSettings, QdrantSettings
from harness.registry.parameters import ParameterValue

Vector: TypeAlias = list[float] | tuple[list[int], list[float]]
"""A dense vector, or the indices and values of a sparse one, as Python's own numbers."""
Vectors: TypeAlias = Mapping[str, Vector]
"""The vectors of one point or one query by name: :data:`TERMS`, :data:`DENSE`."""

_OF_GRAPHS = ("m", "ef_construct", "graph_on_disk", "indexing_threads", "hnsw_ef")
_MUTABLE = "MutableRam"
_UNKNOWN = (
    "the server does not describe its segments: whether parameters of datatypes, graphs and quantisation had an effect "
    "cannot be known"
)


class Point(NamedTuple):
    """A document as a point: numbered by its row, with its metadata as payload."""

    row: int
    vectors: Vectors
    payload: Mapping[str, str] | None


class Collection(ABC):
    """A collection. Points are numbered by row; a sparse vector may be empty.

    Errors are translated, except in :meth:`query`, where translation would take time.

    Attributes:
        info: The running engine, and how it is reached. settings: Settings with which the collection was made, as far
            as known. names: Names of its vectors, by :data:`TERMS` and :data:`DENSE`. dimensions: Dimensions of its
            dense vectors; None before there is a collection, and without dense vectors.
    """

    def __init__(self, client: Any, settings: QdrantSettings, info: EngineInfo) -> None:
        """Take ``client``, the module of a client library with its types."""
        self.types, self.settings, self.info = client, settings, info
        self.names: Mapping[str, str] = {TERMS: TERMS, DENSE: DENSE}
        self.dimensions: int | None = None
        self._filter: Any = None
        self._parameters = settings.dense and settings.dense.search_parameters(client)

    @property
    def repeated(self) -> int:
        """Number of calls repeated so far after a transient error."""
        return 0

    @abstractmethod
    def make(self, dimensions: int | None) -> None:
        """Make the empty collection, for dense vectors of ``dimensions`` (None: no dense vectors)."""

    @abstractmethod
    def load(self) -> None:
        """Open the collection of :meth:`make`, with the same settings except for searches."""

    @abstractmethod
    def index_field(self, field: str, path: str) -> None:
        """Keep a keyword index of a field of the payloads; called before there are points."""

    @abstractmethod
    def upsert(self, points: Iterable[Point], start: int, stop: int) -> None:
        """Store points, which are documents ``start`` to ``stop``."""

    @abstractmethod
    def delete(self, rows: Sequence[int]) -> None:
        """Delete the points of these numbers."""

    @abstractmethod
    def optimise(self) -> bool:
        """Run the due optimisers, or wait a moment for them; return False if there was nothing to do."""

    @abstractmethod
    def flush(self) -> None:
        """Write everything to disk."""

    @abstractmethod
    def count(self) -> int:
        """Return the number of points, by an exact count."""

    @abstractmethod
    def scroll(self, offset: Any, limit: int, keys: Sequence[str], vectors: Sequence[str]) -> tuple[list[Any], Any]:
        """Return a page of points, each with the payload under ``keys`` and these ``vectors``, and the next offset."""

    @abstractmethod
    def read(self, ids: Sequence[Hashable]) -> list[Any]:
        """Return the points of these ids, with their whole payload and the vectors searched."""

    @abstractmethod
    def query(self, request: Any) -> list[Any]:
        """Return the hits of a query, best first, each with ``id`` and ``score``."""

    @abstractmethod
    def translated(self, doing: Callable[[], str]) -> AbstractContextManager[None]:
        """Return the context in which to call :meth:`query`."""

    @abstractmethod
    def state(self) -> Mapping[str, ParameterValue]:
        """Return the engine's account of its index, for the report."""

    @abstractmethod
    def index_state(self) -> IndexState:
        """Return how the collection now keeps its vectors, as far as the engine reports it."""

    @abstractmethod
    def storage(self) -> Storage:
        """Return the bytes of the index."""

    @abstractmethod
    def close(self) -> None:
        """Release everything."""

    def restrict(self, conditions: Sequence[tuple[Sequence[str], str]]) -> None:
        """Answer with points whose payload has each text under one of its paths; without conditions, with all."""
        must = [self._condition(paths, text) for paths, text in conditions]
        self._filter = self.types.Filter(must=must) if must else None

    def _condition(self, paths: Sequence[str], text: str) -> Any:
        """Make the condition that the value under one of ``paths`` has this text.

        Qdrant compares values with their types. The harness stores text; the user's payload may hold numbers and
        booleans, which match if they have this text.
        """
        values = values_of_text(text) if self.settings.external is not None else (text,)
        equal = [self._equal(path, value) for path in paths for value in values]
        return equal[0] if len(equal) == 1 else self.types.Filter(should=equal)

    def _equal(self, path: str, value: str | float) -> Any:
        types = self.types
        if not isinstance(value, float):
            return types.FieldCondition(key=path, match=types.MatchValue(value=self._matched(value)))
        in_range = [types.FieldCondition(key=path, range=self._range(gte=value, lte=value))]
        if not value.is_integer():
            return in_range[0]
        integer = types.FieldCondition(key=path, match=types.MatchValue(value=int(value)))  # has another text
        return types.Filter(must=in_range, must_not=[integer])

    def _matched(self, value: str | int) -> Any:
        """Return a value in the form in which the client writes a condition on it."""
        return value

    def nearest(self, vectors: Vectors, k: int) -> Any:
        """Make a query for the points nearest to its only vector."""
        ((name, vector),) = vectors.items()
        search = self._search(name, vector)
        return self.types.QueryRequest(limit=k, with_payload=False, with_vector=False, **search)

    def fused(self, vectors: Vectors, k: int) -> Any:
        """Make a query that fuses the points nearest to each of its vectors."""
        make, fusion = self.types.Prefetch, self.settings.fusion
        if fusion is None:
            raise AssertionError("a fusion without its settings")
        searches = [make(limit=fusion.candidates, **self._search(name, vector)) for name, vector in vectors.items()]
        request = self._fusion(fusion, searches)
        return self.types.QueryRequest(limit=k, with_payload=False, with_vector=False, **request)

    @property
    @abstractmethod
    def _range(self) -> Any:
        """The client's type for a range of numbers."""

    def _search(self, name: str, vector: Vector) -> dict[str, Any]:
        parameters = self._parameters if name == DENSE else None
        return {**self._nearest_to(name, vector), "filter": self._filter, "params": parameters}

    @abstractmethod
    def _nearest_to(self, name: str, vector: Vector) -> Mapping[str, Any]:
        """Return the client's arguments of a query for the points nearest to a vector."""

    @abstractmethod
    def _fusion(self, fusion: FusionSettings, searches: list[Any]) -> Mapping[str, Any]:
        """Return the client's arguments of a query that fuses the hits of searches."""

    def _vector(self, vector: Vector) -> Any:
        if isinstance(vector, tuple):
            return self.types.SparseVector(indices=vector[0], values=vector[1])
        return vector


class Segments(NamedTuple):
    """Segments that hold points: the configuration of the sparse and the dense vector in each."""

    sparse: tuple[Mapping[str, Any], ...]
    dense: tuple[Mapping[str, Any], ...]

    @classmethod
    def of(
        cls, configurations: Iterable[Mapping[str, Any]], names: Mapping[str, str], settings: QdrantSettings
    ) -> Self:
        """Read Qdrant's description of each segment; ``names`` are the names of its vectors.

        Raises KeyError and TypeError for configurations of another form.
        """
        segments = list(configurations)
        sparse = [segment["sparse_vector_data"][names[TERMS]]["index"] for segment in segments if settings.sparse]
        dense = [segment["vector_data"][names[DENSE]] for segment in segments if settings.dense]
        return cls(tuple(sparse), tuple(dense))

    @property
    def quantised(self) -> int:
        """Number of segments that compress their dense vectors."""
        return sum(vector.get("quantization_config") is not None for vector in self.dense)

    @property
    def optimised(self) -> int:
        """Number of segments with the optimiser's sparse index, the only index that uses the datatype."""
        return sum(index["index_type"] != _MUTABLE for index in self.sparse)

    def state(self) -> Mapping[str, ParameterValue]:
        """Return entries for the state of an index."""
        types = [index["index_type"] for index in self.sparse] + [vector["index"]["type"] for vector in self.dense]
        # a mutable index keeps float32, regardless of its datatype
        stored = [None if index["index_type"] == _MUTABLE else index.get("datatype") for index in self.sparse]
        stored += [vector.get("datatype") for vector in self.dense]
        datatypes = {str(datatype or "float32") for datatype in stored}
        return {
            "filled_segments": max(len(self.sparse), len(self.dense)),
            "index_types": ", ".join(f"{kind} {count}" for kind, count in sorted(Counter(types).items())),
            "datatype_in_effect": ", ".join(sorted(datatypes)),
            **({"quantised_segments": self.quantised} if self.dense else {}),
        }


@dataclass(frozen=True, slots=True)
class IndexState:
    """An index as described by its Qdrant; None for facts that it does not report.

    ``indexing_threshold_kb`` is the size from which a segment is optimised; ``in_graphs`` counts the vectors in graphs
    that searches use.
    """

    points: int
    segments: Segments | None
    in_graphs: int | None
    indexing_threshold_kb: int | None


def caveats_of(settings: QdrantSettings, state: IndexState) -> Caveats:
    """Return the parameters without effect on searches, with reasons, and facts that Qdrant does not report."""
    sparse, dense, segments, threshold = settings.sparse, settings.dense, state.segments, state.indexing_threshold_kb
    size = f"{state.points:,} vector{'' if state.points == 1 else 's'}"
    if threshold is not None:
        size += f"; indexing threshold {f'{threshold:,} kB' if threshold else '0, which is never'}"
    of_compression = ("quantization", *OF_QUANTISATION)
    without: dict[str, str] = {}
    if sparse is not None and segments is not None and not segments.optimised:
        prefix, reason = "sparse_" if dense else "", f"no segment of the inverted index is optimised ({size})"
        without |= dict.fromkeys((f"{prefix}datatype", f"{prefix}on_disk"), reason)
    if dense is not None and dense.exact:
        without |= dict.fromkeys((*_OF_GRAPHS, *of_compression), "exact=true scans the original vectors")
    elif dense is not None:
        if state.in_graphs == 0:
            scanned = f"0 of {size}, full scan threshold {dense.full_scan_threshold_kb:,} kB"
            reason = f"every search scans all vectors, none is found by a graph ({scanned})"
            without |= dict.fromkeys(_OF_GRAPHS, reason)
        if segments is not None and not segments.quantised:
            without |= dict.fromkeys(of_compression, f"no segment is compressed (0 of {size})")
    compressed = dense is not None and (dense.quantisation or (dense.hnsw_ef and state.in_graphs is None))
    if segments is None and (compressed or (sparse is not None and sparse.datatype != "float32")):
        return Caveats((_UNKNOWN,), without)
    return Caveats(without_effect=without)
