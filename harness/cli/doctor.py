"""The verb ``doctor``: is everything here that a comparison needs?"""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.app import ExitCode
from harness.cli.cards import CardFormat, FormatOption
from harness.cli.plain import wrapped

if TYPE_CHECKING:
    from harness.doctor import Finding

__all__ = ["doctor"]

_STATE, _NAME = 6, 16


def doctor(
    url: Annotated[
        str, typer.Option("--url", metavar="URL", help="A Qdrant server to look at; default: HARNESS_QDRANT_URL.")
    ] = "",
    chroma_url: Annotated[
        str,
        typer.Option("--chroma-url", metavar="URL", help="A Chroma server to look at; default: HARNESS_CHROMA_URL."),
    ] = "",
    output: FormatOption = CardFormat.TABLE,
    remove_left: Annotated[
        bool,
        typer.Option(
            "--remove-left-collections",
            help="Only remove what killed comparisons left on the servers; asks first, after naming each.",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --remove-left-collections: do not ask.")] = False,
) -> None:
    """Look whether everything is here that a comparison needs: Python, engines, Java, servers, memory, disk, cache.

    Ends with 3 when something is broken that a comparison with the default backends needs.
    """
    if remove_left:
        _remove_left(url, chroma_url, yes=yes)
        return
    from harness.doctor import State, examine

    findings = examine(url, chroma_url=chroma_url)
    if output is CardFormat.JSON:
        typer.echo(json.dumps([{**one._asdict(), "state": one.state.value} for one in findings], indent=2))
    else:
        typer.echo("\n".join(line for one in findings for line in _lines(one)))
        counted = Counter(one.state for one in findings)
        typer.echo("\n" + ", ".join(f"{counted[state]} {state.value}" for state in State))
    if any(one.state is State.FAIL for one in findings):
        raise typer.Exit(ExitCode.UNAVAILABLE)


def _remove_left(url: str, chroma_url: str, *, yes: bool) -> None:
    """Of the servers that are named; without any name, Qdrant's says how to name one."""
    from harness.doctor import chroma, servers

    named = {
        servers: (url, bool(url) or servers.URL_VARIABLE in os.environ),
        chroma: (chroma_url, bool(chroma_url) or chroma.URL_VARIABLE in os.environ),
    }
    if not any(there for _, there in named.values()):
        named[servers] = ("", True)
    left = {place: place.left_collections(where) for place, (where, there) in named.items() if there}
    count = sum(map(len, left.values()))
    if not count:
        typer.echo("no collection that harness made is on the server")
        return
    typer.echo("\n".join(name for names in left.values() for name in names))
    if not yes:
        typer.echo("those of comparisons that run now, and those that were kept, are among them", err=True)
        if not typer.confirm(f"remove {count}?", err=True):
            return
    for place, names in left.items():
        place.remove_collections(named[place][0], names)
    typer.echo(f"{count} removed", err=True)


def _lines(one: Finding) -> list[str]:
    indent = " " * (_STATE + _NAME)
    lines = wrapped(one.detail, indent, first=f"{one.state.value:<{_STATE}}{one.name:<{_NAME}}")
    return lines + (wrapped(one.remedy, f"{indent}  ", first=f"{indent}→ ") if one.remedy else [])
