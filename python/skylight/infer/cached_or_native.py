"""Does a block that was written lie in the persistent cache, or at its native place? Two reads tell.

The first read, the *approach*, ends just before the block's neighbour, which was never written and so lies at
its native place. The second, the *look*, begins there. On a drive whose cache is on the disk it spans the
block and a neighbour on either side: if the block lies between them, the look just misses its place and waits
one revolution; if it lies elsewhere, the heads go there and come back to the same track, which takes whole
revolutions more. So a look lasts one revolution or at least two, whatever the seek curve, and 1.5 revolutions
divide them. On a drive whose cache is flash the look is the block alone: at its native place it waits a
revolution, from flash it comes in a small part of one.

Slow outliers mislead: they make a native block look cached where the cache is on the disk, and a cached one
native where it is flash. So does the edge of a track between approach and look: the next block then comes
after the skew, not after a revolution, and the opposite happens. Both are rare; of several blocks most are
right.

Look-ahead would have what follows the approach in a buffer; where it stays on, the approach is the block
behind those that are looked at.

Invariant: each block is looked at once, so a read buffer of the drive has no part in it.
Source: Skylight (FAST '15) section 4.4 (fragmented reads) and 4.3 (a missed rotation), reduced to one block.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skylight.evidence import I64, IoBatch, IoLog, Op

DISK_TURNS = 1.5
FLASH_TURNS = 0.5
LINK_TURNS = 0.8
"""Of a revolution that a look at a block in flash takes at most for it to be told from one at home, which
takes a revolution less the host's gap. Chosen: a tenth of a revolution on either side of the limit."""
SHORTEST = 0.02
"""The quantile of looks at cached blocks that stands for the shortest of them, without those that look at
home: a tenth may be two revolutions where all others are three, and each look that is misread counts once and
for all."""


def looks(
    blocks: ArrayLike, block_bytes: int, *, flash: bool, backwards: bool = False, count: int = 1
) -> IoBatch:
    """An approach and a look for each block (byte offsets, each at least three blocks from either end), or
    for each `count` blocks in a row that were written together.

    `backwards`, the approach begins behind what is looked at, so that what a drive reads ahead of it is not
    what is asked for next; a block at its native place still has to wait nearly a revolution."""
    at = np.ascontiguousarray(blocks, np.uint64)
    one, behind = np.uint64(block_bytes), np.uint64(count * block_bytes)
    offset = np.empty(2 * len(at), np.uint64)
    size = np.full(2 * len(at), block_bytes, np.uint32)
    if flash:
        offset[0::2], offset[1::2] = at - one, at
        size[1::2] = count * block_bytes
    else:
        offset[0::2], offset[1::2] = at - one - one, at - one
        size[1::2] = (count + 2) * block_bytes
    if backwards:
        offset[0::2] = at + (behind if flash else behind + one)
    return IoBatch(np.full(2 * len(at), int(Op.READ), np.uint8), offset, size)


def look_ns(log: IoLog) -> I64:
    """Latency of each look of a batch made by `looks`, ns."""
    return log.latency_ns[1::2]


def turn_of(native_ns: I64) -> float:
    """One revolution, ns: the median of looks at blocks that were never written. A look is longer by the time
    that its blocks take to pass, a few per cent at most."""
    return float(np.median(native_ns))


def limit_of(rotation_ns: float, *, flash: bool, cached_ns: I64 | None = None) -> float:
    """What divides looks, ns; where nearly all of some looks (`cached_ns`) were at blocks in the cache, by
    these. On a disk those may take several revolutions; a look at home now and then takes two, where the way
    to the drive is long, so the limit is half-way between one and what the shortest of those take. From
    flash a block may take most of a revolution over a slow link, while one at home takes no less than one:
    there the limit is half-way between as well.

    >>> limit_of(5e6, flash=False, cached_ns=np.array([26, 26, 36]) * 1_000_000) / 1e6
    15.5
    >>> limit_of(4e6, flash=True, cached_ns=np.array([2.2e6, 2.2e6, 30e6])) / 1e6
    3.1
    """
    limit_ns = (FLASH_TURNS if flash else DISK_TURNS) * rotation_ns
    if cached_ns is None:
        return limit_ns
    if flash:
        usual_ns = float(np.median(cached_ns))
        return (usual_ns + rotation_ns) / 2 if usual_ns < LINK_TURNS * rotation_ns else limit_ns
    cached_ns = cached_ns[cached_ns > limit_ns]
    shortest_ns = float(np.quantile(cached_ns, SHORTEST)) if len(cached_ns) else 0.0
    return max(limit_ns, (rotation_ns + shortest_ns) / 2)


def at_home(
    latency_ns: I64, rotation_ns: float, *, flash: bool, limit_ns: float | None = None
) -> NDArray[np.bool_]:
    """Whether each look found its block at its native place, by a limit of `limit_of` or that of cached looks
    of two revolutions; see the module's page for what misleads it."""
    if limit_ns is None:
        limit_ns = limit_of(rotation_ns, flash=flash)
    return latency_ns > limit_ns if flash else latency_ns < limit_ns
