"""promptfoo's tests, in its configuration or in a list of tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from harness.data.golden_shapes.base import GoldenContent, records_of

_TESTS, _VARIABLES, _METADATA, _FILE = "tests", "vars", "metadata", "file://"


class PromptfooShape:
    """Tests whose variables, or metadata, hold a question and expected documents with usual names."""

    name = "promptfoo"
    content = (
        "`tests`, or the file that it names: each test has the question and expected ids or texts in `vars` or "
        "`metadata`; other names by `--columns`"
    )
    example = '{"tests": [{"vars": {"question": "why?", "expected_ids": ["d1"]}}]}'
    names = frozenset({_TESTS, _VARIABLES})

    def read(self, content: GoldenContent) -> GoldenContent | None:
        """Return the tests, with the variables of ``defaultTest``, and the paths of their fields."""
        if content.mapping is not None:
            tests = content.mapping.get(_TESTS)
            if (path := tests_path(content.mapping)) is not None:
                raise ValueError(f"the tests are in '{path}', which cannot be read: give a file with the tests")
            if not isinstance(tests, list) or not any(_is_test(test) for test in tests):
                return None
            default = content.mapping.get("defaultTest")
            variables = default.get(_VARIABLES) if isinstance(default, Mapping) else None
            tests = [_completed(test, variables if isinstance(variables, Mapping) else {}) for test in tests]
            content = GoldenContent(records_of(tests, "list 'tests'"), columns=content.columns, option=content.option)
        if not content.records or not _is_test(content.records[0].values):
            return None
        first, columns = content.records[0].values, content.golden_columns
        roles = ("question", "expected", "expected_texts", "filter", "forbidden")
        paths = columns.paths_in(first, _METADATA, roles[1:]) | columns.paths_in(first, _VARIABLES, roles)
        return replace(content, columns={**paths, **content.columns})


def tests_path(value: Mapping[str, Any]) -> str | None:
    """Return the file that promptfoo's configuration names in place of its tests; None for any other object."""
    tests = value.get(_TESTS)
    paths = [tests] if isinstance(tests, str) else tests if isinstance(tests, list) else []
    are_paths = bool(paths) and all(isinstance(path, str) for path in paths)
    if not are_paths or not ("prompts" in value or all(path.startswith(_FILE) for path in paths)):
        return None
    return ", ".join(path.removeprefix(_FILE) for path in paths)


def with_tests(value: Mapping[str, Any], tests: list[Any]) -> dict[str, Any]:
    """Return promptfoo's configuration with its tests in place of the path of their file."""
    return {**value, _TESTS: tests}


def _is_test(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get(_VARIABLES), Mapping)


def _completed(test: Any, variables: Mapping[str, Any]) -> Any:
    return {**test, _VARIABLES: {**variables, **test[_VARIABLES]}} if _is_test(test) else test
