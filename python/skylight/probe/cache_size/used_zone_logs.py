"""How many bands a zone uses as logs where it held something before, and whether an address is in that zone.

What a zone takes until its first stall shows nothing then. But it cleans the oldest data first, so once the
older data has gone, what is written now is cleaned when all logs behind it are full. A *mark* is a piece in
each of several bands, at the beginning of a log. When that log is the oldest, a write waits for each of these
bands, so the row of waits is longer by as many; and between the mark and that row every log of the zone was
filled once. This is done until two marks in a row say the same. Every other mark is shorter, so one that was
given up before it came home is not taken for the next.

Other zones hold older data as well, so a write there may stall too, again and again. Whether an address is in
the zone shows in what it takes: a few pieces written there leave as much less of the zone's log.

Older logs that hold as many bands as each other stall as evenly as new ones do, but for longer or shorter
rows. So while a mark is waited for, stalls are looked at again: where they have become others, older data was
measured before, and all begins anew with what is seen now.

Logs of one band and of two may take turns, so what is filled from one row of waits to the next is a log, not
what goes in until the same row comes again. And no mark is written before a write finds space.

All this takes gigabytes of addresses, in which a zone may end. So once its logs are counted, writes go back
to its beginning, and round as many pieces as fill all its logs.

Invariants: a row of waits counts only if it is longer by what a mark adds; where cleaning goes in another
order, or a zone ends amid all this, marks do not agree, and nothing is said.

Sources: Skylight (FAST '15), section 3.1; docs/tests/cache-size.md.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from skylight.evidence import I64, IoBatch, Stop
from skylight.infer import stalls
from skylight.infer.stalls import Stalls
from skylight.probe.band_size.cache_parts import (
    DENSITY,
    INTO_BAND,
    MOST_ZONE_WRITES,
    CachePart,
    least_stall_ns,
    logged,
    spread,
)
from skylight.probe.procedure import Steps

TRIES = 6
AGAIN_INTO_BAND = 2 << 20  # clear of what was written there the first time
MARKS, SPARE_PIECES, FEWEST_MARKS = 12, 3, 4
"""Bands of a mark: so many, or as many as a log has pieces but for a few. Chosen: a row of waits is longer by
more than other clients and outliers ever delay in a row."""
MARK_SLACK = 2  # how many more or fewer waits a mark may add: its log holds one band more or less
APART = 2 * MARK_SLACK + 1
"""How many bands every other mark has less: so the row of waits of a mark that was given up, which comes home
all the same, is not taken for that of the next one."""
ROUNDS = 4  # marks, of which two in a row have to agree
SETTLED = 16  # logs after which stalls are looked at again; a row of stalls has five at least
LONG_RUN = 16  # waits in a row that clean older data: what was written since is two or three bands a log
MOST_OLDER = 16 * LONG_RUN
"""Waits in a row for one log of older data, after which it is given up. Chosen: a row of 256 takes some
minutes, and random blocks of another host are thousands of bands a log."""
SPARE_LOGS = 2  # beyond those that were counted, in pieces that are written over and over
WHOLE = 0.25  # of a log: how far what was filled may be off a whole number of them
PIECES_ASKED, TIMES_ASKED = 8, 6
"""Pieces by which an address is asked for, and how often. Chosen: where four in ten stalls are another
client's delay, all of six are in one of 240."""

SPARE_BYTES, BEHIND_END = 64 << 20, 3


class Unsettled(Exception):
    """A zone did not stall as it did before, so what is asked of it says nothing."""


def behind_older(latency_ns: I64, *, least_ns: float = 0.0) -> Stalls | None:
    """The row of stalls behind the last long run of them, with which older data was cleaned."""
    limit_ns = max(stalls.SLOW * float(np.percentile(latency_ns, 5)), least_ns)
    long = [first + count for first, count in _slow_runs(latency_ns, limit_ns) if count >= LONG_RUN]
    begin = long[-1] if long else 0
    found = stalls.periodic(latency_ns[begin:], least_ns=least_ns)
    if found is None or found.period < 2 * found.run:  # within such a run anything is periodic
        return None
    found = stalls.each_refill(latency_ns[begin:], found)
    return replace(found, first=found.first + begin)


