"""Make cells of quantities, and the parts that documents of several verbs have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from harness.data.filtering import format_filter
from harness.document.figures import Bar, Bars, Percentiles
from harness.document.model import Cell, Column, Facts, Figure, Section, Table, Tone, Value
from harness.results.schema import Result, TrialResult
from harness.results.schema_base import (
    ClusterInfo,
    DatasetInfo,
    ExcludedInfo,
    HarnessInfo,
    IdenticalIdsInfo,
    MachineInfo,
    MetricValue,
    QueryFilterInfo,
)
from harness.results.schema_costs import LatencyStats
from harness.wording import counted

ABSENT = "–"
BACKEND = Column("backend", numeric=False, names=True)
"""The column of labels, first in most tables."""
HUMAN = Column("by people", help="the mean by people's judgments alone, without labels by models", follows=True)
"""The column after a metric if models gave some judgments."""
FAILED = "failed"
_MEBIBYTE = 1024**2
_GIB = 1024**3
_PROBABLE = 0.001
_MAX_NAMES = 3
_MAX_FILTERS = 4
_LOG_LINES = 5


def text(content: str, mark: str = "", below: str = "", tone: Tone = "plain") -> Cell:
    """Return a cell of words."""
    return Cell(content, mark, below, tone)


def number(value: float | None, form: str = ".4f", unit: str = "", *, below: str = "", ties: str = "") -> Cell:
    """Return a cell of a quantity in the given format, with its unit; a dash for None."""
    if value is None:
        return Cell(ABSENT)
    written = f"{value:{form}}{unit}"
    return Cell(f"−{written[1:]}" if written.startswith("-") else written, below=below, value=value, ties=ties)


def mean(value: MetricValue, unit: str = "") -> Cell:
    """Return a cell of a mean with its interval below, and the range that ties leave."""
    interval_text = interval(value.ci_low, value.ci_high)
    return number(value.mean, unit=unit, below=interval_text, ties=tie_range(value.min, value.max))


def human_cell(human: float | None, queries: int | None, of_all: int) -> Cell:
    """Return a cell of a mean by people's judgments, with its queries if there are fewer than of all judgments."""
    return number(human, unit="" if human is None or queries == of_all else f" (n={queries:,})")


def human_cell_of(value: MetricValue | None) -> Cell:
    """Return the cell of a mean by people's judgments."""
    return text(ABSENT) if value is None else human_cell(value.human, value.human_n, value.n)


def label_lines(datasets: Sequence[DatasetInfo]) -> list[str]:
    """Return a line on the labels by models for each dataset that has any, with its name if there are several."""
    lines = ((info.name, info.labels_in_words) for info in datasets)
    return [f"{name}: {line}" if len(datasets) > 1 else line for name, line in lines if line]


def absent(columns: int, first: str = ABSENT) -> list[Cell]:
    """Return cells that hold nothing; the first may say why."""
    return [Cell(first), *[Cell(ABSENT)] * (columns - 1)]


def count(value: int | None) -> Cell:
    """Return a cell of a whole number."""
    return number(value, ",")


def seconds(value: float | None) -> Cell:
    """Return a cell of seconds, to the millisecond."""
    return number(value, ",.3f")


def milliseconds(value: float | None) -> Cell:
    """Return a cell of milliseconds, to the microsecond."""
    return number(value, ",.3f")


def size(value: float | None) -> Cell:
    """Return a cell of bytes, in MiB."""
    return Cell(ABSENT) if value is None else Cell(f"{value / _MEBIBYTE:,.1f} MiB", value=value)


def signed(value: float | None, digits: int = 4) -> str:
    """Return a difference with its sign; 0 has none."""
    if value is None:
        return ABSENT
    return f"{value:+.{digits}f}".replace("-", "−") if value else "0"


def interval(low: float | None, high: float | None, form: str = ".3f") -> str:
    """Return an interval in brackets; empty without an interval."""
    return f"[{low:{form}}, {high:{form}}]".replace("-", "−") if low is not None and high is not None else ""


def tie_range(low: float | None, high: float | None) -> str:
    """Return the range that ties leave a mean of at most 1; empty if they do not move it."""
    if low is None or high is None or f"{low:.4f}" == f"{high:.4f}":
        return ""
    return f"[{f'{low:.4f}'.removeprefix('0')}–{f'{high:.4f}'.removeprefix('0')}]"


def probability(p: float | None) -> str:
    """Return a p-value as printed."""
    if p is None:
        return ABSENT
    return f"<{_PROBABLE}" if p < _PROBABLE else f"{p:.3f}"


