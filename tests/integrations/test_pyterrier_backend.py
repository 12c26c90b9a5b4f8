"""`harness.integrations.pyterrier.Backend`: frames in and out, in pipelines and experiments, without Terrier's JVM."""

import pandas as pd
import pytest
from installed import skip_module_without

from harness.errors import BackendError, UsageError

skip_module_without("pyterrier")

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # of the library
    pytest.mark.usefixtures("warm_workers"),
]
DOCUMENTS = pd.DataFrame({"docno": ["fruit", "fish", "pear"], "text": ["apples pears", "trout salmon", "pears"]})
CSR = "csr:analyzer=whitespace"  # which needs no Java
QUERIES = pd.DataFrame({"qid": [7, 8, 9], "query": ["pears", "salmon", "nothing"], "user": ["a", "b", "c"]})


def test_queries_become_ranked_documents() -> None:
    import pyterrier

    from harness.integrations.pyterrier import Backend

    backend = Backend(CSR, DOCUMENTS, k=5, timing=False)
    found = backend(QUERIES)
    assert found[["qid", "docno", "rank", "user"]].values.tolist() == [
        ["7", "pear", 0, "a"],
        ["7", "fruit", 1, "a"],
        ["8", "fish", 0, "b"],
    ]
    run = backend.comparison.run(CSR)
    assert found["score"].tolist() == run.scores.tolist()
    assert (backend % 1)(QUERIES)["docno"].tolist() == ["pear", "fish"]
    assert backend(QUERIES.head(0)).columns.tolist() == ["qid", "query", "user", "docno", "score", "rank"]
    assert not pyterrier.java.started()


def test_an_experiment_scores_it() -> None:
    import pyterrier

    from harness.integrations.pyterrier import Backend

    queries = QUERIES.astype({"qid": str})[["qid", "query"]]
    qrels = pd.DataFrame({"qid": ["7", "8"], "docno": ["fruit", "fish"], "label": [1, 1]})
    table = pyterrier.Experiment(
        [Backend(CSR, DOCUMENTS, timing=False), Backend("sqlite", DOCUMENTS, timing=False)],
        queries,
        qrels,
        eval_metrics=["recip_rank"],
    )
    assert table["name"].tolist() == [CSR, "sqlite"]
    assert table["recip_rank"].tolist() == [0.75, 0.75]


def test_mistakes_are_named() -> None:
    from harness.integrations.pyterrier import Backend

    with pytest.raises(UsageError, match="no column 'query'"):
        Backend("csr", DOCUMENTS)(QUERIES[["qid"]])
    with pytest.raises(UsageError, match="qid twice"):
        Backend("csr", DOCUMENTS)(pd.concat([QUERIES, QUERIES]))
    with pytest.raises(UsageError, match="more than one backend"):
        Backend("csr,sqlite", DOCUMENTS)
    with pytest.raises(BackendError, match="no_such_module"):
        Backend("flat:model=python:no_such_module:Model", DOCUMENTS, timing=False)(QUERIES)
