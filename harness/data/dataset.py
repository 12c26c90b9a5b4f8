"""A dataset: documents, queries and judgments, their origin, samples of it, and datasets of Python objects."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import orjson
import pyarrow as pa

from harness.data.arrow import numbers, strings, take_rows
from harness.data.columns import (
    DOCUMENT_ROLES,
    GOLDEN_ONLY,
    PYTHON_OPTION,
    QUERY_ROLES,
    ColumnMap,
    RecordBatch,
    Role,
    TextBatch,
    parse_columns,
    text_batches,
)
from harness.data.exclusions import excluded_by
from harness.data.field_paths import field_holding, field_names, field_of, field_paths, qualified, text_of
from harness.data.filtering import Conditions, QueryFilters, format_filter
from harness.data.frames import as_table, rows_of, with_article
from harness.data.golden_fields import GoldenColumns
from harness.data.golden_records import UnreadExpectations, content_of_objects, filters_of_queries, read_questions
from harness.data.golden_set import GoldenQuestion, excluded_documents, forbidden_documents
from harness.data.golden_shapes import GoldenContent, read_shapes
from harness.data.golden_shapes.base import records_of
from harness.data.judgments import refuse_unknown, require_whole_grades
from harness.data.memory import QRELS, read_shape
from harness.data.problems import Finding, Problems
from harness.data.python_values import as_record, is_missing, plain
from harness.data.texts import (
    TEXT_SCHEMA,
    ColumnDigest,
    JoinRule,
    TitleCounts,
    content_digest,
    joined,
    joined_digest,
    note_duplicates,
)
from harness.data.types import Corpus, Ids, Qrels, Queries, Similarity
from harness.errors import DataError, UnknownNameError, UsageError
from harness.wording import counted

_log = logging.getLogger("harness")

_SHAPES = """one of
  {id: text} or {id: {"title": …, "text": …}}
  [{"id": …, "text": …}, …], with "title" if there are titles
  [(id, text), …] or [(id, title, text), …]
  a pandas or Polars frame, an Arrow table or a Hugging Face Dataset with such columns
