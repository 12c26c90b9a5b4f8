"""Parts of explanations: how vectors score documents, and how ranked lists and second stages give them their ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import orjson

from harness.data.types import Ids, Run
from harness.encoders.column_terms import column_terms
from harness.encoders.settings import Role, Settings
from harness.encoders.sources import encoding_key
from harness.encoders.token_counts import UNKNOWN, TextLengths
from harness.parity.contributions import ROUNDING, ScoreStep, join_steps, step_name
from harness.parity.fused_lists import FUSIONS
from harness.parity.references import DenseReference, references_of_compared
from harness.plan.backend_spec import BackendSpec
from harness.plan.plan import Trial
from harness.plan.stages import parse_weights
from harness.registry.parameters import ParameterValue, encoder_parameters
from harness.results.explanation import Neighbour
from harness.store.cache import Cache
from harness.worker.outcome import Outcome
from harness.worker.second_stages import fuse_runs

_NEIGHBOURS = 5
_COLUMN_TERMS = "columns.json"
_MODEL_FACTS = ("model", "dimensions", "query_prompt", "document_prompt")


def terms_of_columns(trial: Trial, cache: Cache) -> Mapping[int, str]:
    """Return the terms of the columns of a model's sparse vectors, kept in the cache; none for other vectors."""
    encoder = trial.spec.card.model_encoder if trial.spec.card is not None else None
    if encoder is None or encoder == "dense":
        return {}
    settings = Settings.of(encoder, trial.parameters)
    key = {"columns": encoding_key(settings, "queries", "", fetch=False)["model"]}

    def write(folder: Path) -> None:
        (folder / _COLUMN_TERMS).write_bytes(orjson.dumps(list(column_terms(settings).items())))

    return dict(orjson.loads((cache.get_or_build("term-texts", key, write) / _COLUMN_TERMS).read_bytes()))


class Hit(NamedTuple):
    """Rank, from 1, and score of a document."""

    rank: int
    score: float


def hits_of(run: Run, query: str) -> dict[str, Hit]:
    """Return the hits of one query by document id, with their ranks; empty if the run does not have it."""
    row = int(run.query_ids.rows_of(Ids.of([query]))[0])
    if row < 0:
        return {}
    hits = run.of_query(row)
    ids, scores = run.doc_ids.take(run.rows[hits]), run.scores[hits].tolist()
    return {name: Hit(rank, score) for rank, (name, score) in enumerate(zip(ids, scores, strict=True), 1)}


def compared_reference(outcome: Outcome, reference: DenseReference) -> DenseReference | None:
    """Return the reference of the vectors that a backend's index compares; None if these are the reference's."""
    if outcome.record is None or outcome.record.compared is None:
        return None
    scored, ordered = references_of_compared(reference, outcome.record.compared)
    return ordered or scored


def neighbours_of(reference: DenseReference, row: int) -> tuple[Neighbour, ...]:
    """Return the documents nearest to a document, without itself."""
    recipe = reference.recipe
    queries, query_ids = np.ascontiguousarray(recipe.documents[row : row + 1]), Ids.of(["document"])
    around = replace(recipe, queries=queries, query_ids=query_ids, matching=None, candidates=None)
    run = DenseReference(around, complete=reference).retrieve(_NEIGHBOURS + 1)
    nearest = [
        (name, score)
        for near, name, score in zip(run.rows, run.doc_ids.take(run.rows), run.scores, strict=True)
        if near != row
    ]
    return tuple(Neighbour(name, float(score)) for name, score in nearest[:_NEIGHBOURS])


def model_facts(outcome: Outcome, query: int) -> dict[str, str | float | int | None]:
    """Return the model, its prompts, and the tokens of the query that it read and cut."""
    if outcome.vectors is None:
        return {}
    facts: dict[str, str | float | int | None] = {
        name: value for name in _MODEL_FACTS if (value := outcome.vectors.facts.get(name)) not in (None, "")
    }
    tokens = token_counts(outcome, "queries", query)
    return facts if tokens is None else {**facts, "query_tokens": tokens[0], "query_tokens_cut": tokens[1]}


