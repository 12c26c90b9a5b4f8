"""Build the documents of ``harness eval``: the scores of runs, and the audit of one run under other conventions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from harness.data.problems import Finding
from harness.document.cells import ABSENT, join_names, number, text, tie_range
from harness.document.model import Cell, Column, Document, Facts, Section, Table, Value, Verdict
from harness.metrics import Scores, Summary, TieRule, undecided_by_ties
from harness.metrics.audit import Audit, Change, Difference, Example, Match, PublishedMatch
from harness.metrics.conventions import CONVENTIONS, HARNESS
from harness.metrics.registry import kind_of
from harness.wording import counted, short_ids, shortened

_UNDECIDED = "~"
_DIFFERS = "*"
_TIE_RULES = {
    TieRule.TREC_EVAL: "score descending as float32, then document id descending",
    TieRule.TREC_EVAL_10: "score descending as float64, then document id descending",
    TieRule.ENGINE: "the engine's order",
    TieRule.AVERAGE: "mean over all orders of equal scores",
}
_SAME = 1e-9
"""Means that differ by less are shown as equal: a query that counts in only one of them may not change a mean."""
_NOT_COMPUTED = (
    f"{ABSENT} not computed by that tool; BEIR, MTEB and sentence-transformers take metrics at a rank only (AP@100)"
)


class NamedScores(NamedTuple):
    """Scores of one run, with its displayed name, the run's tag, and its pitfalls."""

    name: str
    tag: str
    scores: Scores
    findings: tuple[Finding, ...] = ()

    @property
    def findings_with_run(self) -> list[Finding]:
        """The pitfalls, with the name of the run in their messages."""
        return [finding._replace(message=f"{self.name}: {finding.message}") for finding in self.findings]


def scores_document(
    runs: Sequence[NamedScores], judgments: str, *, per_query: bool = False, findings: Sequence[Finding] = ()
) -> Document:
    """Return everything that is shown of the scores of runs, all with the same metrics.

    Args:
        runs: One or more; each makes a row.
        judgments: The name of the judgments used for scoring.
        per_query: Show every query's values too.
        findings: Pitfalls of the metrics; the runs' pitfalls are shown as well.
    """
    ties = runs[0].scores.ties
    names = join_names([shortened(run.name) for run in runs])
    warnings = [*findings, *(finding for run in runs for finding in run.findings_with_run)]
    return Document(
        title=f"{names} against {shortened(judgments)}",
        subtitle="\n".join([*map(counts_line, runs), f"ties: {ties_line(ties)}"]),
        verdicts=[_warning(finding) for finding in warnings],
        sections=[Section("scores", "Scores", [_means(runs), *(map(_queries, runs) if per_query else ())])],
        kind="eval",
        name=names,
        values=[value for run in runs for value in _values(run, judgments)],
    )


def ties_line(ties: TieRule) -> str:
    """Return the name of a tie rule, and its effect."""
    return f"{ties} ({_TIE_RULES[ties]})"


def counts_line(run: NamedScores) -> str:
    """Return how many queries there are, and over which of them was averaged."""
    counts = run.scores.counts
    judged = f"{counted(counts.judged, 'query')} judged, {counts.relevant:,} with a relevant document"
    averaged = f"averaged over {counts.evaluated:,} ({run.scores.queries})"
    text = f"{shortened(run.name)}: {judged}, {counts.answered:,} answered; {averaged}"
    return f"{text}; {counted(counts.unjudged, 'query')} of the run left out, not judged" if counts.unjudged else text


def _warning(finding: Finding) -> Verdict:
    cases = f"{'; '.join(finding.examples)}; " if finding.examples else ""
    return Verdict("unsure", finding.message, f"{cases}{finding.fix} ({finding.check})")


def _means(runs: Sequence[NamedScores]) -> Table:
    """Tabulate each metric over all queries, one row a run."""
    means = {run.name: run.scores.means() for run in runs}
    rows = []
    for name, summaries in means.items():
        other_means = [other for run, other in means.items() if run != name]
        cells = [_cell(summary, [other[column] for other in other_means]) for column, summary in enumerate(summaries)]
        rows.append([text(name), *cells])
    marked = any(cell.mark for row in rows for cell in row)
    legend = [f"{_UNDECIDED} the difference to another run lies within what ties allow"] if marked else []
    return Table("Scores", _columns("run", runs[0].scores), rows, legend)


