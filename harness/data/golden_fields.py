"""Which field of a golden set's record is its question, its expected ids …: by ``--columns``, or by a usual name.

``--columns`` names a field of the record, or a dotted path into nested records: ``outputs.doc_ids``. A path goes into
every element of a list, and into JSON in a cell of a table. A field whose own name has dots is taken before a path.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

import orjson

from harness.data.columns import GOLDEN_ROLES, OPTION, GoldenRole, matching_fields
from harness.data.golden_cells import condition_pairs
from harness.data.problems import Problems
from harness.data.python_values import is_missing
from harness.errors import nearest

ANSWERS = frozenset(
    {"contexts", "retrieved_contexts", "retrieved_context_ids", "retrieval_context", "actual_output", "response"}
)
"""Names of fields with what a system returned, which is never expected."""
_WORDS_OF_IDS = ("doc", "chunk", "source", "passage", "page", "gold", "relevant", "expected", "citation", "label")
_SUGGESTED, _DEEPEST = 3, 4
_KIND = "type"
"""A field that says what a nested record is, such as promptfoo's assertions."""
ABSENT = object()
"""The value of a path that a record lacks."""


class GoldenFields(NamedTuple):
    """The field, or dotted path, of each role in one record; None for a role without a field."""

    id: str | None
    question: str | None
    expected: str | None
    expected_texts: str | None
    filter: str | None
    forbidden: str | None
    grade: str | None


