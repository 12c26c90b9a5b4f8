"""An audit of one run as text: a table of conventions, the causes of differences, and what gives a published number."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from harness.errors import UsageError
from harness.metrics.audit import Audit, Change, Difference, Example, Match, Published
from harness.metrics.conventions import CONVENTIONS, HARNESS
from harness.report.scores import ScoreFormat
from harness.wording import shortened

__all__ = ["render_audit"]

_ABSENT = "–"
_LEGEND = "* differs from harness, whose values are those of `harness eval`"
_SAME = 1e-9
"""Means that differ by less are shown as equal: a query that counts in one of them only may leave a mean as it is."""
_NOT_COMPUTED = (
    f"{_ABSENT} not computed by that tool; BEIR, MTEB and sentence-transformers take metrics at a rank only (AP@100)"
)


def render_audit(name: str, audit: Audit, output: ScoreFormat) -> str:
    """Return the audit of the run of that name, without a final line break. Raises UsageError for ``trec_eval``."""
    render: dict[ScoreFormat, Callable[[str, Audit], str]] = {
        ScoreFormat.TABLE: _text,
        ScoreFormat.MARKDOWN: _markdown,
        ScoreFormat.CSV: _csv,
        ScoreFormat.JSON: _json,
    }
    if output not in render:
        raise UsageError(f"--audit has no format '{output}'", fix=f"use {', '.join(render)}")
    return render[output](name, audit)


def _cells(audit: Audit) -> list[list[str]]:
    """Return header and rows of the table of values, one row a tool: five measures fit 80 columns so."""
    moved = {(one.measure, one.convention) for one in audit.differences if one.causes and not _same_mean(one)}
    lines = [["measure", *map(str, audit.measures)]]
    for name in (HARNESS.name, *(convention.name for convention in CONVENTIONS)):
        cells = [(_number(audit.values[one][name]), " *" if (one, name) in moved else "") for one in audit.measures]
        lines.append([name, *(f"{value}{mark}" for value, mark in cells)])
    return lines


def _number(value: float | None) -> str:
    return _ABSENT if value is None or math.isnan(value) else f"{value:.4f}"


def _legend(cells: Sequence[Sequence[str]]) -> list[str]:
    shown = [cell for line in cells[1:] for cell in line[1:]]
    legend = [_LEGEND] if any(cell.endswith("*") for cell in shown) else ["no value differs from harness"]
    return [*legend, _NOT_COMPUTED] if _ABSENT in shown else legend


def _groups(audit: Audit) -> Iterator[list[Difference]]:
    """Differences with an effect; those of one measure with the same value and causes together."""
    groups: dict[Any, list[Difference]] = {}
    for one in audit.differences:
        if one.causes:
            groups.setdefault((one.measure, one.there, one.causes), []).append(one)
    yield from groups.values()


def _heading(group: Sequence[Difference]) -> str:
    first = group[0]
    tools = f"{first.measure}, {', '.join(difference.convention for difference in group)}"
    if _same_mean(first):
        return f"{tools}: the same mean, {_number(first.here)}, of other values"
    there, here = _number(first.there), _number(first.here)
    if there == here:
        there, here = f"{first.there:.8f}", f"{first.here:.8f}"
    return f"{tools}: {there} instead of {here}"


def _same_mean(difference: Difference) -> bool:
    """Return whether both conventions have one mean, if of different queries or values."""
    there, here = difference.there, difference.here
    return there == here or (there is not None and here is not None and abs(there - here) < _SAME)


def _explained(difference: Difference) -> list[str]:
    lines = [
        _because(cause, "or" if at else "because", dict(difference.alone)) for at, cause in enumerate(difference.causes)
    ]
    return [line for cause in lines for line in cause] + [_example(example) for example in difference.examples]


def _because(cause: Sequence[Change], first: str, alone: Mapping[Change, float]) -> list[str]:
    """One line a change; of several that are a cause together only, with what each gives alone."""
    lines = []
    for at, change in enumerate(cause):
        by_itself = f"; alone {_number(alone[change])}" if change in alone else ""
        here = f"{change.here}{by_itself}"
        lines.append(f"{'and' if at else first} of {change.aspect}: {change.there} (harness: {here})")
    return lines


def _said(change: Change) -> str:
    return f"{change.aspect}: {change.there} (harness: {change.here})"


def _example(example: Example) -> str:
    def shown(value: float | None) -> str:
        return "not counted" if value is None else _number(value)

    text = f"query {shortened(example.query)}: {shown(example.there)} instead of {shown(example.here)}"
    if example.rank_here == example.rank_there:
        return text
    there, here = (_ABSENT if rank is None else str(rank) for rank in (example.rank_there, example.rank_here))
    return f"{text}; first relevant document at rank {there} instead of {here}"


def _idle(audit: Audit) -> list[str]:
    """Differing choices that changed no value of any measure, with the tools that make them."""
    used = {(one.convention, change) for one in audit.differences for cause in one.causes for change in cause}
    tools: dict[Change, list[str]] = {}
    for one in audit.differences:
        for change in one.without_effect:
            names = tools.setdefault(change, [])
            if (one.convention, change) not in used and one.convention not in names:
                names.append(one.convention)
    return [f"{_said(change)} in {', '.join(names)}" for change, names in tools.items() if names]


def _matches(published: Published) -> list[str]:
    if published.matches:
        return [_match(match) for match in published.matches]
    if published.nearest is None:
        return ["nothing: no query counts"]
    return [f"no convention and no single change of one; the nearest is {_match(published.nearest)}"]


def _match(match: Match) -> str:
    changed = "" if match.change is None else f", but {match.change.aspect}: {match.change.there}"
    return f"{match.measure} as {match.convention}{changed} ({match.value:.6f})"


def _sections(audit: Audit) -> list[tuple[str, list[str]]]:
    """Headings and their lines."""
    sections = [(_heading(group), _explained(group[0])) for group in _groups(audit)]
    idle = _idle(audit)
    sections += [("Differs too, without effect on this run", idle)] if idle else []
    if audit.published is not None:
        sections.append((f"{audit.published.text} is given by", _matches(audit.published)))
    return sections


def _text(name: str, audit: Audit) -> str:
    cells = _cells(audit)
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    rule = "  ".join("-" * width for width in widths)
    parts = [f"{shortened(name)} under the conventions of {len(CONVENTIONS)} tools", ""]
    parts += [lines[0], rule, *lines[1:], "", *_legend(cells)]
    for heading, items in _sections(audit):
        parts += ["", heading, *(f"  {item}" for item in items)]
    return "\n".join(parts)


def _markdown(name: str, audit: Audit) -> str:
    cells = _cells(audit)
    rule = ["---", *("---:" for _ in cells[0][1:])]
    lines = [f"| {' | '.join(line)} |".replace("*", "\\*") for line in (cells[0], rule, *cells[1:])]
    parts = [f"# {name}", "", *lines, "", *(f"- {line}".replace("* ", "\\* ") for line in _legend(cells))]
    for heading, items in _sections(audit):
        parts += ["", f"## {heading}", "", *(f"- {item}" for item in items)]
    return "\n".join(parts)


def _csv(name: str, audit: Audit) -> str:
    """One line a measure and convention in full precision, then one for each single change that gives the number."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(
        ["run", "measure", "convention", "change", "value", "difference", "causes", "without_effect", "published"]
    )
    differences = {(one.measure, one.convention): one for one in audit.differences}
    matches = () if audit.published is None else audit.published.matches
    as_published = {(match.measure, match.convention) for match in matches if match.change is None}
    for measure in audit.measures:
        for convention, value in audit.values[measure].items():
            one = differences.get((measure, convention))
            found = str((measure, convention) in as_published).lower() if audit.published is not None else ""
            number = "" if value is None or math.isnan(value) else repr(value)
            moved = ["", "", ""] if one is None else _moved(one)
            writer.writerow([name, str(measure), convention, "", number, *moved, found])
    for match in matches:
        if match.change is not None:
            change = f"{match.change.aspect}: {match.change.there}"
            writer.writerow([name, str(match.measure), match.convention, change, repr(match.value), "", "", "", "true"])
    return buffer.getvalue().removesuffix("\n")


