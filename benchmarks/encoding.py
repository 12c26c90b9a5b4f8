"""Memory while texts are encoded, and what a kill costs: the same vectors byte for byte, and at most a chunk's work.

The first texts of arXiv-50k (or of any `corpus.jsonl.gz`) go through the worker that a comparison encodes them in: a
quarter of them, half and all, because memory must not grow with their number; then with SIGKILL at random moments, each
time going on where it was.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from harness.registry.parameters import encoder_parameters
from harness.store.columns import load_table, save_table
from harness.store.record_files import save
from harness.worker.jobs import EncodeJob, EncodePart
from harness.worker.spawn import JOB_END

BATCHES_IN_A_CHUNK = 8


class Ran(NamedTuple):
    """One run of the worker, in its own words: `began` rows were there before, `done` were finished in it."""

    code: int
    seconds: float
    peak_mib: float
    began: int
    done: int


def main() -> int:
    arguments = parse()
    with gzip.open(arguments.corpus / "corpus.jsonl.gz", "rt", encoding="utf-8") as stream:
        records = [json.loads(line) for line in islice(stream, arguments.texts)]
    texts = pa.table(
        {"id": [one["_id"] for one in records], "text": [f"{one['title']} {one['text']}" for one in records]}
    )
    print(
        f"{len(texts):,} texts, {arguments.model or 'packaged all-MiniLM-L6-v2'}, batches of {arguments.batch_size}\n"
    )
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        whole = memory(folder, texts, arguments)
        return kills(folder, texts, whole, arguments)


def memory(folder: Path, texts: pa.Table, arguments: argparse.Namespace) -> str:
    """Print the peak by the number of texts; the digest of the vectors of all of them."""
    print("| texts | peak resident memory, MiB | texts/s, with the model's start |\n|--:|--:|--:|")
    for part in (*map(int, arguments.parts.split(",")), 1):
        count = len(texts) // part
        job = make_job(folder / f"part{part}", texts.slice(0, count), arguments)
        ran = run(job)
        if ran.code != 0:
            raise SystemExit(f"the worker ended with {ran.code}:\n{(job / 'log.txt').read_text()}")
        print(f"| {count:,} | {ran.peak_mib:,.0f} | {count / ran.seconds:,.0f} |", flush=True)
    return digest(folder / "part1")


def kills(folder: Path, texts: pa.Table, whole: str, arguments: argparse.Namespace) -> int:
    """Kill the worker at random moments until it has ended well; 1 when anything is not as it should be."""
    job = make_job(folder / "killed", texts, arguments)
    moments = np.random.default_rng(arguments.seed)
    runs: list[Ran] = []
    left = len(texts)
    while len(runs) < arguments.kills and (not runs or runs[-1].code != 0):
        # so many rows that the kills to come find something left to do, on average and at most
        rows = int(moments.uniform(0, 2 * left / (arguments.kills - len(runs) + 1)))
        runs.append(run(job, kill_after_rows=min(rows, left // 2), pause_s=float(moments.uniform(0, 1))))
        left = len(texts) - runs[-1].began - runs[-1].done
    killed = sum(one.code == -signal.SIGKILL for one in runs)
    if runs[-1].code != 0:
        runs.append(run(job))
    chunk = BATCHES_IN_A_CHUNK * arguments.batch_size
    # a run may have finished one chunk more than it could still say
    again = sum(max(0, one.began + one.done - after.began) for one, after in pairwise(runs))
    same = digest(job) == whole
    print(f"\nkilled {killed} times, after {', '.join(f'{one.began:,}' for one in runs[1:])} finished texts")
    print(f"finished texts that a later run encoded again: {again}; in work at a kill: at most {chunk}, one chunk")
    print(f"the vectors are {'byte-identical to' if same else 'NOT'} those of the undisturbed run")
    return 0 if same and again == 0 and killed == arguments.kills else 1


def make_job(folder: Path, texts: pa.Table, arguments: argparse.Namespace) -> Path:
    (folder / "target").mkdir(parents=True)
    save_table(folder / "texts.arrow", texts.combine_chunks())
    given = {name: one.default for name, one in encoder_parameters("dense").items()}
    parameters = {**given, "model": arguments.model, "batch_size": arguments.batch_size, "device": arguments.device}
    parameters["max_seq_length"] = arguments.max_seq_length
    part = EncodePart("documents", folder / "texts.arrow", folder / "target")
    save(folder, EncodeJob("dense", parameters, (part,)))
    return folder


def run(job: Path, *, kill_after_rows: int | None = None, pause_s: float = 0.0) -> Ran:
    """Run the worker to its end, or kill it `pause_s` after so many rows were finished in this run."""
    texts, began, done, peak, started = len(load_table(job / "texts.arrow")), 0, 0, 0.0, time.monotonic()
    words = [sys.executable, "-m", "harness.worker.main"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (
        (job / "log.txt").open("ab") as log,
        subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=environment, start_new_session=True
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        os.write(process.stdin.fileno(), os.fsencode(job) + JOB_END)
        for line in process.stdout:
            message: dict[str, Any] = json.loads(line)
            peak = max(peak, high_water_mib(process.pid))
            if message["event"] == "start" and message["phase"].startswith("encode"):
                began = texts - message["total"]
            if message["event"] == "advance":
                done += message["amount"]
            if kill_after_rows is not None and message["event"] == "advance" and done >= kill_after_rows:
                time.sleep(pause_s)
                os.killpg(process.pid, signal.SIGKILL)
                break
        code = process.wait()
    return Ran(code, time.monotonic() - started, peak, began, done)


def high_water_mib(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:  # it has just ended
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM")), 0.0)


def digest(job: Path) -> str:
    return hashlib.sha256((job / "target" / "documents.npy").read_bytes()).hexdigest()


def parse() -> argparse.Namespace:
    shared = Path(os.environ.get("HARNESS_SHARED_COLLECTIONS", ROOT.parent / "shared" / "collections"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, default=shared / "arxiv-50k", help="folder with corpus.jsonl.gz")
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument(
        "--parts", default="4,2", help="measure memory with this part of the texts too: a quarter, half"
    )
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--model", default="", help="as model= of a dense backend")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--max-seq-length", type=int, default=0, help="tokens of a text; 0: the model's own limit")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=42)
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
