"""The interface between the harness and an engine: the data that pass between them, and the methods that it calls.

Engines subclass :class:`harness.engines.base.Engine`, which implements these methods once. An engine's life: ``open``
an empty folder and ``index``, or ``open`` a folder that holds an index, or ``attach`` to an index made outside the
harness; then ``search`` any number of times, and ``close``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.data.filtering import BoolArray
from harness.data.inputs import Inputs
from harness.data.progress import Clock, Progress
from harness.data.types import Float32Array, Ids, Int32Array, Int64Array, Similarity, SparseVectors, TermCounts
from harness.engines.remote_server import ServerKind
from harness.errors import EngineFailureError, RejectedInputError
from harness.registry.parameters import ParameterValue

InputKind = Literal["text", "terms", "sparse", "dense", "hybrid", "terms+dense"]

LEFT_BEHIND = "left behind: "
"""The beginning of a line on standard error that names something outside its folder that an engine could not remove."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Promises of an engine. The contract suite tests the declared promises, and requires a minimum."""

    input: InputKind
    """The column of :class:`Inputs` that the engine reads; ``hybrid`` reads both ``sparse`` and ``dense``, and
    ``terms+dense`` both ``terms`` and ``dense``. ``terms`` are already analysed, and the engine weights them by its own
    BM25."""
    exact: bool
    """True if the engine computes its scoring function over all documents, without approximation."""
    deterministic: bool
    """True if two builds from the same input give the same rankings."""
    reopens: bool
    """True if a closed index can be opened again from its folder."""
    keeps_k_prefix: bool
    """True if the top 3 is always a prefix of the top 5, ties included."""
    shares_index: bool = False
    """True if several processes may have one finished index open at once, to search it."""
    threads: bool = False
    """True if several threads may search one open engine at once, and its client releases Python's lock to search."""
    gaps: Mapping[str, str] = field(default_factory=dict)
    """Name of a contract test that cannot pass -> the reason. Shown wherever the engine is described."""
    external: bool = False
    """True if the engine can search an index made outside the harness: see :meth:`EngineInterface.attach`."""
    filters: bool = False
    """True if the engine can return only documents whose metadata match: see :meth:`EngineInterface.restrict`."""
    filters_external: bool = False
    """The same of an external index, by the metadata that it holds."""
    changes: bool = False
    """True if documents of a finished index can be deleted, replaced and added: see :meth:`EngineInterface.apply`."""
    warm_up_queries: int = 0
    """Number of warm-up queries, however few are measured: 1,000 for a JVM, which compiles code that runs often."""
    fields: bool = False
    """True if the engine can search several fields of documents with weights: its card has the parameter ``fields``,
    and documents are columns of records (:func:`harness.data.inputs.records_of`)."""
    external_input: InputKind | None = None
    """The column that the engine reads to search an external index; None for the same as in its own."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the kinds of column that the engine reads: two for an engine that fuses lists of both."""
        return ("sparse", "dense") if self.input == "hybrid" else tuple(self.input.split("+"))

    def reads(self, *, external: bool) -> InputKind:
        """Return the column that the engine reads for its own index, or for an ``external`` index."""
        return self.external_input or self.input if external else self.input


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """The engine that ran: its name and version, and how it was reached (``embedded``, ``server`` …).

    ``note`` is a warning for readers who compare it with another engine; empty without a warning.
    """

    name: str
    version: str
    mode: str
    note: str = ""

    @property
    def is_server(self) -> bool:
        """Return whether it runs outside its client's process: the mode is ``server``, or ``server,`` and more."""
        return self.mode.partition(",")[0] == "server"


@dataclass(frozen=True, slots=True)
class IndexReport:
    """Outcome of indexing. Counts come from the engine, never from the sender.

    ``missing_rows`` names documents that the engine does not hold (int32). ``index_ns`` is the time of ingestion,
    ``ready_ns`` the time from the last document to an idle optimiser. ``state`` is the engine's own account of its
    index (segments, indexed vectors …).
    """

    sent: int
    indexed: int
    missing_rows: Int32Array
    index_ns: int
    ready_ns: int
    state: Mapping[str, str | int | float | bool] = field(default_factory=dict)

    @property
    def approximate(self) -> bool:
        """Return whether searches may miss documents that the engine holds, because they read only a part of its index.

        The state shows it by ``approximate``, or else by a graph or lists (``vectors_in_graph``, ``vectors_in_lists``).
        """
        parts = any(int(self.state.get(name, 0)) > 0 for name in ("vectors_in_graph", "vectors_in_lists"))
        return bool(self.state.get("approximate", parts))


class Storage(NamedTuple):
    """Allocated bytes on disk (or in memory, for engines without files): the index, and its write-ahead log apart.

    ``index_bytes`` is None if a server does not report it.
    """

    index_bytes: int | None
    log_bytes: int


