"""Published numbers next to measured numbers of the same configuration and metric: of a dataset, and means.

The configuration is the same if the published backend and the trial use the same encoder with the same parameters;
parameters that only one of the two engines has must be at their defaults. Other sources' numbers for the same system
are listed next to it, so that a reader sees where sources disagree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from harness.data.dataset import Dataset
from harness.errors import HarnessError
from harness.metrics import Metric, parse_metric
from harness.plan.backend_spec import BackendSpec, parse_backend_specs
from harness.plan.plan import Plan, Trial
from harness.registry.cards import BackendCard
from harness.registry.dataset_cards import DatasetCard, DatasetFamily
from harness.registry.lookup import find_cards, find_dataset
from harness.registry.parameters import ParameterValue
from harness.registry.published import PublishedNumber
from harness.results import schema
from harness.results.verification import printed_value

_MODEL = "model"
_NOT_STATED = "settings not stated"


class PublishedHere(NamedTuple):
    """Published numbers of one dataset, and the names under which each backend's configuration is published there.

    ``systems`` are by label, without whose they are: ``BM25 (Anserini)`` is ``bm25``.
    """

    numbers: Sequence[schema.PublishedNumber] = ()
    systems: Mapping[str, frozenset[str]] = {}


def published_numbers(plan: Plan, dataset: Dataset, trials: Sequence[schema.TrialResult]) -> PublishedHere:
    """Return the published numbers of a dataset for the configurations that were measured.

    Nothing if the comparison searched a part of the documents or queries, or judged them by other files.
    """
    request = plan.request
    changed = (request.sample_queries, request.max_docs, request.labels, plan.files.queries, plan.files.qrels)
    card = find_dataset(dataset.name, request.cards) if "card" in dataset.provenance else None
    if not isinstance(card, DatasetCard) or plan.filter or any(value is not None for value in changed):
        return PublishedHere()
    rows = [row for row in card.published if row.split in (None, dataset.provenance.get("split"))]
    cards = find_cards("backends", request.cards) if rows else {}
    by_label = {trial.label: trial for trial in plan.trials}
    numbers: list[schema.PublishedNumber] = []
    systems: dict[str, frozenset[str]] = {}
    for result in trials:
        trial = by_label.get(result.label)
        if result.status != "ok" or trial is None:
            continue
        beside = _beside(trial, rows, cards)
        numbers += (number for row in beside for number in _numbers(row, result, plan, dataset))
        if request.split in (None, card.split):
            model = [str(trial.parameters[_MODEL]).casefold()] if _is_all_model(trial) else []
            systems[result.label] = frozenset([*map(_system, beside), *model])
    return PublishedHere(numbers, systems)


def published_means(
    board: schema.Leaderboard, conditions: Mapping[str, PublishedHere], plan: Plan
) -> Iterator[schema.PublishedNumber]:
    """Yield published means over members of a family, if each member was searched in the same configuration.

    Args:
        board: Means of every backend on every dataset and aggregated task.
        conditions: Dataset -> its published numbers.
        plan: The plan of all datasets.
    """
    values = {(row.backend, parse_metric(row.metric)): row for row in board.rows}
    for family in dict.fromkeys(name.partition("/")[0] for name in board.datasets if "/" in name):
        card = find_dataset(family, plan.request.cards)
        for published in card.published if isinstance(card, DatasetFamily) else ():
            members = [f"{family}/{member}" for member in published.over]
            if not members or not {*members} <= {*board.datasets}:
                continue
            datasets = [part for member in members for part in board.families.get(member, [member])]
            for label in board.search_seconds:
                if all(_system(published) in conditions[name].systems.get(label, ()) for name in datasets):
                    rows = {metric: row for (backend, metric), row in values.items() if backend == label}
                    yield from _means(published, members, family, rows, plan.request.k)


def _means(
    published: PublishedNumber,
    members: list[str],
    family: str,
    rows: Mapping[Metric, schema.LeaderboardRow],
    k: int,
) -> Iterator[schema.PublishedNumber]:
    for text, printed in published.scores.items():
        measure = parse_metric(text)
        row = rows.get(measure)
        values = [row.values[member] for member in members] if row is not None else [None]
        present = [value for value in values if value is not None]
        if row is not None and len(present) == len(members) and _same_depth(measure, published, k):
            yield schema.PublishedNumber(
                dataset=family,
                datasets=members,
                backend=row.backend,
                metric=row.metric,
                system=published.system,
                source=published.source,
                printed=printed,
                difference=float(np.mean(present)) - printed_value(printed),
                conditions=[] if published.options else [_NOT_STATED],
            )


def _numbers(
    row: PublishedNumber, result: schema.TrialResult, plan: Plan, dataset: Dataset
) -> Iterator[schema.PublishedNumber]:
    measured = {parse_metric(name): (name, value.mean) for name, value in result.metrics.items()}
    for text, printed in row.scores.items():
        measure = parse_metric(text)
        if measure in measured and _same_depth(measure, row, plan.request.k):
            metric, mean = measured[measure]
            yield schema.PublishedNumber(
                dataset=dataset.name,
                backend=result.label,
                metric=metric,
                system=row.system,
                source=row.source,
                printed=printed,
                difference=mean - printed_value(printed),
                conditions=_conditions(row, result, plan, dataset),
            )


def _same_depth(measure: Metric, row: PublishedNumber, k: int) -> bool:
    """Return whether both rankings are as deep as the metric looks."""
    depths = {k, int(row.options.get("k", k))}
    return len(depths) == 1 or (isinstance(measure.cutoff, int) and measure.cutoff <= min(depths))


def _conditions(row: PublishedNumber, result: schema.TrialResult, plan: Plan, dataset: Dataset) -> list[str]:
    """Describe conditions of a published number that differ or are not known, and have an effect here."""
    if not row.options:
        return [_NOT_STATED]
    conditions = {
        "ties": plan.ties.value,
        "queries": plan.queries.value,
        "relevance": plan.request.relevance,
        "identical_ids": dataset.identical_ids or "keep",
    }
    differing = {name: row.options[name] for name, value in conditions.items() if row.options.get(name, value) != value}
    counts = {} if result.queries is None else result.queries.model_dump()
    if counts.get(str(differing.get("queries"))) == counts.get(plan.queries.value):
        differing.pop("queries", None)
    return [f"{name}={value}" for name, value in differing.items()]


def _beside(trial: Trial, rows: Sequence[PublishedNumber], cards: Mapping[str, BackendCard]) -> list[PublishedNumber]:
    """Return the rows of the trial's configuration, then the rows of other sources for the same system."""
    same = [row for row in rows if _is_same(trial, row, cards)]
    systems = {_system(row) for row in same}
    return [*same, *(row for row in rows if row not in same and row.backend is None and _system(row) in systems)]


