"""``harness.grade_documents``: the first hits of every backend of a result, graded by an LLM, as labels."""

from __future__ import annotations

import codecs
import datetime as dt
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import orjson

from harness.data.labels import grades_of, label_lines
from harness.data.problems import Problems
from harness.data.progress import Display, SilentDisplay
from harness.data.texts import text_digest
from harness.errors import DataError, ResultError, UsageError
from harness.pipeline.label_agreement import Pair, compare_grades
from harness.pipeline.regress.read_snapshot import read_snapshots
from harness.plain_url import PLAIN_FORM, is_plain_url, without_secrets
from harness.plan.backend_spec import parse_backend_specs
from harness.plan.config import JudgeRequest
from harness.plan.option_fields import from_keywords, keywords_of, require
from harness.registry.lookup import find_cards
from harness.registry.parameters import ParameterValue
from harness.report.judging import pool_rules, rankings_to_judge, texts_of
from harness.report.rankings.explorer import Explorer
from harness.report.rankings.judging_pool import decisive_pairs, first_hits
from harness.rerank.grading import PROMPT, Grader, MissingReason
from harness.results.judge_results import ENOUGH_HUMAN, ModelLabels, UnjudgedPair
from harness.results.snapshot import ResultSnapshot
from harness.store.cache import Cache
from harness.store.disk import replacing

BINARY_RELEVANT = 2
"""The lowest grade of a model that counts as relevant where people only judged relevant or not."""
_ENDPOINT = re.compile(r"(?:^|;)\s*endpoint\s*=([^;]*)")
_OPENAI = "https://api.openai.com/v1"
_HUMAN = "human judgments"


_LabelKey = tuple[str | None, str, str, str | None]
"""Dataset, query, document and digest of the text."""


class _Choice(NamedTuple):
    """A pair of the pool with both texts; ``human`` is the grade that a person gave, None without one."""

    pair: Pair
    query: str
    document: str
    human: int | None
    rank: int


@keywords_of(JudgeRequest)
def grade_documents(
    model: str, result: str | Path, *, display: Display | None = None, **options: object
) -> ModelLabels:
    """Grade the first hits of every backend of a stored result with a model, and write the grades as labels.

    Args:
        model: ``"openai:model=NAME;endpoint=http://HOST/v1"``, with the parameters of the second stage ``judge``.
        result: a result folder of ``compare`` or ``check``.
        display: where progress is shown; None shows none.
        options: as in :class:`harness.plan.config.JudgeRequest`: ``prompt`` is a file with other instructions,
            ``write_labels`` the file for the labels, ``labels`` are files of labels that people gave.

    Raises:
        UsageError: for wrong options, and a result without texts.
        ResultError: for a result that cannot be read.
        EngineUnavailableError: if the endpoint fails; finished grades are kept in the cache.
    """
    fields = {"model": model, "result": result, **options}
    (request,) = from_keywords("harness.grade_documents", fields, JudgeRequest)
    if request.agreement:
        raise UsageError("agreement= is not for a model", fix="compare labels with harness.agreement(first, second)")
    if request.page is not None:
        raise UsageError("page= is not for a model", fix="make the page with harness.judge(result)")
    return grade_result(request, display)


def parse_model(text: str) -> dict[str, ParameterValue]:
    """Return the parameters of ``openai:model=…;endpoint=…``, with those of the second stage ``judge``.

    Raises UsageError for another kind of model, and for parameters that do not exist or have wrong values.
    """
    kind, _, rest = text.partition(":")
    if kind.strip() != "openai" or not rest.strip():
        raise UsageError(
            f"the model is '{without_secrets(text)}'", fix="write openai:model=NAME;endpoint=http://HOST:PORT/v1"
        )
    endpoint = _ENDPOINT.search(rest)
    if endpoint is not None and not is_plain_url(endpoint[1].strip(" '\"")):
        raise UsageError(f"the endpoint is not of the form {PLAIN_FORM}", fix="a key goes into the environment")
    default = "" if endpoint is not None else f"endpoint={_OPENAI};"
    specs = parse_backend_specs(f"csr|judge:{default}{rest}", find_cards("backends"))
    if len(specs) != 1:
        raise UsageError(f"'{text}' names {len(specs)} models", fix="judge with one model at a time")
    return dict(specs[0].parameters)


