"""Seeds on the command line of a bench."""

import argparse


def seeds_of(text: str) -> list[int]:
    """Seeds from "7", "7,9" or "1000-1019,1077"; `argparse.ArgumentTypeError` of anything else.

    >>> seeds_of("7,1000-1002")
    [7, 1000, 1001, 1002]
    """
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not (first.isdecimal() and (last or first).isdecimal() and int(first) <= int(last or first)):
            raise argparse.ArgumentTypeError(f'{part!r} is no seed; write them as "7", "7,9" or "1000-1099"')
        seeds += range(int(first), int(last or first) + 1)
    return seeds
