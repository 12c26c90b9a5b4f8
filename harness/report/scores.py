"""Scores of one or more runs as text: a table, Markdown, CSV, JSON, or what trec_eval prints."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from harness.data.problems import Finding
from harness.metrics import Measure, Scores, Summary, TieRule, undecided_by_ties
from harness.metrics.registry import kind_of
from harness.metrics.trec_names import in_trec_order, trec_name
from harness.wording import shortened

__all__ = ["NamedScores", "ScoreFormat", "counts_line", "render_scores"]

_INTERVAL = "[lowest–highest]: what other orders of equal scores would give"
_UNDECIDED = "~ the difference to another run lies within what ties allow"


class ScoreFormat(StrEnum):
    """How scores are printed."""

    TABLE = "table"
    MARKDOWN = "markdown"
    CSV = "csv"
    JSON = "json"
    TREC_EVAL = "trec_eval"


class NamedScores(NamedTuple):
    """Scores of one run, with the name to show, the run's tag, and the pitfalls that were found."""

    name: str
    tag: str
    scores: Scores
    findings: tuple[Finding, ...] = ()

    @property
    def finding_lines(self) -> list[str]:
        """One line a pitfall."""
        return [str(one._replace(message=f"{self.name}: {one.message}")) for one in self.findings]


class _Row(NamedTuple):
    """One line of values; ``query`` is None for those over all queries."""

    run: str
    query: str | None
    summaries: list[Summary]


def render_scores(
    runs: Sequence[NamedScores],
    output: ScoreFormat,
    *,
    per_query: bool = False,
    relevance: int = 1,
    tagged: bool = True,
    findings: Sequence[Finding] = (),
) -> str:
    """The scores of ``runs`` (one or more, all with the same measures), without a final line break.

    ``per_query`` adds every query's values. ``relevance`` and ``tagged`` concern trec_eval's output only: the level it
    would be given, and whether it prints the run's tag. ``findings`` are pitfalls of the metrics; tables and JSON show
    them with those of the runs.
    """
    if output is ScoreFormat.TREC_EVAL:
        texts = (_trec_eval(run.scores, run.tag if tagged else None, per_query, relevance) for run in runs)
        return "\n".join(texts)
    if output is ScoreFormat.CSV:
        return _csv(runs, per_query)
    render: dict[ScoreFormat, Callable[[Sequence[NamedScores], bool, Sequence[Finding]], str]] = {
        ScoreFormat.TABLE: _table,
        ScoreFormat.MARKDOWN: _markdown,
        ScoreFormat.JSON: _json,
    }
    return render[output](runs, per_query, findings)


def counts_line(run: NamedScores) -> str:
    """How many queries there are, and over which of them was averaged."""
    counts = run.scores.counts
    noun = "query" if counts.judged == 1 else "queries"
    text = (
        f"{shortened(run.name)}: {counts.judged} {noun} judged, {counts.relevant} with a relevant document, "
        f"{counts.answered} answered; averaged over {counts.evaluated} ({run.scores.queries})"
    )
    return f"{text}; {counts.unjudged} of the run left out, not judged" if counts.unjudged else text


def _rows(runs: Sequence[NamedScores], per_query: bool) -> list[_Row]:
    rows: list[_Row] = []
    for run in runs:
        scores = run.scores
        if per_query:
            tables = zip(scores.query_ids, scores.values, scores.low, scores.high, strict=True)
            for query, values, low, high in tables:
                cells = zip(scores.measures, values.tolist(), low.tolist(), high.tolist(), strict=True)
                rows.append(_Row(run.name, query, [Summary(*cell) for cell in cells]))
        rows.append(_Row(run.name, None, scores.means()))
    return rows


def _cells(runs: Sequence[NamedScores], per_query: bool) -> list[list[str]]:
    """Header and rows of the table for people."""
    measures = [str(measure) for measure in runs[0].scores.measures]
    rows = _rows(runs, per_query)
    overall = [row for row in rows if row.query is None]
    lines = [["run", "query", *measures] if per_query else ["run", *measures]]
    for row in rows:
        others = [other for other in overall if other.run != row.run] if row.query is None else []
        cells = [_cell(cell, [other.summaries[at] for other in others]) for at, cell in enumerate(row.summaries)]
        name = shortened(row.run)
        lines.append([name, shortened(row.query or "all"), *cells] if per_query else [name, *cells])
    return lines


def _cell(summary: Summary, others: Iterable[Summary]) -> str:
    if kind_of(summary.measure.name).aggregate == "sum":
        return f"{summary.value:.0f}"
    text = _number(summary.value)
    if summary.matters:
        text = f"{text} [{_number(summary.low)}–{_number(summary.high)}]"
    return f"{text} ~" if any(undecided_by_ties(summary, other) for other in others) else text


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4f}"


