"""Every dataset that ``ir_datasets`` knows, by its id: ``irds:beir/scifact/test``.

Texts are the library's default text of a document or query. If a document's default text is its title, a space and its
text, as in most collections, the two are separated, so that an empty title leaves no space behind; so the documents of
``irds:beir/scifact`` equal SciFact's own files. ``--columns`` takes other fields: ``text=abstract``,
``query=description``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from harness.data.columns import TextBatch
from harness.data.judgments import Judgments
from harness.data.problems import Problems
from harness.data.progress import Progress
from harness.errors import DataError, UnknownNameError, UsageError
from harness.loaders.base import (
    DatasetSpec,
    JudgmentSource,
    LoadedDataset,
    LocalFiles,
    PrefixLoader,
    TextSource,
    size_of,
)
from harness.loaders.irds_files import Part, files_of, reading, stored_paths, verify
from harness.registry.optional import require
from harness.store.cache import JSON

_PREFIX = "irds:"
_SCHEME = 1
_BATCH = 2048
_MAX_IDS = 8
_PARTS = ("docs", "queries", "qrels")
_WORDS = {"docs": "documents", "queries": "queries", "qrels": "judgments"}
_PARTIAL_JUDGMENTS = ("subtopic_id", "start")
"""Fields of judgments of a part of the query or document: the highest grade of several is taken."""


class IrdsLoader(PrefixLoader):
    """Reads a dataset by its id in ``ir_datasets``."""

    name = "irds"

    def load(self, spec: DatasetSpec, split: str | None, progress: Progress | None) -> LoadedDataset:
        """Find the parts. Files are downloaded when they are first read, and reported in ``progress``.

        Raises MissingExtraError without the library, UnknownNameError for an id that it does not know, UsageError for a
        split, which the id already gives, for a missing field and for an id without documents. Missing queries raise it
        when they are read, and so do the judgments of an id whose judgments are below it.
        """
        dataset = _dataset(spec)
        name = spec.location.removeprefix(_PREFIX)
        below = _ids_with("qrels", below=f"{name}/")
        if split is not None:
            judged_ids = ", ".join(_PREFIX + judged_id for judged_id in below)
            fix = f"splits are part of the id: {judged_ids}" if below else "leave it out"
            raise UsageError(f"{spec.location} has no split '{split}'", fix=fix)
        if not dataset.has_docs():
            raise _lacks(spec.location, "docs")
        judgments = _judgments(spec, dataset, progress)
        if not dataset.has_queries():
            queries = TextSource.failing(_lacks(spec.location, "queries"))
        elif judgments is None and spec.qrels is None and below:  # the id of such a part is meant
            queries = TextSource.failing(_lacks(spec.location, "qrels"))
        else:
            queries = _queries(spec, dataset, progress)
        return LoadedDataset(
            _documents(spec, dataset, progress),
            queries,
            judgments,
            provenance=_provenance(name, dataset),
            language=_language(dataset),
        )

    def local_files(self, spec: DatasetSpec) -> LocalFiles:
        """Return the local files of a dataset, in the folder of the library, without using the network."""
        handlers = _handlers(_dataset(spec))
        paths = tuple(sorted(stored_paths(handlers, _home())))
        is_local = [file.is_local for file in files_of(handlers)]
        # the extracted files suffice without the archive
        complete = True if is_local and all(is_local) else None if paths or not is_local else False
        return LocalFiles(paths, sum(map(size_of, paths)), complete)


def _library() -> Any:
    return require("ir_datasets", extra="irds", feature="loader irds")


def _dataset(spec: DatasetSpec) -> Any:
    library, name = _library(), spec.location.removeprefix(_PREFIX)
    try:
        return library.registry[name]
    except KeyError as error:
        raise UnknownNameError("dataset of ir_datasets", name, library.registry) from error


def _home() -> Path:
    _library()
    from ir_datasets.util import home_path

    return Path(home_path())


def _handlers(dataset: Any) -> list[Any]:
    return [_handler(dataset, part) for part in _PARTS if dataset.has(part)]


def _handler(dataset: Any, part: str) -> Any:
    """Return the object that brings a part; the library's own accessor may already write files."""
    for constituent in dataset._constituents:
        if hasattr(constituent, f"{part}_handler"):
            return _handler(constituent, part) if type(constituent) is type(dataset) else constituent
    return dataset


