"""What a card says of a parameter and what its engine does with it are the same, for third parties' cards too."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest
from mutants_of_guards import GuardedSparse

from harness.errors import CardError
from harness.registry.lookup import find_cards, load_engine

CARD = """
name = "theirs"
summary = "somebody's engine"
engine = "{module}:{engine}"
encoder = "bm25"
[reference]
kind = "sparse"
[parameters.{parameter}]
type = "int"
default = 1
scope = "{scope}"
help = "a number"
"""


class Guarded(GuardedSparse):
    """Its source, which is this file, has the word ``effort``."""


class Patient(GuardedSparse):
    search_parameters: ClassVar[frozenset[str]] = frozenset({"effort"})


def load(folder: Path, engine: str, parameter: str, scope: str) -> object:
    (folder / "backends").mkdir()
    card = CARD.format(module=__name__, engine=engine, parameter=parameter, scope=scope)
    (folder / "backends" / "theirs.toml").write_text(card)
    return load_engine(find_cards("backends", folder)["theirs"])


@pytest.mark.parametrize("name", find_cards("backends"))
def test_every_card_agrees_with_its_engine(name: str) -> None:
    card = find_cards("backends")[name]
    assert (card.external is not None) == load_engine(card).capabilities.external


@pytest.mark.parametrize(("engine", "scope"), [("Patient", "search"), ("Guarded", "engine")])
def test_a_card_that_agrees_is_loaded(tmp_path: Path, engine: str, scope: str) -> None:
    assert load(tmp_path, engine, "effort", scope) is globals()[engine]


def test_a_parameter_of_the_search_that_the_class_takes_for_one_of_the_index(tmp_path: Path) -> None:
    with pytest.raises(CardError, match="its scope is 'search', but 'Guarded' opens no index"):
        load(tmp_path, "Guarded", "effort", "search")


def test_a_parameter_of_the_index_that_the_class_takes_for_one_of_the_search(tmp_path: Path) -> None:
    with pytest.raises(CardError, match="'Patient' opens an index with any value of it, but its scope is 'engine'"):
        load(tmp_path, "Patient", "effort", "engine")
