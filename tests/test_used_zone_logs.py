"""A lazy drive with zones that cannot be erased, and whose zones hold what another host wrote."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from one_test import known_of
from skylight import _native, probe
from skylight.engines.sim import SimEngine, read_profile
from skylight.engines.sim_under_conditions import engine_over
from skylight.evidence import I64, IoBatch, IoLog, Stop, TargetFacts
from skylight.findings import Finding, Known
from skylight.infer import stalls
from skylight.probe.band_size import BandSize, cache_parts
from skylight.probe.cache_size import CacheSize, count_cache_parts, used_zone_logs
from skylight.probe.cleaning import half_written_band, set_associative, zone_log_stalls
from skylight.probe.cleaning.trials import Ground
from skylight.probe.known_state import State
from skylight.probe.procedure import Steps
from skylight.probe.scoring import score
from skylight.probe.session import Session
from skylight.recording import Recording
from skylight.truth import true_findings

MS, MIB = 1_000_000, 1 << 20
LOG = 17 * MIB
CAPACITY = 'capacity = "3.9 TB"'
SIZES = ("cache_bytes", "cache_fill_bytes", "cache_raw_bytes")
KNOWN = ("drive_type", "rotation_ns", "cache_medium", "cache_location", "cleaning_type")


def lazy_zones(free_bands: int, zone: str = "4 GiB") -> str:
    """The paper's drive with zones, smaller ones, that cleans only when it has to."""
    toml = read_profile("emulated-smr-3")[0]
    for before, after in (
        ('zone = "40 GiB"', f'zone = "{zone}"'),
        (CAPACITY, 'capacity = "500 GB"'),
        ("free_bands = 21", f"free_bands = {free_bands}"),
        ('cleaning = "aggressive"', 'cleaning = "lazy"'),
        ('idle = "1 s"\n', ""),
    ):
        assert before in toml
        toml = toml.replace(before, after)
    return toml


def used(toml: str, prior: str) -> tuple[SimEngine, Known, dict[str, dict[str, object]]]:
    """A drive that was used before and cannot be erased, what is known of it, and what is true."""
    given = f'[conditions]\nerase = "none"\nprior_use = "{prior}"\n'
    drive = _native.SimDrive(toml, "drive", 1, given)
    truth: dict[str, dict[str, object]] = true_findings(toml, "x", given)
    known = known_of(truth, without=tuple(name for name in truth if name not in KNOWN))
    facts = TargetFacts("sim", "sim:drive", drive.size_bytes, drive.block_bytes)
    return engine_over(drive, facts), known, truth


def probed(
    test: probe.Test, toml: str, prior: str, out: Path
) -> tuple[list[Finding], dict[str, dict[str, object]]]:
    """What a test finds of such a drive, and what is true."""
    engine, known, truth = used(toml, prior)
    recording = Recording.create(out, engine.describe(), {"writes": True}, 1)
    with recording.part(test.name) as writer:
        test.measure(Session(engine, writer, test=test.name, seed=1, known=known))
        writer.complete()
    evidence = recording.evidence(test.name)
    assert evidence is not None
    return test.infer(evidence, known), truth


@pytest.mark.parametrize(
    ("prior", "free_bands", "zone"),
    [("full", 8, "4 GiB"), ("half-full", 5, "4 GiB"), ("full", 8, "1400 MiB")],
)
def test_zones_with_older_data_are_counted(prior: str, free_bands: int, zone: str, tmp_path: Path) -> None:
    """Their logs by marks that come home, their number although other zones are as full; and although the
    zone is smaller than all that is written meanwhile, as of drives 101970 and 102529 drawn."""
    findings, truth = probed(CacheSize(), lazy_zones(free_bands, zone), prior, tmp_path / "r")
    marks = score(findings, {name: truth[name] for name in SIZES})
    assert {mark.name: mark.outcome for mark in marks} == dict.fromkeys(SIZES, "right")
    assert f"{free_bands - 1} bands of 20 MiB, before it cleans what was written first" in findings[0].why


