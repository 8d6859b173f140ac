"""Test doubles: small drives in plain Python with the traits that test 1 has to tell apart.

Independent of the Rust model on purpose: a test of inference must not share a mistake with the emulator. A
platter is a phase; a block has a track and an angle; a command takes overhead, seek, wait and transfer, plus
jitter and now and then an outlier. `random_drive` draws from the ranges of docs/random-drives.md."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from skylight.evidence import U8, U32, U64, IoBatch, IoLog, Op, SettingsReport, Stop, TargetFacts

MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True)
class Traits:
    """What a fake is made of; times in ms.

    More than 15 fields: one per behaviour, and tests set one or two of them."""

    kind: str = "cmr"
    size_bytes: int = 4 * 10**12 // 4096 * 4096
    turn: float = 10.17
    track_bytes: int = 1_830_912
    tracks_a_switch: int = 8
    skew: float = 0.09  # turns
    seek_track: float = 0.8
    seek_full: float = 16.0
    overhead: float = 0.1
    band_bytes: int = 40 * MIB
    cache_bands: int = 952
    journal_turns: float = 2.45
    journal_waits: bool = False
    merge_every: int = 240
    merge: float = 300.0
    flash_write: float = 0.2
    flash_bytes_a_ms: float = 400_000.0
    flash_band_bytes: int = 0  # after so many bytes a band is cleaned; 0: never
    flash_clean: float = 3000.0
    read: float = 0.1  # of a target without platters
    spread: float = 0.1  # of the same, standard deviation of log latency
    write_factor: float = 2.0
    jitter: float = 0.0
    jitter_absolute: float = 0.0
    early: bool = False  # jitter also shortens commands
    outlier_rate: float = 0.0
    outlier: float = 50.0
    cache_writes: int = 0  # blocks that a volatile write cache holds; 0: none
    cache_switch: bool = True  # it can be switched off
    cache_report: bool | None = False  # what the target says after it was asked to switch off
    obeys_flush: bool = True
    read_ahead_bytes: int = 0  # look-ahead that cannot be switched off
    lazy_unwritten: bool = False  # blocks never written are answered without the platter


@dataclass
class FakeDrive:
    """One such drive with its own clock, and the engine over it.

    More than 15 fields: what a platter, flash and each kind of cache hold."""

    traits: Traits
    seed: int = 1
    can_write: bool = True
    repeatable: bool = True
    now: float = 0.0
    position: float = 0.0  # share of the stroke, 0 at the outer diameter
    writes_done: int = 0
    calls: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.size = self.traits.size_bytes
        self.heads: dict[int, int] = {}
        self.dirty: deque[tuple[int, int]] = deque()
        self.dirty_blocks = 0
        self.in_flash = 0
        self.flash_blocks: set[int] = set()
        self.in_cache: set[int] = set()
        self.cache_on = True
        self.ahead: dict[int, int] = {}
        self.written: set[int] = set()
        self.log_phase = 0.0
        self.locations: dict[int, tuple[float, float]] = {}

    # the engine

    def describe(self) -> TargetFacts:
        return TargetFacts("sim", f"sim:fake-{self.traits.kind}", self.size, 512, {"fake": self.traits.kind})

    @contextmanager
    def settings(self, *, write_cache: bool, look_ahead: bool) -> Iterator[SettingsReport]:
        before = self.cache_on
        if self.traits.cache_switch:
            self.cache_on = write_cache
        self.calls.append("settings")
        try:
            yield SettingsReport(self.traits.cache_report, False)
        finally:
            self.cache_on = before
            self.calls.append("restored")

    def pause(self, seconds: float) -> None:
        """What a volatile cache holds is written out while nobody comes."""
        until = self.now + 1e3 * seconds
        while self.dirty and self.now < until:
            self.write_out()
        self.now = max(self.now, until)

    def erase(self) -> bool:
        return False

    def close(self) -> None:
        self.calls.append("closed")

    def run(self, io: IoBatch, *, depth: int = 1, until: Stop | None = None) -> IoLog:
        submit, complete = self.columns(io.op, io.offset, io.size)
        return IoLog.of(io, submit, complete)

    def columns(self, op: U8, offset: U64, size: U32) -> tuple[U64, U64]:
        submit = np.empty(len(op), np.uint64)
        complete = np.empty(len(op), np.uint64)
        for row in range(len(op)):
            self.now += 0.007
            submit[row] = round(self.now * 1e6)
            start = self.now
            self.now += self.traits.overhead
            self.command(int(op[row]), int(offset[row]), int(size[row]))
            self.now += self.noise(self.now - start)
            complete[row] = max(round(self.now * 1e6), int(submit[row]))
        return submit, complete

    # the drive

    def noise(self, took: float) -> float:
        t = self.traits
        swing = self.rng.normal(0, t.jitter) * took
        extra = (max(swing, -0.5 * took) if t.early else abs(swing)) + self.rng.uniform(
            0, t.jitter_absolute or 1e-9
        )
        if self.rng.random() < t.outlier_rate:
            extra += self.rng.uniform(5, max(t.outlier, 5.1))
        return extra

    def command(self, op: int, offset: int, size: int) -> None:
        t = self.traits
        if op == Op.FLUSH:
            self.flush()
        elif t.kind == "no-platter":
            scale = t.read * (t.write_factor if op == Op.WRITE else 1.0)
            self.now += scale * float(np.exp(self.rng.normal(0, t.spread)))
        elif op == Op.READ:
            self.read(offset)
        else:
            self.write(offset, size)

    def flush(self) -> None:
        if self.traits.obeys_flush:
            for offset, size in sorted(self.dirty):
                self.store(offset, size)
            self.dirty.clear()
            self.in_cache.clear()
            self.dirty_blocks = 0

    def read(self, offset: int) -> None:
        t = self.traits
        if t.lazy_unwritten and offset not in self.written:
            return
        if any(first <= offset < first + t.read_ahead_bytes for first in list(self.ahead)[-32:]):
            return
        if offset in self.in_cache:
            return
        if offset in self.flash_blocks:
            self.now += 0.1
        elif offset in self.locations:
            self.go(*self.locations[offset])
        else:
            self.in_place(offset)
        if t.read_ahead_bytes:
            self.ahead[offset] = 1

    def write(self, offset: int, size: int) -> None:
        t = self.traits
        self.writes_done += 1
        self.written.update(range(offset, offset + size, 4096))
        if self.cache_on and t.cache_writes:
            while self.dirty and self.dirty_blocks + size // 4096 > t.cache_writes:
                self.write_out()
            self.dirty.append((offset, size))
            self.in_cache.update(range(offset, offset + size, 4096))
            self.dirty_blocks += size // 4096
        else:
            self.store(offset, size)

    def write_out(self) -> None:
        """The oldest write leaves the volatile cache."""
        offset, size = self.dirty.popleft()
        self.dirty_blocks -= size // 4096
        self.in_cache.difference_update(range(offset, offset + size, 4096))
        self.store(offset, size)

    def store(self, offset: int, size: int) -> None:
        """Puts a block where it survives, in the way of this kind of drive."""
        layers = {
            "cmr": self.in_place,
            "set-associative": self.append_by_band,
            "journal": self.append_journal,
            "flash": self.to_flash,
        }
        layers[self.traits.kind](offset, size)

    def to_flash(self, offset: int, size: int) -> None:
        t = self.traits
        self.now += t.flash_write + (size - 4096) / t.flash_bytes_a_ms
        self.in_flash += size
        self.flash_blocks.update(range(offset, offset + size, 4096))
        if t.flash_band_bytes and self.in_flash >= t.flash_band_bytes:
            self.in_flash = 0
            self.flash_blocks.clear()
            self.now += t.flash_clean

    def in_place(self, offset: int, size: int = 4096) -> None:
        track, within = divmod(offset, self.traits.track_bytes)
        self.go(offset / self.size, within / self.traits.track_bytes + track * self.traits.skew, size)

    def go(self, position: float, angle: float, size: int = 4096) -> None:
        """Seek, wait for the angle (turns), transfer."""
        t = self.traits
        far = abs(position - self.position)
        tracks = far * self.size / t.track_bytes
        if tracks >= 1:
            self.now += t.seek_track + (t.seek_full - t.seek_track) * min(1.0, far) ** 0.5
        self.position = position
        self.now += (angle - self.now / t.turn) % 1.0 * t.turn
        self.now += t.turn * size / t.track_bytes

    def append_by_band(self, offset: int, size: int) -> None:
        """Each band has a log in the cache band `a mod n`, at the inner diameter."""
        t = self.traits
        cache = offset // t.band_bytes % t.cache_bands
        used = self.heads.get(cache, 0)
        self.heads[cache] = used + size // 4096
        place = cache * t.band_bytes + used * 4096
        track, within = divmod(place, t.track_bytes)
        where = (0.95 + 0.04 * cache / t.cache_bands, within / t.track_bytes + track * t.skew)
        for block in range(size // 4096):  # one behind the other, each a little further around
            self.locations[offset + 4096 * block] = (where[0], where[1] + 4096 * block / t.track_bytes)
        self.go(*where, size)

    def append_journal(self, offset: int, size: int) -> None:
        """One log for all; an entry takes a fixed part of a turn, at a place that waits or is where the head
        is."""
        t = self.traits
        if self.position != 0.0:
            self.go(0.0, self.log_phase)
        if self.writes_done % t.merge_every == 0:
            self.now += t.merge
            self.position = 0.0
        if t.journal_waits:
            self.now += (self.log_phase - self.now / t.turn) % 1.0 * t.turn
        turns = t.journal_turns + (size - 4096) / t.track_bytes
        self.now += turns * t.turn
        self.log_phase = (self.log_phase + turns) % 1.0
        for block in range(size // 4096):
            self.locations[offset + 4096 * block] = (0.0, self.log_phase + 4096 * block / t.track_bytes)


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def random_traits(rng: np.random.Generator) -> tuple[Traits, str, str]:
    """Traits and the truth: drive type and cache medium."""
    base = Traits(
        size_bytes=int(log_uniform(rng, 100e9, 30e12)) // 4096 * 4096,
        turn=60e3 / rng.uniform(4200, 15000),
        track_bytes=int(rng.uniform(0.3, 3.0) * MIB) // 512 * 512,
        skew=float(rng.uniform(0.02, 0.4)),
        seek_track=float(rng.uniform(0.5, 2.0)),
        seek_full=float(rng.uniform(8, 25)),
        overhead=float(rng.uniform(0.02, 0.5)),
        band_bytes=int(rng.integers(4, 257)) * MIB,
        cache_bands=int(rng.integers(2, 2000)),
        jitter=float(rng.uniform(0, 0.03)),
        jitter_absolute=float(rng.uniform(0, 0.2)),
        early=bool(rng.random() < 0.5),
        outlier_rate=float(rng.uniform(0, 0.005)),
        outlier=float(rng.uniform(5, 200)),
    )
    kind = rng.choice(
        ["cmr", "no-platter", "slow", "set-associative", "journal", "flash"],
        p=[0.2, 0.15, 0.1, 0.2, 0.2, 0.15],
    )
    if kind == "cmr":
        return base, "cmr", "none"
    if kind in ("no-platter", "slow"):
        slow = kind == "slow"
        drive = replace(
            base,
            kind="no-platter",
            read=log_uniform(rng, 0.6, 12) if slow else log_uniform(rng, 0.02, 0.6),
            spread=float(rng.uniform(0.01, 0.8)),
            write_factor=float(rng.uniform(0.1, 10)),
            cache_report=None if slow else False,
        )
        return drive, "not-rotating", "none"
    if kind == "set-associative":
        return replace(base, kind="set-associative"), "smr", "disk"
    if kind == "journal":
        turns = float(rng.uniform(0, 3) + rng.uniform(0.2, 1))
        waits = bool(rng.random() < 0.5)
        every, merge = int(rng.integers(50, 2001)), float(rng.uniform(20, 800))
        drive = replace(
            base, kind="journal", journal_turns=turns, journal_waits=waits, merge_every=every, merge=merge
        )
        return drive, "smr", "disk"
    return (
        replace(
            base, kind="flash", flash_write=float(rng.uniform(0.05, 0.35)), overhead=min(base.overhead, 0.4)
        ),
        "smr",
        "flash",
    )


def spoilt(traits: Traits, rng: np.random.Generator) -> Traits:
    """The same drive with something in the way of a verdict."""
    what = rng.integers(0, 7)
    cache = int(rng.choice([256, 2048, 16384, 65536, 262144]))
    if what == 0:
        return replace(traits, cache_writes=cache, cache_switch=False, cache_report=True)
    if what == 1:
        return replace(traits, cache_writes=cache, cache_switch=False, cache_report=None, obeys_flush=False)
    if what == 2:
        return replace(traits, cache_writes=cache, cache_switch=False, cache_report=False)
    if what == 3:
        return replace(traits, read_ahead_bytes=int(rng.integers(16, 1024)) * 1024)
    if what == 4:
        return replace(traits, lazy_unwritten=True)
    if what == 5:
        return replace(traits, cache_report=None)
    # a bridge that swallows FLUSH and says "write through" whatever the drive does
    return replace(traits, cache_writes=cache, cache_switch=False, cache_report=False, obeys_flush=False)
