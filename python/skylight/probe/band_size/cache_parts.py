"""Cache parts: the parts of a block-mapped persistent cache, each filled and emptied on its own.

A set-associative layer has cache bands, one for every so many data bands; a fully-associative one has zones,
whose logs are given back one by one. In both, writes to one cache part stall whenever so many bytes more were
written to it, to the write: the period of the stalls is the cache band, or the log. And a cache part that is
full shows whether an address belongs to it: a write there stalls if it does, and does not if it does not.

What kind a cache is shows in three ways. Writing the same megabyte over and over fills a cache band, for it
is a log that no one looks into before it is full; logs and journals that hold nothing live are given back. A
write elsewhere does not stall when one to the full cache band would, while a merge of a map comes with the
next write, wherever that goes. A zone with older data shows the same, but a write behind that place does not
empty it (`stays_full`). And a journal has a quantum, or answers many waiting writes at once, with one
entry; where hardly any writes wait together, that it does not is no sign of zones. There it counts where the
cache lies.

A zone that held something before stalls for as long as there is older data to clean; what goes in between one
run of stalls and the next is a log all the same (`stalls.refills`).

Invariant: a slow write is taken for a stall only if the next write to the cache part shows that it has space
again. Sources: Skylight (FAST '15), sections 3.1 (the emulated drives), 4.3.1 (journal entries), 4.7 (Test 9
on lazy drives: "fill the persistent cache and force a few bands to be cleaned").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from skylight.evidence import I64, U64, IoBatch, IoLog, Stop
from skylight.findings import Known
from skylight.infer import stalls
from skylight.infer.stalls import Stalls
from skylight.probe.journal.write_through import WriteThrough
from skylight.probe.known_state import State
from skylight.probe.procedure import Steps, bisected

ZONES_WAY = "zones"
"""The way of `cleaning_band_ns` of a drive that has free bands in each zone."""
Kind = Literal["cache-bands", "zones", "journal"]
PLACES: tuple[str, ...] = ("od", "md", "id")

OVER_BYTES, OVER_WRITES, OVER_SLOTS = 256 << 10, 4096, 4
ZONE_BYTES, FIRST_PIECE, PIECE_GROWTH, MOST_ZONE_WRITES = 512 << 10, 64, 0.25, 160_000
ROUNDS, MOST_ROUNDS, BLOCK_OF_PLACES = 3, 12, 64 << 20
STALLS_SKIPPED, MOST_RUN = 4, 64
ASKED_AGAIN = 3
"""How often an address is asked for where outliers left it open. Chosen: where a tenth of all writes are
outliers, all of these are in one of a thousand."""
SCAN_PIECE, SCAN_GROWTH = 256, 4
"""Addresses that are asked in one step, or as many times those that the last step got to. Chosen: steps that
end at a stall after a few writes, one after the other, must not each have all addresses laid out anew."""
ASKED_TOGETHER, FEW_NONE, NONE_OF = 372, 16, 4
"""Addresses that are asked together where most writes stall: from `FEW_NONE` on that stalled and belong
elsewhere, if they are one in `NONE_OF` or more. Chosen: other clients delay one in ten writes, and the cache
parts that the host before left full are most of all or few; a step for each of those takes longer than the
bound."""
LAST = 16
"""Writes of which one stalls if they are too many for a cache part, for others of those that were asked
together are in it: where these were more, they would have been found one by one."""
ONE_BY_ONE = 8
"""Addresses of which one belongs to a cache part that are asked one by one. Chosen: each takes ten steps."""
ASKS = 2
"""Writes of which none stalls, at an address that belongs elsewhere, or to a part that has just been emptied:
one that was taken for full may have room for one. Chosen: stalls come at an even distance, give or take a
write."""
OWN_TO_ASKED, PERIODS = 2, 12
"""Writes to a cache part for each one to the address that is asked for, where they take turns, and periods of
its stalls in which they do. Chosen: twelve stalls at one distance are no delays. With as many writes to
either, two cache parts that stall half a period apart would look like one."""
BEHIND, FEWEST_FULL = (1.5, 2.5, 3.5, 4.5, 5.5), 2
"""Where a zone with older data is asked, in what fills its log, and how often it has to stay full. Chosen:
the second write of two waits as long as a stall by accident once in a hundred at most, as outliers do."""
DENSITY = 2  # of so many pieces one is written
DEPTH: int = 31
TOGETHER = 12 * DEPTH
AT_ONCE_NS, MANY_AT_ONCE = 5_000, 0.6
SERVED_APART = 0.5
"""Of the time of a lone write: if a write that waits among others takes less of the drive, they waited in the
drive, and not before a link that hands over one at a time."""
BLOCK = 4096
OLDER_BEGINS = (0.0, 1 / 2, 1 - 1 / 24)
"""Where bands are looked for among older data, as shares of the drive."""
INTO_BAND = 64 << 10  # a write to a band's first block may begin a stream, which takes a free band of its own


def spread(size_bytes: int, count: int, unit: int, phase: float = 0.0, begin: int = 0) -> U64:
    """`count` different units of the target behind the first `begin`, evenly spread and in an order that
    follows nothing; bytes.

    Multiples of the golden section are as even as numbers can be, at every count."""
    return spread_at(size_bytes, np.arange(begin, begin + count, dtype=np.uint64), unit, phase)


def spread_at(size_bytes: int, numbers: U64, unit: int, phase: float = 0.0) -> U64:
    """Those of the units of `spread` that have these numbers, without the others.

    >>> spread_at(1 << 30, np.array([7, 2], np.uint64), 4096) == spread(1 << 30, 8, 4096)[[7, 2]]
    array([ True,  True])
    """
    units = size_bytes // unit
    step = _coprime(round(units * 0.6180339887498949), units)
    index = np.uint64(int(phase * units)) + numbers * np.uint64(step)
    # Numpy divides by one number faster than it takes a rest.
    index -= index // np.uint64(units) * np.uint64(units)
    return np.asarray(index * np.uint64(unit), np.uint64)


def _coprime(step: int, units: int) -> int:
    while np.gcd(step, units) != 1:
        step += 1
    return step


@dataclass(slots=True)
class CachePart:
    """A cache part whose stalls are known: `left` writes go in before the next one stalls."""

    steps: Steps
    name: str
    size: int
    offset: Callable[[I64], I64]
    found: Stalls
    written: int
    left: int

    @property
    def period(self) -> int:
        """Writes from stall to stall."""
        return self.found.period

    @property
    def band_writes(self) -> int:
        """Writes that what was cleaned takes: of stalls in a row all but the last are merged
        elsewhere."""
        return self.found.period - self.found.run + 1

    def refill(self) -> bool:
        """Fills it from any state, so that the next write stalls: writes until it stalls, and until it does
        not any more, when two are in. False if it does not stall."""
        limit = self.found.limit_ns
        if int(self.put(STALLS_SKIPPED * self.period, Stop(limit)).latency_ns[-1]) < limit:
            return False
        for _ in range(MOST_RUN):
            if int(self.put(1).latency_ns[0]) < limit:
                self.put(self.band_writes - 2)
                return True
        return False

    def put(self, count: int, until: Stop | None = None) -> IoLog:
        """Writes so much to the cache part, or until a stop."""
        index = np.arange(self.written, self.written + count, dtype=np.int64)
        log = self.steps.run(f"{self.name}-fill", IoBatch.writes(self.offset(index), self.size), until=until)
        self.written += len(log)
        return log

    def turn_back(self, pieces: int) -> None:
        """From the next write on it goes round its first pieces, which must be enough that each was cleaned
        before it is written again: going on, its writes would leave the cache part."""
        offset, begin = self.offset, self.written
        self.offset = lambda index: offset((index - begin) % pieces)

    def fill(self) -> None:
        """Fills it, so that the next write stalls."""
        if self.left:
            self.put(self.left)
        self.left = 0

    def holds(self, address: int) -> bool:
        """Whether an address belongs to it."""
        shares = self._shares(address)
        return self.surely_holds(address) is True if shares is None else shares

    def _shares(self, address: int) -> bool | None:
        """The same where other clients delay writes for as long as it stalls, so that no single one shows it:
        with writes to both in turn it stalls after as many as ever if all of them go into it, and after as
        many of its own if these alone do. None where neither shows, or where stalls are clear of delays."""
        period = self.found.period
        if self.found.least_ns or self.found.run > 1:
            return None
        turns = PERIODS * period // (OWN_TO_ASKED + 1)
        index = np.arange(self.written, self.written + OWN_TO_ASKED * turns, dtype=np.int64)
        where = np.full((turns, OWN_TO_ASKED + 1), address, np.uint64)
        where[:, 1:] = self.offset(index).reshape(turns, OWN_TO_ASKED)
        log = self.steps.run(f"{self.name}-turns", IoBatch.writes(where.ravel(), self.size))
        self.written += len(index)
        own_ns = log.latency_ns.reshape(where.shape)[:, 1:].ravel()
        for shares, latency_ns in ((True, log.latency_ns), (False, own_ns)):
            row = stalls.periodic(latency_ns)
            if row is not None and abs(row.period - period) <= 1:
                self.left = period - ((len(latency_ns) - row.first) % period or period)
                return shares
        return None

    def surely_holds(self, address: int) -> bool | None:
        """The same. A write there that stalls has to empty it, twice: the first may be an outlier, or have
        met another part that is full of older data. Where none stalls, its own next one has to: else it was
        not full, and all is done again; None where that was never seen."""
        emptied = 0
        for _ in range(2 * ASKED_AGAIN):
            self.fill()
            if self._stalls_at(address):
                emptied += self._emptied()
                if emptied == 2:
                    return True
            elif self._stalls():
                return False
            elif self.refill():
                self.left = 0
            else:
                return None
        return None

    def asked_ns(self, address: int) -> int:
        """What a write there takes, ns."""
        log = self.steps.run(f"{self.name}-ask", IoBatch.writes([address], self.size))
        return int(log.latency_ns[0])

    def _stalls_at(self, address: int) -> bool:
        """Whether a write there stalls, the second one at least."""
        return any(self.asked_ns(address) >= self.found.limit_ns for _ in range(ASKS))

    def first_held(self, addresses: U64) -> int | None:
        """The index of the first of these that belongs to it, each in a cache part of its own or in this."""
        index, done = self._in_order(addresses, 0, gives_up=True)
        while index is None and done < len(addresses):
            end = min(done + ASKED_TOGETHER, len(addresses))
            index, is_clear = self._together(addresses, done, end)
            if not is_clear:
                index, _ = self._in_order(addresses[:end], done)
            done = end
        return index

    def _in_order(self, addresses: U64, done: int, *, gives_up: bool = False) -> tuple[int | None, int]:
        """The same from an index on, or None; and the first index that was not asked. Each that stalls ends a
        step. It gives up where most do."""
        piece, none = SCAN_PIECE, 0
        while done < len(addresses):
            if gives_up and none >= FEW_NONE and done <= NONE_OF * none:
                break
            self.fill()
            asked = IoBatch.writes(addresses[done : done + piece], self.size)
            log = self.steps.run(f"{self.name}-scan", asked, until=Stop(self.found.limit_ns))
            done += len(log)
            piece = max(SCAN_PIECE, SCAN_GROWTH * len(log))
            if not len(log) or int(log.latency_ns[-1]) < self.found.limit_ns:
                continue
            self._emptied()
            address = int(addresses[done - 1])
            if self.surely_holds(address) and self._shares(address) is not False:
                return done - 1, done
            none += 1
        return None, done

    def _together(self, addresses: U64, first: int, end: int) -> tuple[int | None, bool]:
        """The same where most writes stall, because most cache parts are full of what another host wrote: a
        write to each of some addresses, none of which ends them; and whether that is clear. If this part is
        still full behind them, none of them belongs to it. If it has room, one of them does, and only those
        that stalled are asked again: the other parts have room now."""
        asked = IoBatch.writes(addresses[first:end], self.size)
        for _ in range(ASKED_AGAIN):
            self.fill()
            log = self.steps.run(f"{self.name}-together", asked)
            if self._was_full():
                return None, True
            stalled = first + np.flatnonzero(log.latency_ns >= self.found.limit_ns)
            index = self._among(addresses, stalled)
            if index is not None:
                return index, True
            self._refilled()
        return None, False

    def _was_full(self) -> bool:
        """Whether its next write stalls, and none of the last that then fill it: beside a delay there was
        room, and these are too many. One that has room for one write is as good as full."""
        if not self._stalls():
            return False
        filled = self.put(self.left)
        self.left = 0
        return not np.any(filled.latency_ns[-LAST:] >= self.found.limit_ns)

    def _among(self, addresses: U64, stalled: I64) -> int | None:
        """The first of these indices whose address belongs to it; None if none is seen to. Those up to one
        that stalls do not. Parts that hold blocks of many bands stall more than once: where there are
        many they are asked together until they are few or no fewer."""
        unclear, before = 0, len(stalled) + 1
        while ONE_BY_ONE < len(stalled) < before and self._refilled():
            log = self.steps.run(f"{self.name}-many", IoBatch.writes(addresses[stalled], self.size))
            before = len(stalled)
            stalled = stalled[: len(log)][log.latency_ns >= self.found.limit_ns]
        while len(stalled) and unclear < ASKED_AGAIN and self._refilled():
            asked = IoBatch.writes(addresses[stalled], self.size)
            log = self.steps.run(f"{self.name}-among", asked, until=Stop(self.found.limit_ns))
            if not len(log) or int(log.latency_ns[-1]) < self.found.limit_ns:
                unclear += 1
                continue
            index = int(stalled[len(log) - 1])
            self._emptied()
            if self.surely_holds(int(addresses[index])) and self._shares(int(addresses[index])) is not False:
                return index
            stalled = stalled[len(log) :]
        return None

    def _refilled(self) -> bool:
        """As `refill`, seen twice: behind a write that stalled as many go in as ever, and the next stalls."""
        limit_ns = self.found.limit_ns
        for _ in range(2 * ASKED_AGAIN):
            if int(self.put(STALLS_SKIPPED * self.period, Stop(limit_ns)).latency_ns[-1]) < limit_ns:
                return False
            self.put(self.period - 1)
            if int(self.put(1).latency_ns[0]) >= limit_ns:
                self.left = self.period - 1
                self.fill()
                return True
        return False

    def _emptied(self) -> bool:
        """After a slow write: whether that was its stall, and not an outlier, a merge, another cache
        part's."""
        stalled = self._stalls()
        self.left = self.period - (1 if stalled else 1 + ASKS)
        return not stalled

    def _stalls(self) -> bool:
        """Whether its own next writes stall: it was full, or all but one write."""
        stalled = any(int(self.put(1).latency_ns[0]) >= self.found.limit_ns for _ in range(ASKS))
        self.left = self.period - 1
        return stalled