def latency_columns() -> list[Column]:
    """Return the columns of :func:`latencies`."""
    names = (("p50", 0), ("p95", 1), ("p99", 5))
    return [*(Column(f"{name} ms", best="lowest", priority=last, timed=True) for name, last in names), Column("n")]


def latencies(stats: LatencyStats | None, otherwise: str = ABSENT) -> list[Cell]:
    """Return the cells of percentiles and of their number of samples; ``otherwise`` without samples."""
    if stats is None:
        return [Cell(otherwise)] * 3 + [Cell("0" if otherwise == FAILED else ABSENT)]
    return [*(milliseconds(value) for value in (stats.p50, stats.p95, stats.p99)), count(stats.n)]


def join_names(names: Sequence[str], most: int = _MAX_NAMES) -> str:
    """Return names as an enumeration, the first of many."""
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def empty_documents(empty: int, left_out: int) -> str:
    """Return how many documents are empty and how many empty ones were left out, in parentheses; else empty."""
    counts = [f"{number:,} {noun}" for number, noun in ((empty, "empty"), (left_out, "empty left out")) if number]
    return f" ({', '.join(counts)})" if counts else ""


def identical_ids(info: IdenticalIdsInfo | None, noun: str) -> list[str]:
    """Return the rule if it matters: some queries, which the report calls ``noun``, have the id of a document."""
    if info is None or not info.queries:
        return []
    verb = "left out" if info.rule == "drop" else "kept"
    return [f"{counted(info.queries, noun)} with a document's id: such hits are {verb}"]


def filters_in_words(groups: Sequence[QueryFilterInfo], *, documents: bool = True) -> list[str]:
    """Return the different filters of the questions, with the documents that match if ``documents``; none without."""
    if not groups:
        return []
    in_words = [_filter_in_words(group, documents=documents) for group in groups[:_MAX_FILTERS]]
    more = f" and {len(groups) - _MAX_FILTERS:,} more" if len(groups) > _MAX_FILTERS else ""
    return [f"{'filters' if len(groups) > 1 else 'filter'} {'; '.join(in_words)}{more}"]


def _filter_in_words(group: QueryFilterInfo, *, documents: bool) -> str:
    """Return a filter, how many questions have it and, with ``documents``, how many documents match it."""
    counts = [counted(group.queries, "question")]
    if documents and group.matching is not None:
        counts.append(counted(group.matching, "document"))
    return f"{format_filter(group.fields) or 'none'} ({', '.join(counts)})"


def excluded_documents(info: ExcludedInfo | None, noun: str) -> list[str]:
    """Return what queries, which the report calls ``noun``, exclude, if it is anything."""
    if info is None:
        return []
    if not info.queries:
        nouns = counted(0, noun).removeprefix("0 ")
        return [f"{nouns} exclude only {counted(info.unknown, 'id')} that no document has"] if info.unknown else []
    verb = "excludes" if info.queries == 1 else "exclude"
    unknown = f", and {counted(info.unknown, 'id')} that no document has" if info.unknown else ""
    return [f"{counted(info.queries, noun)} {verb} {counted(info.documents, 'document')}{unknown}"]


def made_by(
    harness: HarnessInfo, machine: MachineInfo, created: str, title: str, cluster: ClusterInfo | None = None
) -> Facts:
    """Return version and commit, date, machine and cluster."""
    state = ", with uncommitted changes" if harness.dirty else ""
    rows = {
        "harness": f"{harness.version}{f', commit {harness.commit}' if harness.commit else ''}{state}",
        "created": created,
        "system": f"{machine.system} · {machine.python}",
        "processor": f"{machine.processor} · {machine.cores} cores · {machine.memory_bytes / _GIB:.1f} GiB",
        **machine.thread_limits,
        **({"cluster": _cluster(cluster)} if cluster is not None else {}),
    }
    return Facts(title, list(rows.items()))


def provenance(result: Result, data: Iterable[Facts]) -> Iterator[Facts]:
    """Yield versions, machine and commit of a result, its ``data``, and each backend's identity and settings."""
    yield made_by(result.harness, result.machine, result.created, "Made by", result.cluster)
    yield from data
    for trial in result.trials:
        engine = trial.engine
        engine_name = f"{engine.name} {engine.version}, {engine.mode}" if engine is not None else None
        facts = {"engine": engine_name, "measured": trial.measured_at, **trial.parameters, **trial.encoder}
        yield Facts(f"Backend {result.trial_name(trial.label, trial.dataset)}", flat_rows(facts))
    yield Facts("Settings", flat_rows(result.plan.resolved))
    yield Facts("Packages", list(result.packages.items()))


