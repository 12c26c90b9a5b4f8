"""Kernels are compiled before any backend's time, memory and deadline begin."""

from __future__ import annotations

from pathlib import Path

from small_world import write_collection

import harness


class _Recorder:
    """A display that notes which section began which phase."""

    def __init__(self) -> None:
        self.phases: list[tuple[str, str]] = []
        self._label = ""

    def section(self, label: str) -> _Recorder:
        self._label = label
        return self

    def done(self, label: str, outcome: str) -> None:
        """Not needed here."""

    def start(self, phase: str, total: int | None) -> None:
        self.phases.append((self._label, phase))

    def advance(self, amount: int) -> None:
        """Not needed here."""


def test_the_reference_is_compiled_before_the_first_backend_starts(tmp_path: Path) -> None:
    recorder = _Recorder()
    harness.compare("csr:analyzer=whitespace", write_collection(tmp_path), k=2, isolation="none", display=recorder)
    sections = [section for section, _ in recorder.phases]
    assert ("reference", "compile, once per installation") in recorder.phases
    assert sections.index("reference") < sections.index("csr:analyzer=whitespace")
