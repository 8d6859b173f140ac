"""The bound on an entry where no writes wait together: a lone write that is longer goes into several entries.

The time from the end of one write to the end of the next is what each takes on the medium, and a lost
revolution now and then. Within one entry it grows by the same for every quantum; a write that needs an entry more takes
that entry's out-of-band data and gap besides. So the sizes climb quantum by quantum until one is longer than
those before let expect, and the distance to the largest that is not is then halved.

Invariants: pure functions of runs of lone writes. A size that is off by whole revolutions only may have lost
them on the way: then nothing is said. The time of a quantum must agree with the tracks of the drive, or two
quanta may be two entries already.

Source: Skylight (FAST '15) section 4.3.1; `skylight.probe.journal.levels`, the step from write to write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from skylight.evidence import F64
from skylight.infer.robust import BOOTSTRAP_SEED, share
from skylight.probe.journal.levels import FIRST, Run

FITS_TURNS = 0.08
"""By which a size may miss what is expected of it, in revolutions: chosen, because a quarter of the smallest
quantum, or of out-of-band data, that is seen at all, and many times what runs of 24 writes differ by."""
ALIKE_TURNS = 0.06
"""Times that differ by whole revolutions, to so much, are of writes that take the same: less than a switch of
track, more than the usual jitter."""
MOST_QUANTA = 20
NARROW = 0.03
RESAMPLES = 100
Runs = Mapping[int, Sequence[Run]]


@dataclass(frozen=True, slots=True)
class Split:
    """An entry holds a write of `least` bytes and not one of `below`; in that part of runs drawn anew."""

    least: int
    below: int
    confidence: float = 0.0


def without_lost_turns(turns: F64) -> F64:
    """Times, in revolutions, each as short as the shortest that differs from it by whole ones.

    >>> without_lost_turns(np.array([1.4, 2.4, 1.41, 1.8])).round(2).tolist()
    [1.4, 1.4, 1.41, 1.8]
    """
    apart = turns[:, None] - turns[None, :]
    whole = np.round(apart)
    lost = np.where(np.abs(apart - whole) <= ALIKE_TURNS, whole, 0.0).max(axis=1)
    return np.asarray(turns - lost, np.float64)


@dataclass(frozen=True, slots=True)
class _Climb:
    """Lone writes by size: what they take (revolutions), with the largest number of quanta that fits."""

    runs: Runs
    quantum: int
    rotation_ns: float

    def turns(self, size: int) -> float:
        """From the end of one write to the end of the next, on average: switches of track count, as many as
        there are in some writes and not in others, and revolutions that were lost do not."""
        times = np.concatenate([np.diff(run.done_ns[FIRST:]) for run in self.runs[size]])
        return float(without_lost_turns(times / self.rotation_ns).mean())

    def quanta(self, size: int) -> int:
        """Quanta that a write fills."""
        return -(-size // self.quantum)

    def excess(self, size: int, fits: int) -> float:
        """How much longer a size takes than one entry would, by a size of `fits` quanta that is one."""
        one = self.turns(self.quantum)
        each = (self.turns(fits * self.quantum) - one) / (fits - 1)
        return self.turns(size) - one - (self.quanta(size) - 1) * each


def _bracket(climb: _Climb) -> tuple[int, int | None] | None:
    """The largest size that fits into one entry, and the smallest that does not, if there is one yet. None
    where the sizes do not tell."""
    measured = [size for size in sorted(climb.runs) if size >= 2 * climb.quantum]
    fits, least, below = 2, 2 * climb.quantum, None
    if least not in climb.runs:
        return None
    whole = [size for size in measured if size % climb.quantum == 0]
    for size in whole[1:]:
        over = climb.excess(size, fits)
        if abs(over) > FITS_TURNS:
            if abs(over - round(over)) <= FITS_TURNS:
                return None
            below = size
            break
        fits, least = climb.quanta(size), size
    if below is None:
        return least, None
    for size in (size for size in measured if least < size < below):
        over = climb.excess(size, fits)
        if abs(over - round(over)) <= FITS_TURNS:
            least = size
        else:
            return least, size
    return least, below


def next_size(runs: Runs, quantum: int, rotation_ns: float, block: int) -> int | None:
    """Which size of lone writes to measure next; None when nothing more is to be learned."""
    if 2 * quantum not in runs:
        return 2 * quantum
    found = _bracket(_Climb(runs, quantum, rotation_ns))
    if found is None:
        return None
    least, below = found
    if below is None:
        return least + quantum if least < MOST_QUANTA * quantum else None
    middle = (least + below) // 2 // block * block
    return middle if below - least > max(NARROW * least, block) and middle > least else None


def split_of(
    runs: Runs, quantum: int, rotation_ns: float, tracks_turns: tuple[float, float] | None
) -> Split | None:
    """The bound that the runs show. `tracks_turns` is what a quantum takes by the tracks of the drive
    (revolutions), with room for the switches between them."""
    if 2 * quantum not in runs or quantum not in runs:
        return None
    climb = _Climb(runs, quantum, rotation_ns)
    found = _bracket(climb)
    if found is None or found[1] is None or tracks_turns is None:
        return None
    each = climb.turns(2 * quantum) - climb.turns(quantum)
    if not tracks_turns[0] <= each <= tracks_turns[1]:
        return None
    rng = np.random.Generator(np.random.PCG64(BOOTSTRAP_SEED))
    hits = 0
    for _ in range(RESAMPLES):
        drawn = {
            size: [some[index] for index in rng.integers(0, len(some), size=len(some))]
            for size, some in runs.items()
        }
        hits += _bracket(_Climb(drawn, quantum, rotation_ns)) == found
    return Split(found[0], found[1], share(hits, RESAMPLES))
