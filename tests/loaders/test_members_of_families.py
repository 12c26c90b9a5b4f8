"""Members of families as datasets: located by name, loaded by their spec, and held against their facts."""

from __future__ import annotations

from pathlib import Path

import pytest
import toy_library
from toy_library import ToyLoader

from harness.errors import DataError, UnknownNameError, UsageError
from harness.loaders import check_dataset, load_dataset
from harness.loaders.beir import BeirLoader
from harness.store.cache import Cache


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ToyLoader:
    loader = ToyLoader(tmp_path / "network", tmp_path / "home")
    loader.offer("de")
    known = {"beir": BeirLoader(), "toy": loader}
    monkeypatch.setattr("harness.loaders.registry.loaders", lambda: known)
    write_family(tmp_path, toy_library.CARD)
    monkeypatch.chdir(tmp_path)
    return loader


def write_family(folder: Path, text: str) -> None:
    (folder / "datasets").mkdir(exist_ok=True)
    (folder / "datasets" / "zoo.toml").write_text(text, encoding="utf-8")


def test_a_member_is_loaded_by_its_spec_with_the_rules_of_its_card(toy: ToyLoader, tmp_path: Path) -> None:
    dataset = load_dataset("zoo/de", cache=Cache(tmp_path / "cache"))
    assert (dataset.name, dataset.identical_ids, len(dataset.corpus), len(dataset.queries)) == ("zoo/de", "drop", 3, 2)
    assert dataset.qrels is not None
    assert len(dataset.qrels) == 3
    said = {key: dataset.provenance[key] for key in ("spec", "split", "splits", "language", "card")}
    assert said == {
        "spec": "toy:de/test", "split": "test", "splits": "train, test", "language": "de", "card": "zoo.toml",
    }  # fmt: skip
    assert toy.downloads == ["de/documents.json", "de/queries.test.json", "de/qrels.test.json"]


def test_a_split_chooses_the_spec(toy: ToyLoader, tmp_path: Path) -> None:
    dataset = load_dataset("zoo/de", split="train", cache=Cache(tmp_path / "cache"))
    assert (dataset.queries.ids.to_list(), dataset.provenance["spec"]) == (["q1"], "toy:de/train")
    assert "de/queries.test.json" not in toy.downloads
    with pytest.raises(UsageError, match=r"zoo/de has no split 'tset' \(did you mean 'test'\?\)\n  known: train, test"):
        load_dataset("zoo/de", split="tset")


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("facts.documents = 3", "facts.documents = 4", "documents: 3, the card says 4"),
        ("test = 2 }", "test = 5 }", "queries of the split 'test': 2, the card says 5"),
        ("test = 3 }", "test = 7 }", "judgments of the split 'test': 3, the card says 7"),
    ],
)
def test_facts_that_contradict_the_files_stop_the_run(tmp_path: Path, before: str, after: str, expected: str) -> None:
    assert before in toy_library.CARD
    write_family(tmp_path, toy_library.CARD.replace(before, after))
    with pytest.raises(DataError) as caught:
        load_dataset("zoo/de", cache=Cache(tmp_path / "cache"))
    message = str(caught.value)
    assert expected in message
    assert message.startswith("zoo/de (toy:de/test): 1 problem")
    assert f"correct the card '{tmp_path / 'datasets' / 'zoo.toml'}'" in message
    assert "delete its files (`harness datasets info zoo/de` names them) and fetch it again" in message


@pytest.mark.usefixtures("toy")
def test_facts_of_another_split_are_not_held_against_this_one(tmp_path: Path) -> None:
    write_family(tmp_path, toy_library.CARD.replace("train = 1", "train = 99"))
    load_dataset("zoo/de", cache=Cache(tmp_path / "cache"))
    with pytest.raises(DataError, match="queries of the split 'train': 1, the card says 99"):
        load_dataset("zoo/de", split="train", cache=Cache(tmp_path / "cache"))


