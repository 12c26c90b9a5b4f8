"""The options of ``harness compare``, one name each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from harness.cli.completion import complete_backends, complete_dataset

__all__ = [
    "BackendsOption",
    "CardsOption",
    "DatasetOption",
    "DeadlineOption",
    "DepthOption",
    "DryRunOption",
    "MetricsOption",
    "NoTextOption",
    "OutOption",
    "OverwriteOption",
    "QueriesOption",
    "RelevanceOption",
    "RepeatOption",
    "SampleOption",
    "SeedOption",
    "SplitOption",
    "ThreadsOption",
    "TiesOption",
]

BackendsOption = Annotated[
    str,
    Option(
        help="Backends, separated by commas: name, name:key=value;key=value, or run:FILE.",
        metavar="LIST",
        autocompletion=complete_backends,
    ),
]
DatasetOption = Annotated[
    str,
    Option(
        help="A dataset card's name, or a folder or .zip in BEIR layout.",
        metavar="NAME|PATH",
        autocompletion=complete_dataset,
    ),
]
SplitOption = Annotated[str | None, Option(help="Split of the judgments; the card's own by default.")]
DepthOption = Annotated[int, Option("--k", help="Documents to ask for, per query.")]
MetricsOption = Annotated[str, Option(help="Measures, separated by commas.", metavar="LIST")]
TiesOption = Annotated[str, Option(help="Order of equal scores: trec_eval, engine or average.")]
QueriesOption = Annotated[str, Option(help="Queries that means are taken over: relevant, judged or answered.")]
RelevanceOption = Annotated[int, Option(help="Lowest grade that counts as relevant.")]
SampleOption = Annotated[
    int | None, Option(help="Search only this many queries, drawn with --seed; all documents stay.")
]
SeedOption = Annotated[int, Option(help="Seed of samples, bootstrap intervals and randomisation tests.")]
ThreadsOption = Annotated[int, Option(help="Threads of the exact reference, as a backend and as the oracle.")]
RepeatOption = Annotated[int, Option(help="Timed passes over all queries; percentiles use every sample.")]
DeadlineOption = Annotated[float | None, Option(help="Seconds that one backend may take.", metavar="SECONDS")]
OutOption = Annotated[
    Path | None, Option(help="Folder for the result; by default a new one under reports/.", show_default=False)
]
OverwriteOption = Annotated[bool, Option("--overwrite", help="Replace an earlier result in --out.")]
CardsOption = Annotated[Path | None, Option(help="Folder with more cards, in backends/ and datasets/.", metavar="DIR")]
DryRunOption = Annotated[bool, Option("--dry-run", help="Print what would run, and run nothing.")]
NoTextOption = Annotated[bool, Option("--no-text", help="Leave texts out of everything that is written.")]
