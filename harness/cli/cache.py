"""``harness cache``: the entries kept for re-use, whether they are intact, and how to remove them."""

from __future__ import annotations

import datetime as dt
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click
from click.exceptions import Exit

from harness.cli.output import page, print_json, print_result
from harness.cli.verb import VerbGroup, verb
from harness.cli.verbs import ExitCode
from harness.document.model import Cell, Column, Table
from harness.errors import CacheError, UsageError
from harness.plan.config import CacheRemoveRequest, CacheRequest
from harness.wording import counted

if TYPE_CHECKING:
    from harness.store.cache import JSON, Cache
    from harness.store.cache_entries import Entry


_UNITS_S = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_MEBIBYTE = 1024**2
_SHORT = 12
_DIGEST = re.compile(r"[0-9a-f]{32,}")
_COLUMNS = (
    Column("kind", numeric=False, unfolded=True),
    Column("entry", numeric=False, unfolded=True),
    Column("MiB"),
    Column("age"),
    Column("state", numeric=False),
    Column("made from", numeric=False, folds=True),
)


@verb(CacheRequest)
def _list(request: CacheRequest) -> None:
    """List the entries, the oldest of each kind first."""
    cache = _cache()
    entries = _entries_of_kind(cache, request.kind)
    if request.format == "json":
        print_json([_described(entry) for entry in entries])
    elif not entries:
        click.echo(_nothing(cache, request.kind))
    else:
        print_result(page(Table("", _COLUMNS, [_row(entry) for entry in entries])))
        click.echo(f"\n{_counted(entries)} in '{cache.root}'")


@verb(CacheRequest)
def _verify(request: CacheRequest) -> None:
    """Compare every file with its checksum.

    Damaged entries are named, and the exit code is 1 when there are any.
    """
    cache = _cache()
    entries = _entries_of_kind(cache, request.kind)
    faults = [(entry, entry.fault()) for entry in entries]
    damaged = [(entry, fault) for entry, fault in faults if fault is not None]
    if request.format == "json":
        print_json([{**_entry_names(entry), "fault": fault} for entry, fault in faults])
    elif not entries:
        click.echo(_nothing(cache, request.kind))
    else:
        for entry, fault in damaged:
            click.echo(f"damaged: {entry.kind} {entry.name[:_SHORT]} ('{entry.path}'): {fault}")
        click.echo(f"{len(damaged)} damaged" if damaged else f"{_counted(entries)}, every checksum is right")
    if damaged:
        click.echo("a damaged entry is never used: it is rebuilt when needed, or you can remove it", err=True)
        raise Exit(ExitCode.FAILED)


@verb(CacheRemoveRequest)
def _remove_chosen(request: CacheRemoveRequest) -> None:
    """Remove entries.

    Those that are named, or all that --kind and --older-than choose. What a running process builds stays, and while a
    comparison runs everything but trials stays, because its workers may read it. What is removed is made anew when it
    is needed again.
    """
    if not (request.entries or request.kind or request.older_than or request.all):
        raise UsageError("no entries are selected", fix="name entries, or use --kind, --older-than or --all")
    age_s = _age_s(request.older_than)
    cache = _cache()
    now = time.time()
    chosen_entries = _find_entries(cache, request.entries, request.kind)
    chosen = [entry for entry in chosen_entries if now - entry.made >= age_s]
    if chosen and not request.yes and not _agreed(chosen):
        click.echo("nothing was removed", err=True)
        return
    _remove(cache, chosen)


cache = VerbGroup(
    help="List, verify or remove results that earlier commands keep for re-use: prepared texts, terms, weights, "
    "vectors, scores of second stages, and the trials that `harness compare --resume` takes up.",
    verbs={"list": _list, "verify": _verify, "remove": _remove_chosen},
)


