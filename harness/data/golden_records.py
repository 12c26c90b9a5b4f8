"""Questions of a golden set from records: lines of a file, or objects in Python."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import orjson

from harness.data.columns import GOLDEN_ROLES, PYTHON_OPTION, abbreviated
from harness.data.exclusions import FIELDS, ExcludedIds, excluded_by
from harness.data.expected_ids import expected_grades
from harness.data.frames import as_table, described, rows_of
from harness.data.golden_cells import (
    condition_pairs,
    id_readings,
    is_structure,
    parse_ids,
    parse_structure,
    parse_texts,
)
from harness.data.golden_fields import GoldenColumns, GoldenFields, value_at, without_path
from harness.data.golden_set import Expectation, GoldenQuestion, GoldenSet, line_id
from harness.data.golden_shapes import GoldenContent, GoldenRecord, read_shapes
from harness.data.golden_shapes.base import records_of
from harness.data.problems import Problems
from harness.data.python_values import as_id, as_record, is_missing, plain
from harness.data.types import BAD_ID, BAD_ID_IS
from harness.errors import UsageError
from harness.wording import counted

_T = TypeVar("_T")
_LIMIT = 2**31
_GRADE = re.compile(r"-?[0-9]{1,10}(\.0+)?")
_FIX = "give a file, a table or objects with question and expected_relevant_doc_ids, or harness.Dataset.of(…)"
_LISTS = ("goldens", "samples")
"""Attributes with the records of a dataset that is an object."""
_IDS, _EXPECTED = (role.names for role in GOLDEN_ROLES if role.name in ("id", "expected"))


def golden_of_objects(
    value: Any,
    columns: Mapping[str, str] | None = None,
    option: str = PYTHON_OPTION,
    shared_roles: Set[str] = frozenset(),
) -> GoldenSet:
    """Return a golden set from a table of any library, or from objects in any shape of a file.

    A record is a mapping, or an object whose attributes are the fields of a file's lines: a dataclass, a named tuple, a
    pydantic model, an object of a plain class. Arguments
    as in :class:`harness.data.golden_fields.GoldenColumns`. Raises UsageError for anything else, and as
    :func:`golden_of_records`.
    """
    return golden_of_content(content_of_objects(value, columns, option), option, shared_roles)


def golden_of_records(
    records: Sequence[Mapping[str, Any]],
    name: str = "golden set",
    columns: Mapping[str, str] | None = None,
    shared_roles: Set[str] = frozenset(),
) -> GoldenSet:
    """Return a golden set from objects as a file's lines hold them.

    Their values may come from other libraries, as :func:`harness.data.python_values.plain` reads them. Raises DataError
    as :func:`harness.loaders.golden.load_golden`.
    """
    return golden_of_content(content_of_objects(list(records), columns), shared_roles=shared_roles, name=name)


def content_of_objects(
    value: Any, columns: Mapping[str, str] | None = None, option: str = PYTHON_OPTION
) -> GoldenContent:
    """Return the records of a table or of objects, and documents that come with them; errors as golden_of_objects."""
    table = as_table(value)
    value = rows_of(table, "rows of the golden set") if table is not None else value
    for name in _LISTS:  # datasets of deepeval and ragas, unless they are dataclasses
        value = getattr(value, name, value) if not isinstance(value, Mapping | type) else value
    is_sequence = isinstance(value, list | tuple | Iterator) and not hasattr(value, "_asdict")
    plain_value = plain([as_record(item) for item in value] if is_sequence else value)
    columns = columns or {}
    if isinstance(plain_value, Mapping) and not isinstance(value, type):
        content = GoldenContent(
            mapping={str(key): item for key, item in plain_value.items()}, columns=columns, option=option
        )
    elif is_sequence and all(isinstance(record, Mapping) for record in plain_value):
        content = GoldenContent(
            records_of([_plain_record(record) for record in plain_value]), columns=columns, option=option
        )
    else:
        raise UsageError(f"the golden set is of type {_type_name(value)}", fix=_FIX)
    try:
        return read_shapes(content)
    except ValueError as error:
        raise UsageError(f"the golden set is of type {_type_name(value)}: {error}", fix=_FIX) from error


def _type_name(value: object) -> str:
    """Return the name of a value's type; a sequence is a list, as options make tuples of lists, with its items'."""
    if not isinstance(value, list | tuple) or hasattr(value, "_asdict"):
        return type(value).__name__
    return f"list of {' and '.join(dict.fromkeys(type(item).__name__ for item in value))}" if value else "list"


def golden_of_content(
    content: GoldenContent,
    option: str = PYTHON_OPTION,
    shared_roles: Set[str] = frozenset(),
    name: str = "golden set",
    *,
    reads_texts: bool = False,
) -> GoldenSet:
    """Return the golden set of content from objects; raises DataError with every problem.

    Arguments as in :class:`harness.data.golden_fields.GoldenColumns`.
    """
    problems, notes = Problems(name), list[str]()
    columns = GoldenColumns(content.columns, option, shared_roles, reads_texts=reads_texts)
    questions = read_questions(content, columns, problems, notes)
    note_without_expectations(questions, columns, problems)
    texts = list[bytes]()
    for record in content.records:
        try:
            texts.append(orjson.dumps(record.values, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS))
        except TypeError as error:  # lone surrogates, deep nesting
            problems.add(record.line, f"cannot be written as JSON: {error}")
    problems.raise_if_any()
    digest = hashlib.sha256(b"[" + b",".join(texts) + b"]").hexdigest()
    return GoldenSet(name, name, questions, digest, tuple(notes), columns=columns.used())


def _plain_record(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record of Python objects as a file has it; an empty cell for an id means no id."""
    record = {str(field): value for field, value in values.items()}
    return {field: value for field, value in record.items() if value is not None or field not in _IDS}


