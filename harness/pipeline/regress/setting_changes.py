"""Which resolved settings two results do not share: what could have made the difference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.pipeline.regress.pairing import Pair
from harness.results.regression_schema import SettingChange, Value
from harness.results.schema import Result, TrialResult
from harness.results.side import Side

__all__ = ["changed_settings", "machine_changes"]

_OF_EACH_BACKEND = {"backends", "notes"}
_OF_NO_CONSEQUENCE = {"resume", "cards", "sweep", "jobs", "verify_cache", "max_calls", "reference", "all_pairs"}
_MEASURED = {
    *("documents_encoded", "queries_encoded", "encode_seconds", "documents_per_second"),
    *("calls", "repeated_calls", "tokens", "calls_before"),
}
"""Facts about an encoder that are of one run, and no settings."""
_MEMORY_UNIT = 1024**3


def changed_settings(before: Side, after: Side, pairs: Sequence[Pair]) -> list[SettingChange]:
    """Every setting that differs: of the data, the plan, each pair of backends, versions and machine."""
    one, other = before.report, after.report
    return [
        *_changes("dataset", None, _dataset(one), _dataset(other)),
        *_changes("plan", None, _plan(one), _plan(other)),
        *(change for pair in pairs for change in _of_pair(before.backend(pair.before), after.backend(pair.after))),
        *_changes("harness", None, _harness(one), _harness(other)),
        *_changes("packages", None, _packages(one), _packages(other)),
        *_changes("machine", None, _machine(one), _machine(other)),
    ]


def machine_changes(before: Result, after: Result) -> list[SettingChange]:
    """How the machines differ; empty when times, memory and sizes can stand side by side."""
    return list(_changes("machine", None, _machine(before), _machine(after)))


def _of_pair(before: TrialResult, after: TrialResult) -> Iterator[SettingChange]:
    yield from _changes("engine", after.label, _engine(before), _engine(after))
    given = [
        {name: value for name, value in one.parameters.items() if name not in _OF_NO_CONSEQUENCE}
        for one in (before, after)
    ]
    yield from _changes("parameters", after.label, *given)
    names = {*before.encoder, *after.encoder} - _MEASURED
    left_out = {name for name in names if all(_repeats_parameter(one, name) for one in (before, after))}
    facts = [{name: said for name, said in one.encoder.items() if name in names - left_out} for one in (before, after)]
    yield from _changes("encoder", after.label, *facts)


def _repeats_parameter(backend: TrialResult, name: str) -> bool:
    """Whether an encoder's fact is only its parameter again; that of a prompt may be what the model asks for."""
    return name in backend.parameters and backend.encoder.get(name) in (None, backend.parameters[name])


def _changes(
    section: str, backend: str | None, before: Mapping[str, Value], after: Mapping[str, Value]
) -> Iterator[SettingChange]:
    for name in dict.fromkeys([*before, *after]):
        if before.get(name) != after.get(name):
            yield SettingChange(
                section=section, backend=backend, setting=name, before=before.get(name), after=after.get(name)
            )


def _engine(backend: TrialResult) -> dict[str, Value]:
    engine, index = backend.engine, backend.index
    facts: dict[str, Value] = {"backend": backend.name}
    if engine is not None:
        facts |= {"name": engine.name, "version": engine.version, "mode": engine.mode}
    if index is not None and index.external_index is not None:
        facts["content of the index"] = index.external_index.sha256
    return facts


def _dataset(report: Result) -> dict[str, Value]:
    info, content = report.dataset, report.dataset.content
    facts: dict[str, Value] = {
        "name": info.name,
        "documents": info.documents,
        "queries": info.queries.searched,
        "judgments": info.judgments,
        "sampled from": info.sampled_from,
        "documents sampled from": info.documents_sampled_from,
        "identical ids": info.identical_ids.rule if info.identical_ids is not None else None,
        "filter": ", ".join(f"{name}={value}" for name, value in info.filter.fields.items()) if info.filter else None,
        **{f"provenance: {name}": said for name, said in info.provenance.items() if name != "path"},
    }
    if content is None:
        return {**facts, "content": info.sha256}
    digests = content.model_dump()
    if info.candidates is not None and content.candidates is None:
        digests["candidates"] = "not recorded"
    return {**facts, **{f"content of {part}": digest for part, digest in digests.items()}}


def _plan(report: Result) -> dict[str, Value]:
    left_out = _OF_EACH_BACKEND | _OF_NO_CONSEQUENCE
    return {
        name: ", ".join(map(str, value)) if isinstance(value, list) else value
        for name, value in report.plan.resolved.items()
        if name not in left_out
    }


def _harness(report: Result) -> dict[str, Value]:
    return {"version": report.harness.version, "commit": report.harness.commit, "dirty": report.harness.dirty}


def _packages(report: Result) -> dict[str, Value]:
    return {"python": report.machine.python, **report.packages}


def _machine(report: Result) -> dict[str, Value]:
    machine = report.machine
    return {
        "system": machine.system.split()[0],  # kernels differ from boot to boot of one machine
        "processor": machine.processor,
        "cores": machine.cores,
        "memory (GiB)": round(machine.memory_bytes / _MEMORY_UNIT),  # and in what they set aside
        **machine.thread_limits,
    }