def _remove(cache: Cache, chosen: Sequence[Entry]) -> None:
    from harness.store.cache_entries import comparison_running, remove_entry, sweep

    # checked again for each: a comparison may begin in the meantime
    removed = [
        entry for entry in chosen if (entry.kind == "trials" or not comparison_running(cache)) and remove_entry(entry)
    ]
    if not comparison_running(cache):
        sweep(cache)
    click.echo(f"removed {_counted(removed)}" if removed else "nothing was removed")
    remaining = len(chosen) - len(removed)
    if remaining:
        raise CacheError(
            f"{remaining} of {len(chosen)} entries are in use and were kept", fix="try again when nothing else runs"
        )


def _find_entries(cache: Cache, prefixes: Sequence[str], kind: str | None) -> list[Entry]:
    """Return the entries of these names, else all; raises UsageError for a name of none or of several."""
    entries_of_kind = _entries_of_kind(cache, kind)
    if not prefixes:
        return entries_of_kind
    chosen: dict[str, Entry] = {}
    for prefix in prefixes:
        entries = [entry for entry in entries_of_kind if entry.name.startswith(prefix.lower())]
        if len(entries) != 1:
            problem = f"{len(entries)} entries begin" if entries else "no entry begins"
            raise UsageError(f"{problem} with '{prefix}'", fix="`harness cache list` shows their names")
        chosen[entries[0].name] = entries[0]
    return list(chosen.values())


def _agreed(chosen: Sequence[Entry]) -> bool:
    if not sys.stdin.isatty():
        raise UsageError(f"{_counted(chosen)} would be removed", fix="pass --yes if there is no terminal to ask")
    return click.confirm(f"remove {_counted(chosen)}?", err=True)


def _age_s(text: str | None) -> float:
    if text is None:
        return 0.0
    age = re.fullmatch(r"(\d+(?:\.\d+)?)([mhdw])", text.strip())
    if age is None:
        raise UsageError(f"--older-than is '{text}'", fix="write minutes, hours, days or weeks: 45m, 12h, 30d, 8w")
    return float(age[1]) * _UNITS_S[age[2]]


def _cache() -> Cache:
    from harness.store.cache import Cache

    return Cache()


def _entries_of_kind(cache: Cache, kind: str | None) -> list[Entry]:
    from harness.store.cache_entries import list_entries

    return [entry for entry in list_entries(cache) if kind is None or entry.kind == kind]


def _nothing(cache: Cache, kind: str | None) -> str:
    return f"the cache '{cache.root}' {'is empty' if kind is None else f'holds no {kind}'}"


def _counted(entries: Sequence[Entry]) -> str:
    return f"{counted(len(entries), 'entry')}, {sum(entry.bytes for entry in entries) / _MEBIBYTE:,.1f} MiB"


def _row(entry: Entry) -> list[Cell]:
    made_from = ", ".join([*([entry.about] if entry.about else []), *_words(entry.key)])
    size, age = f"{entry.bytes / _MEBIBYTE:,.1f}", _age(time.time() - entry.made)
    return [Cell(text) for text in (entry.kind, entry.name[:_SHORT], size, age, entry.state, made_from)]


def _age(seconds: float) -> str:
    for unit in ("w", "d", "h"):
        if seconds >= 2 * _UNITS_S[unit]:
            return f"{seconds / _UNITS_S[unit]:.0f}{unit}"
    return f"{max(seconds, 0.0) / _UNITS_S['m']:.0f}m"


def _words(key: Mapping[str, JSON]) -> Iterator[str]:
    """Yield the plain values of a key, digests cut short; nested values are in the JSON output."""
    for name, value in key.items():
        if name != "scheme" and isinstance(value, str | int | float):
            text = str(value)
            part = "".join(text.partition("/")[1:])  # of a sample
            yield f"{name}={text[:_SHORT] + part if _DIGEST.match(text) else text}"


def _entry_names(entry: Entry) -> dict[str, str]:
    return {"kind": entry.kind, "entry": entry.name, "path": str(entry.path)}


def _described(entry: Entry) -> dict[str, object]:
    made = dt.datetime.fromtimestamp(entry.made, dt.UTC).isoformat(timespec="seconds")
    facts = {"bytes": entry.bytes, "made": made, "state": entry.state, "about": entry.about}
    return {**_entry_names(entry), **facts, "key": entry.key}
