"""HDF5 files in the layout of ann-benchmarks, and such files with other entries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def distances(train: Array, test: Array, distance: str) -> Array:
    """Distances (q, n) as ann-benchmarks defines them."""
    if distance == "euclidean":
        return np.asarray(np.linalg.norm(train[None] - test[:, None], axis=2))
    products = test @ train.T
    if distance == "dot":
        return np.asarray(-products)
    return np.asarray(1 - products / np.linalg.norm(train, axis=1) / np.linalg.norm(test, axis=1)[:, None])


def entries(distance: str = "angular", *, n: int = 40, d: int = 4, q: int = 6, depth: int = 12) -> dict[str, Array]:
    """The datasets of a file: random vectors, and the true neighbours of each query."""
    generator = np.random.default_rng(7)
    train, test = (generator.standard_normal((rows, d)).astype(np.float32) for rows in (n, q))
    matrix = distances(train, test, distance)
    nearest = np.argsort(matrix, axis=1, kind="stable")[:, :depth]
    return {
        "train": train,
        "test": test,
        "neighbors": nearest.astype(np.int32),
        "distances": np.take_along_axis(matrix, nearest, axis=1).astype(np.float32),
    }


def write_neighbour_file(path: Path, distance: Any = "angular", *, attributes: Any = None, **datasets: Any) -> Path:
    """Write a file of random vectors; ``datasets`` and ``attributes`` replace its own, and None leaves one out."""
    name = distance if distance in ("angular", "euclidean", "dot") else "angular"
    content = entries(name) | datasets
    train = content["train"]
    width = train.shape[1] if getattr(train, "ndim", 0) == 2 else 0
    of_file = {"type": "dense", "distance": distance, "dimension": width, "point_type": "float"} | (attributes or {})
    with h5py.File(path, "w") as file:
        for key, value in of_file.items():
            if value is not None:
                file.attrs[key] = value
        for key, value in content.items():
            if value is not None:
                file[key] = value
    return path