class SearchResult(NamedTuple):
    """Hits of a batch of queries in the engine's own order, and the times of each query.

    ``indptr`` int64 (Q + 1), ``rows`` int32 (H,), ``scores`` float32 (H,); ``search_ns`` int64 (Q,) is the engine's
    work, ``transfer_ns`` int64 (Q,) the time to bring its hits into these arrays. ``repeated_calls`` counts calls that
    were repeated after a transient error; the time of a query includes them. With ``queries_per_call`` above 1 queries
    were sent together, and their times are equal shares of the calls'.
    """

    indptr: Int64Array
    rows: Int32Array
    scores: Float32Array
    search_ns: Int64Array
    transfer_ns: Int64Array
    repeated_calls: int = 0
    queries_per_call: int = 1


@dataclass(frozen=True, eq=False, slots=True)
class IndexHandle:
    """An external index that is open.

    ``ids`` are its documents' ids, each once: their positions are the rows of its results. ``state`` is as in
    :class:`IndexReport`. ``changed``, for servers, returns after the last search any change since the opening, None if
    nothing changed. ``values`` are the values of the field that was named for ids, by row, if several documents share
    some, or if some have none, which is null: ids are then the engine's keys.
    """

    info: EngineInfo
    ids: Ids
    state: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    changed: Callable[[], str | None] | None = None
    values: pa.StringArray | None = None


@dataclass(frozen=True, eq=False, slots=True)
class ExpectedContent:
    """Content that an external index has if it was made from the dataset.

    ``rows`` int32 (m,), ascending, are the rows of :class:`IndexHandle` that the dataset knows; ``documents`` the
    dataset's documents of these ids in the same order; ``queries`` all queries. ``terms`` are the analyzer's counts of
    both, None for a backend without an encoder.
    """

    rows: Int32Array
    documents: Inputs
    queries: Inputs
    terms: TermCounts | None = None


@dataclass(frozen=True, eq=False, slots=True)
class StoredDocuments:
    """Documents of an external index that have a vector, as the index keeps them.

    ``rows`` int32 (n,) are rows of :class:`IndexHandle`; ``dense`` float32 (n, d) or ``sparse`` are their vectors;
    ``texts`` are None if the index keeps no texts; ``text_source`` names the source of the texts, for messages.
    """

    rows: Int32Array
    texts: tuple[str | None, ...]
    dense: Float32Array | None = None
    sparse: SparseVectors | None = None
    text_source: str = ""


class FilterMatch(NamedTuple):
    """Documents of an external index that match a filter: ``rows`` bool (n,), by row.

    ``problem`` is why no document matches, in words; "" if one does.
    """

    rows: BoolArray
    problem: str = ""


class Hits(NamedTuple):
    """Ranked documents of several queries: ``indptr`` int64 (Q + 1), ``rows`` int32 (H,), ``scores`` float32 (H,)."""

    indptr: Int64Array
    rows: Int32Array
    scores: Float32Array


class StoredIndex(NamedTuple):
    """An index in a folder: the parameters that name it there, and the model of its vectors, None if not stored."""

    parameters: Mapping[str, str]
    model: str | None


@dataclass(frozen=True, slots=True)
class ScoreTree:
    """A number of an engine's own explanation of a score: its value, the engine's words for it, and its parts.

    The words of Lucene are understood: ``sum of:``, ``weight(FIELD:TERM in 0) [BM25Similarity], result of:``, and below
    it ``idf``, ``tf``, ``boost``, ``freq``, ``n``, ``N``, ``dl``, ``avgdl``, ``k1`` and ``b``, each up to a comma.
    """

    value: float
    description: str
    details: tuple[ScoreTree, ...] = ()


@dataclass(frozen=True, slots=True)
class ScoreTrees:
    """An engine's own explanations of the scores of documents for one query.

    ``trees`` are aligned with the documents, None for a document that does not match. ``terms`` maps beginnings of the
    engine's terms to those of the harness's, ``contents:`` to nothing or ``text.title:`` to ``title:``; of several the
    longest counts. ``note`` is why no score is explained.
    """

    trees: tuple[ScoreTree | None, ...] = ()
    terms: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


class Placement(NamedTuple):
    """Shards and order of an engine's documents, as far as scores and ties show them.

    ``shards`` int32 (n,) is the shard whose statistics score each document, counted from 0; None if statistics cover
    all documents. ``order`` int32 (n,) lists the rows in the order in which equal scores are ranked. ``unindexed``
    int32 are rows outside any index: statistics of all documents score them, and statistics of the index score the
    others.
    """

    shards: Int32Array | None
    order: Int32Array
    unindexed: Int32Array | None = None


