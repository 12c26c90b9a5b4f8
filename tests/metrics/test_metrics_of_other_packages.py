"""Metrics that other packages offer: found by entry point, parsed, scored with ties, and named when they fail."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from reference_pages import metric_section, metrics_page

import harness
from harness.cli.evaluate import evaluate as eval_verb
from harness.errors import MetricError, UnknownNameError, UsageError
from harness.loaders.trec_write import write_run
from harness.metrics import Arguments, JudgedHits, Kind, metric, parse_metric, parse_metrics, registry
from harness.metrics.functions import QueryFaultError, call_foreign
from harness.metrics.table import KINDS
from harness.pipeline.check.requirements import parse_requirement
from harness.pipeline.evaluate import as_run

QRELS = {
    "q1": {"a": 2, "b": 1, "c": 0, "d": -1, "x": 3},
    "q2": {"a": 1, "b": 1},
    "q3": {"a": 1},
    "q4": {"a": 0},
}
RUN = {
    "q1": {"a": 4.0, "u": 3.0, "d": 3.0, "b": 3.0, "c": 1.0},
    "q2": {"b": 9.0, "u": 8.0, "a": 8.0},
    "q4": {"a": 1.0},
}
Offer = Callable[..., None]


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Install metrics for one test, each by its name; what is a text is taken as the entry point's value."""
    module = type(sys)("other_package")
    monkeypatch.setitem(sys.modules, "other_package", module)

    def install(**metrics: object) -> None:
        points = []
        for number, (name, value) in enumerate(metrics.items()):
            setattr(module, f"metric{number}", value)
            points.append(
                EntryPoint(name, value if isinstance(value, str) else f"other_package:metric{number}", registry.GROUP)
            )
        monkeypatch.setattr(registry, "entry_points", lambda group: points if group == registry.GROUP else ())
        registry.installed.cache_clear()

    yield install
    registry.installed.cache_clear()


def discounted(grades, ideal, k=None):
    """Return the discounted gain.

    Sum of grade / log2(rank + 1).
    """
    return (grades / np.log2(np.arange(len(grades)) + 2.0)).sum()


def normalised(grades, ideal, k=None, *, power=1.0):
    """Share of the reachable gain."""
    return (grades**power).sum() / (ideal[:k] ** power).sum()


def precision(grades, ideal, k, *, rel=1):
    return np.count_nonzero(grades >= rel) / k


def normalised_err(grades, ideal, k=None, *, max=2):
    """Return ERR divided by that of the ideal ranking."""

    def err(order):
        stop = (2.0**order - 1) / 2.0**max
        going_on = np.cumprod(np.concatenate(([1.0], 1 - stop[:-1])))
        return (going_on * stop / np.arange(1, len(order) + 1)).sum()

    return err(grades) / err(ideal[:k])


def first_grade(grades, ideal):
    return int(grades[0])


@numba.njit
def ranks_of_relevant(judged: JudgedHits, arguments: Arguments, out: np.ndarray) -> None:
    """Sum of 1/rank over relevant documents."""
    for query in range(len(out)):
        for hit in range(judged.indptr[query], judged.indptr[query] + judged.hit_counts[query]):
            if judged.ranks[hit] <= arguments.cutoff and judged.grades[hit] >= arguments.level:
                out[query] += 1.0 / judged.ranks[hit]


def scores_of(metrics: str, **options: Any) -> harness.metrics.Scores:
    return harness.evaluate(RUN, QRELS, metrics, **options)


@pytest.mark.parametrize("ties", ["trec_eval", "engine"])
@pytest.mark.parametrize(
    ("name", "as_built_in"), [("Gain", "DCG"), ("Gain@3", "DCG@3"), ("gain@2", "DCG@2"), ("Prec@2", "P@2")]
)
def test_a_function_gives_what_the_same_formula_gives_as_a_kernel(offer, ties, name, as_built_in):
    """Values and bounds: ties, unjudged documents, negative grades, and queries without hits or relevant documents."""
    offer(Gain=discounted, Prec=precision)
    for queries in ("relevant", "judged", "answered"):
        found, expected = (scores_of(one, ties=ties, queries=queries) for one in (name, as_built_in))
        for side in ("values", "low", "high"):
            np.testing.assert_allclose(getattr(found, side), getattr(expected, side), rtol=1e-12)
    assert found.low[0, 0] < found.high[0, 0]
    assert str(found.measures[0]) == {"gain@2": "Gain@2"}.get(name, name)


