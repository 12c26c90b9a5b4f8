"""Tabulate how runs relate to their exact results, and the costs and benefits of a swept parameter's values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.document.busy import busy_mark, with_busy_legend
from harness.document.cells import (
    ABSENT,
    BACKEND,
    FAILED,
    absent,
    count,
    interval,
    milliseconds,
    number,
    signed,
    size,
    text,
)
from harness.document.model import Cell, Column, Table
from harness.results.frontier import RECALL, recall_of
from harness.results.schema import FrontierPoint, FrontierStats, Result, ScoringDifference, TrialResult
from harness.results.schema_base import LossStats, ParityStats
from harness.wording import counted

_ON_FRONTIER = "●"
_ON_RECALL_FRONTIER = "○"


def parity_tables(trials: Sequence[TrialResult], title_suffix: str = "", *, candidates: bool = False) -> list[Table]:
    """Return parity with the references of term weights; recall of dense backends, and the losses of their means.

    Second stages have no reference, so no row. If queries are ranked among ``candidates``, runs and references hold
    exactly these, and titles say so.
    """
    compared = [trial for trial in trials if trial.stages is None or trial.stages.reranking is None]
    dense = [trial for trial in compared if _is_dense(trial)]
    end = f"{', among the candidates' if candidates else ''}{title_suffix}"
    sparse = [trial for trial in compared if not _is_dense(trial)]
    return [table for table in (_parity(sparse, end), _recall(dense, end), _losses(dense, title_suffix)) if table.rows]


def scoring_tables(scorings: Sequence[ScoringDifference], title_suffix: str = "") -> list[Table]:
    """Return the parts in which the formulas of exact backends differ, and the separate effect of each."""
    if not scorings:
        return []
    rows = [
        [
            *map(text, (scoring.b, change.part, change.after, change.before)),
            count(change.queries),
            number(change.overlap),
        ]
        for scoring in scorings
        for change in scoring.changes
    ]
    columns = [
        BACKEND,
        Column("differs by", numeric=False),
        Column("this backend", numeric=False),
        Column(f"in {scorings[0].a}", numeric=False),
        Column("queries", priority=1),
        Column(f"overlap@{scorings[0].depth}", priority=2),
    ]
    base, queries, depth = scorings[0].a, counted(scorings[0].queries, "query"), scorings[0].depth
    legend = [
        f"queries: of {queries}, those whose top {depth} changes when {base} is ranked again with this change alone",
        "with all changes it computes the backend's own formula, and returns its ranking",
    ]
    return [Table(f"Why exact scores differ{title_suffix}", columns, rows, legend, detail=True)]


def _is_dense(trial: TrialResult) -> bool:
    if trial.parity is not None:
        return trial.parity.reference == "dense"
    return trial.encoder.get("encoder") == "dense"


def _parity(trials: Sequence[TrialResult], end: str) -> Table:
    legend = [
        "bit-equal ⊂ identical ⊂ tie-equivalent: queries with the same scores, ranking, and ranking up to ties",
        "overlap, RBO: means; Δscore: the largest relative difference",
    ]
    return _relation("Parity with the exact reference", "reference", "overlap", trials, end, legend)


def _recall(trials: Sequence[TrialResult], end: str) -> Table:
    legend = [
        "recall@n: share of the exact best n that are among the engine's",
        "Δscore of dense vectors: relative to the largest score that the query could have",
    ]
    table = _relation("Recall against exact dense search", "similarity", "recall", trials, end, legend)
    rows = [[*row, _graph_cell(trial)] for row, trial in zip(table.rows, trials, strict=False)]
    return Table(table.title, [*table.columns, Column("in graph")], rows, legend, detail=True)


def _relation(
    title: str, kind: str, share: str, trials: Sequence[TrialResult], end: str, legend: Sequence[str]
) -> Table:
    depths = sorted({int(depth) for trial in trials if trial.parity for depth in trial.parity.overlap})
    columns = [
        BACKEND,
        Column(kind, numeric=False),
        *(Column(name, priority=3) for name in ("bit-equal", "identical")),
        Column("tie-equiv."),
        *(
            Column(f"{share if column == 0 else ''}@{depth}", priority=1 + column)
            for column, depth in enumerate(depths)
        ),
        *(Column(name, priority=5) for name in ("RBO", "Δscore")),
        *([Column("proven causes", numeric=False, priority=4)] if any(map(_causes, trials)) else []),
    ]
    queries = next((trial.parity.queries for trial in trials if trial.parity), 0)
    rows = [[text(trial.label), *_related(trial, depths)][: len(columns)] for trial in trials] if queries else []
    return Table(f"{title}, {counted(queries, 'query')}{end}", columns, rows, legend, detail=True)


def _related(trial: TrialResult, depths: Sequence[int]) -> list[Cell]:
    parity = trial.parity
    if parity is None:
        return absent(7 + len(depths), FAILED if trial.status == "failed" else "none")
    difference = number(parity.max_rel_score_diff, ".1e") if parity.max_rel_score_diff else Cell("0", value=0.0)
    return [
        text(parity.mode),
        *map(count, (parity.bit_equal, parity.identical, parity.tie_equivalent)),
        *(number(parity.overlap.get(str(depth))) for depth in depths),
        number(parity.rbo),
        difference,
        text(_causes(trial)),
    ]


def _causes(trial: TrialResult) -> str:
    causes = trial.parity.causes if trial.parity is not None else {}
    return ", ".join(f"{cause} ({queries:,})" for cause, queries in causes.items())


def _graph_cell(trial: TrialResult) -> Cell:
    """Return how many vectors the graph holds, or how many lists are scanned, or that everything is."""
    state = trial.index.state if trial.index is not None else {}
    vectors, lists = state.get("vectors_in_graph"), state.get("lists")
    if "probed_lists" in state and state.get("approximate"):
        return text(f"{state['probed_lists']} of {lists} lists")
    if not isinstance(vectors, int):
        return text(ABSENT)
    if not vectors and state.get("vectors_in_lists") and state.get("approximate", True):
        return text("lists")
    if vectors:
        return count(vectors)
    return text("candidates" if state.get("approximate") else "full scan")


def _losses(trials: Sequence[TrialResult], title_suffix: str) -> Table:
    lossy: list[tuple[str, ParityStats]] = [
        (trial.label, trial.parity) for trial in trials if trial.parity and trial.parity.loss
    ]
    names = list(lossy[0][1].loss) if lossy else []
    rows = [[text(label), *(_loss(parity.loss.get(name)) for name in names)] for label, parity in lossy]
    columns = [BACKEND]
    for column, name in enumerate(names):
        columns.append(Column(name, best="highest", below="95 % interval", below_priority=10, priority=column))
    legend = ["loss: the engine's mean minus the mean of exact search on the same vectors"]
    return Table(f"Loss against exact dense search{title_suffix}", columns, rows, legend, detail=True)


def _loss(loss: LossStats | None) -> Cell:
    if loss is None:
        return text(ABSENT)
    if loss.difference == 0 and loss.ci_low == loss.ci_high:
        return Cell("0", value=0.0)
    below = interval(loss.ci_low, loss.ci_high, "+.4f")
    return Cell(signed(loss.difference), below=below, value=loss.difference)


def frontier_tables(result: Result) -> list[Table]:
    """Return one table for each sweep that was timed."""
    return [
        _frontier(frontier, {trial.label: trial for trial in result.of_dataset(frontier.dataset)})
        for frontier in result.frontiers
        if frontier.timed and frontier.metric is not None
    ]


def _frontier(frontier: FrontierStats, by_label: Mapping[str, TrialResult]) -> Table:
    trials, metric = [by_label[point.backend] for point in frontier.points], str(frontier.metric)
    depths = sorted({int(depth) for trial in trials if trial.parity for depth in trial.parity.overlap})
    judged = any(trial.metrics for trial in trials)
    lossy = judged and any(trial.parity and trial.parity.loss for trial in trials)
    columns = [
        *(Column(name, numeric=False) for name in frontier.parameters),
        *([Column(metric, best="highest")] if judged else []),
        *([Column("loss", priority=3, below="95 % interval", below_priority=4)] if lossy else []),
        *(Column(f"{RECALL}{depth}", best="highest", priority=2) for depth in depths),
        Column("p50 ms", best="lowest", timed=True),
        Column("p95 ms", best="lowest", priority=3, timed=True),
        Column("n", priority=4, help="samples of the percentiles"),
        Column("index", best="lowest", priority=2),
        Column("frontier", numeric=False),
    ]
    rows = [
        _point(point, trial, metric, depths, judged=judged, lossy=lossy)
        for point, trial in zip(frontier.points, trials, strict=True)
    ]
    costs = "p95"
    measured = [point for point in frontier.points if point.quality is not None and point.p95_ms is not None]
    if measured and all(point.bytes is not None for point in measured):
        costs = "p95 and size of the index"
    best = f"{_ON_FRONTIER} on the frontier: no other value has at least its {metric} and at most its {costs}"
    legend = [best] if any(point.on_frontier for point in frontier.points) else []
    if judged and any(point.on_recall_frontier for point in frontier.points):
        legend.append(f"{_ON_RECALL_FRONTIER} the same with recall of the exact best {max(depths)} for {metric}")
    table = Table(f"Frontier of {frontier.name}", columns, rows, legend)
    return with_busy_legend(table, trials) if busy_mark(trials) else table


def _point(
    point: FrontierPoint, trial: TrialResult, metric: str, depths: Sequence[int], *, judged: bool, lossy: bool
) -> list[Cell]:
    if trial.status == "failed":
        return [*map(text, point.values), *absent(5 + judged + lossy + len(depths), FAILED)]
    loss = trial.parity.loss.get(metric) if trial.parity is not None else None
    times, (first, *further) = trial.milliseconds, point.values
    # without judgments quality is recall, and the two frontiers are one
    marks = ((_ON_FRONTIER, point.on_frontier), (_ON_RECALL_FRONTIER, judged and point.on_recall_frontier))
    return [
        text(first, busy_mark([trial])),
        *map(text, further),
        *([number(point.quality)] if judged else []),
        *([_loss(loss)] if lossy else []),
        *(number(recall_of(trial, depth)) for depth in depths),
        milliseconds(times.p50 if times is not None else None),
        milliseconds(times.p95 if times is not None else None),
        count(times.n if times is not None else None),
        size(point.bytes),
        text(" ".join(mark for mark, holds in marks if holds)),
    ]


def frontier_notes(result: Result) -> Iterator[str]:
    """Yield why a sweep has no frontier."""
    for frontier in result.frontiers:
        if not frontier.timed:
            yield f"no frontier of {frontier.name}: no latencies were measured"
        elif frontier.metric is None:
            yield f"no frontier of {frontier.name}: there are neither judgments nor an exact result"
