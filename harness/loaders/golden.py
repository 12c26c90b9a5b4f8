"""Golden sets on disk: JSON Lines, a JSON array, CSV or TSV with a header, Parquet; plain or compressed.

A line is one question::

    {"id": "q1", "question": "How long is the warranty?", "expected_relevant_doc_ids": ["faq-12", "faq-13"]}

``query`` may replace ``question``, and ``expected`` or ``relevant_doc_ids`` ``expected_relevant_doc_ids``. Expected ids
are a list, one id, or ``{id: grade}``, and may be records with an id; an empty list says that nothing answers the
question. All other fields are kept for slices. In CSV (``.csv``, ``.tsv``) an empty cell is an empty list, several ids
are separated by ``;`` or ``|`` (unless the corpus has an id with such a character in it), and a cell that begins with
``[`` or ``{`` is JSON. A line without an id gets ``line-`` and its number. Lines without ids that have the same
question are one question, which expects the documents of all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from harness.data.columns import RecordBatch, abbreviated, matching_fields
from harness.data.dataset import rows_of
from harness.data.expected_ids import EXPECTED, expected_grades
from harness.data.frames import as_table, described
from harness.data.golden_set import Expectation, GoldenQuestion, GoldenSet, line_id
from harness.data.problems import Problems
from harness.data.python_values import as_id, plain
from harness.data.types import BAD_ID, BAD_ID_IS
from harness.errors import UsageError, nearest
from harness.loaders.containers import plain_name
from harness.loaders.records import DELIMITERS, format_of, read_records, unit_of
from harness.loaders.source import Source
from harness.user_path import user_path
from harness.wording import counted

_IDS = ("id", "_id", "query_id", "qid")
_QUESTIONS = ("question", "query")
_READINGS = 3
"""The other readings of a cell: cut at either separator, and whole."""
_SEPARATORS = re.compile(r"[;|]")
_LIMIT = 2**31


class _Record(NamedTuple):
    """One line's number, its fields as the file has them, and other readings of a cell of several expected ids."""

    line: int
    values: Mapping[str, Any]
    readings: tuple[tuple[Expectation, ...], ...] = ()


def load_golden(path: str | Path) -> GoldenSet:
    """Read a golden set from a file.

    Raises DataError with every problem of the file and its line: no UTF-8, malformed JSON, missing, misspelt or
    contradicting fields, duplicate ids, empty questions, ids expected with two grades, grades that are not whole
    numbers of 0 or more; and for a file without any question, or in which no question expects anything.
    """
    resolved = user_path(path)
    return read_golden(Source(resolved.parent), resolved.name)


def is_golden(fields: Sequence[str]) -> bool:
    """Return whether a record with these fields belongs to a golden set: whether it has expected ids."""
    return bool(_called(EXPECTED, fields))


def _called(names: Sequence[str], fields: Iterable[str]) -> list[str]:
    """Return the fields that have one of the names, in any case if no field has it exactly."""
    names_present = list(fields)
    return [field for name in names for field in matching_fields(name, names_present)]


def read_golden(source: Source, member: str) -> GoldenSet:
    """Return the golden set in a member of a folder or archive; errors as in :func:`load_golden`."""
    problems, notes = Problems(source.label(member), unit_of(member)), list[str]()
    plain = Path(plain_name(member))
    ending = format_of(member) or ".jsonl"
    with source.open(member) as stream:
        records = _records(read_records(stream, problems, notes, ending=ending, nested=True), ending, problems)
        questions = _questions(records, problems, notes)
    problems.raise_if_any()
    return GoldenSet(plain.stem, source.label(member), questions, source.digest(member), tuple(notes))


def golden_of_objects(value: Any) -> GoldenSet:
    """Return a golden set from a table of any library, or from a list or an iterator of records.

    A record is a mapping, a dataclass, a named tuple or a pydantic model with the fields of a file's lines. Raises
    UsageError for anything else, and as :func:`golden_of_records`.
    """
    table = as_table(value)
    if table is not None:
        return golden_of_records(rows_of(table, "rows of the golden set"))
    records = plain(value) if isinstance(value, list | tuple | Iterator) else None
    if records is None or not all(isinstance(record, Mapping) for record in records):
        raise UsageError(
            f"the golden set is of type {type(value).__name__}",
            fix="give a file, a table or objects with question and expected_relevant_doc_ids, or harness.Dataset.of(…)",
        )
    return golden_of_records(records)


