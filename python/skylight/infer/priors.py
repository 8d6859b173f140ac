"""The one table of chances that no evidence of a run gives: what was counted, and what was chosen.

A verdict computes how sure its evidence makes it. Two things it cannot compute. How often an answer that was
found *in a way* is right, also where its evidence is plain, was counted on random drives (`COUNTED`, written
by `bench/count_answers.py`): no finding is surer than that. And what only knowledge of the world gives, such
as how common kinds of drives are, is a prior (`PRIORS`, `CHOSEN`): chosen, and nothing that is counted on
random drives may change it, for what their generator draws is no knowledge of the world.

Few probes support little: of a way that was right each time it was asked, another may still be wrong. By
Laplace's rule that is one in (probes + 2), as if nothing were known of it before. What is known is how often
answers are right where nothing was counted: on devices that are none of our models (`ELSEWHERE`). So each way
begins with `PSEUDO` answers of that frequency, a number that is the likeliest for how ways differ.

Invariants: every chance lies between 0 and 1 and is neither; no counted one is above that of the next answer
of any way, by Laplace's rule over all of them.

Source: docs/tests/confidence.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from skylight.infer.right_answer_counts import PROBES, PSEUDO


@dataclass(frozen=True, slots=True)
class Counted:
    """How many answers that were found in one way were right, of how many."""

    right: int
    asked: int

    @property
    def laplace(self) -> float:
        """How often the next one is right if nothing is known of it but this count.

        >>> Counted(0, 13).laplace
        0.06666666666666667
        """
        return (self.right + 1) / (self.asked + 2)

    @property
    def chance(self) -> float:
        """How often the next one is right.

        >>> few, many = Counted(3, 3).chance, Counted(300, 300).chance
        >>> 0.9 < few < many < 1
        True
        """
        before = PSEUDO * ELSEWHERE.right / ELSEWHERE.asked
        most = max(ALL.laplace, ELSEWHERE.laplace)
        return min((self.right + before) / (self.asked + PSEUDO), most)


ELSEWHERE = Counted(328, 345)
"""Answers of `bench/foreign` when they were first looked at (docs/foreign-devices.md): 242 and 86 right, 12
and 5 wrong. An arbitrary family, but not ours."""

COUNTED: Mapping[str, Counted] = MappingProxyType(
    {way: Counted(right, asked) for way, (right, asked) in PROBES.items()}
)
"""By finding, or by finding and way (`band_bytes, older data`)."""

ALL = Counted(
    sum(each.right for way, each in COUNTED.items()), sum(each.asked for way, each in COUNTED.items())
)
"""All ways together."""

DECLARED = "declared"
"""The way of what the drive itself reports, which is repeated and not inferred: certain, as a report."""
BY_TYPE = "by type"
"""The way of what holds if the drive, or its cache, is of the type that was found."""
_FOLLOWS = "follows "


def follows(*names: str) -> str:
    """The way of what follows from other findings by arithmetic: as sure as the least sure of these."""
    return _FOLLOWS + " ".join(names)


def rests_on(way: str) -> tuple[str, ...]:
    """The findings that one found in this way follows from.

    >>> rests_on(follows("drive_type", "cache_medium")), rests_on("splits")
    (('drive_type', 'cache_medium'), ())
    """
    if way == BY_TYPE:
        return ("drive_type", "cache_medium")
    return tuple(way.removeprefix(_FOLLOWS).split()) if is_consequence(way) else ()


def is_consequence(way: str) -> bool:
    """Whether what was found in this way is a report of the drive, or follows from other findings, so that
    no count of its own limits it."""
    return way == DECLARED or way.startswith(_FOLLOWS)


def entry(name: str, way: str = "", *, quick: bool = False) -> str:
    """What the table calls a finding that was found in a way.

    >>> entry("band_bytes", "older data"), entry("drive_type", quick=True)
    ('band_bytes, older data', 'drive_type, in a minute')
    """
    return ", ".join(part for part in (name, way, "in a minute" if quick else "") if part)


def counted(name: str) -> Counted:
    """The count of that entry; nothing of a way that no probe met."""
    return COUNTED.get(name, Counted(0, 0))


def most_sure(name: str, way: str, *, quick: bool = False) -> float:
    """How sure a finding can be that was found in a way."""
    return 1.0 if is_consequence(way) else counted(entry(name, way, quick=quick)).chance


PRIORS: Mapping[str, float] = MappingProxyType(
    {
        # PRIORS, not measurements: how common each is among what people probe, chosen. They decide where
        # evidence does not: between a shingled disk and an ordinary one behind a log or flash, as long as no
        # block is seen to go home. What it costs when they are wrong: such a disk is called shingled, at the
        # confidence that stands here.
        "not a rotating disk": 0.27,
        "a disk written in place": 0.2695,
        "several disks written in place": 0.04,
        "a thin volume or a sparse file on such a disk": 0.03,
        "a shingled disk with a log on its platters": 0.20,
        "a shingled disk, in part written in place": 0.02,
        "a thin volume on a shingled disk": 0.005,
        "a shingled disk behind a mapper of zones": 0.003,
        "a shingled disk with a flash cache": 0.05,
        "an ordinary disk with a log on its platters": 0.025,
        "an ordinary disk, in part with a log": 0.0025,
        "a log before any disk, which may have one too": 0.005,
        "a cache before any disk, which may have one too": 0.003,
        "a log-structured volume on any disk": 0.010,
        "an ordinary disk behind flash or memory": 0.017,
        "a volume behind which no disk shows": 0.04,
        "none of these": 0.01,
    }
)
"""How common what may be probed is (`probe/drive_type/hypotheses.py` says what each means)."""

CHOSEN: Mapping[str, float] = MappingProxyType(
    {
        # Chances of what a kind of target shows that no evidence gives, chosen; each would have to be off by
        # ten to change what is said.
        "anything": 0.05,  # that what is none of these shows any one sign
        "landing mistaken": 1e-4,  # the signs of a landing, of which each has a chance of 1e-6 by itself
        "unwritten is quick, without a map": 0.1,  # a drive that knows what was never written or was trimmed
        "unwritten is quick, with a map": 0.9,
        "cost mistaken": 0.005,  # both bounds of a cost are wrong: a drive that paused, or did other work
        "stalls mistaken": 0.05,  # an ordinary disk waits as long: a full log that is emptied in one go
        "never moves": 0.4,  # a drive that brings blocks home moves none in minutes: lazy, or others first
        "part mistaken": 0.02,  # writes in place in some part of the addresses do not look so
        "part appended, in place": 1e-4,  # writes advance by a part of a revolution; the test says 1e-6
        "part unclear, in place": 0.2,  # a part looks like neither, where the start showed writes in place
        "part unclear, elsewhere": 0.5,  # the same of writes that go to a log or a cache, packed or busy
        "part in place": 0.3,  # a part of a disk in part written in place is
        "rewrites, written in place": 1e-3,  # both controls of `zone_mapper_writes` passed by chance
        "rewrites, a map": 0.05,  # a volume waits for new chunks, after the first of them were there already
        "no rewrites, a mapper": 0.2,  # more zones for writes in place than `zone_mapper_writes.SHARE`
        "zones declared, not shingled": 0.01,  # zones with write pointers on a disk that needs none
        "slow FLUSH, flash": 0.2,  # of flash that has no power for its own caches
        "slow FLUSH, a disk behind": 0.9,
        # The same of a verdict, chosen. What it costs when one is wrong: a finding that is surer, or less
        # sure, by the same factor.
        "not home, mistaken": 0.03,  # blocks at their places share no angle although others of the drive do
        "off, lying": 0.1,  # a cache is on that is said to be off, and ignores FLUSH: some bridges do both
        "lying, stays dirty": 0.2,  # such a cache has not written out by then: no disk known waits so long
        "forced, no medium": 0.05,  # writes with FUA wait for no flash but a slow path to the same memory
        "late alone, flash": 0.8,  # what keeps the last writes alone is flash: a volume's upper tier does too
        "one band": 0.8,  # what older data gives back at once is one band: nothing seen tells it from several
        "zone ends": 0.7,  # tracks that hold less at the end do as a zone ends: the last may be cut short
        "its cache": 0.8,  # what a host-aware drive takes is its cache: it may have cleaned meanwhile
        "surface agrees": 0.3,  # a stroke of a serpentine repeats another surface's by chance
    }
)
"""What a kind of target, or a verdict, shows by mistake; no count of random drives says how often."""

SHOWS_BANDS = Counted(0, 13)
"""Devices of `bench/foreign` that keep what is written in a log or a cache before an ordinary disk, or on a
volume, and show bands to tests that take them for shingled disks: `tests/test_hypotheses.py` asks them."""


def medium_taken() -> float:
    """How likely the cache of a shingled disk is on its platters, where nothing else is known of it.

    >>> round(medium_taken(), 2)
    0.82
    """
    on_disk = sum(PRIORS[name] for name in PRIORS if "shingled disk" in name and "flash" not in name)
    return on_disk / (on_disk + PRIORS["a shingled disk with a flash cache"])
