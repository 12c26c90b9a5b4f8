"""Read the contract suite's proofs for each engine, with the engine's version, and the unverified parts.

``proven.json`` is written by the tests (``pytest -m contract --update-proven``), never by hand, and read without
importing an engine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

PROVEN_FILE = Path(__file__).with_name("proven.json")


@dataclass(frozen=True, slots=True, order=True)
class Proof:
    """Which parts of the contract one way of running an engine kept.

    ``mode`` is ``embedded`` or ``server``. For a ``stub`` of its protocol only requests are proven, never the engine's
    answers. ``parts`` are the parts of :func:`harness.testing.proven.parts_for` whose tests all passed, or failed as
    the engine declares.
    """

    mode: str
    stub: bool
    engine: str
    version: str
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeclaredSupport:
    """Promises of an engine class, and their available proofs."""

    input: str
    filters: bool
    external: bool
    shares_index: bool
    threads: bool
    changes: bool
    fields: bool
    gaps: Mapping[str, str] = field(default_factory=dict)
    proofs: tuple[Proof, ...] = ()

    def verified(self, part: str, mode: str | None = None) -> bool:
        """Return whether a part of the contract was kept by the engine itself, in this mode or in any."""
        return any(part in proof.parts for proof in self.proofs if not proof.stub and mode in {None, proof.mode})

    @property
    def verified_on(self) -> tuple[str, ...]:
        """Names and versions of the engines that the contract was proven on, each once."""
        names = (
            f"{proof.engine} {proof.version}{' (server)' if proof.mode == 'server' else ''}"
            for proof in self.proofs
            if not proof.stub
        )
        return tuple(dict.fromkeys(names))


@cache
def proven_engines() -> Mapping[str, DeclaredSupport]:
    """Return the engine classes of the bundled cards, by a card's value of ``engine``."""
    content = json.loads(PROVEN_FILE.read_text(encoding="utf-8"))
    return {
        target: DeclaredSupport(
            **{
                **fields,
                "proofs": tuple(Proof(**{**proof, "parts": tuple(proof["parts"])}) for proof in fields["proofs"]),
            }
        )
        for target, fields in content.items()
    }
