"""Scores in trec_eval's own text: name padded to 22, tab, query or ``all``, tab, value with four decimals."""

from __future__ import annotations

from harness.metrics import Measure, Scores
from harness.metrics.registry import kind_of
from harness.metrics.trec_names import in_trec_order, trec_name

__all__ = ["trec_eval_text"]


def trec_eval_text(scores: Scores, tag: str | None, per_query: bool, relevance: int) -> str:
    """What trec_eval prints: with ``per_query`` (its ``-q``) the queries first, by id in byte order, then all of them.

    Measures come in trec_eval's order and under its names; one that it lacks keeps ours. As there, ``num_q`` and
    ``gm_map`` have no line for a single query. ``tag`` is printed as ``runid`` unless it is None.
    """
    order = in_trec_order(scores.measures, relevance)
    lines: list[str] = []
    if per_query:
        ids = scores.query_ids.to_list()
        for row in sorted(range(len(ids)), key=lambda row: ids[row].encode()):
            lines += [
                _line(scores.measures[column], ids[row], float(scores.values[row, column]), relevance)
                for column in order
                if scores.measures[column].name not in ("NumQ", "gm_map")
            ]
    means = scores.means()
    lines += [f"{'runid':<22}\tall\t{tag}"] if tag is not None else []
    lines += [_line(means[column].measure, "all", means[column].value, relevance) for column in order]
    return "\n".join(lines)


def _line(measure: Measure, query: str, value: float, relevance: int) -> str:
    name = trec_name(measure, relevance) or str(measure)
    number = f"{value:.0f}" if kind_of(measure.name).aggregate == "sum" else f"{value:6.4f}"
    return f"{name:<22}\t{query}\t{number}"
