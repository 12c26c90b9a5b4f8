"""A value in quotes is one value, wherever an expression is cut."""

from __future__ import annotations

import re

import pytest

from harness.errors import UsageError
from harness.pipeline.regress.rerun import changed_backends
from harness.plan.backend_spec import parse_backends
from harness.plan.config import CompareRequest
from harness.plan.expressions import quote_list_item, split_outside, split_stages, unquoted
from harness.plan.plan import make_plan
from harness.plan.sweeps import parse_sweep

INSTRUCTION = "Given a web search query, retrieve passages; (not: titles)|qwen3"
RERANKED = f'csr|qwen3:instruction="{INSTRUCTION}"'


@pytest.mark.parametrize("quote", ['"', "'"])
def test_a_value_in_quotes_is_one_value(quote: str) -> None:
    specs = parse_backends(f"csr|qwen3:instruction={quote}{INSTRUCTION}{quote};candidates=5,rrf:csr+(csr:k1=2.0)")
    assert [spec.label for spec in specs] == [f"{RERANKED};candidates=5", "rrf:csr+(csr:k1=2.0)"]
    assert specs[0].overrides["instruction"] == INSTRUCTION
    assert parse_backends(specs[0].label) == specs[:1], "the label is the same backend"


def test_a_recorded_command_parses_to_the_same_backends(tmp_path) -> None:
    plan = make_plan(
        CompareRequest(backends=["csr", f"csr|qwen3:model={tmp_path};instruction='{INSTRUCTION}'"]),
        lucene_available=False,
    )
    words = plan.command()
    again = parse_backends(words[words.index("--backends") + 1])
    assert [spec.identity for spec in again] == [trial.spec.identity for trial in plan.trials]


def test_an_item_of_a_list_in_python_needs_no_quotes_and_its_command_keeps_it_whole(tmp_path) -> None:
    (tmp_path / "a,b.trec").touch()
    request = CompareRequest(backends=["csr", f"run:{tmp_path}/a,b.trec"], sweep=["csr:b=0.1,0.9"])
    plan = make_plan(request, lucene_available=False)
    listed = plan.command()[3]
    assert listed == f"csr,(run:{tmp_path}/a,b.trec)"
    again = make_plan(CompareRequest(backends=listed, sweep=request.sweep), lucene_available=False)
    assert [trial.spec.identity for trial in again.trials] == [trial.spec.identity for trial in plan.trials]
    assert quote_list_item('csr:x="a,b"') == 'csr:x="a,b"'


def test_sweeps_take_values_in_quotes() -> None:
    sweep = "csr|qwen3:candidates=5;instruction=\"a, b=c\",'d; e'"
    assert parse_sweep(sweep).expand() == [
        'csr|qwen3:candidates=5;instruction="a, b=c"',
        'csr|qwen3:candidates=5;instruction="d; e"',
    ]
    assert parse_sweep(sweep).values["instruction"] == ('"a, b=c"', '"d; e"')


def test_set_takes_values_in_quotes_and_keeps_those_that_are_there() -> None:
    specs = parse_backends(RERANKED)
    assert changed_backends(specs, ["qwen3:candidates=5"]) == [f"{RERANKED};candidates=5"]
    (changed,) = parse_backends(changed_backends(specs, ['qwen3:instruction="x; y"']))
    assert changed.overrides["instruction"] == "x; y"


def test_a_run_file_in_quotes_may_have_any_name(tmp_path) -> None:
    path = tmp_path / "a,b (1.trec"
    path.touch()
    specs = parse_backends(f'csr,run:"{path}"')
    assert [spec.run_path for spec in specs] == [None, path]
    assert parse_backends([spec.label for spec in specs]) == parse_backends([f"{specs[0].label}", f'run:"{path}"'])


def test_a_url_in_quotes_is_looked_at_too() -> None:
    (spec,) = parse_backends('qdrant:url="http://127.0.0.1:6333"')
    assert spec.overrides["url"] == "http://127.0.0.1:6333"
    with pytest.raises(UsageError, match="is not of the form") as caught:
        parse_backends('qdrant:url="http://user:hush,hush@host"')
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('csr|qwen3:instruction="a, b', "the quote at character 23, after 'instruction=', is not closed"),
        ("csr,'flat", "the quote at character 5 is not closed"),
        ('csr|qwen3:instruction="a"b', "a quoted value ends before its text does"),
        ("rrf:csr+(csr", "the parenthesis that is opened at character 9 of 'rrf:csr+(csr' is not closed"),
        ("rrf:(csr:k1=2))+csr", "that is closed at character 15 of 'rrf:(csr:k1=2))+csr' is not opened"),
        ("csr:k1=(2", "that is opened at character 8 of 'csr:k1=(2' is not closed"),
    ],
)
def test_a_quote_or_parenthesis_without_its_counterpart_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        parse_backends(text)


def test_an_expression_that_is_repeated_holds_no_key() -> None:
    with pytest.raises(UsageError, match="at character") as caught:
        parse_backends("qdrant:api_key=hush(hush")
    assert "hush" not in str(caught.value)


def test_quotes_within_words_are_plain_characters() -> None:
    assert split_outside("x=it's,y", ",") == ["x=it's", "y"]
    assert split_stages('csr|keywords:x="a|keywords"', ["keywords"]) == ["csr", 'keywords:x="a|keywords"']
    assert unquoted(" 'it''s' ") == "it's"
