"""Hold outcomes against the oracles that their cards name: one for all backends that claim the same scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np

from harness.data.dataset import Dataset
from harness.data.filtering import BoolArray
from harness.data.progress import Display
from harness.data.ranking import candidate_rows, hits_at
from harness.data.types import Ids, Int32Array, Run, Similarity
from harness.errors import UsageError
from harness.exact.qdrant_shards import shards_of
from harness.metrics.spread import pairwise_overlap
from harness.parity import DenseOracle, DenseRecipe, Oracle, Parity, Recipe, SparseOracle, compare_run, make_recipe
from harness.parity.exact_lists import ExactLists
from harness.parity.hybrid import hold_hybrid
from harness.plan.plan import Plan
from harness.registry.cards import BackendCard
from harness.registry.parameters import ParameterValue
from harness.wording import counted
from harness.worker.jobs import ExternalIndexRecord
from harness.worker.outcome import Outcome
from harness.worker.vectors import Vectors

__all__ = ["Held", "Oracles"]

_OF_RECIPES: Mapping[str, ParameterValue | None] = {
    "k1": None,
    "b": None,
    "k1_plus_1": True,
    "idf": True,
    "shards": 1,
    "impact_scale": None,
    "similarity": None,
}
"""Parameters that oracles are made of, each with what its absence means."""


class Held(NamedTuple):
    """How a run relates to its oracle; ``exact`` is the oracle's own run, where that is dense or a hybrid.

    ``rebuilds`` are the overlaps with it, depth -> mean, of the builds after the first.
    """

    parity: Parity
    exact: Run | None
    rebuilds: tuple[Mapping[int, float], ...] = ()


class Oracles:
    """The oracles of one comparison's outcomes: each is built once, and let go after the last backend that needs it."""

    def __init__(self, outcomes: Sequence[Outcome], plan: Plan, dataset: Dataset, display: Display) -> None:
        self._plan, self._dataset, self._display = plan, dataset, display
        self._k = plan.request.k
        if dataset.candidates is not None:  # every one of them is compared
            self._k = max(map(len, dataset.candidates.values()), default=1)
        self._made: dict[Hashable, Mapping[str, Oracle]] = {}
        self._left = Counter(key for key in map(_key, outcomes) if key is not None)
        self._exact = ExactLists(outcomes)

    def hold(self, outcome: Outcome) -> Held | None:
        """Parity of a backend's run; None for a stored run, a failed backend, parameters without an oracle, or an
        existing index that is not proven to hold what the oracle would be made of.

        Backends come in the plan's order: a fusion's oracle is made of what its components' oracles returned.
        """
        if outcome.combined is not None:
            if outcome.trial.spec.kind != "fusion":
                return None
            fused = self._exact.hold(outcome, self._k)
            return Held(fused, None) if fused is not None else None
        key, card, vectors, record = _key(outcome), outcome.trial.spec.card, outcome.vectors, outcome.record
        if key is None or card is None or vectors is None or record is None or outcome.run is None:
            return None
        label, held = outcome.trial.label, record.external
        self._display.section(label).start("exact reference", None)
        made = self._made.pop(key, None)
        if made is None:
            made = self._make(card, vectors, outcome.trial.parameters, held)
        self._left[key] -= 1
        if self._left[key]:
            self._made[key] = made
        k = self._k
        if card.oracle.kind == "hybrid":
            among, tolerance = self._dataset.candidates, card.oracle.tolerance
            parity, exact = hold_hybrid(outcome.trial, outcome.run, record, made, among, k=k, tolerance=tolerance)
            return self._told(outcome, parity, exact, own=True)
        (oracle,) = made.values()
        parity = compare_run(
            outcome.run,
            oracle,
            k=k,
            tolerance=card.oracle.tolerance,
            missing_rows=record.index.missing_rows if held is None else None,
            graph=int(record.index.state.get("vectors_in_graph", 0)) > 0,
        )
        return self._told(outcome, parity, oracle.retrieve(k), own=isinstance(oracle, DenseOracle))

    def _told(self, outcome: Outcome, parity: Parity, exact: Run, *, own: bool) -> Held:
        """What was found, shown, and kept for fusions that are made of this backend; ``own``: with the oracle's run."""
        label, card = outcome.trial.label, outcome.trial.spec.card
        if self._exact.wants(label) and card is not None:
            self._exact.keep(label, exact, card.oracle.tolerance)
        of = f"{parity.tie_equivalent:,} of {counted(parity.queries, 'query')}"
        agree = "agrees" if parity.tie_equivalent == 1 else "agree"
        self._display.done(label, f"{of} {agree} with the exact reference")
        rebuilds = tuple(
            {depth: pairwise_overlap([run, exact], depth) for depth in parity.overlap} for run in outcome.rebuilds
        )
        return Held(parity, exact if own else None, rebuilds)

    def _make(
        self,
        card: BackendCard,
        vectors: Vectors,
        parameters: Mapping[str, ParameterValue],
        held: ExternalIndexRecord | None,
    ) -> Mapping[str, Oracle]:
        """The oracle by the column of what it is made of: of a hybrid one for each of its lists, over all documents."""
        dataset, threads, kind = self._dataset, self._plan.request.threads, card.oracle.kind
        candidates = None
        if kind != "hybrid":
            candidates = _candidates(dataset, dataset.corpus.ids if held is None else held.ids)
        made: dict[str, Oracle] = {}
        if kind != "dense":
            sparse = replace(_recipe(card, vectors, dataset, parameters, held), candidates=candidates)
            made["sparse"] = SparseOracle(sparse, threads=threads)
        if kind in ("dense", "hybrid"):
            dense = replace(_dense_recipe(vectors, dataset, parameters, held), candidates=candidates)
            made["dense"] = DenseOracle(dense, threads=threads)
        return made


