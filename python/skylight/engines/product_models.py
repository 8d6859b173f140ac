"""Models of disks that are publicly known to be shingled or conventional: a hint, labelled as one.

Invariants: a model is known only if a source names it, or its family and capacity, and the hint carries that
source; nothing that measures or infers reads it, because models are sold in several versions under one name.

Source: `engines/product_models.toml`, where each list names its own.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

TABLE = Path(__file__).with_suffix(".toml")
SHOWN_CHARACTERS = 16
"""What the kernel shows of the model of a SCSI or ATA disk (SPC-5, INQUIRY, PRODUCT IDENTIFICATION)."""
LEAST_CHARACTERS = 8
"""Beginning of a model that tells one from others. Chosen: shorter ones name series of several kinds."""


@dataclass(frozen=True, slots=True)
class Listed:
    """What a public list says of a model: how it records, who places the data if shingled, and the list."""

    recording: Literal["smr", "cmr"]
    managed_by: str | None
    source: str
    url: str

    def to_json(self) -> dict[str, str | None]:
        """The JSON form."""
        return {
            "recording": self.recording, "managed_by": self.managed_by, "source": self.source, "url": self.url
        }  # fmt: skip


@cache
def table() -> dict[str, Listed]:
    """All models that are known, by the beginning of a word of their names."""
    lists = tomllib.loads(TABLE.read_text(encoding="utf-8"))["list"]
    return {
        model: Listed(one["recording"], one.get("managed_by"), one["source"], one["url"])
        for one in lists
        for model in one["models"]
    }


def listed(model: str) -> Listed | None:
    """What is known of the model that a disk declares; None if no list has it.

    A model that fills what the kernel shows may be cut off: its last word is also looked for at the beginning
    of the names that are known, which all have to say the same of it.

    >>> listed("WDC WD40EFAX-68JH4N0").recording
    'smr'
    """
    words = model.split()
    for name, found in table().items():
        if any(word.startswith(name) for word in words):
            return found
    if len(model) != SHOWN_CHARACTERS or len(words[-1]) < LEAST_CHARACTERS:
        return None
    longer = [found for name, found in table().items() if name.startswith(words[-1])]
    kinds = {(found.recording, found.managed_by) for found in longer}
    return longer[0] if len(kinds) == 1 else None
