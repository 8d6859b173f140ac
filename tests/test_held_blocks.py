"""Which limit blocks met that leave a volatile cache: what room a part of them leaves to others, and groups
that a long read holds back, so that they leave together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from one_test import drawn_truth, suite_on_drawn
from skylight.evidence import IoBatch, IoLog, Op, Stop
from skylight.probe.band_size.cache_parts import DEPTH
from skylight.probe.cache_size import journal
from skylight.probe.cache_size.fill_check import BLOCK, Fill, Places
from skylight.probe.cache_size.fill_procedure import LONE_STOP, Pace, lone_rest
from skylight.probe.cache_size.held_blocks import LOOKS, QUEUES, HeldSteps, LongGroups, held_steps
from skylight.probe.cache_size.journal import Journal, with_mixed_fill
from skylight.probe.cache_size.which_limit import left_places, most_left
from skylight.probe.durable_writes import FlushedSteps
from skylight.probe.known_state import State
from skylight.probe.procedure import Steps
from skylight.probe.scoring import score

MS, QUANTUM = 1_000_000, 1 << 20


@pytest.mark.parametrize("seed", [100911, 100932, 100964])
def test_the_map_is_found_behind_a_volatile_cache(seed: int, tmp_path: Path) -> None:
    """Drawn: of 100911 the slots are a hundredth more than the map has entries; of 100932 blocks took seven
    eighths of the slots; of 100964 they took all, but for those that a read held back."""
    tests = ("drive_type", "rotation", "journal", "cache_location", "cache_size")
    findings = suite_on_drawn(seed, tmp_path / "r", only=tests).findings
    truth = drawn_truth(seed)
    marks = {mark.name: mark.outcome for mark in score(findings, truth)}
    assert marks["cache_map_entries"] == "right"


class _Lone:
    """Lone writes that take 10 ms, and behind `begin` of them a second, but for one in `quick`; every tenth
    is another client's, which takes 60 ms."""

    size, block_bytes = 1 << 40, 4096

    def __init__(self, begin: int, quick: int = 0) -> None:
        self.known = SimpleNamespace(number=lambda _: None)
        self.begin, self.quick, self.done = begin, quick, 0

    def run(self, _: str, io: IoBatch, *, until: Stop | None = None) -> IoLog:
        at = self.done + np.arange(len(io))
        waits = (at >= self.begin) & (at % self.quick > 0 if self.quick else True)
        took = np.where(waits, 1_000, np.where(at % 10 == 5, 60, 10)) * MS
        count = len(io)
        if until is not None:
            slow = np.convolve(took >= until.latency_ns, np.ones(until.within, int))[: len(took)]
            count = int(np.argmax(slow >= until.count)) + 1 if np.any(slow >= until.count) else count
        self.done += count
        done = np.cumsum(took[:count]).astype(np.uint64)
        return IoLog.of(io.part(0, count), done - took[:count].astype(np.uint64), done)


@pytest.mark.parametrize("begin", [200, 1_037, 5_000])
def test_lone_blocks_are_counted_until_they_wait(begin: int) -> None:
    drive = _Lone(begin)
    rest = lone_rest(cast(Steps, drive), Places(drive.size), "mixed", 10_000, 2_000)
    assert rest.ended == (begin < 2_000) and not rest.slow
    # Another client's delay right before may be taken for the first wait.
    assert 0 <= min(begin, 2_000) - rest.writes <= LONE_STOP[1] - LONE_STOP[0]


@pytest.mark.parametrize("quick", [0, 2, 3])
def test_waits_among_quick_writes_are_no_room(quick: int) -> None:
    """Of drive 100964 drawn bands that were cleaned for one lone write gave slots to the next as well, so
    that writes in a row never waited, and a full cache was taken for one with slots left."""
    drive = _Lone(1_000, quick)
    rest = lone_rest(cast(Steps, drive), Places(drive.size), "mixed", 10_000, 2_000)
    assert rest.slow or (rest.ended and -2 <= 1_000 - rest.writes <= LONE_STOP[1] - LONE_STOP[0])