class GoldenColumns:
    """The fields of a golden set's records.

    Args:
        columns: role -> field, or dotted path, as :func:`harness.data.columns.parse_columns` returns it. Roles of
            documents and judgments are ignored.
        option: the name of the argument, for messages.
        shared_roles: roles whose field need not exist, because the documents may have it.
        reads_texts: whether the values of the expected ids' field are read as texts (``--match text``).
    """

    def __init__(
        self,
        columns: Mapping[str, str] | None = None,
        option: str = OPTION,
        shared_roles: Set[str] = frozenset(),
        *,
        reads_texts: bool = False,
    ) -> None:
        self.option, self.reads_texts = option, reads_texts
        self._columns = dict[str, str]()
        if columns:
            self._columns = {role.name: column for role in GOLDEN_ROLES if (column := role.column(columns))}
        self._shared = shared_roles if "query_id" not in (columns or {}) else frozenset()
        self._present = set[str]()
        self._by_names: dict[tuple[str, ...], dict[str, list[str]]] = {}
        self._further_by_names: dict[tuple[str, ...], dict[str, list[str]]] = {}
        self._advice_by_names: dict[tuple[object, ...], str] = {}

    def column(self, role: str) -> str | None:
        """Return the field that ``--columns`` names for a role; None if it names none."""
        return self._columns.get(role)

    def fields_of(self, record: Mapping[str, Any], line: int, problems: Problems) -> GoldenFields | None:
        """Return the fields of a record; None if one is missing or ambiguous, which is noted in ``problems``."""
        before, names = problems.count, tuple(record)
        if names not in self._by_names:
            self._by_names[names] = {role.name: _candidates(role, names) for role in GOLDEN_ROLES}
            self._further_by_names[names] = {
                role.name: further
                for role in (_ROLES["question"], _ROLES["expected"])
                if role.name not in self._columns and (further := _further_fields(role, names))
            }
        candidates, fields = self._by_names[names], dict[str, str | None]()
        for role in GOLDEN_ROLES:
            column = self._columns.get(role.name)
            if column is not None and value_at(record, column) is not ABSENT:
                self._present.add(role.name)
                fields[role.name] = column
            elif column is not None and role.name not in self._shared:
                fields[role.name] = None
            else:
                fields[role.name] = candidates[role.name][0] if len(candidates[role.name]) == 1 else None
                if len(candidates[role.name]) > 1:
                    self._note_several(candidates[role.name], role, line, problems)
        if self._further_by_names[names]:
            self._note_further_names(record, fields, line, problems)
        if fields["expected_texts"] is not None:
            if not self._has_texts(record, fields):
                fields["expected_texts"] = None
            elif not _is_filled(record, fields["expected"]):
                fields["expected"] = None
        if fields["question"] is None or (fields["expected"] is None and fields["expected_texts"] is None):
            self._note_missing(record, fields, line, problems)
        if self._columns:
            self._note_shared(fields, line, problems)
        return GoldenFields(**fields) if problems.count == before else None

    def filter_field(self, record: Mapping[str, Any], line: int, problems: Problems) -> str | None:
        """Return the field of a record's filter; None without such a field, and for two, which are noted."""
        column = self._columns.get("filter")
        if column is None:
            candidates = _candidates(_ROLES["filter"], tuple(record))
            if len(candidates) > 1:
                self._note_several(candidates, _ROLES["filter"], line, problems)
            return candidates[0] if len(candidates) == 1 else None
        if value_at(record, column) is ABSENT:
            return None
        self._present.add("filter")
        return column

    def _note_further_names(
        self, record: Mapping[str, Any], fields: Mapping[str, str | None], line: int, problems: Problems
    ) -> None:
        """Note fields with the further names of a role if their content differs from that of the role's field."""
        for name, candidates in self._further_by_names[tuple(record)].items():
            field = fields[name]
            for other in candidates:
                if field is not None and other != field and _differ(record[field], record[other]):
                    problem = f"'{field}' and '{other}' may both be the {name}, and they differ: keep one"
                    problems.add_once(line, f"{problem}, or name it, as {self.option} {name}={field}")

    def _note_shared(self, fields: Mapping[str, str | None], line: int, problems: Problems) -> None:
        """Note a field that has two roles because ``--columns`` names it for one of them."""
        role_of = dict[str, str]()
        for role, field in fields.items():
            first = role_of.setdefault(field, role) if field is not None else role
            if first != role:
                columns = " and ".join(f"{name}={field}" for name in (first, role) if name in self._columns)
                problem = f"the field '{field}' has two roles, {first} and {role}, because of {self.option} {columns}"
                problems.add_once(line, f"{problem}: name another field for one of them")

    def note_unused(self, problems: Problems, names: Iterable[str]) -> None:
        """Note fields that ``--columns`` names and no record has; ``names`` are the fields of all records."""
        present = list(dict.fromkeys(names))
        for role, column in self._columns.items():
            if role not in self._present and role not in self._shared:
                problems.add_once(None, self._absent_column(role, column, present))

    def _advice(self, record: Mapping[str, Any], names: tuple[str, ...], lacking: Sequence[str]) -> str:
        """Return the fields that may be missing ones, by their values; the same for all records with these names."""
        key = (names, *lacking)
        if lacking and key not in self._advice_by_names:
            self._advice_by_names[key] = _advice(record, lacking, self.option)
        return self._advice_by_names.get(key, "")

    def _absent_column(self, role: str, column: str, names: Sequence[str]) -> str:
        near = difflib.get_close_matches(column, names, n=1)
        hint = f" (did you mean '{near[0]}'?)" if near else ""
        fields_text = ", ".join(names) or "no fields"
        return f"there is no field '{column}', which {self.option} names as the {role}{hint} (there are: {fields_text})"

    def used(self) -> dict[str, str]:
        """Return role -> field of the fields that ``--columns`` names and a record has."""
        return {role: column for role, column in self._columns.items() if role in self._present}

    def has(self, role: str, record: Mapping[str, Any]) -> bool:
        """Return whether ``--columns`` names a field for the role that the record has."""
        column = self._columns.get(role)
        return column is not None and value_at(record, column) is not ABSENT

    def has_question(self, record: Mapping[str, Any]) -> bool:
        """Return whether one field or several may be the question."""
        return self.has("question", record) or bool(_candidates(_ROLES["question"], tuple(map(str, record))))

    def has_expected(self, record: Mapping[str, Any]) -> bool:
        """Return whether one field or several may be the expected ids."""
        return self.has("expected", record) or bool(_candidates(_ROLES["expected"], tuple(map(str, record))))

    def has_filter(self, record: Mapping[str, Any]) -> bool:
        """Return whether one field or several may be the filter."""
        return self.has("filter", record) or bool(_candidates(_ROLES["filter"], tuple(map(str, record))))

    def paths_in(self, record: Mapping[str, Any], field: str, roles: Sequence[str]) -> dict[str, str]:
        """Return role -> dotted path of the fields with usual names in a nested record.

        Raises ValueError if two of them have one role.
        """
        part = record.get(field)
        paths = dict[str, str]()
        if not isinstance(part, Mapping):
            return paths
        for role in (_ROLES[name] for name in roles if name not in self._columns):
            names = _candidates(role, tuple(map(str, part)))
            if len(names) > 1:
                quoted = " and ".join(f"'{field}.{name}'" for name in names[:2])
                raise ValueError(
                    f"both {quoted} are present: name one, as {self.option} {role.name}={field}.{names[0]}"
                )
            if names and (role.name != "filter" or _is_filter(part[names[0]])):
                paths[role.name] = f"{field}.{names[0]}"
        return paths

    def covers(self, record: Mapping[str, Any]) -> bool:
        """Return whether a record is of a golden set: whether it has a question and expected ids or texts."""
        fields = self.fields_of(record, 1, Problems("record"))
        return fields is not None

    def _note_several(self, candidates: Sequence[str], role: GoldenRole, line: int, problems: Problems) -> None:
        """Note that several fields may have a role."""
        problem = f"both '{candidates[0]}' and '{candidates[1]}' are present: keep one"
        problems.add_once(line, f"{problem}, or name it, as {self.option} {role.name}={candidates[0]}")

    def _has_texts(self, record: Mapping[str, Any], fields: Mapping[str, str | None]) -> bool:
        """Return whether a record without expected ids has expected texts.

        ``context`` is also a usual name of other things: it counts only as a list, and next to no field of ids.
        """
        texts = fields["expected_texts"]
        if texts is None or is_missing(value := value_at(record, texts)):
            return False
        if "expected_texts" in self._columns or texts.lower() != "context":
            return _is_filled(record, texts) or (fields["expected"] is None and value in ([], (), "[]"))
        expected = fields["expected"]
        is_list = isinstance(value, list | tuple) or (isinstance(value, str) and value.lstrip().startswith("["))
        return is_list and (expected is None or is_missing(record.get(expected)))

    def _note_missing(
        self, record: Mapping[str, Any], fields: Mapping[str, str | None], line: int, problems: Problems
    ) -> None:
        """Note the question, or the expected ids or texts, that a record lacks, with the fields that may be these."""
        names = tuple(record)
        lacking = [] if fields["question"] is not None else ["question"]
        if fields["expected"] is None and fields["expected_texts"] is None:
            lacking.append("expected")
        advice = self._advice(record, names, lacking)
        for role in (role for role in GOLDEN_ROLES if role.name in lacking):
            column = self._columns.get(role.name)
            if column is None and len(self._by_names[names][role.name]) > 1:
                continue  # noted already
            if column is not None:
                problems.add_once(line, self._absent_column(role.name, column, names))
                continue
            expected_names = [*role.names, *role.further_names]
            near = next(filter(None, (nearest(name, expected_names, cutoff=0.6) for name in names)), "")
            empty = "; write [] for a question that nothing answers" if role.name == "expected" else ""
            fields_text = ", ".join(names) or "none"
            missing = f"the field '{expected_names[0]}' is missing (there are: {fields_text}){near}{empty}"
            problems.add_once(line, f"{missing}{advice}")
            advice = ""