def grade_result(request: JudgeRequest, display: Display | None = None) -> ModelLabels:
    """Grade the pool of a result with the model of ``request``, and write the labels of documents nobody judged.

    Labels that the file already holds stay in it, if this model gave them with this prompt to other documents or texts.
    Raises UsageError for a model, prompt or result that cannot be used, EngineUnavailableError if the endpoint fails.
    """
    require(request)
    if request.model is None:
        raise UsageError("no model is named", fix="write openai:model=NAME;endpoint=http://HOST/v1")
    grader = _grader(request, request.model)
    target = request.write_labels or _default_target(request.result, grader.model)
    earlier = _earlier_labels(target, grader)
    sides = read_snapshots(request.result)
    _refuse_chunks(sides)
    report, _, explorers, findings = rankings_to_judge(request, models=False)
    explorers = [replace(one, dataset=one.dataset or sides[0].report.dataset.name) for one in explorers]
    pool = [choice for explorer in explorers for choice in _pool(explorer, request.depth)]
    if not pool:
        raise UsageError(f"'{request.result}' has no hits to judge", fix="name the folder of a result, with its runs")
    decisive = decisive_pairs(explorers, pool_rules(request, report, explorers))
    positions: dict[Pair, int] = {pair: number for number, pair in enumerate(decisive)}
    chosen = choose(pool, positions, request.budget, request.seed)
    visible_display = display if display is not None else SilentDisplay()
    outcomes = grader.grade_all(
        [(one.query, one.document) for one in chosen], Cache(), visible_display.section(grader.model)
    )
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    graded = list(zip(chosen, outcomes, strict=True))
    binary = {side.report.dataset.name for side in sides if _is_binary(side)}
    grades = {
        one.pair: _rescale(outcome, one.pair[0] in binary)
        for one, outcome in graded
        if not isinstance(outcome, MissingReason)
    }
    human = {one.pair: max(one.human, 0) for one in chosen if one.human is not None and one.pair in grades}
    new = [one for one in chosen if one.pair in grades and one.human is None]
    by = {"by": grader.model, "time": now, "model": grader.model, "prompt_digest": grader.prompt_digest}
    lines = dict(_line(one, grades[one.pair], by, several=len(sides) > 1) for one in new)
    remaining = [line for key, line in earlier.items() if key not in lines]
    if new:
        _write(target, [*remaining, *lines.values()])
    reasons = [(one.pair, outcome) for one, outcome in graded if isinstance(outcome, MissingReason)]
    facts = grader.facts
    return ModelLabels(
        model=grader.model,
        endpoint=str(facts["endpoint"]),
        prompt_digest=grader.prompt_digest,
        time=now,
        file=str(target) if new else None,
        pool=len(pool),
        chosen=len(chosen),
        graded=len(grades),
        written=len(new),
        earlier=len(remaining),
        grades={str(grade): count for grade, count in sorted(Counter(grades.values()).items())},
        unjudged=dict(Counter(str(outcome) for _, outcome in reasons)),
        unjudged_pairs=[
            UnjudgedPair(dataset=str(pair[0]), query_id=pair[1], doc_id=pair[2], reason=str(outcome))
            for pair, outcome in reasons
        ],
        calls=int(facts["calls"] or 0),
        repeated_calls=int(facts["repeated_calls"] or 0),
        calls_before=int(facts["calls_before"] or 0),
        tokens=int(facts["tokens"] or 0),
        missing_human=max(0, ENOUGH_HUMAN - sum(one.human is not None for one in pool)),
        agreement=compare_grades(
            _HUMAN, human, grader.model, {pair: grades[pair] for pair in human}, sides
        ) if human else None,
        warnings=[
            f"{one.message} ({'; '.join(one.examples)})" if one.examples else one.message for one in findings
        ],
    )  # fmt: skip


