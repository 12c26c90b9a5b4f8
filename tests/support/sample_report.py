"""A small report with every kind of row: good, failed, without reference, with ties that matter."""

from __future__ import annotations

from harness.plan.sweeps import PlannedSweep
from harness.results import schema, schema_base, schema_costs
from harness.results.backend_info import LabelledBackend, backend_infos
from harness.results.frontier import frontier_stats

SWEEPS = [
    PlannedSweep("chroma", "ef_search", {str(value): f"chroma:ef_search={value}" for value in (10, 50, 100, 400)})
]


def _metric(name: str, mean: float, low: float, high: float) -> schema_base.MetricValue:
    return schema_base.MetricValue(
        metric=name, mean=mean, min=low, max=high, ci_low=mean - 0.05, ci_high=mean + 0.05, n=52
    )


def _latency(p50: float) -> schema_costs.LatencyStats:
    return schema_costs.LatencyStats(p50=p50, p90=p50 * 2, p95=p50 * 3, p99=p50 * 4, mean=p50 * 1.5, n=128)


def _index(indexed: int, missing: list[str]) -> schema_costs.IndexStats:
    return schema_costs.IndexStats(
        documents_sent=1400,
        documents_indexed=indexed,
        missing=missing,
        missing_count=len(missing),
        seconds=0.5,
        ready_seconds=0.25,
        searchable_seconds=0.75,
        documents_per_second=indexed / 0.5,
        bytes=3 * 1024**2,
        log_bytes=0,
        peak_rss_bytes=256 * 1024**2,
        peak_anonymous_bytes=None,
        state={"segments": 1},
    )


def _phases(source: str) -> schema_costs.PhaseTimes:
    return schema_costs.PhaseTimes(
        encode_seconds=1.5 if source == "computed" else None,
        encode_source=source,
        open_seconds=0.125,
        index_seconds=0.5,
        ready_seconds=0.25,
        first_query_seconds=0.004,
        warm_up_seconds=0.75,
        search_seconds=0.0512,
        transfer_seconds=0.00512,
    )


def _search(p50: float) -> schema_costs.SearchStats:
    return schema_costs.SearchStats(
        queries=64,
        queries_without_terms=0,
        k=1000,
        repeats=2,
        concurrency=1,
        milliseconds=_latency(p50),
        transfer_ms=_latency(p50 / 10),
        qps=1000 / p50,
        first_query_ms=p50 * 10,
        warm_up_queries=64,
        hits=60_000,
        queries_without_hits=0,
        repeated_calls=0,
        queries_per_call=1,
    )


COLD = schema_costs.ColdStats(
    open_seconds=0.0625,
    first_query_ms=25.0,
    milliseconds=_latency(2.0),
    transfer_ms=_latency(0.2),
    resident_share=0.015,
    errors=0,
    error=None,
)


def _closed(clients: int, qps: float | None, failed: int = 0) -> schema_costs.ClosedLoopStats:
    return schema_costs.ClosedLoopStats(
        clients=clients,
        kind="processes",
        seconds=5.0 if qps else None,
        qps=qps,
        milliseconds=_latency(0.4) if qps else None,
        transfer_ms=_latency(0.04) if qps else None,
        busy_share=0.9 if qps else None,
        errors=0,
        clients_failed=failed,
        error="the worker was killed by signal SIGKILL" if failed else None,
        different_queries=0,
        peak_rss_bytes=None,
        peak_anonymous_bytes=clients * 64 * 1024**2 if qps else None,
        index_copies=clients - 1,
    )


OVERLOADED = schema_costs.OpenLoopStats(
    rate=1200,
    arrivals="poisson",
    queries=6000,
    due_qps=1187.3,
    clients=8,
    kind="processes",
    qps=1002.5,
    milliseconds=_latency(400.0),
    service_ms=_latency(7.5),
    backlog=980,
    unserved=0,
    overloaded=True,
    errors=3,
    clients_failed=0,
    error="timed out",
    different_queries=0,
    peak_rss_bytes=None,
    peak_anonymous_bytes=None,
)


