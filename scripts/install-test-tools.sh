#!/usr/bin/env bash
# Installs the system tools that the tests use as peers, when they are missing and we may.
# It never fails: a test that needs a tool which is still missing says so itself (tests/conftest.py, need_tool).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

# Block-device tools live in sbin, which is not on everybody's PATH.
PATH=$PATH:/usr/sbin:/sbin

# command:package
tools=(
    fio:fio
    nbdkit:nbdkit
    nbdinfo:libnbd-bin
    nbdcopy:libnbd-bin
    nbdfuse:libnbd-bin
    qemu-img:qemu-utils
    nbd-client:nbd-client
    openssl:openssl
    mkfs.ext4:e2fsprogs
    sfdisk:fdisk
    losetup:mount
    mount:mount
    blockdev:util-linux
    modprobe:kmod
    systemctl:systemd
    chromium:chromium
    qemu-system-x86_64:qemu-system-x86
    cpio:cpio
    zsh:zsh
    fish:fish
)

missing=()
for tool in "${tools[@]}"; do
    command -v "${tool%%:*}" >/dev/null || missing+=("${tool##*:}")
done
if [ ${#missing[@]} -gt 0 ]; then
    apt_install "${missing[@]}" ||
        say "cannot install ${missing[*]}: no root rights, no apt-get or no network; tests that need them will say so"
fi
