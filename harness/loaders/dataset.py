"""A dataset by the name of its card, by its path, or by the spec of a loader."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from harness.arrow import numbers, strings
from harness.cards import DatasetCard
from harness.data.columns import parse_columns
from harness.data.dataset import Dataset, DatasetFiles, IdenticalIds
from harness.data.judgments import group_judgments, unknown_rows
from harness.data.problems import Problems
from harness.data.texts import JoinRule, content_digest
from harness.errors import DataError, UnknownNameError, UsageError
from harness.filtering import apply_filter
from harness.golden.golden_set import GoldenSet
from harness.loaders.base import DatasetSpec, JudgmentSource, LoadedDataset, Loader, TextSource
from harness.loaders.golden import load_golden, read_golden
from harness.loaders.metadata import prepare_metadata
from harness.loaders.parts import Files, judgments_in, missing_queries, questions_in
from harness.loaders.prepared import Texts, prepare_texts
from harness.loaders.records import ENDINGS
from harness.loaders.registry import loader_for, loaders
from harness.loaders.source import open_source
from harness.protocols import Progress
from harness.registry import find_cards
from harness.storage.cache import Cache
from harness.storage.columns import take_rows
from harness.strict_toml import nearest
from harness.types import Corpus, Ids, Qrels, Queries
from harness.wording import counted

__all__ = [
    "LoadedCorpus",
    "check_dataset",
    "filter_dataset",
    "load_corpus",
    "load_dataset",
    "load_documents",
    "load_golden_of",
]

GOLDEN = "golden.jsonl"
_FILES = (*ENDINGS, ".gz")
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
) -> Dataset:
    """Return documents, queries and judgments of a dataset.

    Args:
        name_or_path: the name of a card, a folder or file, or the spec of a loader. A name without ``/`` is a card's if
            there is such a card.
        files: where queries and judgments lie if they are not the dataset's own, and the names of fields.
        split: the card's by default, else ``test`` or the only one there is.
        cards: an additional folder of cards.
        cache: where texts are prepared, once, to be memory-mapped.
        progress: told how many records were read.

    Returns:
        The dataset. ``qrels`` is None for a collection without judgments.

    Raises:
        UnknownNameError: for an unknown name.
        DataError: for missing or faulty files (all problems of a file at once), for judgments of unknown queries or
            documents, and for files that contradict their card.
        UsageError: for a split that is not there.
    """
    place = _locate(name_or_path, files or DatasetFiles(), cards)
    card, loaded = place.card, place.load(split, progress)
    cache = cache or Cache()
    asked = loaded.queries or missing_queries(
        DataError(
            place.spec.location,
            ["these are documents, and there are no queries"],
            fix=f"name the file of the queries: --queries FILE, one of {', '.join(ENDINGS)}, or TREC topics",
        )
    )
    queries, documents = _read_texts(asked, loaded.documents, place, cache, progress)
    unknown_documents = card.judgments_of_unknown_documents.get(loaded.split, 0) if card is not None else 0
    judged = None
    if loaded.judgments is not None:
        known = _Known(queries.ids, documents.ids, asked.name, loaded.documents.name, unknown_documents)
        judged = _read_judgments(loaded.judgments, loaded.split, known)
    found = _Read(loaded, asked, documents, queries, judged)
    if card is not None:
        _check_card(card, found)
    for note in found.notes:
        _log.info("%s: %s", place.spec.location, note)
    corpus = _corpus(place, documents)
    kept = _without(queries, loaded.queries_of_other_splits)
    qrels = judged.qrels if judged is not None else None
    provenance = _provenance(place, found, corpus, kept)
    return Dataset(place.name, corpus, kept, qrels, provenance, identical_ids=place.identical_ids(loaded))


def filter_dataset(
    dataset: Dataset,
    wanted: Mapping[str, str],
    name_or_path: str | Path,
    *,
    files: DatasetFiles | None = None,
    cards: Path | None = None,
    cache: Cache | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """Return the ``dataset``, loaded from ``name_or_path``, with the documents that match ``wanted`` (field to value).

    Raises UnknownNameError for a field that no document has, UsageError where no document matches.
    """
    place, cache = _locate(name_or_path, files or DatasetFiles(), cards), cache or Cache()
    source = place.load(None, progress).documents
    texts = prepare_texts(source, place.rule, cache, None)
    metadata = prepare_metadata(source, list(wanted), cache=cache, progress=progress, total=len(texts.ids))
    if place.drops_empty:
        metadata = metadata.take(numbers(_filled_rows(texts)))
    return replace(dataset, filtered=apply_filter(metadata, wanted))


def check_dataset(name_or_path: str | Path, *, files: DatasetFiles | None = None, cards: Path | None = None) -> None:
    """Refuse a dataset that is not there, without reading it; errors as in :func:`load_dataset`."""
    place = _locate(name_or_path, files or DatasetFiles(), cards)
    if place.loader is None:
        raise _unreadable(place.spec)
    qrels = place.spec.qrels
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
    """Return the documents of a dataset alone, for one that has no queries; arguments as in :func:`load_dataset`."""
    return load_documents(name_or_path, files=files, cards=cards, cache=cache, progress=progress).corpus


class LoadedCorpus(NamedTuple):
    """The documents of a dataset, its rule for identical ids (None where it has none), and the empty ones left out."""

    corpus: Corpus
    identical_ids: IdenticalIds | None = None
    empty_left_out: int = 0


def load_documents(
    name_or_path: str | Path,
    *,
    files: DatasetFiles | None = None,
    cards: Path | None = None,
    cache: Cache | None = None,
    progress: Progress | None = None,
) -> LoadedCorpus:
    """Return the documents of a dataset with what it says of them; arguments as in :func:`load_dataset`."""
    place = _locate(name_or_path, files or DatasetFiles(), cards)
    loaded = place.load(None, progress)
    found = prepare_texts(loaded.documents, place.rule, cache or Cache(), progress, place.expected)
    corpus = _corpus(place, found)
    return LoadedCorpus(corpus, place.identical_ids(loaded), len(found.ids) - len(corpus))


def _corpus(place: _Place, texts: Texts) -> Corpus:
    """Return the documents, without empty ones where the card says so."""
    if not place.drops_empty:
        return Corpus(texts.ids, texts.texts, texts.digest, texts.path)
    rows = _filled_rows(texts)
    ids, kept = Ids(texts.ids.values.take(numbers(rows))), take_rows(texts.texts, rows)
    return Corpus(ids, kept, content_digest(ids, kept))


def _filled_rows(texts: Texts) -> npt.NDArray[np.int64]:
    empty = Corpus(texts.ids, texts.texts, texts.digest).empty_rows
    return np.delete(np.arange(len(texts.ids)), empty)


def load_golden_of(name_or_path: str | Path, *, cards: Path | None = None) -> tuple[GoldenSet, bool]:
    """Return a golden set by its file, or that of a dataset; and whether it is a dataset's, with documents.

    Raises UnknownNameError for an unknown name, DataError for a missing or faulty file.
    """
    place = _locate(name_or_path, DatasetFiles(), cards, "golden set")
    path = place.spec.path
    if path.is_file() and path.suffix.lower() != ".zip":
        return load_golden(path), False
    source = open_source(path)
    member = source.require(GOLDEN, fix=f"a dataset's golden set is called {GOLDEN}; or name a file of questions")
    golden = read_golden(source, member)
    if place.card is not None:
        stated = place.card.sha256.get(source.raw_name(member), golden.sha256)
        if stated != golden.sha256:
            raise DataError(source.label(member), [f"its SHA-256 is {golden.sha256}, the card says {stated}"])
    return replace(golden, name=place.name), True


class _Place(NamedTuple):
    """Where a dataset is, and who reads it; ``loader`` is None where nobody does."""

    name: str
    spec: DatasetSpec
    card: DatasetCard | None
    loader: Loader | None

    @property
    def rule(self) -> JoinRule:
        return JoinRule() if self.card is None else JoinRule(self.card.fields, self.card.separator)

    @property
    def drops_empty(self) -> bool:
        return self.card is not None and self.card.drop_empty

    @property
    def expected(self) -> int | None:
        return None if self.card is None else self.card.documents

    def identical_ids(self, loaded: LoadedDataset) -> IdenticalIds | None:
        """Return the card's rule, else the loader's; None where neither has one."""
        return (self.card.identical_ids if self.card is not None else None) or loaded.identical_ids

    def load(self, split: str | None, progress: Progress | None) -> LoadedDataset:
        if self.loader is None:
            raise _unreadable(self.spec)
        spec = self.spec
        if spec.qrels is not None and split is not None:
            raise UsageError(
                f"--split {split} with --qrels: the judgments are in one file", fix="leave one of them out"
            )
        if split is None and self.card is not None and spec.qrels is None:
            split = self.card.split
        loaded = self.loader.load(spec, split, progress)
        if split is not None and loaded.split != split:
            raise UsageError(
                f"{spec.location} has no split '{split}': its judgments have none", fix="leave --split out"
            )
        if spec.queries is not None:
            questions = questions_in(Files.at(spec.queries), spec)
            loaded = replace(loaded, queries=questions.queries)
            if questions.judgments is not None:
                loaded = _judged_by(loaded, questions.judgments)
        if spec.qrels is not None:
            loaded = _judged_by(loaded, judgments_in(Files.at(spec.qrels), spec))
        return loaded


def _judged_by(loaded: LoadedDataset, judgments: JudgmentSource) -> LoadedDataset:
    """Return the dataset with judgments that take the place of its own, and so of its splits."""
    return replace(loaded, judgments=judgments, split="", splits=(), queries_of_other_splits=frozenset())


def _unreadable(spec: DatasetSpec) -> DataError:
    """Return why no loader reads a path that is there."""
    path = spec.path
    if not path.exists():
        return DataError(spec.location, ["does not exist"], fix="give a folder, a file, or a card's name")
    known = f"a folder or .zip with a file 'corpus', a folder of texts, TREC documents, or a file {', '.join(ENDINGS)}"
    if path.is_dir():
        source = open_source(path)
        return source.missing("corpus.jsonl", fix=f"a dataset is {known}")
    return DataError(spec.location, ["is no file of documents that the harness knows"], fix=f"give {known}")


def _locate(name_or_path: str | Path, files: DatasetFiles, cards: Path | None, what: str = "dataset") -> _Place:
    text = os.fspath(name_or_path)
    if not text:
        raise UsageError(f"the {what} is an empty name", fix="give a card's name, or a folder (. for this one)")
    path = Path(text).expanduser()
    spec = DatasetSpec(text, files.queries, files.qrels, files.columns)
    loader = None
    if not isinstance(name_or_path, Path) and os.sep not in text and text not in (".", "..", "~"):
        known = find_cards("datasets", cards)
        card = known.get(text)
        if card is not None:
            return _of_card(card, files)
        loader = loader_for(spec)
        if loader is None and not path.exists() and path.suffix.lower() not in _FILES and not _near_file(path):
            others = ("a folder", "a .zip file", "a file")
            raise UnknownNameError(what, text, (*known, *others))
    loader = loader or loader_for(spec)
    if loader is None and not path.exists() and (path.suffix.lower() in _FILES or _near_file(path)):
        raise UsageError(
            f"there is no file '{text}'{_near_file(path)}", fix="look at its name, and at the current folder"
        )
    return _Place(_name_of(path), spec, None, loader)


def _of_card(card: DatasetCard, files: DatasetFiles) -> _Place:
    known = loaders()
    if card.format not in known:
        raise UnknownNameError(f"format on the card '{card.path}':", card.format, known)
    spec = DatasetSpec(
        str(card.location),
        files.queries or card.queries_file,
        files.qrels or card.qrels_file,
        {**parse_columns(card.columns), **files.columns},
    )
    return _Place(card.name, spec, card, known[card.format])


def _name_of(path: Path) -> str:
    name = path.resolve().name
    if not path.is_file():
        return name
    plain = name.removesuffix(".gz")
    return plain[: -len(Path(plain).suffix)] if Path(plain).suffix.lower() in (".zip", *ENDINGS) else name


def _near_file(path: Path) -> str:
    """A hint at a file beside a missing one that has a suffix and is called nearly so; or nothing."""
    if not path.suffix or not path.parent.is_dir():
        return ""
    return nearest(path.name, sorted(one.name for one in path.parent.iterdir() if one.is_file()), cutoff=0.8)


def _read_texts(
    asked: TextSource, held: TextSource, place: _Place, cache: Cache, progress: Progress | None
) -> tuple[Texts, Texts]:
    """Return queries and documents; the problems of both files are reported together."""

    def documents() -> Texts:
        return prepare_texts(held, place.rule, cache, progress, place.expected)

    try:
        queries = prepare_texts(asked, _QUERY_RULE, cache, None)
    except DataError as fault:
        try:
            documents()
        except DataError as other:
            raise DataError.of_files([fault, other]) from fault
        raise
    return queries, documents()


class _Judged(NamedTuple):
    """Judgments of one split, and how many of them name documents that the corpus lacks."""

    qrels: Qrels
    unknown_documents: int
    notes: tuple[str, ...]


class _Known(NamedTuple):
    """The queries and documents that judgments may name, and how many of them name unknown documents all the same."""

    query_ids: Ids
    doc_ids: Ids
    queries: str
    documents: str
    unknown_documents: int


def _read_judgments(source: JudgmentSource, split: str, known: _Known) -> _Judged:
    problems, notes = Problems(source.label, source.unit), list[str]()
    judgments = source.read(problems, notes)
    if not judgments.lines and not problems.count:
        problems.add(None, "the file holds no judgments")
    qrels = group_judgments(judgments, problems)
    before = problems.count
    for row in unknown_rows(judgments.query_ids, known.query_ids):
        problems.add(judgments.lines[row], f"query '{judgments.query_ids[row]}' is not in {known.queries}")
    fixes = [_UNKNOWN_QUERIES_FIX.format(known.queries)] if problems.count > before else []
    strangers = unknown_rows(judgments.doc_ids, known.doc_ids)
    if len(strangers) == known.unknown_documents != len(judgments.lines):
        if strangers:
            verb = "names a document that is" if len(strangers) == 1 else "name documents that are"
            notes.append(f"{counted(len(strangers), 'judgment')} {verb} not in the corpus")
    else:
        for row in strangers:
            problems.add(judgments.lines[row], f"document '{judgments.doc_ids[row]}' is not in {known.documents}")
        fixes += [_UNKNOWN_FIX.format(split or "test", len(strangers))] if strangers else []
    problems.raise_if_any(fix="; ".join(fixes) or None)
    return _Judged(qrels, len(strangers), tuple(notes))


def _without(queries: Texts, left_out: frozenset[str]) -> Queries:
    """Return all queries but some."""
    if not left_out:
        return Queries(queries.ids, queries.texts, queries.digest)
    kept = pc.is_null(pc.index_in(queries.ids.values, value_set=strings(sorted(left_out))))
    ids, texts = Ids(queries.ids.values.filter(kept)), queries.texts.filter(kept)
    return Queries(ids, texts, content_digest(ids, texts))


class _Read(NamedTuple):
    """The parts of a dataset after they were read; ``queries`` are all of the file."""

    loaded: LoadedDataset
    asked: TextSource
    documents: Texts
    queries: Texts
    judged: _Judged | None

    @property
    def digests(self) -> dict[str, str]:
        parts: list[TextSource | JudgmentSource | None] = [
            self.loaded.documents,
            self.asked,
            self.loaded.judgments,
        ]
        return {name: digest for part in parts if part is not None for name, digest in part.digests.items()}

    @property
    def notes(self) -> list[str]:
        parts = [(self.loaded.documents.name, self.documents.notes), (self.asked.name, self.queries.notes)]
        if self.loaded.judgments is not None and self.judged is not None:
            parts.append((self.loaded.judgments.name, self.judged.notes))
        return [f"{name}: {note}" for name, notes in parts for note in notes]


def _check_card(card: DatasetCard, found: _Read) -> None:
    """Hold the files against the card's facts: another version of a collection must not pass under its name."""
    digests, split, qrels = found.digests, found.loaded.split, found.judged.qrels if found.judged is not None else ()
    problems = [
        f"the SHA-256 of '{name}' is {digests[name]}, the card says {expected}"
        for name, expected in card.sha256.items()
        if digests.get(name, expected) != expected
    ]
    lacking = [name for name in sorted(card.sha256.keys() - digests.keys()) if not (card.location / name).exists()]
    problems += [f"there is no file '{name}', which the card names" for name in lacking]
    splits = card.judgments.keys() | card.judgments_of_unknown_documents.keys()
    known = set(found.loaded.splits)
    problems += [f"there is no split '{name}', which the card names" for name in sorted(splits - known) if known]
    stated = {
        "documents": (len(found.documents.ids), card.documents),
        "queries": (len(found.queries.ids), card.queries),
        f"judgments of the split '{split}'": (len(qrels), card.judgments.get(split)),
    }
    if card.empty_documents is not None:
        corpus = Corpus(found.documents.ids, found.documents.texts, found.documents.digest)
        stated["empty documents"] = (len(corpus.empty_rows), card.empty_documents)
    problems += [
        f"{what}: {actual:,}, the card says {expected:,}"
        for what, (actual, expected) in stated.items()
        if expected is not None and actual != expected
    ]
    if problems:
        raise DataError(
            str(card.location), problems, fix=f"restore the files, or correct the card '{card.path}' if they are right"
        )


