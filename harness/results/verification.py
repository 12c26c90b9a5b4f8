"""The result of ``harness verify``: published and measured numbers, and single changes that explain a miss."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, computed_field

from harness.results.schema_base import Count, Record


def as_printed(value: float, printed: str, more: int = 0, sign: Literal["+", "-"] = "-") -> str:
    """Write a value with the digits (and some ``more``), and as the percentage, that a printed number has.

    ``sign`` is Python's option for numbers.
    """
    digits, percent = len(printed.rstrip("%").partition(".")[2]) + more, printed.endswith("%")
    return f"{value * (100 if percent else 1):{sign}.{digits}f}{'%' if percent else ''}"


def printed_value(printed: str) -> float:
    """Return the number that is printed: 0.397 for ``39.7%``."""
    return float(printed.rstrip("%")) / (100 if printed.endswith("%") else 1)


class Variant(Record):
    """One change of a published configuration, and the value that it gives."""

    aspect: str = Field(description="the change")
    before: str
    after: str
    value: float


class SingleChange(Record):
    """The single changes that were tried on missed numbers."""

    variants: list[Variant] = Field(
        default=[],
        description="for a missed number, the single changes that give it, in the order in which they are tried",
    )
    nearest: Variant | None = Field(default=None, description="the nearest change, if none gives it")
    tried: Count = Field(default=0, description="single changes that were tried")


class IndexFact(SingleChange):
    """A statistic of an index as printed and as measured."""

    backend: str
    statistic: str
    printed: Count
    measured: Count | None = Field(description="null if the engine does not tell it")

    @computed_field(description="whether both are equal")  # type: ignore[prop-decorator]
    @property
    def agrees(self) -> bool:
        """Whether both are equal."""
        return self.printed == self.measured


class PrintedNumber(SingleChange):
    """A published number and the measured number."""

    system: str = Field(description="name of the system in its source")
    source: str = Field(description="its source, with the settings stated there")
    backend: str = Field(description="the computation used here")
    options: dict[str, str | int] = Field(description="how it was searched and scored")
    metric: str
    printed: str = Field(description="as published, digit by digit")
    measured: float | None = Field(description="null if the backend failed")
    error: str | None = Field(default=None, description="why it failed")

    @computed_field(description="measured minus printed")  # type: ignore[prop-decorator]
    @property
    def difference(self) -> float | None:
        """Measured minus printed; None if the backend failed."""
        return None if self.measured is None else self.measured - printed_value(self.printed)

    @computed_field(description="whether it equals the printed number to the digit")  # type: ignore[prop-decorator]
    @property
    def agrees(self) -> bool:
        """Whether the measured value, rounded to as many digits, is the printed one."""
        return self.measured is not None and as_printed(self.measured, self.printed) == self.printed


class VerifiedDataset(Record):
    """Verification of one split of a dataset."""

    name: str
    split: str | None
    documents: Count | None = None
    queries: Count | None = None
    index: list[IndexFact] = Field(default=[], description="published statistics of its indexes")
    numbers: list[PrintedNumber] = Field(default=[], description="in the order in which they are published")
    unavailable: str | None = Field(default=None, description="why nothing was verified; null otherwise")


class Verification(Record):
    """Result of ``harness.verify``."""

    datasets: list[VerifiedDataset]

    @computed_field(description="published numbers that differ, including numbers of the index")  # type: ignore[prop-decorator]
    @property
    def missed(self) -> int:
        """How many published numbers differ, including the index's numbers."""
        facts = sum(not fact.agrees for dataset in self.datasets for fact in dataset.index)
        measured = (number for dataset in self.datasets for number in dataset.numbers if number.measured is not None)
        return facts + sum(not number.agrees for number in measured)

    @computed_field(description="whether a dataset was not available or a backend failed")  # type: ignore[prop-decorator]
    @property
    def incomplete(self) -> bool:
        """Whether a dataset was not available or a backend failed."""
        return any(
            dataset.unavailable is not None or any(number.measured is None for number in dataset.numbers)
            for dataset in self.datasets
        )
