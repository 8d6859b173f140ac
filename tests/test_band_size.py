"""Test 9 against emulated drives: bands are found to the MiB at all three places, or unknown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from one_test import drawn_truth, known_of, run, run_drawn, truth_of
from skylight import _native
from skylight.engines.sim import read_profile
from skylight.evidence import F64, I64, Evidence, IoBatch, IoLog
from skylight.findings import UNKNOWN, Finding, Known
from skylight.infer import stalls
from skylight.infer.priors import CHOSEN
from skylight.probe.band_size import (
    BandSize,
    Seen,
    cache_parts,
    cleaned_or_cached,
    declared_zones,
    journaled,
    random_order,
    verdict,
)
from skylight.probe.band_size.cleaned_or_cached import Fresh, stretch
from skylight.probe.band_size.declared_zones import Declared
from skylight.probe.band_size.journaled import MIB, WIDER, Band, Region, again_region
from skylight.probe.band_size.journaled import _band as band_of
from skylight.probe.band_size.verdict import at_place
from skylight.probe.known_state import State
from skylight.probe.procedure import Replay, Steps
from skylight.probe.rotation.findings import STRIPED, TRACK


@pytest.mark.parametrize("way", ["", STRIPED])
def test_an_array_shows_no_band_of_its_disks(way: str) -> None:
    """`raid0-smr` and `raid5-smr`, of `bench/foreign`, had bands of two disks for one."""
    bands = [cache_parts.PartBand(place, 80 * MIB, 6, None) for place in cache_parts.PLACES]
    steps = SimpleNamespace(known=Known([TRACK.unknown("as seen", way=way)]), names=("evenly",), size=1 << 40)
    [found] = BandSize().verdict(Seen(True, "cache-bands", part_bands=bands), cast(Replay, steps))
    assert found.known is (way != STRIPED)


@pytest.mark.parametrize(
    "name", ["emulated-smr-1", "emulated-smr-2", "emulated-smr-3", "st5000as0011", "st8000as0011"]
)
def test_bands_of_the_papers_drives(name: str, tmp_path: Path) -> None:
    """Row S9a: exact, at the first, middle and last address."""
    toml = read_profile(name)[0]
    truth = truth_of(toml)
    findings, evidence = run(BandSize(), toml, known_of(truth, without=("band_bytes",)), tmp_path / "r")
    assert findings[0].value == truth["band_bytes"]["value"]
    assert BandSize().draw(evidence, findings)


@pytest.mark.parametrize("kind", ["set-associative", "fully-associative", "journaled"])
def test_bands_of_drives_nobody_tuned_to(kind: str, tmp_path: Path) -> None:
    """Never off by more than the granularity, and unknown seldom."""
    unknown = 0
    for seed in range(1900, 1908):
        toml = _native.random_profile(seed, kind)
        truth = truth_of(toml)
        known = known_of(truth, without=("band_bytes",))
        (finding,), _ = run(BandSize(), toml, known, tmp_path / str(seed))
        if finding.value == UNKNOWN:
            unknown += 1
            continue
        assert isinstance(finding.value, dict)
        true = truth["band_bytes"]["value"]
        assert isinstance(true, dict)
        for place, size in true.items():
            assert abs(float(finding.value[place]) - float(size)) <= MIB, (kind, seed, place)
    assert unknown <= 1


LAZY_HOST_AWARE = (120007, 120011, 120073, 120066)
"""Zones of 55, 404, 1,050 and 32 MiB; few zones with a write pointer; places that writes use up a few at a
time."""


@pytest.mark.parametrize("known", [(), ("cache_fill_bytes", "cleaning_type")])
@pytest.mark.parametrize("seed", LAZY_HOST_AWARE)
def test_declared_zones_of_a_lazy_drive_are_its_bands(
    seed: int, known: tuple[str, ...], tmp_path: Path
) -> None:
    """With one filling of its cache, whether its size is known or not."""
    toml = _native.random_profile(seed, "host-aware")
    truth = truth_of(toml)
    known_before = known_of(truth, without=("band_bytes", *known))
    findings, evidence = run(BandSize(), toml, known_before, tmp_path / "r", in_zones=True)
    assert findings[0].value == truth["band_bytes"]["value"]
    assert findings[0].confidence > 0.95
    assert BandSize().draw(evidence, findings)


@pytest.mark.parametrize("factor", [0.5, 2.0])
@pytest.mark.parametrize("seed", [120007, 120066])
def test_zones_that_are_not_the_bands_are_refused(
    seed: int, factor: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drive that cleans more than a zone together, or less, is unknown."""

    def find(steps: Steps) -> Declared:
        zones = steps.zones("zones")
        assert zones is not None
        size, usable = round(zones.zone_bytes * factor), int(zones.usable / factor)
        other = replace(zones, zone_bytes=size, capacity_bytes=size, usable=usable)
        return Declared(size, declared_zones.looked_at(steps, other))

    toml = _native.random_profile(seed, "host-aware")
    known = known_of(truth_of(toml), without=("band_bytes",))
    monkeypatch.setattr(declared_zones, "find", find)
    (finding,), evidence = run(BandSize(), toml, known, tmp_path / "r", in_zones=True)
    assert evidence.step(f"{declared_zones.NAME}-after") is not None
    assert finding.value == UNKNOWN


