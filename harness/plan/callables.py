"""Backends that are a user's own code: ``python:MODULE:FUNCTION``, ``http:url=…;ids=…``, a framework's retriever.

They index nothing: a comparison or a check sends them every query, and knows their documents only by the answers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.data.filtering import Conditions
from harness.engines.callable.frameworks import FRAMEWORKS
from harness.engines.callable.http_endpoint import HTTP_OPTIONS, HttpSettings
from harness.engines.callable.python_callable import with_filter
from harness.errors import EngineUnavailableError, UsageError
from harness.plain_url import HIDDEN, without_secrets

Function = Callable[..., object]
CALLABLE_KINDS = ("python", "http", *FRAMEWORKS)
"""First words of the expressions that :func:`parse_callable` reads."""
CALLABLE_FORMS = (
    "python:MODULE:FUNCTION, http:url=…;ids=…, langchain:MODULE:RETRIEVER, llamaindex:…, haystack:… or pyterrier:…"
)
NAME = r"[\w.][\w. -]*"
"""The form of a name that a backend of a check may be given."""
LABEL = r"[\w.-]+"
"""The form of a comparison, whose expressions are looser: a fusion's hold several backends."""
_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


@dataclass(frozen=True, slots=True)
class CallableSpec:
    """A function, a framework's retriever, or an endpoint.

    Attributes:
        expression: As written, without possible secrets.
        label: The expression, of an endpoint its address.
        target: ``module:name`` of a function or retriever; empty for an endpoint.
        framework: Whose retriever the target is; empty for a plain function.
        id_key: The field of a document's metadata that holds its id; empty for the document's own id.
        http: The endpoint; None for code in Python.
        function: The function itself, if it was given as an object: the expression only names it.
    """

    expression: str
    label: str
    target: str = ""
    framework: str = ""
    id_key: str = ""
    http: HttpSettings | None = None
    function: Function | None = field(default=None, compare=False)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the notes needed to repeat the command."""
        hidden = (
            f"{HIDDEN} in its command replaces text that could be secret (user name, password, query, body): write "
            "it in again before you repeat the command; a key can come from the environment, key_env="
        )
        return (hidden,) if HIDDEN in self.expression else ()


def parse_callable(text: str) -> CallableSpec | None:
    """Parse an expression; None if it begins with another word, or has nothing after it.

    Raises UsageError for a malformed expression, without repeating possible secrets.
    """
    kind, _, rest = text.partition(":")
    if kind not in CALLABLE_KINDS or not rest:
        return None
    visible_text = without_secrets(text)
    if kind == "http":
        return _endpoint(rest, visible_text)
    path, *options = rest.split(";") if kind in FRAMEWORKS else [rest]
    target, id_key = _target(kind, path.strip(), visible_text), _id_key(kind, options)
    return CallableSpec(visible_text, visible_text, target, kind if kind in FRAMEWORKS else "", id_key)


def refuse_unsent_filters(
    called: CallableSpec, ids: Iterable[str], filters: Iterable[Conditions], *, required: bool = True
) -> None:
    """Refuse filters that a backend is not sent, before anything runs; code that a worker imports is left to it.

    Args:
        called: The backend.
        ids: The ids of the questions.
        filters: The conditions of each question, empty without a filter.
        required: Whether all conditions have to be sent; otherwise only the fields that are sent need a value.

    Raises:
        UsageError: An endpoint has no placeholder for a field, or a placeholder without a value; a function that was
            given as an object takes no filter.
    """
    filters = list(filters)
    if called.function is not None and required and any(filters):
        try:
            with_filter(called.function, called.target)
        except EngineUnavailableError as error:
            raise UsageError(error.problem, fix=error.fix) from error
    if called.http is None:
        return
    sent = called.http.filter_fields
    for question, conditions in zip(ids, filters, strict=True):
        for name, value in conditions.items():
            if required and name not in sent:
                raise UsageError(
                    f"question '{question}' has the filter {name}={value}, which is not sent to '{called.label}'",
                    fix=f"put {{filter.{name}}} into url=, or into a string of body=",
                )
        for name in sent:
            if name not in conditions:
                raise UsageError(
                    f"'{called.label}' is sent {{filter.{name}}}, and question '{question}' has no filter by '{name}'",
                    fix="give each question a value of it, or check the questions without a filter separately, "
                    "without the placeholder",
                )


def function_expression(function: Function) -> str:
    """Return an expression that names a function, or another callable, which was given as an object."""
    module = getattr(function, "__module__", None) or type(function).__module__
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"python:{module}:{name.replace('<', '').replace('>', '')}"


def with_names(
    backends: str | Function | Sequence[str | Function] | Mapping[str, str | Function], keyword: str
) -> list[tuple[str, str | Function]]:
    """Return the backends of an argument in Python, each with its name, "" without a name.

    Raises UsageError for two functions that differ only in their names; ``keyword`` is the argument's.
    """
    if isinstance(backends, Mapping):
        return [(str(name), backend) for name, backend in backends.items()]
    backend_list = [backends] if isinstance(backends, str) or callable(backends) else backends
    functions: dict[str, Function] = {}
    for function in filter(callable, backend_list):
        expression = function_expression(function)
        if functions.setdefault(expression, function) is not function:
            fix = f'name them: {keyword}={{"a": f, "b": g}}'
            raise UsageError(f"two functions are called '{expression}'", fix=fix)
    return [("", backend) for backend in backend_list]


def labelled_expression(name: str, backend: str | Function, form: str) -> str:
    """Return a backend as written, after ``NAME=`` if it has a name; raises UsageError for another ``form``."""
    expression = function_expression(backend) if callable(backend) else backend
    if name and not re.fullmatch(form, name):
        allowed = "letters, digits, spaces and . _ -" if " " in form else "letters, digits and . _ -"
        raise UsageError(f"'{name}' is not the name of a backend", fix=f"{allowed} will do")
    return f"{name}={expression}" if name else expression


def _endpoint(rest: str, visible_text: str) -> CallableSpec:
    if rest.startswith("//"):
        fix = "write http:url=http://HOST/search?q={question}&k={k};ids=results[*].id"
        raise UsageError(f"'{visible_text}' is a URL without the location of the ids in its answers", fix=fix)
    options = _http_options(rest)
    settings = HttpSettings.of(options)
    option_texts = [f"{key}={HIDDEN if key == 'body' else without_secrets(value)}" for key, value in options.items()]
    label = f"http:{settings.base}{settings.target.partition('?')[0]}"
    return CallableSpec(f"http:{';'.join(option_texts)}", label, http=settings)


def _target(kind: str, text: str, visible_text: str) -> str:
    """Return ``MODULE:NAME``; raise UsageError for another form, with the form that is meant."""
    if _TARGET.fullmatch(text):
        return text
    argument = "FUNCTION" if kind == "python" else "RETRIEVER"
    module, dot, name = text.rpartition(".")
    meant = f"{module}:{name}"
    example = meant if dot and _TARGET.fullmatch(meant) else f"my_app:{'search' if kind == 'python' else 'retriever'}"
    raise UsageError(
        f"'{visible_text}' names no {argument.lower()}", fix=f"write {kind}:MODULE:{argument}, as {kind}:{example}"
    )


def _id_key(kind: str, options: Sequence[str]) -> str:
    """Return the value of ``id_key=``, the only option of a framework's retriever; "" without it."""
    values = [option.partition("=") for option in options]
    for key, equals, value in values:
        if key.strip() != "id_key" or not equals or not value.strip():
            raise UsageError(
                f"'{key.strip()}' is not an option of {kind}:MODULE:RETRIEVER",
                fix="known: id_key=FIELD, the field of a document's metadata that holds its id",
            )
    if len(values) > 1:
        raise UsageError(f"id_key of {kind}:MODULE:RETRIEVER is given twice", fix="keep one")
    return values[0][2].strip() if values else ""


def _http_options(text: str) -> dict[str, str]:
    """Parse ``key=value;key=value``; a value ends only before another known key: URLs may hold anything."""
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
