"""What kernels ask of the processor, against Python."""

from __future__ import annotations

import numpy as np

from harness.data.jit import kernel
from harness.exact.instructions import lowest_bit


@kernel
def _lowest(word: np.uint64) -> np.uint64:
    return lowest_bit(word)


def test_the_lowest_bit_of_a_word() -> None:
    assert [int(_lowest(np.uint64(word))) for word in (1, 12, 2**63, 2**64 - 1)] == [0, 2, 63, 0]
