#!/usr/bin/env bash
# Resolves pyproject.toml (with the dev and video extras) into requirements.lock: exact versions and hashes for Python 3.11, and
# nothing of the machine it ran on: no index, no links, no paths.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
scripts/make-venv.sh "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check pip-tools
"$work/venv/bin/pip-compile" --quiet --extra dev --extra video --generate-hashes --strip-extras --allow-unsafe --upgrade \
    --no-header --no-annotate --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
    --output-file "$work/lock" pyproject.toml
{
    echo '# Exact versions and hashes of everything the set-up installs. Written by `make lock` from pyproject.toml.'
    cat "$work/lock"
} >requirements.lock
say "requirements.lock: $(grep -c '==' requirements.lock) packages"
