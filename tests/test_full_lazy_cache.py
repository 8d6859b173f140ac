"""Lazy drives that cannot be erased: what earlier tests left in the cache is cleaned before anything else."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from skylight.evidence import IoBatch, IoLog, Op, Stop
from skylight.findings import Finding, Known
from skylight.probe.band_size.journaled import (
    LONGEST_FILL_S,
    PUSH_WRITES,
    Filler,
    Region,
    Round,
    outlasts_test,
)
from skylight.probe.cleaning import band_time, journal
from skylight.probe.cleaning.trials import Ground
from skylight.probe.known_state import State
from skylight.probe.mapping import measure as mapping

BAND_NS, QUANTUM, FILL = 500_000_000, 128 << 10, 1 << 30


def known(fill: int = FILL) -> Known:
    """What the tests before find of a drive that takes half a second for a band."""
    values: dict[str, Any] = {
        "cache_fill_bytes": fill, "journal_quantum_bytes": QUANTUM,
        "cleaning_band_ns": {"one_block": BAND_NS, "half": BAND_NS},
    }  # fmt: skip
    return Known([Finding(name, value, None, None, 1.0, "") for name, value in values.items()])


class Target:
    """Each write takes so long."""

    size, block_bytes, can_write = 1 << 40, 4096, True

    def __init__(self, write_ns: int) -> None:
        """Nothing was written yet."""
        self.write_ns, self.known = write_ns, known()
        self.names: list[str] = []
        self.writes: dict[str, int] = {}

    def reset(self, name: str, **_: object) -> State:
        """Done."""
        self.names.append(name)
        return State.CLEAN

    def run(self, name: str, io: IoBatch, *, depth: int = 1, until: Stop | None = None, **_: object) -> IoLog:
        """All of it."""
        del depth, until
        self.names.append(name)
        self.writes[name] = int(np.count_nonzero(io.op == int(Op.WRITE)))
        done = np.arange(1, len(io) + 1, dtype=np.uint64) * np.uint64(self.write_ns)
        return IoLog.of(io, done - np.uint64(self.write_ns), done)


@pytest.mark.parametrize("band_known", [True, False])
@pytest.mark.parametrize("write_ns", [20_000_000, 400_000_000, 2 * BAND_NS, 30 * BAND_NS])
def test_a_cache_that_was_full_before_is_not_filled_until_it_stalls(write_ns: int, band_known: bool) -> None:
    """101263 drawn: 8 MiB waited four seconds, no longer at the end than at first, and how long a band takes
    was not known: the fill took eight hours."""
    target = Target(write_ns)
    target.known = target.known if band_known else Known([])
    filler = Filler(cast(Any, target), "coarse", [])
    filler.decoys()
    full = filler.fill()
    assert full is (write_ns >= 2 * BAND_NS if band_known else write_ns > 5 * BAND_NS)
    assert ("coarse-fill" in target.names) is not full


class Busy(Target):
    """A cache of so many writes; a full one takes half a second more for each. Other clients delay three in a
    row of each hundred."""

    def __init__(self, room: int) -> None:
        """Empty."""
        super().__init__(20_000_000)
        self.known, self.room, self.done = Known([]), room, 0

    @property
    def full(self) -> bool:
        """Whether it cleans."""
        return self.done > self.room

    def run(self, name: str, io: IoBatch, *, depth: int = 1, until: Stop | None = None, **_: object) -> IoLog:
        """Until three writes in a row are slow."""
        at = self.done + np.arange(len(io))
        took = np.where(at >= self.room, BAND_NS, 20_000_000) + np.where(at % 100 > 96, 60_000_000, 0)
        slow = np.convolve(took > (until.latency_ns if until else 0), np.ones(3, np.int64))[: len(io)]
        stop = int(np.flatnonzero(slow >= 3)[0]) + 1 if until and np.any(slow >= 3) else len(io)
        self.done += stop
        done = np.cumsum(took).astype(np.uint64)
        return IoLog.of(io, done - took.astype(np.uint64), done).rows(slice(stop))


@pytest.mark.parametrize("state", ["_is_full", "_pushed_out"])
@pytest.mark.parametrize("first_cleaned", [True, False])
def test_writes_that_other_clients_delay_do_not_fill_a_cache(state: str, first_cleaned: bool) -> None:
    """101182 drawn: three writes in a row that others delayed were taken for a full cache, and none of nine
    bands was cleaned."""
    target = Busy(2_000)

    class Cleaned(Round):
        def _share_cleaned(self, before: object) -> float:
            return float(target.full and first_cleaned)

    round_of = Cleaned(cast(Any, target), "coarse", [Region("od", 0, np.zeros(1, np.int64))], 1)
    filler = Filler(cast(Any, target), "coarse", [])
    filler.decoys()
    full = getattr(round_of, state)(filler, cast(Any, None))
    assert target.full
    assert full is (first_cleaned or state == "_is_full"), "a clean drive cleans nothing but what was written"


def test_pushing_out_takes_a_band_for_each_place() -> None:
    # 8,192 places of half a second each are 68 minutes; a test has eight hours for two rounds and more.
    assert not outlasts_test(known())
    assert outlasts_test(known(2 * FILL))
    assert not outlasts_test(Known([]))


@pytest.mark.parametrize("noisy", [False, True])
def test_single_blocks_of_a_lazy_journal_have_no_copies(noisy: bool) -> None:
    target = Target(20_000_000)
    ground = Ground(cast(Any, target), flash=False, flushed=False, rotation_ns=1e7, noisy=noisy)
    journal.measure(ground, QUANTUM, journal.Seen())
    assert target.writes["lazy-one-marks"] == journal.EACH * band_time.CLUSTERS


@pytest.mark.parametrize("write_ns", [20_000_000, 400_000_000, 30 * BAND_NS])
def test_older_data_is_pushed_out_of_a_cache_whether_its_writes_stall_or_not(write_ns: int) -> None:
    """99881 drawn: full from the first write on, so that no write took longer than those before."""
    target = Target(write_ns)
    filler = Filler(cast(Any, target), "clean", [])
    filler.decoys()
    looks = list[int]()

    def cleaned() -> bool:
        looks.append(target.writes.get("clean-fill", 0))
        return len(looks) == 3

    filler.push(cleaned, 60.0)
    assert len(looks) == 3
    assert all(count * write_ns <= 60e9 or count == PUSH_WRITES for count in looks[1:])


@pytest.mark.parametrize("write_ns", [20_000_000, 2_000 * BAND_NS])
def test_pushing_ends_on_a_drive_that_keeps_what_it_holds(write_ns: int) -> None:
    target = Target(write_ns)
    filler = Filler(cast(Any, target), "clean", [])
    filler.decoys()
    filler.push(lambda: False, 60.0)
    fills = target.names.count("clean-fill")
    assert fills * PUSH_WRITES * write_ns <= LONGEST_FILL_S * 1e9 + PUSH_WRITES * write_ns


class NewestFirst(Target):
    """Whose map is full: each write waits for the band of the one before it, unless the oldest is next."""

    def __init__(self, *, newest_first: bool) -> None:
        """Nothing is at home."""
        super().__init__(2 * BAND_NS)
        self.newest_first, self.home, self.newest = newest_first, set[int](), -1

    def run(self, name: str, io: IoBatch, *, depth: int = 1, until: Stop | None = None, **_: object) -> IoLog:
        """Writes."""
        for offset in io.offset.tolist():
            self.home.add(self.newest if self.newest_first else -1)
            self.home.discard(offset)
            self.newest = offset
        return super().run(name, io, depth=depth, until=until)


class HomeLooks:
    """Looks at such a drive."""

    def __init__(self, target: NewestFirst, places: mapping.Places) -> None:
        """Of these places."""
        self._target, self._places = target, places
        self.now: mapping.Seen | None = None

    def cleaned_now(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which blocks are at home."""
        self.share()
        assert self.now is not None
        return np.asarray(self.now.cleaned, np.bool_)

    def share(self) -> float:
        """Of the blocks that are at home."""
        home = np.array([block in self._target.home for block in self._places.blocks.tolist()])
        self.now = mapping.Seen(np.zeros(len(home)), np.where(home, 0.0, 0.5), 0.01)
        return float(home.mean())

    def cleaned(self) -> bool:
        """All of them."""
        return self.share() == 1.0

    def steady(self) -> bool:
        """Others may follow."""
        return False


class Pushes:
    """Counts how often a cache is filled."""

    count = 0

    def push(self, cleaned: object, each_s: float) -> None:
        """Once more."""
        self.count += 1


@pytest.mark.parametrize("newest_first", [True, False])
def test_bands_of_the_newest_writes_are_cleaned_whatever_older_data_is_left(newest_first: bool) -> None:
    target, pushes = NewestFirst(newest_first=newest_first), Pushes()
    places = mapping.Places(np.arange(1, 13, dtype=np.int64) * (64 << 30), 600 << 20)
    looks = HomeLooks(target, places)
    mapping._pushed(cast(Any, target), cast(Any, pushes), places, cast(Any, looks))
    assert looks.cleaned() is newest_first
    assert (pushes.count == 0) is newest_first
