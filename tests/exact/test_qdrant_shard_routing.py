"""Points are dealt to shards as Rust deals them: expected values come from Rust's own SipHasher and derived Hash."""

from __future__ import annotations

import numpy as np
import pytest

from harness.exact.qdrant_shards import _siphash, shards_of

# Printed by a Rust program that makes the ring with std::hash::SipHasher: 100 places (u32, u32) a shard, and points of
# `#[derive(Hash)] enum ExtendedPointId { NumId(u64), Uuid(u128) }`. The first 80 ids, and how 100,000 are divided.
FROM_RUST = {
    2: ("00100010011000000110011011111001111010000010101110100000000000001110100100101101", [52729, 47271]),
    3: ("22222022011220220110212211211002211020022012201110100200020000021120100100101201", [31070, 35865, 33065]),
    5: (
        "23432022311430320110242343213003314020022012404130130330430400031123140300104201",
        [19456, 22559, 16573, 20053, 21359],
    ),
}


@pytest.mark.parametrize("shards", FROM_RUST)
def test_points_lie_where_rust_puts_them(shards: int) -> None:
    first, counts = FROM_RUST[shards]
    found = shards_of(100_000, shards)
    assert "".join(map(str, found[:80].tolist())) == first
    assert np.bincount(found).tolist() == counts
    assert found.dtype == np.int32


def test_single_hashes() -> None:
    zero, point = np.zeros(1, dtype=np.uint64), np.array([12345], dtype=np.uint64)
    assert int(_siphash(zero)[0]) == 0xE849E8BB6FFE2567
    assert int(_siphash(zero, point)[0]) == 0x32B584DC79A7C42B


def test_one_shard_holds_everything() -> None:
    assert shards_of(3, 1).tolist() == [0, 0, 0]
    assert shards_of(0, 4).tolist() == []
