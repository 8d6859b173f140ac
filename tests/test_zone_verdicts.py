"""What the tests of zones make of logs: the edge where writes wait for the medium, spells of single waits,
and when cleaning begins, on made-up logs; and tracks of a drive whose zones hold less than their size."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import one_test
from skylight import _native
from skylight.engines.sim_under_conditions import engine_over
from skylight.evidence import I64, IoBatch, IoLog, Op, TargetFacts
from skylight.findings import UNKNOWN, Finding, Known, Value
from skylight.infer.zone_throughput import Spell
from skylight.probe import non_sequential, open_zones, zone_cleaning
from skylight.probe.known_state import State, with_state
from skylight.probe.non_sequential import measure as sustained
from skylight.probe.open_zones import measure as opened
from skylight.probe.open_zones.figures import draw
from skylight.probe.open_zones.measure import Burst, Comparison
from skylight.probe.scoring import score
from skylight.probe.suite import SuiteOptions, run_suite
from skylight.probe.zone_cleaning import measure as cleaning
from skylight.probe.zoned import ZonesSeen
from skylight.report.values import finding_row
from skylight.report.words import verdict
from skylight.truth import true_findings

MS = 1_000_000
ZONES = ZonesSeen("host-aware", 64 << 20, 64 << 20, 512, 0, 0, 512, 100, None, None, 0, 0)


def log_of(latency_ns: I64) -> IoLog:
    """Writes one after the other, of these latencies."""
    end = np.cumsum(latency_ns).astype(np.uint64)
    batch = IoBatch.writes(np.arange(len(latency_ns), dtype=np.uint64) * np.uint64(4096), 4096)
    return IoLog(batch.op, batch.offset, batch.size, end - latency_ns.astype(np.uint64), end)


def burst(costs_ms: list[float], rounds: int = 20) -> Burst:
    """Rounds over zones that cost so much each."""
    latency = np.tile(np.array(costs_ms) * MS, rounds).astype(np.int64)
    return Burst("sequential", 4096, len(costs_ms), rounds, log_of(latency))


def test_the_edge_of_writes_that_wait_costs_less_of_a_multiple() -> None:
    inside, past = burst([5.0] * 8), burst([12.0] * 16)
    assert Comparison(past, inside, 0.0, waiting=True).is_past
    assert not Comparison(past, inside, 0.0, waiting=False).is_past


def test_writes_that_mostly_find_their_angle_wait_all_the_same() -> None:
    """Host-aware, seed 120514: to three of four zones a write took a sixth of a revolution, to one half."""
    steps = cast("Any", known_of(rotation_ns=11_811_000))
    assert opened._waits(steps, burst([1.8, 1.7, 2.0, 5.4]))
    assert not opened._waits(steps, burst([0.2, 0.2, 0.2, 0.2]))
    cached = burst([0.2] * 4)
    hangs = cached.latency_ns.copy()
    hangs[::7] = 30 * MS
    assert not opened._waits(steps, replace(cached, log=log_of(hangs)))


@pytest.mark.parametrize(("slow", "past"), [(1, False), (40, True)])
def test_a_few_commands_that_hang_are_no_edge(slow: int, past: bool) -> None:
    """Host-aware, seed 120508: two writes of 256 that hung made a write to 128 zones four times as long in
    the mean as one to 64."""
    latency = np.full((3, 128), 96_000)
    latency[1:, 5 : 5 + slow] = 160 * MS
    tried = Burst("sequential", 4096, 128, 3, log_of(latency.ravel()))
    compared = Comparison(tried, burst([0.096] * 64, rounds=6), 0.0, waiting=False)
    assert compared.costs_ns[0] > 4 * compared.costs_ns[1]
    assert compared.is_past == past
    if not past:
        assert opened.growth_ns(opened.Seen(search=[compared]), 128) == 0


@pytest.mark.parametrize(("eight_ms", "stays"), [(2.0, False), (10.0, True)])
def test_an_edge_that_more_zones_contradict_is_unknown(eight_ms: float, stays: bool) -> None:
    """Host-aware, seed 120544: with five zones three writes missed their places, with eight none did, and the
    edge of 12 zones was said to be 4."""
    few = burst([2.0] * 4)
    eight = Comparison(burst([eight_ms] * 8), few, 0.0, waiting=True)
    five = Comparison(burst([4.0] * 5), few, 4.0 * MS, waiting=True)
    seen = opened.Seen(search=[eight, five], waiting=True, inside=4, outside=5, zone_ns=10.0 * MS)
    assert opened._contradicts(eight, seen) != stays
    assert not opened._contradicts(five, seen)


def test_a_cost_that_grows_by_and_by_is_looked_into_with_flushes() -> None:
    """Host-aware, seed 120509: a volatile cache of 256 writes was full sooner the more zones there were, and
    the edge of 3,600 cost no multiple of what a full one cost."""
    level = Comparison(burst([0.1] * 8), burst([0.1] * 4), 0.0, waiting=False)
    half = Comparison(burst([0.3] * 16), burst([0.1] * 8), 0.0, waiting=False)
    full = Comparison(burst([0.5] * 32), burst([0.3] * 16), 0.0, waiting=False)
    assert opened._grew(opened.Seen(search=[level, half, full]))
    assert not opened._grew(opened.Seen(search=[level, half]))
    assert not opened._grew(opened.Seen(search=[level]))


def test_zones_at_other_angles_are_no_edge() -> None:
    inside, beyond = burst([5.0] * 8), burst([5.0] * 8 + [16.0] * 8)
    assert not Comparison(beyond, inside, 0.0, waiting=True).is_past


def test_zones_at_other_angles_do_not_move_the_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Zones from the 17th on lie at an angle that costs 3 ms more; past 48 zones each costs 20 ms more."""

    def angled(_steps: Any, _zones: Any, _kind: str, _size: int, count: int, _writes: int, **_: Any) -> Burst:
        more = 20.0 if count > 48 else 0.0
        return burst([5.0 + more] * min(count, 16) + [8.0 + more] * max(count - 16, 0))

    monkeypatch.setattr(opened, "burst", angled)
    rotation = Finding("rotation_ns", 8 * MS, "ns", None, 1.0, "so")
    seen = opened.Seen(ZONES)
    opened.search(cast("Any", SimpleNamespace(known=Known([rotation]))), seen, ZONES)
    assert (seen.waiting, seen.inside, seen.outside) == (True, 48, 49)


