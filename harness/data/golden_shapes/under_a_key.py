"""A list of records under a key of an object, next to settings and versions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from harness.data.columns import OPTION, RECORDS
from harness.data.golden_fields import value_at
from harness.data.golden_shapes.base import GoldenContent, records_of

_DEEPEST = 4


class UnderAKeyShape:
    """The only list of questions in an object; ``--columns records=KEY`` names one of several."""

    name = "a list under a key"
    content = f"the only list of records that are questions; `{OPTION} {RECORDS}=tests` names one of several lists"
    example = '{"version": 1, "tests": [{"question": "why?", "expected": ["d1"]}]}'
    names = frozenset[str]()

    def __init__(self, is_golden: Callable[[GoldenContent], bool]) -> None:
        """``is_golden`` tells whether records have a question and expected documents."""
        self._is_golden = is_golden

    def read(self, content: GoldenContent) -> GoldenContent | None:
        """Return the records of the list."""
        path, value = content.columns.get(RECORDS), content.mapping or {}
        lists = dict(_lists(value))
        if path is None:
            path = self._only(lists, content)
        elif not isinstance(value_at(value, path), list):
            names = f"there are: {', '.join(lists)}" if lists else "there is no list of records"
            raise ValueError(f"there is no list '{path}', which {content.option} names as the {RECORDS} ({names})")
        if path is None:
            return None
        columns = {role: column for role, column in content.columns.items() if role != RECORDS}
        return GoldenContent(
            records_of(value_at(value, path), f"list '{path}'"), columns=columns, option=content.option
        )

    def _only(self, lists: Mapping[str, list[Any]], content: GoldenContent) -> str | None:
        golden = [
            path
            for path, values in lists.items()
            if self._is_golden(GoldenContent(records_of(values[:1]), columns=content.columns, option=content.option))
        ]
        candidates = golden or list(lists)
        if len(candidates) > 1:
            quoted = " and ".join(f"'{path}'" for path in candidates)
            raise ValueError(f"{quoted} are lists of records: name one, as {content.option} {RECORDS}={candidates[0]}")
        return candidates[0] if candidates else None


def _lists(value: Mapping[str, Any], before: str = "", level: int = 1) -> Iterator[tuple[str, list[Any]]]:
    """Yield every list of objects below an object, with its dotted path."""
    for key, item in value.items():
        if isinstance(item, list) and item and all(isinstance(one, Mapping) for one in item):
            yield f"{before}{key}", item
        elif isinstance(item, Mapping) and level < _DEEPEST:
            yield from _lists(item, f"{before}{key}.", level + 1)
