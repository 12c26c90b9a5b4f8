"""What `--executor ray` costs beyond the work itself, and how encoding scales with cores.

Encodes made-up texts with a model that takes a fixed time a text, here and in turn on a Ray cluster of this machine,
and searches them. Starting the cluster stands apart. A model that computes needs a core for each job: on a busy machine
the seconds of the processors still say what Ray adds, and a model that sleeps shows how long one waits for it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil

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


class Measured(NamedTuple):
    """Seconds of the clock and of processors that a comparison in an empty cache took, and the scores of its hits.

    ``start_s`` is what starting the cluster took before.
    """

    took_s: float
    processor_s: float
    scores: np.ndarray
    start_s: float = 0.0


class Processors:
    """Counts the processor seconds of this process and all that it starts, Ray too, inside a ``with`` block.

    Looks at each again and again, as what a process of Ray used is gone with it; what it used after the last look is
    not counted.
    """

    def __init__(self) -> None:
        self._before = self._look()
        self._used = dict(self._before)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _look(self) -> dict[tuple[int, float], float]:
        used = {}
        for process in (own := psutil.Process(), *own.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):  # it has just ended
                used[process.pid, process.create_time()] = sum(process.cpu_times()[:2])
        return used

    def _watch(self) -> None:
        while not self._over.wait(0.2):
            self._used.update(self._look())

    def __enter__(self) -> Processors:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._used.update(self._look())

    @property
    def seconds(self) -> float:
        return sum(self._used.values()) - sum(self._before.values())


def compare(texts: int, executor: str) -> Measured:
    """Measure a whole comparison."""
    corpus = {f"d{number}": f"text {number}" for number in range(texts)}
    dataset = harness.Dataset.of(corpus, {"q0": "query"}, {"q0": {"d0": 1}})
    with tempfile.TemporaryDirectory() as cache:
        os.environ["HARNESS_CACHE"] = cache
        started = time.perf_counter()
        backend = f"flat:model=python:ray_overhead:Model;batch_size={BATCH}"
        with Processors() as processors:
            comparison = harness.compare([backend], dataset, k=10, timing=False, executor=executor)
        took = time.perf_counter() - started
    (run,) = comparison.contents[dataset.name].runs.values()
    return Measured(took, processors.seconds, run.scores)


def compare_on_cluster(texts: int, cores: int) -> Measured:
    """Measure a whole comparison on a cluster that is started for it."""
    import ray

    started = time.perf_counter()
    ray.init("local", num_cpus=cores, log_to_driver=False, include_dashboard=False)
    start_s = time.perf_counter() - started
    try:
        return compare(texts, "ray")._replace(start_s=start_s)
    finally:
        ray.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=35.0, help="of the model's work, on one core")
    parser.add_argument("--work", choices=["sleep", "compute"], default="compute")
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=2, help="of all executors in turn; medians are shown")
    parser.add_argument("--texts", type=int, default=4 * SHARD)
    arguments = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    os.environ.update(WORK=arguments.work, SECONDS_A_TEXT=str(arguments.seconds / arguments.texts))
    os.environ.update(OMP_NUM_THREADS="1", RAY_USAGE_STATS_ENABLED="0")
    local, on_ray = [], {cores: [] for cores in arguments.cores}
    for _ in range(arguments.rounds):
        local.append(compare(arguments.texts, "local"))
        for cores, measured in on_ray.items():
            measured.append(compare_on_cluster(arguments.texts, cores))
    for measured in (*local, *(run for runs in on_ray.values() for run in runs)):
        if not np.array_equal(measured.scores, local[0].scores):
            raise AssertionError("the cluster's scores are not those of this machine")
    took_s, processor_s = (statistics.median(values) for values in zip(*(run[:2] for run in local), strict=True))
    print("| executor | cores | cluster's start s | comparison s | over local | processor s | over local | speed-up |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    print(f"| local | 1 | – | {took_s:.1f} | – | {processor_s:.1f} | – | 1.00 |")
    for cores, runs in on_ray.items():
        took, used, start = (
            statistics.median(getattr(run, name) for run in runs) for name in ("took_s", "processor_s", "start_s")
        )
        over = f"{took / took_s - 1:+.1%}" if cores == 1 else "–"
        more = f"{used / processor_s - 1:+.1%}"
        print(f"| ray | {cores} | {start:.1f} | {took:.1f} | {over} | {used:.1f} | {more} | {took_s / took:.2f} |")


if __name__ == "__main__":
    main()
