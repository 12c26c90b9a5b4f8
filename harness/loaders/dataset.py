"""A dataset by the name of its card, by its path, or by the spec of a loader."""

from __future__ import annotations

import logging
import os
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.data.arrow import numbers, strings, take_rows
from harness.data.columns import parse_columns
from harness.data.dataset import Dataset, DatasetFiles, DatasetVectors, IdenticalIds, document_batches
from harness.data.filtering import NO_FILTER, QueryFilters, apply_filter, combine_filters, no_match
from harness.data.golden_set import GoldenSet
from harness.data.id_spelling import unmet_documents, unmet_queries
from harness.data.judgments import are_of_another_corpus, group_judgments, refuse_fractions, unknown_rows
from harness.data.problems import Problems
from harness.data.progress import Progress
from harness.data.texts import JoinRule, content_digest
from harness.data.types import Corpus, Ids, Qrels, Queries
from harness.errors import CardError, DataError, UsageError, nearest
from harness.loaders.base import DatasetSpec, JudgmentSource, LoadedDataset, Loader, TextSource
from harness.loaders.beir import golden_member, refuse_absent
from harness.loaders.containers import PACKED, plain_name
from harness.loaders.files import GoldenFileLoader
from harness.loaders.golden import load_golden, read_golden
from harness.loaders.metadata import metadata_holding, prepare_metadata, require_single_values
from harness.loaders.parts import Files, judgments_in, questions_in, shared_with_questions
from harness.loaders.prepared import Texts, prepare_texts
from harness.loaders.records import ENDINGS
from harness.loaders.registry import loader_for, loader_of
from harness.loaders.source import Source, open_source
from harness.registry.dataset_cards import DatasetCard, DatasetFamily
from harness.registry.lookup import find_dataset, unknown_dataset
from harness.registry.published import PublishedNumber
from harness.store.cache import Cache
from harness.store.neighbour_file import ENDINGS as HDF5
from harness.user_path import absence, user_path
from harness.wording import counted

GOLDEN = "golden.jsonl"
_FILES = (*ENDINGS, *HDF5, *PACKED)
"""A name that ends so, and is not there, is a missing file and no unknown dataset."""
_QUERY_RULE = JoinRule(fields=("text",))
_UNKNOWN_QUERIES_FIX = "name the judgments of these queries: --qrels FILE; or add the queries that are judged to {}"
_UNKNOWN_FIX = (
    "remove the judgments of unknown documents, or state them on a card, where they count as documents that no engine "
    "can find: judgments_of_unknown_documents = {{ {} = {} }}"
)

_log = logging.getLogger("harness")


def load_dataset(
    name_or_path: str | Path,
    *,
    files: DatasetFiles | None = None,
    split: str | None = None,
    cards: Path | None = None,
    cache: Cache | None = None,
    progress: Progress | None = None,
    fields: tuple[str, ...] | None = None,
    card: DatasetCard | None = None,
) -> Dataset:
    """Return documents, queries and judgments of a dataset.

    Args:
        name_or_path: the name of a card, ``FAMILY/MEMBER``, a folder or file, or the spec of a loader. The name of a
            card is the card's, even if there is a folder of that name; ``./NAME`` and a Path are always the folder.
        files: replacements for the dataset's queries and judgments, and the names of fields.
        split: the card's by default, else ``test`` or the only one there is.
        cards: an additional folder of cards.
        cache: folder for prepared texts, which are memory-mapped.
        progress: receives the number of records read.
        fields: fields of a document that are searched in place of the card's, whose facts are then not checked.
        card: the card whose name, rules and counts hold for a path to its dataset.

    Returns:
        The dataset. ``qrels`` is None for a collection without judgments.

    Raises:
        UnknownNameError: for an unknown name.
        DataError: for missing or faulty files (all problems of a file at once), for judgments of unknown queries or
            documents, and for files that contradict their card.
        UsageError: for a missing split, for the name of a family, for a dataset that only its owners distribute, and if
            a folder has the name of a family or of its member.
    """
    location = _locate(name_or_path, files, cards)._replace(fields=fields)
    if card is not None:
        elsewhere = replace(card, location=None, spec=location.spec.location, splits=(), sha256={})
        location = location._replace(name=card.name, card=elsewhere)
    card, loaded = location.card, location.load(split, progress)
    query_source = loaded.queries or TextSource.failing(
        DataError(
            location.spec.location,
            ["these are documents without queries"],
            fix=f"name the file of the queries: --queries FILE, one of {', '.join(ENDINGS)}, or TREC topics",
        ),
        location.spec.location,
    )
    loaded = replace(loaded, queries=query_source)
    documents, queries = _read_texts(location, loaded, query_source, cache or Cache(), progress)
    read = _Read(loaded, documents, queries, _read_judgments(location, loaded, documents, queries))
    selected_queries = _without(queries, loaded.queries_of_other_splits)
    if card is not None and fields is None:
        _check_card(card, read, len(selected_queries))
    for note in read.notes:
        _log.info("%s: %s", location.spec.location, note)
    corpus = _corpus(location, documents)
    return Dataset(
        location.name,
        corpus,
        selected_queries,
        read.judged.qrels if read.judged is not None else None,
        _provenance(location, read, corpus, selected_queries),
        identical_ids=loaded.identical_ids,
        language=loaded.language,
        analyzer=location.analyzer,
        titles=documents.titles,
        candidates=_candidates(location, loaded, corpus, selected_queries),
        excluded=query_source.excluded(corpus.ids) or None if query_source.excluded is not None else None,
        filters=query_source.filters() if query_source.filters is not None else {},
        forbidden=query_source.forbidden(corpus.ids) or None if query_source.forbidden is not None else None,
        unread_files=loaded.unread_files,
        states_unknown_documents=location.stated_unknown(loaded.split) > 0,
        vectors=loaded.vectors,
    )


