"""Backends as a result lists them: with a label short enough for a narrow table, and the model that they use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from harness.plan.expressions import split_outside
from harness.results.schema import BackendInfo
from harness.results.schema_base import Json

__all__ = ["LabelledBackend", "backend_infos", "short_labels"]

_LONGEST = 24


class LabelledBackend(NamedTuple):
    """A backend by its label and name, with what is known of its encoder on some dataset."""

    label: str
    name: str
    encoder: Mapping[str, Json]


def backend_infos(backends: Sequence[LabelledBackend]) -> list[BackendInfo]:
    """Return what a result says of each backend, once for each label, in their order."""
    by_label = {backend.label: backend for backend in reversed(backends)}
    listed = [by_label[label] for label in dict.fromkeys(backend.label for backend in backends)]
    short = short_labels([backend.label for backend in listed])
    return [_info(backend, label) for backend, label in zip(listed, short, strict=True)]


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

    A label that is short stays. A longer one becomes its name, followed where others share the name by the settings in
    which they differ (``qdrant[shards=2]``); ``#3``, its place, where that is too long or taken.
    """
    names = [_name(label) for label in labels]
    settings = [_settings(label) for label in labels]
    shared = {
        name: set.intersection(*(set(own) for other, own in zip(names, settings, strict=True) if other == name))
        for name in names
    }
    short = []
    for label, name, own in zip(labels, names, settings, strict=True):
        rest = ";".join(setting for setting in own if setting not in shared[name])
        wanted = label if len(label) <= _LONGEST else f"{name}[{rest}]" if rest else name
        short.append(wanted)
    counts = Counter(short)
    return [
        label if counts[label] == 1 and len(label) <= _LONGEST else f"#{place}"
        for place, label in enumerate(short, start=1)
    ]


def _name(label: str) -> str:
    return label.partition(":")[0]


def _settings(label: str) -> list[str]:
    return [setting.strip() for setting in split_outside(label.partition(":")[2], ";") if setting.strip()]
