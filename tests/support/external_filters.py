"""Documents with metadata of all types, and filters with the documents that each must find, for external indexes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import harness
from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.pipeline.check.checked import CheckResult
from harness.testing.expected import random_unit_vectors

QUOTED = 'it\'s "50%" \\ $1 `{x}` %s'
_TYPED: Mapping[str, Mapping[str, Any]] = {
    "a": {"tenant": "north", "year": 1971, "score": 0.1, "flag": True, "tags": ["red", "green"], "deep": {"er": "x"}},
    "b": {"tenant": "south", "year": 1972, "score": 3.0, "flag": False, "tags": ["green"], "deep": {"er": "y"}},
    "c": {"tenant": QUOTED, "year": -3, "score": -0.5, "flag": True, "tags": [], "deep": {"er": QUOTED}},
    "d": {"tenant": "1971", "year": 1971, "score": None, "flag": True, "tags": [QUOTED], "deep": {"er": "1971"}},
    "e": {"tenant": None, "year": None, "score": 1e20, "flag": False, "tags": None, "deep": {"er": None}},
}
_SCORES: Mapping[str, Sequence[float] | None] = {"a": [0.1, 3.0], "b": [3.0], "c": [], "d": None, "e": [1e20, 0.7]}
TYPED: Mapping[str, Mapping[str, Any]] = {name: {**record, "scores": _SCORES[name]} for name, record in _TYPED.items()}
"""Documents with one type for each field, as in tables: text, whole numbers, fractions, booleans, lists, objects."""
OF_TYPED: Sequence[tuple[Mapping[str, str], str]] = (
    ({"tenant": "north"}, "a"),
    ({"tenant": QUOTED}, "c"),
    ({"tenant": "1971"}, "d"),
    ({"tenant": "NORTH"}, ""),
    ({"tenant": "x') OR TRUE --"}, ""),
    ({"tenant": '" or 1 == 1 or "'}, ""),
    ({"year": "1971"}, "ad"),
    ({"year": "1971.0"}, "ad"),
    ({"year": "-3"}, "c"),
    ({"year": "1971.5"}, ""),
    ({"year": "north"}, ""),
    ({"year": "3000000000"}, ""),
    ({"year": "99999999999999999999"}, ""),
    ({"score": "0.1"}, "a"),
    ({"score": "3"}, "b"),
    ({"score": "-0.5"}, "c"),
    ({"score": "1e+20"}, "e"),
    ({"score": "0.10000000149011612"}, ""),
    ({"score": "1e+300"}, ""),
    ({"score": "north"}, ""),
    ({"scores": "0.1"}, "a"),
    ({"scores": "3"}, "ab"),
    ({"scores": "0.7"}, "e"),
    ({"scores": "1e+20"}, "e"),
    ({"scores": "0.10000000149011612"}, ""),
    ({"scores": "1e+300"}, ""),
    ({"flag": "true"}, "acd"),
    ({"flag": "false"}, "be"),
    ({"flag": "1"}, ""),
    ({"tags": "green"}, "ab"),
    ({"tags": QUOTED}, "d"),
    ({"tags": "gre"}, ""),
    ({"deep.er": "x"}, "a"),
    ({"deep.er": QUOTED}, "c"),
    ({"tags": "green", "year": "1972"}, "b"),
    ({"flag": "true", "year": "1972"}, ""),
    ({}, "abcde"),
)
"""Filters of :data:`TYPED`, each with the documents that match; numbers are compared by value."""

MIXED: Mapping[str, Any] = {
    "a": "1971",
    "b": 1971,
    "c": 1971.0,
    "d": True,
    "e": "true",
    "f": 0.5,
    "g": None,
    "h": -3,
    "i": "1e3",
    "j": ["1971", "red"],
    "k": ["red", "it's"],
    "l": [True, False],
    "m": [0.5, 2.5],
}
"""Values of one field in documents of a store without a schema; a list has elements of one type."""
OF_MIXED: Sequence[tuple[Mapping[str, str], str]] = (
    ({"year": "1971"}, "abcj"),
    ({"year": "1971.0"}, "bc"),
    ({"year": "true"}, "del"),
    ({"year": "0.5"}, "fm"),
    ({"year": "-3"}, "h"),
    ({"year": "1e3"}, "i"),
    ({"year": "red"}, "jk"),
    ({"year": "it's"}, "k"),
    ({"year": "none"}, ""),
    ({}, "abcdefghijklm"),
)
"""Filters of :data:`MIXED` where numbers are compared by value."""
BY_TEXT = (({"year": "1971"}, "abj"), ({"year": "1971.0"}, "c"), *OF_MIXED[2:])
"""The same where 1971 and 1971.0 differ."""


def inputs_of(names: Mapping[str, Any]) -> Inputs:
    """Return the documents of these names with vectors of 8 dimensions and length 1."""
    return Inputs(Ids.of(names), dense=random_unit_vectors(1, len(names), 8))


def in_container(cases: Sequence[tuple[Mapping[str, str], str]], container: str) -> list[tuple[dict[str, str], str]]:
    """Return cases whose fields are named with the name of their container."""
    return [({f"{container}.{field}": text for field, text in fields.items()}, names) for fields, names in cases]


def checked(
    against: str, work: Path, cases: Sequence[tuple[Mapping[str, str], str]], *, question: str = "", k: int = 20
) -> CheckResult:
    """Check a question for each case: a random vector, or the text ``question`` for a backend that reads texts."""
    questions = [
        {
            "id": f"q{number}",
            "question": question or f"words {number}",
            "expected": [names[:1] or "a"],
            **({"filter": fields} if fields else {}),
        }
        for number, (fields, names) in enumerate(cases)
    ]
    if not question:
        made = work / "made"
        made.mkdir(exist_ok=True)
        np.save(made / "queries.npy", random_unit_vectors(2, len(questions), 8))
        (made / "queries.ids.txt").write_text("".join(f"{one['id']}\n" for one in questions))
        against = f"{against};model=precomputed:{made}"
    return harness.check(questions, against=against, k=k, isolation="none", timing=False)


def require_filtered(
    result: CheckResult, cases: Sequence[tuple[Mapping[str, str], str]], *, proven: bool = True
) -> None:
    """Require that each question found its documents, and if ``proven`` that the exact filtered search agrees."""
    (trial,) = result.report.trials
    assert trial.error is None, trial.error.message
    found = [(question.filter or {}, "".join(sorted(question.top))) for question in trial.questions]
    wrong = [(answer, names) for answer, (_, names) in zip(found, cases, strict=True) if answer[1] != names]
    assert not wrong, wrong
    if proven:
        assert trial.parity is not None
        assert (trial.parity.queries, trial.parity.different) == (len(cases), 0)
