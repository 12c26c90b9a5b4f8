"""Build the document of a check: a golden set compared with backends."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from harness.data.filtering import format_filter
from harness.document.busy import busy_sentence, with_busy_marks
from harness.document.cells import (
    ABSENT,
    HUMAN,
    bars_figure,
    count,
    empty_documents,
    excluded_documents,
    filters_in_words,
    flat_rows,
    human_cell_of,
    identical_ids,
    interval,
    join_names,
    label_lines,
    latencies,
    latency_columns,
    mean,
    metric_values,
    notes_on_trials,
    number,
    percentile_figure,
    provenance,
    sections_with_content,
    text,
    tie_range,
    values_of,
)
from harness.document.model import (
    Block,
    Cell,
    Column,
    Document,
    Facts,
    Notes,
    Section,
    Table,
    Tone,
    Value,
    Verdict,
)
from harness.report.documents.check_cases import (
    check_annotations,
    check_suites,
    expected_and_returned,
    hit_names,
    problem_headline,
    verdict_in_words,
)
from harness.report.documents.quality import (
    UnjudgedRow,
    best_value,
    difference_values,
    metric_names,
    pair_tables,
    quality_table,
    trial_cells,
    trial_columns,
    unjudged_tables,
)
from harness.report.documents.regress import change_document, short_change_labels
from harness.report.documents.truncation_table import truncation_tables
from harness.report.documents.verdicts import quality_verdicts
from harness.report.documents.won_and_lost import won_and_lost
from harness.results.check_schema import PreflightProblem, QuestionResult, RequirementResult
from harness.results.dataset_info import LEFT_OUT
from harness.results.schema import Result, TrialResult
from harness.results.schema_base import DatasetInfo, MetricValue
from harness.wording import counted, few_for_interval, id_list, short_ids, unread_files_in_words

_MAX_EXAMPLES = 20
_IN_SHORT = 5
_DRAWN = 4
_TEXT = 300
_SAVE = "--save-baseline"
_INTERVALS = "95 % intervals: BCa bootstrap over questions that expect something; exact if every value is 0 or 1"
_OUTCOMES: dict[bool | None, tuple[str, Tone, str]] = {
    True: ("passed", "good", "✓"),
    False: ("failed", "bad", "✕"),
    None: ("not judged", "unsure", "?"),
}


def check_document(report: Result) -> Document:
    """Return everything that is shown of a check."""
    notes = list(_notes(report))
    sections = [
        Section("preflight", "Causes of invalidity", list(_problems(report))),
        Section("requirements", "Requirements", _requirements(report), open=True),
        Section(
            "quality",
            "Quality",
            [
                *_metrics(report),
                *_no_answer(report),
                *_bars(report),
                *_slices(report),
                *truncation_tables(report.trials),
            ],
        ),
        Section("won-and-lost", "Questions won and lost", [*won_and_lost(report)], open=True),
        Section("missed", "Questions of failed requirements", list(_missed(report))),
        Section("cost", "Speed and parity", _speed(report)),
        Section("notes", "About these numbers", [Notes(notes)] if notes else []),
        Section("provenance", "Provenance", list(provenance(report, _data(report))), detail=True),
    ]
    change = None if report.change is None else change_document(report)
    if change is not None:
        sections[2:2] = _against_baseline(change)
    backends = join_names([info.label for info in report.backends], _DRAWN)
    return Document(
        title=f"{report.golden_set.name}: {backends}" if backends else report.golden_set.name,
        subtitle=_header(report),
        verdicts=_both_verdicts(report, [] if change is None else change.verdicts),
        sections=sections_with_content(sections),
        command=[shlex.join(report.command)],
        made_by=f"harness {report.harness.version} · {report.created}",
        kind="check",
        name=report.golden_set.name,
        outcome=_outcome(report),
        labels=report.short_labels if report.change is None else short_change_labels(report.change),
        values=[*_values(report), *(() if change is None else change.values)],
        suites=check_suites(report),
        annotations=[*check_annotations(report), *(() if change is None else change.annotations)],
    )


def _header(report: Result) -> str:
    """Return one line that gives the data, its size and the rules."""
    golden, settings = report.golden_set, report.plan.resolved
    parts = [
        golden.name,
        f"{counted(golden.questions, 'question')}, {golden.evaluated:,} with an expected document",
        *(line for corpus in report.corpora for line in _corpus(corpus)),
        *_filters(report),
        *_matching(report),
        f"k={settings['k']}",
        f"ties={settings['ties']}",
    ]
    return "\n".join([" · ".join(parts), *label_lines(report.datasets)])


def _matching(report: Result) -> Iterator[str]:
    """Yield the rule by which expectations are matched, and how many match."""
    golden = report.golden_set
    by_text = [count for count in golden.matched if count.by == "text"]
    if any(count.by == "field" for count in golden.matched) or golden.match.startswith("field:"):
        rule = f"the field {golden.match.partition(':')[2]}" if ":" in golden.match else "the field named for ids"
        yield f"matched by {rule}{_match_counts(report, 'field')}"
    elif not golden.match.startswith("text") and golden.with_texts < golden.evaluated:
        yield "exact ids" if golden.delimiter is None else f"ids matched by {golden.match}, '{golden.delimiter}'"
    if by_text:
        some = "the golden set has"
        if golden.with_texts < golden.evaluated:
            some = counted(golden.with_texts, "question has", "questions have")
        unasked = "" if golden.match.startswith("text") else f", as {some} texts and no ids"
        share = golden.match.partition(":")[2] if golden.match.startswith("text:") else ""
        rule = f"text ({share} of the words in order)" if share else "text"
        yield f"matched by {rule}{unasked}{_match_counts(report, 'text')}"


def _match_counts(report: Result, by: str) -> str:
    """Return how many expectations match, for each corpus and each backend with its own documents."""
    counts = [count for count in report.golden_set.matched if count.by == by]
    noun = "expected text" if by == "text" else "expected value"
    parts = []
    for matched in counts:
        name = matched.dataset if matched.backend is None else matched.backend
        source = f" in {name}" if len(counts) > 1 else " in the hits" if matched.backend is not None else ""
        share = f", {matched.by_share:,} by share" if matched.by_share else ""
        parts.append(f"{matched.matched:,} of {counted(matched.expected, noun)}{source}{share}")
    return f": {'; '.join(parts)}" if parts else ""


def _filters(report: Result) -> list[str]:
    """Return the filters of the questions; counts of documents only if there is a single corpus."""
    groups = report.datasets[0].query_filters if report.datasets else []
    return filters_in_words(groups, documents=len(report.datasets) == 1)


def _corpus(corpus: DatasetInfo) -> list[str]:
    """Return the size of a corpus, its unread files, and its rule for identical ids if that matters."""
    documents = f"{corpus.name}: {counted(corpus.documents, 'document')}"
    empty = empty_documents(corpus.empty_documents, int(corpus.provenance.get(LEFT_OUT, 0)))
    unread = [unread_files_in_words(corpus.unread_files)] if corpus.unread_files else []
    return [
        f"{documents}{empty}",
        *unread,
        *identical_ids(corpus.identical_ids, "question"),
        *excluded_documents(corpus.excluded, "question"),
    ]


def _outcome(report: Result) -> str:
    """Return the verdict; a check that passed because nothing is required of it is only ``checked``."""
    required = report.requirements or (report.change is not None and report.change.gate is not None)
    return "checked" if report.verdict == "passed" and not required else str(report.verdict)


def _against_baseline(change: Document) -> list[Section]:
    """Return the sections of a change, as parts of a check's document."""
    sections = []
    for section in change.sections:
        blocks = [
            replace(block, title=f"{block.title}, against the baseline") if isinstance(block, Table) else block
            for block in section.blocks
            if isinstance(block, Table) or section.anchor == "notes"
        ]
        title = f"{section.title}, against the baseline"
        anchor, is_open = f"baseline-{section.anchor}", section.anchor in ("quality", "changed")
        sections.append(replace(section, anchor=anchor, title=title, blocks=blocks, open=is_open))
    return sections_with_content(sections)


