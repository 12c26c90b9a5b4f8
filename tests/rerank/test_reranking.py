"""Second stages in a comparison: every form at once on CACM, and what happens when one fails in the middle."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from chat_stub import ChatServer, Fault, chat_server
from installed import skip_without
from small_world import write_cards, write_collection
from tiny_rerankers import save_classifier, save_language_model
from warm_harness import harness_command

import harness
from harness.data import ranking
from harness.errors import UsageError
from harness.metrics import parse_metrics, score
from harness.pipeline.planning import plan_for, preview
from harness.pipeline.probes.combining import best_order
from harness.plan.config import CompareRequest
from harness.plan.plan import make_plan
from harness.report.documents.compare import comparison_document
from harness.results.comparison import Comparison

pytestmark = pytest.mark.usefixtures("warm_workers")

FIRST = "csr:analyzer=snowball-english"
DEPTH = 5
SAMPLE = 3


@pytest.fixture(scope="module")
def server() -> Iterator[ChatServer]:
    with chat_server() as running:
        yield running


@pytest.fixture(scope="module")
def stages(server: ChatServer, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    skip_without("sentence_transformers")
    folder = tmp_path_factory.mktemp("models")
    one, three = save_classifier(folder / "one"), save_classifier(folder / "three", labels=3)
    language = save_language_model(folder / "language")
    return [
        f"keywords:candidates={DEPTH}",
        f"dense:model=random;candidates={DEPTH}",
        f"cross-encoder:model={one};candidates={DEPTH};device=cpu",
        f"classifier:model={three};candidates={DEPTH};device=cpu",
        f"qwen3:model={language};candidates={DEPTH};device=cpu",
        f"judge:model=judge-1;endpoint={server.url};candidates={DEPTH}",
    ]


def compare(stages: list[str]) -> Comparison:
    fusions = [f"{method}:({FIRST})+({FIRST}|{stages[0]})" for method in ("rrf", "minmax", "dbsf")]
    chained = [f"{fusions[0]}|{stages[0]}", f"{FIRST}|keywords:candidates={2 * DEPTH}|{stages[-1]}"]
    asked = [*(f"{FIRST}|{stage}" for stage in stages), *fusions, *chained]
    return harness.compare(asked, "cacm", k=20, sample_queries=SAMPLE, timing=False, isolation="none")


@pytest.fixture(scope="module")
def comparison(stages: list[str]) -> Comparison:
    return compare(stages)


def reranked(comparison: Comparison) -> list[harness.results.schema.TrialResult]:
    return [one for one in comparison.report.trials if one.stages is not None and one.stages.reranking is not None]


def test_every_form_of_fusion_and_second_stage_in_one_comparison(comparison: Comparison) -> None:
    assert comparison.failed == []
    methods = [backend.stages.method for backend in comparison.report.trials if backend.stages is not None]
    assert set(methods) == {
        "keywords",
        "dense",
        "cross-encoder",
        "classifier",
        "qwen3",
        "judge",
        "rrf",
        "minmax",
        "dbsf",
    }
    assert len(comparison.report.trials) == 1 + 6 + 3 + 2 + 1  # and the longer list of keywords that the last one takes


def test_candidates_are_the_first_stages_best_and_no_others(comparison: Comparison) -> None:
    expected = ranking.cut(ranking.order(comparison.run(FIRST)), DEPTH)
    for backend in reranked(comparison)[:6]:
        run = comparison.run(backend.label)
        assert run.indptr.tolist() == expected.indptr.tolist()
        for query in range(SAMPLE):
            found, wanted = run.rows[run.of_query(query)], expected.rows[expected.of_query(query)]
            assert sorted(found) == sorted(wanted)


def test_the_report_counts_the_candidates_that_there_were() -> None:
    backend = f"{FIRST}|keywords:candidates=50"
    few = harness.compare([backend], "cacm", k=3, sample_queries=SAMPLE, timing=False, isolation="none")
    stages = few.trial(backend).stages
    assert stages is not None
    assert stages.reranking is not None
    assert stages.reranking.candidates == 3
    assert "but --k 3 searches only 3" in few.render()


def test_the_ceiling_is_the_best_order_of_the_candidates(comparison: Comparison) -> None:
    assert comparison.qrels is not None
    for backend in reranked(comparison):
        assert backend.stages is not None
        assert backend.stages.reranking is not None
        ceiling = backend.stages.reranking.upper_bound
        assert list(ceiling) == ["nDCG@10"]
        assert backend.metrics["nDCG@10"].mean <= ceiling["nDCG@10"] + 1e-12
        best = best_order(comparison.run(backend.label), comparison.qrels)
        (summary,) = score(best, comparison.qrels, parse_metrics("nDCG@10")).means()
        assert ceiling["nDCG@10"] == summary.value
        assert f"(≤ {summary.value:.4f})".replace("0.", ".") in comparison.render()
    assert max(one.stages.reranking.upper_bound["nDCG@10"] for one in reranked(comparison)) > 0.2  # type: ignore[union-attr]


def test_second_stages_stand_in_no_table_of_parity(comparison: Comparison) -> None:
    tables = {table.title.partition(",")[0]: table for table in comparison_document(comparison.report).tables()}
    shown = {row[0].text for row in tables["Parity with the exact reference"].rows}
    assert shown == {one.label for one in comparison.report.trials} - {one.label for one in reranked(comparison)}


def test_nothing_is_scored_or_asked_twice(comparison: Comparison, stages: list[str], server: ChatServer) -> None:
    asked = len(server.asked)
    assert asked > 0
    again = compare(stages)
    assert len(server.asked) == asked
    for one, other in zip(reranked(comparison), reranked(again), strict=True):
        first, second = comparison.run(one.label), again.run(other.label)
        np.testing.assert_array_equal(first.rows, second.rows)
        np.testing.assert_array_equal(first.scores, second.scores)
        assert other.stages is not None
        assert other.stages.reranking is not None
        # of dense the vectors are stored, and keywords are counted faster than read
        if other.stages.method not in ("dense", "keywords"):
            assert other.stages.reranking.scored == 0
            assert any("scores were in the cache" in note for note in other.notes)


def test_whole_numbers_keep_the_order_of_the_first_stage(comparison: Comparison) -> None:
    keywords = comparison.run(reranked(comparison)[0].label)
    first = comparison.run(FIRST)
    for query in range(SAMPLE):
        place = {row: rank for rank, row in enumerate(first.rows[first.of_query(query)].tolist())}
        hits = keywords.of_query(query)
        counts = np.floor(keywords.scores[hits])
        assert (np.diff(counts) <= 0).all()
        for count in set(counts):
            ranks = [place[row] for row in keywords.rows[hits][counts == count].tolist()]
            assert ranks == sorted(ranks)


def test_a_dense_second_stage_scores_like_exact_dense_search(comparison: Comparison) -> None:
    backend = reranked(comparison)[1]
    assert backend.encoder["model"] == "random"
    scores = comparison.run(backend.label).scores
    assert -1 <= scores.min() < scores.max() <= 1


def run(*arguments: str, cache: Path, verb: str = "compare") -> subprocess.CompletedProcess[str]:
    command = [*harness_command(), verb, *arguments]
    environment = {**os.environ, "HARNESS_CACHE": str(cache)}
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)


def test_a_judge_that_goes_away_is_one_backends_failure_and_goes_on_where_it_was(tmp_path: Path) -> None:
    collection = write_collection(tmp_path / "small")
    cards = write_cards(tmp_path / "cards", good="BruteForce")
    cache, out = tmp_path / "cache", tmp_path / "out"
    with chat_server(Fault(), Fault(), *[Fault(500, body=b"gone")] * 40) as server:
        backend = f"good|judge:model=j;endpoint={server.url};request_retry_s=0.3"
        options = ["--dataset", str(collection), "--cards", str(cards), "--k", "4", "--no-timing"]
        failed = run("--backends", backend, *options, "--out", str(out), cache=cache)
        assert failed.returncode == 3
        assert "answered 500: gone" in " ".join(failed.stdout.split())
        assert "good  " in failed.stdout  # the first stage has its figures
        graded = 2
        server.faults.clear()
        before = len(server.asked)
        done = run("--backends", backend, *options, "--out", str(out), "--overwrite", cache=cache)
        assert done.returncode == 0, done.stderr
        assert "(≤ x): what the best possible order of a second stage's candidates would reach" in " ".join(
            done.stdout.split()
        )
        listed = run("list", "--kind", "rerank", cache=cache, verb="cache")
        assert "reranker=judge" in listed.stdout
        assert "3 entries" in listed.stdout  # one query found nothing
        pairs = harness.Comparison.load(out).trial(backend).stages
        assert pairs is not None
        assert pairs.reranking is not None
        assert pairs.reranking.scored == len(server.asked) - before == pairs.reranking.pairs - graded


def test_a_killed_run_loses_no_grade_and_totals_are_right(tmp_path: Path) -> None:
    collection, cards = write_collection(tmp_path / "small"), write_cards(tmp_path / "cards", good="BruteForce")
    cache, out = tmp_path / "cache", tmp_path / "out"
    with chat_server(Fault(), Fault(), Fault(wait_s=60.0)) as server:
        backend = f"good|judge:model=j;endpoint={server.url}"
        options = ["--dataset", str(collection), "--cards", str(cards), "--k", "4", "--isolation", "none"]
        words = ["--backends", backend, *options, "--out", str(out), "--overwrite"]
        killed = start(*words, cache=cache)
        wait_for(lambda: len(server.asked) == 3)
        killed.kill()
        killed.communicate(timeout=60)
        assert killed.returncode < 0
        answered = [asked["messages"][-1]["content"] for asked in server.asked[:2]]
        refused = run(*words, "--max-calls", "0", cache=cache)
        assert refused.returncode == 3
        assert len(server.asked) == 3, "a call was made"
        done = run(*words, cache=cache)
        assert done.returncode == 0, done.stderr
        again = [asked["messages"][-1]["content"] for asked in server.asked[3:]]
        assert not set(answered) & set(again), "a grade was paid for twice"
        assert f"the cache lacks {len(again)} grades: that takes {len(again)} calls of" in " ".join(
            refused.stdout.split()
        )
        assert facts(out) == {"endpoint": server.url, "calls": len(again), "repeated_calls": 0, "calls_before": 2}
        served = run(*words, "--max-calls", "0", cache=cache)
        assert served.returncode == 0, served.stdout
        assert facts(out) == {"endpoint": server.url, "calls": 0, "repeated_calls": 0, "calls_before": len(again) + 2}
        assert len(server.asked) == 3 + len(again)


def start(*arguments: str, cache: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "harness", "compare", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, env={**os.environ, "HARNESS_CACHE": str(cache)}
    )


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until, "it never happened"
        time.sleep(0.02)


def facts(out: Path) -> Mapping[str, object]:
    stages = harness.Comparison.load(out).report.trials[-1].stages
    assert stages is not None
    assert stages.reranking is not None
    return stages.reranking.facts


@pytest.mark.parametrize(
    ("backend", "message"),
    [
        ("csr|keyword", "unknown reranker 'keyword'"),
        ("csr|keywords|", "unknown reranker ''"),
        ("csr|keywords|nosuch", "unknown reranker 'nosuch'"),
        ("csr|cross-encoder", "it has no default model"),
        ("csr|judge:model=m;endpoint=http://me:secret@host/v1", "is not of the form"),
        ("csr|dense:model=nobody/", "is not understood"),
        ("csr|keywords:candidates=0", "0 is below 1"),
        ("csr|judge:endpoint=http://127.0.0.1:1/v1", "the judge has no model"),
        ("csr|rerank:model=m", "reranker 'rerank': it needs url="),
        ("csr|rerank:url=https://api.jina.ai", "reranker 'rerank': api=jina needs a model"),
        ("csr|rerank:url=http://h;api=openai", "'openai'"),
    ],
)
def test_mistakes_are_told_before_anything_runs(backend: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        make_plan(CompareRequest(backends=backend), lucene_available=False)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("stage", "calls"),
    [
        ("judge:model=m;endpoint=http://127.0.0.1:1/v1;candidates=4", "16 calls of 'http://127.0.0.1:1/v1'"),
        ("rerank:url=http://127.0.0.1:1/v1;candidates=4", "4 calls of 'http://127.0.0.1:1/v1/rerank'"),
        ("rerank:url=http://127.0.0.1:1/v1;candidates=4;batch_size=3", "8 calls of 'http://127.0.0.1:1/v1/rerank'"),
    ],
)
def test_a_dry_run_says_how_often_a_service_may_be_asked(stage: str, calls: str, tmp_path: Path) -> None:
    backend = f"csr|{stage}"
    request = CompareRequest(backends=backend, dataset=str(write_collection(tmp_path / "small")), max_calls=5)
    plan = plan_for(request)
    assert plan.trials[-1].parameters["max_calls"] == 5
    asked = [found.remote for found in preview(plan)[0].look_ups]
    assert asked == [None, f"at most {calls}: cached texts are not sent again"]


def test_second_stages_follow_one_another_and_fusions() -> None:
    asked = "rrf:csr+(csr:k1=2.0|keywords)|keywords:candidates=9|dense:model=random"
    plan = make_plan(CompareRequest(backends=asked), lucene_available=False)
    assert [trial.label for trial in plan.trials] == [
        "csr",
        "csr:k1=2.0",
        "csr:k1=2.0|keywords",
        "rrf:csr+(csr:k1=2.0|keywords)",
        "rrf:csr+(csr:k1=2.0|keywords)|keywords:candidates=9",
        asked,
    ]
    again = make_plan(CompareRequest(backends=plan.trials[-1].label), lucene_available=False)
    assert [trial.spec for trial in again.trials] == [trial.spec for trial in plan.trials]


def test_stored_runs_are_reranked(tmp_path: Path) -> None:
    collection = write_collection(tmp_path / "small")
    (tmp_path / "a.trec").write_text("q1 Q0 d4 1 9 a\nq1 Q0 d2 2 8 a\nq1 Q0 d6 3 7 a\n")
    (tmp_path / "b.trec").write_text("q1 Q0 d4 1 9 a\nq1 Q0 elsewhere 2 8 a\n")
    asked = [f"run:{tmp_path}/{name}.trec|keywords" for name in ("a", "b")]
    comparison = harness.compare(asked, collection, k=4, isolation="none")
    run = comparison.run(asked[0])
    assert run.doc_ids.take(run.rows) == ["d2", "d6", "d4"]  # two hold two words each, and keep their order
    error = comparison.trial(asked[1]).error
    assert error is not None
    assert "1 candidates are of queries or documents that the dataset lacks, among them: elsewhere" in error.message
