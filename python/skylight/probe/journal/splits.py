"""The most that one entry holds, from single writes that are longer.

Where hardly any writes wait together none fills an entry, but one write may: what it has beyond the most that
an entry holds begins another, with out-of-band data, a gap and a quantum of its own. Sizes that need as many
quanta take as long, so one of them that takes longer than the smallest was split. Sizes are doubled, up to
the longest that may be written, until the largest of a number of quanta was split, then that number is halved
to, then the size.

The control is the second entry: up to a quantum more goes into its first, and takes no longer; then its
second begins. Where that is not so, something else than the end of an entry made the write longer.

Runs that did not begin with an erase compare with those beside them alone: where the log has come to since,
tracks may be shorter.

Invariants: pure functions of runs, but for `find_split`; an entry that ends where a quantum does leaves no
sign here (`entry_model` looks at all sizes at once).
Source: Skylight (FAST '15) section 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from skylight.infer.robust import BOOTSTRAP_SEED, share
from skylight.probe.journal.entry_space import SURE, Footprints, Run
from skylight.probe.procedure import bisected

MOST_QUANTA = 64
"""Chosen: no journal is known whose entries hold more than a dozen (docs/figures.md, row S1g)."""
LARGEST_WRITE_BYTES = 32 << 20
"""The longest write that ATA has: 65,536 sectors (ACS-3, WRITE DMA EXT)."""
RUN_BYTES, FEWEST_WRITES, MOST_WRITES = 48 << 20, 6, 24
"""What a run writes, and in how many writes: chosen so that the search takes a few GiB."""
NARROW = 0.03
"""Of an entry: how far the search goes. Chosen: a third of what is right, for a step writes many entries."""
OPEN_LIKENESS = (0.5, 0.8)
"""Where more runs decide how far two sizes end alike: chosen, since in runs of a dozen writes that is off by
0.15 now and then."""
MORE_ROUNDS = 4
RESAMPLES = 100
TIME_SURE = 3.0
"""Standard deviations from half a quantum, where either a quantum more or none is expected. Chosen: a
thousandth, of one question."""

Measure = Callable[[int, int], Run]
"""Runs lone writes of a size, so many."""


def writes_of(size: int) -> int:
    """How many lone writes of that size a run has."""
    return max(FEWEST_WRITES, min(MOST_WRITES, RUN_BYTES // size))


@dataclass(slots=True)
class Splits:
    """Lone writes of many quanta, each of which adds about `step_ns`. `whole` bytes were not split; those of
    `split` were, if that was met; no write has more than `most` bytes. The longest track has
    `track` bytes, 0 where it is not known."""

    block: int
    quantum: int
    medium: str
    rotation_ns: float | None
    step_ns: float
    runs: dict[int, list[Run]] = field(default_factory=dict)
    whole: int = 0
    split: int | None = None
    most: int = LARGEST_WRITE_BYTES
    track: float = 0.0

    def pair(self, reference: int, size: int) -> Footprints:
        """What the runs of two sizes say of each other; the smaller is the reference."""
        runs = {each: self.runs[each] for each in (reference, size)}
        return Footprints(self.medium, self.rotation_ns, runs)

    def longer(self, reference: int, size: int) -> bool:
        """Whether writes of a size take more space than those of a smaller one: where their time is known
        well enough, or no angles tell, whether they take longer by more than half a quantum, of which another
        entry takes a whole one at least."""
        pair = self.pair(reference, size)
        if self._plainly_longer(pair, size):
            return True
        if not self._timed(pair, size) and pair.angled:
            return pair.more(size)
        return pair.shift_ns(size) > self.step_ns / 2

    def _plainly_longer(self, pair: Footprints, size: int) -> bool:
        """Whether the time of a size is more than that of the other, beyond doubt, by half of what a quantum
        takes to pass the head on the longest track. The step from one quantum to two may have lost a
        revolution besides, which another entry need not."""
        alike = all(run.erased for runs in pair.runs.values() for run in runs)
        if not alike or pair.flash or self.rotation_ns is None or not self.track:
            return False
        least_ns = pair.shift_ns(size) - SURE * pair.shift_noise_ns(size)
        return least_ns > min(self.step_ns, self.quantum / self.track * self.rotation_ns) / 2

    def _timed(self, pair: Footprints, size: int) -> bool:
        """Whether the time of both sizes is known to a part of a quantum, on the same tracks. The longer a
        write is, the more its end scatters, and with it the angle; the mean time of many scatters less."""
        alike = all(run.erased for runs in pair.runs.values() for run in runs)
        off_ns = abs(pair.shift_ns(size) - self.step_ns / 2)
        return alike and not pair.flash and SURE * pair.shift_noise_ns(size) < min(off_ns, self.step_ns / 2)

    def doubtful(self, reference: int, size: int) -> bool:
        """Whether more repeats are needed to tell."""
        pair = self.pair(reference, size)
        if self._plainly_longer(pair, size) or self._timed(pair, size):
            return False
        if pair.aligned:
            likeness = pair.likeness(size)
            open_ = likeness < OPEN_LIKENESS[1] or self._may_be_a_revolution(pair, size)
            return likeness > OPEN_LIKENESS[0] and open_
        if pair.stepping:
            return pair.doubtful(size) or (not pair.more(size) and self._may_be_a_revolution(pair, size))
        return abs(pair.shift_ns(size) - self.step_ns / 2) < SURE * pair.noise_ns

    def _may_be_a_revolution(self, pair: Footprints, size: int) -> bool:
        """Whether writes of a size may take about a whole revolution more, too few of them to tell: it
        leaves the angles as they are."""
        apart_ns = abs(pair.shift_ns(size) - (self.rotation_ns or 0.0) / 2)
        return apart_ns < SURE * pair.noise_ns

    def contradicted(self) -> bool:
        """Whether sizes that are said to be one entry took unlike times: of as many quanta, by more than half
        a revolution; on flash, and where the rotation is not known, half a quantum. Where runs did not begin
        alike, tracks may have become shorter between two of them: then by a quantum, beyond their scatter."""
        turn_ns = None if self.medium == "flash" else self.rotation_ns
        least_ns = self.step_ns / 2 if turn_ns is None else turn_ns / 2
        alike = {size for size, runs in self.runs.items() if all(run.erased for run in runs)}
        pairs = [
            (reference, size)
            for size in sorted(self.runs)
            if size <= self.whole
            if (reference := self.first_of(-(-size // self.quantum))) in self.runs and reference < size
        ]
        return any(
            self.pair(reference, size).shift_ns(size) > least_ns
            if {reference, size} <= alike
            else self._longer_in_time(reference, size)
            for reference, size in pairs
        )

    def first_of(self, quanta: int) -> int:
        """The smallest size that takes so many quanta."""
        return (quanta - 1) * self.quantum + self.block

    @property
    def reference(self) -> int:
        """The smallest size that takes as many quanta as the largest that was not split."""
        return self.first_of(-(-self.whole // self.quantum))

    @property
    def controls(self) -> tuple[int, int, int]:
        """Sizes between the first two of which the second entry has one quantum, and two at the third."""
        first = self.split or self.whole
        return first, self.whole + self.quantum - self.block, first + self.quantum

    def confirmed(self) -> bool:
        """Whether the second entry takes a quantum, and then another."""
        one, same, more = self.controls
        if any(size not in self.runs for size in self.controls) or same <= one:
            return False
        if self.longer(one, same) or self._longer_in_time(one, same):
            return False
        return self.longer(same, more) or self._longer_in_time(same, more)

    def _longer_in_time(self, reference: int, size: int) -> bool:
        """Whether writes of a size, written in turns with those of another, take a quantum longer rather than
        as long, wherever they end: one of nearly a whole revolution hardly shows in angles."""
        pair = self.pair(reference, size)
        return (
            not pair.flash and pair.shift_ns(size) - TIME_SURE * pair.shift_noise_ns(size) > self.step_ns / 2
        )

    @property
    def is_plain(self) -> bool:
        """Whether pairs of sizes alone tell where an entry ends."""
        return self.split is not None and self.confirmed() and not self.contradicted()

    def confidence(self) -> float:
        """How often repeats drawn anew show the split where it is."""
        if self.split is None:
            return 0.0
        rng = np.random.Generator(np.random.PCG64(BOOTSTRAP_SEED))
        hits = 0
        for _ in range(RESAMPLES):
            drawn = replace(self, runs={})
            for size in {self.reference, self.whole, self.split}:
                runs = self.runs[size]
                drawn.runs[size] = [runs[index] for index in rng.integers(0, len(runs), size=len(runs))]
            flat = self.whole == self.reference or not drawn.longer(self.reference, self.whole)
            hits += flat and drawn.longer(self.reference, self.split)
        return share(hits, RESAMPLES)


def find_split(splits: Splits, measure: Measure, repeats: int, most: int) -> None:
    """Searches for the most that a write may have and still be one entry, up to `most` bytes."""
    most = splits.most = min(LARGEST_WRITE_BYTES, most, MOST_QUANTA * splits.quantum)

    def run(size: int) -> None:
        splits.runs.setdefault(size, []).extend(measure(size, writes_of(size)) for _ in range(repeats))

    def longer(reference: int, size: int) -> bool:
        """Whether writes of a size take more space than those of the other, measured until it is plain."""
        for each in (reference, size):
            if not all(before.erased for before in splits.runs.get(each, ())):
                del splits.runs[each]
            if each not in splits.runs:
                run(each)
        for _ in range(MORE_ROUNDS):
            if not splits.doubtful(reference, size):
                break
            run(reference)
            run(size)
        return splits.longer(reference, size)

    last = most // splits.quantum  # quanta
    low, high = 1, min(2, last)
    while low < high and not longer(splits.first_of(high), high * splits.quantum):
        low, high = high, min(2 * high, last)
    splits.whole = low * splits.quantum
    if low >= high:
        return
    _, high = bisected(low, high, lambda count: not longer(splits.first_of(count), count * splits.quantum))
    _narrow(splits, high, longer)
    one, same, more = splits.controls
    if same > one and more <= most + splits.quantum:
        longer(one, same)
        longer(same, more)


def _narrow(splits: Splits, quanta: int, longer: Callable[[int, int], bool]) -> None:
    """Halves what is left between the smallest and the largest size of so many quanta."""
    block = splits.block
    first = splits.whole = splits.first_of(quanta)
    split = quanta * splits.quantum
    while split - splits.whole > max(block, NARROW * splits.whole):
        middle = (splits.whole + split) // 2 // block * block
        if longer(first, middle):
            split = middle
        else:
            splits.whole = middle
    splits.split = split
