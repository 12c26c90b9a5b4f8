"""The verb `backends`, on cards of its own."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cli.cards import backends
from harness.cli.verb import _parameter
from harness.engines.csr import CsrEngine
from harness.errors import UnknownNameError, UsageError
from harness.plan.config import CompareRequest
from harness.plan.option_fields import option_fields

BACKEND = """
name = "zzz"
summary = "A made-up engine"
engine = "made.up:Engine"
extra = "zed"
encoder = "bm25"
[reference]
kind = "sparse"
tolerance = 4e-7
unless = { model = ["ql"] }
[parameters.model]
type = "str"
default = "bm25"
choices = ["bm25", "ql"]
scope = "engine"
help = "The scoring function"
[parameters.k1]
type = "float"
default = 0.9
minimum = 0
scope = "encoder"
help = "Saturation"
[parameters.b]
type = "float"
default = 0.4
minimum = 0
maximum = 1
scope = "encoder"
help = "Length normalisation"
[parameters.analyzer]
type = "str"
default = ""
scope = "encoder"
help = "How text becomes terms"
[parameters.fast]
type = "bool"
default = true
scope = "engine"
help = "Be quick"
"""


@pytest.fixture
def cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "backends").mkdir()
    (tmp_path / "backends" / "zzz.toml").write_text(BACKEND, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_backends_are_listed_with_extra_and_summary(cards: Path, capsys: pytest.CaptureFixture[str]) -> None:
    backends(cards=cards)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["backend", "extra", "summary"]
    assert next(line.split(maxsplit=2) for line in lines if line.startswith("zzz")) == [
        "zzz",
        "zed",
        "A made-up engine",
    ]


def test_one_backend_shows_every_parameter(cards: Path, capsys: pytest.CaptureFixture[str]) -> None:
    backends(backend="zzz", cards=cards)
    page = capsys.readouterr().out
    rows = [line.split() for line in page.split("\n\n")[2].splitlines()]
    assert rows[0] == ["parameter", "default", "takes", "changes", "meaning"]
    assert rows[2:] == [
        ["model", "bm25", "str,", "one", "of", "bm25,", "ql", "engine", "The", "scoring", "function"],
        ["k1", "0.9", "float,", "at", "least", "0", "encoder", "Saturation"],
        ["b", "0.4", "float,", "0", "to", "1", "encoder", "Length", "normalisation"],
        ["analyzer", "''", "str", "encoder", "How", "text", "becomes", "terms"],
        ["fast", "true", "bool", "engine", "Be", "quick"],
    ]
    assert "sparse, relative tolerance 4e-07; none with model=ql" in page
    assert "pip install 'retrieval-harness[zed]'" in page


def test_a_parameter_that_changes_no_result_is_not_said_to_change_the_encoder(
    capsys: pytest.CaptureFixture[str],
) -> None:
    backends(backend="chroma")
    page = capsys.readouterr().out
    rows = {line.split()[0]: line for line in page.splitlines() if line[:1].isalpha()}
    for name in ("max_calls", "batch_size", "device"):
        assert "encoder, no result" in rows[name]
    assert rows["model"].split() == ["model", "''", "str", "encoder"]


def test_no_line_is_wider_than_a_hundred_columns(capsys: pytest.CaptureFixture[str]) -> None:
    """But for paths, which are never broken."""
    for show in (backends, lambda: backends(backend="qdrant"), lambda: backends(backend="lucene")):
        show()
        lines = capsys.readouterr().out.splitlines()
        assert [line for line in lines if len(line) > 100 and "/" not in line] == []
        assert max(map(len, lines)) > 70, "nothing here needed wrapping"


def test_gaps_that_the_engine_declares_are_shown(
    cards: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    backends(backend="zzz", cards=cards)
    assert "gaps       not known here: card" in capsys.readouterr().out
    gaps = {"test_two_at_once": "one index per process"}
    monkeypatch.setattr(CsrEngine, "capabilities", replace(CsrEngine.capabilities, gaps=gaps))
    backends(backend="csr")
    assert "  gap        two at once: one index per process\n" in capsys.readouterr().out


def test_json_holds_what_the_card_says(cards: Path, capsys: pytest.CaptureFixture[str]) -> None:
    backends(backend="zzz", cards=cards, format="json")
    card = json.loads(capsys.readouterr().out)
    reference = {"kind": "sparse", "tolerance": 4e-7, "unless": {"model": ["ql"]}, "scoring": None, "fusion": ""}
    assert card["reference"] == reference
    assert card["parameters"]["model"]["choices"] == ["bm25", "ql"]
    backends(cards=cards, format="json")
    assert "zzz" in [card["name"] for card in json.loads(capsys.readouterr().out)]


def test_an_unknown_name_is_refused_with_the_known_ones(cards: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"known: .*zzz"):
        backends(backend="zzy", cards=cards)


@pytest.mark.parametrize(
    ("name", "form"), [("python", "python:MODULE:FUNCTION: "), ("haystack", "langchain:.* haystack:")]
)
def test_what_begins_a_backend_of_the_users_own_is_no_unknown_name(name: str, form: str) -> None:
    with pytest.raises(UsageError, match=form):
        backends(backend=name)


def test_an_expression_is_checked_and_shown_with_the_parameters_that_it_sets(
    cards: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    backends(backend="zzz:k1=1.50;model=ql", cards=cards)
    page = capsys.readouterr().out
    assert page.startswith("zzz:k1=1.5;model=ql: A made-up engine\n")
    head, _, *rows = page.split("\n\n")[2].splitlines()
    assert head.split()[:3] == ["parameter", "value", "default"]
    assert [line.split()[:3] for line in rows] == [["k1", "1.5", "0.9"], ["model", "ql", "bm25"]]
    backends(backend="zzz:k1=1.50;model=ql", cards=cards, format="json")
    assert list(json.loads(capsys.readouterr().out)["parameters"]) == ["k1", "model"]
    backends(backend="rrf:csr+zzz", cards=cards)
    assert "weights" in capsys.readouterr().out
    with pytest.raises(UsageError, match="k1"):
        backends(backend="zzz:k1=-1", cards=cards)
    with pytest.raises(UnknownNameError, match=r"(?s)'k2' of backend 'zzz'.*'k1'"):
        backends(backend="zzz:k2=1", cards=cards)
    with pytest.raises(UsageError, match="begins a backend of yours"):
        backends(backend="python:my_app:search", cards=cards)


def test_what_a_comparison_refuses_of_an_engine_is_refused_here() -> None:
    with pytest.raises(UsageError, match=r"backend 'qdrant:shards=2': shards cannot be set with mode=edge"):
        backends(backend="qdrant:shards=2")


def test_markdown_has_the_label_for_its_heading_and_no_heading_without_words(
    cards: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    backends(backend="zzz:k1=1.5", cards=cards, format="markdown")
    page = capsys.readouterr().out
    assert page.startswith(
        "<!-- harness backends: zzz_k1_1.5 -->\n\n### harness backends: `zzz:k1=1.5`\n\nA made-up engine\n"
    )
    assert "####" not in page
    assert "```text\nengine: " in page


@pytest.mark.parametrize("name", ["index", "x", "MODULE", "ids"])
def test_a_part_of_such_a_form_is_an_unknown_name(name: str) -> None:
    with pytest.raises(UnknownNameError):
        backends(backend=name)


@pytest.mark.usefixtures("cards")
def test_names_are_completed_from_the_cards() -> None:
    parameter = _parameter(option_fields(CompareRequest)["backends"])

    def complete_backends(typed: str) -> list[tuple[str, str | None]]:
        return [(item.value, item.help) for item in parameter.shell_complete(None, typed) if item.type == "plain"]

    assert complete_backends("zz") == [("zzz", "A made-up engine")]
    assert complete_backends("csr,zz") == [("csr,zzz", "A made-up engine")]
    assert complete_backends("zzz:k1=") == []
    assert complete_backends("nothing-of-the-kind") == []


def test_fusions_and_second_stages_are_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    backends()
    listed = capsys.readouterr().out
    assert "rrf:A+B" in listed
    assert "A|cross-encoder" in listed
    backends(backend="minmax")
    assert "weights   ''   str" in re.sub(" {4,}", "   ", capsys.readouterr().out)
    backends(backend="judge", format="json")
    assert json.loads(capsys.readouterr().out)["parameters"]["candidates"]["default"] == 100


def test_the_matrix_fits_its_terminal(
    cards: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In two parts in 80 columns, in one in 140; a card that cannot be imported is not verified."""
    monkeypatch.setenv("COLUMNS", "80")
    backends(cards=cards)
    narrow = capsys.readouterr().out
    assert [line for line in narrow.splitlines() if len(line) > 80] == []
    assert "capabilities of each (continued)" in narrow
    monkeypatch.setenv("COLUMNS", "140")
    backends(cards=cards)
    wide = capsys.readouterr().out
    assert "(continued)" not in wide
    assert [line.split()[1:] for line in wide.splitlines() if line.startswith("zzz ")][1:] == [
        [*"??????????", "not", "verified"]
    ]


