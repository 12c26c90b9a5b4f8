"""One report to a few plain tables of text, which every textual format prints."""

from __future__ import annotations

from harness.data.filtering import in_words
from harness.data.problems import Finding
from harness.report.cells import FAILED, NOT_APPLICABLE, REUSED, Table
from harness.report.collection_words import empty_documents, identical_ids
from harness.report.cost_tables import indexing, phases, reranking, single_client, stages
from harness.report.depths import CUT_SHORT, cut_short, legend_of_depths
from harness.report.differences import differences, legend_of_differences
from harness.report.frontier import frontier_notes, frontier_tables, legend_of_frontier
from harness.report.load_tables import closed_loop, cold, legend_of_load, open_loop
from harness.report.parity_tables import legend_of_parity, parity_tables
from harness.report.spread_tables import legend_of_spread, spread_tables
from harness.results.schema import CandidatesInfo, FilterInfo, FindingInfo, MetricValue, Result, TrialResult
from harness.wording import counted, few_for_interval

__all__ = ["header", "legend", "notes", "remarks", "tables"]

_INTERVAL = "95 % interval"
_LOG_LINES = 5


def tables(report: Result) -> list[Table]:
    """Quality, parity, spread, indexing, phases, speed and sweeps; and differences between backends."""
    made = [_quality(report), *parity_tables(report), *spread_tables(report)]
    made += [indexing(report), phases(report), single_client(report), *frontier_tables(report)]
    made += [stages(report), reranking(report), cold(report), closed_loop(report), open_loop(report)]
    made += differences(report, _metric_names(report))
    return [table for table in made if table.rows]


def header(report: Result) -> str:
    """One line that says on what, how much and under which rules."""
    dataset, resolved = report.dataset, report.plan.resolved
    left_out = int(dataset.provenance.get("empty_documents_dropped", 0))
    queries = counted(dataset.queries.searched, "query")
    if dataset.sampled_from is not None:
        queries = f"{dataset.queries.searched:,} of {counted(dataset.sampled_from, 'query')}, a sample"
    judged = f"{dataset.queries.judged:,} judged, {dataset.queries.relevant:,} with a relevant document"
    evaluated = _evaluated(report)
    if len(evaluated) == 1:
        judged += f", {evaluated.pop():,} evaluated"
    documents = counted(dataset.documents, "document")
    if dataset.documents_sampled_from is not None:
        documents = f"{dataset.documents:,} of {counted(dataset.documents_sampled_from, 'document')}, a subsample"
    parts = [
        dataset.name,
        f"{documents}{empty_documents(dataset.empty_documents, left_out)}",
        *identical_ids(dataset.identical_ids, "query"),
        *([_filter(dataset.filter)] if dataset.filter is not None else []),
        *([_candidates(dataset.candidates, report)] if dataset.candidates is not None else []),
        queries,
        judged if dataset.judgments else "no judgments, so no metrics",
        f"k={resolved['k']}",
        f"ties={resolved['ties']}",
    ]
    analyzers = sorted({str(b.encoder["analyzer"]) for b in report.trials if b.encoder.get("analyzer")})
    models = sorted({f"vectors by {b.encoder['model']}{_prompts(b)}" for b in report.trials if b.encoder.get("model")})
    return " · ".join([*parts, *analyzers, *models])


def _prompts(backend: TrialResult) -> str:
    """Return what stood before queries and documents when they were encoded; nothing where nothing did."""
    prompts = {role: backend.encoder.get(f"{role}_prompt") for role in ("query", "document")}
    said = [f"{role} prompt {text!r}" for role, text in prompts.items() if text]
    return f" ({', '.join(said)})" if said else ""


def _candidates(info: CandidatesInfo, report: Result) -> str:
    among = f"{info.fewest:,}" if info.fewest == info.most else f"{info.fewest:,} to {info.most:,}"
    reranked = any(backend.stages is not None and backend.stages.reranking is not None for backend in report.trials)
    said = f"each query ranked among its {among} candidates, of all {info.searched:,} documents that backends return"
    return f"{said}; second stages score exactly these" if reranked else said


def _filter(info: FilterInfo) -> str:
    matching = counted(info.matching, "document matches", "documents match")
    return f"filter {in_words(info.fields)}: {matching} ({info.selectivity:.2%})"


def notes(report: Result) -> list[str]:
    """Return pitfalls and whatever else a reader must know, one line each."""
    return [*(_finding(finding) for finding in report.findings), *remarks(report)]


