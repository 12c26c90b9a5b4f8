"""``rerank``: any service or server with a ``/rerank`` scores all candidates of a query in a few calls.

Five dialects of the same request are spoken: Cohere's (v2), Jina's, Voyage's, and those of vLLM and of Text Embeddings
Inference (TEI).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock, local
from typing import Any, ClassVar, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from harness.data.progress import Progress
from harness.data.types import Float32Array
from harness.encoders.settings import limits_of
from harness.encoders.token_counts import TextLengths, Unit
from harness.errors import EngineUnavailableError, UsageError
from harness.plain_url import PLAIN_FORM, is_plain_url
from harness.registry.parameters import ParameterValue
from harness.remote.calls import RemoteCalls, allowed_calls, calls_refused
from harness.rerank.reranker import Facts, Reranker
from harness.store.cache import JSON
from harness.wording import counted

_TOO_LARGE = (413, 422)
"""Refusals of a request with too many documents, if it has more than one."""
_MISUNDERSTOOD = (400, 404, 405, 413, 422)
"""Refusals of a request that may be one of another dialect."""
_HIGHEST = float(np.finfo(np.float32).max)
_EXAMPLES = 5
_LONGEST_QUERY = 80


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one kind of service is called and how it answers.

    ``results`` is the name of the list of results, "" for an answer that is the list; ``score`` names a result's score.
    ``hosts`` are domains of the service, whose address without a path gets ``path``. ``batch_size`` is the number of
    documents that it takes in a call by default.
    """

    body: Callable[[Mapping[str, ParameterValue], str, Sequence[str]], dict[str, Any]]
    results: str = "results"
    score: str = "relevance_score"
    hosts: tuple[str, ...] = ()
    path: str = "/rerank"
    batch_size: int = 100
    needs_model: bool = True
    can_refuse_long_texts: bool = False


def _documents_body(parameters: Mapping[str, ParameterValue], query: str, documents: Sequence[str]) -> dict[str, Any]:
    model = {"model": parameters["model"]} if parameters["model"] else {}
    return {**model, "query": query, "documents": list(documents), "top_n": len(documents)}


def _jina_body(parameters: Mapping[str, ParameterValue], query: str, documents: Sequence[str]) -> dict[str, Any]:
    return {**_documents_body(parameters, query, documents), "return_documents": False}


def _voyage_body(parameters: Mapping[str, ParameterValue], query: str, documents: Sequence[str]) -> dict[str, Any]:
    body = _documents_body(parameters, query, documents)
    body["top_k"] = body.pop("top_n")
    return {**body, "truncation": parameters["truncate"]}


def _tei_body(parameters: Mapping[str, ParameterValue], query: str, documents: Sequence[str]) -> dict[str, Any]:
    # raw: the sigmoid of the best documents is the same float32
    return {"query": query, "texts": list(documents), "raw_scores": True, "truncate": parameters["truncate"]}


DIALECTS: Mapping[str, Dialect] = {
    "cohere": Dialect(_documents_body, hosts=("cohere.com", "cohere.ai"), path="/v2/rerank"),
    "jina": Dialect(_jina_body, hosts=("jina.ai",), path="/v1/rerank"),
    "voyage": Dialect(
        _voyage_body, results="data", hosts=("voyageai.com",), path="/v1/rerank", can_refuse_long_texts=True
    ),
    "tei": Dialect(_tei_body, results="", score="score", batch_size=32, needs_model=False, can_refuse_long_texts=True),
    "vllm": Dialect(_documents_body, needs_model=False),
}


