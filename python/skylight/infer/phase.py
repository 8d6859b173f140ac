"""Do completion times follow a rotation? Positive evidence that a platter rotates under the commands.

A block passes under the head at one phase of the revolution, whenever it is asked for and however far the
head had to come. So completions of commands to the same *place* (neighbouring blocks) agree modulo the
revolution, and those of different places do not. No seek curve, track length or skew enters. Nothing else
behaves so: flash, a network or a rate limit has no memory of an angle, and a log-structured write lands
wherever the log is, whatever its address.

Commands go round by round: a *round* visits its places several times in an order drawn at random. Within a
round the order knows nothing of the places, so if completion times do not depend on the address, any
relabelling of the places is as likely as the true one, whatever else the target does (drift, rate limits,
caches, fixed latencies). Phases are centred in each round and compared as in an analysis of variance: `share`
is the part of the phases' scatter that the place explains, minus what chance explains; its F test, times the
number of periods tried, gives `p_value`. Only `scatter` near 1 counts, phases that fill the revolution: then
they are bounded, unlike latencies, and no outlier can feign it. A round with a stall in it, or a very long
one, is left out: its phases are lost, and the number of periods to be tried grows with the longest round.

The opposite question, whether completions go on from one another whatever their addresses, is that of
`skylight.infer.log_phase_step`.

Sources: the rotational signature is Skylight section 4.3 (a missed revolution) turned into a test; circular
analysis of variance after Mardia and Jupp, "Directional Statistics", chapter 7; Bonferroni for the periods.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from skylight.evidence import F64, I64
from skylight.infer.remembered import remembered
from skylight.infer.robust import BOOTSTRAP_SEED, RESAMPLES, share
from skylight.infer.tail_probability import ratio_tail
from skylight.infer.track_phases import phasors

Complex = NDArray[np.complex128]

SLOWEST_RPM = 3_600
FASTEST_RPM = 16_000
FEWEST_TURNS = 8  # a round shorter than this cannot tell a period
LONGEST_ROUND_S = 20.0  # bounds the number of periods; slow commands make a round of 64 last a few seconds
LONGEST_STALL_S = 2.0  # 120 revolutions and more: no drive keeps its speed so well that a phase outlasts it
LARGEST_ROWS = 4096
LEAST_SHARE = 0.25
LEAST_SCATTER = 0.5
LARGEST_P = 1e-6
NEAR = 0.97  # shares of the scatter that are as good as equal
CLEAR = 0.6
"""Share of the scatter from which on nothing is hidden. Chosen: places explain 80 to 100 % on a disk."""
QUICKER = (0.5, 0.75)
"""Shares of the commands that are looked at by themselves. Chosen: in ten probes by busy hosts the places
explained 4 to 91 % of the phases of the quicker half, and 2 to 63 % of all: where a host delays nearly all,
nothing helps."""
SAME_PERIOD = 0.01
"""Of a period: as far apart two may be that are the same rotation. Chosen: a round of a second finds a period
of 10 ms to a fifth of a per cent, and delays of a host blur that."""
FINE_STEPS = 16  # frequencies whose phase vectors are products of one and a step on: of these, 1 in 16
FINER = 4  # steps in one of the coarse search, which sees a peak, but not how high it is


@dataclass(frozen=True, slots=True)
class Coherence:
    """How well completions follow the best period: see the module's page. `period_ns` is 0 if none could be
    tried."""

    period_ns: float
    share: float
    scatter: float
    p_value: float
    confidence: float

    @property
    def rotates(self) -> bool:
        """True when the completions follow the period beyond doubt."""
        return self.share >= LEAST_SHARE and self.scatter >= LEAST_SCATTER and self.p_value <= LARGEST_P


NONE = Coherence(0.0, 0.0, 0.0, 1.0, 0.0)


@dataclass(frozen=True, slots=True)
class _Groups:
    """Rows sorted by place: where each place begins, its rows and its round."""

    begins: NDArray[np.intp]
    count: F64
    round_of: NDArray[np.intp]
    rounds: int

    def parts(self, sums: Complex, weight: F64) -> tuple[F64, F64]:
        """Scatter between the places and in all, each centred in its round.

        The last axis of `sums` (of phase vectors) and `weight` (how often a place counts) is the places;
        other axes broadcast.
        """
        first = np.searchsorted(self.round_of, np.arange(self.rounds))  # in order, and none without a place
        rows_in_round = np.add.reduceat(weight * self.count, first, axis=-1)
        mean = np.add.reduceat(weight * sums, first, axis=-1) / np.maximum(rows_in_round, 1.0)
        apart = np.abs(sums - self.count * mean[..., self.round_of]) ** 2 / self.count
        between = (weight * apart).sum(axis=-1)
        total = (weight * self.count).sum(axis=-1) - (np.abs(mean) ** 2 * rows_in_round).sum(axis=-1)
        return np.asarray(between, np.float64), np.asarray(total, np.float64)


@remembered
def coherence(
    complete_ns: NDArray[np.generic],
    place: NDArray[np.generic],
    round_rows: int,
    wanted: NDArray[np.bool_] | None = None,
    *,
    at_ns: float | None = None,
    near_ns: float | None = None,
    delayed: bool = False,
) -> Coherence:
    """Tests completions for a rotation. `place` labels the rows, each label within one round of `round_rows`
    rows; of these only the `wanted` ones count, if given, all of a place or none. Only the period `at_ns` is
    tried, if given; of a rotation `near_ns` that is known already, only periods as good as equal to it.
    `delayed`: by a busy host, which leaves a half of the period as clear as the whole."""
    rows = len(complete_ns)
    if rows < round_rows or round_rows < 2:
        return NONE
    time_s = _in_round(complete_ns, round_rows)
    kept, longest_s = _steady(time_s, round_rows)
    if longest_s * FASTEST_RPM / 60 < FEWEST_TURNS:
        return NONE
    if wanted is not None:
        kept &= wanted
        if not kept.any():
            return NONE
    time_s, place, rows = time_s[kept], place[kept], int(np.count_nonzero(kept))
    _, round_of_row = np.unique((np.arange(len(kept)) // round_rows)[kept], return_inverse=True)
    if rows > LARGEST_ROWS:
        return NONE
    order = np.lexsort((place, round_of_row))
    label = np.stack([round_of_row[order], place[order].astype(np.int64)])
    begins = np.flatnonzero(np.concatenate([[True], np.any(label[:, 1:] != label[:, :-1], axis=0)]))
    count = np.diff(np.append(begins, rows)).astype(np.float64)
    groups = _Groups(begins, count, round_of_row[order][begins], int(round_of_row[-1]) + 1)
    sorted_s = time_s[order]
    if at_ns is not None:
        return _judge(sorted_s, groups, 1e9 / at_ns, 1)
    step_hz = 0.2 / longest_s
    if near_ns is not None:
        hz = np.arange(1e9 / near_ns / (1 + SAME_PERIOD), 1e9 / near_ns / (1 - SAME_PERIOD), step_hz / FINER)
        best_hz = float(hz[np.argmax(_shares(sorted_s, groups, hz))])
        return _judge(sorted_s, groups, best_hz, len(hz))
    coarse_hz = np.arange(SLOWEST_RPM / 60, FASTEST_RPM / 60, step_hz)
    best_hz = _best(sorted_s, groups, coarse_hz)
    best_hz = _fundamental(sorted_s, groups, best_hz, step_hz, delayed=delayed)
    return _judge(sorted_s, groups, best_hz, len(coarse_hz))


def undelayed(
    complete_ns: NDArray[np.generic],
    latency_ns: I64,
    place: NDArray[np.generic],
    round_rows: int,
    *,
    near_ns: float | None = None,
) -> Coherence:
    """As `coherence`, on a busy host too. What delays commands by parts of a revolution, now and then, hides
    the angle of those alone, and they are among the slower ones. So where places explain less of all than
    they do on a disk that nothing hides, the quicker ones are looked at by themselves, and the clearest of
    the looks counts, at as many times the chance. Which rows are quick knows nothing of the places, if the
    completions do not, so their order is as random as that of all."""
    whole = coherence(complete_ns, place, round_rows, near_ns=near_ns, delayed=True)
    if whole.share >= CLEAR or not whole.period_ns:
        return whole
    looks = [whole]
    for part in QUICKER:
        quick = latency_ns <= np.quantile(latency_ns, part)
        looks.append(coherence(complete_ns, place, round_rows, quick, near_ns=near_ns, delayed=True))
    best = min(looks, key=lambda each: each.p_value)
    return replace(best, p_value=min(1.0, len(looks) * best.p_value))


def _in_round(complete_ns: NDArray[np.generic], round_rows: int) -> F64:
    """Completions since the first of their round, s. Only phases within a round are compared, so each may
    have its own zero; with one for all, a long rest between rounds would cost the digits of the phase."""
    whole_ns = complete_ns.astype(np.uint64)
    starts_ns = np.minimum.reduceat(whole_ns, np.arange(0, len(whole_ns), round_rows))
    since_ns = whole_ns - np.repeat(starts_ns, round_rows)[: len(whole_ns)]
    return np.asarray(since_ns / 1e9, np.float64)


def _steady(time_s: F64, round_rows: int) -> tuple[NDArray[np.bool_], float]:
    """The rows of rounds that went on without a long stall, and the length of the longest of these, s."""
    kept = np.zeros(len(time_s), bool)
    longest_s = 0.0
    for first in range(0, len(time_s), round_rows):
        rows = slice(first, first + round_rows)
        length_s = float(np.ptp(time_s[rows]))
        gap_s = float(np.diff(np.sort(time_s[rows])).max(initial=0.0))
        if length_s <= LONGEST_ROUND_S and gap_s <= LONGEST_STALL_S:
            kept[rows] = True
            longest_s = max(longest_s, length_s)
    return kept, longest_s


def _sums(time_s: F64, groups: _Groups, hz: F64) -> Complex:
    """Sum of the phase vectors of each place, at each of some frequencies at even distances."""
    coarse, fine = hz[::FINE_STEPS], (hz - hz[0])[:FINE_STEPS]
    # A phase vector at a step on is one product, a fraction of the time of a sine and a cosine.
    on = phasors(np.outer(fine, time_s))
    vectors = (phasors(np.outer(coarse, time_s))[:, None, :] * on).reshape(-1, len(time_s))[: len(hz)]
    return np.asarray(np.add.reduceat(vectors, groups.begins, axis=1))


def _shares(time_s: F64, groups: _Groups, hz: F64) -> F64:
    """Share of the scatter that the places explain at each frequency; 0 where phases do not fill the
    revolution."""
    ones = np.ones(len(groups.count))
    shares = np.empty(len(hz))
    for first in range(0, len(hz), 512):
        between, total = groups.parts(_sums(time_s, groups, hz[first : first + 512]), ones)
        full = total > LEAST_SCATTER * len(time_s)
        shares[first : first + 512] = np.where(full, between / np.maximum(total, 1e-12), 0.0)
    return shares


def _fundamental(time_s: F64, groups: _Groups, rough_hz: float, step_hz: float, *, delayed: bool) -> float:
    """The peak near a frequency, or near a whole part of it that explains as much: what comes round once a
    revolution comes round twice in two, and a coarse search may see only that. Where commands are `delayed`,
    also near a part that is followed beyond doubt: delays leave either as clear as the other, but of a disk
    that turns twice as fast, half of the visits of a place are half a turn of the slower one apart."""
    around = np.linspace(-step_hz, step_hz, 41)
    best_hz, best_share = 0.0, 0.0
    for part in range(1, FASTEST_RPM // SLOWEST_RPM + 1):
        hz = rough_hz / part + around
        if hz[-1] < SLOWEST_RPM / 60:
            break
        shares = _shares(time_s, groups, hz)
        top = int(np.argmax(shares))
        clear = shares[top] >= NEAR * best_share
        if delayed and not clear and shares[top] >= LEAST_SHARE:
            clear = _judge(time_s, groups, float(hz[top]), len(hz)).rotates
        if clear:
            best_hz, best_share = float(hz[top]), max(float(shares[top]), best_share)
    return best_hz


def _best(time_s: F64, groups: _Groups, hz: F64) -> float:
    """The frequency whose phases the places explain best; of near equals the lowest, so never a multiple."""
    shares = _shares(time_s, groups, hz)
    near = np.flatnonzero(shares >= NEAR * shares.max())
    first_hill = near[: int(np.argmax(np.append(np.diff(near) > 1, True))) + 1]
    return float(hz[first_hill[np.argmax(shares[first_hill])]])


def _adjusted(between: F64, total: F64, degrees: float) -> F64:
    """Share of scatter that the place explains beyond chance; `degrees` is chance's expectation of it."""
    return (between / np.maximum(total, 1e-12) - degrees) / (1.0 - degrees)


