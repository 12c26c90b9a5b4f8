"""A seeded workload of inserts, deletes and updates, and the documents, contents and judgments after each step.

A part of the corpus is held back for the inserts. Deleted documents are drawn from the present documents. Documents
that are updated exchange their contents, each taking another's, so that no content occurs twice; judgments follow the
content, because they were made for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from harness.data.arrow import numbers
from harness.data.dataset import Dataset
from harness.data.types import Ids, Int32Array, Qrels
from harness.errors import UsageError
from harness.plan.option_values import Churn
from harness.wording import counted
from harness.worker.jobs import ChangeStep


@dataclass(frozen=True, eq=False)
class Workload:
    """Changes of an index of the documents of a corpus.

    Attributes:
        order: int32 (n,), corpus rows in the order in which their documents come; a position in it is a document's row.
        first: Number of documents at the beginning.
        steps: The changes.
    """

    order: Int32Array
    first: int
    steps: tuple[ChangeStep, ...]

    @classmethod
    def of(cls, documents: int, churn: Churn, seed: int) -> Workload:
        """Draw the workload of a corpus, given its number of documents; raises UsageError if they are too few for it.

        Shares are of the documents at the beginning, at least one document each, and two if documents are updated. The
        beginning is 1 / (1 + steps · insert) of the corpus, rounded down.
        """
        generator = np.random.default_rng(seed)
        order = generator.permutation(documents).astype(np.int32)
        first = max(1, int(documents / (1 + churn.steps * churn.insert)))
        while first > 1 and first + churn.steps * _part(churn.insert, first) > documents:
            first -= 1
        inserted, deleted = _part(churn.insert, first), _part(churn.delete, first)
        updated = max(2, _part(churn.update, first)) if churn.update else 0
        content, steps, absent = order[:first].copy(), [], np.arange(first, dtype=np.int32)
        for number in range(1, churn.steps + 1):
            if deleted + max(1, updated) > len(absent) or len(content) + inserted > documents:
                raise UsageError(
                    f"--churn {churn}: {counted(documents, 'document is', 'documents are')} too few: step {number} "
                    f"would insert {inserted} of {documents - len(content)}, delete {deleted} and update {updated} "
                    f"of {len(absent)}",
                    fix="take more documents or fewer steps; a step deletes and inserts at least one, and updates two",
                )
            touched = generator.choice(absent, deleted + updated, replace=False)
            gone, changed = np.sort(touched[:deleted]), touched[deleted:]
            added = np.arange(len(content), len(content) + inserted, dtype=np.int32)
            written = np.concatenate([changed, added]).astype(np.int32)
            new = np.concatenate([np.roll(content[changed], 1), order[added]]).astype(np.int32)
            content = np.concatenate([content, order[added]])
            content[written], content[gone] = new, -1
            steps.append(ChangeStep(gone.astype(np.int32), written, new))
            absent = np.flatnonzero(content >= 0).astype(np.int32)
        return cls(order, first, tuple(steps))

    @cached_property
    def contents(self) -> tuple[Int32Array, ...]:
        """The corpus row that each row holds, int32, before the first change and after each; -1 for none."""
        content = np.full(len(self.order), -1, dtype=np.int32)
        content[: self.first] = self.order[: self.first]
        states = [content]
        for step in self.steps:
            content = content.copy()
            content[step.written], content[step.deleted] = step.content, -1
            states.append(content)
        return tuple(states)

    def dropped(self, change: int, *, replaced: bool) -> Int32Array:
        """Return the contents (corpus rows, int32) that a change, from 1, deletes, or replaces too."""
        step, before = self.steps[change - 1], self.contents[change - 1]
        contents: Int32Array = before[np.concatenate([step.deleted, step.written]) if replaced else step.deleted]
        return contents[contents >= 0]

    def ids(self, dataset: Dataset) -> Ids:
        """Return the ids of all rows."""
        return Ids(dataset.corpus.ids.values.take(numbers(self.order)))

    def judgments(self, dataset: Dataset, state: int, ids: Ids) -> Qrels | None:
        """Return the judgments of present contents, each for the document that holds it."""
        qrels, content = dataset.qrels, self.contents[state]
        if qrels is None:
            return None
        holder = np.full(len(dataset.corpus.ids) + 1, -1, dtype=np.int32)
        slots = np.flatnonzero(content >= 0)
        holder[content[slots]] = slots
        rows = holder[dataset.corpus.ids.rows_of(qrels.doc_ids)][qrels.rows]  # -1, unknown: the last, which holds none
        is_present = rows >= 0
        indptr = np.concatenate([[0], np.cumsum(is_present)])[qrels.indptr].astype(np.int64)
        return Qrels(qrels.query_ids, ids, indptr, rows[is_present], qrels.grades[is_present])


def _part(share: float, documents: int) -> int:
    return max(1, round(share * documents)) if share else 0
