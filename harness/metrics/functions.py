"""Metrics that are plain NumPy functions of the grades of one query."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from harness.errors import MetricError
from harness.metrics.judged import NO_CUTOFF, Arguments, JudgedHits, Out
from harness.metrics.kind import Cutoff, Kernel, Kind, Parameter
from harness.registry.foreign_code import line_of

GradesFunction = Callable[..., float]
"""``function(grades, ideal, k, **parameters) -> float``, see :func:`metric`."""

_POSITIONAL = ("grades", "ideal", "k")
_POSITIONAL_KINDS = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_HOW = "write it like def name(grades, ideal, k=None, *, parameter=1.0), where k and parameters may be missing"


class QueryFaultError(Exception):
    """A metric's mistake and the number of the query that it concerns; None if the query is not known."""

    def __init__(self, query: int | None, problem: str) -> None:
        self.query, self.problem = query, problem
        super().__init__(problem)


def metric(
    function: GradesFunction,
    *,
    aliases: Sequence[str] = (),
    bounded: bool = True,
    range: str = "0 to 1",  # noqa: A002 - the column of the table of metrics
    source: str = "",
) -> Kind:
    """Return the row of the table of metrics for a NumPy function of one query's grades.

    The function is called as ``function(grades, ideal, k)``. ``grades`` (int64, or float64 if the judgments are
    real-valued) are the grades of the returned documents, best rank first, cut at ``k``; a document without a judgment,
    or with a negative grade, has grade 0. ``ideal`` (of the same type) are all grades of the query, highest first,
    uncut. ``k`` is the cutoff, None if none was written. The function returns a finite number; higher is better. A
    query without hits, or without a grade of at least 1 (of ``rel``, if that is a parameter), has the value 0, and
    the function is not called for it.

    Names of the first three arguments are free. Without a third the metric takes no cutoff; without a default for it
    the metric needs one. Keyword arguments with a number as default are parameters, ``Name(p=0.9)@10``; ``rel`` is the
    lowest relevant grade, which follows ``--relevance``. There is at most one besides ``rel``. If it is called ``max``,
    it is the highest grade of the scale: judgments with a higher grade are refused.

    Args:
        function: the first line of its docstring says what it measures, the rest gives the formula.
        aliases: other names that are accepted.
        bounded: whether a higher grade that moves up never makes the value fall (or never makes it rise), so that the
            best and the worst order of equal scores give the range that ties allow. Without it no range is shown.
        range: the least and the highest value, for people.
        source: where the formula was published.

    Raises:
        MetricError: the signature is another.
    """
    name = getattr(function, "__name__", type(function).__name__)
    cutoff, parameters = _signature(name, function)
    summary, _, formula = (inspect.getdoc(function) or "").partition("\n")
    return Kind(
        name,
        _PerQuery(function, cutoff != "none", parameters),
        summary.strip().rstrip("."),
        " ".join(formula.split()) or "see its source",
        source,
        cutoff,
        bounded=bounded,
        parameters=parameters,
        aliases=tuple(aliases),
        range=range,
    )


def guarded(kernel: Kernel) -> Kernel:
    """Return a kernel that raises :class:`QueryFaultError` for any exception of the given kernel."""

    def call(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
        call_foreign(None, kernel, judged, arguments, out)

    return call


def call_foreign(query: int | None, function: Callable[..., Any], *arguments: object, **parameters: object) -> Any:
    """Call the code of another package for a query; raises :class:`QueryFaultError` for any exception."""
    try:
        return function(*arguments, **parameters)
    except QueryFaultError:
        raise
    except Exception as error:
        raise QueryFaultError(query, f"it raised {type(error).__name__}: {error}{line_of(error)}") from error


class _PerQuery:
    """A kernel that calls a function for every query with hits and with a relevant document."""

    def __init__(self, function: GradesFunction, takes_cutoff: bool, parameters: Sequence[Parameter]) -> None:
        self._function, self._takes_cutoff, self._parameters = function, takes_cutoff, parameters

    def __call__(self, judged: JudgedHits, arguments: Arguments, out: Out) -> None:
        """Fill ``out``; raises :class:`QueryFaultError`."""
        keywords = {parameter.name: _value(parameter, arguments) for parameter in self._parameters}
        k = None if arguments.cutoff == NO_CUTOFF else arguments.cutoff
        positional = (k,) if self._takes_cutoff else ()
        relevant = keywords.get("rel", 1)
        for query in range(len(out)):
            ideal = np.maximum(judged.ideal[judged.indptr[query] : judged.indptr[query + 1]], 0).astype(_wide(judged))
            if judged.retrieved[query] and len(ideal) and ideal[0] >= relevant:
                grades = _grades(judged, query, arguments.cutoff)
                out[query] = _number(query, call_foreign(query, self._function, grades, ideal, *positional, **keywords))
            else:
                out[query] = 0.0


def _wide(judged: JudgedHits) -> type[np.int64] | type[np.float64]:
    return np.float64 if judged.ideal.dtype.kind == "f" else np.int64


def _grades(judged: JudgedHits, query: int, cutoff: int) -> npt.NDArray[Any]:
    """Return the grades of the first ``cutoff`` hits by rank, 0 for hits without a judgment."""
    grades = np.zeros(min(int(judged.retrieved[query]), cutoff), dtype=_wide(judged))
    hits = slice(judged.indptr[query], judged.indptr[query] + judged.hit_counts[query])
    within = judged.ranks[hits] <= cutoff
    grades[judged.ranks[hits][within] - 1] = np.maximum(judged.grades[hits][within], 0)
    return grades


def _value(parameter: Parameter, arguments: Arguments) -> float:
    if parameter.name == "rel":
        return arguments.level
    return int(arguments.extra) if parameter.type is int else arguments.extra


def _number(query: int, value: object) -> float:
    array = np.asarray(value)
    if array.ndim or array.dtype.kind not in "buif":
        shape = f"an array of shape {array.shape}" if array.ndim else f"a {type(value).__name__}"
        raise QueryFaultError(query, f"it gave {shape}, expected one number")
    return float(array)


def _signature(name: str, function: GradesFunction) -> tuple[Cutoff, tuple[Parameter, ...]]:
    try:
        arguments = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise MetricError(f"metric '{name}' has no signature that can be read: {error}", fix=_HOW) from error
    positional = [argument for argument in arguments if argument.kind in _POSITIONAL_KINDS]
    keyword_only = [argument for argument in arguments if argument.kind is argument.KEYWORD_ONLY]
    if len(positional) + len(keyword_only) < len(arguments) or not 2 <= len(positional) <= len(_POSITIONAL):
        raise MetricError(f"metric '{name}' takes ({', '.join(map(str, arguments))})", fix=_HOW)
    parameters = tuple(_parameter(name, argument) for argument in keyword_only)
    if sum(parameter.name != "rel" for parameter in parameters) > 1:
        raise MetricError(f"metric '{name}' has several parameters besides rel", fix="keep one of them")
    if len(positional) < len(_POSITIONAL):
        return "none", parameters
    return ("required" if positional[-1].default is inspect.Parameter.empty else "optional"), parameters


def _parameter(name: str, argument: inspect.Parameter) -> Parameter:
    kind, default = type(argument.default), argument.default
    if kind not in (int, float) or (argument.name == "rel" and kind is not int):
        raise MetricError(f"metric '{name}': the default of {argument.name} is not a number", fix=_HOW)
    if argument.name == "rel":
        return Parameter("rel", float, default, "lowest grade that counts as relevant", minimum=0, above=True)
    return Parameter(argument.name, cast("type[int] | type[float]", kind), default, "parameter of the function")
