"""Backends as a result lists them: with a label short enough for a narrow table, and the model that they use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from harness.errors import UsageError
from harness.plan.callables import CALLABLE_KINDS
from harness.plan.expressions import split_outside, without_parentheses
from harness.plan.stages import fusions
from harness.results.schema import BackendInfo
from harness.results.schema_base import Json
from harness.wording import common_start, short_ids, without_middle

_LONGEST = 24
_LEAST_VALUE = 6
_UNSPLIT = frozenset({"run", *CALLABLE_KINDS})
"""Names of backends whose text after the colon has no settings."""


class LabelledBackend(NamedTuple):
    """A backend by its label and name, with the known facts about its encoder on some dataset."""

    label: str
    name: str
    encoder: Mapping[str, Json]


def backend_infos(backends: Sequence[LabelledBackend]) -> list[BackendInfo]:
    """Return a result's information on each backend, once for each label, in their order."""
    infos: dict[str, LabelledBackend] = {}
    for backend in backends:
        if backend.label not in infos or not infos[backend.label].encoder:
            infos[backend.label] = backend
    rows = []
    for backend, short_label in zip(infos.values(), short_labels(list(infos)), strict=True):
        model, dimensions, size = (backend.encoder.get(name) for name in ("model", "dimensions", "parameters_millions"))
        rows.append(
            BackendInfo(
                label=backend.label,
                short_label=short_label,
                name=backend.name,
                model=model if isinstance(model, str) else None,
                dimensions=dimensions if isinstance(dimensions, int) else None,
                parameters_millions=size if isinstance(size, int | float) else None,
            )
        )
    return rows


@dataclass(frozen=True, slots=True)
class _Slot:
    """One backend, fusion or second stage in a label: its name between other parts of the label, and its settings.

    ``kind`` is the word before a file, an address or a function; empty for the name of a backend.
    """

    name: str
    settings: tuple[str, ...] = ()
    before: str = ""
    after: str = ""
    kind: str = ""


def short_labels(labels: Sequence[str]) -> list[str]:
    """Return a label of at most 24 characters for each of several different ones, unique among them.

    A short label stays. A longer label becomes the names of its backends and stages (``chroma|keywords``,
    ``rrf:lucene+chroma``). If others have the same names, these are followed by the settings that not all of them have,
    or by the first setting that no other has (``qdrant[shards=2]``, ``chroma[ef_search=9]|keywords``), if need be only
    by its value (``faiss[IVF64,Flat]``), without the part that the values have in common (``dense[MiniLM-L6-v2]``). If
    nothing is short, the names are followed by the position among all labels (``chroma#3``), or lose their middle.
    """
    if all(len(label) <= _LONGEST for label in labels):
        return list(labels)
    parsed = {label: _slots(label) for label in labels}
    names = _short_names(slot for slots in parsed.values() for slot in slots)
    short: list[str] = []
    for position, label in enumerate(labels, start=1):
        taken = {*short, *(other for other in labels if other != label)}
        bare, suffix = _written(parsed[label], [], names), f"#{position}"
        cut = [without_middle(bare, _LONGEST), f"{without_middle(bare, _LONGEST - len(suffix))}{suffix}"]
        texts = [*_candidates(label, parsed, names), f"{bare}{suffix}", *cut]
        short.append(next(text for text in texts if len(text) <= _LONGEST and text not in taken))
    return short


def abbreviations(labels: Iterable[str]) -> dict[str, str]:
    """Return the short label of each label that has another short one, as :func:`short_labels` finds it."""
    different = list(dict.fromkeys(labels))
    return {label: short for label, short in zip(different, short_labels(different), strict=True) if label != short}


