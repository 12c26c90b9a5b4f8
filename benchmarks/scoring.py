"""Time to score a run with five measures, against pytrec_eval, ir_measures and ranx, taking in the input apart.

The run is made: random documents, scores rounded so that ties are common, half of each query's judgments among its
hits. Tools take turns in one process; medians are printed, ratios are what travels. Means are compared with
pytrec_eval's.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import ir_measures
import pytrec_eval

from harness.data.memory import qrels_from_dict, run_from_dict
from harness.data.types import Ids, Run
from harness.loaders.trec import read_run
from harness.loaders.trec_write import write_run
from harness.metrics import parse_metrics, score

MEASURES = "nDCG@10,AP,RR,P@10,R@100"
TREC = {"ndcg_cut.10", "map", "recip_rank", "P.10", "recall.100"}
TREC_NAMES = ("ndcg_cut_10", "map", "recip_rank", "P_10", "recall_100")
RANX = ["ndcg@10", "map", "mrr", "precision@10", "recall@100"]


@dataclass
class Tool:
    """What one tool does: from a dictionary, from a TREC file, and to score what these give."""

    name: str
    from_dict: Callable[[], Any] | None
    from_file: Callable[[], Any]
    score: Callable[[Any], list[float]]
    fresh: Callable[[Any], Any] = lambda taken: taken
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def time(self, what: str, work: Callable[[], Any]) -> Any:
        gc.collect()
        start = time.perf_counter()
        outcome = work()
        self.seconds.setdefault(what, []).append(time.perf_counter() - start)
        return outcome

    def median(self, what: str) -> float | None:
        return statistics.median(self.seconds[what]) if what in self.seconds else None


def made(queries: int, hits: int, judgments: int, documents: int) -> tuple[dict, dict]:
    rng = np.random.default_rng(7)
    names = [f"document-{number:07d}" for number in rng.permutation(documents)]
    run, qrels = {}, {}
    for query in range(queries):
        found = rng.choice(documents, hits, replace=False)
        scores = np.round(np.sort(rng.gamma(2.0, 5.0, hits))[::-1], 3)
        run[f"query-{query}"] = {names[row]: float(value) for row, value in zip(found, scores, strict=True)}
        inside = rng.choice(found, judgments // 2, replace=False)
        outside = rng.choice(documents, judgments - judgments // 2, replace=False)
        judged = [*inside.tolist(), *outside.tolist()]
        grades = rng.integers(0, 4, len(judged)).tolist()
        qrels[f"query-{query}"] = {names[row]: grade for row, grade in zip(judged, grades, strict=True)}
    return run, qrels


def harness_tool(run: dict, qrels: dict, path: Path) -> Tool:
    measures, judgments = parse_metrics(MEASURES), qrels_from_dict(qrels)

    def strangers(taken: Run) -> Run:
        """The same columns as new objects, so that nothing is remembered of an earlier turn."""
        return replace(taken, query_ids=Ids(taken.query_ids.values), doc_ids=Ids(taken.doc_ids.values))

    def means(taken: Run) -> list[float]:
        return [summary.value for summary in score(taken, judgments, measures, queries="answered").means()]

    return Tool("harness", lambda: run_from_dict(run), lambda: read_run(path), means, strangers)


def pytrec_eval_tool(run: dict, qrels: dict, path: Path) -> Tool:
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, TREC)

    def parsed() -> dict:
        with path.open() as stream:
            return pytrec_eval.parse_run(stream)

    def means(taken: dict) -> list[float]:
        values = evaluator.evaluate(taken).values()
        return [statistics.fmean(value[name] for value in values) for name in TREC_NAMES]

    return Tool("pytrec_eval", lambda: run, parsed, means)


def ir_measures_tool(run: dict, qrels: dict, path: Path) -> Tool:
    measures = [ir_measures.parse_metric(text) for text in MEASURES.split(",")]
    evaluator = ir_measures.evaluator(measures, qrels)

    def means(taken: object) -> list[float]:
        values = evaluator.calc_aggregate(taken)
        return [values[measure] for measure in measures]

    return Tool("ir_measures", lambda: run, lambda: list(ir_measures.read_trec_run(str(path))), means)


def ranx_tool(run: dict, qrels: dict, path: Path) -> Tool:
    import ranx

    judgments = ranx.Qrels(qrels)

    def means(taken: object) -> list[float]:
        values = ranx.evaluate(judgments, taken, RANX)
        return [values[name] for name in RANX]

    return Tool("ranx", lambda: ranx.Run(run), lambda: ranx.Run.from_file(str(path), kind="trec"), means)


def cell(seconds: float | None, base: float | None) -> str:
    if seconds is None:
        return "–"
    shown = f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.0f} ms"
    return f"{shown} ({base / seconds:.1f}x)" if base is not None else shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=3000)
    parser.add_argument("--hits", type=int, default=1000)
    parser.add_argument("--judgments", type=int, default=10, help="per query")
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--without", action="append", default=[], choices=["ir_measures", "ranx"])
    given = parser.parse_args()
    run, qrels = made(given.queries, given.hits, given.judgments, given.documents)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.trec"
        write_run(path, run_from_dict(run), "made")
        makers = {
            "harness": harness_tool,
            "pytrec_eval": pytrec_eval_tool,
            "ir_measures": ir_measures_tool,
            "ranx": ranx_tool,
        }
        tools = [make(run, qrels, path) for name, make in makers.items() if name not in given.without]
        measure(tools, given.repeats)
    table(tools, given)


def measure(tools: list[Tool], repeats: int) -> None:
    taken, means = {}, {}
    for tool in tools:
        taken[tool.name] = tool.time("dict", tool.from_dict)
        means[tool.name] = tool.score(taken[tool.name])  # compiles what is compiled; not timed
    for turn in range(repeats):
        for tool in tools:
            if tool.name != "ranx" or turn == 0:  # tens of seconds each
                del taken[tool.name]
                tool.time("file", tool.from_file)
                taken[tool.name] = tool.time("dict", tool.from_dict)
            fresh = tool.fresh(taken[tool.name])
            tool.time("score", lambda tool=tool, fresh=fresh: tool.score(fresh))
            tool.time("again", lambda tool=tool, fresh=fresh: tool.score(fresh))
    for name, values in means.items():
        difference = max(abs(one - other) for one, other in zip(values, means["pytrec_eval"], strict=True))
        print(f"largest difference of a mean to pytrec_eval, {name}: {difference:.1e}", file=sys.stderr)
        assert name != "harness" or difference < 1e-9


def table(tools: list[Tool], given: argparse.Namespace) -> None:
    base = next(tool for tool in tools if tool.name == "pytrec_eval")
    print(
        f"{given.queries} queries of {given.hits} hits, {given.judgments} judgments a query, {MEASURES}; "
        f"median of {given.repeats}; in brackets: times as fast as pytrec_eval\n"
    )
    print("| tool | take in a dictionary | take in a TREC file | score | score the same again | file to scores |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    whole = base.median("file") + base.median("score")
    for tool in tools:
        score_cell = cell(tool.median("score"), base.median("score"))
        again = cell(tool.median("again"), base.median("again"))
        takes_dict = (
            "takes it as it is" if tool.name in ("pytrec_eval", "ir_measures") else cell(tool.median("dict"), None)
        )
        total = cell(tool.median("file") + tool.median("score"), whole)
        file_cell = cell(tool.median("file"), None)
        print(f"| {tool.name} | {takes_dict} | {file_cell} | {score_cell} | {again} | {total} |")


if __name__ == "__main__":
    main()
