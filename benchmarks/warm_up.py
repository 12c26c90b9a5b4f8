"""How many unmeasured queries an engine needs before its latency settles.

Each row is a fresh worker on the bundled CACM: index, so many queries unmeasured, then every query once, measured.
"""

from __future__ import annotations

import argparse
from unittest.mock import patch

import harness
from harness.pipeline import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backends", default="lucene,qdrant")
    parser.add_argument("--queries", type=int, nargs="+", default=[0, 100, 300, 1000, 3000])
    arguments = parser.parse_args()
    print("| backend | unmeasured queries | p50 ms | p95 ms | p99 ms |")
    print("|---|--:|--:|--:|--:|")
    for count in arguments.queries:
        with patch.object(run, "warm_up_queries", return_value=count):
            timings = harness.compare(arguments.backends, warm_up=60.0).timings()
        for backend, row in timings.iterrows():
            print(f"| {backend} | {count:,} | {row['p50_ms']:.3f} | {row['p95_ms']:.3f} | {row['p99_ms']:.3f} |")


if __name__ == "__main__":
    main()
