#!/usr/bin/env bash
# Makes the virtual environment DIR with a Python that is new enough: scripts/make-venv.sh DIR
# The first of $PYTHON, python3.11 .. python3.14, python3 that runs and is at least 3.11 is taken. Debian splits venv
# from its Python; the missing package is installed when we may.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

find_python() {
    local candidate
    for candidate in ${PYTHON:+"$PYTHON"} python3.11 python3.12 python3.13 python3.14 python3; do
        # A version manager's shim may exist and still not run: ask it, do not look for it.
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            printf '%s\n' "$candidate"
            return 0
        fi
    done
    return 1
}

main() {
    local venv=$1 python
    if ! python=$(find_python); then
        apt_install python3 python3-venv ||
            fail "no Python 3.11 or newer found: install python3 and python3-venv, or name one with PYTHON=..."
        python=$(find_python) ||
            fail "the system's Python is older than 3.11: install a newer one and name it with PYTHON=..."
    fi
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        apt_install python3-venv ||
            fail "$python has no venv module: install the package python3-venv, then run make setup again"
    fi
    say "making $venv with $("$python" --version)"
    rm -rf "$venv"
    "$python" -m venv "$venv"
}

main "${1:?usage: scripts/make-venv.sh DIR}"
