"""Test `cache_location` on emulated drives, and its statistics alone."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from one_test import few
from skylight import _native
from skylight.engines.sim import SimEngine
from skylight.evidence import I64, Evidence, IoBatch, IoLog, Op, TargetFacts
from skylight.findings import UNKNOWN, Finding, Known
from skylight.probe import durable_writes
from skylight.probe.cache_location import CacheLocation
from skylight.probe.cache_location.measure import WRITE_BYTES, WRITES, _cache
from skylight.probe.cache_location.verdict import Seen, correlation, judge, radius
from skylight.probe.procedure import Steps
from skylight.probe.suite import SuiteOptions, SuiteResult, draw_suite, infer_suite, run_suite

MS, MIB = 1_000_000, 1 << 20
ONLY = SuiteOptions(only=("cache_location",))


def location(result: SuiteResult) -> Finding:
    return next(finding for finding in result.findings if finding.name == "cache_location")


@pytest.mark.parametrize(
    ("name", "place"),
    few(
        [("emulated-smr-2", "none"), ("emulated-smr-3", "many"), ("st8000as0011", "od")],
        of=[
            ("emulated-smr-1", "id"),
            ("emulated-smr-2", "none"),
            ("emulated-smr-3", "many"),
            ("st5000as0011", "od"),
            ("st8000as0011", "od"),
            ("st4000nc001", "none"),
        ],
    ),
)
def test_the_papers_drives(name: str, place: str, tmp_path: Path) -> None:
    result = run_suite(SimEngine.open(name), tmp_path / "r", ONLY)
    assert location(result).value == place
    # Where there is no place the finding is as sure as the medium that it rests on.
    medium = next(finding for finding in result.findings if finding.name == "cache_medium")
    assert location(result).confidence > 0.8 or location(result).confidence == medium.confidence
    assert infer_suite(tmp_path / "r").findings == result.findings
    drawn = [figure.name for figure in draw_suite(result) if figure.name.startswith("cache-location")]
    assert drawn == ([] if place == "none" else ["cache-location-reads", "cache-location-profile"])


@pytest.mark.parametrize(
    ("seed", "kind", "place"), [(1006, "set-associative", "md"), (1002, "journaled", "od")]
)
def test_random_drives(seed: int, kind: str, place: str, tmp_path: Path) -> None:
    drive = _native.SimDrive(_native.random_profile(seed, kind), "drive.toml", seed)
    facts = TargetFacts("sim", "sim:drive.toml", drive.size_bytes, drive.block_bytes)
    assert location(run_suite(SimEngine(drive, facts), tmp_path / "r", ONLY)).value == place


def test_fragmented_reads_cost_more_away_from_the_cache(tmp_path: Path) -> None:
    result = run_suite(SimEngine.open("st5000as0011"), tmp_path / "r", ONLY)
    evidence = next(kept for kept in result.evidence if kept.test == "cache_location")
    low, mid, high = (
        float(evidence.log(f"fragmented-{region}").latency_ns.mean()) for region in ("low", "mid", "high")
    )
    assert low < mid < high


def test_nothing_measured_is_unknown() -> None:
    empty = Evidence("cache_location", TargetFacts("sim", "sim:x", 1 << 40, 512))
    smr = Known([Finding("drive_type", "smr", None, None, 0.9, "seen")])
    for known in (Known(), smr):
        (finding,) = CacheLocation().infer(empty, known)
        assert (finding.value, finding.confidence) == (UNKNOWN, 0.0)
    assert CacheLocation().draw(empty, []) == []


@pytest.mark.parametrize(("medium", "value"), [(None, "none"), ("disk", UNKNOWN)])
def test_blocks_of_a_cache_on_disk_that_need_no_platter_are_in_volatile_memory(
    medium: str | None, value: str
) -> None:
    """As of a volatile cache that ignores FLUSH: the drive's own location is not seen."""
    quick_ns = np.full(100, 780_000, np.int64)
    seen = Seen(cached={"low-high": quick_ns, "low-low": quick_ns}, profile={0.5: quick_ns})
    known = Known([] if medium is None else [Finding("cache_medium", medium, None, None, 1.0, "seen")])
    assert judge(seen, known).value == value


SHARES = (np.arange(16) + 0.5) / 16
TRACK_NS, THIRD_NS, FULL_NS = 1_000_000, 4_000_000, 8_000_000
ROOT = ((THIRD_NS - TRACK_NS) / (FULL_NS - TRACK_NS) - 1 / 3) / (3**-0.5 - 1 / 3)


ARM = Known(
    [Finding("seek_ns", {"track": TRACK_NS, "third": THIRD_NS, "full": FULL_NS}, "ns", None, 0.9, "")]
)


def noisy(rng: np.random.Generator, caches: tuple[float, ...], revolution_ns: int = 12 * MS) -> Seen:
    """A profile as of a drive with a seek of 4 ms over a third of its tracks and 8 ms over all, and caches
    at these addresses, read in turn with native blocks, behind waits of up to a revolution."""

    def reads(way_ns: float) -> I64:
        return np.asarray(way_ns + rng.uniform(MS, MS + revolution_ns, 79), np.int64)

    def way_ns(one: float, other: float) -> float:
        apart = abs(one - other)
        return (FULL_NS - TRACK_NS) * (ROOT * float(np.sqrt(apart)) + (1 - ROOT) * apart)

    means = {float(at): float(np.mean([way_ns(at, cache) for cache in caches])) for at in SHARES}
    profile = {at: reads(mean) for at, mean in means.items()}
    apart = reads(way_ns(caches[0], caches[-1]))
    return Seen(cached={"low-high": apart, "low-low": reads(0.0)}, profile=profile)


