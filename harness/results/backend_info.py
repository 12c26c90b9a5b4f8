"""Backends as a result lists them: with a label short enough for a narrow table, and the model that they use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from harness.plan.expressions import split_outside
from harness.results.schema import BackendInfo
from harness.results.schema_base import Json

_LONGEST = 24


class LabelledBackend(NamedTuple):
    """A backend by its label and name, with what is known of its encoder on some dataset."""

    label: str
    name: str
    encoder: Mapping[str, Json]


def backend_infos(backends: Sequence[LabelledBackend]) -> list[BackendInfo]:
    """Return what a result says of each backend, once for each label, in their order."""
    listed: dict[str, LabelledBackend] = {}
    for backend in backends:
        if backend.label not in listed or not listed[backend.label].encoder:
            listed[backend.label] = backend
    short = short_labels(list(listed))
    return [_info(backend, label) for backend, label in zip(listed.values(), short, strict=True)]


def _info(backend: LabelledBackend, short_label: str) -> BackendInfo:
    model, dimensions, size = (backend.encoder.get(name) for name in ("model", "dimensions", "parameters_millions"))
    return BackendInfo(
        label=backend.label,
        short_label=short_label,
        name=backend.name,
        model=model if isinstance(model, str) else None,
        dimensions=dimensions if isinstance(dimensions, int) else None,
        parameters_millions=size if isinstance(size, int | float) else None,
    )


def short_labels(labels: Sequence[str]) -> list[str]:
    """Return a label of at most 24 characters for each of several different ones, unique among them.

    A label that is short stays. A longer one becomes its name, followed where others share the name by the settings
    that not all of them have, or by the first one that no other has (``qdrant[shards=2]``), if need be by its value
    alone (``faiss[IVF64,Flat]``); where nothing is short, by its place among all labels (``qdrant#3``).
    """
    settings = {label: _settings(label) for label in labels}
    short: list[str] = []
    for place, label in enumerate(labels, start=1):
        others = [settings[other] for other in labels if other != label and _name(other) == _name(label)]
        unshared = [setting for setting in settings[label] if any(setting not in other for other in others)]
        alone = [setting for setting in unshared if all(setting not in other for other in others)]
        told = [";".join(unshared), *(part for setting in alone for part in (setting, _value(setting)))]
        wanted = [label, *(f"{_name(label)}[{chosen}]" for chosen in told if chosen)]
        wanted += [] if others else [_name(label)]
        taken = {*short, *(other for other in labels if other != label)}
        fitting = (text for text in wanted if len(text) <= _LONGEST and text not in taken)
        place_suffix = f"#{place}"
        short.append(next(fitting, f"{_name(label)[: _LONGEST - len(place_suffix)]}{place_suffix}"))
    return short


def _name(label: str) -> str:
    return label.partition(":")[0]


def _value(setting: str) -> str:
    return setting.partition("=")[2].strip("\"'")


def _settings(label: str) -> list[str]:
    return [setting.strip() for setting in split_outside(label.partition(":")[2], ";") if setting.strip()]
