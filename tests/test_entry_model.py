"""What an entry of a journal holds, from the times of lone writes of all sizes."""

from __future__ import annotations

import numpy as np
import pytest

from skylight.probe.journal import entry_model
from skylight.probe.journal.entry_space import Run
from skylight.probe.journal.splits import Splits, find_split
from skylight.probe.journal.verdict import _split_finding

BLOCK, QUANTUM, TURN_NS = 4096, 300 << 10, 8e6


def written(
    entry: int, *, gap_ns: float, scatter_ns: float = 1e5, seed: int = 7, erased: bool = True, link: int = 0
) -> Splits:
    """What is measured of a log whose entries hold so many bytes; a quantum takes 1.7 ms. Over a link a
    write is late by a revolution every `link` bytes, first after 0.9 of them."""
    rng = np.random.default_rng(seed)
    print(f"seed {seed}")

    def measure(size: int, writes: int) -> Run:
        quanta, entries = entry_model.parts_of(np.array([size]), np.array([entry]), QUANTUM)
        took = 6e6 + 1.7e6 * quanta[0, 0] + gap_ns * (entries[0, 0] - 1)
        took += TURN_NS * (int(size / link + 0.1) if link else 0)
        latency_ns = (took + rng.normal(0, scatter_ns, writes)).astype(np.int64)
        return Run(size, erased, latency_ns, np.cumsum(latency_ns + 100_000))

    splits = Splits(BLOCK, QUANTUM, "disk", TURN_NS, 1.7e6)
    find_split(splits, measure, 3, 32 << 20)
    if not splits.is_plain:
        entry_model.measure_more(splits, measure, 3)
    return splits


@pytest.mark.parametrize("quanta", [2, 5, 8, 13])
def test_an_entry_that_ends_with_a_quantum_shows_by_its_gap(quanta: int) -> None:
    splits = written(quanta * QUANTUM, gap_ns=1e6)
    finding = _split_finding(splits)
    assert not splits.is_plain
    assert finding.value == pytest.approx(quanta * QUANTUM, rel=0.05)


@pytest.mark.parametrize(("quanta", "gap_ns"), [(8, 0.0), (1, 1e6)])
def test_without_a_gap_of_its_own_it_does_not_show(quanta: int, gap_ns: float) -> None:
    """The control: nothing but the gap tells, and not one that each quantum has."""
    assert not _split_finding(written(quanta * QUANTUM, gap_ns=gap_ns)).known


def test_a_log_without_entries_has_none() -> None:
    assert not _split_finding(written(1 << 40, gap_ns=1e6)).known


@pytest.mark.parametrize("link", [900 * BLOCK, 1_111 * BLOCK, 2_000 * BLOCK])
def test_revolutions_lost_on_a_slow_link_are_no_entries(link: int) -> None:
    """The drive ST8000AS0022 over its link of 238 MB/s loses one every 2.28 MiB; its entries hold 12 MiB."""
    finding = _split_finding(written(1 << 40, gap_ns=1e6, link=link))
    assert not finding.known
    print(finding.why)


def test_an_entry_shows_over_a_slow_link_too_or_is_unknown() -> None:
    finding = _split_finding(written(8 * QUANTUM, gap_ns=1e6, link=900 * BLOCK))
    assert not finding.known or finding.value == pytest.approx(8 * QUANTUM, rel=0.1)


def test_runs_that_did_not_begin_alike_say_nothing() -> None:
    assert entry_model.fit(written(8 * QUANTUM, gap_ns=1e6, erased=False)) is None


@pytest.mark.filterwarnings("error")
def test_a_size_of_which_nothing_was_written_says_nothing() -> None:
    """Of random drive 120415 the bound ended the test before the first run of a size."""
    splits = written(8 * QUANTUM, gap_ns=1e6)
    before = entry_model.fit(splits)
    splits.runs[max(splits.runs) + BLOCK] = []
    found = entry_model.fit(splits)
    assert found is not None and before is not None and found.best == before.best


@pytest.mark.parametrize("seed", range(12))
def test_what_scatters_is_unknown_or_right(seed: int) -> None:
    """Whole quanta and any bound; gaps of a tenth of a quantum to two; a scatter of up to a quantum."""
    rng = np.random.default_rng(seed)
    entry = int(rng.integers(1, 17)) * QUANTUM if seed % 2 else int(rng.integers(75, 1_200)) * BLOCK
    gap_ns, scatter_ns = rng.uniform(0.17e6, 3.4e6), rng.uniform(1e5, 1.7e6)
    found = entry_model.fit(written(entry, gap_ns=gap_ns, scatter_ns=scatter_ns, seed=seed))
    assert found is None or not found.is_found or found.best == pytest.approx(entry, rel=0.1)


def test_the_sizes_written_are_those_that_tell() -> None:
    """Two candidates differ first where one of them begins another entry."""
    splits = written(8 * QUANTUM, gap_ns=1e6)
    assert len(splits.runs) <= 12 + entry_model.MORE_SIZES
    assert any(7 * QUANTUM <= size <= 10 * QUANTUM for size in splits.runs)
