"""A fill of a journaled cache, and whether cleaning set in with its end.

Writes slow down for other reasons too, so where the rate alone does not show it, the drive is asked what it
has cleaned. One that tells which of its zones have cached writes (a host-aware one: their non-sequential
flag) is asked for their number: as many zones as were written to and have none are clean. Any other shows by
reads whether blocks are at their native place; that needs neighbours that lie there, and of a zone that was
never filled nothing does.

Invariants: the zones of a fill are clean when it begins; a zone that was written to at its start alone is not
counted, since that may have been in order.
Source: Skylight (FAST '15), section 4.6; of the flag, ZBC-2 (INCITS 550), section 4.4.3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from skylight.evidence import I64, U64, Bools, IoBatch, IoLog
from skylight.infer import cached_or_native
from skylight.infer.cached_or_native_extent import Platter, WholeLooks, whole_looks
from skylight.infer.stalls import MISSED_TURNS, SLOW
from skylight.probe.band_size.cache_parts import DEPTH, spread_at
from skylight.probe.durable_writes import FlushedSteps
from skylight.probe.known_state import State
from skylight.probe.procedure import Steps
from skylight.probe.zoned import HOST_AWARE

BLOCK = 4096
STAYED, STAYED_BETWEEN, MOST_GONE = 40, (0.03, 0.5), 0.1
"""Looks at writes of a fill, between which shares of it, and how many may be home: cleaning that began a
tenth of the fill ago has moved a tenth of them, and a few are misread at the end of a track."""
ALL_GONE = 1 - 2 * MOST_GONE
"""The part of them that is home on an emptied drive: of reads a tenth may be late, and a look takes two."""
SHORT_GROUPS = 1
"""By so many groups of waiting writes a fill that is made again is shorter: cleaning set in within one."""
ASKED, SOME_GONE, MOST_OF_ASKED = 8, 2, 6
"""Looks at the first and at the newest writes of a fill, how many of them at home are no misread ones, and
how many are no neighbours of older data that went home. Chosen: where a tenth of all went home, as many of
eight did by chance once in fifty thousand times."""
SCATTERED, SCATTERED_AFTER = 6, 1 / 8
"""Of the looks at writes all over a fill, those at home that are no misread ones, and the part of all writes
that has to have waited before it is looked. Chosen: where each that waited took another one home, an eighth
of all is home, and 6 of 40 are as likely as not, more so the longer it goes on; where one look in thirty is
misread, 6 are once in two hundred times."""
MORE_LOOKS = 2
"""Looks more at what looks home on a drive with its cache in flash. Chosen: where other clients delay a tenth
of the commands, one in a thousand is misread."""
ASIDE = 0.5
"""Where writes begin that belong to no fill, as a part of the target."""
SLOWEST_TURN_NS = 60e9 / 3_600
USUAL_SWITCH = 0.15  # of a revolution: a switch of track where it was not measured
ABOVE = 1.1
"""Times the longest latency so far from which on a write may wait for cleaning. Chosen: what takes as long,
give or take jitter, is the same again."""
MOST_WAITS_A_ZONE = 2.0
"""Of a drive without a reserve. Chosen: each wait ends with a clean zone, but merges of the map are counted
as waits too; the recorded drive with a reserve lets 4.5 writes wait for a zone (docs/zoned.md)."""


@dataclass(frozen=True, slots=True)
class ZoneWaits:
    """Of a drive that tells its clean zones, waits since cleaning had begun, how many zones were clean behind
    them, and of how many that were written to; none where they were not counted."""

    waits: int = 0
    zones: int = 0
    of: int = 0

    @property
    def all_used(self) -> bool:
        """Whether writes were let in by cleaned zones alone: then no place was left. From a reserve a drive
        gives places to writes that have waited for a part of a zone's cleaning."""
        if not self.waits or not self.of:
            return False
        # At least so many were cleaned; the writes that waited lie in some of them again.
        cleaned = self.waits / MOST_WAITS_A_ZONE
        return self.zones >= self.of * -math.expm1(-cleaned / self.of)


