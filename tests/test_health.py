"""Temperature and error counters: read from what the kernel and the drive show, recorded, and a reason to
stop."""

import json
import os
from pathlib import Path

import pytest

from skylight.engines import health
from skylight.engines.health import Health, health_of, of_log_pages, of_smart, read_log_page, read_smart
from skylight.errors import TargetError
from skylight.evidence import TargetFacts
from skylight.probe.health import HealthWatch
from skylight.recording import HEALTH


def smart(attributes: dict[int, int]) -> bytes:
    """SMART data with these raw values, and its checksum."""
    data = bytearray(512)
    for row, (number, raw) in enumerate(attributes.items()):
        at = 2 + 12 * row
        data[at : at + 5] = bytes([number, 0x32, 0, 100, 100])
        data[at + 5 : at + 11] = raw.to_bytes(6, "little")
    data[511] = -sum(data) & 0xFF
    return bytes(data)


HEALTHY = {5: 8, 194: 0x0000_0014_002B, 197: 0, 199: 70_000}


def test_smart_data_is_read_as_vendors_write_it() -> None:
    counters = {"reallocated_sectors": 8, "pending_sectors": 0, "crc_errors": 70_000}
    assert of_smart(smart(HEALTHY)) == Health(43.0, None, counters)
    upper = of_smart(smart({5: 0x0001_0002_0008, 197: 0x0001_0000_0003})).counters
    assert upper == {"reallocated_sectors": 8, "pending_sectors": 0x0001_0000_0003}
    assert of_smart(smart({190: 31})).temperature_c == 31.0
    assert of_smart(smart({194: 250})).temperature_c is None, "no temperature"


def test_what_is_no_smart_data_says_nothing() -> None:
    broken = bytearray(smart(HEALTHY))
    broken[20] ^= 1
    for data in (bytes(broken), bytes(512), b""):
        assert not of_smart(data).known


def log_page(number: int, values: dict[int, bytes]) -> bytes:
    """A log page of a SCSI disk with these parameters."""
    rows = b"".join(
        code.to_bytes(2, "big") + bytes([3, len(value)]) + value for code, value in values.items()
    )
    return bytes([number, 0]) + len(rows).to_bytes(2, "big") + rows


PAGES = {
    0x0D: log_page(0x0D, {0: bytes([0, 38]), 1: bytes([0, 65])}),
    2: log_page(2, {0: bytes(4), 6: bytes(4)}),
    3: log_page(3, {0: (9).to_bytes(4, "big"), 6: (70_000).to_bytes(8, "big")}),
}


def test_log_pages_say_what_smart_does() -> None:
    counters = {"uncorrected_write_errors": 0, "uncorrected_read_errors": 70_000}
    assert of_log_pages(PAGES.get) == Health(38.0, 65.0, counters)
    assert not of_log_pages(lambda _: None).known
    unknown = log_page(0x0D, {0: bytes([0, 0xFF]), 1: bytes([0, 0xFF])})
    assert not of_log_pages({0x0D: unknown}.get).known, "FFh is no temperature"


@pytest.mark.parametrize("number", PAGES)
def test_a_log_page_that_is_cut_says_what_is_whole(number: int) -> None:
    whole = of_log_pages({number: PAGES[number]}.get)
    for length in range(len(PAGES[number])):
        said = of_log_pages({number: PAGES[number][:length]}.get)
        assert said.temperature_c in (None, whole.temperature_c)
        assert said.counters.items() <= whole.counters.items()


def test_a_file_has_neither(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"")
    assert not health_of(str(tmp_path / "x")).known
    assert read_log_page(str(tmp_path / "x"), 0x0D) is None
    assert read_smart(str(tmp_path / "x")) is None and read_smart(str(tmp_path / "none")) is None


def test_a_disk_behind_another_adapter_is_not_asked(tmp_path: Path) -> None:
    folder = tmp_path / "devices/host0/port-0:0/block/sda"
    (folder / "device").mkdir(parents=True)
    (folder / "device/vendor").write_text("ATA     \n")
    assert not health._is_ata(folder)


def test_a_limit_that_no_disk_has_is_none(disk: Path, tmp_path: Path) -> None:
    sensor = disk / "device/hwmon/hwmon3"
    (sensor / "temp1_input").write_text("38000\n")
    for shown in ("0\n", "-1000\n", "255000\n", "1000\n"):
        (sensor / "temp1_max").write_text(shown)
        assert health_of("/dev/null", tmp_path, lambda _: None).limit_c is None


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """The folder in a fake sysfs of the disk that /dev/null stands for."""
    number = os.stat("/dev/null").st_rdev
    folder = tmp_path / "devices/ata1/block/sda"
    (folder / "device/hwmon/hwmon3").mkdir(parents=True)
    (tmp_path / "sys/dev/block").mkdir(parents=True)
    (tmp_path / f"sys/dev/block/{os.major(number)}:{os.minor(number)}").symlink_to(folder)
    return folder


def test_the_sensor_comes_before_smart(disk: Path, tmp_path: Path) -> None:
    def given(path: str) -> bytes:
        assert path == "/dev/null"
        return smart(HEALTHY)

    assert not health_of("/dev/null", tmp_path, given).known, "no ATA disk: it is not asked"
    (disk / "device/vendor").write_text("ATA     \n")
    assert health_of("/dev/null", tmp_path, given).temperature_c == 43.0
    sensor = disk / "device/hwmon/hwmon3"
    (sensor / "temp1_input").write_text("38000\n")
    (sensor / "temp1_crit").write_text("70000\n")
    assert health_of("/dev/null", tmp_path, lambda _: None) == Health(38.0, 70.0, {})
    (sensor / "temp1_max").write_text("55000\n")
    found = health_of("/dev/null", tmp_path, given)
    assert (found.temperature_c, found.limit_c, found.counters["crc_errors"]) == (38.0, 55.0, 70_000)


