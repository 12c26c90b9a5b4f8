"""A benchmarking and regression harness for retrieval backends, held against an exact reference.

``harness.compare`` runs backends on a dataset, ``harness.Comparison`` is its result; ``harness.regress`` runs a
baseline's plan again and ``harness.diff`` compares two stored results, ``harness.Regression`` is what both return;
``harness.verify`` runs published configurations; ``harness.explain`` says why documents have their ranks;
``harness.judge`` writes a page to judge documents on;
``harness.evaluate`` scores a run, ``harness.audit`` does so as other tools do; ``harness.check`` holds a golden set
against retrievers; ``harness.grade_documents`` has a model grade documents, ``harness.agreement`` compares two sets of
labels; ``harness.Dataset.of`` makes a dataset of objects for all of them.
Nothing heavy is imported before one of them is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from harness._version import __version__
from harness.results.presenters import register_presenter

if TYPE_CHECKING:
    from harness.data.dataset import Dataset
    from harness.pipeline.check.checked import CheckResult
    from harness.pipeline.check.run_check import check
    from harness.pipeline.compare import compare
    from harness.pipeline.evaluate import audit, evaluate
    from harness.pipeline.explain import explain
    from harness.pipeline.label_agreement import agreement
    from harness.pipeline.regress.regression import Regression
    from harness.pipeline.regress.run_regress import diff, regress
    from harness.pipeline.verify import verify
    from harness.report.judging import judge
    from harness.report.model_labels import grade_documents
    from harness.results.comparison import Comparison
    from harness.results.presenters import Presenter

__all__ = [
    "CheckResult",
    "Comparison",
    "Dataset",
    "Regression",
    "__version__",
    "agreement",
    "audit",
    "check",
    "compare",
    "diff",
    "evaluate",
    "explain",
    "grade_documents",
    "judge",
    "regress",
    "verify",
]

_HOMES = {
    "CheckResult": "harness.pipeline.check.checked",
    "Comparison": "harness.results.comparison",
    "Dataset": "harness.data.dataset",
    "Regression": "harness.pipeline.regress.regression",
    "agreement": "harness.pipeline.label_agreement",
    "audit": "harness.pipeline.evaluate",
    "check": "harness.pipeline.check.run_check",
    "compare": "harness.pipeline.compare",
    "diff": "harness.pipeline.regress.run_regress",
    "evaluate": "harness.pipeline.evaluate",
    "explain": "harness.pipeline.explain",
    "grade_documents": "harness.report.model_labels",
    "judge": "harness.report.judging",
    "regress": "harness.pipeline.regress.run_regress",
    "verify": "harness.pipeline.verify",
}


def _presenter() -> Presenter:
    from harness.report.presenting import ReportPresenter

    return ReportPresenter()


register_presenter(_presenter)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'harness' has no attribute '{name}'")
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
