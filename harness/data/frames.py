"""Runs and judgments in tables with named columns: pandas, Polars, Arrow, Parquet.

A column is found by the names that ranx, ir_measures, PyTerrier, BEIR and MTEB give it. Ids become text: strings as
they are, whole numbers in decimal digits.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from reprlib import Repr
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.data.arrow import as_numpy, python_values, strings, text_scalar
from harness.data.grouping import build_judgments, build_ranked_run, build_run
from harness.data.python_values import as_id, is_missing, is_number
from harness.data.types import Qrels, Run
from harness.errors import DataError, UsageError
from harness.wording import LONE_SURROGATE, counted

_SHORT = Repr()
_SHORT.maxstring, _SHORT.maxlist, _SHORT.maxtuple, _SHORT.maxset, _SHORT.maxdict, _SHORT.maxlevel = 40, 3, 3, 3, 2, 3
_PRINTABLE_TYPES = (str, bytes, int, float, list, tuple, dict, set, frozenset)


def is_id(value: object) -> bool:
    """Return whether ``value`` can be an id, as :func:`harness.data.python_values.as_id` reads them."""
    return isinstance(value, str) or as_id(value) is not None


def id_column(values: Iterable[object]) -> pa.StringArray:
    """Return ids as a column of text, in their order.

    Raises:
        TypeError: a value is not an id, is empty, or holds a lone surrogate.
    """
    items = list(values)
    try:
        column = strings(items)  # type: ignore[arg-type] # nearly always all are strings
    except (TypeError, UnicodeEncodeError):
        column = None
    if column is None or column.null_count:
        ids = list(map(as_id, items))
        if None in ids:
            raise TypeError(f"an id is {described(items[ids.index(None)])}, expected a string or a whole number")
        broken = next((name for name in ids if name is not None and LONE_SURROGATE.search(name)), None)
        if broken is not None:
            raise TypeError(f"the id {broken!r} holds a lone surrogate, which is not a character")
        items, column = list[object](ids), strings(ids)
    if "" in items:
        position = items.index("") + 1
        raise TypeError(f"id {position:,} of {len(items):,} is empty, expected a string or a whole number")
    return column


def with_article(kind: type) -> str:
    """Return the name of a type in a sentence: ``an int``, ``a list``."""
    return f"{'an' if kind.__name__[0].lower() in 'aeiou' else 'a'} {kind.__name__}"


def described(value: object) -> str:
    """Return the type of ``value`` and its beginning: ``an int (3)``; only the type if it has no short form."""
    if value is None:
        return "None"
    kind = with_article(type(value))
    return f"{kind} ({' '.join(_SHORT.repr(value).split())})" if isinstance(value, _PRINTABLE_TYPES) else kind


QUERY = ("query_id", "qid", "q_id", "query-id", "topic", "topic_id", "query")
"""Names of the column of query ids; ``query`` last, because PyTerrier keeps texts there, next to ``qid``."""
DOCUMENT = ("doc_id", "docno", "corpus-id", "corpus_id", "docid", "document", "document_id", "pid", "passage_id")
"""Names of the column of document ids; ``docid`` late, because PyTerrier keeps row numbers there, next to ``docno``."""
SCORE = ("score", "sim", "similarity")
RANK = ("rank",)
GRADE = ("relevance", "label", "grade", "rel", "rating", "judgment", "judgement", "gain")
"""Names of the column of grades; a table has one of them, or ``score`` without any of them."""


@dataclass(frozen=True, slots=True)
class FieldNames:
    """Names of the columns of runs or of judgments, in order of preference.

    A table may have only one of the names in ``number``, for scores or grades; the names in ``otherwise`` count if it
    has none of them. ``rank`` are names of ranks, none for judgments. ``columns`` are the user's fields by role: they
    come first, and a score, rank or grade among them must exist.
    """

    query: tuple[str, ...]
    document: tuple[str, ...]
    role: str
    number: tuple[str, ...]
    otherwise: tuple[str, ...] = ()
    rank: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_run(cls, columns: Mapping[str, str] | None = None) -> FieldNames:
        """Return the names of the columns of a run."""
        return cls(QUERY, DOCUMENT, "score", SCORE[:1], SCORE[1:], RANK, columns or {})

    @classmethod
    def of_judgments(cls, columns: Mapping[str, str] | None = None) -> FieldNames:
        """Return the names of the columns of judgments."""
        return cls(QUERY, DOCUMENT, "grade", GRADE, ("score",), columns=columns or {})

    def find_id(self, role: str, available: Sequence[str]) -> str | None:
        """Return the column of query or document ids, None without one."""
        if self.columns.get(role) in available:
            return self.columns[role]
        return first_of(self.query if role == "query_id" else self.document, available)

    def find_number(self, available: Sequence[str]) -> str | None:
        """Return the column of scores or grades; None without one, and for several."""
        if self.role in self.columns:
            return self.columns[self.role] if self.columns[self.role] in available else None
        present = self.numbers_among(available)
        return present[0] if len(present) == 1 else None

    def numbers_among(self, available: Sequence[str]) -> list[str]:
        """Return every column that may hold the scores or grades."""
        return _existing(self.number, available) or _existing(self.otherwise, available)

    def find_rank(self, available: Sequence[str]) -> str | None:
        """Return the column of ranks, None without one."""
        if "rank" in self.columns and self.rank:
            return self.columns["rank"] if self.columns["rank"] in available else None
        return first_of(self.rank, available)

    def problem(self, available: Sequence[str]) -> str | None:
        """Describe missing and repeated columns of a table, and name its columns; None if nothing is wrong."""
        needed = {role: self.find_id(role, available) for role in ("query_id", "doc_id")}
        needed[self.role] = self.find_number(available)
        user_names = {
            role: name for role, name in self.columns.items() if role in (self.role, *("rank",) * bool(self.rank))
        }
        missing = [
            f"'{name}', which is named as the {role}," for role, name in user_names.items() if name not in available
        ]
        if needed[self.role] is None and self.role not in user_names and not (self.rank and self.find_rank(available)):
            several = self.numbers_among(available)
            if len(several) > 1:
                names = " or ".join(f"'{name}'" for name in several)
                return f"a table whose {self.role} may be {names}: say which, as columns {self.role}={several[0]}"
            missing.append(" or ".join((*self.number, *self.otherwise, *self.rank)[:3]))
        missing = [
            " or ".join(names[:3])
            for role, names in (("query_id", self.query), ("doc_id", self.document))
            if needed[role] is None
        ] + missing
        twice = [name for name in needed.values() if name is not None and list(available).count(name) > 1]
        if not missing and not twice:
            return None
        problem = f"without a column {' and without '.join(missing)}" if missing else f"with two columns {twice[0]}"
        return f"a table {problem}; its columns: {', '.join(available) or 'none'}"


def _existing(names: Sequence[str], available: Sequence[str]) -> list[str]:
    columns = (first_of((name,), available) for name in names)
    return list(dict.fromkeys(name for name in columns if name is not None))


def as_table(value: Any) -> Any | None:
    """Return a pandas frame unchanged, another table (Polars, Arrow …) as an Arrow table, and None for other objects.

    Arrow reads tables of other libraries through their Arrow stream or the dataframe interchange protocol.
    """
    pandas = sys.modules.get("pandas")  # without the import there cannot be a frame of it
    if isinstance(value, pa.Table) or (pandas is not None and isinstance(value, pandas.DataFrame)):
        return value
    if isinstance(value, type):
        return None
    if hasattr(value, "with_format") and hasattr(value, "column_names"):  # Hugging Face's Dataset
        table = value.with_format("arrow")[:]
        return table if isinstance(table, pa.Table) else None
    if hasattr(value, "__arrow_c_stream__"):
        try:
            reader = pa.RecordBatchReader.from_stream(value)
        except pa.ArrowInvalid:  # a stream of single values, such as a Series has
            return None
        return reader.read_all()
    if hasattr(value, "__dataframe__"):
        from pyarrow.interchange import from_dataframe

        return from_dataframe(value)
    return None


def rows_of(table: Any, subject: str, *, nested: bool = True) -> list[dict[str, Any]]:
    """Return the rows of a table, with the index of a frame if it has a name; missing values are None.

    Without ``nested``, lists and structures in Arrow tables are left out, because embeddings take long to convert.
    Raises UsageError for two columns with the same name in the ``subject``, DataError for values that Python lacks.
    """
    names = [str(name) for name in (table.column_names if isinstance(table, pa.Table) else table.columns)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"the {subject} have two columns '{twice[0]}'", fix="rename one")
    if isinstance(table, pa.Table):
        flat_columns = [field.name for field in table.schema if nested or not pa.types.is_nested(field.type)]
        try:
            columns = {name: python_values(table.column(name), name) for name in flat_columns}
        except ValueError as error:
            raise DataError(subject, [str(error)]) from error
    else:
        has_named_index = table.index.name is not None and table.index.name not in table.columns
        frame = table.reset_index() if has_named_index else table
        columns = {str(name): frame[name].astype(object).where(frame[name].notna(), None).tolist() for name in frame}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def lacking(table: Any, names: FieldNames) -> str | None:
    """Return a sentence about missing or repeated columns of a table, with the existing ones; None for a valid table.

    Args:
        table: the result of :func:`as_table`.
        names: the names of its columns.
    """
    return names.problem(_names(table))


def run_from_frame(table: Any, names: FieldNames | None = None) -> Run:
    """Return the run in a table with columns of query ids, document ids and scores, and a row for each hit.

    The engine's order is that of the column ``rank`` if it exists, else that of the rows. Without scores, ranks decide
    the order. Ids that are whole numbers become text; scores become float32.

    Args:
        table: the result of :func:`as_table`.
        names: the names of its columns, the usual ones by default.

    Raises:
        DataError: a column or an id is missing, an id is neither text nor a whole number, or a score is not a number.
    """
    names = names or FieldNames.of_run()
    queries, documents = _id_columns("run", table, names)
    rank, score = names.find_rank(_names(table)), names.find_number(_names(table))
    ranks = None if rank is None else _numbers("run", rank, table[rank])
    if score is None and ranks is not None:
        return build_ranked_run(queries, documents, ranks)
    return build_run(queries, documents, _numbers("run", str(score), table[str(score)]), ranks)


def qrels_from_frame(table: Any, names: FieldNames | None = None) -> Qrels:
    """Return the judgments in a table with columns of query ids, document ids and grades, and a row for each judgment.

    Raises DataError as :func:`run_from_frame` does, for a grade that is not a number, and for a document that is
    judged twice under one query.
    """
    names = names or FieldNames.of_judgments()
    queries, documents = _id_columns("judgments", table, names)
    grade = str(names.find_number(_names(table)))
    return build_judgments(queries, documents, _numbers("judgments", grade, table[grade]))


def first_of(names: Sequence[str], available: Iterable[str]) -> str | None:
    """Return the first of ``names`` that is available; None if none is.

    If no name has exactly the right case, a name in another case counts, unless two differ only in case.
    """
    columns = [column for column in available if isinstance(column, str)]
    exact = next((name for name in names if name in columns), None)
    alike = ([column for column in columns if column.lower() == name.lower()] for name in names)
    return exact or next((same[0] for same in alike if len(same) == 1), None)


def _id_columns(source: str, table: Any, names: FieldNames) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Return the ids of queries and documents of a table, as text; raises DataError for a column that is missing."""
    problem = lacking(table, names)
    if problem is not None:
        raise DataError(source, [problem])
    columns = _names(table)
    query, document = (str(names.find_id(role, columns)) for role in ("query_id", "doc_id"))
    ids = _ids_of_arrow if isinstance(table, pa.Table) else _ids_of_pandas
    return ids(source, query, table[query]), ids(source, document, table[document])


