"""Compare outcomes with the references that their cards name: one reference for all backends that claim its scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import NamedTuple, cast

import numpy as np

from harness.data.dataset import Dataset
from harness.data.filtering import Matching
from harness.data.progress import Display
from harness.data.ranking import candidate_rows, select_hits
from harness.data.types import Ids, Run, Similarity, owners
from harness.errors import UsageError
from harness.exact.bm25_models import formula_of
from harness.exact.qdrant_shards import shards_of
from harness.metrics.spread import pairwise_overlap
from harness.parity.causes import HYPOTHESES, hits_of_components
from harness.parity.fused_lists import compare_hybrid
from harness.parity.recipes import DenseRecipe, Recipe, make_recipe
from harness.parity.references import (
    DenseReference,
    FusedReference,
    Part,
    Reference,
    SparseReference,
    references_of_compared,
)
from harness.parity.run_comparison import Parity, compare_run
from harness.parity.trial_causes import causes_of_trial
from harness.plan.plan import Plan
from harness.registry.cards import ReferenceRule
from harness.registry.parameters import ParameterValue
from harness.wording import counted
from harness.worker.divided_search import DividedSearch
from harness.worker.jobs import ExternalIndexRecord, TrialRecord
from harness.worker.outcome import Outcome
from harness.worker.second_stages import fuse_runs
from harness.worker.vectors import Vectors

_OF_RECIPES: Mapping[str, ParameterValue | None] = {
    "k1": None,
    "b": None,
    "k1_plus_1": True,
    "idf": True,
    "shards": 1,
    "impact_scale": None,
    "similarity": None,
    "fields": "",
}
"""Parameters that decide a reference, each with the meaning of its absence."""


class OutcomeParity(NamedTuple):
    """Agreement of a run with its reference; ``exact`` is the reference's own run, if that is dense or a hybrid.

    ``rebuilds`` are the overlaps with it, depth -> mean, of the builds after the first. ``deeper`` is the reference's
    run to the depth that was requested beyond k, None if none was requested, and for hybrids and fusions.
    """

    parity: Parity
    exact: Run | None
    rebuilds: tuple[Mapping[int, float], ...] = ()
    deeper: Run | None = None


class References:
    """The references of one comparison's outcomes, each built once and dropped after the last backend that needs it.

    Exact hits of the components of fusions are kept for the comparison of the fusions. ``deeper`` requests the
    reference's run to that depth, 0 for none. ``divided`` searches large datasets in parts.
    """

    def __init__(
        self,
        outcomes: Sequence[Outcome],
        plan: Plan,
        dataset: Dataset,
        display: Display,
        *,
        deeper: int = 0,
        divided: DividedSearch | None = None,
    ) -> None:
        self._plan, self._dataset, self._display, self._deeper = plan, dataset, display, deeper
        self._divided = divided
        self._k = plan.request.k
        if dataset.candidates is not None:  # every one of them is compared
            self._k = max(map(len, dataset.candidates.values()), default=1)
        self._built: dict[Hashable, Mapping[str, Reference]] = {}
        self._left = Counter(key for key in map(_key, outcomes) if key is not None)
        fused = {label for outcome in outcomes if outcome.combined is not None for label in outcome.combined.of}
        labelled = ((outcome.trial.label, outcome.run) for outcome in outcomes)
        self._components = {label: run for label, run in labelled if run is not None and label in fused}
        self._exact: dict[str, tuple[Run, float]] = {}
        """Exact hits of components of fusions, and the tolerances that these state, by label."""

    def compare(self, outcome: Outcome, *, explained: bool = True) -> OutcomeParity | None:
        """Return the parity of a backend's run.

        None for a stored run, a failed backend, parameters without a reference, or an external index that is not proven
        to hold the vectors of the reference. Backends come in the plan's order: a fusion's reference is made of its
        components' references. With ``explained`` False no causes are tried, except for hybrids and fusions.
        """
        if outcome.combined is not None:
            return self._compare_fusion(outcome) if outcome.trial.spec.kind == "fusion" else None
        deeper, card, record, key = None, outcome.trial.spec.card, outcome.record, _key(outcome)
        if key is None or card is None or record is None or outcome.run is None:
            return None
        label, tolerance = outcome.trial.label, card.reference.tolerance
        self._display.section(label).start("exact reference", None)
        references = self.of(outcome)
        self._left[key] -= 1
        if not self._left[key]:
            del self._built[key]
        if card.reference.kind == "hybrid":
            among = self._dataset.candidates
            parity, exact = compare_hybrid(
                outcome.trial, outcome.run, record, references, card.reference, among, k=self._k
            )
        else:
            (reference,) = references.values()
            if self._deeper:  # first: shallower runs are cut from it
                deeper = reference.retrieve(self._deeper)
            axes = outcome.run.query_ids, outcome.run.doc_ids
            compared = ordered = None
            if record.compared is not None:
                compared, ordered = references_of_compared(reference, record.compared, self._plan.request.threads)
            parity = compare_run(
                outcome.run,
                reference,
                k=self._k,
                tolerance=tolerance,
                missing_rows=record.index.missing_rows if record.external is None else None,
                approximate=record.index.approximate,
                compared=compared,
                ordered=ordered,
                hypotheses=(
                    lambda: chain(
                        causes_of_trial("dense", reference, record, outcome.trial.parameters, axes), HYPOTHESES
                    )
                )
                if explained
                else (),
            )
            exact = reference.retrieve(self._k)
        if label in self._components:
            self._exact[label] = exact, tolerance
        counts = f"{parity.tie_equivalent:,} of {counted(parity.queries, 'query')}"
        agree = "agrees" if parity.tie_equivalent == 1 else "agree"
        self._display.done(label, f"{counts} {agree} with the exact reference")
        rebuilds = tuple(
            {depth: pairwise_overlap([run, exact], depth) for depth in parity.overlap} for run in outcome.rebuilds
        )
        return OutcomeParity(parity, exact if card.reference.kind in ("dense", "hybrid") else None, rebuilds, deeper)

    def _compare_fusion(self, outcome: Outcome) -> OutcomeParity | None:
        """Compare a fusion with the fusion of its components' exact hits; None if a component has no reference.

        Its tolerance is the largest of its components'.
        """
        combined, run, spec = outcome.combined, outcome.run, outcome.trial.spec
        if combined is None or run is None or any(label not in self._exact for label in combined.of):
            return None
        parts = tuple(Part(label, self._exact[label][0], self._components[label]) for label in combined.of)
        reference = FusedReference(spec.name, parts, partial(fuse_runs, spec))
        tolerance = max(self._exact[label][1] for label in combined.of)
        if outcome.trial.label in self._components:
            self._exact[outcome.trial.label] = reference.retrieve(self._k), tolerance
        causes = hits_of_components(parts)
        return OutcomeParity(compare_run(run, reference, k=self._k, tolerance=tolerance, hypotheses=causes), exact=None)

    def of(self, outcome: Outcome) -> Mapping[str, Reference]:
        """Return a backend's references by column: a hybrid has a reference for each list, over all documents.

        Empty if the backend has no reference, or is made of other backends. They are kept until the last backend that
        shares them is compared.
        """
        key, card, vectors, record = _key(outcome), outcome.trial.spec.card, outcome.vectors, outcome.record
        if key is None or card is None or vectors is None or record is None:
            return {}
        if key in self._built:
            return self._built[key]
        external, parameters = record.external, outcome.trial.parameters
        dataset, threads, kind = self._dataset, self._plan.request.threads, card.reference.kind
        candidates = None
        if kind != "hybrid" and dataset.candidates is not None:
            candidates = _candidates(dataset, dataset.corpus.ids if external is None else external.ids)
        references: dict[str, Reference] = {}
        if kind != "dense":
            recipe = _recipe(card.reference, vectors, dataset, parameters, record)
            recipe = replace(recipe, candidates=candidates)
            name = "sparse" if card.reference.scoring is None else "terms"
            references[name] = SparseReference(recipe, threads=threads, divided=self._divided)
        if kind in ("dense", "hybrid"):
            dense = replace(_dense_recipe(vectors, dataset, parameters, external), candidates=candidates)
            references["dense"] = DenseReference(dense, threads=threads, divided=self._divided)
        self._built[key] = references
        return references


def _key(outcome: Outcome) -> Hashable | None:
    """Return the key of an outcome's reference, None without a reference; an external index does not share its key."""
    trial, vectors, record = outcome.trial, outcome.vectors, outcome.record
    card = trial.spec.card
    if card is None or vectors is None or record is None or outcome.run is None:
        return None
    if not card.reference.applies(trial.parameters):
        return None
    if record.external is not None:
        return (trial.label,) if record.external.no_reference is None else None
    parameters = tuple(trial.parameters.get(name, absent) for name, absent in _OF_RECIPES.items())
    scoring = card.reference.scoring
    formula = formula_of(scoring, trial.parameters) if scoring is not None else None
    placement = tuple(None if part is None else part.tobytes() for part in record.placement or ())
    of_terms = vectors.terms.folder if vectors.terms is not None else None
    folders = [path for pair in vectors.folders for path in pair]
    return (card.reference.kind, scoring, formula, of_terms, *folders, *parameters, *placement)


