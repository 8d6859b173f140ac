"""``skylight camera track|findings|trace|render``: head positions from a slow-motion clip, what they show of
the drive, and a clip of an emulated drive's head.

``skylight.camera`` does the work; this verb checks the options, shows progress and prints the result.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from skylight.cli.console import ByteProgress, headline, line, table
from skylight.cli.number import Number
from skylight.cli.target_and_folder_checks import check_results_folder
from skylight.errors import UsageError
from skylight.units import format_count, format_percent, format_size

if TYPE_CHECKING:
    from skylight.camera.align import Alignment
    from skylight.camera.frame_rate import Rate
    from skylight.camera.seek_commands import Commands
    from skylight.camera.seek_detection import Reading
    from skylight.camera.track_head import Options, Track

    Io = tuple[Commands, Alignment]

Command = TypeVar("Command", bound=Callable[..., Any])

SHOWN_SEEKS = 12
# A film is made in memory and time of its own: an hour of drive time at 480 frames/s has 1.7 million frames.
MOST_FRAMES = 2_000_000

_EPILOG = """\b
Examples:
  skylight camera track clip.mov                       what the head does
  skylight camera track clip.mov -o found              with graph and video
  skylight camera track clip.mp4 --rate 1000 --json
  skylight camera track clip.mp4 --known 0=1 --known 212=0     known positions
  skylight camera track clip.mp4 --io recording:found     command of each seek
  skylight camera findings found --recording run -o joined    what it shows
  skylight camera trace st5000as0011 cleaning -o head.arrows    to film it
  skylight camera render head.arrows -o window.mp4 --start 3.2 --seconds 2
  skylight camera render head.arrows -o filmed.mp4 --filmed --size 224x160
"""


@click.group(epilog=_EPILOG, short_help="Follow a drive's head on film, or film an emulated one.")
def camera() -> None:
    """Follow a drive's head in a slow-motion clip; film the head of an emulated drive."""


def _region(
    _context: click.Context, _option: click.Parameter, text: str | None
) -> tuple[int, int, int, int] | None:
    if text is None:
        return None
    parts = text.split(",")
    if len(parts) != 4 or not all(part.strip().isdecimal() for part in parts):
        raise click.BadParameter(f"{text!r}: give X,Y,WIDTH,HEIGHT in pixels, as 40,30,120,90")
    x, y, width, height = (int(part) for part in parts)
    return x, y, width, height


def _size(_context: click.Context, _option: click.Parameter, text: str) -> tuple[int, int]:
    width, _, height = text.lower().partition("x")
    if not (width.isdecimal() and height.isdecimal()) or not (
        32 <= int(width) <= 7680 and 32 <= int(height) <= 4320
    ):
        raise click.BadParameter(
            f"{text!r}: give WIDTHxHEIGHT in pixels, from 32x32 to 7680x4320, as 448x320"
        )
    return int(width) // 2 * 2, int(height) // 2 * 2


def _known(
    _context: click.Context, _option: click.Parameter, texts: tuple[str, ...]
) -> tuple[tuple[int, float], ...]:
    pairs = []
    for text in texts:
        frame, _, position = text.partition("=")
        try:
            pairs.append((int(frame), float(position)))
        except ValueError:
            raise click.BadParameter(
                f"{text!r}: give FRAME=POSITION, 0 at the OD and 1 at the ID, as 212=0.5"
            ) from None
    return tuple(pairs)


def _number(
    name: str,
    values: Number | click.IntRange,
    default: float,
    unit: str,
    words: str,
    *,
    shown: str | bool = True,
) -> Callable[[Command], Command]:
    """An option that takes a number of a range and shows its default."""
    return click.option(name, type=values, default=default, metavar=unit, show_default=shown, help=words)