def test_a_function_gets_grades_in_rank_order_all_grades_and_the_cutoff(offer):
    calls = []

    def watched(grades, ideal, k=None):
        calls.append((grades.tolist(), ideal.tolist(), k))
        return 0.0

    offer(Watched=watched)
    scores_of("Watched@4")
    scores_of("Watched")
    first = ([2, 0, 0, 1], [3, 2, 1, 0, 0], 4)  # u before d before b by descending id, d's -1 is 0
    assert first in calls
    assert ([2, 0, 0, 1, 0], [3, 2, 1, 0, 0], None) in calls
    assert ([1, 0, 1], [1, 1], 4) in calls
    assert len({tuple(ideal) for _, ideal, _ in calls}) == 2, "neither the unanswered nor the irrelevant query"


def test_parameters_come_from_the_signature(offer):
    offer(NCG=normalised, Prec=precision)
    assert str(parse_metric("ncg( power = 2 )@10")) == "NCG(power=2.0)@10"
    assert parse_metric("NCG(power=1)@10") == parse_metric("NCG@10")
    squared, plain = (scores_of(f"NCG({given})@2").values[0, 0] for given in ("power=2", ""))
    assert (squared, plain) == (4 / 13, 2 / 5)
    assert str(scores_of("Prec@2", relevance=2).measures[0]) == "Prec(rel=2)@2"
    assert scores_of("Prec(rel=2)@2").values[0, 0] == 0.5
    for text, problem in [
        ("NCG(p=1)", "unknown parameter 'p' of NCG"),
        ("NCG(power=x)", "power=x is not a number"),
        ("Prec", "metric 'Prec' needs a cutoff"),
        ("NCG@0", "is not a rank of 1 or more"),
    ]:
        with pytest.raises(UsageError, match=problem.replace("(", r"\(")):
            parse_metric(text)


def test_a_function_is_not_called_for_queries_without_a_relevant_document_at_its_level(offer):
    """It may divide by their number; q2 and q3 have grades of 1 alone."""

    def recall(grades, ideal, k=None, *, rel=1):
        return np.count_nonzero(grades >= rel) / np.count_nonzero(ideal >= rel)

    offer(Share=recall)
    for options in ({}, {"relevance": 2}, {"relevance": 2, "queries": "judged"}):
        found, expected = (scores_of(name, **options).values for name in ("Share@3", "R@3"))
        np.testing.assert_allclose(found, expected)


def test_a_parameter_called_max_is_the_highest_grade_of_the_scale(offer):
    offer(ownERR=normalised_err, DCG2=discounted)
    with pytest.raises(UsageError, match=r"grade 3 is beyond the scale of ownERR@5") as refused:
        scores_of("DCG2,ownERR@5")
    assert refused.value.fix == "write it with ownERR(max=3), for example"
    ideal = 7 / 8 + 1 / 8 * 3 / 8 / 2 + 1 / 8 * 5 / 8 * 1 / 8 / 3  # grades 3, 2, 1; the hits have 2, 0, 0, 1, 0
    assert scores_of("ownERR(max=3)@5").values[0, 0] == pytest.approx((3 / 8 + 5 / 8 * 1 / 8 / 4) / ideal)


def test_a_function_without_a_cutoff_takes_none(offer):
    offer(First=first_grade)
    assert scores_of("First").values[:, 0].tolist() == [2.0, 1.0, 0.0]
    with pytest.raises(UsageError, match="takes no cutoff"):
        parse_metric("First@5")


def test_a_numba_kernel_is_offered_as_a_row(offer):
    offer(Ranks=Kind("ignored", ranks_of_relevant, "sum of 1/rank", "-", "-", "optional", aliases=("SRR",)))
    found = scores_of("srr@3")
    assert str(found.measures[0]) == "Ranks@3"
    # q1: a at 1, then u and d before b; q2: b at 1, u before a
    np.testing.assert_allclose(found.values[:, 0], [1.0, 1 + 1 / 3, 0.0])
    np.testing.assert_allclose(found.high[:, 0], [1.5, 1.5, 0.0])


def test_without_a_closed_form_average_is_refused(offer):
    offer(NCG=normalised)
    with pytest.raises(UsageError, match="no closed form over tie permutations for NCG@2"):
        scores_of("NCG@2", ties="average")


def test_a_metric_whose_extremes_are_unknown_shows_no_range(offer):
    def middle(grades, ideal, k):
        return float(grades[1]) if len(grades) > 1 else 0.0

    offer(Middle=metric(middle, bounded=False, aliases=("Mid",), range="0 or more", source="nobody"))
    found = scores_of("mid@2")
    assert np.isnan(found.low).all()
    assert not np.isnan(found.values).any()
    assert "range: 0 or more" in metric_section("Middle")
    assert "source: nobody" in metric_section("Middle")