@dataclass(frozen=True, slots=True)
class Fill:
    """A fill until cleaning, or until the writes ran out: writes of `size` bytes, `quanta` places each.

    More than 15 fields: what was written, how the end shows, and what bounds the places that blocks took."""

    name: str
    size: int
    quanta: int
    writes: int
    places: int
    ended: bool
    clear: float
    entry_ns: float
    writes_an_entry: float
    beyond: int = 0
    """Writes after cleaning had begun."""
    slow: bool = False
    """Whether it stayed slow until it was given up, though looks did not show what was cleaned."""
    slow_after: int | None = None
    """Writes after which it became slow, and stayed so while looks did not show yet what was cleaned."""
    group: int = 1
    """Writes that a FLUSH ends together: cleaning may have begun behind any of them."""
    most_places: float | None = None
    """Places that blocks took at most, by their times; None where that is not known."""
    took_ns: int = 0
    """Device time of the writes until cleaning; 0 where it was not kept."""
    zone_waits: ZoneWaits = ZoneWaits()
    newest: bool = False
    """Whether the newest writes were cleaned, while it is not known whether older data was left: with that,
    and not with these writes alone, the map was full."""
    scattered: bool = False
    """Whether any of the writes were cleaned, neither the first nor the newest before others, while it is not
    known whether older data was left."""

    @property
    def earliest(self) -> int:
        """The writes after which cleaning may have begun: those that are counted, or fewer."""
        return self.writes if self.slow_after is None else min(self.writes, self.slow_after)

    @property
    def always_slow(self) -> bool:
        """Whether it is not known after how many writes it became slow."""
        return self.slow and self.slow_after is None


@dataclass(frozen=True, slots=True)
class Clean:
    """So many zones are clean of those that were written to out of order."""

    zones: int
    of: int


def out_of_order(
    size_bytes: int, zone_bytes: int, count: int, size: int, phase: float = 0.0, begin: int = 0
) -> U64:
    """So many places all over zones, `size` bytes each, as `spread`; none is at the start of a zone, where a
    write would be in order, or reaches into the next.

    >>> sorted(out_of_order(200 << 20, 100 << 20, 4, 40 << 20).tolist())
    [4096, 41947136, 104861696, 146804736]
    """
    numbers = np.arange(begin, begin + count, dtype=np.uint64)
    return _out_of_order_at(size_bytes, zone_bytes, numbers, size, phase)


def _out_of_order_at(size_bytes: int, zone_bytes: int, numbers: U64, size: int, phase: float) -> U64:
    """Those of the same that have these numbers."""
    zones, each = size_bytes // zone_bytes, (zone_bytes - BLOCK) // size
    zone, place = np.divmod(spread_at(zones * each, numbers, 1, phase), np.uint64(each))
    return np.asarray(zone * np.uint64(zone_bytes) + np.uint64(BLOCK) + place * np.uint64(size), np.uint64)


@dataclass(frozen=True, slots=True)
class Places:
    """Where writes go that a cache is to take, on a target of this size; `zone_bytes` is the size of zones
    whose writes in order would not reach the cache, 0 where it has none; `phase` where the first goes, as a
    part of the target."""

    size_bytes: int
    zone_bytes: int = 0
    phase: float = 0.0

    @property
    def aside(self) -> Places:
        """Those of writes that belong to no fill; the same of a drive that says which zones are clean: it
        is not asked about them meanwhile."""
        return self if self.zone_bytes else replace(self, phase=ASIDE)

    def where(self, count: int, size: int, phase: float = 0.0, begin: int = 0) -> U64:
        """`count` places for writes of a size behind the first `begin`: different ones, all over the target.

        >>> every = Places(10 << 30).where(100, 4096)
        >>> bool(np.all(Places(10 << 30).where(30, 4096, begin=70) == every[70:]))
        True
        """
        return self.some(np.arange(begin, begin + count), size, phase)

    def some(self, numbers: I64, size: int, phase: float = 0.0) -> U64:
        """Those places that have these numbers, without the others.

        >>> numbers, places = np.array([70, 3]), (Places(10 << 30), Places(10 << 30, 256 << 20))
        >>> [bool(np.all(each.some(numbers, 4096) == each.where(71, 4096)[numbers])) for each in places]
        [True, True]
        """
        chosen = numbers.astype(np.uint64)
        if size < self.zone_bytes:
            return _out_of_order_at(self.size_bytes, self.zone_bytes, chosen, size, phase)
        return spread_at(self.size_bytes, chosen, size, (phase + self.phase) % 1.0)

    def writes(self, first: int, count: int, size: int) -> IoBatch:
        """Writes to `count` of these places behind the first `first`."""
        return IoBatch.writes(self.where(count, size, begin=first), size)


