"""Lists of datasets, families and aggregated tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import UnknownNameError, UsageError
from harness.plan.dataset_list import NamedDataset, parse_datasets
from harness.plan.expressions import quote_dataset

FAMILY = """
name = "tiny"
summary = "made for tests"
language = "en"
licence = "none"
source = "nowhere"

[members.ko]
summary = "Korean"
path = "ko"
format = "beir"

[members.ja]
summary = "Japanese"
path = "ja"
format = "beir"

[members.forums]
summary = "a mean of two"
parts = ["forums/tex", "forums/unix"]

[members."forums/tex"]
summary = "one"
path = "tex"
format = "beir"

[members."forums/unix"]
summary = "another"
path = "unix"
format = "beir"

[members.asian]
summary = "a selection"
parts = ["ko", "ja"]

[members.private]
summary = "not for everybody"
obtain = "write to its owners"
"""


@pytest.fixture
def cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cards"
    (folder / "datasets").mkdir(parents=True)
    (folder / "datasets" / "tiny.toml").write_text(FAMILY)
    (folder / "datasets" / "single.toml").write_text(
        'name = "single"\nsummary = "s"\nlanguage = "en"\nlicence = "n"\nsource = "n"\npath = "x"\nformat = "beir"\n'
    )
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return folder


def names(text: str, cards: Path) -> list[str]:
    return [dataset.name for dataset in parse_datasets(text, cards).datasets]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cacm", ["cacm"]),
        ("cacm,chunking-eval", ["cacm", "chunking-eval"]),
        ("tiny/ko,ja", ["tiny/ko", "tiny/ja"]),
        ("single,tiny/ja", ["single", "tiny/ja"]),
        ("tiny/ko,ja,single,cacm", ["tiny/ko", "tiny/ja", "single", "cacm"]),
        ("tiny/ko, tiny/ja,tiny/ko", ["tiny/ko", "tiny/ja"]),
        ("tiny/asian", ["tiny/ko", "tiny/ja"]),
        ("tiny/forums", ["tiny/forums/tex", "tiny/forums/unix"]),
        ("mteb:MIRACLRetrieval:ko@dev,tiny/ko,ja", ["mteb:MIRACLRetrieval:ko@dev", "tiny/ko", "tiny/ja"]),
        ("irds:beir/scifact/test,single", ["irds:beir/scifact/test", "single"]),
        ("./ko,tiny/ja,./ko", ["./ko", "tiny/ja"]),
        ("miracl/ko,ja", ["miracl/ko", "miracl/ja"]),
        ("hf:x/y:queries=a,qrels=b,cacm", ["hf:x/y:queries=a,qrels=b", "cacm"]),
    ],
)
def test_a_list_names_each_dataset_once_and_in_order(text: str, expected: list[str], cards: Path) -> None:
    assert names(text, cards) == expected


def test_a_family_is_its_members_with_aggregated_tasks_in_one_piece(cards: Path) -> None:
    parsed = parse_datasets("tiny", cards)
    assert parsed.datasets == (
        NamedDataset("tiny/ko"),
        NamedDataset("tiny/ja"),
        NamedDataset("tiny/forums/tex", "tiny/forums"),
        NamedDataset("tiny/forums/unix", "tiny/forums"),
    )
    assert parsed.notes == ("tiny/private is left out: its owners give it out themselves",)


def test_the_bundled_families_have_the_sizes_that_leaderboards_have(cards: Path) -> None:
    assert len(names("nanobeir", cards)) == 13
    beir = parse_datasets("beir", cards).datasets
    assert len({dataset.task or dataset.name for dataset in beir}) == 15
    assert sum(dataset.task == "beir/cqadupstack" for dataset in beir) == 12
    assert len(names("mteb-ko/leaderboard", cards)) == 6
    assert {dataset.task for dataset in parse_datasets("mteb-ko/leaderboard", cards).datasets} == {None}


def test_a_path_that_holds_a_comma_is_one_dataset(cards: Path) -> None:
    Path("a,b").mkdir()
    assert names("a,b", cards) == ["a,b"]
    assert names(f"{quote_dataset('a,b')},cacm", cards) == ["a,b", "cacm"]


def test_a_member_that_is_a_dataset_too_has_to_be_named_in_full(cards: Path) -> None:
    (cards / "datasets" / "ja.toml").write_text(
        (cards / "datasets" / "single.toml").read_text().replace("single", "ja")
    )
    with pytest.raises(UsageError, match=r"'ja' in --dataset may be 'tiny/ja' or the dataset 'ja'") as refused:
        parse_datasets("tiny/ko,ja", cards)
    assert refused.value.fix == "write tiny/ja, or put ja first in the list"
    assert names("ja,tiny/ko", cards) == ["ja", "tiny/ko"]
    Path("ko").mkdir()
    with pytest.raises(UsageError, match=r"the folder \./ko"):
        parse_datasets("tiny/ja,ko", cards)


def test_unknown_members_have_the_nearest_name_and_come_all_at_once(cards: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"unknown dataset or member of tiny 'jaa'\n.*did you mean 'ja'"):
        parse_datasets("tiny/ko,jaa", cards)
    with pytest.raises(UsageError, match=r"'jaa'(.|\n)*'koo'"):
        parse_datasets("tiny/ko,jaa,koo", cards)


@pytest.mark.parametrize("text", ["", "cacm,", ",cacm", "a,,b"])
def test_an_empty_item_is_refused(text: str, cards: Path) -> None:
    with pytest.raises(UsageError, match="names an empty dataset"):
        parse_datasets(text, cards)
