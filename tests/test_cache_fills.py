"""What a fill of a journaled cache costs and shows: which limit it met where blocks share no entry or leave a
volatile cache, how finely it ends, and that older data in a log is not taken for an empty one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from one_test import drawn_truth, suite_on_drawn
from skylight.evidence import I64, IoBatch, IoLog, Op, Stop
from skylight.findings import Finding, Known
from skylight.probe.band_size.cache_parts import DEPTH, spread
from skylight.probe.cache_size import MOST_S, CacheSize, journal
from skylight.probe.cache_size.fill_check import (
    ASKED,
    BLOCK,
    MOST_OF_ASKED,
    Check,
    Fill,
    Places,
    flash_limit_ns,
)
from skylight.probe.cache_size.fill_procedure import MAP_WRITES, MOST_SMALL_S, SMALL_WRITES, Pace, filled
from skylight.probe.cache_size.journal import Journal, _map_fill
from skylight.probe.cache_size.verdict import of_journal
from skylight.probe.cache_size.which_limit import limits, places_in_time, told_apart
from skylight.probe.known_state import State
from skylight.probe.procedure import Steps
from skylight.probe.scoring import score
from test_cache_size import Looked

QUANTUM = 1 << 20


def fill(name: str, quanta: int, writes: int, *, ended: bool = True) -> Fill:
    return Fill(name, quanta * QUANTUM or 4096, quanta, writes, writes * quanta, ended, 8.0, 1e7, 1.0)


class FarFlash:
    """Flash on a disk of 4 ms a revolution, over a link of 2.4 ms: what is not at home comes in that time,
    but every third look at a write waits for another client for the first time."""

    known = Known(
        [
            Finding(name, value, None, None, 1.0, "")
            for name, value in (("rotation_ns", 4e6), ("cache_medium", "flash"))
        ]
    )
    size, block_bytes = Looked.size, 4096

    def __init__(self, home: list[int]) -> None:
        self._home, self._seen = np.array(home, np.uint64), 0

    def run(self, _: str, io: IoBatch) -> IoLog:
        home = (io.offset[:, None] - self._home[None, :] < np.uint64(QUANTUM)).any(axis=1)
        late = (np.arange(len(io)) // 2 % 3 == 0) & (self._seen == 0)
        took_ns = np.where(home, 3.8e6, np.where(late, 9e6, 2.4e6))
        self._seen += len(io) > 2 * ASKED
        done = np.cumsum(took_ns)
        return IoLog.of(io, (done - took_ns).astype(np.uint64), done.astype(np.uint64))


@pytest.mark.parametrize("home", [0, 4])
def test_flash_behind_a_slow_link_and_other_clients_is_not_taken_for_home(home: int) -> None:
    """103925 and 104052 drawn: a third of the writes that stayed in the cache were said to have gone home."""
    written = spread(Looked.size, 41, QUANTUM)[1:]
    drive = FarFlash([int(each) for each in written[:home]])
    steps = cast(Steps, drive)
    fresh = flash_limit_ns(steps, "cached", written[-ASKED:])
    assert fresh == pytest.approx(3.2e6)
    check = Check(steps, "fill", QUANTUM, State.CLEAN, look_limit_ns=fresh)
    assert int(np.count_nonzero(check._home("stayed", written, QUANTUM))) == home


class TestToldApart:
    """A drive that lets one command wait at a time: no blocks share an entry, so larger writes decide."""

    FIRST = (fill("fill", 1, 200, ended=False), fill("fill-0", 1, 9_800, ended=False), fill("fill-1", 8, 500))

    @pytest.mark.parametrize(
        ("writes", "found"),
        [
            (1_750, (14_000, None)),  # as many places by fewer writes
            (10_500, (None, 10_500)),  # as many writes, in six times the places
            (4_000, (32_000, 10_500)),  # more places by fewer writes: the map ended the first fill
            (1_200, (None, None)),  # fewer places: what ended this one did not end the first
        ],
    )
    def test_by_writes_that_are_all_large(self, writes: int, found: tuple[int | None, int | None]) -> None:
        assert told_apart(self.FIRST, [fill("large-0", 8, writes)]) == found

    def test_not_by_writes_that_are_as_large_as_the_first(self) -> None:
        first = fill("fill", 1, 200, ended=False), fill("fill-1", 8, 9_800)
        assert told_apart(first, [fill("large-0", 8, 9_825)]) == (None, None)
        assert told_apart(first, [fill("large-0", 8, 9_825, ended=False)]) == (None, None)
        assert told_apart((), [fill("large-0", 8, 9_825)]) == (None, None)

    @pytest.mark.parametrize(("in_map", "known"), [(10_300, False), (14_000, True)])
    def test_lone_writes_are_not_more_than_entries_that_were_seen(self, in_map: int, known: bool) -> None:
        more = fill("large-0", 8, 1_750), fill("map-0", 0, in_map, ended=False)
        seen = Journal(QUANTUM, 1e6, 1e7, (*self.FIRST, *more), 14_000, None)
        data = Finding("out_of_band_bytes", QUANTUM, None, (QUANTUM, QUANTUM + 4096), 1.0, "")
        found = {each.name: each for each in of_journal(seen, Known([data]), ())}
        assert found["cache_fill_bytes"].value == 14_000 * QUANTUM
        assert found["cache_raw_bytes"].known == known


@pytest.mark.parametrize(("each_ns", "entries"), [(1_000_000, 14_000), (20_000_000, None)])
def test_blocks_of_a_volatile_cache_share_places_if_there_was_no_time_for_as_many(
    each_ns: int, entries: int | None
) -> None:
    """How it packs them is not seen; but each place that they take has to pass the head."""
    quanta = [fill("fill", 1, 200, ended=False), fill("fill-1", 8, 1_600)]
    blocks = replace(fill("map-0", 0, 14_000), group=DEPTH, took_ns=14_000 * each_ns)
    blocks = replace(blocks, most_places=places_in_time(blocks, 4_000_000.0))
    assert limits(quanta, [blocks], QUANTUM, flushed=True) == (13_000, entries)


@pytest.mark.parametrize("home", [MOST_OF_ASKED - 1, MOST_OF_ASKED])
@pytest.mark.parametrize("state", [State.REWRITTEN, State.CLEAN])
def test_older_data_takes_some_of_the_first_writes_home_but_not_most(home: int, state: State) -> None:
    """98501, a log of 986 GiB of which 64 GiB were rewritten: 2 of the first 8 writes were home, and sizes of
    four tenths of the true ones were given."""
    first = spread(Looked.size, 1_000, 4096)[1 : 1 + home]
    check = Check(cast(Steps, Looked(first)), "fill", 4096, state)
    assert check.begun(4096, 1_000, waiting=DEPTH) == (state is State.CLEAN or home == MOST_OF_ASKED)


def test_what_is_looked_at_lies_where_its_fill_began() -> None:
    places = Places(Looked.size, phase=0.25)
    check = Check(cast(Steps, Looked(places.where(20, 4096))), "map", 4096, State.REWRITTEN, phase=0.25)
    assert check.begun(4096, 1_000, waiting=DEPTH)
    assert not replace(check, phase=0.0).begun(4096, 1_000, waiting=DEPTH)


def test_small_writes_leave_time_for_large_ones() -> None:
    slow = Pace(36e6, 36e6, 36e6, 1.0)
    assert slow.most(SMALL_WRITES) == SMALL_WRITES * 5 // 6
    assert slow.most(MAP_WRITES) * 0.036 <= MOST_SMALL_S <= MOST_S / 3
    assert Pace(36e6, 36e6, 36e6 / 31, 31.0).most(MAP_WRITES) == MAP_WRITES


class Packing(Looked):
    """A new drive that takes 31 blocks into an entry of 20 ms, and behind 20,000 for so many writes takes
    five times as long."""

    def __init__(self, slow_writes: int) -> None:
        super().__init__(spread(self.size, 0, 4096))
        self.slow, self.done, self.now_ns, self.asked = slow_writes, 0, 0, list[str]()

    def reset(self, _: str) -> State:
        return State.NEW

    def entries_ns(self, at: I64) -> I64:
        """What entries take that begin with blocks of these numbers."""
        return np.where((at >= 20_000) & (at < 20_000 + self.slow), 100_000_000, 20_000_000)

    def run(self, name: str, io: IoBatch, *, depth: int = 1, until: Stop | None = None) -> IoLog:
        self.asked.append(name)
        at = np.arange(0, len(io), DEPTH) + (0 if "usual" in name or depth == 1 else self.done)
        entry_ns = self.entries_ns(at)
        done_ns = self.now_ns + np.repeat(np.cumsum(entry_ns), DEPTH)[: len(io)]
        log = IoLog.of(
            io, (done_ns - np.repeat(entry_ns, DEPTH)[: len(io)]).astype(np.uint64), done_ns.astype(np.uint64)
        )
        slow = np.flatnonzero(log.latency_ns > until.latency_ns) if until else ()
        if until is not None and len(slow) >= until.count:
            log = log.rows(slice(int(slow[until.count - 1]) + 1))
        self.done += len(log) if "usual" not in name else 0
        self.now_ns = int(log.complete_ns[-1])
        return log


@pytest.mark.parametrize(("slow_writes", "writes"), [(6 * DEPTH, None), (100_000, 20_000)])
def test_two_slow_queues_of_blocks_are_no_cleaning_if_the_next_are_quick(
    slow_writes: int, writes: int | None
) -> None:
    """98807: two queues passed in a tenth of a second, behind outliers, and a map of 210,000 entries was
    given as one of 25,663."""
    drive = Packing(slow_writes)
    (deep,) = filled(cast(Steps, drive), Places(drive.size), "map", ((4096, 0, 60_000),))
    assert deep.ended == (writes is not None)
    assert writes is None or abs(deep.writes - writes) <= 2 * DEPTH
    assert "map-0-deep-sure" in drive.asked


def sizes(seed: int, out: Path) -> dict[str, str]:
    """How the sizes of a random journaled drive under drawn conditions are marked, those that can be seen."""
    tests = ("drive_type", "rotation", "journal", "cache_location", "cache_size")
    result = suite_on_drawn(seed, out / "r", only=tests, kind="journaled")
    truth = drawn_truth(seed, "journaled")
    seen = {name: row for name, row in truth.items() if row["measurable"]}
    names = [each.name for each in CacheSize.findings]
    return {mark.name: mark.outcome for mark in score(result.findings, seen) if mark.name in names}


def test_a_small_cache_behind_a_volatile_one_is_counted_write_by_write(tmp_path: Path) -> None:
    """99500: 628 slots, of which 31 writes that a FLUSH ends together are a twentieth."""
    assert sizes(99500, tmp_path) == dict.fromkeys(
        ("cache_bytes", "cache_fill_bytes", "cache_raw_bytes"), "right"
    )


def test_a_map_is_found_where_each_write_waits_for_a_band_and_any_band_is_next(tmp_path: Path) -> None:
    """99506: one command at a time, 9 s for each write once the map is full, and no order that looks find."""
    assert sizes(99506, tmp_path)["cache_map_entries"] == "right"


class Merging(Packing):
    """The same, with a merge of the map of 0.4 s in two of five entries; a full cache takes longer."""

    def entries_ns(self, at: I64) -> I64:
        merges = at // DEPTH * 2 % 5 < 2
        usual_ns = np.where(merges, 400_000_000, 20_000_000)
        return np.where(at < 6_000, usual_ns, 3_000_000_000)


def test_merges_of_the_map_in_nearly_half_of_all_entries_are_no_cleaning() -> None:
    """Of drive 100343 drawn half of the entries had a merge: what most took was the other half, so it was
    found to clean from the first blocks on, and that its map was full behind 496."""
    drive = Merging(0)
    (deep,) = filled(cast(Steps, drive), Places(drive.size), "map", ((4096, 0, 60_000),))
    assert deep.ended
    assert abs(deep.writes - 6_000) <= 2 * DEPTH


class Small(Looked):
    """A cache of 343 places, each of which two blocks that wait share, in 3 ms; a full one cleans the oldest
    first, half a second for each place. It cannot be erased."""

    def __init__(self) -> None:
        super().__init__(spread(self.size, 0, BLOCK))
        self.done, self.now_ns = 0, 0

    def reset(self, _: str) -> State:
        self.done = 0
        return State.REWRITTEN

    def run(self, name: str, io: IoBatch, *, depth: int = 1, until: Stop | None = None) -> IoLog:
        if io.op[0] == int(Op.READ):
            return super().run(name, io)
        place = (self.done + np.arange(len(io))) // 2
        took = np.where(np.arange(len(io)) % 2, 0, np.where(place < 343, 3_000_000, 500_000_000))
        done = self.now_ns + np.cumsum(took)
        submit = np.concatenate([np.full(min(depth, len(io)), self.now_ns), done[:-depth]])
        log = IoLog.of(io, submit.astype(np.uint64), done.astype(np.uint64))
        slow = np.flatnonzero(log.latency_ns > until.latency_ns) if until else ()
        if until is not None and len(slow) >= until.count:
            log = log.rows(slice(int(slow[until.count - 1]) + 1))
        self.done, self.now_ns = self.done + len(log), int(log.complete_ns[-1])
        self._home = np.concatenate([self._home, log.offset[: max(self.done - 2 * 343, 0)]])
        return log


def test_the_pace_of_blocks_is_that_of_a_cache_that_they_do_not_fill() -> None:
    """100453 drawn: 1,240 blocks that were to show the pace of a quick drive filled its 343 places, so what
    stalled later was as quick as the usual."""
    drive = Small()
    deep = _map_fill(cast(Steps, drive), Places(drive.size), QUANTUM, 1e6, [fill("fill", 1, 343)])
    assert deep is not None and deep[-1].ended
    assert abs(deep[-1].writes - 2 * 343) <= 2 * DEPTH


class Rewritten(Packing):
    """The same, which cannot be erased, and never cleans a band that is looked at."""

    def reset(self, _: str) -> State:
        return State.REWRITTEN


@pytest.mark.parametrize(("places", "ended"), [(40_000, True), (60_000, True), (110_000, False)])
def test_a_map_is_full_whatever_is_cleaned_for_it_where_rewriting_passed_through_all_places(
    places: int, ended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100376 drawn: the band with most to gain was next, never one of those that are looked at; no older data
    is left in 13 GB of places that 64 GiB were rewritten in, nor in 63 GB: the pace of the same blocks had a
    rewriting of its own right before (103835 drawn)."""
    monkeypatch.setattr("skylight.probe.cache_size.fill_procedure.MOST_PARTS", 20)
    drive = Rewritten(100_000)
    deep = _map_fill(cast(Steps, drive), Places(drive.size), QUANTUM, 1e6, [fill("fill", 1, places)])
    assert deep is not None and deep[-1].ended == ended
    assert not ended or abs(deep[-1].writes - 20_000) <= 2 * DEPTH