def _slow_runs(latency_ns: I64, limit_ns: float) -> list[tuple[int, int]]:
    """The first of each run of slow ones, and how many there are in it."""
    first, count = stalls.runs_of(latency_ns >= limit_ns)
    return list(zip(first.tolist(), count.tolist(), strict=True))


def counted(steps: Steps) -> tuple[CachePart | None, int]:
    """The zone of the first address, with all older data cleaned, and how many bands of it are logs; None if
    marks do not tell."""
    cache_part, last = logged(steps, 0, steps.size, "zone", behind_older), None
    for number in range(0 if cache_part is None else ROUNDS):
        assert cache_part is not None
        logs = _logs(cache_part, number)
        if logs is not None and logs == last:
            cache_part.turn_back((logs + SPARE_LOGS) * cache_part.band_writes)
            return cache_part, logs
        last = logs
    return None, 0


def _opened(cache_part: CachePart) -> bool:
    """Writes until a log was given back, which then holds two pieces; False if that is not seen."""
    limit_ns = cache_part.found.limit_ns
    for _ in range(TRIES):
        if int(cache_part.put(2 * cache_part.period, Stop(limit_ns)).latency_ns[-1]) < limit_ns:
            return False
        run = 1
        while run < MOST_OLDER and int(cache_part.put(1).latency_ns[0]) >= limit_ns:
            run += 1
        if run == MOST_OLDER:
            return False
        if run >= cache_part.found.run:  # a shorter one waited for others
            return True
    return False


def _marks(band: int, number: int) -> int:
    """Bands of the mark of that number, where a log has `band` pieces.

    >>> [_marks(30, number) for number in range(3)], _marks(10, 1)
    ([12, 7, 12], 7)
    """
    marks = min(MARKS, band - SPARE_PIECES)
    return marks - APART * (number % 2) if marks - APART >= FEWEST_MARKS else marks