@dataclass(slots=True)
class Check:
    """What the drive says of a fill, of the name and of the size of its first writes, that began in this
    state; `zone_bytes` is the size of zones of which it tells whether they are clean, 0 where it does not,
    `written` how many writes of each size were made, `newest_first` whether the newest were seen to go
    home where older data may be left: how much of that there is does not show then; `look_limit_ns` what
    divides looks at blocks in flash, if it was measured, and `home_ns` what looks at writes took, by the name
    of their step, while these were at home.

    Nothing has to be asked where the drive was as new and answers several writes at once: then the rate drops
    when cleaning begins, and for no other reason."""

    steps: Steps
    name: str
    size: int
    state: State
    zone_bytes: int = 0
    written: dict[int, int] = field(default_factory=dict)
    phase: float = 0.0
    newest_first: bool = False
    look_limit_ns: float | None = None
    home_ns: dict[str, I64] = field(default_factory=dict)

    @property
    def places(self) -> Places:
        """Where its writes go."""
        return Places(self.steps.size, self.zone_bytes, self.phase)

    @property
    def new(self) -> bool:
        """Whether writes that stay slow wait for cleaning: there is no older data, and no volatile cache that
        may be full."""
        return self.state is State.NEW and not isinstance(self.steps, FlushedSteps)

    def plain(self, writes_an_entry: float) -> bool:
        """Whether nothing has to be asked."""
        return self.new and writes_an_entry > 1

    def begun(self, size: int, done: int, *, waiting: int = 0) -> bool:
        """Whether cleaning has begun, after so many writes of a size of which so many waited at a time: some
        zones are clean; or of the first writes, or of the newest that none of these waited with, some are
        home. Older data than the first would be cleaned before them; a drive that cleans the newest first
        does so before it takes the writes that wait. Where older data may be left, some of the first go home
        with it, out of one band, so most have to be; the newest go whatever is left, and do not count."""
        self.written[size] = done
        if (clean := self.clean(f"{self.name}-begun")) is not None:
            return clean.zones >= SOME_GONE
        first = self._first()
        newest = self.places.where(ASKED, size, begin=max(done - waiting - ASKED, 0))
        emptied = self.state is not State.REWRITTEN
        least = SOME_GONE if emptied else MOST_OF_ASKED
        asked = ((first, self.size, "begun"), (newest, size, "newest"))
        first_gone, newest_gone = (
            int(np.count_nonzero(self._home(name, at, each))) >= least for at, each, name in asked
        )
        self.newest_first = newest_gone and not first_gone and not emptied
        return first_gone or (newest_gone and emptied)

    def scattered(self, size: int, done: int, waited: int) -> bool:
        """Whether writes all over those that were made are home, once enough of them waited, and older data
        may be left: then bands are cleaned in an order of their own, and the first to go are never seen."""
        if self.state is not State.REWRITTEN or self.zone_bytes or waited < SCATTERED_AFTER * done:
            return False
        where = self.places.some(np.linspace(1, done - 1, STAYED, dtype=np.int64), size)
        looked = self._home("scattered", where, size)
        return int(np.count_nonzero(looked)) >= SCATTERED

    def most_stayed(self, fills: list[Fill]) -> bool:
        """Whether cleaning had only just begun: of the earlier writes hardly more are home than were written
        since. Where one write waits at a time, and what is cleaned gives many places back, it begins without
        a drop of the rate."""
        if self.plain(fills[-1].writes_an_entry):
            return True
        most = MOST_GONE + fills[-1].beyond / max(fills[-1].writes, 1)
        if (clean := self.clean(f"{self.name}-stayed")) is not None:
            return clean.zones <= most * clean.of
        count = sum(fill.writes for fill in fills if fill.size == self.size)
        return self._gone(count) <= most * STAYED

    def again(self, fills: list[Fill]) -> bool:
        """Whether hardly any write is home when the same fill ends right before cleaning set in. Of few bands
        one holds many of the writes, so those that were cleaned since may have taken most of them home.

        The control: before that nearly all were home. Else older data was left, and what is written again
        takes its own place in the cache."""
        if self.steps.reset(f"{self.name}-again-erase") is State.UNKNOWN:
            return False
        counts = {
            size: sum(each.writes for each in fills if each.size == size) for size in self._sizes(fills)
        }
        if not self.zone_bytes and self._gone(counts[self.size], "emptied") < ALL_GONE * STAYED:
            return False
        last = fills[-1].size
        counts[last] = max(counts[last] - SHORT_GROUPS * DEPTH, 0)
        for size, count in counts.items():
            self.written[size] = count
            self.steps.run(f"{self.name}-again", self.places.writes(0, count, size), depth=DEPTH)
        if (clean := self.clean(f"{self.name}-stayed")) is not None:
            return clean.zones <= MOST_GONE * clean.of
        return self._gone(counts[self.size]) <= MOST_GONE * STAYED

    @staticmethod
    def _sizes(fills: list[Fill]) -> list[int]:
        """The sizes of writes, in the order in which they came."""
        return list(dict.fromkeys(fill.size for fill in fills))

    def _gone(self, count: int, looked: str = "stayed") -> int:
        """How many of some of the earlier of this number of writes are home, in a step of that name."""
        early, late = (round(share * count) for share in STAYED_BETWEEN)
        where = self.places.some(np.linspace(early, late, STAYED, dtype=np.int64), self.size)
        return int(np.count_nonzero(self._home(looked, where[where > 0], self.size)))

    def _first(self) -> U64:
        """The first writes; address 0 has no block before it."""
        return self.places.where(ASKED + 1, self.size)[1:]

    def look_before(self) -> None:
        """Looks at where the first writes will go, while nothing was written there, if looks need that."""
        first = self._first()
        whole = None if self.zone_bytes else _whole(self.steps, first, self.size)
        if whole is not None and whole.needs_control:
            log = self.steps.run(f"{self.name}-before", whole.io)
            self.home_ns["begun"] = cached_or_native.look_ns(log)

    def _home(self, looked: str, starts: U64, size: int) -> Bools:
        """Which writes are at their native place, by looks in a step of that name; of writes that are all at
        home, which are `emptied`, the looks are a control for those that follow."""
        name, control = f"{self.name}-{looked}", self.home_ns.get(looked)
        home, took_ns = _looked(self.steps, name, starts, size, self.look_limit_ns, control)
        if looked == "emptied" and took_ns is not None:
            self.home_ns["stayed"] = took_ns
        return home

    def clean(self, name: str) -> Clean | None:
        """How many of the zones that were written to are clean; None where the drive does not tell."""
        flagged = self.steps.non_sequential(name) if self.zone_bytes else None
        if flagged is None:
            return None
        where = [self.places.where(count, size) for size, count in self.written.items()]
        at = np.concatenate(where) if where else np.empty(0, np.uint64)
        zone, offset = np.divmod(at, np.uint64(self.zone_bytes))
        touched = len(np.unique(zone[offset > 0]))
        return Clean(max(touched - flagged, 0), touched)


