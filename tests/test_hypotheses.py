"""What a target may be: the models and their clues, what it costs to bring a block home, and stripes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from devices.accepted_findings import CMR
from devices.base import Device, Disk
from devices.caches import BATTERY, MediaCache, WriteBack
from devices.catalogue import CATALOGUE
from skylight import _native
from skylight.engines import Engine
from skylight.engines.sim import SimEngine, read_profile
from skylight.engines.sim_under_conditions import engine_over
from skylight.evidence import F64, I64, IoBatch, IoLog, TargetFacts
from skylight.findings import UNKNOWN, Finding, Known
from skylight.infer.blocks_moved import Moved, moved_between
from skylight.infer.phase import Coherence
from skylight.infer.priors import CHOSEN, PRIORS
from skylight.infer.robust import Spread, tick_of
from skylight.infer.striped import stripe_of
from skylight.infer.track_phases import fit_tracks
from skylight.probe.cache_location.findings import LOCATION
from skylight.probe.cleaning.findings import BAND
from skylight.probe.drive_type import DriveType, hypotheses, verdict
from skylight.probe.drive_type.cleaning_cost import Settled
from skylight.probe.drive_type.clues_of_later_tests import bands_seen, medium_by_place
from skylight.probe.drive_type.hypotheses import MODELS, Clue
from skylight.probe.drive_type.observed import Observed
from skylight.probe.drive_type.write_latencies import is_fixed
from skylight.probe.procedure import Replay
from skylight.probe.suite import SuiteOptions, judged_again, run_suite

TURN_NS = 10_000_000
SPREAD = 0.01  # revolutions that completions scatter
BLOCKS, CONTROLS = 64, 32


def read_at(angle: F64, rng: np.random.Generator, *, quick: np.ndarray | None = None) -> IoLog:
    """Reads, one at a time, of blocks at these angles after seeks of any length."""
    now, submit, complete = 1e9, [], []
    for row, at in enumerate(angle):
        submit.append(now)
        if quick is not None and quick[row]:
            now += 0.05 * TURN_NS
        else:
            now += rng.uniform(0.3, 1.5) * TURN_NS
            now += (at - now / TURN_NS) % 1.0 * TURN_NS + abs(rng.normal(0, SPREAD)) * TURN_NS
        complete.append(now)
        now += 10_000
    batch = IoBatch.reads(np.arange(len(angle)) * 4096, 4096)
    return IoLog.of(batch, np.array(submit).astype(np.uint64), np.array(complete).astype(np.uint64))


CONTROL = np.arange(BLOCKS + CONTROLS) >= BLOCKS


class TestMoved:
    @pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
    def test_the_share_that_moved_is_found(self, share: float, rng: np.random.Generator) -> None:
        before = rng.random(BLOCKS + CONTROLS)
        moved = (np.arange(len(before)) < share * BLOCKS) & ~CONTROL
        after = np.where(moved, rng.random(len(before)), before) + 0.37  # the spindle stood elsewhere
        found = moved_between(read_at(before, rng), read_at(after, rng), CONTROL, TURN_NS)
        assert found is not None and found.count == BLOCKS and not found.flash
        assert abs(found.share - share) < 3.5 * found.error

    def test_a_block_that_left_flash_has_moved(self, rng: np.random.Generator) -> None:
        angle = rng.random(BLOCKS + CONTROLS)
        kept = ~CONTROL & (np.arange(len(angle)) % 2 == 0)
        found = moved_between(
            read_at(angle, rng, quick=~CONTROL), read_at(angle, rng, quick=kept), CONTROL, TURN_NS
        )
        assert found is not None and found.flash and abs(found.share - 0.5) < 0.15
        # Of whether a read is quick controls say nothing: the error is that of the blocks' share, nearly.
        assert found.error == pytest.approx(np.sqrt(0.25 / BLOCKS), rel=0.05)

    @pytest.mark.parametrize("share", [0.0, 0.5])
    def test_delays_of_other_clients_move_nothing_out_of_flash(
        self, share: float, rng: np.random.Generator
    ) -> None:
        """Of drive 102384 drawn they delay an eighth of the reads before a pause and an eighth behind it."""
        angle = rng.random(BLOCKS + CONTROLS)
        number = np.arange(len(angle))
        before, after = ~CONTROL & (number % 8 != 0), ~CONTROL & (number % 8 != 3)
        left = number < share * BLOCKS
        found = moved_between(
            read_at(angle, rng, quick=before), read_at(angle, rng, quick=after & ~left), CONTROL, TURN_NS
        )
        assert found is not None and found.flash and abs(found.share - share) < 2 * found.error

    def test_controls_that_disagree_say_nothing(self, rng: np.random.Generator) -> None:
        one, other = (read_at(rng.random(BLOCKS + CONTROLS), rng) for _ in range(2))
        assert moved_between(one, other, CONTROL, TURN_NS) is None


def blocks(rng: np.random.Generator) -> F64:
    """Addresses of half of the blocks of 8 MiB."""
    return np.asarray(rng.choice(2048, 1024, replace=False) * 4096, np.float64)


class TestStripes:
    @pytest.mark.parametrize("stripe", [32 << 10, 64 << 10, 128 << 10])
    def test_stripes_of_two_disks_are_found(self, stripe: int, rng: np.random.Generator) -> None:
        x = blocks(rng)
        on_disk = x // (2 * stripe) * stripe + x % stripe
        phase = np.mod(on_disk / 1.1e6 + np.abs(rng.normal(0, SPREAD, len(x))), 1.0).astype(np.float64)
        tracks = fit_tracks(x, phase, 64 << 10, 8 << 20)
        assert tracks is not None and stripe_of(x, phase, tracks) is not None

    @pytest.mark.parametrize("track", [400_000.0, 1 << 20, 2_500_000.0])
    def test_one_disk_has_none(self, track: float, rng: np.random.Generator) -> None:
        for skew in (0.0, 0.1, 0.4):
            x = blocks(rng)
            late = np.abs(rng.normal(0, 0.03, len(x)))
            phase = np.mod(x / track + skew * (x // track) + late, 1.0).astype(np.float64)
            tracks = fit_tracks(x, phase, 64 << 10, 8 << 20)
            assert tracks is not None and stripe_of(x, phase, tracks) is None


class TestModels:
    def test_priors_add_up_and_names_differ(self) -> None:
        assert sum(model.prior for model in MODELS) == pytest.approx(1.0)
        assert {model.name for model in MODELS} == set(PRIORS)
        assert len({model.name for model in MODELS}) == len(MODELS)
        assert all(0 < chance < 1 for chance in CHOSEN.values())

    @staticmethod
    def said(*clues: Clue) -> tuple[str, float]:
        return hypotheses.likeliest(hypotheses.posterior(clues), lambda model: model.drive_type)

    def test_a_log_alone_does_not_prove_shingling(self) -> None:
        kind, chance = self.said(hypotheses.landing("log"), hypotheses.unwritten(False))
        assert kind == "smr" and chance < 0.9

    def test_the_cost_of_a_block_decides(self) -> None:
        log = hypotheses.landing("log")
        for with_band, expected in ((True, "smr"), (False, "cmr")):
            kind, chance = self.said(log, hypotheses.cost(with_band=with_band, words="", rows=()))
            assert kind == expected and chance > 0.9

    def test_a_volume_that_knows_what_was_never_written_says_less(self) -> None:
        log, unmoved = hypotheses.landing("log"), hypotheses.unmoved("", ())
        assert self.said(log, hypotheses.unwritten(True), unmoved)[1] < 0.7

    def test_a_log_in_other_parts_is_no_conventional_disk(self) -> None:
        home = hypotheses.landing("home")
        assert self.said(home, hypotheses.elsewhere(4, 0, 0, "", ()))[0] == "cmr"
        assert self.said(home, hypotheses.elsewhere(0, 4, 0, "", ()))[0] == "smr"
        assert self.said(home, hypotheses.elsewhere(3, 0, 1, "", ()))[0] == "cmr"
        assert self.said(home, hypotheses.elsewhere(0, 0, 4, "", ()))[1] < verdict.LEAST_LIKELY
        assert self.said(home, hypotheses.elsewhere(3, 1, 0, "", ()))[0] == "cmr", "one may be mistaken"
        in_log = hypotheses.elsewhere(3, 0, 0, "", (), appended=1)
        assert self.said(home, in_log)[0] == "smr", "but not what is appended whatever comes between"

    def test_clues_that_fit_no_model_leave_none_of_them(self) -> None:
        assert self.said(*(Clue(lambda _: 1e-6) for _ in range(2)))[0] == UNKNOWN


def test_a_tick_of_the_clock_is_no_spread() -> None:
    times = np.array([3_000_000, 12_000_000, 22_000_000, 31_000_000], np.uint64)
    finer = np.array([3_000_000, 12_000_001, 22_000_002], np.uint64)
    assert tick_of(times) == 1_000_000 and tick_of(finer) == 0
    latency = np.array([1_000_000, 2_000_000] * 20)
    assert Spread.of(latency, 1_000_000).fixed and not Spread.of(latency).fixed


def found(device: Engine, out: Path) -> dict[str, Finding]:
    result = run_suite(device, out / "r", SuiteOptions(only=("drive_type",)))
    return {finding.name: finding for finding in result.findings}


def made(name: str) -> Device:
    return next(each for each in CATALOGUE if each.name == name).make(1)


class TestWhatThingsAre:
    def test_a_band_is_the_price_of_a_block_on_a_shingled_disk(self, tmp_path: Path) -> None:
        drive = _native.SimDrive(read_profile("st5000as0011")[0], "st5000as0011", 1)
        engine = SimEngine(drive, TargetFacts("sim", "sim:st5000as0011", drive.size_bytes, drive.block_bytes))
        finding = found(engine, tmp_path)["drive_type"]
        assert finding.value == "smr" and finding.confidence > 0.95
        assert "takes its band along" in finding.why

    @pytest.mark.parametrize(
        "device", [MediaCache("media", Disk(CMR, 1)), WriteBack("battery", Disk(CMR, 1), BATTERY)]
    )
    def test_a_block_that_goes_home_by_itself_is_not_shingled(self, device: Device, tmp_path: Path) -> None:
        assert found(device, tmp_path)["drive_type"].value in ("cmr", UNKNOWN)

    def test_a_disk_written_in_place_at_the_start_alone_is_not_conventional(self, tmp_path: Path) -> None:
        assert found(made("host-aware"), tmp_path)["drive_type"].value in ("smr", UNKNOWN)

    @pytest.mark.parametrize("name", ["log-structured", "deduplicated"])
    def test_what_cannot_be_told_is_not_said(self, name: str, tmp_path: Path) -> None:
        assert found(made(name), tmp_path)["drive_type"].confidence < 0.9


def cleaned_in(one_ns: int) -> Finding:
    """The finding that a band with one written block takes so long."""
    return BAND.found(
        {"one_block": one_ns, "half": one_ns}, 0.99, "33 bands took so long", ("bands-21-look",)
    )


WITHOUT_BANDS = (
    "media-cache-cmr", "small-media-cache", "scattered-media-cache", "ssd-cache", "sshd", "tiers",
    "steady-write-back", "battery-controller", "page-cache-loop", "guest-cache", "integrity",
    "log-structured", "record-volume",
)  # fmt: skip
"""Devices of the catalogue that keep what is written in a log or a cache, or on a volume."""


class TestLater:
    """What the test of cleaning saw makes surer what the drive is."""

    @pytest.mark.parametrize(("one_ms", "seen"), [(40, False), (65, False), (80, True), (3_000, True)])
    def test_only_a_band_takes_a_block_so_long(self, one_ms: int, seen: bool) -> None:
        assert (bands_seen(Known([cleaned_in(one_ms * 1_000_000)])) is not None) == seen

    def test_bands_make_a_drive_shingled_wherever_its_writes_land(self) -> None:
        bands = hypotheses.cost(with_band=True, words="", rows=())
        by_bands = verdict._by_bands([hypotheses.landing("flash"), bands], "smr")
        assert 0.95 < by_bands < 1
        assert verdict._by_bands([hypotheses.landing("flash"), hypotheses.stalls()], "smr") == 0.0
        assert verdict._by_bands([bands], "cmr") < 0.05

    def test_nothing_is_concluded_from_what_is_unknown(self) -> None:
        assert bands_seen(Known()) is None
        assert bands_seen(Known([BAND.unknown("too uneven")])) is None

    @pytest.mark.parametrize(
        ("place", "medium"), [("od", "disk"), ("id", "disk"), ("many", None), ("none", None), (UNKNOWN, None)]
    )
    def test_a_cache_in_one_place_of_the_platters_is_on_disk(self, place: str, medium: str | None) -> None:
        located = (
            LOCATION.unknown("flat") if place == UNKNOWN else LOCATION.found(place, 0.93, "the arm goes")
        )
        found = medium_by_place(Known([located]))
        assert (None if found is None else (found.value, found.confidence)) == (medium and (medium, 0.93))

    def test_a_lazy_drive_is_shingled_for_sure_once_bands_were_cleaned(self, tmp_path: Path) -> None:
        """Random drive 99251 moves no block in minutes: a log alone, at first."""
        drive = _native.SimDrive(_native.random_profile(99251, None), "drive.toml", 1)
        facts = TargetFacts("sim", "sim:drive.toml", drive.size_bytes, drive.block_bytes)
        result = run_suite(engine_over(drive, facts), tmp_path / "r", SuiteOptions(only=("drive_type",)))
        known = Known(result.findings)
        before = known.get("drive_type")
        again = judged_again(result.evidence, known.with_more([cleaned_in(700_000_000)])).get("drive_type")
        assert before is not None and before.value == "smr" and before.confidence < 0.9
        assert again is not None and again.value == "smr" and again.confidence > 0.97
        assert "takes 700 ms to go home" in again.why and "bands-21-look" in again.rows
        same = judged_again(result.evidence, known.with_more([cleaned_in(40_000_000)])).get("drive_type")
        assert same == before

    @pytest.mark.long
    @pytest.mark.parametrize("name", WITHOUT_BANDS)
    def test_what_is_not_shingled_shows_no_bands_even_if_taken_for_it(
        self, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The devices that `SHOWS_BANDS` counts."""
        judged = DriveType.verdict

        def taken(test: DriveType, seen: Observed, steps: Replay) -> list[Finding]:
            shingled = {"drive_type": "smr", "cache_medium": "disk"}
            return [
                each if each.value == "flash" else replace(each, value=shingled[each.name], confidence=0.86)
                for each in judged(test, seen, steps)
            ]

        monkeypatch.setattr(DriveType, "verdict", taken)
        result = run_suite(made(name), tmp_path / "r", SuiteOptions(only=("cleaning",)))
        assert bands_seen(Known(result.findings)) is None

    def test_what_test_1_saw_itself_is_not_counted_twice(self) -> None:
        def cost(share: float) -> Observed:
            rungs = ((4.0, Moved(0.0, 0.02, BLOCKS, False)), (16.0, Moved(0.2, 0.02, BLOCKS, False)))
            trial = Moved(share, 0.02, BLOCKS, False)
            return Observed(settled=Settled(rungs, None, trial, (8.0, 20.0), 600, period_ns=TURN_NS))

        assert verdict.cost_is_known(cost(1.0)) and verdict.cost_is_known(cost(0.05))
        assert not verdict.cost_is_known(cost(0.3)) and not verdict.cost_is_known(Observed())


