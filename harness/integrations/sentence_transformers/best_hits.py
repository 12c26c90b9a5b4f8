"""The best k documents of every query, from a score function that is called on tiles of queries and documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

from harness.data import ranking
from harness.data.types import Ids, Int32Array, Int64Array, Run, UInt32Array
from harness.errors import RankingError, UsageError

if TYPE_CHECKING:
    from torch import Tensor

ScoreFunction = Callable[[Any, Any], "Tensor"]
"""Embeddings of q queries and d documents to a tensor (q, d) of scores, more is better."""

SCORES_PER_BLOCK = 2**22
"""Scores that exist at the same time: 16 MiB of float32, which the allocator keeps from tile to tile."""
QUERIES_PER_BLOCK = 2**11
"""Queries of a tile when queries times documents exceed that: tiles are about square, so that a score function that
normalises both sides does it to few vectors for the products that it computes."""


def tie_break_of(ids: Sequence[Any]) -> UInt32Array:
    """Return the order of documents with equal scores: the larger number, of the smaller id, comes first (uint32).

    Raises UsageError for ids that have no order among them.
    """
    try:
        ascending = sorted(range(len(ids)), key=ids.__getitem__)
    except TypeError as error:
        raise UsageError(
            f"the document ids cannot be put in order, which decides ties: {error}", fix="use ids of one type"
        ) from error
    positions = np.empty(len(ids), dtype=np.uint32)
    positions[ascending] = np.arange(len(ids), dtype=np.uint32)[::-1]
    return positions


def part(embeddings: Any, start: int, stop: int) -> Any:
    """Return rows ``start`` to ``stop`` of embeddings, selected one by one if a sparse tensor has no slices."""
    if getattr(embeddings, "is_sparse", False):
        import torch

        return embeddings.index_select(0, torch.arange(start, stop, device=embeddings.device))
    return embeddings if start == 0 and stop >= len(embeddings) else embeddings[start:stop]


@dataclass
class _Block:
    """The best hits so far of neighbouring queries.

    ``queries`` (counted from the block's first, so uint16 and sorted fast), ``rows`` and ``scores`` are of the hits,
    best first for each query. ``floor`` (one a query, on the scores' device) is the k-th score, which others have to
    reach; None before any.
    """

    queries: npt.NDArray[np.uint16]
    rows: Int32Array
    scores: npt.NDArray[Any]
    floor: Tensor | None


class BestHits:
    """Collects the best ``k`` hits of every query under one score function, from any tiles of documents.

    Order: score descending in the scores' own precision, then ``tie_break`` descending. Memory is bounded by k
    hits a query and one tile of scores.
    """

    def __init__(
        self,
        name: str,
        function: ScoreFunction,
        query_ids: Sequence[Any],
        document_ids: Sequence[Any],
        tie_break: UInt32Array,
        k: int,
    ) -> None:
        self._name, self._function = name, function
        self._query_ids, self._document_ids, self._tie_break = query_ids, document_ids, tie_break
        self._documents = Ids.of(map(str, range(len(document_ids))))
        self._k = min(k, len(document_ids))
        self._blocks = [
            _Block(np.empty(0, np.uint16), np.empty(0, np.int32), np.empty(0, np.float32), None)
            for _ in range(0, len(query_ids), QUERIES_PER_BLOCK)
        ]

    def add(self, queries: Any, documents: Any, first_row: int) -> None:
        """Score all queries against ``documents``, which are the corpus from ``first_row`` on.

        Raises RankingError for a score that is NaN, UsageError for scores of another shape.
        """
        count = documents.shape[0] if hasattr(documents, "shape") else len(documents)
        for number, block in enumerate(self._blocks):
            first = number * QUERIES_PER_BLOCK
            stop = min(first + QUERIES_PER_BLOCK, len(self._query_ids))
            query_part = part(queries, first, stop)
            width = max(1, SCORES_PER_BLOCK // (stop - first))
            for start in range(0, count, width):
                end = min(start + width, count)
                scores = self._function(query_part, part(documents, start, end))
                self._require_shape(scores, (stop - first, end - start))
                self._take(block, first, scores, first_row + start)

    def _require_shape(self, scores: Tensor, expected: tuple[int, int]) -> None:
        shape = tuple(getattr(scores, "shape", ()))
        if shape != expected:
            raise UsageError(
                f"score function '{self._name}' gave {type(scores).__name__} of shape {shape} for "
                f"{expected[0]} queries and {expected[1]} documents",
                fix="it takes embeddings of queries and of documents, and gives a tensor (queries, documents)",
            )

    def _take(self, block: _Block, first_query: int, scores: Tensor, first_row: int) -> None:
        """Merge the hits of one tile of scores into its block's hits."""
        if not scores.is_floating_point():
            scores = scores.double()
        floor = scores.new_full((len(scores),), -np.inf) if block.floor is None else block.floor
        tie_break = self._tie_break[first_row : first_row + scores.shape[1]]
        chosen = _candidates(scores, floor, tie_break, self._k)
        queries, columns = (indices.cpu().numpy() for indices in chosen.nonzero(as_tuple=True))
        values = _as_array(scores[chosen])
        rows = (columns + first_row).astype(np.int32)
        self._require_numbers(values, queries + first_query, rows)
        block.queries = np.concatenate([block.queries, queries.astype(np.uint16)])
        block.rows = np.concatenate([block.rows, rows])
        block.scores = np.concatenate([block.scores, values]) if len(block.scores) else values
        selected = ranking.best(block.queries, block.scores, self._tie_break[block.rows], self._k)
        block.queries, block.rows, block.scores = block.queries[selected], block.rows[selected], block.scores[selected]
        block.floor = floor.new_tensor(_kth_scores(block, len(scores), self._k))

    def _require_numbers(self, values: npt.NDArray[Any], queries: Int64Array, rows: Int32Array) -> None:
        broken = np.flatnonzero(~np.isfinite(values))
        if len(broken):
            query, document = self._query_ids[queries[broken[0]]], self._document_ids[rows[broken[0]]]
            raise RankingError(
                f"score function '{self._name}' gives {values[broken[0]]}: query {query!r}, document {document!r}",
                fix="look for NaN and large values in the embeddings of the two: training may have diverged",
            )

    def run(self) -> Run:
        """Return the hits as a run whose ids are the positions of queries and documents, scores cast to float32.

        The order was settled before the cast: scores that become equal only in float32 keep it.
        """
        queries = [block.queries + number * QUERIES_PER_BLOCK for number, block in enumerate(self._blocks)]
        query_count = len(self._query_ids)
        indptr = np.zeros(query_count + 1, dtype=np.int64)
        np.cumsum(np.bincount(np.concatenate(queries), minlength=query_count), out=indptr[1:])
        rows = np.concatenate([block.rows for block in self._blocks])
        return Run(Ids.of(map(str, range(query_count))), self._documents, indptr, rows, self.scores.astype(np.float32))

    def results(self) -> QueryResults:
        """Return the hits as the library's lists."""
        return QueryResults(self.run(), self.scores, self._document_ids)

    @property
    def scores(self) -> npt.NDArray[Any]:
        """The score of every hit of :meth:`run`, in the precision that the score function gave (at least float32)."""
        return np.concatenate([block.scores for block in self._blocks])


class QueryResults(Sequence[list[dict[str, Any]]]):
    """The library's lists of ``{"corpus_id", "score"}``, one per query, best first; each is made when it is looked at.

    ``run`` holds the same hits as columns, whose ids are positions.
    """

    def __init__(self, run: Run, scores: npt.NDArray[Any], document_ids: Sequence[Any]) -> None:
        self.run = run
        self._scores, self._document_ids = scores, document_ids

    def __len__(self) -> int:
        return len(self.run.query_ids)

    @overload
    def __getitem__(self, query: int) -> list[dict[str, Any]]: ...
    @overload
    def __getitem__(self, query: slice) -> list[list[dict[str, Any]]]: ...
    def __getitem__(self, query: int | slice) -> list[dict[str, Any]] | list[list[dict[str, Any]]]:
        if isinstance(query, slice):
            return [self[number] for number in range(len(self))[query]]
        selected = self.run.of_query(range(len(self))[query])
        hits = zip(self.run.rows[selected].tolist(), self._scores[selected].tolist(), strict=True)
        return [{"corpus_id": self._document_ids[row], "score": score} for row, score in hits]


def _kth_scores(block: _Block, queries: int, k: int) -> npt.NDArray[Any]:
    """Return the k-th score of each query, which further hits have to reach, and -inf for fewer hits."""
    ends = np.cumsum(np.bincount(block.queries, minlength=queries))
    full = np.diff(ends, prepend=0) == k
    return np.where(full, block.scores[np.maximum(ends - 1, 0)], -np.inf)


def _as_array(values: Tensor) -> npt.NDArray[Any]:
    """Return scores as float32 or float64: NumPy has no bfloat16."""
    wide = values if values.element_size() >= np.dtype(np.float32).itemsize else values.float()
    array: npt.NDArray[Any] = wide.detach().cpu().numpy()
    return array


def _candidates(scores: Tensor, floor: Tensor, tie_break: UInt32Array, k: int) -> Tensor:
    """Mark scores of a tile (bool, its shape) that may be among their query's best k: at most about 2k a query.

    NaN is never below a floor, so it is always among them.
    """
    enough = 2 * k * len(scores)
    chosen = (scores < floor[:, None]).logical_not_()
    if scores.shape[1] <= k or int(chosen.count_nonzero()) <= enough:
        return chosen
    floor = floor.maximum(_kth_largest(scores, k))
    chosen = (scores < floor[:, None]).logical_not_()
    if int(chosen.count_nonzero()) <= enough:
        return chosen
    return _first_of_equals(chosen, scores > floor[:, None], tie_break, k)


def _kth_largest(scores: Tensor, k: int) -> Tensor:
    """Return the k-th largest score of each row, NaN being the largest. NumPy takes a quarter of torch's time."""
    import torch

    if scores.device.type != "cpu" or scores.dtype not in (torch.float32, torch.float64):
        return scores.topk(k, dim=1, sorted=False).values.amin(dim=1)
    position = scores.shape[1] - k
    return torch.from_numpy(np.partition(scores.detach().numpy(), position, axis=1)[:, position].copy())


def _first_of_equals(chosen: Tensor, above: Tensor, tie_break: UInt32Array, k: int) -> Tensor:
    """Keep the scores above the floor, and as many scores equal to it as complete k, by ``tie_break``."""
    import torch

    best_first = torch.from_numpy(np.argsort(tie_break)[::-1].astype(np.int64)).to(chosen.device)
    equal = (chosen & ~above)[:, best_first]
    room = (k - above.sum(dim=1, dtype=torch.int32))[:, None]
    above[:, best_first] |= equal & (equal.cumsum(dim=1, dtype=torch.int32) <= room)
    return above
