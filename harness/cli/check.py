"""``harness check``: hold a golden set against retrievers, and require figures of them."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from harness.cli.app import ExitCode
from harness.cli.ci import JunitOption, PerQueryOption, SummaryOption, check_ci_files, write_check_for_ci
from harness.cli.compare_options import (
    CardsOption,
    ColumnsOption,
    DeadlineOption,
    DepthOption,
    IdenticalIdsOption,
    IsolationOption,
    JobsOption,
    MaxCallsOption,
    MemoryLimitOption,
    NoTextOption,
    OutOption,
    OverwriteOption,
    RelevanceOption,
    RepeatOption,
    ResumeOption,
    SeedOption,
    ThreadsOption,
    TiesOption,
    TimingOption,
    WarmUpOption,
)
from harness.cli.completion import complete_backends
from harness.cli.early_worker import early_worker
from harness.cli.output import FormatOption, check_format, named_by_time, progress_display, stored_at, write_report

__all__ = ["check"]

_REPORTS = Path("reports")
_EXIT_CODES = {"passed": ExitCode.FINE, "failed": ExitCode.FAILED, "invalid": ExitCode.UNAVAILABLE}

GoldenArgument = Annotated[
    str,
    Argument(
        help="Questions with the ids they expect: a .jsonl or .csv file, or a dataset that has a golden.jsonl.",
        metavar="GOLDEN",
    ),
]
CorpusOption = Annotated[
    list[str] | None,
    Option(
        help="The documents: a table, a folder of text files, or a dataset's name, folder or .zip. May be given "
        "several times, with "
        "names: small=a.jsonl. By default the golden set's own dataset.",
        metavar="[NAME=]PLACE",
    ),
]
BackendsOption = Annotated[
    str | None,
    Option(
        help="Backends to index the documents and search them, as compare takes them: name, name:key=value;key=value. "
        "By default lucene,csr, and none with --against alone.",
        metavar="LIST",
        autocompletion=complete_backends,
    ),
]
AgainstOption = Annotated[
    list[str] | None,
    Option(
        help="What is there already, only read: python:MODULE:FUNCTION, http:url=…;ids=…, or an index as "
        "chroma:path=…;collection=…;model=…. May be given several times.",
        metavar="[NAME=]RETRIEVER",
    ),
]
RequireOption = Annotated[
    list[str] | None,
    Option(
        help="What must hold: 'Hit@5>=0.9', 'p95_ms<=50', 'parity>=1', or of a slice 'lang=de: MRR@5>=0.7'. May be "
        "given several times.",
        metavar="REQUIREMENT",
    ),
]
MeasuresOption = Annotated[
    str | None,
    Option(
        "--metrics", help="Measures, separated by commas; by default Hit, MRR, Recall and nDCG at k.", metavar="LIST"
    ),
]
MatchOption = Annotated[
    str,
    Option(help="exact: expected ids are those of the corpus. document, prefix: the corpus holds chunks of them."),
]
DelimiterOption = Annotated[
    str | None, Option(help="What stands between a document's id and its chunk's, for --match.", metavar="TEXT")
]
SliceOption = Annotated[
    list[str] | None,
    Option(
        help="A field of the golden set: one row of figures for each of its values. May be repeated.", metavar="FIELD"
    ),
]
ConfidenceOption = Annotated[
    bool,
    Option("--confidence", help="Let the bound of the 95 % interval decide requirements, not the point estimate."),
]


def check(
    golden: GoldenArgument,
    corpus: CorpusOption = None,
    columns: ColumnsOption = None,
    backends: BackendsOption = None,
    against: AgainstOption = None,
    k: DepthOption = 5,
    require: RequireOption = None,
    metrics: MeasuresOption = None,
    identical_ids: IdenticalIdsOption = "auto",
    match: MatchOption = "exact",
    delimiter: DelimiterOption = None,
    slice: SliceOption = None,  # noqa: A002 - the option's name
    confidence: ConfidenceOption = False,
    ties: TiesOption = "engine",
    relevance: RelevanceOption = 1,
    seed: SeedOption = 42,
    threads: ThreadsOption = 1,
    repeat: RepeatOption = 1,
    warm_up: WarmUpOption = None,
    timing: TimingOption = True,
    jobs: JobsOption = 1,
    isolation: IsolationOption = "process",
    deadline_s: DeadlineOption = None,
    memory_limit: MemoryLimitOption = None,
    max_calls: MaxCallsOption = None,
    resume: ResumeOption = "never",
    out: OutOption = None,
    overwrite: OverwriteOption = False,
    format_name: FormatOption = "table",
    junit: JunitOption = None,
    junit_per_query: PerQueryOption = False,
    summary: SummaryOption = None,
    cards: CardsOption = None,
    no_text: NoTextOption = False,
) -> None:
    """Ask every retriever the questions of a golden set, and hold what it returns against what they expect.

    Ends with 0 when every requirement is met, 1 when one is not, 3 when nothing could be judged.

    Example: harness check golden.jsonl --corpus chunks.jsonl --backends chroma,lucene --k 5 --require 'Hit@5>=0.9'
    """
    given = locals() | {"keep_text": not no_text}
    with early_worker(backends or "", isolation, cards):
        from harness.pipeline.check.check_plan import plan_check
        from harness.pipeline.check.check_request import CheckRequest
        from harness.pipeline.check.run_check import run_check
        from harness.plan.config import Output
        from harness.store.result_folder import check_target

        for name in ("corpus", "columns", "against", "require", "metrics", "slice"):
            given[name] = given[name] or ()
        check_format(format_name)
        check_ci_files(junit, summary, per_query=junit_per_query)
        plan = plan_check(CheckRequest(**{field.name: given[field.name] for field in fields(CheckRequest)}))
        check_target(out if out is not None else _REPORTS / "new", overwrite=overwrite)
        with progress_display() as display:
            checked = run_check(plan, display, Output(out=out, overwrite=overwrite, format=format_name))
    stored = checked.save(out or named_by_time(f"check-{plan.golden.name}"), overwrite=overwrite, numbered=out is None)
    with stored_at(stored.folder):
        write_check_for_ci(checked.report, junit, summary, per_query=junit_per_query)
        write_report(checked.report, format_name)
    raise typer.Exit(_EXIT_CODES[checked.report.verdict])
