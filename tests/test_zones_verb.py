"""`skylight zones` and what it prints: looks, charts, runs, pictures, refusals."""

import json
import re
import signal
from pathlib import Path

import numpy as np
import pytest

from nbd_client import NbdError
from serving import SMALL, Served, need_native, small_profile
from skylight.cli.app import run
from skylight.evidence import FAILURES, IoBatch, IoLog, Op
from skylight.zoned.text_chart import MOST_ROWS, chart_of
from skylight.zoned.zone_symbols import (
    LOOKS,
    chosen,
    condition_name,
    fill_of,
    looks_of,
    runs,
    type_name,
    written_bytes,
)
from skylight.zoned.zones import NO_POINTER, ZoneCondition, ZoneLayout, Zones

MIB = 1 << 20
ZONE = 256 * MIB
CONVENTIONAL, EMPTY, IMPLICIT, EXPLICIT, CLOSED, FULL = (
    ZoneCondition.NOT_WRITE_POINTER,
    ZoneCondition.EMPTY,
    ZoneCondition.IMPLICIT_OPEN,
    ZoneCondition.EXPLICIT_OPEN,
    ZoneCondition.CLOSED,
    ZoneCondition.FULL,
)


def zones_in(conditions: list[int], *, kind: int = 2, capacity: int = ZONE) -> Zones:
    """Zones in these conditions; those with a write pointer in their middle have it there."""
    count = len(conditions)
    start = np.arange(count, dtype=np.uint64) * np.uint64(ZONE)
    condition = np.array(conditions, np.uint8)
    half = capacity // 2
    below: dict[int, int] = {EMPTY: 0, IMPLICIT: half, EXPLICIT: half, CLOSED: half // 2, FULL: ZONE}
    pointer = np.array(
        [int(start[n]) + below[c] if c in below else int(NO_POINTER) for n, c in enumerate(conditions)],
        np.uint64,
    )
    return Zones(
        start, np.full(count, ZONE, np.uint64),
        np.where(condition == CONVENTIONAL, ZONE, capacity).astype(np.uint64), pointer,
        np.where(condition == CONVENTIONAL, 1, kind).astype(np.uint8), condition, np.zeros(count, np.bool_),
        np.zeros(count, np.bool_),
    )  # fmt: skip


def symbols(zones: Zones, columns: int = 90) -> list[str]:
    return ["".join(LOOKS[look].symbol for look in row) for _, row in chart_of(zones, columns).rows]


def test_each_condition_has_its_own_character() -> None:
    assert len({look.symbol for look in LOOKS}) == len({look.name for look in LOOKS}) == len(LOOKS)
    zones = zones_in([CONVENTIONAL, EMPTY, IMPLICIT, EXPLICIT, CLOSED, FULL, ZoneCondition.READ_ONLY, 0xF, 7])
    assert symbols(zones) == ["=.oOc#rX?"]
    assert condition_name(7) == "reserved (7h)" and type_name(9) == "reserved (9h)"


def test_a_non_sequential_zone_is_shown_as_that_unless_it_is_lost() -> None:
    zones = zones_in([CLOSED, FULL, EMPTY, ZoneCondition.OFFLINE], kind=3)
    zones.non_sequential[:] = [True, True, False, True]
    assert symbols(zones) == ["~~.X"]


def test_a_group_shows_its_most_notable_zone_and_the_legend_counts_all() -> None:
    conditions = [int(EMPTY)] * 29_809
    conditions[:64] = [int(CONVENTIONAL)] * 64
    conditions[20_001] = int(EXPLICIT)
    conditions[20_003] = int(FULL)
    chart = chart_of(zones_in(conditions), 90)
    assert chart.group == 20 and len(chart.rows) <= MOST_ROWS
    assert "".join(LOOKS[look].symbol for _, row in chart.rows for look in row)[1000] == "O"
    assert chart.rows[1][0] == 1800, "a row begins with the number of its first zone"
    assert [words for _, words in chart.legend] == [
        "empty (29,743)", "conventional (64)", "full (1)", "explicitly open (1)",
    ]  # fmt: skip
    assert sum(chart.counts) == 29_809


def test_the_share_that_is_written_is_of_the_capacity() -> None:
    zones = zones_in([CONVENTIONAL, EMPTY, CLOSED, FULL, ZoneCondition.OFFLINE], capacity=192 * MIB)
    assert written_bytes(zones).tolist() == [0, 0, 48 * MIB, 192 * MIB, 0]
    assert fill_of(zones).tolist() == [0, 0, 0.25, 1, 0]


def test_runs_end_where_anything_but_the_place_differs() -> None:
    zones = zones_in([CONVENTIONAL, CONVENTIONAL, EMPTY, EMPTY, EMPTY, CLOSED, CLOSED, FULL], kind=3)
    zones.write_pointer_bytes[6] += np.uint64(4096)
    zones.non_sequential[4] = True
    assert list(runs(zones)) == [(0, 2), (2, 4), (4, 5), (5, 6), (6, 7), (7, 8)]
    apart = zones.rows(np.array([0, 2, 4 - 1]))
    assert list(runs(apart)) == [(0, 1), (1, 3)]
    assert list(runs(zones.rows(slice(0, 0)))) == []


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((), [0, 1, 2, 3, 4, 5]),
        (("open",), [2, 3]),
        (("implicitly-open", "full"), [2, 5]),
        (("conventional",), [0]),
        (("non-sequential",), [4]),
        (("non-sequential", "empty"), [1, 4]),
        (("reset-recommended",), []),
    ],
)
def test_filters_add_up(names: tuple[str, ...], expected: list[int]) -> None:
    zones = zones_in([CONVENTIONAL, EMPTY, IMPLICIT, EXPLICIT, CLOSED, FULL], kind=3)
    zones.non_sequential[4] = True
    assert np.flatnonzero(chosen(zones, names)).tolist() == expected


