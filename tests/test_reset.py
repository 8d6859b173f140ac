"""A known state: which means a reset takes on which target, what it reaches, and that a replay agrees."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from click.testing import CliRunner

from skylight import _native
from skylight.cli.app import cli
from skylight.engines.device import DeviceEngine
from skylight.engines.sim import SimEngine, read_profile
from skylight.errors import TargetError
from skylight.evidence import Evidence, IoBatch, IoLog, TargetFacts
from skylight.findings import Finding, Known
from skylight.probe.known_state import Means, Resets, State
from skylight.probe.procedure import Replay
from skylight.probe.session import Session
from skylight.recording import Recording
from skylight.truth import true_findings

LAZY, AGGRESSIVE = "emulated-smr-1", "st5000as0011"
LAZY_JOURNAL = "1018"  # a random drive
BLOCK = 4096
USE = IoBatch.writes(np.arange(100, dtype=np.uint64) * np.uint64(10 << 30), BLOCK)


def known_of(text: str, turns: float, *, cleaning: bool) -> Known:
    """What the tests before find of the drive, with the rotation that many times as long."""
    truth = true_findings(text, "drive")
    names = ("drive_type", "rotation_ns", "cache_medium", *(("cleaning_type",) if cleaning else ()))
    values = {name: truth[name]["value"] for name in names}
    values["rotation_ns"] *= turns
    return Known([Finding(name, value, None, None, 1.0, "") for name, value in values.items()])


def reset(
    tmp_path: Path,
    drive: str,
    conditions: str,
    means: Means = "auto",
    *,
    cleaning: bool = False,
    turns: float = 1.0,
) -> tuple[SimEngine, State, Evidence]:
    """Writes blocks all over the drive, then resets it; the drive, the state and the evidence. A replay
    of that takes the same turns."""
    file = tmp_path / "conditions.toml"
    file.write_text(f'[conditions]\n{conditions}\nclock = "1 us"\n', encoding="utf-8")
    text = _native.random_profile(int(drive)) if drive.isdigit() else read_profile(drive)[0]
    (tmp_path / "drive.toml").write_text(text, encoding="utf-8")
    engine = SimEngine.open(str(tmp_path / "drive.toml"), conditions=str(file))
    known = known_of(text, turns, cleaning=cleaning)
    recording = Recording.create(tmp_path / "recording", engine.describe(), {}, 1)
    with recording.part("any") as writer:
        session = Session(engine, writer, test="any", seed=1, known=known, reset=means)
        with session.settings("settings", write_cache=False, look_ahead=False):
            session.run("use", USE)
            assert engine.counters()["cache_live_bytes"] > 0
            state = session.reset("reset")
        writer.complete()
    evidence = recording.evidence("any")
    assert evidence is not None
    again = Replay(evidence, known)
    with again.settings("settings", write_cache=False, look_ahead=False):
        again.run("use", USE)
        assert again.reset("reset") is state
    assert again.names == session.names
    return engine, state, evidence


@pytest.mark.parametrize(("conditions", "state"), [
    ('erase = "sanitize"', State.NEW), ('erase = "trim"', State.CLEAN),
])  # fmt: skip
@pytest.mark.parametrize("drive", [LAZY, AGGRESSIVE])
def test_an_erase_or_else_a_trim_empties_the_cache(
    tmp_path: Path, drive: str, conditions: str, state: State
) -> None:
    engine, reached, evidence = reset(tmp_path, drive, conditions)
    assert reached is state
    assert engine.counters()["cache_live_bytes"] == 0
    assert [step.name for step in evidence.steps] == ["settings", "use", "reset"]


@pytest.mark.parametrize("ahead", ["obeys", "stays-on"])
def test_a_drive_that_cleans_when_idle_is_left_alone(tmp_path: Path, ahead: str) -> None:
    engine, reached, _ = reset(tmp_path, AGGRESSIVE, f'erase = "none"\nlook_ahead = "{ahead}"')
    assert reached is State.CLEAN
    assert engine.counters()["cache_live_bytes"] == 0


def test_idle_time_does_not_count_without_its_control(tmp_path: Path) -> None:
    # With a revolution three times as long a cached block looks at home.
    _, reached, _ = reset(tmp_path, AGGRESSIVE, 'erase = "none"', "idle", turns=3.0)
    assert reached is State.UNKNOWN


def test_a_lazy_drive_does_not_clean_when_idle(tmp_path: Path) -> None:
    engine, reached, evidence = reset(tmp_path, LAZY, 'erase = "none"', "idle")
    assert reached is State.UNKNOWN
    assert engine.counters()["cache_live_bytes"] > 0
    assert any(step.kind == "pause" for step in evidence.steps)


def test_a_drive_that_is_known_to_be_lazy_is_not_left_alone(tmp_path: Path) -> None:
    _, reached, evidence = reset(tmp_path, LAZY, 'erase = "none"', "idle", cleaning=True)
    assert reached is State.UNKNOWN
    assert not any(step.kind == "pause" for step in evidence.steps)


def test_a_lazy_log_is_rewritten(tmp_path: Path) -> None:
    engine, reached, evidence = reset(tmp_path, LAZY_JOURNAL, 'erase = "none"\nprior_use = "half-full"')
    assert reached is State.REWRITTEN, "a log of more than was rewritten may hold older data"
    assert engine.counters()["cache_live_bytes"] < 2 << 20
    written = sum(
        int(step.rows.size.sum(dtype=np.uint64)) for step in evidence.steps if "-rewrite" in step.name
    )
    assert written == 64 << 30


class Log:
    """A lazy log of 100 GiB, in which earlier tests left data between two places; what comes to it takes ten
    times as long."""

    target = TargetFacts("sim", "sim:log", 1 << 40, 512)

    def __init__(self, older_gib: tuple[int, int]) -> None:
        """Nothing was written."""
        self.older, self.written = range(*older_gib), 0

    def quiet(self) -> bool:
        """It is."""
        return True

    def run(self, name: str, io: IoBatch, **_: object) -> IoLog:
        """All of it."""
        if "rewrite" in name:
            self.written += int(io.size.sum(dtype=np.uint64))
        each_ns = 10_000_000 if self.written >> 30 in self.older else 1_000_000
        done = np.arange(1, len(io) + 1, dtype=np.uint64) * np.uint64(each_ns)
        return IoLog.of(io, done - np.uint64(each_ns), done)


@pytest.mark.parametrize(
    ("older_gib", "written_gib", "state"),
    [
        ((20, 40), 64, State.REWRITTEN), ((36, 57), 72, State.REWRITTEN), ((46, 65), 80, State.REWRITTEN),
        ((46, 300), 128, State.UNKNOWN), ((200, 300), 64, State.REWRITTEN),
    ],
)  # fmt: skip
def test_rewriting_goes_on_until_the_data_of_earlier_tests_is_behind_it(
    older_gib: tuple[int, int], written_gib: int, state: State
) -> None:
    """101232 drawn, a log of 100 GiB: the last quarter of 64 GiB came to what earlier tests had left."""
    log = Log(older_gib)
    assert Resets().reach(cast(Any, log), "reset", ("rewrite",), 8e6) is state
    assert log.written == written_gib << 30


@pytest.mark.parametrize("means", ["none", "erase"])
def test_only_what_is_allowed_is_done(tmp_path: Path, means: Means) -> None:
    engine, reached, evidence = reset(tmp_path, AGGRESSIVE, 'erase = "trim"', means)
    assert reached is State.UNKNOWN
    assert engine.counters()["cache_live_bytes"] > 0
    assert len(evidence.steps) == 3


def test_an_erase_that_is_not_allowed_is_not_done(tmp_path: Path) -> None:
    _, reached, _ = reset(tmp_path, LAZY, 'erase = "sanitize"', "trim")
    assert reached is State.CLEAN


class Discards:
    """Stands in for a host: notes what is discarded, or refuses."""

    size_bytes, block_bytes, key = 200 << 30, 512, None

    def __init__(self, error: int = 0) -> None:
        """Fails with that number, if it is one."""
        self.error = error
        self.ranges: list[tuple[int, int]] = []

    def discard(self, start_bytes: int, length_bytes: int) -> None:
        if self.error:
            raise OSError(self.error, "no")
        self.ranges.append((start_bytes, length_bytes))


def device(tmp_path: Path, host: Discards, kind: str = "device", *, can_write: bool = True) -> DeviceEngine:
    """An engine over a file that passes for a block device."""
    path = tmp_path / "target"
    path.touch()
    facts = TargetFacts(kind, str(path), host.size_bytes, host.block_bytes)
    return DeviceEngine(host, facts, can_write=can_write)  # type: ignore[arg-type]  # has what is asked


def test_a_block_device_is_discarded_whole(tmp_path: Path) -> None:
    host = Discards()
    assert device(tmp_path, host).trim()
    ends = [start + length for start, length in host.ranges]
    assert [start for start, _ in host.ranges] == [0, *ends[:-1]]
    assert ends[-1] == host.size_bytes


@pytest.mark.parametrize(("kind", "can_write"), [("file", True), ("device", False)])
def test_files_and_what_may_not_be_written_to_are_not_discarded(
    tmp_path: Path, kind: str, can_write: bool
) -> None:
    host = Discards()
    assert not device(tmp_path, host, kind, can_write=can_write).trim()
    assert host.ranges == []


def test_a_device_without_trim_says_so(tmp_path: Path) -> None:
    assert not device(tmp_path, Discards(errno.EOPNOTSUPP)).trim()


def test_a_trim_that_fails_names_the_target_and_the_mend(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"target: TRIM failed: .*--reset idle"):
        device(tmp_path, Discards(errno.EIO)).trim()


def test_the_plan_says_how_the_target_is_reset() -> None:
    arguments = ["probe", f"sim:{AGGRESSIVE}", "--only", "drive_type", "--reset", "trim", "--dry-run"]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output
    assert "reset: TRIM of the whole target" in done.output
    assert CliRunner().invoke(cli, ["probe", "sim:x", "--reset", "magic"]).exit_code == 2
