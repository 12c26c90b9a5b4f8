"""Published numbers beside those of a comparison, where configuration and metric are the same.

The configuration is the same when the published backend and the trial use the same encoder with the same parameters;
what only one of the two engines has must be at its default. Other sources' numbers for the same system stand beside it,
so that a reader sees where sources disagree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from harness.data.dataset import Dataset
from harness.errors import HarnessError
from harness.metrics import Measure, parse_measure
from harness.plan.backend_spec import BackendSpec, parse_backends
from harness.plan.plan import Plan, Trial
from harness.registry.dataset_cards import DatasetCard
from harness.registry.lookup import find_dataset
from harness.registry.parameters import ParameterValue
from harness.registry.published import Published
from harness.results import schema
from harness.results.verification import printed_value

__all__ = ["published_numbers"]

_MODEL = "model"


def published_numbers(
    plan: Plan, dataset: Dataset, trials: Sequence[schema.TrialResult]
) -> list[schema.PublishedNumber]:
    """Return the published numbers of a dataset that stand beside measured ones.

    None where the comparison searched a part of the documents or queries, or judged them by other files.
    """
    request = plan.request
    changed = (request.sample_queries, request.max_docs, request.labels, plan.files.queries, plan.files.qrels)
    card = find_dataset(dataset.name, request.cards) if "card" in dataset.provenance else None
    if not isinstance(card, DatasetCard) or plan.filter or any(one is not None for one in changed):
        return []
    rows = [row for row in card.published if row.split in (None, dataset.provenance.get("split"))]
    by_label = {trial.label: trial for trial in plan.trials}
    return [
        number
        for result in trials
        if result.status == "ok" and result.label in by_label
        for row in _beside(by_label[result.label], rows, request.cards)
        for number in _numbers(row, result, plan, dataset)
    ]


def _numbers(
    row: Published, result: schema.TrialResult, plan: Plan, dataset: Dataset
) -> Iterator[schema.PublishedNumber]:
    measured = {parse_measure(name): (name, value.mean) for name, value in result.metrics.items()}
    for text, printed in row.scores.items():
        measure = parse_measure(text)
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


def _same_depth(measure: Measure, row: Published, k: int) -> bool:
    """Return whether both rankings are as deep as the metric looks."""
    depths = {k, int(row.options.get("k", k))}
    return len(depths) == 1 or (isinstance(measure.cutoff, int) and measure.cutoff <= min(depths))


def _conditions(row: Published, result: schema.TrialResult, plan: Plan, dataset: Dataset) -> list[str]:
    """Say what was otherwise when a number was published, or is not known; not what has no effect here."""
    if not row.options:
        return ["settings not stated"]
    here = {
        "ties": plan.ties.value,
        "queries": plan.queries.value,
        "relevance": plan.request.relevance,
        "identical_ids": dataset.identical_ids or "keep",
    }
    differing = {name: row.options[name] for name, value in here.items() if row.options.get(name, value) != value}
    counts = {} if result.queries is None else result.queries.model_dump()
    if counts.get(str(differing.get("queries"))) == counts.get(plan.queries.value):
        differing.pop("queries", None)
    return [f"{name}={value}" for name, value in differing.items()]


def _beside(trial: Trial, rows: Sequence[Published], cards: Path | None) -> list[Published]:
    """Return the rows of the trial's configuration, then those of other sources for the same system."""
    same = [row for row in rows if _is_same(trial, row, cards)]
    systems = {_system(row) for row in same}
    return [*same, *(row for row in rows if row not in same and row.backend is None and _system(row) in systems)]


def _system(row: Published) -> str:
    """Return the name of a system without whose it is."""
    return row.system.partition(" (")[0].casefold()


def _is_same(trial: Trial, row: Published, cards: Path | None) -> bool:
    card = trial.spec.card
    if card is None or trial.external:
        return False
    if row.backend is None:  # a leaderboard names the model alone
        return card.encoder == "dense" and trial.parameters.get(_MODEL) == row.system
    try:
        (spec,) = parse_backends([row.backend], cards=cards)
    except HarnessError:  # the card of its backend is not here
        return False
    return spec.card is not None and spec.card.encoder == card.encoder and _same_parameters(trial, spec)


def _same_parameters(trial: Trial, published: BackendSpec) -> bool:
    ours, theirs = _deciding(trial.spec, trial.parameters), _deciding(published, published.parameters)
    if trial.follows_language and theirs.get("analyzer") == "auto":
        # published ones are Anserini's for the language
        theirs["analyzer"] = ours["analyzer"] if str(trial.analyzer).startswith("lucene-") else ""
    shared = ours.keys() & theirs.keys()
    alone = [
        (spec, name, value)
        for spec, values in ((trial.spec, ours), (published, theirs))
        for name, value in values.items()
        if name not in shared
    ]
    return all(ours[name] == theirs[name] for name in shared) and all(
        spec.card is not None and spec.card.parameters[name].default == value for spec, name, value in alone
    )


def _deciding(spec: BackendSpec, values: Mapping[str, ParameterValue]) -> dict[str, ParameterValue]:
    """Return the parameters that change results; times, and where the program lies, do not."""
    known = spec.card.parameters if spec.card is not None else {}
    return {
        name: value
        for name, value in values.items()
        if name in known and known[name].affects not in ("times", "nothing") and name != "jar"
    }
