"""Options are parsed once: the request holds the final value, and what is recorded is what the user wrote."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.cli.config import read_settings
from harness.cli.verb import VerbCommand, _parsed
from harness.cli.verbs import load_verb
from harness.data.filter_sweep import FilterSweep
from harness.errors import UsageError
from harness.plan.config import ClientKind, CompareRequest, Isolation, Resume
from harness.plan.option_fields import checked, command_words, flat, from_keywords, option_fields
from harness.plan.option_values import Churn

WRITTEN: list[tuple[str, str, object]] = [
    ("memory_limit", "2GiB", 2**31),
    ("verify_cache", "1%", 0.01),
    ("concurrency", "1, 2", (1, 2)),
    ("rate", "50,0.5", (50.0, 0.5)),
    ("rate", "sweep", "sweep"),
    ("churn", "insert=10%", Churn(insert=0.1)),
    ("filter_sweep", "50%,section", FilterSweep((0.5,), ("section",))),
    ("resume", "missing", Resume.MISSING),
    ("isolation", "none", Isolation.NONE),
    ("clients", "threads", ClientKind.THREADS),
]


@pytest.mark.parametrize(("name", "text", "value"), WRITTEN)
def test_command_line_keywords_and_file_give_the_same_final_value(
    name: str, text: str, value: object, tmp_path: Path
) -> None:
    (tmp_path / "harness.toml").write_text(f'[compare]\n{name} = "{text}"\n', encoding="utf-8")
    from_file = read_settings(tmp_path / "harness.toml", "compare")
    from_words = _parsed(option_fields(CompareRequest), {name: text})
    (from_python,) = from_keywords("harness.compare", {name: text}, CompareRequest)
    requests = [CompareRequest(**from_file), CompareRequest(**from_words), from_python]
    for request in requests:
        assert getattr(request, name) == value
        assert type(getattr(request, name)) is type(value)


@pytest.mark.parametrize(("name", "text", "value"), WRITTEN)
def test_what_is_recorded_is_what_the_user_wrote(name: str, text: str, value: object) -> None:
    given: Any = {name: text}
    request = replace(CompareRequest(**given), k=7)  # which a copy keeps
    flag = option_fields(CompareRequest)[name].flag
    assert command_words(request)[-2:] == [flag, text] or f"{flag} {text}" in " ".join(command_words(request))
    assert flat(request)[name] == text


def test_lists_from_python_are_recorded_as_the_text_for_them() -> None:
    request = CompareRequest(concurrency=[1, 2], rate=[50.0], filter_sweep=[0.5, "section"])  # type: ignore[arg-type]
    assert [flat(request)[name] for name in ("concurrency", "rate", "filter_sweep")] == ["1,2", "50", "0.5,section"]
    assert (request.concurrency, request.rates) == ((1, 2), (50.0,))


def test_another_value_forgets_what_was_written() -> None:
    request = replace(CompareRequest(memory_limit="2GiB"), memory_limit=2**24)  # type: ignore[arg-type]
    assert flat(request)["memory_limit"] == 2**24


def test_wrong_values_are_reported_together_and_replaced_by_defaults() -> None:
    wrong: Any = {"memory_limit": "2GB", "rate": "fast", "churn": {}, "isolation": "thread"}
    request, mistakes = checked(CompareRequest(**wrong))
    assert [str(mistake).partition("\n")[0] for mistake in mistakes] == [
        "--rate fast: not a list of numbers",
        "--churn is {}, a dict",
        "--memory-limit is '2GB'",
        "--isolation thread: no such choice",
    ]
    assert (request.memory_limit, request.rate, request.churn, request.isolation) == (None, (), None, "process")


def test_a_warm_up_of_the_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_WARM_UP", "2.5")
    request = CompareRequest()
    assert (request.warm_up, request.arguments()["warm_up"]) == (2.5, None)
    monkeypatch.setenv("HARNESS_WARM_UP", "long")
    with pytest.raises(UsageError, match="HARNESS_WARM_UP is long"):
        raise checked(CompareRequest())[1][0]


def test_the_command_of_a_verb_is_made_of_its_options() -> None:
    verb: Any = load_verb("compare")
    command = VerbCommand("compare", verb, configured=True)
    assert {parameter.name for parameter in command.params} == {*verb.fields, "config"}
