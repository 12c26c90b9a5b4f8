"""The file of what was proven says what classes declare, and the recorder believes nothing that did not run."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import reference_pages

from harness.cli.matrix import matrix_row, matrix_table
from harness.engines.csr import CsrEngine
from harness.engines.flat import FlatEngine
from harness.errors import MissingExtraError
from harness.registry.cards import BackendCard
from harness.registry.lookup import find_cards, load_engine
from harness.registry.proven import proven_engines
from harness.testing import EngineContract
from harness.testing.proven import PARTS, ProofRecorder, declared_by, parts_for
from harness.testing.suite import PROPERTY, Base

CARDS = find_cards("backends")
NEVER_SEEN = {"weaviate"}
"""Cards of engines that no test has seen for real."""
UPDATE = "run pytest -m contract --update-proven"


@pytest.mark.parametrize("card", CARDS.values(), ids=CARDS)
def test_the_file_says_what_the_class_declares(card: BackendCard) -> None:
    try:
        engine = load_engine(card)
    except MissingExtraError as error:
        pytest.skip(error.problem)
    recorded = proven_engines()[card.engine]
    assert recorded == declared_by(engine, recorded.proofs), UPDATE


@pytest.mark.parametrize("card", CARDS.values(), ids=CARDS)
def test_an_engine_is_verified_whole_or_not_at_all(card: BackendCard) -> None:
    """An engine that keeps a part of its contract is not an engine of the harness's."""
    real = [proof for proof in proven_engines()[card.engine].proofs if not proof.stub]
    assert bool(real) != (card.name in NEVER_SEEN)
    wanted = tuple(sorted(parts_for(load_engine(card))))
    assert [proof.parts for proof in real] == [wanted] * len(real), UPDATE


def test_the_file_holds_the_engines_of_the_cards() -> None:
    assert set(proven_engines()) == {card.engine for card in CARDS.values()}, UPDATE


def test_the_generator_of_pages_names_the_command_that_adds_an_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = {target: support for target, support in proven_engines().items() if target != CARDS["csr"].engine}
    monkeypatch.setattr(reference_pages, "proven_engines", lambda: recorded)
    with pytest.raises(SystemExit, match=r"no entry for 'harness.engines.csr:CsrEngine' .* --update-proven"):
        reference_pages.backends_page()


def test_every_test_of_the_contract_belongs_to_one_part() -> None:
    tests = [name for part in PARTS.values() for name in vars(part) if name.startswith("test_")]
    assert sorted(tests) == sorted(name for name in dir(EngineContract) if name.startswith("test_"))


def reports(
    engine: type, *, stub: bool = False, mode: str = "embedded", outcomes: dict[str, str] | None = None
) -> Iterator[SimpleNamespace]:
    """Reports of a whole contract, as pytest makes them; ``outcomes`` are those of some tests."""
    for tests in parts_for(engine).values():
        for test in tests:
            facts = {"target": f"{engine.__module__}:{engine.__qualname__}", "stub": stub, "test": test}
            facts |= {} if test == "test_constructor_does_nothing" else {"engine": "X", "version": "1", "mode": mode}
            outcome = (outcomes or {}).get(test, "passed")
            report = SimpleNamespace(
                nodeid=f"tests/test_x.py::TestX::{test}[1]",
                user_properties=[(PROPERTY, facts)],
                when="call",
                passed=outcome == "passed",
                skipped=outcome in {"skipped", "xfailed"},
            )
            if outcome == "xfailed":
                report.wasxfail = "declared"
            yield report


def recorded(*runs: Iterator[SimpleNamespace]) -> list[tuple[str, bool, tuple[str, ...]]]:
    recorder = ProofRecorder()
    for run in runs:
        for report in run:
            recorder.add(report)  # type: ignore[arg-type]
    return [(proof.mode, proof.stub, proof.parts) for proof in recorder.proofs({}).values()]


def test_what_passed_whole_is_proven() -> None:
    every = ("changes", "external", "filter", "guard", "input", "life", "results", "sharing")
    assert recorded(reports(CsrEngine)) == [("embedded", False, every)]
    assert recorded(reports(CsrEngine, outcomes={"test_two_at_once": "xfailed"})) == [("embedded", False, every)]
    assert recorded(reports(CsrEngine, stub=True, mode="server")) == [("server", True, every)]


@pytest.mark.parametrize("outcome", ["failed", "skipped"])
def test_a_part_of_which_a_test_did_not_pass_is_not_proven(outcome: str) -> None:
    ((_, _, parts),) = recorded(reports(CsrEngine, outcomes={"test_returns_what_matches": outcome}))
    assert "filter" not in parts
    assert "results" in parts


def test_a_test_that_passes_elsewhere_makes_up_for_no_failure() -> None:
    ((_, _, parts),) = recorded(reports(CsrEngine, outcomes={"test_reopens": "failed"}), reports(CsrEngine))
    assert "life" not in parts


def test_a_part_that_ran_in_part_is_not_proven() -> None:
    some = [report for report in reports(FlatEngine) if "test_reopens" not in report.nodeid]
    ((_, _, parts),) = recorded(iter(some))
    assert "life" not in parts
    assert "dense" in parts


def test_a_class_of_no_card_is_left_out() -> None:
    class Other(FlatEngine):
        pass

    assert recorded(reports(Other)) == []


class TestRecorded(Base):
    """A test of the suite says which engine it opened."""

    engine = FlatEngine
    parameters = CARDS["flat"].defaults

    def test_the_engine_that_opened_is_recorded(
        self, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        documents, _ = self.inputs(["a b"], ["a"])
        with self.built(tmp_path_factory.mktemp("x"), documents):
            facts = dict(request.node.user_properties)[PROPERTY]
        assert (facts["target"], facts["engine"], facts["mode"], facts["stub"]) == (
            "harness.engines.flat:FlatEngine",
            "harness flat",
            "embedded",
            False,
        )


def test_answers_are_yes_only_where_an_engine_was_there() -> None:
    flat, stubbed, edge = (matrix_row(CARDS[name]) for name in ("flat", "weaviate", "qdrant"))
    assert (flat.answers["dense"], flat.answers["sparse"], flat.answers["server"]) == ("yes", "-", "-")
    assert (stubbed.answers["dense"], stubbed.answers["server"], stubbed.answers["concurrency"]) == ("?", "?", "?")
    assert stubbed.verified_on == ()
    assert (edge.answers["sparse"], edge.answers["server"]) == ("yes", "?")
    table = matrix_table([CARDS["weaviate"]])
    assert table.rows[0][-1].text == "not verified"