def golden_of_records(records: Sequence[Mapping[str, Any]], name: str = "golden set") -> GoldenSet:
    """Return a golden set from objects as a file's lines hold them; errors as in :func:`load_golden`.

    Their values may come from other libraries, as :func:`harness.data.python_values.plain` reads them.
    """
    import hashlib

    problems, notes = Problems(name), list[str]()
    plain_records = [_plain_record(values) for values in records]
    questions = _questions((_Record(number, values) for number, values in enumerate(plain_records, 1)), problems, notes)
    content = list[bytes]()
    for number, record in enumerate(plain_records, 1):
        try:
            content.append(orjson.dumps(record, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS))
        except TypeError as error:  # lone surrogates, deep nesting
            problems.add(number, f"cannot be written as JSON: {error}")
    problems.raise_if_any()
    digest = hashlib.sha256(b"[" + b",".join(content) + b"]").hexdigest()
    return GoldenSet(name, name, questions, digest, tuple(notes))


def _plain_record(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record of Python objects as a file has it; an empty cell for an id means no id."""
    record = {str(field): value for field, value in plain(values).items()}
    return {field: value for field, value in record.items() if value is not None or field not in _IDS}


def _records(batches: Iterable[RecordBatch], ending: str, problems: Problems) -> Iterator[_Record]:
    """Yield each record with its number; in tables, expected ids are lists, and an empty cell is no id."""
    for batch in batches:
        for number, values in zip(batch.lines, batch.records, strict=True):
            readings: tuple[tuple[Expectation, ...], ...] = ()
            if ending in DELIMITERS:
                for name in _called(EXPECTED, values):
                    readings = _readings(values[name].strip())
                    values[name] = _parse_list(number, name, values[name].strip(), problems)
                for name in [name for name in _called(_IDS, values) if not values[name].strip()]:
                    del values[name]
            yield _Record(number, values, readings)


def _readings(cell: str) -> tuple[tuple[Expectation, ...], ...]:
    """Return the other ways to read a cell of several ids: cut at one of the separators, or whole."""
    if cell.startswith(("[", "{")) or not _SEPARATORS.search(cell):
        return ()
    cuts = (cell.split(";"), cell.split("|"), [cell])
    return tuple(tuple(Expectation(part.strip()) for part in dict.fromkeys(parts)) for parts in cuts)


def _parse_list(number: int, name: str, cell: str, problems: Problems) -> Any:
    if not cell.startswith(("[", "{")):
        return [part.strip() for part in _SEPARATORS.split(cell)] if cell else []
    try:
        return orjson.loads(cell)
    except orjson.JSONDecodeError as error:
        problems.add(number, f"'{name}' is malformed JSON: {error.msg} in column {error.colno}")
        return []


def _questions(records: Iterator[_Record], problems: Problems, notes: list[str]) -> tuple[GoldenQuestion, ...]:
    questions: dict[str, GoldenQuestion] = {}
    repeated, joined = list[str](), list[GoldenQuestion]()
    without_id: dict[str, str] = {}
    for record in records:
        question = _question(record, problems, repeated)
        if question is None:
            continue
        first = question.id if question.has_id else without_id.setdefault(_words(question.question), question.id)
        if first != question.id:
            questions[first] = _joined(questions[first], question, problems)
            joined.append(question)
        elif question.id in questions:
            problems.add(
                record.line, f"duplicate id '{question.id}', first {problems.location(questions[question.id].line)}"
            )
        else:
            questions[question.id] = question
    if not questions and not problems.count:
        problems.add(None, "the file holds no questions")
    elif not problems.count and not any(question.expected for question in questions.values()):
        problems.add(None, f"no question expects anything: '{EXPECTED[0]}' is empty everywhere")
    if joined:
        rows = counted(len(joined), "row repeats a question", "rows repeat a question")
        notes.append(f"{rows} without an id, and their expected ids are joined: {problems.location(joined[0].line)}")
    if repeated:
        ids = counted(len(repeated), "repeated expected id")
        notes.append(f"{ids} of the same question, counted once: '{repeated[0]}'")
    return tuple(questions.values())


def _words(text: str) -> str:
    return " ".join(text.split())


def _joined(first: GoldenQuestion, again: GoldenQuestion, problems: Problems) -> GoldenQuestion:
    """Return a question with the ids that a later line of the same text expects, and the values of its fields."""
    grades = {expected.id: expected.grade for expected in first.expected}
    for expected in again.expected:
        if grades.get(expected.id, expected.grade) != expected.grade:
            earlier = f"{grades[expected.id]} for the same question {problems.location(first.line)}"
            problems.add(again.line, f"the grade of '{expected.id}' is {expected.grade}, and {earlier}")
    # a line without other readings has the same expected ids in each
    sides = [[line.expected, *(line.readings or (line.expected,) * _READINGS)] for line in (first, again)]
    joined = [tuple({one.id: one for one in (*a, *b)}.values()) for a, b in zip(*sides, strict=True)]
    names = dict.fromkeys([*first.fields, *again.fields])
    fields = {name: tuple(dict.fromkeys((*first.fields.get(name, ()), *again.fields.get(name, ())))) for name in names}
    has_readings = bool(first.readings or again.readings)
    return replace(first, expected=joined[0], fields=fields, readings=tuple(joined[1:]) if has_readings else ())


def _question(record: _Record, problems: Problems, repeated: list[str]) -> GoldenQuestion | None:
    before = problems.count
    field_texts = {
        role: _one_of(record, names, role, problems)
        for role, names in (("id", _IDS), ("question", _QUESTIONS), ("expected", EXPECTED))
    }
    question_id = _id(record, field_texts["id"], problems)
    text = record.values.get(field_texts["question"] or "")
    if field_texts["question"] is not None and (not isinstance(text, str) or not text.strip()):
        problems.add(record.line, f"'{field_texts['question']}' is {abbreviated(text)}, expected a question")
    expected = (
        _expected(record, field_texts["expected"], problems, repeated) if field_texts["expected"] is not None else ()
    )
    if problems.count > before or field_texts["question"] is None or field_texts["expected"] is None:
        return None
    fields = {name: _values(record, name, problems) for name in record.values if name not in field_texts.values()}
    if problems.count > before:
        return None
    has_id = field_texts["id"] is not None
    return GoldenQuestion(question_id, str(text), expected, fields, record.line, record.readings, has_id)


def _one_of(record: _Record, names: Sequence[str], role: str, problems: Problems) -> str | None:
    """Return the only field of a line that has one of ``names``; None without such a field, allowed only for an id."""
    present = _called(names, record.values)
    if len(present) > 1:
        problems.add_once(record.line, f"both '{present[0]}' and '{present[1]}' are present: keep one")
    if not present and role != "id":
        near = next(filter(None, (nearest(name, names, cutoff=0.6) for name in record.values)), "")
        empty = "; write [] for a question that nothing answers" if role == "expected" else ""
        fields_text = ", ".join(record.values) or "none"
        problems.add_once(record.line, f"the field '{names[0]}' is missing (there are: {fields_text}){near}{empty}")
    return present[0] if len(present) == 1 else None


def _id(record: _Record, name: str | None, problems: Problems) -> str:
    if name is None:
        return line_id(record.line)
    question_id = as_id(record.values[name])
    if question_id is None:
        problems.add(record.line, f"'{name}' is {abbreviated(record.values[name])}, expected a string or an integer")
    elif re.search(BAD_ID, question_id):
        problems.add(record.line, f"the id {question_id!r} {BAD_ID_IS}")
    return question_id or ""


def _expected_id(value: object) -> str | None:
    """Return an expected id as a string; a whole float of a file stays text, which may be an id of the corpus."""
    expected = as_id(value)
    return str(value) if isinstance(value, float) and expected is not None else expected


def _expected(record: _Record, name: str, problems: Problems, repeated: list[str]) -> tuple[Expectation, ...]:
    expectations: dict[str, Expectation] = {}
    try:
        graded = list(expected_grades(record.values[name]))
    except ValueError as error:
        problems.add(record.line, f"'{name}' {error}")
        return ()
    for item, grade in graded:
        expected, integer_grade = _expected_id(item), _as_integer(grade)
        if expected is None or re.search(BAD_ID, expected):
            problems.add(record.line, f"'{name}' holds {abbreviated(item)}, expected an id")
        elif integer_grade is None:
            problems.add(
                record.line, f"the grade of '{expected}' is {abbreviated(grade)}, expected a whole number from 0"
            )
        elif expected in expectations and expectations[expected].grade != integer_grade:
            two = f"{expectations[expected].grade} and {integer_grade}"
            problems.add(record.line, f"'{name}' holds '{expected}' twice, with the grades {two}")
        elif expected in expectations:
            repeated.append(expected)
        else:
            expectations[expected] = Expectation(expected, integer_grade)
    return tuple(expectations.values())


def _as_integer(grade: object) -> int | None:
    """Return a grade, None for an invalid one; a whole float is valid, as tables with empty cells have them."""
    if isinstance(grade, bool) or not isinstance(grade, int | float) or grade != grade // 1:
        return None
    return int(grade) if 0 <= grade < _LIMIT else None


def _values(record: _Record, name: str, problems: Problems) -> tuple[str, ...]:
    try:
        return _texts(record.values[name])
    except TypeError:
        problem = f"'{name}' is {described(record.values[name])}"
        problems.add(record.line, f"{problem}, expected text, a number, or a list or an object of these")
        return ()


def _texts(value: object) -> tuple[str, ...]:
    """Return the values of a field by which results can be sliced; none for null."""
    if value is None or value == "":
        return ()
    if isinstance(value, list | tuple):
        return tuple(dict.fromkeys(text for item in value for text in _texts(item)))
    return (value if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode(),)
