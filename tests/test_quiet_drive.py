"""A test that a drive is not ready for waits: after writes that a volatile cache took and a full persistent
cache still makes it clean for, reads take minutes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from skylight.evidence import IoBatch, IoLog, SettingsReport, Step, Stop, TargetFacts
from skylight.findings import Known
from skylight.probe import quiet_drive
from skylight.probe.procedure import Replay
from skylight.probe.session import Session
from skylight.probe.spending_bound import Bound
from skylight.recording import Recording

S = 1_000_000_000


class Busy:
    """An engine with work for so many seconds, for a minute of which each read waits; then reads take 10 ms,
    and `awake_s` more after a pause."""

    def __init__(self, busy_s: float, awake_s: float = 0.0) -> None:
        self.size, self.can_write, self.repeatable = 1 << 34, True, True
        self.now_ns, self.busy_ns, self.awake_ns = 0, round(busy_s * S), round(awake_s * S)
        self.stopped = True

    def describe(self) -> TargetFacts:
        return TargetFacts("sim", "sim:busy", self.size, 4096)

    def run(self, io: IoBatch, *, depth: int = 1, until: Stop | None = None) -> IoLog:
        submit, complete = list[int](), list[int]()
        for row in range(len(io)):
            submit.append(self.now_ns)
            self.now_ns += min(max(self.busy_ns - self.now_ns, 0), 60 * S) + S // 100
            self.now_ns += self.awake_ns if self.stopped else 0
            self.stopped = False
            complete.append(self.now_ns)
            log = IoLog.of(io.part(0, row + 1), np.array(submit, np.uint64), np.array(complete, np.uint64))
            if until is not None and until.reached(log):
                break
        return log

    def pause(self, seconds: float) -> None:
        self.now_ns += round(seconds * S)
        self.stopped = True

    def erase(self) -> bool:
        return False

    def settings(self, *, write_cache: bool, look_ahead: bool) -> SettingsReport:
        raise AssertionError("a wait changes no settings")


def waited(engine: Busy, out: Path, *, known: Known | None = None, bound: Bound | None = None) -> bool:
    """Waits on a live target, and checks that a replay of it comes to the same end."""
    recording = Recording.create(out, engine.describe(), {"writes": True}, 1)
    with recording.part("rotation") as writer:
        session = Session(engine, writer, test="rotation", seed=1, known=known, bound=bound)  # type: ignore[arg-type]  # what reads need
        quiet = session.quiet()
        writer.complete()
    kept = Recording.open(out).evidence("rotation")
    assert kept is not None
    replay = Replay(kept, known or Known())
    assert replay.quiet() is quiet and replay.names == session.names and not replay.cut
    return quiet


def test_a_quiet_drive_is_asked_for_a_few_reads(tmp_path: Path) -> None:
    engine = Busy(0)
    assert waited(engine, tmp_path / "r")
    assert engine.now_ns == quiet_drive.READS * S // 100


def test_no_test_of_a_quick_answer_waits(tmp_path: Path) -> None:
    engine = Busy(900)
    assert waited(engine, tmp_path / "r", known=Known(quick=True))
    assert engine.now_ns == 0


@pytest.mark.parametrize("awake_s", [0.0, 14.0])
def test_it_waits_until_reads_are_quick_but_for_the_first(awake_s: float, tmp_path: Path) -> None:
    """A spindle that had stopped makes the first read behind each pause slow."""
    engine = Busy(1_500, awake_s)
    assert waited(engine, tmp_path / "r")
    assert 1_500 * S < engine.now_ns < 2_500 * S


def test_a_drive_that_stays_busy_is_given_up(tmp_path: Path) -> None:
    engine = Busy(1e6)
    assert not waited(engine, tmp_path / "r")
    assert quiet_drive.MOST_WAIT_S * S < engine.now_ns < quiet_drive.MOST_S * S


def test_the_wait_is_not_taken_from_the_test(tmp_path: Path) -> None:
    bound = Bound(1_800 * S, 0)
    assert waited(Busy(1_500), tmp_path / "r", bound=bound)
    assert bound.left_ns == 1_800 * S


def test_each_wait_is_told_from_the_next_and_from_other_steps() -> None:
    names = ["quiet", "turn", "quiet-pause", "quiet-2", "quiet-pause-2", "quiet-3", "quiet-4", "quiet-looks"]
    steps = [Step(name, "pause" if "pause" in name else "run") for name in names]
    waits = [[step.name for step in wait] for wait in quiet_drive.waiting(steps)]
    assert waits == [["quiet"], ["quiet-pause", "quiet-2", "quiet-pause-2", "quiet-3"], ["quiet-4"]]
