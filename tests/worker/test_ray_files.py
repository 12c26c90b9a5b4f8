"""Files of a job travel to a node that does not see its folder, and what the job made comes back: without a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from installed import skip_without

from harness.data.progress import SilentDisplay
from harness.engines.callable.answers import Asked
from harness.exact import TopK
from harness.store.columns import save_column, save_table
from harness.store.record_files import load, save
from harness.worker.dispatch import run_job
from harness.worker.jobs import TARGET_FOLDER, AskJob, DenseSearchJob
from harness.worker.ray_files import UnpackedFiles, send_files, write_returned


class ObjectStore:
    """Keeps copies of arrays, by number."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []
        self.sent: dict[Path, Any] = {}

    def put(self, array: np.ndarray) -> int:
        assert type(array) is np.ndarray  # another class travels pickled
        self.arrays.append(array.copy())
        return len(self.arrays) - 1

    def unpack(self, folder: Path, node: Path) -> UnpackedFiles:
        """Copy the files of the job in ``folder`` to places below ``node``."""
        node.mkdir()
        return send_files(folder, self.put, self.sent).unpack(node, self.arrays.__getitem__)

    def run_elsewhere(self, folder: Path, node: Path) -> None:
        """Run the job in ``folder`` with copies of its files below ``node``."""
        unpacked = self.unpack(folder, node)
        run_job(unpacked.here(folder), SilentDisplay().section(""), before_open=lambda: None)
        for file in unpacked.changes():
            write_returned(file)


def dense_job(folder: Path, vectors: Path) -> None:
    folder.mkdir()
    queries, ties = np.ones((1, 2), dtype=np.float32), np.arange(3, dtype=np.uint32)
    save(folder, DenseSearchJob(vectors, 4, 7, queries, "dot", ties, 2))


def test_only_the_rows_of_a_part_travel(tmp_path: Path) -> None:
    vectors, store = tmp_path / "vectors.npy", ObjectStore()
    save_column(vectors, np.arange(20_000, dtype=np.float32).reshape(10_000, 2))
    dense_job(tmp_path / "job", vectors)
    store.run_elsewhere(tmp_path / "job", tmp_path / "node")
    top = load(tmp_path / "job", TopK)
    assert (top.rows.tolist(), top.scores.tolist()) == ([2, 1], [25.0, 21.0])
    assert sum(array.nbytes for array in store.arrays) < 10_000
    assert store.sent == {}


def test_a_file_is_put_once_until_it_changes_or_is_gone(tmp_path: Path) -> None:
    store, folder = ObjectStore(), tmp_path / "job"
    folder.mkdir()
    questions, others = tmp_path / "questions.arrow", tmp_path / "others.arrow"
    questions.write_bytes(b"one")
    for expected in (1, 1):
        save(folder, AskJob("module:name", questions, 1, 1, False, folder / "store"))
        send_files(folder, store.put, store.sent)
        assert sum(array.tobytes() == b"one" for array in store.arrays) == expected
    questions.write_bytes(b"changed")
    send_files(folder, store.put, store.sent)
    assert store.arrays[store.sent[questions][1]].tobytes() == b"changed"
    questions.rename(others)
    save(folder, AskJob("module:name", others, 1, 1, False, folder / "store"))
    send_files(folder, store.put, store.sent)
    assert list(store.sent) == [others]


def test_finished_chunks_come_back_before_the_end_and_what_is_removed_then_goes(tmp_path: Path) -> None:
    vectors, store = tmp_path / "vectors.npy", ObjectStore()
    save_column(vectors, np.zeros((10, 2), dtype=np.float32))
    dense_job(tmp_path / "job", vectors)
    unpacked = store.unpack(tmp_path / "job", tmp_path / "node")
    target, column, record = tmp_path / "job" / "target", "documents.npy", "progress.json"
    here, sizes = unpacked.here(target), list[tuple[str, int, int]]()
    here.mkdir()
    for chunks in (1, 2):
        (here / record).write_text(f"{chunks}")
        (here / column).write_bytes(b"chunk" * chunks)
        for file in unpacked.finished_chunks():
            write_returned(file)
            sizes.append((Path(file.path).name, len(file.content), file.start))  # type: ignore[arg-type]
        assert (target / column).read_bytes() == b"chunk" * chunks
        assert (target / record).read_text() == f"{chunks}"
    assert sizes == [(column, 5, 0), (record, 1, 0), (column, 5, 5), (record, 1, 0)]  # the record after what it counts
    (here / record).unlink()
    (here / column).write_bytes(b"CHUNKchunk")  # with its final header
    for file in unpacked.changes():
        write_returned(file)
    assert (target / column).read_bytes() == b"CHUNKchunk"
    assert not (target / record).exists()


def test_absent_files_of_one_name_have_places_of_their_own(tmp_path: Path) -> None:
    unpacked = UnpackedFiles({}, tmp_path, {}, {})
    places = [unpacked.here(Path(path)) for path in ("/one/cache", "/other/cache", "/one/cache")]
    assert places[0] == places[2] != places[1]
    assert [place.name for place in places] == ["cache"] * 3
    assert all(place.parent.is_dir() for place in places)


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore")  # of LangChain's own
def test_the_store_behind_a_retriever_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without("langchain_community")
    monkeypatch.chdir(tmp_path)
    Path("chunks.jsonl").write_text('{"_id": "fruit", "text": "apples"}\n')
    folder, questions = tmp_path / "job", tmp_path / "questions.arrow"
    folder.mkdir()
    save_table(questions, pa.table({"id": ["a"], "text": ["apples"]}))
    target = "retrievers_of_frameworks:langchain_faiss"
    save(folder, AskJob(target, questions, 1, 1, False, folder / "store", "langchain", "source"))
    ObjectStore().run_elsewhere(folder, tmp_path / "node")
    asked = load(folder, Asked)
    assert asked.store is not None
    assert (asked.store.reason, asked.store.parameters["path"]) == ("", f"{TARGET_FOLDER}/index")
    assert sorted(path.name for path in (folder / "store").rglob("*")) == [
        "ids.txt",
        "index",
        "index.faiss",
        "queries.ids.txt",
        "queries.npy",
    ]