For other field names: columns={"id": "key", "text": "body"}"""
_SHARED_ROLES = frozenset({"id"})
"""Roles of ``columns`` that queries and documents have."""


class TextColumns(NamedTuple):
    """Ids and texts as columns, and the digest that names them."""

    ids: Ids
    texts: pa.ChunkedArray
    digest: str


def texts_of(
    value: object,
    subject: str,
    roles: Sequence[Role],
    columns_by_role: Mapping[str, str],
    shared_roles: Set[str] = frozenset(),
) -> TextColumns:
    """Return documents or queries that are an object in Python.

    Args:
        value: the object; the error's message lists its allowed types.
        subject: its name in messages.
        roles: the roles of its fields: an id, a text, and perhaps a title.
        columns_by_role: role -> field for names that differ from the defaults; ignored for a value with its own
            position, such as the key of a mapping or an element of a tuple.
        shared_roles: roles whose field need not exist, because the queries may have it.

    Raises:
        UsageError: the object has none of the shapes.
        DataError: a field is missing, an id is neither text nor a whole number, or occurs twice; or there are no
            records.
    """
    if _has_only_texts(value):
        texts = cast("Mapping[str, str]", value)
        return text_columns([TextBatch(list(texts), list(texts.values()))], Problems(subject, "record"))
    return _texts_of_records(*_records(value, subject, roles), subject, roles, columns_by_role, shared_roles)


def _has_only_texts(value: object) -> bool:
    """Return whether an object is ``{id: text}``, whose fields need no names."""
    return isinstance(value, Mapping) and {*map(type, value), *map(type, value.values())} == {str}


def _texts_of_records(
    records: list[dict[str, Any]],
    fixed: set[str],
    subject: str,
    roles: Sequence[Role],
    columns_by_role: Mapping[str, str],
    shared_roles: Set[str] = frozenset(),
) -> TextColumns:
    """Return the texts of records, ``fixed`` being the roles that need no name."""
    problems = Problems(subject, "record")
    columns_by_role = {role: field for role, field in columns_by_role.items() if role not in fixed}
    batch = RecordBatch(list(range(1, len(records) + 1)), records)
    column_map = ColumnMap(roles, columns_by_role, "columns", shared_roles)
    return text_columns(text_batches([batch], column_map, problems), problems)


class _Questions(NamedTuple):
    """Questions of a golden set, documents that come with it, None without them, and accepted oddities."""

    questions: tuple[GoldenQuestion, ...]
    documents: Sequence[Mapping[str, Any]] | None
    notes: Sequence[str]

    def texts(self) -> TextColumns:
        """Return the ids and texts of the questions."""
        batch = TextBatch([question.id for question in self.questions], [one.question for one in self.questions])
        return text_columns([batch], Problems("queries", "record"))

    def grades(self) -> dict[str, dict[str, int]]:
        """Return the grades of the expected documents, of the questions that expect any."""
        return {one.id: {each.id: each.grade for each in one.expected} for one in self.questions if one.expected}

    def groups(self) -> dict[str, dict[str, int | None]]:
        """Return the groups of alternatives of the expected documents."""
        return {one.id: {each.id: each.group for each in one.expected} for one in self.questions}


class _PlainQueries(NamedTuple):
    """Queries that expect nothing, and by query the documents that it excludes, and its filter; accepted oddities."""

    texts: TextColumns
    excluded: Mapping[str, Sequence[str]]
    filters: Mapping[str, Conditions]
    notes: Sequence[str] = ()


def _plain_queries(queries: object, columns: Mapping[str, str]) -> _PlainQueries:
    """Return queries that expect nothing, with the fields of their records."""
    if _has_only_texts(queries):
        return _PlainQueries(texts_of(queries, "queries", QUERY_ROLES, columns), {}, {})
    records, fixed = _records(queries, "queries", QUERY_ROLES)
    questions = _texts_of_records(records, fixed, "queries", QUERY_ROLES, columns)
    problems, notes = Problems("queries", "record"), list[str]()
    of_filter = {role: field for role, field in columns.items() if role == "filter"}
    plain_records = records_of([{str(name): plain(value) for name, value in record.items()} for record in records])
    pairs = zip(questions.ids, plain_records, strict=True)
    filters = filters_of_queries(pairs, GoldenColumns(of_filter, PYTHON_OPTION), problems, notes)
    problems.raise_if_any()
    unread = UnreadExpectations()
    unread.add([record.values for record in plain_records])
    notes += unread.notes()
    return _PlainQueries(questions, _exclusions(questions.ids, records), filters, notes)


def _golden_queries(queries: object, columns: Mapping[str, str]) -> _Questions | None:
    """Return the questions of queries that expect documents; None for plain queries.

    Ids and questions are in the fields that plain queries have, or else in the usual fields of golden sets.
    """
    if _has_only_texts(queries):
        return None
    faulty: tuple[GoldenContent, GoldenColumns] | None = None
    for content in _contents(queries, columns):
        first = content.records[0].values if content.records else {}
        fields = ColumnMap(QUERY_ROLES, columns, "columns").resolve(tuple(first)) if first else ""
        of_queries = {} if isinstance(fields, str) or content.documents is not None else fields
        golden_columns = GoldenColumns({**content.columns, **of_queries}, "columns", _SHARED_ROLES)
        if golden_columns.covers(first):
            return _read_golden(content, golden_columns)
        if first and faulty is None and golden_columns.has_expected(first):
            faulty = content, golden_columns
    return _read_golden(*faulty) if faulty is not None else None


def _contents(queries: object, columns: Mapping[str, str]) -> Iterator[GoldenContent]:
    """Yield queries as records of plain queries have it, then in the shapes of golden sets.

    Raises UsageError for a golden set of two readings that cannot be plain queries.
    """
    content = _content_of_records(queries, columns)
    if content is not None:
        yield content
    try:
        yield content_of_objects(queries, columns)
    except UsageError as error:
        is_unclear = isinstance(error.__cause__, ValueError) and content is None
        if is_unclear or not GOLDEN_ONLY.isdisjoint(columns):
            raise


def _content_of_records(queries: object, columns: Mapping[str, str]) -> GoldenContent | None:
    """Return the content of an object that plain queries may be; None for another shape."""
    try:
        records, fixed = _records(queries, "queries", QUERY_ROLES)
        query_columns = {role: field for role, field in columns.items() if role not in fixed}
        plain_records = [{str(name): value for name, value in plain(record).items()} for record in records]
        return read_shapes(GoldenContent(records_of(plain_records), columns=query_columns, option=PYTHON_OPTION))
    except (UsageError, ValueError):
        return None


def _read_golden(content: GoldenContent, columns: GoldenColumns) -> _Questions:
    problems, notes = Problems("queries", "record"), list[str]()
    questions = read_questions(content, columns, problems, notes)
    problems.raise_if_any()
    return _Questions(questions, content.documents, notes)


def _exclusions(ids: Ids, records: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Return the documents that the queries of records exclude."""
    problems, excluded = Problems("queries", "record"), dict[str, tuple[str, ...]]()
    for number, (query, record) in enumerate(zip(ids, records, strict=True), 1):
        try:
            excluded[query] = excluded_by(record).ids
        except ValueError as error:
            problems.add(number, str(error))
    problems.raise_if_any()
    return {query: documents for query, documents in excluded.items() if documents}


