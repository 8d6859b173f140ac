"""Clips with a known truth: random drives, viewpoints, cameras and movements of the head, filmed by the
renderer.

Used by the tests and by bench/camera.py. A seed makes a clip. Positions are compared on the scale of the
extremes that the clip shows, which is the one that tracking uses where nothing else is known."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from skylight.camera import scene
from skylight.camera.angle_to_position import Arm
from skylight.camera.arm_motion import Motion, Traced
from skylight.camera.render import Clip, Film, through_window, write
from skylight.camera.scene import Look, View
from skylight.camera.seek_detection import Reading, read
from skylight.camera.track_head import Track, track

SIZE = (224, 160)
PLACES = 9


@dataclass(frozen=True)
class Case:
    """A clip and how it is filmed."""

    clip: Clip
    view: View
    look: Look
    arm: Arm

    def frames(self) -> Iterator[NDArray[np.uint8]]:
        """The frames, one at a time."""
        return through_window(self.clip, self.view, self.look, self.arm)

    def truth(self) -> NDArray[np.float64]:
        """The position in each frame on the scale of the extremes of this clip."""
        return self.scaled(self.clip.truth())

    def scaled(self, position: NDArray[np.float64]) -> NDArray[np.float64]:
        """Positions on the scale of the extremes of this clip."""
        seen = self.clip.truth()
        return np.asarray((position - seen.min()) / np.ptp(seen), np.float64)

    def film(self, path: Path) -> Path:
        """Writes the clip."""
        write(path, self.frames(), (self.view.width, self.view.height), self.clip.film, lambda _done: None)
        return path


def movement(rng: np.random.Generator, rate_hz: float, places: int = PLACES) -> tuple[Motion, float]:
    """Seeks between random places, each over more than 6 % of the stroke; the movement and its length, s."""
    visits = [0.0, *rng.random(places - 2), 1.0]
    rng.shuffle(visits)
    rows = []
    now, at = 0.0, visits[0]
    for wanted in visits[1:]:
        target = wanted if abs(wanted - at) > 0.06 else (at + 0.3 if at < 0.5 else at - 0.3)
        now += max(rng.uniform(0.005, 0.03), 5 / rate_hz)
        takes = 0.002 + 0.014 * np.sqrt(abs(target - at))
        rows.append((now, now + takes, at, target))
        now, at = now + takes, target
    start, end, source, target = np.array(rows).T
    return Motion(start, end, source, target, np.ones(len(rows), np.bool_)), now + max(0.01, 6 / rate_hz)


def drawn(seed: int, widest: int = 320, fastest_hz: float = 1000.0) -> Case:
    """A random clip: rates from 240 frames/s, pictures from 160 px wide, dark and bright arms."""
    rng = np.random.default_rng(seed)
    rate_hz = float(np.exp(rng.uniform(np.log(240), np.log(fastest_hz))))
    width = int(np.exp(rng.uniform(np.log(160), np.log(widest)))) // 2 * 2
    height = int(width * rng.uniform(0.57, 0.75)) // 2 * 2
    motion, length_s = movement(rng, rate_hz)
    film = Film(
        rate_hz, 30000 / 1001, rng.uniform(0.2, 0.95), rng.uniform(0.5, 5),
        rng.uniform(0.3, 1.2) * max(1, width / 320), rng.uniform(0, 0.06), rng.uniform(0, 90),
        int(rng.integers(18, 32)), bool(rng.integers(2)), seed,
    )  # fmt: skip
    arm = Arm(57 * rng.uniform(0.97, 1.03), 52 * rng.uniform(0.97, 1.02))
    ground = rng.uniform(20, 90)
    bright = rng.uniform(ground + 70, 220) if rng.integers(2) or ground < 60 else ground - 50
    look = Look(ground, bright, rng.uniform(50, 110), rng.uniform(26, 40), rng.uniform(4, 20), seed)
    view = scene.window_view(
        width, height, arm, rng.uniform(0, 2 * np.pi), rng.uniform(0.7, 1.2), rng.uniform(0.92, 1)
    )
    return Case(Clip(motion, 0.0, int(length_s * rate_hz), film), view, look, arm)


def film(
    trace: Traced, path: Path, start_s: float, frames: int, rate_hz: float, size: tuple[int, int] = SIZE
) -> tuple[Clip, Track, Reading]:
    """A film through the window, and what it shows."""
    clip = Clip(trace.motion, start_s, frames, Film(rate_hz))
    write(path, through_window(clip, scene.window_view(*size, Arm())), size, clip.film, lambda _done: None)
    found = track(path)
    return clip, found, read(found.position, found.confidence, rate_hz)
