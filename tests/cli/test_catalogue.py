"""The verb `datasets`, on a card, a family and a library of its own."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import click
import pytest
import toy_library
from click.testing import CliRunner, Result
from toy_library import ToyLoader

from harness.cli.app import _build
from harness.cli.dataset_pages import family_page
from harness.cli.verb import _parameter
from harness.errors import DataError, UnknownNameError, UsageError, nearest
from harness.loaders import load_dataset
from harness.loaders.beir import BeirLoader
from harness.plan.config import DatasetRequest
from harness.plan.option_fields import option_fields
from harness.registry.lookup import find_dataset, find_families
from harness.registry.published import PublishedNumber
from harness.registry.strict_toml import Document, read_document
from harness.store.cache import Cache
from harness.store.cache_entries import list_entries, note_user, users_of

DATASET = """
name = "tiny"
summary = "Three documents"
format = "beir"
path = "tiny"
language = "en"
licence = "CC0-1.0"
source = "made up"
[facts]
documents = 3204
queries = 2
[facts.judgments]
test = 5
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ToyLoader:
    loader = ToyLoader(tmp_path / "network", tmp_path / "home")
    loader.offer("de")
    monkeypatch.setattr("harness.loaders.registry.loaders", lambda: {"beir": BeirLoader(), "toy": loader})
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "tiny.toml").write_text(DATASET, encoding="utf-8")
    (tmp_path / "datasets" / "zoo.toml").write_text(toy_library.CARD, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "120")
    return loader


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(_build(), ["datasets", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def said(*arguments: str) -> str:
    return " ".join(run(*arguments).stdout.split())


@pytest.mark.usefixtures("toy")
def test_a_family_is_one_line_of_the_list() -> None:
    for arguments in ((), ("list",)):
        lines = [line.split() for line in run(*arguments).stdout.splitlines()]
        assert ["dataset", "members", "documents", "language", "licence", "summary"] in lines
        assert ["tiny", "3,204", "en", "CC0-1.0", "Three", "documents"] in lines
        assert ["zoo", "4", "3", "de,", "en", "CC0-1.0", "Animals"] in lines
    names = {one["name"]: one for one in json.loads(run("list", "--format", "json").stdout)}
    assert names["zoo"]["members"] == ["de", "en", "rare", "all"]
    assert names["tiny"]["documents"] == 3204
    assert json.loads(run("--format", "json").stdout) == json.loads(run("list", "--format", "json").stdout)


@pytest.mark.parametrize("columns", [60, 80, 100, 160])
@pytest.mark.parametrize("arguments", [("list",), ("info", "beir"), ("search", "en"), ("info", "beir/scifact")])
def test_no_line_is_wider_than_the_terminal(
    arguments: tuple[str, ...], columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for paths and addresses, which are never broken, and tables whose columns of facts leave no choice."""
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = run(*arguments).stdout.splitlines()
    if columns >= 80:
        assert [line for line in lines if len(line) > columns and "/" not in line] == []
    assert max(map(len, lines)) > columns // 2


@pytest.mark.usefixtures("toy")
def test_search_takes_all_words_and_names_of_languages() -> None:
    assert "zoo/de" in said("search", "GERMAN", "tiere")
    assert said("search", "cc0", "english").split().count("CC0-1.0") == 4
    assert run("search", "english", "tiere").stdout == ""
    assert "no dataset has 'english' and 'tiere'" in run("search", "english", "tiere").stderr
    found = json.loads(run("search", "zoo", "--format", "json").stdout)
    assert [card["name"] for card in found] == ["zoo/de", "zoo/en", "zoo/rare", "zoo/all"]


@pytest.mark.usefixtures("toy")
def test_info_shows_everything_that_a_card_says() -> None:
    page = said("info", "tiny")
    for fact in ("documents 3,204", "empty not stated", "judgments test 5", "text title + ' ' + text"):
        assert fact in page
    page = said("info", "zoo/de")
    for fact in (
        "queries train 1, test 2",
        "split train, test; test by default",
        "language de (German)",
        "identical ids dropped before scoring",
        "metric nDCG@10",
        "citation Keeper, Animals, 2020",
        "licence CC0-1.0 (made up)",
        "read as toy:{member}/{split}".replace("{member}", "de"),
        "downloaded train: nothing downloaded test: nothing",
        "published for 'test' nDCG@10 in",
        "BM25 0.6 [1]",
        "[1] a page",
    ):
        assert fact in page
    assert "obtain ask the keeper" in said("info", "zoo/rare")
    assert "parts zoo/de, zoo/en" in said("info", "zoo/all")
    assert "language de (German), queries en (English)" in said("info", "zoo/de-en")
    assert "analyzer whitespace" in said("zoo/en")


@pytest.mark.usefixtures("toy")
def test_info_of_a_family_lists_members_and_what_was_published_over_them() -> None:
    page = said("info", "zoo")
    assert "members 4" in page
    assert "pairs DOCUMENTS-QUERIES" in page
    assert "zoo/de 3 2 de CC0-1.0 Tiere" in page
    assert "a mean 0.5 [1]" in page
    assert json.loads(run("info", "zoo", "--format", "json").stdout)["members"]["de"]["documents"] == 3


def test_published_means_of_a_family_say_of_which_members_they_are() -> None:
    family = find_families()["beir"]
    some = PublishedNumber("a", "somewhere", {"AP": "0.5"}, None, over=("nq", "fiqa"))
    shown = family_page(replace(family, published=(some, replace(some, system="b"))))
    assert "means over 2 members: nq, fiqa" in shown
    shown = family_page(replace(family, published=(some, replace(some, system="b", over=()))))
    assert re.search(r"^a .*nq, fiqa$", shown, re.MULTILINE)
    assert re.search(r"^b .*all members$", shown, re.MULTILINE)


def test_info_says_what_is_on_this_machine(toy: ToyLoader) -> None:
    before = json.loads(run("info", "zoo/de", "--format", "json").stdout)["on_this_machine"]
    assert before["downloaded"]["test"] == {"paths": [], "bytes": 0, "complete": False}
    assert before["prepared"] == []
    assert toy.downloads == [], "asking does not download"
    run("fetch", "zoo/de")
    after = json.loads(run("info", "zoo/de", "--format", "json").stdout)["on_this_machine"]
    assert after["downloaded"]["test"]["complete"] is True
    assert after["downloaded"]["train"]["complete"] is False
    assert len(after["prepared"]) == 2
    page = said("info", "zoo/de")
    assert "(all files; fetch checks them)" in page
    assert "(a part of it)" in page
    assert json.loads(run("info", "tiny", "--format", "json").stdout)["on_this_machine"] is None


@pytest.mark.usefixtures("toy")
def test_info_works_where_no_loader_reads_the_spec(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.loaders.registry.loaders", lambda: {"beir": BeirLoader()})
    assert "here not known: no loader reads 'toy:de/test'" in said("info", "zoo/de")
    assert "no loader" in json.loads(run("info", "zoo/de", "--format", "json").stdout)["on_this_machine"]["error"]
    with pytest.raises(UsageError, match="no loader reads"):
        run("fetch", "zoo/de")


def test_fetch_downloads_checks_and_prepares(toy: ToyLoader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = said("fetch", "zoo/de")
    assert out.startswith("zoo/de: 3 documents, 2 queries, 3 judgments of the split 'test'")
    assert str(tmp_path / "home" / "de") in out
    assert str(tmp_path / "cache") in out
    assert len(toy.downloads) == 3
    monkeypatch.setattr("harness.loaders.prepared._build", None)  # nothing is left to prepare
    load_dataset("zoo/de")
    assert len(toy.downloads) == 3
    assert json.loads(run("fetch", "zoo/de", "--format", "json").stdout)["judgments"] == 3


def test_fetch_of_one_split(toy: ToyLoader) -> None:
    assert said("fetch", "zoo/de", "--split", "train").startswith("zoo/de: 3 documents, 1 query, 1 judgment")
    assert "de/queries.test.json" not in toy.downloads


@pytest.mark.usefixtures("toy")
def test_fetch_refuses_what_contradicts_the_card_or_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not on the network"):
        run("fetch", "zoo/en")
    path = tmp_path / "datasets" / "zoo.toml"
    path.write_text(toy_library.CARD.replace("facts.documents = 3", "facts.documents = 30"), encoding="utf-8")
    with pytest.raises(DataError, match="documents: 3, the card says 30"):
        run("fetch", "zoo/de")
    with pytest.raises(UsageError, match="ask the keeper"):
        run("fetch", "zoo/rare")


def test_fetch_names_what_was_prepared_for_another_name(toy: ToyLoader) -> None:
    run("fetch", "toy:de/test")
    assert len(json.loads(run("fetch", "zoo/de", "--format", "json").stdout)["on_this_machine"]["prepared"]) == 2
    assert len(toy.downloads) == 3


def test_remove_frees_the_prepared_texts_and_leaves_the_library_s_files(toy: ToyLoader, tmp_path: Path) -> None:
    run("fetch", "zoo/de")
    run("fetch", "zoo/de", "--split", "train")
    downloaded = sorted((tmp_path / "home" / "de").iterdir())
    freed = json.loads(run("remove", "zoo/de", "--yes", "--format", "json").stdout)
    assert freed["freed"] > 0
    assert freed["on_this_machine"]["prepared"] == []
    assert sorted((tmp_path / "home" / "de").iterdir()) == downloaded
    assert freed["on_this_machine"]["downloaded"]["test"]["complete"] is True
    assert not any(path.name == "texts.arrow" for path in (tmp_path / "cache").rglob("*"))
    stays = "its download stays: `hf cache rm` or `ir_datasets clean` removes it from the cache of its library"
    assert said("remove", "zoo/de") == f"nothing of zoo/de was prepared; {stays}"
    run("fetch", "zoo/de")
    assert len(toy.downloads) == 5


def test_remove_asks_and_keeps_where_it_may_not(toy: ToyLoader, monkeypatch: pytest.MonkeyPatch) -> None:
    run("fetch", "zoo/de")
    with pytest.raises(UsageError, match=r"remove zoo/de, .* at most: there is no terminal to ask\n  pass --yes"):
        run("remove", "zoo/de")
    monkeypatch.setattr("harness.cli.catalogue._is_confirmed", lambda: True)
    monkeypatch.setattr(click, "confirm", lambda *args, **options: False)
    assert "nothing was removed" in run("remove", "zoo/de").stderr
    assert len(json.loads(run("info", "zoo/de", "--format", "json").stdout)["on_this_machine"]["prepared"]) == 2
    monkeypatch.setattr(click, "confirm", lambda *args, **options: True)
    assert "freed" in run("remove", "zoo/de").stdout
    assert len([*toy.home.rglob("*.json")]) == 3


def test_remove_never_touches_files_of_the_user_s_own(repository: Path) -> None:
    before = sorted(path for path in (repository / "datasets" / "cacm").rglob("*"))
    run("remove", "cacm", "--yes")
    assert sorted((repository / "datasets" / "cacm").rglob("*")) == before


@pytest.mark.usefixtures("toy")
def test_unknown_names_are_refused_with_the_nearest() -> None:
    for command in ("info", "fetch", "remove"):
        with pytest.raises(UnknownNameError, match=r"did you mean 'zoo/de'"):
            run(command, "zoo/dee")
    with pytest.raises(UnknownNameError, match=r"did you mean 'tiny'"):
        run("info", "tinny")
    with pytest.raises(UnknownNameError, match=r"unknown dataset or command 'tinny'\n.*did you mean 'tiny'"):
        run("tinny")


@pytest.mark.usefixtures("toy")
def test_options_stand_before_or_behind_a_command(tmp_path: Path) -> None:
    assert run("--format", "json", "info", "tiny").stdout == run("info", "tiny", "--format", "json").stdout
    assert run("--format", "json", "info", "tiny", "--format", "table").stdout == run("info", "tiny").stdout
    folder = tmp_path / "others" / "datasets"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text(DATASET.replace('"tiny"', '"mine"'), encoding="utf-8")
    assert "mine: Three documents" in said("--cards", str(folder.parent), "info", "mine")
    assert "mine" in said("--cards", str(folder.parent), "search", "mine")


@pytest.mark.usefixtures("toy")
def test_names_of_members_are_completed() -> None:
    dataset = _parameter(option_fields(DatasetRequest)["dataset"])

    def complete_dataset(typed: str) -> list[tuple[str, str | None]]:
        return [(item.value, item.help) for item in dataset.shell_complete(None, typed)]

    assert complete_dataset("tin") == [("tiny", "Three documents")]
    assert complete_dataset("zoo/d") == [("zoo/de", "Tiere")]
    assert [name for name, _ in complete_dataset("zoo")] == ["zoo", "zoo/all", "zoo/de", "zoo/en", "zoo/rare"]


def test_info_of_a_dataset_without_a_card_says_what_is_on_this_machine(toy: ToyLoader) -> None:
    assert toy.downloads == []
    assert "toy:de/test: there is no card for it" in said("info", "toy:de/test")
    assert "downloaded nothing" in said("info", "toy:de/test")
    assert json.loads(run("info", "toy:de/test", "--format", "json").stdout)["name"] == "toy:de/test"
    with pytest.raises(UnknownNameError, match="unknown dataset 'toi:de'"):
        run("info", "toi:de")


@pytest.mark.usefixtures("toy")
def test_search_takes_languages_by_code_and_by_their_own_name_and_tasks() -> None:
    def names(*words: str) -> set[str]:
        return {card["name"] for card in json.loads(run("search", *words, "--format", "json").stdout)}

    korean = names("ko")
    assert {"miracl/ko", "mteb-ko/autorag", "mteb-ko/miracl-reranking"} <= korean
    assert korean == names("한국어") == names("Korean") == names("kor")
    assert names("deutsch", "zoo") == names("de", "zoo") == {"zoo/de"}
    assert names("ko", "reranking") == {"mteb-ko/miracl-reranking", "mteb-ko/multilongdoc-reranking"}
    assert names("keeper", "ndcg@10", "tiere") == {"zoo/de"}


def test_a_page_shows_ten_published_results_and_all_where_they_are_wanted(toy: ToyLoader, tmp_path: Path) -> None:
    rows = "".join(
        f'[[published]]\nsystem = "system-{number}"\nsource = "a page"\nscores = {{ AP = 0.5 }}\n'
        for number in range(24)
    )
    card = toy_library.CARD.replace("[pairs]", f"{rows}\n[pairs]")
    (tmp_path / "datasets" / "zoo.toml").write_text(card, encoding="utf-8")
    page = run("info", "zoo").stdout
    assert page.count("system-") == 10
    assert "10 of 25 results; --published shows all" in page
    assert run("info", "zoo", "--published").stdout.count("system-") == 24


@pytest.mark.usefixtures("toy")
def test_prepared_texts_that_another_dataset_uses_stay_until_that_one_goes(tmp_path: Path) -> None:
    run("fetch", "zoo/de")
    run("fetch", "toy:de/train")
    removed = run("remove", "zoo/de", "--yes")
    assert "kept what is shared with toy:de/train" not in removed.stderr, "a split of the card is the card's"
    run("fetch", "zoo/de")
    tables = {path.parent for path in (tmp_path / "cache").rglob("texts.arrow")}
    for path in tables:
        note_user(path, "toy:other/test")
    removed = run("remove", "zoo/de", "--yes")
    assert "kept what is shared with toy:other/test" in removed.stderr
    assert {path.parent for path in (tmp_path / "cache").rglob("texts.arrow")} == tables
    assert json.loads(run("info", "zoo/de", "--format", "json").stdout)["on_this_machine"]["prepared"] == []
    (entry, *_) = (entry for entry in list_entries(Cache()) if entry.path in tables)
    assert users_of(entry.path) == {"toy:other/test"}


@pytest.mark.usefixtures("toy")
def test_the_file_of_a_dataset_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def reading(path: Path, what: str = "card") -> Document:
        read.append(path.stem)
        return read_document(path, what)

    for module in ("harness.registry.lookup", "harness.registry.dataset_cards"):
        monkeypatch.setattr(f"{module}.read_document", reading)
    assert find_dataset("zoo/de") is not None
    assert read.count("zoo") == 1
    read.clear()
    assert "zoo" in find_families()
    assert {name: read.count(name) for name in read} == dict.fromkeys(read, 1)


def test_only_names_that_are_near_are_suggested() -> None:
    assert nearest("kor_Hang", ["acm_Arab", "eng_Latn"]) == ""
    assert nearest("collection", ["correction"]) == " (did you mean 'correction'?)"
    assert nearest("nonsense", ["expense"]) == ""
    assert nearest("k2", ["k1", "b"]) == " (did you mean 'k1'?)"
