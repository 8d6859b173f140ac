"""``import skylight as sl``: the pages' examples, names and types, and tables that other tools take."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow
import pytest

import skylight as sl
from conftest import ROOT
from python_examples import run_examples
from serving import SKYLIGHT, need_native, run, small_profile
from skylight import api
from skylight.evidence import LOG_COLUMNS


@pytest.mark.parametrize("page", ["python.md", "gallery.md"])
def test_the_examples_of_a_page_run(page: str, tmp_path: Path) -> None:
    need_native()
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert run_examples(ROOT / "docs" / page, tmp_path) == text.count("```python")
    shown = re.findall(r"\(images/(gallery-\S+)\)", text)
    assert all((tmp_path / name).stat().st_size > 10_000 for name in shown)
    assert all((ROOT / "docs/images" / name).exists() for name in shown)


def test_an_example_that_says_otherwise_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\n>>> 1 + 1\n3\n```\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="Expected:\n    3"):
        run_examples(page, tmp_path)


def test_the_package_has_the_names_of_the_api_and_the_stub_declares_them() -> None:
    stub = (ROOT / "python/skylight/__init__.pyi").read_text(encoding="utf-8")
    assert re.findall(r"^from skylight\.api import (\w+) as \1$", stub, re.MULTILINE) == sorted(
        api.__all__, key=stub.index
    )
    assert set(api.__all__) <= set(dir(sl))
    assert all(getattr(sl, name) is getattr(api, name) for name in api.__all__)
    # A module of that name would take the place of the function once it is imported.
    assert not [name for name in api.__all__ if (ROOT / "python/skylight" / name).exists()]
    assert not [name for name in api.__all__ if (ROOT / "python/skylight" / f"{name}.py").exists()]
    with pytest.raises(AttributeError, match="nothing_like_this"):
        _ = sl.nothing_like_this  # type: ignore[attr-defined]  # that is the test


def test_importing_the_package_imports_nothing_else() -> None:
    code = "import skylight, sys; print([each for each in sys.modules if each[:5] in ('numpy', 'pyarr')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_log_is_a_table_without_a_copy() -> None:
    with sl.open("sim:st4000nc001") as drive:
        log = drive.read([0, 8192, 4096], 4096)
    table = sl.table(log)
    assert table.column_names == [*LOG_COLUMNS, "latency_ns"]
    for name in LOG_COLUMNS:
        column = table.column(name).to_numpy()
        assert np.array_equal(column, getattr(log, name)) and column.dtype == LOG_COLUMNS[name]
        assert np.shares_memory(table.column(name).chunk(0).to_numpy(), getattr(log, name))
    # The interface by which pandas, polars and DuckDB take it.
    assert pyarrow.RecordBatchReader.from_stream(table).read_all().equals(table)


def test_wrong_use_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(sl.UsageError, match="no drive is called 'nosuch'"):
        sl.open("sim:nosuch")
    with pytest.raises(sl.UsageError, match="no such recording"):
        sl.read(tmp_path / "nosuch")
    with pytest.raises(sl.UsageError, match="--look-ahead needs --timing model"):
        sl.serve("emulated-smr-1", tmp_path / "a.img", look_ahead=True)
    assert list(tmp_path.iterdir()) == []
    file = tmp_path / "file"
    file.write_bytes(b"")
    os.truncate(file, 64 << 20)
    with sl.open(str(file)) as drive, pytest.raises(sl.SkylightError):
        drive.write([0])


def test_what_is_served_is_stopped_at_the_end_of_the_program(tmp_path: Path) -> None:
    profile, image = small_profile(tmp_path, "journaled"), tmp_path / "a.img"
    # A thread that outlives the program keeps what it holds.
    script = (
        "import skylight as sl, threading, time\n"
        "from nbd_client import NbdClient\n"
        f"held = sl.serve({str(profile)!r}, {str(image)!r})\n"
        "NbdClient(held.uri.partition('=')[2]).write(0, bytes(4096))\n"
        "threading.Thread(target=lambda held: time.sleep(600), args=(held,), daemon=True).start()\n"
    )
    run([sys.executable, "-c", script], cwd=ROOT / "tests")
    assert "not cleanly" not in run([*SKYLIGHT, "image", "info", str(image)])
    served = sl.serve("-", image)
    served.stop()
    with pytest.raises(sl.TargetError, match="is not served any more"):
        served.status()
