"""Outcomes of trials, kept in the cache so that a comparison can be resumed: the key, the conditions, the store.

A key holds everything about a trial that changes its hits, and parameters that change its times: the scheme, the engine
with its own description (versions), the content of documents and queries, the analyzer with everything that decides its
terms or the model with everything that decides its vectors, k, the filter of each query with its fields, the candidates
among which each query is ranked, and the backend's parameters except those that affect nothing according to its card.
Measures, rules of scoring, the dataset's name, output paths, seeds of statistics and limits are not in it, nor is the
machine: times are judged by the conditions under which they were measured, which are stored with them.
"""

from __future__ import annotations

import functools
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import cast

import orjson

from harness._version import __version__
from harness.data.dataset import Dataset
from harness.data.filtering import metadata_digest
from harness.data.progress import Display
from harness.engines.interface import HasIdentity
from harness.pipeline.probes import PROBES, probes_of
from harness.plan.config import Resume
from harness.plan.plan import Plan, Trial
from harness.registry.cards import BackendCard
from harness.registry.lookup import load_engine
from harness.registry.optional import versions_of
from harness.registry.parameters import ParameterValue, encoder_parameters
from harness.store import environment
from harness.store.cache import JSON, Cache, entry_name, file_digest
from harness.store.record_files import load, save
from harness.worker.builds import builds_of
from harness.worker.encodings import encoder_key
from harness.worker.executor import Executor
from harness.worker.failure import Failure
from harness.worker.jobs import Identity, IdentityJob, TrialRecord
from harness.worker.outcome import Measurements
from harness.worker.pool import WorkerPool, engine_key
from harness.worker.process import FinishedProcess

SCHEME = 25
"""Increase this when a change of the harness or of its engines changes the hits of some engine, or what is stored."""
KIND = "trials"
Condition = str | int | float | bool | None | list[str | int | float | bool]
Conditions = Mapping[str, Mapping[str, Condition]]
"""Names to values in six groups: machine, versions, timing, probes, limits, builds."""

_PACKAGE = "harness"
_GIBIBYTE = 1024**3
_FINISHED, _FAILED = "finished", "failed"
_STORED_ERRORS = ("EngineFailureError", "LostDocumentsError", "RankingError", "RejectedInputError")
"""Failures of the engine itself. Others are of this machine and this moment: a missing package, a server that is down,
a full disk."""
_OF_LIMITS = ("EngineTimeoutError", "MemoryLimitError")
_MAX_DIFFERENCES = 3


@dataclass(frozen=True, slots=True)
class Identities:
    """Ask engines to describe themselves, in a worker: an engine's mistake or delay does not affect the rest.

    Job folders are made in ``work``. ``pool`` has workers that trials share; None if they share none. ``fetch`` lets
    a model of the hub be downloaded, whose files are part of its key.
    """

    executor: Executor
    work: Path
    display: Display
    fetch: bool = True
    pool: WorkerPool | None = None

    def of(self, card: BackendCard, parameters: Mapping[str, ParameterValue]) -> dict[str, str]:
        """Return the engine's facts that decide its hits, and for a foreign engine its version and file.

        Raises HarnessError when the engine is missing, or when it fails or takes too long to say it.
        """
        engine = load_engine(card)
        identities: dict[str, str] = self._ask(card, parameters) if isinstance(engine, HasIdentity) else {}
        packages = getattr(engine, "packages", ())
        identity = {**(versions_of(*packages) if packages else {}), **identities}
        package = engine.__module__.partition(".")[0]
        if package == _PACKAGE:
            return identity
        file = getattr(sys.modules.get(engine.__module__), "__file__", None)
        code = {"module_sha256": file_digest(Path(file))} if file is not None else {}
        return {**identity, **code, **_distributions_of(package)}

    def _ask(self, card: BackendCard, parameters: Mapping[str, ParameterValue]) -> dict[str, str]:
        folder = Path(tempfile.mkdtemp(prefix="identity-", dir=self.work))
        save(folder, IdentityJob(card.engine, parameters))
        executor = self.executor if self.pool is None else self.pool.serving(engine_key(card, parameters))
        executor.run(folder, self.display.section(card.name))
        return dict(load(folder, Identity).names)