def token_counts(outcome: Outcome, role: Role, row: int) -> tuple[int, int] | None:
    """Return the tokens of a text with its prompt, and how many of them the model did not read; None if unknown."""
    texts = outcome.vectors.texts if outcome.vectors is not None else ()
    lengths = next((part.lengths for part in texts if part.role == role), None)
    return _counts(lengths, row)


def _counts(lengths: TextLengths | None, row: int) -> tuple[int, int] | None:
    if lengths is None or not 0 <= row < len(lengths.counts):
        return None
    total, cut = lengths.counts[row].tolist()
    return None if total == UNKNOWN else (total, cut)


def vector_steps(
    first: Outcome,
    second: Outcome,
    scores: Sequence[tuple[float | None, float]],
    causes: Sequence[str | None],
    scale: float,
) -> list[ScoreStep]:
    """Return the steps from the first backend's score of a document to the second's.

    ``scores`` are the engine's, None if it did not return the document, and the reference's, of both backends;
    ``causes`` the proven causes of the engines' differences. Encoders that differ are one step, which names every
    parameter in which they do.
    """
    (engine, exact), (other_engine, other_exact) = scores
    steps = [] if engine is None else [ScoreStep(step_name(causes[0]), "", "", exact - engine)]
    steps.append(ScoreStep(*_encoder_change(first, second), other_exact - exact))
    if other_engine is not None:
        steps.append(ScoreStep(step_name(causes[1]), "", "", other_engine - other_exact))
    return join_steps(steps, scale)


def _encoder_change(first: Outcome, second: Outcome) -> tuple[str, str, str]:
    """Return the names of the parameters in which the vectors of two backends differ, and their values in both."""
    cards = [outcome.trial.spec.card for outcome in (first, second)]
    names = {"similarity"}
    for card in cards:
        if card is not None and card.model_encoder is not None:
            names |= set(encoder_parameters(card.model_encoder))
    values = [{name: outcome.trial.parameters.get(name) for name in names} for outcome in (first, second)]
    differing = sorted(name for name in names if values[0][name] != values[1][name])
    before, after = (", ".join(_spelt(part[name]) for name in differing) for part in values)
    return (" and ".join(differing).replace("_", " "), before, after) if differing else (ROUNDING, "", "")


def _spelt(value: ParameterValue | None) -> str:
    return "none" if value is None or value == "" else f"'{value}'" if isinstance(value, str) else str(value)


class RankedList(NamedTuple):
    """A list that a fusion or a second stage takes: its hits, and the scores that a fusion of it alone gives them.

    ``shares`` is None for a second stage. ``weight`` is the list's weight in the fusion.
    """

    name: str
    run: Run
    shares: Run | None = None
    weight: float = 1.0


def fused_lists(spec: BackendSpec, runs: Mapping[str, Run]) -> list[RankedList]:
    """Return the lists that a fusion of backends takes; ``runs`` are the backends' hits by label."""
    weights = parse_weights(str(spec.parameters["weights"])) or (1.0,) * len(runs)
    alone = replace(spec, parameters={**spec.parameters, "weights": ""})
    return [
        RankedList(label, run, fuse_runs(alone, [run], None), weight)
        for weight, (label, run) in zip(weights, runs.items(), strict=True)
    ]


def engine_lists(outcome: Outcome) -> list[RankedList]:
    """Return the lists that an engine fuses itself."""
    card, record, run = outcome.trial.spec.card, outcome.record, outcome.run
    if card is None or record is None or run is None or card.reference.fusion not in FUSIONS:
        return []
    fusion = FUSIONS[card.reference.fusion](outcome.trial.parameters, record.k)
    lists = {label: Run(run.query_ids, run.doc_ids, *hits) for label, hits in record.lists.items()}
    return [RankedList(label, hits, fusion.fuse([hits], None)) for label, hits in lists.items()]


def pair_tokens(outcome: Outcome, query: int, row: int) -> tuple[int, int] | None:
    """Return the tokens of a query and a document that a second stage read and cut; None if they are unknown."""
    reranked = outcome.combined.reranked if outcome.combined is not None else None
    if reranked is None or reranked.pairs is None:
        return None
    pair = np.flatnonzero((reranked.pairs.queries == query) & (reranked.pairs.documents == row))
    return _counts(reranked.lengths, int(pair[0])) if len(pair) else None
