"""The arguments of ``harness regress`` and ``harness diff`` that judge the same again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["drop_arguments", "option_arguments", "python_call"]


def option_arguments(options: Mapping[str, object], defaults: Mapping[str, object]) -> list[str]:
    """Options by the names of their fields as arguments: those that are given, and not what they are anyway.

    A list or a tuple is an option that is given several times.
    """
    written: list[str] = []
    for name, value in options.items():
        flag = name.replace("_", "-")
        if value is None or value == defaults.get(name):
            continue
        if isinstance(value, bool):
            written.append(f"--{flag}" if value else f"--no-{flag}")
            continue
        for one in value if isinstance(value, list | tuple) else [value]:
            written += [f"--{flag}", str(one)]
    return written


def python_call(function: str, before: Sequence[object], given: Mapping[str, object]) -> list[str]:
    """The command of a call of ``harness`` that no command line says; arguments that are None are left out."""
    said = [f"{name}={_written(value)}" for name, value in given.items() if value is not None]
    called = f"harness.{function}({', '.join([*map(_written, before), *said])})"
    return ["python", "-c", f"import harness; print({called})"]


def _written(value: object) -> str:
    return repr(str(value)) if isinstance(value, Path) else repr(value)


def drop_arguments(max_drop: float | Mapping[str, float] | None, default: float | None) -> Sequence[str]:
    """Values of ``--max-drop``: of all metrics and of named ones; none where it is the default."""
    if max_drop == default or max_drop is None:
        return []
    if not isinstance(max_drop, Mapping):
        return [f"{max_drop:g}"]
    return [f"{metric}={drop:g}" if metric else f"{drop:g}" for metric, drop in max_drop.items()]
