"""Outcomes of trials, kept in the cache so that a comparison can be resumed: found, judged, and stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

import orjson

from harness.data.dataset import Dataset
from harness.plan.plan import Plan, Trial
from harness.plan.request import Resume
from harness.store.cache import JSON, Cache, entry_name
from harness.worker.failure import Failure
from harness.worker.jobs import TrialRecord, read_trial, write_trial
from harness.worker.process import Finished
from harness.worker.resume.conditions import Conditions, builds_in, differences, lacking, measuring_conditions
from harness.worker.resume.identity import Identities
from harness.worker.resume.key import is_kept, trial_key

__all__ = ["KIND", "LookUp", "Stored", "StoredTrials", "in_short"]

KIND = "trials"
_OUTCOME = "outcome.json"
_FINISHED, _FAILED = "finished", "failed"
_KEPT = ("EngineFailureError", "LostDocumentsError", "RankingError", "RejectedInputError")
"""Failures of the engine itself. Others are of this machine and this moment: a missing package, a server that is down,
a full disk."""
_OF_LIMITS = ("EngineTimeoutError", "MemoryLimitError")
_SHOWN = 3


class Stored(NamedTuple):
    """A stored outcome: a ``record`` with the ``memory`` it took, or a ``failure``.

    ``measured`` is when it came about (UTC, ISO 8601), ``conditions`` under what.
    """

    measured: str
    conditions: Conditions
    record: TrialRecord | None
    memory: Finished | None
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class LookUp:
    """What is known of one trial before it runs.

    ``key`` is None for a trial whose outcome is never stored. ``stored`` is an outcome that is used instead of running
    it, None when it runs. ``reason`` says why, ``differs`` how the conditions of ``stored`` differ from this run's.
    ``remote`` says what it will ask of a remote model, None where it asks none. ``builds`` is how many indexes its
    result is made of, 0 where nothing is built.
    """

    key: dict[str, JSON] | None
    stored: Stored | None
    reason: str
    differs: tuple[str, ...] = field(default=())
    remote: str | None = None
    builds: int = 0

    @property
    def name(self) -> str | None:
        """The name of the entry in the cache, found by `harness cache list`."""
        return entry_name(KIND, self.key) if self.key is not None else None


class StoredTrials:
    """The stored outcomes of the trials of one plan."""

    def __init__(self, cache: Cache, plan: Plan, dataset: Dataset, identities: Identities) -> None:
        self._cache, self._plan, self._dataset, self._identities = cache, plan, dataset, identities
        self._own: set[str] = set()

    def look_up(self, trial: Trial) -> LookUp:
        """Whether the trial runs or a stored outcome stands for it.

        Raises HarnessError when the key cannot be made: the engine or its analyzer is not there, or the engine fails
        to say what it is.
        """
        card = trial.spec.card
        if trial.spec.components:
            return LookUp(None, None, "made anew of its components each time")
        if card is None or not is_kept(trial):
            return LookUp(None, None, "never stored")
        key = trial_key(trial, card, self._dataset, self._plan.request.k, self._identities)
        if self._plan.resume is Resume.NEVER:
            return LookUp(key, None, "--resume never")
        if entry_name(KIND, key) in self._own:
            return LookUp(key, None, "its stored outcome is of this very comparison")
        stored = self._cache.read(KIND, key, _read)
        if stored is None:
            return LookUp(key, None, "no outcome is stored")
        now = measuring_conditions(self._plan, trial)
        differs = self._differences(stored, now)
        against = self._against(stored, now, differs)
        return LookUp(key, stored if against is None else None, against or _in_words(stored), differs)

    def keep(self, trial: Trial, look_up: LookUp, outcome: Stored) -> bool:
        """Store what came of a trial that ran, in place of an earlier outcome; False for what is never stored.

        Of failures only those of the engine itself are kept, and those of limits where nothing better is stored.
        Raises CacheError.
        """
        record, failure = outcome.record, outcome.failure
        if look_up.key is None or (failure is not None and failure.type not in (*_KEPT, *_OF_LIMITS)):
            return False
        if failure is not None and self._outlives(look_up.key, failure, outcome.conditions):
            return False
        described = {
            "measured": outcome.measured,
            "conditions": outcome.conditions,
            "memory": asdict(outcome.memory) if outcome.memory is not None else None,
            "failure": asdict(failure) if failure is not None else None,
        }

        def build(folder: Path) -> None:
            if record is not None:
                write_trial(folder, record)
            (folder / _OUTCOME).write_bytes(orjson.dumps(described))

        about = f"{trial.label} on {self._dataset.name}"
        self._own.add(entry_name(KIND, look_up.key))
        self._cache.put(KIND, look_up.key, build, about=about, state=_FINISHED if failure is None else _FAILED)
        return True

    def _outlives(self, key: Mapping[str, JSON], failure: Failure, conditions: Conditions) -> bool:
        """Whether a finished outcome is stored against which the failure says nothing.

        It finished under higher limits, or with fewer builds.
        """
        stored = self._cache.read(KIND, key, _read)
        if stored is None or stored.failure is not None:
            return False
        return failure.type in _OF_LIMITS or builds_in(stored.conditions) < builds_in(conditions)

    def _differences(self, stored: Stored, now: Conditions) -> tuple[str, ...]:
        if stored.failure is None and not self._plan.execution.timing:
            return ()  # no times are reported, so none have to stand
        return tuple(differences(stored.conditions, now))

    def _against(self, stored: Stored, now: Conditions, differs: tuple[str, ...]) -> str | None:
        """Why a stored outcome does not stand for this run; None when it does."""
        resume = self._plan.resume
        if stored.failure is not None:
            if resume is not Resume.MISSING:
                return f"its stored outcome is a failure of {stored.measured}"
            if stored.failure.type in _OF_LIMITS and stored.conditions["limits"] != now["limits"]:
                return f"it failed on {stored.measured} under other limits"
            if builds_in(stored.conditions) > builds_in(now):
                return f"it failed on {stored.measured} when more builds were asked for"
        elif lacks := lacking(stored.conditions, now):
            return f"its stored outcome was measured without {', '.join(lacks)}"
        elif resume is not Resume.MISSING and (failed := _failed_load(stored.record)) is not None:
            return f"a measurement of its stored outcome failed: {failed}"
        if differs and resume is not Resume.ALWAYS:
            return f"its stored outcome is of other conditions: {in_short(differs)}"
        return None


def in_short(differs: tuple[str, ...]) -> str:
    """The first differences, and how many more there are."""
    more = f"; and {len(differs) - _SHOWN} more" if len(differs) > _SHOWN else ""
    return "; ".join(differs[:_SHOWN]) + more


def _failed_load(record: TrialRecord | None) -> str | None:
    """What the first failed client or call said of a cold pass or a measurement under load, None when all went well."""
    loads = record.loads if record is not None else ()
    said = (sentence for load in loads for sentence in (*load.failures, load.first_error) if sentence is not None)
    return next(said, None)


def _in_words(stored: Stored) -> str:
    return f"{_FINISHED if stored.failure is None else _FAILED} on {stored.measured}"


def _read(folder: Path) -> Stored:
    described = orjson.loads((folder / _OUTCOME).read_bytes())
    memory, failure = described["memory"], described["failure"]
    return Stored(
        measured=described["measured"],
        conditions=described["conditions"],
        record=read_trial(folder) if failure is None else None,
        memory=Finished(**{**memory, "log": tuple(memory["log"])}) if memory is not None else None,
        failure=Failure(**{**failure, "log": tuple(failure["log"])}) if failure is not None else None,
    )
