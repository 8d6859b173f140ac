"""Journal: how a journaled persistent cache writes, entry by entry.

Lone writes of growing size tell the *quantum*: they take the same time until they no longer fit into one,
then a step more. Writes that wait together complete together, so the largest group bounds an *entry*, and
shows how many small writes the drive packs into one. Every so many entries the map of the cache is *merged*
to its home; a lone write then stalls, at the same writes again after an erase. The first entry, written over
and over in many phases of arrival, shows how long its *out-of-band data* is.

| module | holds |
|---|---|
| `measure` | the runs, and the search for the quantum and the bound |
| `entry_space` | whether writes of two sizes take the same space |
| `quantum_steps` | how long a step to another quantum may be |
| `entries` | groups that complete together, and the bound on an entry |
| `splits` | single writes that are longer than an entry |
| `entry_model` | the same from the times of all sizes at once |
| `map_merges` | the stalls that are merges, and what one costs |
| `out_of_band_time` | the first entry, again and again |
| `unerased_entries`, `unerased_verdict` | entries wherever the log is, where the target cannot be erased |
| `write_through` | writes that are flushed where a volatile cache stays on |
| `findings`, `verdict` | what is reported, and how it is decided |
| `figures` | the pictures |

Invariants: a drive whose time grows smoothly with the size of a write has no journal, and gets no findings;
a step is a quantum only if it lies between two neighbouring sizes.

Source: Skylight (FAST '15) sections 4.3 and 4.3.1, Figures 5 to 7; docs/figures.md, rows S1e to S1h.
"""

from __future__ import annotations

from collections.abc import Sequence

from skylight.evidence import Evidence, TargetFacts
from skylight.findings import Finding
from skylight.probe import Axis, Cost, Figure, fua_writes
from skylight.probe.journal.figures import draw
from skylight.probe.journal.findings import FINDINGS
from skylight.probe.journal.measure import (
    APART,
    DEPTH,
    LADDER_STEPS,
    MOST_LONE,
    QUEUE_RUNS,
    WRITES,
    Bench,
    Runs,
    measure,
)
from skylight.probe.journal.out_of_band_time import FAST_CYCLES
from skylight.probe.journal.unerased_entries import MOST_IOS
from skylight.probe.journal.verdict import judge, observe
from skylight.probe.journal.write_through import COARSE_ROUNDS, written_through
from skylight.probe.procedure import ProcedureTest, Replay, Steps, is_shingled

MOST_S, LIKELY_S = 3_600.0, 160.0
MOST_BYTES = 40 << 30


class Journal(ProcedureTest[Runs]):
    """See the module's page."""

    name = "journal"
    title = "Journal"
    findings = FINDINGS
    axis: Axis = "number"
    needs: tuple[str, ...] = ("drive_type", "rotation")
    summary = (
        "Writes of growing size, one at a time and many waiting, show the quantum and the largest entry of a"
        " journal; thousands of lone writes show how often its map is merged and what that costs; the first"
        " entry, written in many phases, the time of its out-of-band data."
    )
    rests_on_type = True
    runs_in_a_file = True
    judges_part = True
    begin = Runs

    def cost(self, facts: TargetFacts) -> Cost:
        """At most this: the runs of a drive with a journal of large quanta."""
        single = 2 * MOST_LONE + 2 * APART
        sized = 60 * WRITES["flash"] + (QUEUE_RUNS + LADDER_STEPS) * 2 * DEPTH
        cycles = max(4 * FAST_CYCLES, MOST_IOS) + 4 * COARSE_ROUNDS
        cycles += fua_writes.MOST_IOS + fua_writes.MOST_IOS_AGAIN
        return Cost(single + sized + 2 * APART + cycles, MOST_S, MOST_BYTES, LIKELY_S)

    def procedure(self, steps: Steps, seen: Runs) -> None:
        """Sizes, queues, many lone writes and the first entry, as far as the drive has a journal."""
        if not is_shingled(steps):
            return
        with steps.settings("settings", write_cache=False, look_ahead=False) as report:
            steps.reset("reset")  # else the looks at the volatile cache wait for what is cleaned
            through, seen.volatile, seen.way_ns = written_through(steps, report)
            if seen.volatile not in ("hidden", "late"):
                known = steps.known
                measure(Bench(through, known.word("cache_medium"), known.number("rotation_ns"), seen))

    def verdict(self, seen: Runs, steps: Replay) -> list[Finding]:
        """Quantum, entry bound, packing, out-of-band time, map merges; none for a drive without a journal."""
        return judge(observe(seen), seen, steps.known)

    def draw(self, evidence: Evidence, findings: Sequence[Finding]) -> list[Figure]:
        """Lone writes in order, time against size, blocks read back."""
        return draw(observe(self.seen(evidence, findings)), evidence)
