"""Writes that wait in a zone without a free band: which of them say how long one band takes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from one_test import suite_on_drawn
from skylight.evidence import IoBatch, IoLog, Stop
from skylight.findings import Finding, Known
from skylight.probe.cleaning import _may_have_free_bands, zone_log_stalls
from skylight.probe.cleaning.trials import Ground

NONE_NS = np.zeros(0, np.int64)


def waits(*stalls: tuple[int, float, int, int]) -> zone_log_stalls.Watched:
    """Writes of 1 MiB, the last of which waited: how many, how long (s), marks and cells home after it."""
    seen = zone_log_stalls.Watched()
    for count, waited_s, marks, cells in stalls:
        submit = np.arange(count, dtype=np.uint64) * np.uint64(10**10)
        took = np.full(count, 10**7, np.uint64)
        took[-1] += np.uint64(waited_s * 1e9)
        writes = IoBatch.writes(np.arange(count, dtype=np.uint64) << np.uint64(20), 1 << 20)
        home = np.arange(zone_log_stalls.MARKS + 40) - zone_log_stalls.MARKS < cells
        home[: zone_log_stalls.MARKS] = np.arange(zone_log_stalls.MARKS) < marks
        seen.add(IoLog.of(writes, submit, submit + took), home, 10**7)
    return seen


@pytest.mark.parametrize(
    ("location", "flash", "may"),
    [("many", False, True), (None, False, True), (None, True, False), ("od", False, False)],
)
def test_free_bands_are_looked_for_where_nothing_says_where_the_cache_is(
    location: str | None, flash: bool, may: bool
) -> None:
    """Of 101233 the place of the cache was not known, and its zones have five free bands each."""
    known = Known([] if location is None else [Finding("cache_location", location, None, None, 1.0, "")])
    assert _may_have_free_bands(known, Ground(cast(Any, None), flash, False, 1e7)) is may


class TestFreeBands:
    """Which of the writes that wait say how long one band takes."""

    def test_the_last_of_a_row_waits_for_one_band(self) -> None:
        row = waits((1, 1.0, 5, 0), (1, 0.5, 6, 0), (40, 1.2, 6, 20), (1, 0.6, 6, 20), (40, 0.6, 6, 20))
        place = row.place()
        assert place is not None and place.sound
        assert (place.one_ns, place.half_ns) == (0.5e9, (0.6e9,))
        assert row.band == 40 << 20

    def test_a_wait_that_shows_nothing_cleaned_still_ends_a_row(self) -> None:
        """A single cell says nothing, so that a wait for two bands does not pass for one of one."""
        first = (1, 1.0, 5, 0), (1, 0.5, 6, 0)
        seen = waits(*first, (40, 1.2, 6, 20), (1, 0.6, 6, 0), (40, 0.6, 6, 20), (40, 0.6, 6, 20))
        place = seen.place()
        assert place is not None and place.half_ns == (0.6e9,)

    def test_a_zone_that_ends_amid_the_marks_does_not_tell(self) -> None:
        assert waits((1, 1.0, 4, 0), (40, 1.2, 4, 20), (40, 0.6, 4, 20)).place() is None

    def test_what_waits_within_a_log_was_delayed_by_others(self) -> None:
        """Of 101188 a band of 4 MiB takes as long as a delay. What such a look finds was cleaned before."""
        marks = (1, 0.2, 4, 0), (1, 0.08, 6, 0), (2, 0.1, 6, 0)
        seen = waits(*marks, (2, 0.2, 6, 0), (1, 0.09, 6, 4), (2, 0.05, 6, 4), (3, 0.2, 6, 4))
        place = seen.place()
        assert place is not None and (place.one_ns, place.half_ns) == (0.08e9, (0.09e9,))
        assert seen.band == 4.5 * (1 << 20)

    def test_marks_that_were_home_before_all_waits_do_not_tell(self) -> None:
        assert waits((1, 0.5, 6, 0), (40, 1.2, 6, 20), (1, 0.6, 6, 20), (40, 0.6, 6, 20)).place() is None

    def test_other_clients_lengthen_waits_only(self) -> None:
        place = zone_log_stalls.Place(1.0, (1.2, 9.0))
        assert place.usual_half_ns == 1.2 and place.sound

    @pytest.mark.parametrize("one_ns", [0.0, 2e9])
    def test_waits_one_by_one_are_no_delays(self, one_ns: float) -> None:
        """Where each log is emptied by one wait, one write in a hundred waited: a row of them went by."""
        took = np.full(500, 10_000_000, np.uint64)
        took[50:400:20] = took[450:453] = 3_000_000_000

        def run(_: str, io: IoBatch, until: Stop, params: dict[str, int]) -> IoLog:
            assert params == {"place": 1}
            first = len(took) - len(io)
            for end in range(1, len(io) + 1):
                done = np.cumsum(took[first : first + end])
                log = IoLog.of(io.part(0, end), done - took[first : first + end], done)
                if until.reached(log):
                    return log
            return log

        ground = Ground(cast(Any, SimpleNamespace(run=run, block_bytes=4096)), False, False, 1e7)
        writes = IoBatch.writes(np.arange(500, dtype=np.uint64) << np.uint64(20), 4096)
        log, row = zone_log_stalls._filled(ground, "fill", writes, 10_000_000, one_ns, {"place": 1}, NONE_NS)
        assert row and len(log) == 453

    @pytest.mark.parametrize("waits_each", [1, 3])
    def test_waits_that_no_longer_come_at_once_are_in_another_zone(self, waits_each: int) -> None:
        seen = waits(*[(40 if number % waits_each == 0 else 1, 1.0, 0, 0) for number in range(60)])
        assert seen.elsewhere is (waits_each == 1)

    @pytest.mark.parametrize("waited_s", [0.4, 3.0, 12.0])
    def test_writes_that_other_clients_delay_wait_for_no_band(self, waited_s: float) -> None:
        """They take 90 ms longer; of two bands in a row one alone is half as long."""
        least_ns = zone_log_stalls.told_from(waited_s * 1e9)
        assert least_ns < waited_s / 2 * 1e9
        assert (least_ns > 90e6) is (waited_s > 0.9)

    @pytest.mark.parametrize("delayed", [0.0, 0.2])
    def test_marks_at_home_are_looked_at_until_they_show_it(self, delayed: float) -> None:
        """The last stays in the cache, and a fifth of the looks take half a revolution more than they do."""
        turn_ns = 11_000_000
        layout, rng = zone_log_stalls.Layout(0, 64 << 20, 1 << 30), np.random.default_rng(3)

        def run(name: str, io: IoBatch, **_: object) -> IoLog:
            del name
            took = np.full(len(io), turn_ns, np.uint64)
            took[-1] = 2 * turn_ns
            took[rng.random(len(io)) < delayed] += np.uint64(turn_ns * 3 // 4)
            done = np.cumsum(took)
            return IoLog.of(io, done - took, done)

        ground = Ground(
            cast(Any, SimpleNamespace(run=run, block_bytes=4096)),
            flash=False,
            flushed=False,
            rotation_ns=turn_ns,
        )
        first = ground.home(run("", ground.looks(layout.marks)))
        assert bool(first[:5].all()) is (delayed == 0.0)
        home = zone_log_stalls._marks_home(ground, "look", first, layout)
        assert home.tolist() == [True] * 5 + [False]

    @pytest.mark.parametrize("at_once", [True, False])
    def test_waits_for_older_data_are_few_steps_where_they_come_at_once(self, at_once: bool) -> None:
        """Random drive 102511 waited for 19,000 bands, one after the other, in 42,000 steps: 20 s of CPU.
        Once the first of the marks is home, there is a look behind each wait."""
        turn_ns, older = 11_000_000, 120
        layout = zone_log_stalls.Layout(1 << 34, 64 << 20, 1 << 30)
        steps, done = list[str](), 0

        def waited(writes: int) -> int:
            return writes if at_once else writes // 2

        def took(writes: int) -> int:
            waits = waited(writes) > waited(writes - 1) and waited(writes) <= older + 6
            return 300_000_000 if waits else 2_000_000

        def run(name: str, io: IoBatch, until: Stop | None = None, **_: object) -> IoLog:
            nonlocal done
            steps.append(name)
            if "look" in name or "near" in name:
                cached = layout.marks[max(waited(done) - older, 0) :]
                slow_looks = np.isin(io.offset >> np.uint64(16), cached >> np.uint64(16))
                took_ns = np.where(slow_looks, 2 * turn_ns, turn_ns).astype(np.uint64)
            else:
                each = [took(done + number) for number in range(1, len(io) + 1)]
                slow = [number for number, ns in enumerate(each, 1) if until and ns >= until.latency_ns]
                took_ns = np.array(each[: slow[0] if slow else len(io)], np.uint64)
                done += len(took_ns)
            end = np.cumsum(took_ns)
            return IoLog.of(io.part(0, len(took_ns)), end - took_ns, end)

        ground = Ground(cast(Any, SimpleNamespace(run=run, block_bytes=4096)), False, False, float(turn_ns))
        writes = IoBatch.writes(np.arange(400, dtype=np.uint64) << np.uint64(20), 960 << 10)
        seen = zone_log_stalls.Watched(waits=True, gone=np.zeros(len(layout.stretch.blocks), np.bool_))
        zone_log_stalls._watch(ground, "stall", layout, writes, Stop(100_000_000), 2_000_000, seen)
        assert len([stall for stall in seen.stalls if stall.waited]) >= (older + 6 if at_once else 40)
        if at_once:
            assert seen.home == 6
            first = next(number for number, stall in enumerate(seen.stalls) if stall.home)
            assert first < older + zone_log_stalls.OLDER_EACH
            assert [stall.home for stall in seen.stalls[first : older + 6]][-4:] == [3, 4, 5, 6]
            assert len(steps) < older
            assert [stall.written for stall in seen.stalls[:9]] == [n * (960 << 10) for n in range(1, 10)]

    def test_nothing_lies_in_two_bands_or_beyond_the_drive(self) -> None:
        """At all places and attempts, with and without an idea of a band."""
        # The second is a drive of which the last attempt once wrote past the end.
        for size in (100 * 10**9, 248_999_997_440, 30 * 10**12):
            for attempt in range(len(zone_log_stalls.SHIFTS)):
                for band in (None, 4 << 20, 40 << 20, 256 << 20):
                    layout = zone_log_stalls.Layout.at(size, 5, attempt, band)
                    steps = np.diff([*layout.marks.astype(np.int64), layout.over, layout.stretch.start])
                    assert steps.min() > (band or 256 << 20)
                    assert layout.stretch.start + layout.length < size
                    assert layout.length >= 8 * (band or 256 << 20)
                    for part in layout.parts(size, 4096):
                        assert len(part) > zone_log_stalls.FEWEST_WRITES
                        assert int((part.offset + part.size).max()) <= size


def test_rows_of_delays_are_not_taken_for_a_zone_without_free_bands(tmp_path: Path) -> None:
    """On the host of random drive 101137 others delay a tenth of all writes by up to 66 ms. Three in a row
    that waited more than 30 ms came long before a band was cleaned, and were looked at for an hour."""
    result = suite_on_drawn(101137, tmp_path / "r", only=("cleaning",))
    found = next(finding for finding in result.findings if finding.name == "cleaning_band_ns")
    assert isinstance(found.value, dict)
    assert found.value["one_block"] == pytest.approx(1.199e9, rel=0.1)
    assert found.value["half"] == pytest.approx(1.510e9, rel=0.1)


def test_a_row_of_delays_does_not_end_a_fill(rng: np.random.Generator) -> None:
    """A tenth of all writes is delayed by up to 66 ms, three of them in a row; then writes wait for bands."""
    took_ns = np.full(1_503, 10_000_000)
    delayed = rng.choice(500, 50, replace=False)
    took_ns[delayed] += rng.integers(30_000_000, 66_000_000, 50)
    took_ns[500:503] += 40_000_000
    took_ns[1_500:] = 2_000_000_000
    steps: list[int] = []

    def run(name: str, io: IoBatch, *, until: Stop, **_: object) -> IoLog:
        del name
        took = took_ns[sum(steps) :][: len(io)]
        slow = np.convolve(took >= until.latency_ns, np.ones(until.within), "valid")
        ends = np.flatnonzero(slow >= until.count)
        took = took[: int(ends[0]) + until.within if len(ends) else len(took)].astype(np.uint64)
        steps.append(len(took))
        done = np.cumsum(took)
        return IoLog.of(io.part(0, len(took)), done - took, done)

    ground = Ground(cast(Any, SimpleNamespace(run=run)), flash=False, flushed=False, rotation_ns=8e6)
    writes = IoBatch.writes(np.arange(len(took_ns)) << 20, 1 << 20)
    log, waits = zone_log_stalls._filled(ground, "fill", writes, 10_000_000, 0.0, {}, NONE_NS)
    assert waits and len(log) == len(took_ns) and len(steps) > 1


def test_delays_do_not_part_what_goes_into_a_log() -> None:
    """As of 103987 drawn: of 27 waits 16 were other clients' delays, and logs seemed half as large."""
    seen = waits(*[(each, ms, 0, 0) for _ in range(5) for each, ms in ((8, 0.052), (7, 0.464), (1, 0.247))])
    assert seen.band == 15 << 20 and seen.is_band_seen
    assert not waits((8, 0.464, 0, 0), (15, 0.470, 0, 0), (9, 0.46, 0, 0)).is_band_seen, "the control: unlike"


