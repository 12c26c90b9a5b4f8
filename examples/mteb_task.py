"""A task of MTEB's own class on a local collection, evaluated by ``mteb.evaluate`` on real engines.

    python examples/mteb_task.py qdrant lucene

Shows for each backend what MTEB computes, and what ``harness.compare`` computes on the same task. Run with mteb 2.26.
"""

from __future__ import annotations

import sys

import mteb
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.task_metadata import TaskMetadata

import harness
from datasets import Dataset
from harness.errors import HarnessError
from harness.integrations.mteb import Backend
from harness.loaders import load_dataset

SHOWN = {"ndcg_at_10": "nDCG@10", "map_at_100": "AP@100", "recall_at_1000": "R@1000", "mrr_at_10": "RR@10"}


class Cacm(AbsTaskRetrieval):
    """CACM, which comes with the harness, in the form of MTEB's tasks."""

    metadata = TaskMetadata(
        name="CACM",
        description="Abstracts of the Communications of the ACM.",
        reference=None,
        dataset={"path": "local", "revision": "1"},
        type="Retrieval",
        category="t2t",
        modalities=["text"],
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        main_score="ndcg_at_10",
    )

    def load_data(self, **_: object) -> None:
        loaded = load_dataset("cacm")
        qrels: dict[str, dict[str, int]] = {}
        for number, query in enumerate(loaded.qrels.query_ids):
            judged = slice(*loaded.qrels.indptr[number : number + 2])
            documents = loaded.qrels.doc_ids.take(loaded.qrels.rows[judged])
            qrels[query] = dict(zip(documents, loaded.qrels.grades[judged].tolist(), strict=True))
        texts = [
            Dataset.from_dict({"id": part.ids.to_list(), "text": part.texts.to_pylist()})
            for part in (loaded.corpus, loaded.queries)
        ]
        split = {"corpus": texts[0], "queries": texts[1], "relevant_docs": qrels, "top_ranked": None}
        self.dataset = {"default": {"test": split}}
        self.data_loaded = True


def main() -> None:
    for name in sys.argv[1:] or ["csr"]:
        result = mteb.evaluate(Backend(name, timing=False), Cacm(), cache=None, show_progress_bar=False)
        theirs = result.task_results[0].scores["test"][0]
        compared = harness.compare(
            [name], "cacm", k=1000, metrics=list(SHOWN.values()), queries="judged", timing=False
        ).metrics()
        for key, metric in SHOWN.items():
            print(f"{name:40} {metric:8} MTEB {theirs[key]:.5f}  harness {compared[metric].iloc[0]:.5f}")


if __name__ == "__main__":
    try:
        main()
    except HarnessError as error:
        sys.exit(str(error))