def _judge(time_s: F64, groups: _Groups, hz: float, tried: int) -> Coherence:
    """Share, scatter, p-value and bootstrap confidence at one frequency."""
    rows, places = len(time_s), len(groups.count)
    chance = (places - groups.rounds) / (rows - groups.rounds)
    if not 0 < chance < 1:
        return NONE
    sums = _sums(time_s, groups, np.array([hz]))[0]
    between, total = groups.parts(sums, np.ones(places))
    within = max(float(total - between), 1e-12)
    freedom = (places - groups.rounds, rows - places)  # halves: a vector has two parts
    ratio = (float(between) / freedom[0]) / (within / freedom[1])
    p_value = min(1.0, tried * ratio_tail(ratio, *freedom))
    explained = float(_adjusted(between, total, chance))
    scatter = float(total) / rows
    return Coherence(1e9 / hz, explained, scatter, p_value, _confidence(sums, groups, rows, chance))


def _confidence(sums: Complex, groups: _Groups, rows: int, chance: float) -> float:
    """How many bootstrap resamples of the places, drawn in their rounds, still follow the period."""
    rng = np.random.Generator(np.random.PCG64(BOOTSTRAP_SEED))
    weight = np.zeros((RESAMPLES, len(groups.count)))
    for number in range(groups.rounds):
        member = np.flatnonzero(groups.round_of == number)
        even = np.full(len(member), 1.0 / len(member))
        weight[:, member] = rng.multinomial(len(member), even, size=RESAMPLES)
    between, total = groups.parts(sums, weight)
    holds = (_adjusted(between, total, chance) >= LEAST_SHARE) & (total >= LEAST_SCATTER * rows)
    return share(int(np.count_nonzero(holds)))