def waits(log: IoLog, writes: int, longest_ns: int) -> int:
    """How often no write of a log was done for so long, after so many of them."""
    done_ns = np.sort(log.complete_ns[max(writes - 1, 0) :].astype(np.int64))
    return int(np.count_nonzero(np.diff(done_ns) > longest_ns))


def turn_ns(steps: Steps) -> float:
    """A revolution, or the slowest that drives have where it is not known."""
    return steps.known.number("rotation_ns") or SLOWEST_TURN_NS


def limit_ns(steps: Steps, usual_ns: float) -> int:
    """From what latency on a write waits for cleaning: more than a missed revolution, and than twice the
    usual."""
    return int(max(SLOW * usual_ns, usual_ns + MISSED_TURNS * turn_ns(steps)))


def told_bytes(steps: Steps, name: str) -> int:
    """The size of the zones of which a drive tells whether they have cached writes; 0 where it has none."""
    report = steps.zones(name)
    return report.zone_bytes if report is not None and report.model == HOST_AWARE else 0


def flash_limit_ns(steps: Steps, name: str, cached: U64) -> float | None:
    """What divides looks at blocks in flash from those at home, by looks at some that were just written, on a
    drive that does not clean: over a slow link one from flash takes more than half a revolution of a fast
    disk. None for a cache that is not flash, or where the rotation is not known."""
    rotation_ns = steps.known.number("rotation_ns")
    if rotation_ns is None or steps.known.word("cache_medium") != "flash" or not len(cached):
        return None
    looks = cached_or_native.looks(cached, max(BLOCK, steps.block_bytes), flash=True, backwards=True)
    looked_ns = cached_or_native.look_ns(steps.run(name, looks))
    return cached_or_native.limit_of(rotation_ns, flash=True, cached_ns=looked_ns)


