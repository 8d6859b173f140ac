"""Foreign devices: what people have in their machines that is no model of the suite.

Each is an engine over simulated disks, so that what reaches a platter takes the time of a platter: arrays,
caches in front of a disk, volumes that place data themselves, disks with an ailment. `family` lists
them, each with what an expert would say after every test that a host can run.

* `base`: commands one by one on a common clock, and the disks they reach.
* `arrays`, `redundant`, `caches`, `tiers`, `volumes`, `mappers`, `remote`, `flash`, `ailments`,
  `stacked`: the devices.
* `expert`: what counts as right; `family`: the list, with the answers that do.

Invariants: virtual time; the same seed gives the same times; a device does to its disks what the real one
would, and knows nothing of the suite.

Source: docs/foreign-devices.md.
"""
