"""What the journal test finds."""

from __future__ import annotations

from skylight.findings import EXACTLY, Property, Right, Scope

OUT_OF_BAND_RIGHT = Right(part=0.05, of="rotation_ns")
ENTRY_MAX_RIGHT = Right(part=0.1)
MERGE_RIGHT = Right(part=0.1)

QUANTUM = Property(
    "journal_quantum_bytes", "Journal quantum", "bytes", Right(part=0.05), scope=Scope.ANYWHERE
)
ENTRY_MAX = Property(
    "journal_entry_max_bytes", "Largest journal entry", "bytes", ENTRY_MAX_RIGHT, scope=Scope.ANYWHERE
)
PACKING = Property(
    "queue_packing", "Waiting writes that share a journal entry", "writes", scope=Scope.ANYWHERE
)
OUT_OF_BAND = Property(
    "out_of_band_ns", "Out-of-band data of an entry", "ns", OUT_OF_BAND_RIGHT, scope=Scope.LOCAL
)
OUT_OF_BAND_BYTES = Property(
    "out_of_band_bytes", "Out-of-band data of an entry in bytes", "bytes", scope=Scope.ANYWHERE
)
MERGE_EVERY = Property(
    "map_merge_every", "Writes from map merge to map merge", "writes", EXACTLY, scope=Scope.ANYWHERE
)
MERGE = Property("map_merge_ns", "Time of a map merge", "ns", MERGE_RIGHT, scope=Scope.ANYWHERE)
FINDINGS: tuple[Property, ...] = (
    QUANTUM,
    ENTRY_MAX,
    PACKING,
    OUT_OF_BAND,
    OUT_OF_BAND_BYTES,
    MERGE_EVERY,
    MERGE,
)