class _Target:
    """Steps of a target that has its cache at many places; subclasses say which writes wait."""

    size, block_bytes = 1 << 40, 4096

    def __init__(self) -> None:
        self.known = Known(
            Finding(name, word, None, None, 0.9, "")
            for name, word in (("cache_location", "many"), ("cache_medium", "disk"))
        )

    def waits(self, address: int, size: int) -> bool:
        raise NotImplementedError

    def erase(self, _: str) -> bool:
        return False

    def reset(self, _: str, **__: object) -> State:
        return State.UNKNOWN

    def run(self, name: str, io: IoBatch, until: Stop | None = None, **_: object) -> IoLog:
        del name
        took: list[int] = []
        for address, size in zip(io.offset.tolist(), io.size.tolist(), strict=True):
            took.append((700 if self.waits(address, size) else 12) * MS)
            if until is not None and took[-1] >= until.latency_ns:
                break
        done = np.cumsum(np.array(took, np.uint64))
        return IoLog.of(io.part(0, len(took)), done - np.array(took, np.uint64), done)


class _OlderZone(_Target):
    """A zone of 40 GiB whose older data leaves it one log of 17 MiB: a write without space is merged with its
    band, and the log is given back if it holds no other."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.bands = LOG, set[int]()

    def waits(self, address: int, size: int) -> bool:
        band = address // LOG
        if address >= 40 << 30:
            return False
        waits = self.left < size
        if waits:
            self.bands.discard(band)
            self.left = self.left if self.bands else LOG
        else:
            self.left -= size
            self.bands.add(band)
        return waits


class _FullZone(_Target):
    """A zone of 16 logs of 12 pieces, all full of older data of six bands each: a write without space waits
    for a band of the oldest log, and goes to that log once it is empty. Every other piece is written, so what
    is written from one empty log to the next, one piece of it to its band, is of two bands."""

    LOGS, LEFT, BAND = 16, 12, 13 * MIB // 2

    def __init__(self) -> None:
        super().__init__()
        # Older bands lie in the last part of the drive, where nothing is written.
        older = [-1 - number for number in range(6 * self.LOGS)]
        self.full = [set(older[6 * number : 6 * number + 6]) for number in range(self.LOGS)]
        self.log, self.left = set[int](), 0

    def waits(self, address: int, size: int) -> bool:
        del size
        band, waits = address // self.BAND, False
        if not self.left:
            waits = True
            if self.log:
                self.full.append(self.log)
                self.log = set()
            cleaned = self.full[0].pop()
            for each in self.full:
                each.discard(cleaned)
            if self.full[0]:
                return True  # merged with its band
            self.full.pop(0)
            self.left = self.LEFT
        self.left -= 1
        self.log.add(band)
        return waits


def test_older_data_that_stalls_evenly_is_not_taken_for_what_a_mark_is_seen_by() -> None:
    """Of drive 100236 drawn six bands of each older log were cleaned, and two of each new one: no row of
    waits was ever as long as six bands and a mark, and how many zones there are was not seen."""
    cache_part, logs = used_zone_logs.counted(cast(Steps, _FullZone()))
    assert logs == _FullZone.LOGS
    assert cache_part is not None and cache_part.band_writes == _FullZone.LEFT


class _LargeZone(_FullZone):
    """The same with more logs than are looked at before it is seen that older data is gone."""

    LOGS = 50


def test_a_mark_that_was_given_up_is_not_taken_for_the_next_one() -> None:
    """Of drives 100312 and 100432 drawn the first mark was given up, as stalls had changed when older data
    was gone; each mark was then seen when the one before it came home, and no two agreed."""
    cache_part, logs = used_zone_logs.counted(cast(Steps, _LargeZone()))
    assert logs == _LargeZone.LOGS
    assert cache_part is not None and cache_part.band_writes == _LargeZone.LEFT


class _UnevenZone(_FullZone):
    """The same, of which older logs of one band and of two take turns."""

    LEFT, BAND = 17, 17 * MIB // 2

    def __init__(self) -> None:
        super().__init__()
        self.full = [{-1000 * number - each for each in range(1 + number % 2)} for number in range(1, 17)]


def test_logs_of_one_and_of_two_bands_that_take_turns_are_each_a_log() -> None:
    """Of drives 100710 and 100865 drawn the row of waits was that of every second or third log, so that logs
    seemed two and three times as large, and how many zones there are was not seen."""
    cache_part, logs = used_zone_logs.counted(cast(Steps, _UnevenZone()))
    assert logs == _UnevenZone.LOGS
    assert cache_part is not None and cache_part.band_writes == _UnevenZone.LEFT


class _ZoneOfManyBands(_FullZone):
    """The same, of which older logs hold two bands as well, but the first that is cleaned once a row of waits
    was seen."""

    LOGS, LEFT, BAND, size = 50, 13, 13 * MIB // 2, 8 << 30

    def __init__(self, bands: int) -> None:
        super().__init__()
        self.full = [{-2 * number, -2 * number - 1} for number in range(1, 1 + self.LOGS)]
        self.full[stalls.FEWEST_HITS] = {-1000 - number for number in range(bands)}


@pytest.mark.parametrize("bands", [10, 70, 190])
def test_no_mark_is_written_amid_a_row_of_waits(bands: int) -> None:
    """Of drive 100943 drawn a mark was written while writes waited for a log of 70 bands, so it went to no
    log and never came home, and how many zones there are was not seen."""
    cache_part, logs = used_zone_logs.counted(cast(Steps, _ZoneOfManyBands(bands)))
    assert logs == _ZoneOfManyBands.LOGS
    assert cache_part is not None and cache_part.band_writes == _ZoneOfManyBands.LEFT


def test_a_log_of_many_bands_is_no_new_row_of_waits() -> None:
    """Of drive 100808 drawn writes that waited for a log of older data, of 190 bands, were taken for what all
    logs are waited for from there on, and how many zones there are was not seen."""
    found = stalls.Stalls(92, 32, 6, 700 * MS, 12 * MS)
    cache_part = cache_parts.CachePart(
        cast(Steps, _FullZone()), "zone", 512 << 10, lambda index: index, found, 4096, 0
    )
    latency_ns: I64 = np.tile(np.array([12] * 31 + [700]), 14) * MS
    amid = np.concatenate([latency_ns, np.full(60, 700 * MS)])
    assert not used_zone_logs._stalls_otherwise(cache_part, amid) and cache_part.found == found


class _CacheBands(_Target):
    """A thousand cache bands of 17 MiB, of which every third is full."""

    def __init__(self) -> None:
        super().__init__()
        self.left = {number: LOG if number % 3 else 0 for number in range(1000)}

    def waits(self, address: int, size: int) -> bool:
        number = address // LOG % 1000
        waits = self.left[number] < size
        self.left[number] = (LOG if waits else self.left[number]) - size
        return waits


@pytest.mark.parametrize("room", [0, 1, 9])
@pytest.mark.parametrize(("number", "held"), [(0, True), (1000, True), (1, False), (3, False)])
def test_a_cache_band_that_had_room_is_filled_before_it_is_asked(room: int, number: int, held: bool) -> None:
    """Of drives 99691 and 99737 drawn the first data band ended where a write found room. The third cache
    band is full of older data: a write to it waits as well."""
    target = _CacheBands()
    target.left[0] = LOG
    unit = 256 << 10
    found = stalls.Stalls(0, LOG // unit, 5, 700 * MS, 12 * MS)
    cache_part = cache_parts.CachePart(
        cast(Steps, target), "over", unit, lambda index: index % 4 * unit, found, 0, LOG // unit - room
    )
    assert cache_part.holds(number * LOG) is held
    assert cache_part.holds(number * LOG + unit) is held


class _Busy(_CacheBands):
    """The same, empty but for the first, with other clients that delay one write in thirty as long as a
    stall takes."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.rng = np.random.default_rng(seed)
        self.left = dict.fromkeys(self.left, LOG)

    def waits(self, address: int, size: int) -> bool:
        return super().waits(address, size) or bool(self.rng.uniform() < 1 / 30)


