"""What one encoding is shared by, and what reaches the process that makes it."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from small_world import write_collection

from harness.analysis import analyzer_identity
from harness.cache import Cache
from harness.columns import save_table
from harness.errors import DataError
from harness.execution import encodings
from harness.execution.encodings import Encodings
from harness.execution.jobs import AnalyseJob, read_job
from harness.loaders import load_dataset
from harness.plan import CompareRequest, Trial, make_plan
from harness.protocols import Progress
from harness.reporting.progress import SilentDisplay
from harness.types import Dataset


class WorkerInPlace:
    """Counts terms by white space in this process, whichever analyzer was asked for, and remembers the jobs."""

    jobs: list[tuple[AnalyseJob, float | None]]

    def __init__(self, folder: Path, *, deadline_s: float | None = None) -> None:
        job = read_job(folder)
        assert isinstance(job, AnalyseJob)
        self._job = job
        self.jobs.append((job, deadline_s))

    def run(self, progress: Progress) -> None:
        encodings.analyse(replace(self._job, analyzer="whitespace"), progress)


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[AnalyseJob, float | None]]:
    monkeypatch.setattr(encodings, "Worker", WorkerInPlace)
    monkeypatch.setattr(WorkerInPlace, "jobs", [], raising=False)
    return WorkerInPlace.jobs


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return load_dataset(str(write_collection(tmp_path / "small")), cache=Cache(tmp_path / "cache"))


def made(dataset: Dataset, tmp_path: Path, deadline_s: float | None = None) -> Encodings:
    for name, part in (("corpus", dataset.corpus), ("queries", dataset.queries)):
        save_table(tmp_path / f"{name}.arrow", pa.table({"id": part.ids.values, "text": part.texts}))
    corpus, queries = tmp_path / "corpus.arrow", tmp_path / "queries.arrow"
    return Encodings(Cache(tmp_path / "cache"), dataset, corpus, queries, tmp_path, SilentDisplay(), deadline_s)


def trial(backend: str) -> Trial:
    (only,) = make_plan(CompareRequest(backends=backend), lucene_available=False).trials
    return only


def jar(folder: Path, content: bytes) -> Path:
    folder.mkdir()
    path = folder / "anserini-1.7.1-fatjar.jar"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("io/anserini/analysis/AnalyzerMap.class", content)
    return path


def test_jars_share_no_terms_and_heaps_do(
    dataset: Dataset, tmp_path: Path, jobs: list[tuple[AnalyseJob, float | None]]
) -> None:
    one, other = jar(tmp_path / "one", b"1"), jar(tmp_path / "other", b"2")
    found = made(dataset, tmp_path)
    folders = [
        found.vectors(trial(f"lucene:{given}")).folder  # type: ignore[union-attr]
        for given in (f"jar={one}", f"jar={one};heap=1g", f"jar={other}", f"jar={other};k1=2.0")
    ]
    assert [(job.jar, job.heap) for job, _ in jobs] == [(str(one), "2g"), (str(other), "2g")]
    assert folders[0] == folders[1]
    assert len(set(folders)) == 3


def test_a_jar_of_the_environment_is_named_too(
    dataset: Dataset, tmp_path: Path, jobs: list[tuple[AnalyseJob, float | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = made(dataset, tmp_path)
    for name in ("one", "other", "one"):
        path = tmp_path / name if (tmp_path / name).exists() else jar(tmp_path / name, name.encode()).parent
        monkeypatch.setenv("HARNESS_ANSERINI_JAR", str(path / "anserini-1.7.1-fatjar.jar"))
        found.vectors(trial("csr:analyzer=lucene-english"))
    assert [job.jar for job, _ in jobs] == [None, None]


def test_an_identity_names_what_decides_the_terms(tmp_path: Path) -> None:
    path = jar(tmp_path / "one", b"1")
    named = analyzer_identity("lucene-german", jar=str(path))
    assert (named["jar"], named["language"], len(named["sha256"])) == (path.name, "de", 64)
    assert "PyStemmer" in analyzer_identity("snowball-german", jar=str(path))["stemmer"]
    assert analyzer_identity("whitespace", jar=str(path)) == {}


def test_an_analysis_has_the_deadline_of_a_trial(
    dataset: Dataset, tmp_path: Path, jobs: list[tuple[AnalyseJob, float | None]]
) -> None:
    made(dataset, tmp_path, deadline_s=12.5).vectors(trial("csr:analyzer=whitespace"))
    assert [deadline_s for _, deadline_s in jobs] == [12.5]


@pytest.mark.usefixtures("jobs")
def test_documents_without_any_term_are_refused_from_the_cache_too(dataset: Dataset, tmp_path: Path) -> None:
    corpus = replace(dataset.corpus, texts=pa.chunked_array([[" "] * len(dataset.corpus)]), digest="blank", path=None)
    found = made(replace(dataset, corpus=corpus), tmp_path)
    for _ in range(2):
        with pytest.raises(DataError, match="no document has a term under the analyzer 'whitespace'"):
            found.vectors(trial("csr:analyzer=whitespace"))
