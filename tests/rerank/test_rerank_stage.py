"""The second stage by itself: what is asked, in which order, what is kept, and when a model is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest

from harness.data.progress import SilentDisplay
from harness.encoders.token_counts import TextLengths
from harness.errors import EngineUnavailableError
from harness.rerank.reranker import Reranker
from harness.rerank.rerankers import keyword_count
from harness.rerank.stage import Candidates, ScoreCache, StoredScore, digest, score_candidates
from harness.store.cache import Cache
from harness.store.columns import load_table

QUERIES = pa.chunked_array([["cat", "dog and cat"]])
DOCUMENTS = pa.chunked_array([["a cat", "a dog chased a cat", "nothing", "cat cat dog"]])
PROGRESS = SilentDisplay().section("")


def candidates(*pairs: tuple[int, int]) -> Candidates:
    rows = np.array(pairs, dtype=np.int32).reshape(-1, 2)
    return Candidates(QUERIES, DOCUMENTS, rows[:, 0].copy(), rows[:, 1].copy())


class Lengths(Reranker):
    """Scores a pair by the length of its document, and fails on the one that it was told to."""

    whole_numbers: ClassVar[bool] = False
    group: ClassVar[int] = 3
    stored: ClassVar[bool] = True
    paid: ClassVar[bool] = False
    facts: ClassVar[dict[str, str]] = {"device": "none"}

    def __init__(self, fails_on: str | None = None) -> None:
        self.fails_on, self.asked, self.loads, self.closed = fails_on, list[tuple[str, str]](), 0, 0

    def identity(self) -> dict[str, str]:
        return {"rule": "lengths"}

    def content(self, query: str, document: str) -> str:
        return document

    def allow(self, calls: int) -> None:
        raise AssertionError("only what is paid for has to be allowed")

    def load(self) -> None:
        self.loads += 1

    def score(self, queries: Sequence[str], documents: Sequence[str], out: np.ndarray, progress: object) -> None:
        for place, (query, document) in enumerate(zip(queries, documents, strict=True)):
            if document == self.fails_on:
                raise EngineUnavailableError("it is gone")
            self.asked.append((query, document))
            out[place] = len(document)

    def close(self) -> None:
        self.closed += 1


def run(reranker: Lengths, asked: Candidates, cache: Path) -> tuple[list[float], int]:
    done = score_candidates(
        reranker, asked, ScoreCache(Cache(cache), "lengths", reranker.identity()), PROGRESS, lambda: 0
    )
    return done.scores.tolist(), done.scored


def test_pairs_are_scored_longest_first_and_come_back_in_their_places(tmp_path):
    reranker = Lengths()
    scores, scored = run(reranker, candidates((0, 0), (0, 1), (1, 3), (1, 2)), tmp_path)
    assert scores == [5.0, 18.0, 11.0, 7.0]
    assert scored == 4
    assert [document for _, document in reranker.asked] == ["cat cat dog", "a dog chased a cat", "a cat", "nothing"]
    assert (reranker.loads, reranker.closed) == (1, 1)


def test_what_was_scored_is_never_scored_again_and_loads_no_model(tmp_path):
    run(Lengths(), candidates((0, 0), (0, 1)), tmp_path)
    again = Lengths()
    assert run(again, candidates((0, 1), (0, 0)), tmp_path) == ([18.0, 5.0], 0)
    assert (again.asked, again.loads, again.closed) == ([], 0, 1)
    more = Lengths()
    assert run(more, candidates((0, 1), (0, 3), (1, 1)), tmp_path) == ([18.0, 11.0, 18.0], 2)
    assert more.asked == [("dog and cat", "a dog chased a cat"), ("cat", "cat cat dog")]


def test_scores_that_are_stored_at_the_same_time_are_all_kept(tmp_path):
    def add(part: int) -> None:
        cache = ScoreCache(Cache(tmp_path), "lengths", {})
        for row in range(10):
            cache.add("cat", [digest(f"{part} {row}")], [StoredScore(np.float32(row))])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(4)))
    stored = ScoreCache(Cache(tmp_path), "lengths", {}).read("cat")
    assert stored == {digest(f"{part} {row}"): StoredScore(np.float32(row)) for part in range(4) for row in range(10)}


class Counting(Lengths):
    """Reports the characters of a document, of which it reads 6."""

    unit = "characters"
    lengths = None

    def score(self, queries: Sequence[str], documents: Sequence[str], out: np.ndarray, progress: object) -> None:
        super().score(queries, documents, out, progress)
        counts = np.array([[len(text), max(0, len(text) - 6)] for text in documents], dtype=np.int32)
        self.lengths = TextLengths(counts, 6, "a setting", "characters")


def counted(cache: ScoreCache, reranker: Lengths, asked: Candidates) -> TextLengths | None:
    return score_candidates(reranker, asked, cache, PROGRESS, lambda: 0).lengths


def test_lengths_of_pairs_are_kept_with_their_scores(tmp_path):
    asked, cache = candidates((0, 0), (0, 1), (1, 3)), ScoreCache(Cache(tmp_path), "lengths", {})
    for reranker in (Counting(), again := Counting()):
        lengths = counted(cache, reranker, asked)
        assert lengths is not None
        assert lengths.counts.tolist() == [[5, 0], [18, 12], [11, 5]]
        assert lengths[1:] == (6, "a setting", "characters")
    assert again.loads == 0


def test_a_reranker_that_reports_no_lengths(tmp_path):
    assert counted(ScoreCache(Cache(tmp_path), "lengths", {}), Lengths(), candidates((0, 0))) is None


def test_another_reranker_shares_no_scores(tmp_path):
    run(Lengths(), candidates((0, 0)), tmp_path)

    class Other(Lengths):
        def identity(self) -> dict[str, str]:
            return {"rule": "other"}

    assert run(Other(), candidates((0, 0)), tmp_path)[1] == 1


def test_a_failure_in_the_middle_keeps_what_was_scored(tmp_path):
    failing = Lengths(fails_on="a cat")
    with pytest.raises(EngineUnavailableError, match="it is gone"):
        run(failing, candidates((0, 0), (0, 1), (0, 3)), tmp_path)
    assert failing.closed == 1
    again = Lengths()
    assert run(again, candidates((0, 0), (0, 1), (0, 3)), tmp_path) == ([5.0, 18.0, 11.0], 1)
    assert again.asked == [("cat", "a cat")]


class Paid(Lengths):
    """Each score is a call: what the disk holds is noted when it is made, and when it may not be."""

    paid: ClassVar[bool] = True

    def __init__(self, cache: Path | None = None, *, fails_on: str | None = None) -> None:
        super().__init__(fails_on)
        self.cache, self.on_disk, self.allowed = cache, list[int](), list[int]()

    def allow(self, calls: int) -> None:
        self.allowed.append(calls)

    def score(self, queries: Sequence[str], documents: Sequence[str], out: np.ndarray, progress: object) -> None:
        assert len(queries) == 1, "pairs that are paid for are scored one by one"
        files = self.cache.rglob("scores.arrow") if self.cache is not None else ()
        self.on_disk.append(sum(len(load_table(file)) for file in files))
        super().score(queries, documents, out, progress)


def test_what_is_paid_for_is_on_the_disk_before_the_next_call(tmp_path):
    reranker = Paid(tmp_path)
    scores, scored = run(reranker, candidates((0, 0), (0, 1), (0, 2), (0, 3), (1, 0)), tmp_path)
    assert (scores, scored) == ([5.0, 18.0, 7.0, 11.0, 5.0], 5)
    assert reranker.on_disk == [0, 1, 2, 3, 4]
    assert reranker.allowed == [5]


def test_two_runs_at_once_pay_for_no_pair_twice(tmp_path):
    pairs = [(0, row) for row in range(4)]
    rerankers = [Paid(), Paid()]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda one: run(one, candidates(*pairs), tmp_path), rerankers))
    assert [scores for scores, _ in found] == [[5.0, 18.0, 7.0, 11.0]] * 2
    assert sum(scored for _, scored in found) == 4
    assert sorted(pair for one in rerankers for pair in one.asked) == sorted(
        ("cat", text) for text in DOCUMENTS.to_pylist()
    )


def test_what_is_paid_for_tells_what_was_paid_before(tmp_path):
    with pytest.raises(EngineUnavailableError, match="it is gone"):
        run(Paid(fails_on="a cat"), candidates((0, 0), (0, 1), (0, 3)), tmp_path)
    again = Paid()
    cache = ScoreCache(Cache(tmp_path), "lengths", again.identity())
    done = score_candidates(again, candidates((0, 0), (0, 1), (0, 3)), cache, PROGRESS, lambda: 0)
    assert (done.scored, done.facts["calls_before"], again.allowed) == (1, 2, [1])


def test_no_candidates(tmp_path):
    reranker = Lengths()
    assert run(reranker, candidates(), tmp_path) == ([], 0)
    assert reranker.loads == 0


@pytest.mark.parametrize(
    ("query", "document", "count"),
    [
        ("cat", "The Cat sat by a cat.", 2),
        ("cat cat dog", "cat dog dog", 3),
        ("straße", "STRASSE", 1),
        ("cat", "", 0),
        ("", "cat", 0),
        ("cats", "cat", 0),
    ],
)
def test_keyword_counts(query, document, count):
    assert keyword_count(query, document) == count


def test_only_the_texts_of_candidates_are_copied(tmp_path: Path) -> None:
    mebibyte = 1 << 20
    huge = pa.chunked_array([pa.array(["x" * mebibyte])] * 2560)  # 2.5 GiB of text by its own account
    rows = np.array([2500, 3], dtype=np.int32)
    pairs = Candidates(pa.chunked_array([["cat"]]), huge, np.zeros(2, dtype=np.int32), rows)
    before = pa.total_allocated_bytes()
    assert run(Lengths(), pairs, tmp_path) == ([float(mebibyte), float(mebibyte)], 2)
    assert pa.total_allocated_bytes() - before < 16 * mebibyte
