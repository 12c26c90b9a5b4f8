"""Pitfalls in a dataset that loads without an error and gives figures that mean something else.

Each check takes a dataset and returns a finding or None; :data:`DATASET_CHECKS` lists them. A threshold lies at the
limit of sound collections, and its docstring names the collections that it was drawn from. Data that is always wrong,
such as judgments of unknown documents, is an error of the loader, and :mod:`harness.data.id_spelling` gives the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from harness.data.arrow import take_rows
from harness.data.dataset import Dataset
from harness.data.id_spelling import advice_on_documents
from harness.data.judgments import repeated_judgments
from harness.data.problems import Finding
from harness.data.types import Ids, Int64Array
from harness.loaders.base import HIDDEN, TEXT_ENDINGS
from harness.loaders.text_index import RepeatedTexts, TextIndex, hashes_of, index_of
from harness.store.cache import Cache
from harness.wording import counted, unread_files_in_words

_MAX_EXAMPLES = 3
_NO_TEXT = tuple(
    "".join(letters)
    for word in ("nan", "none", "null", "n/a")
    for letters in product(*({letter, letter.upper()} for letter in word))
)
"""Words that programs write in place of missing text, in upper and lower case."""


def dataset_findings(dataset: Dataset, relevance: int = 1, cache: Cache | None = None) -> list[Finding]:
    """Return the findings of reading the dataset, and of all checks in the order of the table.

    Args:
        dataset: documents, queries and perhaps judgments. Without documents nothing is looked at.
        relevance: the lowest relevant grade.
        cache: keeps the index of a large corpus' texts for the next time.
    """
    if not len(dataset.corpus):
        return []
    loaded = _LoadedRows(dataset, relevance, cache)
    qrels = dataset.qrels
    queries = max(len(dataset.queries), len(qrels.query_ids) if qrels is not None else 0)
    present = {
        "files": bool(dataset.unread_files),
        "judgments": qrels is not None,
        "judgments of texts": qrels is not None and dataset.vectors is None,
        "repeated judgments": qrels is not None and qrels.repeated > 0,
        "texts": dataset.vectors is None,
        "titles": dataset.titles is not None,
    }
    checks = [find for find, (part, least) in DATASET_CHECKS.items() if present[part] and queries >= least]
    return [*dataset.findings, *(finding for find in checks if (finding := find(loaded)) is not None)]


@dataclass(frozen=True, eq=False)
class _LoadedRows:
    """A dataset with values that several checks need."""

    dataset: Dataset
    relevance: int
    cache: Cache | None

    @cached_property
    def index(self) -> TextIndex:
        """Return the documents by their texts."""
        return index_of(self.dataset.corpus, self.cache, about=self.dataset.name)

    @cached_property
    def judged(self) -> _JudgedPairs | None:
        """Return judgments of known queries and documents; None without judgments."""
        qrels = self.dataset.qrels
        if qrels is None:
            return None
        query = np.repeat(self.dataset.queries.ids.rows_of(qrels.query_ids), np.diff(qrels.indptr)).astype(np.int64)
        document = self.dataset.corpus.ids.rows_of(qrels.doc_ids)[qrels.rows].astype(np.int64)
        is_loaded = (query >= 0) & (document >= 0)
        return _JudgedPairs(query[is_loaded], document[is_loaded], (qrels.grades >= self.relevance)[is_loaded])


def _warning(check: str, message: str, fix: str, examples: tuple[str, ...] = ()) -> Finding:
    return Finding(check, "warning", message, fix, examples)


class _JudgedPairs(NamedTuple):
    """Rows of query and document of each judgment, and whether it is relevant; all (J,)."""

    query: Int64Array
    document: Int64Array
    relevant: npt.NDArray[np.bool_]


def _unknown_judged_documents(loaded: _LoadedRows) -> Finding | None:
    """Find judgments of documents that the corpus lacks, unless the dataset's card states their number."""
    dataset = loaded.dataset
    if dataset.qrels is None or dataset.states_unknown_documents:
        return None
    lacking = dataset.corpus.ids.rows_of(dataset.qrels.doc_ids) < 0
    unknown = lacking[dataset.qrels.rows]
    if not unknown.any():
        return None
    count, relevant = int(unknown.sum()), int((unknown & (dataset.qrels.grades >= loaded.relevance)).sum())
    names = dataset.qrels.doc_ids.take(np.flatnonzero(lacking)[:_MAX_EXAMPLES])
    if count == 1:
        finding = "is of a document not in the corpus; it is "
        finding += "relevant, and no backend can find it" if relevant else "not relevant"
    else:
        finding = f"are of documents not in the corpus; {relevant:,} of them relevant, which no backend can find"
    return _warning(
        "unknown-judged-documents",
        f"{count:,} of {counted(len(dataset.qrels), 'judgment')} {finding}",
        f"{advice_on_documents(dataset.qrels.doc_ids, dataset.corpus.ids)}; or remove these judgments",
        (", ".join(f"'{name}'" for name in names),),
    )


