"""Compare two results: common parts, changes, their certainty, and the queries to look at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal, get_args

from harness.data.labels import (
    Labels,
    SettledLabels,
    labels_by_dataset,
    labels_of_result,
    read_labels,
    refuse_foreign,
    settle,
    with_labels,
    without_effect,
)
from harness.data.types import Corpus, LabelModel, Qrels
from harness.errors import ResultError, UsageError
from harness.pipeline.regress.common_depth import at_common_depth, refuse_deeper
from harness.pipeline.regress.cost_changes import cost_changes
from harness.pipeline.regress.dossier import make_dossier
from harness.pipeline.regress.pairing import (
    Common,
    ComparedDataset,
    Pair,
    changed_settings,
    common_queries,
    pair_backends,
    pair_by_text,
    pairing_warnings,
    unknown_relation,
)
from harness.pipeline.regress.rescoring import by_people, relabelled
from harness.pipeline.regress.verdicts import Rules, judge_pairs, metric_warnings, noise_warnings
from harness.plan.config import GateOptions
from harness.plan.option_fields import raise_together, require
from harness.results.dataset_info import label_models, label_models_of
from harness.results.regression_schema import (
    BackendChange,
    Change,
    Dossier,
    GateState,
    MetricJudgement,
    NotJudgedRule,
    SettingChange,
    SideInfo,
)
from harness.results.schema_base import DatasetInfo
from harness.results.snapshot import OVERLAP, ResultSnapshot
from harness.stats import GATE_RULES, PAIRED_TESTS
from harness.wording import counted


@dataclass(frozen=True, slots=True)
class CompareRules:
    """How two sides are compared: the ``rules`` of the verdicts, and how much the dossier holds.

    ``pairs`` are given by the caller; the others are found (:mod:`harness.pipeline.regress.pairing`). ``labels`` are
    judgments that came later, None for none; those by a model count if there is no gate, or ``models`` is true.
    """

    rules: Rules = field(default_factory=Rules)
    depth: int = 10
    queries: int = 50
    pairs: Sequence[Pair] = ()
    labels: Labels | None = None
    models: bool = False


def compare_rules(gate: GateOptions, seed: int) -> CompareRules:
    """Return everything that a comparison of two results needs; reads the labels.

    Raises:
        UsageError: for all options that are wrong.
        DataError: for labels that cannot be read.
    """
    require(gate)
    drops = _drops(gate)
    if not drops:
        for option, value, default in (
            ("--rule", gate.rule, "test"),
            ("--when-not-judged", gate.when_not_judged, "invalid"),
        ):
            if value != default:
                raise UsageError(f"{option} {value} without --max-drop: there is no gate", fix="add --max-drop 0.01")
    return CompareRules(
        rules=Rules(
            margin=gate.margin,
            allowed_drop=drops.pop("", None),
            allowed=drops,
            test=next(name for name in PAIRED_TESTS if name == gate.test),
            seed=seed,
            rule=next(rule for rule in GATE_RULES if rule == gate.rule),
            when_not_judged=next(rule for rule in get_args(NotJudgedRule) if rule == gate.when_not_judged),
        ),
        depth=gate.dossier_depth,
        queries=gate.dossier,
        pairs=[_pair(text) for text in gate.pair],
        labels=read_labels(gate.labels) if gate.labels is not None else None,
        models=gate.count_model_labels,
    )


def _drops(gate: GateOptions) -> dict[str, float]:
    """Return the allowed drop of each metric, under ``""`` the drop of all others."""
    max_drop = gate.max_drop
    if max_drop is None:
        return {}
    if isinstance(max_drop, Mapping):
        texts = [(name, str(drop)) for name, drop in max_drop.items()]
    else:
        parts = [str(max_drop)] if isinstance(max_drop, int | float) else list(max_drop)
        texts = [(name, number) for name, _, number in (text.rpartition("=") for text in parts)]
    drops: dict[str, float] = {}
    mistakes: list[UsageError] = []
    for name, number in texts:
        option = f"--max-drop {name}={number}" if name else f"--max-drop {number}"
        if name in drops:
            mistakes.append(UsageError(f"--max-drop is given twice for {name or 'all metrics'}", fix="drop one"))
        try:
            drops[name] = float(number)
        except ValueError:
            fix = "write nDCG@10=0.01 for a hundredth in the unit of the metric; shares of the value are not taken"
            mistakes.append(UsageError(f"{option}: '{number}' is not a number", fix=fix))
            continue
        if not 0.0 <= drops[name] < float("inf"):
            mistakes.append(UsageError(f"{option}: not a drop", fix="give 0 or more, in the unit of the metric"))
    raise_together(mistakes)
    return drops


def _pair(text: str) -> Pair:
    before, arrow, after = (part.strip() for part in text.partition("->"))
    if not arrow or not before or not after:
        raise UsageError(f"--pair {text}: not of the form BEFORE->AFTER", fix="write --pair 'lucene->qdrant'")
    return Pair(before, after)


@dataclass(frozen=True, eq=False, slots=True)
class SideComparison:
    """A change, and its subject by dataset."""

    change: Change
    datasets: Sequence[ComparedDataset]


def compare_sides(
    before: Sequence[ResultSnapshot],
    after: Sequence[ResultSnapshot],
    how: CompareRules,
    corpora: Mapping[str, Corpus | None] = MappingProxyType({}),
) -> SideComparison:
    """Compare two results, each given by its datasets; all that is judged is one family, and passes one gate.

    ``corpora`` are the documents of the later result by dataset, as far as they are known: labels of other texts are
    left out.

    Raises:
        ResultError: if they have no dataset, or on a dataset no query or no backend, in common, or are of two verbs.
        UsageError: for later judgments that do not name their dataset if there are several.
        DataError: for labels of documents that a dataset lacks.
    """
    sides = before, after
    before, after = (sides_of_gate(side, how) for side in sides)
    left_out = [
        _left_out(snapshot)
        for side, of_gate in zip(sides, (before, after), strict=True)
        for snapshot, by_gate in zip(side, of_gate, strict=True)
        if snapshot is not by_gate
    ]
    pairs = _paired_datasets(before, after)
    names = [other.report.dataset.name for _, other in pairs]
    by_dataset = labels_by_dataset(how.labels, names) if how.labels is not None else {}
    models = how.models or not how.rules.gated
    labels = {name: settle(of_dataset, corpora.get(name), models=models) for name, of_dataset in by_dataset.items()}
    for (_, later), name in zip(pairs, names, strict=True):
        corpus = corpora.get(name)
        if name in labels and corpus is not None and 0 < later.report.dataset.documents <= len(corpus):
            refuse_foreign(labels[name].grades, documents=corpus.ids)
    matched = [
        _match(earlier, later, how, labels.get(name)) for (earlier, later), name in zip(pairs, names, strict=True)
    ]
    loaded = [dataset for dataset in matched if dataset.relation.common_queries]
    refuse_deeper(how.rules.allowed, {side[0].source: side[0].k for side in (before, after)})
    judged = judge_pairs(matched, how.rules)
    backends = [
        change
        for dataset, metrics in zip(matched, judged.metrics, strict=True)
        for change in _changes(dataset, metrics, how)
    ]
    only_before, only_after = (
        [snapshot.report.dataset.name for snapshot in side if all(snapshot is not pair[number] for pair in pairs)]
        for number, side in enumerate((before, after))
    )
    warnings = [
        f"not compared, because the {result} result lacks the dataset: {', '.join(lacking)}"
        for result, lacking in (("later", only_before), ("earlier", only_after))
        if lacking
    ]
    if foreign := [str(dataset) for dataset in how.labels or () if dataset not in (None, *names)]:
        warnings.append(f"labels of datasets that are not compared, without effect: {', '.join(foreign)}")
    change = Change(
        before=_info(sides[0]),
        after=_info(sides[1]),
        settings=_settings(loaded),
        data=[dataset.relation for dataset in matched],
        tests=judged.tests,
        backends=backends,
        only_before=list(dict.fromkeys(label for dataset in matched for label in dataset.pairing.only_before)),
        only_after=list(dict.fromkeys(label for dataset in matched for label in dataset.pairing.only_after)),
        datasets_only_before=only_before,
        datasets_only_after=only_after,
        warnings=[*left_out, *warnings, *_joined_warnings(loaded)],
        gate=_gate(backends, after, how.rules),
        rule=how.rules.rule,
        when_not_judged=how.rules.when_not_judged,
    )
    return SideComparison(change, loaded)


def sides_of_gate(side: Sequence[ResultSnapshot], how: CompareRules) -> list[ResultSnapshot]:
    """Return a result, by dataset, as it is judged: a gate counts people's judgments alone, unless told otherwise.

    Raises ResultError for a result of a gate without figures by people's judgments alone.
    """
    return [by_people(snapshot) for snapshot in side] if how.rules.gated and not how.models else list(side)


def compared_again(change: Change, before: Sequence[ResultSnapshot], after: Sequence[ResultSnapshot]) -> SideComparison:
    """Return a stored change, to which no labels were added, with the results that it is about."""
    datasets = []
    if change.gate is not None and not any(relation.label_models for relation in change.data):
        before, after = ([by_people(snapshot) for snapshot in side] for side in (before, after))
    for earlier, later in _paired_datasets(before, after):
        if earlier.report.dataset.error is not None or later.report.dataset.error is not None:
            continue
        former = pair_by_text(earlier, later).before
        common = common_queries(former, later)
        same_judgments = common.relation.judgments == "same"
        cut = at_common_depth(former, later, same_judgments=same_judgments)
        queries, qrels = _ordered(cut.before, cut.after, common), _judgments(cut.before, cut.after, common)
        datasets.append(ComparedDataset(cut.before, cut.after, common.relation, queries, qrels))
    return SideComparison(change, datasets)


def _paired_datasets(
    before: Sequence[ResultSnapshot], after: Sequence[ResultSnapshot]
) -> list[tuple[ResultSnapshot, ResultSnapshot]]:
    """Pair the only datasets of both results, or else datasets of the same name, in the order of the later result.

    A dataset that could not be loaded is named by the path at which it was expected.
    """
    first, second = before[0], after[0]
    if first.kind != second.kind:
        raise ResultError(
            f"'{first.source}' is a result of `harness {first.kind}`, and '{second.source}' of `harness {second.kind}`",
            fix="compare two of the same command",
        )
    if len(before) == len(after) == 1:
        return [(first, second)]
    pairs = []
    for snapshot in after:
        same = [earlier for earlier in before if _is_same(earlier.report.dataset, snapshot.report.dataset)]
        pairs += [(earlier, snapshot) for earlier in same[:1]]
    if not pairs:
        earlier, later = (", ".join(snapshot.report.dataset.name for snapshot in side) for side in (before, after))
        raise ResultError(
            f"no dataset of '{first.source}' ({earlier}) has a counterpart in '{second.source}' ({later})",
            fix="compare results of the same datasets",
        )
    return pairs


def _is_same(earlier: DatasetInfo, later: DatasetInfo) -> bool:
    """Return whether two results mean the same dataset, regardless of its content."""
    if earlier.error is None and later.error is None:
        return earlier.name == later.name
    sources = [{info.name, info.provenance.get("path", info.name)} for info in (earlier, later)]
    return not sources[0].isdisjoint(sources[1])


def _match(
    before: ResultSnapshot, after: ResultSnapshot, how: CompareRules, labels: SettledLabels | None
) -> ComparedDataset:
    """Find the common parts of two results on a dataset; with later judgments, ``labels``, both are scored again.

    Of a dataset that a result could not load nothing is common, and every backend failed.
    """
    pairing = pair_backends(before.report.trials, after.report.trials, how.pairs)
    if before.report.dataset.error is not None or after.report.dataset.error is not None:
        return ComparedDataset(before, after, unknown_relation(before, after), pairing=pairing)
    by_text = pair_by_text(before, after)
    before = by_text.before
    common = common_queries(before, after, labels=len(labels.grades) if labels is not None else 0)
    relation = common.relation.model_copy(update={"paired_by_text": by_text.paired})
    qrels = _judgments(before, after, common)
    settings = changed_settings(before, after, list(pairing.pairs))
    warnings = [*common.warnings, *pairing_warnings(pairing)]
    if by_text.moved:
        moved = counted(by_text.moved, "query without an id is", "queries without ids are")
        warnings.append(f"{moved} on another line than before: paired by their texts")
    if labels is not None:
        warnings += [f"{finding.message} ({'; '.join(finding.examples)})" for finding in labels.findings]
    if labels is not None and labels.grades:
        before, after, qrels, lost = _apply_labels(before, after, qrels, labels, common)
        warnings += lost
    counts = [_labels_by_models(side) for side in (before, after)]
    relation = relation.model_copy(
        update={
            "model_labels_before": counts[0][0],
            "model_labels_after": counts[1][0],
            "label_models": label_models(dict.fromkeys(model for _, models in counts for model in models)),
        }
    )
    cut = at_common_depth(before, after, same_judgments=relation.judgments == "same")
    before, after = cut.before, cut.after
    warnings += [*cut.warnings, *metric_warnings(before, after, explained=cut.unscored)]
    queries = _ordered(before, after, common)
    compared = ComparedDataset(before, after, relation, queries, qrels, pairing, settings)
    return replace(compared, warnings=[*warnings, *noise_warnings(compared)])


def _left_out(side: ResultSnapshot) -> str:
    labels = side.report.dataset.labels_in_words
    return f"'{side.source}' is judged by people's judgments alone (--count-model-labels): {labels}"


def _labels_by_models(side: ResultSnapshot) -> tuple[int, tuple[LabelModel, ...]]:
    """Return how many judgments of a side models gave, and these models."""
    if side.qrels is not None:
        return len(side.qrels) - len(side.qrels.by_people), tuple(side.qrels.models)
    of_models = side.report.dataset.model_labels
    return (of_models.labels, label_models_of(of_models)) if of_models is not None else (0, ())


def _changes(
    compared: ComparedDataset, judged: Mapping[Pair, Sequence[MetricJudgement]], how: CompareRules
) -> Iterable[BackendChange]:
    """Yield every pair of one dataset, with its verdicts, costs and dossier."""
    for pair, paired_by in compared.pairing.pairs.items():
        error = compared.error(pair)
        ok, passes = error is None, compared.after.latencies.get(pair.after)
        yield BackendChange(
            dataset=compared.name,
            before=pair.before,
            after=pair.after,
            paired_by=paired_by,
            status="ok" if ok else "failed",
            error=error,
            metrics=list(judged[pair]) if ok else [],
            costs=cost_changes(compared, pair, how.rules.seed) if ok else [],
            dossier=_dossier(compared, pair, judged[pair], how) if ok else None,
            search_seconds=sum(map(sum, passes.values())) / 1e9 if passes else None,
        )


def _dossier(compared: ComparedDataset, pair: Pair, judged: Sequence[MetricJudgement], how: CompareRules) -> Dossier:
    """Return the dossier of a pair, by the first metric that failed the gate, else the first worse, else the first."""
    metrics = [judgement for judgement in judged if not judgement.metric.startswith(OVERLAP)]
    first = min(
        metrics, key=lambda each: 0 if each.gate == "failed" else 1 if each.verdict == "worse" else 2, default=None
    )
    metric = first.metric if first is not None else None
    return make_dossier(compared, pair, metric=metric, depth=how.depth, limit=how.queries)


def _settings(matched: Sequence[ComparedDataset]) -> list[SettingChange]:
    """Return every setting that differs, once if it differs on all datasets."""
    changes_by_backend: dict[str, dict[str, SettingChange]] = {}
    for dataset in matched:
        for setting in dataset.settings:
            changes_by_backend.setdefault(setting.model_dump_json(), {})[dataset.name] = setting
    return [
        setting.model_copy(update={"dataset": name})
        for changes in changes_by_backend.values()
        for name, setting in (
            [(None, next(iter(changes.values())))] if len(changes) == len(matched) else changes.items()
        )
    ]


def _joined_warnings(matched: Sequence[ComparedDataset]) -> list[str]:
    """Return the warnings of all datasets, each once; if there are several datasets, it names those concerned."""
    datasets_by_warning: dict[str, list[str]] = {}
    for dataset in matched:
        for warning in dataset.warnings:
            datasets_by_warning.setdefault(warning, []).append(dataset.name)
    return [
        warning if len(names) == len(matched) else f"{', '.join(names)}: {warning}"
        for warning, names in datasets_by_warning.items()
    ]


def _ordered(before: ResultSnapshot, after: ResultSnapshot, common: Common) -> list[str]:
    """Return the common queries in the order of their first mention."""
    datasets = dict.fromkeys([*before.digests, *after.digests])
    for side in (before, after):
        for figures in side.figures.values():
            for values in figures.values():
                datasets |= dict.fromkeys(values)
    return [query for query in datasets if query in common.queries]


def _judgments(before: ResultSnapshot, after: ResultSnapshot, common: Common) -> Qrels | None:
    """Return the later judgments, or the earlier judgments if these are available and the same."""
    if after.qrels is not None:
        return after.qrels
    return before.qrels if common.relation.judgments == "same" else None


def _apply_labels(
    before: ResultSnapshot, after: ResultSnapshot, qrels: Qrels | None, labels: SettledLabels, common: Common
) -> tuple[ResultSnapshot, ResultSnapshot, Qrels, list[str]]:
    if qrels is None:
        raise UsageError(
            "--labels add to judgments, and neither side holds any", fix="compare a result folder with judgments"
        )
    if not (before.rescorable and after.rescorable):
        raise UsageError(
            "--labels with a check that matches chunks (--match): its hits cannot be scored again by documents",
            fix="add the labels to the golden set, and check again",
        )
    report = (after if qrels is after.qrels else before).report
    names = [report.dataset.name, *([report.golden.name] if report.golden is not None else [])]
    more = with_labels(qrels, labels, labels_of_result(report.plan.resolved, names))
    foreign = without_effect(labels.grades, common.queries, "compared")
    sides, warnings = [], [foreign] if foreign else []
    for side in (before, after):
        scored, lost = relabelled(side, more)
        sides.append(scored)
        if lost:
            warnings.append(
                f"'{side.source}' holds the first {side.depth} documents of each ranking, too few to score "
                f"{', '.join(lost)} again with the labels: left out"
            )
    return sides[0], sides[1], more, warnings


def _gate(
    backends: Sequence[BackendChange], after: Sequence[ResultSnapshot], rules: Rules
) -> GateState | Literal["invalid"] | None:
    """Return the gate; a backend that failed, or without a metric, and a dataset not loaded make it invalid."""
    if not rules.gated:
        return None
    if any(not backend.metrics for backend in backends) or any(
        snapshot.report.dataset.error is not None for snapshot in after
    ):
        return "invalid"
    states = {metric.gate for backend in backends for metric in backend.metrics}
    return "failed" if "failed" in states else "not judged" if "not judged" in states else "passed"


def _info(side: Sequence[ResultSnapshot]) -> SideInfo:
    report = side[0].report
    return SideInfo(
        source=side[0].source,
        created=report.created,
        command=report.command,
        harness=report.harness,
        machine=report.machine,
        datasets=[snapshot.report.dataset for snapshot in side],
        backends=list(dict.fromkeys(trial.label for snapshot in side for trial in snapshot.report.trials)),
        ranking_depth=side[0].depth,
    )
