"""Video in and out, through ffmpeg as a process of its own.

Invariants: frames are streamed in chunks of bounded size; every frame that the file holds comes out once,
at its own time, whatever the playback rate says; a failure is one line that names the file."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

from skylight.errors import KeepError, UsageError, one_line

U8Frames = NDArray[np.uint8]

# Frames of one chunk hold about this much: enough to hide the cost of a call, little enough to stay in a
# cache.
CHUNK_BYTES = 2 << 20
# A frame interval that differs from the median by more than this share is another interval. Containers
# round times to a millisecond, 3 % of a frame at 30 frames/s; a dropped frame is 100 %.
INTERVAL_TOLERANCE = 0.25
# Errors of ffmpeg that follow from an earlier one, which says more.
GENERIC = (
    "Error opening",
    "Error parsing options",
    "Failed to set value",
    "To ignore this",
    "Conversion failed",
    "Error sending",
    "Terminating",
    "Task finished",
    "Nothing was written",
)
# A file that declares a length by this much beyond its last frame has lost its end.
LOST_SHARE, LOST_S = 0.05, 0.2
# Decoded frames that are kept in a temporary file, so that they need not be decoded again: 15 minutes of film
# at 30 frames/s and 240 x 170 px.
MOST_KEPT_BYTES = 1 << 30
# By their own names: what `pip` knows as the extra of a package of this name is another project.
INSTALL = "pip install imageio-ffmpeg opencv-python-headless"


@dataclass(frozen=True)
class Clip:
    """A video file: size of its pictures (px), their times (s from the first), its usual frames/s."""

    path: Path
    width: int
    height: int
    times_s: NDArray[np.float64]
    playback_hz: float
    variable: bool
    """Whether the intervals of its frames differ."""
    capture_hz: float | None = None
    """Frames/s when it was shot, where the file says it."""
    cut: bool = False
    """Whether the file declares to be longer than it is."""

    @property
    def frames(self) -> int:
        """Number of frames."""
        return len(self.times_s)

    @property
    def interval_frames(self) -> float:
        """The mean interval between frames, in usual ones: more than 1 where frames are missing."""
        return float(self.times_s[-1]) * self.playback_hz / (self.frames - 1)


@cache
def ffmpeg() -> str:
    """The ffmpeg to run: that of the extra `video`, else the system's."""
    try:
        import imageio_ffmpeg

        return str(imageio_ffmpeg.get_ffmpeg_exe())
    except (ImportError, RuntimeError):
        found = shutil.which("ffmpeg")
    if found is None:
        raise UsageError(f"video needs ffmpeg, and there is none: {INSTALL}")
    return found


def opencv() -> Any:
    """The module cv2, which draws; it belongs to the extra `video`."""
    try:
        import cv2
    except ImportError as error:
        raise UsageError(f"drawing frames needs OpenCV, and there is none: {INSTALL}") from error
    return cv2


def _reason(text: str, path: Path) -> str:
    """The last line of ffmpeg's errors that says something, without the path and addresses."""
    plain = re.sub(r"\[[^\]]*@ 0x[0-9a-f]+\]\s*", "", text).replace(f"file:{path}", path.name)
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith(GENERIC)]
    return one_line((telling or lines or ["no reason was given"])[-1])


def probe(path: Path) -> Clip:
    """Size and frame times of a file, from its packets; nothing is decoded."""
    if not path.is_file():
        reason = "is not a file" if path.exists() else "no such file"
        raise UsageError(f"{path}: {reason}; name a video file")
    command = [ffmpeg(), "-hide_banner", "-nostdin", "-i", f"file:{path}", "-map", "0:v:0", "-c", "copy"]
    done = subprocess.run(
        [*command, "-f", "framecrc", "-"], capture_output=True, encoding="utf-8", errors="replace"
    )
    size = re.search(r"^#dimensions 0: (\d+)x(\d+)", done.stdout, re.MULTILINE)
    base = re.search(r"^#tb 0: (\d+)/(\d+)", done.stdout, re.MULTILINE)
    if size is None or base is None:
        raise UsageError(f"{path}: no video can be read from it: {_reason(done.stderr, path)}")
    rows = [line.split(",") for line in done.stdout.splitlines() if line and line[0] != "#"]
    ticks = np.sort(np.array([int(row[2]) for row in rows if len(row) >= 5], np.float64))
    if len(ticks) < 2:
        raise UsageError(f"{path}: has {len(ticks)} frames; a film of a moving head has at least two")
    times_s = (ticks - ticks[0]) * int(base[1]) / int(base[2])
    intervals_s = np.diff(times_s)
    usual_s = float(np.median(intervals_s))
    if usual_s <= 0:
        raise UsageError(
            f"{path}: its frames have no times; write it again with ffmpeg -i IN -c:v libx264 OUT.mp4"
        )
    odd = np.abs(intervals_s - usual_s) > INTERVAL_TOLERANCE * usual_s
    width, height = int(size[1]), int(size[2])
    if re.search(r"rotation of -?90\.", done.stderr):
        width, height = height, width  # ffmpeg turns the pictures upright when it decodes them
    # A clip's length over its intervals is finer than one interval, which the container rounds.
    steady_s = usual_s if odd.any() else float(times_s[-1]) / (len(times_s) - 1)
    shot = re.search(r"(?:android|quicktime)\.capture\.fps\s*: ([0-9.]+)", done.stderr)
    capture_hz = float(shot[1]) if shot and float(shot[1]) > 0 else None
    return Clip(
        path, width, height, times_s, 1 / steady_s, bool(odd.any()), capture_hz, _cut(done.stderr, times_s)
    )


