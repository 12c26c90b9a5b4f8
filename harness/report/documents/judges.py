"""Build the documents of ``harness judge``: labels by a model, and the agreement of two judges."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness.document.cells import ABSENT, count, interval, number, text
from harness.document.model import Block, Column, Document, Facts, Notes, Section, Table, Tone, Value, Verdict
from harness.remote.calls import calls_in_words
from harness.results.judge_results import ENOUGH_HUMAN, Agreement, JudgeResult, ModelLabels, RankingAgreement
from harness.wording import counted

_KAPPAS = {"none": "unweighted", "linear": "linear weights", "quadratic": "quadratic weights"}
_MOST = 10
_LONGEST_NAME = 20


def judges_document(result: JudgeResult) -> Document:
    """Build the document of either result; raises TypeError for another record."""
    if isinstance(result, Agreement):
        return Document(
            title=f"{result.first} and {result.second}",
            subtitle=_pairs_in_words(result),
            sections=[Section("agreement", "Agreement", list(_agreement_blocks(result)))],
            kind="agreement",
            has_page=False,
            values=list(_values(result)),
        )
    if isinstance(result, ModelLabels):
        return _labels_document(result)
    raise TypeError(f"a {type(result).__name__} has no document")


def _labels_document(labels: ModelLabels) -> Document:
    unjudged = sum(labels.unjudged.values())
    written = (
        f"{counted(labels.written, 'label')} in {labels.file}" if labels.file else "no new label, so no file is written"
    )
    if labels.file and labels.earlier:
        written += f", which also keeps {counted(labels.earlier, 'label')} of earlier runs with this model and prompt"
    sure = not unjudged and _pairs(labels) >= ENOUGH_HUMAN
    tone: Tone = "bad" if labels.failure else "good" if sure else "unsure"
    graded = f"{labels.graded:,} of {counted(labels.chosen, 'document')} graded, {unjudged:,} left unjudged"
    sections = [
        Section("labels", "Labels", [Notes(_notes(labels)), *_unjudged_blocks(labels), _grades_table(labels)]),
        Section("facts", "The judge", [Facts("", list(_facts(labels)), open=True)]),
    ]
    if labels.agreement is not None:
        blocks = [Notes([_pairs_in_words(labels.agreement)]), *_agreement_blocks(labels.agreement)]
        sections.append(Section("agreement", "Agreement with people", blocks))
    return Document(
        title=f"Labels by {labels.model}",
        subtitle=f"{counted(labels.pool, 'document')} in the pool · prompt {labels.prompt_digest} · {labels.time}",
        verdicts=[
            Verdict(tone, labels.failure or graded, written, answers=True),
            *(Verdict("unsure", warning) for warning in labels.warnings),
        ],
        sections=sections,
        kind="judge",
        name=labels.model,
        has_page=False,
        values=[] if labels.agreement is None else list(_values(labels.agreement)),
    )


def _notes(labels: ModelLabels) -> list[str]:
    lines = [
        "Labels by a model are not judgments by people: results that are scored with them say so.",
        "No gate counts them without --count-model-labels.",
    ]
    if labels.agreement is not None and sum(map(any, labels.agreement.confusion)) == 1:
        lines.append(
            "All documents that both judged have the same grade by people: kappa says nothing then. Please judge "
            "documents of other grades by hand."
        )
    if (pairs := _pairs(labels)) < ENOUGH_HUMAN:
        graded = f"The model graded {f'only {pairs}' if pairs else 'no'} {'document' if pairs < 2 else 'documents'}"
        lines.append(f"{graded} with a human judgment, too few to say how far it can be trusted.")
        if labels.missing_human:
            reason = ": the grades are in the cache" if labels.graded else ""
            lines.append(f"Please judge {labels.missing_human} by hand, and run this again{reason}.")
        elif pairs + sum(labels.unjudged.values()) < ENOUGH_HUMAN:
            lines.append(f"Compare {ENOUGH_HUMAN} with --budget {2 * ENOUGH_HUMAN}.")
    return lines


def _pairs(labels: ModelLabels) -> int:
    return labels.agreement.pairs if labels.agreement is not None else 0


def _unjudged_blocks(labels: ModelLabels) -> Iterator[Block]:
    if labels.unjudged:
        rows = [[text(reason), count(number_of)] for reason, number_of in labels.unjudged.items()]
        yield Table("Documents without a grade", [Column("reason", numeric=False), Column("documents")], rows)
        columns = [Column(name, numeric=False) for name in ("query", "document", "dataset", "reason")]
        pairs = [
            [text(pair.query_id), text(pair.doc_id), text(pair.dataset), text(pair.reason)]
            for pair in labels.unjudged_pairs
        ]
        yield Table("These documents", columns, pairs, detail=True)


def _grades_table(labels: ModelLabels) -> Table:
    rows = [[text(grade), count(number_of)] for grade, number_of in labels.grades.items()]
    return Table("Grades", [Column("grade", numeric=False), Column("documents")], rows)


def _facts(labels: ModelLabels) -> Iterator[tuple[str, str]]:
    yield "model", labels.model
    yield "prompt", f"{labels.prompt_digest} (digest of all that is sent besides the texts)"
    names = ("endpoint", "calls", "repeated_calls", "calls_before")
    yield "calls", calls_in_words({name: getattr(labels, name) for name in names})
    counts = labels.tokens or not labels.calls
    yield "tokens", f"{labels.tokens:,}, as the endpoint counts them" if counts else "the endpoint does not count them"


def _pairs_in_words(agreement: Agreement) -> str:
    only = f"{agreement.only_first:,} only in the first, {agreement.only_second:,} only in the second"
    return f"{counted(agreement.pairs, 'document')} judged by both" + (
        f" ({only})" if agreement.only_first or agreement.only_second else ""
    )


def _agreement_blocks(agreement: Agreement) -> Iterator[Block]:
    """Yield figures of agreement, the confusion matrix, the backends' order, and the documents to look at first."""
    rows = [[text("same grade"), number(agreement.agreed, ".3f"), text(ABSENT)]]
    rows += [
        [
            text(f"Cohen's kappa, {_KAPPAS[kappa.weighting]}"),
            number(kappa.value, "z.3f"),
            text(interval(kappa.low, kappa.high, "z.3f") or ABSENT),
        ]
        for kappa in agreement.kappa
    ]
    yield Table("Agreement", [Column("figure", numeric=False), Column("value"), Column("95 % interval")], rows)
    columns = [Column("grade", numeric=False), *(Column(str(grade)) for grade in agreement.grades)]
    matrix = [
        [text(str(grade)), *map(count, row)] for grade, row in zip(agreement.grades, agreement.confusion, strict=True)
    ]
    legend = [f"rows: {agreement.first}; columns: {agreement.second}"]
    yield Table("Documents by both grades", columns, matrix, legend)
    yield from (_ranking_table(ranking, agreement) for ranking in agreement.rankings)
    if agreement.differences:
        names = [Column("query", numeric=False), Column("document", numeric=False), Column("dataset", numeric=False)]
        cells = [
            [text(one.query_id), text(one.doc_id), text(one.dataset or ABSENT), count(one.first), count(one.second)]
            for one in agreement.differences
        ]
        title = "Different grades, the largest difference first"
        yield Table(title, [*names, *_judge_columns(agreement)], cells, _judge_names(agreement), most=_MOST)


