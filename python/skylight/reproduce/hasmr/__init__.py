"""The host-aware drive compared with the paper on it and with recordings of it: rows H1a to H5, R2 to R5.

| module | contents |
|---|---|
| `table` | the rows in order, and the run |
| `tolerances` | every band, once |
| `real_drive_recordings` | what the real drive did: readers of the recordings |
| `drive` | the emulated drive: zones, commands on them, replays |
| `bursts` | H1a, H1b, R2: bursts of writes over a number of zones |
| `sustained` | H2, R3, R4: non-sequential writes until the drive blocks, and beyond |
| `cleaning` | H3a, H3b, R5: how long cleaning a zone takes |
| `buffer` | H4, H5: many streams, directly and through a buffer of the host; its recovery |
| `drawing` | figures in the manner of the paper's, with the recordings laid over them |

Invariants: a row that cannot be measured has no figures, which is a miss, and a note with the reason. Where
the paper and a recording disagree, the band is the recording's, and a note says so.

Source: Wu et al., "Evaluating Host-Aware SMR Drives" (HotStorage '16); the READMEs beside the recordings.
"""
