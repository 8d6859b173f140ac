"""``skylight restore RECORDING``: puts back what a probe with --preserve overwrote and could not put back.

A run puts its data back when it ends, and a guard does after a kill; this is for what both missed: a power
cut, a drive that was pulled out. ``skylight.engines.preserve`` does the work.
"""

from __future__ import annotations

from pathlib import Path

import click

from skylight.cli.console import line
from skylight.engines import preserve
from skylight.errors import UsageError

__all__ = ["restore"]


_EPILOG = """\b
Examples:
  skylight restore skylight-report/sdX
  skylight restore skylight-report/sdX --on /dev/sdY
"""


@click.command("restore", epilog=_EPILOG)
@click.argument("recording", type=click.Path(path_type=Path))
@click.option("--on", "device", metavar="DEVICE", help="The drive, where it has another path by now.")
def restore(recording: Path, device: str | None) -> None:
    """Put back what an interrupted probe --preserve overwrote.

    RECORDING is the folder of its results. Sectors that somebody else wrote since are left as they are.
    """
    for folder in (recording, recording.parent):
        if (folder / preserve.JOURNAL).is_file():
            done = preserve.restore(folder / preserve.JOURNAL, device)
            line(f"{recording}: {done.words}")
            return
    raise UsageError(
        f"{recording}: holds no kept data ({preserve.JOURNAL}): it was put back already, or --out named"
        " another folder"
    )
