"""The error tree: drawn as it is, documented, and readable."""

from __future__ import annotations

import inspect
import re

import pytest

from harness import errors
from harness.cli.verbs import ExitCode
from harness.errors import DataError, HarnessError, MissingExtraError, UnknownNameError

CLASSES = {name: value for name, value in vars(errors).items() if inspect.isclass(value) and name in errors.__all__}


def drawn_tree() -> dict[str, tuple[str | None, int | None, str]]:
    """Name -> (parent, exit code, meaning), from the drawing at the top of the module."""
    found: dict[str, tuple[str | None, int | None, str]] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r" {4}(?P<lead>[ │├└─]*)(?P<name>[A-Z]\w+)(?: +(?P<code>\d+) +(?P<meaning>.+))?$", line)
        if match:
            depth = len(match["lead"]) // 4
            path[depth:] = [match["name"]]
            parent = path[depth - 1] if depth else None
            found[match["name"]] = (parent, int(match["code"]) if match["code"] else None, match["meaning"] or "")
    return found


def test_the_drawing_is_the_tree() -> None:
    drawn = drawn_tree()
    assert set(drawn) == set(CLASSES) == set(errors.__all__)
    for name, (parent, code, meaning) in drawn.items():
        error = CLASSES[name]
        if parent is None:
            assert error is HarnessError
            continue
        assert error.__bases__ == (CLASSES[parent],), name
        assert error.exit_code == code, name
        assert meaning, name


def test_every_exit_code_is_one_of_the_documented_ones() -> None:
    assert {error.exit_code for error in CLASSES.values()} <= {ExitCode.USAGE, ExitCode.UNAVAILABLE}


def test_a_message_has_what_and_fix() -> None:
    error = HarnessError("the index of 'qdrant' is damaged", fix="delete its folder")
    assert (error.problem, error.fix) == ("the index of 'qdrant' is damaged", "delete its folder")
    assert str(error) == "the index of 'qdrant' is damaged\n  delete its folder"
    assert str(HarnessError("no advice")) == "no advice"


@pytest.mark.parametrize(
    ("name", "hint"), [("qdrent", "did you mean 'qdrant'? "), ("QDRANT", "did you mean 'qdrant'? "), ("zzz", "")]
)
def test_unknown_names_suggest_the_nearest(name: str, hint: str) -> None:
    error = UnknownNameError("backend", name, ["qdrant", "csr"])
    assert str(error) == f"unknown backend '{name}'\n  {hint}known: csr, qdrant"


def test_unknown_names_where_none_is_known() -> None:
    assert str(UnknownNameError("dataset", "x", [])) == "unknown dataset 'x'\n  known: none"


def test_of_many_known_names_the_nearest_and_the_first_are_listed() -> None:
    known = [f"word-{number:02}" for number in range(60)] + ["lucene-english", "lucene-spanish"]
    error = UnknownNameError("analyzer", "lucene-englsh", known)
    what, fix = str(error).split("\n")
    assert what == "unknown analyzer 'lucene-englsh'"
    assert fix.startswith("  did you mean 'lucene-english'? known: lucene-english, lucene-spanish, word-00, word-01, ")
    assert fix.endswith(", word-09, … (62 in all)")
    assert error.names == tuple(sorted(known))
    few = known[:12]
    assert str(UnknownNameError("analyzer", "x", few)).endswith(", ".join(few))


def test_errors_of_several_files_are_one() -> None:
    faults = [DataError("a", ["one", "two"]), DataError("b", ["three"], fix="mend it"), DataError("c", ["four"])]
    joined = DataError.of_files(faults)
    assert str(joined).splitlines() == [
        "a: 2 problems", "  one", "  two", "b: 1 problem", "  three", "  mend it", "c: 1 problem", "  four",
    ]  # fmt: skip
    assert joined.further == tuple(faults[1:])
    assert DataError.of_files(faults[:1]) is faults[0]


@pytest.mark.parametrize(
    ("count", "head", "last"),
    [
        (1, "f.jsonl: 1 problem", "line 0"),
        (20, "f.jsonl: 20 problems", "line 19"),
        (23, "f.jsonl: 23 problems", "… and 3 more"),
    ],
)
def test_data_errors_show_twenty_problems_and_count_the_rest(count: int, head: str, last: str) -> None:
    lines = str(DataError("f.jsonl", [f"line {number}" for number in range(count)])).splitlines()
    assert lines[0] == head
    assert lines[-1].strip() == last
    assert len(lines) == 1 + min(count, 21)


def test_a_missing_extra_names_the_command() -> None:
    error = MissingExtraError("qdrant_edge", extra="qdrant", feature="backend qdrant")
    assert "pip install 'retrieval-harness[qdrant]'" in str(error)
    assert error.exit_code == 3
