"""Own gains of grades: a table such as ``1=3,2=9``, which nDCG and DCG take in place of the grades."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import numpy as np

from harness.data.types import Float64Array, Grades
from harness.errors import UsageError
from harness.metrics.judged import JudgedHits

EXAMPLE = "1=3,2=9"
_ITEM = re.compile(r"\s*([^=:\s]+)\s*[=:]\s*([^=:\s]+)\s*")


def parse_gains(gains: str | Mapping[float, float]) -> dict[float, float]:
    """Return grade -> gain in ascending order of grades, from a text such as ``1=3,2=9`` or from a mapping.

    Raises UsageError for another form, a grade that occurs twice, a gain that is negative or not finite, and gains that
    fall while grades rise: the best order of documents, by which nDCG is divided, is by grade.
    """
    pairs: list[tuple[object, object]]
    if isinstance(gains, Mapping):
        pairs = list(gains.items())
    else:
        matches = [_ITEM.fullmatch(item) for item in gains.split(",")]
        pairs = [(match[1], match[2]) for match in matches if match is not None]
        if not all(matches):
            raise UsageError(f"gains '{gains}' are no table", fix=f"write grade=gain, as {EXAMPLE}")
    table: dict[float, float] = {}
    for grade, gain in sorted((_number(grade), _number(gain)) for grade, gain in pairs):
        if grade in table:
            raise UsageError(f"gains name the grade {grade:g} twice", fix="keep one")
        if gain < 0:
            raise UsageError(f"the gain of grade {grade:g} is {gain:g}", fix="a gain is 0 or more")
        if table and gain < (before := next(reversed(table.values()))):
            raise UsageError(
                f"the gain of grade {grade:g} is {gain:g}, and the gain of a lower grade is {before:g}",
                fix="gains must not fall while grades rise",
            )
        table[grade] = gain
    if not table:
        raise UsageError("gains are empty", fix=f"write grade=gain, as {EXAMPLE}")
    return table


def gains_text(table: Mapping[float, float]) -> str:
    """Return a table in its one spelling: ``1=3,2=9``."""
    return ",".join(f"{_shortest(grade)}={_shortest(gain)}" for grade, gain in table.items())


def require_gains(table: Mapping[float, float], grades: Grades, measure: str) -> None:
    """Raise UsageError for a positive grade of the judgments that the table lacks."""
    missing = sorted(set(np.unique(grades[grades > 0]).tolist()) - set(table))
    if missing:
        grades_text = ", ".join(_shortest(grade) for grade in missing[:5])
        raise UsageError(
            f"{measure} has no gain for {'grade' if len(missing) == 1 else 'grades'} {grades_text} of the judgments",
            fix=f"add {'it' if len(missing) == 1 else 'them'}: {gains_text(table)},{_shortest(missing[0])}=…",
        )


def with_gains(judged: JudgedHits, table: Mapping[float, float]) -> JudgedHits:
    """Return the judged hits with gains in place of grades; grades of 0 and below without a gain have 0."""
    return judged._replace(grades=_mapped(judged.grades, table), ideal=_mapped(judged.ideal, table))


def _mapped(grades: Grades, table: Mapping[float, float]) -> Float64Array:
    table_grades, gains = (np.array(list(column), dtype=np.float64) for column in (table.keys(), table.values()))
    positions = np.minimum(np.searchsorted(table_grades, grades), len(table_grades) - 1)
    return np.where(table_grades[positions] == grades, gains[positions], 0.0)


def _number(value: object) -> float:
    try:
        number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(f"'{value}' in gains is not a number", fix=f"write grade=gain, as {EXAMPLE}")
    return number


def _shortest(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else repr(number)
