"""What declared properties hint at where a measurement does not say whether a disk is shingled.

Invariant: a hint is labelled as declared and never makes a finding: models are sold in many versions, and
TRIM alone proves nothing.

Source: public lists of models, each named in `engines/product_models.toml`.
"""

from __future__ import annotations

from skylight.engines.declared import zones_of
from skylight.engines.product_models import listed
from skylight.evidence import Params

__all__ = ["hints"]

_RECORDS = {"smr": "shingled", "cmr": "conventional"}


def hints(declared: Params) -> tuple[str, ...]:
    """What a drive declares that bears on shingling, a sentence each."""
    said = []
    model = declared.get("model")
    known = listed(str(model)) if model else None
    if known is not None:
        said.append(
            f"Its model, {model}, is sold as a {_RECORDS[known.recording]} disk (declared; {known.source})."
        )
    elif model:
        said.append(
            f"Its model, {model}, is in no list of shingled or conventional disks that is known here."
        )
    zoned = zones_of(declared)
    if zoned not in (None, "none"):
        said.append(f"It declares itself {zoned}, as only shingled disks do.")
    # A loop or a virtual device, which has no model, takes TRIM for the file or the pool behind it.
    if model and declared.get("rotational") is True and declared.get("trim") is True:
        said.append("It takes TRIM, which a rotating disk has a use for only if it maps its blocks.")
    return tuple(said)
