"""Build the document of a comparison."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from harness.data.filtering import format_filter
from harness.data.problems import Finding
from harness.document.busy import with_busy_marks
from harness.document.cells import (
    BACKEND,
    count,
    empty_documents,
    excluded_documents,
    filters_in_words,
    identical_ids,
    join_names,
    label_lines,
    metric_values,
    notes_on_trials,
    provenance,
    sections_with_content,
    text,
    values_of,
    with_content,
)
from harness.document.model import Block, Column, Document, Facts, Figure, Notes, Section, Table, Value
from harness.pipeline.probes import PROBES
from harness.pipeline.probes.probe import REUSED
from harness.report.documents.board_tables import across_name, leaderboard_tables, leaderboard_values
from harness.report.documents.parity_tables import frontier_notes, frontier_tables, parity_tables, scoring_tables
from harness.report.documents.published import published_mean_tables, published_tables, published_values
from harness.report.documents.quality import (
    UnjudgedRow,
    difference_values,
    pair_tables,
    quality_table,
    unjudged_tables,
)
from harness.report.documents.truncation_table import truncation_tables
from harness.report.documents.tuning_tables import tuning_tables, tuning_values
from harness.report.documents.verdicts import comparison_verdicts
from harness.results.backend_info import short_labels
from harness.results.schema import FindingInfo, Result, TrialResult
from harness.results.schema_base import CandidatesInfo, DatasetInfo, Json
from harness.wording import counted, few_for_interval, unread_files_in_words

_MAX_NAMES = 4
_REUSED_LEGEND = f"{REUSED}: measured by an earlier comparison and re-used (--resume)"


def comparison_document(result: Result, figures: Mapping[str, Sequence[Figure]] | None = None) -> Document:
    """Return everything that is shown of a comparison.

    ``figures`` are drawings of single queries and samples, which a result without its tables lacks, by the anchor of
    their section: ``quality``, ``frontier``, ``parity``, ``requested``, ``cost``.
    """
    several, drawn = len(result.datasets) > 1, figures or {}
    tuned: list[Block] = []
    quality: list[Block] = [*leaderboard_tables(result), *published_mean_tables(result)]
    parity: list[Block] = [*drawn.get("parity", [])]
    requested: list[Block] = [*drawn.get("requested", [])]
    cost: list[Block] = [*drawn.get("cost", [])]
    for dataset in result.datasets:
        title_suffix, trials = f", {dataset.name}" if several else "", result.of_dataset(dataset.name)
        table = quality_table(result, dataset.name, title_suffix)
        quality += [table] if table is not None else []
        unjudged = [UnjudgedRow.of_trial([text(trial.label)], trial) for trial in trials]
        quality += unjudged_tables([BACKEND], unjudged, title_suffix)
        quality += [
            *pair_tables(result, dataset.name, title_suffix),
            *published_tables(result, dataset.name, title_suffix),
        ]
        quality += truncation_tables(trials, title_suffix)
        tuned += tuning_tables(result, dataset.name, title_suffix)
        parity += parity_tables(trials, title_suffix, candidates=dataset.candidates is not None)
        parity += scoring_tables(
            [scoring for scoring in result.formula_differences if scoring.dataset == dataset.name], title_suffix
        )
        for table in _probe_tables(trials, result.machine.cores, title_suffix):
            (cost if table.detail else requested).append(table)
    quality += [_datasets_table(result.datasets)] if len(result.datasets) > _MAX_NAMES else []
    notes = list(comparison_notes(result))
    frontier: list[Block] = [*frontier_tables(result), *drawn.get("frontier", [])]
    sections = [
        Section("quality", "Quality", [*quality, *drawn.get("quality", [])]),
        Section("tuning", "Tuned parameters", tuned, open=True),
        Section("frontier", "Cost and gain of a setting", frontier, open=True),
        Section("parity", "Parity with the exact reference", parity),
        Section("requested", "Load, filters and changes", requested, open=True),
        Section("cost", "Cost", cost),
        Section("notes", "Notes before comparing", [Notes(notes)] if notes else []),
        Section("provenance", "Provenance", list(provenance(result, _contents(result.datasets))), detail=True),
    ]
    names, labels = [info.name for info in result.datasets], [info.label for info in result.backends]
    return Document(
        title=f"{join_names(names, _MAX_NAMES)}: {join_names(labels, _MAX_NAMES)}",
        subtitle=comparison_header(result),
        verdicts=comparison_verdicts(result),
        sections=sections_with_content(sections),
        command=[shlex.join(result.command)],
        made_by=f"harness {result.harness.version} · {result.created}",
        kind="compare",
        name=", ".join(names),
        labels=result.short_labels | _short_sweeps(result),
        values=list(comparison_values(result)),
    )


def _short_sweeps(result: Result) -> dict[str, str]:
    """Return a short label for each swept backend, its name without the parameter, if it is long."""
    names = list(dict.fromkeys(frontier.backend for frontier in result.frontiers))
    return {name: short for name, short in zip(names, short_labels(names), strict=True) if name != short}


def _probe_tables(trials: Sequence[TrialResult], cores: int, title_suffix: str) -> list[Table]:
    """Return the tables of all probes that have rows; ``title_suffix`` ends their titles."""
    return [
        _add_legend(replace(with_content(table), title=f"{table.title}{title_suffix}"), trials)
        for probe in PROBES
        for table in probe.tables(trials, cores)
        if table.rows
    ]


def _add_legend(table: Table, trials: Sequence[TrialResult]) -> Table:
    """Return a probe's table with lines that explain the marks of its rows."""
    if any(row[0].mark == REUSED for row in table.rows):
        table = replace(table, legend=[*table.legend, _REUSED_LEGEND])
    return with_busy_marks(table, trials)


