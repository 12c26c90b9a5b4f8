"""The verb ``eval``: scores runs against judgments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from harness.cli.output import print_result, write_report
from harness.cli.verb import verb
from harness.data.columns import OPTION, parse_columns
from harness.data.problems import Finding
from harness.data.ranking import without_identical_ids
from harness.data.types import Qrels
from harness.errors import DataError, UsageError
from harness.loaders.field_names import refuse_absent_fields
from harness.loaders.structured_files import states_order
from harness.loaders.trec import TaggedRun, read_qrels, read_tagged_run
from harness.metrics import Metric, official_metrics, parse_metrics
from harness.metrics.kind import Release
from harness.metrics.parse import names_of_release_10
from harness.pipeline.evaluate import (
    EvaluatedRun,
    evaluate_run,
    release_of,
    require_content,
    with_later_judgments,
    with_own_gains,
)
from harness.pipeline.evaluated_runs import EvaluatedRuns, reference_name, require_pairs, run_names
from harness.plan.config import AUDIT_METRICS, EVAL_METRICS, EvalRequest
from harness.registry.lookup import find_dataset
from harness.report.documents.evaluate import counts_line, findings_of, ties_line
from harness.user_path import user_path

_TREC_EVAL, _HTML = "trec_eval", "html"


@verb(EvalRequest)
def evaluate(request: EvalRequest) -> None:
    """Score runs against relevance judgments, and test the differences between them.

    Each run is compared with the first, or with --reference, on every metric: a paired test, corrected by Holm over
    all of them, with the effect and the interval of the difference.

    A run that cannot be scored (malformed, empty, or of another dataset) stops none of the others: their scores are
    printed, its errors follow on stderr, and the exit code is 3. Faulty judgments stop everything.

    Example: harness eval --qrels qrels.tsv --run run.trec
    """
    runs = [user_path(run) for run in request.run]
    if request.audit:
        _refuse_with_audit(request, runs)
        _print_audit(request, runs[0])
        return
    if request.published is not None:
        raise UsageError("--published is part of --audit", fix="add --audit")
    if request.query_table and request.format in ("json", _TREC_EVAL, _HTML):
        raise UsageError(f"--query-table has no format '{request.format}'", fix="use table, markdown, latex or csv")
    if request.per_query and (request.query_table or request.format == _HTML):
        other = "--query-table" if request.query_table else "--format html"
        raise UsageError(f"--per-query with {other}, which has every query", fix="leave out one of them")
    release = release_of(request) or (9 if request.format == _TREC_EVAL else None)
    measures = with_own_gains(_measures(request, release or 9), request.gains)
    _note_names_of_release_10(request, release)
    names = run_names(runs)
    require_pairs(request, len(runs))
    reference = reference_name(request, names, runs)
    (judgments, label_findings), tagged, faults = _read(request, runs)
    scored, tags = dict[str, EvaluatedRun](), dict[str, str]()
    for name, path in zip(names, runs, strict=True):
        if path not in tagged:
            continue
        run, tag = tagged[path]
        drops = request.identical_ids == "drop"
        hits = without_identical_ids(run) if drops else run
        try:
            require_content(run, judgments)
            ordered = states_order(path)
            scores = evaluate_run(
                hits, judgments, measures, request, ordered=ordered, trec_eval=release, drops_itself=drops,
                label_findings=label_findings,
            )  # fmt: skip
            scored[name], tags[name] = scores, tag
        except DataError as error:
            faults.append(DataError(name, error.problems, fix=error.fix))
    if scored:
        _show(EvaluatedRuns.of(scored, request.qrels.name, request, reference), tags, request, release or 9)
    if faults:
        raise DataError.of_files(faults)


def _refuse_with_audit(request: EvalRequest, runs: list[Path]) -> None:
    """Raise UsageError for options that an audit sets itself, for several runs, and for an unsupported format."""
    settled = {
        "--ties": request.ties, "--queries": request.queries, "--trec-eval": request.trec_eval,
        "--per-query": request.per_query, "--query-table": request.query_table, "--labels": request.labels,
        "--relevance": request.relevance != 1,
        "--reference": request.reference, "--all-pairs": request.all_pairs,
        "--judged-only": request.judged_only,
    }  # fmt: skip
    options = [name for name, value in settled.items() if value]
    if options:
        raise UsageError(
            f"--audit does not take {', '.join(options)}", fix="leave them out: each convention has its own choice"
        )
    if len(runs) > 1:
        raise UsageError(f"--audit takes one run, not {len(runs)}", fix="audit them one by one")
    if request.format in (_TREC_EVAL, _HTML):
        raise UsageError(f"--audit has no format '{request.format}'", fix="use table, markdown, latex, csv or json")


def _print_audit(request: EvalRequest, run: Path) -> None:
    from harness.pipeline.evaluate import audit
    from harness.report.documents.evaluate import audit_document
    from harness.report.render.score_formats import audit_json

    metrics, rule, (name,) = request.metrics or AUDIT_METRICS, request.identical_ids, run_names([run])
    columns = parse_columns(request.columns)
    if run.is_file() and request.qrels.is_file():  # else reading them explains it
        refuse_absent_fields(columns, [run, request.qrels], OPTION)
    result = audit(str(run), request.qrels, metrics, identical_ids=rule, published=request.published, columns=columns)
    if request.format == "json":
        print_result(audit_json(name, result))
    else:
        write_report(audit_document(name, request.qrels.name, result), request.format, verbose=True)


def _show(evaluated: EvaluatedRuns, tags: Mapping[str, str], request: EvalRequest, release: Release) -> None:
    """Print scores; notes that formats for programs cannot hold go to stderr."""
    from harness.report.render.score_formats import scores_output, trec_eval_text

    runs = evaluated.runs
    if request.format == _TREC_EVAL:
        tagged = request.metrics is None or "official" in request.metrics
        for name, scores in runs.items():
            tag = tags[name] if tagged else None
            print_result(
                trec_eval_text(scores, tag, per_query=request.per_query, relevance=request.relevance, release=release)
            )
        ties = next(iter(runs.values())).ties
        click.echo(f"as trec_eval {release} prints it; ties: {ties_line(ties)}", err=True)
    elif request.format == _HTML:
        print_result(evaluated.html().encode())
    elif request.query_table:
        from harness.report.presenting import queries_of

        write_report(queries_of(evaluated, None, None, keep_text=True), request.format)
    else:
        output = scores_output(evaluated, request.format, per_query=request.per_query)
        if isinstance(output, str):
            print_result(output)
        else:
            write_report(output, request.format, verbose=True)
    if request.format in ("csv", "json", _TREC_EVAL):
        for name, scores in runs.items():
            click.echo(counts_line(name, scores), err=True)
    if request.format in ("csv", _TREC_EVAL):
        for finding in findings_of(evaluated):
            click.echo(str(finding), err=True)


def _measures(request: EvalRequest, release: Release) -> list[Metric]:
    if request.metrics is not None:
        return parse_metrics(request.metrics, release)
    return official_metrics(release) if request.format == _TREC_EVAL else parse_metrics(EVAL_METRICS)


def _note_names_of_release_10(request: EvalRequest, release: Release | None) -> None:
    """Print a note on stderr for each metric that is named as only release 10 names it, under release 9."""
    if release == 9 and request.metrics is not None:
        for name, metric in names_of_release_10(request.metrics):
            click.echo(f"note: only trec_eval 10 has '{name}' (--trec-eval 10); {metric} is computed here", err=True)


def _read(
    request: EvalRequest, runs: list[Path]
) -> tuple[tuple[Qrels, Sequence[Finding]], dict[Path, TaggedRun], list[DataError]]:
    """Read the judgments, with warnings about labels, and the runs; return the readable ones, and others' problems.

    Raises DataError when the judgments are faulty, for all faulty files together.
    """
    faults: list[DataError] = []
    judgments: Qrels | None = None
    tagged: dict[Path, TaggedRun] = {}
    columns = parse_columns(request.columns)
    try:
        _refuse_dataset(request.qrels)
        judgments = read_qrels(request.qrels, columns)
    except DataError as error:
        faults.append(error)
    for path in runs:
        try:
            tagged[path] = read_tagged_run(path, columns)
        except DataError as error:
            faults.append(error)
    if judgments is None:
        raise DataError.of_files(faults)
    if not faults:
        refuse_absent_fields(columns, [*runs, request.qrels], OPTION)
    hits = [run for run, _ in tagged.values()]
    return with_later_judgments(judgments, request.labels, hits), tagged, faults


def _refuse_dataset(qrels: Path) -> None:
    """Raise DataError if a file of judgments is missing and its name is a dataset's."""
    if not qrels.exists() and find_dataset(str(qrels)) is not None:
        raise DataError(
            str(qrels),
            ["the file does not exist"],
            fix=f"{qrels} is a dataset, and --qrels takes a file: `harness compare --dataset {qrels} "
            "--backends run:FILE` scores a run on a dataset",
        )
