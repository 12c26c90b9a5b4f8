"""Explorers and pages for tests: a few rankings of small, made-up queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from harness.data.types import Corpus, Ids, Qrels, Queries, Run
from harness.document.figures import Bar, Bars
from harness.document.model import Cell, Column, Document, Facts, Figure, Notes, Section, Table, Verdict
from harness.report.rankings.explorer import Agreement, Explorer
from harness.results.stored import EXPLANATION_SCHEMA


def run_of(rankings: Mapping[str, Sequence[str]]) -> Run:
    """A run from query id to document ids, best first; scores fall from 10."""
    docs = list(dict.fromkeys(doc for ranking in rankings.values() for doc in ranking))
    rows = [docs.index(doc) for ranking in rankings.values() for doc in ranking]
    scores = [10 - at / 4 for ranking in rankings.values() for at in range(len(ranking))]
    indptr = np.cumsum([0, *(len(ranking) for ranking in rankings.values())])
    return Run(
        Ids.of(rankings),
        Ids.of(docs),
        indptr.astype(np.int64),
        np.array(rows, dtype=np.int32),
        np.array(scores, dtype=np.float32),
    )


def qrels_of(grades: Mapping[str, Mapping[str, int]]) -> Qrels:
    """Judgments from query id to document id to grade."""
    docs = list(dict.fromkeys(doc for of_query in grades.values() for doc in of_query))
    rows = [docs.index(doc) for of_query in grades.values() for doc in of_query]
    values = [grade for of_query in grades.values() for grade in of_query.values()]
    indptr = np.cumsum([0, *(len(of_query) for of_query in grades.values())])
    return Qrels(
        Ids.of(grades),
        Ids.of(docs),
        indptr.astype(np.int64),
        np.array(rows, dtype=np.int32),
        np.array(values, dtype=np.int32),
    )


def corpus_of(texts: Mapping[str, str]) -> Corpus:
    return Corpus(Ids.of(texts), pa.chunked_array([list(texts.values())], pa.string()), "digest")


def queries_of(texts: Mapping[str, str]) -> Queries:
    return Queries(Ids.of(texts), pa.chunked_array([list(texts.values())], pa.string()), "digest")


TEXTS = {f"d{n}": f"document {n} on {'red' if n % 2 else 'green'} pumps" for n in range(30)}
QUERIES = {
    "q1": "red pumps",
    "q2": "green pumps",
    "q3": "blue pumps",
    "q4": "no pumps at all",
    "q5": "pumping",
}


def small_explorer(**changed: object) -> Explorer:
    """Two rankings of five queries: in the second q1 is worse, q2 better, q3 tied, q4 lost; q5 is not judged."""
    docs = list(TEXTS)
    old = run_of({"q1": docs[:10], "q2": docs[10:20], "q3": docs[:12], "q4": docs[:3], "q5": docs[5:9]})
    new = run_of({"q1": [*docs[1:10], docs[20]], "q2": docs[19:9:-1], "q3": docs[:12], "q5": docs[5:9]})
    grades = {"q1": {"d0": 2, "d25": 1, "d3": 0}, "q2": {"d19": 1}, "q3": {"d0": 1}, "q4": {"d0": 1}}
    one = np.array([[1.0, 0.25, 0.5, 1.0, np.nan], [0.5, 1.0, 0.5, 0.0, np.nan]])[:, None, :]
    state = np.array([[3, 3, 3, 3, 3], [0, 1, 3, 2, 3]], dtype=np.int8)
    cause = np.array([[-1] * 5, [0, -1, -1, -1, -1]], dtype=np.int16)
    fields: dict[str, object] = {
        "query_ids": Ids.of(QUERIES),
        "labels": ["old", "new"],
        "runs": [old, new],
        "metrics": ["nDCG@10"],
        "values": one,
        "queries": queries_of(QUERIES),
        "qrels": qrels_of(grades),
        "agreement": Agreement(
            ["different", "tie-equivalent", "identical", "bit-equal"], 1, state, ["approximate search"], cause
        ),
        "corpus": corpus_of(TEXTS),
    }
    return Explorer(**{**fields, **changed})  # type: ignore[arg-type]


def explanations_of(query: str, rows: Sequence[Mapping[str, object]], dataset: str = "") -> pa.Table:
    """Explanations of documents for one query, as a result stores them; columns that ``rows`` lack are null."""
    of_query = {"dataset": dataset, "query_id": query, "kind": "terms"}
    return pa.Table.from_pylist([{**of_query, **row} for row in rows], schema=EXPLANATION_SCHEMA)


def term_rows(
    backend: str, doc: str, contributions: Mapping[str, float], **of_document: object
) -> list[dict[str, Any]]:
    """The rows of a document whose terms contribute to its score."""
    score = float(np.float32(sum(map(np.float32, contributions.values()), start=np.float64(0))))
    shared = {"backend": backend, "doc_id": doc, "score": score, "exact_score": score, "exact_rank": 1, **of_document}
    of_term = {"weight": 1.0, "tf": 2.0, "df": 35, "documents": 3204, "idf": 4.5136213302612305}
    return [{**shared, **of_term, "part": term, "contribution": value} for term, value in contributions.items()]


def small_page(words: str = "words") -> Document:
    """A page with every kind of block; ``words`` stand wherever text from outside can stand."""
    table = Table(
        words,
        [Column(words, numeric=False), Column(words, help=words)],
        [[Cell(words), Cell("1", "▲", words, "good")]],
        [words],
    )
    blocks = [
        table,
        Figure(words, Bars(words, [Bar(words, 1.0, 0.5, 1.5, 0)]), words),
        Facts(words, [(words, words)]),
        Notes([words]),
    ]
    return Document(
        title=words,
        subtitle=words,
        verdicts=[Verdict("bad", words, words)],
        sections=[
            Section("things", words, blocks, words),
            Section("more", words, [Notes([words])], detail=True),
        ],
        command=[words],
        made_by=words,
    )