def overwritten(steps: Steps) -> CachePart | None:
    """The cache part of the first address, found by writing the first megabyte over and over."""

    def offset(index: I64) -> I64:
        return index % OVER_SLOTS * OVER_BYTES

    index = np.arange(OVER_WRITES, dtype=np.int64)
    log = steps.run("over", IoBatch.writes(offset(index), OVER_BYTES))
    found = stalls.periodic(log.latency_ns, fewest=3)
    if found is None:
        return None
    found = found.clear_of_delays(log.latency_ns)
    since = (OVER_WRITES - found.first) % found.period or found.period
    return CachePart(steps, "over", OVER_BYTES, offset, found, OVER_WRITES, found.period - since)


class Told(Protocol):
    """Which latencies are stalls, if any are: none that take less than `least_ns`."""

    def __call__(self, latency_ns: I64, *, least_ns: float = 0.0) -> Stalls | None:
        """The stalls, or None."""


def least_stall_ns(known: Known) -> float:
    """What a write takes at least that waits for a band, where the time for one with one block is known: the
    quickest band takes more than so much of the mean one."""
    return stalls.ALIKE * (known.part("cleaning_band_ns", "one_block") or 0.0)


def logged(
    steps: Steps, base: int, end: int, name: str, told: Told = stalls.periodic, least_ns: float = 0.0
) -> CachePart | None:
    """The cache part of an address, found by writing every other piece from there on until writes stall as
    `told` asks, none of them for less than `least_ns` or than a band takes to clean: other clients delay many
    writes, some of which line up.

    Nothing is written twice, since logs without live data are given back: what is asked of it beyond the last
    piece goes to those between."""
    least_ns = max(least_ns, least_stall_ns(steps.known))
    pieces = (end - base) // (DENSITY * ZONE_BYTES)

    def offset(index: I64) -> I64:
        return base + index % pieces * (DENSITY * ZONE_BYTES) + index // pieces % DENSITY * ZONE_BYTES

    logs = []
    written = 0
    while written < MOST_ZONE_WRITES:
        piece = max(FIRST_PIECE, int(PIECE_GROWTH * written))
        index = np.arange(written, written + piece, dtype=np.int64)
        index = index[index < pieces]
        if len(index) == 0:
            return None
        logs.append(steps.run(name, IoBatch.writes(offset(index), ZONE_BYTES)).latency_ns)
        written += len(index)
        found = told(np.concatenate(logs), least_ns=least_ns)
        if found is not None:
            since = (written - found.first) % found.period or found.period
            return CachePart(steps, name, ZONE_BYTES, offset, found, written, found.period - since)
    return None


