"""Tabulate the questions of a check on which backends differ from the reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from harness.document.cells import ABSENT, number, text
from harness.document.model import Cell, Column, Table
from harness.metrics import improvement
from harness.report.documents.verdicts import compared_name, reference_of
from harness.results.schema import Result, TrialResult
from harness.stats.intervals import paired_differences
from harness.wording import counted, short_ids

_IN_SHORT = 5
_LONGEST = 60
_WON, _LOST = "↑", "↓"
"""Not the signs of significant differences: these are about one question."""


def won_and_lost(report: Result) -> list[Table]:
    """Tabulate the questions on which a backend is better than the reference, then those on which one is worse.

    The largest change comes first. Columns are the values of all backends on the first metric on which any question
    differs. No tables without such a metric, or if every pair is compared: no backend is the reference then.
    """
    differing = {row.metric for row in report.differences if row.wins + row.losses}
    metric = next((name for trial in report.trials for name in trial.metrics if name in differing), None)
    if metric is None or not isinstance(report.plan.resolved.get("reference"), str):
        return []
    reference = str(reference_of(report, None))
    trials = {compared_name(report, trial): trial for trial in report.trials if trial.status == "ok"}
    values = {name: _values(trial, metric) for name, trial in trials.items()}
    compared = [name for name in values if name != reference]
    common = [question for question in values[reference] if all(question in values[name] for name in compared)]
    before = [values[reference][question] for question in common]
    moved = [paired_differences(before, [values[name][question] for question in common]) for name in compared]
    changes = {
        question: [improvement(metric, float(difference[row])) for difference in moved]
        for row, question in enumerate(common)
    }
    texts = {question.id: question.question for question in trials[reference].questions}
    names = short_ids(question for question in common if any(changes[question]))
    columns = [
        Column("question", numeric=False),
        Column("text", numeric=False, priority=len(compared) + 1),
        Column(reference),
        *(Column(name, priority=position) for position, name in enumerate(compared)),
    ]
    legend = [f"{_WON} better than {reference} on this question, {_LOST} worse"]
    tables = []
    for word, sign in (("won", 1), ("lost", -1)):
        sizes = {question: max(sign * change for change in changes[question]) for question in common}
        questions = sorted((name for name in common if sizes[name] > 0), key=lambda name: -sizes[name])
        rows = [
            [
                text(names[question]),
                text(_shortened(texts[question])),
                number(values[reference][question]),
                *map(_cell, [values[name][question] for name in compared], changes[question]),
            ]
            for question in questions
        ]
        title = f"{metric}: {counted(len(questions), 'question')} {word} against {reference}"
        tables += [Table(title, columns, rows, legend, most=_IN_SHORT)] if rows else []
    return tables


def _values(trial: TrialResult, metric: str) -> Mapping[str, float]:
    return {question.id: question.values[metric] for question in trial.questions if metric in question.values}


def _cell(value: float, change: float) -> Cell:
    if change == 0:
        return number(value)
    won = change > 0
    return replace(number(value), mark=_WON if won else _LOST, tone="good" if won else "bad")


def _shortened(question: str | None) -> str:
    if question is None:
        return ABSENT
    return question if len(question) <= _LONGEST else f"{question[:_LONGEST]} …"
