"""An engine with a BM25 of its own: the contract, and parity with the model that its card names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest
from small_world import write_cards, write_collection
from terms_engine import TermsEngine

import harness
from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.errors import CardError, RejectedInputError
from harness.registry.cards import read_backend_card
from harness.registry.parameters import ParameterValue
from harness.testing import EngineContract
from harness.testing.samples import RecordingProgress, StepClock


@pytest.mark.contract
class TestTerms(EngineContract):
    engine = TermsEngine
    parameters: ClassVar[Mapping[str, ParameterValue]] = {"k1": 1.2, "b": 0.75}
    scoring = "sqlite"
    tolerance = 4e-7


def own_card(folder: Path, scoring: str = 'scoring = "sqlite"') -> Path:
    write_cards(folder, module="terms_engine", terms="TermsEngine")
    path = folder / "backends" / "terms.toml"
    card = path.read_text().replace("[parameters.analyzer]", f"{scoring}\n[parameters.analyzer]")
    path.write_text(card.partition("\n[parameters.idf]")[0] + "\n")
    return folder


@pytest.mark.usefixtures("warm_workers")
def test_a_comparison_shows_the_parity_with_the_model(tmp_path: Path) -> None:
    comparison = harness.compare(
        dataset=str(write_collection(tmp_path / "data")),
        backends=["terms", "csr=csr:analyzer=whitespace"],
        cards=own_card(tmp_path / "cards"),
        k=5,
        out=tmp_path / "out",
    )
    of_terms, of_csr = (comparison.trial(label).parity for label in ("terms", "csr"))
    assert of_terms is not None
    assert of_csr is not None
    assert (of_terms.mode, of_terms.tie_equivalent) == ("sqlite", of_terms.queries)
    assert (of_csr.mode, of_csr.tie_equivalent) == ("textbook", of_csr.queries)
    (difference,) = comparison.report.scorings
    assert (difference.a, difference.b, difference.queries, difference.depth) == ("terms", "csr", 4, 5)
    changes = {change.part: (change.before, change.after, change.queries) for change in difference.changes}
    assert changes["N and avgdl"] == ("of all documents", "of documents with terms", 0)
    assert changes["IDF"][0].endswith("at least 1e-06")
    assert {"k1", "b"} & changes.keys() == set()
    assert "csr differs from terms by the scoring formula" in comparison.render("table")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('kind = "sparse"', 'kind = "lucene"', "'reference.scoring' goes with 'reference.kind' sparse"),
    ],
)
def test_cards_that_contradict_themselves_are_refused(old: str, new: str, says: str, tmp_path: Path) -> None:
    path = own_card(tmp_path) / "backends" / "terms.toml"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(CardError, match=says):
        read_backend_card(path)


def test_texts_that_are_not_analysed_are_refused(tmp_path: Path) -> None:
    engine = TermsEngine({})
    ids = Ids.of(["a"])
    engine.open(tmp_path, ids)
    with pytest.raises(RejectedInputError, match="hold no terms"):
        engine.index(Inputs(ids), RecordingProgress(), StepClock())
