"""One retriever on one corpus as ``harness check`` judges it, wherever its answers come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from harness.data.types import Int64Array, Run
from harness.metrics import Scores
from harness.parity import Level
from harness.results.schema import EngineDescription, ErrorInfo, ParityStats, TrialResult
from harness.results.schema_base import Json
from harness.results.scored import Scored, has_terms

__all__ = ["Subject", "subject_of"]


@dataclass(frozen=True, eq=False, slots=True)
class Subject:
    """Answers to the questions of a golden set, with what is known of how they came about.

    ``run`` holds every question, None of a retriever that failed (then ``error`` says why). ``scores`` are of the
    questions that expect something. ``search_ns`` int64 (passes, questions) are times of single queries, negative for
    a question that was never sent; None where none were taken. ``exact`` bool (questions,) says which rankings are the
    exact ones up to ties, None without an exact reference. Both are in the run's order of questions. ``unanswered`` are
    the ids of questions that failed. ``reference`` is the exact reference's run to a depth beyond k, None without.
    """

    label: str
    backend: str
    corpus: str | None
    run: Run | None = None
    scores: Scores | None = None
    error: ErrorInfo | None = None
    engine: EngineDescription | None = None
    parameters: Mapping[str, Json] = field(default_factory=dict)
    search_ns: Int64Array | None = None
    parity: ParityStats | None = None
    exact: npt.NDArray[np.bool_] | None = None
    deterministic: bool | None = None
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    unanswered: frozenset[str] = frozenset()
    reference: Run | None = None


def subject_of(one: Scored, result: TrialResult, corpus: str, label: str, *, timed: bool) -> Subject:
    """The subject that a backend is."""
    record, parity = one.outcome.record, one.parity
    search_ns = None
    if timed and record is not None:
        sent = has_terms(one.outcome.vectors, record.search_ns.shape[1])
        search_ns = np.where(sent, record.search_ns, np.int64(-1))
    return Subject(
        label=label,
        backend=result.label,
        corpus=corpus,
        run=one.outcome.run,
        scores=one.scores,
        error=result.error,
        engine=result.engine,
        parameters=result.parameters,
        search_ns=search_ns,
        parity=result.parity,
        exact=parity.per_query.level >= Level.TIE_EQUIVALENT if parity is not None else None,
        deterministic=result.deterministic,
        notes=tuple(result.notes),
        reference=one.reference,
    )