_ROLES = {role.name: role for role in GOLDEN_ROLES}


def _differ(value: Any, other: Any) -> bool:
    """Return whether two fields of one role have different content; a missing second one does not count."""
    if is_missing(other) or other == "":
        return False
    first, second = ([item] if isinstance(item, str | int) else item for item in (value, other))
    return bool(first != second)


def _is_filter(value: Any) -> bool:
    return isinstance(value, Mapping) or bool(value and condition_pairs(value))


def _candidates(role: GoldenRole, names: Sequence[str]) -> list[str]:
    """Return the fields that may have a role by their names."""
    usual = [field for name in role.names for field in matching_fields(name, names)]
    return usual or _further_fields(role, names)


def _further_fields(role: GoldenRole, names: Sequence[str]) -> list[str]:
    """Return the fields with a further name of a role."""
    return [field for name in role.further_names for field in matching_fields(name, names)]


def _advice(record: Mapping[str, Any], lacking: Sequence[str], option: str) -> str:
    """Return, as part of a sentence, the fields that may be the lacking ones, and fields of answers."""
    paths = [(path, value) for path, value in _paths(record) if _last(path) not in ANSWERS]
    answers = [path for path, _ in _paths(record) if _last(path) in ANSWERS]
    possible = {
        "question": [path for path, value in paths if isinstance(value, str) and len(value.split()) > 1],
        "expected": [path for path, value in paths if _may_be_ids(path, value)],
        "expected_texts": [path for path, value in paths if isinstance(value, list) and _is_text(value)],
    }
    roles = [role for name in lacking for role in ((name, "expected_texts") if name == "expected" else (name,))]
    columns = [f"{role}={' or '.join(possible[role][:_SUGGESTED])}" for role in roles if possible[role]]
    advice = f"; it may be, as {option}: {', '.join(columns)}" if columns else ""
    if answers and "expected" in lacking:
        verb = "is" if len(answers) == 1 else "are"
        advice += f"; {', '.join(answers)} {verb} what a system returned, which is never expected"
    return advice


