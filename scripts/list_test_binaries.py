"""The test programs that cargo built: a line each, the folder of its crate, a tab, the program.

Reads what `cargo test --no-run --message-format=json-render-diagnostics` prints. `cargo metadata` names the
targets that have tests: where the two differ, this ends with 1, so that no test is left out unseen.

``list_test_binaries.py EXCLUDED.. < MESSAGES``; EXCLUDED are packages whose tests cargo left out.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

# A crate's folder, and the name and file of one of its targets.
Target = tuple[str, str, str]


def built(messages: Iterable[str]) -> dict[Target, str]:
    """The test program of each target for which cargo's messages name one."""
    programs: dict[Target, str] = {}
    for line in messages:
        message = json.loads(line) if line.startswith("{") else {}
        if message.get("reason") != "compiler-artifact" or not message["profile"]["test"]:
            continue
        target = message["target"]
        folder = str(Path(message["manifest_path"]).parent)
        if message["executable"]:
            programs[folder, target["name"], target["src_path"]] = message["executable"]
    return programs


def is_finished(messages: Iterable[str]) -> bool:
    """Whether cargo built all that it was asked to."""
    finished = (json.loads(line) for line in messages if line.startswith("{"))
    return any(message.get("reason") == "build-finished" and message["success"] for message in finished)


def expected(metadata: dict[str, Any], excluded: Iterable[str]) -> set[Target]:
    """The targets of a workspace that have tests."""
    left_out = set(excluded)
    return {
        (str(Path(package["manifest_path"]).parent), target["name"], target["src_path"])
        for package in metadata["packages"]
        for target in package["targets"]
        if package["name"] not in left_out and target["test"]
    }


def main(excluded: list[str]) -> int:
    """Prints the programs, and targets about which cargo's answers differ."""
    messages = list(sys.stdin)
    if not is_finished(messages):
        print("skylight: cargo did not build the tests; its error is above", file=sys.stderr)
        return 1
    programs = built(messages)
    command = ["cargo", "metadata", "--locked", "--no-deps", "--format-version=1"]
    asked = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    wrong = expected(json.loads(asked.stdout), excluded) ^ programs.keys()
    for folder, name, _ in sorted(wrong):
        print(
            f"skylight: cargo's metadata and its build differ about tests: {name} in {folder}",
            file=sys.stderr,
        )
    for (folder, _, _), program in programs.items():
        print(folder, program, sep="\t")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
