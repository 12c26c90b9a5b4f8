"""Text that messages and tables hold, whatever ids are."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness import Dataset, check, compare, diff, evaluate
from harness.cli.app import _build
from harness.data.types import Ids
from harness.document.model import Annotation, Case, Outcome, Suite
from harness.errors import DataError, HarnessError, UsageError
from harness.pipeline.evaluated_runs import EvaluatedRuns
from harness.report.documents.evaluate import scores_document
from harness.report.formats import render
from harness.report.render.github import workflow_commands
from harness.report.render.junit import junit_xml
from harness.wording import counted, readable, shortened, visible

_PLURALS = "queries|questions|documents|backends|tests|judgments|hits|lists|builds|requirements|retrievers|corpora"


def test_control_characters_are_escaped() -> None:
    assert readable("a\x1b[31mb\tc\u202ed\x85") == "a\\x1b[31mb\\tc\\u202ed\\x85"
    assert readable("two\nlines, Zoë, 'e\u0301'") == "two\nlines, Zoë, 'e\u0301'"


def test_line_breaks_of_ids_are_escaped_and_those_of_messages_stay() -> None:
    assert readable("ids 'a\nb' and 'c\n'\nthe engine's line\nisn't quoted") == (
        "ids 'a\\nb' and 'c\\n'\nthe engine's line\nisn't quoted"
    )
    assert readable("'it's\n'\nnext") == "'it's\n'\nnext", "quotes that do not pair are left alone"


@pytest.mark.parametrize("length", [161, 5_000_000])
def test_long_ids_are_shortened_and_counted(length: int) -> None:
    text = readable(f"document '{'x' * length}' of query '{'y' * 160}'")
    assert len(text) < 400
    assert f"({length:,} characters)' of query '{'y' * 160}'" in text


def test_long_lines_and_cells_are_shortened() -> None:
    assert len(readable("word " * 10_000)) < 2000
    assert shortened("x" * 161).startswith("x" * 80 + "…")
    assert shortened("a\nb") == "a\\nb"


_UNSEEN = "\u061c\u200b\u200e\u200f\u2028\u2029\u202a\u202e\u2060\u2066\u2069\ufeff"


def test_no_renderer_for_other_programs_shows_characters_that_nobody_sees() -> None:
    hostile = f"a{_UNSEEN}b"
    scores = evaluate({hostile: {"d": 1.0}}, {hostile: {"d": 1}}, "RR")
    markdown = render(scores_document(EvaluatedRuns({hostile: scores}, None, [], hostile), per_query=True), "markdown")
    case = Case(name=hostile, classname=hostile, outcome=Outcome.FAILURE, message=hostile, text=hostile, seconds=0.1)
    xml = junit_xml(hostile, [Suite(name=hostile, cases=[case], timestamp="", properties={hostile: hostile})])
    commands = "\n".join(workflow_commands([Annotation(hostile, hostile)], hostile))
    for text in (markdown, xml, commands, visible(hostile), readable(hostile)):
        assert not set(_UNSEEN) & set(text)
        assert "\\u202e" in text


def test_letters_that_need_joiners_stay_as_they_are() -> None:
    text = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \U0001f468\u200d\U0001f469"
    assert visible(text) == readable(text) == text


def test_every_error_is_readable() -> None:
    error = DataError("run", ["document 'a\x1bb' twice", "id 'a\nb'"], fix="see '\x07'")
    assert str(error) == "run: 2 problems\n  document 'a\\x1bb' twice\n  id 'a\\nb'\n  see '\\x07'"
    assert "(5,000 characters)" in str(UsageError(f"unknown '{'x' * 5000}'"))


_HOSTILE = "a\x1b[31m\u202eb\nc"
_ESCAPED = "a\\x1b[31m\\u202eb\\nc"


@pytest.mark.parametrize("hits", [{_HOSTILE: float("nan")}, [(_HOSTILE, 1.0), (_HOSTILE, 0.5)]])
def test_a_refused_ranking_is_told_on_one_line(hits: object) -> None:
    with pytest.raises(HarnessError) as caught:
        evaluate({"q": hits}, {"q": {_HOSTILE: 1}})
    assert _ESCAPED in str(caught.value)
    assert not {"\x1b", "\u202e"} & set(str(caught.value))
    assert "b\nc" not in str(caught.value)


@pytest.mark.parametrize("output", ["table", "markdown"])
def test_an_id_with_a_line_break_breaks_no_table(output: str) -> None:
    scores = replace(evaluate({"q": {"d": 1.0}}, {"q": {"d": 1}}, "RR"), query_ids=Ids.of(["x\ny\x1b"]))
    document = scores_document(EvaluatedRuns({"r\nun": scores}, None, [], "qrels"), per_query=True)
    text = render(document, output, verbose=True)
    rows = [line for line in text.splitlines() if "x\\ny\\x1b" in line]
    assert len(rows) == 1
    assert rows[0].startswith("x\\ny" if output == "table" else "| `x\\ny")
    assert "r\\nun" in text
    assert "\x1b" not in text
    assert "r\nun" not in text


@pytest.mark.parametrize(
    ("count", "noun", "said"),
    [(1, "query", "1 query"), (0, "query", "0 queries"), (1200, "entry", "1,200 entries"), (2, "day", "2 days")],
)
def test_a_number_has_its_noun_in_the_right_form(count: int, noun: str, said: str) -> None:
    assert counted(count, noun) == said


@pytest.fixture(scope="module")
def one_of_each(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of one query over one document that has a word of it: of compare twice, of their diff, and of check."""
    folder = tmp_path_factory.mktemp("one-of-each")
    dataset = Dataset.of({"d1": "a word"}, {"q1": "word"}, {"q1": {"d1": 1}}, name="one")
    compare("csr,csr:k1=1.2", dataset, out=folder / "compare", isolation="none")
    compare("csr", dataset, out=folder / "later", k=1, isolation="none")
    diff(folder / "compare", folder / "later").save(folder / "diff")
    questions = [{"id": "q1", "question": "word", "expected_relevant_doc_ids": ["d1"]}]
    check(questions, corpus=dataset, backends="csr", k=1, isolation="none", out=folder / "check")
    return folder


@pytest.mark.parametrize("verb", ["compare", "check", "diff"])
@pytest.mark.parametrize("format_name", ["table", "markdown", "html"])
def test_one_is_never_followed_by_a_plural(one_of_each: Path, verb: str, format_name: str) -> None:
    result = CliRunner().invoke(_build(), ["report", str(one_of_each / verb), "--format", format_name])
    assert result.exit_code == 0, result.output
    assert re.search(r"\b1 (?:query|question|common query)\b", result.output), "it does not say that there is one query"
    assert re.findall(rf"(?<![.,\d])1 (?:\w+ )?(?:{_PLURALS})\b", result.output) == []
