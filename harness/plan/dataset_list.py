"""The datasets of a comparison: lists, families and aggregated tasks, expanded to the datasets that are loaded.

::

    list   = item {"," item}                    an item with a comma is quoted: "…"
    item   = family "/" member {"," member}     miracl/ko,ja: two members of one family
           | family                             nanobeir: every member
           | name | path | loader spec          cacm, ./my-dataset, mteb:Ko-StrategyQA, hf:x/y:queries=a,qrels=b

A member that names others (``parts`` on its card) is expanded. If the parts are named below it, as the forums of
``beir/cqadupstack``, it is an aggregated task: the mean of its parts counts as one dataset. Elsewhere it selects
members of its family, and each counts.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from harness.errors import UnknownNameError, UsageError
from harness.plan.option_fields import Mistakes
from harness.registry.dataset_cards import DatasetCard, DatasetFamily
from harness.registry.lookup import dataset_names, find_dataset
from harness.user_path import existing_path

_LOADER_OPTION = re.compile(r"\w+=")
"""A further option of a loader spec with several commas: ``qrels=labels`` of ``hf:x/y:queries=a,qrels=b``."""


class NamedDataset(NamedTuple):
    """A dataset by the name, path or spec that loaders take; ``task`` is the aggregated task that it is a part of."""

    name: str
    task: str | None = None


class DatasetList(NamedTuple):
    """Datasets in the order in which they run, each once; ``notes`` name members that were left out, and why."""

    datasets: tuple[NamedDataset, ...]
    notes: tuple[str, ...] = ()


def parse_datasets(text: str, cards: Path | None = None, *, in_memory: Collection[str] = ()) -> DatasetList:
    """Expand a list of datasets; a text that is an existing path is one dataset, even if it has commas.

    Args:
        text: the value of ``--dataset``.
        cards: an additional folder of cards.
        in_memory: names of datasets that are objects in Python, which are not expanded.

    Raises:
        UsageError: nothing is named, or a name is ambiguous.
        UnknownNameError: a name after a member of a family is neither a dataset nor a member of that family. Other
            unknown names are refused when the dataset is located.
    """
    items = _items(text)
    expanded: list[NamedDataset] = []
    notes: list[str] = []
    mistakes = Mistakes()
    family: DatasetFamily | None = None
    for item in items:
        if item in in_memory:
            expanded.append(NamedDataset(item))
            continue
        with mistakes.collected():
            name = _member_name(item, family, cards) if family is not None else item
            family = _family_of(name, cards)
            card = find_dataset(name, cards) if existing_path(name) is None else None
            expanded += _members(card, cards, notes) if card is not None else [NamedDataset(name)]
    mistakes.raise_if_any()
    return DatasetList(tuple(dict.fromkeys(expanded)), tuple(dict.fromkeys(notes)))


def _items(text: str) -> list[str]:
    if text and existing_path(text) is not None:
        return [text]
    items: list[str] = []
    try:
        parts = next(csv.reader([text], skipinitialspace=True)) or [""]
    except csv.Error as error:
        problem = f"--dataset {text!r} is not a list of names: a name holds a line break or is too long"
        raise UsageError(problem, fix="write a,b,c") from error
    for part in map(str.strip, parts):
        if items and _LOADER_OPTION.match(part) and ":" in items[-1]:
            items[-1] += f",{part}"
        else:
            items.append(part)
    if "" in items:
        raise UsageError(
            f"--dataset {text!r} names an empty dataset", fix="give a name, a folder (. for this one), or a list a,b,c"
        )
    return items


def _member_name(item: str, family: DatasetFamily, cards: Path | None) -> str:
    """Return the full name of an item that follows a member of ``family``."""
    if re.search(r"^[.~]|[/:]", item) or os.sep in item:  # a path, or a loader's spec
        return item
    is_path, is_name = Path(item).exists(), find_dataset(item, cards) is not None
    if family.member(item) is None:
        if not is_path and not is_name:
            names = (*family.members, *dataset_names(cards))
            raise UnknownNameError(f"dataset or member of {family.name}", item, names)
        return item
    if is_path or is_name:
        other = f"the folder ./{item}" if is_path else f"the dataset '{item}'"
        raise UsageError(
            f"'{item}' in --dataset may be '{family.name}/{item}' or {other}",
            fix=f"write {family.name}/{item}, or put {f'./{item}' if is_path else item} first in the list",
        )
    return f"{family.name}/{item}"


def _family_of(name: str, cards: Path | None) -> DatasetFamily | None:
    """Return the family of a member that is named ``FAMILY/MEMBER``; None for all else."""
    stem, slash, _ = name.partition("/")
    if not slash or ":" in stem or stem in ("", ".", "..", "~"):
        return None
    card = find_dataset(stem, cards)
    return card if isinstance(card, DatasetFamily) else None


def _members(
    card_or_family: DatasetCard | DatasetFamily, cards: Path | None, notes: list[str]
) -> Iterator[NamedDataset]:
    """Yield the datasets of a card or a family."""
    if isinstance(card_or_family, DatasetFamily):
        below = {
            part
            for card in card_or_family.members.values()
            if _is_aggregate(card, card_or_family.name)
            for part in card.parts
        }
        for name, card in card_or_family.members.items():
            if card.obtain is not None:
                notes.append(f"{card.name} is left out: its owners give it out themselves")
            elif name not in below and (not card.parts or _is_aggregate(card, card_or_family.name)):
                yield from _members(card, cards, notes)
        return
    if not card_or_family.parts:
        yield NamedDataset(card_or_family.name)
        return
    family = card_or_family.name.partition("/")[0]
    task = card_or_family.name if _is_aggregate(card_or_family, family) else None
    for part in card_or_family.parts:
        yield NamedDataset(f"{family}/{part}", task)


def _is_aggregate(card: DatasetCard, family: str) -> bool:
    member_name = card.name.removeprefix(f"{family}/")
    return bool(card.parts) and all(part.startswith(f"{member_name}/") for part in card.parts)
