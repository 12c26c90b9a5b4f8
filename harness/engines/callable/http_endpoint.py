"""``http:url=…;ids=…``: any endpoint that answers a question with JSON.

Small JSON paths locate ids, scores and texts in an answer: dotted names, ``[*]`` for every element, ``[n]`` for a
single element, ``["odd.name"]`` for any name. ``results[*].id`` gives the id of each element; a path that ends at a
list means its elements; it may begin with ``$.``. An empty path is the whole document. Nothing is skipped: a missing
value is an error, an empty list is not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from harness.data.field_paths import field_of
from harness.data.filtering import NO_FILTER, Conditions
from harness.engines.callable.answers import PLAIN, Answer, HitContent, read_answer
from harness.errors import UsageError
from harness.plain_url import HIDDEN, PLAIN_FORM, is_plain_url, names_secret, without_secrets
from harness.remote.calls import Limits, RemoteCalls

__all__ = ["HTTP_OPTIONS", "HttpBackend", "HttpSettings", "JsonPath"]

HTTP_OPTIONS: Mapping[str, str] = {
    "url": "the address; {question}, {k} and {filter.FIELD} are replaced by the question, k and the value of a field "
    "in the question's filter, percent-encoded",
    "ids": "JSON path to the ids of the hits, best first",
    "scores": "JSON path to their scores",
    "texts": "JSON path to their texts",
    "field": "JSON path to the values that --match field:NAME compares; by default that field next to each id",
    "method": "GET, or POST if there is a body",
    "body": "the JSON that is sent, with {question} and {filter.FIELD} inside strings and {k} as a number",
    "key_env": "environment variable that holds a key",
    "key_header": "header that carries the key: Authorization, as a bearer token (default)",
    "timeout_s": "seconds that one call may take: 30",
    "retry_s": "seconds during which a call that fails is made again: 10",
    "per_minute": "most calls in a minute; 0, no limit",
}
_PLACEHOLDER = re.compile(r"\{(\w*)\}")
_FILTER = re.compile(r"\{filter\.([^{}]+)\}")
_QUESTION, _K = "{question}", "{k}"
_METHODS = ("GET", "POST")
_NUMBER = re.compile(r"\d+(\.\d+)?")
_HIDDEN_FROM = 4
"""Shorter values of a query string are not hidden in the server's messages: they are numbers and switches."""
_UNUSABLE = "check its answers and the JSON paths: ids=, scores=, texts="
_STEP = re.compile(r'\.?(?P<name>[^\s.|\[\]"$]+)|\[(?P<index>\*|-?\d+)\]|\[(?P<quoted>"(?:[^"\\]|\\.)*")\]')
_WILDCARD = "*"
_MAX_FIELDS = 8


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A parsed path. ``steps`` are names (str), positions (int), or None for every element."""

    text: str
    steps: tuple[str | int | None, ...]

    @classmethod
    def parse(cls, text: str) -> JsonPath:
        """Parse a path; raises UsageError for a malformed path, with the position of the error."""
        steps: list[str | int | None] = []
        position = 1 if text.startswith("$") else 0
        while position < len(text):
            match = _STEP.match(text, position)
            if match is None:
                raise UsageError(
                    f"the JSON path '{text}' is malformed at '{text[position:]}'",
                    fix='write one like results[*].id, an odd name as ["odd.name"]',
                )
            name, index, quoted = match.group("name", "index", "quoted")
            if index is not None:
                steps.append(None if index == _WILDCARD else int(index))
            else:
                steps.append(name if name is not None else str(json.loads(quoted)))
            position = match.end()
        return cls(text, tuple(steps))

    def find(self, document: Any) -> list[Any]:
        """Return the values that the path leads to, in order; raises ValueError naming a missing part."""
        matches: list[tuple[str, Any]] = [("the answer", document)]
        for step in self.steps:
            matches = [match for location, value in matches for match in _step(location, value, step)]
        if None not in self.steps and len(matches) == 1 and isinstance(matches[0][1], list):
            return list(matches[0][1])
        return [value for _, value in matches]


def _step(location: str, value: Any, step: str | int | None) -> list[tuple[str, Any]]:
    if isinstance(step, str):
        if not isinstance(value, dict):
            raise ValueError(f"{location} is {_kind(value)}, and '{step}' was looked for in it")
        if step not in value:
            fields = ", ".join(list(value)[:_MAX_FIELDS]) or "nothing"
            raise ValueError(f"{location} has no '{step}' (there is: {fields})")
        return [(f"'{step}' of {location}", value[step])]
    if not isinstance(value, list):
        raise ValueError(f"{location} is {_kind(value)}, expected a list")
    if step is None:
        return [(f"element {position} of {location}", element) for position, element in enumerate(value)]
    if not -len(value) <= step < len(value):
        raise ValueError(f"{location} has {len(value)} elements, and [{step}] was looked for")
    return [(f"element {step} of {location}", value[step])]


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "a string", type(None): "null", bool: "true or false"}
    return kinds.get(type(value), "a number")


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """An endpoint. ``base`` is plain; ``target``, a template, follows it.

    ``login`` and the ``fixed`` values of the query and the body, by name, are never shown.

    ``body`` is the unchanged template, None if there is no body.
    """

    base: str
    target: str
    ids: JsonPath
    scores: JsonPath | None
    texts: JsonPath | None
    method: str
    body: str | None
    key_env: str
    key_header: str
    limits: Limits
    login: tuple[str, str] | None
    fixed: tuple[tuple[str, str], ...]
    field: JsonPath | None = None

    @property
    def filter_fields(self) -> tuple[str, ...]:
        """The fields of filters that are sent, in their order."""
        return tuple(dict.fromkeys(_FILTER.findall(self.target) + _FILTER.findall(self.body or "")))

    @classmethod
    def of(cls, options: Mapping[str, str]) -> HttpSettings:
        """Read the values of :data:`HTTP_OPTIONS`; raises UsageError, never repeating a password."""
        for name in ("url", "ids"):
            if not options.get(name):
                raise UsageError(
                    f"an HTTP endpoint needs {name}=",
                    fix="write http:url=http://HOST/search?q={question}&k={k};ids=results[*].id",
                )
        base, target, login, fixed = _split(options["url"])
        body = options.get("body")
        method = options.get("method", "GET" if body is None else "POST").upper()
        if method not in _METHODS:
            raise UsageError(f"method={method}: no such choice", fix="known: GET, POST")
        if body is not None:
            _filled(body, "question", 1, _AnyFilter())
        if _QUESTION not in target and _QUESTION not in (body or ""):
            raise UsageError(
                f"the endpoint '{base}' is not told the question", fix="put {question} into url=, or into body="
            )
        optional = ("scores", "texts", "field")
        paths = {name: JsonPath.parse(options[name]) if options.get(name) else None for name in optional}
        limits = Limits(
            timeout_s=_seconds(options, "timeout_s", 30.0),
            retry_s=_seconds(options, "retry_s", 10.0),
            per_minute=_seconds(options, "per_minute", 0.0),
        )
        return cls(
            base=base,
            target=target,
            ids=JsonPath.parse(options["ids"]),
            scores=paths["scores"],
            texts=paths["texts"],
            method=method,
            body=body,
            key_env=options.get("key_env", ""),
            key_header=options.get("key_header", "Authorization"),
            limits=limits,
            login=login,
            fixed=(*fixed, *_fixed_texts(body)),
            field=paths["field"],
        )


class HttpBackend:
    """One call per question; transient failures are repeated as in :class:`harness.remote.calls.RemoteCalls`."""

    notes: tuple[str, ...] = ()

    def __init__(
        self, settings: HttpSettings, calls: RemoteCalls | None = None, *, content: HitContent = PLAIN
    ) -> None:
        """Prepare calls; ``calls`` is for tests. Raises EngineUnavailableError for a key that cannot be sent.

        ``content`` is the content of hits that is matched besides their ids.
        """
        self._settings, self._content = settings, content
        self._calls = calls or RemoteCalls(
            settings.base,
            key_env=settings.key_env,
            limits=settings.limits,
            key_header=settings.key_header,
            login=settings.login,
            secrets=[value for name, value in settings.fixed if names_secret(name)],
            fixed_values=[value for _, value in settings.fixed],
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._calls.close()

    @property
    def repeated(self) -> int:
        """Return the number of repeated calls."""
        return self._calls.repeated

    def retrieve(self, question: str, k: int, conditions: Conditions = NO_FILTER) -> Answer:
        """Query the endpoint; raises EngineUnavailableError if it cannot be reached, refuses, or is not understood.

        ``conditions`` have a value of each field that the endpoint is sent.
        """
        settings = self._settings
        path = _put_values(settings.target.replace(_K, str(k)), question, conditions, encoded=True)
        body = _filled(settings.body, question, k, conditions) if settings.body is not None else None
        return self._calls.request(settings.method, path, body, self._read, remedy=_UNUSABLE)

    def _read(self, content: Any) -> Answer:
        settings = self._settings
        ids = settings.ids.find(content)
        columns = {"scores": settings.scores, "texts": settings.texts, "field": settings.field}
        values_of = {name: path.find(content) for name, path in columns.items() if path is not None}
        for name, values in values_of.items():
            if len(values) != len(ids):
                raise ValueError(f"{len(ids)} ids and {len(values)} {name}")
        empty: list[Any] = [None] * len(ids)
        fields = values_of.get("field") or self._fields(content, len(ids))
        lines = "\n".join(text for text in (*ids, *fields) if isinstance(text, str))
        if self._calls.hide(lines) != lines:
            raise ValueError("the ids repeat a key, password or token that was sent")
        texts = values_of.get("texts", empty)
        values_of["texts"] = [self._calls.hide(text) if isinstance(text, str) else text for text in texts]
        rows = zip(ids, values_of.get("scores", empty), values_of.get("texts", empty), fields, strict=True)
        hits = [
            {"id": document_id, "score": score, "text": text, **({self._content.field: value} if value else {})}
            for document_id, score, text, value in rows
        ]
        return read_answer(hits, self._content)

    def _fields(self, content: Any, count: int) -> list[Any]:
        """Return the compared field of each hit, from the innermost object around its id that has the field."""
        steps, name = self._settings.ids.steps, self._content.field
        if name:
            inside = max((position for position, step in enumerate(steps) if step is None), default=-1) + 1
            for end in range(len(steps) - 1, inside - 1, -1):
                hits = JsonPath("", steps[:end]).find(content)
                values = [field_of(hit, name) if isinstance(hit, dict) else None for hit in hits]
                if len(values) == count and any(value is not None for value in values):
                    return values
        return [None] * count


def _split(url: str) -> tuple[str, str, tuple[str, str] | None, tuple[tuple[str, str], ...]]:
    """Return the plain base of a URL, the template after it, a login, and the fixed values of its query."""
    parts = urlsplit(url)
    user, separator, host = parts.netloc.rpartition("@")
    base = f"{parts.scheme}://{host}"
    if not is_plain_url(base) or parts.fragment:
        visible_url = without_secrets(url) if "//" in url or "@" not in url else f"{HIDDEN}@{url.rpartition('@')[2]}"
        raise UsageError(
            f"the url '{visible_url}' is not of the form {PLAIN_FORM}[?QUERY]",
            fix="percent-encode special characters in user names, passwords and the query",
        )
    unknown = [name for name in _PLACEHOLDER.findall(url) if name not in ("question", "k")]
    if unknown:
        raise UsageError(
            f"the url has the unknown placeholder {{{unknown[0]}}}",
            fix="known: {question}, {k}, and {filter.FIELD} for a field of the questions' filters",
        )
    stray = re.search(r";\s*(\w+)\s*=", url)
    if stray is not None:
        raise UsageError(
            f"'{stray[1]}' is not an option of an HTTP endpoint",
            fix=f"known: {', '.join(HTTP_OPTIONS)}; in a URL, ; is %3B",
        )
    name, _, password = user.partition(":")
    login = (unquote(name), unquote(password)) if separator else None
    query = f"?{parts.query}" if parts.query else ""
    values = [
        (name, value)
        for name, value in parse_qsl(parts.query)
        if not (_PLACEHOLDER.search(value) or _FILTER.search(value))
    ]
    return base, f"{parts.path}{query}", login, tuple(pair for pair in values if len(pair[1]) >= _HIDDEN_FROM)


class _AnyFilter(dict[str, str]):
    """A filter for trying a template: each field has a value."""

    def __missing__(self, field: str) -> str:
        return field


def _put_values(template: str, question: str, conditions: Conditions, *, encoded: bool = False) -> str:
    """Replace the placeholders of a text at once: a question or a value may hold the text of a placeholder."""

    def value(match: re.Match[str]) -> str:
        plain = question if match["field"] is None else conditions[match["field"]]
        return quote(plain, safe="") if encoded else plain

    return re.sub(rf"{re.escape(_QUESTION)}|\{{filter\.(?P<field>[^{{}}]+)\}}", value, template)


def _filled(template: str, question: str, k: int, conditions: Conditions) -> Any:
    """Fill in the body for one question: JSON first, so that nothing in a question can change its shape."""
    try:
        parsed = json.loads(template.replace(_K, str(k)))
    except json.JSONDecodeError as error:
        raise UsageError(
            f"body= is not JSON: {error.msg} in column {error.colno}",
            fix='write it like {"query": "{question}", "limit": {k}}, as the last option',
        ) from error
    return _put(parsed, question, conditions)


def _fixed_texts(body: str | None) -> tuple[tuple[str, str], ...]:
    """Return the texts of a body that are the same for every question, with their names: any may be a token."""
    pending: list[tuple[str, Any]] = [] if body is None else [("", json.loads(body.replace(_K, "1")))]
    texts = []
    while pending:
        name, value = pending.pop()
        varies = isinstance(value, str) and (_QUESTION in value or _FILTER.search(value) is not None)
        if isinstance(value, str) and not varies and len(value) >= _HIDDEN_FROM:
            texts.append((name, value))
        elif isinstance(value, dict):
            pending.extend(value.items())
        elif isinstance(value, list):
            pending.extend((name, part) for part in value)
    return tuple(texts)


def _put(value: Any, question: str, conditions: Conditions) -> Any:
    if isinstance(value, str):
        return _put_values(value, question, conditions)
    if isinstance(value, list):
        return [_put(part, question, conditions) for part in value]
    if isinstance(value, dict):
        return {name: _put(part, question, conditions) for name, part in value.items()}
    return value


def _seconds(options: Mapping[str, str], name: str, default: float) -> float:
    text = options.get(name)
    if text is None:
        return default
    if not _NUMBER.fullmatch(text):
        raise UsageError(f"{name}={text} is not a number of 0 or more", fix=f"write {name}={default:g}")
    return float(text)
