"""The explanations in a page's data: bit for bit, within their budget, for the queries that changed most."""

from __future__ import annotations

import base64
import gzip
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from explorers import TEXTS, explanations_of, small_explorer, small_page, term_rows

from harness.report.html.payload import Element, Payload, payload_of
from harness.report.html.render import render_page
from harness.report.rankings.explorer import explain_command
from harness.results.schema import Result
from harness.results.schema_base import DatasetInfo

GENERATOR = np.random.default_rng(1)


def read(element: Element) -> Any:
    content = element.content
    return orjson.loads(gzip.decompress(base64.b64decode(content)) if element.type.endswith("gzip") else content)


def many_terms(terms: int = 5) -> pa.Table:
    """Contributions with all digits that float32 has, of three queries of which q4 changed most, then q2."""
    parts = []
    for query, docs in {"q1": ["d0", "d25"], "q2": ["d12", "d19"], "q4": ["d0", "d2"]}.items():
        rows = []
        for doc in docs:
            for backend in ("old", "new"):
                values = (GENERATOR.standard_normal(terms) * 9).astype(np.float32)
                rows += term_rows(backend, doc, {f"{query}-term{n}": float(value) for n, value in enumerate(values)})
        parts.append(explanations_of(query, rows))
    return pa.concat_tables(parts)


def payload(table: pa.Table | None, budget: int = 10**6, page: int = 10**6) -> Payload:
    return payload_of([small_explorer(explanations=table)], budget, page=page)


def test_contributions_add_up_to_the_score_to_the_bit() -> None:
    table = many_terms()
    data = payload(table)
    queries, documents = read(data.data)["queries"], 0
    for explained in read(data.explanations):
        query = queries[explained["query"]]
        for label, ranking in zip(("old", "new"), explained["of"], strict=True):
            for slot, document in ranking["docs"].items():
                doc = read(data.data)["docs"][query["docs"][int(slot)]]
                total = np.float32(sum((np.float32(part[1]) for part in document["parts"]), start=np.float64(0)))
                assert total == np.float32(document["exact_score"])
                stored = [
                    row["contribution"]
                    for row in table.to_pylist()
                    if (row["backend"], row["query_id"], row["doc_id"]) == (label, query["id"], doc)
                ]
                assert [np.float32(part[1]) for part in document["parts"]] == [np.float32(one) for one in stored]
                documents += 1
    assert documents == 12


def test_they_take_no_more_room_than_the_page_and_the_queries_that_changed_most_come_first() -> None:
    table = many_terms(400)
    plain = render_page(small_page(), [small_explorer()])
    full = render_page(small_page(), [small_explorer(explanations=table)])
    assert len(plain) < len(full) <= 2 * len(plain)
    for outside in (0, 20_000, 50_000):
        small = payload_of([small_explorer(explanations=table)], 0, page=outside)
        inside = sum(len(element.content) for element in (small.data, small.scores, small.texts))
        assert len(small.explanations.content) <= outside + inside
    assert payload(table).explained == 3


def test_queries_that_changed_most_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.report.html.payload._QUERIES_A_BATCH", 1)
    explorer = small_explorer(explanations=many_terms(400))
    explained = []
    for page in (0, 20_000, 40_000, 10**6):
        data = payload_of([explorer], 0, page=page)
        names = [query["id"] for query in read(data.data)["queries"]]
        explained.append([names[one["query"]] for one in read(data.explanations)])
        assert data.explained == len(explained[-1])
    assert explained[-1] == ["q4", "q2", "q1"]
    assert all(some == explained[-1][: len(some)] for some in explained)
    assert len({len(some) for some in explained}) > 2, "a middle one is cut"


def test_queries_of_several_datasets_are_explained_in_theirs() -> None:
    first = small_explorer(dataset="first", explanations=explanations_of("q1", term_rows("old", "d0", {"one": 1.5})))
    other = small_explorer(dataset="other", explanations=explanations_of("q1", term_rows("new", "d25", {"two": 2.5})))
    data = payload_of([first, other], 10**6, page=10**6)
    queries = read(data.data)["queries"]
    said = {
        queries[one["query"]]["dataset"]: (one["parts"][0][0], [ranking is not None for ranking in one["of"]])
        for one in read(data.explanations)
    }
    assert said == {0: ("one", [True, False]), 1: ("two", [False, True])}


def test_documents_and_backends_that_a_page_does_not_show_are_left_out() -> None:
    rows = [
        *term_rows("old", "d0", {"one": 1.0}),
        *term_rows("old", "d29", {"far": 1.0}),
        *term_rows("x", "d0", {"y": 1}),
    ]
    (explained,) = read(payload(explanations_of("q1", rows)).explanations)
    assert [part[0] for part in explained["parts"]] == ["one"]
    assert "d29" in TEXTS


def test_without_explanations_there_are_none() -> None:
    assert read(payload(None).explanations) == []
    assert payload(None).explained == 0


@pytest.mark.parametrize(
    ("recorded", "dataset", "expected"),
    [
        (["--backends", "csr,lucene:k1=2;b=0.5", "--dataset", "cacm", "--k", "50", "--seed", "7", "--no-timing"], None,
         "harness explain --backends 'csr,lucene:k1=2;b=0.5' --dataset cacm --k 50"),
        (["--backends", "csr", "--dataset", "one,two", "--filter", "a=b"], "two",
         "harness explain --backends csr --filter a=b --dataset two"),
        (["--backends", "csr", "--dataset", "cacm", "--sweep", "csr:k1=1..2"], None, "harness explain RESULT"),
    ],
)  # fmt: skip
def test_the_command_has_the_options_that_explain_takes_too(
    recorded: list[str], dataset: str | None, expected: str
) -> None:
    report = Result.model_construct(kind="compare", command=["harness", "compare", *recorded], datasets=[])
    assert explain_command(report, dataset) == expected


@pytest.mark.parametrize(
    ("kind", "corpora", "expected"),
    [
        ("check", 1, "harness explain RESULT"),
        ("check", 2, "harness explain RESULT"),
        ("check", 0, ""),
        ("regress", 0, "harness explain RESULT"),
        ("diff", 0, ""),
    ],
)
def test_other_results_are_explained_from_their_folder(kind: str, corpora: int, expected: str) -> None:
    datasets = [DatasetInfo.model_construct(documents=5)] * corpora
    report = Result.model_construct(kind=kind, command=["harness", kind, "golden.jsonl", "--k", "5"], datasets=datasets)
    assert explain_command(report) == expected
