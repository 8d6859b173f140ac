"""The cleaning-order test: right on emulated drives, and never an order from too little."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from skylight import _native
from skylight.engines.sim import SimEngine, read_profile
from skylight.evidence import Evidence, IoBatch, IoLog, TargetFacts
from skylight.findings import Finding, Known
from skylight.probe.cleaning.trials import Ground
from skylight.probe.cleaning_order import CleaningOrder, _judge, in_two_queues, strays
from skylight.probe.cleaning_order.measure import DOWN, MARKS, UP, CacheBands, Parade, _home, marks
from skylight.probe.session import Session
from skylight.recording import Recording
from skylight.truth import true_findings

KNOWN = ("drive_type", "cache_medium", "cleaning_type", "cleaning_start_ns", "cleaning_band_ns")


def parade(cleaned: str) -> Parade:
    bits = np.array([letter == "x" for letter in cleaned])
    return Parade("up-1-look", np.ones(len(bits), bool), bits)


PROFILES = ("emulated-smr-3", "st5000as0011", "st8000as0011")
SEEDS = (1002, 1008, 1009, 1015, 1067)  # journals and free bands, first in first out and not


@pytest.mark.parametrize("drive", [*PROFILES, *map(str, SEEDS)])
def test_the_order_of_emulated_drives(drive: str, tmp_path: Path) -> None:
    text = _native.random_profile(int(drive)) if drive.isdigit() else read_profile(drive)[0]
    truth = true_findings(text, "drive.toml")
    order = truth["cleaning_order"]["value"]
    assert order == "fifo" or drive.isdigit()
    sim = _native.SimDrive(text, "drive.toml", 1)
    facts = TargetFacts("sim", "sim:drive", sim.size_bytes, sim.block_bytes)
    known = Known([Finding(name, truth[name]["value"], None, None, 1.0, "") for name in KNOWN])
    recording = Recording.create(tmp_path / "recording", facts, {}, 1)
    test = CleaningOrder()
    with recording.part(test.name) as writer:
        test.measure(Session(SimEngine(sim, facts), writer, test=test.name, seed=1, known=known))
        writer.complete()
    evidence = recording.evidence(test.name)
    assert evidence is not None
    (finding,) = test.infer(evidence, known)
    assert (finding.value, finding.confidence > 0.99) == (order, True)
    assert [figure.name for figure in test.draw(evidence, [finding])] == ["cleaning-order", "cleaning-test5"]


@pytest.mark.parametrize("flash", [False, True])
def test_a_delayed_look_leaves_no_mark_out_of_line(flash: bool) -> None:
    """The first ten of twenty are home; others delay a fifth of the looks, by more than half a revolution."""
    turn_ns, rng, first = 10_000_000, np.random.default_rng(5), marks(1 << 40, UP, None)
    near_ns, away_ns = (turn_ns, turn_ns // 10) if flash else (turn_ns, 2 * turn_ns)

    def run(name: str, io: IoBatch, **_: object) -> IoLog:
        del name
        took = np.repeat(np.where(np.arange(len(io) // 2) < 10, near_ns, away_ns), 2).astype(np.uint64)
        took[rng.random(len(io)) < 0.2] += np.uint64(turn_ns * 3 // 4)
        done = np.cumsum(took)
        return IoLog.of(io, done - took, done)

    steps = cast(Any, SimpleNamespace(run=run, block_bytes=4096))
    ground = Ground(steps, flash=flash, flushed=False, rotation_ns=turn_ns)
    after = run("", ground.looks(first))
    at_once = ground.home(after)
    assert strays(Parade("up-1-look", np.ones(20, bool), at_once)) > 0 or at_once.sum() < 10
    assert _home(ground, "up-1", first, after).tolist() == [True] * 10 + [False] * 10


def test_strays_are_counted_behind_the_first() -> None:
    assert strays(parade("xxxxx...............")) == 0
    assert strays(parade("xxxx.x..............")) == 1
    assert strays(parade("...............xxxxx")) == 5


@pytest.mark.parametrize(
    ("up", "down", "value"),
    [
        ("x" * 8 + "." * 12, "x" * 9 + "." * 11, "fifo"),
        ("x" * 7 + ".x" + "." * 11, "x" * 9 + "." * 11, "fifo"),
        ("." * 12 + "x" * 8, "." * 10 + "x" * 10, "other"),
        ("x" * 8 + "." * 12, "." * 12 + "x" * 8, "other"),
        ("x." * 10, ".x" * 10, "other"),
        ("x" * 6 + "..xx" + "." * 10, "x" * 8 + "." * 12, "unknown"),
    ],
)
def test_the_verdict(up: str, down: str, value: str) -> None:
    assert len(up) == len(down) == MARKS
    assert _judge([parade(up), parade(down)]).value == value


def test_one_parade_is_not_enough() -> None:
    assert not _judge([parade("x" * 8 + "." * 12)]).known


def test_lazy_is_unknown_and_no_cache_has_none() -> None:
    nothing = Evidence("cleaning_order", TargetFacts("sim", "sim:x", 1 << 40, 512))
    lazy = Known(
        [Finding(n, v, None, None, 1.0, "") for n, v in (("drive_type", "smr"), ("cleaning_type", "lazy"))]
    )
    (finding,) = CleaningOrder().infer(nothing, lazy)
    assert not finding.known
    assert CleaningOrder().infer(nothing, Known([Finding("drive_type", "cmr", None, None, 1.0, "")])) == []


def test_marks_of_a_set_associative_drive_share_no_cache_band() -> None:
    bands = CacheBands(23, 40 << 20)
    for direction in (UP, DOWN):
        numbers = marks(10**12, direction, bands) // np.uint64(bands.band_bytes)
        assert len({int(number) % bands.count for number in numbers}) == MARKS
        assert np.all(np.diff(numbers.astype(np.int64)) > 0) == (direction == UP)


def test_two_disks_that_clean_side_by_side_are_no_order_of_one() -> None:
    # By written order: each half of the addresses is cleaned from its first mark on.
    up = Parade("up-1-look", np.ones(20, bool), np.array([*[True] * 5, *[False] * 5] * 2))
    down = Parade("down-1-look", np.ones(20, bool), np.array([*[True] * 6, *[False] * 4] * 2))
    assert in_two_queues([up, down])
    assert not _judge([up, down]).known
    newest = Parade("up-1-look", np.ones(20, bool), np.arange(20) >= 10)
    odd = Parade("down-1-look", np.ones(20, bool), np.arange(20) % 2 == 1)
    for other in ([newest, newest], [odd, odd], [up, odd]):
        assert not in_two_queues(other)
        assert _judge(other).value == "other"
