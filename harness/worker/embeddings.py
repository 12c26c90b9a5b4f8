"""Vectors of one dataset by models: encoded once per distinct key, documents and queries apart, kept in the cache.

The cached vectors can be checked against the model that should have made them: a sample is encoded again and compared.
"""

from __future__ import annotations

import re
import tempfile
import threading
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.data.dataset import Dataset
from harness.data.progress import CombinedProgress, Display, Progress
from harness.data.types import Int64Array, SparseVectors
from harness.encoders.embeddings_endpoint import CHARACTERS_A_TOKEN, calls_for
from harness.encoders.prompts import applied_prompt, declared_prompts
from harness.encoders.sampled_check import TOLERANCES, compare_sample, draw_sample
from harness.encoders.settings import Role, Settings, SourceKind
from harness.encoders.sources import encoding_key, model_digest
from harness.encoders.sparsity import sparsity
from harness.encoders.stream import Made, join, read_lengths, read_made, rows_begun, shards, truncate
from harness.errors import (
    DataError,
    EncoderError,
    EngineFailureError,
    EngineUnavailableError,
    HarnessError,
)
from harness.exact.encoding import widen
from harness.plan.plan import Trial
from harness.registry.cards import EncoderName
from harness.registry.parameters import ParameterValue
from harness.remote.calls import calls_in_words, calls_refused
from harness.rerank.rerankers import create_reranker
from harness.store.cache import JSON, Cache, ContinuedEntry, entry_name
from harness.store.columns import load_vectors
from harness.store.record_files import load, save
from harness.wording import counted
from harness.worker.executor import Executor
from harness.worker.failure import failure_of
from harness.worker.jobs import EncodeJob, EncodePart, EncodingRecord
from harness.worker.threads import side_by_side
from harness.worker.vectors import DensePair, EncodedTexts, Folders, SparsePair, Vectors

_KIND = "embeddings"
_ROLES: tuple[Role, ...] = ("documents", "queries")
_SINGULAR: Mapping[Role, str] = MappingProxyType({"documents": "document", "queries": "query"})
_NS_PER_S = 1e9
_PARAMETER: Mapping[Role, str] = {"documents": "document_prompt", "queries": "query_prompt"}
_NO_LENGTHS: Mapping[SourceKind, str] = {
    "precomputed": "the vectors were computed elsewhere",
    "random": "random vectors are made without the texts",
    "python": "the Python object does not report how much it reads",
    "http": "the endpoint does not report how much it reads",
}
"""The reason why the harness does not know how much of a text a model reads, by the source of its vectors."""
_SPENT = ("calls", "repeated_calls", "tokens")


class CacheCheck(NamedTuple):
    """Share of cached vectors that is encoded again, and the seed that draws it; 0 checks nothing."""

    share: float = 0.0
    seed: int = 42


class _Entries(NamedTuple):
    """The folders of vectors, the roles made or completed just now, the time, and the outcome of verification."""

    folders: Folders
    made_now: frozenset[Role]
    encoded: EncodingRecord
    note: str | None = None


