"""The paper's results on the emulated drives: each row is measured and compared with its band.

| module | contents |
|---|---|
| `rows` | Band, Check, Row: what is compared, and when it passes |
| `tolerances` | every band, once |
| `emulated_drives` | drives, commands, head traces, and measurements that two rows share |
| `latency`, `fragmented_region`, `cleaning`, `cache_capacity`, `recommendations` | its tests on new drives |
| `geometry` | row W6 on the paper's kind of disk |
| `from_fio_logs` | results from the logs of a real drive |
| `probe_findings` | findings of the characterization suite |
| `fast15` | the rows in order, and the run |
| `rows_page` | the rows as docs/figures.md shows them |
| `drawing`, `page` | figures in the manner of the paper's, and the page |
| `swd`, `hasmr` | the rows of the two other papers |

Invariant: no row is satisfied by a constant; each result comes from running the test on the drive. The same
run yields the same figures.

Source: Skylight (FAST '15); docs/reproduce.md.
"""
