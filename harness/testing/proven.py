"""Record which parts of the contract engines kept while the tests ran: ``harness/registry/proven.json``."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import pytest

from harness.engines.interface import EngineProtocol
from harness.registry.lookup import find_cards, load_engine
from harness.registry.proven import PROVEN_FILE, Declared, Proof, proven_engines
from harness.testing.changes import ChangeContract
from harness.testing.external_indexes import ExternalIndexContract
from harness.testing.inputs import DenseContract, InputContract
from harness.testing.lifecycle import GuardContract, LifecycleContract
from harness.testing.results import FilterContract, ResultContract
from harness.testing.sharing import SharingContract
from harness.testing.suite import PROPERTY, Base, applies

PARTS: Mapping[str, type[Base]] = {
    "changes": ChangeContract,
    "dense": DenseContract,
    "external": ExternalIndexContract,
    "filter": FilterContract,
    "guard": GuardContract,
    "input": InputContract,
    "life": LifecycleContract,
    "results": ResultContract,
    "sharing": SharingContract,
}
"""Names of the contract's parts."""


def parts_for(engine: type[EngineProtocol]) -> dict[str, set[str]]:
    """Return the tests of each part that mean something for an engine class; parts without any are left out."""
    tests = {
        part: {name for name in vars(contract) if name.startswith("test_") and applies(vars(contract)[name], engine)}
        for part, contract in PARTS.items()
    }
    told = engine.capabilities
    for part, declared in (("external", told.external), ("filter", told.filters), ("changes", told.changes)):
        if not declared:
            tests[part] = set()  # one test holds the declaration against the class, and proves nothing else
    return {part: names for part, names in tests.items() if names}


def declared_by(engine: type[EngineProtocol], proofs: Iterable[Proof] = ()) -> Declared:
    """Return what a class promises, with these proofs."""
    told = engine.capabilities
    return Declared(
        told.input,
        told.filters,
        told.external,
        told.shares_index,
        told.threads,
        told.changes,
        dict(told.gaps),
        tuple(sorted(proofs)),
    )


class _Way(NamedTuple):
    """Name a way of running an engine: its class as on a card, and how it was reached."""

    target: str
    mode: str
    stub: bool


@dataclass
class _Seen:
    """Collect one test class's tests: those that kept the contract, and those that did not."""

    kept: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    target: str = ""
    stub: bool = False
    engine: str = ""
    version: str = ""
    mode: str = ""


class ProofRecorder:
    """Gather reports of contract tests, of this process and of pytest's workers, and write what they prove."""

    def __init__(self) -> None:
        self._classes: defaultdict[str, _Seen] = defaultdict(_Seen)

    def add(self, report: pytest.TestReport) -> None:
        """Take note of a report; those of other tests are left alone."""
        facts: Any = dict(report.user_properties).get(PROPERTY)
        if facts is None or (report.when != "call" and report.passed):
            return
        seen = self._classes[report.nodeid.rpartition("::")[0]]
        seen.target, seen.stub = facts["target"], facts["stub"]
        if "engine" in facts:
            seen.engine, seen.version, seen.mode = facts["engine"], facts["version"], facts["mode"]
        kept = report.passed or (report.skipped and hasattr(report, "wasxfail"))
        (seen.kept if kept else seen.broken).add(facts["test"])

    def proofs(self, before: Mapping[_Way, Proof]) -> dict[_Way, Proof]:
        """Return the proofs of the engines of bundled cards that were tested.

        A part of which no test ran stays as it was ``before`` on the same version.
        """
        merged: defaultdict[_Way, list[_Seen]] = defaultdict(list)
        for seen in self._classes.values():
            if seen.mode:
                merged[_Way(seen.target, seen.mode, seen.stub)].append(seen)
        engines = {card.engine: load_engine(card) for card in find_cards("backends").values()}
        proofs = {}
        for way, classes in merged.items():
            if way.target not in engines:
                continue
            kept, broken = set().union(*(seen.kept for seen in classes)), set().union(*(s.broken for s in classes))
            engine, version, old = classes[0].engine, classes[0].version, before.get(way)
            stays = old.parts if old is not None and (old.engine, old.version) == (engine, version) else ()
            parts = tuple(
                part
                for part, tests in sorted(parts_for(engines[way.target]).items())
                if tests <= kept - broken or (part in stays and not tests & (kept | broken))
            )
            proofs[way] = Proof(way.mode, way.stub, engine, version, parts)
        return proofs

    def write(self) -> None:
        """Write the file anew: proofs of ways that were not run stay, and classes that no card names go."""
        known = proven_engines() if PROVEN_FILE.is_file() else {}
        before = {_Way(name, one.mode, one.stub): one for name, told in known.items() for one in told.proofs}
        every = {**before, **self.proofs(before)}
        content = {}
        for card in find_cards("backends").values():
            proofs = [proof for way, proof in every.items() if way.target == card.engine]
            content[card.engine] = asdict(declared_by(load_engine(card), proofs))
        text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False)
        PROVEN_FILE.write_text(f"{text}\n", encoding="utf-8")