def _ranking_table(ranking: RankingAgreement, agreement: Agreement) -> Table:
    rows = [[text(one.backend), number(one.first), number(one.second)] for one in ranking.backends]
    tau = "is not defined" if ranking.tau is None else f"is {ranking.tau:.3f}"
    queries = counted(ranking.queries, "query", "queries")
    order = f"Kendall's tau-b of the two orders {tau}; {queries}, only documents that both judged"
    legend = [*_judge_names(agreement), order]
    columns = [Column("backend", numeric=False), *_judge_columns(agreement)]
    return Table(f"{ranking.metric} under each set of labels, {ranking.dataset}", columns, rows, legend)


def _judge_columns(agreement: Agreement) -> list[Column]:
    """Return columns with the names of both judges, without folders, or with their positions if these are long."""
    names = [Path(agreement.first).name, Path(agreement.second).name]
    is_short = names[0] != names[1] and max(map(len, names)) <= _LONGEST_NAME
    return list(map(Column, names if is_short else ("first", "second")))


def _judge_names(agreement: Agreement) -> list[str]:
    """Return a line for the columns that do not hold a judge's whole name."""
    columns = zip(_judge_columns(agreement), (agreement.first, agreement.second), strict=True)
    line = "; ".join(f"{column.name}: {name}" for column, name in columns if column.name != name)
    return [line] if line else []


def _values(agreement: Agreement) -> Iterator[Value]:
    """Yield every figure for CSV: the pair of judges takes the place of a backend."""
    judges = f"{agreement.first} and {agreement.second}"
    if agreement.agreed is not None:
        yield Value("", judges, "same grade", agreement.agreed)
    for kappa in agreement.kappa:
        if kappa.value is not None:
            yield Value("", judges, f"kappa ({kappa.weighting})", kappa.value, kappa.low, kappa.high)
    for ranking in agreement.rankings:
        if ranking.tau is not None:
            yield Value(ranking.dataset, judges, f"Kendall's tau ({ranking.metric})", ranking.tau)
        for one in ranking.backends:
            yield Value(ranking.dataset, one.backend, f"{ranking.metric} by {agreement.first}", one.first)
            yield Value(ranking.dataset, one.backend, f"{ranking.metric} by {agreement.second}", one.second)
