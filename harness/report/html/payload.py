"""The list of queries as JSON in the page: the facts about every query, and the texts of as many as a page may hold.

JSON is in the page as it is, with ``<`` escaped so that no text can end the element that holds it. Large parts are
compressed by gzip, which browsers read (DecompressionStream), and written in base64. ``assets/data.js`` reads both.
"""

from __future__ import annotations

import base64
import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from harness.data.arrow import numbers, take_rows
from harness.data.labels import grades_of
from harness.data.texts import text_digest
from harness.data.types import Corpus, Int32Array, Int64Array, offsets_of
from harness.metrics import lower_is_better, reads_first
from harness.report.html.svg import short_names
from harness.report.rankings.explorer import Explorer, changes
from harness.report.rankings.pools import ranks_in_pools
from harness.results.pools import DEPTH, UNJUDGED, Pools, Top, pools_of, top_of
from harness.results.returned_texts import LONGEST_TEXT
from harness.wording import short_ids

TEXT_LENGTH = LONGEST_TEXT
"""Characters of a document's text that the page holds."""
_LONGEST_DOC = 16
"""Characters of an id that a column of a ranking has room for."""
_LARGE = 200_000
"""Bytes from which JSON is compressed."""
_LEVEL = 6
_QUERIES_A_BATCH = 32
_OF_DOCUMENTS = (
    "score",
    "exact_rank",
    "exact_score",
    "length",
    "stored_length",
    "of_all_documents",
    "norm",
    "quantised",
    "note",
)
_OF_PARTS = {
    "terms": ("contribution", "tf"),
    "fusion": ("contribution", "list_rank", "list_score"),
    "second stage": ("contribution", "list_rank", "list_score"),
    "vectors": (),
}
"""Columns of explanations that the page has of a document, and of each part of its score, by the kind."""


@dataclass(frozen=True, slots=True)
class Element:
    """The type of a script element that holds data, not a script, and its content."""

    type: str
    content: str


@dataclass(frozen=True, slots=True)
class Payload:
    """Content that a page embeds: ``data`` of all queries; ``texts`` of documents as rows of number, text and digest.

    ``scores`` of the first documents are separate from ``data``, as the texts are: only an opened query needs them.
    ``explanations`` are of ``explained`` queries. ``with_texts`` of ``queries`` queries have all of their texts.
    """

    data: Element
    scores: Element
    texts: Element
    explanations: Element
    queries: int
    with_texts: int
    explained: int
    depth: int = DEPTH
    text_length: int = TEXT_LENGTH


@dataclass(frozen=True, eq=False, slots=True)
class _Part:
    """The queries of one dataset.

    ``order`` int64 (Q,) has the largest changes first; documents are numbered from ``first`` on.
    """

    explorer: Explorer
    top: Top
    pools: Pools
    order: Int64Array
    first: int


def payload_of(
    explorers: Sequence[Explorer],
    budget: int,
    short: Mapping[str, str] = MappingProxyType({}),
    judging: Mapping[str, object] | None = None,
    page: int = 0,
) -> Payload:
    """Write the queries of one or several datasets, of the same rankings and metrics, into about ``budget`` characters.

    Texts of documents are added, for the queries that changed most first, until they would exceed the budget; each
    dataset gets an equal part of it. Data that all queries need is never left out. Explanations are added in the same
    order, up to as many characters as the page has without them, ``page`` of them outside of its data. ``short`` are
    the short labels that the page has for its long ones, ``judging`` the facts by which documents are judged on it,
    None if they cannot be.
    """
    parts: list[_Part] = []
    for explorer in explorers:
        top = top_of(explorer.runs, explorer.query_ids, explorer.qrels, explorer.relevance)
        pools = pools_of(top, explorer.runs, explorer.query_ids, explorer.qrels, explorer.relevance)
        first = parts[-1].first + len(parts[-1].pools.ids) if parts else 0
        parts.append(_Part(explorer, top, pools, changes(explorer, top.docs), first))
    data = element_of(orjson.dumps({**_data(parts, short), "judging": judging}))
    scores = element_of(orjson.dumps([query for part in parts for query in _scores(part.explorer, part.top)]))
    texts, with_texts = _packed(list(map(_batches, parts)), budget - len(data.content) - len(scores.content))
    starts = offsets_of(np.array([len(explorer.query_ids) for explorer in explorers])).tolist()
    room = page + sum(len(element.content) for element in (data, scores, texts))
    explanations, explained = _packed([_explanations(*pair) for pair in zip(parts, starts, strict=False)], room)
    return Payload(data, scores, texts, explanations, starts[-1], with_texts, explained)


