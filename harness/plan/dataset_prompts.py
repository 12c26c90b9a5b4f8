"""Prompts and instructions that differ from dataset to dataset: ``query_prompt@DATASET=…`` and ``{instruction}``."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from harness.encoders.settings import INSTRUCTION, parse_prompt
from harness.errors import UnknownNameError, UsageError
from harness.plan.dataset_list import NamedDataset
from harness.plan.option_fields import Mistakes
from harness.plan.plan import Plan, Trial, check_model
from harness.registry.parameters import BY_DATASET, ParameterValue

_SUFFIX = "_prompt"
_OF_DOCUMENTS = "document_prompt"
STATED_FOR = {"document": "document_instruction", "query": "instruction"}
"""Role of texts to the entry of a dataset's provenance that holds its instruction for them."""


def names_of(dataset: NamedDataset) -> set[str]:
    """Return the names that a prompt may give a dataset: as written, of its task, and of its folder or file."""
    return {dataset.name, Path(dataset.name).name, *([dataset.task] if dataset.task is not None else [])}


def refuse_unknown_datasets(plan: Plan, names: Collection[str]) -> None:
    """Raise UnknownNameError for a prompt of a dataset that is none of ``names``."""
    for trial in plan.trials:
        for key in trial.spec.overrides:
            parameter, separator, dataset = key.partition("@")
            if separator and dataset not in names:
                raise UnknownNameError("dataset", dataset, names, of=f"{parameter}@ in '{trial.label}'")


def set_prompts(plan: Plan, names: Iterable[str], provenance: Mapping[str, str]) -> Plan:
    """Return the plan for a dataset, with the prompts that are given for it, and its own instruction in them.

    Args:
        plan: The plan of all datasets.
        names: The names of the dataset.
        provenance: Facts about the dataset, with its instructions under the values of :data:`STATED_FOR`.

    Raises:
        UsageError: A prompt needs an instruction that the dataset does not state, or does not fit its model.
    """
    mistakes, all_names = Mistakes(), list(names)
    trials = tuple(
        mistakes.catch(partial(_for_dataset, trial, all_names, provenance)) or trial for trial in plan.trials
    )
    mistakes.raise_if_any()
    return replace(plan, trials=trials)


def _for_dataset(trial: Trial, names: Collection[str], provenance: Mapping[str, str]) -> Trial:
    parameters, overrides = dict(trial.parameters), trial.spec.overrides
    chosen = {key: overrides[f"{key}@{name}"] for key in BY_DATASET for name in names if f"{key}@{name}" in overrides}
    for key in chosen:  # a text for this dataset replaces the name of a prompt for all, and the other way round
        other = f"{key}_name" if key.endswith(_SUFFIX) else key.removesuffix("_name")
        if other in parameters and other not in chosen:
            parameters[other] = ""
    for key, value in {**{key: parameters[key] for key in BY_DATASET if key in parameters}, **chosen}.items():
        parameters[key] = _fill_in_instruction(trial, key, value, names, provenance)
    if parameters == trial.parameters:
        return trial
    changed = replace(trial, parameters=parameters)
    check_model(changed)
    return changed


def _fill_in_instruction(
    trial: Trial, key: str, value: ParameterValue, names: Collection[str], provenance: Mapping[str, str]
) -> ParameterValue:
    """Return the value of a parameter with the dataset's instruction in place of ``{instruction}``."""
    text = (parse_prompt(str(value)) if key.endswith(_SUFFIX) else str(value)) or ""
    if INSTRUCTION not in text:
        misspelt = re.search(re.escape(INSTRUCTION), text, re.IGNORECASE)
        if misspelt is not None:
            raise UsageError(
                f"backend '{trial.label}': {key} holds {misspelt[0]}, which the model would read as it stands",
                fix=f"write {INSTRUCTION} for the dataset's own instruction",
            )
        return value
    role = "document" if key == _OF_DOCUMENTS else "query"
    instruction = provenance.get(STATED_FOR[role])
    if not instruction:
        name = next(iter(names), "DATASET")
        raise UsageError(
            f"backend '{trial.label}': {key} holds {INSTRUCTION}, and dataset '{name}' states no instruction for its "
            f"{'documents' if role == 'document' else 'queries'}",
            fix=f"give its text: {key}@{name}=…; tasks of MTEB state one, and so may a dataset's card",
        )
    text = text.replace(INSTRUCTION, instruction)
    return json.dumps(text, ensure_ascii=False) if key.endswith(_SUFFIX) else text
