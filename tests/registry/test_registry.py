from __future__ import annotations

import logging
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from harness.errors import CardError, EngineUnavailableError, MissingExtraError, UnknownNameError, UsageError
from harness.plan.backend_spec import parse_backends
from harness.registry import lookup as registry
from harness.registry.lookup import find_cards, load_engine

CARD = """
name = "{name}"
summary = "{summary}"
engine = "{engine}"
encoder = "none"
[reference]
kind = "none"
[parameters.k1]
type = "float"
default = 0.9
minimum = 0.0
scope = "encoder"
help = "saturation"
[parameters.url]
type = "str"
default = ""
scope = "engine"
help = "server"
[parameters.fast]
type = "bool"
default = false
scope = "engine"
help = "fast"
"""


def add_card(root: Path, name: str, summary: str = "", engine: str = "toy_engine:Engine", extra: str = "") -> Path:
    folder = root / "backends"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.toml"
    path.write_text(extra + CARD.format(name=name, summary=summary, engine=engine), encoding="utf-8")
    return path


@pytest.fixture
def cards(tmp_path, monkeypatch):
    """A folder with cards ``toy`` and ``tin``; nothing of this computer is found."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setattr(registry, "_PACKAGE", tmp_path / "site" / "harness")
    monkeypatch.setattr(registry, "entry_points", lambda group: ())
    add_card(tmp_path / "cards", "toy")
    add_card(tmp_path / "cards", "tin")
    return tmp_path / "cards"


def test_cards_are_found_in_order_of_precedence(cards, tmp_path):
    add_card(tmp_path / "work", "toy", summary="work")
    add_card(tmp_path / "work", "own", summary="work")
    add_card(tmp_path / "site" / "harness" / "_cards", "own", summary="packaged")
    add_card(tmp_path / "site" / "harness" / "_cards", "last", summary="packaged")
    found = find_cards("backends", cards)
    assert list(found) == ["last", "own", "tin", "toy"]
    assert {name: card.summary for name, card in found.items()} == {
        "toy": "",
        "tin": "",
        "own": "work",
        "last": "packaged",
    }


def test_cards_of_a_checkout_but_not_beside_an_installed_package(cards, tmp_path):
    add_card(tmp_path / "site", "beside")
    assert list(find_cards("backends")) == []
    (tmp_path / "site" / "pyproject.toml").touch()
    assert list(find_cards("backends")) == ["beside"]


def test_unrelated_files_in_the_working_folder_are_no_cards(cards, tmp_path, caplog):
    folder = tmp_path / "work" / "backends"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise SystemError")
    (folder / "pyproject.toml").write_text('[project]\nname = "x"\n')
    with caplog.at_level(logging.INFO, logger="harness"):
        assert list(find_cards("backends")) == []
    assert "pyproject.toml' is not a card" in caplog.text


def test_cards_folder_without_cards(cards, tmp_path):
    with pytest.raises(UsageError, match="no 'backends' or 'datasets' folder"):
        find_cards("backends", tmp_path)


def entry_point(monkeypatch, *functions):
    module = type(sys)("third_party")
    points = []
    for number, function in enumerate(functions):
        setattr(module, f"cards{number}", function)
        points.append(EntryPoint(f"cards{number}", f"third_party:cards{number}", registry.ENTRY_POINT_GROUP))
    monkeypatch.setitem(sys.modules, "third_party", module)
    monkeypatch.setattr(registry, "entry_points", lambda group: tuple(points))


def test_third_parties_give_a_folder_or_one_card(cards, tmp_path, monkeypatch):
    add_card(tmp_path / "third", "alpha")
    single = add_card(tmp_path / "fourth", "beta")
    entry_point(monkeypatch, lambda: tmp_path / "third" / "backends", lambda: str(single))
    assert list(find_cards("backends")) == ["alpha", "beta"]


def test_own_cards_hide_third_parties_with_a_warning(cards, tmp_path, monkeypatch, caplog):
    add_card(tmp_path / "third", "toy", summary="third")
    entry_point(monkeypatch, lambda: tmp_path / "third" / "backends")
    assert find_cards("backends", cards)["toy"].summary == ""
    assert "is hidden by" in caplog.text


def test_two_third_parties_with_one_name(cards, tmp_path, monkeypatch):
    add_card(tmp_path / "third", "alpha")
    add_card(tmp_path / "fourth", "alpha")
    entry_point(monkeypatch, lambda: tmp_path / "third" / "backends", lambda: tmp_path / "fourth" / "backends")
    with pytest.raises(CardError, match="two installed packages offer a backend 'alpha'"):
        find_cards("backends")


def test_a_third_party_that_cannot_be_imported_is_named_and_left_out(cards, monkeypatch, caplog):
    broken = EntryPoint("broken", "no_such_module_of_cards:cards", registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: (broken,))
    assert list(find_cards("backends", cards)) == ["tin", "toy"]
    assert "entry point 'broken' failed: No module named 'no_such_module_of_cards'" in caplog.text


def test_a_third_party_that_is_no_function(cards, monkeypatch):
    entry_point(monkeypatch, "backends")
    with pytest.raises(CardError, match="is not a function"):
        find_cards("backends")


def test_backends_are_parsed(cards):
    toy, tin = parse_backends("toy:url=http://127.0.0.1:6333/a;k1=1.20;fast=TRUE, tin", cards)
    assert toy.label == "toy:url=http://127.0.0.1:6333/a;k1=1.2;fast=true"
    assert dict(toy.overrides) == {"url": "http://127.0.0.1:6333/a", "k1": 1.2, "fast": True}
    assert dict(toy.parameters) == {"k1": 1.2, "url": "http://127.0.0.1:6333/a", "fast": True}
    assert (tin.label, tin.kind, dict(tin.overrides)) == ("tin", "engine", {})
    assert tin.parameters["k1"] == 0.9


def test_list_items_may_hold_commas(cards):
    (toy,) = parse_backends(["toy:url=http://a/x,b"], cards)
    assert toy.parameters["url"] == "http://a/x,b"


def test_the_same_backend_twice_with_different_parameters(cards):
    assert [spec.label for spec in parse_backends("toy,toy:k1=1.2", cards)] == ["toy", "toy:k1=1.2"]


@pytest.mark.parametrize("text", ["toy,toy", "toy,toy:k1=0.9", "toy:k1=1,toy:k1=1.0"])
def test_equal_backends_are_refused(cards, text):
    with pytest.raises(UsageError, match="are the same"):
        parse_backends(text, cards)


def test_run_files(cards, tmp_path):
    run = tmp_path / "work" / "mine.trec.gz"
    run.touch()
    (spec,) = parse_backends("run:mine.trec.gz", cards)
    assert (spec.label, spec.kind, spec.name, spec.card) == ("run:mine.trec.gz", "run", "run", None)
    assert spec.run_path == Path("mine.trec.gz")
    with pytest.raises(UsageError, match="are the same"):
        parse_backends(["run:mine.trec.gz", f"run:{run}"], cards)


def test_one_unknown_name_suggests_the_nearest(cards):
    with pytest.raises(UnknownNameError, match="did you mean 'toy'") as caught:
        parse_backends("tooy", cards)
    assert caught.value.exit_code == 2


def test_everything_wrong_is_reported_at_once(cards):
    text = "tooy,tin:k2=1,toy:k1=-1,toy:fast=maybe,run:none.trec,,toy:k1,toy:k1=1;k1=2"
    with pytest.raises(UsageError) as caught:
        parse_backends(text, cards)
    message = str(caught.value)
    for expected in [
        "8 problems",
        "unknown backend 'tooy'",
        "unknown parameter 'k2' of backend 'tin'",
        "did you mean 'k1'?",
        "-1.0 is below 0",
        "'maybe' is not true or false",
        "there is no run file 'none.trec'",
        "a backend has no name",
        "'k1' is not key=value",
        "'k1' is given twice",
    ]:
        assert expected in message


def test_no_backend(cards):
    with pytest.raises(UsageError, match="no backend is named"):
        parse_backends([], cards)


def test_engine_is_loaded(cards, tmp_path, monkeypatch):
    (tmp_path / "toy_engine.py").write_text(
        "from types import SimpleNamespace\n\n\nclass Engine:\n    capabilities = SimpleNamespace(input='text')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert load_engine(find_cards("backends", cards)["toy"]).__name__ == "Engine"


@pytest.mark.parametrize("line", ["import no_such_client", "from json import nothing"])
def test_engine_without_an_extra_that_cannot_be_imported(cards, tmp_path, monkeypatch, line):
    (tmp_path / "broken_engine.py").write_text(line)
    monkeypatch.syspath_prepend(tmp_path)
    add_card(cards, "broken", engine="broken_engine:Engine")
    with pytest.raises(EngineUnavailableError, match="backend broken"):
        load_engine(find_cards("backends", cards)["broken"])


@pytest.mark.parametrize(
    ("engine", "error", "expected"),
    [
        ("no_such_engine_module:Engine", CardError, "'no_such_engine_module' of 'engine' cannot be imported"),
        ("json:nothing", CardError, "has no class 'nothing'"),
        ("json:loads", CardError, "has no class 'loads'"),
        ("json:JSONDecoder", CardError, "'JSONDecoder' in 'json' is not an engine: it reads None"),
        (
            "harness.engines.base:Engine",
            CardError,
            "'Engine' in 'harness.engines.base' is not an engine: it reads None",
        ),
        ("needs_hooks:Hookless", CardError, "cannot be made: its class raised TypeError: .* abstract methods"),
        (
            "raises:Engine",
            CardError,
            r"importing module 'raises' of 'engine' raised ZeroDivisionError: .* \(line 1 of '.*raises.py'\)",
        ),
        ("misspelt:Engine", CardError, r"importing module 'misspelt' of 'engine' raised SyntaxError: "),
        (
            "bad_start:Engine",
            CardError,
            r"an engine 'Engine' cannot be made: its class raised LookupError: nothing \(line 5 of '.*bad_start.py'\)",
        ),
        ("needs_client:Engine", MissingExtraError, "retrieval-harness\\[toy\\]"),
    ],
)
def test_engine_that_cannot_be_loaded(cards, tmp_path, monkeypatch, engine, error, expected):
    (tmp_path / "needs_client.py").write_text("import no_such_client\n")
    (tmp_path / "needs_hooks.py").write_text(
        "from harness.engines.base import Capabilities, Engine\n\n\nclass Hookless(Engine):\n    capabilities = "
        "Capabilities('sparse', exact=True, deterministic=True, reopens=True, keeps_k_prefix=True)\n"
    )
    (tmp_path / "raises.py").write_text("1 / 0\n")
    (tmp_path / "misspelt.py").write_text("clas Engine:\n")
    (tmp_path / "bad_start.py").write_text(
        "from needs_hooks import Hookless\n\nclass Engine(Hookless):\n"
        "    def __init__(self, parameters):\n        raise LookupError('nothing')\n\n"
        "    info = build = load = retrieve = print\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    add_card(cards, "broken", engine=engine, extra='extra = "toy"\n')
    with pytest.raises(error, match=expected):
        load_engine(find_cards("backends", cards)["broken"])


@pytest.mark.parametrize(
    ("module", "failing"),
    [("def cards():\n    return 1 / 0\n", True), ("def cards():\n    return None\n", True), ("1 / 0\n", False)],
)
def test_a_package_whose_cards_cannot_be_located_is_named(cards, tmp_path, monkeypatch, caplog, module, failing):
    """One that cannot be imported takes nothing else away; one that names no folder is an error."""
    (tmp_path / "package_of_cards.py").write_text(module)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "package_of_cards", raising=False)
    point = EntryPoint("theirs", "package_of_cards:cards", registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: (point,))
    if failing:
        with pytest.raises(CardError, match="entry point 'theirs' of 'package_of_cards:cards' raised"):
            find_cards("backends", cards)
    else:
        assert "toy" in find_cards("backends", cards)
        assert "raised ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("spelt", ['""', r'"Instruct: x\nQuery: "', '"query: "', "plain:"])
def test_prompts_with_escapes_keep_their_quotes_and_come_back(spelt):
    (spec,) = parse_backends([f"flat:query_prompt={spelt}"])
    value = spec.parameters["query_prompt"]
    assert value == ("query: " if spelt == '"query: "' else spelt)
    assert parse_backends([spec.label])[0].parameters["query_prompt"] == value


def test_a_parameter_may_be_given_by_its_other_name() -> None:
    (spec,) = parse_backends("flat:model=random;passage_prompt=none")
    assert spec.overrides == {"model": "random", "document_prompt": "none"}
    with pytest.raises(UsageError, match="parameter 'document_prompt' is given twice"):
        parse_backends("flat:model=random;passage_prompt=none;document_prompt=x")
