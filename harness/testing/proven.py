"""Record the parts of the contract that engines passed in the tests: ``harness/registry/proven.json``."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

import pytest

from harness.engines.interface import EngineInterface
from harness.registry.lookup import find_cards, load_engine
from harness.registry.proven import PROVEN_FILE, DeclaredSupport, Proof, proven_engines
from harness.testing.changes import ChangeContract
from harness.testing.external_indexes import ExternalIndexContract
from harness.testing.inputs import DenseContract, InputContract
from harness.testing.lifecycle import GuardContract, LifecycleContract
from harness.testing.results import FilterContract, ResultContract
from harness.testing.sharing import SharingContract
from harness.testing.suite import PROPERTY, Base, applies
from harness.testing.weighted_fields import FieldContract

PARTS: Mapping[str, type[Base]] = {
    "changes": ChangeContract,
    "dense": DenseContract,
    "external": ExternalIndexContract,
    "fields": FieldContract,
    "filter": FilterContract,
    "guard": GuardContract,
    "input": InputContract,
    "life": LifecycleContract,
    "results": ResultContract,
    "sharing": SharingContract,
}
"""Names of the contract's parts."""


def parts_for(engine: type[EngineInterface]) -> dict[str, set[str]]:
    """Return the tests of each part that apply to an engine class; parts without such tests are left out."""
    tests = {
        part: {name for name in vars(contract) if name.startswith("test_") and applies(vars(contract)[name], engine)}
        for part, contract in PARTS.items()
    }
    promised = engine.capabilities
    for part, declared in (
        ("external", promised.external),
        ("filter", promised.filters),
        ("changes", promised.changes),
    ):
        if not declared:
            tests[part] = set()  # a test that only compares the declaration with the class
    return {part: names for part, names in tests.items() if names}


def declared_by(engine: type[EngineInterface], proofs: Iterable[Proof] = ()) -> DeclaredSupport:
    """Return a class's promises, with these proofs."""
    names = ("input", "filters", "external", "shares_index", "threads", "changes", "fields")
    promised = {name: getattr(engine.capabilities, name) for name in names}
    return DeclaredSupport(**promised, gaps=dict(engine.capabilities.gaps), proofs=tuple(sorted(proofs)))


class _Way(NamedTuple):
    """Return the name of a way to run an engine: its class as on a card, and how it was reached."""

    target: str
    mode: str
    stub: bool


class ProofRecorder:
    """Collects reports of contract tests, from this process and pytest's workers, and writes the proofs."""

    def __init__(self) -> None:
        self._classes: defaultdict[str, list[tuple[Mapping[str, Any], bool]]] = defaultdict(list)

    def add(self, report: pytest.TestReport) -> None:
        """Record a report of a contract test; ignore other reports."""
        facts: Any = dict(report.user_properties).get(PROPERTY)
        if facts is not None and (report.when == "call" or not report.passed):
            counts = report.passed or (report.skipped and hasattr(report, "wasxfail"))
            self._classes[report.nodeid.rpartition("::")[0]].append((facts, counts))

    def proofs(self, before: Mapping[_Way, Proof]) -> dict[_Way, Proof]:
        """Return the proofs of the tested engines of bundled cards.

        A part without a test run stays as it was ``before`` on the same version.
        """
        ran: dict[_Way, tuple[str, str]] = {}
        tests: defaultdict[tuple[_Way, bool], set[str]] = defaultdict(set)
        for seen in self._classes.values():
            opened = next((facts for facts, _ in reversed(seen) if "engine" in facts), None)
            if opened is None:
                continue
            way = _Way(opened["target"], opened["mode"], opened["stub"])
            ran.setdefault(way, (opened["engine"], opened["version"]))
            for facts, passed in seen:
                tests[way, passed].add(facts["test"])
        engines = {card.engine: load_engine(card) for card in find_cards("backends").values()}
        proofs = {}
        for way, (engine, version) in ran.items():
            if way.target not in engines:
                continue
            passed_tests, broken, old = tests[way, True], tests[way, False], before.get(way)
            stays = old.parts if old is not None and (old.engine, old.version) == (engine, version) else ()
            parts = tuple(
                part
                for part, expected_tests in sorted(parts_for(engines[way.target]).items())
                if expected_tests <= passed_tests - broken
                or (part in stays and not expected_tests & (passed_tests | broken))
            )
            proofs[way] = Proof(way.mode, way.stub, engine, version, parts)
        return proofs

    def write(self) -> None:
        """Rewrite the file: proofs of ways that were not run stay, and classes that no card names are removed."""
        stored_support = proven_engines() if PROVEN_FILE.is_file() else {}
        before = {
            _Way(name, proof.mode, proof.stub): proof for name, old in stored_support.items() for proof in old.proofs
        }
        all_support = {**before, **self.proofs(before)}
        content = {}
        for card in find_cards("backends").values():
            proofs = [proof for way, proof in all_support.items() if way.target == card.engine]
            content[card.engine] = asdict(declared_by(load_engine(card), proofs))
        text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False)
        PROVEN_FILE.write_text(f"{text}\n", encoding="utf-8")
