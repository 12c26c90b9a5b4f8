"""Contract of several clients: one index in several processes, copies of it, one engine in threads."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.context import BaseContext
from pathlib import Path

import pytest

from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.engines.interface import EngineInterface, SearchResult
from harness.errors import HarnessError
from harness.registry.parameters import ParameterValue
from harness.testing.mapped_samples import mapped
from harness.testing.samples import StepClock, random_texts, word
from harness.testing.suite import Base, run_if, select

_DOCUMENTS = 120
_K = 30
_PATIENCE_S = 120.0
_THREADS = 4
_TURNS = 4


class SharingContract(Base):
    """Clients of one finished index: each is a process with its own engine, or a thread with a shared engine."""

    @run_if(lambda capabilities: capabilities.shares_index)
    def test_shares_its_index_where_declared(self, tmp_path: Path) -> None:
        """While a process has the index open and searches, another opens it too, and both get the same answers."""
        sample = self.collection(random_texts(21, _DOCUMENTS), [word(n) for n in range(4)])
        with self.built(tmp_path, sample.documents):
            pass
        with self.opened(tmp_path, sample.documents.ids) as engine:
            before = self.search(engine, sample.queries, _DOCUMENTS, _K)
            job = (self.engine, dict(self.parameters), tmp_path, sample.documents.ids, sample.queries)
            with _fresh_processes().Pool(1, _take_environment, (dict(os.environ),)) as pool:
                elsewhere = pool.apply_async(_search, job).get(_PATIENCE_S)
            if isinstance(elsewhere, str):
                pytest.fail(f"another process cannot search the index while this process has it open: {elsewhere}")
            self.assert_repeated(before, elsewhere, "in another process")
            self.assert_repeated(before, self.search(engine, sample.queries, _DOCUMENTS, _K), "after that")

    @run_if(lambda capabilities: capabilities.reopens and not capabilities.shares_index)
    def test_a_copy_answers_the_same(self, tmp_path: Path) -> None:
        """A copy of a closed index opens next to the original: clients of an index that is not shared get copies."""
        sample = self.collection(random_texts(22, _DOCUMENTS), [word(n) for n in range(4)])
        with self.built(tmp_path / "index", sample.documents):
            pass
        (tmp_path / "elsewhere").mkdir()
        copy = shutil.copytree(tmp_path / "index", tmp_path / "elsewhere" / "index")
        with (
            self.opened(tmp_path / "index", sample.documents.ids) as original,
            self.opened(copy, sample.documents.ids) as copied,
        ):
            before = self.search(original, sample.queries, _DOCUMENTS, _K)
            self.assert_repeated(before, self.search(copied, sample.queries, _DOCUMENTS, _K), "from the copy")

    @run_if(lambda capabilities: capabilities.threads)
    def test_threads_get_the_same_answers_where_declared(self, tmp_path: Path) -> None:
        """Several threads that search an engine at once repeatedly get the same hits as a single thread."""
        count = 2 * _THREADS
        sample = self.collection(random_texts(23, _DOCUMENTS), [word(n) for n in range(count)])
        batches = [
            mapped(select(sample.queries, [(position + turn) % count for position in range(count)]))
            for turn in range(_THREADS)
        ]
        with self.built(tmp_path, sample.documents) as (engine, _):
            alone = [self.search(engine, queries, _DOCUMENTS, _K) for queries in batches]

            def ask(queries: Inputs) -> list[SearchResult]:
                return [engine.search(queries, _K, StepClock()) for _ in range(_TURNS)]

            with ThreadPoolExecutor(_THREADS) as pool:
                together = list(pool.map(ask, batches))
        for before, results in zip(alone, together, strict=True):
            for result in results:
                self.assert_repeated(before, result, "in threads")


def _fresh_processes() -> BaseContext:
    """Return a context for processes that, like clients' processes, inherit nothing open from this process.

    On Linux they are copies of a process that has imported this module, which takes most of the time.
    """
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


def _take_environment(environment: Mapping[str, str]) -> None:
    """Copy the environment: the copied process may have started in an environment that named no server."""
    os.environ.clear()
    os.environ.update(environment)


def _search(
    kind: type[EngineInterface], parameters: Mapping[str, ParameterValue], folder: Path, ids: Ids, queries: Inputs
) -> SearchResult | str:
    engine = kind(parameters)
    try:
        engine.open(folder, ids)
        return engine.search(mapped(queries), _K, StepClock())
    except HarnessError as error:  # as text, because not every exception can be sent between processes
        return str(error)
    finally:
        engine.close()