def _candidates(
    location: DatasetLocation, loaded: LoadedDataset, corpus: Corpus, queries: Queries
) -> Mapping[str, Sequence[str]] | None:
    """Return the candidates of the queries; None without candidates, and if a file replaced the queries."""
    candidates_of = loaded.candidates() if loaded.candidates is not None and location.spec.queries is None else {}
    if not candidates_of:
        return None
    problems = Problems(f"{location.spec.location} candidates", "query")
    candidate_ids = {query: candidates_of.get(query, ()) for query in queries.ids}
    documents = list(dict.fromkeys(chain.from_iterable(candidate_ids.values())))
    for row in unknown_rows(documents, corpus.ids):
        problems.add(None, f"document '{documents[row]}' is a candidate, and is not in {loaded.documents.name}")
    for number, (query, candidates) in enumerate(candidate_ids.items(), 1):
        if not candidates:
            problems.add(number, f"query '{query}' has no candidates, but other queries have")
    problems.raise_if_any()
    return candidate_ids


def filter_dataset(
    dataset: Dataset,
    conditions: Mapping[str, str],
    name_or_path: str | Path,
    *,
    files: DatasetFiles | None = None,
    cards: Path | None = None,
    cache: Cache | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """Return the ``dataset``, loaded from ``name_or_path``, with the documents that each query may return.

    ``conditions`` (field to value) are of all queries, in addition to the filter of each.

    Raises UnknownNameError for a field that no document has, UsageError if no document matches, or a query has another
    value of a field, DataError for filters of queries that no document matches.
    """
    if dataset.filters:
        ids = dataset.queries.ids.to_list()
        filters = [combine_filters(query, dataset.filters.get(query, NO_FILTER), conditions) for query in ids]
        fields = list(dict.fromkeys(field for of_query in filters for field in of_query))
    else:
        filters, fields = [], list(conditions)
    metadata = load_metadata(fields, name_or_path, files=files, cards=cards, cache=cache, progress=progress, lists=True)
    if not filters:
        filtered = QueryFilters.of_all(apply_filter(metadata, conditions), len(dataset.queries))
        return replace(dataset, filtered=filtered)
    filtered, problems = QueryFilters.of_each(metadata, filters), Problems(f"{dataset.name} queries")
    for query, fields_of_query, matching in zip(ids, filters, filtered.counts.tolist(), strict=True):
        if not matching:
            problems.add(None, f"question '{query}': {no_match(metadata, fields_of_query)}")
    problems.raise_if_any(fix="correct the filters, or give the documents that have these values")
    return replace(dataset, filtered=filtered)


def load_metadata(
    fields: Sequence[str],
    name_or_path: str | Path,
    *,
    files: DatasetFiles | None = None,
    cards: Path | None = None,
    cache: Cache | None = None,
    progress: Progress | None = None,
    lists: bool = False,
) -> pa.Table:
    """Return ``fields`` of a dataset's documents, a string column each, null if a document lacks the field.

    Raises UnknownNameError for a field that no document has.
    """
    location, cache = _locate(name_or_path, files, cards), cache or Cache()
    source, about = location.load(None, progress).documents, location.spec.location
    texts = prepare_texts(source, location.rule, cache, None, about=about)
    metadata = prepare_metadata(source, fields, cache=cache, progress=progress, total=len(texts.ids), about=about)
    if not lists:
        metadata = require_single_values(metadata, source.label)
    return metadata.take(numbers(_filled_rows(texts))) if location.drops_empty else metadata


def load_field_texts(
    fields: Sequence[str],
    source: str | Path | Dataset,
    *,
    files: DatasetFiles | None = None,
    cards: Path | None = None,
    cache: Cache | None = None,
    progress: Progress | None = None,
) -> pa.Table:
    """Return the texts of ``fields`` of a dataset's documents, a string column each without nulls.

    Raises UnknownNameError for a field that no document has, UsageError for a field that is empty in all documents, and
    for documents in memory that came without their fields.
    """
    from harness.loaders.searched_fields import field_table, prepare_field_texts

    if isinstance(source, Dataset):
        if source.documents is None:
            raise UsageError(
                f"fields={'+'.join(fields)}: the documents of '{source.name}' are in memory, each as one text",
                fix="give a path, or Dataset.of with the documents' fields: {'d1': {'title': …, 'text': …}}",
            )
        return field_table(document_batches(source), fields, f"'{source.name}'")
    location, cache = _locate(source, files, cards), cache or Cache()
    documents, about = location.load(None, progress).documents, location.spec.location
    texts = prepare_texts(documents, location.rule, cache, None, about=about)
    table = prepare_field_texts(documents, fields, cache=cache, progress=progress, total=len(texts.ids), about=about)
    return table.take(numbers(_filled_rows(texts))) if location.drops_empty else table


def find_metadata_field(
    values: Collection[str],
    name_or_path: str | Path,
    *,
    files: DatasetFiles | None = None,
    cards: Path | None = None,
    progress: Progress | None = None,
) -> str | None:
    """Return a field of a dataset's documents that holds all of the ``values``; None if no field does."""
    return metadata_holding(_locate(name_or_path, files, cards).load(None, progress).documents, values)


def check_dataset(name_or_path: str | Path, *, files: DatasetFiles | None = None, cards: Path | None = None) -> None:
    """Refuse a dataset that is not there, without reading it; errors as in :func:`load_dataset`."""
    qrels = locate_dataset(name_or_path, files=files, cards=cards).spec.qrels
    if qrels is not None and not qrels.is_file():
        raise UsageError(f"--qrels {qrels}: no such file{_near_file(qrels)}", fix="look at its name")


def load_corpus(
    name_or_path: str | Path,
    *,
    files: DatasetFiles | None = None,
    cards: Path | None = None,
    cache: Cache | None = None,
    progress: Progress | None = None,
) -> Corpus:
    """Return only the documents of a dataset, for a dataset without queries; arguments as in :func:`load_dataset`."""
    return load_documents(name_or_path, files=files, cards=cards, cache=cache, progress=progress).corpus


class LoadedCorpus(NamedTuple):
    """The documents of a dataset, and facts about them from its card or loader; None for unstated facts."""

    corpus: Corpus
    identical_ids: IdenticalIds | None = None
    language: str | None = None
    analyzer: str | None = None
    empty_left_out: int = 0
    unread_files: Mapping[str, int] = MappingProxyType({})
    vectors: DatasetVectors | None = None


def load_documents(
    name_or_path: str | Path,
    *,
    files: DatasetFiles | None = None,
    cards: Path | None = None,
    cache: Cache | None = None,
    progress: Progress | None = None,
) -> LoadedCorpus:
    """Return the documents of a dataset with the facts about them; arguments as in :func:`load_dataset`."""
    location = _locate(name_or_path, files, cards)
    loaded, about = location.load(None, progress), location.spec.location
    texts = prepare_texts(loaded.documents, location.rule, cache or Cache(), progress, location.expected, about=about)
    corpus = _corpus(location, texts)
    left_out = len(texts.ids) - len(corpus)
    return LoadedCorpus(
        corpus,
        loaded.identical_ids,
        loaded.language,
        location.analyzer,
        left_out,
        loaded.unread_files,
        loaded.vectors,
    )


def _corpus(location: DatasetLocation, texts: Texts) -> Corpus:
    """Return the documents, without empty ones if the card says so."""
    if not location.drops_empty:
        return Corpus(texts.ids, texts.texts, texts.digest, texts.path)
    rows = _filled_rows(texts)
    ids, nonempty_texts = Ids(texts.ids.values.take(numbers(rows))), take_rows(texts.texts, rows)
    return Corpus(ids, nonempty_texts, content_digest(ids, nonempty_texts))


def _filled_rows(texts: Texts) -> npt.NDArray[np.int64]:
    empty = Corpus(texts.ids, texts.texts, texts.digest).empty_rows
    return np.delete(np.arange(len(texts.ids)), empty)


def load_golden_of(
    name_or_path: str | Path,
    *,
    cards: Path | None = None,
    columns: Mapping[str, str] | None = None,
    shared_roles: frozenset[str] = frozenset(),
    reads_texts: bool = False,
) -> tuple[GoldenSet, bool]:
    """Return the golden set of a file or of a dataset; and whether it is from a dataset, with documents.

    ``columns``, ``shared_roles`` and ``reads_texts`` as in :func:`harness.loaders.golden.load_golden`; a card's columns
    count too.

    Raises UnknownNameError for an unknown name, DataError for a missing or faulty file.
    """
    location = _locate(name_or_path, DatasetFiles(columns=columns or {}), cards, "golden set")
    path = location.spec.path
    if path.is_file() and path.suffix.lower() != ".zip":
        with_documents = isinstance(location.loader, GoldenFileLoader)
        return load_golden(path, location.spec.columns, shared_roles, reads_texts=reads_texts), with_documents
    source = open_source(path)
    fix = f"a dataset's golden set is called {GOLDEN}; or name a file of questions"
    member = golden_member(source) or source.require(GOLDEN, fix=fix)
    golden = read_golden(source, member, location.spec.columns, shared_roles | {"id"}, reads_texts=reads_texts)
    if location.card is not None:
        stated = location.card.sha256.get(source.raw_name(member), golden.sha256)
        if stated != golden.sha256:
            raise DataError(source.label(member), [f"its SHA-256 is {golden.sha256}, the card says {stated}"])
    language = location.card.language if location.card is not None else None
    return replace(golden, name=location.name, language=language, analyzer=location.analyzer), True


class DatasetLocation(NamedTuple):
    """A named dataset: its name in reports, its location, and the loader that reads it, None if no loader does.

    ``fields`` take the place of the card's.
    """

    name: str
    spec: DatasetSpec
    card: DatasetCard | None
    loader: Loader | None
    fields: tuple[str, ...] | None = None

    @property
    def specs(self) -> Mapping[str, DatasetSpec]:
        """Return the loader's input for each split; a single one, under "", if the loader knows the splits."""
        if self.card is None or not self.card.splits:
            return {"": self.spec}
        return {split: replace(self.spec, location=self.card.location_of(split)) for split in self.card.splits}

    @property
    def locations(self) -> frozenset[str]:
        """Return the specs' text; prepared texts are recorded under it."""
        return frozenset(spec.location for spec in self.specs.values())

    @property
    def rule(self) -> JoinRule:
        """Return how title and text are joined."""
        rule = JoinRule() if self.card is None else JoinRule(self.card.fields, self.card.separator)
        return rule if self.fields is None else rule._replace(fields=self.fields)

    @property
    def drops_empty(self) -> bool:
        """Return whether documents without text are left out."""
        return self.card is not None and self.card.drop_empty

    @property
    def expected(self) -> int | None:
        """Return the number of documents that the card states."""
        return None if self.card is None else self.card.documents

    @property
    def analyzer(self) -> str | None:
        """Return the analyzer that the card names."""
        return None if self.card is None else self.card.analyzer

    def stated_unknown(self, split: str) -> int:
        """Return the number of judgments of unknown documents that the card states for a split."""
        return 0 if self.card is None else self.card.judgments_of_unknown_documents.get(split, 0)

    def load(self, split: str | None, progress: Progress | None) -> LoadedDataset:
        """Find the parts, with the user's files and the card's rules in place of the loader's.

        Errors as in :func:`load_dataset`.
        """
        spec, card = self.spec, self.card
        if self.loader is None:
            raise _unreadable(spec)
        if spec.queries is not None:
            spec = shared_with_questions(Files.of_path(spec.queries), spec)
        if split is None and card is not None and (spec.qrels is None or card.splits):
            split = card.split
        if card is None or not card.splits:
            loaded = self.loader.load(spec, split, progress)
        elif split not in card.splits:
            problem = f"{self.name} has no split '{split}'{nearest(split or '', card.splits)}"
            raise UsageError(problem, fix=f"known: {', '.join(card.splits)}")
        else:
            loaded = self.loader.load(replace(spec, location=card.location_of(split)), None, progress)
            loaded = replace(loaded, split=split, splits=card.splits)
        if split is not None and loaded.split != split:
            problem = f"{spec.location} has no split '{split}': its judgments have none"
            if spec.qrels is not None:
                problem = f"--split {split} with --qrels: the judgments are in one file, and the queries have no splits"
            raise UsageError(problem, fix="leave --split out")
        if spec.queries is not None:
            questions = questions_in(Files.of_path(spec.queries), spec)
            loaded = replace(loaded, queries=questions.queries)
            if questions.judgments is not None:
                loaded = _judged_by(loaded, questions.judgments)
        if spec.qrels is not None:
            loaded = _judged_by(loaded, judgments_in(Files.of_path(spec.qrels), spec))
        if card is None:
            return loaded
        rule = card.identical_ids or loaded.identical_ids
        return replace(loaded, identical_ids=rule, language=card.language or loaded.language)


def locate_dataset(
    name_or_path: str | Path, *, files: DatasetFiles | None = None, cards: Path | None = None
) -> DatasetLocation:
    """Return the loader of a dataset, without reading the dataset; errors as in :func:`load_dataset`."""
    located = _locate(name_or_path, files, cards)
    if located.loader is None:
        raise _unreadable(located.spec)
    return located


def _judged_by(loaded: LoadedDataset, judgments: JudgmentSource) -> LoadedDataset:
    """Return the dataset with judgments that replace its own, and so its splits."""
    return replace(loaded, judgments=judgments, split="", splits=(), queries_of_other_splits=frozenset())


def _unreadable(spec: DatasetSpec) -> DataError:
    """Return the reason why no loader reads an existing path."""
    path = spec.path
    if not path.exists():
        return DataError(spec.location, [absence(path)], fix="give a folder, a file, or a card's name")
    readable_forms = (
        f"a folder or .zip with a file 'corpus', a folder of texts, TREC documents, or a file "
        f"{', '.join((*ENDINGS, *HDF5))}"
    )
    if path.is_dir():
        source = open_source(path)
        refuse_absent(source)
        return source.missing("corpus.jsonl", fix=f"a dataset is {readable_forms}")
    unread = Source(path.parent).unread(path.name)
    return unread or DataError(
        spec.location, ["is not a file of documents that the harness knows"], fix=f"give {readable_forms}"
    )


def _locate(
    name_or_path: str | Path, files: DatasetFiles | None, cards: Path | None, kind: str = "dataset"
) -> DatasetLocation:
    text, files = os.fspath(name_or_path), files or DatasetFiles()
    if not text:
        raise UsageError(f"the {kind} is an empty name", fix="give a card's name, or a folder (. for this one)")
    path = user_path(text)
    spec = DatasetSpec(text, files.queries, files.qrels, files.columns, files.shared_roles)
    loader = None
    if not isinstance(name_or_path, Path) and text not in (".", "..", "~"):
        card = find_dataset(text, cards)
        if path.exists() and (isinstance(card, DatasetFamily) or (card is not None and os.sep in text)):
            raise _ambiguous(text, path, card)
        if isinstance(card, DatasetFamily):
            raise _several(f"'{text}' is a family of {counted(len(card.members), 'dataset')}", card.members.values())
        if card is not None:
            return _locate_card(card, files, cards)
        loader = loader_for(spec)
        if loader is None and not path.exists():
            _refuse_unknown(text, kind, cards)
    loader = loader or loader_for(spec)
    if loader is None and not path.exists() and (path.suffix.lower() in _FILES or _near_file(path)):
        raise UsageError(
            f"there is no file '{text}'{_near_file(path)}", fix="look at its name, and at the current folder"
        )
    return DatasetLocation(_name_of(path) if path.exists() else text, spec, None, loader)


def _refuse_unknown(text: str, kind: str, cards: Path | None) -> None:
    """Refuse a name that can be no path, and a member that its family lacks."""
    path = user_path(text)
    of_family = isinstance(find_dataset(text.partition("/")[0], cards), DatasetFamily)
    if of_family or (os.sep not in text and path.suffix.lower() not in _FILES and not _near_file(path)):
        raise unknown_dataset(text, cards, kind=kind, further_names=("a folder", "a .zip file", "a file"))


def _ambiguous(text: str, path: Path, card: DatasetCard | DatasetFamily) -> UsageError:
    """Return the warning that a name is also a path: results stored under it may belong to either."""
    kind = "family of datasets" if isinstance(card, DatasetFamily) else "dataset"
    path_kind = "folder" if path.is_dir() else "file"
    return UsageError(
        f"'{text}' is the name of a {kind} (card '{card.path.name}') and of a {path_kind} here",
        fix=f"write ./{text} for the {path_kind}; for the {kind}, rename the {path_kind} or work in another folder",
    )


def _several(subject: str, members: Iterable[DatasetCard]) -> UsageError:
    """Return the message that a name stands for several datasets, which it lists."""
    names = textwrap.wrap(", ".join(card.name for card in members), 98, break_on_hyphens=False)
    return UsageError(subject, fix="\n  ".join(["name one of them:", *names]))


def _locate_card(card: DatasetCard, files: DatasetFiles, cards: Path | None) -> DatasetLocation:
    if card.obtain is not None:
        raise UsageError(
            f"'{card.name}' cannot be downloaded, because its owners give it out themselves",
            fix=f"{card.obtain}\n  then give your folder for the name: a corpus, queries and qrels in BEIR layout",
        )
    card_or_family = find_dataset(card.name.partition("/")[0], cards) if "/" in card.name else None
    family = card_or_family if isinstance(card_or_family, DatasetFamily) else None
    _refuse_unknown_metrics(card.path, [*card.published, *(family.published if family is not None else ())])
    if card.parts:
        members = family.members if family is not None else {}
        datasets = counted(len(card.parts), "dataset")
        problem = f"'{card.name}' refers to {datasets} that have their own documents and queries"
        raise _several(problem, [members[part] for part in card.parts])
    spec = DatasetSpec(
        card.location_of(None),
        files.queries or card.queries_file,
        files.qrels or card.qrels_file,
        {**parse_columns(card.columns), **files.columns},
        files.shared_roles,
    )
    return DatasetLocation(card.name, spec, card, loader_of(card))


def _refuse_unknown_metrics(card: Path, published: Sequence[PublishedNumber]) -> None:
    """Raise CardError for published scores of metrics that do not exist, with which no measurement is compared."""
    from harness.metrics import parse_metric  # 0.1 s that a dataset without published scores does not need

    for system, metric in {(row.system, metric) for row in published for metric in row.scores}:
        try:
            parse_metric(metric)
        except UsageError as error:
            raise CardError(
                f"card '{card}': the published scores of '{system}': {error.problem}", fix=error.fix
            ) from error


def _name_of(path: Path) -> str:
    name = path.resolve().name
    if not path.is_file():
        return name
    plain = plain_name(name)
    return plain[: -len(Path(plain).suffix)] if Path(plain).suffix.lower() in (".zip", *ENDINGS, *HDF5) else name


def _near_file(path: Path) -> str:
    """Return a hint at a file with a suffix and a similar name next to a missing file; empty without such a file."""
    if not path.suffix or not path.parent.is_dir():
        return ""
    return nearest(path.name, sorted(file.name for file in path.parent.iterdir() if file.is_file()), cutoff=0.8)


def _read_texts(
    location: DatasetLocation, loaded: LoadedDataset, query_source: TextSource, cache: Cache, progress: Progress | None
) -> tuple[Texts, Texts]:
    """Return documents and queries; the problems of both files are reported together."""
    about = location.spec.location if location.card is None else location.card.location_of(loaded.split)

    def documents() -> Texts:
        return prepare_texts(loaded.documents, location.rule, cache, progress, location.expected, about=about)

    try:
        queries = prepare_texts(query_source, _QUERY_RULE, cache, None, about=about)
    except DataError as fault:
        try:
            documents()
        except DataError as other:
            if other.problems != fault.problems:  # an archive that holds both has its problems reported once
                raise DataError.of_files([fault, other]) from fault
        raise
    return documents(), queries


class _SplitJudgments(NamedTuple):
    """Judgments of one split, and how many of them name documents that the corpus lacks."""

    qrels: Qrels
    unknown_documents: int
    notes: tuple[str, ...]


def _read_judgments(
    location: DatasetLocation, loaded: LoadedDataset, documents: Texts, queries: Texts
) -> _SplitJudgments | None:
    """Return the judgments, None without any; raises DataError for judgments of unknown queries.

    Unknown documents are an error if most documents are unknown, if most of the unknown ones differ only in spelling,
    and if a card states another number of such judgments.
    """
    source = loaded.judgments
    if source is None or loaded.queries is None:
        return None
    problems, notes = Problems(source.label, source.unit), list[str]()
    read_for = source.read_for
    judgments = source.read(problems, notes) if read_for is None else read_for(documents.ids, problems, notes)
    if not judgments.lines and not problems.count:
        problems.add(None, "the file holds no judgments")
    refuse_fractions(judgments, problems)
    qrels = group_judgments(judgments, problems)
    reasons, fixes, queries_name = list[str | None](), list[str](), loaded.queries.name
    strange_queries = unknown_rows(judgments.query_ids, queries.ids)
    for row in strange_queries:
        problems.add(judgments.lines[row], f"query '{judgments.query_ids[row]}' is not in {queries_name}")
    if strange_queries:
        reasons.append(unmet_queries(qrels.query_ids, queries.ids, queries_name))
        fixes.append(_UNKNOWN_QUERIES_FIX.format(queries_name))
    strangers, queries_name = unknown_rows(judgments.doc_ids, documents.ids), loaded.documents.name
    stated = location.stated_unknown(loaded.split)
    refused = strangers and are_of_another_corpus(qrels.doc_ids, documents.ids)
    if stated:
        refused = len(strangers) != stated or stated == len(judgments.lines)
    if refused:
        for row in strangers:
            problems.add(judgments.lines[row], f"document '{judgments.doc_ids[row]}' is not in {queries_name}")
        reasons.append(unmet_documents(qrels.doc_ids, documents.ids, queries_name))
        fixes.append(_UNKNOWN_FIX.format(loaded.split or "test", len(strangers)))
    elif strangers and stated:  # others are a finding
        verb = "names a document that is" if len(strangers) == 1 else "name documents that are"
        notes.append(f"{counted(len(strangers), 'judgment')} {verb} not in the corpus")
    problems.raise_if_any(fix="; ".join(fixes) or None, because="; ".join(filter(None, reasons)) or None)
    return _SplitJudgments(qrels, len(strangers), tuple(notes))


def _without(queries: Texts, left_out: frozenset[str]) -> Queries:
    """Return all queries but some."""
    if not left_out:
        return Queries(queries.ids, queries.texts, queries.digest)
    is_selected = pc.is_null(pc.index_in(queries.ids.values, value_set=strings(sorted(left_out))))
    ids, texts = Ids(queries.ids.values.filter(is_selected)), queries.texts.filter(is_selected)
    return Queries(ids, texts, content_digest(ids, texts))


class _Read(NamedTuple):
    """The parts of a dataset after they were read; ``queries`` are all of the file."""

    loaded: LoadedDataset
    documents: Texts
    queries: Texts
    judged: _SplitJudgments | None

    @property
    def digests(self) -> dict[str, str]:
        parts = (self.loaded.documents, self.loaded.queries, self.loaded.judgments)
        return {name: digest for part in parts if part is not None for name, digest in part.digests.items()}

    @property
    def notes(self) -> list[str]:
        sources = (self.loaded.documents, self.loaded.queries, self.loaded.judgments)
        parts = zip(sources, (self.documents, self.queries, self.judged), strict=True)
        return [f"{source.name}: {note}" for source, part in parts if source and part for note in part.notes]


def _check_card(card: DatasetCard, parts: _Read, query_count: int) -> None:
    """Hold the files against the card's facts: another version of a dataset must not pass under its name.

    ``query_count`` counts the queries that no other split owns.
    """
    digests, split, qrels = parts.digests, parts.loaded.split, parts.judged.qrels if parts.judged is not None else ()
    problems = [
        f"the SHA-256 of '{name}' is {digests[name]}, the card says {expected}"
        for name, expected in card.sha256.items()
        if digests.get(name, expected) != expected
    ]
    if card.location is not None:
        unread = sorted(card.sha256.keys() - digests.keys())
        lacking = [name for name in unread if not (card.location / name).exists()]
        problems += [f"there is no file '{name}', which the card names" for name in lacking]
    splits = card.judgments.keys() | card.judgments_of_unknown_documents.keys() | card.split_queries.keys()
    split_names = set(parts.loaded.splits)
    problems += [
        f"there is no split '{name}', which the card names" for name in sorted(splits - split_names) if split_names
    ]
    stated = {
        "documents": (len(parts.documents.ids), card.documents),
        "queries": (len(parts.queries.ids), card.queries),
        f"queries of the split '{split}'": (query_count, card.split_queries.get(split)),
        f"judgments of the split '{split}'": (len(qrels), card.judgments.get(split)),
    }
    if card.empty_documents is not None:
        corpus = Corpus(parts.documents.ids, parts.documents.texts, parts.documents.digest)
        stated["empty documents"] = (len(corpus.empty_rows), card.empty_documents)
    problems += [
        f"{fact}: {actual:,}, the card says {expected:,}"
        for fact, (actual, expected) in stated.items()
        if expected is not None and actual != expected
    ]
    if problems:
        info = f"`harness datasets info {card.name}`"
        mend = "restore the files" if card.spec is None else f"delete its files ({info} names them) and fetch it again"
        raise DataError(
            f"{card.name} ({card.location_of(split)})",
            problems,
            fix=f"{mend}, or correct the card '{card.path}' if they are right",
        )


def _provenance(location: DatasetLocation, parts: _Read, corpus: Corpus, queries: Queries) -> dict[str, str]:
    card, loaded, spec = location.card, parts.loaded, location.spec
    provenance = {
        # for a card's dataset the content counts, not its folder on this machine
        **({"path": spec.location} if card is None else {"card": card.path.name, "card_sha256": card.digest}),
        "format": location.loader.name if location.loader is not None else "",
        "split": loaded.split,
        "splits": ", ".join(loaded.splits),
        "join": str(location.rule),
        "corpus_sha256": corpus.digest,
        "queries_sha256": queries.digest,
        "judgments_of_unknown_documents": str(parts.judged.unknown_documents if parts.judged is not None else 0),
        "queries_of_other_splits": str(len(parts.queries.ids) - len(queries)),
        **{f"sha256 of {name}": digest for name, digest in parts.digests.items()},
        **({} if loaded.language is None else {"language": loaded.language}),
        **loaded.provenance,
    }
    if card is None:
        files = {"queries_file": spec.queries, "qrels_file": spec.qrels}
        provenance |= {name: str(path) for name, path in files.items() if path is not None}
    if spec.columns:
        provenance["columns"] = ", ".join(f"{role}={name}" for role, name in spec.columns.items())
    if location.drops_empty:
        provenance["empty_documents_dropped"] = str(len(parts.documents.ids) - len(corpus))
    if card is not None:
        provenance |= {"language": card.language, "licence": card.licence, "source": card.source}
        more = {"query_language": card.query_language, "analyzer": card.analyzer, "instruction": card.instruction}
        provenance |= {name: value for name, value in more.items() if value is not None}
        if card.spec is not None:
            provenance["spec"] = card.location_of(loaded.split)
    if parts.notes:
        provenance["notes"] = "; ".join(parts.notes)
    return provenance
