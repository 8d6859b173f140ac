"""How many answers of each way were right, of how many: `bench/count_answers.py --write` writes it.

Counted on 28 probes of random drives 98001 to 98028;
27 probes of random drives 98001 to 98027;
40 quick probes of random drives 98001 to 98040;
40 quick probes of random drives 98001 to 98040.

Source: docs/tests/confidence.md.
"""

PSEUDO = 2.0
"""Answers of the frequency of those elsewhere that each way begins with: how ways differ says how many."""

PROBES: dict[str, tuple[int, int]] = {
    "band_bytes": (6, 6),
    "band_bytes, cache parts, edges": (16, 16),
    "band_bytes, cache parts, evenly": (10, 11),
    "band_bytes, random order": (2, 2),
    "cache_bytes": (7, 7),
    "cache_bytes, cache bands": (16, 16),
    "cache_bytes, zones": (11, 11),
    "cache_fill_bytes": (7, 7),
    "cache_fill_bytes, cache bands": (16, 16),
    "cache_fill_bytes, zones": (11, 11),
    "cache_location": (29, 29),
    "cache_map_entries": (3, 3),
    "cache_medium, flash": (4, 4),
    "cache_medium, flash, in a minute": (6, 7),
    "cache_medium, home": (8, 8),
    "cache_medium, home, in a minute": (12, 12),
    "cache_medium, log": (31, 31),
    "cache_medium, log, in a minute": (31, 31),
    "cache_medium, unseen": (9, 9),
    "cache_medium, unseen, in a minute": (16, 16),
    "cache_raw_bytes": (3, 3),
    "cache_raw_bytes, cache bands": (16, 16),
    "cache_raw_bytes, zones": (11, 11),
    "cleaning_band_ns": (13, 13),
    "cleaning_band_ns, cache bands": (16, 16),
    "cleaning_band_ns, waits": (2, 2),
    "cleaning_band_ns, zones": (2, 2),
    "cleaning_order": (31, 31),
    "cleaning_start_ns": (19, 19),
    "cleaning_start_ns, first band": (10, 10),
    "cleaning_start_ns, short pauses": (2, 2),
    "cleaning_type": (35, 35),
    "drive_type, either, in a minute": (1, 1),
    "drive_type, flash": (4, 4),
    "drive_type, flash, in a minute": (7, 7),
    "drive_type, home": (8, 8),
    "drive_type, home, in a minute": (12, 12),
    "drive_type, log": (31, 31),
    "drive_type, log, in a minute": (31, 31),
    "drive_type, unseen": (9, 9),
    "drive_type, unseen, in a minute": (16, 16),
    "journal_entry_max_bytes, fit of all sizes": (5, 8),
    "journal_entry_max_bytes, queue": (5, 5),
    "journal_entry_max_bytes, splits": (1, 1),
    "journal_quantum_bytes": (6, 6),
    "map_merge_every": (4, 4),
    "map_merge_ns": (4, 4),
    "mapping": (35, 35),
    "out_of_band_ns": (3, 3),
    "out_of_band_ns, entries anywhere": (1, 1),
    "plateaus": (1, 1),
    "rotation_ns": (45, 45),
    "seek_ns": (28, 28),
    "seek_ns, end in line": (12, 12),
    "seek_ns, zone ends": (1, 1),
    "track_bytes": (28, 28),
    "track_bytes, end in line": (12, 12),
    "track_bytes, zone ends": (1, 1),
}
