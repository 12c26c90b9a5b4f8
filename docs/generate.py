"""Write the generated blocks of the documentation anew: ``python docs/generate.py``.

A fenced block is generated when the line above it says so::

    <!-- output of: harness compare --help -->
    <!-- docstring of: harness.errors -->
    <!-- content of: examples/faiss/faiss_flat.py -->

A page is generated as a whole when its first line names the function that gives its text::

    <!-- page of: reference_pages:metrics_page -->

Only commands of ``harness`` that print the same every time belong there. A test compares every page with what this
script would write.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

__all__ = ["pages", "regenerate"]

REPOSITORY = Path(__file__).resolve().parent.parent
HARNESS = [sys.executable, "-m", "harness"]
"""What is followed by the arguments of `harness`; tests put one in its place that starts sooner."""
BLOCK = re.compile(
    r"(?P<marker><!-- (?P<kind>output|docstring|content) of: (?P<what>.+?) -->\n```\w+\n)(?P<body>.*?)(?P<end>^```$)",
    re.DOTALL | re.MULTILINE,
)
PAGE = re.compile(r"<!-- page of: (?P<module>[\w.]+):(?P<function>\w+) -->\n\n")
PAGES = re.compile(
    r"(?P<marker><!-- pages of: (?P<folder>[\w-]+) -->\n)(?P<body>.*?)(?P<end>^<!-- end -->$)", re.DOTALL | re.MULTILINE
)


def pages() -> list[Path]:
    """Every page of the documentation."""
    return sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")])


def regenerate(text: str) -> str:
    """The page ``text`` with its generated blocks as they are now."""
    whole = PAGE.match(text)
    if whole is not None:
        return whole[0] + str(getattr(importlib.import_module(whole["module"]), whole["function"])())
    text = PAGES.sub(lambda match: match["marker"] + _listing(match["folder"]) + match["end"], text)
    return BLOCK.sub(lambda match: match["marker"] + _content(match["kind"], match["what"]) + match["end"], text)


def _listing(folder: str) -> str:
    """One line a page of ``docs/<folder>``, in the order of their titles."""
    found = sorted((_title(page), page.name) for page in (REPOSITORY / "docs" / folder).glob("*.md"))
    return "".join(f"- [{title}]({folder}/{name})\n" for title, name in found)


def _title(page: Path) -> str:
    lines = page.read_text(encoding="utf-8").splitlines()
    return next(line.removeprefix("# ") for line in lines if line.startswith("# "))


@cache
def _content(kind: str, what: str) -> str:
    if kind == "docstring":
        return f"{inspect.getdoc(importlib.import_module(what))}\n"
    if kind == "content":
        return (REPOSITORY / what).read_text(encoding="utf-8")
    program, *arguments = shlex.split(what)
    if program != "harness":
        raise SystemExit(f"'{what}' is not a command of harness")
    environment = {**os.environ, "COLUMNS": "100", "TERMINAL_WIDTH": "100", "NO_COLOR": "1"}
    output = subprocess.run(
        [*HARNESS, *arguments],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return "\n".join(line.rstrip() for line in output.strip().splitlines()) + "\n"


if __name__ == "__main__":
    sys.path.insert(0, str(REPOSITORY))
    for page in pages():
        before = page.read_text(encoding="utf-8")
        after = regenerate(before)
        if after != before:
            page.write_text(after, encoding="utf-8")
            sys.stdout.write(f"{page.relative_to(REPOSITORY)}\n")