def choose(pool: Sequence[_Choice], positions: Mapping[Pair, int], budget: int, seed: int) -> list[_Choice]:
    """Return the documents to grade: a sample of those that people judged, then the most decisive others.

    The sample measures the agreement. It has at most 50 documents, and half of the budget if the others need the rest:
    these come in the order of their ``positions``, then of their ranks.
    """
    judged, unjudged = ([one for one in pool if (one.human is None) is missing] for missing in (False, True))
    most = min(ENOUGH_HUMAN, max((budget + 1) // 2, budget - len(unjudged)))
    sample = np.sort(np.random.default_rng(seed).permutation(len(judged))[:most])
    chosen = [judged[position] for position in sample.tolist()]
    unjudged.sort(key=lambda one: (positions.get(one.pair, len(positions)), one.rank))
    return chosen + unjudged[: budget - len(chosen)]


def _grader(request: JudgeRequest, model: str) -> Grader:
    path = request.prompt or PROMPT
    try:
        instructions = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"the prompt '{path}' cannot be read: {reason}", fix="name a text file") from error
    parameters = parse_model(model)
    if request.max_calls is not None:
        parameters["max_calls"] = request.max_calls
    return Grader(parameters, instructions)


def _refuse_chunks(sides: Sequence[ResultSnapshot]) -> None:
    for side in sides:
        if not side.rescorable:
            raise UsageError(
                f"the check of '{side.report.dataset.name}' matches chunks (--match), which labels cannot name",
                fix="judge a comparison, or a check whose expected ids are the documents' ids",
            )


def _pool(explorer: Explorer, depth: int) -> list[_Choice]:
    """Return the first hits of every backend of a dataset with their texts; raises UsageError without texts."""
    hits = first_hits(explorer, depth)
    texts = texts_of(explorer, chain.from_iterable(hits.values()))
    if texts and explorer.queries is None:
        problem = f"the result on '{explorer.dataset}' holds no texts of queries"
        raise UsageError(problem, fix="make it again without --no-text")
    words = dict(zip(explorer.query_ids, explorer.query_texts(), strict=True))
    human = grades_of(explorer.qrels) if explorer.qrels is not None else {}
    return [
        _Choice((explorer.dataset, query, doc), words[query], texts[doc], human.get(query, {}).get(doc), rank)
        for query, documents in hits.items()
        for doc, rank in documents.items()
    ]


def _is_binary(side: ResultSnapshot) -> bool:
    """Return whether people judged documents of a side as relevant or not, without degrees."""
    return side.qrels is not None and len(side.qrels.grades) > 0 and int(side.qrels.grades.max()) == 1


def _rescale(grade: int, binary: bool) -> int:
    return int(grade >= BINARY_RELEVANT) if binary else int(grade)


def _line(one: _Choice, grade: int, by: Mapping[str, str], *, several: bool) -> tuple[_LabelKey, bytes]:
    dataset, query, document = one.pair
    text, of_dataset = text_digest(one.document), {"dataset": dataset} if several else {}
    line = {**of_dataset, "query_id": query, "doc_id": document, "grade": grade, **by, "text_digest": text}
    return (of_dataset.get("dataset"), query, document, text), orjson.dumps(line)


def _default_target(result: Path, model: str) -> Path:
    folder = result if result.is_dir() else result.parent
    return folder / f"labels-{re.sub(r'[^A-Za-z0-9.-]+', '-', model)}.jsonl"


def _earlier_labels(path: Path, grader: Grader) -> dict[_LabelKey, bytes]:
    """Return the lines of a file that the same model gave with the same prompt, none without a file.

    Raises UsageError for a file with other labels, or with other content.
    """
    if not path.exists():
        return {}
    if path.is_dir():
        raise UsageError(f"'{path}' is a folder, not a file of labels", fix="name a file with --write-labels")
    problems, earlier, other = Problems(str(path)), dict[_LabelKey, bytes](), ""
    try:
        numbered = list(label_lines(path, problems))
        lines = path.read_bytes().removeprefix(codecs.BOM_UTF8).split(b"\n")
    except DataError:  # it is not UTF-8
        numbered, lines, other = [], [], "something else than labels"
    for number, dataset, label in numbered:
        if (label.by, label.model, label.prompt_digest) == (grader.model, grader.model, grader.prompt_digest):
            key = dataset, label.query_id, label.doc_id, label.text_digest
            earlier[key] = lines[number - 1].strip()
        else:
            same = label.by == label.model == grader.model
            other = other or f"labels by {f'{label.by} with another prompt' if same else label.by}"
    if problems.count or len(numbered) < sum(line.strip() != b"" for line in lines):
        other = other or "lines that are not labels"
    if other:
        raise UsageError(f"'{path}' holds {other}, and is not changed", fix="name another file with --write-labels")
    return earlier


def _write(path: Path, lines: Sequence[bytes]) -> None:
    """Write labels, completely or not at all; raises ResultError if they cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as stream:
            stream.write(b"".join(line + b"\n" for line in lines))
    except OSError as error:
        raise ResultError(f"the labels '{path}' cannot be written: {error.strerror or error}") from error
