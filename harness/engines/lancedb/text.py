"""LanceDB's full-text search, its own BM25 over analysed terms, with or without fusion with vectors."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from harness.data.inputs import Inputs
from harness.data.progress import Clock, Progress
from harness.data.types import Float32Array, Int32Array
from harness.engines.base import Column, Documents, HitCollector, LoadedIndex
from harness.engines.checks import require_terms
from harness.engines.interface import Capabilities, Caveats, EngineInfo, Hits, Placement, Remains
from harness.engines.lancedb.engine import LanceEngine, LanceVectorsEngine
from harness.engines.lancedb.table import ROW_ID, describe_index, require_lancedb, table_state
from harness.registry.parameters import ParameterValue

__all__ = ["LanceDbHybridEngine", "LanceDbTextEngine"]

_TERMS = "terms"


class _TermsEngine(LanceEngine[Column]):
    """An engine whose table has an index of terms."""

    def index_terms(self) -> None:
        """Make the index, which takes the terms unchanged."""
        config = require_lancedb("lancedb.index").FTS(
            base_tokenizer="whitespace",
            lower_case=False,
            stem=False,
            remove_stop_words=False,
            ascii_folding=False,
            max_token_length=None,
            num_workers=int(self.parameters["workers"]) or None,
        )
        self._table.create_index(_TERMS, config=config)

    def terms_query(self, text: str, k: int) -> Any:
        """Return LanceDB's query for the best rows that have any of the terms."""
        return self.finished_query(self._table.search(_match(text), query_type="fts").limit(k), "_score")

    def notes_on_unindexed_rows(self) -> tuple[str, ...]:
        """Return a note if rows outside the index are scored by other statistics."""
        index = describe_index(self._table, _TERMS)
        if index is None or not index.unindexed:
            return ()
        note = (
            f"{index.unindexed:,} rows came after the index was made: their scores count all rows, while the scores "
            "of other rows count only the indexed rows, until optimize adds them"
        )
        return (note,)

    def outside_the_index(self) -> Int32Array:
        """Return the rows that the index of terms lacks, ascending: the rows written last."""
        index, rows = describe_index(self._table, _TERMS), self._row_ids.by_age
        return np.sort(rows[len(rows) - (0 if index is None else index.unindexed) :])

    def remains(self) -> Remains:
        """List the rows outside the index, and the rows deleted in it; LanceDB reports nothing after ``optimize``.

        ``optimize`` leaves deleted rows in the statistics if they are few: less than a tenth of a fragment.
        """
        if self.parameters["optimize"]:
            return Remains()
        early = self.parameters.get("index_when") == "first"
        first_added = int(self.parameters["rows_per_add"]) if early else 0
        rows, written = self.dropped
        inside = (written == 0) & ((rows < first_added) | (first_added == 0))
        return Remains(rows[inside], written[inside], unindexed=self.outside_the_index())


class LanceDbTextEngine(_TermsEngine[pa.ChunkedArray]):
    """LanceDB's BM25, k1 1.2 and b 0.75, over terms that the harness analysed: LanceDB only splits them at spaces.

    N, document frequencies and lengths cover the whole table, however many fragments and parts its index has. Rows
    added after the index was made are scored with statistics that count them, the others with the statistics of the
    index: the scores of one answer then use two measures, until ``optimize`` indexes these rows.
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

    def build(self, folder: Path, documents: Documents[pa.ChunkedArray], progress: Progress) -> None:
        """Write the rows, and make the index at the end or after the first rows."""
        self.write(documents, progress)
        progress.start("index terms", None)
        if self.parameters["index_when"] != "first":
            self.index_terms()
        elif self.parameters["optimize"]:
            self._table.optimize()

    def begun(self) -> None:
        """Make the index now if it is to cover only the first rows."""
        if self.parameters["index_when"] == "first":
            self.index_terms()

    def stored(self, column: pa.ChunkedArray) -> Mapping[str, pa.ChunkedArray]:
        """Return the column of terms."""
        return {_TERMS: column.cast(pa.string())}

    def load(self, folder: Path) -> LoadedIndex:
        """Open the table, and describe its index."""
        self.open_built(folder)
        index = describe_index(self._table, _TERMS)
        state: dict[str, ParameterValue] = {**table_state(self._table), **({} if index is None else index.state)}
        return LoadedIndex(int(self._table.count_rows()), state)

    def prepare(self, queries: pa.ChunkedArray, k: int) -> Iterator[Any]:
        """Make LanceDB's queries: a row matches if it has any of the terms."""
        for text in super().prepare(queries, k):
            yield None if text is None else self.terms_query(text, k)

    def columns(self, answer: pa.Table) -> tuple[Int32Array, Float32Array]:
        """Return rows and LanceDB's scores."""
        return self._row_ids.rows(answer), answer["_score"].to_numpy()

    def placement(self) -> Placement:
        """Return the rows outside the index: the rows written last."""
        return Placement(None, np.arange(len(self.ids), dtype=np.int32), self.outside_the_index())

    def caveats(self, k: int) -> Caveats:
        """Note whether rows outside the index are scored by other statistics."""
        return Caveats(self.notes_on_unindexed_rows())


