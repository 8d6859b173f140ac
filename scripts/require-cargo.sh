#!/usr/bin/env bash
# Checks that cargo and a linker are here before anything is built, so that what is missing is said in one line.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

# The oldest Rust is written once, in Cargo.toml.
need=$(sed -n 's/^rust-version = "\([0-9.]*\)".*/\1/p' Cargo.toml | head -n 1)

command -v cargo >/dev/null ||
    fail "cargo not found: install Rust $need or newer with rustup, then run make setup again"
have=$(rustc --version | cut -d' ' -f2)
oldest=$(printf '%s\n%s\n' "$need" "${have%%-*}" | sort -V | head -n 1)
[ "$oldest" = "$need" ] || fail "Rust $have is older than $need: run rustup update, then make setup again"
command -v cc >/dev/null || apt_install gcc libc6-dev ||
    fail "no C linker (cc) found: install gcc and libc6-dev, then run make setup again"
