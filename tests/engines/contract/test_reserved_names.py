"""An engine that uses a name of its base classes for something else is refused, with the name to use instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mutants_of_guards import GuardedSparse

from harness.engines.base import ClientEngine, Engine, ExternalIndex, Filterable, LoadedIndex
from harness.engines.changeable import Changeable
from harness.engines.reserved_names import reserved_names
from harness.errors import CardError
from harness.registry.lookup import find_cards, load_engine


def method(self: object, *arguments: object) -> None:
    """Any method."""


@pytest.mark.parametrize(
    ("base", "name", "instead"),
    [
        (Engine, "index", "write the index in 'build'"),
        (Engine, "search", "implement 'retrieve', or 'search_prepared'"),
        (Engine, "open", "start the library in 'info', and open an index in 'load'"),
        (Engine, "close", "self.resources.callback"),
        (Engine, "storage", "implement 'size'"),
        (Engine, "arrays", "implement 'columns'"),
        (Engine, "folder", "the hooks get the folder"),
        (Engine, "loaded", "return the index that 'load' opened"),
        (Engine, "_load", "choose another name for the method: 'library_load'"),
        (Engine, "_keep", "choose another name for the method: 'library_keep'"),
        (Filterable, "restrict", "implement 'filter'"),
        (ExternalIndex, "attach", "implement 'open_external'"),
        (Changeable, "apply", "implement 'change'"),
        (Changeable, "_changes_of", "'library_changes_of'"),
        (ClientEngine, "use", "call it with the client"),
    ],
)
@pytest.mark.parametrize("wrapped", [lambda function: function, property, classmethod, cached_property])
def test_a_final_method_is_not_overridden(base: type, name: str, instead: str, wrapped: Callable[[Any], Any]) -> None:
    with pytest.raises(CardError, match=f"the class 'Mine' overrides '{name}'") as raised:
        type("Mine", (base,), {name: wrapped(method), "__module__": "mine"})
    assert instead in str(raised.value)


@pytest.mark.parametrize(
    ("base", "name"),
    [
        (Engine, "index"),
        (Engine, "size"),
        (Engine, "columns"),
        (Engine, "load"),
        (Engine, "lists"),
        (Engine, "folder"),
        (Engine, "ids"),
        (Engine, "_loaded"),
        (Filterable, "filter"),
        (Changeable, "dropped"),
        (ExternalIndex, "opened"),
    ],
)
@pytest.mark.parametrize("how", ["value", "annotation"])
def test_a_class_attribute_hides_nothing(base: type, name: str, how: str) -> None:
    members = {name: []} if how == "value" else {"__annotations__": {name: "list[str]"}}
    with pytest.raises(CardError, match=f"'{name}', which hides the (method|attribute) '{name}'") as raised:
        type("Mine", (base,), {**members, "__module__": "mine"})
    assert f"choose another name: 'library_{name.strip('_')}'" in str(raised.value)


@pytest.mark.parametrize("member", [[], method])
def test_a_mix_in_hides_nothing_either(member: object) -> None:
    mix_in = type("MixIn", (), {"index": member, "helper": 3})
    with pytest.raises(CardError, match=r"the class 'Mine' .*'index'"):
        type("Mine", (mix_in, Engine), {"__module__": "mine"})
    type("Mine", (Engine, mix_in), {"__module__": "mine"})  # Engine.index is used


NAMES = ["index", "size", "columns", "search", "close", "folder", "ids", "deleted", "finished", "parameters", "_folder"]


@pytest.mark.parametrize("name", [*NAMES, "_loaded", "_load", "resources", "index_parameters", "repeated_calls"])
def test_an_attribute_of_an_instance_hides_nothing(name: str, tmp_path: Path) -> None:
    engine = GuardedSparse({})
    with pytest.raises(CardError, match=f"the class 'GuardedSparse' has an attribute '{name}'") as raised:
        setattr(engine, name, 3)
    assert f"'library_{name.strip('_')}'" in str(raised.value)


def test_an_attribute_before_the_bases_constructor_hides_nothing() -> None:
    class Early(GuardedSparse):
        def __init__(self, parameters: Any) -> None:
            self.ids = ["a"]
            super().__init__(parameters)

    with pytest.raises(CardError, match="an attribute 'ids'"):
        Early({})


def test_names_that_are_free() -> None:
    """Those that an engine is to override, those of its own, and those of bases that it does not have."""

    class Free(GuardedSparse):
        name = "free"
        faults = (RuntimeError, OSError)
        packages = ("numpy",)
        index_parameters = cached_property(method)  # type: ignore[assignment]

        def size(self, folder: Path) -> Any:
            return super().size(folder)

    engine = Free({})
    engine.faults, engine.source, engine.documents = (ValueError,), None, np.zeros(1)
    for name in ("client", "filter", "opened", "dropped", "library_index"):
        setattr(engine, name, name)
        assert getattr(engine, name) == name


def test_a_client_is_handed_over() -> None:
    class Reached(ClientEngine[Any]):
        info = build = load = retrieve = method

    with pytest.raises(CardError, match=r"self\.use\(client\)"):
        Reached({}).client = None


CARD = """
name = "mine"
summary = "somebody's engine"
engine = "mine_engine:Mine"
encoder = "bm25"
[reference]
kind = "sparse"
"""
MINE = """
from mutants_of_guards import GuardedSparse

class Mine(GuardedSparse):
{body}
"""


@pytest.fixture
def card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    (tmp_path / "backends").mkdir()
    (tmp_path / "backends" / "mine.toml").write_text(CARD, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))

    def load(body: str) -> Any:
        (tmp_path / "mine_engine.py").write_text(MINE.format(body=body), encoding="utf-8")
        return load_engine(find_cards("backends", tmp_path)["mine"])

    yield load
    monkeypatch.delitem(__import__("sys").modules, "mine_engine", raising=False)


@pytest.mark.parametrize(
    "body",
    [
        "    def index(self, documents, progress, clock): ...",
        "    index = None",
        "    def __init__(self, parameters):\n        super().__init__(parameters)\n        self.index = None",
    ],
)
def test_a_card_of_such_a_class_is_refused(card: Callable[[str], Any], body: str) -> None:
    with pytest.raises(CardError, match=r"the class 'Mine' (overrides|has an attribute) 'index'"):
        card(body)


def test_an_index_that_is_kept_while_it_is_loaded(tmp_path: Path) -> None:
    """Where most engines would do it: the failure names the attribute."""

    class Keeps(GuardedSparse):
        def load(self, folder: Path) -> LoadedIndex:
            loaded = super().load(folder)
            self.index = loaded
            return loaded

    from harness.data.inputs import Inputs
    from harness.data.types import Ids
    from harness.testing import RecordingProgress, StepClock
    from harness.testing.expected import to_vectors

    engine, documents = Keeps({}), Inputs(Ids.of(["a"]), sparse=to_vectors([{0: 1.0}], 1))
    engine.open(tmp_path, documents.ids)
    with pytest.raises(CardError, match="has an attribute 'index', which hides the method 'index'"):
        engine.index(documents, RecordingProgress(), StepClock())


def test_every_hook_that_the_page_names_is_free() -> None:
    """Of the documentation's page on engines."""
    hooks = ["info", "build", "load", "retrieve", "size", "check", "create", "prepare", "columns", "translated"]
    hooks += ["index_parameters", "search_prepared", "lists", "caveats", "searched_state", "stored_documents"]
    reserved = reserved_names(GuardedSparse)
    assert [name for name in hooks if reserved[name].final] == []
