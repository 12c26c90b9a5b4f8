"""When a reader is told that models do not read their texts to the end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from harness.encoders.token_counts import TextLengths
from harness.results.schema import TruncationStats
from harness.results.truncation import stats_of_texts, truncation_findings
from harness.worker.vectors import EncodedTexts


def stats(texts: str = "documents", **given: Any) -> TruncationStats:
    plain = {"number": 1000, "counted": 1000, "truncated": 0, "relevant": None, "unit": "tokens", "units": 5000}
    limits = {"unread": 50, "limit": 256, "limit_from": "a file"}
    return TruncationStats.model_validate({"texts": texts, **plain, **limits, **given})


@pytest.mark.parametrize(
    ("texts", "given", "reported"),
    [
        ("documents", {"truncated": 9, "relevant": 0}, False),
        ("documents", {"truncated": 9}, False),
        ("documents", {"truncated": 9, "relevant": 1}, True),
        ("documents", {"truncated": 10, "relevant": 0}, True),
        ("documents", {"truncated": 1, "counted": 100}, True),
        ("queries", {"truncated": 1}, True),
        ("queries", {}, False),
        ("pairs", {"truncated": 9, "relevant": 0}, False),
        ("pairs", {"truncated": 9, "relevant": 2}, True),
        ("pairs", {"truncated": 10}, True),
        ("documents", {"counted": 0, "unit": "tokens"}, False),
    ],
)
def test_a_hundredth_of_the_documents_or_one_that_matters_is_reported(texts, given, reported):
    assert bool(truncation_findings([stats(texts, **given)])) == reported


def test_a_finding_says_how_many_by_what_limit_and_what_to_do():
    found = truncation_findings([stats(truncated=20, relevant=3), stats("queries", truncated=1), stats("pairs")])
    assert [finding.check for finding in found] == ["truncated-texts"]
    assert found[0].message.split("; ") == [
        "20 of 1,000 documents are longer than 256 tokens, 3 of them relevant: 1.0% of all tokens are not read",
        "1 of 1,000 queries is longer than 256 tokens: 1.0% of all tokens are not read",
    ]
    assert "raise the limit (a file) with max_seq_length=" in found[0].fix


@pytest.mark.parametrize(("unit", "parameter"), [("tokens", "max_length="), ("characters", "max_characters=")])
def test_the_limit_of_a_second_stage_has_another_name(unit, parameter):
    (finding,) = truncation_findings([stats("pairs", truncated=20, unit=unit)])
    assert parameter in finding.fix
    assert "max_seq_length" not in finding.fix


def test_texts_that_were_not_counted_are_not_taken_for_short_ones():
    counts = np.array([[10, 0], [-1, -1], [40, 10], [-1, -1]], dtype=np.int32)
    relevant = np.array([True, True, True, False])
    made = stats_of_texts(EncodedTexts("documents", 4, TextLengths(counts, 30, "a file"), "cached before"), relevant)
    assert (made.number, made.counted, made.truncated, made.relevant) == (4, 2, 1, 1)
    assert (made.units, made.unread, made.limit, made.unknown_reason) == (50, 10, 30, "cached before")


def test_what_an_endpoint_does_not_report_is_unknown():
    made = stats_of_texts(EncodedTexts("queries", 3, None, "the endpoint does not report how much it reads"))
    assert (made.counted, made.limit, made.relevant) == (0, None, None)
    assert made.unknown_reason == "the endpoint does not report how much it reads"
    assert truncation_findings([made]) == []
