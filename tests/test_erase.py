"""Erases by a command of the drive: chosen by a person alone, followed, checked, and never stopped half way.

The host is a fake over a plain file, so the flow is that of a real drive; the commands themselves are tested
in Rust, against drives that keep the states of the standards.
"""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from skylight import _native
from skylight.cli.app import cli
from skylight.engines import Erases, erase
from skylight.engines.device import DeviceEngine
from skylight.engines.erase import Erase, Offer
from skylight.engines.sim import SimEngine
from skylight.errors import TargetError, UsageError
from skylight.evidence import U8, U32, U64, TargetFacts
from skylight.findings import Known
from skylight.probe.known_state import MEANS, Means, State, first_means, words
from skylight.probe.procedure import Replay
from skylight.probe.session import Session
from skylight.recording import Recording

SIZE = 64 << 20


class FakeHost:
    """A drive over a file, which it zeroes when it is erased."""

    def __init__(self, path: Path, **traits: Any) -> None:
        self.size_bytes, self.block_bytes, self.key = SIZE, 512, "MODEL-1"
        self.path, self.began, self.polls = path, 0, 0
        self.traits: dict[str, Any] = {
            "zeroes": True, "fails": None, "refuses": None, "seconds": 1.0, "key_change": False, **traits,
        }  # fmt: skip

    def erase_offer(self, erase: Erase) -> Mapping[str, str | int | bool | None]:
        if self.traits["refuses"]:
            raise _host_error("refused", self.traits["refuses"])
        seconds = self.traits["seconds"] if erase == "secure-erase" else None
        key = self.traits["key_change"]
        return {"command": erase.upper(), "seconds": seconds, "key_change": key, "writes_all": not key}

    def erase(self, erase: Erase, note: str) -> Mapping[str, str | int | bool | None]:
        del note
        self.began, self.polls = self.began + 1, 0
        if erase == "secure-erase":
            time.sleep(self.traits["seconds"])
            self._zero()
        return self.erase_offer(erase)

    def erase_progress(self, erase: Erase) -> tuple[bool, float | None]:
        del erase
        self.polls += 1
        if self.polls == 3 and self.traits["fails"]:
            raise _host_error("failed", self.traits["fails"])
        if self.polls == 4:
            self._zero()
        return self.polls == 4, self.polls / 4

    def _zero(self) -> None:
        if self.traits["zeroes"]:
            self.path.write_bytes(bytes(SIZE))

    def run(self, op: U8, offset: U64, size: U32, depth: int) -> tuple[U64, U64]:
        del depth
        with self.path.open("r+b") as file:
            for kind, at, length in zip(op, offset, size, strict=True):
                if kind == 1:
                    file.seek(int(at))
                    file.write(b"\x5a" * int(length))
        times = np.arange(1, len(op) + 1, dtype=np.uint64)
        return times, times + np.uint64(1)

    def results(self) -> tuple[U64, U64]:
        return np.empty(0, np.uint64), np.empty(0, np.uint64)

    def zone_layout(self) -> None:
        return None

    def close(self) -> None:
        """Nothing to release."""


def _host_error(kind: str, line: str) -> _native.HostError:
    error = _native.HostError(line)
    error.kind, error.times = kind, None  # type: ignore[assignment]  # any word
    return error


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SKYLIGHT_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(erase, "FIRST_POLL_S", 0.001)
    path = tmp_path / "drive"
    path.write_bytes(bytes(SIZE))
    return path


def over(host: FakeHost) -> DeviceEngine:
    facts = TargetFacts("device", str(host.path), SIZE, 512, {})
    return DeviceEngine(host, facts, can_write=True)  # type: ignore[arg-type]  # the part that erases


def reset(host: FakeHost, means: Means, folder: Path, *, times: int = 1) -> list[State]:
    """The states that resets reach; a replay of them reaches the same."""
    with closing(over(host)) as engine:
        recording = Recording.create(folder / "recording", engine.describe(), {}, 1)
        with recording.part("any") as writer:
            session = Session(engine, writer, test="any", seed=1, reset=means)
            states = [session.reset("reset") for _ in range(times)]
            writer.complete()
    evidence = recording.evidence("any")
    assert evidence is not None
    again = Replay(evidence, Known())
    assert [again.reset("reset") for _ in range(times)] == states
    return states


@pytest.mark.parametrize(("means", "traits", "state"), [
    ("secure-erase", {"seconds": 0.01}, State.NEW),
    ("sanitize", {}, State.CLEAN),
    ("format", {}, State.CLEAN),
    ("sanitize", {"key_change": True}, State.UNKNOWN),
    ("format", {"zeroes": False}, State.UNKNOWN),
    ("secure-erase", {"seconds": 0.01, "zeroes": False}, State.UNKNOWN),
])  # fmt: skip
def test_what_an_erase_reaches(
    file: Path, tmp_path: Path, means: Means, traits: dict[str, Any], state: State
) -> None:
    host = FakeHost(file, **traits)
    assert reset(host, means, tmp_path) == [state]
    assert host.began == 1


