"""Reads around writes in the place of FLUSHes: what they empty, and that no one sees them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from skylight import _native
from skylight.engines.sim_under_conditions import engine_over
from skylight.evidence import IoBatch, IoLog, Op, SettingsReport, Stop, TargetFacts
from skylight.findings import Finding, Known
from skylight.probe import fua_writes
from skylight.probe.cache_size import CacheSize
from skylight.probe.destage_by_read import ReadAround, around, empties
from skylight.probe.durable_writes import FlushedSteps
from skylight.probe.journal.write_through import written_through
from skylight.probe.scoring import score
from skylight.probe.session import Session
from skylight.recording import Recording
from skylight.truth import true_findings

BLOCK, SIZE, TURN_NS = 4096, 1 << 30, 8_000_000
CACHED_NS, HOME_NS = 50_000, 6_000_000


class CachedSteps:
    """A target whose volatile cache ignores FLUSH; a write leaves it when it is read with more than itself,
    if it `brings_out` what it then finds cached."""

    size, block_bytes, can_write = SIZE, BLOCK, True
    target = cast(Any, None)
    known = Known([
        Finding("rotation_ns", TURN_NS, "ns", None, 1.0, ""),
        Finding("cache_medium", "disk", None, None, 1.0, ""),
    ])  # fmt: skip

    def __init__(self, *, brings_out: bool = True) -> None:
        """With nothing cached."""
        self.brings_out = brings_out
        self.cached: set[int] = set()
        self.done: list[IoBatch] = []
        self.now_ns = 0

    @staticmethod
    def rng(name: str) -> np.random.Generator:
        """Of the name's length."""
        return np.random.default_rng(len(name))

    @staticmethod
    def quiet(least_s: float = 0.0) -> bool:
        """It has nothing else to do."""
        del least_s
        return True

    def run(self, name: str, io: IoBatch, *, depth: int = 1, until: Stop | None = None, **_: object) -> IoLog:
        """One command after the other; the first rows of a stop's number where there is one."""
        del name, depth
        submit, complete = [], []
        for op, offset, size in zip(io.op.tolist(), io.offset.tolist(), io.size.tolist(), strict=True):
            blocks = set(range(offset // BLOCK, (offset + size) // BLOCK))
            took_ns = CACHED_NS
            if op == int(Op.WRITE):
                self.cached |= blocks
            elif op == int(Op.READ) and not blocks <= self.cached:
                took_ns = HOME_NS
                self.cached -= blocks if self.brings_out else set()
            submit.append(self.now_ns)
            self.now_ns += took_ns
            complete.append(self.now_ns)
            if until is not None and took_ns >= until.latency_ns:
                break
        done = io.part(0, len(submit))
        self.done.append(done)
        return IoLog.of(done, np.array(submit, np.uint64), np.array(complete, np.uint64))


def over(steps: CachedSteps) -> ReadAround:
    """Reads around writes of it."""
    return ReadAround(cast(Any, steps))


@pytest.mark.parametrize("brings_out", [True, False])
def test_reads_around_empty_only_a_cache_that_they_are_seen_to_empty(brings_out: bool) -> None:
    assert empties(cast(Any, CachedSteps(brings_out=brings_out))) is brings_out


@pytest.mark.parametrize("around_writes", [True, False])
def test_reads_around_are_made_where_they_are_asked_for_alone(around_writes: bool) -> None:
    """Where the time of a write is what is asked for, a read is not to be in it."""
    steps = CachedSteps()
    report = SettingsReport(write_cache=False, look_ahead=False)
    through, found, _ = written_through(cast(Any, steps), report, around=around_writes)
    assert found == "hidden"
    steps.done.clear()
    log = through.run("write", IoBatch.writes(np.arange(1, 9) * 16 * BLOCK, BLOCK))
    assert any(np.any(done.op == int(Op.READ)) for done in steps.done) == around_writes
    assert (int(log.latency_ns.max()) >= HOME_NS) == around_writes


def test_reads_around_stay_within_the_target() -> None:
    reads = around(IoBatch.writes([0, SIZE - BLOCK, 5 * BLOCK], BLOCK), BLOCK, SIZE)
    assert reads.offset.tolist() == [0, SIZE - 2 * BLOCK, 4 * BLOCK]
    assert reads.size.tolist() == [2 * BLOCK, 2 * BLOCK, 3 * BLOCK]


def test_a_flush_lasts_until_what_was_written_is_out() -> None:
    steps = CachedSteps()
    io = IoBatch.flushed_writes(np.arange(1, 9) * 16 * BLOCK, BLOCK)
    log = over(steps).run("write", io)
    assert not steps.cached
    assert log.batch.op.tolist() == io.op.tolist()
    assert log.offset.tolist() == io.offset.tolist()
    assert log.only(Op.WRITE).latency_ns.tolist() == [CACHED_NS] * 8
    assert log.only(Op.FLUSH).latency_ns.tolist() == [HOME_NS] * 8
    assert not np.any(np.concatenate([done.op for done in steps.done]) == int(Op.FLUSH))


def test_a_flush_behind_several_runs_reads_around_the_writes_of_all() -> None:
    steps = CachedSteps()
    reading = over(steps)
    reading.run("one", IoBatch.writes([16 * BLOCK, 32 * BLOCK], BLOCK), depth=31)
    reading.run("two", IoBatch.writes([64 * BLOCK], BLOCK))
    assert len(steps.cached) == 3
    flush = reading.run("flush", IoBatch.make(Op.FLUSH, [0], 0))
    assert not steps.cached
    assert flush.op.tolist() == [int(Op.FLUSH)]
    assert flush.latency_ns.tolist() == [3 * HOME_NS]
    again = reading.run("flush", IoBatch.make(Op.FLUSH, [0], 0))
    assert again.latency_ns.tolist() == [CACHED_NS]  # nothing was left to be read around


def test_writes_that_a_stop_left_cached_are_read_around_later() -> None:
    steps = CachedSteps()
    reading = over(steps)
    io = IoBatch(*(np.concatenate([getattr(part, name) for part in (
        IoBatch.writes([16 * BLOCK, 32 * BLOCK], BLOCK), IoBatch.make(Op.FLUSH, [0], 0),
    )]) for name in ("op", "offset", "size")))  # fmt: skip
    log = reading.run("write", io, until=Stop(HOME_NS))
    assert log.op.tolist() == [int(Op.WRITE), int(Op.WRITE), int(Op.FLUSH)]
    assert steps.cached == {32}
    reading.run("flush", IoBatch.make(Op.FLUSH, [0], 0))
    assert not steps.cached


def test_lone_writes_take_until_they_are_out() -> None:
    log = FlushedSteps(cast(Any, over(CachedSteps()))).run("lone", IoBatch.writes([16 * BLOCK], BLOCK))
    assert log.latency_ns.tolist() == [CACHED_NS + HOME_NS]


def test_cache_bands_are_counted_although_flush_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a drive whose volatile cache is off."""
    monkeypatch.setattr(fua_writes, "obeyed", lambda *_, **__: False)
    toml = _native.random_profile(1901, "set-associative")
    given = '[conditions]\nvolatile_cache = "ignores-flush"\n'
    drive = _native.SimDrive(toml, "drive", 1, given)
    facts = TargetFacts("sim", "sim:drive", drive.size_bytes, drive.block_bytes)
    truth = true_findings(toml, "x", given)
    names = ("drive_type", "rotation_ns", "cache_medium", "cache_location")
    known = Known(Finding(name, truth[name]["value"], None, None, 1.0, "") for name in names)
    recording, test = Recording.create(tmp_path / "r", facts, {"writes": True}, 1), CacheSize()
    with recording.part(test.name) as writer:
        session = Session(engine_over(drive, facts), writer, test=test.name, seed=1, known=known)
        test.measure(session)
        writer.complete()
    evidence = recording.evidence(test.name)
    assert evidence is not None
    sizes = ("cache_bytes", "cache_fill_bytes", "cache_raw_bytes")
    marks = score(test.infer(evidence, known), {name: truth[name] for name in sizes})
    assert {mark.name: mark.outcome for mark in marks} == dict.fromkeys(sizes, "right")