def _provenance(place: _Place, found: _Read, corpus: Corpus, kept: Queries) -> dict[str, str]:
    card, loaded, spec = place.card, found.loaded, place.spec
    provenance = {
        # of a card's dataset the content counts, not where this machine keeps it
        **({"path": spec.location} if card is None else {"card": card.path.name, "card_sha256": card.digest}),
        "format": place.loader.name if place.loader is not None else "",
        "split": loaded.split,
        "splits": ", ".join(loaded.splits),
        "join": str(place.rule),
        "corpus_sha256": corpus.digest,
        "queries_sha256": kept.digest,
        "judgments_of_unknown_documents": str(found.judged.unknown_documents if found.judged is not None else 0),
        "queries_of_other_splits": str(len(found.queries.ids) - len(kept)),
        **{f"sha256 of {name}": digest for name, digest in found.digests.items()},
        **loaded.provenance,
    }
    if card is None:
        files = {"queries_file": spec.queries, "qrels_file": spec.qrels}
        provenance |= {name: str(path) for name, path in files.items() if path is not None}
    if spec.columns:
        provenance["columns"] = ", ".join(f"{role}={name}" for role, name in spec.columns.items())
    if place.drops_empty:
        provenance["empty_documents_dropped"] = str(len(found.documents.ids) - len(corpus))
    if card is not None:
        provenance |= {"language": card.language, "licence": card.licence, "source": card.source}
    if found.notes:
        provenance["notes"] = "; ".join(found.notes)
    return provenance