def _names(table: Any) -> list[str]:
    return [str(column) for column in (table.column_names if isinstance(table, pa.Table) else table.columns)]


def _ids_of_pandas(source: str, column: str, values: Any) -> pa.ChunkedArray:
    if bool(values.isna().any()):
        raise DataError(source, [f"column '{column}' lacks {counted(int(values.isna().sum()), 'id')}"])
    try:
        return pa.chunked_array([id_column(values.tolist())])
    except TypeError as error:
        raise DataError(source, [f"column '{column}': {error}"]) from error


def _ids_of_arrow(source: str, column: str, values: pa.ChunkedArray) -> pa.ChunkedArray:
    if values.null_count:
        raise DataError(source, [f"column '{column}' lacks {counted(values.null_count, 'id')}"])
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    textual = pa.types.is_string(kind) or pa.types.is_large_string(kind) or str(kind) == "string_view"
    if not textual and not pa.types.is_integer(kind):  # bytes, or floats that are whole
        try:
            return pa.chunked_array([id_column(python_values(values, column))])
        except (TypeError, ValueError) as error:
            raise DataError(source, [f"column '{column}' holds {kind}: {error}"]) from error
    chunks = [_as_text(chunk) for chunk in values.chunks]
    if textual and any(pc.index(_distinct(chunk), text_scalar("")).as_py() >= 0 for chunk in chunks):
        raise DataError(source, [f"column '{column}' holds an empty id"])
    return pa.chunked_array(chunks) if chunks else pa.chunked_array([], pa.string())