def element_of(content: bytes) -> Element:
    """Return JSON as the content of a script element, compressed if it is large."""
    if len(content) < _LARGE:
        return Element("application/json", content.replace(b"<", b"\\u003c").decode())
    return _compressed(gzip.compress(content, _LEVEL, mtime=0))


def _compressed(content: bytes) -> Element:
    return Element("application/gzip", base64.b64encode(content).decode("ascii"))


def _data(parts: Sequence[_Part], short: Mapping[str, str]) -> dict[str, Any]:
    explorer, docs = parts[0].explorer, [id_ for part in parts for id_ in part.pools.ids]
    names, short_docs = short_names(explorer.labels, short), explorer.document_names(docs, _LONGEST_DOC)
    short_queries = short_ids(id_ for part in parts for id_ in part.explorer.query_ids.to_list())
    agreement = next((part.explorer.agreement for part in parts if part.explorer.agreement is not None), None)
    return {
        "labels": list(explorer.labels),
        "names": [names[label] for label in explorer.labels],
        "metrics": list(explorer.metrics),
        "lowerIsBetter": list(map(lower_is_better, explorer.metrics)),
        "readsFirst": list(map(reads_first, explorer.metrics)),
        "missed": list(explorer.depths),
        "datasets": [part.explorer.dataset for part in parts],
        "depth": DEPTH,
        "against": explorer.references.tolist(),
        "paired": explorer.against is not None,
        "kept": list(explorer.stored_depths) if explorer.stored_depths is not None else [None] * len(explorer.labels),
        "relevance": explorer.relevance,
        "judged": any(part.explorer.qrels is not None for part in parts),
        "expecting": explorer.expected is not None,
        "states": list(agreement.states) if agreement is not None else None,
        "agrees": agreement.agrees if agreement is not None else 0,
        "colours": list(explorer.series) or None,
        "explain": [part.explorer.explain for part in parts],
        "corpora": list(explorer.corpora),
        "docs": docs,
        "shortDocs": _unless_same(docs, short_docs),
        "shortQueries": {id_: short_id for id_, short_id in short_queries.items() if id_ != short_id},
        "queries": [row for number, part in enumerate(parts) for row in _queries(part, number)],
    }


def _unless_same(docs: Sequence[str], short: Mapping[str, str]) -> list[str] | None:
    """Return the ids as shown in narrow columns; None if all are shown unchanged."""
    return [short[doc] for doc in docs] if any(doc != short_name for doc, short_name in short.items()) else None


def _queries(part: _Part, dataset: int) -> Iterator[dict[str, Any]]:
    """Yield the facts about each query; a rank is 0 if a document is not found, None if that is unknown."""
    explorer, top, pools = part.explorer, part.top, part.pools
    position = np.empty(len(part.order), dtype=np.int64)
    position[part.order] = np.arange(len(part.order))
    texts = explorer.query_texts()
    relevant, by_models = _relevant(explorer), _labels_by_models(explorer)
    ranks = ranks_in_pools(explorer, top, pools)
    grades = [None if grade == UNJUDGED else grade for grade in pools.grades.tolist()]
    docs, ids = (pools.docs + part.first).tolist(), explorer.query_ids.to_list()
    doc_numbers = {id_: part.first + number for number, id_ in enumerate(pools.ids)} if explorer.expected else {}
    for query, (start, end) in enumerate(pairwise(pools.indptr.tolist())):
        row = {
            "id": ids[query],
            "dataset": dataset,
            "text": texts[query],
            "place": int(position[query]),
            "docs": docs[start:end],
            "grades": grades[start:end],
            "ranks": [ranking[start:end] for ranking in ranks],
            "hits": top.hits[:, query].tolist(),
            "relevant": int(relevant[query]),
        }
        if labelled := by_models.get(ids[query]):
            names = [pools.ids[number] for number in pools.docs[start:end].tolist()]
            row["by_model"] = [slot for slot, name in enumerate(names) if name in labelled]
        if explorer.filters:
            row["filter"] = explorer.filters[query]
        further = explorer.further.get(ids[query])
        if further:
            names = [pools.ids[number] for number in pools.docs[start:end].tolist()]
            row["further"] = {str(slot): further[name] for slot, name in enumerate(names) if name in further}
        if explorer.values is not None:
            row["values"] = explorer.values[:, :, query].tolist()
        if explorer.agreement is not None:
            row["states"] = explorer.agreement.state[:, query].tolist()
            row["causes"] = [
                explorer.agreement.causes[cause] if cause >= 0 else None
                for cause in explorer.agreement.cause[:, query].tolist()
            ]
        if explorer.expected is not None:
            slots = {doc: slot for slot, doc in enumerate(row["docs"])}
            row["expected"] = [
                {
                    "id": expected.id,
                    "grade": expected.grade,
                    "group": expected.group,
                    "ranks": list(expected.ranks),
                    "reference_ranks": list(expected.reference_ranks) or [None] * len(expected.ranks),
                    "slots": [slots[doc] for name in expected.documents if (doc := doc_numbers.get(name)) in slots],
                }
                for expected in explorer.expected[query]
            ]
        if explorer.failed is not None:
            row["failed"] = explorer.failed[:, query].tolist()
        yield row


