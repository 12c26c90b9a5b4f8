"""The base class of engines, which checks input, keeps time, counts documents and words errors.

An engine implements the hooks ``info``, ``build``, ``load`` and ``retrieve``. It may override ``size``, ``check``
(input to refuse), ``create`` (an empty index), ``prepare`` (queries in the client's form, made before the clock runs),
``columns`` (an answer's rows and scores: transfer) and ``translated`` (its client's errors).

:class:`Filterable` adds filters, :class:`ExternalIndex` adds indexes made outside the harness, :class:`ClientEngine`
adds a client that translates its own errors, and :class:`harness.engines.changeable.Changeable` adds changes to a
finished index.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.data.arrow import strings
from harness.data.inputs import Inputs
from harness.data.progress import Clock, Progress
from harness.data.types import Float32Array, Ids, Int32Array, SparseVectors
from harness.engines.checks import (
    require_announced_ids,
    require_dense,
    require_positive_k,
    require_sparse,
    require_terms,
    require_texts,
)
from harness.engines.external_index import ExternalRows, source_folder
from harness.engines.external_metadata import ExternalMetadata
from harness.engines.index_folder import (
    ID_FIELD,
    MANIFEST,
    REBUILD,
    allocated_bytes,
    check_manifest,
    deleted_rows,
    matching_documents,
    require_fields,
    save_metadata,
    write_manifest,
)
from harness.engines.interface import (
    Capabilities,
    Caveats,
    EngineInfo,
    EngineInterface,
    ExpectedContent,
    FilterMatch,
    IndexHandle,
    IndexReport,
    SearchResult,
    Storage,
    StoredDocuments,
    StoredIndex,
)
from harness.engines.reserved_names import ASSIGNED_ONCE, ReservedName, hidden_name, require_free_names, reserved_names
from harness.errors import (
    BackendError,
    CacheError,
    CardError,
    DataError,
    EngineFailureError,
    EngineUnavailableError,
    LostDocumentsError,
    RejectedInputError,
    UsageError,
)
from harness.registry.cards import FIELDS, BackendCard
from harness.registry.foreign_code import foreign_code
from harness.registry.parameters import ParameterValue
from harness.store import disk

__all__ = [
    "REBUILD",
    "Capabilities",
    "Caveats",
    "Client",
    "ClientEngine",
    "Documents",
    "Engine",
    "EngineInfo",
    "ExpectedContent",
    "External",
    "ExternalIndex",
    "ExternalVectorIndex",
    "Filterable",
    "HitCollector",
    "IndexHandle",
    "Ingestion",
    "LoadedIndex",
    "SearchResult",
    "Storage",
    "StoredDocuments",
    "allocated_bytes",
    "as_backend_errors",
    "matching_documents",
    "require_dense",
    "require_sparse",
    "require_terms",
    "require_texts",
    "source_folder",
]

_DAMAGED = "delete the index folder and index again"
Column = TypeVar("Column")
"""The types that an engine reads: Float32Array, SparseVectors, an Arrow column of texts or of terms, or Inputs."""


@dataclass(frozen=True, eq=False, slots=True)
class Documents(Generic[Column]):
    """Checked documents: ``column`` holds their vectors, texts or terms, ``metadata`` the fields to filter by."""

    ids: Ids
    column: Column
    metadata: pa.Table | None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def fields(self) -> list[str]:
        """Return the names of the fields of the metadata."""
        return [] if self.metadata is None else list(self.metadata.column_names)

    def batches(self, size: int, progress: Progress) -> Iterator[tuple[int, int]]:
        """Yield start and stop of each batch of ``size`` documents; advance ``progress`` after each."""
        for start in range(0, len(self), size):
            stop = min(start + size, len(self))
            yield start, stop
            progress.advance(stop - start)

    def records(self, start: int, stop: int) -> list[dict[str, str]]:
        """Return the fields of each document in rows ``start`` to ``stop``; empty without metadata."""
        if self.metadata is None:
            return [{} for _ in range(start, stop)]
        rows = self.metadata.slice(start, stop - start).to_pylist()
        return [{name: value for name, value in row.items() if value is not None} for row in rows]

    def with_ids(self) -> Documents[Column]:
        """Return the documents with ids in the metadata: a kept collection can serve as an external index."""
        ids, table = strings(self.ids.to_list()), self.metadata
        metadata = pa.table({ID_FIELD: ids}) if table is None else table.append_column(ID_FIELD, ids)
        return replace(self, metadata=metadata)


@dataclass(frozen=True, eq=False, slots=True)
class LoadedIndex:
    """The engine's own account of an index that can be searched.

    Attributes:
        documents: Number of documents that it holds; with ``missing`` they must add up to all documents sent.
        state: For the report: segments, dimensions. For an approximate engine of dense vectors, ``vectors_in_graph``
            (int) is the number of vectors in its graph: the report and the contract suite read it.
        dimensions: Dimensions required of dense queries; None for any number.
        missing: Rows (int32) of the documents that it does not hold.
    """

    documents: int
    state: Mapping[str, ParameterValue]
    dimensions: int | None = None
    missing: Int32Array = field(default_factory=lambda: np.empty(0, dtype=np.int32))


class Engine(EngineInterface, Generic[Column]):
    """An engine with its own folder.

    Attributes:
        name: Name in the manifest of each index and in messages.
        search_parameters: Parameters that may differ when an index is opened again, because they do not change it.
        faults: Exceptions of the library; they leave the engine as a BackendError. An engine may set them in
            :meth:`info`, once the library is imported.
        packages: Distributions whose versions, like its parameters, determine the engine's hits: they are part of a
            stored trial's key.
    """

    name: ClassVar[str]
    search_parameters: ClassVar[frozenset[str]] = frozenset({"threads"})
    faults: tuple[type[Exception], ...] = (RuntimeError,)
    packages: ClassVar[tuple[str, ...]] = ()
    _reserved: ClassVar[Mapping[str, ReservedName]] = {}

    def __init_subclass__(cls) -> None:
        """Declare the filters and external indexes that the class implements.

        Raises CardError if the class uses a base class's name for something else.
        """
        super().__init_subclass__()
        require_free_names(cls)
        cls._reserved = reserved_names(cls)
        declared = getattr(cls, "capabilities", None)
        if declared is not None:
            filters, external = issubclass(cls, Filterable), issubclass(cls, ExternalIndex)
            cls.capabilities = replace(declared, filters=filters, external=external)

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse an attribute that hides a base class's name; raises CardError."""
        reserved = self._reserved.get(name)
        if reserved is not None and (name not in ASSIGNED_ONCE or name in vars(self)):
            raise hidden_name(type(self), name, reserved)
        super().__setattr__(name, value)

    def _keep(self, **state: object) -> None:
        """Assign the base classes' attributes."""
        vars(self).update(state)

    @classmethod
    def check_card(cls, card: BackendCard) -> None:
        """Check that an engine can be made from a card's defaults, and that both agree about the parameters.

        They must also agree about which parameters change an index.

        Raises:
            CardError: They disagree, or the card names a scoring that does not exist.
        """
        source, class_name = f"card '{card.path}'", f"'{cls.__name__}'"
        fix = "implement the hooks info, build, load and retrieve, and declare on the card what the class reads"
        with foreign_code(f"{source}: an engine {class_name} cannot be made: its class", CardError, fix):
            in_the_index = cls(card.defaults).index_parameters.keys()
        fields = card.parameters.get(FIELDS)
        if (fields is not None and fields.type == FIELDS) != cls.capabilities.fields:
            raise CardError(
                f"{source}: the parameter 'fields' and the capability of {class_name} to search fields go together",
                fix="declare both or neither: Capabilities(fields=True), and [parameters.fields] of type 'fields'",
            )
        if card.reference.scoring is not None:
            _check_scoring(source, card.reference.scoring, card.defaults)
        for name, parameter in card.parameters.items():
            of_the_search = parameter.scope == "search"
            if of_the_search and name in in_the_index:
                raise CardError(
                    f"{source}, parameter '{name}': its scope is 'search', but {class_name} opens no index with "
                    "another value of it",
                    fix="name it in the class's search_parameters, or give it the scope 'engine'",
                )
            harmless = of_the_search or parameter.affects != "hits" or name in _ADDRESSES
            if name in cls.search_parameters and not harmless:
                raise CardError(
                    f"{source}, parameter '{name}': {class_name} opens an index with any value of it, but its scope is "
                    f"'{parameter.scope}'",
                    fix="give it the scope 'search', or take it out of the class's search_parameters",
                )

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        self.parameters = dict(parameters)
        self.resources = ExitStack()
        """Resources that the engine must release; :meth:`close` closes them, as does a failed opening."""
        self.finished = False
        """True if the folder holds a finished index; set before :meth:`info` is called."""
        self._folder: Path | None = None
        self.ids = Ids.of([])
        """Ids of the documents that the index holds; rows of hits are positions in this list."""
        self.deleted: Int32Array = np.empty(0, dtype=np.int32)
        """Rows of the deleted documents, ascending; see :class:`harness.engines.changeable.Changeable`."""
        self._loaded: LoadedIndex | None = None

    # The hooks.

    @abstractmethod
    def info(self) -> EngineInfo:
        """Start the library or the client, outside all measured times, and return its name and version.

        :attr:`folder` is set, and :attr:`finished` is true if it holds an index.
        """

    @abstractmethod
    def build(self, folder: Path, documents: Documents[Column], progress: Progress) -> None:
        """Write an index of all documents.

        Args:
            folder: The engine's own folder; empty except for files that :meth:`info` wrote.
            documents: Documents with the announced ids, and a column that :meth:`check` accepted.
            progress: Advance it by the documents of each batch. ``progress.start("save", None)`` ends ingestion: later
                time counts as getting ready.
        """

    @abstractmethod
    def load(self, folder: Path) -> LoadedIndex:
        """Open the index for searching, after :meth:`build` and each time a finished index is opened again."""

    @abstractmethod
    def retrieve(self, query: Any, k: int) -> Any:
        """Search for one query; the duration is the query's search time.

        Args:
            query: The result of :meth:`prepare`: by default one row of the column.
            k: At least 1, and at most the number of documents.

        Returns:
            The argument of :meth:`columns`: by default rows and scores, best first; rows below 0 are padding.
        """

    def size(self, folder: Path) -> Storage:
        """Return the bytes of the index: unless overridden, the bytes of all files in ``folder``, without a log."""
        return Storage(disk.allocated_bytes(folder, leave_out=MANIFEST), 0)

    # Methods that an engine may override.

    def check(self, inputs: Inputs, role: str, dimensions: int | None) -> Column:
        """Return the column that the engine reads, or all inputs for an engine that reads two; refuse bad values.

        Args:
            inputs: Documents or queries.
            role: ``document`` or ``query``, for messages.
            dimensions: Dimensions of the index, for queries to an index of dense vectors.

        Raises:
            RejectedInputError: NaN, repeated columns, a zero vector under cosine, another number of dimensions.
        """
        cosine = self.parameters.get("similarity") == "cosine"
        columns: list[object] = []
        for name in self.capabilities.columns:
            match name:
                case "text":
                    columns.append(require_texts(inputs, role))
                case "terms":
                    columns.append(require_terms(inputs, role))
                case "sparse":
                    columns.append(require_sparse(inputs, role))
                case "dense":
                    columns.append(require_dense(inputs, role, cosine=cosine, dimensions=dimensions))
        return cast("Column", columns[0] if len(columns) == 1 else inputs)

    def create(self, folder: Path, documents: Documents[Column]) -> None:
        """Make the empty index that :meth:`build` fills, if its time should not count as ingestion."""

    def prepare(self, queries: Column, k: int) -> Iterable[Any]:
        """Return the argument of :meth:`retrieve` for each query; None (no terms) is not sent and finds nothing."""
        rows = (_row_of(queries, row) for row in range(len(cast("Any", queries))))
        return (row or None for row in rows) if self.capabilities.input == "terms" else rows

    def columns(self, answer: Any) -> tuple[npt.ArrayLike, npt.ArrayLike]:
        """Return rows and scores of an answer; the duration is the query's transfer time."""
        return cast("tuple[npt.ArrayLike, npt.ArrayLike]", answer)

    @contextmanager
    def translated(
        self, doing: Callable[[], str], kind: type[BackendError] = EngineFailureError, fix: str | None = None
    ) -> Iterator[None]:
        """Raise an error of the library as a ``kind`` that names the engine's activity."""
        try:
            yield
        except (CacheError, DataError, UsageError) as error:
            raise backend_error(error) from error
        except self.faults as fault:
            raise kind(f"the {self.name} engine failed while {doing()}: {fault}", fix=fix) from fault

    @property
    def index_parameters(self) -> dict[str, ParameterValue]:
        """Parameters that determine an index's content; they must be the same when it is opened again."""
        parameters = {name: value for name, value in self.parameters.items() if name not in self.search_parameters}
        if parameters.get(FIELDS) and self.capabilities.fields:
            from harness.registry.field_weights import field_names

            parameters[FIELDS] = field_names(str(parameters[FIELDS]))  # weights are of the search
        return parameters

    @property
    def repeated_calls(self) -> int:
        """Number of calls that the client has repeated so far after a transient error."""
        return 0

    def absent_rows(self, documents: int, stored: Callable[[], Iterable[npt.ArrayLike]]) -> Int32Array:
        """Return the rows (int32) of just sent documents that are missing; they may include deleted documents.

        Args:
            documents: Number of documents in the index; none is missing if it holds all, or if it was opened again.
            stored: Function that lists the rows in the index, in parts.
        """
        if self.finished or documents == len(self.ids) - len(self.deleted):
            return np.empty(0, dtype=np.int32)
        absent = np.ones(len(self.ids), dtype=np.bool_)
        for part in stored():
            absent[np.asarray(part, dtype=np.int64)] = False
        return np.flatnonzero(absent).astype(np.int32)

    # Methods that the harness calls.

    @property
    def folder(self) -> Path:
        """Return the folder in which the engine is open. Raises EngineUnavailableError if it is not open."""
        if self._folder is None:
            raise EngineUnavailableError(f"the {self.name} engine is not open", fix="open it first")
        return self._folder

    @property
    def loaded(self) -> LoadedIndex:
        """Return the index that is searched. Raises EngineUnavailableError if there is no index."""
        self.folder  # noqa: B018 - raises when the engine is not open
        if self._loaded is None:
            raise EngineUnavailableError(f"the {self.name} engine has no index yet", fix="index documents first")
        return self._loaded

    def open(self, folder: Path, ids: Ids) -> EngineInfo:
        """Start on an empty folder, or load the index that it holds.

        Raises:
            EngineUnavailableError: The library is missing or does not start, or the index is damaged.
            LostDocumentsError: The index does not hold all the documents.
            RejectedInputError: The index was built with other parameters or from other documents.
        """
        indexed = check_manifest(folder, self.name, self.index_parameters, ids, free=self.search_parameters)
        self._keep(_folder=folder, ids=ids, finished=indexed is not None)
        with self._closed_on_failure():
            with self.translated(lambda: "starting", EngineUnavailableError):
                info = self.info()
            if indexed is not None:
                self._keep(deleted=deleted_rows(folder))
                self._keep(_loaded=self._load(folder, indexed))
        return info

    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        """Check, build, load and count; the manifest, written last, marks the index as finished."""
        folder = self.folder
        if self._loaded is not None:
            raise RejectedInputError(f"'{folder}' holds an index already", fix="index into a new folder")
        require_announced_ids(documents, self.ids)
        checked = Documents(documents.ids, self.check(documents, "document", None), documents.metadata)
        with self.translated(lambda: "creating the index"):
            self.create(folder, checked)
        ingestion = Ingestion(progress, len(documents), clock)
        started = clock()
        with self.translated(lambda: "indexing"):
            self.build(folder, checked, ingestion)
        ingested = ingestion.end()
        loaded = self._load(folder)
        ready = clock()
        if isinstance(self, Filterable) and documents.metadata is not None:
            save_metadata(folder, documents.metadata, values=not self.stores_metadata)
        write_manifest(folder, self.name, self.index_parameters, documents.ids, indexed=loaded.documents)
        self._keep(_loaded=loaded, finished=True)
        times = ingested - started, ready - ingested
        return IndexReport(len(documents), loaded.documents, loaded.missing, *times, loaded.state)

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        """Return the best ``k`` documents of each query; queries are sent and timed one by one.

        Search time covers ``retrieve``, transfer time ``columns``; ``prepare`` counts as neither.
        """
        loaded = self.loaded
        require_positive_k(k)
        column = self.check(queries, "query", loaded.dimensions)
        depth = max(1, min(k, loaded.documents))
        repeated = self.repeated_calls
        with self.translated(lambda: "building the queries"):
            prepared = list(self.prepare(column, depth))
        hits = self.search_prepared(prepared, queries.ids, depth, clock)
        return hits._replace(repeated_calls=self.repeated_calls - repeated)

    def search_prepared(self, prepared: list[Any], ids: Ids, k: int, clock: Clock) -> SearchResult:
        """Search for one query after the other; override this to search for several in one call."""
        collector = HitCollector()
        with self.translated(lambda: f"searching for query '{ids[len(collector)]}'"):
            for query in prepared:
                started = clock()
                answer = None if query is None else self.retrieve(query, k)
                searched = clock()
                try:
                    rows, scores = _NOTHING if query is None else self.arrays(answer)
                except (TypeError, ValueError) as error:
                    whose = f"the {self.name} engine's answer to query '{ids[len(collector)]}'"
                    raise EngineFailureError(
                        f"{whose} is not rows and scores: {error}",
                        fix="return two columns of equal length, row numbers and their scores, best first",
                    ) from error
                del answer  # freed here: otherwise they would be freed during the next query's time
                collector.add(rows, scores, searched - started, clock() - searched)
        return collector.result()

    def arrays(self, answer: Any) -> tuple[Int32Array, Float32Array]:
        """Return rows (int32) and scores (float32) of an answer; raises TypeError or ValueError for anything else.

        A score of -0.0, which a negated distance can be, becomes 0.0, as in the reference, bit for bit.
        """
        columns = self.columns(answer)
        rows, scores = np.asarray(columns[0]), np.asarray(columns[1], dtype=np.float32) + np.float32(0)
        if rows.ndim != 1 or rows.shape != scores.shape:
            raise ValueError(f"arrays of the shapes {rows.shape} and {scores.shape}")
        if rows.dtype.kind not in "iu" and len(rows):
            raise ValueError(f"row numbers of type {rows.dtype}")
        return rows.astype(np.int32, copy=False), scores

    def storage(self) -> Storage:
        """Return :meth:`size` of the open folder."""
        with self.translated(lambda: "measuring the index"):
            return self.size(self.folder)

    def close(self) -> None:
        """Release everything; calling it again does nothing."""
        self._keep(_folder=None, _loaded=None, finished=False, deleted=np.empty(0, dtype=np.int32))
        self.resources.close()

    def _load(self, folder: Path, indexed: int | None = None) -> LoadedIndex:
        """Load the index; ``indexed`` is the number of documents that it held when it was finished."""
        with self.translated(lambda: f"opening the index in '{folder}'", EngineUnavailableError, REBUILD):
            loaded = self.load(folder)
        if len(self.deleted):
            loaded = replace(loaded, missing=np.setdiff1d(loaded.missing, self.deleted))
        sent = len(self.ids) - len(self.deleted) - len(loaded.missing)
        for expected in (sent, sent if indexed is None else indexed):
            if loaded.documents != expected:
                location, fix = (f" in '{folder}'", REBUILD) if self.finished else ("", _UNNAMED)
                raise LostDocumentsError(
                    f"the {self.name} engine's index{location} holds {loaded.documents} of {expected} documents, "
                    "and the "
                    "engine does not say which are missing",
                    fix=fix,
                )
        return loaded

    @contextmanager
    def _closed_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise


class Filterable(Engine[Column]):
    """An engine that can return only the documents whose metadata match. Its index holds all documents.

    ``stores_metadata`` is false for an engine that keeps no values: the harness keeps them next to its index, for
    :func:`matching_documents`.
    """

    stores_metadata: ClassVar[bool] = True

    @abstractmethod
    def filter(self, conditions: Mapping[str, str]) -> None:
        """From now on return only documents whose fields have these values; without fields, all documents."""

    def restrict(self, conditions: Mapping[str, str]) -> None:
        """Filter all later searches; raises RejectedInputError for a field that was not indexed."""
        self.loaded  # noqa: B018 - raises when there is no index
        if not self.parameters.get("external"):  # an external index has its own fields
            require_fields(self.folder, conditions)  # the engine would silently find nothing
        with self.translated(lambda: "building the filter"):
            self.filter(conditions)


class Client(Protocol):
    """A server, a connection or a collection that translates its own errors."""

    @property
    def repeated(self) -> int:
        """Number of calls repeated so far after a transient error."""

    def translated(self, doing: Callable[[], str]) -> AbstractContextManager[None]:
        """Return a context that raises the client's errors as the harness's."""

    def close(self) -> None:
        """Release everything."""


C = TypeVar("C", bound=Client)


class ClientEngine(Engine[Column]):
    """An engine with a client that translates its own errors and counts repeated calls."""

    client: Client | None = None

    def use(self, client: C) -> C:
        """Use a client, which is closed with the engine."""
        self.resources.callback(client.close)
        self._keep(client=client)
        return client

    @contextmanager
    def translated(
        self,
        doing: Callable[[], str],
        kind: type[BackendError] = EngineFailureError,
        fix: str | None = None,
    ) -> Iterator[None]:
        """Raise the client's errors as the harness's."""
        with nullcontext() if self.client is None else self.client.translated(doing):
            yield

    @property
    def repeated_calls(self) -> int:
        """Number of calls that the client has repeated so far."""
        return 0 if self.client is None else self.client.repeated


