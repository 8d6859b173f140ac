"""Whether lone writes of one size take the same space in the journal as those of one block, and how much
longer they take.

On a disk the n-th write of each run ends at the same angle, if the runs began with an erase and the writes
take the same space: then phases of completion agree write by write, whatever skews, jitter or revolutions
missed lie between; if each takes more space than before, they drift apart. Where runs did not begin alike,
the angle from the end of each write to the end of the next is compared: that is the space of a write,
wherever the log is, however long the host or the link hesitates, and whether or not a revolution was lost.
On flash there are no angles; there the fastest writes of all count, for nothing is faster than the medium
and its steps may be smaller than the jitter.

Invariant: pure functions of latencies.
Source: Skylight (FAST '15) section 4.3.1, Figure 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import F64, I64, IoLog
from skylight.findings import Known
from skylight.infer.host_clock import TICK_DEVIATION, tick_ns
from skylight.infer.robust import BOOTSTRAP_SEED
from skylight.probe.journal.quantum_steps import StepBounds

FIRST = 2  # the first writes of a run find the head anywhere
FASTEST_PART, NEARLY_ALL = 0.04, 0.9
OUTLIER_TICKS = 2
COARSE_NS = 20_000  # a clock's tick from which on it hides the steps of flash
HALVES = 12
FEWEST_BLOCKS = 4  # a quantum of fewer blocks cannot be told from space that grows with size
SURE = 5.0  # latencies that differ by so many times the scatter of repeats are different
ALIKE, UNLIKE = 0.7, 0.6  # of what repeats of one size agree
DOUBT = (2.5, 12.0)  # times the scatter of repeats: more repeats will tell
SHARP = 0.6  # of the whole difference lies in the step
SHARP_TURNS = 0.85
"""The same of a step of whole revolutions, at which angles stay. Chosen: a write that is longer on its way
comes too late for its slot more often, and on a slow host ever more of them lose a revolution so."""
FEW_EARLY, MANY_LATE = 0.05, 0.25
"""Of writes behind such a step the part that is not late as those of one block would be if each were late by
it, and of those before it the part that is late and more than of those. Chosen."""
NEARLY_WHOLE = 0.15
"""Of a revolution: how far a write of one block may be from whole revolutions where a quantum takes those.
Chosen: out-of-band data beside it takes less."""
LEAST_TURN = 0.1  # of a revolution: the least step of a quantum on a disk
FASTEST = 16.0  # bytes a nanosecond that flash takes at most: twice what drives of 2026 do
FLAT_TO = 1.25  # times a quantum: up to there nothing else steps
NEAR_BEHIND, FEWEST_NEAR = 1 / 16, 2
"""Where an entry that holds hardly more than a quantum ends before that: of a quantum, how far behind its
step sizes have to take alike, and how many of them. Chosen: on that way what grows by degrees shows."""
LEAST_ALIKE = 0.5  # repeats of one size that agree less tell nothing
MIDDLE = (25, 75)
LEAST_STEP_NOISE = 0.005  # of a phase vector's length: a thousandth of a revolution
LEAST_STEP = 0.4  # length of the mean phase vector from which on steps are of one kind
LARGER = 3  # sizes of which most take more quanta if a smaller one does: a whole revolution hides one
QUICK_TURNS = 0.5  # a lone write that takes less of a revolution does not wait for a platter


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A run of lone writes of one size: whether it began with an erase, latencies and completions, ns; the
    name of its step, where findings cite it."""

    size_bytes: int
    erased: bool
    latency_ns: I64
    done_ns: I64
    step: str = ""

    @staticmethod
    def of(size_bytes: int, erased: bool, log: IoLog, step: str = "") -> Run:
        """The run of a log."""
        return Run(size_bytes, erased, log.latency_ns, log.complete_ns.astype(np.int64), step)


def _rows(runs: Sequence[Run]) -> F64:
    """Latencies as a matrix, a row a run, without the first writes."""
    length = min(len(run.latency_ns) for run in runs)
    return np.stack([run.latency_ns[FIRST:length] for run in runs]).astype(np.float64)


def without_outliers(values: F64) -> NDArray[np.bool_]:
    """Which of the values along the last axis nothing but the medium delayed: nearly all by a fine clock. By
    a coarse one those within two ticks of the median, for of a share it hangs on how many others delay what
    is left of it."""
    tick = tick_ns(values.ravel())
    if tick < COARSE_NS:
        most = np.quantile(values, NEARLY_ALL, axis=-1, keepdims=True)
    else:
        most = np.median(values, axis=-1, keepdims=True) + OUTLIER_TICKS * tick
    return np.asarray(values <= most)


