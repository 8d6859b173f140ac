"""Tests 6 to 8 against emulated drives: sizes of the cache and of its map, or unknown."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from one_test import known_of, run, truth_of
from skylight import _native
from skylight.engines.sim import read_profile
from skylight.evidence import F64, Evidence, IoBatch, IoLog
from skylight.findings import UNKNOWN, Finding, Known, Value
from skylight.infer.stalls import change_of_pace, change_point
from skylight.probe import scoring
from skylight.probe.band_size import cache_parts
from skylight.probe.band_size.cache_parts import DEPTH, spread
from skylight.probe.cache_size import CacheSize, Seen, conclude, count_cache_parts, journal, log_advance
from skylight.probe.cache_size.count_cache_parts import CacheParts
from skylight.probe.cache_size.fill_check import Check, Fill, ZoneWaits, out_of_order, waits
from skylight.probe.cache_size.fill_procedure import slowed
from skylight.probe.cache_size.journal import Journal, _least_ns
from skylight.probe.cache_size.map_fill import Blocks, HeldFill, cut_off, cycles, held, most_places
from skylight.probe.cache_size.verdict import (
    USUAL_WATERMARK,
    all_used,
    behind,
    free_bands,
    of_cache_bands,
    of_journal,
)
from skylight.probe.cache_size.which_limit import share_places, told_apart
from skylight.probe.known_state import State
from skylight.probe.procedure import Steps

PROPERTIES = ("cache_bytes", "cache_fill_bytes", "cache_raw_bytes", "cache_map_entries")
WITHOUT = ("cache_fill_bytes", "band_bytes")
HOST_AWARE_SEEDS = (1900, 1901, 1902, 98644, 120027, 120081)


def known_with_seeks(truth: dict[str, dict[str, object]]) -> Known:
    """The truth, and seeks: skew is a little more than the step to the next track."""
    seek = Finding("seek_ns", truth["seek_ns"]["value"], "ns", None, 1.0, "")  # type: ignore[arg-type]  # from JSON
    return known_of(truth, without=WITHOUT).with_more([seek])


def outcomes(findings: list[Finding], truth: dict[str, dict[str, object]]) -> dict[str, str]:
    """Right, wrong or unknown, by property."""
    mine = {name: row for name, row in truth.items() if name in PROPERTIES}
    return {mark.name: mark.outcome for mark in scoring.score(findings, mine)}


@pytest.mark.parametrize(
    "name", ["emulated-smr-1", "emulated-smr-2", "emulated-smr-3", "st5000as0011", "st8000as0011"]
)
def test_sizes_of_the_papers_drives(name: str, tmp_path: Path) -> None:
    """Rows S6a to S8b: the sizes of Tables 1 and 3."""
    toml = read_profile(name)[0]
    truth = truth_of(toml)
    findings, evidence = run(CacheSize(), toml, known_with_seeks(truth), tmp_path / "r")
    assert set(outcomes(findings, truth).values()) == {"right"}
    assert CacheSize().draw(evidence, findings)


def test_counts_of_table_2(tmp_path: Path) -> None:
    """22,800 writes that take a place each, and 182,250 that the map holds."""
    toml = read_profile("st5000as0011")[0]
    known = known_of(truth_of(toml), without=WITHOUT)
    findings, _ = run(CacheSize(), toml, known, tmp_path / "r")
    by_name = {finding.name: finding for finding in findings}
    fill, entries = by_name["cache_fill_bytes"].value, by_name["cache_map_entries"].value
    assert isinstance(fill, int) and abs(fill / (864 << 10) / 22_815 - 1) < 0.002
    assert isinstance(entries, int) and abs(entries * USUAL_WATERMARK / 182_250 - 1) < 0.002


@pytest.mark.parametrize("kind", ["set-associative", "fully-associative", "journaled"])
def test_what_a_user_gets_of_drives_nobody_tuned_to(kind: str, tmp_path: Path) -> None:
    """`cache_fill_bytes` rests on counting alone: right on all, but for one unknown."""
    unknown = 0
    for seed in range(1900, 1908):
        toml = _native.random_profile(seed, kind)
        truth = truth_of(toml)
        known = known_of(truth, without=WITHOUT)
        findings, _ = run(CacheSize(), toml, known, tmp_path / str(seed))
        found = outcomes(findings, truth)["cache_fill_bytes"]
        assert found != "wrong", (kind, seed)
        unknown += found == "unknown"
    assert unknown <= 1


def test_a_conventional_drive_has_no_cache(tmp_path: Path) -> None:
    """Nothing is done and nothing said."""
    toml = read_profile("st4000nc001")[0]
    findings, evidence = run(CacheSize(), toml, known_of(truth_of(toml)), tmp_path / "r")
    assert findings == [] and evidence.steps == []


def test_evidence_that_ends_early_says_nothing(tmp_path: Path) -> None:
    """A cut recording is unknown, wherever it was cut."""
    toml = read_profile("emulated-smr-1")[0]
    known = known_of(truth_of(toml), without=WITHOUT)
    _, evidence = run(CacheSize(), toml, known, tmp_path / "r")
    for steps in range(1, len(evidence.steps), 3):
        cut = Evidence(evidence.test, evidence.target, evidence.steps[:steps])
        assert all(finding.value == UNKNOWN for finding in CacheSize().infer(cut, known))


def test_the_start_of_cleaning_is_told_from_merges_and_outliers() -> None:
    """Single slow entries never are it; it is exact to an entry."""
    rng = np.random.default_rng(5)
    took = 25e6 + rng.uniform(0, 1e6, 3000)
    took[239::240] += 300e6
    took[rng.choice(3000, 12, replace=False)] += 200e6
    done = np.repeat(np.cumsum(took), 31).astype(np.int64)
    start = np.zeros(len(done), np.int64)
    assert change_point(start, done) is None
    took[2900:] += 600e6
    done = np.repeat(np.cumsum(took), 31).astype(np.int64)
    found = change_point(start, done)
    assert found is not None and (found.writes, found.entries) == (2900 * 31, 2900)


def pieces(took_ns: F64, ends: list[int]) -> list[IoLog]:
    """A log of writes that took so long each, cut at these numbers of writes."""
    done = np.cumsum(took_ns).astype(np.uint64)
    io = IoBatch.writes(np.arange(len(done), dtype=np.uint64) * np.uint64(4096), 4096)
    sent = np.concatenate([[np.uint64(0)], done[:-1]])
    parts = zip([0, *ends], [*ends, len(done)], strict=True)
    return [IoLog.of(io.part(begin, end), sent[begin:end], done[begin:end]) for begin, end in parts]


@pytest.mark.parametrize(("full", "mean"), [(True, 5.0), (False, 1.0)])
def test_a_large_volatile_cache_hides_cleaning_between_waits_but_not_in_the_pace(
    full: bool, mean: float
) -> None:
    """After each wait of 15 s it takes 377 writes at once; one such wait alone is an outlier."""
    took = np.random.default_rng(7).uniform(7e6, 10e6, 60_000)
    took[40_000] = 15e9
    if full:
        took[40_000:] = 0.3e6
        took[40_000::377] = 15e9
    logs = pieces(took, [46_000, 46_062, 50_000, 50_062])
    assert slowed(logs[:2]) is False, "too little to compare"
    assert slowed(logs) is full
    found = change_of_pace(logs[0].submit_ns, np.concatenate([log.complete_ns for log in logs]))
    if not full:
        assert found is None
    else:
        assert found is not None and abs(found.writes - 40_000) <= 600
        assert found.slow_ns == pytest.approx(mean * 8.5e6, rel=0.15)


@pytest.mark.parametrize(("length", "skew", "band"), [(1.24, 0.275, 0.767), (2.66, 0.297, 1.595)])
def test_how_a_log_runs_on_is_told_from_phases(length: float, skew: float, band: float) -> None:
    """Length, skew and out-of-band data of entries, in spite of jitter and slow ones, on a drive of 6 ms."""
    rng = np.random.default_rng(3)
    rotation_ns, quantum, start = 6e6, 0.4, 0.3
    end = start + band + quantum + length * np.arange(200)
    phase = np.mod(end + skew * np.floor(end), 1.0)
    done_ns = (np.arange(200) * 5 + phase) * rotation_ns + rng.uniform(0, 2e5, 200)
    done_ns[::70] += 2.3e6
    block = end[:48] - 0.39
    read_ns = (2_000 + np.arange(48) * 2 + np.mod(block + skew * np.floor(block), 1.0)) * rotation_ns
    ways = log_advance.fitted(done_ns, rotation_ns, (length - 0.5, length + 0.4), (skew - 0.06, skew + 0.05))
    assert ways and all(abs(way.length - length) < 0.01 and way.agreement > 0.8 for way in ways)
    took = band + np.floor(start + band) * skew
    for way in ways:
        behind, _ = log_advance.quantum_tracks(done_ns, read_ns, rotation_ns, way, 0.42)
        assert abs(behind - 0.39) < 0.03
        found = log_advance.out_of_band_tracks((took - 0.03, took + 0.03), quantum, way)
        assert found is not None and found[0] - 0.02 <= band <= found[1] + 0.02
    least, most = log_advance.by_time_alone((took - 0.03, took + 0.03), (skew - 0.05, skew + 0.05))
    assert least <= band <= most


@pytest.mark.parametrize("watermark", [0.82, 0.9, 0.94, 0.98, 1.0])
def test_what_lies_behind_a_watermark_is_within_ten_per_cent(watermark: float) -> None:
    value, _, sure = behind(watermark * 1e9)
    assert abs(value / 1e9 - 1) <= 0.1 and 0.8 < sure < 1


def test_the_interval_behind_a_watermark_holds_95_of_100() -> None:
    """Of watermarks chosen evenly from 0.8 to 1; and the confidence is the share that is right."""
    found = [behind(watermark * 1e9) for watermark in np.linspace(0.8, 1.0, 2001)]
    held = np.mean([low <= 1e9 <= high for _, (low, high), _ in found])
    right = np.mean([abs(value / 1e9 - 1) <= 0.1 for value, _, _ in found])
    assert abs(held - 0.95) < 0.002
    assert abs(right - np.mean([sure for _, _, sure in found])) < 0.03


@pytest.mark.parametrize("usable", [4, 9, 20, 44])
def test_few_free_bands_are_right_whatever_a_zone_keeps(usable: int) -> None:
    """One at least, a fifth at most: up to 44 that leaves no doubt."""
    value, (low, high), sure = free_bands(usable)
    assert sure > 0.95
    for free in range(int(np.ceil(low)), int(high) + 1):
        assert abs(value / free - 1) <= 0.1 + 1e-9, free


@pytest.mark.parametrize("usable", [45, 63, 199])
def test_many_free_bands_are_right_if_a_zone_keeps_one(usable: int) -> None:
    """Also in whole bytes, of zones as many as a drive has."""
    unit = 3 * (58 << 20)
    value, (low, _), _ = free_bands(usable)
    assert low == usable + 1 and round(value * unit) <= int(1.1 * low * unit)


@pytest.mark.parametrize(("tick_ns", "an_entry"), [(1, 10.0), (1_000_000, 1.0)])
def test_ticks_hide_how_many_writes_share_an_entry(tick_ns: int, an_entry: float) -> None:
    """100546 drawn: by a clock of 1 ms a dozen blocks seemed to share an entry of 0.7 ms, so that blocks left
    slots: a map that it has not was taken for full."""
    done_ns = np.repeat(np.cumsum(np.where(np.arange(400) < 300, 700_001, 90_000_000)), 10)
    submit_ns, done_ns = (each // tick_ns * tick_ns for each in (np.zeros(1, np.int64), done_ns))
    found = change_point(submit_ns, done_ns)
    assert found is not None and found.writes_an_entry == pytest.approx(an_entry, rel=0.02)


class Looked:
    """A disk on which looks find these blocks at home, and no others."""

    size, block_bytes = 1 << 40, 4096
    known = Known(
        [
            Finding(name, value, None, None, 1.0, "")
            for name, value in (("rotation_ns", 8e6), ("cache_medium", "disk"))
        ]
    )

    def __init__(self, home: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> None:
        self._home = home

    def run(self, _: str, io: IoBatch) -> IoLog:
        """Looks begin one block before what they look at."""
        turns = np.where(np.isin(io.offset + np.uint64(4096), self._home), 1.0, 3.0)
        done = np.cumsum(turns * 8e6)
        return IoLog.of(io, (done - turns * 8e6).astype(np.uint64), done.astype(np.uint64))


@pytest.mark.parametrize("places", [355, 5_000])
@pytest.mark.parametrize("group", [1, DEPTH])
def test_a_group_of_flushed_writes_is_too_coarse_for_a_small_cache(places: int, group: int) -> None:
    lone = Fill("fill", 1 << 20, 1, 200, 200, False, 0.0, 0.0, 1.0)
    deep = Fill("fill-0", 1 << 20, 1, places - 200, places - 200, True, 8.0, 1e7, 31.0, group=group)
    seen = Journal(1 << 20, 1e6, 1e7, (lone, deep), places, None)
    found = {finding.name: finding for finding in of_journal(seen, Known(), ())}
    unsure = places == 355 and group == DEPTH
    assert (found["cache_fill_bytes"].value is UNKNOWN) == unsure
    assert (found["cache_bytes"].value is UNKNOWN) == unsure


@pytest.mark.parametrize("first", [True, False])
def test_cleaning_of_the_newest_writes_is_seen_behind_those_that_wait(first: bool) -> None:
    """A drive that cleans the newest first does so before it takes the last group; one that does not clean
    has none of its writes at home."""
    written = spread(Looked.size, 1_000, 4096)
    cleaned = written[1:20] if first else written[800 : 1_000 - DEPTH]
    check = Check(cast(Steps, Looked(cleaned)), "fill", 4096, State.CLEAN)
    assert check.begun(4096, 1_000, waiting=DEPTH)
    none = Check(cast(Steps, Looked(written[:0])), "fill", 4096, State.CLEAN)
    assert not none.begun(4096, 1_000, waiting=DEPTH)


@pytest.mark.parametrize("first", [True, False])
def test_the_newest_writes_at_home_do_not_show_that_older_data_is_gone(first: bool) -> None:
    """99538 drawn: a map of 260,000 entries that older data took most of was full after 93,000 writes."""
    written = spread(Looked.size, 1_000, 4096)
    cleaned = written[1:20] if first else written[800 : 1_000 - DEPTH]
    check = Check(cast(Steps, Looked(cleaned)), "fill", 4096, State.REWRITTEN)
    assert check.begun(4096, 1_000, waiting=DEPTH) == first
    assert check.newest_first != first


class Emptied(Looked):
    """The same, on which a reset brings these home, and a fill that is made again brings none back."""

    def __init__(self, home: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> None:
        super().__init__(home)
        self.filled = False

    def reset(self, _: str) -> State:
        return State.CLEAN

    def run(self, name: str, io: IoBatch, depth: int = 1) -> IoLog:
        if depth == DEPTH:
            self.filled, self._home = True, self._home[:0]
        return super().run(name, io)


@pytest.mark.parametrize(("home", "counts"), [(1.0, True), (0.3, False)])
def test_a_fill_made_again_counts_only_if_the_drive_was_emptied_before_it(home: float, counts: bool) -> None:
    """Rewriting one region does not empty a long log: what is left of the fill is written again in its own
    places, so the second one ends without cleaning wherever it does."""
    written = spread(Looked.size, 1_000, 4096)
    drive = Emptied(written[np.random.default_rng(1).random(1_000) < home])
    fill = Fill("fill", 4096, 1, 1_000, 1_000, True, 8.0, 1e7, 31.0, group=DEPTH)
    assert Check(cast(Steps, drive), "fill", 4096, State.CLEAN).again([fill]) == counts
    assert drive.filled == counts


def test_sizes_of_host_aware_drives_nobody_tuned_to(tmp_path: Path) -> None:
    """The drive tells which zones it has cleaned; blocks that leave its volatile cache together share a place
    and fill its map. Of 120027 each 250th write is late, and the volatile cache of 120081 takes a fifth of a
    place at once."""
    counts = {"right": 0, "wrong": 0, "unknown": 0}
    for seed in HOST_AWARE_SEEDS:
        toml = _native.random_profile(seed, "host-aware")
        truth = truth_of(toml)
        known = known_of(truth, without=WITHOUT)
        findings, _ = run(CacheSize(), toml, known, tmp_path / str(seed), in_zones=True)
        marks = outcomes(findings, truth)
        for name in ("cache_bytes", "cache_fill_bytes", "cache_map_entries"):
            counts[marks[name]] += 1
    assert counts["wrong"] == 0 and counts["unknown"] <= 1, counts


@pytest.mark.parametrize(("most_places", "shared"), [(33.0, True), (330.0, True), (990.0, False)])
def test_blocks_that_share_no_entry_do_not_tell_a_map_from_places(most_places: float, shared: bool) -> None:
    blocks = Fill("map", 4096, 0, 1_000, 1_000, True, 8.0, 1e7, 31.0, group=31, most_places=most_places)
    assert share_places(blocks, 1 << 20, flushed=False) == shared


def test_no_two_blocks_of_held_groups_are_neighbours_and_groups_part_zones() -> None:
    """Neighbours might share an entry of the map; and in a zone that all groups write to, cleaning does not
    show. The first zone is for reads."""
    zone = 16 << 20
    blocks = Blocks(11 * zone, zone)
    groups = [blocks.take(100, 1) for _ in range(40)]
    where = np.sort(np.concatenate(groups))
    assert len(where) == 4_000 and np.all(np.diff(where) >= 8192) and where.max() < 11 * zone
    assert all(len(np.unique(group // zone)) == 1 for group in groups)
    assert np.unique(where // zone).tolist() == list(range(1, 11))
    assert not np.any(where % zone == 0)
    left = blocks.groups_left(100)
    blocks.take(100, left)
    assert 0 < left <= 10 * (zone // 8192) // 100 - 40 and blocks.groups_left(100) == 0


def test_places_of_held_groups_are_bounded_by_their_times() -> None:
    """Not by less than they took: jitter, merges of the map and late FLUSHes only add to it."""
    rng = np.random.default_rng(7)
    turn, quantum, groups = 8e6, 4.5e6, 400
    took = rng.choice([1, 3], groups)
    cycle = 60e6 + rng.uniform(0, turn, groups) + took * quantum
    one = 60e6 + turn / 2 + quantum
    cycle[::61] += 400e6
    most = most_places(cycle.astype(np.int64), 150e6, one, 0.95 * quantum)
    assert took.sum() < most < 1.4 * took.sum()
    waits = np.full(groups, 900e6)
    assert most_places(waits.astype(np.int64), 150e6, one, quantum) > 100 * groups


def test_a_cycle_ends_with_a_flush_that_a_host_may_see_late() -> None:
    io = held(np.zeros(3, np.uint64), 8192, np.arange(3, dtype=np.uint64) * np.uint64(8192), 1)
    done = np.array([5, 1, 10, 15, 11, 95, 80, 21, 90], np.uint64)
    assert cycles(IoLog.of(io, np.zeros(9, np.uint64), done)).tolist() == [10, 85, 0]


def test_a_group_that_waits_for_cleaning_takes_longer_than_those_before_did() -> None:
    """Of host-aware drive 120521 drawn groups of 31 blocks took 0.6 s, as each waited for others, where
    one alone took 0.2 s: the map seemed full 9,819 blocks too soon, and the slots where the map was."""
    steps = SimpleNamespace(known=Known([]), rng=lambda _: None)
    fill = HeldFill(cast(Steps, steps), 512 << 20, 52 << 10, 1e6)
    for before in ([], [np.zeros(0, np.int64)]):  # the first piece may end before its first FLUSH
        assert fill._late_ns(500_000_000, before) == 500_000_000
    assert fill._late_ns(500_000_000, [np.full(40, 600_000_000)]) > 1_000_000_000
    assert fill._late_ns(500_000_000, [np.full(40, 100_000_000)]) == 500_000_000


def test_the_group_in_which_a_fill_ended_has_a_time_without_its_flush() -> None:
    io = held(np.zeros(2, np.uint64), 1 << 20, np.arange(2, dtype=np.uint64) * 4096, 1)
    done = np.array([5, 6, 10, 12, 13, 15], np.uint64)
    whole = IoLog.of(io, np.zeros(6, np.uint64), done)
    assert cut_off(whole).tolist() == []
    assert cut_off(whole.rows(slice(5))).tolist() == [3]
    assert cut_off(whole.rows(slice(2))).tolist() == [6]


@pytest.mark.parametrize(
    ("location", "least_ms"),
    [("id", 0.95 * 8 / 2), ("od", 0.95 * 8 / 4), ("many", 0.95 * 8 / 4), (None, 3.0)],
)
def test_a_quantum_passes_the_head_in_what_the_longest_track_there_takes(
    location: str | None, least_ms: float
) -> None:
    """Lone writes said 6 ms, of which a revolution that each of the longer ones lost may be a part."""
    found: dict[str, Value] = {"rotation_ns": 8_000_000}
    if location is not None:
        found |= {"track_bytes": {"od": 4 << 20, "id": 2 << 20}, "cache_location": location}
    known = Known([Finding(name, value, None, None, 1.0, "") for name, value in found.items()])
    steps = cast(Steps, SimpleNamespace(known=known))
    lone_ns = 3e6 if location is None else 6e6
    assert _least_ns(steps, 1 << 20, lone_ns) == pytest.approx(least_ms * 1e6)


def test_cleaned_zones_are_counted_where_the_drive_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    """No write of a fill is in order, so each zone that was written to has the flag until it is clean."""
    zone, size = 100 << 20, 1 << 20
    where = out_of_order(50 * zone, zone, 400, size)
    assert len(np.unique(where)) == 400
    assert not np.any(where % zone == 0) and np.all(where // zone == (where + size - 1) // zone)
    steps = Looked(where[:0])
    monkeypatch.setattr(steps, "size", 50 * zone, raising=False)
    for flagged, begun in ((50, False), (49, False), (48, True)):
        monkeypatch.setattr(steps, "non_sequential", lambda _, flagged=flagged: flagged, raising=False)
        check = Check(cast(Steps, steps), "fill", size, State.NEW, zone)
        assert check.begun(size, 400, waiting=DEPTH) == begun


@pytest.mark.parametrize(
    ("count", "cleaned", "of", "most"),
    [
        (46, 47, 999, 1.04),  # each wait was for a zone: nothing is left but two entries' places
        (46, 22, 83, 1.04),  # the writes that waited are in some of these zones (host-aware, seed 98607)
        (46, 10, 83, USUAL_WATERMARK**-1),  # a reserve lets writes in before zones are clean (docs/zoned.md)
        (46, 22, 999, USUAL_WATERMARK**-1),
        (0, 0, 0, USUAL_WATERMARK**-1),  # a drive that does not tell
    ],
)
def test_a_drive_whose_writes_wait_for_whole_zones_has_used_all_places(
    count: int, cleaned: int, of: int, most: float
) -> None:
    fill = Fill(
        "fill", 1 << 20, 1, 1_000, 1_000, True, 8.0, 1e7, 1.0, zone_waits=ZoneWaits(count, cleaned, of)
    )
    seen = Journal(1 << 20, 1e6, 1e7, (fill,), 1_000, None)
    entry = Finding("journal_entry_max_bytes", 40 << 20, "B", None, 1.0, "")
    cache = {each.name: each for each in of_journal(seen, Known([entry]), ())}["cache_bytes"]
    assert isinstance(cache.value, int)
    assert cache.value / (1_000 << 20) == pytest.approx(most, abs=1e-3)


@pytest.mark.parametrize("left", [0, 10, 64, 249])
def test_what_a_drive_keeps_to_move_data_is_within_ten_per_cent_mostly(left: int) -> None:
    """Of 1,000 places that are used; with no more than 200 others, whatever is left of them."""
    value, (low, high), sure = all_used(1_000.0, 250.0 if left > 200 else 200.0)
    assert low <= 1_000 + left <= high
    assert (abs(value / (1_000 + left) - 1) <= 0.1) == (left <= 200 or sure > 0.9)


def test_a_wait_is_a_time_in_which_no_write_is_done() -> None:
    """Of 31 that wait together all are slow when one waits."""
    done_ns = np.cumsum(np.where(np.arange(100) % 10 == 9, 5_000_000_000, 10_000_000))
    io = IoBatch.writes(np.arange(100, dtype=np.uint64) * np.uint64(4096), 4096)
    log = IoLog.of(io, np.zeros(100, np.uint64), done_ns.astype(np.uint64))
    assert waits(log, 0, 100_000_000) == 10
    assert waits(log, 50, 100_000_000) == 5


@pytest.mark.parametrize(
    ("larger", "places", "in_map"),
    [
        (500, 1_000, None),  # half as many of two places each
        (1_000, None, 1_000),  # as many: the map was full
        (800, 1_600, 1_000),  # the map first, then the places
    ],
)
def test_writes_of_two_places_tell_places_from_map_entries(
    larger: int, places: int | None, in_map: int | None
) -> None:
    one = Fill("fill", 1 << 20, 1, 1_000, 1_000, True, 8.0, 1e7, 1.0)
    two = Fill("large", (1 << 20) + 4096, 2, larger, 2 * larger, True, 8.0, 1e7, 1.0)
    assert told_apart([one], [two]) == (places, in_map)
    unended = Fill("large", (1 << 20) + 4096, 2, larger, 2 * larger, False, 0.0, 1e7, 1.0)
    assert told_apart([one], [unended]) == (None, None)


def test_a_host_aware_drive_without_a_volatile_cache_has_its_places_counted(tmp_path: Path) -> None:
    """No two blocks share an entry there, so a fill with blocks shows no map: the pace alone of 1,240 blocks
    was that of a full cache of 659 places, and the fill went on for the eight hours of the test's bound."""
    toml = _native.random_profile(98624, "host-aware")
    truth = truth_of(toml)
    findings, evidence = run(CacheSize(), toml, known_of(truth, without=WITHOUT), tmp_path, in_zones=True)
    marks = outcomes(findings, truth)
    assert marks["cache_bytes"] == marks["cache_fill_bytes"] == "right"
    assert sum(step.rows.span_ns for step in evidence.steps if len(step.rows)) < 3_600e9


