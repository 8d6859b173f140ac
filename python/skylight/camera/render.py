"""The virtual window: a film of an emulated drive's head, with the truth beside it.

A frame's exposure is centred on its time; what moves during it is blurred by drawing the arm several times.
The truth is the position at that time, and every seek, in the units of what tracking returns.

Invariants: the same motion, settings and seed give the same frames; frames are made and written one at a
time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from skylight.camera import scene
from skylight.camera.angle_to_position import Arm
from skylight.camera.arm_motion import Drive, Motion, read_trace
from skylight.camera.scene import Look, View
from skylight.camera.video import U8Frames, VideoWriter, opencv
from skylight.errors import KeepError, UsageError

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

# The arm is drawn once for this many pixels that its end moves during an exposure, and at most so often.
PX_A_DRAWING, MOST_DRAWINGS = 1.5, 24
# Rows of a picture are exposed together up to this size: a fraction of a processor's second cache.
CACHED_BYTES = 1 << 17
# Lamps flicker at twice the mains frequency.
LAMP_HZ = 120.0


@dataclass(frozen=True)
class Film:
    """A camera: its rate (frames/s), the clip's, the share of a frame that is exposed, and its faults."""

    rate_hz: float = 480.0
    playback_hz: float = 30000 / 1001
    exposure: float = 0.9
    noise: float = 2.0
    """Standard deviation, grey levels."""
    blur_px: float = 0.6
    flicker: float = 0.03
    """Amplitude of the lamps' flicker."""
    glare: float = 60.0
    """Brightest level of a lamp's reflection."""
    quality: int = 24
    """Of the encoder (x264's rate factor): 18 is hardly seen, 35 is coarse."""
    colour: bool = False
    seed: int = 1


@dataclass(frozen=True)
class Clip:
    """What is filmed: a motion from `start_s` on, for a number of frames."""

    motion: Motion
    start_s: float
    frames: int
    film: Film = field(default_factory=Film)

    def times_s(self) -> F64:
        """Middle of each exposure, s of the motion."""
        return self.start_s + np.arange(self.frames) / self.film.rate_hz

    def truth(self) -> F64:
        """The position in each frame."""
        return self.motion.at(self.times_s())

    def seeks(self, least: float = 0.05) -> list[tuple[float, float, float, float]]:
        """Seeks within the clip: start and end in frames, where from and to."""
        found = []
        for start_s, end_s, source, target in self.motion.seeks(least):
            start, end = ((at - self.start_s) * self.film.rate_hz for at in (start_s, end_s))
            if start >= 0 and end <= self.frames - 1:
                found.append((start, end, source, target))
        return found


def write(
    path: Path, frames: Iterator[U8Frames], size: tuple[int, int], film: Film, advance: Callable[[int], None]
) -> None:
    """Encodes frames."""
    kind = "yuv420p" if film.colour else "gray"
    options = ["-c:v", "libx264", "-preset", "veryfast", "-crf", str(film.quality), "-pix_fmt", kind]
    if path.suffix in (".avi", ".mkv") and film.quality <= 0:
        options = ["-c:v", "ffv1"]
    with VideoWriter(path, size, film.playback_hz, options, colour=film.colour) as writer:
        for number, frame in enumerate(frames):
            writer.write(frame)
            advance(number + 1)


def plain(
    clip: Clip, drive: Drive, view: View, purpose: Callable[[float], str], arm: Arm | None = None
) -> Iterator[U8Frames]:
    """Frames as a slide draws them, in colour."""
    cv2 = opencv()
    arm = Arm() if arm is None else arm
    ground = scene.plain_ground(view, drive, arm)
    size = view.width / 900
    edge, letters = round(12 * size), max(0.42, 0.7 * size)
    scene.draw_legend(ground, drive, (edge + 2, edge + 3), letters)
    for time_s, position in zip(clip.times_s(), clip.truth(), strict=True):
        picture = ground.copy()
        scene.draw_plain_arm(picture, arm, view, float(position))
        doing = purpose(float(time_s)).replace("_", " ")
        words = f"{drive.name}  {1e3 * time_s:9.2f} ms  position {position:.3f}  {doing}"
        cv2.putText(
            picture, words, (edge + 2, view.height - edge - 3), cv2.FONT_HERSHEY_SIMPLEX,
            letters, scene.INK, max(1, round(size)), cv2.LINE_AA,
        )  # fmt: skip
        yield picture


