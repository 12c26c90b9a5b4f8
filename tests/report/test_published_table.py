"""The table of published numbers beside measured ones."""

from __future__ import annotations

from sample_report import sample_report

from harness.report.documents.published import published_tables, published_values
from harness.results.schema import PublishedNumber, Result


def report() -> Result:
    sample = sample_report()
    dataset, backend = sample.datasets[0].name, sample.trials[0].label

    def number(metric: str, system: str, source: str, printed: str, *conditions: str) -> PublishedNumber:
        return PublishedNumber(
            dataset=dataset, backend=backend, metric=metric, system=system, source=source, printed=printed,
            difference=-0.0125, conditions=list(conditions),
        )  # fmt: skip

    numbers = [
        number("AP", "BM25 (first)", "a page", "0.3970", "ties=engine"),
        number("P@5", "BM25 (first)", "a page", "39.7%", "ties=engine"),
        number("AP", "BM25 (second)", "another", "0.41", "settings not stated"),
    ]
    return sample.model_copy(update={"published": numbers})


def test_a_row_is_a_backend_beside_what_one_source_published() -> None:
    (table,) = published_tables(report(), report().datasets[0].name)
    assert [column.name for column in table.columns] == [
        "backend", "published for", "AP", "− published", "P@5", "− published", "published with",
    ]  # fmt: skip
    label = report().trials[0].label
    assert [[cell.text for cell in row] for row in table.rows] == [
        [label, "BM25 (first) [1]", "0.3970", "−0.012500", "39.7%", "−1.250%", "ties=engine"],
        [label, "BM25 (second) [2]", "0.41", "−0.0125", "–", "–", "settings not stated"],
    ]
    assert list(table.legend[1:]) == ["[1] a page", "[2] another"]


def test_nothing_published_makes_no_table() -> None:
    assert published_tables(sample_report(), sample_report().datasets[0].name) == []
    assert published_tables(report(), "another dataset") == []


def test_published_numbers_are_values_too() -> None:
    values = [(value.metric, value.mean) for value in published_values(report())]
    assert values[:2] == [("published.AP of BM25 (first)", 0.397), ("published.P@5 of BM25 (first)", 0.397)]
