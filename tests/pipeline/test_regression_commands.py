"""The command that a regression stores: every flag in it exists, and a call that no flag says is one of Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness import Judging
from harness.cli.app import _load_command
from harness.pipeline.regress import diff
from harness.pipeline.regress.plan_again import OPTIONS, Again, _request
from harness.plan.config import Output
from harness.results.schema import PlanRecord


def flags(verb: str) -> set[str]:
    return {flag for one in _load_command(verb).params for flag in [*one.opts, *one.secondary_opts]}


EVERYTHING = Judging(0.5, 0.2, "t", Path("labels.jsonl"), 7, pairs=[("csr", "lucene")])
OUTPUT = Output(out=Path("out"), overwrite=True, no_text=True, format="json")
CHANGED: dict[str, Any] = {
    "rebuilds": 3,
    "repeat": 2,
    "warm_up": 1.0,
    "timing": False,
    "threads": 2,
    "jobs": 2,
    "isolation": "none",
    "deadline": 5.0,
    "memory_limit": "1GiB",
    "max_calls": 9,
    "resume": "missing",
    "cards": Path("cards"),
}


def test_every_flag_of_regress_is_one_of_the_command_line() -> None:
    assert CHANGED.keys() == OPTIONS
    again = Again(Path("base.json"), ["csr", "lucene"], ["csr:k1=3"], "cacm", CHANGED)
    command = again.command(EVERYTHING, OUTPUT)
    assert command[:4] == ["harness", "regress", "--baseline", "base.json"]
    assert {word for word in command if word.startswith("--")} <= flags("regress")
    assert command[command.index("--deadline") + 1] == "5.0"
    assert {"--no-timing", "--no-text", "--overwrite", "--format", "--out"} <= set(command)


def test_every_flag_of_diff_is_one_of_the_command_line() -> None:
    command = diff._command(Path("a"), Path("b"), EVERYTHING, OUTPUT, Path("cards"))
    assert command[:4] == ["harness", "diff", "a", "b"]
    assert {word for word in command if word.startswith("--")} <= flags("diff")
    assert {"--labels", "--pair", "--cards"} <= set(command)


@pytest.mark.parametrize(
    ("options", "judging", "expected"),
    [
        ({"k": 5}, Judging(), {"k": 5}),
        ({"metrics": ["AP"], "jobs": 2}, Judging(), {"metrics": ["AP"], "jobs": 2}),
        ({}, Judging(depth=3, labels=Path("l.jsonl")), {"judging": Judging(depth=3, labels="l.jsonl")}),  # type: ignore[arg-type]
        ({}, Judging(max_drop=None), {"judging": Judging(max_drop=None)}),
    ],
    ids=["depth", "metrics", "documents told", "no gate"],
)
def test_what_no_flag_says_is_a_call_in_python(
    options: dict[str, Any], judging: Judging, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    program, flag, text = Again(Path("base.json"), settings=["csr:k1=3"], options=options).command(judging, OUTPUT)
    assert (program, flag) == ("python", "-c")
    called: list[Any] = []
    monkeypatch.setattr("harness.regress", lambda *given, **named: called.append((given, named)), raising=False)
    exec(text, {})  # noqa: S102 - the command is run as its reader would
    outputs = {"out": "out", "overwrite": True, "no_text": True}
    assert called == [(("base.json",), {"settings": ["csr:k1=3"], **expected, **outputs})]


def test_a_diff_that_no_flag_says_is_a_call_in_python() -> None:
    command = diff._command(Path("a"), Path("b"), Judging(depth=3), Output(), None)
    called = "harness.diff('a', 'b', judging=harness.Judging(depth=3))"
    assert command == ["python", "-c", f"import harness; print({called})"]


@pytest.mark.parametrize(("options", "expected"), [({}, 5.0), ({"timing": False}, None), ({"warm_up": 1.0}, 1.0)])
def test_the_baseline_s_warm_up_is_not_taken_over_where_no_times_are(
    options: dict[str, Any], expected: float | None
) -> None:
    record = PlanRecord(given={"backends": "csr", "timing": True, "warm_up": 5.0}, resolved={})
    assert _request(record, options).warm_up == expected
