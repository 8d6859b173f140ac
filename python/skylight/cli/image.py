"""``skylight image check|info|repair|compact PATH``: an image that nobody serves.

The work is done by the native module; this verb prints what it says.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import click
from click.decorators import FC

from skylight.cli.console import ByteProgress, headline, line, table
from skylight.cli.drives import line_json
from skylight.cli.serve import serve_error
from skylight.units import format_capacity, format_count, format_size

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.group(
    epilog="\b\nExamples:\n  skylight image info smr.img\n  skylight image check smr.img\n"
    "  skylight image repair smr.img\n  skylight image compact smr.img\n"
)
def image() -> None:
    """Images of drives: look at one, check it, repair it, make it small."""


def _arguments(command: FC) -> FC:
    """What every verb on an image takes."""
    for decorate in (
        click.option("--json", "as_json", is_flag=True, help="Print as JSON."),
        click.option(
            "--cache-on", type=_FILE, help="Where the flash of the drive lies, if not with the rest."
        ),
        click.argument("path", type=_FILE),
    ):
        command = decorate(command)
    return command


def _asked(ask: Callable[[], Any]) -> Any:
    """What the native module says, its errors as those of the command line."""
    from skylight import _native

    try:
        return ask()
    except _native.ServeError as error:
        raise serve_error(error) from error


def _show(info: dict[str, Any]) -> None:
    """What there is to say, as a table."""
    stored = f"{format_size(info['stored_bytes'])} of {format_size(info['len_bytes'])}"
    rows = [
        ("Drive", f"{info['drive']}, {format_capacity(info['capacity_bytes'])}"),
        ("Format", str(info["format"])),
        ("Takes", stored),
        ("Switched off", "in order" if info["clean"] else "not in order; the next start recovers it"),
        (
            "In the cache",
            f"{format_size(info['cached_bytes'])}, {format_count(info['cached_extents'])} extents",
        ),
        ("Bands moved", format_count(info["moved_bands"])),
        ("Checksums", "of all data" if info["checksums"] else "none of the data"),
        ("Checkpoint", f"{info['generation']}, {format_count(info['tags'])} tags behind it"),
    ]
    if info["refused_tags"]:
        rows.append(("Lost to a cut", f"{format_count(info['refused_tags'])} tags, as may be"))
    if shingled := info.get("shingled"):
        rows += _shingled_rows(shingled)
    table(("", ""), rows)


def _shingled_rows(disk: dict[str, Any]) -> list[tuple[str, str]]:
    """What there is to say of a raw shingled disk."""
    zones = disk["zones"]
    sizes = f"{zones[0]['sectors_per_track']} to {zones[-1]['sectors_per_track']} sectors"
    tracks = f"{format_count(disk['tracks'])} on each of {disk['surfaces']} surfaces, {disk['layout']}"
    torn, fragments = format_count(disk["overwritten_sectors"]), format_count(disk["overwritten_fragments"])
    rows = [
        ("A write covers", f"{disk['width_tracks']} tracks"),
        ("Tracks", f"{tracks}, {sizes} in {len(zones)} recording zones"),
        (
            "Overwritten",
            f"{torn} sectors, {fragments} fragments, {format_count(disk['writes'])} writes so far",
        ),
    ]
    if disk["band_tracks"] is not None:
        rows.append(
            (
                "Bands",
                f"{disk['band_tracks']} tracks, {100 * disk['efficiency']:.2f} % of the tracks hold data",
            )
        )
    return rows


@image.command(epilog="\b\nExamples:\n  skylight image info smr.img\n  skylight image info smr.img --json\n")
@_arguments
def info(path: Path, cache_on: Path | None, as_json: bool) -> None:
    """Say which drive an image holds, and how it lies there."""
    from skylight import _native

    found = _asked(lambda: _native.image_info(path, cache_on))
    if as_json:
        line_json({"schema": 1, **found})
    else:
        _show(found)


def _scrubbed(path: Path, cache_on: Path | None) -> dict[str, Any]:
    """Compares all data with its checksums, with a progress bar on standard error."""
    from skylight import _native

    progress = ByteProgress(f"{path}: comparing data with checksums")
    with progress:
        return cast("dict[str, Any]", _asked(lambda: _native.image_scrub(path, cache_on, progress.advance)))


def _wrong_lines(path: Path, scrubbed: dict[str, Any]) -> list[str]:
    """A line for each of the first wrong extents, and one for the rest."""
    wrong = scrubbed["wrong"]
    lines = [
        f"{path}: checksum mismatch: sectors {first} to {first + sectors - 1}; write them anew, or restore "
        "them from a copy"
        for first, sectors in wrong
    ]
    if (more := scrubbed["wrong_extents"] - len(wrong)) > 0:
        total = format_count(scrubbed["wrong_sectors"])
        lines.append(f"{path}: and {format_count(more)} extents more, {total} wrong sectors in all")
    return lines


@image.command(
    epilog="\b\nExamples:\n  skylight image check smr.img\n  skylight image check smr.img --data\n"
    "  skylight image check smr.img --data --json\n"
)
@_arguments
@click.option("--data", is_flag=True, help="Read all data too, and compare it with its checksums.")
def check(path: Path, cache_on: Path | None, as_json: bool, data: bool) -> None:
    """Check an image without changing it, opened read-only; exit code 1 when something is wrong.

    Checked is what the image is made of, and with --data what the host wrote, if the image was made with
    checksums (skylight serve --checksums). Without, nothing here can tell whether the medium has changed it.
    """
    from skylight import _native

    found, problems = _asked(lambda: _native.image_check(path, cache_on))
    scrubbed = _scrubbed(path, cache_on) if data and found is not None else None
    wrong = _wrong_lines(path, scrubbed) if scrubbed is not None else []
    good = not problems and not wrong
    if as_json:
        words = {"schema": 1, "good": good, "problems": problems, "info": found}
        line_json(words if not data else {**words, "data": scrubbed})
    else:
        for problem in [*problems, *wrong]:
            line(problem)
        if scrubbed is not None:
            line(_scrub_words(scrubbed))
        headline(f"{path}: {'good' if good else 'damaged'}")
    if not good:
        raise click.exceptions.Exit(1)


@image.command(
    epilog="\b\nExamples:\n  skylight image repair smr.img\n  skylight image repair smr.img --accept-loss\n"
)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Give up what was durable and is lost, so that the rest can be used. A copy of the image's own "
    "structures is kept beside it as PATH.damaged-1, -2, ...",
)
@_arguments
def repair(path: Path, cache_on: Path | None, as_json: bool, accept_loss: bool) -> None:
    """Write again what is there twice and damaged once; anything more only with --accept-loss.

    An image of which something durable is lost is not served. Restore it from a copy. Without one,
    --accept-loss goes on from what is left: what was written since the last checkpoint may then read as
    older data.
    """
    from skylight import _native

    mended, lost, kept = _asked(lambda: _native.image_repair(path, cache_on, accept_loss))
    if as_json:
        kept_path = None if kept is None else str(kept)
        line_json({"schema": 1, "mended": mended, "lost": lost, "kept": kept_path})
        return
    for what in mended:
        line(f"{path}: {what}; what is whole was used, and it was written again")
    for what in lost:
        line(f"{path}: lost: {what}")
    if kept is not None:
        line(f"{path}: its structures as they were are kept in {kept}")
    headline(f"{path}: {'goes on without what is lost' if lost else 'good'}")


def _scrub_words(scrubbed: dict[str, Any]) -> str:
    """What was compared."""
    wrong = format_count(scrubbed["wrong_sectors"])
    words = f"{format_size(scrubbed['data_bytes'])} compared, {wrong} sectors wrong"
    if scrubbed["unsure_sectors"]:
        unsure = format_count(scrubbed["unsure_sectors"])
        words += f"; {unsure} sectors differ where a power cut may have done it, and count"
    return words


@image.command(epilog="\b\nExamples:\n  skylight image compact smr.img\n")
@_arguments
def compact(path: Path, cache_on: Path | None, as_json: bool) -> None:
    """Clean an image as the drive would when left alone, and give back what nothing reads."""
    from skylight import _native

    before, after = _asked(lambda: _native.image_compact(path, cache_on))
    if as_json:
        line_json({"schema": 1, "before_bytes": before, "after_bytes": after})
    else:
        line(f"{path}: {format_size(before)} before, {format_size(after)} now")
