"""One random run and one random set of judgments give the same values in every layout, bit for bit."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from example_counts import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

import harness

METRICS = "nDCG@3,nDCG,AP,RR,P@2,R@2"
QUERIES = st.lists(st.text("abz09.:-_é", min_size=1, max_size=4).map("q{}".format), min_size=1, max_size=3, unique=True)
DOCUMENTS = st.lists(
    st.text("abz09.:-_é", min_size=1, max_size=4).map("d{}".format), min_size=2, max_size=6, unique=True
)
SCORES = st.sampled_from([0.5, 1.0, 2.0]) | st.floats(-1e6, 1e6, width=32)


@st.composite
def contents(draw: st.DrawFn) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, int]]]:
    queries, documents = draw(QUERIES), draw(DOCUMENTS)
    some = st.lists(st.sampled_from(documents), min_size=1, unique=True)
    run = {}
    for query in queries:
        hits = {document: draw(SCORES) for document in draw(some)}
        run[query] = dict(sorted(hits.items(), key=lambda hit: -hit[1]))
    return run, {query: {document: draw(st.integers(0, 4)) for document in draw(some)} for query in queries}


def table(header: Sequence[str], rows: Sequence[Sequence[Any]], separator: str = ",") -> str:
    stream = io.StringIO()
    csv.writer(stream, delimiter=separator).writerows([header, *rows])
    return stream.getvalue()


def lines(rows: Sequence[Sequence[Any]], separator: str = " ") -> str:
    return "".join(separator.join(map(str, row)) + "\n" for row in rows)


def objects(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(names, row, strict=True)) for row in rows]


def scored_layouts(run: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """Return layouts that state scores: text of files by name, and objects by a name without an ending."""
    rows = [(q, d, n, s) for q, hits in run.items() for n, (d, s) in enumerate(hits.items(), 1)]
    names, triples = ("query_id", "doc_id", "score"), [(q, d, s) for q, d, _, s in rows]
    return {
        "run.trec": lines([(q, "Q0", d, n, s, "tag") for q, d, n, s in rows]),
        "words.trec": "# comment\n" + lines([(q, "Q0", d, n, s, "my system") for q, d, n, s in rows]),
        "tabs.trec": lines([(q, "Q0", d, n, s, "tag") for q, d, n, s in rows], "\t"),
        "colbert.txt": lines(rows),
        "run.csv": table(names, triples),
        "run.tsv": table(("qid", "docno", "sim"), triples, "\t"),
        "run.jsonl": "".join(json.dumps(row) + "\n" for row in objects(names, triples)),
        "ranx.json": json.dumps(run),
        "rows.json": json.dumps(objects(names, triples)),
        "sentence-transformers.jsonl": "".join(
            json.dumps({"query_id": q, "results": [{"corpus_id": d, "score": s} for d, s in hits.items()]}) + "\n"
            for q, hits in run.items()
        ),
        "pairs": {q: list(hits.items()) for q, hits in run.items()},
        "triples": triples,
        "table": pa.table(dict(zip(names, map(list, zip(*triples, strict=True)), strict=True))),
    }


def ranked_layouts(run: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """Return layouts that state only the order of hits."""
    rows = [(q, d, n) for q, hits in run.items() for n, d in enumerate(hits, 1)]
    names = ("query_id", "doc_id", "rank")
    return {
        "ids": {q: list(hits) for q, hits in run.items()},
        "three.tsv": lines(rows, "\t"),
        "from-zero.txt": lines([(q, d, n - 1) for q, d, n in rows]),
        "ranks.csv": table(names, rows[::-1]),
        "ranks.jsonl": "".join(json.dumps(row) + "\n" for row in objects(names, rows)),
        "ranks.json": json.dumps({q: list(hits) for q, hits in run.items()}),
        "numbered.trec": lines([(q, "Q0", d, n, -n, "tag") for q, d, n in rows]),
    }


def judgment_layouts(qrels: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    """Return layouts of judgments, among them the exports of other tools."""
    rows = [(q, d, g) for q, judged in qrels.items() for d, g in judged.items()]
    case = {"queries": [{"query": q, "ratings": judged} for q, judged in qrels.items()]}
    pairs = [{"query_text": q, "doc_id": d, "judgements": [{"rating": g}]} for q, d, g in rows]
    requests = [
        {"id": q, "ratings": [{"_index": "i", "_id": d, "rating": g} for d, g in judged.items()]}
        for q, judged in qrels.items()
    ]
    rre = [
        {
            "placeholders": {"$query": q},
            "relevant_documents": {str(grade): [d for d, g in judged.items() if g == grade] for grade in range(5)},
        }
        for q, judged in qrels.items()
    ]
    names = ("query", "docid", "rating")
    return {
        "trec.qrels": lines([(q, 0, d, g) for q, d, g in rows]),
        "beir.tsv": "query-id\tcorpus-id\tscore\n" + lines(rows, "\t"),
        "plain.tsv": lines(rows, "\t"),
        "ltr.txt": lines([(g, f"qid:{q}", "1:0.5", "#", d) for q, d, g in rows]),
        "quepid.csv": table(names, rows),
        "with-queries.csv": table(names, [row for q, d, g in rows for row in ((q, d, g), (f"{q} unrated",))]),
        "gain.tsv": table(("qid", "docno", "gain"), rows, "\t"),
        "rows.jsonl": "".join(json.dumps(row) + "\n" for row in objects(names, rows)),
        "ranx.json": json.dumps(qrels),
        "case.json": json.dumps(case),
        "book.json": json.dumps({"query_doc_pairs": pairs}),
        "request.json": json.dumps({"requests": requests}),
        "rre.json": json.dumps({"queries": rre}),
        "pairs": {q: list(judged.items()) for q, judged in qrels.items()},
        "triples": rows,
        "table": pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))),
    }


def scores_of(run: Any, qrels: Any) -> dict[str, list[Any]]:
    """Return mean, lowest and highest value of each metric and query, as hexadecimal digits."""
    scores = harness.evaluate(run, qrels, METRICS, queries="judged")
    return {
        query: [tuple(map(float.hex, map(float, summary[1:4]))) for summary in summaries]
        for query, summaries in scores.per_query()
    }


def require_equal_scores(layouts: Mapping[str, Any], *, run: Any = None, qrels: Any = None) -> None:
    """Write each layout and compare its values with those of the first one."""
    expected = None
    with tempfile.TemporaryDirectory() as folder:
        for name, content in layouts.items():
            value = content
            if isinstance(content, str):
                value = Path(folder, name)
                value.write_text(content, encoding="utf-8")
            elif isinstance(content, pa.Table):
                value = Path(folder, f"{name}.parquet")
                parquet.write_table(content, value)
            scores = scores_of(value, qrels) if run is None else scores_of(run, value)
            expected = scores if expected is None else expected
            assert scores == expected, name


@settings(max_examples=examples(10))
@given(contents())
def test_layouts_of_one_content_give_the_same_values(content: tuple[Any, Any]) -> None:
    run, qrels = content
    require_equal_scores({"object": run, **scored_layouts(run)}, qrels=qrels)
    require_equal_scores(ranked_layouts(run), qrels=qrels)
    require_equal_scores({"object": qrels, **judgment_layouts(qrels)}, run=run)
