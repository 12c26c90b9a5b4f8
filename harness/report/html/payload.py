"""The explorer's data as packed text: metrics and top ranks of all queries, texts of as many as a page may hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.data.arrow import take_rows
from harness.data.types import Corpus, Ids, Int32Array
from harness.report.html.explorer import Explorer, changes
from harness.report.html.pack import pack, string_columns
from harness.report.html.pools import DEPTH, NO_PLACE, UNJUDGED, Pools, pools_of, top_of

__all__ = ["TEXT_LENGTH", "Payload", "payload_of"]

TEXT_LENGTH = 1500
"""Characters of a document's text that the page holds."""
_QUERIES_A_CHUNK = 32
_AROUND_A_CHUNK, _HELD = 64, 6
"""Characters of the element that holds a chunk, and, at most, of a document's number in the list of those held."""
_NO_DOCUMENTS = Corpus(Ids.of([]), pa.chunked_array([], pa.string()), "")


@dataclass(frozen=True, slots=True)
class Payload:
    """Packed text: ``core`` is read when the page opens, each of ``texts`` when a query that needs it is opened.

    ``held`` says which documents the texts are of. ``with_texts`` of ``queries`` queries have all of theirs.
    """

    core: str
    held: str
    texts: Sequence[str]
    queries: int
    with_texts: int
    depth: int = DEPTH
    text_length: int = TEXT_LENGTH


def payload_of(explorer: Explorer, budget: int) -> Payload:
    """Pack an explorer into about ``budget`` characters: texts of documents are added, those of the queries that
    changed most first, until they would exceed it. What all queries need is never left out."""
    top = top_of(explorer.runs, explorer.query_ids, explorer.qrels, explorer.relevance)
    pools = pools_of(top, explorer.runs, explorer.query_ids, explorer.qrels, explorer.relevance)
    order = changes(explorer.values, explorer.references, top.docs)
    core = pack(_header(explorer), _columns(explorer, pools, top.scores, top.hits, order))
    chunks, held, with_texts = _texts(explorer, pools, order, budget - len(core))
    return Payload(core, pack({}, held), chunks, len(explorer.query_ids), with_texts)


def _header(explorer: Explorer) -> dict[str, Any]:
    agreement = explorer.agreement
    return {
        "labels": list(explorer.labels),
        "metrics": list(explorer.metrics),
        "queries": len(explorer.query_ids),
        "depth": DEPTH,
        "reference": explorer.reference,
        "against": list(explorer.against) if explorer.against is not None else None,
        "kept": list(explorer.kept) if explorer.kept is not None else [None] * len(explorer.labels),
        "relevance": explorer.relevance,
        "judged": explorer.qrels is not None,
        "no_place": NO_PLACE,
        "unjudged": UNJUDGED,
        "states": list(agreement.states) if agreement is not None else [],
        "agrees": agreement.agrees if agreement is not None else 0,
        "causes": list(agreement.causes) if agreement is not None else [],
    }


def _columns(
    explorer: Explorer,
    pools: Pools,
    scores: npt.NDArray[np.float32],
    hits: npt.NDArray[np.int64],
    order: npt.NDArray[np.int64],
) -> dict[str, npt.NDArray[Any]]:
    queries = len(explorer.query_ids)
    columns: dict[str, npt.NDArray[Any]] = {
        **string_columns("query_ids", explorer.query_ids.to_list()),
        **string_columns("doc_ids", pools.ids.to_list()),
        "pool_starts": pools.indptr.astype(np.uint32),
        "pool_docs": pools.docs.astype(np.uint32),
        "pool_grades": pools.grades,
        "pool_ranks": pools.ranks,
        "places": pools.place,
        "scores": _known(scores, explorer.kept),
        "hits": hits.astype(np.uint32),
        "order": order.astype(np.uint32),
        "relevant": _relevant(explorer, queries),
    }
    if explorer.queries is not None:
        columns |= string_columns("query_texts", _query_texts(explorer))
    if explorer.values is not None:
        distinct, codes = np.unique(explorer.values, return_inverse=True, equal_nan=True)
        columns["value_table"], columns["values"] = distinct, codes.reshape(-1).astype(np.uint32)
    expected = explorer.expectations
    if expected is not None:
        columns |= string_columns("expected_names", expected.names)
        columns |= {"expected_starts": expected.indptr.astype(np.uint32), "expected_grades": expected.grades}
        columns["expected_ranks"] = expected.ranks
    if explorer.agreement is not None:
        columns["states"], columns["causes"] = explorer.agreement.state, explorer.agreement.cause
    return columns


