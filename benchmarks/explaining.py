"""The cost of the explanations on a page, for all queries of CACM, next to searching these once; and of one query.

The three default backends are compared as ``harness compare --out`` does it. Explaining is everything that explanations
add to the comparison: choosing documents, their terms, and the table. Searching is the time of one pass over the
queries, with the transfer of hits, summed over the backends: the mean of the passes of the same comparison.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
from harness.loaders import load_dataset
from harness.pipeline.hit_explanations import HitExplainer


def timed(method: Callable[..., Any], times_ns: list[int]) -> Callable[..., Any]:
    """Return a method that notes how long each of its calls takes."""

    def call(*arguments: Any) -> Any:
        started = time.perf_counter_ns()
        result = method(*arguments)
        times_ns.append(time.perf_counter_ns() - started)
        return result

    return call


def seconds_of_one_query(dataset: str, backends: str) -> float:
    """Return the time of explaining the dataset's first query, whose outcomes are in the cache."""
    query = load_dataset(dataset).queries.ids[0]
    harness.explain(query=query, dataset=dataset, backends=backends)
    started = time.perf_counter()
    harness.explain(query=query, dataset=dataset, backends=backends)
    return time.perf_counter() - started


def main() -> None:
    """Compare, and print both times and their ratio for each repetition."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backends", default="lucene,qdrant,csr")
    parser.add_argument("--dataset", default="cacm")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    times_ns: list[int] = []
    for name in ("explain", "table"):
        setattr(HitExplainer, name, timed(getattr(HitExplainer, name), times_ns))
    HitExplainer.of_page = staticmethod(timed(HitExplainer.of_page, times_ns))  # type: ignore[method-assign,assignment]
    for _ in range(arguments.repeats):
        times_ns.clear()
        with tempfile.TemporaryDirectory() as folder:
            result = harness.compare(arguments.backends, arguments.dataset, out=Path(folder) / "result", resume="never")
        if result.latencies is None or result.explanations is None:
            raise SystemExit("the comparison took no times or explained nothing")
        frame = result.latencies.to_pandas()
        spent = (frame["search_ns"] + frame["transfer_ns"]).groupby([frame["backend"], frame["pass"]]).sum()
        searching = spent.groupby("backend").mean() / 1e6
        explaining, rows, total = sum(times_ns) / 1e6, len(result.explanations), searching.sum()
        parts = ", ".join(f"{label} {ms:.1f}" for label, ms in searching.items())
        print(f"explaining {explaining:.1f} ms, {rows:,} rows; searching {total:.1f} ms ({parts})", end="; ")
        one = seconds_of_one_query(arguments.dataset, arguments.backends)
        print(f"ratio {explaining / total:.2f}; one query from the cache {one:.2f} s", flush=True)


if __name__ == "__main__":
    main()
