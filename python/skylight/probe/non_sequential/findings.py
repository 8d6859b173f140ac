"""What the test of non-sequential writes finds."""

from __future__ import annotations

from skylight.findings import Property, Right, Scope

CACHE = Property(
    "non_sequential_cache_bytes",
    "Non-sequential writes before the drive blocks",
    "bytes",
    Right(part=0.1),
    scope=Scope.ANYWHERE,
)
RATES = Property(
    "non_sequential_rates",
    "Non-sequential writes, before and while the drive blocks",
    "bytes/s",
    scope=Scope.ANYWHERE,
)
SPELL = Property("blocking_spell_ns", "How long the drive blocks", "ns", scope=Scope.ANYWHERE)
STALL = Property("non_sequential_stall", "Stalls of non-sequential writes", scope=Scope.ANYWHERE)
FINDINGS: tuple[Property, ...] = (CACHE, RATES, SPELL, STALL)
