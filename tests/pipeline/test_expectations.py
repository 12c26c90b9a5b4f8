"""Matching and judging by expectations, held against plain definitions."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from harness.data.types import Ids, Run
from harness.loaders.golden import golden_of_records
from harness.metrics import TieRule, parse_metrics, score
from harness.pipeline.check.id_match import ExpectedDocuments, Match, ideal_run, plain_judgments
from harness.plan.option_values import parse_match

NAMES = st.text(alphabet="a1-", min_size=1, max_size=7)
MEASURES = parse_metrics("Success@3,RR@3,R@3,nDCG@3,AP@3,P@3")


@given(doc_id=NAMES, expected=st.sets(NAMES, min_size=1, max_size=4), delimiter=st.sampled_from(["-", "--", "1-"]))
def test_a_prefix_ends_at_a_delimiter_and_the_longest_owns(doc_id, expected, delimiter):
    matching = [name for name in expected if doc_id == name or doc_id.startswith(name + delimiter)]
    assert Match.of(parse_match("prefix"), delimiter).owner(doc_id, dict.fromkeys(expected)) == max(
        matching, key=len, default=None
    )


@given(doc_id=NAMES, expected=st.sets(NAMES, min_size=1, max_size=4))
def test_a_document_is_what_stands_before_the_last_delimiter(doc_id, expected):
    matching = [name for name in expected if name in (doc_id, doc_id.rpartition("-")[0])]
    assert Match.of(parse_match("document"), "-").owner(doc_id, dict.fromkeys(expected)) == max(
        matching, key=len, default=None
    )


DOCUMENTS = [f"{document}#{chunk}" for document in "abcd" for chunk in range(3)]
RANKING = st.lists(st.sampled_from(DOCUMENTS), unique=True, max_size=8)
GRADES = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2), min_size=1, max_size=4)


@st.composite
def asked(draw):
    """Rankings of chunks for a few questions that expect graded documents."""
    count = draw(st.integers(1, 4))
    grades = [draw(GRADES) for _ in range(count)]
    grades[0]["a"] = 1
    return grades, [draw(RANKING) for _ in range(count)]


def run_of(rankings, ids):
    indptr = np.cumsum([0, *map(len, rankings)], dtype=np.int64)
    rows = ids.rows_of(Ids.of([doc for ranking in rankings for doc in ranking]))
    scores = np.concatenate([-np.arange(len(ranking), dtype=np.float32) for ranking in rankings])
    return Run(Ids.of([str(number) for number in range(len(rankings))]), ids, indptr, rows, scores)


@given(asked())
def test_chunks_score_as_a_ranking_of_documents_with_repeats_blanked_out(case):
    grades, rankings = case
    golden = golden_of_records([{"id": n, "question": "?", "expected": one} for n, one in enumerate(grades)])
    expected = ExpectedDocuments(golden, Match.of(parse_match("document"), "#"), Ids.of(DOCUMENTS))
    run = run_of(rankings, Ids.of(DOCUMENTS))
    found = score(run, expected.judgments(run, TieRule.ENGINE), MEASURES, ties="engine")

    blanked = []
    for ranking in rankings:
        seen: set[str] = set()
        documents = []
        for rank, chunk in enumerate(ranking):
            document = chunk[0]
            documents.append(f"repeat {rank}" if document in seen else document)
            seen.add(document)
        blanked.append(documents)
    names = Ids.of([*"abcd", *(f"repeat {rank}" for rank in range(8))])
    plain = score(run_of(blanked, names), plain_judgments(golden), MEASURES, ties="engine")
    np.testing.assert_array_equal(found.values, plain.values)
    best = score(ideal_run(golden, 3), plain_judgments(golden), MEASURES, ties="engine")
    assert (best.values >= found.values - 1e-12).all()
