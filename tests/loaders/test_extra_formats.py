"""YAML and workbooks: values as JSON and CSV have them, and one sentence for all that they cannot hold."""

from __future__ import annotations

import datetime as dt
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from installed import Deferred

from harness.errors import DataError
from harness.loaders import load_corpus
from harness.loaders.extra_formats import workbook_rows, yaml_value
from harness.loaders.golden import load_golden

openpyxl = Deferred("openpyxl")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1\nb: -2\nc: 0", {"a": 1, "b": -2, "c": 0}),
        (
            "- no\n- on\n- 007\n- 1_000\n- 12:30\n- 2024-01-01\n- 1.10\n- 1e5\n- +7\n- 0x1f\n- .nan",
            ["no", "on", "007", "1_000", "12:30", "2024-01-01", "1.10", "1e5", "+7", "0x1f", ".nan"],
        ),
        ("- 1.5\n- true\n- False\n- null\n- ~\n- ''\n-", [1.5, True, False, None, None, "", None]),
        ("'1': \"2\"\n3: !!str 4\n5: ! 6", {"1": "2", "3": "4", "5": "6"}),
        ("a: &x [1, 2]\nb: *x", {"a": [1, 2], "b": [1, 2]}),
        (
            "base: &b {k: 1, l: 2}\none: {<<: *b, k: 3}\ntwo: {<<: [*b, {m: 4}]}",
            {"base": {"k": 1, "l": 2}, "one": {"k": 3, "l": 2}, "two": {"k": 1, "l": 2, "m": 4}},
        ),
        ("'<<': {k: 1}", {"<<": {"k": 1}}),
        ("a: 1\n---\na: 2\n", [{"a": 1}, {"a": 2}]),
        ("a: |\n  two\n  lines\n", {"a": "two\nlines\n"}),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("\ufeffa: ü", {"a": "ü"}),
    ],
)
def test_yaml_is_read_as_json_is(text: str, value: object) -> None:
    assert yaml_value(text.encode(), 100) == value


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\nb: 2\na: 3", "line 3: the key 'a' occurs twice in one object"),
        ("a: [1", "malformed YAML: .* in line"),
        (
            "a: !!python/object/apply:os.system [true]",
            "line 1: the tag 'tag:yaml.org,2002:python/object/apply:os.system' is not read",
        ),
        ("a: !secret x", "line 1: the tag '!secret' is not read"),
        ("a: *b", "malformed YAML|repeats a value"),
        ("&a [*a]", r"line 1: '\*a' repeats a value that is not complete"),
        ("[a, b]: 1", "line 1: a key is a list or an object"),
        ("<<: 1", "'<<' merges 1, expected an object"),
        ("[" * 5000 + "]" * 5000, "line 1: lists and objects are nested more than 100 deep"),
        ("- " * 5000 + "x", "nested more than 100 deep"),
        ("a: \x00", "malformed YAML"),
    ],
)
def test_yaml_that_json_could_not_hold_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        yaml_value(text.encode(), 100)


def test_aliases_that_repeat_without_end_are_refused() -> None:
    text = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol]\n"
    text += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 8)}]\n" for n in range(1, 12))
    with pytest.raises(ValueError, match="aliases repeat more than"):
        yaml_value(text.encode(), 100)
    with pytest.raises(ValueError, match="line 2: not UTF-8: byte 0xff"):
        yaml_value(b"a: 1\nb: \xff", 100)


QUESTIONS = [
    {"id": "q1", "question": "how long?", "expected": ["a", "b"], "lang": "en"},
    {"id": "q2", "question": "how wide?", "expected": ["7"], "lang": ""},
]


def write_workbook(path: Path, *sheets: tuple[str, list[list[Any]]]) -> Path:
    workbook = openpyxl.Workbook()
    workbook.remove(workbook.active)
    for title, rows in sheets:
        sheet = workbook.create_sheet(title)
        for row in rows:
            sheet.append(row)
    workbook.save(path)
    return path


