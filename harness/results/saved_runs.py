"""Hits for other tools (``--save-runs``): TREC's run files, or MTEB's predictions, in a folder for each model.

A second stage lies in ``<first>__<reranker>/``, the layout of evaluators that rerank existing hits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from harness.data.types import Run
from harness.errors import UnknownNameError
from harness.loaders.predictions_write import predictions_name, write_predictions
from harness.results.schema import Result, TrialResult
from harness.results.stored import file_name, write_run_file

SAVED_RUNS = "saved-runs"
"""The folder inside a result folder."""
LAYOUTS = ("trec", "mteb")
Runs = Mapping[tuple[str, str], Run]
"""Hits by dataset and label."""


def write_saved_runs(folder: Path, result: Result, runs: Runs, layout: str) -> None:
    """Write the hits of every trial that has any below ``folder``.

    ``trec``: ``<model>/<dataset>.trec``, Parquet if an id holds white space. ``mteb``:
    ``<model>/<TASK>_predictions.json`` with a subset and split for each dataset of the task; a dataset that is not a
    task of MTEB is a task under its own name, with the subset ``default``. Raises UnknownNameError for another layout.
    """
    if layout not in LAYOUTS:
        raise UnknownNameError("layout of runs", layout, LAYOUTS)
    for label, model in _folders(result).items():
        runs_of_label = {dataset: run for (dataset, of_label), run in runs.items() if of_label == label}
        if not runs_of_label:
            continue
        model_folder = folder / model
        model_folder.mkdir(parents=True)
        if layout == "trec":
            for dataset, run in runs_of_label.items():
                write_run_file(model_folder, file_name(dataset), run, ".trec", tag=model)
        else:
            _write_tasks(model_folder, label, result, runs_of_label)


def _write_tasks(model_folder: Path, label: str, result: Result, runs: Mapping[str, Run]) -> None:
    tasks: dict[str, dict[str, dict[str, Run]]] = {}
    for info in result.datasets:
        if info.name in runs:
            facts = info.provenance
            in_mteb = "mteb_task" in facts
            task = facts["mteb_task"] if in_mteb else file_name(info.name)
            subset = facts.get("subset", "default") if in_mteb else "default"
            tasks.setdefault(task, {}).setdefault(subset, {})[facts.get("split") or "test"] = runs[info.name]
    trial = next(trial for trial in result.trials if trial.label == label and trial.dataset in runs)
    reranking = trial.stages.reranking if trial.stages is not None else None
    digest = (trial.encoder if reranking is None else {**trial.encoder, **reranking.facts}).get("model_digest")
    digest_text = None if digest is None else str(digest)
    for task, subsets in tasks.items():
        write_predictions(model_folder / predictions_name(task), subsets, model=_model(trial), revision=digest_text)


def _folders(result: Result) -> dict[str, str]:
    """Return label -> folder: the model's name, or the label if there is no name or several backends share it."""
    trials = {trial.label: trial for trial in reversed(result.trials) if trial.status == "ok"}
    models = {label: _model(trial) for label, trial in trials.items()}
    counts = Counter(models.values())
    plain = {label: model if counts[model] == 1 else label for label, model in models.items()}
    folders = {info.label: _folder(info.label, trials, plain) for info in result.backends if info.label in trials}
    while shared := {folder for folder, count in Counter(folders.values()).items() if count > 1}:
        # no two labels have one file name, so that every pass moves a label, and none twice
        folders = {label: file_name(label) if folder in shared else folder for label, folder in folders.items()}
    return folders


def _folder(label: str, trials: Mapping[str, TrialResult], plain: Mapping[str, str]) -> str:
    stages = trials[label].stages if label in trials else None
    if stages is None or stages.reranking is None:
        return file_name(plain.get(label, label).replace("/", "__"))
    return f"{_folder(stages.components[0], trials, plain)}__{file_name(_model(trials[label]).replace('/', '__'))}"


def _model(trial: TrialResult) -> str:
    if trial.stages is not None:
        return str(trial.parameters.get("model") or trial.name)
    return str(trial.encoder.get("model") or trial.label)