def _parity(reference: str, bit_equal: int, causes: dict[str, int]) -> schema_base.ParityStats:
    return schema_base.ParityStats(
        reference=reference,
        mode="textbook",
        tolerance=4e-7,
        queries=64,
        bit_equal=bit_equal,
        identical=60,
        tie_equivalent=63,
        different=1,
        overlap={"10": 1.0, "1000": 0.99987},
        rbo=0.99991,
        max_abs_score_diff=1.9e-6,
        max_rel_score_diff=1.5e-7,
        causes=causes,
    )


def _value(mean: float) -> schema.SpreadValue:
    return schema.SpreadValue(mean=mean, sd=0.0021, min=mean - 0.0025, max=mean + 0.0025)


SPREAD = schema.SpreadStats(
    builds=3,
    queries=64,
    identical={"10": 21, "1000": 0},
    identical_share={"10": 0.328125, "1000": 0.0},
    pairwise_overlap={"10": 0.9125, "1000": 0.99912},
    reference_overlap={"10": _value(0.9875), "1000": _value(0.9975)},
    metrics={"nDCG@10": _value(0.4), "AP": _value(0.3124)},
    costs={
        "documents_per_second": schema.SpreadValue(mean=5200.0, sd=300.0, min=4900.0, max=5500.0),
        "bytes": schema.SpreadValue(mean=5_300_000.0, sd=0.0, min=5_300_000.0, max=5_300_000.0),
    },
    build_stats=[
        schema_costs.BuildStats(
            build=number,
            seconds=0.25,
            ready_seconds=0.0,
            documents_per_second=rate,
            bytes=5_300_000,
            log_bytes=0,
            peak_rss_bytes=None,
            peak_anonymous_bytes=None,
            metrics={"nDCG@10": 0.4},
            reference_overlap={"10": 0.9875},
        )
        for number, rate in enumerate((4900.0, 5200.0, 5500.0), start=1)
    ],
)


def _backend(label: str, **fields: object) -> schema.TrialResult:
    values: dict[str, object] = {
        "dataset": "cranfield",
        "name": label.partition(":")[0],
        "label": label,
        "status": "ok",
        "measured_at": "2026-01-02T03:04:00+00:00",
        "reused": False,
        "deterministic": True,
        "error": None,
        "engine": schema_base.EngineDescription(name=label, version="1.0", mode="embedded"),
        "encoder": {"encoder": "bm25", "analyzer": "lucene-english"},
        "parameters": {"k1": 0.9, "b": 0.4},
        "phases": None,
        "index": None,
        "search": None,
        "cold": None,
        "closed_loop": [],
        "open_loop": [],
        "queries": None,
        "metrics": {},
        "parity": None,
        "notes": [],
    }
    return schema.TrialResult.model_validate({**values, **fields})


def _infos(trials: list[schema.TrialResult]) -> list[schema.BackendInfo]:
    return backend_infos([LabelledBackend(one.label, one.name, one.encoder) for one in trials])


COUNTS = schema_base.EvaluatedCounts(judged=52, relevant=52, answered=51, evaluated=52, unjudged=12)


