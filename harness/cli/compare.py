"""``harness compare``: run backends on a dataset and hold each against its reference."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from harness.cli.app import ExitCode
from harness.cli.compare_options import (
    AllPairsOption,
    ArrivalsOption,
    BackendsOption,
    CardsOption,
    ClientsOption,
    ColdOption,
    ColumnsOption,
    ConcurrencyOption,
    DatasetOption,
    DeadlineOption,
    DepthOption,
    DryRunOption,
    FilterOption,
    IdenticalIdsOption,
    IsolationOption,
    JobsOption,
    LabelsOption,
    LoadSecondsOption,
    MaxCallsOption,
    MaxDocsOption,
    MemoryLimitOption,
    MetricsOption,
    NoTextOption,
    OutOption,
    OverwriteOption,
    QrelsOption,
    QueriesOption,
    RateOption,
    RebuildsOption,
    ReferenceOption,
    RelevanceOption,
    RepeatOption,
    ResumeOption,
    SampleOption,
    SaveBaselineOption,
    SeedOption,
    SplitOption,
    SweepOption,
    ThreadsOption,
    TiesOption,
    TimingOption,
    VerifyCacheOption,
    WarmUpOption,
)
from harness.cli.early_worker import early_worker
from harness.cli.output import (
    FormatOption,
    check_format,
    describe_plan,
    named_by_time,
    progress_display,
    stored_at,
    write_report,
)
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.plan.plan import Plan
    from harness.plan.request import Output
    from harness.results.comparison import Comparison

__all__ = ["compare"]

_DEFAULT_OUT = Path("reports")


def compare(
    backends: BackendsOption = "qdrant,lucene,csr",
    sweep: SweepOption = None,
    dataset: DatasetOption = "cacm",
    filter: FilterOption = None,  # noqa: A002 - the option's name
    queries: QueriesOption = None,
    qrels: QrelsOption = None,
    columns: ColumnsOption = None,
    split: SplitOption = None,
    identical_ids: IdenticalIdsOption = "auto",
    max_docs: MaxDocsOption = None,
    labels: LabelsOption = None,
    k: DepthOption = 1000,
    metrics: MetricsOption = "nDCG@10,AP,R@100,RR@10",
    ties: TiesOption = "trec_eval",
    relevance: RelevanceOption = 1,
    sample_queries: SampleOption = None,
    seed: SeedOption = 42,
    reference: ReferenceOption = None,
    all_pairs: AllPairsOption = False,
    threads: ThreadsOption = 1,
    repeat: RepeatOption = 1,
    warm_up: WarmUpOption = None,
    rebuilds: RebuildsOption = 1,
    cold: ColdOption = False,
    concurrency: ConcurrencyOption = None,
    clients: ClientsOption = "processes",
    rate: RateOption = None,
    arrivals: ArrivalsOption = "poisson",
    load_seconds: LoadSecondsOption = 5.0,
    timing: TimingOption = True,
    jobs: JobsOption = 1,
    isolation: IsolationOption = "process",
    deadline_s: DeadlineOption = None,
    memory_limit: MemoryLimitOption = None,
    max_calls: MaxCallsOption = None,
    verify_cache: VerifyCacheOption = None,
    resume: ResumeOption = "never",
    out: OutOption = None,
    overwrite: OverwriteOption = False,
    save_baseline: SaveBaselineOption = None,
    format_name: FormatOption = "table",
    cards: CardsOption = None,
    dry_run: DryRunOption = False,
    no_text: NoTextOption = False,
) -> None:
    """Push the same documents into real engines, run the same queries, score them with one metric core, and hold each
    engine against an exact reference.

    Example: harness compare --backends 'qdrant,lucene:k1=1.2;b=0.75,csr' --dataset ./my-collection --k 100
    """
    given = locals()
    with nullcontext() if dry_run else early_worker(backends, isolation, cards):
        from harness.pipeline import compare as api
        from harness.plan.request import CompareRequest, Output

        given |= {"sweep": sweep or (), "filter": filter or (), "columns": columns or ()}
        given["queries"] = (queries[0] if len(queries) == 1 else queries) if queries else "relevant"
        request = CompareRequest(**{field.name: given[field.name] for field in fields(CompareRequest)})
        check_format(format_name)
        plan = api.plan_for(request)
        _check_targets(out, save_baseline, overwrite=overwrite)
        if dry_run:
            _preview(plan, format_name)
        else:
            _run(plan, Output(out, overwrite, not no_text, format_name, save_baseline))


def _preview(plan: Plan, format_name: str) -> None:
    from harness.pipeline import compare as api

    with progress_display() as display:
        resolved, known = api.preview(plan, display)
    typer.echo(describe_plan(resolved, known, format_name), nl=False)


def _check_targets(out: Path | None, baseline: Path | None, *, overwrite: bool) -> None:
    from harness.store.result_folder import check_target

    check_target(out if out is not None else _DEFAULT_OUT / "new", overwrite=overwrite)
    if baseline is not None:
        from harness.results.baseline import check_baseline_target

        check_baseline_target(baseline)


def _run(plan: Plan, output: Output) -> None:
    from harness.pipeline import compare as api

    with progress_display() as display:
        comparison = api.run(plan, display, output)
    stored = _save(comparison, output, plan.dataset_name)
    with stored_at(stored.folder):
        if output.save_baseline is not None:
            _save_baseline(comparison, output.save_baseline)
        write_report(comparison.report, output.format_name)
    if comparison.failed or comparison.unmeasured:
        raise typer.Exit(ExitCode.UNAVAILABLE)


def _save_baseline(comparison: Comparison, path: Path) -> None:
    from harness.results.baseline import describe_baseline, save_baseline

    if comparison.failed:
        typer.echo(f"no baseline was written: {', '.join(comparison.failed)} failed", err=True)
        return
    replaced = f", in place of {describe_baseline(path)}" if path.exists() else ""
    save_baseline(comparison, path)
    typer.echo(f"baseline: {path}{replaced}", err=True)


def _save(comparison: Comparison, output: Output, dataset: str) -> Comparison:
    out = output.out
    if out is None:
        return comparison.save(named_by_time(dataset), keep_text=output.keep_text, numbered=True)
    try:
        return comparison.save(out, overwrite=output.overwrite, keep_text=output.keep_text)
    except UsageError as error:  # the folder was free when this comparison began
        raise UsageError(
            f"{error.what}: somebody wrote it meanwhile",
            fix="choose another --out, and --resume missing takes what finished from the cache",
        ) from error
