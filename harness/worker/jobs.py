"""Jobs that the parent gives to workers, and their results: dataclasses, stored by :mod:`harness.store.record_files`.

A job folder holds a job, any columns it reads that lie nowhere else, and afterwards ``log.txt`` and the result, unless
the job failed. Nothing is ever pickled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple

from harness.data.filtering import BoolArray, QueryFilters
from harness.data.types import (
    Float32Array,
    Ids,
    Int32Array,
    Int64Array,
    Similarity,
    SparseVectors,
    UInt32Array,
)
from harness.engines.callable.answers import PLAIN, HitContent
from harness.engines.interface import (
    Caveats,
    ComparedVectors,
    EngineInfo,
    Hits,
    IndexReport,
    InputKind,
    Placement,
    Remains,
    SearchResult,
    Storage,
    StoredDocuments,
)
from harness.registry.parameters import ParameterValue
from harness.stats.timing import Samples
from harness.store.cpu_use import OtherProcesses

Arithmetic = Literal["textbook", "lucene", "float32"]
FILTER_COLUMN = "filter"
LoadKind = Literal["cold", "closed", "open"]
"""Measurements of a finished index: every query once from disk, clients that wait for answers, or a given rate."""


@dataclass(frozen=True, slots=True)
class AnalyseJob:
    """Turn documents and queries into term counts, written to ``target`` (an empty folder).

    ``heap`` and ``jar`` are for analyzers that run in a JVM, as in :func:`harness.java.jvm.start`. ``fields`` are the
    columns of ``corpus`` that are analysed as separate fields; empty for its column ``text``.
    """

    analyzer: str
    corpus: Path
    queries: Path
    target: Path
    heap: str | None = None
    jar: str | None = None
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AnalysedTexts:
    """Time of an analysis without the analyzer's start; its terms are in the job's target."""

    took_ns: int


@dataclass(frozen=True, slots=True)
class EncodePart:
    """The texts of one role: an Arrow file with columns id and text, and the folder for their vectors.

    ``target`` may hold output of an interrupted job. Only rows from ``start`` up to ``stop`` are encoded; None is the
    last.
    """

    role: Literal["documents", "queries"]
    texts: Path
    target: Path
    start: int = 0
    stop: int | None = None


@dataclass(frozen=True, slots=True)
class EncodeJob:
    """Encode ``parts`` with one model. ``parameters`` are a backend's, complete; only the encoder's are read."""

    encoder: Literal["dense", "splade"]
    parameters: Mapping[str, ParameterValue]
    parts: tuple[EncodePart, ...]


class EncodingRecord(NamedTuple):
    """Work of one encoding: ``rows`` of each role, in this many ``chunks``; its vectors are in the job's targets.

    For a model behind an endpoint every chunk is an answer, ``calls`` are all calls made, ``repeated_calls`` the calls
    among them that repeat another, and ``tokens`` the endpoint's count; for any other model they are 0.
    """

    rows: Mapping[str, int]
    chunks: int = 0
    calls: int = 0
    repeated_calls: int = 0
    tokens: int = 0


@dataclass(frozen=True, eq=False, slots=True)
class QueryGroup:
    """Queries that share a filter: ``conditions`` map fields to values, none for all documents.

    ``rows`` int32 are the queries' numbers, ascending.
    """

    conditions: Mapping[str, str]
    rows: Int32Array

    @classmethod
    def all_of(cls, filters: QueryFilters, *, external: bool = False) -> tuple[QueryGroup, ...]:
        """Return the groups of a dataset's queries.

        Their conditions are those on the columns of the metadata, or for an ``external`` index on its own fields.
        """
        return tuple(
            cls(group.conditions if external or group.of_columns is None else group.of_columns, filters.rows_of(number))
            for number, group in enumerate(filters.groups)
        )


@dataclass(frozen=True, slots=True)
class TrialJob:
    """Index and search with one engine.

    Args:
        engine: ``module:class``.
        parameters: The backend's, complete.
        corpus: Arrow file with columns id and text; ``queries`` likewise.
        fields: Arrow file with the texts of single fields of the documents, for an engine that searches several; None
            for the column ``text``.
        document_vectors: Folders with the vectors of documents, and ``query_vectors`` of queries: none for engines that
            read text, two for engines that read sparse and dense vectors. Sparse ones are widened to ``dimensions``.
        external: Search the index that the parameters name instead of building one.
        terms: Folder of the analyzer's counts, for an external index.
        hashes: Location of such an index's digests until they are compared (:func:`harness.worker.attach.unchanged`),
            set with ``external``.
        release: File that a server's trial waits for before it closes its engine, and its index with it; None does not
            wait.
        shared: Reopen the index before searching, even in the trial that built it.
        built: Job folder of the trial whose index is reused; None builds a new one.
        filters: Searches return only documents that match the filter of their query: each query is in one group, and
            the groups are in the order of their first queries. Empty without filters.
        metadata: Arrow file with the fields of the filters, None without a filter and for an external index.
        candidates: Arrow file with the rows of each query's candidates, all that is kept of its hits; None keeps every
            hit.
        term_texts: Folder of the analysed terms as texts, for engines that weigh terms themselves.
        content: Content of an external index's documents that expectations are matched with, besides ids.
    """

    engine: str
    parameters: Mapping[str, ParameterValue]
    corpus: Path
    queries: Path
    document_vectors: tuple[Path, ...]
    query_vectors: tuple[Path, ...]
    index_folder: Path
    k: int
    repeats: int
    warm_up_queries: int
    warm_up_seconds: float
    dimensions: int = 0
    external: bool = False
    terms: Path | None = None
    release: Path | None = None
    hashes: Path | None = None
    shared: bool = False
    built: Path | None = None
    filters: tuple[QueryGroup, ...] = ()
    metadata: Path | None = None
    candidates: Path | None = None
    term_texts: Path | None = None
    content: HitContent = PLAIN
    fields: Path | None = None


@dataclass(frozen=True, slots=True)
class ClientJob:
    """Query the finished index of ``trial``, as client number ``client`` of ``clients`` and the numbers after it.

    ``folder`` is shared by all clients of one measurement, ``hits`` is the folder of the trial's record, the single
    client's answers. ``threads`` clients run in this process, on one engine. The loop lasts ``seconds``; an open loop
    that is late gives up ``patience_s`` later.
    """

    trial: TrialJob
    kind: LoadKind
    folder: Path
    hits: Path
    client: int
    clients: int
    threads: int
    seconds: float
    patience_s: float


@dataclass(frozen=True, eq=False, slots=True)
class ChangeStep:
    """One change of an index: rows that are deleted, and rows that are written with their new content.

    All int32. Rows are places in the order in which documents come into the index; ``content`` are rows of the corpus.
    """

    deleted: Int32Array
    written: Int32Array
    content: Int32Array


@dataclass(frozen=True, eq=False, slots=True)
class ChurnJob:
    """Index the first documents of a workload, and search before and after each of its changes.

    ``trial`` says which documents are indexed and which queries run. ``order`` int32 (n,) is the corpus in the order of
    indexing, ``first`` of them at once. ``fresh_folder`` is for an index of the documents left at the end.
    """

    trial: TrialJob
    order: Int32Array
    first: int
    steps: tuple[ChangeStep, ...]
    fresh_folder: Path


@dataclass(frozen=True, eq=False, slots=True)
class ChurnPass:
    """Searches of one state of an index: rows of ``hits`` are places in the order of the job.

    ``report`` gives the cost of reaching it; ``remains`` the leftovers of earlier changes. ``compared`` are the vectors
    that the engine compares, by such rows, if they differ from the vectors it was sent. ``lists`` are the lists that it
    fuses, and ``remeasured`` its searches with vectors in place of codes, by list.
    """

    report: IndexReport
    storage: Storage
    hits: SearchResult
    remains: Remains
    compared: ComparedVectors | None = None
    lists: Mapping[str, Hits] = field(default_factory=dict)
    remeasured: Mapping[str, Hits] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, slots=True)
class ChurnRecord:
    """The state before the first change and after each; and, last, a new index of the documents at the end.

    ``unchangeable`` is why the index cannot be changed, and then there is nothing else.
    """

    passes: tuple[ChurnPass, ...] = ()
    fresh: ChurnPass | None = None
    unchangeable: str | None = None
    other_processes: OtherProcesses | None = None


@dataclass(frozen=True, eq=False, slots=True)
class RerankJob:
    """Score pairs of texts with the ``parameters`` of a ``reranker``; the result is a ``RerankedRun``.

    ``corpus`` and ``queries`` are Arrow files with columns id and text, ``query_rows`` int32 (P,) ascending and
    ``document_rows`` int32 (P,) the pairs' rows in them. ``cache`` is the root of the cache.
    """

    reranker: str
    parameters: Mapping[str, ParameterValue]
    corpus: Path
    queries: Path
    query_rows: Int32Array
    document_rows: Int32Array
    cache: Path


@dataclass(frozen=True, eq=False, slots=True)
class SparseSearchJob:
    """Find the exact best ``k`` of some documents for every query; the result is a ``TopK`` over their rows.

    Args:
        documents: Weights that depend on no other document any more, with statistics of the whole corpus in them.
        queries: Weights of queries; counts of terms if ``arithmetic`` is ``float32``.
        arithmetic: How weights become scores: ``textbook`` adds products in float64, ``lucene`` does as
            :class:`harness.exact.lucene.LuceneWeights`, ``float32`` adds in float32, term by term.
        tie_break: uint32 (n,): of equal scores the larger comes first.
        k: Hits of each query.
        matching: bool (n,), the documents that a filter leaves, None for all.
        absent: float32 (V,), the score of every document for a term in ``float32`` arithmetic, None for nothing.
        rounded: int64 (R, 2), the columns whose sums are rounded before they are added to others, in ``lucene``
            arithmetic; None for a single sum.
    """

    documents: SparseVectors
    queries: SparseVectors
    arithmetic: Arithmetic
    tie_break: UInt32Array
    k: int
    matching: BoolArray | None = None
    absent: Float32Array | None = None
    rounded: Int64Array | None = None


@dataclass(frozen=True, eq=False, slots=True)
class DenseSearchJob:
    """Find the exact best ``k`` of the documents ``start`` to ``stop``; the result is a ``TopK`` over rows from 0.

    ``vectors`` is a file of vectors, float32 (n, d), and ``queries`` float32 (Q, d). ``tie_break`` and ``matching``, as
    in :class:`SparseSearchJob`, cover only these documents.
    """

    vectors: Path
    start: int
    stop: int
    queries: Float32Array
    similarity: Similarity
    tie_break: UInt32Array
    k: int
    matching: BoolArray | None = None

    def of_rows(self, start: int, stop: int) -> DenseSearchJob:
        """Return the same search, only of the documents from ``start`` to ``stop``, counted from this one's first."""
        matching = None if self.matching is None else self.matching[start:stop]
        ties = self.tie_break[start:stop]
        return replace(self, start=self.start + start, stop=self.start + stop, tie_break=ties, matching=matching)


