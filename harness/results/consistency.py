"""Contradictions within a stored result: a file that was edited, merged wrongly or made by another program."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.data.arrow import as_numpy, text_scalar
from harness.data.ranking import TieRule
from harness.data.types import Ids
from harness.errors import ResultError, UnknownNameError
from harness.metrics import parse_metric
from harness.metrics.scores import QuerySet, is_mean
from harness.results.schema import Result, TrialResult
from harness.results.schema_base import MetricValue

_TOLERANCE = 1e-9
"""Relative difference of two means of the same values, added up in another order."""


class Contradiction(NamedTuple):
    """A field of the stored JSON, and why it cannot be right."""

    field: str
    message: str


def refuse_contradictions(path: Path, report: Result) -> None:
    """Raise ResultError, with the file and the field, for a report that contradicts itself."""
    _refuse(path, _contradictions(report))


def refuse_other_values(path: Path, report: Result, values: pa.Table, judged: Mapping[str, Ids]) -> None:
    """Raise ResultError for a report whose means differ from the means of the queries' values.

    Args:
        path: the file of the values.
        report: the report with the means.
        values: a table with the columns dataset, backend, query_id, metric and value.
        judged: the queries of the stored judgments by dataset; others cannot have a value.
    """
    _refuse(path, chain(_check_query_ids(values, judged), _check_values(report, values)))


def _refuse(path: Path, contradictions: Iterator[Contradiction]) -> None:
    for field, message in contradictions:
        raise ResultError(
            f"'{path}' contradicts itself: {field}: {message}", fix="make the result again, or restore the file"
        )


def _contradictions(report: Result) -> Iterator[Contradiction]:
    needed = {"check": "golden", "regress": "change", "diff": "change"}.get(report.kind)
    if needed is not None and getattr(report, needed) is None:
        yield Contradiction("kind", f"a result of '{report.kind}' has a part '{needed}', which is missing")
    if report.kind != "check" and report.golden is not None:
        yield Contradiction("kind", f"a result of '{report.kind}' has no golden set, but this result has one")
    if report.kind != "diff":
        yield from _unreadable_settings(report)
    names = [info.name for info in report.datasets]
    yield from _repeated("datasets", names)
    yield from _repeated("backends", [info.label for info in report.backends])
    yield from _repeated("trials", [f"{trial.label} on {trial.dataset}" for trial in report.trials])
    for number, trial in enumerate(report.trials):
        if trial.dataset not in names:
            yield Contradiction(f"trials.{number}.dataset", f"'{trial.dataset}' is not among the datasets")
        yield from _check_metrics(f"trials.{number}.metrics", trial.metrics)
        yield from _check_questions(f"trials.{number}", trial)


def _unreadable_settings(report: Result) -> Iterator[Contradiction]:
    """Check the settings that are read from a stored plan; a check averages over all of its questions."""
    settings = report.plan.resolved
    for name in ("k", "relevance", "seed"):
        if type(settings.get(name)) is not int:
            yield Contradiction(f"plan.resolved.{name}", f"{settings.get(name)!r} is not an integer")
    for name, choices in (("ties", TieRule), ("queries", QuerySet)):
        if settings.get(name) not in [*choices] and (name, report.kind) != ("queries", "check"):
            yield Contradiction(
                f"plan.resolved.{name}", f"{settings.get(name)!r} is not one of {', '.join(map(str, choices))}"
            )


def _repeated(field: str, names: Sequence[str]) -> Iterator[Contradiction]:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        yield Contradiction(field, f"'{repeated[0]}' occurs {names.count(repeated[0])} times")


def _check_metrics(field: str, metrics: Mapping[str, MetricValue]) -> Iterator[Contradiction]:
    for name, value in metrics.items():
        if value.min is not None and value.max is not None:
            slack = _TOLERANCE * max(1.0, abs(value.mean))
            if not value.min - slack <= value.mean <= value.max + slack:
                yield Contradiction(
                    f"{field}.{name}", f"the mean {value.mean:g} is outside of its range [{value.min:g}, {value.max:g}]"
                )
        if value.ci_low is not None and value.ci_high is not None and value.ci_low > value.ci_high:
            yield Contradiction(f"{field}.{name}", f"the interval [{value.ci_low:g}, {value.ci_high:g}] is empty")


def _check_questions(field: str, trial: TrialResult) -> Iterator[Contradiction]:
    """Compare the means of a check with the values of its questions."""
    yield from _repeated(f"{field}.questions", [question.id for question in trial.questions])
    scored = [question for question in trial.questions if question.values]
    for name, metric in trial.metrics.items() if scored else ():
        values = [question.values[name] for question in scored if name in question.values]
        mean = float(np.mean(values)) if values else 0.0
        yield from _check_mean(f"{field}.metrics.{name}", metric, len(values), mean)


def _check_query_ids(table: pa.Table, judged: Mapping[str, Ids]) -> Iterator[Contradiction]:
    for dataset, query_ids in judged.items():
        queries = table.filter(pc.equal(table.column("dataset"), text_scalar(dataset))).column("query_id").unique()
        unknown = queries.filter(pc.invert(pc.is_in(queries, query_ids.values))).to_pylist()
        if unknown:
            yield Contradiction("query_id", f"query '{unknown[0]}' has values, and no judgment on '{dataset}'")


def _check_values(report: Result, table: pa.Table) -> Iterator[Contradiction]:
    if not len(table):  # values that were left out
        return
    by_metric = _means(table)
    for number, trial in enumerate(report.trials):
        for name, metric in trial.metrics.items():
            count, mean = by_metric.get((trial.dataset, trial.label, name), (0, 0.0))
            yield from _check_mean(f"trials.{number}.metrics.{name}", metric, count, mean)


def _means(table: pa.Table) -> dict[tuple[str, str, str], tuple[int, float]]:
    """Return the count and mean of the values of each dataset, backend and metric.

    Not by Arrow's ``group_by``, which imports pandas.
    """
    keys = [table.column(name).combine_chunks().dictionary_encode() for name in ("dataset", "backend", "metric")]
    shape = tuple(len(key.dictionary) for key in keys)
    groups = np.ravel_multi_index(tuple(as_numpy(key.indices) for key in keys), shape)
    present, rows = np.unique(groups, return_inverse=True)
    counts = np.bincount(rows)
    means = np.bincount(rows, weights=as_numpy(table.column("value"))) / counts
    names = [key.dictionary.to_pylist() for key in keys]
    positions = zip(*np.unravel_index(present, shape), strict=True)
    return {
        (names[0][dataset], names[1][backend], names[2][metric]): (int(count), float(mean))
        for (dataset, backend, metric), count, mean in zip(positions, counts, means, strict=True)
    }


def _check_mean(field: str, metric: MetricValue, count: int, mean: float) -> Iterator[Contradiction]:
    """Compare a stored mean with the ``count`` of queries that have a value, and with their ``mean``."""
    if count != metric.n:
        yield Contradiction(field, f"the mean is taken over {metric.n:,} queries, and {count:,} have a value")
        return
    close = math.isclose(mean, metric.mean, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
    if count and not close and _is_mean(metric.metric):
        yield Contradiction(field, f"the mean is {metric.mean:g}, but the mean of the queries is {mean:g}")


def _is_mean(name: str) -> bool:
    try:
        return is_mean(parse_metric(name))
    except UnknownNameError:  # of a package that is not installed here
        return False