def read_questions(
    content: GoldenContent, columns: GoldenColumns, problems: Problems, notes: list[str]
) -> tuple[GoldenQuestion, ...]:
    """Return the questions of records; everything wrong is noted in ``problems``, accepted oddities in ``notes``."""
    questions: dict[str, GoldenQuestion] = {}
    repeated, unfiltered, joined = list[str](), list[str](), list[GoldenQuestion]()
    without_id: dict[str, str] = {}
    names: dict[str, None] = {}
    for record in content.records:
        names |= dict.fromkeys(map(str, record.values))
        question = _question(record, columns, problems, repeated, unfiltered)
        if question is None:
            continue
        first = question.id if question.has_id else without_id.setdefault(_words(question.question), question.id)
        earlier = questions.get(first)
        if earlier is None:
            questions[first] = question
        elif not question.has_id or (content.joins_ids and _words(earlier.question) == _words(question.question)):
            questions[first] = _joined(earlier, question, problems)
            joined.append(question)
        else:
            problems.add(record.line, f"duplicate id '{question.id}', first {problems.location(earlier.line)}")
    for question in questions.values():
        for contradiction in question.contradictions:
            problems.add(question.line, contradiction)
    if questions or not problems.count:
        columns.note_unused(problems, names)
    if not questions and not problems.count:
        problems.add(None, "the file holds no questions")
    if joined and not content.joins_ids:
        rows = counted(len(joined), "row repeats a question", "rows repeat a question")
        notes.append(f"{rows} without an id, and their expected ids are joined: {problems.location(joined[0].line)}")
    if repeated:
        ids = counted(len(repeated), "repeated expected id")
        notes.append(f"{ids} of the same question, counted once: '{repeated[0]}'")
    if unfiltered:
        notes += _filter_notes(unfiltered, columns.option, "is used only for slices")
    return tuple(questions.values())