class Caveats(NamedTuple):
    """Reservations about the results of a trial, for readers of reports.

    ``notes`` are complete sentences. ``without_effect`` maps names of parameters that did not affect the searches to
    the reason; the report shows only parameters that the user set.
    """

    notes: tuple[str, ...] = ()
    without_effect: Mapping[str, str] = {}


@dataclass(frozen=True, eq=False, slots=True)
class ComparedVectors:
    """Vectors as an engine compares them: ``documents`` float32 (n, d) as its index keeps them, decoded.

    ``queries`` float32 (Q, d) are the queries as it compares them. Its scores are the ``similarity`` of both, which may
    differ from the similarity of the vectors as sent. If its index compares other vectors than its scores use, and so
    orders hits differently, ``index_documents`` and ``index_queries`` hold these vectors, compared by
    ``index_similarity``.
    """

    documents: Float32Array
    queries: Float32Array
    similarity: Similarity
    index_documents: Float32Array | None = None
    index_queries: Float32Array | None = None
    index_similarity: Similarity | None = None

    def of_documents(self, select: Callable[[Float32Array], Float32Array]) -> ComparedVectors:
        """Return a copy with ``select`` applied to the documents, both of scores and of the index."""
        in_index = None if self.index_documents is None else select(self.index_documents)
        return replace(self, documents=select(self.documents), index_documents=in_index)


@dataclass(frozen=True, eq=False, slots=True)
class Remains:
    """Remains of changes in an index, as far as scores and ties show them.

    Attributes:
        rows: Rows (int32) of documents whose earlier content is deleted but still counted in statistics; None if the
            engine does not report them.
        written: Number of the change that wrote that content (int32, aligned with ``rows``), 0 for the build.
        order: Rows (int32) of the documents held, in the order in which equal scores are ranked; None if it is the
            order of the rows, or not fixed.
        shards: Shard whose statistics score each document (int32, by row), counted from 0; None if statistics cover all
            documents, or follow from the rows.
        unindexed: Rows (int32) of documents held outside any index: statistics that count them score them, and
            statistics of the index score the others.
        rounded: Rows (int32) of documents held whose lengths enter the mean length rounded, as the index stores them.
        rounded_rows: The same for deleted contents (bool, aligned with ``rows``); None if there are none.
    """

    rows: Int32Array | None = None
    written: Int32Array | None = None
    order: Int32Array | None = None
    shards: Int32Array | None = None
    unindexed: Int32Array | None = None
    rounded: Int32Array | None = None
    rounded_rows: npt.NDArray[np.bool_] | None = None


