"""Under what a trial was measured: whether its times can stand beside those of this run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import cast

import orjson

from harness._version import __version__
from harness.plan.plan import Plan, Trial
from harness.store import environment
from harness.store.cache import JSON
from harness.worker.rebuilds import builds_of

__all__ = ["Conditions", "builds_in", "differences", "lacking", "measuring_conditions"]

Conditions = Mapping[str, Mapping[str, JSON]]
"""Names to values in five groups: machine, versions, timing, limits, builds."""

_GIBIBYTE = 1024**3
_LIMITS = ("deadline_s", "memory_limit_bytes")
_NO_PART = ("jobs", "verify_cache", *_LIMITS)


def measuring_conditions(plan: Plan, trial: Trial) -> Conditions:
    """Everything beside a trial's key that its times depend on, its limits, and how often it was built.

    Raises HarnessError where the engine cannot be loaded, which says whether its builds differ.
    """
    machine, options = environment.machine(), asdict(plan.execution)
    load = asdict(plan.load) if plan.load.wanted else {}
    conditions = {
        "machine": {
            "processor": machine.processor,
            "cores": machine.cores,
            "memory (GiB)": round(machine.memory_bytes / _GIBIBYTE),  # kernels differ in what they set aside
            **machine.thread_limits,
        },
        "versions": {
            "harness": __version__,
            "python": machine.python,
            **environment.package_versions(),
        },
        "timing": {
            **{name: value for name, value in options.items() if name not in _NO_PART},
            **{f"load {name}": value for name, value in load.items()},
        },
        "limits": {**{name: options[name] for name in _LIMITS}, **_outside_the_key(trial)},
        "builds": {"builds": builds_of(trial, plan)},
    }
    read_back: Conditions = orjson.loads(orjson.dumps(conditions))  # lists for tuples, as the stored ones have them
    return read_back


def _outside_the_key(trial: Trial) -> dict[str, JSON]:
    """Parameters that change no outcome but a failure: after how long the engine gives up, where its API key is."""
    parameters = trial.spec.card.parameters if trial.spec.card is not None else {}
    return {name: trial.parameters[name] for name, one in parameters.items() if one.affects == "nothing"}


def differences(then: Conditions, now: Conditions) -> Iterator[str]:
    """How two conditions differ, in words (``cores 8, now 2``); nothing when times taken then stand now.

    Limits and builds are left out: they have no part in times.
    """
    for group in ("machine", "versions", "timing"):
        before, after = then.get(group, {}), now[group]
        for name in sorted({*before, *after} - _without_effect(before, after)):
            if before.get(name) != after.get(name):
                yield f"{name} {_said(before.get(name))}, now {_said(after.get(name))}"


def _without_effect(before: Mapping[str, JSON], after: Mapping[str, JSON]) -> set[str]:
    """Where no times were taken, or none are wanted, nothing is asked before: how long does not matter."""
    return set() if before.get("timing") and after.get("timing") else {"warm_up"}


def lacking(then: Conditions, now: Conditions) -> list[str]:
    """What is to be measured now and was not measured then, in words; empty when nothing is lacking."""
    found = sorted(_measured(now["timing"]) - _measured(then["timing"]))
    first, last = builds_in(then) + 1, builds_in(now)
    if first <= last:
        found.append(f"build {last}" if first == last else f"builds {first} to {last}")
    return found


def builds_in(conditions: Conditions) -> int:
    """How many builds were asked for of a trial under these conditions."""
    return cast("int", conditions["builds"]["builds"])


def _measured(timing: Mapping[str, JSON]) -> set[str]:
    """The measurements that options of timing ask for."""
    found = {"times"} if timing["timing"] else set()
    if timing.get("load cold"):
        found.add("a cold pass")
    concurrency, rates = (cast("list[float]", timing.get(f"load {name}", [])) for name in ("concurrency", "rates"))
    clients, arrivals = timing.get("load clients"), timing.get("load arrivals")
    found |= {f"{count} clients ({clients})" for count in concurrency}
    found |= {f"{rate:g} queries/s ({clients}, {arrivals})" for rate in rates}
    return found


def _said(value: JSON) -> str:
    return "none" if value is None else str(value)