def older_stalls(rng: np.random.Generator, log: int, twice: float) -> I64:
    """Latencies of writes to a zone that holds older data: each log that comes free takes so many, some come
    free two at once, as many stalls precede as bands are cleaned, and other clients delay a tenth."""
    parts = []
    for _ in range(40):
        taken = log * (1 + int(rng.random() < twice))
        parts += [rng.integers(1_500, 4_000, rng.integers(1, 9)), rng.integers(10, 40, taken - 1)]
    latency_ns = np.concatenate(parts) * 1_000_000
    return latency_ns + (rng.random(len(latency_ns)) < 0.1) * rng.integers(20_000_000, 120_000_000)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("log", [8, 28, 512])
def test_what_is_given_back_shows_whatever_was_cleaned_for_it(log: int, seed: int) -> None:
    found = stalls.refills(older_stalls(np.random.default_rng(seed), log, 0.2))
    assert found is not None
    assert found.period == log


@pytest.mark.parametrize("seed", range(5))
def test_delays_by_others_give_nothing_back(seed: int) -> None:
    rng = np.random.default_rng(seed)
    latency_ns = rng.integers(10, 40, 4_000) + (rng.random(4_000) < 0.02) * rng.integers(500, 4_000, 4_000)
    assert stalls.refills(latency_ns * 1_000_000) is None


def test_distances_that_are_multiples_of_anything_show_no_log() -> None:
    """Half of them are one distance; any number of writes is three such, give or take three."""
    others = np.random.default_rng(7).integers(15, 40, 10)
    distances = np.stack([others, np.full(10, 5)], axis=1).ravel()
    slow = np.cumsum(np.append(8, distances))
    latency_ns = np.full(slow[-1] + 1, 10_000_000)
    latency_ns[slow] = 400_000_000
    assert stalls.refills(latency_ns) is None


@pytest.mark.parametrize(("last", "confidence"), [(28, CHOSEN["one band"]), (24, 0.0)])
def test_what_older_data_gives_back_may_be_several_bands(last: int, confidence: float) -> None:
    bands = [
        cache_parts.PartBand(place, size * MIB, 12, None, older=True)
        for place, size in zip(("od", "md", "id"), (28, 28, last), strict=True)
    ]
    found = verdict.of_cache_parts(bands, ())
    assert found.confidence == pytest.approx(confidence, rel=1e-2)
    assert "several" in found.why and "none missing" not in found.why