def _repeated_judgments(loaded: _LoadedRows) -> Finding | None:
    return next(iter(repeated_judgments(loaded.dataset.qrels)), None)


def _few_judged_queries(loaded: _LoadedRows) -> Finding | None:
    """Find judgments of fewer than one query in twenty.

    Query files are often larger than a split, but not so much: 5.4 % of FEVER's queries are in its test split, 6.9 % of
    MS MARCO's in the smaller dev set. Fewer than 20 queries are not looked at.
    """
    qrels, queries = loaded.dataset.qrels, loaded.dataset.queries
    if qrels is None or len(queries) < 20:
        return None
    judged = int(np.count_nonzero(queries.ids.rows_of(qrels.query_ids) >= 0))
    if 20 * judged >= len(queries):
        return None
    return _warning(
        "wrong-split",
        f"{judged:,} of {len(queries):,} queries are judged ({judged / len(queries):.1%}); the others are searched "
        "but do not count",
        "look whether the judgments are of the split that the queries are of (--split, --qrels), or leave the queries "
        "of other splits out of their file",
    )


def _pool_as_relevant(loaded: _LoadedRows) -> Finding | None:
    """Find judgments that are all relevant and nearly as many for each query: a pool or a list with its negatives.

    How many documents are relevant differs widely between real queries: CACM has 15.3 of each query with a variance of
    152. Numbers that came about by chance would have a variance equal to their mean (Poisson). Reported is a mean of at
    least 8 with a variance below a quarter of it, over at least 5 queries.
    """
    qrels = loaded.dataset.qrels
    if qrels is None or bool((qrels.grades < loaded.relevance).any()):
        return None
    counts = np.diff(qrels.indptr)
    if len(counts) < 5 or counts.mean() < 8 or counts.var() >= counts.mean() / 4:
        return None
    return _warning(
        "negatives-as-relevant",
        f"all {len(qrels):,} judgments are relevant, and each of {len(counts):,} queries has nearly as many of them "
        f"({counts.min():,} to {counts.max():,}, {counts.mean():.1f} on average), as a list of candidates has that "
        "holds negatives too",
        "give negatives grade 0, as MIRACL's are; if all are really relevant, ignore this",
    )


def _scale_without_zero(loaded: _LoadedRows) -> Finding | None:
    """Find a scale of three grades or more that begins above 0, and whose lowest grade most judgments have.

    Of a pool most documents are not relevant, so that grade probably means this. Two grades are not looked at:
    NFCorpus has 1 and 2, and both are relevant.
    """
    qrels = loaded.dataset.qrels
    if qrels is None or not len(qrels):
        return None
    levels, counts = np.unique(qrels.grades, return_counts=True)
    lowest, count = int(levels[0]), int(counts[0])
    if len(levels) < 3 or lowest < max(1, loaded.relevance) or 2 * count <= len(qrels):
        return None
    return _warning(
        "negatives-as-relevant",
        f"grades are {', '.join(map(str, levels.tolist()))}, and {count:,} of {len(qrels):,} judgments have the "
        f"lowest, {lowest}, which counts as relevant",
        f"if {lowest} means 'not relevant': write 0 for it, or --relevance {int(levels[1])} (nDCG counts every grade "
        "above 0 all the same)",
    )


def _duplicate_texts(loaded: _LoadedRows) -> Finding | None:
    """Find texts that many documents share.

    Duplicates are normal: ArguAna has 48, NanoSCIDOCS 350 of 2,210 (16 %), and LoTTE half of its documents. Their cost
    is a relevant document whose twin is unjudged: the twin ties with it and counts as wrong. Reported are such twins of
    more than a fifth of the relevant judgments (5 at least), and repeated texts of more than half of the documents.
    Nothing is reported if queries have filters, which mostly leave one of the twins: each tenant has the same texts.
    """
    if loaded.dataset.filtered is not None:
        return None
    repeated, judged, documents = loaded.index.repeated(), loaded.judged, len(loaded.dataset.corpus)
    count = len(repeated.rows)
    twins = _relevant_with_unjudged_twin(repeated, judged) if judged is not None and count else np.empty(0, np.int64)
    relevant = int(np.count_nonzero(judged.relevant)) if judged is not None else 0
    many_twins = len(twins) >= 5 and 5 * len(twins) > relevant
    if not many_twins and 2 * count <= documents:
        return None
    cost = f"; {len(twins):,} of {relevant:,} relevant judgments are of a document whose twin is not judged"
    first = repeated.group[twins.min() if len(twins) else 0]
    examples = loaded.dataset.corpus.ids.take(repeated.rows[repeated.group == first][:_MAX_EXAMPLES])
    return _warning(
        "duplicate-texts",
        f"{count:,} of {documents:,} documents have the same text as another document" + (cost if len(twins) else ""),
        "leave the repeated documents out, or judge them as their twins are: engines rank equal texts in any order, "
        "and an unjudged twin counts as wrong",
        (f"{', '.join(repr(name) for name in examples)} are equal",),
    )


