"""Sustained non-sequential writes: how much does a host-aware drive take before it blocks, and what then?

A write that is not at the write pointer goes to the persistent cache; when that is full, writes wait for
zones to be cleaned. `measure` writes to random places of some zones until a slow spell has come and gone.

Confidence: of what the cache takes, how surely the writes on either side of the spell's begin are of two
paces (`slow_spells` finds its begin to the write; bootstrap of the two means, of the slow ones in the spell);
of the rates likewise; of the stalls, one minus the chance that they line up by accident.

Source: Wu et al., "Evaluating Host-Aware SMR Drives" (HotStorage '16), section 3.3 and Figure 2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skylight.evidence import Evidence, TargetFacts
from skylight.findings import Finding
from skylight.infer.priors import CHOSEN
from skylight.infer.robust import BOOTSTRAP_SEED, RESAMPLES, share
from skylight.infer.stalls import MOST_CHANCE, periodic
from skylight.infer.zone_throughput import PACES, Spell
from skylight.probe import Cost, Figure
from skylight.probe.journal.write_through import written_through
from skylight.probe.non_sequential import measure
from skylight.probe.non_sequential.figures import draw
from skylight.probe.non_sequential.findings import CACHE, FINDINGS, RATES, SPELL, STALL
from skylight.probe.non_sequential.measure import Seen
from skylight.probe.procedure import ProcedureTest, Replay, Steps
from skylight.probe.zoned import HOST_AWARE

MOST_IOS, MOST_S, LIKELY_S = 530_000, 28_800.0, 1_800.0
LEAST_ZONES, LEAST_PLACES = 2, 8


class NonSequential(ProcedureTest[Seen]):
    """The test of sustained non-sequential writes; see the module's page."""

    name = "non_sequential"
    title = "Non-sequential writes"
    findings = FINDINGS
    summary = (
        "Writes 512 KiB to random places of 32 zones until the drive has to clean before it takes more: how"
        " much it takes at full speed, how slow it is then, and for how long."
    )
    rests_on_type = False
    sees_all_zones = True
    judges_part = True
    begin = Seen

    def cost(self, facts: TargetFacts) -> Cost:
        """The bound; what it takes depends on the size of the cache."""
        return Cost(MOST_IOS, MOST_S, measure.MOST_BYTES + (8 << 30), LIKELY_S, LIKELY_S)

    def procedure(self, steps: Steps, seen: Seen) -> None:
        """On a host-aware target that may be written to: a host-managed one refuses such writes."""
        zones = steps.zones("zones") if steps.can_write else None
        if zones is None or zones.model != HOST_AWARE or zones.usable < LEAST_ZONES:
            return
        seen.zones = zones
        seen.size_bytes = max(
            min(measure.WRITE_BYTES, zones.capacity_bytes // LEAST_PLACES), steps.block_bytes
        )
        steps.reset("erase", slow=False)  # else the looks at the volatile cache wait for what is cleaned
        with steps.settings("settings", write_cache=False, look_ahead=False) as report:
            through, seen.volatile, _ = written_through(steps, report, places=measure.places(steps, zones))
            measure.sustain(through, seen, zones)

    def verdict(self, seen: Seen, steps: Replay) -> list[Finding]:
        """The cache as it is used, the rates, the spell, the stalls; none of a host-managed drive."""
        if seen.zones is None:
            return []
        spell, rows = seen.spell, steps.names
        slow = len(seen.slow_ns)
        if spell is None or spell.first < measure.LEAST_BEFORE or slow < measure.LEAST_SLOW:
            why = f"{len(seen.log):,} non-sequential writes came to no slow spell."
            if spell is not None:
                why = (
                    f"After {spell.first:,} writes {slow:,} were slow: at least {measure.LEAST_BEFORE:,} have"
                    f" to show the pace, and {measure.LEAST_SLOW} that it is lost."
                )
            return [each.unknown(why, rows) for each in (CACHE, RATES, SPELL)] + _stalls(
                seen, len(seen.log), rows
            )
        found = [_cache(seen, spell, rows), _rates(seen, spell, rows), _spell(seen, spell, rows)]
        return found + _stalls(seen, spell.first, rows)

    def draw(self, evidence: Evidence, findings: Sequence[Finding]) -> list[Figure]:
        """Throughput over time, as Figure 2."""
        return draw(self.seen(evidence, findings))


def _cache(seen: Seen, spell: Spell, rows: Sequence[str]) -> Finding:
    """What was written before the spell."""
    value = spell.first * seen.size_bytes
    slow_ns = seen.slow_ns
    slow = f"{len(slow_ns):,} of " if len(slow_ns) < spell.writes else ""
    why = (
        f"After {spell.first:,} writes {slow}the next {spell.writes:,} took {slow_ns.mean() / 1e9:.2f} s each"
    )
    why += " in the mean."
    if seen.volatile == "hidden":
        packed = "A volatile cache that FLUSH does not empty packs writes: less is taken without it."
        return CACHE.unknown(f"{why} {packed}", rows)
    return CACHE.found(value, min(_sure(seen, spell), CHOSEN["its cache"]), why, rows)


def _sure(seen: Seen, spell: Spell) -> float:
    """How often resampled writes of the spell take a multiple of resampled ones before it."""
    draw = np.random.Generator(np.random.PCG64(BOOTSTRAP_SEED))
    means = [
        part[draw.integers(0, len(part), (RESAMPLES, min(len(part), 1_024)))].mean(axis=1)
        for part in (seen.latency_ns[: spell.first], seen.slow_ns)
        if len(part)
    ]
    if len(means) < 2:
        return 0.5  # nothing before it to compare with
    return share(int(np.count_nonzero(means[1] >= PACES * means[0])))


def _rates(seen: Seen, spell: Spell, rows: Sequence[str]) -> Finding:
    """Bytes a second before the spell and in it."""
    before_ns = int(seen.latency_ns[: spell.first].sum())
    value: dict[str, int | float | bool | str] = {
        "before": round(spell.first * seen.size_bytes * 1e9 / max(before_ns, 1)),
        "blocked": round(spell.writes * seen.size_bytes * 1e9 / max(spell.took_ns, 1)),
    }
    why = f"Of {spell.first:,} writes before the slow spell and {spell.writes:,} in it."
    return RATES.found(value, _sure(seen, spell), why, rows)


def _spell(seen: Seen, spell: Spell, rows: Sequence[str]) -> Finding:
    """How long the drive blocks, if the spell was seen to end."""
    if not seen.recovered:
        why = f"The drive still blocks after {spell.writes:,} writes in {spell.took_ns / 1e9:,.0f} s."
        return SPELL.unknown(why, rows)
    after_ms = float(np.median(seen.latency_ns[spell.end :])) / 1e6
    took_s = spell.took_ns / 1e9
    why = f"{spell.writes:,} writes took {took_s:,.0f} s; then a write takes {after_ms:.1f} ms again."
    return SPELL.found(spell.took_ns, _sure(seen, spell), why, rows)


def _stalls(seen: Seen, count: int, rows: Sequence[str]) -> list[Finding]:
    """Regular stalls before the spell; nothing where there are none."""
    latency = seen.latency_ns[:count]
    found = periodic(latency)
    if found is None:
        return []
    slow = latency >= found.limit_ns
    slow[: found.first] = False
    value: dict[str, int | float | bool | str] = {
        "every": found.period,
        "ns": round(float(latency[slow].sum()) / found.count),
    }
    why = f"{found.count:,} stalls in a row, every {found.period:,} writes, none missing."
    return [STALL.found(value, 1 - MOST_CHANCE, why, rows)]
