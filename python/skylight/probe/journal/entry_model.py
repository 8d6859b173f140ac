"""The most that one entry holds, from the times of lone writes of all sizes at once.

`splits` compares sizes in pairs, and sees nothing where an entry ends with a quantum: what a write has beyond
it begins another quantum as it would have in the same entry. But another entry has a gap before it, and
out-of-band data. A lone write of a size takes

    time = a + b * quanta + g * (entries - 1)

where the number of quanta and of entries follow from the size and from what an entry holds. Each candidate
for the latter is fitted by weighted least squares, with g no less than zero; the one of the least residual is
the answer, and the others weigh by the likelihood of theirs. What the fit leaves is its own noise: skews of
tracks make the time of a write no straight line.

Which size is written next is that on whose time the likely candidates differ most.

A drive that receives all of a write before its head begins is late by what the link takes: a revolution is
lost at even distances, wherever entries end. Such a distance is more than passes the head in a revolution, as
a link is faster than the platters, and what is lost is a revolution to the nanosecond. That is fitted as
another explanation (`_Model.late`).

Invariants: pure functions of runs, but for `measure_more`; runs that did not begin alike say nothing; no
entry is found where a straight line without entries fits as well, where lost revolutions do, or where
shuffled times fit as well.
Source: Skylight (FAST '15) section 4.3.1, whose entries have a bound, quanta and out-of-band data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skylight.evidence import F64, I64
from skylight.infer.robust import BOOTSTRAP_SEED, share
from skylight.probe.journal.entry_space import FIRST, SURE, Run, typical
from skylight.probe.journal.findings import ENTRY_MAX_RIGHT
from skylight.probe.journal.splits import NARROW, RESAMPLES, Measure, Splits, writes_of

FEWEST_SIZES = 8
"""Of more than a quantum: three parameters and the entry are fitted to them."""
STEP_NOISE, TIME_NOISE = 0.02, 0.005
"""Of a quantum's time and of a write's: how far times lie from the model at least. Chosen: on the
host-aware drives 98632 and 98637 they lie within 0.04 and 0.01 of it, whose scatter the fit adds itself."""
MORE_SIZES = 12
LEAST_SURE = 0.8
"""Of the weight of all candidates that lies so near the best: chosen, since less leaves another as likely."""
SHUFFLES, MOST_CHANCE = 198, 0.01
"""The control: of many candidates one fits whatever is left. Chosen: at most one of these shuffles may."""
LEFT_OUT, KEPT_SIZES = 30, 0.75
"""Draws of that part of the sizes: what skews of tracks add to single ones is no noise of repeats. Chosen."""
LATE_PHASES = 16
"""In each stretch of so many bytes, where the first revolution may be lost. Chosen: a sixteenth is less
than sizes are apart."""
BEYOND_LATE = 3.0
"""By how many standard deviations entries must fit better than lost revolutions do. Chosen: a thousandth."""
MOST_LATE = 0.1
"""Of what entries explain, what lost revolutions must leave unexplained. Chosen: a tenth; where both were
made up, they left a hundredth."""
LEAST_WORTH = 0.5
"""Of the noise: how far likely candidates differ on a size that is worth a run. Chosen."""


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Candidates for what an entry holds, bytes, with their weights; parameters `a`, `b`, `g` of each, ns;
    `gain` is by how many standard deviations the best fits better than no entry does, `beyond_late` than
    revolutions lost every `late_bytes` do, `chance` how often a candidate does as well on what no entry
    explains once that is shuffled among the sizes, and `shares` how often repeats drawn anew, and fewer
    sizes, show it there."""

    candidates: I64
    weights: F64
    parameters: F64
    gain: float
    chance: float
    shares: float
    beyond_late: float
    late_bytes: int

    @property
    def best(self) -> int:
        """The middle of the candidates that fit best, bytes."""
        top = self.candidates[self.weights >= self.weights.max() * (1 - 1e-9)]
        return int(top[len(top) // 2])

    @property
    def gap_ns(self) -> float:
        """What lies before another entry, of the best."""
        return float(self.parameters[int(np.argmax(self.weights)), 2])

    @property
    def interval(self) -> tuple[int, int]:
        """The candidates of the middle 95 % of the weight."""
        cumulated = np.cumsum(self.weights)
        low, high = np.searchsorted(cumulated, [0.025, 0.975])
        return int(self.candidates[low]), int(self.candidates[min(high, len(self.candidates) - 1)])

    @property
    def sure(self) -> float:
        """The weight of the candidates near the best, as seldom as repeats drawn anew show it elsewhere."""
        near = np.abs(self.candidates / self.best - 1) <= ENTRY_MAX_RIGHT.part
        return min(float(self.weights[near].sum()), self.shares, 1 - self.chance)

    @property
    def is_found(self) -> bool:
        """Whether an entry ends somewhere, and it is plain where."""
        plain = self.gain > SURE and not self.is_late
        return plain and self.chance <= MOST_CHANCE and self.sure >= LEAST_SURE

    @property
    def is_late(self) -> bool:
        """Whether something makes some sizes longer, and lost revolutions explain it nearly as well as
        entries do, or most of it: what they leave is then no plain entry either."""
        most = self.beyond_late**2 < MOST_LATE * self.gain**2
        return self.gain > SURE and (most or self.beyond_late <= BEYOND_LATE)


def parts_of(sizes: I64, entry: I64, quantum: int) -> tuple[I64, I64]:
    """Quanta and entries of lone writes of these sizes, a row for each candidate for what an entry holds.

    >>> quanta, entries = parts_of(np.array([100, 101, 250]), np.array([100]), 20)
    >>> quanta.tolist(), entries.tolist()
    ([[5, 6, 13]], [[1, 2, 3]])
    """
    entry, sizes = entry[:, None], sizes[None, :]
    entries = -(-sizes // entry)
    rest = sizes - (entries - 1) * entry
    return (entries - 1) * -(-entry // quantum) + -(-rest // quantum), entries


def candidates_of(quantum: int, block: int, most: int) -> I64:
    """What an entry may hold: whole quanta, a block more, and sizes between them `NARROW` / 3 apart."""
    whole = np.arange(1, most // quantum + 1, dtype=np.int64) * quantum
    steps = max(int(np.log(most / quantum) / (NARROW / 3)), 1)
    between = np.geomspace(quantum, most, steps).astype(np.int64) // block * block
    return np.unique(np.concatenate([whole, whole + block, between[between >= quantum]]))


def fit(splits: Splits) -> Fit | None:
    """The fit to all runs of writes longer than a quantum; None where these are too few, or did not begin
    alike."""
    # A bound may end the test before the first run of a size.
    runs = {size: each for size, each in splits.runs.items() if size > splits.quantum and each}
    if len(runs) < FEWEST_SIZES or not all(run.erased for each in runs.values() for run in each):
        return None
    sizes = np.array(sorted(runs), np.int64)
    flash = splits.medium == "flash"
    took = [np.array([_took_ns(run, flash=flash) for run in runs[size]]) for size in sizes.tolist()]
    mean = np.array([each.mean() for each in took])
    error = np.array([each.std(ddof=1) / len(each) ** 0.5 if len(each) > 1 else np.inf for each in took])
    known = np.isfinite(error)
    if np.count_nonzero(known) < FEWEST_SIZES:
        return None
    sizes, mean, took = sizes[known], mean[known], [each for each, ok in zip(took, known, strict=True) if ok]
    noise = np.sqrt(error[known] ** 2 + (STEP_NOISE * splits.step_ns) ** 2 + (TIME_NOISE * mean) ** 2)
    candidates = candidates_of(splits.quantum, splits.block, splits.most)
    model = _Model.of(sizes, noise, candidates, splits.quantum)
    square, parameters = model.residual(mean / noise)
    freedom = max(len(sizes) - 4, 1)
    scale = max(float(square.min()) / freedom, 1.0)
    weights = np.exp(-(square - square.min()) / (2 * scale))
    gain = model.gain(mean / noise, freedom)
    best = float(candidates[int(np.argmin(square))])
    rng = np.random.Generator(np.random.PCG64(BOOTSTRAP_SEED))
    hits = 0
    for _ in range(RESAMPLES):
        drawn = np.array([rng.choice(each, len(each)).mean() for each in took])
        again = candidates[int(np.argmin(model.residual(drawn / noise)[0]))]
        hits += bool(abs(again / best - 1) <= ENTRY_MAX_RIGHT.part)
    line = model.line(mean / noise)
    shuffled = (line + rng.permutation(mean / noise - line) for _ in range(SHUFFLES))
    lucky = sum(model.gain(each, freedom) >= gain for each in shuffled)
    chance = share(lucky, SHUFFLES)
    shares = min(share(hits, RESAMPLES), _without_some(model, mean / noise, best) if gain > SURE else 0.0)
    late, late_bytes = model.late(mean / noise, sizes, splits.rotation_ns, splits.track)
    return Fit(
        candidates, weights / weights.sum(), parameters, gain, chance, shares,
        _deviations(late, float(square.min()), freedom), late_bytes,
    )  # fmt: skip


def _deviations(other: float, least: float, freedom: int) -> float:
    """By how many standard deviations what leaves `least` fits better than what leaves `other`."""
    return float(np.sqrt(max(other - least, 0.0) / max(least / freedom, 1.0)))


def _without_some(model: _Model, weighted: F64, best: float) -> float:
    """How often the best candidate is near that one where a quarter of the sizes is left out."""
    rng = np.random.Generator(np.random.PCG64(BOOTSTRAP_SEED))
    count = max(round(KEPT_SIZES * len(weighted)), FEWEST_SIZES)
    hits = 0
    for _ in range(LEFT_OUT):
        kept = np.sort(rng.choice(len(weighted), count, replace=False))
        square = model.of_sizes(kept).residual(weighted[kept])[0]
        hits += bool(abs(model.candidates[int(np.argmin(square))] / best - 1) <= ENTRY_MAX_RIGHT.part)
    return share(hits, LEFT_OUT)


def _took_ns(run: Run, *, flash: bool) -> float:
    """What a write of a run takes: the first two find the head anywhere."""
    return float(typical(run.latency_ns[FIRST:].astype(np.float64), flash=flash))


@dataclass(frozen=True, slots=True, eq=False)
class _Model:
    """Designs of all candidates, weighted, and their inverses: with a gap, and without one."""

    candidates: I64
    design: F64
    inverse: F64
    inverse_gapless: F64

    @staticmethod
    def of(sizes: I64, noise: F64, candidates: I64, quantum: int) -> _Model:
        """Of these sizes."""
        quanta, entries = parts_of(sizes, candidates, quantum)
        columns = (np.ones_like(quanta), quanta, entries - 1)
        return _Model.inverted(candidates, np.stack(columns, axis=-1) / noise[None, :, None])

    @staticmethod
    def inverted(candidates: I64, design: F64) -> _Model:
        """Of these designs."""
        inverse, gapless = (np.linalg.pinv(each).astype(np.float64) for each in (design, design[:, :, :2]))
        return _Model(candidates, design, inverse, gapless)

    def of_sizes(self, kept: I64) -> _Model:
        """Of these of the sizes."""
        return _Model.inverted(self.candidates, self.design[:, kept])

    def residual(self, weighted: F64) -> tuple[F64, F64]:
        """The sum of squares that each candidate leaves, and its parameters."""
        full = np.einsum("cij,j->ci", self.inverse, weighted)
        gapless = np.einsum("cij,j->ci", self.inverse_gapless, weighted)
        gapless = np.concatenate([gapless, np.zeros((len(gapless), 1))], axis=1)
        parameters = np.where(full[:, 2:] < 0, gapless, full)
        left = weighted - np.einsum("cij,cj->ci", self.design, parameters)
        return np.sum(left**2, axis=1), parameters

    def line(self, weighted: F64) -> F64:
        """What one entry for all gives: the last candidate's times, as that is as long as any."""
        line = self.design[-1, :, :2]
        return np.asarray(line @ (self.inverse_gapless[-1] @ weighted), np.float64)

    def gain(self, weighted: F64, freedom: int) -> float:
        """By how many standard deviations the best candidate fits better than one entry for all."""
        least = float(self.residual(weighted)[0].min())
        return _deviations(float(np.sum((weighted - self.line(weighted)) ** 2)), least, freedom)

    def late(self, weighted: F64, sizes: I64, rotation_ns: float | None, track: float) -> tuple[float, int]:
        """The sum of squares that revolutions lost at even distances leave, beside quanta, and that distance,
        no less than the longest track has; as much as no entry leaves, where a revolution is not known."""
        line = self.design[-1, :, :2]
        every = self.candidates[self.candidates >= track]
        if rotation_ns is None or not len(every):
            return float(np.sum((weighted - self.line(weighted)) ** 2)), 0
        each = every[:, None]
        first = each * np.arange(1, LATE_PHASES + 1) / LATE_PHASES
        lost = np.maximum((sizes - first[..., None]) // each[..., None] + 1, 0)  # candidate, phase, size
        # The first column of the design is one over the noise of each size.
        left = weighted - rotation_ns * lost * line[:, 0]
        left = left - left @ (line @ self.inverse_gapless[-1]).T
        square = np.sum(left**2, axis=-1)
        best = int(np.argmin(square))
        return float(square.flat[best]), int(every[best // LATE_PHASES])


def measure_more(splits: Splits, measure: Measure, repeats: int) -> None:
    """Writes the sizes on which likely candidates differ most, until it is plain what an entry holds, or no
    size tells more."""
    for _ in range(MORE_SIZES):
        found = fit(splits)
        if found is None:
            return
        low, high = found.interval
        if found.is_found and high - low <= NARROW * found.best + splits.block:
            return
        size = _telling(splits, found)
        if size is None:
            return
        splits.runs.setdefault(size, []).extend(measure(size, writes_of(size)) for _ in range(repeats))


def _telling(splits: Splits, found: Fit) -> int | None:
    """The size on whose time likely candidates differ most, if by half the noise; less so if it was written
    before."""
    counts = np.arange(2, splits.most // splits.quantum + 1)
    whole = counts * splits.quantum
    sizes = np.unique(
        np.concatenate([whole, whole - splits.quantum + splits.block, whole - splits.quantum // 2])
    )
    sizes = sizes // splits.block * splits.block
    likely = found.weights > found.weights.max() * 1e-3
    quanta, entries = parts_of(sizes, found.candidates[likely], splits.quantum)
    a, b, g = (found.parameters[likely][:, [number]] for number in range(3))
    took = a + b * quanta + g * (entries - 1)
    weights = found.weights[likely] / found.weights[likely].sum()
    mean = weights @ took
    apart = np.sqrt(weights @ (took - mean) ** 2)
    noise = np.hypot(STEP_NOISE * splits.step_ns, TIME_NOISE * mean)
    repeats = np.array([len(splits.runs.get(int(size), ())) for size in sizes])
    worth = apart / noise / np.sqrt(1 + repeats)
    best = int(np.argmax(worth))
    return int(sizes[best]) if worth[best] > LEAST_WORTH else None