def text_columns(batches: Iterable[TextBatch], problems: Problems) -> TextColumns:
    """Return ids and texts of batches, title and text joined by a space; their ``lines`` count from 1.

    Raises DataError for missing or repeated ids, for problems noted already, and if there are no texts.
    """
    parts, lines = [], list[int]()
    for texts in batches:
        numbers = texts.lines or range(len(lines) + 1, len(lines) + 1 + len(texts.ids))
        if len(texts.ids):
            parts.append(joined(texts, np.array(numbers, dtype=np.int64), JoinRule(), problems))
            lines += numbers[: parts[-1].num_rows]
    table = pa.Table.from_batches(parts, schema=TEXT_SCHEMA)
    ids = table.column("id").combine_chunks() if parts else strings([])
    if len(ids):
        note_duplicates(ids, np.array(lines, dtype=np.int64), problems)
    elif not problems.count:
        problems.add(None, "there are none")
    problems.raise_if_any()
    columns = Ids(ids), table.column("text")
    return TextColumns(*columns, content_digest(*columns))


def _records(value: object, subject: str, roles: Sequence[Role]) -> tuple[list[dict[str, Any]], set[str]]:
    """Return the records, and the roles that their places settle, so that no field has to be named."""
    id_field, text_field = roles[0].sure, roles[1].sure
    role_names = {role.name for role in roles}
    if isinstance(value, Mapping):
        if all(isinstance(item, str) or is_missing(item) for item in value.values()):
            return [{id_field: key, text_field: item} for key, item in value.items()], role_names
        if all(isinstance(item, Mapping) for item in value.values()):
            return [{**item, id_field: key} for key, item in value.items()], {roles[0].name}
        raise _unfit(value, subject)
    table = as_table(value)
    if table is not None:
        return rows_of(table, subject, nested=subject != "documents"), set()
    items = list(value) if isinstance(value, Sequence | Iterator) and not isinstance(value, str | bytes) else None
    items = None if items is None else list(map(as_record, items))
    if items is not None and all(isinstance(item, Mapping) for item in items):
        return [{str(name): item[name] for name in item} for item in items], set()
    fields = {2: (id_field, text_field), 3: (id_field, "title", text_field)}
    if items is not None and all(isinstance(item, tuple | list) for item in items):
        lengths = {len(item) for item in items}
        if len(lengths) == 1 and lengths <= (fields.keys() if len(roles) > 2 else {2}):
            names = fields[lengths.pop()]
            return [dict(zip(names, item, strict=True)) for item in items], role_names
    raise _unfit(value, subject)