def _both_verdicts(report: Result, of_change: Sequence[Verdict]) -> list[Verdict]:
    """Return the verdicts of a check and of its change, whose first one is the verdict on both.

    The change comes first if the check has no overall verdict, and if only the change is bad.
    """
    good, of_check = ("good", "plain"), list(_verdicts(report))
    is_worse = bool(of_change) and of_change[0].tone not in good and (not of_check or of_check[0].tone in good)
    change_first = is_worse or not any(_overall(report))
    return [*of_change, *of_check] if change_first else [*of_check, *of_change]


def _verdicts(report: Result) -> Iterator[Verdict]:
    """Yield the verdict, then its grounds, the most pressing first, and which backend is best.

    If nothing was required, the best backend comes first; of a single backend, its mean.
    """
    required = bool(report.requirements)
    first = required or report.verdict != "passed"
    best = quality_verdicts("", report.trials, report) if report.differences or not required else []
    overall = [replace(verdict, answers=first or not best) for verdict in _overall(report)]
    answers = [*overall, *_grounds(report)]
    yield from [*answers, *best] if first else [*best, *answers]
    if sentence := busy_sentence(report.trials):
        yield Verdict(
            "unsure",
            sentence,
            "latencies marked ‡, and requirements on them, were measured on a busy machine; run again",
        )


