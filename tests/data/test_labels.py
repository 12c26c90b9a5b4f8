"""Labels of several people: read, settled, left out if their text changed, and added to what questions expect."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path

import pyarrow as pa
import pytest

from harness.data.golden_set import Expectation, GoldenQuestion, GoldenSet
from harness.data.labels import (
    CONFLICT,
    OUTDATED,
    UNCHECKED,
    Label,
    PairGrades,
    SettledLabels,
    golden_with_labels,
    labels_by_dataset,
    only_labels,
    read_labels,
    refuse_foreign,
    settle,
    with_labels,
)
from harness.data.memory import qrels_from_dict
from harness.data.texts import content_digest, text_digest
from harness.data.types import Corpus, Ids
from harness.errors import DataError, UsageError


def lines(path: Path, *rows: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps({"query_id": "q", "doc_id": "d", **row}) + "\n" for row in rows), "utf-8")
    return path


def corpus(**texts: str) -> Corpus:
    ids, columns = Ids.of(texts), pa.chunked_array([pa.array(list(texts.values()), pa.string())])
    return Corpus(ids, columns, content_digest(ids, columns))


def grade(*labels: Label) -> int:
    return settle(labels).grades["q", "d"]


def given(by: str, grade: int) -> Label:
    return Label("q", "d", grade, by)


def test_a_line_says_who_gave_the_grade_when_and_of_which_text(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "labels.jsonl",
        {"grade": 2, "by": "anna", "time": "2026-05-01T10:00:00Z", "text_digest": "abc", "comment": "for people"},
        {"grade": None},
        {"grade": 1, "dataset": "other", "query_id": 7, "time": "2026-05-01"},
    )
    labels = read_labels([path])
    (anna,) = labels[None]
    assert (anna.pair, anna.grade, anna.by, anna.text_digest) == (("q", "d"), 2, "anna", "abc")
    (other,) = labels["other"]
    assert (other.query_id, other.by, other.time.isoformat()) == ("7", str(path), "2026-05-01T00:00:00+00:00")
    assert [label.grade for label in only_labels(labels)] == [2, 1]
    assert [label.grade for label in labels_by_dataset(labels, ["x"], ["other"])["x"]] == [2, 1]
    with pytest.raises(UsageError, match="1 label of --labels names none of 2 datasets"):
        labels_by_dataset(labels, ["other", "x"])
    with pytest.raises(UsageError, match="--labels are of other, and not of x"):
        labels_by_dataset({"other": [other]}, ["x"], ["y"])


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"grade": 1, "time": "yesterday"}, "line 2: the time 'yesterday' is not of the form 2026-05-01T10:00:00Z"),
        ({"grade": 1, "by": 5, "text_digest": ["x"]}, "line 2: 'text_digest' is ..x.., not a text"),
        ({"grade": "2"}, "line 2: the grade is .2., not a whole number"),
        ({"grade": 2**31}, "line 2: the grade is 2147483648, beyond 32 bits"),
        ({"grade": 1.5}, "line 2: the grade is 1.5, not a whole number"),
        ({"grade": True}, "line 2: the grade is true, not a whole number"),
        ({"grade": 1, "query_id": None}, "line 2: the field 'query_id' is null"),
        ({"score": 1}, r"line 2: the field 'grade' is missing \(there are: query_id, doc_id, score\)"),
        ({"grade": 0, "by": "anna"}, "line 2: .*another grade .* by 'anna' at the same time"),
    ],
)
def test_malformed_lines_are_named(tmp_path: Path, row: dict[str, object], reason: str) -> None:
    path = lines(tmp_path / "labels.jsonl", {"grade": 1, "by": "anna"}, row)
    with pytest.raises(DataError, match=reason):
        read_labels([path])


def test_files_as_other_programs_write_them(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_bytes(
        b'\xef\xbb\xbf{"query_id": 1, "doc_id": 2, "grade": 2.0}\r\n\r\n  \n'
        b'{"query_id": "1", "doc_id": "\xe2\x80\xa8", "grade": -1, "by": "", "model": ""}\r\n'
    )
    assert read_labels([path])[None] == [Label("1", "2", 2, str(path)), Label("1", "\u2028", -1, str(path))]
    for content, reason in (
        (gzip.compress(b'{"query_id": "q", "doc_id": "d", "grade": 1}'), "it is compressed, or not UTF-8"),
        ('{"query_id": "é", "doc_id": "d", "grade": 1}'.encode("latin-1"), "it is compressed, or not UTF-8"),
        ('{"query_id": "q", "doc_id": "d", "grade": 1}'.encode("utf-16"), "it is compressed, or not UTF-8"),
        (b"query_id,doc_id,grade\nq,d,1\n", "line 1: not JSON"),
        (b"q 0 d 1\n", "line 1: not JSON"),
        (b'[{"query_id": "q", "doc_id": "d", "grade": 1}]', "line 1: .* is not an object"),
        (b'{"query_id": "q", "doc_id": "d", "grade": NaN}', "line 1: not JSON"),
        (b"", "no line has a grade"),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=reason):
            read_labels([path])


def test_a_large_file_takes_seconds(tmp_path: Path) -> None:
    rows = ({"doc_id": str(number), "grade": number % 4, "by": "a", "text_digest": "x"} for number in range(50_000))
    path, started = lines(tmp_path / "labels.jsonl", *rows), time.process_time()
    assert len(settle(read_labels([path])[None]).grades) == 50_000
    assert time.process_time() - started < 5.0, "a million lines in less than 100 s, on a slow core too"


def test_a_later_label_of_the_same_person_replaces_an_earlier_one(tmp_path: Path) -> None:
    rows = [
        {"grade": 2, "by": "anna", "time": "2026-05-02"},
        {"grade": 0, "by": "anna", "time": "2026-05-01T23:00-02:00"},
    ]
    for ordered in (rows, rows[::-1]):
        settled = settle(read_labels([lines(tmp_path / "labels.jsonl", *ordered)])[None])
        assert (settled.grades, settled.findings) == ({("q", "d"): 0}, []), "01:00 of the next day in UTC"
    untimed = settle([given("anna", 3), *read_labels([lines(tmp_path / "labels.jsonl", rows[0])])[None]])
    assert untimed.grades == {("q", "d"): 2}


def test_people_who_differ_are_named_and_the_middle_grade_counts(tmp_path: Path) -> None:
    assert grade(given("a", 0), given("b", 3)) == 0
    assert grade(given("a", 3), given("b", 0), given("c", 2)) == 2
    assert grade(given("a", 1), given("b", 2), given("c", 2), given("d", 3)) == 2
    (finding,) = settle([given("b", 3), given("a", 1)]).findings
    assert (finding.check, finding.message) == (CONFLICT, "1 document with different grades from different people")
    assert finding.examples == ("query 'q', document 'd': a 1, b 3; counts as 1",)
    files = [lines(tmp_path / f"{number}.jsonl", {"grade": number}) for number in range(3)]
    settled = settle(read_labels(files)[None])
    assert settled.grades == {("q", "d"): 1}, "a file without names is one person's"
    assert f"{files[0]} 0, {files[1]} 1, {files[2]} 2; counts as 1" in settled.findings[0].examples[0]


def test_a_label_of_a_text_that_has_changed_is_left_out_and_named() -> None:
    labels = [
        Label("q", "d", 2, "anna", text_digest=text_digest("old")),
        Label("q", "e", 1, "anna", text_digest=text_digest("same")),
        Label("q", "gone", 1, "anna", text_digest=text_digest("x")),
        given("ben", 1),
    ]
    unknown = settle(labels)
    assert unknown.grades["q", "d"] == 1, "the documents are not known: both count"
    assert [(one.check, one.message, len(one.examples)) for one in unknown.findings if one.check != CONFLICT] == [
        (UNCHECKED, "3 labels count although the present text is unknown, and may have changed", 3)
    ]
    settled = settle(labels, corpus(d="new", e="same"))
    assert settled.grades == {("q", "d"): 1, ("q", "e"): 1, ("q", "gone"): 1}
    (finding,) = settled.findings
    assert (finding.check, finding.examples) == (OUTDATED, ("query 'q', document 'd'",))
    assert finding.message == "1 label is of a text that has changed since, and left out"
    with pytest.raises(DataError, match="there is no document 'gone'"):
        refuse_foreign(settled.grades, queries=Ids.of(["q"]), documents=Ids.of(["d", "e"]))


def golden(**fields: tuple[str, ...]) -> GoldenSet:
    question = GoldenQuestion("q", "which?", (Expectation("a", 2),), {}, 1, **fields)  # type: ignore[arg-type]
    return GoldenSet("golden", "golden", (question,), "")


def of_people(grades: PairGrades) -> SettledLabels:
    return SettledLabels(grades, (), grades)


def test_questions_expect_labelled_documents_too() -> None:
    added = golden_with_labels(golden(), of_people({("q", "b"): 1, ("q", "c"): 0, ("q", "d"): -1, ("q", "a"): 2}))
    assert added.questions[0].expected == (Expectation("a", 2), Expectation("b", 1), Expectation("c", 0))
    for labels, fields, reason in (
        ({("q", "a"): 1}, {}, "expected with 2, labelled 1"),
        ({("q", "b"): 1}, {"forbidden": ("b",)}, "forbidden, labelled 1"),
        ({("q", "b"): 1}, {"excluded": ("b",)}, "excluded, labelled 1"),
    ):
        with pytest.raises(DataError, match=f"query 'q', document '{next(iter(labels))[1]}': {reason}"):
            golden_with_labels(golden(**fields), of_people(labels))


def test_a_model_is_named_only_while_one_of_its_labels_counts() -> None:
    def of_model(document: str, model: str, query: str = "q") -> Label:
        return Label(query, document, 2, model, model=model, prompt_digest="ab")

    labels = [of_model("b", "m-1"), of_model("c", "m-2"), of_model("d", "m-3"), of_model("b", "m-4", "r"),
              given("anna", 1)]  # fmt: skip
    judged = qrels_from_dict({"q": {"b": 2}, "r": {"a": 1}})
    joined = with_labels(judged, settle(labels))
    assert [model.model for model in joined.models] == ["m-2", "m-4"], "people judged b and d"
    assert [model.model for model in joined.of_queries(Ids.of(["r"])).models] == ["m-4"]
    later = with_labels(joined, settle([Label("q", "c", 2, "ben"), of_model("b", "m-5", "r")]))
    assert [model.model for model in later.models] == ["m-5"]
    expected = golden_with_labels(golden(), settle([of_model("a", "m-1"), of_model("b", "m-2")]))
    assert [model.model for model in expected.models] == ["m-2"], "the golden set expects a"


def test_an_unknown_id_that_only_looks_like_a_known_one_is_explained() -> None:
    for pair, rule in ((("q", "cafe\u0301"), "but for Unicode normalisation"), (("Q", "d"), "but for upper and lower")):
        with pytest.raises(DataError) as refused:
            refuse_foreign({pair: 1}, queries=Ids.of(["q"]), documents=Ids.of(["d", "caf\u00e9"]))
        assert rule in str(refused.value.fix)
    with pytest.raises(DataError, match=r"there is no document 'x'\n  give labels of this dataset$"):
        refuse_foreign({("q", "x"): 1}, documents=Ids.of(["d"]))