def test_writes_all_over_tell_a_mapper_of_zones_from_a_disk_written_in_place() -> None:
    def of(seen: bool) -> tuple[str, float]:
        clues = [
            hypotheses.landing("home"),
            hypotheses.elsewhere(4, 0, 0, "", ()),
            hypotheses.rewrites(seen=seen),
        ]
        return hypotheses.likeliest(hypotheses.posterior(clues), lambda model: model.drive_type)

    assert of(True)[0] == "smr"
    kind, chance = of(False)
    assert kind == "cmr" and chance > 0.98


class TestHome:
    """A layer that empties its own log says nothing of the disk that takes the blocks."""

    @staticmethod
    def settled(away: float | None) -> Settled:
        def moved(share: float) -> Moved:
            return Moved(share, 0.02, BLOCKS, flash=False)

        return Settled(
            ((4.0, moved(0.0)), (16.0, moved(1.0))), None, moved(1.0), (8.0, 20.0), 600,
            ("settle-trial",), None if away is None else moved(away), period_ns=TURN_NS,
        )  # fmt: skip

    @pytest.mark.parametrize("name", ["careful-media-cache", "newest-first", "sweeping"])
    def test_blocks_that_go_home_slowly_one_by_one_are_no_band(self, name: str, tmp_path: Path) -> None:
        kind = found(made(name), tmp_path)["drive_type"]
        assert kind.value == "smr" and kind.confidence < 0.9, "no more than the priors say"

    @pytest.mark.parametrize(("together", "is_band"), [(None, True), (1e-6, True), (0.5, False)])
    def test_a_slow_block_is_a_band_where_what_lies_beside_it_goes_too(
        self, together: float | None, is_band: bool
    ) -> None:
        rung, trial = (Moved(share, 0.02, BLOCKS, flash=False) for share in (0.2, 0.1))
        slow = replace(self.settled(None), rungs=((16.0, rung),), trial=trial, together=together)
        assert slow.costly and slow.with_band is is_band and not slow.cheap
        assert ("not seen together" in slow.words) is not is_band

    def test_blocks_that_leave_cheaply_and_lie_at_home_need_no_shingling(self) -> None:
        assert self.settled(0.0).cheap and self.settled(0.0).alone

    @pytest.mark.parametrize(("turn_ns", "cheap"), [(11_111_111.0, True), (4_878_049.0, False)])
    def test_what_a_block_may_cost_by_itself_depends_on_the_disk(self, turn_ns: float, cheap: bool) -> None:
        """On a disk that turns in 4.9 ms bands of 4 MiB go home in 41 ms (drive 102476)."""
        settled = replace(self.settled(0.0), worked_s=(8.0, 23.5), period_ns=turn_ns)
        assert settled.cost_ns is not None and settled.cost_ns[1] == pytest.approx(40.8e6, rel=0.01)
        assert settled.cheap is cheap

    def test_blocks_that_go_together_do_not_go_by_themselves(self) -> None:
        paired = replace(self.settled(0.0), together=1e-6)
        assert not paired.alone and "go together" in paired.words
        assert replace(self.settled(0.0), together=0.5).alone

    def test_what_moved_early_in_the_trial_bounds_the_cost_too(self) -> None:
        early = (4.0, Moved(0.5, 0.02, BLOCKS, flash=False))
        slow = replace(self.settled(0.0), worked_s=(8.0, 40.0))
        assert not slow.cheap and replace(slow, early=early).cheap

    def test_what_moved_in_the_rung_began_before_its_end(self) -> None:
        """32 s in which 528 of 3,304 blocks moved at most are 61 ms each, and 65 as 35 moved before."""
        rung, trial = Moved(0.391, 0.061, BLOCKS, flash=True), Moved(0.094, 0.033, BLOCKS, flash=True)
        seen = replace(
            self.settled(None), rungs=((64.0, rung),), trial=trial, worked_s=(32.0, 96.0), places=3_304
        )
        assert seen.cost_ns is not None and seen.cost_ns[0] == pytest.approx(64.7e6, rel=0.01)

    def test_a_cost_that_contradicts_itself_says_nothing(self) -> None:
        early = (4.0, Moved(1.0, 0.02, BLOCKS, flash=False))
        found = replace(self.settled(0.0), trial=Moved(0.3, 0.02, BLOCKS, flash=False), early=early)
        assert found.cost_ns is None and not found.cheap and not found.costly

    @pytest.mark.parametrize("away", [1.0, 0.6, None])
    def test_blocks_that_leave_cheaply_for_elsewhere_say_neither(self, away: float | None) -> None:
        settled = self.settled(away)
        assert settled.cheap and not settled.alone and "beside their neighbours" in settled.words
        likely = hypotheses.posterior([hypotheses.landing("log"), hypotheses.relayed("", ())])
        assert hypotheses.likeliest(likely, lambda model: model.drive_type)[0] == UNKNOWN

    @pytest.mark.parametrize(("name", "said"), [("integrity", "cmr"), ("integrity-smr", UNKNOWN)])
    def test_the_same_layer_over_a_shingled_disk_is_not_called_conventional(
        self, name: str, said: str, tmp_path: Path
    ) -> None:
        device = next(each for each in CATALOGUE if each.name == name).make(1)
        result = run_suite(device, tmp_path / "recording", SuiteOptions(only=("drive_type",)))
        assert next(each for each in result.findings if each.name == "drive_type").value == said


