"""Files of a job travel to a node that does not see its folder, and what the job made comes back: without a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from harness.data.progress import SilentDisplay
from harness.exact import TopK
from harness.store.columns import save_column, save_table
from harness.store.record_files import load, save
from harness.worker.dispatch import run_job
from harness.worker.jobs import AskJob, DenseSearchJob, EncodeJob, EncodePart
from harness.worker.ray_files import ReturnedFiles, UnpackedFiles, send_files, write_returned


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
        run_job(unpacked.local_path(folder), SilentDisplay().section(""))
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
        save(folder, AskJob("module:name", questions, 1, 1, False))
        send_files(folder, store.put, store.sent)
        assert sum(array.tobytes() == b"one" for array in store.arrays) == expected
    questions.write_bytes(b"changed")
    send_files(folder, store.put, store.sent)
    assert store.arrays[store.sent[questions][1]].tobytes() == b"changed"
    questions.rename(others)
    save(folder, AskJob("module:name", others, 1, 1, False))
    send_files(folder, store.put, store.sent)
    assert list(store.sent) == [others]


class TestFinishedChunks:
    """An encoding of two parts on its node, between two chunks; an earlier run has begun the second part."""

    @pytest.fixture
    def parts(self, tmp_path: Path) -> list[Path]:
        job, parts = tmp_path / "job", [tmp_path / "job" / "first", tmp_path / "job" / "second"]
        job.mkdir()
        texts = job / "texts.arrow"
        save_table(texts, pa.table({"id": ["a"], "text": ["a"]}))
        for part in parts:
            part.mkdir()
        (parts[1] / "documents.npy").write_bytes(b"HEADone+what nothing counts")
        (parts[1] / "progress.json").write_bytes(b"1")
        save(job, EncodeJob("dense", {}, tuple(EncodePart("documents", texts, part) for part in parts)))
        return parts

    @pytest.fixture
    def unpacked(self, parts: list[Path], tmp_path: Path) -> UnpackedFiles:
        return ObjectStore().unpack(parts[0].parent, tmp_path / "node")

    @staticmethod
    def write(unpacked: UnpackedFiles, part: Path, column: bytes, record: str, content: str) -> None:
        (unpacked.local_path(part) / "documents.npy").write_bytes(column)
        (unpacked.local_path(part) / record).write_text(content)

    @staticmethod
    def back(files: Iterator[ReturnedFiles]) -> list[tuple[str, int | None, int]]:
        """Write what comes back; return part and name, size (None: removed), and start of each."""
        returned = []
        for file in files:
            write_returned(file)
            name = "/".join(Path(file.path).parts[-2:])
            returned.append((name, None if file.content is None else len(file.content), file.start))
        return returned

    def test_they_come_back_before_the_end_and_the_record_after_what_it_counts(
        self, unpacked: UnpackedFiles, parts: list[Path]
    ) -> None:
        first, _ = parts
        self.write(unpacked, first, b"HEADone", "progress.json", "1")
        column, record = "first/documents.npy", "first/progress.json"
        assert self.back(unpacked.finished_chunks()) == [(column, 7, 0), (record, 1, 0)]
        assert self.back(unpacked.finished_chunks()) == []
        self.write(unpacked, first, b"HEADonetwo", "progress.json", "22")
        assert self.back(unpacked.finished_chunks()) == [(column, 3, 7), (record, 2, 0)]
        assert (first / "documents.npy").read_bytes() == b"HEADonetwo"

    def test_a_complete_part_comes_back_at_once_and_only_once(self, unpacked: UnpackedFiles, parts: list[Path]) -> None:
        first, _ = parts
        self.write(unpacked, first, b"HEADone", "progress.json", "1")
        self.back(unpacked.finished_chunks())
        self.write(unpacked, first, b"headonetwo", "made.json", "{}")
        (unpacked.local_path(first) / "progress.json").unlink()
        complete = [("first/documents.npy", 10, 0), ("first/made.json", 2, 0)]
        assert self.back(unpacked.finished_chunks()) == complete
        assert self.back(unpacked.finished_chunks()) == []
        assert self.back(unpacked.changes()) == [("first/progress.json", None, 0)]
        assert (first / "documents.npy").read_bytes() == b"headonetwo"

    @pytest.mark.parametrize("written", [b"HEADone2nd chunk of the job", b"HEADnew"], ids=["resumed", "begun again"])
    def test_what_an_earlier_run_left_behind_its_record_is_not_taken_for_what_this_one_wrote(
        self, unpacked: UnpackedFiles, parts: list[Path], written: bytes
    ) -> None:
        """Until the job adds to a part nothing of it comes back, and then all of it."""
        first, second = parts
        self.write(unpacked, first, b"HEADone", "progress.json", "1")
        self.back(unpacked.finished_chunks())
        self.write(unpacked, second, written, "progress.json", "2")
        again = [("second/documents.npy", len(written), 0), ("second/progress.json", 1, 0)]
        assert self.back(unpacked.finished_chunks()) == again
        assert (second / "documents.npy").read_bytes() == written


def test_absent_files_of_one_name_have_places_of_their_own(tmp_path: Path) -> None:
    unpacked = UnpackedFiles({}, tmp_path, [], {}, {})
    places = [unpacked.local_path(Path(path)) for path in ("/one/cache", "/other/cache", "/one/cache")]
    assert places[0] == places[2] != places[1]
    assert [place.name for place in places] == ["cache"] * 3
    assert all(place.parent.is_dir() for place in places)
