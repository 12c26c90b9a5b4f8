"""The verb ``eval``: scores runs against judgments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.compare_options import LabelsOption
from harness.data.memory import part_of_file
from harness.data.problems import Finding
from harness.data.ranking import without_identical_ids
from harness.data.types import Qrels
from harness.errors import DataError, UsageError
from harness.loaders.structured_files import states_order
from harness.loaders.trec import TaggedRun, read_qrels, read_tagged_run
from harness.metrics import HIGHEST_LEVEL, Measure, QuerySet, TieRule, official_measures, parse_measures
from harness.pipeline.evaluate import AUDITED_METRICS, DEFAULT_METRICS, evaluate_run
from harness.report.scores import NamedScores, ScoreFormat, counts_line, render_scores

__all__ = ["evaluate"]

QrelsOption = Annotated[
    Path, typer.Option(metavar="FILE", help="Judgments: TREC or BEIR layout, JSON or Parquet; plain or gzip.")
]
RunsOption = Annotated[
    list[Path],
    typer.Option(
        metavar="FILE",
        help="A run, may be repeated: TREC layout, JSON (MTEB's predictions too: FILE#subset/split), or Parquet.",
    ),
]


class IdenticalIdsRule(StrEnum):
    """Whether hits that have their query's id are scored."""

    KEEP = "keep"
    DROP = "drop"
    AUTO = "auto"


def evaluate(
    qrels: QrelsOption,
    run: RunsOption,
    labels: LabelsOption = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            help=f"Measures, separated by commas; trec_eval's names work too. Default: {DEFAULT_METRICS}, and "
            "trec_eval's official ones with --format trec_eval."
        ),
    ] = None,
    per_query: Annotated[bool, typer.Option("--per-query", "-q", help="Every query's values too.")] = False,
    output: Annotated[ScoreFormat, typer.Option("--format", help="How to print.")] = ScoreFormat.TABLE,
    relevance: Annotated[
        int,
        typer.Option(
            "--relevance",
            "--relevance-level",
            "-l",
            min=1,
            max=HIGHEST_LEVEL,
            help="Lowest grade that counts as relevant.",
        ),
    ] = 1,
    ties: Annotated[
        TieRule | None, typer.Option(help="How equal scores are ordered. Default: trec_eval.", show_default=False)
    ] = None,
    queries: Annotated[
        QuerySet | None,
        typer.Option(
            help="Which queries to average over. Default: relevant, and answered with --format trec_eval.",
            show_default=False,
        ),
    ] = None,
    identical_ids: Annotated[
        IdenticalIdsRule,
        typer.Option(
            help="Hits that have their query's id: keep them, or drop them before scoring. auto is the dataset's rule, "
            "which a file of judgments does not tell: it keeps them."
        ),
    ] = IdenticalIdsRule.AUTO,
    trec_eval: Annotated[
        bool, typer.Option("--trec-eval", help="trec_eval's own choice: --queries answered --ties trec_eval.")
    ] = False,
    audit: Annotated[
        bool,
        typer.Option(
            "--audit",
            help="Score one run as trec_eval, Anserini, BEIR, MTEB, sentence-transformers and ranx do, and say why the "
            f"values differ. Default measures: {AUDITED_METRICS}.",
        ),
    ] = False,
    published: Annotated[
        str | None,
        typer.Option(
            metavar="VALUE",
            help="With --audit: a number from a paper, as printed (0.397, or nDCG@10=39.7). Names what gives it.",
        ),
    ] = None,
) -> None:
    """Score runs against relevance judgments.

    A run that cannot be scored (malformed, empty, or of another collection) stops none of the others: their scores are
    printed, its errors follow on stderr, and the exit code is 3. Faulty judgments stop everything.
    """
    if audit:
        settled = {
            "--ties": ties, "--queries": queries, "--trec-eval": trec_eval, "--per-query": per_query,
            "--relevance": relevance != 1, "--labels": labels,
        }  # fmt: skip
        _refuse_with_audit([name for name, value in settled.items() if value], run, output)
        _print_audit(qrels, run[0], metrics, output, identical_ids, published)
        return
    if published is not None:
        raise UsageError("--published is part of --audit", fix="add --audit")
    if trec_eval and (ties is not None or queries is not None):
        raise UsageError("--trec-eval settles --queries and --ties", fix="leave out one or the other")
    rule = ties or TieRule.TREC_EVAL
    as_trec_eval = trec_eval or output is ScoreFormat.TREC_EVAL
    chosen = queries or (QuerySet.ANSWERED if as_trec_eval else QuerySet.RELEVANT)
    measures = _measures(metrics, output)
    names = _names(run)
    ordered = {name: states_order(path) for name, path in zip(names, run, strict=True)}
    judgments, tagged, faults = _read(qrels, labels, run)
    scored, of_metrics = list[NamedScores](), tuple[Finding, ...]()
    for name, (hits, tag) in ((name, tagged[path]) for name, path in zip(names, run, strict=True) if path in tagged):
        if identical_ids is IdenticalIdsRule.DROP:
            hits = without_identical_ids(hits)  # noqa: PLW2901 - what is scored
        try:
            scores = evaluate_run(
                hits,
                judgments,
                measures,
                ordered=ordered[name],
                ties=rule,
                queries=chosen,
                relevance=relevance,
                unjudged=as_trec_eval,
            )
            of_metrics = of_metrics if scored else scores.metric_findings
            scored.append(NamedScores(name, tag, scores, scores.run_findings))
        except DataError as error:
            faults.append(DataError(name, error.problems, fix=error.fix))
    if scored:
        _show(scored, of_metrics, output, per_query, relevance, tagged=metrics is None or "official" in metrics)
    if faults:
        raise DataError.of_files(faults)


def _refuse_with_audit(given: list[str], runs: list[Path], output: ScoreFormat) -> None:
    """Raise UsageError for what an audit settles itself, for several runs, and for a format that it has not."""
    if given:
        raise UsageError(
            f"--audit does not take {', '.join(given)}", fix="leave them out: each convention has its own choice"
        )
    if len(runs) > 1:
        raise UsageError(f"--audit takes one run, not {len(runs)}", fix="audit them one by one")
    if output is ScoreFormat.TREC_EVAL:
        raise UsageError("--audit has no format 'trec_eval'", fix="use table, markdown, csv or json")


def _print_audit(
    qrels: Path, run: Path, metrics: str | None, output: ScoreFormat, rule: IdenticalIdsRule, published: str | None
) -> None:
    from harness.pipeline.evaluate import audit
    from harness.report.audit import render_audit

    found = audit(str(run), qrels, metrics or AUDITED_METRICS, identical_ids=rule.value, published=published)
    typer.echo(render_audit(_names([run])[0], found, output))


def _show(
    scored: list[NamedScores],
    findings: Sequence[Finding],
    output: ScoreFormat,
    per_query: bool,
    relevance: int,
    *,
    tagged: bool,
) -> None:
    """Print scores; what formats for programs have no place for goes to stderr."""
    text = render_scores(scored, output, per_query=per_query, relevance=relevance, tagged=tagged, findings=findings)
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
    return official_measures() if output is ScoreFormat.TREC_EVAL else parse_measures(DEFAULT_METRICS)


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