def typical(values: F64, *, flash: bool) -> F64:
    """The typical one of the values along the last axis: on flash the mean of the fastest, else of the middle
    half. By a coarse clock the fastest are whole ticks: then the mean of all but outliers, which the ticks
    that the commands begin in spread evenly."""
    if flash:
        if tick_ns(values.ravel()) < COARSE_NS:
            count = max(1, int(values.shape[-1] * FASTEST_PART))
            return np.asarray(np.sort(values, axis=-1)[..., :count].mean(axis=-1))
        usual = without_outliers(values)
        return np.asarray(np.sum(values, axis=-1, where=usual) / np.count_nonzero(usual, axis=-1))
    low, high = np.percentile(values, MIDDLE, axis=-1, keepdims=True)
    inside = (values >= low) & (values <= high)
    return np.asarray(np.sum(values, axis=-1, where=inside) / np.count_nonzero(inside, axis=-1))


def shift(runs: Sequence[Run], reference: Sequence[Run], *, flash: bool) -> float:
    """How much longer `runs` take than `reference`, ns."""
    one, other = (float(typical(_rows(each).ravel(), flash=flash)) for each in (runs, reference))
    return one - other


def alike(runs: Sequence[Run], reference: Sequence[Run], rotation_ns: float) -> float:
    """How far the writes of `runs` end at the angles of those of `reference`: 1 all, 0 anywhere. The median
    of all pairs of runs; a run is not paired with itself."""
    return _alike(tuple(runs), tuple(reference), rotation_ns)


@lru_cache(maxsize=1024)
def _alike(runs: tuple[Run, ...], reference: tuple[Run, ...], rotation_ns: float) -> float:
    """The same. Kept, and all pairs at once, because every size that is judged asks it of the repeats of one
    block, of which there may be hundreds."""
    pairs = np.array([[run is not other for other in reference] for run in runs], np.bool_)
    return float(np.median(_lengths(runs, reference, rotation_ns)[pairs])) if pairs.any() else 0.0


def _lengths(runs: Sequence[Run], reference: Sequence[Run], rotation_ns: float) -> F64:
    """Length of the mean phase vector of the differences of each run, a row, and each of the reference; a
    shift that all share does not matter."""
    counts = [[len(run.done_ns) - FIRST for run in each] for each in (runs, reference)]
    longest = max(max(each) for each in counts)
    # A run that is shorter than another counts nothing where it has ended.
    one, two = (np.zeros((len(each), longest), np.complex128) for each in counts)
    for vectors, each in ((one, runs), (two, reference)):
        for row, run in zip(vectors, each, strict=True):
            row[: len(run.done_ns) - FIRST] = _ends(run, rotation_ns)
    sums = np.einsum("ik,jk->ij", one, two.conj())
    return np.asarray(np.abs(sums) / np.minimum.outer(*counts))


@lru_cache(maxsize=4096)
def _ends(run: Run, rotation_ns: float) -> NDArray[np.complex128]:
    """The phase vector of the end of each write of a run after the first ones, against that of the first."""
    turns = (run.done_ns[FIRST:] - run.done_ns[0]).astype(np.float64) / rotation_ns
    return np.asarray(np.exp(2j * np.pi * turns))


def step_of(runs: Sequence[Run], rotation_ns: float) -> complex:
    """The angle from the end of one write to the end of the next, as a phase vector: the mean of all."""
    phases = [_phases(run, rotation_ns) for run in runs]
    return complex(np.concatenate(phases).mean()) if any(len(each) for each in phases) else 0j


@lru_cache(maxsize=4096)
def _phases(run: Run, rotation_ns: float) -> NDArray[np.complex128]:
    """The phase vector from the end of each write of a run to the end of the next. Kept, because halves and
    resamples ask for those of the same runs hundreds of times."""
    turns = np.diff(run.done_ns[FIRST:]).astype(np.float64) / rotation_ns
    return np.asarray(np.exp(2j * np.pi * turns))


def step_noise(runs: Sequence[Run], rotation_ns: float) -> float:
    """How far the step of random halves of runs of one size lie apart, root mean square; 1 of a single run,
    which shows nothing."""
    if len(runs) < 2:
        return 1.0
    apart = []
    for order in _orders(len(runs)):
        one, other = (
            step_of([runs[index] for index in half], rotation_ns) for half in np.array_split(order, 2)
        )
        apart.append(abs(one - other))
    return float(np.sqrt(np.mean(np.square(apart)))) + LEAST_STEP_NOISE