def test_a_mark_that_goes_home_alone_had_older_data_in_its_band() -> None:
    """As of 104074 drawn: the marks' own log came hundreds of waits later."""
    waited = [(1, 1.0, 0, 0)] * 3 + [(1, 1.0, 1, 0)] + [(1, 1.0, 1, 0)] * zone_log_stalls.NEXT_MARK
    assert not waits(*waited).older
    alone = waits(*waited, (1, 1.0, 1, 0))
    assert alone.older and not alone.elsewhere
    assert not waits(*waited, (1, 1.0, 1, 0), (1, 1.0, 2, 0)).older, "one more is home"
    assert not waits(*waited, (1, 1.0, 6, 0), *[(20, 1.0, 6, 3)] * 9).older, "all are"


def test_delays_of_thousands_of_writes_show_what_is_usual() -> None:
    """As of 104187 drawn: a row of three delays among the first 50 writes of a part passed for waits."""
    took_ns = np.full(400, 16_000_000)
    took_ns[40:43] = 60_000_000
    took_ns[300:] = 2_000_000_000
    before_ns = np.where(np.arange(20_000) % 10, 0, 50_000_000)
    for known_ns, count in ((before_ns, 303), (NONE_NS, 43)):
        done = 0

        def run(_: str, io: IoBatch, *, until: Stop, **__: object) -> IoLog:
            nonlocal done
            took = took_ns[done : done + len(io)]
            slow = np.convolve(took >= until.latency_ns, np.ones(until.within), "valid") >= until.count
            took = took[: int(np.flatnonzero(slow)[0]) + until.within].astype(np.uint64)
            done, end = done + len(took), np.cumsum(took)
            return IoLog.of(io.part(0, len(took)), end - took, end)

        ground = Ground(cast(Any, SimpleNamespace(run=run)), flash=False, flushed=False, rotation_ns=8e6)
        writes = IoBatch.writes(np.arange(400) << 20, 1 << 20)
        log, row = zone_log_stalls._filled(ground, "fill", writes, 16_000_000, 0.0, {}, known_ns)
        assert row and len(log) == count