@dataclass(frozen=True, eq=False, slots=True)
class External:
    """An index made outside the harness, open for reading.

    Attributes:
        info: The engine that reads it.
        ids: Ids of its documents, each once; rows of hits are positions in this list.
        loaded: The engine's account of it.
        folder: Argument of :meth:`Engine.size`: the user's folder, or a copy.
        changed: For servers: returns a change since the opening, after the last search; None if nothing changed.
        content: Vectors of the index, for an :class:`ExternalVectorIndex`.
        metadata: Metadata of the index, for an engine that declares ``filters_external``.
        values: Values of the field that was named for ids, by row, if several documents share some; ids are then the
            engine's keys.
    """

    info: EngineInfo
    ids: Ids
    loaded: LoadedIndex
    folder: Path
    changed: Callable[[], str | None] | None = None
    content: ExternalRows | None = None
    values: pa.StringArray | None = None
    metadata: ExternalMetadata | None = None


class ExternalIndex(Engine[Column]):
    """An engine that can search an index made outside the harness and never writes to it."""

    opened: External | None = None
    """The external index that is searched; None for the harness's own index."""

    @cached_property
    def source(self) -> Path | None:  # type: ignore[override]  # it may be assigned
        """Return the user's folder or file, which is hashed before and after; None for a server."""
        return source_folder(self.parameters) if self.parameters.get("path") else None

    @classmethod
    def stored_indexes(cls, folder: Path) -> list[StoredIndex]:
        """Return the indexes of this engine in a user's folder, which is only read; ``harness init`` offers them."""
        del folder
        return []

    @abstractmethod
    def open_external(self, folder: Path, progress: Progress) -> External:
        """Open the index that the parameters name; ``folder`` is the engine's own empty folder, for copies.

        Raises:
            EngineUnavailableError: It cannot be read.
            RejectedInputError: Documents have no ids or share an id, or the parameters contradict the index.
        """

    @abstractmethod
    def mismatch(self, content: ExpectedContent, progress: Progress) -> str | None:
        """Return why no reference can be made from ``content``; None if the index is proven to hold it.

        Raises:
            RejectedInputError: The answers to these queries would be meaningless.
        """

    def attach(self, folder: Path, progress: Progress) -> IndexHandle:
        """Open the index that the parameters name; ``search``, ``storage`` and ``close`` then work as usual."""
        if not self.parameters.get("external"):
            raise RejectedInputError("no external index is named", fix="pass external=true and its location")
        opening = self.translated(lambda: "opening the external index", EngineUnavailableError)
        with self._closed_on_failure(), opening:
            external = self.open_external(folder, progress)
        self._keep(_folder=external.folder, ids=external.ids, _loaded=external.loaded, opened=external)
        return IndexHandle(external.info, external.ids, external.loaded.state, external.changed, external.values)

    def stored_matches(self, filters: Sequence[Mapping[str, str]]) -> list[FilterMatch]:
        """Return the documents of the external index that match each filter, by the metadata that it returns."""
        if self.opened is None or self.opened.metadata is None:
            return super().stored_matches(filters)
        with self.translated(lambda: "reading the metadata of the external index"):
            return self.opened.metadata.matching(filters)