def _blocks(writes: int) -> Fill:
    return Fill("map-0", BLOCK, 0, writes, writes, True, 8.0, 1e7, 31.0, group=DEPTH)


@pytest.mark.parametrize(("lone", "left"), [(2_480, False), (2_700, False), (2_800, True), (2_801, True)])
@pytest.mark.parametrize("ended", [True, False])
def test_lone_blocks_show_what_a_part_of_the_blocks_left(lone: int, left: bool, ended: bool) -> None:
    """Of 10,000 slots: three quarters of the blocks that used up all leave a quarter."""
    mixed = (
        replace(_blocks(75_000), ended=False),
        Fill("mixed", BLOCK, 1, lone, lone, ended, 8.0, 1e7, 1.0),
    )
    assert most_left(0.75, 10_000, lone=True) == pytest.approx(2_725 + DEPTH)
    found = left_places(mixed, 100_000, 10_000)
    assert found is (left if ended or left else None)
    found = left_places((mixed[0], replace(mixed[1], slow=True)), 100_000, 10_000)
    assert found is (False if ended and not left else None)


@pytest.mark.parametrize("holds", [True, False])
@pytest.mark.parametrize(
    ("blocks", "held", "asked", "entries"),
    [
        (_blocks(80_000), 0, ["mixed"], 80_000),  # a part of them leaves room
        (_blocks(40_000), 80_000, ["mixed", "held-mixed"], 80_000),  # they used up the slots, these did not
        (_blocks(40_000), 60_000, ["mixed", "held-mixed"], None),  # so did these
        (_blocks(40_000), 41_000, ["mixed"], None),  # these are no more, and show nothing else
        (_blocks(2_000), 4_100, ["mixed"], None),  # of which a group is more than a thirtieth
        (_blocks(600_000), 80_000, ["mixed"], None),  # too many for the bound of the test
        (replace(_blocks(40_000), took_ns=3_000 * 10**9), 80_000, ["mixed"], None),  # or too slow
    ],
)
def test_blocks_that_used_up_the_slots_are_held_back(
    blocks: Fill,
    held: int,
    asked: list[str],
    entries: int | None,
    holds: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names: list[str] = []

    def leaves(steps: Steps, _: Places, __: Journal, fill: Fill, name: str) -> bool:
        names.append(name)
        assert isinstance(steps, LongGroups) == (name == "held-mixed" and not holds)
        return fill.writes == 80_000

    together = [_blocks(held)]
    monkeypatch.setattr(journal, "_leaves_places", leaves)
    monkeypatch.setattr(journal, "held_steps", lambda steps, *_: steps if holds else None)
    monkeypatch.setattr(journal, "filled", lambda *_, **__: together)
    monkeypatch.setattr(journal, "pace_of", lambda *_: Pace(1e8, 1e8, 3e6, 31.0))
    monkeypatch.setattr(journal, "told_bytes", lambda *_: 0)
    steps = FlushedSteps(cast(Steps, _Link(31)))
    quanta = Fill("fill", QUANTUM, 1, 10_000, 10_000, True, 8.0, 1e7, 31.0)
    seen = with_mixed_fill(steps, Journal(QUANTUM, 1e6, 1e7, (quanta, blocks), 10_000, None))
    assert names == asked and seen.map_entries == entries
    assert (together[0] in seen.fills) == (held == entries == 80_000)


def test_a_long_group_has_one_flush_behind_some_queues() -> None:
    drive = _Link(1)
    io = Places(drive.size).writes(0, 200, BLOCK)
    steps = LongGroups(cast(Steps, drive))
    assert np.array_equal(steps.run("held", io, depth=DEPTH, until=Stop(10**10, 62, 64)).offset, io.offset)
    assert np.flatnonzero(drive.asked[-1][1].op == int(Op.FLUSH)).tolist() == [QUEUES * DEPTH, 201]
    steps.run("lone", io.part(0, 3))
    assert drive.asked[-1][1].op.tolist() == [int(Op.WRITE), int(Op.FLUSH)] * 3


class _Link:
    """A drive whose volatile cache takes a block in 2 ms and whose reads take `mib_ms` for a MiB; a host may
    send so many commands at a time."""

    size, block_bytes, target, can_write = 1 << 40, 4096, None, True

    def __init__(self, at_a_time: int, mib_ms: int = 6, state: State = State.NEW) -> None:
        self.known, self.at_a_time, self.state = SimpleNamespace(number=lambda _: None), at_a_time, state
        self.mib_ms = mib_ms
        self.now_ns, self.asked = 0, list[tuple[str, IoBatch]]()

    def rng(self, _: str) -> np.random.Generator:
        return np.random.default_rng(1)

    def reset(self, _: str, **__: object) -> State:
        return self.state

    def run(self, name: str, io: IoBatch, *, depth: int = 1, until: Stop | None = None, **_: object) -> IoLog:
        self.asked.append((name, io))
        assert until is None or until.count <= until.within
        submit, done, medium_ns = [], [], self.now_ns
        for op, size in zip(io.op.tolist(), io.size.tolist(), strict=True):
            submit.append(self.now_ns)
            if op == int(Op.READ):
                medium_ns = max(medium_ns, self.now_ns) + (size * self.mib_ms * MS >> 20)
                done.append(medium_ns)
            elif op == int(Op.FLUSH):
                medium_ns = max(medium_ns, self.now_ns) + 10 * MS
                done.append(medium_ns)
            else:
                done.append(self.now_ns + 2 * MS)
            waits = op == int(Op.FLUSH) or (op == int(Op.READ) and min(depth, self.at_a_time) == 1)
            self.now_ns = done[-1] if waits or op == int(Op.WRITE) else self.now_ns
        return IoLog.of(io, np.array(submit, np.uint64), np.array(done, np.uint64))


@pytest.mark.parametrize(
    ("at_a_time", "mib_ms", "cache_bytes", "blocks"),
    [
        (1, 6, 1 << 40, 0),  # one command waits at a time: no block comes while a read is served
        (3, 6, 1 << 40, DEPTH),
        (3, 2, 1 << 40, 15),  # 16 MiB last 32 ms
        (3, 0, 1 << 40, 0),
        (3, 6, 128 << 20, 0),  # of which what is read would take an eighth
    ],
)
def test_a_read_holds_blocks_back_where_both_can_be_under_way(
    at_a_time: int, mib_ms: int, cache_bytes: int, blocks: int
) -> None:
    io = Places(_Link.size).writes(0, 2 * LOOKS * DEPTH, BLOCK)
    drive = _Link(at_a_time, mib_ms)
    held = held_steps(cast(Steps, drive), io, cache_bytes)
    assert (held is not None) == (blocks > 0)
    if held is not None:
        held.run("held-0-deep", io, depth=DEPTH)
        (groups,) = (each for name, each in drive.asked if name == "held-0-deep")
        assert np.flatnonzero(groups.op == int(Op.READ))[1] == blocks + 2
    assert held_steps(cast(Steps, _Link(at_a_time, mib_ms, State.UNKNOWN)), io, cache_bytes) is None


def test_each_whole_group_has_a_read_before_it_and_its_writes_alone_are_seen() -> None:
    drive = _Link(3)
    held = HeldSteps(cast(Steps, drive), 8 << 20)
    io = Places(drive.size).writes(0, 2 * DEPTH + 5, BLOCK)
    log = held.run("held-0-deep", io, depth=DEPTH, until=Stop(10**10, 62, 64))
    assert np.array_equal(log.offset, io.offset)
    (_, groups), (rest_name, rest) = drive.asked
    assert rest_name == "held-0-deep-rest" and not np.any(rest.op == int(Op.READ))
    assert np.flatnonzero(groups.op == int(Op.READ)).tolist() == [0, DEPTH + 2]
    assert np.all(groups.size[groups.op == int(Op.READ)] == 8 << 20)
    # Of a group the first write is done when the last one is: with the FLUSH behind all.
    assert len(set(log.complete_ns[:DEPTH].tolist())) == 1
    assert held.run("lone", io.part(0, 3)).op.tolist() == [int(Op.WRITE)] * 3
    assert not np.any(drive.asked[-1][1].op == int(Op.READ))
