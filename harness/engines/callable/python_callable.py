"""``python:MODULE:FUNCTION``: any callable ``(question, k)``, sync or async, or a framework's retriever.

If questions have filters, it is called as ``(question, k, filter)``, with a mapping from fields to text.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import sys
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from harness.data.filtering import NO_FILTER, Conditions
from harness.engines.callable.answers import PLAIN, Answer, HitContent, read_answer
from harness.engines.callable.frameworks import retriever_of
from harness.errors import EngineFailureError, EngineUnavailableError, HarnessError, nearest
from harness.plain_url import without_secrets

__all__ = ["PythonBackend", "load_callable", "load_retriever"]

Result = TypeVar("Result")
_CALLED = "it is called as retrieve(question, k)"
_FILTER_NAMES = ("filter", "filters", "where", "conditions")
"""Names of an optional parameter that takes the filter of a question; a required third parameter may have any name."""
_THREE = 3
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_Filtered = Callable[[str, int, Conditions], object]


class PythonBackend:
    """A user's function. One event loop serves all calls of an async function: its clients are bound to the loop."""

    def __init__(
        self,
        function: Callable[..., object],
        name: str,
        *,
        read: Callable[[object], Answer] | None = None,
        content: HitContent = PLAIN,
        notes: tuple[str, ...] = (),
        fixed_k: int | None = None,
        takes_k: bool = True,
        filtered: bool = False,
        required: bool = True,
    ) -> None:
        """Take a function, a reader of its return values, and notes for reports.

        Without a reader, hits are read as :func:`read_answer` does, with their ``content``.
        A ``filtered`` function gets the filters of questions: see :func:`with_filter`. Unless that is ``required``, a
        function that takes no filter is called without.

        ``fixed_k`` is the number of documents that a framework's object is set to return, None if it is not set;
        ``takes_k`` is whether it accepts another number.

        Raises EngineUnavailableError if it cannot be called with a question and a number, or takes no filter.
        """
        if inspect.isclass(function) or not callable(function):
            raise EngineUnavailableError(
                f"'{name}' is {'a class' if inspect.isclass(function) else type(function).__name__}, not a function",
                fix=f"name a function or a bound method: {_CALLED}",
            )
        taking = _filtered_function(function, name, required=required) if filtered else None
        if taking is None:
            _require_two_arguments(function, name)
        self._function: _Filtered = taking or (lambda question, k, _: function(question, k))
        self._name = name
        self._read = read or partial(read_answer, content=content)
        self._notes = notes
        self._fixed_k, self._requested_k = fixed_k, fixed_k
        self._takes_k, self._most = takes_k, 0
        self._loop: asyncio.Runner | None = None
        self.repeated = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loop is not None:
            self._loop.close()

    @property
    def notes(self) -> tuple[str, ...]:
        """Return facts for reports, and whether the requested number of documents differs from its own."""
        fixed, requested = self._fixed_k, self._requested_k
        if not self._takes_k:
            note = "it takes no number of documents: of the documents that it returns as configured, the first k count"
            if requested is not None and 0 < self._most < requested:
                note = (
                    f"it takes no number of documents, and returned at most {self._most} of the {requested} requested: "
                    f"--k {self._most} measures it as configured"
                )
            return (*self._notes, note)
        if fixed is None or fixed == requested:
            return self._notes
        note = (
            f"it is configured to return {fixed} documents, and {requested} were requested: --k {fixed} measures it as "
            "configured"
        )
        return (*self._notes, note)

    def retrieve(self, question: str, k: int, conditions: Conditions = NO_FILTER) -> Answer:
        """Call the function; raises EngineFailureError for any exception, with the last lines of its traceback."""
        self._requested_k = k
        returned = _run_user_code(f"'{self._name}' raised", lambda: self._call(question, k, conditions))
        try:
            answer = self._read(returned)
        except (TypeError, ValueError) as error:
            raise EngineFailureError(f"'{self._name}' gave an answer that cannot be read: {error}") from error
        self._most = max(self._most, len(answer.ids))
        return answer

    def _call(self, question: str, k: int, conditions: Conditions) -> object:
        returned = self._function(question, k, conditions)
        if inspect.isasyncgen(returned):
            returned = _collected(returned)
        if not inspect.isawaitable(returned):
            return list(returned) if inspect.isgenerator(returned) else returned
        if self._loop is None:
            self._loop = asyncio.Runner()
        return self._loop.run(_awaited(returned))


def load_retriever(
    target: str,
    framework: str,
    id_key: str,
    content: HitContent = PLAIN,
    *,
    filtered: bool = False,
    required: bool = True,
) -> PythonBackend:
    """Import a function, or a retriever of a framework; ``framework`` is "" for a function.

    ``content`` is the content of hits that is matched besides their ids. ``filtered`` says that questions have filters.
    Raises EngineUnavailableError if they are ``required`` and it takes none, further as :func:`load_callable` and
    :func:`harness.engines.callable.frameworks.retriever_of`, and EngineFailureError if a function that makes the
    retriever fails.
    """
    target_object = load_callable(target, framework or "python")
    if not framework:
        return PythonBackend(target_object, target, content=content, filtered=filtered, required=required)
    retriever = _run_user_code(
        f"'{target}' raised", lambda: retriever_of(framework, target_object, target, id_key, content)
    )
    if filtered and required and retriever.no_filter:
        raise EngineUnavailableError(
            f"questions have filters, and '{target}' takes none: {retriever.no_filter}",
            fix="put a function around it that takes the filter: python:MODULE:FUNCTION, as (question, k, filter)",
        )
    return PythonBackend(
        retriever.call,
        target,
        read=retriever.read,
        notes=retriever.notes,
        fixed_k=retriever.fixed_k,
        takes_k=retriever.takes_k,
        filtered=filtered and not retriever.no_filter,
    )


