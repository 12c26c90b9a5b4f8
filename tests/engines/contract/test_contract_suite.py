"""The contract suite itself: each of its tests passes correct engines and fails broken ones."""

from __future__ import annotations

import inspect
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import mutants_of_changes
import mutants_of_fields
import mutants_of_filters  # noqa: F401 - registers its engines
import mutants_of_life
import mutants_of_sharing  # noqa: F401
import mutants_of_vectors  # noqa: F401
import numpy as np
import pytest
from contract_fakes import FakeDense, FakeGraph, FakeSparse, FakeText
from contract_kills import MUTANTS
from mutants_of_answers import Answers, Explains
from mutants_of_external import FakeExternal
from mutants_of_guards import GuardedSparse

from harness.data.types import Ids
from harness.engines.interface import EngineInfo, EngineInterface
from harness.errors import BackendError
from harness.testing import EngineContract

pytest_plugins = ["pytester"]
TESTS = sorted(name for name in dir(EngineContract) if name.startswith("test_"))
DEFECTS = (Exception, pytest.fail.Exception)
CORRECT = {
    Explains, FakeDense, FakeExternal, FakeGraph, FakeSparse, FakeText, GuardedSparse, mutants_of_changes.Right,
    mutants_of_changes.Scanning, mutants_of_fields.FakeFields,
}  # fmt: skip


def suite_for(engine: type[EngineInterface]) -> EngineContract:
    graph = getattr(engine, "graph_parameters", None)
    members = {"engine": engine, "tolerance": 1e-6, "graph_parameters": graph}
    members["search_parameters"] = getattr(engine, "reopened_with", {})
    suite: EngineContract = type("Suite", (EngineContract,), members)()
    suite._facts = {}  # pytest's fixture begins it
    return suite


def test_every_rule_has_a_broken_engine() -> None:
    assert sorted(MUTANTS) == TESTS


