"""What a trial leaves on disk while others still run, and what happens when somebody else removes what it reads."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NoReturn

import engines_for_tests
import pytest
from small_world import write_cards, write_collection

import harness
from harness.data.inputs import Inputs
from harness.data.progress import Clock
from harness.data.types import Ids
from harness.engines.interface import EngineInfo
from harness.errors import CacheError
from harness.pipeline import compare as api

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    return write_collection(tmp_path / "small")


@pytest.fixture
def cards(tmp_path: Path) -> Path:
    return write_cards(tmp_path / "cards", one="BruteForce", two="BruteForce")


def test_a_failed_trials_index_is_gone_before_the_next_begins(
    collection: Path, cards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders: list[Path] = []
    still_there: list[list[Path]] = []

    def open_index(self: engines_for_tests.BruteForce, folder: Path, ids: Ids) -> EngineInfo:
        still_there.append([one for one in folders if one.exists()])
        folders.append(folder)
        (folder / "segment").write_bytes(b"large")
        return EngineInfo("brute force", "1", "in process")

    def fail(self: engines_for_tests.BruteForce, queries: Inputs, k: int, clock: Clock) -> NoReturn:
        raise KeyError("inner detail")

    monkeypatch.setattr(engines_for_tests.BruteForce, "open", open_index)
    monkeypatch.setattr(engines_for_tests.BruteForce, "search", fail)
    comparison = harness.compare(["one", "two"], collection, k=3, cards=cards, isolation="none")
    assert comparison.failed == ["one", "two"]
    assert still_there == [[], []]
    assert len(folders) == 2


def test_a_backend_whose_terms_are_removed_under_it_is_not_blamed(
    collection: Path, cards: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = engines_for_tests.BruteForce.index

    def empty_the_cache(self: engines_for_tests.BruteForce, *arguments: object) -> NoReturn:
        shutil.rmtree(cache / "terms")
        raise FileNotFoundError(2, "No such file or directory", "documents.arrow")

    monkeypatch.setattr(engines_for_tests.BruteForce, "index", empty_the_cache)
    (backend,) = harness.compare(["one"], collection, k=3, cards=cards, isolation="none").report.trials
    assert backend.error is not None
    assert backend.error.type == "CacheError"
    assert "was emptied while it was used: terms " in backend.error.message
    assert "run again" in backend.error.message
    monkeypatch.setattr(engines_for_tests.BruteForce, "index", index)
    again = harness.compare(["one"], collection, k=3, cards=cards, isolation="none", resume="missing")
    assert again.report.trials[0].status == "ok", "nothing was stored of the first"


def test_a_comparison_whose_texts_are_removed_under_it_says_so(
    collection: Path, cards: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def empty_the_cache(*arguments: object) -> NoReturn:
        shutil.rmtree(cache / "texts")
        raise FileNotFoundError(2, "No such file or directory", "corpus.arrow")

    monkeypatch.setattr(api, "run_plan", empty_the_cache)
    with pytest.raises(CacheError, match=r"was emptied while it was used: texts [0-9a-f]{12}"):
        harness.compare(["one"], collection, k=3, cards=cards)


def test_a_failure_with_a_whole_cache_is_itself(collection: Path, cards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> NoReturn:
        raise FileNotFoundError(2, "No such file or directory", "corpus.arrow")

    monkeypatch.setattr(api, "run_plan", fail)
    with pytest.raises(FileNotFoundError):
        harness.compare(["one"], collection, k=3, cards=cards)