def _distributions_of(package: str) -> Mapping[str, str]:
    """Return the distributions that install a package, with their versions."""
    return _distributions_in(tuple((folder, _changed_ns(Path(folder))) for folder in sys.path), package)


@functools.cache
def _distributions_in(_folders: tuple[tuple[str, int], ...], package: str) -> Mapping[str, str]:
    """Look them up once, until a folder of ``sys.path`` changes.

    Files are listed as text: `importlib.metadata.packages_distributions` makes paths of them, for a third of a second.
    """
    module = re.compile(rf"^{re.escape(package)}(/.*)?(\.[\w-]+)?\.(py|so|pyd)(,|$)", re.MULTILINE)
    versions: dict[str, str] = {}
    for one in distributions():
        declared = (one.read_text("top_level.txt") or "").split()
        if package in declared or (not declared and module.search(_files(one))):
            versions.setdefault(one.name, one.version)  # of two on the path Python takes the first
    return versions


def _files(distribution: Distribution) -> str:
    """Return the names of its files, one in each line; a wheel's lines have further fields after a comma."""
    return distribution.read_text("RECORD") or "\n".join(map(str, distribution.files or ()))


def _changed_ns(folder: Path) -> int:
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0


def trial_key(trial: Trial, card: BackendCard, dataset: Dataset, k: int, identities: Identities) -> dict[str, JSON]:
    """Return the key of one trial; nothing is analysed for it.

    Raises HarnessError if the engine, analyzer or model is missing, or the engine cannot describe itself.
    """
    encoder = encoder_key(trial, dataset, fetch=identities.fetch)
    identity = identities.of(card, trial.parameters)
    left_out = {*identity, *(("jar",) if encoder is not None else ())}  # the terms' key holds the jar's digest
    model = card.model_encoder
    if model is not None:  # its key holds the resolved encoding: a model's files, not its name
        left_out |= set(encoder_parameters(model))
    left_out |= {name for name, parameter in card.parameters.items() if parameter.affects == "nothing"}
    parameters: dict[str, JSON] = {name: value for name, value in trial.parameters.items() if name not in left_out}
    filtered = dataset.filtered
    extra: dict[str, JSON] = {}
    if filtered is not None:
        extra = {"metadata": filtered.digest}
        if filtered.shared is not None:
            extra["filter"] = {**filtered.shared.conditions}
        else:
            extra["filters"] = [{**group.conditions} for group in filtered.groups]
            extra["filter_of_query"] = filtered.queries_digest
    if dataset.attributes is not None:
        extra["attributes"] = metadata_digest(dataset.attributes)
    if dataset.candidates is not None:
        extra["candidates"] = dataset.candidates_digest
    return {
        "scheme": SCHEME,
        "engine": card.engine,
        "identity": {**identity},
        "parameters": parameters,
        "encoder": encoder,
        "documents": dataset.corpus.digest,
        "queries": dataset.queries.digest,
        "k": k,
        **extra,
    }


def conditions_of(plan: Plan, trial: Trial) -> Conditions:
    """Return everything except a trial's key that its times depend on, its limits, and how often it is built.

    Raises HarnessError if the engine cannot be loaded, which says whether its builds differ.
    """
    machine, request = environment.machine(), plan.request
    probes = [probe for probe in probes_of(plan) if probe.record is not None]
    parameters = trial.spec.card.parameters if trial.spec.card is not None else {}
    outside_the_key = {  # parameters that change no outcome but a failure: a timeout, the location of an API key
        name: trial.parameters[name] for name, parameter in parameters.items() if parameter.affects == "nothing"
    }
    conditions = {
        "machine": {
            "processor": machine.processor,
            "cores": machine.cores,
            "memory (GiB)": round(machine.memory_bytes / _GIBIBYTE),  # kernels differ in the memory that they reserve
            **machine.thread_limits,
        },
        "versions": {
            "harness": __version__,
            "python": machine.python,
            **environment.package_versions(),
        },
        "timing": {
            "isolation": request.isolation,
            "executor": request.executor,
            "timing": request.timing,
            "repeat": request.repeat,
            "warm_up": request.warm_up,
            **{name: value for probe in probes for name, value in probe.conditions(plan).items()},
        },
        "probes": {probe.name: levels for probe in probes if (levels := probe.levels(plan))},
        "limits": {
            "deadline_s": request.deadline,
            "memory_limit_bytes": request.memory_limit,
            **outside_the_key,
        },
        "builds": {"builds": builds_of(trial, plan) if request.rebuilds > 1 else 1},
    }
    read_back: Conditions = orjson.loads(orjson.dumps(conditions))  # lists for tuples, as the stored ones have them
    return read_back


