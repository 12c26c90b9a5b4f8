"""``--against`` expressions: ``[NAME=]KIND:…``, where a kind is ``python``, ``http``, or a backend with an index."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harness.engines.callable.http_endpoint import HTTP_OPTIONS, HttpSettings
from harness.errors import UsageError
from harness.plain_url import HIDDEN, without_secrets
from harness.registry.parameters import current_spelling

__all__ = ["Against", "is_name", "parse_against"]

_NAME = re.compile(r"[\w.][\w. -]*")
_NAMED = re.compile(rf"(?P<name>{_NAME.pattern})=(?=[\w.-]+:)")
_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_EXTERNAL = "external=true"


@dataclass(frozen=True, slots=True)
class Against:
    """One retriever that is there already.

    ``label`` is unique and may be shown, as may ``shown``, the expression without what could be secret. ``target`` is a
    callable's ``module:name``, ``http`` an endpoint; ``backend`` is the expression of an external index as
    ``--backends`` has it.
    """

    kind: Literal["python", "http", "index"]
    label: str
    shown: str
    target: str = ""
    http: HttpSettings | None = None
    backend: str = ""


def parse_against(expressions: Sequence[str], *, max_calls: int | None = None) -> list[Against]:
    """Every expression in order; backends are looked at no closer, that is the plan's.

    Raises UsageError for a malformed one, and for two with one label.
    """
    found = [_parse(one.strip(), max_calls) for one in expressions]
    labels = [one.label for one in found]
    for label in labels:
        if labels.count(label) > 1:
            raise UsageError(f"two retrievers are called '{label}'", fix=f"name them: --against 'mine={label}'")
    return found


def is_name(text: str) -> bool:
    """Whether ``text`` may stand as ``NAME=`` before an expression."""
    return _NAME.fullmatch(text) is not None


def _parse(text: str, max_calls: int | None) -> Against:
    named = _NAMED.match(text)
    name, expression = (named["name"].strip(), text[named.end() :]) if named is not None else ("", text)
    shown = without_secrets(expression)
    kind, colon, rest = expression.partition(":")
    if not colon or not kind or not rest:
        raise UsageError(
            f"'{shown}' names no retriever",
            fix="write python:MODULE:FUNCTION, http:url=…;ids=…, or an index as chroma:path=…;collection=…;model=…",
        )
    if kind == "python":
        if not _TARGET.fullmatch(rest):
            module, dot, function = rest.rpartition(".")
            meant = f"python:{module}:{function}"
            example = meant if dot and _TARGET.fullmatch(meant.partition(":")[2]) else "python:my_app:search"
            raise UsageError(f"'{shown}' names no function", fix=f"write python:MODULE:FUNCTION, as {example}")
        return Against("python", name or shown, _with(name, shown), target=rest)
    if kind == "http":
        if rest.startswith("//"):
            fix = "write http:url=http://HOST/search?q={question}&k={k};ids=results[*].id"
            raise UsageError(f"'{shown}' is a URL, and does not say where the ids are in its answers", fix=fix)
        options = _options(rest)
        settings = HttpSettings.of(options, max_calls=max_calls)
        listed = [f"{key}={HIDDEN if key == 'body' else without_secrets(value)}" for key, value in options.items()]
        plain = f"http:{settings.base}{settings.target.partition('?')[0]}"
        return Against("http", name or plain, _with(name, f"http:{';'.join(listed)}"), http=settings)
    parts = {current_spelling(part.strip()) for part in re.split(r"[:;]", expression)}
    backend = expression if _EXTERNAL in parts else f"{kind}:{_EXTERNAL};{rest}"
    return Against("index", name or shown, _with(name, shown), backend=backend)


def _with(name: str, shown: str) -> str:
    return f"{name}={shown}" if name else shown


def _options(text: str) -> dict[str, str]:
    """``key=value;key=value``; a value ends only where another known key begins, so that URLs may hold anything."""
    names = "|".join(HTTP_OPTIONS)
    values: dict[str, str] = {}
    for part in re.split(rf";\s*(?=(?:{names})\s*=)", text):
        key, equals, value = part.partition("=")
        key = key.strip()
        if not equals or key not in HTTP_OPTIONS:
            raise UsageError(
                f"an HTTP endpoint has no option '{without_secrets(key)}'", fix=f"known: {', '.join(HTTP_OPTIONS)}"
            )
        if key in values:
            raise UsageError(f"'{key}' of an HTTP endpoint is given twice", fix="keep one")
        values[key] = value.strip()
    return values
