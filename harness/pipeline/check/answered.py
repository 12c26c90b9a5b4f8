"""The answers of a backend to a golden set, searched by the harness or called."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.data.types import Int64Array, Run
from harness.metrics import Scores
from harness.parity import Level
from harness.results.schema import TrialResult
from harness.results.scored import ScoredTrial, has_terms


@dataclass(frozen=True, eq=False, slots=True)
class GoldenRun:
    """The answers of a backend to the questions of a golden set, with its trial.

    ``run`` holds every question; None for a backend that failed (then the trial's ``error`` says why). ``scores`` cover
    the questions that expect something, ``forbidden`` the questions that forbid documents. ``search_ns`` int64 (passes,
    questions) are times of single queries, negative for a question that was never sent; None if none were taken.
    ``exact`` bool (questions,) marks rankings that equal the exact ranking up to ties, None without an exact reference.
    Both are in the run's order of questions. ``problems`` name the findings of preflight, ``unanswered`` are the ids of
    questions that failed. ``reference`` is the exact reference's run to a depth beyond k, None without a reference.
    ``no_scores`` says why its hits have no scores, empty if they have.
    """

    trial: TrialResult
    run: Run | None = None
    scores: Scores | None = None
    forbidden: Scores | None = None
    search_ns: Int64Array | None = None
    exact: npt.NDArray[np.bool_] | None = None
    problems: tuple[str, ...] = ()
    unanswered: frozenset[str] = frozenset()
    reference: Run | None = None
    no_scores: str = ""

    @property
    def label(self) -> str:
        """Label of the backend."""
        return self.trial.label

    @classmethod
    def of(cls, scored: ScoredTrial, trial: TrialResult, *, timed: bool) -> GoldenRun:
        """Return the answers of a backend that was searched."""
        record, parity = scored.outcome.record, scored.parity
        search_ns = None
        if timed and record is not None:
            sent = has_terms(scored.outcome.vectors, record.search_ns.shape[1])
            search_ns = np.where(sent, record.search_ns, np.int64(-1))
        elif timed and scored.outcome.answers is not None:
            search_ns = scored.outcome.answers.search_ns
        exact = parity.per_query.level >= Level.TIE_EQUIVALENT if parity is not None else None
        return cls(
            trial, scored.outcome.run, scored.scores, search_ns=search_ns, exact=exact, reference=scored.reference
        )


def trial_of_backend(dataset: str, label: str, expression: str, **facts: object) -> TrialResult:
    """Return the trial of a function or an endpoint that is known only by its answers."""
    name = expression.partition(":")[0].rpartition("=")[2]
    fields = {"dataset": dataset, "label": label, "name": name, "parameters": {"against": expression}}
    return TrialResult.model_validate({**fields, "status": "ok", **facts})
