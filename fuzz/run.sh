#!/usr/bin/env bash
# Runs every fuzz target, FUZZ_SECONDS (an hour) of them together. What makes one fail
# stays in fuzz/artifacts/TARGET, and `cargo +nightly fuzz run TARGET FILE` shows it again.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

command -v rustup >/dev/null || fail "rustup not found: fuzzing needs a nightly compiler; install rustup, then run make fuzz again"
rustup run nightly rustc --version >/dev/null 2>&1 || {
    say "installing a nightly compiler: sanitizers need it"
    retry 3 rustup toolchain install nightly --profile minimal ||
        fail "cannot install a nightly compiler: check the network, then run make fuzz again"
}
command -v cargo-fuzz >/dev/null || {
    say "installing cargo-fuzz"
    retry 3 cargo install cargo-fuzz --locked --quiet ||
        fail "cannot install cargo-fuzz: check the network, then run make fuzz again"
}

targets=(handshake requests formats image)
each=$((${FUZZ_SECONDS:-3600} / ${#targets[@]}))
cd fuzz
cargo +nightly fuzz build --release
for target in "${targets[@]}"; do
    say "fuzzing $target for $each s"
    mkdir -p "corpus/$target"
    # Inputs may be as long as the longest conversation that reaches anything new, memory bounded as the server's is.
    cargo +nightly fuzz run --release "$target" -- -max_total_time="$each" -max_len=8192 -rss_limit_mb=1024 \
        -timeout=20 -print_final_stats=1 -use_value_profile=1 -len_control=0
done
say "nothing found in $((each * ${#targets[@]})) s"