@camera.command(epilog=_EPILOG, short_help="Follow the head in a video.")
@click.argument("video", type=click.Path(path_type=Path))
@click.option(
    "--region", callback=_region, metavar="X,Y,W,H", help="Where the head moves, px. Default: found."
)
@click.option(
    "--rate",
    type=Number(0.001, 1e6),
    metavar="HZ",
    help="Frames/s when it was shot. Default: inferred.",
)
@click.option(
    "--io-period", type=Number(0, min_open=True), metavar="MS", help="Known period of the movement."
)
@click.option(
    "--rpm",
    type=Number(1000, 30_000),
    metavar="RPM",
    help="Known rotation, to infer the rate from.",
)
@click.option(
    "--known", multiple=True, callback=_known, metavar="FRAME=POS",
    help="A frame's known position, 0 (OD) to 1 (ID); two or more fix the scale. Default: the extremes.",
)  # fmt: skip
@click.option(
    "--mirrored", is_flag=True, help="The clip was shot through a mirror: the ID is at the other end."
)
@click.option(
    "--io", metavar="EVIDENCE",
    help="I/O of the same run, recording:DIR or fio-log:FILE: finds the command of each seek.",
)  # fmt: skip
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write columns, graph and annotated video.",
)
@click.option("--no-video", is_flag=True, help="With -o: no annotated video.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON, and nothing else.")
def track(
    video: Path, region: tuple[int, int, int, int] | None, rate: float | None, io_period: float | None,
    rpm: float | None, known: tuple[tuple[int, float], ...], mirrored: bool, io: str | None, out: Path | None,
    no_video: bool, as_json: bool,
) -> None:  # fmt: skip
    """Follow the head in VIDEO, any format that ffmpeg reads: position, seeks, dwells, cycles."""
    from skylight.camera.graph_files import summary
    from skylight.camera.head_positions import graph_of
    from skylight.camera.seek_commands import read_commands
    from skylight.camera.track_head import Options

    if len(known) == 1:
        raise UsageError("--known: one known position fixes no scale; give two or more")
    options = Options(region, known, mirrored, rate, None if io_period is None else io_period / 1e3, rpm)
    if out is not None:
        check_results_folder(out)
    commands = None if io is None else read_commands(io)
    found, captured, reading = _tracked(video, options)
    aligned = (
        None if commands is None else (commands, graph_of(found, captured).aligned(reading, commands.log))
    )
    if out is not None:
        _keep(out, found, captured, reading, aligned, video=not no_video, quiet=as_json)
    if as_json:
        click.echo(json.dumps(summary(found, captured, reading, aligned), indent=1))
        return
    _print(found, captured, reading, aligned)


def _tracked(video: Path, options: Options) -> tuple[Track, Rate, Reading]:
    from skylight.camera.seek_detection import read
    from skylight.camera.track_head import capture_rate
    from skylight.camera.track_head import track as follow

    with ByteProgress(f"following the head in {video.name}") as progress:
        found = follow(video, options, progress.advance)
    first = read(found.position, found.confidence)
    captured = capture_rate(found, options, None if first.cycle is None else first.cycle.frames)
    return found, captured, read(found.position, found.confidence, captured.capture_hz)


def _keep(
    out: Path, found: Track, captured: Rate, reading: Reading, aligned: Io | None, *, video: bool, quiet: bool
) -> None:
    from skylight.camera.annotate import VIDEO_NAME, annotated
    from skylight.camera.figures import GRAPH_NAME, graph
    from skylight.camera.graph_files import keep

    paths = keep(out, found, captured, reading, aligned)
    graph(out / GRAPH_NAME, found, captured, reading)
    paths.append(out / GRAPH_NAME)
    if video:
        with ByteProgress(f"writing {out / VIDEO_NAME}") as progress:
            annotated(out / VIDEO_NAME, found, captured, progress.advance)
        paths.append(out / VIDEO_NAME)
    if not quiet:
        for path in paths:
            line(f"Written: {path}")


