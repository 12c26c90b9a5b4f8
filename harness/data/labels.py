"""Labels: judgments that came later than a dataset's own, with who gave them, when, and of which text."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import orjson

from harness.data.arrow import strings, take_rows
from harness.data.columns import abbreviated
from harness.data.golden_set import Expectation, GoldenSet
from harness.data.id_spelling import spelled_otherwise
from harness.data.memory import qrels_from_dict
from harness.data.problems import Finding, Problems
from harness.data.texts import text_digest
from harness.data.types import Corpus, Ids, LabelModel, Qrels
from harness.errors import DataError, HarnessError, UsageError
from harness.wording import counted

CONFLICT = "label-conflict"
OUTDATED = "label-of-changed-text"
UNCHECKED = "label-of-unknown-text"
BY_MODEL = "label-by-model"
WITHOUT_EFFECT = "label-without-effect"
CHECKS = (CONFLICT, OUTDATED, UNCHECKED, BY_MODEL)
_GRADE = 2**31
_FIX = "name a file of labels: labels.jsonl of harness judge, or a filled-in to-label.jsonl"
_EXAMPLES = 5
_EARLIEST = dt.datetime.min.replace(tzinfo=dt.UTC)
_TEXTS = ("dataset", "query_id", "doc_id", "by", "time", "text_digest", "model", "prompt_digest")
PairGrades = Mapping[tuple[str, str], int]
"""Query and document to grade."""


class Label(NamedTuple):
    """A grade that a person or a model gave to a document for a query.

    ``by`` is who gave it, the file if its line does not say. ``time`` is when, the earliest time if its line does not
    say. ``text_digest`` is the :func:`harness.data.texts.text_digest` of the judged text, None if it is not stored.
    ``model`` names the model that gave it and ``prompt_digest`` its prompt, None for a person.
    """

    query_id: str
    doc_id: str
    grade: int
    by: str
    time: dt.datetime = _EARLIEST
    text_digest: str | None = None
    model: str | None = None
    prompt_digest: str | None = None

    @property
    def pair(self) -> tuple[str, str]:
        """Query and document."""
        return self.query_id, self.doc_id


Labels = Mapping[str | None, Sequence[Label]]
"""Dataset to its labels; None for labels whose lines name no dataset."""


class SettledLabels(NamedTuple):
    """One grade for each labelled pair, and warnings about conflicts, changed texts and models.

    ``human`` are the grades among them that people gave; ``models`` are the models that gave the others, with the pairs
    of query and document.
    """

    grades: PairGrades
    findings: Sequence[Finding]
    human: PairGrades
    models: Mapping[LabelModel, Sequence[tuple[str, str]]] = MappingProxyType({})


def read_labels(paths: Sequence[Path]) -> Labels:
    """Read the lines of all files that have a grade, by dataset; lines with null are not labelled yet.

    Raises UsageError if there is no such file, or no path, DataError for a file without any grade, malformed lines, and
    a document to which one person gave different grades without a later time for one of them.
    """
    if not paths:
        raise UsageError("--labels names no file", fix=_FIX)
    labels: dict[str | None, list[Label]] = {}
    first: dict[object, int] = {}
    for path in paths:
        problems, count = Problems(str(path)), 0
        for number, dataset, label in label_lines(path, problems):
            key = dataset, label.query_id, label.doc_id, label.by, label.time, label.text_digest
            if first.setdefault(key, label.grade) != label.grade:
                who = f" by '{label.by}' at the same time" if label.by != str(path) else ""
                problems.add(
                    number, f"document '{label.doc_id}' has another grade for query '{label.query_id}' before{who}"
                )
            labels.setdefault(dataset, []).append(label)
            count += 1
        problems.raise_if_any(fix='each line is {"query_id": "…", "doc_id": "…", "grade": a whole number, or null}')
        if not count:
            raise DataError(
                str(path), ["no line has a grade"], fix="replace null by a grade where you judged a document"
            )
    return labels


def label_lines(path: Path, problems: Problems) -> Iterator[tuple[int, str | None, Label]]:
    """Yield the number, the dataset and the label of each line with a grade; malformed lines are noted in ``problems``.

    Raises UsageError for a file that cannot be read, DataError for a file that is not UTF-8.
    """
    try:
        lines = path.read_bytes().decode("utf-8-sig").split("\n")
    except OSError as error:
        raise UsageError(f"no labels can be read at '{path}': {error.strerror or error}", fix=_FIX) from error
    except UnicodeDecodeError as error:
        raise DataError(str(path), ["it is compressed, or not UTF-8"], fix="name a plain file in UTF-8") from error
    for number, line in enumerate(lines, 1):
        if not line or line.isspace():
            continue
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            problems.add(number, f"not JSON: {error}")
            continue
        try:
            dataset, label = _label(record, str(path))
        except ValueError as error:
            problems.add(number, str(error))
            continue
        if label is not None:
            yield number, dataset, label


def _label(record: object, source: str) -> tuple[str | None, Label | None]:
    """Return the dataset and the label of a line, None without a grade; raises ValueError for a malformed line."""
    if not isinstance(record, dict):
        raise ValueError(f"{abbreviated(record)} is not an object")
    for name in ("query_id", "doc_id", "grade"):
        if name not in record or (record[name] is None and name != "grade"):
            state = "null" if name in record else f"missing (there are: {', '.join(record) or 'none'})"
            raise ValueError(f"the field '{name}' is {state}")
    dataset, query, document, by, time, digest, model, prompt = (_text(record, name) for name in _TEXTS)
    moment = _moment(time) if time else _EARLIEST
    grade = record["grade"]
    if grade is None:
        return dataset, None
    is_number = type(grade) is int or (isinstance(grade, float) and grade.is_integer())
    if not is_number:
        raise ValueError(f"the grade is {abbreviated(grade)}, not a whole number")
    if not -_GRADE <= grade < _GRADE:
        raise ValueError(f"the grade is {abbreviated(grade)}, beyond 32 bits")
    label = Label(query or "", document or "", int(grade), by or source, moment, digest, model or None, prompt)
    return dataset, label


def _text(record: Mapping[str, object], name: str) -> str | None:
    value = record.get(name)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"'{name}' is {abbreviated(value)}, not a text")
    return str(value)


def _moment(text: str) -> dt.datetime:
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"the time '{text}' is not of the form 2026-05-01T10:00:00Z") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)


def settle(labels: Sequence[Label], corpus: Corpus | None = None, *, models: bool = True) -> SettledLabels:
    """Return one grade for each pair of query and document.

    Labels of a text that has changed are left out if the documents are known. Of several labels that one person gave to
    a pair, the latest counts. If people differ, the middle of their grades counts, and the lower of two middle ones. A
    model's label counts only for pairs that no person labelled, and without ``models`` none counts: a gate is judged.
    """
    left_out = [] if models else [label for label in labels if label.model is not None]
    labels = [label for label in labels if models or label.model is None]
    digests = _digests(labels, corpus)
    latest: dict[tuple[str, str], dict[str, Label]] = {}
    outdated, unchecked = [], []
    for label in labels:
        if label.text_digest is not None:
            if corpus is None:
                unchecked.append(label)
            elif digests.get(label.doc_id, label.text_digest) != label.text_digest:
                outdated.append(label)
                continue
        of_pair = latest.setdefault(label.pair, {})
        if label.by not in of_pair or of_pair[label.by].time <= label.time:
            of_pair[label.by] = label
    grades, human, conflicts, of_models = {}, {}, [], list[Label]()
    for pair, by_judge in latest.items():
        people = [label for label in by_judge.values() if label.model is None]
        judges = people or list(by_judge.values())
        ordered = sorted(label.grade for label in judges)
        grades[pair] = ordered[(len(ordered) - 1) // 2]
        if ordered[0] != ordered[-1]:
            names = ", ".join(f"{label.by} {label.grade}" for label in sorted(judges, key=lambda one: one.by))
            conflicts.append(f"query '{pair[0]}', document '{pair[1]}': {names}; counts as {grades[pair]}")
        if people:
            human[pair] = grades[pair]
        else:
            of_models += judges
    findings = _findings(conflicts, outdated, unchecked, left_out)
    return SettledLabels(grades, findings, human, _models(of_models))


def _digests(labels: Sequence[Label], corpus: Corpus | None) -> dict[str, str]:
    """Return the digest of the present text of each document with a label that has one."""
    documents = list(dict.fromkeys(label.doc_id for label in labels if label.text_digest is not None))
    if corpus is None or not documents:
        return {}
    rows = corpus.ids.rows_of(strings(documents))
    present = np.flatnonzero(rows >= 0)
    texts = take_rows(corpus.texts, rows[present]).to_pylist()
    return {documents[position]: text_digest(text) for position, text in zip(present.tolist(), texts, strict=True)}


def _findings(
    conflicts: Sequence[str], outdated: Sequence[Label], unchecked: Sequence[Label], left_out: Sequence[Label]
) -> list[Finding]:
    """Return warnings of conflicts, changed and unknown texts, and labels by models that were left out for a gate."""
    findings = []
    if conflicts:
        message = f"{counted(len(conflicts), 'document')} with different grades from different people"
        fix = "the middle grade counts, the lower of two; look at the documents, and give a later label"
        findings.append(Finding(CONFLICT, "warning", message, fix, tuple(conflicts[:_EXAMPLES])))
    for check, labels, verb, state, fix in (
        (OUTDATED, outdated, ("is of a text that has", "are of texts that have"), "changed since, and left out",
         "judge these documents again"),
        (UNCHECKED, unchecked, ("counts", "count"), "although the present text is unknown, and may have changed",
         "give the documents, or judge a result that has them"),
    ):  # fmt: skip
        if labels:
            message = f"{counted(len(labels), 'label')} {verb[len(labels) > 1]} {state}"
            examples = (f"query '{one.query_id}', document '{one.doc_id}'" for one in labels[:_EXAMPLES])
            findings.append(Finding(check, "warning", message, fix, tuple(examples)))
    if left_out:
        message = f"{counted(len(left_out), 'label')} by a model left out: gates and golden sets count people's labels"
        fix = "count them in a gate with --count-model-labels"
        findings.append(Finding(BY_MODEL, "warning", message, fix, tuple(map(str, _models(left_out)))))
    return findings


def _models(labels: Sequence[Label]) -> dict[LabelModel, list[tuple[str, str]]]:
    """Return the pairs of each model and prompt of the labels; its date is that of its latest label."""
    by_model: dict[tuple[str, str], list[Label]] = {}
    for label in labels:
        if label.model is not None:
            by_model.setdefault((label.model, label.prompt_digest or ""), []).append(label)
    return {
        LabelModel(model, prompt or None, f"{time:%Y-%m-%d}" if time > _EARLIEST else None): [
            one.pair for one in of_model
        ]
        for (model, prompt), of_model in sorted(by_model.items())
        for time in [max(one.time for one in of_model)]
    }


def labels_by_dataset(labels: Labels, datasets: Sequence[str], aliases: Sequence[str] = ()) -> dict[str, list[Label]]:
    """Return the labels of each of the ``datasets``, without labels of other datasets.

    Lines that name no dataset belong to the only dataset, which may have further names, ``aliases``. Raises UsageError
    as :func:`refuse_unnamed`, and if all are left out.
    """
    refuse_unnamed(labels, datasets)
    by_dataset = {
        dataset: [label for name in dict.fromkeys((None, dataset, *aliases)) for label in labels.get(name, ())]
        for dataset in datasets
    }
    if not any(by_dataset.values()):
        names, these = ", ".join(map(str, labels)), "this dataset" if len(datasets) == 1 else "these"
        raise UsageError(f"--labels are of {names}, and not of {', '.join(datasets)}", fix=f"give labels of {these}")
    return by_dataset


def refuse_unnamed(labels: Labels, datasets: Sequence[str]) -> None:
    """Raise UsageError for lines that do not name their dataset if there are several."""
    unnamed = labels.get(None, ())
    if unnamed and len(datasets) > 1:
        raise UsageError(
            f"{counted(len(unnamed), 'label')} of --labels {'names' if len(unnamed) == 1 else 'name'} none of "
            f"{len(datasets)} datasets",
            fix=f'add the dataset to each line, as regress, diff and judge write it: "dataset": "{datasets[0]}"',
        )


def only_labels(labels: Labels) -> Sequence[Label]:
    """Return the labels for judgments that belong to no named dataset; raises UsageError for labels of several."""
    names = [dataset for dataset in labels if dataset is not None]
    if len(names) > 1:
        raise UsageError(
            f"--labels are of several datasets: {', '.join(names)}", fix="keep the lines of the dataset that is scored"
        )
    return [label for of_dataset in labels.values() for label in of_dataset]


def refuse_foreign(grades: PairGrades, *, queries: Ids | None = None, documents: Ids | None) -> None:
    """Raise DataError if a label is of a query or a document that does not exist; None if these are unknown."""
    problems, fixes = Problems("labels"), ["give labels of this dataset"]
    for kind, valid_ids, labelled in (
        ("query", queries, dict.fromkeys(query for query, _ in grades)),
        ("document", documents, dict.fromkeys(document for _, document in grades)),
    ):
        if valid_ids is None:
            continue
        ids = Ids.of(labelled)
        missing = ids.take(np.flatnonzero(valid_ids.rows_of(ids) < 0))
        for name in missing:
            problems.add(None, f"there is no {kind} '{name}'")
        if missing and (spelling := spelled_otherwise(missing, valid_ids)) is not None:
            fixes = [f"'{spelling.as_text}' and '{spelling.corpus_id}' are the same {spelling.rule}", *fixes]
    problems.raise_if_any(fix="; ".join(fixes))


def without_effect(grades: PairGrades, queries: Iterable[str], state: str) -> str:
    """Return a warning of labelled queries that are not among the ``queries`` of a result, "" without any.

    Raises UsageError if no labelled query is. ``state`` describes the ``queries`` in messages: ``compared``.
    """
    labelled = {query for query, _ in grades}
    foreign = labelled.difference(queries)
    if labelled and len(foreign) == len(labelled):
        raise UsageError(
            f"none of the {counted(len(foreign), 'labelled query')} is {state}, such as '{min(labelled)}'",
            fix="give labels of these datasets",
        )
    states = counted(len(foreign), "of the labelled queries is", "of the labelled queries are")
    return f"{states} not {state}: labels without effect" if foreign else ""


def labels_of_result(settings: Mapping[str, object], names: Iterable[str]) -> list[Label] | None:
    """Return the labels with which a stored result was scored, as far as their files can be read; None without any.

    Only those of the dataset with these ``names``, and of lines that name no dataset.
    """
    paths = settings.get("labels")
    if not paths:
        return None
    earlier = list[Label]()
    for path in paths if isinstance(paths, list) else [paths]:
        try:
            labels = read_labels([Path(str(path))])
        except HarnessError:  # it has moved, or holds something else now
            continue
        earlier += chain.from_iterable(labels.get(name, ()) for name in dict.fromkeys((None, *names)))
    return earlier


def with_labels(qrels: Qrels | None, labels: SettledLabels, earlier_labels: Sequence[Label] | None = None) -> Qrels:
    """Join ``qrels`` (None for no judgments) and the labels; raises DataError if a label contradicts a judgment.

    A person's label replaces a grade that a model gave among ``qrels``, and a model's later label does. Messages name
    the judges of ``earlier_labels``, which may be among ``qrels``; None if these are all judgments of the dataset.
    """
    human = grades_of(qrels.by_people) if qrels is not None else {}
    problems, fixes = Problems("labels"), []
    for (query, document), grade in labels.grades.items():
        before = human.get(query, {}).get(document, grade)
        if before != grade:
            state, fix = _earlier_grade((query, document), before, earlier_labels)
            problems.add(None, _contradiction(query, document, state, grade))
            fixes.append(fix)
    problems.raise_if_any(fix="; ".join(dict.fromkeys(fixes)))
    for (query, document), grade in labels.human.items():
        human.setdefault(query, {})[document] = grade
    grades = {query: dict(of_query) for query, of_query in human.items()}
    earlier = grades_of(qrels) if qrels is not None else {}
    of_labels = ((query, document, grade) for (query, document), grade in labels.grades.items())
    of_qrels = ((query, document, grade) for query, of_query in earlier.items() for document, grade in of_query.items())
    for query, document, grade in (*of_labels, *of_qrels):
        grades.setdefault(query, {}).setdefault(document, grade)
    groups = qrels.groups_by_id if qrels is not None else {}
    joined = qrels_from_dict(grades).with_groups(groups)
    # the dataset's own judgments stay the same object, with the same digest
    by_people = qrels.by_people if qrels is not None and not labels.human else qrels_from_dict(human)
    by_people = by_people.with_groups(groups)
    if len(by_people) == len(joined):
        return joined
    models: dict[LabelModel, Sequence[tuple[str, str]] | None] = {}
    for of_models, replaced in ((qrels.models if qrels is not None else {}, labels.grades), (labels.models, {})):
        for model, pairs in of_models.items():
            left = None if pairs is None else [
                pair for pair in pairs if pair not in replaced and pair[1] not in human.get(pair[0], {})
            ]  # fmt: skip
            if left is None or left:
                models[model] = None if left is None else [*(models.get(model) or ()), *left]
    return replace(joined, human=by_people, models=models)


def golden_with_labels(golden: GoldenSet, labels: SettledLabels) -> GoldenSet:
    """Return the golden set whose questions also expect the labelled documents, with their grades.

    If models gave some of these, ``human`` of the set expects only the others. Raises DataError for a label of another
    grade than an expected id has, and of a relevant document that a question forbids or excludes. Negative grades are
    left out: such documents are not expected.
    """
    by_question: dict[str, dict[str, int]] = {}
    for (query, document), grade in labels.grades.items():
        by_question.setdefault(query, {})[document] = grade
    problems, questions = Problems("labels"), []
    for question in golden:
        expected = {one.id: one for one in question.expected}
        for document, grade in by_question.get(question.id, {}).items():
            if document in expected and expected[document].grade != grade:
                problems.add(
                    None, _contradiction(question.id, document, f"expected with {expected[document].grade}", grade)
                )
            elif grade > 0 and document in (*question.forbidden, *question.excluded):
                verb = "forbidden" if document in question.forbidden else "excluded"
                problems.add(None, _contradiction(question.id, document, verb, grade))
            elif grade >= 0:
                expected.setdefault(document, Expectation(document, grade))
        questions.append(replace(question, expected=tuple(expected.values())))
    problems.raise_if_any(fix="labels add to expected documents; to change an expectation, change the golden set")
    joined = replace(golden, questions=tuple(questions))
    by_people = golden_with_labels(golden, SettledLabels(labels.human, (), labels.human)) if labels.models else joined
    if by_people.questions == joined.questions:
        return joined
    ids, of_people = (
        {(question.id, one.id) for question in of for one in question.expected} for of in (joined, by_people)
    )
    models = tuple(model for model, pairs in labels.models.items() if not (ids - of_people).isdisjoint(pairs))
    return replace(joined, human=by_people, models=models)


def _earlier_grade(pair: tuple[str, str], grade: int, earlier: Sequence[Label] | None) -> tuple[str, str]:
    """Return who gave a grade and when, as far as that is known, and how to change it."""
    of_judgments = "labels add to judgments; to change a judgment, change the dataset"
    if earlier is None:
        return f"judged {grade}", of_judgments
    judges = [
        f"by {one.by}{f' on {one.time:%Y-%m-%d}' if one.time > _EARLIEST else ''}"
        for one in earlier
        if one.pair == pair and one.grade == grade and one.model is None
    ]
    if judges:
        fix = "make the result again with all labels: if people differ, the middle grade counts"
        return f"labelled {grade} {' and '.join(dict.fromkeys(judges))}", fix
    return f"judged or labelled {grade} before", of_judgments


def _contradiction(query: str, document: str, state: str, grade: int) -> str:
    return f"query '{query}', document '{document}': {state}, labelled {grade}"


def grades_of(qrels: Qrels, queries: Iterable[str] | None = None) -> dict[str, dict[str, int]]:
    """Return the judgments by query and document; only of some queries if they are named."""
    chosen = qrels if queries is None else qrels.of_queries(Ids.of(queries))
    documents, grades = chosen.doc_ids.take(chosen.rows), chosen.grades.tolist()
    bounds = chosen.indptr.tolist()
    return {
        query: dict(zip(documents[start:stop], grades[start:stop], strict=True))
        for query, start, stop in zip(chosen.query_ids, bounds[:-1], bounds[1:], strict=True)
    }
