"""One collection through Qdrant Edge and its reference, for the tests beside this file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from harness.data.inputs import Inputs
from harness.data.types import Ids, Run, TermCounts
from harness.encoders.bm25 import document_weights
from harness.engines.interface import IndexReport
from harness.engines.qdrant.engine import QdrantEngine
from harness.exact.qdrant_shards import shards_of
from harness.parity import Parity, SparseReference, compare_run, make_recipe
from harness.registry.lookup import find_cards
from harness.registry.parameters import ParameterValue
from harness.testing import RecordingProgress, StepClock
from harness.text.analyzers import create_analyzer
from harness.text.counting import count_terms

CARD = find_cards("backends")["qdrant"]


class Counted(NamedTuple):
    """Analysed documents and queries, with their ids."""

    document_ids: Ids
    query_ids: Ids
    counts: TermCounts


class Trial(NamedTuple):
    """What came of indexing and searching a collection."""

    report: IndexReport
    run: Run
    parity: Parity


def count(
    analyzer: str, document_ids: Ids, batches: Iterable[Sequence[str]], query_ids: Ids, queries: Sequence[str]
) -> Counted:
    return Counted(document_ids, query_ids, count_terms(create_analyzer(analyzer), batches, queries))


def try_qdrant(folder: Path, counted: Counted, k: int, **changed: ParameterValue) -> Trial:
    """Index and search with the card's parameters, some ``changed``, and compare with the card's reference."""
    document_ids, query_ids, counts = counted
    parameters = {**CARD.defaults, **changed}
    weights = document_weights(counts, k1_plus_1=bool(parameters["k1_plus_1"]))
    folder.mkdir(exist_ok=True)
    engine = QdrantEngine(parameters)
    engine.open(folder, document_ids)
    try:
        report = engine.index(Inputs(document_ids, sparse=weights), RecordingProgress(), StepClock())
        found = engine.search(Inputs(query_ids, sparse=counts.queries), k, StepClock())
    finally:
        engine.close()
    run = Run(query_ids, document_ids, found.indptr, found.rows, found.scores)
    shards = int(parameters["shards"])
    recipe = make_recipe(
        CARD.reference.kind,
        doc_ids=document_ids,
        query_ids=query_ids,
        counts=counts,
        parameters=parameters,
        shards=shards_of(len(document_ids), shards) if shards > 1 else None,
    )
    return Trial(report, run, compare_run(run, SparseReference(recipe), k=k, tolerance=CARD.reference.tolerance))
