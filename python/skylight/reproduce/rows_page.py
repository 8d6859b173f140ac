"""The rows as a page: what `docs/figures.md` shows of each, so that what code cites can be opened.

    python -m skylight.reproduce.rows_page docs/figures.md fast15.json swd.json hasmr.json

writes the rows again, with our figures as `skylight reproduce PAPER --json` printed them into those files.

Invariants: only what lies between a paper's two markers is written; rows and bands come from the tables that
`reproduce` judges by. A figure that no file has stays as the page had it. A figure that depends on the
machine is not shown.

Source: docs/reproduce.md.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from skylight.errors import UsageError
from skylight.reproduce import fast15, tolerances
from skylight.reproduce.hasmr import table as hasmr
from skylight.reproduce.hasmr import tolerances as hasmr_bands
from skylight.reproduce.rows import Band, Check, Ours, RowSpec
from skylight.reproduce.swd import table

PAPERS: Mapping[str, tuple[Sequence[RowSpec], Sequence[Band]]] = {
    "fast15": (fast15.ROWS, tolerances.BANDS),
    "swd": (table.ROWS, table.BANDS),
    "hasmr": (hasmr.ROWS, hasmr_bands.BANDS),
}
"""Rows and bands by the name of the paper, which is also the name of its markers."""

OF_THE_MACHINE = ("W3", "W4", "W5")
"""Rows of times beside the conventional layer on the same file: no two machines have the same."""

NOT_KEPT = "depends on the machine"
NOT_MEASURED = "not measured"

OursByCheck = dict[tuple[str, str], str]
"""Our figure in words, by the row and the name of the check."""

_HEADING = re.compile(r"### (\S+)$")
_LINE = re.compile(r"\| (?P<name>.+?) \| .* \| (?P<ours>[^|]+) \|$")


def measured(documents: Iterable[Mapping[str, object]]) -> OursByCheck:
    """Our figures of documents that `reproduce --json` printed; bold where a band does not contain them."""
    found: OursByCheck = {}
    judged = {(band.row, band.name): band for _, every in PAPERS.values() for band in every}
    for document in documents:
        rows = document["rows"]
        assert isinstance(rows, list)
        for row in rows:
            for check in row["checks"]:
                key = row["id"], check["name"]
                ours: Ours = check["ours"]
                if row["id"] not in OF_THE_MACHINE:
                    own = Check(judged[key], ours)
                    found[key] = own.ours_text if own.passed else f"**{own.ours_text}**"
    return found


def shown(page: str) -> OursByCheck:
    """Our figures as a page shows them."""
    found: OursByCheck = {}
    row = ""
    for line in page.splitlines():
        if heading := _HEADING.match(line):
            row = heading.group(1)
        elif check := _LINE.match(line):
            found[row, check.group("name")] = check.group("ours").strip()
    return found


def renewed(page: str, ours: Mapping[tuple[str, str], str]) -> str:
    """The page with its rows written again; figures that `ours` has not are kept."""
    known = {**shown(page), **ours}
    for paper, (specs, own) in PAPERS.items():
        begin, end = f"<!-- rows of {paper} -->\n", f"<!-- end of the rows of {paper} -->\n"
        before, found, rest = page.partition(begin)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            raise UsageError(f"the page has no markers for {paper}; put in {begin.strip()} and {end.strip()}")
        page = before + begin + "\n" + "\n".join(_lines(specs, own, known)) + "\n" + end + after
    return page


def _lines(
    specs: Sequence[RowSpec], own: Sequence[Band], ours: Mapping[tuple[str, str], str]
) -> Iterator[str]:
    for spec in specs:
        section = f" (section {spec.source})" if spec.source else ""
        yield from (f"### {spec.id}", "", f"{spec.title}{section}.", "")
        yield from ("| check | paper | must be | ours |", "|---|---|---|---|")
        for band in own:
            if band.row == spec.id:
                kept = (
                    NOT_KEPT if spec.id in OF_THE_MACHINE else ours.get((band.row, band.name), NOT_MEASURED)
                )
                yield f"| {band.name} | {band.paper} | {band.text} | {kept} |"
        yield ""


def main(words: Sequence[str]) -> None:
    """Writes a page again: the page, then files of `reproduce --json`."""
    page, *files = (Path(word) for word in words)
    documents = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    page.write_text(renewed(page.read_text(encoding="utf-8"), measured(documents)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