def comparison_header(result: Result) -> str:
    """Return one line that gives the data, its size and the rules."""
    resolved = result.plan.resolved
    several = len(result.datasets) > 1
    data = [" · ".join(_data(dataset, result)) for dataset in result.datasets]
    if len(data) > _MAX_NAMES:
        data = [_totals(result.datasets)]
    analyzers = sorted({str(trial.encoder["analyzer"]) for trial in result.trials if trial.encoder.get("analyzer")})
    models = _models(result.trials)
    rules = " · ".join([f"k={resolved['k']}", f"ties={resolved['ties']}", *analyzers, *models])
    lines = [*data, rules] if several else [" · ".join([*data, rules])]
    return "\n".join([*lines, *label_lines(result.datasets)])


def _models(trials: Sequence[TrialResult]) -> list[str]:
    """Return each model with its prompts, and the datasets that have them if they differ from dataset to dataset."""
    datasets: dict[str, dict[str, set[str]]] = {}
    for trial in trials:
        if model := trial.encoder.get("model"):
            with_prompts = f"vectors by {model}{_prompts(trial.encoder)}"
            datasets.setdefault(str(model), {}).setdefault(with_prompts, set()).add(trial.dataset)
    texts = []
    for of_model in datasets.values():
        everywhere = set().union(*of_model.values())
        for with_prompts, names in of_model.items():
            partly = names != everywhere
            texts.append(f"{with_prompts} on {join_names(sorted(names), len(names))}" if partly else with_prompts)
    return sorted(texts)


def _totals(datasets: Sequence[DatasetInfo]) -> str:
    """Return how much was searched of many datasets, which a table lists one by one."""
    documents = counted(sum(dataset.documents for dataset in datasets), "document")
    queries = counted(sum(dataset.queries.searched for dataset in datasets), "query")
    relevant = sum(dataset.queries.relevant for dataset in datasets)
    return f"{counted(len(datasets), 'dataset')} · {documents} · {queries}, {relevant:,} with a relevant document"


def _datasets_table(datasets: Sequence[DatasetInfo]) -> Table:
    columns = [Column("dataset", numeric=False), *map(Column, ("documents", "queries", "judged", "relevant"))]
    rows = []
    for info in datasets:
        counts = (info.documents, info.queries.searched, info.queries.judged, info.queries.relevant)
        rows.append([text(info.name), *map(count, counts)])
    return Table("Datasets", columns, rows, ["relevant: queries with a relevant document"], detail=True)


def _data(dataset: DatasetInfo, result: Result) -> Iterator[str]:
    """Yield the searched parts of a dataset."""
    trials = result.of_dataset(dataset.name)
    left_out = int(dataset.provenance.get("empty_documents_dropped", 0))
    documents = counted(dataset.documents, "document")
    if dataset.documents_sampled_from is not None:
        documents = f"{dataset.documents:,} of {counted(dataset.documents_sampled_from, 'document')}, a subsample"
    yield dataset.name
    if dataset.error is not None:
        yield "could not be loaded"
        return
    yield f"{documents}{empty_documents(dataset.empty_documents, left_out)}"
    if dataset.unread_files:
        yield unread_files_in_words(dataset.unread_files)
    yield from identical_ids(dataset.identical_ids, "query")
    yield from excluded_documents(dataset.excluded, "query")
    if (info := dataset.filter) is not None:
        matching = counted(info.matching, "document matches", "documents match")
        yield f"filter {format_filter(info.fields)}: {matching} ({info.selectivity:.2%})"
    yield from filters_in_words(dataset.query_filters)
    if dataset.candidates is not None:
        yield _candidates(dataset.candidates, trials)
    if dataset.sampled_from is not None:
        yield f"{dataset.queries.searched:,} of {counted(dataset.sampled_from, 'query')}, a sample"
    else:
        yield counted(dataset.queries.searched, "query")
    evaluated = {trial.queries.evaluated for trial in trials if trial.queries is not None}
    judged = f"{dataset.queries.judged:,} judged, {dataset.queries.relevant:,} with a relevant document"
    if len(evaluated) == 1:
        judged += f", {evaluated.pop():,} evaluated"
    yield judged if dataset.judgments else "no judgments, so no metrics"