@pytest.mark.parametrize("delay_ns", [0, 50_000_000, 400_000_000])
def test_waits_for_an_angle_behind_a_delay_are_not_fixed(delay_ns: int, rng: np.random.Generator) -> None:
    turning = Coherence(TURN_NS, 0.9, 0.3, 1e-12, 0.99)
    latency_ns = (delay_ns + rng.uniform(0, TURN_NS, 512)).astype(np.int64)
    assert not is_fixed(latency_ns, turning)
    log_ns = (delay_ns + 2.45 * TURN_NS + rng.normal(0, 0.02, 512) * TURN_NS).astype(np.int64)
    assert is_fixed(log_ns, turning)


@pytest.mark.parametrize(("rpm", "writes"), [(14_299, 256), (7_200, 256), (14_299, 1024)])
def test_a_coarse_clock_does_not_make_waits_for_an_angle_fixed(
    rpm: int, writes: int, rng: np.random.Generator
) -> None:
    # Drive 99361 drawn: in place within 16 MiB, 14,299 rpm, ticks of 1 ms: half of the writes took 3 or 4 ms.
    turn_ns, tick_ns = 60e9 / rpm, 1_000_000
    turning = Coherence(turn_ns, 0.9, 0.3, 1e-12, 0.99)

    def seen(latency_ns: F64) -> I64:
        begun_ns = rng.uniform(0, 1e9, len(latency_ns))
        ticks = (begun_ns + latency_ns) // tick_ns - begun_ns // tick_ns
        return (ticks * tick_ns).astype(np.int64)

    for _ in range(20):
        places = np.clip(rng.normal(0.4, 0.25, writes), 0, 1)  # half of them within a tick
        assert not is_fixed(seen(2.4e6 + places * turn_ns), turning, tick_ns)
        assert is_fixed(seen(4.0e6 + rng.normal(0, 1.5e5, writes)), turning, tick_ns)
