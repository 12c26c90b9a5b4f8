"""Measures that look at more hits than a comparison asked its engines for."""

from __future__ import annotations

from harness.errors import UnknownNameError
from harness.metrics.parse import parse_measure
from harness.metrics.registry import kind_of
from harness.results.schema import Result

__all__ = ["CUT_SHORT", "cut_short", "legend_of_depths"]

CUT_SHORT = "*"
"""Stands after the name of such a measure."""
_WHOLE = 1000
"""Hits that a measure without a cutoff is expected to look at: as many as trec_eval's users give it, by custom."""


def cut_short(report: Result, metric: str) -> bool:
    """Whether a metric of a comparison is of fewer hits than its name says: ``R@100`` of 10, or ``AP`` of 10.

    False for a metric that is not known here: the package that has it is not installed where the result is read.
    """
    try:
        measure, k = parse_measure(metric), _asked(report)
    except UnknownNameError:
        return False
    if k is None or kind_of(measure.name).aggregate == "sum":
        return False
    return k < (measure.cutoff if isinstance(measure.cutoff, int) else _WHOLE)


def legend_of_depths(report: Result) -> list[str]:
    """What the mark means, where it occurs."""
    names = dict.fromkeys(name for one in report.trials for name in one.metrics)
    marked = [name for name in names if cut_short(report, name)]
    if not marked:
        return []
    runs = any(one.engine is None and one.status != "failed" for one in report.trials)
    of_runs = "; of a run, of all that it holds" if runs else ""
    return [f"{CUT_SHORT}: {', '.join(marked)} of the {_asked(report)} hits that were asked for (--k){of_runs}"]


def _asked(report: Result) -> int | None:
    k = report.plan.resolved.get("k")
    return k if isinstance(k, int) else None