class Embeddings:
    """The vectors of one dataset, made at the first request."""

    def __init__(
        self,
        cache: Cache,
        dataset: Dataset,
        texts: Mapping[Role, Path],
        work: Path,
        display: Display,
        executor: Executor,
        check: CacheCheck,
    ) -> None:
        """``texts`` are the Arrow files with columns id and text; ``executor`` runs each encoding.

        Of cached vectors the share ``check`` is encoded again and compared, drawn by its seed.
        """
        self._cache, self._dataset, self._texts, self._work = cache, dataset, texts, work
        self._display, self._executor, self._check = display, executor, check
        self._counts: Mapping[Role, int] = {"documents": len(dataset.corpus), "queries": len(dataset.queries)}
        self._vectors: dict[tuple[str, ...], Vectors] = {}
        self._failed: dict[Hashable, HarnessError] = {}
        self._encoding_lock = threading.Lock()

    def vectors(self, trial: Trial, encoder: EncoderName) -> Vectors:
        """Return the vectors that a trial's parameters name; a second caller waits and shares them.

        Raises EncoderError when the model or its process fails, and any other exception of encoding.
        """
        settings = Settings.of(encoder, trial.parameters)
        keys = embedding_keys(settings, self._dataset, fetch=True)
        names = tuple(entry_name(_KIND, keys[role]) for role in _ROLES)
        # on another device, with smaller batches or with more patience a model that failed may do well
        attempt = (names, settings.device, settings.batch_size, settings.limits)
        with self._encoding_lock:  # a model fills the machine: two at once are not faster
            if attempt in self._failed:
                raise self._failed[attempt]
            if names not in self._vectors:  # one copy for all backends, and its statistics counted once
                try:
                    self._vectors[names] = _vectors(settings, self._entries(settings, trial, keys))
                except HarnessError as error:
                    self._failed[attempt] = error
                    raise
            return self._vectors[names]

    def _entries(self, settings: Settings, trial: Trial, keys: Mapping[Role, Mapping[str, JSON]]) -> _Entries:
        model = settings.source.display_name
        model_settings = settings.of_model
        if model_settings is settings:
            entries = self._encoded(settings, trial, keys)
        else:  # a sweep of truncate_dim runs the model once
            complete_entries = self._encoded(
                model_settings, trial, embedding_keys(model_settings, self._dataset, fetch=True)
            )
            entries = self._derived(settings, complete_entries, keys)
        self._display.done(model, self._describe(entries))
        cached = {
            role: folder for role, folder in zip(_ROLES, entries.folders, strict=True) if role not in entries.made_now
        }
        if not cached or not self._check.share:
            return entries
        note, again = self._verify(settings, trial, cached, entries.encoded.calls)
        self._display.done(model, note)
        spent = {name: getattr(entries.encoded, name) + getattr(again, name) for name in _SPENT}
        return entries._replace(note=note, encoded=entries.encoded._replace(**spent))

    def _encoded(self, settings: Settings, trial: Trial, keys: Mapping[Role, Mapping[str, JSON]]) -> _Entries:
        """Return the model's own vectors; missing ones are encoded."""
        with self._continued(settings, keys) as entries:
            # queries first: they are few, and soon show that a model is faulty
            missing = [role for role in reversed(_ROLES) if not entries[role].finished]
            encoded = EncodingRecord({})
            if missing:
                folders = {role: entries[role].folder for role in missing}
                self._refuse_calls(settings, folders)
                encoded = self._encode_missing(settings, trial, folders)
        return _Entries(Folders(*(entries[role].entry for role in _ROLES)), frozenset(missing), encoded)

    def _refuse_calls(self, settings: Settings, folders: Mapping[Role, Path]) -> None:
        """Raise EngineUnavailableError if texts need an endpoint that may not be called at all."""
        if settings.limits.max_calls != 0:
            return
        left = {role: self._counts[role] - rows_begun(folder) for role, folder in folders.items()}
        if calls := sum(calls_for(count, settings) for count in left.values()):
            counts_text = " and ".join(f"{count:,} {role}" for role, count in left.items() if count)
            raise calls_refused(settings.endpoint, calls, f"vectors of {counts_text}")

    def _derived(
        self, settings: Settings, complete_entries: _Entries, keys: Mapping[Role, Mapping[str, JSON]]
    ) -> _Entries:
        """Return vectors cut out of the model's own; ``made_now`` are the vectors that the model made just now."""
        ids = {"documents": self._dataset.corpus.ids, "queries": self._dataset.queries.ids}
        with self._continued(settings, keys) as entries:
            for role, source in zip(_ROLES, complete_entries.folders, strict=True):
                if not entries[role].finished:
                    truncate(source, entries[role].folder, ids[role], role, settings)
        return _Entries(
            Folders(*(entries[role].entry for role in _ROLES)), complete_entries.made_now, complete_entries.encoded
        )

    @contextmanager
    def _continued(
        self, settings: Settings, keys: Mapping[Role, Mapping[str, JSON]]
    ) -> Iterator[Mapping[Role, ContinuedEntry]]:
        """Yield the cache's entries of both roles, to be completed inside the block."""
        model, dataset = settings.source.display_name, re.sub(r"[^\w.-]+", "-", self._dataset.name)
        with ExitStack() as stack:
            yield {
                role: stack.enter_context(
                    self._cache.continued(
                        _KIND, keys[role], shelf=(model, dataset, role), about=f"{model} {dataset} {role}"
                    )
                )
                for role in _ROLES
            }

    def _verify(
        self, settings: Settings, trial: Trial, cached: Mapping[Role, Path], calls_made: int
    ) -> tuple[str, EncodingRecord]:
        """Encode a sample of the cached vectors again and compare; return the comparison in words, and its time.

        Raises CacheError if they differ. ``calls_made`` of an endpoint count towards --max-calls:
        EngineUnavailableError when they have used it up.
        """
        folder = Path(tempfile.mkdtemp(prefix="verify-", dir=self._work))
        share, seed = self._check
        samples = {role: draw_sample(self._texts[role], role, share, seed, folder) for role in cached}
        limit: dict[str, ParameterValue] = {}
        if settings.limits.max_calls is not None:
            limit["max_calls"] = settings.limits.max_calls - calls_made
        if limit.get("max_calls") == 0:
            needed = sum(calls_for(len(sample.rows), settings) for sample in samples.values())
            raise EngineUnavailableError(
                f"endpoint '{settings.endpoint}': {calls_made} calls were made, and --max-calls allows none to "
                "verify the cache",
                fix=f"allow {needed} more, or leave --verify-cache out",
            )
        again = {role: folder / role for role in cached}
        for role in cached:
            again[role].mkdir()
        texts = {role: sample.texts for role, sample in samples.items()}
        encoded = self._encode(settings, trial, again, texts, limit)
        worst = max(compare_sample(cached[role], again[role], role, samples[role], settings) for role in cached)
        texts_again = " and ".join(counted(len(sample.rows), _SINGULAR[role]) for role, sample in samples.items())
        comparison = (
            f"cached vectors of {texts_again} were encoded again: the largest relative difference is {worst:.2g}, and "
            f"{TOLERANCES[settings.dtype]:g} is allowed"
        )
        return comparison, encoded

    def _encode(
        self,
        settings: Settings,
        trial: Trial,
        targets: Mapping[Role, Path],
        texts: Mapping[Role, Path],
        limit: Mapping[str, ParameterValue],
    ) -> EncodingRecord:
        parts = [EncodePart(role, texts[role], target) for role, target in targets.items()]
        return self._run(settings, trial, parts, limit, self._display.section(settings.source.display_name))

    def _encode_missing(self, settings: Settings, trial: Trial, targets: Mapping[Role, Path]) -> EncodingRecord:
        """Encode into ``targets``: in one job, or in as many as the executor runs at once, whose parts are joined.

        Calls of an endpoint are counted by one process.
        """
        slots = 1 if settings.source.kind == "http" else self._executor.slots(settings.device)
        pieces = {
            role: shards(target, self._counts[role], role, settings) for role, target in targets.items() if slots > 1
        }
        counts = [len(role_pieces) for role_pieces in pieces.values()]
        if not all(counts) or max(counts, default=1) == 1:
            return self._encode(settings, trial, targets, self._texts, {})
        all_shards = [(role, shard) for role in targets for shard in pieces[role]]
        parts = [
            EncodePart(role, self._texts[role], shard.folder, shard.start, shard.stop) for role, shard in all_shards
        ]
        for part in parts:
            part.target.mkdir(parents=True, exist_ok=True)
        left = np.array([shard.stop - shard.start - rows_begun(shard.folder) for _, shard in all_shards])
        groups = _balanced(parts, left, slots)
        phase = f"encode in {counted(len(groups), 'job')}"
        progress = CombinedProgress(self._display.section(settings.source.display_name), phase, int(left.sum()))
        done = side_by_side(lambda group: self._run(settings, trial, group, {}, progress), groups, jobs=len(groups))
        for role, target in targets.items():
            join(target, pieces[role], role, settings, applied_prompt(settings, role).text)
        rows: dict[str, int] = {role: sum(encoded.rows.get(role, 0) for encoded in done) for role in targets}
        return EncodingRecord(rows, sum(encoded.chunks for encoded in done))

    def _run(
        self,
        settings: Settings,
        trial: Trial,
        parts: Sequence[EncodePart],
        limit: Mapping[str, ParameterValue],
        progress: Progress,
    ) -> EncodingRecord:
        folder = Path(tempfile.mkdtemp(prefix="encode-", dir=self._work))
        changed = {"truncate_dim": settings.truncate_dim, "normalize": settings.normalize, **limit}
        parameters = {name: changed.get(name, value) for name, value in trial.parameters.items()}
        save(folder, EncodeJob(settings.encoder, parameters, tuple(parts)))
        try:
            self._executor.run(folder, progress)
        except HarnessError as error:
            if failure_of(error).type != EngineFailureError.__name__:
                raise
            hint = "its code is yours: the traceback is in the log" if settings.source.kind == "python" else ""
            raise EncoderError(
                f"encoding with model '{settings.source.name}' failed: {error.problem}",
                fix=hint or error.fix or "encoded texts are kept: the next run continues from there",
                log=error.log,
            ) from error
        return load(folder, EncodingRecord)

    def _describe(self, entries: _Entries) -> str:
        parts = []
        for role, folder in zip(_ROLES, entries.folders, strict=True):
            made = read_made(folder)
            if made.rows:  # else an index that is searched without a collection
                encoded = entries.encoded.rows[role] if role in entries.made_now else None
                parts.append(encoding_in_words(made, role, encoded))
        return ", ".join(parts) + ("" if entries.made_now else ": nothing was encoded")


