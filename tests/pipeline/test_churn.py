"""Data that changes: the workload, the reference of each state, the proven cause, and the comparison that shows it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from installed import skip_without

import harness
from harness.data.dataset import Dataset
from harness.data.inputs import Inputs
from harness.document.model import Table
from harness.engines.base import Engine
from harness.engines.changeable import Changeable
from harness.engines.csr import CsrEngine
from harness.engines.interface import IndexReport
from harness.errors import UsageError
from harness.parity.causes import WITHIN_LISTS
from harness.parity.changed_states import ROUNDED_IN_THE_MEAN
from harness.parity.trial_causes import QUANTISED_SCORES
from harness.pipeline.probes.churn import ChurnProbe
from harness.pipeline.probes.churn_workload import Workload
from harness.plan.option_values import Churn, parse_churn
from harness.registry.lookup import find_cards, load_engine
from harness.report.documents.compare import comparison_document
from harness.report.render.markdown import render_markdown
from harness.report.render.terminal import render_terminal

pytestmark = pytest.mark.usefixtures("warm_workers")
WORKLOAD = "insert=10%,delete=10%,update=20%,steps=3"
TEXTS = {f"d{n:02}": " ".join(f"w{(n * step) % 7}" for step in range(1, 2 + n % 5)) for n in range(40)}
QUERIES = {"q1": "w1 w2", "q2": "w3", "q3": "w5 w6 w1"}
QRELS = {"q1": {"d01": 1, "d02": 2}, "q2": {"d03": 1, "d31": 1}, "q3": {"d05": 1, "d06": 1}}


def workload() -> Workload:
    churn = parse_churn(WORKLOAD)
    assert churn is not None
    return Workload.of(40, churn, 7)


def test_the_workload_is_drawn_by_its_seed_and_by_nothing_else() -> None:
    first, again, other = workload(), workload(), Workload.of(40, Churn(0.1, 0.1, 0.2, 3), 8)
    assert all(np.array_equal(*pair) for pair in zip(first.contents, again.contents, strict=True))
    assert not np.array_equal(first.order, other.order)


def test_each_step_changes_what_its_shares_say() -> None:
    drawn = workload()
    assert drawn.first == 30  # of 40: three steps add 3 documents each
    for number, step in enumerate(drawn.steps, start=1):
        before, after = drawn.contents[number - 1], drawn.contents[number]
        added = step.written[before[step.written] < 0]
        changed = step.written[before[step.written] >= 0]
        assert (len(step.deleted), len(added), len(changed)) == (3, 3, 6)
        assert (before[step.deleted] >= 0).all()
        assert (after[step.deleted] == -1).all()
        assert sorted(before[changed]) == sorted(after[changed])  # they exchange their contents …
        assert (before[changed] != after[changed]).all()  # … and none keeps its own
        held = after[after >= 0]
        assert len(set(held.tolist())) == len(held) == 30


def test_judgments_follow_the_content() -> None:
    drawn, dataset = workload(), Dataset.of(TEXTS, QUERIES, QRELS)
    ids = drawn.ids(dataset)
    for state, content in enumerate(drawn.contents):
        qrels = drawn.judgments(dataset, state, ids)
        assert qrels is not None
        seen = {
            (query, dataset.corpus.ids[int(content[row])], int(grade))
            for place, query in enumerate(qrels.query_ids)
            for row, grade in zip(
                qrels.rows[qrels.indptr[place] : qrels.indptr[place + 1]],
                qrels.grades[qrels.indptr[place] : qrels.indptr[place + 1]],
                strict=True,
            )
        }
        there = {dataset.corpus.ids[int(row)] for row in content[content >= 0]}
        assert seen == {(q, d, grade) for q, of in QRELS.items() for d, grade in of.items() if d in there}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("insert=10%,remove=5%", "'remove' is not known"),
        ("delete=10%,delete=5%", "a part occurs twice"),
        ("steps=3", "it changes nothing"),
        ("insert=ten", "--churn insert is 'ten'"),
        ("insert=10%,steps=0", "steps is '0'"),
        ("insert=10%,steps=x", "steps is 'x'"),
        ("delete=30%,steps=4", "more documents would be deleted"),
    ],
)
def test_a_workload_that_makes_no_sense_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_churn(text)
    assert message in str(caught.value)


def test_a_workload_is_written_as_it_was_given() -> None:
    parsed = parse_churn("update=2.5%,steps=4,insert=0.1")
    assert str(parsed) == "insert=10%,update=2.5%,steps=4"


@pytest.mark.parametrize(
    ("text", "documents", "message"),
    [
        ("delete=10%,steps=6", 5, "step 5 would insert 0 of 0, delete 1 and update 0 of 1"),
        ("insert=10%,steps=6", 5, "step 5 would insert 1 of 0, delete 0 and update 0 of 5"),
        ("update=10%", 1, "step 1 would insert 0 of 0, delete 0 and update 2 of 1"),
    ],
)
def test_a_workload_that_wants_more_than_there_is_is_refused_before_anything_runs(
    text: str, documents: int, message: str
) -> None:
    texts = dict(list(TEXTS.items())[:documents])
    with pytest.raises(UsageError) as caught:
        harness.compare(
            "csr:analyzer=whitespace", Dataset.of(texts, QUERIES, {"q1": {"d00": 1}}), churn=text, isolation="none"
        )
    assert message in str(caught.value)


def distinct_texts(count: int) -> dict[str, str]:
    """Return documents of random words, each one word longer than the one before."""
    words = np.random.default_rng(3)
    return {f"d{n}": " ".join(f"w{w}" for w in words.integers(0, 30, 40 + n)) for n in range(count)}


def compared(backends: str, **options: Any) -> list[dict[str, Any]]:
    comparison = harness.compare(
        backends, Dataset.of(TEXTS, QUERIES, QRELS), k=10, churn=WORKLOAD, isolation="none", timing=False, **options
    )
    return [{"notes": trial.notes, **trial.probes.get("churn", {})} for trial in comparison.report.trials]


@pytest.mark.integration
def test_the_exact_engines_are_exact_in_every_state() -> None:
    for churn in compared("csr:analyzer=whitespace,flat:model=random"):
        assert [state["documents"] for state in churn["states"]] == [30] * 4
        for state in (*churn["states"], churn["new_index"]):
            assert state["parity"]["bit_equal"] == 3
            assert state["recall"] == {"10": 1.0}
            assert state["metrics"] == state["exact_metrics"]
        assert churn["states"][-1]["metrics"] == churn["new_index"]["metrics"]


@pytest.mark.integration
def test_statistics_that_count_deleted_documents_are_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that keeps the IDF of the build, as long as nothing cleans up."""
    change = CsrEngine.change

    def keep_idf(self: CsrEngine, *arguments: Any) -> None:
        held = self.deleted
        self._keep(deleted=np.empty(0, dtype=np.int32))  # deleted rows keep their vectors, and are counted
        change(self, *arguments)
        self._keep(deleted=held)

    load = CsrEngine.load

    def load_without(self: CsrEngine, folder: Path) -> Any:
        loaded = load(self, folder)
        if len(self.deleted):
            matching = np.ones(len(self.ids), dtype=np.bool_)
            matching[self.deleted] = False
            self._filtered = self._index.filtered(matching)
        return loaded

    monkeypatch.setattr(CsrEngine, "change", keep_idf)
    monkeypatch.setattr(CsrEngine, "load", load_without)
    (churn,) = compared("csr:analyzer=whitespace")
    assert churn["states"][0]["parity"]["causes"] == {}
    for state in churn["states"][1:]:
        assert state["parity"]["causes"] == {"deleted documents in the statistics": 3}
    assert churn["new_index"]["parity"]["causes"] == {}


