"""How well the camera follows random films, and how fast: `python bench/camera.py [--seeds 1-20]`.

For each film, small ones first: the 95th percentile of the position's error (of the stroke), seeks found
with both ends within a frame, missed ones, those of them that the tracker itself says may be more than a
frame off, how many the best fit would miss with positions that are as noisy, and made up ones. Films are
those of tests/camera_clips.py; `--films FOLDER` keeps them, so that they need not be drawn again. At the
end, frames/s of tracking two long clips, by processor time, and the memory that takes. What invalidates
it: threads of a numeric library, which spin; OPENBLAS_NUM_THREADS=1 prevents that."""

import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from camera_clips import Case, drawn
from seed_arguments import seeds_of
from skylight.camera.render import Film
from skylight.camera.seek_detection import Seek, read
from skylight.camera.seek_fit import NEAR_FRAMES
from skylight.camera.track_head import track
from skylight.camera.video import ffmpeg
from skylight.errors import SkylightError

# The long clips: this many frames, played so often one after the other.
LONG_FRAMES, PLAYED = 3000, (1, 10)
# What the noise of positions leaves open, by the Cramer-Rao bound: the Fisher information of a seek's
# start and end, in units of the way squared over its frames and the variance of a position, for an arm
# that accelerates half of the time and brakes the other. So many draws say how often the best fit is a
# frame off.
INFORMATION = np.array([[0.3667, 0.3], [0.3, 0.3667]])
DRAWS = 20_000
OPEN_FRAMES = np.sort(
    np.abs(np.random.default_rng(1).multivariate_normal(np.zeros(2), np.linalg.inv(INFORMATION), DRAWS)).max(
        axis=1
    )
)
# The share of the stroke that 95 % of a film's positions are to keep within.
LARGEST_ERROR = 0.02


def pixels(case: Case) -> int:
    """Pixels of all frames of a film."""
    return case.view.width * case.view.height * case.clip.frames


@dataclass(frozen=True)
class Score:
    """What a film shows: the position's error (95th percentile), and its seeks."""

    error: float
    seeks: int
    found: int = 0
    """With both ends within a frame."""
    named: int = 0
    """Not found, but said to be more than a frame off."""
    unavoidable: float = 0.0
    """How many the best fit of each seek alone would miss, on average, as the positions are noisy."""
    made_up: int = 0

    @property
    def missed(self) -> int:
        """Seeks that are not found, named or not."""
        return self.seeks - self.found

    @property
    def right(self) -> bool:
        """Whether nothing is wrong."""
        return self.error < LARGEST_ERROR and not self.missed and not self.made_up


def score_seeks(
    error: float, truth: list[tuple[float, float, float, float]], seen: list[Seek], noise: float = 0.0
) -> Score:
    """The score of the seeks that were seen, against start and end of those that there were, frames, and from
    where to where; the noise of a position is a share of the stroke."""
    found = named = 0
    unavoidable = 0.0
    for start, end, source, target in truth:
        spread = max(noise, 1e-9) / abs(target - source) * (end - start) ** 0.5
        unavoidable += 1 - np.searchsorted(OPEN_FRAMES, NEAR_FRAMES / spread) / DRAWS
        over = [one for one in seen if one.end >= start and one.start <= end]
        if any(max(abs(one.start - start), abs(one.end - end)) <= NEAR_FRAMES for one in over):
            found += 1
        else:
            named += any(one.doubt > NEAR_FRAMES for one in over)
    made_up = sum(all(one.end < start or one.start > end for start, end, _, _ in truth) for one in seen)
    return Score(error, len(truth), found, named, float(unavoidable), made_up)


def filmed(case: Case, folder: Path) -> Path:
    """The film in a folder, drawn if it is not there."""
    path = folder / f"{case.look.seed}.mp4"
    if not path.exists():
        case.film(unfinished := folder / "unfinished.mp4")
        unfinished.rename(path)
    return path


def score(case: Case, path: Path) -> Score:
    """Tracks the film of a case."""
    found = track(path)
    off = found.position - case.truth()
    error, noise = float(np.quantile(np.abs(off), 0.95)), float(np.std(off))
    reading = read(found.position, found.confidence, case.clip.film.rate_hz)
    return score_seeks(error, case.clip.seeks(), list(reading.seeks), noise)


