"""Names of an engine's base classes that its class may not use for anything else.

The harness calls ``engine.index(…)`` and the like. An engine that overrides such a method loses its checks and times,
and an engine that keeps its library's index as ``self.index`` fails with an error that names neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from inspect import get_annotations, getattr_static
from typing import NamedTuple

from harness.errors import CardError

_FAMILY = frozenset({"harness.engines.base", "harness.engines.changeable", "harness.engines.interface"})
"""Modules of the base classes, which implement these names."""
_FINAL: Mapping[str, str] = {
    "absent_rows": "call it in 'load'",
    "apply": "implement 'change'",
    "arrays": "implement 'columns'",
    "attach": "implement 'open_external'",
    "check_card": "refuse input in 'check'",
    "close": "register a function to call then: self.resources.callback(function)",
    "folder": "the hooks get the folder as an argument",
    "index": "write the index in 'build'",
    "loaded": "return the index that 'load' opened as a LoadedIndex",
    "open": "start the library in 'info', and open an index in 'load'",
    "restrict": "implement 'filter'",
    "search": "implement 'retrieve', or 'search_prepared' for several queries in one call",
    "storage": "implement 'size'",
    "use": "call it with the client",
}
"""Methods that an engine may not override, and the alternative."""
_STATE = frozenset({"parameters", "resources", "finished", "ids", "deleted", "opened", "dropped", "change_number"})
"""Attributes that the base classes assign."""
ASSIGNED_ONCE = frozenset({"parameters", "resources", "finished", "ids", "deleted", "_folder", "_loaded"})
"""Attributes that the constructor assigns."""


class ReservedName(NamedTuple):
    """A name of the base classes: its kind, and whether an engine may override it."""

    kind: str
    final: bool


def reserved_names(engine: type) -> dict[str, ReservedName]:
    """Return the names of the base classes of ``engine`` that its instances may not assign."""
    names = {}
    for base in reversed(engine.__mro__):
        if base.__module__ not in _FAMILY:
            continue
        for name, member in vars(base).items():
            private = name.startswith("_") and not name.startswith("__")
            if name in _STATE or (private and not callable(member)):
                names[name] = ReservedName("attribute", final=True)
            elif name == "client":
                names[name] = ReservedName("attribute", final=False)
            elif callable(member) or isinstance(member, property | classmethod):
                names[name] = ReservedName("method", final=private or name in _FINAL)
    names |= dict.fromkeys(ASSIGNED_ONCE, ReservedName("attribute", final=True))
    return {name: reserved for name, reserved in names.items() if not name.startswith("__")}


def require_free_names(engine: type) -> None:
    """Raise CardError if an engine's class overrides a reserved method, or hides a method with something else."""
    if engine.__module__ in _FAMILY:
        return
    reserved = reserved_names(engine)
    for name, member in _declared(engine):
        if name not in reserved:
            continue
        is_method = callable(member) or isinstance(member, property | classmethod | staticmethod | cached_property)
        if reserved[name].kind == "method" and is_method:
            if reserved[name].final:
                raise CardError(
                    f"the class '{engine.__name__}' overrides '{name}', which only its base class implements",
                    fix=_FINAL.get(name) or f"choose another name for the method: '{_free(name)}'",
                )
        elif reserved[name].kind == "method" or reserved[name].final:
            raise hidden_name(engine, name, reserved[name])


def hidden_name(engine: type, name: str, reserved: ReservedName) -> CardError:
    """Return the error for an attribute of an engine that hides a name of its base classes."""
    return CardError(
        f"the class '{engine.__name__}' has an attribute '{name}', which hides the {reserved.kind} '{name}' of its "
        "base class",
        fix="call self.use(client)" if name == "client" else f"choose another name: '{_free(name)}'",
    )


def _free(name: str) -> str:
    return f"library_{name.strip('_')}"


def _declared(engine: type) -> Iterator[tuple[str, object]]:
    """Yield the names that the class and its mix-ins declare, with their values; None for a mere annotation.

    A mix-in is a base that is not an engine. Its names count if they precede the base class's.
    """
    yield from (dict.fromkeys(get_annotations(engine)) | dict(vars(engine))).items()
    for base in engine.__mro__[1:]:
        if not any(above.__module__ in _FAMILY for above in base.__mro__):
            yield from ((name, member) for name, member in vars(base).items() if _is_used(engine, name, member))


def _is_used(engine: type, name: str, member: object) -> bool:
    return getattr_static(engine, name) is member
