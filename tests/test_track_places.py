"""Tracks of places whose size changes, that were moved or lie in a cache, and hops that miss their edge: what
test 2 asks once more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from one_test import suite_on_drawn
from skylight.evidence import EMPTY_LOG, F64, IoBatch, IoLog
from skylight.infer import adjacent_tracks, track_phases, track_size_change
from skylight.infer.minimum_access_time import Reach
from skylight.infer.phase import NONE
from skylight.probe.rotation import Rotation, plan, seeks, track_fit
from skylight.probe.rotation.analysis import Analysis
from skylight.probe.rotation.hop_passes import PAIRS_OF
from skylight.probe.rotation.plan_steps import AROUND, AROUND_PLACES, ONCE_MORE, SAME_AGAIN, TOWARDS
from skylight.probe.rotation.seeks import Curve
from skylight.probe.rotation.track_consistency import (
    led_on,
    led_to,
    off_their_line,
    start_between,
    starts_below,
    starts_below_all,
)
from skylight.probe.rotation.verdict import _not_one_disk, _stroke, _tracks
from skylight.probe.scoring import score
from skylight.probe.suite import infer_suite
from test_rotation import CUT, FINDINGS, TURN_NS, WHOLE, angles, measured, tracks_of


def two_sizes(rng: np.random.Generator, other: float, noise: float = 0.012) -> tuple[F64, F64]:
    """Reads of nine tracks of a megabyte and one behind them of another size; each begins later by a skew."""
    x = rng.uniform(0, 9e6 + other, 450) // 4096 * 4096
    behind = np.maximum(x - 9e6, 0.0) / other
    phase = np.where(x < 9e6, angles(rng, x, 1e6, 0.2, noise), np.mod(9 * 1.2 + behind, 1.0))
    return x, np.mod(phase + np.abs(rng.normal(0, noise, len(x))), 1.0)


class TestSizes:
    @pytest.mark.parametrize("other", [1.06e6, 0.92e6])
    def test_the_last_track_alone_has_another_size(self, rng: np.random.Generator, other: float) -> None:
        """As of a drive whose surfaces differ in density, where the data ends on the first track of one."""
        x, phase = two_sizes(rng, other)
        whole = track_phases.fit_tracks(x, phase, 5e5, 1.3e6)
        assert whole is not None and abs(whole.track_bytes / other - 1) > 0.04
        last = track_size_change.tracks_at(x, phase, whole, float(x.max()))
        first = track_size_change.tracks_at(x, phase, whole, 0.0)
        assert last.track_bytes == pytest.approx(other, rel=0.02)
        assert first.track_bytes == pytest.approx(1e6, rel=0.005)

    def test_tracks_of_one_size_stay_together(self, rng: np.random.Generator) -> None:
        for _ in range(10):
            x, phase = two_sizes(rng, 1e6)
            whole = track_phases.fit_tracks(x, phase, 5e5, 1.3e6)
            assert whole is not None and track_size_change.tracks_at(x, phase, whole, float(x.max())) is whole


@pytest.mark.parametrize("track", [8e5, 1.3e6, 2.3e6])
def test_a_clock_that_ticks_at_the_same_angles_in_each_revolution(
    rng: np.random.Generator, track: float
) -> None:
    """As of a disk of 15,000 rpm by a clock of 1 ms: phases are four stairs a track, which scatter by nothing
    and through which least squares are off by a sixteenth."""
    x = rng.uniform(0, 5.5 * track, 1200) // 4096 * 4096
    phase = np.floor(4 * angles(rng, x, track, 0.19, 0.005)) / 4
    phase[rng.choice(len(x), 9)] = rng.integers(4, size=9) / 4
    found = track_phases.fit_tracks(x, phase, 0.25 * track, 2 * track, 0.25)
    assert found is not None and found.track_bytes == pytest.approx(track, rel=0.03)
    assert abs(found.track_bytes / track - 1) < found.slope_error / found.slope


def test_a_steep_rise_that_noise_of_a_worse_way_would_hide(rng: np.random.Generator) -> None:
    """As of random drive 99483: the arm takes half as long again over 43 tracks as over one."""
    one, other = zip(*((a, b) for base in (0, 21) for b in range(44) if (a := base) != b), strict=True)
    pairs = np.array([*zip(range(43), range(1, 44), strict=True), *zip(one, other, strict=True)])
    apart = np.abs(pairs[:, 0] - pairs[:, 1])
    for _ in range(5):
        times = 948_000 + 68_000 * np.sqrt(apart) + 3_300 * apart + rng.normal(0, 20_000, len(pairs))
        found = adjacent_tracks.next_track(pairs[:, 0], pairs[:, 1], times)
        assert found is not None and found.heads is None
        assert found.ns == pytest.approx(1_020_000, rel=0.03)


def test_a_reach_with_all_reads_on_one_side_is_none() -> None:
    assert seeks.bracketed(Reach(-9e6, 1e6, 255, 0)) is None and seeks.bracketed(None) is None
    assert seeks.bracketed(edge := Reach(1e6, 1.02e6, 255, 0)) is edge


def test_hops_whose_window_misses_the_edge_are_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the first pass was off: all blocks of the finer one come late enough to be caught."""
    monkeypatch.setattr(plan, "EARLIER_NS", -300_000.0)
    evidence, known, truth = measured("1006", tmp_path)
    assert any(step.name == SAME_AGAIN for step in evidence.steps)
    marks = score(Rotation().infer(evidence, known), {name: truth[name] for name in FINDINGS})
    assert "wrong" not in {mark.outcome for mark in marks}
    analysis = Rotation().seen(evidence, []).analysis
    assert analysis is not None and analysis.same_narrow is None and analysis.same is not None