def _dense_recipe(
    vectors: Vectors, dataset: Dataset, parameters: Mapping[str, ParameterValue], external: ExternalIndexRecord | None
) -> DenseRecipe:
    if vectors.dense is None:
        raise UsageError("the dense reference needs dense vectors", fix="take an encoder that makes them")
    documents, queries = vectors.dense
    ids, matching = dataset.corpus.ids, dataset.filtered.matching if dataset.filtered is not None else None
    if external is not None:  # its stored_vectors documents, in its stored_vectors order
        stored_vectors = external.vectors
        matching = _external_matching(dataset, external)
        ids, documents = (
            external.ids,
            stored_vectors if stored_vectors is not None else np.ascontiguousarray(documents[external.rows]),
        )
    return DenseRecipe(
        ids,
        dataset.queries.ids,
        documents,
        queries,
        cast("Similarity", parameters["similarity"]),
        missing=np.empty(0, dtype=np.int32),
        matching=matching,
    )


def _recipe(
    rule: ReferenceRule,
    vectors: Vectors,
    dataset: Dataset,
    parameters: Mapping[str, ParameterValue],
    record: TrialRecord,
) -> Recipe:
    counts = vectors.terms.counts if vectors.terms is not None else None
    documents, queries = vectors.sparse if vectors.sparse is not None else (None, None)
    ids, external, placement = dataset.corpus.ids, record.external, record.placement
    matching = dataset.filtered.matching if dataset.filtered is not None else None
    count = int(parameters.get("shards", 1))
    shards, order = shards_of(len(dataset.corpus), count) if count > 1 else None, None
    if placement is not None:
        shards, order = placement.shards, placement.order
    if external is not None:
        # it has its own documents, in an order that ties may show; it also numbers its points by its own rules, so
        # their shards are not known
        ids, shards = external.ids, None
        matching = _external_matching(dataset, external)
        counts = counts.of_documents(external.rows) if counts is not None else None
        documents = documents.take(external.rows) if documents is not None else None
    recipe = make_recipe(
        "sparse" if rule.kind == "hybrid" else rule.kind,
        doc_ids=ids,
        query_ids=dataset.queries.ids,
        counts=counts,
        documents=documents,
        queries=queries,
        parameters=parameters,
        shards=shards,
        scoring=rule.scoring,
    )
    return replace(recipe, order=order, matching=matching)


def _external_matching(dataset: Dataset, external: ExternalIndexRecord) -> Matching | None:
    """Return the documents of an external index that the filter of each query leaves, by the index's own metadata."""
    return Matching(external.matching, dataset.filtered.group_of) if dataset.filtered is not None else None


def _candidates(dataset: Dataset, documents: Ids) -> Run | None:
    """Return each query's candidates as rows of ``documents`` that match its filter; None if all compete."""
    if dataset.candidates is None:
        return None
    rows = candidate_rows(dataset.queries.ids, documents, dataset.candidates)
    matching = dataset.filtered.matching if dataset.filtered is not None else None
    if matching is None:
        return rows
    matching = matching.of_documents(dataset.corpus.ids.rows_of(documents))
    return select_hits(rows, np.flatnonzero(matching.of_hits(owners(rows.indptr), rows.rows)))
