"""The reference page of metrics, written from the table of metrics, and the section of any single one."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.kind import Kind, Parameter
from harness.metrics.parse import kind_named
from harness.metrics.table import KINDS, NOT_OFFERED

__all__ = ["metric_section", "metrics_page"]

_INTRODUCTION = """\
# Metrics

Written by `python docs/generate.py` from the table in `harness/metrics/table.py`. [Another package can add
one](../how-to/add-a-metric.md) by a NumPy function.

A metric is written `Name(parameter=value)@cutoff`: `nDCG@10`, `AP(rel=2)@100`, `RBP(p=0.9)`. Names are
case-insensitive, aliases and trec_eval's own names (`ndcg_cut_10`, `recall_100`, `map`) are accepted, and the canonical
name is shown. R is the number of relevant documents of a query; a document is relevant when its grade is at least
`rel`, which follows `--relevance` (1) unless it is stated. Higher is better for every metric but the counts. An
unanswered query and a query without relevant documents have the value 0, and which queries an average is taken over is
[stated with it](../explanation/ties.md#which-queries-count).

*average* says whether `--ties average` is offered; *interval* whether the lowest and highest value that ties allow are
known exactly. Values equal trec_eval's (version 9, as in pytrec_eval) where a name of it is given.
"""


def metrics_page() -> str:
    """Return the whole page, as Markdown."""
    head = "| metric | what it says | trec_eval | aliases | average | interval |\n| --- | --- | --- | --- | --- | --- |"
    rows = [_row(kind) for kind in KINDS.values()]
    sections = ["\n".join(_section(kind)) for kind in KINDS.values()]
    missing = [f"| `{name}` | {reason} |" for name, reason in NOT_OFFERED.items()]
    left_out = ["## What else trec_eval has, and is not offered", "", "| trec_eval | what it is |", "| --- | --- |"]
    return "\n".join([_INTRODUCTION, head, *rows, "", "\n\n".join(sections), "", *left_out, *missing, ""])


def metric_section(name: str) -> str:
    """Return the section of one metric, as Markdown, by its name without a cutoff; another package's too.

    Raises UnknownNameError with the nearest name.
    """
    return "\n".join(_section(kind_named(name)))


def _row(kind: Kind) -> str:
    aliases = ", ".join(f"`{alias}`" for alias in kind.aliases) or "–"
    average = "yes" if kind.average is not None else "no"
    interval = "yes" if kind.bounded else "no"
    return f"| `{kind.name}` | {kind.summary} | {_trec_names(kind)} | {aliases} | {average} | {interval} |"


def _trec_names(kind: Kind) -> str:
    names = [f"`{kind.trec}`"] if kind.trec else []
    names += [f"`{kind.trec_cut}_k`"] if kind.trec_cut else []
    return ", ".join(names) or "–"


def _section(kind: Kind) -> Iterator[str]:
    cutoff = {
        "none": "none",
        "optional": f"a rank, `{kind.name}@10`, or none for all hits",
        "required": f"a rank, `{kind.name}@10`",
        "recall": f"a recall point from 0 to 1, `{kind.name}@0.5`",
    }[kind.cutoff]
    over_queries = {"mean": "mean", "sum": "sum", "geometric": "geometric mean"}[kind.aggregate]
    yield f"## {kind.name}"
    yield ""
    yield f"- formula: {kind.formula}"
    yield f"- range: {kind.range}; over queries: {over_queries}"
    yield f"- cutoff: {cutoff}"
    for parameter in kind.parameters:
        yield f"- `{parameter.name}`: {parameter.help}; {_accepted(parameter)}, default `{parameter.default}`"
    yield f"- source: {kind.source}"


def _accepted(parameter: Parameter) -> str:
    if parameter.choices:
        return " or ".join(f"`{choice}`" for choice in parameter.choices)
    kind = "whole number" if parameter.type is int else "number"
    low, high = parameter.minimum, parameter.maximum
    if low is not None and high is not None:
        return f"{kind} from {low:g} to {high:g}"
    return kind if low is None else f"{kind} of at least {low:g}"
