"""A loader of another package fails: the message names the loader and the package, not a defect of the harness."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from harness.data.columns import TextBatch
from harness.data.judgments import Judgments
from harness.errors import DataError, LoaderError
from harness.loaders import load_dataset
from harness.loaders.base import DatasetSpec, Downloader, JudgmentSource, LoadedDataset, TextSource
from harness.loaders.dataset import locate_dataset
from harness.loaders.other_packages import within_boundary

GOOD = TextBatch(["a"], ["one"])


def fail(*_: object) -> Any:
    raise KeyError("subject")


def source(*batches: object) -> TextSource:
    return TextSource("mail", lambda problems, notes: iter(batches))  # type: ignore[arg-type] # some are no batches


def judged(*columns: list[Any]) -> JudgmentSource:
    return JudgmentSource("marks", lambda problems, notes: Judgments(*columns))


def parts(**changed: object) -> LoadedDataset:
    return LoadedDataset(**{"documents": source(GOOD), "queries": source(TextBatch(["q"], ["one?"])), **changed})  # type: ignore[arg-type]


class Mail:
    """A loader whose `load` returns what a test gives it."""

    name = "mail"

    def __init__(self, load: Callable[..., object], matches: Callable[..., bool] = lambda spec: True) -> None:
        self._load, self.matches = load, matches

    def load(self, spec: DatasetSpec, split: str | None, progress: object) -> Any:
        return self._load()


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch) -> Callable[[Mail], None]:
    def offered(loader: Mail) -> None:
        guarded = within_boundary(loader, "harness-mail")
        monkeypatch.setattr("harness.loaders.registry._loaders_on", lambda path: {"mail": guarded})

    return offered


def one_good_batch_then_a_fault() -> Iterator[TextBatch]:
    yield GOOD
    fail()


FAULTS = {
    "load": (Mail(fail), "finding the parts of the dataset: KeyError: 'subject' (line "),
    "matches": (Mail(parts, fail), "calling matches: KeyError: 'subject'"),
    "another object": (Mail(lambda: [GOOD]), "load returned list, expected harness.loaders.base.LoadedDataset"),
    "documents": (
        Mail(lambda: parts(documents=TextSource.of_batches("mail", one_good_batch_then_a_fault))),
        "reading mail: KeyError: 'subject' (line ",
    ),
    "integers as ids": (
        Mail(lambda: parts(documents=source(TextBatch([1], ["one"])))),  # type: ignore[list-item]
        "reading mail: ids must be text: 1 is of the type int",
    ),
    "batches": (Mail(lambda: parts(documents=source(["a"]))), "reading mail: it yielded list, expected TextBatch"),
    "columns": (
        Mail(lambda: parts(documents=source(TextBatch(["a", "b"], ["one"])))),
        "reading mail: its columns have different lengths: 2 ids, 1 texts",
    ),
    "queries": (Mail(lambda: parts(queries=TextSource("asked", fail))), "reading asked: KeyError"),
    "judgments": (Mail(lambda: parts(judgments=JudgmentSource("marks", fail))), "reading marks: KeyError"),
    "a dictionary": (
        Mail(lambda: parts(judgments=JudgmentSource("marks", lambda problems, notes: {}))),  # type: ignore[arg-type,return-value]
        "reading marks: it returned dict, expected Judgments",
    ),
    "numbers as ids": (Mail(lambda: parts(judgments=judged([1], ["q"], [7], [1]))), "the id 7, expected a string"),
    "fractions": (Mail(lambda: parts(judgments=judged([1], ["q"], ["a"], [0.5]))), "the grade 0.5, expected a whole"),
    "candidates": (Mail(lambda: parts(candidates=fail)), "reading candidates: KeyError"),
    "another part": (Mail(lambda: LoadedDataset("mail", source(GOOD))), "'documents' is str, expected TextSource"),  # type: ignore[arg-type]
    "another queries": (Mail(lambda: parts(queries=[GOOD])), "'queries' is list, expected TextSource"),
    "another judgments": (Mail(lambda: parts(judgments={})), "'judgments' is dict, expected JudgmentSource"),
    "another split": (Mail(lambda: parts(split=1)), "'split' is int, expected str"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_names_loader_and_package(offer: Callable[[Mail], None], fault: str) -> None:
    loader, problem = FAULTS[fault]
    offer(loader)
    with pytest.raises(LoaderError) as caught:
        load_dataset("mail:box")
    assert str(caught.value).startswith("loader 'mail' of the package 'harness-mail' failed while ")
    assert problem in caught.value.problem
    assert caught.value.fix is not None
    assert caught.value.fix.endswith("a loader refuses bad input with harness.errors.DataError")
    if "KeyError" in problem:
        assert isinstance(caught.value.__cause__, KeyError)
        assert __file__ in caught.value.problem


def test_the_line_is_that_of_the_loader_also_if_another_library_raises(offer: Callable[[Mail], None]) -> None:
    offer(Mail(lambda: json.loads("{")))
    with pytest.raises(LoaderError, match=f"JSONDecodeError: .*{__file__}"):
        load_dataset("mail:box")


def test_its_own_refusal_is_passed_on(offer: Callable[[Mail], None]) -> None:
    def refuse() -> LoadedDataset:
        raise DataError("mail.mbox", ["is empty"], fix="name another")

    offer(Mail(refuse))
    with pytest.raises(DataError, match=r"^mail\.mbox: 1 problem\n  is empty\n  name another$"):
        load_dataset("mail:box")


def test_a_sound_loader_is_read_as_without_a_boundary(offer: Callable[[Mail], None]) -> None:
    offer(Mail(lambda: parts(judgments=judged([1], ["q"], ["a"], [np.int64(2)]))))
    dataset = load_dataset("mail:box")
    assert dataset.qrels is not None
    assert (dataset.corpus.ids.to_list(), dataset.qrels.grades.tolist()) == (["a"], [2])
    assert not isinstance(locate_dataset("mail:box").loader, Downloader)
