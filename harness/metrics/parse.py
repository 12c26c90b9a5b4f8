"""Parse metrics as people write them: ``nDCG@10``, ``MAP``, ``recall_100``, ``AP(rel=2)@100``, ``nDCG@1+3+5+10``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from functools import cache

from harness.errors import MetricError, UnknownNameError, UsageError
from harness.metrics.gains import gains_text, parse_gains
from harness.metrics.kind import JUDGED_ONLY, Kind, Parameter, Release
from harness.metrics.measure import Metric, ParameterValue
from harness.metrics.registry import installed, kind_of, kinds, spellings, squeezed
from harness.metrics.table import KINDS, NOT_OFFERED

_SHAPE = re.compile(r"(?P<name>[^@()\s]+)\s*(?:\((?P<inside>[^()]*)\))?\s*(?:@\s*(?P<at>[^()\s]*))?")
_TREC_SHAPE = re.compile(r"(?P<name>.+?)[._](?P<at>\d*\.?\d+)")
_PARAMETER = re.compile(r"""(?:[^,'"]|'[^']*'?|"[^"]*"?)+""")
"""A parameter with its value, which may hold commas in quotation marks."""
_MTEB_SHAPE = re.compile(r"(?P<name>.+)_at_(?P<at>\d+)")
_RANX_LEVEL = re.compile(r"(?P<metric>[^()]+)-l(?P<level>\d+)")
_PARAMETERS_OF_TREC = (
    (re.compile(r"set_F[._](\d*\.?\d+)", re.IGNORECASE), "SetF(beta={})"),
    (re.compile(r"rbp\.p=(\d*\.?\d+)"), "RBP_trec_eval_10(p={})"),
)
"""Names that trec_eval takes a parameter in, and the same metric in our spelling."""
_TRUTH_VALUES = {"true": True, "false": False}
_EXPONENTIAL = {"ndcgburges": "nDCG", "dcgburges": "DCG"}
"""ranx's names of metrics with exponential gains, squeezed."""
_OTHER_FORMULAS = (
    (
        re.compile(r"rbp\.\d+", re.IGNORECASE),
        "ranx gives a relevant document its whole grade as gain",
        "write RBP(p=0.95), without grades, or RBP_trec_eval_10(p=0.95), where grades are divided by the highest",
    ),
    (
        re.compile(r"hole(@|_at_)\d+", re.IGNORECASE),
        "BEIR and MTEB count a document as judged when any query judged it",
        "write Judged@10, the share of hits that their own query judged",
    ),
)
"""Other tools' names of metrics that are not computed: their pattern, the difference, and a replacement."""
_OFFICIAL = (
    "num_q", "num_ret", "num_rel", "num_rel_ret", "map", "gm_map",
    "Rprec", "bpref", "recip_rank", "iprec_at_recall", "P",
)  # fmt: skip


def parse_metric(text: str, release: Release = 9) -> Metric:
    """Parse one metric, by canonical name, alias, trec_eval's name or another tool's; names are case-insensitive.

    ``release`` is the release of trec_eval whose names are meant. Raises UnknownNameError with the nearest name,
    UsageError for a cutoff or parameter that does not fit and for another tool's metric that is not computed here,
    MetricError for a faulty metric of another package.
    """
    text = text.strip()
    for shape, difference, instead in _OTHER_FORMULAS:
        if shape.fullmatch(text):
            raise UsageError(f"metric '{text}' is not offered: {difference}", fix=instead)
    for shape, ours in _PARAMETERS_OF_TREC:
        if (parameter := shape.fullmatch(text)) is not None:
            return parse_metric(ours.format(parameter[1]))
    of_level = _RANX_LEVEL.fullmatch(text)
    if of_level is not None:
        return _apply_level(parse_metric(of_level["metric"], release), int(of_level["level"]), text)
    match = _SHAPE.fullmatch(text)
    if match is None:
        raise UsageError(f"metric '{text}' is malformed", fix="write it like nDCG@10, AP(rel=2)@100 or recall_100")
    name, inside, cutoff_text = match["name"], match["inside"] or "", match["at"]
    kind: Kind | None = None
    if match["inside"] is None and cutoff_text is None and _built_in_kind(name, release) is None:
        kind, cutoff_text = _trec_parts(name, release)
        of_mteb = _MTEB_SHAPE.fullmatch(name)
        if kind is None and of_mteb is not None:
            name, cutoff_text = of_mteb["name"], of_mteb["at"]
    exponential = _EXPONENTIAL.get(squeezed(name))
    if exponential is not None:
        name, inside = exponential, "dcg=exp-log2"
    kind = kind or find_kind(name, release)
    first, *further = (cutoff_text or "").split("+")
    metric = Metric(
        kind.name, _cutoff(kind, None if cutoff_text is None else first, text), _parameters(kind, inside, text)
    )
    return _mean_over(metric, kind, further, text) if further else metric


def _mean_over(metric: Metric, kind: Kind, further: Iterable[str | None], text: str) -> Metric:
    """Return the mean of a metric over its own cutoff and ``further`` ones."""
    if kind.cutoff == "recall":
        raise UsageError(f"metric '{text}': a mean is over ranks, not over recalls", fix="write 11pt_avg")
    ranks = [*metric.cutoffs, *(int(_cutoff(kind, rank, text) or 0) for rank in further)]
    if len(set(ranks)) < len(ranks):
        raise UsageError(f"metric '{text}' names a cutoff twice", fix="name each once, like nDCG@1+3+5+10")
    return metric.with_cutoffs(ranks)


def with_condensed(measures: Iterable[Metric]) -> list[Metric]:
    """Return metrics, each followed by the same on condensed lists unless judgments alone decide it."""
    both = list[Metric]()
    for metric in measures:
        both.append(metric)
        if kind_of(metric.name).condensable:
            both.append(metric.with_parameter(JUDGED_ONLY.name, True))
    return list(dict.fromkeys(both))


@cache
def lower_is_better(name: str) -> bool:
    """Return whether less of a figure is better, by its displayed name; False for a name that is not a metric's.

    Values of such a metric are from 0 to 1.
    """
    try:
        return kind_of(parse_metric(name).name).lower_is_better
    except UsageError:
        return False


@cache
def reads_first(name: str) -> bool:
    """Return whether a figure, by its displayed name, depends only on the rank of the first relevant document.

    False for a metric with parameters, whose first relevant document may be another.
    """
    try:
        metric = parse_metric(name)
    except UsageError:
        return False
    return kind_of(metric.name).reads_first and not metric.parameters


def improvement(name: str, difference: float) -> float:
    """Return the difference of a figure, by its displayed name, with the sign of an improvement."""
    return -difference if lower_is_better(name) else difference


def _apply_level(metric: Metric, level: int, text: str) -> Metric:
    """Return a metric with ranx's lowest relevant grade."""
    if not any(parameter.name == "rel" for parameter in kind_of(metric.name).parameters):
        raise UsageError(
            f"metric '{text}': {metric.name} has no lowest relevant grade, which ranx's -l{level} sets",
            fix=f"write {metric}: every grade above 0 has a gain",
        )
    if level < 1:
        raise UsageError(f"metric '{text}': the lowest relevant grade must be at least 1", fix="write -l1")
    return metric.with_parameter("rel", level)


def parse_metrics(texts: str | Iterable[str], release: Release = 9) -> list[Metric]:
    """Parse metrics from several texts, or from one text with commas between them; repeats are dropped.

    ``nDCG@{1,3,5,10}`` expands to a measure for each cutoff, as in a shell, and ``map_cut.10,100`` to two measures.
    trec_eval's families (``ndcg_cut``, ``P``, ``recall``, ``map_cut``, ``success``, ``iprec_at_recall``) without a
    cutoff expand to its default cutoffs, and ``official`` to its default measures. ``release`` is as in
    :func:`parse_metric`. Raises UsageError, which names every mistake.
    """
    measures: list[Metric] = []
    mistakes: list[UsageError] = []
    for text in metric_texts(texts):
        try:
            for single in _choices(text):
                measures.extend(_family(single, release) or [parse_metric(single, release)])
        except UsageError as error:
            mistakes.append(error)
    if len(mistakes) == 1:
        raise mistakes[0]
    if mistakes:
        raise UsageError("\n".join(str(mistake) for mistake in mistakes))
    if not measures:
        raise UsageError("no metric was given", fix="name at least one, like nDCG@10")
    return list(dict.fromkeys(measures))


def official_metrics(release: Release = 9) -> list[Metric]:
    """Return the metrics that a release of trec_eval prints when no measure is named, in its order."""
    return parse_metrics(_OFFICIAL, release)


def metric_texts(texts: str | Iterable[str]) -> list[str]:
    """Return a text for each metric of one text or several texts, each of which may hold a list."""
    if isinstance(texts, str):
        return split_metrics(texts)
    return [part for text in texts for part in (split_metrics(text) if _holds_list(text) else [text])]


def _holds_list(text: str) -> bool:
    """Return whether there is a comma outside brackets."""
    return "," in re.sub(r"\([^)]*\)|\{[^}]*\}", "", text)


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
    """Yield a text for each choice that its braces list; the text itself if it has none."""
    before, opened, rest = text.partition("{")
    choices_text, closed, after = rest.partition("}")
    choices = [choice.strip() for choice in choices_text.split(",")]
    if not opened:
        yield text
        return
    if not closed or "" in choices:
        raise UsageError(f"metric '{text}': its braces list no cutoffs", fix="write it like nDCG@{1,3,5,10}")
    for choice in choices:
        yield from _choices(f"{before}{choice}{after}")


@cache
def _names(release: Release) -> dict[str, Kind]:
    """Return every accepted name of this package's metrics, in lower case."""
    return {name.lower(): kind for name, kind in spellings(KINDS.values(), release).items()}


@cache
def _squeezed_names() -> dict[str, Kind]:
    """Return every name of this package's metrics that is still one metric's when it is squeezed."""
    names: dict[str, set[str]] = {}
    for name, kind in spellings(KINDS.values()).items():
        names.setdefault(squeezed(name), set()).add(kind.name)
    return {name: KINDS[next(iter(claims))] for name, claims in names.items() if len(claims) == 1}


def _built_in_kind(name: str, release: Release) -> Kind | None:
    """Return the row of this package for a name, which may be written with other underscores and hyphens."""
    if release != 9 and name in KINDS and KINDS[name].trec != name:
        return KINDS[name]  # RBP is ours, and rbp trec_eval 10's
    return _names(release).get(name.lower()) or _squeezed_names().get(squeezed(name))


def find_kind(name: str, release: Release = 9) -> Kind:
    """Return the row of the measure of a name without cutoff and parameters: canonical, an alias or trec_eval's.

    Raises UnknownNameError with the nearest name, MetricError for a faulty metric of another package.
    """
    built_in = _built_in_kind(name, release)
    if built_in is not None:
        return built_in
    third_party = installed()
    for spelling, kind in spellings(third_party.kinds.values()).items():
        if spelling.lower() == name.lower():
            return kind
    for missing, reason in third_party.missing.items():
        if missing.lower() == name.lower():
            raise MetricError(f"metric '{missing}' {reason}", fix="install the package again")
    if (description := _not_offered(name)) is not None:
        raise UsageError(
            f"metric '{name}' is trec_eval's and is not offered: {description}",
            fix="leave it out, or take another metric",
        )
    kinds_by_name = kinds()
    raise UnknownNameError("metric", name, kinds_by_name, aliases=reversed(spellings(kinds_by_name.values())))


def _not_offered(name: str) -> str | None:
    """Return the description of a measure of trec_eval that is not offered, with a cutoff or without; else None."""
    for names, description in NOT_OFFERED.items():
        for pattern in names.split(", "):
            if fnmatchcase(name, pattern) or fnmatchcase(re.sub(r"[._]\d*\.?\d+(,\d+)*$", "", name), pattern):
                return description
    return None


def names_of_release_10(texts: str | Iterable[str]) -> list[tuple[str, Metric]]:
    """Return names that only release 10 of trec_eval has, each with the metric that release 9 takes for it."""
    old, new = ({kind.trec for kind in _kinds_of_release(release)} for release in (9, 10))
    names = [text for text in metric_texts(texts) if text.partition(".")[0] in new - old]
    return [(name, parse_metric(name)) for name in names]


def _trec_parts(name: str, release: Release) -> tuple[Kind | None, str | None]:
    """``recall_100`` or ``recall.100`` -> the measure and its cutoff."""
    match = _TREC_SHAPE.fullmatch(name)
    if match is None:
        return None, None
    for kind in _kinds_of_release(release):
        if kind.trec_cut is not None and kind.trec_cut.lower() == match["name"].lower():
            return kind, match["at"]
    return None, None


def _family(text: str, release: Release) -> list[Metric]:
    if text.strip().lower() == "official":
        return official_metrics(release)
    for kind in _kinds_of_release(release):
        if text.strip() == kind.trec_cut:
            return [Metric(kind.name, cut) for cut in kind.trec_cuts]
    return []


def _kinds_of_release(release: Release) -> Iterator[Kind]:
    return (kind for kind in KINDS.values() if kind.release in (None, release))


def _cutoff(kind: Kind, cutoff: str | None, text: str) -> int | float | None:
    example = f"{kind.name}@0.5" if kind.cutoff == "recall" else f"{kind.name}@10"
    if cutoff is None:
        if kind.cutoff in ("required", "recall"):
            raise UsageError(f"metric '{text}' needs a cutoff", fix=f"write it like {example}")
        return None
    if kind.cutoff == "none":
        raise UsageError(f"metric '{text}' takes no cutoff", fix=f"write {kind.name}")
    if kind.cutoff == "recall":
        if re.fullmatch(r"\d*\.?\d+", cutoff) and 0.0 <= float(cutoff) <= 1.0:
            return float(cutoff)
        raise UsageError(f"metric '{text}': '{cutoff}' is not a recall between 0 and 1", fix=f"write it like {example}")
    if re.fullmatch(r"\d{1,9}", cutoff) and int(cutoff) > 0:
        return int(cutoff)
    raise UsageError(f"metric '{text}': '{cutoff}' is not a rank of 1 or more", fix=f"write it like {example}")


def _parameters(kind: Kind, inside: str, text: str) -> tuple[tuple[str, ParameterValue], ...]:
    parameters_by_name = {parameter.name: parameter for parameter in kind.all_parameters}
    values: dict[str, ParameterValue] = {}
    for part in filter(None, map(str.strip, _PARAMETER.findall(inside))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or key in values:
            raise UsageError(f"metric '{text}': '{part}' is not a single key=value", fix="write it like AP(rel=2)")
        if key not in parameters_by_name:
            raise UnknownNameError("parameter", key, parameters_by_name, of=kind.name)
        values[key] = _value(parameters_by_name[key], value.strip("'\""), text)
    if "gains" in values and values.get("dcg") == "exp-log2":
        raise UsageError(f"metric '{text}' has two rules for gains: gains and dcg", fix="keep one of them")
    # rel is kept even at its default: a run-wide relevance level must not override it
    return tuple(
        sorted(
            (key, value) for key, value in values.items() if key == "rel" or value != parameters_by_name[key].default
        )
    )


def _value(parameter: Parameter, text: str, measure: str) -> ParameterValue:
    if parameter.name == "gains":
        return gains_text(parse_gains(text))
    if parameter.type is str:
        if text in parameter.choices:
            return text
        raise UnknownNameError(f"value of {parameter.name} in '{measure}'", text, parameter.choices)
    if parameter.type is bool:
        if text.lower() in _TRUTH_VALUES:
            return _TRUTH_VALUES[text.lower()]
        raise UsageError(f"metric '{measure}': {parameter.name}={text} is neither True nor False")
    try:
        value = parameter.type(text)
    except ValueError as error:
        expected = "a whole number" if parameter.type is int else "a number"
        raise UsageError(f"metric '{measure}': {parameter.name}={text} is not {expected}") from error
    if parameter.name == "rel" and isinstance(value, float) and value.is_integer():
        value = int(value)
    low, high = parameter.minimum, parameter.maximum
    if not isinstance(value, str) and not (_reaches(parameter, value) and (high is None or value <= high)):
        bounds = f"at least {low:g}" if high is None else f"from {low:g} to {high:,.10g}"
        if parameter.above:
            bounds = f"above {low:g}" if high is None else f"above {low:g} and at most {high:,.10g}"
        raise UsageError(f"metric '{measure}': {parameter.name} must be {bounds}, not {text}")
    return value


def _reaches(parameter: Parameter, value: float) -> bool:
    low = parameter.minimum
    return low is None or (value > low if parameter.above else value >= low)
