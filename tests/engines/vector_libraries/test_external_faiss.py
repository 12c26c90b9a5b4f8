"""FAISS files that somebody else wrote: ids, similarities, what is refused, and a comparison and a check with them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter_ns

import faiss
import numpy as np
import pytest
from installed import skip_module_without

from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.engines.faiss.engine import FaissEngine
from harness.engines.interface import ExpectedContent, IndexHandle
from harness.errors import BackendError
from harness.registry.lookup import find_cards
from harness.registry.parameters import ParameterValue
from harness.testing.expected import random_unit_vectors
from harness.testing.samples import RecordingProgress

skip_module_without("faiss")

DEFAULTS = find_cards("backends")["faiss"].defaults
VECTORS = random_unit_vectors(3, 300, 16)
IDS = [f"d{row}" for row in range(300)]
GIVEN = Inputs(Ids.of(IDS), dense=VECTORS)
ASKED = Inputs(Ids.of(f"q{row}" for row in range(5)), dense=random_unit_vectors(4, 5, 16))


def write(path: Path, described: str, metric: int = faiss.METRIC_INNER_PRODUCT, numbers: np.ndarray | None = None):
    index = faiss.index_factory(16, described, metric)
    if not index.is_trained:
        index.train(VECTORS)
    if numbers is None:
        index.add(VECTORS)
    else:
        index.add_with_ids(VECTORS, numbers)
    faiss.write_index(index, str(path))


@contextmanager
def attached(folder: Path, **parameters: ParameterValue) -> Iterator[tuple[FaissEngine, IndexHandle]]:
    folder.mkdir()
    engine = FaissEngine({**DEFAULTS, "similarity": "", "external": True, **parameters})
    try:
        yield engine, engine.attach(folder, RecordingProgress())
    finally:
        engine.close()


def refused(folder: Path, **parameters: ParameterValue) -> str:
    with pytest.raises(BackendError) as caught, attached(folder, **parameters):
        pass
    return str(caught.value)


def best(vectors: np.ndarray = VECTORS) -> np.ndarray:
    return np.argmax(ASKED.dense @ vectors.T, axis=1)


@pytest.mark.parametrize("described", ["Flat", "HNSW32", "IVF4,Flat", "IDMap,Flat"])
def test_documents_come_under_the_ids_of_the_list(described: str, tmp_path: Path) -> None:
    numbers = np.arange(300)[::-1].copy() if described.startswith("IDMap") else None
    write(tmp_path / "some.index", described, numbers=numbers)
    (tmp_path / "names.txt").write_text("\n".join(IDS), encoding="utf-8")
    with attached(tmp_path / "w", path=str(tmp_path / "some.index"), id_file="names.txt", nprobe=4) as (engine, handle):
        rows = engine.search(ASKED, 1, perf_counter_ns).rows
        assert handle.ids.take(rows) == [IDS[row] for row in best()]
        assert handle.state["similarity"] == "cosine"
        content = ExpectedContent(np.arange(300, dtype=np.int32), GIVEN, ASKED)
        assert engine.mismatch(content, RecordingProgress()) is None
        other = Inputs(GIVEN.ids, dense=np.roll(VECTORS, 1, axis=0))
        said = engine.mismatch(ExpectedContent(content.rows, other, ASKED), RecordingProgress())
        assert said.startswith(
            "300 documents have other vectors than the encoder gives, 'd0' first; values differ by up to "
        )
        assert engine.source == tmp_path / "some.index"


@pytest.mark.parametrize("described", ["IVF4,Flat", "IDMap,Flat"])
def test_numbers_of_its_own_are_ids_where_there_is_no_list(described: str, tmp_path: Path) -> None:
    write(tmp_path / "index.faiss", described, numbers=np.arange(300)[::-1] * 7 + 5)
    with attached(tmp_path / "work", path=str(tmp_path), nprobe=4) as (engine, handle):
        rows = engine.search(ASKED, 1, perf_counter_ns).rows
        assert handle.ids.take(rows) == [str((299 - row) * 7 + 5) for row in best()]
        known = Inputs(Ids.of(handle.ids), dense=VECTORS[[299 - (int(name) - 5) // 7 for name in handle.ids]])
        content = ExpectedContent(np.arange(300, dtype=np.int32), known, ASKED)
        assert engine.mismatch(content, RecordingProgress()) is None


def test_a_list_of_ids_says_nothing_of_numbers_that_lists_keep(tmp_path: Path) -> None:
    write(tmp_path / "index.faiss", "IVF4,Flat", numbers=np.arange(300)[::-1] * 10)
    (tmp_path / "ids.txt").write_text("\n".join(IDS), encoding="utf-8")
    said = refused(tmp_path / "work", path=str(tmp_path))
    assert said.startswith(f"'{tmp_path}/index.faiss' has its own numbers for its vectors")


def test_an_id_may_hold_any_separator_but_a_line_break(tmp_path: Path) -> None:
    write(tmp_path / "index.faiss", "Flat")
    (tmp_path / "ids.txt").write_text("\r\n".join([f"{IDS[0]}\u2028\x0b", *IDS[1:]]), encoding="utf-8", newline="")
    with attached(tmp_path / "work", path=str(tmp_path)) as (_, handle):
        assert list(handle.ids)[:2] == [f"{IDS[0]}\u2028\x0b", IDS[1]]


def test_the_metric_is_read(tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("\n".join(IDS), encoding="utf-8")
    write(tmp_path / "index.faiss", "Flat", faiss.METRIC_L2)
    with attached(tmp_path / "a", path=str(tmp_path)) as (_, handle):
        assert handle.state["similarity"] == "l2"
    said = refused(tmp_path / "b", path=str(tmp_path), similarity="cosine")
    assert said == "the index compares by l2, which is not similarity=cosine\n  say similarity=l2, or leave it out"
    index = faiss.IndexFlatIP(16)
    index.add(VECTORS * 3)
    faiss.write_index(index, str(tmp_path / "index.faiss"))
    with attached(tmp_path / "c", path=str(tmp_path)) as (_, handle):
        assert handle.state["similarity"] == "dot"
    said = refused(tmp_path / "d", path=str(tmp_path), similarity="cosine")
    assert said.startswith("the index compares by the inner product of vectors that are not of length 1, which is not")


def test_what_cannot_be_searched_rightly_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "index.faiss", "Flat")
    said = refused(tmp_path / "a", path=str(tmp_path))
    assert said.startswith(f"'{tmp_path}/index.faiss' numbers its documents from 0, and there is no file of their ids")
    (tmp_path / "ids.txt").write_text("\n".join(IDS[:-1]), encoding="utf-8")
    said = refused(tmp_path / "b", path=str(tmp_path))
    assert "ids.txt' names 299 documents, the index holds 300\n  give it one line for each document" in said
    for name, kept in (("empty", 0), ("cut", 900)):
        (tmp_path / name).write_bytes((tmp_path / "index.faiss").read_bytes()[:kept])
        said = refused(tmp_path / f"of_{name}", path=str(tmp_path / name))
        assert said.startswith(f"FAISS cannot read '{tmp_path}/{name}': it is empty, or ends too early\n")
    (tmp_path / "not.index").write_bytes(b"no index of FAISS at all")
    said = refused(tmp_path / "c", path=str(tmp_path / "not.index"))
    assert said.startswith(f"FAISS cannot read '{tmp_path}/not.index': ")
    assert refused(tmp_path / "d", path=str(tmp_path / "absent")).startswith("FAISS cannot read")