def _moved(one: Difference) -> list[str]:
    causes = "; or ".join(" and ".join(map(_said, cause)) for cause in one.causes)
    return [repr(one.there - one.here), causes, "; ".join(map(_said, one.without_effect))]


def _json(name: str, audit: Audit) -> str:
    content: dict[str, Any] = {
        "run": name,
        "conventions": {one.name: {"library": one.library, "version": one.version} for one in CONVENTIONS},
        "measures": {
            str(measure): {convention: _plain(value) for convention, value in audit.values[measure].items()}
            for measure in audit.measures
        },
        "differences": [_difference(one) for one in audit.differences],
    }
    if audit.published is not None:
        published = audit.published
        content["published"] = {
            "text": published.text,
            "matches": [_match_entry(match) for match in published.matches],
            "nearest": None if published.nearest is None else _match_entry(published.nearest),
        }
    return json.dumps(content, indent=2, ensure_ascii=False)


def _difference(one: Difference) -> dict[str, Any]:
    return {
        "measure": str(one.measure),
        "convention": one.convention,
        "harness": _plain(one.here),
        "value": _plain(one.there),
        "causes": [[change._asdict() for change in cause] for cause in one.causes],
        "alone": [change._asdict() | {"value": _plain(value)} for change, value in one.alone],
        "without_effect": [change._asdict() for change in one.without_effect],
        "examples": [example._asdict() for example in one.examples],
    }


def _match_entry(match: Match) -> dict[str, Any]:
    change = None if match.change is None else match.change._asdict()
    return {
        "measure": str(match.measure), "convention": match.convention, "change": change, "value": _plain(match.value)
    }  # fmt: skip


def _plain(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value
