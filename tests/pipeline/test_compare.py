"""The main job end to end on a tiny collection: real workers, real files, engines made for tests."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest
from small_world import DOCUMENTS, write_cards, write_collection, write_plain_card
from warm_harness import harness_command

import harness
from harness.errors import UsageError
from harness.loaders.trec import read_qrels
from harness.metrics import parse_metrics, score
from harness.results.comparison import Comparison

pytestmark = pytest.mark.usefixtures("warm_workers")


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
    command = [*harness_command(), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_an_exact_engine_is_identical_to_its_oracle(comparison: Comparison) -> None:
    for label in ("good", "good:k1=2.0"):
        parity = comparison.trial(label).parity
        assert parity is not None
        assert (parity.queries, parity.tie_equivalent, parity.different) == (4, 4, 0)
        assert parity.causes == {}
    assert list(comparison.parity().index) == ["good", "good:k1=2.0"]


def test_every_document_and_query_is_accounted_for(comparison: Comparison) -> None:
    backend = comparison.trial("good")
    assert backend.index is not None
    assert backend.search is not None
    assert (backend.index.documents_sent, backend.index.documents_indexed) == (len(DOCUMENTS), len(DOCUMENTS))
    assert comparison.report.dataset.empty_documents == 1
    assert comparison.report.dataset.queries.model_dump() == {
        "searched": 4,
        "judged": 4,
        "relevant": 3,
        "without_id": 0,
    }
    assert backend.search.milliseconds is not None
    assert backend.search.milliseconds.n == 3 * 2  # not that of no known term
    assert (backend.search.queries, backend.search.queries_without_terms) == (4, 1)
    assert backend.search.queries_without_hits == 1
    assert "1 query without a known term has no hits, and no part in times and queries/s" in backend.notes


def test_every_phase_is_told(collection: Path, cards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))  # other tests use the same collection, and may be quicker
    comparison = harness.compare("good,good:k1=2.0", collection, k=3, cards=cards)
    first, other = (comparison.trial(label).phases for label in ("good", "good:k1=2.0"))
    assert first is not None
    assert other is not None
    assert (first.encode_source, other.encode_source) == ("computed", "computed")
    assert first.encode_seconds is not None
    assert first.encode_seconds > 0
    assert min(first.open_seconds, first.index_seconds, first.warm_up_seconds, first.search_seconds) > 0
    index, search = comparison.trial("good").index, comparison.trial("good").search
    assert index is not None
    assert search is not None
    assert (index.seconds, index.ready_seconds) == (first.index_seconds, first.ready_seconds)
    assert index.searchable_seconds == pytest.approx(index.seconds + index.ready_seconds)
    assert first.search_seconds == pytest.approx(search.milliseconds.mean * search.milliseconds.n / 1000)
    again = harness.compare("good,good:k1=3.0", collection, k=3, cards=cards)
    stored = [again.trial(label).phases for label in ("good", "good:k1=3.0")]
    assert [phases.encode_source for phases in stored if phases] == ["cached", "partly cached"]
    assert stored[0] is not None
    assert stored[0].encode_seconds is None
    assert "cached" in again.render(verbose=True)


def test_metrics_are_those_of_the_metric_core(comparison: Comparison) -> None:
    assert comparison.folder is not None
    qrels = read_qrels(comparison.folder / "qrels" / f"{comparison.report.dataset.name}.tsv")
    again = score(comparison.run("good"), qrels, parse_metrics("nDCG@10,AP,R@100,RR@10"))
    frame = comparison.metrics()
    for summary in again.means():
        assert frame.loc["good", str(summary.measure)] == summary.value
    values = comparison.per_query()
    means = values[values["backend"] == "good"].groupby("metric")["value"].mean()
    assert means["AP"] == pytest.approx(frame.loc["good", "AP"])


def test_every_query_s_agreement_adds_up_to_the_parity(comparison: Comparison) -> None:
    frame = comparison.agreement_per_query()
    for backend in comparison.report.trials:
        rows = frame[frame["backend"] == backend.label]
        if backend.parity is None:
            assert rows.empty
            continue
        assert len(rows) == backend.parity.queries == rows["query_id"].nunique()
        assert (rows["level"] == "different").sum() == backend.parity.different
        assert (rows["level"] == "bit_equal").sum() == backend.parity.bit_equal
        assert rows["rbo"].mean() == pytest.approx(backend.parity.rbo)
    assert set(frame["backend"]) >= {"good"}


def test_a_stored_result_is_the_same_comparison(comparison: Comparison) -> None:
    assert comparison.folder is not None
    again = Comparison.load(comparison.folder)
    assert again.report == comparison.report
    assert again.render("markdown") == comparison.render("markdown")
    queries = pq.read_table(comparison.folder / "queries" / f"{again.report.dataset.name}.parquet")
    assert queries["id"].to_pylist() == [
        "q1",
        "q2",
        "q3",
        "q4",
    ]


def test_a_stored_run_is_a_backend(comparison: Comparison, collection: Path, cards: Path) -> None:
    assert comparison.folder is not None
    stored = comparison.folder / "runs" / comparison.report.dataset.name / "good.trec.gz"
    again = harness.compare([f"run:{stored}", "good"], collection, k=3, cards=cards)
    by_file, by_engine = again.report.trials
    assert by_file.metrics == by_engine.metrics
    assert by_file.parity is None
    assert by_file.search is None


def test_documents_of_a_run_that_the_collection_lacks_are_named(collection: Path, cards: Path, tmp_path: Path) -> None:
    mixed = tmp_path / "mixed.trec"
    mixed.write_text("q1 Q0 d1 1 3 t\nq1 Q0 elsewhere 2 2 t\nq1 Q0 d2 3 1 t\n")
    (note,) = harness.compare([f"run:{mixed}"], collection, cards=cards).report.trials[0].notes
    assert note == "1 of its 3 documents are not in the dataset (elsewhere): their hits keep their ranks"


def test_failures_are_named_and_leave_the_others_alone(collection: Path, cards: Path, tmp_path: Path) -> None:
    out = tmp_path / "result"
    done = run("compare", "--backends", "absent,crashing,losing,good", "--dataset", str(collection),
               "--cards", str(cards), "--out", str(out))  # fmt: skip
    assert done.returncode == 3
    report = json.loads((out / "report.json").read_text())
    status = {backend["label"]: backend["status"] for backend in report["trials"]}
    assert status == {"absent": "failed", "crashing": "failed", "losing": "failed", "good": "ok"}
    errors = {b["label"]: b["error"] for b in report["trials"] if b["error"]}
    assert errors["absent"]["type"] == "EngineUnavailableError"
    assert "SIGSEGV" in errors["crashing"]["message"]
    assert "lost 1 documents that are not empty: d2" in errors["losing"]["message"]
    assert report["trials"][3]["metrics"]["AP"]["mean"] > 0.5
    assert all(not backend["metrics"] for backend in report["trials"][:3])
    assert "✕ absent failed\n  the engine is not there" in done.stdout
    assert "good: 6 of 6 documents indexed, 4 queries searched" in done.stderr
    assert sorted(path.name for path in (out / "runs").rglob("*.gz")) == ["good.trec.gz"]


def test_an_engine_that_needs_no_encoder_runs_without_one(collection: Path, tmp_path: Path) -> None:
    cards = write_plain_card(write_plain_card(tmp_path, "plain", "ByLength"), "wanting", "BruteForce")
    comparison = harness.compare("plain,wanting", collection, k=3, cards=cards)
    plain = comparison.trial("plain")
    assert (plain.status, plain.encoder, plain.parity) == ("ok", {}, None)
    assert plain.phases is not None
    assert (plain.phases.encode_source, plain.phases.encode_seconds) == ("engine", None)
    assert plain.metrics["AP"].mean > 0
    run = comparison.run("plain")
    assert run.doc_ids.take(run.rows[run.of_query(0)]) == ["d6", "d2", "d4"]
    wanting = comparison.trial("wanting")
    assert wanting.error is not None
    assert (wanting.error.type, wanting.metrics) == ("CardError", {})
    assert "the engine takes sparse vectors, but 'encoder' is 'none'" in wanting.error.message


def test_without_lucene_its_backends_fail_by_name_and_the_others_go_on(
    collection: Path, cards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HARNESS_ANSERINI_JAR", raising=False)
    monkeypatch.setattr("harness.java.jvm.find_spec", lambda _name: None)
    labels = ("good", "good:analyzer=lucene-english", "lucene")
    comparison = harness.compare(list(labels), collection, k=3, cards=cards)
    assert comparison.trial("good").status == "ok"
    for label in labels[1:]:
        error = comparison.trial(label).error
        assert error is not None
        assert error.type == "MissingExtraError"
        assert "pip install 'retrieval-harness[lucene]'" in error.message


def test_a_collection_without_terms_is_a_failure_and_not_a_row_of_noughts(cards: Path, tmp_path: Path) -> None:
    folder = write_collection(tmp_path / "small")
    (folder / "corpus.jsonl").write_text(
        "".join(json.dumps({"_id": name, "text": "the and"}) + "\n" for name in DOCUMENTS)
    )
    comparison = harness.compare("good,good:analyzer=snowball-english", folder, cards=cards)
    assert comparison.trial("good").status == "ok"
    error = comparison.trial("good:analyzer=snowball-english").error
    assert error is not None
    assert error.type == "DataError"
    assert "no document has a term under the analyzer 'snowball-english'" in error.message


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
        assert name == "table" or done.stdout == comparison.render(name)
    for verbose in ((), ("--verbose",)):
        shown = run("report", str(comparison.folder), *verbose)
        assert max(map(len, shown.stdout.splitlines())) <= 80, "without a terminal, and without COLUMNS"


def test_a_sample_of_queries_keeps_all_documents(collection: Path, cards: Path) -> None:
    sampled = harness.compare("good", collection, cards=cards, sample_queries=2, seed=1)
    dataset = sampled.report.dataset
    assert (dataset.queries.searched, dataset.sampled_from, dataset.documents) == (2, 4, len(DOCUMENTS))


def test_without_judgments_parity_remains(cards: Path, tmp_path: Path) -> None:
    collection = write_collection(tmp_path / "unjudged", judged=False)
    comparison = harness.compare("good", collection, cards=cards)
    backend = comparison.trial("good")
    assert backend.metrics == {}
    assert backend.parity is not None
    assert backend.parity.queries == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "--k is 0"),
        ({"metrics": "nDGC@10"}, "unknown metric 'nDGC'"),
        ({"ties": "random"}, "--ties random"),
        ({"queries": "all"}, "--queries all"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_runs(
    collection: Path, cards: Path, options: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        harness.compare("crashing", collection, cards=cards, **options)  # type: ignore[arg-type]


def test_ids_with_spaces_are_stored_and_scored_again(cards: Path, tmp_path: Path) -> None:
    collection = write_collection(tmp_path / "spaced")
    for path in (collection / "corpus.jsonl", collection / "qrels" / "test.tsv"):
        path.write_text(path.read_text().replace("d2", "d 2"))
    comparison = harness.compare("good", collection, cards=cards, out=tmp_path / "r", metrics="AP")
    stored = tmp_path / "r" / "runs" / "spaced" / "good.parquet"
    again = harness.evaluate(stored, tmp_path / "r" / "qrels" / "spaced.tsv", ["AP"])
    assert again.means()[0].value == comparison.metrics().loc["good", "AP"]
    assert any("white space" in note for note in comparison.trial("good").notes)


def test_a_dry_run_refuses_what_the_run_would_refuse(cards: Path, comparison: Comparison) -> None:
    for wrong in (
        ["--dataset", "cacn"],
        ["--dataset", "./nowhere"],
        ["--out", str(comparison.folder)],
        ["--seed", "-1"],
    ):
        done = run("compare", "--backends", "good", "--cards", str(cards), "--dry-run", *wrong)
        assert done.returncode in (2, 3), wrong
        assert "Traceback" not in done.stderr


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache in which no other test's comparisons run at the same time."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_sigterm_ends_everything_and_leaves_nothing(collection: Path, tmp_path: Path, own_cache: Path) -> None:
    """As Ctrl-C, of which `test_interrupted.py` is."""
    cards = write_cards(tmp_path / "cards", hanging="Hangs")
    arguments = ["compare", "--backends", "hanging", "--dataset", str(collection), "--cards", str(cards),
                 "--out", str(tmp_path / "r")]  # fmt: skip
    with subprocess.Popen([sys.executable, "-m", "harness", *arguments], stderr=subprocess.PIPE, text=True) as process:
        try:
            _await_engine(own_cache)
            workers = psutil.Process(process.pid).children(recursive=True)
            process.terminate()
            _, error = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 130, error
    assert "interrupted" in error
    assert "Traceback" not in error
    _, alive = psutil.wait_procs(workers, timeout=5)
    assert alive == []
    assert not (tmp_path / "r").exists()
    assert list((own_cache / "work").iterdir()) == []


def _await_engine(cache: Path) -> None:
    """Wait until the engine of a comparison with this cache says in its log that it hangs."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if any("about to hang" in log.read_text() for log in cache.glob("work/*/*/log.txt")):
            return
        time.sleep(0.05)
    raise AssertionError("the engine was never reached")