def load_callable(target: str, scheme: str = "python") -> Callable[..., object]:
    """Import the object ``module:name``; the module is also looked for in the current folder.

    ``scheme`` is the prefix of the name, for messages.

    Raises EngineUnavailableError if it cannot be imported, with the last lines of the traceback, or has no such name.
    """
    module_name, _, path = target.partition(":")
    working_folder = str(Path.cwd())
    if working_folder not in sys.path:
        sys.path.insert(0, working_folder)
    target_object: Any = _run_user_code(
        f"the module '{module_name}' cannot be imported", lambda: importlib.import_module(module_name)
    )
    for part in path.split("."):
        if not hasattr(target_object, part):
            near = nearest(part, [name for name in dir(target_object) if not name.startswith("_")])
            raise EngineUnavailableError(
                f"'{module_name}' has no '{path}'{near}",
                fix=f"write {scheme}:MODULE:NAME, as {scheme}:my_app.search:{part}",
            )
        target_object = getattr(target_object, part)
    function: Callable[..., object] = target_object
    return function


async def _collected(hits: AsyncIterator[object]) -> list[object]:
    return [hit async for hit in hits]


async def _awaited(returned: Awaitable[Result]) -> Result:
    return await returned


def with_filter(function: Callable[..., object], name: str) -> _Filtered:
    """Return a function of a question, a number and its filter, which calls ``function`` with all three.

    The filter is the third argument if that is required or is called filter, filters, where or conditions; otherwise
    the argument of such a name. An optional argument is left out for a question without a filter. Raises
    EngineUnavailableError for a function without such an argument.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # written in C, without a signature: the call will show
        return lambda question, k, conditions: function(question, k, dict(conditions))
    positional = [parameter for parameter in parameters if parameter.kind in _POSITIONAL]
    required = [parameter for parameter in positional if parameter.default is inspect.Parameter.empty]
    rest = any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in parameters)
    if len(required) == _THREE or (len(positional) < _THREE and rest):
        return lambda question, k, conditions: function(question, k, dict(conditions))
    third = positional[2].name if len(positional) >= _THREE else None
    taking = next((one for one in parameters if one not in positional[:2] and one.name in _FILTER_NAMES), None)
    if taking is None or len(required) > _THREE:
        reason = f"its third argument is '{third}'" if third is not None else "it takes no third argument"
        raise EngineUnavailableError(
            f"questions have filters, and '{name}' does not take them: {reason}",
            fix="let it take the filter, a mapping from fields to text: retrieve(question, k, filter)",
        )

    def call(question: str, k: int, conditions: Conditions) -> object:
        if not conditions and taking.default is not inspect.Parameter.empty:
            return function(question, k)
        if taking.name == third:
            return function(question, k, dict(conditions))
        return function(question, k, **{taking.name: dict(conditions)})

    return call


def _filtered_function(function: Callable[..., object], name: str, *, required: bool) -> _Filtered | None:
    """Return what :func:`with_filter` returns; None for a function that takes no filter, unless it is ``required``."""
    try:
        return with_filter(function, name)
    except EngineUnavailableError:
        if required:
            raise
        return None


def _require_two_arguments(function: Callable[..., object], name: str) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # written in C, without a signature: the call will show
    try:
        signature.bind("question", 1)
    except TypeError as error:
        raise EngineUnavailableError(
            f"'{name}{signature}' cannot be called with a question and a number: {error}",
            fix=f"{_CALLED}; wrap it in a function with these two arguments, or name a function that makes an "
            "object of a framework: langchain:MODULE:NAME",
        ) from error


def _run_user_code(action: str, work: Callable[[], Result]) -> Result:
    """Run a user's code; raise any exception as its failure, with the last lines of the traceback."""
    try:
        return work()
    except HarnessError:
        raise
    except (Exception, SystemExit) as error:
        error_text = "".join(traceback.format_exception_only(error)).strip()
        fix = "the index was made by another model: encode questions with the model that made it"
        raise EngineFailureError(
            without_secrets(f"{action}: {error_text}"),
            fix=fix if "dimension" in error_text.lower() else None,
            log=[without_secrets(line) for line in _frames(error)],
        ) from error


def _frames(error: BaseException) -> list[str]:
    """Return the traceback's lines from the first frame that is not this module's or the import system's."""
    trace, harness_files = error.__traceback__, (__file__, importlib.__file__)
    while trace is not None and (trace.tb_frame.f_code.co_filename in harness_files or _importing(trace)):
        trace = trace.tb_next
    lines = "".join(traceback.format_tb(trace)).splitlines()
    return [line for line in lines if line.strip(" ^~")]


def _importing(trace: TracebackType) -> bool:
    return trace.tb_frame.f_code.co_filename.startswith("<frozen importlib")
