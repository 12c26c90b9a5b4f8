"""Published numbers: scores that a paper, a regression or a leaderboard prints for one system on one dataset.

A card states them itself (``[[published]]``), or a file ``published.tsv`` next to the cards holds long lists: one row a
system, with the same columns. Both are described in ``docs/reference/cards.md``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from harness.errors import CardError
from harness.registry.strict_toml import Table

FILE_NAME = "published.tsv"
_COLUMNS = ("dataset", "split", "system", "backend", "options", "index", "scores", "source")
_WORDS = ("ties", "queries", "identical_ids")
_NUMBERS = ("k", "relevance")
_INDEX = ("documents", "documents_with_terms", "terms", "unique_terms")
_NUMBER = re.compile(r"\d+(\.\d+)?%?")


@dataclass(frozen=True, slots=True)
class PublishedNumber:
    """Published scores of one system on a split, with their source.

    Attributes:
        scores: Metric to value, digit by digit as printed.
        split: None if the scores are a mean over several datasets.
        over: The members of the family whose mean the scores are, each counting once; empty for scores on a split.
        backend: An equivalent backend, as ``harness compare --backends`` takes it; None without one.
        options: How it was searched and scored: ``k``, ``ties``, ``queries``, ``relevance``, ``identical_ids``.
        index: Published statistics of the index: its documents and terms.
    """

    system: str
    source: str
    scores: Mapping[str, str]
    split: str | None
    backend: str | None = None
    options: Mapping[str, str | int] = field(default_factory=dict)
    index: Mapping[str, int] = field(default_factory=dict)
    over: tuple[str, ...] = ()


def published_in(row: Table, sources: Mapping[str, str] | None, split: str | None) -> PublishedNumber:
    """Read one table of a card, or one row of the file; problems are noted in the table.

    Args:
        row: The values.
        sources: Short names of sources and their full texts; None if sources are written out.
        split: The split of scores that name none.
    """
    source, scores = row.required("source", str), row.table("scores")
    options, index = row.table("options"), row.table("index")
    numbers = {name: options.optional(name, int) for name in _NUMBERS}
    words = {name: options.optional(name, str) for name in _WORDS}
    over = options.optional("over", str)
    if sources is not None and source not in sources:
        row.problem(f"'{row.prefix}source' is '{source}', known: {', '.join(sources)}")
    if not scores.values:
        row.problem(f"'{row.prefix}scores' holds no metric")
    published = PublishedNumber(
        system=row.required("system", str),
        source=source if sources is None else sources.get(source, source),
        scores={metric: _printed(scores, metric) for metric in scores.values},
        split=row.optional("split", str) or split,
        backend=row.optional("backend", str),
        options={name: value for name, value in {**numbers, **words}.items() if value is not None},
        index={name: value for name in _INDEX if (value := index.optional(name, int)) is not None},
        over=tuple(over.split(",")) if over is not None else (),
    )
    for part in (options, index, row):
        part.close()
    return published


def published_beside(card: Path, name: str) -> tuple[PublishedNumber, ...]:
    """Return the scores in ``published.tsv`` next to a card of the dataset or family of that name; () without a file.

    Raises:
        CardError: The file is malformed; every problem of the dataset's rows is named with its line.
    """
    path = card.parent / FILE_NAME
    if not path.is_file():
        return ()
    stat = path.stat()
    problems: list[str] = []
    rows = _rows(path, stat.st_mtime_ns, stat.st_size).get(name, ())
    published = tuple(_from_cells(number, cells, problems) for number, cells in rows)
    Table({}, problems=problems).raise_problems(path, "file")
    return published


@lru_cache(maxsize=4)
def _rows(path: Path, _changed_ns: int, _bytes: int) -> Mapping[str, list[tuple[int, list[str]]]]:
    """Return the lines of each dataset, with their numbers."""
    try:
        header, *lines = path.read_text(encoding="utf-8").splitlines() or [""]
    except (OSError, UnicodeDecodeError) as error:
        raise CardError(f"file '{path}' cannot be read: {error}") from error
    if tuple(header.split("\t")) != _COLUMNS:
        raise CardError(
            f"file '{path}', line 1: the columns must be {', '.join(_COLUMNS)}", fix="separate them by tabs"
        )
    rows: dict[str, list[tuple[int, list[str]]]] = {}
    for number, line in enumerate(lines, 2):
        cells = line.split("\t")
        if len(cells) != len(_COLUMNS):
            raise CardError(f"file '{path}', line {number}: {len(cells)} columns, expected {len(_COLUMNS)}")
        rows.setdefault(cells[0], []).append((number, cells))
    return rows


def _from_cells(number: int, cells: list[str], problems: list[str]) -> PublishedNumber:
    values: dict[str, Any] = {name: cell for name, cell in zip(_COLUMNS[1:], cells[1:], strict=True) if cell}
    for name in ("options", "index", "scores"):
        pairs = [pair.rpartition("=") for pair in values.get(name, "").split()]
        values[name] = {key: int(text) if text.isdecimal() and name != "scores" else text for key, _, text in pairs}
    return published_in(Table(values, f"line {number}: ", problems), None, None)


def _printed(scores: Table, metric: str) -> str:
    """Return a number as written: text keeps the digits that TOML's numbers lose (0.3970)."""
    value = scores.values[metric]
    if type(value) in (int, float):
        return repr(value)
    if not isinstance(value, str) or not _NUMBER.fullmatch(value):
        scores.problem(f"'{scores.prefix}{metric}' must be a number as printed, not {value!r}")
        return "0"
    return value