def _labels_by_models(explorer: Explorer) -> dict[str, set[str]]:
    """Return the documents of each query to which only a model gave a grade."""
    if explorer.qrels is None or explorer.qrels.human is None:
        return {}
    human = grades_of(explorer.qrels.human)
    return {query: grades.keys() - human.get(query, {}).keys() for query, grades in grades_of(explorer.qrels).items()}


def _scores(explorer: Explorer, top: Top) -> list[tuple[list[float], ...]]:
    """Return the first scores of each query and ranking, to six digits; none of rankings that are not kept whole."""
    scores: list[list[list[float]]] = []
    for number, ranking in enumerate(top.scores):
        if explorer.stored_depths is not None and explorer.stored_depths[number] is not None:
            scores.append([[]] * len(ranking))
        else:
            scores.append([[float(f"{score:.6g}") for score in row if score == score] for row in ranking.tolist()])
    return list(zip(*scores, strict=True))


def _relevant(explorer: Explorer) -> npt.NDArray[np.int64]:
    counts = np.zeros(len(explorer.query_ids), dtype=np.int64)
    qrels = explorer.qrels
    if qrels is not None:
        owner = np.repeat(explorer.query_ids.rows_of(qrels.query_ids), np.diff(qrels.indptr))
        np.add.at(counts, owner[(owner >= 0) & (qrels.grades >= explorer.relevance)], 1)
    return counts


