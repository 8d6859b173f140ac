"""How fast the drive takes writes, in the ways that matter to who chooses its settings.

Random 4 KiB writes one at a time, with 31 waiting, and with the volatile write cache on; sequential writes
with the cache off and on. A shingled drive that packs waiting writes into one journal entry gains an order of
magnitude from either, and needs the cache for sequential writes at full speed; a conventional disk gains
little. Of a shingled drive also what is left of that once its persistent cache is full (`cliff`).

Invariants: with the volatile cache on, rates are those of the last part of a run, when one that was empty at
its start has filled. They are those before the cliff: a run that comes to it ends.

Source: Skylight (FAST '15) section 6 (recommendations) and 6.2; docs/figures.md, rows S13 and S14.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from skylight.evidence import Evidence, IoBatch, IoLog, Stop, TargetFacts
from skylight.findings import Finding, Property
from skylight.infer.robust import BOOTSTRAP_SEED, RESAMPLES, share
from skylight.probe import Cost, Figure
from skylight.probe.procedure import ProcedureTest, Replay, Steps
from skylight.probe.write_rates import sustained_verdict, sustained_writes
from skylight.probe.write_rates.figures import draw
from skylight.probe.write_rates.findings import FINDINGS, RANDOM_RATE, SEQUENTIAL_RATE
from skylight.probe.write_rates.sustained_writes import Cliff
from skylight.probe.zoned import ZonesSeen

BLOCK_BYTES = 4096
LONE_WRITES, DEEP_WRITES, CACHED_WRITES = 256, 2_048, 131_072
CACHED_PIECE, CACHED_S = 4_096, 600.0
"""With the volatile cache on: writes of a piece, and device time after which no piece follows. A drive that
has not filled a volatile cache by then does not profit from it."""
STALL = Stop(2_000_000_000, 4, 64)
"""The persistent cache is full: four writes of two seconds, which no seek, retry or merge of a map takes."""
DEEP = 31
STREAM_BYTES, LONE_STREAM_WRITES, CACHED_STREAM_WRITES = 256 << 10, 512, 8_192
LAST_SHARE = 0.25  # of a run with the cache on: what it does once that is full

MOST_IOS = LONE_WRITES + DEEP_WRITES + CACHED_WRITES + LONE_STREAM_WRITES + CACHED_STREAM_WRITES + (1 << 20)
MOST_S, MOST_BYTES = 14_400.0, 20 << 30
LIKELY_S, UNSHINGLED_S = 2_400.0, 850.0

OFF, ON = "settings-off", "settings-on"
LONE, DEEPER, CACHED = "random-lone", "random-deep", "random-cached"
STREAM, CACHED_STREAM = "sequential-lone", "sequential-cached"
RANDOM = {LONE: "one_at_a_time", DEEPER: "31_waiting", CACHED: "write_cache_on"}
SEQUENTIAL = {STREAM: "write_cache_off", CACHED_STREAM: "write_cache_on"}


@dataclass(slots=True)
class Runs:
    """The runs that were done, by the names of their steps, of each what counts; and the cliff, of a shingled
    drive."""

    logs: dict[str, IoLog] = field(default_factory=dict)
    cliff: Cliff | None = None


def last_part(log: IoLog) -> IoLog:
    """What of a run with the volatile cache on counts: its end."""
    first = int(len(log) * (1 - LAST_SHARE))
    return log.rows(slice(first, None))


def rate(log: IoLog) -> float:
    """Writes a second over the time they took together."""
    if len(log) == 0:
        return 0.0
    return len(log) * 1e9 / max(log.span_ns, 1)


def steadiness(log: IoLog) -> float:
    """How often the mean of resampled latencies stays within a tenth of the mean: Laplace's share."""
    latency_ns = log.latency_ns
    rng = np.random.Generator(np.random.PCG64(BOOTSTRAP_SEED))
    picked = latency_ns[:4096]
    means = picked[rng.integers(0, len(picked), (RESAMPLES, len(picked)))].mean(axis=1)
    return share(int(np.count_nonzero(np.abs(means / picked.mean() - 1) <= 0.1)))


