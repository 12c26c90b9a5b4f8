"""What engines share: refusing bad input, the manifest of an index, hits to columns, narrow columns."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.data.inputs import Inputs
from harness.data.progress import Progress
from harness.data.types import Ids, SparseVectors
from harness.engines.base import (
    Capabilities,
    Documents,
    Engine,
    EngineInfo,
    External,
    ExternalIndex,
    HitCollector,
    LoadedIndex,
    Storage,
)
from harness.engines.checks import require_announced_ids, require_positive_k, require_sparse
from harness.engines.csr import UsedColumns
from harness.engines.flat import FlatEngine
from harness.engines.index_folder import MANIFEST, allocated_bytes, check_manifest, write_manifest
from harness.engines.interface import ExpectedContent
from harness.errors import CacheError, EngineFailureError, EngineUnavailableError, RejectedInputError
from harness.testing.expected import to_vectors

IDS = Ids.of(["a", "b"])
PARAMETERS = {"k1": 0.9, "idf": True}


def test_bytes_are_allocated_blocks(tmp_path: Path) -> None:
    assert allocated_bytes(tmp_path / "absent") == 0
    with (tmp_path / "sparse").open("wb") as stream:
        stream.truncate(50_000_000)
    (tmp_path / MANIFEST).write_bytes(b"x" * 100_000)
    assert allocated_bytes(tmp_path) < 1_000_000
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "dense").write_bytes(b"x" * 1_000_000)
    assert 1_000_000 <= allocated_bytes(tmp_path) < 2_000_000


def test_a_file_that_goes_away_meanwhile_takes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def walk_and_remove(folder: Path) -> Iterator[tuple[str, list[str], list[str]]]:
        for place, folders, names in walk(folder):
            (Path(place) / "temporary").unlink()
            yield place, folders, names

    (tmp_path / "kept").write_bytes(b"x" * 100_000)
    (tmp_path / "temporary").write_bytes(b"x" * 100_000)
    walk = os.walk
    monkeypatch.setattr(os, "walk", walk_and_remove)
    assert 100_000 <= allocated_bytes(tmp_path) < 200_000


def test_k() -> None:
    require_positive_k(1)
    with pytest.raises(RejectedInputError, match="k is 0"):
        require_positive_k(0)


def test_good_vectors_pass_as_they_are() -> None:
    vectors = to_vectors([{0: 1.0, 2: -1.0}, {}], 3)
    assert require_sparse(Inputs(IDS, sparse=vectors), "document") is vectors


@pytest.mark.parametrize(
    ("indices", "values", "reason"),
    [
        ([0, 1], [1.0, float("nan")], "NaN or infinite"),
        ([0, 1], [float("-inf"), 1.0], "NaN or infinite"),
        ([1, 1], [1.0, 1.0], "repeat or fall"),
        ([1, 0], [1.0, 1.0], "repeat or fall"),
        ([-1, 0], [1.0, 1.0], "below 0 or beyond its 3 dimensions"),
        ([0, 3], [1.0, 1.0], "below 0 or beyond its 3 dimensions"),
    ],
)
def test_bad_vectors_are_named(indices: list[int], values: list[float], reason: str) -> None:
    vectors = SparseVectors(
        np.array([0, 0, 2], dtype=np.int64), np.array(indices, np.int32), np.array(values, np.float32), 3
    )
    with pytest.raises(RejectedInputError, match=f"query 'b' has .*{reason}"):
        require_sparse(Inputs(IDS, sparse=vectors), "query")


def test_another_number_of_vectors() -> None:
    with pytest.raises(RejectedInputError, match="1 vectors came with 2 document ids"):
        require_sparse(Inputs(IDS, sparse=to_vectors([{}], 3)), "document")


def test_other_ids_than_announced() -> None:
    require_announced_ids(Inputs(IDS), Ids.of(["a", "b"]))
    with pytest.raises(RejectedInputError):
        require_announced_ids(Inputs(IDS), Ids.of(["b", "a"]))


def test_a_negative_zero_is_the_score_zero() -> None:
    """The negative of a distance of 0 would not be the reference's score to the bit."""
    negatives = -np.array([0.0, 2.0], dtype=np.float32)
    _, scores = FlatEngine({"similarity": "l2"}).arrays((np.array([1, 2], dtype=np.int32), negatives))
    assert (scores.tolist(), np.signbit(scores).tolist()) == ([0.0, -2.0], [False, True])