@pytest.mark.usefixtures("toy")
def test_a_family_alone_lists_its_members() -> None:
    with pytest.raises(UsageError, match="'zoo' is a family of 4 datasets") as caught:
        check_dataset("zoo")
    assert "zoo/de, zoo/en, zoo/rare, zoo/all" in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.usefixtures("toy")
def test_what_only_its_owners_give_out_is_refused_with_how_to_get_it() -> None:
    with pytest.raises(
        UsageError, match=r"'zoo/rare' cannot be downloaded, .*\n  ask the keeper\n  then give your folder"
    ):
        check_dataset("zoo/rare")


@pytest.mark.usefixtures("toy")
def test_a_member_of_several_parts_names_them() -> None:
    with pytest.raises(UsageError, match=r"'zoo/all' refers to 2 datasets .*\n  name one of them:\n  zoo/de, zoo/en"):
        check_dataset("zoo/all")


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("zoo/dee", r"unknown dataset 'zoo/dee'\n  did you mean 'zoo/de'\? known: zoo/all, zoo/de, zoo/en, zoo/rare"),
        ("zoo/", "unknown dataset 'zoo/'"),
        ("zoo/de/", "unknown dataset 'zoo/de/'"),
        ("zoo/de-fr", "unknown member of zoo in the pair 'zoo/de-fr': 'fr'"),
        ("zo", r"unknown dataset 'zo'\n  did you mean 'zoo'\?"),
    ],
)
def test_unknown_members_are_refused_with_the_nearest_name(name: str, expected: str) -> None:
    with pytest.raises(UnknownNameError, match=expected):
        check_dataset(name)


@pytest.mark.usefixtures("toy")
def test_a_path_wins_where_there_is_no_such_member(tmp_path: Path) -> None:
    write_folder(tmp_path / "zoo" / "mine")
    assert load_dataset("zoo/mine").corpus.texts.to_pylist() == ["wolf"]
    assert len(load_dataset("zoo/de").corpus) == 3


def test_a_pair_is_loaded_by_the_family_s_rule(toy: ToyLoader, tmp_path: Path) -> None:
    toy.offer("de-en")
    dataset = load_dataset("zoo/de-en", cache=Cache(tmp_path / "cache"))
    assert dataset.provenance["query_language"] == "en"
    assert dataset.provenance["spec"] == "toy:de-en/test"


@pytest.mark.usefixtures("toy")
def test_a_spec_that_no_loader_reads_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.loaders.registry.loaders", lambda: {"beir": BeirLoader()})
    with pytest.raises(UsageError, match="no loader reads 'toy:de/test', which the card 'zoo/de' names"):
        load_dataset("zoo/de")


def test_an_analyzer_of_the_card_is_reported(toy: ToyLoader, tmp_path: Path) -> None:
    toy.offer("en")
    dataset = load_dataset("zoo/en", cache=Cache(tmp_path / "cache"))
    assert (dataset.analyzer, dataset.provenance["analyzer"]) == ("whitespace", "whitespace")


def write_folder(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "corpus.jsonl").write_text('{"_id": "1", "text": "wolf"}\n', encoding="utf-8")
    (folder / "queries.jsonl").write_text('{"_id": "a", "text": "wolf"}\n', encoding="utf-8")


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("name", ["zoo", "zoo/de"])
def test_a_folder_of_the_same_name_is_not_silently_passed_over(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    write_folder(folder)
    with pytest.raises(UsageError, match=rf"'{name}' is the name of a .*\(card 'zoo.toml'\) and of a folder") as raised:
        check_dataset(name)
    assert raised.value.exit_code == 2
    assert raised.value.fix is not None
    assert f"write ./{name} for the folder" in raised.value.fix
    assert "rename the folder or work in another folder" in raised.value.fix
    for own in (f"./{name}", Path(name), str(folder)):
        assert load_dataset(own, cache=Cache(tmp_path / "cache")).corpus.texts.to_pylist() == ["wolf"]