def is_place_bound(cache_part: CachePart, size: int) -> bool:
    """Whether a full cache part stalls for a write to it and not for writes elsewhere; a merge of a map
    would.

    Several times, because one slow write may be an outlier, and an address elsewhere may be of the cache
    part."""
    bound = 0
    for address in spread(size, MOST_ROUNDS, BLOCK_OF_PLACES, phase=0.1):
        held = cache_part.surely_holds(int(address))
        if held is None:
            return False
        bound += not held
        if bound == ROUNDS:
            return True
    return False


def stays_full(cache_part: CachePart) -> bool:
    """Whether writes to other bands stall on a full cache part and leave it as full as it was: a zone that
    holds older data, of which one place that is written over and over has a log to itself, and stalls as
    evenly as a cache band does. A write behind that place waits for a band of older data and for its own,
    and so does the next; a cache band is emptied by the first."""
    stayed, reach = 0, cache_part.period * cache_part.size
    for number in BEHIND:
        address = int(number * reach) // BLOCK * BLOCK
        if address + cache_part.size > cache_part.steps.size or not cache_part.refill():
            continue
        stayed += all(cache_part.asked_ns(address) >= cache_part.found.limit_ns for _ in range(2))
    cache_part.left = 0 if cache_part.refill() else cache_part.period
    return stayed >= FEWEST_FULL


