"""An engine with a BM25 of its own: the contract, and parity with the model that its card names."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest
from small_world import write_cards, write_collection
from terms_engine import TermsEngine

import harness
from harness.cli.cards import backends
from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.errors import CardError, RejectedInputError
from harness.registry.cards import read_backend_card
from harness.registry.lookup import load_engine
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
    (difference,) = comparison.report.formula_differences
    assert (difference.a, difference.b, difference.queries, difference.depth) == ("terms", "csr", 4, 5)
    changes = {change.part: (change.before, change.after, change.queries) for change in difference.changes}
    assert changes["N and avgdl"] == ("of all documents", "of documents with terms", 0)
    assert changes["IDF"][0].endswith("at least 1e-06")
    assert {"k1", "b"} & changes.keys() == set()
    assert "csr differs from terms by the scoring formula" in comparison.render("table")


OKAPI = ("okapi_engine.py", "okapi_formula.py", "okapi.toml")
FAILING = """
def okapi(postings, parameters):
    return 1 / parameters["zero"]
"""


@pytest.fixture
def okapi(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example of the documentation in a folder that Python looks into; its card is below ``cards``."""
    source, folder = request.config.rootpath / "examples" / "okapi", tmp_path / "okapi"
    (folder / "cards" / "backends").mkdir(parents=True)
    for name in OKAPI:
        target = folder / "cards" / "backends" if name.endswith(".toml") else folder
        (target / name).write_text((source / name).read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
    for module in ("okapi_engine", "okapi_formula"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    return folder


def compared_with_csr(folder: Path, okapi: Path, *backends: str) -> harness.Comparison:
    dataset = str(write_collection(folder / "data"))
    return harness.compare(dataset=dataset, backends=backends, cards=okapi / "cards", k=5, out=folder / "out")


@pytest.mark.usefixtures("warm_workers")
def test_an_outsiders_formula_is_the_reference_of_its_engine(okapi: Path, tmp_path: Path) -> None:
    """Six documents, one of them empty; ``the`` is in most of them, and the IDF of ``cat`` is that of half of them."""
    csr = "csr=csr:analyzer=whitespace"
    comparison = compared_with_csr(
        tmp_path, okapi, "a=okapi:analyzer=whitespace", "b=okapi:analyzer=whitespace;k1=9", csr
    )
    first, second, third = comparison.report.trials
    assert [trial.status for trial in (first, second, third)] == ["ok", "ok", "ok"]
    for trial in (first, second):
        assert trial.parity is not None
        assert (trial.parity.mode, trial.parity.identical) == ("okapi_formula:okapi", trial.parity.queries)
    words = [
        [(change.part, change.before, change.after) for change in one.changes]
        for one in comparison.report.formula_differences
    ]
    assert words == [
        [("formula", "k1=1.5", "k1=9.0")],
        [("formula", "okapi_formula:okapi", "BM25, k1 0.9, b 0.4")],
    ]


@pytest.mark.usefixtures("warm_workers")
def test_a_formula_that_fails_fails_its_backend_alone(okapi: Path, tmp_path: Path) -> None:
    (okapi / "okapi_formula.py").write_text(FAILING, encoding="utf-8")
    comparison = compared_with_csr(tmp_path, okapi, "okapi:analyzer=whitespace", "csr:analyzer=whitespace")
    failed, other = comparison.report.trials
    assert (failed.status, other.status) == ("failed", "ok")
    assert failed.error is not None
    assert "the scoring function 'okapi_formula:okapi' raised KeyError: 'zero' (line 3 of" in failed.error.message


def test_the_card_names_a_scoring_that_is_there(okapi: Path) -> None:
    """It is refused before anything runs: the reference is made last."""
    path = okapi / "cards" / "backends" / "okapi.toml"
    text = path.read_text(encoding="utf-8")
    assert load_engine(read_backend_card(path)).__name__ == "OkapiEngine"
    for scoring, says in (
        ("okapi_formula:okapy", "the scoring 'okapi_formula:okapy' is not a function"),
        ("tantivi", "there is no scoring 'tantivi' .did you mean 'tantivy'"),
    ):
        path.write_text(text.replace("okapi_formula:okapi", scoring), encoding="utf-8")
        with pytest.raises(CardError, match=rf"okapi\.toml', 'reference\.scoring': {says}"):
            load_engine(read_backend_card(path))


def test_the_list_of_backends_shows_the_formula(okapi: Path, capsys: pytest.CaptureFixture[str]) -> None:
    backends(backend="okapi", cards=okapi / "cards")
    assert "sparse, weighed by okapi_formula:okapi, relative tolerance 2e-07" in capsys.readouterr().out


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
