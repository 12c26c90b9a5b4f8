"""The main job end to end on a tiny collection: real workers, real files, engines made for tests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from small_world import DOCUMENTS, write_cards, write_collection

import harness
from harness.errors import UsageError
from harness.loaders.trec import read_qrels
from harness.metrics import parse_measures, score
from harness.results.comparison import Comparison


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_collection(tmp_path_factory.mktemp("data") / "small")


@pytest.fixture(scope="module")
def cards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    engines = {"good": "BruteForce", "absent": "Unavailable", "crashing": "Segfaults", "losing": "LosesDocuments"}
    return write_cards(tmp_path_factory.mktemp("cards"), **engines)


@pytest.fixture(scope="module")
def comparison(collection: Path, cards: Path, tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    out = tmp_path_factory.mktemp("out") / "result"
    return harness.compare("good,good:k1=2.0", collection, k=3, cards=cards, out=out, repeat=2)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "harness", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_an_exact_engine_is_identical_to_its_oracle(comparison: Comparison) -> None:
    for label in ("good", "good:k1=2.0"):
        parity = comparison.backend(label).parity
        assert parity is not None
        assert (parity.queries, parity.tie_equivalent, parity.different) == (4, 4, 0)
        assert parity.causes == {}
    assert list(comparison.parity().index) == ["good", "good:k1=2.0"]


def test_every_document_and_query_is_accounted_for(comparison: Comparison) -> None:
    backend = comparison.backend("good")
    assert backend.index is not None
    assert backend.search is not None
    assert (backend.index.documents_sent, backend.index.documents_indexed) == (len(DOCUMENTS), len(DOCUMENTS))
    assert comparison.report.dataset.empty_documents == 1
    assert comparison.report.dataset.queries.model_dump() == {"searched": 4, "judged": 4, "relevant": 3}
    assert backend.search.milliseconds.n == 4 * 2
    assert backend.search.queries_without_hits == 1
    assert "1 query has no term that a document has, and no hits" in backend.notes


def test_metrics_are_those_of_the_metric_core(comparison: Comparison) -> None:
    assert comparison.folder is not None
    qrels = read_qrels(comparison.folder / "qrels.tsv")
    again = score(comparison.run("good"), qrels, parse_measures("nDCG@10,AP,R@100,RR@10"))
    frame = comparison.metrics()
    for summary in again.means():
        assert frame.loc["good", str(summary.measure)] == summary.value
    values = comparison.per_query()
    means = values[values["backend"] == "good"].groupby("metric")["value"].mean()
    assert means["AP"] == pytest.approx(frame.loc["good", "AP"])


def test_a_stored_result_is_the_same_comparison(comparison: Comparison) -> None:
    assert comparison.folder is not None
    again = Comparison.load(comparison.folder)
    assert again.report == comparison.report
    assert again.render("markdown") == comparison.render("markdown")
    assert pq.read_table(comparison.folder / "queries.parquet").column("id").to_pylist() == ["q1", "q2", "q3", "q4"]


def test_a_stored_run_is_a_backend(comparison: Comparison, collection: Path, cards: Path) -> None:
    assert comparison.folder is not None
    stored = comparison.folder / "runs" / "good.trec.gz"
    again = harness.compare([f"run:{stored}", "good"], collection, k=3, cards=cards)
    by_file, by_engine = again.report.backends
    assert by_file.metrics == by_engine.metrics
    assert by_file.parity is None
    assert by_file.search is None


def test_failures_are_named_and_leave_the_others_alone(collection: Path, cards: Path, tmp_path: Path) -> None:
    out = tmp_path / "result"
    done = run("compare", "--backends", "absent,crashing,losing,good", "--dataset", str(collection),
               "--cards", str(cards), "--out", str(out))  # fmt: skip
    assert done.returncode == 3
    report = json.loads((out / "report.json").read_text())
    status = {backend["label"]: backend["status"] for backend in report["backends"]}
    assert status == {"absent": "failed", "crashing": "failed", "losing": "failed", "good": "ok"}
    errors = {b["label"]: b["error"] for b in report["backends"] if b["error"]}
    assert errors["absent"]["type"] == "EngineUnavailableError"
    assert "SIGSEGV" in errors["crashing"]["message"]
    assert "lost 1 documents that are not empty: d2" in errors["losing"]["message"]
    assert report["backends"][3]["metrics"]["AP"]["mean"] > 0.5
    assert all(not backend["metrics"] for backend in report["backends"][:3])
    assert "absent failed: the engine is not there" in done.stdout
    assert "good: 6 of 6 documents indexed, 4 queries searched" in done.stderr
    assert sorted(path.name for path in (out / "runs").iterdir()) == ["good.trec.gz"]


def test_dry_run_runs_nothing(collection: Path, cards: Path, tmp_path: Path) -> None:
    done = run("compare", "--backends", "crashing", "--dataset", str(collection), "--cards", str(cards),
               "--out", str(tmp_path / "r"), "--dry-run")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "crashing" in done.stdout
    assert "k1=0.9" in done.stdout
    assert not (tmp_path / "r").exists()


def test_every_format_of_a_stored_result(comparison: Comparison) -> None:
    for name in ("table", "markdown", "csv", "json"):
        done = run("report", str(comparison.folder), "--format", name)
        assert done.returncode == 0, done.stderr
        assert done.stdout == comparison.render(name)


def test_a_sample_of_queries_keeps_all_documents(collection: Path, cards: Path) -> None:
    sampled = harness.compare("good", collection, cards=cards, sample_queries=2, seed=1)
    dataset = sampled.report.dataset
    assert (dataset.queries.searched, dataset.sampled_from, dataset.documents) == (2, 4, len(DOCUMENTS))


def test_without_judgments_parity_remains(cards: Path, tmp_path: Path) -> None:
    collection = write_collection(tmp_path / "unjudged", judged=False)
    comparison = harness.compare("good", collection, cards=cards)
    backend = comparison.backend("good")
    assert backend.metrics == {}
    assert backend.parity is not None
    assert backend.parity.queries == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "--k is 0"),
        ({"metrics": "nDGC@10"}, "unknown measure 'nDGC'"),
        ({"ties": "random"}, "--ties random"),
        ({"queries": "all"}, "--queries all"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_runs(
    collection: Path, cards: Path, options: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        harness.compare("crashing", collection, cards=cards, **options)  # type: ignore[arg-type]
