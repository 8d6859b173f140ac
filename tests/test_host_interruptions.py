"""What the host takes of a step's time: kept with the step, and said of the run."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from skylight.engines import host_interruptions
from skylight.engines.host_interruptions import HostTime
from skylight.engines.sim import SimEngine
from skylight.errors import UsageError
from skylight.evidence import Evidence, IoBatch, IoLog, Step, TargetFacts
from skylight.infer.host_clock import LEAST_SUSPENDED_NS, host_notes
from skylight.probe.session import Session
from skylight.recording import Recording

MS, S = 1_000_000, 1_000_000_000


class _RealTime:
    """An emulated drive that claims to be a real one: what the host takes counts."""

    def __init__(self, engine: SimEngine) -> None:
        self._engine, self.repeatable = engine, False

    def __getattr__(self, name: str) -> object:
        return getattr(self._engine, name)


def recorded(folder: Path, *, real: bool) -> Evidence:
    engine = SimEngine.open("st4000nc001")
    recording = Recording.create(folder, engine.describe(), {}, 1)
    with recording.part("rotation") as writer:
        steps = Session(_RealTime(engine) if real else engine, writer, test="rotation", seed=1)  # type: ignore[arg-type]  # it forwards by name
        steps.run("reads", IoBatch.reads([0, 4096], 4096))
        steps.pause("idle", 1.0)
        writer.complete()
    kept = Recording.open(folder).evidence("rotation")
    assert kept is not None
    return kept


def test_what_the_host_takes_is_kept_with_each_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock: Iterator[HostTime] = iter(
        [
            HostTime(5 * S, 6 * MS),
            HostTime(5 * S, 7 * MS),
            HostTime(5 * S, 10 * MS),
            HostTime(35 * S, 12 * MS),
            HostTime(65 * S, 12 * MS),
        ]
    )
    monkeypatch.setattr(
        host_interruptions, "HostTime", type("Fake", (), {"now": staticmethod(lambda: next(clock))})
    )
    reads, idle = recorded(tmp_path / "real", real=True).steps
    assert reads.host == {"suspended_ns": 0, "waited_ns": 3 * MS}
    # 30 s of them before it began: the drive was off, and has forgotten its settings.
    assert idle.host == {"suspended_ns": 60 * S, "waited_ns": 0}
    # The thread of this process that waits for jobs is not the one that does the I/O.
    monkeypatch.setattr(_RealTime, "name_jobs", lambda _, __: None, raising=False)
    clock = iter([HostTime(second * S, 7 * MS) for second in (5, 5, 6, 6, 7)])
    steps = recorded(tmp_path / "jobs", real=True).steps
    assert [step.host for step in steps] == [{"suspended_ns": S}] * 2
    # Virtual time has no host: its recordings stay the same bytes.
    assert [step.host for step in recorded(tmp_path / "sim", real=False).steps] == [{}, {}]


def test_the_clocks_of_this_machine_are_read() -> None:
    before = HostTime.now()
    taken = HostTime.now().since(before)
    assert set(taken) == {"suspended_ns", "waited_ns"}
    assert taken["suspended_ns"] < LEAST_SUSPENDED_NS, "reading the clocks is no suspend"


def test_a_preemption_between_two_clocks_is_no_suspend(monkeypatch: pytest.MonkeyPatch) -> None:
    monotonic, boot = time.CLOCK_MONOTONIC, time.CLOCK_BOOTTIME
    apart = [(monotonic, 5 * S), (boot, 8 * S), (monotonic, 6 * S)]
    together = [(monotonic, 6 * S), (boot, 8 * S), (monotonic, 6 * S)]
    day = time.CLOCK_REALTIME
    told = iter([*apart[:2], (day, 9 * S), apart[2], *together[:2], (day, 9 * S), together[2]])

    def reading(clock: int) -> int:
        asked, now = next(told)
        assert asked == clock
        return now

    monkeypatch.setattr(time, "clock_gettime_ns", reading)
    assert HostTime.now().suspended_ns == 2 * S


@pytest.mark.parametrize(
    ("hours", "name", "words"), [(5, "set_forward_ns", "forward by 5 h"), (-3, "set_back_ns", "back by 3 h")]
)
def test_a_clock_that_is_set_is_noticed_and_one_that_is_slewed_is_not(
    hours: int, name: str, words: str
) -> None:
    before = HostTime(0, 0, 100 * S, 1_700_000_000 * S)
    day_ns = before.day_ns + hours * 3600 * S
    taken = replace(before, boot_ns=160 * S, day_ns=day_ns).since(before)
    assert taken == {"suspended_ns": 0, "waited_ns": 0, name: abs(hours) * 3600 * S}
    (said,) = host_notes(evidence({}, taken))
    assert words in said and "right before 'step-1'" in said and "findings stand" in said
    slewed = replace(before, boot_ns=before.boot_ns + 7200 * S, day_ns=before.day_ns + round(3.6 * S))
    assert set(slewed.since(before)) == {"suspended_ns", "waited_ns"}


def evidence(*hosts: dict[str, int]) -> Evidence:
    """Steps of one command of a second each, with these times of the host."""
    batch = IoBatch.reads([0], 4096)
    log = IoLog.of(batch, batch.offset, batch.offset + S)
    steps = [Step(f"step-{number}", "run", {}, log, host) for number, host in enumerate(hosts)]
    return Evidence("journal", TargetFacts("device", "/dev/x", 1 << 40, 512), steps)


def test_a_suspend_and_a_busy_host_are_said_and_a_quiet_one_is_not() -> None:
    assert host_notes(evidence({}, {"suspended_ns": 9 * MS, "waited_ns": 49 * MS})) == []
    (asleep,) = host_notes(evidence({}, {"suspended_ns": 120 * S}))
    assert "suspended for 2 min in or right before 'step-1'" in asleep
    (late,) = host_notes(evidence({"waited_ns": 60 * MS}, {}, {"waited_ns": 400 * MS}))
    assert "40 % of the time of 'step-2'" in late and "2 of 3 steps" in late and "of the host" in late


def test_a_pause_is_no_wait_and_a_cut_step_counts() -> None:
    paused = Step("idle", "pause", {"seconds": 1.0}, None, {"waited_ns": S})
    of = evidence()
    assert host_notes(replace(of, steps=[paused])) == []
    cut = Step("cut", "run", {}, None, {"suspended_ns": S})
    assert len(host_notes(replace(of, cut=[cut]))) == 1


@pytest.mark.parametrize("host", [{"waited_ns": -1}, {"waited_ns": "1"}, {"waited_ns": 1.5}, {"x": True}])
def test_a_time_that_no_clock_shows_is_refused(host: dict[str, int], tmp_path: Path) -> None:
    facts = TargetFacts("device", "/dev/x", 1 << 40, 512)
    recording = Recording.create(tmp_path / "r", facts, {}, 1)
    with recording.part("journal") as writer:
        writer.begin("idle", "pause", {"seconds": 1.0})
        writer.end(host)
    with pytest.raises(UsageError, match="no usable 'host'"):
        recording.evidence("journal")
