"""Hold an outcome against the oracle that its card names."""

from __future__ import annotations

from harness.parity import Parity, SparseOracle, compare_run, make_recipe
from harness.plan import Plan
from harness.protocols import Display
from harness.runner import Outcome
from harness.types import Dataset

__all__ = ["hold_against_oracle"]


def hold_against_oracle(outcome: Outcome, plan: Plan, dataset: Dataset, display: Display) -> Parity | None:
    """Parity of a backend's run; None for a stored run, a failed backend, or parameters without an oracle."""
    card, vectors, record = outcome.trial.spec.card, outcome.vectors, outcome.record
    if card is None or vectors is None or record is None or outcome.run is None:
        return None
    if not card.oracle.applies(outcome.trial.parameters):
        return None
    label = outcome.trial.label
    display.section(label).start("exact reference", None)
    recipe = make_recipe(
        card.oracle.kind,
        doc_ids=dataset.corpus.ids,
        query_ids=dataset.queries.ids,
        counts=vectors.counts,
        documents=vectors.documents,
        queries=vectors.queries,
        parameters=outcome.trial.parameters,
    )
    oracle = SparseOracle(recipe, threads=plan.request.threads)
    parity = compare_run(
        outcome.run,
        oracle,
        k=plan.request.k,
        tolerance=card.oracle.tolerance,
        missing_rows=record.index.missing_rows,
    )
    display.done(label, f"{parity.tie_equivalent} of {parity.queries} queries agree with the exact reference")
    return parity
