"""Runs and judgments in tables with named columns: pandas, Polars, Arrow, Parquet.

A column is found by the names that ranx, ir_measures, PyTerrier, BEIR and MTEB give it. Ids become text: strings as
they are, whole numbers in decimal digits.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from numbers import Integral
from reprlib import Repr
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.data.arrow import as_numpy, strings
from harness.data.grouping import build_judgments, build_run
from harness.data.types import Qrels, Run
from harness.errors import DataError
from harness.wording import counted

_SHORT = Repr()
_SHORT.maxstring, _SHORT.maxlist, _SHORT.maxtuple, _SHORT.maxset, _SHORT.maxdict, _SHORT.maxlevel = 40, 3, 3, 3, 2, 3
_SHOWN = (str, bytes, int, float, list, tuple, dict, set, frozenset)


def is_id(value: object) -> bool:
    """Return whether ``value`` can be an id: a string or a whole number, NumPy's too; truth values cannot."""
    return isinstance(value, str) or (isinstance(value, Integral) and not isinstance(value, bool))


def id_column(values: Iterable[object]) -> pa.StringArray:
    """Return ids as a column of text, in their order.

    Raises:
        TypeError: a value is no id.
        UnicodeEncodeError: a lone surrogate.
    """
    items = list(values)
    try:
        column = strings(items)  # type: ignore[arg-type] # nearly always all are strings
    except TypeError:
        column = None
    if column is not None and not column.null_count:
        return column
    for value in items:
        if not is_id(value):
            raise TypeError(f"an id is {described(value)}, expected a string or a whole number")
    return strings(map(str, items))


def described(value: object) -> str:
    """Return the type of ``value`` and its beginning: ``an int (3)``; only the type of what has no short form."""
    if value is None:
        return "None"
    name = type(value).__name__
    kind = f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
    return f"{kind} ({' '.join(_SHORT.repr(value).split())})" if isinstance(value, _SHOWN) else kind


QUERY = ("query_id", "qid", "q_id", "query-id", "topic", "query")
"""Names of the column of query ids; ``query`` last, because PyTerrier keeps texts there, beside ``qid``."""
DOCUMENT = ("doc_id", "docno", "corpus-id", "corpus_id", "docid", "document")
"""Names of the column of document ids; ``docid`` late, because PyTerrier keeps row numbers there, beside ``docno``."""
SCORE = ("score", "sim")
GRADE = ("relevance", "label", "grade", "rel", "score")
_RANK = "rank"


_Numbers: TypeAlias = npt.NDArray[np.float64]


def as_table(value: Any) -> Any | None:  # noqa: ANN401 - a table of any library
    """Return a pandas frame as it is, any other table (Polars, Arrow …) as an Arrow table, None for what is no table.

    A table of another library is one that Arrow can read: by its stream, or by the data frame interchange protocol.
    """
    pandas = sys.modules.get("pandas")  # there is no frame of it where nobody imported it
    if isinstance(value, pa.Table) or (pandas is not None and isinstance(value, pandas.DataFrame)):
        return value
    if isinstance(value, type):
        return None
    if hasattr(value, "with_format") and hasattr(value, "column_names"):  # Hugging Face's Dataset
        table = value.with_format("arrow")[:]
        return table if isinstance(table, pa.Table) else None
    if hasattr(value, "__arrow_c_stream__"):
        return _read_stream(value)
    if hasattr(value, "__dataframe__"):
        from pyarrow.interchange import from_dataframe

        return from_dataframe(value)
    return None


def _read_stream(value: Any) -> pa.Table | None:  # noqa: ANN401 - as above
    """Return the table of a stream, None where it is one of single values, such as a Series has."""
    try:
        reader = pa.RecordBatchReader.from_stream(value)
    except pa.ArrowInvalid:
        return None
    return reader.read_all()


def lacking(table: Any, number: Sequence[str]) -> str | None:  # noqa: ANN401 - as above
    """Return, in words, which column a table lacks or has twice, and which there are; None where all are there.

    Args:
        table: what :func:`as_table` returned.
        number: the names of the column of numbers: ``SCORE`` or ``GRADE``.
    """
    there = _names(table)
    needed = [(names, first_of(names, there)) for names in (QUERY, DOCUMENT, number)]
    missing = [" or ".join(names[:3]) for names, name in needed if name is None]
    twice = [name for _, name in needed if name is not None and there.count(name) > 1]
    if not missing and not twice:
        return None
    problem = f"without a column {' and without '.join(missing)}" if missing else f"with two columns {twice[0]}"
    return f"a table {problem}; its columns: {', '.join(there) or 'none'}"