def test_a_golden_set_and_documents_in_a_workbook_and_in_yaml(tmp_path: Path) -> None:
    rows = [
        ["id", "question", "expected", "lang"],
        ["q1", "how long?", "a; b", "en"],
        [None] * 4,
        ["q2", "how wide?", 7, None],
    ]
    workbook = write_workbook(tmp_path / "golden.xlsx", ("Notes", []), ("Golden", rows))
    (tmp_path / "golden.yaml").write_text(json.dumps(QUESTIONS))
    sets = [load_golden(path) for path in (workbook, tmp_path / "golden.yaml")]
    for golden in sets:
        assert [(one.id, one.question, [e.id for e in one.expected]) for one in golden] == [
            ("q1", "how long?", ["a", "b"]),
            ("q2", "how wide?", ["7"]),
        ]
        assert golden.values("lang") == ("en",)
    assert sets[0].questions[1].line == 4
    documents = write_workbook(
        tmp_path / "docs.xlsx", ("Sheet", [["id", "text", "year"], [1, "one", 1971], [2, "two", 1.5]])
    )
    (tmp_path / "docs.yml").write_text("- {id: 1, text: one}\n- {id: 2, text: two}\n")
    for path in (documents, tmp_path / "docs.yml"):
        corpus = load_corpus(path)
        assert dict(zip(corpus.ids, corpus.texts.to_pylist(), strict=True)) == {"1": "one", "2": "two"}


def test_cells_are_text_as_in_csv(tmp_path: Path) -> None:
    row = [
        7,
        7.0,
        7.5,
        True,
        dt.date(2024, 1, 2),
        dt.datetime(2024, 1, 2, 3, 4),  # noqa: DTZ001 - workbooks have no zones
        dt.time(3, 4),
        None,
        "x",
    ]
    path = write_workbook(tmp_path / "x.xlsx", ("Sheet", [row]))
    (read,) = workbook_rows(path.read_bytes())
    assert read.cells == ["7", "7", "7.5", "true", "2024-01-02", "2024-01-02T03:04:00", "03:04:00", "", "x"]


def test_several_sheets_are_named_and_one_is_chosen(tmp_path: Path) -> None:
    path = write_workbook(tmp_path / "docs.xlsx", ("One", [["id", "text"]]), ("Two", [["id", "text"], [1, "b"]]))
    with pytest.raises(DataError, match="has several sheets with content, 'One' and 'Two': keep one"):
        load_corpus(path)
    assert len(workbook_rows(path.read_bytes(), "Two")) == 2
    with pytest.raises(ValueError, match="has no sheet 'Three'; it has: One, Two"):
        workbook_rows(path.read_bytes(), "Three")


def test_a_workbook_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = write_workbook(tmp_path / "golden.xlsx", ("One", [["question", "expected"], ["?", "=A1"]]))
    with pytest.raises(DataError, match="has a formula without a stored value in B2: open it, and save it again"):
        load_golden(path)
    write_workbook(path, ("One", [["question", "question"], ["?", "a"]]))
    with pytest.raises(DataError, match="the header names the column 'question' 2 times"):
        load_golden(path)
    write_workbook(path, ("One", [["question", "expected"], ["?", "a", "more"]]))
    with pytest.raises(DataError, match="row 2: 3 cells, but the header has 2"):
        load_golden(path)
    write_workbook(path, ("One", [["question", "expected"], ["?", "#N/A"]]))
    with pytest.raises(DataError, match="has the error #N/A in B2"):
        load_golden(path)
    write_workbook(path, ("One", []))
    with pytest.raises(DataError, match="has no sheet with content"):
        load_golden(path)
    whole = path.read_bytes()
    for content in (whole[:300], b"PK\x03\x04", _archive({"[Content_Types].xml": b"<Types/>"})):
        path.write_bytes(content)
        with pytest.raises(DataError, match="is not a readable workbook"):
            load_golden(path)


def _archive(members: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    return content.getvalue()


def test_a_workbook_that_expands_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_DECOMPRESSION_LIMITS", "0.001")
    with pytest.raises(ValueError, match="which is very much for its compressed size"):
        workbook_rows(_archive({"xl/worksheets/sheet1.xml": b" " * 1_000_000}))
    with pytest.raises(ValueError, match=r"'xl/workbook\.xml' defines entities"):
        workbook_rows(_archive({"xl/workbook.xml": b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "b">]><x/>'}))