class FakeDrive:
    """A drive whose zones take every action but that on zone 5, and that keeps what it was asked."""

    def __init__(self) -> None:
        self.zones = zones_in([CONVENTIONAL, CONVENTIONAL, EMPTY, IMPLICIT, CLOSED, FULL, *[EMPTY] * 26])
        self.asked: list[tuple[int, int, int]] = []
        self.closed = False

    def zone_layout(self) -> ZoneLayout:
        return ZoneLayout("host-managed", ZONE, len(self.zones), 2, 4, 8, None)

    def report_zones(self) -> Zones:
        return self.zones

    def non_sequential_zones(self) -> int:
        return int(np.count_nonzero(self.zones.non_sequential))

    def run(self, io: IoBatch) -> IoLog:
        row = (int(io.op[0]), int(io.offset[0]), int(io.size[0]))
        self.asked.append(row)
        result = 11 if row[1] == 5 * ZONE else 0
        zero = np.zeros(1, np.uint64)
        return IoLog(io.op, io.offset, io.size, zero, zero, np.array([result], np.uint64))

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def drive(monkeypatch: pytest.MonkeyPatch) -> FakeDrive:
    """A drive behind the target `/dev/zoned`."""
    made = FakeDrive()

    def opened(spec: str, *, destroy_data: bool = False) -> FakeDrive:
        made.asked.append((-1, int(destroy_data), 0))
        return made

    monkeypatch.setattr("skylight.engines.open_target", opened)
    return made


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = run(["zones", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_report_for_people(drive: FakeDrive, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = said(capsys, "/dev/zoned")
    assert (code, err, drive.closed) == (0, "", True)
    assert drive.asked == [(-1, 0, 0)], "a report changes nothing and asks for no leave"
    assert out.startswith("/dev/zoned: 32 zones of 256 MiB, host-managed\n")
    assert "open: 1 of at most 4" in out and "active (open or closed): 2 of at most 8" in out
    assert "==.oc#" + "." * 26 in out
    assert "=  conventional (2)" in out
    assert re.search(r"0 to 1 +0 B +256 MiB +conventional\n", out)
    assert re.search(r"6 to 31 +1\.61 GB +256 MiB +0 B +0 % +empty\n", out)
    assert re.search(r" 4 +1\.07 GB +256 MiB +64 MiB +25 % +closed\n", out)


def test_a_report_as_json(drive: FakeDrive, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said(
        capsys, "/dev/zoned", "report", "--json", "--filter", "closed", "--filter", "conventional"
    )
    document = json.loads(out)
    assert code == 0 and document["schema"] == 1
    assert document["layout"]["conventional_zones"] == 2
    assert [zone["zone"] for zone in document["zones"]] == [0, 1, 4]
    assert document["zones"][0]["write_pointer_bytes"] is None
    assert document["zones"][2] == {
        "zone": 4, "start_bytes": 4 * ZONE, "size_bytes": ZONE, "capacity_bytes": ZONE,
        "write_pointer_bytes": 4 * ZONE + ZONE // 4, "type": "sequential write required", "type_code": 2,
        "condition": "closed", "condition_code": 4, "reset_recommended": False, "non_sequential": False,
    }  # fmt: skip


def test_long_reports_are_cut_and_say_so(drive: FakeDrive, capsys: pytest.CaptureFixture[str]) -> None:
    drive.zones = zones_in([EMPTY, FULL] * 60)
    code, out, _ = said(capsys, "/dev/zoned")
    assert code == 0 and "80 more zones: --every prints all" in out
    code, out, _ = said(capsys, "/dev/zoned", "report", "--every")
    assert len(re.findall(r"256 MiB +(?:0 B +0|256 MiB +100) %", out)) == 120


def test_actions_are_commands_for_the_zones_that_are_named(
    drive: FakeDrive, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, "/dev/zoned", "open", "--zone", "2")[0] == 0
    assert drive.asked == [(-1, 1, 0), (Op.OPEN_ZONE, 2 * ZONE, ZONE)]
    drive.asked.clear()
    assert said(capsys, "/dev/zoned", "close", "--from", "3", "--to", "4")[0] == 0
    assert drive.asked[1:] == [(Op.CLOSE_ZONE, 3 * ZONE, ZONE), (Op.CLOSE_ZONE, 4 * ZONE, ZONE)]
    drive.asked.clear()
    assert said(capsys, "/dev/zoned", "reset", "--all", "--destroy-data")[0] == 0
    assert drive.asked[1:] == [(Op.RESET_ZONE, 0, 0)]


def test_the_first_failure_ends_an_action(drive: FakeDrive, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = said(capsys, "/dev/zoned", "open", "--from", "3", "--to", "9")
    assert (code, out) == (3, "")
    assert err == (
        f"skylight: /dev/zoned: open of zone 5 failed: {FAILURES[11]}; close, finish or reset another zone"
        " first; 2 zones before it are done\n"
    )
    assert len(drive.asked) == 1 + 3 and drive.closed


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ("reset", "--all"),
            "/dev/zoned: to reset zones of a device, give --destroy-data: their data is lost",
        ),
        (("finish", "--zone", "2"), "give --destroy-data: what is not written of them yet cannot be"),
        (("open",), "say which zones to open: --zone N, --from N --to N, or --all"),
        (("open", "--zone", "1", "--all"), "name zones once"),
        (("report", "--zone", "32"), "zones 32 to 32 are not on this drive, which has 0 to 31"),
        (("open", "--from", "9", "--to", "4"), "zones 9 to 4 are not on this drive"),
        (("report", "--picture", "zones.png"), "--picture zones.png: draws SVG"),
    ],
)
def test_wrong_use_is_refused_in_one_line(
    drive: FakeDrive, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], line: str
) -> None:
    code, out, err = said(capsys, "/dev/zoned", *words)
    assert (code, out) == (2, "") and line in err and err.count("\n") == 1
    assert all(op < 0 for op, _, _ in drive.asked), "nothing was done"


def test_targets_without_zones_are_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = tmp_path / "disk.img"
    image.write_bytes(bytes(4096))
    for target, words in (
        (str(image), "a file has no zones; if it is an image, serve it first"),
        ("sim:emulated-smr-1", "sim:emulated-smr-1: has no zones; name a host-managed or host-aware drive"),
        (str(tmp_path / "gone"), "no such device or file"),
    ):
        code, out, err = said(capsys, target)
        assert (code, out) == (2, "") and words in err and err.count("\n") == 1


def test_a_picture_shows_every_condition_and_is_the_same_twice(
    drive: FakeDrive, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drive.zones.non_sequential[5] = True
    pictures = []
    for number in range(2):
        path = tmp_path / str(number) / "zones.svg"
        path.parent.mkdir()
        code, out, _ = said(capsys, "/dev/zoned", "--picture", str(path))
        assert code == 0 and out.endswith(f"Picture: {path}\n")
        pictures.append(path.read_text())
    assert pictures[0] == pictures[1]
    for words in ("conventional (2)", "empty (27)", "implicitly open (1)", "dark corner: non-sequential (1)"):
        assert words in pictures[0]
    missing = tmp_path / "none" / "zones.svg"
    code, _, err = said(capsys, "/dev/zoned", "--picture", str(missing))
    assert code == 4 and "cannot be written" in err


ZONED = (
    'kind = "zoned"\nmodel = "host-managed"\nzone_size = "16 MiB"\nconventional_zones = 2\nmax_open_zones = 3'
)


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    """A drive of 16 zones, of which 3 can be open."""
    path = tmp_path / "zoned.toml"
    path.write_text(SMALL.format(layer=ZONED, write_cache="0 B"), encoding="utf-8")
    return path


def conditions(text: str) -> list[str]:
    return [zone["condition"] for zone in json.loads(text)["zones"]]


def test_a_simulated_drive_is_new_each_time(profile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = f"sim:{profile}"
    code, out, _ = said(capsys, target, "open", "--from", "2", "--to", "4", "--json")
    assert code == 0 and conditions(out) == ["explicitly open"] * 3
    assert conditions(said(capsys, target, "--json")[1]) == ["no write pointer"] * 2 + ["empty"] * 14
    code, out, err = said(capsys, target, "open", "--from", "2", "--to", "9")
    assert (code, out) == (3, "") and err == (
        f"skylight: {target}: open of zone 5 failed: insufficient zone resources; close, finish or reset"
        " another zone first; 3 zones before it are done\n"
    )


def test_a_served_drive_keeps_what_is_done_to_its_zones(
    profile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    need_native()
    with Served(tmp_path, profile) as served:
        image = str(served.image)
        assert said(capsys, image, "open", "--zone", "3")[0] == 0
        assert said(capsys, f"unix:{served.socket}", "finish", "--zone", "4")[0] == 0
        code, out, _ = said(capsys, str(served.control), "report", "--json", "--from", "3", "--to", "5")
        assert code == 0 and conditions(out) == ["explicitly open", "full", "empty"]
        code, out, err = said(capsys, image, "reset", "--zone", "0")
        assert (code, out) == (3, "") and err == (
            f"skylight: {image}: reset of zone 0 failed: invalid field in CDB; name a zone that has a write"
            " pointer; a full one cannot be opened\n"
        )
        assert said(capsys, image, "reset", "--all")[0] == 0
        assert set(conditions(said(capsys, image, "--json")[1])) == {"no write pointer", "empty"}
        served.stop()
    code, _, err = said(capsys, image)
    assert code == 2 and "a file has no zones; if it is an image, serve it first" in err


@pytest.mark.parametrize("timing", ["none", "model"])
def test_zones_of_a_served_drive_fail_when_they_are_asked_to(
    timing: str, profile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a drive's own do whose head fails; and what it then refuses, it also refuses once it is on again."""
    need_native()
    with Served(tmp_path, profile, "--timing", timing) as served:
        image, zone_bytes = str(served.image), 16 << 20
        data = bytes(range(256)) * 16
        served.client().write(4 * zone_bytes, data)
        changes = ("4:read-only", "5:offline", "6:reset-recommended")
        assert run(["control", image, *(word for each in changes for word in ("--zone", each))]) == 0
        assert capsys.readouterr().out == "zone 4 read-only\nzone 5 offline\nzone 6 reset-recommended\n"
        out = said(capsys, image, "report", "--json", "--from", "4", "--to", "6")[1]
        assert conditions(out) == ["read-only", "offline", "empty"]
        assert [zone["reset_recommended"] for zone in json.loads(out)["zones"]] == [False, False, True]
        for zone, why in ((4, "zone is read only"), (5, "zone is offline")):
            code, _, err = said(capsys, image, "reset", "--zone", str(zone))
            assert code == 3 and why in err
        assert served.client().read(4 * zone_bytes, 4096) == data
        with pytest.raises(NbdError):
            served.client().read(5 * zone_bytes, 4096)
        with pytest.raises(NbdError):
            served.client().write(4 * zone_bytes + 4096, data)
        served.stop(signal.SIGKILL)
    with Served(tmp_path, profile, "--timing", timing) as served:
        assert conditions(said(capsys, image, "--json")[1])[4:7] == ["read-only", "offline", "empty"]
        assert run(["control", image, "--zone", "4:writable"]) == 0
        capsys.readouterr()
        assert conditions(said(capsys, image, "--json")[1])[4] == "closed"
        for wrong, words in (
            ("16:offline", "zone 16: this drive has 16 zones; use 0 to 15"),
            ("0:reset-recommended", "zone 0: a conventional zone is never reset; use another one"),
            (
                "4:gone",
                "4:gone: not a zone and a state; use N:STATE with one of writable, read-only, offline",
            ),
        ):
            assert run(["control", image, "--zone", wrong]) != 0
            captured = capsys.readouterr()
            assert words in captured.err and captured.err.count("\n") == 1


def test_a_served_drive_without_zones_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    need_native()
    with Served(tmp_path, small_profile(tmp_path, "conventional")) as served:
        code, out, err = said(capsys, str(served.image))
        assert (code, out) == (2, "") and "the drive that is served there has no zones" in err
        assert run(["control", str(served.image), "--zone", "0:offline"]) != 0
        assert (
            "zone: this drive has no zones; serve a host-managed or host-aware one" in capsys.readouterr().err
        )


def test_looks_are_by_condition() -> None:
    names = [LOOKS[look].name for look in looks_of(zones_in([EMPTY, FULL, CONVENTIONAL]))]
    assert names == ["empty", "full", "conventional"]
