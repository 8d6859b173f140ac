"""`skylight devices`: what disks declare, which may be probed, and what lists say of models."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from device_targets import MIB, loop, sparse, tool
from skylight.cli.app import run
from skylight.cli.devices import survey
from skylight.engines.product_models import TABLE, Listed, listed, table
from skylight.report.declared_hints import hints


def put(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content + "\n", encoding="ascii")


def fake(root: Path) -> None:
    """A machine with a SATA disk and an empty card reader, neither of which has a file below /dev."""
    ata = "devices/pci0000:00/0000:00:17.0/ata3/host2/target2:0:0/2:0:0:0/block/skyfake"
    for name, path, size in (
        ("skyfake", ata, 7_814_037_168),
        ("skyreader", "devices/pci0000:00/usb1/1-1/host6/block/skyreader", 0),
    ):
        node = root / "sys" / path
        put(node / "dev", "250:7")
        put(node / "size", str(size))
        (root / "sys/block").mkdir(parents=True, exist_ok=True)
        (root / "sys/block" / name).symlink_to(node)
    put(root / "sys" / ata / "device/model", "ST4000DM004-2CV104")
    put(root / "sys" / ata / "serial", "ZFN0 1")
    put(root / "sys" / ata / "device/queue_depth", "32")
    put(root / "sys" / ata / "queue/scheduler", "none [mq-deadline] kyber")
    put(root / "sys" / ata / "queue/rotational", "1")
    put(root / "proc/self/mountinfo", "")
    put(root / "proc/swaps", "Filename Type Size Used Priority")


def test_a_disk_is_described_by_what_it_declares(tmp_path: Path) -> None:
    fake(tmp_path)
    (disk,) = survey(str(tmp_path))
    assert {name: disk[name] for name in ("path", "model", "serial", "size_bytes", "bus", "rotational")} == {
        "path": "/dev/skyfake", "model": "ST4000DM004-2CV104", "serial": "ZFN0 1",
        "size_bytes": 4_000_787_030_016, "bus": "ata", "rotational": True,
    }  # fmt: skip
    assert (disk["queue_depth"], disk["scheduler"]) == (32, "mq-deadline")
    assert disk["listed"]["recording"] == "smr" and disk["listed"]["url"].startswith("https://")
    assert (disk["probe"], disk["why"]) == ("no", "it has no file below /dev")


def test_the_list_says_who_says_what(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake(tmp_path)
    found = survey(str(tmp_path))
    monkeypatch.setattr("skylight.cli.devices.survey", lambda: found)
    assert run(["devices"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "/dev/skyfake  4 TB  ata  ST4000DM004-2CV104  serial ZFN0 1",
        "    declares rotating",
        "    listed as shingled (SMR) by Seagate, CMR and SMR Hard Drives",
        "    probe: nothing, it has no file below /dev",
    ]
    monkeypatch.setattr("skylight.cli.devices.survey", list)
    assert run(["devices"]) == 0
    assert capsys.readouterr().out == "No disks here.\n"


def test_a_machine_without_sysfs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Exception, match=r"sys/block: listing the disks failed: .*No such file"):
        survey(str(tmp_path))


def judged(path: str) -> dict[str, Any]:
    return next(disk for disk in survey() if disk["path"] == path)


@pytest.mark.usefixtures("need_root")
def test_real_devices_are_judged_as_a_probe_judges_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with loop(sparse(tmp_path / "disk.img")) as device:
        assert (judged(device.path)["probe"], judged(device.path)["why"]) == ("writes", None)
        tool("mkfs.ext4", "-q", device.path)
        assert (judged(device.path)["probe"], judged(device.path)["why"]) == (
            "reads", "holds a file system (ext4)",
        )  # fmt: skip
        with open(device.path, "rb"):
            assert f"process {os.getpid()}" not in str(judged(device.path)["why"]), "our own use is no use"
        assert run(["devices", "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["schema"] == 1
        (disk,) = [one for one in document["devices"] if one["path"] == device.path]
        assert (disk["bus"], disk["size_bytes"], disk["below"]) == (
            "loop", 96 * MIB, str(tmp_path / "disk.img"),
        )  # fmt: skip


@pytest.mark.usefixtures("need_root")
def test_a_disk_that_somebody_uses_is_for_reads_only(tmp_path: Path) -> None:
    with loop(sparse(tmp_path / "disk.img")) as device, open(device.path, "rb") as held:
        user = subprocess.Popen(["sleep", "60"], stdin=held)
        try:
            disk = judged(device.path)
            assert disk["probe"] == "reads" and f"process {user.pid}" in disk["why"]
        finally:
            user.kill()
            user.wait()


def test_every_list_of_models_has_a_source_that_can_be_opened() -> None:
    assert len(table()) > 40
    for model, known in table().items():
        assert model.isalnum() and model.isupper() and len(model) >= 6, model
        assert known.recording in ("smr", "cmr") and known.url.startswith("https://") and known.source
        assert (known.managed_by is None) == (known.recording == "cmr"), model
    text = TABLE.read_text(encoding="utf-8")
    assert all(text.count(f'"{model}"') == 1 for model in table()), "a model is in one list"


@pytest.mark.parametrize(
    ("model", "recording"),
    [
        ("ST5000AS0011-1BG188", "smr"),
        ("WDC WD40EFAX-68JH4N0", "smr"),
        ("WDC WD40EFRX-68WT0N0", "cmr"),
        ("TOSHIBA HDWD240", "smr"),
        ("ST4000NC001-1FS168", "cmr"),
        ("WDC WD80EFAX-68KNBN0", None),
        ("TOSHIBA MQ04ABF1", "smr"),  # 16 characters of TOSHIBA MQ04ABF100
        ("A TOSHIBA MQ04AB", None),  # too little of it
        ("TOSHIBA  MQ04ABF1", None),  # not cut off
        ("QEMU HARDDISK", None),
        ("", None),
    ],
)
def test_a_model_is_found_by_the_beginning_of_a_word(model: str, recording: str | None) -> None:
    known = listed(model)
    assert (None if known is None else known.recording) == recording


def test_a_model_that_is_cut_off_is_unknown_where_lists_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    smr, cmr = (Listed(kind, None, "a list", "https://example.org") for kind in ("smr", "cmr"))
    known = {"MQ04ABF100": smr, "MQ04ABF123": cmr}
    monkeypatch.setattr("skylight.engines.product_models.table", lambda: known)
    assert listed("TOSHIBA MQ04ABF1") is None
    known["MQ04ABF123"] = smr
    assert listed("TOSHIBA MQ04ABF1") is smr


def test_a_hint_says_that_it_is_declared_and_by_whom() -> None:
    (said,) = hints({"model": "WDC WD40EFAX-68JH4N0"})
    assert said.startswith("Its model, WDC WD40EFAX-68JH4N0, is sold as a shingled disk (declared; Western")
    (said,) = hints({"model": "WDC WD40EFRX-68WT0N0"})
    assert "is sold as a conventional disk (declared; heise online" in said
