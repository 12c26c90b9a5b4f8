"""The tables of a comparison's page: quality with its marks, every table of the terminal, and where it comes from."""

from __future__ import annotations

from harness.report.depths import CUT_SHORT, cut_short, legend_of_depths
from harness.report.differences import family_of, mark_of
from harness.report.document import Block, Cell, Column, Facts, Table, Tone
from harness.report.html.comparison_verdicts import against_reference, reference_of
from harness.report.html.parts import flat_rows, made_by, page_table
from harness.report.tables import legend, tables
from harness.results.schema import Result, TrialResult

__all__ = ["provenance", "quality_table", "text_tables"]

_SIGNIFICANT = "▲ ▼ better or worse than {reference}, adjusted p < 0.05 (paired randomisation test, Holm over {family})"
_MEANINGS = {
    "▲": _SIGNIFICANT,
    "▼": _SIGNIFICANT,
    "=": "= the same as {reference} on every query",
    "~": "~ no significant difference from {reference}",
    "≈": "≈ within what the order of tied documents can move",
}
_TONES: dict[str, Tone] = {"▲": "good", "▼": "bad"}


def quality_table(report: Result) -> Table:
    """Backends by metrics: mean, what it means against the reference, and the interval below."""
    metrics = list(dict.fromkeys(name for one in report.trials for name in one.metrics))
    rows = [_row(report, one, metrics) for one in report.trials]
    reference = reference_of(report)
    seen = dict.fromkeys(cell.mark for row in rows for cell in row if cell.mark)
    meanings = dict.fromkeys(_MEANINGS[mark].format(reference=reference, family=family_of(report)) for mark in seen)
    below = "below each mean: 95 % interval over queries, BCa bootstrap, exact of 0/1 values"
    lines = [below, *legend_of_depths(report), *meanings]
    columns = [
        Column("backend", numeric=False),
        *(Column(f"{name}{CUT_SHORT}" if cut_short(report, name) else name) for name in metrics),
        Column("answered", help="judged queries with at least one hit"),
    ]
    return Table("Mean over queries", columns, rows, lines)


def _row(report: Result, one: TrialResult, metrics: list[str]) -> list[Cell]:
    below = "reference" if one.label == reference_of(report) and len(report.trials) > 1 else ""
    answered = f"{one.queries.answered:,}" if one.queries is not None else "–"
    return [Cell(one.label, below=below), *(_mean(report, one, metric) for metric in metrics), Cell(answered)]


def _mean(report: Result, one: TrialResult, metric: str) -> Cell:
    value = one.metrics.get(metric)
    if value is None:
        return Cell("failed" if one.status == "failed" else "–")
    row = against_reference(report, one.label, metric)
    mark = mark_of(row) if row is not None else ""
    interval = (
        f"{value.ci_low:.3f} – {value.ci_high:.3f}" if value.ci_low is not None and value.ci_high is not None else ""
    )
    return Cell(f"{value.mean:.4f}", mark, interval, _TONES.get(mark, "plain"))


def text_tables(report: Result) -> list[Block]:
    """The tables that every textual format prints, with their legend below the last."""
    made = tables(report)
    return [page_table(one, legend(report) if one is made[-1] else []) for one in made]


def provenance(report: Result) -> list[Block]:
    """Versions, parameters, machine, commit and content of the data."""
    dataset = report.dataset
    data = {"SHA-256 of documents, queries and judgments": dataset.sha256, **dataset.provenance}
    backends: list[Block] = [Facts(f"Backend {one.label}", _backend(one)) for one in report.trials]
    return [
        made_by(report.harness, report.machine, report.created),
        Facts(f"Dataset {dataset.name}", list(data.items())),
        *backends,
        Facts("Settings", flat_rows(report.plan.resolved)),
        Facts("Packages", list(report.packages.items())),
    ]


def _backend(one: TrialResult) -> list[tuple[str, str]]:
    engine = {"engine": f"{one.engine.name} {one.engine.version}, {one.engine.mode}"} if one.engine is not None else {}
    return flat_rows({**engine, "measured": one.measured, **one.parameters, **one.encoder})
