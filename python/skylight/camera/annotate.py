"""The clip with what was found drawn into it: the arm's direction, the arc of its end, position and
confidence.

Invariant: frames are read and written one chunk at a time, at the clip's own playback rate.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from skylight.camera.frame_rate import Rate
from skylight.camera.seek_detection import LEAST_CONFIDENCE
from skylight.camera.track_head import Track
from skylight.camera.video import VideoWriter, frames, opencv

VIDEO_NAME = "annotated.mp4"
# A clip is enlarged to this width for its text to be legible, by whole numbers, and never made larger than
# it comes.
LEGIBLE_PX = 440
# Words and lines of a picture that is wider than this grow with it: it will be looked at made smaller.
PLAIN_PX = 900
# Yellow, vermilion and sky blue of Okabe and Ito's palette, which the colour-blind tell apart; lines have a
# dark edge, so that they show on metal too, and what is doubtful has a cross for its end. Blue, green, red.
SURE, DOUBTFUL, ARC, EDGE = (66, 228, 240), (0, 94, 213), (233, 180, 86), (0, 0, 0)
WORDS = (235, 235, 235)
# Heights of the words above and of the graph below, in a picture of up to that width.
WORDS_PX, STRIP_PX = 22, 64
SHIFT = 4


def annotated(
    path: Path, found: Track, rate: Rate, advance: Callable[[int, int], None] | None = None
) -> None:
    """Writes the annotated clip."""
    cv2 = opencv()
    clip = found.clip
    zoom = max(1, -(-LEGIBLE_PX // clip.width))
    width, height = clip.width * zoom // 2 * 2, clip.height * zoom // 2 * 2
    size = max(1.0, width / PLAIN_PX)
    graph = _strip(found, width, size)
    below = len(graph)
    options = ["-c:v", "libx264", "-preset", "veryfast", "-crf", "20", "-pix_fmt", "yuv420p"]
    number = 0
    with VideoWriter(path, (width, height + below), clip.playback_hz, options) as writer:
        for chunk in frames(clip, (clip.width, clip.height), colour=True):
            for frame in chunk[: found.frames - number]:
                picture = np.empty((height + below, width, 3), np.uint8)
                picture[:height] = cv2.resize(frame, (width, height), interpolation=cv2.INTER_LINEAR)
                picture[height:] = graph
                _draw(picture, found, rate, number, zoom, height, size)
                writer.write(picture)
                number += 1
            if advance is not None:
                advance(number, found.frames)


def _strip(found: Track, width: int, size: float) -> np.ndarray[tuple[int, int, int], np.dtype[np.uint8]]:
    """The whole graph, small, below the picture."""
    cv2 = opencv()
    height = round(STRIP_PX * size / 2) * 2
    strip = np.full((height, width, 3), 24, np.uint8)
    x = np.linspace(2, width - 3, found.frames)
    y = 5 + np.clip(found.position, -0.05, 1.05) * (height - 10)
    line = np.round(np.stack([x, y], axis=1) * (1 << SHIFT)).astype(np.int32)
    cv2.polylines(strip, [line], False, (200, 200, 200), round(size), cv2.LINE_AA, SHIFT)
    for name, at in (("0", 5), ("1", height - 5)):
        below = round(at + (11 * size if name == "0" else -2 * size))
        spot = (width - round(12 * size), below)
        cv2.putText(strip, name, spot, cv2.FONT_HERSHEY_SIMPLEX, 0.36 * size, WORDS, round(size), cv2.LINE_AA)
    return strip


def _draw(
    picture: np.ndarray[tuple[int, int, int], np.dtype[np.uint8]],
    found: Track, rate: Rate, number: int, zoom: int, height: int, size: float,
) -> None:  # fmt: skip
    """Draws one frame's findings."""
    cv2 = opencv()
    inner, outer = found.radius
    sure = found.confidence >= LEAST_CONFIDENCE
    thick = max(1, round(1.5 * size))

    def point(turn: float, radius: float) -> tuple[int, int]:
        x = (found.pivot[0] + radius * np.cos(turn) + 0.5) * zoom
        y = (found.pivot[1] - radius * np.sin(turn) + 0.5) * zoom
        return round(x * (1 << SHIFT)), round(y * (1 << SHIFT))

    def drawn(points: list[tuple[int, int]], colour: tuple[int, int, int]) -> None:
        line = [np.array(points, np.int32)]
        for shade, width in ((EDGE, thick + 2), (colour, thick)):
            cv2.polylines(picture[:height], line, False, shade, width, cv2.LINE_AA, SHIFT)

    if sure.any():
        ends = found.direction[sure]
        drawn([point(turn, outer) for turn in np.linspace(ends.min(), ends.max(), 40)], ARC)
    colour = SURE if sure[number] else DOUBTFUL
    turn = float(found.direction[number])
    drawn([point(turn, inner), point(turn, outer)], colour)
    x, y = point(turn, outer)
    reach = round(4 * size) << SHIFT
    if sure[number]:
        around = np.linspace(0, 2 * np.pi, 25)
        drawn([(round(x + reach * np.cos(at)), round(y + reach * np.sin(at))) for at in around], colour)
    else:
        drawn([(x - reach, y - reach), (x + reach, y + reach)], colour)
        drawn([(x - reach, y + reach), (x + reach, y - reach)], colour)
    time = ""
    if rate.capture_hz is not None:
        time = f"{1e3 * found.clip.times_s[number] * found.clip.playback_hz / rate.capture_hz:8.2f} ms  "
    place = f"position {found.position[number]:.3f}  confidence {found.confidence[number]:.2f}"
    words = f"frame {number}  {time}{place}{'' if sure[number] else ' (low)'}"
    picture[: round(WORDS_PX * size)] //= 4
    at = (round(6 * size), round(15 * size))
    cv2.putText(picture, words, at, cv2.FONT_HERSHEY_SIMPLEX, 0.42 * size, WORDS, round(size), cv2.LINE_AA)
    x = round(2 + (picture.shape[1] - 5) * number / max(found.frames - 1, 1))
    cv2.line(picture, (x, height), (x, len(picture) - 1), colour, thick)
