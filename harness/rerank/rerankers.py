"""Rerankers by name, and the cheapest of them: counting the query's words in a document."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import ClassVar

from harness.data.progress import Progress
from harness.data.types import Float32Array
from harness.encoders.settings import Settings
from harness.encoders.sources import refuse_missing
from harness.errors import DataError, UsageError
from harness.registry.parameters import ParameterValue
from harness.rerank.reranker import Reranker
from harness.store.cache import JSON

_WORD = re.compile(r"\w+")


def create_reranker(name: str, parameters: Mapping[str, ParameterValue]) -> Reranker:
    """Return the reranker of that name; raises UsageError for parameters that make no sense together."""
    match name:
        case "keywords":
            return Keywords()
        case "judge":
            from harness.rerank.judge import Judge

            return Judge(parameters)
        case "rerank":
            from harness.rerank.endpoint import RerankEndpoint

            return RerankEndpoint(parameters)
        case "cross-encoder" | "classifier" | "qwen3":
            from harness.rerank.local_models import LOCAL_MODELS

            return LOCAL_MODELS[name](parameters)
        case other:
            raise AssertionError(f"unknown reranker: {other}")


def require_sense(name: str, parameters: Mapping[str, ParameterValue]) -> None:
    """Raise UsageError for parameters that make no sense, before anything runs."""
    try:
        if name == "dense":
            refuse_missing(Settings.of("dense", parameters))
        else:
            create_reranker(name, parameters)
    except (UsageError, DataError) as error:
        raise UsageError(f"reranker '{name}': {error.problem}", fix=error.fix) from error


def keyword_count(query: str, document: str) -> int:
    """Count the words of ``document`` that are words of ``query``, each occurrence once, ignoring case."""
    counts = Counter(_WORD.findall(document.casefold()))
    return sum(counts[word] for word in set(_WORD.findall(query.casefold())))


class Keywords(Reranker):
    """Scores by :func:`keyword_count`."""

    integer_scores: ClassVar[bool] = True
    group: ClassVar[int] = 10_000
    stored: ClassVar[bool] = False

    def identity(self) -> dict[str, JSON]:
        """Return the version of the rule."""
        return {"rule": 1}

    def score(self, queries: Sequence[str], documents: Sequence[str], out: Float32Array, progress: Progress) -> None:
        """Count the words of each pair."""
        for row, (query, document) in enumerate(zip(queries, documents, strict=True)):
            out[row] = keyword_count(query, document)
        progress.advance(len(queries))