def answered_at_once(log: IoLog) -> float:
    """The share of completions that came with another; at a coarse clock these are the ones that neither the
    tick before nor the tick behind has any of, as a log that goes on would."""
    complete = np.sort(log.complete_ns.astype(np.int64))
    if len(complete) < 2:
        return 0.0
    apart = np.diff(complete)
    tick = int(np.gcd.reduce(complete))
    if tick <= AT_ONCE_NS:
        return float(np.mean(apart <= AT_ONCE_NS))
    return float(np.mean(apart == 0)) if np.median(apart[apart > 0]) > 2 * tick else 0.0


def kind_of(steps: Steps, state: State) -> tuple[Kind | None, CachePart | None]:
    """What kind of cache it is, and for cache bands the one of the first address; None if that is not seen.
    Best on a target that is as new: what it holds otherwise may be `stays_full`. Where the test of cleaning
    saw which data bands share a cache band, that need not be asked: with other cache bands full of blocks of
    hundreds of data bands, each write there waits for minutes and leaves them full."""
    if steps.known.number("journal_quantum_bytes") is not None:
        return "journal", None
    cache_part = overwritten(steps)
    if cache_part is not None and steps.known.part("cache_bands", "count") is not None:
        return "cache-bands", cache_part
    bound = cache_part is not None and is_place_bound(cache_part, steps.size)
    if cache_part is not None and bound and (state is State.NEW or not stays_full(cache_part)):
        return ("zones", None) if _are_zones_seen(steps.known) else ("cache-bands", cache_part)
    through = isinstance(steps, WriteThrough)
    lone = steps.run("alone", IoBatch.writes(spread(steps.size, DEPTH, BLOCK, phase=0.4), BLOCK))
    log = steps.run("together", IoBatch.writes(spread(steps.size, TOGETHER, BLOCK), BLOCK), depth=DEPTH)
    each_ns = log.span_ns / max(len(log), 1)
    kind: Kind | None = "zones"
    if not through and answered_at_once(log) >= MANY_AT_ONCE:
        kind = "journal"
    elif through or each_ns > SERVED_APART * float(np.median(lone.latency_ns)):
        # Nothing waited together in the drive: only a test that looked for a quantum and found none tells.
        sure = not isinstance(steps, WriteThrough) or steps.empties
        kind = "zones" if sure and steps.known.get("journal_quantum_bytes") is None else None
    return _by_place(steps.known, kind), None