def _part_of(spec: DatasetSpec, dataset: Any, part: str) -> Part:
    return Part(spec.location, _WORDS[part], _handler(dataset, part), tuple(_handlers(dataset)))


def _all_datasets() -> Mapping[str, Any]:
    registered: Mapping[str, Any] = _library().registry._registered
    return registered


def _ids_with(part: str, below: str = "") -> list[str]:
    return [name for name, dataset in _all_datasets().items() if name.startswith(below) and dataset.has(part)]


def _lacks(location: str, part: str) -> UsageError:
    """Return the error for a missing part, with ids that have it: below this id, else its siblings."""
    name, having = location.removeprefix(_PREFIX), _ids_with(part)
    near: list[str] = []
    while name and not near:
        near = [dataset_id for dataset_id in having if dataset_id.startswith(f"{name}/") or dataset_id == name]
        name = name.rpartition("/")[0]
    nearest_ids = ", ".join(_PREFIX + dataset_id for dataset_id in near[:_MAX_IDS]) + (
        ", …" if len(near) > _MAX_IDS else ""
    )
    file_advice = {
        "docs": "",
        "queries": "; or name a file: --queries FILE",
        "qrels": "; or name a file: --qrels FILE",
    }[part]
    return UsageError(
        f"{location} has no {_WORDS[part]}", fix=f"of these ids there are: {nearest_ids or 'none'}{file_advice}"
    )


def _documents(spec: DatasetSpec, dataset: Any, progress: Progress | None) -> TextSource:
    part = _part_of(spec, dataset, "docs")
    cls = dataset.docs_cls()
    title, text = _document_fields(spec, cls)

    def read(problems: Problems, notes: list[str]) -> Iterator[TextBatch]:
        verify(part)
        with reading(part, progress) as visible_progress:
            documents = iter(dataset.docs_iter())
            start = 1
            while batch := list(islice(documents, _BATCH)):
                if start == 1:  # the library's own phases, downloads for example, come before
                    visible_progress.start(f"reading {spec.location}", None)
                yield TextBatch(
                    [document.doc_id for document in batch],
                    [_text(document, text) for document in batch],
                    None if title is None else [_text(document, title) for document in batch],
                    range(start, start + len(batch)),
                    [document._asdict() for document in batch],
                    frozenset({"doc_id", *(cls._fields if text is None else ()), *filter(None, (title, text))}),
                )
                start += len(batch)

    key = _key(part._replace(spec=_first_id(part)), {"title": title, "text": text})
    return TextSource(f"{spec.location} documents", read, spec.location, key, unit="document")


def _queries(spec: DatasetSpec, dataset: Any, progress: Progress | None) -> TextSource:
    part = _part_of(spec, dataset, "queries")
    text = _query_field(spec, dataset.queries_cls())

    def read(problems: Problems, notes: list[str]) -> Iterator[TextBatch]:
        verify(part)
        with reading(part, progress):
            queries = list(dataset.queries_iter())
        yield TextBatch([query.query_id for query in queries], [_text(query, text) for query in queries])

    name = f"{spec.location} queries"
    return TextSource(name, read, name, _key(part, {"text": text}), unit="query")


def _judgments(spec: DatasetSpec, dataset: Any, progress: Progress | None) -> JudgmentSource | None:
    """Return the judgments; None if the id has none."""
    if not dataset.has_qrels():
        return None
    part = _part_of(spec, dataset, "qrels")
    partial = next((name for name in _PARTIAL_JUDGMENTS if name in dataset.qrels_cls()._fields), None)

    def read(problems: Problems, notes: list[str]) -> Judgments:
        verify(part)
        with reading(part, progress):
            judged = list(dataset.qrels_iter())
        if partial is not None:
            highest: dict[tuple[str, str], Any] = {}
            for judgment in judged:
                pair = (judgment.query_id, judgment.doc_id)
                if pair not in highest or judgment.relevance > highest[pair].relevance:
                    highest[pair] = judgment
            if len(highest) < len(judged):
                notes.append(f"{len(judged):,} judgments, several of a pair by {partial}: the highest of each counts")
            judged = list(highest.values())
        return Judgments(
            list(range(1, len(judged) + 1)),
            [judgment.query_id for judgment in judged],
            [judgment.doc_id for judgment in judged],
            [int(judgment.relevance) for judgment in judged],
        )

    name = f"{spec.location} judgments"
    return JudgmentSource(name, read, name, unit="judgment")


