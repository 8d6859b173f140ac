"""What declared properties hint at where a measurement does not say whether a disk is shingled.

Invariant: a hint is labelled as declared and never makes a finding: models are sold in many versions, and
TRIM alone proves nothing.

Source: the manufacturers' own lists of shingled models: Seagate, "CMR and SMR hard drives"; Western Digital,
"WD Red NAS drives" (2020); Toshiba, "SMR in consumer drives" (2020).
"""

from __future__ import annotations

from skylight.evidence import Params

__all__ = ["hints"]

_SHINGLED_MODELS = (
    "ST5000AS00", "ST6000AS00", "ST8000AS00",
    "ST2000DM008", "ST3000DM007", "ST4000DM004", "ST6000DM003", "ST8000DM004",
    "ST2000LM015", "ST4000LM024", "ST5000LM000",
    "WD20EFAX", "WD30EFAX", "WD40EFAX", "WD60EFAX", "WD20EZAZ", "WD60EZAZ",
    "DT02ABA", "MQ04ABF", "MQ04UBB", "MQ04UBD", "HDWD240", "HDWD260", "HDWL",
)  # fmt: skip
"""Beginnings of model names that are sold as shingled, managed by the drive."""


def hints(declared: Params) -> tuple[str, ...]:
    """What a drive declares that bears on shingling, a sentence each."""
    said = []
    model = declared.get("model")
    words = str(model).split() if model else []
    listed = any(word.startswith(_SHINGLED_MODELS) for word in words)
    if listed:
        said.append(f"Its model, {model}, is sold as a shingled disk.")
    elif model:
        said.append(f"Its model, {model}, is in no list of shingled disks that is known here.")
    zoned = declared.get("zoned_drive") or declared.get("zoned")
    if isinstance(zoned, str) and zoned != "none":
        said.append(f"It declares itself {zoned}, as only shingled disks do.")
    if declared.get("rotational") is True and declared.get("trim") is True:
        said.append("It takes TRIM, which a rotating disk has a use for only if it maps its blocks.")
    return tuple(said)
