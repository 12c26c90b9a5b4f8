"""``harness.agreement``: two sets of labels of the same documents, and the backends' order under either of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from harness.data.labels import read_labels, settle
from harness.data.memory import qrels_from_dict
from harness.errors import UsageError
from harness.metrics import QuerySet
from harness.metrics.agreement import kendall_tau_of_scores
from harness.metrics.scores import defined
from harness.pipeline.regress.read_snapshot import read_snapshots
from harness.pipeline.regress.rescoring import scorable, score_again
from harness.results.judge_results import Agreement, GradeDifference, KappaInterval, RankedBackend, RankingAgreement
from harness.results.snapshot import ResultSnapshot
from harness.stats.kappa import WEIGHTINGS, cohen_kappa, confusion_matrix
from harness.user_path import user_path

Pair = tuple[str | None, str, str]
"""Dataset, query and document."""
Grades = Mapping[Pair, int]


def agreement(first: str | Path, second: str | Path, *, result: str | Path | None = None) -> Agreement:
    """Compare two files of labels, of two people or of a person and a model.

    Args:
        first: A file of labels, as ``--labels`` takes it.
        second: The other file.
        result: A result folder or a baseline: its backends are ranked under either set of labels.

    Raises:
        UsageError, DataError: for a file that cannot be read, files without a common pair of query and document, and
            labels that do not name their dataset although there are several.
        ResultError: for a result that cannot be read.
    """
    paths = user_path(first), user_path(second)
    sides = [] if result is None else read_snapshots(user_path(result))
    of_first, of_second = _same_datasets([_grades(path) for path in paths], sides)
    if not of_first.keys() & of_second.keys():
        raise UsageError(
            f"'{paths[0]}' and '{paths[1]}' have no pair of query and document in common",
            fix="label the same documents twice, and compare these files",
        )
    return compare_grades(str(paths[0]), of_first, str(paths[1]), of_second, sides)


def compare_grades(
    first: str, of_first: Grades, second: str, of_second: Grades, sides: Sequence[ResultSnapshot]
) -> Agreement:
    """Return how the labels of two named sets agree; ``sides`` are results whose backends they rank."""
    common = [pair for pair in of_first if pair in of_second]
    grades, counts = confusion_matrix([of_first[pair] for pair in common], [of_second[pair] for pair in common])
    kappas = {weighting: cohen_kappa(grades, counts, weighting) for weighting in WEIGHTINGS}
    different = [pair for pair in common if of_first[pair] != of_second[pair]]
    different.sort(key=lambda pair: -abs(of_first[pair] - of_second[pair]))
    return Agreement(
        first=first,
        second=second,
        pairs=len(common),
        only_first=len(of_first) - len(common),
        only_second=len(of_second) - len(common),
        grades=grades,
        confusion=counts.tolist(),
        agreed=float(np.trace(counts)) / len(common) if common else None,
        kappa=[
            KappaInterval(
                weighting=weighting, value=defined(kappa.value), low=defined(kappa.low), high=defined(kappa.high)
            )
            for weighting, kappa in kappas.items()
        ],
        differences=[
            GradeDifference(
                dataset=pair[0], query_id=pair[1], doc_id=pair[2], first=of_first[pair], second=of_second[pair]
            )
            for pair in different
        ],
        rankings=[
            ranking
            for side in sides
            if (ranking := _ranking(side, *(_select_grades(of, common, side) for of in (of_first, of_second))))
        ],
    )


def _grades(path: Path) -> dict[Pair, int]:
    return {
        (dataset, *pair): grade
        for dataset, labels in read_labels([path]).items()
        for pair, grade in settle(labels).grades.items()
    }


def _same_datasets(sets: Sequence[Grades], sides: Sequence[ResultSnapshot]) -> list[Grades]:
    """Return the sets with the same names of datasets: labels that name none are of the only one."""
    names = {pair[0] for grades in sets for pair in grades} | {side.report.dataset.name for side in sides}
    datasets = sorted(name for name in names if name is not None)
    if None in names and len(datasets) > 1:
        raise UsageError(
            f"some labels name none of {len(datasets)} datasets",
            fix=f'add it to their lines: "dataset": "{datasets[0]}"',
        )
    only = datasets[0] if len(datasets) == 1 else None
    return [{(only if pair[0] is None else pair[0], *pair[1:]): grade for pair, grade in of.items()} for of in sets]


def _select_grades(grades: Grades, pairs: Sequence[Pair], side: ResultSnapshot) -> dict[str, dict[str, int]]:
    """Return the grades of some pairs on a result's dataset, by query and document."""
    chosen: dict[str, dict[str, int]] = {}
    for dataset, query, document in pairs:
        if dataset == side.report.dataset.name:
            chosen.setdefault(query, {})[document] = grades[dataset, query, document]
    return chosen


def _ranking(
    side: ResultSnapshot, first: Mapping[str, Mapping[str, int]], second: Mapping[str, Mapping[str, int]]
) -> RankingAgreement | None:
    """Score every backend by either set of labels alone; None without common labels, or without a metric for them."""
    metrics = scorable([side], side.measures)
    if not first or not metrics:
        return None
    name = next(iter(metrics))
    backends = []
    for label in side.labels:
        run = side.hits(label)
        if run is None or not set(first) & set(run.query_ids):
            continue
        means = []
        for grades in (first, second):
            values = score_again(side, run, qrels_from_dict(grades), {name: metrics[name]}, queries=QuerySet.JUDGED)[
                name
            ]
            means.append(float(np.mean(list(values.values()))))
        backends.append(RankedBackend(backend=label, first=means[0], second=means[1]))
    tau = kendall_tau_of_scores([one.first for one in backends], [one.second for one in backends])
    return RankingAgreement(
        dataset=side.report.dataset.name, metric=name, queries=len(first), tau=defined(tau), backends=backends
    )