def _looked(
    steps: Steps, name: str, starts: U64, size: int, limit_ns: float | None, home_ns: I64 | None
) -> tuple[Bools, I64 | None]:
    """Which writes of `size` bytes are at their native place, all where the rotation is not known; and what
    looks took that need a control, else None. `limit_ns` is what divides looks at blocks in flash, if it was
    measured, `home_ns` such a control."""
    rotation_ns, flash = steps.known.number("rotation_ns"), steps.known.word("cache_medium") == "flash"
    if rotation_ns is None:
        return np.ones(len(starts), np.bool_), None
    whole = _whole(steps, starts, size)
    if whole is not None:
        log = steps.run(name, whole.io)
        return whole.home(log, home_ns), cached_or_native.look_ns(log) if whole.needs_control else None
    block, home = max(BLOCK, steps.block_bytes), np.ones(len(starts), np.bool_)
    for number in range(1 + (MORE_LOOKS if flash else 0)):
        # From flash a look is late only behind other clients, at home each is: so those that were are looked
        # at again, in another block of the same write.
        at = starts[home] + np.uint64(min(2 * number * block, size - block))
        if not len(at):
            break
        looks = cached_or_native.looks(at, block, flash=flash, backwards=True)
        looked_ns = cached_or_native.look_ns(steps.run(name, looks))
        still = cached_or_native.at_home(looked_ns, rotation_ns, flash=flash, limit_ns=limit_ns)
        home[np.flatnonzero(home)] = still
    return home, None


def _whole(steps: Steps, starts: U64, size: int) -> WholeLooks | None:
    """Looks at whole writes, where looks at their first blocks would not do."""
    rotation_ns, block = steps.known.number("rotation_ns"), max(BLOCK, steps.block_bytes)
    if rotation_ns is None or size <= block or steps.known.word("cache_medium") == "flash":
        return None
    platter = _platter(steps, rotation_ns)
    return None if platter is None else whole_looks(starts, size, block, platter)


def _platter(steps: Steps, rotation_ns: float) -> Platter | None:
    """The tracks of the target, as far as they are known."""
    known = steps.known
    outer, middle, inner = (known.part("track_bytes", place) for place in ("od", "md", "id"))
    if outer is None or middle is None or inner is None:
        return None
    switch = (known.part("seek_ns", "track") or USUAL_SWITCH * rotation_ns) / rotation_ns
    return Platter(rotation_ns, (outer, middle, inner), switch, steps.size)
