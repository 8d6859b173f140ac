"""Shingled disks, alone with a layer that no profile has or behind something else, with what an expert would
say."""

from __future__ import annotations

from devices.accepted_findings import (
    ALL_OF_SMR,
    CACHE_SIZES,
    SMALL_SMR,
    SMR,
    SURFACE,
    Foreign,
    Row,
    near,
    word,
)
from devices.arrays import Concatenated
from devices.base import Disk
from devices.caches import SSD_CACHE, MediaCache
from devices.stacked import CoarseThin, NeverDone, ShortDelay, SplittingBridge
from devices.tiers import WriteThrough
from skylight.truth import true_findings

OF_WORDS = ("drive_type", "cache_medium", "cache_location", "cleaning_type", "mapping")
"""What holds of a shingled disk whatever is before it that moves no data."""
OF_BANDS = ("band_bytes", "cleaning_band_ns", "cleaning_order")
ONE_BAND = """kind = "set-associative"
band = "40 MiB"
cache = "40 MiB"
cache_medium = "disk"
cache_location = "od"
"""
PATIENT = """kind = "set-associative"
band = "24 MiB"
cache = "2.4 GiB"
cache_medium = "disk"
cache_location = "od"
cleaning = "aggressive"
idle = "60 s"
"""


def over_shingled() -> list[Foreign]:
    """Shingled disks behind something that hides or adds costs."""
    return [
        Foreign(
            "smr-write-through",
            "a shingled disk; flash keeps what was read and written, and writes wait for the disk",
            lambda seed: WriteThrough("smr-write-through", Disk(SMALL_SMR, seed), SSD_CACHE),
            {"cache_medium": (word("flash"),)},
            (SMALL_SMR, (*OF_WORDS, *SURFACE, *CACHE_SIZES, *OF_BANDS)),
        ),
        Foreign(
            "smr-delayed",
            "a shingled disk behind a delay of 20 ms",
            lambda seed: ShortDelay("smr-delayed", Disk(SMALL_SMR, seed), seed),
            {},
            (SMALL_SMR, (*OF_WORDS, *SURFACE, *CACHE_SIZES, *OF_BANDS)),
        ),
        Foreign(
            "smr-split",
            "a shingled disk behind a bridge that splits commands in 64 KiB",
            lambda seed: SplittingBridge("smr-split", Disk(SMR, seed), seed),
            {},
            (SMR, (*ALL_OF_SMR, *CACHE_SIZES, *OF_BANDS, "cache_map_entries")),
        ),
        Foreign(
            "smr-never-done",
            "a shingled disk that is busy by itself all the time; when it begins to clean is not known",
            lambda seed: NeverDone("smr-never-done", Disk(SMALL_SMR, seed), seed),
            {"cleaning_type": (word("aggressive"), word("lazy"))},
            (SMALL_SMR, (*OF_WORDS, *SURFACE, *CACHE_SIZES, "band_bytes", "cleaning_order")),
        ),
        Foreign(
            "smr-thin",
            "a thin volume on a shingled disk",
            lambda seed: CoarseThin("smr-thin", Disk(SMALL_SMR, seed)),
            {"mapping": (word("dynamic"),)},
            (SMALL_SMR, (*OF_WORDS, "rotation_ns", *CACHE_SIZES)),
        ),
        Foreign(
            "smr-behind-log",
            "a shingled disk; small writes go to a log of 2 GiB at its start first",
            lambda seed: MediaCache("smr-behind-log", Disk(SMALL_SMR, seed)),
            {
                "cleaning_type": (word("aggressive"), word("lazy")),
                "cleaning_start_ns": (near(MediaCache.idle_ns, 0.2),),
                "cache_location": (word("od"), word("many")),
            },
            (SMALL_SMR, (*OF_WORDS, *SURFACE)),
        ),
    ]


def _true(layer: str) -> dict[str, list[Row]]:
    """All that is true of a disk with that layer, whose commands come one by one."""
    toml = Disk(SMALL_SMR, 1, layer=layer).toml
    truth = true_findings(toml, SMALL_SMR, "[conditions]\nqueue_depth = 1\n")
    return {name: [row] for name, row in truth.items()}


def shingled() -> list[Foreign]:
    """Shingled disks with a layer that no profile has."""
    return [
        Foreign(
            "smr-one-band",
            "a shingled disk with a cache of one band of 40 MiB",
            lambda seed: Concatenated("smr-one-band", [Disk(SMALL_SMR, seed, layer=ONE_BAND)]),
            _true(ONE_BAND),
        ),
        Foreign(
            "smr-patient",
            "a shingled disk that cleans after a minute without commands",
            lambda seed: Concatenated("smr-patient", [Disk(SMALL_SMR, seed, layer=PATIENT)]),
            _true(PATIENT),
        ),
    ]
