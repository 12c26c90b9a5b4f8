"""The command that a regression stores: every flag in it exists, and a call that no flag says is one of Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.cli.app import _load_command
from harness.errors import UsageError
from harness.pipeline.regress.compare_sides import compare_rules
from harness.pipeline.regress.rerun import request_of, rerun_command
from harness.plan.config import CompareRequest, DiffRequest, GateOptions, Output, RegressRequest, rerun_fields
from harness.plan.option_fields import command_words
from harness.plan.plan import Plan, make_plan
from harness.results.schema_base import PlanRecord


def flags(verb: str) -> set[str]:
    return {flag for one in _load_command(verb).params for flag in [*one.opts, *one.secondary_opts]}


GATE: dict[str, Any] = {
    "max_drop": {"": 0.5, "AP": 0.1},
    "margin": 0.2,
    "test": "t",
    "labels": "labels.jsonl",
    "dossier": 7,
    "dossier_depth": 3,
    "pair": ["csr->lucene"],
}
OUTPUT = Output(out=Path("out"), overwrite=True, no_text=True, format="json")
CHANGED: dict[str, Any] = {
    "rebuilds": 3,
    "repeat": 2,
    "warm_up": 1.0,
    "timing": False,
    "threads": 2,
    "jobs": 2,
    "isolation": "none",
    "executor": "ray",
    "deadline": 5.0,
    "memory_limit": "1GiB",
    "max_calls": 9,
    "resume": "missing",
    "cards": Path("cards"),
}


def plan_of(backends: str) -> Plan:
    return make_plan(CompareRequest(backends=backends, dataset="cacm"), lucene_available=False)


def test_the_url_of_an_endpoint_is_recorded_without_its_secrets() -> None:
    backends = "csr,http:url=http://me:hush@host/{question}?key=hush;ids=a"
    request = RegressRequest(baseline="base.json", backends=backends, **GATE)
    command = rerun_command(request, {}, OUTPUT, plan_of(backends))
    assert command[command.index("--backends") + 1] == "csr,http:url=http://***@host/{question}?***;ids=a"
    assert "hush" not in str(command)


def test_every_flag_of_regress_is_one_of_the_command_line() -> None:
    assert CHANGED.keys() == rerun_fields().keys()
    request = RegressRequest(baseline="base.json", backends=["csr", "lucene"], set=["csr:k1=3"], dataset="cacm", **GATE)
    command = rerun_command(request, CHANGED, OUTPUT, plan_of("csr"))
    assert command[:4] == ["harness", "regress", "--baseline", "base.json"]
    assert {word for word in command if word.startswith("--")} <= flags("regress")
    assert command[command.index("--deadline") + 1] == "5.0"
    drops = [command[place + 1] for place, word in enumerate(command) if word == "--max-drop"]
    assert drops == ["0.5", "AP=0.1"]
    assert {"--no-timing", "--no-text", "--overwrite", "--format", "--out"} <= set(command)


def test_every_flag_of_diff_is_one_of_the_command_line() -> None:
    command = command_words(DiffRequest(before="a", after="b", cards="cards", **GATE))
    assert command[:2] == ["a", "b"]
    assert {word for word in command if word.startswith("--")} <= flags("diff")
    assert {"--labels", "--pair", "--cards", "--dossier-depth"} <= set(command)
    assert command_words(DiffRequest(before="a", after="b")) == ["a", "b"]


@pytest.mark.parametrize(
    ("changes", "gate", "expected"),
    [
        ({"k": 5}, {}, {"k": 5}),
        ({"metrics": ["AP"], "jobs": 2}, {}, {"metrics": ["AP"], "jobs": 2}),
        ({}, {"max_drop": None, "labels": ("l", "m")}, {"max_drop": None, "labels": ("l", "m")}),
    ],
    ids=["depth", "metrics", "no gate"],
)
def test_what_no_flag_says_is_a_call_in_python(
    changes: dict[str, Any], gate: dict[str, Any], expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    request = RegressRequest(baseline="base.json", set="csr:k1=3", **gate)
    program, flag, text = rerun_command(request, changes, OUTPUT, plan_of("csr"))
    assert (program, flag) == ("python", "-c")
    called: list[Any] = []
    monkeypatch.setattr("harness.regress", lambda *given, **named: called.append((given, named)), raising=False)
    exec(text, {})
    outputs = {"out": "out", "overwrite": True, "no_text": True}
    assert called == [(("base.json",), {"set": ("csr:k1=3",), **expected, **outputs})]


@pytest.mark.parametrize(
    ("max_drop", "general", "named"),
    [
        (None, None, {}),
        (0.1, 0.1, {}),
        (["0.1", "AP=0.2"], 0.1, {"AP": 0.2}),
        ("AP=0.2", None, {"AP": 0.2}),
        ({"AP": 0, "": 1}, 1.0, {"AP": 0.0}),
    ],
)
def test_allowed_drops(max_drop: Any, general: float | None, named: dict[str, float]) -> None:
    rules = compare_rules(GateOptions(max_drop=max_drop), 42).rules
    assert (rules.allowed_drop, rules.allowed) == (general, named)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max_drop": ["high", "AP=-1"]}, r"(?s)'high' is not a number.*--max-drop AP=-1: not a drop"),
        ({"max_drop": ["0.1", "0.2"]}, "given twice for all metrics"),
        ({"pair": ["lucene"]}, "not of the form BEFORE->AFTER"),
        ({"test": "z", "margin": "x"}, r"(?s)--margin is 'x'.*--test z: no such choice"),
        ({"dossier": -1}, "--dossier is -1\n  it must be a whole number from 0"),
    ],
)
def test_options_of_the_gate_that_are_wrong(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        compare_rules(GateOptions(**options), 42)


@pytest.mark.parametrize(("options", "expected"), [({}, 5.0), ({"timing": False}, None), ({"warm_up": 1.0}, 1.0)])
def test_the_baseline_s_warm_up_is_not_taken_over_where_no_times_are(
    options: dict[str, Any], expected: float | None
) -> None:
    record = PlanRecord(arguments={"backends": "csr", "timing": True, "warm_up": 5.0}, resolved={})
    assert request_of(record, options).arguments()["warm_up"] == expected
