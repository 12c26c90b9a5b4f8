"""The blocks of a page that holds one result against an earlier one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from harness.pipeline.regress.compare_sides import Compared
from harness.report.document import Block, Cell, Column, Facts, Figure, Notes, Table, Tone, Verdict
from harness.report.figures import Differences
from harness.report.html.parts import flat_rows, made_by, page_table
from harness.report.html.regression_explorer import paired_values
from harness.report.regression_tables import (
    both_values,
    cost_table,
    invalid_because,
    probability,
    setting_table,
    signed,
)
from harness.results.regression_schema import (
    BackendChange,
    Dossier,
    MetricJudgement,
    RegressionReport,
    SideInfo,
)
from harness.wording import counted

__all__ = [
    "cost_blocks",
    "difference_pictures",
    "label_tables",
    "provenance",
    "setting_blocks",
    "subtitle",
    "verdict_table",
    "verdicts",
]

_DRAWN = 6
_NAMED = 4
_TO_LABEL = 25
_MARKS: dict[str, tuple[str, Tone]] = {
    "better": ("▲", "good"),
    "worse": ("▼", "bad"),
    "same": ("=", "plain"),
    "undecided": ("~", "plain"),
}


def subtitle(report: RegressionReport) -> str:
    """What was held against what."""
    data = report.data
    return f"{report.before.source} → {report.after.source} · {counted(data.common_queries, 'common query')}"


def verdicts(report: RegressionReport) -> list[Verdict]:
    """The gate, what a reader must know first, then what is worse, better, and neither."""
    warnings = [Verdict("unsure", warning) for warning in report.warnings]
    errors = [Verdict("bad", f"{one.after} was not judged", one.error) for one in report.backends if one.error]
    return [_gate(report), *errors, *warnings, *_moved(report), *_still(report)]


def _judged(report: RegressionReport) -> Iterator[tuple[BackendChange, MetricJudgement]]:
    return ((one, metric) for one in report.backends for metric in one.metrics)


def _gate(report: RegressionReport) -> Verdict:
    failed = [f"{metric.metric} of {one.after}" for one, metric in _judged(report) if metric.gate == "failed"]
    gated = [metric.allowed_drop for _, metric in _judged(report) if metric.allowed_drop is not None]
    drops = ", ".join(f"{drop:g}" for drop in sorted(set(gated)))
    changed = _changed(report)
    if report.gate == "failed":
        return Verdict("bad", f"Failed: worse beyond the allowed drop ({drops}): {', '.join(failed)}", changed)
    if report.gate == "invalid":
        return Verdict("unsure", f"Invalid: {invalid_because(report)}", changed)
    if report.gate == "passed":
        return Verdict("good", f"Passed: nothing is worse beyond the allowed drop ({drops})", changed)
    return Verdict("plain", "Compared, without a gate (--max-drop makes one)", changed)


def _changed(report: RegressionReport) -> str:
    """The settings of backends that changed, in a line."""
    told = [one for one in report.settings if one.section in ("parameters", "engine", "encoder")]
    said = [f"{one.setting} {' → '.join(both_values(one))} ({one.backend})" for one in told[:_NAMED]]
    more = [f"{len(told) - _NAMED} more below"] if len(told) > _NAMED else []
    return f"Changed: {', '.join([*said, *more])}" if said else ""


def _moved(report: RegressionReport) -> list[Verdict]:
    """What is worse, then what is better."""
    lines = []
    for verdict in ("worse", "better"):
        tone = _MARKS[verdict][1]
        for one, metric in _judged(report):
            if metric.verdict == verdict:
                headline = f"{one.after} is {verdict} on {metric.metric}: {signed(metric.difference)}"
                lines.append(Verdict(tone, headline, _evidence(metric)))
    return lines


def _evidence(metric: MetricJudgement) -> str:
    interval = f"95 % interval {_interval(metric.ci_low, metric.ci_high)}; " if metric.ci_low is not None else ""
    gate = f", of the gate {probability(metric.gate_p)}" if metric.gate is not None else ""
    return (
        f"{metric.before:.4f} → {metric.after:.4f}; {interval}p {probability(metric.p_adjusted)}{gate}; "
        f"queries: {metric.wins:,} better, {metric.ties:,} tied, {metric.losses:,} worse"
    )


def _still(report: RegressionReport) -> list[Verdict]:
    """What is the same, and what these queries cannot decide."""
    lines = []
    same = [f"{metric.metric} of {one.after}" for one, metric in _judged(report) if metric.verdict == "same"]
    if same:
        lines.append(Verdict("good", f"The same: {_list(same)}"))
    unsure = [(one, metric) for one, metric in _judged(report) if metric.verdict == "undecided"]
    if unsure:
        named = _list([f"{metric.metric} of {one.after}" for one, metric in unsure])
        detail = "; ".join(
            f"{metric.metric} {signed(metric.difference)}, shows from {metric.detectable:.4f}"
            for _, metric in unsure[:_NAMED]
            if metric.detectable is not None
        )
        lines.append(Verdict("unsure", f"Undecided: {named}", detail))
    return lines


def _list(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _interval(low: float | None, high: float | None, digits: int = 4) -> str:
    if low is None or high is None or low == high == 0:
        return ""
    return f"{low:+.{digits}f} – {high:+.{digits}f}".replace("-", "−")


def setting_blocks(report: RegressionReport) -> list[Block]:
    """Every resolved setting that differs."""
    table = setting_table(report)
    return (
        [replace(page_table(table), title="Resolved settings")]
        if table.rows
        else [Notes(["no resolved setting differs"])]
    )


def verdict_table(report: RegressionReport) -> list[Block]:
    """Backends by metrics: both means, difference with interval, what the test says, and the verdict."""
    rows = []
    for one in report.backends:
        rows += [_verdict(one, metric) for metric in one.metrics]
        if one.status == "failed":
            rows.append([_label(one), Cell("–"), Cell("failed", "✕", tone="bad"), *[Cell("–")] * 8])
    columns = [
        Column("backend", numeric=False),
        Column("metric", numeric=False),
        Column("verdict", numeric=False),
        Column("gate", numeric=False, help="below it the allowed drop and the p of a loss of at most that"),
        Column("before"),
        Column("after"),
        Column("difference", help="after minus before; below it the 95 % BCa bootstrap interval"),
        Column("p", help="two-sided paired test, after Holm over the rows in which a query differs"),
        Column("effect", help="Cohen's d of the differences query by query"),
        Column("W / T / L", help="queries that are better, tied and worse"),
        Column("shows from", help="smallest difference that so many queries show with power 0.8"),
    ]
    legend = [
        "▲ ▼ better or worse; = equal on every query, or proven within the margin; ~ undecided",
        "below each difference: its 95 % BCa bootstrap interval",
    ]
    return [Table("Every backend and metric", columns, rows, legend)] if rows else []


def _verdict(one: BackendChange, metric: MetricJudgement) -> list[Cell]:
    mark, tone = _MARKS[metric.verdict]
    gate = Cell("–")
    if metric.gate is not None and metric.allowed_drop is not None:
        below = f"drop {metric.allowed_drop:g}, p {probability(metric.gate_p)}"
        failed = metric.gate == "failed"
        gate = Cell(metric.gate, "✕" if failed else "✓", below, "bad" if failed else "plain")
    return [
        _label(one),
        Cell(metric.metric),
        Cell(metric.verdict, mark, tone=tone),
        gate,
        Cell(f"{metric.before:.4f}"),
        Cell(f"{metric.after:.4f}"),
        Cell(signed(metric.difference), below=_interval(metric.ci_low, metric.ci_high)),
        Cell(probability(metric.p_adjusted)),
        Cell(signed(metric.effect, 2)),
        Cell(f"{metric.wins:,} / {metric.ties:,} / {metric.losses:,}"),
        Cell(f"{metric.detectable:.4f}" if metric.detectable is not None else "–", below=_queries_needed(metric)),
    ]


def _label(one: BackendChange) -> Cell:
    return Cell(one.after, below="" if one.before == one.after else f"was {one.before}")


def _queries_needed(metric: MetricJudgement) -> str:
    return f"{metric.queries_needed:,} would decide" if metric.queries_needed is not None else ""


def difference_pictures(compared: Compared | None) -> list[Block]:
    """After minus before, query by query, of the first metrics in which any query changed."""
    if compared is None:
        return []
    made: list[Block] = []
    moved = [(one, metric) for one, metric in _judged(compared.report) if metric.wins + metric.losses]
    for one, metric in moved[:_DRAWN]:
        found = paired_values(compared, one.before, one.after, metric.metric)
        title = f"{metric.metric} of {one.after}, after minus before"
        note = "Query by query, sorted from the greatest loss to the greatest gain."
        made.append(Figure(title, Differences("after", "before", f"{metric.metric} of {one.after}", found), note))
    return made


def cost_blocks(report: RegressionReport) -> list[Block]:
    """Costs on both sides; ``x`` where they cannot be compared, with the reason below."""
    table = cost_table(report)
    reasons = dict.fromkeys(cost.reason for one in report.backends for cost in one.costs if cost.reason is not None)
    lines = [f"x: not comparable: {reason}" for reason in reasons]
    return [replace(page_table(table, lines), title="Time, memory and size")] if table.rows else []


def label_tables(report: RegressionReport) -> list[Block]:
    """Unjudged documents of either side, those first whose label could move the verdict most."""
    return [
        _to_label(one.after, one.dossier) for one in report.backends if one.dossier is not None and one.dossier.to_label
    ]


def _to_label(label: str, dossier: Dossier) -> Table:
    columns = [
        Column("query", numeric=False),
        Column("document", numeric=False),
        Column("rank before"),
        Column("rank after"),
        Column("moves the difference by", help="of its query in the first metric, if it were relevant"),
    ]
    rows = [
        [Cell(one.query), Cell(one.document), _rank(one.rank_before), _rank(one.rank_after), Cell(signed(one.swing))]
        for one in dossier.to_label[:_TO_LABEL]
    ]
    lines = ["to-label.jsonl holds them all, to fill in and give back with --labels"]
    return Table(f"{label}: {len(rows):,} of {len(dossier.to_label):,}", columns, rows, lines)


def _rank(rank: int | None) -> Cell:
    return Cell("–" if rank is None else str(rank))


def provenance(report: RegressionReport) -> list[Block]:
    """Both sides: versions, machine, data, and the command that made each."""
    made: list[Block] = []
    for title, side in (("Before", report.before), ("After", report.after)):
        made.append(made_by(side.harness, side.machine, side.created, f"{title}: made by", unfolded=title == "After"))
        made.append(Facts(f"{title}: data", _data(side)))
    return made


def _data(side: SideInfo) -> list[tuple[str, str]]:
    kept = "all" if side.documents_kept is None else f"the first {side.documents_kept} of each query"
    return flat_rows(
        {
            "dataset": side.dataset.name,
            "SHA-256 of documents, queries and judgments": side.dataset.sha256,
            "documents kept of each ranking": kept,
            "backends": side.backends,
            **side.dataset.provenance,
        }
    )
