"""Engines that fix k1 and b refuse others, and say so."""

from __future__ import annotations

import pytest

from harness.registry.lookup import find_cards


@pytest.mark.parametrize("name", ["tantivy", "sqlite"])
def test_a_fixed_value_is_refused_with_the_reason(name: str) -> None:
    k1 = find_cards("backends")[name].parameters["k1"]
    assert k1.check(1.2) == 1.2
    with pytest.raises(ValueError, match=r"0\.9 is not 1\.2, the only value: .* fixes"):
        k1.check(0.9)