def differences(then: Conditions, now: Conditions) -> Iterator[str]:
    """Yield how two conditions differ, in words (``cores 8, now 2``); nothing if times taken then are valid now.

    Limits and builds are left out: they have no part in times.
    """
    for group in ("machine", "versions", "timing"):
        before, after = then.get(group, {}), now[group]
        # if no times were taken, or none are needed, the duration of warm-up does not matter
        without_effect = set() if before.get("timing") and after.get("timing") else {"warm_up"}
        for name in sorted({*before, *after} - without_effect):
            old, new = before.get(name), after.get(name)
            if old != new:
                yield f"{name} {'none' if old is None else old}, now {'none' if new is None else new}"


def _lacking(then: Conditions, now: Conditions) -> list[str]:
    """Return what must be measured now and was not measured then, in words."""
    missing = sorted(_measured(now) - _measured(then))
    first, last = _builds_in(then) + 1, _builds_in(now)
    if first <= last:
        missing.append(f"build {last}" if first == last else f"builds {first} to {last}")
    return missing


def _builds_in(conditions: Conditions) -> int:
    """Return how many builds were requested of a trial under these conditions."""
    return cast("int", conditions["builds"]["builds"])


def _measured(conditions: Conditions) -> set[str]:
    """Return the requested measurements of a trial under these conditions, in words."""
    levels = cast("Mapping[str, list[str]]", conditions["probes"])
    times = {"times"} if conditions["timing"]["timing"] else set()
    return times.union(*levels.values())


@dataclass(frozen=True, eq=False, slots=True)
class StoredOutcome:
    """A stored outcome: a ``record`` with its ``memory`` and the measurements of probes, or a ``failure``.

    ``measured`` is the time of the outcome (UTC, ISO 8601), ``conditions`` its conditions.
    """

    measured: str
    conditions: Conditions
    record: TrialRecord | None
    memory: FinishedProcess | None
    failure: Failure | None
    measurements: Measurements = field(default_factory=dict)

    def save(self, folder: Path) -> None:
        """Write it into a folder: the measurements of each probe into a separate folder."""
        save(folder, replace(self, measurements={}))
        for name, record in self.measurements.items():
            (folder / name).mkdir()
            save(folder / name, record)

    @classmethod
    def load(cls, folder: Path) -> StoredOutcome:
        """Read the outcome that :meth:`save` wrote. Raises CacheError if a file is missing or damaged."""
        records = {probe.name: probe.record for probe in PROBES if (folder / probe.name).is_dir()}
        measured = {name: load(folder / name, kind) for name, kind in records.items() if kind is not None}
        return replace(load(folder, cls), measurements=measured)


@dataclass(frozen=True, slots=True)
class LookUp:
    """Knowledge of one trial before it runs.

    ``key`` is None for a trial whose outcome is never stored. ``stored`` is an outcome that is used instead of running
    it, None if it runs. ``reason`` says why, ``differs`` how the conditions of ``stored`` differ from this run's.
    ``remote`` describes its requests to a remote model, None if it sends none. ``builds`` is the number of indexes
    behind its result, 0 if nothing is built.
    """

    key: dict[str, JSON] | None
    stored: StoredOutcome | None
    reason: str
    differs: tuple[str, ...] = field(default=())
    remote: str | None = None
    builds: int = 0

    @property
    def name(self) -> str | None:
        """The name of the entry in the cache, found by `harness cache list`."""
        return entry_name(KIND, self.key) if self.key is not None else None


