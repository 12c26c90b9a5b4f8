"""What one encoding is shared by, and what reaches the process that makes it."""

from __future__ import annotations

import time
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from small_world import write_collection

from harness.data.dataset import Dataset
from harness.data.progress import Progress, SilentDisplay
from harness.encoders.stream import Made
from harness.errors import DataError, EngineTimeoutError
from harness.loaders import load_dataset
from harness.plan.config import CompareRequest
from harness.plan.plan import Trial, make_plan
from harness.store.cache import Cache
from harness.store.columns import save_table
from harness.store.record_files import load, save
from harness.testing.samples import STEP_NS, StepClock
from harness.text import analyzer_identity
from harness.worker.dispatch import run_job
from harness.worker.embeddings import CacheCheck, _balanced, encoding_in_words
from harness.worker.encodings import Encodings
from harness.worker.jobs import AnalyseJob
from harness.worker.process import FinishedProcess
from harness.worker.threads import side_by_side


class WhiteSpace:
    """An executor that counts terms by white space, whichever analyzer was asked for, and remembers the jobs."""

    def __init__(self) -> None:
        self.jobs: list[AnalyseJob] = []

    def run(self, folder: Path, progress: Progress) -> FinishedProcess:
        job = load(folder, AnalyseJob)
        self.jobs.append(job)
        time.sleep(0.2)  # so that whoever does not wait for it is seen
        save(folder, replace(job, analyzer="whitespace"))
        run_job(folder, progress, clock=StepClock())
        return FinishedProcess(None, None, ())


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return load_dataset(str(write_collection(tmp_path / "small")), cache=Cache(tmp_path / "cache"))


def made(dataset: Dataset, tmp_path: Path, executor: WhiteSpace) -> Encodings:
    for name, part in (("corpus", dataset.corpus), ("queries", dataset.queries)):
        save_table(tmp_path / f"{name}.arrow", pa.table({"id": part.ids.values, "text": part.texts}))
    corpus, queries = tmp_path / "corpus.arrow", tmp_path / "queries.arrow"
    return Encodings(
        Cache(tmp_path / "cache"), dataset, corpus, queries, None, tmp_path, SilentDisplay(), executor, CacheCheck()
    )


def trial(backend: str) -> Trial:
    (only,) = make_plan(CompareRequest(backends=backend), lucene_available=False).trials
    return only


def jar(folder: Path, content: bytes) -> Path:
    folder.mkdir()
    path = folder / "anserini-1.7.1-fatjar.jar"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("io/anserini/analysis/AnalyzerMap.class", content)
    return path


def test_jars_share_no_terms_and_heaps_do(dataset: Dataset, tmp_path: Path) -> None:
    executor = WhiteSpace()
    one, other = jar(tmp_path / "one", b"1"), jar(tmp_path / "other", b"2")
    found = made(dataset, tmp_path, executor)
    folders = [
        found.vectors(trial(f"lucene:{given}"), weights=True).folders  # type: ignore[union-attr]
        for given in (f"jar={one}", f"jar={one};heap=1g", f"jar={other}", f"jar={other};k1=2.0")
    ]
    assert [(job.jar, job.heap) for job in executor.jobs] == [(str(one), "2g"), (str(other), "2g")]
    assert folders[0] == folders[1]
    assert len(set(folders)) == 3


