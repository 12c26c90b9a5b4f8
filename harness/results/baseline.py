"""A baseline: one small file for git with which later results are compared.

It holds the whole report (plan, versions, machine, content of the datasets, figures, spread over builds), every latency
sample, and a line for each dataset, backend and query: its values, its first documents, and the ranks of the relevant
documents to depth k. Texts never enter it. The same result always gives the same bytes, and a change of one ranking
changes one line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import orjson
from pydantic import ConfigDict, Field

from harness.data.ranking import RankingDigest
from harness.data.types import Ids, Run
from harness.errors import ResultError, UsageError
from harness.metrics import lower_is_better
from harness.results.consistency import refuse_contradictions
from harness.results.schema import Result
from harness.results.schema_base import Count, Record
from harness.results.snapshot import OVERLAP, ResultSnapshot, snapshots_of
from harness.results.stored_json import StoredJson, read_stored_json, validate
from harness.store.disk import replacing
from harness.store.result_folder import target_path
from harness.user_path import user_path

if TYPE_CHECKING:
    from harness.results.comparison import Comparison


SCHEMA_VERSION = 3
DEPTH = 10
"""Documents that a baseline keeps of each ranking: as many as people and the usual measures look at."""


class QueryLine(Record):
    """One backend's answer to one query."""

    backend: str
    query: str
    values: dict[str, float] = Field(description="metric -> value; empty for a query that was not evaluated")
    human: dict[str, float] = Field(
        default={}, description="metric -> value by people's judgments alone; empty if models gave none"
    )
    documents: list[str] = Field(description="ids of the first documents, in the order in which they were scored")
    ranks: dict[str, int] | None = Field(
        description="relevant document -> its rank, to depth k; null without judgments",
    )
    order_digest: str | None = Field(description="of the ids of the whole ranking; null without hits")
    scores_digest: str | None = Field(
        description="of the documents and their scores, regardless of the order of equal scores; null without hits"
    )


class BaselineDataset(Record):
    """Part of a baseline that belongs to one dataset."""

    queries: dict[str, str] = Field(description="id -> the beginning of the SHA-256 of the text; empty without texts")
    latencies: dict[str, dict[str, list[int]]] = Field(
        description="backend -> query -> nanoseconds of search and transfer together, one per timed pass"
    )
    rankings: list[QueryLine] = Field(description="one per backend and query")


class Baseline(Record):
    """A baseline as stored."""

    schema_version: int = Field(alias="schema")
    kind: Literal["baseline"]
    depth: Count = Field(description="how many documents of each ranking are kept, at most")
    report: Result
    datasets: dict[str, BaselineDataset]

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True)


def check_baseline_target(path: Path) -> None:
    """Refuse a target where a baseline cannot be written: an existing file that is not a baseline is never replaced."""
    if path.suffix != ".json":
        raise UsageError(f"a baseline is a .json file, not '{path}'", fix="write reports/baselines/NAME.json")
    path = target_path(path)
    if path.is_dir():
        raise UsageError(f"'{path}' is a folder", fix="name a file in it")
    if path.exists():
        _content(path)


def write_baseline(path: Path, report: Result, snapshots: Sequence[ResultSnapshot], *, depth: int = DEPTH) -> None:
    """Write a result as a baseline, completely or not at all; an earlier baseline is replaced.

    ``snapshots`` are the parts of ``report``, one for each of its datasets. Raises UsageError if a backend failed or
    nothing was scored, because nothing could be compared with it, and for a file that is not a baseline; ResultError if
    it cannot be written.
    """
    failed = list(dict.fromkeys(trial.label for trial in report.trials if trial.status == "failed"))
    if failed:
        raise UsageError(
            f"no baseline was made: {', '.join(failed)} failed", fix="a baseline holds results of every backend"
        )
    check_baseline_target(path)
    path = target_path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as stream:
            stream.write(b"".join(_lines(report, snapshots, depth)))
    except OSError as error:
        raise ResultError(f"the baseline '{path}' cannot be written: {error.strerror or error}") from error