def _candidates(label: str, parsed: Mapping[str, Sequence[_Slot]], names: Mapping[str, str]) -> Iterator[str]:
    """Yield texts for a label, the best first, however long they are."""
    yield label
    slots = parsed[label]
    alike = [
        other
        for text, other in parsed.items()
        if text != label and [slot.name for slot in other] == [slot.name for slot in slots]
    ]
    settings = [
        (number_of_setting, setting) for number_of_setting, slot in enumerate(slots) for setting in slot.settings
    ]
    unshared = [
        (number_of_setting, text)
        for number_of_setting, text in settings
        if any(text not in other[number_of_setting].settings for other in alike)
    ]
    alone = [
        (number_of_setting, text)
        for number_of_setting, text in unshared
        if all(text not in other[number_of_setting].settings for other in alike)
    ]
    yield _written(slots, unshared, names)
    for number_of_setting, setting in alone:
        yield _written(slots, [(number_of_setting, setting)], names)
    for number_of_setting, setting in alone:
        yield _written(slots, [(number_of_setting, _value(setting))], names)
    for number_of_setting, setting in alone:
        values = [
            _value(text) for other in alike for text in other[number_of_setting].settings if _key(text) == _key(setting)
        ]
        value = _value(setting)
        value = value.removeprefix(_common(value, values))
        yield _written(slots, [(number_of_setting, value)], names)
        room = _LONGEST - len(_written(slots, [], names)) - 2
        if room >= _LEAST_VALUE:
            yield _written(slots, [(number_of_setting, without_middle(value, room))], names)


def _short_names(slots: Iterable[_Slot]) -> dict[str, str]:
    """Return how each name is shown: files and addresses lose the part that they share with others of their kind."""
    alike: dict[str, list[str]] = {}
    for slot in slots:
        alike.setdefault(slot.kind, []).append(slot.name)
    room = {kind: _LONGEST - len(f"{kind}:") if kind else _LONGEST for kind in alike}
    return {name: short for kind, names in alike.items() for name, short in short_ids(names, room[kind]).items()}


def _written(slots: Sequence[_Slot], chosen: Sequence[tuple[int, str]], names: Mapping[str, str]) -> str:
    """Return the names of all slots, each followed by the ``chosen`` part of its settings."""
    parts = []
    for number, slot in enumerate(slots):
        settings_text = ";".join(text for owner, text in chosen if owner == number)
        parts.append(f"{slot.before}{names[slot.name]}{f'[{settings_text}]' if settings_text else ''}{slot.after}")
    return "".join(parts)


def _slots(label: str) -> list[_Slot]:
    """Return the parts of a label; a label that is not an expression is a single name."""
    try:
        first, *later = split_outside(without_parentheses(label), "|")
        name, _, rest = first.partition(":")
        slots = [_Slot(name, _settings(rest))]
        if name in _UNSPLIT:
            slots = [_Slot(name), _Slot(rest, before=":", kind=name)]
        if name in fusions():
            components, *parameters = split_outside(rest, ";")
            slots = [_Slot(name, tuple(parameters))]
            for number, component in enumerate(split_outside(components, "+")):
                inner, before = _slots(component), "+" if number else ":"
                if len(inner) > 1:
                    inner[0] = replace(inner[0], before=f"{before}({inner[0].before}")
                    inner[-1] = replace(inner[-1], after=f"{inner[-1].after})")
                else:
                    inner = [replace(inner[0], before=before)]
                slots += inner
        for stage in later:
            name, _, rest = stage.partition(":")
            slots.append(_Slot(name, _settings(rest), before="|"))
    except UsageError:
        return [_Slot(label)]
    return slots


def _settings(text: str) -> tuple[str, ...]:
    return tuple(setting.strip() for setting in split_outside(text, ";") if setting.strip())


def _key(setting: str) -> str:
    return setting.partition("=")[0]


def _value(setting: str) -> str:
    return setting.partition("=")[2].strip("\"'")


def _common(value: str, other_values: Sequence[str]) -> str:
    """Return the beginning that a value has in common with others, up to a separator."""
    common = common_start([value, *other_values]) if other_values else ""
    return common[: max(common.rfind(separator) for separator in "/-_.:") + 1]
