"""`bench/count_answers.py`: how often answers are right, by the way in which they were found.

Reads what `bench/score.py --json` printed, counts the answers of each way that were right, and with `--write`
makes the table anew from which findings take how sure they can be (`skylight.infer.priors`). Without it,
prints the calibration table of the same answers, as `bench/score.py` does, and which ways were never met.

What counts is what counts in a score: every wrong answer, and right ones of what is measurable. An unknown
one is no answer. Train on some seeds, and check on others (docs/tests/confidence.md says which):

    bench/score.py --seeds 98001-98040 --conditions drawn --json > drawn.json
    bench/score.py --seeds 98001-98040 --conditions ideal --json > ideal.json
    bench/count_answers.py drawn.json ideal.json --write
    bench/count_answers.py others.json
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tally
from skylight.infer import priors, right_answer_counts

TABLE = Path(right_answer_counts.__file__)
WEIGHTS = (2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Answers that a way begins with: the likeliest of these is taken. The least is that of Laplace's rule."""
EARLIER = {"journal_entry_max_bytes, fit of all sizes": (5, 8)}
"""Counted on random host-aware drives when the way was made, and not kept: too rare to be met in a score."""
HEAD = '''"""How many answers of each way were right, of how many: `bench/count_answers.py --write` writes it.

Counted on {probes}.

Source: docs/tests/confidence.md.
"""

PSEUDO = {weight:.1f}
"""Answers of the frequency of those elsewhere that each way begins with: how ways differ says how many."""

PROBES: dict[str, tuple[int, int]] = {{
'''


def answers(document: Mapping[str, Any]) -> list[tuple[str, tally.Counted]]:
    """The answers of a score that count, each with its entry in the table."""
    found = []
    for drive in document["drives"]:
        for mark in drive["marks"]:
            hidden = mark["name"] in drive["out_of_reach"] and mark["outcome"] != "wrong"
            if mark["found"] is None or hidden or mark["outcome"] == "unknown":
                continue
            entry = priors.entry(mark["name"], mark["way"], quick=document["quick"])
            each = tally.Counted(
                drive["drive"], drive["kind"], mark["name"], mark["outcome"], True, mark["confidence"]
            )
            if not priors.is_consequence(mark["way"]):
                found.append((entry, each))
    return found


def counts(found: Iterable[tuple[str, tally.Counted]]) -> dict[str, tuple[int, int]]:
    """Right answers and all of them, by entry.

    >>> sure = tally.Counted("1", "ssd", "mapping", "right", True, 0.97)
    >>> counts([("mapping", sure), ("mapping", sure)])
    {'mapping': (2, 2)}
    """
    kept: dict[str, tuple[int, int]] = {}
    for entry, each in found:
        right, asked = kept.get(entry, (0, 0))
        kept[entry] = (right + (each.outcome == "right"), asked + 1)
    return dict(sorted(kept.items()))


def weight_of(table: Mapping[str, tuple[int, int]]) -> float:
    """The likeliest weight of the frequency elsewhere behind the count of one way.

    >>> alike, unlike = {"a": (19, 20), "b": (38, 40)}, {"a": (20, 20), "b": (1, 10)}
    >>> weight_of(alike) > weight_of(unlike)
    True
    """
    mean = priors.ELSEWHERE.right / priors.ELSEWHERE.asked

    def likelihood(weight: float) -> float:
        good, bad = weight * mean, weight * (1 - mean)
        return sum(
            math.lgamma(good + right) + math.lgamma(bad + asked - right) - math.lgamma(weight + asked)
            + math.lgamma(weight) - math.lgamma(good) - math.lgamma(bad)
            for right, asked in table.values()
        )  # fmt: skip

    return float(max(WEIGHTS, key=likelihood))


def table_text(table: Mapping[str, tuple[int, int]], probes: str) -> str:
    """The module of the table."""
    lines = (f'    "{entry}": ({right}, {asked}),\n' for entry, (right, asked) in table.items())
    return HEAD.format(probes=probes, weight=weight_of(table)) + "".join(lines) + "}\n"


def main() -> int:
    """Counts the answers of the scores that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "scores", nargs="+", type=Path, metavar="FILE", help="what bench/score.py --json printed"
    )
    parser.add_argument("--write", action="store_true", help="make the table of the package anew")
    arguments = parser.parse_args()
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in arguments.scores]
    found = [each for document in documents for each in answers(document)]
    table = counts(found)
    if arguments.write:
        for entry, (right, asked) in EARLIER.items():
            more = table.get(entry, (0, 0))
            table[entry] = (right + more[0], asked + more[1])
        whole = dict(sorted(table.items()))
        TABLE.write_text(table_text(whole, _probes(documents)), encoding="utf-8")
        return 0
    tally.show_bins(tally.bins(each for _, each in found))
    new = [entry for entry in table if entry not in priors.COUNTED]
    print(f"\nof {len(table)} ways {len(new)} were never counted{': ' if new else ''}{'; '.join(new)}")
    return 0


def _probes(documents: Sequence[Mapping[str, Any]]) -> str:
    """What was probed, in words."""
    said = []
    for document in documents:
        drives = [int(drive["drive"]) for drive in document["drives"]]
        how = "quick probes" if document["quick"] else "probes"
        said.append(f"{len(drives)} {how} of random drives {min(drives)} to {max(drives)}")
    return ";\n".join(said)


if __name__ == "__main__":
    sys.exit(main())
