"""How much of the harness one query passes: functions, modules, and how deep the stack is at the engine.

Three documents and one query go through ``harness.compare`` and ``harness.check`` with ``isolation="none"``, so that
the worker's part runs in this process too. Each is called twice, and the second call is measured: the cache is warm,
nothing is imported or compiled, and what is computed once per process is left out.

A function is one piece of code of the package ``harness`` that starts with ``def``: methods, properties and compiled
kernels included, each counted once however often it runs. Lambdas and comprehensions are counted apart: they are read
with the function in which they stand, and Python 3.12 makes no calls of most of them. The depth is that of
the deepest stack on which a function of ``harness/engines`` is first called, with everything on it from the measured
call on: lambdas, comprehensions and other packages' functions too. ``check`` has a golden set and a corpus in files,
because a corpus in a file is what it takes.

``--list modules`` prints the modules, ``--list callers`` every function by its module with the functions that call it
and how often, ``--list stages`` every function in the order of its first call, indented by its depth, below the stage
in which it runs.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import harness

PACKAGE = Path(harness.__file__).parent
BACKEND = "csr:analyzer=whitespace"
DOCUMENTS = {"d1": "the quick brown fox", "d2": "a lazy dog sleeps", "d3": "the fox and the dog"}
QUERY = {"q1": "quick fox"}
RELEVANT = {"q1": {"d1": 1}}
STAGES = {
    "plan_for": "plan",
    "plan_check": "plan",
    "_load": "dataset",
    "load_planned": "dataset",
    "run_plan": "trials",
    "References.compare": "parity",
    "score_outcome": "metrics",
    "trial_results": "results",
    "result_findings": "results",
    "_assembled": "results",
}
"""Functions that begin a stage; what runs outside of them is of the stage 'call'."""


@dataclass(frozen=True, slots=True)
class Call:
    """The first call of a function.

    Args:
        module: Its file, relative to the package.
        name: Its name with those of its class and enclosing functions.
        depth: How many functions of the package are on the stack, itself included.
        frames: How many functions of any kind and package are on the stack, itself included.
        stage: The outermost stage that is running.
    """

    module: str
    name: str
    depth: int
    frames: int
    stage: str


@dataclass(slots=True)
class Reading:
    """Functions that a call passes, in the order of their first calls, and how many lambdas and comprehensions.

    ``callers`` count the calls of each function by the package's function that made them.
    """

    calls: dict[tuple[str, int, str], Call] = field(default_factory=dict)
    callers: dict[tuple[str, int, str], Counter[str]] = field(default_factory=dict)
    inner: set[tuple[str, int, str]] = field(default_factory=set)

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        """Note a call, as ``sys.setprofile`` reports it."""
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(f"{PACKAGE}/"):
            return
        key = (code.co_filename, code.co_firstlineno, code.co_qualname)
        if code.co_name.startswith("<"):
            self.inner.add(key)
            return
        self.callers.setdefault(key, Counter())[caller_of(frame)] += 1
        if key not in self.calls:
            stack, frames = functions_on_stack(frame)
            stage = next((STAGES[name] for name in reversed(stack) if name in STAGES), "call")
            if frame.f_back is None and self.calls:  # a compiled kernel, which is called on a stack of its own
                stage = next(reversed(self.calls.values())).stage
            module = str(Path(code.co_filename).relative_to(PACKAGE))
            self.calls[key] = Call(module, code.co_qualname, len(stack), frames, stage)

    @property
    def engine_calls(self) -> list[tuple[int, Call]]:
        """The calls of engines' functions, with their numbers in the order of first calls."""
        return [item for item in enumerate(self.calls.values(), 1) if item[1].module.startswith("engines/")]

    def first(self, name: str) -> int:
        """Return the number of the engine's method in the order of first calls."""
        return next(number for number, call in self.engine_calls if call.name.rpartition(".")[2] == name)