def test_manifest_of_the_same_index(tmp_path: Path) -> None:
    assert not check_manifest(tmp_path, "x", PARAMETERS, IDS)
    write_manifest(tmp_path, "x", PARAMETERS, IDS, indexed=len(IDS))
    assert check_manifest(tmp_path, "x", dict(reversed(PARAMETERS.items())), Ids.of(["a", "b"]))
    assert [path.name for path in tmp_path.iterdir()] == [MANIFEST]


def test_manifest_of_another_index(tmp_path: Path) -> None:
    write_manifest(tmp_path, "x", PARAMETERS, IDS, indexed=len(IDS))
    with pytest.raises(RejectedInputError, match="index of 'x'"):
        check_manifest(tmp_path, "y", PARAMETERS, IDS)
    with pytest.raises(RejectedInputError, match=r"k1: built with 0\.9, asked for 1\.2"):
        check_manifest(tmp_path, "x", {**PARAMETERS, "k1": 1.2}, IDS)
    with pytest.raises(RejectedInputError, match="new: built with None, asked for 1"):
        check_manifest(tmp_path, "x", {**PARAMETERS, "new": 1}, IDS)
    assert check_manifest(tmp_path, "x", {**PARAMETERS, "k1": 1.2}, IDS, free=["k1"])


@pytest.mark.parametrize("other", [["a"], ["b", "a"], ["ab", ""]])
def test_manifest_of_other_documents(tmp_path: Path, other: list[str]) -> None:
    write_manifest(tmp_path, "x", PARAMETERS, IDS, indexed=len(IDS))
    with pytest.raises(RejectedInputError, match="other documents"):
        check_manifest(tmp_path, "x", PARAMETERS, Ids.of(other))


_MANIFEST = {"format": 2, "engine": "x", "parameters": {}, "documents": 2, "ids_sha256": "", "indexed": 2}


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", json.dumps({"format": 1}).encode()]
    + [json.dumps({**_MANIFEST, **changed}).encode() for changed in ({"indexed": "many"}, {"parameters": [1]})]
    + [json.dumps({name: value for name, value in _MANIFEST.items() if name != "indexed"}).encode()],
)
def test_damaged_manifest(tmp_path: Path, content: bytes) -> None:
    (tmp_path / MANIFEST).write_bytes(content)
    with pytest.raises(EngineUnavailableError, match="damaged"):
        check_manifest(tmp_path, "x", PARAMETERS, IDS)


class Failing(Engine[SparseVectors]):
    """Its library fails wherever it is asked to do more than start."""

    name = "failing"
    capabilities = Capabilities("sparse", exact=True, deterministic=True, reopens=True, keeps_k_prefix=True)

    def info(self) -> EngineInfo:
        return EngineInfo(self.name, "1", "embedded")

    def build(self, folder: Path, documents: Documents[SparseVectors], progress: Progress) -> None:
        raise RuntimeError("no build")

    def load(self, folder: Path) -> LoadedIndex:
        raise RuntimeError("no load")

    def retrieve(self, query: SparseVectors, k: int) -> tuple[list[int], list[float]]:
        raise RuntimeError("no hits")

    def size(self, folder: Path) -> Storage:
        raise RuntimeError("no size")


class FailingExternal(ExternalIndex[SparseVectors], Failing):
    source = None

    def open_external(self, folder: Path, progress: Progress) -> External:
        raise RuntimeError("no such index")

    def mismatch(self, content: ExpectedContent, progress: Progress) -> str | None:
        raise RuntimeError("no content")


@pytest.mark.parametrize("engine", [Failing, FlatEngine], ids=["of its own", "searches external indexes"])
def test_an_engine_may_set_its_source(engine: type[Engine[Any]], tmp_path: Path) -> None:
    class Sourced(engine):
        def __init__(self, parameters: dict[str, Any]) -> None:
            super().__init__(parameters)
            self.source = tmp_path / "theirs"

    assert engine({}).source is None
    assert Sourced({}).source == tmp_path / "theirs"


def test_errors_of_the_library_leave_as_those_of_the_backend(tmp_path: Path) -> None:
    engine = Failing({})
    engine.open(tmp_path, IDS)
    with pytest.raises(EngineFailureError, match="the failing engine failed while measuring the index: no size"):
        engine.storage()
    with pytest.raises(EngineUnavailableError, match="failed while opening the external index: no such index"):
        FailingExternal({"external": True}).attach(tmp_path, None)


