"""The camera: head positions from the paper's own clips, and from films with a known truth."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from camera_clips import Case, drawn
from skylight.camera import angle_to_position as scales
from skylight.camera import background as backgrounds
from skylight.camera import frame_rate as rates
from skylight.camera import scene, video
from skylight.camera import seek_detection as readings
from skylight.camera.frame_selection import survey
from skylight.camera.graph_files import lasts_ms
from skylight.camera.learn_arm import learn
from skylight.camera.render import write
from skylight.camera.seek_fit import way_done
from skylight.camera.track_head import Options, capture_rate, track
from skylight.cli.app import run
from skylight.errors import UsageError

Frames = list[NDArray[np.uint8]]
CLIPS = "st5000as0011-head-videos"
# The share of the stroke that 95 % of positions must keep within.
POSITION_ERROR = 0.02


# --- The paper's own clips; the numbers are counts by eye, frame by frame.


def read_clip(path: Path) -> readings.Reading:
    found = track(path)
    captured = capture_rate(found, Options(), None)
    assert captured.capture_hz == 480, captured.why
    assert "120 Hz" in captured.why
    return readings.read(found.position, found.confidence, captured.capture_hz)


def test_fragmented_reads_of_the_real_drive(data_dir: Path) -> None:
    seen = read_clip(data_dir / CLIPS / "fragmented-reads-high-offset.mov")
    assert seen.places == pytest.approx([0, 1], abs=0.02)
    assert seen.cycle is not None
    assert seen.cycle.count == 12
    assert seen.cycle.frames == pytest.approx(24.1, rel=0.03)
    whole = [seek for seek in seen.seeks if seek.whole]
    assert len(whole) == 24
    assert np.median([seek.end - seek.start for seek in whole]) == pytest.approx(7.5, abs=1.5)


def test_band_size_of_the_real_drive(data_dir: Path) -> None:
    seen = read_clip(data_dir / CLIPS / "band-size.mov")
    assert seen.places == pytest.approx([0, 1], abs=0.02)
    there, back = seen.seeks
    assert there.start == pytest.approx(134, abs=1)
    assert there.end == pytest.approx(141, abs=1)
    assert back.end == pytest.approx(242, abs=1)
    assert [dwell.place for dwell in seen.dwells] == [0, 1, 0]
    # At the OD its place wanders by 1 % while the lamps flicker: that is no pass to and fro.
    assert seen.strokes == ()
    assert seen.pattern is None


# --- Films with a known truth.


def check_against_truth(case: Case, path: Path) -> None:
    found = track(case.film(path))
    error = np.abs(found.position - case.truth())
    assert np.quantile(error, 0.95) < POSITION_ERROR
    rate_hz = case.clip.film.rate_hz
    seen = readings.read(found.position, found.confidence, rate_hz).seeks
    truth = case.clip.seeks()
    assert len(seen) == len(truth)
    for seek, (start, end, source, target) in zip(seen, truth, strict=True):
        assert seek.start == pytest.approx(start, abs=1)
        assert seek.end == pytest.approx(end, abs=1)
        assert np.sign(seek.way) == np.sign(target - source)


def test_what_the_first_background_hides_is_found(case: Case, tmp_path: Path) -> None:
    # A place where the head often is may look like background at first: here a bite is taken out of what was
    # seen to be covered.
    path = case.film(tmp_path / "film.mp4")
    clip = video.probe(path)
    size = (clip.width, clip.height)
    found = survey(video.frames(clip, size), clip.frames)
    whole = backgrounds.first(found, None)
    x, y = whole.axes()
    bite = np.hypot(x - np.median(x), y - np.median(y)) < 0.2 * np.hypot(np.ptp(x), np.ptp(y))
    bitten = np.zeros_like(whole.support)
    bitten.reshape(-1)[whole.pixels[bite]] = True
    learnt = learn(found, whole.within(~bite))
    reference = learn(found, whole)
    hidden = bitten & reference.background.support
    assert hidden.sum() > 200
    assert (learnt.background.support & hidden).sum() > 0.8 * hidden.sum()
    assert learnt.swing_rad == pytest.approx(reference.swing_rad, rel=0.05)


@pytest.mark.parametrize("number", [1, 4])
def test_random_films(number: int, tmp_path: Path) -> None:
    check_against_truth(drawn(number, 260), tmp_path / "film.mp4")


def test_a_filmed_arm_lies_where_the_truth_says() -> None:
    # OpenCV's own smoothed polygons of this size lie beside it by 0.11 px in the mean square.
    case = drawn(343, 1920, 10_000)
    view, arm = case.view, case.arm
    pivot = view.points(np.array([[arm.pivot_mm, 0.0]]))[0]
    rows, columns = np.mgrid[: view.height, : view.width]
    right, down = columns - pivot[0], rows - pivot[1]
    radius, reach = np.hypot(right, down), arm.arm_mm * view.scale
    outer = (radius > 0.6 * reach) & (radius < 0.93 * reach)
    off_px = []
    for position in np.linspace(0.02, 0.98, 97):
        layers = np.zeros((2, view.height, view.width), np.float32)
        part = (slice(0, view.height), slice(0, view.width))
        scene.add_filmed_arm(layers, arm, view, case.look, float(position), part)
        turn = scene.head_direction(arm, float(position))
        mm = np.array([[arm.pivot_mm + arm.arm_mm * np.cos(turn), arm.arm_mm * np.sin(turn)]])
        along = view.points(mm)[0] - pivot
        along /= np.hypot(*along)
        beside = (down * along[0] - right * along[1]) / radius * reach
        off_px.append(float(np.average(beside, weights=layers[0] * outer)))
    assert np.std(off_px) < 0.06


def test_a_pivot_that_seems_to_lie_on_the_other_side(tmp_path: Path) -> None:
    # On the first background of this film of a dark arm the wrong side does as well; from there ID and OD are
    # exchanged.
    case = drawn(343, 1920, 10_000)
    found = track(case.film(tmp_path / "film.mp4"))
    assert np.quantile(np.abs(found.position - case.truth()), 0.95) < POSITION_ERROR


@pytest.mark.parametrize(
    "case",
    [
        drawn(25, 320, 2000),
        *(
            pytest.param(drawn(seed, *bounds), marks=pytest.mark.long)
            for seed, bounds in ((518, (240, 600)), (524, (240, 600)), (395, (1920, 10_000)))
        ),
    ],
    ids=lambda case: f"seed{case.look.seed}",
)
def test_a_pivot_that_does_worse_on_the_first_background(case: Case, tmp_path: Path) -> None:
    # So much of these dark arms is in their first background that wrong pivots explain more of it than the
    # true one does. With the best of those, positions of 25 are off by 2.2 %, of 518 and 524 by the whole
    # stroke, and 395 is refused.
    check_against_truth(case, tmp_path / "film.mp4")


@pytest.fixture(scope="module")
def case() -> Case:
    """A small film in grey."""
    plain = drawn(1, 224, 480)
    return replace(plain, clip=replace(plain.clip, film=replace(plain.clip.film, colour=False)))


@pytest.fixture(scope="module")
def film(case: Case) -> Frames:
    return list(case.frames())


Keep = Callable[[str, Iterable[NDArray[np.uint8]]], Path]


@pytest.fixture
def keep(case: Case, tmp_path: Path) -> Keep:
    """Writes frames as a clip."""

    def kept(name: str, frames: Iterable[NDArray[np.uint8]]) -> Path:
        path = tmp_path / name
        write(path, iter(frames), (case.view.width, case.view.height), case.clip.film, lambda _done: None)
        return path

    return kept


def test_known_positions_and_mirror(case: Case, film: Frames, keep: Keep) -> None:
    path = keep("film.mp4", film)
    truth = case.clip.truth()
    at = (int(np.argmin(truth)), int(np.argmax(truth)))
    known = tuple((frame, float(truth[frame])) for frame in at)
    found = track(path, Options(known=known))
    assert np.quantile(np.abs(found.position - truth), 0.95) < POSITION_ERROR
    # Mirrored frames show the opposite; with the option, they do not.
    mirrored = keep("mirrored.mp4", [frame[:, ::-1] for frame in film])
    assert np.quantile(np.abs(track(mirrored).position - (1 - case.truth())), 0.95) < 2 * POSITION_ERROR
    right = track(mirrored, Options(mirrored=True))
    assert np.quantile(np.abs(right.position - case.truth()), 0.95) < POSITION_ERROR


# --- What shows no head.


def refusal(path: Path) -> str:
    with pytest.raises(UsageError) as refused:
        track(path)
    line = str(refused.value)
    assert line.startswith(str(path))
    assert "\n" not in line
    return line


def test_a_still_image_and_a_view_without_head(film: Frames, keep: Keep, rng: np.random.Generator) -> None:
    assert "nothing moves" in refusal(keep("still.mp4", [film[0]] * 60))
    noise = (
        np.clip(film[0] * (1 + 0.03 * np.sin(number)) + rng.normal(0, 4, film[0].shape), 0, 255)
        for number in range(80)
    )
    assert "nothing moves" in refusal(keep("none.mp4", [frame.astype(np.uint8) for frame in noise]))


def test_a_camera_that_shakes(film: Frames, keep: Keep, rng: np.random.Generator) -> None:
    shaken = [np.roll(frame, tuple(rng.integers(-2, 3, 2)), (0, 1)) for frame in film]
    assert "the camera shakes" in refusal(keep("shaken.mp4", shaken))


def test_a_rival_pivot_about_which_hardly_anything_turns(tmp_path: Path) -> None:
    # It explains more of this small film than the true one does, with the ends exchanged; it turns by
    # 7 degrees, and by 17 only if odd frames count. The arm hardly differs from the ground, so the film is at
    # the edge of what can be followed: of 13 copies in which 2 % of the pixels differ by a grey level 3 are
    # right, 7 refused and 3 off by 6.7 % of the stroke or more; 43 other films of this size, with a copy
    # each, are all right to 2.3 %. How a machine rounds decides likewise: one with AVX2 alone refuses it.
    try:
        check_against_truth(drawn(525, 240, 600), tmp_path / "film.mp4")
    except UsageError as error:
        assert "a single arm explains" in str(error), "refused, but for another reason"
        pytest.xfail(f"refused on this machine, as it should not be: {error}")


def test_a_rival_pivot_where_the_first_explains_too_little(tmp_path: Path) -> None:
    # A dark arm: the first pivot, on the wrong side of the window, explains 67 % of what moves.
    check_against_truth(drawn(1391, 1920, 10_000), tmp_path / "film.mp4")


def test_two_things_that_move(film: Frames, keep: Keep) -> None:
    height, width = film[0].shape
    rows, columns = np.mgrid[:height, :width]
    both = []
    for number, frame in enumerate(film):
        x, y = width * (0.5 + 0.4 * np.sin(0.31 * number)), height * (0.5 + 0.4 * np.cos(0.17 * number))
        both.append(np.where(np.hypot(columns - x, rows - y) < width / 14, 220, frame).astype(np.uint8))
    assert "more than one thing moves" in refusal(keep("two.mp4", both))


def test_clips_that_are_cut(film: Frames, keep: Keep, tmp_path: Path) -> None:
    whole = keep("whole.mp4", film).read_bytes()
    (tmp_path / "cut.mp4").write_bytes(whole[: len(whole) // 2])
    assert "moov atom not found" in refusal(tmp_path / "cut.mp4")
    whole = keep("whole.mkv", film).read_bytes()
    (tmp_path / "cut.mkv").write_bytes(whole[: len(whole) * 6 // 10])
    assert any("the clip is cut" in note for note in track(tmp_path / "cut.mkv").notes)


def test_files_that_are_no_clips(tmp_path: Path) -> None:
    (tmp_path / "text.mp4").write_text("no video")
    assert "no video can be read" in refusal(tmp_path / "text.mp4")
    assert "no such file" in refusal(tmp_path / "none.mp4")
    assert "not a file" in refusal(tmp_path)
    sound = tmp_path / "sound.wav"
    command = [video.ffmpeg(), "-v", "error", "-f", "lavfi", "-i", "sine=duration=1", str(sound)]
    subprocess.run(command, check=True)
    assert "no streams" in refusal(sound)


def test_a_codec_that_is_missing(film: Frames, keep: Keep, tmp_path: Path) -> None:
    path = tmp_path / "codec.avi"
    command = [video.ffmpeg(), "-v", "error", "-i", str(keep("film.mp4", film)), "-c:v", "mjpeg", str(path)]
    subprocess.run(command, check=True)
    path.write_bytes(path.read_bytes().replace(b"MJPG", b"QQQQ"))
    assert "cannot be decoded" in (line := refusal(path)) or "no video can be read" in line


def test_a_varying_rate(case: Case, film: Frames, keep: Keep, tmp_path: Path) -> None:
    path = tmp_path / "varying.mp4"
    drop = ["-vf", "select='gt(mod(n,7),0)'", "-fps_mode", "vfr"]
    subprocess.run(
        [video.ffmpeg(), "-v", "error", "-i", str(keep("film.mp4", film)), *drop, str(path)], check=True
    )
    found = track(path)
    assert any("varying intervals" in note for note in found.notes)
    kept = [number for number in range(len(film)) if number % 7]
    assert found.frames == len(kept)
    assert np.quantile(np.abs(found.position - case.truth()[kept]), 0.95) < 2 * POSITION_ERROR
    assert found.clip.times_s == pytest.approx(
        (np.array(kept) - kept[0]) / case.clip.film.playback_hz, abs=2e-3
    )
    # Lamps, cycles and seeks have the clock of the file, not that of its frames.
    flickering = replace(found, lamp=0.02 * np.sin(2 * np.pi * np.array(kept) * 120 / 480))
    captured = capture_rate(flickering, Options(), None)
    assert captured.capture_hz == 480, captured.why
    last = len(kept) - 1
    assert lasts_ms(found, captured, 0, last) == pytest.approx(1e3 * (kept[-1] - kept[0]) / 480, rel=0.01)
    period = capture_rate(found, Options(io_period_s=0.05), 24 * last / (kept[-1] - kept[0]))
    assert period.capture_hz == pytest.approx(480, rel=0.01)


# --- Rate, scale, reading.


def test_the_rate_by_lamps_rotation_and_period() -> None:
    frames = np.arange(300)
    lamp = 0.02 * np.sin(2 * np.pi * frames * 120 / 480)
    assert rates.by_lamp(lamp, 29.97).capture_hz == 480
    assert rates.by_lamp(0.02 * np.sin(2 * np.pi * frames * 100 / 240), 25.0).capture_hz == 240
    assert rates.by_lamp(np.zeros(300), 29.97).capture_hz is None
    assert rates.by_lamp(0.02 * np.sin(2 * np.pi * frames * 0.21), 29.97).capture_hz is None
    assert rates.by_period(24.07, 0.0502).capture_hz == pytest.approx(479.5, abs=0.1)
    assert rates.by_period(None, 0.05).capture_hz is None
    assert rates.by_rotation(24.1, 5977).capture_hz is not None


def test_the_arc_of_the_arm() -> None:
    arm = scales.Arm()
    positions = np.linspace(0, 1, 11)
    assert arm.position(arm.angle(positions)) == pytest.approx(positions)
    assert np.all(np.diff(arm.angle(positions)) > 0)


def graph(levels: list[tuple[float, int]], seek_frames: int, noise: float = 0.003) -> NDArray[np.float64]:
    """Positions at levels for so many frames each, with seeks between."""
    rng = np.random.default_rng(5)
    parts: list[NDArray[np.float64]] = []
    for number, (level, count) in enumerate(levels):
        if number:
            share = (np.arange(seek_frames) + 0.5) / seek_frames
            way = np.where(share < 0.5, 2 * share**2, 1 - 2 * (1 - share) ** 2)
            parts.append(levels[number - 1][0] + (level - levels[number - 1][0]) * way)
        parts.append(np.full(count, level))
    position = np.concatenate(parts)
    return position + rng.normal(0, noise, len(position))


def test_a_cleaning_is_read() -> None:
    # As Figure 11 of the paper has it, at 500 frames/s.
    levels = [(0.0, 600), (0.45, 90), (0.0, 605), (0.45, 113), (0.55, 40), (1.0, 300)]
    seen = readings.read(graph(levels, 5), np.ones(1768 + 5), 500.0)
    assert [phase.name for phase in seen.cleaning] == [
        "idle", "band read", "cache", "band write", "map", "park",
    ]  # fmt: skip
    lengths = [phase.end - phase.start for phase in seen.cleaning]
    assert lengths[1:4] == pytest.approx([90, 605, 113], abs=2)


def test_a_band_where_the_map_is() -> None:
    levels = [(0.0, 600), (0.42, 90), (0.0, 605), (0.42, 160), (1.0, 300)]
    seen = readings.read(graph(levels, 5), np.ones(1755 + 20), 500.0)
    assert [phase.name for phase in seen.cleaning][-2:] == ["band write, map", "park"]


def test_strokes_are_no_seeks() -> None:
    # Two strokes inward with a jump back, as on the surfaces of a shingled disk (Figure 19), 2 frames/s.
    stroke = np.linspace(0, 0.025, 400)
    position = np.concatenate([stroke, stroke, stroke]) + np.random.default_rng(2).normal(0, 5e-4, 1200)
    seen = readings.read(position, np.ones(1200), 2.0)
    assert seen.seeks == ()
    wide = np.concatenate([0.1 * np.linspace(0, 1, 400)] * 3)
    seen = readings.read(wide, np.ones(1200), 2.0)
    assert [seek.way < 0 for seek in seen.seeks] == [True, True]
    assert [dwell.stroke for dwell in seen.dwells] == ["inward"] * 3
    assert seen.pattern == "one-way"


def test_a_slow_seek_in_noise_is_one_seek() -> None:
    # As at 6,000 frames/s, with a tracker's noise of a pixel in 300: in single frames its speed is noise.
    position = graph([(0.1, 120), (0.9, 120)], 100)
    (seek,) = readings.read(position, np.ones(len(position)), 6000.0).seeks
    assert seek.start == pytest.approx(119.5, abs=1)
    assert seek.end == pytest.approx(219.5, abs=1)


@pytest.mark.parametrize("accelerating", [0.34, 0.21])
def test_the_ends_of_a_slow_seek(accelerating: float, rng: np.random.Generator) -> None:
    """150 frames, of which the first and last move less than noise hides; and a key frame that is off."""
    time = np.linspace(0, 1, 10_001)
    speed = np.minimum(1, np.minimum(time, 1 - time) / accelerating)
    way = np.cumsum(speed) / speed.sum()
    at = np.arange(500.0)
    clean = 0.2 + 0.6 * np.interp((at - 170.3) / 149.5, time, way, left=0, right=1)
    clean[230] += 0.01
    wrong = []
    for _ in range(20):
        [seek] = readings.read(clean + rng.normal(0, 0.001, len(at)), np.ones(len(at)), 9000.0).seeks
        wrong.append((seek.start - 170.3, seek.end - 319.8))
    # A fit of time against the way, in shapes of steps of 0.025, is off by 0.7 and 0.85.
    assert np.abs(wrong).mean() < 0.5


def test_a_seek_of_three_frames_is_not_made_shorter() -> None:
    # As tracked in film 1010, at 342 frames/s, where the arm moves from 84.74 to 87.32.
    way = [0.5590, 0.5586, 0.5588, 0.5574, 0.4846, 0.4085, 0.4041, 0.4040, 0.4040]
    position = np.array([way[0]] * 20 + way + [way[-1]] * 20)
    (seek,) = readings.read(position, np.ones(len(position)), 342.0).seeks
    assert seek.start == pytest.approx(84.74 - 62, abs=0.5)
    assert seek.end == pytest.approx(87.32 - 62, abs=0.5)


def test_seeks_held_back_by_encoding_say_so() -> None:
    # As at 8,000 frames/s: 60 frames for 0.15 of the stroke. An encoder that leaves out movements under a
    # hundredth of it shows steps.
    time = np.clip((np.arange(300.0) - 120) / 60, 0, 1)
    moved = 0.2 + 0.15 * way_done(time, 0.4)
    held = moved.copy()
    for frame in range(1, len(held)):
        held[frame] = moved[frame] if abs(moved[frame] - held[frame - 1]) > 0.01 else held[frame - 1]
    as_moved, as_held = (readings.read(one, np.ones(len(one)), 8000.0) for one in (moved, held))
    (clear,), (doubtful,) = as_moved.seeks, as_held.seeks
    assert clear.doubt < 1
    assert as_moved.notes == ()
    assert doubtful.doubt > 1
    assert max(abs(doubtful.start - clear.start), abs(doubtful.end - clear.end)) < doubtful.doubt
    assert as_held.notes[0].startswith("1 of 1 seeks look unlike an arm's")


def test_rests_of_three_frames_between_seeks() -> None:
    position = graph([(0.1, 20), *((level, 3) for level in (0.9, 0.2) * 12), (1.0, 20)], 6, 0.001)
    seeks = readings.read(position, np.ones(len(position)), 480.0).seeks
    assert len(seeks) == 25
    assert np.median([seek.end - seek.start for seek in seeks]) == pytest.approx(6, abs=0.3)


def test_noise_is_no_seek(rng: np.random.Generator) -> None:
    quiet = readings.read(rng.normal(0.5, 0.01, 2000), np.ones(2000), 480.0)
    assert quiet.seeks == ()
    assert quiet.cycle is None


def test_doubtful_frames_claim_nothing() -> None:
    position = graph([(0.2, 100), (0.8, 100)], 6, 0.001)
    confidence = np.ones(len(position))
    confidence[90:120] = 0.1
    position[95:118] = np.linspace(0, 1, 23)
    assert readings.read(position, confidence, 480.0).seeks == ()


# --- The verb.


def test_track_and_render_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "head.arrows"
    probe = ["probe", "sim:st5000as0011", "--only", "journal", "--json"]
    assert run([*probe, "--out", str(tmp_path / "run"), "--head-trace", str(trace)]) == 0
    capsys.readouterr()
    for name, more in (("plain.mp4", []), ("filmed.mp4", ["--filmed", "--size", "160x120"])):
        out = tmp_path / name
        assert run(["camera", "render", str(trace), "-o", str(out), "--seconds", "0.1", *more]) == 0
        truth = json.loads(out.with_suffix("").with_name(f"{out.stem}.truth.json").read_text())
        assert len(truth["positions"]) == video.probe(out).frames == 48
        assert truth["cache"][0] == 0
    assert run(["camera", "render", str(tmp_path / "run")]) == 2
    assert "--head-trace" in capsys.readouterr().err


def test_track_writes_columns_graph_and_video(
    film: Frames, keep: Keep, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import pyarrow as pa

    path, out = keep("film.mp4", film), tmp_path / "found"
    assert run(["camera", "track", str(path), "--rate", "480", "--json", "-o", str(out)]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["capture_hz"] == 480
    assert facts["seeks"]
    with pa.ipc.open_stream(out / "head.arrows") as stream:
        table = stream.read_all()
    assert table.column_names == ["frame", "play_s", "time_s", "position", "confidence"]
    assert table.num_rows == len(film)
    assert len((out / "head.csv").read_text().splitlines()) == len(film) + 1
    assert (out / "head.png").stat().st_size > 5000
    assert video.probe(out / "annotated.mp4").frames == len(film)


def test_without_the_extra_the_message_says_what_to_install(film: Frames, keep: Keep) -> None:
    path = keep("film.mp4", film)
    code = (
        "import sys; sys.modules['imageio_ffmpeg'] = sys.modules['cv2'] = None\n"
        "import skylight.cli.app as app\n"
        f"sys.exit(app.run(['camera', 'track', {str(path)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], env={"PATH": ""}, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "pip install imageio-ffmpeg opencv-python-headless" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--region", "1,2,3"], "give X,Y,WIDTH,HEIGHT"),
        (["--region", "0,0,9000,9000"], "not within the picture"),
        (["--known", "3"], "give FRAME=POSITION"),
        (["--known", "3=0.5"], "two or more"),
        (["--known", "3=0.5", "--known", "99999=1"], "has no frame 99999"),
    ],
)
def test_wrong_use(
    arguments: list[str], says: str, film: Frames, keep: Keep, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["camera", "track", str(keep("film.mp4", film[:20])), *arguments]) == 2
    assert says in capsys.readouterr().err


def test_a_clip_that_is_too_long_to_keep_is_decoded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = drawn(2, 320, 480)
    path = case.film(tmp_path / "film.mp4")
    decoded: list[int] = []
    frames = video.frames

    def counted(clip: video.Clip, *arguments: Any) -> Iterator[video.U8Frames]:
        decoded.append(1)
        return frames(clip, *arguments)

    monkeypatch.setattr("skylight.camera.track_head.frames", counted)
    kept = track(path)
    with_kept = len(decoded)
    monkeypatch.setattr(video, "MOST_KEPT_BYTES", 100_000)
    again = track(path)
    assert np.array_equal(kept.position, again.position)
    assert len(decoded) - with_kept == with_kept + 1
