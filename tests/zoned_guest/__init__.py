"""A guest with zoned devices: Debian's kernel in QEMU, with the host's root below a file system in memory.

The guest sees every program and library of the host without an image to build, and its kernel has what the
host's may lack: null_blk and scsi_debug with zones, zonefs. `boot` starts it on the host, `inside` is what
runs in it: steps come as a file and what they did goes back as one, so that every judgement is the tests'.

Invariants: nothing is written to the host but the folder of the run and that of the packages; QEMU has ended
when a function here returns, however it returns.
"""