class ExternalVectorIndex(ExternalIndex[Column]):
    """An engine whose external indexes return their vectors: :attr:`External.content` compares and samples them."""

    def mismatch(self, content: ExpectedContent, progress: Progress) -> str | None:
        """Compare every stored vector; see :meth:`ExternalIndex.mismatch`."""
        return self._external_content().mismatch(content, progress)

    def stored_documents(self, count: int) -> StoredDocuments:
        """Return documents sampled across the external index, with their texts if it keeps them."""
        return self._external_content().stored_documents(count)

    def stored_texts(self, rows: Int32Array) -> list[str | None]:
        """Return the texts of documents of the external index, None for a document without a known text."""
        return self._external_content().texts(rows)

    def _external_content(self) -> ExternalRows:
        if self.opened is None or self.opened.content is None:
            raise AssertionError("no external index is open")
        return self.opened.content


class Ingestion:
    """The progress of ``build``: records the end of ingestion, and counts documents that ``build`` did not count."""

    def __init__(self, progress: Progress, documents: int, clock: Clock, phase: str = "index") -> None:
        self._progress, self._left, self._clock = progress, documents, clock
        self._ended: int | None = None
        progress.start(phase, documents)

    def start(self, phase: str, total: int | None) -> None:
        """End ingestion, and pass the phase on."""
        self.end()
        self._progress.start(phase, total)

    def advance(self, amount: int) -> None:
        """Count documents, and pass them on."""
        if self._ended is None:
            self._left -= amount
        self._progress.advance(amount)

    def end(self) -> int:
        """Return the time when ingestion ended: now, if no later phase has begun."""
        if self._ended is None:
            self._ended = self._clock()
            self._progress.advance(self._left)
        return self._ended


