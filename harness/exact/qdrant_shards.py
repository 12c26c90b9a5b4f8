"""Assign the points of a Qdrant collection to its shards.

Qdrant deals points out by consistent hashing: 100 places a shard on a ring of 64 bits, each the hash of (shard number,
place number), and a point belongs to the shard of the first place at or after the hash of its id. Hashes are
SipHash-2-4 with a key of zeros over the bytes that Rust's derived ``Hash`` writes: two 32-bit integers for a place, the
64-bit number of the enum's variant (0) and the 64-bit id for a point with a numeric id. It matters because every shard
computes its own idf.

Read from Qdrant's source (``scaled_hashring.rs``, ``hash_ring.rs``) and from the crate it uses, and compared with the
same steps in Rust by ``tests/exact/test_qdrant_shard_routing.py``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.data.types import Int32Array

UInt64Array = npt.NDArray[np.uint64]

_POINTS_PER_SHARD = 100
_INITIAL = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
_END = 0xFF
_WORD_BYTES = 8


def shards_of(points: int, shards: int) -> Int32Array:
    """Return the shard number of each point, for ids 0 to ``points - 1`` and at least one shard: int32 (points,)."""
    if shards == 1:
        return np.zeros(points, dtype=np.int32)
    shard = np.repeat(np.arange(shards, dtype=np.uint64), _POINTS_PER_SHARD)
    ring_points = np.tile(np.arange(_POINTS_PER_SHARD, dtype=np.uint64), shards)
    ring = _siphash(shard | (ring_points << np.uint64(32)))
    order = np.argsort(ring, kind="stable")
    ids = np.arange(points, dtype=np.uint64)
    ring_positions = np.searchsorted(ring[order], _siphash(np.zeros_like(ids), ids))
    return shard[order][ring_positions % len(ring)].astype(np.int32)


def _siphash(*words: UInt64Array) -> UInt64Array:
    """Compute SipHash-2-4 (Aumasson and Bernstein, 2012) of whole little-endian words, with a key of zeros."""
    state = [np.full(len(words[0]), value, dtype=np.uint64) for value in _INITIAL]
    length = np.full(len(words[0]), (len(words) * _WORD_BYTES) << 56, dtype=np.uint64)
    for word in (*words, length):
        state[3] ^= word
        _rounds(state, 2)
        state[0] ^= word
    state[2] ^= np.uint64(_END)
    _rounds(state, 4)
    hashed: UInt64Array = state[0] ^ state[1] ^ state[2] ^ state[3]
    return hashed


def _rounds(state: list[UInt64Array], count: int) -> None:
    """Do ``count`` SipRounds in place; additions wrap."""
    v0, v1, v2, v3 = state
    for _ in range(count):
        v0 += v1
        v1 = _rotated(v1, 13) ^ v0
        v0 = _rotated(v0, 32)
        v2 += v3
        v3 = _rotated(v3, 16) ^ v2
        v0 += v3
        v3 = _rotated(v3, 21) ^ v0
        v2 += v1
        v1 = _rotated(v1, 17) ^ v2
        v2 = _rotated(v2, 32)
    state[:] = v0, v1, v2, v3


def _rotated(words: UInt64Array, bits: int) -> UInt64Array:
    rotated: UInt64Array = (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))
    return rotated