def caller_of(frame: FrameType) -> str:
    """Return the package's function that made a call, also through a lambda or another package; else a dash."""
    caller = frame.f_back
    while caller is not None:
        code = caller.f_code
        if code.co_filename.startswith(f"{PACKAGE}/") and not code.co_name.startswith("<"):
            return code.co_qualname
        caller = caller.f_back
    return "-"


def functions_on_stack(frame: FrameType | None) -> tuple[list[str], int]:
    """Return the package's functions on the stack, the innermost first, and how many frames there are up to them."""
    names, frames, count = list[str](), 0, 0
    while frame is not None:
        code, frames = frame.f_code, frames + 1
        if code.co_filename.startswith(f"{PACKAGE}/"):
            count = frames
            if not code.co_name.startswith("<"):
                names.append(code.co_qualname)
        frame = frame.f_back
    return names, count


def write_files(folder: Path) -> tuple[Path, Path]:
    """Write the golden set and the corpus of ``check``, and return their paths."""
    golden, corpus = folder / "golden.jsonl", folder / "corpus.jsonl"
    lines = [
        {"id": name, "question": text, "expected_relevant_doc_ids": list(RELEVANT[name])}
        for name, text in QUERY.items()
    ]
    golden.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    records = [{"_id": name, "text": text} for name, text in DOCUMENTS.items()]
    corpus.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return golden, corpus


def measure(run: Callable[[], object]) -> Reading:
    """Call ``run`` twice, and return the functions that the second call passes."""
    run()
    reading = Reading()
    sys.setprofile(reading.profile)
    try:
        run()
    finally:
        sys.setprofile(None)
    return reading


def print_modules(reading: Reading) -> None:
    """Print the modules by the number of their functions that were called."""
    for module, functions in Counter(call.module for call in reading.calls.values()).most_common():
        print(f"{functions:4} {module}")


def print_callers(reading: Reading) -> None:
    """Print every function by its module, with the functions that call it and how often."""
    module = None
    for key, call in sorted(reading.calls.items(), key=lambda item: item[1].module):
        if call.module != module:
            module = call.module
            print(f"--- {module}")
        callers = ", ".join(f"{name} ({count})" for name, count in reading.callers[key].most_common())
        print(f"{call.name}  from {callers}")


def print_stages(reading: Reading) -> None:
    """Print every function in the order of its first call, below its stage."""
    stage = None
    for number, call in enumerate(reading.calls.values(), 1):
        if call.stage != stage:
            stage = call.stage
            print(f"--- {stage}")
        print(f"{number:4} {'  ' * call.depth}{call.name}  {call.module}")


def main() -> None:
    """Measure both calls, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", choices=["modules", "callers", "stages"], help="print the functions as well")
    parser.add_argument("--verb", choices=["compare", "check"], help="measure only this call")
    options = parser.parse_args()

    def compare() -> object:
        dataset = harness.Dataset.of(DOCUMENTS, QUERY, RELEVANT)
        return harness.compare(dataset=dataset, backends=[BACKEND], isolation="none")

    with tempfile.TemporaryDirectory() as folder:
        golden, corpus = write_files(Path(folder))

        def check() -> object:
            return harness.check(golden, corpus=corpus, backends=[BACKEND], isolation="none")

        for verb in (compare, check):
            if options.verb not in (None, verb.__name__):
                continue
            reading = measure(verb)
            modules = {call.module for call in reading.calls.values()}
            depth = max(call.frames for _, call in reading.engine_calls)
            opened, queried = reading.first("open"), reading.first("retrieve")
            print(
                f"{verb.__name__}: {len(reading.calls)} functions in {len(modules)} modules; engine opened by function "
                f"{opened}, queried by {queried}, at most {depth} deep; {len(reading.inner)} lambdas and comprehensions"
            )
            if options.list is not None:
                {"modules": print_modules, "callers": print_callers, "stages": print_stages}[options.list](reading)


if __name__ == "__main__":
    main()
