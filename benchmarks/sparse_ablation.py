"""What each technique of the exact sparse kernel is worth: the whole kernel against itself without one of them.

A variant is the module of the kernels once more, with one function or constant exchanged before anything is compiled.
All search the same postings and must return the same hits. Rounds are interleaved, as in sparse_search.py; a factor is
the median of the rounds' ratios, above 1 where the technique makes a search faster.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
from numba.core.caching import NullCache
from numba.core.registry import CPUDispatcher
from scipy.sparse import vstack
from sparse_search import Workload, arxiv, default_arxiv, learned, synthetic, warm_cpu_ms

from harness.data.jit import inner_kernel
from harness.data.types import SparseVectors
from harness.exact import SparseIndex, kernels, topk


@inner_kernel
def _no_estimate(
    block: object,
    documents: np.uint64,
    width: np.uint64,
    workspace: kernels.Workspace,
) -> np.float64:
    return np.float64(-np.inf)


WHOLE = "nothing"
WITHOUT: dict[str, dict[str, object]] = {
    "blocks": {"BLOCK": np.uint64(1 << 31)},
    "the threshold estimate": {"_threshold_estimate": _no_estimate},
    "collecting by way of postings": {"_FEW": np.uint64(1 << 32)},
    "leaving terms out": {"_SHARE": 0.0},
}


def variant(changes: dict[str, object]) -> ModuleType:
    """The module of the kernels with other globals; compiled anew, and kept nowhere."""
    spec = importlib.util.spec_from_file_location(f"kernels_without_{'_'.join(changes)}", kernels.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    for value in vars(module).values():
        if isinstance(value, CPUDispatcher) and value.py_func.__module__ == spec.name:
            value._cache = NullCache()  # noqa: SLF001 - Numba has no public way
    vars(module).update(changes)
    return module


def repeated(arxiv_50k: Workload, documents: int, generator: np.random.Generator) -> Workload:
    """More documents of the same texts: half of the terms of one abstract and half of another's.

    The vocabulary does not grow as that of more real text would, so terms are more frequent than there.
    """
    rows = arxiv_50k.documents.to_scipy()
    parts = []
    for _ in range(-(-documents // len(arxiv_50k.documents))):
        first = rows.copy()
        first.data *= (generator.integers(0, 2, rows.nnz)).astype(np.float32)
        second = rows[generator.permutation(rows.shape[0])]
        second.data *= (generator.integers(0, 2, rows.nnz)).astype(np.float32)
        both = first.maximum(second)
        both.eliminate_zeros()
        parts.append(both)
    made = vstack(parts, format="csr")[:documents]
    made.sort_indices()
    vectors = SparseVectors(made.indptr.astype(np.int64), made.indices.astype(np.int32), made.data, made.shape[1])
    return Workload(f"made of arXiv's texts, {documents:,} documents", vectors, arxiv_50k.sets)


def ablate(workload: Workload, depths: list[int], repeat: int, modules: dict[str, ModuleType]) -> Iterator[str]:
    """A line for each set of queries and depth: milliseconds of the whole kernel, then the factor of each technique."""
    indexes = {without: SparseIndex.build(workload.documents) for without in modules}
    for name, queries in workload.sets:
        for k in depths:
            rounds: dict[str, list[float]] = {without: [] for without in modules}
            for _ in range(repeat):
                for without, module in modules.items():
                    topk.retrieve_kernel, topk.Workspace = module.retrieve_kernel, module.Workspace
                    search = functools.partial(indexes[without].retrieve, queries, k)
                    rounds[without].append(warm_cpu_ms(search) / len(queries))
            hits = {without: index.retrieve(queries, k) for without, index in indexes.items()}
            for without, found in hits.items():
                assert all(map(np.array_equal, found, hits[WHOLE])), f"other hits without {without}"
            factors = (
                statistics.median(slow / fast for slow, fast in zip(rounds[without], rounds[WHOLE], strict=True))
                for without in WITHOUT
            )
            times = " | ".join(f"{factor:.2f}" for factor in factors)
            yield f"| {workload.name} | {name} | {k} | {statistics.median(rounds[WHOLE]):.4f} | {times} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arxiv", type=Path, default=default_arxiv(), help="folder with corpus.jsonl.gz")
    parser.add_argument("--made", type=int, default=700_000, help="documents of the collection made of arXiv's texts")
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--k", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    modules = {WHOLE: kernels, **{name: variant(changes) for name, changes in WITHOUT.items()}}
    print(f"| collection | queries | k | ms | {' | '.join(f'without {name}' for name in WITHOUT)} |")
    print(f"|---|---|--:|--:|{'--:|' * len(WITHOUT)}")
    generator = np.random.default_rng(7)
    texts = arxiv(arguments.arxiv, arguments.queries, generator)
    made = repeated(texts, arguments.made, generator)
    others = (learned(100_000, arguments.queries, generator), synthetic(1_000_000, arguments.queries, generator))
    for workload in (texts, made, *others):
        for line in ablate(workload, arguments.k, arguments.repeat, modules):
            print(line, flush=True)


if __name__ == "__main__":
    main()