def _relevant_with_unjudged_twin(repeated: RepeatedTexts, judged: _JudgedPairs) -> Int64Array:
    """Return the place among repeated documents of each relevant judgment whose query has a twin of it unjudged."""
    position = np.minimum(np.searchsorted(repeated.rows, judged.document), len(repeated.rows) - 1)
    is_repeated = repeated.rows[position] == judged.document
    position, query, relevant = position[is_repeated], judged.query[is_repeated], judged.relevant[is_repeated]
    key = query * len(repeated.rows) + repeated.group[position]
    _, pair, counts = np.unique(key, return_inverse=True, return_counts=True)
    lacking: Int64Array = position[relevant & (counts[pair] < repeated.size[position])]
    return lacking


def _near_empty_documents(loaded: _LoadedRows) -> Finding | None:
    """Find texts that are empty, or ``nan``, ``None``, ``null`` or ``N/A`` in upper or lower case.

    A short text is not a pitfall: answers in Korean, Chinese or Japanese may be one character. Real collections have
    few empty ones: FiQA 38 of 57,638 (0.07 %), MIRACL 26 of 7 million in Japanese. Reported are more than 2 %, and at
    least 3.
    """
    empty, *placeholder_rows = loaded.index.rows_of(hashes_of(["", *_NO_TEXT]))
    filled = np.sort(np.concatenate(placeholder_rows))
    lacking = np.concatenate([empty, filled])
    documents = len(loaded.dataset.corpus)
    if len(lacking) < 3 or 50 * len(lacking) <= documents:
        return None
    judged = loaded.judged
    lost = int(np.count_nonzero(judged.relevant & np.isin(judged.document, lacking))) if judged is not None else 0
    relevant = f", and {counted(lost, 'relevant judgment')} of them" if lost else ""
    examples = filled[:_MAX_EXAMPLES]
    texts = take_rows(loaded.dataset.corpus.texts, examples).to_pylist()
    return _warning(
        "near-empty-documents",
        f"{len(lacking):,} of {documents:,} documents have no text ({len(empty):,} empty, {len(filled):,} with 'nan', "
        f"'None', 'null' or 'N/A'){relevant}",
        "look whether the text is in another field (--columns text=FIELD), or was lost when the file was made",
        tuple(
            f"'{name}' is {text.strip()!r}"
            for name, text in zip(loaded.dataset.corpus.ids.take(examples), texts, strict=True)
        ),
    )


def _queries_as_documents(loaded: _LoadedRows) -> Finding | None:
    """Find queries whose text is a document's text.

    If queries are documents too (ArguAna, Quora), a query finds itself first. A card drops hits that have the query's
    id; without that rule, or under another id, the document takes the place of an answer: nDCG@10 of ArguAna is 0.315
    with and 0.414 without. Reported are such documents for a tenth of the queries (3 at least). If the equal document
    is the relevant one, finding it is not an achievement: reported for half of the queries (5 at least).
    """
    equal = _equal_documents(loaded)
    if not equal:
        return None
    dataset, judged, relevant = loaded.dataset, loaded.judged, set[tuple[int, int]]()
    if judged is not None:
        pairs = judged.query[judged.relevant].tolist(), judged.document[judged.relevant].tolist()
        relevant = set(zip(*pairs, strict=True))
    answered_by_itself = [query for query, rows in equal.items() if any((query, row) in relevant for row in rows)]
    in_the_way = sorted(equal.keys() - set(answered_by_itself))
    if len(in_the_way) >= max(3, len(dataset.queries) / 10):
        return _copies_of_queries(dataset, in_the_way, equal)
    if len(answered_by_itself) < max(5, len(dataset.queries) / 2):
        return None
    return _warning(
        "query-is-document",
        f"the text of {len(answered_by_itself):,} of {counted(len(dataset.queries), 'query', 'queries')} is the "
        "whole text of "
        "a document that is relevant for it",
        "ask as people do, in other words than the document's: any backend finds an equal text first",
        _example_ids(dataset.queries.ids, answered_by_itself),
    )