@pytest.mark.parametrize("edge", [48, None])
def test_a_burst_that_is_slow_once_is_no_edge(edge: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def once_slow(
        _steps: Any, _zones: Any, _kind: str, _size: int, count: int, _writes: int, **_: Any
    ) -> Burst:
        tried.append(count)
        slow = (edge is not None and count > edge) or (count == 16 and tried.count(16) == 1)
        return burst([12.0 if slow else 5.0] * count)

    monkeypatch.setattr(opened, "burst", once_slow)
    rotation = Finding("rotation_ns", 8 * MS, "ns", None, 1.0, "so")
    seen = opened.Seen(ZONES)
    opened.search(cast("Any", SimpleNamespace(known=Known([rotation]))), seen, ZONES)
    assert seen.waiting
    assert (seen.inside, seen.outside) == ((48, 49) if edge else (512, None))


@dataclass
class Drive:
    """Bursts with 200 open zones and a volatile cache that lets writes to more than `room` zones wait, the
    longer the more, unless FLUSHes empty it."""

    room: int
    flush_ms: float = 50.0
    ignores_flush: bool = False
    edges: tuple[int, ...] = (200,)
    bursts: list[tuple[int, int | None]] = field(default_factory=list)

    def burst(
        self, _steps: Any, _zones: Any, _kind: str, _size: int, count: int, _writes: int, *,
        flush_every: int | None = None,
    ) -> Burst:  # fmt: skip
        edge = self.edges[min(len(self.bursts) // 2, len(self.edges) - 1)]
        self.bursts.append((count, flush_every))
        rounds = 10
        waits = 0 if flush_every is not None and not self.ignores_flush else max(count - self.room, 0)
        latency = np.full(rounds * count, MS // 10 + waits * MS // 20)
        latency[count::count] += max(count - edge, 0) * 60 * MS
        log = log_of(latency)
        if flush_every is not None:
            flush = log_of(np.full(rounds, round(self.flush_ms * MS)))
            flush.op[:] = Op.FLUSH
            log = IoLog.joined([log, flush])
        return Burst("sequential", 4096, count, rounds, log, flush_every)


def searched(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> opened.Seen:
    """What the search for the edge finds."""
    monkeypatch.setattr(opened, "burst", drive.burst)
    seen = opened.Seen(ZONES)
    opened.search(cast("Any", SimpleNamespace(known=Known([]))), seen, ZONES)
    return seen


def test_a_volatile_cache_that_fills_is_no_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    """From 20 zones on writes wait for room in the cache: that was taken for the edge."""
    seen = searched(Drive(room=20), monkeypatch)
    assert (seen.inside, seen.outside, seen.flush_every, seen.stays) == (200, 201, 16, True)


def test_flushes_that_empty_nothing_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    drive = Drive(room=1_000, flush_ms=0.1, ignores_flush=True)
    seen = searched(drive, monkeypatch)
    assert (seen.inside, seen.outside, seen.flush_every) == (200, 201, None)
    assert [count for count, every in drive.bursts if every is not None] == [128, 64]


def test_an_edge_that_the_control_does_not_find_is_not_sure(monkeypatch: pytest.MonkeyPatch) -> None:
    """After all other comparisons the zones that may be open are more."""
    steady = Drive(room=1_000)
    assert open_zones._sure(searched(steady, monkeypatch)) > 0.9
    last = len(steady.bursts) // 2 - 1
    seen = searched(Drive(room=1_000, edges=(*[200] * last, 400)), monkeypatch)
    assert (seen.inside, seen.stays) == (200, False)
    assert open_zones._sure(seen) == 0


def test_the_edge_is_not_sure_where_the_last_comparison_says_otherwise() -> None:
    few, many, slow = burst([5.0] * 8), burst([5.0] * 16), burst([12.0] * 16)
    once = [Comparison(few, burst([5.0] * 4), 0.0, waiting=True), Comparison(slow, few, 0.0, waiting=True)]
    again = [*once, Comparison(many, few, 0.0, waiting=True)]
    assert open_zones._sure(opened.Seen(ZONES, search=once, inside=8, outside=16)) > 0.9
    assert open_zones._sure(opened.Seen(ZONES, search=again, inside=8, outside=16)) == 0


@pytest.mark.parametrize(("zone_ms", "is_sure"), [(20, True), (1, False)])
def test_the_edge_is_not_sure_where_writes_vary_by_more_than_a_zone_costs(
    zone_ms: int, is_sure: bool
) -> None:
    few, inside, past = burst([1.0, 9.0] * 4), burst([1.0, 9.0] * 5), burst([11.0, 19.0] * 5 + [15.0])
    search = [Comparison(tried, few, 30 * MS, waiting=False) for tried in (past, inside)]
    seen = opened.Seen(ZONES, search=search, inside=10, outside=11, zone_ns=zone_ms * MS)
    assert (open_zones._sure(seen) >= open_zones.LEAST_CONFIDENCE) == is_sure


@pytest.mark.parametrize(("hidden", "is_sure"), [(0, True), (1, True), (3, False)])
def test_the_edge_is_not_sure_where_rounds_inside_may_hide_more_zones_than_is_right(
    hidden: int, is_sure: bool
) -> None:
    """Host-aware, seed 120558 drawn: beside other clients rounds over 1,498 zones may hide 202, and
    the edge is 1,300."""
    few, inside, past = burst([1.0] * 8), burst([1.0] * 10), burst([11.0] * 11)
    search = [Comparison(tried, few, 30 * MS, waiting=False) for tried in (past, inside)]
    seen = opened.Seen(ZONES, search=search, inside=10, outside=11, zone_ns=20 * MS, hidden=hidden)
    assert (open_zones._sure(seen) >= open_zones.LEAST_CONFIDENCE) == is_sure


def test_the_cost_of_the_fewest_zones_is_their_own() -> None:
    few = burst([5.0] * 4)
    search = [
        Comparison(burst([cost] * zones), few, 0.0, waiting=True) for zones, cost in ((8, 12.0), (5, 9.0))
    ]
    seen = opened.Seen(ZONES, search=search, inside=4, outside=5)
    found = open_zones._edge(seen, ZONES, cast("Any", SimpleNamespace(names=())))
    assert found.value == 4
    assert found.why == "With 4 zones a write of 4 KiB takes 5.00 ms in the mean, with 5 zones 9.00 ms."


def test_a_reason_says_that_the_state_before_is_not_known() -> None:
    found = [Finding("open_zones_edge", 4, "zones", None, 0.9, "So.")]
    assert with_state(found, State.CLEAN) == found
    assert with_state(found, State.UNKNOWN)[0].why == "So. What the drive held before is not known."


@pytest.mark.parametrize(("name", "unit", "value", "words"), [
    ("non_sequential_stall", None, {"every": 240, "ns": 895_899_297}, "every 240 writes, for 896 ms"),
    (
        "open_zone_penalty", "times", {"sequential_4_kib": 52.71, "non_sequential_512_kib": 1.0},
        "sequential 4 KiB 52.7 times, non-sequential 512 KiB 1.00 times",
    ),
])  # fmt: skip
def test_numbers_of_zones_read_as_people_write_them(
    name: str, unit: str | None, value: dict[str, int | float | bool | str], words: str
) -> None:
    assert finding_row(Finding(name, value, unit, None, 0.9, "So.")).value == words


def test_the_headline_of_a_host_aware_disk_says_that_it_has_zones() -> None:
    said = {"drive_type": "smr", "cache_medium": "disk", "zone_model": "host-aware"}
    found = {name: Finding(name, value, None, None, 0.99, "So.") for name, value in said.items()}
    assert verdict(found).headline == "This is a host-aware shingled (SMR) disk with its cache on the disk."
    assert "write pointers" in verdict(found).lead
    del found["zone_model"]
    assert verdict(found).headline == "This is a shingled (SMR) disk with its cache on the disk."


def test_a_figure_of_open_zones_shows_the_limit_that_was_found() -> None:
    """Writes to more zones than may be open went on at full speed, and nothing showed the limit."""
    bursts = [burst([5.0] * zones) for zones in (8, 16)]
    search = [Comparison(bursts[1], bursts[0], 0.0, waiting=False)]
    seen = opened.Seen(ZONES, search=search, inside=16, final=bursts, opened=8, refused=True)
    limit, without = draw(seen, 8.0)[0], draw(seen, None)[0]
    assert "8 zones may be open" in limit.alt and "refuses" in limit.caption
    assert "zones" not in without.alt


def test_tracks_are_measured_in_zones_that_hold_less_than_their_size(tmp_path: Path) -> None:
    text = _native.random_profile(9304, "host-managed")
    assert "zone_capacity" in text
    drive = _native.SimDrive(text, "drive.toml", 1, '[conditions]\nerase = "none"\n')
    engine = engine_over(drive, TargetFacts("sim", "sim:drive.toml", drive.size_bytes, drive.block_bytes))
    result = run_suite(engine, tmp_path / "r", SuiteOptions(only=("rotation",)))
    found = result.findings
    truth = true_findings(text, "drive.toml")
    marks = {mark.name: mark.outcome for mark in score(found, truth)}
    assert [marks[name] for name in ("rotation_ns", "track_bytes", "seek_ns")] == ["right"] * 3
    # What is written full before it is read lies in place, and each place more fills zones more.
    assert result.evidence[-1].step("id") is not None
    assert result.evidence[-1].step("towards-end") is None


def seen_of(latency_ns: I64) -> sustained.Seen:
    """Non-sequential writes of these latencies."""
    return sustained.Seen(ZONES, log=log_of(latency_ns))


def test_single_waits_again_and_again_are_a_spell() -> None:
    latency = np.full(8_000, 9 * MS, np.int64)
    latency[[700, 2_500]] = 19_000 * MS  # a command that hangs
    latency[5_000::300] = 9_000 * MS  # cleaning one zone frees space for many writes
    seen = seen_of(latency)
    assert seen.spell is not None
    assert seen.spell.first == 5_000
    assert len(seen.slow_ns) == 10
    assert not seen.recovered
    rows = ("fast",)
    assert non_sequential._cache(seen, seen.spell, rows).value == 5_000 * sustained.WRITE_BYTES


def test_single_waits_before_many_in_a_row_are_of_the_spell() -> None:
    """Twelve zones are cleaned one by one, for 340 writes each, before the drive waits at every write."""
    latency = np.full(9_200, 15 * MS, np.int64)
    latency[5_000:9_080:340] = 11_000 * MS
    latency[9_080:9_110] = 11_500 * MS
    seen = seen_of(latency)
    assert seen.spell is not None
    assert seen.spell.first == 5_000
    latency[5_000:8_000] = 15 * MS  # the last three alone may have hung
    seen = seen_of(latency)
    assert seen.spell is not None
    assert seen.spell.first == 9_080


def test_a_spell_is_not_over_before_it_could_go_on() -> None:
    latency = np.full(9_000, 9 * MS, np.int64)
    for first in range(5_000, 8_000, 304):
        latency[first : first + 4] = 9_000 * MS
    assert not seen_of(latency[:5_304]).recovered  # 300 fast ones after 4: fewer than an eighth of 5,000
    seen = seen_of(latency)
    assert seen.spell is not None
    assert (seen.spell.first, seen.spell.end) == (5_000, 7_740)
    assert not seen.recovered
    latency = np.append(latency, np.full(2_000, 9 * MS, np.int64))
    assert seen_of(latency).recovered


@pytest.mark.parametrize(("every", "writes", "given_up"), [
    (1, 4_095, False), (1, 4_096, True), (300, 4_501, False), (300, 5_101, True),
])  # fmt: skip
def test_a_spell_is_given_up(every: int, writes: int, given_up: bool) -> None:
    latency = np.full(8_000 + writes, 9 * MS, np.int64)
    latency[8_000::every] = 9_000 * MS
    assert sustained._done(seen_of(latency)) == given_up


@pytest.mark.parametrize("hung_s", [9, 19])
@pytest.mark.parametrize("at", [[4_950], [4_500, 4_800]])
def test_a_command_that_hangs_before_a_spell_is_not_its_begin(at: list[int], hung_s: int) -> None:
    latency = np.full(8_000, 9 * MS, np.int64)
    latency[at] = hung_s * 1_000 * MS
    latency[5_000:5_300] = 2_200 * MS
    assert seen_of(latency).spell == Spell(5_000, 5_300, 300 * 2_200 * MS)


@pytest.mark.parametrize("wait_ms", [700, 11_000])
@pytest.mark.parametrize("merges", [55, 600])
def test_rare_waits_that_begin_and_go_on_are_a_spell(merges: int, wait_ms: int) -> None:
    """The control: merges of a map come as often all along."""
    latency = np.full(16_000, 12 * MS, np.int64)
    latency[merges - 1 :: merges] = 700 * MS
    assert seen_of(latency).spell is None
    latency[9_000 :: max(merges // 4, 16)] = wait_ms * MS
    latency[13_000:13_100] = wait_ms * MS  # many wait at once, much later
    spell = seen_of(latency).spell
    assert spell is not None
    assert spell.first == pytest.approx(9_000, abs=merges)


def test_a_few_commands_that_hang_are_no_spell() -> None:
    latency = np.full(8_000, 9 * MS, np.int64)
    latency[[2_000, 2_100, 2_150]] = 19_000 * MS
    assert seen_of(latency).spell is None


def known_of(**values: Value) -> Any:
    """A replay with what the ordinary tests found."""
    found = [Finding(name, value, None, None, 0.5, "so") for name, value in values.items()]
    return cast("Any", SimpleNamespace(known=Known(found), names=("zones",)))


@pytest.mark.parametrize(
    ("before", "is_open"),
    [
        ({"cleaning_type": "aggressive", "cleaning_start_ns": UNKNOWN}, True),
        ({"cleaning_type": UNKNOWN}, True),  # no trial was made
        ({"cleaning_type": "aggressive", "cleaning_start_ns": 1}, False),
        ({"cleaning_type": "lazy"}, False),
        ({}, False),  # not asked
    ],
)
def test_cleaning_begins_a_zone_before_the_first_is_clean(before: dict[str, Value], is_open: bool) -> None:
    seen = cleaning.Seen(
        ZONES, 55.0, 56.0, [cleaning.Trial("empty", "1", 1, 256 << 10, 14e9, 30, ("empty-1-1x256k", "idle"))]
    )
    found = zone_cleaning._start(seen, known_of(**before))
    assert len(found) == is_open
    for each in found:
        assert each.value == pytest.approx(41.5e9)
        assert each.interval is not None and each.interval[0] < 41.5e9 < each.interval[1]
        assert each.rows == ("empty-1-1x256k", "idle")


@pytest.mark.parametrize(
    ("first_s", "count", "disturbed"),
    [(49.75, 1, True), (49.75, 0, False), (55.5, 1, False), (60.0, 3, True)],
)
def test_zones_that_are_clean_sooner_where_no_poll_disturbs_leave_the_start_unknown(
    first_s: float, count: int, disturbed: bool
) -> None:
    """Left alone in one go a drive that cleans a zone in 14 s begins 14 s before the first is clean."""
    first = cleaning.Trial("empty", "1", 1, 256 << 10, 14e9, 30, ("idle",))
    later = replace(first, first_s=first_s if count else None, first_count=count)
    seen = cleaning.Seen(ZONES, 55.0, 56.0, [first, later])
    assert (zone_cleaning._start(seen, known_of(cleaning_type=UNKNOWN)) == []) == disturbed
    assert (zone_cleaning._first_clean(seen, ()).value == UNKNOWN) == disturbed


def test_a_start_that_is_little_beside_a_zone_is_not_known() -> None:
    trial = cleaning.Trial("empty", "1", 1, 256 << 10, 18.77e9, 30, ("idle",))
    seen = cleaning.Seen(ZONES, 19.4, 19.6, [trial])
    assert zone_cleaning._start(seen, known_of(cleaning_type=UNKNOWN)) == []


@pytest.mark.parametrize(
    ("before", "times", "found"),
    [
        (UNKNOWN, [14e9, 15e9], ["aggressive"]),
        (UNKNOWN, [None, None], []),
        ("lazy", [14e9, 15e9], [UNKNOWN]),
        ("lazy", [None, None], []),
        ("aggressive", [14e9, 15e9], []),
    ],
)
def test_zones_that_become_clean_when_left_alone_say_that_a_drive_cleans_then(
    before: Value, times: list[float | None], found: list[Value]
) -> None:
    trials = [cleaning.Trial("empty", "1", 1, 256 << 10, time, 30, ("idle",)) for time in times]
    seen = cleaning.Seen(ZONES, 55.0, 56.0, trials)
    assert [each.value for each in zone_cleaning._type(seen, known_of(cleaning_type=before))] == found


def singles(part: str, times_s: dict[int, float]) -> list[cleaning.Trial]:
    """Single updates of full zones in a part of the usable ones, by eighth."""
    return [
        cleaning.Trial("full", str(eighth), 1, 256 << 10, time * 1e9, 30, (f"{part}-{eighth}",), part)
        for eighth, time in times_s.items()
    ]


FALLING, RISING_AGAIN = {5: 3.0, 1: 7.0, 7: 1.0, 3: 5.0}, {5: 5.0, 1: 7.0, 7: 1.0, 3: 3.0}


def test_the_size_of_bands_is_claimed_where_zones_were_cleaned_alone() -> None:
    before = known_of(band_bytes=UNKNOWN)
    every = [trial for part in ("od", "md", "id") for trial in singles(part, FALLING)]
    (found,) = zone_cleaning._bands(cleaning.Seen(trials=every), ZONES, before)
    assert found.value == {"od": 64 << 20, "md": 64 << 20, "id": 64 << 20}
    assert found.confidence == pytest.approx((23 / 24) ** 3)
    mixed = cleaning.Seen(trials=[*singles("od", FALLING), *singles("md", RISING_AGAIN)])
    (found,) = zone_cleaning._bands(mixed, ZONES, before)
    assert found.value == {"od": 64 << 20}
    assert found.rows == ("od-5", "od-1", "od-7", "od-3")
    for size, outcome in ((64 << 20, "unknown"), (32 << 20, "wrong")):
        value = dict.fromkeys(("od", "md", "id"), size)
        intervals = {key: [size, size + 1] for key in value}
        truth = {"band_bytes": {"value": value, "interval": intervals, "measurable": True}}
        assert [mark.outcome for mark in score([found], truth)] == [outcome]
    assert zone_cleaning._bands(cleaning.Seen(trials=singles("od", RISING_AGAIN)), ZONES, before) == []
    assert zone_cleaning._bands(mixed, ZONES, known_of(band_bytes=1)) == []


def test_trials_of_the_three_parts_share_no_zone_where_there_are_enough() -> None:
    of = {part: cleaning.zones_of_a_trial(ZONES, part).tolist() for part in ("od", "md", "id")}
    assert (of["od"][0], of["id"][-1]) == (0, ZONES.usable - 1)
    assert of["od"][-1] < of["md"][0] and of["md"][-1] < of["id"][0]
    assert of["md"][0] + of["md"][-1] == pytest.approx(ZONES.usable - 1, abs=1)
    few = replace(ZONES, usable=4)
    assert all(cleaning.zones_of_a_trial(few, part).tolist() == [0, 1, 2, 3] for part in of)


def test_a_way_that_takes_a_revolution_more_in_later_rounds_is_no_edge() -> None:
    """The longer burst goes further into the zones, where the way to one of them takes no revolution more."""
    few = burst([5.0, 5.0, 5.0, 11.0], rounds=20)
    later = Burst("sequential", 4096, 4, 80, log_of(np.concatenate([few.latency_ns, *[[5 * MS] * 4] * 60])))
    assert not Comparison(burst([5.0, 5.0, 5.0, 11.0] * 2, rounds=20), later, 0.0, waiting=True).is_past
    assert Comparison(burst([5.0, 12.0, 12.0, 18.0] * 2, rounds=20), later, 0.0, waiting=True).is_past


def test_few_writes_that_miss_are_past_the_edge() -> None:
    """Twelve zones, of which two a round wait for metadata, and three are compared: most rounds have none."""
    rng = np.random.default_rng(1)
    few, latency = burst([10.0] * 4, rounds=80), np.full((80, 12), 10 * MS)
    for one in latency:
        one[rng.choice(12, 2, replace=False)] += 12 * MS
    past = Burst("sequential", 4096, 12, 80, log_of(latency.ravel()))
    assert float(np.median(latency[1:, 1:4].mean(axis=1))) == 10 * MS
    assert Comparison(past, few, 4.0 * MS, waiting=True).is_past
    assert not Comparison(burst([10.0] * 12, rounds=80), few, 4.0 * MS, waiting=True).is_past


@pytest.mark.parametrize("seed", [120010, 120021, 120050, 120083, 120318, 120340, 120366])
def test_edges_just_past_which_little_is_seen(seed: int, tmp_path: Path) -> None:
    """Eleven zones, writes that wait; 110 with a volatile cache; 580 among ways of many angles; 61; and
    4,000, 1,800 and 2,100, long before which a volatile cache fills."""
    toml = _native.random_profile(seed, "host-aware")
    truth = one_test.truth_of(toml)
    findings, _ = one_test.run(open_zones.OpenZones(), toml, one_test.known_of(truth), tmp_path / "r")
    edge = next(one for one in findings if one.name == "open_zones_edge")
    true = cast("float", truth["open_zones_edge"]["value"])
    assert edge.value == pytest.approx(true, rel=0.05)
    assert edge.interval is not None and edge.interval[0] <= true <= edge.interval[1]
