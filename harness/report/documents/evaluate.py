"""Build the documents of ``harness eval``: scores of runs with their differences, and the audit of one run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.data.problems import Finding
from harness.document.cells import ABSENT, HUMAN, human_cell, join_names, number, text, tie_range
from harness.document.model import Cell, Column, Document, Facts, Section, Table, Value, Verdict
from harness.metrics import Scores, Summary, TieRule, undecided_by_ties
from harness.metrics.audit import Audit, Change, Difference, Example, Match, PublishedMatch
from harness.metrics.conventions import CONVENTIONS, HARNESS
from harness.metrics.registry import kind_of
from harness.metrics.scores import defined
from harness.report.documents.quality import (
    TIED,
    UnjudgedRow,
    best_value,
    difference_table,
    difference_values,
    mark_of,
    meanings,
    unjudged_tables,
)
from harness.report.documents.verdicts import best_verdicts
from harness.wording import counted, model_labels_in_words, short_ids, shortened

if TYPE_CHECKING:
    from harness.pipeline.evaluated_runs import EvaluatedRuns

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


def scores_document(evaluated: EvaluatedRuns, *, per_query: bool = False) -> Document:
    """Return everything that is shown of the scores of runs, and of the differences between them.

    ``per_query`` adds every query's values.
    """
    runs, judgments = evaluated.runs, evaluated.judgments
    ties = next(iter(runs.values())).ties
    names = join_names([shortened(name) for name in runs])
    counts = [counts_line(name, scores) for name, scores in runs.items()]
    tables = [_means(evaluated), *_unjudged(runs), *_differences(evaluated)]
    tables += [_queries(name, scores) for name, scores in runs.items()] if per_query else []
    return Document(
        title=f"{names} against {shortened(judgments)}",
        subtitle="\n".join([*counts, f"ties: {ties_line(ties)}", *_label_lines(evaluated)]),
        verdicts=[*_answer(evaluated), *(_warning(finding) for finding in findings_of(evaluated))],
        sections=[Section("scores", "Scores", tables)],
        kind="eval",
        name=names,
        values=list(_values(evaluated)),
    )


def findings_of(evaluated: EvaluatedRuns) -> list[Finding]:
    """Return the pitfalls of the metrics, which all runs share, then those of each run, with its name."""
    runs = evaluated.runs
    return [
        *next(iter(runs.values())).metric_findings,
        *(
            finding._replace(message=f"{name}: {finding.message}")
            for name, scores in runs.items()
            for finding in scores.run_findings
        ),
    ]


def ties_line(ties: TieRule) -> str:
    """Return the name of a tie rule, and its effect."""
    return f"{ties} ({_TIE_RULES[ties]})"


def counts_line(name: str, scores: Scores) -> str:
    """Return how many queries of a run there are, and over which of them was averaged."""
    counts = scores.counts
    judged = f"{counted(counts.judged, 'query')} judged, {counts.relevant:,} with a relevant document"
    averaged = f"averaged over {counts.evaluated:,} ({scores.queries})"
    text = f"{shortened(name)}: {judged}, {counts.answered:,} answered; {averaged}"
    return f"{text}; {counted(counts.unjudged, 'query')} of the run left out, not judged" if counts.unjudged else text


def _answer(evaluated: EvaluatedRuns) -> list[Verdict]:
    """Return which run is best on the first metric; nothing for a single run.

    If every pair is compared, the runs are compared with the first one here, as backends of a comparison are.
    """
    tests = evaluated.tests
    if not tests:
        return []
    metric, reference = tests[0].metric, evaluated.reference or next(iter(evaluated.runs))
    rows = [row for row in tests if (row.a, row.metric) == (reference, metric)]
    means = [
        summary.value
        for summaries in evaluated.means().values()
        for summary in summaries
        if str(summary.measure) == metric
    ]
    return best_verdicts(rows, tests, means)


def _warning(finding: Finding) -> Verdict:
    cases = f"{'; '.join(finding.examples)}; " if finding.examples else ""
    return Verdict("unsure", finding.message, f"{cases}{finding.fix} ({finding.check})")


def _means(evaluated: EvaluatedRuns) -> Table:
    """Tabulate each metric over all queries, one row a run, marked by its difference from the reference."""
    tested = {(row.b, row.metric): row for row in evaluated.tests} if evaluated.reference is not None else {}
    means = {name: scores.means() for name, scores in evaluated.runs.items()}
    rows = []
    for name, summaries in means.items():
        other_means = {run: other for run, other in means.items() if run != name}
        cells = []
        for column, summary in enumerate(summaries):
            row = tested.get((name, str(summary.measure)))
            rivals = [other[column] for run, other in other_means.items() if row is None or run != evaluated.reference]
            cells.append(_cell(summary, rivals, mark_of(row) if row is not None else ""))
            human, queries = evaluated.runs[name].human_mean(column)
            cells += [] if queries is None else [human_cell(human, queries, evaluated.runs[name].counts.evaluated)]
        rows.append([text(name), *cells])
    marks = {mark for row in rows for cell in row for mark in cell.mark}
    legend = list(meanings(evaluated.tests, marks, f"than {evaluated.reference}"))
    scores = next(iter(evaluated.runs.values()))
    columns = _columns("run", scores)
    if scores.human is not None:
        columns[1:] = [column for of_metric in columns[1:] for column in (of_metric, HUMAN)]
    return Table("Scores", columns, rows, legend)


def _label_lines(evaluated: EvaluatedRuns) -> list[str]:
    """Return a line on the labels by models among the judgments, if there are any."""
    qrels = next(iter(evaluated.runs.values())).judged.qrels
    labels = len(qrels) - len(qrels.by_people)
    return [model_labels_in_words(labels, len(qrels), qrels.models)] if labels else []


def _differences(evaluated: EvaluatedRuns) -> list[Table]:
    """Tabulate the paired test of each metric, of each run and the reference, or of each pair."""
    reference, rows = evaluated.reference, evaluated.tests
    if not rows:
        return []
    than = f"than {reference}" if reference is not None else "than the one after the minus sign"
    title = f"Differences from {shortened(reference)}" if reference is not None else "Differences between runs"
    return [difference_table(title, "run", rows, than, [row.b if reference else f"{row.b} − {row.a}" for row in rows])]


def _unjudged(runs: Mapping[str, Scores]) -> list[Table]:
    """Tabulate the means if every unjudged hit were irrelevant, or relevant; nothing if that was not computed."""
    rows = [
        UnjudgedRow(
            [text(name)],
            {str(each.measure): each.value for each in scores.means()},
            {str(measure): value for measure, value in scores.means_if_relevant().items()},
        )
        for name, scores in runs.items()
    ]
    return unjudged_tables([Column("run", numeric=False)], rows)


def _queries(name: str, scores: Scores) -> Table:
    """Tabulate each metric for every query of a run."""
    values = list(scores.per_query())
    short = short_ids(query for query, _ in values)
    rows = [[text(short[query]), *map(_cell, summaries)] for query, summaries in values]
    columns = [replace(column, best=None) for column in _columns("query", scores)]
    return Table(f"Queries of {shortened(name)}", columns, rows)


def _columns(first: str, scores: Scores) -> list[Column]:
    metrics = [Column(str(metric), best=best_value(str(metric))) for metric in scores.measures]
    return [Column(first, numeric=False), *metrics]


def _cell(summary: Summary, other_summaries: Iterable[Summary] = (), mark: str = "") -> Cell:
    """Return a value with the range that ties leave it; it is also marked if that range meets another run's."""
    if kind_of(summary.measure.name).aggregate == "sum":
        return number(summary.value, ".0f")
    if math.isnan(summary.value):
        return text(ABSENT)
    if TIED not in mark and any(undecided_by_ties(summary, other) for other in other_summaries):
        mark += TIED
    return replace(number(summary.value, ties=tie_range(summary.low, summary.high)), mark=mark)