@pytest.mark.parametrize("number", [errno.EIO, errno.ENODATA])
def test_a_block_that_cannot_be_read_after_the_erase_is_gone(
    file: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    host, real = FakeHost(file, zeroes=False), os.preadv

    def preadv(descriptor: int, buffers: list[Any], offset: int) -> int:
        if host.polls and offset < SIZE // 2:
            raise OSError(number, os.strerror(number))
        return real(descriptor, buffers, offset)

    monkeypatch.setattr(os, "preadv", preadv)
    with closing(over(host)) as engine:
        erased = engine.erase_by("sanitize", lambda *_: None)
    assert (erased.is_gone, erased.unreadable) == (False, 2), "the last one is readable, and there"
    host.traits["zeroes"], host.polls = True, 0
    with closing(over(host)) as engine:
        assert engine.erase_by("sanitize", lambda *_: None).is_gone


def test_a_block_that_cannot_be_read_before_the_erase_is_a_failure(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def preadv(*_: object) -> int:
        raise OSError(errno.EIO, "")

    monkeypatch.setattr(os, "preadv", preadv)
    host = FakeHost(file)
    with closing(over(host)) as engine, pytest.raises(TargetError, match="cannot be read"):
        engine.erase_by("sanitize", lambda *_: None)
    assert host.began == 0


def test_no_erase_is_chosen_for_a_person(file: Path) -> None:
    for means in MEANS:
        assert set(first_means(means)) & set(erase.ERASES) <= {means}
    host = FakeHost(file)
    with closing(over(host)) as engine:
        assert engine.erase() is False
    assert host.began == 0


def test_one_that_takes_long_is_done_once_a_test(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = FakeHost(file)
    assert reset(host, "sanitize", tmp_path, times=3) == [State.CLEAN] * 3
    monkeypatch.setattr("skylight.probe.known_state.LONG_S", 0.0)
    (tmp_path / "long").mkdir()
    assert reset(host, "sanitize", tmp_path / "long", times=3) == [
        State.CLEAN, State.UNKNOWN, State.UNKNOWN,
    ]  # fmt: skip
    assert host.began == 4


def test_a_failure_half_way_is_one_line(file: Path, tmp_path: Path) -> None:
    host = FakeHost(file, fails="/dev/sdq: its erase failed: why; check its health (smartctl -a)")
    with pytest.raises(TargetError, match=r"its erase failed: why; check"):
        reset(host, "sanitize", tmp_path)


def test_progress_goes_forward_to_the_caller(file: Path) -> None:
    shares: list[float | None] = []
    with closing(over(FakeHost(file))) as engine:
        engine.erase_by("sanitize", lambda share, _: shares.append(share))
    assert shares == [0.25, 0.5, 0.75]


def test_ctrl_c_waits_for_an_erase_that_cannot_be_stopped(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erase, "POLL_S", 0.01)
    host = FakeHost(file, seconds=1.0)
    main = threading.main_thread().ident
    assert main is not None
    threading.Timer(0.2, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
    with closing(over(host)) as engine, pytest.raises(KeyboardInterrupt):
        engine.erase_by("secure-erase", lambda *_: None)
    assert file.read_bytes()[:4096] == bytes(4096), "it ended before the run did"


def test_ctrl_c_leaves_a_sanitize_to_the_drive_and_says_so(file: Path) -> None:
    def stop(share: float | None, seconds: float) -> None:
        raise KeyboardInterrupt

    with closing(over(FakeHost(file))) as engine, pytest.raises(KeyboardInterrupt) as stopped:
        engine.erase_by("sanitize", stop)
    assert any("goes on erasing itself" in note for note in stopped.value.__notes__)


def test_the_plan_says_what_it_is_and_what_it_costs(file: Path) -> None:
    with closing(over(FakeHost(file, seconds=7200.0))) as engine:
        offer = engine.erase_offer("secure-erase")
    said = words("secure-erase", virtual=False, offer=offer)
    assert "SECURE-ERASE of the whole drive, about 2 h each, once a test" in said
    assert "ALL DATA IS LOST" in said and "cannot be stopped" in said
    assert "stays unknown" in words("sanitize", virtual=False, offer=Offer("X", None, key_change=True))


def test_what_cannot_be_erased_is_refused_before_anything_is_done(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(over(FakeHost(file, refuses="it: cannot be erased: it is frozen; wake it"))) as engine:
        assert isinstance(engine, Erases)
        with pytest.raises(UsageError, match="frozen"):
            engine.erase_offer("secure-erase")
    assert not isinstance(SimEngine.open("st4000nc001"), Erases)
    for target, why in (
        (["sim:st4000nc001"], "is no real drive"),
        ([str(file), "--destroy-data"], "it is a file"),
        ([str(file)], "opened read-only; give --destroy-data"),
    ):
        ran = CliRunner().invoke(cli, ["probe", *target, "--reset", "sanitize", "--quick"])
        line = str(ran.exception) if isinstance(ran.exception, UsageError) else ran.output
        assert ran.exit_code != 0 and why in line, ran.output
    assert not (tmp_path / "skylight-report").exists()
