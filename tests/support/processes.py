"""Processes found by what they inherited: also those that left their parent, their group and their session."""

from __future__ import annotations

import time

import psutil


def with_variable(name: str, value: str) -> list[psutil.Process]:
    """Every process, zombies apart, in whose environment the variable has this value."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(name) == value and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def assert_all_end(name: str, value: str, within_s: float = 5.0) -> None:
    """No process with this value of the variable stays: one that was killed is there for a moment longer."""
    deadline = time.monotonic() + within_s
    while alive := with_variable(name, value):
        assert time.monotonic() < deadline, alive
        time.sleep(0.02)