def sample_report() -> schema.Result:
    """The same report every time."""
    good = {"nDCG@10": _metric("nDCG@10", 0.4, 0.4, 0.4), "AP": _metric("AP", 0.3124, 0.3119, 0.313)}
    other = {"nDCG@10": _metric("nDCG@10", 0.38, 0.38, 0.38), "AP": _metric("AP", 0.3125, 0.312, 0.3131)}
    backends = [
        _backend(
            "qdrant",
            metrics=good,
            queries=COUNTS,
            phases=_phases("computed"),
            index=_index(1400, []),
            search=_search(0.4),
            cold=COLD,
            closed_loop=[_closed(1, 1250.0), _closed(4, 2300.0)],
            parity=_parity("sparse", 40, {"ties": 1}),
            spread=SPREAD,
        ),
        _backend(
            "lucene:model=ql",
            reused=True,
            metrics=other,
            queries=COUNTS,
            phases=_phases("engine"),
            index=_index(1398, ["471", "995"]),
            search=_search(0.8),
            closed_loop=[_closed(2, 800.0), _closed(8, None, failed=8)],
            open_loop=[OVERLOADED],
            notes=["1,398 of 1,400 documents are in the index; not there, because they are empty: 471, 995"],
        ),
        _backend(
            "broken",
            status="failed",
            engine=None,
            encoder={},
            error=schema_base.ErrorInfo(
                type="EngineUnavailableError", message="the engine is not there", log=["last words"]
            ),
        ),
    ]
    difference = schema.PairedDifference(
        dataset="cranfield",
        a="qdrant",
        b="lucene:model=ql",
        metric="AP",
        difference=0.0001,
        ci_low=-0.001,
        ci_high=0.0012,
        p=0.7,
        p_adjusted=0.9,
        comparisons=2,
        detectable=0.0016,
        effect=0.02,
        wins=20,
        ties=22,
        losses=10,
        within_ties=True,
        verdict="undecided",
    )
    significant = {"metric": "nDCG@10", "difference": -0.0213, "p": 0.002, "p_adjusted": 0.004, "within_ties": False}
    worse = difference.model_copy(update={**significant, "verdict": "worse"})
    return schema.Result(
        schema=schema.SCHEMA_VERSION,
        created="2026-01-02T03:04:05+00:00",
        kind="compare",
        command=["harness", "compare", "--backends", "qdrant,lucene:model=ql,broken"],
        harness=schema_base.HarnessInfo(version="0.1.0", commit="0" * 40, dirty=False),
        machine=schema_base.MachineInfo(
            system="Linux 6",
            python="CPython 3.11",
            processor="a processor",
            cores=2,
            memory_bytes=2**34,
            thread_limits={},
        ),
        packages={"numpy": "2.0"},
        plan=schema_base.PlanRecord(
            arguments={"k": 1000},
            resolved={
                "k": 1000,
                "ties": "trec_eval",
                "queries": "relevant",
                "relevance": 1,
                "seed": 42,
                "reference": "qdrant",
                "notes": ["a note on the plan"],
            },
        ),
        datasets=[
            schema_base.DatasetInfo(
                name="cranfield",
                sha256="1" * 64,
                documents=1400,
                empty_documents=2,
                queries=schema_base.QueryCounts(searched=64, judged=52, relevant=52, without_id=0),
                judgments=796,
                sampled_from=None,
                provenance={"licence": "none stated"},
            )
        ],
        backends=_infos(backends),
        trials=backends,
        differences=[worse, difference],
        frontiers=[],
    )


def swept_report(*, timed: bool = True, judged: bool = True, values: str = "10,50.0,100,400") -> schema.Result:
    """Chroma at four values: the third is no better than the second and slower, the fourth failed."""
    base = sample_report()
    like = next(one for one in base.trials if one.label == "qdrant")
    assert like.parity is not None
    assert like.search is not None
    assert like.search.milliseconds is not None
    backends = []
    for value, mean, recall, p50 in (("10", 0.3, 0.5, 0.1), ("50", 0.38, 0.9, 0.4), ("100", 0.38, 0.9, 0.5)):
        loss = schema_base.LossStats(exact=0.4, difference=mean - 0.4, ci_low=mean - 0.41, ci_high=mean - 0.39)
        update = {"overlap": {"10": recall, "1000": recall - 0.1}, "loss": {"nDCG@10": loss}, "reference": "dense"}
        times = like.search.milliseconds.model_copy(update={"p50": p50, "p95": 2 * p50})
        metrics = {"nDCG@10": like.metrics["nDCG@10"].model_copy(update={"mean": mean})}
        changed = {
            "label": f"chroma:ef_search={value}",
            "metrics": metrics if judged else {},
            "parity": like.parity.model_copy(update=update),
            "search": like.search.model_copy(update={"milliseconds": times if timed else None}),
            "spread": None,
        }
        backends.append(like.model_copy(update=changed))
    failed = {"label": "chroma:ef_search=400", "status": "failed", "metrics": {}, "parity": None, "search": None}
    backends.append(like.model_copy(update={**failed, "spread": None}))
    plan = base.plan.model_copy(update={"arguments": {**base.plan.arguments, "sweep": [f"chroma:ef_search={values}"]}})
    frontiers = frontier_stats(SWEEPS, base.datasets, backends)
    changed = {"backends": _infos(backends), "trials": backends, "differences": [], "plan": plan}
    return base.model_copy(update={**changed, "frontiers": frontiers})