@dataclass(frozen=True, slots=True)
class ExplainJob:
    """Build or attach the index of ``trial``, and have its engine explain scores; the result is ``ScoreTrees``.

    ``query`` is the query's row, and ``trial`` has only its filter. ``documents`` are ids; an id that the index lacks
    is explained by None.
    """

    trial: TrialJob
    query: int
    documents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IdentityJob:
    """Request from an engine's class everything, other than its parameters, that decides its hits.

    ``engine`` is ``module:class``; see :class:`harness.engines.interface.HasIdentity`.
    """

    engine: str
    parameters: Mapping[str, ParameterValue]


@dataclass(frozen=True, slots=True)
class Identity:
    """Names and versions by which an engine's class identifies itself."""

    names: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AskJob:
    """Query a callable, ``module:name``, with every question of an Arrow file with columns id and text.

    A further column :data:`FILTER_COLUMN`, if questions have filters, holds the conditions of each as JSON.

    Each question runs ``repeats`` times, with ``warm_up`` the first once more before. The result is an
    ``AnsweredQueries``. ``framework`` names the library of a retriever, "" for a function; ``id_key`` the field of its
    documents' ids, and ``content`` the content of hits that is matched besides ids. Unless ``filters_required``, a
    callable that takes no filter is called without.
    """

    target: str
    questions: Path
    k: int
    repeats: int
    warm_up: bool
    framework: str = ""
    id_key: str = ""
    content: HitContent = PLAIN
    filters_required: bool = True