def _print(found: Track, captured: Rate, reading: Reading, aligned: Io | None) -> None:
    """Prints what the clip shows."""
    from skylight.camera.graph_files import cycle_ms, lasts_ms

    def long(start: float, end: float) -> str:
        lasts = lasts_ms(found, captured, start, end)
        return f"{end - start:.1f} frames" if lasts is None else f"{lasts:.2f} ms"

    seeks = f"{format_count(len(reading.seeks))} seek{'s' if len(reading.seeks) != 1 else ''}"
    places = ", ".join(f"{place:.2f}" for place in reading.places[:8])
    more = f" and {len(reading.places) - 8} more" if len(reading.places) > 8 else ""
    headline(f"{found.clip.path.name}: {seeks}, the head dwells at {places}{more} (0 = OD, 1 = ID)")
    rows = [
        ("Frames", f"{format_count(found.frames)}, {found.clip.width} x {found.clip.height} px"),
        ("Shot at", "unknown" if captured.capture_hz is None else f"{captured.capture_hz:g} frames/s"),
        ("", captured.why),
        ("Scale", f"{found.scale}; {found.move_px:.0f} px"),
        ("Confidence", format_percent(float(sorted(found.confidence)[found.frames // 2]))),
    ]
    if reading.cycle is not None:
        one, two = (reading.places[place] for place in reading.cycle.places)
        each_ms = cycle_ms(found, captured, reading.cycle)
        lasts = "" if each_ms is None else f" ({each_ms:.2f} ms)"
        each = f"{reading.cycle.frames:.2f} frames{lasts} each"
        rows.append(("Cycle", f"{reading.cycle.count} between {one:.2f} and {two:.2f}, {each}"))
    if reading.pattern is not None:
        rows.append(("Strokes", f"{reading.pattern}: {', '.join(_strokes(reading))}"))
    rows += [
        (f"Cleaning: {phase.name}", f"{long(phase.start, phase.end)} at {phase.position:.2f}")
        for phase in reading.cleaning
    ]
    if aligned is not None:
        at = aligned[1].frame_0_s
        rows.append(("I/O", "not aligned" if at is None else f"frame 0 is at {at:.4f} s of the recording"))
        rows.append(("", aligned[1].why))
    table(("Property", "Found"), rows)
    if reading.seeks:
        commands = [""] * len(reading.seeks) if aligned is None else _commands(*aligned)
        table(
            ("Seek", "Start", "End", "± frames", "Takes", "From", "To", *(("I/O",) if aligned else ())),
            [(str(number + 1), f"{one.start:.1f}", f"{one.end:.1f}", f"{one.doubt:.1f}",
              long(one.start, one.end),
              f"{one.source:.3f}", f"{one.target:.3f}" + ("" if one.whole else " (cut)"),
              *((commands[number],) if aligned else ()))
             for number, one in enumerate(reading.seeks[:SHOWN_SEEKS])],
            right=(0, 1, 2, 3, 4, 5),
        )  # fmt: skip
    if len(reading.seeks) > SHOWN_SEEKS:
        line(f"{len(reading.seeks) - SHOWN_SEEKS} more seeks are in the output of --json")
    for note in (*found.notes, *reading.notes):
        line(f"note: {note}")


def _commands(commands: Commands, aligned: Alignment) -> list[str]:
    """The command of each seek in words."""
    found = [commands.described(row) for row in aligned.rows]
    return [
        "none" if one is None else f"{one['op']} {format_size(one['size'])} at {format_size(one['offset'])}"
        for one in found
    ]


def _strokes(reading: Reading) -> list[str]:
    """Strokes by direction and place, in order, equal ones once."""
    words: list[str] = []
    for stroke in reading.strokes:
        word = f"{'inward' if stroke.inward else 'outward'} at {stroke.source:.2f}"
        if word not in words:
            words.append(word)
    return words[:6]


@camera.command(epilog=_EPILOG, short_help="What head-position graphs show of a drive.")
@click.argument("graphs", nargs=-1, required=True, metavar="GRAPH..", type=click.Path(path_type=Path))
@click.option(
    "--recording", type=click.Path(path_type=Path), metavar="DIR",
    help="Recording of the filmed run: which command caused a seek, and what timing says.",
)  # fmt: skip
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), metavar="DIR",
    help="With --recording: write the report, with the findings of the films beside those of timing.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON, and nothing else.")
def findings(graphs: tuple[Path, ...], recording: Path | None, out: Path | None, as_json: bool) -> None:
    """Where cache and map lie, which way strokes lead, the phases of a cleaning, the arm's times: what the
    head-position graphs in GRAPH (folders that track -o wrote) show of one drive."""
    from skylight.camera.head_positions import read_graph
    from skylight.camera.merge_findings import beside_timing, joined
    from skylight.camera.verdict import Io, judge
    from skylight.cli.printed_findings import print_findings
    from skylight.cli.probe import write_results
    from skylight.findings import SCHEMA
    from skylight.report.json import document_text, probe_document

    if out is not None and recording is None:
        raise UsageError("-o: a report is that of a recording; give --recording DIR, or omit -o")
    if out is not None:
        check_results_folder(out)
    read = [read_graph(graph) for graph in graphs]
    notes = [f"film {graph.name}: {note}" for graph in read for note in graph.notes]
    if recording is None:
        found = joined(one for graph in read for one in judge(graph))
        document: dict[str, object] = {
            "schema": SCHEMA,
            "findings": {one.name: one.to_json() for one in found},
        }
    else:
        from skylight.camera.seek_commands import read_commands
        from skylight.probe.suite import infer_suite
        from skylight.recording import recording_dir

        folder = recording_dir(recording)
        result = infer_suite(folder)
        io = Io(read_commands(f"recording:{folder}").log, result.target.size_bytes)
        films = joined(one for graph in read for one in judge(graph, io))
        found = beside_timing(result.findings, films)
        result = replace(result, findings=found, notes=[*result.notes, *notes])
        document = probe_document([result])
        if out is not None:
            write_results([(result, folder)], out)
    if as_json:
        click.echo(document_text({**document, "notes": notes}), nl=False)
        return
    print_findings(found)
    for note in notes:
        line(f"note: {note}")
    if out is not None:
        line(f"Report: {out / 'report.html'}")


@camera.command(epilog=_EPILOG, short_help="Let an emulated drive do what is worth filming.")
@click.argument("drive")
@click.argument("scene", type=click.Choice(["cleaning", "passes"]))
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), default="head.arrows", metavar="FILE",
    show_default=True, help="The head trace, which render films.",
)  # fmt: skip
@_number(
    "--at", Number(0, 0.99), 0.75, "SHARE", "With cleaning: where the band lies, as a share of the drive."
)
def trace(drive: str, scene: str, out: Path, at: float) -> None:
    """Trace the head of an emulated drive while it cleans a band, or is read over long ways at its outer,
    middle and inner diameter, and say how to film that."""
    from skylight.camera.filmed_scenes import play

    done = play(drive.removeprefix("sim:"), scene, out, at)
    line(f"Head trace: {done.kept}")
    video = out.with_suffix(".mp4")
    line(
        f"Film it: skylight camera render {out} -o {video} --filmed --start {done.start_s:g}"
        f" --seconds {done.seconds:g} --rate {done.rate_hz:g}"
    )
    line(f"Track it: skylight camera track {video} --rate {done.rate_hz:g} -o found")