def save_baseline(comparison: Comparison, path: str | Path) -> None:
    """Write a comparison as a baseline; raises as :func:`write_baseline`."""
    write_baseline(user_path(path), comparison.report, snapshots_of(comparison))


def describe_baseline(path: Path) -> str:
    """Describe a baseline by its backends, datasets and date; or say that it cannot be read."""
    try:
        report = validate(_content(path), Baseline).report
    except ResultError:
        return "one that cannot be read"
    backends = ", ".join(info.label for info in report.backends)
    datasets = ", ".join(info.name for info in report.datasets)
    return f"that of {backends} on {datasets} from {report.created}"


def read_baseline(path: Path) -> list[ResultSnapshot]:
    """Return the snapshot of each dataset in a baseline.

    Raises ResultError if it is missing, damaged, not a baseline, or of another schema.
    """
    baseline = validate(_content(path), Baseline)
    refuse_contradictions(path, baseline.report)
    reported = [info.name for info in baseline.report.datasets]
    if sorted(reported) != sorted(baseline.datasets):
        raise ResultError(
            f"'{path}' is damaged: its report names {', '.join(reported) or 'no dataset'}, and it has values of "
            f"{', '.join(baseline.datasets) or 'no dataset'}",
            fix="give a baseline as harness wrote it",
        )
    return [_snapshot(path, baseline, name, stored) for name, stored in baseline.datasets.items()]


def _snapshot(path: Path, baseline: Baseline, dataset: str, stored: BaselineDataset) -> ResultSnapshot:
    report = baseline.report.on(dataset)
    lines: dict[str, list[QueryLine]] = {trial.label: [] for trial in report.trials}
    for line in stored.rankings:
        if line.backend not in lines:
            raise ResultError(f"'{path}' is damaged: its report names no backend '{line.backend}' on '{dataset}'")
        lines[line.backend].append(line)
    figures = {label: _figures((line.query, line.values) for line in answers) for label, answers in lines.items()}
    for label, of_label in figures.items():
        _refuse_cut(path, label, of_label)
    is_check = report.kind == "check"
    exact = not is_check or (report.golden_set.match == "exact" and not report.golden_set.matched)
    return ResultSnapshot(
        source=str(path),
        report=report,
        kind="check" if is_check else "compare",
        rescorable=exact,
        figures=figures,
        human={label: _figures((line.query, line.human) for line in answers) for label, answers in lines.items()}
        if report.dataset.model_labels is not None
        else {},
        hits=lambda label: _run({line.query: line.documents for line in lines[label]}),
        depth=baseline.depth,
        latencies=stored.latencies,
        digests=stored.queries,
        stored_digests={
            label: {
                line.query: RankingDigest(line.order_digest, line.scores_digest)
                for line in answers
                if line.order_digest is not None and line.scores_digest is not None
            }
            for label, answers in lines.items()
        },
        stored_ranks=_ranks(lines),
    )


def _figures(lines: Iterable[tuple[str, Mapping[str, float]]]) -> dict[str, dict[str, float]]:
    """Return metric to query to value."""
    figures: dict[str, dict[str, float]] = {}
    for query, values in lines:
        for name, value in values.items():
            figures.setdefault(name, {})[query] = value
    return figures


def _refuse_cut(path: Path, label: str, figures: Mapping[str, Mapping[str, float]]) -> None:
    """Raise ResultError if metrics have values of unequally many queries: lines were cut or edited.

    Only questions that forbid documents have values of metrics that count these, the ones whose lowest value is best.
    """
    counts: dict[bool, dict[str, int]] = {}
    for name, values in figures.items():
        if not name.startswith(OVERLAP):
            counts.setdefault(lower_is_better(name), {})[name] = len(values)
    for by_name in counts.values():
        if len(set(by_name.values())) > 1:
            counts_text = ", ".join(f"{count:,} of {name}" for name, count in by_name.items())
            raise ResultError(
                f"'{path}' is damaged: the backend '{label}' has values of unequally many queries: {counts_text}"
            )


