"""Where a run ends because the drive has become slow: stops across pieces of a queue, groups that fill a
volatile cache, and what an outlier beside a stall leaves open."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from skylight.evidence import IoBatch, IoLog, Op, Stop, TargetFacts
from skylight.findings import Finding, Known
from skylight.infer.stalls import Stalls
from skylight.probe.band_size.cache_parts import CachePart
from skylight.probe.durable_writes import IN_LARGE_ROUNDS, FlushedSteps, volatile
from skylight.probe.session import Session
from skylight.probe.spending_bound import Bound
from skylight.recording import Recording

MS, S, MIB = 1_000_000, 1_000_000_000, 1 << 20
"""ns; bytes."""


class Queue:
    """Commands one after another, up to a depth at a time, each as long as its number says; a stop ends the
    submissions, and what is in the queue is done."""

    size, can_write, repeatable = 1 << 40, True, True

    def __init__(self, took_ns: np.ndarray[Any, Any]) -> None:
        """From the first command on."""
        self.took_ns, self.at, self.now_ns = took_ns, 0, 0

    def describe(self) -> TargetFacts:
        """A drive of 1 TiB."""
        return TargetFacts("sim", "sim:queue", 1 << 40, 4096)

    def run(self, io: IoBatch, *, depth: int = 1, until: Stop | None = None) -> IoLog:
        """First come, first served."""
        submit, done = [], list[int]()
        stopped = len(io)
        for number in range(len(io)):
            if number >= stopped:
                break
            submit.append(self.now_ns if number < depth else done[number - depth])
            done.append(max(done[-1] if done else 0, submit[-1]) + int(self.took_ns[self.at + number]))
            log = IoLog.of(
                io.part(max(number - 63, 0), number + 1),
                np.array(submit[-64:], np.uint64), np.array(done[-64:], np.uint64),
            )  # fmt: skip
            if stopped == len(io) and until is not None and until.reached(log):
                stopped = min(number + depth, len(io))
        self.at, self.now_ns = self.at + len(done), done[-1]
        return IoLog.of(io.part(0, len(done)), np.array(submit, np.uint64), np.array(done, np.uint64))


@pytest.mark.parametrize("before", [150, 160, 170, 180, 190])
def test_a_queue_that_drains_between_pieces_hides_no_stop(
    before: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each piece the first commands wait for few others, so the last of one and the first of the next are
    never all slow; wherever the first piece ends amid what is slow, the stop comes with the next ones."""
    monkeypatch.setattr("skylight.probe.session.LARGEST_PIECE_IOS", 200)
    engine = Queue(np.where(np.arange(4_000) < before, MS, 50 * MS))
    recording = Recording.create(tmp_path / "r", engine.describe(), {"writes": True}, 1)
    with recording.part("cache_size") as writer:
        session = Session(
            cast(Any, engine), writer, test="cache_size", seed=1, bound=Bound(10**6 * S, 1 << 50)
        )
        io = IoBatch.writes(np.arange(4_000) * 4096, 4096)
        log = session.run("fill", io, depth=31, until=Stop(500 * MS, 64, 64))
    assert before < len(log) <= before + 300


class Cached:
    """A volatile cache of 8 MiB in front of a medium of so many bytes a second that takes everything at once
    until it is full; each command is `WAY_NS` on its way, and a FLUSH waits for what is cached."""

    size, block_bytes, can_write = 1 << 40, 4096, True
    target = cast(Any, None)

    def __init__(
        self, rate: float, *, slow_after: int = 1 << 60, slow_rate: float = 0.0, on: bool = True
    ) -> None:
        """From `slow_after` bytes on, which are written to it, at another rate; `on` or not."""
        self.rate, self.slow_after, self.slow_rate, self.on = rate, slow_after, slow_rate, on
        self.known = Known([
            Finding("rotation_ns", 8 * MS, "ns", None, 1.0, ""),
            Finding("cache_medium", "flash", None, None, 1.0, ""),
        ])  # fmt: skip
        self.now_ns = self.drained_ns = 0.0
        self.written = 0
        self.names: list[str] = []

    def rng(self, name: str) -> np.random.Generator:
        """Of the name's length."""
        return np.random.default_rng(len(name))

    @staticmethod
    def quiet(least_s: float = 0.0) -> bool:
        """It has nothing else to do."""
        del least_s
        return True

    def run(self, name: str, io: IoBatch, *, depth: int = 1, until: Stop | None = None, **_: object) -> IoLog:
        """One at a time."""
        del depth
        self.names.append(name)
        submit, done = [], list[float]()
        for number in range(len(io)):
            submit.append(self.now_ns)
            at = self.now_ns + WAY_NS
            if io.op[number] == int(Op.WRITE):
                rate = self.slow_rate if self.written >= self.slow_after else self.rate
                self.written += int(io.size[number])
                self.drained_ns = max(self.drained_ns, at) + int(io.size[number]) / rate * S
                behind_ns = 8 * MIB / rate * S if self.on else 0.0
                at = max(at, self.drained_ns - behind_ns)
            elif io.op[number] == int(Op.FLUSH):
                at = max(at, self.drained_ns)
            self.now_ns = at + WAY_NS
            done.append(self.now_ns)
            log = IoLog.of(
                io.part(0, number + 1), np.array(submit, np.uint64), np.array(done, np.uint64)
            ) if until else None  # fmt: skip
            if log is not None and until is not None and until.reached(log):
                break
        count = len(done)
        return IoLog.of(io.part(0, count), np.array(submit, np.uint64), np.array(done, np.uint64))