@pytest.mark.parametrize(("count", "slow"), [(60_000, False), (35_000, True)])
def test_a_cache_that_takes_as_much_again_without_a_wait_was_not_full(count: int, slow: bool) -> None:
    """104045 drawn: older data went home after 126,954 writes, 172,784 more waited for nothing, and what the
    cache takes behind these was not asked."""
    drive = Rewritten(12 * DEPTH)
    (deep,) = filled(cast(Steps, drive), Places(drive.size), "map", ((4096, 0, count),))
    assert not deep.ended and deep.slow is slow


@pytest.mark.parametrize(
    ("again", "ended", "counts"), [(9_900, True, True), (9_900, False, False), (200, True, False)]
)
def test_a_fill_that_ends_twice_after_as_many_writes_counts(
    again: int, ended: bool, counts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """103796 drawn: the band with most to gain is cleaned next. With older data left the second fill would
    have found a full log."""
    first = [replace(fill("fill", 1, 11_000, ended=False), slow=True, slow_after=10_000, scattered=True)]
    second = [fill("refill", 1, again, ended=ended)]
    monkeypatch.setattr(journal, "filled", lambda *_, **__: second)
    found = journal._refilled(cast(Steps, None), Places(1 << 40), first, (QUANTUM, 1, 20_000))
    assert found is (second if counts else first)


class Ordered(Packing):
    """A map of 9,000 entries is full first, and then the band with the lowest address is cleaned for each
    write: neither one of the first writes nor of the newest. It cannot be erased."""

    def __init__(self, older: bool) -> None:
        super().__init__(0)
        self.older, self.written = older, np.empty(0, np.uint64)

    def reset(self, _: str) -> State:
        self.written = self.written[:0]
        return State.REWRITTEN

    def run(self, name: str, io: IoBatch, *, depth: int = 1, until: Stop | None = None) -> IoLog:
        if io.op[0] == int(Op.READ):
            gone = max(len(self.written) - 9_000, 0) if not self.older else 0
            self._home = np.sort(self.written)[:gone]
            return Looked.run(self, name, io)
        log = super().run(name, io, depth=depth, until=until)
        self.written = np.concatenate([self.written, log.offset])
        return log

    def entries_ns(self, at: I64) -> I64:
        return np.where(at >= 9_000, 500_000_000, 20_000_000)


@pytest.mark.parametrize("older", [False, True])
def test_bands_that_are_cleaned_in_an_order_of_their_own_are_seen(
    older: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """101232 drawn: a fill went on for five hours: neither its first writes nor its newest went home."""
    monkeypatch.setattr("skylight.probe.cache_size.fill_procedure.MOST_PARTS", 60)
    drive = Ordered(older)
    (deep,) = filled(cast(Steps, drive), Places(drive.size), "map", ((4096, 0, 60_000),))
    assert not deep.ended and deep.slow
    assert deep.scattered is not older


def test_a_map_that_was_full_from_the_first_block_on_leaves_the_raw_size_unknown() -> None:
    """Of drive 100343 drawn no writes were counted, and the raw size of none was divided by their number."""
    slow = replace(fill("map", 0, 0), places=0)
    seen = Journal(QUANTUM, 1e6, 1e7, (fill("fill", 1, 2_000), slow), 2_000, 0)
    known = Known([Finding("out_of_band_bytes", 4e5, "bytes", (3.9e5, 4.1e5), 1.0, "")])
    raw = next(each for each in of_journal(seen, known, ()) if each.name == "cache_raw_bytes")
    assert not raw.known