def filters_of_queries(
    queries: Iterable[tuple[str, GoldenRecord]], columns: GoldenColumns, problems: Problems, notes: list[str]
) -> dict[str, Mapping[str, str]]:
    """Return the filter of each query that has one, by query id, as golden sets have it; ``queries`` expect nothing."""
    filters, unfiltered, names = dict[str, Mapping[str, str]](), list[str](), dict[str, None]()
    for query, record in queries:
        names.update(dict.fromkeys(record.values))
        field = columns.filter_field(record.values, record.line, problems)
        explicit = columns.column("filter") is not None
        conditions = _FieldReader(record, problems).filter(field, unfiltered, explicit=explicit) if field else None
        if conditions:
            filters[query] = conditions
    if names and columns.column("filter") is not None:
        columns.note_unused(problems, names)
    notes += _filter_notes(unfiltered, columns.option, "is not applied")
    return filters


class UnreadExpectations:
    """Counts records of plain queries that expect documents, which are not read if the first record expects none."""

    def __init__(self) -> None:
        self._columns = GoldenColumns()
        self._first: bool | None = None
        self._count = 0

    def add(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Count the next records."""
        if self._first is None and records:
            self._first = self._columns.has_expected(records[0])
        if self._columns.has_expected(dict.fromkeys(chain.from_iterable(records))):
            counts = Counter(map(tuple, records))
            self._count += sum(count for names, count in counts.items() if self._has_expected(names))

    def notes(self) -> list[str]:
        """Return a note on such records; none without them."""
        if self._first or not self._count:
            return []
        records = f"{counted(self._count, 'record')} {'expects' if self._count == 1 else 'expect'} documents"
        note = f"{records} and the first record has no such field, so the queries are read without these judgments"
        return [f"{note}; write [] for a query that expects nothing"]

    def _has_expected(self, names: Iterable[str]) -> bool:
        return self._columns.has_expected(dict.fromkeys(names))


def _filter_notes(unfiltered: Sequence[str], option: str, use: str) -> list[str]:
    """Return a sentence for each field that is called like a filter and holds none, by the field of each record."""
    return [
        f"the field '{field}' of {counted(count, 'record')} is not {{field: value}} and {use}; to "
        f"apply it as a filter: {option} filter={field}"
        for field, count in Counter(unfiltered).items()
    ]


def note_without_expectations(questions: Sequence[GoldenQuestion], columns: GoldenColumns, problems: Problems) -> None:
    """Note that no question of a golden set expects or forbids anything: nothing could be measured."""
    asks = any(question.expected or question.texts or question.forbidden for question in questions)
    if questions and not problems.count and not asks:
        field = columns.column("expected") or _EXPECTED[0]
        problems.add(None, f"no question expects anything: '{field}' is empty everywhere")


def _words(text: str) -> str:
    return " ".join(text.split())


def _joined(first: GoldenQuestion, again: GoldenQuestion, problems: Problems) -> GoldenQuestion:
    """Return a question with all that a later line of the same text expects, and the values of its fields."""
    earlier_by_id = {expected.id: expected for expected in first.expected}
    for expected in again.expected:
        earlier = earlier_by_id.get(expected.id, expected)
        same_question = f"the same question {problems.location(first.line)}"
        if earlier.grade != expected.grade:
            problem = f"the grade of '{expected.id}' is {expected.grade}, and {earlier.grade} for {same_question}"
            problems.add(again.line, problem)
        elif earlier is not expected and (earlier.group is not None or expected.group is not None):
            problems.add(
                again.line, f"'{expected.id}' is in a group of alternatives here, and expected by {same_question}"
            )
    if first.filter != again.filter:
        problems.add(again.line, f"the filter differs from the same question's {problems.location(first.line)}")
    again = _after_groups_of(first, again)
    joined, *readings = _joined_readings((first.expected, *first.readings), (again.expected, *again.readings))
    forbidden, *forbidden_readings = _joined_readings(
        (first.forbidden, *first.forbidden_readings), (again.forbidden, *again.forbidden_readings)
    )
    excluded, *excluded_readings = _joined_readings(
        (first.excluded, *first.excluded_readings), (again.excluded, *again.excluded_readings)
    )
    names = dict.fromkeys([*first.fields, *again.fields])
    fields = {name: tuple(dict.fromkeys((*first.fields.get(name, ()), *again.fields.get(name, ())))) for name in names}
    return replace(
        first,
        expected=tuple({one.id: one for one in joined}.values()),
        fields=fields,
        readings=tuple(tuple({one.id: one for one in other}.values()) for other in readings),
        texts=tuple(dict.fromkeys((*first.texts, *again.texts))),
        forbidden=forbidden,
        excluded=excluded,
        forbidden_readings=tuple(forbidden_readings),
        excluded_readings=tuple(excluded_readings),
    )


def _joined_readings(first: Sequence[tuple[_T, ...]], again: Sequence[tuple[_T, ...]]) -> list[tuple[_T, ...]]:
    """Return what two lines hold in each reading; a line with a single reading holds the same in all."""
    count = max(len(first), len(again))
    sides = ([*side, *[side[0]] * (count - len(side))] for side in (first, again))
    return [tuple(dict.fromkeys((*a, *b))) for a, b in zip(*sides, strict=True)]


def _after_groups_of(first: GoldenQuestion, again: GoldenQuestion) -> GoldenQuestion:
    """Return ``again`` with numbers of groups that ``first`` does not have."""
    used = [expected.group for expected in first.expected if expected.group is not None]
    if not used:
        return again
    return replace(
        again,
        expected=tuple(
            one if one.group is None else replace(one, group=one.group + max(used) + 1) for one in again.expected
        ),
    )


def _question(
    record: GoldenRecord, columns: GoldenColumns, problems: Problems, repeated: list[str], unfiltered: list[str]
) -> GoldenQuestion | None:
    """Return the question of a record; None after noting its problems.

    Repeated expected ids are added to ``repeated``, and the name of a field without a filter to ``unfiltered``.
    """
    before = problems.count
    fields = columns.fields_of(record.values, record.line, problems)
    if fields is None or fields.question is None:
        return None
    question_id = _id(record, fields.id, problems)
    text = value_at(record.values, fields.question)
    if not isinstance(text, str) or not text.strip():
        problems.add(record.line, f"'{fields.question}' is {abbreviated(text)}, expected a question")
    reader = _FieldReader(record, problems)
    expected: tuple[Expectation, ...] = ()
    readings: tuple[tuple[Expectation, ...], ...] = ()
    if fields.expected:
        any_text = columns.reads_texts
        expected, readings = reader.expected(fields.expected, fields.grade, repeated, any_text=any_text)
    texts = reader.texts(fields.expected_texts) if fields.expected_texts else ()
    explicit = columns.column("filter") is not None
    conditions = reader.filter(fields.filter, unfiltered, explicit=explicit) if fields.filter else None
    forbidden, forbidden_readings = reader.forbidden(fields.forbidden) if fields.forbidden else ((), ())
    excluded = reader.excluded() if any(name in record.values for name in FIELDS) else ExcludedIds()
    slices = _slices(record, fields, problems)
    if problems.count > before:
        return None
    return GoldenQuestion(
        question_id or line_id(record.line),
        str(text),
        expected,
        slices,
        record.line,
        readings,
        question_id is not None,
        texts,
        conditions,
        forbidden,
        excluded.ids,
        forbidden_readings,
        excluded.readings,
    )


def _id(record: GoldenRecord, name: str | None, problems: Problems) -> str | None:
    """Return the id of a record; None without one."""
    value = value_at(record.values, name) if name is not None else None
    if name is None or (record.table and isinstance(value, str) and not value.strip()):
        return None
    question_id = as_id(value)
    if question_id is None:
        problems.add(record.line, f"'{name}' is {abbreviated(value)}, expected a string or an integer")
    elif re.search(BAD_ID, question_id):
        problems.add(record.line, f"the id {question_id!r} {BAD_ID_IS}")
    return question_id


class _FieldReader(NamedTuple):
    """Reads the fields of one record; faulty values are noted in ``problems``."""

    record: GoldenRecord
    problems: Problems

    def expected(
        self, name: str, grade_field: str | None, repeated: list[str], *, any_text: bool
    ) -> tuple[tuple[Expectation, ...], tuple[tuple[Expectation, ...], ...]]:
        """Return the expected ids, and other readings of a cell; repeated ids are added to ``repeated``.

        The field of a grade holds the grade of all ids of the record. If ``any_text`` is true, a text that no id can be
        is taken too.
        """
        value = value_at(self.record.values, name)
        cell = value.strip() if self.record.table and isinstance(value, str) else ""
        is_text = any_text and cell and not is_structure(cell)
        graded = [(cell, 1, None)] if is_text else self._graded(name, value)
        if grade_field is not None:
            graded = [(item, self._grade(grade_field), group) for item, _, group in graded]
        row_grade = _as_integer(graded[0][1]) if grade_field is not None and graded else 1
        readings = tuple(
            tuple(Expectation(part, row_grade or 0) for part in dict.fromkeys(parts))
            for parts in (id_readings(cell) if cell else ())
        )
        expectations: dict[str, Expectation] = {}
        for item, grade, group in graded:
            expected, integer_grade = _expected_id(item), _as_integer(grade)
            first = expectations.get(expected or "")
            problem = None
            if expected is None or (not expected.strip() if any_text else re.search(BAD_ID, expected)):
                problem = f"'{name}' holds {abbreviated(item)}, expected {'a text' if any_text else 'an id'}"
            elif integer_grade is None:
                problem = f"the grade of '{expected}' is {abbreviated(grade)}, expected a whole number from 0"
            elif first is None:
                expectations[expected] = Expectation(expected, integer_grade, group)
            elif first.grade != integer_grade:
                problem = f"'{name}' holds '{expected}' twice, with the grades {first.grade} and {integer_grade}"
            elif first.group != group:
                problem = f"'{name}' holds '{expected}' in two groups of alternatives, expected one"
            else:
                repeated.append(expected)
            if problem is not None:
                self._note(problem)
        return tuple(expectations.values()), readings

    def _grade(self, name: str) -> Any:
        """Return the value of a field of a grade; a whole number in a cell as a number."""
        value = value_at(self.record.values, name)
        is_number = self.record.table and isinstance(value, str) and _GRADE.fullmatch(value.strip()) is not None
        return float(value) if is_number else value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return the expected texts."""
        value = value_at(self.record.values, name)
        try:
            is_cell = isinstance(value, str) and (self.record.table or value == "[]")
            value = parse_texts(value.strip()) if is_cell else value
        except ValueError as error:
            self._note(f"'{name}' {error}")
            return ()
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
            nested = isinstance(texts, list | tuple) and any(isinstance(text, list | tuple) for text in texts)
            form = "a text or a list of texts" + (": alternatives, as lists in a list, are read only of ids" * nested)
            self._note(f"'{name}' is {abbreviated(value)}, expected {form}")
            return ()
        if not all(text.strip() for text in texts):
            self._note(f"'{name}' holds an empty text")
        return tuple(dict.fromkeys(texts))

    def filter(self, name: str, unfiltered: list[str], *, explicit: bool) -> Mapping[str, str] | None:
        """Return field -> value; None for an empty filter, and for a field that is only called so.

        The name of such a field is added to ``unfiltered``.
        """
        value = value_at(self.record.values, name)
        if is_missing(value) or value in ("", [], {}):
            return None
        try:
            if self.record.table and isinstance(value, str) and is_structure(value.strip()):
                value = parse_structure(value.strip())
            conditions = _conditions(value, name, explicit=explicit)
        except ValueError as error:
            self._note(f"'{name}' {error}")
            return None
        if conditions is None and value not in ([], {}):
            unfiltered.append(name)
        return conditions

    def forbidden(self, name: str) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        """Return the ids that no backend may return, and other readings of a cell."""
        ids, value = dict[str, None](), value_at(self.record.values, name)
        for item, _, _ in self._graded(name, value):
            forbidden = _expected_id(item)
            if forbidden is None or re.search(BAD_ID, forbidden):
                self._note(f"'{name}' holds {abbreviated(item)}, expected an id")
            else:
                ids[forbidden] = None
        cell = value.strip() if self.record.table and isinstance(value, str) else ""
        return tuple(ids), tuple(tuple(dict.fromkeys(parts)) for parts in (id_readings(cell) if cell else ()))

    def excluded(self) -> ExcludedIds:
        """Return the ids that do not count as hits."""
        try:
            return excluded_by(self.record.values, table=self.record.table)
        except ValueError as error:
            self._note(str(error))
            return ExcludedIds()

    def _graded(self, name: str, value: Any) -> list[tuple[Any, Any, int | None]]:
        try:
            value = parse_ids(value.strip()) if self.record.table and isinstance(value, str) else value
            return list(expected_grades(value))
        except ValueError as error:
            self._note(f"'{name}' {error}")
            return []

    def _note(self, problem: str) -> None:
        self.problems.add(self.record.line, problem)


def _conditions(value: Any, name: str, *, explicit: bool) -> dict[str, str] | None:
    """Return the filter of a value; raises ValueError, in words that follow the name of the field."""
    if isinstance(value, Mapping):
        return {str(field): _condition_value(field, item) for field, item in value.items()} or None
    pairs = condition_pairs(value, any_text=explicit)
    if pairs is not None:
        if not all(map(all, pairs)) or len(dict(pairs)) < len(pairs):
            raise ValueError(f"is {abbreviated(value)}, expected field=value, once for each field")
        return dict(pairs)
    if not explicit:
        return None
    if isinstance(value, list | tuple):
        raise ValueError(f"is {abbreviated(value)}, expected {{field: value}}")
    field = name.rpartition(".")[2]
    return {field: _condition_value(field, value)}


def _condition_value(field: object, value: object) -> str:
    """Return a value as filters compare it: text, or a number or a boolean as JSON writes it."""
    if isinstance(value, str) and value:
        return value
    if isinstance(value, bool | int | float):
        return orjson.dumps(value).decode()
    raise ValueError(f"has {abbreviated(value)} for '{field}', expected text, a number, true or false")


def _expected_id(value: object) -> str | None:
    """Return an expected id as a string; a whole float of a file stays text, which may be an id of the corpus."""
    expected = as_id(value)
    return str(value) if isinstance(value, float) and expected is not None else expected


def _as_integer(grade: object) -> int | None:
    """Return a grade, None for an invalid one; a whole float is valid, as tables with empty cells have them."""
    if isinstance(grade, bool) or not isinstance(grade, int | float) or grade != grade // 1:
        return None
    return int(grade) if 0 <= grade < _LIMIT else None


def _slices(record: GoldenRecord, fields: GoldenFields, problems: Problems) -> dict[str, tuple[str, ...]]:
    """Return the values of the fields without a role, and of a filter, by which results can be sliced."""
    remaining = dict(record.values)
    for path in (fields.id, fields.question, fields.expected, fields.expected_texts, fields.forbidden):
        if path is not None:
            remaining = without_path(remaining, path)
    return {name: _values(record.line, name, value, problems) for name, value in remaining.items()}


def _values(line: int, name: str, value: object, problems: Problems) -> tuple[str, ...]:
    try:
        return _texts(value)
    except TypeError:
        expected = "expected text, a number, or a list or an object of these"
        problems.add(line, f"'{name}' is {described(value)}, {expected}")
        return ()


def _texts(value: object) -> tuple[str, ...]:
    if value is None or value == "":
        return ()
    if isinstance(value, list | tuple):
        return tuple(dict.fromkeys(text for item in value for text in _texts(item)))
    return (value if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode(),)
