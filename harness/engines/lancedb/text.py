"""The engine on LanceDB's full-text search: its own BM25 over analysed terms."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from harness.data.arrow import strings
from harness.data.progress import Progress
from harness.data.types import Float32Array, Int32Array
from harness.engines.base import Capabilities, Documents, LoadedIndex
from harness.engines.interface import Caveats, Remains
from harness.engines.lancedb.engine import LanceEngine
from harness.engines.lancedb.table import describe_index, require_lancedb, table_state
from harness.registry.parameters import ParameterValue

__all__ = ["LanceDbTextEngine"]

_TERMS = "terms"


class LanceDbTextEngine(LanceEngine[pa.ChunkedArray]):
    """LanceDB's BM25, k1 1.2 and b 0.75, over terms that the harness analysed: LanceDB only splits them at spaces.

    N, document frequencies and lengths are those of the whole table, however many fragments and parts its index has.
    Rows that were added since the index was made are scored with statistics that count them, the others with those of
    the index: the scores of one answer then go by two measures, until ``optimize`` takes these rows in.
    """

    name = "lancedb-text"
    capabilities: ClassVar[Capabilities] = Capabilities(
        input="terms",
        exact=True,
        deterministic=True,
        reopens=True,
        keeps_k_prefix=False,
        shares_index=True,
        threads=True,
    )

    def build(self, folder: Path, documents: Documents[pa.ChunkedArray], progress: Progress) -> None:  # noqa: ARG002
        """Write the rows, and make the index at the end, or after the first rows that are added."""
        early, made = self.parameters["index_when"] == "first", False

        def added(table: Any) -> None:  # noqa: ANN401 - the client is untyped
            nonlocal made
            if early and not made:
                table.create_index(_TERMS, config=self._config())
                made = True

        self.write(documents, progress, added)
        progress.start("index terms", None)
        if not early:
            self._table.create_index(_TERMS, config=self._config())
        elif self.parameters["optimize"]:
            self._table.optimize()

    def field(self, column: pa.ChunkedArray) -> pa.Field:  # noqa: ARG002 - for all the same
        """Return a column of strings."""
        return pa.field(_TERMS, pa.string())

    def values(self, column: pa.ChunkedArray, start: int, stop: int) -> pa.Array:
        """Return the terms of documents."""
        return strings(column.slice(start, stop - start).to_pylist())

    def _config(self) -> Any:  # noqa: ANN401 - a class of the client
        """Return the configuration of an index that takes the terms as they come."""
        own = {"num_workers": int(self.parameters["workers"]) or None}
        return require_lancedb("lancedb.index").FTS(
            base_tokenizer="whitespace",
            lower_case=False,
            stem=False,
            remove_stop_words=False,
            ascii_folding=False,
            max_token_length=None,
            **own,
        )

    def load(self, folder: Path) -> LoadedIndex:
        """Open the table, and ask what its index holds."""
        self.open_own(folder)
        index = describe_index(self._table, _TERMS)
        state: dict[str, ParameterValue] = {**table_state(self._table), **({} if index is None else index.state)}
        return LoadedIndex(int(self._table.count_rows()), state)

    def prepare(self, queries: pa.ChunkedArray, k: int) -> Iterator[Any]:
        """Make LanceDB's queries: a row matches that has one of the terms."""
        match = require_lancedb("lancedb.query").MatchQuery
        for text in super().prepare(queries, k):
            if text is None:
                yield None
                continue
            query = self._table.search(match(text, _TERMS), query_type="fts").limit(k)
            yield self.finished_query(query, "_score")

    def columns(self, answer: pa.Table) -> tuple[Int32Array, Float32Array]:
        """Return rows and LanceDB's scores."""
        return self._row_ids.rows(answer), answer["_score"].to_numpy()

    def remains(self) -> Remains:
        """List the rows outside the index, and what was deleted in it; LanceDB tells nothing once ``optimize`` ran.

        ``optimize`` leaves deleted rows in the statistics where they are few: less than a tenth of a fragment.
        """
        index = describe_index(self._table, _TERMS)
        if self.parameters["optimize"] or index is None:
            return Remains()
        first_added = int(self.parameters["rows_per_add"]) if self.parameters["index_when"] == "first" else 0
        rows, written = self.dropped
        inside = (written == 0) & ((rows < first_added) | (first_added == 0))
        outside = self._row_ids.by_age[len(self._row_ids) - index.unindexed :]
        return Remains(rows[inside], written[inside], unindexed=np.sort(outside))

    def caveats(self, k: int) -> Caveats:  # noqa: ARG002 - of the protocol
        """Say where scores go by two measures."""
        index = describe_index(self._table, _TERMS)
        if index is None or not index.unindexed:
            return Caveats()
        note = (
            f"{index.unindexed:,} rows came after the index was made: their scores count all rows, those of the others "
            "only the rows of the index, until optimize takes them in"
        )
        return Caveats((note,))
