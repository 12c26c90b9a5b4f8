"""From a request to its plan on this machine, and from a dataset's name to the dataset that the plan searches."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from harness.data.dataset import Dataset, sample_documents, sample_queries
from harness.data.filtering import NO_FILTER
from harness.data.progress import Display, SilentDisplay
from harness.errors import HarnessError, UsageError
from harness.loaders import check_dataset, filter_dataset, load_dataset, load_field_texts, load_metadata
from harness.loaders.registry import parts_of
from harness.pipeline.probes import probes_of
from harness.pipeline.resume import Identities, LookUp, StoredTrials
from harness.plan.callables import Function, refuse_unsent_filters
from harness.plan.capability_checks import plan_of_backends, refuse_documents_without_metadata, refuse_filters
from harness.plan.config import LOCAL, CompareRequest
from harness.plan.dataset_list import DatasetList, NamedDataset, parse_datasets
from harness.plan.option_fields import Mistakes, is_set
from harness.plan.plan import Plan, Trial, among_candidates_of_dataset, set_language, with_vectors
from harness.registry.cards import FIELDS
from harness.results.hit_rules import HitRules
from harness.store.cache import Cache
from harness.user_path import existing_path
from harness.wording import counted
from harness.worker.builds import builds_of
from harness.worker.embeddings import remote_calls
from harness.worker.executor import create_executor

if TYPE_CHECKING:
    from harness.data.labels import Labels

__all__ = [
    "Preview",
    "load_planned",
    "plan_for",
    "preview",
    "resolved_for",
    "sampled",
]


def plan_for(
    request: CompareRequest,
    in_memory: Mapping[str, Dataset] = MappingProxyType({}),
    functions: Mapping[str, Function] = MappingProxyType({}),
) -> Plan:
    """Return the plan of a request on this machine.

    Args:
        request: what to compare.
        in_memory: its datasets that are objects in Python, by name.
        functions: its backends that are objects in Python, by label, or by expression if they have no label.

    Raises:
        UsageError: an argument is wrong, or an engine cannot do what is requested. An UnknownNameError if it is a
            single unknown name.
        DataError: a dataset is missing.
    """
    plan = plan_of_backends(request, functions)
    named_datasets = DatasetList((NamedDataset(plan.dataset_list),), ())
    if plan.dataset_list not in in_memory:
        named_datasets = parse_datasets(plan.dataset_list, request.cards, in_memory=in_memory)
    datasets: list[NamedDataset] = []
    mistakes = Mistakes()
    for dataset in named_datasets.datasets:
        if dataset.name in in_memory:
            datasets.append(dataset)
            continue
        with mistakes.collected(HarnessError):
            parts = () if dataset.task is not None else parts_of(dataset.name)
            datasets += [NamedDataset(part, dataset.name) for part in parts] or [dataset]
            if not parts:
                check_dataset(dataset.name, files=plan.files, cards=request.cards)
    mistakes.raise_if_any()
    if len(datasets) > 1:
        datasets = _each_once(datasets, in_memory)
    _refuse_parts_of_one(plan, datasets, in_memory)
    if plan.has_prompts:
        from harness.plan.dataset_prompts import names_of, refuse_unknown_datasets

        refuse_unknown_datasets(plan, {name for dataset in datasets for name in names_of(dataset)})
    notes = list(named_datasets.notes)
    if in_memory:
        names = ", ".join(in_memory)
        notes.append(
            f"the dataset '{names}' is an object in Python: no command loads it again"
            if len(in_memory) == 1
            else f"the datasets {names} are objects in Python: no command loads them again"
        )
    labels = None
    if request.labels is not None:
        from harness.data.labels import read_labels, refuse_unnamed

        labels = read_labels(request.labels)
        refuse_unnamed(labels, [dataset.name for dataset in datasets])
    return replace(plan, datasets=tuple(datasets), remarks=(*plan.remarks, *notes), labels=labels)


def _each_once(datasets: Sequence[NamedDataset], in_memory: Collection[str]) -> list[NamedDataset]:
    """Return the datasets, each once: one that is named by itself too counts as the part of its task.

    Raises UsageError for a dataset that is a part of two tasks, or that is written in two ways.
    """
    once: dict[str, NamedDataset] = {}
    for dataset in datasets:
        task = once.setdefault(dataset.name, dataset).task
        if task is not None and dataset.task not in (None, task):
            raise UsageError(f"'{dataset.name}' is a part of '{task}' and of '{dataset.task}'", fix="name one of them")
        once[dataset.name] = NamedDataset(dataset.name, task or dataset.task)
    written: dict[Path, str] = {}
    for name in once:
        path = existing_path(name)
        if name in in_memory or path is None:
            continue
        other = written.setdefault(path.resolve(), name)
        if other != name:
            raise UsageError(f"'{other}' and '{name}' are one dataset", fix="name it once")
    return list(once.values())


def _refuse_parts_of_one(plan: Plan, datasets: Sequence[NamedDataset], in_memory: Collection[str]) -> None:
    """Refuse files of one dataset given with several, and all choices of parts given with a dataset already read."""
    request = plan.request
    files = {"queries=FILE": plan.files.queries, "qrels": plan.files.qrels}
    of_one = [name for name, value in files.items() if value is not None]
    if len(datasets) > 1 and of_one:
        problem = f"{', '.join(of_one)} with {len(datasets)} datasets: such a file belongs to one dataset"
        raise UsageError(problem, fix="compare on that dataset separately")
    choices = {
        "split": request.split,
        "queries=FILE": plan.files.queries,
        "qrels": plan.files.qrels,
        "columns": plan.files.columns or None,
        "filter": plan.filter or None,
    }
    options = [name for name, value in choices.items() if value is not None]
    if in_memory and options:
        raise UsageError(
            f"{', '.join(options)} with a Dataset, which is already loaded", fix="give them to Dataset.of, or a path"
        )


def resolved_for(plan: Plan, dataset: Dataset) -> Plan:
    """Return the plan with prompts for the dataset, the analyzers of its language or its vectors, and further notes.

    Raises as :func:`harness.plan.plan.set_language`, :func:`harness.plan.plan.with_vectors` and
    :func:`harness.plan.dataset_prompts.set_prompts`.
    """
    if plan.has_prompts:
        from harness.plan.dataset_prompts import names_of, set_prompts

        names = names_of(plan.datasets[0]) if len(plan.datasets) == 1 else set[str]()
        plan = set_prompts(plan, sorted({dataset.name} | names), dataset.provenance)
    if dataset.candidates is not None:
        plan = among_candidates_of_dataset(plan)
    if dataset.vectors is not None:
        plan = with_vectors(plan, dataset.vectors)
    if dataset.analyzer is None and not any(trial.follows_language for trial in plan.trials):
        return plan
    return set_language(plan, dataset.language, dataset.analyzer)


def load_planned(plan: Plan, cache: Cache, display: Display, in_memory: Dataset | None = None) -> Dataset:
    """Load the only dataset of a plan, or take the given dataset: with later judgments, filtered, not yet sampled."""
    request, progress = plan.request, display.section("load")
    files, cards = plan.files, request.cards
    dataset = in_memory or load_dataset(
        plan.only_dataset, files=files, split=request.split, cards=cards, cache=cache, progress=progress
    )
    if plan.identical_ids is not None:
        dataset = replace(dataset, identical_ids=plan.identical_ids)
    if plan.labels is not None:
        dataset = _labelled(dataset, plan.labels, display, several=plan.is_part)
    if any(trial.parameters.get(FIELDS) for trial in plan.trials) and (names := plan.searched_fields):
        source = in_memory or plan.only_dataset
        texts = load_field_texts(names, source, files=files, cards=cards, cache=cache, progress=progress)
        dataset = replace(dataset, field_texts=texts)
    fields = plan.request.filter_sweep.fields
    if dataset.filters:
        _refuse_filters(plan, dataset, in_memory=in_memory is not None)
    if fields:
        attributes = load_metadata(fields, plan.only_dataset, files=files, cards=cards, cache=cache, progress=progress)
        return replace(dataset, attributes=attributes)
    if not plan.filter and not dataset.filters:
        return dataset
    return filter_dataset(
        dataset, plan.filter, plan.only_dataset, files=files, cards=cards, cache=cache, progress=progress
    )


def _refuse_filters(plan: Plan, dataset: Dataset, *, in_memory: bool) -> None:
    """Refuse filters of queries that documents in memory, a backend or an option cannot have."""
    if in_memory:
        refuse_documents_without_metadata(dataset.name)
    refuse_filters(plan)
    for option in ("filter_sweep", "churn", "concurrency", "rate", "cold"):
        if is_set(plan.request, option):
            raise UsageError(
                f"--{option.replace('_', '-')} does not apply the filters that questions of '{dataset.name}' have",
                fix="leave it out, or take a golden set without filters",
            )
    ids = dataset.queries.ids.to_list()
    conditions = [{**dataset.filters.get(query, NO_FILTER), **plan.filter} for query in ids]
    for trial in plan.trials:
        if trial.spec.called is not None:
            refuse_unsent_filters(trial.spec.called, ids, conditions)


def _labelled(dataset: Dataset, labels: Labels, display: Display, *, several: bool) -> Dataset:
    """Return the dataset with judgments that came later; raises DataError if they contradict its own.

    Raises UsageError if all are of other datasets, unless ``several`` are compared.
    """
    from harness.data.labels import labels_by_dataset, refuse_foreign, settle, with_labels

    if not several:
        labels_by_dataset(labels, [dataset.name])
    settled = settle([*labels.get(None, ()), *labels.get(dataset.name, ())], dataset.corpus)
    display.done("labels", f"{counted(len(settled.grades), 'judgment')} of {dataset.name}")
    refuse_foreign(settled.grades, queries=dataset.queries.ids, documents=dataset.corpus.ids)
    return replace(dataset, qrels=with_labels(dataset.qrels, settled), findings=tuple(settled.findings))


def sampled(dataset: Dataset, plan: Plan) -> Dataset:
    """Return the sample requested for a quick look; documents judged for queries that are left out may be dropped.

    Raises UsageError if that is too little for a probe that the plan requests, or for ``--tune``.
    """
    request = plan.request
    if request.sample_queries is not None:
        dataset = sample_queries(dataset, request.sample_queries, request.seed)
    if request.max_docs is not None:
        dataset = sample_documents(dataset, request.max_docs, request.seed)
    for probe in probes_of(plan):
        if probe.record is not None:
            probe.refuse(plan, dataset)
    if plan.tuning is not None:
        from harness.results.tuning import refuse_few_queries  # not for comparisons without --tune

        refuse_few_queries(plan.tuning, plan, dataset)
    return dataset


class Preview(NamedTuple):
    """A plan as it would run on one dataset, and the known facts about each of its trials, in its order."""

    plan: Plan
    look_ups: list[LookUp]


def preview(plan: Plan, display: Display | None = None) -> list[Preview]:
    """Return the facts known before trials run, by dataset: their keys, and whether stored outcomes would be used.

    Datasets are read, because keys hold their content; nothing is analysed, encoded or fetched and no engine starts,
    but engines are asked for their versions. ``reason`` says so if a key cannot be made on this machine. Raises
    DataError for malformed collections.
    """
    cache, visible_display = Cache(), display if display is not None else SilentDisplay()
    return [_preview(plan.on(dataset), cache, visible_display) for dataset in plan.datasets]


def _preview(plan: Plan, cache: Cache, display: Display) -> Preview:
    dataset = sampled(load_planned(plan, cache, display), plan)
    plan = resolved_for(plan, dataset)
    with tempfile.TemporaryDirectory(prefix="harness-preview-") as work:
        executor = create_executor(replace(plan.request, executor=LOCAL))  # a preview starts no cluster
        identities = Identities(executor, Path(work), display, fetch=False)
        stored = StoredTrials(cache, HitRules.of(dataset).deepened(plan), dataset, identities)
        return Preview(plan, [_look_up(stored, trial, plan, dataset, cache) for trial in plan.trials])


def _look_up(stored: StoredTrials, trial: Trial, plan: Plan, dataset: Dataset, cache: Cache) -> LookUp:
    try:
        look_up = stored.look_up(trial)
        return replace(look_up, remote=remote_calls(trial, dataset, cache), builds=builds_of(trial, plan))
    except HarnessError as error:
        return LookUp(None, None, f"no key can be made: {error.problem}")
