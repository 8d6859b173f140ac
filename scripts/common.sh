# What the set-up scripts share: one-line messages, and packages from the system's package manager.
# Sourced by the others, never run. Invariant: a message names what is missing and how to mend it, on one line.

# say TEXT: progress, for people.
say() {
    printf 'skylight: %s\n' "$*"
}

# fail TEXT: one line on stderr, then exit 2 (wrong use: this machine lacks something).
fail() {
    printf 'skylight: %s\n' "$*" >&2
    exit 2
}

# retry COUNT COMMAND..: mirrors and networks stumble; a second try a few seconds later usually works.
retry() {
    local tries=$1 try
    shift
    for ((try = 1; try <= tries; try++)); do
        "$@" && return 0
        ((try < tries)) && sleep $((try * 5))
    done
    return 1
}

# as_root COMMAND..: run with root rights without ever asking for a password; false when there are none.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        sudo -n "$@"
    else
        return 1
    fi
}

# apt_install PACKAGE..: quietly; the log is shown only when it fails.
apt_install() {
    command -v apt-get >/dev/null || return 1
    as_root true || return 1
    local log
    log=$(mktemp)
    say "installing system packages: $*"
    if retry 3 apt_once "$log" "$@"; then
        rm -f "$log"
        return 0
    fi
    tail -n 5 "$log" >&2
    rm -f "$log"
    return 1
}

# apt_once LOG PACKAGE..: one try; the index is read again each time, since a stale one is the usual cause of failure.
apt_once() {
    local log=$1
    shift
    as_root env DEBIAN_FRONTEND=noninteractive apt-get update >"$log" 2>&1 </dev/null &&
        as_root env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y --no-install-recommends "$@" >>"$log" 2>&1 </dev/null
}