def _grounds(report: Result) -> Iterator[Verdict]:
    """Yield problems, failed backends, and requirements that are not met or could not be judged."""
    for problem in report.preflight:
        yield Verdict("bad", problem_headline(report, problem), problem.fix)
    failures: dict[tuple[str, str], list[str]] = {}
    reported = {(problem.backend, problem.dataset, problem.message) for problem in report.preflight}
    for trial in report.trials:
        if trial.error is None:
            continue
        if (trial.label, trial.dataset, trial.error.message.partition("\n")[0]) not in reported:
            failures.setdefault((trial.label, trial.error.message), []).append(trial.dataset)
    for (label, message), datasets in failures.items():
        name = (
            f"{label} failed on {join_names(datasets)}" if len(datasets) > 1 else report.trial_name(label, datasets[0])
        )
        yield Verdict("bad", name if len(datasets) > 1 else f"{name} failed", message)
    causes = _causes(report)
    for required in report.requirements:
        name = report.trial_name(required.backend, required.dataset)
        failed = report.trial(required.backend, required.dataset).error is not None
        if required.passed is False:
            missed = f". Missed: {join_names(required.questions_below_best)}" if required.questions_below_best else ""
            yield Verdict("bad", f"{required.text} failed on {name}", f"{verdict_in_words(required)}{missed}")
            for cause in causes.pop((required.backend, required.dataset), ()):
                yield Verdict("unsure", problem_headline(report, cause), f"{cause.fix} ({cause.check})")
        elif required.passed is None and not report.preflight and not failed:
            yield Verdict("unsure", f"{required.text} could not be judged on {name}", required.reason or "")


def _causes(report: Result) -> dict[tuple[str, str], list[PreflightProblem]]:
    """Return the warnings about each backend and dataset on which a requirement of quality failed.

    Warnings about a corpus count if they name expected ids that it lacks.
    """
    failed = [
        (required.backend, required.dataset)
        for required in report.requirements
        if required.passed is False and required.quantity in report.trial(required.backend, required.dataset).metrics
    ]
    return {
        (backend, dataset): [
            warning
            for warning in report.warnings
            if warning.dataset == dataset
            and (warning.backend == backend or (warning.backend is None and warning.check == "missing-ids"))
        ]
        for backend, dataset in dict.fromkeys(failed)
    }


def _overall(report: Result) -> Iterator[Verdict]:
    """Yield the verdict on the requirements; a check that is only compared with a baseline has none."""
    total = len(report.requirements)
    failed = sum(required.passed is False for required in report.requirements)
    unjudged = any(required.passed is None for required in report.requirements)
    wrong = bool(report.preflight) or unjudged or any(trial.error is not None for trial in report.trials)
    if report.verdict == "invalid" and (wrong or report.change is None):
        reason = "no backend was queried" if not report.trials else "not everything could be judged"
        yield Verdict("unsure", f"Invalid: {reason}", "Fix the problems below and run again.")
        return
    if failed:
        yield Verdict("bad", f"Failed: {failed} of {counted(total, 'requirement')} not met")
        return
    if not total:
        if report.change is None:
            example = f"Hit@{report.plan.resolved['k']}>=0.9"
            baseline = _saved_baseline(report)
            if baseline is None:
                yield Verdict("plain", "Nothing was required", f"Add --require '{example}' for a verdict.")
            else:
                hint = f"To judge a check, add --baseline {shlex.quote(baseline)} or --require '{example}'."
                yield Verdict("plain", "Saved as the baseline of later checks", hint)
        return
    met = f"{counted(total, 'requirement')} met"
    requirements = [
        f"{report.trial_name(required.backend, required.dataset)}: {required.text} is "
        f"{_quantity(required.value, required).text}"
        for required in report.requirements[:_DRAWN]
    ]
    yield Verdict("good", f"Passed: {met}", "; ".join(requirements))


