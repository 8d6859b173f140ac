"""Names that must not reach a file: package registries, this machine's mirrors of them, this machine's paths.

The names are put together from pieces, so that this file obeys the rule it serves.
Invariant: of a configured URL only the host's name is kept; a user name or password in it is passed over.
Source: pip's "Configuration" page, Cargo's "Configuration" page, sources.list(5).
"""

import os
import re
from functools import cache
from pathlib import Path

_PUBLIC = (
    ("crates", "io"),
    ("py" + "pi", "org"),
    ("python" + "hosted", "org"),
    ("npm" + "js", "org"),
    ("npm" + "js", "com"),
    ("ana" + "conda", "org"),
    ("proxy", "golang", "org"),
    ("deb", "debian", "org"),
    ("security", "debian", "org"),
)
# What cargo itself writes into its lock file: the name of the default registry's index, not a place we chose.
CARGO_LOCK_SOURCE = "registry+https://github.com/rust-lang/" + "crates" + ".io-index"
_URL = re.compile(r"(?:[a-z+]+)://(?:[^/@\s\"']*@)?([A-Za-z0-9][A-Za-z0-9.-]+)")
# A mirror may be declared in any of these; those that do not exist are not read.
_VARIABLES = re.compile(r"^(PIP|UV|CARGO|NPM)_.*(INDEX|REGISTR|SOURCE|LINKS|PROXY)", re.IGNORECASE)
_LOCAL = {"localhost", "github.com", "ssl", "127.0.0.1"}

MACHINE_PATHS = tuple(
    "/" + path for path in ("work/", "tmp/spec", "tmp/target-", "tmp/venv-", "root/", "opt/wheels")
)


def _configuration_files() -> list[Path]:
    home = Path.home()
    cargo = Path(os.environ.get("CARGO_HOME", home / ".cargo"))
    named = os.environ.get("PIP_CONFIG_FILE")
    files = [
        Path("/etc/pip.conf"),
        Path("/etc/xdg/pip/pip.conf"),
        home / ".pip/pip.conf",
        home / ".config/pip/pip.conf",
        *([Path(named)] if named else []),
        cargo / "config",
        cargo / "config.toml",
        *(parent / ".cargo" / name for parent in Path.cwd().parents for name in ("config", "config.toml")),
        Path("/etc/apt/sources.list"),
        *sorted(Path("/etc/apt/sources.list.d").glob("*")),
    ]
    return [file for file in files if file.is_file() and os.access(file, os.R_OK)]


def hosts_in(text: str) -> set[str]:
    """The host names of the URLs in `text`, without those that name no machine of their own."""
    found = {host.lower().rstrip(".") for host in _URL.findall(text)}
    return {host for host in found if "." in host and host not in _LOCAL}


@cache
def registry_hosts() -> tuple[str, ...]:
    """Public registries and the mirrors that pip, cargo and apt of this machine are told to use."""
    texts = [file.read_text(encoding="utf-8", errors="replace") for file in _configuration_files()]
    texts += [value for name, value in os.environ.items() if _VARIABLES.match(name)]
    mirrors = set().union(*(hosts_in(text) for text in texts))
    return tuple(sorted({".".join(pieces) for pieces in _PUBLIC} | mirrors))