@dataclass(frozen=True, eq=False, slots=True)
class HitCollector:
    """Collect hits and times of a batch of queries, in order, as the columns of a search result."""

    _rows: list[Int32Array] = field(default_factory=list, init=False)
    _scores: list[Float32Array] = field(default_factory=list, init=False)
    _times: list[tuple[int, int]] = field(default_factory=list, init=False)

    def __len__(self) -> int:
        """Return how many queries were added."""
        return len(self._rows)

    def add(self, rows: Int32Array, scores: Float32Array, search_ns: int, transfer_ns: int) -> None:
        """Add the next query's hits with their search and transfer times; rows below 0 are padding."""
        self._rows.append(rows)
        self._scores.append(scores)
        self._times.append((search_ns, transfer_ns))

    def result(self, *, repeated_calls: int = 0, queries_per_call: int = 1) -> SearchResult:
        """Return everything that was added, without padding."""
        rows = np.concatenate([_NOTHING[0], *self._rows])
        scores = np.concatenate([_NOTHING[1], *self._scores])
        hits = rows >= 0
        ends = np.cumsum([0, *map(len, self._rows)])
        indptr = np.concatenate([[0], np.cumsum(hits)])[ends].astype(np.int64)
        search_ns, transfer_ns = np.array(self._times, dtype=np.int64).reshape(-1, 2).T.copy()
        return SearchResult(indptr, rows[hits], scores[hits], search_ns, transfer_ns, repeated_calls, queries_per_call)


