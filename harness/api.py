"""``harness.compare``: the main job as one call. The command line is this call and nothing more."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Unpack

import numpy as np
import pyarrow as pa

from harness.cache import Cache
from harness.environment import harness_state, machine, package_versions
from harness.errors import HarnessError
from harness.loaders import check_dataset, load_dataset
from harness.plan import CompareOptions, CompareRequest, Plan, make_plan
from harness.protocols import Display
from harness.reporting.progress import SilentDisplay
from harness.results import schema
from harness.results.assess import Assessed, assess, parity_table, per_query_table
from harness.results.backend import backend_results
from harness.results.collection import dataset_info
from harness.results.comparison import Comparison
from harness.results.differences import paired_differences
from harness.results.oracle import hold_against_oracle
from harness.runner import Outcome, failure_of, run_plan
from harness.store import check_target
from harness.types import Dataset, Ids, Queries

__all__ = ["compare", "plan_for", "run"]


def compare(
    backends: str | Sequence[str],
    dataset: str | Path = "cacm",
    *,
    out: str | Path | None = None,
    overwrite: bool = False,
    keep_text: bool = True,
    display: Display | None = None,
    **options: Unpack[CompareOptions],
) -> Comparison:
    """Run the same queries on every backend, score them, and hold each against its exact oracle.

    ``backends`` and ``dataset`` as on the command line; ``options`` are the other fields of
    :class:`harness.plan.CompareRequest` (``k``, ``metrics``, ``ties``, ``queries``, ``split``, ``seed`` …). With
    ``out`` the result is stored there. A backend that fails is listed in ``Comparison.failed`` and leaves the others
    alone. Raises UsageError for wrong arguments and DataError for malformed collections, before any engine starts.
    """
    request = CompareRequest(backends=backends, dataset=str(dataset), **options)
    plan = plan_for(request)
    if out is not None:
        check_target(Path(out), overwrite=overwrite)
    comparison = run(plan, display)
    return comparison if out is None else comparison.save(out, overwrite=overwrite, keep_text=keep_text)


def run(plan: Plan, display: Display | None = None) -> Comparison:
    """Carry out a plan that :func:`plan_for` made; see :func:`compare`."""
    shown: Display = display if display is not None else SilentDisplay()
    request, cache = plan.request, Cache()
    whole = load_dataset(
        request.dataset, split=request.split, cards=request.cards, cache=cache, progress=shown.section("load")
    )
    shown.done("load", f"{whole.name}, {len(whole.corpus):,} documents, {len(whole.queries):,} queries")
    dataset = _sample(whole, request)
    outcomes = run_plan(plan, dataset, cache, shown)
    assessed = [_assess(outcome, plan, dataset, shown) for outcome in outcomes]
    return Comparison(
        report=_report(plan, dataset, assessed, len(whole.queries)),
        values=per_query_table(assessed),
        agreement=parity_table(assessed),
        runs={one.outcome.trial.label: one.outcome.run for one in assessed if one.outcome.run is not None},
        qrels=dataset.qrels,
        queries=dataset.queries,
    )


def plan_for(request: CompareRequest) -> Plan:
    """The plan of a request on this machine.

    Raises UsageError or UnknownNameError for wrong arguments, DataError for a dataset that is not there.
    """
    plan = make_plan(request, lucene_available=_lucene_available())
    check_dataset(request.dataset, cards=request.cards)
    return plan


def _lucene_available() -> bool:
    """True when Anserini's jar and a Java runtime are installed: the default analyzer depends on it."""
    from harness import jvm

    try:
        jvm.find_jar()
        jvm.find_java()
    except HarnessError:
        return False
    return True


def _sample(dataset: Dataset, request: CompareRequest) -> Dataset:
    """A seeded sample of the queries, in their own order; all documents stay, so retrieval is as hard as before."""
    size = request.sample_queries
    if size is None or size >= len(dataset.queries):
        return dataset
    rows = np.sort(np.random.default_rng(request.seed).choice(len(dataset.queries), size=size, replace=False))
    chosen = pa.array(rows)
    queries = Queries(
        ids=Ids(dataset.queries.ids.values.take(chosen)),
        texts=dataset.queries.texts.take(chosen),
        digest=f"{dataset.queries.digest}/sample-{size}-{request.seed}",
    )
    qrels = dataset.qrels.of_queries(queries.ids) if dataset.qrels is not None else None
    return replace(dataset, queries=queries, qrels=qrels)


def _assess(outcome: Outcome, plan: Plan, dataset: Dataset, display: Display) -> Assessed:
    try:
        parity = hold_against_oracle(outcome, plan, dataset, display)
        return assess(outcome, parity, plan, dataset)
    except HarnessError as error:
        return Assessed(replace(outcome, failure=failure_of(error), run=None), None, None)


def _report(plan: Plan, dataset: Dataset, assessed: Sequence[Assessed], queries_in_collection: int) -> schema.Report:
    seed = plan.request.seed
    results = backend_results(assessed, dataset, seed)
    resolved = {
        **plan.given(),
        "backends": [trial.label for trial in plan.trials],
        "metrics": [str(measure) for measure in plan.measures],
        "split": dataset.provenance.get("split", plan.request.split),
        "notes": list(plan.notes),
    }
    return schema.Report(
        schema=schema.SCHEMA_VERSION,
        created=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        kind="compare",
        command=plan.command(),
        harness=schema.HarnessInfo(**asdict(harness_state())),
        machine=schema.MachineInfo(**asdict(machine())),
        packages=package_versions(),
        plan=schema.PlanRecord(given=plan.given(), resolved=resolved),
        dataset=dataset_info(dataset, plan, queries_in_collection),
        backends=results,
        comparisons=paired_differences(assessed, results, seed),
    )