def test_pairs_whose_window_misses_the_edge_are_hopped_between_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a coarse clock, by which the wide pass is off by a tenth of a millisecond: pairs that it has too
    late are all caught in the fine one, and are those that take less than others."""
    rough_times = Analysis.rough_times

    def late(self: Analysis, name: str, pairs: list[tuple[int, int]], count: int) -> F64:
        return rough_times(self, name, pairs, count) + np.where(np.arange(len(pairs)) % 3, 0.0, 250_000.0)

    monkeypatch.setattr(Analysis, "rough_times", late)
    evidence, _, _ = measured("1006", tmp_path)
    analysis = Rotation().seen(evidence, []).analysis
    assert analysis is not None and analysis.near is not None
    for name, found in (("next", analysis.following), ("apart", analysis.apart)):
        again = sum(len(step.rows) for step in evidence.steps if step.name == name + ONCE_MORE)
        pairs = PAIRS_OF[name](analysis.near)
        assert again > 0 and len(found) > 0.9 * len(pairs), name


def reads_at(rng: np.random.Generator, sizes: list[float]) -> IoLog:
    """Reads of 5.5 MB at each of some places, a gigabyte apart, whose tracks have these sizes."""
    places = [rng.uniform(0, 5.5e6, 400) // 4096 * 4096 for _ in sizes]
    phase = np.concatenate([angles(rng, x, size, 0.2, 0.01) for x, size in zip(places, sizes, strict=True)])
    x = np.concatenate([x + 1e9 * number for number, x in enumerate(places)])
    done = ((3 * np.arange(len(x)) + phase) * TURN_NS).astype(np.uint64) + np.uint64(TURN_NS)
    return IoLog.of(IoBatch.reads(x.astype(np.uint64), 4096), done - np.uint64(TURN_NS), done)


@pytest.mark.parametrize(
    ("sizes", "home"),
    [
        ([8e5] * 4, True),
        ([8e5, 8e5, 8e5, 8.4e5], True),
        ([8e5, 8e5, 8.4e5, 8.4e5], False),
        ([8.4e5, 8.4e5, 8e5, 8e5], True),
        ([8e5, 8e5, 7.6e5, 7.6e5], True),
        ([8.4e5] * 4, False),
    ],
)
def test_a_middle_out_of_line_is_at_home_where_tracks_around_are_as_large(
    rng: np.random.Generator, sizes: list[float], home: bool
) -> None:
    """As where surfaces differ in density: what lies farther from the middle is out of line by itself."""
    assert len(sizes) == AROUND_PLACES
    log = reads_at(rng, sizes)
    found = Analysis(lambda name: log if name == AROUND else EMPTY_LOG, 4096, 1 << 40)
    turn = track_fit.Turn(TURN_NS, NONE, 1e-6, 1e-6)
    middle = tracks_of(8e5, WHOLE)
    vars(found).update(middle=middle, middle_in_line=False, turn=turn, near=None, last=None, places=[])
    vars(found).update(sizes_at={"od": None, "md": middle, "id": None}, may_be_moved=False)
    assert found.middle_home is (middle if home else None)
    vars(found).pop("middle_home")
    vars(found).update(middle_in_line=True, may_be_moved=True)
    assert found.middle_home is (middle if home else None)


def places_at(parts: F64, sizes: F64, whole: int) -> list[track_phases.Tracks]:
    """Places at these parts of all addresses, of whole tracks."""
    return [
        replace(tracks_of(size, WHOLE), begin=np.arange(len(WHOLE), dtype=np.float64) * size + part * whole)
        for part, size in zip(parts.tolist(), sizes.tolist(), strict=True)
    ]


@pytest.mark.parametrize(
    ("there", "around", "size"),
    [
        (5.05e5, [7.3e5] * 4, 7.3e5),
        (5.05e5, [7.3e5, 7.3e5, 7.31e5, 5.05e5], 7.3e5),
        (5.05e5, [7.3e5, 7.3e5, 5.05e5, 5.05e5], None),
        (5.05e5, [6.2e5] * 4, None),
        (7.3e5, [], 7.3e5),
    ],
)
def test_tracks_around_a_middle_that_was_moved_alone_are_those_of_the_middle(
    rng: np.random.Generator, there: float, around: list[float], size: float | None
) -> None:
    """As of random drive 102531: of the few tracks that were read in the middle, that under the address lies
    in a cache, and most others do not; those around are bands away, and in line."""
    log = reads_at(rng, around) if around else EMPTY_LOG
    found = Analysis(lambda name: log if name == AROUND else EMPTY_LOG, 4096, 1 << 40)
    turn, tracks = track_fit.Turn(TURN_NS, NONE, 1e-6, 1e-6), tracks_of(there, WHOLE)
    parts = np.array([0.36, 0.43, 0.5, 0.57, 0.64])
    places = places_at(parts, np.array([8.0e5, 7.65e5, there, 6.95e5, 6.6e5]), 1 << 40)
    vars(found).update(middle=tracks_of(7.2e5, WHOLE), turn=turn, near=None, last=None, places=places)
    vars(found).update(sizes_at={"od": None, "md": tracks, "id": None})
    assert found.middle_in_line == (there > 7e5)
    middle = found.middle_home
    assert (middle is None) == (size is None)
    assert middle is None or middle.track_bytes == pytest.approx(size, rel=0.01)


@pytest.mark.parametrize(
    ("off", "moved"), [({}, False), ({4: 0.9}, True), ({14: 0.9, 22: 1.07}, True), ({4: 0.98}, False)]
)
def test_places_that_are_out_of_order_say_that_others_may_be_moved_as_well(
    off: dict[int, float], moved: bool
) -> None:
    """As of random drives 102261 and 102377: the middle was moved by a recording zone, within its line."""
    sizes = np.repeat(np.linspace(2e6, 1e6, 10), 3)
    sizes *= [off.get(number, 1.0) for number in range(30)]
    places = places_at(np.linspace(0.0, 1.0, 30), sizes, 1 << 40)
    for at_home in (0.0, 1.0):
        found = Analysis(lambda _: EMPTY_LOG, 4096, 1 << 40, at_home=at_home)
        vars(found).update(places=places)
        assert found.may_be_moved == (moved and not at_home)


@pytest.mark.parametrize(
    ("start", "scattered", "below"), [(1.24e6, 1 / 3, True), (1.33e6, 1 / 3, False), (1.24e6, 1.0, False)]
)
def test_a_start_below_the_line_of_all_places(start: float, scattered: float, below: bool) -> None:
    """As of random drive 102554: data of the first half was moved about within it, so only the other half is
    in line, and where that leads to at the start tracks hold a tenth more. Where all scatter, as on surfaces
    of different density, the line says nothing."""
    part = np.linspace(0.0, 1.0, 36)
    size = np.sqrt(1.86e12 - 1.41e12 * part)
    size[: int(36 * scattered)] *= np.tile([0.9, 1.02, 0.96, 0.88, 0.99, 1.06], 6)[: int(36 * scattered)]
    assert starts_below_all(part, size, tracks_of(start, WHOLE)) == below


@pytest.mark.parametrize(
    ("before", "pieces", "in_line"), [(3.08e5, WHOLE, False), (3.23e5, WHOLE, True), (2.8e5, [0.3] * 9, True)]
)
def test_whole_tracks_before_a_start_that_was_measured_further_on(
    before: float, pieces: list[float], in_line: bool
) -> None:
    """As of random drive 102298: behind what test 1 wrote lies another surface than at the first address. Of
    pieces of what was written, as of random drive 102242, sizes are no sign."""
    start = replace(tracks_of(3.24e5, WHOLE), begin=np.arange(len(WHOLE), dtype=np.float64) * 3.24e5 + 2.1e9)
    place = tracks_of(before, pieces)
    found = Analysis(lambda _: EMPTY_LOG, 4096, 1 << 37)
    vars(found).update(near=start, places=[start, place], towards_end=(np.zeros(0), np.zeros(0)))
    assert found.start_in_line == in_line


@pytest.mark.parametrize(("behind", "at_home"), [([4.08e5, 4.51e5], False), ([3.5e5, 3.55e5], True)])
def test_a_start_below_the_middle_has_no_zone_of_larger_tracks_close_behind(
    behind: list[float], at_home: bool
) -> None:
    """As of random drive 102453: what lies at the start is in a cache at the inner diameter."""
    found = Analysis(lambda _: EMPTY_LOG, 4096, 1 << 40)
    vars(found).update(near=tracks_of(3.44e5, WHOLE), middle=tracks_of(3.66e5, WHOLE))
    vars(found).update(_behind_start=[tracks_of(size, WHOLE) for size in behind])
    assert found.start_at_home == at_home


@pytest.mark.parametrize(
    ("last", "before", "likely"), [(5.5e5, 5.52e5, True), (5.5e5, 5.7e5, False), (6.4e5, 6.4e5, False)]
)
def test_two_places_before_the_end_that_agree_and_are_in_line(
    last: float, before: float, likely: bool
) -> None:
    """As of random drive 99493, of whose cache each part is for some bands alone, at the middle diameter."""
    part = np.array(TOWARDS)
    size = np.sqrt(744.0**2 - 491e3 * (part - 0.5)) * 1e3
    found = Analysis(lambda _: EMPTY_LOG, 4096, 1000)
    near, middle = tracks_of(8.74e5, WHOLE), tracks_of(7.46e5, WHOLE)
    vars(found).update(
        near=near, middle=middle, last=tracks_of(last, WHOLE), _before=tracks_of(before, WHOLE)
    )
    vars(found).update(towards_end=(part, size))
    assert found.end_is_likely == likely
    assert found.lies_further_out == (last > 6e5)


@pytest.mark.parametrize(
    ("behind", "od"),
    [([9e5, 9e5], 9e5), ([8.82e5, 8.82e5], 8.91e5), ([8.82e5, 9e5], 9e5), ([8.82e5], 8.91e5)],
)
def test_a_start_with_larger_tracks_than_all_behind(behind: list[float], od: float) -> None:
    """As of random drive 99322: what was written at the start lies on a surface with tracks 2 % larger than
    those of the first address. Had a zone ended there, the first address would have the larger ones."""
    start = tracks_of(9e5, WHOLE)
    found = start_between(start, [tracks_of(size, WHOLE) for size in behind])
    assert found.track_bytes == pytest.approx(od, rel=1e-3)
    assert (found.slope_error / found.slope > 0.004) == (od < 9e5)


def test_what_lies_before_the_last_address_leads_on_to_it() -> None:
    """As of random drive 100461, whose last zone begins within the 8 GiB behind where the end was measured:
    of 44 zones each is 2.5 % smaller than the one before at the inner diameter."""
    analysis = Analysis(lambda _: EMPTY_LOG, 4096, (1 << 40) - (5 << 30), end_bytes=5 << 30)
    middle, end = tracks_of(1.916e6, WHOLE), tracks_of(1.187e6, WHOLE)
    vars(analysis).update(near=tracks_of(2.433e6, WHOLE), turn=None)
    vars(analysis).update(sizes_at={"od": None, "md": middle, "id": end})
    found = analysis.sizes()["id"]
    assert found is not None and 0.988 < found.track_bytes / end.track_bytes < 0.994
    assert found.slope_error / found.slope > end.slope_error / end.slope + 5e-4
    analysis.end_bytes = 0
    assert analysis.sizes()["id"] is end


@pytest.mark.parametrize("surfaces", [0.0, 0.03])
def test_the_last_address_may_lie_on_another_surface_than_what_lies_before(
    rng: np.random.Generator, surfaces: float
) -> None:
    """As of drive 103930 drawn: of two surfaces that differ by 6 % the last address is on the other one."""
    part = np.linspace(0.5, 0.99, 27)
    size = 1e6 * np.sqrt(1.0 - 0.7 * part) * (1.0 + rng.choice([-surfaces, surfaces], len(part)))
    size *= 1.0 + rng.normal(0.0, 0.005, len(part))
    off = off_their_line(part, size, [0.005] * len(part))
    assert off == pytest.approx(surfaces, abs=0.015)
    led = led_on(tracks_of(9e5, WHOLE), tracks_of(6e5, WHOLE), 0.01, off)
    assert led.slope_error / led.slope > surfaces / 2


@pytest.mark.parametrize(("density", "known"), [(0.0, True), (0.04, False)])
def test_places_lead_to_the_size_at_the_last_address_where_that_lies_in_a_cache(
    density: float, known: bool
) -> None:
    """As of random drive 100626: the last fiftieth lies in a cache at the middle diameter, and three of the
    places with it. Where surfaces differ in density the line is not known well enough."""
    found = Analysis(lambda _: EMPTY_LOG, 4096, 1000)
    part = np.append(np.array(TOWARDS), np.linspace(0.5, 1.0, 15))
    size = np.sqrt(947.0**2 - 869e3 * (part - 0.5)) * 1e3 * (1.0 + density * np.cos(7.0 * np.arange(27)))
    size[-3:] = 9.35e5
    near, middle, last = (tracks_of(each, WHOLE) for each in (1.135e6, 9.47e5, 9.35e5))
    vars(found).update(near=near, middle=middle, last=last, _before=last, places=[], stripe=None)
    vars(found).update(turn=NONE, towards_end=(part, size))
    sizes = {"od": near, "md": middle, "id": last}
    vars(found).update(sizes=lambda: dict(sizes), sizes_at=sizes, _behind_start=[])
    assert found.end_at_home == 0.0
    for shingled in (False, True):
        tracks = _tracks(found, shingled=shingled).value
        assert isinstance(tracks, dict) == (known and shingled)
        if isinstance(tracks, dict):
            assert float(tracks["id"]) == pytest.approx(6.8e5, rel=0.01)


def test_places_lead_to_the_size_at_the_end_with_an_error_that_holds() -> None:
    rng = np.random.default_rng(7)
    part = np.append(np.array(TOWARDS), np.linspace(0.5, 0.97, 12))
    off = list[float]()
    for _ in range(50):
        size = np.sqrt(9e5 - 8e5 * (part - 0.5)) * 1e3 * (1.0 + 0.005 * rng.standard_normal(len(part)))
        found, error = led_to(part, size)
        off.append((found - np.sqrt(5e5) * 1e3) / error)
    assert 0.2 < float(np.std(off)) < 1.0


def test_whole_tracks_of_all_bands_are_taken_where_bands_are_short() -> None:
    turns = [0.4, 1.0, 1.0, 0.3] * 5
    tracks = tracks_of(1e6, turns)
    assert seeks.are_in_short_bands(tracks)
    assert seeks.whole_tracks(tracks) == [piece for piece, part in enumerate(turns) if part == 1.0]
    assert seeks.next_pairs(tracks) == [(4 * band + 1, 4 * band + 2) for band in range(5)]


def test_a_run_no_longer_than_a_cylinder_is_high_is_held_against_all_bands() -> None:
    """As of random drive 100574, whose bands are 8.2 tracks on cylinders of 15 heads: within a band hardly
    any pair shows the arm's step, from band to band all do."""
    tracks = tracks_of(1e6, [1.0] * 8 + [0.2] + ([1.0] * 7 + [0.2]) * 4)
    whole = seeks.whole_tracks(tracks)
    assert len(seeks.longest_run(tracks)) in (7, 8) and len(whole) == 36
    assert {one for one, _ in seeks.apart_pairs(tracks)} <= set(seeks.longest_run(tracks))

    def times(pairs: list[tuple[int, int]]) -> dict[tuple[int, int], float]:
        return {(one, other): 1.64e6 if one // 15 != other // 15 else 5.5e5 for one, other in pairs}

    following, apart = times(seeks.next_pairs(tracks)), times(seeks.apart_pairs(tracks))
    found = seeks.step_of(tracks, following, apart)
    assert found is not None and found.ns == pytest.approx(1.64e6) and found.switch_ns == pytest.approx(5.5e5)


@pytest.mark.parametrize(
    ("inner", "scatter", "at_home", "whole"),
    [
        (1.05e6, 0.0, 0.0, 1 / 0.95),
        (0.98e6, 0.0, 0.0, 1.0),
        (1.4e6, 0.0, 0.0, None),
        (1.05e6, 0.15, 0.0, None),
        (1.4e6, 0.0, 1.0, 1.0),
    ],
)
def test_sizes_of_tracks_say_how_much_of_the_stroke_was_seen(
    inner: float, scatter: float, at_home: float, whole: float | None
) -> None:
    """As of random drives 100472, 100626 and 100656: what was written last lies in a cache, but the farthest
    of the places before are nearly as far in as the last address."""
    found, part = Analysis(lambda _: EMPTY_LOG, 4096, 1 << 40), np.array(TOWARDS)
    size = np.sqrt(4e12 - 3e12 * part) * (1 + scatter * np.where(np.arange(len(part)) % 2, 1, -1))
    vars(found).update(towards_end=(part, size), near=tracks_of(2e6, WHOLE))
    vars(found).update(places=[tracks_of(2e6, WHOLE), tracks_of(inner, WHOLE)])
    stars = [(0, np.array([0.0, 2e7])), (1, np.array([2e7, 0.0]))]
    vars(found).update(_ends_at_home=at_home, _starts_at_home=True, stars=stars)
    curve = Curve(1e6, 9e6, 8e6, np.zeros(0), 0.0, (0.0, 0.0))
    stroke = _stroke(found, curve)
    assert (stroke is None) == (whole is None)
    if stroke is not None and whole is not None:
        assert stroke.whole == pytest.approx(whole, rel=0.01)
        assert stroke.longer == pytest.approx(float(curve.ns(whole) / curve.ns(1.0)), rel=0.01)
        assert stroke.error < 0.01


@pytest.mark.parametrize(
    ("before", "off", "at_home", "moved"),
    [
        (1.29e6, {}, 0.0, True),
        (1.05e6, {}, 0.0, False),
        (1.05e6, dict.fromkeys(range(0, 21, 3), 0.7), 0.0, True),
        (1.05e6, {4: 0.7, 11: 0.7, 15: 0.7}, 0.0, False),
        (1.29e6, dict.fromkeys(range(0, 21, 3), 0.7), 1.0, False),
    ],
)
def test_tracks_far_out_of_order_are_no_recording_zones(
    before: float, off: dict[int, float], at_home: float, moved: bool
) -> None:
    """As of random drives 100203 and 100586, which place data anywhere within half of their addresses: tracks
    1 GiB before the last address were larger by a half, and by 29 %."""
    found = Analysis(lambda _: EMPTY_LOG, 4096, 1 << 40, at_home=at_home)
    sizes = [size * off.get(number, 1.0) for number, size in enumerate(np.linspace(2e6, 1e6, 21))]
    places = [
        replace(tracks_of(size, WHOLE), begin=np.arange(9) * size + number * 5e10)
        for number, size in enumerate(sizes)
    ]
    vars(found).update(last=tracks_of(1e6, WHOLE), _before=tracks_of(before, WHOLE), places=places)
    assert found.is_moved_about == moved


def test_pairs_that_seem_to_take_less_than_no_time_are_misread() -> None:
    """As of random drive 100378: some ways take the few such pairs for those of the arm, whose logarithm is
    then no number."""
    tracks, rng = tracks_of(1e6, WHOLE * 5), np.random.default_rng(1)
    following, apart = (
        {pair: 9.5e5 + rng.normal(0, 6e4) for pair in pairs}
        for pairs in (seeks.next_pairs(tracks), seeks.apart_pairs(tracks))
    )
    apart |= {(0, 5): -6.7e5, (0, 6): -7.4e5}
    found = seeks.step_of(tracks, following, apart)
    assert found is not None and found.ns == pytest.approx(9.5e5, rel=0.05)


@pytest.mark.parametrize(
    ("last", "in_range", "is_one"), [(1e6, False, False), (1e6, True, True), (7.3e5, False, True)]
)
def test_tracks_as_large_at_the_end_as_at_the_start_are_no_disk_s(
    last: float, in_range: bool, is_one: bool
) -> None:
    """As of a log that keeps all blocks in one place; a range of a drive may have one size all over."""
    found = Analysis(lambda _: EMPTY_LOG, 4096, 1 << 40)
    vars(found).update(near=tracks_of(1e6, WHOLE), middle=tracks_of(1e6, WHOLE), last=tracks_of(last, WHOLE))
    vars(found).update(places=[])
    assert (_not_one_disk(found, in_range, is_cut_up=False) is None) == is_one


@pytest.mark.parametrize(
    ("off", "last", "in_flash", "at_home", "logged"),
    [
        (-0.5, WHOLE, 0.0, 0.0, False),
        (-0.5, WHOLE, 0.88, 0.88, False),
        (1.2, WHOLE, 0.88, 0.0, False),
        (0.0, CUT, 0.0, 1.0, True),
        (0.0, CUT, 0.88, 0.88, False),
        (0.0, WHOLE, 0.88, 1.0, False),
    ],
)
def test_where_what_is_cached_is_in_flash_the_end_lies_in_no_cache(
    off: float, last: list[float], in_flash: float, at_home: float, logged: bool
) -> None:
    """As of random drives 100826 and 100965: as sure as the flash. Larger tracks are out of line anyway."""
    found = Analysis(lambda _: EMPTY_LOG, 4096, 1 << 40, in_flash=in_flash)
    end = tracks_of(6e5, last)
    vars(found).update(near=tracks_of(1e6, WHOLE), middle=tracks_of(8e5, WHOLE), last=end, _before=end)
    vars(found).update(_off_line=off, _starts_at_home=True)
    assert found.end_at_home == at_home
    assert found.ends_in_log == logged


@pytest.mark.parametrize(
    ("start", "scatter", "places", "moved"),
    [
        (4.41e5, 0.0, 12, True),
        (4.41e5, 0.02, 12, True),
        (4.80e5, 0.0, 12, False),
        (4.41e5, 0.10, 12, False),
        (4.41e5, 0.0, 7, False),
    ],
)
def test_a_start_far_below_the_line_of_places_was_moved(
    start: float, scatter: float, places: int, moved: bool
) -> None:
    """As of random drive 101052: of 30 places only the two with the largest tracks hold a tenth more than the
    start, which others had filled; a zone more, and surfaces of different density, are no sign."""
    whole = 1 << 40
    part = np.linspace(0.05, 0.49, places)
    size = np.sqrt(2.6e11 - 2.1e11 * part) * (1 + scatter * np.where(np.arange(places) % 2, 1, -1))
    found = [
        replace(tracks_of(float(each), WHOLE), begin=np.array([at * whole]))
        for at, each in zip(part, size, strict=True)
    ]
    assert starts_below(found, whole, tracks_of(start, WHOLE)) == moved


@pytest.mark.parametrize(("seed", "walk"), [(100704, "cylinders of 20 heads"), (101166, "strokes")])
def test_the_arm_s_step_is_looked_for_further_on(seed: int, walk: str, tmp_path: Path) -> None:
    """At the start of 100704 a single pair of tracks is a cylinder apart; that of 101166 has eighteen tracks,
    amid which a stroke ends, as cylinders of seven heads might."""
    result = suite_on_drawn(seed, tmp_path / "r", only=("rotation",))
    seek = next(finding for finding in result.findings if finding.name == "seek_ns")
    assert isinstance(seek.value, dict) and walk in seek.why
    assert any(row.startswith(("2-gib-on-", "5-gib-on-")) for row in seek.rows)
    step = {100704: 722_999, 101166: 1_199_999}[seed]
    assert abs(float(seek.value["track"]) / step - 1) < 0.1
    assert infer_suite(tmp_path / "r").findings == result.findings