WAY_NS = 0.4 * MS


@pytest.mark.parametrize(("on", "said"), [(True, "on"), (False, "off")])
def test_flash_as_fast_as_the_link_shows_a_volatile_cache_by_large_writes(*, on: bool, said: str) -> None:
    """Each 64 KiB of the burst are written out before the next come, so its FLUSH finds nothing to do."""
    drive = Cached(1.7e9, on=on)
    assert volatile(cast(Any, drive), reported=False) == said
    assert drive.names[-1] == IN_LARGE_ROUNDS


def test_groups_that_fill_a_volatile_cache_are_slow_as_a_whole() -> None:
    """No command of a group of 31 MiB waits for long, the FLUSH neither: 8 MiB are left for it."""
    drive = Cached(1e9, slow_after=3_100 * MIB, slow_rate=1e8)
    io = IoBatch.writes(np.arange(31 * 400, dtype=np.uint64) * MIB, MIB)
    log = FlushedSteps(cast(Any, drive)).run("fill", io, depth=31, until=Stop(100 * MS, 62, 64))
    assert 3_100 < len(log) <= 3_100 + 31 * 18
    assert np.array_equal(log.offset, io.offset[: len(log)])


@pytest.mark.parametrize(("depth", "flushes"), [(1, 100), (31, 4), (80, 2)])
def test_as_many_writes_as_would_wait_together_are_flushed_together(depth: int, flushes: int) -> None:
    """100 writes, each done when the FLUSH behind its group is."""
    drive = Cached(1e9)
    io = IoBatch.writes(np.arange(100, dtype=np.uint64) * MIB, 4096)
    log = FlushedSteps(cast(Any, drive)).run("fill", io, depth=depth)
    assert len(log) == 100 and len(np.unique(log.complete_ns)) == flushes


class Outliers:
    """A cache part that takes ten writes, then one stalls, and that addresses below `end` belong to; the
    commands of these numbers wait for another client."""

    def __init__(self, end: int, late: set[int]) -> None:
        """It is empty."""
        self.end, self.late, self.sent, self.used = end, late, 0, 0

    def run(self, name: str, io: IoBatch, *, until: Stop | None = None, **_: object) -> IoLog:
        """One at a time."""
        del name
        took = []
        for offset in io.offset:
            mine = int(offset) < self.end
            stalls = mine and self.used == 10
            self.used = 1 if stalls else self.used + mine
            took.append(100 * MS if stalls or self.sent in self.late else MS)
            self.sent += 1
            if until is not None and took[-1] >= until.latency_ns:
                break
        done = np.cumsum(took).astype(np.uint64)
        return IoLog.of(io.part(0, len(took)), done - np.array(took, np.uint64), done)


def part_of(drive: Outliers) -> CachePart:
    """Its cache part, empty as it is."""
    found = Stalls(10, 10, 3, 100 * MS, MS)
    return CachePart(cast(Any, drive), "part", 4096, lambda index: index % 4 * 4096, found, 0, 10)


@pytest.mark.parametrize("late", [{11}, {10, 11}, set()])
def test_an_outlier_behind_a_stall_does_not_lose_the_address(late: set[int]) -> None:
    """Ten writes fill it, the 11th asks, the 12th shows that it has space again."""
    assert part_of(Outliers(1 << 30, late)).holds(1 << 20)
    assert not part_of(Outliers(1 << 20, late)).holds(1 << 20)


@pytest.mark.parametrize("late", [{10}, {12}, {13}])
def test_a_scan_goes_not_past_a_stall_for_an_outlier_beside_it(late: set[int]) -> None:
    drive = Outliers(1 << 20, late)
    part = part_of(drive)
    assert part.first_held(np.array([2 << 20, 3 << 20, 4096, 4 << 20], np.uint64)) == 2
