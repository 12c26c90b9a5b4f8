"""The options of ``harness compare``, one name each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from harness.cli.completion import complete_backends, complete_dataset

__all__ = [
    "AllPairsOption",
    "ArrivalsOption",
    "BackendsOption",
    "CardsOption",
    "ClientsOption",
    "ColdOption",
    "ColumnsOption",
    "ConcurrencyOption",
    "DatasetOption",
    "DeadlineOption",
    "DepthOption",
    "DryRunOption",
    "FilterOption",
    "IdenticalIdsOption",
    "IsolationOption",
    "JobsOption",
    "LabelsOption",
    "LoadSecondsOption",
    "MaxCallsOption",
    "MaxDocsOption",
    "MemoryLimitOption",
    "MetricsOption",
    "NoTextOption",
    "OutOption",
    "OverwriteOption",
    "QrelsOption",
    "QueriesOption",
    "RateOption",
    "RebuildsOption",
    "ReferenceOption",
    "RelevanceOption",
    "RepeatOption",
    "ResumeOption",
    "SampleOption",
    "SaveBaselineOption",
    "SeedOption",
    "SplitOption",
    "SweepOption",
    "ThreadsOption",
    "TiesOption",
    "TimingOption",
    "VerifyCacheOption",
    "WarmUpOption",
]

BackendsOption = Annotated[
    str,
    Option(
        help="Backends, separated by commas: name, name:key=value;key=value, run:FILE, a fusion of such: rrf:A+B, "
        "or a second stage on one: A|RERANKER.",
        metavar="LIST",
        autocompletion=complete_backends,
    ),
]
SweepOption = Annotated[
    list[str] | None,
    Option(
        help="One backend for each value of a parameter, on one build where the engine can, as "
        "chroma:ef_search=10,50,100. May be given several times.",
        metavar="NAME:KEY=LIST",
    ),
]
DatasetOption = Annotated[
    str,
    Option(
        help="A name (harness datasets), as cacm or beir/scifact, a folder or .zip in BEIR layout, or documents: a "
        "table (.csv, .tsv, .jsonl, .json, .parquet), TREC files, a folder of text files.",
        metavar="NAME|PATH",
        autocompletion=complete_dataset,
    ),
]
FilterOption = Annotated[
    list[str] | None,
    Option(
        help="Return only documents whose metadata have this value: section=news. May be given several times, and all "
        "must match then.",
        metavar="FIELD=VALUE",
    ),
]
SplitOption = Annotated[str | None, Option(help="Split of the judgments; the card's own by default.")]
DepthOption = Annotated[int, Option("--k", help="Documents to ask for, per query.")]
MetricsOption = Annotated[str, Option(help="Measures, separated by commas.", metavar="LIST")]
TiesOption = Annotated[str, Option(help="Order of equal scores: trec_eval, engine or average.")]
QueriesOption = Annotated[
    list[str] | None,
    Option(
        help="Queries that means are taken over: relevant (the default), judged or answered. Or the file of the "
        "queries: a table, TREC topics or a golden set. May be given twice, once for each.",
        metavar="RULE|FILE",
        show_default=False,
    ),
]
QrelsOption = Annotated[
    Path | None,
    Option(help="File of the judgments, in BEIR's or TREC's lines or a table; the dataset's own by default."),
]
ColumnsOption = Annotated[
    str | None,
    Option(
        help="Fields of tables that are called otherwise: id=doc_id,title=headline,text=body,query_id=qid,"
        "query=question, and doc_id and grade of judgments.",
        metavar="LIST",
    ),
]
IdenticalIdsOption = Annotated[
    str,
    Option(help="Hits that have their query's id: keep or drop them before scoring, or as the dataset says (auto)."),
]
MaxDocsOption = Annotated[
    int | None,
    Option(help="Index every judged document and, up to this many, random others drawn with --seed.", metavar="N"),
]
RelevanceOption = Annotated[int, Option(help="Lowest grade that counts as relevant.")]
SampleOption = Annotated[
    int | None, Option(help="Search only this many queries, drawn with --seed; all documents stay.")
]
SeedOption = Annotated[int, Option(help="Seed of samples, bootstrap intervals and randomisation tests.")]
ReferenceOption = Annotated[
    str | None,
    Option(
        help="The backend that all others are compared with, as the tables name it; the first by default.",
        metavar="NAME",
        show_default=False,
    ),
]
AllPairsOption = Annotated[
    bool, Option("--all-pairs/--no-all-pairs", help="Compare every backend with every other, not with one alone.")
]
ThreadsOption = Annotated[
    int, Option(help="Threads of the exact reference, as a backend and as what engines are held against.")
]
RepeatOption = Annotated[int, Option(help="Timed passes over all queries; percentiles use every sample.")]
WarmUpOption = Annotated[
    float | None,
    Option(
        help="Ask queries unmeasured before any is timed, at most as many as are timed (1,000 of a JVM) and for so "
        "long; 0: none. Else HARNESS_WARM_UP, or 5.",
        metavar="SECONDS",
    ),
]
RebuildsOption = Annotated[
    int,
    Option(
        help="Builds in all, the first among them, of each backend whose engine gives other rankings on each build; "
        "the report shows their spread.",
        metavar="N",
    ),
]
ColdOption = Annotated[
    bool, Option("--cold/--no-cold", help="Also time a pass on the index opened anew, its files out of the page cache.")
]
ConcurrencyOption = Annotated[
    str | None,
    Option(help="Also time so many clients at once, each asking when it was answered: 1,2,4,8.", metavar="LIST"),
]
ClientsOption = Annotated[str, Option(help="processes, or threads on one engine where its client releases the GIL.")]
RateOption = Annotated[
    str | None,
    Option(help="Also time a server at so many queries a second, whether it keeps up or not: 50,100.", metavar="LIST"),
]
ArrivalsOption = Annotated[str, Option(help="Gaps between the queries of --rate: poisson or constant.")]
LabelsOption = Annotated[
    Path | None,
    Option(
        help="Judgments that came later, a filled-in to-label.jsonl of regress or diff: they add to those of the data.",
        metavar="FILE",
    ),
]
LoadSecondsOption = Annotated[
    float,
    Option(
        help="How long each level of --concurrency and --rate is held; the calls under way then are finished, and "
        "queries of an overloaded rate are asked for as long again.",
        metavar="SECONDS",
    ),
]
TimingOption = Annotated[bool, Option("--timing/--no-timing", help="Warm up and time, or only search each query once.")]
JobsOption = Annotated[int, Option(help="Backends that run side by side; more than one needs --no-timing.")]
IsolationOption = Annotated[
    str,
    Option(help="process: each backend in a worker of its own. none: in the harness's process, for debuggers."),
]
DeadlineOption = Annotated[
    float | None, Option("--deadline", help="Seconds that one backend may take.", metavar="SECONDS")
]
MemoryLimitOption = Annotated[
    str | None,
    Option(help="Resident memory that one backend may use, with all it starts: 512MiB, 2GiB.", metavar="SIZE"),
]
MaxCallsOption = Annotated[
    int | None,
    Option(
        help="Calls of a remote model that each backend may make; --dry-run says how many it needs. With 0, what the "
        "cache does not hold is an error.",
        metavar="N",
    ),
]
VerifyCacheOption = Annotated[
    str | None,
    Option(help="Share of cached vectors to encode again and compare with the cached ones: 1%.", metavar="SHARE"),
]
ResumeOption = Annotated[
    str,
    Option(help="Stored outcomes to use instead of running again: never, missing, failed or always."),
]
OutOption = Annotated[
    Path | None, Option(help="Folder for the result; by default a new one under reports/.", show_default=False)
]
SaveBaselineOption = Annotated[
    Path | None,
    Option(
        help="Write a baseline too, a small file for git that `harness regress` holds later runs against.",
        metavar="FILE.json",
        show_default=False,
    ),
]
OverwriteOption = Annotated[bool, Option("--overwrite", help="Replace an earlier result in --out.")]
CardsOption = Annotated[Path | None, Option(help="Folder with more cards, in backends/ and datasets/.", metavar="DIR")]
DryRunOption = Annotated[bool, Option("--dry-run", help="Print what would run, and run nothing.")]
NoTextOption = Annotated[bool, Option("--no-text", help="Leave texts out of everything that is written.")]