def test_lone_writes_are_counted_where_it_is_open_which_limit_they_met(tmp_path: Path) -> None:
    """Without the size of an entry no larger write is known to take one entry of the map."""
    toml = _native.random_profile(98624, "host-aware")
    known = known_of(truth_of(toml), without=(*WITHOUT, "journal_entry_max_bytes"))
    findings, evidence = run(CacheSize(), toml, known, tmp_path, in_zones=True)
    cache = next(each for each in findings if each.name == "cache_bytes")
    assert cache.value is UNKNOWN and "nor how much an entry holds" in cache.why
    assert evidence.shown.journal.lone_writes == 659


@pytest.mark.parametrize(
    ("where", "zones", "known"),
    [(UNKNOWN, True, True), (UNKNOWN, False, False), ("od", True, False)],
)
def test_a_cache_without_a_quantum_or_a_known_place_may_be_zones(
    where: Value, zones: bool, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of drive 100449 drawn a FLUSH ended writes together, so its zones were taken for a journal, which
    showed no quantum."""
    found = CacheParts(4, 100 << 20, None, 10 << 20, 9, 1)
    monkeypatch.setattr(cache_parts, "kind_of", lambda *_: ("journal", None))
    monkeypatch.setattr(journal, "measured", lambda _: Journal(None, 0.0, 0.0, (), None, None))
    monkeypatch.setattr(count_cache_parts, "zones", lambda _: found if zones else None)
    values = (("cache_location", where), ("cache_medium", "disk"))
    of = Known([Finding(name, value, None, None, 1.0, "") for name, value in values])
    steps = SimpleNamespace(reset=lambda *_: State.REWRITTEN, known=of)
    seen = Seen(begun=True)
    CacheSize._measure(cast(Steps, steps), seen)
    assert conclude(seen, of, ())[0].known == known


@pytest.mark.parametrize(("inside", "delayed"), [(True, ()), (True, (0,)), (False, ()), (True, (1,))])
def test_one_delayed_write_does_not_put_an_address_outside_its_zone(
    inside: bool, delayed: tuple[int, ...]
) -> None:
    """Of random drive 101188 the zone was found half as long as it is, and the cache twice as large."""

    class Part:
        found, full, puts = SimpleNamespace(limit_ns=50), False, 0

        def refill(self) -> bool:
            self.full = True
            return True

        def asked_ns(self, address: int) -> int:
            del address
            waits, self.full = self.full, self.full and not inside
            return 90 if waits and inside else 10

        def put(self, count: int) -> SimpleNamespace:
            self.puts += count
            late = self.full or self.puts - 1 in delayed
            return SimpleNamespace(latency_ns=[90 if late else 10])

    assert count_cache_parts._is_within(cast(Any, Part()), 0) is inside


@pytest.mark.parametrize(("count", "fill", "found"), [
    (1284, 4 << 20, 1284 * (4 << 20)),
    (1284, 9 << 20, 1284 * ((4 << 20) + (128 << 10))),
    (642, 4 << 20, 1284 * ((4 << 20) + (128 << 10))),
])  # fmt: skip
def test_what_fills_a_cache_band_is_known_to_a_block_if_cleaning_showed_it(
    count: int, fill: int, found: int
) -> None:
    """104266 drawn: 16 writes of 256 KiB fill one, as fifteen and a half may; of some 380 drives five were
    3 % off for that. The controls: another fill, another number of cache bands."""
    parts = CacheParts(1284, 4 << 20, 5 << 20, 5 << 20, 3, 4)
    shown = Finding(
        "cache_bands", {"count": count, "band_bytes": 5 << 20, "fill_bytes": fill}, "", None, 0.95, ""
    )
    cache, used, raw = of_cache_bands(parts, (), Known([shown]))
    assert (cache.value, used.value, raw.value) == (1284 * (5 << 20), found, found)
    low, high = used.interval or (0, 0)
    assert low <= found <= high