def run_from_frame(table: Any) -> Run:  # noqa: ANN401 - a table of any library
    """Return the run in a table with columns of query ids, document ids and scores, one row a hit.

    The engine's order is that of the column ``rank`` where there is one, else of the rows. Whole numbers as ids become
    text; scores become float32.

    Args:
        table: what :func:`as_table` returned.

    Raises:
        DataError: a column or an id is missing, an id is neither text nor a whole number, or a score no number.
    """
    return build_run(*_columns("run", table, SCORE))


def qrels_from_frame(table: Any) -> Qrels:  # noqa: ANN401 - a table of any library
    """Return the judgments in a table with columns of query ids, document ids and grades, one row a judgment.

    Raises DataError as :func:`run_from_frame` does, for a grade that is no whole number, and for a document that is
    judged twice under one query.
    """
    queries, documents, grades, _ = _columns("judgments", table, GRADE)
    return build_judgments(queries, documents, grades)


def first_of(names: Sequence[str], there: Sequence[str]) -> str | None:
    """Return the first of ``names`` that is there, None where none is."""
    return next((name for name in names if name in there), None)


def _columns(
    source: str,
    table: Any,  # noqa: ANN401 - a table of any library
    number: tuple[str, ...],
) -> tuple[pa.ChunkedArray, pa.ChunkedArray, _Numbers, _Numbers | None]:
    """Return the ids of queries and documents as text, the numbers (n,), and the ranks where there are some."""
    problem = lacking(table, number)
    if problem is not None:
        raise DataError(source, [problem])
    there = _names(table)
    query, document, value = (str(first_of(names, there)) for names in (QUERY, DOCUMENT, number))
    arrow = isinstance(table, pa.Table)
    ids, numbers = (_ids_of_arrow, _numbers_of_arrow) if arrow else (_ids_of_pandas, _numbers_of_pandas)
    return (
        ids(source, query, table[query]),
        ids(source, document, table[document]),
        numbers(source, value, table[value]),
        numbers(source, _RANK, table[_RANK]) if _RANK in there else None,
    )


def _names(table: Any) -> list[str]:  # noqa: ANN401 - as above
    return [str(column) for column in (table.column_names if isinstance(table, pa.Table) else table.columns)]


def _ids_of_pandas(source: str, column: str, values: Any) -> pa.ChunkedArray:  # noqa: ANN401 - pandas is imported late
    if bool(values.isna().any()):
        raise DataError(source, [f"column '{column}' lacks {counted(int(values.isna().sum()), 'id')}"])
    try:
        return pa.chunked_array([id_column(values.tolist())])
    except (TypeError, UnicodeEncodeError) as error:
        raise DataError(source, [f"column '{column}': {error}"]) from error


def _numbers_of_pandas(source: str, column: str, values: Any) -> _Numbers:  # noqa: ANN401 - as above
    try:
        numbers: _Numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise DataError(source, [f"column '{column}' holds something that is no number: {error}"]) from error
    return numbers


def _ids_of_arrow(source: str, column: str, values: pa.ChunkedArray) -> pa.ChunkedArray:
    if values.null_count:
        raise DataError(source, [f"column '{column}' lacks {counted(values.null_count, 'id')}"])
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    textual = pa.types.is_string(kind) or pa.types.is_large_string(kind) or str(kind) == "string_view"
    if not textual and not pa.types.is_integer(kind):
        raise DataError(source, [f"column '{column}' holds {kind}, expected text or whole numbers as ids"])
    chunks = [
        pa.DictionaryArray.from_arrays(
            chunk.indices, chunk.dictionary.cast(pa.string())
        )  # Arrow decodes no string views
        if isinstance(chunk, pa.DictionaryArray)
        else chunk.cast(pa.string())
        for chunk in values.chunks
    ]
    return pa.chunked_array(chunks) if chunks else pa.chunked_array([], pa.string())


def _numbers_of_arrow(source: str, column: str, values: pa.ChunkedArray) -> _Numbers:
    kind = values.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise DataError(source, [f"column '{column}' holds something that is no number: {kind}"])
    numbers: _Numbers = as_numpy(values.cast(pa.float64(), safe=False), null=np.nan)
    return numbers
