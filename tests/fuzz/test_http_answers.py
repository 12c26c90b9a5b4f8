"""Answers of HTTP endpoints: any status, headers and bytes, of what searches, encodes and judges."""

from __future__ import annotations

import json
from typing import Any

import httpx
import numpy as np
from fuzzing import CONTENTS, JSON_VALUES, changed, changes, fuzz, survives
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from harness.data.inputs import Inputs
from harness.data.progress import SilentDisplay
from harness.data.types import Ids
from harness.encoders.embeddings_endpoint import EndpointModel
from harness.encoders.settings import Settings
from harness.engines.callable.http_endpoint import HttpBackend, HttpSettings
from harness.plan.stages import rerankers
from harness.registry.parameters import encoder_parameters
from harness.remote.calls import Limits, RemoteCalls
from harness.rerank.endpoint import DIALECTS, RerankEndpoint
from harness.rerank.judge import Judge
from harness.testing import RecordingProgress

HITS = {"results": [{"id": "d1", "score": 2.0, "text": "one"}, {"id": "d2", "score": 1, "text": None}], "took": 3}
EMBEDDINGS = {
    "data": [{"index": 1, "embedding": [0.5, 1.0]}, {"index": 0, "embedding": [1.5, 0.0]}],
    "usage": {"prompt_tokens": 4},
}
RANKED = {
    "results": [{"index": 1, "relevance_score": 0.5}, {"index": 0, "relevance_score": -2}],
    "usage": {"total_tokens": 3},
}
COMPLETION = {"choices": [{"message": {"content": '<think>…</think>```json\n{"grade": 2}\n```'}}]}
HEADERS = st.dictionaries(
    st.sampled_from(["Content-Type", "Content-Encoding", "Retry-After", "Location"]),
    st.sampled_from(
        ["application/json", "text/html; charset=klingon", "gzip", "br, deflate", "0", "-1", "\xb2", "1e400",
         "Wed, 31 Dec 9999 23:59:59 +9959", "http://elsewhere/"]
    ).map(lambda value: value.encode("latin-1")),
    max_size=2,
)  # fmt: skip
NESTED = {"[": b"[" * 100_000, "results": b'{"results":' * 50_000, "grade": b'{"grade": ' * 50_000}


@st.composite
def answers(draw: DrawFn, expected: Any) -> dict[str, Any]:
    """Draw what httpx makes a response of: mostly the expected JSON with another value in one position."""
    kind = draw(st.integers(0, 9))
    if kind < 8:
        value = draw(changes().map(lambda change: changed(expected, *change)) if kind else JSON_VALUES)
        content = json.dumps(value).encode(errors="surrogatepass")
    else:
        content = draw(st.one_of(*CONTENTS.values()) if kind == 8 else st.sampled_from(sorted(NESTED)))
    status = draw(st.sampled_from([200, 200, 200, 200, 204, 301, 401, 404, 429, 500, 503]))
    return {"status_code": status, "headers": draw(HEADERS), "content": content}


def calls_answered_with(answer: dict[str, Any]) -> RemoteCalls:
    waits = [0.0]

    def sleep(seconds: float) -> None:
        assert 0.0 < seconds <= 1.0
        waits.append(seconds)

    calls = RemoteCalls("http://host", key_env="", limits=Limits(retry_s=1.0), clock=lambda: sum(waits), sleep=sleep)
    calls._client = httpx.Client(transport=httpx.MockTransport(lambda _: response_of(answer)))
    return calls


def response_of(answer: dict[str, Any]) -> httpx.Response:
    content = answer["content"]
    return httpx.Response(**{**answer, "content": NESTED[content] if isinstance(content, str) else content})


@fuzz
@given(answers(HITS), st.sampled_from(["results[*].id", "results", "[*].id", '["results"][0].id', ""]))
def test_answers_of_searches(answer: dict[str, Any], ids: str) -> None:
    options = {"url": "http://host/s?q={question}", "ids": ids or "$.results[*].id"}
    if ids == "results[*].id":
        options |= {"scores": "results[*].score", "texts": "results[*].text"}
    backend = HttpBackend(HttpSettings.of(options), calls_answered_with(answer))
    survives(lambda: backend.retrieve("question", 2))


@fuzz
@given(answers(EMBEDDINGS))
def test_answers_of_encoders(answer: dict[str, Any]) -> None:
    import pyarrow as pa

    parameters = {name: declared.default for name, declared in encoder_parameters("dense").items()}
    settings = Settings.of("dense", {**parameters, "model": "http:tiny", "endpoint": "http://host"})
    texts = Inputs(Ids.of(["d1", "d2"]), texts=pa.chunked_array([["one", "two"]], pa.string()))
    survives(lambda: EndpointModel(settings, calls_answered_with(answer)).encode(texts, "documents"))


@fuzz
@given(answers(COMPLETION) | JSON_VALUES.map(lambda value: {"content": json.dumps(value)}).map(
    lambda message: {"status_code": 200, "content": json.dumps({"choices": [{"message": message}]}).encode()}
))  # fmt: skip
def test_answers_of_judges(answer: dict[str, Any]) -> None:
    judge = Judge({**rerankers()["judge"].defaults, "model": "m", "endpoint": "http://host"})
    judge._calls = calls_answered_with(answer)
    survives(lambda: judge.score(["q"], ["d"], np.zeros(1, dtype=np.float32), RecordingProgress()))


@fuzz
@given(answers(RANKED), st.sampled_from(sorted(DIALECTS)))
def test_answers_of_reranking_services(answer: dict[str, Any], api: str) -> None:
    reranker = RerankEndpoint({**rerankers()["rerank"].defaults, "url": "http://host", "model": "m", "api": api})
    reranker._calls = calls_answered_with(answer)
    scores = np.full(2, np.nan, dtype=np.float32)
    survives(lambda: reranker.score(["q", "q"], ["d", "e"], scores, SilentDisplay().section("")))
    assert np.isnan(scores).all() or np.isfinite(scores).all()
