"""What is refused before any engine runs, and of what one did: functions that raise or return nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import numpy as np

from harness.data.dataset import Dataset
from harness.data.filtering import in_words
from harness.data.types import Run
from harness.engines.interface import Capabilities, EngineProtocol
from harness.errors import HarnessError, LostDocumentsError, RankingError, RejectedInputError, UsageError
from harness.plan.options import ClientKind, LoadOptions
from harness.plan.plan import Plan
from harness.registry.lookup import load_engine
from harness.registry.parameters import ParameterValue
from harness.worker.jobs import TrialRecord

__all__ = ["OWN_ADAPTERS", "refuse_impossible", "refuse_lost_documents", "refuse_unmatched"]

_NAMED = 20
OWN_ADAPTERS = "harness.engines."
"""How the engines of the harness itself begin: what their parameters mean is known."""


def refuse_impossible(plan: Plan) -> None:
    """Raise UsageError, with every mistake, for what engines cannot do as far as they say so without being opened.

    An engine that cannot be imported is left to its trial, which tells why. Parameters are tried on the harness's own
    adapters alone: what others' do when they are made may be slow or fail in ways that only a worker survives.
    """
    mistakes = []
    for trial in plan.trials:
        card = trial.spec.card
        if card is None:
            continue
        try:
            engine = load_engine(card)
        except HarnessError:
            continue
        try:
            _refuse_load(plan.load, engine.capabilities, external=trial.external)
            _refuse_filter(plan, engine.capabilities, external=trial.external)
            if card.engine.startswith(OWN_ADAPTERS):
                cast("Callable[[Mapping[str, ParameterValue]], EngineProtocol]", engine)(trial.parameters)
        except (UsageError, RejectedInputError) as error:
            mistakes.append(UsageError(f"backend '{trial.label}': {error.what}", fix=error.fix))
    if len(mistakes) == 1:
        raise mistakes[0]
    if mistakes:
        raise UsageError("\n".join(str(mistake) for mistake in mistakes))


def _refuse_filter(plan: Plan, capabilities: Capabilities, *, external: bool) -> None:
    """Raise UsageError when searches cannot be filtered on such an engine or index."""
    if plan.filter and external:
        raise UsageError(
            "--filter works on an index that the harness built, with the metadata in it, not on an existing one",
            fix="leave --filter or this backend out",
        )
    if plan.filter and not capabilities.filters:
        raise UsageError("--filter: this engine does not filter searches", fix="leave --filter or this backend out")


def _refuse_load(load: LoadOptions, capabilities: Capabilities, *, external: bool) -> None:
    """Raise UsageError when what is to be measured under load cannot be had of such an engine or index."""
    if load.wanted and external:
        raise UsageError(
            "--cold, --concurrency and --rate are measured on an index that the harness built, not on an existing one",
            fix="leave them or this backend out",
        )
    if load.wanted and not capabilities.reopens:
        raise UsageError(
            "--cold, --concurrency and --rate need an engine that can open its index again",
            fix="leave them or this backend out",
        )
    several = load.concurrency or load.rates
    if several and load.clients is ClientKind.THREADS and not capabilities.threads:
        raise UsageError(
            "--clients threads: this engine's client holds Python's lock while it searches, or may not be shared",
            fix="use --clients processes",
        )


def refuse_unmatched(run: Run, dataset: Dataset) -> None:
    """Raise RankingError for hits that the filter of ``dataset`` excludes: their figures would say nothing of it."""
    if dataset.filtered is None or not len(run.rows):
        return
    rows = dataset.corpus.ids.rows_of(run.doc_ids)[run.rows]
    excluded = np.flatnonzero((rows >= 0) & ~dataset.filtered.matching[rows])
    if len(excluded):
        hit = int(excluded[0])
        query = int(np.searchsorted(run.indptr, hit, side="right")) - 1
        raise RankingError(
            f"{len(excluded):,} of {run.hits:,} hits do not match the filter {in_words(dataset.filtered.wanted)}: "
            f"query '{run.query_ids[query]}' has document '{run.doc_ids[int(run.rows[hit])]}'",
            fix="a stored run must be one of the same filter; an engine that returns them has a defect",
        )


def refuse_lost_documents(record: TrialRecord, dataset: Dataset, log: Sequence[str]) -> None:
    """Raise LostDocumentsError, with the worker's ``log``, unless just documents without text are missing."""
    missing = record.index.missing_rows
    unnamed = record.index.sent - record.index.indexed - len(missing)
    if unnamed != 0:
        raise LostDocumentsError(
            f"the engine holds {record.index.indexed} of {record.index.sent} documents, {unnamed} unaccounted for",
            fix="this is a defect of the adapter: it must name every document that the engine does not hold",
            log=log,
        )
    empty = set(dataset.corpus.empty_rows.tolist())
    lost = [int(row) for row in missing if int(row) not in empty]
    if lost:
        named = ", ".join(dataset.corpus.ids[row] for row in lost[:_NAMED])
        more = f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
        raise LostDocumentsError(
            f"the engine lost {len(lost)} documents that are not empty: {named}{more}",
            fix="figures would be those of another collection: look into the engine's log for why it refused them",
            log=log,
        )