class LanceDbHybridEngine(_TermsEngine[Inputs], LanceVectorsEngine[Inputs]):
    """LanceDB's own hybrid search: its BM25 over analysed terms and dense vectors, fused by its ``RRFReranker``.

    Each list has ``candidates`` hits, or by default the requested number. A document gets ``1 / (rrf_k + place)`` from
    each list that has it, counting places from 1; equal sums stay in the order of the vectors' list, then of the terms'
    list. So equal documents have different scores, by places that have no fixed order.
    """

    name = "lancedb-hybrid"
    capabilities: ClassVar[Capabilities] = Capabilities(
        input="terms+dense",
        exact=False,
        deterministic=False,
        reopens=True,
        keeps_k_prefix=False,
        shares_index=True,
        threads=True,
        gaps={"test_equal_scores": "equal documents have different places in the lists, and so different scores"},
    )
    search_parameters = LanceVectorsEngine.search_parameters | {"rrf_k", "candidates"}

    def info(self) -> EngineInfo:
        """Load LanceDB, and silence its warning about columns that it adds itself to every hybrid query."""
        os.environ.setdefault("LANCEDB_LOG", "error")
        return super().info()

    def build(self, folder: Path, documents: Documents[Inputs], progress: Progress) -> None:
        """Write the rows; getting ready means making the index of the terms and, if wanted, of the vectors."""
        super().build(folder, documents, progress)
        self.index_terms()

    def stored(self, column: Inputs) -> Mapping[str, pa.Array | pa.ChunkedArray]:
        """Return the columns of terms and of vectors."""
        return {_TERMS: require_terms(column, "document").cast(pa.string()), **self.stored_vectors(_dense(column))}

    def opened_table(self) -> LoadedIndex:
        """Describe the table and both of its indexes."""
        loaded, index = super().opened_table(), describe_index(self._table, _TERMS)
        of_terms = {} if index is None else {f"terms_{name}": value for name, value in index.state.items()}
        return replace(loaded, state={**loaded.state, **of_terms})

    def prepare(self, queries: Inputs, k: int) -> Iterator[Any]:
        """Make LanceDB's hybrid queries; a query without terms has only the list of its vector."""
        reranker = require_lancedb("lancedb.rerankers").RRFReranker(int(self.parameters["rrf_k"]))
        depth = self.depth(k)
        for vector, text in zip(_dense(queries), require_terms(queries, "query").to_pylist(), strict=True):
            both = self._table.search(query_type="hybrid", vector_column_name=self._column)
            query = self.tuned(both.vector(vector).text(_match(text)), depth).rerank(reranker)
            yield self.finished_query(query, ROW_ID)

    def depth(self, k: int) -> int:
        """Return the number of hits in each list: LanceDB applies the limit of a query to both lists."""
        return super().depth(max(k, int(self.parameters["candidates"])))

    def retrieve(self, query: Any, k: int) -> pa.Table:
        """Request as many hits as each list has, and keep the best ``k``."""
        return super().retrieve(query, k).slice(0, k)

    def columns(self, answer: pa.Table) -> tuple[Int32Array, Float32Array]:
        """Return rows and the sums of reciprocal places."""
        return self._row_ids.rows(answer), answer["_relevance_score"].to_numpy()

    def lists(self, queries: Inputs, k: int, clock: Clock) -> Mapping[str, Hits]:
        """Return the lists that LanceDB fuses: the nearest vectors, and the best rows by terms."""
        checked = self.check(queries, "query", self.loaded.dimensions)
        depth, rows = self.depth(k), self._row_ids.rows
        by_vector, by_terms = HitCollector(), HitCollector()
        with self.translated(lambda: "searching for one list of its hybrid queries"):
            for vector, text in zip(_dense(checked), require_terms(checked, "query").to_pylist(), strict=True):
                by_vector.add(*self.nearest(self.vector_query(vector, depth).to_arrow()), 0, 0)
                answer = self.terms_query(text, depth).to_arrow()
                by_terms.add(rows(answer), answer["_score"].to_numpy(), 0, 0)
        collected = {"dense": by_vector.result(), "terms": by_terms.result()}
        return {name: Hits(hits.indptr, hits.rows, hits.scores) for name, hits in collected.items()}

    def caveats(self, k: int) -> Caveats:
        """Return the caveats of both lists."""
        of_vectors = super().caveats(k)
        return of_vectors._replace(notes=(*of_vectors.notes, *self.notes_on_unindexed_rows()))


def _match(text: str) -> Any:
    """Return the query for rows that have any of the terms."""
    return require_lancedb("lancedb.query").MatchQuery(text, _TERMS)


def _dense(inputs: Inputs) -> Float32Array:
    if inputs.dense is None:
        raise AssertionError("inputs without dense vectors")
    return inputs.dense