def test_the_matrix_is_there_for_programs_and_for_pages(cards: Path, capsys: pytest.CaptureFixture[str]) -> None:
    backends(cards=cards, format="json")
    listed = {card["name"]: card for card in json.loads(capsys.readouterr().out)}
    assert (listed["flat"]["capabilities"]["dense"], listed["flat"]["capabilities"]["sparse"]) == ("yes", "-")
    assert listed["weaviate"]["capabilities"]["dense"] == "?"
    assert listed["weaviate"]["verified_on"] == []
    backends(cards=cards, format="markdown")
    page = capsys.readouterr().out
    assert "| `weaviate` | - | - | ? | - | - | ? | - | - | ? | `?` | `not verified` |" in page
    backends(backend="weaviate", cards=cards, format="markdown")
    assert "verified: on no real engine" in capsys.readouterr().out


def test_a_backend_of_another_package_has_what_its_class_declares(
    cards: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = "'sparse', exact=True, deterministic=True, reopens=True, keeps_k_prefix=True"
    (cards / "made_up_engine.py").write_text(
        "from harness.engines.interface import Capabilities\n"
        f"class Engine:\n    capabilities = Capabilities({declared})\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(cards)
    card = cards / "backends" / "zzz.toml"
    card.write_text(BACKEND.replace("made.up:Engine", "made_up_engine:Engine"), encoding="utf-8")
    backends(cards=cards, format="json")
    (mine,) = [card for card in json.loads(capsys.readouterr().out) if card["name"] == "zzz"]
    assert (mine["capabilities"]["sparse"], mine["capabilities"]["dense"]) == ("?", "-")
    assert mine["verified_on"] == []