def _packed(parts: Sequence[Iterator[tuple[int, list[bytes]]]], room: int) -> tuple[Element, int]:
    """Return JSON of at most ``room`` characters in all, and how many queries have all of theirs.

    ``parts`` yield for each dataset, the largest changes first, a number of queries and their values in JSON.
    """
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, 31)
    pieces, plain = [packer.compress(b"[")], [b"["]
    size, queries = 0, 0
    for number, part in enumerate(parts):
        limit = size + (3 * room // 4 - size) // (len(parts) - number)
        for count, rows in part:
            content = b",".join([b"", *rows] if len(plain) > 1 else rows)
            before = packer.copy()
            piece = packer.compress(content) + packer.flush(zlib.Z_SYNC_FLUSH)
            if size + len(piece) + 64 > limit:
                packer = before
                break
            queries += count
            if rows:
                pieces.append(piece)
                plain.append(content)
                size += len(piece)
    if sum(map(len, plain)) < min(_LARGE, room):
        return element_of(b"".join([*plain, b"]"])), queries
    return _compressed(b"".join([*pieces, packer.compress(b"]"), packer.flush()])), queries


def _batches(part: _Part) -> Iterator[tuple[int, list[bytes]]]:
    """Yield a number of queries, and the texts of their documents that no earlier ones have, as rows in JSON."""
    corpus = part.explorer.corpus
    if corpus is None:
        return
    rows = corpus.ids.rows_of(part.pools.ids)
    for count, docs in _new_documents(part.pools, part.order):
        yield count, [orjson.dumps(row) for row in _texts_of(corpus, rows[docs], docs + part.first)]


def _new_documents(pools: Pools, order: Int64Array) -> Iterator[tuple[int, Int64Array]]:
    """Yield a number of queries, and the documents shown for them that no earlier ones have."""
    seen = np.zeros(len(pools.ids), dtype=np.bool_)
    visible = pools.visible
    for start in range(0, len(order), _QUERIES_A_BATCH):
        batch = order[start : start + _QUERIES_A_BATCH]
        spans = [slice(pools.indptr[query], pools.indptr[query + 1]) for query in batch.tolist()]
        docs = np.unique(np.concatenate([pools.docs[span][visible[span]] for span in spans]))
        docs = docs[~seen[docs]]
        seen[docs] = True
        yield len(batch), docs


def _texts_of(corpus: Corpus, rows: Int32Array, docs: Int64Array) -> Iterator[tuple[object, ...]]:
    """Yield the number, the text and its digest for each document that the corpus has in one of its rows.

    Of a longer text, the beginning and a fourth value are yielded; the digest is always of the full text.
    """
    texts = iter(take_rows(corpus.texts, rows[rows >= 0]).to_pylist())
    for doc in docs[rows >= 0].tolist():
        text = next(texts)
        if len(text) <= TEXT_LENGTH:
            yield doc, text, text_digest(text)
        else:
            yield doc, f"{text[: TEXT_LENGTH - 1]}…", text_digest(text), 1


def _explanations(part: _Part, first: int) -> Iterator[tuple[int, list[bytes]]]:
    """Yield a number of queries, and the explanations of their documents in JSON; queries are numbered from ``first``.

    A query has ``parts``, which are a term with its weight, df, N and IDF, or the name of a list or document; and
    ``of`` each ranking its documents by slot. Contributions have the digits that give the same float32 again.
    """
    table, explorer = part.explorer.explanations, part.explorer
    if table is None:
        return
    table = table.combine_chunks()
    rankings = [*explorer.labels]
    owner = explorer.query_ids.rows_of(table["query_id"].combine_chunks())
    by_query = np.argsort(owner, kind="stable")
    starts = np.searchsorted(owner[by_query], np.arange(len(explorer.query_ids) + 1))
    for start in range(0, len(part.order), _QUERIES_A_BATCH):
        batch = part.order[start : start + _QUERIES_A_BATCH].tolist()
        explained = []
        for query in batch:
            rows = table.take(numbers(by_query[starts[query] : starts[query + 1]])).to_pylist()
            span = slice(part.pools.indptr[query], part.pools.indptr[query + 1])
            slots = {part.pools.ids[doc]: str(slot) for slot, doc in enumerate(part.pools.docs[span].tolist())}
            if rows:
                content = {"query": first + query, **_explanation(rows, rankings, slots)}
                explained.append(orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY))
        yield len(explained), explained


def _explanation(rows: Sequence[dict[str, Any]], rankings: Sequence[str], slots: Mapping[str, str]) -> dict[str, Any]:
    """Return the explanations of one query: ``rows`` are those of the table."""
    numbered: dict[tuple[Any, ...], int] = {}
    of: list[dict[str, Any] | None] = [None] * len(rankings)
    for row in rows:
        slot = slots.get(row["doc_id"])
        if row["backend"] not in rankings or slot is None:
            continue
        number = rankings.index(row["backend"])
        ranking = of[number] = of[number] or {"kind": row["kind"], "docs": {}}
        if slot not in (docs := ranking["docs"]):
            docs[slot] = {name: _compact(row[name]) for name in _OF_DOCUMENTS if row[name] is not None} | {"parts": []}
        if row["part"] is None:
            continue
        idf = None if row["idf"] is None else float(f"{row['idf']:.6g}")
        entry = (row["part"], *(_compact(row[name]) for name in ("weight", "df", "documents")), idf)
        of_part = numbered.setdefault(entry if row["kind"] == "terms" else entry[:1], len(numbered))
        values = [_compact(row[name]) for name in _OF_PARTS[row["kind"]]]
        docs[slot]["parts"].append([of_part, *values])
    return {"parts": list(numbered), "of": of}


def _compact(value: Any) -> Any:
    """Return a float32 as such: its shortest decimals are written, and integers without a decimal point."""
    if not isinstance(value, float):
        return value
    return int(value) if value.is_integer() else np.float32(value)