def through_window(
    clip: Clip, view: View, look: Look | None = None, arm: Arm | None = None
) -> Iterator[U8Frames]:
    """Frames as a camera takes them, grey or in colour."""
    look, arm, film = Look() if look is None else look, Arm() if arm is None else arm, clip.film
    rng = np.random.default_rng(film.seed)
    ground, window = scene.filmed_ground(view, look, arm)
    ground += _glare(view, film, rng)
    phase = rng.uniform(0, 2 * np.pi)
    # Lamps light one side more than the other.
    lit = 1 + 0.5 * np.linspace(-1, 1, view.width, dtype=np.float32)[None]
    tint = rng.uniform(0.9, 1.1, 3).astype(np.float32)
    camera = _Camera(view, film, tint, rng)
    drawn, shown = np.empty(0), ground.copy()
    for time_s in clip.times_s():
        positions = _positions(clip, view, arm, float(time_s))
        if not np.array_equal(positions, drawn):  # a resting arm is drawn once
            np.copyto(shown, ground)
            _draw_arm(shown, window, view, look, arm, positions)
            drawn = positions
        light = 1 + film.flicker * float(np.sin(2 * np.pi * LAMP_HZ * time_s + phase)) * lit
        yield camera.taken(shown, light)


class _Camera:
    """What a camera makes of a scene: blur, colour, noise and whole grey levels.

    It works on some rows at a time, which stay in the processor's cache, in arrays that it keeps.
    """

    def __init__(self, view: View, film: Film, tint: F32, rng: np.random.Generator) -> None:
        self._film, self._tint, self._rng = film, tint, rng
        grey = (view.height, view.width)
        self._lit, self._blurred = np.empty(grey, np.float32), np.empty(grey, np.float32)
        self._shape = (*grey, 3) if film.colour else grey
        self._rows = max(1, CACHED_BYTES * view.height // (4 * int(np.prod(self._shape))))
        some = (self._rows, *self._shape[1:])
        self._picture, self._noise, self._sigma = (np.empty(some, np.float32) for _ in range(3))

    def taken(self, shown: F32, light: F32) -> U8Frames:
        """The frame of a scene under lamps of that brightness, a row for all rows."""
        picture = np.multiply(shown, light, out=self._lit)
        if self._film.blur_px > 0:
            picture = opencv().GaussianBlur(picture, (0, 0), self._film.blur_px, dst=self._blurred)
        frame = np.empty(self._shape, np.uint8)
        for first in range(0, len(picture), self._rows):
            part = slice(first, first + self._rows)
            self._expose(picture[part], frame[part])
        return frame

    def _expose(self, light: F32, levels: U8Frames) -> None:
        """Writes the grey levels of some rows, of one after the other."""
        film, tint, count = self._film, self._tint, len(light)
        picture, sigma, noise = self._picture[:count], self._sigma[:count], self._noise[:count]
        if film.colour:
            for channel in range(3):
                np.multiply(light, tint[channel], out=picture[..., channel])
        else:
            np.copyto(picture, light)
        if film.noise > 0:
            np.maximum(picture, 0, out=sigma)
            sigma /= 128
            sigma += 0.5
            np.sqrt(sigma, out=sigma)
            sigma *= film.noise
            self._rng.standard_normal(dtype=np.float32, out=noise)
            noise *= sigma
            picture += noise
        np.rint(picture, out=picture)
        np.clip(picture, 0, 255, out=picture)
        np.copyto(levels, picture, casting="unsafe")


def _glare(view: View, film: Film, rng: np.random.Generator) -> F32:
    """Reflections of a lamp: bright spots that stay."""
    x, y = np.arange(view.width, dtype=np.float32)[None], np.arange(view.height, dtype=np.float32)[:, None]
    light = np.zeros((view.height, view.width), np.float32)
    for _ in range(3):
        at = rng.uniform(0, view.width), rng.uniform(0, view.height)
        wide = rng.uniform(0.04, 0.15) * view.width
        light += film.glare * np.exp(-((x - at[0]) ** 2 + (y - at[1]) ** 2) / (2 * wide**2)).astype(
            np.float32
        )
    return light


def _positions(clip: Clip, view: View, arm: Arm, time_s: float) -> F64:
    """Where the head is when the arm is drawn for an exposure: the more often, the farther it moves."""
    half_s = clip.film.exposure / clip.film.rate_hz / 2
    ends = clip.motion.at(np.linspace(time_s - half_s, time_s + half_s, 9))
    swing = float(np.ptp(arm.angle(ends))) * arm.arm_mm * view.scale
    drawings = int(np.clip(np.ceil(swing / PX_A_DRAWING), 1, MOST_DRAWINGS))
    return clip.motion.at(time_s + half_s * (2 * (np.arange(drawings) + 0.5) / drawings - 1))


def _draw_arm(picture: F32, window: F32, view: View, look: Look, arm: Arm, positions: F64) -> None:
    """Draws the arm over the ground, blurred over the positions that it takes during an exposure."""
    corners = np.concatenate(
        [
            points
            for at in (positions.min(), positions.max())
            for points, _ in scene.arm_parts(arm, view, float(at))
        ]
    )
    low = np.clip(np.floor(corners.min(axis=0)).astype(int) - 2, 0, None)
    high = np.minimum(np.ceil(corners.max(axis=0)).astype(int) + 3, [view.width, view.height])
    if (high <= low).any():
        return
    part = (slice(int(low[1]), int(high[1])), slice(int(low[0]), int(high[0])))
    layers = np.zeros((2, high[1] - low[1], high[0] - low[0]), np.float32)
    for position in positions:
        scene.add_filmed_arm(layers, arm, view, look, float(position), part)
    layers *= window[part] / len(positions)
    picture[part] = picture[part] * (1 - layers[0]) + layers[1]


def film_trace(
    trace: Path, path: Path, when: tuple[float, int], size: tuple[int, int], film: Film, *, filmed: bool,
    advance: Callable[[int, int], None],
) -> Path:  # fmt: skip
    """Films a head trace from a time on (s) for a number of frames; returns the file with the truth."""
    traced = read_trace(trace)
    start_s, count = when
    last_s = float(traced.since_s[-1])
    if start_s > last_s:
        raise UsageError(f"--start {start_s:g}: the last access of {trace} begins at {last_s:.3f} s")
    truth = path.with_name(f"{path.stem}.truth.json")
    arm = Arm()
    if filmed:
        film_kind, view = film, scene.window_view(*size, arm)
        clip = Clip(traced.motion, start_s, count, film_kind)
        pictures = through_window(clip, view, None, arm)
    else:
        film_kind, view = replace(film, colour=True), scene.whole_view(*size)
        clip = Clip(traced.motion, start_s, count, film_kind)
        pictures = plain(clip, traced.drive, view, traced.purpose_at, arm)
    write(path, pictures, size, film_kind, lambda done: advance(done, count))
    try:
        truth.write_text(truth_text(clip, traced.drive), encoding="utf-8")
    except OSError as error:
        raise KeepError(f"{truth}: cannot be written: {error.strerror}; choose another -o FILE") from error
    return truth


def truth_text(clip: Clip, drive: Drive) -> str:
    """The truth about a film, as JSON: rate, regions, seeks in frames, and the position in every frame."""
    seeks = [
        {
            "start_frame": round(start, 3),
            "end_frame": round(end, 3),
            "from": round(source, 5),
            "to": round(target, 5),
        }
        for start, end, source, target in clip.seeks()
    ]
    facts = {
        "format": "skylight-camera-truth", "schema": 1, "drive": drive.name, "capture_hz": clip.film.rate_hz,
        "start_s": clip.start_s, "cache": drive.cache, "map": drive.map, "seeks": seeks,
        "positions": [round(float(position), 5) for position in clip.truth()],
    }  # fmt: skip
    return json.dumps(facts) + "\n"