def states_of(churn: dict[str, Any]) -> list[dict[str, Any]]:
    return [*churn["states"], churn["new_index"]]


@pytest.mark.integration
def test_documents_that_the_new_index_loses_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that loses one where it indexes anew, and says so."""
    index = CsrEngine.index

    def lose_one(self: CsrEngine, documents: Inputs, *others: Any) -> IndexReport:
        report = index(self, documents, *others)
        lost = np.arange(1 if self.folder.name == "fresh" else 0, dtype=np.int32)
        return replace(report, indexed=report.indexed - len(lost), missing_rows=lost)

    monkeypatch.setattr(CsrEngine, "index", lose_one)
    comparison = harness.compare(
        "csr:analyzer=whitespace", Dataset.of(TEXTS, QUERIES, QRELS), k=10, churn=WORKLOAD, isolation="none"
    )
    (trial,) = comparison.report.trials
    assert trial.error is not None
    assert "in a new index the engine lost 1 documents that are not empty" in trial.error.message


STALE, OUTSIDE = "deleted documents in the statistics", "rows outside the index"


@pytest.mark.integration
@pytest.mark.parametrize(
    ("backend", "module", "causes"),
    [
        ("sqlite", "apsw", set()),
        ("tantivy", "tantivy", {STALE}),
        ("lancedb-text:optimize=false", "lancedb", {f"{OUTSIDE}, {STALE}"}),
        ("lancedb-text", "lancedb", set()),
    ],
)
def test_the_statistics_of_engines_after_changes(backend: str, module: str, causes: set[str]) -> None:
    """Each difference has its proven cause, in every state."""
    skip_without(module)
    (churn,) = compared(f"{backend}{';' if ':' in backend else ':'}analyzer=whitespace")
    first, *changed = (set(state["parity"]["causes"]) - {WITHIN_LISTS} for state in states_of(churn))
    assert first == changed[-1] == set()
    named = set[str]().union(*changed)
    assert named <= causes
    assert bool(named) == bool(causes)


@pytest.mark.integration
def test_what_tantivy_merged_counts_with_stored_lengths() -> None:
    """It merges eight segments; lengths above 40 are rounded."""
    skip_without("tantivy")
    found = harness.compare(
        "tantivy:analyzer=whitespace",
        Dataset.of(distinct_texts(120), QUERIES, {}),
        k=50,
        timing=False,
        churn="insert=3%,delete=3%,update=3%,steps=9",
    )
    first, *changed, last = states_of(found.report.trials[0].probes["churn"])
    assert first["parity"]["causes"] == last["parity"]["causes"] == {}
    causes = [set(state["parity"]["causes"]) for state in changed]
    merged = [number for number, state in enumerate(changed) if state["state"]["segments"] == 1]
    assert causes[: merged[0]] == [{STALE}] * merged[0]
    assert causes[merged[0]] == {ROUNDED_IN_THE_MEAN}
    assert causes[merged[0] + 1 :] == [{f"{ROUNDED_IN_THE_MEAN}, {STALE}"}] * (len(causes) - merged[0] - 1)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("backend", "cause", "unchanged"),
    [
        ("lancedb:model=random;index=ivf_sq", QUANTISED_SCORES, (0, 1, 2, 3, -1)),
        (
            "lancedb-text:analyzer=whitespace;index_when=first;rows_per_add=10;optimize=false",
            OUTSIDE,
            (0, -1),
        ),
    ],
)
def test_facts_of_an_engine_explain_its_states_and_the_new_index(
    backend: str, cause: str, unchanged: tuple[int, ...]
) -> None:
    """Codes in every state; rows outside the index alone where no content is deleted yet, or any more."""
    skip_without("lancedb")
    (churn,) = compared(backend)
    states = states_of(churn)
    for number in unchanged:
        causes = states[number]["parity"]["causes"]
        assert cause in causes
        assert set(causes) <= {cause, WITHIN_LISTS}


@pytest.mark.integration
def test_a_hybrid_is_held_against_the_fusion_of_each_state() -> None:
    """No two texts have one score: LanceDB gives equal scores in an order of its own."""
    skip_without("lancedb")
    comparison = harness.compare(
        "lancedb-hybrid:model=random;optimize=false;analyzer=whitespace",
        Dataset.of(distinct_texts(60), QUERIES, {}),
        k=10,
        churn=WORKLOAD,
        isolation="none",
        timing=False,
    )
    first, *changed, new_index = states_of(comparison.report.trials[0].probes["churn"])
    assert first["parity"]["causes"] == new_index["parity"]["causes"] == {}
    assert [state["parity"]["causes"] for state in changed] == [{f"{OUTSIDE}, {STALE} in the terms list": 3}] * 3


@pytest.mark.integration
def test_the_table_has_a_row_for_each_state_and_values_stand_in_csv() -> None:
    comparison = harness.compare(
        "csr:analyzer=whitespace", Dataset.of(TEXTS, QUERIES, QRELS), k=10, churn=WORKLOAD, isolation="none"
    )
    document = comparison_document(comparison.report)
    assert "every backend agrees with exact search in every state" in document.verdicts[-1].headline
    (trial,) = comparison.report.trials
    failed = trial.model_copy(update={"label": "late", "probes": {}})
    (verdict,) = ChurnProbe().verdicts([trial, failed])
    assert verdict.headline == "data that changes: csr:analyzer=whitespace agrees with exact search in every state"
    assert verdict.detail == "not compared: late"
    trial.probes["churn"]["states"][2]["parity"] |= {"causes": {STALE: 2}}  # type: ignore[index]
    (verdict,) = ChurnProbe().verdicts([trial])
    assert (verdict.tone, verdict.headline) == (
        "good",
        "data that changes: every backend ranks as exact search does in every state",
    )
    assert verdict.detail == f"scores differ: csr:analyzer=whitespace, change 2: 2 queries ({STALE})"
    trial.probes["churn"]["states"][2]["parity"] |= {"different": 2, "causes": {"unknown": 2}}  # type: ignore[index]
    (verdict,) = ChurnProbe().verdicts([trial])
    assert (verdict.tone, verdict.detail) == ("bad", "csr:analyzer=whitespace, change 2: 2 queries")
    narrow = render_terminal(document, width=80).partition("Data that changes")[2]
    assert max(map(len, narrow.splitlines())) <= 80
    shown, _, left_out = narrow.partition("no room for")
    assert [name in shown for name in ("state", "p95 ms", "recall@10", "agree")] == [True] * 4
    assert [name in left_out for name in ("documents", "changes/s", "p50 ms")] == [True] * 3
    assert "still counted" not in narrow, "an empty column has no legend"
    shown = render_markdown(document).partition(f"Data that changes: {WORKLOAD}")[2]
    assert [name in shown for name in ("at first", "change 1", "change 3", "new index")] == [True] * 4
    values = {value.metric: value.mean for value in document.values}
    assert values["churn.3.documents"] == 30
    assert values["churn.new_index.recall.10"] == 1.0
    assert values["churn.2.milliseconds.p95"] > 0


@pytest.mark.integration
def test_what_cannot_be_changed_says_so() -> None:
    skip_without("bm25s")
    skip_without("faiss")
    library, graph = compared("bm25s:analyzer=whitespace,faiss:model=random;index=HNSW8")
    assert any(note.endswith("in every weight, so it can only index everything again") for note in library["notes"])
    assert "not changed (--churn): FAISS removes nothing from its IndexHNSWFlat" in graph["notes"]
    assert "states" not in graph


def test_every_engine_that_is_not_changed_says_why_in_its_own_words() -> None:
    engines = {name: load_engine(card) for name, card in find_cards("backends").items()}
    unchanged = {name: engine.no_changes for name, engine in engines.items() if not issubclass(engine, Changeable)}
    assert "weaviate" in unchanged
    assert [name for name, reason in unchanged.items() if reason == Engine.no_changes] == []


def test_a_filter_is_refused_beside_changes() -> None:
    with pytest.raises(UsageError, match="--churn with --filter"):
        harness.compare("csr", Dataset.of(TEXTS, QUERIES, QRELS), churn=WORKLOAD, filter="colour=red")


def test_tables_without_changes_have_no_rows() -> None:

    tables: list[Table] = ChurnProbe().tables([], 1)
    assert [table.rows for table in tables] == [[]]
