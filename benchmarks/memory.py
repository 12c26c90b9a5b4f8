"""Peak memory of a whole comparison, by process: the command itself and each of its workers.

The passages are generated in MS MARCO's shape: 55 words of a Zipf-distributed vocabulary of a million, whose most
frequent are stop words. ``harness compare`` runs on them with an empty cache, and every process of it is looked at each
20 ms: anonymous memory (``RssAnon``) and what is mapped from files (``RssFile`` and ``RssShmem``), which the system
takes back when it needs room. "all processes" is the largest sum of anonymous memory at one time. The line through the
last two sizes tells what 8.8 million documents take. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
MS_MARCO = 8_841_823
STOP_WORDS = ("the", "of", "and", "a", "to", "in", "is", "that", "for", "it", "as", "was", "with", "be", "by", "on")
MAIN, ALL = "command", "all processes"
SIZES = (10_000, 100_000, 1_000_000)
LARGE = 4_000_000
POLL_S = 0.02
CHILDREN_S = 0.2
ANONYMOUS, MAPPED = ("RssAnon",), ("RssFile", "RssShmem")


@dataclass
class Peaks:
    """Peaks of the processes of one name, in KiB."""

    anonymous: int = 0
    mapped: int = 0


@dataclass
class Watch:
    """Peaks by name of the process tree below ``root``; names of processes are kept from when they are first known."""

    root: int
    peaks: dict[str, Peaks] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    children_seen: float = 0.0

    def look(self) -> None:
        """Take one sample of every process."""
        if time.monotonic() - self.children_seen > CHILDREN_S:
            self.names |= {number: name_of(number) for number in descendants(self.root) if number not in self.names}
            self.children_seen = time.monotonic()
        used = {number: memory_of(number) for number in [self.root, *self.names]}
        for number, memory in used.items():
            if memory is None:
                continue
            if number != self.root and not self.names[number]:
                self.names[number] = name_of(number)
            name = MAIN if number == self.root else self.names[number] or "worker without a job yet"
            peaks = self.peaks.setdefault(name, Peaks())
            peaks.anonymous = max(peaks.anonymous, memory.anonymous)
            peaks.mapped = max(peaks.mapped, memory.mapped)
        self.names = {number: name for number, name in self.names.items() if used.get(number) is not None}
        together = self.peaks.setdefault(ALL, Peaks())
        together.anonymous = max(together.anonymous, sum(memory.anonymous for memory in used.values() if memory))


def memory_of(process: int) -> Peaks | None:
    """Return what a process has in memory now; None once it has ended."""
    kibibytes: dict[str, int] = {}
    with suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text(errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name in (*ANONYMOUS, *MAPPED):
                kibibytes[name] = int(value.split()[0])
    if not kibibytes:
        return None
    return Peaks(*(sum(kibibytes.get(name, 0) for name in names) for names in (ANONYMOUS, MAPPED)))


def descendants(root: int) -> list[int]:
    """Return every process that ``root`` started, or that such a process started."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            stat = (folder / "stat").read_text(errors="replace")
            parents[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
    below, added = {root}, True
    while added:
        more = {process for process, parent in parents.items() if parent in below} - below
        below |= more
        added = bool(more)
    return sorted(below - {root})


def name_of(process: int) -> str:
    """Return the kind of a worker's job, with its engine; empty while it has no job, and the program's name else."""
    with suppress(OSError, ValueError):
        command = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
        if b"compare" in command:  # a copy of the command that has not become another program yet
            return ""
        if b"harness.worker.main" not in command:
            return os.fsdecode(command[0]).rpartition("/")[2]
        folder = Path(f"/proc/{process}/fd/2").readlink().parent
        for job in folder.glob("*Job.json"):
            engine = str(json.loads(job.read_bytes()).get("engine", "")).rpartition(":")[2]
            return f"worker, {job.stem} {engine}".strip()
    return ""


def make(folder: Path, documents: int, queries: int) -> None:
    """Write a dataset in BEIR layout: passages, queries of six words, and one relevant passage for each query."""
    generator = np.random.default_rng(7)
    chance = np.cumsum(1.0 / np.arange(1, 1_000_001))
    ranks = np.searchsorted(chance / chance[-1], generator.random(10_000_000))
    stock = [STOP_WORDS[rank] if rank < len(STOP_WORDS) else f"w{rank:x}" for rank in ranks.tolist()]
    with (folder / "corpus.jsonl").open("w", encoding="utf-8") as stream:
        for number, start in enumerate(generator.integers(len(stock) - 55, size=documents).tolist()):
            stream.write(json.dumps({"_id": f"d{number}", "text": " ".join(stock[start : start + 55])}) + "\n")
    starts = generator.integers(len(stock) - 6, size=queries).tolist()
    relevant = generator.integers(documents, size=queries).tolist()
    with (folder / "queries.jsonl").open("w", encoding="utf-8") as stream:
        for number, start in enumerate(starts):
            stream.write(json.dumps({"_id": f"q{number}", "text": " ".join(stock[start : start + 6])}) + "\n")
    lines = ["query-id\tcorpus-id\tscore", *(f"q{number}\td{row}\t1" for number, row in enumerate(relevant))]
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def measure(folder: Path, options: list[str]) -> tuple[dict[str, Peaks], float]:
    """Compare on the dataset in ``folder``; return peaks by process, and seconds."""
    output = ["--out", str(folder / "result"), "--format", "csv"]
    command = [sys.executable, "-m", "harness", "compare", "--dataset", str(folder), "--no-timing", *options, *output]
    began = time.perf_counter()
    environment = {**os.environ, "HARNESS_CACHE": str(folder / "cache")}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL) as process:
        watch = Watch(process.pid)
        while process.poll() is None:
            watch.look()
            time.sleep(POLL_S)
    if process.returncode:
        raise SystemExit(f"the comparison ended with exit code {process.returncode}")
    return watch.peaks, time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--large", action="store_true", help=f"measure {LARGE:,} documents too: 12 GB of disk")
    parser.add_argument("--backends", default="csr,qdrant,lucene")
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--memory-limit", help="passed on to the comparison")
    parser.add_argument("--folder", type=Path, help="where there is room: 3 kB a passage")
    arguments = parser.parse_args()
    options = ["--backends", arguments.backends]
    if arguments.memory_limit:
        options += ["--memory-limit", arguments.memory_limit]
    sizes = [*arguments.documents, *([LARGE] if arguments.large else [])]
    curves: dict[str, dict[int, int]] = {}
    print("| documents | seconds | process | anonymous MiB | mapped MiB |\n|--:|--:|---|--:|--:|")
    for documents in sizes:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as temporary:
            folder = Path(temporary)
            make(folder, documents, arguments.queries)
            peaks, seconds = measure(folder, options)
        for name, peak in sorted(peaks.items(), key=lambda item: item[1].anonymous, reverse=True):
            curves.setdefault(name, {})[documents] = peak.anonymous
            mapped = "–" if name == ALL else f"{peak.mapped / 1024:,.0f}"
            print(f"| {documents:,} | {seconds:.0f} | {name} | {peak.anonymous / 1024:,.0f} | {mapped} |", flush=True)
    if len(sizes) > 1:
        lower, upper = sizes[-2:]
        for name, curve in curves.items():
            if lower in curve and upper in curve:
                growth = (curve[upper] - curve[lower]) / (upper - lower)
                expected = (curve[upper] + growth * (MS_MARCO - upper)) / 1024
                bytes_each = growth * 1024
                line = f"{name}, extrapolated ({bytes_each:,.0f} bytes a document)"
                print(f"| {MS_MARCO:,} | – | {line} | {expected:,.0f} | – |")


if __name__ == "__main__":
    main()