def _saved_baseline(report: Result) -> str | None:
    """Return the file to which the command saves the check as a baseline; None without it."""
    words = report.command
    return words[words.index(_SAVE) + 1] if _SAVE in words else None


def _problems(report: Result) -> Iterator[Facts]:
    """Yield the first examples of each problem; the verdict describes the problem and its fix."""
    for problem in report.preflight:
        if problem.examples:
            lines = [("", example) for example in problem.examples]
            yield Facts(f"Examples: {problem.check.replace('-', ' ')}", lines, open=True)


def _notes(report: Result) -> Iterator[str]:
    """Yield notes for reading the figures, one line each.

    Warnings among the verdicts, which lack examples, are left out unless they have some.
    """
    concerned: dict[str, tuple[PreflightProblem, list[str]]] = {}
    verdicts = [cause for causes in _causes(report).values() for cause in causes]
    for warning in report.warnings:
        if not warning.examples and warning in verdicts:
            continue
        alike = warning.model_copy(update={"backend": None, "dataset": None}).model_dump_json()
        names = concerned.setdefault(alike, (warning, []))[1]
        if warning.backend is not None:
            names.append(report.trial_name(warning.backend, warning.dataset))
        elif warning.dataset is not None and len(report.corpora) > 1:
            names.append(warning.dataset)
    for warning, names in concerned.values():
        examples = [f"    {line}" for example in warning.examples for line in example.splitlines()]
        about = f"{', '.join(names)}: " if names else ""
        yield "\n".join([f"warning ({warning.check}): {about}{warning.message}", *examples, f"  fix: {warning.fix}"])
    without = report.golden_set.without_expectation
    if without:
        questions = counted(len(without), "question")
        judged = any(trial.no_answer is not None for trial in report.trials)
        hint = "" if judged else "; not judged whether they get an answer (--answer-threshold)"
        yield f"{questions} without an expected document, left out of means: {join_names(without)}{hint}"
    yield from notes_on_trials(_labelled_trials(report))
    if any(value.ci_low is not None for trial in report.trials for value in trial.metrics.values()):
        yield from few_for_interval([report.golden_set.evaluated], "question")
    yield from (*report.golden_set.notes, *report.notes)


def _requirements(report: Result) -> list[Block]:
    """Tabulate every requirement on every backend: value, bound, interval, range of ties, and changes to flip it."""
    columns = [
        Column("requirement", numeric=False),
        *trial_columns(report),
        Column("verdict", numeric=False),
        Column("value", below="95 % interval", below_priority=1),
        Column("range of ties", priority=4, help="for the worst and the best order of documents with equal scores"),
        Column("n", priority=3, help="questions behind the value; of a latency, samples"),
        Column("would flip", priority=2, help="questions that would have to change, each as far as it can"),
    ]
    legend = ["would flip: questions that would have to change, each as far as it can, for the other verdict"]
    if any(required.decided_by != "estimate" for required in report.requirements):
        legend.append("a bound of the interval decides, not the value (--confidence)")
    rows = [_requirement(report, required) for required in report.requirements]
    return [Table("Requirements", columns, rows, legend)] if rows else []


def _requirement(report: Result, required: RequirementResult) -> list[Cell]:
    word, tone, sign = _OUTCOMES[required.passed]
    digits = 3 if required.quantity.endswith("_ms") else 4
    interval_text = interval(required.ci_low, required.ci_high, f",.{digits}f")
    value = _quantity(required.value, required)
    return [
        text(required.text),
        *trial_cells(report, required.backend, required.dataset),
        text(word, sign, tone=tone),
        Cell(value.text, below=interval_text, value=required.value),
        text(interval(required.min, required.max, f",.{digits}f") if tie_range(required.min, required.max) else ABSENT),
        count(required.n),
        count(required.flips),
    ]


def _quantity(value: float | None, required: RequirementResult) -> Cell:
    return number(value, ",.3f", " ms") if required.quantity.endswith("_ms") else number(value)


