"""Errors of the exact reference, which is a library of its own, told as those of a backend."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from harness.errors import CacheError, DataError, EngineUnavailableError, RejectedInputError, UsageError

__all__ = ["as_backend_errors"]


@contextmanager
def as_backend_errors(damaged: str = "delete the index folder and index again") -> Iterator[None]:
    """Raise EngineUnavailableError for a damaged index, RejectedInputError for data or arguments that do not fit.

    ``damaged`` is what to do about a damaged index.
    """
    try:
        yield
    except CacheError as error:
        raise EngineUnavailableError(error.what, fix=damaged) from error
    except (DataError, UsageError) as error:
        raise RejectedInputError(error.what, fix=error.fix) from error