def test_a_conventional_drive_has_no_bands(tmp_path: Path) -> None:
    """A property that a drive cannot have is absent, and nothing is done to it."""
    toml = read_profile("st4000nc001")[0]
    findings, evidence = run(BandSize(), toml, known_of(truth_of(toml)), tmp_path / "r")
    assert findings == [] and evidence.steps == []


def test_evidence_that_ends_early_says_nothing(tmp_path: Path) -> None:
    """A cut recording is unknown, wherever it was cut, and says how to go on."""
    toml = read_profile("st5000as0011")[0]
    known = known_of(truth_of(toml), without=("band_bytes",))
    _, evidence = run(BandSize(), toml, known, tmp_path / "r")
    for steps in range(1, len(evidence.steps), 4):
        cut = Evidence(evidence.test, evidence.target, evidence.steps[:steps])
        (finding,) = BandSize().infer(cut, known)
        assert finding.value == UNKNOWN and "--resume" in finding.why


def test_a_row_of_stalls_is_told_from_outliers_and_multiples() -> None:
    """The period is that of all stalls, however many slow writes lie between."""
    rng = np.random.default_rng(3)
    latency = 10_000_000 + rng.integers(0, 300_000, 4000)
    latency[rng.choice(4000, 30, replace=False)] += rng.integers(10_000_000, 200_000_000, 30)
    assert stalls.periodic(latency) is None
    latency[137::61] += 400_000_000
    found = stalls.periodic(latency)
    assert found is not None and (found.first, found.period) == (137, 61)


def test_a_stretch_survives_one_outlier_and_ends_at_the_edges() -> None:
    """One block that reads late inside the band does not cut it."""
    weights = np.array([-4.0, -4, 3, 3, -4, 3, 3, 3, -4, -4, 1, -4])
    assert stretch(weights, 5) == (2, 8)
    fresh = Fresh.of(np.full(4, 5e6), np.full(4, 5.1e6), 10e6)
    weighed = fresh.weights(np.array([5.05e6, 5.1e6, 9e6, 205e6]))
    assert np.all(weighed[:2] > 2) and np.all(weighed[2:] < -3)


def test_what_comes_between_two_reads_costs_whole_turns() -> None:
    """A block that comes two revolutions late is where it was; one that comes half of one late is not."""
    first = np.array([5_000_001.0, 5_000_002.0, 5_000_000.0, 5_000_003.0])
    fresh = Fresh.of(first, first + np.array([0, 0, 10e6, 0]), 10e6)
    assert np.all(fresh.delay_ns == first)
    weighed = fresh.weights(first + np.array([20e6, 0.0, 5e6, 25e6]))
    assert np.all(weighed[:2] > 1) and np.all(weighed[2:] < -3)


def test_a_coarse_clock_blurs_where_blocks_lie() -> None:
    """By whole ticks two readings agree for nothing: a tick more is no other place."""
    fresh = Fresh.of(np.array([5e6, 6e6, 8e6]), np.array([5e6, 6e6, 8e6]), 10e6)
    assert fresh.noise_ns > 4e5
    assert np.all(fresh.weights(np.array([6e6, 6e6, 7e6])) > 0)


def test_means_of_coarse_readings_are_no_surer_than_their_ticks(rng: np.random.Generator) -> None:
    """Of drive 99516 drawn half of the means of three readings were equal, the rest a third of a tick off."""
    one = rng.uniform(2e6, 9e6, 600)
    fresh = Fresh.of(one, one + np.where(np.arange(600) % 20 < 9, 1e6 / 3, 0.0), 10e6)
    assert fresh.noise_ns > 3e5 and fresh.weights(one + 4e5).min() > 0


def test_a_row_of_stalls_is_found_among_many_delays() -> None:
    """Other clients delay a tenth of all writes, by less than a stall."""
    rng = np.random.default_rng(5)
    latency = 10_000_000 + rng.integers(0, 300_000, 4000)
    latency[rng.random(4000) < 0.1] += 30_000_000
    assert stalls.periodic(latency) is None
    latency[137::361] += 900_000_000
    found = stalls.periodic(latency)
    assert found is not None and (found.first, found.period) == (137, 361)


