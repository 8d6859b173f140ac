"""A known state of a target, by the best means that it has: what `Steps.reset` does.

| means | what is done | the state after it |
|---|---|---|
| `erase` | a secure erase | `NEW` |
| `zones` | a reset of all zones | `CLEAN` |
| `trim` | TRIM of the whole target | `CLEAN` |
| `idle` | idle time, until looks find marks that were written before it at their native place | `CLEAN` |
| `rewrite` | one region is written over and over: a log moves on until nothing else is in it | `REWRITTEN` |
| `none` | nothing | `UNKNOWN` |
| `secure-erase` | SECURITY ERASE UNIT of an ATA disk | `NEW` |
| `sanitize` | SANITIZE; `UNKNOWN` where it changes the key of the data alone | `CLEAN` |
| `format` | FORMAT UNIT of a SCSI disk | `CLEAN` |

`auto` tries those down to `rewrite` in this order, which is that of their time, and ends with the first that
succeeds; commands that erase a real drive are for a person to choose. Idle time
counts only if the marks looked cached before it, which is its control, so a look that cannot tell never says
that it succeeded; on a lazy drive it does not, and rewriting follows. Rewriting empties what the region is
written through: the whole cache if that is one log, otherwise the cache band or the zone of that region.
Where a part of the last quarter of the rewriting takes longer than the quickest, older data was still being
cleaned; then it goes on until as much took no longer, for as long again.

Invariants: which means are left to try is kept with the first step of a reset, and everything else follows
from logs and findings, so that a replay takes the same turns. Idle time and rewriting are bounded, on a real
target by what a person waits for.

Source: docs/reset.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Literal

import numpy as np

from skylight.engines import Engine, eraser_of
from skylight.engines.erase import ERASES, LONG_S, Offer
from skylight.evidence import U64, IoBatch, JsonScalar, Op, Step
from skylight.findings import Finding
from skylight.infer import cached_or_native
from skylight.units import format_percent, format_seconds, format_size

if TYPE_CHECKING:
    from skylight.probe.procedure import Steps

Means = Literal[
    "auto", "erase", "zones", "trim", "idle", "rewrite", "none", "sanitize", "secure-erase", "format"
]
"""What a person may choose."""

MEANS: tuple[Means, ...] = ("auto", "erase", "zones", "trim", "idle", "rewrite", "none", *ERASES)
ORDER: tuple[Means, ...] = ("erase", "zones", "trim", "idle", "rewrite")
"""What `auto` tries: quick ones first."""
QUICK = (*ORDER[:3], *ERASES)
"""Those that are one command: `auto` has those that take no time worth a thought."""
NEW_BY: tuple[Means, ...] = ("erase", "secure-erase")
"""Those after which a drive is as new: after a secure erase the cache is empty, and the mapping in its
default state (Aghayev and Desnoyers, FAST 2015, sections 4.8 and 4.9, rely on it)."""


class State(IntEnum):
    """What is known of the target; a greater one includes the smaller ones."""

    UNKNOWN = 0
    """Nothing: the cache may hold what earlier tests or another host wrote."""
    REWRITTEN = 1
    """As `CLEAN`, unless the cache holds more than was rewritten: then older data may be in it. How much it
    holds is not known before it was filled, so what is counted in it has to be seen to go first."""
    CLEAN = 2
    """The persistent cache is empty and the bands are clean; where the cache goes on, and where a drive with
    dynamic mapping has put its data, is not known."""
    NEW = 3
    """As from the factory."""


BLOCK_BYTES = 4096
MARK_INSIDE = 772 << 10
MARKS = 9
"""Marks of one reset; most of them decide. Chosen: a tenth of misread looks leaves the majority right."""
FIRST_PAUSE_S = 4.0
"""The first pause of idle time. Chosen: most drives begin within seconds, and it doubles anyway."""
MORE_PAUSE = 3.0
"""Idle time once the marks are home, as a multiple of that before it: other bands may have come after them,
for only some drives clean the oldest first."""
LONGEST_IDLE_S = 1_200.0
"""Idle time of one reset of a real target until the marks are home. Chosen: a person waits twenty minutes,
and a drive cleans some hundred bands in it."""
VIRTUAL_IDLE_S = 30 * 86_400.0
"""Idle time of each reset of an emulated drive: virtual time costs nothing, and a full cache of a large drive
is cleaned in some days."""
REGION_BYTES, WRITE_BYTES, REWRITE_DEPTH = 1 << 20, 256 << 10, 31
"""What is written over and over, in writes of what size, how many at a time: within one band, and of any
journal entry a good part."""
MOST_REWRITTEN = 64 << 30
"""Bytes rewritten by one reset. The caches of the drives that were opened up hold 20 to 40 GiB; a larger log
is not emptied, so a test that counts on it has to see that what it wrote first is the first to go."""
MOST_MORE = MOST_REWRITTEN
"""Bytes that go on behind these, while some of the last quarter waited for older data. Chosen: in a log of up
to twice as much the data of the test before ends within these, wherever it begins."""
MOST_REWRITES = 4
"""Rewritings of a real target by one test. Chosen: with the bound on each, some hours at the very most."""
MOST_S = {True: 31 * 86_400.0, False: 14_400.0}
"""Device time that one reset may take, by whether it is virtual: idle time, then a rewriting. Of a real
target idle time doubles until it is beyond `LONGEST_IDLE_S`, and three times as much may follow."""
MOST_BYTES = MOST_REWRITTEN + MOST_MORE + (1 << 20)
"""Bytes that one reset may write: a rewriting and its marks."""
PARTS = ("marks", "cached", "look", "idle", "more", "rewrite", "flush")
"""What follows the name of a reset in those of its steps."""
PIECE_WRITES = 1 << 13
PIECES, MOST_PIECES = (each // (PIECE_WRITES * WRITE_BYTES) for each in (MOST_REWRITTEN, MOST_BYTES))
LAST_PIECES = PIECES // 4
LONGEST_REWRITE_NS = 3_600_000_000_000
"""Device time of one rewriting on a real target. Chosen: 64 GiB take ten minutes where nothing is cleaned."""
SAME_PACE = 1.3
"""Times the quickest piece: of 2 GiB that take longer, some waited for bands to be cleaned. Merges of a map
and outliers come alike in all pieces; zones of different speed are not passed through."""


EMPTIED = ("erased", "zones_reset", "trimmed", "emptied")
"""Parameters of the first step of a reset, each of which says that the target holds nothing."""


class ChosenErase:
    """The erase by a command that a person chose. One that takes long is done once a test."""

    def __init__(self) -> None:
        """None was done yet."""
        self._seconds = 0.0

    def done(
        self, engine: Engine, means: Sequence[Means], say: Callable[[str], None]
    ) -> dict[str, JsonScalar]:
        """Erases the target if the command is among the means; what became of it: `erased` if the target is
        as new, `emptied` if its cache is empty. It is neither if data outlived it, or if the key of the data
        alone was changed. `say` takes how far it is."""
        chosen = next((one for one in ERASES if one in means), None)
        if chosen is None or self._seconds > LONG_S:
            return {}

        def follow(share: float | None, seconds: float) -> None:
            left = f", {format_seconds(seconds * (1 - share) / share)} left" if share else ""
            say(f"{chosen}{'' if share is None else f' {format_percent(share)}'}{left}")

        erased = eraser_of(engine).erase_by(chosen, follow)
        self._seconds = erased.seconds
        counts = erased.is_gone and not erased.key_change
        return {
            "erased": counts and chosen in NEW_BY, "emptied": counts, "command": erased.command,
            "seconds": erased.seconds, "gone": erased.is_gone, "unreadable": erased.unreadable,
        }  # fmt: skip


def state_after(params: Mapping[str, JsonScalar]) -> State | None:
    """The state after the first step of a reset; None if the target holds what it held."""
    if params.get("erased") is True:
        return State.NEW
    return State.CLEAN if any(params.get(each) is True for each in EMPTIED) else None


def first_means(chosen: Means) -> tuple[Means, ...]:
    """The means to be tried, in their order."""
    return ORDER if chosen == "auto" else (chosen,)


@dataclass(slots=True)
class Resets:
    """What the resets of a test have shown so far."""

    idle_fails: bool = False
    rewrites: int = 0

    def reach(
        self, steps: Steps, name: str, left: tuple[str, ...], rotation_ns: float | None = None
    ) -> State:
        """Tries the means that are left after an erase and a TRIM; the state that is reached."""
        rotation_ns = steps.known.number("rotation_ns") if rotation_ns is None else rotation_ns
        if left and left != ("none",):
            steps.quiet()
        if "idle" in left and rotation_ns is not None and self._idle(steps, name, rotation_ns):
            return State.CLEAN
        if "rewrite" in left and self._rewrite(steps, name):
            return State.REWRITTEN
        return State.UNKNOWN

    def _idle(self, steps: Steps, name: str, rotation_ns: float) -> bool:
        if self.idle_fails or steps.known.word("cleaning_type") == "lazy":
            return False
        # Where the medium is not known, looks as of a cache on disk tell blocks in flash as well: these are
        # no revolution away, but the neighbour behind them is just missed.
        flash = steps.known.word("cache_medium") == "flash"
        marks = _marks(steps)
        looks = cached_or_native.looks(marks, _block(steps), flash=flash, backwards=True)

        def home(step: str) -> bool:
            looked_ns = cached_or_native.look_ns(steps.run(step, looks))
            at_home = cached_or_native.at_home(looked_ns, rotation_ns, flash=flash)
            return 2 * int(np.count_nonzero(at_home)) > MARKS

        steps.run(f"{name}-marks", IoBatch.flushed_writes(marks, _block(steps)))
        told = not home(f"{name}-cached")
        virtual = steps.target.kind == "sim"
        pause_s, total_s = VIRTUAL_IDLE_S if virtual else FIRST_PAUSE_S, 0.0
        while total_s == 0.0 or not (cleaned := home(f"{name}-look")):
            if total_s >= (VIRTUAL_IDLE_S if virtual else LONGEST_IDLE_S):
                self.idle_fails = True
                return False
            steps.pause(f"{name}-idle", pause_s)
            total_s, pause_s = total_s + pause_s, 2 * pause_s
        if not virtual:
            steps.pause(f"{name}-more", MORE_PAUSE * total_s)
        return told and cleaned

    def _rewrite(self, steps: Steps, name: str) -> bool:
        """Whether the region was rewritten often enough, the last quarter of it at an even pace. A log that
        holds more may come to what another test left only then: so it goes on until that is behind it."""
        slots, virtual = REGION_BYTES // WRITE_BYTES, steps.target.kind == "sim"
        self.rewrites += 1
        if self.rewrites > MOST_REWRITES and not virtual:
            return False
        where = (np.arange(PIECE_WRITES, dtype=np.uint64) % np.uint64(slots)) * np.uint64(WRITE_BYTES)
        piece, paces_ns = IoBatch.writes(where, WRITE_BYTES), list[int]()
        while len(paces_ns) < PIECES or (len(paces_ns) < MOST_PIECES and not _even(paces_ns)):
            log = steps.run(f"{name}-rewrite", piece, depth=REWRITE_DEPTH)
            paces_ns.append(log.span_ns)
            if len(log) < len(piece) or (sum(paces_ns) > LONGEST_REWRITE_NS and not virtual):
                return False
        steps.run(f"{name}-flush", IoBatch.make(Op.FLUSH, [0], 0))
        return _even(paces_ns)


def _even(paces_ns: Sequence[int]) -> bool:
    """Whether none of the last pieces took longer than the quickest of all: none of them waited for bands."""
    return max(paces_ns[-LAST_PIECES:]) <= SAME_PACE * min(paces_ns)


def _block(steps: Steps) -> int:
    return max(BLOCK_BYTES, steps.block_bytes)


def _marks(steps: Steps) -> U64:
    """Single blocks all over the target, off the places where bands may begin, and off the first, the middle
    and the last address, whose bands a drive would move that puts data anywhere."""
    first = (5 * np.arange(MARKS, dtype=np.uint64) + 2) * np.uint64(steps.size // (5 * MARKS))
    return np.asarray(first // np.uint64(1 << 20) * np.uint64(1 << 20) + np.uint64(MARK_INSIDE))


def in_resets(steps: Sequence[Step]) -> list[list[Step]]:
    """The steps of each reset of a test, in their order: its first, of the kind `erase`, and what follows."""
    found: list[list[Step]] = []
    of_last = re.compile("")
    for step in steps:
        if step.kind == "erase":
            found.append([step])
            # A name that is used again has a number behind it, and so have those that begin with it.
            name = re.escape(re.sub(r"-\d+$", "", step.name))
            of_last = re.compile(rf"{name}(-\d+)?-({'|'.join(PARTS)})(-\d+)?")
        elif found and of_last.fullmatch(step.name):
            found[-1].append(step)
    return found


def with_state(findings: list[Finding], state: State) -> list[Finding]:
    """Findings, whose reasons say so where the state that the test began in is not known."""
    if state is not State.UNKNOWN:
        return findings
    return [replace(each, why=f"{each.why} What the drive held before is not known.") for each in findings]


def words(
    chosen: Means, *, virtual: bool, zoned: bool = False, offer: Offer | None = None, kept: bool = False
) -> str:
    """What resets do, for the plan that is printed; `offer` is that of an erase by a command, and `kept` says
    that what concerns all of the target, TRIM and erases, is left out.

    >>> words("trim", virtual=False)
    'TRIM of the whole target'
    """
    idle = "idle time" if virtual else f"idle time of up to {format_seconds(LONGEST_IDLE_S)} each"
    rewrite = f"{format_size(MOST_REWRITTEN)} written over and over in one place, twice that amid older data"
    rewrite += "" if virtual else f", at most {MOST_REWRITES} times a test"
    each: dict[str, str] = {
        "erase": "secure erase", "zones": "reset of all zones", "trim": "TRIM of the whole target",
        "idle": idle, "rewrite": rewrite, "none": "none; what needs a known state may be unknown",
    }  # fmt: skip
    if offer is not None:
        once = "once a test" if offer.seconds is not None and offer.seconds > LONG_S else "before each fill"
        after = "; only the key of the data changes, so what a cache holds stays unknown" * offer.key_change
        return f"{offer.words}, {once}; ALL DATA IS LOST, and it cannot be stopped{after}"
    most = (
        f"at most {format_seconds(MOST_S[virtual])} and {format_size(MOST_BYTES)} written each, beside this"
    )
    if chosen == "auto":
        tried = ", ".join(
            each[one] for one in ORDER if (zoned or one != "zones") and not (kept and one in QUICK)
        )
        return f"by the first that the target has of {tried}; {most}"
    return each[chosen] if chosen not in ("idle", "rewrite") else f"{each[chosen]}; {most}"