def _unfit(value: object, subject: str) -> UsageError:
    items: list[object] = []
    if isinstance(value, Mapping | list | tuple):
        items = list(value.values() if isinstance(value, Mapping) else value)
    kinds = " and ".join(dict.fromkeys(type(item).__name__ for item in items))
    of = f" of {kinds}" if items else ""
    return UsageError(f"the {subject} cannot be read from {with_article(type(value))}{of}", fix=f"give {_SHAPES}")


IdenticalIds = Literal["keep", "drop"]
"""Whether a hit that has its query's id counts, or is left out before scoring."""


@dataclass(frozen=True, slots=True)
class DatasetFiles:
    """Description of a dataset in addition to its name: files of its parts, and names of their fields by role.

    ``shared_roles`` are roles of ``columns`` that the documents may lack, because the questions have them.
    """

    queries: Path | None = None
    qrels: Path | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    shared_roles: frozenset[str] = frozenset()


class DatasetVectors(NamedTuple):
    """Vectors that a dataset has in place of texts.

    ``model`` is the ``model=`` of a backend that reads them. ``similarity`` orders documents as ``distance`` does, the
    dataset's own name of it, by which the judgments were made.
    """

    model: str
    similarity: Similarity
    distance: str


@dataclass(frozen=True, eq=False)
class Dataset:
    """The complete input of a comparison: documents, queries, judgments, and their origin.

    ``qrels`` is None for a collection without judgments: engines can still be compared with their references.
    ``provenance`` is flat text for the report (source, licence, split, join rule, language). ``filtered`` are the
    documents that the search of each query may return, None for all of them. ``identical_ids`` is None if the
    collection's rule is unknown. ``language`` is a code such as ``en``, ``ko`` or ``zh``, None if it is unknown:
    unnamed analyzers follow it, unless its card names an ``analyzer``. ``titles`` counts the titles of the documents'
    records; None if they are unknown. ``candidates`` are the documents that each query's hits are taken from, by query
    id, as reranking tasks have them; None for all documents. ``attributes`` are fields of the documents' metadata that
    supply the values for a sweep of filters, a string column each with a row a document; None without. ``unread_files``
    counts the unread files of the corpus's folder by ending; ``hidden`` are files whose name or folder begins with a
    dot. ``excluded`` are documents that count for nothing as hits of a query, by query id; None if no query excludes
    any. ``filters`` are the filters of the queries that have one, by query id, which ``filtered`` applies.
    ``forbidden`` are documents that no backend may return for a query, by query id; checks count such hits; None if no
    query forbids any. ``expected_texts`` and ``slices`` are the expected texts of a golden set and its fields by which
    results are sliced, both by query id. ``states_unknown_documents``: its card states how many judgments name unknown
    documents. ``documents`` is the object that the corpus was read from in Python, None for another source: it has the
    documents' further fields. ``vectors`` are the vectors of a dataset without texts, whose texts are then its ids;
    None for a dataset with texts. ``findings`` are warnings about how it was read.
    """

    name: str
    corpus: Corpus
    queries: Queries
    qrels: Qrels | None
    provenance: dict[str, str] = field(default_factory=dict)
    filtered: QueryFilters | None = None
    identical_ids: IdenticalIds | None = None
    language: str | None = None
    analyzer: str | None = None
    titles: TitleCounts | None = None
    candidates: Mapping[str, Sequence[str]] | None = None
    excluded: Mapping[str, Sequence[str]] | None = None
    filters: Mapping[str, Conditions] = field(default_factory=dict)
    forbidden: Mapping[str, Sequence[str]] | None = None
    expected_texts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    slices: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    attributes: pa.Table | None = None
    unread_files: Mapping[str, int] = field(default_factory=dict)
    states_unknown_documents: bool = False
    documents: object = field(default=None, repr=False)
    vectors: DatasetVectors | None = None
    document_columns: Mapping[str, str] = field(default_factory=dict)
    field_texts: pa.Table | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def competing(self) -> float:
        """Documents that compete for a query's ranking, on average: all, the filter's, or the query's candidates."""
        if self.candidates is not None:
            counts = [len(set(self.candidates.get(query, ()))) for query in self.queries.ids]
            return sum(counts) / max(len(counts), 1)
        if self.filtered is None:
            return len(self.corpus)
        return len(self.filtered.shared) if self.filtered.shared is not None else float(self.filtered.counts.mean())

    def require_ids(self) -> Dataset:
        """Return the dataset; raises DataError for a query that only expects texts, which only a check matches."""
        judged = set(self.qrels.query_ids) if self.qrels is not None and self.expected_texts else set[str]()
        by_text = [query for query in self.expected_texts if query not in judged]
        if not by_text:
            return self
        count = f"{len(by_text):,} of {counted(len(self.queries), 'query', 'queries')}"
        problem = f"query '{by_text[0]}': expected texts without ids, and so for {count}"
        fix = "name the ids of the documents: columns={'expected': FIELD}; harness.check matches texts"
        raise DataError(self.name, [problem], fix=fix)

    @cached_property
    def field_digests(self) -> dict[str, str]:
        """The SHA-256 of each column of ``field_texts``, however it is cut into chunks."""
        digests = dict[str, str]()
        for name, column in zip(self.searched_fields.column_names, self.searched_fields.columns, strict=True):
            digest = ColumnDigest()
            for chunk in column.chunks:
                digest.update(chunk)
            digests[name] = joined_digest(digest)
        return digests

    @property
    def searched_fields(self) -> pa.Table:
        """The fields that backends search separately; a table without columns if there are none."""
        return self.field_texts if self.field_texts is not None else pa.table({})

    @cached_property
    def candidates_digest(self) -> str | None:
        """The SHA-256 of each query's candidates, in any order; None if all documents compete."""
        if self.candidates is None:
            return None
        sorted_candidates = [[query, *sorted(set(self.candidates[query]))] for query in self.queries.ids]
        return hashlib.sha256(orjson.dumps(sorted_candidates)).hexdigest()

    @classmethod
    def of(
        cls,
        corpus: object,
        queries: object = None,
        qrels: object = None,
        *,
        name: str = "dataset",
        columns: Mapping[str, str] | str | None = None,
        identical_ids: IdenticalIds | None = None,
        language: str | None = None,
    ) -> Dataset:
        """Return a dataset of objects in Python.

        Args:
            corpus: documents as ``{id: text}``, ``{id: {"title": …, "text": …}}``, a list of dictionaries or of
                ``(id, text)``, a pandas or Polars frame, an Arrow table or a Hugging Face ``Dataset``. Whole numbers
                as ids become text. Title and text are joined by a space.
            queries: the same, without titles; or a golden set in any shape of a file, whose expected documents are
                the judgments unless there are ``qrels``. None if ``corpus`` is a golden set with its documents, as
                LlamaIndex's ``EmbeddingQAFinetuneDataset``.
            qrels: judgments as :func:`harness.evaluate` takes them; None for a collection without judgments.
            name: the dataset's name in reports.
            columns: role -> field, for names that differ from the defaults: ``{"id": "key", "text": "body"}``.
            identical_ids: "drop" leaves hits that have their query's id out before scoring.
            language: of documents and queries, a code such as ``en``, ``ko`` or ``zh``: analyzers that are not named
                follow it. None takes the text for English.

        Raises:
            UsageError: an object has another shape; the message shows the accepted shapes.
            DataError: a missing field, a bad id or a repeated id, no document or query at all, judgments of unknown
                queries, or judgments most of whose documents are unknown.
        """
        if identical_ids not in ("keep", "drop", None):
            raise UsageError(f"identical_ids is {identical_ids!r}", fix="give 'keep', 'drop' or None")
        if not isinstance(name, str) or not name:
            raise UsageError(f"the name is {name!r}", fix="give a text, which reports show")
        if language is not None and not isinstance(language, str):
            raise UsageError(f"the language is {language!r}", fix="give a code such as 'en', 'ko' or 'zh', or None")
        columns_by_role = parse_columns(columns, "columns") if columns else {}
        queries = list(queries) if isinstance(queries, Iterator) else queries
        golden = _golden_queries(corpus if queries is None else queries, columns_by_role) if qrels is None else None
        if queries is None and isinstance(corpus, str | Path):
            raise UsageError(
                f"'{corpus}' is a text or a path, and Dataset.of takes objects",
                fix="give the path of a dataset to the function itself: dataset=, or corpus= of a check",
            )
        if queries is None:
            if golden is None or golden.documents is None:
                raise UsageError("there are no queries", fix="give queries, or a golden set that has a corpus")
            corpus = golden.documents
        shared_roles = _SHARED_ROLES if golden is not None else frozenset[str]()
        documents = texts_of(corpus, "documents", DOCUMENT_ROLES, columns_by_role, shared_roles)
        groups: dict[str, dict[str, int | None]] = {}
        forbidden: Mapping[str, Sequence[str]] = {}
        filters: Mapping[str, Conditions] = {}
        texts: Mapping[str, tuple[str, ...]] = {}
        slices: Mapping[str, Mapping[str, tuple[str, ...]]] = {}
        excluded: Mapping[str, Sequence[str]] = {}
        notes: Sequence[str] = ()
        if golden is not None:
            questions, qrels, groups = golden.texts(), golden.grades() or None, golden.groups()
            notes = golden.notes
            excluded = excluded_documents(golden.questions)
            filters = {question.id: question.filter for question in golden.questions if question.filter}
            forbidden = forbidden_documents(golden.questions)
            texts = {question.id: question.texts for question in golden.questions if question.texts}
            slices = {question.id: question.fields for question in golden.questions if question.fields}
        else:
            questions, excluded, filters, notes = _plain_queries(queries, columns_by_role)
        notes = [f"queries: {note}" for note in notes]
        for note in notes:
            _log.info("%s: %s", name, note)
        judged = qrels if qrels is None or isinstance(qrels, Qrels) else read_shape(qrels, QRELS)
        if judged is not None:
            require_whole_grades(judged, "judgments")
            judged = judged.with_groups(groups) if groups else judged
            refuse_unknown(judged, questions.ids, documents.ids)
        return cls(
            name,
            Corpus(documents.ids, documents.texts, documents.digest),
            Queries(questions.ids, questions.texts, questions.digest),
            judged,
            {
                "format": "objects",
                "corpus_sha256": documents.digest,
                "queries_sha256": questions.digest,
                **({} if language is None else {"language": language}),
                **({"notes": "; ".join(notes)} if notes else {}),
            },
            identical_ids=identical_ids,
            language=language,
            excluded=excluded or None,
            filters=filters,
            forbidden=forbidden or None,
            expected_texts=texts,
            slices=slices,
            documents=None if isinstance(corpus, Iterator) else corpus,
            document_columns=columns_by_role,
        )


