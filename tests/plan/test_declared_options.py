"""Each option is declared once: flags, keywords, `harness.toml` and the recorded command follow from it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import harness
from harness import stats
from harness.cli.app import _build
from harness.cli.verb import DeclaredVerb, VerbGroup
from harness.cli.verbs import VERBS, load_verb
from harness.data.ranking import TieRule
from harness.errors import UsageError
from harness.metrics import QuerySet
from harness.pipeline.check.id_match import MatchRule
from harness.plan.config import (
    FORMATS,
    GATE,
    GROUPS,
    PAIRED_TESTS,
    QUERY_RULES,
    SELECTION,
    SERVERS,
    TIE_RULES,
    CompareOutput,
    CompareRequest,
)
from harness.plan.option_fields import command_words, from_keywords, option_fields
from harness.plan.option_values import MATCH_RULES
from harness.report import formats

KINDS = (CompareRequest, CompareOutput)
VARIED = {
    "backends": "those compared, those checked, and those in the place of a baseline's",
    "accept": "a finding about answers, a run of which nothing is judged",
    "all": "every dataset, every entry of the cache",
    "corpus": "the documents of a check, and also one of several corpora of a result",
    "dataset": "those compared, another state of a baseline's, the one that init writes down, the one shown",
    "filter": "the searches of a comparison, and the questions of a golden set in addition to their own",
    "format": "eval also prints as trec_eval does",
    "golden": "the questions to ask, and also the place to which those of a result moved",
    "k": "the hits to search, and the documents to explain",
    "metric": "that of a table, and that which chooses documents to judge",
    "max_calls": "of each backend, and of a judge",
    "published": "a number to look for, all numbers to show",
    "qrels": "in place of the dataset's, and the only ones",
    "query": "the one printed, the one explained",
    "result": "one to explain, and one to judge",
    "queries": "a rule or a file of queries, and the rule alone",
}
"""Options of several verbs that differ in meaning, each with its reason; all others have one declaration."""


def declared() -> dict[str, dict[str, list[str]]]:
    """Option -> help -> the verbs that have it."""
    found: dict[str, dict[str, list[str]]] = {}
    for name in VERBS:
        loaded = load_verb(name)
        verbs = (
            {f"{name} {below}": verb for below, verb in loaded.verbs.items()} if isinstance(loaded, VerbGroup) else {}
        )
        for verb, one in (verbs or {name: loaded}).items():
            assert isinstance(one, DeclaredVerb)
            for option, field in one.fields.items():
                found.setdefault(option, {}).setdefault(field.option.help, []).append(verb)
    return found


def test_each_option_is_declared_once() -> None:
    found = declared()
    assert {name for name, helps in found.items() if len(helps) > 1} == VARIED.keys()
    shared = {name: verbs for name, helps in found.items() for verbs in helps.values() if len(verbs) > 1}
    compared = ["compare", "check", "verify", "regress", "diff", "report", "explain", "judge"]
    listed = ["backends", *(f"datasets {verb}" for verb in ("list", "search", "info", "fetch", "remove"))]
    assert shared["cards"] == [*compared, *listed]
    assert shared["yes"] == ["datasets remove", "doctor", "cache remove"]
    assert shared["deadline"] == ["compare", "check", "regress"]
    declarations = sum(len(helps) for helps in found.values())
    uses = sum(len(verbs) for helps in found.values() for verbs in helps.values())
    assert declarations < 0.6 * uses, "85 of 159 when this was written"


def test_no_other_module_declares_an_option() -> None:
    """``app`` has --version, and ``verb`` makes click's declarations of ours."""
    root = Path(harness.__file__).parent
    sources = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in root.rglob("*.py")}
    own = {"app", "verb"}
    declaring = {name for name, text in sources.items() if re.search(r"\b(?:click\.)?(?:Option|Argument)\(", text)}
    assert declaring - {"plan/option_fields.py"} == {"plan/config.py", *(f"cli/{name}.py" for name in own)}


def test_options_have_help_and_a_group() -> None:
    for kind in KINDS:
        for field in option_fields(kind).values():
            assert field.option.help.endswith((".", "%.")), field.name
            assert field.option.group, field.name
    help_text = CliRunner().invoke(_build(), ["compare", "--help"]).output
    headings = re.findall(r"^(\w.*):$", help_text, re.MULTILINE)
    assert headings == [group for group in GROUPS if group not in (GATE, SERVERS, SELECTION)]
    compared, searched = help_text.index("--dataset"), help_text.index("--k N")
    assert compared < help_text.index("--sweep") < searched < help_text.index("--max-calls")


def test_choices_are_those_of_the_rooms_that_take_them() -> None:
    assert list(TIE_RULES) == [rule.value for rule in TieRule]
    assert list(QUERY_RULES) == [rule.value for rule in QuerySet]
    assert list(MATCH_RULES) == [rule.value for rule in MatchRule]
    assert PAIRED_TESTS == stats.PAIRED_TESTS
    assert FORMATS == formats.FORMATS


