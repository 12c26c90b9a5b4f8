"""A PostgreSQL table made outside the harness: its ids, and whether its vectors are the expected ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from harness.data.progress import Progress
from harness.data.types import Int32Array, Similarity
from harness.engines.external_index import (
    DocumentKeys,
    DocumentSample,
    ExternalRows,
    choose_column,
    choose_columns,
)
from harness.engines.external_metadata import ExternalMetadata
from harness.engines.pgvector.conditions import JSON_TYPES, find_locations, is_text, json_of, locations_of
from harness.engines.pgvector.session import Session, quoted
from harness.engines.pgvector.vectors import OPERATORS, dense_vectors, sparse_vectors
from harness.errors import EngineUnavailableError, RejectedInputError
from harness.registry.parameters import ParameterValue

__all__ = ["TableRows"]

_PAGE = 1000
_IDS = ("id", "doc_id", "uuid")
_DENSE = ("vector", "halfvec")
_FORMAT = re.compile(r"(vector|halfvec|sparsevec)\((\d+)\)")


class TableRows(DocumentKeys, ExternalRows, ExternalMetadata):
    """The rows of a table, in the order of their ids.

    Attributes:
        columns: Type of each column, by name; of a domain, the type that it restricts.
        column: Column of the searched vectors; ``type`` and ``dimensions`` describe these vectors.
        id_column: Column of the ids.
        similarity: Similarity of the index of the vectors, without an index the parameter's; the dot product for
            ``sparsevec``.
        ids: Ids of the documents.
    """

    noun = "row"

    def __init__(
        self, session: Session, parameters: Mapping[str, ParameterValue], requested: str, progress: Progress
    ) -> None:
        """Read all ids; ``requested`` is the type of vectors that the backend searches.

        Raises:
            EngineUnavailableError: The table does not exist.
            RejectedInputError: It has no such column, rows with missing or repeated ids, or an index for another
                similarity.
        """
        progress.start("attach", None)
        self._session, self._name = session, str(parameters["table"])
        self._table = quoted(*self._name.split("."))
        kinds = _DENSE if requested in _DENSE else ("sparsevec",)
        self.columns = columns = self._columns(kinds)
        self.containers = [name for name, kind in columns.items() if kind in JSON_TYPES]
        vectors = [name for name, kind in columns.items() if kind.partition("(")[0] in kinds]
        plain = [name for name, kind in columns.items() if kind in ("uuid", "bigint", "integer") or is_text(kind)]
        source = f"the table '{self._name}'"
        self.column, self.id_column, self._text_column = choose_columns(
            source, parameters, vectors, plain, plain, _IDS, lambda field: bool(find_locations(field, columns))
        )
        shape = _FORMAT.fullmatch(columns[self.column])
        self.type, self.dimensions = (shape[1], int(shape[2])) if shape else self._shape_of_rows(columns[self.column])
        self.similarity = self._similarity_of(str(parameters.get("similarity", "dot")))
        self.sparse, self.half = self.type == "sparsevec", self.type == "halfvec"
        self.stored_as = "direction" if self.similarity == "cosine" else "bits"
        keys, names = self._keys_and_names(str(parameters["id_column"]), source, plain)
        id_source = f"value in the column '{parameters['id_column'] or self.id_column}'"
        ids = [None if name is None else str(name) for name in names]
        super().__init__([(keys, ids)], id_source)
        self._content = self._summary()

    def _keys_and_names(self, requested: str, source: str, plain: Sequence[str]) -> tuple[Sequence[Any], Sequence[Any]]:
        """Return a key of each row and its id, which differ if rows share ids, or have them inside a column."""
        keys = "key next to id_column"
        if not self.id_column:
            self.id_column = choose_column(source, keys, "", plain, _IDS)
            rows = [key for (key,) in self._select("listing the keys", [self.id_column])]
            name_of = {key: self.id_in(record, requested) for key, record in self._records(rows, [requested])}
            return rows, [name_of[key] for key in rows]
        names = [name for (name,) in self._select("listing the ids", [self.id_column])]
        candidates = [name for name in plain if name != self.id_column]
        no_keys = None in names and not any(name in _IDS for name in candidates)
        if not requested or no_keys or (None not in names and len(set(names)) == len(names)):
            return names, names
        shared = self.id_column  # a column that rows share, or that some rows lack
        self.id_column = choose_column(source, keys, "", candidates, _IDS)
        pairs = self._select("listing the keys", [self.id_column, shared])
        return [key for key, _ in pairs], [name for _, name in pairs]

    def _columns(self, kinds: Sequence[str]) -> dict[str, str]:
        columns_of_table = self._session.rows(
            "looking at the table",
            "SELECT attname, (WITH RECURSIVE base(kind, modifier, depth) AS (SELECT atttypid, atttypmod, 0 UNION ALL "
            "SELECT typbasetype, typtypmod, depth + 1 FROM base JOIN pg_type ON pg_type.oid = kind WHERE typtype = 'd')"
            " SELECT format_type(kind, modifier) FROM base ORDER BY depth DESC LIMIT 1) FROM pg_attribute "
            "WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            (self._table,),
        )
        if not columns_of_table:
            tables = self._session.rows(
                "listing the tables",
                "SELECT DISTINCT CASE WHEN pg_table_is_visible(c.oid) THEN relname "
                "ELSE relnamespace::regnamespace || '.' || relname END FROM pg_attribute JOIN pg_class c ON c.oid = "
                "attrelid JOIN pg_type t ON t.oid = atttypid WHERE typname = ANY($1) AND relkind IN ('r', 'v', 'm', "
                "'p', 'f') ORDER BY 1",
                (list(kinds),),
            )
            tables_text = ", ".join(str(name) for (name,) in tables) or "none"
            raise EngineUnavailableError(
                f"there is no table '{self._name}' in the database",
                fix=f"name an existing table (table=[SCHEMA.]TABLE); those with vectors are: {tables_text}",
            )
        return {str(name): str(kind) for name, kind in columns_of_table}

    def _shape_of_rows(self, kind: str) -> tuple[str, int]:
        """Return the vectors' type and dimensions for a column that does not declare them, such as LangChain's."""
        lengths = []
        if kind in _DENSE:
            column = quoted(self.column)
            statement = f"SELECT DISTINCT vector_dims({column}) FROM {self._table} WHERE {column} IS NOT NULL LIMIT 2"
            lengths = self._session.rows("looking at the vectors", statement)
        if len(lengths) != 1:
            raise RejectedInputError(
                f"the column '{self.column}' of the table '{self._name}' has no fixed number of dimensions"
                + (", and its vectors differ" if lengths else ""),
                fix="name a column of vectors that are all of one length",
            )
        return kind, int(lengths[0][0])

    def _similarity_of(self, requested: str) -> Similarity:
        """Return the similarity of the vectors' index, by its operator class, or ``requested`` without an index."""
        operator_classes = self._session.rows(
            "asking for the index",
            "SELECT o.opcname FROM pg_index i JOIN pg_opclass o ON o.oid = i.indclass[0] "
            "JOIN pg_attribute t ON t.attrelid = i.indrelid AND t.attnum = i.indkey[0] "
            "WHERE i.indrelid = $1::regclass AND t.attname = $2 AND i.indisvalid",
            (self._table, self.column),
        )
        words = {f"{self.type}_{operator.word}_ops": name for name, operator in OPERATORS.items()}
        similarities = [words[str(name)] for (name,) in operator_classes if str(name) in words]
        if not similarities and not requested:
            raise RejectedInputError(
                f"no index of the table '{self._name}' says how its vectors are compared",
                fix=f"pass similarity=, one of {', '.join(OPERATORS)}",
            )
        if similarities and requested and requested not in similarities:
            raise RejectedInputError(
                f"the index of the table '{self._name}' is for similarity={similarities[0]}, and PostgreSQL scans all "
                f"rows for similarity={requested}",
                fix="name a column without an index, or with one for dot products: vector_column="
                if self.type == "sparsevec"
                else f"give similarity={similarities[0]}, or leave it out",
            )
        return cast("Similarity", requested or similarities[0])

    def _select(self, doing: str, columns: Sequence[str], more: str = "", values: Sequence[object] = ()) -> list[Any]:
        column_list = ", ".join(map(quoted, columns))
        statement = f"SELECT {column_list} FROM {self._table} {more} ORDER BY {quoted(self.id_column)}"
        return self._session.rows(doing, statement, values)

    def _read(self, keys: Sequence[object]) -> list[Any]:
        """Return id, vector and text of these ids, without rows that have no vector; a ``sparsevec`` may be NULL."""
        condition = f"WHERE {quoted(self.id_column)} = ANY($1)"
        columns = [self.id_column, self.column, self._text_column or self.id_column]
        records = self._select("reading rows", columns, condition, (list(keys),))
        return [row for row in records if row[1] is not None or self.sparse]

    def _records(self, keys: Sequence[object], fields: Sequence[str]) -> Iterator[tuple[Any, Mapping[str, Any]]]:
        """Yield the keys of rows, and the columns that hold these fields, as JSON."""
        locations = {location.column: location for field in fields for location in locations_of(field, self.columns)}
        expressions = ", ".join((quoted(self.id_column), *map(json_of, locations.values())))
        statement = f"SELECT {expressions} FROM {self._table} WHERE {quoted(self.id_column)} = ANY($1)"
        for start in range(0, len(keys), _PAGE):
            for key, *values in self._session.rows("reading metadata", statement, (keys[start : start + _PAGE],)):
                yield key, dict(zip(locations, values, strict=True))

    def metadata(self, fields: Sequence[str]) -> Iterator[tuple[Int32Array, Sequence[Mapping[str, Any]]]]:
        """Yield the columns that hold these fields, as JSON; raises RejectedInputError for an unknown field."""
        for key, record in self._records(self._keys, fields):
            yield self.rows([key]), [record]

    def _vectors(self, records: Sequence[Any]) -> Any:
        values = [vector for _, vector, _ in records]
        if self.sparse:
            return sparse_vectors(values, self.dimensions)
        return dense_vectors(values, self.type, self.dimensions)

    def pages(self) -> Iterator[tuple[Int32Array, Any]]:
        """Yield the vectors of all rows that have a vector."""
        for start in range(0, len(self.ids), _PAGE):
            records = self._read(self._keys[start : start + _PAGE])
            yield self.rows(name for name, _, _ in records), self._vectors(records)

    def sample(self, rows: Int32Array) -> DocumentSample:
        """Read rows that have a vector."""
        records = [row for row in self._read(self.keys(rows)) if row[1] is not None]
        texts = {}
        if self._text_column:
            values = [None if text is None else str(text) for _, _, text in records]
            texts[f"the column '{self._text_column}'"] = values
        return DocumentSample(self.rows(name for name, _, _ in records), self._vectors(records), texts)

    def changed(self) -> str | None:
        """Return the change since the rows were listed, in their number or content; None if nothing changed."""
        self._session.renew()
        (rows, newest), (rows_now, newest_now) = self._content, self._summary()
        if rows != rows_now:
            return f"the table '{self._name}' held {rows:,} rows and now holds {rows_now:,}"
        return None if newest == newest_now else f"rows of the table '{self._name}' were changed"

    def _summary(self) -> tuple[int, int]:
        """Return the number of rows, and the number of the newest transaction that wrote any of them.

        A view does not report the latter; it is then 0.
        """
        kind = self._session.rows(
            "looking at it", "SELECT relkind FROM pg_class WHERE oid = $1::regclass", (self._table,)
        )
        newest = "0" if kind[0][0] in (b"v", b"f", "v", "f") else "coalesce(max(xmin::text::bigint), 0)"
        statement = f"SELECT count(*), {newest} FROM {self._table}"
        ((rows, newest),) = self._session.rows("counting the rows", statement)
        return int(rows), int(newest)
