#!/usr/bin/env bash
# Runs the Rust tests, as many of their programs at once as there are processors; a failure of any is one of this.
# `cargo test` runs one program after another, and most have one test that is much longer than the others. What a program
# says is printed when it ends.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

excluded=skylight-py
packages=(--locked --workspace --exclude "$excluded")
# That of the set-up, which `make` names.
python=${PYO3_PYTHON:-$PWD/.venv/bin/python}
# The longest begin first, so that none is left at the end.
longest='/(hbuffer|random|oracle|out_of_space|set_associative|fully_associative|power_cuts|journaled)-[0-9a-f]+$'
# The last programs have more than one processor, and many of them do not crowd many.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-2}

# A line for each program that ended.
ended=$(mktemp)
trap 'rm -f "$ended"' EXIT
export ended

# run_tests "FOLDER<tab>PROGRAM": in the folder of its crate, as cargo does it.
run_tests() {
    local folder program said code=0
    IFS=$'\t' read -r folder program <<<"$1"
    said=$(cd "$folder" && "$program" 2>&1) || code=$?
    echo "$program" >>"$ended"
    printf '     Running %s\n%s\n\n' "$program" "$said"
    return "$code"
}
export -f run_tests

programs=$(cargo test "${packages[@]}" --no-run --message-format=json-render-diagnostics |
    "$python" scripts/list_test_binaries.py "$excluded")
[ -n "$programs" ] || fail "cargo built no tests: look at what it says above"
awk -v longest="$longest" '$0 ~ longest; $0 !~ longest { rest = rest $0 "\n" } END { printf "%s", rest }' <<<"$programs" |
    xargs -d '\n' -P "$(nproc)" -n 1 bash -c 'run_tests "$1"' run_tests ||
    { say "a test failed: look for FAILED above" >&2; exit 1; }
built=$(wc -l <<<"$programs") ran=$(wc -l <"$ended")
[ "$ran" -eq "$built" ] || fail "$ran of $built test programs ran"
cargo test "${packages[@]}" --doc