def test_a_value_outside_its_range_is_no_range(offer):
    """The best and the worst order have grade 1 first or last, and the other in the middle."""

    def middle(grades, ideal, k):
        return float(grades[1])

    offer(Middle=middle)
    qrels, run = {"q": {"b": 1, "z": 0}}, {"q": {"a": 1.0, "b": 1.0, "c": 1.0, "d": 0.5}}
    with pytest.raises(MetricError, match=r"metric 'Middle@3' of query 'q': 1 lies outside .* 0 to 0\n.*bounded=False"):
        harness.evaluate(run, qrels, "Middle@3", ties="engine")


def test_a_metric_that_falls_has_its_range_too(offer):
    def last_relevant(grades, ideal, k=None):
        return -float(np.flatnonzero(grades)[-1]) if grades.any() else 0.0

    def first_relevant(grades, ideal, k=None):
        return float(np.flatnonzero(grades)[0] + 1) if grades.any() else 0.0

    offer(Falls=first_relevant, Rises=last_relevant)
    qrels, run = {"q": {"b": 1}}, {"q": {"a": 1.0, "b": 1.0, "c": 1.0}}
    found = harness.evaluate(run, qrels, "Falls,Rises")
    assert found.values.tolist() == [[2.0, -1.0]]
    assert (found.low.tolist(), found.high.tolist()) == ([[1.0, -2.0]], [[3.0, 0.0]])


def raising(grades, ideal, k):
    raise ZeroDivisionError("nothing to divide by")


def wrong_shape(grades, ideal, k):
    return grades


def no_number(grades, ideal, k):
    return "0.5"


def not_a_number(grades, ideal, k):
    return float("nan")


def infinite(grades, ideal, k):
    return np.float64(np.inf)


def warning(grades, ideal, k):
    return (grades - grades).sum() / np.zeros(1)[0]


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (
            raising,
            r"it raised ZeroDivisionError: nothing to divide by \(line \d+ of '.*test_metrics_of_other_packages.py'\)",
        ),
        (wrong_shape, r"it gave an array of shape \(2,\), expected one number"),
        (no_number, "it gave a str, expected one number"),
        (not_a_number, "it gave nan, expected a finite number"),
        (infinite, "it gave inf, expected a finite number"),
        (warning, "it raised RuntimeWarning: invalid value"),
    ],
)
def test_a_metric_that_fails_is_named_with_the_query(offer, function, problem):
    offer(Broken=function)
    with pytest.raises(MetricError, match=f"^metric 'Broken@2' of query 'q1': {problem}") as caught:
        scores_of("AP,Broken@2")
    assert caught.value.exit_code == 3


def test_a_kernel_that_fails_is_named(offer):
    def kernel(judged, arguments, out):
        out[:] = np.zeros(len(out) + 1)

    offer(Broken=Kind("Broken", kernel, "-", "-", "-", "none"))
    with pytest.raises(MetricError, match=r"^metric 'Broken': it raised ValueError: could not broadcast"):
        scores_of("Broken")


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (lambda grades: 0.0, r"takes \(grades\)"),
        (lambda grades, ideal, k, more: 0.0, r"takes \(grades, ideal, k, more\)"),
        (lambda *grades: 0.0, r"takes \(\*grades\)"),
        (lambda grades, ideal, **options: 0.0, r"takes \(grades, ideal, \*\*options\)"),
        (lambda grades, ideal, k, *, p: 0.0, "the default of p is not a number"),
        (lambda grades, ideal, k, *, p="x": 0.0, "the default of p is not a number"),
        (lambda grades, ideal, k, *, rel=1.0: 0.0, "the default of rel is not a number"),
        (lambda grades, ideal, k, *, p=1, q=2: 0.0, "several parameters besides rel"),
        (5, "is int, neither a function nor a Kind"),
        (max, "metric 'max' has no signature"),
    ],
)
def test_what_is_no_metric_is_refused(offer, function, problem):
    offer(Odd=function)
    with pytest.raises(MetricError, match=problem) as caught:
        parse_metric("Odd@5")
    assert "metric 'Odd' of package 'other_package:metric0'" in str(caught.value)


@pytest.mark.parametrize("name", ["nDCG", "ndcg", "mrr", "recall", "official", "R_cap"])
def test_a_name_of_this_package_is_taken(offer, name):
    offer(**{name: normalised, "NCG": normalised})
    with pytest.raises(MetricError, match=f"a metric '{name}', a name that the harness itself has already"):
        parse_metric("NCG@10")


