"""The catalogue: each foreign device with the findings that count as right (`accepted_findings`), by kind."""

from __future__ import annotations

from devices.accepted_findings import Foreign
from devices.catalogue.arrays import arrays, many_disks, redundant
from devices.catalogue.caches import caches, media_caches, tiered
from devices.catalogue.firmware import firmware
from devices.catalogue.shingled import over_shingled, shingled
from devices.catalogue.slow_or_ailing import far_or_ailing
from devices.catalogue.solid_state import solid_state
from devices.catalogue.volumes import mapped, remapped, volumes

CATALOGUE: tuple[Foreign, ...] = (
    *arrays(),
    *redundant(),
    *many_disks(),
    *caches(),
    *tiered(),
    *media_caches(),
    *volumes(),
    *mapped(),
    *remapped(),
    *firmware(),
    *far_or_ailing(),
    *shingled(),
    *over_shingled(),
    *solid_state(),
)
"""All foreign devices."""
