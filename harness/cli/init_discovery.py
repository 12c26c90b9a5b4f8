"""Find what ``harness init`` can check in a folder: one golden set, and one index or one file of documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from harness.errors import DataError, HarnessError, UsageError
from harness.plan.expressions import quoted
from harness.wording import counted

if TYPE_CHECKING:
    from harness.engines.interface import StoredIndex

EXAMPLE = "chunking-eval"
"""The bundled golden set, for a folder without any data file."""


class Setting(NamedTuple):
    """The golden set and the documents or the index to search."""

    golden: str
    corpus: str | None
    against: tuple[str, ...]


class _Index(NamedTuple):
    backend: str
    folder: Path
    stored: StoredIndex

    def expression(self, model: str) -> str:
        values = {"path": str(self.folder), **self.stored.parameters, "model": model}
        return f"{self.backend}:{';'.join(f'{name}={quoted(value)}' for name, value in values.items())}"


def only_golden_set(folder: Path, columns: object) -> str:
    """Return the only golden set among the files of a folder; raises UsageError if there is none, or several."""
    problems = {path: _golden_problem(path, columns) for path in _record_files(folder)}
    golden_sets = [str(path) for path, problem in problems.items() if problem is None]
    if not golden_sets:
        raise _no_golden_set({path: problem for path, problem in problems.items() if problem is not None}, columns)
    if len(golden_sets) > 1:
        problem = f"{len(golden_sets)} golden sets are here: {', '.join(golden_sets)}"
        raise UsageError(problem, fix="name one: --golden FILE")
    return golden_sets[0]


def discover(folder: Path, columns: object, golden: str | None = None) -> Setting | None:
    """Return the setting that the files of a folder leave no doubt about; None if it has no data file and no index.

    ``columns`` are the fields of golden sets and documents, ``golden`` is a golden set that was named. Raises
    UsageError, with the options that decide, if two readings are possible or something is missing.
    """
    indexes = _indexes(folder)
    files = _record_files(folder)
    if golden is None and not indexes and not files:
        return None
    golden = golden if golden is not None else only_golden_set(folder, columns)
    golden_path = Path(golden).resolve()
    documents = [str(path) for path in files if path.resolve() != golden_path and _has_documents(path, columns)]
    if indexes and documents:
        raise UsageError(
            f"an index ({indexes[0].folder}) and documents ({', '.join(documents)}) are here",
            fix=f"name one: --golden {golden} with --corpus FILE, or with --against "
            f"'{indexes[0].expression(indexes[0].stored.model or 'MODEL')}'",
        )
    brings_documents = _brings_documents(golden, columns)
    if brings_documents and (indexes or documents):
        alternative = f"--corpus {documents[0]}" if documents else f"--against '{_only_index(indexes, golden)}'"
        raise UsageError(
            f"{golden} has its own documents, and others are here: "
            f"{', '.join([*documents, *(str(index.folder) for index in indexes)])}",
            fix=f"name one: --golden {golden} with --corpus {golden}, or with {alternative}",
        )
    if indexes:
        return Setting(golden, None, (_only_index(indexes, golden),))
    if brings_documents:
        return Setting(golden, None, ())
    if len(documents) != 1:
        problem = f"{counted(len(documents), 'file')} of documents here: {', '.join(documents)}"
        raise UsageError(
            problem if documents else "no documents and no index are here",
            fix="name the documents with --corpus FILE, or an existing backend with --against",
        )
    return Setting(golden, documents[0], ())


def _no_golden_set(problems: Mapping[Path, DataError], columns: object) -> UsageError:
    """Return the error that says why no file is a golden set, with files that hold no documents first."""
    unread = {path: problem for path, problem in problems.items() if not _has_documents(path, columns)} or problems
    reasons = [line for path in sorted(unread) for line in str(unread[path]).splitlines()]
    return UsageError(
        "\n  ".join(["no file here has questions with expected documents", *reasons]),
        fix="name one: --golden FILE, and its fields with --columns"
        + (f"; or the bundled example: --golden {EXAMPLE}" if problems else ""),
    )


def _only_index(indexes: Sequence[_Index], golden: str) -> str:
    """Return the expression of the only index; raises UsageError for several, and for one without a known model."""
    if len(indexes) > 1:
        options = "\n  ".join(
            f"--golden {golden} --against '{index.expression(index.stored.model or 'MODEL')}'" for index in indexes
        )
        names = ", ".join(f"{index.folder}/{'/'.join(index.stored.parameters.values())}" for index in indexes)
        raise UsageError(f"{len(indexes)} indexes are here: {names}", fix=f"name one:\n  {options}")
    (index,) = indexes
    if index.stored.model is None:
        raise UsageError(
            f"'{index.folder}' does not store which model made the vectors of "
            f"'{'/'.join(index.stored.parameters.values())}'",
            fix=f"name the model of sentence-transformers: --golden {golden} --against '{index.expression('MODEL')}'",
        )
    return index.expression(index.stored.model)


def _indexes(folder: Path) -> list[_Index]:
    """Return the indexes in the folder's folders, by engine; engines that cannot be imported have none."""
    from harness.engines.base import ExternalIndex
    from harness.registry.lookup import find_cards, load_engine

    folders = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    indexes, engines = list[_Index](), set[type]()
    for name, card in find_cards("backends").items():
        try:
            engine = load_engine(card)
        except HarnessError:  # its package is missing, and so are its indexes
            continue
        if engine in engines or not issubclass(engine, ExternalIndex):
            continue
        engines.add(engine)
        indexes += [_Index(name, path, stored) for path in folders for stored in engine.stored_indexes(path)]
    return indexes


def _record_files(folder: Path) -> list[Path]:
    """Return the files of the folder that may hold records; files whose names begin with a dot are settings."""
    from harness.loaders.records import format_of

    visible = (path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    return sorted(path for path in visible if format_of(path.name) is not None)


def _golden_problem(path: Path, columns: object) -> DataError | None:
    """Return the problem that keeps a file from being a golden set; None for a golden set."""
    from harness.data.columns import parse_columns
    from harness.loaders import load_golden_of

    try:
        load_golden_of(path, columns=parse_columns(columns))  # type: ignore[arg-type]
    except DataError as problem:
        return problem
    return None


def _brings_documents(golden: str, columns: object) -> bool:
    """Return whether a golden set has documents of its own."""
    from harness.data.columns import parse_columns
    from harness.loaders import load_golden_of

    _, has_documents = load_golden_of(golden, columns=parse_columns(columns))  # type: ignore[arg-type]
    return has_documents


def _has_documents(path: Path, columns: object) -> bool:
    from harness.data.columns import parse_columns
    from harness.data.dataset import DatasetFiles
    from harness.loaders import load_documents
    from harness.store.cache import Cache

    try:
        load_documents(path, files=DatasetFiles(columns=parse_columns(columns)), cache=Cache())  # type: ignore[arg-type]
    except DataError:
        return False
    return True
