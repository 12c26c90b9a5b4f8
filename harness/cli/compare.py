"""``harness compare``: run backends on a dataset and hold each against its oracle."""

from __future__ import annotations

import datetime as dt
from itertools import count
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.app import ExitCode
from harness.cli.output import FormatOption, check_format, describe_plan, progress_display, write_report

__all__ = ["compare"]

_DEFAULT_OUT = Path("reports")


def compare(
    backends: Annotated[
        str,
        typer.Option(
            help="Backends, separated by commas: name, name:key=value;key=value, or run:FILE.", metavar="LIST"
        ),
    ] = "qdrant,lucene,csr",
    dataset: Annotated[
        str, typer.Option(help="A dataset card's name, or a folder or .zip in BEIR layout.", metavar="NAME|PATH")
    ] = "cacm",
    split: Annotated[str | None, typer.Option(help="Split of the judgments; the card's own by default.")] = None,
    k: Annotated[int, typer.Option("--k", help="Documents to ask for, per query.")] = 1000,
    metrics: Annotated[
        str, typer.Option(help="Measures, separated by commas.", metavar="LIST")
    ] = "nDCG@10,AP,R@100,RR@10",
    ties: Annotated[str, typer.Option(help="Order of equal scores: trec_eval, engine or average.")] = "trec_eval",
    queries: Annotated[
        str, typer.Option(help="Queries that the means are taken over: relevant, judged or answered.")
    ] = "relevant",
    relevance: Annotated[int, typer.Option(help="Lowest grade that counts as relevant.")] = 1,
    sample_queries: Annotated[
        int | None, typer.Option(help="Search only this many queries, drawn with --seed; all documents stay.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of samples, bootstrap intervals and randomisation tests.")] = 42,
    threads: Annotated[
        int, typer.Option(help="Threads of the exact reference; engines say so when they use more.")
    ] = 1,
    repeat: Annotated[int, typer.Option(help="Timed passes over all queries; percentiles use every sample.")] = 1,
    deadline: Annotated[
        float | None, typer.Option(help="Seconds that one backend may take.", metavar="SECONDS")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the result; by default a new one under reports/.", show_default=False),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier result in --out.")] = False,
    format_name: FormatOption = "table",
    cards: Annotated[
        Path | None, typer.Option(help="Folder with more cards, in backends/ and datasets/.", metavar="DIR")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would run, and run nothing.")] = False,
    no_text: Annotated[
        bool, typer.Option("--no-text", help="Leave texts of documents and queries out of every output.")
    ] = False,
) -> None:
    """Push the same documents into real engines, run the same queries, score them with one metric core, and hold each
    engine against an exact reference.

    Example: harness compare --backends qdrant,lucene:k1=1.2;b=0.75,csr --dataset ./my-collection --k 100
    """
    from harness import api
    from harness.plan import CompareRequest

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
    if not dry_run:
        check_format(format_name)
    plan = api.plan_for(request)
    if dry_run:
        typer.echo(describe_plan(plan, format_name), nl=False)
        return
    folder = out if out is not None else _new_folder(plan.dataset_name)
    with progress_display() as display:
        comparison = api.run(plan, out=folder, overwrite=overwrite, keep_text=not no_text, display=display)
    write_report(comparison.report, format_name)
    typer.echo(f"report: {folder / 'report.json'}", err=True)
    if comparison.failed:
        raise typer.Exit(ExitCode.UNAVAILABLE)


def _new_folder(dataset: str) -> Path:
    """A name that no earlier result has: the dataset and the time in UTC."""
    stem = f"{dataset}-{dt.datetime.now(dt.UTC):%Y%m%d-%H%M%S}"
    for number in count(1):
        folder = _DEFAULT_OUT / (stem if number == 1 else f"{stem}-{number}")
        if not folder.exists():
            return folder
    raise AssertionError("unreachable: count() does not end")
