"""Compile the kernels by real calls, before several test processes would compile the same ones side by side.

And write the file of Java's classes, if Lucene is installed.
"""

from __future__ import annotations

import tempfile
from contextlib import nullcontext
from pathlib import Path

from java_classes import archive as java_archive
from java_classes import writing_archive

import harness
from harness.exact import compile_dense_kernels, compile_kernels
from harness.metrics import TieRule
from harness.metrics.registry import kinds

QRELS = {"q": {"a": 2, "b": 1, "c": 0}, "r": {"a": 0, "b": 3}}
RUN = {"q": {"a": 1.0, "b": 1.0, "d": 0.5}, "r": {"b": 2.0, "a": 1.0}}
CUTOFFS = {"none": "", "optional": "@10", "required": "@10", "recall": "@0.5"}


def compile_metrics() -> None:
    """Score with every metric of relevant documents under every rule of ties."""
    for kind in (kind for kind in kinds().values() if kind.judgments == "relevant"):
        rules = [rule for rule in TieRule if rule is not TieRule.AVERAGE or kind.average is not None]
        for rule in rules:
            harness.evaluate(RUN, QRELS, f"{kind.name}{CUTOFFS[kind.cutoff]}", ties=rule)


if __name__ == "__main__":
    compile_kernels()
    compile_dense_kernels()
    compile_metrics()
    archive = java_archive()
    if archive is not None and archive.exists():
        archive = None
    with tempfile.TemporaryDirectory() as folder, nullcontext() if archive is None else writing_archive(archive):
        backends = "csr,flat:model=random" if archive is None else "csr,flat:model=random,lucene"
        harness.compare(backends, out=Path(folder) / "out", k=100, timing=False, isolation="none")
