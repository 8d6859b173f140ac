"""Statistics that the tests share. Pure functions of numpy columns: no target, no files, no state
but answers that are kept for when the same is asked again.

| module | answers |
|---|---|
| `robust` | is a latency fixed or varying, in the face of outliers; how sure is that (bootstrap) |
| `priors` | what no evidence of a run gives: how often ways to an answer are right, and priors |
| `right_answer_counts` | the counts of these, as `bench/count_answers.py` writes them |
| `tail_probability` | how likely a count or a ratio is by chance alone |
| `phase` | do completion times follow a rotation: which period, how strongly tied to the address |
| `log_phase_step` | do commands complete like parts of a revolution after one another: a log on a platter |
| `one_spindle` | do all blocks follow the one rotation that was found |
| `striped` | do addresses go to several disks in turn |
| `cached_or_native` | is a written block in the persistent cache or at its native location |
| `cached_or_native_extent` | the same of what was written in one go, of which neighbours were written too |
| `blocks_moved` | did blocks move while something else happened |
| `stalls` | which writes stall, do they come at an even distance, from which on does a drive clean |
| `stalls_amid_delays` | the period of rare stalls that other delays hide |
| `tracks_under_entries` | how long tracks are under entries of a log, from the angles of their blocks |
| `track_borders` | how many bytes a track holds, from where tracks end |
| `track_phases` | the revolution to a few parts in a million; the angle of each block of a track, its size |
| `track_size_change` | tracks of one size, where a zone or a surface ends among those that were read |
| `minimum_access_time` | overhead and arm time from whether blocks were caught or missed |
| `latency_without_wait` | the shortest of times that hold a wait for a place to come round |
| `adjacent_tracks` | which neighbouring tracks lie on one surface: a step of the arm against a head switch |
| `tracks_in_bands` | the same of tracks in bands of a few each, whose distance is not known |
| `remembered` | what a fit or a test of the same columns gave before |
| `host_clock` | what a host adds to times: the tick of its clock, its gap between commands |
| `ordered_reads` | revolution, tracks, way to a cache: from latencies of reads in address order alone |
| `zone_throughput` | how many zones a zoned drive serves at full speed, and when it blocks |

Every random draw in here comes from a fixed seed: the same evidence gives the same finding to the last digit.
"""

from __future__ import annotations