def _text(record: Any, field: str | None) -> str | None:
    """Return a field, or the default text for None; bytes, as of web pages, as UTF-8 with replacements."""
    value = record.default_text() if field is None else getattr(record, field)
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    return None if value is None else str(value)


def _document_fields(spec: DatasetSpec, cls: Any) -> tuple[str | None, str | None]:
    """Return the fields of title and text; None for the text is the default text, with the title in it."""
    fields = _chosen_fields(spec, cls, ("title", "text"))
    if fields:
        return fields.get("title"), fields.get("text", "text" if "text" in cls._fields else None)
    if not hasattr(cls, "default_text"):
        if "text" in cls._fields:
            return None, "text"
        raise _wordless(spec, "documents", "text", cls)
    if {"title", "text"} <= {*cls._fields} and _default_of(cls) == "title text":
        return "title", "text"
    return None, None


def _query_field(spec: DatasetSpec, cls: Any) -> str | None:
    fields = _chosen_fields(spec, cls, ("query",))
    if fields:
        return fields["query"]
    if hasattr(cls, "default_text"):
        return None
    if "text" in cls._fields:
        return "text"
    raise _wordless(spec, "queries", "query", cls)


def _default_of(cls: Any) -> str:
    """Return the default text of a record whose fields hold their names; "" if such a record has none."""
    try:
        return str(cls(*cls._fields).default_text())
    except AttributeError:  # a field is a list of objects
        return ""


def _chosen_fields(spec: DatasetSpec, cls: Any, roles: tuple[str, ...]) -> Mapping[str, str]:
    columns = {role: spec.columns[role] for role in roles if role in spec.columns}
    for field in columns.values():
        if field not in cls._fields:
            raise UnknownNameError(f"field of {spec.location} in --columns", field, cls._fields)
    return columns


def _wordless(spec: DatasetSpec, kind: str, role: str, cls: Any) -> DataError:
    fields = [name for name in cls._fields if name not in ("doc_id", "query_id")]
    return DataError(
        spec.location,
        [f"ir_datasets does not say which field of its {kind} is the text"],
        fix=f"name one, as --columns {role}={fields[0]}; there are: {', '.join(fields)}",
    )


def _first_id(documents: Part) -> str:
    """Return the first of the ids whose documents one object reads, so that all of them share prepared entries.

    Comparing files would not do: an archive may hold several corpora.
    """
    other_ids = (name for name, one in _all_datasets().items() if _handler(one, "docs") is documents.handler)
    return min((documents.spec, *(_PREFIX + name for name in other_ids)), key=lambda spec: (spec.count("/"), spec))


def _key(part: Part, fields: Mapping[str, str | None]) -> Mapping[str, JSON] | None:
    """Return the key of the content: the checked MD5 of each file; None if a file has no MD5."""
    files = files_of([part.handler])
    if not files or any(file.md5 is None for file in files):
        return None
    return {
        "irds": part.spec,
        "part": part.name,
        "md5": [file.md5 for file in files],
        "library": str(_library().__version__),
        "fields": {**fields},
        "reader": _SCHEME,
    }


def _language(dataset: Any) -> str | None:
    """Return the language of the documents, None if the queries are in another."""
    documents = dataset.docs_lang()
    queries = dataset.queries_lang() if dataset.has_queries() else None
    return documents if queries in (None, documents) else None


def _provenance(name: str, dataset: Any) -> dict[str, str]:
    about: Mapping[str, Any] = dataset.documentation() if hasattr(dataset, "documentation") else {}
    urls = [file.urls[0] for file in files_of(_handlers(dataset)) if file.urls]
    facts = {
        "ir_datasets_id": name,
        "ir_datasets": str(_library().__version__),
        "source": ", ".join(urls[:_MAX_IDS]),
        "citation": ", ".join(about.get("bibtex_ids", ())),
        "terms": str(about.get("data_access", "")).strip(),
        "language": _language(dataset) or "",
    }
    return {key: text for key, text in facts.items() if text}
