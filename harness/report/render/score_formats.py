"""Render scores, differences and audits for programs: JSON, queries as CSV, and trec_eval's output."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from harness.data.problems import Finding
from harness.document.model import Document
from harness.metrics import Metric, Scores, Summary
from harness.metrics.audit import Audit, Difference, Match
from harness.metrics.conventions import CONVENTIONS
from harness.metrics.kind import Release
from harness.metrics.registry import kind_of
from harness.metrics.scores import defined
from harness.metrics.trec_names import in_trec_order, trec_name
from harness.pipeline.evaluated_runs import EvaluatedRuns
from harness.report.documents.evaluate import scores_document


def scores_output(evaluated: EvaluatedRuns, format_name: str, *, per_query: bool) -> str | Document:
    """Return the scores and differences of runs in a format for programs, or the document for another format."""
    if format_name == "json":
        return _scores_json(evaluated, per_query=per_query)
    if format_name == "csv" and per_query:
        return _query_csv(evaluated.runs)
    return scores_document(evaluated, per_query=per_query)


def _query_csv(runs: Mapping[str, Scores]) -> str:
    """Return a line for each query's values, in full precision, then the values over all queries as query ``all``."""
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(["run", "query", "measure", "value", "low", "high"])
    for name, scores in runs.items():
        for query, summaries in [*scores.per_query(), ("all", scores.means())]:
            for summary in summaries:
                numbers = ("" if math.isnan(number) else repr(number) for number in summary[1:])
                writer.writerow([name, query, str(summary.measure), *numbers])
    return sink.getvalue()


def _scores_json(evaluated: EvaluatedRuns, *, per_query: bool) -> str:
    """Return everything: values, counts of queries, pitfalls of metrics and of runs, and differences of runs."""
    entries = []
    for name, scores in evaluated.runs.items():
        entry: dict[str, Any] = {
            "run": name,
            "ties": scores.ties.value,
            "queries": {"set": scores.queries.value, **scores.counts._asdict()},
            "measures": _add_further(_values(scores.means()), scores),
            "findings": _plain_findings(scores.run_findings),
        }
        if per_query:
            entry["per_query"] = {query: _values(summaries) for query, summaries in scores.per_query()}
        entries.append(entry)
    findings = next(iter(evaluated.runs.values())).metric_findings
    content: dict[str, Any] = {"runs": entries, "findings": _plain_findings(findings)}
    qrels = next(iter(evaluated.runs.values())).judged.qrels
    if labels := len(qrels) - len(qrels.by_people):
        content["model_labels"] = {"labels": labels, "models": [model._asdict() for model in qrels.models]}
    if evaluated.tests:
        content["reference"] = evaluated.reference
        content["differences"] = [row.model_dump(exclude={"dataset"}) for row in evaluated.tests]
    return _dumped(content)


def _plain_findings(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    names = ("check", "message", "fix", "examples")
    return [{name: getattr(finding, name) for name in names} for finding in findings]


def _values(summaries: Sequence[Summary]) -> dict[str, dict[str, float | None]]:
    return {
        str(summary.measure): {
            "value": defined(summary.value),
            "low": defined(summary.low),
            "high": defined(summary.high),
        }
        for summary in summaries
    }


def _add_further(values: dict[str, dict[str, float | None]], scores: Scores) -> dict[str, dict[str, float | None]]:
    """Return means with those by people's judgments, and those if every unjudged hit were relevant, if computed."""
    if_relevant = {str(measure): value for measure, value in scores.means_if_relevant().items()}
    by_people = {str(measure): scores.human_mean(column)._asdict() for column, measure in enumerate(scores.measures)}
    return {
        name: {
            **entry,
            **(by_people[name] if scores.human is not None else {}),
            **({"if_unjudged_relevant": if_relevant[name]} if name in if_relevant else {}),
        }
        for name, entry in values.items()
    }


def _dumped(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def trec_eval_text(scores: Scores, tag: str | None, *, per_query: bool, relevance: float, release: Release = 9) -> str:
    """Return the output of a release of trec_eval; with ``per_query`` (its ``-q``) queries first, then all.

    Queries are in the byte order of their ids. Measures come in trec_eval's order and under its names; one that it
    lacks keeps ours. As there, ``num_q`` and ``gm_map`` have no line for a single query. ``tag`` is printed as
    ``runid`` unless it is None.
    """
    order = in_trec_order(scores.measures, relevance, release)
    lines: list[str] = []
    if per_query:
        ids = scores.query_ids.to_list()
        for row in sorted(range(len(ids)), key=lambda row: ids[row].encode()):
            lines += [
                _line(scores.measures[column], ids[row], float(scores.values[row, column]), relevance, release)
                for column in order
                if scores.measures[column].name not in ("NumQ", "gm_map")
            ]
    means = scores.means()
    lines += [f"{'runid':<22}\tall\t{tag}"] if tag is not None else []
    lines += [_line(means[column].measure, "all", means[column].value, relevance, release) for column in order]
    return "\n".join(lines) + "\n"


def _line(measure: Metric, query: str, value: float, relevance: float, release: Release) -> str:
    """Return a line of trec_eval: name padded to 22, tab, query or ``all``, tab, value with four decimals."""
    name = trec_name(measure, relevance, release) or str(measure)
    number = f"{value:.0f}" if kind_of(measure.name).aggregate == "sum" else f"{value:6.4f}"
    return f"{name:<22}\t{query}\t{number}"


def audit_json(name: str, audit: Audit) -> str:
    """Return everything about an audit: values, differences and causes, and the conventions of a published number."""
    content: dict[str, Any] = {
        "run": name,
        "conventions": {item.name: {"library": item.library, "version": item.version} for item in CONVENTIONS},
        "measures": {
            str(measure): {convention: defined(value) for convention, value in audit.values[measure].items()}
            for measure in audit.measures
        },
        "differences": [_difference(difference) for difference in audit.differences],
    }
    if audit.published is not None:
        published = audit.published
        content["published"] = {
            "text": published.text,
            "matches": [_match_entry(match) for match in published.matches],
            "nearest": None if published.nearest is None else _match_entry(published.nearest),
        }
    return _dumped(content)


def _difference(difference: Difference) -> dict[str, Any]:
    return {
        "measure": str(difference.measure),
        "convention": difference.convention,
        "harness": defined(difference.harness_value),
        "value": defined(difference.other_value),
        "causes": [[change._asdict() for change in cause] for cause in difference.causes],
        "alone": [change._asdict() | {"value": defined(value)} for change, value in difference.alone],
        "without_effect": [change._asdict() for change in difference.without_effect],
        "examples": [example._asdict() for example in difference.examples],
    }


def _match_entry(match: Match) -> dict[str, Any]:
    change = None if match.change is None else match.change._asdict()
    return {
        "measure": str(match.measure), "convention": match.convention, "change": change, "value": defined(match.value)
    }  # fmt: skip