@contextmanager
def as_backend_errors(damaged: str = _DAMAGED) -> Iterator[None]:
    """Raise errors of ``harness.exact`` and ``harness.store`` as errors of a backend.

    EngineUnavailableError for a damaged index, with ``damaged`` as the remedy; RejectedInputError for data or arguments
    that do not fit.
    """
    try:
        yield
    except (CacheError, DataError, UsageError) as error:
        raise backend_error(error, damaged) from error


def backend_error(error: CacheError | DataError | UsageError, damaged: str = _DAMAGED) -> BackendError:
    """Return an error of ``harness.exact`` or ``harness.store`` as an error of a backend: :func:`as_backend_errors`."""
    if isinstance(error, CacheError):
        return EngineUnavailableError(error.problem, fix=damaged)
    return RejectedInputError(error.problem, fix=error.fix)


_ADDRESSES = frozenset({"url", "jar"})
"""Parameters that name the address of an engine, which does not change an existing index."""
_UNNAMED = "look into the engine's log for documents that it refused; its 'load' gives rows that it knows as 'missing'"
_NOTHING = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.float32)


def _row_of(column: Any, row: int) -> Any:
    if isinstance(column, SparseVectors):
        return column.slice(row, row + 1)
    return column[row : row + 1] if isinstance(column, np.ndarray) else column[row].as_py()


def _check_scoring(source: str, scoring: str, parameters: Mapping[str, ParameterValue]) -> None:
    """Refuse a scoring that is neither a model nor a function: its reference could not be made after the run."""
    from harness.exact.bm25_models import formula_of  # brings numba, which most engines start without

    try:
        formula_of(scoring, parameters)
    except (UsageError, CardError) as error:
        raise CardError(f"{source}, 'reference.scoring': {error.problem}", fix=error.fix) from error
