"""The steps of test 2 by their names, where they read and how often: what the plan asks for and the analysis
takes apart alike.

Invariant: constants alone.

Source: docs/tests/rotation.md, "What is done to the drive".
"""

from __future__ import annotations

VISITS, PLACES_PER_ROUND, ROUNDS = 4, 16, 2
ROUND_IOS = VISITS * PLACES_PER_ROUND
SAME_PIECES, SAME_READS = 16, 256
NEXT_READS, APART_READS = 48, 40
TURN_PAIRS, TURN_READS = 16, 24
"""Stretches of hops within a track and to the next, which take turns, and reads of each stretch: a quarter of
a second. Chosen: in that time a busy host hardly changes, and one read in 24 is lost to the way there."""
PLACE_READS, STAR_READS, FULL_READS = 128, 40, 240
COARSE_TIMES = 3
"""As many reads where the clock is coarse: its tick scatters angles three times as far."""
OTHERS = (0.003, 0.011, 0.03, 0.06, 0.09, 0.12, 0.15, 0.18, 0.21, 0.24, 0.3, 0.36, 0.43, 0.5, 0.57, 0.64, 0.7,
          0.76, 0.8, 0.83, 0.86, 0.885, 0.91, 0.93, 0.95, 0.97, 0.985, 0.993, 1.0)  # fmt: skip
"""Parts of the address space that are looked at for their radius: dense at the ends, where horizontal zones
may have the outermost and innermost track anywhere."""
TOWARDS_END, TOWARDS_READS = "towards-end", 128
"""The step that reads at each of `TOWARDS` so often."""
TOWARDS = (0.5, 0.54, 0.58, 0.62, 0.66, 0.7, 0.74, 0.78, 0.82, 0.86, 0.9, 0.94)
"""Parts of the address space from the middle on whose tracks say how large those of the end have to be: up to
where what was written last can be, a few hundredths of a drive."""
END = ("id", "id-before")
"""The steps that show tracks up to the last address, and before."""
AROUND, AROUND_PLACES = "md-around", 4
"""The step that reads around the middle, and the number of places there."""
IN_TURNS = "in-turns"
ALONE = "-alone"
"""Behind the name of an address: its tracks, read once more without those of another size beside them."""
SAME_AGAIN = "same-again"
"""The step of hops within a track whose window is wider, where the edge was not in that of `same`."""
STARS = ("from-first", "from-far", "from-back", "from-there")
FINE = "-fine"
ONCE_MORE = "-again"
"""Behind the name of a step of hops: the pairs whose edge the fine pass did not show, in a wider window."""
BEHIND = "first-behind"  # instead of the step `first`, where other tests have written there
