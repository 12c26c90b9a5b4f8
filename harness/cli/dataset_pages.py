"""Tables of datasets, and a page for a dataset or a family: the terminal output of ``harness datasets``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.cards import name_column, sentence_column, texts_table
from harness.cli.output import page
from harness.data.languages import language_name
from harness.document.model import Block, Column, Facts, Notes, Table
from harness.registry.dataset_cards import DatasetCard, DatasetFamily
from harness.registry.published import PublishedNumber
from harness.wording import counted, unread_files_in_words

if TYPE_CHECKING:
    from harness.loaders.base import LocalFiles
    from harness.loaders.fetching import StoredFiles


_UNSTATED = "not stated"
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
_STEP = 1024
_MANY = 3
_PUBLISHED = 10
_NAME, _SUMMARY = name_column("dataset"), sentence_column("summary")


def list_table(cards_and_families: Iterable[DatasetCard | DatasetFamily]) -> Table:
    """Return a row for each dataset or family: how many it holds, how large they are, languages, licence."""
    rows = []
    for entry in cards_and_families:
        cards = list(entry.members.values()) if isinstance(entry, DatasetFamily) else [entry]
        number = f"{len(cards)}" if isinstance(entry, DatasetFamily) else ""
        counts = [card.documents for card in cards if card.documents is not None]
        row = (entry.name, number, _range(counts), _one_or_count([card.language for card in cards], "languages"))
        rows.append((*row, _one_or_count([_short(card.licence) for card in cards], "licences"), entry.summary))
    return texts_table([_NAME, Column("members"), Column("documents"), "language", "licence", _SUMMARY], rows)


def members_table(cards: Iterable[DatasetCard]) -> Table:
    """Return a row for each dataset: its size, its language, its licence."""
    rows = [
        (
            card.name,
            _cell(card.documents),
            _cell(card.queries_of(card.split)),
            card.language if card.query_language is None else f"{card.language}/{card.query_language}",
            _short(card.licence),
            card.summary,
        )
        for card in cards
    ]
    return texts_table([_NAME, Column("documents"), Column("queries"), "language", "licence", _SUMMARY], rows)


def family_page(family: DatasetFamily, *, all_published: bool = False) -> str:
    """Return the members of a family, and the scores published over several of them."""
    cards = list(family.members.values())
    facts = [
        ("members", f"{len(cards)}"),
        ("language", _join_values(card.language for card in cards)),
        ("licence", _join_values(_short(card.licence) for card in cards)),
        ("source", _one_or_count([card.source for card in cards], "places, which each member's page names")),
        ("pairs", "DOCUMENTS-QUERIES, two members: documents of one, queries of the other" if family.pairs else ""),
        ("card", str(family.path)),
    ]
    return page(
        _present(facts),
        members_table(cards),
        *_published(family.published, "published", all_published=all_published),
        title=f"{family.name}: {family.summary}",
    )


def card_page(card: DatasetCard, stored: StoredFiles | str | None, *, all_published: bool = False) -> str:
    """Return everything that a card says; ``stored`` are the local files, or the reason why they are unknown."""
    counts = [
        ("documents", _count(card.documents)),
        ("empty", _count(card.empty_documents) if card.empty_documents is not None or card.location else None),
        ("queries", _counts_by_split(card.split_queries) or _count(card.queries)),
        ("judgments", _counts_by_split(card.judgments) or _UNSTATED),
        ("unknown", _counts_by_split(card.judgments_of_unknown_documents, "judgments of documents that it lacks")),
        ("split", _split(card)),
    ]
    facts = [
        *([] if card.parts else counts),
        ("language", _language(card)),
        ("analyzer", card.analyzer),
        ("text", f" + {card.separator!r} + ".join(card.fields)),
        ("fields", ", ".join(f"{role}={name}" for role, name in card.columns.items())),
        ("identical ids", {"keep": "kept", "drop": "dropped before scoring"}.get(card.identical_ids or "")),
        ("empty documents", "dropped" if card.drop_empty else None),
        ("metric", card.metric),
        ("note", card.note),
        ("licence", card.licence),
        ("citation", card.citation),
        ("source", card.source),
        ("obtain", card.obtain),
        ("parts", ", ".join(f"{card.name.partition('/')[0]}/{part}" for part in card.parts)),
        ("read as", card.spec),
        ("format", card.format),
        ("location", None if card.location is None else str(card.location)),
        ("queries in", None if card.queries_file is None else str(card.queries_file)),
        ("judgments in", None if card.qrels_file is None else str(card.qrels_file)),
        ("card", str(card.path)),
        ("here", f"not known: {stored}" if isinstance(stored, str) else None),
        *([] if stored is None or isinstance(stored, str) else stored_facts(stored).rows),
    ]
    return page(
        _present(facts),
        *_published(card.published, f"published for '{card.split}'", all_published=all_published),
        title=f"{card.name}: {card.summary}",
    )


def stored_facts(stored: StoredFiles) -> Facts:
    """Return the local files of a dataset, labelled."""
    facts = [
        ("downloaded", f"{f'{split}: ' if split else ''}{_state(local)}")
        for split, local in (stored.downloaded or {}).items()
    ]
    if stored.prepared:
        total = sum(entry.bytes for entry in stored.prepared)
        facts.append(("prepared", f"{size(total)} in {_location([entry.path for entry in stored.prepared])}"))
    if stored.unread_files:
        facts.append(("folder", unread_files_in_words(stored.unread_files)))
    return _present(facts or [("prepared", "nothing")])


def _present(facts: Sequence[tuple[str, str | None]]) -> Facts:
    """Return the facts that are stated."""
    return Facts("", [(label, text) for label, text in facts if text], open=True)


def size(count: int) -> str:
    """Return a number of bytes in the unit in which people say it."""
    amount, units = float(count), iter(_UNITS)
    unit = next(units)
    while amount >= _STEP and unit != _UNITS[-1]:
        amount, unit = amount / _STEP, next(units)
    return f"{amount:,.0f} {unit}" if unit == _UNITS[0] else f"{amount:,.1f} {unit}"


def _state(local: LocalFiles) -> str:
    if not local.paths:
        return "nothing" if local.complete is not True else "nothing is missing"
    complete_parts = {
        True: "all files; fetch checks them",
        False: "a part of it",
        None: "loading it shows whether anything is missing",
    }
    return f"{size(local.size)} in {_location(local.paths)} ({complete_parts[local.complete]})"


def _location(paths: Sequence[Path]) -> str:
    """Return the common folder of several paths, or the only path."""
    return str(paths[0]) if len(paths) == 1 else os.path.commonpath(paths)


def _published(published: Sequence[PublishedNumber], title: str, *, all_published: bool) -> list[Block]:
    """Return a table of published scores, one column a metric, with the sources below; empty without scores.

    Scores of a family name the members whose mean they are.
    """
    if not published:
        return []
    rows = published if all_published else published[:_PUBLISHED]
    metrics = list(dict.fromkeys(metric for row in rows for metric in row.scores))
    sources = list(dict.fromkeys(row.source for row in rows))
    of_members = {row.over for row in rows}
    by_members = len(of_members) > 1
    by_split = len({row.split for row in rows} - {None}) > 1
    cells = [
        (
            f"{row.system} ({row.split})" if by_split else row.system,
            *(row.scores.get(metric, "") for metric in metrics),
            f"[{sources.index(row.source) + 1}]",
            *([", ".join(row.over) or "all members"] if by_members else []),
        )
        for row in rows
    ]
    columns: list[str | Column] = [
        Column("published" if by_split else title, numeric=False),
        *map(Column, metrics),
        "in",
        *([Column("mean over", numeric=False, folds=True)] if by_members else []),
    ]
    notes = [f"[{number}] {source}" for number, source in enumerate(sources, 1)]
    if not by_members and rows[0].over:
        notes.insert(0, f"means over {counted(len(rows[0].over), 'member')}: {', '.join(rows[0].over)}")
    if len(rows) < len(published):
        notes.insert(0, f"{len(rows)} of {len(published)} results; --published shows all")
    return [texts_table(columns, cells), Notes(notes)]


def _split(card: DatasetCard) -> str:
    if len(card.splits) > 1:
        return f"{', '.join(card.splits)}; {card.split} by default"
    return f"{card.split} (default)" if card.split else "test, or the only one"


def code_with_name(code: str) -> str:
    """Return a code and its English name, or only the code if the name is unknown."""
    name = language_name(code)
    return code if name is None else f"{code} ({name})"


def _language(card: DatasetCard) -> str:
    queries = "" if card.query_language is None else f", queries {code_with_name(card.query_language)}"
    return f"{code_with_name(card.language)}{queries}"


def _counts_by_split(counts: Mapping[str, int], noun: str = "") -> str:
    return ", ".join(f"{split} {count:,}{f' {noun}' if noun else ''}" for split, count in counts.items())


def _range(counts: Sequence[int]) -> str:
    if not counts:
        return _UNSTATED
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{_rounded(low)} to {_rounded(high)}"


def _rounded(count: int) -> str:
    for unit, name in ((1_000_000, "M"), (1_000, "k")):
        if count >= unit:
            return f"{count / unit:.3g}{name}"
    return str(count)


def _one_or_count(values: Sequence[str], noun: str) -> str:
    distinct = list(dict.fromkeys(values))
    return ", ".join(distinct) if len(distinct) < _MANY else f"{len(distinct)} {noun}"


def _join_values(values: Iterable[str]) -> str:
    """Return distinct values in the order of how often they occur."""
    all_values = list(values)
    return ", ".join(sorted(dict.fromkeys(all_values), key=lambda value: -all_values.count(value)))


def _short(licence: str) -> str:
    return licence.partition(" (")[0]


def _cell(count: int | None) -> str:
    return "" if count is None else f"{count:,}"


def _count(count: int | None) -> str:
    return _UNSTATED if count is None else f"{count:,}"