def _footer(runs: Sequence[NamedScores], cells: Sequence[Sequence[str]], findings: Sequence[Finding]) -> list[str]:
    shown = [cell for line in cells[1:] for cell in line]
    ties = runs[0].scores.ties
    rule = {
        TieRule.TREC_EVAL: "score descending, then document id descending",
        TieRule.ENGINE: "the engine's order",
        TieRule.AVERAGE: "mean over all orders of equal scores",
    }[ties]
    legend = [f"ties: {ties} ({rule})"]
    legend += [_INTERVAL] if any("[" in cell for cell in shown) else []
    legend += [_UNDECIDED] if any(cell.endswith(" ~") for cell in shown) else []
    warnings = [*map(str, findings), *(line for run in runs for line in run.finding_lines)]
    return [*(counts_line(run) for run in runs), *legend, *warnings]


def _table(runs: Sequence[NamedScores], per_query: bool, findings: Sequence[Finding]) -> str:
    cells = _cells(runs, per_query)
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    rule = "  ".join("-" * width for width in widths)
    return "\n".join([lines[0], rule, *lines[1:], "", *_footer(runs, cells, findings)])


def _markdown(runs: Sequence[NamedScores], per_query: bool, findings: Sequence[Finding]) -> str:
    cells = _cells(runs, per_query)
    texts = 2 if per_query else 1
    rule = ["---" if column < texts else "---:" for column in range(len(cells[0]))]
    escaped = [[cell.replace("|", "\\|") for cell in line] for line in (cells[0], rule, *cells[1:])]
    lines = [f"| {' | '.join(line)} |" for line in escaped]
    return "\n".join([*lines, "", *(f"- {line}" for line in _footer(runs, cells, findings))])


def _csv(runs: Sequence[NamedScores], per_query: bool) -> str:
    """One line a value, in full precision; ``query`` is ``all`` for the value over all queries."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["run", "query", "measure", "value", "low", "high"])
    for row in _rows(runs, per_query):
        for cell in row.summaries:
            numbers = ("" if math.isnan(number) else repr(number) for number in cell[1:])
            writer.writerow([row.run, row.query or "all", str(cell.measure), *numbers])
    return buffer.getvalue().removesuffix("\n")


def _json(runs: Sequence[NamedScores], per_query: bool, findings: Sequence[Finding]) -> str:
    entries = []
    for run in runs:
        rows = _rows([run], per_query)
        entry = {
            "run": run.name,
            "ties": run.scores.ties.value,
            "queries": {"set": run.scores.queries.value, **run.scores.counts._asdict()},
            "measures": _values(rows[-1]),
            "findings": _plain_findings(run.findings),
        }
        entries.append(
            entry | ({"per_query": {str(row.query): _values(row) for row in rows[:-1]}} if per_query else {})
        )
    return json.dumps({"runs": entries, "findings": _plain_findings(findings)}, indent=2, ensure_ascii=False)


def _plain_findings(findings: Sequence[Finding]) -> list[dict[str, str | list[str]]]:
    return [
        {"check": one.check, "message": one.message, "fix": one.fix, "examples": list(one.examples)} for one in findings
    ]


def _values(row: _Row) -> dict[str, dict[str, float | None]]:
    def plain(number: float) -> float | None:
        return None if math.isnan(number) else number

    return {
        str(cell.measure): {"value": plain(cell.value), "low": plain(cell.low), "high": plain(cell.high)}
        for cell in row.summaries
    }


def _trec_eval(scores: Scores, tag: str | None, per_query: bool, relevance: int) -> str:
    """Return what trec_eval prints: with ``per_query`` (its ``-q``) queries first, by id in byte order, then all.

    Measures come in trec_eval's order and under its names; one that it lacks keeps ours. As there, ``num_q`` and
    ``gm_map`` have no line for a single query. ``tag`` is printed as ``runid`` unless it is None.
    """
    order = in_trec_order(scores.measures, relevance)
    lines: list[str] = []
    if per_query:
        ids = scores.query_ids.to_list()
        for row in sorted(range(len(ids)), key=lambda row: ids[row].encode()):
            lines += [
                _line(scores.measures[column], ids[row], float(scores.values[row, column]), relevance)
                for column in order
                if scores.measures[column].name not in ("NumQ", "gm_map")
            ]
    means = scores.means()
    lines += [f"{'runid':<22}\tall\t{tag}"] if tag is not None else []
    lines += [_line(means[column].measure, "all", means[column].value, relevance) for column in order]
    return "\n".join(lines)


def _line(measure: Measure, query: str, value: float, relevance: int) -> str:
    """Return a line of trec_eval: name padded to 22, tab, query or ``all``, tab, value with four decimals."""
    name = trec_name(measure, relevance) or str(measure)
    number = f"{value:.0f}" if kind_of(measure.name).aggregate == "sum" else f"{value:6.4f}"
    return f"{name:<22}\t{query}\t{number}"
