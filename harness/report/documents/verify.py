"""Build the document of a verification: the index first, then every printed digit, and explanations of misses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.document.cells import FAILED, count
from harness.document.model import Block, Cell, Column, Document, Notes, Section, Table, Tone, Value, Verdict
from harness.report.documents.published import beside_printed
from harness.results.verification import IndexFact, PrintedNumber, Variant, Verification, VerifiedDataset, printed_value
from harness.wording import counted


def verification_document(verification: Verification) -> Document:
    """Build the document of a verification."""
    done = [dataset for dataset in verification.datasets if dataset.unavailable is None]
    left_out = [dataset for dataset in verification.datasets if dataset.unavailable is not None]
    sections = [_section(dataset) for dataset in done]
    if left_out:
        by_reason: dict[str, list[str]] = {}
        for dataset in left_out:
            by_reason.setdefault(str(dataset.unavailable), []).append(dataset.name)
        lines = [f"not verified, {reason}: {', '.join(names)}" for reason, names in by_reason.items()]
        sections.append(Section("not-verified", "Not verified", [Notes(lines)]))
    numbers = [(dataset.name, number) for dataset in done for number in dataset.numbers]
    values = [Value(name, number.system, number.metric, number.measured) for name, number in numbers]
    values += [
        Value(name, number.system, f"published.{number.metric}", printed_value(number.printed))
        for name, number in numbers
    ]
    data = ", ".join(dataset.name for dataset in done) or "no dataset"
    return Document(
        title=f"Published numbers of {data}",
        subtitle="printed, measured here, and the difference; the index before scores",
        verdicts=[_verdict(dataset) for dataset in done],
        sections=sections,
        kind="verify",
        name=data,
        values=values,
    )


def _name(dataset: VerifiedDataset) -> str:
    return f"{dataset.name} ({dataset.split})" if dataset.split else dataset.name


def _verdict(dataset: VerifiedDataset) -> Verdict:
    """Say in a line how many numbers agree."""
    agree, total = sum(number.agrees for number in dataset.numbers), len(dataset.numbers)
    failed = sum(number.measured is None for number in dataset.numbers)
    other_index = [fact.statistic for fact in dataset.index if not fact.agrees]
    detail = f"{counted(failed, 'number')} could not be measured: a backend failed" if failed else ""
    if other_index:
        detail = f"the index differs ({', '.join(other_index)}), so that scores can only agree by chance"
    complete = agree == total and not other_index
    tone: Tone = "good" if complete else "unsure" if agree + failed == total and not other_index else "bad"
    return Verdict(tone, f"{_name(dataset)}: {agree} of {total} published numbers to the printed digit", detail)


def _section(dataset: VerifiedDataset) -> Section:
    sources = list(dict.fromkeys(number.source for number in dataset.numbers))
    size = f"{counted(dataset.documents or 0, 'document')}, {counted(dataset.queries or 0, 'query')}"
    notes = [note for fact in dataset.index for note in _notes_on_index(fact)]
    notes += [note for number in dataset.numbers for note in _notes(number)]
    blocks: list[Block] = [_index(dataset), _scores(dataset, sources), Notes(notes)]
    return Section(dataset.name.replace("/", "-"), f"{_name(dataset)}: {size}", blocks)


def _index(dataset: VerifiedDataset) -> Table:
    rows = [
        [
            Cell(fact.statistic.replace("_", " ")),
            count(fact.printed),
            count(fact.measured),
            _agreement(fact.agrees),
        ]
        for fact in dataset.index
    ]
    columns = [Column("statistic", numeric=False), Column("printed"), Column("measured"), Column("", numeric=False)]
    return Table(f"Index of {_name(dataset)}", columns, rows)


def _scores(dataset: VerifiedDataset, sources: Sequence[str]) -> Table:
    rows = [
        [
            Cell(number.system),
            Cell(number.metric),
            Cell(number.printed, value=printed_value(number.printed)),
            Cell(beside_printed(number.measured, number.printed), value=number.measured),
            Cell(beside_printed(number.difference, number.printed, "+"), value=number.difference),
            _agreement(number.agrees, failed=number.measured is None),
            Cell(f"[{sources.index(number.source) + 1}]"),
        ]
        for number in dataset.numbers
    ]
    columns = [
        Column("system", numeric=False),
        Column("metric", numeric=False),
        Column("printed", help="as published"),
        Column("measured"),
        Column("difference", help="measured minus printed"),
        Column("", numeric=False),
        Column("in", numeric=False),
    ]
    legend = [f"[{position}] {source}" for position, source in enumerate(sources, 1)]
    return Table(f"Scores on {_name(dataset)}", columns, rows, legend)


def _agreement(agrees: bool, *, failed: bool = False) -> Cell:
    if failed:
        return Cell(FAILED, tone="unsure")
    return Cell("to the digit", tone="good") if agrees else Cell("differs", tone="bad")


def _notes(number: PrintedNumber) -> Iterator[str]:
    """Explain a number that is missed."""
    about = f"{number.system}, {number.metric}"
    if number.error is not None:
        yield f"{about}: {number.backend} failed: {number.error}"
    elif not number.agrees:
        measured = f"{beside_printed(number.measured, number.printed)} measured by {number.backend}"
        yield f"{about}: {number.printed} is printed, {measured}"
        yield from _explanation(number, number.printed)


def _notes_on_index(fact: IndexFact) -> Iterator[str]:
    """Explain a missed statistic; empty for a statistic that the engine does not report."""
    if not fact.agrees and fact.measured is not None:
        about = f"{fact.backend}, {fact.statistic.replace('_', ' ')}"
        yield f"{about}: {fact.printed:,} is printed, {fact.measured:,} measured"
        yield from _explanation(fact, f"{fact.printed:,}")


def _explanation(missed: PrintedNumber | IndexFact, printed: str) -> Iterator[str]:
    for variant in missed.variants:
        yield f"  one change gives {printed}: {_change(variant, missed)}"
    if not missed.variants and missed.tried:
        nearest = "" if missed.nearest is None else f"; the nearest is {_change(missed.nearest, missed)}"
        yield f"  none of {missed.tried} single changes gives {printed}{nearest}"


def _change(variant: Variant, missed: PrintedNumber | IndexFact) -> str:
    is_fact = isinstance(missed, IndexFact)
    value = f"{variant.value:,.0f}" if is_fact else beside_printed(variant.value, str(missed.printed))
    return f"{variant.aspect}: {variant.after} in place of {variant.before} ({value})"