class RerankEndpoint(Reranker):
    """A service's scores of the documents of one query, ``batch_size`` documents a call."""

    paid: ClassVar[bool] = True
    unit: ClassVar[Unit | None] = "characters"

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        """Check the parameters.

        Raises UsageError for a URL that is missing or not plain, a missing model, and parameters that the service
        lacks.
        """
        self._parameters = parameters
        url = str(parameters["url"])
        if not is_plain_url(url):
            raise UsageError(
                f"it needs url={PLAIN_FORM}; reports would store any key or password in it",
                fix=f"a key goes into the environment variable {parameters['api_key_env']}",
            )
        self._api = _api(url, parameters)
        self._dialect = DIALECTS[self._api]
        self._url = _address(url, self._dialect)
        if self._dialect.needs_model and not parameters["model"]:
            raise UsageError(f"api={self._api} needs a model", fix="name one that the service knows with model=")
        if not parameters["truncate"] and not self._dialect.can_refuse_long_texts:
            able = ", ".join(name for name, dialect in DIALECTS.items() if dialect.can_refuse_long_texts)
            raise UsageError(
                f"truncate=false has no effect with api={self._api}", fix=f"leave it out; it is for {able}"
            )
        self._most = int(parameters["batch_size"]) or self._dialect.batch_size
        self._calls: RemoteCalls | None = None
        self._tokens, self._search_units, self._lock = 0, 0, Lock()
        self._longest = int(parameters["max_characters"])
        self._of_thread = local()

    @property
    def documents_per_call(self) -> int:
        """The size of a batch; smaller once the service has refused a larger one."""
        return self._most

    @property
    def parallel_calls(self) -> int:
        """The parameter ``parallel``."""
        return int(self._parameters["parallel"])

    def identity(self) -> dict[str, JSON]:
        """Return endpoint, dialect, model and settings; a service may give two models the same name."""
        settings = {name: self._parameters[name] for name in ("model", "revision", "truncate")}
        return {"endpoint": self._url, "api": self._api, **settings}

    def content(self, query: str, document: str) -> str:
        """Return the part of the document that is sent."""
        return document[: self._longest] if self._longest else document

    @property
    def lengths(self) -> TextLengths | None:
        """Characters of the documents of the thread's last call, and those that are not sent; None if all are sent.

        Services do not report how much they read.
        """
        lengths: TextLengths | None = getattr(self._of_thread, "lengths", None)
        return lengths

    def allow(self, calls: int) -> None:
        """Refuse calls that are not allowed; raises EngineUnavailableError for missing scores with ``max_calls`` 0."""
        if calls and allowed_calls(self._parameters["max_calls"]) == 0:
            raise calls_refused(self._url, calls, "scores of candidates")

    def load(self) -> None:
        """Open the client; raises EngineUnavailableError for a key that cannot be sent."""
        key_env = str(self._parameters["api_key_env"])
        self._calls = RemoteCalls(self._url, key_env=key_env, limits=limits_of(self._parameters))

    def score(self, queries: Sequence[str], documents: Sequence[str], out: Float32Array, progress: Progress) -> None:
        """Score documents of one query. A batch that the service finds too large is divided.

        Raises EngineUnavailableError, which names endpoint and query, as :class:`harness.remote.calls.RemoteCalls`
        does.
        """
        query, start = queries[0], 0
        if self._longest:
            counts = [(len(document), max(0, len(document) - self._longest)) for document in documents]
            self._of_thread.lengths = TextLengths(
                np.array(counts, dtype=np.int32), self._longest, "max_characters= of the backend", "characters"
            )
        while start < len(documents):
            batch = [self.content(query, document) for document in documents[start : start + self._most]]
            try:
                scores = self._scores(query, batch)
            except EngineUnavailableError as error:
                if error.status not in _TOO_LARGE or len(batch) == 1:
                    problem = f"{error.problem}; the query was '{_shortened(query)}', with {_documents(len(batch))}"
                    fix = f"{error.fix}; {self._remedy}" if error.status in _MISUNDERSTOOD else error.fix
                    raise EngineUnavailableError(
                        problem, fix=fix, connected=error.connected, status=error.status
                    ) from error
                self._most = min(self._most, len(batch) // 2)
                continue
            out[start : start + len(batch)] = scores
            start += len(batch)
            progress.advance(len(batch))

    def _scores(self, query: str, documents: Sequence[str]) -> list[float]:
        if self._calls is None:
            raise AssertionError("the endpoint is used before it was loaded")
        body = self._dialect.body(self._parameters, query, documents)
        answer = self._calls.post(
            "", body, lambda content: read_scores(content, len(documents), self._api), remedy=self._remedy
        )
        with self._lock:
            self._tokens += answer.tokens
            self._search_units += answer.search_units
        return answer.scores

    @property
    def _remedy(self) -> str:
        return (
            f"check url=, model= and api= (here {self._api}, of {', '.join(DIALECTS)}), or cut long documents with "
            "max_characters=; finished scores are kept"
        )

    @property
    def facts(self) -> Facts:
        """Return the endpoint, its dialect, the number of calls, and tokens and search units that it counted."""
        calls = self._calls
        limit = int(self._parameters["batch_size"]) or self._dialect.batch_size
        return {
            "endpoint": self._url,
            "api": self._api,
            "calls": calls.calls if calls is not None else 0,
            "repeated_calls": calls.repeated if calls is not None else 0,
            "tokens": self._tokens,
            "search_units": self._search_units,
            **({"accepted_batch_size": self._most} if self._most < limit else {}),
        }

    def close(self) -> None:
        """Close the connections."""
        if self._calls is not None:
            self._calls.close()


class ScoreAnswer(NamedTuple):
    """Scores of the documents of a call, in their order; tokens and search units as counted, 0 for unknown."""

    scores: list[float]
    tokens: int
    search_units: int


def read_scores(answer: Any, count: int, api: str) -> ScoreAnswer:
    """Return the scores of an answer to a call with ``count`` documents.

    Raises ValueError for an answer of another shape, for a result without a valid index or a finite score, and unless
    there is exactly one result for each document.
    """
    dialect = DIALECTS[api]
    results = _results(answer, dialect.results)
    if results is None:
        other = next((name for name, shape in DIALECTS.items() if _results(answer, shape.results) is not None), None)
        hint = f"; this is the shape of api={other}" if other is not None else ""
        raise ValueError(f"no list of results in the shape of api={api}{hint}: {answer!r}")
    scores: dict[int, float] = {}
    for result in results:
        index, score = _index_and_score(result, dialect.score)
        if not 0 <= index < count:
            raise ValueError(f"the index {index} for {_documents(count)}, which are counted from 0")
        if index in scores:
            raise ValueError(f"the index {index} occurs twice")
        scores[index] = score
    missing = [index for index in range(count) if index not in scores]
    if missing:
        examples = ", ".join(map(str, missing[:_EXAMPLES])) + (", …" if len(missing) > _EXAMPLES else "")
        raise ValueError(f"{counted(len(scores), 'result')} for {_documents(count)}; missing indexes: {examples}")
    usage = (answer.get("usage") or {}) if isinstance(answer, dict) else {}
    billed = ((answer.get("meta") or {}).get("billed_units") or {}) if isinstance(answer, dict) else {}
    tokens = usage.get("total_tokens") or billed.get("total_tokens") or 0
    return ScoreAnswer([scores[index] for index in range(count)], int(tokens), int(billed.get("search_units") or 0))


def _results(answer: Any, name: str) -> list[Any] | None:
    """Return the list of results of an answer; None for an answer of another shape."""
    results = answer if not name else answer.get(name) if isinstance(answer, dict) else None
    return results if isinstance(results, list) else None


def _index_and_score(result: Any, name: str) -> tuple[int, float]:
    if not isinstance(result, dict) or type(result.get("index")) is not int:
        raise ValueError(f"a result without a whole number as its index: {result!r}")
    score: Any = result.get(name)
    if type(score) not in (int, float):
        raise ValueError(f"the result with the index {result['index']} has no number as its '{name}': {result!r}")
    if not math.isfinite(score) or abs(score) > _HIGHEST:
        raise ValueError(f"the result with the index {result['index']} has the score {score}, which is not finite")
    return result["index"], float(score)


def _api(url: str, parameters: Mapping[str, ParameterValue]) -> str:
    """Return the dialect: the chosen one, else that of a known host, else vLLM's with a model and TEI's without."""
    if parameters["api"] != "auto":
        return str(parameters["api"])
    host = (urlsplit(url).hostname or "").lower()
    for name, dialect in DIALECTS.items():
        if any(host == domain or host.endswith(f".{domain}") for domain in dialect.hosts):
            return name
    return "vllm" if parameters["model"] else "tei"


def _address(url: str, dialect: Dialect) -> str:
    """Return the URL of ``/rerank``, which is appended if the URL ends before it."""
    url = url.rstrip("/")
    if url.endswith("/rerank"):
        return url
    return f"{url}{dialect.path if not urlsplit(url).path else '/rerank'}"


def _documents(count: int) -> str:
    return counted(count, "document")


def _shortened(query: str) -> str:
    return query if len(query) <= _LONGEST_QUERY else f"{query[:_LONGEST_QUERY]}…"
