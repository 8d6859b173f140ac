"""The virtual window: what a frame is made of."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from camera_clips import Case, drawn
from skylight.camera import scene
from skylight.camera.render import Film
from skylight.camera.video import opencv


def frames_by_themselves(case: Case) -> Iterator[NDArray[np.uint8]]:
    """Frames without glare, exposed for a moment, each drawn in whole and in arrays of its own."""
    view, film = case.view, case.clip.film
    rng = np.random.default_rng(film.seed)
    ground, window = scene.filmed_ground(view, case.look, case.arm)
    rng.uniform(size=9)  # where the lamps' reflections are and how wide, which at a glare of 0 are not seen
    phase = rng.uniform(0, 2 * np.pi)
    lit = 1 + 0.5 * np.linspace(-1, 1, view.width, dtype=np.float32)[None]
    tint = rng.uniform(0.9, 1.1, 3).astype(np.float32)
    whole = (slice(0, view.height), slice(0, view.width))
    for time_s, position in zip(case.clip.times_s(), case.clip.truth(), strict=True):
        layers = np.zeros((2, view.height, view.width), np.float32)
        scene.add_filmed_arm(layers, case.arm, view, case.look, float(position), whole)
        layers *= window
        picture = ground * (1 - layers[0]) + layers[1]
        picture = picture * (1 + film.flicker * float(np.sin(2 * np.pi * 120 * time_s + phase)) * lit)
        if film.blur_px > 0:
            picture = opencv().GaussianBlur(picture, (0, 0), film.blur_px)
        if film.colour:
            picture = picture[:, :, None] * tint
        if film.noise > 0:
            noise = rng.standard_normal(picture.shape, np.float32)
            picture = picture + noise * (film.noise * np.sqrt(0.5 + picture.clip(0) / 128))
        yield np.asarray(np.clip(np.rint(picture), 0, 255), np.uint8)


@pytest.mark.parametrize(
    "film",
    [
        Film(exposure=1e-6, glare=0, seed=3),
        Film(exposure=1e-6, glare=0, seed=4, colour=True, blur_px=0, flicker=0.06),
        Film(exposure=1e-6, glare=0, seed=5, noise=0),
        Film(exposure=1e-6, glare=0, seed=6, noise=0, blur_px=0),
    ],
    ids=["grey", "colour", "no-noise", "sharp"],
)
def test_nothing_of_a_frame_is_left_in_the_next(film: Film) -> None:
    # Frames are made in arrays that are kept, and a resting arm is drawn once; pixels are those of frames
    # each made by itself.
    case = drawn(1, 224, 480)
    case = replace(case, clip=replace(case.clip, film=film))
    made = list(case.frames())
    moves = np.abs(np.diff(case.clip.truth())) > 0
    assert moves.any()
    assert not moves.all()
    for frame, alone in zip(made, frames_by_themselves(case), strict=True):
        assert np.array_equal(frame, alone)


def test_a_longer_exposure_shows_the_arm_where_it_was_and_where_it_is() -> None:
    case = drawn(1, 224, 480)
    sharp = replace(case.clip.film, noise=0.0, blur_px=0.0, flicker=0.0, exposure=1e-6)
    films = [replace(sharp, exposure=exposure) for exposure in (1e-6, 0.9)]
    still, smeared = (list(replace(case, clip=replace(case.clip, film=film)).frames()) for film in films)
    steps = np.abs(np.diff(case.clip.truth(), prepend=np.nan, append=np.nan))
    speed = np.minimum(steps[:-1], steps[1:])
    fast, rest = int(np.nanargmax(speed)), int(np.nanargmin(speed))
    assert np.array_equal(still[rest], smeared[rest])
    # What the arm covers for a part of the time is between arm and ground.
    darkest, brightest = (int(level) for level in np.quantile(still[fast], [0.01, 0.99]))
    between = [
        int(((frame > darkest + 30) & (frame < brightest - 30)).sum())
        for frame in (still[fast], smeared[fast])
    ]
    assert between[1] > between[0]