@pytest.mark.parametrize("seed", range(6))
def test_delays_make_no_address_one_that_shares_the_cache_band(seed: int) -> None:
    """Of drives 99858 and 99936 drawn a delayed write to another cache band was taken for a stall of this
    one, so how many there are was not seen."""
    print("seed", seed)
    unit = 256 << 10
    found = stalls.Stalls(0, LOG // unit, 5, 700 * MS, 12 * MS)
    cache_part = cache_parts.CachePart(
        cast(Steps, _Busy(seed)), "over", unit, lambda index: index % 4 * unit, found, 0, LOG // unit
    )
    where = np.arange(1, 1200, dtype=np.uint64) * np.uint64(LOG)
    assert cache_part.first_held(where) == 999


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_scan_that_passed_by_what_shares_a_cache_band_does_not_double_the_count(
    times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of drive 99318 drawn 2,892 cache bands were counted where there are 1,446."""
    cache_part = cache_parts.overwritten(cast(Steps, _CacheBands()))
    assert cache_part is not None
    monkeypatch.setattr(cache_parts.CachePart, "first_held", lambda *_: times * 1000 - 1)
    found = count_cache_parts.cache_bands(cache_part.steps, cache_part)
    assert found is not None and found.count == 1000


class _ManyDelays(_CacheBands):
    """The same, empty, with other clients that delay one write in seven, up to three fifths of a stall."""

    LONGEST, PART = 420 * MS, 0.15

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.rng = np.random.default_rng(seed)
        self.left = dict.fromkeys(self.left, LOG)

    def run(self, name: str, io: IoBatch, until: Stop | None = None, **_: object) -> IoLog:
        del name
        took: list[int] = []
        for address, size in zip(io.offset.tolist(), io.size.tolist(), strict=True):
            other_ns = self.rng.uniform(0, self.LONGEST) if self.rng.uniform() < self.PART else 0.0
            took.append(12 * MS + round(other_ns) + 688 * MS * self.waits(address, size))
            if until is not None and took[-1] >= until.latency_ns:
                break
        done = np.cumsum(np.array(took, np.uint64))
        return IoLog.of(io.part(0, len(took)), done - np.array(took, np.uint64), done)


@pytest.mark.parametrize("seed", range(6))
def test_delays_nearly_as_long_as_a_stall_leave_it_known_when_a_cache_band_is_full(seed: int) -> None:
    """Of drive 100286 drawn a delay behind a stall was taken for the next one, so a cache band was asked
    when it was not full, and how many there are was not seen."""
    print("seed", seed)
    cache_part = cache_parts.overwritten(cast(Steps, _ManyDelays(seed)))
    assert cache_part is not None
    found = count_cache_parts.cache_bands(cache_part.steps, cache_part)
    assert found is not None and (found.count, found.band) == (1000, LOG)


class _LongDelays(_ManyDelays):
    """The same, of which every tenth write is delayed for as long as a stall takes and longer."""

    LONGEST, PART = 800 * MS, 0.1


@pytest.mark.parametrize("seed", range(12))
def test_delays_as_long_as_a_stall_leave_it_known_how_many_cache_bands_there_are(seed: int) -> None:
    """Of drive 100858 drawn the first data band seemed to end where a delayed write was taken for the stall
    of a full cache band, and how many there are was not seen."""
    print("seed", seed)
    cache_part = cache_parts.overwritten(cast(Steps, _LongDelays(seed)))
    assert cache_part is not None and not cache_part.found.least_ns
    found = count_cache_parts.cache_bands(cache_part.steps, cache_part)
    assert found is not None and (found.count, found.band) == (1000, LOG)


@pytest.mark.parametrize("seed", range(6))
def test_delays_nearly_as_long_as_a_stall_leave_it_known_what_shares_a_cache_band(seed: int) -> None:
    """Of drive 100444 drawn a delay ended the search for data bands that share the first cache band, so how
    long one is cleaned was not seen."""
    print("seed", seed)
    seen, ground = set_associative.Seen(), Ground(cast(Steps, _ManyDelays(seed)), False, False, 5.4e6)
    assert set_associative.measure(ground, seen) and seen.measured
    assert seen.sharing == 1000


class _BusyZone(_Target):
    """A zone of 40 GiB that gives back a log of 17 MiB at a time, with other clients that delay one write in
    fifty as long as a stall takes."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.rng, self.left = np.random.default_rng(seed), LOG

    def waits(self, address: int, size: int) -> bool:
        waits = False
        if address < 40 << 30:
            waits = self.left < size
            self.left = (LOG if waits else self.left) - size
        return waits or bool(self.rng.uniform() < 1 / 50)


@pytest.mark.parametrize("seed", range(6))
def test_delays_do_not_end_the_search_for_the_end_of_a_zone(seed: int) -> None:
    """Of drive 100175 drawn each scan ended at a delayed write and began anew, so how many zones there are
    was not seen."""
    print("seed", seed)
    unit = 512 << 10
    found = stalls.Stalls(0, LOG // unit, 5, 700 * MS, 12 * MS)
    cache_part = cache_parts.CachePart(
        cast(Steps, _BusyZone(seed)), "zone", unit, lambda index: index * 2 * unit, found, 0, LOG // unit
    )
    where = [number << 27 for number in range(1000, 0, -1)]
    found_at = count_cache_parts._first_within(cache_part, where)
    # A log that had space took some pieces in the zone before it stalled.
    assert found_at is not None and (319 - LOG // unit) << 27 <= found_at <= 319 << 27


class _SmallZones(_Target):
    """Zones of 40 GiB with a few empty logs of twelve pieces, of which every other one is written: a scan may
    fill one."""

    size, ZONE, LOG_PIECES, BAND = 1600 << 30, 40 << 30, 12, 6 * MIB

    def __init__(self, logs: int) -> None:
        super().__init__()
        self.zones = [SimpleNamespace(free=logs, full=[], log=set(), left=0) for _ in range(40)]

    def reset(self, _: str, **__: object) -> State:
        return State.NEW

    def waits(self, address: int, size: int) -> bool:
        del size
        zone, waits = self.zones[address // self.ZONE], False
        if not zone.left:
            if zone.log:
                zone.full.append(zone.log)
                zone.log = set()
            waits = not zone.free
            if waits:
                cleaned = min(zone.full[0])
                zone.full = [bands - {cleaned} for bands in zone.full]
                zone.free = sum(not bands for bands in zone.full)
                zone.full = [bands for bands in zone.full if bands]
                if not zone.free:
                    return True  # merged with its band
            zone.free, zone.left = zone.free - 1, self.LOG_PIECES
        zone.left -= 1
        zone.log.add(address // self.BAND)
        return waits


@pytest.mark.parametrize("logs", [2, 3, 6, 30])
def test_a_zone_that_a_scan_filled_is_not_taken_for_the_one_whose_end_is_looked_for(logs: int) -> None:
    """Of drive 99324 drawn as fully-associative writes behind the end stalled as well, since what was written
    in search of it had filled the next zone; the end seemed to lie farther on, or in no place."""
    found = count_cache_parts.zones(cast(Steps, _SmallZones(logs)))
    assert found is not None and found.count == 40
    assert found.part_bytes == logs * _SmallZones.LOG_PIECES * (512 << 10)


@pytest.mark.parametrize(("target", "kind"), [(_OlderZone(), "zones"), (_CacheBands(), "cache-bands")])
def test_a_zone_that_holds_older_data_is_no_cache_band(target: _Target, kind: str) -> None:
    """One place that is written over and over stalls as evenly, once a log, and others far away do not; of
    drive 99501 drawn neither bands nor the mapping were found."""
    steps = cast(Steps, target)
    cache_part = cache_parts.overwritten(steps)
    assert cache_part is not None and cache_parts.is_place_bound(cache_part, target.size)
    assert cache_parts.kind_of(steps, State.UNKNOWN)[0] == kind
    seen, ground = set_associative.Seen(), Ground(cast(Steps, type(target)()), False, False, 5.4e6)
    assert set_associative.measure(ground, seen) is (kind == "cache-bands")
    assert seen.stalls is (kind == "cache-bands")


class _FarLogs(_Target):
    """An empty zone: each 33 MiB that are written begin in another free band, which the arm takes a while to
    get to."""

    def __init__(self, way_ns: int, *, blocks_wait: bool = True, **known: int) -> None:
        super().__init__()
        self.way_ns, self.written, self.blocks_wait = way_ns, 0, blocks_wait
        self.known = Known(
            [Finding("rotation_ns", 5 * MS, "ns", None, 0.9, "")]
            + [Finding("seek_ns", {"full": ns}, "ns", None, 0.9, "") for ns in known.values()]
        )

    def erase(self, _: str) -> bool:
        self.written = 0
        return True

    def run(self, name: str, io: IoBatch, until: Stop | None = None, **_: object) -> IoLog:
        del name
        end = self.written + np.cumsum(io.size.astype(np.int64))
        begin = np.maximum(end - io.size.astype(np.int64) - 1, 0)
        far = ((end - 1) // (33 * MIB) > begin // (33 * MIB)) & (self.blocks_wait | (io.size > 4096))
        took = np.where(far, 6 * MS + self.way_ns, 6 * MS).astype(np.uint64)
        slow = took >= (until.latency_ns if until is not None else 1 << 62)
        count = int(np.argmax(slow)) + 1 if slow.any() else len(io)
        self.written = int(end[count - 1]) if count else self.written
        done = np.cumsum(took[:count])
        return IoLog.of(io.part(0, count), done - took[:count], done)


@pytest.mark.parametrize(
    ("target", "cleans"),
    [
        (_FarLogs(12 * MS, full=20 * MS), False),
        (_FarLogs(9 * MS, blocks_wait=False), False),
        (_FarLogs(60 * MS, full=20 * MS), True),
    ],
)
def test_the_way_to_another_free_band_is_no_cleaning(target: _FarLogs, cleans: bool) -> None:
    """Of drives 99311 and 99328 drawn it was taken for the cleaning of a cache band, so how long a band takes
    was not asked in idle times; nor at all of 103858, whose blocks behind large writes show no such way."""
    seen = set_associative.Seen()
    assert set_associative.measure(Ground(cast(Steps, target), False, False, 5.4e6), seen) is cleans
    assert seen.stalls is cleans


def test_cache_bands_that_hold_older_data_are_none_the_less(tmp_path: Path) -> None:
    """A full one is emptied by the first write that waits for it."""
    toml = read_profile("emulated-smr-1")[0].replace('cleaning = "aggressive"', 'cleaning = "lazy"')
    (finding,), _ = probed(BandSize(), toml, "full", tmp_path / "r")
    assert finding.value == dict.fromkeys(cache_parts.PLACES, 40 << 20)


class _Lined:
    """Steps of a target where other clients delay every 24th write, by less than a band takes."""

    def __init__(self, band_ns: int) -> None:
        value: dict[str, int | float | bool | str] = {"one_block": band_ns, "half": band_ns}
        self.known = Known([Finding("cleaning_band_ns", value, "ns", None, 0.9, "")])
        self.size, self.written = 1 << 40, 0

    def run(self, name: str, io: IoBatch, until: Stop | None = None, **_: object) -> IoLog:
        del name, until
        index = np.arange(self.written, self.written + len(io))
        self.written += len(io)
        took = np.where(index % 24 == 23, 40, 15) * MS
        done = np.cumsum(took).astype(np.uint64)
        return IoLog.of(io, done - took.astype(np.uint64), done)


@pytest.mark.parametrize(("band_ns", "period"), [(260 * MS, None), (30 * MS, 24)])
def test_delays_that_line_up_are_shorter_than_a_band_takes(band_ns: int, period: int | None) -> None:
    """Of drive 99484 drawn seven writes at one distance waited 40 ms, where a band takes 263."""
    found = cache_parts.logged(cast(Steps, _Lined(band_ns)), 0, 2 << 30, "md")
    assert (None if found is None else found.period) == period
    if found is not None:  # beyond the last piece come those between, and nothing behind the end
        assert sorted(found.offset(np.arange(4096))) == list(range(0, 2 << 30, 512 << 10))


@pytest.mark.parametrize(("least_ns", "period"), [(100 * MS, None), (0.0, 24)])
def test_stalls_elsewhere_bound_those_of_a_place(least_ns: float, period: int | None) -> None:
    """The same where the time for a band is not known, by the stalls of the first address."""
    target = _Lined(0)
    found = cache_parts.logged(cast(Steps, target), 0, 2 << 30, "md", least_ns=least_ns)
    assert (None if found is None else found.period) == period


def test_a_row_behind_older_data_is_seen_at_once() -> None:
    """More writes waited than did not, for as many bands as held older data."""
    latency_ns: I64 = np.full(1500, 600 * MS)
    row = np.tile(np.array([10] * 33 + [600, 600]), 7) * MS
    latency_ns = np.concatenate([latency_ns, row])
    assert stalls.periodic(latency_ns) is None
    found = used_zone_logs.behind_older(latency_ns)
    assert found is not None and (found.period, found.run, found.first) == (35, 2, 1533)


@pytest.mark.parametrize("waits", [True, False])
def test_a_place_that_shows_nothing_ends_the_search_for_the_time_of_a_band(
    waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With older data in every zone each attempt may take an hour; where no write waits there are none."""
    asked: list[int] = []

    def attempt(_: Ground, _name: str, place: int, *__: object) -> zone_log_stalls.Watched:
        asked.append(place)
        return zone_log_stalls.Watched(waits=waits)

    monkeypatch.setattr(zone_log_stalls, "_place", attempt)
    ground = Ground(cast(Steps, _OlderZone()), False, False, 5.4e6)
    zone_log_stalls.measure(ground, {})
    assert asked == [half_written_band.PLACES[0]] * (len(zone_log_stalls.SHIFTS) if waits else 1)


@pytest.mark.parametrize(("before", "inside"), [((3, 3, 4, 8), False), ((3, 1, 3, 3, 0, 3), True)])
def test_a_delay_does_not_bring_an_address_into_the_zone(
    before: tuple[int, ...], inside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of drive 98675 drawn another client's delays ended logs of ten pieces five too soon, as pieces in the
    zone would have, so two zones were taken for one."""
    monkeypatch.setattr(used_zone_logs, "_opened", lambda _: True)
    left = list(before)
    steps = SimpleNamespace(run=lambda _name, io: io)
    found = stalls.Stalls(0, 11, 9, 100 * MS, 10 * MS, 2)
    cache_part = cache_parts.CachePart(
        cast(Steps, steps), "zone", 512 << 10, lambda index: index, found, 0, 0
    )

    def put(_: cache_parts.CachePart, _count: int, _until: Stop) -> IoLog:
        took = np.array([10] * left.pop(0) + [100], np.uint64) * np.uint64(MS)
        done = np.cumsum(took)
        io = IoBatch.writes(np.zeros(len(took), np.uint64), 4096)
        return IoLog.of(io, done - took, done)

    monkeypatch.setattr(cache_parts.CachePart, "put", put)
    assert used_zone_logs._takes_of(cache_part, 1 << 30) is inside
