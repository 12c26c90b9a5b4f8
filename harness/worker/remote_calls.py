"""What a trial would ask of an endpoint that somebody may pay for, told before it runs."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from harness.data.dataset import Dataset
from harness.encoders.http_endpoint import CHARACTERS_A_TOKEN, calls_for
from harness.encoders.prompts import applied_prompt
from harness.encoders.settings import Role, Settings, model_encoder
from harness.encoders.stream import rows_begun
from harness.plan.plan import Trial
from harness.store.cache import Cache
from harness.wording import counted
from harness.worker.embeddings import KIND, embedding_keys

__all__ = ["remote_calls"]


def remote_calls(trial: Trial, dataset: Dataset, cache: Cache) -> str | None:
    """What a trial with a model behind an endpoint would ask of it now, in words; None for any other trial.

    What is in the cache is not asked for again. Raises as :func:`embedding_keys`.
    """
    spec = trial.spec
    if spec.kind != "rerank" and (spec.card is None or model_encoder(spec.card.encoder) != "dense"):
        return None
    if spec.kind == "rerank" and spec.name != "dense":
        return _calls_of_second_stage(trial, dataset)
    settings = Settings.of("dense", trial.parameters).of_model
    if settings.source.kind != "http":
        return None
    texts: dict[Role, pa.ChunkedArray] = {"documents": dataset.corpus.texts, "queries": dataset.queries.texts}
    calls, tokens = 0, 0
    for role, key in embedding_keys(settings, dataset, fetch=False).items():
        if not cache.holds(KIND, key):
            begun = cache.begun(KIND, key)
            left = texts[role].slice(rows_begun(begun) if begun is not None else 0)
            characters = int(pc.sum(pc.utf8_length(left)).as_py() or 0) + len(
                applied_prompt(settings, role).text
            ) * len(left)
            calls, tokens = calls + calls_for(len(left), settings), tokens + characters // CHARACTERS_A_TOKEN
    about = f"about {tokens:,} tokens ({CHARACTERS_A_TOKEN} characters each)"
    asked = f"{counted(calls, 'call')} of '{settings.endpoint}', {about}"
    return asked if calls else f"0 calls of '{settings.endpoint}': all vectors are in the cache"


def _calls_of_second_stage(trial: Trial, dataset: Dataset) -> str | None:
    """At most one call a candidate; which ones they are, and so what is cached, the first stage has yet to say."""
    if "endpoint" not in trial.parameters:
        return None
    if dataset.candidates is None:
        calls = len(dataset.queries) * min(int(trial.parameters["candidates"]), len(dataset.corpus))
    else:
        calls = sum(len(set(dataset.candidates.get(query, ()))) for query in dataset.queries.ids)
    asked = f"at most {counted(calls, 'call')} of '{trial.parameters['endpoint']}'"
    return f"{asked}: what is in the cache is not asked again"
