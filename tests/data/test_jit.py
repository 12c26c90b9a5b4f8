"""Compiled kernels on disk: taken again by the same sources, and never by others."""

from __future__ import annotations

import importlib
import signal
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from numba.core.caching import NullCache
from numba.extending import overload

from harness.data import jit

MODULE = "kernels_of_this_test"
SOURCE = (
    "from harness.data.jit import kernel\n\n\n@kernel\ndef twice(value: float) -> float:\n    return value + value\n"
)


def hits(monkeypatch: pytest.MonkeyPatch) -> int:
    """How many compiled kernels were taken from disk by a process that begins."""
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    twice: Any = importlib.import_module(MODULE).twice
    assert twice(2.0) == 4.0
    return sum(twice.stats.cache_hits.values())


def test_kernels_that_other_sources_left_are_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / f"{MODULE}.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert [hits(monkeypatch), hits(monkeypatch)] == [0, 1]
    with monkeypatch.context() as other:
        other.setattr(jit, "_sources", lambda: "of an earlier version")
        assert [hits(monkeypatch), hits(monkeypatch)] == [0, 1]
    assert hits(monkeypatch) == 0


def test_code_that_cannot_be_kept_is_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba may lose the object code that it compiled: the kernel works, and the next process compiles it."""

    def lost(self: object, sig: object, data: object) -> None:
        raise RuntimeError("no compiled object yet for <Library 'twice'>")

    (tmp_path / f"{MODULE}.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with monkeypatch.context() as losing:
        losing.setattr(jit.FunctionCache, "save_overload", lost)
        assert hits(monkeypatch) == 0
    assert [hits(monkeypatch), hits(monkeypatch)] == [0, 1]


def test_an_interruption_of_compiling_is_raised_after_it() -> None:
    """LLVM's callbacks swallow exceptions: the signal waits until the code is compiled, then stops the run."""
    steps: list[str] = []

    def interrupted_while_compiling(value: int) -> int:
        signal.raise_signal(signal.SIGINT)
        steps.append("compiled")
        return value

    with pytest.raises(KeyboardInterrupt):
        jit.delay_interrupts(jit.delay_interrupts(interrupted_while_compiling))(1)
    assert steps == ["compiled"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert jit.delay_interrupts(abs)(-1) == 1


def test_each_kernel_delays_interruptions() -> None:
    """The signal comes while Numba types the kernel: Numba finishes."""
    typed: list[str] = []

    def one() -> float:
        return 1.0

    @overload(one)
    def typed_one() -> Any:
        signal.raise_signal(signal.SIGINT)
        typed.append("one")
        return lambda: 1.0

    @jit.kernel
    def two() -> float:
        return one() + one()

    cast("Any", two)._cache = NullCache()  # an earlier session may have left its code
    with pytest.raises(KeyboardInterrupt):
        two()
    assert typed == ["one"]
    assert two() == 2.0
