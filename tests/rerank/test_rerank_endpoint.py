"""Second stages behind a /rerank, in all dialects: requests, answers, calls, the cache, and faults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from chat_stub import Fault
from rerank_stub import KEY, RerankServer, rerank_server, score

import harness
from harness.data.progress import SilentDisplay
from harness.errors import EngineUnavailableError, UsageError
from harness.plan.stages import rerankers
from harness.rerank.endpoint import RerankEndpoint, read_scores
from harness.rerank.stage import Candidates, RerankedRun, ScoreCache, score_candidates
from harness.store.cache import Cache

QUERIES = ["cat garden", "light rail", "zeppelin"]
DOCUMENTS = ["a dog chased the cat across the garden", "cats", "light rail", "", "cat cat"]
PROGRESS = SilentDisplay().section("")
DIALECTS = {
    "cohere": "/v2/rerank",
    "jina": "/jina/v1/rerank",
    "voyage": "/voyage/v1/rerank",
    "tei": "/tei/rerank",
    "vllm": "/vllm/rerank",
}
GOOD = [{"index": 1, "relevance_score": 0.5}, {"index": 0, "relevance_score": -3}]


def endpoint(url: str, **given: Any) -> RerankEndpoint:
    limits = {"request_timeout_s": 5.0, "request_retry_s": 5.0}
    return RerankEndpoint({**rerankers()["rerank"].defaults, "url": url, "model": "m", **limits, **given})


def dialect(server: RerankServer, api: str, **given: Any) -> RerankEndpoint:
    return endpoint(f"{server.url}{DIALECTS[api]}", api=api, **given)


def run(reranker: RerankEndpoint, cache: Path, queries: int = len(QUERIES)) -> RerankedRun:
    query_rows = np.repeat(np.arange(queries, dtype=np.int32), len(DOCUMENTS))
    document_rows = np.tile(np.arange(len(DOCUMENTS), dtype=np.int32), queries)
    candidates = Candidates(pa.chunked_array([QUERIES]), pa.chunked_array([DOCUMENTS]), query_rows, document_rows)
    scores = ScoreCache(Cache(cache), "rerank", reranker.identity())
    return score_candidates(reranker, candidates, scores, PROGRESS, lambda: 0)


def expected(queries: int = len(QUERIES)) -> list[float]:
    values = [score(query, document) for query in QUERIES[:queries] for document in DOCUMENTS]
    return np.array(values, dtype=np.float32).tolist()


@pytest.mark.parametrize("api", DIALECTS)
def test_each_dialect_scores_all_documents_of_a_query_in_one_call(api, tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_RERANK_API_KEY", KEY)
    with rerank_server() as server:
        reranker = dialect(server, api)
        reranked = run(reranker, tmp_path)
    assert reranked.scores.tolist() == expected()
    assert not reranked.integer_scores
    assert server.paths == [DIALECTS[api]] * len(QUERIES)
    assert server.keys == [f"Bearer {KEY}"] * len(QUERIES)
    assert [body["query"] for body in server.bodies] == QUERIES
    sent = [sorted(body.get("texts", body.get("documents"))) for body in server.bodies]
    assert sent == [sorted(DOCUMENTS)] * len(QUERIES)
    counts = {"cohere": (0, 3), "tei": (0, 0)}.get(api, (21, 0))
    assert (reranker.facts["tokens"], reranker.facts["search_units"]) == counts
    assert reranker.facts["calls"] == len(QUERIES)
    assert reranker.facts["api"] == api


def test_raw_scores_and_the_rule_for_long_texts_are_sent():
    with rerank_server() as server:
        for api, truncate in (("tei", True), ("tei", False), ("voyage", False)):
            reranker = dialect(server, api, truncate=truncate)
            reranker.load()
            reranker.score(["cat"], ["cat"], np.zeros(1, dtype=np.float32), PROGRESS)
            reranker.close()
    assert [(body.get("raw_scores"), body.get("truncate")) for body in server.bodies[:2]] == [
        (True, True),
        (True, False),
    ]
    assert server.bodies[2]["truncation"] is False
    assert server.bodies[2]["top_k"] == 1


@pytest.mark.parametrize(
    ("url", "model", "api", "address"),
    [
        ("https://api.cohere.com", "m", "cohere", "https://api.cohere.com/v2/rerank"),
        ("https://api.cohere.com/v2/rerank/", "m", "cohere", "https://api.cohere.com/v2/rerank"),
        ("https://api.jina.ai/v1", "m", "jina", "https://api.jina.ai/v1/rerank"),
        ("https://API.VOYAGEAI.com", "m", "voyage", "https://API.VOYAGEAI.com/v1/rerank"),
        ("http://127.0.0.1:8080", "", "tei", "http://127.0.0.1:8080/rerank"),
        ("http://127.0.0.1:8000/v1", "m", "vllm", "http://127.0.0.1:8000/v1/rerank"),
        ("http://notcohere.com", "", "tei", "http://notcohere.com/rerank"),
    ],
)
def test_host_and_model_choose_the_dialect(url, model, api, address):
    facts = endpoint(url, model=model).facts
    assert (facts["api"], facts["endpoint"]) == (api, address)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"url": ""}, "it needs url="),
        ({"url": "https://user:secret@api.cohere.com"}, "it needs url="),
        ({"url": "https://api.cohere.com/v2/rerank?key=secret"}, "it needs url="),
        ({"url": "https://api.jina.ai", "model": ""}, "api=jina needs a model"),
        ({"url": "http://127.0.0.1", "truncate": False}, "truncate=false has no effect with api=vllm"),
    ],
)
def test_parameters_without_sense_are_refused(given, message):
    with pytest.raises(UsageError, match=message) as refused:
        endpoint(**{"url": "http://127.0.0.1", **given})
    assert "secret" not in str(refused.value)


def test_scores_are_asked_for_once_and_depend_on_what_changes_them(tmp_path):
    with rerank_server() as server:
        run(dialect(server, "vllm"), tmp_path, queries=2)
        again = run(dialect(server, "vllm", batch_size=2, parallel=2, max_calls=0), tmp_path, queries=2)
        assert (again.scores.tolist(), again.scored, again.facts["calls"]) == (expected(2), 0, 0)
        assert len(server.bodies) == 2
        for change in ({"model": "other"}, {"revision": "2"}):
            assert run(dialect(server, "vllm", **change), tmp_path, queries=1).scored == len(DOCUMENTS)
        added = run(dialect(server, "vllm"), tmp_path)  # one more query
        assert (added.scored, len(server.bodies)) == (len(DOCUMENTS), 5)


@pytest.mark.parametrize("refusal", [413, 422])
def test_a_batch_that_the_server_refuses_is_halved(refusal, tmp_path):
    with rerank_server(most=2, refusal=refusal) as server:
        reranker = dialect(server, "tei", batch_size=5)
        assert run(reranker, tmp_path).scores.tolist() == expected()
    sizes = [len(body["texts"]) for body in server.bodies]
    assert sizes == [5, 2, 2, 1, *[2, 2, 1] * 2]
    assert reranker.facts["accepted_batch_size"] == 2


def test_a_single_document_that_the_server_refuses_is_an_error(tmp_path):
    with (
        rerank_server(most=0) as server,
        pytest.raises(EngineUnavailableError, match="refused a call with 422") as failed,
    ):
        run(dialect(server, "tei"), tmp_path)
    assert "the query was 'cat garden', with 1 document" in str(failed.value)
    assert [len(body["texts"]) for body in server.bodies] == [5, 2, 1]


def test_long_documents_are_cut_before_they_are_sent_and_counted(tmp_path):
    with rerank_server() as server:
        reranker = dialect(server, "vllm", max_characters=5, batch_size=2, parallel=2)
        reranked = run(reranker, tmp_path, queries=2)
        again = run(dialect(server, "vllm", max_characters=5, max_calls=0), tmp_path, queries=2)
    assert {text for body in server.bodies for text in body["documents"]} == {text[:5] for text in DOCUMENTS}
    expected_scores = [score(query, text[:5]) for query in QUERIES[:2] for text in DOCUMENTS]
    assert reranked.scores.tolist() == np.array(expected_scores, dtype=np.float32).tolist()
    for lengths in (reranked.lengths, again.lengths):
        assert lengths is not None
        assert lengths.counts.tolist() == [[len(text), max(0, len(text) - 5)] for text in DOCUMENTS] * 2
        assert lengths[1:] == (5, "max_characters= of the backend", "characters")


def test_how_much_a_service_reads_is_unknown_if_all_is_sent(tmp_path):
    with rerank_server() as server:
        lengths = run(dialect(server, "vllm"), tmp_path, queries=1).lengths
    assert lengths is not None
    assert lengths.counts.tolist() == [[-1, -1]] * len(DOCUMENTS)


def test_several_queries_are_sent_at_the_same_time(tmp_path):
    with rerank_server(wait_s=0.3) as server:
        assert run(dialect(server, "vllm", parallel=3), tmp_path).scores.tolist() == expected()
    assert server.busy == 3


def test_no_more_calls_than_allowed(tmp_path):
    with rerank_server() as server:
        with pytest.raises(EngineUnavailableError, match=r"(?s)that takes 9 calls of .*--max-calls 9"):
            run(dialect(server, "vllm", max_calls=0, batch_size=2), tmp_path)
        assert server.bodies == []
        with pytest.raises(EngineUnavailableError, match=r"2 calls .* allows no more"):
            run(dialect(server, "vllm", max_calls=2, parallel=2), tmp_path)
        assert len(server.bodies) == 2
        assert run(dialect(server, "vllm", max_calls=1), tmp_path).facts["calls"] == 1


@pytest.mark.parametrize(
    "fault",
    [
        Fault(429, {"Retry-After": "0"}, b"slow down"),
        Fault(503, body=b"loading"),
        Fault(body=b"<html>"),
        Fault(body=b'{"results": []}'),
    ],
    ids=["429", "503", "not JSON", "no results"],
)
def test_passing_failures_are_waited_for(fault, tmp_path):
    with rerank_server(fault) as server:
        reranked = run(dialect(server, "vllm"), tmp_path)
    assert reranked.scores.tolist() == expected()
    assert (reranked.facts["calls"], reranked.facts["repeated_calls"]) == (4, 1)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500])
def test_lasting_failures_name_endpoint_and_query_and_keep_earlier_scores(status, tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_RERANK_API_KEY", KEY)
    faults = [Fault(status, {"Retry-After": "0"}, f"no: {KEY}".encode())] * 20
    with rerank_server(Fault(), *faults) as server:
        with pytest.raises(EngineUnavailableError) as failed:
            run(dialect(server, "vllm", request_retry_s=0.1), tmp_path)
        message = str(failed.value)
        assert f"'{server.url}/vllm/rerank'" in message
        assert str(status) in message
        assert "the query was 'light rail', with 5 documents" in message
        assert KEY not in message
        server.faults.clear()
        assert run(dialect(server, "vllm"), tmp_path).scored == 2 * len(DOCUMENTS)


def test_finished_batches_of_a_query_are_kept(tmp_path):
    refused = Fault(500, body=b"oops")
    with rerank_server(Fault(), *[refused] * 20) as server:
        with pytest.raises(EngineUnavailableError, match="answered 500"):
            run(dialect(server, "vllm", batch_size=3, request_retry_s=0.1), tmp_path, queries=1)
        server.faults.clear()
        assert run(dialect(server, "vllm", batch_size=3), tmp_path, queries=1).scored == 2


def results(*rows: Any) -> dict[str, Any]:
    return {"results": list(rows)}


def row(index: Any, value: Any) -> dict[str, Any]:
    return {"index": index, "relevance_score": value}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (results(row(0, 1)), "1 result for 2 documents; missing indexes: 1"),
        (results(), "0 results for 2 documents; missing indexes: 0, 1"),
        (results(row(0, 1), row(2, 1)), "the index 2 for 2 documents"),
        (results(row(0, 1), row(-1, 1)), "the index -1 for 2 documents"),
        (results(row(0, 1), row(0, 2)), "the index 0 occurs twice"),
        (results(row(0, 1), row(1, 1), row(1, 1)), "the index 1 occurs twice"),
        (results(row(True, 1), row(1, 1)), "without a whole number as its index"),
        (results(row("0", 1), row(1, 1)), "without a whole number as its index"),
        (results({"relevance_score": 1}, row(1, 1)), "without a whole number as its index"),
        (results([0, 1]), "without a whole number as its index"),
        (results(row(0, "0.5"), row(1, 1)), "no number as its 'relevance_score'"),
        (results(row(0, None), row(1, 1)), "no number as its 'relevance_score'"),
        (results({"index": 0, "score": 1}, row(1, 1)), "no number as its 'relevance_score'"),
        (results(row(0, float("nan")), row(1, 1)), "the score nan, which is not finite"),
        (results(row(0, 1e39), row(1, 1)), r"the score 1e\+39, which is not finite"),
        ({"results": {"0": 1}}, "no list of results in the shape of api=vllm"),
        ({"data": []}, "this is the shape of api=voyage"),
        ([], "this is the shape of api=tei"),
        (None, "no list of results in the shape of api=vllm"),
        ("oops", "no list of results in the shape of api=vllm"),
    ],
)  # fmt: skip
def test_faulty_answers_are_refused(answer, message):
    with pytest.raises(ValueError, match=message):
        read_scores(answer, 2, "vllm")


def test_answers_come_in_any_order():
    assert read_scores(results(*GOOD), 2, "vllm").scores == [-3.0, 0.5]
    assert read_scores([{"index": 0, "score": 1}], 1, "tei").scores == [1.0]


def test_a_faulty_answer_fails_the_backend_and_fills_nothing_in(tmp_path):
    with rerank_server(answer=results(row(0, 1.0))) as server, pytest.raises(EngineUnavailableError) as failed:
        run(dialect(server, "vllm"), tmp_path)
    assert "sent an unusable answer: 1 result for 5 documents; missing indexes: 1, 2, 3, 4" in str(failed.value)
    assert "the query was 'cat garden'" in str(failed.value)
    assert len(server.bodies) == 3
    assert not list(tmp_path.rglob("scores.arrow"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A dataset whose second query has no candidate."""
    data = tmp_path / "data"
    (data / "qrels").mkdir(parents=True)
    corpus = [{"_id": f"d{row}", "title": "", "text": text} for row, text in enumerate(DOCUMENTS) if text]
    (data / "corpus.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in corpus))
    queries = [{"_id": f"q{row}", "text": text} for row, text in enumerate(QUERIES)]
    (data / "queries.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in queries))
    (data / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq0\td0\t1\nq1\td2\t1\nq2\td1\t1\n")
    return data


@pytest.mark.usefixtures("warm_workers")
def test_a_comparison_with_a_second_stage_by_endpoint(folder, monkeypatch):
    monkeypatch.setenv("HARNESS_RERANK_API_KEY", KEY)
    with rerank_server() as server:
        backends = ["csr", f"csr|rerank:url={server.url}/vllm;model=m;candidates=3"]
        reranked = harness.compare(backends, str(folder), k=10).report.trials[1]
        again = harness.compare(backends, str(folder), k=10, max_calls=0, timing=False, isolation="none").report.trials[
            1
        ]
    assert reranked.status == again.status == "ok"
    assert server.paths == ["/vllm/rerank"] * 2  # the third query has no candidates
    assert server.keys == [f"Bearer {KEY}"] * 2
    assert KEY not in reranked.model_dump_json()
    assert reranked.stages is not None
    assert reranked.stages.method_ms is not None
    assert reranked.stages.reranking is not None
    assert reranked.stages.reranking.facts["calls"] == 2
    assert f"2 calls of '{server.url}/vllm/rerank' were made now, for 14 tokens" in reranked.notes
    assert again.stages is not None
    assert again.stages.reranking is not None
    assert again.stages.reranking.facts["calls"] == 0
    assert again.metrics == reranked.metrics


@pytest.mark.usefixtures("warm_workers")
def test_a_check_with_a_second_stage_by_endpoint(tmp_path):
    chunks = tmp_path / "chunks.jsonl"
    lines = [{"id": f"d{row}", "text": text} for row, text in enumerate(DOCUMENTS) if text]
    chunks.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    golden = [
        {"id": f"q{row}", "question": question, "expected_relevant_doc_ids": [document]}
        for row, (question, document) in enumerate([("cat garden", "d0"), ("light rail", "d2")])
    ]
    with rerank_server() as server:
        backends = ["csr", f"reranked=csr|rerank:url={server.url}/tei;candidates=4"]
        checked = harness.check(
            golden, backends=backends, corpus=str(chunks), k=4, require=["Hit@1>=0.5"], timing=False, isolation="none"
        )
    assert server.paths == ["/tei/rerank"] * 2
    figures = {trial.label: trial.metrics["MRR@4"].mean for trial in checked.report.trials}
    assert figures == {"csr": 1.0, "reranked": 0.75}  # "cat cat" has a higher share of the query's words than d0
    (difference,) = [row for row in checked.report.differences if row.metric == "MRR@4"]
    assert (difference.a, difference.b, difference.losses) == ("csr", "reranked", 1)


def test_a_key_in_the_url_is_not_repeated(folder):
    with pytest.raises(UsageError, match="is not of the form") as refused:
        harness.compare("csr|rerank:url=http://u:hidden@h/rerank", str(folder), k=10)
    assert "hidden" not in str(refused.value)