def test_an_engine_refuses_what_it_does_not_offer(tmp_path: Path) -> None:
    engine = Failing({})
    with pytest.raises(EngineFailureError, match="'Failing' cannot filter"):
        engine.restrict({"lang": "en"})
    with pytest.raises(EngineFailureError, match="'Failing' cannot search an external index"):
        engine.attach(tmp_path, None)
    with pytest.raises(RejectedInputError, match="cannot be changed: its engine declares no changes"):
        engine.apply(IDS, Inputs(IDS), None, lambda: 0)
    assert engine.unchangeable() == engine.no_changes


def test_an_index_without_a_manifest_was_never_finished(tmp_path: Path) -> None:
    (tmp_path / "segment").touch()
    with pytest.raises(EngineUnavailableError, match="never finished"):
        check_manifest(tmp_path, "x", PARAMETERS, IDS)


def test_hits_become_columns() -> None:
    collector = HitCollector()
    collector.add(np.array([4, 2], np.int32), np.array([2.0, 1.0], np.float32), 10, 1)
    collector.add(np.array([], np.int32), np.array([], np.float32), 20, 2)
    result = collector.result()
    assert result.indptr.tolist() == [0, 2, 2]
    assert (result.rows.tolist(), result.scores.tolist()) == ([4, 2], [2.0, 1.0])
    assert (result.search_ns.tolist(), result.transfer_ns.tolist()) == ([10, 20], [1, 2])


def test_no_hits_at_all_keep_their_types() -> None:
    result = HitCollector().result()
    assert (result.indptr.tolist(), result.rows.dtype, result.scores.dtype) == ([0], np.int32, np.float32)
    assert result.search_ns.shape == (0,)


def test_columns_are_narrowed_only_where_it_pays() -> None:
    assert UsedColumns.of(to_vectors([{0: 1.0}], 1_000_000)) is None
    assert UsedColumns.of(to_vectors([{0: 1.0}], 2_000_000)) is not None


def test_narrow_vectors_keep_what_documents_use(tmp_path: Path) -> None:
    wide = 2_000_000
    columns = UsedColumns.of(to_vectors([{5: 1.0, 1_999_999: 2.0}, {70: 3.0}], wide))
    assert columns is not None
    columns.save(tmp_path)
    loaded = UsedColumns.load(tmp_path)
    assert loaded is not None
    for one in (columns, loaded):
        narrow = one.narrow(to_vectors([{5: 1.0, 6: 9.0, 1_999_999: 4.0}, {0: 1.0}, {70: 2.0}], wide))
        assert narrow.dimensions == 3
        assert narrow.indptr.tolist() == [0, 2, 2, 3]
        assert (narrow.indices.tolist(), narrow.values.tolist()) == ([0, 2, 1], [1.0, 4.0, 2.0])


def test_narrow_columns_on_disk(tmp_path: Path) -> None:
    (tmp_path / "columns.npy").touch()
    with pytest.raises(CacheError):
        UsedColumns.load(tmp_path)


def test_padding_is_no_hit() -> None:
    collector = HitCollector()
    collector.add(np.array([2, -1], np.int32), np.array([1.5, 0], np.float32), 1, 2)
    collector.add(np.array([-1, -1], np.int32), np.array([0, 0], np.float32), 3, 4)
    collector.add(np.array([0, 1], np.int32), np.array([3, 2], np.float32), 5, 6)
    result = collector.result()
    assert (result.indptr.tolist(), result.indptr.dtype) == ([0, 1, 1, 3], np.int64)
    assert (result.rows.tolist(), result.scores.tolist()) == ([2, 0, 1], [1.5, 3, 2])
    assert (result.search_ns.tolist(), result.transfer_ns.tolist()) == ([1, 3, 5], [2, 4, 6])


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (([0, 1], [1.0]), r"arrays of the shapes \(2,\) and \(1,\)"),
        (([[0, 1]], [[1.0, 0.5]]), r"arrays of the shapes \(1, 2\) and \(1, 2\)"),
        (([0.7], [1.0]), "row numbers of type float64"),
        ((["0"], [1.0]), "row numbers of type <U1"),
        (None, "NoneType"),
    ],
)
def test_an_answer_that_is_not_rows_and_scores_fails_its_query(answer: Any, what: str) -> None:
    class Answers(Failing):
        def retrieve(self, query: SparseVectors, k: int) -> Any:
            return answer

    with pytest.raises(EngineFailureError, match=f"answer to query 'a' is not rows and scores: .*{what}"):
        Answers({}).search_prepared(["a query"], IDS, 3, lambda: 0)