def _missed(report: Result) -> Iterator[Block]:
    """Yield the questions below their best of each failed requirement, worst first: expected and returned documents."""
    columns = [
        Column("question", numeric=False),
        Column("text", numeric=False),
        Column("expected", numeric=False),
        Column("hits", numeric=False),
        Column("line", priority=1),
    ]
    for required in report.requirements:
        if required.passed is False and required.questions_below_best:
            trial = report.trial(required.backend, required.dataset)
            by_id = {question.id: question for question in trial.questions}
            questions = [by_id[name] for name in required.questions_below_best[:_MAX_EXAMPLES]]
            docs = [
                doc for question in questions for doc in (*hit_names(question), *(one.id for one in question.expected))
            ]
            short, names = short_ids(docs), short_ids(question.id for question in questions)
            filtered = any(question.filter for question in trial.questions)
            rows = [_question(question, names[question.id], short, filtered=filtered) for question in questions]
            more = len(required.questions_below_best) - _MAX_EXAMPLES
            legend = [f"… and {more:,} more, in report.json"] if more > 0 else []
            missed = counted(len(required.questions_below_best), "question")
            name = report.trial_name(trial.label, trial.dataset)
            fault = "below their best" if required.operator.startswith(">") else "with forbidden hits"
            title = f"{required.text} failed on {name}: {missed} {fault}"
            of_filters = [Column("filter", numeric=False)] if filtered else []
            yield Table(title, [*columns[:2], *of_filters, *columns[2:]], rows, legend, most=_IN_SHORT)


def _question(question: QuestionResult, name: str, short: Mapping[str, str], *, filtered: bool) -> list[Cell]:
    question_text = question.question or ABSENT
    shortened = question_text if len(question_text) <= _TEXT else f"{question_text[:_TEXT]} …"
    expected, returned = map(id_list, expected_and_returned(question, short))
    filter_cells = [text(format_filter(question.filter or {}) or ABSENT)] if filtered else []
    return [text(name), text(shortened), *filter_cells, text(expected), text(returned), count(question.line)]


def _labelled_trials(report: Result) -> list[tuple[str, TrialResult]]:
    return [(report.trial_name(trial.label, trial.dataset), trial) for trial in report.trials]


def _metric_columns(names: Sequence[str], by_people: Collection[str]) -> list[Column]:
    return [
        column
        for position, name in enumerate(names)
        for column in (
            Column(name, best=best_value(name), priority=position, below="95 % interval", below_priority=20 + position),
            *([replace(HUMAN, priority=position)] if name in by_people else []),
        )
    ]


def _means(metrics: Mapping[str, MetricValue], names: Sequence[str], by_people: Collection[str]) -> list[Cell]:
    return [
        cell
        for name in names
        for cell in (
            mean(metrics[name]) if name in metrics else text(ABSENT),
            *([human_cell_of(metrics.get(name))] if name in by_people else []),
        )
    ]


def _metrics(report: Result) -> list[Block]:
    """Tabulate means with differences from the reference, each pair, and means if unjudged hits were relevant."""
    table = quality_table(report, None)
    if table is None:
        return []
    unjudged = [UnjudgedRow.of_trial(trial_cells(report, trial.label, trial.dataset), trial) for trial in report.trials]
    return [table, *pair_tables(report, None), *unjudged_tables(trial_columns(report), unjudged)]


def _no_answer(report: Result) -> list[Table]:
    """Tabulate how often nothing above the threshold is returned; no table without a threshold."""
    judged = [(trial, trial.no_answer) for trial in report.trials if trial.no_answer is not None]
    if not judged:
        return []
    threshold = judged[0][1].threshold
    columns = [
        *trial_columns(report),
        Column("no answer", best="highest", below="95 % interval", below_priority=2, help="share of these questions"),
        Column("of", priority=1, help="questions that expect nothing"),
        Column("answered", numeric=False, help="the questions that got a hit above the threshold"),
        Column("expecting, no answer", priority=3, help="questions that expect a document, and have no such hit"),
    ]
    rows = []
    for trial, stats in judged:
        share = (
            text(f"not judged: it {stats.reason}")
            if stats.reason is not None
            else Cell(f"{stats.share:.4f}", below=interval(stats.ci_low, stats.ci_high, ",.4f"), value=stats.share)
        )
        missed = text(ABSENT) if stats.reason is not None else count(stats.expecting_without_answer)
        cells = [share, count(stats.questions), text(join_names(stats.answered, _DRAWN) or ABSENT), missed]
        rows.append([*trial_cells(report, trial.label, trial.dataset), *cells])
    legend = [f"a hit is an answer if its score is above {threshold:g} (--answer-threshold)"]
    return [Table("Questions that expect nothing", columns, rows, legend)]