def _last(path: str) -> str:
    return path.rpartition(".")[2].lower()


def _paths(record: Mapping[str, Any], before: str = "", level: int = 1) -> Iterator[tuple[str, Any]]:
    """Yield the dotted paths of a record's values, and the values."""
    for name, value in record.items():
        if isinstance(value, Mapping) and level < _DEEPEST:
            yield from _paths(value, f"{before}{name}.", level + 1)
        elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            for inner in value[0]:
                if all(inner in item for item in value):
                    yield f"{before}{name}.{inner}", [item[inner] for item in value]
        else:
            yield f"{before}{name}", value


def _may_be_ids(path: str, value: Any) -> bool:
    """Return whether a value may be expected ids: a list of short values, or an id in a field called like one."""
    if isinstance(value, list) and _last(path) != _KIND:
        return bool(value) and not _is_text(value)
    is_id = isinstance(value, int | str) and not isinstance(value, bool) and bool(str(value)) and " " not in str(value)
    return is_id and any(word in _last(path) for word in _WORDS_OF_IDS)


def _is_text(values: Sequence[Any]) -> bool:
    return bool(values) and all(isinstance(value, str) and len(value.split()) > 1 for value in values)


def _is_filled(record: Mapping[str, Any], path: str | None) -> bool:
    """Return whether a field has a value that is not empty."""
    if path is None:
        return False
    value = value_at(record, path)
    if isinstance(value, str):
        return bool(value.strip()) and value.strip() != "[]"
    return not is_missing(value) and (not hasattr(value, "__len__") or len(value) > 0)


def value_at(record: Mapping[str, Any], path: str) -> Any:
    """Return the value of a field, or at a dotted path; ABSENT if there is none.

    A list on the way gives the list of its elements' values.
    """
    if path in record:
        return record[path]
    for end in (position for position, character in enumerate(path) if character == "."):
        if path[:end] in record:
            value = _value_below(record[path[:end]], path[end + 1 :])
            if value is not ABSENT:
                return value
    return ABSENT


def _value_below(value: Any, path: str) -> Any:
    if isinstance(value, str) and value.lstrip().startswith(("{", "[")):  # a cell of a table
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            return ABSENT
    if isinstance(value, Mapping):
        return value_at(value, path)
    if isinstance(value, list | tuple):
        values = [_value_below(item, path) for item in value]
        return values if values and ABSENT not in values else ABSENT
    return ABSENT


def without_path(record: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return a record without the value at a path, and without records that become empty by this."""
    if path in record:
        return {name: value for name, value in record.items() if name != path}
    for end in (position for position, character in enumerate(path) if character == "."):
        name, rest = path[:end], path[end + 1 :]
        if name in record and _value_below(record[name], rest) is not ABSENT:
            remaining = _without_below(record[name], rest)
            rest_of_record = {other: value for other, value in record.items() if other != name}
            return rest_of_record if remaining in ({}, []) else {**rest_of_record, name: remaining}
    return dict(record)


def _without_below(value: Any, path: str) -> Any:
    if isinstance(value, str):
        remaining = _without_below(orjson.loads(value), path)
        return remaining if remaining in ({}, []) else orjson.dumps(remaining).decode()
    if isinstance(value, Mapping):
        return without_path(value, path)
    return [item for item in (_without_below(item, path) for item in value) if item != {}]