def _equal_documents(loaded: _LoadedRows) -> dict[int, list[int]]:
    """Return query row -> rows of the documents with its text, without documents that are dropped for their id."""
    dataset = loaded.dataset
    query_hashes = hashes_of(dataset.queries.texts)
    nothing = hashes_of([""])[0]
    query_rows = dataset.corpus.ids.rows_of(dataset.queries.ids)
    equal = {
        query: [row for row in rows.tolist() if dataset.identical_ids != "drop" or row != query_rows[query]]
        for query, rows in enumerate(loaded.index.rows_of(query_hashes))
        if query_hashes[query] != nothing
    }
    return {query: rows for query, rows in equal.items() if rows}


def _copies_of_queries(dataset: Dataset, queries: Sequence[int], equal: Mapping[int, Sequence[int]]) -> Finding:
    query_rows = dataset.corpus.ids.rows_of(dataset.queries.ids)
    by_id = sum(int(query_rows[query]) in equal[query] for query in queries)
    if by_id == len(queries):
        fix = "--identical-ids drop leaves them out before scoring"
    elif by_id:
        fix = f"--identical-ids drop leaves {by_id:,} of them out before scoring; remove the others from the corpus"
    else:
        fix = "take these documents out of the corpus, or judge them"
    return _warning(
        "query-is-document",
        f"the text of {len(queries):,} of {counted(len(dataset.queries), 'query', 'queries')} is the text of a "
        "document that is not relevant for it, and comes first",
        fix,
        _example_ids(dataset.queries.ids, queries),
    )


def _example_ids(ids: Ids, rows: Sequence[int]) -> tuple[str, ...]:
    return tuple(f"query '{name}'" for name in ids.take(np.array(rows[:_MAX_EXAMPLES], dtype=np.int64)))


def _titles_missing(loaded: _LoadedRows) -> Finding | None:
    """Find titles that are filled in some documents, and in fewer than a tenth.

    BEIR stores documents without a title with an empty title (FiQA, Quora, MS MARCO), so a title that is always empty
    is not a finding. Collections of fewer than 20 documents are not checked.
    """
    titles = loaded.dataset.titles
    if titles is None or titles.records < 20 or not 0 < 10 * titles.filled < titles.records:
        return None
    return _warning(
        "title-missing",
        f"{titles.filled:,} of {titles.records:,} documents have a title ({titles.filled / titles.records:.1%})",
        "check whether the other titles were lost or are in another field",
    )


def _titles_unused(loaded: _LoadedRows) -> Finding | None:
    """Find titles that at least half of the documents have and that are not searched.

    They are in a field that plays no role, or the card's ``[text] fields`` leave them out. Published figures of
    collections with titles search title and text.
    """
    titles = loaded.dataset.titles
    if titles is None or titles.records < 20:
        return None
    if not titles.searched and 2 * titles.filled >= titles.records:
        return _warning(
            "title-missing",
            f"{titles.filled:,} of {titles.records:,} documents have a title, and it is not searched: texts are joined "
            f"by the rule '{loaded.dataset.provenance.get('join', 'text alone')}'",
            'write fields = ["title", "text"] into [text] of the card, unless only the texts are to be searched',
        )
    field, filled = max(titles.unused.items(), key=lambda item: item[1], default=("", 0))
    if titles.filled or 2 * filled < titles.records:
        return None
    return _warning(
        "title-missing",
        f"{filled:,} of {titles.records:,} documents have a field '{field}', which is not searched, and none has a "
        "title",
        f"if it is the title: --columns title={field}",
    )


def _unread_files(loaded: _LoadedRows) -> Finding | None:
    """Find unread files in the corpus's folder; only hidden files are not a finding."""
    unread = loaded.dataset.unread_files
    if not unread.keys() - {HIDDEN}:
        return None
    return _warning(
        "unread-files",
        f"{unread_files_in_words(unread)}; a smaller corpus is easier to search",
        f"convert the documents among them to text ({', '.join(TEXT_ENDINGS)}; plain or compressed)",
    )


DATASET_CHECKS: Mapping[Callable[[_LoadedRows], Finding | None], tuple[str, int]] = {
    _unread_files: ("files", 0),
    _unknown_judged_documents: ("judgments", 0),
    _repeated_judgments: ("repeated judgments", 0),
    _few_judged_queries: ("judgments", 20),
    _pool_as_relevant: ("judgments of texts", 5),
    _scale_without_zero: ("judgments", 0),
    _duplicate_texts: ("texts", 0),
    _near_empty_documents: ("texts", 0),
    _queries_as_documents: ("texts", 3),
    _titles_missing: ("titles", 0),
    _titles_unused: ("titles", 0),
}
"""Every check of a dataset, with the part of it that is checked and the fewest queries among which it can find any."""
