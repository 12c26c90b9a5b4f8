"""Parse metrics as people write them: ``nDCG@10``, ``MAP``, ``recall_100``, ``AP(rel=2)@100``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

from harness.errors import MetricError, UnknownNameError, UsageError
from harness.metrics.kind import Kind, Parameter
from harness.metrics.measure import Metric, ParameterValue
from harness.metrics.registry import installed, kinds, spellings
from harness.metrics.table import KINDS

_SHAPE = re.compile(r"(?P<name>[^@()\s]+)\s*(?:\((?P<inside>[^()]*)\))?\s*(?:@\s*(?P<at>[^()\s]*))?")
_TREC_SHAPE = re.compile(r"(?P<name>.+?)[._](?P<at>\d*\.?\d+)")
_OFFICIAL = (
    "num_q", "num_ret", "num_rel", "num_rel_ret", "map", "gm_map",
    "Rprec", "bpref", "recip_rank", "iprec_at_recall", "P",
)  # fmt: skip


def parse_metric(text: str) -> Metric:
    """Parse one metric, by canonical name, alias or trec_eval's name; names are case-insensitive.

    Raises UnknownNameError with the nearest name, UsageError for a cutoff or parameter that does not fit, MetricError
    for a faulty metric of another package.
    """
    found = _SHAPE.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"metric '{text}' is malformed", fix="write it like nDCG@10, AP(rel=2)@100 or recall_100")
    name, at = found["name"], found["at"]
    kind: Kind | None = None
    if found["inside"] is None and at is None and name.lower() not in _names():
        kind, at = _trec_parts(name)
    kind = kind or kind_named(name)
    return Metric(kind.name, _cutoff(kind, at, text), _parameters(kind, found["inside"] or "", text))


def parse_metrics(texts: str | Iterable[str]) -> list[Metric]:
    """Parse metrics from several texts, or from one text with commas between them; repeats are dropped.

    ``nDCG@{1,3,5,10}`` stands for one measure a cutoff, as a shell would expand it. trec_eval's families (``ndcg_cut``,
    ``P``, ``recall``, ``map_cut``, ``success``, ``iprec_at_recall``) without a cutoff stand for its default cutoffs,
    and ``official`` for its default measures. Raises UsageError that names every mistake.
    """
    measures: list[Metric] = []
    mistakes: list[UsageError] = []
    for text in split_metrics(texts) if isinstance(texts, str) else texts:
        try:
            for single in _choices(text):
                measures.extend(_family(single) or [parse_metric(single)])
        except UsageError as error:
            mistakes.append(error)
    if len(mistakes) == 1:
        raise mistakes[0]
    if mistakes:
        raise UsageError("\n".join(str(mistake) for mistake in mistakes))
    if not measures:
        raise UsageError("no metric was given", fix="name at least one, like nDCG@10")
    return list(dict.fromkeys(measures))


def official_metrics() -> list[Metric]:
    """Return the metrics that trec_eval prints when no measure is named, in its order."""
    return parse_metrics(_OFFICIAL)


def split_metrics(text: str) -> list[str]:
    """Split at commas and white space that are not inside brackets; ``P.5,10`` becomes ``P.5`` and ``P.10``.

    Of braces each choice is a part: ``nDCG@{1,10}`` becomes ``nDCG@1`` and ``nDCG@10``. Raises UsageError for braces
    that list nothing.
    """
    parts: list[str] = []
    for part in re.findall(r"(?:[^\s,({]|\([^)]*\)?|\{[^}]*\}?)+", text):
        family = re.fullmatch(r"([A-Za-z0-9_]+)\.\d*\.?\d+", parts[-1]) if parts else None
        parts += [f"{family[1]}.{part}"] if family and re.fullmatch(r"\d*\.?\d+", part) else _choices(part)
    return parts


def _choices(text: str) -> Iterator[str]:
    """Yield a text for each choice that its braces list; the text itself where it has none."""
    before, opened, rest = text.partition("{")
    listed, closed, after = rest.partition("}")
    choices = [choice.strip() for choice in listed.split(",")]
    if not opened:
        yield text
        return
    if not closed or "" in choices:
        raise UsageError(f"metric '{text}': its braces list no cutoffs", fix="write it like nDCG@{1,3,5,10}")
    for choice in choices:
        yield from _choices(f"{before}{choice}{after}")


@cache
def _names() -> dict[str, Kind]:
    """Return every accepted name of this package's metrics, in lower case."""
    return {name.lower(): kind for name, kind in spellings(KINDS.values()).items()}