def _queries(run: NamedScores) -> Table:
    """Tabulate each metric for every query of a run."""
    scores = list(run.scores.per_query())
    short = short_ids(query for query, _ in scores)
    rows = [[text(short[query]), *map(_cell, summaries)] for query, summaries in scores]
    columns = [replace(column, best=None) for column in _columns("query", run.scores)]
    return Table(f"Queries of {shortened(run.name)}", columns, rows)


def _columns(first: str, scores: Scores) -> list[Column]:
    metrics = [
        Column(str(metric), best=None if kind_of(metric.name).aggregate == "sum" else "highest")
        for metric in scores.measures
    ]
    return [Column(first, numeric=False), *metrics]


def _cell(summary: Summary, other_summaries: Iterable[Summary] = ()) -> Cell:
    """Return a value with the range that ties leave it, marked if that range meets another run's."""
    if kind_of(summary.measure.name).aggregate == "sum":
        return number(summary.value, ".0f")
    if math.isnan(summary.value):
        return text(ABSENT)
    mark = _UNDECIDED if any(undecided_by_ties(summary, other) for other in other_summaries) else ""
    return replace(number(summary.value, ties=tie_range(summary.low, summary.high)), mark=mark)


def _values(run: NamedScores, judgments: str) -> Iterator[Value]:
    evaluated = run.scores.counts.evaluated
    for summary in run.scores.means():
        mean = _finite(summary.value)
        yield Value(judgments, run.name, str(summary.measure), mean, n=evaluated)
        if not math.isnan(summary.low):
            yield Value(judgments, run.name, f"ties.{summary.measure}", mean, summary.low, summary.high, evaluated)


def audit_document(name: str, judgments: str, audit: Audit) -> Document:
    """Return everything that is shown of the audit of the run of that name."""
    published, differences = [], [_lines(_heading(group), _explained(group[0])) for group in _groups(audit)]
    if audit.published is not None:
        published.append(_lines(f"{audit.published.text} is given by", _matches(audit.published)))
    if idle := _idle(audit):
        differences.append(_lines("Differs too, without effect on this run", idle))
    return Document(
        title=f"{shortened(name)} under the conventions of {len(CONVENTIONS)} tools",
        subtitle=f"harness: the value of harness eval; compared with {shortened(judgments)}",
        sections=[
            Section("published", "Published", published),
            Section("scores", "Scores", [_tool_table(audit)]),
            Section("differences", "Differences", differences),
        ],
        kind="eval",
        name=shortened(name),
        values=list(_audited_values(name, judgments, audit)),
    )


def _lines(heading: str, lines: Iterable[str]) -> Facts:
    return Facts(heading, [("", line) for line in lines], open=True)


def _tool_table(audit: Audit) -> Table:
    """Tabulate the values, one row a tool: five metrics fit 80 columns so."""
    differing = [difference for difference in audit.differences if difference.causes and not _same_mean(difference)]
    moved = {(difference.measure, difference.convention) for difference in differing}
    rows = []
    for name in (HARNESS.name, *(convention.name for convention in CONVENTIONS)):
        values = {metric: audit.values[metric][name] for metric in audit.measures}
        cells = [
            Cell(_number(value), _DIFFERS if (metric, name) in moved else "", value=_finite(value))
            for metric, value in values.items()
        ]
        rows.append([text(name), *cells])
    printed_cells = [cell for row in rows for cell in row]
    differs = any(cell.mark for cell in printed_cells)
    legend = [f"{_DIFFERS} differs from harness" if differs else "no value differs from harness"]
    legend += [_NOT_COMPUTED] if any(cell.text == ABSENT for cell in printed_cells) else []
    return Table("Scores", [Column("tool", numeric=False), *map(Column, map(str, audit.measures))], rows, legend)


