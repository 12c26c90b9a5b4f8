"""``harness compare``: run backends on a dataset and hold each against its oracle."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import typer

from harness.cli.app import ExitCode
from harness.cli.compare_options import (
    BackendsOption,
    CardsOption,
    DatasetOption,
    DeadlineOption,
    DepthOption,
    DryRunOption,
    MetricsOption,
    NoTextOption,
    OutOption,
    OverwriteOption,
    QueriesOption,
    RelevanceOption,
    RepeatOption,
    SampleOption,
    SeedOption,
    SplitOption,
    ThreadsOption,
    TiesOption,
)
from harness.cli.output import FormatOption, check_format, describe_plan, progress_display, write_report

__all__ = ["compare"]

_DEFAULT_OUT = Path("reports")


def compare(
    backends: BackendsOption = "qdrant,lucene,csr",
    dataset: DatasetOption = "cacm",
    split: SplitOption = None,
    k: DepthOption = 1000,
    metrics: MetricsOption = "nDCG@10,AP,R@100,RR@10",
    ties: TiesOption = "trec_eval",
    queries: QueriesOption = "relevant",
    relevance: RelevanceOption = 1,
    sample_queries: SampleOption = None,
    seed: SeedOption = 42,
    threads: ThreadsOption = 1,
    repeat: RepeatOption = 1,
    deadline: DeadlineOption = None,
    out: OutOption = None,
    overwrite: OverwriteOption = False,
    format_name: FormatOption = "table",
    cards: CardsOption = None,
    dry_run: DryRunOption = False,
    no_text: NoTextOption = False,
) -> None:
    """Push the same documents into real engines, run the same queries, score them with one metric core, and hold each
    engine against an exact reference.

    Example: harness compare --backends 'qdrant,lucene:k1=1.2;b=0.75,csr' --dataset ./my-collection --k 100
    """
    from harness import api
    from harness.plan import CompareRequest
    from harness.store import check_target

    request = CompareRequest(
        backends=backends,
        dataset=dataset,
        split=split,
        k=k,
        metrics=metrics,
        ties=ties,
        queries=queries,
        relevance=relevance,
        sample_queries=sample_queries,
        seed=seed,
        threads=threads,
        repeat=repeat,
        deadline_s=deadline,
        cards=cards,
    )
    check_format(format_name)
    plan = api.plan_for(request)
    check_target(out if out is not None else _DEFAULT_OUT / "new", overwrite=overwrite)
    if dry_run:
        typer.echo(describe_plan(plan, format_name), nl=False)
        return
    with progress_display() as display:
        comparison = api.run(plan, display)
    write_report(comparison.report, format_name)
    folder = out if out is not None else _folder_of_this_run(plan.dataset_name)
    comparison.save(folder, overwrite=overwrite, keep_text=not no_text)
    typer.echo(f"report: {folder / 'report.json'}", err=True)
    if comparison.failed:
        raise typer.Exit(ExitCode.UNAVAILABLE)


def _folder_of_this_run(dataset: str) -> Path:
    """A new folder named after the dataset and the time in UTC."""
    from harness.store import new_folder

    return new_folder(_DEFAULT_OUT, f"{dataset}-{dt.datetime.now(dt.UTC):%Y%m%d-%H%M%S}")