def _ranks(lines: Mapping[str, Sequence[QueryLine]]) -> dict[str, dict[str, dict[str, int]]] | None:
    """Return label -> query -> relevant document -> rank; None if some line does not hold them."""
    if any(line.ranks is None for answers in lines.values() for line in answers):
        return None
    return {label: {line.query: line.ranks or {} for line in answers} for label, answers in lines.items()}


def _content(path: Path) -> StoredJson:
    fix = "create one: harness compare … --save-baseline reports/baselines/NAME.json, or harness check for a golden set"
    missing = ResultError(f"no baseline and no result folder at '{path}'", fix=fix)
    content = read_stored_json(path, "a baseline", missing=missing)
    if content.kind != "baseline":
        raise ResultError(f"'{path}' is not a baseline of harness", fix="name a file that --save-baseline wrote")
    return content.refuse_other_schema(SCHEMA_VERSION)


def _lines(report: Result, snapshots: Sequence[ResultSnapshot], depth: int) -> Iterator[bytes]:
    """Yield the file: one line a query's text, a backend's samples, and a backend's answer to a query."""
    content = report.model_dump_json(by_alias=True, indent=2).encode()
    yield b'{\n"schema": %d,\n"kind": "baseline",\n"depth": %d,\n' % (SCHEMA_VERSION, depth)
    yield b'"report": ' + content + b',\n"datasets": '
    datasets = {}
    for snapshot in snapshots:
        parts = {
            "queries": _members({query: orjson.dumps(digest) for query, digest in snapshot.digests.items()}),
            "latencies": _members({label: orjson.dumps(samples) for label, samples in snapshot.latencies.items()}),
            "rankings": b"[\n" + b",\n".join(_rankings(snapshot, depth)) + b"\n]",
        }
        datasets[snapshot.report.dataset.name] = _members(parts)
    yield _members(datasets) + b"\n}\n"


def _members(content: Mapping[str, bytes]) -> bytes:
    """Return a JSON object, a member a line."""
    if not content:
        return b"{}"
    return b"{\n" + b",\n".join(orjson.dumps(name) + b": " + value for name, value in content.items()) + b"\n}"


def _rankings(snapshot: ResultSnapshot, depth: int) -> Iterator[bytes]:
    keeps_ranks = snapshot.qrels is not None or snapshot.stored_ranks is not None
    for label in snapshot.labels:
        figures, human = snapshot.figures[label], snapshot.human.get(label, {})
        first, digests = snapshot.first(label, depth), snapshot.ranking_digests(label)
        ranks = snapshot.relevant_ranks(label)
        for query in dict.fromkeys([*first, *(query for values in figures.values() for query in values)]):
            values = {name: by_query[query] for name, by_query in figures.items() if query in by_query}
            line = QueryLine(
                backend=label,
                query=query,
                values=values,
                human={name: by_query[query] for name, by_query in human.items() if query in by_query},
                documents=first.get(query, []),
                ranks=dict(ranks.get(query, {})) if keeps_ranks else None,
                order_digest=digests[query].order if query in digests else None,
                scores_digest=digests[query].scores if query in digests else None,
            )
            yield orjson.dumps(line.model_dump(exclude=None if human else {"human"}))


def _run(first: Mapping[str, Sequence[str]]) -> Run:
    """Make a run of rankings without scores: scores that fall by one at each rank encode the order that was kept."""
    doc_ids = Ids.of(dict.fromkeys(document for documents in first.values() for document in documents))
    lengths = [len(documents) for documents in first.values()]
    document_ids = Ids.of([document for documents in first.values() for document in documents])
    scores = [np.arange(length, 0, -1, dtype=np.float32) for length in lengths]
    return Run(
        query_ids=Ids.of(first),
        doc_ids=doc_ids,
        indptr=np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]),
        rows=doc_ids.rows_of(document_ids.values),
        scores=np.concatenate(scores) if scores else np.empty(0, dtype=np.float32),
    )
