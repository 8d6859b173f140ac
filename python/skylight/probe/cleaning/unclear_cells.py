"""Cells of a half-written stretch of which looks say the same whatever becomes of them.

A look at a chunk goes on to the next track where one ends amid it. There it takes longer by the skew, on a
fast disk by more than half a revolution, and looks cached before anything was written. Or the approach lies
on the track before, and it looks home right behind its writing. Both come again with each look, so that more
looks do not help, as they do against delays. Such cells are taken to go home with the nearest other cell: a
band goes home as a whole.

Source: `skylight.infer.cached_or_native` (the edge of a track between approach and look).
"""

from __future__ import annotations

import numpy as np

from skylight.evidence import I64, Bools

MOST_UNCLEAR_ROW, MOST_UNCLEAR = 2, 0.4
"""Cells in a row, and a part of all, that looks may misread whatever becomes of them: where a track ends amid
a chunk. Chosen: of tracks of 256 KiB, the shortest that pass under a chunk of 64 KiB and a block on either
side, every third cell has an end, and two in a row one time in ten; more in a row are a part of a band."""


def unclear_of(before: Bools, written: Bools) -> Bools:
    """Cells that looks misread, by looks that find them home before and right behind their writing: they look
    cached before, or home behind it, alone or beside one more. None where these are too many.

    >>> unclear_of(np.array([1, 0, 1, 1, 1, 1, 1], bool), np.array([0, 0, 0, 0, 1, 1, 1], bool)).nonzero()[0]
    array([1])
    """
    odd = np.concatenate([[False], ~before | written, [False]])
    edges = np.flatnonzero(odd[1:] != odd[:-1]).reshape(-1, 2)
    for first, end in edges[edges[:, 1] - edges[:, 0] > MOST_UNCLEAR_ROW]:
        odd[first + 1 : end + 1] = False
    unclear = np.asarray(odd[1:-1], np.bool_)
    return unclear if np.count_nonzero(unclear) <= MOST_UNCLEAR * len(unclear) else np.zeros_like(unclear)


def nearest_clear(unclear: Bools) -> I64:
    """For each cell itself, or the nearest that is clear.

    >>> nearest_clear(np.array([True, False, True, True, False])).tolist()
    [1, 1, 1, 4, 4]
    """
    cells, clear_cells = np.arange(len(unclear)), np.flatnonzero(~unclear)
    return np.asarray(clear_cells[np.abs(cells[:, None] - clear_cells).argmin(axis=1)], np.int64)