def test_what_a_killed_comparison_left_is_removed(collection: Path, cards: Path, own_cache: Path) -> None:
    left = own_cache / "work" / "compare-killed"
    (left / "trial").mkdir(parents=True)
    left.with_suffix(".lock").touch()
    harness.compare("good", collection, cards=cards)
    assert list((own_cache / "work").iterdir()) == []


def test_backends_that_answer_different_queries_are_told_apart(
    comparison: Comparison, collection: Path, cards: Path, tmp_path: Path
) -> None:
    short = tmp_path / "short.trec"
    short.write_text("q2 Q0 d4 1 1.0 short\n")
    answered = harness.compare([f"run:{short}", "good"], collection, cards=cards, queries="answered", metrics="AP")
    counts = [backend.queries for backend in answered.report.trials]
    assert [(count.answered, count.evaluated) for count in counts if count is not None] == [(1, 1), (3, 3)]
    lines = answered.render(verbose=True).splitlines()
    assert [line.split()[-2:] for line in lines if line.startswith(("run:", "good"))][:2] == [["1", "1"], ["3", "3"]]


def test_only_means_have_intervals_and_differences(collection: Path, cards: Path) -> None:
    measured = harness.compare("good,good:k1=2.0", collection, cards=cards, metrics="AP,gm_map,NumRet")
    for backend in measured.report.trials:
        ap = backend.metrics["AP"]
        assert ap.ci_low is not None
        assert ap.ci_high is not None
        assert ap.ci_low <= ap.mean <= ap.ci_high
        assert backend.metrics["gm_map"].ci_low is None
        assert backend.metrics["NumRet"].ci_high is None
    assert {row.metric for row in measured.report.differences} == {"AP"}