def document_batches(dataset: Dataset) -> Iterator[TextBatch]:
    """Yield the documents of a dataset that is an object in Python, with all of their fields."""
    records, fixed = _records(dataset.documents, "documents", DOCUMENT_ROLES)
    columns = {role: field for role, field in dataset.document_columns.items() if role not in fixed}
    batch = RecordBatch(list(range(1, len(records) + 1)), [plain(record) for record in records])
    return text_batches([batch], ColumnMap(DOCUMENT_ROLES, columns, "columns", _SHARED_ROLES), Problems("documents"))


def attribute_of(dataset: Dataset, field: str) -> pa.ChunkedArray:
    """Return a field of a dataset's documents as text, null if a document lacks it.

    Raises UnknownNameError for a field that no document has.
    """
    attributes = dataset.attributes if dataset.attributes is not None else pa.table({})
    names = dict.fromkeys(attributes.column_names)
    if dataset.documents is not None:
        records, _ = _records(dataset.documents, "fields of documents", DOCUMENT_ROLES)
        names |= field_names({name: plain(record[name]) for name in record} for record in records)
        values = [text_of(plain(field_of(record, field))) for record in records]
        if any(value is not None for value in values):
            return pa.chunked_array([strings(values)])
    path = next((path for path in field_paths(field) if path in attributes.column_names), None)
    if path is None:
        raise UnknownNameError("metadata field", field, names, aliases=qualified(field, names))
    return attributes.column(path)


