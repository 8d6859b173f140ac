"""The verdict of test 1: what the target may be, given where its writes land and what else was seen.

Each thing that was seen is a clue with a chance under every model (`hypotheses`); the value of a finding is
the likeliest over all models, and is said from `LEAST_LIKELY` on. Its confidence is that, times the
confidence of where writes land: a finding is never surer than what it rests on. Bands do not rest on that: a
drive that shows them is as likely shingled as they make it wherever its writes land.

Source: docs/tests/drive-type.md, "What it may be".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skylight.findings import UNKNOWN
from skylight.infer.phase import Coherence
from skylight.probe.drive_type import hypotheses
from skylight.probe.drive_type.cleaning_cost import Settled
from skylight.probe.drive_type.hypotheses import Clue, Model
from skylight.probe.drive_type.landing import (
    Landing,
    rotation,
)
from skylight.probe.drive_type.landing_by_fua import landed
from skylight.probe.drive_type.observed import Observed
from skylight.probe.drive_type.plan import PARTS
from skylight.probe.drive_type.write_latencies import FAST_READ_NS, Writes, in_place

LEAST_LIKELY = 0.7  # a value is said that is more than twice as likely as all others together


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the drive is, how sure that is, and why; `rows` are the steps it rests on, `way` is where writes
    land."""

    drive_type: str
    cache_medium: str
    confidence: float
    why: str
    rows: tuple[str, ...]
    medium_confidence: float = 0.0
    way: str = ""


def judge(seen: Observed, kind: str, later: Clue | None = None) -> Verdict:
    """The verdict on what was observed of a target of this kind, and on what `later` tests saw. Where the
    bound cut short what was written once more to an emptied cache, it is that of what was seen while the
    cache was full."""
    verdict = _judged(seen, kind, later)
    if seen.why_cut and seen.full is not None and verdict.drive_type == UNKNOWN:
        return _judged(seen.full, kind, later)
    return verdict


def _judged(seen: Observed, kind: str, later: Clue | None) -> Verdict:
    found = landed(seen, kind)
    if found.where == "unknown":
        return Verdict(UNKNOWN, UNKNOWN, 0.0, found.why, found.rows)
    clues = [hypotheses.landing(found.where), *_clues(seen, found)]
    if later is not None and not cost_is_known(seen):
        clues.append(later)
    likely = hypotheses.posterior(clues)
    drive_type, type_chance = hypotheses.likeliest(likely, lambda model: model.drive_type)
    medium, medium_chance = hypotheses.likeliest(likely, lambda model: model.cache_medium)
    if type_chance < LEAST_LIKELY:
        drive_type = UNKNOWN
    if medium_chance < LEAST_LIKELY or found.cached or found.where == "either":
        medium = UNKNOWN
    # Where the landing is mistaken, what is left are the bands.
    otherwise = (1.0 - found.confidence) * _by_bands(clues, drive_type)
    said = " ".join(clue.words for clue in clues if clue.words)
    why = " ".join(part for part in (found.why, said, _most_likely(likely)) if part)
    rows = (*found.rows, *(row for clue in clues for row in clue.rows))
    return Verdict(
        drive_type,
        medium,
        0.0 if drive_type == UNKNOWN else type_chance * found.confidence + otherwise,
        why,
        rows,
        0.0 if medium == UNKNOWN else medium_chance * found.confidence,
        found.where,
    )


def _by_bands(clues: Sequence[Clue], drive_type: str) -> float:
    """How likely a drive is of this type by the bands that it showed alone; 0 where it showed none."""
    bands = [clue for clue in clues if clue.of_bands]
    if not bands:
        return 0.0
    models = hypotheses.posterior(bands)
    return sum(chance for model, chance in models.items() if model.drive_type == drive_type)


def _most_likely(likely: dict[Model, float]) -> str:
    """The models that are left, in words; nothing where one is."""
    shown = [f"{model.name} ({100 * chance:.3g} %)" for model, chance in likely.items() if chance >= 0.01]
    return f"Most likely: {', '.join(shown)}." if len(shown) > 1 else ""


def _clues(seen: Observed, found: Landing) -> list[Clue]:
    """What was seen beside where writes land."""
    if found.where == "unseen":
        slow = len(seen.flush_ns) > 0 and float(np.median(seen.flush_ns)) >= FAST_READ_NS
        return [hypotheses.flush(slow)] if len(seen.flush_ns) else []
    clues = [hypotheses.unwritten(not seen.reads.rotates and seen.back.rotates)]
    turning = rotation(seen)
    if found.where == "home" and seen.read_back is not None:
        clues.append(
            hypotheses.elsewhere(len(PARTS), 0, 0, "", ())
        )  # places all over the target were read back
    if seen.elsewhere and turning is not None:
        clues.append(_elsewhere(seen, turning))
    if (over := seen.all_over) is not None:
        clues.append(hypotheses.rewrites(seen=over.waited, by_chance=over.by_chance))
    if seen.zoned:
        clues.append(hypotheses.zones_declared())
    if found.logged and seen.stalled:
        clues.append(hypotheses.stalls())
    if seen.settled is not None and seen.settled.rungs:
        clues.append(_settled(seen.settled))
    return clues


def cost_is_known(seen: Observed) -> bool:
    """Whether test 1 itself saw what a block costs on its way home: later tests see the same once more."""
    settled = seen.settled
    return settled is not None and (settled.with_band or settled.cheap)


def _settled(settled: Settled) -> Clue:
    """What it costs to bring a block home."""
    if settled.with_band:
        words = f"What only shingling explains: {settled.words}, as a block takes its band along."
        return hypotheses.cost(with_band=True, words=words, rows=settled.names)
    if settled.alone:
        words = f"It need not be shingled: {settled.words}, as a block goes home by itself."
        return hypotheses.cost(with_band=False, words=words, rows=settled.names)
    words = f"A log alone is no sign of shingling, and {settled.words}."
    if settled.cheap:
        return hypotheses.relayed(words, settled.names)
    if settled.moves:
        return Clue(lambda _: 1.0, words, settled.names)
    return hypotheses.unmoved(words, settled.names)


def in_log(writes: Writes, turning: Coherence) -> bool:
    """True for writes of one latency that do not follow their address."""
    return not in_place(writes, turning) and writes.fixed(turning)


def _elsewhere(seen: Observed, turning: Coherence) -> Clue:
    """How many other parts of the addresses are written in place. Writes that look like neither may be those
    of a log that goes on at the same part of a revolution, whatever came between."""
    parts = seen.elsewhere
    home = sum(in_place(writes, turning) for writes in parts)
    away = sum(in_log(writes, turning) for writes in parts)
    appended = sum(mixed.logged for mixed in seen.mixed_elsewhere.values())
    words = f"Of {len(parts)} other parts of the addresses {home} are written in place"
    words += f" and {away + appended} to a log or a cache." if away + appended else "."
    rows = ("writes-elsewhere", *(mixed.name for mixed in seen.mixed_elsewhere.values()))
    # The few writes to a part look like neither by a coarse clock, wherever they go.
    hidden = any(writes.ticks_hide(turning) for writes in parts)
    unclear = 0 if hidden else max(len(parts) - home - away - appended, 0)
    return hypotheses.elsewhere(home, away, unclear, words, rows, appended=appended)