@dataclass(frozen=True, eq=False, slots=True)
class StoredTrials:
    """The stored outcomes of the trials of one plan."""

    _cache: Cache
    _plan: Plan
    _dataset: Dataset
    _identities: Identities
    _written_keys: set[str] = field(default_factory=set, init=False)

    def look_up(self, trial: Trial) -> LookUp:
        """Return whether the trial runs or a stored outcome takes its place.

        Raises HarnessError if the key cannot be made: the engine or its analyzer is missing, or the engine fails to
        describe itself.
        """
        card = trial.spec.card
        if trial.spec.components:
            return LookUp(None, None, "combined again from its components each time")
        if card is None or trial.external:  # a run of the user's own, or an index made elsewhere
            return LookUp(None, None, "never stored")
        key = trial_key(trial, card, self._dataset, self._plan.request.k, self._identities)
        if self._plan.request.resume is Resume.NEVER:
            return LookUp(key, None, "--resume never")
        if entry_name(KIND, key) in self._written_keys:
            return LookUp(key, None, "its stored outcome is of this very comparison")
        stored = self._stored(key)
        if stored is None:
            return LookUp(key, None, "no outcome is stored")
        now = conditions_of(self._plan, trial)
        # if no times are reported, no times need to be valid
        compared = stored.failure is not None or self._plan.request.timing
        differs = tuple(differences(stored.conditions, now)) if compared else ()
        against = self._against(stored, now, differs)
        finished = f"{_FINISHED if stored.failure is None else _FAILED} on {stored.measured}"
        return LookUp(key, stored if against is None else None, against or finished, differs)

    def keep(self, trial: Trial, look_up: LookUp, outcome: StoredOutcome) -> bool:
        """Store the outcome of a trial that ran, in place of an earlier outcome; False if it is never stored.

        Of failures only the engine's own are kept, and failures by limits if nothing better is stored. Raises
        CacheError.
        """
        failure = outcome.failure
        if look_up.key is None or (failure is not None and failure.type not in (*_STORED_ERRORS, *_OF_LIMITS)):
            return False
        if failure is not None and self._outlives(look_up.key, failure, outcome.conditions):
            return False
        about = f"{trial.label} on {self._dataset.name}"
        self._written_keys.add(entry_name(KIND, look_up.key))
        state = _FINISHED if failure is None else _FAILED
        with self._cache.lock(KIND, look_up.key) as entry:
            entry.put(outcome.save, about=about, state=state)
        return True

    def _stored(self, key: Mapping[str, JSON]) -> StoredOutcome | None:
        return self._cache.get(KIND, key, StoredOutcome.load)

    def _outlives(self, key: Mapping[str, JSON], failure: Failure, conditions: Conditions) -> bool:
        """Return whether a finished outcome is stored that the failure does not contradict.

        It finished under higher limits, or with fewer builds.
        """
        stored = self._stored(key)
        if stored is None or stored.failure is not None:
            return False
        return failure.type in _OF_LIMITS or _builds_in(stored.conditions) < _builds_in(conditions)

    def _against(self, stored: StoredOutcome, now: Conditions, differs: tuple[str, ...]) -> str | None:
        """Return why a stored outcome is not valid for this run; None if it is."""
        resume = self._plan.request.resume
        failed = [failure for probe in PROBES if (failure := probe.failure(stored.measurements)) is not None]
        if stored.failure is not None:
            if resume is not Resume.MISSING:
                return f"its stored outcome is a failure of {stored.measured}"
            if stored.failure.type in _OF_LIMITS and stored.conditions["limits"] != now["limits"]:
                return f"it failed on {stored.measured} under other limits"
            if _builds_in(stored.conditions) > _builds_in(now):
                return f"it failed on {stored.measured} when more builds were requested"
        elif lacks := _lacking(stored.conditions, now):
            return f"its stored outcome was measured without {', '.join(lacks)}"
        elif failed and resume is not Resume.MISSING:
            return f"a measurement of its stored outcome failed: {failed[0]}"
        if differs and resume is not Resume.ALWAYS:
            return f"its stored outcome is of other conditions: {summarise_differences(differs)}"
        return None


def summarise_differences(differs: tuple[str, ...]) -> str:
    """Return the first differences, and how many more there are."""
    more = f"; and {len(differs) - _MAX_DIFFERENCES} more" if len(differs) > _MAX_DIFFERENCES else ""
    return "; ".join(differs[:_MAX_DIFFERENCES]) + more