@dataclass(frozen=True, eq=False, slots=True)
class ExternalIndexRecord:
    """An external index as a trial saw it.

    ``ids`` are the index's documents in the order of its rows, ``rows`` int32 their rows in the collection, -1 for
    documents it lacks. ``no_reference`` is why results are not compared with a reference, None if the index is proven
    to hold the data of a reference. ``sample`` are some of its documents, None if it returns none. ``vectors`` float32
    (n, d) are the vectors of all its documents, for a reference without a dataset. ``files``, ``file_bytes`` and
    ``sha256`` are None for an index without files here. ``values`` are the documents' values of the field that is
    matched, or that was named for ids although several documents share its values (``repeats``); ``texts`` are the
    texts of the documents in ``text_rows`` (int32), if texts are matched, or if no dataset has them. All are None
    otherwise. ``matching`` are
    the documents that match each filter of the job, bool (n,), by the index's own metadata, and ``unmatched`` is why
    no document matches it, "" if one does; both are empty without filters.
    """

    ids: Ids
    rows: Int32Array
    no_reference: str | None
    files: int | None
    file_bytes: int | None
    sha256: str | None
    sample: StoredDocuments | None = None
    vectors: Float32Array | None = None
    values: tuple[str | None, ...] | None = None
    repeats: bool = False
    text_rows: Int32Array | None = None
    texts: tuple[str | None, ...] | None = None
    matching: tuple[BoolArray, ...] = ()
    unmatched: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class ClientRecord:
    """Result of one client process.

    ``gave_up`` is why one of its clients stopped early, ``different_queries`` the rows of queries that were answered
    differently from the single client, ``resident_share`` the share of a cold index that stayed in the page cache.
    """

    samples: Samples
    first_error: str | None
    gave_up: str | None
    different_queries: tuple[int, ...]
    open_ns: int
    resident_share: float | None


