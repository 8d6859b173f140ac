"""How long the step to another quantum may be on a disk: what passes the head in it takes its time.

A quantum passes the head in a revolution for each track that it is long. A step that takes plainly less is no
quantum more: the ticks of a coarse clock, or other clients, moved one size against another. A step that takes
far longer is another entry, with out-of-band data of its own.

Invariant: nothing is said where tracks or the rotation are not known, or of a cache that has none.
Source: Skylight (FAST '15) section 4.3.1: quanta follow each other on the medium.
"""

from __future__ import annotations

from dataclasses import dataclass

from skylight.findings import Known

PLACES = ("od", "md", "id")
LONGER, LOST = 1.5, 1.0
"""How much longer than it takes to pass the head the step to another quantum may be: out-of-band data, ways
to other tracks, and a revolution lost. Of five random drives whose quantum was right it was 0.25 of a
revolution at most; of a bridge that cuts writes in two it is 2.4 revolutions for 0.07."""
SHORTER = 0.5
"""Of the time in which a quantum passes the head on the longest track, what a step takes at least. Chosen: a
step is the difference of two means, each of which may be off by a part of it."""


@dataclass(frozen=True, slots=True)
class StepBounds:
    """What the step to another quantum takes at least and at most, ns; and in how many revolutions a quantum
    passes the head at most."""

    least_ns: float
    most_ns: float
    turns: float

    @staticmethod
    def of(quantum: int, known: Known, rotation_ns: float | None, tick_ns: float = 0.0) -> StepBounds | None:
        """Of a quantum of that size on a disk, by the tracks that are known; by a clock with that tick, below
        which no two times differ."""
        turns = quantum_turns(quantum, known)
        if turns is None or rotation_ns is None:
            return None
        least_ns = max(SHORTER * turns[0] * rotation_ns, tick_ns)
        return StepBounds(least_ns, (LONGER * turns[1] + LOST) * rotation_ns, turns[1])


def quantum_turns(quantum: int, known: Known) -> tuple[float, float] | None:
    """What a quantum takes on the shortest and on the longest tracks, revolutions; None if these are
    unknown."""
    tracks = [size for place in PLACES if (size := known.part("track_bytes", place))]
    return (quantum / max(tracks), quantum / min(tracks)) if len(tracks) > 1 else None
