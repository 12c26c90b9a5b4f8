"""What the shell completes: names of backends and datasets, read from their cards when Tab is pressed."""

from __future__ import annotations

from harness.registry.lookup import dataset_names, find_cards

__all__ = ["complete_backend", "complete_backends", "complete_dataset", "complete_datasets"]

Completion = tuple[str, str]


def complete_backend(incomplete: str) -> list[Completion]:
    """Return the names of backends that begin with ``incomplete``, each with its summary."""
    return [(name, card.summary) for name, card in find_cards("backends").items() if name.startswith(incomplete)]


def complete_backends(incomplete: str) -> list[Completion]:
    """Complete the last name of a comma-separated list of backends; a name with parameters is left as it is."""
    before, comma, last = incomplete.rpartition(",")
    return [(f"{before}{comma}{name}", summary) for name, summary in complete_backend(last)]


def complete_datasets(incomplete: str) -> list[Completion]:
    """Complete the last name of a comma-separated list of datasets."""
    before, comma, last = incomplete.rpartition(",")
    return [(f"{before}{comma}{name}", summary) for name, summary in complete_dataset(last)]


def complete_dataset(incomplete: str) -> list[Completion]:
    """Return the names of datasets that begin with ``incomplete``, members of families too, each with its summary."""
    return [(name, summary) for name, summary in dataset_names().items() if name.startswith(incomplete)]