def test_a_jar_of_the_environment_is_named_too(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = WhiteSpace()
    found = made(dataset, tmp_path, executor)
    for name in ("one", "other", "one"):
        path = tmp_path / name if (tmp_path / name).exists() else jar(tmp_path / name, name.encode()).parent
        monkeypatch.setenv("HARNESS_ANSERINI_JAR", str(path / "anserini-1.7.1-fatjar.jar"))
        found.vectors(trial("csr:analyzer=lucene-english"), weights=True)
    assert [job.jar for job in executor.jobs] == [None, None]


def test_an_identity_names_what_decides_the_terms(tmp_path: Path) -> None:
    path = jar(tmp_path / "one", b"1")
    named = analyzer_identity("lucene-german", jar=str(path))
    assert (named["jar"], named["language"], len(named["sha256"])) == (path.name, "de", 64)
    assert "PyStemmer" in analyzer_identity("snowball-german", jar=str(path))["stemmer"]
    assert analyzer_identity("whitespace", jar=str(path)) == {}


def test_trials_side_by_side_share_one_analysis(dataset: Dataset, tmp_path: Path) -> None:
    executor = WhiteSpace()
    found = made(dataset, tmp_path, executor)
    trials = [trial(f"csr:k1={k1}") for k1 in (0.9, 1.2, 0.9, 1.5)]
    made_of = side_by_side(partial(found.vectors, weights=True), trials, jobs=4)
    assert len(executor.jobs) == 1
    folders = [vectors.folders for vectors in made_of if vectors is not None]
    assert folders[0] == folders[2]
    assert len(set(folders)) == 3


def test_what_encoding_took_is_told_to_all_who_share_it_and_never_made_up(dataset: Dataset, tmp_path: Path) -> None:
    first = made(dataset, tmp_path, WhiteSpace())
    alone, shared = first.vectors(trial("csr"), weights=True), first.vectors(trial("qdrant"), weights=True)
    assert alone is not None
    assert shared is not None
    assert alone.steps_ns == shared.steps_ns
    assert alone.steps_ns[0] == STEP_NS
    assert alone.steps_ns[1] is not None
    later = made(dataset, tmp_path, WhiteSpace())
    cached, other_weights = later.vectors(trial("csr"), weights=True), later.vectors(trial("csr:k1=2.0"), weights=True)
    assert cached is not None
    assert cached.steps_ns == (None, None)
    assert other_weights is not None
    assert other_weights.steps_ns[0] is None
    assert other_weights.steps_ns[1] is not None


def test_weights_are_made_for_those_who_need_them(dataset: Dataset, tmp_path: Path) -> None:
    found = made(dataset, tmp_path, WhiteSpace())
    counted = found.vectors(trial("csr"), weights=False)
    assert counted is not None
    assert counted.sparse is not None
    assert (counted.folders, counted.sparse.documents, counted.steps_ns[1]) == ((), None, None)
    assert not (tmp_path / "cache" / "bm25").exists()
    weighed = found.vectors(trial("csr"), weights=True)
    assert weighed is not None
    assert weighed.sparse is not None
    assert weighed.sparse.documents is not None
    assert weighed.sparse.queries.values.tolist() == counted.sparse.queries.values.tolist()


def test_an_analysis_that_failed_is_not_tried_again(dataset: Dataset, tmp_path: Path) -> None:
    class Fails(WhiteSpace):
        def run(self, folder: Path, progress: Progress) -> FinishedProcess:
            super().run(folder, progress)
            raise EngineTimeoutError("still running after 1 s")

    executor = Fails()
    found = made(dataset, tmp_path, executor)
    for _ in range(2):
        with pytest.raises(EngineTimeoutError):
            found.vectors(trial("csr"), weights=True)
    assert len(executor.jobs) == 1
    with pytest.raises(EngineTimeoutError):
        found.vectors(trial("csr:analyzer=snowball-german"), weights=True)
    assert len(executor.jobs) == 2


def test_documents_without_any_term_are_refused_from_the_cache_too(dataset: Dataset, tmp_path: Path) -> None:
    corpus = replace(dataset.corpus, texts=pa.chunked_array([[" "] * len(dataset.corpus)]), digest="blank", path=None)
    found = made(replace(dataset, corpus=corpus), tmp_path, WhiteSpace())
    for _ in range(2):
        with pytest.raises(DataError, match="no document has a term under the analyzer 'whitespace'"):
            found.vectors(trial("csr:analyzer=whitespace"), weights=True)


def test_parts_are_dealt_by_the_texts_that_are_left() -> None:
    def dealt(left: list[int], most: int) -> list[list[str]]:
        parts: list[Any] = [str(number) for number in range(len(left))]
        return [list(map(str, group)) for group in _balanced(parts, np.array(left), most)]

    assert dealt([1, 4096, 4096, 4096, 4096], 2) == [["0", "1", "2"], ["3", "4"]]
    assert dealt([5, 5], 7) == [["0"], ["1"]]
    assert dealt([0, 0], 3) == [["0", "1"]]


@pytest.mark.parametrize(
    ("rows", "encoded", "words"),
    [
        (1, 1, "1 query encoded, 2/s"),
        (1, None, "vectors of 1 query re-used"),
        (2000, 1500, "2,000 queries encoded (500 of them by an earlier run), 4,000/s"),
        (2, None, "vectors of 2 queries re-used"),
    ],
)
def test_texts_with_vectors_are_counted_in_words(rows: int, encoded: int | None, words: str) -> None:
    assert encoding_in_words(Made(rows, 3, 500_000_000, None, "", 8, {}, 1, None, ""), "queries", encoded) == words
