"""The protocol of dataset loaders: a :class:`Loader` turns the dataset that a user names into parts to read later.

A third-party package offers loaders through the entry-point group ``harness.loaders``: each entry names a class
without constructor arguments, or an object, that has ``name``, ``matches`` and ``load``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal, NoReturn, Protocol, TypeAlias, runtime_checkable

from harness.data.columns import TextBatch
from harness.data.dataset import DatasetVectors
from harness.data.filtering import Conditions
from harness.data.judgments import Judgments
from harness.data.problems import Problems
from harness.data.progress import Progress
from harness.data.types import Ids
from harness.errors import DataError, HarnessError
from harness.store.cache import JSON
from harness.user_path import user_path

__all__ = [
    "HIDDEN",
    "OFFLINE",
    "TEXT_ENDINGS",
    "DatasetSpec",
    "Downloader",
    "JudgmentSource",
    "LoadedDataset",
    "Loader",
    "LocalFiles",
    "Location",
    "SubsetLoader",
    "TextSource",
    "is_offline",
    "size_of",
]

OFFLINE = "HARNESS_OFFLINE"
"""The variable of the environment that forbids downloads of datasets."""

TEXT_ENDINGS = (".txt", ".md", ".markdown", ".rst")
"""The endings of a folder's files that are documents."""
HIDDEN = "hidden"
"""The name, in counts of unread files, of files that begin with a dot or lie in a folder that does."""

Read: TypeAlias = Callable[[Problems, list[str]], Iterator[TextBatch]]
"""Yields batches; notes faulty records, which it leaves out, in the first argument, accepted oddities in the second."""


def is_offline() -> bool:
    """Return whether ``HARNESS_OFFLINE`` forbids downloads: set to anything but nothing, ``0`` or ``false``."""
    return os.environ.get(OFFLINE, "").lower() not in ("", "0", "false")


@dataclass(frozen=True, slots=True)
class DatasetSpec:
    """Dataset that the user named.

    ``location`` is a path, or a spec of a loader's own (``toy:animals``). ``queries`` and ``qrels`` are files that take
    the place of the loader's own. ``columns`` maps roles (``id``, ``title``, ``text``, ``query_id``, ``query``,
    ``doc_id``, ``grade``, and the roles of golden sets) to the fields of tables that hold them. ``shared_roles`` are
    roles of ``columns`` that the documents may lack, because the questions have them.
    """

    location: str
    queries: Path | None = None
    qrels: Path | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    shared_roles: frozenset[str] = frozenset()

    @property
    def path(self) -> Path:
        """Return the location as a path; it need not exist."""
        return user_path(self.location)


def _fail(error: HarnessError, problems: Problems, notes: list[str]) -> NoReturn:
    raise error