def encoding_in_words(made: Made, role: Role, encoded: int | None) -> str:
    """Return how many texts have vectors, and how many were encoded now (``encoded``); None if all are re-used."""
    texts = counted(made.rows, _SINGULAR[role])
    if encoded is None:
        return f"vectors of {texts} re-used"
    earlier = f" ({made.rows - encoded:,} of them by an earlier run)" if made.rows > encoded else ""
    return f"{texts} encoded{earlier}, {made.rows / max(made.took_ns / _NS_PER_S, 1e-9):,.0f}/s"


def _balanced(parts: Sequence[EncodePart], left: Int64Array, most: int) -> list[list[EncodePart]]:
    """Return the parts in order, in at most N groups with about as many texts ``left`` to encode in each."""
    middle = np.cumsum(left) - left / 2
    group = np.minimum(middle * most // max(int(left.sum()), 1), most - 1)
    return [[parts[position] for position in np.flatnonzero(group == number).tolist()] for number in np.unique(group)]


def embedding_keys(settings: Settings, dataset: Dataset, *, fetch: bool) -> dict[Role, dict[str, JSON]]:
    """Return the keys of a dataset's documents and queries; raises as ``encoding_key``."""
    digests: dict[Role, str] = {"documents": dataset.corpus.digest, "queries": dataset.queries.digest}
    return {role: encoding_key(settings, role, digest, fetch=fetch) for role, digest in digests.items()}


def _vectors(settings: Settings, entries: _Entries) -> Vectors:
    folders = entries.folders
    documents, queries = (load_vectors(folder, role) for folder, role in zip(folders, _ROLES, strict=True))
    made = {role: read_made(folder) for role, folder in zip(_ROLES, folders, strict=True)}
    sparse, dense = None, None
    if isinstance(documents, SparseVectors) and isinstance(queries, SparseVectors):
        sparse = SparsePair(widen(documents, queries.dimensions), widen(queries, documents.dimensions))
    elif not isinstance(documents, SparseVectors) and not isinstance(queries, SparseVectors):
        dense = DensePair(documents, queries)
        if len(documents) and documents.shape[1] != queries.shape[1]:
            problem = f"{documents.shape[1]} dimensions of documents, {queries.shape[1]} of queries"
            raise DataError(f"model '{settings.source.name}'", [problem], fix="both must come from one model")
    facts = _facts(settings, made, entries.encoded, sparse)
    calls = (calls_in_words(facts),) if settings.source.kind == "http" else ()
    return Vectors(
        encoder=settings.encoder,
        sparse=sparse,
        dense=dense,
        folders=(folders,),
        steps_ns=tuple(made[role].took_ns if role in entries.made_now else None for role in _ROLES),
        texts=tuple(
            _texts(settings, role, folder) for role, folder in zip(_ROLES, folders, strict=True) if made[role].rows
        ),
        facts=facts,
        notes=(*_notes(settings, made), *((entries.note,) if entries.note is not None else ()), *calls),
    )


def _texts(settings: Settings, role: Role, folder: Path) -> EncodedTexts:
    """Return the lengths of the texts of a role, or why they are unknown."""
    lengths = read_lengths(folder, role)
    number = read_made(folder).rows
    if lengths is not None:
        return EncodedTexts(role, number, lengths)
    return EncodedTexts(role, number, None, _NO_LENGTHS.get(settings.source.kind, ""))


def _facts(
    settings: Settings, made: Mapping[Role, Made], encoded: EncodingRecord, sparse: SparsePair | None
) -> dict[str, ParameterValue | None]:
    """Return the report's facts about the encoder: model, applied prompts, and how it was run."""
    documents, queries = made["documents"], made["queries"]
    statistics = None
    if sparse is not None and sparse.documents is not None:
        statistics = sparsity(sparse.documents, sparse.queries)
    return {
        "encoder": settings.encoder,
        "model": settings.source.name,
        "source": settings.source.kind,
        "model_digest": model_digest(settings),
        "dimensions": documents.dimensions or queries.dimensions,  # there may be no documents
        "document_prompt": documents.prompt,
        "query_prompt": queries.prompt,
        **{f"{_PARAMETER[role]}_from": origin for role, origin in _origins(settings).items()},
        "documents_encoded": encoded.rows.get("documents", 0),
        "queries_encoded": encoded.rows.get("queries", 0),
        "encode_seconds": documents.took_ns / _NS_PER_S,
        "documents_per_second": documents.rows / (documents.took_ns / _NS_PER_S) if documents.took_ns else None,
        "batch_size": documents.batch_size,
        **({name: float(value) for name, value in statistics._asdict().items()} if statistics is not None else {}),
        **documents.facts,
        **(_calls(made, encoded) if settings.source.kind == "http" else {}),
    }


def _calls(made: Mapping[Role, Made], encoded: EncodingRecord) -> dict[str, ParameterValue]:
    """Return the calls of this run, and the calls of earlier runs whose answers are in the cache."""
    return {
        **{name: getattr(encoded, name) for name in _SPENT},
        "calls_before": sum(role_made.chunks for role_made in made.values()) - encoded.chunks,
    }


def _notes(settings: Settings, made: Mapping[Role, Made]) -> tuple[str, ...]:
    """Note which prompts were applied by default, or that declared prompts were not applied."""
    origins = _origins(settings)
    if origins:
        note = " and ".join(f"{made[role].prompt!r} before {role} ({origin})" for role, origin in origins.items())
        left_out = " and ".join(f"{_PARAMETER[role]}=none" for role in origins)
        leave = "leave them out" if len(origins) > 1 else "leaves it out"
        return (f"model '{settings.source.display_name}' gets {note}: {left_out} {leave}",)
    declared = {name: text for name, text in declared_prompts(settings).items() if text}
    chosen = any(settings.prompts[role] is not None for role in _ROLES)
    if not declared or chosen or any(role_made.prompt for role_made in made.values()):
        return ()
    prompts_text = ", ".join(f"{name} {text!r}" for name, text in declared.items())
    note = f"the model declares prompts ({prompts_text}) and none was applied"
    return (f"{note}: query_prompt_name= and document_prompt_name= choose them",)


def _origins(settings: Settings) -> dict[Role, str]:
    """Return the source of the prompt of each role that has one by default."""
    prompts = {role: applied_prompt(settings, role) for role in reversed(_ROLES)}
    return {role: prompt.origin for role, prompt in prompts.items() if prompt.origin}


def remote_calls(trial: Trial, dataset: Dataset, cache: Cache) -> str | None:
    """Return the calls that a trial with a model behind an endpoint would make now; None for any other trial.

    Cached answers are not requested again. Raises as :func:`embedding_keys`.
    """
    spec = trial.spec
    if spec.kind != "rerank" and (spec.card is None or spec.card.model_encoder != "dense"):
        return None
    if spec.kind == "rerank" and spec.name != "dense":
        return _calls_of_second_stage(trial, dataset)
    settings = Settings.of("dense", trial.parameters).of_model
    if settings.source.kind != "http":
        return None
    texts: dict[Role, pa.ChunkedArray] = {"documents": dataset.corpus.texts, "queries": dataset.queries.texts}
    calls, tokens = 0, 0
    for role, key in embedding_keys(settings, dataset, fetch=False).items():
        if not cache.holds(_KIND, key):
            begun = cache.begun(_KIND, key)
            left = texts[role].slice(rows_begun(begun) if begun is not None else 0)
            characters = int(pc.sum(pc.utf8_length(left)).as_py() or 0) + len(
                applied_prompt(settings, role).text
            ) * len(left)
            calls, tokens = calls + calls_for(len(left), settings), tokens + characters // CHARACTERS_A_TOKEN
    about = f"about {tokens:,} tokens ({CHARACTERS_A_TOKEN} characters each)"
    words = f"{counted(calls, 'call')} of '{settings.endpoint}', {about}"
    return words if calls else f"0 calls of '{settings.endpoint}': all vectors are in the cache"


def _calls_of_second_stage(trial: Trial, dataset: Dataset) -> str | None:
    """Count the calls for all candidates; only the first stage decides the candidates, and so which are cached."""
    reranker = create_reranker(trial.spec.name, trial.parameters)
    if not reranker.paid:
        return None
    if dataset.candidates is None:
        candidates = [min(int(trial.parameters["candidates"]), len(dataset.corpus))] * len(dataset.queries)
    else:
        candidates = [len(set(dataset.candidates.get(query, ()))) for query in dataset.queries.ids]
    calls = sum(-(-count // reranker.documents_per_call) for count in candidates)
    words = f"at most {counted(calls, 'call')} of '{reranker.facts['endpoint']}'"
    return f"{words}: cached texts are not sent again"
