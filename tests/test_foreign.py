"""Foreign devices (bench/devices): each does what it says, beside a control; what counts as right of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tally
from devices.accepted_findings import CMR, outcome, word
from devices.ailments import VerifiedWrites
from devices.arrays import Concatenated, Striped
from devices.base import BLOCK, FLUSH, GIB, MIB, MS, READ, WRITE, Device, Disk, Host
from devices.caches import BATTERY, PAGE_CACHE, SSD_CACHE, CacheTraits, MediaCache, WriteBack
from devices.catalogue import CATALOGUE
from devices.firmware import BridgeMemory, CarefulMediaCache, FlashAtFlush, IdleModes, NewestFirst, Sweeping
from devices.flash import BurstCredits, SlcCache
from devices.mappers import Snapshot, ZoneMapper
from devices.redundant import Mirrored, Parity
from devices.volumes import LogStructured, Thin, UnwrittenFile
from skylight.evidence import IoBatch, IoLog, Op, Stop
from skylight.findings import UNKNOWN, Finding
from skylight.probe.scoring import Outcome
from skylight.probe.suite import PROPERTIES

ROOT = Path(__file__).parent.parent
PLACES = np.arange(1, 41, dtype=np.uint64) * np.uint64(7 * GIB)


def disk() -> Disk:
    return Disk(CMR, 1)


def median_ms(log: IoLog) -> float:
    return float(np.median(log.latency_ns)) / MS


def written(device: Device, places: np.ndarray = PLACES) -> float:
    return median_ms(device.run(IoBatch.writes(places, BLOCK)))


def read(device: Device, places: np.ndarray = PLACES) -> float:
    return median_ms(device.run(IoBatch.reads(places, BLOCK)))


def small(traits: CacheTraits, blocks: int) -> CacheTraits:
    """The same cache with room for so many blocks."""
    return CacheTraits(
        blocks * BLOCK, traits.read_ns, traits.write_ns, traits.bytes_per_s, traits.bypass_bytes,
        traits.idle_ns, traits.keeps_reads, traits.flushes,
    )  # fmt: skip


@pytest.mark.parametrize("device", CATALOGUE, ids=lambda device: device.name)
def test_every_device_serves_in_order_and_alike(device: object) -> None:
    made = next(each for each in CATALOGUE if each is device)
    batch = IoBatch(
        np.array([1, 0, 2, 0, 1, 1], np.uint8),
        np.array([0, 0, 0, GIB, GIB, 5 * GIB], np.uint64),
        np.array([BLOCK, BLOCK, 0, MIB, BLOCK, MIB], np.uint32),
    )
    logs = [made.make(1).run(batch, depth=depth) for depth in (1, 1, 4)]
    assert logs[0].equals(logs[1])
    for log in logs:
        assert len(log) == len(batch)
        assert (np.diff(log.submit_ns.astype(np.int64)) >= 0).all()
        assert (log.complete_ns > log.submit_ns).all()
    assert (logs[0].submit_ns[1:] > logs[0].complete_ns[:-1]).all()
    assert (logs[2].submit_ns[:4] == logs[2].submit_ns[0]).all()


def test_a_stop_ends_a_run() -> None:
    log = Concatenated("one", [disk()]).run(IoBatch.reads(PLACES, BLOCK), until=Stop(1, 3, 3))
    assert len(log) == 3


def test_stripes_are_read_from_both_disks() -> None:
    def sequential_ms(device: Device) -> float:
        return float(np.sum(device.run(IoBatch.reads(np.arange(8) * 16 * MIB, 16 * MIB)).latency_ns)) / MS

    two, one = sequential_ms(Striped("two", [disk(), disk()])), sequential_ms(Concatenated("one", [disk()]))
    assert 1.6 < one / two < 2.4


def test_a_concatenation_goes_on_with_the_next_disk() -> None:
    first, second = disk(), disk()
    device = Concatenated("two", [first, second], 16 * GIB)
    assert device.size == 16 * GIB + second.size
    device.run(IoBatch.reads([16 * GIB - MIB], 2 * MIB))
    assert first.now_ns > 0 and second.now_ns > 0


def test_a_write_back_cache_takes_writes_until_it_is_full() -> None:
    device = WriteBack("cache", disk(), small(SSD_CACHE, 30))
    latency = device.run(IoBatch.writes(PLACES, BLOCK)).latency_ns
    assert latency[:30].max() < MS < latency[30]
    empty = WriteBack("cache", disk(), small(SSD_CACHE, 30))
    written(empty, PLACES[:30])
    empty.pause(60)
    assert not empty.dirty
    assert empty.run(IoBatch.writes(PLACES[:30] + np.uint64(MIB), BLOCK)).latency_ns.max() < MS


def test_only_a_volatile_cache_is_emptied_by_a_flush() -> None:
    flush = IoBatch.make(Op.FLUSH, [0], 0)
    for traits, keeps in ((BATTERY, True), (PAGE_CACHE, False)):
        device = WriteBack("cache", disk(), traits)
        written(device)
        took_ns = int(device.run(flush).latency_ns[0])
        assert bool(device.dirty) is keeps
        assert (took_ns < MS) is keeps


def test_large_writes_pass_by_a_cache() -> None:
    device = WriteBack("cache", disk(), SSD_CACHE)
    device.run(IoBatch.writes(PLACES[:4], 2 * MIB))
    assert not device.dirty


def test_a_media_cache_appends_and_moves_home_when_idle() -> None:
    device, plain = MediaCache("media", disk()), Concatenated("one", [disk()])
    written(device), written(plain)
    assert list(device.places.values()) == [number * BLOCK for number in range(len(PLACES))]
    near_ms, far_ms = read(device), read(plain)
    device.pause(60)
    assert not device.places
    home_ms = read(device)
    assert abs(home_ms - far_ms) < 3
    assert near_ms != home_ms


def test_a_log_reads_what_lies_together_where_it_was_written_together() -> None:
    device = LogStructured("log", disk())
    scattered = np.random.default_rng(1).permutation(PLACES)
    assert read(device) < 0.1
    written(device, scattered)
    # One behind the other in the log, whatever their addresses: no seek.
    assert float(device.run(IoBatch.reads(scattered, BLOCK)).latency_ns.mean()) / MS < 12


@pytest.mark.parametrize("kind", [Thin, UnwrittenFile])
def test_what_was_never_written_is_not_on_the_disk(kind: type[Thin] | type[UnwrittenFile]) -> None:
    device = kind("volume", disk())
    assert read(device) < 0.1
    written(device)
    device.pause(1)
    assert read(device, PLACES[::-1].copy()) > 1
    assert read(device, PLACES + np.uint64(2 * MIB)) < 0.1


def test_a_file_knows_its_holes() -> None:
    device = UnwrittenFile("file", disk())
    assert device.holes(PLACES) == 1.0
    written(device, PLACES[:20])
    assert device.holes(PLACES) == 0.5


def test_the_family_is_documented_and_names_findings_that_exist() -> None:
    page = (ROOT / "docs/foreign-devices.md").read_text(encoding="utf-8")
    assert len({device.name for device in CATALOGUE}) == len(CATALOGUE)
    for device in CATALOGUE:
        assert f"`{device.name}`" in page, device.name
        assert set(device.accepts) <= set(PROPERTIES), device.name
        assert device.make(1).size > GIB


def test_a_device_like_a_disk_has_its_numbers() -> None:
    device = next(each for each in CATALOGUE if each.name == "bad-region")
    answers = device.right_answers()
    true = answers["rotation_ns"][0]["value"]
    said = [Finding("rotation_ns", value, "ns", None, 1.0, "") for value in (true, 2 * true, UNKNOWN)]
    assert [outcome(each, answers) for each in said] == ["right", "wrong", "unknown"]
    assert outcome(Finding("band_bytes", 1, "bytes", None, 1.0, ""), answers) == "wrong"
    assert (
        outcome(Finding("drive_type", "cmr", None, None, 1.0, ""), {"drive_type": [word("cmr")]}) == "right"
    )


def test_a_disk_behind_a_cache_keeps_its_surfaces() -> None:
    """The suite found them, and it was counted as a falsehood."""
    answers = next(each for each in CATALOGUE if each.name == "guest-cache").right_answers()
    true = answers["plateaus"][0]["value"]
    said = [Finding("plateaus", {**true, "count": count}, "bytes", None, 0.97, "") for count in (10, 9)]
    assert [outcome(each, answers) for each in said] == ["right", "wrong"]
    alone = {each.name: each.right_answers() for each in CATALOGUE if each.part_of_disk}
    assert alone and not any("plateaus" in each for each in alone.values()), "these end before that disk does"


def counted(outcome: Outcome, confidence: float, name: str = "drive_type") -> tally.Counted:
    return tally.Counted("7", "ssd", name, outcome, outcome != "unknown", confidence)


def test_confidence_is_held_against_the_share_that_is_right() -> None:
    found = [counted("right", 0.97)] * 57 + [counted("wrong", 0.97)] * 3 + [counted("unknown", 0.0)] * 9
    (only,) = tally.bins(found)
    assert (only.findings, only.right, only.calibrated) == (60, 57, True)
    (bad,) = tally.bins([*found, *[counted("wrong", 0.97)] * 4])
    assert bad.judged and not bad.calibrated
    (few,) = tally.bins(found[50:])
    assert few.calibrated and not few.judged


def test_falsehoods_are_confident_and_wrong() -> None:
    found = [counted("wrong", 0.95), counted("wrong", 0.89), counted("right", 0.99), counted("wrong", 0.999)]
    assert [each.confidence for each in tally.confident_falsehoods(found)] == [0.999, 0.95]


def test_levels_are_sorted_by_what_is_right() -> None:
    found = [counted("right", 0.9, "one"), counted("unknown", 0.0, "other"), counted("wrong", 0.9, "other")]
    assert list(tally.by_finding(found)) == ["other", "one"]
    assert tally.by_factor(found)["drive", "ssd"].to_json() == {"right": 1, "wrong": 1, "unknown": 1}


def test_the_border_of_two_disks_is_not_judged() -> None:
    by_name = {device.name: device.right_answers() for device in CATALOGUE if "smr" in device.name}
    row = by_name["concat-smr"]["track_bytes"][0]["value"]
    found = Finding("track_bytes", {**row, "md": row["id"]}, "bytes", None, 1.0, "")
    assert outcome(found, by_name["concat-smr"]) == "right"
    assert outcome(found, by_name["unwritten-smr-file"]) == "wrong"


def test_a_small_write_of_parity_reads_first() -> None:
    parity, stripes = Parity("five", [disk() for _ in range(3)]), Striped("zero", [disk(), disk()])
    assert written(parity) > written(stripes) + 5
    whole = np.arange(40, dtype=np.uint64) * np.uint64(parity.row_bytes * 1000)
    latency = parity.run(IoBatch.writes(whole, parity.row_bytes)).latency_ns
    assert float(np.median(latency)) / MS < written(parity)


def test_a_mirror_reads_from_one_disk_and_writes_to_both() -> None:
    one, other = disk(), disk()
    device = Mirrored("mirror", [one, other])
    before = other.now_ns
    device.run(IoBatch.reads([0], BLOCK))
    assert one.now_ns > 0 and other.now_ns == before
    device.run(IoBatch.writes([0], BLOCK))
    assert other.now_ns > before


def test_the_first_write_of_a_chunk_is_copied() -> None:
    device = Snapshot("snapshot", disk())
    assert written(device) > written(device) + 10


def test_a_mapper_rewrites_a_zone_when_its_buffers_are_used_up() -> None:
    device = ZoneMapper("mapper", disk())
    latency = device.run(IoBatch.writes(PLACES, BLOCK)).latency_ns
    assert latency[: device.buffers].max() < 100 * MS < 1000 * MS < latency[device.buffers :].min()
    again = device.run(IoBatch.writes(PLACES[-3:] + np.uint64(BLOCK), BLOCK)).latency_ns
    assert again.max() < 100 * MS


def test_flash_and_rented_volumes_fall_off_a_cliff() -> None:
    flash = SlcCache("flash", 64 * GIB, 1)
    flash.cache_bytes = 20 * BLOCK
    assert flash.run(IoBatch.writes(PLACES, BLOCK)).latency_ns[20:].min() > 40_000
    assert flash.used == 20 * BLOCK
    flash.pause(2)
    assert flash.used == 0
    rented = BurstCredits("rented", 512 * GIB, 1)
    rented.left = 20.0
    latency = rented.run(IoBatch.reads(PLACES, BLOCK)).latency_ns
    assert float(np.median(latency[:10])) < 2 * MS < 8 * MS < float(np.median(latency[-10:]))


def test_verified_writes_take_a_revolution_more() -> None:
    device, plain = VerifiedWrites("verified", disk(), 1), Concatenated("one", [disk()])
    assert 5 < written(device) - written(plain) < 12


@pytest.mark.parametrize(
    ("kind", "ranks"), [(CarefulMediaCache, [0, 1, 2]), (NewestFirst, [4, 3, 2]), (Sweeping, [2, 3, 4])]
)
def test_writes_go_home_one_by_one_in_the_order_of_the_device(
    kind: type[CarefulMediaCache], ranks: list[int]
) -> None:
    device = kind("log", disk())
    places = np.array([1, 400, 2600, 3000, 3200], np.uint64) * np.uint64(GIB)
    device.run(IoBatch.writes(places, 2 * BLOCK))
    device.pause((device.idle_ns + 2.5 * device.each_ns) / 1e9)
    gone = [rank for rank, place in enumerate(places) if int(place) // BLOCK not in device.places]
    assert gone == sorted(ranks)


def test_memory_that_flush_saves_to_flash_is_written_out_later() -> None:
    kept, ignored = FlashAtFlush("flash", disk(), 1), BridgeMemory("bridge", disk(), 1)
    for device in (kept, ignored):
        took_ns = written(device) * MS
        assert took_ns < MS
        before = len(device.dirty)
        at_ns = device.now_ns
        assert device.serve(FLUSH, 0, 0, at_ns) - at_ns < 2 * MS and len(device.dirty) >= before - 1 > 0
        device.pause(60)
        assert not device.dirty


def test_a_disk_that_sleeps_wakes_for_the_first_command() -> None:
    device = IdleModes("sleepy", disk(), 1)
    awake = read(device)
    device.pause(10)
    latency = device.run(IoBatch.reads(PLACES, BLOCK)).latency_ns
    assert latency[0] > 900 * MS and float(np.median(latency[1:])) / MS < 2 * awake


def test_a_busy_host_stops_between_commands_and_notices_late() -> None:
    ideal, busy = Concatenated("one", [disk()]), Concatenated("one", [disk()])
    busy.host = Host(np.random.default_rng(1), gap_every=4, late_every=4)
    batch = IoBatch(
        np.tile(np.array([READ, WRITE], np.uint8), 200),
        np.full(400, 0, np.uint64),
        np.full(400, BLOCK, np.uint32),
    )
    logs = [device.run(batch) for device in (ideal, busy)]
    gaps = [(log.submit_ns[1:] - log.complete_ns[:-1]).astype(np.int64) for log in logs]
    assert int(gaps[0].max()) < MS < 5 * MS < float(gaps[1].mean())
    assert int(np.count_nonzero(logs[1].latency_ns > logs[0].latency_ns.max() + MS)) > 4