def _key(outcome: Outcome) -> Hashable | None:
    """What an outcome's oracle is made of; None when it has none. An existing index shares its oracle with nobody."""
    trial, vectors, record = outcome.trial, outcome.vectors, outcome.record
    card = trial.spec.card
    if card is None or vectors is None or record is None or outcome.run is None:
        return None
    if not card.oracle.applies(trial.parameters):
        return None
    if record.external is not None:
        return (trial.label,) if record.external.no_oracle is None else None
    parameters = tuple(trial.parameters.get(name, absent) for name, absent in _OF_RECIPES.items())
    return (card.oracle.kind, *vectors.places, *parameters)


def _dense_recipe(
    vectors: Vectors, dataset: Dataset, parameters: Mapping[str, ParameterValue], held: ExternalIndexRecord | None
) -> DenseRecipe:
    if vectors.dense is None:
        raise UsageError("the dense oracle needs dense vectors", fix="take an encoder that makes them")
    documents, queries = vectors.dense
    ids = dataset.corpus.ids
    if held is not None:  # documents, and an order of them, of its own
        ids, documents = held.ids, np.ascontiguousarray(documents[held.rows])
    similarity = cast("Similarity", parameters["similarity"])
    nothing = np.empty(0, dtype=np.int32)
    matching = _matching(dataset)
    return DenseRecipe(ids, dataset.queries.ids, documents, queries, similarity, missing=nothing, matching=matching)


def _recipe(
    card: BackendCard,
    vectors: Vectors,
    dataset: Dataset,
    parameters: Mapping[str, ParameterValue],
    held: ExternalIndexRecord | None,
) -> Recipe:
    kind = "sparse" if card.oracle.kind == "hybrid" else card.oracle.kind
    counts = vectors.terms.counts if vectors.terms is not None else None
    documents, queries = vectors.sparse if vectors.sparse is not None else (None, None)
    if held is None:
        recipe = make_recipe(
            kind,
            doc_ids=dataset.corpus.ids,
            query_ids=dataset.queries.ids,
            counts=counts,
            documents=documents,
            queries=queries,
            parameters=parameters,
            shards=_shards(parameters, len(dataset.corpus)),
        )
        return replace(recipe, matching=_matching(dataset))
    # an existing index has documents, and an order of them that ties may show, of its own; it numbers its points by
    # rules of its own too, so in which shard they lie is not known
    return make_recipe(
        kind,
        doc_ids=held.ids,
        query_ids=dataset.queries.ids,
        counts=counts.of_documents(held.rows) if counts is not None else None,
        documents=documents.take(held.rows) if documents is not None else None,
        queries=queries,
        parameters=parameters,
    )


def _matching(dataset: Dataset) -> BoolArray | None:
    """Which documents a filter leaves. Indexes that were there before are not filtered."""
    return dataset.filtered.matching if dataset.filtered is not None else None


def _candidates(dataset: Dataset, documents: Ids) -> Run | None:
    """Return each query's candidates as rows of ``documents`` that match the filter; None where all compete."""
    if dataset.candidates is None:
        return None
    listed = candidate_rows(dataset.queries.ids, documents, dataset.candidates)
    matching = _matching(dataset)
    return listed if matching is None else hits_at(listed, np.flatnonzero(matching[listed.rows]))


def _shards(parameters: Mapping[str, ParameterValue], documents: int) -> Int32Array | None:
    """Where the documents of a backend with the parameter ``shards`` lie; None for a single shard."""
    shards = int(parameters.get("shards", 1))
    return shards_of(documents, shards) if shards > 1 else None
