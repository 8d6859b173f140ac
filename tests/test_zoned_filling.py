"""Zones that a session fills: gone on with after a cut, bounded for the whole test, and never said to be full
where the target refused it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fake_drives import FakeDrive, Traits
from fake_zoned import FakeZoned, ZonedTraits
from skylight.cli.plan import print_plan
from skylight.evidence import Evidence, IoBatch, IoLog, Op, Stop
from skylight.findings import Known
from skylight.probe import session as sessions
from skylight.probe import zoned
from skylight.probe.procedure import Replay, Steps
from skylight.probe.session import Session
from skylight.probe.spending_bound import Bound, BoundReached
from skylight.probe.suite import TESTS, SuiteOptions
from skylight.probe.write_rates.sustained_writes import empty_zones
from skylight.probe.zoned import zones_of
from skylight.recording import Recording

TRAITS = ZonedTraits(zones=32, conventional=4)
ZONE = TRAITS.zone_bytes


Procedure = Callable[[Steps], list[object]]


class Device(FakeZoned):
    """Such a drive as a device: it is not executed again, and may refuse commands. At a cut half of a batch
    is done, and nobody learns of it."""

    calls_left = 1 << 30
    refuses: tuple[Op, ...] = ()

    def run(self, io: IoBatch, *, depth: int = 1, until: Stop | None = None) -> IoLog:
        if self.calls_left == 0:
            super().run(io.part(0, len(io) // 2), depth=depth)
            raise KeyboardInterrupt
        self.calls_left -= 1
        log = super().run(io, depth=depth, until=until)
        return replace(log, result=np.where(np.isin(log.op, self.refuses), 5, log.result).astype(np.int64))

    def erase(self) -> bool:
        return False


def begin(engine: FakeZoned, out: Path) -> Recording:
    """A new recording."""
    return Recording.create(out, engine.describe(), {}, 1)


def ahead(steps: Steps) -> list[object]:
    """A test whose zones are filled before it touches them."""
    said: list[object] = [steps.reset("reset")]
    for name, zone in (("one", 5), ("two", 7), ("three", 9)):
        io = IoBatch.writes([zone * ZONE + 4096, (zone + 1) * ZONE + 4096], 4096)
        said.append(len(steps.run(name, io)))
    said.append(steps.reset("reset"))
    said.append(len(steps.run("four", IoBatch.writes([6 * ZONE + 4096], 4096))))
    return said


def said_of_reads(steps: Steps) -> list[object]:
    """A test that says what it reads, before a reset and after it."""
    said: list[object] = []
    for name, zone in (("one", 5), ("two", 7), ("again", 5)):
        at = np.array([zone * ZONE], np.uint64)
        said.append(steps.written(at, 4096))
        said.append(len(steps.run(name, IoBatch.reads(at, 4096))))
    said.append(steps.reset("reset"))
    said.append(steps.written(np.array([5 * ZONE], np.uint64), 4096))
    said.append(len(steps.run("last", IoBatch.reads([5 * ZONE], 4096))))
    return said


def in_order(steps: Steps) -> list[object]:
    """A test that writes in order to zones that it has emptied, after a write out of order to one of them."""
    said: list[object] = [len(steps.run("out of order", IoBatch.writes([5 * ZONE + 4096], 4096)))]
    io = IoBatch.writes([zone * ZONE + at for zone in (5, 6) for at in (0, 4096)], 4096)
    empty_zones(steps, steps.zones("zones"), io)
    said.append(steps.run("in order", io).latency_ns.tolist())
    return said


def measured(
    test: Procedure, engine: FakeZoned, recording: Recording, bound: Bound | None = None
) -> list[object]:
    """Runs a test, or goes on with it."""
    before = recording.evidence("any")
    with recording.part("any") as writer:
        part = zones_of(engine)
        session = Session(
            engine, writer, test="any", seed=1, known=Known(), before=before, bound=bound, part=part
        )
        said = test(session)
        writer.complete()
    return said


def replayed(test: Procedure, recording: Recording) -> list[object]:
    evidence = recording.evidence("any")
    assert isinstance(evidence, Evidence)
    return test(Replay(evidence, Known(writes=True)))


@pytest.mark.parametrize("test", [ahead, said_of_reads])
def test_a_run_cut_anywhere_goes_on_to_the_same_end(test: Procedure, tmp_path: Path) -> None:
    whole = Device(TRAITS, repeatable=False)
    recording = begin(whole, tmp_path / "whole")
    said = measured(test, whole, recording)
    calls = (1 << 30) - whole.calls_left
    assert calls > 10
    for cut_at in range(1, calls):
        engine = Device(TRAITS, repeatable=False)
        cut = begin(engine, tmp_path / str(cut_at))
        engine.calls_left = cut_at
        with pytest.raises(KeyboardInterrupt):
            measured(test, engine, cut)
        engine.calls_left = 1 << 30
        assert measured(test, engine, cut) == said == replayed(test, cut), f"cut at {cut_at}"
        assert engine.pointer.tolist() == whole.pointer.tolist(), f"cut at {cut_at}"
        kept, first = cut.evidence("any"), recording.evidence("any")
        assert kept is not None and first is not None
        assert [step.name for step in kept.steps] == [step.name for step in first.steps], f"cut at {cut_at}"


def test_writes_in_order_go_to_zones_that_are_empty(tmp_path: Path) -> None:
    """They were said to be as slow as the persistent cache of a host-aware drive, in zones filled before."""
    engine = Device(TRAITS, repeatable=False)
    recording = begin(engine, tmp_path / "r")
    said = measured(in_order, engine, recording)
    assert said == [1, [TRAITS.write_ns] * 4] == replayed(in_order, recording)
    base = TRAITS.conventional
    assert engine.pointer[base + 5] == engine.pointer[base + 6] == 8192 and not engine.dirty


@pytest.mark.parametrize("refused", [Op.RESET_ZONE, Op.WRITE])
def test_what_a_drive_refused_is_not_said_to_be_written(refused: Op, tmp_path: Path) -> None:
    def test(steps: Steps) -> list[object]:
        at = np.array([5 * ZONE], np.uint64)
        return [steps.written(at, 4096), steps.written(at, 4096), steps.written(at, 4096)]

    engine = Device(TRAITS, repeatable=False)
    engine.refuses = (refused,)
    recording = begin(engine, tmp_path / "r")
    assert measured(test, engine, recording) == [False, False, False] == replayed(test, recording)
    evidence = recording.evidence("any")
    assert evidence is not None
    asked = [step for step in evidence.steps if step.rows.op.size]
    assert [step.name for step in asked] == ["zones-filled"], "it is not asked again and again"
    told = evidence.step("zones-filled-2")
    assert told is not None and dict(told.params) == {"written": False, "step": "zones-filled"}


@pytest.mark.parametrize("repeatable", [False, True])
def test_fillings_of_a_test_share_one_bound(
    repeatable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MOST_FILLED_BY_TEST_BYTES", 3 * ZONE + (ZONE >> 1))
    done: list[str] = []

    def test(steps: Steps) -> list[object]:
        for name, zone in (("one", 5), ("two", 7), ("three", 9), ("four", 11)):
            steps.reset(f"reset-{name}")
            steps.run(name, IoBatch.writes([zone * ZONE + 4096], 4096))
            done.append(name)
        return []

    engine = Device(TRAITS, repeatable=repeatable)
    recording = begin(engine, tmp_path / "r")
    for _ in range(2):
        with pytest.raises(BoundReached):
            measured(test, engine, recording, Bound(10**15, 1 << 40))
        engine = Device(TRAITS, repeatable=True) if repeatable else engine
    assert done == ["one", "two", "three"] * 2, "a reset does not begin anew"
    evidence = recording.evidence("any")
    assert evidence is not None and evidence.steps[-1].kind == "bound"
    filled = sum(step.written_bytes for step in evidence.steps if step.name.startswith("zones-filled"))
    assert 3 * ZONE < filled <= 3 * ZONE + (ZONE >> 1)


def test_what_is_read_and_what_is_touched_share_what_may_be_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zoned, "MOST_FILLED_BY_TEST_BYTES", 2 * ZONE)

    def test(steps: Steps) -> list[object]:
        steps.run("one", IoBatch.writes([5 * ZONE + 4096], 4096))
        steps.reset("reset")
        return [steps.written(np.array([each * ZONE], np.uint64), 4096) for each in (5, 6)]

    for calls in (None, 4):
        engine = Device(TRAITS, repeatable=False)
        recording = begin(engine, tmp_path / str(calls))
        if calls is not None:  # a key is pressed right after the reset
            engine.calls_left = calls
            with pytest.raises(KeyboardInterrupt):
                measured(test, engine, recording)
            engine.calls_left = 1 << 30
        assert measured(test, engine, recording) == [True, False] == replayed(test, recording)


@pytest.mark.parametrize("model", ["host-aware", None])
def test_the_plan_says_what_becomes_of_zones(model: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    facts = replace(Device(TRAITS).describe(), kind="device")
    print_plan(facts, True, TESTS, SuiteOptions(reset="none"), model)
    said = " ".join(capsys.readouterr().out.split())
    words = ("zones: a test may fill", "reset all of them", "512 GiB and 8 h each test", "zones beside this")
    assert [word in said for word in words] == [model is not None] * len(words), said


def test_a_target_without_zones_says_nothing_of_their_reset(tmp_path: Path) -> None:
    drive = FakeDrive(Traits(kind="cmr"))
    recording = Recording.create(tmp_path / "r", drive.describe(), {}, 1)
    with recording.part("any") as writer:
        Session(drive, writer, test="any", seed=1, known=Known(), reset="zones").reset("reset")
        writer.complete()
    evidence = recording.evidence("any")
    assert evidence is not None and "zones_reset" not in evidence.steps[0].params
