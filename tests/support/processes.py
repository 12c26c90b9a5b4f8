"""Processes found by what they inherited: also those that left their parent, their group and their session."""

from __future__ import annotations

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
