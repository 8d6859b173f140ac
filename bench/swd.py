"""The cost of shingling compared with the conventional layer: rows W3, W4 and W5 of `skylight reproduce swd`.

Invalid results: another load on the machine. Each round times the conventional layer twice and the shingled
disk once, in alternating order; the difference of the two conventional times is printed as the noise, and a
row that the noise hides is unknown. Load does not affect instructions (W4). Needs cargo once, and valgrind.

``bench/swd.py [--rows W3,W4,W5] [--folder DIR]``; exit code 1 when a requested row is unknown.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from skylight.reproduce.rows import NotMeasured
from skylight.reproduce.swd.layer_benchmark import Tool
from skylight.reproduce.swd.shingling_cost import w3, w4, w5

ROWS = {"W3": w3, "W4": w4, "W5": w5}


def show(name: str, tool: Tool) -> bool:
    """Measures a row and prints it; returns whether every figure of it is known."""
    try:
        measured = ROWS[name](tool)
    except NotMeasured as why:
        print(f"{name}: {why}", flush=True)
        return False
    for what, value in measured.figures.items():
        print(f"{name}: {what}: {'unknown' if value is None else value}")
    for note in measured.notes:
        print(f"    {note}")
    sys.stdout.flush()
    return None not in measured.figures.values()


def main() -> int:
    """Measures the rows that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", default="W3,W4,W5", help="which rows, comma separated (default all)")
    parser.add_argument("--folder", type=Path, help="folder of the backing file (default: a temporary one)")
    arguments = parser.parse_args()
    names = [name for name in arguments.rows.split(",") if name]
    if unknown := [name for name in names if name not in ROWS]:
        parser.error(f"{unknown[0]} is no row; use W3, W4 and W5")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        # Every row is measured, even after one that is unknown.
        known = [show(name, Tool(Path(folder))) for name in names]
    return 0 if all(known) else 1


if __name__ == "__main__":
    sys.exit(main())
