"""Fills of a journaled cache: from a clean drive until it has to clean, first one write at a time and then
many that wait together, and the pace of such writes on a drive that does not clean.

Invariants: every fill begins on a clean drive, and its addresses are all different; how many writes it may
have follows from their pace, so that one fill never takes the whole bound of the test.
Source: Skylight (FAST '15), section 4.6, Tests 6 to 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from skylight.evidence import U64, IoLog, Stop
from skylight.infer.stalls import (
    SLOW_ENTRY,
    USUAL_PERCENT,
    ChangePoint,
    before_stalls,
    beyond,
    change_of_pace,
    change_point,
    entries,
    usual,
)
from skylight.probe.band_size.cache_parts import DEPTH
from skylight.probe.cache_size.fill_check import (
    ABOVE,
    ASKED,
    BLOCK,
    Check,
    Fill,
    Places,
    ZoneWaits,
    flash_limit_ns,
    limit_ns,
    turn_ns,
    waits,
)
from skylight.probe.cache_size.findings import FILL_RIGHT
from skylight.probe.durable_writes import FlushedSteps
from skylight.probe.known_state import State
from skylight.probe.procedure import Steps

LONE_USUAL, FIRST_WRITES, FIRST_STOP = 8, 192, (6, 8)
FIRST_OF_GROUPS = round(DEPTH / FILL_RIGHT.part)
"""Lone writes where a FLUSH ends those of a queue together: of a cache that takes more, a queue is a part
that an answer may be off by."""
SMALL_WRITES, MOST_WRITES = 300_000, 6_000_000
MAP_WRITES = 2_600_000
MOST_SMALL_S = 9_000.0
"""Device time of the writes of one quantum that come before large ones, and of those of a block. Chosen: a
third of the bound of the test, so that a fill with large writes, twice if need be, is within it too."""
MOST_ZONED_S = 14_000.0
"""The same of each part of a fill of a drive that reports its zones. Chosen: half of the bound, for once its
cache is full a queue of large writes may wait for a zone each, in hours."""
PHASES = {
    "fill": 0.0,
    "refill": 0.125,
    "map": 0.25,
    "large": 0.375,
    "held": 0.625,
    "mixed": 0.75,
    "held-mixed": 0.875,
}
"""Where fills begin, as a part of the target: where one left data, no other writes first, or looks at its
first writes would see older ones cleaned."""
CALIBRATION, BLOCK_CALIBRATION, DEEP_STOP = 4 * DEPTH, 40 * DEPTH, (64, 64)
PIECE_WRITES, PIECES, TOLD_STOP = 8 * DEPTH, 4, (16, 64)
"""Writes behind which a drive is asked what it has cleaned: so many, or that part of those before; and so
many slow ones of so many, behind which it is asked at once. Chosen: a write that waits holds up those in the
queue behind it, half of it at least; and a fill has few pieces, each of which may ask for all zones."""
SURE_WRITES, SURE_NS = 8 * DEPTH, 5_000_000_000
"""Writes that have to be slow too, unless those before them have been for so long. Chosen: of blocks that
wait together two queues pass in a tenth of a second, and wait for two outliers or for a merge and one;
neither lasts a second."""
MOST_UNSEEN = 5
"""Parts in a row that stay slow on a drive that was clean, though looks do not show what was cleaned, from
which on cleaning has begun. Chosen: six hundred writes wait for no outliers, and no older data is left; a
drive that cleans any band next takes few of those home that are looked at."""
LONE_STOP = (16, 32)
"""Lone writes that wait, and of how many: they show that cleaning has begun. Chosen: other clients delay a
tenth of all writes, and merges of a map one in some tens."""
MOST_PARTS = 200
"""Parts of a fill: slow writes that were no cleaning may have interrupted it so often."""


@dataclass(frozen=True, slots=True)
class Pace:
    """What deep writes take on a drive that does not clean: latency, from entry to entry, and from write to
    write (ns), and how many of them are done together; and what divides looks at blocks in flash from those
    at home (ns), None where it was not measured."""

    latency_ns: float
    entry_ns: float | None
    write_ns: float
    writes_an_entry: float
    look_limit_ns: float | None = None

    def most(self, count: int, most_s: float = MOST_SMALL_S) -> int:
        """So many writes, or as many as there is time for."""
        return min(count, max(int(1e9 * most_s / max(self.write_ns, 1.0)), DEPTH))


def pace_of(
    steps: Steps, places: Places, name: str, size: int, writes: int, most: int = BLOCK_CALIBRATION
) -> Pace:
    """Measured on a clean drive by `most` writes at most, and cleaned again: what the fill begins with may
    reach its end."""
    steps.reset(f"{name}-usual-erase")
    count = min(writes if size > BLOCK else BLOCK_CALIBRATION, most)
    log = steps.run(f"{name}-deep-usual", places.aside.writes(0, count, size), depth=DEPTH)
    # Entries may take one of two times, as they catch the next place or miss it, or as a merge of the map
    # comes with some: the usual is the longer one.
    latency_ns = float(np.percentile(log.latency_ns, USUAL_PERCENT))
    done, _ = entries(log.complete_ns)
    each, entry_ns = max(len(log), 1), usual(log.complete_ns, USUAL_PERCENT)
    newest = places.aside.some(np.arange(max(count - ASKED, 1), count), size)
    # A drive that reports its zones is asked, not looked at.
    limit_ns = None if places.zone_bytes else flash_limit_ns(steps, f"{name}-cached-usual", newest)
    return Pace(latency_ns, entry_ns, log.span_ns / each, each / max(len(done), 1), limit_ns)


def filled(
    steps: Steps,
    places: Places,
    name: str,
    parts: tuple[tuple[int, int, int], ...],
    pace_writes: int = CALIBRATION,
    paces: Sequence[Pace] = (),
    emptied: bool = False,
) -> list[Fill]:
    """Fills from clean until cleaning: lone at first, for the smallest caches, then deep.

    `parts` are the size of a write, how many places it takes (0: a block, that may share one) and how many
    such writes there are at most; `pace_writes` how many show the pace of a clean drive, unless it is known;
    `emptied` whether rewriting is known to pass through the whole cache, so that no older data is left. One
    `Fill` for each part."""
    paces = paces or [pace_of(steps, places, name, size, pace_writes) for size, _, _ in parts]
    state = steps.reset(f"{name}-erase")
    if state is State.UNKNOWN:
        return []
    state = max(state, State.CLEAN) if emptied else state
    fills: list[Fill] = []
    phase = 0.0 if places.zone_bytes else PHASES[name]
    limit_ns = next((pace.look_limit_ns for pace in paces if pace.look_limit_ns is not None), None)
    check = Check(steps, name, parts[0][0], state, places.zone_bytes, phase=phase, look_limit_ns=limit_ns)
    check.look_before()
    for number, ((size, quanta, count), pace) in enumerate(zip(parts, paces, strict=True)):
        count = min(count, steps.size // size * 3 // 4)
        if places.zone_bytes:
            count = pace.most(count, MOST_ZONED_S)
        elif number + 1 < len(parts) or not quanta:
            count = pace.most(count)
        if number == 0 and quanta:
            fills.append(_lone_fill(check, size, quanta))
            if fills[-1].ended:
                break
        done = sum(fill.writes for fill in fills if fill.size == size)
        for fill in fills:
            check.written[fill.size] = sum(each.writes for each in fills if each.size == fill.size)
        fills.append(_deep_fill(check, f"{name}-{number}", size, quanta, (done, count), pace))
        if fills[-1].ended or fills[-1].slow:
            break
    if fills[-1].ended and not (check.most_stayed(fills) or check.again(fills)):
        fills[-1] = replace(fills[-1], ended=False)
    return fills


def lone_rest(steps: Steps, places: Places, name: str, begin: int, most: int) -> Fill:
    """Lone blocks behind the first `begin` of a fill, each of which takes a slot, until writes wait, for
    cleaning or else, or `most` were made. `slow` where they became slower on the whole before that: then they
    do not show when cleaning began."""
    places = replace(places, phase=PHASES[name])
    pace = steps.run(f"{name}-lone-usual", places.writes(begin, LONE_STOP[1], BLOCK))
    usual_ns = float(np.median(pace.latency_ns))
    begin += len(pace)
    until = Stop(limit_ns(steps, usual_ns), *LONE_STOP)
    log = steps.run(f"{name}-lone", places.writes(begin, most - len(pace), BLOCK), until=until)
    done = before_stalls(log.latency_ns, until)
    early, late = np.split(log.latency_ns[:done].astype(np.float64), [done // 2])
    slow = len(early) > 0 and float(np.mean(late)) > SLOW_ENTRY * float(np.mean(early))
    fill = _fill(f"{name}-lone", BLOCK, 1, (len(pace) + len(log), len(pace) + done), None)
    return replace(fill, ended=len(log) < most - len(pace), slow=slow, entry_ns=usual_ns, writes_an_entry=1.0)


def _lone_fill(check: Check, size: int, quanta: int) -> Fill:
    """The first writes, one at a time."""
    steps, name = check.steps, check.name
    pace = steps.run(f"{name}-usual", check.places.writes(0, LONE_USUAL, size))
    until = Stop(limit_ns(steps, float(np.median(pace.latency_ns))), *FIRST_STOP)
    # After rewriting, older data can end a fill early; then no finer count is asked for than groups show.
    fine = _group(steps) > 1 and check.state is not State.REWRITTEN
    count = FIRST_OF_GROUPS if fine else FIRST_WRITES
    log = steps.run(f"{name}-lone", check.places.writes(LONE_USUAL, count, size), until=until)
    found = None
    done = LONE_USUAL + len(log)
    if until.reached(log) and (check.plain(2.0) or check.begun(size, done)):
        found = change_point(log.submit_ns, log.complete_ns, rotation_ns=turn_ns(steps))
    return _fill(name, size, quanta, (done, LONE_USUAL + found.writes if found else done), found)


class PartTimes:
    """Submissions, and completions in order, of all parts of a fill so far, of which one ends before the next
    begins: they are asked for behind each of hundreds of parts, of millions of writes, so only what is new is
    sorted and copied."""

    def __init__(self, most: int) -> None:
        """With room for this number of writes."""
        self._submit_ns, self._done_ns = np.empty(most, np.uint64), np.empty(most, np.uint64)
        self._parts = self._rows = 0

    def of(self, logs: list[IoLog]) -> tuple[U64, U64]:
        """Those of these parts, the first of which are those of before."""
        for log in logs[self._parts :]:
            rows = slice(self._rows, self._rows + len(log))
            self._submit_ns[rows], self._done_ns[rows] = log.submit_ns, np.sort(log.complete_ns)
            self._parts, self._rows = self._parts + 1, rows.stop
        return self._submit_ns[: self._rows], self._done_ns[: self._rows]


def _deep_fill(check: Check, name: str, size: int, quanta: int, between: tuple[int, int], pace: Pace) -> Fill:
    """Writes at depth, of these numbers, until cleaning begins and goes on; a merge next to an outlier only
    looks like it."""
    if check.zone_bytes:
        return _told_fill(check, name, size, quanta, between, pace)
    steps = check.steps
    flushed = isinstance(steps, FlushedSteps)
    whole_groups = 2 * DEPTH if flushed else DEEP_STOP[0]
    until = Stop(limit_ns(steps, pace.latency_ns), whole_groups, DEEP_STOP[1])
    logs: list[IoLog] = []
    (at, count), begin = between, between[0]
    every = check.places.writes(begin, count - begin, size)  # laid out once: parts may be hundreds
    times = PartTimes(len(every))
    slow_after: int | None = None
    unseen, scattered = 0, False
    while at < count and len(logs) < MOST_PARTS:
        io = every.part(at - begin, count - begin)
        log = steps.run(f"{name}-deep", io, depth=DEPTH, until=until)
        logs.append(log)
        at += len(log)
        if slow_after is not None and len(log) > whole_groups + slow_after:
            # A cache that was full gives no more places back than were in use.
            slow_after, unseen = None, 0
        if len(log) in (0, len(io)):
            break
        stopped = at - between[0]
        on = steps.run(f"{name}-deep-on", io.part(len(log), len(log) + 2 * DEPTH), depth=DEPTH)
        logs.append(on)
        at += len(on)
        is_quick = len(on) > 0 and np.median(on.latency_ns) < until.latency_ns
        if not is_quick and on.span_ns < SURE_NS:
            io = every.part(at - begin, min(at - begin + SURE_WRITES, count - begin))
            logs.append(steps.run(f"{name}-deep-sure", io, depth=DEPTH))
            at += len(io)
            if len(io) and np.median(logs[-1].latency_ns) < until.latency_ns:
                slow_after, unseen = None, 0
                continue
        found = None
        if not is_quick or slowed(logs):
            submit_ns, complete_ns = times.of(logs)
            found = (
                change_of_pace(submit_ns, complete_ns)
                if is_quick
                else change_point(submit_ns, complete_ns, pace.entry_ns, turn_ns(steps))
            )
        if is_quick and found is None:
            slow_after, unseen = None, 0
            continue
        slow_after = max(stopped - whole_groups, 0) if slow_after is None else slow_after
        an_entry = found.writes_an_entry if found else 0.0
        unseen = 0 if is_quick else unseen + 1
        stays_slow = not is_quick and (check.new or (check.state >= State.CLEAN and unseen >= MOST_UNSEEN))
        begun = check.plain(an_entry) or stays_slow or check.begun(size, at, waiting=DEPTH)
        if begun or check.newest_first:
            written = at - between[0]
            ended = _fill(name, size, quanta, (written, found.writes if found else written), found)
            took_ns = _took_ns(IoLog.joined(logs), ended.writes)
            ended = replace(ended, slow_after=slow_after, group=_group(steps), took_ns=took_ns)
            return ended if begun else replace(ended, ended=False, newest=True, slow=True)
        if scattered := check.scattered(size, at, at - between[0] - slow_after):
            break
    unended = _fill(name, size, quanta, (at - between[0], at - between[0]), None)
    slow = len(logs) >= MOST_PARTS or unseen > 0
    return replace(unended, slow=slow, slow_after=slow_after if slow else None, scattered=scattered)


def _took_ns(log: IoLog, writes: int) -> int:
    """From the first submission to the last completion of the first writes."""
    return log.rows(slice(writes)).span_ns if writes else 0


def slowed(logs: list[IoLog]) -> bool:
    """Whether writes since the first stop took longer on the whole than those before it. After each wait for
    cleaning a large volatile cache takes many at once, so that writes seem to go on as before."""
    first, *others = logs
    since = sum(log.span_ns for log in others) / max(sum(len(log) for log in others), 1)
    return len(others) > 1 and since > SLOW_ENTRY * first.span_ns / len(first)


def _told_fill(check: Check, name: str, size: int, quanta: int, between: tuple[int, int], pace: Pace) -> Fill:
    """As `_deep_fill`, of a drive that tells which zones are clean. It is asked wherever some writes are
    slow: what it cleans for one may give many places back, so those that wait need not follow each other."""
    steps, (at, count) = check.steps, between
    slow_ns, first, on = limit_ns(steps, pace.latency_ns), at, False
    logs: list[IoLog] = []
    while at < count:
        piece = 2 * DEPTH if on else max(PIECE_WRITES, at // PIECES)
        until = None if on else Stop(slow_ns, *TOLD_STOP)
        io = check.places.writes(at, min(at + piece, count) - at, size)
        log = steps.run(f"{name}-deep", io, depth=DEPTH, until=until)
        if not len(log):
            break
        logs.append(log)
        slow = np.flatnonzero(log.latency_ns > slow_ns)
        if until is not None and until.reached(log):  # an outlier long before is no part of it
            slow = slow[slow >= len(log) - until.within - 2 * DEPTH]
        first = first if on or not len(slow) else at + int(slow[0])
        at += len(log)
        check.written[size] = at
        clean = check.clean(f"{name}-begun")
        if clean is not None and clean.zones and (on or len(slow)):
            group = _group(steps)
            log = IoLog.joined(logs)
            begun = _begun(log, first - between[0], slow_ns, pace)
            fill = _fill(name, size, quanta, (at - between[0], begun.writes), begun)
            if group > 1:  # of the waits of a group one shows
                each_ns = usual(log.complete_ns[: begun.writes]) or fill.entry_ns
                return replace(fill, group=group, entry_ns=each_ns)
            longest_ns = limit_ns(steps, pace.entry_ns or pace.latency_ns)
            held_up = waits(log, begun.writes, longest_ns)
            return replace(fill, zone_waits=ZoneWaits(held_up, clean.zones, clean.of))
        if on and np.median(log.latency_ns) < slow_ns:  # a merge of the map, or an outlier, and not cleaning
            slow_ns, on = round(ABOVE * max(int(each.latency_ns.max()) for each in logs)), False
        else:
            on = on or bool(len(slow))
    return _fill(name, size, quanta, (at - between[0], at - between[0]), None)


def _begun(log: IoLog, writes: int, slow_ns: int, pace: Pace) -> ChangePoint:
    """Cleaning that began after `writes` writes of a log, by those that took more than `slow_ns` since."""
    over = beyond(log.latency_ns[writes:], slow_ns)
    done, _ = entries(log.complete_ns[: max(writes, 1)])
    clear = float(over[over > 0].sum())
    return ChangePoint(writes, len(done), pace.entry_ns or 0.0, 0.0, clear, writes / len(done))


def _group(steps: Steps) -> int:
    """How many writes of a fill a FLUSH ends together; 1 where none is needed."""
    return DEPTH if isinstance(steps, FlushedSteps) else 1


def _fill(name: str, size: int, quanta: int, writes: tuple[int, int], found: ChangePoint | None) -> Fill:
    """`writes` are those made, and those before cleaning."""
    made, before = writes
    return Fill(
        name,
        size,
        quanta,
        before,
        before * max(quanta, 1),
        found is not None,
        found.sum if found else 0.0,
        found.usual_ns if found else 0.0,
        found.writes_an_entry if found else 0.0,
        made - before,
    )
