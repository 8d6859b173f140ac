"""Hostile clients beside a well-behaved one: bench/hostile_clients.py in short, with loose bounds."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from serving import need_native

BENCH = Path(__file__).parent.parent / "bench/hostile_clients.py"
# Kinds, by their first words, and timings.
CASES = [
    ("zeroes as|zeroes written", "none"),
    ("idle|half|writes", "none"),
    ("deaf|thousands", "none"),
    ("zeroes as|idle|deaf, 1", "model"),
]


@pytest.mark.parametrize(("kinds", "timing"), CASES)
def test_a_well_behaved_client_is_served_beside_hostile_ones(kinds: str, timing: str) -> None:
    need_native()
    command = [sys.executable, str(BENCH), "--clients", "48", "--seconds", "0.5", "--timings", timing]
    command += ["--kinds", kinds, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert "[\n" in done.stdout, done.stderr
    for row in json.loads(done.stdout[done.stdout.index("[\n") :]):
        assert row["worst_s"] < 10, row
        assert row["status_s"] < 5, row
        assert row["memory_mib"] < 256, row
        assert (row["end_s"] < 20, row["code"], row["answered"]) == (True, 0, True), row
