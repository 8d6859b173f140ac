#!/usr/bin/env bash
# Removes the report that an earlier `make run` wrote, and nothing else: scripts/clear-report.sh DIR
# Every file in it must be one that a probe writes: a recording, findings, or a page that says Skylight made it.
# One file that is not stops it, and nothing is removed.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

# ours FILE: whether a probe wrote it. What a killed probe was still writing ends in .part.
ours() {
    [ -f "$1" ] && [ ! -L "$1" ] || return 1
    case "${1##*/}" in
        recording.json | findings.json | *.arrows | *.part) return 0 ;;
        *.html) grep -qi '<meta name="generator" content="skylight' "$1" ;;
        *) return 1 ;;
    esac
}

dir=${1:?usage: scripts/clear-report.sh DIR}
[ -e "$dir" ] || exit 0
[ -d "$dir" ] && [ ! -L "$dir" ] || fail "$dir is not a folder: move it away, then run make run again"
while IFS= read -r -d '' file; do
    ours "$file" || fail "$file was not written by Skylight: move $dir away, then run make run again"
done < <(find "$dir" ! -type d -print0)
rm -rf "$dir"
