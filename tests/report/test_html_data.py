"""What an HTML report packs: pools of documents, ranks, values, and which texts fit."""

from __future__ import annotations

import base64
import gzip
import json
import struct
from typing import Any

import numpy as np
import pytest
from explorers import TEXTS, corpus_of, qrels_of, run_of, small_explorer

from harness.data.types import Ids
from harness.report.html.explorer import changes
from harness.report.html.pack import pack, string_columns
from harness.report.html.payload import TEXT_LENGTH, payload_of
from harness.report.html.pools import DEPTH, MISSED, NO_PLACE, UNJUDGED, pools_of, top_of


def unpack(packed: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What `data.js` does, in Python."""
    whole = gzip.decompress(base64.b64decode(packed))
    (length,) = struct.unpack_from("<I", whole)
    header = json.loads(whole[4 : 4 + length])
    columns = {
        name: np.frombuffer(whole, np.dtype(kind).newbyteorder("<"), size, 4 + length + offset)
        for name, (kind, offset, size) in header["sections"].items()
    }
    return header, columns


def strings(columns: dict[str, np.ndarray], name: str) -> list[str]:
    ends, content = columns[f"{name}.ends"].tolist(), columns[f"{name}.bytes"].tobytes()
    return [content[start:end].decode() for start, end in zip([0, *ends], ends, strict=False)]


def test_columns_come_back_aligned() -> None:
    given = {"small": np.arange(3, dtype=np.int8), "big": np.array([1.5, np.nan]), "none": np.zeros(0, np.uint32)}
    header, columns = unpack(pack({"a": "é"}, {**given, **string_columns("names", ["", "näme", "b\0c"])}))
    assert header["a"] == "é"
    assert all(offset % 8 == 0 for _, offset, _ in header["sections"].values())
    for name, column in given.items():
        np.testing.assert_array_equal(columns[name], column)
    assert strings(columns, "names") == ["", "näme", "b\0c"]


def test_nothing_that_is_packed_can_end_an_element() -> None:
    packed = pack({"x": "</script><!--"}, string_columns("t", ["</script>", "<script>"]))
    assert "<" not in packed


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
    assert pools.place[:, 0, :3].tolist() == [[0, 1, 2], [2, 3, NO_PLACE]]
    assert pools.place[:, 1, 0].tolist() == [NO_PLACE, 0]
    assert top.hits.tolist() == [[3, 0], [2, 1]]


def test_ranks_beyond_the_top_are_known() -> None:
    docs = [f"d{n}" for n in range(1500)]
    deep, shallow = run_of({"q": docs}), run_of({"q": docs[::-1][:DEPTH]})
    ids = Ids.of(["q"])
    pools = pools_of(top_of([deep, shallow], ids, None, 1), [deep, shallow], ids, None, 1)
    assert len(pools.docs) == 2 * DEPTH
    assert pools.ranks[0].tolist() == [*range(1, 11), *range(1500, 1490, -1)]
    assert pools.ranks[1].tolist() == [*([0] * 10), *range(1, 11)]


def test_at_most_so_many_missed_documents() -> None:
    run, qrels = run_of({"q": ["a"]}), qrels_of({"q": {f"r{n}": n for n in range(1, 40)}})
    ids = Ids.of(["q"])
    pools = pools_of(top_of([run], ids, qrels, 1), [run], ids, qrels, 1)
    assert pools.grades.tolist() == [UNJUDGED, *range(39, 39 - MISSED, -1)]


def test_runs_without_anything() -> None:
    nothing = run_of({})
    ids = Ids.of(["q"])
    pools = pools_of(top_of([nothing], ids, None, 1), [nothing], ids, None, 1)
    assert (len(pools.docs), pools.indptr.tolist(), pools.ranks.shape) == (0, [0, 0], (1, 0))


def test_what_changed_most_comes_first() -> None:
    values = np.array([[[0.5, 0.5, 0.2, np.nan, 0.9]], [[0.5, 0.1, 0.9, np.nan, 0.9]]])
    top = np.array([[[1, 2]] * 5, [[1, 2], [1, 2], [1, 2], [8, 9], [1, 3]]])
    assert changes(values, np.zeros(len(values), np.int64), top).tolist() == [2, 1, 3, 4, 0]


def test_values_keep_every_bit() -> None:
    explorer = small_explorer()
    assert explorer.values is not None
    _, columns = unpack(payload_of(explorer, 10**6).core)
    restored = columns["value_table"][columns["values"]].reshape(explorer.values.shape)
    np.testing.assert_array_equal(restored, explorer.values)


@pytest.mark.parametrize(("budget", "expected"), [(10**6, 5), (0, 0)])
def test_texts_are_what_a_small_budget_leaves_out(budget: int, expected: int) -> None:
    payload = payload_of(small_explorer(), budget)
    header, columns = unpack(payload.core)
    _, held = unpack(payload.held)
    assert (payload.with_texts, len(payload.texts), len(header["labels"])) == (expected, int(expected > 0), 2)
    assert len(strings(columns, "query_ids")) == 5
    if expected:
        _, texts = unpack(payload.texts[0])
        ids = strings(columns, "doc_ids")
        found = dict(zip((ids[doc] for doc in held["text_docs"]), strings(texts, "texts"), strict=True))
        assert found["d0"] == TEXTS["d0"]
        assert held["text_chunks"].tolist() == [len(found)]


def test_long_texts_are_cut_and_unknown_documents_are_empty() -> None:
    payload = payload_of(small_explorer(corpus=corpus_of({"d0": "x" * 5000})), 10**6)
    found = set(strings(unpack(payload.texts[0])[1], "texts"))
    assert found == {"", "x" * (TEXT_LENGTH - 1) + "…"}


def test_without_texts_none_of_queries_is_packed() -> None:
    payload = payload_of(small_explorer(queries=None, corpus=None), 10**6)
    _, columns = unpack(payload.core)
    assert "query_texts.ends" not in columns
    assert payload.texts == []