@pytest.mark.parametrize(
    ("caches", "places"),
    [
        ((0.0,), {"od"}),
        ((0.5,), {"md"}),
        ((1.0,), {"id"}),
        ((0.25,), set()),
        ((0.002, 0.5, 0.995), {"many"}),
    ],
)
def test_noisy_ways_of_the_arm_name_the_place_or_none(caches: tuple[float, ...], places: set[str]) -> None:
    seed = 20261129
    print("seed", seed)
    rng = np.random.default_rng(seed)
    said = [judge(noisy(rng, caches), ARM).value for _ in range(20)]
    assert set(said) <= places | {UNKNOWN}
    assert not places or said.count(UNKNOWN) < 6, "most are known"


@pytest.mark.parametrize(("caches", "place"), [((0.0, 0.1, 0.8), "many"), ((0.02, 0.1, 0.2, 0.9), "many")])
def test_many_caches_most_of_which_lie_towards_an_end_are_not_one_there(
    caches: tuple[float, ...], place: str
) -> None:
    """As of 103449 drawn and nine more of 1,160: the profile was that of one at the OD, but cached blocks of
    far addresses lay farther apart than any address was from there."""
    seed = 20261130
    print("seed", seed)
    rng = np.random.default_rng(seed)
    said = [judge(noisy(rng, caches, 3 * MS), ARM).value for _ in range(20)]
    assert said.count(place) > 18


@pytest.mark.parametrize(("caches", "place"), [((0.3, 0.52), "many"), ((0.46, 0.54), "md")])
def test_two_caches_about_the_middle_are_not_one_there(caches: tuple[float, float], place: str) -> None:
    """Of drive 100225 drawn each half has free bands of its own, and both that were in use lay near the
    middle: the profile was that of one cache, while far cached blocks were farther apart than it is wide."""
    seed = 20261129
    print("seed", seed)
    rng = np.random.default_rng(seed)
    said = [judge(noisy(rng, caches, 3 * MS), ARM).value for _ in range(20)]
    assert set(said) <= {place, UNKNOWN}
    assert said.count(place) > 14


def test_a_place_that_most_resamples_do_not_name_is_unknown() -> None:
    """Of drive 99326 drawn the middle was named by 41 of 100, and of 99349 the OD by 35: both have many."""
    seed = 20261129
    print("seed", seed)
    rng = np.random.default_rng(seed)
    said = [judge(noisy(rng, (0.3,), 40 * MS), ARM) for _ in range(60)]
    named = [finding for finding in said if finding.value != UNKNOWN]
    assert named
    assert all(finding.confidence >= 0.5 for finding in named)


def test_rank_correlation() -> None:
    rising = np.array([1.0, 2.0, 5.0, 9.0])
    assert correlation(rising, rising**2) == pytest.approx(1.0)
    assert correlation(rising, -rising) == pytest.approx(-1.0)
    assert correlation(rising, np.ones(4)) == 0.0


def test_radius_of_an_address() -> None:
    at = radius(np.array([0.0, 0.5, 1.0]), 2.5)
    assert at[0] == 0.0 and at[2] == pytest.approx(1.0)
    assert 0.35 < at[1] < 0.45  # outer tracks hold more: half of the bytes lie on fewer tracks


def test_the_look_for_a_volatile_cache_is_in_the_plan() -> None:
    """Where the medium of the cache is not known it writes 100 MiB: of drive 98612 drawn the bound of 24 MiB
    ended the test, and nothing that needs the place of the cache was found."""
    facts = TargetFacts("sim", "sim:drive", 1 << 40, 4096)
    written = []

    def run(_name: str, io: IoBatch, **_: object) -> IoLog:
        written.append(int(io.size[io.op == int(Op.WRITE)].sum(dtype=np.uint64)))
        done = np.arange(1, len(io) + 1, dtype=np.uint64) * np.uint64(MS)
        return IoLog.of(io, done - np.uint64(MS), done)

    rotation = Finding("rotation_ns", 8 * MS, "ns", None, 0.9, "")
    steps = SimpleNamespace(
        size=1 << 40, block_bytes=4096, known=Known([rotation]), run=run, rng=_rng, quiet=_quiet
    )
    durable_writes.volatile(cast(Steps, steps), reported=True)
    assert 90 * MIB < sum(written) <= durable_writes.most_written()
    assert CacheLocation().cost(facts).bytes_written >= sum(written) + 24 * MIB


def _rng(_: str) -> np.random.Generator:
    return np.random.default_rng(1)


def _quiet() -> None:
    """The drive is quiet."""


@pytest.mark.parametrize("which", [0, 8])
def test_what_was_written_before_cleaning_is_written_again(which: int) -> None:
    """Of drives 99308 and 99335 drawn a cache band was cleaned amid the writes of the last region, which was
    home then and read as if it were cached there: one cache at the OD was taken for many. The FLUSH may wait
    in place of a write."""
    names: list[str] = []

    def run(name: str, io: IoBatch, **_: object) -> IoLog:
        took = np.full(len(io), 9 * MS, np.uint64)
        took[which] = np.uint64(9 * MS if names else 2_000 * MS)
        names.append(name)
        done = np.cumsum(took)
        return IoLog.of(io, done - took, done)

    rotation = Finding("rotation_ns", 8 * MS, "ns", None, 0.9, "")
    steps = SimpleNamespace(block_bytes=4096, known=Known([rotation]), run=run, rng=_rng, pause=_pause)
    blocks = _cache(cast(Steps, steps), "high", 1 << 30)
    assert names == ["cache-high", "cache-high"]
    assert len(blocks) == WRITES * WRITE_BYTES // 4096


def _pause(_name: str, _seconds: float) -> None:
    """No time passes."""
