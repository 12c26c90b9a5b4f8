"""Which field of a record is its id, its text, its grade: named by the user, or found by the names in common use."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import orjson

from harness.data.frames import DOCUMENT, GRADE, QUERY, RANK, SCORE
from harness.data.judgments import Judgments, grade_of, grade_problem, unjudged_note, unrated_note
from harness.data.problems import Problems
from harness.data.python_values import as_id, is_missing
from harness.errors import UnknownNameError, UsageError

_ITEM = re.compile(r"""(?:[^,"]|"(?:[^"]|"")*")+""")
_NEAR_TITLE = 0.8
OPTION = "--columns"
"""The name in messages of the option that names fields."""
PYTHON_OPTION = "columns"
"""Its name for objects in Python."""
_LONGEST_SHOWN_VALUE = 40


@dataclass(frozen=True, slots=True)
class Role:
    """Role of a field.

    ``sure`` is the field's own name, taken before all others. The first existing one of ``aliases`` is taken if they
    are ``ordered``, else at most one may exist. Names are compared without case if no field has exactly that case.
    ``synonym`` is another name of the role in ``--columns``.
    If ``exclusive``, at most one of ``sure`` and the aliases may exist; ``otherwise`` is taken without any of them. If
    ``shared``, a name that the user gave may be meant for another file, and need not exist.
    """

    name: str
    sure: str
    aliases: tuple[str, ...] = ()
    required: bool = True
    ordered: bool = False
    synonym: str | None = None
    exclusive: bool = False
    otherwise: str | None = None
    shared: bool = False

    def column(self, columns: Mapping[str, str]) -> str | None:
        """Return the field that ``--columns`` names for the role; None if it names none."""
        return columns.get(self.name, columns.get(self.synonym or self.name))


@dataclass(frozen=True, slots=True)
class GoldenRole:
    """Role of a field of a golden set, which ``--columns`` calls by ``name`` or by its ``synonym``.

    At most one field may have one of ``names``. ``further_names`` count if no field has one of ``names``, and at most
    one field may have one of them. ``content`` describes the field's values, for the reference.
    """

    name: str
    content: str
    names: tuple[str, ...]
    further_names: tuple[str, ...] = ()
    synonym: str | None = None

    def column(self, columns: Mapping[str, str]) -> str | None:
        """Return the field, or dotted path, that ``--columns`` names for the role; None if it names none."""
        return columns.get(self.synonym or self.name, columns.get(self.name))


_DOCUMENT_IDS = ("doc_id", "docid", "docno", "document_id", "pid", "corpus-id", "corpus_id")
_QUERY_IDS = ("query_id", "query-id", "qid", "q_id", "topic", "topic_id")

DOCUMENT_ROLES = (
    Role("id", "_id", ("id", *_DOCUMENT_IDS)),
    Role("text", "text", ("contents", "content", "body", "passage", "document")),
    Role("title", "title", required=False),
)
QUERY_ROLES = (
    Role("query_id", "_id", ("id", *_QUERY_IDS, "num")),
    Role("query", "text", ("query", "question", "title", "contents"), synonym="question"),
)
JUDGMENT_ROLES = (
    Role("query_id", QUERY[0], QUERY[1:], ordered=True, shared=True),
    Role("doc_id", DOCUMENT[0], DOCUMENT[1:], ordered=True, shared=True),
    Role("grade", GRADE[0], GRADE[1:], required=False, exclusive=True, otherwise="score"),
)
RUN_ROLES = (
    *JUDGMENT_ROLES[:2],
    Role("score", SCORE[0], SCORE[1:], required=False),
    Role("rank", RANK[0], RANK[1:], required=False),
)
GOLDEN_ROLES = (
    GoldenRole(
        "id",
        "a string or an integer; a record without an id is called `line-` and its number",
        ("id", "_id", "query_id", "qid"),
        synonym="query_id",
    ),
    GoldenRole(
        "question",
        "the text to search for",
        ("question", "query"),
        ("user_input", "input", "query_text", "prompt"),
        synonym="query",
    ),
    GoldenRole(
        "expected",
        "ids of documents: a list, one id, or `{id: grade}`; in a list of lists, each inner list holds alternatives; "
        "`[]` for a question that nothing answers",
        ("expected_relevant_doc_ids", "expected", "relevant_doc_ids", "expected_doc_ids", "expected_ids"),
        (
            "relevant_ids",
            "relevant_docs",
            "reference_context_ids",
            "expected_chunk_ids",
            "relevant_chunk_ids",
            "gold_doc_ids",
            "gold_ids",
            "ground_truth_doc_ids",
            "expected_sources",
            "retrieval_gt",
        ),
    ),
    GoldenRole(
        "expected_texts",
        "expected texts, a list or one text, of a question without expected ids; `context` counts only as a list",
        ("reference_contexts",),
        ("context",),
    ),
    GoldenRole(
        "filter",
        "`{field: value}`, or `field=value` as text, several in a list or joined by `,` or `;`: the question searches "
        "only documents with these values. Also a field for slices, and only this if it has another value",
        ("filter",),
    ),
    GoldenRole("forbidden", "ids of documents that no backend may return: a list or one id", ("forbidden",)),
    GoldenRole("grade", "the grade of a row's document, in a table with a row for each expected document", ()),
)
"""Fields of a golden set; all but the question, and the expected ids or texts, are optional."""
RECORDS = "records"
"""The name in ``--columns`` of the list, or of a workbook's sheet, that holds a golden set's records."""
GOLDEN_ROLE_NAMES = tuple(
    dict.fromkeys((*(name for role in GOLDEN_ROLES for name in (role.name, role.synonym) if name is not None), RECORDS))
)
GOLDEN_ONLY = frozenset({"expected", "expected_texts", "forbidden", RECORDS})
"""Roles of ``--columns`` that only golden sets have."""
_ALL_ROLES = tuple(
    dict.fromkeys(
        (*(role.name for role in (*DOCUMENT_ROLES, *QUERY_ROLES, *JUDGMENT_ROLES, *RUN_ROLES)), *GOLDEN_ROLE_NAMES)
    )
)


class RecordBatch(NamedTuple):
    """Consecutive records, and the line (or row) of each, counted from 1."""

    lines: list[int]
    records: list[dict[str, Any]]


class TextBatch(NamedTuple):
    """Consecutive documents or queries, in columns of equal length.

    ``titles`` is None without titles. A text that is None is refused when the batch is read, and a title that is None
    is empty. ``lines`` number the records in their file, for messages. ``records`` are the whole records, which hold
    the metadata that searches can be filtered by, in all fields but those ``used`` for id and text; None without
    metadata.
    """

    ids: Sequence[str]
    texts: Sequence[str | None]
    titles: Sequence[str | None] | None = None
    lines: Sequence[int] | None = None
    records: Sequence[Mapping[str, Any]] | None = None
    used: frozenset[str] = frozenset()


Fields: TypeAlias = dict[str, str]
"""Role -> the field that plays it; optional roles without a field are left out."""


def matching_fields(name: str, fields: Iterable[str]) -> list[str]:
    """Return the field with this name, else every field with this name but for upper and lower case."""
    names = list(fields)
    return [name] if name in names else [field for field in names if field.lower() == name.lower()]


def parse_columns(text: str | Iterable[str] | Mapping[str, str], called: str = OPTION) -> dict[str, str]:
    """Return role -> field of ``id=doc_id,text="a,b"``, of a list of such items, or of a mapping.

    ``called`` is the argument's name in messages.

    Raises UnknownNameError for an unknown role, UsageError for an item without ``=`` and a role that is named twice.
    """
    if isinstance(text, Mapping):
        pairs = list(text.items())
    else:
        items = [text] if isinstance(text, str) else list(text)
        pairs = []
        for item in (part.strip() for entry in items for part in _ITEM.findall(entry)):
            role, equals, field = item.partition("=")
            if len(field) > 1 and field[0] == field[-1] == '"':
                field = field[1:-1].replace('""', '"')
            if not (role and equals and field):
                raise UsageError(f"{called} '{item}' names no field", fix="write role=field, as id=doc_id,text=body")
            pairs.append((role.strip(), field.strip()))
    if not all(isinstance(word, str) for pair in pairs for word in pair):
        raise UsageError(f"columns are {dict(pairs)!r}", fix="give names: {'id': 'doc_id', 'text': 'body'}")
    columns_by_role: dict[str, str] = {}
    for role, field in pairs:
        if role not in _ALL_ROLES:
            raise UnknownNameError(f"role in {called}", role, _ALL_ROLES)
        if columns_by_role.setdefault(role, field) != field:
            raise UsageError(
                f"{called} names two fields for '{role}': '{columns_by_role[role]}' and '{field}'", fix="keep one"
            )
    return columns_by_role


def columns_text(columns: Mapping[str, str]) -> str:
    """Return role -> field as :func:`parse_columns` reads it; a field with a comma or a quotation mark in quotes."""

    def quoted(field: str) -> str:
        return '"' + field.replace('"', '""') + '"' if set(field) & set(',"') else field

    return ",".join(f"{role}={quoted(field)}" for role, field in columns.items())


class ColumnMap:
    """The fields of one kind of record.

    Names that the user gave must exist, of a shared role only if nothing else plays it: ``query_id=qid`` is meant for
    the queries, and may differ in the judgments. ``called`` names them in messages.
    """

    def __init__(
        self,
        roles: Sequence[Role],
        columns: Mapping[str, str],
        option: str = OPTION,
        shared_roles: Set[str] = frozenset(),
    ) -> None:
        """``shared_roles`` are roles whose field need not exist, because another file of the dataset has it."""
        self.called = option
        self.roles = tuple(roles)
        self.columns = columns
        self._not_binding = {role.name for role in roles if role.shared} | shared_roles
        self._resolved: dict[tuple[str, ...], Fields | str] = {}

    def resolve(self, names: tuple[str, ...]) -> Fields | str:
        """Return the field of each role in a record with these fields; a text says everything that is missing."""
        if names not in self._resolved:
            self._resolved[names] = self._resolve(names)
        return self._resolved[names]

    def is_header(self, cells: Sequence[str]) -> bool:
        """Return whether a row looks like a header: it has a name that is used for some role."""
        column_names = {
            name.lower() for role in self.roles for name in (role.sure, *role.aliases, role.otherwise or "")
        }
        return any(cell.strip().lower() in column_names or cell.strip() in self.columns.values() for cell in cells)

    def covers(self, names: Iterable[str]) -> bool:
        """Return whether fields of these names include one or more for every required role."""
        present = {name.strip().lower() for name in names}
        accepted = [
            {name.lower() for name in (role.sure, *role.aliases, role.column(self.columns) or role.sure)}
            for role in self.roles
            if role.required
        ]
        return all(present & names_of_role for names_of_role in accepted)

    def _resolve(self, names: tuple[str, ...]) -> Fields | str:
        if no_text := [name for name in names if not isinstance(name, str)]:  # records of Python
            return f"the name of a field is text, not {abbreviated(no_text[0])}"
        fields: Fields = {}
        missing, problems = list[str](), list[str]()
        for role in self.roles:
            sure = matching_fields(role.sure, names)
            aliases = filter(None, (matching_fields(alias, names) for alias in role.aliases))
            candidates = next(aliases, []) if role.ordered else [name for alias in aliases for name in alias]
            if role.exclusive:
                sure, candidates = [], list(dict.fromkeys([*sure, *candidates]))
                candidates = candidates or matching_fields(role.otherwise or "", names)
            column = role.column(self.columns)
            if column is not None and column in names:
                fields[role.name] = column
            elif column is not None and role.name not in self._not_binding:
                near = difflib.get_close_matches(column, names, n=1)
                hint = f" (did you mean '{near[0]}'?)" if near else ""
                problems.append(f"there is no field '{column}', which {self.called} names as the {role.name}{hint}")
            elif len(sure or candidates) == 1:
                (fields[role.name],) = sure or candidates
            elif sure or candidates:
                missing_roles = " or ".join(f"'{name}'" for name in sure or candidates)
                first = (sure or candidates)[0]
                problems.append(
                    f"the {role.name} may be {missing_roles}: say which, as {self.called} {role.name}={first}"
                )
            elif role.required:
                missing.append(role.name)
            elif role.name == "title" and (near := difflib.get_close_matches("title", names, 1, _NEAR_TITLE)):
                problems.append(
                    f"'{near[0]}' looks like a misspelt 'title'; if it is one: {self.called} title={near[0]}"
                )
        if missing:
            folded = {name.lower().strip("_"): name for name in names}
            closest = {role: difflib.get_close_matches(role, folded, n=1, cutoff=0.6) for role in missing}
            example = ",".join(f"{role}={folded[close[0]] if close else '…'}" for role, close in closest.items())
            missing_roles, them = " and the ".join(missing), "it" if len(missing) == 1 else "them"
            problems.insert(0, f"no field for the {missing_roles}; name {them}, as {self.called} {example}")
        return f"{'; '.join(problems)} (there are: {', '.join(names) or 'no fields'})" if problems else fields


def abbreviated(value: object) -> str:
    """Return a value as a message quotes it, at most 40 characters."""
    try:
        text = orjson.dumps(value, default=repr).decode()
    except TypeError:  # no JSON: keys that are numbers, integers beyond 64 bits, lone surrogates
        text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN_VALUE else f"{text[: _LONGEST_SHOWN_VALUE - 3]}…"


def text_batches(batches: Iterable[RecordBatch], columns: ColumnMap, problems: Problems) -> Iterator[TextBatch]:
    """Yield documents, or queries, of records; faulty ones are noted and left out.

    An id is a string or an integer, which becomes a string; a text is a string. A title that is null or missing is
    empty.
    """
    roles = [role.name for role in columns.roles]
    for batch in batches:
        fields = [columns.resolve(names) for names in dict.fromkeys(map(tuple, batch.records))]
        alike = bool(fields) and all(other == fields[0] for other in fields)
        plain = _plain(batch, fields[0], roles) if alike and not isinstance(fields[0], str) else None
        yield plain or _careful(batch, columns, roles, problems)


def _plain(batch: RecordBatch, fields: Fields, roles: Sequence[str]) -> TextBatch | None:
    """Return the batch if every value is a string; None sends it to :func:`_careful`, a third as fast."""
    columns: list[list[Any] | None] = []
    for role in roles:
        values = [record[fields[role]] for record in batch.records] if role in fields else None
        if values is not None and set(map(type, values)) != {str}:
            return None
        columns.append(values)
    ids, texts, titles = columns if len(columns) == 3 else (*columns, None)
    if ids is None or texts is None:
        return None
    return TextBatch(ids, texts, titles, batch.lines, batch.records, frozenset(fields.values()))


def _careful(batch: RecordBatch, columns: ColumnMap, roles: Sequence[str], problems: Problems) -> TextBatch:
    readings: list[tuple[str, str, str, int, Mapping[str, Any]]] = []
    used = set[str]()
    for line, record in zip(batch.lines, batch.records, strict=True):
        fields = columns.resolve(tuple(record))
        if isinstance(fields, str):
            problems.add_once(line, fields)
            continue
        wrong = problems.count
        record_id = _id(record, fields[roles[0]], line, problems)
        text = _text(record, fields[roles[1]], line, problems)
        title = ""
        if len(roles) > 2 and (field := fields.get(roles[2])) is not None:
            title = _text(record, field, line, problems, or_null=True)
        if problems.count == wrong:
            readings.append((record_id, text, title, line, record))
            used.update(fields.values())
    ids, texts, titles, lines, records = map(list, zip(*readings, strict=True)) if readings else ([], [], [], [], [])
    return TextBatch(ids, texts, titles if len(roles) > 2 else None, lines, records, frozenset(used))


def _id(record: Mapping[str, Any], field: str, line: int, problems: Problems, *, or_empty: bool = True) -> str:
    record_id = as_id(record[field])
    if record_id is None or not (record_id or or_empty):
        problems.add(line, f"'{field}' is {abbreviated(record[field])}, expected a string or an integer")
    return record_id or ""


def _text(record: Mapping[str, Any], field: str, line: int, problems: Problems, *, or_null: bool = False) -> str:
    value = record[field]
    if isinstance(value, str):
        return str.__str__(value)
    if is_missing(value):
        if not or_null:
            problems.add(line, null_text(field))
    else:
        problems.add(line, f"'{field}' is {abbreviated(value)}, expected a string")
    return ""


def null_text(field: str) -> str:
    """Return the problem of a text that is null."""
    return f"'{field}' is null, expected a string; if the text is empty, write \"\""


def judgments_of(batches: Iterable[RecordBatch], columns: ColumnMap, problems: Problems, notes: list[str]) -> Judgments:
    """Return the judgments of records; faulty ones are noted and left out.

    Pairs without another field are relevant with grade 1, pairs whose grade is empty are left out, and rows that hold
    only a query are skipped: all are noted. A grade may be a whole float, as tables with missing values have them.
    """
    judgments, ungraded, unrated, unjudged = Judgments([], [], [], []), 0, 0, 0
    for batch in batches:
        for line, record in zip(batch.lines, batch.records, strict=True):
            fields = columns.resolve(tuple(record))
            if isinstance(fields, str):
                problems.add_once(line, fields)
                continue
            if _holds_only(record, fields["query_id"]):
                unjudged += 1
                continue
            wrong = problems.count
            is_unrated = "grade" in fields and _is_empty(record[fields["grade"]])
            query, doc = (
                _id(record, fields[role], line, problems, or_empty=is_unrated) for role in ("query_id", "doc_id")
            )
            grade: int | float = 1
            if is_unrated:
                unrated += 1
                continue
            if "grade" in fields:
                grade = _grade(record[fields["grade"]], line, problems)
            elif extra_fields := [name for name in record if name not in fields.values()]:
                quoted = ", ".join(f"'{name}'" for name in extra_fields)
                problems.add_once(
                    line, f"no field for the grade; if {quoted} holds it, as {columns.called} grade={extra_fields[0]}"
                )
            else:
                ungraded += 1
            if problems.count == wrong:
                judgments.lines.append(line)
                judgments.query_ids.append(query)
                judgments.doc_ids.append(doc)
                judgments.grades.append(grade)
    oddities = ["there is no field for the grade: every pair counts as relevant, with grade 1"] if ungraded else []
    oddities += [unrated_note(unrated)] if unrated else []
    oddities += [unjudged_note(unjudged)] if unjudged else []
    notes.extend(oddities)
    return judgments._replace(notes=tuple(oddities))


def _holds_only(record: Mapping[str, Any], name: str) -> bool:
    """Return whether all fields but one are empty, as Quepid writes a query without judgments."""
    return not _is_empty(record[name]) and all(_is_empty(value) for field, value in record.items() if field != name)


def _is_empty(value: object) -> bool:
    return is_missing(value) or value == ""


def _grade(value: object, line: int, problems: Problems) -> int | float:
    text = str(value)
    problem = f"the grade is {abbreviated(value)}" if isinstance(value, bool) or value is None else grade_problem(text)
    if problem is None:
        return grade_of(text)
    problems.add(line, problem)
    return 0