class EngineInterface(ABC):
    """An engine that indexes and searches. One class per engine, one instance per index.

    The constructor takes the card's engine parameters, already parsed and complete, and does nothing else. Methods that
    are not abstract are optional: by default an engine returns nothing, and refuses operations that it does not offer.

    Attributes:
        capabilities: Promises of the engine; the contract suite tests them.
        no_changes: Reason why documents of its index cannot be deleted and replaced, if the engine does not offer that.
    """

    capabilities: ClassVar[Capabilities]
    no_changes: ClassVar[str] = "its engine declares no changes"

    @abstractmethod
    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None: ...

    @abstractmethod
    def open(self, folder: Path, ids: Ids) -> EngineInfo:
        """Start on ``folder``: empty for a new index, or holding an index of the documents ``ids``."""

    @abstractmethod
    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        """Index all documents and wait until they can be searched and the engine is idle."""

    @abstractmethod
    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        """Return the best ``k`` (at least 1) documents of each query; queries are sent and timed one by one."""

    @abstractmethod
    def storage(self) -> Storage:
        """Return the current bytes of the index."""

    @abstractmethod
    def close(self) -> None:
        """Release everything; calling it again does nothing."""

    @classmethod
    def server_kind(cls) -> ServerKind | None:
        """Return the servers that the engine runs on, which ``harness doctor`` examines; None if it needs no server."""
        return None

    def require_address(self) -> None:  # noqa: B027 - most engines run in the process
        """Raise EngineUnavailableError if the engine needs a server but no parameter or variable names it.

        It is called when a comparison is planned, so it sends nothing.
        """

    # Facts about its searches that an engine reports after all searches.

    def searched_state(self, k: int) -> Mapping[str, ParameterValue]:
        """Return the entries of the index's state that differ for searches of the best ``k`` with these parameters.

        An exact search bypasses the graph.
        """
        return {}

    def caveats(self, k: int) -> Caveats:
        """Return the reservations about the searches of the best ``k`` that only the open engine knows."""
        return Caveats()

    def lists(self, queries: Inputs, k: int, clock: Clock) -> Mapping[str, Hits]:
        """Return the lists that a search of the best ``k`` fuses, in the engine's order, by column of ``queries``.

        Empty unless the engine fuses ranked lists itself (input ``hybrid``).
        """
        return {}

    def compared_vectors(self, queries: Inputs) -> ComparedVectors | None:
        """Return the vectors that the engine compares, by row; None if they are the vectors as sent.

        They show whether compression explains a difference.
        """
        return None

    def remeasured(self, queries: Inputs, k: int) -> Mapping[str, Hits]:
        """Return the same searches, each hit scored by its vector, not its code, by list: ``dense``.

        They show whether the codes explain a difference; empty if searches score by vectors.
        """
        return {}

    def placement(self) -> Placement | None:
        """Return the placement of the documents in its own index; None if neither scores nor ties show it."""
        return None

    def explain(self, query: Inputs, rows: Int32Array) -> ScoreTrees:
        """Return the engine's own explanation of the scores of documents ``rows`` for a single query.

        The values of the trees are the scores that a search returns.
        """
        return ScoreTrees(note="its engine does not explain scores")

    # Operations of an engine besides searching its own index.

    def restrict(self, conditions: Mapping[str, str]) -> None:
        """From now on return only documents whose fields have the values in ``conditions``; all documents if empty.

        Values are compared exactly, as text; statistics still cover all documents. Raises RejectedInputError for a
        field that was not indexed.
        """
        raise EngineFailureError(
            f"'{type(self).__name__}' cannot filter",
            fix="this is a defect of the engine: it does not subclass harness.engines.base.Filterable",
        )

    def unchangeable(self) -> str | None:
        """Return why the open index cannot be changed; None if it can."""
        return self.no_changes

    def apply(self, deleted: Ids, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        """Delete some documents and write others, and wait until all can be searched and the engine is idle.

        ``documents`` replace the documents with the same ids, or are new and get the next rows; the row of a deleted
        document stays empty. ``sent`` of the report counts the documents that the index should hold now. Raises
        RejectedInputError for ids to delete that are missing or also written.
        """
        raise RejectedInputError(f"the index cannot be changed: {self.no_changes}", fix="index all documents again")

    def remains(self) -> Remains:
        """Return the remains of earlier changes in the index; unknown by default."""
        return Remains()

    source: Path | None = None
    """The folder or file that is hashed before :meth:`attach` and after ``close``; None for a server."""

    def attach(self, folder: Path, progress: Progress) -> IndexHandle:
        """Open the external index that the parameters name; ``folder`` is the engine's own empty folder, for copies.

        A parameter that the card lets it read from the index (``external_index.read``) is "" unless the user sets it,
        and is in the returned ``state``. Afterwards ``search``, ``storage`` and ``close`` work as for its own index;
        nothing is ever written to the external index. Raises EngineUnavailableError for an index that cannot be read,
        RejectedInputError for documents without ids or with repeated ids, and for an index that the parameters
        contradict.
        """
        raise EngineFailureError(
            f"'{type(self).__name__}' cannot search an external index, although its card offers it",
            fix="this is a defect of the engine: it does not subclass harness.engines.base.ExternalIndex",
        )

    def mismatch(self, content: ExpectedContent, progress: Progress) -> str | None:
        """Return why no reference can be made from ``content``; None if the external index is proven to hold it.

        Raises RejectedInputError if answers to the queries would be meaningless.
        """
        return "its engine does not compare the content of the index"

    def stored_documents(self, count: int) -> StoredDocuments:
        """Return at most ``count`` documents sampled across the external index, which reveal another model's vectors.

        Returns no documents if the index does not return its vectors.
        """
        return StoredDocuments(np.empty(0, dtype=np.int32), ())

    def stored_texts(self, rows: Int32Array) -> list[str | None]:
        """Return the texts of documents of the external index, by row; None for a document without a known text."""
        return [None] * len(rows)

    def stored_matches(self, filters: Sequence[Mapping[str, str]]) -> list[FilterMatch]:
        """Return which documents of the external index match each filter.

        Engines that declare ``filters_external`` offer it. Raises RejectedInputError for a field that no document has,
        and for a field by which the engine cannot filter.
        """
        raise EngineFailureError(
            f"'{type(self).__name__}' does not return the metadata of an external index",
            fix="this is a defect of the engine: it declares filters_external",
        )


@runtime_checkable
class HasIdentity(Protocol):
    """Optional protocol of an engine class: names influences on its hits besides its parameters."""

    def identity(self, parameters: Mapping[str, ParameterValue]) -> Mapping[str, str]:
        """Return names and versions of the software that computes the hits, for a stored trial's key; a class method.

        A parameter's name replaces the parameter with the value in effect. It is called in a worker, before anything is
        opened. Raises HarnessError if the versions are unknown.
        """
