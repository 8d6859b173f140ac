"""Foreign devices: what people have in their machines that is no model of the suite.

Each is an engine over simulated disks, so that what reaches a platter takes the time of a platter: arrays,
caches in front of a disk, volumes that place data themselves, disks with an ailment. `catalogue` lists
them, each with what an expert would say after every test that a host can run.

* `base`: commands one by one on a common clock, and the disks they reach.
* `arrays`, `redundant`, `distributed`, `caches`, `tiers`, `volumes`, `mappers`, `host_block_layers`,
  `remote`, `flash`, `ssd_firmware`, `firmware`, `ailments`, `stacked`: the devices.
* `accepted_findings`: what counts as right; `catalogue`: the list, with the findings that do.

Invariants: virtual time; the same seed gives the same times; a device does to its disks what the real one
would, and knows nothing of the suite.

Source: docs/foreign-devices.md.
"""
