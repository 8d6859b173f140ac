"""Fragmented reads from logs: what fio's latency logs of sequential reads say about a drive.

The reads are those of Skylight's Test 2: every second block of a run was written, so that a shingled drive
holds it in its cache, then all blocks are read in address order, one at a time. From the latencies alone come
one revolution, the tracks and their skew, the arm's way to the cache, on which side of the drive that is, and
at which angles cached blocks follow each other. Logs of other reads tell less, and the rest is unknown.

This test is not in the live suite, which measures each of these in a better way; it reads logs that
`skylight.engines.fio_log` has turned into evidence.

Invariant: infer() and draw() use the evidence alone; what a log does not carry is unknown.
Source: Skylight (FAST '15) section 4.4, Test 2 and Figure 8; docs/tests/fragmented-reads.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from skylight.evidence import Evidence
from skylight.findings import Finding, Known
from skylight.probe import Axis, Figure, LogTest
from skylight.probe.fragmented_reads import figures
from skylight.probe.fragmented_reads.analysis import places_of
from skylight.probe.fragmented_reads.findings import FINDINGS
from skylight.probe.fragmented_reads.verdict import judge


class FragmentedReads(LogTest):
    """See the module's page."""

    name = "fragmented_reads"
    title = "Fragmented reads"
    findings = FINDINGS
    axis: Axis = "number"
    summary = (
        "Latency logs of reads in address order, one at a time: where every second block lies in a cache,"
        " they show one revolution, the tracks, and the arm's way to the cache."
    )

    def infer(self, evidence: Evidence, known: Known) -> list[Finding]:
        """What the logs tell; unknown what they do not."""
        del known
        return judge(places_of(evidence)) if evidence.steps else []

    def draw(self, evidence: Evidence, findings: Sequence[Finding]) -> list[Figure]:
        """Latency against read number, and the angle of blocks against their address, of each log."""
        del findings
        return figures.draw(places_of(evidence))
