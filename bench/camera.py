"""How well the camera follows random films, and how fast: `python bench/camera.py [--seeds 1-20]`.

For each film: the 95th percentile of the position's error (share of the stroke), the largest error of a
seek's start or end (frames), seeks found and made up. Films are those of tests/camera_clips.py. At the end,
frames/s of tracking a long clip, by processor time. What invalidates it: threads of a numeric library, which
spin; OPENBLAS_NUM_THREADS=1 prevents that."""

import argparse
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from camera_clips import Case, drawn
from skylight.camera.reading import read
from skylight.camera.render import Film
from skylight.camera.track import track
from skylight.errors import SkylightError

# A seek that is found has both ends within this many frames of the truth.
NEAR_FRAMES = 1.0
LONG_FRAMES = 3000


def score(case: Case, folder: Path) -> tuple[float, int, int, int]:
    """Position error (95th percentile), seeks in truth, those found, and those made up."""
    path = case.film(folder / "film.mp4")
    found = track(path)
    error = float(np.quantile(np.abs(found.position - case.truth()), 0.95))
    seen = read(found.position, found.confidence, case.clip.film.rate_hz).seeks
    truth = case.clip.seeks()
    near = sum(
        any(max(abs(one.start - start), abs(one.end - end)) <= NEAR_FRAMES for one in seen)
        for start, end, _, _ in truth
    )
    false = sum(all(one.end < start or one.start > end for start, end, _, _ in truth) for one in seen)
    return error, len(truth), near, false


def speed(folder: Path) -> float:
    """Frames tracked a second of processor time, 224 x 160."""
    case = drawn(1, 224, 480)
    view = replace(case.view, width=224, height=160)
    case = replace(case, view=view, clip=replace(case.clip, frames=LONG_FRAMES, film=Film(seed=1)))
    path = case.film(folder / "long.mp4")
    began = os.times()
    track(path)
    # User and system time of this process and of ffmpeg: all but the last field, which is the wall clock's.
    return LONG_FRAMES / (sum(os.times()[:4]) - sum(began[:4]))


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", default="1-20", help="seeds of the films, as 1-20")
    parser.add_argument("--widest", type=int, default=640, help="widest picture, px")
    parser.add_argument("--fastest", type=float, default=10_000, help="highest rate of capture, frames/s")
    arguments = parser.parse_args()
    first, _, last = arguments.seeds.partition("-")
    rows = []
    with tempfile.TemporaryDirectory() as name:
        for seed in range(int(first), int(last or first) + 1):
            case = drawn(seed, arguments.widest, arguments.fastest)
            film = f"seed {seed}: {case.view.width}x{case.view.height}, {case.clip.film.rate_hz:.0f} frames/s"
            try:
                error, truth, near, false = score(case, Path(name))
            except SkylightError as refused:
                print(f"{film}: refused: {refused}")
                rows.append((np.inf, len(case.clip.seeks()), 0, 0))
                continue
            rows.append((error, truth, near, false))
            print(f"{film}: error {100 * error:.2f} %, {near} of {truth} seeks, {false} made up", flush=True)
        rate = speed(Path(name))
    errors, truths, nears, falses = (np.array(column) for column in zip(*rows, strict=True))
    within = float((errors < 0.02).mean())
    print(
        f"films with an error below 2 %: {100 * within:.0f} %; median error {100 * np.median(errors):.2f} %"
    )
    print(f"seeks found within a frame: {nears.sum()} of {truths.sum()}; made up: {falses.sum()}")
    print(f"tracking: {rate:.0f} frames/s, {rate / 29.97:.0f} times as fast as playback")


if __name__ == "__main__":
    main()
