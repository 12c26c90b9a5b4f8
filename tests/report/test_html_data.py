"""What an HTML report embeds: pools of documents, ranks, values, and which texts fit."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import numpy as np
import pytest
from explorers import TEXTS, corpus_of, qrels_of, run_of, small_explorer, small_page

from harness.data.texts import text_digest
from harness.data.types import Ids
from harness.report.html.payload import TEXT_LENGTH, Element, payload_of
from harness.report.html.render import render_page
from harness.report.rankings.explorer import Explorer, changes, judging_facts
from harness.results.pools import DEPTH, UNJUDGED, pools_of, top_of


def read(element: Element) -> Any:
    """Do what `data.js` does, in Python."""
    if element.type == "application/json":
        return json.loads(element.content)
    return json.loads(gzip.decompress(base64.b64decode(element.content)))


def read_texts(element: Element) -> dict[int, str]:
    return {number: text for number, text, *_ in read(element)}


def test_nothing_that_is_embedded_can_end_an_element() -> None:
    hostile = dict.fromkeys(("d0", "d1"), "</script><!--<script>")
    payload = payload_of([small_explorer(labels=["</script>", "<!--"], corpus=corpus_of(hostile))], 10**6)
    assert "<" not in payload.data.content + payload.texts.content
    assert read(payload.data)["labels"] == ["</script>", "<!--"]
    assert {text for _, text, _ in read(payload.texts)} == {*hostile.values()}


def test_what_is_large_is_compressed() -> None:
    long = {name: f"{name} {' '.join(map(str, range(at, at + 400)))}" for at, name in enumerate(TEXTS)}
    many = {f"{name}-{copy}": text for name, text in long.items() for copy in range(10)}
    run = run_of({"q": list(many)[:10], **{f"q{n}": list(many)[10 * n : 10 * n + 10] for n in range(30)}})
    explorer = Explorer(Ids.of(run.query_ids), ["one"], [run], corpus=corpus_of(many))
    payload = payload_of([explorer], 10**7)
    assert (payload.data.type, payload.texts.type) == ("application/json", "application/gzip")
    assert len(read(payload.texts)) == 300
    assert payload.with_texts == 31


def test_pools_hold_what_is_shown_and_what_is_missed() -> None:
    first = run_of({"q1": ["a", "b", "c"], "q2": []})
    second = run_of({"q2": ["x"], "q1": ["c", "d"]})
    qrels = qrels_of({"q1": {"b": 0, "d": 1, "far": 2}, "q9": {"a": 1}})
    ids = Ids.of(["q1", "q2"])
    top = top_of([first, second], ids, qrels, 1)
    pools = pools_of(top, [first, second], ids, qrels, 1)
    assert pools.ids.take(pools.docs) == ["a", "b", "c", "d", "far", "x"]
    assert pools.indptr.tolist() == [0, 5, 6]
    assert pools.grades.tolist() == [UNJUDGED, 0, UNJUDGED, 1, 2, UNJUDGED]
    assert pools.ranks.tolist() == [[1, 2, 3, 0, 0, 0], [0, 0, 1, 2, 0, 1]]
    assert top.hits.tolist() == [[3, 0], [2, 1]]


def test_ranks_beyond_the_top_are_known() -> None:
    docs = [f"d{n}" for n in range(1500)]
    deep, shallow = run_of({"q": docs}), run_of({"q": docs[::-1][:DEPTH]})
    ids = Ids.of(["q"])
    pools = pools_of(top_of([deep, shallow], ids, None, 1), [deep, shallow], ids, None, 1)
    assert len(pools.docs) == 2 * DEPTH
    assert pools.ranks[0].tolist() == [*range(1, 11), *range(1500, 1490, -1)]
    assert pools.ranks[1].tolist() == [*([0] * 10), *range(1, 11)]


def test_runs_without_anything() -> None:
    nothing = run_of({})
    ids = Ids.of(["q"])
    pools = pools_of(top_of([nothing], ids, None, 1), [nothing], ids, None, 1)
    assert (len(pools.docs), pools.indptr.tolist(), pools.ranks.shape) == (0, [0, 0], (1, 0))


def test_what_changed_most_comes_first() -> None:
    values = np.array([[[0.5, 0.5, 0.2, np.nan, 0.9]], [[0.5, 0.1, 0.9, np.nan, 0.9]]])
    top = np.array([[[1, 2]] * 5, [[1, 2], [1, 2], [1, 2], [8, 9], [1, 3]]])
    explorer = small_explorer(values=values, expected=None)
    assert changes(explorer, top).tolist() == [2, 1, 3, 4, 0]


def test_values_keep_every_bit() -> None:
    explorer = small_explorer()
    assert explorer.values is not None
    values = [query["values"] for query in read(payload_of([explorer], 10**6).data)["queries"]]
    restored = np.moveaxis(np.array(values, dtype=np.float64), 0, 2)
    np.testing.assert_array_equal(restored, explorer.values)


def test_a_query_says_where_each_ranking_has_each_document() -> None:
    payload = payload_of([small_explorer(stored_depths=[None, 10])], 10**6)
    data, scores = read(payload.data), read(payload.scores)
    query = data["queries"][0]
    ids = [data["docs"][number] for number in query["docs"]]
    assert ids == [*(f"d{n}" for n in range(10)), "d20", "d25"]
    assert query["ranks"] == [[*range(1, 11), 0, 0], [None, *range(1, 11), None]]
    assert query["grades"] == [2, None, None, 0, *[None] * 7, 1]
    assert (len(scores[0][0]), scores[0][1], query["hits"]) == (10, [], [10, 10])
    assert [query["place"] for query in data["queries"]] == [2, 1, 3, 0, 4]
    lost = data["queries"][3]
    assert (lost["hits"], lost["ranks"]) == ([3, 0], [[1, 2, 3], [0, 0, 0]])


@pytest.mark.parametrize(("budget", "expected"), [(10**6, 5), (0, 0)])
def test_texts_are_what_a_small_budget_leaves_out(budget: int, expected: int) -> None:
    payload = payload_of([small_explorer()], budget)
    data, texts = read(payload.data), read_texts(payload.texts)
    assert (payload.with_texts, len(data["queries"])) == (expected, 5)
    assert ("d0" in data["docs"], texts.get(data["docs"].index("d0"))) == (True, TEXTS["d0"] if expected else None)


def test_long_texts_are_cut_and_unknown_documents_have_none() -> None:
    payload = payload_of([small_explorer(corpus=corpus_of({"d0": "x" * 5000, "d1": "y"}))], 10**6)
    rows = [(text, digest, *cut) for _, text, digest, *cut in read(payload.texts)]
    assert rows == [("x" * (TEXT_LENGTH - 1) + "…", text_digest("x" * 5000), 1), ("y", text_digest("y"))]


def test_documents_are_judged_if_their_texts_are_on_the_page() -> None:
    facts = judging_facts([small_explorer()], "harness 1 · 2026", "harness check golden.jsonl")
    assert facts is not None
    assert (facts["scale"], facts["command"]) == ([0, 1, 2], "harness check")
    assert facts == judging_facts([small_explorer(labels=["a", "b"])], "harness 1 · 2026", "harness check")
    for explorer in (small_explorer(corpus=None), small_explorer(unjudgeable="several corpora")):
        assert judging_facts([explorer], "", "") is None
        page = render_page(small_page(), [explorer])
        assert '"judging":null' in page
        assert "class Judging" not in page
    assert "class Judging" in render_page(small_page(), [small_explorer()])


@pytest.mark.parametrize(
    ("grades", "scale"),
    [({}, [0, 1, 2, 3]), ({"d0": -1, "d1": 0}, [0, 1, 2, 3]), ({"d0": 1}, [0, 1]), ({"d0": 50, "d1": -2}, [0, 50])],
)
def test_grades_go_from_0_to_the_highest_judgment(grades: dict[str, int], scale: list[int]) -> None:
    facts = judging_facts([small_explorer(qrels=qrels_of({"q1": grades}))], "", "")
    assert facts is not None
    assert facts["scale"] == scale


def test_without_texts_none_is_embedded() -> None:
    payload = payload_of([small_explorer(queries=None, corpus=None)], 10**6)
    assert {query["text"] for query in read(payload.data)["queries"]} == {""}
    assert read(payload.texts) == []


def test_several_datasets_have_documents_of_their_own() -> None:
    other = small_explorer(dataset="other", corpus=corpus_of({name: f"another {name}" for name in TEXTS}))
    payload = payload_of([small_explorer(dataset="first"), other], 10**6)
    data, texts = read(payload.data), read_texts(payload.texts)
    assert data["datasets"] == ["first", "other"]
    assert [(query["id"], query["dataset"]) for query in data["queries"]][4:6] == [("q5", 0), ("q1", 1)]
    first, second = (data["queries"][number]["docs"][0] for number in (0, 5))
    assert (data["docs"][first], data["docs"][second]) == ("d0", "d0")
    assert (texts[first], texts[second]) == (TEXTS["d0"], "another d0")
    assert (payload.queries, payload.with_texts) == (10, 10)
