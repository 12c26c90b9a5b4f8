"""Reads the fenced blocks of Markdown pages, and runs those of one page in order.

As a script: ``documented.py PAGE`` runs every block of the page in the current folder. Python blocks of a page share
their names; each shell block is a bash of its own that stops at the first error, as `bash -eu` does.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Block", "blocks_of", "run"]

FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\S*)")
NOT_RUN = re.compile(r"<!-- (?:not run: (?P<reason>.+)|content of: (?P<file>.+)) -->")
NEEDS_SHARED = "<!-- needs ../shared/collections -->"


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, code, line, and what the comment above it says."""

    language: str
    code: str
    line: int
    not_run: str | None
    needs_shared: bool


def blocks_of(page: Path) -> list[Block]:
    """Every fenced block of a Markdown page, in order."""
    found: list[Block] = []
    lines = page.read_text(encoding="utf-8").splitlines()
    opened: tuple[int, str, str] | None = None
    for number, line in enumerate(lines):
        fence = FENCE.match(line)
        if fence is None:
            continue
        if opened is None:
            opened = (number, fence["language"], fence["indent"])
            continue
        start, language, indent = opened
        above = lines[start - 1].strip() if start else ""
        not_run = NOT_RUN.fullmatch(above)
        code = "\n".join(text.removeprefix(indent) for text in lines[start + 1 : number])
        found.append(
            Block(
                language,
                code,
                start + 1,
                (not_run["reason"] or f"it is {not_run['file']}") if not_run else None,
                above == NEEDS_SHARED,
            )
        )
        opened = None
    if opened is not None:
        raise ValueError(f"{page}:{opened[0] + 1}: a fence is never closed")
    return found


def run(page: Path, *, shared: bool) -> None:
    """Run the page's shell and Python blocks in the current folder; ends the process at the first that fails."""
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks_of(page):
        if block.not_run or (block.needs_shared and not shared):
            continue
        place = f"{page}:{block.line}"
        if block.language == "bash":
            status = subprocess.run(["bash", "-eu", "-c", block.code], check=False).returncode
            if status:
                sys.exit(f"{place} ended with {status}")
        elif block.language == "python":
            sys.stderr.write(f"{place}\n")
            exec(compile(block.code, place, "exec"), names)


if __name__ == "__main__":
    run(Path(sys.argv[1]), shared=Path("../shared/collections").is_dir())
