"""Hits among candidates are those of a plain filter, in the run's own order, whatever the ids."""

import tracemalloc
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from harness.data.arrow import strings
from harness.data.ranking import all_candidates, among_candidates, order
from harness.data.types import Ids, Run

IDS = st.sampled_from(["a", "b", "c\u0301", "c", "10", "01", "<x y>", "é", "e\u0301"])


@st.composite
def searches(draw: st.DrawFn) -> tuple[Run, dict[str, list[str]]]:
    documents = draw(st.lists(IDS, min_size=1, unique=True))
    queries = draw(st.lists(IDS, unique=True))
    rows = [draw(st.permutations(range(len(documents)))) for _ in queries]
    rows = [list(one)[: draw(st.integers(0, len(documents)))] for one in rows]
    indptr = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    flat = np.array([row for one in rows for row in one], dtype=np.int32)
    run = Run(Ids(strings(queries)), Ids(strings(documents)), indptr, flat, np.arange(len(flat), dtype=np.float32))
    return run, draw(st.dictionaries(IDS, st.lists(IDS)))


@given(searches())
def test_keeps_what_a_plain_filter_keeps(search: tuple[Run, dict[str, list[str]]]) -> None:
    run, candidates = search
    kept = among_candidates(run, candidates)
    documents = run.doc_ids.to_list()
    for number, query in enumerate(run.query_ids):
        hits = [
            (documents[row], score)
            for row, score in zip(
                run.rows[run.indptr[number] : run.indptr[number + 1]].tolist(),
                run.scores[run.indptr[number] : run.indptr[number + 1]].tolist(),
                strict=True,
            )
        ]
        expected = [hit for hit in hits if hit[0] in candidates.get(query, ())]
        start, end = kept.indptr[number : number + 2]
        found = zip(kept.rows[start:end].tolist(), kept.scores[start:end].tolist(), strict=True)
        assert [(documents[row], score) for row, score in found] == expected
    assert kept.indptr[0] == 0
    assert kept.indptr[-1] == len(kept.rows) == len(kept.scores)


@given(searches())
def test_keeps_the_scores_as_they_were_read(search: tuple[Run, dict[str, list[str]]]) -> None:
    run, candidates = search
    wide = run.scores.astype(np.float64) + 1e-9
    kept = among_candidates(replace(run, wide_scores=wide), candidates)
    assert kept.wide_scores is not None
    assert kept.wide_scores.tolist() == (kept.scores.astype(np.float64) + 1e-9).tolist()
    assert kept.with_scores(kept.scores).wide_scores is None


@given(searches(), st.lists(IDS, unique=True), st.lists(IDS, unique=True))
def test_all_candidates_are_the_found_ones_and_then_the_others(
    search: tuple[Run, dict[str, list[str]]], asked: list[str], known: list[str]
) -> None:
    """By the definition: hits among the candidates in the one ordering, then the larger id first."""
    run, candidates = search
    every = all_candidates(run, candidates, Ids(strings(asked)), Ids(strings(known)))
    ordered, queries = order(run), run.query_ids.to_list()
    for number, query in enumerate(asked):
        wanted = {document for document in candidates.get(query, ()) if document in known}
        hits = ordered.rows[ordered.of_query(queries.index(query))] if query in queries else []
        found = [document for document in run.doc_ids.take(np.array(hits, dtype=np.int64)) if document in wanted]
        rest = sorted(wanted - set(found), key=str.encode, reverse=True)
        assert every.doc_ids.take(every.rows[every.of_query(number)]) == [*found, *rest]
    assert len(every.indptr) == len(asked) + 1
    again = order(every)
    assert (again.rows.tolist(), again.scores.tolist()) == (every.rows.tolist(), every.scores.tolist())


def test_leaving_out_what_is_no_candidate_takes_little_memory() -> None:
    """Two million hits are 16 MB; beside them stands about one query's worth of numbers, and not one for each hit."""
    documents, queries = 10_000, 200
    rows = np.tile(np.arange(documents, dtype=np.int32), queries)
    indptr = np.arange(queries + 1, dtype=np.int64) * documents
    asked = Ids.of(f"q{number}" for number in range(queries))
    run = Run(asked, Ids.of(f"d{row}" for row in range(documents)), indptr, rows, np.ones(len(rows), dtype=np.float32))
    candidates = {query: ["d5", "d9999"] for query in asked}
    tracemalloc.start()
    try:
        kept = among_candidates(run, candidates)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept.hits == 2 * queries
    assert peak < 1_000_000
