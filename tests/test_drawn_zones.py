"""Test 11 on random drives behind the tests before it, under the conditions that their seeds draw."""

from __future__ import annotations

from pathlib import Path

import pytest

from one_test import suite_on_drawn


@pytest.mark.parametrize(
    ("seed", "count", "first_bytes", "last_bytes"),
    [
        (103767, 2, 54_683_832_320, 20_854_073_344),  # places ran out before the last was found
        (104175, 12, 50_736_922_624, 5_029_462_016),  # what lies 0.2 GB before the end is of another size
    ],
)
def test_where_the_last_stroke_begins(
    seed: int, count: int, first_bytes: int, last_bytes: int, tmp_path: Path
) -> None:
    result = suite_on_drawn(seed, tmp_path / "r", only=("zones",))
    plateaus = {finding.name: finding.value for finding in result.findings}["plateaus"]
    assert isinstance(plateaus, dict) and plateaus["count"] == count
    assert float(plateaus["first_bytes"]) == pytest.approx(first_bytes, rel=0.05)
    assert float(plateaus["last_bytes"]) == pytest.approx(last_bytes, rel=0.05)