class WriteRates(ProcedureTest[Runs]):
    """The test; see the module's page."""

    name = "write_rates"
    title = "Write rates"
    findings = FINDINGS
    summary = (
        "Random 4 KiB writes one at a time, with 31 waiting and with the volatile write cache on, and"
        " sequential writes with the cache off and on: what a queue and the cache are worth on this drive."
        " Of a shingled disk also what it keeps up, and how long a write waits, once its persistent cache is"
        " full."
    )
    needs: tuple[str, ...] = ("drive_type",)
    rests_on_type = False
    judges_part = True
    begin = Runs

    def cost(self, facts: TargetFacts) -> Cost:
        """The bound: the cliff to its end, beside what comes before it."""
        return Cost(MOST_IOS, MOST_S, MOST_BYTES, LIKELY_S, UNSHINGLED_S)

    def procedure(self, steps: Steps, seen: Runs) -> None:
        """Writes with the volatile cache off, then, where it can be switched on, with it on."""
        if not steps.can_write or steps.known.word("drive_type") not in ("cmr", "smr"):
            return
        logs, zones = seen.logs, steps.zones("zones")
        steps.erase("erase")
        with steps.settings(OFF, write_cache=False, look_ahead=False):
            logs[LONE] = steps.run(LONE, self._random(steps, LONE, LONE_WRITES))
            logs[DEEPER] = steps.run(DEEPER, self._random(steps, DEEPER, DEEP_WRITES), depth=DEEP)
            logs[STREAM] = steps.run(STREAM, self._stream(steps, zones, LONE_STREAM_WRITES))
        steps.erase("erase-again")
        with steps.settings(ON, write_cache=True, look_ahead=False) as report:
            if report.write_cache:
                random = self._random(steps, CACHED, CACHED_WRITES)
                logs[CACHED] = last_part(self._pieces(steps, CACHED, random))
                stream = self._stream(steps, zones, CACHED_STREAM_WRITES)
                logs[CACHED_STREAM] = last_part(self._pieces(steps, CACHED_STREAM, stream))
        past = seen.cliff = Cliff()
        if steps.known.word("drive_type") == "smr":
            steps.erase("erase-cliff")
            with steps.settings("settings-cliff", write_cache=False, look_ahead=False) as report:
                if report.write_cache is not True:
                    sustained_writes.measure(steps, past)
        with steps.settings("settings-stream", write_cache=True, look_ahead=False) as report:
            past.stream_cached = report.write_cache is True
            sustained_writes.stream(steps, past, zones)

    @staticmethod
    def _pieces(steps: Steps, name: str, io: IoBatch) -> IoLog:
        """The batch in pieces, until the persistent cache is full or the time for it is over."""
        done = IoLog.joined([])
        while len(done) < len(io) and done.span_ns < CACHED_S * 1e9:
            log = steps.run(name, io.part(len(done), len(done) + CACHED_PIECE), until=STALL)
            done = IoLog.joined([done, log])
            if STALL.reached(log):
                break
        return done

    @staticmethod
    def _random(steps: Steps, name: str, count: int) -> IoBatch:
        size = max(BLOCK_BYTES, steps.block_bytes)
        where = steps.rng(name).integers(0, steps.size // size, count).astype(np.uint64) * np.uint64(size)
        return IoBatch.writes(where, size)

    @staticmethod
    def _stream(steps: Steps, zones: ZonesSeen | None, count: int) -> IoBatch:
        places = min(count, steps.size // STREAM_BYTES)
        io = IoBatch.writes(np.arange(places, dtype=np.uint64) * np.uint64(STREAM_BYTES), STREAM_BYTES)
        sustained_writes.empty_zones(steps, zones, io)
        return io

    def verdict(self, seen: Runs, steps: Replay) -> list[Finding]:
        """Random writes a second and bytes a second of sequential ones, as far as measured; then what is left
        of them past the cliff, and what follows for the whole drive."""
        rates = [
            *self._finding(seen.logs, RANDOM_RATE, RANDOM, 1),
            *self._finding(seen.logs, SEQUENTIAL_RATE, SEQUENTIAL, STREAM_BYTES),
        ]
        if seen.cliff is None:
            return rates
        return [*rates, *sustained_verdict.judge(seen.cliff, steps.known, steps.size)]

    @staticmethod
    def _finding(seen: dict[str, IoLog], found: Property, runs: dict[str, str], scale: int) -> list[Finding]:
        logs = {step: seen[step] for step in runs if step in seen and len(seen[step])}
        if not logs:
            return []
        value: dict[str, int | float | bool | str] = {
            runs[step]: round(rate(log) * scale, 1) for step, log in logs.items()
        }
        counts = ", ".join(f"{len(log):,} for {runs[step].replace('_', ' ')}" for step, log in logs.items())
        confidence = min(steadiness(log) for log in logs.values())
        why = f"Writes done over the time they took together, of the last {counts}."
        return [found.found(value, confidence, why, tuple(logs))]

    def draw(self, evidence: Evidence, findings: Sequence[Finding]) -> list[Figure]:
        """A bar for each rate."""
        return draw(findings)