@pytest.mark.parametrize("rule", TESTS)
def test_a_rule_passes_correct_engines_and_notices_broken_ones(
    rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutants = MUTANTS[rule]
    for base in {correct_base(mutant) for mutant in mutants}:
        apply(rule, base, tmp_path, monkeypatch)
    assert [mutant.__name__ for mutant in mutants if passes(rule, mutant, tmp_path, monkeypatch)] == []


def correct_base(mutant: type[EngineInterface]) -> type[EngineInterface]:
    return next(base for base in mutant.__mro__ if base in CORRECT)


def passes(rule: str, engine: type[EngineInterface], folder: Path, patch: pytest.MonkeyPatch) -> bool:
    try:
        apply(rule, engine, folder, patch)
    except DEFECTS:
        return False
    return True


def apply(rule: str, engine: type[EngineInterface], folder: Path, patch: pytest.MonkeyPatch) -> None:
    test = getattr(suite_for(engine), rule)
    (folder / engine.__name__).mkdir()
    fixtures = {"tmp_path": folder / engine.__name__, "monkeypatch": patch}
    test(**{name: fixtures[name] for name in inspect.signature(test).parameters})


def forgiving(engine: type[EngineInterface], number: int) -> type[EngineInterface]:
    """An engine that keeps silent where it should refuse something for the time of this number, from 0."""
    refused = itertools.count()

    def silent(method: Any) -> Any:
        def call(self: EngineInterface, *arguments: Any) -> Any:
            try:
                return method(self, *arguments)
            except BackendError:
                if next(refused) != number:
                    raise
                return EngineInfo("silent", "1.0", "embedded")

        return call

    names = ("open", "index", "search", "apply")
    return type("Forgiving", (engine,), {n: silent(getattr(engine, n)) for n in names if hasattr(engine, n)})


@pytest.mark.parametrize(
    ("engine", "test", "refusals"),
    [
        (FakeSparse, "test_refuses_another_column", 2),
        (FakeSparse, "test_refuses_bad_indices_in_documents", 4),
        (FakeSparse, "test_refuses_bad_indices_in_queries", 4),
        (FakeSparse, "test_refuses_bad_values_in_documents", 3),
        (FakeSparse, "test_refuses_bad_values_in_queries", 3),
        (FakeSparse, "test_reopening_with_other_documents_is_refused", 3),
        (FakeSparse, "test_refuses_k_below_one", 2),
        (FakeDense, "test_zero_vectors", 2),
        (mutants_of_changes.Right, "test_refuses_changes_that_cannot_be", 3),
    ],
)
def test_each_of_several_refusals_is_asked_for(
    engine: type[EngineInterface], test: str, refusals: int, tmp_path: Path
) -> None:
    for number in range(refusals):
        (tmp_path / str(number)).mkdir()
        with pytest.raises(DEFECTS):
            getattr(suite_for(forgiving(engine, number)), test)(tmp_path / str(number))


def test_a_raw_exception_of_a_damaged_index_is_hinted_at(tmp_path: Path) -> None:
    with pytest.raises(EOFError) as raised:
        suite_for(mutants_of_life.LeaksEofErrors).test_a_damaged_index_never_answers_wrongly(tmp_path)
    assert raised.value.__notes__ == ["an engine raises a BackendError instead: name EOFError in `faults`"]


def test_an_index_of_empty_files_must_be_refused_too(tmp_path: Path) -> None:
    """Whatever it made of one that lost its largest file."""

    class ForgetsItsFiles(FakeSparse):
        def open(self, folder: Path, ids: Ids) -> EngineInfo:
            files = list(folder.iterdir())
            if files and not any(path.stat().st_size for path in files):
                raise KeyError("nothing is there")
            return super().open(folder, ids)

    with pytest.raises(DEFECTS):
        suite_for(ForgetsItsFiles).test_a_damaged_index_never_answers_wrongly(tmp_path)


class Approximate(Answers):
    """Leaves out one of ten hits, as an approximate index might."""

    capabilities = replace(FakeSparse.capabilities, exact=False, keeps_k_prefix=False)

    def change(self, rows: list[int], scores: list[float], k: int) -> tuple[list[int], list[float]]:
        kept = [place for place in range(len(rows)) if len(rows) < 10 or place % 10 != 9]
        return [rows[place] for place in kept], [scores[place] for place in kept]


class TooApproximate(Approximate):
    def change(self, rows: list[int], scores: list[float], k: int) -> tuple[list[int], list[float]]:
        return rows[::2], scores[::2]


@pytest.mark.contract
class TestApproximate(EngineContract):
    """An engine that does not claim to be exact passes with a good recall."""

    variant = True
    engine = Approximate
    tolerance = 1e-6


@pytest.mark.contract
class TestAnyOrderOfTies(EngineContract):
    """An engine that claims neither a prefix nor the same ties twice passes."""

    variant = True

    class Shuffled(Answers):
        capabilities = replace(FakeSparse.capabilities, deterministic=False, keeps_k_prefix=False)
        generator = np.random.default_rng(5)

        def change(self, rows: list[int], scores: list[float], k: int) -> tuple[list[int], list[float]]:
            chance = self.generator.random(len(rows))
            order = sorted(range(len(rows)), key=lambda i: (-scores[i], chance[i]))
            return [rows[i] for i in order], [scores[i] for i in order]

    engine = Shuffled
    tolerance = 1e-6


def test_vectors_that_are_given_back_rightly_are_no_defect(tmp_path: Path) -> None:
    suite_for(mutants_of_changes.Scanning).test_an_index_can_lose_everything_and_get_it_back(tmp_path)


def test_a_low_recall_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="recall@1"):
        suite_for(TooApproximate).test_finds_the_right_documents(tmp_path)


GAPS = """
    from dataclasses import replace
    from contract_fakes import FakeSparse
    from mutants_of_answers import PerturbsTies
    from harness.testing import EngineContract

    class Gap(PerturbsTies):
        capabilities = replace(FakeSparse.capabilities, gaps={{"{test}": "its own tie-breaking"}})

    class TestGap(EngineContract):
        engine = Gap
        tolerance = 1e-6
"""


def run_with_gap(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, test: str) -> pytest.RunResult:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    pytester.makepyfile(GAPS.format(test=test))
    # in this process, whose JVM needs its own handler of SIGSEGV: pytest's faulthandler would take it away for ever
    quiet = ("-q", "-p", "no:cacheprovider", "-p", "no:faulthandler")
    return pytester.runpytest(*quiet, "-k", "equal_scores or two_at_once or minimum")


def test_a_declared_gap_is_expected_to_fail(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    run_with_gap(pytester, monkeypatch, "test_equal_scores").assert_outcomes(passed=2, xfailed=1)


def test_a_gap_that_closed_is_noticed(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run_with_gap(pytester, monkeypatch, "test_two_at_once")
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["*XPASS(strict)*its own tie-breaking*"])


def test_a_gap_of_an_unknown_name_is_an_error(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run_with_gap(pytester, monkeypatch, "test_equal_score")
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["*gaps that name no test of the suite*test_equal_score*"])