def _cluster(cluster: ClusterInfo) -> str:
    gpus = f" · {counted(cluster.gpus, 'GPU')}" if cluster.gpus else ""
    lost = f" · {counted(cluster.lost_jobs, 'job')} ran again because a node was lost" if cluster.lost_jobs else ""
    size = f"{counted(cluster.nodes, 'node')} · {counted(cluster.cores, 'core')}{gpus}"
    return f"Ray {cluster.ray} · {size} · reached in {cluster.start_seconds:.1f} s, in no other time{lost}"


def with_content(table: Table) -> Table:
    """Return the same table without columns that are empty in every row, and without their explanations."""
    columns = [
        column_number
        for column_number in range(len(table.columns))
        if column_number == 0 or any(row[column_number].text not in ("", ABSENT) for row in table.rows)
    ]
    empty = tuple(f"{column.name}: " for position, column in enumerate(table.columns) if position not in columns)
    return replace(
        table,
        columns=[table.columns[position] for position in columns],
        rows=[[row[position] for position in columns] for row in table.rows],
        legend=[line for line in table.legend if not line.startswith(empty)],
    )


def flat_rows(values: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return names and values as texts, without values that are None."""
    return [
        (name, ", ".join(map(str, value)) if isinstance(value, list) else str(value))
        for name, value in values.items()
        if value is not None
    ]


def sections_with_content(sections: Sequence[Section]) -> list[Section]:
    """Return the sections that have any block."""
    return [section for section in sections if section.blocks]


def percentile_figure(
    title: str, times: Mapping[str, LatencyStats], series: Mapping[str, int], remark: str = ""
) -> Figure:
    """Draw percentiles of latency, a row for each name; ``series`` numbers them as in every other picture."""
    note = (
        "The box runs from the median (marker) to the 95th percentile, its inner line is the 90th, the whisker ends at "
        f"the 99th.{remark}"
    )
    rows = {name: (stats.p50, stats.p90, stats.p95, stats.p99) for name, stats in times.items()}
    return Figure(title, Percentiles(rows, series), note)


def bars_figure(metric: str, trials: Iterable[tuple[str, TrialResult]]) -> Figure:
    """Draw the means of a metric with their intervals, a bar for each trial by its name."""
    bars = []
    for number, (name, trial) in enumerate(trials):
        value = trial.metrics.get(metric)
        mean, low, high = (value.mean, value.ci_low, value.ci_high) if value is not None else (None, None, None)
        bars.append(Bar(name, mean, low, high, number))
    drawing = Bars(metric, bars)
    return Figure(drawing.title(), drawing)


def notes_on_trials(trials: Sequence[tuple[str, TrialResult]]) -> Iterator[str]:
    """Yield the last lines of each trial that failed, then the notes on trials, each once, by the trials' names."""
    shared: dict[str, list[str]] = {}
    for name, trial in trials:
        if trial.error is not None and trial.error.log:
            log = [f"    {line}" for line in trial.error.log[-_LOG_LINES:]]
            yield "\n".join([f"last lines of {name}, which failed:", *log])
        for note in trial.notes:
            shared.setdefault(note, []).append(name)
    yield from (f"{', '.join(names)}: {note}" for note, names in shared.items())


def metric_values(trial: TrialResult) -> Iterator[Value]:
    """Yield each mean with its interval, and with the range that ties leave."""
    for name, value in trial.metrics.items():
        yield Value(trial.dataset, trial.label, name, value.mean, value.ci_low, value.ci_high, value.n)
        if value.min is not None and value.max is not None:
            yield Value(trial.dataset, trial.label, f"ties.{name}", value.mean, value.min, value.max, value.n)
        if value.human_n is not None:
            yield Value(trial.dataset, trial.label, f"human.{name}", value.human, n=value.human_n)
        if value.if_unjudged_relevant is not None:
            title = f"if_unjudged_relevant.{name}"
            yield Value(trial.dataset, trial.label, title, value.if_unjudged_relevant, n=value.n)


def values_of(dataset: str, backend: str, prefix: str, content: Mapping[str, object]) -> Iterator[Value]:
    """Yield each number of a nested part of a result, under its dotted name; texts are left out.

    The ``n`` of a part is the ``n`` of the numbers next to it.
    """
    samples = content.get("n")
    for name, value in content.items():
        if isinstance(value, Mapping):
            yield from values_of(dataset, backend, f"{prefix}{name}.", value)
        elif isinstance(value, int | float) and not isinstance(value, bool) and name != "n":
            yield Value(dataset, backend, prefix + name, value, n=samples if isinstance(samples, int) else None)
