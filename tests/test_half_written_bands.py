"""Bands of which half was written: how long cleaning them takes, and how far off the idle time is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from skylight.evidence import IoBatch, IoLog, SettingsReport
from skylight.findings import Finding, Known
from skylight.probe.cleaning import half_written_band, trials
from skylight.probe.cleaning.band_time import BEGUN, Round
from skylight.probe.cleaning.half_written_band import Span
from skylight.probe.cleaning.idle_time_correction import fit
from skylight.probe.cleaning.trials import (
    Controls,
    Ground,
    Trial,
)
from skylight.probe.cleaning.unclear_cells import unclear_of
from skylight.probe.cleaning.verdict import Seen, _band
from skylight.probe.known_state import State


def progress_of(went_home: list[int], work_s: list[float], cells: int) -> half_written_band.Progress:
    """A place at which so many cells more were home after each pause of so much work."""
    before = np.zeros(cells, bool)
    progress = half_written_band.Progress(1 << 20, False, [0.0], [before])
    for more, work in zip(np.cumsum(went_home), work_s, strict=True):
        progress.add(work, np.arange(cells) < more)
    return progress


@pytest.mark.parametrize("late_s", [0.0, 0.024, 0.045])
def test_pauses_hold_more_work_where_the_idle_time_is_longer_than_thought(
    monkeypatch: pytest.MonkeyPatch, late_s: float
) -> None:
    """As of random drive 100659: a band takes 61 ms, and pauses for half of one hold 24 ms too little."""
    cleaned_s = 0.0

    def pause(*args: Any) -> None:
        nonlocal cleaned_s
        progress, work_s = args[3], args[5]
        before, cleaned_s = cleaned_s, cleaned_s + max(work_s - late_s, 0.0)
        assert cleaned_s // 0.061 <= before // 0.061 + 1 or args[1].endswith("-long")
        progress.add(work_s, np.arange(80) < 8 * (cleaned_s // 0.061), long=args[1].endswith("-long"))

    monkeypatch.setattr(half_written_band, "_pause", pause)
    stretch = half_written_band.Stretch(0, 80 << 19, 1 << 19)
    progress = half_written_band.Progress(1 << 19, False, [0.0], [np.zeros(80, bool)])
    half_written_band._watch(cast(Any, None), "half", stretch, progress, 1.0, 0.055)
    assert len(progress.finished) == half_written_band.STEPPED and progress.long


def test_a_stretch_that_is_home_is_left_alone_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of random drive 99330, whose small cache holds half of two bands: there is no third to wait for."""
    progress = half_written_band.Progress(1 << 19, False, [0.0], [np.zeros(16, bool)])

    def pause(*args: Any) -> None:
        args[3].add(args[5], np.arange(16) < 8 * (len(progress.looked) // 2))

    monkeypatch.setattr(half_written_band, "_pause", pause)
    stretch = half_written_band.Stretch(0, 16 << 19, 1 << 19)
    half_written_band._watch(cast(Any, None), "half", stretch, progress, 1.0, 0.055)
    assert len(progress.finished) == 2 and len(progress.looked) == 5


@pytest.mark.parametrize("end", [4, 12, 19])
def test_a_part_of_a_band_takes_as_long_as_a_band(end: int) -> None:
    """Bands of 20 cells and two pauses each, one of them cut by the end of the stretch, whenever it comes."""
    for order in ([20, end, 20], [end, 20, 20], [20, 20, end]):
        went_home = [cells for band in order for cells in (0, band)]
        progress = progress_of(went_home, [0.5] * len(went_home), 60)
        assert progress.band_bytes == pytest.approx(20 << 20, rel=0.02)
        told = progress.band_s()
        assert told is not None and told[0] == pytest.approx(1.0)


def progress_at(cells: int, *went_home: tuple[int, int], work_s: float = 0.5) -> half_written_band.Progress:
    """A place at which the cells from one to another go home in every other pause."""
    home = np.zeros(cells, bool)
    progress = half_written_band.Progress(1 << 20, False, [0.0], [home])
    for first, end in went_home:
        progress.add(work_s, home)
        home = home | ((np.arange(cells) >= first) & (np.arange(cells) < end))
        progress.add(work_s, home)
    return progress


def test_bands_between_parts_of_others_are_known_in_any_order() -> None:
    """As of 100693 and 100856 drawn, which clean what has most to gain first: a band, and two parts."""
    progress = progress_at(512, (132, 362), (362, 512), (0, 132))
    assert progress.band_bytes == 230 << 20
    told = progress.band_s()
    assert told is not None and told[0] == pytest.approx(1.0)
    assert progress.bands == [(0, 132), (132, 362), (362, 512)]
    assert progress_at(512, (0, 230), (230, 380), (380, 512)).band_bytes == 0, "the control: which is whole?"
    strewn = progress_at(512, (132, 362), (362, 512), (0, 132))
    strewn.looked[2] = np.isin(np.arange(512), np.arange(80, 540, 2))
    assert strewn.band_bytes == 0, "the control: what goes home at once lies anywhere"


def test_two_parts_that_are_the_whole_stretch_take_as_long_as_bands() -> None:
    """As of 100737 drawn, whose cache holds no more than that."""
    told = progress_at(192, (0, 128), (128, 192)).band_s()
    assert told is not None and told[0] == pytest.approx(1.0)
    assert progress_at(300, (0, 128), (128, 192)).band_s() is None, "the control: it may be part of a part"


def test_a_long_pause_in_which_all_was_cleaned_takes_nothing_from_the_short_ones() -> None:
    progress = progress_at(240, (2, 20), (20, 38), (38, 56))
    progress.add(9.0, np.ones(240, bool), long=True)
    assert progress.spans() == [Span(2.0, 2, 4)]


def test_bands_of_a_stretch_are_counted_by_their_ends() -> None:
    progress = progress_at(100, (0, 11), (11, 31), (31, 51))
    assert progress.bands == [(0, 11), (11, 31), (31, 51), (51, 71), (71, 91), (91, 100)]
    assert progress.count(np.arange(100) < 72) == 4
    assert progress.count(np.arange(100) >= 70) == 2
    assert progress_at(100, (5, 25), (35, 55), (70, 90)).bands == [], "the control: no even bands"


@pytest.mark.parametrize(
    ("went_home", "cells"), [((53, 63, 62), 62.5), ((9, 8, 8), 25 / 3), ((8, 8, 9), 25 / 3)]
)
def test_a_band_is_whole_but_for_a_misread_cell(went_home: tuple[int, ...], cells: float) -> None:
    """53 of 63 cells were cut by the end of a stretch; nine of eight are a misread one more."""
    in_turn = [more for band in went_home for more in (0, band)]
    assert progress_of(in_turn, [0.5] * 6, 200).band_bytes == pytest.approx(cells * (1 << 20), rel=0.001)


def test_the_rest_of_a_band_that_shows_a_pause_later_is_no_band() -> None:
    """99792 drawn: 33 of 40 cells, and the 7 that late looks hid."""
    progress = progress_of([0, 39, 1, 33, 7, 0, 40], [0.5] * 7, 200)
    assert [cells for _, cells in progress.finished] == [39, 40, 40]
    assert progress.band_bytes == pytest.approx(39.7 * (1 << 20), rel=0.01)


def test_two_bands_side_by_side_are_no_rest_of_each_other() -> None:
    """103583 drawn: bands of 26 cells end amid the stretch, and bands of 12 begin, of which two go home in a
    row; they were taken for one of 24."""
    progress = progress_at(448, (0, 26))
    for first, end in ((26, 38), (38, 50)):
        progress.add(0.5, progress.home[-1] | ((np.arange(448) >= first) & (np.arange(448) < end)))
    assert [cells for _, cells in progress.finished] == [26, 12, 12]
    assert progress.band_bytes == 12 << 20


def test_bands_may_be_shorter_from_the_first_on_that_was_finished() -> None:
    """99783 drawn: bands shrink towards the inner diameter, here by a third."""
    assert progress_of([0, 30, 22, 0, 22], [0.5] * 5, 200).band_bytes == 22 << 20
    assert progress_of([0, 30, 12, 0, 22], [0.5] * 5, 200).band_bytes == 0, "the control: no two agree"


@pytest.mark.parametrize("end", [0, 5, 12])
def test_a_part_of_a_band_takes_as_long_in_a_long_pause(end: int) -> None:
    """Four bands and the end of the stretch, in five times the time of a band."""
    progress = progress_of([0, 20, 0, 20, 0, 20], [0.5] * 6, 200)
    looked = np.arange(200) < 140 + end
    progress.add(4.0 + (end > 0) + BEGUN - 0.25, looked, long=True)
    told = progress.band_s()
    assert told is not None and told[0] == pytest.approx(1.0, abs=0.05)


def test_a_look_that_errs_finishes_no_band() -> None:
    """Three cells that seem home are no part of a band."""
    assert [cells for _, cells in progress_of([0, 20, 3, 20, 1, 20], [0.5] * 6, 80).finished] == [20, 20, 20]


@pytest.mark.parametrize("late_s", [-0.2, 0.0, 0.2])
def test_half_written_bands_show_how_far_off_the_idle_time_is(late_s: float) -> None:
    """Six short pauses and a long one at places where a band takes 0.8, 1.0 and 1.2 s: each pause seems to
    hold `late_s` more work than it does."""
    places = [
        [Span(2 * band_s + 6 * late_s, 2, 6), Span((12 + BEGUN) * band_s + late_s, 12 + BEGUN, 1)]
        for band_s in (0.8, 1.0, 1.2)
    ]
    unsure = fit(places, 0.25)
    assert unsure.band_s == pytest.approx(1.0, abs=0.02)
    assert 0.0 < unsure.apart_s < 0.05
    as_it_is = fit(places, 0.0)
    assert as_it_is.apart_s == pytest.approx(0.0, abs=1e-9)
    assert (as_it_is.band_s - 1.0) * late_s >= 0.0
    assert abs(as_it_is.band_s - 1.0) >= 0.1 * abs(late_s)


@pytest.mark.parametrize("late_s", [-0.2, 0.0, 0.2])
def test_one_pause_for_bands_written_anew_shows_it_too(late_s: float) -> None:
    """Four short pauses, and one that begins with a band: the edge between two of them is no edge of it."""
    places = [
        [
            Span(2 * band_s + 4 * late_s, 2, 4),
            Span((5 + BEGUN) * band_s + late_s, 5 + BEGUN, 1, anew=True),
        ]
        for band_s in (0.8, 1.0, 1.2)
    ]
    found = fit(places, 0.25)
    assert found.band_s == pytest.approx(1.0, abs=0.03)
    assert found.apart_s < 0.08
    chained = fit([[stepped, Span(anew.work_s, anew.bands, 1)] for stepped, anew in places], 0.25)
    assert found.apart_s != pytest.approx(chained.apart_s, rel=0.01)


def test_a_stretch_is_written_anew_where_the_idle_time_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five bands of a second each: all at once say to try less, and two bands to try once more."""
    speeds, pauses = iter([2.0, 1.0, 1.0]), list[float]()

    def pause(*args: Any) -> None:
        pauses.append(args[5])
        args[3].add(args[5], np.arange(100) < 20 * int(args[5] * next(speeds)))

    for name in ("clear", "write"):
        monkeypatch.setattr(half_written_band, name, lambda *_: None)
    monkeypatch.setattr(half_written_band, "_pause", pause)
    monkeypatch.setattr(half_written_band, "_home", lambda *_: np.zeros(100, bool))
    progress = progress_at(100, (0, 20), (20, 40), (40, 60))
    stretch = half_written_band.Stretch(0, 100 << 20, 1 << 20)
    half_written_band._anew(looked_at(), 1, stretch, progress, 1.0, 5.0)
    assert pauses == pytest.approx([3.5, 3.5 * 0.7, 3.85 * 0.7])
    assert [(span.bands, span.pauses, span.anew) for span in progress.anew] == [(2 + BEGUN, 1, True)] * 2


def looked_at() -> Ground:
    """A ground of which looks are whatever `_home` makes of them."""
    return Ground(cast(Any, SimpleNamespace(run=lambda *_, **__: None, block_bytes=4096)), False, False, 8e6)


def test_what_is_home_before_a_pause_was_not_cleaned_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of 104195 drawn: written again, the stretch no longer fits, and two of six bands of a second each
    are cleaned while it is written."""
    pauses = list[float]()

    def pause(*args: Any) -> None:
        pauses.append(args[5])
        args[3].add(args[5], np.arange(120) < 20 * (2 + int(args[5])))

    for name in ("clear", "write"):
        monkeypatch.setattr(half_written_band, name, lambda *_: None)
    monkeypatch.setattr(half_written_band, "_pause", pause)
    monkeypatch.setattr(half_written_band, "_home", lambda *_: np.arange(120) < 40)
    progress = progress_at(120, (0, 20), (20, 40), (40, 60))
    stretch = half_written_band.Stretch(0, 120 << 20, 1 << 20)
    half_written_band._anew(looked_at(), 1, stretch, progress, 1.0, 5.0)
    assert pauses == pytest.approx([2.5, 2.85])
    assert [span.bands for span in progress.anew] == [2 + BEGUN] * 2


def test_a_part_of_a_band_takes_less_where_gathering_is_long() -> None:
    """As of 104249 drawn: a whole band takes 2 s, one with a block 1 s, so a quarter of one 1.25 s."""
    progress = progress_of([0, 20, 0, 0, 20, 0, 5], [0.5, 0.5, 0.5, 0.5, 1.0, 0.75, 0.5], 45)
    progress.one_s = 1.0
    told = progress.band_s()
    assert told is not None and told[0] == pytest.approx(2.0, rel=0.01)
    before, home = np.arange(45) < 20, np.arange(45) < 45
    assert progress.finished_since(before, home, 2.0) == pytest.approx(1 + 5 / 8)
    assert progress.finished_since(np.zeros(45, bool), home, 2.0) == pytest.approx(2 + 5 / 8)


def test_cells_that_looks_misread_go_home_with_the_next() -> None:
    """As of 104224 drawn, on tracks of half a megabyte: of bands of eight cells six were seen to go home."""
    progress = progress_at(48, (0, 8), (8, 16), (16, 24))
    for looked in progress.looked:
        looked[[5, 10, 19]] = False
        looked[30] = True
    assert [cells for _, cells in progress.finished] == [7, 7, 7]
    before = np.ones(48, bool)
    before[[5, 10, 19]] = False
    progress.unclear = unclear_of(before, progress.looked[0])
    assert [cells for _, cells in progress.finished] == [8, 8, 8]
    assert not progress.home[0].any() and progress.unclear.nonzero()[0].tolist() == [5, 10, 19, 30]
    before[:8] = False
    assert not unclear_of(before, progress.looked[0])[:8].any(), "the control: a band that was not clean"


def test_without_a_long_pause_the_idle_time_stays_unknown() -> None:
    """Two bands in four pauses, of 0.25 s more or less work each: half a second of two."""
    found = fit([[Span(2.0, 2, 4)]] * 3, 0.25)
    assert found.band_s == pytest.approx(1.0, abs=0.05)
    assert found.apart_s == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(("late_counts", "known"), [(True, True), (False, False)])
def test_a_band_is_known_no_better_than_the_idle_time_of_its_pauses(late_counts: bool, known: bool) -> None:
    """An idle time less what a band takes, in as many pauses as half-written bands were seen to take."""
    seen = Seen(Ground(cast(Any, None), False, False, 8e6), controls=Controls(True, late_counts))
    seen.trials = [Trial(1, 5.99, 0, False, False), Trial(2, 6.01, 0, True, False)]
    home = np.arange(40) < 30
    seen.rounds = [Round("bands-1", home, 5.0 + 30 + BEGUN, 0.0, 5.0, 0)]
    for place in half_written_band.PLACES:
        seen.halves[place] = progress_of([0, 20, 0, 20, 0, 20], [0.6] * 6, 80)
    found = _band(seen, ())
    assert found.known == known, found.why


@pytest.mark.parametrize(("work_s", "known"), [(0.6, True), (2.4, False)])
def test_pieces_that_each_go_home_for_themselves_are_no_band(work_s: float, known: bool) -> None:
    """What is written in half of a band takes 1.2, or 4.8, times as long as a block: a band is rewritten
    once."""
    seen = Seen(Ground(cast(Any, None), False, False, 8e6), controls=Controls(True, True))
    seen.trials = [Trial(1, 5.99, 0, False, False), Trial(2, 6.01, 0, True, False)]
    seen.rounds = [Round("bands-1", np.arange(40) < 30, 5.0 + 30 + BEGUN, 0.0, 5.0, 0)]
    for place in half_written_band.PLACES:
        seen.halves[place] = progress_of([0, 20, 0, 20, 0, 20], [work_s] * 6, 80)
    found = _band(seen, ())
    assert found.known == known, found.why


class Delayed:
    """A target with a flash cache; other clients delay a share of reads by two revolutions, in other cells
    each time, and some cells are at home already."""

    size, block_bytes = 1 << 40, 4096

    def __init__(self, delayed: float, home: float) -> None:
        """Draws the cells."""
        self.rng, self.delayed, self.home = np.random.default_rng(1), delayed, home

    def run(self, name: str, io: IoBatch, **_: object) -> IoLog:
        """Each look takes what a block in flash takes, or a revolution."""
        del name
        at_home = np.arange(len(io)) < self.home * len(io)
        took = np.where(at_home, 8_000_000, 500_000) + 16_000_000 * (self.rng.random(len(io)) < self.delayed)
        done = np.cumsum(took).astype(np.uint64)
        return IoLog.of(io, done - took.astype(np.uint64), done)


@pytest.mark.parametrize(
    ("delayed", "home", "fits", "noisy"),
    [(0.02, 0.0, True, False), (0.15, 0.0, True, True), (0.02, 0.3, False, False)],
)
def test_new_cells_that_look_home_once_show_that_others_use_a_drive_with_a_flash_cache(
    delayed: float, home: float, fits: bool, noisy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """101197 drawn: none of 24 looks before was late, one in ten of these was, and no stretch was watched."""
    for name in ("clear", "write", "_watch"):
        monkeypatch.setattr(half_written_band, name, lambda *_: None)
    ground = Ground(cast(Any, Delayed(delayed, home)), True, False, 8e6, bytes_a_second=(2e8,))
    found, later = half_written_band._place(ground, 1, 40.0, 5.0, {})
    assert (found is not None) is fits
    assert later.noisy is noisy


@pytest.mark.parametrize(
    ("late", "noisy"),
    [((0, 0, 0), False), ((2, 0, 0), True), ((0, 2, 1), True), ((1, 1, 0), False), ((1, 1, 1), True)],
)
def test_other_clients_are_seen_by_more_looks_where_few_of_the_first_are_late(
    late: tuple[int, ...], noisy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """102010 drawn: a tenth of accesses waits for other clients, and none of 24 looks did, so half-written
    bands seemed to take four times as long as others."""
    left = list(late)

    def run(name: str, io: IoBatch, **_: object) -> IoLog:
        took = np.full(len(io), 8_000_000, np.uint64)
        if name.startswith(trials.BASELINE):
            took[1 : 1 + 2 * left.pop(0) : 2] += np.uint64(8_000_000)
        done = np.cumsum(took)
        return IoLog.of(io, done - took, done)

    known = Known([Finding("rotation_ns", 8e6, "ns", None, 1.0, "")])
    monkeypatch.setattr(trials, "volatile", lambda *_, **__: "off")
    steps = SimpleNamespace(run=run, known=known, size=1 << 40, block_bytes=4096)
    steps.reset, steps.rng = lambda _: State.CLEAN, lambda name: np.random.default_rng(len(name))
    ground = trials.begin(cast(Any, steps), SettingsReport(False, False))
    assert ground.noisy is noisy