@dataclass(frozen=True)
class TextSource:
    """Documents or queries that can be read, as often as needed.

    Attributes:
        label: the origin of the texts, for messages.
        read: yields the texts in batches. It may also raise DataError.
        name: the same as ``label`` in short, for progress and notes.
        key: identifies content and way of reading, so that prepared texts are found again; None prepares them each
            time.
        digests: SHA-256 of each file, by name, for the report and the card.
        state: a value that changes when the files do.
        unit: the unit of ``TextBatch.lines``: "line", "row", "document".
        excluded: of queries, returns what each query excludes of documents with these ids; None without such a field.
        filters: of a golden set's questions, returns the filter of each question that has one; None for other texts.
        forbidden: of a golden set, returns what no backend may return for a query; None for others.
    """

    label: str
    read: Read
    name: str = ""
    key: Mapping[str, JSON] | None = None
    digests: Mapping[str, str] = field(default_factory=dict)
    state: Callable[[], object] = lambda: None
    unit: str = "line"
    excluded: Callable[[Ids], Mapping[str, Sequence[str]]] | None = None
    filters: Callable[[], Mapping[str, Conditions]] | None = None
    forbidden: Callable[[Ids], Mapping[str, Sequence[str]]] | None = None

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Raise DataError if the files change inside the block, which reads them."""
        before = self.state()
        yield
        if self.state() != before:
            raise DataError(self.label, ["changed while it was being read"], fix="try again")

    @classmethod
    def failing(cls, error: HarnessError, label: str = "queries") -> TextSource:
        """Return a source that raises ``error`` when it is read, while the other parts can be read."""
        return cls(label, partial(_fail, error))

    @classmethod
    def of_batches(cls, label: str, batches: Callable[[], Iterable[TextBatch]]) -> TextSource:
        """Return a source from a function that yields all batches each time it is called."""
        return cls(label, lambda problems, notes: iter(batches()), label, unit="record")


@dataclass(frozen=True)
class JudgmentSource:
    """Readable judgments of one split; attributes as in :class:`TextSource`.

    ``read_for`` reads judgments whose ids can be read in several ways, given the ids of the documents.
    """

    label: str
    read: Callable[[Problems, list[str]], Judgments]
    name: str = ""
    digests: Mapping[str, str] = field(default_factory=dict)
    unit: str = "line"
    read_for: Callable[[Ids, Problems, list[str]], Judgments] | None = None

    @classmethod
    def failing(cls, error: HarnessError) -> JudgmentSource:
        """Return a source that raises ``error`` when it is read, while the other parts can be read."""
        return cls("judgments", partial(_fail, error))

    @classmethod
    def of_dict(cls, label: str, qrels: Mapping[str, Mapping[str, int]]) -> JudgmentSource:
        """Return a source from ``{query id: {document id: grade}}``."""
        pairs = [(query, doc, grade) for query, grades in qrels.items() for doc, grade in grades.items()]
        columns = [list(column) for column in zip(*pairs, strict=True)] or [[], [], []]
        judgments = Judgments(list(range(1, len(pairs) + 1)), *columns)
        return cls(label, lambda problems, notes: judgments, label, unit="record")


@dataclass(frozen=True)
class LoadedDataset:
    """The parts of a dataset, not read yet.

    ``queries`` and ``judgments`` are None if absent; files that the user names replace them. ``split`` is the chosen
    split, "" without splits; ``splits`` lists all; ``queries_of_other_splits`` are judged only by other splits, and
    left out. ``identical_ids`` says whether a hit that has its query's id is dropped before scoring; None if the loader
    does not know. ``language`` is a code such as ``en``, ``ko`` or ``zh``, None if it is unknown or there are several.
    ``candidates``, set for reranking tasks, returns the documents that each query is ranked among, by query id, or
    None. ``unread_files`` counts the unread files of the documents' folder by ending, and files whose name or folder
    begins with a dot as ``hidden``. ``vectors`` as in :class:`harness.data.dataset.Dataset`.
    """

    documents: TextSource
    queries: TextSource | None = None
    judgments: JudgmentSource | None = None
    split: str = ""
    splits: tuple[str, ...] = ()
    queries_of_other_splits: frozenset[str] = frozenset()
    identical_ids: Literal["keep", "drop"] | None = None
    provenance: Mapping[str, str] = field(default_factory=dict)
    language: str | None = None
    candidates: Callable[[], Mapping[str, Sequence[str]]] | None = None
    unread_files: Mapping[str, int] = field(default_factory=dict)
    vectors: DatasetVectors | None = None


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """Parts of a downloaded dataset that this machine has.

    ``paths`` are files and folders of the library that downloads, ``size`` is in bytes. ``complete`` says whether
    loading no longer needs the network; None if only loading would show it.
    """

    paths: tuple[Path, ...]
    size: int
    complete: bool | None


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files of a folder."""
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return path.stat().st_size


@runtime_checkable
class Downloader(Protocol):
    """A loader whose datasets are downloaded by a library, into the library's own folder."""

    def local_files(self, spec: DatasetSpec) -> LocalFiles | None:
        """Return the local files of a dataset, without using the network; None for the user's own files."""


@runtime_checkable
class SubsetLoader(Protocol):
    """A loader whose specs may name several datasets together."""

    def subsets(self, spec: DatasetSpec) -> Sequence[str]:
        """Return the specs of the datasets; empty if the spec names one dataset."""


Location: TypeAlias = Literal["name", "folder", "archive", "table", "file"]
"""Kind of a location: no path, a folder, a zip archive, a file with the ending of a table, or another file."""


class Loader(Protocol):
    """One way of storing datasets.

    A loader of this package that reads only some kinds of locations lists them as ``locations``, and is asked about no
    others.
    """

    name: str
    """A word unique to this loader; cards name it as their ``format``."""

    def matches(self, spec: DatasetSpec) -> bool:
        """Return whether this loader reads the dataset of ``spec``. Looks only at names and first bytes."""

    def load(self, spec: DatasetSpec, split: str | None, progress: Progress | None) -> LoadedDataset:
        """Find the parts of a dataset, downloading missing ones.

        Raises DataError for a missing part, UsageError for a split that is not there.
        """


class PrefixLoader:
    """A loader whose specs begin with its name and a colon, such as ``irds:``."""

    name: str
    locations: frozenset[Location] = frozenset({"name"})

    def matches(self, spec: DatasetSpec) -> bool:
        """Return whether the location begins with the loader's name and a colon."""
        return spec.location.startswith(f"{self.name}:")