@pytest.mark.parametrize(("low", "high", "told"), [(591, 700, False), (600, 700, True), (0, 100, True)])
def test_a_band_that_is_no_whole_number_of_its_size_behind_the_start_was_misread(
    low: int, high: int, told: bool
) -> None:
    """Of drive 97602 drawn, whose bands have 100 MiB, each of two near the start had an edge misread."""
    bands = [Band("od", 0, 105 * MIB, 1.65), Band("od", low * MIB, high * MIB, 2.21)]
    found = at_place("od", bands, 1 << 40)
    assert (found is not None and found.size == 100 * MIB) if told else found is None


@pytest.mark.parametrize("rotation_ns", [4.348e6, 8.331e6])
def test_by_a_coarse_clock_several_readings_tell_more(rotation_ns: float, rng: np.random.Generator) -> None:
    """A tick of a millisecond blurs a single delay by a tenth of a short revolution: of drive 99239 drawn the
    edges of two bands in three were weak."""
    count, tick_ns = 2_000, 1e6
    cached = np.arange(count) % 2 == 1
    home_ns = rng.uniform(1.0, 2.0, count) * rotation_ns
    now_ns = np.where(cached, rng.uniform(0.0, 3.0, count) * rotation_ns, home_ns)

    def told(times_read: int) -> tuple[float, float]:
        """How far apart the weights of both are on average, and how many native blocks look cached."""

        def read(delay_ns: F64) -> F64:
            begin_ns = rng.uniform(1e9, 2e9, (times_read, count))
            ticks = np.floor((begin_ns + delay_ns) / tick_ns) - np.floor(begin_ns / tick_ns)
            return cleaned_or_cached.middle_of(list(ticks * tick_ns), rotation_ns)

        weights = Fresh.of(read(home_ns), read(home_ns), rotation_ns).weights(read(now_ns))
        apart = weights[~cached].mean() - weights[cached].mean()
        return float(apart), float(np.mean(weights[~cached] < 0))

    enough = cleaned_or_cached.times(home_ns // tick_ns * tick_ns, rotation_ns)
    apart, looks_cached = told(enough)
    assert apart > told(1)[0] + 0.8
    assert looks_cached < 0.03


def test_a_host_that_makes_readings_late_does_not_move_blocks(rng: np.random.Generator) -> None:
    """As of st5000as0011, served by a busy machine: of two readings each a sixth came late, and a band of
    which a block had no place was never seen to be cleaned."""
    count, turn_ns = 3_000, 10e6
    home_ns = rng.uniform(0.0, 1.0, count) * turn_ns
    cached = np.arange(count) % 2 == 1

    def read(delay_ns: F64) -> F64:
        late = rng.random(len(delay_ns)) < 1 / 6
        return (
            delay_ns + rng.normal(0, 5e4, len(delay_ns)) + late * rng.uniform(-0.5, 0.5, len(delay_ns)) * 1e7
        )

    one, again = read(home_ns), read(home_ns)
    at = cleaned_or_cached.unsettled(one, again, turn_ns)
    assert 0.2 < len(at) / count < 0.4
    now_ns = np.where(cached, rng.uniform(0.0, 3.0, count) * turn_ns, read(home_ns))
    plain = Fresh.of(one, again, turn_ns).weights(now_ns)
    one[at], again[at] = cleaned_or_cached.nearest_two(one[at], again[at], read(home_ns[at]), turn_ns)
    settled = replace(Fresh.of(one, again, turn_ns), astray=len(at) / (2 * count)).weights(now_ns)
    assert np.mean(plain[~cached] < 0) > 0.35
    assert np.mean(settled[~cached] < 0) < 0.25, "a sixth of the last reading, and a few that stay open"
    assert settled[~cached].mean() > plain[~cached].mean() + 1.0
    assert settled[cached].mean() < -1.0


def drawn(rng: np.random.Generator, points: I64, sizes: list[tuple[int, int]], misread: float) -> F64:
    """Weights of a grid as bands of (size, up to) cleaned by lot give them, some read wrongly."""
    weights = np.zeros(len(points))
    begin = int(points[0])
    for size, end in sizes:
        inside = (points >= begin) & (points < end)
        piece = (points[inside] - begin) // size
        clean = rng.random(int(piece.max()) + 1) < 0.45
        weights[inside] = np.where(clean[piece], 6.0, -6.0)
        begin = end
    return np.where(rng.random(len(points)) < misread, -weights, weights)


@pytest.mark.parametrize("band", [4, 9, 23, 40, 113, 160, 256])
@pytest.mark.parametrize("seed", range(3))
def test_bands_cleaned_by_lot_are_cut_right(band: int, seed: int) -> None:
    """A coarse look and finer ones are sure of the size to the MiB, though some is misread."""
    rng = np.random.default_rng(100 * band + seed)
    window = random_order.windows(1 << 40)[0]
    sizes = [(band * MIB, int(window[1][-1]) + 2 * MIB)]
    looks = [(window[1], drawn(rng, window[1], sizes, 0.02))]
    found = random_order.fit("od", looks)
    for _ in range(random_order.FINE_ROUNDS):
        fine = random_order.finer(window, found)[1]
        looks.append((fine, drawn(rng, fine, sizes, 0.02)))
        found = random_order.fit("od", looks)
        if found.margin >= random_order.SURE:
            break
    assert found.margin >= random_order.SURE and found.size == band * MIB, (found, seed)


@pytest.mark.parametrize("seed", range(3))
def test_each_fine_look_is_at_another_part_of_a_window(seed: int) -> None:
    """As of random drive 100648, which as new cleans the same bands again: those of the first part that is
    looked at finely were hardly any."""
    window = random_order.windows(1 << 40)[1]
    begin, first = int(window[1][0]), random_order.finer(window, random_order.Fit("md", 9 * MIB, 0, 0.0))[1]
    bands = np.random.default_rng(seed).random(400) < 0.45
    fine = first[np.isin(first, window[1], invert=True)]
    bands[(fine.min() - begin) // (9 * MIB) : (fine.max() - begin) // (9 * MIB) + 1] = False

    def weights(points: I64) -> F64:
        return np.where(bands[(points - begin) // (9 * MIB)], 6.0, -6.0)

    looks = [(window[1], weights(window[1]))]
    for number in range(1, random_order.FINE_ROUNDS + 1):
        points = random_order.finer(window, random_order.fit("md", looks), number)[1]
        looks.append((points, weights(points)))
    found = random_order.fit("md", looks)
    assert found.margin >= random_order.SURE and found.size == 9 * MIB


def test_a_grid_that_a_small_cache_does_not_hold_is_written_a_place_at_a_time(tmp_path: Path) -> None:
    """Random drive 100568 has 479 slots of its cache; where nothing waits together each block takes one."""
    toml = _native.random_profile(100568, "journaled").replace("queue_depth = 31", "queue_depth = 1")
    truth = truth_of(toml)
    (found,), evidence = run(BandSize(), toml, known_of(truth, without=("band_bytes",)), tmp_path / "r")
    assert found.value == truth["band_bytes"]["value"]
    assert any(step.name == "lots-md-grid" for step in evidence.steps)


def test_slow_writes_are_no_small_cache(tmp_path: Path) -> None:
    """On random drive 99355 a write takes 20 ms, and the cache holds ten times as many."""
    known = known_of(drawn_truth(99355, "journaled"), without=("band_bytes",))
    (found,), evidence = run_drawn(BandSize(), 99355, "journaled", known, tmp_path / "r")
    assert found.value == dict.fromkeys(("od", "md", "id"), 4 * MIB)
    assert not any(step.name == "lots-md-grid" for step in evidence.steps)


def test_many_bands_that_contradict_each_other_are_not_looked_at_as_in_no_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of two drives behind one another, whose pieces fit some size at each place by chance."""
    bands = [Band("md", at << 30, (at << 30) + at * MIB, 6.0) for at in range(4, 9)]
    monkeypatch.setattr(journaled, "find", lambda _: (bands, False))
    toml = _native.random_profile(100575, "journaled")
    (found,), evidence = run(
        BandSize(), toml, known_of(truth_of(toml), without=("band_bytes",)), tmp_path / "r"
    )
    assert found.value == UNKNOWN and not any(step.name.startswith("lots") for step in evidence.steps)


def test_what_could_not_be_steered_is_looked_at_as_in_no_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of random drive 100575 behind a queue of one, whose cache was full amid the grid."""
    monkeypatch.setattr(journaled, "find", lambda _: ([], False))
    toml = _native.random_profile(100575, "journaled")
    truth = truth_of(toml)
    (found,), _ = run(BandSize(), toml, known_of(truth, without=("band_bytes",)), tmp_path / "r")
    assert found.value == truth["band_bytes"]["value"]


def fits_of(band: int, zone_bytes: int) -> list[random_order.Fit]:
    """The cuts, at all places, of looks at bands that begin where zones do."""
    fits = []
    for number, (place, points) in enumerate(random_order.windows(3 * 128 * band * MIB)):
        rng = np.random.default_rng(number)
        edge = (int(points[0]) // (band * MIB) + 1) * band * MIB
        sizes = [(band * MIB, edge), (band * MIB, int(points[-1]) + 2 * MIB)]
        looks, grid = list[tuple[I64, F64]](), points
        for _ in range(random_order.FINE_ROUNDS + 1):
            looks.append((grid, drawn(rng, grid, sizes, 0.01)))
            found = random_order.fit(place, looks, zone_bytes)
            grid = random_order.finer((place, points), found)[1]
        fits.append(found)
    return fits


@pytest.mark.parametrize("band", [450, 692])
def test_a_half_of_a_band_is_no_band(band: int) -> None:
    """Halves explain what went home nearly as well (host-aware, seed 120368: 346 MiB of zones of 692)."""
    fits = fits_of(band, band * MIB)
    assert [fit.size for fit in fits] == [band * MIB] * 3 and all(fit.are_zones for fit in fits)
    assert verdict.of_fits(fits, ()).value == dict.fromkeys(cache_parts.PLACES, band * MIB)
    without = fits_of(band, 0)
    assert not any(fit.are_zones for fit in without)
    assert not verdict.of_fits(without, ()).known, "past the largest that counts"


def test_zones_that_are_not_the_bands_are_no_finding() -> None:
    """The drive's word is tried, and what went home says otherwise."""
    fits = fits_of(113, 500 * MIB)
    assert not any(fit.are_zones for fit in fits)
    assert {fit.size for fit in fits} == {113 * MIB}


def test_a_cut_of_weights_that_say_nothing_is_not_sure() -> None:
    """Blocks that went home one by one, or that were misread at random, are no bands."""
    unsure = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        points = random_order.windows(1 << 40)[0][1]
        unsure += (
            random_order.fit("od", [(points, rng.choice([-6.0, 6.0], len(points)))]).margin
            < random_order.SURE
        )
    assert unsure == 8


@pytest.mark.parametrize(
    ("sizes", "known"),
    [
        ((64, 64, 64), True),
        ((64, 30, 3), True),
        ((2, 2, 2), False),
        ((64, 64, 2), False),
        ((400, 64, 64), False),
    ],
)
def test_a_size_at_the_end_of_the_search_is_no_size(sizes: tuple[int, ...], known: bool) -> None:
    fits = [
        random_order.Fit(place, size * MIB, 0, 30.0)
        for place, size in zip(cache_parts.PLACES, sizes, strict=True)
    ]
    assert verdict.of_fits(fits, ()).known == known


@pytest.mark.parametrize(
    ("seed", "aside", "below", "above"),
    [(6, -480, 85, 60), (7, 0, 85, 60), (8, 480, 85, 60), (105, -60, 63, 58)],
)
def test_bands_that_change_near_the_middle_are_told_apart(
    seed: int, aside: int, below: int, above: int
) -> None:
    """The band of the middle address is of the stretch that it is in, wherever in the window that ends; where
    two borders explain the bands beside them, it is that at the middle."""
    size = 1 << 40
    rng = np.random.default_rng(seed)
    place, points = random_order.windows(size)[1]
    middle = size // 2 // MIB * MIB
    border = middle + aside * MIB
    sizes = [(below * MIB, border), (above * MIB, int(points[-1]) + 2 * MIB)]
    looks = [(points, drawn(rng, points, sizes, 0.01))]
    for _ in range(2):
        fine = random_order.finer((place, points), random_order.fit(place, looks))[1]
        looks.append((fine, drawn(rng, fine, sizes, 0.01)))
    assert random_order.fit_middle(looks, middle).size == (below if aside > 0 else above) * MIB


def test_an_edge_that_the_fine_grid_misses_is_no_edge() -> None:
    """The wide grid took the neighbour's last block for one of the band: the band's own edge was not read."""
    points = np.array([*range(438, 451), 600, *range(686, 699)]) * MIB
    region = Region("od", 600 * MIB, points)
    home = (points >= 460 * MIB) & (points < 690 * MIB)
    assert band_of(region, np.where(home, 12.0, -12.0), 1 << 40) is None
    moved = Region("od", 600 * MIB, np.where(points < 600 * MIB, points + 16 * MIB, points))
    home = (moved.points >= 460 * MIB) & (moved.points < 690 * MIB)
    found = band_of(moved, np.where(home, 12.0, -12.0), 1 << 40)
    assert found is not None and found.size == 230 * MIB


@pytest.mark.parametrize(("last", "known"), [(24, True), (26, True), (48, False)])
def test_bands_that_grow_towards_the_id_are_several_cleaned_together(last: int, known: bool) -> None:
    """As of 103809 drawn, where two bands of 24 MiB at the last address passed for one, at 0.95."""
    size = 1 << 40
    at = {"od": (0, 27), "md": (size // 2 // MIB - 5, 26), "id": (size // MIB - 600, last)}
    bands = [
        Band(place, low * MIB + far * 2 * each * MIB, low * MIB + (2 * far + 1) * each * MIB, 9.0)
        for place, (low, each) in at.items()
        for far in (0, 1)
    ]
    assert verdict.of_bands(bands, size, ()).known is known


def test_bands_of_three_sizes_are_no_size() -> None:
    """At one address two bands have to agree, or there has to be one only."""
    bands = [Band("od", 0, size * MIB, 9.0) for size in (230, 90, 180)]
    assert at_place("od", bands, 1 << 40) is None
    for some in (bands[:1], [*bands, bands[0]]):
        found = at_place("od", some, 1 << 40)
        assert found is not None and found.size == 230 * MIB


def test_a_grid_that_missed_an_edge_is_moved_to_it() -> None:
    """An edge below the grid is looked for below it, one between its parts there, and one that it shows
    beside itself."""
    first = 1000 * MIB
    points = np.array([980, 985, 1000, 1100, 1105], np.int64) * MIB
    region = Region("md", first, points)
    below = again_region(region, np.array([5.0, 5.0, 5.0, -5.0, -5.0]), 1 << 40)
    assert below.points.min() == 980 * MIB - WIDER and first in below.points
    assert set(range(1000 * MIB, 1101 * MIB, MIB)) <= set(below.points.tolist())
    at_start = again_region(Region("od", 0, points - 980 * MIB), np.full(5, 5.0), 1 << 40)
    assert at_start.points.min() == 0


@pytest.mark.parametrize("seed", [9000044, 9000155, 9000221])
def test_bands_that_a_first_pass_missed(seed: int, tmp_path: Path) -> None:
    """A wide grid misread at an edge; lazy drives that stall for six and for three of the nine bands."""
    toml = _native.random_profile(seed, "journaled")
    truth = truth_of(toml)
    findings, _ = run(BandSize(), toml, known_of(truth, without=("band_bytes",)), tmp_path / "r")
    assert findings[0].value == truth["band_bytes"]["value"]


class _Quiet:
    """Steps of a target where no writes wait together and none ever stalls."""

    def __init__(self, *findings: Finding) -> None:
        self.known, self.size = Known(findings), 1 << 40

    def run(self, name: str, io: IoBatch, **_: object) -> IoLog:
        done = np.cumsum(np.full(len(io), 10_000_000, np.uint64))
        return IoLog.of(io, done - np.uint64(9_000_000), done)


@pytest.mark.parametrize(
    ("location", "asked", "kind"),
    [
        ("many", True, "zones"), ("od", True, "journal"), ("none", True, "journal"),
        (UNKNOWN, True, None), (UNKNOWN, False, "zones"),
    ],
)  # fmt: skip
def test_the_kind_of_a_cache_follows_from_its_place(location: str, asked: bool, kind: str | None) -> None:
    """Where no writes wait together in the drive, and a quantum was looked for in vain or not at all."""
    known = [Finding("cache_location", location, None, None, 0.9, "")]
    known.append(Finding("cache_medium", "flash" if location == "none" else "disk", None, None, 0.9, ""))
    if asked:
        known.append(Finding("journal_quantum_bytes", UNKNOWN, "bytes", None, 0.0, ""))
    assert cache_parts.kind_of(cast(Steps, _Quiet(*known)), State.NEW) == (kind, None)


@pytest.mark.parametrize("seen", [True, False])
def test_cache_bands_that_were_seen_are_not_asked_for(seen: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of 103938 drawn, whose other cache bands were so full that a write there waited for four minutes and
    left them full: which addresses share one was known."""
    part = cast(cache_parts.CachePart, SimpleNamespace())
    monkeypatch.setattr(cache_parts, "overwritten", lambda _: part)
    monkeypatch.setattr(cache_parts, "is_place_bound", lambda *_: False)
    bands: dict[str, int | float | bool | str] = {
        "count": 6,
        "band_bytes": 250 * MIB,
        "fill_bytes": 205 * MIB,
    }
    known = [Finding("cache_bands", bands if seen else UNKNOWN, None, None, 0.95, "")]
    steps = cast(Steps, _Quiet(*known))
    expected = ("cache-bands", part) if seen else ("zones", None)
    assert cache_parts.kind_of(steps, State.UNKNOWN) == expected


@pytest.mark.parametrize(("way", "kind"), [(cache_parts.ZONES_WAY, "zones"), ("cache bands", "cache-bands")])
def test_zones_that_were_seen_are_no_cache_bands(
    way: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of 103965 drawn, a zone of which stalled like a cache band, and was emptied by a write elsewhere."""
    part = cast(cache_parts.CachePart, SimpleNamespace())
    monkeypatch.setattr(cache_parts, "overwritten", lambda _: part)
    monkeypatch.setattr(cache_parts, "is_place_bound", lambda *_: True)
    monkeypatch.setattr(cache_parts, "stays_full", lambda _: False)
    times: dict[str, int | float | bool | str] = {"one_block": 10**9, "half": 10**9}
    known = Finding("cleaning_band_ns", times, None, None, 0.95, "", way=way)
    found = cache_parts.kind_of(cast(Steps, _Quiet(known)), State.UNKNOWN)
    assert found == (kind, None if kind == "zones" else part)