@dataclass(frozen=True, eq=False, slots=True)
class TrialRecord:
    """Result of a trial: hits of the first timed pass, times of all passes (int64 (repeats, Q)).

    ``input`` is the engine's kind of input; ``open_ns`` the time until it was ready to receive documents. ``external``
    is set for an existing index; rows of hits are then rows of ``external.ids``. ``built_by`` is the label of the
    backend that built it, None for the trial's own: ``index`` was measured then. ``lists`` are the lists that an engine
    fuses, by name. ``caveats`` are the engine's own, ``compared`` the vectors that it compares if they differ from the
    vectors it was sent. ``placement`` is set for an index whose engine reports it. ``remeasured`` are its searches with
    vectors in place of codes, by list. ``other_processes`` is the use of other processes in the same time, by phase.
    """

    engine: EngineInfo
    input: InputKind
    open_ns: int
    index: IndexReport
    storage: Storage
    hits: SearchResult
    search_ns: Int64Array
    transfer_ns: Int64Array
    first_query_ns: int
    k: int
    warm_up_queries: int
    warm_up_ns: int
    external: ExternalIndexRecord | None = None
    built_by: str | None = None
    lists: Mapping[str, Hits] = field(default_factory=dict)
    caveats: Caveats = field(default_factory=Caveats)
    compared: ComparedVectors | None = None
    placement: Placement | None = None
    remeasured: Mapping[str, Hits] = field(default_factory=dict)
    other_processes: tuple[OtherProcesses, ...] = ()