def _system(row: PublishedNumber) -> str:
    """Return the name of a system without whose it is."""
    return row.system.partition(" (")[0].casefold()


def _is_same(trial: Trial, row: PublishedNumber, cards: Mapping[str, BackendCard]) -> bool:
    card = trial.spec.card
    if card is None or trial.external:
        return False
    if row.backend is None:  # a leaderboard names only the model
        return _is_all_model(trial) and trial.parameters.get(_MODEL) == row.system
    try:
        (spec,) = parse_backend_specs([row.backend], cards)
    except HarnessError:  # the card of its backend is not here
        return False
    return spec.card is not None and spec.card.encoder == card.encoder and _same_parameters(trial, spec)


def _is_all_model(trial: Trial) -> bool:
    """Return whether only the model decides a backend's vectors, so that its name identifies the configuration."""
    card = trial.spec.card
    return card is not None and not trial.external and card.encoder in ("dense", "splade")


def _same_parameters(trial: Trial, published: BackendSpec) -> bool:
    ours, stated = _deciding(trial.spec, trial.parameters), _deciding(published, published.parameters)
    if trial.follows_language and stated.get("analyzer") == "auto":
        # published ones are Anserini's for the language
        stated["analyzer"] = ours["analyzer"] if str(trial.analyzer).startswith("lucene-") else ""
    for spec, values, other_values in ((trial.spec, ours, stated), (published, stated, ours)):
        defaults = spec.card.defaults if spec.card is not None else {}
        if any(value != other_values.get(name, defaults.get(name)) for name, value in values.items()):
            return False
    return True


def _deciding(spec: BackendSpec, values: Mapping[str, ParameterValue]) -> dict[str, ParameterValue]:
    """Return the parameters that change results; times, and the program's location, do not."""
    parameters = spec.card.parameters if spec.card is not None else {}
    return {
        name: value
        for name, value in values.items()
        if name in parameters and parameters[name].affects not in ("times", "nothing") and name != "jar"
    }