@pytest.mark.parametrize(
    ("vendor", "kind", "folder", "is_asked"),
    [
        ("SEAGATE", "0", "devices/host0/block/sda", True),
        ("SEAGATE", "20", "devices/host0/block/sda", True),
        ("ATA", "0", "devices/host0/block/sda", False),
        ("SEAGATE", "5", "devices/host0/block/sda", False),
        ("SEAGATE", "0", "devices/usb2/2-1/block/sda", False),
    ],
)
def test_log_pages_are_asked_of_scsi_disks(
    vendor: str, kind: str, folder: str, is_asked: bool, tmp_path: Path
) -> None:
    number, disk = os.stat("/dev/null").st_rdev, tmp_path / folder
    (disk / "device").mkdir(parents=True)
    (disk / "device/vendor").write_text(f"{vendor:8}\n")
    (disk / "device/type").write_text(f"{kind}\n")
    (tmp_path / "sys/dev/block").mkdir(parents=True)
    (tmp_path / f"sys/dev/block/{os.major(number)}:{os.minor(number)}").symlink_to(disk)
    asked = health_of("/dev/null", tmp_path, lambda _: None, lambda _, page: PAGES[page])
    assert asked.known == is_asked


def test_a_partition_is_its_disk(disk: Path, tmp_path: Path) -> None:
    part = disk / "sda1"
    part.mkdir()
    (part / "partition").write_text("1\n")
    number = os.stat("/dev/null").st_rdev
    link = tmp_path / f"sys/dev/block/{os.major(number)}:{os.minor(number)}"
    link.unlink()
    link.symlink_to(part)
    (disk / "device/hwmon/hwmon3/temp1_input").write_text("38000\n")
    assert health_of("/dev/null", tmp_path).temperature_c == 38.0


class TestWatch:
    def look(
        self, shown: list[Health], folder: Path, patch: pytest.MonkeyPatch, kind: str = "device"
    ) -> None:
        """Looks once for each of these."""
        patch.setattr(health, "health_of", lambda path: shown.pop(0))
        watch = HealthWatch(TargetFacts(kind, "/dev/sdx", 1 << 40, 512, {}), folder)
        for number in range(len(shown)):
            watch.look("rotation", f"look {number}")

    def test_each_look_is_recorded(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        same = {"crc_errors": 7}
        self.look([Health(40.0, None, same), Health(60.0, None, same)], tmp_path, monkeypatch)
        rows = [json.loads(line) for line in (tmp_path / HEALTH).read_text().splitlines()]
        assert [row["temperature_c"] for row in rows] == [40.0, 60.0]
        assert rows[0]["test"] == "rotation" and rows[1]["crc_errors"] == 7

    @pytest.mark.parametrize(
        ("now", "why"),
        [
            (Health(61.0, None, {}), r"at 61 °C, above the limit of a disk that states none \(60 °C\)"),
            (Health(56.0, 55.0, {}), r"at 56 °C, above the limit that it states \(55 °C\)"),
            (Health(40.0, None, {"pending_sectors": 9}), r"counts 2 new pending sectors .* \(9 in all\)"),
        ],
    )
    def test_what_should_not_be_asked_for_more_ends_the_run(
        self, now: Health, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = Health(40.0, None, {"pending_sectors": 7, "crc_errors": 1})
        with pytest.raises(TargetError, match=why):
            self.look([first, now], tmp_path, monkeypatch)
        assert len((tmp_path / HEALTH).read_text().splitlines()) == 2, "the evidence has the reason"

    def test_one_empty_look_does_not_end_the_watch(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with pytest.raises(TargetError, match="at 99 °C"):
            self.look([Health(40.0), Health(), Health(99.0)], tmp_path, monkeypatch)
        rows = [json.loads(line) for line in (tmp_path / HEALTH).read_text().splitlines()]
        assert [row["temperature_c"] for row in rows] == [40.0, None, 99.0]
        assert all(row["time"].endswith("+00:00") for row in rows)

    def test_a_counter_that_shows_later_is_watched(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shown = [Health(40.0), Health(40.0, None, {"crc_errors": 1}), Health(40.0, None, {"crc_errors": 2})]
        with pytest.raises(TargetError, match="counts 1 new crc errors"):
            self.look(shown, tmp_path, monkeypatch)

    def test_growth_during_an_interruption_stops_once(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.look([Health(40.0, None, {"crc_errors": 1})], tmp_path, monkeypatch)
        with (tmp_path / HEALTH).open("a") as file:
            file.write("[" * 100_000 + '\n{"test": "rot')
        grown = Health(99.0, None, {"crc_errors": 4})
        with pytest.raises(TargetError, match="counts 3 new crc errors"):
            self.look([grown], tmp_path, monkeypatch)
        self.look([Health(40.0, None, grown.counters)], tmp_path, monkeypatch)

    def test_what_shows_nothing_is_not_asked_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.look([Health(), Health(99.0)], tmp_path, monkeypatch)
        self.look([Health(99.0)], tmp_path, monkeypatch, "file")
        assert not (tmp_path / HEALTH).exists()