def _distinct(chunk: pa.Array) -> pa.Array:
    """Return the values of a column of text, each once if it is a dictionary."""
    return chunk.dictionary if isinstance(chunk, pa.DictionaryArray) else chunk


def _as_text(chunk: pa.Array) -> pa.Array:
    if isinstance(chunk, pa.DictionaryArray):  # only the values: Arrow decodes no dictionary of string views
        return pa.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.cast(pa.string()))
    return chunk.cast(pa.string())


def _numbers(source: str, column: str, values: Any) -> npt.NDArray[np.float64]:
    if not isinstance(values, pa.ChunkedArray):
        if values.dtype.kind not in "iuf":
            wrong = next((item for item in values.tolist() if not is_number(item) and not is_missing(item)), None)
            if wrong is not None:
                raise DataError(source, [f"column '{column}' holds a value that is not a number: {described(wrong)}"])
        try:
            numbers: npt.NDArray[np.float64] = values.to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError) as error:
            raise DataError(source, [f"column '{column}' holds a value that is not a number: {error}"]) from error
        return numbers
    kind = values.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise DataError(source, [f"column '{column}' holds a value that is not a number: {kind}"])
    if values.null_count:
        raise DataError(source, [f"column '{column}' lacks {counted(values.null_count, 'number')}"])
    return as_numpy(values.cast(pa.float64(), safe=False), null=np.nan)
