"""Pitfalls in the results of a comparison, as the result lists them."""

from __future__ import annotations

from collections.abc import Sequence

from harness.data.dataset import Dataset
from harness.data.problems import Finding
from harness.loaders.structured_files import states_order
from harness.metrics import is_mean
from harness.plan.config import COMPARE_METRICS
from harness.plan.plan import Plan
from harness.results.assess import Assessed
from harness.results.checks import (
    JudgedRun,
    Weights,
    difference_finding,
    metric_findings,
    named_measures,
    run_findings,
)
from harness.results.differences import notable_differences
from harness.results.schema import FindingInfo, PairedDifference
from harness.worker.outcome import Outcome

__all__ = ["recorded", "result_findings"]


def result_findings(
    plan: Plan, dataset: Dataset, assessed: Sequence[Assessed], differences: Sequence[PairedDifference]
) -> list[FindingInfo]:
    """Return the pitfalls of metrics, of each backend's run, and of differences between backends, on one dataset."""
    qrels, relevance = dataset.qrels, plan.request.relevance
    if qrels is None:
        return []
    named = named_measures(plan.measures, COMPARE_METRICS)
    findings = recorded(metric_findings(qrels, named, relevance=relevance, queries=plan.queries), dataset.name)
    for one in assessed:
        if one.scores is None or one.outcome.run is None:
            continue
        path = one.outcome.trial.spec.run_path
        ordered = path is not None and states_order(path)
        weights = _weights(one.outcome)
        judged = JudgedRun(one.outcome.run, qrels, one.scores, relevance, ordered, weights, dataset.competing)
        findings += recorded(run_findings(judged), dataset.name, one.outcome.trial.label)
    primary = next((str(measure) for measure in plan.measures if is_mean(measure)), None)
    if primary is not None:
        pairs = notable_differences(assessed, differences, primary)
        findings += recorded([found for found in map(difference_finding, pairs) if found is not None], dataset.name)
    return findings


def recorded(findings: Sequence[Finding], dataset: str, backend: str | None = None) -> list[FindingInfo]:
    """Return findings as a result lists them."""
    return [
        FindingInfo(
            check=finding.check,
            dataset=dataset,
            backend=backend,
            message=finding.message,
            fix=finding.fix,
            examples=list(finding.examples),
        )
        for finding in findings
    ]


def _weights(outcome: Outcome) -> Weights | None:
    """Return the learned sparse vectors of an outcome; those of BM25 are made here, and known."""
    vectors = outcome.vectors
    if vectors is None or vectors.terms is not None or vectors.sparse is None or vectors.sparse.documents is None:
        return None
    idf = bool(outcome.trial.parameters.get("idf", False))
    return Weights(vectors.sparse.documents, vectors.sparse.queries, idf)