def remarks(report: Result) -> list[str]:
    """Return failures, proven causes of differences, and what else a reader must know beside pitfalls."""
    lines = list[str]()
    if report.dataset.documents_sampled_from is not None:
        lines.append(
            "the corpus is a subsample, every judged document and a random part of the others: retrieval is easier "
            "than on the whole, and figures are not comparable with published ones"
        )
    filtered = report.dataset.filter
    if filtered is not None and filtered.relevant:
        lines.append(
            f"of {filtered.relevant:,} relevant judgments {filtered.relevant_matching:,} are of documents that match "
            "the filter; measures count the others too, and no backend can find those"
        )
    shared: dict[str, list[str]] = {}
    for backend in report.trials:
        if backend.error is not None:
            lines.append(f"{backend.label} failed: {backend.error.message}")
            lines.extend(f"    {line}" for line in backend.error.log[-_LOG_LINES:])
        if backend.parity is not None and backend.parity.causes:
            causes = ", ".join(
                f"{cause} ({count} of {counted(backend.parity.queries, 'query')})"
                for cause, count in backend.parity.causes.items()
            )
            lines.append(f"{backend.label} differs from its reference because of: {causes}")
        for note in backend.notes:
            shared.setdefault(note, []).append(backend.label)
    lines.extend(f"{', '.join(labels)}: {note}" for note, labels in shared.items())
    lines += frontier_notes(report)
    lines += few_for_interval(
        backend.queries.evaluated
        for backend in report.trials
        if backend.queries is not None and any(value.ci_low is not None for value in backend.metrics.values())
    )
    lines.extend(str(note) for note in _listed(report.plan.resolved.get("notes")))
    return lines


def _finding(found: FindingInfo) -> str:
    about = f"{found.backend}: " if found.backend is not None else ""
    return str(Finding(found.check, "warning", about + found.message, found.fix, tuple(found.examples)))


def legend(report: Result) -> list[str]:
    """What the marks mean; only those that occur."""
    lines = []
    if any(_INTERVAL in table.columns for table in tables(report)[:1]):
        lines.append(
            f"{_INTERVAL}: of the measure before it, BCa bootstrap over queries, exact of 0/1 values; "
            "report.json has the others'"
        )
    lines += legend_of_depths(report)
    if any(_moved_by_ties(value) for backend in report.trials for value in backend.metrics.values()):
        lines.append("[low–high]: the range of the mean over all orders of tied documents")
    if any(_ceiling(backend) for backend in report.trials):
        lines.append("(≤ x): what the best possible order of a second stage's candidates would reach")
    lines += legend_of_parity(report)
    lines += legend_of_spread(report)
    lines += legend_of_frontier(report)
    lines += legend_of_load(report)
    if any(backend.reused for backend in report.trials):
        lines.append(f"{REUSED}: measured by an earlier comparison and re-used (--resume)")
    lines += legend_of_differences(report)
    return lines


def _quality(report: Result) -> Table:
    names, evaluated = _metric_names(report), _evaluated(report)
    first = [backend.metrics[name] for backend in report.trials for name in names[:1] if backend.metrics]
    interval = [_INTERVAL] if any(value.ci_low is not None for value in first) else []
    shown_names = [f"{name}{CUT_SHORT}" if cut_short(report, name) else name for name in names]
    columns = (
        "backend",
        *shown_names[:1],
        *interval,
        *shown_names[1:],
        "answered",
        *(["evaluated"] if len(evaluated) > 1 else []),
    )
    rows = []
    for backend in report.trials:
        counts = backend.queries
        shown = [counts.answered, *([counts.evaluated] if len(evaluated) > 1 else [])] if counts is not None else []
        cells = [f"{count:,}" for count in shown] or [NOT_APPLICABLE] * (1 + (len(evaluated) > 1))
        values = [_metric(backend, name) for name in names]
        intervals = [_interval(backend, names[0])] if interval else []
        rows.append((backend.label, *values[:1], *intervals, *values[1:], *cells))
    return Table("Quality", columns, tuple(rows) if names else ())


def _evaluated(report: Result) -> set[int]:
    """How many queries the means are taken over; more than one number when backends answered different ones."""
    return {backend.queries.evaluated for backend in report.trials if backend.queries is not None}


def _metric_names(report: Result) -> list[str]:
    for backend in report.trials:
        if backend.metrics:
            return list(backend.metrics)
    return []


def _metric(backend: TrialResult, name: str) -> str:
    if backend.status == "failed":
        return FAILED
    value, best = backend.metrics[name], _ceiling(backend).get(name)
    shown = f"{value.mean:.4f}" if best is None else f"{value.mean:.4f} (≤ {_short(best)})"
    return f"{shown} [{_short(value.min)}–{_short(value.max)}]" if _moved_by_ties(value) else shown


def _interval(backend: TrialResult, name: str) -> str:
    """The confidence interval of a mean."""
    value = backend.metrics.get(name)
    if value is None or value.ci_low is None or value.ci_high is None:
        return NOT_APPLICABLE
    return f"[{value.ci_low:.3f}, {value.ci_high:.3f}]"


def _ceiling(backend: TrialResult) -> dict[str, float]:
    stages = backend.stages
    return stages.reranking.ceiling if stages is not None and stages.reranking is not None else {}


def _short(value: float | None) -> str:
    return f"{value:.4f}".removeprefix("0")


def _moved_by_ties(value: MetricValue) -> bool:
    if value.min is None or value.max is None:
        return False
    return f"{value.min:.4f}" != f"{value.max:.4f}"


def _listed(value: object) -> list[object]:
    return list(value) if isinstance(value, list) else []
