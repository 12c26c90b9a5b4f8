"""Datasets of vectors with their nearest neighbours, as ann-benchmarks distributes them: HDF5 files without texts.

Ids are row numbers: of ``train`` for documents, of ``test`` for queries. The text of each is its id, with which
functions and endpoints are called. The nearest neighbours are the judgments: a split judges that many of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from harness.data.columns import TextBatch
from harness.data.dataset import DatasetVectors
from harness.data.judgments import Judgments
from harness.data.problems import Problems
from harness.data.progress import Progress
from harness.data.types import Float64Array, Int64Array, Similarity
from harness.errors import UsageError
from harness.loaders.base import DatasetSpec, JudgmentSource, LoadedDataset, Location, TextSource
from harness.loaders.parts import Files, choose_split
from harness.store.neighbour_file import SIMILARITIES, NeighbourFile, is_neighbour_file
from harness.wording import counted

_BATCH = 8192
_DEPTHS = (1, 10, 100)
_CHECKED_QUERIES, _CHECKED_BLOCKS, _BLOCK_ROWS = 50, 10, 1000
_TOLERANCE = 1e-4
"""Difference of scores, relative to the largest score of a query, below which sums in float32 may be in any order."""


class NeighbourFileLoader:
    """Reads vectors of documents and queries with the queries' nearest neighbours, from one HDF5 file.

    The splits ``top1``, ``top10`` and ``top100`` judge the nearest neighbours up to that rank, and the default split
    all that the file has.
    """

    name = "ann-benchmarks"
    locations: frozenset[Location] = frozenset({"file"})

    def matches(self, spec: DatasetSpec) -> bool:
        """Return whether the location is an HDF5 file, by its first bytes or its ending."""
        return is_neighbour_file(spec.path)

    def load(self, spec: DatasetSpec, split: str | None, progress: Progress | None) -> LoadedDataset:
        """Find the parts; a file without neighbours has no judgments.

        Raises DataError for a file that is damaged or holds anything else than dense vectors, MissingExtraError without
        the package h5py.
        """
        if spec.columns and spec.queries is None and spec.qrels is None:
            raise UsageError(
                f"--columns: '{spec.location}' is an HDF5 file, without fields to name", fix="leave it out"
            )
        files = Files.of_path(spec.path)
        with NeighbourFile(spec.path) as file:
            distance, documents, queries, depth = file.distance, file.documents, file.queries, file.depth
        depths = {f"top{rank}": rank for rank in (*(rank for rank in _DEPTHS if rank < depth), depth) if rank}
        chosen = choose_split(spec.location, tuple(depths), split, f"top{depth}")
        judgments = partial(_judgments, spec.path, depths[chosen]) if chosen else None
        return LoadedDataset(
            _row_numbers(files, documents),
            _row_numbers(files, queries),
            JudgmentSource(files.label, judgments, files.name, files.digests, "row") if judgments is not None else None,
            split=chosen,
            splits=tuple(depths),
            identical_ids="keep",
            provenance={"distance": distance},
            vectors=DatasetVectors(f"precomputed:{spec.location}", SIMILARITIES[distance], distance),
        )


def _row_numbers(files: Files, count: int) -> TextSource:
    def batches(problems: Problems, notes: list[str]) -> Iterator[TextBatch]:
        for start in range(0, count, _BATCH):
            names = list(map(str, range(start, min(start + _BATCH, count))))
            yield TextBatch(names, names)

    return TextSource(
        files.label,
        batches,
        name=files.name,
        key={"row_numbers": count},
        digests=files.digests,
        state=files.state,
        unit="row",
    )


def _judgments(path: Path, depth: int, problems: Problems, notes: list[str]) -> Judgments:
    """Return the first neighbours of each query, each of grade 1."""
    with NeighbourFile(path) as file:
        neighbours = file.neighbours()
        notes.append(_check_neighbours(file, neighbours))
    neighbours = neighbours[:, :depth]
    is_filled = neighbours >= 0
    short = int(np.count_nonzero(~is_filled.all(axis=1)))
    if short:
        verb = "has" if short == 1 else "have"
        notes.append(f"{counted(short, 'query', 'queries')} {verb} fewer than {depth} neighbours")
    if not is_filled.any():
        problems.add(None, "all values of 'neighbors' are -1, which stands for no neighbour")
    queries = np.flatnonzero(is_filled) // depth
    names = list(map(str, queries.tolist()))
    return Judgments((queries + 1).tolist(), names, list(map(str, neighbours[is_filled].tolist())), [1] * len(names))


def _check_neighbours(file: NeighbourFile, neighbours: Int64Array) -> str:
    """Compare the neighbours of at most 50 queries with 10,000 documents, and describe the comparison.

    Queries that have fewer neighbours than others are left out.

    Raises DataError if a document that is not listed is clearly nearer than the last neighbour of a query, and if
    neighbours are not in the order of their distance.
    """
    similarity = SIMILARITIES[file.distance]
    full = np.flatnonzero((neighbours >= 0).all(axis=1))
    queries = full[_spread(len(full), _CHECKED_QUERIES)]
    rows = _checked_rows(file.documents)
    documents = file.vectors("documents", rows).astype(np.float64)
    neighbour_rows = np.unique(neighbours[queries])
    neighbour_vectors = file.vectors("documents", neighbour_rows)  # at once: a compressed chunk is read once
    problems = Problems(file.name)
    for query, vector in zip(queries.tolist(), file.vectors("queries", queries).astype(np.float64), strict=True):
        nearest = neighbours[query]
        nearest_vectors = neighbour_vectors[np.searchsorted(neighbour_rows, nearest)]
        scores = _scores(vector, nearest_vectors.astype(np.float64), similarity)
        unlisted = np.where(np.isin(rows, nearest), -np.inf, _scores(vector, documents, similarity))
        allowed = _TOLERANCE * _largest_score(vector, documents, similarity)
        nearer = rows[unlisted > scores[-1] + allowed]
        if len(nearer):
            problems.add(None, f"query {query}: document {nearer[0]} is nearer than the last neighbour, {nearest[-1]}")
        late = np.flatnonzero(scores[1:] > scores[:-1] + allowed)
        if len(late):
            later, earlier = nearest[late[0] + 1], nearest[late[0]]
            problems.add(None, f"query {query}: neighbour {later} is nearer than {earlier}, which comes before it")
    problems.raise_if_any(
        fix="make 'neighbors' again from 'train' and 'test', or correct the attribute 'distance'",
        because=f"'neighbors' contradicts the vectors by the distance '{file.distance}'",
    )
    compared = f"{counted(len(queries), 'query', 'queries')} and {counted(len(rows), 'document')}"
    return f"the neighbours agree with the vectors of {compared} that were compared"


def _checked_rows(documents: int) -> Int64Array:
    """Return the rows of blocks that are spread over the documents."""
    if documents <= _CHECKED_BLOCKS * _BLOCK_ROWS:
        return np.arange(documents, dtype=np.int64)
    starts = np.linspace(0, documents - _BLOCK_ROWS, _CHECKED_BLOCKS).astype(np.int64)
    return np.unique(starts[:, None] + np.arange(_BLOCK_ROWS))


def _spread(count: int, most: int) -> Int64Array:
    """Return at most ``most`` of the positions below ``count``, spread over them."""
    return np.unique(np.linspace(0, max(count - 1, 0), min(count, most)).astype(np.int64))


def _scores(query: Float64Array, documents: Float64Array, similarity: Similarity) -> Float64Array:
    """Return the similarity of a query to each document; NaN for vectors without a direction."""
    with np.errstate(all="ignore"):  # vectors that are not finite are named when they are encoded
        if similarity == "l2":
            distances: Float64Array = np.square(documents - query).sum(axis=1)
            return -distances
        scores: Float64Array = documents @ query
        if similarity == "cosine":
            scores /= np.linalg.norm(documents, axis=1) * np.linalg.norm(query)
        return scores


def _largest_score(query: Float64Array, documents: Float64Array, similarity: Similarity) -> float:
    """Return a bound of the query's scores, to which errors of sums are relative."""
    if similarity == "cosine":
        return 1.0
    length, longest = float(np.linalg.norm(query)), float(np.linalg.norm(documents, axis=1).max())
    return length * longest if similarity == "dot" else (length + longest) ** 2