def _slices(report: Result) -> Iterator[Block]:
    """Yield a table a field: a row for each of its values and each backend."""
    names = metric_names(report.trials)
    for field in dict.fromkeys(part.field for trial in report.trials for part in trial.slices):
        parts = [part for trial in report.trials for part in trial.slices if part.field == field]
        by_people = {name for part in parts for name, value in part.metrics.items() if value.human_n is not None}
        rows = [
            [
                text(part.value),
                *trial_cells(report, trial.label, trial.dataset),
                count(next((value.n for value in part.metrics.values()), 0)),
                *_means(part.metrics, names, by_people),
            ]
            for trial in report.trials
            for part in trial.slices
            if part.field == field
        ]
        columns = [
            Column(field, numeric=False),
            *trial_columns(report),
            Column("n"),
            *_metric_columns(names, by_people),
        ]
        rows.sort(key=lambda row: row[0].text)
        yield Table(f"By {field}", columns, rows, [_INTERVALS])


def _bars(report: Result) -> Iterator[Block]:
    """Yield metrics as bars with their intervals, metrics with requirements first."""
    names = metric_names(report.trials)
    required = [requirement.quantity for requirement in report.requirements if requirement.quantity in names]
    for name in list(dict.fromkeys([*required, *names]))[:_DRAWN]:
        yield bars_figure(name, _labelled_trials(report))


def _speed(report: Result) -> list[Block]:
    """Tabulate and draw the latency of single questions, with how many rankings are exact up to ties."""
    timed = [trial for trial in report.trials if trial.milliseconds is not None or trial.parity is not None]
    columns = [
        *trial_columns(report),
        *latency_columns(),
        Column("exact up to ties", help="questions ranked as the exact reference does"),
    ]
    rows = [
        [*trial_cells(report, trial.label, trial.dataset), *latencies(trial.milliseconds), _exact(trial)]
        for trial in timed
    ]
    times = {name: stats for name, trial in _labelled_trials(report) if (stats := trial.milliseconds) is not None}
    series = {name: number for number, (name, _) in enumerate(_labelled_trials(report))}
    return [
        *([with_busy_marks(Table("Speed and parity", columns, rows, detail=True), timed)] if rows else []),
        *([percentile_figure("Latency of a question, one client", times, series)] if times else []),
    ]


def _exact(trial: TrialResult) -> Cell:
    if trial.parity is None:
        return text(ABSENT)
    exact = trial.parity.tie_equivalent
    return Cell(f"{exact:,} of {trial.parity.queries:,}", value=exact)


def _data(report: Result) -> Iterator[Facts]:
    """Yield the facts about the golden set and the documents."""
    golden = report.golden_set.model_dump(exclude={"without_expectation", "notes"})
    yield Facts(f"Golden set {report.golden_set.name}", flat_rows(golden))
    for corpus in report.corpora:
        yield Facts(f"Documents {corpus.name}", flat_rows(corpus.model_dump(exclude={"name"})))


def _values(report: Result) -> Iterator[Value]:
    """Yield every number: metrics, also by slice and question, requirements, latencies and parity."""
    for trial in report.trials:
        name = trial.dataset
        yield from metric_values(trial)
        for part in trial.slices:
            for metric, value in part.metrics.items():
                title = f"{metric} where {part.field}={part.value}"
                yield Value(name, trial.label, title, value.mean, value.ci_low, value.ci_high, value.n)
        for prefix, stats in (("milliseconds.", trial.milliseconds), ("parity.", trial.parity)):
            yield from values_of(name, trial.label, prefix, stats.model_dump() if stats is not None else {})
        if (shares := trial.no_answer) is not None and shares.share is not None:
            yield Value(name, trial.label, "no_answer", shares.share, shares.ci_low, shares.ci_high, shares.questions)
        for question in trial.questions:
            for metric, figure in question.values.items():
                filtered = f", filter {format_filter(question.filter)}" if question.filter else ""
                yield Value(name, trial.label, f"{metric} of question {question.id}{filtered}", figure, n=1)
    for row in report.differences:
        yield from difference_values(row, report.golden_set.name)
    for required in report.requirements:
        bounds = (required.value, required.ci_low, required.ci_high, required.n)
        yield Value(required.dataset, required.backend, f"requirement {required.text}", *bounds)
        passed = None if required.passed is None else float(required.passed)
        yield Value(required.dataset, required.backend, f"passed {required.text}", passed, n=required.n)