def noise_of(runs: Sequence[Run], *, flash: bool) -> float:
    """How far random halves of runs of one size lie apart, root mean square, ns; at least as far as the ticks
    of the clock bring about, with which writes that take alike keep step."""
    rows, orders = _rows(runs), _orders(len(runs))
    # Of two times for each write, in each half.
    ticks_ns = 2 * TICK_DEVIATION * tick_ns(*(run.done_ns for run in runs)) / float(np.sqrt(rows.size / 2))
    halves = (
        typical(rows[part].reshape(HALVES, -1), flash=flash) for part in np.array_split(orders, 2, axis=1)
    )
    apart = np.subtract(*halves)
    return float(np.hypot(np.sqrt(np.mean(np.square(apart))), ticks_ns))


@lru_cache(maxsize=64)
def _orders(count: int) -> I64:
    """`count` things in several orders, each drawn at random but always the same."""
    rng = np.random.Generator(np.random.PCG64(BOOTSTRAP_SEED))
    return np.stack([rng.permutation(count) for _ in range(HALVES)])


@dataclass(slots=True)
class Footprints:
    """Runs by size, and what they say of the space that a write takes; the smallest size is the reference.
    `by_time` is whether longer times alone say that a write takes more quanta, wherever it ends."""

    medium: str | None
    rotation_ns: float | None
    runs: dict[int, list[Run]] = field(default_factory=dict)
    by_time: bool = False

    @property
    def flash(self) -> bool:
        """Whether the cache has no angles: known to be flash; or unknown, and repeats end anywhere, or wait
        for no platter where they did not begin alike."""
        if self.medium is not None or self.rotation_ns is None:
            return self.medium == "flash"
        if not self.runs:
            return False
        if self._erased:
            return self.itself < LEAST_ALIKE
        return float(np.median(_rows(self.runs[self.block]))) < QUICK_TURNS * self.rotation_ns

    @property
    def block(self) -> int:
        """The smallest size, bytes."""
        return min(self.runs)

    @property
    def aligned(self) -> bool:
        """Whether the n-th writes of all runs begin at one place of a disk, and repeats show it."""
        if self.flash or self.rotation_ns is None:
            return False
        return self._erased and self.itself >= LEAST_ALIKE

    @property
    def _erased(self) -> bool:
        """Whether all runs began with an erase."""
        return all(run.erased for runs in self.runs.values() for run in runs)

    @property
    def itself(self) -> float:
        """How far repeats of the smallest size agree."""
        reference = self.runs[self.block]
        return alike(reference, reference, self.rotation_ns) if self.rotation_ns else 0.0

    @property
    def noise_ns(self) -> float:
        """How far halves of the repeats of the smallest size lie apart, ns."""
        return noise_of(self.runs[self.block], flash=self.flash)

    def beside(self, size: int, runs: Sequence[Run]) -> Footprints:
        """The smallest size, and other runs as those of a size: both compare as two sizes do."""
        drawn = {self.block: self.runs[self.block], size: list(runs)}
        return replace(self, runs=drawn)

    def fastest_ns(self, size: int) -> float:
        """Latency of the fastest writes of a size, ns."""
        return float(typical(_rows(self.runs[size]).ravel(), flash=True))

    def shift_ns(self, size: int) -> float:
        """How much longer writes of a size take than those of one block, ns."""
        return shift(self.runs[size], self.runs[self.block], flash=self.flash)

    def likeness(self, size: int) -> float:
        """How far writes of a size end where those of one block do, as a part of what repeats agree."""
        reference = self.runs[self.block]
        return alike(self.runs[size], reference, self.rotation_ns or 1.0) / max(self.itself, 1e-9)

    @property
    def stepping(self) -> bool:
        """Whether the steps from write to write tell the space that they take, wherever they begin."""
        if self.flash or self.rotation_ns is None or self.aligned:
            return False
        return abs(step_of(self.runs[self.block], self.rotation_ns)) >= LEAST_STEP

    @property
    def angled(self) -> bool:
        """Whether angles tell the space that writes take."""
        return self.aligned or self.stepping

    def step_apart(self, size: int, other: int) -> float:
        """How far the steps of two sizes lie apart, in lengths of the phase vector."""
        turn_ns = self.rotation_ns or 1.0
        return abs(step_of(self.runs[size], turn_ns) - step_of(self.runs[other], turn_ns))

    def fewer_runs(self, *sizes: int) -> float:
        """By how much the mean of the runs of the size with the fewest, less that of the smallest size,
        scatters more than halves of the repeats of the smallest do: of those there may be dozens of times as
        many, as each size in doubt adds some. 1 where it scatters less."""
        count, reference = min(len(self.runs[size]) for size in sizes), len(self.runs[self.block])
        # Halves of n runs scatter by 2 / sqrt(n) of one run, the means of m and n by sqrt(1 / m + 1 / n).
        return max(float(np.sqrt((reference / count + 1) / 4)), 1.0)

    def step_noise(self, *sizes: int) -> float:
        """How far the step of any of these sizes and that of the smallest lie apart by chance, by halves of
        the repeats of the smallest."""
        return step_noise(self.runs[self.block], self.rotation_ns or 1.0) * self.fewer_runs(*sizes)

    def shift_noise_ns(self, size: int) -> float:
        """The same for how much longer writes of a size take, ns."""
        return self.noise_ns * self.fewer_runs(size)

    def more(self, size: int) -> bool:
        """Whether writes of a size take more space than those of one block."""
        return self._elsewhere(size) or self._longer(size)

    def more_quanta(self, size: int) -> bool:
        """Whether writes of a size take more quanta than those of one block.

        Where a quantum is no whole number of revolutions, another one moves the angle on as the first does.
        There longer times alone are no sign: a write that is long on its way comes too late for its slot and
        waits for it to come round. They may be one all the same (`by_time`), for out-of-band data moves the
        angle on as well, and a quantum may be as long as a track: if all writes from one size on take longer
        and none of the next smaller one (`sharp`).
        """
        return self._elsewhere(size) or ((self.by_time or not self.moves_on) and self._longer(size))

    @property
    def first_longer(self) -> int | None:
        """The smallest size that takes more quanta than one block, as do most of the next larger ones; None
        if none does. A drive that cleans while writes of one size are measured makes these alone late."""
        sizes = [size for size in sorted(self.runs)[1:] if self.runs[size]]
        more = [self.more_quanta(size) for size in sizes]
        for at, size in enumerate(sizes):
            larger = more[at + 1 : at + 1 + LARGER]
            if more[at] and 2 * sum(larger) >= len(larger):
                return size
        return None

    @property
    def moves_on(self) -> bool:
        """Whether a write of one block takes space that is plainly no whole number of revolutions."""
        if not self.angled:
            return False
        step = step_of(self.runs[self.block], self.rotation_ns or 1.0)
        return abs(step) >= LEAST_STEP and abs(float(np.angle(step))) > 2 * np.pi * NEARLY_WHOLE

    def _elsewhere(self, size: int) -> bool:
        """Whether writes of a size end at other angles than those of one block."""
        if self.aligned:
            return self.likeness(size) < (ALIKE + UNLIKE) / 2
        return self.stepping and self.step_apart(size, self.block) > SURE * self.step_noise(size)

    def _longer(self, size: int) -> bool:
        """Whether writes of a size take longer than those of one block: on a disk by whole revolutions, for
        space of those leaves the angles as they are."""
        least_ns = (self.rotation_ns or 0.0) / 2 if self.angled else 0.0
        longer_ns = self.shift_ns(size)
        return longer_ns > least_ns and longer_ns - SURE * self.shift_noise_ns(size) > least_ns

    def doubtful(self, size: int) -> bool:
        """Whether more repeats are needed to tell: where a step may hardly exceed the noise."""
        if self.aligned:
            return False
        if not self.stepping:
            return DOUBT[0] < self.shift_ns(size) / self.shift_noise_ns(size) < DOUBT[1]
        beyond_ns = self.shift_ns(size) - (self.rotation_ns or 0.0) / 2
        if self.by_time and abs(beyond_ns) <= SURE * self.shift_noise_ns(size):
            return True
        return DOUBT[0] < self.step_apart(size, self.block) / self.step_noise(size) < DOUBT[1]

    def smooth(self, low: int, high: int) -> bool:
        """Whether sizes around the first difference differ by degrees."""
        if self.aligned:
            return self.likeness(low) < ALIKE
        if not self.stepping:
            return False
        noise = self.step_noise(low)
        return (
            self.step_apart(low, self.block) > DOUBT[0] * noise and self.step_apart(high, low) <= SURE * noise
        )

    def sharp(self, low: int, high: int) -> bool:
        """Whether space grows in a step between two neighbouring sizes, and not with every block."""
        if low < FEWEST_BLOCKS * self.block:
            return False
        if self.by_time and self._late(low) > self._late(self.block) + MANY_LATE:
            return False  # a smaller size takes longer than one block already
        step = self.shift_ns(high) - self.shift_ns(low)
        if self.flash and step < low / FASTEST:
            return False  # no flash is so quick: a host's or a link's longest request ends there
        if self.aligned and self.rotation_ns is not None:
            # a block more would end a little later, not a good part of a revolution
            parted = self.likeness(low) >= ALIKE and self.likeness(high) <= UNLIKE
            if parted and step > LEAST_TURN * self.rotation_ns:
                return True
        if self.stepping and self._parted(low, high, step):
            return True
        if self._lost_by_some(low, high, step) or self.smooth(low, high):
            return False  # by a coarse clock times of sizes that grow by degrees have steps
        share = SHARP_TURNS if self.stepping else SHARP
        sure = step > max(share * self.shift_ns(high), SURE * self.noise_ns)
        return sure and self._flat_behind(low, high, step)

    def step_bounds(self, low: int, known: Known) -> StepBounds | None:
        """How long the step behind writes of that size may be if it is a quantum; None where nothing says."""
        if self.flash:
            return None
        tick = tick_ns(*(run.done_ns for run in self.runs[self.block]))
        return StepBounds.of(low, known, self.rotation_ns, tick)

    def too_short(self, low: int, high: int, known: Known) -> bool:
        """Whether a step takes less than passes the head in a quantum of that size."""
        bounds = self.step_bounds(low, known)
        return bounds is not None and self.shift_ns(high) - self.shift_ns(low) < bounds.least_ns

    def _lost_by_some(self, low: int, high: int, step_ns: float) -> bool:
        """Whether a step of whole revolutions is one that some of the longer writes do not take: these come
        too late for their slot, which on a slow host they do the more often the longer they are."""
        turn_ns = self.rotation_ns
        if self.flash or turn_ns is None:
            return False
        turns = step_ns / turn_ns
        if round(turns) < 1 or abs(turns - round(turns)) > LEAST_TURN:
            return False
        # On a host that pauses those of one block alone may differ by a revolution.
        return self._late(high) < self._late(self.block, round(turns)) - FEW_EARLY

    def _late(self, size: int, turns: int = 0) -> float:
        """The share of writes of a size that would be late by half a revolution, against the quick ones of
        one block, if each took so many revolutions more; 0 where the cache has none."""
        turn_ns = self.rotation_ns
        if self.flash or turn_ns is None:
            return 0.0
        level_ns = float(np.quantile(_rows(self.runs[self.block]), 1 - NEARLY_ALL)) + turn_ns / 2
        return float(np.mean(_rows(self.runs[size]) + turns * turn_ns > level_ns))

    def _parted(self, low: int, high: int, step_ns: float) -> bool:
        """Whether the angle from write to write jumps between two neighbouring sizes: by a good part of a
        revolution, or with a revolution that the latency shows."""
        turn_ns = self.rotation_ns or 1.0
        noise = SURE * self.step_noise(low, high)
        apart = self.step_apart(high, low)
        jump = 2 * np.sin(np.pi * LEAST_TURN) * abs(step_of(self.runs[low], turn_ns))
        far = apart > jump or step_ns > turn_ns / 2
        return bool(self.step_apart(low, self.block) <= noise < apart and far)

    def _flat_behind(self, low: int, high: int, step_ns: float) -> bool:
        """Whether the next larger size that is far enough behind the step takes no longer than its end; or
        sizes just behind it do not and all from some size on do, as where an entry ends with those."""
        behind = [size for size in sorted(self.runs) if size > high and self.runs[size]]
        far = [size for size in behind if size - high >= (high - low) and size >= FLAT_TO * low]
        if not far:
            return True
        level_ns = max(step_ns / 2, SURE * self.noise_ns)
        longer = [self.shift_ns(size) - self.shift_ns(high) >= level_ns for size in behind]
        if not longer[behind.index(far[0])]:
            return True
        alike = behind[: longer.index(True)]
        near = len(alike) >= FEWEST_NEAR and alike[-1] - high >= NEAR_BEHIND * low
        return near and all(longer[len(alike) :])