def _values(evaluated: EvaluatedRuns) -> Iterator[Value]:
    judgments = evaluated.judgments
    for name, scores in evaluated.runs.items():
        for summary in scores.means():
            mean, queries = defined(summary.value), scores.counts.evaluated
            yield Value(judgments, name, str(summary.measure), mean, n=queries)
            if not math.isnan(summary.low):
                yield Value(judgments, name, f"ties.{summary.measure}", mean, summary.low, summary.high, queries)
        for column, measure in enumerate(scores.measures):
            human, of_people = scores.human_mean(column)
            if of_people is not None:
                yield Value(judgments, name, f"human.{measure}", human, n=of_people)
        for measure, value in scores.means_if_relevant().items():
            yield Value(judgments, name, f"if_unjudged_relevant.{measure}", value, n=scores.counts.evaluated)
    for row in evaluated.tests:
        yield from difference_values(row, judgments)


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
            Cell(_number(value), _DIFFERS if (metric, name) in moved else "", value=defined(value))
            for metric, value in values.items()
        ]
        rows.append([text(name), *cells])
    printed_cells = [cell for row in rows for cell in row]
    differs = any(cell.mark for cell in printed_cells)
    legend = [f"{_DIFFERS} differs from harness" if differs else "no value differs from harness"]
    legend += [_NOT_COMPUTED] if any(cell.text == ABSENT for cell in printed_cells) else []
    return Table("Scores", [Column("tool", numeric=False), *map(Column, map(str, audit.measures))], rows, legend)


def _audited_values(name: str, judgments: str, audit: Audit) -> Iterator[Value]:
    """Yield each metric's value under each convention, its difference, and the conventions of a published number."""
    for measure in audit.measures:
        for convention, value in audit.values[measure].items():
            yield Value(judgments, name, f"{measure} as {convention}", defined(value))
    for difference in audit.differences:
        metric = f"difference.{difference.measure} as {difference.convention}"
        yield Value(judgments, name, metric, difference.other_value - difference.harness_value)
    for match in () if audit.published is None else audit.published.matches:
        yield Value(judgments, name, f"published.{_match_name(match)}", match.value)


def _number(value: float | None) -> str:
    return ABSENT if defined(value) is None else f"{value:.4f}"


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