def _known(scores: npt.NDArray[np.float32], kept: Sequence[int | None] | None) -> npt.NDArray[np.float32]:
    """The scores; NaN for rankings of which not all was kept, where numbers only stand for an order."""
    cut = np.array([count is not None for count in kept or [None] * len(scores)], dtype=np.bool_)
    return np.where(cut[:, None, None], np.float32(np.nan), scores)


def _relevant(explorer: Explorer, queries: int) -> npt.NDArray[np.uint32]:
    """How many relevant documents each query has; uint32 (Q,)."""
    counts = np.zeros(queries, dtype=np.uint32)
    qrels = explorer.qrels
    if qrels is not None:
        owner = np.repeat(explorer.query_ids.rows_of(qrels.query_ids), np.diff(qrels.indptr))
        np.add.at(counts, owner[(owner >= 0) & (qrels.grades >= explorer.relevance)], 1)
    return counts


def _query_texts(explorer: Explorer) -> list[str]:
    if explorer.queries is None:
        return []
    rows = explorer.queries.ids.rows_of(explorer.query_ids)
    known = iter(take_rows(explorer.queries.texts, rows[rows >= 0]).to_pylist())
    return [next(known) if row >= 0 else "" for row in rows.tolist()]


def _texts(
    explorer: Explorer, pools: Pools, order: npt.NDArray[np.int64], room: int
) -> tuple[list[str], dict[str, npt.NDArray[Any]], int]:
    """Chunks of texts; which documents they hold, with the end of each chunk among them; how many queries have all."""
    chunks: list[str] = []
    held: list[npt.NDArray[np.int64]] = []
    done = 0
    corpus = explorer.corpus or _NO_DOCUMENTS
    rows = corpus.ids.rows_of(pools.ids)
    for queries, docs in _new_documents(pools, order) if explorer.corpus is not None else ():
        chunk = pack({}, string_columns("texts", _cut_texts(corpus, rows[docs])))
        room -= len(chunk) + _AROUND_A_CHUNK + _HELD * len(docs)
        if room < 0:
            break
        chunks.append(chunk)
        held.append(docs)
        done += queries
    docs = np.concatenate([np.zeros(0, np.int64), *held]).astype(np.uint32)
    ends = np.cumsum([len(docs) for docs in held], dtype=np.uint32) if held else np.zeros(0, np.uint32)
    return chunks, {"text_docs": docs, "text_chunks": ends}, done


def _new_documents(pools: Pools, order: npt.NDArray[np.int64]) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """A number of queries, and their documents that no earlier ones have."""
    seen = np.zeros(len(pools.ids), dtype=np.bool_)
    for start in range(0, len(order), _QUERIES_A_CHUNK):
        part = order[start : start + _QUERIES_A_CHUNK]
        docs = np.unique(np.concatenate([pools.docs[pools.indptr[q] : pools.indptr[q + 1]] for q in part]))
        docs = docs[~seen[docs]]
        seen[docs] = True
        yield len(part), docs


def _cut_texts(corpus: Corpus, rows: Int32Array) -> list[str]:
    """The beginnings of documents by row; nothing for -1, a document that the corpus lacks."""
    found = iter(take_rows(corpus.texts, rows[rows >= 0]).to_pylist())
    whole = [next(found) if row >= 0 else "" for row in rows.tolist()]
    return [text if len(text) <= TEXT_LENGTH else text[: TEXT_LENGTH - 1] + "…" for text in whole]
