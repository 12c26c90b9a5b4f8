"""The verb ``eval``: scores runs against judgments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import typer

from harness.cli.verb import verb
from harness.data.memory import part_of_file
from harness.data.problems import Finding
from harness.data.ranking import without_identical_ids
from harness.data.types import Qrels
from harness.errors import DataError, UsageError
from harness.loaders.structured_files import states_order
from harness.loaders.trec import TaggedRun, read_qrels, read_tagged_run
from harness.metrics import Measure, QuerySet, TieRule, official_measures, parse_measures
from harness.pipeline.evaluate import evaluate_run
from harness.plan.config import AUDIT_METRICS, EVAL_METRICS, EvalRequest
from harness.plan.option_fields import require
from harness.report.scores import NamedScores, ScoreFormat, counts_line, render_scores

__all__ = ["evaluate"]


@verb(EvalRequest)
def evaluate(request: EvalRequest) -> None:
    """Score runs against relevance judgments.

    A run that cannot be scored (malformed, empty, or of another dataset) stops none of the others: their scores are
    printed, its errors follow on stderr, and the exit code is 3. Faulty judgments stop everything.

    Example: harness eval --qrels qrels.tsv --run run.trec
    """
    require(request)
    runs, output = [Path(run) for run in request.run], ScoreFormat(request.format)
    if request.audit:
        _refuse_with_audit(request, runs, output)
        _print_audit(request, runs[0], output)
        return
    if request.published is not None:
        raise UsageError("--published is part of --audit", fix="add --audit")
    if request.trec_eval and (request.ties is not None or request.queries is not None):
        raise UsageError("--trec-eval settles --queries and --ties", fix="leave out one or the other")
    as_trec_eval = request.trec_eval or output is ScoreFormat.TREC_EVAL
    measures = _measures(request.metrics, output)
    names = _names(runs)
    ordered = {name: states_order(path) for name, path in zip(names, runs, strict=True)}
    judgments, tagged, faults = _read(request.qrels, request.labels, runs)
    scored, of_metrics = list[NamedScores](), tuple[Finding, ...]()
    for name, (hits, tag) in ((name, tagged[path]) for name, path in zip(names, runs, strict=True) if path in tagged):
        if request.identical_ids == "drop":
            hits = without_identical_ids(hits)  # noqa: PLW2901 - what is scored
        try:
            scores = evaluate_run(
                hits,
                judgments,
                measures,
                ordered=ordered[name],
                ties=TieRule(request.ties or TieRule.TREC_EVAL),
                queries=QuerySet(request.queries or (QuerySet.ANSWERED if as_trec_eval else QuerySet.RELEVANT)),
                relevance=request.relevance,
                unjudged=as_trec_eval,
            )
            of_metrics = of_metrics if scored else scores.metric_findings
            scored.append(NamedScores(name, tag, scores, scores.run_findings))
        except DataError as error:
            faults.append(DataError(name, error.problems, fix=error.fix))
    if scored:
        _show(scored, of_metrics, output, request)
    if faults:
        raise DataError.of_files(faults)


def _refuse_with_audit(request: EvalRequest, runs: list[Path], output: ScoreFormat) -> None:
    """Raise UsageError for what an audit settles itself, for several runs, and for a format that it has not."""
    settled = {
        "--ties": request.ties, "--queries": request.queries, "--trec-eval": request.trec_eval,
        "--per-query": request.per_query, "--relevance": request.relevance != 1, "--labels": request.labels,
    }  # fmt: skip
    named = [name for name, value in settled.items() if value]
    if named:
        raise UsageError(
            f"--audit does not take {', '.join(named)}", fix="leave them out: each convention has its own choice"
        )
    if len(runs) > 1:
        raise UsageError(f"--audit takes one run, not {len(runs)}", fix="audit them one by one")
    if output is ScoreFormat.TREC_EVAL:
        raise UsageError("--audit has no format 'trec_eval'", fix="use table, markdown, csv or json")


def _print_audit(request: EvalRequest, run: Path, output: ScoreFormat) -> None:
    from harness.pipeline.evaluate import audit
    from harness.report.audit import render_audit

    metrics, rule = request.metrics or AUDIT_METRICS, request.identical_ids
    result = audit(str(run), request.qrels, metrics, identical_ids=rule, published=request.published)
    typer.echo(render_audit(_names([run])[0], result, output))


def _show(scored: list[NamedScores], findings: Sequence[Finding], output: ScoreFormat, request: EvalRequest) -> None:
    """Print scores; what formats for programs have no place for goes to stderr."""
    tagged = request.metrics is None or "official" in request.metrics
    text = render_scores(
        scored,
        output,
        per_query=request.per_query,
        relevance=request.relevance,
        tagged=tagged,
        findings=findings,
    )
    typer.echo(text)
    if output in (ScoreFormat.TABLE, ScoreFormat.MARKDOWN):
        return
    for named in scored:
        typer.echo(counts_line(named), err=True)
    if output is not ScoreFormat.JSON:
        for line in [*map(str, findings), *(line for named in scored for line in named.finding_lines)]:
            typer.echo(line, err=True)


def _measures(metrics: str | None, output: ScoreFormat) -> list[Measure]:
    if metrics is not None:
        return parse_measures(metrics)
    return official_measures() if output is ScoreFormat.TREC_EVAL else parse_measures(EVAL_METRICS)


def _read(qrels: Path, labels: Path | None, runs: list[Path]) -> tuple[Qrels, dict[Path, TaggedRun], list[DataError]]:
    """Judgments, the runs that can be read, and what is wrong with the others.

    Raises DataError when the judgments are faulty, for all faulty files together.
    """
    faults: list[DataError] = []
    judgments: Qrels | None = None
    tagged: dict[Path, TaggedRun] = {}
    try:
        judgments = _judgments(qrels, labels)
    except DataError as error:
        faults.append(error)
    for path in runs:
        try:
            tagged[path] = read_tagged_run(path)
        except DataError as error:
            faults.append(error)
    if judgments is None:
        raise DataError.of_files(faults)
    return judgments, tagged, faults


def _judgments(qrels: Path, labels: Path | None) -> Qrels:
    if labels is None:
        return read_qrels(qrels)
    from harness.pipeline.regress.labels import read_labels, with_labels

    return with_labels(read_qrels(qrels), read_labels(labels))


def _names(paths: list[Path]) -> list[str]:
    """File names; whole paths where two files have the same name. Raises UsageError for a run given twice."""
    twice = [str(path) for path, count in Counter(paths).items() if count > 1]
    if twice:
        raise UsageError(f"given more than once: {', '.join(twice)}", fix="name each run once")
    names = [f"{file.name}#{fragment}" if fragment else file.name for file, fragment in map(part_of_file, paths)]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]