def _cut(printed: str, times_s: NDArray[np.float64]) -> bool:
    """Whether a file is shorter than it declares."""
    length = re.search(r"Duration: (\d+):(\d+):([0-9.]+)", printed)
    if length is None:
        return False
    declared_s = 3600 * int(length[1]) + 60 * int(length[2]) + float(length[3])
    return declared_s - float(times_s[-1]) > max(LOST_S, LOST_SHARE * declared_s)


def frames(
    clip: Clip, size: tuple[int, int], region: tuple[int, int, int, int] | None = None, colour: bool = False
) -> Iterator[U8Frames]:
    """The frames in chunks, `(n, height, width)` in grey or `(n, height, width, 3)` in BGR, of `size` (width,
    height) px; `region` (x, y, width, height) is cut out first."""
    width, height = size
    steps = [] if region is None else ["crop={2}:{3}:{0}:{1}:exact=1".format(*region)]
    steps.append(f"scale={width}:{height}:flags=area")
    kind, depth = ("bgr24", 3) if colour else ("gray", 1)
    command = [ffmpeg(), "-hide_banner", "-nostdin", "-loglevel", "error", "-i", f"file:{clip.path}"]
    command += ["-map", "0:v:0", "-vf", ",".join([*steps, f"format={kind}"]), "-fps_mode", "passthrough"]
    bytes_each = width * height * depth
    count = max(1, CHUNK_BYTES // bytes_each)
    shape = (-1, height, width, 3) if colour else (-1, height, width)
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [*command, "-f", "rawvideo", "-"], stdout=subprocess.PIPE, stderr=errors, bufsize=0
        )
        assert process.stdout is not None
        stream = os.fdopen(os.dup(process.stdout.fileno()), "rb", buffering=1 << 20)
        seen = 0
        try:
            while data := stream.read(count * bytes_each):
                whole = len(data) // bytes_each
                seen += whole
                if whole:
                    yield np.frombuffer(data, np.uint8, whole * bytes_each).reshape(shape)
        finally:
            stream.close()
            process.stdout.close()
            process.kill() if process.poll() is None and seen < clip.frames else None
            process.wait()
        if seen == 0:
            errors.seek(0)
            reason = _reason(errors.read().decode(errors="replace"), clip.path)
            raise UsageError(f"{clip.path}: its frames cannot be decoded: {reason}")


class KeptFrames:
    """Frames on their way through, kept in a temporary file without a name to be had again; a context
    manager. Of a clip with more than `MOST_KEPT_BYTES` nothing is kept."""

    def __init__(self) -> None:
        """Nothing is kept."""
        self._file: IO[bytes] | None = None
        self._shapes: list[tuple[int, ...]] = []
        self.whole = False

    def keep(self, chunks: Iterator[U8Frames]) -> Iterator[U8Frames]:
        """The chunks, of which it keeps a copy in place of what it kept before."""
        self._forget()
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - _forget closes it
        for chunk in chunks:
            if not self._took(chunk):
                self._forget()
            yield chunk
        self.whole = self._file is not None

    def _took(self, chunk: U8Frames) -> bool:
        if self._file is None or self._file.tell() + chunk.nbytes > MOST_KEPT_BYTES:
            return False
        try:
            self._file.write(chunk.data)
        except OSError:  # no space left: decoding again needs none
            return False
        self._shapes.append(chunk.shape)
        return True

    def again(self) -> Iterator[U8Frames]:
        """What is kept, if all of it is."""
        assert self._file is not None
        self._file.seek(0)
        for shape in self._shapes:
            yield np.frombuffer(self._file.read(int(np.prod(shape))), np.uint8).reshape(shape)

    def _forget(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file, self._shapes, self.whole = None, [], False

    def __enter__(self) -> Self:
        """The store itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Gives the space back."""
        self._forget()


class VideoWriter:
    """Writes frames of one size to a file; a context manager. What failed is removed."""

    def __init__(
        self,
        path: Path,
        size: tuple[int, int],
        rate_hz: float,
        options: Sequence[str] = (),
        colour: bool = True,
    ) -> None:
        """`size` is (width, height); `options` are ffmpeg's of the encoder."""
        self.path = path
        width, height = size
        kind = "bgr24" if colour else "gray"
        command = [ffmpeg(), "-hide_banner", "-nostdin", "-loglevel", "error", "-y", "-f", "rawvideo"]
        command += ["-pix_fmt", kind, "-s", f"{width}x{height}", "-r", f"{rate_hz:.6f}", "-i", "-", *options]
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - __exit__ closes it
        self._process = subprocess.Popen(
            [*command, f"file:{path}"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=self._errors
        )

    def write(self, frame: U8Frames) -> None:
        """Appends one frame, or several."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(np.ascontiguousarray(frame).tobytes())
        except OSError as error:
            raise self._failed() from error

    def __enter__(self) -> Self:
        """The writer itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the file; removes it if an error occurred."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # what failed is in the errors that ffmpeg printed
            self._process.stdin.close()
        failed = self._process.wait() != 0
        try:
            if error is not None or failed:
                self.path.unlink(missing_ok=True)
            if failed and error is None:
                raise self._failed()
        finally:
            self._errors.close()

    def _failed(self) -> KeepError:
        self._process.wait()
        self._errors.seek(0)
        reason = _reason(self._errors.read().decode(errors="replace"), self.path)
        return KeepError(
            f"{self.path}: the video cannot be written: {reason}; choose another place or format"
        )
