"""A boundary around loaders of other packages: their exceptions become errors that name loader and package."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Sized
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import numpy as np

from harness.data.columns import TextBatch
from harness.data.judgments import Judgments
from harness.errors import HarnessError, LoaderError
from harness.loaders.base import JudgmentSource, LoadedDataset, Loader, TextSource
from harness.registry.foreign_code import line_of

_METHODS = ("matches", "load", "local_files", "subsets", "parts")
_PARTS = {"documents": TextSource, "queries": TextSource, "judgments": JudgmentSource, "split": str}
"""Parts of a dataset that are read by their attributes, and their types."""
_REFUSAL = "a loader refuses bad input with harness.errors.DataError"


class _Boundary(NamedTuple):
    """The name of a loader, and the package that brings it."""

    loader: str
    package: str

    def error(self, doing: str, problem: str) -> LoaderError:
        """Return the error for a fault of the loader."""
        return LoaderError(
            f"loader '{self.loader}' of the package '{self.package}' failed while {doing}: {problem}",
            fix=f"if the input is sound, this is a defect of {self.package}; {_REFUSAL}",
        )

    @contextmanager
    def around(self, doing: str) -> Iterator[None]:
        """Raise LoaderError for an exception inside the block that is not one of the harness."""
        try:
            yield
        except HarnessError:
            raise
        except Exception as error:
            raise self.error(doing, f"{type(error).__name__}: {error}{line_of(error)}") from error

    def called(self, method: Callable[..., Any], doing: str) -> Callable[..., Any]:
        """Return the same function inside the boundary."""

        def call(*arguments: Any) -> Any:
            with self.around(doing):
                return method(*arguments)

        return call

    def loaded(self, load: Callable[..., Any]) -> Callable[..., LoadedDataset]:
        """Return a loader's ``load``, whose parts are read inside the boundary."""

        def call(*arguments: Any) -> LoadedDataset:
            doing = "finding the parts of the dataset"
            with self.around(doing):
                result = load(*arguments)
            if not isinstance(result, LoadedDataset):
                problem = f"load returned {type(result).__name__}, expected harness.loaders.base.LoadedDataset"
                raise self.error(doing, problem)
            for part, expected in _PARTS.items():
                value = getattr(result, part)
                if not isinstance(value, expected) and not (value is None and part != "documents"):
                    problem = f"'{part}' is {type(value).__name__}, expected {expected.__name__}"
                    raise self.error(doing, problem)
            candidates = result.candidates
            return replace(
                result,
                documents=self._texts(result.documents),
                queries=None if result.queries is None else self._texts(result.queries),
                judgments=None if result.judgments is None else self._judgments(result.judgments),
                candidates=None if candidates is None else self.called(candidates, "reading candidates"),
            )

        return call

    def _texts(self, source: TextSource) -> TextSource:
        doing = f"reading {source.label}"

        def read(*arguments: Any) -> Iterator[TextBatch]:
            with self.around(doing):
                for batch in source.read(*arguments):
                    if not isinstance(batch, TextBatch):
                        raise self.error(doing, f"it yielded {type(batch).__name__}, expected TextBatch")
                    self._require_equal(doing, {**batch._asdict(), "used": None})
                    for value in cast("Sequence[object]", batch.ids):
                        if not isinstance(value, str):
                            problem = f"ids must be text: {value!r} is of the type {type(value).__name__}"
                            raise self.error(doing, problem)
                    yield batch

        return replace(source, read=read, state=self.called(source.state, doing))

    def _judgments(self, source: JudgmentSource) -> JudgmentSource:
        doing = f"reading {source.label}"

        def read(*arguments: Any) -> Judgments:
            with self.around(doing):
                judgments = source.read(*arguments)
            if not isinstance(judgments, Judgments):
                raise self.error(doing, f"it returned {type(judgments).__name__}, expected Judgments")
            self._require_equal(
                doing, {name: column for name, column in judgments._asdict().items() if name != "notes"}
            )
            for value in chain(judgments.query_ids, judgments.doc_ids):
                if not isinstance(value, str):
                    raise self.error(doing, f"it returned the id {value!r}, expected a string")
            for grade in judgments.grades:
                if not isinstance(grade, int | np.integer):
                    raise self.error(doing, f"it returned the grade {grade!r}, expected a whole number")
            return judgments

        return replace(source, read=read)

    def _require_equal(self, doing: str, columns: dict[str, Sized | None]) -> None:
        lengths = {name: len(column) for name, column in columns.items() if column is not None}
        if len(set(lengths.values())) > 1:
            counts_text = ", ".join(f"{length:,} {name}" for name, length in lengths.items())
            raise self.error(doing, f"its columns have different lengths: {counts_text}")


def within_boundary(loader: Loader, package: str) -> Loader:
    """Return a loader of another package with its methods inside a boundary.

    An exception of these other than a HarnessError becomes a :class:`harness.errors.LoaderError` with the exception as
    its cause, also while parts of its datasets are read, and so do parts of a wrong type and columns of different
    lengths.
    """
    boundary = _Boundary(loader.name, package)
    methods = {
        name: boundary.called(getattr(loader, name), f"calling {name}")
        for name in _METHODS
        if hasattr(loader, name) and name != "load"
    }
    return cast("Loader", SimpleNamespace(name=loader.name, load=boundary.loaded(loader.load), **methods))
