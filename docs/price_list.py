"""Count what features cost those who carry them on: lines of code, of tests and of pages, from the folders alone.

A feature is a package of a room, or its modules whose names begin with the same word. Tests and pages belong to the
feature whose name is in their path. Blank lines are not counted, and figures have two digits, so that they change when
a price does.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

__all__ = ["price_page"]

_REPOSITORY = Path(__file__).resolve().parent.parent
_PACKAGE = _REPOSITORY / "harness"
_ROOMS_OF_FEATURES = (
    "engines", "encoders", "loaders", "rerank", "worker", "parity", "pipeline", "pipeline/check", "pipeline/regress",
    "pipeline/probes", "report", "integrations",
)  # fmt: skip
"""Folders whose modules and packages are features. Every other room is one row."""
_SOURCES = frozenset({".py", ".java", ".js", ".css", ".jinja", ".toml"})
_SMALL = 150
"""Features of a room with fewer lines of code share a row."""
_HEAD = """\
# Price list

Lines of code, tests and pages of each feature, written by `python docs/generate.py` from the folders. A feature is a
package, or the modules of a folder whose names begin with the same word; tests and pages are those with its name in
their path. Blank lines are not counted, and two digits are given.

| folder of `harness/` | feature | code | tests | pages |
|---|---|--:|--:|--:|
"""


def price_page() -> str:
    """Return the page: the rooms of features, in each the most code first, then the other rooms."""
    others = sorted(path.parent.name for path in _PACKAGE.glob("*/__init__.py"))
    lines = [line for room in _ROOMS_OF_FEATURES for line in _rows(room)]
    lines += [
        _row(room, "*all*", _code(_PACKAGE / room), _evidence(room))
        for room in others
        if room not in _ROOMS_OF_FEATURES
    ]
    return _HEAD + "".join(lines)


def _rows(room: str) -> Iterator[str]:
    costs = {name: sum(map(_code, parts)) for name, parts in _features(room).items()}
    for name in sorted(costs, key=lambda name: (-costs[name], name)):
        if costs[name] >= _SMALL:
            yield _row(room, name, costs[name], _evidence(name))
    small = sorted(name for name, code in costs.items() if code < _SMALL)
    if small:
        tests, pages = zip(*map(_evidence, small), strict=True)
        yield _row(room, ", ".join(small), sum(costs[name] for name in small), (sum(tests), sum(pages)))


def _row(room: str, feature: str, code: int, evidence: Sequence[int]) -> str:
    return f"| `{room}/` | {feature} | {' | '.join(_rounded(lines) for lines in (code, *evidence))} |\n"


def _rounded(lines: int) -> str:
    unit = 10 ** max(0, len(str(lines)) - 2)
    return f"{(lines + unit // 2) // unit * unit:,}" if lines else "–"


def _features(room: str) -> dict[str, list[Path]]:
    """Return the packages and modules of each feature of a room, by its name."""
    features: dict[str, list[Path]] = defaultdict(list)
    for path in (_PACKAGE / room).iterdir():
        if path.name.startswith("_") or f"{room}/{path.name}" in _ROOMS_OF_FEATURES:
            continue
        if path.suffix == ".py" or (path / "__init__.py").is_file():
            features[path.stem.partition("_")[0]].append(path)
    return {_name(parts): parts for parts in features.values()}


def _name(parts: list[Path]) -> str:
    """Return the name of a module or package that stands by itself, and the first word of several."""
    return parts[0].stem.partition("_")[0] if len(parts) > 1 else parts[0].stem


def _code(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(_count_lines(file) for file in files if file.suffix in _SOURCES)


def _evidence(name: str) -> tuple[int, int]:
    """Return the lines of tests and of pages with a feature's name, in words of their own, in their path."""
    stem = name.removesuffix("s").replace("_", "[_-]")
    pattern = re.compile(rf"(?<![a-z]){stem}s?(?![a-z])")
    tests, pages = (sum(lines for path, lines in counted if pattern.search(path)) for counted in (_tests(), _pages()))
    return tests, pages


@cache
def _tests() -> list[tuple[str, int]]:
    return _counted("tests", "*.py")


@cache
def _pages() -> list[tuple[str, int]]:
    return [(path.rpartition("/")[2], lines) for path, lines in _counted("docs", "*.md")]


def _counted(folder: str, pattern: str) -> list[tuple[str, int]]:
    root = _REPOSITORY / folder
    return [(path.relative_to(root).as_posix(), _count_lines(path)) for path in sorted(root.rglob(pattern))]


@cache
def _count_lines(path: Path) -> int:
    return sum(bool(line.strip()) for line in path.read_bytes().splitlines())
