"""Draw a comparison: means, differences query by query, recall by depth, parity, latency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.data.arrow import as_numpy, text_scalar
from harness.data.ranking import TieRule
from harness.data.types import Float64Array, Ids, Qrels, Run
from harness.document.busy import busy_sentence
from harness.document.cells import bars_figure, percentile_figure
from harness.document.figures import (
    Bar,
    Bars,
    Curve,
    Curves,
    Differences,
    Distribution,
    Matrix,
    Spot,
    Strips,
    Tradeoff,
)
from harness.document.model import Figure
from harness.metrics import Metric, QuerySet, parse_metric, score
from harness.pipeline.probes import PROBES
from harness.report.documents.verdicts import reference_of
from harness.results.comparison import Comparison
from harness.results.pools import DEPTH, top_of
from harness.results.schema import Result

_DEPTHS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_DRAWN = 6
_LEAST = 1e-6
_NS_PER_MS = 1e6
_MEBIBYTE = 1024**2
_LEVELS = ("bit-equal", "identical", "tie-equivalent", "different")
_SIGNS = ("≡", "=", "≈", "≠")


def comparison_figures(compared: Comparison, runs: Mapping[str, Run]) -> dict[str, list[Figure]]:
    """Return the figures of each section by its anchor; ``runs`` are the rankings by label.

    Figures of single queries need the rankings of the only dataset; several datasets get the means.
    """
    report = compared.report
    if len(report.datasets) > 1:
        each = [(report.on(info.name), f", {info.name}") for info in report.datasets]
        numbers = _numbers(report)
        probed = [figure for part, title_suffix in each for figure in _probe_figures(part, numbers, title_suffix)]
        return {
            "quality": _means(report),
            "frontier": [made for part, title_suffix in each for made in swept_frontiers(part, title_suffix)],
            "requested": probed,
            "cost": _frontiers(report),
        }
    return {
        "quality": _quality(report, compared.values, runs, compared.qrels),
        "frontier": swept_frontiers(report),
        "parity": _parity(report),
        "requested": _probe_figures(report, _numbers(report)),
        "cost": _cost(report, compared.latencies),
    }


def _means(report: Result) -> list[Figure]:
    """Draw means over datasets, with any intervals."""
    board, series, made = report.leaderboard, _numbers(report), []
    for metric in board.metrics[:_DRAWN] if board is not None else ():
        rows = [row for row in board.rows if row.metric == metric] if board is not None else []
        bars = [Bar(row.backend, row.mean, row.ci_low, row.ci_high, series[row.backend]) for row in rows]
        made.append(Figure(Bars(metric, bars).title("mean over datasets"), Bars(metric, bars)))
    return made


def _quality(report: Result, values: pa.Table, runs: Mapping[str, Run], qrels: Qrels | None) -> list[Figure]:
    """Draw means with intervals, differences query by query, recall by depth, and the overlap of rankings."""
    metrics = list(dict.fromkeys(name for trial in report.trials for name in trial.metrics))
    labelled = [(trial.label, trial) for trial in report.trials]
    made = [bars_figure(name, labelled) for name in metrics[:_DRAWN]]
    made += _differences(report, values, metrics[0]) if metrics else []
    if qrels is not None and runs:
        made.append(_recall(report, runs, qrels))
    if len(runs) > 1:
        shares = _overlaps(list(runs.values()))
        note = f"Share of common documents among the first {DEPTH}, mean over the queries."
        made.append(Figure(f"Overlap of the first {DEPTH}", Matrix(f"Overlap@{DEPTH}", list(runs), shares), note))
    return made


def _differences(report: Result, values: pa.Table, metric: str) -> list[Figure]:
    reference, note = (
        str(reference_of(report, report.dataset.name)),
        "Sorted from the greatest loss to the greatest gain.",
    )
    other_labels = [trial.label for trial in report.trials if metric in trial.metrics and trial.label != reference]
    return [
        Figure(
            f"{metric}, {label} minus {reference}, query by query",
            Differences(label, reference, metric, _paired(values, metric, label, reference)),
            note,
        )
        for label in other_labels[:_DRAWN]
    ]


def _paired(values: pa.Table, metric: str, label: str, reference: str) -> Float64Array:
    """Return differences on the queries that both are evaluated on."""
    of_metric = values.filter(pc.equal(values["metric"], text_scalar(metric)))
    ours, theirs = (of_metric.filter(pc.equal(of_metric["backend"], text_scalar(name))) for name in (label, reference))
    rows = Ids(theirs["query_id"].combine_chunks()).rows_of(ours["query_id"].combine_chunks())
    differences: Float64Array = as_numpy(ours["value"])[rows >= 0] - as_numpy(theirs["value"])[rows[rows >= 0]]
    return differences


def _recall(report: Result, runs: Mapping[str, Run], qrels: Qrels) -> Figure:
    resolved = report.plan.resolved
    deepest = int(str(resolved["k"]))
    depths = [depth for depth in _DEPTHS if depth < deepest] + [deepest]
    measures: list[Metric] = [parse_metric(f"R@{depth}") for depth in depths]
    rows, numbers = [], _numbers(report)
    for label, run in runs.items():
        scores = score(
            run,
            qrels,
            measures,
            ties=TieRule(str(resolved["ties"])),
            queries=QuerySet(str(resolved["queries"])),
            relevance=int(str(resolved["relevance"])),
            unjudged=True,
        )
        means = [summary.value for summary in scores.means()]
        rows.append(Curve(label, list(zip(depths, means, strict=True)), numbers[label]))
    note = "Share of a query's relevant documents among the first k, mean over the same queries as above."
    return Figure("Recall by depth", Curves("Recall", "depth k", rows), note)


def _overlaps(runs: Sequence[Run]) -> Float64Array:
    """Mean overlap of each two rankings, float64 (R, R): as in :func:`harness.metrics.agreement.overlap`."""
    ids = Ids(pc.unique(pa.chunked_array([run.query_ids.values for run in runs])))
    top = top_of(runs, ids, None, 1)
    shares = np.ones((len(runs), len(runs)))
    lengths = np.count_nonzero(top.docs >= 0, axis=2)
    for a in range(len(runs)):
        for b in range(a + 1, len(runs)):
            same = (top.docs[a][:, :, None] == top.docs[b][:, None, :]) & (top.docs[a] >= 0)[:, :, None]
            common = same.any(axis=2).sum(axis=1)
            longest = np.maximum(lengths[a], lengths[b])
            shares_of_queries = np.divide(common, longest, out=np.ones(len(ids)), where=longest > 0)
            shares[a, b] = shares[b, a] = shares_of_queries.mean() if len(shares_of_queries) else 1.0
    return shares


def _parity(report: Result) -> list[Figure]:
    """Count the queries of each backend by closeness to its exact reference."""
    rows = {}
    for trial in report.trials:
        if trial.parity is not None:
            p = trial.parity
            rows[trial.label] = (p.bit_equal, p.identical - p.bit_equal, p.tie_equivalent - p.identical, p.different)
    if not rows:
        return []
    note = (
        "≡ bit-equal: the same ranking with the same scores to the bit; = identical: the same ranking; "
        "≈ tie-equivalent: the same up to ties of the exact scores; ≠ different."
    )
    title = "Queries by how they relate to the exact reference"
    return [Figure(title, Strips(title, _LEVELS, rows, _SIGNS), note, wide=True)]


def _cost(report: Result, latencies: pa.Table | None) -> list[Figure]:
    """Draw quality against latency and memory, and the distribution of latencies, if they were measured."""
    numbers = _numbers(report)
    times = {trial.label: stats for trial in report.trials if (stats := trial.milliseconds) is not None}
    made = _frontiers(report)
    samples = _samples(latencies, list(times)) if latencies is not None else {}
    if samples:
        note = "Share of all timed searches that took at most this long; markers at the median and the 95th percentile."
        made.append(Figure("Latency of a query, one client", Distribution(samples, numbers), note))
    elif times:
        remark = " This result keeps no single samples, so nothing finer is drawn."
        made.append(percentile_figure("Latency of a query, one client", times, numbers, remark))
    busy = busy_sentence(report.trials)
    return [replace(figure, note=f"{figure.note} Caution: {busy}.") if busy else figure for figure in made]


def _probe_figures(report: Result, series: Mapping[str, int], title_suffix: str = "") -> list[Figure]:
    """Return the figures of all probes; ``title_suffix`` ends their titles."""
    figures = (figure for probe in PROBES for figure in probe.figures(report.trials, series))
    busy = busy_sentence(report.trials)
    caution = f" Caution: {busy}." if busy else ""
    return [
        replace(figure, title=f"{figure.title}{title_suffix}", note=f"{figure.note}{caution}") for figure in figures
    ]


def _frontiers(report: Result) -> list[Figure]:
    """Return quality against latency and against memory; over several datasets, their means."""
    metric = next((name for trial in report.trials for name in trial.metrics), None)
    if metric is None:
        return []
    note = (
        "Better upwards, with 95 % intervals; cheaper to the left. The dotted line joins the backends that no other "
        "backend beats."
    )
    latencies = [(trial.label, trial.milliseconds.p95) for trial in report.trials if trial.milliseconds is not None]
    peaks = [
        (trial.label, trial.index.peak_rss_bytes / _MEBIBYTE)
        for trial in report.trials
        if trial.index is not None and trial.index.peak_rss_bytes is not None
    ]
    made = []
    for cost, unit, costs in (("p95 latency", "ms", latencies), ("peak memory", "MiB", peaks)):
        spots = []
        for number, info in enumerate(report.backends):
            values = [value for label, value in costs if label == info.label]
            quality = _quality_of(report, info.label, metric)
            if quality is not None and values and len(values) == len(report.datasets):
                spots.append(Spot(info.label, *quality, max(sum(values) / len(values), _LEAST), number))
        if len(spots) > 1:
            made.append(Figure(f"{metric} against {cost}", Tradeoff(metric, cost, unit, spots), note))
    return made


def swept_frontiers(report: Result, title_suffix: str = "") -> list[Figure]:
    """Return the share of the exact best k that each value of a swept parameter finds, against p95 and index size."""
    note = "Recall of the exact best k. Better upwards, cheaper to the left; the dotted line is the frontier."
    made = []
    for frontier in report.frontiers:
        points = frontier.points
        mebibytes = [point.bytes / _MEBIBYTE if point.bytes is not None else None for point in points]
        for name, unit, costs in (("p95", "ms", [point.p95_ms for point in points]), ("index size", "MiB", mebibytes)):
            spots = [
                Spot(point.value, point.recall, None, None, max(cost, _LEAST), number)
                for number, (point, cost) in enumerate(zip(points, costs, strict=True))
                if point.recall is not None and cost is not None
            ]
            if len({spot.cost for spot in spots}) > 1:
                title = f"Recall against {name}, {frontier.name}{title_suffix}"
                made.append(Figure(title, Tradeoff("recall", name, unit, spots), note))
    return made


def _quality_of(report: Result, label: str, metric: str) -> tuple[float, float | None, float | None] | None:
    """Return the mean of a backend with its interval, over the datasets if there are several."""
    if len(report.datasets) > 1:
        rows = report.leaderboard.rows if report.leaderboard is not None else []
        means = [(row.mean, row.ci_low, row.ci_high) for row in rows if (row.backend, row.metric) == (label, metric)]
    else:
        values = [trial.metrics[metric] for trial in report.trials if trial.label == label and metric in trial.metrics]
        means = [(value.mean, value.ci_low, value.ci_high) for value in values]
    return next(((mean, low, high) for mean, low, high in means if mean is not None), None)


def _samples(latencies: pa.Table, labels: Sequence[str]) -> dict[str, Float64Array]:
    """Return the milliseconds of each search, for the labels that have any."""
    samples = {}
    for label in labels:
        of_label = as_numpy(latencies.filter(pc.equal(latencies["backend"], text_scalar(label)))["search_ns"])
        if len(of_label):
            samples[label] = of_label / _NS_PER_MS
    return samples


def _numbers(report: Result) -> dict[str, int]:
    """Number the series of each backend: the same colour and marker in every picture."""
    return {info.label: number for number, info in enumerate(report.backends)}
