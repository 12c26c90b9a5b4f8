"""Golden sets extended by documents that answer a question as well."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import harness
from harness.cli.app import _build
from harness.errors import DataError, UsageError
from harness.loaders.golden_lines import extend_golden
from harness.pipeline.check.checked import CheckResult

TEXTS = {"a": "red apple", "b": "green apple pie", "c": "apple juice"}


def golden(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps({"question": "apple", **record}) + "\n" for record in records), "utf-8")
    return path


@pytest.mark.parametrize(
    ("expected", "grades", "extended"),
    [
        (["a"], {"b": 1, "c": 1}, ["a", "b", "c"]),
        (["a"], {"a": 1, "b": 2}, {"a": 1, "b": 2}),
        ("a", {"b": 1}, ["a", "b"]),
        ([], {"b": 1}, ["b"]),
        ({"a": 2}, {"b": 1}, {"a": 2, "b": 1}),
        ([["a"]], {"b": 1}, [["a", "b"]]),
    ],
)
def test_relevant_documents_join_what_a_question_expects(
    tmp_path: Path, expected: object, grades: dict[str, int], extended: object
) -> None:
    path = golden(tmp_path / "g.jsonl", {"id": "q", "expected": expected, "lang": "en"}, {"expected": ["c"]})
    content, questions, documents, _ = extend_golden(path, {}, {"q": grades})
    first, second = content.decode().splitlines()
    assert json.loads(first) == {"question": "apple", "id": "q", "expected": extended, "lang": "en"}
    assert second == path.read_text(encoding="utf-8").splitlines()[1]
    assert (questions, documents) == (1, len(grades.keys() - {"a"}))
    by_line = extend_golden(path, {}, {"line-2": {"a": 1}}).content.decode().splitlines()
    assert json.loads(by_line[1])["expected"] == ["c", "a"]


def test_what_cannot_be_extended_is_refused(tmp_path: Path) -> None:
    path = golden(
        tmp_path / "g.jsonl", {"id": "q", "expected": [["a"], ["b"]]}, {"id": "t", "reference_contexts": ["x"]}
    )
    with pytest.raises(DataError, match="line 1: question 'q' has several lists of alternatives"):
        extend_golden(path, {}, {"q": {"c": 1}})
    with pytest.raises(DataError, match="line 2: question 't' has no field of expected ids"):
        extend_golden(path, {}, {"t": {"c": 1}})
    path.write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match="line 1: not JSON"):
        extend_golden(path, {}, {})
    with pytest.raises(UsageError, match="is not a file of JSON lines"):
        extend_golden(tmp_path / "g.csv", {}, {})


def test_a_check_and_its_labels_make_the_next_golden_set(tmp_path: Path) -> None:
    path = golden(tmp_path / "g.jsonl", {"id": "q", "expected": ["a"]})
    checked = harness.check(
        path, corpus=TEXTS, backends="csr", k=3, timing=False, isolation="none", out=tmp_path / "out"
    )
    labels = tmp_path / "labels.jsonl"
    lines = ({"query_id": "q", "doc_id": doc, "grade": grade} for doc, grade in (("b", 1), ("c", 0)))
    labels.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    command = ["judge", str(tmp_path / "out"), "--write-golden", str(tmp_path / "g2.jsonl")]
    without = CliRunner().invoke(_build(), command)
    assert "--write-golden without --labels" in str(without.exception)
    done = CliRunner().invoke(_build(), [*command, "--labels", str(labels)])
    assert done.output == f"1 document added to 1 question: {tmp_path / 'g2.jsonl'}\n", done.exception
    assert json.loads((tmp_path / "g2.jsonl").read_text())["expected"] == ["a", "b"]
    again = CliRunner().invoke(_build(), [*command, "--labels", str(labels)])
    assert "g2.jsonl' exists" in str(again.exception)
    assert checked.write_golden(tmp_path / "g3.jsonl", labels).documents == 1
    golden(path, {"id": "q", "expected": ["c"]})
    with pytest.raises(UsageError, match="has changed since the check"):
        CheckResult.load(tmp_path / "out").write_golden(tmp_path / "g4.jsonl", labels)


def checked_set(tmp_path: Path, content: str, *labels: dict[str, Any], **options: Any) -> tuple[CheckResult, Path]:
    """Check a golden set, which is given as its text, and write a file of labels."""
    (tmp_path / "g.jsonl").write_bytes(content.encode())
    path = tmp_path / "labels.jsonl"
    lines = ({"query_id": "q", "grade": 1, "by": "anna", **label} for label in labels)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    quick = {"corpus": TEXTS, "backends": "csr", "k": 3, "timing": False, "isolation": "none", **options}
    return harness.check(tmp_path / "g.jsonl", **quick), path


def test_every_other_byte_of_the_file_stays(tmp_path: Path) -> None:
    """A mark, ends of lines, blank lines, separators within texts, large numbers, escapes, spaces, a last line."""
    first = (
        '{ "id" : "q",  "question": "apple\u2028\x85{\\u00e9", "meta": {"expected": 1.10, "n": 12345678901234567890123}'
        ',\t"expected":  ["a"] , "z": [] }'
    )
    rest = '\r\n\r\n{"id": "r", "question": "apple", "expected": ["c"], "x": 1.50}'
    checked, labels = checked_set(tmp_path, f"\ufeff{first}{rest}", {"doc_id": "b"})
    target = tmp_path / "g2.jsonl"
    checked.write_golden(target, labels)
    assert target.read_bytes().decode() == "\ufeff" + first.replace('["a"]', '["a", "b"]') + rest
    twice = extend_golden(tmp_path / "g.jsonl", {}, {"q": {"b": 1}, "r": {"é": 2}}).content.decode()
    assert twice.endswith('"expected": {"c": 1, "é": 2}, "x": 1.50}')


def test_labels_that_a_golden_set_cannot_take_are_refused_or_reported(tmp_path: Path) -> None:
    plain = '{"id": "q", "question": "apple", "expected": ["a"], "forbidden": ["c"]}\n'
    old = {"doc_id": "b", "text_digest": "0" * 12}
    model = {"doc_id": "b", "by": "m-1", "model": "m-1"}
    checked, labels = checked_set(tmp_path, plain, old, model)
    extended = checked.write_golden(tmp_path / "none.jsonl", labels)
    assert [one.check for one in extended.findings] == ["label-of-changed-text", "label-by-model"]
    assert (tmp_path / "none.jsonl").read_text(encoding="utf-8") == plain, "nothing counts"
    for label, reason in (
        ({"query_id": "no", "doc_id": "b"}, "there is no query 'no'"),
        ({"doc_id": "no"}, "there is no document 'no'"),
        ({"doc_id": "a", "grade": 0}, "expected with 1, labelled 0"),
        ({"doc_id": "c"}, "forbidden, labelled 1"),
    ):
        checked, labels = checked_set(tmp_path, plain, label)
        with pytest.raises(DataError, match=reason):
            checked.write_golden(tmp_path / "refused.jsonl", labels)
    graded = '{"id": "q", "question": "apple", "expected": ["a"], "grade": 2}\n'
    checked, labels = checked_set(tmp_path, graded, {"doc_id": "b"}, columns={"grade": "grade"})
    with pytest.raises(UsageError, match=r"question 'q' .* cannot be extended: it would be read otherwise"):
        checked.write_golden(tmp_path / "refused.jsonl", labels)
    text = '{"id": "q", "question": "apple", "expected": ["red apple"]}\n'
    checked, labels = checked_set(tmp_path, text, {"doc_id": "b"}, match="text")
    with pytest.raises(UsageError, match="--match text cannot be extended"):
        checked.write_golden(tmp_path / "refused.jsonl", labels)
    assert [path.name for path in tmp_path.iterdir() if "refused" in path.name] == []