@camera.command(epilog=_EPILOG, short_help="Film the head of an emulated drive.")
@click.argument("source", type=click.Path(path_type=Path))
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), metavar="FILE",
    help="The video. Default: SOURCE with .mp4.",
)  # fmt: skip
@_number("--start", Number(0), 0.0, "S", "Drive time of the first frame, since the first access.")
@_number("--seconds", Number(0, 1e9, min_open=True), 1.0, "S", "How much drive time to film.")
@_number("--rate", Number(0.01, 100_000), 480.0, "HZ", "Frames/s of drive time.")
@_number(
    "--playback", Number(1, 1000), 30000 / 1001, "HZ",
    "Frames/s of the clip; as --rate for true speed.", shown="29.97",
)  # fmt: skip
@click.option(
    "--size", callback=_size, default="448x320", metavar="WxH", show_default=True,
    help="Size of the picture, px.",
)  # fmt: skip
@click.option(
    "--filmed", is_flag=True, help="As a camera sees it through a window: grey, noisy, blurred, lit by lamps."
)
@_number("--noise", Number(0, 60), 2.0, "LEVELS", "With --filmed: noise.")
@_number("--blur", Number(0, 20), 0.6, "PX", "With --filmed: lens blur.")
@_number("--flicker", Number(0, 0.5), 0.03, "SHARE", "With --filmed: flicker of the lamps, at 120 Hz.")
@_number("--glare", Number(0, 250), 60.0, "LEVELS", "With --filmed: reflections.")
@_number("--compression", click.IntRange(0, 51), 24, "CRF", "The encoder's rate factor: 18 is hardly seen.")
@click.option("--colour", is_flag=True, help="With --filmed: in colour.")
@_number("--seed", click.IntRange(0, 2**32 - 1), 1, "N", "Seed of noise and reflections.")
def render(
    source: Path,
    out: Path | None,
    start: float,
    seconds: float,
    rate: float,
    playback: float,
    size: tuple[int, int],
    **look: float,
) -> None:
    """Film the head of an emulated drive, from a head trace or a run's folder that contains one; the true
    positions and seeks are written beside the video."""
    from skylight.camera.arm_motion import find_trace
    from skylight.camera.render import Film, film_trace

    frames = round(seconds * rate)
    if not 2 <= frames <= MOST_FRAMES:
        raise UsageError(
            f"--seconds {seconds:g} at --rate {rate:g}: {format_count(frames)} frames;"
            f" film 2 to {format_count(MOST_FRAMES)}"
        )
    trace = find_trace(source)
    path = trace.with_suffix(".mp4") if out is None else out
    film = Film(
        rate, playback, noise=look["noise"], blur_px=look["blur"], flicker=look["flicker"],
        glare=look["glare"], quality=int(look["compression"]),
        colour=bool(look["colour"]), seed=int(look["seed"]),
    )  # fmt: skip
    with ByteProgress(f"filming {path.name}") as progress:
        truth = film_trace(
            trace, path, (start, frames), size, film, filmed=bool(look["filmed"]), advance=progress.advance
        )
    line(
        f"Video: {path} ({format_count(frames)} frames, {rate:g} a second of drive time,"
        f" played at {playback:.2f})"
    )
    line(f"Truth: {truth}")
