"""What is stored of a trial: what the backend was, what it did, and how well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, cast

import numpy as np
from pydantic import JsonValue

from harness.data.dataset import Dataset
from harness.engines.interface import EngineInfo
from harness.metrics import Scores, is_mean
from harness.plan.backend_spec import BackendSpec
from harness.plan.plan import Plan, Trial
from harness.registry.lookup import load_engine
from harness.results import schema
from harness.results.differences import metric_losses
from harness.results.scored import Scored
from harness.results.trial_notes import trial_notes
from harness.stats import mean_interval
from harness.worker.failure import Failure

__all__ = ["Summary", "failed_result", "trial_results"]

_NS_PER_S = 1e9
_NS_PER_MS = 1e6
_MISSING_SHOWN = 100
_STRANGERS_SHOWN = 20
_BEST_BY_GRADE = "nDCG"


class Summary(Protocol):
    """A part of a trial's result that somebody else makes: a probe, of what it measured."""

    def summarise(self, scored: Scored, dataset: Dataset, plan: Plan) -> Mapping[str, object]:
        """Return fields of the trial's result by name, and what else is to stand under ``probes`` there."""

    def notes(self, scored: Scored, plan: Plan) -> list[str]:
        """Return what a reader must know of it, one sentence each."""


def trial_results(
    scored: Sequence[Scored], dataset: Dataset, plan: Plan, summaries: Sequence[Summary]
) -> list[schema.TrialResult]:
    """Return one result per backend, in the plan's order."""
    return [_trial_result(backend, dataset, plan, summaries) for backend in scored]


def _trial_result(scored: Scored, dataset: Dataset, plan: Plan, summaries: Sequence[Summary]) -> schema.TrialResult:
    outcome, trial, seed = scored.outcome, scored.outcome.trial, plan.request.seed
    parts = {name: value for one in summaries for name, value in one.summarise(scored, dataset, plan).items()}
    known = schema.TrialResult.model_fields
    result = schema.TrialResult(
        dataset=dataset.name,
        name=trial.spec.name,
        label=trial.label,
        status="failed" if outcome.failure is not None else "ok",
        measured=outcome.measured,
        reused=outcome.reused,
        error=_error(outcome.failure) if outcome.failure is not None else None,
        engine=_engine(outcome.record.engine) if outcome.record is not None else None,
        encoder=dict(outcome.vectors.facts) if outcome.vectors is not None else {},
        parameters=dict(trial.parameters),
        queries=schema.EvaluatedCounts(**scored.scores.counts._asdict()) if scored.scores is not None else None,
        metrics=_metrics(scored.scores, seed),
        parity=_parity(scored, seed),
        deterministic=_deterministic(trial.spec) if outcome.failure is None else None,
        probes={name: cast("JsonValue", value) for name, value in parts.items() if name not in known},
        notes=[*trial_notes(scored, dataset), *(note for one in summaries for note in one.notes(scored, plan))],
    )
    return result.model_copy(update={name: value for name, value in parts.items() if name in known})


def failed_result(trial: Trial, dataset: str, error: schema.ErrorInfo) -> schema.TrialResult:
    """Return the result of a trial that could not run, because its dataset could not be loaded."""
    return schema.TrialResult(
        dataset=dataset,
        name=trial.spec.name,
        label=trial.label,
        status="failed",
        error=error,
        parameters=dict(trial.parameters),
    )


def _deterministic(spec: BackendSpec) -> bool | None:
    """Tell whether every build of a backend and its parts gives the same rankings; None where nothing is built."""
    if spec.components:
        parts = [_deterministic(component) for component in spec.components]
        return False if False in parts else next((part for part in parts if part is not None), None)
    if spec.card is None or spec.parameters.get("external", False):
        return None
    return load_engine(spec.card).capabilities.deterministic


def _engine(info: EngineInfo) -> schema.EngineDescription:
    return schema.EngineDescription(name=info.name, version=info.version, mode=info.mode)


def _error(failure: Failure) -> schema.ErrorInfo:
    return schema.ErrorInfo(type=failure.type, message=failure.message, log=list(failure.log))


def _metrics(scores: Scores | None, seed: int) -> dict[str, schema.MetricValue]:
    if scores is None or len(scores.query_ids) == 0:
        return {}
    values = {}
    for summary in scores.means():
        interval = mean_interval(scores.of(summary.measure), seed) if is_mean(summary.measure) else None
        values[str(summary.measure)] = schema.MetricValue(
            metric=str(summary.measure),
            mean=summary.value,
            min=None if np.isnan(summary.low) else summary.low,
            max=None if np.isnan(summary.high) else summary.high,
            ci_low=interval.low if interval is not None else None,
            ci_high=interval.high if interval is not None else None,
            n=len(scores.query_ids),
        )
    return values


def _parity(scored: Scored, seed: int) -> schema.ParityStats | None:
    parity = scored.parity
    if parity is None:
        return None
    return schema.ParityStats(
        reference=parity.reference,
        mode=parity.mode,
        tolerance=parity.tolerance,
        queries=parity.queries,
        bit_equal=parity.bit_equal,
        identical=parity.identical,
        tie_equivalent=parity.tie_equivalent,
        different=parity.different,
        overlap={str(depth): share for depth, share in parity.overlap.items()},
        rbo=parity.rbo,
        max_abs_score_diff=parity.max_abs_score_diff,
        max_rel_score_diff=parity.max_rel_score_diff,
        causes=dict(parity.causes),
        loss=metric_losses(scored, seed),
    )