def test_a_name_of_another_package_is_taken(offer):
    offer(NCG=normalised, ncg=precision)
    with pytest.raises(MetricError, match=r"a metric '(ncg|NCG)', a name that package .* has already\n  uninstall"):
        parse_metric("NCG@10")
    offer(NCG=normalised, Other=metric(precision, aliases=("ncg",)))
    with pytest.raises(MetricError, match="a metric 'ncg'"):
        parse_metric("NCG@10")


@pytest.mark.parametrize("name", ["N CG", "N@10", "1st", "a,b", "x(y)"])
def test_a_name_that_cannot_be_written_is_refused(offer, name):
    offer(**{name: normalised})
    with pytest.raises(MetricError, match="which is not a name"):
        parse_metric("NCG@10")


def test_unknown_names_are_met_with_the_nearest_of_all(offer):
    offer(Novelty=metric(normalised, aliases=("Surprisal",)))
    for wrong, near in (("Noveltie@10", "Novelty"), ("Suprisal@5", "Surprisal"), ("nDGC@10", "nDCG")):
        with pytest.raises(UnknownNameError, match=f"did you mean '{near}'"):
            parse_metric(wrong)
    with pytest.raises(UnknownNameError, match="Novelty"):
        parse_metric("Novel@10")


def test_a_package_that_cannot_be_imported_is_named_and_hinders_no_other(offer, caplog):
    offer(NCG=normalised, Gone="no_such_package:gone")
    with caplog.at_level(logging.WARNING, logger="harness"):
        assert str(parse_metric("NCG@3")) == "NCG@3"
    assert (
        "metric 'Gone' of package 'no_such_package:gone' cannot be imported: it raised ModuleNotFoundError: No module"
        in caplog.text
    )
    with pytest.raises(MetricError, match=r"metric 'Gone' .* cannot be imported"):
        parse_metric("gone@3")


def test_no_entry_point_is_read_for_the_names_of_this_package(monkeypatch):
    def read(group: str) -> tuple[EntryPoint, ...]:
        raise AssertionError("looked up")

    monkeypatch.setattr(registry, "entry_points", read)
    registry.installed.cache_clear()
    parse_metrics("nDCG@10,map,recall_100,DCG@5,official")
    scores_of("nDCG@10,ERR,NumQ")
    with pytest.raises(AssertionError, match="looked up"):
        parse_metric("NCG@10")


def test_the_command_prints_it_with_its_range(offer, tmp_path: Path, capsys):
    """And marks a difference that lies within the ranges, as of any metric."""
    offer(NCG=normalised)
    qrels = tmp_path / "qrels"
    qrels.write_text(
        "".join(
            f"{query} 0 {document} {grade}\n" for query, judged in QRELS.items() for document, grade in judged.items()
        )
    )
    other = {"q1": {"a": 4.0, "b": 3.0, "u": 2.0}, "q2": {"b": 2.0}}
    paths = [tmp_path / name for name in ("one.trec", "other.trec")]
    for path, run in zip(paths, (RUN, other), strict=True):
        write_run(path, as_run(run), "tag")
    eval_verb(qrels=qrels, run=paths, metrics="NCG@2,AP", per_query=False)
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("Scores") + 1
    assert lines[at].split() == ["run", "NCG@2", "AP"]
    assert "0.3000 [.3000–.5333] ≈" in lines[at + 2]  # (2/5 + 1/2 + 0) / 3, and at best (3/5 + 2/2 + 0) / 3
    assert "[low–high]" in "\n".join(lines)


def test_a_requirement_of_a_golden_set_can_name_it(offer):
    offer(NCG=normalised)
    requirement = parse_requirement("ncg>=0.5", 7)
    assert (str(requirement.quantity), requirement.text) == ("NCG@7", "NCG@7>=0.5")


def test_its_section_of_documentation_is_made_of_the_function(offer):
    offer(Gain=discounted, NCG=normalised)
    assert metric_section("gain").splitlines() == [
        "## Gain",
        "",
        "- formula: Sum of grade / log2(rank + 1).",
        "- range: 0 to 1; over queries: mean; cutoff: a rank, `Gain@10`, or none for all hits",
        "- source: package 'other_package:metric0'",
    ]
    assert "; `power`: parameter of the function; number, default `1.0`" in metric_section("NCG")
    assert registry.kinds()["Gain"].summary == "Return the discounted gain"
    assert "Gain" not in KINDS
    assert "NCG" not in metrics_page()


def test_the_line_is_that_of_the_function_also_if_another_library_raises() -> None:
    with pytest.raises(QueryFaultError, match=f"JSONDecodeError: .*{__file__}"):
        call_foreign(0, lambda: json.loads("{"))
