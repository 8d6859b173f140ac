"""Help, man pages and shell completion of every verb."""

import os
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from conftest import lacking
from skylight.cli import man
from skylight.cli.app import VERBS, cli


def verbs(command: click.Command = cli, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            verb = command.get_command(context, name)
            assert verb is not None
            yield from verbs(verb, (*path, name))


def shown(*verb: str) -> str:
    """The help of a verb on a terminal of 80 columns."""
    ended = CliRunner().invoke(cli, [*verb, "--help"], prog_name="skylight", terminal_width=80)
    assert ended.exit_code == 0
    return ended.output


@pytest.mark.parametrize("name", VERBS)
def test_the_list_of_verbs_says_what_each_says_of_itself(name: str) -> None:
    verb = cli.get_command(click.Context(cli), name)
    assert verb is not None
    assert verb.name == name
    assert verb.get_short_help_str(limit=200) == VERBS[name]


@pytest.mark.parametrize("verb", [*verbs()], ids=lambda verb: " ".join(verb) or "skylight")
def test_help_fits_80_columns_is_not_cut_off_and_has_examples(verb: tuple[str, ...]) -> None:
    text = shown(*verb)
    assert "Examples:" in text
    for line in text.splitlines()[1:]:
        assert len(line) <= 80, line
        assert not re.match(r"  [a-z]+ .*\.\.\.$", line), f"cut off: {line}"


@pytest.mark.parametrize("path", [*verbs()], ids=lambda path: " ".join(path) or "skylight")
def test_every_option_that_is_shown_has_help(path: tuple[str, ...]) -> None:
    verb: click.Command = cli
    for name in path:
        below = verb.get_command(click.Context(verb), name) if isinstance(verb, click.Group) else None
        assert below is not None
        verb = below
    options = [each for each in verb.params if isinstance(each, click.Option) and not each.hidden]
    assert [each.opts for each in options if not each.help] == []


def completed(*words: str) -> list[str]:
    """What bash offers for the last of these words."""
    asked = {"_SKYLIGHT_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(("skylight", *words))}
    environment = {**os.environ, **asked, "COMP_CWORD": str(len(words))}
    done = subprocess.run(
        [sys.executable, "-m", "skylight"], env=environment, capture_output=True, text=True, check=True
    )
    return [line.split(",", 1)[1] for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("prob",), ["probe"]),
        (("drives", "show", "emulated-smr-"), ["emulated-smr-1", "emulated-smr-2", "emulated-smr-3"]),
        (("probe", "sim:wsh"), ["sim:wsh722020al"]),
        (("probe", "--only", "rotation,b"), ["rotation,band_size"]),
        (("probe", "--expect", "s"), ["smr"]),
    ],
)
def test_a_shell_is_offered(words: tuple[str, ...], offered: list[str]) -> None:
    assert set(offered) <= set(completed(*words))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_one(shell: str) -> None:
    script = CliRunner().invoke(cli, ["completion", shell], prog_name="skylight")
    assert script.exit_code == 0 and f"_SKYLIGHT_COMPLETE={shell}_complete" in script.output
    program = shutil.which(shell)
    if program is not None:
        subprocess.run([program, "-n"], input=script.output, text=True, check=True)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("skylight geo", ["geometry"]),
        ("skylight probe sim : st5", ["st5000as0011"]),  # as bash splits sim:st5, and keeps "sim:"
        ("skylight serve st4", ["st4000nc001"]),  # files are right there too
        ("skylight probe --only rotation,b", ["rotation,band_size"]),
    ],
)
def test_bash_completes_with_the_script(words: str, expected: list[str], tmp_path: Path) -> None:
    script = CliRunner().invoke(cli, ["completion", "bash"], prog_name="skylight").output
    program = tmp_path / "skylight"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m skylight "$@"\n')
    program.chmod(0o755)
    index = len(words.split()) - 1
    # Only while bash completes for a user is there anything for compopt to change.
    asked = f"COMP_WORDS=({words}); COMP_CWORD={index}; compopt() {{ :; }}; _skylight_completion {program}"
    asked += "; echo ${COMPREPLY[@]}"
    done = subprocess.run(["bash", "-c", f"{script}\n{asked}"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == expected, done.stderr


def script_of(shell: str, folder: Path) -> tuple[Path, dict[str, str]]:
    """A shell's script in a file, and an environment with `skylight` on the PATH and a home of its own."""
    script = folder / f"skylight.{shell}"
    script.write_text(CliRunner().invoke(cli, ["completion", shell], prog_name="skylight").output)
    program = folder / "bin/skylight"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m skylight "$@"\n')
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    return script, {**os.environ, "PATH": path, "HOME": str(folder), "TERM": "dumb", "PS1": "> "}


def test_fish_completes_with_the_script(tmp_path: Path, need_tool: Callable[[str], str]) -> None:
    script, environment = script_of("fish", tmp_path)
    (tmp_path / "drive.toml").touch()
    lines = ("skylight geo", "skylight probe --only rotation,b", "skylight drives check dri")
    asked = "; ".join([f"source {script}", *(f'complete -C "{line}"' for line in lines)])
    done = subprocess.run(
        [need_tool("fish"), "-N", "-c", asked],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    offered = [line.partition("\t")[0] for line in done.stdout.splitlines()]
    assert offered == ["geometry", "rotation,band_size", "drive.toml"], done.stderr


def test_zsh_completes_on_a_terminal_with_the_script(tmp_path: Path, need_tool: Callable[[str], str]) -> None:
    script, environment = script_of("zsh", tmp_path)
    ours, its = os.openpty()
    shown = ""

    def until(words: str) -> None:
        nonlocal shown
        end = time.monotonic() + 30
        while words not in shown:
            ready, _, _ = select.select([ours], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"zsh has shown {shown!r} and not {words!r}"
            shown += os.read(ours, 4096).decode()

    zsh = subprocess.Popen(
        [need_tool("zsh"), "-f", "-i"],
        cwd=tmp_path,
        env=environment,
        stdin=its,
        stdout=its,
        stderr=its,
        start_new_session=True,
    )
    try:
        os.write(ours, f"source {script}; echo com''pletes\n".encode())
        until("completes")
        os.write(ours, b"skylight geo\t")
        until("skylight geometry ")
        os.write(ours, b"\x15skylight probe --only rotation,b\t")
        until("--only rotation,band_size ")
    finally:
        zsh.kill()
        zsh.wait()
        os.close(its)
        os.close(ours)
    assert "not found" not in shown


def test_every_verb_has_a_man_page_that_man_can_read(tmp_path: Path) -> None:
    if find_spec("click_man") is None:
        lacking("click-man is not installed: run make setup")
    assert man.main([str(tmp_path)]) == 0
    assert {file.stem for file in tmp_path.iterdir()} == {"-".join(("skylight", *verb)) for verb in verbs()}
    page = (tmp_path / "skylight-probe.1").read_text()
    for words in (".SH OPTIONS", "\\-\\-expect", ".SH EXAMPLES", "skylight probe sim:emulated\\-smr\\-1"):
        assert words in page
    groff = shutil.which("groff")
    for file in tmp_path.iterdir() if groff else ():
        done = subprocess.run(
            [str(groff), "-man", "-Tutf8", "-ww", "-z", str(file)], capture_output=True, text=True, check=True
        )
        assert done.stderr == "", file.name
        shown = [str(groff), "-man", "-Tascii", "-P-c", "-rLL=80n", str(file)]
        lines = subprocess.run(shown, capture_output=True, text=True, check=True).stdout.splitlines()
        # groff -Tascii overstrikes bold letters: a letter, a backspace, the letter again.
        assert max(len(re.sub(".\b", "", line)) for line in lines) <= 80, file.name
    headings = {
        line for file in tmp_path.iterdir() for line in file.read_text().splitlines() if ".SH" in line
    }
    assert not [line for line in headings if "." in line.removeprefix(".SH")]


def test_man_pages_that_cannot_be_made_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(code: int, *arguments: str) -> str:
        assert man.main(arguments) == code
        text = capsys.readouterr().err
        assert re.fullmatch(r"skylight: [^\n]+\n", text), text
        return text

    assert "FOLDER" in said(2)
    (tmp_path / "file").touch()
    if find_spec("click_man") is not None:
        assert "Not a directory" in said(4, str(tmp_path / "file/man"))
    monkeypatch.setitem(sys.modules, "click_man.man", None)
    assert "pip install click-man" in said(2, str(tmp_path / "man"))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_shell_shows_the_whole_help_of_every_verb() -> None:
    context = click.Context(cli)
    shown = {item.value: item.help for item in cli.shell_complete(context, "") if item.value in VERBS}
    assert shown == VERBS
    assert [item.value for item in cli.shell_complete(context, "comp")] == ["completion"]
    assert "--version" in [item.value for item in cli.shell_complete(context, "--v")]