def _are_zones_seen(known: Known) -> bool:
    """Whether the test of cleaning saw logs of zones given back, with what they held at home."""
    band = known.get("cleaning_band_ns")
    return band is not None and band.known and band.way == ZONES_WAY


def may_be_zones(known: Known) -> bool:
    """Whether a cache that was taken for a journal may be zones, where no quantum shows: it is on disk, at
    one place or at many. What a FLUSH ends together is answered together by both."""
    return known.word("cache_medium") == "disk" and known.word("cache_location") is None


def _by_place(known: Known, kind: Kind | None) -> Kind | None:
    """The kind of a cache without cache bands, where earlier tests found a journal, or where it is: free
    bands of zones lie all over the platters. Writes that wait together tell the two apart, but not where one
    command waits at a time, nor through a volatile cache."""
    where = known.word("cache_location")
    if where in PLACES or known.word("cache_medium") == "flash":
        return "journal"
    return "zones" if where == "many" else kind


@dataclass(frozen=True, slots=True)
class PartBand:
    """A band as the cache parts show it: bytes from stall to stall, how many stalls, and whether both its
    edges in the address space were seen as well (None where cache parts have no such edges). Among `older`
    data stalls come at no even distance, and what was given back between them may be several bands."""

    place: str
    size: int
    stalls: int
    edges: bool | None
    older: bool = False