# Run by a process of its own, so that its memory and time are those of tracking alone: prints the processor's
# seconds, of this process and of ffmpeg, and the most memory, MiB.
ALONE = """
import os, resource, sys
from pathlib import Path
from skylight.camera.track_head import track
began = sum(os.times()[:4])
track(Path(sys.argv[1]))
print(sum(os.times()[:4]) - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def speed(folder: Path) -> None:
    """Prints frames tracked a second of processor time, 224 x 160, and the memory, for each long clip."""
    case = drawn(1, 224, 480)
    view = replace(case.view, width=224, height=160)
    case = replace(case, view=view, clip=replace(case.clip, frames=LONG_FRAMES, film=Film(seed=1)))
    path = case.film(folder / "long.mp4")
    for played in PLAYED:
        longer = folder / f"long{played}.mp4"
        again = [ffmpeg(), "-v", "error", "-y", "-stream_loop", str(played - 1), "-i", str(path)]
        subprocess.run([*again, "-c", "copy", str(longer)], check=True)
        done = subprocess.run(
            [sys.executable, "-c", ALONE, longer], capture_output=True, text=True, check=True
        )
        seconds, memory_mib = (float(figure) for figure in done.stdout.split())
        rate = played * LONG_FRAMES / seconds
        print(
            f"tracking {played * LONG_FRAMES} frames: {rate:.0f} frames/s,"
            f" {rate / case.clip.film.playback_hz:.0f} times as fast as playback, {memory_mib:.0f} MiB"
        )


def row(case: Case, folder: Path, keep: bool) -> Score:
    """The score of a film, printed as a row of the table; one that is refused is off without bound."""
    view = case.view
    film = f"{case.look.seed:>5} {view.width:>5} x {view.height:<5}"
    film += f"{case.clip.film.rate_hz:>7.0f}{case.clip.frames:>8}"
    path = filmed(case, folder)
    try:
        one = score(case, path)
    except SkylightError as refused:
        print(f"{film}  refused: {refused}", flush=True)
        return Score(np.inf, len(case.clip.seeks()))
    finally:
        if not keep:
            path.unlink()
    counts = f"{one.found:>7}{one.missed:>8}{one.named:>7}{one.unavoidable:>13.2f}{one.made_up:>9}"
    print(f"{film}{100 * one.error:>9.2f}{counts}", flush=True)
    return one


def summary(rows: list[Score]) -> None:
    """Prints what all films show, those that are refused with an infinite error and all seeks missed."""
    errors = np.array([one.error for one in rows])
    seeks, found, named, unavoidable, made_up = (
        sum(getattr(one, name) for one in rows)
        for name in ("seeks", "found", "named", "unavoidable", "made_up")
    )
    right = sum(one.right for one in rows)
    quantiles = " ".join(
        f"{name} {100 * np.quantile(errors, at, method='higher'):.2f} %"
        for name, at in (("median", 0.5), ("90th", 0.9), ("95th", 0.95), ("worst", 1))
    )
    print(f"films: {len(rows)}, right in all {right}, refused {np.isinf(errors).sum()}")
    print(f"error: {quantiles}; films within {100 * LARGEST_ERROR:.0f} %: {(errors < LARGEST_ERROR).sum()}")
    print(f"seeks: {seeks}, found within a frame {found}, made up {made_up}")
    print(f"missed: {seeks - found}, of which it says so {named}; the best fit alone: {unavoidable:.1f}")


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=seeds_of, default="1-20", help="seeds of the films, as 1-20,30")
    parser.add_argument("--widest", type=int, default=1920, help="widest picture, px")
    parser.add_argument("--fastest", type=float, default=10_000, help="highest rate of capture, frames/s")
    parser.add_argument(
        "--megapixels", type=float, default=np.inf, help="leave larger films out (all frames)"
    )
    parser.add_argument("--films", type=Path, help="folder in which films are kept")
    arguments = parser.parse_args()
    films = (drawn(seed, arguments.widest, arguments.fastest) for seed in arguments.seeds)
    cases = sorted(films, key=pixels)
    taken = [case for case in cases if pixels(case) <= 1e6 * arguments.megapixels]
    print(" seed  picture, px  frames/s  frames  error, %  found  missed  named  unavoidable  made up")
    with tempfile.TemporaryDirectory() as name:
        rows = [row(case, arguments.films or Path(name), keep=arguments.films is not None) for case in taken]
        if rows:
            summary(rows)
        speed(Path(name))
    if len(taken) < len(cases):
        print(f"left out: {len(cases) - len(taken)} films with most pixels")


if __name__ == "__main__":
    main()
