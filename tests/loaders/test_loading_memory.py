"""Preparing a corpus takes a fixed amount of memory, however large the corpus is."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.integration

LOAD = """
import sys, threading
from pathlib import Path
from harness.store.cache import Cache
from harness.loaders import load_corpus

peak, done = 0, threading.Event()

def anonymous_bytes():
    with open("/proc/self/status") as status:
        return 1024 * next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))

def watch():
    global peak
    while not done.wait(0.002):
        peak = max(peak, anonymous_bytes())

folder = Path(sys.argv[1])
threading.Thread(target=watch, daemon=True).start()
corpus = load_corpus(folder, cache=Cache(folder / "cache"))
done.set()
print(len(corpus), peak)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="anonymous memory is read from /proc")
def test_memory_does_not_grow_with_the_corpus(tmp_path, repository):
    peaks = []
    for documents in (20_000, 80_000):
        folder = tmp_path / str(documents)
        folder.mkdir()
        with (folder / "corpus.jsonl").open("w") as stream:
            stream.writelines(
                f'{{"_id":"d{row}","title":"{row}","text":"{"word " * 200}"}}\n' for row in range(documents)
            )
        command = [sys.executable, "-c", LOAD, str(folder)]
        output = subprocess.run(command, cwd=repository, check=True, capture_output=True, text=True).stdout
        count, peak = map(int, output.split())
        assert count == documents
        peaks.append(peak)
    added_text_bytes = 60_000 * 1000
    assert peaks[1] - peaks[0] < added_text_bytes / 4
