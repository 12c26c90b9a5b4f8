"""Collections in BEIR layout: ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/<split>.tsv``, each perhaps ``.gz``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc

from harness.arrow import as_numpy, strings
from harness.errors import DataError, UsageError
from harness.loaders.prepared import JoinRule, Texts, content_digest, prepare_texts
from harness.loaders.problems import Problems
from harness.loaders.qrels import group_judgments, judged_query_ids, read_beir_qrels
from harness.loaders.source import Source
from harness.protocols import Progress
from harness.storage.cache import Cache
from harness.strict_toml import nearest
from harness.types import Corpus, Ids, Qrels, Queries
from harness.wording import counted

__all__ = ["CORPUS", "LAYOUT", "Collection", "Reading", "read_collection", "read_corpus"]

CORPUS, _QUERIES = "corpus.jsonl", "queries.jsonl"
_QUERY_RULE = JoinRule(fields=("text",))
_NO_QUERIES = (
    'queries.jsonl holds what is asked, one {"_id": …, "text": …} a line. '
    "In Python, harness.loaders.load_corpus reads the documents alone"
)
_UNKNOWN_FIX = (
    "remove the judgments of unknown documents, or state them on a card, where they count as documents that no engine "
    "can find: judgments_of_unknown_documents = {{ {} = {} }}"
)
LAYOUT = "BEIR layout is corpus.jsonl, queries.jsonl and qrels/<split>.tsv"


@dataclass(frozen=True, slots=True)
class Reading:
    """How a collection is to be read.

    ``expected_documents`` is for the progress bar only. ``unknown_documents`` maps a split to the number of its
    judgments that are known to name documents outside the corpus; any other number of them is an error.
    """

    cache: Cache
    rule: JoinRule
    split: str | None = None
    unknown_documents: Mapping[str, int] = field(default_factory=dict)
    expected_documents: int | None = None
    progress: Progress | None = None


class Documents(NamedTuple):
    """A corpus and what its file is: its name on disk with its SHA-256, and what was accepted although it is odd."""

    corpus: Corpus
    raw_sha256: Mapping[str, str]
    notes: tuple[str, ...]


class Judged(NamedTuple):
    """Judgments of one split, and what their file is."""

    qrels: Qrels
    unknown_documents: int
    raw_sha256: Mapping[str, str]
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Collection:
    """A collection as its files say it.

    ``queries`` are those of the file without the queries that only other splits judge; ``all_queries`` counts the
    file's. ``qrels`` is None, and ``split`` empty, when there are no judgments; ``unknown_documents`` counts those of
    documents that the corpus lacks. ``raw_sha256`` maps each file read to its digest.
    """

    corpus: Corpus
    queries: Queries
    all_queries: int
    qrels: Qrels | None
    unknown_documents: int
    split: str
    splits: tuple[str, ...]
    raw_sha256: Mapping[str, str]
    notes: tuple[str, ...]


def read_corpus(source: Source, how: Reading, member: str | None = None) -> Documents:
    """The documents alone, of ``corpus.jsonl`` unless another member is named.

    Raises DataError when there are none or their file is faulty.
    """
    member = source.require(CORPUS, fix=LAYOUT) if member is None else member
    texts = prepare_texts(source, member, how.rule, how.cache, how.progress, how.expected_documents)
    corpus = Corpus(texts.ids, texts.texts, texts.digest, texts.path)
    return Documents(corpus, _raw(source, member), _labelled(member, texts.notes))


def read_collection(source: Source, how: Reading) -> Collection:
    """Documents, queries and the judgments of one split.

    The split defaults to ``test``, or to the only one there is. Where there are several, queries that only others judge
    are left out; a query that no split judges stays. Raises DataError for a faulty or missing file and for judgments
    that name unknown queries or documents, UsageError for a split that is not there.
    """
    source.require(CORPUS, fix=LAYOUT)
    member = source.require(_QUERIES, fix=_NO_QUERIES)
    chosen = _choose_split(source, how.split)
    queries, documents = _read_texts(source, member, how)
    known = _Known(queries.ids, documents.corpus.ids, how.unknown_documents.get(chosen, 0))
    judged = _read_judgments(source, chosen, known) if chosen else None
    return Collection(
        corpus=documents.corpus,
        queries=_of_split(source, chosen, queries),
        all_queries=len(queries.ids),
        qrels=judged.qrels if judged else None,
        unknown_documents=judged.unknown_documents if judged else 0,
        split=chosen,
        splits=source.splits,
        raw_sha256={**documents.raw_sha256, **_raw(source, member), **(judged.raw_sha256 if judged else {})},
        notes=(*documents.notes, *_labelled(member, queries.notes), *(judged.notes if judged else ())),
    )


def _read_texts(source: Source, member: str, how: Reading) -> tuple[Texts, Documents]:
    """Queries (of ``member``) and documents; the problems of both files are reported together."""
    try:
        queries = prepare_texts(source, member, _QUERY_RULE, how.cache, None)
    except DataError as fault:
        try:
            read_corpus(source, how)
        except DataError as other:
            raise DataError.of_files([fault, other]) from fault
        raise
    return queries, read_corpus(source, how)


def _choose_split(source: Source, wanted: str | None) -> str:
    splits = source.splits
    if wanted is None:
        if "test" in splits or not splits:
            return "test" if splits else ""
        if len(splits) == 1:
            return splits[0]
        raise UsageError(f"{source.path} has several splits and no 'test'", fix=f"choose one: {', '.join(splits)}")
    if wanted not in splits:
        known = f"there are: {', '.join(splits)}" if splits else "it has no qrels folder, so leave the split out"
        raise UsageError(f"{source.path} has no split '{wanted}'{nearest(wanted, splits)}", fix=known)
    return wanted


class _Known(NamedTuple):
    query_ids: Ids
    doc_ids: Ids
    unknown_documents: int


def _read_judgments(source: Source, split: str, known: _Known) -> Judged:
    member = source.require(f"qrels/{split}.tsv", fix=LAYOUT)
    problems, notes = Problems(source.label(member)), list[str]()
    with source.open(member) as stream:
        judgments = read_beir_qrels(stream, problems, notes)
    if not judgments.lines and not problems.count:
        problems.add(None, "the file holds no judgments")
    qrels = group_judgments(judgments, problems)
    for row in _unknown(judgments.query_ids, known.query_ids):
        problems.add(judgments.lines[row], f"query '{judgments.query_ids[row]}' is not in {_QUERIES}")
    strangers = _unknown(judgments.doc_ids, known.doc_ids)
    if len(strangers) == known.unknown_documents != len(judgments.lines):
        if strangers:
            verb = "names a document that is" if len(strangers) == 1 else "name documents that are"
            notes.append(f"{counted(len(strangers), 'judgment')} {verb} not in the corpus")
    else:
        for row in strangers:
            problems.add(judgments.lines[row], f"document '{judgments.doc_ids[row]}' is not in {CORPUS}")
    problems.raise_if_any(fix=_UNKNOWN_FIX.format(split, len(strangers)) if strangers else None)
    return Judged(qrels, len(strangers), _raw(source, member), _labelled(member, notes))


def _unknown(named: Sequence[str], known: Ids) -> list[int]:
    """Positions in ``named`` of ids that are not ``known``."""
    missing = pc.is_null(pc.index_in(strings(named), value_set=known.values))
    return np.flatnonzero(as_numpy(missing)).tolist()


def _of_split(source: Source, split: str, queries: Texts) -> Queries:
    """All queries but those that other splits judge and this one does not."""
    if len(source.splits) < 2:
        return Queries(queries.ids, queries.texts, queries.digest)
    judged = {name: _judged(source, name) for name in source.splits}
    elsewhere = set[str]().union(*judged.values()) - judged[split]
    others = strings(sorted(elsewhere))
    kept = pc.is_null(pc.index_in(queries.ids.values, value_set=others))
    ids, texts = Ids(queries.ids.values.filter(kept)), queries.texts.filter(kept)
    return Queries(ids, texts, content_digest(ids, texts))


def _judged(source: Source, split: str) -> set[str]:
    with source.open(source.require(f"qrels/{split}.tsv", fix=LAYOUT)) as stream:
        return judged_query_ids(stream)


def _raw(source: Source, member: str) -> Mapping[str, str]:
    return {source.raw_name(member): source.digest(member)}


def _labelled(member: str, notes: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{member}: {note}" for note in notes)
