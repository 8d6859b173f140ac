"""Chances of counts: exact tails of the distributions that the tests judge by.

Whole numbers are enough for all of them: a variance ratio of even degrees of freedom is a binomial tail, as
the incomplete beta function of whole parameters is. So none needs a library whose import takes longer than
the rest of the inference.

Invariant: the chance of "at least so many" is 1 for none and 0 for more than there are; very small ones are
right to about ten digits.

Source: Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.5.24 (beta and binomial) and 26.6.2
(variance ratio); Wald and Wolfowitz, "On a test whether two samples are from the same population" (1940).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from math import comb, log, log1p

import numpy as np


def binomial_tail(least: int, of: int, chance: float) -> float:
    """The chance that at least `least` of `of` trials come out, each of the same chance by itself.

    >>> round(binomial_tail(2, 3, 0.5), 9)
    0.5
    """
    if least <= 0 or chance >= 1.0:
        return 1.0 if least <= of else 0.0
    if least > of or chance <= 0.0:
        return 0.0
    first = log(comb(of, least)) + least * log(chance) + (of - least) * log1p(-chance)
    more = np.arange(least, of)  # each of these to the next: so much more likely
    steps = np.log((of - more) / (more + 1)) + (log(chance) - log1p(-chance))
    return min(1.0, float(np.exp(first + np.concatenate([[0.0], np.cumsum(steps)])).sum()))


def hypergeometric_tail(least: int, of: int, marked: int, drawn: int) -> float:
    """The chance that at least `least` of `drawn` drawn from `of` are among the `marked` of these.

    >>> hypergeometric_tail(2, 4, 2, 2) == 1 / 6
    True
    """
    hits = range(max(least, 0), min(marked, drawn) + 1)
    return sum(comb(marked, hit) * comb(of - marked, drawn - hit) for hit in hits) / comb(of, drawn)


def few_runs(marks: Iterable[bool]) -> float:
    """The chance of so few runs of equal marks, or fewer, where any order of them is as likely (runs test).

    >>> few_runs([True, True, False, False]) == 2 / 6
    True
    """
    listed = [bool(mark) for mark in marks]
    changes = sum(one != next_ for one, next_ in pairwise(listed))
    one, other = sum(listed), len(listed) - sum(listed)
    if not one or not other:
        return 1.0

    def ways(changes: int) -> int:
        half, odd = divmod(changes, 2)
        if odd:  # as many runs of one mark as of the other
            return 2 * comb(one - 1, half) * comb(other - 1, half)
        return comb(one - 1, half) * comb(other - 1, half - 1) + comb(one - 1, half - 1) * comb(
            other - 1, half
        )

    return sum(ways(each) for each in range(1, changes + 1)) / comb(one + other, one)


def ratio_tail(ratio: float, one: int, other: int) -> float:
    """The chance that a ratio of variances is at least so large where both are one; of twice `one` and twice
    `other` degrees of freedom (F test).

    >>> round(ratio_tail(1.0, 3, 3), 9)
    0.5
    """
    return binomial_tail(other, one + other - 1, other / (other + one * ratio))
