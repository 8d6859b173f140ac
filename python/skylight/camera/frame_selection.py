"""The first look at a clip: frames that differ, frames spread over time.

A head dwells: in most clips nine frames in ten show it in one place, and some places are seen in a handful
of frames. What a background is learnt from must show every place about equally often, so frames are kept
for being unlike those already kept (the doubling algorithm for k centres, which needs one pass and a fixed
number of frames).

Invariant: memory is bounded by `SPREAD_FRAMES` and `DIVERSE_FRAMES`, whatever the length of the clip.

Source: Charikar, Chekuri, Feder and Motwani, "Incremental clustering and dynamic information retrieval"
(1997), the doubling algorithm."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skylight.camera.video import U8Frames

F32 = NDArray[np.float32]

SPREAD_FRAMES = 240
"""Frames spread evenly over the clip: noise and flicker are measured on them."""
DIVERSE_FRAMES = 48
"""Frames that are unlike each other: several at every place of the head."""
# Thumbnails are compared: small enough that noise averages out, large enough that a head covers several
# cells.
THUMB_CELLS = 28
# Two thumbnails of one place differ by noise and flicker: a tenth of a grey level where noise averages over
# a cell.
LEAST_DISTANCE = 0.15


@dataclass(frozen=True)
class Survey:
    """What one pass over a clip keeps: two samples of its frames."""

    spread: F32
    diverse: F32


class _Centres:
    """Frames unlike each other, at most `DIVERSE_FRAMES`."""

    def __init__(self) -> None:
        self.frames: list[U8Frames] = []
        self._thumbs = np.empty((0, 0), np.float32)
        self._least = LEAST_DISTANCE

    def offer(self, frames: U8Frames, thumbs: F32) -> None:
        """Keeps those of `frames` that are new."""
        if not self.frames:
            self._keep(frames[0], thumbs[0])
        nearest = _distances(thumbs, self._thumbs).min(axis=1)
        while (number := int(np.argmax(nearest > self._least))) or nearest[0] > self._least:
            self._keep(frames[number], thumbs[number])
            nearest = np.minimum(nearest, _distances(thumbs, thumbs[number : number + 1])[:, 0])
            nearest[: number + 1] = 0
            if len(self.frames) > DIVERSE_FRAMES:
                self._thin()

    def _keep(self, frame: U8Frames, thumb: F32) -> None:
        self.frames.append(frame.copy())
        self._thumbs = np.vstack([self._thumbs.reshape(-1, thumb.size), thumb])

    def _thin(self) -> None:
        """Raises the least distance until a quarter of the room is free."""
        apart = _distances(self._thumbs, self._thumbs)
        while True:
            self._least *= 1.2
            kept: list[int] = []
            for number in range(len(apart)):
                if not kept or apart[number, kept].min() > self._least:
                    kept.append(number)
            if len(kept) <= 3 * DIVERSE_FRAMES // 4:
                break
        self.frames = [self.frames[number] for number in kept]
        self._thumbs = self._thumbs[kept]


def _distances(these: F32, those: F32) -> F32:
    """Root mean square difference of every pair of thumbnails, grey levels."""
    squares = (these**2).sum(axis=1)[:, None] + (those**2).sum(axis=1)[None] - 2 * these @ those.T
    return np.asarray(np.sqrt(np.maximum(squares, 0) / these.shape[1]), np.float32)


def _thumbs(frames: U8Frames) -> F32:
    """Thumbnails whose brightness is that of their median cell, so that a lamp's flicker is not news."""
    _, height, width = frames.shape
    cell = max(1, max(height, width) // THUMB_CELLS)
    rows, columns = height // cell, width // cell
    cut = frames[:, : rows * cell, : columns * cell].reshape(len(frames), rows, cell, columns, cell)
    # Every second row and column is enough of a cell, and a quarter of the work.
    cells = cut[:, :, ::2, :, ::2].mean(axis=(2, 4), dtype=np.float32).reshape(len(frames), -1)
    level = np.median(cells, axis=1, keepdims=True)
    return np.asarray(cells - level, np.float32)


def survey(chunks: Iterator[U8Frames], count: int) -> Survey:
    """One pass over a clip of about `count` frames."""
    every = max(1, -(-count // SPREAD_FRAMES))
    centres = _Centres()
    spread: list[U8Frames] = []
    first = 0
    for chunk in chunks:
        centres.offer(chunk, _thumbs(chunk))
        spread.extend(chunk[-first % every :: every].copy())  # a view would keep the chunk
        first += len(chunk)
    return Survey(np.asarray(spread, np.float32), np.asarray(centres.frames, np.float32))
