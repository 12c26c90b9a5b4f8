"""Which backends are compared with which, and how the report tells it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from small_world import write_cards, write_collection

import harness
from harness.results.comparison import Comparison
from harness.stats import holm

pytestmark = pytest.mark.usefixtures("warm_workers")

BACKENDS = "good,good:k1=2.0,good:k1=3.0"


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_collection(tmp_path_factory.mktemp("data") / "small")


@pytest.fixture(scope="module")
def cards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_cards(tmp_path_factory.mktemp("cards"), good="BruteForce", absent="Unavailable")


@pytest.fixture
def compared(collection: Path, cards: Path) -> Callable[..., Comparison]:
    def compare(backends: str, **options: object) -> Comparison:
        plain = {"cards": cards, "timing": False, "isolation": "none", "metrics": "AP,RR@10", "k": 3}
        return harness.compare(backends, collection, **plain, **options)  # type: ignore[arg-type]

    return compare


def pairs(comparison: Comparison) -> list[tuple[str, str]]:
    return list(dict.fromkeys((row.a, row.b) for row in comparison.report.differences))


def test_all_are_compared_with_the_first(compared: Callable[..., Comparison]) -> None:
    comparison = compared(BACKENDS)
    assert pairs(comparison) == [("good", "good:k1=2.0"), ("good", "good:k1=3.0")]
    assert comparison.report.plan.resolved["reference"] == "good"
    assert "− good" in comparison.render(verbose=True)
    frame = comparison.differences()
    assert frame[["b", "metric"]].values.tolist() == [
        [backend, metric] for backend in ("good:k1=2.0", "good:k1=3.0") for metric in ("AP", "RR@10")
    ]
    assert frame["p_adjusted"].tolist() == holm(frame["p"])


def test_another_reference_is_kept_in_the_report(compared: Callable[..., Comparison]) -> None:
    comparison = compared(BACKENDS, reference="good:k1=2.0")
    assert pairs(comparison) == [("good:k1=2.0", "good"), ("good:k1=2.0", "good:k1=3.0")]
    plan = comparison.report.plan
    assert (plan.arguments["reference"], plan.resolved["reference"]) == ("good:k1=2.0", "good:k1=2.0")
    assert "--reference good:k1=2.0" in " ".join(comparison.report.command)


def test_all_pairs_are_one_larger_family(compared: Callable[..., Comparison]) -> None:
    comparison = compared(BACKENDS, all_pairs=True)
    assert pairs(comparison) == [("good", "good:k1=2.0"), ("good", "good:k1=3.0"), ("good:k1=2.0", "good:k1=3.0")]
    assert comparison.report.plan.resolved["reference"] is None
    assert "Differences between backends" in comparison.render(verbose=True)
    frame = comparison.differences()
    assert frame["p_adjusted"].tolist() == holm(frame["p"])


def test_where_the_first_failed_the_next_is_the_reference(compared: Callable[..., Comparison]) -> None:
    comparison = compared("absent,good,good:k1=2.0")
    assert pairs(comparison) == [("good", "good:k1=2.0")]
    assert comparison.report.plan.resolved["reference"] == "good"


def test_a_reference_that_failed_is_replaced_by_nothing(compared: Callable[..., Comparison]) -> None:
    comparison = compared("good,absent,good:k1=2.0", reference="absent")
    assert pairs(comparison) == []
    assert "no differences: the reference absent has no scores" in comparison.render(verbose=True)
    assert comparison.differences().empty