def cache_band_bands(steps: Steps, cache_part: CachePart) -> list[PartBand]:
    """Data bands of a drive with cache bands, at the first, the middle and the last address.

    The edge behind the first one is looked for with addresses of that cache part and of none; at the others,
    addresses on both sides of both edges are asked for."""
    band = first_edge(steps, cache_part)
    if band is None:
        return []
    found = [PartBand("od", band, cache_part.found.count, True)]
    for place, number in (("md", steps.size // 2 // band), ("id", steps.size // band - 2)):
        state = steps.reset(f"{place}-erase", slow=False)
        base = number * band
        there = CachePart(steps, place, cache_part.size, _cycle(base), cache_part.found, 0, cache_part.period)
        if state < State.NEW:  # what it holds is not known
            if not there.refill():
                return found
            there.left = 0
        edges = not there.holds(base - cache_part.size) and not there.holds(base + band)
        edges = edges and there.holds(base) and there.holds(base + band - cache_part.size)
        found.append(PartBand(place, band, 2, edges))
    return found


def _cycle(base: int) -> Callable[[I64], I64]:
    return lambda index: base + index % OVER_SLOTS * OVER_BYTES


def first_edge(steps: Steps, cache_part: CachePart) -> int | None:
    """Where the first data band ends: the first address that is not of its cache part."""
    unit = cache_part.size
    guess = cache_part.period * unit
    low, high = unit, guess  # an address that is of the cache part, one that is not
    if cache_part.holds(guess - unit):
        low = guess - unit
        while cache_part.holds(high):
            low, high = high, 2 * high
            if high > min(16 * guess, steps.size // 2):
                return None
    elif not cache_part.holds(low):
        return None
    return bisected(low, high, cache_part.holds, unit)[1]


def zone_bands(steps: Steps) -> list[PartBand]:
    """Logs of a drive with zones, at the first, the middle and the last address."""
    slow = steps.known.word("cleaning_type") == "aggressive"
    if steps.reset("od-erase", slow=slow) is State.UNKNOWN:
        return _older_zone_bands(steps)
    first = logged(steps, 0, steps.size, "od")
    if first is None:
        return []
    band, fill = first.band_writes * first.size, first.found.first * first.size
    found = [PartBand("od", band, first.found.count, None)]
    needed = 2 * DENSITY * (fill + 8 * band)  # a zone may end amid it, and one part holds what fills a zone
    for place, base in (("md", steps.size // 2), ("id", max(steps.size - needed, 0))):
        at = base // (1 << 20) * (1 << 20)
        cache_part = logged(steps, at, steps.size, place, least_ns=stalls.ALIKE * first.found.stall_ns)
        if cache_part is None:
            return found
        found.append(PartBand(place, cache_part.band_writes * cache_part.size, cache_part.found.count, None))
    return found


def _older_zone_bands(steps: Steps) -> list[PartBand]:
    """The same of zones that may hold what another host wrote, which they stall for as long as it happens to
    be."""
    found = []
    for place, begin in zip(PLACES, OLDER_BEGINS, strict=True):
        base = int(begin * steps.size) // (1 << 20) * (1 << 20)
        cache_part = logged(steps, base, steps.size, place, stalls.refills)
        if cache_part is None:
            return []
        size = cache_part.period * cache_part.size
        found.append(PartBand(place, size, cache_part.found.count, None, older=True))
    return found