def attribute_holding(dataset: Dataset, values: Collection[str]) -> str | None:
    """Return a field of a dataset's documents that holds all of the ``values``; None if no field does."""
    if dataset.documents is not None:
        records, _ = _records(dataset.documents, "fields of documents", DOCUMENT_ROLES)
        field = field_holding(({name: plain(record[name]) for name in record} for record in records), values)
        if field is not None:
            return field
    attributes = dataset.attributes if dataset.attributes is not None else pa.table({})
    return field_holding((row for batch in attributes.to_batches() for row in batch.to_pylist()), values)


def sample_queries(dataset: Dataset, size: int, seed: int) -> Dataset:
    """Return the dataset with ``size`` random queries, in their own order, and their judgments.

    All documents stay, so retrieval is as hard as before. A dataset of fewer queries is returned as it is.
    """
    if size >= len(dataset.queries):
        return dataset
    rows = np.sort(np.random.default_rng(seed).choice(len(dataset.queries), size=size, replace=False))
    queries = Queries(
        ids=Ids(dataset.queries.ids.values.take(numbers(rows))),
        texts=take_rows(dataset.queries.texts, rows),
        digest=f"{dataset.queries.digest}/sample-{size}-{seed}",
    )
    qrels = dataset.qrels.of_queries(queries.ids) if dataset.qrels is not None else None
    filtered = dataset.filtered.of_queries(rows) if dataset.filtered is not None else None
    return replace(dataset, queries=queries, qrels=qrels, filtered=filtered)