def _prompts(encoder: Mapping[str, Json]) -> str:
    """Return the prompts of queries and documents; nothing without any."""
    prompts = {role: encoder.get(f"{role}_prompt") for role in ("query", "document")}
    parts = [f"{role} prompt {text!r}" for role, text in prompts.items() if text]
    return f" ({', '.join(parts)})" if parts else ""


def _candidates(info: CandidatesInfo, trials: Sequence[TrialResult]) -> str:
    among = f"{info.fewest:,}" if info.fewest == info.most else f"{info.fewest:,} to {info.most:,}"
    reranked = any(trial.stages is not None and trial.stages.reranking is not None for trial in trials)
    sentence = (
        f"each query ranked among its {among} candidates, of all {info.searched:,} documents that backends return"
    )
    return f"{sentence}; second stages score exactly these" if reranked else sentence


def comparison_notes(result: Result) -> Iterator[str]:
    """Yield failures, proven causes of differences, pitfalls with their cases, and other notes for the reader."""
    for dataset in result.datasets:
        about = f"{dataset.name}: " if len(result.datasets) > 1 else ""
        yield from (f"{about}{line}" for line in _dataset_notes(dataset, result.of_dataset(dataset.name)))
    # verdicts have the first finding of each check, without its examples, and name the other backends
    several, reported = len(result.datasets) > 1, dict[str, FindingInfo]()
    for finding in result.findings:
        first = reported.setdefault(finding.check, finding)
        names_backend = finding.backend is not None and finding.fix == first.fix and not several
        if finding.examples or not (finding is first or names_backend):
            yield _finding(finding, several=several)
    yield from frontier_notes(result)
    yield from few_for_interval(
        trial.queries.evaluated
        for trial in result.trials
        if trial.queries is not None and any(value.ci_low is not None for value in trial.metrics.values())
    )
    yield from result.notes


def _dataset_notes(dataset: DatasetInfo, trials: Sequence[TrialResult]) -> Iterator[str]:
    if dataset.documents_sampled_from is not None:
        yield (
            "the corpus is a subsample, every judged document and a random part of the others: retrieval is easier "
            "than on the full corpus, and figures are not comparable with published ones"
        )
    if dataset.filter is not None and dataset.filter.relevant:
        yield (
            f"of {dataset.filter.relevant:,} relevant judgments {dataset.filter.relevant_matching:,} are of documents "
            "that match the filter; metrics count the other documents too, although no backend can find them"
        )
    yield from notes_on_trials([(trial.label, trial) for trial in trials])


def _finding(finding: FindingInfo, *, several: bool) -> str:
    about = f"{finding.dataset}: " if several and finding.dataset is not None else ""
    about += f"{finding.backend}: " if finding.backend is not None else ""
    return str(Finding(finding.check, "warning", about + finding.message, finding.fix, tuple(finding.examples)))


def _contents(datasets: Sequence[DatasetInfo]) -> Iterator[Facts]:
    for dataset in datasets:
        data = {"SHA-256 of documents, queries and judgments": dataset.sha256, **dataset.provenance}
        yield Facts(f"Dataset {dataset.name}", list(data.items()))


def comparison_values(result: Result) -> Iterator[Value]:
    """Yield every number: quality, differences, parity, losses and costs, then the leaderboard."""
    for trial in result.trials:
        yield from metric_values(trial)
        yield from _agreement(trial)
        yield from values_of(trial.dataset, trial.label, "", trial.model_dump(include={"queries"}))
        for probe in PROBES:
            yield from probe.values(trial)
        yield Value(trial.dataset, trial.label, "failed", float(trial.status == "failed"))
    across = across_name(result)
    for row in result.differences:
        yield from difference_values(row, row.dataset or across)
    yield from published_values(result)
    yield from tuning_values(result)
    for frontier in result.frontiers:
        name = f"on_frontier.{frontier.parameter}"
        for point in frontier.points:
            if point.p50_ms is not None:  # an untimed backend is not dominated
                yield Value(frontier.dataset, point.backend, name, float(point.on_frontier))
    yield from leaderboard_values(result, across)


def _agreement(trial: TrialResult) -> Iterator[Value]:
    if trial.parity is None:
        return
    queries = trial.parity.queries
    for value in values_of(trial.dataset, trial.label, "parity.", trial.parity.model_dump(exclude={"loss"})):
        yield replace(value, n=queries)
    for name, loss in trial.parity.loss.items():
        yield Value(trial.dataset, trial.label, f"loss.{name}", loss.difference, loss.ci_low, loss.ci_high, queries)
