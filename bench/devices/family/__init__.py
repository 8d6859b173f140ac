"""The family: each foreign device with what an expert would say of it (`expert`), by kind."""

from __future__ import annotations

from devices.expert import Foreign
from devices.family.arrays import arrays, redundant
from devices.family.cached import caches, tiered
from devices.family.fourth import fourth_batch
from devices.family.mapped import mapped, remapped, volumes
from devices.family.others import far_or_ailing, flash
from devices.family.second import second_batch
from devices.family.third import third_batch

FAMILY: tuple[Foreign, ...] = (
    *arrays(),
    *caches(),
    *volumes(),
    *redundant(),
    *mapped(),
    *remapped(),
    *tiered(),
    *flash(),
    *far_or_ailing(),
    *second_batch(),
    *third_batch(),
    *fourth_batch(),
)
"""All foreign devices."""
