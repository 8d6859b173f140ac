"""The burn-in of the papers: a file system, a compiled kernel and a booted system on a served drive.

Skylight's authors proved their emulated drives so (FAST'15, section 3.1): ext4 was made on one, a Linux
kernel compiled on it, and a system installed on it was booted. Here the drive is any NBD server: it is
attached to the host by nbdfuse and a loop device, and to a guest of QEMU directly. Then the server is killed
in the middle of writes, started again, and all that was made durable has to be there.

`python -m burn_in --help` with `tests` on PYTHONPATH; `make burn-in` runs the whole of it.

Invariants: nothing is attached or mounted any more when it ends, however it ends; every step that fails says
which step and why; nothing is written outside the folders of the run and of the packages.
"""
