"""Results made by hand, as the two sides of a comparison: rankings and judgments in, everything else computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sample_report import sample_report

from harness.data.memory import qrels_from_dict
from harness.data.texts import text_digest
from harness.data.types import Ids, Qrels, Run
from harness.metrics import parse_metrics, score
from harness.pipeline.regress.compare_sides import CompareRules, SideComparison, compare_sides
from harness.results import schema, schema_base
from harness.results.backend_info import LabelledBackend, backend_infos
from harness.results.baseline import DEPTH, read_baseline, write_baseline
from harness.results.regression_schema import Change
from harness.results.snapshot import OVERLAP, ResultSnapshot

Rankings = Mapping[str, Sequence[str]]
GRADES = {"q1": {"a": 2, "b": 1}, "q2": {"c": 1}, "q3": {"a": 1, "d": 0}}
TEXTS = {"q1": "first words", "q2": "second words", "q3": "third words"}
BEFORE: Rankings = {"q1": ["a", "b", "x"], "q2": ["y", "c", "z"], "q3": ["d", "a", "b"]}
AFTER: Rankings = {"q1": ["a", "b", "x"], "q2": ["y", "w", "v", "c"], "q3": ["a", "d", "b"]}


def run_of(rankings: Rankings) -> Run:
    """A run whose scores fall by one a rank."""
    documents = Ids.of(dict.fromkeys(document for ranking in rankings.values() for document in ranking))
    lengths = [len(ranking) for ranking in rankings.values()]
    listed = Ids.of([document for ranking in rankings.values() for document in ranking])
    scores = np.concatenate([np.arange(length, 0, -1, dtype=np.float32) for length in lengths])
    indptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    return Run(Ids.of(rankings), documents, indptr, documents.rows_of(listed.values), scores)


def backend(label: str, **changes: Any) -> schema.TrialResult:
    """A backend that did its work, without parity and spread unless they are given."""
    base = next(one for one in sample_report().trials if one.status == "ok" and one.search is not None)
    plain: dict[str, Any] = {
        "label": label,
        "name": label.partition(":")[0],
        "parity": None,
        "spread": None,
        "stages": None,
    }
    plain["deterministic"] = None
    return base.model_copy(update={**plain, "parameters": {}, "encoder": {}, "notes": [], **changes})


def side(
    rankings: Mapping[str, Rankings],
    *,
    grades: Mapping[str, Mapping[str, int]] = GRADES,
    metrics: str = "nDCG@2,AP",
    texts: Mapping[str, str] = TEXTS,
    source: str = "before",
    backends: Sequence[schema.TrialResult] | None = None,
    overlaps: Mapping[str, Mapping[str, float]] | None = None,
    latencies: Mapping[str, Mapping[str, Sequence[int]]] | None = None,
    resolved: Mapping[str, Any] | None = None,
    **report: Any,
) -> ResultSnapshot:
    """A side with every ranking of ``rankings`` (label to query to documents) scored under ``grades``."""
    qrels: Qrels = qrels_from_dict(grades)
    measures = parse_metrics(metrics)
    runs = {label: run_of(found) for label, found in rankings.items()}
    figures: dict[str, dict[str, dict[str, float]]] = {}
    for label, run in runs.items():
        scores = score(run, qrels, measures)
        ids = scores.query_ids.to_list()
        figures[label] = {
            str(measure): dict(zip(ids, scores.values[:, column].tolist(), strict=True))
            for column, measure in enumerate(scores.measures)
        }
        if overlaps is not None and label in overlaps:
            figures[label][f"{OVERLAP}10"] = dict(overlaps[label])
    base = sample_report()
    settings = {"k": 10, "ties": "trec_eval", "queries": "relevant", "relevance": 1, "seed": 42, "isolation": "process"}
    plan = {**settings, "metrics": metrics.split(","), **(resolved or {})}
    counts = schema_base.QueryCounts(searched=len(texts), judged=len(grades), relevant=len(grades), without_id=0)
    content = schema_base.ContentDigests(
        documents="d" * 64, queries=text_digest("".join(texts.values())), judgments="j" * 64
    )
    trials = list(backends) if backends is not None else [backend(label) for label in rankings]
    whole = base.model_copy(
        update={
            "backends": backend_infos([LabelledBackend(one.label, one.name, one.encoder) for one in trials]),
            "trials": trials,
            "differences": [],
            "plan": schema_base.PlanRecord(arguments={}, resolved=plan),
            "datasets": [base.dataset.model_copy(update={"queries": counts, "content": content})],
            **report,
        }
    )
    return ResultSnapshot(
        source=source,
        report=whole,
        figures=figures,
        hits=runs.get,
        latencies=latencies or {},
        texts=texts,
        digests={query: text_digest(text) for query, text in texts.items()},
        qrels=qrels,
    )


def write_one(path: Path, one: ResultSnapshot, depth: int = DEPTH) -> None:
    """Write a baseline of one dataset."""
    write_baseline(path, one.report, [one], depth=depth)


def read_one(path: Path) -> ResultSnapshot:
    """Read a baseline of one dataset."""
    (one,) = read_baseline(path)
    return one


def compare_one(before: ResultSnapshot, after: ResultSnapshot, how: CompareRules) -> SideComparison:
    """Compare two results of one dataset each."""
    return compare_sides([before], [after], how)


def named(one: ResultSnapshot, dataset: str) -> ResultSnapshot:
    """Return the side as one of a dataset with another name."""
    trials = [trial.model_copy(update={"dataset": dataset}) for trial in one.report.trials]
    renamed = with_dataset(one, name=dataset)
    return replace(renamed, report=renamed.report.model_copy(update={"trials": trials}))


def with_dataset(one: ResultSnapshot, **changes: Any) -> ResultSnapshot:
    """The side with other facts about its dataset."""
    dataset = one.report.dataset.model_copy(update=changes)
    return replace(one, report=one.report.model_copy(update={"datasets": [dataset]}))


def many(count: int, shift: float, seed: int = 7) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, float]]]:
    """Values of ``count`` queries before, and after a change of ``shift`` on average."""
    rng = np.random.default_rng(seed)
    before = rng.uniform(0.2, 0.8, count)
    after = before + rng.normal(shift, 0.05, count)
    names = [f"q{number}" for number in range(count)]
    return (
        {"nDCG@10": dict(zip(names, before.tolist(), strict=True))},
        {"nDCG@10": dict(zip(names, after.tolist(), strict=True))},
    )


def result_of(change: Change, kind: str = "regress") -> schema.Result:
    """The result of a verb that compared two sides."""
    return sample_report().model_copy(update={"kind": kind, "change": change, "trials": []})