def _finite(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value


def _audited_values(name: str, judgments: str, audit: Audit) -> Iterator[Value]:
    """Yield each metric's value under each convention, its difference, and the conventions of a published number."""
    for measure in audit.measures:
        for convention, value in audit.values[measure].items():
            yield Value(judgments, name, f"{measure} as {convention}", _finite(value))
    for difference in audit.differences:
        metric = f"difference.{difference.measure} as {difference.convention}"
        yield Value(judgments, name, metric, difference.other_value - difference.harness_value)
    for match in () if audit.published is None else audit.published.matches:
        yield Value(judgments, name, f"published.{_match_name(match)}", match.value)


def _number(value: float | None) -> str:
    return ABSENT if value is None or math.isnan(value) else f"{value:.4f}"


def _groups(audit: Audit) -> Iterator[list[Difference]]:
    """Return differences with an effect; those of one measure with the same value and causes together."""
    groups: dict[Any, list[Difference]] = {}
    for difference in audit.differences:
        if difference.causes:
            groups.setdefault((difference.measure, difference.other_value, difference.causes), []).append(difference)
    yield from groups.values()


def _heading(group: Sequence[Difference]) -> str:
    first = group[0]
    tools = f"{first.measure}, {', '.join(difference.convention for difference in group)}"
    if _same_mean(first):
        return f"{tools}: the same mean, {_number(first.harness_value)}, of other values"
    theirs, ours = _number(first.other_value), _number(first.harness_value)
    if theirs == ours:
        theirs, ours = f"{first.other_value:.8f}", f"{first.harness_value:.8f}"
    return f"{tools}: {theirs} instead of {ours}"


def _same_mean(difference: Difference) -> bool:
    """Return whether both conventions have one mean, if of different queries or values."""
    theirs, ours = difference.other_value, difference.harness_value
    return theirs == ours or (theirs is not None and ours is not None and abs(theirs - ours) < _SAME)


def _explained(difference: Difference) -> Iterator[str]:
    """Yield a line for each change of each cause, with its separate effect if only several together are a cause."""
    separate = dict(difference.alone)
    for cause in difference.causes:
        for position, change in enumerate(cause):
            word = "and" if position else "because" if cause is difference.causes[0] else "or"
            by_itself = f"; alone {_number(separate[change])}" if change in separate else ""
            yield f"{word} of {change.aspect}: {change.other_value} (harness: {change.harness_value}{by_itself})"
    yield from map(_example, difference.examples)


def _example(example: Example) -> str:
    def format_value(value: float | None) -> str:
        return "not counted" if value is None else _number(value)

    values = f"{format_value(example.other_value)} instead of {format_value(example.harness_value)}"
    text = f"query {shortened(example.query)}: {values}"
    if example.harness_rank == example.other_rank:
        return text
    theirs, ours = (ABSENT if rank is None else str(rank) for rank in (example.other_rank, example.harness_rank))
    return f"{text}; first relevant document at rank {theirs} instead of {ours}"


def _idle(audit: Audit) -> list[str]:
    """Differing choices that changed no value of any measure, with the tools that make them."""
    used = {
        (difference.convention, change)
        for difference in audit.differences
        for cause in difference.causes
        for change in cause
    }
    tools: dict[Change, list[str]] = {}
    for difference in audit.differences:
        for change in difference.without_effect:
            names = tools.setdefault(change, [])
            if (difference.convention, change) not in used and difference.convention not in names:
                names.append(difference.convention)
    return [
        f"{change.aspect}: {change.other_value} (harness: {change.harness_value}) in {', '.join(names)}"
        for change, names in tools.items()
        if names
    ]


def _matches(published: PublishedMatch) -> list[str]:
    if published.matches:
        return [_match(match) for match in published.matches]
    if published.nearest is None:
        return ["nothing: no query counts"]
    return [f"no convention and no single change of a convention; the nearest is {_match(published.nearest)}"]


def _match(match: Match) -> str:
    return f"{_match_name(match)} ({match.value:.6f})"


def _match_name(match: Match) -> str:
    changed = "" if match.change is None else f", but {match.change.aspect}: {match.change.other_value}"
    return f"{match.measure} as {match.convention}{changed}"
