"""Where the ordinary tests go on a zoned target: zones with a write pointer, which hold data where they are
read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fake_zoned import MIB, FakeZoned, ZonedTraits
from skylight import _native
from skylight.engines.sim import SimEngine
from skylight.engines.sim_under_conditions import engine_over
from skylight.errors import UsageError
from skylight.evidence import Evidence, IoBatch, Op, TargetFacts
from skylight.findings import Known
from skylight.probe.first_addresses import are_in_place
from skylight.probe.known_state import State
from skylight.probe.procedure import Replay
from skylight.probe.session import Session
from skylight.probe.suite import SuiteOptions, accounts, infer_suite, run_suite
from skylight.probe.zoned import (
    FILL_BYTES,
    MOST_FILLED_BYTES,
    NON_SEQUENTIAL,
    Filling,
    UsablePart,
    counted,
    non_sequential_of,
    zones_of,
)
from skylight.recording import Recording

CONVENTIONAL_FIRST = 8805
"""A random host-aware drive, nearly all of whose zones are conventional."""
ZONE = ZonedTraits().zone_bytes


def part_of(engine: FakeZoned) -> UsablePart:
    """The zones with a write pointer."""
    seen = zones_of(engine)
    assert seen is not None
    return UsablePart(engine, seen)


def test_addresses_of_a_part_count_from_its_first_zone() -> None:
    engine = FakeZoned(ZonedTraits(zones=20, conventional=16))
    part = part_of(engine)
    assert part.size == part.describe().size_bytes == 4 * ZONE
    log = part.run(IoBatch.writes([0, 4096, ZONE], 4096))
    assert log.offset.tolist() == [0, 4096, ZONE]
    assert engine.pointer[16:18].tolist() == [8192, 4096] and not engine.pointer[:16].any()
    zones = part.report_zones()
    assert zones.start_bytes.tolist() == [0, ZONE, 2 * ZONE, 3 * ZONE]
    assert zones.write_pointer_bytes.tolist()[:2] == [8192, ZONE + 4096]
    assert part.non_sequential_zones() == engine.non_sequential_zones() == 0
    part.run(IoBatch.writes([2 * ZONE + 8192], 4096))
    assert part.non_sequential_zones() == engine.non_sequential_zones() == 1
    layout = part.zone_layout()
    assert layout is not None and (layout.zones, layout.conventional_zones) == (4, 0)
    part.run(IoBatch.make(Op.RESET_ZONE, [0], 0))
    assert not engine.pointer.any(), "all zones: a size of 0 has no place"


def test_a_part_counts_its_own_zones_alone() -> None:
    engine = FakeZoned(ZonedTraits(zones=20, conventional=4, failed=(10,)))
    part = part_of(engine)
    engine.run(IoBatch.writes([6 * ZONE + 8192, 15 * ZONE + 8192], 4096))
    assert (engine.non_sequential_zones(), part.non_sequential_zones()) == (2, 1), (
        "zones 11 to 19 are the part"
    )


def test_a_count_is_kept_by_itself_or_as_a_part_of_a_report() -> None:
    """Recordings from before zones were counted alone hold a whole report at each poll."""
    engine = FakeZoned(ZonedTraits(zones=20, conventional=4))
    engine.run(IoBatch.writes([6 * ZONE + 8192], 4096))
    seen = zones_of(engine)
    assert seen is not None and non_sequential_of(engine) == 1
    assert counted("count", seen.params()) == counted("count", {NON_SEQUENTIAL: 1}) == 1
    for wrong in ({}, {NON_SEQUENTIAL: True}, {NON_SEQUENTIAL: -1}, {NON_SEQUENTIAL: "1"}):
        with pytest.raises(UsageError, match=r"step 'count' has non_sequential .*; probe the target again"):
            counted("count", wrong)


def test_what_is_read_is_filled_once_and_in_order() -> None:
    engine, filling = FakeZoned(ZonedTraits(zones=32, conventional=4)), Filling()
    at = np.array([2 * ZONE, 10 * ZONE + 5, 11 * ZONE - 1], np.uint64)
    batch = filling.batch(engine.report_zones(), at, 4096, rest=False)
    assert batch is not None
    filling.begun = True
    assert (batch.op[0], batch.size[0]) == (int(Op.RESET_ZONE), 0)
    filling.done(engine.report_zones(), engine.run(batch), whole=True)
    assert np.flatnonzero(engine.pointer).tolist() == [10, 11], "a conventional zone has no write pointer"
    assert engine.pointer[10] == ZONE and int(batch.size.max()) == FILL_BYTES
    again = filling.batch(engine.report_zones(), at, 4096, rest=False)
    assert again is not None and len(again) == 0
    more = filling.batch(engine.report_zones(), np.array([20 * ZONE], np.uint64), 4096, rest=False)
    assert more is not None and Op.RESET_ZONE not in more.op, "what was filled stays"


@pytest.mark.parametrize(("traits", "at"), [
    (ZonedTraits(zones=32, capacity_bytes=48 * MIB), 20 * ZONE + 48 * MIB - 2048),
    (ZonedTraits(zones=8_192), None),
])  # fmt: skip
def test_what_cannot_be_filled_is_said_to_be(traits: ZonedTraits, at: int | None) -> None:
    where = np.arange(20, traits.zones) * ZONE if at is None else np.array([at])
    assert (
        Filling().batch(FakeZoned(traits).report_zones(), where.astype(np.uint64), 4096, rest=False) is None
    )


def test_zones_are_full_before_a_step_touches_them_first() -> None:
    engine = FakeZoned(ZonedTraits(zones=2_048, conventional=0))
    filling, writes = Filling(), IoBatch.writes([5 * ZONE + 4096, 9 * ZONE - 1024], 4096)
    new = filling.new(ZONE, writes)
    assert new == {5, 8, 9}
    ahead = filling.ahead(engine.report_zones(), new, rest=False)
    assert ahead is not None
    engine.run(ahead)
    assert np.flatnonzero(engine.pointer == ZONE).tolist() == [5, 8, 9]
    filling.met |= new
    assert not filling.new(ZONE, writes)
    engine.run(IoBatch.writes([7 * ZONE + 4096], 4096))
    assert filling.ahead(engine.report_zones(), {7}, rest=False) is None, "what lies there is wanted"
    flush = filling.ahead(engine.report_zones(), {7}, rest=True)
    assert flush is not None and flush.op.tolist() == [Op.FLUSH]
    engine.run(IoBatch.writes([6 * ZONE], 4096))
    assert filling.ahead(engine.report_zones(), {6}, rest=False) is None
    more = filling.ahead(engine.report_zones(), {6}, rest=True)
    assert more is not None and more.offset[0] == 6 * ZONE + 4096
    many = IoBatch.writes(np.arange(MOST_FILLED_BYTES // ZONE + 5, dtype=np.uint64) * np.uint64(ZONE), 4096)
    assert not filling.new(ZONE, many), "it would take too long"
    assert not filling.new(ZONE, IoBatch.make(Op.FLUSH, [0], 0))


def drive(conditions: str = "[conditions]\n") -> SimEngine:
    """A drive whose first zones are conventional."""
    text = _native.random_profile(CONVENTIONAL_FIRST, "host-aware")
    sim = _native.SimDrive(text, "drive.toml", CONVENTIONAL_FIRST, conditions)
    return engine_over(sim, TargetFacts("sim", "sim:drive.toml", sim.size_bytes, sim.block_bytes))


def test_a_reset_of_all_zones_leaves_the_cache_empty(tmp_path: Path) -> None:
    engine = drive('[conditions]\nerase = "none"\nclock = "1 us"\n')
    seen = zones_of(engine)
    recording = Recording.create(tmp_path / "r", engine.describe(), {}, 1)
    with recording.part("any") as writer:
        session = Session(engine, writer, test="any", seed=1, known=Known(), part=seen)
        session.run("use", IoBatch.writes([MIB, 5 * MIB], 4096))
        assert engine.counters()["cache_live_bytes"] == 8192
        assert session.reset("reset") is State.CLEAN
        assert engine.counters()["cache_live_bytes"] == 0
        session.run("use-again", IoBatch.writes([MIB, 5 * MIB], 4096))
        writer.complete()
    evidence = recording.evidence("any")
    assert isinstance(evidence, Evidence)
    replay = Replay(evidence, Known(writes=True))
    assert replay.size == session.size < engine.size
    replay.run("use", IoBatch.writes([MIB, 5 * MIB], 4096))
    assert replay.reset("reset") is State.CLEAN
    replay.run("use-again", IoBatch.writes([MIB, 5 * MIB], 4096))
    assert replay.names == session.names
    assert [name for name in replay.names if name.startswith("zones-filled")] == [
        "zones-filled", "zones-filled-2"
    ], "a reset leaves them empty"  # fmt: skip


def test_a_drive_is_shingled_although_its_first_zones_are_conventional(tmp_path: Path) -> None:
    result = run_suite(drive(), tmp_path / "r", SuiteOptions(only=("cache_location",)))
    known = Known(result.findings)
    assert (known.word("drive_type"), known.word("cache_medium")) == ("smr", "disk")
    text = _native.random_profile(CONVENTIONAL_FIRST, "host-aware")
    truth = _native.profile_truth(text, "drive.toml")
    assert f'"{known.word("cache_location")}"' in truth and known.word("cache_location") == "od"
    turn_ns = known.number("rotation_ns")
    assert turn_ns is not None and known.part("track_bytes", "id") is not None
    assert infer_suite(tmp_path / "r").findings == result.findings
    told = accounts(result)
    assert all(account.within for account in told)
    filled = [account.bytes_written for account in told if account.test.endswith(", zones filled")]
    assert filled and all(filled), "what fills zones has an account of its own"


class HidesZones(SimEngine):
    """A drive that reports no zones, as behind a bridge that passes no commands about them."""

    def zone_layout(self) -> None:
        """None are reported."""
        return


def hidden(seed: int) -> HidesZones:
    """A random host-aware drive that hides its zones, all of which hold data: what none holds is read without
    the medium."""
    sim = _native.SimDrive(_native.random_profile(seed, "host-aware"), "drive.toml", 1)
    engine = HidesZones(sim, TargetFacts("sim", "sim:drive.toml", sim.size_bytes, sim.block_bytes))
    engine.run(IoBatch.writes(np.arange(0, sim.size_bytes - 4 * MIB, 4 * MIB, dtype=np.uint64), 4 * MIB))
    engine.pause(60.0)
    return engine


def test_a_drive_that_hides_its_zones_is_found_out(tmp_path: Path) -> None:
    """By the ordinary tests alone."""
    result = run_suite(hidden(121_001), tmp_path / "r", SuiteOptions(only=("drive_type",)))
    known = Known(result.findings)
    assert (known.word("drive_type"), known.word("cache_medium")) == ("smr", "disk")
    assert known.get("zone_model") is None and not are_in_place(known)


def test_hidden_zones_in_the_last_quarter_alone_are_found_out(tmp_path: Path) -> None:
    """Of 121011 three quarters are conventional, and of five parts that are looked at four: this was a
    conventional drive, at 0.98."""
    result = run_suite(hidden(121_011), tmp_path / "r", SuiteOptions(only=("drive_type",)))
    kind = next(finding for finding in result.findings if finding.name == "drive_type")
    assert kind.value == "smr" and "in part written in place" in kind.why
    assert "3 are written in place and 1 to a log or a cache" in kind.why


def test_what_hidden_conventional_zones_at_the_start_show_says_nothing_of_the_others(tmp_path: Path) -> None:
    """The type is known by other parts; of the journal and where the cache is the start shows nothing: it was
    said to have other slots than it has, merges of a map that it does not make, and caches in many places."""
    result = run_suite(hidden(121_005), tmp_path / "r", SuiteOptions(only=("journal", "cache_location")))
    known = Known(result.findings)
    assert known.word("drive_type") == "smr" and are_in_place(known)
    for name in ("cache_location", "journal_quantum_bytes", "map_merge_every"):
        finding = known.get(name)
        assert finding is not None and not finding.known, finding
    assert infer_suite(tmp_path / "r").findings == result.findings