def kind_named(name: str) -> Kind:
    """Return the row of the measure of a name without cutoff and parameters: canonical, an alias or trec_eval's.

    Raises UnknownNameError with the nearest name, MetricError for a faulty metric of another package.
    """
    if name.lower() in _names():
        return _names()[name.lower()]
    others = installed()
    for spelling, kind in spellings(others.kinds.values()).items():
        if spelling.lower() == name.lower():
            return kind
    for missing, reason in others.missing.items():
        if missing.lower() == name.lower():
            raise MetricError(f"metric '{missing}' {reason}", fix="install the package anew")
    known = kinds()
    raise UnknownNameError("metric", name, known, aliases=reversed(spellings(known.values())))


def _trec_parts(name: str) -> tuple[Kind | None, str | None]:
    """``recall_100`` or ``recall.100`` -> the measure and its cutoff."""
    found = _TREC_SHAPE.fullmatch(name)
    if found is None:
        return None, None
    for kind in KINDS.values():
        if kind.trec_cut is not None and kind.trec_cut.lower() == found["name"].lower():
            return kind, found["at"]
    return None, None


def _family(text: str) -> list[Metric]:
    if text.strip().lower() == "official":
        return official_metrics()
    for kind in KINDS.values():
        if text.strip() == kind.trec_cut:
            return [Metric(kind.name, cut) for cut in kind.trec_cuts]
    return []


def _cutoff(kind: Kind, at: str | None, text: str) -> int | float | None:
    example = f"{kind.name}@0.5" if kind.cutoff == "recall" else f"{kind.name}@10"
    if at is None:
        if kind.cutoff in ("required", "recall"):
            raise UsageError(f"metric '{text}' needs a cutoff", fix=f"write it like {example}")
        return None
    if kind.cutoff == "none":
        raise UsageError(f"metric '{text}' takes no cutoff", fix=f"write {kind.name}")
    if kind.cutoff == "recall":
        if re.fullmatch(r"\d*\.?\d+", at) and 0.0 <= float(at) <= 1.0:
            return float(at)
        raise UsageError(f"metric '{text}': '{at}' is no recall between 0 and 1", fix=f"write it like {example}")
    if re.fullmatch(r"\d{1,9}", at) and int(at) > 0:
        return int(at)
    raise UsageError(f"metric '{text}': '{at}' is no rank of 1 or more", fix=f"write it like {example}")


def _parameters(kind: Kind, inside: str, text: str) -> tuple[tuple[str, ParameterValue], ...]:
    known = {parameter.name: parameter for parameter in kind.parameters}
    given: dict[str, ParameterValue] = {}
    for part in filter(None, (part.strip() for part in inside.split(","))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or key in given:
            raise UsageError(f"metric '{text}': '{part}' is no single key=value", fix="write it like AP(rel=2)")
        if key not in known:
            raise UnknownNameError("parameter", key, known, of=kind.name)
        given[key] = _value(known[key], value.strip("'\""), text)
    # rel is kept even at its default: a run-wide relevance level must not override it
    return tuple(sorted((key, value) for key, value in given.items() if key == "rel" or value != known[key].default))


def _value(parameter: Parameter, text: str, measure: str) -> ParameterValue:
    if parameter.type is str:
        if text in parameter.choices:
            return text
        raise UnknownNameError(f"value of {parameter.name} in '{measure}'", text, parameter.choices)
    try:
        value = parameter.type(text)
    except ValueError as error:
        wanted = "a whole number" if parameter.type is int else "a number"
        raise UsageError(f"metric '{measure}': {parameter.name}={text} is not {wanted}") from error
    low, high = parameter.minimum, parameter.maximum
    if not isinstance(value, str) and not ((low is None or value >= low) and (high is None or value <= high)):
        bounds = f"at least {low:g}" if high is None else f"from {low:g} to {high:,.10g}"
        raise UsageError(f"metric '{measure}': {parameter.name} must be {bounds}, not {text}")
    return value
