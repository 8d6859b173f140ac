"""What the test of the drive type has observed, as far as it has come: what the verdicts rest on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from skylight.evidence import I64
from skylight.infer.phase import NONE, Coherence
from skylight.probe.drive_type.cleaning_cost import Settled
from skylight.probe.drive_type.full_cache_medium import Looked
from skylight.probe.drive_type.landing_by_readback import ReadBack
from skylight.probe.drive_type.quick_readback import Kept
from skylight.probe.drive_type.write_latencies import Sustained, Writes, cleaned_early
from skylight.probe.drive_type.writes_after_random_reads import Mixed
from skylight.probe.drive_type.zone_mapper_writes import AllOver

OF_WRITES = (
    "back_ns", "back", "wide", "mixed", "narrow", "flushed_narrow", "flush_ns", "sustained", "read_back",
    "crowded_ns", "looked", "kept", "forced",
)  # fmt: skip
"""What of `Observed` the first writes show, up to where they land."""


def _no_latencies() -> I64:
    return np.empty(0, np.int64)


@dataclass(slots=True)
class Observed:
    """Everything the verdict rests on. Empty arrays and None stand for steps that were not run.

    More than 15 fields: one or two per step, and each can be missing."""

    writes_allowed: bool = True
    quick: bool = False  # a quick answer, whose time is bounded
    zoned: bool = False  # the target declares zones with write pointers
    holes: float = 0.0  # share of places that hold nothing but zeros, as far as the engine knows
    reads_ns: I64 = field(default_factory=_no_latencies)
    reads: Coherence = NONE
    back_ns: I64 = field(default_factory=_no_latencies)
    back: Coherence = NONE
    wide: Writes | None = None
    mixed: Mixed | None = None
    narrow: list[Writes] = field(default_factory=list)
    flushed_narrow: list[Writes] = field(default_factory=list)
    flush_ns: I64 = field(default_factory=_no_latencies)
    sustained: Sustained = field(default_factory=lambda: Sustained.of([]))
    read_back: ReadBack | None = None
    elsewhere: tuple[Writes, ...] = ()
    mixed_elsewhere: dict[int, Mixed] = field(default_factory=dict)
    """Writes with a random read before each in those of these parts in which writes look like neither."""
    all_over: AllOver | None = None
    """Whether writes to new places waited as for regions to be rewritten; None where that is not known."""
    settled: Settled | None = None
    crowded_ns: I64 = field(default_factory=_no_latencies)
    """Writes, with the reads between them, of which many waited as for cleaning."""
    looked: Looked | None = None
    """What looks at such writes showed."""
    kept: Kept | None = None
    """What a quick answer saw of blocks that were read behind more than memory holds."""
    forced: Mixed | None = None
    """Writes with FUA, each behind a random read, where they wait for the medium and plain ones do not."""
    emptied: bool = False
    """Whether writes waited so, the cache was then emptied, and everything else here was written after."""
    few: bool = False
    """Whether that cache holds so little that no more was written than shows where it is."""
    why_cut: str = ""
    """Why the evidence ends before the procedure does, as a sentence."""
    full: Observed | None = None
    """What was seen before a cache that was full was emptied."""

    def write_anew(self) -> None:
        """Forgets what writes showed: the cache that was full is empty now."""
        begun = Observed()
        self.full = replace(self)
        for name in OF_WRITES:
            setattr(self, name, getattr(begun, name))
        self.emptied = True

    @property
    def cleaned_early(self) -> bool:
        """True if a quick answer saw bands cleaned between the 4 KiB writes and doubted no further."""
        return self.quick and len(self.flush_ns) == 0 and cleaned_early(self.wide, self.mixed)

    @property
    def stalled(self) -> bool:
        """True if bands were cleaned between writes."""
        if self.emptied or len(self.crowded_ns) or cleaned_early(self.wide, self.mixed):
            return True
        return self.wide is not None and self.sustained.cleaned(self.wide)

    @property
    def outlasts(self) -> bool:
        """True if writes take longer than a volatile cache would, whatever it says of itself."""
        return self.mixed is not None and self.mixed.outlasts

    @property
    def ladder(self) -> list[Writes]:
        """Narrow writes that count: those with a FLUSH each if there are any."""
        return self.flushed_narrow or self.narrow
