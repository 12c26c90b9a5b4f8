from __future__ import annotations

import numpy as np
import pytest

from harness.stats.timing import latency


def test_percentiles_are_samples_that_were_seen() -> None:
    samples = np.arange(1, 101, dtype=np.int64) * 1_000_000
    measured = latency(samples)
    assert (measured.p50, measured.p90, measured.p95, measured.p99) == (50.0, 90.0, 95.0, 99.0)
    assert measured.mean == 50.5
    assert measured.n == 100


def test_one_sample_is_every_percentile() -> None:
    measured = latency(np.array([[2_500_000]], dtype=np.int64))
    assert (measured.p50, measured.p99, measured.n) == (2.5, 2.5, 1)


def test_no_samples_give_no_percentile() -> None:
    with pytest.raises(ValueError, match="at least one sample"):
        latency(np.zeros(0, dtype=np.int64))
