"""How well the camera follows random films, and how fast: `python bench/camera.py [--seeds 1-20]`.

For each film, small ones first: the 95th percentile of the position's error (of the stroke), seeks found
with both ends within a frame, missed and made up. Films are those of tests/camera_clips.py. At the end,
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
from skylight.camera.render import Film
from skylight.camera.seek_detection import read
from skylight.camera.track import track
from skylight.errors import SkylightError

# A seek that is found has both ends within this many frames of the truth.
NEAR_FRAMES = 1.0
LONG_FRAMES = 3000
# The share of the stroke that 95 % of a film's positions are to keep within.
LARGEST_ERROR = 0.02


def pixels(case: Case) -> int:
    """Pixels of all frames of a film."""
    return case.view.width * case.view.height * case.clip.frames


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


def row(case: Case, folder: Path) -> tuple[float, int, int, int]:
    """The score of a film, printed as a row of the table; one that is refused is off without bound."""
    view = case.view
    film = f"{case.look.seed:>5} {view.width:>5} x {view.height:<5}"
    film += f"{case.clip.film.rate_hz:>7.0f}{case.clip.frames:>8}"
    try:
        error, truth, near, false = found = score(case, folder)
    except SkylightError as refused:
        print(f"{film}  refused: {refused}", flush=True)
        return np.inf, len(case.clip.seeks()), 0, 0
    print(f"{film}{100 * error:>9.2f}{near:>7}{truth - near:>8}{false:>9}", flush=True)
    return found


def summary(rows: list[tuple[float, int, int, int]]) -> None:
    """Prints what all films show, those that are refused with an infinite error and all seeks missed."""
    errors, truths, nears, falses = (np.array(column) for column in zip(*rows, strict=True))
    right = int(((errors < LARGEST_ERROR) & (nears == truths) & (falses == 0)).sum())
    quantiles = " ".join(
        f"{name} {100 * np.quantile(errors, at, method='higher'):.2f} %"
        for name, at in (("median", 0.5), ("90th", 0.9), ("95th", 0.95), ("worst", 1))
    )
    print(f"films: {len(rows)}, right in all {right}, refused {np.isinf(errors).sum()}")
    print(f"error: {quantiles}; films within {100 * LARGEST_ERROR:.0f} %: {(errors < LARGEST_ERROR).sum()}")
    print(f"seeks: {truths.sum()}, found within a frame {nears.sum()}, made up {falses.sum()}")


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", default="1-20", help="seeds of the films, as 1-20")
    parser.add_argument("--widest", type=int, default=1920, help="widest picture, px")
    parser.add_argument("--fastest", type=float, default=10_000, help="highest rate of capture, frames/s")
    parser.add_argument(
        "--megapixels", type=float, default=np.inf, help="leave larger films out (all frames)"
    )
    arguments = parser.parse_args()
    first, _, last = arguments.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    cases = sorted((drawn(seed, arguments.widest, arguments.fastest) for seed in seeds), key=pixels)
    taken = [case for case in cases if pixels(case) <= 1e6 * arguments.megapixels]
    print(" seed  picture, px  frames/s  frames  error, %  found  missed  made up")
    with tempfile.TemporaryDirectory() as name:
        rows = [row(case, Path(name)) for case in taken]
        rate = speed(Path(name))
    if rows:
        summary(rows)
    if len(taken) < len(cases):
        print(f"left out: {len(cases) - len(taken)} films with most pixels")
    print(f"tracking: {rate:.0f} frames/s, {rate / 29.97:.0f} times as fast as playback")


if __name__ == "__main__":
    main()