def _logs(cache_part: CachePart, number: int) -> int | None:
    """How many logs are filled from the mark of that number to the row of waits in which its bands are
    cleaned."""
    steps, band, usual = cache_part.steps, cache_part.band_writes, cache_part.found.run
    marks = _marks(band, number)
    room = cache_part.period * (DENSITY * cache_part.size)
    if marks < FEWEST_MARKS or not _opened(cache_part):
        return None
    begin = int(cache_part.offset(np.array([cache_part.written]))[0])
    band_bytes = band * cache_part.size
    where = begin + np.arange(1, marks + 1, dtype=np.uint64) * np.uint64(band_bytes) + np.uint64(INTO_BAND)
    if int(where[-1]) + band_bytes + room > steps.size:
        return None
    steps.run(f"{cache_part.name}-marks", IoBatch.writes(where, cache_part.size))
    cache_part.written += -(-(marks + 2) * band_bytes // (DENSITY * cache_part.size))
    took: list[I64] = []
    while sum(map(len, took)) < MOST_ZONE_WRITES:
        if int(cache_part.offset(np.array([cache_part.written]))[0]) + room > steps.size:
            return None
        took.append(cache_part.put(cache_part.period).latency_ns)
        latency_ns = np.concatenate(took)
        runs = _slow_runs(latency_ns, cache_part.found.limit_ns)
        ended = [run for run in runs if run[0] + run[1] < len(latency_ns)]
        long = next((run for run in ended if abs(run[1] - usual - marks) <= MARK_SLACK), None)
        if long is None:
            if len(took) % SETTLED == 0 and _stalls_otherwise(cache_part, np.concatenate(took[-SETTLED:])):
                return None
            continue
        before = [count for first, count in ended if first < long[0]]
        # The last write of a run goes to the log that it gave back, the others are merged elsewhere.
        logs = (2 + marks + long[0] - sum(before) + len(before)) / band
        return round(logs) if abs(logs - round(logs)) <= WHOLE else None
    return None


def _stalls_otherwise(cache_part: CachePart, latency_ns: I64) -> bool:
    """Whether the last writes stall in rows so much longer or shorter than those that are known that a mark
    would not be seen by them; if so, they are what is known from now on. What goes in between them is a log
    still: where it is more, the row is that of every other log."""
    least_ns, known = least_stall_ns(cache_part.steps.known), cache_part.found
    found = behind_older(latency_ns, least_ns=least_ns)
    if found is None or max(abs(found.run - known.run), abs(found.period - known.period)) <= MARK_SLACK:
        return False
    if found.period - found.run > known.period - known.run + 1:
        return False
    cache_part.found = replace(found, first=found.first + cache_part.written - len(latency_ns))
    return True


def first_within(cache_part: CachePart, addresses: list[int]) -> int | None:
    """The first of these addresses that is in the zone, or None; one in another zone may stall as well."""
    limit_ns, begin, tries = cache_part.found.limit_ns, 0, 0
    while begin < len(addresses) and tries < TRIES:
        tries += 1
        if not cache_part.refill():
            continue
        where = np.array(addresses[begin:], np.uint64) + np.uint64(INTO_BAND)
        writes = IoBatch.writes(where, cache_part.size)
        log = cache_part.steps.run(f"{cache_part.name}-scan", writes, until=Stop(limit_ns))
        stalled = int(log.latency_ns[-1]) >= limit_ns
        full = int(cache_part.put(1).latency_ns[0]) >= limit_ns
        if not stalled and full:
            return None
        if stalled and _takes_of(cache_part, addresses[begin + len(log) - 1]):
            return addresses[begin + len(log) - 1]
        if stalled and full:
            begin, tries = begin + len(log), 0
    if begin == len(addresses):
        return None
    raise Unsettled


def is_bound(cache_part: CachePart, end: int) -> bool:
    """Whether writes behind the zone's end take nothing of its log: else it is one cache for all."""
    size = cache_part.steps.size
    if size - end < 2 * SPARE_BYTES:
        return False
    behind = spread(size - end - SPARE_BYTES, BEHIND_END, SPARE_BYTES, phase=0.3) + np.uint64(end)
    return not any(_takes_of(cache_part, int(address)) for address in behind)


def _takes_of(cache_part: CachePart, address: int) -> bool:
    """Whether writes to an address take of the zone's log, so that it stalls by as many writes sooner.

    Another client's delay may pass for the stall, which comes too soon then and never too late: the latest of
    some counts, and one that comes as late as ever says that the address is not in the zone."""
    count = min(PIECES_ASKED, cache_part.band_writes // 2)
    where = np.full(count, address + AGAIN_INTO_BAND, np.uint64)
    limit_ns, least, seen = cache_part.found.limit_ns, cache_part.band_writes, 0
    for _ in range(2 * TIMES_ASKED):
        if not _opened(cache_part):
            continue
        cache_part.steps.run(f"{cache_part.name}-takes", IoBatch.writes(where, cache_part.size))
        log = cache_part.put(cache_part.period, Stop(limit_ns))
        least = min(least, cache_part.band_writes - 2 - before_last(log.latency_ns, limit_ns))
        seen += 1
        if least <= count // 4:
            return False
        if seen == TIMES_ASKED:
            break
    if seen == TIMES_ASKED and abs(least - count) <= count // 4:
        return True
    raise Unsettled


def before_last(latency_ns: I64, limit_ns: float) -> int:
    """Writes before the stall that ended them.

    >>> before_last(np.array([10, 10, 90]), 50), before_last(np.array([10, 10]), 50)
    (2, 2)
    """
    return len(latency_ns) - int(len(latency_ns) > 0 and latency_ns[-1] >= limit_ns)