def sample_documents(dataset: Dataset, size: int, seed: int) -> Dataset:
    """Return the dataset with ``size`` documents, in their own order: every judged one, and others at random.

    If more than ``size`` are judged, exactly these are kept. A dataset of fewer documents is returned as it is. Raises
    UsageError if all of the filter's documents are left out, and if queries are ranked among candidates.
    """
    corpus = dataset.corpus
    if size >= len(corpus):
        return dataset
    if dataset.candidates is not None:
        raise UsageError(
            "--max-docs would leave candidates of the queries out, which they are ranked among",
            fix="leave it out, or ask fewer queries: --sample-queries",
        )
    selected = np.zeros(len(corpus), dtype=np.bool_)
    if dataset.qrels is not None:
        judged = corpus.ids.rows_of(dataset.qrels.doc_ids)[np.unique(dataset.qrels.rows)]
        selected[judged[judged >= 0]] = True
    unselected = np.flatnonzero(~selected)
    random_count = max(size - int(selected.sum()), 0)
    selected[np.random.default_rng(seed).choice(unselected, size=random_count, replace=False)] = True
    rows = np.flatnonzero(selected)
    ids, texts = Ids(corpus.ids.values.take(numbers(rows))), take_rows(corpus.texts, rows)
    filtered = dataset.filtered.take(rows) if dataset.filtered is not None else None
    for group in filtered.groups if filtered is not None else ():
        if not len(group):
            its = f" {format_filter(group.conditions)}" if filtered is not None and filtered.shared is None else ""
            raise UsageError(f"none of {len(rows):,} sampled documents matches the filter{its}", fix="raise --max-docs")
    attributes, field_texts = (
        table.take(numbers(rows)) if table is not None else None for table in (dataset.attributes, dataset.field_texts)
    )
    sampled = Corpus(ids, texts, content_digest(ids, texts))
    return replace(
        dataset, corpus=sampled, filtered=filtered, attributes=attributes, field_texts=field_texts, documents=None
    )
