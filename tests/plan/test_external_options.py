"""What goes with ``external=true`` is refused in one clear message before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import CardError, EngineFailureError, UsageError
from harness.plan.backend_spec import parse_backends
from harness.plan.config import CompareRequest
from harness.plan.plan import make_plan
from harness.registry.cards import read_backend_card
from harness.registry.lookup import find_cards

CARD = """\
name = "toy"
summary = "a toy"
engine = "toy:Toy"
encoder = "none"

[reference]
kind = "none"
"""
EXTERNAL = """
[external_index]
where = ["path", "collection"]
only = ["id_field"]
building = ["segments"]
read = ["similarity"]
"""
PARAMETERS = """
[parameters.external]
type = "bool"
default = false
scope = "engine"
help = "search what is there"
""" + "".join(
    f'\n[parameters.{name}]\ntype = "str"\ndefault = "{default}"\nscope = "engine"\nhelp = "a text"\n'
    for name, default in {"path": "", "collection": "", "id_field": "", "segments": "", "similarity": "cosine"}.items()
)


@pytest.fixture
def cards(tmp_path: Path) -> Path:
    (tmp_path / "backends").mkdir()
    (tmp_path / "backends" / "toy.toml").write_text(CARD + EXTERNAL + PARAMETERS)
    (tmp_path / "backends" / "plain.toml").write_text(CARD.replace("toy", "plain"))
    return tmp_path


def test_the_documentation_names_every_backend_that_searches_external_indexes(repository: Path) -> None:
    page = (repository / "docs" / "how-to" / "search-an-external-index.md").read_text(encoding="utf-8")
    table = "".join(line for line in page.splitlines() if line.startswith("|"))
    external = [name for name, card in find_cards("backends").items() if card.external is not None]
    assert [name for name in external if f"`{name}`" not in table] == []


def test_a_plan_knows_which_trials_search_external_indexes(cards: Path, tmp_path: Path) -> None:
    request = CompareRequest(backends=f"toy,toy:external=true;path={tmp_path},toy:external=false", cards=cards)
    with pytest.raises(UsageError, match="'toy' and 'toy:external=false' are the same"):
        make_plan(request, lucene_available=False)
    plan = make_plan(
        CompareRequest(backends=f"toy,toy:external=true;path={tmp_path},plain", cards=cards), lucene_available=False
    )
    assert [trial.external for trial in plan.trials] == [False, True, False]


def test_what_an_index_says_itself_is_taken_from_it(cards: Path, tmp_path: Path) -> None:
    """Unless it is given; engines are asked by an empty text."""
    given = f"toy:external=true;path={tmp_path}"
    request = CompareRequest(backends=f"toy,{given},{given};similarity=dot", cards=cards)
    built, read, said = make_plan(request, lucene_available=False).trials
    assert [one.parameters["similarity"] for one in (built, read, said)] == ["cosine", "", "dot"]
    state = {"similarity": "l2", "segments": 3}
    found = [one.read(state).parameters["similarity"] for one in (built, read, said)]
    assert found == ["cosine", "l2", "dot"]
    assert said.read({}).parameters["similarity"] == "dot"
    with pytest.raises(EngineFailureError, match="does not report the 'similarity' of the index"):
        read.read({})


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("toy:external=true", "external=true: nothing names the location of the index\n  give path=… or collection=…"),
        ("toy:external=true;path=;collection=", "nothing names the location of the index"),
        ("toy:external=true;path=.;collection=c", "path and collection both name the location of the index"),
        ("toy:path=.", "'path' is about an external index\n  add external=true, or drop it"),
        ("toy:external=false;path=.", "'path' is about an external index"),
        ("toy:id_field=docid", "'id_field' is about an external index"),
        ("toy:external=true;path=.;segments=single", "'segments' is for building an index"),
        ("toy:external=true;path=/no/such/folder", "there is no folder or file '/no/such/folder'"),
        ("plain:external=true;path=.", "backend 'plain' cannot search an external index"),
    ],
)
def test_what_does_not_go_together_is_refused(cards: Path, expression: str, message: str) -> None:
    with pytest.raises(UsageError) as refusal:
        parse_backends(expression, cards)
    assert message in str(refusal.value)


def test_a_comma_between_parameters_is_told(cards: Path) -> None:
    with pytest.raises(UsageError, match="the location of the index\n  separate parameters with ';': ;path=…"):
        parse_backends(["toy:external=true;id_field=x, path=db"], cards)
    with pytest.raises(UsageError) as refusal:
        parse_backends("toy:external=true;id_field=x,path=db", cards)
    assert "'path=…' is a parameter, but a backend is expected here" in str(refusal.value)
    assert "db" not in str(refusal.value)


def test_every_problem_is_told_at_once(cards: Path) -> None:
    with pytest.raises(UsageError, match="2 problems"):
        parse_backends(["toy:external=true;segments=single"], cards)


def test_home_is_expanded(cards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "index").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    (spec,) = parse_backends("toy:external=true;path=~/index", cards)
    assert spec.label == "toy:external=true;path=~/index"


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('where = ["path", "collection"]', "where = []", "'external_index.where' names no parameter"),
        ('"id_field"]', '"id_feild"]', "'external_index' names 'id_feild', which is not a parameter"),
        ('["similarity"]', '["external"]', "'external_index.read' names 'external', which is not of type str"),
        ('["similarity"]', '["likeness"]', "'external_index' names 'likeness', which is not a parameter"),
        ("building", "bilding", "unknown key 'external_index.bilding'"),
        ('type = "bool"\ndefault = false', 'type = "bool"\ndefault = true', "false by default"),
        ("[parameters.external]", "[parameters.used]", "needs the bool parameter 'external'"),
    ],
)
def test_a_card_that_cannot_mean_it_is_refused(tmp_path: Path, before: str, after: str, message: str) -> None:
    card = CARD + EXTERNAL + PARAMETERS
    assert before in card
    (tmp_path / "toy.toml").write_text(card.replace(before, after))
    with pytest.raises(CardError) as refusal:
        read_backend_card(tmp_path / "toy.toml")
    assert message in str(refusal.value)


@pytest.mark.parametrize("form", ["flat:external=true;path=.{}", "rrf:csr+(flat:external=true;path=.{})"])
def test_the_model_that_made_the_vectors_is_asked_for(form: str) -> None:
    """Another one, such as the default, would be seen to be wrong by its vectors alone, if there are any."""
    for without in ("", ";model="):
        with pytest.raises(UsageError, match=r"does not say which model made its vectors\n  name it: model=…"):
            make_plan(CompareRequest(backends=form.format(without)), lucene_available=False)
    make_plan(CompareRequest(backends=form.format(";model=random")), lucene_available=False)
