"""What `--executor ray` costs beyond the work itself, and how encoding scales with cores.

Encodes made-up texts with a model that takes a fixed time a text, here and on a Ray cluster of this machine, and
searches them. A model that sleeps shows the executor alone, also on a busy machine; one that computes needs a core for
each job. Starting the cluster stands apart.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np

import harness

BATCH, SHARD = 32, 4096
DIMENSIONS = 32


class Model:
    """Vectors by a fixed time of sleep or of computing a text, as the environment says."""

    @staticmethod
    def encode(texts: list[str]) -> np.ndarray:
        seconds, kind = float(os.environ["SECONDS_A_TEXT"]) * len(texts), os.environ["WORK"]
        if kind == "sleep":
            time.sleep(seconds)
        else:
            end = time.process_time() + seconds
            while time.process_time() < end:
                np.sort(np.arange(1000)[::-1])
        return np.array([np.random.default_rng(len(text)).random(DIMENSIONS) for text in texts], dtype=np.float32)


def compare(texts: int, executor: str) -> tuple[float, np.ndarray]:
    """Return the seconds of a whole comparison in an empty cache, and the scores of its hits."""
    corpus = {f"d{number}": f"text {number}" for number in range(texts)}
    dataset = harness.Dataset.of(corpus, {"q0": "query"}, {"q0": {"d0": 1}})
    with tempfile.TemporaryDirectory() as cache:
        os.environ["HARNESS_CACHE"] = cache
        started = time.perf_counter()
        backend = f"flat:model=python:ray_overhead:Model;batch_size={BATCH}"
        comparison = harness.compare([backend], dataset, k=10, timing=False, executor=executor)
        took = time.perf_counter() - started
    (run,) = comparison.contents[dataset.name].runs.values()
    return took, run.scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="of the model's work, on one core")
    parser.add_argument("--work", choices=["sleep", "compute"], default="sleep")
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--texts", type=int, default=4 * SHARD)
    arguments = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    os.environ.update(WORK=arguments.work, SECONDS_A_TEXT=str(arguments.seconds / arguments.texts))
    os.environ.update(OMP_NUM_THREADS="1", RAY_USAGE_STATS_ENABLED="0")
    local_s, expected = compare(arguments.texts, "local")
    print("| executor | cores | cluster's start s | comparison s | over local | speed-up |")
    print("|---|--:|--:|--:|--:|--:|")
    print(f"| local | 1 | – | {local_s:.1f} | – | 1.00 |", flush=True)
    import ray

    for cores in arguments.cores:
        started = time.perf_counter()
        ray.init(num_cpus=cores, log_to_driver=False, include_dashboard=False)
        start_s = time.perf_counter() - started
        took_s, scores = compare(arguments.texts, "ray")
        ray.shutdown()
        if not np.array_equal(scores, expected):
            raise AssertionError("the cluster's scores are not those of this machine")
        over = f"{took_s / local_s - 1:+.1%}" if cores == 1 else "–"
        print(f"| ray | {cores} | {start_s:.1f} | {took_s:.1f} | {over} | {local_s / took_s:.2f} |", flush=True)


if __name__ == "__main__":
    main()