def test_only_what_differs_from_the_defaults_is_recorded() -> None:
    assert command_words(CompareRequest()) == []
    assert command_words(CompareRequest(metrics="nDCG@10,AP,R@100,RR@10", load_seconds=5)) == []
    request = CompareRequest(k=10, timing=False, filter=["a=1", "b=2"], metrics=["AP", "RR"], labels="x.jsonl")
    assert command_words(request) == [
        "--labels", "x.jsonl", "--k", "10", "--filter", "a=1", "--filter", "b=2", "--metrics", "AP,RR", "--no-timing",
    ]  # fmt: skip
    assert command_words(CompareOutput(verbose=True, sort="AP", dry_run=True)) == ["--verbose", "--sort", "AP"]


@pytest.mark.parametrize(
    ("keywords", "says"),
    [
        ({"metrcs": "AP"}, r"harness.compare\(\) has no keyword 'metrcs'\n  did you mean 'metrics'\?"),
        ({"metrcs": "AP", "k": "ten"}, r"(?s)no keyword 'metrcs'.*--k is 'ten'\n  it must be a whole number from 1 to"),
        ({"metrics": 5}, "--metrics is 5\n  it must be text, or a list of texts"),
        ({"timing": "no"}, "--timing is 'no'\n  it must be true or false"),
        ({"queries": [3]}, r"--queries is \(3,\), a tuple"),
        ({"deadline": 0}, "--deadline is 0\n  it must be a number of seconds above 0, such as 0.5 or 90"),
        (
            {"dataset": ["a", 3]},
            r"--dataset is 3, of type int\n  give a name, a path, harness.Dataset.of",
        ),
        ({"save_runs": "beir"}, "--save-runs beir: no such choice\n  known: trec, mteb"),
        ({"cards": 7, "ties": "none"}, r"(?s)--ties none.*--cards is 7\n  it must be a path"),
    ],
)
def test_a_wrong_keyword_or_value_in_python_is_refused_with_what_is_expected(keywords: dict, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        harness.compare("csr", **keywords)


def test_a_long_value_is_refused_in_one_short_line() -> None:
    with pytest.raises(UsageError, match=r"….*, a dict\n  it must be a path") as refusal:
        harness.diff({"before": "x" * 1000}, "after")  # type: ignore[arg-type]
    assert len(str(refusal.value)) < 400


def test_values_of_python_become_those_of_the_options() -> None:
    request, output = from_keywords(
        "harness.compare", {"dataset": ["cacm", Path("b")], "sweep": "csr:b=0,1", "qrels": "q", "out": "r"}, *KINDS
    )
    assert (request.dataset, request.sweep, request.qrels) == ("cacm,b", ("csr:b=0,1",), Path("q"))
    assert output.out == Path("r")


@pytest.mark.parametrize(
    ("keywords", "says"),
    [
        ({"requires": "Hit@5>=1"}, r"harness.check\(\) has no keyword 'requires'\n  did you mean 'require'\?"),
        ({"match": "documents"}, "--match documents: no such choice .did you mean 'document'"),
        ({"k": "5", "seed": 1.5}, r"(?s)--k is '5'.*--seed is 1.5"),
        ({"against": 5}, "--against is 5"),
    ],
)
def test_a_wrong_keyword_of_a_check_is_refused(keywords: dict, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        harness.check("chunking-eval", **keywords)


def test_a_wrong_keyword_of_regress_or_diff_is_refused(tmp_path: Path) -> None:
    for call in (lambda **given: harness.regress(tmp_path, **given), lambda **given: harness.diff("a", "b", **given)):
        with pytest.raises(UsageError, match=r"has no keyword 'margins'\n  did you mean 'margin'\?"):
            call(margins=0.1)
    with pytest.raises(UsageError, match=r"no keyword 'kk'"):
        harness.regress(tmp_path, kk=5)


@pytest.mark.parametrize(
    ("call", "keywords", "says"),
    [
        (
            harness.compare,
            {"backend": "csr"},
            r"compare\(\) is called without 'backends'\n  write backends= instead of backend=",
        ),
        (harness.check, {}, r"check\(\) is called without 'golden'\n  give it first, or as golden="),
        (harness.regress, {"base": "b.json"}, r"regress\(\) is called without 'baseline'"),
        (harness.diff, {"before": "a"}, r"diff\(\) is called without 'after'"),
    ],
)
def test_a_call_without_a_needed_argument_is_refused_with_the_nearest_keyword(
    call: Callable[..., object], keywords: dict[str, Any], says: str
) -> None:
    with pytest.raises(UsageError, match=rf"harness\.{says}"):
        call(**keywords)


def test_help_in_python_shows_every_keyword() -> None:
    shown = inspect.signature(harness.compare).parameters
    assert {"k", "metrics", "deadline", "save_runs", "no_text", "display"} <= shown.keys()
    assert {"dry_run", "options", "format"}.isdisjoint(shown)
    assert shown["k"].default == 1000
